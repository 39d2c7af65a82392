"""Calibration given features: lower loss, refused input, and no harm from noise features."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, log_softmax, rel_entr
from sklearn import config_context
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.model_selection import GroupKFold, KFold, RepeatedKFold, ShuffleSplit
from sklearn.pipeline import make_pipeline

from skcalib import AutoCalibrator, MatrixScaling, TemperatureScaling, VectorScaling
from skcalib.conditional import ConditionalCalibrator
from skcalib.datasets import make_logits

N, NEW = slice(800), slice(800, None)
SUBJECTS = np.array(["art", "law", "math", "physics"])


def rows(n=2000, n_classes=3, seed=0):
    """Logits with a temperature for each subject and an offset that depends on the length."""
    rng = np.random.default_rng(seed)
    Z, y = make_logits(n, n_classes, temperature=1.0, random_state=seed)
    subject, length = rng.integers(4, size=n), rng.exponential(100, size=n)
    Z = Z * np.array([0.5, 1, 2, 4])[subject, None]
    Z[:, 0] += 2 * (length > 100)
    frame = pd.DataFrame({"subject": SUBJECTS[subject], "length": length})
    frame.loc[rng.random(n) < 0.1, "length"] = np.nan
    return Z[:, 1:] - Z[:, :1] if n_classes == 2 else Z, y, frame


def of_few(**params):
    """A calibrator that is fast to fit."""
    return ConditionalCalibrator([TemperatureScaling(), VectorScaling(alpha=1.0)], **params)


@pytest.fixture(scope="module", params=[2, 3])
def fitted(request):
    Z, y, F = rows(n_classes=request.param)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return of_few().fit(Z[N], y[N], features=F[N]), Z[NEW], y[NEW], F[NEW]


@pytest.mark.slow
def test_features_lower_the_loss(fitted):
    c, Z, y, F = fitted
    rest = F.assign(subject="chess", length=np.nan)
    given, unknown = (log_loss(y, c.predict_proba(Z, features=f)) for f in (F, rest))
    with pytest.warns(UserWarning, match="got none"):
        without = log_loss(y, c.predict_proba(Z))
    assert given < 0.97 * without
    assert given < unknown < without + 0.05
    parts = ["without features", "effects", "effects on temperature scaling", "trees"]
    assert list(c.feature_weights_) == parts
    assert sum(c.feature_weights_.values()) == pytest.approx(1)
    report = c.loss_report_
    assert report["with features"] < report["without features"] < report["features alone"]
    assert report["with features"] == pytest.approx(given, abs=0.06)
    assert "features alone" in str(c)


def test_few_categories_have_maps_of_their_own():
    """Scores of three sources mean different things, so shrinkage to a common map costs much."""
    rng = np.random.default_rng(0)
    source, truth = rng.choice(3, 4000, p=[0.5, 0.3, 0.2]), rng.normal(0.5, 1.2, 4000)
    y = rng.random(4000) < expit(truth)
    z = np.choose(source, [0.3 * truth + 2.5, 0.8 * truth, 2 * truth])[:, None]
    fit, new = slice(1000), slice(1000, None)
    features = np.array(["stated", "agreement", "legacy"])[source]
    c = ConditionalCalibrator(random_state=0).fit(z[fit], y[fit], features=features[fit])
    p = c.predict_proba(z[new], features=features[new])[:, 1]
    true_p = expit(truth[new])
    assert np.mean(rel_entr(true_p, p) + rel_entr(1 - true_p, 1 - p)) < 0.008


def test_rows_of_unknown_categories_are_as_without_features():
    Z, y, F = rows(800)
    words = F["subject"].to_numpy()
    c = of_few().fit(Z[:400], y[:400], features=words[:400])
    with pytest.warns(UserWarning, match="got none"):
        want = c.predict_proba(Z)
    words[:100] = ["chess", None] * 50
    P = c.predict_proba(Z, features=words)
    np.testing.assert_allclose(P[:100], want[:100], rtol=1e-12)
    assert (P[100:] != want[100:]).any(axis=1).all()


def test_outputs_agree_and_do_not_depend_on_how_features_are_given(fitted):
    c, Z, _, F = fitted
    P = c.predict_proba(Z, features=F)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    log_p = c.predict_log_proba(Z, features=F)
    np.testing.assert_allclose(np.exp(log_p), P)
    S = c.transform(Z, features=F)
    assert S.shape == Z.shape
    both = np.column_stack([0 * S, S]) if S.shape[1] == 1 else S
    np.testing.assert_allclose(log_softmax(both, axis=1), log_p, atol=1e-9)
    np.testing.assert_array_equal(c.predict(Z, features=F), P.argmax(axis=1))
    assert c.score(Z, P.argmax(axis=1), features=F) == 1
    for same in (F[["length", "subject"]], F.to_numpy(), F.to_numpy().tolist()):
        np.testing.assert_array_equal(c.predict_proba(Z, features=same), P)
    one = c.predict_proba(Z[:1].astype(np.float32), features=F[:1])
    assert one.dtype == np.float32
    np.testing.assert_allclose(one, P[:1], atol=1e-6)
    loaded = pickle.loads(pickle.dumps(c))
    np.testing.assert_array_equal(loaded.predict_proba(Z, features=F), P)


def test_without_features_it_is_the_default(fitted):
    c, Z, y, F = fitted
    with pytest.warns(UserWarning, match="got none"):
        P = c.predict_proba(Z)
    plain, auto = of_few().fit(Z, y), AutoCalibrator(c.calibrators).fit(Z, y)
    np.testing.assert_array_equal(plain.predict_proba(Z), auto.predict_proba(Z))
    assert (P != c.predict_proba(Z, features=F)).any()
    with pytest.raises(ValueError, match="without features"):
        plain.predict_proba(Z, features=F)


def noise(n_rows, n_classes, seed):
    """Logits, labels and noise features. The last feature is categorical."""
    rng = np.random.default_rng(seed + 100)
    Z, y = make_logits(n_rows, n_classes, temperature=2.0, random_state=seed)
    return Z, y, np.column_stack([rng.normal(size=(n_rows, 2)), rng.integers(20, size=n_rows)])


@pytest.mark.slow
def test_noise_has_no_weight():
    Z, y, F = noise(600, 3, 0)
    c = of_few(categorical_features=[2]).fit(Z, y, features=F)
    assert c.feature_weights_["without features"] == 1
    assert c.loss_report_["with features"] == c.loss_report_["without features"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = c.predict_proba(Z)
    np.testing.assert_allclose(c.predict_proba(Z, features=F), want, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The calibrator was fitted with features")
@pytest.mark.parametrize("n_classes", [2, 4])
def test_noise_does_no_harm_in_the_mean(n_classes):
    harm = []
    for seed in range(8):
        Z, y, F = noise(4500, n_classes, seed)
        c = of_few(categorical_features=[2]).fit(Z[:500], y[:500], features=F[:500])
        given = c.predict_proba(Z[500:], features=F[500:])
        harm.append(log_loss(y[500:], given) - log_loss(y[500:], c.predict_proba(Z[500:])))
    assert np.count_nonzero(np.abs(harm) > 1e-9) <= 2
    assert np.mean(harm) < 5e-4


@pytest.mark.slow
@pytest.mark.parametrize("signal", [0.0, 0.7])
def test_features_that_are_better_than_the_logits_are_named(signal):
    """Also if both together are better than either."""
    _, y, F = rows()
    Z = np.random.default_rng(2).normal(size=(len(y), 3)) + signal * np.eye(3)[y]
    F["hint"] = y + 0.5 * np.random.default_rng(1).normal(size=len(y))
    with pytest.warns(UserWarning, match="features alone"):
        c = of_few().fit(Z[N], y[N], features=F[N])
    names = "with features", "features alone", "without features"
    both, alone, without = (c.loss_report_[name] for name in names)
    assert alone < without
    assert (both < 0.95 * alone) == (signal > 0)


def test_features_are_routed_and_parameters_cloned():
    Z, y, F = rows(300)
    with config_context(enable_metadata_routing=True):
        last = of_few(cv=2).set_fit_request(features=True).set_predict_proba_request(features=True)
        chain = make_pipeline(TemperatureScaling(), last).fit(Z, y, features=F)
        P = chain.predict_proba(Z, features=F)
    assert chain[-1].feature_names_ == ["subject", "length"]
    assert P.shape == Z.shape
    assert clone(last).get_params()["categorical_features"] == "from_dtype"


@pytest.mark.parametrize(
    ("features", "word"),
    [
        (pd.DataFrame({"id": [f"row {i}" for i in range(600)]}), "600 categories .*'id'"),
        (np.ones((600, 2, 2)), "shape"),
        (np.ones((600, 0)), "no columns"),
        (np.full(600, np.inf), "inf"),
        (pd.DataFrame([[1, 2]] * 600, columns=["a", "a"]), "distinct names"),
        (np.array(["a", 1] * 300, object), "one type"),
    ],
)
def test_wrong_features_are_refused(features, word):
    Z, y, _ = rows(600)
    c = of_few()
    with pytest.raises(ValueError, match=word):
        c.fit(Z, y, features=features)
    assert not hasattr(c, "classes_")


@pytest.mark.parametrize("categorical", ["category", ["none"], [2], 1.0])
def test_wrong_categorical_features_are_refused(categorical):
    Z, y, F = rows(600)
    with pytest.raises(ValueError, match="categorical_features"):
        of_few(categorical_features=categorical).fit(Z, y, features=F)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda F: F.rename(columns={"length": "size"}), "'size'"),
        (lambda F: F[["subject"]], "these columns"),
        (lambda F: F[:-1], "1200 rows"),
        (lambda F: F.assign(length="long"), "'length'"),
        (lambda F: F.assign(subject=3), "type"),
    ],
)
def test_different_features_at_prediction_are_refused(fitted, change, word):
    c, Z, _, F = fitted
    with pytest.raises(ValueError, match=word):
        c.predict_proba(Z, features=change(F))


@pytest.mark.slow
def test_many_rows_are_sampled_for_the_weights_and_all_fitted(monkeypatch):
    """From 50 000 rows on, here 10 000, half as many rows determine the weights."""
    for name, n in (("MANY_ROWS", 10_000), ("FEWER_ROWS", 5000)):
        monkeypatch.setattr(f"skcalib._splits.{name}", n)
    monkeypatch.setattr("skcalib.conditional._calibrator.MANY_ROWS", 10_000)
    Z, y, F = rows(14_000)
    some, new = slice(10_000), slice(10_000, None)
    c = of_few().fit(Z[some], y[some], features=F[some])
    part = of_few().fit(Z[:4000], y[:4000], features=F[:4000])
    losses = [log_loss(y[new], c.predict_proba(Z[new], features=F[new])) for c in (c, part)]
    assert losses[0] < losses[1] + 1e-3
    alone = VectorScaling(alpha=1.0).fit(Z[some], y[some])
    np.testing.assert_array_equal(c.calibrators_["VectorScaling"].coef_, alone.coef_)


def test_matrix_scaling_refuses_masked_classes():
    Z, y, F = rows(300)
    Z[0, (y[0] + 1) % 3] = -np.inf
    with pytest.raises(ValueError, match="MatrixScaling"):
        ConditionalCalibrator([MatrixScaling()]).fit(Z, y, features=F)


# --------------------------------------------------------------------------------------
# Rows in several test sets.


def overlapping(n=300, n_new=3000):
    """Calibrated logits, labels, and features of noise; those to fit and new ones."""
    rng = np.random.default_rng(0)
    Z, y = make_logits(n + n_new, 3, temperature=2.0, random_state=0)
    F = rng.integers(0, 12, (n + n_new, 8)).astype(str)
    return (Z[:n], y[:n], F[:n]), (Z[n:], y[n:], F[n:])


@pytest.mark.parametrize(
    "cv",
    [
        RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
        ShuffleSplit(3, test_size=0.4, random_state=0),
        [*KFold(3).split(np.zeros(300))] * 2,
    ],
    ids=["repeated", "random", "twice"],
)
def test_features_of_noise_do_not_harm_if_rows_are_in_several_test_sets(cv):
    (Z, y, F), (Z_new, y_new, F_new) = overlapping()
    c = ConditionalCalibrator([TemperatureScaling()], cv=cv).fit(Z, y, features=F)
    without = log_loss(y_new, c.calibrators_["TemperatureScaling"].predict_proba(Z_new))
    assert log_loss(y_new, c.predict_proba(Z_new, features=F_new)) < without + 0.01
    assert c.loss_report_["with features"] == pytest.approx(without, abs=0.1)


@pytest.mark.parametrize("n_splits", [1, 2])
def test_a_single_test_set_is_refused(n_splits):
    (Z, y, F), _ = overlapping()
    cv = [(np.arange(200), np.arange(200, 300))] * n_splits
    with pytest.raises(ValueError, match="two test sets"):
        ConditionalCalibrator([TemperatureScaling()], cv=cv).fit(Z, y, features=F)


def in_weeks(n_weeks, n=30, seed=0):
    """Rows with an error of the logits of each week, and a feature that differs by week."""
    rng = np.random.default_rng(seed)
    week = np.repeat(np.arange(n_weeks), n)
    Z, y = make_logits(n * n_weeks, 3, temperature=1.0, random_state=seed)
    feature = rng.normal(size=n_weeks)[week]  # which means nothing
    return Z + 2.0 * rng.normal(size=(n_weeks, 3))[week], y, feature, week


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_groups_keep_a_feature_from_recognizing_them(seed):
    """Random folds learn the errors of the weeks by a feature; later weeks have others."""
    Z, y, feature, week = in_weeks(60, n=60, seed=seed)
    fit, new = week < 30, week >= 30
    losses, weights = {}, {}
    for name, groups in {"groups": week[fit], "none": None}.items():
        c = of_few().fit(Z[fit], y[fit], features=feature[fit], groups=groups)
        losses[name] = log_loss(y[new], c.predict_proba(Z[new], features=feature[new]))
        weights[name] = c.feature_weights_["without features"]
    assert weights["groups"] == 1
    assert weights["none"] < 0.5
    assert losses["groups"] < losses["none"] - 0.05


def two_seasons(seed, n=400, n_classes=25, n_places=8):
    """Logits, labels and places of n rows in each season; every season has its own labels."""
    rng = np.random.default_rng(seed)
    place = rng.integers(n_places, size=(2, n, 1))
    center = np.take_along_axis(rng.uniform(5, 20, (2, n_places, 1)), place, axis=1)
    y = np.clip(np.rint(rng.normal(center, 1.5)), 0, n_classes - 1).astype(int)
    Z = -((np.arange(n_classes) - rng.normal(y, 3)) ** 2) / (2 * 1.5**2)
    return Z, y[..., 0], place


@pytest.mark.filterwarnings("ignore:Of 400 rows none has these classes")
def test_few_rows_per_level_and_class_do_not_harm_in_the_next_season():
    excess = []
    for seed in range(2):
        Z, y, place = two_seasons(seed)
        c = ConditionalCalibrator(categorical_features=[0], classes=range(25))
        c.fit(Z[0], y[0], features=place[0])
        assert c.feature_weights_["without features"] < 0.9  # this season the places help
        given, unknown = (c.predict_proba(Z[1], features=F) for F in (place[1], place[1] + 99))
        excess.append(
            log_loss(y[1], given, labels=range(25)) - log_loss(y[1], unknown, labels=range(25))
        )
    assert np.mean(excess) < 0.2


@pytest.mark.filterwarnings("ignore:Of (4|8)00 rows none has these classes")
@pytest.mark.filterwarnings("ignore:The features alone predict the labels")
def test_a_weight_of_two_counts_as_two_rows_per_level_and_class():
    (Z, _), (y, _), (place, _) = two_seasons(0)
    c = ConditionalCalibrator(categorical_features=[0], classes=range(25))
    once, twice = (
        c.fit(Z, y, w, features=place).loss_report_["with features"]
        for w in (None, np.full(len(y), 2.0))
    )
    assert twice < once - 0.1  # weak shrinkage has a lower loss this season


def test_a_strong_feature_counts_with_two_groups():
    rng = np.random.default_rng(0)
    z, site = rng.normal(size=600), rng.integers(0, 2, 600)
    y = (rng.random(600) < 1 / (1 + np.exp(1 - 3 * z - 2 * site))).astype(int)
    c = of_few(categorical_features=[0])
    c.fit(z[:, None], y, features=site[:, None], groups=np.arange(600) % 2)
    assert c.feature_weights_["without features"] < 0.1


def test_features_and_groups_are_used_together():
    """A useful feature lowers the loss on new groups."""
    Z, y, F = rows(1600)
    groups = np.arange(1600) // 8
    fit, new = groups < 50, groups >= 50
    c = of_few().fit(Z[fit], y[fit], features=F[fit], groups=groups[fit])
    without = of_few().fit(Z[fit], y[fit], groups=groups[fit])
    with_features = log_loss(y[new], c.predict_proba(Z[new], features=F[new]))
    assert with_features < log_loss(y[new], without.predict_proba(Z[new])) - 0.02
    splits = list(GroupKFold(5).split(Z[fit], y[fit], groups[fit]))
    by_splits = of_few(cv=splits).fit(Z[fit], y[fit], features=F[fit], groups=groups[fit])
    assert c.loss_report_ == pytest.approx(by_splits.loss_report_)
