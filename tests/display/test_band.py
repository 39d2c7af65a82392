"""The band of a calibrated model: where its curve would lie, worked out in other ways."""

from functools import partial

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.stats import binom
from sklearn.isotonic import IsotonicRegression

from skcalib import ReliabilityDisplay


def band_of(display):
    """Scores, lower and upper end of the band."""
    points = display.band_.get_paths()[0].vertices
    x = np.unique(points[:, 0])
    ends = [points[points[:, 0] == at, 1] for at in x]
    return x, np.array([e.min() for e in ends]), np.array([e.max() for e in ends])


def drawn(y, p, **params):
    make = partial(ReliabilityDisplay.from_predictions, kind="binary", style="corp")
    return make(y, p, ax=Figure().subplots(), **params)


SCORES = np.array([0.1, 0.35, 0.6, 0.85])
EACH = 400  # rows of each score: so many that frequencies never change places


def chances(score, weights, at):
    """Chance of a weighted frequency below, and of one of no more than, a number.

    ``EACH / 2`` rows have the first of the weights and as many the second.
    """
    hits = np.arange(EACH // 2 + 1)
    chance = binom.pmf(hits, EACH // 2, score)
    frequency = np.add.outer(weights[0] * hits, weights[1] * hits) / (EACH // 2 * sum(weights))
    chance = np.outer(chance, chance)
    return chance[frequency < at - 1e-9].sum(), chance[frequency < at + 1e-9].sum()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("weights", "level"),
    [((1, 1), 0.5), ((1, 1), 0.95), ((1, 9), 0.9), ((0, 2), 0.5), ((0, 2), 0.95)],
)
def test_ends_are_quantiles_of_binomial_frequencies(weights, level):
    """Of scores far apart, where no frequency is pooled with another, they are known exactly."""
    p = np.repeat(SCORES, EACH)
    w = None if weights == (1, 1) else np.tile(weights, 2 * EACH)
    n = 3000
    y = np.arange(len(p)) // 2 % 2
    display = drawn(y, p, sample_weight=w, confidence_level=level, n_resamples=n)
    x, low, high = band_of(display)
    for tail, ends in (((1 - level) / 2, low), ((1 + level) / 2, high)):
        error = 4 * np.sqrt(tail * (1 - tail) / n)
        for score in SCORES:
            below, up_to = chances(score, weights, ends[x == score].item())
            assert below - error < tail < up_to + error
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert f"{100 * level:g} % band if calibrated" in labels


@pytest.mark.parametrize("kind", ["binary", "top-label"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [1, 2, 60, 600])
def test_band_is_that_of_simulated_regressions(rng, kind, weighted, n):
    p = rng.uniform(size=n).round(2)
    y = np.arange(n) % 2
    w = rng.integers(1, 4, size=n) if weighted else None
    params = {"sample_weight": w, "n_resamples": 15, "random_state": 3, "confidence_level": 0.8}
    display = drawn(y, p, kind=kind, labels=[0, 1], **params)
    x, low, high = band_of(display)
    score = np.maximum(p, 1 - p) if kind == "top-label" else p
    random = np.random.RandomState(3)
    curves = []
    for _ in range(15):
        hit = random.uniform(size=n) < score
        curves.append(IsotonicRegression().fit(score, hit, w).predict(x))
    expected = np.quantile(curves, [0.1, 0.9], axis=0)
    np.testing.assert_allclose([low, high], expected, rtol=1e-9, atol=1e-12)
    assert (x[0], x[-1]) == (score.min(), score.max())
    if n < 100:  # more are thinned out
        assert max(np.abs(x - s).min() for s in score) < 1e-12


def test_band_has_places_all_along_the_scores():
    """Where there are hardly any rows it is as wide as elsewhere, so it needs corners there."""
    p = np.append(np.linspace(0.01, 0.02, 500), 0.99)
    x, _, _ = band_of(drawn(np.arange(501) % 2, p, n_resamples=3))
    assert np.diff(x).max() < 0.011
    assert np.sum(x <= 0.02) >= 95


def test_rows_without_weight_are_not_in_the_band(rng):
    p, y = rng.uniform(size=80), rng.integers(2, size=80)
    w = np.where(p < 0.3, 0.0, rng.integers(1, 4, size=80))
    with_them = drawn(y, p, sample_weight=w, n_resamples=9)
    without = drawn(y[w > 0], p[w > 0], sample_weight=w[w > 0], n_resamples=9)
    np.testing.assert_array_equal(band_of(with_them), band_of(without))


def test_scale_of_weights_does_not_matter(rng):
    p, y, w = rng.uniform(size=80), rng.integers(2, size=80), rng.integers(1, 4, size=80)
    one, other = (drawn(y, p, sample_weight=c * w, n_resamples=9) for c in (1.0, 4.0))
    np.testing.assert_allclose(band_of(one), band_of(other), rtol=1e-12)


@pytest.mark.slow
def test_band_is_where_calibrated_models_lie(rng):
    p = rng.uniform(size=2000)
    make = partial(ReliabilityDisplay.from_predictions, kind="binary", style="corp")
    x, low, high = band_of(make(rng.uniform(size=2000) < p, p))
    assert np.mean((low <= x) & (x <= high)) > 0.95
    assert np.mean(high - low) < 0.2
    display = make(rng.uniform(size=2000) < p, p)
    inside = [np.interp(x, *display.line_.get_data())]
    assert np.mean((low <= inside) & (inside <= high)) > 0.8
    x, low, high = band_of(display := make(rng.uniform(size=2000) < p**3, p))
    curve = np.interp(x, *display.line_.get_data())
    assert np.mean((low <= curve) & (curve <= high)) < 0.3


@pytest.mark.slow
def test_band_follows_level_weights_and_seed(rng):
    p, w = rng.uniform(size=300), rng.integers(3, size=300)
    y = rng.uniform(size=300) < p
    make = partial(
        ReliabilityDisplay.from_predictions, y, p, kind="binary", style="corp", sample_weight=w
    )
    x, low, high = band_of(make())
    _, low_again, high_again = band_of(make())
    assert np.array_equal(low, low_again)
    assert np.array_equal(high, high_again)
    assert not np.array_equal(low, band_of(make(random_state=1))[1])
    _, low_half, high_half = band_of(make(confidence_level=0.5))
    assert np.all((low <= low_half) & (high_half <= high))
    assert x[0] == p[w > 0].min()
    assert make(confidence_level=None).band_ is None
