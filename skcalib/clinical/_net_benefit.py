"""Net benefit of treating rows with a risk above a threshold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skcalib._rows import ArrayLike, Floats
from skcalib._rows.ranking import Ranked, distinct_scores, rounding
from skcalib._validation.inputs import check_flag, check_real
from skcalib.metrics._groups import group_numbers, normal_quantile, sums_by_group

from ._regression import risks_of


@dataclass(frozen=True)
class NetBenefitCurve:
    """Net benefit of a model, and of treating everyone, at each threshold.

    Attributes
    ----------
    threshold : ndarray of shape (n_thresholds,)
        Threshold probabilities: rows with at least this risk are treated.
    net_benefit : ndarray of shape (n_thresholds,)
        Net benefit of the model.
    treat_all : ndarray of shape (n_thresholds,)
        Net benefit of treating everyone. The net benefit of treating none is 0.
    scale : float
        Divisor of the net benefits: the event rate if they are standardized, else 1.
    low, high : ndarray of shape (n_thresholds,) or None
        Ends of the confidence interval of the net benefit of the model at each threshold.
    """

    threshold: Floats
    net_benefit: Floats
    treat_all: Floats
    scale: float = 1.0
    low: Floats | None = None
    high: Floats | None = None


def net_benefit(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    threshold: float,
    *,
    standardized: bool = False,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    r"""Net benefit of treating the rows with a risk of at least a threshold.

    With the true and false positives at the threshold probability t, of N rows [1]_,

    .. math:: \mathrm{NB}(t) = \frac{\mathrm{TP}}{N} - \frac{\mathrm{FP}}{N} \cdot
        \frac{t}{1 - t} .

    The threshold determines how many false positives one true positive is worth: at this
    risk treating does as much harm as good. The standardized net benefit is divided by the
    event rate, the largest possible net benefit. With the event rate :math:`\bar y`, it is
    :math:`\bar y - \mathrm{cost} / (1 - t)` for the :func:`expected_cost` with a cost of t for a
    false positive and of :math:`1 - t` for a false negative.

    Parameters
    ----------
    y_true, y_proba
        As for :func:`reliability_curve`, of two classes.
    threshold : float
        Threshold probability, between 0 and 1.
    standardized : bool, default=False
        Whether to divide by the event rate.
    sample_weight, labels, pos_label
        As for :func:`reliability_curve`.

    Returns
    -------
    float
        At most the event rate, or 1 if standardized; negative if treating none is better.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`; for more than two classes, and for a threshold that is not
        between 0 and 1.

    References
    ----------
    .. [1] Vickers, Elkin, "Decision Curve Analysis: A Novel Method for Evaluating Prediction
       Models", Medical Decision Making 26, 2006.

    Examples
    --------
    Two of ten rows are treated rightly and two wrongly. A row treated wrongly counts a quarter:

    >>> from skcalib.clinical import net_benefit
    >>> y = [1, 1, 1, 0, 0, 0, 0, 0, 0, 0]
    >>> p = [0.9, 0.4, 0.1, 0.5, 0.2, 0.1, 0.1, 0.1, 0.1, 0.0]
    >>> round(net_benefit(y, p, threshold=0.2), 3)
    0.15
    """
    curve = net_benefit_curve(
        y_true, y_proba, thresholds=[threshold], standardized=standardized,
        sample_weight=sample_weight, labels=labels, pos_label=pos_label,
    )  # fmt: skip
    return float(curve.net_benefit[0])


def net_benefit_curve(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    thresholds: ArrayLike | None = None,
    standardized: bool = False,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    groups: ArrayLike | None = None,
    confidence_level: float = 0.95,
) -> NetBenefitCurve:
    r"""Decision curve: the net benefit of a model and of treating everyone at several thresholds.

    With the event rate :math:`\bar y` the net benefit of treating everyone is
    :math:`\bar y - (1 - \bar y)\, t / (1 - t)`, and the net benefit of treating none is 0. A model
    is useful at the thresholds where it is above both. The intervals are normal: the net benefit is
    a mean over the rows.

    Parameters
    ----------
    y_true, y_proba
        As for :func:`reliability_curve`, of two classes.
    thresholds : array-like of shape (n_thresholds,), default=None
        Threshold probabilities, between 0 and 1. By default 0.01, 0.02, ..., 0.99.
    standardized, sample_weight, labels, pos_label
        As for :func:`net_benefit`.
    groups : array-like of shape (n_samples,), default=None
        Group of each row, such as a patient or a centre. Rows of a group may depend on one
        another, so the standard errors of the intervals are sums over groups.
    confidence_level : float, default=0.95
        Confidence level of each interval, between 0 and 1.

    Returns
    -------
    NetBenefitCurve
        With ``threshold``, ``net_benefit``, ``low``, ``high`` and ``treat_all``.

    Raises
    ------
    ValueError
        As :func:`net_benefit`.

    References
    ----------
    .. [1] Vickers, Elkin, "Decision Curve Analysis: A Novel Method for Evaluating Prediction
       Models", Medical Decision Making 26, 2006.

    Examples
    --------
    >>> from skcalib.clinical import net_benefit_curve
    >>> y = [1, 1, 1, 0, 0, 0, 0, 0, 0, 0]
    >>> p = [0.9, 0.4, 0.1, 0.5, 0.2, 0.1, 0.1, 0.1, 0.1, 0.0]
    >>> curve = net_benefit_curve(y, p, thresholds=[0.2, 0.5])
    >>> curve.net_benefit.round(3).tolist(), curve.treat_all.round(3).tolist()
    ([0.15, 0.0], [0.125, -0.4])
    """
    check_flag("standardized", standardized)
    check_real("confidence_level", confidence_level, high=1)
    t = checked_thresholds(thresholds)
    rows = risks_of(y_true, y_proba, sample_weight, labels, pos_label)
    numbers = group_numbers(groups, y_proba, sample_weight)
    curve = benefits_of(
        distinct_scores(rows.score, rows.event, rows.weight), t, standardized=standardized
    )
    w = np.ones(len(rows.score)) if rows.weight is None else rows.weight
    errors = []
    lowest = t - rounding(t, np.float32)
    for threshold, low, benefit in zip(t, lowest, curve.net_benefit, strict=True):
        # The net benefit is the mean of gains of the rows, divided by the event rate if it is
        # standardized: the ratio of two means.
        gains = np.where(rows.event, 1.0, -threshold / (1 - threshold)) * (rows.score >= low)
        unit = rows.event if curve.scale != 1 else 1.0
        deviations = (gains - benefit * unit) / curve.scale
        squares = w * deviations**2  # a weight of 2 is the row twice
        if numbers is not None:
            n_groups = int(numbers.max()) + 1
            squares = sums_by_group(w * deviations, numbers) ** 2 * n_groups / max(n_groups - 1, 1)
        errors.append(np.sqrt(squares.sum()) / w.sum())
    reach = normal_quantile(confidence_level, numbers) * np.array(errors)
    return replace(curve, low=curve.net_benefit - reach, high=curve.net_benefit + reach)


def checked_thresholds(thresholds: ArrayLike | None) -> Floats:
    """Threshold probabilities in increasing order, or a ValueError if they are invalid."""
    if thresholds is None:
        return np.arange(1, 100) / 100
    t = np.sort(np.asarray(thresholds, dtype=np.float64).ravel())
    if not len(t) or not (t[0] > 0 and t[-1] < 1):
        raise ValueError(
            f"thresholds must be numbers between 0 and 1, without both, got {thresholds!r}. Pass "
            "the risks at which the decision could change, such as [0.1, 0.2]."
        )
    return t


def benefits_of(rows: Ranked, t: Floats, *, standardized: bool) -> NetBenefitCurve:
    """Net benefits at increasing thresholds, from ranked risks."""
    # A risk that is below a threshold only by rounding in float32 equals the threshold.
    first = np.searchsorted(rows.scores, t - rounding(t, np.float32))
    total = rows.weight.sum()
    treated, true = (
        np.append(np.cumsum(values[::-1])[::-1], 0.0)[first] / total
        for values in (rows.weight, rows.hits)
    )
    odds, rate = t / (1 - t), float(rows.hits.sum() / total)
    unit = rate if standardized and rate > 0 else 1.0
    benefit = true - (treated - true) * odds
    return NetBenefitCurve(t, benefit / unit, (rate - (1 - rate) * odds) / unit, unit)
