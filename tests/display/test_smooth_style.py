"""The smooth curve, its band and its artists agree with the smECE and with the rows."""

from functools import partial

import numpy as np
import pytest
from drawing import band_of, in_legend
from matplotlib.figure import Figure
from scipy.stats import norm
from sklearn.isotonic import IsotonicRegression

from skcalib import ReliabilityDisplay
from skcalib._input.measures import Scored
from skcalib._scores.kernel import SmoothCurve
from skcalib.display._curves import drawn_curve
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
    return {
        "rows": (y, p, None),
        "weights": (y, p, rng.exponential(size=len(p))),
        "zero weights": (y, p, rng.integers(0, 3, size=len(p))),
        "huge weights": (y, p, 1e99 * rng.uniform(size=len(p))),
        "ties": (y, p.astype(np.float32).round(1), None),
        "equal scores": (y, np.full(len(p), 0.7), None),
        "certain": (np.append(y, 0), np.append((p > 0.5).astype(float), 1.0), None),
        "one row at an end": ([1], [0.0], None),
        "two rows": ([1, 0], [0.2, 0.9], None),
        "skewed": (y, 1 - (1 - p) ** 8, None),
        "calibrated": (rng.uniform(size=len(p)) < p, p, None),
    }


DATA = data()
every_data = pytest.mark.parametrize(("y", "p", "w"), DATA.values(), ids=DATA)


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


@every_data
def test_the_drawn_line_is_the_curve_of_the_rows(y, p, w):
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


@pytest.mark.parametrize("band", ["confidence", "consistency"])
@pytest.mark.parametrize("style", ["smooth", "corp"])
def test_bands_are_quantiles_of_curves_of_simulated_samples(style, band):
    """With the bandwidth of the curve, here by the literal formula for each sample.

    A band of confidence draws rows again, a band of consistency draws calibrated events.
    """
    y, p = sample(150)
    weight, order = np.random.default_rng(5).exponential(size=150), np.argsort(p)
    params = {"n_resamples": 12, "confidence_level": 0.8, "random_state": 3, "band": band}
    display = drawn(y, p, weight, style=style, **params)
    x, low, high = band_of(display)
    curve, random = SmoothCurve.of(*scored(y, p, weight)[1:]), np.random.RandomState(3)
    K, found = literal_kernel(x, p, curve.bandwidth), []
    for _ in range(12):
        w, events = weight.copy(), y
        if band == "confidence":
            w[order] *= np.bincount(random.randint(150, size=150), minlength=150)
        else:
            events = random.uniform(size=150) < p
        if style == "corp":
            found.append(IsotonicRegression(out_of_bounds="clip").fit(p, events, w).predict(x))
        else:
            found.append(np.clip(x + K @ (w * (events - p)) / (K @ w), 0, 1))
    expected = np.quantile(found, [0.1, 0.9], axis=0)
    inner = (x > 0.05) & (x < 0.95)
    tolerance = 2e-3 if style == "smooth" else 1e-9
    np.testing.assert_allclose([low[inner], high[inner]], expected[:, inner], atol=tolerance)
    if band == "confidence":
        assert "80 % confidence band" in in_legend(display.ax_)
