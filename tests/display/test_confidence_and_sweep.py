"""The histogram of the confidence and the sweep over temperatures."""

import numpy as np
import pytest
from drawing import in_legend, partly_slow
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from scipy.special import softmax
from sklearn.metrics import log_loss

from skcalib import ConfidenceDisplay, TemperatureScaling, TemperatureSweepDisplay, VectorScaling
from skcalib.datasets import make_logits
from skcalib.metrics import expected_calibration_error

Z, Y = make_logits(300, 3, temperature=2.0, random_state=3)
P = softmax(Z, axis=1)
W = np.random.default_rng(0).integers(4, size=300).astype(float)
NAMES = np.array(["zoo", "bee", "ant"])


def histogram(y=Y, p=P, **params):
    return ConfidenceDisplay.from_predictions(y, p, **({"ax": Figure().subplots()} | params))


@pytest.mark.parametrize(("n_bins", "weight"), [(15, None), (3, W), (50, W)])
def test_bars_are_shares_and_lines_are_means(n_bins, weight):
    display = histogram(n_bins=n_bins, sample_weight=weight, name="A", color="#123456")
    w = np.ones(300) if weight is None else weight
    confidence, right = P.max(axis=1), P.argmax(axis=1) == Y
    share, edges = np.histogram(confidence, n_bins, range=(0, 1), weights=w / w.sum())
    np.testing.assert_allclose([bar.get_height() for bar in display.bars_], share[share > 0])
    np.testing.assert_allclose([bar.get_x() for bar in display.bars_], edges[:-1][share > 0])
    means = np.average(confidence, weights=w), np.average(right, weights=w)
    assert (display.confidence, display.accuracy) == pytest.approx(means)
    for line, mean in zip((display.confidence_line_, display.accuracy_line_), means, strict=True):
        assert list(line.get_xdata()) == pytest.approx([mean, mean])
    labels = [f"Average confidence {means[0]:.3f}", f"Accuracy {means[1]:.3f}"]
    assert in_legend(display.ax_) == labels
    assert display.ax_.get_xlabel() == "Confidence"
    what = "" if weight is None else "weight of "
    assert display.ax_.get_ylabel() == f"Share of {what}{np.sum(w > 0)} rows"
    assert display.ax_.get_title() == "A"
    assert to_rgb(display.bars_[0].get_facecolor()) == to_rgb("#123456")
    assert repr(display) == (
        f"<ConfidenceDisplay of A: mean confidence {means[0]:.3f}, accuracy {means[1]:.3f}>"
    )


def test_two_classes_are_an_event_with_a_name():
    p, y = np.repeat([0.05, 0.15], 100), np.arange(200) % 4 == 0
    display = histogram(np.where(y, "ill", "healthy"), p, pos_label="ill")
    assert in_legend(display.ax_) == ["Average probability 0.100", "Observed frequency 0.250"]
    assert display.ax_.get_xlabel() == "Predicted probability of ill"
    assert histogram(y, p, kind="top-label").accuracy == 0.75
    with pytest.raises(ValueError, match="kind"):
        histogram(y, p, kind="classwise")


# Sweeps -------------------------------------------------------------------------------------------


def literal_sweep(Z, w, T, n_bins):
    losses, errors = [], []
    for t in T:
        p = softmax(Z / t, axis=1)
        losses.append(log_loss(Y, p, sample_weight=w))
        errors.append(expected_calibration_error(Y, p, n_bins=n_bins, sample_weight=w))
    return losses, errors


SWEEPS = [(1.0, None, {}), (0.2, W, {}), (30.0, W, {"n_bins": 4})]


@pytest.mark.parametrize(("given", "way"), partly_slow(SWEEPS, ["rows", "estimator"], quick=2))
def test_sweep_matches_losses_and_errors_at_each_temperature(given, way):
    scale, w, bins = given
    X = scale * Z
    given = {"ax": list(Figure().subplots(2)), "sample_weight": w, **bins}
    if way == "rows":
        display = TemperatureSweepDisplay.from_logits(X, Y, **given)
        assert display.reference is display.reference_line_ is None
    else:
        vector = VectorScaling().fit(X[:200], Y[:200])
        display = TemperatureSweepDisplay.from_estimator(vector, X, Y, **given)
        loss = log_loss(Y, vector.predict_proba(X), sample_weight=w)
        assert display.reference == pytest.approx(loss)
        assert list(display.reference_line_.get_ydata()) == [display.reference] * 2
        assert display.reference_line_.get_label() == f"VectorScaling: {loss:.3f}"
    best = TemperatureScaling().fit(X, Y, w).temperature_
    T = display.temperatures
    spaced = np.geomspace(min(best, 1) / 3, max(best, 1) * 3, 60)
    np.testing.assert_allclose(T, np.union1d(spaced, [1, best]))
    losses, errors = literal_sweep(X, w, T, bins.get("n_bins", 15))
    np.testing.assert_allclose(display.log_loss, losses, rtol=1e-9)
    np.testing.assert_allclose(display.expected_calibration_error, errors, rtol=1e-6, atol=1e-9)
    upper, lower = display.axes_
    for line, ax, values in (
        (display.log_loss_line_, upper, display.log_loss),
        (display.ece_line_, lower, display.expected_calibration_error),
    ):
        np.testing.assert_array_equal(line.get_xydata(), np.column_stack([T, values]))
        assert line.axes is ax
    assert display.best_temperature == best
    assert [line.get_xdata()[0] for line in display.best_lines_] == [best] * 2
    assert [line.axes for line in display.start_lines_] == [upper, lower]
    assert [upper.get_ylabel(), lower.get_ylabel()] == ["Log loss", "ECE"]
    assert lower.get_xlabel() == "Temperature T"
    assert upper.get_xscale() == lower.get_xscale() == "log"
    assert lower.get_ylim()[0] == 0


