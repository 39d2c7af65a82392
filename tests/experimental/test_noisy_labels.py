"""Noisy labels: the minimum of the observed log loss, simulated noise, invalid matrices."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_softmax, softmax
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning

import skcalib
from skcalib.datasets import make_logits
from skcalib.experimental import NoisyLabelCalibration

Q3 = np.array([[0.7, 0.3, 0], [0.1, 0.8, 0.1], [0.05, 0.15, 0.8]])
EXACT = {"smoothing": 0, "alpha": 0, "tol": 1e-10}


def noisy(n, Q, seed=0):
    """Logits, true classes, and labels by the noise matrix."""
    Z, y = make_logits(n, len(Q), random_state=seed)
    u = np.random.default_rng(seed + 1).random(n)
    return Z, y, (u[:, None] > np.cumsum(Q, axis=1)[y]).sum(axis=1)


def seen_loss(L, Q, labels, w):
    """Log loss of the observed labels, by log-probabilities of the true class."""
    return -np.average(
        np.log((np.exp(log_softmax(L, axis=1)) * Q.T[labels]).sum(axis=1)), weights=w
    )


@pytest.mark.parametrize(
    "calibrator",
    [skcalib.TemperatureScaling(smoothing=0), skcalib.VectorScaling(**EXACT)],
    ids=repr,
)
def test_the_gradient_of_the_observed_loss_is_zero(calibrator):
    """With ten pseudo-rows that have the uncalibrated probabilities."""
    Z, _, labels = noisy(3000, Q3)
    w = np.random.default_rng(1).uniform(0.5, 2, len(Z))
    c = NoisyLabelCalibration(calibrator, noise_matrix=Q3).fit(Z, labels, w)
    uncalibrated = softmax(Z, axis=1)

    def objective(L):
        pseudo = -(uncalibrated * log_softmax(L, axis=1)).sum(axis=1)
        return seen_loss(L, Q3, labels, w) + 10 * np.average(pseudo, weights=w) / w.sum()

    L, one = c.predict_log_proba(Z), np.eye(3)
    moves = [L, *(np.tile(one[0], (len(Z), 1)), np.tile(one[2], (len(Z), 1)))]
    for move in moves[: 1 if type(calibrator) is skcalib.TemperatureScaling else 3]:
        up, down = (objective(L + h * move) for h in (1e-3, -1e-3))
        assert abs(up - down) / 2e-3 < 2e-6
    np.testing.assert_allclose(c.noise_matrix_, Q3)


def test_an_estimated_matrix_maximizes_the_likelihood():
    """The prior of one pseudo-row per class shifts the maximum slightly."""
    Z, _, labels = noisy(3000, Q3)
    c = NoisyLabelCalibration(skcalib.TemperatureScaling(smoothing=0)).fit(Z, labels)
    L, Q, one = c.predict_log_proba(Z), c.noise_matrix_, np.eye(3)
    np.testing.assert_allclose(Q.sum(axis=1), 1)
    for k in range(3):  # moves within rows of the matrix that keep their sums
        D = np.outer(one[k], Q[k] * (one[1] - Q[k, 1]))
        up, down = (seen_loss(L, Q + h * D, labels, None) for h in (1e-3, -1e-3))
        assert abs(up - down) / 2e-3 < 1 / 3000


def test_no_noise_is_the_calibrator_itself():
    Z, y, _ = noisy(20_000, Q3)
    c = NoisyLabelCalibration(noise_matrix=np.eye(3)).fit(Z, y)
    expected = skcalib.TemperatureScaling(smoothing=0).fit(Z, y).predict_proba(Z)
    np.testing.assert_allclose(c.predict_proba(Z), expected, atol=2e-4)
    assert c.n_iter_ == 3


@pytest.mark.parametrize(
    ("n_classes", "asymmetric", "wrong"),
    [
        (3, False, 0.05),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [(2, False, 0.4), (3, True, 0.4), (10, False, 0.4)]
        ),
    ],
)
def test_probabilities_match_the_true_class(n_classes, asymmetric, wrong):
    one = np.eye(n_classes)
    others = np.roll(one, 1, axis=1) if asymmetric else (1 - one) / (n_classes - 1)
    Q = (1 - wrong) * one + wrong * others
    Z, y, labels = noisy(20_000, Q)
    estimate = NoisyLabelCalibration()
    clean, naive, given, found = (
        c.fit(Z[:10_000], seen[:10_000]).predict_log_proba(Z)[np.arange(10_000, 20_000), y[10_000:]]
        for c, seen in (
            (skcalib.TemperatureScaling(), y),
            (skcalib.TemperatureScaling(), labels),
            (NoisyLabelCalibration(noise_matrix=Q), labels),
            (estimate, labels),
        )
    )
    assert given.mean() > clean.mean() - 0.003
    assert found.mean() > clean.mean() - 0.03
    assert found.mean() > naive.mean() + 0.001
    assert np.abs(estimate.noise_matrix_ - Q).max() < 0.13


@pytest.mark.slow
def test_few_rows_have_symmetric_noise():
    one = np.eye(10)
    Z, y, labels = noisy(30 * 100 - 1, 0.7 * one + 0.3 * np.roll(one, 1, axis=1))
    c = NoisyLabelCalibration().fit(Z, labels)
    wrong = 1 - c.noise_matrix_[0, 0]
    np.testing.assert_allclose(c.noise_matrix_, np.where(one, 1 - wrong, wrong / 9))
    assert 0.2 < wrong < 0.4
    naive = skcalib.TemperatureScaling().fit(Z, labels)
    loss, of_naive = (-p.predict_log_proba(Z)[np.arange(len(y)), y].mean() for p in (c, naive))
    assert loss < of_naive - 0.1


def test_very_noisy_labels_do_not_lead_to_certainty():
    """Without the rows more, these fits have a temperature of almost zero."""
    Q = np.array([[0.6, 0.4], [0.4, 0.6]])
    for seed in (4, 19, 24):
        Z, _, labels = noisy(150, Q, seed)
        c = NoisyLabelCalibration(noise_matrix=Q).fit(Z, labels)
        assert c.calibrator_.temperature_ > 0.2


@pytest.mark.parametrize(
    ("matrix", "word"),
    [
        (Q3[:2], "shape"),
        (Q3.astype(str), "<U"),
        (Q3 - 2 * np.eye(3), "-1.3"),
        (np.where(Q3 > 0, Q3, np.nan), "non-negative"),
        (2 * Q3, "sum to one"),
        (np.array([[0.7, 0.1, 0.05], [0.3, 0.8, 0.15], [0, 0.1, 0.8]]), "noise_matrix.T"),
        (np.full((3, 3), 1 / 3), "singular"),
        (np.eye(3)[[0, 0, 1]], "singular"),
    ],
)
def test_invalid_noise_matrices_are_refused(matrix, word):
    Z, _, labels = noisy(100, Q3)
    c = NoisyLabelCalibration(noise_matrix=matrix)
    with pytest.raises(ValueError, match=f"^noise_matrix .*{word}"):
        c.fit(Z, labels)
    assert not hasattr(c, "classes_")


def test_names_of_a_noise_matrix_are_compared_with_the_classes():
    Z, _, y = noisy(300, Q3)
    names = np.array(["a", "b", "c"])
    Q = pd.DataFrame(Q3, index=names, columns=names)
    fitted = NoisyLabelCalibration(noise_matrix=Q).fit(Z, names[y])
    np.testing.assert_allclose(fitted.noise_matrix_, Q3)
    for other, name in (
        (Q[["b", "a", "c"]], "noise_matrix"),
        (Q.iloc[[1, 0, 2]], "noise_matrix.T"),
    ):
        with pytest.raises(ValueError, match=f"{name} .*order"):
            NoisyLabelCalibration(noise_matrix=other).fit(Z, names[y])


def test_rounded_matrices_are_divided_by_their_sums():
    Z, _, labels = noisy(100, Q3)
    c = NoisyLabelCalibration(noise_matrix=Q3 * 1.0005).fit(Z, labels)
    np.testing.assert_allclose(c.noise_matrix_, Q3)


@pytest.mark.slow
def test_trees_are_not_fitted_until_the_limit():
    Z, _, labels = noisy(200, Q3)
    boosting = HistGradientBoostingClassifier(max_iter=5, max_leaf_nodes=4)
    trees = skcalib.experimental.EstimatorCalibration(boosting)
    with pytest.warns(ConvergenceWarning, match="converge"):
        c = NoisyLabelCalibration(trees, noise_matrix=Q3).fit(Z, labels)
    assert c.n_iter_ < 200
    trees.set_params(estimator=ExtraTreesClassifier(3, max_depth=3, random_state=0))
    assert NoisyLabelCalibration(trees, noise_matrix=Q3).fit(Z, labels).n_iter_ < 100


def test_warnings_and_classes_of_the_calibrator_reach_the_user():
    Z, _, labels = noisy(100, Q3)
    with pytest.warns(ConvergenceWarning, match="no minimum"):
        NoisyLabelCalibration(noise_matrix=Q3).fit(-Z, labels)
    other = NoisyLabelCalibration(skcalib.TemperatureScaling(classes=[2, 1, 0]), noise_matrix=Q3)
    with pytest.raises(ValueError, match="order"):
        other.fit(Z, labels)


def test_copies_that_take_too_much_memory_are_refused():
    n_rows, n_classes = 130, 2000  # 5.2e8 logits
    Z = np.random.default_rng(0).normal(size=(n_rows, n_classes))
    calibrator = NoisyLabelCalibration(classes=range(n_classes))
    with pytest.raises(ValueError, match="fewer rows"):
        calibrator.fit(Z, np.arange(n_rows))
