"""Cumulative events of ordered classes: the label is one of the first k classes."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from matplotlib.figure import Figure

from skcalib import ReliabilityDisplay
from skcalib.conditional import multicalibration_error
from skcalib.metrics import (
    averaged_two_bin_calibration_error,
    calibration_error_interval,
    calibration_test,
    expected_calibration_error,
    reliability_curve,
)

LEVELS = ["low", "medium", "high"]


def drawn(seed, n=60, n_classes=3):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(n_classes), size=n)
    return rng.integers(n_classes, size=n), P, rng.integers(1, 4, size=n)


def binary_events(y, P):
    """Return labels and probabilities of each event, with the number of its last class."""
    return [(k, y <= k, P[:, : k + 1].sum(axis=1)) for k in range(P.shape[1] - 1)]


@given(seed=st.integers(0, 1000), n_classes=st.integers(2, 6))
def test_curves_and_errors_are_those_of_the_binary_events(seed, n_classes):
    y, P, w = drawn(seed, n_classes=n_classes)
    labels = np.arange(n_classes)
    settings = {"sample_weight": w, "labels": labels, "kind": "cumulative", "n_bins": 5}
    curve = reliability_curve(y, P, **settings)
    errors = expected_calibration_error(y, P, average=None, **settings)
    for k, event, F in binary_events(y, P):
        one = reliability_curve(event, F, sample_weight=w, n_bins=5, labels=[False, True])
        for name in ("lower", "accuracy", "confidence", "weight"):
            np.testing.assert_allclose(getattr(curve, name)[curve.label == k], getattr(one, name))
        error = expected_calibration_error(
            event, F, sample_weight=w, n_bins=5, labels=[False, True]
        )
        assert errors[k] == pytest.approx(error)
    assert expected_calibration_error(y, P, **settings) == pytest.approx(errors.mean())


def test_equal_sums_of_probabilities_are_in_one_bin():
    """0.1 + 0.2 is a little more than 0.3 in floating point."""
    P = [[0.1, 0.2, 0.7], [0.3, 0.0, 0.7], [0.2, 0.1, 0.7]]
    curve = reliability_curve([0, 1, 2], P, kind="cumulative", n_bins=[0, 0.3, 1])
    assert curve.upper[curve.label == 1].tolist() == [0.3]


def test_rows_that_sum_to_a_little_more_than_one_have_probabilities_up_to_one():
    P = np.array([[0.502, 0.502, 0.0]] * 3)
    curve = reliability_curve([0, 1, 2], P, kind="cumulative")
    assert curve.confidence.tolist() == pytest.approx([0.502, 1])


def test_the_diagram_has_a_panel_for_each_event():
    y, P, _ = drawn(1, n=300)
    axes = Figure().subplots(1, 2)
    display = ReliabilityDisplay.from_predictions(
        np.array(LEVELS)[y], P, kind="cumulative", labels=LEVELS, order=LEVELS, subset=LEVELS[:2],
        ax=axes,
    )  # fmt: skip
    titles = [ax.get_title().split("\n")[0] for ax in display.axes_]
    assert titles == ["At most low", "At most medium"]


def test_panels_of_cumulative_events_are_in_the_order_of_the_classes():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(5), size=300)
    y = np.array([rng.choice(5, p=p) for p in P])
    y[(y == 3) & (rng.random(300) < 0.8)] = 4  # the last event has the largest error
    display = ReliabilityDisplay.from_predictions(y, P, kind="cumulative", subset=3)
    titles = [ax.get_title().split("\n")[0] for ax in np.ravel(display.axes_) if ax.get_title()]
    assert len(titles) == 3
    assert titles == sorted(titles)


@pytest.mark.parametrize(
    "function", [calibration_error_interval, calibration_test, multicalibration_error]
)
def test_labels_of_cumulative_events_are_not_drawn(function):
    y, P, _ = drawn(2)
    arguments = (y, P, P[:, :1]) if function is multicalibration_error else (y, P)
    with pytest.raises(ValueError, match="cumulative"):
        function(*arguments, kind="cumulative")


def test_two_bin_error_is_the_mean_over_the_events():
    y, P, _ = drawn(3)
    errors = [averaged_two_bin_calibration_error(e, F) for _, e, F in binary_events(y, P)]
    error = averaged_two_bin_calibration_error(y, P, kind="cumulative")
    assert error == pytest.approx(np.mean(errors))
