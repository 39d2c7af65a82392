"""Top-label calibration: numbers by hand, its binary calibrators, rows without a solution."""

import numpy as np
import pytest
from scipy.special import expit, logsumexp, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import skcalib
from skcalib.datasets import make_logits
from skcalib.experimental import TopLabelCalibration

ONE_BIN = skcalib.HistogramBinning(n_bins=1, pseudo_rows=0)
# Class 0 has the top score in four rows (one is right), class 1 in two rows (both are right).
P = np.array([[6, 3, 1], [7, 2, 1], [5, 3, 2], [8, 1, 1], [2, 6, 2], [1, 8, 1]]) / 10
Y = np.array([0, 1, 2, 1, 1, 1])


def margins(Z):
    """Log-odds of each class against all others."""
    others = np.where(np.eye(Z.shape[1]) == 1, -np.inf, Z[:, None])
    return Z - logsumexp(others, axis=2)


def over_predicted(n, seed=0):
    """Logits with an over-predicted first class."""
    Z, y = make_logits(n, 3, random_state=seed)
    Z[:, 0] += 1.5
    return Z, y


# --------------------------------------------------------------------------------------
# Numbers.


def test_frequencies_by_hand():
    c = TopLabelCalibration(ONE_BIN, shrinkage=0, classes=range(3)).fit(np.log(P), Y)
    assert c.shares_.tolist() == [1, 0, 0]
    found = c.predict_proba(np.log(P))
    # A quarter of the first predictions are right; half of all rows, which class 1 has.
    np.testing.assert_allclose(found[0], [1 / 4, 3 / 4 * 3 / 4, 3 / 4 * 1 / 4])
    np.testing.assert_allclose(found[4], [1 / 4, 1 / 2, 1 / 4])
    assert c.predict(np.log(P)).tolist() == [0, 0, 0, 0, 1, 1]


@pytest.mark.parametrize("shrinkage", [1.0, 20.0])
def test_a_class_is_shrunk_towards_all_rows(shrinkage):
    c = TopLabelCalibration(ONE_BIN, shrinkage=shrinkage, classes=range(3))
    c.fit(np.log(P), Y)
    found = c.predict_proba(np.log(P))[:4, 0]
    np.testing.assert_allclose(found, (4 * 1 / 4 + shrinkage / 2) / (4 + shrinkage))
    np.testing.assert_allclose(c.shares_, [4 / (4 + shrinkage), 0, 0])


@pytest.mark.parametrize(
    "calibrator", [None, skcalib.BBQ(), skcalib.TemperatureScaling(smoothing="auto")]
)
def test_each_class_has_a_binary_calibrator_of_its_margins(calibrator):
    Z, y = over_predicted(1500)
    c = TopLabelCalibration(calibrator, shrinkage=0).fit(Z, y)
    top, M, found = Z.argmax(axis=1), margins(Z), c.predict_proba(Z)
    binary = skcalib.PlattScaling() if calibrator is None else calibrator
    for k in range(3):
        own = top == k
        q = binary.fit(M[own, k : k + 1], y[own] == k).predict_proba(M[own, k : k + 1])[:, 1]
        np.testing.assert_allclose(found[own, k], q, rtol=1e-9)
        rest = softmax(Z[own], axis=1)
        rest[:, k] = 0
        expected = (1 - q)[:, None] * rest / rest.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(np.delete(found[own], k, 1), np.delete(expected, k, 1))


def test_histograms_match_the_paper():
    """Rows with the same top label in groups of as many, in the order of their confidence."""
    Z, y = over_predicted(3000)
    top = Z.argmax(axis=1)
    kept = np.concatenate([np.flatnonzero(top == k)[:600] for k in range(3)])
    Z, y, top = Z[kept], y[kept], top[kept]
    binning = skcalib.HistogramBinning(n_bins=10, strategy="quantile", pseudo_rows=0)
    c = TopLabelCalibration(binning, shrinkage=0).fit(Z, y)
    found = c.predict_proba(Z)[np.arange(len(y)), top]
    for k in range(3):
        rows = np.flatnonzero(top == k)
        rows = rows[softmax(Z[rows], axis=1)[:, k].argsort()].reshape(10, 60)
        expected = (y[rows] == k).mean(axis=1, keepdims=True)
        np.testing.assert_allclose(found[rows], np.repeat(expected, 60, axis=1))


def test_each_of_two_predictions_has_a_calibrator():
    Z, y = make_logits(3000, 2, offset=[1, 0], temperature=2.0, random_state=0)
    c = TopLabelCalibration(shrinkage=0).fit(Z[:, 1:] - Z[:, :1], y)
    assert len(c.calibrators_) == 2
    z = np.array([[2.0], [-2.0]])
    found = c.transform(z)
    for k, sign in ((1, 1), (0, -1)):
        own = c.calibrators_[k]
        value = own.coef_[0] * 2 + own.intercept_[0]
        np.testing.assert_allclose(found[1 - k, 0], sign * value, rtol=1e-12)


