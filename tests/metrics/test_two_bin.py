"""Averaged two-bin calibration error: its formula, its truthfulness, ties and weights."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.integrate import quad

from skcalib.metrics import averaged_two_bin_calibration_error, expected_calibration_error


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
    p = rng.uniform(size=200)
    base, shrunk = np.full(200, p.mean()), 0.8 * p + 0.2 * p.mean()
    draws = (rng.uniform(size=(1000, 200)) < p).astype(int)

    def mean(measure, report):
        return np.mean([measure(y, report) for y in draws])

    truth = mean(averaged_two_bin_calibration_error, p)
    np.testing.assert_allclose(truth, np.sum(p * (1 - p)) / 200**2, rtol=0.1)
    assert mean(averaged_two_bin_calibration_error, shrunk) > truth
    assert mean(averaged_two_bin_calibration_error, base) > 0.9 * truth  # equal in expectation
    assert mean(expected_calibration_error, base) < 0.5 * mean(expected_calibration_error, p)


def test_event_and_complement_have_the_same_error(rng):
    p, y = rng.uniform(size=50), rng.integers(0, 2, size=50)
    error = averaged_two_bin_calibration_error(y, p)
    np.testing.assert_allclose(averaged_two_bin_calibration_error(1 - y, 1 - p), error)
    both = np.stack([1 - p, p], axis=1)
    np.testing.assert_allclose(averaged_two_bin_calibration_error(y, both), error)
    classwise = averaged_two_bin_calibration_error(y, both, kind="classwise")
    np.testing.assert_allclose(classwise, error)


def test_certain_and_right_predictions_have_no_error():
    assert averaged_two_bin_calibration_error([0, 1, 1], [0.0, 1.0, 1.0]) == 0
    assert averaged_two_bin_calibration_error([1, 1], [0.0, 0.0], labels=[0, 1]) == pytest.approx(1)
