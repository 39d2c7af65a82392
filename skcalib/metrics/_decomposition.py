"""What a proper score is made of: miscalibration, discrimination, uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from skcalib._engine.ranking import TINY, Ranked
from skcalib._scores.isotonic import isotonic_blocks
from skcalib._scores.proper import bounded
from skcalib._typing import Floats
from skcalib._validation.parameters import check_option

from ._input import Kind, columns_of

Score = Literal["log_loss", "brier_score"]


@dataclass(frozen=True)
class ScoreDecomposition:
    """Parts of a mean score, ``score = miscalibration - discrimination + uncertainty``.

    Attributes
    ----------
    score : float or ndarray of shape (n_classes,)
        Mean score of the probabilities.
    miscalibration : float or ndarray of shape (n_classes,)
        What recalibration would gain: 0 for probabilities that keep their word.
    discrimination : float or ndarray of shape (n_classes,)
        What recalibrated probabilities gain over always saying how frequent the event is.
    uncertainty : float or ndarray of shape (n_classes,)
        Mean score of always saying that: a property of the labels alone.
    label : ndarray of shape (n_classes,) or None
        With ``kind="classwise"`` the class of each entry, else None.
    """

    score: Any
    miscalibration: Any
    discrimination: Any
    uncertainty: Any
    label: NDArray[Any] | None = None


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
    r"""Parts of the log loss or the Brier score, by isotonic recalibration (CORP).

    The probabilities :math:`p` of an event are recalibrated by isotonic regression on themselves,
    :math:`\hat p`, and compared with that and with its frequency :math:`\bar y`,

    .. math:: \bar S(p) = \underbrace{\bar S(p) - \bar S(\hat p)}_{\text{miscalibration}}
        - \underbrace{\big( \bar S(\bar y) - \bar S(\hat p) \big)}_{\text{discrimination}}
        + \underbrace{\bar S(\bar y)}_{\text{uncertainty}} .

    All parts are at least 0. No bins are chosen.

    Parameters
    ----------
    y_true, y_proba
        As for :func:`reliability_curve`.
    score : {"log_loss", "brier_score"}, default="log_loss"
        The proper score. The Brier score is the mean of :math:`(p - y)^2`. As in scikit-learn, a
        probability is taken to be at least the rounding error of 1 for the log loss.
    kind, sample_weight, labels, pos_label
        As for :func:`reliability_curve`. The score is that of the event: that the top label is
        right, or that the label is ``pos_label``, or each class in turn.

    Returns
    -------
    ScoreDecomposition
        The parts as numbers, or with ``kind="classwise"`` as arrays.

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
    if kind == "classwise":
        return ScoreDecomposition(own, lost, gained, constant, np.array(columns.labels))
    return ScoreDecomposition(own.item(), lost.item(), gained.item(), constant.item())


def _parts(order: Ranked, score: Score) -> list[float]:
    blocks = isotonic_blocks(order)
    hits, weight = order.hits, order.weight
    misses = weight - hits

    def mean(p: Floats, q: Floats) -> float:
        return float(np.sum(_cost(p, q, hits, misses, score)) / weight.sum())

    # Probabilities and what is missing to one: beside large weights 1 - p may be lost in rounding.
    p = bounded(order.scores) if score == "log_loss" else np.clip(order.scores, 0, 1)
    own = mean(p, 1 - p)
    best = mean(*(_shares(values, weight, blocks.start) for values in (hits, misses)))
    once = np.zeros(1, np.intp)
    constant = mean(*(_shares(values, weight, once) for values in (hits, misses)))
    return [own, own - best, constant - best, constant]


def _shares(values: Floats, weight: Floats, start: NDArray[np.intp]) -> Floats:
    """Share of the weight in each block that values sum up to, for each of its scores."""
    share = np.add.reduceat(values, start) / np.add.reduceat(weight, start)
    return np.repeat(share, np.diff(start, append=len(values)))


def _cost(p: Floats, q: Floats, hits: Floats, misses: Floats, score: Score) -> Floats:
    if score == "log_loss":
        # A share of tiny weights beside others underflows, and counts for nothing.
        return -(xlogy(hits, np.maximum(p, TINY)) + xlogy(misses, np.maximum(q, TINY)))
    return hits * q**2 + misses * p**2
