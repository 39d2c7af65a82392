"""Centred isotonic regression, and the pseudo-rows that keep isotonic values off 0 and 1."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.special import logit
from sklearn.base import clone
from sklearn.isotonic import IsotonicRegression

from skcalib import HistogramBinning, IsotonicCalibration
from skcalib.datasets import make_logits

INTERPOLATIONS = ["constant", "linear", "centered"]


def centred(x, y, weight):
    """Values at ``x`` of the function fitted to frequencies ``y`` of groups of rows."""
    rows, labels = logit(np.repeat(x, 2))[:, None], np.tile([1, 0], len(x))
    w = np.stack([y * weight, (1 - y) * weight], axis=1).ravel()
    form = IsotonicCalibration(interpolation="centered", pseudo_rows=0).fit(rows, labels, w)
    return form.predict_proba(logit(x)[:, None])[:, 1]


def literal(x, y, weight):
    """Oron and Flournoy 2017 with plain loops: pool violators, with the mean of their scores."""
    points = [list(point) for point in zip(x, y, weight, strict=True)]
    while True:
        bad = [
            i
            for i, ((_, low, _), (_, high, _)) in enumerate(pairwise(points))
            if low > high or (low == high and 0 < low < 1)
        ]
        if not bad:
            break
        (x0, y0, w0), (x1, y1, w1) = points[bad[0] : bad[0] + 2]
        w = w0 + w1
        pooled = [(x0 * w0 + x1 * w1) / w, (y0 * w0 + y1 * w1) / w, w]
        points[bad[0] : bad[0] + 2] = [pooled]
    return np.interp(x, *np.array(points).T[:2])


@pytest.mark.filterwarnings("ignore::UserWarning")  # of scores that point the wrong way
@pytest.mark.parametrize("seed", range(20))
def test_centred_is_the_literal_transcription(seed):
    rng = np.random.default_rng(seed)
    m = rng.integers(1, 25)
    x = np.sort(1 + rng.choice(200, size=m, replace=False)) / 202
    y, weight = rng.integers(0, 5, size=m) / 4, rng.integers(1, 4, size=m)
    y[m // 2] = 0.5  # both labels have rows
    np.testing.assert_allclose(centred(x, y, weight), literal(x, y, weight), atol=1e-12)


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_scores_outside_the_range_of_the_fit_have_probabilities(interpolation):
    """Scores outside the range of the fit, even 0 and 1, must not give NaN."""
    rng = np.random.default_rng(0)
    z = rng.uniform(-1, 1, size=200)
    y = (rng.uniform(size=200) < 1 / (1 + np.exp(-z))).astype(int)
    form = IsotonicCalibration(interpolation=interpolation, pseudo_rows=0).fit(z[:, None], y)
    far = np.array([-700.0, -2.0, 2.0, 700.0])
    p = 1 / (1 + np.exp(-z))
    oracle = IsotonicRegression(out_of_bounds="clip").fit(p, y)
    np.testing.assert_allclose(
        form.predict_proba(far[:, None])[:, 1], oracle.predict([0, 0, 1, 1]), atol=1e-12
    )
    if interpolation != "centered":
        found = form.predict_proba(z[:, None])[:, 1]
        np.testing.assert_allclose(found, oracle.predict(p), rtol=1e-9, atol=1e-12)


# --------------------------------------------------------------------------------------
# Smoothing.


@pytest.mark.parametrize("s", [0.0, 0.5, 1.0, 2.0])
def test_pseudo_rows_move_the_outer_steps_inside(s):
    margin, y = np.arange(8.0)[:, None], np.array([0, 0, 0, 1, 0, 1, 1, 1])
    values = IsotonicCalibration(pseudo_rows=s).fit(margin, y).bin_values_[0]
    np.testing.assert_allclose(values[[0, -1]], [s / (3 + s), 3 / (3 + s)])
    np.testing.assert_allclose(values[1], 0.5)


def test_smoothing_is_two_more_rows():
    Z, y = make_logits(200, 2, random_state=0)
    margin = Z[:, 1:] - Z[:, :1]
    ends = np.vstack([margin.min(keepdims=True), margin.max(keepdims=True)])
    more = np.vstack([margin, ends]), np.append(y, [1, 0]), np.append(np.ones(200), [2.5, 2.5])
    for interpolation in INTERPOLATIONS:
        one = IsotonicCalibration(interpolation=interpolation, pseudo_rows=2.5).fit(margin, y)
        two = IsotonicCalibration(interpolation=interpolation, pseudo_rows=0).fit(*more)
        np.testing.assert_allclose(one.bin_edges_[0], two.bin_edges_[0])
        np.testing.assert_allclose(one.bin_values_[0], two.bin_values_[0])


@pytest.mark.filterwarnings("ignore:The weights of 300 rows")
@pytest.mark.parametrize(
    "calibrator",
    [
        IsotonicCalibration(),
        HistogramBinning(n_bins=4),
        HistogramBinning(n_bins=4, strategy="quantile"),
    ],
)
def test_pseudo_rows_do_not_outweigh_light_rows(calibrator):
    """A pseudo-row has the mean weight of the rows, at most 1."""
    Z, y = make_logits(300, 2, temperature=2.0, random_state=0)
    w = np.random.default_rng(0).exponential(size=300)
    w /= w.mean()
    one, light, lightest, heavy = (
        clone(calibrator).fit(Z, y, scale * w).predict_proba(Z) for scale in (1, 0.01, 1e-9, 50)
    )
    np.testing.assert_allclose(light, one)
    np.testing.assert_allclose(lightest, one)
    assert np.abs(heavy - one).max() > 1e-3
