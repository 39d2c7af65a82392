"""Laws of the pictures with a legend above: sweeps, histograms of confidence, score planes."""

import io
import itertools
import pickle
import warnings
from functools import partial

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from drawing import pairs, texts_of
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from scipy.special import softmax

from skcalib import ConfidenceDisplay, TemperatureScaling, TemperatureSweepDisplay, VectorScaling
from skcalib._output.theme import Theme, contrast
from skcalib.clinical import NetBenefitDisplay
from skcalib.datasets import make_logits
from skcalib.decision import RiskCoverageDisplay
from skcalib.display import ScoreDecompositionDisplay
from skcalib.display._layout import Below

pytestmark = pytest.mark.slow

STYLES = ["default", "dark_background", "ggplot", "grayscale"]
LONG = "_a calibrator of $forty$ letters, or so_"
assert len(LONG) == 40

Z, Y = make_logits(600, 3, temperature=2.5, offset=[0, 1, 0], random_state=0)
FITTED = VectorScaling().fit(Z, Y)
COLDER = TemperatureScaling().fit(Z, Y)
PROBABILITIES = [softmax(Z, axis=1), FITTED.predict_proba(Z), COLDER.predict_proba(Z)]


def sweep_on_two(figure, name):
    return TemperatureSweepDisplay.from_estimator(FITTED, Z, Y, name=name, ax=figure.subplots(2))


def sweep_on_one(figure, name):
    return TemperatureSweepDisplay.from_estimator(FITTED, Z, Y, name=name, ax=figure.subplots())


def histogram(figure, name):
    return ConfidenceDisplay.from_predictions(Y, PROBABILITIES[0], name=name, ax=figure.subplots())


def plane(figure, name):
    names = [name, f"{name} 2", f"{name} 3"]
    probabilities = dict(zip(names, PROBABILITIES, strict=True))
    return ScoreDecompositionDisplay.from_predictions(
        Y, probabilities, ax=figure.subplots(), arrows=[(names[0], names[1])]
    )


def risk(figure, name):
    ax = figure.subplots()
    for number, P in enumerate(PROBABILITIES):
        display = RiskCoverageDisplay.from_predictions(
            Y, P, name=f"{name} {number}" if number else name, ax=ax, n_resamples=9
        )
    return display


def benefit(figure, name):
    ax = figure.subplots()
    for number, P in enumerate(PROBABILITIES[:2]):
        display = NetBenefitDisplay.from_predictions(
            Y == 0, P[:, 0], name=f"{name} {number}" if number else name, ax=ax, n_resamples=9
        )
    return display


PANELS = {f.__name__: f for f in (sweep_on_two, sweep_on_one, histogram, plane, risk, benefit)}
every_panel = pytest.mark.parametrize("draw", PANELS.values(), ids=PANELS)
every_style = pytest.mark.parametrize("style", STYLES)


def lines(display):
    """What the picture says in lines and markers."""
    found = [line for ax in {id(a): a for a in axes(display)}.values() for line in ax.lines]
    assert found
    return found


def axes(display):
    return getattr(display, "axes_", [display.ax_])


def backgrounds(ax):
    """Of axes, and of what is beside them."""
    return Theme.of(ax).background, Theme.around(ax).background


# Colours ----------------------------------------------------------------------------------------


@every_panel
def test_colours_follow_axes_that_are_painted(draw):
    figure = Figure(figsize=(5, 5))
    figure.subplots = partial(figure.subplots, subplot_kw={"facecolor": "black"})
    display = draw(figure, "name")
    assert all(contrast(line.get_color(), "black") >= 3 for line in lines(display))
    assert all(contrast(t.get_color(), "black") >= 3 for t in display.ax_.get_legend().get_texts())
    assert all(contrast(ax.yaxis.label.get_color(), "white") >= 3 for ax in axes(display))


@pytest.mark.parametrize("style", ["default", "dark_background", "ggplot"])
def test_curves_have_the_first_colours_of_the_style(style):
    with plt.style.context(style):
        for draw in (sweep_on_one, sweep_on_two):
            display = draw(Figure(), "name")
            models = Theme.of(display.ax_).models
            drawn = [display.log_loss_line_, display.ece_line_, display.reference_line_]
            assert [line.get_color() for line in drawn] == list(models[:3])
        display = plane(Figure(), "name")
        assert [p.get_color() for p in display.points_.values()] == list(models[:3])
        (_, *bars), (edge, *_) = histogram(Figure(), "a").bars_, [models[0]]
        assert {to_rgb(bar.get_edgecolor()) for bar in bars} == {edge}


@every_panel
def test_a_style_of_one_colour(draw):
    with mpl.rc_context({"axes.prop_cycle": mpl.cycler(color=["#0000aa"])}):
        display = draw(Figure(), "name")
    assert lines(display)


@every_panel
def test_lines_differ_without_their_colours(draw):
    display = draw(Figure(figsize=(5, 5)), "name")
    looks = [
        (str(line._unscaled_dash_pattern), line.get_marker(), line.get_linewidth())
        for line in display.ax_.get_legend().get_lines()
    ]
    assert len(looks) == len(set(looks)) >= 2


