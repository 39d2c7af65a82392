"""Selective prediction: accept rows above a threshold of the confidence, and control their risk."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from scipy.special import betainc, xlog1py

from skcalib._input.arrays import check_in_memory
from skcalib._input.groups import group_numbers
from skcalib._input.labels import as_labels
from skcalib._input.measures import check_kind, columns_of, scored_rows
from skcalib._input.parameters import check_flag, check_real
from skcalib._rows import Ranked
from skcalib._rows.ranking import distinct_scores
from skcalib._typing import ArrayLike, Bools, Floats, Indices

Accepted = Literal["top-label", "binary"]

# The number of labels that would suffice is reported as infinite above this multiple.
MAX_FACTOR = 1e6


@dataclass(frozen=True)
class RiskCoverageCurve:
    """Coverage and selective risk at each threshold, from the highest to the lowest threshold.

    Attributes
    ----------
    threshold : ndarray of shape (n_thresholds,)
        Distinct scores, decreasing: rows with a score of at least the threshold are accepted.
    coverage : ndarray of shape (n_thresholds,)
        Share of the rows that are accepted, increasing to 1.
    risk : ndarray of shape (n_thresholds,)
        Share of the accepted rows that are wrong.
    """

    threshold: Floats
    coverage: Floats
    risk: Floats

    @property
    def area(self) -> float:
        """Area under the curve (AURC): the risk at each row's score, averaged over the rows."""
        return float(np.sum(np.diff(self.coverage, prepend=0) * self.risk))

    @property
    def excess_area(self) -> float:
        """Area minus the area for the best ordering with the same number of errors."""
        wrong = self.risk[-1]
        return float(max(self.area - wrong - xlog1py(1 - wrong, -wrong), 0.0))


@dataclass(frozen=True)
class SelectiveThreshold:
    """Threshold for the confidence that guarantees a maximum risk.

    Attributes
    ----------
    threshold : float
        Rows with at least this score are accepted. Infinite if no threshold passes.
    coverage : float
        Share of the rows that are accepted.
    risk : float
        Share of the accepted rows that are wrong; 0 if none is accepted.
    n_labels : float
        Number of labels that a threshold needs to pass, if more rows had the same risks and
        coverages. The number of rows if a threshold passes. Infinite if the promised risk is below
        the risk at every threshold.
    by : dict
        Result for each category of ``by``; empty without categories.
    """

    threshold: float
    coverage: float
    risk: float
    n_labels: float
    by: dict[Any, SelectiveThreshold] = field(default_factory=dict)


def risk_coverage_curve(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    kind: Accepted = "top-label",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
) -> RiskCoverageCurve:
    r"""Compute the risk of accepted rows as a function of the share that is accepted.

    A classifier that may abstain accepts rows with a score :math:`s_i` of at least a threshold t.
    Its coverage and its selective risk [1]_ are

    .. math:: \phi(t) = \frac 1N \sum_i w_i\, 1[s_i \ge t], \quad
        r(t) = \frac{\sum_i w_i\, 1[s_i \ge t]\, 1[\text{row i is wrong}]}
        {\sum_i w_i\, 1[s_i \ge t]} .

    Rows with equal scores are accepted together, as no threshold separates them.

    Parameters
    ----------
    y_true, y_proba
        As for :func:`reliability_curve`.
    kind : {"top-label", "binary"}, default="top-label"
        ``"top-label"``: the score is the largest probability of the row, also for two classes. A
        row is wrong if the label is another class. ``"binary"``: the score is the probability of
        ``pos_label``, and a row is wrong if it has another label. Use it for labels that say
        whether an answer is right.
    sample_weight, labels, pos_label
        As for :func:`reliability_curve`.

    Returns
    -------
    RiskCoverageCurve
        With a point for each distinct score.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`.

    References
    ----------
    .. [1] El-Yaniv, Wiener, "On the Foundations of Noise-free Selective Classification", Journal of
       Machine Learning Research 11, 2010.

    Examples
    --------
    >>> from skcalib.decision import risk_coverage_curve
    >>> P = [[0.9, 0.1], [0.3, 0.7], [0.3, 0.7], [0.6, 0.4]]
    >>> curve = risk_coverage_curve([0, 1, 0, 1], P)
    >>> curve.coverage.tolist(), curve.risk.round(2).tolist()
    ([0.25, 0.75, 1.0], [0.0, 0.33, 0.5])
    """
    check_kind(kind, Accepted)
    columns = columns_of(y_true, y_proba, kind, sample_weight, labels, pos_label)
    return columns.ranked(risk_curve)[0]


