"""Decisions with the lowest expected cost, and their mean cost."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from skcalib._input.arrays import as_numpy, check_in_memory, column_names
from skcalib._input.classes import in_class_order
from skcalib._input.column_order import check_column_names, check_label_order
from skcalib._input.labels import shown
from skcalib._input.logits import FLOATS, check_weights
from skcalib._input.measures import check_measure, check_probability_rows, columns_of
from skcalib._input.parameters import check_real
from skcalib._rows import map_blocks
from skcalib._scores.isotonic import isotonic_blocks
from skcalib._typing import Array, ArrayLike, Floats, Indices

# Two expected costs with a smaller difference are equal up to rounding. The difference is relative
# to the expected sizes of the costs: relative to the largest cost, all decisions would be equal if
# a decision that is not allowed costs 1e15.
EQUAL_COSTS = 1e-12

# Sums of costs up to this size are finite.
LARGEST_COST = 1e300


def bayes_decision(y_proba: ArrayLike, cost: ArrayLike) -> Indices:
    r"""Return the Bayes decision for each row: the decision with the lowest expected cost.

    Deciding j costs :math:`C_{kj}` if class k is true. The decision for a row with probabilities
    :math:`p_k` is [1]_

    .. math:: \arg\min_j \sum_k p_k\, C_{kj} .

    It minimizes the mean cost if the probabilities are calibrated. For two classes and two
    decisions it is 1 if

    .. math:: p_1 > \frac{C_{01} - C_{00}}{C_{01} - C_{00} + C_{10} - C_{11}} .

    Parameters
    ----------
    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Probabilities: one column per class, or for two classes the probability of the second.
    cost : array-like of shape (n_classes, n_decisions) or (n_samples, n_classes, n_decisions)
        Costs: a row for each true class, in the order of the columns of ``y_proba``, and a column
        for each decision. Or one matrix for each row. Decisions need not be classes: an additional
        column may be the cost of asking a person. Gains are negative costs. Rows of a data frame,
        a dict or a Series with the names of the classes may have any order.

    Returns
    -------
    ndarray of shape (n_samples,)
        Columns of ``cost``. Ties go to the first decision.

    Raises
    ------
    ValueError
        If probabilities are invalid, or if the costs are not finite or have another shape.

    See Also
    --------
    expected_cost : Mean cost of these decisions.

    References
    ----------
    .. [1] Elkan, "The Foundations of Cost-Sensitive Learning", IJCAI 2001.

    Examples
    --------
    Missing a fraud costs 100, asking the customer 3, and blocking a payment that is none 10:

    >>> from skcalib.decision import bayes_decision
    >>> cost = [[0, 3, 10], [100, 3, 0]]  # rows: honest, fraud; columns: pay, ask, block
    >>> bayes_decision([0.01, 0.2, 0.9], cost)
    array([0, 1, 2])
    """
    rows, names = check_probability_rows(y_proba), column_names(y_proba)
    named = len(names) == len(rows.classes)
    cost = _in_class_order(cost, np.array(names, dtype=object) if named else rows.classes)
    costs = _as_numbers(cost)
    if _has_names(cost):
        check_label_order(cost.T, y_proba, "cost.T", "y_proba")  # type: ignore[union-attr]
    _check_costs(costs, len(rows.classes), rows.n_rows)
    if costs.ndim == 2:
        return np.asarray(map_blocks(partial(_decide, costs=costs), rows.X))
    return np.asarray(map_blocks(_decide, rows.X, costs))


def expected_cost(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    cost: ArrayLike,
    *,
    capacity: float | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    r"""Compute the mean cost of Bayes decisions.

    :func:`bayes_decision` decides each row from its probabilities :math:`p_i`, and the label
    determines the cost:

    .. math:: \frac{1}{N} \sum_i w_i\, C_{y_i\, d_i}, \quad
        d_i = \arg\min_j \sum_k p_{ik}\, C_{kj} .

    As a function of the probabilities the mean cost is a proper scoring rule: on average no
    probabilities cost less than the true probabilities. Probabilities that are not calibrated cost
    more, even if they rank the rows in the same order.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels.
    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Probabilities: one column per class, ordered as ``labels``, or for two classes the
        probability of ``pos_label`` alone.
    cost : array-like of shape (n_classes, n_decisions) or (n_samples, n_classes, n_decisions)
        Costs: a row for each true class, ordered as ``labels``, and a column for each
        decision. Or one matrix for each row, or rows with names, as for :func:`bayes_decision`.
    capacity : float, default=None
        Number of rows that may get the second decision, such as the number of cases that people
        can check. The rows with the largest expected gain get it, if the gain is positive.
        Rows with equal gains share the remaining capacity. Weights count as numbers of rows.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight 2 equals the row twice, weight 0 equals the row left out.
    labels : array-like of shape (n_classes,), default=None
        All labels in column order. By default the sorted labels in ``y_true``.
    pos_label : label, default=None
        Class of one-dimensional probabilities, as for :func:`reliability_curve`. The rows of
        ``cost`` are always ordered as ``labels``.

    Returns
    -------
    float
        Mean cost of a row.

    Raises
    ------
    ValueError
        As :func:`reliability_curve` and :func:`bayes_decision`. Also if ``capacity`` is negative,
        or is passed without exactly two decisions.

    References
    ----------
    .. [1] Elkan, "The Foundations of Cost-Sensitive Learning", IJCAI 2001.

    Examples
    --------
    >>> from skcalib.decision import expected_cost
    >>> cost = [[0, 3, 10], [100, 3, 0]]  # rows: honest, fraud; columns: pay, ask, block
    >>> expected_cost([0, 0, 1], [0.2, 0.01, 0.9], cost)
    1.0
    >>> y = ["honest", "honest", "fraud"]
    >>> expected_cost(y, [0.2, 0.01, 0.9], cost, labels=["honest", "fraud"])
    1.0

    One of the payments can be checked for 3:

    >>> expected_cost([0, 0, 1], [0.2, 0.01, 0.9], [[0, 3], [100, 3]], capacity=1)
    1.0
    """
    rows = check_measure(y_true, y_proba, sample_weight, labels, pos_label, keep_classes=True)
    classes = rows.classes
    cost = _in_class_order(cost, classes)
    costs = _as_numbers(cost)
    if capacity is not None:
        check_real("capacity", capacity, closed=True)
        check_in_memory([y_true, y_proba, sample_weight])
        if costs.shape[-1:] != (2,):
            raise ValueError(
                "capacity is for two decisions, the last axis of cost, got cost of shape "
                f"{costs.shape}. Leave it out, or pass the costs of two decisions."
            )
    if _has_names(cost):
        check_column_names(cost.T, classes, "cost.T", param="labels")  # type: ignore[union-attr]
    if costs.ndim != 3:
        _check_costs(costs, len(classes), rows.n_rows)
        if capacity is not None:
            return _cost_within(capacity, costs, rows.X, rows.y, rows.w) / rows.weight
        total = rows.sum(lambda P, y, w: np.sum(_row_costs(P, y, costs) * (1 if w is None else w)))
        return float(total / rows.weight)
    check_in_memory([y_true, y_proba, sample_weight])
    n_rows = np.shape(y_true)[0]
    _check_costs(costs, len(classes), n_rows)
    w = check_weights(sample_weight, n_rows)
    if w is not None and rows.n_rows < n_rows:  # the checks dropped rows of weight 0
        costs = costs[w > 0]
    if capacity is not None:
        return _cost_within(capacity, costs, rows.X, rows.y, rows.w) / rows.weight
    row_costs = map_blocks(_row_costs, rows.X, rows.y, costs)
    return float(np.average(row_costs, weights=rows.w))


def _as_numbers(cost: ArrayLike) -> Floats:
    """Convert costs to an array of numbers."""
    try:
        costs = np.asarray(as_numpy(cost, "cost"))
        if costs.dtype in FLOATS:
            return costs
        return costs.astype(np.float64, casting="unsafe" if costs.dtype == "O" else "same_kind")
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            "cost must be an array of numbers, with a row for each true class and a column for "
            f"each decision, got {type(cost).__name__}: {str(error).rstrip('.')}."
        ) from error


def _in_class_order(cost: Any, classes: Array) -> Any:
    """Return costs with rows in class order, if the rows have the names of classes.

    Costs are a data frame, or a dict or a Series of rows. Raise a ValueError if some names are
    classes and some classes have no name, or if the classes are the names of columns only.
    """
    if not _has_names(cost):
        rows = in_class_order(cost, classes, "cost")
        is_named = rows is not cost and all(isinstance(row, dict) for row in rows)
        return [[row.get(name, np.nan) for name in rows[0]] for row in rows] if is_named else rows
    names, columns, labels = cost.index.tolist(), cost.columns.tolist(), set(classes.tolist())
    if names == list(range(len(names))) and labels.isdisjoint(columns):
        return cost
    if not labels.isdisjoint(names):
        by_name = in_class_order(dict(zip(names, range(len(names)), strict=True)), classes, "cost")
        return cost.iloc[by_name]
    if labels <= set(columns) and columns != list(range(len(columns))):
        raise ValueError(
            f"cost must have a row for each true class, got the classes {shown(classes)} in the "
            "columns. Pass cost.T."
        )
    return cost


def _has_names(cost: Any) -> bool:
    """Return whether the costs are a data frame with names of rows, which may be classes."""
    return hasattr(cost, "index") and hasattr(cost, "columns")


def _check_costs(costs: Floats, n_classes: int, n_rows: int) -> None:
    if costs.ndim not in {2, 3} or costs.shape[-2] != n_classes or not costs.shape[-1]:
        raise ValueError(
            f"cost must have a row for each of the {n_classes} true classes and a column for each "
            f"decision, shape ({n_classes}, n_decisions), or such a matrix for each row of "
            f"y_proba, got shape {costs.shape}."
        )
    if costs.ndim == 3 and len(costs) != n_rows:
        raise ValueError(
            f"cost must have one matrix, or one for each of the {n_rows} rows, got shape "
            f"{costs.shape}. Pass a matrix for each row of y_proba."
        )
    if not (np.abs(costs) <= np.float64(LARGEST_COST)).all():  # float32 would overflow
        raise ValueError(
            f"cost must be finite, and no larger than {LARGEST_COST:g} in size, got NaN, infinity "
            "or more. For a decision that is not allowed use a cost above all others."
        )


# In these functions of blocks, P is (m, K) or (m,), and costs are (K, n_decisions), or
# (m, K, n_decisions) with a matrix for each row.
def _decide(P: Floats, costs: Floats) -> Indices:
    """Return the decisions (m,) with the lowest expected cost."""
    expected = _expected(P, costs)
    rounding = EQUAL_COSTS * (_expected(P, np.abs(costs)) if costs.min() < 0 else expected)
    ties = expected - rounding <= np.min(expected + rounding, axis=1, keepdims=True)
    return ties.argmax(axis=1)


def _expected(P: Floats, costs: Floats) -> Floats:
    """Return the expected cost (m, n_decisions) of each decision."""
    P = (P if P.ndim == 2 else np.stack([1 - P, P], axis=1)).astype(np.float64)
    if costs.ndim == 2:
        return P @ costs.astype(np.float64)
    return np.asarray(np.einsum("nk,nkd->nd", P, costs))


def _row_costs(P: Floats, y: Indices, costs: Floats) -> Floats:
    """Return the costs (m,) of the decisions for the labels."""
    decisions = _decide(P, costs)
    chosen = costs[y, decisions] if costs.ndim == 2 else costs[np.arange(len(y)), y, decisions]
    return chosen.astype(np.float64)


def _cost_within(capacity: float, costs: Floats, P: Floats, y: Indices, w: Floats | None) -> float:
    """Sum weighted costs, if rows with a total weight of ``capacity`` may get the second decision.

    Costs are (K, 2) or (n, K, 2), ``P`` probabilities (n, K) or (n,), ``y`` (n,) and ``w`` (n,).
    """
    expected, w = _expected(P, costs), np.ones(len(y)) if w is None else w
    gains, ties = np.unique(expected[:, 1] - expected[:, 0], return_inverse=True)
    # Differences of costs increase: the largest gains come first, and ties share the rest.
    weight = np.bincount(ties, w)
    left = capacity - (np.cumsum(weight) - weight)
    share = np.where(gains < 0, np.clip(left / weight, 0, 1), 0.0)[ties]
    first, second = (costs[y] if costs.ndim == 2 else costs[np.arange(len(y)), y]).T
    return float(w @ (first + share * (second - first)))


def calibration_decision_loss(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    r"""Return the largest decision loss that isotonic recalibration would save.

    A false positive costs the threshold t, and a false negative costs :math:`1 - t`, so that rows
    with a risk of at least t are positive. The mean cost is :math:`L_p` for the risks p, and
    :math:`L_q` for the risks q after isotonic regression on the same rows. The loss is

    .. math:: \max_t \, L_p(t) - L_q(t) = \max_t \,
        (1 - t)\, (\mathrm{NB}_q(t) - \mathrm{NB}_p(t))

    with the :func:`~skcalib.clinical.net_benefit`.

    Parameters
    ----------
    y_true, y_proba, sample_weight, labels, pos_label
        As for :func:`reliability_curve`, with two classes.

    Returns
    -------
    float
        Between 0 and 1. 0 if isotonic regression changes no decision for the better.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`, and for more than two classes.

    References
    ----------
    .. [1] Hu, Wu, "Predict to Minimize Swap Regret for All Payoff-Bounded Tasks", FOCS 2024,
       `arXiv:2404.13503 <https://arxiv.org/abs/2404.13503>`_, where all recalibrations count.

    Examples
    --------
    >>> from skcalib.decision import calibration_decision_loss
    >>> y, p = [0, 0, 1, 1], [0.6, 0.6, 0.9, 0.9]
    >>> round(calibration_decision_loss(y, p), 2)  # of two false positives at the threshold 0.6
    0.3
    """
    (rows,) = columns_of(y_true, y_proba, "binary", sample_weight, labels, pos_label).ranked(
        lambda rows: rows
    )
    blocks = isotonic_blocks(rows)
    q = np.repeat(blocks.value, blocks.end - blocks.start + 1)
    missed = np.append(0.0, np.cumsum(rows.hits))
    alarms = np.append(np.cumsum((rows.weight - rows.hits)[::-1])[::-1], 0.0)

    def loss(t: Floats, first: Indices) -> Floats:
        """Return costs at thresholds if scores from an index upwards are positive."""
        return t * alarms[first] + (1 - t) * missed[first]

    # Only scores need be tried: between two scores the difference is convex in t.
    t, first = rows.scores, np.arange(len(rows.scores))
    before = np.maximum(loss(t, first), loss(t, first + 1))
    saved = before - loss(t, np.searchsorted(q, t))
    return float(np.max(saved) / rows.weight.sum())
