"""Legends fit beside what they explain, and tick labels beside each other, at every size."""

import itertools

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.special import expit

from skcalib import ReliabilityDisplay
from skcalib.display._ticks import log_ticks, logit_ticks


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    p = expit(rng.normal(-1, 2, size=400))
    return rng.uniform(size=400) < p, p


def drawn(rows, figure, **params):
    params = {"kind": "binary", "ax": figure.axes[0], "n_resamples": 2, **params}
    return ReliabilityDisplay.from_predictions(*rows, **params)


@pytest.mark.parametrize("width", [3, 6, 12])
def test_tick_labels_of_logit_axes_lie_beside_each_other(rows, width):
    figure = Figure(figsize=(width, 1.3 * width))
    figure.subplots()
    display = drawn(rows, figure, style="dots", scale="logit", n_bins=30, strategy="quantile")
    figure.draw_without_rendering()
    low, high = display.ax_.get_xlim()
    for axis, side in ((display.ax_.xaxis, 0), (display.ax_.yaxis, 1)):
        assert all(low <= tick <= high for tick in axis.get_ticklocs())
        labels = axis.get_ticklabels()
        assert len(labels) >= 2
        assert [float(label.get_text()) for label in labels] == axis.get_ticklocs().tolist()
        ends = np.array([label.get_window_extent().get_points()[:, side] for label in labels])
        assert all(a[1] < b[0] for a, b in itertools.pairwise(ends))
    if width == 12:  # room for all of them
        assert len(display.ax_.get_xticks()) == len(display.ax_.get_yticks())


@pytest.mark.parametrize(
    ("limits", "ticks"),
    [
        ((1 / 3, 3), [0.5, 1, 2]),
        ((0.1, 10), [0.1, 1, 10]),
        ((0.3, 30), [0.3, 1, 3, 10, 30]),
        ((0.9, 7), [1, 2, 5]),
        ((0.9, 2.9), [1, 1.5, 2]),
        ((0.01, 1000), [0.01, 0.1, 1, 10, 100, 1000]),
        ((1e-6, 1e6), 10.0 ** np.arange(-6, 7, 2)),
    ],
)
def test_ticks_of_temperatures_are_three_or_more_round_numbers(limits, ticks):
    np.testing.assert_allclose(log_ticks(*limits), ticks)


@pytest.mark.parametrize(
    ("limits", "ticks"),
    [
        ((0.009, 0.6), [0.01, 0.1, 0.5]),
        ((0.1, 0.9), [0.1, 0.5, 0.9]),
        ((0.02, 0.2), [0.02, 0.05, 0.1, 0.2]),
        ((0.8, 0.99), [0.8, 0.9, 0.95, 0.98, 0.99]),
        ((5e-5, 0.02), [1e-4, 1e-3, 0.01]),
        ((1e-6, 1 - 1e-6), [1e-6, 1e-4, 0.01, 0.5, 0.99, 1 - 1e-4, 1 - 1e-6]),
    ],
)
def test_ticks_of_logit_axes_are_three_or_more_round_numbers(limits, ticks):
    np.testing.assert_allclose(logit_ticks(*limits), ticks)


@pytest.mark.parametrize("limits", [(0.3, 10), (0.9, 1.3), (1e-9, 3), (0.3, 4), (0.95, 1.05)])
def test_ticks_are_few_and_some(limits):
    assert 1 <= len(log_ticks(*limits)) <= 8
    assert 1 <= len(logit_ticks(1e-6, 1 - 1e-6)) <= 7
