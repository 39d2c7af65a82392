"""Curves of decisions: their values, their bands, several models on the same axes."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from drawing import in_legend
from matplotlib.figure import Figure
from scipy.special import softmax

from skcalib import ReliabilityDisplay
from skcalib.clinical import NetBenefitDisplay, net_benefit_curve
from skcalib.datasets import make_logits
from skcalib.decision import RiskCoverageDisplay, risk_coverage_curve

Z, Y = make_logits(300, 3, temperature=2.0, random_state=0)
P = softmax(Z, axis=1)
W = np.random.default_rng(0).integers(0, 3, 300).astype(float)
TWO = {"kind": "binary", "labels": [False, True]}


def drawn(y=Y, p=P, **params):
    params = {"ax": Figure().subplots(), "n_resamples": 19} | params
    return RiskCoverageDisplay.from_predictions(y, p, **params)


@pytest.mark.parametrize("kind", ["top-label", "binary"])
@pytest.mark.parametrize("weight", [None, W])
def test_line_is_the_curve_in_steps(kind, weight):
    given = {"sample_weight": weight} | (TWO if kind == "binary" else {})
    y, p = (Y == 0, P[:, 0].round(1)) if kind == "binary" else (Y, P)
    curve = risk_coverage_curve(y, p, **given)
    display = drawn(y, p, name="A", **given)
    x, risk = display.line_.get_data()
    assert np.sum(np.diff(x) * risk[1:]) == pytest.approx(curve.area, rel=1e-6)
    for coverage, value in zip(curve.coverage, curve.risk, strict=True):
        assert risk[np.searchsorted(x, coverage - 1e-9)] == pytest.approx(value)
    assert f"A (AURC {curve.area:.3g})" in in_legend(display.ax_)
    assert display.ax_.get_xlim() == (0, 1)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("Coverage", "Risk")


def test_band_has_the_standard_error_of_a_mean_at_full_coverage():
    display = drawn(n_resamples=2000, confidence_level=0.9)
    points = display.band_.get_paths()[0].vertices
    low, high = np.ptp(points[np.isclose(points[:, 0], 1)], axis=0)
    wrong = display.curve.risk[-1]
    assert low == 0
    assert high == pytest.approx(2 * 1.645 * np.sqrt(wrong * (1 - wrong) / 300), rel=0.1)
    assert "90 % confidence band" in in_legend(display.ax_)
    assert drawn(confidence_level=None).band_ is None
    without_rows = RiskCoverageDisplay(display.curve).plot(Figure().subplots())
    assert without_rows.band_ is None


@pytest.mark.parametrize("display", [RiskCoverageDisplay, NetBenefitDisplay])
def test_bands_resample_whole_groups(display):
    p = np.sort(P[:, 0])
    y, groups = np.random.default_rng(0).uniform(size=300) < p, np.arange(300).repeat(6)
    params = {"ax": None, "n_resamples": 9, "random_state": 0}
    params |= {"kind": "binary"} if display is RiskCoverageDisplay else {}
    once = display.from_predictions(y, p, **params)
    copied = display.from_predictions(y.repeat(6), p.repeat(6), groups=groups, **params)
    bands = [shown.band_.get_paths()[0].vertices for shown in (once, copied)]
    np.testing.assert_allclose(*bands, atol=1e-12)


@pytest.mark.filterwarnings("ignore::families.ColumnOrderWarning")
def test_models_on_the_same_axes():
    first = drawn(name="A")
    second = drawn(p=softmax(-Z, axis=1), name="B", ax=first.ax_)
    assert first.line_.get_color() != second.line_.get_color()
    assert len(in_legend(first.ax_)) == 3  # one of them for both bands
    assert first.ax_.get_ylim()[1] >= second.curve.risk[second.curve.coverage > 0.05].max()
    before = first.ax_.get_ylim()
    drawn(p=np.eye(3)[Y], ax=first.ax_)  # without an error
    assert first.ax_.get_ylim() == before
    reliability = ReliabilityDisplay.from_predictions(
        Y, P, style="dots", ax=Figure().subplots(), counts=False
    )
    with pytest.raises(ValueError, match="same diagram"):
        drawn(ax=reliability.ax_)


@pytest.mark.parametrize("standardized", [False, True])
@pytest.mark.parametrize("weight", [None, W])
def test_decision_curve_has_its_references(standardized, weight):
    given = {"sample_weight": weight, "standardized": standardized, "thresholds": [0.1, 0.3, 0.6]}
    curve = net_benefit_curve(Y == 0, P[:, 0], **given)
    first = NetBenefitDisplay.from_predictions(
        Y == 0, P[:, 0], name="A", ax=Figure().subplots(), n_resamples=19, **given
    )
    ax = first.ax_
    second = NetBenefitDisplay.from_predictions(Y == 0, P[:, 0] ** 2, name="B", ax=ax, **given)
    lines = {line.get_label(): line.get_xydata() for line in ax.lines}
    assert [*lines] == ["A", "Treat all", "Treat none", "B"]
    for name, values in (
        ("A", curve.net_benefit), ("Treat all", curve.treat_all), ("Treat none", [0, 0, 0]),
        ("B", second.curve.net_benefit),
    ):  # fmt: skip
        np.testing.assert_allclose(lines[name], np.column_stack([curve.threshold, values]))
    assert in_legend(ax) == ["A", "95 % confidence band", "B", "Treat all", "Treat none"]
    assert ax.get_ylabel() == ("Standardized net benefit" if standardized else "Net benefit")
    low, high = ax.get_ylim()
    assert low < 0 < max(curve.net_benefit.max(), curve.treat_all.max()) < high
    ends = first.band_.get_paths()[0].vertices
    assert ends[:, 1].max() <= high
    assert first.line_.get_color() != second.line_.get_color()
    for t, benefit in zip(curve.threshold, curve.net_benefit, strict=True):
        of_t = ends[np.isclose(ends[:, 0], t), 1]
        assert of_t.min() < benefit < of_t.max()
    with pytest.raises(ValueError, match="same diagram"):
        drawn(ax=ax)


def test_decision_curve_without_events():
    params = {"labels": [False, True], "ax": Figure().subplots(), "n_resamples": 3}
    display = NetBenefitDisplay.from_predictions(Y == 7, P[:, 0], **params)
    assert display.ax_.get_ylim() == (-0.15, 1)


def test_curves_of_decisions_are_for_one_event():
    with pytest.raises(ValueError, match="two classes, got 3"):
        NetBenefitDisplay.from_predictions(Y, P)
    with pytest.raises(ValueError, match="kind"):
        RiskCoverageDisplay.from_predictions(Y, P, kind="classwise")
    assert not plt.get_fignums()
