"""Laws of all pictures: texts and lines are seen, and small figures hold them."""

import itertools
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pytest
from drawing import inside, partly_slow, slow, texts_of
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from test_grid import grid_of
from test_panels import LONG, PANELS
from test_reliability_looks import diagram_rows, drawn

from skcalib._output.theme import SMALLEST, Theme, contrast

SHEETS = ["default", "dark_background", "ggplot", "grayscale", "seaborn-v0_8-whitegrid"]


def diagram(style, scale, kind, figure, name=None, n_models=6):
    params = {"scale": scale, "kind": kind, "name": name}
    return drawn(diagram_rows(), figure.subplots(), style, n_models, **params)


def grid(style, figure, name=None):
    return grid_of("classwise", style=style, figure=figure, name=name).displays_


def panel(draw, figure, name="name"):
    return [draw(figure, name)]


DIAGRAMS = {
    "bars": partial(diagram, "bars", "linear", "top-label"),
    "dots": partial(diagram, "dots", "logit", "binary"),
    "corp": partial(diagram, "corp", "linear", "binary"),
    "linear dots": partial(diagram, "dots", "linear", "top-label"),
    "logit corp": partial(diagram, "corp", "logit", "top-label"),
    "bars of an event": partial(diagram, "bars", "linear", "binary"),
}
GRIDS = {f"grid of {style}": partial(grid, style) for style in ("dots", "bars", "corp", "smooth")}
SINGLE = DIAGRAMS | {name: partial(panel, draw) for name, draw in PANELS.items()}
PICTURES = GRIDS | SINGLE


def background(artist, figure):
    """Of the axes that it lies in, or whose legend it is in, or of the figure."""
    legends = [ax for ax in figure.axes if ax.get_legend() and artist in ax.get_legend().findobj()]
    box = artist.get_window_extent()
    around = [ax for ax in figure.axes if inside(box, ax.get_window_extent(), by=0.5)]
    around = legends or around
    return Theme.of(around[0]).background if around else figure.get_facecolor()


# All pictures in the first two styles, and each in one of the others.
STYLED = partly_slow([*PICTURES], SHEETS[:2], quick=2)
STYLED += slow(*zip(PICTURES, itertools.cycle(SHEETS[2:]), strict=False))


@pytest.mark.parametrize(("name", "sheet"), STYLED)
def test_texts_and_lines_are_seen_on_their_background(name, sheet):
    with plt.style.context(sheet):
        figure = Figure(figsize=(5, 6))
        displays = PICTURES[name](figure)
        for text in texts_of(figure):
            assert contrast(to_rgb(text.get_color()), background(text, figure)) >= 3, text
    for ax in figure.axes:
        behind, legend = Theme.of(ax).background, ax.get_legend()
        for line in [*ax.lines, *(legend.findobj(Line2D) if legend else [])]:
            assert contrast(line.get_color(), behind) >= 3
            if line.get_marker() not in {"None", None}:
                assert contrast(line.get_markeredgecolor(), behind) >= 3
        if name in PANELS and legend:
            assert to_rgb(legend.get_frame().get_facecolor()) == pytest.approx(behind)
            assert legend.get_frame().get_alpha() == 1
    for display in displays if name in DIAGRAMS else []:
        bars, counts = display.intervals_, display.counts_
        colours = [bars.lines[2][0].get_edgecolor()[0]] if bars is not None else []
        dots = [artist for artist in (display.dots_, display.joins_) if artist is not None]
        colours += [artist.get_edgecolor()[0] for artist in dots]
        colours += [counts[0].get_facecolor() if display.bars_ else counts.get_edgecolor()]
        for colour in colours:  # without their opacity
            assert contrast(colour[:3], Theme.of(display.ax_).background) >= 3


# Of panels only layouts make room for the labels beside both of their axes.
SMALL = list(itertools.product(SINGLE, ["default", "ggplot"], ["constrained"]))
SMALL += itertools.product(DIAGRAMS, SHEETS[:1], [None])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sheet", "layout"), SMALL)
def test_small_figures_hold_all_texts(name, sheet, layout):
    with plt.style.context(sheet):
        figure = Figure(figsize=(3, 3), layout=layout)
        SINGLE[name](figure, LONG, **({"n_models": 2} if name in DIAGRAMS else {}))
        for text in texts_of(figure):
            assert text.get_fontsize() >= SMALLEST, text
            assert inside(text.get_window_extent(), figure.bbox), text
    for ax, side in itertools.product(figure.axes, (0, 1)):
        axis = (ax.xaxis, ax.yaxis)[side]
        labels = [x for t in axis._update_ticks() for x in (t.label1, t.label2) if x.get_visible()]
        labels = [label for label in labels if label.get_text()]
        assert len(labels) >= 2 * (name in DIAGRAMS)
        ends = [label.get_window_extent().get_points()[:, side] for label in labels]
        assert np.all(np.diff(np.ravel(ends)) > 0)
