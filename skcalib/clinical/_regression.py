"""Calibration of a risk, as medicine reports it: slope, intercept, and distances from a curve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtri, expit, logit, stdtrit
from sklearn.utils import check_random_state

from skcalib._fits import fit_to_rows
from skcalib._input.arrays import check_in_memory
from skcalib._input.groups import group_numbers, warn_of_few_events
from skcalib._input.measures import Scored, check_measure, columns_of
from skcalib._input.parameters import check_real
from skcalib._rows import Rows
from skcalib._rows.ranking import distinct_scores
from skcalib._scores.kernel import SmoothCurve
from skcalib._typing import ArrayLike, Bools, Floats, Indices
from skcalib._warnings import ReversedOrderWarning, ignored
from skcalib.metrics import IntervalEstimate, calibration_error_interval
from skcalib.metrics._groups import degrees_of_freedom
from skcalib.scaling import PlattScaling

# Risks are clipped to [EPS, 1 - EPS], so that log-odds are finite.
EPS = float(np.finfo(np.float64).eps)

# Smallest share of the information that the other groups must have for an estimate without a group.
SINGULAR = 1e-9


def risks_of(y_true: ArrayLike, y_proba: ArrayLike, *params: Any) -> Scored:
    """Check labels and probabilities of two classes, and return risks and events.

    ``params`` are weights, labels and the label of the event.
    """
    check_in_memory((y_true, y_proba, params[0]))
    rows = check_measure(y_true, y_proba, *params)
    if len(rows.classes) != 2:
        raise ValueError(
            f"This is a figure of the risk of one event, for two classes, got {len(rows.classes)}. "
            "Pass y_true == label and the probabilities of that label."
        )
    return next(columns_of(None, rows, "binary", None, None, params[2]).scored())


def calibration_slope(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    groups: ArrayLike | None = None,
    confidence_level: float = 0.95,
) -> IntervalEstimate:
    r"""Compute the calibration slope: coefficient of the log-odds in a logistic regression.

    The slope b of the logistic recalibration [1]_

    .. math:: \log \frac{P(y = 1)}{P(y = 0)} = a + b \log \frac{p}{1 - p}

    is 1 for a calibrated model, below 1 if risks are too extreme (over-confidence, typical of a
    model fitted to few rows), and above 1 if they are not extreme enough. The interval contains
    the slopes with a profile log-likelihood that is lower than the maximum by at most half the
    :math:`\chi^2_1` quantile. With groups it is :math:`b \pm t\, s`. The standard error s is the
    jackknife error over groups, with one Newton step for each group that is left out
    (CR3 [3]_). The t distribution has :math:`(\sum_g s_g^2)^2 / \sum_g s_g^4 - 1` degrees of
    freedom, where :math:`s_g` is the change of the slope without the group g: a few groups that
    change it most count as few groups. Fewer than 10 groups with the rarer outcome give a warning.

    Parameters
    ----------
    y_true, y_proba
        As for :func:`reliability_curve`, of two classes. Risks of 0 and 1 are clipped as for the
        log loss.
    sample_weight, labels, pos_label
        As for :func:`reliability_curve`. The likelihood takes a weight of 2 for the row twice.
    groups : array-like of shape (n_samples,), default=None
        Group per row, such as a patient or a centre. Rows of a group may depend on one
        another.
    confidence_level : float, default=0.95
        Confidence level of the interval, between 0 and 1.

    Returns
    -------
    IntervalEstimate
        With ``estimate``, ``low`` and ``high``.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`; for more than two classes, for rows of a single class, for
        risks that are all equal, and if a threshold separates the classes, so that the likelihood
        has no maximum.

    See Also
    --------
    calibration_intercept : With the slope fixed at 1.

    References
    ----------
    .. [1] Cox, "Two further applications of a model for binary regression", Biometrika 45, 1958.
    .. [2] Van Calster, McLernon, van Smeden, Wynants, Steyerberg, "Calibration: the Achilles heel
       of predictive analytics", BMC Medicine 17, 2019.
    .. [3] MacKinnon, Nielsen, Webb, "Fast and reliable jackknife and bootstrap methods for
       cluster-robust inference", Journal of Applied Econometrics 38, 2023.

    Examples
    --------
    >>> from skcalib.datasets import make_logits
    >>> from skcalib.clinical import calibration_slope
    >>> from scipy.special import softmax
    >>> logits, y = make_logits(2000, 2, temperature=2.0, random_state=0)
    >>> slope = calibration_slope(y, softmax(logits, axis=1))
    >>> slope.low < 0.5 < slope.high < 0.6
    True
    """
    check_real("confidence_level", confidence_level, high=1)
    z, event, w = _logistic(risks_of(y_true, y_proba, sample_weight, labels, pos_label))
    if z[event].min() >= z[~event].max() or z[event].max() <= z[~event].min():
        raise ValueError(
            "A slope needs risks that overlap between the classes, got risks that are all equal or "
            "that a threshold separates, for which the likelihood has no maximum. Pass more rows."
        )
    rows = Rows(z[:, None], event.astype(np.intp), w, classes=np.arange(2))
    with ignored(ReversedOrderWarning):
        model = fit_to_rows(PlattScaling(smooth_targets=False), rows)
    slope, intercept = float(model.coef_[0]), float(model.intercept_[0])
    p = expit(slope * z + intercept)
    centred = z - np.average(z, weights=w * p * (1 - p))
    if (numbers := group_numbers(groups, y_proba, sample_weight)) is not None:
        row_arrays = np.stack([centred, np.ones_like(z)], axis=1), p, event, w, numbers
        return _jackknife_interval(slope, *row_arrays, confidence_level)
    variance = 1 / float(w @ (p * (1 - p) * centred**2))

    def profile(slope: float) -> float:
        return _loss(slope * z + _shift(slope * z, event, w), event, w)

    return _interval(profile, slope, float(np.sqrt(variance)), confidence_level)


def calibration_intercept(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    groups: ArrayLike | None = None,
    confidence_level: float = 0.95,
) -> IntervalEstimate:
    r"""Compute the calibration intercept, with a slope of 1: calibration in the large.

    The intercept a of

    .. math:: \log \frac{P(y = 1)}{P(y = 0)} = a + \log \frac{p}{1 - p}

    is 0 for a calibrated model, negative if risks are too high on average, and positive if they
    are too low. A shift of the log-odds by the intercept makes the mean risk the event rate. Some
    programs report the intercept of the regression with a free slope under the same name. That
    intercept is the shift of the risk 1/2.

    Parameters
    ----------
    y_true, y_proba, sample_weight, labels, pos_label, groups, confidence_level
        As for :func:`calibration_slope`.

    Returns
    -------
    IntervalEstimate
        With ``estimate``, ``low`` and ``high``.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`; for more than two classes, and for rows of a single class.

    References
    ----------
    .. [1] Van Calster, McLernon, van Smeden, Wynants, Steyerberg, "Calibration: the Achilles heel
       of predictive analytics", BMC Medicine 17, 2019.

    Examples
    --------
    Half of the rows have the event, for a predicted risk of 0.2 with odds of 1 to 4:

    >>> import numpy as np
    >>> from skcalib.clinical import calibration_intercept
    >>> intercept = calibration_intercept([0, 1] * 50, np.full(100, 0.2))
    >>> round(intercept.estimate, 3), round(float(np.log(4)), 3)
    (1.386, 1.386)
    """
    check_real("confidence_level", confidence_level, high=1)
    z, event, w = _logistic(risks_of(y_true, y_proba, sample_weight, labels, pos_label))
    shift = _shift(z, event, w)
    p = expit(z + shift)
    if (numbers := group_numbers(groups, y_proba, sample_weight)) is not None:
        row_arrays = np.ones((len(p), 1)), p, event, w, numbers
        return _jackknife_interval(shift, *row_arrays, confidence_level)
    error = 1 / np.sqrt(max(float(np.sum(w * p * (1 - p))), 1e-12))
    return _interval(lambda a: _loss(z + a, event, w), shift, float(error), confidence_level)


def _jackknife_interval(
    estimate: float,
    design: Floats,
    p: Floats,
    event: Bools,
    w: Floats,
    groups: Indices,
    level: float,
) -> IntervalEstimate:
    """Compute the interval of the first logistic coefficient by leaving out one group at a time.

    The columns of the design are orthogonal with the weights of the rows in the information.
    """

    def sums(values: Floats) -> Floats:
        """Sum over each group: (n_groups, d)."""
        return np.stack([np.bincount(groups, column) for column in values.T], axis=1)

    # With these units, the information of all rows is the identity matrix.
    deviation = np.sqrt(p * (1 - p))[:, None] * design
    units = np.sqrt(w @ deviation**2)
    deviation, design = deviation / units, design / units

    # The first step of Newton's method from the estimate to the estimate without each group.
    pairs = np.einsum("n,ni,nj->nij", w, deviation, deviation).reshape(len(p), -1)
    left = np.eye(len(units)) - sums(pairs).reshape(-1, len(units), len(units))
    if np.linalg.eigvalsh(left).min() < SINGULAR:
        return IntervalEstimate(estimate, -np.inf, np.inf, level)
    scores = sums((w * (event - p))[:, None] * design)
    steps = np.linalg.solve(left, scores[:, :, None])[:, 0, 0] / units[0]
    variance = (len(steps) - 1) / len(steps) * float(steps @ steps)

    n_events, sizes = np.bincount(groups, event), np.bincount(groups)
    fewest = min(np.count_nonzero(n_events > 0), np.count_nonzero(n_events < sizes))
    warn_of_few_events(int(fewest), len(sizes))
    # A few groups that change the estimate most count as few groups.
    freedom = degrees_of_freedom(np.abs(steps))
    reach = float(stdtrit(freedom, (1 + level) / 2) * np.sqrt(variance))
    return IntervalEstimate(estimate, estimate - reach, estimate + reach, level)


def _logistic(rows: Scored) -> tuple[Floats, Bools, Floats]:
    """Return log-odds, events and weights, or raise a ValueError for a single class."""
    event, w = rows.event, rows.weight
    if event.all() or not event.any():
        raise ValueError(
            "A logistic recalibration needs rows with the event and rows without it, got rows of "
            "one class only. Pass more rows."
        )
    return logit(np.clip(rows.score, EPS, 1 - EPS)), event, np.ones(len(event)) if w is None else w


def _loss(z: Floats, event: Bools, w: Floats) -> float:
    """Sum the log losses of log-odds."""
    return float(np.sum(w * np.logaddexp(0, np.where(event, -z, z))))


def _shift(z: Floats, event: Bools, w: Floats) -> float:
    """Return the shift of log-odds that makes the mean risk the event rate."""
    target = float(logit(np.average(event, weights=w)))
    low, high = target - z.max() - 1e-6, target - z.min() + 1e-6
    return float(brentq(lambda a: np.sum(w * (expit(z + a) - event)), low, high, xtol=1e-9))


def _interval(
    loss: Callable[[float], float], estimate: float, error: float, level: float
) -> IntervalEstimate:
    """Find the two points where the loss exceeds its minimum by half a chi-squared quantile."""
    most = loss(estimate) + chdtri(1, 1 - level) / 2
    ends = []
    for step in (-error, error):
        while loss(estimate + step) < most:
            step *= 2  # noqa: PLW2901
        excess = lambda x: loss(x) - most  # noqa: E731
        ends.append(float(brentq(excess, estimate, estimate + step, xtol=1e-8 * error)))
    low, high = ends
    return IntervalEstimate(estimate, low, high, level)


def integrated_calibration_index(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    quantile: float | Sequence[float | None] | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    groups: ArrayLike | None = None,
    confidence_level: float | None = None,
    n_resamples: int = 999,
    random_state: int | np.random.RandomState | None = None,
) -> float | IntervalEstimate | list[float] | list[IntervalEstimate]:
    r"""Compute the integrated calibration index (ICI), or E50, E90 and Emax.

    With a smooth calibration curve f of the events over the risks [1]_,

    .. math:: \mathrm{ICI} = \frac 1N \sum_i w_i\, |f(p_i) - p_i| .

    E50 and E90 are the median and the 90 % quantile of the distances, and Emax is the largest one,
    which a few rows far from all others may determine.

    A normal kernel smooths the residuals, with the smooth calibration error as the bandwidth, but
    no less than 0.01. So there is no span to choose, and the ICI is close to
    :func:`smooth_calibration_error`. ``ReliabilityDisplay(style="smooth")`` draws this curve, but
    smoother for calibrated models. The
    curves of other programs (loess, splines) differ somewhat, and so do their figures.

    Parameters
    ----------
    y_true, y_proba
        As for :func:`reliability_curve`, of two classes.
    quantile : float, None or list of these, default=None
        A quantile of the distances in place of the mean: 0.5 for E50, 0.9 for E90, 1 for Emax. A
        list returns a list of results, which share the smooth curves: ``[None, 0.5, 0.9]`` takes
        the time of the mean alone.
    sample_weight, labels, pos_label
        As for :func:`reliability_curve`.
    groups : array-like of shape (n_samples,), default=None
        Group per row, for the interval. Rows of a group may depend on one another.
    confidence_level : float or None, default=None
        Confidence level of an interval, between 0 and 1. None returns the number alone.
    n_resamples, random_state
        As for :func:`~skcalib.metrics.calibration_error_interval`, which computes the interval.

    Returns
    -------
    float or IntervalEstimate, or list of these
        Distance between 0 and 1, with an interval if ``confidence_level`` is a number.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`; for more than two classes, and for a quantile that is not
        between 0 and 1.

    References
    ----------
    .. [1] Austin, Steyerberg, "The Integrated Calibration Index (ICI) and related metrics for
       quantifying the calibration of logistic regression models", Statistics in Medicine 38, 2019.

    Examples
    --------
    >>> from skcalib.clinical import integrated_calibration_index
    >>> y, p = [0, 1] * 50, [0.3] * 100
    >>> round(integrated_calibration_index(y, p), 2)
    0.2
    """
    given: Any = quantile
    is_list = isinstance(given, list | tuple) and len(given) > 0
    quantiles = list(given) if is_list else [given]
    for one in quantiles:
        if one is not None and not (np.isscalar(one) and one == 1):
            remedy = "Pass None for the mean, 1 for Emax, or a list of such numbers."
            check_real("quantile", one, high=1, remedy=remedy)
    rows = risks_of(y_true, y_proba, sample_weight, labels, pos_label)
    found: list[Any]
    if confidence_level is not None:
        numbers = group_numbers(groups, y_proba, sample_weight)
        found = _distance_intervals(
            rows, quantiles, groups=numbers, confidence_level=confidence_level,
            n_resamples=n_resamples, random_state=random_state,
        )  # fmt: skip
    elif groups is not None:
        raise ValueError(
            "groups change only the interval, got confidence_level=None. Pass "
            "confidence_level=0.95 for an interval."
        )
    else:
        found = _distances(rows.score, rows.event, rows.weight, quantiles)
    return found if is_list else found[0]


def _distance_intervals(
    rows: Scored, quantiles: list[float | None], *, random_state: Any, **params: Any
) -> list[IntervalEstimate]:
    """Return an interval for each quantile of the distances.

    All intervals have the same draws of events in the same order. The first one fits a smooth curve
    to each draw, and the others take their quantiles of these distances. ``params`` are parameters
    of :func:`calibration_error_interval`.
    """
    events, classes = rows.event.astype(np.intp), np.array([False, True])
    risks: Any = Rows(rows.score, events, rows.weight, classes=classes)
    no_labels: Any = None  # checked rows have labels
    # Each quantile is an error, so method="auto" has the same result, after more curves.
    interval = partial(calibration_error_interval, no_labels, risks, method="inversion", **params)
    random = check_random_state(random_state)
    same_states = [deepcopy(random) for _ in quantiles[1:]]
    draws: list[list[float]] = []

    def first_quantile(y: Bools, p: Floats, sample_weight: Floats | None = None) -> float:
        draws.append(_distances(p, y, sample_weight, quantiles))
        return draws[-1][0]

    intervals = [interval(measure=first_quantile, random_state=random)]
    for k, state in enumerate(same_states, start=1):
        values = iter([quantiles_of_draw[k] for quantiles_of_draw in draws])
        take = lambda *_, values=values, **__: next(values)  # noqa: E731
        intervals.append(interval(measure=take, random_state=state))
    return intervals


def _distances(
    p: Floats, event: Bools, w: Floats | None, quantiles: list[float | None]
) -> list[float]:
    """Return the mean (None) or quantiles of distances of risks (n,) from their smooth curve."""
    # A coarse grid suffices for distances, since the bandwidth is at least 0.01.
    curve = SmoothCurve.of(p, event, w, n_cells=1 << 11)
    distance = np.abs(curve.interpolate(p) - p)
    by_distance = distinct_scores(distance, None, w)
    reached = np.cumsum(by_distance.weight)
    return [
        float(np.average(distance, weights=w))
        if q is None
        else float(by_distance.scores[np.searchsorted(reached, q * reached[-1] * (1 - 1e-12))])
        for q in quantiles
    ]