def risk_curve(rows: Ranked) -> RiskCoverageCurve:
    """Return the curve for ranked scores. Hits are rows that are right."""
    weight, wrong = _accepted(rows)
    return RiskCoverageCurve(rows.scores[::-1], weight / weight[-1], wrong / weight)


def _accepted(rows: Ranked) -> tuple[Floats, Floats]:
    """Return the accepted weight, and its wrong part, at each threshold: two arrays (m,)."""
    wrong = np.cumsum((rows.weight - rows.hits)[::-1])
    return np.cumsum(rows.weight[::-1]), np.maximum(wrong, 0)


def area_under_risk_coverage(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    excess: bool = False,
    kind: Accepted = "top-label",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    r"""Compute the area under the risk-coverage curve (AURC), or its excess over the best ordering.

    :func:`risk_coverage_curve` defines the selective risk r at a threshold. The area is the mean
    risk if the score of each row in turn is the threshold,

    .. math:: \mathrm{AURC} = \frac 1N \sum_i w_i\, r(s_i) .

    Scores that put all errors last have the area :math:`r + (1 - r) \log(1 - r)`, with the overall
    error rate r. The excess over this area [1]_ is never negative. For scores that put all errors
    last in n rows, it is at most r / n.

    Parameters
    ----------
    y_true, y_proba
        As for :func:`reliability_curve`.
    excess : bool, default=False
        Whether to return the excess, which depends on the ordering of the rows more than on the
        error rate.
    kind, sample_weight, labels, pos_label
        As for :func:`risk_coverage_curve`.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`.

    Notes
    -----
    The result does not depend on the order of the rows, and a weight of 2 equals the row twice.
    Without ties it is the mean of the n risks, as in [1]_. Other implementations differ. If they
    accept ties one by one, the area depends on the order of the rows. The trapezoidal rule is
    smaller by half a step at either end. Some leave out the first points, which are noisy.

    References
    ----------
    .. [1] Geifman, Uziel, El-Yaniv, "Bias-Reduced Uncertainty Estimation for Deep Neural
       Classifiers", ICLR 2019, `arXiv:1805.08206 <https://arxiv.org/abs/1805.08206>`_.

    Examples
    --------
    >>> from skcalib.decision import area_under_risk_coverage
    >>> P = [[0.9, 0.1], [0.3, 0.7], [0.3, 0.7], [0.6, 0.4]]
    >>> round(area_under_risk_coverage([0, 1, 0, 1], P), 4)  # (0 + 2 / 3 + 1 / 2) / 4
    0.2917
    """
    check_flag("excess", excess)
    curve = risk_coverage_curve(
        y_true, y_proba, kind=kind, sample_weight=sample_weight, labels=labels, pos_label=pos_label
    )
    return curve.excess_area if excess else curve.area


def selective_threshold(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    risk: float = 0.05,
    confidence_level: float = 0.95,
    kind: Accepted = "top-label",
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    groups: ArrayLike | None = None,
    by: ArrayLike | None = None,
) -> SelectiveThreshold:
    r"""Choose a threshold that limits the share of errors among accepted rows.

    Accepting rows with at least the score t has the risk :math:`r(t)`. If the rows are drawn
    independently from the same population as future rows, this risk is at most the promised risk
    with a probability of at least the confidence level :math:`1 - \delta`,

    .. math:: P\big( r(t) \le \text{risk} \big) \ge 1 - \delta .

    A threshold with E errors in n accepted rows passes if the Clopper-Pearson upper limit [1]_ for
    the risk is at most the promised risk, that is, if
    :math:`P(\mathrm{Bin}(n, \text{risk}) \le E) \le \delta`. Thresholds are tested in fixed order
    [2]_, from the highest downwards, until one fails. A single error among the first rows would
    end the test. So it starts again where an eighth of the rows are accepted, and where half are
    accepted. It also starts at 1/32 and so on, while these rows would suffice without an error.
    The starts share :math:`\delta` evenly. If the tests that lead to a later start all pass, their
    share is passed on to it (the fallback procedure [3]_). The lowest threshold that passes is
    returned.

    Parameters
    ----------
    y_true, y_proba
        As for :func:`reliability_curve`, for held-out rows that neither the classifier nor the
        calibrator was fitted to.
    risk : float, default=0.05
        The promised share of errors among accepted rows, between 0 and 1.
    confidence_level : float, default=0.95
        Probability that the promise holds, between 0 and 1.
    kind, labels, pos_label
        As for :func:`risk_coverage_curve`.
    groups : array-like of shape (n_samples,), default=None
        Group per row, such as a patient or a question. The n accepted rows then count as
        :math:`n_\text{eff} = n^2 / \sum_g n_g^2` independent rows with the same share of errors,
        where :math:`n_g` accepted rows are in group g. This treats the rows in a group as equal.
    by : array-like of shape (n_samples,), default=None
        Category of each row, such as the question or the species. Each category gets a threshold
        from its rows only. The promises for all m categories hold jointly at the confidence level:
        the level of each category is :math:`1 - \delta / m` (Bonferroni).

    Returns
    -------
    SelectiveThreshold
        With ``threshold``, ``coverage``, ``risk``, ``n_labels`` and ``by``. If no threshold passes,
        no row is accepted: the threshold is infinite, and ``n_labels`` says how many labels would
        suffice. A risk of 0.05 at a confidence level of 0.95 needs 59 accepted rows without an
        error. With ``by``, the promise for all rows together holds at the confidence level by
        itself.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`. Also if ``risk`` or ``confidence_level`` is not between 0 and
        1, or if ``by`` has another length than ``y_true``.

    Notes
    -----
    There are no weights, since the binomial distribution is for independent rows. With a single
    start the guarantee is exact for any scores. With several starts it is exact if the true risk
    does not fall as the threshold falls. ``benchmarks/simulate.py selective`` counts violations,
    also for falling risks.

    References
    ----------
    .. [1] Clopper, Pearson, "The use of confidence or fiducial limits illustrated in the
       case of the binomial", Biometrika 26, 1934.
    .. [2] Angelopoulos, Bates, Candes, Jordan, Lei, "Learn then Test: Calibrating Predictive
       Algorithms to Achieve Risk Control", 2021, `arXiv:2110.01052
       <https://arxiv.org/abs/2110.01052>`_.
    .. [3] Wiens, Dmitrienko, "The fallback procedure for evaluating a single family of
       hypotheses", Journal of Biopharmaceutical Statistics 15, 2005.

    Examples
    --------
    >>> from skcalib.datasets import make_logits
    >>> from skcalib.decision import selective_threshold
    >>> _, y, P = make_logits(2000, 3, return_proba=True, random_state=0)
    >>> result = selective_threshold(y, P, risk=0.1)
    >>> bool(result.risk < 0.1 and result.coverage > 0.3)
    True
    >>> accepted = P.max(axis=1) >= result.threshold
    >>> bool(accepted.mean() == result.coverage)
    True

    A threshold for each question, and the number of labels that a question lacks:

    >>> import numpy as np
    >>> question = np.repeat(["first", "second"], [1900, 100])
    >>> result = selective_threshold(y, P, risk=0.1, by=question)
    >>> round(result.by["first"].coverage, 2)
    0.3
    >>> result.by["second"].threshold
    inf
    >>> result.by["second"].n_labels
    346.0
    """
    check_kind(kind, Accepted)
    check_real("risk", risk, high=1)
    check_real("confidence_level", confidence_level, high=1)
    check_in_memory((y_true, y_proba, groups, by))
    rows = next(scored_rows(y_true, y_proba, kind, None, labels, pos_label)[1])
    numbers = group_numbers(groups, y_proba, None)
    delta = 1 - confidence_level
    result = _threshold(rows.score, rows.event, numbers, risk, delta)
    if by is None:
        return result
    categories = as_labels(by, "by")
    if len(categories) != len(rows.score):
        raise ValueError(
            f"by must have a category for each of the {len(rows.score)} rows, got "
            f"{len(categories)}. Pass one entry per row of y_true."
        )
    names = np.unique(categories)
    results = {}
    for name in names.tolist():
        members = categories == name
        member_groups = None if numbers is None else numbers[members]
        category = rows.score[members], rows.event[members], member_groups
        results[name] = _threshold(*category, risk, delta / len(names))
    return replace(result, by=results)


def _threshold(
    score: Floats, right: Bools, groups: Indices | None, risk: float, level: float
) -> SelectiveThreshold:
    """Find the lowest threshold that passes, or the number of labels that a threshold needs.

    ``score``, ``right`` and ``groups`` (or None) are (n,); ``level`` is the probability of failure.
    """
    rows = distinct_scores(score, right)
    n, wrong = _accepted(rows)
    effective = n if groups is None else n**2 / _squared_sizes(score, groups, rows.scores[::-1])
    errors = wrong * effective / n
    last = lowest_that_passes(effective, errors, risk, level)
    if last >= 0:
        threshold, accepted = float(rows.scores[::-1][last]), n[last]
        coverage, rate = accepted / n[-1], wrong[last] / accepted
        return SelectiveThreshold(threshold, float(coverage), float(rate), float(n[-1]))
    if (wrong / n).min() >= risk:
        return SelectiveThreshold(np.inf, 0.0, 0.0, np.inf)
    times = 1.0
    while lowest_that_passes(times * effective, times * errors, risk, level) < 0:
        times *= 1.1
        if times > MAX_FACTOR:  # the risk is so close to the promise that no number suffices
            return SelectiveThreshold(np.inf, 0.0, 0.0, np.inf)
    return SelectiveThreshold(np.inf, 0.0, 0.0, float(np.ceil(times * n[-1])))


def _squared_sizes(score: Floats, groups: Indices, thresholds: Floats) -> Floats:
    """Sum the squared numbers of accepted rows per group, at decreasing thresholds: (m,).

    ``score`` and ``groups`` are (n,), ``thresholds`` (m,).
    """
    order = np.argsort(-score, kind="stable")
    # The k-th accepted row of a group adds k^2 - (k - 1)^2 to the sum.
    by_group = np.lexsort((np.arange(len(order)), groups[order]))
    first = np.flatnonzero(np.diff(groups[order][by_group], prepend=-1))
    k = np.empty(len(order))
    starts = np.repeat(first, np.diff(first, append=len(order)))
    k[by_group] = np.arange(len(order)) - starts + 1
    reached = np.searchsorted(-score[order], -thresholds, side="right") - 1
    return np.asarray(np.cumsum(2 * k - 1)[reached])


def lowest_that_passes(n: Floats, wrong: Floats, risk: float, level: float) -> int:
    """Return the index of the lowest threshold that passes, or -1.

    ``n`` (m,) and ``wrong`` (m,) are accepted rows and errors at decreasing thresholds, ``level``
    the probability of failure that all starts share.
    """
    # P(at most ``wrong`` errors), by the beta function because effective numbers are not whole.
    pvalues = np.where(
        n - wrong > 0, betainc(np.maximum(n - wrong, 1e-9), wrong + 1, 1 - risk), 1.0
    )
    fewest = np.log(level) / np.log1p(-risk)  # fewer rows fail even without an error
    sizes = n[-1] / 2 / 4.0 ** np.arange(32)
    sizes = sizes[sizes >= fewest][::-1] if sizes[0] >= fewest else [fewest]
    last, alpha = -1, 0.0
    for start, end in pairwise([*np.searchsorted(np.maximum.accumulate(n), sizes), len(n)]):
        alpha += level / len(sizes)
        failed = np.flatnonzero(pvalues[start:end] > alpha)
        passed = failed[0] if failed.size else end - start
        last = start + passed - 1 if passed else last
        alpha = 0.0 if failed.size else alpha  # passed on only without a failure
    return int(last)
