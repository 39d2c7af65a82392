"""The law of room: in figures of papers no text is clipped, and no legend stands over data.

For every display, alone, beside itself and above itself, with a layout engine and without one.
"""

import itertools
import re
from functools import cache, partial

import matplotlib as mpl
import numpy as np
import pytest
from drawing import inside, partly_slow, slow, texts_of
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy.special import expit, softmax

import skcalib.display
from skcalib import (
    ConfidenceDisplay,
    ReliabilityDisplay,
    TemperatureScaling,
    TemperatureSweepDisplay,
)
from skcalib.clinical import NetBenefitDisplay
from skcalib.comparison import CalibratorComparison
from skcalib.conditional import SegmentDisplay
from skcalib.datasets import make_logits
from skcalib.decision import RiskCoverageDisplay
from skcalib.display import ScoreDecompositionDisplay

# The settings of a paper, and figures of a column and of a page, with panels in rows or columns.
PAPER = {
    "font.size": 8, "axes.titlesize": 8, "axes.labelsize": 8, "xtick.labelsize": 7,
    "ytick.labelsize": 7, "legend.fontsize": 7,
}  # fmt: skip
SHAPES = {"column": ((3.3, 3), (1, 1)), "beside": ((6.8, 3), (1, 2)), "above": ((3.4, 6.4), (2, 1))}
ENGINES = ["constrained", "tight", None]

Z, Y = make_logits(900, 4, temperature=2.5, offset=[0, 1, 0, 0], random_state=0)
BEFORE, AFTER = softmax(Z, axis=1), TemperatureScaling().fit(Z, Y).predict_proba(Z)
MODELS = {"Network": BEFORE, "Temperature scaling": AFTER}


def several(draw, ax, **params):
    """The display of the last of the models."""
    return [draw(P, name=name, ax=ax, **params) for name, P in MODELS.items()][-1]


def diagram(style, ax, **params):
    make = partial(ReliabilityDisplay.from_predictions, Y, style=style, n_resamples=9, **params)
    return make(BEFORE, ax=ax, name="Network") if style == "bars" else several(make, ax)


def logit(ax, **params):
    look = {"kind": "binary", "style": "dots", "scale": "logit", "strategy": "quantile"}
    make = partial(ReliabilityDisplay.from_predictions, Y == 2, **look)
    return several(lambda P, **named: make(P[:, 2], **named), ax, **params)


def benefit(ax, **params):
    make = partial(NetBenefitDisplay.from_predictions, Y == 1, n_resamples=9)
    return several(lambda P, **named: make(P[:, 1], **named), ax, **params)


def segments(ax):
    rng = np.random.default_rng(0)
    subject = rng.choice(["history of art", "law", "music and dance"], size=len(Y))
    make = partial(SegmentDisplay.from_predictions, Y == 1, BEFORE[:, 1], n_resamples=9)
    return make(subject, name="Network", ax=ax)


def comparison(ax):
    names = ["EnsembleTemperatureScaling", "PlattScaling", "uncalibrated"]
    scores = {"log loss": expit(np.random.default_rng(0).normal(size=(3, 5)))}
    return CalibratorComparison(names, scores, np.ones((3, 5))).plot(ax)


LEGENDS = {
    **{style: partial(diagram, style) for style in ("bars", "dots", "corp", "smooth")},
    "logit": logit,
    "confidence": partial(ConfidenceDisplay.from_predictions, Y, BEFORE, name="Network"),
    "sweep": partial(TemperatureSweepDisplay.from_logits, Z, Y),
    "plane": partial(ScoreDecompositionDisplay.from_predictions, Y, MODELS, arrows=[tuple(MODELS)]),
    "risk": partial(several, partial(RiskCoverageDisplay.from_predictions, Y, n_resamples=9)),
    "benefit": benefit,
}
FAMILY = {
    **LEGENDS,
    "confidence bands": partial(diagram, "smooth", band="confidence"),
    "legend outside": partial(diagram, "dots", legend="outside", counts=False),
    "segments": segments,
    "comparison": comparison,
}


@cache
def drawn(name, shape, engine):
    """A figure with a panel in each of its places, and the axes of each panel."""
    size, grid = SHAPES[shape]
    with mpl.rc_context(PAPER):
        figure = Figure(figsize=size, layout=engine)
        FigureCanvasAgg(figure)
        places = np.ravel(figure.subplots(*grid))
        found = [FAMILY[name](ax=ax) for ax in places]
        figure.draw_without_rendering()
    twins = [[ax for ax in figure.axes if ax.bbox.bounds == place.bbox.bounds] for place in places]
    return figure, found, twins


def covered(one, other, by=1.0):
    return (
        min(one.x1, other.x1) - max(one.x0, other.x0) > by
        and min(one.y1, other.y1) - max(one.y0, other.y0) > by
    )


CASES = partly_slow([*FAMILY], [*SHAPES], ENGINES, quick=2)


@pytest.mark.slow
def test_the_family_has_every_display():
    kinds = {type(draw(ax=Figure().subplots())) for draw in FAMILY.values()}
    singles = {*skcalib.display.__all__} - {"ReliabilityGridDisplay"}  # in test_grid
    assert {kind.__name__ for kind in kinds} >= singles


