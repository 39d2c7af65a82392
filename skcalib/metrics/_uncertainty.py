"""How sure a measure of calibration is: an interval, a test, a test of two models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from skcalib._scores.bins import Strategy
from skcalib._typing import Indices
from skcalib._validation.parameters import check_integer, check_option, check_real

from ._calibration_error import OF_GAPS
from ._input import Kind
from ._inversion import inverted_ends
from ._resampling import (
    ROUNDING,
    Measure,
    Measured,
    MeasuredByGaps,
    Method,
    draw_rows,
    measured_by,
    problem_of,
    simple_ends,
)


@dataclass(frozen=True)
class CalibrationErrorInterval:
    """A calibration error with a confidence interval.

    Attributes
    ----------
    estimate : float
        The measure of all rows.
    low, high : float
        Ends of the interval of the true error. The estimate may lie above both, since it is biased
        upwards where bins hold few rows.
    """

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class CalibrationTestResult:
    """Whether a model is miscalibrated.

    Attributes
    ----------
    statistic : float
        The measure of all rows.
    pvalue : float
        How often a calibrated model has one as large.
    """

    statistic: float
    pvalue: float


@dataclass(frozen=True)
class CalibrationComparisonResult:
    """Whether one model is better calibrated than another.

    Attributes
    ----------
    statistic : float
        Measure of the first less that of the second.
    pvalue : float
        How often chance alone gives a difference as large, of either sign.
    low, high : float
        Confidence interval of the difference.
    """

    statistic: float
    pvalue: float
    low: float
    high: float


def calibration_error_interval(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    measure: Measure = "expected_calibration_error",
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    kind: Kind = "top-label",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    n_resamples: int = 999,
    confidence_level: float = 0.95,
    method: Method = "auto",
    random_state: int | np.random.RandomState | None = None,
) -> CalibrationErrorInterval:
    r"""Confidence interval of the true calibration error, by draws of rows and labels.

    Rows are drawn with replacement ``n_resamples`` times, as many as there are. With the quantiles
    :math:`q` of the measures of the draws and the measure :math:`e` of all rows, the methods are

    - ``"percentile"``: :math:`[q_{\alpha/2},\; q_{1 - \alpha/2}]`. Errors are biased upwards, and
      those of draws are so twice.
    - ``"basic"``: :math:`[2e - q_{1 - \alpha/2},\; 2e - q_{\alpha/2}]`, which undoes most of that,
      but misses 0 for half of all calibrated models.
    - ``"inversion"``: the true errors at which :math:`e` would be no surprise. If the true gaps of
      the bins are :math:`\gamma_m`, what is found is the error of the gaps
      :math:`\gamma_m + \epsilon_m`. The ends are the errors of those gaps for which :math:`e` is
      the quantile :math:`1 - \alpha/2`, or :math:`\alpha/2`, of what is found.

    For the last one labels are drawn for the rows at hand, and :math:`\epsilon_m` is what a draw
    changes of a gap: labels from the probabilities where :math:`\gamma_m = 0`, so that the lower
    end is 0 exactly where :func:`calibration_test` has a p-value above :math:`\alpha/2`; labels
    from the accuracies of bins for gaps as large as those found; and quantiles are interpolated
    between. So bins of a single row have noise, too. Draws of rows add how shares of bins vary.

    The gaps :math:`\gamma_m` are multiples of those found, within what accuracies between 0 and 1
    allow. Bins of few rows do not tell how unevenly an error is spread over them, and of the same
    error uneven gaps show more: the lower end is for gaps of neighbouring bins together, as many as
    hold :math:`4 \sqrt n` rows, less their noise, :math:`g (1 - \sigma^2 / g^2)_+`; the upper one
    the larger of those for these gaps with their noise and for the gaps of single bins.

    Where bins hold few rows, much of :math:`e` is chance, and the interval of the true error may
    lie below it. :func:`debiased_expected_calibration_error` has less of that bias.

    Parameters
    ----------
    y_true, y_proba
        As for :func:`reliability_curve`.
    measure : str or callable, default="expected_calibration_error"
        Name of one of the measures of this module, or a function
        ``measure(y_true, y_proba)``. It gets the columns in the order of the sorted labels, one
        dimension for the second of these, ``sample_weight=`` if there are weights, and if it has
        parameters of these names that :func:`functools.partial` has not bound, ``labels=`` with the
        sorted labels, since a draw may lack a class, and ``kind``, ``n_bins``, ``strategy`` and
        ``pos_label`` where they are not the default.
    n_bins, strategy, kind, sample_weight, labels, pos_label
        As for :func:`reliability_curve`. Bins are those of all rows in every draw.
    n_resamples : int, default=999
        Number of draws.
    confidence_level : float, default=0.95
        Between 0 and 1.
    method : {"auto", "inversion", "basic", "percentile"}, default="auto"
        Which interval. "inversion" is for measures that are in proportion to the gaps of bins,
        which all are but the debiased ones and those without bins; "auto" is "inversion" for these
        and "basic" for others.
    random_state : int, RandomState instance or None, default=None
        Seed or generator of the draws.

    Returns
    -------
    CalibrationErrorInterval
        With ``estimate``, ``low`` and ``high``.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`, for an unknown measure or method, and if
        ``confidence_level`` or ``n_resamples`` cannot be.

    References
    ----------
    .. [1] Davison, Hinkley, "Bootstrap Methods and their Application", 1997, chapter 5.

    Examples
    --------
    >>> from skcalib.datasets import load_digits_logits
    >>> from skcalib.metrics import calibration_error_interval
    >>> digits = load_digits_logits()
    >>> P = digits.classifier.predict_proba(digits.X_test)
    >>> interval = calibration_error_interval(digits.y_test, P, random_state=0)
    >>> interval.low > 0.05  # more than five points off, that much is sure
    True
    """
    check_option("method", method, Method)
    check_integer("n_resamples", n_resamples)
    check_real("confidence_level", confidence_level, high=1)
    problem = problem_of(y_true, y_proba, kind, sample_weight, labels, pos_label)
    measured = measured_by(problem, measure, n_bins, strategy)
    n, random = problem.rows.n_rows, check_random_state(random_state)
    estimate = measured.of_rows(np.ones(n, dtype=np.intp))
    if method in {"auto", "inversion"} and isinstance(measured, MeasuredByGaps):
        ends = inverted_ends(measured, estimate, n_resamples, random, confidence_level)
        return CalibrationErrorInterval(estimate, *ends)
    if method == "inversion":
        raise ValueError(
            f"method='inversion' is for {', '.join(OF_GAPS)}, got measure={measure!r}. Use 'basic'."
        )
    values = np.array([measured.of_rows(draw_rows(n, random)) for _ in range(n_resamples)])
    low, high = simple_ends(estimate, values, confidence_level, method)
    if isinstance(measure, str):  # no error is less than nothing
        low, high = max(low, 0.0), max(high, 0.0)
    return CalibrationErrorInterval(estimate, low, high)


def calibration_test(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    measure: Measure = "expected_calibration_error",
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    kind: Kind = "top-label",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    n_resamples: int = 999,
    random_state: int | np.random.RandomState | None = None,
) -> CalibrationTestResult:
    r"""Test whether the error is larger than a calibrated model of this size would show.

    Even a calibrated model has a positive error. Labels are drawn from the probabilities
    ``n_resamples`` times, which makes them calibrated, and the p-value is the share of the measures
    of these that are as large as that of the labels given, themselves included:

    .. math:: p = \frac{1 + \#\{ e^* \ge e \}}{1 + n_\text{resamples}} .

    If the model is calibrated, ``p <= 0.05`` happens in 5 % of data sets at most.

    Parameters
    ----------
    y_true, y_proba
        As for :func:`reliability_curve`.
    measure : str or callable, default="expected_calibration_error"
        As for :func:`calibration_error_interval`; the larger, the worse.
    n_bins, strategy, kind, sample_weight, labels, pos_label
        As for :func:`reliability_curve`.
    n_resamples : int, default=999
        Number of draws. The p-value is a multiple of ``1 / (n_resamples + 1)``.
    random_state : int, RandomState instance or None, default=None
        Seed or generator of the draws.

    Returns
    -------
    CalibrationTestResult
        With ``statistic``, the measure, and ``pvalue``.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`, for an unknown measure, and if ``n_resamples`` cannot be.

    References
    ----------
    .. [1] Broecker, Smith, "Increasing the Reliability of Reliability Diagrams", Weather and
       Forecasting 22, 2007, where labels are drawn likewise.
    .. [2] Vaicenavicius, Widmann, Andersson, Lindsten, Roll, Schoen, "Evaluating model calibration
       in classification", AISTATS 2019, `arXiv:1902.06977 <https://arxiv.org/abs/1902.06977>`_.

    Examples
    --------
    >>> from skcalib.datasets import make_logits
    >>> from skcalib.metrics import calibration_test
    >>> _, y, P = make_logits(500, 3, return_proba=True, random_state=0)
    >>> calibration_test(y, P, random_state=0).pvalue > 0.05
    True
    """
    check_integer("n_resamples", n_resamples)
    problem = problem_of(y_true, y_proba, kind, sample_weight, labels, pos_label)
    measured = measured_by(problem, measure, n_bins, strategy)
    random = check_random_state(random_state)
    statistic = measured.of_rows(np.ones(problem.rows.n_rows, dtype=np.intp))
    draws = np.array([measured.of_labels(random) for _ in range(n_resamples)])
    # Rounding must not decide where a draw gives the very labels.
    as_large = int(np.count_nonzero(draws >= statistic - ROUNDING * abs(statistic)))
    return CalibrationTestResult(statistic, (1 + as_large) / (1 + n_resamples))


def compare_calibration(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    other_proba: ArrayLike,
    *,
    measure: Measure = "debiased_root_mean_squared_calibration_error",
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    kind: Kind = "top-label",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    n_resamples: int = 999,
    confidence_level: float = 0.95,
    random_state: int | np.random.RandomState | None = None,
) -> CalibrationComparisonResult:
    r"""Test whether two models on the same rows have different calibration errors.

    The difference :math:`d` of the measures is compared with those of draws of n rows with
    replacement, :math:`d^*`, the same rows for both models. Around :math:`d` they vary as it does
    around the true difference, so

    .. math:: p = \frac{1 + \#\{ |d^* - d| \ge |d| \}}{1 + n_\text{resamples}} ,

    and the interval is the basic one of :func:`calibration_error_interval`.

    The default measure is the square root of one without bias. What chance adds to a plain
    calibration error depends on the model: more where scores spread over more bins, and where they
    are near 0.5. The plain errors of two calibrated models that differ in sharpness therefore
    differ, and ``measure="expected_calibration_error"`` tells them apart in a third of samples
    at a level of 5 %, and with many bins in most.

    Parameters
    ----------
    y_true, y_proba
        As for :func:`reliability_curve`.
    other_proba : array-like of the shape of ``y_proba``
        Probabilities of the second model.
    measure : str or callable, default="debiased_root_mean_squared_calibration_error"
        As for :func:`calibration_error_interval`. Others by name have a bias that depends on the
        sharpness of the model, see above.
    n_bins, strategy, kind, sample_weight, labels, pos_label
        As for :func:`reliability_curve`.
    n_resamples : int, default=999
        Number of draws.
    confidence_level : float, default=0.95
        Of the interval, between 0 and 1.
    random_state : int, RandomState instance or None, default=None
        Seed or generator of the draws.

    Returns
    -------
    CalibrationComparisonResult
        With ``statistic``, the measure of the first less that of the second, ``pvalue``, ``low``
        and ``high``.

    Raises
    ------
    ValueError
        As :func:`calibration_error_interval`, and if the probabilities differ in shape.

    References
    ----------
    .. [1] Davison, Hinkley, "Bootstrap Methods and their Application", 1997, chapters 4 and 5.

    Examples
    --------
    >>> from scipy.special import softmax
    >>> from skcalib import TemperatureScaling
    >>> from skcalib.datasets import load_digits_logits
    >>> from skcalib.metrics import compare_calibration
    >>> digits = load_digits_logits()
    >>> before = softmax(digits.logits_test, axis=1)
    >>> scaling = TemperatureScaling().fit(digits.logits_calibration, digits.y_calibration)
    >>> after = scaling.predict_proba(digits.logits_test)
    >>> compare_calibration(digits.y_test, before, after, random_state=0).pvalue < 0.01
    True
    """
    check_integer("n_resamples", n_resamples)
    check_real("confidence_level", confidence_level, high=1)
    models: list[Measured] = []
    for P in (y_proba, other_proba):
        problem = problem_of(y_true, P, kind, sample_weight, labels, pos_label)
        if models and problem.rows.X.shape != models[0].problem.rows.X.shape:
            raise ValueError(
                "y_proba and other_proba must be of the same shape, got "
                f"{models[0].problem.rows.X.shape} and {problem.rows.X.shape}."
            )
        models.append(measured_by(problem, measure, n_bins, strategy))
    first, second = models
    n, random = first.problem.rows.n_rows, check_random_state(random_state)

    def difference(times: Indices) -> float:
        return first.of_rows(times) - second.of_rows(times)

    statistic = difference(np.ones(n, dtype=np.intp))
    draws = np.array([difference(draw_rows(n, random)) for _ in range(n_resamples)])
    as_large = int(np.count_nonzero(np.abs(draws - statistic) >= abs(statistic)))
    low, high = simple_ends(statistic, draws, confidence_level, "basic")
    return CalibrationComparisonResult(statistic, (1 + as_large) / (1 + n_resamples), low, high)
