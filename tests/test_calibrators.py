"""Laws that every calibrator keeps, and the messages it gives to bad input."""

import inspect
from functools import cache

import numpy as np
import pandas as pd
import pytest
from families import (
    CALIBRATORS,
    ORDER_KEEPING,
    REPRESENTATIVES,
    WITHOUT_FOLDS,
    ProbabilitiesWarning,
    fitted_state,
    of_case,
    order_of,
    quick,
    with_known,
)
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skcalib import OrdinalCalibration, TemperatureScaling
from skcalib.datasets import make_logits
from skcalib.experimental import NoisyLabelCalibration

every = pytest.mark.parametrize("kind", CALIBRATORS)
few = pytest.mark.parametrize("kind", quick(CALIBRATORS, real=False))
fits = pytest.mark.parametrize("kind", quick(CALIBRATORS))
OUTPUTS = ["transform", "predict_proba", "predict_log_proba", "predict"]


@cache
def plain_fit(kind):
    """The calibrator fitted to the logits of three classes, which tests share and leave alone."""
    return kind().fit(*make_logits(400, 3, temperature=2.0, random_state=0))


def assert_same_fit(a, b, rtol=1e-9):
    a, b = fitted_state(a), fitted_state(b)
    assert a.keys() == b.keys()
    for name in a.keys() - {"n_iter_"}:  # rounding may decide on another pass
        of_classes = (v if isinstance(v, list) else [v] for v in (a[name], b[name]))
        for one, other in zip(*of_classes, strict=True):
            if np.asarray(one).dtype.kind == "f":
                np.testing.assert_allclose(one, other, rtol=rtol, err_msg=name)
            else:
                assert np.array_equal(one, other)


# --------------------------------------------------------------------------------------
# Outputs.


@fits
def test_single_precision_is_double_but_for_rounding(kind):
    X, y = make_logits(400, 5, dtype=np.float32, random_state=0)
    single, double = kind().fit(X, y), kind().fit(X.astype(float), y)
    for method in OUTPUTS[:3]:
        found = getattr(single, method)(X)
        assert (found.shape, found.dtype) == (X.shape, np.float32)
    P = single.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-6)
    # Rounding may put a row or two into another bin.
    distance = np.abs(P - double.predict_proba(X.astype(float))).max(axis=1)
    assert np.mean(distance > 1e-4) < 0.01


@pytest.mark.parametrize("kind", quick([k for k in WITHOUT_FOLDS if k is not OrdinalCalibration]))
def test_permuted_classes_have_permuted_probabilities(kind, logits3):
    X, y = logits3
    order = np.array([2, 0, 1])
    permuted = kind().fit(X[:, order], order.argsort()[y])
    found = permuted.predict_proba(X[:, order])
    np.testing.assert_allclose(found, plain_fit(kind).predict_proba(X)[:, order], atol=1e-6)


@every
def test_answer_for_a_row_does_not_depend_on_its_batch(kind, logits3):
    """A batch that looks like probabilities must not be treated in another way than its rows."""
    X, _ = logits3
    calibrator = plain_fit(kind)
    row = np.array([[0.2, 0.3, 0.5]])
    alone = calibrator.predict_proba(row)
    among = calibrator.predict_proba(np.vstack([row, X]))[:1]
    np.testing.assert_allclose(alone, among, rtol=1e-15)


@fits
def test_single_column_is_two_columns(kind):
    logits, y = make_logits(300, 2, random_state=0)
    margin = logits[:, [1]] - logits[:, [0]]
    both, one = kind().fit(logits, y), kind().fit(margin, y)
    assert one.transform(margin).shape == margin.shape
    np.testing.assert_allclose(
        one.predict_proba(margin), both.predict_proba(logits), rtol=1e-7, atol=1e-12
    )
    assert np.array_equal(one.predict(margin), both.predict(logits))
    np.testing.assert_allclose(
        softmax(np.hstack([0 * margin, one.transform(margin)]), axis=1), one.predict_proba(margin)
    )


