"""Laws of all displays: axes, estimators, names, colours and properties of lines."""

import warnings

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from public import LABELS, LOGITS, PROBABILITIES, REGISTRY, N, calls
from sklearn.naive_bayes import GaussianNB
from test_events import numbers

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


STYLES = ["dots", "corp", "smooth", "bars"]


def drawn(call, **params):
    if "n_resamples" in getattr(call, "parameters", ()):  # no law here is about widths of bands
        params = {"n_resamples": 3} | params
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(**params)


def styles_of(call):
    """Arguments of each style, or none."""
    return [{"style": s} for s in STYLES] if "style" in call.parameters else [{}]


@pytest.mark.parametrize("call", calls("ax"))
def test_displays_use_the_given_axes_only(call):
    method = call.name.endswith(".plot")  # of a display that was drawn before
    for style in styles_of(call):
        figure, before = Figure(), dict(mpl.rcParams)
        state = np.random.get_state()[1].copy()  # noqa: NPY002
        left, right = figure.subplots(1, 2)
        display = drawn(call, ax=right, **style)
        assert display.figure is figure if isinstance(display, mpl.axes.Axes) else (
            display.figure_ is figure
        )  # fmt: skip
        assert right.has_data()
        assert not left.has_data()
        assert method or not plt.get_fignums()
        assert dict(mpl.rcParams) == before
        assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002
        if not method and "estimator" not in call.parameters:
            figure.draw_without_rendering()


WITH_BOTH = [
    kind
    for kind in (name.split(".")[0] for name in REGISTRY if name.endswith(".from_estimator"))
    if kind != "TemperatureSweepDisplay"  # which has a reference from the estimator
]


@pytest.mark.parametrize("kind", WITH_BOTH)
def test_estimators_are_drawn_as_their_predictions(kind):
    y, ways = np.array(["zoo", "ant"])[LABELS], ("from_estimator", "from_predictions")
    model = GaussianNB().fit(LOGITS, y)
    from_estimator, from_predictions = (REGISTRY[f"{kind}.{way}"] for way in ways)
    given = {
        "sample_weight": np.arange(N) % 3.0,
        "groups": np.arange(N) // 2,
        "features": LOGITS[:, 0] > 0,
        "kind": "binary",
        "pos_label": "ant",
    }
    given = {name: v for name, v in given.items() if name in from_predictions.parameters}
    one = drawn(from_estimator, estimator=model, X=LOGITS, y=y, **given)
    P = model.predict_proba(LOGITS)
    other = drawn(from_predictions, y_true=y, y_proba=P, **given)
    assert numbers(one)
    assert numbers(one) == pytest.approx(numbers(other), nan_ok=True)
    assert "GaussianNB" in repr(one)
    assert any("GaussianNB" in text for text in texts_of(one.figure_))


def texts_of(figure):
    labels = [artist.get_label() for artist in figure.findobj()]
    return [text.get_text() for text in figure.findobj(Text)] + [str(label) for label in labels]


@pytest.mark.slow
@pytest.mark.parametrize("name", [0, "_a", "$x$"])
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


@pytest.mark.parametrize("call", calls("color"))
def test_colours_are_drawn(call):
    color = (0.1, 0.5, 0.2)
    for style in styles_of(call):
        display = drawn(call, color=color, **style)
        assert mpl.colors.to_rgb(color) in colours_of(display.figure_.axes)


SHORT = {"lw": 3.5, "ls": ":", "aa": False, "alpha": 0.5, "c": "red", "mfc": "red", "ms": 7}


@pytest.mark.parametrize("call", calls("line_kw"))
def test_short_names_of_properties_are_the_long_ones(call):
    for style in styles_of(call):
        has_bars = style.get("style") == "bars"
        of_markers = ("c", "mfc", "ms")  # which bars have not
        words = {short: x for short, x in SHORT.items() if not (has_bars and short in of_markers)}
        display = drawn(call, line_kw=words, **style)
        getters = {"c": "get_color", "aa": "get_antialiased"}
        assert any(
            all(getattr(x, getters.get(short, f"get_{short}"))() == v for short, v in words.items())
            for x in (display.ax_.patches if has_bars else display.ax_.lines)
        )


def test_models_of_a_plane_have_their_colours():
    models = {0: PROBABILITIES, "b": np.full_like(PROBABILITIES, 0.5)}
    for color, expected in (({0: "red"}, ["red", None]), ("blue", ["blue", "blue"])):
        display = drawn(
            ScoreDecompositionDisplay.from_predictions, y_true=LABELS, y_proba=models, color=color
        )
        for point, one in zip(display.points_.values(), expected, strict=True):
            assert one is None or point.get_color() == one
