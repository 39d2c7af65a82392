"""AutoCalibrator in a stream: regret against its candidates, and against sequences of these."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp, softmax

from skcalib import AutoCalibrator, IsotonicCalibration, TemperatureScaling, VectorScaling
from skcalib._base import BaseCalibrator
from skcalib.datasets import make_logits
from skcalib.selection._candidates import default_candidates

T = 40


class Certain(BaseCalibrator):
    """Gives one class nearly all of the probability, whatever the logits."""

    def __init__(self, k=0, *, classes=None):
        super().__init__(classes=classes)
        self.k = k

    def _fit(self, rows):
        return {}

    def _calibrate(self, Z):
        return 8.0 * (np.arange(Z.shape[1]) == self.k) + np.zeros_like(Z)


CANDIDATES = {
    "temperature": TemperatureScaling(smoothing="auto"),
    "vector": VectorScaling(),
    "isotonic": IsotonicCalibration(pseudo_rows=0),
    **{f"always {k}": Certain(k) for k in range(3)},
}


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


def log_of(P, y):
    return np.log(P[np.arange(len(y)), y])


def of_experts(c, Z, y):
    """Log-probabilities (T, E) of the labels by the experts, as users would compute them."""
    P = np.stack([part.predict_proba(Z) for part in c.components_])
    P = np.tensordot(c.experts_, P, 1) * (1 - c.smoothing_) + c.smoothing_ / 3
    return np.stack([log_of(p, y) for p in P], axis=1)


def stream_loss(c, Z, y):
    """Total log loss of probabilities that are given before each label is known."""
    total = 0.0
    for i in range(len(y)):
        total -= log_of(c.predict_proba(Z[i : i + 1]), y[i : i + 1])[0]
        c.partial_fit(Z[i : i + 1], y[i : i + 1])
    return total


def best_sequence(L, n_switches):
    """Most log-likelihood of sequences of experts with at most so many switches."""
    best = np.tile(L[0], (n_switches + 1, 1))
    for row in L[1:]:
        switched = np.vstack(
            [best[:1] - np.inf, np.repeat(best[:-1].max(1)[:, None], L.shape[1], 1)]
        )
        best = np.maximum(best, switched) + row
    return best.max(axis=1)


@pytest.mark.parametrize("name", list(streams(np.random.default_rng(0))))
def test_loss_is_at_most_the_logarithm_of_their_number_above_the_best(name, rng):
    start, y0 = make_logits(200, 3, temperature=2.0, random_state=0)
    Z, y = streams(rng)[name]
    c = AutoCalibrator(CANDIDATES).partial_fit(start, y0)
    L = of_experts(c, Z, y)
    assert list(c.weights_) == list(CANDIDATES)
    assert stream_loss(c, Z, y) <= -L.sum(axis=0).max() + np.log(len(CANDIDATES)) + 1e-9
    posterior = softmax(L.sum(axis=0))  # but for weights that were below the range of doubles
    assert_allclose(c.expert_weights_, posterior, rtol=1e-6, atol=1e-30)
    assert_allclose([*c.weights_.values()], c.expert_weights_)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(streams(np.random.default_rng(0))))
def test_loss_after_fit_is_hardly_above_that_of_what_was_fitted(name, rng):
    start, y0 = make_logits(200, 3, temperature=2.0, random_state=0)
    Z, y = streams(rng)[name]
    c = AutoCalibrator(CANDIDATES).fit(start, y0)
    as_fitted = -log_of(c.predict_proba(Z), y).sum()
    loss = stream_loss(c, Z, y)
    assert loss <= as_fitted + np.log(2) + 1e-9
    L = of_experts(c, Z, y)
    assert L.shape[1] == 1 + len(c.calibrators_)
    assert_allclose(-L[:, 0].sum(), as_fitted)
    prior = np.log([0.5, *[0.5 / len(c.calibrators_)] * len(c.calibrators_)])
    loss += L[0, 0] - logsumexp(L[0] + prior)  # the first row was predicted as fitted
    assert loss <= -L[:, 1:].sum(axis=0).max() + np.log(2 * len(c.calibrators_)) + 1e-9
    assert_allclose(c.expert_weights_, softmax(L.sum(axis=0) + prior), rtol=1e-6, atol=1e-30)


@pytest.mark.parametrize("name", list(streams(np.random.default_rng(0))))
@pytest.mark.parametrize("forget", [0.003, pytest.param(0.1, marks=pytest.mark.slow)])
def test_loss_is_little_above_that_of_sequences_of_candidates(name, forget, rng):
    start, y0 = make_logits(200, 3, temperature=2.0, random_state=0)
    Z, y = streams(rng)[name]
    c = AutoCalibrator(CANDIDATES, forget=forget).partial_fit(start, y0)
    E = len(CANDIDATES)
    S = np.arange(8)
    best = best_sequence(of_experts(c, Z, y), 7)
    bound = np.log(E) + S * np.log(E / forget) - (T - 1 - S) * np.log1p(forget / E - forget)
    assert stream_loss(c, Z, y) <= (bound - best).min() + 1e-9
    assert min(c.weights_.values()) >= forget / E * (1 - 1e-9)


def test_any_candidate_comes_back_whatever_it_has_lost():
    start, y0 = make_logits(200, 3, temperature=2.0, random_state=0)
    c = AutoCalibrator({f"always {k}": Certain(k) for k in range(3)}).partial_fit(start, y0)
    for k in (0, 1, 2):  # each loses 1600 nats, beyond the range of doubles
        c.partial_fit(start, np.full(200, k), np.full(200, 2.0 + 4 * k))
        assert c.predict(start[:1]) == k
        assert np.isfinite(c.expert_weights_).all()


def test_all_default_candidates_are_kept():
    Z, y = make_logits(220, 3, temperature=2.0, random_state=0)
    c = AutoCalibrator().partial_fit(Z[:200], y[:200])
    assert list(c.weights_) == list(default_candidates(200, 3, masked=False))
    assert len(c.components_) == len(c.expert_weights_) == len(c.weights_)
    L = of_experts(c, Z[200:], y[200:])
    assert stream_loss(c, Z[200:], y[200:]) <= -L.sum(axis=0).max() + np.log(len(c.weights_))
    assert "as fitted" not in str(c)


def test_what_leads_is_shown():
    Z, y = make_logits(300, 3, temperature=2.0, random_state=0)
    c = AutoCalibrator(CANDIDATES).fit(Z[:200], y[:200])
    assert "as fitted" not in str(c)
    weights = c.weights_
    c.partial_fit(Z[200:], y[200:])
    assert f"as fitted: {c.expert_weights_[0]:.2f}" in str(c)
    assert c.weights_ == weights  # of what was fitted
    assert_allclose(c.component_weights_, c.expert_weights_ @ c.experts_)


def test_an_invalid_share_is_refused_before_rows_are():
    c = AutoCalibrator(CANDIDATES).set_params(forget=1)
    with pytest.raises(ValueError, match="forget must be a number of at least 0 and below 1"):
        c.partial_fit([[np.nan]], [0])
