"""Log loss and Brier score: the same number wherever one is shown, and it is scikit-learn's."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose
from public import Known
from scipy.special import softmax
from sklearn.metrics import brier_score_loss, log_loss

from skcalib import TemperatureSweepDisplay, VectorScaling, calibration_report, compare_calibrators
from skcalib.datasets import make_logits
from skcalib.metrics import (
    ScoreDecompositionDisplay,
    calibration_scorer,
    score_decomposition,
)

SKLEARN = tuple(map(int, sklearn.__version__.split(".")[:2]))


def by_hand(y, P, w):
    """Brier score of scikit-learn 1.7; version 1.6 supports two classes only."""
    squares = ((P - np.eye(P.shape[1])[y]) ** 2).sum(axis=1)
    return np.average(squares, weights=w) / (2 if P.shape[1] == 2 else 1)


def of_scikit_learn(y, P, w):
    labels = np.arange(P.shape[1])
    if SKLEARN >= (1, 7):
        brier = brier_score_loss(y, P, sample_weight=w, labels=labels)
        assert brier == pytest.approx(by_hand(y, P, w), rel=1e-6)
    else:
        brier = by_hand(y, P, w)
    return log_loss(y, P, sample_weight=w, labels=labels), brier


def scores_of(y, P, w):
    """Log loss and Brier score, as scorers have them."""
    model = Known(range(P.shape[1])).fit(P, y)
    names = "neg_log_loss", "neg_brier_score"
    return [-calibration_scorer(name)(model, P, y, sample_weight=w) for name in names]


def rows_of(n_classes, dtype=np.float64, *, weighted=True):
    Z, y = make_logits(300, n_classes, temperature=3.0, random_state=0)
    Z = Z.astype(dtype)
    Z[0] *= 50  # a row that is wrong, and as sure of it as the precision goes
    y[0] = Z[0].argmin()
    w = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    return Z, y, w + (np.arange(len(y)) == 0) if weighted else None


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_rows_match_scikit_learn(n_classes, dtype, weighted):
    Z, y, w = rows_of(n_classes, dtype, weighted=weighted)
    P = softmax(Z, axis=1)
    assert P.dtype == dtype
    found = scores_of(y, P, w)
    P = P.astype(np.float64)  # else scikit-learn's loss of a row is at most 15.9
    P /= P.sum(axis=1, keepdims=True)
    assert_allclose(found, of_scikit_learn(y, P, w), rtol=1e-6)
    if n_classes == 2:
        event = brier_score_loss(y, P[:, 1], sample_weight=w)
        assert found[1] == pytest.approx(event, rel=1e-6)


def test_scores_of_float32_are_in_double_precision():
    P = np.array([[0.1, 0.9], [1.0, 0.0]], dtype=np.float32)
    losses = -np.log([np.float64(P[0, 1]), np.finfo(np.float64).eps])
    squares = [(1 - np.float64(P[0, 1])) ** 2 / 2 + 0.01 / 2, 1]
    for w in ([1, 0], [0, 1]):
        expected = [np.average(values, weights=w) for values in (losses, squares)]
        assert_allclose(scores_of(np.array([1, 1]), P, w), expected, 1e-7)


@pytest.mark.slow
@pytest.mark.usefixtures("few_resamples")
@pytest.mark.parametrize(("n_classes", "dtype"), [(2, np.float64), (3, np.float32)])
def test_comparison_report_sweep_and_scikit_learn_agree(n_classes, dtype):
    Z, y, w = rows_of(n_classes, dtype)
    calibrator = VectorScaling().fit(Z, y, w)
    before, after = softmax(Z, axis=1), calibrator.predict_proba(Z)
    exact = (P.astype(np.float64) for P in (before, after))
    expected = np.array([of_scikit_learn(y, P / P.sum(axis=1, keepdims=True), w) for P in exact])

    found = compare_calibrators(
        Z, y, sample_weight=w, calibrators={"it": VectorScaling()}, test=(Z, y, w)
    )
    rows = [found.names.index(name) for name in ("uncalibrated", "it")]
    for k, measure in enumerate(["log loss", "Brier"]):
        assert_allclose(found.mean(measure)[rows], expected[:, k], rtol=1e-6)

    report = calibration_report(calibrator, Z, y, sample_weight=w)
    for k, measure in enumerate(["log loss", "Brier score"]):
        shown = [change.estimate for change in report.measures_[measure][:2]]
        assert_allclose(shown, expected[:, k], rtol=1e-6)

    sweep = TemperatureSweepDisplay.from_estimator(calibrator, Z, y, sample_weight=w)
    assert sweep.reference == pytest.approx(expected[1, 0], rel=1e-6)
    at_one = sweep.log_loss[sweep.temperatures == 1]
    assert_allclose(at_one, expected[0, 0], rtol=1e-6)
    assert f"VectorScaling: {expected[1, 0]:.3f}" == sweep.reference_line_.get_label()


def test_curve_of_the_sweep_is_scikit_learns_log_loss_at_every_temperature():
    Z, y, w = rows_of(3)
    sweep = TemperatureSweepDisplay.from_logits(
        Z, y, sample_weight=w, temperatures=[0.5, 1, 4], ax=plt.figure().subplots()
    )
    expected = [log_loss(y, softmax(Z / t, axis=1), sample_weight=w) for t in (0.5, 1, 4)]
    assert_allclose(sweep.log_loss, expected, rtol=1e-9)


def test_scores_have_names_with_neg():
    p, y = np.array([0.2, 0.4, 0.7]), [0, 1, 1]
    for name in ("log_loss", "brier_score", "ranked_probability_score"):
        assert score_decomposition(y, p, score=f"neg_{name}") == score_decomposition(
            y, p, score=name
        )
        kind = "cumulative" if name.startswith("ranked") else "binary"
        display = ScoreDecompositionDisplay.from_predictions(y, p, score=f"neg_{name}", kind=kind)
        assert display.score == name
        plt.close("all")
    with pytest.raises(ValueError, match="score must be one of"):
        score_decomposition(y, p, score="neg_brier")
