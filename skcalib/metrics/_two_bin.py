"""Averaged two-bin calibration error."""

from __future__ import annotations

from typing import Any

import numpy as np

from skcalib._rows import ArrayLike, Bools, Floats

from ._input import Kind, scored_rows


def averaged_two_bin_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    kind: Kind = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    r"""Averaged two-bin calibration error, which true probabilities minimize in expectation.

    A threshold t divides the rows into two bins. The error is the sum of the squared residuals of
    the two bins, averaged over all thresholds [1]_:

    .. math:: \int_0^1 \Bigl(\frac1N \sum_{p_i \le t} w_i (p_i - y_i)\Bigr)^2
        + \Bigl(\frac1N \sum_{p_i > t} w_i (p_i - y_i)\Bigr)^2 \, dt .

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels.
    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Probabilities: one column per class in the order of ``labels``, or for two classes the
        probability of ``pos_label`` alone.
    kind : {"auto", "top-label", "classwise", "binary", "multilabel"}, default="auto"
        Scores and events, as in :func:`reliability_curve`. Errors of several classes or labels
        are averaged.
    sample_weight : array-like of shape (n_samples,), default=None
        A weight of 2 equals the row twice, a weight of 0 equals the row left out.
    labels : array-like of shape (n_classes,), default=None
        All labels in the order of the columns. By default the sorted labels in ``y_true``.
    pos_label : label, default=None
        The event of ``kind="binary"``. By default the second of ``labels``.

    Returns
    -------
    float
        Squared error, between 0 and 1.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`.

    See Also
    --------
    expected_calibration_error : The error that most papers report.

    Notes
    -----
    The expected calibration error of a finite sample can be lowered by false probabilities: one
    equal probability for all rows has a small error. No probabilities have a lower expectation of
    the averaged two-bin error than the true ones. There are no bins to choose, and the error is a
    continuous function of the probabilities. Noise alone gives true probabilities an error of
    :math:`\frac1{N^2} \sum_i w_i^2 p_i (1 - p_i)` on average, so compare models on the same rows.
    One sort computes the integral exactly.

    References
    ----------
    .. [1] Hartline, Hu, Wu, "A Perfectly Truthful Calibration Measure", COLT 2026,
       `arXiv:2508.13100 <https://arxiv.org/abs/2508.13100>`_.

    Examples
    --------
    >>> from skcalib.metrics import averaged_two_bin_calibration_error
    >>> round(averaged_two_bin_calibration_error([0, 0, 1, 1], [0.1, 0.4, 0.6, 0.9]), 4)
    0.007
    """
    _, columns = scored_rows(y_true, y_proba, kind, sample_weight, labels, pos_label)
    return float(np.mean([two_bin_error(c.score, c.event, c.weight) for c in columns]))


def two_bin_error(p: Floats, event: Bools, w: Floats | None) -> float:
    """Mean over all thresholds of the squared sums of the residuals in two bins."""
    p = p.astype(np.float64)
    order = np.argsort(p)
    weight = np.ones(len(p)) if w is None else w[order]
    p = p[order]
    below = np.cumsum(weight * (p - event[order]))
    total = below[-1]
    # Equal probabilities are in the same bin: a threshold of zero length lies between them.
    lengths = np.diff(p, append=1.0)
    integral = p[0] * total**2 + lengths @ (below**2 + (total - below) ** 2)
    return float(integral / weight.sum() ** 2)
