"""Laws of grids: one legend, panels and texts that fit, and bins that show each class."""

import itertools
import pickle
from io import BytesIO

import matplotlib.pyplot as plt
import numpy as np
import pytest
from drawing import inside, partly_slow, slow, texts_of
from matplotlib.figure import Figure

from skcalib import ReliabilityDisplay
from skcalib.display import ReliabilityGridDisplay
from skcalib.display._reliability_grid import MANY
from skcalib.metrics import expected_calibration_error, reliability_curve

STYLES = ["bars", "dots", "corp", "smooth"]
KINDS = ["classwise", "multilabel"]
MPL_STYLES = ["default", "dark_background", "ggplot", "seaborn-v0_8-whitegrid", "grayscale"]
SIZES = [None, (3, 3), (5, 6), (10, 8)]
NAMES = ["a name that has forty letters, not fewer", "$x$ & $y_2$", "<b>bold</b>", "_hidden"]

every_style = pytest.mark.parametrize("style", STYLES)
every_kind = pytest.mark.parametrize("kind", KINDS)
every_style_and_kind = pytest.mark.parametrize(("style", "kind"), partly_slow(STYLES, KINDS))


def rows_of(kind, n_classes=4, n=400, rare=()):
    """Labels or indicators, and probabilities, with those of rare classes below 0.05."""
    rng = np.random.default_rng(n_classes)
    P = rng.dirichlet(np.full(n_classes, 0.5), size=n)
    for k in rare:
        P[:, k] *= 0.05 / P[:, k].max()
    P[:, 0] += 1 - P.sum(axis=1)
    y = np.array([rng.choice(n_classes, p=p) for p in P])
    y[:n_classes] = np.arange(n_classes)
    if kind == "multilabel":
        return (np.eye(n_classes, dtype=int)[y]), P
    return y, P


def grid_of(kind, n_classes=4, names=None, rare=(), **params):
    y, P = rows_of(kind, n_classes, rare=rare)
    if names is not None:
        params["labels"] = names[:n_classes]
        y = y if kind == "multilabel" else np.array(names)[y]
    params = {"max_classes": n_classes, "n_resamples": 3, **params}
    return ReliabilityDisplay.from_predictions(y, P, kind=kind, **params)


def figure_of(size, **params):
    return None if size is None else Figure(figsize=size, **params)


# What is around the panels ----------------------------------------------------------------------


@pytest.mark.parametrize(("style", "kind", "size"), partly_slow(STYLES, KINDS, SIZES, quick=2))
def test_texts_are_inside_apart_and_large_enough(style, kind, size):
    grid = grid_of(kind, names=NAMES, style=style, figure=figure_of(size), name="$a$ model")
    texts = texts_of(grid.figure_)
    for text in texts:
        assert text.get_fontsize() >= 7
        assert inside(text.get_window_extent(), grid.figure_.bbox)
    for one, other in itertools.combinations([t.get_window_extent() for t in texts], 2):
        across = min(one.x1, other.x1) - max(one.x0, other.x0)
        along = min(one.y1, other.y1) - max(one.y0, other.y0)
        assert across < 1 or along < 2
    legend = grid.legend_.get_window_extent()
    assert inside(legend, grid.figure_.bbox)
    for ax in grid.axes_:
        assert ax.get_legend() is None
        assert legend.y0 >= ax.get_window_extent().y1
        assert legend.y0 >= ax.title.get_window_extent().y1 - 1


@pytest.mark.slow
def test_names_are_as_written():
    grid = grid_of("classwise", names=NAMES, name="$m$ _ <i>", classes=NAMES)
    written = [ax.title.get_text().replace("\n", " ") for ax in grid.axes_]
    assert all(text.startswith(f"{name}: ") for text, name in zip(written, NAMES, strict=True))
    assert grid.legend_.get_title().get_text() == "$m$ _ <i>"
    assert not any(ax.title.get_parse_math() for ax in grid.axes_)
    assert not grid.legend_.get_title().get_parse_math()


