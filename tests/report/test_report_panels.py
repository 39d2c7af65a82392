"""Every panel of the report is the display of the same numbers, drawn alone."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.special import softmax

from skcalib import (
    ConfidenceDisplay,
    ReliabilityDisplay,
    TemperatureSweepDisplay,
    VectorScaling,
    calibration_report,
)
from skcalib.datasets import make_logits


@pytest.fixture
def case():
    """A calibrator of classes in an order of their own that changes much, and other rows."""
    Z, y = make_logits(500, 3, temperature=3.0, offset=[0, 2, 0], random_state=0)
    names = np.array(["c", "a", "b"])
    w = np.random.default_rng(0).integers(4, size=500).astype(float)
    calibrator = VectorScaling(classes=names).fit(Z[:200], names[y[:200]])
    return calibrator, Z[200:], names[y[200:]], w[200:]


def held(ax):
    """Bars and lines of axes as numbers."""
    bars = [patch.get_bbox().get_points() for patch in ax.patches]
    lines = [np.asarray(line.get_xydata(), dtype=float) for line in ax.lines]
    return [*bars, *lines]


def assert_same(ax, expected):
    for a, b in zip(held(ax), held(expected), strict=True):
        np.testing.assert_allclose(a, b)
    assert held(ax)
    assert ax.get_title() == expected.get_title()


@pytest.mark.parametrize(("n_bins", "weighted"), [(None, False), (6, True)])
def test_panels_are_displays(case, n_bins, weighted):
    calibrator, Z, y, w = case
    params = {"sample_weight": w if weighted else None}
    params |= {} if n_bins is None else {"n_bins": n_bins}
    figure = calibration_report(calibrator, Z, y, figure=Figure((10, 8)), **params).figure_
    columns = [
        (figure.axes[:2], "Before", softmax(Z, axis=1)),
        (figure.axes[2:4], "VectorScaling", calibrator.predict_proba(Z)),
    ]
    for (diagram, histogram), title, P in columns:
        keywords = {"ax": Figure().subplots(), "labels": calibrator.classes_, **params}
        bars = ReliabilityDisplay.from_predictions(y, P, name=title, **keywords)
        assert_same(diagram, bars.ax_)
        (strip,) = diagram.child_axes
        assert_same(strip, bars.counts_ax_)
        keywords["ax"] = Figure().subplots()
        assert_same(histogram, ConfidenceDisplay.from_predictions(y, P, **keywords).ax_)
    highest = [max(bar.get_height() for bar in figure.axes[k].patches) for k in (1, 3)]
    assert highest[0] != highest[1]
    for k in (1, 3):
        assert figure.axes[k].get_ylim() == pytest.approx((0, min(1, 1.05 * max(highest))))
    sweep = TemperatureSweepDisplay.from_estimator(
        calibrator, Z, y, ax=Figure().subplots(2), **params
    )
    loss, error = figure.axes[4:6]
    assert loss.get_title() == "Logits divided by T"
    loss.set_title("")
    for ax, expected in zip((loss, error), sweep.axes_, strict=True):
        assert_same(ax, expected)
        assert ax.get_ylabel() == expected.get_ylabel()
    texts = [text.get_text() for text in loss.get_legend().get_texts()]
    assert texts == [text.get_text() for text in sweep.ax_.get_legend().get_texts()]
