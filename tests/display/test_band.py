"""Consistency bands agree with binomial quantiles and with simulated regressions."""

from functools import partial

import numpy as np
import pytest
from drawing import band_of, slow
from matplotlib.figure import Figure
from sklearn.isotonic import IsotonicRegression

from skcalib import ReliabilityDisplay


def drawn(y, p, **params):
    make = partial(ReliabilityDisplay.from_predictions, kind="binary", style="corp")
    return make(y, p, ax=Figure().subplots(), **params)


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
