"""Weights of fitted calibrators in a stream: regret bounds, and laws of partial_fit."""

import pickle
from copy import deepcopy
from functools import cache

import numpy as np
import pandas as pd
import pytest
import sklearn
from families import Certain
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GroupKFold, cross_validate, learning_curve
from sklearn.pipeline import make_pipeline

from skcalib import (
    IsotonicCalibration,
    PlattScaling,
    TemperatureScaling,
    Uncalibrated,
    VectorScaling,
)
from skcalib.datasets import make_logits
from skcalib.export import from_json, to_json
from skcalib.monitor import OnlineCalibrator

T = 40


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


def stream_loss(c, Z, y):
    """Total log loss of the mixture, and log-probabilities of its members, before each label."""
    total, members = 0.0, []
    for i in range(len(y)):
        row = Z[i : i + 1]
        total -= log_of(c.predict_proba(row), y[i : i + 1])[0]
        experts = [e.predict_proba(row) for e in fitted().values()]
        v = np.array(list(c.weights_.values())[: len(experts)]) if i else np.ones(len(experts))
        together = np.log(np.average(experts, axis=0, weights=v))
        maps = zip(c.slope_, c.intercept_, strict=True) if i else [(1, 0), (1, 0)]
        mapped = [softmax(a * together + b, axis=1) for a, b in maps]
        members.append([log_of(P, y[i : i + 1])[0] for P in experts + mapped])
        c.partial_fit(row, y[i : i + 1])
    return total, np.array(members)


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
def test_loss_exceeds_the_best_member_by_at_most_the_logarithm_of_their_number(name, rng):
    Z, y = streams(rng)[name]
    c = OnlineCalibrator(fitted())
    total, L = stream_loss(c, Z, y)
    assert total <= -L.sum(axis=0).max() + np.log(L.shape[1]) + 1e-9
    assert list(c.weights_) == [*fitted(), "online", "online, fast"]
    assert_allclose([*c.weights_.values()], softmax(L.sum(axis=0)), rtol=1e-6, atol=1e-30)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("forget", [0.003, pytest.param(0.1, marks=pytest.mark.slow)])
def test_loss_is_within_the_bound_of_sequences_of_members(name, forget, rng):
    Z, y = streams(rng)[name]
    c = OnlineCalibrator(fitted(), forget=forget)
    total, L = stream_loss(c, Z, y)
    E, S = L.shape[1], np.arange(8)
    bound = np.log(E) + S * np.log(E / forget) - (T - 1 - S) * np.log1p(forget / E - forget)
    assert total <= (bound - best_sequence(L, 7)).min() + 1e-9
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
    first, again, *maps = c.weights_.values()
    assert first == again
    assert sum(maps) == pytest.approx(1)


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
        ((Z, np.full(60, 7)), "got 7"),
        ((Z[:, :2], Y), "expecting 3"),
        ((Z, Y[:9]), "inconsistent"),
        ((Z, Y, -np.ones(60)), "negative"),
    ):
        with pytest.raises(ValueError, match=message):
            c.partial_fit(*arguments)
        assert c.weights_ == before


def test_calibrators_must_be_fitted_to_the_same_classes():
    with pytest.raises(NotFittedError):
        OnlineCalibrator([TemperatureScaling()]).partial_fit(Z, Y)
    other = TemperatureScaling().fit(Z, np.array(["a", "b", "c"])[Y])
    with pytest.raises(ValueError, match="'other'"):
        OnlineCalibrator({**fitted(), "other": other}).predict_proba(Z)


# --------------------------------------------------------------------------------------
# A calibrator like the others.


