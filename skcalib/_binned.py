"""Measures over bins, and the bins themselves.

Every measure reduces the rows to sums per bin first and is one line after that. All take the
same arguments, described once in :func:`reliability_curve`.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from ._curves import OF_BINS, ReliabilityCurve, Strategy, curves_of, joined, mean_over_classes
from ._events import Kind


def reliability_curve(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    kind: Kind = "top-label",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
) -> ReliabilityCurve:
    r"""Accuracy and confidence per bin of a score.

    The rows are put into bins :math:`B_m` by a score, and compared there:

    .. math:: \mathrm{acc}(B_m) = \frac{1}{W_m} \sum_{i \in B_m} w_i 1[\text{event}_i], \quad
        \mathrm{conf}(B_m) = \frac{1}{W_m} \sum_{i \in B_m} w_i\, \text{score}_i,

    with :math:`W_m = \sum_{i \in B_m} w_i`.

    Bins are closed on the right, and the first one also holds 0. Empty bins are left out.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels.
    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Probabilities: one column per class in the order of ``labels``, or for two classes the
        probability of ``pos_label`` alone. A Dask array stays where it is; labels and weights are
        then with Dask as well, in the same chunks of rows.
    n_bins : int, default=15
        Number of bins on [0, 1].
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal weight. The latter never tear equal scores apart, so
        there may be fewer than ``n_bins``.
    kind : {"top-label", "classwise", "binary"}, default="top-label"
        What the score and the event are.

        - ``"top-label"``: the largest probability of the row; the class it belongs to is right
          (the definition of [1]_, also for two classes).
        - ``"classwise"``: every column in turn; the label is that class.
        - ``"binary"``: the probability of ``pos_label``; the label is that. Two classes only.
    sample_weight : array-like of shape (n_samples,), default=None
        A weight of 2 is the row twice, a weight of 0 the row absent.
    labels : array-like of shape (n_classes,), default=None
        All labels in the order of the columns. Needed when ``y_true`` may lack some of them. By
        default the sorted labels in ``y_true``.
    pos_label : label, default=None
        The class whose probability is the score of ``kind="binary"``, and which one-dimensional
        probabilities belong to. By default the second of ``labels``.

    Returns
    -------
    ReliabilityCurve
        The bins as arrays.

    Raises
    ------
    ValueError
        If probabilities are outside [0, 1] or rows do not sum to one within 5e-3, if labels do
        not fit the columns, if weights are negative or all zero, if lengths differ, or if an
        argument is none of those listed.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", ICML 2017,
       `arXiv:1706.04599 <https://arxiv.org/abs/1706.04599>`_, section 2.

    Examples
    --------
    >>> from skcalib.metrics import reliability_curve
    >>> curve = reliability_curve(
    ...     [0, 0, 1, 1], [0.1, 0.3, 0.35, 0.9], n_bins=2, kind="binary")
    >>> curve.accuracy.round(2).tolist(), curve.confidence.round(2).tolist()
    ([0.33, 1.0], [0.25, 0.9])
    """
    curves = curves_of(y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label)
    return next(curves) if kind != "classwise" else joined(curves)


def expected_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    kind: Kind = "top-label",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    r"""Expected calibration error (ECE): the mean gap between confidence and accuracy.

    .. math:: \mathrm{ECE} = \sum_m \frac{W_m}{N}
        \left| \mathrm{acc}(B_m) - \mathrm{conf}(B_m) \right|

    With few rows per bin it is biased upwards: even a calibrated model has a positive ECE. It is
    no criterion for choosing a model, since predicting the base rate for every row makes it 0.

    Parameters
    ----------
    y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label
        As for :func:`reliability_curve`. With ``kind="classwise"`` the result is the mean over
        the classes.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`.

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
    curves = curves_of(y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label)
    return mean_over_classes(curves, OF_BINS["expected_calibration_error"])


def maximum_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    kind: Kind = "top-label",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    r"""Maximum calibration error (MCE): the largest gap between confidence and accuracy.

    .. math:: \mathrm{MCE} = \max_m \left| \mathrm{acc}(B_m) - \mathrm{conf}(B_m) \right|

    The maximum is over the bins that hold any weight, however little: a bin with one row can
    decide it.

    Parameters
    ----------
    y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label
        As for :func:`reliability_curve`. With ``kind="classwise"`` the result is the mean over
        the classes.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`.

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
    curves = curves_of(y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label)
    return mean_over_classes(curves, OF_BINS["maximum_calibration_error"])