@pytest.mark.parametrize("kind", ORDER_KEEPING)
def test_order_of_the_classes_is_kept(kind, logits3):
    X, _ = logits3
    Z = plain_fit(kind).transform(X)
    assert np.array_equal(Z.argsort(axis=1), X.argsort(axis=1))


@pytest.mark.parametrize("kind", ORDER_KEEPING)
def test_predictions_are_kept_despite_rounding(kind, logits3):
    """Many neighbouring floating-point numbers get equal calibrated logits."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(500, 1)).astype(np.float32).view(np.int32)
    X = (numbers + rng.integers(0, 3, size=(500, 3), dtype=np.int32)).view(np.float32)
    logits, y = logits3
    calibrator = kind().fit(1.5 * logits, y)  # a temperature that is not near a power of two
    assert np.array_equal(calibrator.predict(X), X.argmax(axis=1))


# --------------------------------------------------------------------------------------
# Fits.


@pytest.mark.parametrize("kind", quick(WITHOUT_FOLDS))
def test_weight_two_is_the_row_twice(kind, logits3):
    X, y = logits3
    w = np.random.default_rng(0).integers(1, 4, size=len(y))
    weighted = kind().fit(X, y, sample_weight=w)
    assert_same_fit(weighted, kind().fit(np.repeat(X, w, axis=0), np.repeat(y, w)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [k for k in WITHOUT_FOLDS if k is not NoisyLabelCalibration])
def test_a_large_weight_is_many_rows(kind, monkeypatch):
    """Some fits compute features of many rows in each pass instead of storing them."""
    monkeypatch.setattr("skcalib._rows.rows.MOST_STORED", 1 << 16)
    X, y = make_logits(300, 12, temperature=2.0, random_state=0)
    if getattr(kind(), "_takes_masked", True):
        masked = np.arange(300) % 5 == y
        X[masked, (y[masked] + 1) % 12] = -np.inf
    count = (1 << 16) // X.size + 1
    many = kind().fit(np.tile(X, (count, 1)), np.tile(y, count))
    heavy = kind().fit(X, y, sample_weight=np.full(300, count))
    np.testing.assert_allclose(many.predict_proba(X), heavy.predict_proba(X), atol=1e-4)


@every
def test_weight_zero_is_no_row(kind, logits3):
    X, y = logits3
    w = np.random.default_rng(0).integers(0, 2, size=len(y))
    assert_same_fit(kind().fit(X, y, sample_weight=w), kind().fit(X[w > 0], y[w > 0]))


@fits
def test_a_row_without_weight_may_have_any_label(kind, logits3):
    X, y = logits3
    w = np.append(np.ones(len(y)), 0)
    other = kind().fit(np.vstack([X, X[:1]]), np.append(y, 99), sample_weight=w)
    assert_same_fit(other, plain_fit(kind))


@pytest.mark.parametrize("kind", quick(WITHOUT_FOLDS))
def test_order_of_rows_is_irrelevant(kind, logits3):
    X, y = logits3
    order = np.random.default_rng(0).permutation(len(y))
    assert_same_fit(kind().fit(X[order], y[order]), plain_fit(kind))


@fits
def test_constant_added_to_a_row_is_irrelevant(kind, logits3):
    X, y = logits3
    shift = np.random.default_rng(0).normal(scale=10, size=(len(y), 1))
    shifted = kind().fit(X + shift, y)
    assert_same_fit(shifted, plain_fit(kind), rtol=1e-6)
    np.testing.assert_allclose(shifted.predict_proba(X + shift), plain_fit(kind).predict_proba(X))


@fits
@pytest.mark.parametrize(("dtype", "constant"), [(np.float32, 2.0**17), (np.float64, 2.0**43)])
def test_large_constant_changes_no_more_than_rounding(kind, dtype, constant):
    Z, y = make_logits(400, 3, temperature=0.5, random_state=0)
    Z = (np.round(Z * 64) / 64).astype(dtype)  # the sums are exact
    shifts = np.arange(400)[:, None] % 2 * constant
    shifted = (Z + shifts).astype(dtype)
    assert np.array_equal(shifted - shifts, Z)
    P, Q = (kind().fit(X, y).predict_proba(X) for X in (Z, shifted))
    np.testing.assert_allclose(Q, P, rtol=0, atol=constant * np.finfo(dtype).eps)


@fits
def test_fit_does_not_depend_on_memory_layout(kind, logits3, tmp_path):
    X, y = logits3
    np.save(tmp_path / "X.npy", X)
    plain = plain_fit(kind)
    wide = np.zeros((len(y), 6))
    wide[:, ::2] = X
    for other in (np.asfortranarray(X), wide[:, ::2], np.load(tmp_path / "X.npy", mmap_mode="r")):
        assert_same_fit(kind().fit(other, y), plain)


@fits
def test_blocks_of_rows_and_threads_change_nothing_but_rounding(kind, monkeypatch):
    monkeypatch.setattr("skcalib._rows.rows.BLOCK_ELEMENTS", 1 << 12)
    X, y = make_logits(10_000, 2, temperature=2.0, random_state=0)  # blocks for two threads
    known = with_known(kind, noise_matrix=[[0.9, 0.1], [0.1, 0.9]])  # 50 iterations fewer
    one, two = clone(known), clone(known)
    for calibrator, n_threads in ((one, "1"), (two, "2")):
        monkeypatch.setenv("OMP_NUM_THREADS", n_threads)
        calibrator.fit(X, y)
    assert_same_fit(one, two, rtol=1e-6)
    P = one.predict_proba(X)
    for part in (slice(0, 1000), slice(9000, None)):
        np.testing.assert_allclose(one.predict_proba(X[part]), P[part], rtol=1e-12)


@fits
def test_second_fit_forgets_the_first(kind, logits3):
    X, y = logits3
    other = pd.DataFrame(make_logits(200, 5, random_state=1)[0], columns=list("abcde"))
    calibrator = kind().fit(other, np.arange(200) % 5)
    assert_same_fit(calibrator.fit(X, y), plain_fit(kind))
    assert not hasattr(calibrator, "feature_names_in_")


@every
def test_fitted_state_is_plain(kind):
    for name, value in fitted_state(plain_fit(kind)).items():
        assert type(value) in {float, int, bool, np.ndarray, list}, name


@every
def test_constructor_only_stores_keyword_parameters(kind):
    parameters = list(inspect.signature(kind).parameters.values())
    assert all(
        p.kind is p.KEYWORD_ONLY or p.name in {"estimator", "calibrator", "calibrators"}
        for p in parameters
    )
    assert {p.name for p in parameters} == set(kind().get_params(deep=False))
    assert "classes" in kind().get_params()


# --------------------------------------------------------------------------------------
# Labels.


LABELS = {
    "strings": ["ant", "bee", "cat"],
    "from 1": [1, 2, 3],
    "negative": [-7, 0, 7],
    "from 10": [10, 11, 12],
    "floats": [0.0, 1.0, 2.0],
    "objects": np.array(["ant", "bee", "cat"], dtype=object),
}


@few
def test_labels_of_any_type(kind, logits3):
    """Labels 1, 2, 3 must not be used as column numbers, as in scikit-learn's temperature."""
    X, y = logits3
    plain = plain_fit(kind)
    P, k = plain.predict_proba(X), plain.predict(X)
    # The base class encodes labels as column numbers, so representatives suffice.
    for case in LABELS if kind in REPRESENTATIVES else ["from 1", "strings"]:
        with of_case(case):
            names = np.asarray(LABELS[case])
            order = order_of(kind, names) if names.dtype.kind in "UO" else {}
            calibrator = kind(**order).fit(X, names[y])
            assert calibrator.classes_.tolist() == names.tolist()
            np.testing.assert_allclose(calibrator.predict_proba(X), P, rtol=1e-12)
            assert np.array_equal(calibrator.predict(X), names[k])


