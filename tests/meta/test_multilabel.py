"""A calibrator for each label, and classifiers of several labels per row."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from families import CALIBRATORS, quick
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import isotonic_regression
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score

from skcalib import MultiLabelCalibrator, PlattScaling, TemperatureScaling
from skcalib.metrics import expected_calibration_error


def some_rows(n=200, n_labels=4, seed=0):
    """Log-odds that are over-confident, and indicators."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(-0.5, 1.5, (n, n_labels))
    return 2 * Z + 0.5, (rng.uniform(size=Z.shape) < expit(Z)).astype(int)


Z, Y = some_rows()
W = np.random.default_rng(1).integers(0, 3, len(Z))


# ------------------------------------------------------------------------------------------
# Laws.


@pytest.mark.parametrize("kind", quick(CALIBRATORS))
def test_each_column_is_the_calibrator_of_its_label(kind):
    fitted = MultiLabelCalibrator(kind()).fit(Z, Y, sample_weight=W)
    for j in range(Z.shape[1]):
        alone = kind().fit(Z[:, [j]], Y[:, j], sample_weight=W)
        assert type(fitted.calibrators_[j]) is kind
        for name in ("transform", "predict_proba", "predict_log_proba"):
            found, expected = getattr(fitted, name)(Z)[:, j], getattr(alone, name)(Z[:, [j]])[:, -1]
            assert_allclose(found, expected, rtol=1e-12, atol=1e-15, err_msg=name)


def test_other_estimators_calibrate_by_their_probabilities():
    fitted = MultiLabelCalibrator(LogisticRegression()).fit(Z, Y)
    p = LogisticRegression().fit(Z[:, [1]], Y[:, 1]).predict_proba(Z[:, [1]])[:, 1]
    outputs = fitted.predict_proba(Z), fitted.predict_log_proba(Z), fitted.transform(Z)
    for found, expected in zip(outputs, (p, np.log(p), logit(p)), strict=True):
        assert_allclose(found[:, 1], expected, rtol=1e-9)


def test_outputs_are_indicators_and_rows_of_labels():
    fitted = MultiLabelCalibrator().fit(Z, Y)
    P = fitted.predict_proba(Z)
    assert P.flags.c_contiguous
    assert_array_equal(fitted.classes_, np.arange(4))
    assert fitted.n_features_in_ == 4
    accuracy = accuracy_score(Y, fitted.predict(Z), sample_weight=W)
    assert fitted.score(Z, sp.csr_array(Y), W) == accuracy


