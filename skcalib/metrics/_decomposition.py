"""Decomposition of proper scoring rules: miscalibration, discrimination and uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from skcalib._engine.ranking import TINY, Ranked
from skcalib._scores.isotonic import isotonic_blocks
from skcalib._scores.proper import bounded
from skcalib._typing import Array, Floats
from skcalib._validation.parameters import check_option

from ._input import OF_EACH, Kind, columns_of

Score = Literal["log_loss", "brier_score"]


@dataclass(frozen=True)
class ScoreDecomposition:
    """Components of a mean score, ``score = miscalibration - discrimination + uncertainty``.

    Attributes
    ----------
    score : float or ndarray of shape (n_classes,)
        Mean score of the probabilities.
    miscalibration : float or ndarray of shape (n_classes,)
        Improvement of the score by recalibration: 0 for calibrated probabilities.
    discrimination : float or ndarray of shape (n_classes,)
        Improvement of the recalibrated probabilities over predicting the base rate.
    uncertainty : float or ndarray of shape (n_classes,)
        Mean score of predicting the base rate, which depends on the labels only.
    label : ndarray of shape (n_classes,) or None
        With ``kind="classwise"`` or ``"multilabel"`` the class or label of each entry, else None.
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
    kind: Kind = "top-label",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
) -> ScoreDecomposition:
    r"""Decomposition of the log loss or the Brier score by isotonic regression (CORP).

    The probabilities :math:`p` of an event are recalibrated by isotonic regression of the event on
    them, :math:`\hat p`, and compared with these and with the base rate :math:`\bar y`,

    .. math:: \bar S(p) = \underbrace{\bar S(p) - \bar S(\hat p)}_{\text{miscalibration}}
        - \underbrace{\big( \bar S(\bar y) - \bar S(\hat p) \big)}_{\text{discrimination}}
        + \underbrace{\bar S(\bar y)}_{\text{uncertainty}} .

    All components are non-negative. There are no bins to choose.

    Parameters
    ----------
    y_true, y_proba
        As for :func:`reliability_curve`. The scores of tensors are ranked on their device.
    score : {"log_loss", "brier_score"}, default="log_loss"
        The proper scoring rule. The Brier score is the mean of :math:`(p - y)^2`. As in
        scikit-learn, probabilities are clipped to ``[eps, 1 - eps]`` for the log loss.
    kind, sample_weight, labels, pos_label
        As for :func:`reliability_curve`. The score is that of the probability of the event: that
        the predicted class is correct, that the label is ``pos_label``, or that it is each class;
        with ``kind="multilabel"`` that the row has each label.

    Returns
    -------
    ScoreDecomposition
        The components as numbers, or with ``kind="classwise"`` or ``"multilabel"`` as arrays.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`.

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
    check_option("score", score, Score)
    columns = columns_of(y_true, y_proba, kind, sample_weight, labels, pos_label)
    parts = columns.ranked(lambda rows: _parts(rows, score))
    own, lost, gained, constant = np.array(parts).T
    if kind in OF_EACH:
        return ScoreDecomposition(own, lost, gained, constant, np.array(columns.labels))
    return ScoreDecomposition(own.item(), lost.item(), gained.item(), constant.item())


def _parts(order: Ranked, score: Score) -> list[float]:
    blocks = isotonic_blocks(order)
    hits, weight = order.hits, order.weight
    misses = weight - hits

    def mean(p: Floats, q: Floats) -> float:
        return float(np.sum(_cost(p, q, hits, misses, score)) / weight.sum())

    # Both p and 1 - p are passed: computed from shares, 1 - p would lose precision by rounding.
    p = bounded(order.scores) if score == "log_loss" else np.clip(order.scores, 0, 1)
    own = mean(p, 1 - p)
    best = mean(*(_shares(values, weight, blocks.start) for values in (hits, misses)))
    once = np.zeros(1, np.intp)
    constant = mean(*(_shares(values, weight, once) for values in (hits, misses)))
    return [own, own - best, constant - best, constant]


def _shares(values: Floats, weight: Floats, start: NDArray[np.intp]) -> Floats:
    """Fraction of the weight of each block that ``values`` sum to, repeated for its scores."""
    share = np.add.reduceat(values, start) / np.add.reduceat(weight, start)
    return np.repeat(share, np.diff(start, append=len(values)))


def _cost(p: Floats, q: Floats, hits: Floats, misses: Floats, score: Score) -> Floats:
    if score == "log_loss":
        # A fraction of tiny weights beside large ones underflows to zero, with no effect.
        return -(xlogy(hits, np.maximum(p, TINY)) + xlogy(misses, np.maximum(q, TINY)))
    return hits * q**2 + misses * p**2