@pytest.mark.slow
@every_style_and_kind
def test_legend_has_each_entry_once_and_no_class(style, kind):
    grid = grid_of(kind, n_classes=6, style=style)
    texts = [text.get_text() for text in grid.legend_.get_texts()]
    assert len(texts) == len(set(texts))
    assert {"Observed frequency", "Perfect"} < set(texts)
    most = max(d.curve.n_samples.max() for d in grid.displays_)
    assert texts[-2:] == ["Perfect", f"Rows (up to {most:,.0f})"]
    assert not any("ECE" in text or "loss" in text for text in texts)
    if style == "bars":
        gaps = np.concatenate([display.curve.gap for display in grid.displays_])
        assert ("Over-estimated" in texts) == bool(np.any(gaps > 0))
        assert ("Under-estimated" in texts) == bool(np.any(gaps < 0))


@pytest.mark.parametrize(("size", "n"), [((3.3, 3.3), 4), *slow(((3.3, 4.2), 6), ((9, 1.5), 6))])
def test_small_figures_have_fewer_classes_and_say_how_many(size, n):
    params = {"n_classes": 10, "max_classes": 9, "confidence_level": None}
    grid = grid_of("classwise", figure=Figure(size), name="m", **params)
    assert len(grid.displays_) == n
    said = f"m: {n} of 10 classes, the largest ECE first"
    assert grid.legend_.get_title().get_text() == said
    assert f"<ReliabilityGridDisplay of m: {n} of 10 classes>" == repr(grid)
    assert min(min(ax.bbox.size) for ax in grid.axes_) > 0.4 * grid.figure_.dpi
    # Classes that are asked for are drawn.
    grid = grid_of("classwise", figure=Figure(size), classes=np.arange(9), **params)
    assert len(grid.displays_) == 9
    assert not grid.legend_.get_title().get_text()
    assert grid_of("classwise", figure=Figure(size), legend=False, **params).legend_ is None


def test_legend_has_gaps_of_any_panel():
    """The first class is only over-confident, the second only under-confident."""
    P = np.tile([0.8, 0.2], (100, 1))
    y = np.arange(100) % 2
    grid = ReliabilityDisplay.from_predictions(y, P, kind="classwise", strategy="uniform")
    assert all(len(set(np.sign(d.curve.gap))) == 1 for d in grid.displays_)
    texts = [text.get_text() for text in grid.legend_.get_texts()]
    assert {"Over-estimated", "Under-estimated"} < set(texts)


# Panels -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_columns", "layout"), partly_slow([None, 1, 3, 7], [None, "constrained"], quick=1)
)
def test_panels_are_equal_and_apart(n_columns, layout):
    figure = Figure(figsize=(9, 9), layout=layout)
    grid = grid_of("classwise", n_classes=7, n_columns=n_columns, figure=figure)
    figure.draw_without_rendering()
    boxes = [ax.get_window_extent() for ax in grid.axes_]
    assert len({round(box.x0) for box in boxes}) == (n_columns or 3)
    np.testing.assert_allclose([box.size for box in boxes], [boxes[0].size] * 7, atol=0.01)
    for one, other in itertools.combinations(boxes, 2):
        assert one.x1 < other.x0 or other.y1 < one.y0 or other.x1 < one.x0
    assert boxes[0].y1 - boxes[0].y0 == pytest.approx(boxes[0].x1 - boxes[0].x0)


@pytest.mark.slow
@every_kind
def test_half_of_a_figure_is_filled(kind):
    figure = Figure(figsize=(9, 5))
    left, right = figure.subfigures(1, 2)
    grid = grid_of(kind, figure=right)
    figure.draw_without_rendering()
    for ax in grid.axes_:
        assert inside(ax.get_window_extent(), right.bbox)
    assert inside(grid.legend_.get_window_extent(), right.bbox)
    assert grid.figure_ is right
    assert not left.axes
    assert not plt.get_fignums()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("style", "kind"),
    [
        ("bars", "classwise"),
        ("dots", "multilabel"),
        ("corp", "classwise"),
        ("smooth", "multilabel"),
    ],
)
def test_many_panels_have_ticks_at_the_borders_only(style, kind):
    grid = grid_of(kind, n_classes=MANY + 2, style=style, n_bins=5, strategy="uniform")
    whole = texts_of(grid.figure_)
    assert len(whole) <= len(grid.axes_) + 6 * 12 + 10
    inner = grid.axes_[8]
    assert not inner.xaxis.get_visible()
    assert not inner.yaxis.get_visible()
    assert min(ax.get_window_extent().width for ax in grid.axes_) > grid.figure_.dpi


