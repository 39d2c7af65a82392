"""Modules of torch: the outputs of the library, with gradients, moved, exported and saved."""

import sys
from functools import cache

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

import skcalib
from skcalib import (
    AutoCalibrator,
    BetaCalibration,
    DirichletCalibration,
    EnsembleTemperatureScaling,
    HistogramBinning,
    MatrixScaling,
    MultiLabelCalibrator,
    OrderPreservingScaling,
    PlattScaling,
    PriorShift,
    QuadraticScaling,
    SplineCalibration,
    TemperatureScaling,
    VectorScaling,
)
from skcalib.datasets import make_logits
from skcalib.experimental import EstimatorCalibration
from skcalib.export import to_torch

CANDIDATES = {"t": TemperatureScaling(smoothing="auto"), "m": MatrixScaling()}
SUPPORTED = [
    TemperatureScaling(),
    TemperatureScaling(smoothing="auto"),
    VectorScaling(),
    VectorScaling(normalize=False, smoothing=0),
    MatrixScaling(),
    DirichletCalibration(),
    OrderPreservingScaling(),
    OrderPreservingScaling(n_knots=0),
    EnsembleTemperatureScaling(),
    PlattScaling(),
    BetaCalibration(),
    QuadraticScaling(),
    SplineCalibration(),
    PriorShift(),
    AutoCalibrator(CANDIDATES, cv=2),
    AutoCalibrator("smooth", cv=2),
    make_pipeline(TemperatureScaling(), PlattScaling()),
]
TAKE_MASKED = [c for c in SUPPORTED if getattr(c, "_takes_masked", True) and "Auto" not in repr(c)]
WIDTHS = [1, 2, 5]


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="modules of torch need torch")


@cache
def fitted(calibrator, width):
    """A calibrator and rows, which tests must not change."""
    X, y = make_logits(300, max(width, 2), temperature=1.7, random_state=0)
    X = X[:, 1:] - X[:, :1] if width == 1 else X
    calibrator = clone(calibrator).fit(X, y)
    if isinstance(calibrator, PriorShift):
        calibrator.adapt(X[y > 0])
    return calibrator, np.vstack([X, 100 * X, X / 1000])


def of_logits(S):
    S = np.asarray(S, np.float64)
    return log_softmax(np.hstack([0 * S, S]) if S.shape[1] == 1 else S, axis=1)


def assert_close(found, wanted, tol):
    np.testing.assert_allclose(np.exp(found), np.exp(wanted), atol=tol)
    np.testing.assert_allclose(found, wanted, rtol=tol, atol=tol)


@pytest.mark.parametrize("calibrator", SUPPORTED, ids=repr)
@pytest.mark.parametrize("width", WIDTHS)
def test_outputs_match_the_library(torch, calibrator, width):
    calibrator, X = fitted(calibrator, width)
    wanted = calibrator.predict_log_proba(X)
    for dtype, tol in (("float64", 1e-6), ("float32", 2e-5)):
        module, Z = to_torch(calibrator, dtype=dtype), torch.tensor(X, dtype=getattr(torch, dtype))
        out = module(Z)
        assert out.dtype == Z.dtype
        assert out.shape == Z.shape
        assert_close(of_logits(out), wanted, tol)
        # Rows may have any shape, and none has an influence on others.
        torch.testing.assert_close(module(Z.reshape(3, -1, width)).reshape(-1, width), out)


@pytest.mark.parametrize("calibrator", TAKE_MASKED, ids=repr)
@pytest.mark.parametrize("width", [2, 5])
def test_masked_classes_stay_masked_and_gradients_are_finite(torch, calibrator, width):
    calibrator, X = fitted(calibrator, width)
    X = X[:300].copy()
    X[::3, -1] = -np.inf
    module = to_torch(calibrator, dtype="float64").requires_grad_()
    Z = torch.tensor(X, requires_grad=True)
    out = module(Z)
    assert (torch.isneginf(out) == torch.isneginf(Z)).all()
    assert_close(of_logits(out.detach())[:, 0], calibrator.predict_log_proba(X)[:, 0], 1e-6)
    torch.nn.functional.cross_entropy(out, torch.zeros(len(X), dtype=torch.long)).backward()
    for tensor in (Z, *module.parameters()):
        assert tensor.grad is None or torch.isfinite(tensor.grad).all()
    assert Z.grad.abs().sum() > 0


def test_very_negative_logits_are_not_masked(torch):
    calibrator, _ = fitted(TemperatureScaling(smoothing=0.1), 5)
    X = np.array([[-5e29, 0, 1, 2, 3], [-np.inf, 0, 1, 2, 3]])
    out = to_torch(calibrator, dtype="float64")(torch.tensor(X)).softmax(-1)
    np.testing.assert_allclose(out, calibrator.predict_proba(X), atol=1e-12)
    assert (out[:, 0] > 0).tolist() == [True, False]


def test_masked_classes_of_a_matrix_give_nan(torch):
    calibrator, X = fitted(MatrixScaling(), 5)
    Z = torch.tensor(X[:4])
    Z[1, 2] = -torch.inf
    assert torch.isnan(to_torch(calibrator)(Z)).any(1).tolist() == [False, True, False, False]


def test_a_network_before_it_is_trained_and_the_calibrator_is_not(torch):
    calibrator, X = fitted(VectorScaling(), 5)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 5), to_torch(calibrator))
    model(torch.tensor(X, dtype=torch.float32)).logsumexp(1).sum().backward()
    trained = [p.grad is not None and bool(p.grad.any()) for p in model.parameters()]
    assert trained == [True, True] + [False] * (len(trained) - 2)
    assert len(trained) > 2