@every_style
def test_lines_that_coincide_are_both_seen(style):
    """A wide one that is not interrupted below a narrower one with gaps."""
    with plt.style.context(style):
        sweep, shares = sweep_on_one(Figure(), "a"), histogram(Figure(), "a")
        for below, above in (
            (sweep.start_lines_[0], sweep.best_lines_[0]),
            (shares.accuracy_line_, shares.confidence_line_),
        ):
            order = [*below.axes.lines]
            assert (below.get_zorder(), order.index(below)) < (
                above.get_zorder(),
                order.index(above),
            )
            assert below.get_linestyle() == "-"
            assert above.get_linestyle() == "--"
            assert below.get_linewidth() > 1.5 * above.get_linewidth()
        background = Theme.of(sweep.ax_).background
        assert contrast(sweep.start_lines_[0].get_color(), background) < contrast(
            sweep.best_lines_[0].get_color(), background
        )
        (outline,) = shares.confidence_line_.get_path_effects()
        assert outline._gc["foreground"] == Theme.of(shares.ax_).background


# Where things are -------------------------------------------------------------------------------

LAYOUTS = ["none", "constrained", "tight"]


def covers(box, other):
    return box.x0 < other.x1 and other.x0 < box.x1 and box.y0 < other.y1 - 1 and other.y0 < box.y1


def extents(display):
    """Boxes of the axes, to which all curves are clipped."""
    return [ax.get_window_extent() for ax in axes(display)]


@pytest.mark.parametrize(
    ("draw", "layout", "size", "style"),
    pairs(PANELS.values(), LAYOUTS, [(3, 3), (5, 6), (10, 8)], STYLES),
)
def test_legends_cover_nothing(draw, size, layout, style):
    with plt.style.context(style):
        figure = Figure(figsize=size, layout=layout)
        display = draw(figure, LONG)
        display.ax_.set_title("Title")
        figure.draw_without_rendering()
        legend = display.ax_.get_legend().get_window_extent()
        title = display.ax_.title.get_window_extent()
        for box in (*extents(display), title):
            assert not covers(legend, box)
        assert title.y0 >= legend.y1 - 1
        assert title.y0 - legend.y1 < 0.15 * figure.dpi  # it stands right above
        assert 0 <= legend.y0 - display.ax_.get_window_extent().y1 < 0.1 * figure.dpi
        assert all(ax.get_window_extent().height > 0.15 * figure.dpi for ax in axes(display))
        if layout == "none":
            place = display.ax_.get_position(original=True).transformed(figure.transFigure)
            assert legend.y1 <= place.y1 + 1
            assert display.ax_.get_window_extent().y0 == pytest.approx(place.y0)


def test_panels_are_equally_high_where_the_layout_makes_room():
    figure = Figure(figsize=(5, 6), layout="constrained")
    display = sweep_on_two(figure, LONG)
    figure.draw_without_rendering()
    upper, lower = (box.height for box in extents(display))
    assert upper == pytest.approx(lower, abs=1)


@pytest.mark.parametrize("first", [True, False])
@every_panel
def test_titles_stand_above_the_legend_whenever_they_are_set(draw, first):
    figure = Figure(figsize=(5, 5))
    if first:
        made = figure.subplots

        def titled(*args):
            grid = made(*args)
            np.ravel(grid)[0].set_title("Title", loc="left")
            return grid

        figure.subplots = titled
    display = draw(figure, "name")
    if not first:
        display.ax_.set_title("Title", loc="left")
    figure.draw_without_rendering()
    title, legend = display.ax_._left_title, display.ax_.get_legend()
    assert title.get_text() == "Title"
    assert title.get_window_extent().y0 >= legend.get_window_extent().y1


@every_panel
def test_texts_lie_inside_in_the_file_as_well(draw):
    """While a figure is saved it has no layout engine."""
    figure = Figure(figsize=(5, 5), layout="constrained")
    display = draw(figure, "name")
    figure.draw_without_rendering()
    before = [ax.get_window_extent().bounds for ax in axes(display)]
    for params in ({}, {"bbox_inches": "tight"}):
        figure.savefig(io.BytesIO(), dpi=figure.dpi, **params)
        after = [ax.get_window_extent().bounds for ax in axes(display)]
        np.testing.assert_allclose(after, before, atol=1)


@pytest.mark.parametrize("name", [LONG, "$x_1$", "_hidden", r"costs $\frac$"])
@every_panel
def test_names_are_as_written(draw, name):
    figure = Figure(figsize=(5, 5), layout="constrained")
    draw(figure, name)
    said = [text for text in texts_of(figure) if name in " ".join(text.get_text().split())]
    assert len(said) == {plane: 3, risk: 3, benefit: 2}.get(draw, 1)
    assert not any(text.get_parse_math() for text in said)


