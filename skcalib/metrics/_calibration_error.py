"""Calibration errors: the ECE, other measures of the gaps of bins, and the smooth ECE.

The measures of bins are functions of a reliability curve, decorated to take labels and
probabilities.
"""

from collections.abc import Callable
from functools import partial, wraps
from inspect import cleandoc, signature, unwrap
from typing import Any, Protocol, TypedDict, Unpack, overload

import numpy as np
from scipy.special import ndtr

from skcalib._rows import ArrayLike, Floats, Plan
from skcalib._scores.bins import Strategy
from skcalib._scores.kernel import N_CELLS, residuals_on_grid, smooth_error

from ._curve import ReliabilityCurve, curves_of
from ._input import Average, Kind, Mean, columns_of

Formula = Callable[[Any], Any]


class OfScores(TypedDict, total=False):
    """Parameters of all measures, for type checkers."""

    kind: Kind
    sample_weight: ArrayLike | None
    labels: ArrayLike | None
    pos_label: Any


class OfBins(OfScores, total=False):
    """Parameters of measures of bins, for type checkers."""

    n_bins: int
    strategy: Strategy


class MeasureOfBins(Protocol):
    """Signature for type checkers: a measure is a number, or an array with ``average=None``."""

    __name__: str

    @overload
    def __call__(
        self, y_true: ArrayLike, y_proba: ArrayLike, *, average: None, **params: Unpack[OfBins]
    ) -> Floats: ...
    @overload
    def __call__(
        self,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        average: Mean = ...,
        **params: Unpack[OfBins],
    ) -> float: ...


def _calibration_error(
    formula: Formula,
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    kind: Kind = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    average: Average = "macro",
) -> float | Floats:
    """Value of a formula for the bins of the scores, or for those of each class or label.

    Parameters
    ----------
    y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label
        As for :func:`reliability_curve`.
    average : {"macro", "micro"} or None, default="macro"
        With ``kind="classwise"`` or ``"multilabel"``: "macro" is the mean over the classes or
        labels, None the value of each. "micro" is the value of the entries of all labels at once,
        as if they were those of one, for ``kind="multilabel"`` only.

    Returns
    -------
    float or ndarray of shape (n_classes,)
        Between 0 and 1; an array with ``average=None``.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`.
    """
    columns = columns_of(y_true, y_proba, kind, sample_weight, labels, pos_label, average)
    values = np.array([*map(formula, curves_of(columns, n_bins, strategy))], dtype=np.float64)
    return values if average is None else float(np.mean(values))


def measure_of_bins(formula: Formula) -> MeasureOfBins:
    """Decorator of formulas, which become measures of labels and probabilities."""

    @wraps(formula)
    def measure(*args: Any, **params: Any) -> Any:
        return _calibration_error(formula, *args, **params)

    text, shared = (cleandoc(f.__doc__ or "") for f in (formula, _calibration_error))
    measure.__doc__ = text.replace("<shared sections>", shared.partition("\n\n")[2])
    measure.__signature__ = signature(partial(_calibration_error, formula))  # type: ignore[attr-defined]
    hints = _calibration_error.__annotations__.items()
    measure.__annotations__ = {name: hint for name, hint in hints if name != "formula"}
    return measure


@measure_of_bins
def expected_calibration_error(bins: ReliabilityCurve) -> Any:
    r"""Expected calibration error (ECE): the mean gap between confidence and accuracy.

    .. math:: \mathrm{ECE} = \sum_m \frac{W_m}{N}
        \left| \mathrm{acc}(B_m) - \mathrm{conf}(B_m) \right|

    With few rows per bin it is biased upwards: even a calibrated model has a positive ECE. It is
    not a proper scoring rule, and should not be used to select models: it is 0 for the base rate.

    <shared sections>

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
    return np.sum(bins.share * np.abs(bins.gap), axis=-1)


@measure_of_bins
def maximum_calibration_error(bins: ReliabilityCurve) -> Any:
    r"""Maximum calibration error (MCE): the largest gap between confidence and accuracy.

    .. math:: \mathrm{MCE} = \max_m \left| \mathrm{acc}(B_m) - \mathrm{conf}(B_m) \right|

    The maximum is over all non-empty bins, however small their weight, so a bin with a single row
    can determine it.

    <shared sections>

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
    return np.max(np.abs(bins.gap), axis=-1)


