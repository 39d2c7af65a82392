"""Bars of the worst segments: their order, colours and names."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

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


def test_several_classes_and_long_names():
    long = np.char.add(CATEGORY, " and some more letters than there is room for")
    display = SegmentDisplay.from_predictions(
        Y, P, long, **DRAWN, kind="classwise", ax=Figure().subplots(), color="#123456"
    )
    names = [label.get_text().split("\n")[0] for label in display.ax_.get_yticklabels()]
    assert names[0].startswith(("False: ", "True: "))
    assert max(map(len, names)) == 40
    assert to_rgb(display.bars_[0].get_edgecolor()) == to_rgb("#123456")
    with pytest.raises(ValueError, match="n_segments"):
        SegmentDisplay.from_predictions(Y, P, CATEGORY, n_segments=0, n_resamples=1)