@pytest.mark.parametrize("calibrator", SUPPORTED, ids=repr)
def test_modules_are_saved_and_loaded(torch, calibrator):
    calibrator, X = fitted(calibrator, 5)
    module, Z = to_torch(calibrator), torch.tensor(X)
    other = to_torch(calibrator)
    for parameter in other.parameters():
        parameter.zero_()
    other.load_state_dict(module.state_dict())
    torch.testing.assert_close(other(Z), module(Z), rtol=0, atol=0)


def test_modules_run_in_half_precision(torch):
    calibrator, X = fitted(OrderPreservingScaling(), 5)
    X = X[:300]
    wanted = calibrator.predict_proba(X)
    for dtype in (torch.float16, torch.bfloat16):
        out = to_torch(calibrator).to(dtype)(torch.tensor(X, dtype=dtype))
        assert out.dtype == dtype
        np.testing.assert_allclose(np.exp(of_logits(out.float())), wanted, atol=0.05)
    assert to_torch(calibrator).double()(torch.tensor(X)).dtype == torch.float64


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("member", [SUPPORTED[0], SplineCalibration(), SUPPORTED[-2]], ids=repr)
def test_programs_are_exported_loaded_and_compiled(torch, member, tmp_path):
    """Programs, which need neither this library nor its dependencies, for any number of rows."""
    calibrator, X = fitted(member, 5)
    X = X.copy()
    X[::3, -1] = -np.inf if member in TAKE_MASKED else 0
    module, Z = to_torch(calibrator).eval(), torch.tensor(X, dtype=torch.float32)
    out, rows = module(Z), ({0: torch.export.Dim("rows")},)
    program = torch.export.export(module, (Z[:7],), dynamic_shapes=rows)
    torch.export.save(program, tmp_path / "program.pt2")
    loaded = torch.export.load(tmp_path / "program.pt2").module()
    torch.testing.assert_close(loaded(Z), out, equal_nan=True)
    # Compiled, the module and, as a single graph, its program, which has the same operations.
    for compiled in (
        torch.compile(module, backend="aot_eager"),
        torch.compile(loaded, backend="eager", fullgraph=True),
    ):
        torch.testing.assert_close(compiled(Z), out, equal_nan=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("member", SUPPORTED, ids=repr)
@pytest.mark.parametrize("width", [1, 3])
def test_traces_do_not_depend_on_the_rows_that_are_traced(torch, member, width):
    calibrator, X = fitted(member, width)
    module, Z = to_torch(calibrator), torch.tensor(X, dtype=torch.float32)
    traced = torch.jit.trace(module, Z[:7])
    if width > 1 and member in TAKE_MASKED:
        Z[::3, -1] = -torch.inf
    torch.testing.assert_close(traced(Z), module(Z), rtol=1e-6, atol=1e-6)


def test_logits_of_another_width_are_refused(torch):
    calibrator, _ = fitted(TemperatureScaling(), 5)
    with pytest.raises(ValueError, match="column"):
        to_torch(calibrator)(torch.zeros(3, 4))
    with pytest.raises(ValueError, match="column"):
        to_torch(calibrator)(torch.zeros(()))
    for kind in (torch.int64, torch.bool, torch.complex64):
        with pytest.raises(TypeError, match="floating-point"):
            to_torch(calibrator)(torch.zeros(3, 5, dtype=kind))


class Mine(TemperatureScaling):
    """A calibrator of somebody else."""

    def _calibrate(self, Z):
        return super()._calibrate(Z) / 2


def test_classes_derived_from_calibrators_have_modules(torch):
    calibrator, X = fitted(Mine(), 5)
    out = to_torch(calibrator, dtype="float64")(torch.tensor(X))
    assert_close(of_logits(out), calibrator.predict_log_proba(X), 1e-6)


def test_fitted_values_can_be_trained(torch):
    for calibrator in (TemperatureScaling(), VectorScaling(), AutoCalibrator(CANDIDATES, cv=2)):
        made, X = fitted(calibrator, 5)
        module = to_torch(made).requires_grad_()
        module(torch.tensor(X[:9], dtype=torch.float32))[:, 0].sum().backward()
        grads = [p.grad.abs().sum() for p in module.parameters() if p.grad is not None]
        assert sum(grads) > 0
        names = {name.split(".")[-1] for name, _ in module.named_parameters()}
        assert "temperature_" in names
        assert not names & {"alphas_", "classes_", "loss_"}  # which outputs do not depend on


def test_calibrators_without_a_module_are_refused(torch):
    X, y = make_logits(100, 3, random_state=0)
    mixture = AutoCalibrator({"bins": HistogramBinning()}).fit(X, y)
    for wrong, error, words in [
        (HistogramBinning().fit(X, y), TypeError, "HistogramBinning .*to_onnx"),
        (EstimatorCalibration(GaussianNB()).fit(X, y), TypeError, "EstimatorCalibration"),
        (MultiLabelCalibrator().fit(X, X > 0), TypeError, "MultiLabelCalibrator"),
        (mixture, TypeError, "HistogramBinning"),
        (LogisticRegression().fit(X, y), TypeError, "fitted calibrator"),
        (TemperatureScaling(), NotFittedError, "not fitted"),
    ]:
        with pytest.raises(error, match=words):
            to_torch(wrong)
    with pytest.raises(ValueError, match="'int8'"):
        to_torch(TemperatureScaling().fit(X, y), dtype="int8")


def test_torch_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    X, y = make_logits(100, 3, random_state=0)
    with pytest.raises(ImportError, match="pip install"):
        to_torch(skcalib.TemperatureScaling().fit(X, y))