@pytest.mark.slow
@every_style
def test_histograms_have_one_scale(style):
    grid = grid_of("classwise", style=style, rare=[2])
    assert any(display.zoomed for display in grid.displays_)
    found = [rows_in_histogram(display) for display in grid.displays_]
    most = max(n.max() for n in found)
    for display, n in zip(grid.displays_, found, strict=True):
        assert display.counts_ax_ is display.ax_
        drawn = np.nan_to_num(display.counts_.get_data().values)
        bottom, top = 1.04, 1.22
        heights = (drawn - bottom) / (top - bottom)
        np.testing.assert_allclose(heights[heights > 0], n[n > 0] / most)


def rows_in_histogram(display):
    """Those of the bins, and on zoomed axes of bins of equal width: quantile bins are all alike."""
    n = display.curve.n_samples
    if not display.zoomed:
        return n
    return np.histogram(display.rows.score, len(n), display.ax_.get_xlim())[0]


@pytest.mark.slow
@pytest.mark.parametrize("first", [True, False])
def test_a_title_of_the_figure_stands_above_the_legend_and_the_panels(first):
    figure = Figure((5, 6))
    if first:
        figure.suptitle("Before")
    y, P = rows_of("classwise", 4)
    grid = ReliabilityDisplay.from_predictions(y, P, kind="classwise", figure=figure)
    figure.draw_without_rendering()
    tops = [max(ax.get_window_extent().y1 for ax in grid.axes_)]
    title = figure.suptitle("Two\nlines")
    for _ in range(2):
        figure.draw_without_rendering()
        assert grid.legend_.get_window_extent().y1 < title.get_window_extent().y0
        tops.append(max(ax.get_window_extent().y1 for ax in grid.axes_))
        assert tops[-1] < grid.legend_.get_window_extent().y0
    title.set_text("")
    figure.draw_without_rendering()
    assert tops[1] == pytest.approx(tops[2], abs=2)  # layouts approach their end
    assert max(ax.get_window_extent().y1 for ax in grid.axes_) >= tops[0] - 2 > tops[1]


@pytest.mark.slow
def test_grids_can_be_pickled_and_drawn_again():
    grid = pickle.loads(pickle.dumps(grid_of("classwise", figure=Figure())))
    grid.figure_.savefig(BytesIO())
    assert grid.plot(Figure(), style="dots").displays_[0].bars_ is None


# Classes and their bins -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "style", "kind"),
    partly_slow([None, "quantile", "uniform"], STYLES, KINDS, quick=3),
)
def test_classes_in_one_bin_get_quantile_bins_unless_others_are_asked_for(strategy, style, kind):
    y, P = rows_of(kind, 4, rare=[2])
    given = {} if strategy is None else {"strategy": strategy}
    grid = grid_of(kind, rare=[2], style=style, n_bins=6, **given)
    for display in grid.displays_:
        k = int(display.name)
        hit = y[:, k] == 1 if kind == "multilabel" else y == k
        zoomed = strategy is None and k == 2
        params = {"strategy": "quantile" if zoomed else strategy or "uniform"}
        params |= {"n_bins": 6, "kind": "binary"}
        expected = reliability_curve(hit, P[:, k], **params)
        np.testing.assert_array_equal(display.curve.lower, expected.lower)
        np.testing.assert_array_equal(display.curve.accuracy, expected.accuracy)
        error = expected_calibration_error(hit, P[:, k], **params)
        assert display.expected_calibration_error == pytest.approx(error)
        assert ("quantile bins" in display.ax_.get_title().replace("\n", " ")) == zoomed
        assert display.zoomed == zoomed
        assert (display.ax_.get_xlim() != (0, 1)) == zoomed