@pytest.mark.filterwarnings("ignore::families.AbsentClassesWarning")
@few
def test_integers_that_lack_a_class_are_column_numbers(kind, logits3):
    X, y = logits3
    seen = y != 1
    with pytest.warns(UserWarning, match="label 1"):
        guessed = kind().fit(X[seen], y[seen])
    said = kind(classes=[0, 1, 2]).fit(X[seen], y[seen])
    assert guessed.classes_.tolist() == [0, 1, 2]
    assert_same_fit(guessed, said)
    assert guessed.predict_proba(X).shape == X.shape


@few
def test_classes_in_the_order_of_the_columns(kind, logits3):
    X, y = logits3
    names = np.array(["cat", "ant", "bee"])
    calibrator = kind(classes=names, **order_of(kind, names)).fit(X, names[y])
    assert calibrator.classes_.tolist() == ["cat", "ant", "bee"]
    np.testing.assert_allclose(calibrator.predict_proba(X), plain_fit(kind).predict_proba(X))
    assert np.array_equal(calibrator.predict(X), names[plain_fit(kind).predict(X)])


# --------------------------------------------------------------------------------------
# scikit-learn.


@few
def test_in_a_pipeline_a_search_and_cross_validation(kind, logits3):
    X, y = logits3
    chain = make_pipeline(FunctionTransformer(), kind(), kind())
    search = GridSearchCV(chain, {"functiontransformer__kw_args": [None]}, cv=2, refit=False)
    P = cross_val_predict(search.fit(X, y).estimator, X, y, cv=2, method="predict_proba")
    np.testing.assert_allclose(P.sum(axis=1), 1)


