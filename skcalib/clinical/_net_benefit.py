"""Net benefit of treating rows with a risk above a threshold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skcalib._input.groups import group_numbers
from skcalib._input.measures import Scored
from skcalib._input.parameters import check_flag, check_real
from skcalib._rows import Ranked
from skcalib._rows.ranking import distinct_scores
from skcalib._typing import ArrayLike, Floats, Indices
from skcalib.metrics._curve import clopper_pearson
from skcalib.metrics._groups import effective_rates

from ._regression import risks_of


@dataclass(frozen=True)
class NetBenefitCurve:
    """Net benefits at each threshold, for a model and for treating everyone.

    Attributes
    ----------
    threshold : ndarray of shape (n_thresholds,)
        Threshold probabilities: rows with at least this risk are treated.
    net_benefit : ndarray of shape (n_thresholds,)
        Net benefit with the model.
    treat_all : ndarray of shape (n_thresholds,)
        Net benefit if everyone is treated. If no one is treated, it is 0.
    scale : float
        Divisor of the net benefits: the event rate if they are standardized, else 1.
    low, high : ndarray of shape (n_thresholds,) or None
        Ends of the confidence interval for ``net_benefit`` at each threshold.
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
    r"""Compute the net benefit if rows with risks from a threshold on are treated.

    With the true and false positives among N rows at the threshold probability t [1]_,

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
    r"""Compute decision curves: net benefits at several thresholds, also if everyone is treated.

    With the event rate :math:`\bar y` the net benefit is
    :math:`\bar y - (1 - \bar y)\, t / (1 - t)` if everyone is treated, and 0 if no one is treated.
    A model is useful at the thresholds where it is above both. The net benefit is a weighted sum of
    true and false positive rates. Its limits combine their Clopper-Pearson limits [2]_, so the
    interval has a width where no row is treated.

    Parameters
    ----------
    y_true, y_proba
        As for :func:`reliability_curve`, of two classes.
    thresholds : array-like of shape (n_thresholds,), default=None
        Threshold probabilities, between 0 and 1. By default 0.01, 0.02, ..., 0.99.
    standardized, sample_weight, labels, pos_label
        As for :func:`net_benefit`.
    groups : array-like of shape (n_samples,), default=None
        Group per row, such as a patient or a centre. Rows in a group may depend on one
        another, so the limits for the rates use an effective number of rows.
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
    .. [2] Zou, Donner, "Construction of confidence limits about effect measures: a general
       approach", Statistics in Medicine 27, 2008.

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
    ranked = distinct_scores(rows.score, rows.event, rows.weight)
    curve = benefits_of(ranked, t, standardized=standardized)
    lowest = np.append(ranked.scores, np.inf)[ranked.first_reaching(t)]  # risk that is treated
    ends = [
        _limits(rows, numbers, *at, curve.scale if standardized else None, confidence_level)
        for at in zip(t, lowest, curve.net_benefit, strict=True)
    ]
    low, high = np.transpose(ends)
    return replace(curve, low=low, high=high)


def _limits(
    rows: Scored,
    groups: Indices | None,
    threshold: float,
    lowest: float,
    benefit: float,
    event_rate: float | None,
    level: float,
) -> tuple[float, float]:
    """Return the ends of the interval of a net benefit, standardized if there is an event rate.

    ``lowest`` is the lowest risk that is treated at the threshold.
    """
    odds, treated = threshold / (1 - threshold), rows.score >= lowest
    w = np.ones(len(treated)) if rows.weight is None else rows.weight
    # The net benefit is a sum of three rates: true positives, false positives, missed events.
    hit = np.stack([treated & rows.event, treated & ~rows.event, ~treated & rows.event])
    factors = np.array([1.0, -odds, 0.0])
    if event_rate is not None:  # it is b where the mean gain minus b times the event rate is 0
        factors = np.array([1 - benefit, -odds, -benefit]) / event_rate
    rates = hit @ w / w.sum()
    n, covariance = effective_rates(hit, rates, w, groups, level)
    low, high = clopper_pearson(rates, n, level)
    deviation = np.sqrt(covariance.diagonal())
    outer = np.outer(deviation, deviation)
    correlation = np.divide(covariance, outer, out=np.eye(3), where=outer > 0)
    # The limits of a sum from the limits of its terms (Zou, Donner, 2008).
    ends = np.stack([rates - low, high - rates])
    reach = []
    for towards in (-1, 1):
        distance = factors * np.where(towards * factors > 0, ends[1], ends[0])
        reach.append(np.sqrt(max(float(distance @ correlation @ distance), 0.0)))
    return benefit - reach[0], benefit + reach[1]


def checked_thresholds(thresholds: ArrayLike | None) -> Floats:
    """Sort threshold probabilities, or raise a ValueError if they are invalid."""
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
    """Compute net benefits at increasing thresholds from ranked risks."""
    first, total = rows.first_reaching(t), rows.weight.sum()
    treated, true = (
        np.append(np.cumsum(values[::-1])[::-1], 0.0)[first] / total
        for values in (rows.weight, rows.hits)
    )
    odds, rate = t / (1 - t), float(rows.hits.sum() / total)
    unit = rate if standardized and rate > 0 else 1.0
    benefit = true - (treated - true) * odds
    return NetBenefitCurve(t, benefit / unit, (rate - (1 - rate) * odds) / unit, unit)