@pytest.mark.parametrize(("name", "shape", "engine"), CASES)
def test_texts_and_legends_have_room(name, shape, engine):
    figure, found, panels = drawn(name, shape, engine)
    check_texts_lie_in_the_figure_and_not_over_neighbours(figure, panels)
    check_legends_stand_over_nothing(figure, found, panels)


def check_texts_lie_in_the_figure_and_not_over_neighbours(figure, panels):
    boxes = [(text, text.get_window_extent()) for text in texts_of(figure)]
    for text, box in boxes:
        assert inside(box, figure.bbox), text
        assert text.get_fontsize() <= PAPER["font.size"], text
    for panel, others in itertools.permutations(panels, 2):
        own = {id(text) for ax in panel for text in ax.findobj(mpl.text.Text)}
        for text, box in boxes:
            if id(text) in own:
                assert not any(covered(box, ax.get_window_extent()) for ax in others), text
    for (one, box), (other, another) in itertools.combinations(boxes, 2):
        assert not covered(box, another), (one, other)


def check_legends_stand_over_nothing(figure, found, panels):
    """Outside of all axes, or where the same picture without it has nothing but its background."""
    within = []
    for ax in (ax for panel in panels for ax in panel if ax.get_legend()):
        legend, around = ax.get_legend(), [ax, *(c for c in ax.child_axes if c.get_visible())]
        box = legend.get_window_extent()
        assert inside(box, figure.bbox)
        if inside(box, ax.get_window_extent()):
            within.append((legend, box, ax))
        else:
            assert not any(covered(box, other.get_window_extent()) for other in around)
    hidden = [legend for legend, *_ in within]
    hidden += [display.diagonal_ for display in found if hasattr(display, "diagonal_")]
    for artist in hidden:
        artist.set_visible(False)
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())[::-1]
    for artist in hidden:
        artist.set_visible(True)
    for _, box, ax in within:
        rows, columns = (slice(int(a) + 1, int(b)) for a, b in (box.intervaly, box.intervalx))
        ground = np.rint(255 * np.array(mpl.colors.to_rgba(ax.get_facecolor())))
        assert np.all(pixels[rows, columns] == ground), ax.get_legend()


@pytest.mark.parametrize("name", ["bars", "risk", *slow(*((name,) for name in LEGENDS))])
def test_legends_are_left_out_or_stand_where_they_should(name):
    for legend in (False, "outside", "lower right"):
        figure = Figure(figsize=(6, 6), layout="constrained")
        ax = LEGENDS[name](ax=figure.subplots(), legend=legend).ax_
        figure.draw_without_rendering()
        if not legend:
            assert ax.get_legend() is None
            continue
        found, box = ax.get_legend().get_window_extent(), ax.get_window_extent()
        if legend == "outside":
            assert found.y0 >= box.y1 - 1
        else:
            assert inside(found, box)
            assert (found.x1 > box.x1 - 10) & (found.y0 < box.y0 + 10)


@pytest.mark.parametrize("name", ["bars", *slow(*((name,) for name in LEGENDS))])
@pytest.mark.parametrize("legend", ["above", None, 1.5])
def test_unknown_places_of_legends_are_refused_before_anything_is_drawn(name, legend):
    ax = Figure().subplots()
    with pytest.raises(ValueError, match="legend must be True, False, 'outside' or"):
        LEGENDS[name](ax=ax, legend=legend)
    assert not ax.lines
    assert not ax.patches


@pytest.mark.parametrize("name", ["bars", "sweep", *slow(*((name,) for name in FAMILY)), "grid"])
def test_displays_are_printed_as_what_they_show(name):
    draw = FAMILY.get(name, partial(diagram, "bars", kind="classwise"))
    found = repr(draw(ax=None if name == "grid" else Figure().subplots()))
    if name != "comparison":  # whose plot returns the axes
        assert re.fullmatch(r"<[A-Za-z]+Display( of [A-Z][a-z ]+)?: .*\d.*>", found), found
        assert " at 0x" not in found


def test_margins_are_widened_only_where_labels_need_it():
    """In figures without a layout engine, whose margins may be wider."""
    figure = Figure(figsize=(6, 6))
    figure.subplots_adjust(left=0.4, bottom=0.3)
    FAMILY["confidence"](ax=figure.subplots())
    assert (figure.subplotpars.left, figure.subplotpars.bottom) == (0.4, 0.3)
    with mpl.rc_context({"font.size": 30}):
        FAMILY["confidence"](ax=figure.subplots(2, 1)[1])
    assert figure.subplotpars.hspace > 0.3
    for place in ((0.1, 0.1, 0.8, 0.8), None):  # of no grid, or laid out
        figure = Figure(figsize=(2, 2), layout=None if place else "constrained")
        before = vars(figure.subplotpars).copy()
        FAMILY["risk"](ax=figure.add_axes(place) if place else figure.subplots())
        assert vars(figure.subplotpars) == before
