"""FusionCalibrator: what it promises, missing scores, input and outputs."""

import os
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings, strategies as st
from scipy.special import softmax
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from skcalib import (
    AutoCalibrator,
    LogitTransformer,
    PlattScaling,
    TemperatureScaling,
    VectorScaling,
)
from skcalib.datasets import make_logits
from skcalib.export import from_json, to_json
from skcalib.fusion import FusionCalibrator
from skcalib.judge import ScoreTransformer
from skcalib.testing import expected_failed_checks

no_score = pytest.mark.filterwarnings("ignore:.*have no score")


def make_scores(n, n_scores, n_classes, noise=1.5, gaps=0.0, seed=0):
    """Scores (n, n_scores * n_classes) that are logits with noise, and labels."""
    Z, y = make_logits(n, n_classes, random_state=seed)
    rng = np.random.default_rng(seed)
    S = Z[:, None] + noise * rng.normal(size=(n, n_scores, n_classes))
    S[rng.random((n, n_scores)) < gaps] = np.nan
    return S.reshape(n, -1), y


def fast_fusion(n_scores=None, **params):
    """A fusion of scores with a calibrator that is fitted in a millisecond."""
    return FusionCalibrator(n_scores, calibrator=TemperatureScaling(), **params)


# --------------------------------------------------------------------------------------
# What the fusion promises.


@no_score
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("gaps", [0.0, 0.2])
def test_a_single_score_equals_the_default(n_classes, gaps):
    X, y = make_scores(300, 1, n_classes, gaps=gaps)
    has, splits = ~np.isnan(X[:, 0]), [*KFold(4).split(X)]
    number = np.cumsum(has) - 1
    inner = [tuple(number[side[has[side]]] for side in split) for split in splits]
    alone = AutoCalibrator("smooth", cv=inner).fit(X[has], y[has])
    fusion = FusionCalibrator(1, cv=splits).fit(X, y)
    np.testing.assert_allclose(fusion.predict_proba(X)[has], alone.predict_proba(X[has]), rtol=1e-9)
    np.testing.assert_allclose(
        fusion.predict_proba(X)[~has], np.tile(fusion.base_rates_, (np.sum(~has), 1))
    )


@pytest.mark.parametrize("n_classes", [2, 4])
def test_fusion_is_better_than_each_score_and_their_mean(n_classes):
    X, y = make_scores(3000, 3, n_classes)
    fusion = fast_fusion(3).fit(X[:1000], y[:1000])
    new = log_loss(y[1000:], fusion.predict_proba(X[1000:]))
    alone = [
        log_loss(y[1000:], c.predict_proba(X[1000:, n_classes * m :][:, :n_classes]))
        for m, c in enumerate(fusion.calibrators_)
    ]
    assert new < min(alone) - 0.02
    report = fusion.loss_report_
    assert report["fusion"] < report["mean"] < min(report[f"score {m}"] for m in range(3))
    assert report["fusion"] == pytest.approx(new, abs=0.08)
    assert min(fusion.leave_one_out_.values()) > report["fusion"]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_noise_gets_no_weight_that_matters():
    X, y = make_scores(2000, 1, 2, noise=0.5)
    noise = np.random.default_rng(0).normal(size=(2000, 10))
    fusion = fast_fusion(6).fit(np.hstack([X, noise])[:500], y[:500])
    loss = log_loss(y[500:], fusion.predict_proba(np.hstack([X, noise])[500:]))
    alone = fast_fusion(1).fit(X[:500], y[:500])
    assert loss < log_loss(y[500:], alone.predict_proba(X[500:])) + 0.005
    without = fusion.leave_one_out_
    assert max(without, key=without.get) == "score 0"


def test_copies_count_as_one_score():
    X, y = make_scores(1000, 1, 3)
    P = fast_fusion(1).fit(X, y).predict_proba(X)
    copies = fast_fusion(3).fit(np.hstack([X] * 3), y)
    np.testing.assert_allclose(copies.predict_proba(np.hstack([X] * 3)), P, atol=0.03)
    weights = [*copies.weights_.values()]
    np.testing.assert_allclose(weights, weights[0])
    # Where copies are missing, the score that is present stands for them.
    gaps = np.hstack([X, np.full((1000, 6), np.nan)])
    np.testing.assert_allclose(copies.predict_proba(gaps), P, atol=0.05)