def shifted_stream(n, n_classes, seed, slope=0.5, offset=1.0):
    """Logits that are calibrated in the first half, and their labels and true logits."""
    rng = np.random.default_rng(seed)
    Z = 2 * rng.normal(size=(n, n_classes))
    true = Z.copy()
    true[n // 2 :] = slope * Z[n // 2 :] + offset * np.eye(n_classes)[1]
    u = rng.uniform(size=(n, 1))
    return Z, (softmax(true, axis=1).cumsum(axis=1) < u).sum(axis=1), true


@pytest.mark.slow
@pytest.mark.parametrize(("n_classes", "forget"), [(2, 0.0), (4, 0.001), (4, 0.005)])
def test_maps_follow_a_shift_of_slope_and_intercept(n_classes, forget):
    """The true probabilities are at least as good as the best fixed map."""
    Z, y, true = shifted_stream(4000, n_classes, 0)
    experts = [c.fit(Z[:500], y[:500]) for c in (Uncalibrated(), TemperatureScaling())]
    c = OnlineCalibrator(experts, forget=forget)
    losses = []
    for start in range(500, 4000, 50):
        rows = slice(start, start + 50)
        q, P = c.predict_log_proba(Z[rows]), softmax(true[rows], axis=1)
        losses.append(np.mean(log_of(P, y[rows]) - q[np.arange(50), y[rows]]))
        c.partial_fit(Z[rows], y[rows])
    assert np.mean(losses[:30]) < 0.01
    assert np.mean(losses[30:]) < 0.02
    assert abs(c.slope_[1] - 0.5) < 0.2


def test_partial_fit_takes_classes_and_groups():
    frozen = {name: FrozenEstimator(e) for name, e in fitted().items()}
    plain = OnlineCalibrator(frozen).partial_fit(Z, Y)
    for classes in ([0, 1, 2], [2, 0], np.unique(Y)):
        same = OnlineCalibrator(frozen).partial_fit(Z, Y, classes=classes, groups=Y)
        assert same.weights_ == plain.weights_
    assert OnlineCalibrator(frozen, classes=range(3)).fit(Z, Y, groups=Y).weights_ == plain.weights_
    with pytest.raises(ValueError, match="got 7"):
        plain.partial_fit(Z, Y, classes=[0, 7])
    with pytest.raises(ValueError, match="classes"):
        OnlineCalibrator(frozen, classes=[0, 1, 5]).predict(Z)
    learning_curve(
        OnlineCalibrator(frozen), Z, Y, cv=3, exploit_incremental_learning=True,
        scoring="neg_log_loss", error_score="raise", train_sizes=[0.5, 1.0],
    )  # fmt: skip
    with sklearn.config_context(enable_metadata_routing=True):
        params = {"groups": np.arange(60) // 2}
        cross_validate(
            OnlineCalibrator(frozen), Z, Y, cv=GroupKFold(2), params=params, error_score="raise"
        )


def test_names_of_columns_are_kept_and_checked():
    names = ["logit_0", "logit_1", "logit_2"]
    frame = pd.DataFrame(Z, columns=names)
    experts = [TemperatureScaling().fit(frame, Y), Uncalibrated().fit(frame, Y)]
    c = OnlineCalibrator(experts)
    assert c.predict_proba(frame).shape == (60, 3)
    c = c.partial_fit(frame, Y).set_output(transform="pandas")
    assert list(c.get_feature_names_out()) == list(c.feature_names_in_) == names
    assert list(c.transform(frame).columns) == names
    with pytest.raises(ValueError, match="order"):
        c.partial_fit(frame[names[::-1]], Y)


def test_a_quiet_hour_changes_nothing():
    c = OnlineCalibrator(fitted(), forget=0.01).partial_fit(Z, Y)
    before = c.weights_
    assert c.partial_fit(Z[:0], Y[:0]).weights_ == before


@pytest.mark.parametrize("form", ["dict", "list", "frozen"])
def test_text_and_pickles_go_on(form):
    some = {name: fitted()[name] for name in ("temperature", "vector")}
    calibrators = {
        "dict": some,
        "list": [*some.values()],
        "frozen": {name: FrozenEstimator(e) for name, e in some.items()},
    }[form]
    c = OnlineCalibrator(calibrators, forget=0.01)
    for _ in range(2):
        for same in (from_json(to_json(c)), pickle.loads(pickle.dumps(c)), deepcopy(c)):
            assert_array_equal(same.predict_proba(Z), c.predict_proba(Z))
            wanted = deepcopy(c).partial_fit(Z, Y).predict_proba(Z)
            assert_array_equal(same.partial_fit(Z, Y).predict_proba(Z), wanted)
        c.partial_fit(Z, Y)


def test_many_classes_have_a_slope_only():
    logits, y = make_logits(300, 40, temperature=2.0, random_state=0)
    c = OnlineCalibrator([Uncalibrated().fit(logits, np.arange(300) % 40)]).partial_fit(logits, y)
    assert c.precision_.shape == (2, 1, 1)
    assert not c.intercept_.any()
    assert 0.2 < c.slope_[0] < 0.9


def test_names_of_the_maps_are_reserved():
    with pytest.raises(ValueError, match="other names"):
        OnlineCalibrator({"online": fitted()["vector"]}).predict(Z)


def test_one_column_of_log_odds_has_one_column_of_outputs():
    margin, y = Z[:, :1], (Y == 1).astype(int)
    experts = [PlattScaling().fit(margin, y), Uncalibrated().fit(margin, y)]
    c = OnlineCalibrator(experts).partial_fit(margin, y)
    assert c.transform(margin).shape == (60, 1)
    assert_allclose(expit(c.transform(margin))[:, 0], c.predict_proba(margin)[:, 1])
