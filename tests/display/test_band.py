"""Consistency bands agree with binomial quantiles and with simulated regressions."""

from functools import partial

import numpy as np
import pytest
from drawing import band_of, in_legend, slow
from matplotlib.figure import Figure
from scipy.stats import binom
from sklearn.isotonic import IsotonicRegression

from skcalib import ReliabilityDisplay


def drawn(y, p, **params):
    make = partial(ReliabilityDisplay.from_predictions, kind="binary", style="corp")
    return make(y, p, ax=Figure().subplots(), **params)


SCORES = np.array([0.1, 0.35, 0.6, 0.85])
EACH = 400  # rows of each score, so that the order of the frequencies never changes


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
    """Quantiles are known exactly for scores far apart, where no frequencies are pooled."""
    p = np.repeat(SCORES, EACH)
    w = None if weights == (1, 1) else np.tile(weights, 2 * EACH)
    n = 3000
    y = np.arange(len(p)) // 2 % 2
    params = {"sample_weight": w, "confidence_level": level}
    display = drawn(y, p, n_resamples=n, **params)
    x, low, high = band_of(display)
    for tail, ends in (((1 - level) / 2, low), ((1 + level) / 2, high)):
        error = 4 * np.sqrt(tail * (1 - tail) / n)
        for score in SCORES:
            below, up_to = chances(score, weights, ends[x == score].item())
            assert below - error < tail < up_to + error
    assert f"{100 * level:g} % band if calibrated" in in_legend(display.ax_)


@pytest.mark.parametrize(
    ("n", "weighted", "kind"),
    [
        (1, False, "binary"), (2, True, "top-label"), (60, True, "binary"),
        *slow((60, False, "top-label"), (600, True, "top-label")),
    ],
)  # fmt: skip
def test_band_matches_simulated_regressions(rng, kind, weighted, n):
    """Rows without weight have no effect."""
    p = rng.uniform(size=n).round(2)
    y = np.arange(n) % 2
    w = np.append(1, rng.integers(4, size=n - 1)) if weighted else None
    params = {"sample_weight": w, "n_resamples": 15, "random_state": 3, "confidence_level": 0.8}
    display = drawn(y, p, kind=kind, labels=[0, 1], **params)
    x, low, high = band_of(display)
    assert drawn(y, p, kind=kind, labels=[0, 1], confidence_level=None).band_ is None
    kept = slice(None) if w is None else w > 0
    score, w = np.maximum(p, 1 - p) if kind == "top-label" else p, w if w is None else w[kept]
    score = score[kept]
    random = np.random.RandomState(3)
    curves = []
    for _ in range(15):
        hit = random.uniform(size=len(score)) < score
        curves.append(IsotonicRegression().fit(score, hit, w).predict(x))
    expected = np.quantile(curves, [0.1, 0.9], axis=0)
    np.testing.assert_allclose([low, high], expected, rtol=1e-9, atol=1e-12)
    assert (x[0], x[-1]) == (score.min(), score.max())
    if n < 100:  # more are thinned out
        assert max(np.abs(x - s).min() for s in score) < 1e-12
