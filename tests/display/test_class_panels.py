"""A panel for each class: the classes with the largest errors, their bins, axes and one legend."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.special import softmax

from skcalib import ReliabilityDisplay
from skcalib.metrics import expected_calibration_error, reliability_curve

RNG = np.random.default_rng(1)
NAMES = np.array(["zoo", "bee", "ant", "cat"])
P = RNG.dirichlet([0.6, 0.8, 1.0, 0.5], size=300)
Y = NAMES[np.where(RNG.uniform(size=300) < 0.7, P.argmax(axis=1), RNG.integers(4, size=300))]
W = RNG.integers(3, size=300).astype(float)


def draw(y=Y, p=P, **params):
    params = {"labels": NAMES, "kind": "classwise", "n_resamples": 2} | params
    return ReliabilityDisplay.from_predictions(y, p, **params)


@pytest.mark.parametrize("weight", [None, W])
@pytest.mark.parametrize("bins", [{"n_bins": 4}, {"strategy": "quantile"}])
def test_panels_are_the_classes_with_the_largest_errors_first(weight, bins):
    display = draw(subset=3, sample_weight=weight, **bins)
    errors = {}
    for k, name in enumerate(NAMES):
        params = {"kind": "binary", "sample_weight": weight, **bins}
        errors[name] = expected_calibration_error(name == Y, P[:, k], **params)
        if name in display.displays_:
            panel = display.displays_[name]
            expected = reliability_curve(name == Y, P[:, k], **params)
            np.testing.assert_allclose(panel.curve.accuracy, expected.accuracy)
            assert panel.expected_calibration_error == pytest.approx(errors[name])
            n_rows = np.sum((name == Y) & (True if weight is None else weight > 0))
            ece = f"ECE {errors[name]:.3f}"
            assert panel.ax_.get_title() == f"{name}\n{n_rows} rows, {ece}"
    assert list(display.displays_) == sorted(errors, key=errors.get, reverse=True)[:3]
    assert display.expected_calibration_error == pytest.approx(np.mean([*errors.values()]))


def test_subset_names_the_classes_and_their_order():
    display = draw(subset=["cat", "bee", "cat"], name="Model X")
    assert list(display.displays_) == ["cat", "bee"]
    assert display.legend_.get_title().get_text() == "Model X: 2 of 4 classes"
    labels = [text.get_text() for text in display.legend_.get_texts()]
    assert len(labels) == len(set(labels))
    assert not any("ECE" in label for label in labels)
    assert [ax.get_xlabel() for ax in display.axes_] == ["Predicted probability"] * 2
    assert [ax.get_ylabel() for ax in display.axes_] == ["Observed frequency", ""]
    numbers = draw(RNG.integers(4, size=300), labels=None, subset=[3])
    assert numbers.axes_[0].get_title().startswith("class 3\n")
    assert draw(subset="bee").displays_.keys() == {"bee"}


@pytest.mark.parametrize("style", ["bars", "dots", "corp", "smooth"])
def test_panels_share_limits_and_have_one_legend(style):
    display = draw(style=style)
    assert len(display.axes_) == 4
    assert {ax.get_xlim() for ax in display.axes_} == {(0, 1)}
    assert not any(ax.get_legend() for ax in display.axes_)
    assert display.figure_.legends == [display.legend_]
    assert all(panel.counts_ is None for panel in display.displays_.values())
    display.figure_.draw_without_rendering()


def test_axes_of_the_user_hold_the_panels():
    figure = Figure(layout="constrained")
    axes = figure.subplots(2, 3)
    display = draw(ax=axes, subset=2)
    assert display.axes_ == list(axes.flat[:2])
    assert display.figure_ is figure
    assert not axes[1, 2].axison
    assert axes[0, 0].get_legend() is display.legend_
    assert len(draw(ax=Figure().subplots(1, 3)).axes_) == 3  # as many as there are axes
    assert not plt.get_fignums()
    with pytest.raises(ValueError, match="3 axes"):
        draw(ax=Figure().subplots(1, 2), subset=["zoo", "bee", "ant"])
    with pytest.raises(ValueError, match="array"):
        draw(ax=Figure().subplots())


def test_rare_classes_have_quantile_bins_and_logit_axes():
    logits = RNG.normal(size=(4000, 100)) / 2
    p = softmax(logits, axis=1)
    y = (p.cumsum(axis=1) < RNG.uniform(size=(4000, 1))).sum(axis=1)
    display = draw(y, p, labels=None, subset=4)
    assert {ax.get_xscale() for ax in display.axes_} == {"logit"}
    assert len({ax.get_xlim() for ax in display.axes_}) == 1
    for panel in display.displays_.values():
        np.testing.assert_allclose(panel.curve.n_samples, 4000 / 15, atol=1)
    assert draw().axes_[0].get_xscale() == "linear"


@pytest.mark.parametrize("weight", [None, W])
def test_several_labels_have_a_panel_each(weight):
    labels = RNG.uniform(size=P.shape) < P
    display = draw(labels, kind="multilabel", sample_weight=weight)
    for k, name in enumerate(NAMES):
        expected = reliability_curve(labels[:, k], P[:, k], kind="binary", sample_weight=weight)
        np.testing.assert_allclose(display.displays_[name].curve.accuracy, expected.accuracy)


def test_curves_of_classes_can_be_drawn_without_rows():
    curve = reliability_curve(Y, P, labels=NAMES, kind="classwise")
    display = ReliabilityDisplay(curve, name="M").plot(subset=["ant"])
    expected = draw(subset=["ant"]).displays_["ant"].curve
    np.testing.assert_array_equal(display.displays_["ant"].curve.accuracy, expected.accuracy)
    assert display.axes_[0].get_title().startswith("ant\nECE 0.")
    assert repr(display).startswith("<ReliabilityDisplay of M: 1,200 rows")


@pytest.mark.parametrize(("subset", "got"), [(["zoo", "z"], "'z'"), ([], "none"), (0, "0")])
def test_bad_subsets_are_refused(subset, got):
    with pytest.raises(ValueError, match=f"subset .*got {got}"):
        draw(subset=subset)
    assert not plt.get_fignums()
