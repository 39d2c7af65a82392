"""Displays hold what they draw, draw where they are told, and touch nothing else."""

import pickle
from functools import partial

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from drawing import inside
from matplotlib.figure import Figure
from sklearn.datasets import load_iris
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcalib import ReliabilityDisplay, VectorScaling
from skcalib._output.theme import Theme
from skcalib._scores.columns import Scored
from skcalib.datasets import make_logits
from skcalib.display import ConfidenceDisplay, TemperatureSweepDisplay
from skcalib.metrics import reliability_curve


@pytest.fixture
def predictions(rng):
    P = rng.dirichlet([0.5, 0.5, 0.5], size=300)
    return np.where(rng.uniform(size=300) < 0.6, P.argmax(axis=1), rng.integers(3, size=300)), P


# Every way to make a display from labels and probabilities, and from an estimator. --------------


def sweep(y, P, **kwargs):
    return TemperatureSweepDisplay.from_logits(np.log(P), y, **kwargs)


FROM_PREDICTIONS = {
    "bars": ReliabilityDisplay.from_predictions,
    "dots": partial(ReliabilityDisplay.from_predictions, style="dots"),
    "corp": partial(ReliabilityDisplay.from_predictions, style="corp", n_resamples=5),
    "smooth": partial(ReliabilityDisplay.from_predictions, style="smooth", n_resamples=5),
    "dots on logit axes": partial(
        ReliabilityDisplay.from_predictions, style="dots", scale="logit", strategy="quantile"
    ),
    "corp on logit axes": partial(
        ReliabilityDisplay.from_predictions, style="corp", scale="logit", n_resamples=5
    ),
    "confidence": ConfidenceDisplay.from_predictions,
    "sweep": sweep,
}
every_display = pytest.mark.parametrize("make", FROM_PREDICTIONS.values(), ids=FROM_PREDICTIONS)


def make_grid(y, P, **kwargs):
    return ReliabilityDisplay.from_predictions(y, P, kind="classwise", **kwargs)


every_display_and_grids = pytest.mark.parametrize(
    "make", [*FROM_PREDICTIONS.values(), make_grid], ids=[*FROM_PREDICTIONS, "grid"]
)


def axes_of(display):
    return display.axes_ if hasattr(display, "axes_") else [display.ax_]


@every_display
def test_given_axes_are_used(make, predictions):
    figure = Figure()
    left, right = figure.subplots(1, 2)
    display = make(*predictions, ax=right)
    assert (display.ax_, display.figure_) == (right, figure)
    assert right.has_data()
    assert not left.has_data()
    assert not plt.get_fignums()  # pyplot has not been asked for anything
    assert all(ax.get_ylabel() for ax in axes_of(display))
    assert any(ax.get_xlabel() for ax in axes_of(display))
    assert right.get_legend() is not None


@every_display_and_grids
def test_new_figures_by_default_and_no_settings_are_touched(make, predictions):
    before = dict(mpl.rcParams)
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    display = make(*predictions)
    assert plt.get_fignums() == [display.figure_.number]
    assert dict(mpl.rcParams) == before
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002


@pytest.mark.slow
@every_display_and_grids
def test_plot_again(make, predictions):
    display = make(*predictions)
    first = axes_of(display)
    assert display.plot() is display
    assert axes_of(display)[0] is not first[0]
    assert len(axes_of(display)) == len(first)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "n_parts"), [(3, 2), (8, 1)])
@every_display
def test_nothing_sticks_out_of_the_figure(make, predictions, size, n_parts):
    """Also of parts of figures, which are figures."""
    figure = Figure(figsize=(n_parts * size, size), layout="constrained")
    for part in np.ravel(figure.subfigures(1, n_parts)):
        assert make(*predictions, ax=part.subplots()).figure_ is part
    figure.draw_without_rendering()
    assert inside(figure.get_tightbbox().transformed(figure.dpi_scale_trans), figure.bbox)