@measure_of_bins
def root_mean_squared_calibration_error(bins: ReliabilityCurve) -> Any:
    r"""Root mean squared calibration error (RMSCE): the quadratic mean of the gaps.

    .. math:: \mathrm{RMSCE} = \sqrt{\sum_m \frac{W_m}{N}
        \left( \mathrm{acc}(B_m) - \mathrm{conf}(B_m) \right)^2}

    Always ECE <= RMSCE <= MCE.

    <shared sections>

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
    return np.sqrt(np.sum(bins.share * bins.gap**2, axis=-1))


@measure_of_bins
def overconfidence_error(bins: ReliabilityCurve) -> Any:
    r"""Overconfidence error: the part of the ECE where confidence exceeds accuracy.

    .. math:: \sum_m \frac{W_m}{N} \max\big( \mathrm{conf}(B_m) - \mathrm{acc}(B_m), 0 \big)

    The ECE is the sum of this and :func:`underconfidence_error`.

    <shared sections>

    Examples
    --------
    >>> from skcalib.metrics import overconfidence_error
    >>> y_proba = [[0.9, 0.1, 0.0], [0.9, 0.0, 0.1], [0.2, 0.7, 0.1], [0.0, 0.4, 0.6]]
    >>> round(overconfidence_error([0, 1, 1, 2], y_proba), 3)
    0.2
    """
    return np.sum(bins.share * np.maximum(bins.gap, 0), axis=-1)


@measure_of_bins
def underconfidence_error(bins: ReliabilityCurve) -> Any:
    r"""Underconfidence error: the part of the ECE where accuracy exceeds confidence.

    .. math:: \sum_m \frac{W_m}{N} \max\big( \mathrm{acc}(B_m) - \mathrm{conf}(B_m), 0 \big)

    The ECE is the sum of this and :func:`overconfidence_error`.

    <shared sections>

    Examples
    --------
    >>> from skcalib.metrics import underconfidence_error
    >>> y_proba = [[0.9, 0.1, 0.0], [0.9, 0.0, 0.1], [0.2, 0.7, 0.1], [0.0, 0.4, 0.6]]
    >>> round(underconfidence_error([0, 1, 1, 2], y_proba), 3)
    0.175
    """
    return np.sum(bins.share * np.maximum(-bins.gap, 0), axis=-1)


def _variance(bins: ReliabilityCurve, n: Floats) -> Floats:
    """Variance of the accuracy of bins with ``n`` rows (or less one); 0 where ``n`` is 0."""
    spread = bins.accuracy * (1 - bins.accuracy)
    n = np.broadcast_to(n, spread.shape)
    return np.divide(spread, n, out=np.zeros_like(spread), where=n > 0)


@measure_of_bins
def debiased_expected_calibration_error(bins: ReliabilityCurve) -> Any:
    r"""Debiased expected calibration error: the ECE less an estimate of its bias.

    The accuracy of a bin has a standard deviation of
    :math:`s_m = \sqrt{\mathrm{acc}_m (1 - \mathrm{acc}_m) / n_m}`, which biases the absolute gaps
    upwards. The bias is estimated by that of adding the same noise to the observed gaps [1]_,

    .. math:: \sum_m \frac{W_m}{N} \big( 2 |g_m| - \mathrm E |g_m + s_m Z| \big), \quad
        Z \sim \mathcal N(0, 1) ,

    with the gap :math:`g_m = \mathrm{conf}_m - \mathrm{acc}_m`. The expected value, which [1]_
    estimates by resampling, has a closed form. A negative result is set to 0. With weights,
    :math:`n_m` is the effective number of rows.

    <shared sections>

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
    deviation, gap = np.sqrt(_variance(bins, bins.n_effective)), np.abs(bins.gap)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(deviation > 0, gap / deviation, np.inf)
    # Mean absolute value of a normal variable about the gap, which resampling would estimate.
    size = gap * (1 - 2 * ndtr(-z)) + deviation * np.sqrt(2 / np.pi) * np.exp(-(z**2) / 2)
    return np.maximum(np.sum(bins.share * (2 * gap - size), axis=-1), 0)


