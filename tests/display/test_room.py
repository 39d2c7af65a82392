"""Nothing hides what a picture is to show: legends, bands, names and figures with little room."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.special import softmax

from skcalib import (
    ReliabilityDisplay,
    TemperatureScaling,
    TemperatureSweepDisplay,
    calibration_report,
)
from skcalib._output.text import letters_in, shortened
from skcalib.datasets import make_logits
from skcalib.selection import CalibratorComparison


@pytest.fixture(scope="module")
def logits():
    return make_logits(3000, 5, temperature=1.5, random_state=0)


@pytest.mark.slow
def test_legends_of_small_diagrams_have_what_is_needed_and_whole_words(logits):
    Z, y = logits
    for side in (4, 10):
        figure = Figure((side, side), layout="constrained")
        ReliabilityDisplay.from_predictions(y, softmax(Z, axis=1), ax=figure.subplots(2, 2)[0, 0])
        texts = [t.get_text() for t in figure.axes[0].get_legend().get_texts()]
        assert "Over-confident" in texts
        assert ("Perfect" in texts) == (side == 10)


def test_narrow_bands_stand_above_wide_ones():
    rng = np.random.default_rng(0)
    ax = Figure().subplots()
    found = []
    for n in (2000, 200, 6000):
        p = rng.uniform(size=n)
        y = rng.uniform(size=n) < p
        found.append(
            ReliabilityDisplay.from_predictions(
                y, p, kind="binary", style="corp", ax=ax, n_resamples=20
            ).band_.get_zorder()
        )
    assert found[1] < found[0] < found[2]


def test_a_grid_of_lines_is_drawn_once(logits):
    with plt.style.context("ggplot"):
        display = TemperatureSweepDisplay.from_logits(*logits, ax=Figure().subplots())
    upper, lower = (ax.yaxis.get_major_ticks()[0].gridline for ax in display.axes_)
    assert upper.get_visible()
    assert not lower.get_visible()


@pytest.mark.slow
@pytest.mark.parametrize("size", [(3, 3), (5, 6), (10, 8)])
def test_names_of_many_calibrators_stand_apart(size):
    names = ["uncalibrated", *(f"Calibrator{k:02}OfEnsemblesAndTemperatures" for k in range(15))]
    scores = {"log loss": np.random.default_rng(0).uniform(size=(len(names), 5))}
    figure = Figure(size, layout="constrained")
    ax = CalibratorComparison(names=names, scores=scores, fit_times=np.ones((len(names), 5))).plot(
        figure.subplots()
    )
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert all(one.y0 > other.y1 - 1.5 for one, other in itertools.pairwise(boxes))
    assert min(box.x0 for box in boxes) >= 0
    assert ax.get_window_extent().width > 0.3 * figure.bbox.width


@pytest.mark.slow
@pytest.mark.parametrize("size", [(5, 6), (10, 8)])
def test_texts_of_a_report_are_inside_of_its_figure(logits, size):
    Z, y = logits
    figure = Figure(size, layout="constrained")
    calibration_report(TemperatureScaling().fit(Z, y), Z, y, figure=figure)
    figure.draw_without_rendering()
    for ax in figure.axes:
        for text in [ax.title, ax.xaxis.label, *ax.texts]:
            box = text.get_window_extent()
            assert box.x0 >= -1
            assert box.x1 <= figure.bbox.width + 1


def test_shortened_texts_keep_their_ends():
    text = "A calibrator with a long name (ECE 0.031)"
    for width in (3, 2.2):
        short = shortened(text, width, 10, end=12)
        assert short.endswith(" (ECE 0.031)")
        assert len(short) <= letters_in(width, 10)
        assert short[0] == "A"
    assert shortened("short", 10, 10) == "short"
