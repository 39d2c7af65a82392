"""Figures corrected for optimism: the formula written out, rms::validate, and new rows."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_array
from scipy.special import expit
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcalib import CalibratedClassifier, OrdinalCalibration
from skcalib.clinical import (
    calibration_slope,
    integrated_calibration_index,
    net_benefit,
    optimism_corrected,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
TWO = (X[:, 0] + RNG.normal(size=60) > 0).astype(int)
THREE = np.array(["c", "a", "b"])[TWO + (X[:, 1] > 0.5)]
W = RNG.integers(0, 3, size=60).astype(float)
PLAIN = LogisticRegression(C=1e4)


def numbers(found):
    return {name: list(vars(value).values()) for name, value in found.items()}


def net(model, X, y, **weights):
    return net_benefit(y, model.predict_proba(X)[:, 1], 0.3, **weights)


OF_TWO = {
    "brier": ("neg_brier_score", lambda y, P, w: brier_score_loss(y, P[:, 1], sample_weight=w)),
    "c": ("roc_auc", lambda y, P, w: roc_auc_score(y, P[:, 1], sample_weight=w)),
    "slope": (
        "calibration_slope",
        lambda *a: calibration_slope(*a[:2], sample_weight=a[2]).estimate,
    ),
    "ICI": (
        "integrated_calibration_index",
        lambda y, P, w: integrated_calibration_index(y, P, sample_weight=w),
    ),
    "net": (net, lambda y, P, w: net_benefit(y, P[:, 1], 0.3, sample_weight=w)),
}
LOSS = {"log loss": (None, lambda y, P, w: log_loss(y, P, sample_weight=w))}


@pytest.mark.parametrize(("y", "measures", "w"), [(TWO, OF_TWO, W), (THREE, {}, None)])
def test_the_correction_is_the_formula_written_out(y, measures, w):
    """Apparent, mean optimism, and quantiles of the optimism; rows of weight 0 are absent."""
    scoring = {name: scorer for name, (scorer, _) in measures.items()}
    params = {"scoring": scoring, "n_resamples": 5, "confidence_level": 0.6, "random_state": 0}
    found = numbers(optimism_corrected(PLAIN, X, y, sample_weight=w, **params))
    kept = np.arange(60) if w is None else np.flatnonzero(w)
    random, X_, y_ = np.random.RandomState(0), X[kept], y[kept]
    w_ = np.ones(len(kept)) if w is None else w[kept]

    def pair(rows):
        model = PLAIN.fit(X_[rows], y_[rows], w_[rows])
        return [
            [f(y_[some], model.predict_proba(X_[some]), w_[some]) for _, f in expected.values()]
            for some in (rows, slice(None))
        ]

    expected = LOSS | measures
    assert list(found) == list(expected)
    apparent = np.array(pair(np.arange(len(kept)))[0])
    pairs = np.array([pair(random.randint(len(kept), size=len(kept))) for _ in range(5)])
    o = pairs[:, 0] - pairs[:, 1]
    ends = apparent - np.quantile(o, [0.8, 0.2], axis=0)
    wanted = [apparent, o.mean(0), apparent - o.mean(0), *ends]
    np.testing.assert_allclose([*found.values()], np.transpose(wanted), rtol=1e-6, atol=1e-9)


@pytest.mark.slow
def test_kinds_of_rows_and_jobs():
    """Pipelines with weights, data frames, lists and sparse matrices; two jobs are as one."""
    model = make_pipeline(StandardScaler(with_mean=False), LogisticRegression(C=1e4))
    params = {"n_resamples": 5, "random_state": 1, "sample_weight": W}
    wanted = numbers(optimism_corrected(model, X, TWO, **params))
    for given in (pd.DataFrame(X, index=RNG.permutation(60)), X.tolist(), coo_array(X)):
        found = optimism_corrected(model, given, TWO.tolist(), **params)
        np.testing.assert_allclose([*numbers(found).values()], [*wanted.values()], rtol=1e-3)
    assert numbers(optimism_corrected(model, X, TWO, n_jobs=2, **params)) == wanted
    assert not hasattr(model[-1], "coef_")
    without = numbers(optimism_corrected(model, X, TWO, **params | {"sample_weight": None}))
    assert without != wanted
    assert list(wanted) == ["log loss", "brier_score"]


def test_fits_take_ordered_categories():
    """An ordinal calibrator of text needs the order, which the categories of y have."""
    ordinal = CalibratedClassifier(GaussianNB(), OrdinalCalibration(), cv=2)
    order = ["b", "c", "a"]
    settings = {"scoring": "neg_ranked_probability_score", "n_resamples": 3, "random_state": 0}
    y = pd.Series(pd.Categorical(THREE, order, ordered=True), index=np.arange(60) + 5)
    ranks = np.array([order.index(label) for label in THREE])
    found = optimism_corrected(ordinal, X, y, **settings)["ranked_probability_score"]
    wanted = optimism_corrected(ordinal, X, ranks, **settings)["ranked_probability_score"]
    assert found.corrected == pytest.approx(wanted.corrected, rel=1e-3)
    with pytest.raises(ValueError, match="order"):
        optimism_corrected(ordinal, X, THREE, **settings)


def test_samples_without_a_class_are_drawn_again():
    y = np.where(np.arange(60) < 1, "rare", THREE)

    class Strict(GaussianNB):
        def fit(self, X, y, sample_weight=None):
            assert {*y} == {"a", "b", "c", "rare"}
            return super().fit(X, y, sample_weight)

    optimism_corrected(Strict(var_smoothing=1), X, y, n_resamples=20, random_state=0)
    with pytest.raises(ValueError, match="60 of 60 classes"):
        optimism_corrected(GaussianNB(var_smoothing=1), X, np.arange(60))


def test_samples_without_values_are_left_out():
    def corrected(*failing):
        calls = iter(range(9))

        class Sometimes(GaussianNB):
            def fit(self, X, y):
                if next(calls) in failing:
                    raise ValueError("No fit.")
                return super().fit(X, y)

        return numbers(optimism_corrected(Sometimes(), X, TWO, n_resamples=8, random_state=0))

    with pytest.warns(UserWarning, match="3 of 8 .*No fit"):
        found = corrected(1, 2, 8)
    assert np.isfinite([*found.values()]).all()
    with pytest.raises(ValueError, match=r"4 of 8 .*No fit"):
        corrected(1, 2, 3, 8)
    with pytest.raises(ValueError, match=r"^No fit\.$"):
        corrected(0)


@pytest.mark.parametrize(
    ("params", "word"),
    [
        ({"estimator": RidgeClassifier()}, "predict_proba"),
        ({"n_resamples": 0}, "n_resamples"),
        ({"scoring": "calibration_slop"}, "scorer"),
        ({"y": THREE, "scoring": "calibration_slope"}, "two classes, got 3"),
        ({"y": X[:, 0] > 0, "scoring": "calibration_slope"}, "separates"),
        ({"y": np.zeros(len(TWO))}, "two classes"),
        ({"y": TWO, "sample_weight": TWO == TWO[0]}, "two classes"),
        ({"y": TWO[1:]}, "inconsistent"),
        ({"sample_weight": -W}, "sample_weight"),
    ],
    ids=str,
)
def test_wrong_input_is_refused_by_name(params, word):
    with pytest.raises(ValueError, match=word):
        optimism_corrected(**{"estimator": PLAIN, "X": X, "y": TWO} | params)


# R 4.2.2 with rms 6.5-0, on every fourth row of the data of breast tumours with five columns:
#   f <- lrm(y ~ a + b + c + d + e, data=d, x=TRUE, y=TRUE); set.seed(1); validate(f, B=4000)
# index.orig and index.corrected of the slope, the Brier score, and (Dxy + 1) / 2; R leaves out 8
# samples with separated classes. The standard error of the slope of 200 samples is 0.014.
VALIDATE = {
    "calibration_slope": (1.0, 0.85140245524, 0.03),
    "brier_score": (0.05868823954, 0.07067928554, 0.002),
    "roc_auc": (0.975268817205, 0.96722646031, 0.003),
}


@pytest.mark.slow
def test_figures_match_rms():
    X, benign = load_breast_cancer(return_X_y=True)
    X, y = X[::4][:, [1, 4, 5, 8, 9]], 1 - benign[::4]
    model = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-8)
    scoring = ["calibration_slope", "neg_brier_score", "roc_auc"]
    params = {"scoring": scoring, "n_resamples": 200, "random_state": 0}
    found = optimism_corrected(make_pipeline(StandardScaler(), model), X, y, **params)
    for name, (apparent, corrected, tolerance) in VALIDATE.items():
        assert found[name].apparent == pytest.approx(apparent, abs=1e-5)
        assert found[name].corrected == pytest.approx(corrected, abs=tolerance)


@pytest.mark.slow
def test_optimism_correction_is_nearer_to_new_rows():
    """Logistic regression with 20 features, five of them informative, on 200 rows."""
    rng, beta = np.random.default_rng(0), np.repeat([0.6, 0.0], [5, 15])
    model = LogisticRegression(C=np.inf, solver="newton-cholesky")
    scoring = ["neg_brier_score", "roc_auc", "calibration_slope"]

    def rows(n):
        X = rng.normal(size=(n, 20))
        return X, (rng.uniform(size=n) < expit(X @ beta - 0.5)).astype(int)

    X_new, y_new = rows(5000)
    off, covered = [], []
    for seed in range(12):
        X, y = rows(200)
        params = {"scoring": scoring, "n_resamples": 25, "random_state": seed}
        found = optimism_corrected(model, X, y, **params)
        p = model.fit(X, y).predict_proba(X_new)
        slope = calibration_slope(y_new, p).estimate
        new = [log_loss(y_new, p), slope, brier_score_loss(y_new, p[:, 1])]
        new = dict(zip(["log loss", "calibration_slope", "brier_score"], new, strict=True))
        new["roc_auc"] = roc_auc_score(y_new, p[:, 1])
        of = {name: vars(value) for name, value in found.items()}
        off.append([[of[k][s] - new[k] for k in of] for s in ("apparent", "corrected")])
        covered.append([of[k]["low"] < new[k] < of[k]["high"] for k in of])
    apparent, corrected = np.abs(off).mean(axis=0)
    assert (corrected < 0.6 * apparent).all(), (apparent, corrected)
    bias = np.abs(np.mean(off, axis=0))
    assert (bias[1] < 0.3 * bias[0]).all(), bias
    assert (np.mean(covered, axis=0) > [0.85, 0.8, 0.55, 0.85]).all()  # as the docstring says
