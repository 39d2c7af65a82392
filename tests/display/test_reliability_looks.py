"""Reliability diagrams are legible in every style, scale and size, and fade with the rows."""

import itertools

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from drawing import in_legend, inside, pairs, partly_slow, slow
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from scipy.special import expit, softmax

from skcalib import ReliabilityDisplay, TemperatureSweepDisplay
from skcalib._output.theme import (
    BLUE,
    GREEN,
    SMALLEST,
    VERMILION,
    Theme,
    letters_in,
    opacity,
    shortened,
)
from skcalib.comparison import CalibratorComparison
from skcalib.datasets import make_logits
from skcalib.display._style import DODGE

LONG = "gradient_boosting $x_1$ of a hundred trees"
DRAWN = [("bars", "linear")]
DRAWN += itertools.product(["dots", "corp"], ["linear", "logit"])
KINDS = ["top-label", "binary"]
MODELS = [(1, LONG), (2, "_x"), (3, "$a$ " * 10), (5, "n" * 40), (5, None)]
SHEETS = ["default", "dark_background", "ggplot", "grayscale"]


def diagram_rows():
    """Labels and probabilities, with gaps of both signs and bins of few and of many rows."""
    rng = np.random.default_rng(0)
    p = expit(rng.normal(0.5, 1.6, size=500))
    return rng.uniform(size=500) < expit(1.3 * np.sin(5 * p) - 1 + 2 * p), p


@pytest.fixture(scope="module")
def rows():
    return diagram_rows()


def drawn(rows, ax, style, n_models=1, **params):
    """The displays of several models on the same axes."""
    if style == "bars":
        n_models = 1
    params = {"kind": "binary", "n_resamples": 5, "style": style, **params}
    make = ReliabilityDisplay.from_predictions
    return [make(*rows, ax=ax, **params) for _ in range(n_models)]


def square_of(ax):
    """The diagram, without the histogram above it, in pixels."""
    low, high = ax.get_xlim()
    corners = ax.transData.transform([[low, low], [high, high]])
    return mpl.transforms.Bbox(corners)


# Colours ----------------------------------------------------------------------------------------


def strength(colour, full, background):
    """How far a colour is from the background to a full one."""
    colour, full, background = (np.array(to_rgb(c)) for c in (colour, full, background))
    way = full - background
    return float((colour - background) @ way / (way @ way))


def strengths(display):
    """For each kind of artist that stands for bins, the opacity of each of them."""
    theme = Theme.of(display.ax_)
    found = {"whiskers": display.intervals_.lines[2][0].get_edgecolor()[:, 3]}
    if display.dots_ is not None:
        assert len(set(map(tuple, display.dots_.get_facecolor()[:, :3]))) == 1
        return {**found, "dots": display.dots_.get_facecolor()[:, 3]}
    for bars in (display.bars_, display.gaps_):
        assert {bar.get_facecolor()[3] for bar in bars} == {1}  # opaque: nothing mixes
    found["bars"] = [strength(b.get_facecolor(), BLUE, theme.background) for b in display.bars_]
    for name, of in (("hatches", "get_edgecolor"), ("tints", "get_facecolor")):
        full = [VERMILION if gap > 0 else GREEN for gap in display.curve.gap]
        found[name] = [
            strength(getattr(bar, of)(), colour, theme.background)
            for bar, colour in zip(display.gaps_, full, strict=True)
        ]
    found["tints"] = np.divide(found["tints"], 0.45 if theme.is_dark else 0.3)
    return found


@pytest.mark.parametrize(("sheet", "style"), partly_slow(SHEETS, ["bars", "dots"]))
def test_bins_fade_with_their_number_of_rows(style, sheet):
    sizes = [1, 2, 5, 20, 100, 1000]
    p = np.repeat([0.15, 0.35, 0.55, 0.65, 0.75, 0.95], sizes)
    y = np.random.default_rng(0).uniform(size=len(p)) < 0.6
    with plt.style.context(sheet):
        (display,) = drawn((y, p), Figure().subplots(), style, n_bins=10)
    assert display.curve.n_samples.tolist() == sizes
    for name, values in strengths(display).items():
        np.testing.assert_allclose(values, opacity(sizes), atol=0.02, err_msg=name)
        assert np.all(np.diff(values) > 0), name
        assert values[0] < 0.1, name
    if style == "dots":
        joins = display.joins_.get_edgecolor()[:, 3]
        np.testing.assert_allclose(joins, opacity(sizes[:-1]))