def root_mean_squared_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    kind: Kind = "top-label",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    r"""Root mean squared calibration error (RMSCE): the quadratic mean of the gaps.

    .. math:: \mathrm{RMSCE} = \sqrt{\sum_m \frac{W_m}{N}
        \left( \mathrm{acc}(B_m) - \mathrm{conf}(B_m) \right)^2}

    Always ECE <= RMSCE <= MCE.

    Parameters
    ----------
    y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label
        As for :func:`reliability_curve`. With ``kind="classwise"`` the result is the mean over
        the classes.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`.

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
    curves = curves_of(y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label)
    return mean_over_classes(curves, OF_BINS["root_mean_squared_calibration_error"])


def overconfidence_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    kind: Kind = "top-label",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    r"""Part of the ECE where the model is surer than right.

    .. math:: \sum_m \frac{W_m}{N} \max\big( \mathrm{conf}(B_m) - \mathrm{acc}(B_m), 0 \big)

    Together with :func:`underconfidence_error` it is the ECE.

    Parameters
    ----------
    y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label
        As for :func:`reliability_curve`. With ``kind="classwise"`` the result is the mean over
        the classes.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`.

    Examples
    --------
    >>> from skcalib.metrics import overconfidence_error
    >>> y_proba = [[0.9, 0.1, 0.0], [0.9, 0.0, 0.1], [0.2, 0.7, 0.1], [0.0, 0.4, 0.6]]
    >>> round(overconfidence_error([0, 1, 1, 2], y_proba), 3)
    0.2
    """
    curves = curves_of(y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label)
    return mean_over_classes(curves, OF_BINS["overconfidence_error"])


def underconfidence_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    kind: Kind = "top-label",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    r"""Part of the ECE where the model is right more often than it is sure.

    .. math:: \sum_m \frac{W_m}{N} \max\big( \mathrm{acc}(B_m) - \mathrm{conf}(B_m), 0 \big)

    Together with :func:`overconfidence_error` it is the ECE.

    Parameters
    ----------
    y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label
        As for :func:`reliability_curve`. With ``kind="classwise"`` the result is the mean over
        the classes.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`.

    Examples
    --------
    >>> from skcalib.metrics import underconfidence_error
    >>> y_proba = [[0.9, 0.1, 0.0], [0.9, 0.0, 0.1], [0.2, 0.7, 0.1], [0.0, 0.4, 0.6]]
    >>> round(underconfidence_error([0, 1, 1, 2], y_proba), 3)
    0.175
    """
    curves = curves_of(y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label)
    return mean_over_classes(curves, OF_BINS["underconfidence_error"])


def debiased_expected_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    kind: Kind = "top-label",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    r"""ECE less an estimate of its bias.

    The accuracy of a bin has a standard deviation of
    :math:`s_m = \sqrt{\mathrm{acc}_m (1 - \mathrm{acc}_m) / n_m}`, which makes gaps larger on
    average than they are. What it adds is estimated by what it would add once more [1]_,

    .. math:: \sum_m \frac{W_m}{N} \big( 2 |g_m| - \mathrm E |g_m + s_m Z| \big), \quad
        Z \sim \mathcal N(0, 1) ,

    with the gap :math:`g_m = \mathrm{conf}_m - \mathrm{acc}_m`, where the mean, which [1]_ takes
    over resamples, has a closed form. No less than 0. With weights the effective number of rows
    takes the place of :math:`n_m`.

    Parameters
    ----------
    y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label
        As for :func:`reliability_curve`. With ``kind="classwise"`` the result is the mean over
        the classes.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`.

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
    curves = curves_of(y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label)
    return mean_over_classes(curves, OF_BINS["debiased_expected_calibration_error"])


def debiased_root_mean_squared_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    kind: Kind = "top-label",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    r"""RMSCE from an estimate of its square without bias.

    .. math:: \sqrt{ \max\Big( \sum_m \frac{W_m}{N} \Big( (\mathrm{conf}_m - \mathrm{acc}_m)^2
        - \frac{\mathrm{acc}_m (1 - \mathrm{acc}_m)}{n_m - 1} \Big), 0 \Big) }

    What is subtracted is the variance of the accuracy of a bin, estimated without bias. With
    weights the effective number of rows takes the place of :math:`n_m`; of a bin with one row
    nothing is subtracted.

    Parameters
    ----------
    y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label
        As for :func:`reliability_curve`. With ``kind="classwise"`` the result is the mean over
        the classes.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`.

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
    curves = curves_of(y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label)
    return mean_over_classes(curves, OF_BINS["debiased_root_mean_squared_calibration_error"])
