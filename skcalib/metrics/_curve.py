"""Reliability curves: bins of scores with their confidence and accuracy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import betaincinv

from skcalib._input.arrays import check_in_memory
from skcalib._input.groups import group_numbers
from skcalib._input.measures import OF_EACH, ScoreColumns, Scored, columns_of
from skcalib._input.parameters import check_integer, check_option, check_real
from skcalib._scores.bins import BinSums, bin_index, bin_sums, closed, quantile_edges, uniform_edges
from skcalib._typing import Array, ArrayLike, Floats, Indices, Kind, NBins, Strategy

from ._groups import inflation


@dataclass(frozen=True)
class ReliabilityCurve:
    """Bins of a reliability diagram, with one entry per non-empty bin.

    Attributes
    ----------
    lower, upper : ndarray of shape (n,)
        Edges: the bin holds the scores ``s`` with ``lower < s <= upper``, the first one also 0.
    n_samples : ndarray of shape (n,)
        Number of rows.
    weight : ndarray of shape (n,)
        Sum of weights; ``n_samples`` without weights.
    confidence : ndarray of shape (n,)
        Mean score.
    accuracy : ndarray of shape (n,)
        Weighted frequency of the event.
    n_effective : ndarray of shape (n,)
        Number of independent rows with equal weights that would estimate the accuracy with the same
        variance: ``sum(w)**2 / sum(w**2)``, ``n_samples`` without weights, and less with groups.
    label : ndarray of shape (n,) or None
        Class or label with ``kind="classwise"`` or ``"multilabel"``, the last class in the event
        with ``"cumulative"``, else None.
    kind : str
        Score and event, as for :func:`reliability_curve`, never "auto".
    n_groups : ndarray of shape (n,) or None
        Effective number of groups with rows in the bin: a few groups with most rows count as
        few. None without groups.
    """

    lower: Floats
    upper: Floats
    n_samples: Floats
    weight: Floats
    confidence: Floats
    accuracy: Floats
    n_effective: Floats
    label: Array | None = None
    kind: Kind = "top-label"
    n_groups: Floats | None = None

    @property
    def gap(self) -> Floats:
        """Confidence minus accuracy, positive where the model is over-confident."""
        return self.confidence - self.accuracy

    @property
    def share(self) -> Floats:
        """Weight as a share of the total weight."""
        return self.weight / self.weight.sum()

    def interval(self, confidence_level: float = 0.95) -> tuple[Floats, Floats]:
        """Compute the Clopper-Pearson interval for the accuracy in each bin.

        Parameters
        ----------
        confidence_level : float, default=0.95
            Between 0 and 1.

        Returns
        -------
        low, high : ndarray of shape (n,)
            Ends of the interval. With weights or groups, the effective number of rows replaces
            their number. With groups it is reduced by the squared ratio between the quantiles of
            the normal and the t distribution [2]_.

        References
        ----------
        .. [1] Clopper, Pearson, "The use of confidence or fiducial limits illustrated in the
           case of the binomial", Biometrika 26, 1934.
        .. [2] Korn, Graubard, "Confidence Intervals for Proportions With Small Expected Number of
           Positive Counts Estimated From Survey Data", Survey Methodology 24, 1998.
        """
        check_real("confidence_level", confidence_level, high=1)
        n = self.n_effective
        if self.n_groups is not None:
            few = inflation(confidence_level, np.maximum(self.n_groups - 1, 1))
            n = n * np.where(n < self.n_samples, few**-2, 1.0)
        return clopper_pearson(self.accuracy, n, confidence_level)


def clopper_pearson(rate: Any, n: Any, confidence_level: float) -> tuple[Floats, Floats]:
    """Compute Clopper-Pearson intervals for rates in n rows; n may be an effective number."""
    tail = (1 - confidence_level) / 2
    hits, misses = rate * n, (1 - rate) * n
    # The quantiles of a beta distribution with a parameter of zero are 0 or 1.
    none, all_ = rate <= 0, rate >= 1
    low = betaincinv(np.where(none, 1, hits), misses + 1, tail)
    high = betaincinv(hits + 1, np.where(all_, 1, misses), 1 - tail)
    return np.where(none, 0.0, low), np.where(all_, 1.0, high)


def curves_of(
    columns: ScoreColumns, n_bins: NBins, strategy: Strategy
) -> Iterator[ReliabilityCurve]:
    """Return the curve of each column."""
    edges, sums = sums_of(columns, n_bins, strategy)
    return map(partial(curve_from_sums, kind=columns.kind), columns.labels, edges, sums)


def sums_of(
    columns: ScoreColumns, n_bins: NBins, strategy: Strategy
) -> tuple[list[Floats], Floats]:
    """Return the edges for each column, and sums over rows (n_columns, 5, n_bins)."""
    edges = edges_of(columns, n_bins, strategy)
    # Columns with equal edges share one array, which bin_sums assigns to bins at once.
    is_shared = len(set(map(id, edges))) == 1
    shared = closed(edges[0], strategy) if is_shared else [closed(e, strategy) for e in edges]
    most = max(map(len, edges)) - 1
    return edges, columns.sums(partial(bin_sums, edges=shared, n_bins=most))


def edges_of(columns: ScoreColumns, n_bins: NBins, strategy: Strategy) -> list[Floats]:
    """Return bin edges for each column, one shared array unless bins have equal weights."""
    check_option("strategy", strategy, Strategy)
    if np.ndim(n_bins):
        edges = np.asarray(n_bins, dtype=np.float64)
        increases = edges.ndim == 1 and len(edges) > 1 and bool((np.diff(edges) > 0).all())
        if not (increases and edges[0] == 0 and edges[-1] == 1):
            raise ValueError(
                "Edges in n_bins must increase from 0 to 1, as [0, 0.1, 0.5, 1] do, got "
                f"{n_bins!r}. Pass an integer for the number of bins."
            )
        return [edges] * len(columns.labels)
    if isinstance(n_bins, str):
        check_option("n_bins", n_bins, ["cube_root"])
        n_bins = int(np.ceil(round(columns.rows.n_rows ** (1 / 3), 9)))
    check_integer("n_bins", n_bins)
    number = int(n_bins)  # type: ignore[arg-type]
    if strategy == "uniform":
        return [uniform_edges(number)] * len(columns.labels)
    return columns.ranked(lambda rows: quantile_edges(rows, number), events=False)


def curve_from_sums(
    label: Any, edges: Floats, sums: Floats | BinSums, *, kind: Kind = "binary"
) -> ReliabilityCurve:
    """Return the non-empty bins, from the rows of :class:`BinSums`."""
    filled = np.flatnonzero(sums[1] > 0)
    labels = None if label is None else np.full(len(filled), label)
    sums = np.asarray(sums)[:, filled]
    return curve_of_bins(edges[filled], edges[filled + 1], sums, labels, kind)


def curve_of_bins(
    lower: Floats, upper: Floats, sums: Floats, labels: Array | None, kind: Kind
) -> ReliabilityCurve:
    """Return the curve for the edges (n,) and sums (5, n) of non-empty bins."""
    count, weight, weight_squared, hits, scores = sums
    return ReliabilityCurve(
        lower=lower,
        upper=upper,
        n_samples=count,
        weight=weight,
        confidence=scores / weight,
        accuracy=hits / weight,
        n_effective=effective_rows(count, weight, weight_squared),
        label=labels,
        kind=kind,
    )


def effective_rows(count: Floats, weight: Floats, weight_squared: Floats) -> Floats:
    """Count the rows with equal weights that would estimate accuracies with the same variance."""
    # Squares underflow for weights below 1e-162, which have no effect beside larger weights.
    is_normal = weight_squared > 0
    n = np.divide(weight**2, weight_squared, out=count.copy(), where=is_normal)
    return np.minimum(np.maximum(n, np.minimum(count, 1)), count)  # faster than clip


def curve_of_classes(columns: ScoreColumns, n_bins: NBins, strategy: Strategy) -> ReliabilityCurve:
    """Return one curve with the non-empty bins of all classes."""
    edges, sums = sums_of(columns, n_bins, strategy)
    column, filled = np.nonzero(sums[:, 1] > 0)
    # One row of edges per column; columns may share their edges, or have fewer bins than others.
    rows = {id(e): np.resize(e, sums.shape[2] + 1) for e in edges}
    table = np.stack([rows[id(e)] for e in edges])[column]
    i = np.arange(len(column))
    lower, upper = table[i, filled], table[i, filled + 1]
    labels = np.concatenate([np.full(1, label) for label in columns.labels])[column]
    return curve_of_bins(lower, upper, sums[column, :, filled].T, labels, columns.kind)


def concatenated(curves: Iterable[ReliabilityCurve]) -> ReliabilityCurve:
    """Join the bins for several classes in one curve."""
    first, *_ = curves = [*curves]
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(curve, name) for curve in curves])
        for name, value in vars(first).items()
        if isinstance(value, np.ndarray)
    }
    return replace(first, **joined)


def reliability_curve(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: NBins = 15,
    strategy: Strategy = "uniform",
    kind: Kind = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    order: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> ReliabilityCurve:
    r"""Compute accuracy and confidence in score bins.

    Bin :math:`B_m` has the accuracy and the confidence

    .. math:: \mathrm{acc}(B_m) = \frac{1}{W_m} \sum_{i \in B_m} w_i 1[\text{event}_i], \quad
        \mathrm{conf}(B_m) = \frac{1}{W_m} \sum_{i \in B_m} w_i\, \text{score}_i,

    where :math:`W_m = \sum_{i \in B_m} w_i`.

    Bins are closed on the right, and the first one also holds 0. Empty bins are left out.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels. With ``kind="multilabel"`` an indicator matrix, dense or sparse, of shape
        (n_samples, n_labels).
    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Probabilities: one column per class, ordered as ``labels``, or for two classes the
        probability of ``pos_label`` alone. For a row-chunked Dask array, labels and weights must
        be Dask collections with the same row chunks, and a random sample with at most a million
        rows determines bins with equal weights. Tensors are copied to the host.
    n_bins : int, "cube_root" or array-like, default=15
        Number of bins on [0, 1], the rounded cube root of the number of rows, or the bin edges
        from 0 to 1.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins with equal widths, or with equal weights. Ties share a bin, so there may be fewer than
        ``n_bins`` bins with equal weights. Edges in ``n_bins`` replace the strategy.
    kind : {"auto", "top-label", "classwise", "binary", "multilabel", "cumulative"}, default="auto"
        The score, and the event that it predicts.

        - ``"auto"``: ``"binary"`` for two classes, and ``"top-label"`` for more.
        - ``"top-label"``: the largest probability in the row; the label is its class (as in [1]_,
          also for two classes).
        - ``"classwise"``: each class probability; the label is this class.
        - ``"binary"``: the probability of ``pos_label``; the label is that. Two classes only.
        - ``"multilabel"``: each label's probability; the row has this label. A row may have any
          number of labels. Probabilities do not sum to one. Rows must be in memory.
        - ``"cumulative"``: for ordered classes, the probability of the first k classes, for each k
          but the last; the label is one of them.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight 2 equals the row twice, weight 0 equals the row left out.
    labels : array-like of shape (n_classes,), default=None
        All labels in column order. Needed if ``y_true`` may lack some labels. By default the sorted
        labels in ``y_true``; with ``kind="multilabel"`` the column names of a data frame, or column
        numbers.
    pos_label : label, default=None
        Class with the one-dimensional probabilities, and with the scores for ``kind="binary"``. By
        default the second of ``labels``, the larger number, or the second ordered category. Text
        labels with one-dimensional probabilities need it, or ``labels``.
    order : array-like of shape (n_classes,), default=None
        All labels from the lowest to the highest class, for ``kind="cumulative"``. By default
        numbers and ordered categories determine the order. More than two text classes need it. The
        column order, ``labels``, says nothing about the class order.
    groups : array-like of shape (n_samples,), default=None
        Each row's group, such as a patient or a week, for intervals: rows in a group may depend on
        one another.

    Returns
    -------
    ReliabilityCurve
        Arrays with one entry per bin.

    Raises
    ------
    ValueError
        If probabilities are outside [0, 1] or rows do not sum to one within 5e-3, if labels do
        not match the columns, if weights are negative or all zero, if lengths differ, or if an
        argument is invalid.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", ICML 2017,
       `arXiv:1706.04599 <https://arxiv.org/abs/1706.04599>`_, section 2.

    Examples
    --------
    >>> from skcalib.metrics import reliability_curve
    >>> curve = reliability_curve(
    ...     [0, 0, 1, 1], [0.1, 0.3, 0.35, 0.9], n_bins=2, kind="binary")
    >>> curve.accuracy.round(2).tolist(), curve.confidence.round(2).tolist()
    ([0.33, 1.0], [0.25, 0.9])
    """
    rows = (y_true, y_proba, kind, sample_weight, labels, pos_label)
    columns = columns_of(*rows, order=order)
    if groups is None and columns.kind in OF_EACH:
        return curve_of_classes(columns, n_bins, strategy)
    curves = curves_of(columns, n_bins, strategy)
    if groups is not None:
        check_in_memory((y_true, y_proba, groups))
        numbers = group_numbers(groups, y_proba, sample_weight)
        if numbers is not None:
            pairs = zip(curves, columns.scored(), strict=True)
            curves = iter([with_groups(curve, scored, numbers) for curve, scored in pairs])
    return concatenated(curves) if columns.kind in OF_EACH else next(curves)


def with_groups(curve: ReliabilityCurve, rows: Scored, groups: Indices) -> ReliabilityCurve:
    """Replace the effective numbers of rows by numbers that account for groups.

    The variance of an accuracy is a sum of squares: of the summed deviations in each group. The
    effective number is at least the number for groups with equal rows.
    """
    w = np.ones(len(rows.score)) if rows.weight is None else rows.weight
    bins = bin_index(rows.score, closed(np.append(0.0, curve.upper))).astype(np.intp)
    n_bins = len(curve.upper)
    cell, n_groups = bins + n_bins * groups, int(groups.max()) + 1

    def sums(values: Floats) -> Floats:
        """Sum the values for each group in each bin."""
        out = np.bincount(cell, values, n_bins * n_groups).astype(np.float64)
        return out.reshape(n_groups, n_bins)

    sizes, accuracy = sums(w), curve.accuracy
    deviations = sums(w * (rows.event - accuracy[bins]))
    present, squares = (sizes > 0).sum(axis=0).astype(np.float64), sizes**2
    effective = squares.sum(axis=0) ** 2 / (squares**2).sum(axis=0)
    fewest = curve.weight**2 / (sizes**2).sum(axis=0)
    variance = (deviations**2).sum(axis=0) / curve.weight**2 * present / np.maximum(present - 1, 1)
    n = np.divide(accuracy * (1 - accuracy), variance, out=fewest.copy(), where=variance > 0)
    most = np.maximum(curve.n_effective, fewest)
    return replace(curve, n_effective=np.clip(n, fewest, most), n_groups=effective)