@pytest.mark.parametrize("kind", ["top-label", "classwise"])
def test_estimators_name_their_diagrams(kind):
    X, y = load_iris(return_X_y=True)
    model = make_pipeline(StandardScaler(), GaussianNB()).fit(X, y)
    diagram = partial(ReliabilityDisplay.from_estimator, kind=kind)
    for make in (diagram, ConfidenceDisplay.from_estimator):
        assert make(model, X, y).name == "Pipeline"
        assert make(model, X, y, name="M").name == "M"


# Bars -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["top-label", "binary"])
def test_axes_are_labelled(kind, rng):
    y, p = rng.integers(2, size=50), rng.uniform(size=50)
    display = ReliabilityDisplay.from_predictions(y, p, kind=kind, name="A name")
    names = {
        "top-label": ("Confidence", "Accuracy"),
        "binary": ("Predicted probability", "Observed frequency"),
    }
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == names[kind]
    assert display.ax_.get_title() == "A name"
    assert display.counts_ax_.get_ylabel() == "Rows"
    assert display.plot(name="Another").ax_.get_title() == "Another"
    assert display.name == "A name"


def test_whiskers_and_counts_can_be_left_out(predictions):
    display = ReliabilityDisplay.from_predictions(*predictions, confidence_level=None, counts=False)
    assert display.intervals_ is None
    assert display.counts_ is None
    assert display.counts_ax_ is None
    assert not any(child.get_visible() for child in display.ax_.child_axes)
    assert display.ax_.get_ylim()[0] == 0
    assert display.plot(counts=False, legend=False).ax_.get_ylim() == (0, 1)
    assert display.ax_.get_legend() is None


def test_positive_label(rng):
    y, p = np.array(["no", "yes"])[rng.integers(2, size=80)], rng.uniform(size=80)
    display = ReliabilityDisplay.from_predictions(y, p, kind="binary", pos_label="no")
    expected = reliability_curve(y, p, kind="binary", pos_label="no")
    np.testing.assert_allclose(display.curve.accuracy, expected.accuracy)


# Dots -------------------------------------------------------------------------------------------


def cleared(ax):
    ax.clear()
    return ax


def pickled(ax):
    return pickle.loads(pickle.dumps(ax.figure)).axes[0]


@pytest.mark.slow
@pytest.mark.parametrize(("change", "n_models"), [(cleared, 0), (pickled, 1)])
@pytest.mark.parametrize("style", ["dots", "corp"])
def test_axes_hold_the_models_that_are_drawn_on_them(predictions, style, change, n_models):
    ax = Figure().subplots()
    ax.plot([0, 1], [1, 0], label="Perfect")  # of the user
    make = partial(ReliabilityDisplay.from_predictions, style=style, n_resamples=2)
    first = make(*predictions, ax=ax)
    ax = change(ax)
    display = make(*predictions, ax=ax)
    assert display.line_.get_color() == Theme.of(ax).models[n_models]
    assert display.diagonal_.axes is ax
    assert display.diagonal_.get_color() == first.diagonal_.get_color()
    assert display.counts_ax_ in ax.child_axes
    assert [child for child in ax.child_axes if child.get_visible()] == [display.counts_ax_]
    labels = [line.get_label() for line in ax.lines]
    assert labels.count("Perfect") == 1 + n_models
    ax.figure.draw_without_rendering()


def test_models_that_are_removed_leave_room_for_others(predictions):
    ax = Figure().subplots()
    ReliabilityDisplay.from_predictions(*predictions, style="dots", ax=ax).line_.remove()
    display = ReliabilityDisplay.from_predictions(*predictions, style="dots", ax=ax)
    assert display.line_.get_color() == Theme.of(ax).models[0]


@pytest.mark.parametrize("styles", [("bars", "bars"), ("bars", "dots"), ("corp", "bars")])
def test_bars_share_no_axes(predictions, styles):
    made = ReliabilityDisplay.from_predictions(
        *predictions, style=styles[0], n_resamples=2, ax=Figure().subplots()
    )
    for ax in (made.ax_, pickled(made.ax_)):
        with pytest.raises(ValueError, match=r"would hide each other.*Pass style='dots'"):
            ReliabilityDisplay.from_predictions(*predictions, style=styles[1], ax=ax)


