"""Binned calibration errors: ECE, MCE, RMSCE and variants of them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from skcalib._scores.bins import Strategy
from skcalib._typing import Floats

from ._curve import ReliabilityCurve, curves_of
from ._input import Average, Kind

Function = TypeVar("Function", bound=Callable[..., float])


def mean_over_classes(
    curves: Iterator[ReliabilityCurve],
    measure: Callable[[ReliabilityCurve], Any],
    average: Average = "macro",
) -> Any:
    """Mean of a measure over the curves, one per class or label if there are several.

    With ``average=None`` the measure of each.
    """
    values = np.array([measure(curve) for curve in curves], dtype=np.float64)
    return values if average is None else float(np.mean(values))


def _share(curve: ReliabilityCurve) -> Floats:
    return curve.weight / curve.weight.sum()


# Measures from the gaps and weight fractions of bins along the last axis, homogeneous in the gaps.
def _mean_gap(gap: Floats, share: Floats) -> Any:
    return np.sum(share * np.abs(gap), axis=-1)


def _largest_gap(gap: Floats, share: Floats) -> Any:  # noqa: ARG001
    return np.max(np.abs(gap), axis=-1)


def _root_mean_square_gap(gap: Floats, share: Floats) -> Any:
    return np.sqrt(np.sum(share * gap**2, axis=-1))


def _mean_gap_above(gap: Floats, share: Floats) -> Any:
    return np.sum(share * np.maximum(gap, 0), axis=-1)


def _mean_gap_below(gap: Floats, share: Floats) -> Any:
    return np.sum(share * np.maximum(-gap, 0), axis=-1)


OF_GAPS: dict[str, Callable[[Floats, Floats], Any]] = {
    "expected_calibration_error": _mean_gap,
    "maximum_calibration_error": _largest_gap,
    "root_mean_squared_calibration_error": _root_mean_square_gap,
    "overconfidence_error": _mean_gap_above,
    "underconfidence_error": _mean_gap_below,
}


def _of_curve(of_gaps: Callable[[Floats, Floats], Any]) -> Callable[[ReliabilityCurve], Any]:
    return lambda curve: of_gaps(curve.gap, _share(curve))


# Debiased measures need the number of rows as well.
def debiased_square(curve: ReliabilityCurve) -> Any:
    """Unbiased estimate of the mean squared gap, which may be negative."""
    return np.sum(_share(curve) * (curve.gap**2 - _variance(curve, curve.n_effective - 1)))


def _debiased_root_mean_square(curve: ReliabilityCurve) -> Any:
    return np.sqrt(np.maximum(debiased_square(curve), 0))


def _debiased_mean_gap(curve: ReliabilityCurve) -> Any:
    deviation = np.sqrt(_variance(curve, curve.n_effective))
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(deviation > 0, np.abs(curve.gap) / deviation, np.inf)
    # Mean absolute value of a normal variable about the gap, which resampling would estimate.
    size = np.abs(curve.gap) * (1 - 2 * ndtr(-z)) + deviation * np.sqrt(2 / np.pi) * np.exp(
        -(z**2) / 2
    )
    return max(np.sum(_share(curve) * (2 * np.abs(curve.gap) - size)), 0.0)


def _variance(curve: ReliabilityCurve, n: Floats) -> Floats:
    """Variance of the accuracy of bins with ``n`` rows (or less one); 0 where ``n`` is 0."""
    spread = curve.accuracy * (1 - curve.accuracy)
    return np.divide(spread, n, out=np.zeros_like(spread), where=n > 0)


OF_BINS: dict[str, Callable[[ReliabilityCurve], Any]] = {
    **{name: _of_curve(of_gaps) for name, of_gaps in OF_GAPS.items()},
    "debiased_expected_calibration_error": _debiased_mean_gap,
    "debiased_root_mean_squared_calibration_error": _debiased_root_mean_square,
}


# Sections shared by the docstrings below, inserted before their references or examples.
_SHARED_SECTIONS = """\
Parameters
----------
y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label
    As for :func:`reliability_curve`.
average : {"macro", "micro"} or None, default="macro"
    With ``kind="classwise"`` or ``"multilabel"``: "macro" is the mean over the classes or labels,
    None the value of each. "micro" is the value of the entries of all labels at once, as if they
    were those of one, for ``kind="multilabel"`` only.

Returns
-------
float or ndarray of shape (n_classes,)
    Between 0 and 1; an array with ``average=None``.

Raises
------
ValueError
    As :func:`reliability_curve`.

"""


def _with_shared_sections(measure: Function) -> Function:
    """Insert the shared sections into the docstring of a measure."""
    text = inspect.cleandoc(measure.__doc__ or "")
    own, heading, examples = re.split(
        r"^((?:References|Examples)\n-+\n)", text, maxsplit=1, flags=re.M
    )
    measure.__doc__ = f"{own}{_SHARED_SECTIONS}{heading}{examples}"
    return measure


@_with_shared_sections
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
    average: Average = "macro",
) -> Any:
    r"""Expected calibration error (ECE): the mean gap between confidence and accuracy.

    .. math:: \mathrm{ECE} = \sum_m \frac{W_m}{N}
        \left| \mathrm{acc}(B_m) - \mathrm{conf}(B_m) \right|

    With few rows per bin it is biased upwards: even a calibrated model has a positive ECE. It is
    not a proper scoring rule, and should not be used to select models: it is 0 for the base rate.

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
    curves = curves_of(
        y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label, average
    )
    return mean_over_classes(curves, OF_BINS["expected_calibration_error"], average)


