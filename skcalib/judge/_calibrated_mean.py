"""Estimate the mean label of many scored rows from few labels: prediction-powered inference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, ndtri, stdtrit

from skcalib._fits import fit_to_rows
from skcalib._input.arrays import as_numpy, check_in_memory
from skcalib._input.groups import FEW_EVENTS, FEW_GROUPS, warn_of_few_groups
from skcalib._input.labels import as_labels, not_among, shown
from skcalib._input.logits import LARGEST, check_weights
from skcalib._input.parameters import check_real
from skcalib._input.rows import check_not_swapped
from skcalib._rows import Rows
from skcalib._typing import Array, ArrayLike, Floats
from skcalib._warnings import FewGroupsWarning, ReversedOrderWarning, ignored, warn
from skcalib.metrics._curve import clopper_pearson
from skcalib.metrics._groups import degrees_of_freedom
from skcalib.scaling import PlattScaling

# Arrays (n,): scores and weights, for labelled rows the labels between 0 and 1, and groups.
RatedRows = Sequence[Any]

# Two parameters and one degree of freedom need this number of labels.
MIN_LABELS = 3


@dataclass(frozen=True)
class CalibratedMean:
    """Mean over all rows, or difference between two means, with a confidence interval.

    Attributes
    ----------
    estimate : float
        Estimated mean over all rows.
    low, high : float
        Ends of the interval.
    n_effective : float
        Number of independent labels that would yield an equally narrow interval without scores.
    by : dict
        Result for each category of ``by``; empty without categories.
    """

    estimate: float
    low: float
    high: float
    n_effective: float
    by: dict[Any, CalibratedMean] = field(default_factory=dict)


def calibrated_mean(
    y: ArrayLike,
    score_labelled: ArrayLike,
    score_all: ArrayLike,
    *,
    bounds: tuple[float, float] | None = None,
    by: ArrayLike | None = None,
    by_all: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    groups_all: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    sample_weight_all: ArrayLike | None = None,
    confidence_level: float = 0.95,
) -> CalibratedMean:
    r"""Estimate a rate, or a mean rating, in many scored rows from few labels, with an interval.

    All N rows have a score, for example from a language model as a judge, and n rows, drawn at
    random, also have a label y. The mean score is not the rate, unless the score is calibrated, and
    the mean label ignores the scores. Platt scaling on the labelled rows turns scores into
    calibrated scores f. The estimate [1]_ [2]_ is

    .. math:: \hat\theta = \bar y_n + \lambda (\bar f_N - \bar f_n) ,

    where :math:`\lambda` in [0, 1] is the slope of y on f in the labelled rows (power tuning [2]_).
    It is consistent for any scores. With the residuals
    :math:`r_i = y_i - \lambda f_i`, its variance and the variance of the mean label are

    .. math:: V = \frac{\sum_i (r_i - \bar r)^2 + c}{n (n - 2)} + \frac{\lambda^2 s_N^2(f)}{N} ,
        \qquad V_0 = \frac{\sum_i (y_i - \bar y)^2 + c}{n (n - 1)} ,

    so that scores are worth :math:`n V_0 / V` labels. The interval is the Clopper-Pearson interval
    with this effective number of rows [3]_. The constant :math:`c = z^2 / 2`, with the normal
    quantile z for the confidence level, represents errors that few labels do not show. Without it,
    a judge that is right on all 30 labels would have no error.

    Ratings between the ``bounds`` :math:`[l, u]` are mapped to :math:`(y - l) / (u - l)`. Their
    interval has the effective number of rows that gives a rate of the same size the variance V.

    With groups, such as questions with several answers, residuals are summed over each group before
    they are squared, and a positive covariance between these sums and sums of scores counts.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels, 0 and 1 or booleans; the rate is the share of 1. With ``bounds``, ratings.
    score_labelled : array-like of shape (n,) or (n, 1)
        Scores of the labelled rows. They may be in any unit, also negatively correlated
        with the labels; log-odds are best (:class:`~skcalib.judge.ScoreTransformer`). Rows
        without a score get any one number, or the probability of several judges
        (:class:`~skcalib.fusion.FusionCalibrator`).
    score_all : array-like of shape (N,) or (N, 1)
        Scores of all rows, including the labelled rows.
    bounds : (float, float), default=None
        Smallest and largest possible rating, such as ``(1, 5)``. By default labels are 0 and 1.
    by, by_all : array-like of shape (n,) and (N,), default=None
        Category of each labelled row, and of each row. Each category gets a result from its rows
        only.
    groups, groups_all : array-like of shape (n,) and (N,), default=None
        Group of each labelled row, and of each row. Rows in a group may depend on one another.
    sample_weight, sample_weight_all : array-like of shape (n,) and (N,), default=None
        Weights of the labelled rows and of all rows. A weight of 2 equals the row twice. Sampling
        weights sum to more than n, and would make the interval too narrow.
    confidence_level : float, default=0.95
        Confidence level of each interval by itself, between 0 and 1.

    Returns
    -------
    CalibratedMean
        With ``estimate``, ``low``, ``high``, ``n_effective`` and ``by``.

    Raises
    ------
    ValueError
        If labels are not 0 and 1, or not within the bounds, if scores are not finite, or if lengths
        differ. Also if fewer than three rows in a category are labelled, there are fewer rows than
        labels, or ``by_all`` or ``groups_all`` lacks a value.

    Notes
    -----
    The interval is for the rate in the population of the rows. It also covers the rate in these
    rows. If many of these rows are labelled, the interval is wider than necessary.

    The labelled rows must be drawn at random, not by their score. With groups, whole groups must be
    drawn. If categories have different fractions of labels, only the results in ``by`` are valid.

    The fit of two parameters needs no cross-fitting [4]_: the degrees of freedom account for it.
    ``benchmarks/simulate.py calibrated-mean-rates`` shows coverage and width for 30 to 1000 labels,
    rates between 0.01 and 0.5, and good, useless and misleading scores. The interval is at most a
    few percent wider than the interval from the labels alone.

    References
    ----------
    .. [1] Angelopoulos, Bates, Fannjiang, Jordan, Zrnic, "Prediction-Powered Inference", Science
       382, 2023, `arXiv:2301.09633 <https://arxiv.org/abs/2301.09633>`_.
    .. [2] Angelopoulos, Duchi, Zrnic, "PPI++: Efficient Prediction-Powered Inference", 2023,
       `arXiv:2311.01453 <https://arxiv.org/abs/2311.01453>`_.
    .. [3] Korn, Graubard, "Confidence Intervals for Proportions With Small Expected Number of
       Positive Counts Estimated From Survey Data", Survey Methodology 24, 1998.
    .. [4] Zrnic, Candes, "Cross-Prediction-Powered Inference", PNAS 121, 2024, `arXiv:2309.16598
       <https://arxiv.org/abs/2309.16598>`_.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.judge import calibrated_mean
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(size=10_000) < 0.3
    >>> score = rng.normal(2.0 * y, 1)
    >>> result = calibrated_mean(y[:300], score[:300], score)
    >>> print(f"{result.estimate:.2f}, from {result.low:.2f} to {result.high:.2f}")
    0.30, from 0.26 to 0.33
    >>> bool(result.n_effective > 400)
    True
    """
    check_real("confidence_level", confidence_level, high=1)
    check_in_memory((by, by_all))
    low, high = _checked_bounds(bounds)
    weights, pairs = (sample_weight, sample_weight_all), (groups, groups_all)
    labelled, rows = _checked_rows(y, score_labelled, score_all, bounds, weights, pairs)
    result = _corrected_mean(labelled, rows, confidence_level, low, high)
    categories = _codes(by, by_all, len(labelled[0]), len(rows[0]), "by")
    if categories is None:
        return result
    results = {}
    for name in np.unique(categories[1]).tolist():
        part = [x[categories[0] == name] for x in labelled]
        part_all = [x[categories[1] == name] for x in rows]
        where = f" in category {name!r}"
        results[name] = _corrected_mean(part, part_all, confidence_level, low, high, where)
    return replace(result, by=results)


def calibrated_mean_difference(
    y: ArrayLike,
    score_labelled: ArrayLike,
    score_all: ArrayLike,
    other_y: ArrayLike,
    other_score_labelled: ArrayLike,
    other_score_all: ArrayLike,
    *,
    bounds: tuple[float, float] | None = None,
    groups: ArrayLike | None = None,
    groups_all: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    sample_weight_all: ArrayLike | None = None,
    confidence_level: float = 0.95,
) -> CalibratedMean:
    r"""Estimate the difference between the means of two systems, with a paired interval.

    For each row, :math:`d` is the label of the second system minus the label of the first.
    :math:`\lambda f` is the same difference between the calibrated scores of
    :func:`calibrated_mean`. The estimate is

    .. math:: \hat\theta = \bar d_n + \mu (\overline{\lambda f}_N - \overline{\lambda f}_n) ,

    where :math:`\mu` in [0, 1] is the slope of :math:`d` on :math:`\lambda f`. If the judge does
    not see the differences between the systems, :math:`\mu` is small. The interval is then nearly
    the interval from the labels alone, or shorter. With the residuals :math:`r_i`, the variance and
    the interval are

    .. math:: V = \frac{\sum_i (r_i - \bar r)^2 + c \delta^2 / (1 + m)}{n (n - 2)}
        + \frac{\mu^2 s_N^2(\lambda f)}{N} , \qquad \hat\theta \pm z \sqrt V ,

    where :math:`\delta^2` is the mean square of the m nonzero differences. With groups, the squares
    are squares of sums over groups, and differences that labels do not show come in groups as large
    as the groups of those that they show. A covariance of sums of residuals and scores counts,
    since the labelled rows may be among all rows. Fewer than 10 groups with a nonzero difference
    give a warning.

    Parameters
    ----------
    y, score_labelled, score_all
        Labels and scores of the first system, such as the old one, as for :func:`calibrated_mean`.
    other_y, other_score_labelled, other_score_all
        Labels and scores of the second system, such as the new one, for the same rows.
    bounds : (float, float), default=None
        Smallest and largest possible rating. By default labels are 0 and 1.
    groups, groups_all, sample_weight, sample_weight_all, confidence_level
        As for :func:`calibrated_mean`.

    Returns
    -------
    CalibratedMean
        With the second mean minus the first as ``estimate``, ``low``, ``high`` and ``n_effective``.

    Raises
    ------
    ValueError
        As :func:`calibrated_mean`, and if the systems have different numbers of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.judge import calibrated_mean_difference
    >>> rng = np.random.default_rng(0)
    >>> ability = rng.normal(size=5000)
    >>> old, new = ability + rng.normal(0, 0.5, 5000) > 0, ability + 0.5 > 0
    >>> s, t = rng.normal(old, 0.5), rng.normal(new, 0.5)
    >>> difference = calibrated_mean_difference(old[:300], s[:300], s, new[:300], t[:300], t)
    >>> bool(0.1 < difference.low < 0.19 < difference.high < 0.3)
    True
    """
    check_real("confidence_level", confidence_level, high=1)
    low, high = _checked_bounds(bounds)
    weights, pairs = (sample_weight, sample_weight_all), (groups, groups_all)
    systems = (y, score_labelled, score_all), (other_y, other_score_labelled, other_score_all)
    sizes = [[np.shape(values)[:1] for values in system] for system in systems]
    if sizes[0] != sizes[1]:
        raise ValueError(
            "Both systems must be judged on the same rows, got y, score_labelled and score_all "
            f"with the lengths {sizes[0]} and {sizes[1]}. Leave out rows that one system lacks."
        )
    rows = [
        _checked_rows(*system, bounds, weights, pairs, prefix)
        for system, prefix in zip(systems, ("", "other_"), strict=True)
    ]
    first, second = (_corrected(*system) for system in rows)
    (_, w, labels, row_groups), (_, w_all, all_groups) = rows[0]
    deviation, control = second.deviation - first.deviation, second.control - first.control
    spread = w @ control**2
    slope = np.clip(w @ (control * deviation) / spread, 0, 1) if spread > 0 else 0.0
    # Differences that few labels do not show are assumed to be as large as those that they show.
    # The more differences they show, the less do others matter.
    differs = (gaps := rows[1][0][2] - labels) != 0
    n_differ = len(np.unique(row_groups[differs]))
    if n_differ < FEW_EVENTS and FEW_GROUPS <= len(np.unique(row_groups)) < len(w):
        warn(
            f"Differences with groups need {FEW_EVENTS} groups in which the labels of the systems "
            f"differ, got {n_differ}: the interval may be too narrow. Label rows of more groups.",
            FewGroupsWarning,
        )
    size = _mean_size(w * differs if differs.any() else w, row_groups)
    unseen = _unseen(confidence_level) / (1 + w[differs].sum() / size)
    unseen *= np.average(gaps[differs] ** 2, weights=w[differs]) if differs.any() else 1.0
    residual, shift = deviation - slope * control, slope * (second.shift - first.shift)
    variance = _mean_variance(
        residual, slope * control, shift, w, w_all, row_groups, all_groups, confidence_level,
        size**2 * unseen,
    )  # fmt: skip
    estimate = second.rate - first.rate + slope * (second.correction - first.correction)
    reach = ndtri((1 + confidence_level) / 2) * np.sqrt(variance)
    ends = np.clip([estimate - reach, estimate + reach], -1, 1) * (high - low)
    n_effective = _label_variance(deviation, w, unseen) / variance
    estimate = float(np.clip(estimate, -1, 1) * (high - low))
    return CalibratedMean(estimate, float(ends[0]), float(ends[1]), float(n_effective))


def _checked_bounds(bounds: tuple[float, float] | None) -> tuple[float, float]:
    """Return the smallest and the largest possible label."""
    if bounds is None:
        return 0.0, 1.0
    ends = np.asarray(bounds, dtype=np.float64)
    if ends.shape != (2,) or not (np.abs(ends) <= LARGEST).all() or ends[0] >= ends[1]:
        raise ValueError(
            f"bounds must be the smallest and the largest rating, such as (1, 5), got {bounds!r}."
        )
    return float(ends[0]), float(ends[1])


def _checked_rows(
    y: ArrayLike,
    score_labelled: ArrayLike,
    score_all: ArrayLike,
    bounds: tuple[float, float] | None,
    weights: tuple[Any, Any],
    groups: tuple[Any, Any],
    prefix: str = "",
) -> tuple[RatedRows, RatedRows]:
    """Return the labelled rows, with labels mapped to [0, 1], and all rows.

    ``y`` and ``score_labelled`` are (n,), ``score_all`` (N,); weights and groups are pairs (n,) and
    (N,). Messages put ``prefix`` in front of the first three names.
    """
    check_in_memory((y, score_labelled, score_all, *groups))
    name, name_labelled, name_all = (
        f"{prefix}{name}" for name in ("y", "score_labelled", "score_all")
    )
    check_not_swapped(**{name: y, name_labelled: score_labelled})
    labels = as_labels(y, name)
    low, high = _checked_bounds(bounds)
    if bounds is None and not np.isin(labels, [0, 1]).all():
        raise ValueError(
            f"{name} must hold 0 and 1, or booleans, got {shown(np.unique(labels))}. Pass "
            f"{name} == label for the rate of a label, or bounds for the mean of ratings."
        )
    if labels.dtype.kind not in "biuf" or not ((labels >= low) & (labels <= high)).all():
        raise ValueError(
            f"{name} must hold ratings within bounds={bounds!r}, got "
            f"{shown(np.unique(labels))}. Pass the smallest and the largest possible rating."
        )
    score, w = _scored(score_labelled, weights[0], name_labelled)
    scores, w_all = _scored(score_all, weights[1], name_all)
    n, n_all = len(score), len(scores)
    if n != len(labels) or n_all < n:
        raise ValueError(
            f"{name_labelled} must have one score for each of the {len(labels)} labels in {name}, "
            f"and {name_all} the scores of all rows, including the labelled rows, got "
            f"{n} and {n_all}. Check that they are not swapped."
        )
    codes = _codes(*groups, n, n_all, "groups")
    if codes is not None and not prefix:  # the first of two systems has the same groups
        warn_of_few_groups(len(np.unique(codes[0])))
    numbers, numbers_all = codes or (np.arange(n), np.arange(n_all))
    ratings = (labels.astype(np.float64) - low) / (high - low)
    return (score, w, ratings, numbers), (scores, w_all, numbers_all)


def _codes(
    labelled: Any, all_rows: Any, n: int, n_all: int, name: str
) -> tuple[Array, Array] | None:
    """Return categories or groups of the labelled rows (n,) and all rows (n_all,), or None."""
    if labelled is None and all_rows is None:
        return None
    if labelled is None or all_rows is None:
        passed, lacking = (f"{name}_all", name) if labelled is None else (name, f"{name}_all")
        raise ValueError(
            f"{name} of the labelled rows and {name}_all of all rows must be passed together, got "
            f"{passed} only. Pass {lacking} as well."
        )
    labels, labels_all = as_labels(labelled, name), as_labels(all_rows, f"{name}_all")
    if (len(labels), len(labels_all)) != (n, n_all):
        raise ValueError(
            f"{name} must have one entry for each labelled row and {name}_all one for each row, "
            f"got {len(labels)} and {len(labels_all)} for {n} and {n_all} rows. Pass "
            f"{name}_all for the rows of score_all."
        )
    if len(unknown := not_among(labels, labels_all)):
        raise ValueError(
            f"{name} must be among {name}_all, got others: [{shown(unknown)}]. Check that "
            f"{name}_all belongs to the rows of score_all."
        )
    return labels, labels_all


def _scored(score: ArrayLike, sample_weight: ArrayLike | None, name: str) -> tuple[Floats, Floats]:
    """Return finite scores (n,) and their weights (n,)."""
    values = np.asarray(as_numpy(score, name))
    values = values.ravel() if values.shape[1:] == (1,) else values
    if values.ndim != 1 or values.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} must hold one number for each row, got shape {values.shape} of "
            f"{values.dtype}. Pass one column of numbers, such as y_proba[:, 1]."
        )
    values = values.astype(np.float64)  # LARGEST would be infinite in float32
    if not (np.abs(values) <= LARGEST).all():
        raise ValueError(
            f"{name} must hold finite numbers of at most {LARGEST:g} in size, got "
            f"{np.sum(~(np.abs(values) <= LARGEST))} of {len(values)} that are not. Fill in rows "
            "without a score, for example with the middle of the scale. For several judges with "
            "gaps pass probabilities of skcalib.fusion.FusionCalibrator, which takes NaN."
        )
    w = check_weights(sample_weight, len(values))
    return values, np.ones(len(values)) if w is None else w


class Corrected(NamedTuple):
    """Mean label, and its correction by the calibrated scores, multiplied by their slope."""

    rate: float  #: mean label
    correction: float  #: mean of the calibrated scores of all rows minus the labelled rows
    deviation: Floats  #: labels minus their mean
    control: Floats  #: calibrated scores of the labelled rows, centred
    shift: Floats  #: calibrated scores of all rows, centred


def _corrected(labelled: RatedRows, rows: RatedRows, where: str = "") -> Corrected:
    """Compute the terms of :func:`calibrated_mean`; ``where`` names the category in messages."""
    (_, w, y, _), (_, w_all, _) = labelled, rows
    n, n_all = w.sum(), w_all.sum()
    if min(n, n_all) < MIN_LABELS:
        raise ValueError(
            f"At least {MIN_LABELS} rows must be labelled, where a weight of 2 is the row twice, "
            f"got {min(n, n_all):g}{where}. Label more, leave out or merge categories with few "
            "labels, or multiply weights that are relative by len(w) / sum(w)."
        )
    f, f_all = _calibrated(labelled, rows)
    above, above_all = f - w @ f / n, f_all - w @ f / n
    rate, spread = w @ y / n, w @ above**2
    slope = np.clip(w @ (above * y) / spread, 0, 1) if spread > 0 else 0.0
    shift = w_all @ above_all / n_all
    control = slope * above
    return Corrected(rate, slope * shift, y - rate, control, slope * (above_all - shift))


def _corrected_mean(
    labelled: RatedRows, rows: RatedRows, level: float, low: float, high: float, where: str = ""
) -> CalibratedMean:
    """Return the result of :func:`calibrated_mean` for labels that were mapped from [low, high].

    ``labelled`` are arrays (n,), ``rows`` arrays (N,); ``where`` names the category in messages.
    """
    (_, w, _, groups), (_, w_all, groups_all) = labelled, rows
    rate, correction, deviation, control, shift = _corrected(labelled, rows, where)
    mean, unseen = np.clip(rate + correction, 0, 1), _unseen(level)
    variance = _mean_variance(
        deviation - control, control, shift, w, w_all, groups, groups_all, level,
        _mean_size(w, groups) * unseen,
    )  # fmt: skip
    # A rate has the largest variance among means of labels in [0, 1]: the interval is for a rate.
    event_variance = (w.sum() * rate * (1 - rate) + unseen) / (w.sum() - 1)
    ends = np.array(clopper_pearson(mean, event_variance / variance, level))
    n_effective = _label_variance(deviation, w, unseen) / variance
    estimate, start, end = (float(low + (high - low) * value) for value in (mean, *ends))
    return CalibratedMean(estimate, start, end, float(n_effective))


def _unseen(level: float) -> float:
    """Return the sum of squares c, for errors that few labels do not show."""
    return float(ndtri((1 + level) / 2) ** 2 / 2)


def _label_variance(deviation: Floats, w: Floats, unseen: float) -> float:
    """Return n V_0 for deviations (n,) from the mean label with weights (n,)."""
    return float((w @ deviation**2 + unseen) / (w.sum() - 1))


def _mean_variance(
    residual: Floats,
    control: Floats,
    shift: Floats,
    w: Floats,
    w_all: Floats,
    groups: Array,
    groups_all: Array,
    level: float,
    unseen: float,
) -> float:
    """Return the variance V of a corrected mean, or the difference between two.

    ``residual``, ``control``, ``w`` and ``groups`` are (n,); ``shift``, ``w_all`` and
    ``groups_all`` are (N,). The labelled rows may be among all rows. Residuals and scores of a row
    are not correlated, but their sums in a group may be.
    """
    n, n_all = w.sum(), w_all.sum()
    both = _group_products(residual, control, w, groups, level)
    squares = max(float(w @ residual**2), _group_products(residual, residual, w, groups, level))
    squares_all = max(
        float(w_all @ shift**2), _group_products(shift, shift, w_all, groups_all, level)
    )
    variance = (squares + unseen) / (n * (n - 2)) + squares_all / n_all**2
    return float(variance + 2 * max(both, 0.0) / (n * n_all))


def _group_products(a: Floats, b: Floats, w: Floats, groups: Array, level: float) -> float:
    """Return the sum of products of weighted group sums, corrected for few groups: arrays (n,).

    The correction is for the number of groups and for the t distribution. Return 0 if each row is
    a group.
    """
    numbers = np.unique(groups, return_inverse=True)[1].reshape(-1)
    n_groups = int(numbers.max()) + 1
    if n_groups == len(w):
        return 0.0
    sizes, one, other = (np.bincount(numbers, v).astype(float) for v in (w, w * a, w * b))
    tail = (1 + level) / 2
    few = stdtrit(degrees_of_freedom(sizes), tail) / ndtri(tail)
    return float(few**2 * n_groups / max(n_groups - 1, 1) * (one @ other))


def _mean_size(w: Floats, groups: Array) -> float:
    """Return the mean size of the group of a row, by the weights of rows (n,)."""
    numbers = np.unique(groups, return_inverse=True)[1].reshape(-1)
    sizes = np.bincount(numbers, w)
    return float(sizes @ sizes / sizes.sum()) if len(sizes) < len(w) else 1.0


def _calibrated(labelled: RatedRows, rows: RatedRows) -> tuple[Floats, Floats]:
    """Calibrate the scores of the labelled rows (n,) and all rows (N,) by Platt scaling.

    A rating y between 0 and 1 counts as a weight of y with the event and 1 - y without it.
    """
    s, w, y, _ = labelled
    centre = np.average(s, weights=w)
    shares, events = np.concatenate([w * (1 - y), w * y]), np.arange(2).repeat(len(y))
    counts = shares > 0
    M = np.tile(s - centre, 2)[counts, None]
    weighted = Rows(M, events[counts], shares[counts], classes=np.arange(2))
    with ignored(ReversedOrderWarning):
        model = fit_to_rows(PlattScaling(), weighted)
    f, f_all = (expit(model.coef_ * (x - centre) + model.intercept_) for x in (s, rows[0]))
    return f, f_all
