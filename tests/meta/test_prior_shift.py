"""Priors that are known or estimated: by hand, against EM, by simulation, and with bad input."""

from __future__ import annotations

import copy
import pickle
import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from families import fitted_state, of_case
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skcalib import CalibratedClassifier, PlattScaling, PriorShift, TemperatureScaling
from skcalib.export import from_json, to_json

BEFORE, AFTER = np.array([0.6, 0.3, 0.1]), np.array([0.1, 0.3, 0.6])


def drawn(n, priors, rng, *, trained=None, noise=1.0, sharp=1.5):
    """Logits of normal classes with unit variance, calibrated for the priors ``trained``."""
    trained = priors if trained is None else trained
    y = rng.choice(len(priors), p=priors, size=n)
    X = noise * rng.normal(size=(n, len(priors)))
    X[np.arange(n), y] += sharp
    return sharp * X + np.log(trained), y


@pytest.fixture(scope="module")
def rows():
    """Labelled rows, and rows of another population, calibrated for the first one."""
    rng = np.random.default_rng(0)
    return *drawn(3000, BEFORE, rng), *drawn(3000, AFTER, rng, trained=BEFORE)


@pytest.fixture
def shift(rows):
    return PriorShift().fit(*rows[:2])


# --------------------------------------------------------------------------------------
# Known priors.


def test_known_priors_are_bayes_rule(rows):
    Z, y, Z_new, y_new = rows
    shift = PriorShift(priors=AFTER).fit(Z, y)
    P = softmax(Z_new, axis=1) * AFTER / softmax(Z, axis=1).mean(axis=0)
    assert_allclose(shift.predict_proba(Z_new), P / P.sum(axis=1, keepdims=True))
    assert_allclose(shift.transform(Z_new), Z_new + shift.log_ratios_)
    assert log_loss(y_new, shift.predict_proba(Z_new)) < log_loss(y_new, softmax(Z_new, axis=1))
    assert shift.predict_proba(Z_new).mean(axis=0) == pytest.approx(AFTER, abs=0.02)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_prior_of_zero_is_a_probability_of_zero(rows, dtype):
    Z, y = rows[0].astype(dtype), rows[1]
    shift = PriorShift(priors=[0.5, 0.5, 0]).fit(Z, y)
    calibrated = shift.transform(Z)
    assert calibrated.dtype == dtype
    assert np.isfinite(calibrated).all()
    assert float(shift.predict_proba(Z)[:, 2].max()) < 1e-300
    only = np.array([[-np.inf, -np.inf, 0]], dtype)  # no other class is possible
    assert shift.predict_proba(only).tolist() == [[0, 0, 1]]


# --------------------------------------------------------------------------------------
# Rates before and after.


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rates_shift_as_priors_do(rows, dtype):
    Z = rows[2].astype(dtype)
    shift = PriorShift(before=20 * BEFORE, after=AFTER, classes=["a", "b", "c"])
    P = shift.predict_proba(Z)
    assert P.dtype == dtype
    Q = softmax(Z.astype(float), axis=1) * AFTER / BEFORE
    assert_allclose(P, Q / Q.sum(axis=1, keepdims=True), rtol=1e-4 if dtype is np.float32 else 1e-9)
    assert_array_equal(shift.predict(Z), np.array(["a", "b", "c"])[P.argmax(axis=1)])
    back = PriorShift(before=AFTER, after=BEFORE).transform(shift.transform(Z))
    assert_allclose(back, Z, atol=1e-5)
    never = PriorShift(before=BEFORE, after=[1, 1, 0]).predict_proba(Z)
    assert float(never[:, 2].max()) < 1e-300


