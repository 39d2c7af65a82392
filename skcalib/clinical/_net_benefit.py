"""Decisions: those of least expected cost, what they cost, and the net benefit of thresholds."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skcalib._rows import ArrayLike, Floats
from skcalib._rows.ranking import Ranked, ranked
from skcalib._validation.inputs import check_flag

from ._regression import risks_of

# Expected costs of two decisions that differ by less than it, relative to the expected sizes of
# their costs, are equal but for rounding. Relative to the largest cost, all would be equal where
# what is not allowed costs 1e15.
ROUNDING = 1e-12

# Sums of costs up to this size are finite.
LARGEST_COST = 1e300


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
        Net benefit of treating everyone; that of treating none is 0.
    scale : float
        What net benefits are divided by: the event rate if they are standardized, else 1.
    """

    threshold: Floats
    net_benefit: Floats
    treat_all: Floats
    scale: float = 1.0


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
    r"""Net benefit of treating the rows whose risk is at least a threshold.

    With the true and false positives at the threshold probability t, of N rows [1]_,

    .. math:: \mathrm{NB}(t) = \frac{\mathrm{TP}}{N} - \frac{\mathrm{FP}}{N} \cdot
        \frac{t}{1 - t} .

    The threshold says how many false positives one true positive is worth, as it is the risk at
    which treating does as much harm as good. The standardized net benefit is divided by the event
    rate, the largest possible one. With the event rate :math:`\bar y`, it is
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
    Of ten rows two are treated rightly and two wrongly, each of which counts a quarter:

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
) -> NetBenefitCurve:
    r"""Decision curve: the net benefit at several thresholds, and that of treating everyone.

    With the event rate :math:`\bar y` the net benefit of treating everyone is
    :math:`\bar y - (1 - \bar y)\, t / (1 - t)`, and that of treating none is 0. A model is of use
    at the thresholds where it is above both.

    Parameters
    ----------
    y_true, y_proba
        As for :func:`reliability_curve`, of two classes.
    thresholds : array-like of shape (n_thresholds,), default=None
        Threshold probabilities, between 0 and 1. By default 0.01, 0.02, ..., 0.99.
    standardized, sample_weight, labels, pos_label
        As for :func:`net_benefit`.

    Returns
    -------
    NetBenefitCurve
        With ``threshold``, ``net_benefit`` and ``treat_all``.

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
    t = checked_thresholds(thresholds)
    rows = risks_of(y_true, y_proba, sample_weight, labels, pos_label)
    found = ranked(rows.score, rows.event, rows.weight)
    return benefits_of(found, t, standardized=standardized)


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
    first, total = np.searchsorted(rows.scores, t), rows.weight.sum()
    treated, true = (
        np.append(np.cumsum(values[::-1])[::-1], 0.0)[first] / total
        for values in (rows.weight, rows.hits)
    )
    odds, rate = t / (1 - t), float(rows.hits.sum() / total)
    unit = rate if standardized and rate > 0 else 1.0
    benefit = true - (treated - true) * odds
    return NetBenefitCurve(t, benefit / unit, (rate - (1 - rate) * odds) / unit, unit)