@pytest.mark.parametrize("signs", [(1,), (-1,), (1, -1), (-1, 1, -1), (0,)])
def test_gaps_show_whether_the_probability_is_too_high(signs):
    """Each has a colour and a hatch, which are in the legend if they occur."""
    middle = np.array([0.25, 0.5, 0.75])[: len(signs)]
    p = np.repeat(middle, 8)
    hits = (8 * (middle - 0.25 * np.array(signs))).astype(int)
    y = np.concatenate([np.arange(8) < h for h in hits])
    (display,) = drawn((y, p), Figure(figsize=(5, 6)).subplots(), "bars", n_bins=4)
    np.testing.assert_array_equal(np.sign(display.curve.gap), signs)
    looks = {1: (VERMILION, "////"), -1: (GREEN, "\\\\\\\\")}
    theme, n = Theme.of(display.ax_), opacity(8)
    for bar, sign in zip(display.gaps_, signs, strict=True):
        colour, hatch = looks[sign or -1]
        np.testing.assert_allclose(bar.get_edgecolor()[:3], theme.mixed(colour, n))
        assert bar.get_hatch() == hatch
    legend = display.ax_.get_legend()
    labels = in_legend(display.ax_)
    assert labels[0] == f"Frequency (ECE {display.expected_calibration_error:.3f})"
    assert labels[-2:] == ["95 % interval", "Perfect"]
    wanted = [name for s, name in ((1, "Over-estimated"), (-1, "Under-estimated")) if s in signs]
    assert labels[1:-2] == wanted
    handles = dict(zip(labels, legend.legend_handles, strict=True))
    for sign, name in ((1, "Over-estimated"), (-1, "Under-estimated")):
        if name in handles:
            assert handles[name].get_hatch() == looks[sign][1]
            assert to_rgb(handles[name].get_edgecolor()) == to_rgb(looks[sign][0])
    assert to_rgb(handles[labels[0]].get_facecolor()) == to_rgb(BLUE)  # not faded


def test_a_small_error_is_written_with_digits_that_count():
    p = np.repeat([0.25, 0.75], 4000)
    y = np.repeat([0, 1, 0, 1], [2990, 1010, 1000, 3000])
    display = ReliabilityDisplay.from_predictions(y, p, n_bins=4)
    assert "(ECE 0.0013)" in in_legend(display.ax_)[0]


# Sizes and places -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("drawing", "models", "size"), pairs(DRAWN, MODELS, [(3, 3), (5, 6), (10, 8)])
)
def test_legends_lie_above_the_histogram(rows, drawing, models, size):
    (style, scale), (n_models, name) = drawing, models
    figure = Figure(figsize=size, layout="constrained")
    ax = figure.subplots()
    displays = drawn(rows, ax, style, n_models, scale=scale, name=name)
    figure.draw_without_rendering()
    legend = ax.get_legend()
    box = legend.get_window_extent()
    assert box.y0 >= displays[0].counts_ax_.get_window_extent().y1 - 1
    assert inside(box, figure.bbox)
    labels = ["".join(text.get_text().split()) for text in legend.get_texts()]
    for display in displays:
        score = (
            f"ECE {display.expected_calibration_error:.3f}"
            if style != "corp"
            else "calibration loss 0."
        )
        assert sum(score.replace(" ", "") in label for label in labels) == len(displays)
    if name and style != "bars":
        crowded = n_models * len(name) > 120 and size == (3, 3)  # names may be cut
        shown = "".join(name.split())[: 12 if crowded else None]
        assert sum(label.startswith(shown) for label in labels) == len(displays)
    assert not any(text.get_parse_math() for text in legend.get_texts())


def boxes(figure, displays):
    figure.draw_without_rendering()
    found = [(square_of(d.ax_), d.counts_ax_.get_window_extent()) for d in displays]
    return [box.extents.tolist() for pair in found for box in pair]


@pytest.mark.parametrize(
    ("style", "n_axes", "layout"),
    partly_slow(["dots", "bars", "corp"], [1, 3], [None, "constrained"], quick=1),
)
def test_diagrams_keep_their_place(rows, style, n_axes, layout):
    """Whatever is added to the axes: models, their names, and a legend in them."""
    found = []
    for n_models, name, legend in ((1, None, False), (1, None, "best"), (5, LONG, "lower right")):
        figure = Figure(figsize=(4 * n_axes, 4), layout=layout)
        axes = np.ravel(figure.subplots(1, n_axes))
        # Titles of bars have a place of their own.
        params = {"name": None if style == "bars" else name, "legend": legend, "n_resamples": 2}
        displays = [drawn(rows, ax, style, n_models, **params)[-1] for ax in axes]
        found.append(boxes(figure, displays))
    np.testing.assert_allclose(found[1:], [found[0]] * 2, atol=0.01)