@few
def test_data_frames_and_series(kind, logits3):
    """A series without the index 0 must not raise KeyError, as in scikit-learn's temperature."""
    X, y = logits3
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    labels = pd.Series(y, index=np.random.default_rng(0).permutation(len(y)) + 1)
    calibrator = kind().fit(frame, labels)
    assert calibrator.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(calibrator.predict_proba(frame), plain_fit(kind).predict_proba(X))
    out = calibrator.set_output(transform="pandas").transform(frame)
    assert out.columns.tolist() == calibrator.get_feature_names_out().tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(out, plain_fit(kind).transform(X))


# --------------------------------------------------------------------------------------
# Bad input: a sentence, and the calibrator is unchanged.

X3 = make_logits(30, 3, random_state=0)[0]
Y3 = np.arange(30) % 3


def changed(value, columns=1):
    X = X3.copy()
    X[4, columns] = value
    return X


# Logits, labels, weights, and a word or a number that the message must have.
BAD_FITS = {
    "nan": (changed(np.nan), Y3, None, "1 NaN"),
    "inf": (changed(np.inf), Y3, None, "inf.*clip"),
    "log-odds of -inf": (changed(-np.inf)[:, 1:2], Y3 % 2, None, "-inf.* clip"),
    "row of -inf": (changed([-np.inf] * 3, slice(None)), Y3, None, "1 of 30 rows"),
    "masked label": (changed(-np.inf), Y3, None, "1 of 30 rows|mixes"),
    "too large": (changed(1e308), Y3, None, r"1e\+100"),
    "too large in float32": (changed(3e38).astype(np.float32), Y3, None, r"3e\+38"),
    "too few columns": (X3[:, :2], Y3, None, "3 classes in y, got 2 columns"),
    "too many columns": (X3, np.array(["a", "b"])[Y3 % 2], None, "classes="),
    "one column": (X3[:, :1], Y3, None, "3 classes in y, got 1 column "),
    "integers outside": (X3, np.where(Y3 == 1, 5, 9), None, "2 classes in y, got 3 columns"),
    "one class": (X3, np.zeros(30, int), None, "two classes"),
    "one class with weight": (X3, Y3, (Y3 == 0) * 1.0, "two classes"),
    "numbers": (X3, X3[:, 0], None, "continuous"),
    "negative weight": (X3, Y3, np.full(30, -1.0), "weight of -1"),
    "no weight": (X3, Y3, np.zeros(30), "zero"),
    "huge weights": (X3, Y3, np.full(30, 1e101), r"1e\+101"),
    "tiny weights": (X3, Y3, np.full(30, 9e-101), "9e-101"),
    "nan weight": (X3, Y3, np.full(30, np.nan), "sample_weight contains NaN"),
    "weights of rows": (X3, Y3, np.ones((30, 2)), r"\(30,\)"),
    "few weights": (X3, Y3, np.ones(29), r"\(29,\)"),
    "few labels": (X3, Y3[:-1], None, r"\[29, 30\]"),
    "groups": (X3, Y3, ["a", "b"] * 15, "sample_weight"),
    "transposed": (X3.T, Y3, None, r"\[30, 3\]"),
    "one weight": (X3, Y3, 2.0, r"\(30,\)"),
    "log-odds": (X3[:, 0], Y3, None, "3 classes in y, got 1 column "),
    "batches": ([X3[:20], X3[20:]], Y3, None, "np.concatenate"),
    "equal batches": ([X3[:15], X3[15:]], Y3, None, "np.concatenate"),
    "tuple of a trainer": ((X3, Y3, {"loss": 1}), Y3, None, "tuple of 3"),
    "balanced": (X3, Y3, "balanced", "compute_sample_weight"),
    "weights of classes": (X3, Y3, {0: 2.0}, "compute_sample_weight"),
}


