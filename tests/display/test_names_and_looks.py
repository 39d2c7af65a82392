"""Laws of names, colours and properties of lines in all displays."""

import warnings

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.text import Text
from public import LABELS, PROBABILITIES, calls

from skcalib.metrics import ScoreDecompositionDisplay

# Other functions with a parameter ``name``.
NO_DISPLAY = {
    "CalibrationMonitor.measure": "name of a measure",
    "ConfidenceDisplay": "drawn by from_predictions",
    "NetBenefitDisplay": "drawn by from_predictions",
    "ReliabilityDisplay": "drawn by from_predictions",
    "RiskCoverageDisplay": "drawn by from_predictions",
    "SegmentDisplay": "drawn by from_predictions",
    "TemperatureSweepDisplay": "drawn by from_estimator",
}


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def drawn(call, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(**params)


def texts_of(figure):
    labels = [artist.get_label() for artist in figure.findobj()]
    return [text.get_text() for text in figure.findobj(Text)] + [str(label) for label in labels]


@pytest.mark.parametrize("name", [0, np.int64(2), 1.5, "fold 3", "_a", "$x$"])
@pytest.mark.parametrize("call", calls("name", skip=NO_DISPLAY))
def test_names_may_be_numbers(call, name):
    display = drawn(call, name=name)
    assert any(str(name) in text for text in texts_of(display.figure_))


def colours_of(axes):
    colours = set()
    for artist in [a for ax in axes for a in (*ax.lines, *ax.patches, *ax.collections)]:
        for get in ("get_color", "get_facecolor", "get_edgecolor", "get_markeredgecolor"):
            if hasattr(artist, get):
                colours |= {tuple(c[:3]) for c in mpl.colors.to_rgba_array(getattr(artist, get)())}
    return colours


@pytest.mark.parametrize("color", ["tab:red", "#123456", (0.1, 0.5, 0.2)])
@pytest.mark.parametrize("call", calls("color"))
def test_colours_are_drawn(call, color):
    display = drawn(call, color=color)
    assert mpl.colors.to_rgb(color) in colours_of(display.figure_.axes)


SHORT = [
    {"lw": 3.5}, {"ls": ":"}, {"c": "red"}, {"mfc": "red"}, {"ms": 7}, {"aa": False},
    {"alpha": 0.5},
]  # fmt: skip
STYLES = ["dots", "corp", "smooth", "bars"]


@pytest.mark.parametrize("word", SHORT, ids=str)
@pytest.mark.parametrize("call", calls("line_kw"))
def test_short_names_of_properties_are_the_long_ones(call, word):
    (short, value), styles = *word.items(), STYLES if "style" in call.parameters else [None]
    for style in styles:
        if style == "bars" and short in ("c", "mfc", "ms"):
            continue  # bars have no markers
        params = {} if style is None else {"style": style}
        display = drawn(call, line_kw=word, **params)
        lines = display.ax_.patches if style == "bars" else display.ax_.lines
        getter = {"c": "get_color", "aa": "get_antialiased"}.get(short, f"get_{short}")
        assert any(getattr(line, getter)() == value for line in lines)


def test_models_of_a_plane_have_their_colours():
    models = {0: PROBABILITIES, "b": np.full_like(PROBABILITIES, 0.5)}
    for color, expected in (({0: "red"}, ["red", None]), ("blue", ["blue", "blue"])):
        display = drawn(
            ScoreDecompositionDisplay.from_predictions, y_true=LABELS, y_proba=models, color=color
        )
        for point, one in zip(display.points_.values(), expected, strict=True):
            assert one is None or point.get_color() == one
