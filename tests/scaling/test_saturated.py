"""A few rows with logits of millions and a wrong label do not determine the temperature."""

import inspect

import numpy as np
import pytest
from families import CALIBRATORS, quick
from scipy.optimize import brentq
from scipy.special import log_softmax, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from skcalib import TemperatureScaling
from skcalib.datasets import make_logits

# Calibrators that start from a temperature and have smoothing.
AROUND = [
    kind
    for kind in CALIBRATORS
    if "temperature_ : float" in inspect.getdoc(kind) and "smoothing" in kind().get_params()
]


def saturated(n_samples, n_classes, *, n_wrong=1, size=1e8, seed=0):
    """Logits with a temperature of 1.5. The first rows are saturated and wrong."""
    Z, y = make_logits(n_samples, n_classes, temperature=1.5, random_state=seed)
    Z[:n_wrong] = 0
    Z[np.arange(n_wrong), (y[:n_wrong] + 1) % n_classes] = size
    return Z, y


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("kind", quick(AROUND))
def test_one_row_is_outvoted(kind, n_classes):
    Z, y = saturated(900, n_classes)
    Z_test, y_test = make_logits(4000, n_classes, temperature=1.5, random_state=1)
    if n_classes == 2:
        Z, Z_test = (A[:, 1:] - A[:, :1] for A in (Z, Z_test))
    fitted, without = kind().fit(Z, y), kind().fit(Z[1:], y[1:])
    losses = [log_loss(y_test, c.predict_proba(Z_test)) for c in (fitted, without)]
    assert losses[0] < losses[1] + 0.02
    assert fitted.temperature_ == pytest.approx(without.temperature_, rel=0.05)


@pytest.mark.parametrize(("n_samples", "size"), [(2000, 631), (5000, 1580), (40_000, 1e8)])
def test_a_sample_without_the_row_does_not_hide_it(n_samples, size):
    """A subsample of every k-th row lacks the saturated row, which must still be noticed."""
    Z, y = saturated(n_samples, 2, size=size)
    Z[[0, 1]], y[[0, 1]] = Z[[1, 0]], y[[1, 0]]
    c = TemperatureScaling().fit(Z, y)
    assert c.temperature_ == pytest.approx(1.5, rel=0.1)


def test_other_rows_have_the_temperature_of_least_log_loss():
    """Unless one confidence for all predictions is better than it: the rule is a comparison."""
    for seed in range(20):
        Z, y = saturated(200, 3, size=40, n_wrong=seed, seed=seed)
        plain = TemperatureScaling(smoothing=0).fit(Z, y)
        mixed = TemperatureScaling().fit(Z, y)
        loss = -log_softmax(Z / plain.temperature_, axis=1)[np.arange(200), y].mean()
        p = (np.sum(Z.argmax(axis=1) == y) + 1) / 202
        constant = -p * np.log(p) - (1 - p) * np.log((1 - p) / 2)
        assert (mixed.temperature_ == plain.temperature_) == (loss <= constant)


def test_logits_no_better_than_chance_warn():
    """Half of the rows are wrong, and by more than the others are right."""
    y = np.arange(300) % 3
    Z = np.eye(3)[y]
    Z[::2] = 10 * np.roll(Z[::2], 1, axis=1)
    with pytest.warns(ConvergenceWarning, match="no better than chance"):
        TemperatureScaling().fit(Z, y)


@pytest.mark.filterwarnings("ignore:The log loss has no minimum")  # of the plain form
@pytest.mark.parametrize(
    ("size", "n_classes", "n_wrong"),
    [(1e3, 2, 3), (1e3, 4, 1), (1e8, 2, 1), (1e8, 4, 3), (1e90, 2, 1), (1e90, 4, 3)],
)
@pytest.mark.parametrize("masked", [False, True])
def test_the_temperature_is_the_root_of_the_slope_of_the_mixture(
    masked, n_classes, n_wrong, size, rng
):
    """Values of the loss, which is flat at its minimum, do not show the root as closely."""
    Z, y = saturated(400, n_classes, n_wrong=n_wrong, size=size)
    if masked:
        rows = np.arange(3, 60)
        Z[rows, (y[rows] + 1) % n_classes] = -np.inf
    w, each = rng.integers(1, 4, size=400), np.arange(400)
    n_possible = np.isfinite(Z).sum(axis=1)
    L = Z - Z.max(axis=1, keepdims=True)
    X = np.where(np.isfinite(L), L, 0)
    eps = 1 / (w.sum() + 1)

    def slope(b):
        P = softmax(b * L, axis=1)
        p = (1 - eps) * P[each, y]
        return w @ (p / (p + eps / n_possible) * (X[each, y] - (P * X).sum(axis=1)))

    fitted = TemperatureScaling().fit(Z, y, sample_weight=w)
    b = 1 / fitted.temperature_
    assert b == pytest.approx(brentq(slope, 0.8 * b, 1.2 * b, xtol=1e-14), rel=1e-9)
    plain = TemperatureScaling(smoothing=0).fit(Z, y, sample_weight=w)
    assert plain.temperature_ > 10 * fitted.temperature_