@few
def test_bad_fits_are_refused(kind):
    fresh, fitted = kind(), kind().fit(*make_logits(50, 4, random_state=0))
    for case, (X, y, w, message) in BAD_FITS.items():
        for calibrator in (fresh, fitted):
            before = dict(vars(calibrator))
            with of_case(case), pytest.raises(ValueError, match=message):
                calibrator.fit(X, y, sample_weight=w)
            assert vars(calibrator) == before, case


BAD_CLASSES = [
    (["a", "b"], "2 labels and 3 columns"),
    (["a", "b", "b"], "distinct"),
    ([["a"], ["b"], ["c"]], "distinct"),
    (["a", "b", "d"], "got 'c'"),
    ([0, 1, 2], "got 'a'"),
]


@few
def test_bad_classes_are_refused(kind):
    for classes, message in BAD_CLASSES:
        with of_case(classes), pytest.raises(ValueError, match=message):
            kind(classes=classes).fit(X3, np.array(["a", "b", "c"])[Y3])


BAD_ROWS = {
    "narrow": (X3[:, :2], "2 features"),
    "wide": (X3[:, [0, 1, 2, 0]], "4 features"),
    "one dimension": (X3[:, 0], "two dimensions"),
    "NaN": (changed(np.nan), "1 NaN"),
    "inf": (changed(np.inf), "inf"),
    "row of -inf": (changed([-np.inf] * 3, slice(None)), "1 of 30 rows"),
    "too large": (changed(1e308), r"1e\+100"),
    "complex": (X3 + 0j, "Complex"),
    "text": (np.full((1, 3), "a"), "text"),
    "numbers as text": (X3[:1].astype(str), "text"),
    "a dictionary": ({"a": X3}, "dict"),
    "dates": (X3.astype("M8[s]"), "datetime64"),
    "a list in each row": (pd.Series(X3.tolist()), "one array"),
}


@few
def test_bad_logits_are_refused_at_predict(kind):
    calibrator = kind().fit(X3, Y3)
    for case, (X, message) in BAD_ROWS.items():
        for name in OUTPUTS:
            with of_case((case, name)), pytest.raises(ValueError, match=message):
                getattr(calibrator, name)(X)


@few
def test_probabilities_in_place_of_logits_warn_in_fits(kind, logits3):
    X, y = logits3
    P, log_odds = softmax(X, axis=1), X[:, 1:2] - X[:, :1]
    for scores, labels, remedy in (
        (P, y, "np.log"),
        (P.astype(np.float16).astype(np.float32), y, "np.log"),
        (100 * P, y, "100"),
        (expit(X), y, "fit"),
        (expit(log_odds), y > 0, "scipy.special.logit"),
    ):
        with pytest.warns(ProbabilitiesWarning, match=remedy):
            kind().fit(scores, labels)
    for row in (0, -1):
        one_is_not = P.copy()
        one_is_not[row, 0] = -0.1
        kind().fit(one_is_not, y)  # else it warns


