"""Averaged two-bin calibration error: its formula, its truthfulness, ties and weights."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.integrate import quad
from scipy.special import expit, logit, softmax

from skcalib.metrics import (
    averaged_two_bin_calibration_error,
    calibration_difference,
    calibration_error_interval,
    calibration_test,
    expected_calibration_error,
)

NAME = averaged_two_bin_calibration_error.__name__


def literal(y, p, w):
    """Integral over the threshold by quadrature, piece by piece."""

    def squares(t):
        residual = w * (p - y)
        return residual[p <= t].sum() ** 2 + residual[p > t].sum() ** 2

    ends = np.unique([0.0, *p, 1.0])
    pieces = [quad(squares, low, high)[0] for low, high in pairwise(ends)]
    return sum(pieces) / w.sum() ** 2


@given(seed=st.integers(0, 1000), n=st.integers(1, 12), digits=st.sampled_from([1, 6]))
def test_error_is_the_integral_over_all_thresholds(seed, n, digits):
    rng = np.random.default_rng(seed)
    p, w = rng.uniform(size=n).round(digits), rng.uniform(0.1, 2, size=n)
    y = rng.integers(0, 2, size=n)
    error = averaged_two_bin_calibration_error(y, p, sample_weight=w, labels=[0, 1])
    np.testing.assert_allclose(error, literal(y, p, w), atol=1e-9)


def test_no_report_has_a_lower_expected_error_than_the_truth(rng):
    """The expected calibration error prefers the base rate, and this error does not."""
    p = rng.uniform(size=100)
    base, shrunk = np.full(100, p.mean()), 0.7 * p + 0.3 * p.mean()
    draws = (rng.uniform(size=(400, 100)) < p).astype(int)

    def mean(measure, report):
        return np.mean([measure(y, report) for y in draws])

    truth = mean(averaged_two_bin_calibration_error, p)
    np.testing.assert_allclose(truth, np.sum(p * (1 - p)) / 100**2, rtol=0.1)
    assert mean(averaged_two_bin_calibration_error, shrunk) > truth
    assert mean(averaged_two_bin_calibration_error, base) > 0.9 * truth  # equal in expectation
    assert mean(expected_calibration_error, base) < 0.5 * mean(expected_calibration_error, p)


def test_another_top_class_has_no_lower_expected_error_than_the_truth(rng):
    """Without the residuals of the other classes, a false report of 0.34 would have one."""
    true, other = np.array([0.45, 0.35, 0.2]), np.array([[0.33, 0.33, 0.34], [0.34, 0.33, 0.33]])
    reports = np.tile(true, (100, 1)), np.repeat(other, [44, 56], axis=0)
    errors = np.array([
        [averaged_two_bin_calibration_error(y, P, labels=[0, 1, 2]) for P in reports]
        for y in rng.choice(3, (400, 100), p=true)
    ])  # fmt: skip
    truth, false = errors.mean(axis=0)
    np.testing.assert_allclose(truth, (1 - true @ true) / 100, rtol=0.1)
    assert false > truth


def test_top_label_of_two_classes_adds_the_other_residual():
    y, p = np.array([1, 0, 1]), np.array([0.9, 0.2, 0.3])
    for report in (p, np.stack([1 - p, p], axis=1)):
        top = averaged_two_bin_calibration_error(y, report, kind="top-label")
        score, right = np.maximum(p, 1 - p), (p > 0.5) == y
        alone = averaged_two_bin_calibration_error(right.astype(int), score, labels=[0, 1])
        assert top == pytest.approx(alone + np.sum((p - y) ** 2) / 9)


def test_certain_and_right_predictions_have_no_error():
    assert averaged_two_bin_calibration_error([0, 1, 1], [0.0, 1.0, 1.0]) == 0
    assert averaged_two_bin_calibration_error([1, 1], [0.0, 0.0], labels=[0, 1]) == pytest.approx(1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["top-label", "classwise", "binary", "multilabel"])
@pytest.mark.parametrize("size", [1, 5])
def test_interval_and_test_agree_and_contain_the_estimate(kind, size, rng):
    """A calibrated model has an interval from 0, and an over-confident model has none."""
    z = rng.normal(0, 2, (200, 3 if kind in {"top-label", "classwise"} else 2))
    z = z[:, :1] * [0, 1] if kind == "binary" else z
    P = expit(z) if kind == "multilabel" else softmax(z, axis=1)
    u, groups = rng.uniform(size=(200, 1)), np.repeat(np.arange(200), size)
    y = (u < P).astype(int) if kind == "multilabel" else (u > P.cumsum(axis=1)[:, :-1]).sum(axis=1)
    sharp = expit(3 * z) if kind == "multilabel" else softmax(3 * z, axis=1)
    params = {"kind": kind, "groups": groups, "n_resamples": 39, "random_state": 0}
    for report in (P, sharp):
        args = y[groups], report[groups]
        found = calibration_error_interval(*args, measure=NAME, **params)
        pvalue = calibration_test(*args, measure=NAME, **params).pvalue
        assert found.estimate == averaged_two_bin_calibration_error(*args, kind=kind)
        assert 0 <= found.low <= found.estimate <= found.high <= 1
        assert (found.low == 0) == (pvalue > 0.05) == (report is P)
        function = averaged_two_bin_calibration_error
        same = calibration_test(*args, measure=function, **params).pvalue
        assert same == pvalue
        bound = partial(function, kind=kind)
        other = calibration_error_interval(*args, measure=bound, **params)
        assert other.high < 2 * found.high


def test_difference_of_two_models_is_positive_if_the_second_is_worse(rng):
    p = rng.uniform(size=1500)
    y = rng.uniform(size=1500) < p
    found = calibration_difference(
        y, p, expit(4 * logit(p)), measure=NAME, n_resamples=99, random_state=0
    )
    assert 0 < found.low < found.estimate < found.high
    assert found.pvalue < 0.05