FORMS = {
    "csr matrix": sp.csr_matrix,
    "csc array": sp.csc_array,
    "lil": sp.lil_matrix,
    "explicit zeros": lambda Y: sp.csr_array((Y.ravel(), np.indices(Y.shape).reshape(2, -1))),
    "Booleans": lambda Y: Y.astype(bool),
    "floats": lambda Y: Y.astype(np.float32),
    "objects": lambda Y: Y.astype(object),
    "list": np.ndarray.tolist,
    "data frame": pd.DataFrame,
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_indicators_may_have_any_form(form):
    expected = MultiLabelCalibrator().fit(Z, Y).transform(Z)
    assert_array_equal(MultiLabelCalibrator().fit(Z, form(Y)).transform(Z), expected)


def test_each_label_of_a_row_may_have_a_weight():
    """Unknown labels have weight 0, so their values have no effect."""
    known = np.random.default_rng(2).uniform(size=Y.shape) < 0.8
    one, other = (
        MultiLabelCalibrator().fit(Z, np.where(known, Y, filled), sample_weight=known)
        for filled in (0, 1)
    )
    assert_array_equal(one.transform(Z), other.transform(Z))
    for j in range(4):
        some = known[:, j]
        alone = PlattScaling().fit(Z[some][:, [j]], Y[some, j])
        assert_allclose(one.transform(Z)[:, j], alone.transform(Z[:, [j]])[:, 0], rtol=1e-6)
    one, other = (
        MultiLabelCalibrator().fit(Z, Y, sample_weight=weights).transform(Z)
        for weights in (np.tile(W[:, None], 4), W)
    )
    assert_array_equal(one, other)


@pytest.mark.parametrize("form", ["{}", "logit_{}", "p({})"])
def test_columns_of_labels_and_logits_have_the_same_order(form):
    names = [form.format(name) for name in "badc"]
    X, E = pd.DataFrame(Z, columns=names), pd.DataFrame(Y, columns=list("badc"))
    fitted = MultiLabelCalibrator().fit(X, E)
    assert_array_equal(fitted.feature_names_in_, names)
    other = X[sorted(names)]
    with pytest.raises(ValueError, match="order of the columns of y"):
        MultiLabelCalibrator().fit(other, E)
    with pytest.raises(ValueError, match="feature names"):
        fitted.transform(other)


@pytest.mark.parametrize(
    "names",
    [
        [2, 0, 3, 1],
        pd.date_range("2020", periods=4),
        pd.MultiIndex.from_product([["lung", "heart"], ["left", "right"]]),
    ],
    ids=["numbers", "dates", "levels"],
)
def test_columns_may_have_names_of_any_kind(names):
    E, other = pd.DataFrame(Y, columns=names), pd.DataFrame(Z, columns=names[::-1])
    with pytest.raises(ValueError, match="order of the columns of y"):
        MultiLabelCalibrator().fit(other, E)
    with pytest.raises(ValueError, match="order of the columns of y_true"):
        expected_calibration_error(E, expit(other), kind="multilabel")


@pytest.mark.parametrize("names", [[3, 2, 1, 0], ["risk 3", "risk 2", "risk 1", "risk 0"]])
def test_columns_of_logits_may_have_any_order_if_labels_have_no_names(names):
    X = pd.DataFrame(Z, columns=names)
    fitted = MultiLabelCalibrator().fit(X, Y)
    assert_array_equal(fitted.predict_proba(X), MultiLabelCalibrator().fit(Z, Y).predict_proba(Z))


# ------------------------------------------------------------------------------------------
# Labels that all rows have, or lack.


@pytest.mark.parametrize("value", [0, 1])
def test_a_constant_label_is_shifted_to_its_rate(value):
    E = Y.copy()
    E[:, 2] = value
    with pytest.warns(UserWarning, match=f"No row {'lacks' if value else 'has'} label 2"):
        fitted = MultiLabelCalibrator().fit(Z, E)
    S = fitted.transform(Z)
    assert np.ptp(S[:, 2] - Z[:, 2]) < 1e-12
    rate = 0.5 / (len(Z) + 1)
    assert fitted.predict_proba(Z)[:, 2].mean() == pytest.approx(1 - rate if value else rate)
    others, of_others = np.delete(Z, 2, 1), np.delete(Y, 2, 1)
    alone = MultiLabelCalibrator().fit(others, of_others).transform(others)
    assert_array_equal(np.delete(S, 2, 1), alone)


def test_constant_labels_are_named_once_and_weights_are_repetitions():
    E = pd.DataFrame(Y, columns=list("abcd"))
    E["a"] = E["c"] = 0
    found = []
    for repeats, weights in ((np.ones(len(Z), int), W), (W, None)):
        rows = np.repeat(np.arange(len(Z)), repeats)
        with pytest.warns(UserWarning, match="'a', 'c'") as caught:
            fitted = MultiLabelCalibrator().fit(Z[rows], E.iloc[rows], sample_weight=weights)
        assert len(caught) == 1
        found.append(fitted.transform(Z))
    assert_allclose(*found, rtol=1e-6)


# ------------------------------------------------------------------------------------------
# Warnings and bad input.


def test_warnings_of_fits_name_the_labels():
    E = Y.copy()
    E[:, [0, 2]] = Z[:, [0, 2]] > 0
    with pytest.warns(UserWarning, match="^Label 0, 2: .*separable") as caught:
        MultiLabelCalibrator(TemperatureScaling()).fit(Z, E)
    assert len(caught) == 1


def test_probabilities_and_relative_weights_warn():
    with pytest.warns(UserWarning, match="fit.*special.logit"):
        MultiLabelCalibrator().fit(expit(Z), Y)
    with pytest.warns(UserWarning, match="predictions.*special.logit"):
        MultiLabelCalibrator().fit(Z, Y).predict_proba(expit(Z))
    with pytest.warns(UserWarning, match="sum to 1"):
        MultiLabelCalibrator().fit(Z, Y, sample_weight=np.full(200, 1 / 200))


UNKNOWN = np.random.default_rng(1).random(Y.shape) < 0.2
UNKNOWN_FORMS = {
    "NaN": np.where(UNKNOWN, np.nan, Y),
    "-1": np.where(UNKNOWN, -1, Y),
    "objects": np.where(UNKNOWN, None, Y.astype(object)),
    "nullable": pd.DataFrame(Y).astype("Int64").mask(UNKNOWN),
    "nullable booleans": pd.DataFrame(Y).astype("boolean").mask(UNKNOWN),
}


@pytest.mark.parametrize("form", UNKNOWN_FORMS)
def test_unknown_labels_of_weight_zero_may_have_any_value(form):
    known = MultiLabelCalibrator().fit(Z, Y, sample_weight=~UNKNOWN)
    other = MultiLabelCalibrator().fit(Z, UNKNOWN_FORMS[form], sample_weight=~UNKNOWN)
    assert_array_equal(other.predict_proba(Z), known.predict_proba(Z))
    rows = UNKNOWN.any(axis=1)
    known = MultiLabelCalibrator().fit(Z[~rows], Y[~rows])
    other = MultiLabelCalibrator().fit(Z, UNKNOWN_FORMS[form], sample_weight=~rows)
    assert_allclose(other.predict_proba(Z), known.predict_proba(Z), rtol=1e-9)
    with pytest.raises(ValueError, match="indicator"):
        MultiLabelCalibrator().fit(Z, UNKNOWN_FORMS[form])


NAN = np.where(Y == 1, np.nan, 0)
THREE_D = np.stack([-Z.T, Z.T], axis=2)
BAD = {
    "one label per row": (Z, Y[:, 0], "indicator"),
    "sets": (Z[:2], [{1, 2}, {0}], "MultiLabelBinarizer"),
    "pairs": (Z[:2, :2], [(0, 2), (1, 3)], "sets"),
    "signs": (Z, 2 * Y - 1, "got -1"),
    "sparse counts": (Z, sp.csr_array(2 * Y), "got 2"),
    "unknown": (Z, NAN, r"weight of 0.*np.isnan\(y\)"),
    "width": (Z, Y[:, :3], "3 labels"),
    "length": (Z, Y[:9], "inconsistent"),
    "three dimensions": (THREE_D, Y, "MultiOutputClassifier"),
    "list": ([THREE_D[0], THREE_D[1][:, :1]], Y, "LogitTransformer"),
    "one dimension": (Z[:, 0], Y[:, :1], "2D"),
    "masked": (np.where(Z > 0, Z, -np.inf), Y, "-inf"),
    "huge": (1e308 * np.sign(Z), Y, "at most"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_and_changes_nothing(case):
    X, y, word = BAD[case]
    fitted = MultiLabelCalibrator().fit(Z, Y)
    before = vars(fitted).copy()
    with pytest.raises(ValueError, match=f"(?s){word}"):
        fitted.fit(X, y)
    for w in (0 * Y, np.ones((200, 3))):
        with pytest.raises(ValueError, match="sample_weight"):
            fitted.fit(Z, Y, sample_weight=w)
    assert vars(fitted) == before


def test_calibrators_of_other_classes_are_refused():
    with pytest.raises(ValueError, match=r"\[0, 1\], got \[1, 0\]"):
        MultiLabelCalibrator(PlattScaling(classes=[1, 0])).fit(Z, Y)


def test_errors_of_a_label_name_it():
    class Failing(PlattScaling):
        def _fit(self, rows):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        MultiLabelCalibrator(Failing()).fit(Z, Y)
    assert caught.value.__notes__ == ["Label 0 failed."]


def test_dask_is_refused_with_the_remedy():
    da = pytest.importorskip("dask.array")
    far = [da.from_array(A, chunks=(50, 4)) for A in (Z, Y)]
    for rows in ((far[0], Y), (Z, far[1])):
        with pytest.raises(ValueError, match="in memory"):
            MultiLabelCalibrator().fit(*rows)


# ------------------------------------------------------------------------------------------
# Risks by increasing horizons.


def risks(n=400, seed=0):
    """Log-odds of an event by five horizons, and whether it happened by then."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(-2, 1, (n, 1)) + 0.3 * np.arange(5) + rng.normal(0, 0.4, (n, 5))
    first = rng.exponential(8, n) * np.exp(-Z[:, 2])
    return Z, (first[:, None] <= np.arange(1, 6)).astype(int)


def test_labels_that_increase_by_horizon_are_named():
    with pytest.warns(UserWarning, match="increasing=True"):
        MultiLabelCalibrator().fit(*risks())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_increasing_probabilities_are_the_closest_ones_that_do_not_fall(dtype):
    Z, Y = risks()
    Z = Z.astype(dtype)
    increasing = MultiLabelCalibrator(increasing=True).fit(Z, Y)
    with pytest.warns(UserWarning, match="increasing=True"):
        plain = MultiLabelCalibrator().fit(Z, Y)
    P, raw = increasing.predict_proba(Z), plain.predict_proba(Z)
    falls = (np.diff(raw, axis=1) < 0).any(axis=1)
    assert 0.2 < falls.mean() < 1
    expected = np.array([isotonic_regression(row).x for row in raw.astype(np.float64)])
    assert_allclose(P, expected, rtol=3e-6 if dtype == np.float32 else 1e-12)
    assert_array_equal(P[~falls], raw[~falls])
    assert P.dtype == dtype
    assert_allclose(increasing.transform(Z), logit(P), atol=2e-5)
    assert_allclose(increasing.predict_log_proba(Z), np.log(P), rtol=1e-5)