@few
def test_probabilities_in_place_of_logits_warn_in_predictions(kind, logits3):
    X, y = logits3
    P, fitted = softmax(X, axis=1), kind().fit(X, y)
    for scores in (P, 100 * P):
        for method in (fitted.predict_proba, fitted.transform, fitted.predict):
            with pytest.warns(ProbabilitiesWarning, match="predictions"):
                method(scores)
        fitted.predict_proba(scores[:1])  # one row may have this sum by chance
    fitted.predict_proba(expit(X))
    log_odds = kind().fit(X[:, 1] - X[:, 0], y > 0)
    with pytest.warns(ProbabilitiesWarning, match="column"):
        log_odds.predict_proba(P[:, 1])
    log_odds.predict_proba(P[:9, 1])  # a few log-odds may be between 0 and 1 by chance


@few
def test_log_odds_in_one_dimension(kind):
    X, y = make_logits(100, 2, random_state=0)
    z = X[:, 1] - X[:, 0]
    column = kind().fit(z[:, None], y)
    for form in (np.asarray, list, pd.Series, lambda z: pd.Series(z, name="logit")):
        flat = kind().fit(form(z), y)
        for name in OUTPUTS:
            expected = getattr(column, name)(z[:, None])
            np.testing.assert_array_equal(getattr(flat, name)(form(z)), expected)
            np.testing.assert_array_equal(getattr(flat, name)(z[:, None]), expected)


@few
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_rows_in_any_layout_match_a_data_frame(kind, dtype):
    """Contiguous arrays skip the checks of scikit-learn, which data frames pass."""
    Z, y = make_logits(200, 3, random_state=0)
    X = Z.astype(dtype)
    calibrator = kind().fit(X, y)
    for few_rows in (X[:1], X[:5], np.asfortranarray(X[:5]), X[:10:2], X[:0]):
        for name in OUTPUTS:
            method = getattr(calibrator, name)
            found, expected = method(few_rows), method(pd.DataFrame(few_rows))
            assert found.dtype == expected.dtype
            assert len(found) == len(few_rows)
            np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="2 features"):
        calibrator.predict_proba(X[:0, :2])


# --------------------------------------------------------------------------------------
# Invalid values of parameters, for every calibrator with a parameter of this name.

STRENGTH, COUNT = [-1, np.nan, np.inf, "none", True], [-1, 2.5, True, None]
ROWS, SHARE = [-0.1, np.nan, np.inf, True, "none"], [1, -0.1, np.nan, np.inf, True, "none"]
FLAGS = ("normalize", "fit_intercept", "smooth_targets", "increasing")
BAD_PARAMETERS = {
    "alpha": STRENGTH, "alpha_intercept": STRENGTH, "pseudo_rows": ROWS, "smoothing": SHARE,
    "shrinkage": [-1, np.nan, "no"], "tol": [0, np.inf, True], "forget": [-0.1, 1, np.nan, "auto"],
    "n_bins": [0, *COUNT], "n_knots": COUNT, "max_iter": [0, *COUNT], "cv": [1],
    "bin_range": [(), 5, (0, 5), (5, 2), (1.0, 2)], "strategy": ["mass"],
    "interpolation": ["cubic"], "merge": ["mean"], "loss": ["log"], "multi_class": ["all"],
    "noise_matrix": [np.eye(2), "ml"], "order": [3, [0, 1], [0, 0, 1, 2], [[0, 1, 2]]],
    "combine": ["all"], "calibrator": [1, TemperatureScaling],
    "estimator": ["auto", TemperatureScaling], **{name: ["no"] for name in FLAGS},
}  # fmt: skip
# Parameters that the tests of single calibrators cover.
OTHER_PARAMETERS = {
    "after", "before", "calibrators", "categorical_features", "classes", "n_jobs", "priors",
    "random_state", "verbose",
}  # fmt: skip


@every
def test_bad_parameters_are_refused(kind):
    X, y = make_logits(50, 3, random_state=0)
    for name in kind().get_params(deep=False).keys() - OTHER_PARAMETERS:
        for value in BAD_PARAMETERS[name]:
            calibrator = kind(**{name: value})
            before = dict(vars(calibrator))
            with of_case((name, value)), pytest.raises(ValueError, match=rf"\b{name}\b"):
                calibrator.fit(X, y)
            assert vars(calibrator) == before