def test_confidence_is_right_for_each_predicted_class():
    """Temperature scaling fails here because one class is predicted too often."""
    (Z, y), (test, label) = over_predicted(6000), over_predicted(20_000, seed=1)
    top = test.argmax(axis=1)
    gaps = []
    for c in (skcalib.TemperatureScaling(), TopLabelCalibration()):
        q = c.fit(Z, y).predict_proba(test)[np.arange(len(top)), top]
        gaps.append([abs((q - (label == top))[top == k].mean()) for k in range(3)])
    assert max(gaps[0]) > 0.08
    assert max(gaps[1]) < 0.02


# --------------------------------------------------------------------------------------
# Rows without a solution.


@pytest.mark.filterwarnings("ignore::families.ColumnOrderWarning")
def test_classes_with_one_kind_of_outcome_have_the_pooled_calibrator():
    Z, y = make_logits(900, 4, random_state=0)
    Z[:, 3] -= 50  # never predicted
    top = Z.argmax(axis=1)
    y = np.where(top == 1, 1, np.where(top == 2, 0, y))  # always right, never right
    c = TopLabelCalibration(classes=range(4)).fit(Z, y)
    assert (c.shares_ > 0).tolist() == [True, False, False, False]
    assert all(c.calibrators_[k] is c.pooled_calibrator_ for k in (1, 2, 3))
    new = Z - [0, 0, 0, -100]
    assert (new.argmax(axis=1) == 3).all()
    q = c.pooled_calibrator_.predict_proba(margins(new)[:, 3:])[:, 1]
    np.testing.assert_allclose(c.predict_proba(new)[:, 3], q)


@pytest.mark.filterwarnings("ignore:Columns of X")  # all predictions may be wrong
@pytest.mark.parametrize(
    "calibrator", [None, skcalib.BBQ(), skcalib.AutoCalibrator(), LogisticRegression()]
)
@pytest.mark.parametrize("right", [True, False])
def test_all_predictions_right_or_wrong(calibrator, right):
    """Platt scaling with smoothed targets replaces classifiers if there is a single outcome."""
    Z, _ = make_logits(200, 3, random_state=0)
    y = Z.argmax(axis=1) if right else Z.argmin(axis=1)
    c = TopLabelCalibration(calibrator).fit(Z, y)
    assert isinstance(c.pooled_calibrator_, skcalib.PlattScaling)
    q = c.predict_proba(Z)[np.arange(200), Z.argmax(axis=1)]
    assert (q > 0.98 if right else q < 0.02).all()
    assert ((q > 0) & (q < 1)).all()


def test_certain_rows_are_not_counted():
    Z, y = over_predicted(500)
    certain = np.where(np.eye(3) == 1, 0.0, -np.inf)
    both = TopLabelCalibration().fit(np.vstack([Z, certain]), [*y, 0, 1, 2])
    np.testing.assert_allclose(both.shares_, TopLabelCalibration().fit(Z, y).shares_)
    for fitted in (both, TopLabelCalibration().fit(certain, [0, 1, 2])):
        assert np.array_equal(fitted.predict_proba(certain), np.eye(3))


def test_warnings_name_the_columns_they_are_of():
    Z, y = make_logits(2000, 3, random_state=0)
    top, margin = Z.argmax(axis=1), margins(Z).max(axis=1)
    wrong = expit(margin) > np.random.default_rng(0).uniform(size=2000)
    y = np.where(top == 1, np.where(wrong, 2, 1), y)
    with pytest.warns(UserWarning, match="^Top label in column 1: ") as caught:
        TopLabelCalibration().fit(Z, y)
    assert len(caught) == 1


# --------------------------------------------------------------------------------------
# Inside and around it.


@pytest.mark.parametrize("labels", [["x", "y", "z"], ["x", "y"]])
def test_classes_set_by_comparisons_and_classifiers_are_not_set_on_the_binary_calibrator(labels):
    """Comparisons and classifiers name the classes of what they fit."""
    X, y = over_predicted(300)
    X, y = X[:, : len(labels)], np.minimum(y, len(labels) - 1)
    y = np.array(labels)[y]
    binary = TopLabelCalibration(skcalib.HistogramBinning(n_bins=3, pseudo_rows=1))
    chain = make_pipeline(skcalib.TemperatureScaling(), binary)
    for calibrator in (binary, chain):
        expected = calibrator.fit(X, y).predict_proba(X)
        found = skcalib.compare_calibrators(X, y, calibrators={"a": calibrator}, test=(X, y))
        np.testing.assert_array_equal(found.calibrators["a"].predict_proba(X), expected)
        assert found.calibrators["a"].classes_.tolist() == labels
    skcalib.CalibratedClassifier(LogisticRegression(), chain, cv=2).fit(X, y)
