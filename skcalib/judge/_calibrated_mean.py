"""The rate of an event in many rows with scores, from few labels: prediction-powered inference."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import expit, ndtri

from skcalib._optimize.logistic import RowSigmoids, fit_sigmoids
from skcalib._rows import ArrayLike, Floats, MemoryRows, as_numpy, check_in_memory
from skcalib._validation.inputs import LARGEST, check_not_swapped, check_real, check_weights
from skcalib._validation.labels import as_labels, not_among, shown
from skcalib.metrics._curve import clopper_pearson

# Scores and weights of rows, and of labelled ones 0 and 1, each (n,).
Rows = Sequence[Floats]

# So many labels leave a degree of freedom beside the slope and the intercept.
FEWEST = 3


@dataclass(frozen=True)
class CalibratedMean:
    """The rate in all rows with a confidence interval.

    Attributes
    ----------
    estimate : float
        Estimated rate in all rows.
    low, high : float
        Ends of the interval.
    n_effective : float
        Number of labels with which the labelled rows alone would give an interval as narrow.
    groups : dict
        The result for each group, by its label; empty without groups.
    """

    estimate: float
    low: float
    high: float
    n_effective: float
    groups: dict[Any, "CalibratedMean"] = field(default_factory=dict)


def calibrated_mean(
    y: ArrayLike,
    score_labelled: ArrayLike,
    score_all: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    groups_all: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    sample_weight_all: ArrayLike | None = None,
    confidence_level: float = 0.95,
) -> CalibratedMean:
    r"""Rate of an event in many scored rows, from a few labelled ones, with a valid interval.

    All N rows have a score, such as that of a language model as a judge, and n of them, drawn at
    random, have a label y as well. The mean score is not the rate, unless the score is calibrated,
    and the mean label leaves the scores unused. With calibrated scores f, by Platt scaling on the
    labelled rows, the estimate [1]_ [2]_ is

    .. math:: \hat\theta = \bar y_n + \lambda (\bar f_N - \bar f_n) ,

    where :math:`\lambda` in [0, 1] is the slope of y on f in the labelled rows (power tuning [2]_).
    It is consistent whatever the scores are. With the residuals
    :math:`r_i = y_i - \lambda f_i`, its variance, and that of the mean label, are

    .. math:: V = \frac{\sum_i (r_i - \bar r)^2 + c}{n (n - 2)} + \frac{\lambda^2 s_N^2(f)}{N} ,
        \qquad V_0 = \frac{\sum_i (y_i - \bar y)^2 + c}{n (n - 1)} ,

    so that scores are worth :math:`n V_0 / V` labels. The interval is that of Clopper and Pearson
    with this effective number of rows [3]_. The constant :math:`c = z^2 / 2`, with the normal
    quantile z of the confidence level, stands for errors that few labels do not show: without it,
    a judge that is right on all of 30 labels would have no error.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels, 0 and 1 or booleans; the rate is that of 1.
    score_labelled : array-like of shape (n,) or (n, 1)
        Scores of the labelled rows. They may be in any unit, also negatively correlated
        with the labels; log-odds are best (:class:`~skcalib.judge.ScoreTransformer`).
    score_all : array-like of shape (N,) or (N, 1)
        Scores of all rows, the labelled ones among them.
    groups, groups_all : array-like of shape (n,) and (N,), optional
        Groups of the labelled and of all rows, for a result for each group, from its rows only.
    sample_weight, sample_weight_all : array-like of shape (n,) and (N,), optional
        Weights of the labelled and of all rows. A weight of 2 is the row twice, so that sampling
        weights, which sum to more than the labelled rows, would make the interval too narrow.
    confidence_level : float, default=0.95
        Between 0 and 1, for each interval by itself.

    Returns
    -------
    CalibratedMean
        With ``estimate``, ``low``, ``high``, ``n_effective`` and ``groups``.

    Raises
    ------
    ValueError
        If labels are not 0 and 1, scores not finite, lengths differ, or fewer than three rows, of
        some group or of all, are labelled; if groups of labelled rows are not among those of all;
        or if there are fewer rows than labels.

    Notes
    -----
    The interval is of the rate in the population that the rows are from. It holds for the rate in
    just these rows as well, for which it is wider than need be if many of them are labelled.

    The labelled rows must be drawn at random, not by their score. With different fractions of
    the groups labelled, only the results of the groups are valid.

    The fit of two parameters needs no cross-fitting [4]_: the degrees of freedom account for it.
    ``benchmarks/simulate_calibrated_mean.py`` has coverage and width for 30 to 1000 labels, rates
    of 0.01 to 0.5, and good, useless and misleading scores; the interval is at most a few percent
    wider than that of the labels alone.

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
    >>> found = calibrated_mean(y[:300], score[:300], score)
    >>> print(f"{found.estimate:.2f}, from {found.low:.2f} to {found.high:.2f}")
    0.30, from 0.26 to 0.33
    >>> bool(found.n_effective > 400)
    True
    """
    check_real("confidence_level", confidence_level, high=1)
    check_in_memory((y, score_labelled, score_all, groups, groups_all))
    check_not_swapped(y=y, score_labelled=score_labelled)
    event = as_labels(y)
    if not np.isin(event, [0, 1]).all():
        raise ValueError(
            f"y must hold 0 and 1, or booleans, got {shown(np.unique(event))}. Pass y == label for "
            "the rate of a label."
        )
    labelled = *_scored(score_labelled, sample_weight, "score_labelled"), event.astype(np.float64)
    every = _scored(score_all, sample_weight_all, "score_all")
    n, n_all = len(labelled[0]), len(every[0])
    if n != len(event) or n_all < n:
        raise ValueError(
            f"score_labelled must have one score for each of the {len(event)} labels in y, and "
            f"score_all those of all rows, the labelled ones among them, got {n} and {n_all}. "
            "Check that they are not swapped."
        )
    whole = _mean(labelled, every, confidence_level)
    if groups is None and groups_all is None:
        return whole
    parts = _in_groups(groups, groups_all, labelled, every)
    found = {name: _mean(*p, confidence_level, f" of group {name!r}") for name, p in parts}
    return replace(whole, groups=found)


def _in_groups(
    groups: Any, groups_all: Any, labelled: Rows, every: Rows
) -> Iterator[tuple[Any, tuple[Rows, Rows]]]:
    """Each group with its labelled and all its rows."""
    if groups is None or groups_all is None:
        given, lacking = ("groups_all", "groups") if groups is None else ("groups", "groups_all")
        raise ValueError(
            "groups of the labelled rows and groups_all of all rows must be passed together, got "
            f"{given} only. Pass {lacking} as well."
        )
    of, of_all = as_labels(groups, "groups"), as_labels(groups_all, "groups_all")
    lengths, wanted = (len(of), len(of_all)), (len(labelled[0]), len(every[0]))
    if lengths != wanted:
        raise ValueError(
            "groups must have one entry for each labelled row and groups_all for each of all rows, "
            f"got {lengths[0]} and {lengths[1]} for {wanted[0]} and {wanted[1]} rows. Pass "
            "groups_all of the rows of score_all, and of these the groups of the labelled ones."
        )
    if len(unknown := not_among(of, of_all)):
        raise ValueError(
            f"groups must be among those of all rows, got others: [{shown(unknown)}]. Check that "
            "groups_all is of the rows of score_all."
        )
    for name in np.unique(of_all).tolist():
        yield name, ([x[of == name] for x in labelled], [x[of_all == name] for x in every])


def _scored(score: ArrayLike, sample_weight: ArrayLike | None, name: str) -> tuple[Floats, Floats]:
    """Finite scores (n,) and their weights."""
    values = np.asarray(as_numpy(score, name))
    values = values.ravel() if values.shape[1:] == (1,) else values
    if values.ndim != 1 or values.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} must hold one number for each row, got shape {values.shape} of "
            f"{values.dtype}. Pass one column of numbers, such as y_proba[:, 1]."
        )
    if not (np.abs(values) <= LARGEST).all():
        raise ValueError(
            f"{name} must hold finite numbers of at most {LARGEST:g} in size, got "
            f"{np.sum(~(np.abs(values) <= LARGEST))} of {len(values)} that are not. Give rows "
            "without a score one, such as the middle of the scale."
        )
    w = check_weights(sample_weight, len(values))
    return values.astype(np.float64), np.ones(len(values)) if w is None else w


def _mean(labelled: Rows, every: Rows, level: float, group: str = "") -> CalibratedMean:
    """The formulas of :func:`calibrated_mean`, in its notation."""
    (_, w, y), (_, w_all) = labelled, every
    n, n_all = w.sum(), w_all.sum()
    if min(n, n_all) < FEWEST:
        raise ValueError(
            f"At least {FEWEST} rows must be labelled, where a weight of 2 is the row twice, got "
            f"{min(n, n_all):g}{group}. Label more, leave out or merge groups with few labels, or "
            "multiply weights that are relative by len(w) / sum(w)."
        )
    f, f_all = _calibrated(labelled, every)
    above, above_all = f - w @ f / n, f_all - w @ f / n
    rate, spread = w @ y / n, w @ above**2
    slope = np.clip(w @ (above * y) / spread, 0, 1) if spread > 0 else 0.0
    shift = w_all @ above_all / n_all
    estimate = np.clip(rate + slope * shift, 0, 1)
    c = ndtri((1 + level) / 2) ** 2 / 2
    variance = (w @ (y - rate - slope * above) ** 2 + c) / (n * (n - 2))
    variance += slope**2 * (w_all @ (above_all - shift) ** 2) / n_all**2
    n_effective = (w @ (y - rate) ** 2 + c) / (n - 1) / variance
    low, high = clopper_pearson(estimate, n_effective, level)
    return CalibratedMean(float(estimate), float(low), float(high), float(n_effective))


def _calibrated(labelled: Rows, every: Rows) -> tuple[Floats, Floats]:
    """Scores of the labelled and of all rows, calibrated by Platt scaling."""
    s, w, y = labelled
    centre = np.average(s, weights=w)
    rows = MemoryRows((s - centre)[:, None], y.astype(np.intp), w)
    sigmoids = RowSigmoids.of(rows, lambda Z, _: ([Z], None), 1, smooth=True)
    slope, offset = fit_sigmoids(sigmoids, sigmoids.constant).x[0]
    f, f_all = (expit(slope * (x - centre) + offset) for x in (s, every[0]))
    return f, f_all
