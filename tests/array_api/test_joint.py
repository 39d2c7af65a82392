"""Outputs of the joint family for tensors equal outputs for arrays, and are differentiable."""

from functools import cache

import numpy as np
import pytest
from sklearn.base import clone

from skcalib import (
    DirichletCalibration,
    EnsembleTemperatureScaling,
    MatrixScaling,
    OrderPreservingScaling,
    TemperatureScaling,
    VectorScaling,
)
from skcalib.datasets import make_logits

TOLERANCE = {"float32": 1e-6, "float64": 1e-9}

DEFAULT = [
    TemperatureScaling(),
    VectorScaling(),
    MatrixScaling(),
    DirichletCalibration(),
    OrderPreservingScaling(),
    EnsembleTemperatureScaling(),
]
# Forms of the same methods that take other paths through the kernels.
OTHERS = [
    TemperatureScaling(smoothing=0.1),
    VectorScaling(alpha="loo"),
    VectorScaling(smoothing=0),
    VectorScaling(normalize=False, fit_intercept=False),
    VectorScaling(alpha=0.1, fit_intercept=False),
    MatrixScaling(alpha="loo"),
    MatrixScaling(alpha=3.0, normalize=False),
    MatrixScaling(smoothing=0),
    DirichletCalibration(alpha="auto", alpha_intercept="loo"),
    OrderPreservingScaling(n_knots=0),
    OrderPreservingScaling(smoothing=0),
    EnsembleTemperatureScaling(loss="brier"),
    EnsembleTemperatureScaling(smoothing=0),
]


def rows(K, dtype, *, n=240):
    """Logits, labels and weights; one column for two classes if ``K`` is 1."""
    rng = np.random.default_rng(0)
    Z, y = make_logits(n, max(K, 2), temperature=2.0, random_state=1)
    Z += 0.5 * rng.normal(size=Z.shape)
    Z = Z[:, 1:] - Z[:, :1] if K == 1 else Z
    return Z.astype(dtype), y, rng.integers(0, 4, n) / 2


@cache
def fitted_to(kind, K, dtype):
    """The calibrator fitted to these rows; for tests that only read it."""
    return clone(kind).fit(*rows(K, dtype))


def check_same(fitted, Z, lib, dtype):
    P = lib.numpy(fitted.predict_proba(lib.array(Z)))
    np.testing.assert_allclose(P, fitted.predict_proba(Z), rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("K", [1, 3, *(pytest.param(K, marks=pytest.mark.slow) for K in (2, 7))])
@pytest.mark.parametrize("kind", OTHERS, ids=str)
def test_all_forms_have_the_outputs_of_numpy(kind, K, lib, dtype):
    if lib.name == "jax" and K != 3:
        pytest.skip("JAX compiles anew for each shape, which takes seconds")
    check_same(fitted_to(kind, K, dtype), rows(K, dtype)[0], lib, dtype)


@pytest.mark.parametrize("kind", [k for k in OTHERS if type(k)._takes_masked], ids=str)
def test_masked_classes(kind, torch_lib, strict, dtype):
    Z, y, w = rows(4, dtype)
    some = np.random.default_rng(0).random(Z.shape) < 0.2
    some[np.arange(len(y)), y] = False
    Z[some] = -np.inf
    fitted = clone(kind).fit(Z, y, w)
    for lib in (torch_lib, strict):
        check_same(fitted, Z, lib, dtype)


DIFFERENTIABLE = [
    kind
    for kind in [*DEFAULT, *OTHERS]
    if not isinstance(kind, (EnsembleTemperatureScaling, DirichletCalibration))
]


@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("kind", [*DIFFERENTIABLE, DirichletCalibration()], ids=str)
def test_outputs_are_differentiable(kind, K, torch_lib):
    fitted = fitted_to(kind, K, "float64")
    X = torch_lib.array(rows(K, "float64")[0][:3]).requires_grad_()
    for method in ("transform", "predict_proba", "predict_log_proba"):
        assert torch_lib.xp.autograd.gradcheck(getattr(fitted, method), X)


def test_gradients_of_masked_classes_are_zero(torch_lib):
    Z, y, _ = rows(4, "float64")
    for kind in (TemperatureScaling(), VectorScaling(), OrderPreservingScaling()):
        fitted = clone(kind).fit(Z, y)
        masked = Z[:5].copy()
        masked[np.arange(5), (y[:5] + 1) % 4] = -np.inf
        X = torch_lib.array(masked).requires_grad_()
        torch_lib.xp.sum(fitted.predict_proba(X)[:, 0] ** 2).backward()
        assert torch_lib.xp.all(torch_lib.xp.isfinite(X.grad))
        assert torch_lib.xp.all(X.grad[masked == -np.inf] == 0)


@pytest.mark.parametrize(
    "kind", [TemperatureScaling(), VectorScaling(), MatrixScaling(), OrderPreservingScaling()]
)
def test_a_network_is_trained_through_a_calibrated_head(kind, torch_lib):
    """The log loss of calibrated probabilities falls as the weights before them are trained."""
    torch = torch_lib.xp
    Z, y, _ = rows(3, "float32")
    X, labels = torch_lib.array(Z), torch_lib.array(y)
    torch.manual_seed(0)
    network = torch.nn.Linear(3, 3)
    head = kind.fit(X, y)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.05)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        log_p = head.predict_log_proba(network(X))
        loss = torch.nn.functional.nll_loss(log_p, labels)
        loss.backward()
        assert all(torch.any(p.grad != 0) for p in network.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.05