@_with_shared_sections
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
    average: Average = "macro",
) -> Any:
    r"""Maximum calibration error (MCE): the largest gap between confidence and accuracy.

    .. math:: \mathrm{MCE} = \max_m \left| \mathrm{acc}(B_m) - \mathrm{conf}(B_m) \right|

    The maximum is over all non-empty bins, however small their weight, so a bin with a single row
    can determine it.

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
    curves = curves_of(
        y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label, average
    )
    return mean_over_classes(curves, OF_BINS["maximum_calibration_error"], average)


@_with_shared_sections
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
    average: Average = "macro",
) -> Any:
    r"""Root mean squared calibration error (RMSCE): the quadratic mean of the gaps.

    .. math:: \mathrm{RMSCE} = \sqrt{\sum_m \frac{W_m}{N}
        \left( \mathrm{acc}(B_m) - \mathrm{conf}(B_m) \right)^2}

    Always ECE <= RMSCE <= MCE.

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
    curves = curves_of(
        y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label, average
    )
    return mean_over_classes(curves, OF_BINS["root_mean_squared_calibration_error"], average)


@_with_shared_sections
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
    average: Average = "macro",
) -> Any:
    r"""Overconfidence error: the part of the ECE where confidence exceeds accuracy.

    .. math:: \sum_m \frac{W_m}{N} \max\big( \mathrm{conf}(B_m) - \mathrm{acc}(B_m), 0 \big)

    The ECE is the sum of this and :func:`underconfidence_error`.

    Examples
    --------
    >>> from skcalib.metrics import overconfidence_error
    >>> y_proba = [[0.9, 0.1, 0.0], [0.9, 0.0, 0.1], [0.2, 0.7, 0.1], [0.0, 0.4, 0.6]]
    >>> round(overconfidence_error([0, 1, 1, 2], y_proba), 3)
    0.2
    """
    curves = curves_of(
        y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label, average
    )
    return mean_over_classes(curves, OF_BINS["overconfidence_error"], average)


@_with_shared_sections
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
    average: Average = "macro",
) -> Any:
    r"""Underconfidence error: the part of the ECE where accuracy exceeds confidence.

    .. math:: \sum_m \frac{W_m}{N} \max\big( \mathrm{acc}(B_m) - \mathrm{conf}(B_m), 0 \big)

    The ECE is the sum of this and :func:`overconfidence_error`.

    Examples
    --------
    >>> from skcalib.metrics import underconfidence_error
    >>> y_proba = [[0.9, 0.1, 0.0], [0.9, 0.0, 0.1], [0.2, 0.7, 0.1], [0.0, 0.4, 0.6]]
    >>> round(underconfidence_error([0, 1, 1, 2], y_proba), 3)
    0.175
    """
    curves = curves_of(
        y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label, average
    )
    return mean_over_classes(curves, OF_BINS["underconfidence_error"], average)


@_with_shared_sections
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
    average: Average = "macro",
) -> Any:
    r"""Debiased expected calibration error: the ECE less an estimate of its bias.

    The accuracy of a bin has a standard deviation of
    :math:`s_m = \sqrt{\mathrm{acc}_m (1 - \mathrm{acc}_m) / n_m}`, which biases the absolute gaps
    upwards. The bias is estimated by that of adding the same noise to the observed gaps [1]_,

    .. math:: \sum_m \frac{W_m}{N} \big( 2 |g_m| - \mathrm E |g_m + s_m Z| \big), \quad
        Z \sim \mathcal N(0, 1) ,

    with the gap :math:`g_m = \mathrm{conf}_m - \mathrm{acc}_m`. The expected value, which [1]_
    estimates by resampling, has a closed form. A negative result is set to 0. With weights,
    :math:`n_m` is the effective number of rows.

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
    curves = curves_of(
        y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label, average
    )
    return mean_over_classes(curves, OF_BINS["debiased_expected_calibration_error"], average)


@_with_shared_sections
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
    average: Average = "macro",
) -> Any:
    r"""Debiased root mean squared calibration error, from an unbiased estimate of its square.

    .. math:: \sqrt{ \max\Big( \sum_m \frac{W_m}{N} \Big( (\mathrm{conf}_m - \mathrm{acc}_m)^2
        - \frac{\mathrm{acc}_m (1 - \mathrm{acc}_m)}{n_m - 1} \Big), 0 \Big) }

    Subtracted is the unbiased estimate of the variance of the accuracy of a bin, which is taken
    as 0 for a bin with one row. With weights, :math:`n_m` is the effective number of rows.

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
    curves = curves_of(
        y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label, average
    )
    return mean_over_classes(
        curves, OF_BINS["debiased_root_mean_squared_calibration_error"], average
    )