@pytest.mark.parametrize(
    ("name", "width"), partly_slow(["net", LONG, "a Name in CAPITALS " * 4], [3, 6], quick=2)
)
def test_titles_are_no_wider_than_the_axes(rows, name, width):
    figure = Figure(figsize=(width, 4))
    ax = figure.subplots()
    (display,) = drawn(rows, ax, "bars", name=name)
    room = ax.get_position(original=True).width * width * figure.dpi
    assert display.ax_.title.get_window_extent().width <= room
    assert display.ax_.title.get_fontsize() >= SMALLEST
    assert "".join(ax.get_title().split()) == "".join(name.split())


# Several models ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["linear", "logit"])
def test_whiskers_of_five_models_stand_beside_each_other(rows, scale):
    figure = Figure(figsize=(5, 6), layout="constrained")
    ax = figure.subplots()
    displays = drawn(rows, ax, "dots", 5, scale=scale, strategy="quantile", n_bins=8)
    figure.draw_without_rendering()
    points = figure.dpi / 72
    true = ax.transData.transform(displays[0].line_.get_xydata())[:, 0]
    shifts = []
    for display in displays:
        bars = display.intervals_.lines[2][0]
        x = [bars.get_transform().transform(s)[:, 0] for s in bars.get_segments()]
        dots = display.dots_.get_offset_transform().transform(display.dots_.get_offsets())
        ends = [display.joins_.get_transform().transform(s) for s in display.joins_.get_segments()]
        np.testing.assert_allclose(x, np.column_stack([dots[:, 0]] * 2))
        np.testing.assert_allclose([end[0] for end in ends], dots[:-1])
        np.testing.assert_allclose([end[1] for end in ends], dots[1:])
        (shift,) = set(np.round((dots[:, 0] - true) / points, 6))
        shifts.append(shift)
    assert shifts[0] == 0
    assert np.diff(sorted(shifts)).min() >= DODGE >= 2
    assert abs(np.mean(shifts)) < 1e-6  # around the true place
    assert np.ptp(shifts) < 12  # within their bins


def test_bands_of_several_models_do_not_add_up(rows):
    displays = drawn(rows, Figure().subplots(), "corp", 5)
    assert all(d.band_.get_facecolor()[0][3] == 1 for d in displays)
    assert len({d.band_.get_zorder() for d in displays}) == 5
    assert max(d.band_.get_zorder() for d in displays) < min(d.line_.get_zorder() for d in displays)


@pytest.mark.parametrize("order", [1, -1])
def test_narrow_bands_stand_above_wide_ones(rows, order):
    ax = Figure().subplots()
    of = {n: drawn([x[:n] for x in rows], ax, "corp")[0].band_ for n in (500, 50)[::order]}
    assert of[500].get_zorder() > of[50].get_zorder()


def test_scores_are_not_broken_where_there_is_room(rows):
    (display,) = drawn(rows, Figure(figsize=(3, 3)).subplots(), "bars", kind="top-label")
    label = display.ax_.get_legend().get_texts()[0].get_text()
    assert label.split("\n")[-1].endswith(f"(ECE {display.expected_calibration_error:.3f})")


# Pictures with little room ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def logits():
    return make_logits(3000, 5, temperature=1.5, random_state=0)


def test_legends_of_small_diagrams_have_what_is_needed_and_whole_words(logits):
    Z, y = logits
    for side in (4, 10):
        figure = Figure((side, side), layout="constrained")
        ReliabilityDisplay.from_predictions(y, softmax(Z, axis=1), ax=figure.subplots(2, 2)[0, 0])
        texts = [t.get_text() for t in figure.axes[0].get_legend().get_texts()]
        assert "Over-confident" in texts
        assert ("Perfect" in texts) == (side == 10)


def test_a_grid_of_lines_is_drawn_once(logits):
    with plt.style.context("ggplot"):
        display = TemperatureSweepDisplay.from_logits(*logits, ax=Figure().subplots())
    upper, lower = (ax.yaxis.get_major_ticks()[0].gridline for ax in display.axes_)
    assert upper.get_visible()
    assert not lower.get_visible()


@pytest.mark.parametrize("size", [(3, 3), *slow(((5, 6),), ((10, 8),))])
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


def test_shortened_texts_keep_their_ends():
    text = "A calibrator with a long name (ECE 0.031)"
    for width in (3, 2.2):
        short = shortened(text, width, 10, end=12)
        assert short.endswith(" (ECE 0.031)")
        assert len(short) <= letters_in(width, 10)
        assert short[0] == "A"
    assert shortened("short", 10, 10) == "short"
