"""Smoothing of the softmax family, and temperature scaling of separable rows."""

import inspect

import families
import numpy as np
import pytest
from families import CALIBRATORS, quick, quiet
from hypothesis import given, strategies as st
from scipy.special import softmax
from test_temperature import smoothed_targets

from skcalib import (
    BetaCalibration,
    EnsembleTemperatureScaling,
    MatrixScaling,
    SplineCalibration,
    TemperatureScaling,
    VectorScaling,
)
from skcalib.base import unmixed_logits
from skcalib.datasets import make_logits
from skcalib.scaling import QuadraticScaling

# Calibrators with a parameter that sets the share of the uniform distribution.
SMOOTHED = [
    kind
    for kind in CALIBRATORS
    if "smoothing_ : float" in inspect.getdoc(kind)
    and "smoothing" in kind().get_params()
    and kind._is_smoothed
]
every = pytest.mark.parametrize("kind", SMOOTHED)


def separable(n_samples, n_classes, *, scale=1.0, seed=0):
    """Logits with the largest value in the column of the label."""
    random = np.random.default_rng(seed)
    spread = random.uniform(0.1, 4, size=(n_samples, 1))
    Z = scale * spread * random.normal(size=(n_samples, n_classes))
    return Z, Z.argmax(axis=1)


def temperature(Z, y, w=None):
    classes = range(max(Z.shape[1], 2))
    return quiet(TemperatureScaling(classes=classes), Z, y, w).temperature_


# --------------------------------------------------------------------------------------
# Laws.


@pytest.mark.parametrize("kind", quick(SMOOTHED))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("smoothing", ["auto", 0.999])
@pytest.mark.parametrize("n_classes", [1, 5])
def test_no_probability_is_below_its_share(kind, dtype, smoothing, n_classes):
    K = max(n_classes, 2)
    Z, y = make_logits(400, K, temperature=0.1, dtype=dtype, random_state=0)
    Z = Z[:, :1] - Z[:, 1:] if n_classes == 1 else Z
    y = 1 - y if n_classes == 1 else y
    c = kind(smoothing=smoothing).fit(Z, y)
    eps = c.smoothing_
    assert type(eps) is float
    assert eps == (pytest.approx(1 / 401) if smoothing == "auto" else smoothing)
    wide = np.array([1e4], dtype) * Z
    P = c.predict_proba(wide)
    assert P.min() >= eps / K * (1 - 1e-5)
    assert P.max() <= (1 - eps + eps / K) * (1 + 1e-5)
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(c.predict_log_proba(wide), np.log(P), rtol=1e-4, atol=1e-6)
    T = c.transform(wide)
    assert T.shape == Z.shape
    assert T.dtype == dtype
    assert np.isfinite(T).all()


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_mixture_of_probabilities_is_the_formula(kind, dtype):
    Z, y = make_logits(400, 5, offset=[0, 1, 0, 0, -1], dtype=dtype, random_state=0)
    c = kind(smoothing=0.1).fit(Z, y)
    mixed = c.predict_proba(Z)
    plain = softmax(unmixed_logits(c, Z)[0], axis=1)
    np.testing.assert_allclose(mixed, 0.9 * plain + 0.1 / 5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("smoothing", ["auto", 0.5, 1 - 1e-9])
def test_smoothing_of_temperature_scaling_changes_no_prediction(dtype, smoothing):
    """Rounding may make smoothed probabilities equal without a change of prediction."""
    Z, y = make_logits(2000, 10, dtype=dtype, random_state=0)
    top = Z.argmax(axis=1)
    close = np.nextafter(Z[np.arange(2000), top], np.asarray(-np.inf, dtype))
    Z[np.arange(2000), top - 1] = close
    plain, mixed = (TemperatureScaling(smoothing=s).fit(Z, y) for s in (0, smoothing))
    assert mixed.temperature_ == plain.temperature_
    assert np.array_equal(mixed.predict(Z), plain.predict(Z))


# --------------------------------------------------------------------------------------
# Separable rows: the optimum for smoothed targets.


@pytest.mark.slow
@given(
    n_samples=st.integers(3, 60),
    n_classes=st.integers(2, 8),
    scale=st.sampled_from([1e-8, 1.0, 1e5]),
    weighted=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_separable_rows_have_the_temperature_of_smoothed_targets(
    n_samples, n_classes, scale, weighted, seed
):
    Z, y = separable(n_samples, n_classes, scale=scale, seed=seed)
    if np.unique(y).size < 2:
        Z[0], y[0] = np.roll(Z[0], 1), (y[0] + 1) % n_classes
    w = np.random.default_rng(seed).uniform(0.1, 3, n_samples) if weighted else None
    assert temperature(Z, y, w) == pytest.approx(scale * smoothed_targets(Z / scale, y, w), 1e-6)


@pytest.mark.parametrize("kind", [VectorScaling, MatrixScaling])
@pytest.mark.parametrize(("n_samples", "n_classes"), [(30, 2), (1000, 2), (100, 10), (400, 60)])
def test_maps_of_separable_rows_have_a_minimum(kind, n_samples, n_classes, recwarn):
    """And where a later row is wrong, its loss is moderate."""
    Z, y = separable(n_samples, n_classes)
    c = kind(classes=range(n_classes)).fit(Z, y)  # else it warns that it has not converged
    assert not recwarn
    logs = c.predict_log_proba(10 * Z)
    assert logs.min() >= np.log(c.smoothing_ / n_classes) - 1e-9
    again = quiet(TemperatureScaling(classes=range(n_classes)), Z, y)
    assert c.temperature_ == again.temperature_
    assert np.mean(c.predict(Z) == y) > 0.95


@pytest.mark.filterwarnings("ignore:The log loss has no minimum")
@pytest.mark.parametrize("kind", [TemperatureScaling, EnsembleTemperatureScaling])
def test_small_weights_of_separable_rows_warn(kind):
    """Whose targets are smoothed by the sum of the weights."""
    Z, y = separable(60, 3)
    with pytest.warns(families.SmallWeightsWarning):
        kind(smoothing=0).fit(Z, y, np.full(60, 1 / 60))


@pytest.mark.parametrize("kind", [SplineCalibration, BetaCalibration, QuadraticScaling])
def test_a_masked_class_leaves_its_share_to_the_others(kind):
    """A share of one half per class is nearer to even than a share of one third."""
    Z, y = make_logits(300, 3, random_state=0)
    X = np.array([[1, 2, -np.inf], [1, 2, -1e5]])
    L = kind(smoothing=0.3).fit(Z, y).predict_log_proba(X)
    masked, unlikely = L[:, 1] - L[:, 0]
    assert 0 < masked < unlikely - 0.05