@pytest.mark.filterwarnings("ignore::families.ColumnOrderWarning")
@pytest.mark.filterwarnings("ignore::families.ReversedOrderWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_reversed_score_is_used_like_any_other():
    X, y = make_scores(600, 2, 2)
    straight = fast_fusion(2).fit(X, y).loss_report_["fusion"]
    X[:, 2:] *= -1
    turned = fast_fusion(2).fit(X, y).loss_report_["fusion"]
    assert turned == pytest.approx(straight, abs=0.03)


def test_where_scores_disagree_the_one_that_knows_the_class_counts():
    """Score m has little noise in the logit of class m, and much in the logits of other classes."""
    Z, y = make_logits(2000, 3, random_state=0)
    S = Z[:, None] + np.random.default_rng(0).normal(size=(2000, 3, 3)) * (4 - 3.5 * np.eye(3))
    fusion = fast_fusion(3).fit(S.reshape(2000, -1), y)
    effects = fusion.effects_.reshape(3, 3, 3)
    for m in range(3):
        assert effects[m, m, m] > 0.1 > effects[(m + 1) % 3, m, m]


@no_score
def test_log_odds_equal_two_columns():
    X, y = make_scores(300, 3, 2, gaps=0.2)
    odds = X[:, 1::2] - X[:, ::2]
    two, one = fast_fusion(3).fit(X, y), fast_fusion(3).fit(odds, y)
    np.testing.assert_allclose(one.predict_proba(odds), two.predict_proba(X), rtol=1e-6)
    assert one.transform(odds).shape == (300, 2)


# --------------------------------------------------------------------------------------
# Missing scores.


def test_rows_without_any_score_get_the_base_rates_and_one_warning():
    X, y = make_scores(300, 2, 3)
    fusion = fast_fusion(2).fit(X, y)
    X[:4] = np.nan
    for rows, words in ((X, "4 of 300 rows"), (X[:3], "3 of 3 rows")):
        with pytest.warns(UserWarning, match=words) as caught:
            P = fusion.predict_proba(rows)
        assert len(caught) == 1
        np.testing.assert_allclose(P[:3], np.tile(fusion.base_rates_, (3, 1)), rtol=1e-3)
    with pytest.warns(UserWarning, match="4 of 300"):
        assert fast_fusion(2).fit(X, y).n_features_in_ == 6


@no_score
@pytest.mark.parametrize("mechanism", ["at random", "when wrong"])
def test_missing_scores_cost_no_more_than_the_scores_that_are_left(mechanism):
    """The fusion of scores with gaps is better than any rule that counts gaps as base rates."""
    X, y = make_scores(3000, 4, 3, seed=2)
    S = X.reshape(3000, 4, 3)
    wrong = S.argmax(axis=2) != y[:, None]
    share = np.where(wrong, 0.6, 0.2) if mechanism == "when wrong" else 0.4
    S[np.random.default_rng(0).random((3000, 4)) < share] = np.nan
    fusion = fast_fusion(4).fit(X[:1000], y[:1000])
    loss = log_loss(y[1000:], fusion.predict_proba(X[1000:]))
    zeros = np.where(np.isnan(X), 0, X)
    logistic = LogisticRegression(C=0.1).fit(zeros[:1000], y[:1000])
    assert loss < log_loss(y[1000:], logistic.predict_proba(zeros[1000:]))
    assert loss == pytest.approx(fusion.loss_report_["fusion"], abs=0.06)


def test_a_gap_that_says_the_class_is_used():
    """A judge that mostly refuses rows of class 1."""
    X, y = make_scores(2000, 2, 2, noise=4)
    X[(np.random.default_rng(0).random(2000) < 0.9) & (y == 1), :2] = np.nan
    fusion = FusionCalibrator(2).fit(X[:1000], y[:1000])
    P = fusion.predict_proba(X[1000:])
    gap = np.isnan(X[1000:, 0])
    assert P[gap, 1].mean() > 0.85
    assert P[~gap, 1].mean() < 0.25


@no_score
def test_missing_scores_in_new_rows_only():
    X, y = make_scores(1000, 3, 3)
    fusion = fast_fusion(3).fit(X[:500], y[:500])
    gaps, rows = X[500:].copy(), np.arange(500) % 2 == 0
    gaps[rows, :3] = np.nan
    P, Q = fusion.predict_proba(X[500:]), fusion.predict_proba(gaps)
    np.testing.assert_array_equal(P[~rows], Q[~rows])
    without = fast_fusion(2).fit(X[:500, 3:], y[:500]).predict_proba(X[500:, 3:])
    assert log_loss(y[500:][rows], Q[rows]) < log_loss(y[500:][rows], without[rows]) + 0.02


def test_partly_missing_scores_are_an_error():
    X, y = make_scores(100, 2, 3)
    X[5, 1] = np.nan
    fusion = fast_fusion(2)
    with pytest.raises(ValueError, match="1 of 100 rows"):
        fusion.fit(X, y)
    assert not hasattr(fusion, "classes_")


@no_score
@pytest.mark.parametrize("values", [slice(None), "of one class"])
def test_a_score_without_two_classes_is_named(values):
    X, y = make_scores(100, 2, 3)
    X[slice(None) if isinstance(values, slice) else y != 0, 3:] = np.nan
    with pytest.raises(ValueError, match="'score 1'"):
        FusionCalibrator(2).fit(X, y)


# --------------------------------------------------------------------------------------
# Input.


@pytest.mark.parametrize(
    ("X", "remedy"),
    [
        (np.zeros((60, 2, 2)), "reshape"),
        ([np.zeros((60, 2)), np.zeros((60, 2))], "hstack"),
        (np.zeros((2, 60, 2)).tolist(), "hstack"),
        (np.zeros((60, 5)), "5 columns"),
    ],
    ids=["3-d", "list", "nested list", "columns"],
)
def test_shapes_have_a_remedy(X, remedy):
    with pytest.raises(ValueError, match=remedy):
        FusionCalibrator(2).fit(X, np.tile([0, 1], 30))


@pytest.mark.parametrize("n_scores", [None, 0, 1.5, True, "2"])
def test_invalid_numbers_of_scores(n_scores):
    X, y = make_scores(60, 2, 2)
    with pytest.raises(ValueError, match="n_scores"):
        FusionCalibrator(n_scores).fit(X, y)


@pytest.mark.filterwarnings("ignore::families.MissingClassesWarning")
@pytest.mark.filterwarnings("ignore::families.AbsentClassesWarning")
@pytest.mark.filterwarnings("ignore:Score 'score 0'")
@pytest.mark.parametrize("labels", [np.arange(3), np.array(["a", "b", "c"])])
def test_wrong_numbers_of_scores_have_a_remedy(labels):
    X, y = make_scores(60, 2, 3)
    for n_scores in (1, 3, 6) if labels.dtype.kind == "U" else (3, 6):
        with pytest.raises(ValueError, match="n_scores=2"):
            FusionCalibrator(n_scores).fit(X, labels[y])
    if labels.dtype.kind != "U":  # labels may be column numbers
        with pytest.warns(UserWarning, match="n_scores=2"):
            FusionCalibrator(1).fit(X, y)


def test_names_of_columns_name_the_scores():
    X, y = make_scores(200, 2, 3)
    names = [f"{judge}__logit_{k}" for judge in ("a", "b__c") for k in range(3)]
    frame = pd.DataFrame(X, columns=names)
    fusion = fast_fusion().fit(frame, y)
    assert list(fusion.weights_) == fusion.score_names_ == ["a", "b__c"]
    assert list(fusion.feature_names_in_) == names
    np.testing.assert_array_equal(
        fusion.predict_proba(frame), fast_fusion(2).fit(X, y).predict_proba(X)
    )
    for wrong in (frame[names[::-1]], frame.iloc[:, [0, 3, 1, 4, 2, 5]]):
        with pytest.raises(ValueError, match="olumns"):
            fast_fusion().fit(wrong, y)
        with pytest.raises(ValueError, match="feature_names_in_"):
            fusion.predict(wrong)
    with pytest.raises(ValueError, match="feature names"):
        fusion.predict(frame[names[:5]])
    X, y = make_scores(200, 2, 2)
    odds = pd.DataFrame(X[:, 1::2] - X[:, ::2], columns=["judge", "model"])
    assert fast_fusion(2).fit(odds, y).score_names_ == ["judge", "model"]


def test_columns_ordered_by_class_are_recognised_by_their_names():
    X, y = make_scores(200, 2, 3)
    labels = np.array(list("abc"))
    frame = pd.DataFrame(X, columns=[f"{judge}_{k}" for judge in ("x", "y") for k in labels])
    assert fast_fusion(2).fit(frame, labels[y]).score_names_ == ["score 0", "score 1"]
    with pytest.raises(ValueError, match="side by side"):
        fast_fusion(2).fit(frame.iloc[:, [0, 3, 1, 4, 2, 5]], labels[y])


def test_scores_may_have_the_numbers_of_the_classes():
    X, y = make_scores(200, 3, 3)
    frame = pd.DataFrame(X, columns=[f"model{m}__logit_{k}" for m in range(3) for k in range(3)])
    assert fast_fusion().fit(frame, y).score_names_ == ["model0", "model1", "model2"]


def test_files_have_no_row_numbers():
    X, y = make_scores(4000, 2, 2)
    fusion = FusionCalibrator(2).fit(X, y)
    assert len(pickle.dumps(fusion)) < 8000
    assert all(len(repr(member)) < 200 for member in fusion.calibrators_)


def test_a_fusion_that_was_saved_without_effects_predicts():
    X, y = make_scores(200, 3, 3, gaps=0.2)
    saved, zero = fast_fusion(3).fit(X, y), fast_fusion(3).fit(X, y)
    del saved.effects_
    zero.effects_ = np.zeros_like(zero.effects_)
    np.testing.assert_allclose(saved.predict_proba(X), zero.predict_proba(X), rtol=1e-12)


def test_dask_is_refused_with_the_remedy():
    dask = pytest.importorskip("dask.array")
    X, y = make_scores(60, 2, 2)
    with pytest.raises(ValueError, match="compute"):
        FusionCalibrator(2).fit(dask.from_array(X), dask.from_array(y))


def test_tensors_have_the_outputs_of_arrays():
    torch = pytest.importorskip("torch")
    X, y = make_scores(200, 2, 3)
    fusion = fast_fusion(2).fit(torch.tensor(X), torch.tensor(y))
    expected = fusion.predict_proba(X)
    np.testing.assert_array_equal(fusion.predict_proba(torch.tensor(X)), expected)
    if not os.environ.get("SCIPY_ARRAY_API"):
        return
    with config_context(array_api_dispatch=True):
        P, labels = fusion.predict_proba(torch.tensor(X)), fusion.predict(torch.tensor(X))
    assert isinstance(P, torch.Tensor)
    assert isinstance(labels, torch.Tensor)
    np.testing.assert_allclose(P.numpy(), expected, rtol=1e-12)


def test_nullable_numbers_are_missing_scores():
    X, y = make_scores(200, 3, 2)
    odds = X[:, 1::2].copy()
    odds[::7, 1] = np.nan
    frame = pd.DataFrame(odds, columns=list("abc"))
    P, Q = (fast_fusion(3).fit(f, y).predict_proba(f) for f in (frame, frame.convert_dtypes()))
    np.testing.assert_allclose(P, Q, rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_masked_classes_stay_impossible(n_classes):
    X, y = make_scores(400, 2, n_classes)
    masked = (y + 1) % n_classes
    rows = np.arange(0, 400, 3)
    X[rows, masked[rows]] = -np.inf
    X[rows, n_classes + masked[rows]] = -np.inf
    fusion = fast_fusion(2).fit(X, y)
    P = fusion.predict_proba(X)
    assert (P[rows, masked[rows]] == 0).all()
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert np.isneginf(fusion.transform(X)[rows, masked[rows]]).all()
    X[0, y[0]] = -np.inf
    with pytest.raises(ValueError, match="-inf"):
        fast_fusion(2).fit(X, y)


def test_predictions_warn_of_probabilities():
    X, y = make_scores(100, 2, 3)
    fusion = fast_fusion(2).fit(X, y)
    X[:, 3:] = np.nan
    X[:, :3] = softmax(X[:, :3], axis=1)
    with pytest.warns(UserWarning, match="expected by predictions"):
        fusion.predict(X)


def test_masks_must_leave_a_class():
    X, y = make_scores(100, 3, 2)
    fusion = fast_fusion(3).fit(X, y)
    X[3, [0, 3]] = -np.inf
    X[3, 4:] = np.nan
    with pytest.raises(ValueError, match="1 of 100 rows"):
        fusion.predict(X)


def test_other_columns_at_predict_have_a_remedy():
    X, y = make_scores(100, 2, 2)
    with pytest.raises(ValueError, match=r"expecting 4 features .* NaN"):
        fast_fusion(2).fit(X, y).predict(X[:, :2])


@pytest.mark.filterwarnings("ignore::families.AbsentClassesWarning")
def test_classes_without_rows_and_names_of_classes():
    X, y = make_scores(300, 2, 4)
    kept = y != 2
    names = np.array(["d", "a", "c", "b"])
    fusion = FusionCalibrator(2, classes=names).fit(X[kept], names[y[kept]])
    assert list(fusion.classes_) == list(names)
    P = fusion.predict_proba(X)
    alone = AutoCalibrator("smooth", classes=names).fit(X[kept, :4], names[y[kept]])
    assert P[:, 2].max() < alone.predict_proba(X[:, :4])[:, 2].max()
    assert P[:, 2].mean() < 0.05
    assert np.isfinite(fusion.transform(X)).all()
    assert fusion.score(X[kept], names[y[kept]]) > 0.5
    assert set(fusion.predict(X)) <= set(names)


# --------------------------------------------------------------------------------------
# Weights, groups and folds.


def test_rows_of_weight_zero_are_absent():
    X, y = make_scores(300, 2, 3)
    w = np.random.default_rng(0).integers(1, 4, 300).astype(float)
    w[::4] = 0
    P = fast_fusion(2).fit(X[w > 0], y[w > 0], w[w > 0]).predict_proba(X)
    y[::4], X[::4] = 7, 99
    weighted = fast_fusion(2).fit(X, y, w)
    X = make_scores(300, 2, 3)[0]
    np.testing.assert_array_equal(weighted.predict_proba(X), P)


def test_folds_do_not_split_groups():
    X, y = make_scores(300, 2, 3)
    groups = np.arange(300) // 3
    by_hand = fast_fusion(2, cv=GroupKFold(5)).fit(X, y, groups=groups)
    grouped = fast_fusion(2).fit(X, y, groups=groups)
    assert grouped.loss_report_ == by_hand.loss_report_
    few = fast_fusion(2).fit(X, y, groups=np.arange(300) % 2)
    assert few.loss_report_.keys() == grouped.loss_report_.keys()
    with pytest.raises(ValueError, match="groups"):
        fast_fusion(2).fit(X, y, groups=np.zeros(300))


@pytest.mark.parametrize("calibrator", [None, TemperatureScaling()])
def test_a_score_may_be_known_in_one_group_only(calibrator):
    X, y = make_scores(240, 2, 2)
    groups = np.arange(240) // 24
    X[groups > 0, :2] = np.nan
    fusion = FusionCalibrator(2, calibrator=calibrator).fit(X, y, groups=groups)
    assert fusion.weights_["score 0"] < fusion.weights_["score 1"]


def test_the_calibrator_of_a_score_gets_the_groups():
    X, y = make_scores(100, 1, 2)
    rows = np.repeat(np.arange(100), 4)
    fusion = FusionCalibrator(1).fit(X[rows], y[rows], groups=rows)
    alone = AutoCalibrator("smooth").fit(X[rows], y[rows], groups=rows)
    assert fusion.calibrators_[0].weights_ == alone.weights_


def test_groups_count_repeated_questions_once():
    """Rows repeated in a group do not make the scores look better than they are."""
    X, y = make_scores(150, 2, 3, noise=3)
    rows = np.repeat(np.arange(150), 4)
    honest = fast_fusion(2).fit(X, y).loss_report_["fusion"]
    grouped = fast_fusion(2).fit(X[rows], y[rows], groups=rows).loss_report_["fusion"]
    assert grouped > honest - 0.05


def test_one_test_set_is_an_error():
    X, y = make_scores(100, 2, 2)
    with pytest.raises(ValueError, match="two test sets"):
        fast_fusion(2, cv=[(np.arange(50), np.arange(50, 100))]).fit(X, y)


@pytest.mark.filterwarnings("ignore:The training rows")
def test_groups_of_one_class_are_an_error():
    X, y = make_scores(100, 2, 2)
    with pytest.raises(ValueError, match="groups"):
        fast_fusion(2).fit(X, y, groups=y)


# --------------------------------------------------------------------------------------
# scikit-learn.


def test_classifiers_are_fused_in_a_pipeline():
    rng = np.random.default_rng(0)
    F = rng.normal(size=(400, 4))
    y = (F[:, 0] + F[:, 1] * F[:, 2] + 0.5 * rng.normal(size=400) > 0).astype(int)
    models = FeatureUnion(
        [
            ("line", LogitTransformer(LogisticRegression(), response_method="predict_proba")),
            ("bayes", LogitTransformer(GaussianNB())),
        ]
    )
    model = make_pipeline(models, fast_fusion(n_scores=2))
    assert cross_val_score(model, F, y, cv=3, scoring="neg_log_loss").mean() > -0.65
    named = make_pipeline(models, fast_fusion()).set_output(transform="pandas").fit(F, y)
    assert list(named[-1].weights_) == ["line", "bayes"]
    np.testing.assert_allclose(named.predict_proba(F), model.fit(F, y).predict_proba(F))


def test_another_calibrator_and_its_search():
    X, y = make_scores(200, 2, 2)
    fusion = FusionCalibrator(2, calibrator=PlattScaling()).fit(X, y)
    assert all(isinstance(c, PlattScaling) for c in fusion.calibrators_)
    grid = {"calibrator": [TemperatureScaling(), PlattScaling()]}
    search = GridSearchCV(clone(fusion), grid, cv=3, scoring="neg_log_loss").fit(X, y)
    assert search.best_score_ < 0


def test_the_loss_of_another_calibrator_is_its_loss_on_held_out_rows():
    X, y = make_scores(300, 2, 2)
    fusion = FusionCalibrator(2, calibrator=PlattScaling(), cv=KFold(4)).fit(X, y)
    L = cross_val_predict(PlattScaling(), X[:, :2], y, cv=KFold(4), method="predict_log_proba")
    assert fusion.loss_report_["score 0"] == pytest.approx(-L[np.arange(300), y].mean())


@no_score
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_fusion_passes_the_checks_of_scikit_learn():
    fusion = FusionCalibrator(1, calibrator=TemperatureScaling())  # the default has its own test
    results = check_estimator(fusion, on_fail=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert failed.keys() == expected_failed_checks(FusionCalibrator(1)).keys()


@no_score
@pytest.mark.filterwarnings("ignore::families.AbsentClassesWarning")
@pytest.mark.parametrize("n_classes", [2, 3, 21])
def test_json_of_scores_with_gaps(n_classes):
    X, y = make_scores(200, 3, n_classes, gaps=0.2)
    fusion = FusionCalibrator(3, calibrator=VectorScaling()).fit(X, y)
    assert fusion.effects_.shape == (3 * n_classes * (n_classes <= 20), n_classes)
    read = from_json(to_json(fusion))
    np.testing.assert_array_equal(read.predict_proba(X), fusion.predict_proba(X))
    assert read.loss_report_ == fusion.loss_report_


# --------------------------------------------------------------------------------------
# Any scores.


@no_score
@pytest.mark.filterwarnings("ignore::UserWarning")
@settings(max_examples=8, deadline=None)
@example(calibrator=None, n=10, n_scores=2, n_classes=3, gaps=0.8, scale=1e-6, seed=0)
@example(calibrator=PlattScaling(), n=80, n_scores=3, n_classes=4, gaps=0.3, scale=1e4, seed=1)
@given(
    calibrator=st.sampled_from([TemperatureScaling(), VectorScaling(), PlattScaling()]),
    n=st.integers(10, 80),
    n_scores=st.integers(1, 4),
    n_classes=st.integers(2, 5),
    gaps=st.sampled_from([0.0, 0.3, 0.8]),
    scale=st.sampled_from([1e-6, 1.0, 1e4]),
    seed=st.integers(0, 99),
)
def test_outputs_are_probabilities(calibrator, n, n_scores, n_classes, gaps, scale, seed):
    rng = np.random.default_rng(seed)
    Z = scale * rng.normal(size=(n, n_scores, n_classes))
    y = rng.integers(n_classes, size=n)
    y[:2] = 0, 1
    Z[2:][rng.random((n - 2, n_scores)) < gaps] = np.nan
    X = Z.reshape(n, -1)
    fusion = FusionCalibrator(n_scores, calibrator=calibrator, classes=range(n_classes))
    P = fusion.fit(X, y).predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert (P > 0).all()
    np.testing.assert_allclose(np.exp(fusion.predict_log_proba(X)), P)
    # A prediction does not depend on other rows, nor on the order of the scores.
    np.testing.assert_allclose(fusion.predict_proba(X[:3]), P[:3], rtol=1e-9)
    order = rng.permutation(n_scores)
    turned = Z[:, order].reshape(n, -1)
    assert np.abs(clone(fusion).fit(turned, y).predict_proba(turned) - P).max() < 1e-3


# --------------------------------------------------------------------------------------
# Grades of judges.


@no_score
def test_missing_answers_of_judges_are_missing_scores():
    X, y = make_scores(400, 3, 2, gaps=0.2)
    grades = np.clip(np.round(3 + X[:, 1::2] - X[:, ::2]), 1, 5)
    judges = make_pipeline(ScoreTransformer((1, 5), missing="keep"), fast_fusion(3))
    judges.fit(grades, y)
    assert log_loss(y, judges.predict_proba(grades)) < 0.6
    kept = ScoreTransformer((1, 5), missing="keep").fit_transform(grades)
    np.testing.assert_array_equal(np.isnan(kept), np.isnan(grades))
    with pytest.raises(ValueError, match="keep"):
        ScoreTransformer((1, 5)).fit(grades)


def test_kept_rows_without_any_option():
    L = np.log([[0.5, np.nan, 0.2], [np.nan] * 3])
    kept = ScoreTransformer("log-probability", missing="keep").transform(L)
    filled = ScoreTransformer("log-probability").transform(L)
    np.testing.assert_array_equal(kept[0], filled[0])
    assert np.isnan(kept[1]).all()
    assert np.isfinite(filled[1]).all()
    with pytest.raises(ValueError, match="missing"):
        ScoreTransformer((0, 1), missing="drop").fit([[0], [1]])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scales_and_constants_of_scores_do_not_matter():
    """Nor does a score that is constant."""
    X, y = make_scores(500, 2, 3)
    P = fast_fusion(2).fit(X, y).predict_proba(X)
    other = X * np.repeat([1e3, 1e-3], 3) + np.repeat([5.0, -7.0], 3)
    np.testing.assert_allclose(fast_fusion(2).fit(other, y).predict_proba(other), P, atol=0.02)
    constant = np.hstack([X, np.zeros((500, 3))])
    found = fast_fusion(3).fit(constant, y).predict_proba(constant)
    np.testing.assert_allclose(found, P, atol=0.1)
