"""Ranked probability score of ordered classes."""

from __future__ import annotations

import numpy as np

from skcalib._input.parameters import check_flag
from skcalib._input.scores import columns_of
from skcalib._typing import ArrayLike, Bools, Floats


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