@pytest.fixture(scope="module")
def sampled():
    """Logits and labels of the population, and which rows remain if one in ten negatives does."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=100_000)
    y = (rng.random(len(x)) < expit(2 * x - 3)).astype(int)
    return (2 * x - 3)[:, None], y, (y == 1) | (rng.random(len(x)) < 0.1)


@pytest.mark.parametrize("n_columns", [1, 2])
def test_rates_take_back_sampling_and_weights(n_columns, sampled):
    x, y, kept = sampled
    models = {  # the rates before
        (0.1, 1.0): LogisticRegression(C=1e6).fit(x[kept], y[kept]),
        (1, 10): LogisticRegression(C=1e6, class_weight={0: 1, 1: 10}).fit(x, y),
    }
    for rates, model in models.items():
        shift = PriorShift(before=rates)
        log_odds = model.decision_function(x)
        X = log_odds[:, None] if n_columns == 1 else np.stack([0 * log_odds, log_odds], axis=1)
        P = shift.predict_proba(X)[:, 1]
        assert P.mean() == pytest.approx(y.mean(), rel=0.02)
        assert np.abs(P - expit(x[:, 0])).max() < 0.02
        assert shift.transform(X).shape == X.shape
        assert_array_equal(shift.fit(X, y).predict_proba(X)[:, 1], P)


NAMED = np.array(["ham", "spam"])


def rates_in(form, y):
    """Rates of one in ten negatives in a form, and the labels that it is for."""
    text = ["spam"] * 10 + ["ham"]
    return {
        "list": ([0.1, 1], y),
        "text": ({"spam": 1, "ham": 0.1, "news": 3}, NAMED[y]),
        "counts of booleans": (pd.Series([True] * 10 + [False]).value_counts(), y == 1),
        "categories": (pd.Series(text, dtype="category").value_counts(), NAMED[y]),
    }[form]


@pytest.mark.parametrize("form", ["list", "text", "counts of booleans", "categories"])
def test_rates_survive_every_way_to_fit(form, sampled):
    X, y, kept = sampled
    rates, labels = rates_in(form, y)
    rates_as_given = copy.deepcopy(rates)
    shift = PriorShift(before=rates)
    chain = make_pipeline(PlattScaling(), shift)
    models = {
        "fit": shift,
        "clone": clone(shift),
        "pipeline": chain,
        "clone of a clone": clone(clone(chain)),
        "search": GridSearchCV(chain, {"plattscaling__smooth_targets": [True, False]}, cv=2),
        "classifier": CalibratedClassifier(LogisticRegression(), chain, cv=2),
        "ensemble": CalibratedClassifier(LogisticRegression(), chain, cv=2, ensemble=True),
        "frozen": CalibratedClassifier(
            FrozenEstimator(LogisticRegression().fit(X[kept], labels[kept])), chain
        ),
    }
    shown = X + np.log(10)  # the log-odds in the rows that were kept
    for name, model in models.items():
        with of_case(name):
            model.fit(shown[kept], labels[kept])
            for again in (model, pickle.loads(pickle.dumps(model))):
                mean = again.predict_proba(shown)[:, 1].mean()
                assert mean == pytest.approx(y.mean(), rel=0.05)
    for calibrator in (shift, chain, models["search"].best_estimator_):
        loaded = from_json(to_json(calibrator))
        assert_array_equal(loaded.predict_proba(shown), calibrator.predict_proba(shown))
        assert_allclose(
            clone(loaded).fit(shown[kept], labels[kept]).predict_proba(shown),
            calibrator.predict_proba(shown),
        )
    assert str(shift.before) == str(rates_as_given)


def test_rates_need_no_fit(sampled):
    X, y, kept = sampled
    shift = PriorShift(before={"spam": 1, "ham": 0.1}, classes=["ham", "spam"])
    fitted = clone(shift).fit(X[kept], NAMED[y][kept])
    for Z in (X, np.hstack([0 * X, X]), X.tolist(), pd.DataFrame(X, columns=["z"]), X[:0]):
        for method in ("transform", "predict_proba", "predict_log_proba", "predict"):
            wanted = getattr(fitted, method)(X[: len(Z)])
            found = getattr(shift, method)(Z)
            if method == "transform" and np.shape(Z)[1:] == (2,):
                found = found[:, 1:] - found[:, :1]
            (assert_array_equal if method == "predict" else assert_allclose)(found, wanted)
    lazy = shift.predict_proba(da.from_array(X, chunks=(5000, 1)))
    assert_array_equal(lazy.compute(), shift.predict_proba(X))
    behind = make_pipeline(PlattScaling().fit(X, NAMED[y]), shift)
    assert behind.predict_proba(X).shape == (len(X), 2)
    assert_array_equal(from_json(to_json(shift)).predict(X), shift.predict(X))
    assert not vars(shift).keys() - {"before", "after", "priors", "classes"}
    named = shift.set_output(transform="pandas").transform(pd.DataFrame(X, columns=["z"]))
    assert named.shape == X.shape
    with pytest.raises(NotFittedError):
        PriorShift().predict(X)
    with pytest.raises(ValueError, match="order"):
        shift.predict(pd.DataFrame(np.hstack([X, X]), columns=["spam", "ham"]))


def test_rates_are_searched(sampled):
    X, y, _ = sampled
    grid = {"before": [[1, 1], [0.1, 1], {1: 1, 0: 0.01}]}
    search = GridSearchCV(PriorShift(before=[1, 1]), grid, scoring="neg_log_loss", cv=2)
    assert search.fit(X + np.log(10), y).best_params_ == {"before": [0.1, 1]}


def test_rates_and_priors_leave_other_attributes_behind(rows):
    Z, y = rows[:2]
    shift = PriorShift().fit(Z, y).adapt(rows[2]).set_params(before=BEFORE).fit(Z, y)
    attributes = {name for name in vars(shift) if name.endswith("_")}
    assert attributes == {"classes_", "n_features_in_", "log_ratios_"}
    assert shift.set_params(before=None).fit(Z, y).priors_ is not None


BAD_RATES = {
    "scalar": ({"before": 0.5}, "before"),
    "zero": ({"before": [0, 1]}, "before"),
    "negative": ({"before": [1, 1], "after": [-1, 2]}, "after"),
    "none": ({"before": [1, 1], "after": [0, 0]}, "after"),
    "text": ({"before": "balanced"}, "balanced"),
    "number": ({"before": [1, 1], "after": [1, 1, 1]}, "got 3"),
    "classes": ({"before": [1, 1], "classes": [1, 2, 3]}, "classes"),
    "priors": ({"before": [1, 1], "priors": [0.5, 0.5]}, "priors alone"),
    "missing": ({"before": {1: 3}}, "each class once"),
    "twice": ({"before": pd.Series([1, 2, 3], index=[0, 1, 1])}, "each class once"),
    "other names": ({"before": {"a": 1, "b": 2}}, "'a', 'b'"),
    "text as numbers": ({"before": [1, 1], "after": {"0": 1, "1": 2}}, "after"),
}


@pytest.mark.parametrize("case", BAD_RATES)
def test_bad_rates_are_refused(case, sampled):
    rates, message = BAD_RATES[case]
    X, y, _ = sampled
    shift = PriorShift(**rates)
    with pytest.raises(ValueError, match=message):
        shift.predict(X)
    with pytest.raises(ValueError, match=message):
        shift.fit(X, y)
    assert not hasattr(shift, "n_iter_")


def test_columns_must_match_the_rates(rows):
    with pytest.raises(ValueError, match="got 3"):
        PriorShift(before=[1, 1]).predict(rows[0])
    with pytest.raises(ValueError, match="3 classes"):
        PriorShift(before=[1, 1]).fit(*rows[:2])
    with pytest.raises(ValueError, match="needs before"):
        PriorShift(after=[1, 1, 1]).fit(*rows[:2])


def test_rates_alone_do_not_adapt(rows):
    shift = PriorShift(before=BEFORE).fit(*rows[:2])
    with pytest.raises(ValueError, match="without before"):
        shift.adapt(rows[2])
    shift.set_params(before=None).fit(*rows[:2])
    assert shift.adapt(rows[2]).priors_ == pytest.approx(AFTER, abs=0.05)


BAD_PRIORS = {
    "sum": ([0.5, 0.5, 0.5], "1.5"),
    "negative": ([-0.5, 0.5, 1], "-0.5"),
    "few": ([0.5, 0.5], "3 numbers"),
    "square": (np.eye(3), "shape"),
    "dictionary": ({0: 0.5, 1: 0.5, 3: 0}, "each class once"),
    "string": ("balanced", "str"),
    "series": (pd.Series(AFTER, index=list("abc")), "each class once"),
}


@pytest.mark.parametrize("case", BAD_PRIORS)
def test_bad_priors_are_refused(case, rows, shift):
    priors, message = BAD_PRIORS[case]
    before = dict(vars(shift.set_params(priors=priors)))
    with pytest.raises(ValueError, match=message):
        shift.fit(*rows[:2])
    assert vars(shift) == before


@pytest.mark.filterwarnings("ignore::families.AbsentClassesWarning")
def test_classes_without_rows_have_no_prior(rows):
    Z, y, Z_new, _ = rows
    some = y < 2
    with pytest.raises(ValueError, match="without rows"):
        PriorShift(priors=AFTER, classes=range(3)).fit(Z[some], y[some])
    shift = PriorShift(priors=[0.5, 0.5, 0], classes=range(3)).fit(Z[some], y[some])
    shift.adapt(Z_new)
    assert shift.priors_[2] == shift.standard_errors_[2] == 0
    assert shift.priors_.sum() == pytest.approx(1)
    assert np.isfinite(shift.transform(Z_new)).all()


# --------------------------------------------------------------------------------------
# Estimated priors.


def saerens(P, before, n_iter=500):
    """Iterations of EM with one pseudo-row."""
    priors = before
    for _ in range(n_iter):
        shares = P * priors / before
        shares /= shares.sum(axis=1, keepdims=True)
        priors = (shares.sum(axis=0) + before) / (len(P) + 1)
    return priors


def test_the_most_likely_priors_match_em(shift, rows):
    Z_new, y_new = rows[2:]
    assert shift.adapt(Z_new) is shift
    P = softmax(Z_new, axis=1)
    assert_allclose(shift.priors_, saerens(P, shift.calibration_priors_), atol=1e-6)
    assert_allclose(shift.priors_, np.bincount(y_new) / len(y_new), atol=0.03)
    assert shift.n_iter_ < 20
    gain = np.log(P @ (shift.priors_ / shift.calibration_priors_)).sum()
    pseudo = shift.calibration_priors_ @ np.log(shift.priors_ / shift.calibration_priors_)
    assert shift.log_likelihood_ratio_ == pytest.approx(gain + pseudo, rel=1e-6)
    expected = np.log(shift.priors_ / shift.calibration_priors_)
    assert_allclose(shift.transform(Z_new), Z_new + expected)


def test_standard_errors_match_both_sets_of_rows(rows):
    """Errors combine the observed information and the uncertainty of the calibration priors."""
    Z, y, Z_new, _ = rows
    shift = PriorShift().fit(Z, y)
    before = shift.calibration_priors_

    def estimate(q):
        return saerens(softmax(Z_new, axis=1), q)

    steps = 1e-4 * np.diag(before)
    moved = [(estimate(before + step) - estimate(before - step)) / 2e-4 for step in steps]
    P = softmax(Z_new, axis=1) / before
    scores = P / (P @ estimate(before))[:, None] - 1
    free = (scores[:, 1:] - scores[:, :1]).T
    inverse = np.linalg.inv(free @ free.T)
    of_rows = np.append(inverse.sum(), np.diag(inverse))
    of_priors = np.array(moved).T ** 2 @ (1 / before) / 3000
    expected = np.sqrt(of_rows + of_priors)
    assert_allclose(shift.adapt(Z_new).standard_errors_, expected, rtol=5e-3)


def test_a_weight_of_two_is_the_row_twice(rows):
    Z, y, Z_new, _ = rows
    rng = np.random.default_rng(1)
    w, w_new = rng.integers(0, 3, len(y)), rng.integers(0, 3, len(Z_new))
    one = PriorShift().fit(Z, y, sample_weight=w).adapt(Z_new, sample_weight=w_new)
    two = PriorShift().fit(np.repeat(Z, w, axis=0), np.repeat(y, w))
    two.adapt(np.repeat(Z_new, w_new, axis=0))
    a, b = fitted_state(one), fitted_state(two)
    for name in a.keys() - {"n_iter_"}:
        assert_allclose(a[name], b[name], rtol=1e-7, err_msg=name)


def test_containers_do_not_change_the_priors(rows, tmp_path):
    Z, y, Z_new, _ = rows
    shift = PriorShift().fit(Z, y)
    expected = copy.copy(shift).adapt(Z_new)
    np.save(tmp_path / "Z.npy", Z_new)
    others = {
        "memory map": np.load(tmp_path / "Z.npy", mmap_mode="r"),
        "Dask": da.from_array(Z_new, chunks=(1000, 3)),
        "data frame": pd.DataFrame(Z_new),
        "list": Z_new.tolist(),
        "row constants": Z_new + np.arange(3000)[:, None],
    }
    for name, X in others.items():
        adapted = copy.copy(shift).adapt(X)
        assert_allclose(adapted.priors_, expected.priors_, rtol=1e-7, err_msg=name)
        errors = adapted.standard_errors_
        assert_allclose(errors, expected.standard_errors_, rtol=1e-7, err_msg=name)
    assert_allclose(copy.copy(shift).adapt(Z_new.astype("f4")).priors_, expected.priors_, rtol=1e-3)
    of_dask = PriorShift().fit(da.from_array(Z, chunks=(1000, 3)), da.from_array(y, chunks=1000))
    assert_allclose(of_dask.calibration_priors_, shift.calibration_priors_)


def test_second_fit_forgets_the_adaptation(shift, rows):
    before = fitted_state(shift)
    shift.adapt(rows[2])
    assert hasattr(shift, "standard_errors_")
    after = fitted_state(shift.fit(*rows[:2]))
    assert before.keys() == after.keys()
    assert np.array_equal(after["log_ratios_"], np.zeros(3))


def test_in_a_pipeline_and_behind_a_classifier(rows):
    Z, y, Z_new, y_new = rows
    chain = make_pipeline(TemperatureScaling(), PriorShift()).fit(2 * Z, y)
    assert_allclose(chain.predict_proba(2 * Z), chain[:-1].predict_proba(2 * Z))
    chain[-1].adapt(chain[:-1].transform(2 * Z_new))
    assert np.abs(chain[-1].priors_ - AFTER).max() < 0.05
    before, after = (log_loss(y_new, c.predict_proba(2 * Z_new)) for c in (chain[:-1], chain))
    assert after < before
    model = CalibratedClassifier(LogisticRegression(), chain, cv=3, ensemble=False).fit(Z, y)
    assert model.predict_proba(Z_new).shape == (3000, 3)


# --------------------------------------------------------------------------------------
# Bad input, and few rows.


BAD_ROWS = {
    "none": (np.zeros((0, 3)), "0 sample"),
    "narrow": (np.zeros((5, 2)), "expecting 3"),
    "flat": (np.zeros(3), "two dimensions"),
    "columns": (pd.DataFrame(np.zeros((5, 3)), columns=["1", "0", "2"]), "order"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_bad_rows_are_refused(case, shift):
    X, word = BAD_ROWS[case]
    before = dict(vars(shift))
    with pytest.raises(ValueError, match=word):
        shift.adapt(X)
    assert vars(shift) == before


@pytest.mark.parametrize("n", [1, 5, 29])
def test_few_rows_change_little_and_warn(rows, n):
    shift = PriorShift().fit(*rows[:2])
    with pytest.warns(UserWarning, match=f"from {n} .*30") as w:
        shift.adapt(rows[2][:n])
    assert w[0].filename == __file__
    assert (w[0].message.weight, w[0].message.n_classes) == (n, 3)
    assert shift.priors_.min() >= shift.calibration_priors_.min() / (n + 1) * 0.99
    assert np.isfinite(shift.standard_errors_).all()


# --------------------------------------------------------------------------------------
# Standard errors, by simulation.


def errors_of_draw(seed, before, after, n):
    """Errors of estimated priors, in standard errors."""
    rng = np.random.default_rng([seed, len(before), n])
    Z, y = drawn(n, before, rng)
    Z_new, _ = drawn(n, after, rng, trained=before)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shift = PriorShift(classes=range(len(before))).fit(Z, y).adapt(Z_new)
    return (shift.priors_ - after) / shift.standard_errors_


def test_a_class_that_is_rare_in_the_calibration_rows_is_covered():
    errors = [errors_of_draw(seed, (0.99, 0.01), (0.7, 0.3), 1000)[-1] for seed in range(40)]
    assert np.mean(np.abs(errors) < 1.96) >= 0.85


@pytest.mark.slow
def test_coverage_of_random_priors():
    """``benchmarks/simulate.py prior-shift`` has more classes and rows."""
    rng = np.random.default_rng(3)
    errors = [
        errors_of_draw(seed, *rng.dirichlet(np.full(3, 3.0), size=2), 1000) for seed in range(120)
    ]
    covered = np.mean(np.abs(errors) < 1.96)
    assert 0.9 <= covered <= 0.995  # priors near 0 or 1 are not normal