def test_axes_hold_one_kind_and_one_scale(rng):
    y, p = rng.integers(2, size=50), rng.uniform(size=50)
    ax = Figure().subplots()
    make = partial(ReliabilityDisplay.from_predictions, y, p, style="dots", ax=ax)
    make()
    with pytest.raises(ValueError, match=r"have one kind, got kind='top-label' on .*kind='binary'"):
        make(kind="top-label")
    with pytest.raises(
        ValueError, match=r"have one scale, got scale='logit' on axes with scale='lin"
    ):
        make(scale="logit")


# The isotonic curve -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["top-label", "binary"])
@pytest.mark.parametrize("weighted", [False, True])
def test_curve_is_isotonic_regression(rng, kind, weighted):
    p = rng.uniform(size=200).round(2)
    y = rng.uniform(size=200) < p**2
    w = rng.integers(4, size=200).astype(float) if weighted else None
    display = ReliabilityDisplay.from_predictions(y, p, kind=kind, style="corp", sample_weight=w)
    score = np.maximum(p, 1 - p) if kind == "top-label" else p
    event = (p > 0.5) == y if kind == "top-label" else y
    expected = IsotonicRegression().fit(score, event, w)
    kept = score if w is None else score[w > 0]
    x, values = display.line_.get_data()
    np.testing.assert_allclose(np.interp(kept, x, values), expected.predict(kept), atol=1e-9)
    assert (x[0], x[-1]) == pytest.approx((kept.min(), kept.max()))
    assert display.intervals_ is None


def test_curves_need_rows_with_weight(predictions):
    curve = reliability_curve(*predictions)
    assert ReliabilityDisplay(curve).plot(style="dots").line_ is not None
    for style in ("corp", "smooth"):
        with pytest.raises(
            ValueError, match=r"needs scores and events of rows, got rows=None.*Use from_"
        ):
            ReliabilityDisplay(curve).plot(style=style)
    rows = Scored(None, np.array([0.5, 0.7]), np.array([True, False]), np.zeros(2))
    with pytest.raises(ValueError, match=r"positive total weight, got zero weights only"):
        ReliabilityDisplay(curve, rows=rows)


# Logit axes -------------------------------------------------------------------------------------


def test_logit_axes_show_a_narrow_range(rng):
    p = rng.uniform(0.03, 0.05, size=20_000)
    display = ReliabilityDisplay.from_predictions(
        rng.uniform(size=20_000) < p,
        p,
        kind="binary",
        style="dots",
        scale="logit",
        strategy="quantile",
        n_bins=3,
    )
    assert 0.05 in display.ax_.get_xticks()


def test_logit_axes_without_any_frequency_between(rng):
    """All events happened: no dot can be shown, but whiskers come in from the border."""
    display = ReliabilityDisplay.from_predictions(
        np.ones(30), np.ones(30), kind="binary", labels=[0, 1], style="corp", scale="logit"
    )
    low, high = display.ax_.get_xlim()
    assert 0 < low < high < 1
    display.figure_.draw_without_rendering()


# Bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"style": "pie"}, "style must be one of 'bars', 'dots', 'corp', 'smooth', got 'pie'"),
        ({"scale": "log"}, "scale must be one of 'linear', 'logit', got 'log'"),
        ({"scale": "logit"}, "Bars begin at 0.*Pass style='dots'"),
        ({"confidence_level": 0}, "confidence_level must be a number between 0 and 1, got 0.*None"),
        ({"confidence_level": 1.0}, "confidence_level must be a number between 0 and 1, got 1.0"),
        ({"confidence_level": 95}, "confidence_level must be a number between 0 and 1, got 95"),
        ({"confidence_level": "high"}, "must be a number between 0 and 1, got 'high'"),
        ({"style": "corp", "confidence_level": -1}, "confidence_level must be a number"),
        ({"style": "corp", "n_resamples": 0}, "n_resamples must be an integer of at least 1"),
        ({"n_resamples": True}, "n_resamples must be an integer of at least 1, got True"),
        ({"n_bins": 0}, "n_bins"),
        ({"strategy": "no"}, "strategy"),
        ({"kind": "no"}, "kind must be one of"),
        ({"sample_weight": np.zeros(300)}, "sample_weight must not be all zero"),
        ({"classes": [1]}, "classes is for kind='classwise' or 'multilabel', got kind='top-l"),
        ({"figure": 1}, "figure is for kind='classwise'"),
        ({"kind": "classwise", "ax": 1}, "needs a figure, got ax. Pass figure= instead"),
        ({"kind": "classwise", "classes": [0, 7]}, "classes must be among 0, 1, 2, got 7"),
        ({"kind": "classwise", "classes": []}, "classes must name at least one class, got none"),
        ({"kind": "classwise", "max_classes": 0}, "max_classes must be an integer of at least 1"),
        ({"kind": "classwise", "n_columns": 0}, "n_columns must be an integer of at least 1, got"),
    ],
)
def test_bad_input(predictions, kwargs, message):
    with pytest.raises(ValueError, match=message):
        ReliabilityDisplay.from_predictions(*predictions, **kwargs)
    assert not plt.get_fignums()


# Grids ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("style", ["bars", "dots", "corp"])
def test_grid_has_the_classes_asked_for(predictions, style):
    y, P = predictions
    y = np.array(["a", "b", "c"])[y]
    w = np.arange(300) % 3
    grid = make_grid(y, P, classes=["c", "a", "c"], style=style, sample_weight=w, name="Model X")
    assert [display.name for display in grid.displays_] == ["c", "a"]
    assert f"c: {np.sum((y == 'c') & (w > 0))} rows" in grid.axes_[0].get_title()
    texts = [text.get_text() for text in grid.legend_.get_texts()]
    assert not any("ECE" in text or text == "c" for text in texts)
    assert grid.legend_.get_title().get_text() == "Model X"
    texts = [text.get_text() for text in grid.figure_.texts]
    assert {"Predicted probability", "Observed frequency"} <= set(texts)
    with pytest.raises(ValueError, match="classes must be among 'a', 'b', 'c', got 'z'"):
        make_grid(y, P, classes=["z"])


# Sweeps -----------------------------------------------------------------------------------------


def test_sweep_of_two_classes(rng):
    Z, y = make_logits(500, 2, random_state=0)
    y = np.array(["no", "yes"])[y]
    both = TemperatureSweepDisplay.from_logits(Z, y)
    one = TemperatureSweepDisplay.from_logits(Z[:, 1:] - Z[:, :1], y)
    np.testing.assert_allclose(one.log_loss, both.log_loss, rtol=1e-6)
    np.testing.assert_allclose(one.temperatures, both.temperatures, rtol=1e-6)


@pytest.mark.slow
def test_sweep_with_classes_in_another_order(logits3):
    Z, y = logits3
    names = np.array(["c", "b", "a"])
    calibrator = VectorScaling(classes=names).fit(Z, names[y])
    one = TemperatureSweepDisplay.from_estimator(calibrator, Z, names[y], name="V")
    other = TemperatureSweepDisplay.from_logits(Z, names[y], classes=names)
    expected = TemperatureSweepDisplay.from_logits(Z, y)
    for display in (one, other):
        np.testing.assert_allclose(display.log_loss, expected.log_loss)
    loss = log_loss(y, calibrator.predict_proba(Z))
    assert one.reference == pytest.approx(loss)
    assert one.reference_line_.get_label() == f"V: {loss:.3f}"


@pytest.mark.parametrize("temperatures", [[1.0], [1, 1], [0, 1], [-1, 2], [1, np.inf], [1, np.nan]])
def test_bad_temperatures(logits3, temperatures):
    with pytest.raises(
        ValueError, match=r"temperatures must hold at least two distinct .*Pass None"
    ):
        TemperatureSweepDisplay.from_logits(*logits3, temperatures=temperatures)