@pytest.mark.parametrize("kind", ["top-label", "binary"])
def test_other_kinds_have_uniform_bins(kind):
    p = np.linspace(0.01, 0.03, 60)
    p = p if kind == "binary" else np.column_stack([p, 1 - p])
    y = np.arange(60) % 2
    params = {"kind": kind, "ax": Figure().subplots()}
    display = ReliabilityDisplay.from_predictions(y, p, **params)
    assert len(display.curve.n_samples) == 1
    assert not display.zoomed
    assert display.ax_.get_xlim() == (0, 1)


def test_scores_that_are_all_the_same_have_no_other_bins():
    P = np.tile([0.97, 0.03], (40, 1))
    y = np.arange(40) % 2
    grid = ReliabilityDisplay.from_predictions(y, P, kind="classwise")
    assert not any(display.zoomed for display in grid.displays_)


@pytest.mark.parametrize(("style", "level"), partly_slow(STYLES, [0.03, 0.5, 0.97], quick=2))
def test_zoomed_axes_show_scores_and_frequencies(style, level):
    rng = np.random.default_rng(0)
    p = level + rng.uniform(-0.01, 0.01, size=2000)
    y = rng.uniform(size=2000) < p
    params = {"kind": "multilabel", "n_bins": 5, "style": style, "n_resamples": 3}
    grid = ReliabilityDisplay.from_predictions(y[:, None].astype(int), p[:, None], **params)
    (display,) = grid.displays_
    assert display.zoomed
    low, high = display.ax_.get_xlim()
    assert display.ax_.get_ylim()[0] == low
    for shown in (p, display.curve.accuracy):
        assert low <= shown.min() <= shown.max() <= high
    assert high - low < 4 * max(np.ptp(p), np.ptp(np.append(display.curve.accuracy, level)))
    ticks = [t for t in display.ax_.get_xticks() if low <= t <= high]
    assert len(ticks) >= 2
    labels = [float(label.get_text()) for label in display.ax_.get_xticklabels()]
    np.testing.assert_allclose(labels, display.ax_.get_xticks())
    alone = display.ax_
    display.plot(style=style, n_resamples=3)
    assert display.ax_ is not alone
    assert display.ax_.get_xlim() == (low, high)
    assert sum(low <= tick <= high for tick in display.ax_.get_xticks()) >= 2
    if style == "bars":
        for bar in [*display.bars_, *display.gaps_]:
            assert low <= bar.get_x() < bar.get_x() + bar.get_width() <= high + 1e-12
        segments = display.intervals_.lines[2][0].get_segments()
        assert all(low < x < high for segment in segments for x in segment[:, 0])


@pytest.mark.slow
def test_panels_with_other_limits_have_labels():
    """So have those above them, and at their right, which have none beside them to share."""
    grid = grid_of(
        "classwise", n_classes=9, rare=[1, 5, 7], classes=range(9), figure=Figure((9, 9))
    )
    own = {1, 5, 7}
    assert {k for k, display in enumerate(grid.displays_) if display.zoomed} == own
    assert {k for k, ax in enumerate(grid.axes_) if len(ax.get_yticklabels())} == own | {0, 3, 6}
    assert {k for k, ax in enumerate(grid.axes_) if len(ax.get_xticklabels())} == own | {4, 6, 8}


def test_displays_can_be_put_together():
    y, P = rows_of("classwise")
    curves = [reliability_curve(y == k, P[:, k], kind="binary") for k in range(3)]
    displays = [
        ReliabilityDisplay(curve, kind="binary", name=f"m{k}") for k, curve in enumerate(curves)
    ]
    grid = ReliabilityGridDisplay(displays).plot(Figure())
    titles = [f"{d.name}: ECE {d.expected_calibration_error:.3f}" for d in displays]
    assert [ax.get_title() for ax in grid.axes_] == titles