@every_panel
def test_pictures_can_be_drawn_again_cleared_and_pickled(draw):
    figure = Figure(figsize=(5, 5))
    display = draw(figure, "name")
    figure.draw_without_rendering()
    box = display.ax_.get_window_extent().bounds
    display.plot(axes(display) if draw is sweep_on_two else display.ax_)
    figure.draw_without_rendering()
    assert len([x for x in display.ax_.child_axes if not x.get_visible()]) == 1
    assert not isinstance(display.ax_.get_axes_locator().before, Below)
    np.testing.assert_allclose(display.ax_.get_window_extent().bounds[:2], box[:2])
    copy = pickle.loads(pickle.dumps(figure))
    copy.draw_without_rendering()
    np.testing.assert_allclose(
        copy.axes[0].get_window_extent().bounds, display.ax_.get_window_extent().bounds
    )
    ax, place = display.ax_, display.ax_.get_position(original=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of old versions, for logarithmic axes with a twin
        ax.clear()
    figure.draw_without_rendering()
    np.testing.assert_allclose(ax.get_position().bounds, place.bounds)


def test_legends_find_room_in_axes_inside_of_others():
    figure = Figure(figsize=(6, 6), layout="constrained")
    inner = figure.subplots().inset_axes((0.2, 0.3, 0.6, 0.5))
    display = ConfidenceDisplay.from_predictions(Y, PROBABILITIES[0], ax=inner)
    figure.draw_without_rendering()
    whole = figure.axes[0].get_window_extent()
    assert inner.get_window_extent().y0 == pytest.approx(whole.y0 + 0.3 * whole.height)
    legend = display.ax_.get_legend().get_window_extent()
    assert legend.y1 == pytest.approx(whole.y0 + 0.8 * whole.height, abs=1)
    assert legend.y0 >= inner.get_window_extent().y1


def test_legends_find_room_in_axes_without_a_grid():
    figure = Figure(figsize=(5, 5))
    ax = figure.add_axes((0.1, 0.1, 0.8, 0.8))
    display = TemperatureSweepDisplay.from_logits(Z, Y, ax=ax)
    figure.draw_without_rendering()
    one, other = (axes.get_window_extent() for axes in display.axes_)
    np.testing.assert_allclose(one.bounds, other.bounds)
    legend = ax.get_legend().get_window_extent()
    assert one.y1 <= legend.y0
    assert legend.y1 == pytest.approx(0.9 * figure.bbox.height, abs=1)


# Sweeps -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("draw", [sweep_on_one, sweep_on_two])
def test_markers_are_at_the_lowest_points(draw):
    display = draw(Figure(), "a")
    for line, values in (
        (display.log_loss_line_, display.log_loss),
        (display.ece_line_, display.expected_calibration_error),
    ):
        (k,) = line.get_markevery()
        assert values[k] == values.min()
        assert line.get_marker() in {"o", "D"}
    assert display.log_loss_line_.get_marker() != display.ece_line_.get_marker()


def test_axis_of_the_losses_is_not_stretched():
    display = sweep_on_one(Figure(), "a")
    low, high = display.ax_.get_ylim()
    shown = np.append(display.log_loss, display.reference)
    assert np.ptp(shown) / (high - low) > 0.9


@pytest.mark.parametrize("temperatures", [[5, 6], [0.1, 0.2], [1, 2]])
def test_vertical_lines_are_inside_of_the_axes(temperatures):
    display = TemperatureSweepDisplay.from_logits(
        Z, Y, temperatures=temperatures, ax=Figure().subplots(2)
    )
    low, high = display.ax_.get_xlim()
    for line in (*display.start_lines_, *display.best_lines_):
        assert low < 0.95 * line.get_xdata()[0]
        assert high > 1.05 * line.get_xdata()[0]


@pytest.mark.parametrize("width", [3, 5, 12])
def test_temperatures_on_the_axis_lie_beside_each_other(width):
    figure = Figure(figsize=(width, 4), layout="constrained")
    display = TemperatureSweepDisplay.from_logits(Z, Y, ax=figure.subplots())
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in display.ax_.get_xticklabels()]
    assert all(a.x1 < b.x0 for a, b in itertools.pairwise(boxes))
    names = [label.get_text() for label in display.ax_.get_xticklabels()]
    assert "1" in names
    assert all(float(name) > 0 for name in names)


# Histograms of confidence -----------------------------------------------------------------------


def test_shares_end_at_one():
    p = np.full(20, 0.97)
    display = ConfidenceDisplay.from_predictions(
        np.arange(20) < 15, p, labels=[False, True], ax=Figure().subplots()
    )
    assert [bar.get_height() for bar in display.bars_] == [1]
    assert display.ax_.get_ylim() == (0, 1)


def test_histograms_with_one_axis_show_all_bars():
    left, right = Figure().subplots(1, 2, sharey=True)
    flat = np.linspace(0.34, 1, 600)
    spread = np.stack([flat, (1 - flat) / 2, (1 - flat) / 2], axis=1)
    one = ConfidenceDisplay.from_predictions(Y, PROBABILITIES[0], ax=left)
    other = ConfidenceDisplay.from_predictions(Y, spread, ax=right)
    highest = max(bar.get_height() for bar in (*one.bars_, *other.bars_))
    assert left.get_ylim() == right.get_ylim() == pytest.approx((0, min(1, 1.05 * highest)))
