"""The regularization strength of vector and matrix scaling, by a rule or from the data."""

import dask
import dask.array as da
import numpy as np
import pytest
from families import log_prior
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.metrics import log_loss

from skcalib import DirichletCalibration, MatrixScaling, VectorScaling
from skcalib.datasets import make_logits

KINDS = [VectorScaling, MatrixScaling]
ALPHAS = [10, 3, 1, 0.3, 0.1, 0.03, 0.01, 0.003]


def problem(n, K, random_state=0):
    """Over-confident logits with over-predicted classes, and two classes that are confused."""
    Z, y = make_logits(
        n, K, temperature=2, offset=3 * np.sin(np.arange(K)), random_state=random_state
    )
    Z[:, 1] += 0.5 * Z[:, 0]
    return Z, y


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alpha", [1.0, 0.3, 0])
def test_strengths_that_are_not_chosen_have_no_curve(kind, alpha):
    c = kind(alpha=alpha).fit(*problem(300, 3))
    assert (c.alpha_, len(c.alphas_), len(c.loo_losses_)) == (alpha, 0, 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("K", [2, 8])
@pytest.mark.parametrize("params", [{}, {"normalize": False}])
def test_a_fit_with_the_chosen_strength_is_the_same(kind, K, params):
    Z, y = problem(300, K)
    w = np.random.default_rng(0).uniform(0.5, 2, size=300)
    chosen = kind(alpha="loo", tol=1e-8, **params).fit(Z, y, w)
    first = ALPHAS.index(chosen.alphas_[0])
    assert chosen.alphas_.tolist() == ALPHAS[first:][: len(chosen.alphas_)]
    score = w.sum() * chosen.loo_losses_ - log_prior(chosen.alphas_)
    assert chosen.alpha_ == chosen.alphas_[score.argmin()]
    assert np.isfinite(chosen.loo_losses_).all()
    assert chosen.n_iter_ > len(chosen.alphas_)
    assert chosen.loo_losses_.min() > chosen.loss_
    same = kind(alpha=chosen.alpha_, tol=1e-8, **params).fit(Z, y, w)
    np.testing.assert_allclose(chosen.coef_, same.coef_, atol=1e-5)
    np.testing.assert_allclose(chosen.intercept_, same.intercept_, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_nearly_no_weight_do_not_choose_the_strength(kind):
    """Leave-one-out losses come from a sample of many rows, unless the rows have weights."""
    Z, y = problem(4096, 3)
    heavy = slice(1, None, 4)  # a sample of every second or fourth row would miss these rows
    w = np.full(4096, 1e-9)
    w[heavy] = 1
    weighted, alone = kind().fit(Z, y, w), kind().fit(Z[heavy], y[heavy])
    assert weighted.alpha_ == alone.alpha_
    np.testing.assert_allclose(weighted.loo_losses_, alone.loo_losses_, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("K", [4, 12])
def test_the_chosen_strength_is_close_to_the_best_on_new_rows(K):
    X, truth = problem(5000, K, random_state=1)
    for n in (500, 5000):
        losses = {
            alpha: log_loss(truth, MatrixScaling(alpha=alpha).fit(*rows).predict_proba(X))
            for rows in [problem(n, K)]
            for alpha in ("loo", *ALPHAS)
        }
        assert losses["loo"] <= min(losses.values()) + 3e-3
        assert losses["loo"] < losses[ALPHAS[0]]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("K", [3, 8])
def test_single_precision_and_dask_choose_the_same_strength(kind, K):
    Z, y = problem(900, K)
    chosen = kind(alpha="loo").fit(Z, y)
    others = [kind(alpha="loo").fit(Z.astype(np.float32), y)]
    with dask.config.set(scheduler="synchronous"):
        others.append(kind(alpha="loo").fit(da.from_array(Z, (400, K)), da.from_array(y, 400)))
    for other in others:
        assert other.alpha_ == chosen.alpha_
        np.testing.assert_allclose(other.loo_losses_, chosen.loo_losses_, rtol=1e-3)


@pytest.mark.parametrize(
    ("calibrator", "n", "K", "seed"),
    [
        (DirichletCalibration(), 15, 3, 0),
        (MatrixScaling(alpha="loo"), 1000, 10, 0),
    ],
)
def test_a_weight_is_as_many_rows(calibrator, n, K, seed):
    X, y = make_logits(n, K, temperature=2.0, offset=np.arange(K) / 2, random_state=seed)
    weight = np.random.default_rng(seed).integers(0, 5, n)
    rows = np.repeat(np.arange(n), weight)[::-1]
    calibrator = clone(calibrator).set_params(classes=range(K))
    found = calibrator.fit(X, y, weight).predict_proba(X)
    assert_allclose(found, calibrator.fit(X[rows], y[rows]).predict_proba(X), rtol=1e-7)
