"""The default calibrator: its formula, its folds, its candidates, and its errors."""

from copy import deepcopy
from functools import cache

import dask.array as da
import families
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    TimeSeriesSplit,
    cross_val_predict,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_html_repr

from skcalib import (
    AutoCalibrator,
    CalibratedClassifier,
    HistogramBinning,
    IsotonicCalibration,
    MatrixScaling,
    OrderPreservingScaling,
    TemperatureScaling,
    Uncalibrated,
    VectorScaling,
)
from skcalib.conditional import ConditionalCalibrator
from skcalib.datasets import make_logits
from skcalib.experimental import EstimatorCalibration
from skcalib.export import from_json, to_json

N = 300


def bent(n=N, n_classes=3, random_state=0):
    """Logits with an offset and a slope of their own for each class, and labels."""
    Z, y = make_logits(n, n_classes, temperature=2.0, random_state=random_state)
    return Z * np.linspace(1, 2, n_classes) + np.linspace(0, 2, n_classes), y


Z, Y = bent()
LABELS = np.array(["a", "b", "c"])[Y]
TWO_LABELS = LABELS[np.where(Y == 0, Y.argmin(), Y.argmax())]
FIVE_FOLDS = KFold(5, shuffle=True, random_state=0)
FAST = {"temperature": TemperatureScaling(smoothing="auto"), "vector": VectorScaling()}
CHAIN = make_pipeline(TemperatureScaling(), HistogramBinning(n_bins=5))
MIXED = {
    **FAST,
    "matrix": MatrixScaling(alpha=0.1),
    "isotonic": IsotonicCalibration(),
    "chain": CHAIN,
}
HALVES = [(np.arange(N // 2), np.arange(N // 2, N)), (np.arange(N // 2, N), np.arange(N // 2))]


def fast(cv=5, **arguments):
    """The default fitted with candidates that are fast."""
    return AutoCalibrator(FAST, cv=cv).fit(Z, Y, **arguments)


def out_of_fold(calibrator, X, y, cv=FIVE_FOLDS, **params):
    """Probabilities of rows from fits to the other folds."""
    return cross_val_predict(calibrator, X, y, cv=cv, method="predict_proba", params=params)


def same(one, other, rtol=1e-7):
    """Whether weights, losses and predictions are equal."""
    for name in ("weights_", "cv_log_loss_", "cv_log_loss_error_"):
        of_one, of_other = getattr(one, name), getattr(other, name)
        assert of_one.keys() == of_other.keys()
        assert_allclose([*of_one.values()], [*of_other.values()], rtol=rtol, atol=1e-3 * (rtol > 0))
    assert_allclose(one.predict_proba(Z), other.predict_proba(Z), rtol=max(rtol, 1e-4))


# --------------------------------------------------------------------------------------
# Weights and predictions.


@pytest.mark.parametrize(("n_classes", "weighted"), [(2, True), (3, True), (3, False)])
def test_predictions_are_the_mixture_of_calibrators_fitted_to_all_rows(n_classes, weighted):
    X, y = bent(N, n_classes)
    w = np.arange(N) % 3 / 2 if weighted else None
    c = AutoCalibrator(MIXED).fit(X, y, w)
    assert sum(c.weights_.values()) == pytest.approx(1)
    assert c.weights_.keys() == MIXED.keys()
    assert c.calibrators_.keys() == {name for name, weight in c.weights_.items() if weight > 0}
    for name, calibrator in c.calibrators_.items():
        routed = {"histogrambinning__sample_weight": w, "temperaturescaling__sample_weight": w}
        weights = routed if name == "chain" else {"sample_weight": w}
        alone = clone(MIXED[name]).fit(X, y, **weights)
        assert_array_equal(calibrator.predict_proba(X), alone.predict_proba(X))
        assert_array_equal(calibrator.classes_, c.classes_)
    assert c.smoothing_ == 1 / ((N if w is None else w.sum()) + 1)
    P = sum(c.weights_[name] * m.predict_proba(X) for name, m in c.calibrators_.items())
    P *= np.exp(c.intercept_)
    P /= P.sum(axis=1, keepdims=True)
    assert c.intercept_.any() == (n_classes == 2)
    expected = (1 - c.smoothing_) * P + c.smoothing_ / n_classes
    assert_allclose(c.predict_proba(X), expected, rtol=1e-9)
    assert_allclose(softmax(c.transform(X), axis=1), expected, rtol=1e-9)
    assert_array_equal(c.predict(X), expected.argmax(axis=1))


@pytest.mark.parametrize("random_state", [None, 3])
def test_losses_match_cross_validation(random_state):
    w = np.arange(N) % 3 + 1.0
    c = AutoCalibrator(MIXED, cv=4, random_state=random_state).fit(Z, LABELS, w)
    folds = list(KFold(4, shuffle=True, random_state=random_state or 0).split(Z))
    tests = np.concatenate([test for _, test in folds])
    for name in ("temperature", "vector", "isotonic"):
        P = out_of_fold(MIXED[name], Z, LABELS, folds, sample_weight=w)
        of_label = (1 - c.smoothing_) * P[np.arange(N), Y] + c.smoothing_ / 3
        losses = -np.log(of_label)[tests]
        mean = np.average(losses, weights=w[tests])
        assert c.cv_log_loss_[name] == pytest.approx(mean)
        error = np.sqrt((w[tests] ** 2 * (losses - mean) ** 2).sum()) / w.sum()
        assert c.cv_log_loss_error_[name] == pytest.approx(error)


def test_weights_minimise_the_out_of_fold_loss():
    """Temperature scaling has two pseudo-rows, and each candidate has 0.1 more."""
    candidates = {"temperature": MIXED["temperature"], "isotonic": IsotonicCalibration()}
    c = AutoCalibrator(candidates).fit(Z, Y)
    P = [out_of_fold(m, Z, Y) for m in candidates.values()]
    one, other = (1 - c.smoothing_) * np.array(P)[:, np.arange(N), Y] + c.smoothing_ / 3

    def loss(v):
        return -np.log(v * one + (1 - v) * other).sum() - 2.1 * np.log(v) - 0.1 * np.log(1 - v)

    expected = minimize_scalar(loss, bounds=(0, 1), method="bounded", options={"xatol": 1e-8}).x
    assert 0.05 < expected < 0.95
    assert_allclose([*c.weights_.values()], [expected, 1 - expected], atol=1e-4)


def test_best_is_the_candidate_of_lowest_loss():
    c = AutoCalibrator(MIXED, combine="best").fit(Z, Y)
    best = min(c.cv_log_loss_, key=c.cv_log_loss_.get)
    assert c.weights_ == {name: float(name == best) for name in MIXED}
    P = clone(MIXED[best]).fit(Z, Y).predict_proba(Z)
    assert_allclose(c.predict_proba(Z), (1 - c.smoothing_) * P + c.smoothing_ / 3)


def test_probabilities_of_zero_are_no_masked_classes():
    c = AutoCalibrator([KNeighborsClassifier(1)]).fit(Z, Y)
    assert np.isfinite(c.transform(Z)).all()
    assert_allclose(c.predict_proba(Z).min(), c.smoothing_ / 3)
    far = np.array([[2000.0, 0.0, -2000.0]])
    c = AutoCalibrator([make_pipeline(TemperatureScaling(smoothing=0))]).fit(Z, Y)
    assert_allclose(c.predict_proba(far)[0, 1:], c.smoothing_ / 3)


# --------------------------------------------------------------------------------------
# Folds.


def test_groups_are_not_split():
    groups = np.arange(N) // 7
    splits = list(GroupKFold(4).split(Z, Y, groups))
    same(fast(4, groups=groups), fast(splits, groups=groups), rtol=0)
    same(fast(5, groups=groups % 3), fast(3, groups=groups % 3), rtol=0)  # the number of groups


def test_time_splits_do_not_split_groups():
    """Groups are in the order of their first rows, even if the rows of groups are interleaved."""
    week = np.random.default_rng(0).permutation(12)[np.arange(N) // 25]
    week[[24, 25]] = week[[25, 24]]
    order = week[np.sort(np.unique(week, return_index=True)[1])]
    splits = [
        tuple(np.flatnonzero(np.isin(week, order[part])) for part in split)
        for split in TimeSeriesSplit(5).split(order)
    ]
    same(fast("time", groups=week), fast(splits, groups=week))


def test_time_splits_need_two_classes_early():
    order = np.argsort(Y, kind="stable")
    with pytest.raises(ValueError, match="first training rows"):
        AutoCalibrator(FAST, cv="time").fit(Z[order], Y[order])


@pytest.mark.parametrize("n_classes", [3, 8])
@pytest.mark.parametrize("n", [400, 15_000])
def test_equal_rows_without_groups_are_warned_of_once(n, n_classes):
    """Also if only a sample of the rows is checked."""
    X, y = make_logits(n, n_classes, random_state=0)
    row = np.random.default_rng(0).permutation(np.arange(n) % (9 * n // 10))  # a fifth is twice
    with pytest.warns(UserWarning, match="^(19|20|21)% of the rows .* groups=") as caught:
        AutoCalibrator(FAST).fit(X[row], y[row])
    assert len(caught) == 1


@pytest.mark.parametrize("case", ["groups", "few", "splits", "two columns", "continuous"])
def test_other_rows_are_not_warned_of(case):
    """Warnings are errors."""
    row = np.arange(N) % (49 * N // 50 if case == "few" else N // 2)
    if case == "continuous":
        row = np.arange(N)
    X, y = bent(N, 2 if case == "two columns" else 3)
    cv = KFold(5) if case == "splits" else 5
    AutoCalibrator(FAST, cv=cv).fit(X[row], y[row], groups=row if case == "groups" else None)


@pytest.mark.parametrize("classifier", [KNeighborsClassifier(10), GaussianNB(), "forest"])
def test_equal_scores_of_independent_rows_are_not_warned_of(classifier):
    """Scores of few values, and saturated scores."""
    if classifier == "forest":
        classifier = RandomForestClassifier(20, random_state=0)
    X, y = make_blobs(600, centers=3, n_features=20, cluster_std=6, random_state=0)
    X[:, :10] *= 3 if isinstance(classifier, GaussianNB) else 1
    CalibratedClassifier(classifier, AutoCalibrator(FAST)).fit(X, y)


def test_equal_rows_are_warned_of_by_a_classifier_unless_groups_are_known():
    X, y = make_blobs(200, centers=3, cluster_std=6, random_state=0)
    row = np.repeat(np.arange(200), 3)
    classifier = CalibratedClassifier(FrozenEstimator(LogisticRegression().fit(X, y)))
    classifier.set_params(calibrator=AutoCalibrator(FAST))
    with pytest.warns(UserWarning, match="logits equal"):
        classifier.fit(X[row], y[row])
    classifier.fit(X[row], y[row], groups=row)


def test_standard_errors_are_larger_for_rows_in_groups():
    row = np.repeat(np.arange(N), 4)
    alone = fast(3, groups=np.arange(N))
    repeated = AutoCalibrator(FAST, cv=3).fit(Z[row], Y[row], groups=row)
    for name, error in alone.cv_log_loss_error_.items():
        assert repeated.cv_log_loss_error_[name] == pytest.approx(error, rel=0.1)


def test_copies_in_groups_hardly_change_the_weights():
    n, candidates = 60, {"temperature": TemperatureScaling(), "vector": VectorScaling(alpha=0.01)}
    row = np.repeat(np.arange(n), 8)
    splits = [
        tuple(np.flatnonzero(np.isin(row, part)) for part in split)
        for split in FIVE_FOLDS.split(Z[:n])
    ]
    alone = AutoCalibrator(candidates, cv=FIVE_FOLDS).fit(Z[:n], Y[:n])
    copied = AutoCalibrator(candidates, cv=splits).fit(Z[row], Y[row], groups=row)
    assert 0.1 < alone.weights_["vector"] < 0.9
    assert copied.weights_["vector"] == pytest.approx(alone.weights_["vector"], abs=0.05)


@pytest.mark.parametrize(("n_classes", "seed"), [(2, 0), (10, 3)])
def test_copies_in_groups_count_as_one_row_in_prior_and_intercept(n_classes, seed):
    X, y = make_logits(300, n_classes, temperature=2.0, random_state=seed)
    frozen = FrozenEstimator(VectorScaling().fit(X[30:], y[30:]))
    candidates = {"uncalibrated": Uncalibrated(), "frozen": frozen}
    row, fold = np.repeat(np.arange(30), 8), np.arange(30) % 5
    splits, copies = (
        [(np.flatnonzero(part != k), np.flatnonzero(part == k)) for k in range(5)]
        for part in (fold, fold[row])
    )
    classes = np.arange(n_classes)
    alone = AutoCalibrator(candidates, cv=splits, classes=classes).fit(X[:30], y[:30])
    copied = AutoCalibrator(candidates, cv=copies, classes=classes)
    copied.fit(X[row], y[row], groups=row)
    # The share of the uniform distribution is 1 / 31 for 30 rows, and 1 / 241 for copies.
    assert copied.weights_["frozen"] == pytest.approx(alone.weights_["frozen"], abs=0.1)
    assert_allclose(copied.intercept_, alone.intercept_, rtol=0.1, atol=1e-12)


def test_groups_with_opposite_losses_do_not_change_the_weights():
    n, candidates = 60, {"temperature": TemperatureScaling(), "vector": VectorScaling(alpha=0.01)}
    X, y, splits = Z[:n], Y[:n], list(FIVE_FOLDS.split(Z[:n]))
    P = [out_of_fold(c, X, y)[np.arange(n), y] for c in candidates.values()]
    group = np.empty(n, int)  # the row with the largest difference, with the row with the smallest
    group[np.argsort(P[0] / P[1])] = np.minimum(np.arange(n), np.arange(n)[::-1])
    alone = AutoCalibrator(candidates, cv=splits).fit(X, y)
    assert AutoCalibrator(candidates, cv=splits).fit(X, y, groups=group).weights_ == alone.weights_


def test_few_rows_of_many_ordered_classes_keep_ordinal_calibration():
    rng = np.random.default_rng(0)
    center, classes = rng.uniform(0, 25, 60), np.arange(25)
    X = -0.375 * (classes - center[:, None]) ** 2
    y = np.clip(np.rint(center + rng.normal(0, 3, 60)), 0, 24).astype(int)
    assert AutoCalibrator(ordered=True, classes=classes).fit(X, y).weights_["ordinal"] > 0.3


def test_one_candidate_needs_no_folds():
    c = AutoCalibrator([VectorScaling()]).fit(Z, Y)
    assert (c.weights_, c.cv_log_loss_) == ({"VectorScaling": 1.0}, {})
    c = AutoCalibrator([VectorScaling()], cv=HALVES).fit(Z, Y)
    assert c.cv_log_loss_.keys() == {"VectorScaling"}  # splits that are given are used


@pytest.mark.parametrize("labels", [np.minimum(Y, 1), TWO_LABELS], ids=["0", "a"])
def test_all_rows_of_a_class_in_one_group(labels):
    groups = np.where(labels == labels[Y.argmin()], 0, 1 + np.arange(N) % 4)
    with pytest.warns(UserWarning, match="more groups"):
        c = AutoCalibrator(FAST).fit(Z[:, :2], labels, groups=groups)
    assert c.weights_ == {"temperature": 1.0, "vector": 0.0}


def test_rows_of_weight_zero_are_absent_from_time_splits():
    w = np.random.default_rng(0).integers(0, 3, N) * 1.0
    some = w > 0
    one = fast("time", sample_weight=w)
    same(one, AutoCalibrator(FAST, cv=TimeSeriesSplit(5)).fit(Z[some], Y[some], w[some]))


def test_a_class_without_rows_is_warned_of_once(recwarn):
    some = Y != 1
    with pytest.warns(UserWarning, match="No row has label 1") as caught:
        c = AutoCalibrator([*FAST.values(), CHAIN]).fit(Z[some], Y[some])
    assert len(caught) == 1
    assert c.predict_proba(Z).shape == (N, 3)


def few(n_rare, together):
    """Rows of a rare and a frequent class, and a seed for folds with the rare rows in one part."""
    y = np.r_[np.ones(n_rare, int), np.zeros(30, int)]
    X = np.random.default_rng(0).normal(size=(len(y), 1))

    def in_one_part(seed):
        parts = KFold(5, shuffle=True, random_state=seed).split(X)
        return any(y[test].sum() == n_rare for _, test in parts)

    return X, y, next(seed for seed in range(1000) if in_one_part(seed) == together)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_few_rows_of_a_class():
    X, y, seed = few(3, together=False)
    assert len(AutoCalibrator(FAST, random_state=seed).fit(X, y).cv_log_loss_) == 2
    X, y, seed = few(3, together=True)
    with pytest.warns(UserWarning, match="there are 3 folds"):
        c = AutoCalibrator(FAST, random_state=seed).fit(X, y)
    assert len(c.cv_log_loss_) == 2
    X, y, _ = few(1, together=True)
    with pytest.warns(UserWarning, match="first candidate"):
        c = AutoCalibrator(FAST).fit(X, y)
    assert c.weights_ == {"temperature": 1.0, "vector": 0.0}
    assert c.cv_log_loss_ == {}


# --------------------------------------------------------------------------------------
# Candidates.


@pytest.mark.parametrize("kind", [AutoCalibrator, ConditionalCalibrator])
def test_the_order_of_many_classes_lowers_the_loss(kind):
    rng = np.random.default_rng(0)
    mean = rng.uniform(0, 29, size=800)
    X = -1.5 * (np.arange(30) - mean[:, None]) ** 2 / 4  # over-confident and too low
    y = np.clip(np.round(mean + 2 + 3 * rng.normal(size=800)), 0, 29).astype(int)
    losses = []
    for ordered in (False, True):
        c = kind(ordered=ordered, classes=range(30)).fit(X[:400], y[:400])
        losses.append(log_loss(y[400:], c.predict_proba(X[400:]), labels=range(30)))
    assert c.weights_["ordinal"] > 0.5
    assert losses[1] < losses[0] - 0.03


@pytest.mark.parametrize(
    ("n_classes", "left_out"), [(2, {"Venn-Abers"}), (3, {"gradient boosting", "extra trees"})]
)
def test_smooth_candidates_are_the_default_without_trees_and_steps(n_classes, left_out):
    X, y = make_logits(300, n_classes, random_state=0)
    every, smooth = (AutoCalibrator(kind, cv=2).fit(X, y) for kind in (None, "smooth"))
    assert every.weights_.keys() - smooth.weights_.keys() == left_out
    assert smooth.weights_.keys() < every.weights_.keys()
    assert_allclose(from_json(to_json(smooth)).predict_proba(X), smooth.predict_proba(X))


def test_useless_trees_have_the_loss_of_the_first_fold():
    """If the first fold has many test rows, useless trees are not fitted on other folds."""
    X, y = make_logits(2500, 3, temperature=2.0, random_state=1)
    c = AutoCalibrator().fit(X, y)
    assert list(c.cv_log_loss_) == list(c.weights_)
    train, test = next(FIVE_FOLDS.split(X))
    first = {
        "gradient boosting": EstimatorCalibration(),
        "temperature": TemperatureScaling(smoothing="auto"),
    }
    for name, candidate in first.items():
        P = candidate.fit(X[train], y[train]).predict_proba(X[test])
        is_first = c.cv_log_loss_[name] == pytest.approx(log_loss(y[test], P), rel=1e-4)
        assert is_first == (name == "gradient boosting")
    assert c.weights_["gradient boosting"] == 0


def of_votes(Z, random_state=0):
    """Logarithms of shares of ten votes, with many ties."""
    rng = np.random.default_rng(random_state)
    return np.log(np.maximum(rng.multinomial(10, softmax(Z, axis=1)) / 10, 1e-3))


@pytest.mark.filterwarnings("ignore:.*of the rows have logits equal:UserWarning")
@pytest.mark.parametrize(
    ("n_classes", "shares"),
    [(2, True), *(pytest.param(*case, marks=pytest.mark.slow) for case in [(2, False), (4, True)])],
)
def test_the_order_of_classes_and_the_type_of_labels_change_nothing(n_classes, shares):
    n = 300
    X, y = make_logits(n, n_classes, temperature=2.0, random_state=2)
    X = X * np.where(X.argmax(axis=1) == 0, 3, 1)[:, None]  # which trees are for
    X, rng = of_votes(X) if shares else X, np.random.default_rng(0)
    P = AutoCalibrator().fit(X, y).predict_proba(X)
    order = np.roll(np.arange(n_classes), 1)
    labels = np.array([f"{k}" for k in np.argsort(order)])[y]
    X = X + rng.integers(-5, 5, size=(n, 1))
    other = AutoCalibrator().fit(X[:, order], labels)
    assert_allclose(other.predict_proba(X[:, order]), P[:, order], atol=1e-6)


@pytest.mark.parametrize("make", [list, dict])
def test_candidates_by_list_and_by_name(make):
    given = [TemperatureScaling(), VectorScaling(alpha=1), VectorScaling(alpha=2), CHAIN]
    names = ["TemperatureScaling", "VectorScaling(alpha=1)", "VectorScaling(alpha=2)", "Pipeline"]
    candidates = dict(zip(names, given, strict=True)) if make is dict else given
    c = AutoCalibrator(candidates).fit(Z, Y)
    assert list(c.weights_) == names
    assert not any(hasattr(m, "classes_") for m in given)


@pytest.mark.slow
@pytest.mark.parametrize(
    "candidate",
    [
        CHAIN,
        GridSearchCV(VectorScaling(), {"alpha": [0.1, 1]}, cv=3, scoring="neg_log_loss"),
        AutoCalibrator([CHAIN, VectorScaling()], cv=3),
        KNeighborsClassifier(30),
    ],
    ids=lambda c: type(c).__name__,
)
def test_any_classifier_of_logits_is_a_candidate(candidate):
    for labels, others in ((Y, []), (LABELS, [TemperatureScaling()])):
        c = AutoCalibrator([candidate, *others], combine="best" if others else "stack")
        P = c.fit(Z, labels).predict_proba(Z)
        assert_allclose(P.sum(axis=1), 1)
        assert set(c.predict(Z)) <= set(labels)
    assert log_loss(labels, P, labels=c.classes_) < 1


class Failing(TemperatureScaling):
    """Fails for few rows."""

    def __init__(self, at_least=N, *, classes=None):
        super().__init__(classes=classes)
        self.at_least = at_least

    def fit(self, X, y, sample_weight=None):
        if len(X) < self.at_least:
            raise RuntimeError("too few rows")
        return super().fit(X, y, sample_weight)


class Invalid(GaussianNB):
    """Gives NaN in place of probabilities, or raises an error."""

    def __init__(self, error=None):
        super().__init__()
        self.error = error

    def predict_proba(self, X):
        if self.error is not None:
            raise self.error
        return super().predict_proba(X) * np.nan


@pytest.mark.parametrize(
    ("candidate", "why"),
    [
        (Failing(), "too few rows"),
        (Invalid(), "finite probabilities"),
        (Invalid(RuntimeError("not today")), "not today"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("combine", ["stack", pytest.param("best", marks=pytest.mark.slow)])
def test_a_candidate_that_fails_on_a_fold_is_left_out(candidate, why, combine):
    named = {"bad": candidate, **FAST}
    with pytest.warns(UserWarning, match=f"'bad' .*{why}") as caught:
        c = AutoCalibrator(named, combine=combine).fit(Z, Y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    same(c, quick_fit(combine=combine), rtol=0)


def test_an_error_of_all_candidates_is_raised():
    with pytest.raises(RuntimeError, match="too few rows"):
        AutoCalibrator({"one": Failing(), "two": VectorScaling(alpha=-1)}).fit(Z, Y)
    with pytest.raises(RuntimeError, match="too few rows"):
        AutoCalibrator([Failing(N + 1)]).fit(Z, Y)


@cache
def quick_fit(**params):
    return AutoCalibrator(FAST, **params).fit(Z, Y)


BAD = {
    "calibrators": ({"calibrators": []}, {}),
    "combine": ({"combine": "mean"}, {}),
    "cv": ({"cv": "month"}, {}),
    "groups": ({}, {"groups": np.ones(N)}),
    "six groups": ({"cv": "time"}, {"groups": np.arange(N) // 75}),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_changes_nothing(message):
    params, arguments = BAD[message]
    c = deepcopy(quick_fit())
    before, state = c.predict_proba(Z), set(vars(c))
    c.set_params(**params)
    fresh = AutoCalibrator(**{"calibrators": FAST, **params})
    for calibrator in (c, fresh):
        with pytest.raises(ValueError, match=message):
            calibrator.fit(Z, Y, **arguments)
    assert set(vars(c)) == state
    assert_array_equal(c.predict_proba(Z), before)
    assert not families.fitted_state(fresh)


@pytest.mark.slow
@pytest.mark.parametrize("params", [{}, {"cv": HALVES}], ids=["groups", "splits"])
def test_dask_collections_are_split_by_a_number_of_folds(params):
    X, y = da.from_array(Z, (100, 3)), da.from_array(Y, 100)
    groups = {} if params else {"groups": np.arange(N) // 7}
    with pytest.raises(ValueError, match="in memory"):
        AutoCalibrator(FAST, **params).fit(X, y, **groups)
    same(AutoCalibrator(FAST).fit(X, y), AutoCalibrator(FAST).fit(Z, Y), rtol=1e-3)


# --------------------------------------------------------------------------------------
# Masked classes.

MASKED = Z.copy()
MASKED[::3, 0] = np.where(Y[::3] == 0, Z[::3, 0], -np.inf)
MATRIX = {"matrix": MatrixScaling(), "order": OrderPreservingScaling()}


def test_masked_classes_have_no_probability():
    c = AutoCalibrator({**FAST, "isotonic": IsotonicCalibration()}).fit(MASKED, Y)
    assert_array_equal(c.predict_proba(MASKED) == 0, np.isneginf(MASKED))
    assert_allclose(c.predict_proba(MASKED).sum(axis=1), 1)
    P = out_of_fold(FAST["temperature"], MASKED, Y)
    n_classes = np.isfinite(MASKED).sum(axis=1)
    q = (1 - c.smoothing_) * P[np.arange(N), Y] + c.smoothing_ / n_classes
    assert c.cv_log_loss_["temperature"] == pytest.approx(-np.log(q).mean())


def test_pipelines_and_classifiers_take_masked_rows():
    X = np.where(np.isneginf(MASKED), -50, Z)
    members = {"temperature": FAST["temperature"], "chain": CHAIN}
    near = AutoCalibrator(members, cv=HALVES).fit(X, Y)
    c = AutoCalibrator(members, cv=HALVES).fit(MASKED, Y)
    P = c.predict_proba(MASKED)
    assert c.weights_["chain"] > 0
    assert_array_equal(P == 0, np.isneginf(MASKED))
    assert_allclose(P.sum(axis=1), 1)
    assert abs(P - near.predict_proba(X)).mean() < 0.05


def test_certain_rows_do_not_move_folds():
    """Rows with a single class that is not masked say nothing about the candidates."""
    X, y = bent(N, 2)
    certain = np.where(np.eye(2)[y[: N // 2]] == 1, 0, -np.inf)
    both = np.random.default_rng(0).permutation(N + N // 2)
    c = AutoCalibrator(FAST).fit(np.r_[X, certain][both], np.r_[y, y[: N // 2]][both])
    alone = AutoCalibrator(FAST).fit(*(a[both[both < N]] for a in (X, y)))
    assert_allclose([*c.weights_.values()], [*alone.weights_.values()], atol=1e-3)
    assert_allclose([*c.cv_log_loss_.values()], [*alone.cv_log_loss_.values()], rtol=1e-3)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_all_rows_may_be_certain():
    certain = np.where(np.eye(2)[Y % 2] == 1, 0, -np.inf)
    assert_array_equal(
        AutoCalibrator(FAST).fit(certain, Y % 2).predict_proba(certain) > 0, certain == 0
    )


def test_matrices_are_left_out_for_masked_rows():
    with pytest.warns(UserWarning, match="left out: matrix"):
        c = AutoCalibrator(MATRIX).fit(MASKED, Y)
    assert list(c.weights_) == ["order"]
    with pytest.raises(ValueError, match="MatrixScaling"):
        AutoCalibrator([MatrixScaling()]).fit(MASKED, Y)


# --------------------------------------------------------------------------------------
# Inside other estimators.


def test_representation_shows_the_weights():
    c = AutoCalibrator({"<b>&": VectorScaling(), "isotonic": IsotonicCalibration()})
    assert str(c) == repr(c)
    assert "<p>" not in c._repr_mimebundle_()["text/html"]
    c.fit(Z, Y)
    chosen = str(c).removeprefix(repr(c) + "\n")
    assert chosen == ", ".join(
        f"{name}: {weight:.2f}"
        for name, weight in sorted(c.weights_.items(), key=lambda i: -i[1])
        if weight > 0
    )
    bundle = c._repr_mimebundle_()
    assert bundle["text/plain"] == str(c)
    assert "&lt;b&gt;&amp;: " in bundle["text/html"]
    for html in (bundle["text/html"], estimator_html_repr(c)):
        assert "<b>&" not in html
    best = AutoCalibrator(FAST, combine="best").fit(Z, Y)
    assert str(best).endswith(": 1.00")


# --------------------------------------------------------------------------------------
# Statistics.


def kinds(n, K, seed):
    """Logits and labels by the name of the error."""
    rng = np.random.default_rng(seed)
    plain, y = make_logits(n, K, temperature=2.0, random_state=seed)
    offset = 2 * np.random.default_rng(9).normal(size=K)
    columns = plain.copy()
    columns[:, 0] += 3.0 * (y == 0)
    return {
        "temperature": (plain, y),
        "offsets": (plain + offset, y),
        "leaked": (columns, y),
        "shuffled": (plain, rng.permutation(y)),
        "separable": (8.0 * np.eye(K)[y] + rng.normal(size=(n, K)), y),
    }


@pytest.mark.parametrize("slope", [0.5, 2.0, 4.0])
def test_rare_events_occur_as_often_as_predicted(slope):
    ratios = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        y = (rng.random(5000) < 0.01).astype(int)
        X = slope * (rng.normal(size=5000) + 2 * y)[:, None] - np.log(100)
        ratios.append(AutoCalibrator().fit(X, y).predict_proba(X)[:, 1].mean() / y.mean())
    assert np.mean(ratios) == pytest.approx(1, abs=0.03)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("n", "K"), [(60, 2), (60, 3), (300, 5), (500, 50)])
def test_never_worse_than_temperature_scaling(n, K):
    """The mean loss for few rows is at most 1 % or .005 higher, and below uncalibrated."""
    losses = {}
    for seed in range(2 if (n, K) == (60, 2) else 1):
        test = kinds(2000, K, 1000 + seed)
        w = np.random.default_rng(seed).uniform(0.1, 2, n) if seed % 2 else None
        for kind, (X, y) in kinds(n, K, seed).items():
            X_test, y_test = test[kind]
            auto = AutoCalibrator(classes=range(K)).fit(X, y, w)
            temperature = TemperatureScaling(smoothing="auto", classes=range(K)).fit(X, y, w)
            found = [c.predict_proba(X_test) for c in (auto, temperature)]
            found.append(softmax(X_test, axis=1))
            losses.setdefault(kind, []).append(
                [log_loss(y_test, P, labels=range(K)) for P in found]
            )
    for kind, of_seeds in losses.items():
        auto, temperature, uncalibrated = np.mean(of_seeds, axis=0)
        assert auto < temperature * 1.01 + 0.005, kind
        if kind != "separable":
            assert auto < uncalibrated, kind


def test_two_classes_mix_log_odds_as_candidates_mix_probabilities():
    """The default evaluates one function of the log-odds, also far from zero and if masked."""
    X, y = bent(N, 2)
    c = AutoCalibrator().fit(X, y)
    far = np.array([[0.0, 900.0], [900.0, 0.0], [1.0, 1.0], [-3.0, 40.0]])
    masked = np.array([[-np.inf, 2.0], [2.0, -np.inf]])
    for Z in (X, far, masked, np.float32(far)):
        P = [w * c.calibrators_[name].predict_proba(Z) for name, w in c.weights_.items() if w]
        Q = sum(P) * np.exp(c.intercept_)
        Q *= (1 - c.smoothing_) / Q.sum(axis=1, keepdims=True)
        Q = np.where(np.isneginf(Z), 0, Q + c.smoothing_ / np.isfinite(Z).sum(axis=1)[:, None])
        assert_allclose(c.predict_proba(Z), Q, rtol=1e-5, atol=1e-7)
    one = AutoCalibrator().fit(X[:, 1:] - X[:, :1], y)
    assert_allclose(one.predict_proba(far[:, 1:] - far[:, :1]), c.predict_proba(far), rtol=1e-9)


def test_rows_in_several_test_sets_divide_their_weight():
    once, twice = (AutoCalibrator(MIXED, cv=splits).fit(Z, Y) for splits in (HALVES, 2 * HALVES))
    assert twice.weights_ == pytest.approx(once.weights_, abs=1e-6)
    assert twice.cv_log_loss_ == pytest.approx(once.cv_log_loss_)
    assert twice.cv_log_loss_error_ == pytest.approx(once.cv_log_loss_error_)