def debiased_square(bins: ReliabilityCurve) -> Any:
    """Unbiased estimate of the mean squared gap, which may be negative."""
    return np.sum(bins.share * (bins.gap**2 - _variance(bins, bins.n_effective - 1)), axis=-1)


@measure_of_bins
def debiased_root_mean_squared_calibration_error(bins: ReliabilityCurve) -> Any:
    r"""Debiased root mean squared calibration error, from an unbiased estimate of its square.

    .. math:: \sqrt{ \max\Big( \sum_m \frac{W_m}{N} \Big( (\mathrm{conf}_m - \mathrm{acc}_m)^2
        - \frac{\mathrm{acc}_m (1 - \mathrm{acc}_m)}{n_m - 1} \Big), 0 \Big) }

    Subtracted is the unbiased estimate of the variance of the accuracy of a bin, which is taken
    as 0 for a bin with one row. With weights, :math:`n_m` is the effective number of rows.

    <shared sections>

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
    return np.sqrt(np.maximum(debiased_square(bins), 0))


@overload
def smooth_calibration_error(
    y_true: ArrayLike, y_proba: ArrayLike, *, average: None, **params: Unpack[OfScores]
) -> Floats: ...
@overload
def smooth_calibration_error(
    y_true: ArrayLike, y_proba: ArrayLike, *, average: Mean = ..., **params: Unpack[OfScores]
) -> float: ...
def smooth_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    kind: Kind = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    average: Average = "macro",
) -> float | Floats:
    r"""Smooth calibration error (smECE): the mean absolute value of smoothed residuals.

    Residuals :math:`\text{score}_i - 1[\text{event}_i]` are smoothed over the scores by a normal
    kernel :math:`K_\sigma` that is reflected at 0 and 1. Their mean absolute value is

    .. math:: \mathrm{smECE}_\sigma = \int_0^1 \Big| \frac 1N \sum_i w_i\,
        K_\sigma(t, \text{score}_i) (\text{score}_i - 1[\text{event}_i]) \Big| \, dt .

    The error is the unique :math:`\sigma` that equals :math:`\mathrm{smECE}_\sigma`. There are no
    bins to choose, and the error is a continuous function of the scores.

    Parameters
    ----------
    y_true, y_proba, kind, sample_weight, labels, pos_label
        As for :func:`reliability_curve`.
    average : {"macro", "micro"} or None, default="macro"
        As for :func:`expected_calibration_error`.

    Returns
    -------
    float or ndarray of shape (n_classes,)
        Between 0 and 1; an array with ``average=None``.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`.

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
    columns = columns_of(y_true, y_proba, kind, sample_weight, labels, pos_label, average)
    residuals = columns.sums(residuals_on_grid, Plan(at_least=N_CELLS)) / columns.rows.weight
    errors = np.array([*map(smooth_error, residuals)])
    return errors if average is None else float(np.mean(errors))


# Measures that are homogeneous in the gaps: formulas of the ``gap`` and the ``share`` of bins only,
# along the last axis of arrays of any shape.
OF_GAPS = (
    expected_calibration_error,
    maximum_calibration_error,
    root_mean_squared_calibration_error,
    overconfidence_error,
    underconfidence_error,
)
OF_BINS = (
    *OF_GAPS,
    debiased_expected_calibration_error,
    debiased_root_mean_squared_calibration_error,
)
MEASURES = (*OF_BINS, smooth_calibration_error)

# Formulas by the names of their measures.
HOMOGENEOUS: dict[str, Formula] = {measure.__name__: unwrap(measure) for measure in OF_GAPS}
FORMULAS: dict[str, Formula] = {measure.__name__: unwrap(measure) for measure in OF_BINS}