@pytest.mark.parametrize("pair", [True, False])
def test_legend_names_each_line_and_the_lowest_error_once(pair):
    ax = Figure().subplots(2) if pair else Figure().subplots()
    vector = VectorScaling().fit(Z, Y)
    display = TemperatureSweepDisplay.from_estimator(vector, Z, Y, ax=ax, name="V")
    errors = display.expected_calibration_error
    k = int(np.argmin(errors))
    np.testing.assert_array_equal(
        display.ece_minimum_.get_xydata(), [[display.temperatures[k], errors[k]]]
    )
    labels = in_legend(display.ax_)
    assert labels == [
        "Log loss", f"V: {display.reference:.3f}", "T = 1 (uncalibrated)",
        f"T = {display.best_temperature:.3g} (lowest log loss)", "ECE",
        f"Lowest ECE: {errors[k]:.3f} at T = {display.temperatures[k]:.3g}",
    ]  # fmt: skip
    assert len(display.best_lines_) == len(display.start_lines_) == 1 + pair


def test_sweep_of_two_classes():
    X, y = make_logits(500, 2, random_state=0)
    y = np.array(["no", "yes"])[y]
    both, one = (
        TemperatureSweepDisplay.from_logits(x, y, ax=Figure().subplots(2))
        for x in (X, X[:, 1:] - X[:, :1])
    )
    np.testing.assert_allclose(one.log_loss, both.log_loss, rtol=1e-6)
    np.testing.assert_allclose(one.temperatures, both.temperatures, rtol=1e-6)


def test_sweep_with_classes_in_another_order():
    names = np.array(["c", "b", "a"])
    calibrator = VectorScaling(classes=names).fit(Z, names[Y])
    make = TemperatureSweepDisplay.from_logits
    one = TemperatureSweepDisplay.from_estimator(calibrator, Z, names[Y], name="V")
    other = make(Z, names[Y], labels=names)
    expected = make(Z, Y)
    for display in (one, other):
        np.testing.assert_allclose(display.log_loss, expected.log_loss)
    assert one.reference == pytest.approx(log_loss(Y, calibrator.predict_proba(Z)))
    assert repr(one).startswith("<TemperatureSweepDisplay of V: lowest log loss 0.")
    assert one.plot() is one


@pytest.mark.parametrize("temperatures", [[1.0], [1, 1], [0, 1], [-1, 2], [1, np.inf], [1, np.nan]])
def test_bad_temperatures_are_refused(temperatures):
    with pytest.raises(ValueError, match="temperatures"):
        TemperatureSweepDisplay.from_logits(Z, Y, temperatures=temperatures)


def test_sweep_of_probabilities_is_the_sweep_of_their_logarithms():
    make, params = TemperatureSweepDisplay.from_predictions, {"n_bins": 5, "sample_weight": W}
    one = make(NAMES[Y], P, labels=NAMES, ax=Figure().subplots(2), **params)
    other = TemperatureSweepDisplay.from_logits(Z, Y, ax=Figure().subplots(2), **params)
    np.testing.assert_allclose(one.log_loss, other.log_loss)
    np.testing.assert_allclose(one.expected_calibration_error, other.expected_calibration_error)
    p, y = P[:, 0], Y == 0
    columns, column = (
        make(y, x, temperatures=[1, 2], ax=Figure().subplots(2))
        for x in (np.column_stack([1 - p, p]), p)
    )
    np.testing.assert_allclose(columns.log_loss, column.log_loss)
    assert columns.log_loss[0] == pytest.approx(log_loss(y, p))
    certain = np.where(np.arange(300) == 0, 0.0, p)
    assert np.isfinite(make(y, certain, ax=Figure().subplots(2)).log_loss).all()
    with pytest.raises(ValueError, match="between 0 and 1"):
        make(Y, Z)
