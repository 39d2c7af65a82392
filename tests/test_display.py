"""Displays hold what they draw, draw where they are told, and touch nothing else."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcalib import ReliabilityDisplay
from skcalib.metrics import expected_calibration_error, reliability_curve


@pytest.fixture
def predictions(rng):
    P = rng.dirichlet([0.5, 0.5, 0.5], size=300)
    return rng.integers(3, size=300), P


def test_artists_hold_the_bins(predictions):
    y, P = predictions
    display = ReliabilityDisplay.from_predictions(y, P, n_bins=10)
    curve = reliability_curve(y, P, n_bins=10)
    for name, expected in vars(curve).items():
        assert np.array_equal(getattr(display.curve, name), expected)
    heights = [bar.get_height() for bar in display.bars_]
    np.testing.assert_allclose(heights, curve.accuracy)
    for bar, low, up in zip(display.bars_, curve.lower, curve.upper, strict=True):
        assert (bar.get_x(), bar.get_x() + bar.get_width()) == pytest.approx((low, up))
    gaps = [(bar.get_y(), bar.get_y() + bar.get_height()) for bar in display.gaps_]
    np.testing.assert_allclose(gaps, np.column_stack([curve.accuracy, curve.confidence]))
    counts = [bar.get_height() for bar in display.counts_]
    np.testing.assert_allclose(counts, curve.n_samples)
    assert sum(counts) == len(y)
    assert display.diagonal_.get_xydata().tolist() == [[0, 0], [1, 1]]


def test_whiskers_are_the_interval(predictions):
    display = ReliabilityDisplay.from_predictions(*predictions, confidence_level=0.8)
    segments = display.intervals_.lines[2][0].get_segments()
    np.testing.assert_allclose(
        [s[:, 1] for s in segments], np.column_stack(display.curve.interval(0.8))
    )


def test_error_is_in_the_legend(predictions):
    display = ReliabilityDisplay.from_predictions(*predictions)
    error = expected_calibration_error(*predictions)
    assert display.expected_calibration_error == pytest.approx(error)
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert f"Gap (ECE = {error:.3f})" in texts
    assert "Accuracy" in texts
    assert "95 % interval" in texts


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


def test_empty_bins_have_no_bars():
    """Trap 8: others draw ten bars for data in two bins."""
    p = np.repeat([0.15, 0.95], 10)
    display = ReliabilityDisplay.from_predictions(np.arange(20) % 2, p, kind="binary", n_bins=10)
    assert len(display.bars_) == len(display.gaps_) == len(display.counts_) == 2


def test_given_axes_are_used(predictions):
    figure = Figure()
    left, right = figure.subplots(1, 2)
    display = ReliabilityDisplay.from_predictions(*predictions, ax=right)
    assert display.ax_ is right
    assert display.figure_ is figure
    assert not left.has_data()
    assert not plt.get_fignums()  # pyplot has not been asked for anything


def test_new_figure_by_default(predictions):
    display = ReliabilityDisplay.from_predictions(*predictions)
    assert plt.get_fignums() == [display.figure_.number]


def test_plot_again(predictions):
    display = ReliabilityDisplay.from_predictions(*predictions, name="first")
    first = display.ax_
    assert display.plot(name="second") is display
    assert display.ax_ is not first
    assert display.ax_.get_title() == "second"
    assert display.name == "first"


def test_whiskers_and_counts_can_be_left_out(predictions):
    display = ReliabilityDisplay.from_predictions(*predictions, confidence_level=None, counts=False)
    assert display.intervals_ is None
    assert display.counts_ is None
    assert display.counts_ax_ is None
    assert not display.ax_.child_axes
    assert display.ax_.get_ylim() == (0, 1)


def test_no_global_style_is_touched(predictions):
    before = dict(mpl.rcParams)
    ReliabilityDisplay.from_predictions(*predictions)
    assert dict(mpl.rcParams) == before


def test_from_estimator_is_from_predictions():
    X, y = load_iris(return_X_y=True)
    names = np.array(["zebra", "ant", "bee"])[y]
    model = make_pipeline(StandardScaler(), GaussianNB()).fit(X, names)
    w = np.random.default_rng(0).uniform(size=len(y))
    kwargs = {"n_bins": 7, "strategy": "quantile", "sample_weight": w}
    one = ReliabilityDisplay.from_estimator(model, X, names, **kwargs)
    other = ReliabilityDisplay.from_predictions(
        names, model.predict_proba(X), labels=model.classes_, **kwargs
    )
    for name, expected in vars(other.curve).items():
        assert np.array_equal(getattr(one.curve, name), expected)
    assert one.ax_.get_title() == "Pipeline"
    assert other.ax_.get_title() == ""
    assert ReliabilityDisplay.from_estimator(model, X, names, name="M").name == "M"


def test_positive_label(rng):
    y, p = np.array(["no", "yes"])[rng.integers(2, size=80)], rng.uniform(size=80)
    display = ReliabilityDisplay.from_predictions(y, p, kind="binary", pos_label="no")
    expected = reliability_curve(y, p, kind="binary", pos_label="no")
    np.testing.assert_allclose(display.curve.accuracy, expected.accuracy)


@pytest.mark.parametrize("size", [2, 3, 8])
@pytest.mark.parametrize("n_axes", [1, 2])
def test_nothing_sticks_out_of_the_figure(predictions, size, n_axes):
    figure = Figure(figsize=(n_axes * size, size), layout="constrained")
    for ax in np.ravel(figure.subplots(1, n_axes)):
        ReliabilityDisplay.from_predictions(*predictions, ax=ax, name="A title")
    figure.draw_without_rendering()
    whole, inside = figure.bbox, figure.get_tightbbox().transformed(figure.dpi_scale_trans)
    assert whole.x0 - 1 <= inside.x0
    assert whole.y0 - 1 <= inside.y0
    assert inside.x1 <= whole.x1 + 1
    assert inside.y1 <= whole.y1 + 1


def test_classwise_is_refused(predictions):
    with pytest.raises(ValueError, match="A diagram shows one score, got kind='classwise'"):
        ReliabilityDisplay.from_predictions(*predictions, kind="classwise")
