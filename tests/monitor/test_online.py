"""Weights of fitted calibrators in a stream: regret bounds, and laws of partial_fit."""

from copy import deepcopy
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline

from skcalib import IsotonicCalibration, TemperatureScaling, Uncalibrated, VectorScaling
from skcalib.base import BaseCalibrator
from skcalib.datasets import make_logits
from skcalib.monitor import OnlineCalibrator

T = 40


class Certain(BaseCalibrator):
    """Gives one class nearly all of the probability, for any logits."""

    def __init__(self, k=0, *, classes=None):
        super().__init__(classes=classes)
        self.k = k

    def _fit(self, rows):
        return {}

    def _calibrate(self, Z):
        return 8.0 * (np.arange(Z.shape[1]) == self.k) + np.zeros_like(Z)


@cache
def fitted():
    """Fitted calibrators by name."""
    calibrators = {
        "temperature": TemperatureScaling(smoothing="auto"),
        "vector": VectorScaling(),
        "isotonic": IsotonicCalibration(),
        **{f"always {k}": Certain(k) for k in range(3)},
    }
    rows = make_logits(200, 3, temperature=2.0, random_state=0)
    return {name: c.fit(*rows) for name, c in calibrators.items()}


def streams(rng):
    """Logits and labels by the name of what makes them hard."""
    Z, y = make_logits(T, 3, temperature=2.0, random_state=rng.integers(1000))
    third = np.arange(T) * 3 // T
    return {
        "random": (Z, y),
        "sorted by label": (Z[np.argsort(y)], np.sort(y)),
        "alternating": (Z, np.arange(T) % 3),
        "noise, then signal": (Z, np.where(third == 0, rng.integers(3, size=T), y)),
        "one class, then another": (Z, third),
        "another one in the end": (Z, np.where(np.arange(T) < 2 * T // 3, 1, 2)),
    }


NAMES = list(streams(np.random.default_rng(0)))


def log_of(P, y):
    return np.log(P[np.arange(len(y)), y])


def expert_logs(Z, y):
    """Log-probabilities (T, E) of the labels by the calibrators."""
    return np.stack([log_of(c.predict_proba(Z), y) for c in fitted().values()], axis=1)


def stream_loss(c, Z, y):
    """Total log loss of probabilities that are given before each label is known."""
    total = 0.0
    for i in range(len(y)):
        total -= log_of(c.predict_proba(Z[i : i + 1]), y[i : i + 1])[0]
        c.partial_fit(Z[i : i + 1], y[i : i + 1])
    return total


def best_sequence(L, n_switches):
    """Highest log-likelihood of sequences of calibrators with at most ``n_switches`` switches."""
    best = np.tile(L[0], (n_switches + 1, 1))
    for row in L[1:]:
        switched = np.vstack(
            [best[:1] - np.inf, np.repeat(best[:-1].max(1)[:, None], L.shape[1], 1)]
        )
        best = np.maximum(best, switched) + row
    return best.max(axis=1)


@pytest.mark.parametrize("name", NAMES)
def test_loss_exceeds_the_best_calibrator_by_at_most_the_logarithm_of_their_number(name, rng):
    Z, y = streams(rng)[name]
    c = OnlineCalibrator(fitted())
    L = expert_logs(Z, y)
    assert stream_loss(c, Z, y) <= -L.sum(axis=0).max() + np.log(len(fitted())) + 1e-9
    assert list(c.weights_) == list(fitted())
    assert_allclose([*c.weights_.values()], softmax(L.sum(axis=0)), rtol=1e-6, atol=1e-30)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("forget", [0.003, pytest.param(0.1, marks=pytest.mark.slow)])
def test_loss_is_within_the_bound_of_sequences_of_calibrators(name, forget, rng):
    Z, y = streams(rng)[name]
    c = OnlineCalibrator(fitted(), forget=forget)
    E, S = len(fitted()), np.arange(8)
    best = best_sequence(expert_logs(Z, y), 7)
    bound = np.log(E) + S * np.log(E / forget) - (T - 1 - S) * np.log1p(forget / E - forget)
    assert stream_loss(c, Z, y) <= (bound - best).min() + 1e-9
    assert min(c.weights_.values()) >= forget / E * (1 - 1e-9)


def test_any_calibrator_can_come_back():
    Z = make_logits(200, 3, random_state=0)[0]
    c = OnlineCalibrator({f"always {k}": fitted()[f"always {k}"] for k in range(3)})
    for k in (0, 1, 2):  # each loses 1600 nats, beyond the range of doubles
        c.partial_fit(Z, np.full(200, k), np.full(200, 2.0 + 4 * k))
        assert c.predict(Z[:1]) == k
        assert np.isfinite([*c.weights_.values()]).all()


def test_impossible_labels_leave_finite_weights():
    Z, y = make_logits(200, 3, random_state=0)
    steps = IsotonicCalibration(pseudo_rows=0).fit(Z, y)
    c = OnlineCalibrator({"steps": steps, "again": deepcopy(steps)})
    c.partial_fit(Z, 2 - steps.predict_proba(Z)[:, ::-1].argmin(axis=1))
    assert_allclose([*c.weights_.values()], 0.5)


# --------------------------------------------------------------------------------------
# Laws of partial_fit.

Z, Y = make_logits(60, 3, temperature=2.0, random_state=1)
forgetting = pytest.mark.parametrize("forget", [0.0, 0.1])


def weights(c):
    return [*c.weights_.values()]


@forgetting
def test_a_batch_equals_its_rows_one_by_one(forget):
    at_once = OnlineCalibrator(fitted(), forget=forget).partial_fit(Z, Y)
    one_by_one = OnlineCalibrator(fitted(), forget=forget)
    for i in range(len(Y)):
        one_by_one.partial_fit(Z[i : i + 1], Y[i : i + 1])
    assert_allclose(weights(at_once), weights(one_by_one), rtol=1e-9)


@forgetting
def test_a_weight_of_two_is_the_row_twice_and_zero_is_the_row_absent(forget):
    w = np.arange(60) % 3
    weighted = OnlineCalibrator(fitted(), forget=forget).partial_fit(Z, Y, w)
    rows = np.repeat(np.arange(60), w)
    repeated = OnlineCalibrator(fitted(), forget=forget).partial_fit(Z[rows], Y[rows])
    assert_allclose(weights(weighted), weights(repeated), rtol=1e-9)


def test_fit_restarts_and_clones_keep_frozen_calibrators():
    c = OnlineCalibrator({name: FrozenEstimator(e) for name, e in fitted().items()})
    c.partial_fit(Z, Y)
    assert_allclose(weights(c.fit(Z[:5], Y[:5])), weights(clone(c).partial_fit(Z[:5], Y[:5])))


def test_outputs_match_the_mixture():
    c = OnlineCalibrator(fitted())
    P = np.mean([e.predict_proba(Z) for e in fitted().values()], axis=0)
    assert_allclose(c.predict_proba(Z), P)  # equal weights before the first row
    assert_allclose(c.transform(Z), np.log(P))
    assert_array_equal(c.predict(Z), P.argmax(axis=1))
    assert c.score(Z, Y) == (P.argmax(axis=1) == Y).mean()
    assert_allclose(make_pipeline(c, Uncalibrated(classes=range(3)).fit(Z, Y)).predict_proba(Z), P)
    masked = np.where(np.arange(3) == 0, -np.inf, Z)
    some = {name: fitted()[name] for name in ("temperature", "vector")}
    assert_array_equal(OnlineCalibrator(some).transform(masked) == -np.inf, np.isneginf(masked))


def test_invalid_batches_change_nothing():
    c = OnlineCalibrator(fitted()).partial_fit(Z, Y)
    before = dict(c.weights_)
    for arguments, message in (
        ((Z, np.full(60, 7)), r"only classes of the calibrators, \[0, 1, 2\], got 7"),
        ((Z[:, :2], Y), "2 features, but .* is expecting 3"),
        ((Z, Y[:9]), "inconsistent numbers of samples"),
        ((Z, Y, -np.ones(60)), "must not be negative"),
    ):
        with pytest.raises(ValueError, match=message):
            c.partial_fit(*arguments)
        assert c.weights_ == before


def test_calibrators_must_be_fitted_to_the_same_classes():
    with pytest.raises(NotFittedError):
        OnlineCalibrator([TemperatureScaling()]).partial_fit(Z, Y)
    other = TemperatureScaling().fit(Z, np.array(["a", "b", "c"])[Y])
    with pytest.raises(ValueError, match=r"equal classes, got .* for 'other' and"):
        OnlineCalibrator({**fitted(), "other": other}).predict_proba(Z)
    with pytest.raises(ValueError, match="forget must be a number of at least 0 and below 1"):
        OnlineCalibrator(fitted(), forget=1).partial_fit(Z, Y)
