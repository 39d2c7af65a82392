"""The smooth curve, its band and its artists agree with the smECE and with the rows."""

from functools import partial

import numpy as np
import pytest
from drawing import band_of, in_legend
from matplotlib.figure import Figure
from scipy.stats import binom, norm
from sklearn.isotonic import IsotonicRegression

from skcalib import ReliabilityDisplay
from skcalib._input.measures import Scored
from skcalib._scores.kernel import SmoothCurve
from skcalib.display._curves import confidence_band, consistency_band, drawn_curve
from skcalib.metrics import smooth_calibration_error

BINARY = {"kind": "binary", "labels": [0, 1]}


def sample(n=400, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.uniform(size=n)
    return (rng.uniform(size=n) < p**2).astype(int), p


def data():
    """Labels, scores and weights of every sort."""
    y, p = sample()
    rng = np.random.default_rng(1)
    cases = {
        "rows": (y, p, None),
        "weights": (y, p, rng.exponential(size=len(p))),
        "zero weights": (y, p, rng.integers(0, 3, size=len(p))),
        "huge weights": (y, p, 1e99 * rng.uniform(size=len(p))),
        "tiny weights": (y, p, 1e-99 * rng.uniform(size=len(p))),
        "ties": (y, p.round(1), None),
        "float32": (y, p.astype(np.float32), None),
        "equal scores": (y, np.full(len(p), 0.7), None),
        "few values": (y, np.where(p < 0.5, 0.05, 0.9), None),
        "certain": (np.append(y, 0), np.append((p > 0.5).astype(float), 1.0), None),
        "one row": ([1], [0.6], None),
        "one row at an end": ([1], [0.0], None),
        "two rows": ([1, 0], [0.2, 0.9], None),
        "skewed": (y, 1 - (1 - p) ** 8, None),
        "rare": (y, p**8, None),
        "calibrated": (np.random.default_rng(2).uniform(size=len(p)) < p, p, None),
        "right": ([0, 1], [0.0, 1.0], None),
    }
    n = 1_000_000
    p = rng.uniform(size=n)
    return {**cases, "a million": (rng.uniform(size=n) < p, p, None)}


DATA = data()
FEW = {name: case for name, case in DATA.items() if len(case[1]) < 1000}
every_data = pytest.mark.parametrize(("y", "p", "w"), DATA.values(), ids=DATA)
DRAWN = {"rows", "zero weights", "equal scores", "certain", "two rows", "skewed"}  # in quick tests
every_few = pytest.mark.parametrize(
    ("y", "p", "w"),
    [
        pytest.param(*case, id=name, marks=() if name in DRAWN else pytest.mark.slow)
        for name, case in FEW.items()
    ],
)


def scored(y, p, w=None):
    p = np.asarray(p, dtype=float)
    if w is None:
        return Scored(None, p, np.asarray(y) == 1, None)
    w = np.asarray(w, dtype=float)
    return Scored(None, p[w > 0], (np.asarray(y) == 1)[w > 0], w[w > 0])


def drawn(y, p, w=None, ax=None, **params):
    ax = Figure(figsize=(5, 6)).subplots() if ax is None else ax
    make = partial(ReliabilityDisplay.from_predictions, style="smooth", sample_weight=w, ax=ax)
    return make(y, p, **{**BINARY, "n_resamples": 10, **params})


def literal_kernel(places, score, bandwidth):
    """In a row for each place the kernel of each score, reflected at 0 and 1."""
    images = [2 * k + sign * score for k in range(-2, 3) for sign in (-1, 1)]
    return sum(norm.pdf(places[:, None], image, bandwidth) for image in images)


def area(curve):
    """Mean distance between the curve and the diagonal, weighted by the density."""
    return np.mean(np.abs(curve.value - curve.score) * curve.density)


# The curve. -----------------------------------------------------------------------------------


@every_data
def test_area_between_curve_and_diagonal_is_the_error(y, p, w):
    curve = SmoothCurve.of(*scored(y, p, w)[1:])
    error = smooth_calibration_error(y, p, sample_weight=w, **BINARY)
    assert curve.error == pytest.approx(error, abs=1e-9)
    assert curve.bandwidth == max(curve.error, 0.01)
    assert np.mean(curve.density) == pytest.approx(1)
    if error > 0.01:
        assert area(curve) == pytest.approx(error, abs=1e-6)
    else:
        # A wider kernel can only cancel more of the residuals.
        assert area(curve) <= error + 1e-6


def test_the_curve_of_a_calibrated_model_does_not_wave():
    """With the smECE as the bandwidth its way up and down around the diagonal is 1.2."""
    rng, ways = np.random.default_rng(0), []
    for _ in range(10):
        p = rng.beta(0.3, 0.3, size=5000)
        display = ReliabilityDisplay.from_predictions(
            rng.uniform(size=5000) < p, p, style="smooth", confidence_level=None
        )
        x, y = display.line_.get_data()
        ways.append(np.nansum(np.abs(np.diff(y - x))))
    assert np.mean(ways) < 0.3


@pytest.mark.parametrize("weighted", [False, True])
def test_curve_is_the_literal_formula(weighted):
    y, p = sample(60)
    w = np.random.default_rng(3).exponential(size=60) if weighted else np.ones(60)
    curve = SmoothCurve.of(*scored(y, p, w if weighted else None)[1:])
    at = np.linspace(0, len(curve.score) - 1, 23).astype(int)
    t = curve.score[at]
    K = literal_kernel(t, p, curve.bandwidth)
    density = K @ w / w.sum()
    np.testing.assert_allclose(curve.density[at], density, rtol=1e-4)
    expected = t + K @ (w * (y - p)) / w.sum() / density
    np.testing.assert_allclose(curve.value[at], expected, atol=2e-4)
    part = K / literal_kernel(t, t, curve.bandwidth).diagonal()[:, None]
    n_rows = (part @ w) ** 2 / (part @ w**2)
    np.testing.assert_allclose(curve.n_rows[at], n_rows, rtol=1e-3)


def test_weights_are_repetitions():
    y, p = sample()
    w = np.random.default_rng(4).integers(0, 4, size=len(p))
    one, other = (
        SmoothCurve.of(*scored(y, p, w)[1:]),
        SmoothCurve.of(*scored(y.repeat(w), p.repeat(w))[1:]),
    )
    assert one.error == pytest.approx(other.error)
    np.testing.assert_allclose(one.value, other.value, atol=1e-9)
    np.testing.assert_allclose(one.density, other.density, atol=1e-9)
    # Rows that are repeated count as more rows; as in intervals of bins, weights do not.
    assert np.all(one.n_rows < other.n_rows)


def test_expected_curve_of_a_calibrated_model_is_the_diagonal():
    """The density of the scores has no effect; it would bend a mean of the events."""
    p = np.linspace(0, 1, 4001) ** 6
    curve = SmoothCurve.of(*Scored(None, p, p, None)[1:])  # the event is its own probability
    np.testing.assert_allclose(curve.value, curve.score, atol=1e-12)


def drawn_pieces(display):
    """Scores of each piece of the line."""
    x = np.asarray(display.line_.get_xdata(), dtype=float)
    return [part[np.isfinite(part)] for part in np.split(x, np.flatnonzero(np.isnan(x)))]


def test_line_has_a_piece_for_each_cluster_of_three_rows_and_more():
    """Pieces reach less than 0.005 beyond the outermost scores of their cluster."""
    clusters = np.linspace(0.1, 0.14, 200), np.linspace(0.8, 0.82, 100)
    p = np.concatenate([*clusters, [0.5, 0.5]])
    y = np.random.default_rng(0).uniform(size=len(p)) < p
    display = drawn(y, p)
    pieces = drawn_pieces(display)
    assert len(pieces) == 2
    for piece, cluster in zip(pieces, clusters, strict=True):
        assert 0.003 < cluster[0] - piece[0] < 0.005
        assert 0.003 < piece[-1] - cluster[-1] < 0.005
        assert 0 < np.diff(piece).min() <= np.diff(piece).max() < 0.0021
    # A wide kernel bridges the distance between the clusters.
    (piece,) = drawn_pieces(drawn(np.ones(len(p)), p))
    assert piece[0] < 0.1
    assert piece[-1] > 0.82


@pytest.mark.slow
def test_fewer_than_three_rows_have_no_curve():
    for n in (1, 2, 3):
        display = drawn(np.ones(n), np.full(n, 0.4), confidence_level=0.9)
        assert bool(len(display.line_.get_xdata())) == (n == 3)
        assert bool(len(display.strokes_.get_segments())) == (n == 3)
        drawn(np.ones(n), np.full(n, 0.4), ax=display.ax_)
        assert "Model 2 (smECE 0.600)" in in_legend(display.ax_)


# The band. ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("w", [None, 3.0])
def test_band_of_equal_scores_has_binomial_ends(w):
    n, score, level, draws = 40, 0.5, 0.9, 600
    # The number of events is as expected, so the kernel is narrow and shows misplaced noise.
    rows = scored(np.arange(n) < 20, np.full(n, score), None if w is None else np.full(n, w))
    curve = drawn_curve(rows)
    x, *found = consistency_band(rows, curve, level, draws, 0)
    at = np.abs(x - score).argmin()
    for tail, end in zip(((1 - level) / 2, (1 + level) / 2), found, strict=True):
        hits = n * (end[at] + score - x[at])
        error = 4 * np.sqrt(tail * (1 - tail) / draws)
        assert binom.cdf(hits - 1e-3 - 0.5, n, score) - error < tail
        assert tail < binom.cdf(hits + 1e-3 + 0.5, n, score) + error


@pytest.mark.slow
def test_band_has_the_variance_of_weighted_rows():
    """Rows of different weights fall into one cell, so the number of rows is rounded."""
    rng = np.random.default_rng(5)
    p, w = np.repeat([0.3, 0.6], 300), rng.exponential(size=600)
    rows = scored(rng.uniform(size=600) < 0.2, p, w)
    curve = drawn_curve(rows)
    x, low, high = consistency_band(rows, curve, 0.95, 1000, 0)
    K = literal_kernel(x, p, curve.bandwidth)
    deviation = np.sqrt((K**2) @ (w**2 * p * (1 - p))) / (K @ w)
    np.testing.assert_allclose(high - low, 2 * 1.96 * deviation, rtol=0.15)


@pytest.mark.slow
def test_band_follows_seed_level_and_ratios_of_weights():
    y, p, w = DATA["weights"]
    one = band_of(drawn(y, p, w, n_resamples=50, random_state=0))
    for seed in (0, np.random.RandomState(0)):
        same = band_of(drawn(y, p, 1024.0 * w, n_resamples=50, random_state=seed))
        np.testing.assert_allclose(one, same)
    assert not np.allclose(one, band_of(drawn(y, p, w, n_resamples=50, random_state=1)))
    display = drawn(y, p, w, n_resamples=50, confidence_level=0.5, random_state=0)
    _, low_half, high_half = band_of(display)
    assert np.all((one[1] <= low_half) & (high_half <= one[2]))
    assert np.mean(high_half - low_half) < 0.6 * np.mean(one[2] - one[1])
    assert "50 % band if calibrated" in in_legend(display.ax_)
    assert drawn(y, p, confidence_level=None).band_ is None


# The artists. ---------------------------------------------------------------------------------


@every_few
def test_artists_hold_the_curve(y, p, w):
    display = drawn(y, p, w, name="m")
    curve = drawn_curve(scored(y, p, w))
    x, value = display.line_.get_data()
    np.testing.assert_array_equal(x, curve.score)
    np.testing.assert_array_equal(value, np.clip(curve.value, 0, 1))
    segments = np.reshape(display.strokes_.get_segments(), (-1, 2, 2))
    points = display.line_.get_xydata()
    ends = np.stack([points[:-1], points[1:]], axis=1)
    np.testing.assert_array_equal(segments, ends[np.isfinite(x[:-1] + x[1:])])
    error = smooth_calibration_error(y, p, sample_weight=w, **BINARY)
    labels = in_legend(display.ax_)
    assert f"m (smECE {error:.3f})" in labels
    vertices = [np.empty((0, 2)), *(path.vertices for path in display.band_.get_paths())]
    vertices = np.concatenate(vertices)
    assert len(vertices) > 2 * len(segments) or not len(segments)
    assert np.all((vertices >= 0) & (vertices <= 1))
    display.figure_.draw_without_rendering()


# Confidence bands. ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("style", ["smooth", "corp"])
def test_confidence_bands_are_quantiles_of_curves_of_bootstrap_samples(style):
    """With the bandwidth of the curve, here by the literal formula for each sample."""
    y, p = sample(150)
    params = {"n_resamples": 12, "confidence_level": 0.8, "random_state": 3, "band": "confidence"}
    display = drawn(y, p, style=style, **params)
    x, low, high = band_of(display)
    curve, random = SmoothCurve.of(*scored(y, p)[1:]), np.random.RandomState(3)
    order, found = np.argsort(p), []
    K = literal_kernel(x, p, curve.bandwidth)
    for _ in range(12):
        w = np.empty(150)
        w[order] = np.bincount(random.randint(150, size=150), minlength=150)
        if style == "corp":
            found.append(IsotonicRegression(out_of_bounds="clip").fit(p, y, w).predict(x))
        else:
            found.append(np.clip(x + K @ (w * (y - p)) / (K @ w), 0, 1))
    expected = np.quantile(found, [0.1, 0.9], axis=0)
    inner = (x > 0.05) & (x < 0.95)
    tolerance = 2e-3 if style == "smooth" else 1e-9
    np.testing.assert_allclose([low[inner], high[inner]], expected[:, inner], atol=tolerance)
    assert "80 % confidence band" in in_legend(display.ax_)


@pytest.mark.slow
def test_confidence_bands_hold_the_frequency_of_a_calibrated_model():
    """At about the share of places that the guide reports for 500 rows, 92 % at a level of 95 %."""
    held = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        p = rng.uniform(size=500)
        rows = scored(rng.uniform(size=500) < p, p)
        x, low, high = confidence_band(rows, drawn_curve(rows), 0.95, 200, seed)
        held.append(np.mean((low <= x) & (x <= high)))
    assert 0.85 < np.mean(held) < 0.98
