"""Bad input: a sentence with the remedy, raised before anything is changed."""

import copy
from functools import cache

import numpy as np
import pytest
from families import CALIBRATORS
from sklearn import config_context

from skcalib.datasets import make_logits

OUTPUTS = ["transform", "predict_proba", "predict_log_proba", "predict"]
Z, Y = make_logits(120, 3, temperature=2.0, random_state=0)


def state(calibrator):
    return {name: id(value) for name, value in vars(calibrator).items()}


def refused(match, f, *args, of=None):
    before = state(of) if of else None
    with pytest.raises(ValueError, match=match) as caught:
        f(*args)
    assert str(caught.value).endswith(".")
    assert before is None or state(of) == before


@cache
def fitted_in(kind, lib):
    """The calibrator fitted to rows of a library; no test may change it, which they look at."""
    return kind().fit(lib.array(Z), Y)


@pytest.fixture(params=CALIBRATORS)
def kind(request):
    return request.param


def test_types(kind, lib):
    fitted = fitted_in(kind, lib)
    integers = lib.array(np.round(Z).astype(np.int64))
    for f in (lambda X: fitted.fit(X, Y), *(getattr(fitted, name) for name in OUTPUTS)):
        refused(r"float32 or float64 to stay in .*int64\. Convert it, ", f, integers, of=fitted)


@pytest.mark.parametrize("type_", ["float16", "bfloat16"])
def test_half_precision(kind, type_, torch_lib):
    fitted = fitted_in(kind, torch_lib)
    half = torch_lib.array(Z).to(getattr(torch_lib.xp, type_))
    for f in (lambda X: fitted.fit(X, Y), *(getattr(fitted, name) for name in OUTPUTS)):
        refused(rf"got torch\.{type_}\. Convert it, as by X\.to", f, half, of=fitted)


def test_other_library(kind, lib, strict):
    X = lib.array(Z)
    plain, on_device = kind().fit(Z, Y), fitted_in(kind, lib)
    for name in OUTPUTS:
        words = rf"{kind.__name__}\.{name}\(\) must use the same namespace and the same device"
        if name != "predict":  # which agrees where probabilities do, but for ties
            out = lib.numpy(getattr(plain, name)(X))
            np.testing.assert_allclose(out, getattr(plain, name)(Z), rtol=1e-6, atol=1e-9)
        refused(f"{words}.*copy.copy", getattr(on_device, name), Z, of=on_device)
        if lib.name != strict.name:
            refused(f"{words}.*Pass X as", getattr(on_device, name), strict.array(Z), of=on_device)
    np.testing.assert_allclose(copy.copy(on_device).predict_proba(Z), plain.predict_proba(Z), 1e-6)


def test_dispatch_off(kind, torch_lib):
    """NumPy out of tensors as it was, in the same precision; and NumPy's words for the others."""
    X = torch_lib.array(Z, "float32")
    fitted = kind().fit(X, Y)
    with config_context(array_api_dispatch=False):
        refused(r"with array_api_dispatch on", fitted.predict_proba, X, of=fitted)
        fitted.fit(X, torch_lib.array(Y))
        P = fitted.predict_proba(X)
        assert isinstance(P, np.ndarray)
        assert P.dtype == np.float32
        refused(r"as X\.detach\(\)\.float\(\)", fitted.predict_proba, X.bfloat16(), of=fitted)
        refused(r"as X\.detach\(\)", fitted.predict_proba, X.clone().requires_grad_(), of=fitted)
        refused(r"as X\.detach\(\)", fitted.fit, X.clone().requires_grad_(), Y, of=fitted)


def test_gradients(kind, torch_lib):
    """They pass through outputs, or are refused."""
    X = torch_lib.array(Z)
    fitted = fitted_in(kind, torch_lib)
    leaf = X.clone().requires_grad_()
    refused(r"X must not need gradients.*X\.detach\(\)", fitted.fit, leaf, Y, of=fitted)
    w = torch_lib.array(np.ones(len(Y))).requires_grad_()
    refused(r"sample_weight.*sample_weight\.detach\(\)", fitted.fit, X, Y, w, of=fitted)
    of_label = torch_lib.array(Y, "float64").requires_grad_()
    refused(r"y\.detach\(\)", fitted.fit, X, of_label, of=fitted)
    for name in OUTPUTS[:3]:
        try:
            output = getattr(fitted, name)(leaf)
        except ValueError as error:
            assert "X.detach()" in str(error)  # noqa: PT017
        else:
            leaf.grad = None
            (output * torch_lib.array(np.arange(3.0))).sum().backward()
            assert torch_lib.xp.isfinite(leaf.grad).all()
            assert (leaf.grad != 0).any()


def test_gradients_are_those_of_differences(kind, torch_lib):
    fitted = fitted_in(kind, torch_lib)
    leaf = torch_lib.array(Z[:2]).requires_grad_()
    try:
        assert torch_lib.xp.autograd.gradcheck(fitted.predict_proba, leaf, atol=1e-4)
    except ValueError as error:
        assert "X.detach()" in str(error)  # noqa: PT017


def test_dimensions(kind, lib):
    fitted = fitted_in(kind, lib)
    for f in (lambda X: fitted.fit(X, Y), *(getattr(fitted, name) for name in OUTPUTS)):
        refused("moveaxis", f, lib.array(Z[None]), of=fitted)
        refused("Reshape your data", f, lib.array(Z[:, 0]), of=fitted)
    for name in OUTPUTS:
        with pytest.raises(ValueError, match="0 sample"):
            getattr(fitted, name)(lib.array(Z[:0]))
        with pytest.raises(ValueError, match="features"):
            getattr(fitted, name)(lib.array(np.hstack([Z, Z])))
        with pytest.raises(ValueError, match="1 NaN"):
            getattr(fitted, name)(lib.array(np.where(Z == Z[3, 1], np.nan, Z)))


@pytest.mark.parametrize("learner", [k for k in CALIBRATORS if hasattr(k(), "partial_fit")])
def test_streams_are_of_numpy(learner, torch_lib):
    X = torch_lib.array(Z)
    words = r"partial_fit takes rows in memory, in arrays of NumPy, got "
    refused(words + "torch on cpu for a calibrator of NumPy", learner().partial_fit, X, Y)
    fitted = learner().fit(X, Y)
    refused(words + "NumPy for a calibrator of torch on cpu", fitted.partial_fit, Z, Y, of=fitted)
    moved = copy.copy(fitted).partial_fit(Z, Y)
    expected = learner().fit(Z, Y).partial_fit(Z, Y)
    np.testing.assert_allclose(moved.predict_proba(Z), expected.predict_proba(Z), rtol=1e-5)
