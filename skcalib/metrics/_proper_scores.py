"""Proper scoring rules, and the decomposition of their mean.

The log loss and the Brier score of each row agree with scikit-learn, in double precision. All
tables and figures use these functions, so that their values agree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy.special import xlogy

from skcalib._input.measures import OF_EACH, check_measure, columns_of
from skcalib._input.parameters import check_flag, check_option
from skcalib._rows import Ranked
from skcalib._scores.isotonic import isotonic_blocks
from skcalib._typing import Array, ArrayLike, Bools, Floats, Indices, Kind

Score = Literal["log_loss", "brier_score", "ranked_probability_score"]


def score_name(score: Any) -> Any:
    """Return the name of a score without "neg_", or raise a ValueError for other names."""
    plain = score.removeprefix("neg_") if isinstance(score, str) else score
    check_option("score", plain, Score)
    return plain


def bounded(p: Floats) -> Floats:
    """Clip probabilities to [eps, 1 - eps] in double precision, so that logs are finite.

    scikit-learn uses the eps for the dtype of ``p``, which bounds float32 losses.
    """
    eps = np.finfo(np.float64).eps
    return np.clip(p, eps, 1 - eps, dtype=np.float64)


def log_losses_of(p: Floats) -> Floats:
    """Return the log loss of each row, from the probability of its label."""
    return -np.log(bounded(p))


def log_losses(P: Floats, y: Indices) -> Floats:
    """Return the log loss of each row, from probabilities (m, K) and class indices (m,)."""
    return log_losses_of(P[np.arange(len(P)), y])


def brier_scores(P: Floats, y: Indices) -> Floats:
    """Sum squared errors over the classes, halved for two classes: ``scale_by_half="auto"``."""
    off = P.astype(np.float64)
    off[np.arange(len(P)), y] -= 1
    return np.einsum("ij,ij->i", off, off) / (2 if P.shape[1] == 2 else 1)


def mean_log_loss(
    y_true: Any, y_proba: Any, *, sample_weight: Any = None, labels: Any = None
) -> float:
    """Return the mean log loss, with the columns ordered as ``labels``."""
    return mean_over_rows(log_losses, y_true, y_proba, sample_weight, labels)


def mean_brier_score(
    y_true: Any, y_proba: Any, *, sample_weight: Any = None, labels: Any = None
) -> float:
    """Return the mean Brier score, with the columns ordered as ``labels``."""
    return mean_over_rows(brier_scores, y_true, y_proba, sample_weight, labels)


def mean_over_rows(f: Callable[[Floats, Indices], Floats], *rows: Any) -> float:
    """Average ``f(P, y)`` with weights, for the first arguments of :func:`check_measure`."""
    checked = check_measure(*rows)

    def total_of(P: Floats, y: Indices, w: Floats | None) -> Any:
        values = f(np.stack([1 - P, P], axis=1) if P.ndim == 1 else P, y)
        return np.sum(values) if w is None else w @ values

    total = checked.sum(total_of)
    return float(total) / checked.weight


@dataclass(frozen=True)
class ScoreDecomposition:
    """Components of a mean score, ``score = miscalibration - discrimination + uncertainty``.

    Attributes
    ----------
    score : float or ndarray of shape (n_classes,)
        Mean score of the probabilities.
    miscalibration : float or ndarray of shape (n_classes,)
        Improvement by recalibration: 0 for calibrated probabilities.
    discrimination : float or ndarray of shape (n_classes,)
        Improvement of the recalibrated probabilities over predicting the base rate.
    uncertainty : float or ndarray of shape (n_classes,)
        Mean score of predicting the base rate, which depends on the labels only.
    label : ndarray of shape (n_classes,) or None
        With ``kind="classwise"``, ``"multilabel"`` or ``"cumulative"`` the class or label of each
        entry, else None.
    """

    score: Any
    miscalibration: Any
    discrimination: Any
    uncertainty: Any
    label: Array | None = None


def score_decomposition(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    score: Score = "log_loss",
    kind: Kind = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    order: ArrayLike | None = None,
) -> ScoreDecomposition:
    r"""Decompose a proper score by isotonic regression (CORP).

    The probabilities :math:`p` of an event are recalibrated by isotonic regression of the event on
    them, :math:`\hat p`, and compared with these and with the base rate :math:`\bar y`,

    .. math:: \bar S(p) = \underbrace{\bar S(p) - \bar S(\hat p)}_{\text{miscalibration}}
        - \underbrace{\big( \bar S(\bar y) - \bar S(\hat p) \big)}_{\text{discrimination}}
        + \underbrace{\bar S(\bar y)}_{\text{uncertainty}} .

    All components are non-negative. There are no bins to choose.

    Parameters
    ----------
    y_true, y_proba
        As for :func:`reliability_curve`.
    score : {"log_loss", "brier_score", "ranked_probability_score"}, default="log_loss"
        The proper scoring rule, with or without ``neg_``. The Brier score is the mean of
        :math:`(p - y)^2`. As in scikit-learn, probabilities are clipped to ``[eps, 1 - eps]`` for
        the log loss.
        The components of :func:`ranked_probability_score`, for ordered classes, are sums of the
        components of Brier scores of cumulative events.
    kind, sample_weight, labels, pos_label, order
        As for :func:`reliability_curve`. The score is the score of the probability of the event:
        the predicted class is correct, the label is ``pos_label`` or each class, or the row has
        each label with ``kind="multilabel"``. The ranked probability score has the kind
        "cumulative".

    Returns
    -------
    ScoreDecomposition
        The components as numbers, or with several events in a row as arrays. Components of the
        ranked probability score are sums over the events.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`, and for another kind with the ranked probability score.

    References
    ----------
    .. [1] Dimitriadis, Gneiting, Jordan, "Stable reliability diagrams for probabilistic
       classifiers", PNAS 118, 2021, `arXiv:2008.03033 <https://arxiv.org/abs/2008.03033>`_.

    Examples
    --------
    >>> from skcalib.metrics import score_decomposition
    >>> parts = score_decomposition(
    ...     [0, 0, 1, 1, 1], [0.1, 0.4, 0.3, 0.6, 0.9], score="brier_score", kind="binary")
    >>> round(parts.score, 3), round(parts.miscalibration, 3)
    (0.166, 0.066)
    """
    score = score_name(score)
    if score == "ranked_probability_score":
        if kind not in ("auto", "cumulative"):
            raise ValueError(
                f"score={score!r} is for all classes in their order, got kind={kind!r}. Pass "
                "kind='cumulative'."
            )
        columns = columns_of(
            y_true, y_proba, "cumulative", sample_weight, labels, pos_label, order=order
        )
        parts = columns.ranked(partial(decomposed, score="brier_score"))
        return ScoreDecomposition(*np.sum(parts, axis=0).tolist())
    rows = (y_true, y_proba, kind, sample_weight, labels, pos_label)
    columns = columns_of(*rows, order=order)
    parts = columns.ranked(partial(decomposed, score=score))
    total, lost, gained, constant = np.array(parts).T if kind in OF_EACH else parts[0]
    label = np.array(columns.labels) if kind in OF_EACH else None
    return ScoreDecomposition(total, lost, gained, constant, label)


def decomposed(rows: Ranked, score: Score) -> list[float]:
    """Compute mean score, miscalibration, discrimination and uncertainty of ranked rows."""
    hits, weight, misses = rows.hits, rows.weight, rows.weight - rows.hits

    # Both p and q = 1 - p are passed: computed from shares, 1 - p would lose precision by rounding.
    def mean(p: Floats, q: Floats) -> float:
        if score == "log_loss":
            # A fraction of tiny weights beside large ones underflows to zero, with no effect.
            tiny = np.finfo(np.float64).tiny
            costs = -(xlogy(hits, np.maximum(p, tiny)) + xlogy(misses, np.maximum(q, tiny)))
        else:
            costs = hits * q**2 + misses * p**2
        return float(np.sum(costs) / weight.sum())

    def mean_at_frequencies(start: Indices) -> float:
        """Return the mean score if each probability is the frequency of the event in its block."""
        size = np.diff(start, append=len(hits))
        total = np.add.reduceat(weight, start)
        return mean(*(np.repeat(np.add.reduceat(n, start) / total, size) for n in (hits, misses)))

    p = bounded(rows.scores) if score == "log_loss" else np.clip(rows.scores, 0, 1)
    found, best = mean(p, 1 - p), mean_at_frequencies(isotonic_blocks(rows).start)
    constant = mean_at_frequencies(np.zeros(1, np.intp))
    return [found, found - best, constant - best, constant]


def ranked_probability_score(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    order: ArrayLike | None = None,
    normalize: bool = False,
) -> float:
    r"""Compute the ranked probability score, a proper score for ordered classes.

    With the cumulative probability :math:`F_{ik}` of the first k classes it is [1]_

    .. math:: \frac1N \sum_i w_i \sum_{k=1}^{K-1} \bigl(F_{ik} - 1(y_i \le k)\bigr)^2 .

    It is smaller if wrong predictions are close to the true class.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels.
    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Probabilities: one column per class, ordered as ``labels``, or for two classes the
        probability of the second.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight 2 equals the row twice, weight 0 equals the row left out.
    labels : array-like of shape (n_classes,), default=None
        All labels in column order. By default the sorted labels in ``y_true``, or its
        ordered categories.
    order : array-like of shape (n_classes,), default=None
        All labels from the lowest to the highest class. By default the order of numbers or of
        ordered categories. More than two classes of text need it.
    normalize : bool, default=False
        Whether to divide by :math:`K - 1`, so that the score is at most 1.

    Returns
    -------
    float
        Mean score. Smaller is better, and 0 is the score of certain and right predictions.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`.

    See Also
    --------
    skcalib.OrdinalCalibration : Calibration of ordered classes.
    score_decomposition : Miscalibration and discrimination as parts of the score.

    References
    ----------
    .. [1] Epstein, "A Scoring System for Probability Forecasts of Ranked Categories", Journal of
       Applied Meteorology 8, 1969.

    Examples
    --------
    >>> from skcalib.metrics import ranked_probability_score
    >>> ranked_probability_score([0], [[0.5, 0.5, 0.0]], labels=[0, 1, 2])
    0.25
    >>> ranked_probability_score([0], [[0.5, 0.0, 0.5]], labels=[0, 1, 2])
    0.5
    >>> y_true, y_proba = ["win"], [[0.5, 0.2, 0.3]]  # of "draw", "loss" and "win"
    >>> round(ranked_probability_score(
    ...     y_true, y_proba, labels=["draw", "loss", "win"], order=["loss", "draw", "win"]), 2)
    0.53
    """
    check_flag("normalize", normalize)
    columns = columns_of(y_true, y_proba, "cumulative", sample_weight, labels, None, order=order)
    score = float(columns.sums(_ranked_scores) / columns.rows.weight)
    return score / len(columns.labels) if normalize else score


def _ranked_scores(F: Floats, events: Bools, w: Floats | None) -> Floats:
    """Sum the ranked probability score over the rows of a block."""
    scores = ((F - events) ** 2).sum(axis=1)
    return np.asarray(scores.sum() if w is None else scores @ w)
