"""Bars of the worst segments: their order, colours and names."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression

from skcalib.conditional import SegmentDisplay, multicalibration_error

RNG = np.random.default_rng(0)
N = 3000
CATEGORY = RNG.choice([f"a category with a long name, the {k}." for k in range(30)], size=N)
P = RNG.uniform(size=N)
Y = RNG.uniform(size=N) < np.where(np.char.endswith(CATEGORY, "the 7."), P**3, P)
DRAWN = {"n_resamples": 99, "random_state": 0}


@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_bars_are_the_worst_segments(style):
    result = multicalibration_error(Y, P, CATEGORY, **DRAWN)
    with plt.style.context(style):
        display = SegmentDisplay.from_predictions(
            Y, P, CATEGORY, **DRAWN, n_segments=5, name="model"
        )
        full = to_rgb("C0")
    bars = display.bars_
    np.testing.assert_allclose([bar.get_width() for bar in bars], result.gap[:5])
    (segments,) = display.intervals_[2]
    ends = [line[:, 0] for line in segments.get_segments()]
    np.testing.assert_allclose(ends, np.c_[result.low, result.high][:5])
    for bar, low, high in zip(bars, result.low, result.high, strict=False):
        assert to_rgb(bar.get_facecolor()) == full
        assert (bar.get_facecolor()[3] == 1) == (low > 0 or high < 0)
    assert display.ax_.get_title() == f"model (p = {result.pvalue:.3g})"
    names = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert "the 7." in names[0]
    assert f"{result.n_samples[0]} rows" in names[0]
    top, bottom = (display.ax_.transData.transform((0, k))[1] for k in (0, 1))
    assert top > bottom  # the worst is on top
    plt.close("all")


def test_several_classes_and_long_names():
    long = np.char.add(CATEGORY, " and some more letters than there is room for")
    display = SegmentDisplay.from_predictions(
        Y, P, long, **DRAWN, kind="classwise", ax=Figure().subplots(), color="#123456"
    )
    names = [label.get_text().split("\n")[0] for label in display.ax_.get_yticklabels()]
    assert names[0].startswith(("False: ", "True: "))
    assert max(map(len, names)) == 40
    assert to_rgb(display.bars_[0].get_edgecolor()) == to_rgb("#123456")
    with pytest.raises(ValueError, match="ax must be matplotlib Axes or None"):
        SegmentDisplay(display.result).plot(Figure())


def test_estimators_are_drawn_as_their_predictions_with_groups():
    X = np.c_[P, RNG.integers(0, 3, size=N)]
    names = np.array(["no", "yes"])[Y.astype(int)]
    model = LogisticRegression().fit(X, names)
    groups = np.arange(N) // 5
    for features in (None, CATEGORY):
        given = DRAWN | ({} if features is None else {"groups": groups})
        display = SegmentDisplay.from_estimator(model, X, names, features=features, **given)
        of = X if features is None else features
        expected = multicalibration_error(names, model.predict_proba(X), of, **given)
        np.testing.assert_array_equal(display.result.low, expected.low)
        np.testing.assert_array_equal(display.result.gap, expected.gap)
    assert display.ax_.get_title().startswith("LogisticRegression (p")
    assert repr(display).startswith("<SegmentDisplay of LogisticRegression: largest gap")


def test_number_of_segments():
    with pytest.raises(ValueError, match="n_segments must be"):
        SegmentDisplay.from_predictions(Y, P, CATEGORY, n_segments=0, n_resamples=1)
