"""Uncertainty of measures of calibration: confidence intervals and tests of one or two models."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtr
from sklearn.utils import check_random_state

from skcalib._input.arrays import as_numpy
from skcalib._input.groups import (
    FEW_GROUPS,
    group_numbers,
    groups_with,
    warn_of_few_events,
    warn_of_many_bins,
    warn_of_many_columns,
)
from skcalib._input.measures import OF_EACH, columns_of, scored_rows
from skcalib._input.parameters import check_integer, check_option, check_real
from skcalib._typing import ArrayLike, Floats, Indices, Kind, NBins, Strategy

from ._groups import (
    Random,
    degrees_of_freedom,
    draw_rows,
    inflation,
    skewed_interval,
    sums_by_group,
)
from ._inversion import error_interval, null_draws, p_value
from ._resampling import (
    CALLED,
    ROUNDING_ERROR,
    Measure,
    Measured,
    MeasuredByBins,
    Method,
    Problem,
    label_draws,
    measured_by,
)


@dataclass(frozen=True)
class IntervalEstimate:
    """A measure with a confidence interval.

    Attributes
    ----------
    estimate : float
        Measure of all rows.
    low, high : float
        Ends of the interval of the true value.
    confidence_level : float
        Confidence level of the interval.
    """

    estimate: float
    low: float
    high: float
    confidence_level: float = 0.95

    def __str__(self) -> str:
        estimate, low, high = map(_written, (self.estimate, self.low, self.high))
        return f"{estimate} ({100 * self.confidence_level:g}% interval {low} to {high})"


@dataclass(frozen=True)
class CalibrationTestResult:
    """Test of the hypothesis that a model is calibrated.

    Attributes
    ----------
    statistic : float
        Measure of all rows.
    pvalue : float
        Probability that a calibrated model has a measure at least as large.
    """

    statistic: float
    pvalue: float

    def __str__(self) -> str:
        return f"{_written(self.statistic)} ({_written_pvalue(self.pvalue)})"


@dataclass(frozen=True)
class CalibrationDifference:
    """Difference between the calibration errors of two models, with a test and an interval.

    Attributes
    ----------
    estimate : float
        Measure of the second model minus the measure of the first.
    low, high : float
        Ends of the confidence interval of the true difference.
    pvalue : float
        Probability of a difference at least as large, of either sign, if the true one is 0.
    """

    estimate: float
    low: float
    high: float
    pvalue: float

    def __str__(self) -> str:
        estimate, low, high = map(_written, (self.estimate, self.low, self.high))
        return f"{estimate} (interval {low} to {high}, {_written_pvalue(self.pvalue)})"


def _written(value: float) -> str:
    """Return a number with two digits or two decimals."""
    return f"{value:.2g}" if abs(value) < 0.1 else f"{value:.2f}"


def _written_pvalue(pvalue: float) -> str:
    """Return a p-value as text."""
    return "p-value < 0.001" if pvalue < 0.0005 else f"p-value {pvalue:.3f}"


def calibration_error_interval(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    measure: Measure = "expected_calibration_error",
    n_bins: NBins = 15,
    strategy: Strategy = "uniform",
    kind: Kind = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    groups: ArrayLike | None = None,
    n_resamples: int = 999,
    confidence_level: float = 0.95,
    method: Method = "auto",
    random_state: int | np.random.RandomState | None = None,
) -> IntervalEstimate:
    r"""Return a confidence interval of the true calibration error or of another measure.

    The true error is the error :math:`\psi(\gamma)` of infinitely many rows in the same bins, with
    the true gaps :math:`\gamma_m`. Noise raises it to the error :math:`e` of the given rows. A
    hypothesis on the gaps is rejected if the draws of the error from the hypothesis are too large
    or too small.

    - The *lower end* is 0 unless :func:`calibration_test` with the same ``random_state`` rejects.
      Otherwise gaps of at most 2.5 standard deviations count as noise, which raises the error most:
      the end is :math:`e - q(\psi(\gamma + \epsilon) - \psi(\gamma))`, where :math:`\gamma` are the
      other gaps and :math:`q` is the quantile :math:`1 - \alpha/2` of the draws.
    - The *upper end* is the largest error with draws of at most e in a fraction
      :math:`\alpha/2`, for gaps that are proportional to their standard deviations, which raises
      the error least [1]_, and for gaps that are proportional to the observed gaps.
    - The *largest gap* has the limits of Clopper and Pearson of the bins.
    - *Debiased errors* estimate the true value of the plain error and have its interval.
    - *Functions* that are no sum over bins, such as the smooth calibration error, have the ends
      :math:`e \pm q`, where :math:`q` is a quantile of the error of labels that are drawn from the
      probabilities or from recalibrated ones. The averaged two-bin error is the square of a norm,
      and its ends are the squared ends for the norm.
    - *Measures that are no calibration errors*, such as a log loss, have the t interval of the
      jackknife, corrected for skewness [2]_. The correction moves an end away by at most about
      half of its distance. A few large groups count as few degrees of freedom.

    With groups, a bin has the effective number of rows of :func:`reliability_curve`. The interval
    always contains the estimate.

    Parameters
    ----------
    y_true, y_proba
        As for :func:`reliability_curve`. Tensors are copied to the host.
    measure : str or callable, default="expected_calibration_error"
        Name of a measure of this module, or a function ``measure(y_true, y_proba)``. Columns are
        passed in the order of the sorted labels, and one-dimensional probabilities are the
        probabilities of the second label. A function with a parameter ``labels`` is passed the
        sorted labels. ``sample_weight`` is passed if there are weights, and ``kind``, ``n_bins``,
        ``strategy`` and ``pos_label`` if the function has them and they are not the default.
    n_bins, strategy, kind, sample_weight, labels, pos_label
        As for :func:`reliability_curve`. All resamples have the bins of all rows.
    groups : array-like of shape (n_samples,), default=None
        Group per row, such as a patient or a week. Rows of a group may depend on one another.
    n_resamples : int, default=999
        Number of resamples.
    confidence_level : float, default=0.95
        Between 0 and 1.
    method : {"auto", "inversion", "jackknife"}, default="auto"
        Kind of the interval. "auto" is "inversion" for calibration errors, by name or as functions,
        and "jackknife" for other functions. A function is a calibration error if it decreases with
        the number of rows of a calibrated model: labels are drawn from spread probabilities.
    random_state : int, RandomState instance or None, default=None
        Seed or generator of the resamples.

    Returns
    -------
    IntervalEstimate
        With ``estimate``, ``low`` and ``high``.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`, and if ``measure``, ``method``, ``confidence_level`` or
        ``n_resamples`` is invalid, or a function has no finite value for simulated labels.

    Warns
    -----
    UserWarning
        If there are fewer than 20 groups; if fewer than 10 groups have the rarer outcome of any
        column, or fewer than 10 of 20 or more rows for measures without bins; or if there are more
        than two bins for each group or row. For a mean also if fewer than 7 groups have wrong
        predictions, where a few groups with most of them count as few.

    References
    ----------
    .. [1] Kumar, Liang, Ma, "Verified Uncertainty Calibration", NeurIPS 2019,
       `arXiv:1909.10155 <https://arxiv.org/abs/1909.10155>`_, on the bias of binned errors.
    .. [2] Hall, "On the Removal of Skewness by Transformation", Journal of the Royal Statistical
       Society B 54, 1992.

    Examples
    --------
    >>> from skcalib.datasets import load_digits_logits
    >>> from skcalib.metrics import calibration_error_interval
    >>> digits = load_digits_logits()
    >>> P = digits.classifier.predict_proba(digits.X_test)
    >>> interval = calibration_error_interval(digits.y_test, P, random_state=0)
    >>> interval.low > 0.05  # significantly larger than five percentage points
    True
    """
    check_option("method", method, Method)
    check_integer("n_resamples", n_resamples)
    check_real("confidence_level", confidence_level, high=1)
    rows = (y_true, y_proba, kind, sample_weight, labels, pos_label, groups)
    measured = measured_by(measure, n_bins, strategy, *rows)
    random = check_random_state(random_state)
    if method == "inversion" or (method == "auto" and is_error(measured)):
        warn_of_few_units(measured)
        return IntervalEstimate(*error_interval(measured, n_resamples, confidence_level, random))
    units = leave_out_units(measured.problem, n_resamples, random)
    found = jackknifed(measured.of_rows, units, measured.problem.weights, confidence_level)
    return IntervalEstimate(*found[:3], confidence_level)


def leave_out_units(problem: Problem, most: int, random: Random) -> Indices:
    """Return the number of the part that each row is in: a row, a group, or several of these."""
    units, n_units = problem.clusters, int(problem.clusters.max()) + 1
    warn_of_rare_outcomes(problem, count_wrong=True)
    return units if n_units <= most else (random.permutation(n_units) % most)[units]


def warn_of_few_units(measured: Measured, *, count_wrong: bool = False) -> None:
    """Warn if few groups have an event, or if there are many bins for the groups or rows.

    ``count_wrong`` is for differences: it also counts groups with wrong predictions. The interval
    of a binned error holds for few rows with an event, in contrast to differences and other errors.
    """
    problem, is_binned = measured.problem, isinstance(measured, MeasuredByBins)
    if problem.groups is not None or count_wrong or not is_binned:
        warn_of_rare_outcomes(problem, count_wrong=count_wrong)
    if isinstance(measured, MeasuredByBins):
        n_bins = max(len(column.edges) for column in measured.columns) - 1
        n_units = int(problem.clusters.max()) + 1
        if problem.groups is None or n_units >= FEW_GROUPS:  # fewer groups have their own warning
            warn_of_many_bins(n_bins, n_units)
        if count_wrong:
            warn_of_many_columns(len(measured.columns), n_units)


def warn_of_rare_outcomes(problem: Problem, *, count_wrong: bool) -> None:
    """Warn if few groups, or rows without groups, have the rarer outcome of any column.

    ``count_wrong`` also counts groups with wrong predictions. Leaving out or drawing groups does
    not show wrong predictions that no group has.
    """
    columns = columns_of(None, problem.rows, problem.kind, None, None, problem.pos_label)
    units, (is_rare, is_wrong) = problem.clusters, np.zeros((2, problem.rows.n_rows), np.bool_)
    for column in columns.scored():
        event = column.event
        with_event, without = (len(np.unique(units[hit])) for hit in (event, ~event))
        is_rare |= event if with_event <= without else ~event
        is_wrong |= event != (column.score > 0.5) if columns.kind != "top-label" else ~event
    n_wrong = np.inf
    if count_wrong and problem.groups is not None:
        n_wrong = groups_with(is_wrong, units)
    warn_of_few_events(len(np.unique(units[is_rare])), int(units.max()) + 1, n_wrong)


def jackknifed(
    value: Callable[..., float], units: Indices, w: Floats, level: float
) -> tuple[float, float, float, float]:
    """Return a value of all rows, its interval, and the p-value of 0, by leaving out units.

    ``value(times)`` is the value if row i is repeated ``times[i]`` times, by default once.
    """
    estimate, n_units = value(), int(units.max()) + 1
    if n_units == 1:  # one unit says nothing about the spread
        return estimate, -np.inf, np.inf, 1.0
    without = np.array([value((units != unit).astype(np.intp)) for unit in range(n_units)])
    deviations = (n_units - 1) * (without.mean() - without)
    freedom = degrees_of_freedom(sums_by_group(w, units))
    return estimate, *skewed_interval(estimate, deviations, level, freedom)


def is_error(measured: Measured) -> bool:
    """Return whether a measure is a calibration error, which is near 0 for many calibrated rows.

    Labels are drawn from spread probabilities with a fixed seed, so the result depends neither on
    the rows nor on the seed of the user. Errors of 16 times the rows are about a quarter, or
    smaller. A proper score does not depend on the number of rows.
    """
    if isinstance(measured, MeasuredByBins) or measured.measure in CALLED.values():
        return True
    random = np.random.RandomState(0)
    few = np.array([measured.of_spread(500, random) for _ in range(19)])
    many = measured.of_spread(8000, random)
    if not np.isfinite([*few, many]).all():
        raise ValueError(
            "measure must be a finite number for labels that are drawn from probabilities, got "
            f"{few[~np.isfinite(few)][:1]}. Pass method='inversion' for a calibration error, or "
            "method='jackknife' for another measure."
        )
    return bool(few.min() >= -ROUNDING_ERROR and many <= 0.7 * few.mean())


def calibration_test(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    measure: Measure = "expected_calibration_error",
    n_bins: NBins = 15,
    strategy: Strategy = "uniform",
    kind: Kind = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    groups: ArrayLike | None = None,
    n_resamples: int = 999,
    random_state: int | np.random.RandomState | None = None,
) -> CalibrationTestResult:
    r"""Test the null hypothesis that the model is calibrated.

    Even a calibrated model has a positive calibration error. Labels are drawn from the
    probabilities ``n_resamples`` times, as if the model were calibrated. The p-value is the
    fraction of draws, with the given labels, that have a measure at least as large:

    .. math:: p = \frac{1 + \#\{ e^* \ge e \}}{1 + n_\text{resamples}} .

    If the model is calibrated, ``p <= 0.05`` with a probability of at most 5 %, or about 5 % with
    groups.

    If rows have ``groups``, the labels of a group are drawn with one uniform number. They depend
    fully on one another in two ways: rows have their events together, or rows are right together,
    as a question and its negation are. The p-value is the larger one, or the mean of both if their
    difference may be due to the finite number of draws. It is conservative for rows that depend
    less. With ``kind="multilabel"`` the labels of each row are a group.

    ``measure="spiegelhalter_z"`` is the test of Spiegelhalter [3]_, with a statistic that is
    standard normal if the scores :math:`p_i` of the events :math:`y_i` are calibrated,

    .. math:: z = \frac{\sum_i w_i (y_i - p_i) (1 - 2 p_i)}
        {\sqrt{\sum_i w_i^2 (1 - 2 p_i)^2 p_i (1 - p_i)}} .

    It compares the Brier score with its expectation, so it detects scores that are too extreme or
    not extreme enough, and misses errors that cancel in this sum. With groups, draws as above give
    the p-value, and the denominator is the larger standard deviation of the two kinds of draws.

    Parameters
    ----------
    y_true, y_proba
        As for :func:`reliability_curve`. Tensors are copied to the host.
    measure : str or callable, default="expected_calibration_error"
        As for :func:`calibration_error_interval`; larger values mean larger miscalibration. Or
        "spiegelhalter_z", a two-sided test for one score per row.
    n_bins, strategy, kind, sample_weight, labels, pos_label
        As for :func:`reliability_curve`.
    groups : array-like of shape (n_samples,), default=None
        Group per row, such as a patient or a week. Rows of a group may depend on one another.
    n_resamples : int, default=999
        Number of simulations. The p-value is a multiple of ``1 / (n_resamples + 1)``.
    random_state : int, RandomState instance or None, default=None
        Seed or generator of the simulated labels.

    Returns
    -------
    CalibrationTestResult
        With ``statistic``, the measure, and ``pvalue``.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`, and if ``measure`` or ``n_resamples`` is invalid.

    References
    ----------
    .. [1] Broecker, Smith, "Increasing the Reliability of Reliability Diagrams", Weather and
       Forecasting 22, 2007, where labels are drawn in the same way.
    .. [2] Vaicenavicius, Widmann, Andersson, Lindsten, Roll, Schoen, "Evaluating model calibration
       in classification", AISTATS 2019, `arXiv:1902.06977 <https://arxiv.org/abs/1902.06977>`_.
    .. [3] Spiegelhalter, "Probabilistic prediction in patient management and clinical trials",
       Statistics in Medicine 5, 1986.

    Examples
    --------
    >>> from skcalib.datasets import make_logits
    >>> from skcalib.metrics import calibration_test
    >>> _, y, P = make_logits(500, 3, return_proba=True, random_state=0)
    >>> calibration_test(y, P, random_state=0).pvalue > 0.05
    True
    """
    check_integer("n_resamples", n_resamples)
    random = check_random_state(random_state)
    rows = (y_true, y_proba, kind, sample_weight, labels, pos_label)
    if isinstance(measure, str) and measure == "spiegelhalter_z":
        return _spiegelhalter(rows, groups, n_resamples, random)
    measured = measured_by(measure, n_bins, strategy, *rows, groups)
    statistic = measured.of_rows()
    draws = null_draws(measured, n_resamples, random)
    return CalibrationTestResult(statistic, p_value(statistic, draws))


def _spiegelhalter(
    args: tuple[Any, ...], groups: ArrayLike | None, n_resamples: int, random: Random
) -> CalibrationTestResult:
    """Return Spiegelhalter's z and its p-value, for arguments of :func:`scored_rows`."""
    kind, columns = scored_rows(*args)
    if kind in OF_EACH:
        raise ValueError(
            f"measure='spiegelhalter_z' is for one score per row, got kind={kind!r}. Pass "
            "kind='binary' or kind='top-label'."
        )
    _, p, event, weight = next(columns)
    w = np.ones(len(p)) if weight is None else weight / weight.max()
    numbers, shares = group_numbers(groups, args[1], args[3]), w * (1 - 2 * p)
    above = float(np.sum(shares * (event - p)))
    if numbers is not None:
        draws = []
        for right in (False,) if kind == "top-label" else (False, True):
            draw = label_draws(p[None], numbers, exclusive=False, right=right)
            sums = [shares @ (draw(random)[0] - p) for _ in range(n_resamples)]
            draws.append(np.abs(sums))
        widest = float(np.sqrt(np.square(draws).mean(axis=1).max()))
        z = above / widest if widest else 0.0
        return CalibrationTestResult(z, p_value(abs(above), draws))
    spread = float(np.sqrt(np.sum(shares**2 * p * (1 - p))))
    if spread == 0:  # all scores are 0, 1 or 1/2; scores of 0 and 1 are right or wrong
        z = float(np.sign(above) * np.inf) if above else 0.0
        return CalibrationTestResult(z, float(not above))
    return CalibrationTestResult(above / spread, 2 * float(ndtr(-abs(above) / spread)))


def calibration_difference(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    other_proba: ArrayLike,
    *,
    measure: Measure = "debiased_root_mean_squared_calibration_error",
    n_bins: NBins = 15,
    strategy: Strategy = "uniform",
    kind: Kind = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    groups: ArrayLike | None = None,
    n_resamples: int = 999,
    confidence_level: float = 0.95,
    random_state: int | np.random.RandomState | None = None,
) -> CalibrationDifference:
    r"""Compare the calibration errors of two models on the same rows, with a test and an interval.

    The difference :math:`d` is the measure of the second model minus the measure of the first. If
    it is negative, the second model has the smaller error, or the smaller net benefit. It is
    compared with differences :math:`d^*` of bootstrap samples of the rows or groups, which are the
    same for both models. The distribution of :math:`d^* - d` estimates the distribution of
    :math:`d` around the true difference, so

    .. math:: p = \frac{1 + \#\{ |d^* - d| \ge |d| \}}{1 + n_\text{resamples}} ,

    and the interval contains 0 if and only if ``pvalue`` is above :math:`\alpha`, where
    :math:`1 - \alpha` is the ``confidence_level``. It contains :math:`d \pm h`, with the quantile
    :math:`1 - \alpha` of :math:`|d^* - d|` as h. A proper score or the net benefit has the interval
    and the p-value of the t statistic of the jackknife, corrected for skewness [3]_. Calibration
    errors of bootstrap samples have too little variance near 0, so the ends are
    further out if the intervals :math:`[l, u]` of both errors :math:`e` are wide [2]_:
    :math:`d - \sqrt{(e_2 - l_2)^2 + (u_1 - e_1)^2}` and
    :math:`d + \sqrt{(u_2 - e_2)^2 + (e_1 - l_1)^2}`, except for the end next to 0 where the test
    rejects. With ``groups`` the sum of both distances replaces the root.

    The default measure is the square root of an unbiased estimate. The bias of a calibration error
    that is not debiased depends on the model: it is larger if scores are distributed over more bins
    or are near 0.5. Therefore the errors of two calibrated models that differ in sharpness differ,
    and with ``measure="expected_calibration_error"`` the test rejects in 20 to 33 % of samples at a
    level of 5 %, and with many bins in most.

    Parameters
    ----------
    y_true, y_proba
        As for :func:`reliability_curve`. ``y_proba`` are the probabilities of the first model, such
        as before calibration. Tensors are copied to the host.
    other_proba : array-like of the shape of ``y_proba``
        Probabilities of the second model, such as after calibration.
    measure : str or callable, default="debiased_root_mean_squared_calibration_error"
        As for :func:`calibration_error_interval`. See above for the bias of other measures.
    n_bins, strategy, kind, sample_weight, labels, pos_label
        As for :func:`reliability_curve`.
    groups : array-like of shape (n_samples,), default=None
        Group per row, such as a patient or a week. Rows of a group may depend on one another.
    n_resamples : int, default=999
        Number of bootstrap samples.
    confidence_level : float, default=0.95
        Confidence level of the interval, between 0 and 1.
    random_state : int, RandomState instance or None, default=None
        Seed or generator of the bootstrap samples.

    Returns
    -------
    CalibrationDifference
        With ``estimate``, the measure of the second model minus the measure of the first, ``low``,
        ``high`` and ``pvalue``.

    Raises
    ------
    ValueError
        As :func:`calibration_error_interval`, and if the probabilities differ in shape.

    Warns
    -----
    UserWarning
        As :func:`calibration_error_interval` for a mean, and for errors also if there are more than
        two bins, or a column or more, for each group or row.

    References
    ----------
    .. [1] Davison, Hinkley, "Bootstrap Methods and their Application", 1997, chapters 4 and 5.
    .. [2] Zou, Donner, "Construction of confidence limits about effect measures: a general
       approach", Statistics in Medicine 27, 2008.
    .. [3] Hall, "On the Removal of Skewness by Transformation", Journal of the Royal Statistical
       Society B 54, 1992.

    Examples
    --------
    >>> from scipy.special import softmax
    >>> from skcalib import TemperatureScaling
    >>> from skcalib.datasets import load_digits_logits
    >>> from skcalib.metrics import calibration_difference
    >>> digits = load_digits_logits()
    >>> before = softmax(digits.logits_test, axis=1)
    >>> scaling = TemperatureScaling().fit(digits.logits_calibration, digits.y_calibration)
    >>> after = scaling.predict_proba(digits.logits_test)
    >>> found = calibration_difference(digits.y_test, before, after, random_state=0)
    >>> found.high < 0  # the error is lower after calibration
    True
    >>> found.pvalue < 0.01
    True
    """
    check_integer("n_resamples", n_resamples)
    check_real("confidence_level", confidence_level, high=1)
    settings = {
        "sample_weight": sample_weight, "labels": labels, "pos_label": pos_label, "groups": groups,
    }  # fmt: skip
    measured = partial(measured_by, measure, n_bins, strategy, y_true, kind=kind, **settings)
    first = measured(y_proba=y_proba)
    shape, other_shape = (np.shape(as_numpy(P, "other_proba")) for P in (y_proba, other_proba))
    if shape != other_shape:
        raise ValueError(
            f"y_proba and other_proba must be of the same shape, got {shape} and {other_shape}. "
            "Pass the probabilities of both models for the same rows."
        )
    try:
        with warnings.catch_warnings():  # the first model has warned
            warnings.simplefilter("ignore")
            second = measured(y_proba=other_proba)
    except ValueError as error:  # the message blames y_proba, which is valid
        raise ValueError(str(error).replace("y_proba", "other_proba")) from None
    models, random = (first, second), check_random_state(random_state)
    if not is_error(first):

        def difference(times: Indices | None = None) -> float:
            return second.of_rows(times) - first.of_rows(times)

        units = leave_out_units(first.problem, n_resamples, random)
        found = jackknifed(difference, units, first.problem.weights, confidence_level)
        return CalibrationDifference(*found)

    warn_of_few_units(first, count_wrong=True)
    samples = (draw_rows(first.problem.clusters, random) for _ in range(n_resamples))
    draws = np.array([[model.of_rows(times) for model in models] for times in samples])
    # Each generator is as for the interval of a single model.
    intervals = (
        error_interval(model, n_resamples, confidence_level, check_random_state(random_state))
        for model in models
    )
    one, other = (IntervalEstimate(*interval) for interval in intervals)
    return difference_of(one, other, draws[:, 1] - draws[:, 0], first.problem.units)


def difference_of(
    first: IntervalEstimate, second: IntervalEstimate, draws: Floats, groups: Indices | None
) -> CalibrationDifference:
    """Return the second minus the first, with an interval and a test by bootstrap differences."""
    estimate, level = second.estimate - first.estimate, first.confidence_level
    sizes = np.abs(draws - estimate)
    if groups is not None:  # few groups vary less than their population
        n_groups = int(groups.max()) + 1
        few = inflation(level, degrees_of_freedom(np.bincount(groups).astype(np.float64)))
        sizes = sizes * few * np.sqrt(n_groups / max(n_groups - 1, 1))
    pvalue = float(1 + np.count_nonzero(sizes >= abs(estimate))) / (1 + len(draws))
    half = float(np.quantile(sizes, level, method="higher"))
    # Limits from the limits of both errors, if further out: as if the errors were independent, and
    # with groups as if chance raised one while it lowered the other.
    combine = np.hypot if groups is None else np.add
    down = combine(second.estimate - second.low, first.high - first.estimate)
    up = combine(second.high - second.estimate, first.estimate - first.low)
    low, high = estimate - max(float(down), half), estimate + max(float(up), half)
    if pvalue > 1 - level + ROUNDING_ERROR:
        return CalibrationDifference(estimate, min(low, 0.0), max(high, 0.0), pvalue)
    low, high = (estimate - half, high) if estimate > 0 else (low, estimate + half)
    return CalibrationDifference(estimate, low, high, pvalue)
