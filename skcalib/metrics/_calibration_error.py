"""Calibration errors: the ECE, other errors of the gaps of bins, and errors without bins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import ndtr

from skcalib._input.arrays import check_in_memory
from skcalib._input.measures import Average, columns_of
from skcalib._scores.kernel import N_CELLS, residuals_on_grid, smooth_error
from skcalib._typing import ArrayLike, Bools, Floats, Indices, Kind, NBins, Strategy

from ._curve import curves_of

# Error of bins with arrays ``gap``, ``share``, ``accuracy`` and ``n_effective``, of any shape. The
# bins are their last axis.
Formula = Callable[[Any], Any]


def expected_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: NBins = 15,
    strategy: Strategy = "uniform",
    kind: Kind = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    average: Average = "macro",
    order: ArrayLike | None = None,
) -> Any:
    r"""Compute the expected calibration error (ECE): the mean gap of confidence and accuracy.

    .. math:: \mathrm{ECE} = \sum_m \frac{W_m}{N}
        \left| \mathrm{acc}(B_m) - \mathrm{conf}(B_m) \right|

    With few rows per bin it is biased upwards: even a calibrated model has a positive ECE. It is
    not a proper scoring rule, and should not be used to select models: it is 0 for the base rate.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels. With ``kind="multilabel"`` an indicator matrix (n_samples, n_labels).
    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Probabilities: one column per class, ordered as ``labels``, or the probability of
        ``pos_label`` for two classes.
    n_bins : int, "cube_root" or array-like, default=15
        Number of bins on [0, 1], the cube root of the number of rows (rounded up), or the edges
        of the bins from 0 to 1.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width or of equal weight. Edges that are passed replace the strategy.
    kind : {"auto", "top-label", "classwise", "binary", "multilabel", "cumulative"}, default="auto"
        Score and event, as for :func:`reliability_curve`. "auto" is "binary" for two classes and
        "top-label" for more.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights. A weight of 2 equals the row twice.
    labels : array-like of shape (n_classes,), default=None
        All labels in column order; by default the sorted labels in ``y_true``.
    pos_label : label, default=None
        Class of the score for two classes, as for :func:`reliability_curve`. Text labels with
        one-dimensional probabilities need it, or ``labels``.
    average : {"macro", "micro"} or None, default="macro"
        Result for several events in a row: "macro" is the mean over the classes, None the error of
        each class. "micro", for "multilabel" only, is the error of the entries
        of all labels at once.
    order : array-like of shape (n_classes,), default=None
        Labels from the lowest to the highest, for ``kind="cumulative"``, as for
        :func:`reliability_curve`.

    Returns
    -------
    float or ndarray of shape (n_classes,)
        Error between 0 and 1; an array with ``average=None``.

    Raises
    ------
    ValueError
        If probabilities, labels, weights or an argument are invalid.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", ICML 2017,
       `arXiv:1706.04599 <https://arxiv.org/abs/1706.04599>`_, equation (3).
    .. [2] Naeini, Cooper, Hauskrecht, "Obtaining Well Calibrated Probabilities Using Bayesian
       Binning", AAAI 2015.

    Examples
    --------
    >>> from skcalib.metrics import expected_calibration_error
    >>> y_proba = [[0.9, 0.1, 0.0], [0.9, 0.0, 0.1], [0.2, 0.7, 0.1], [0.0, 0.4, 0.6]]
    >>> round(expected_calibration_error([0, 1, 1, 2], y_proba), 3)
    0.375
    """
    rows = (y_true, y_proba, kind, sample_weight, labels, pos_label, average, order)
    return _binned_error(_mean_gap, n_bins, strategy, *rows)


def maximum_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: NBins = 15,
    strategy: Strategy = "uniform",
    kind: Kind = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    average: Average = "macro",
    order: ArrayLike | None = None,
) -> Any:
    r"""Compute the maximum calibration error (MCE): the largest gap of confidence and accuracy.

    .. math:: \mathrm{MCE} = \max_m \left| \mathrm{acc}(B_m) - \mathrm{conf}(B_m) \right|

    The maximum is over all non-empty bins, however small their weight, so a bin with a single row
    can determine it.

    Parameters
    ----------
    y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label, average, order
        As for :func:`expected_calibration_error`.

    Returns
    -------
    float or ndarray of shape (n_classes,)
        Error between 0 and 1; an array with ``average=None``.

    Raises
    ------
    ValueError
        As :func:`expected_calibration_error`.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", ICML 2017,
       `arXiv:1706.04599 <https://arxiv.org/abs/1706.04599>`_, equation (5).

    Examples
    --------
    >>> from skcalib.metrics import maximum_calibration_error
    >>> y_proba = [[0.9, 0.1, 0.0], [0.9, 0.0, 0.1], [0.2, 0.7, 0.1], [0.0, 0.4, 0.6]]
    >>> round(maximum_calibration_error([0, 1, 1, 2], y_proba), 3)
    0.4
    """
    rows = (y_true, y_proba, kind, sample_weight, labels, pos_label, average, order)
    return _binned_error(_largest_gap, n_bins, strategy, *rows)


def root_mean_squared_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: NBins = 15,
    strategy: Strategy = "uniform",
    kind: Kind = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    average: Average = "macro",
    order: ArrayLike | None = None,
) -> Any:
    r"""Compute the root mean squared calibration error (RMSCE): the quadratic mean of the gaps.

    .. math:: \mathrm{RMSCE} = \sqrt{\sum_m \frac{W_m}{N}
        \left( \mathrm{acc}(B_m) - \mathrm{conf}(B_m) \right)^2}

    Always ECE <= RMSCE <= MCE.

    Parameters
    ----------
    y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label, average, order
        As for :func:`expected_calibration_error`.

    Returns
    -------
    float or ndarray of shape (n_classes,)
        Error between 0 and 1; an array with ``average=None``.

    Raises
    ------
    ValueError
        As :func:`expected_calibration_error`.

    References
    ----------
    .. [1] Kumar, Liang, Ma, "Verified Uncertainty Calibration", NeurIPS 2019,
       `arXiv:1909.10155 <https://arxiv.org/abs/1909.10155>`_, section 2.

    Examples
    --------
    >>> from skcalib.metrics import root_mean_squared_calibration_error
    >>> y_proba = [[0.9, 0.1, 0.0], [0.9, 0.0, 0.1], [0.2, 0.7, 0.1], [0.0, 0.4, 0.6]]
    >>> round(root_mean_squared_calibration_error([0, 1, 1, 2], y_proba), 3)
    0.377
    """
    rows = (y_true, y_proba, kind, sample_weight, labels, pos_label, average, order)
    return _binned_error(_root_mean_square, n_bins, strategy, *rows)


def overconfidence_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: NBins = 15,
    strategy: Strategy = "uniform",
    kind: Kind = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    average: Average = "macro",
    order: ArrayLike | None = None,
) -> Any:
    r"""Compute the overconfidence error: the part of the ECE where confidence exceeds accuracy.

    .. math:: \sum_m \frac{W_m}{N} \max\big( \mathrm{conf}(B_m) - \mathrm{acc}(B_m), 0 \big)

    The ECE is the sum of this and :func:`underconfidence_error`.

    Parameters
    ----------
    y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label, average, order
        As for :func:`expected_calibration_error`.

    Returns
    -------
    float or ndarray of shape (n_classes,)
        Error between 0 and 1; an array with ``average=None``.

    Raises
    ------
    ValueError
        As :func:`expected_calibration_error`.

    Examples
    --------
    >>> from skcalib.metrics import overconfidence_error
    >>> y_proba = [[0.9, 0.1, 0.0], [0.9, 0.0, 0.1], [0.2, 0.7, 0.1], [0.0, 0.4, 0.6]]
    >>> round(overconfidence_error([0, 1, 1, 2], y_proba), 3)
    0.2
    """
    rows = (y_true, y_proba, kind, sample_weight, labels, pos_label, average, order)
    return _binned_error(_overconfidence, n_bins, strategy, *rows)


def underconfidence_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: NBins = 15,
    strategy: Strategy = "uniform",
    kind: Kind = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    average: Average = "macro",
    order: ArrayLike | None = None,
) -> Any:
    r"""Compute the underconfidence error: the part of the ECE where accuracy exceeds confidence.

    .. math:: \sum_m \frac{W_m}{N} \max\big( \mathrm{acc}(B_m) - \mathrm{conf}(B_m), 0 \big)

    The ECE is the sum of this and :func:`overconfidence_error`.

    Parameters
    ----------
    y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label, average, order
        As for :func:`expected_calibration_error`.

    Returns
    -------
    float or ndarray of shape (n_classes,)
        Error between 0 and 1; an array with ``average=None``.

    Raises
    ------
    ValueError
        As :func:`expected_calibration_error`.

    Examples
    --------
    >>> from skcalib.metrics import underconfidence_error
    >>> y_proba = [[0.9, 0.1, 0.0], [0.9, 0.0, 0.1], [0.2, 0.7, 0.1], [0.0, 0.4, 0.6]]
    >>> round(underconfidence_error([0, 1, 1, 2], y_proba), 3)
    0.175
    """
    rows = (y_true, y_proba, kind, sample_weight, labels, pos_label, average, order)
    return _binned_error(_underconfidence, n_bins, strategy, *rows)


def debiased_expected_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: NBins = 15,
    strategy: Strategy = "uniform",
    kind: Kind = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    average: Average = "macro",
    order: ArrayLike | None = None,
) -> Any:
    r"""Compute the debiased expected calibration error: the ECE minus an estimate of its bias.

    The accuracy of a bin has a standard deviation of
    :math:`s_m = \sqrt{\mathrm{acc}_m (1 - \mathrm{acc}_m) / n_m}`, which biases the absolute gaps
    upwards. The estimate of the bias is the bias of the same noise added to the observed gaps [1]_,

    .. math:: \sum_m \frac{W_m}{N} \big( 2 |g_m| - \mathrm E |g_m + s_m Z| \big), \quad
        Z \sim \mathcal N(0, 1) ,

    with the gap :math:`g_m = \mathrm{conf}_m - \mathrm{acc}_m`. The expected value, which [1]_
    estimates by resampling, has a closed form. A negative result is set to 0. With weights,
    :math:`n_m` is the effective number of rows.

    Parameters
    ----------
    y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label, average, order
        As for :func:`expected_calibration_error`.

    Returns
    -------
    float or ndarray of shape (n_classes,)
        Error between 0 and 1; an array with ``average=None``.

    Raises
    ------
    ValueError
        As :func:`expected_calibration_error`.

    References
    ----------
    .. [1] Kumar, Liang, Ma, "Verified Uncertainty Calibration", NeurIPS 2019,
       `arXiv:1909.10155 <https://arxiv.org/abs/1909.10155>`_.

    Examples
    --------
    >>> from skcalib.metrics import debiased_expected_calibration_error
    >>> y_proba = [[0.9, 0.1, 0.0], [0.9, 0.0, 0.1], [0.2, 0.7, 0.1], [0.0, 0.4, 0.6]]
    >>> round(debiased_expected_calibration_error([0, 1, 1, 2], y_proba), 3)
    0.352
    """
    rows = (y_true, y_proba, kind, sample_weight, labels, pos_label, average, order)
    return _binned_error(_debiased_mean_gap, n_bins, strategy, *rows)


def debiased_root_mean_squared_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: NBins = 15,
    strategy: Strategy = "uniform",
    kind: Kind = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    average: Average = "macro",
    order: ArrayLike | None = None,
) -> Any:
    r"""Compute the debiased root mean squared calibration error, the root of an unbiased estimate.

    .. math:: \sqrt{ \max\Big( \sum_m \frac{W_m}{N} \Big( (\mathrm{conf}_m - \mathrm{acc}_m)^2
        - \frac{\mathrm{acc}_m (1 - \mathrm{acc}_m)}{n_m - 1} \Big), 0 \Big) }

    An unbiased estimate of the variance of each bin's accuracy is subtracted, which is taken
    as 0 for a bin with one row. With weights, :math:`n_m` is the effective number of rows.

    Parameters
    ----------
    y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label, average, order
        As for :func:`expected_calibration_error`.

    Returns
    -------
    float or ndarray of shape (n_classes,)
        Error between 0 and 1; an array with ``average=None``.

    Raises
    ------
    ValueError
        As :func:`expected_calibration_error`.

    References
    ----------
    .. [1] Kumar, Liang, Ma, "Verified Uncertainty Calibration", NeurIPS 2019,
       `arXiv:1909.10155 <https://arxiv.org/abs/1909.10155>`_.

    Examples
    --------
    >>> from skcalib.metrics import debiased_root_mean_squared_calibration_error
    >>> y_proba = [[0.9, 0.1, 0.0], [0.9, 0.0, 0.1], [0.2, 0.7, 0.1], [0.0, 0.4, 0.6]]
    >>> round(debiased_root_mean_squared_calibration_error([0, 1, 1, 2], y_proba), 3)
    0.132
    """
    rows = (y_true, y_proba, kind, sample_weight, labels, pos_label, average, order)
    return _binned_error(_debiased_root_mean_square, n_bins, strategy, *rows)


def _binned_error(formula: Formula, n_bins: NBins, strategy: Strategy, *rows: Any) -> Any:
    """Average the errors of all columns of scores, or return them if there is no average.

    ``rows`` are the arguments of :func:`columns_of`, the last two are ``average`` and ``order``.
    """
    errors = np.array(list(map(formula, curves_of(columns_of(*rows), n_bins, strategy))))
    return errors if rows[-2] is None else float(errors.mean())


def _mean_gap(bins: Any) -> Any:
    return np.sum(bins.share * np.abs(bins.gap), axis=-1)


def _largest_gap(bins: Any) -> Any:
    return np.max(np.abs(bins.gap), axis=-1)


def _root_mean_square(bins: Any) -> Any:
    return np.sqrt(np.sum(bins.share * bins.gap**2, axis=-1))


def _overconfidence(bins: Any) -> Any:
    return np.sum(bins.share * np.maximum(bins.gap, 0), axis=-1)


def _underconfidence(bins: Any) -> Any:
    return np.sum(bins.share * np.maximum(-bins.gap, 0), axis=-1)


def _debiased_mean_gap(bins: Any) -> Any:
    deviation, gap = np.sqrt(_variance(bins, bins.n_effective)), np.abs(bins.gap)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(deviation > 0, gap / deviation, np.inf)
    # Mean absolute value of a normal variable with mean gap, in closed form.
    size = gap * (1 - 2 * ndtr(-z)) + deviation * np.sqrt(2 / np.pi) * np.exp(-(z**2) / 2)
    return np.maximum(np.sum(bins.share * (2 * gap - size), axis=-1), 0)


def noise_square(bins: Any) -> Any:
    """Estimate the mean squared sampling error of the accuracies without bias."""
    return np.sum(bins.share * _variance(bins, bins.n_effective - 1), axis=-1)


def debiased_square(bins: Any) -> Any:
    """Estimate the mean squared gap without bias; the estimate may be negative."""
    return np.sum(bins.share * bins.gap**2, axis=-1) - noise_square(bins)


def _debiased_root_mean_square(bins: Any) -> Any:
    return np.sqrt(np.maximum(debiased_square(bins), 0))


def _variance(bins: Any, n: Floats) -> Floats:
    """Return the variance of the accuracy of bins with ``n`` rows (or n - 1); 0 where n is 0."""
    spread = bins.accuracy * (1 - bins.accuracy)
    n = np.broadcast_to(n, spread.shape)
    return np.divide(spread, n, out=np.zeros_like(spread), where=n > 0)


def smooth_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    kind: Kind = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    average: Average = "macro",
    order: ArrayLike | None = None,
) -> Any:
    r"""Compute the smooth calibration error (smECE): the mean absolute smoothed residual.

    Residuals :math:`\text{score}_i - 1[\text{event}_i]` are smoothed over the scores by a normal
    kernel :math:`K_\sigma` that is reflected at 0 and 1. Their mean absolute value is

    .. math:: \mathrm{smECE}_\sigma = \int_0^1 \Big| \frac 1N \sum_i w_i\,
        K_\sigma(t, \text{score}_i) (\text{score}_i - 1[\text{event}_i]) \Big| \, dt .

    The error is the unique :math:`\sigma` that equals :math:`\mathrm{smECE}_\sigma`. There are no
    bins to choose, and the error is a continuous function of the scores.

    Parameters
    ----------
    y_true, y_proba, kind, sample_weight, labels, pos_label, average, order
        As for :func:`expected_calibration_error`.

    Returns
    -------
    float or ndarray of shape (n_classes,)
        Error between 0 and 1; an array with ``average=None``.

    Raises
    ------
    ValueError
        As :func:`expected_calibration_error`.

    Notes
    -----
    Residuals are divided between the two nearest of 16 384 grid points by linear binning, and
    smoothed on the grid by a discrete cosine transform, which is exact.

    References
    ----------
    .. [1] Blasiok, Nakkiran, "Smooth ECE: Principled Reliability Diagrams via Kernel Smoothing",
       ICLR 2024, `arXiv:2309.12236 <https://arxiv.org/abs/2309.12236>`_.

    Examples
    --------
    >>> from skcalib.metrics import smooth_calibration_error
    >>> round(smooth_calibration_error([1] * 9 + [0], [1.0] * 10, kind="binary"), 3)
    0.1
    """
    columns = columns_of(y_true, y_proba, kind, sample_weight, labels, pos_label, average, order)
    residuals = columns.sums(residuals_on_grid, at_least=N_CELLS) / columns.rows.weight
    errors = np.array([smooth_error(residual) for residual in residuals])
    return errors if average is None else float(errors.mean())


def averaged_two_bin_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    kind: Kind = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    order: ArrayLike | None = None,
) -> float:
    r"""Compute the averaged two-bin error, which true probabilities minimize in expectation.

    A threshold t divides the rows into two bins. The error is the sum of the squared residuals of
    the two bins, averaged over all thresholds [1]_:

    .. math:: \int_0^1 \Bigl(\frac1N \sum_{p_i \le t} w_i (p_i - y_i)\Bigr)^2
        + \Bigl(\frac1N \sum_{p_i > t} w_i (p_i - y_i)\Bigr)^2 \, dt .

    For the top label, the squared residuals of the other classes are added,
    :math:`\frac1{N^2} \sum_i w_i \sum_k (p_{ik} - y_{ik})^2`. This sum vanishes for many rows.
    Without it, a report of another top class could have a lower error than the true probabilities,
    because its label has less variance. See [2]_ for other truthful errors of several classes.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels.
    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Probabilities: one column per class, ordered as ``labels``, or for two classes the
        probability of ``pos_label`` alone.
    kind : {"auto", "top-label", "classwise", "binary", "multilabel", "cumulative"}, default="auto"
        Scores and events, as in :func:`reliability_curve`. Errors of several classes or labels
        are averaged.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight 2 equals the row twice, weight 0 equals the row left out.
    labels : array-like of shape (n_classes,), default=None
        All labels in column order. By default the sorted labels in ``y_true``.
    pos_label : label, default=None
        The event of ``kind="binary"``, as for :func:`reliability_curve`.
    order : array-like of shape (n_classes,), default=None
        Labels from the lowest to the highest, for ``kind="cumulative"``, as for
        :func:`reliability_curve`.

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
    For the top label of rows of equal weight it is
    :math:`\frac1{N^2} \sum_i (1 - \sum_k p_{ik}^2)`.
    One sort computes the integral exactly.

    References
    ----------
    .. [1] Hartline, Hu, Wu, "A Perfectly Truthful Calibration Measure", COLT 2026,
       `arXiv:2508.13100 <https://arxiv.org/abs/2508.13100>`_.
    .. [2] Lu, Wu, Hartline, Hu, "Truthful Calibration Errors for Multi-Class Prediction", 2025,
       `arXiv:2510.06388 <https://arxiv.org/abs/2510.06388>`_.

    Examples
    --------
    >>> from skcalib.metrics import averaged_two_bin_calibration_error
    >>> round(averaged_two_bin_calibration_error([0, 0, 1, 1], [0.1, 0.4, 0.6, 0.9]), 4)
    0.007
    """
    check_in_memory((y_true, y_proba, sample_weight))
    columns = columns_of(y_true, y_proba, kind, sample_weight, labels, pos_label, "macro", order)
    errors = [two_bin_error(c.score, c.event, c.weight) for c in columns.scored()]
    if columns.kind == "top-label":
        errors[0] += columns.rows.sum(other_squares) / columns.rows.weight**2
    return float(np.mean(errors))


def other_squares(P: Floats, y: Indices, w: Floats | None) -> Floats:
    """Return the sum of the squared residuals of all classes but the most probable one."""
    if P.ndim == 1:
        squares = (P - y) ** 2
    else:
        rows, residuals = np.arange(len(P)), P.astype(np.float64)
        residuals[rows, y] -= 1
        residuals[rows, P.argmax(axis=1)] = 0
        squares = (residuals**2).sum(axis=1)
    return np.asarray(squares.sum() if w is None else w @ squares)


def two_bin_error(p: Floats, event: Bools, w: Floats | None) -> float:
    """Average the squared sums of residuals in two bins over all thresholds."""
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


# Formulas of bins by the names of their measures: errors proportional to the gaps, and all.
HOMOGENEOUS: dict[str, Formula] = {
    "expected_calibration_error": _mean_gap,
    "maximum_calibration_error": _largest_gap,
    "root_mean_squared_calibration_error": _root_mean_square,
    "overconfidence_error": _overconfidence,
    "underconfidence_error": _underconfidence,
}
FORMULAS = HOMOGENEOUS | {
    "debiased_expected_calibration_error": _debiased_mean_gap,
    "debiased_root_mean_squared_calibration_error": _debiased_root_mean_square,
}
