"""Bars of the worst segments: their order, colours, names, and room."""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest
from drawing import partly_slow
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression

from skcalib._output.theme import Theme, contrast
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
        theme = Theme.of(display.ax_)
        full = theme.model(0)
    bars = display.bars_
    np.testing.assert_allclose([bar.get_width() for bar in bars], result.gap[:5])
    (segments,) = display.intervals_[2]
    ends = [line[:, 0] for line in segments.get_segments()]
    np.testing.assert_allclose(ends, np.c_[result.low, result.high][:5])
    for bar, low, high in zip(bars, result.low, result.high, strict=False):
        assert (to_rgb(bar.get_facecolor()) == full) == (low > 0 or high < 0)
    assert contrast(bars[0].get_facecolor(), theme.background) >= 3
    assert display.ax_.get_title() == f"model (p = {result.pvalue:.3g})"
    names = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert "the 7." in names[0]
    assert f"{result.n_samples[0]} rows" in names[0]
    top, bottom = (display.ax_.transData.transform((0, k))[1] for k in (0, 1))
    assert top > bottom  # the worst is on top


@pytest.mark.parametrize(
    ("size", "kind"), partly_slow([(3.3, 2), (6.4, 5), (8, 2)], ["binary", "classwise"], quick=2)
)
def test_names_have_room(size, kind):
    figure = Figure(figsize=size, layout="constrained")
    display = SegmentDisplay.from_predictions(
        Y, P, CATEGORY, **DRAWN, kind=kind, name="A model", ax=figure.subplots()
    )
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in display.ax_.get_yticklabels()]
    assert all(0 <= box.x0 and box.x1 <= display.ax_.get_window_extent().x0 for box in boxes)
    assert all(upper.y0 >= lower.y1 - 1 for upper, lower in pairwise(boxes))
    assert display.ax_.get_window_extent().width > 0.3 * figure.bbox.width
    title = display.ax_.title.get_window_extent()
    assert title.x0 >= 0
    assert title.x1 <= figure.bbox.width


def test_from_estimator():
    X = np.c_[P, RNG.integers(0, 3, size=N)]
    names = np.array(["no", "yes"])[Y.astype(int)]
    model = LogisticRegression().fit(X, names)
    for features in (None, CATEGORY):
        display = SegmentDisplay.from_estimator(model, X, names, features=features, **DRAWN)
        of = X if features is None else features
        expected = multicalibration_error(names, model.predict_proba(X), of, **DRAWN)
        np.testing.assert_array_equal(display.result.gap, expected.gap)
    assert display.ax_.get_title().startswith("LogisticRegression (p")


def test_number_of_segments():
    with pytest.raises(ValueError, match="n_segments must be"):
        SegmentDisplay.from_predictions(Y, P, CATEGORY, n_segments=0, n_resamples=1)
