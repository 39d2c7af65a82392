"""Bad input: a sentence with the remedy, raised before anything is changed."""

from functools import cache

import numpy as np
import pytest
from families import CALIBRATORS

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
def fitted(kind):
    """The fitted calibrator, which no test may change: they look at that."""
    return kind().fit(Z, Y)


@pytest.fixture(params=CALIBRATORS)
def kind(request):
    return request.param


@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs_of_other_types_are_refused(kind, name, lib, torch_lib):
    integers = lib.array(np.round(Z).astype(np.int64))
    f = getattr(fitted(kind), name)
    refused(r"float32 or float64 to stay in .*int64\. Convert it, ", f, integers, of=fitted(kind))
    half = torch_lib.array(Z).bfloat16()
    refused(r"got torch\.bfloat16\. Convert it, as by X\.to", f, half, of=fitted(kind))


def test_fits_ignore_gradients(kind, torch_lib):
    leaf = torch_lib.array(Z).requires_grad_()
    P = kind().fit(leaf, torch_lib.array(Y)).predict_proba(Z)
    np.testing.assert_allclose(P, fitted(kind).predict_proba(Z), rtol=0, atol=1e-9)


def test_gradients_pass_through_outputs_or_are_refused(kind, torch_lib):
    leaf = torch_lib.array(Z).requires_grad_()
    for name in OUTPUTS[:3]:
        try:
            output = getattr(fitted(kind), name)(leaf)
        except ValueError as error:
            assert "X.detach()" in str(error)  # noqa: PT017
        else:
            leaf.grad = None
            (output * torch_lib.array(np.arange(3.0))).sum().backward()
            assert torch_lib.xp.isfinite(leaf.grad).all()
            assert (leaf.grad != 0).any()


def test_gradients_match_differences(kind, torch_lib):
    leaf = torch_lib.array(Z[:2]).requires_grad_()
    try:
        assert torch_lib.xp.autograd.gradcheck(fitted(kind).predict_proba, leaf, atol=1e-4)
    except ValueError as error:
        assert "X.detach()" in str(error)  # noqa: PT017


def test_dimensions(kind, lib):
    found = fitted(kind)
    for f in (lambda X: found.fit(X, Y), *(getattr(found, name) for name in OUTPUTS)):
        refused("moveaxis", f, lib.array(Z[None]), of=found)
    for name in OUTPUTS:
        with pytest.raises(ValueError, match="0 sample"):
            getattr(found, name)(lib.array(Z[:0]))
        with pytest.raises(ValueError, match="features"):
            getattr(found, name)(lib.array(np.hstack([Z, Z])))
        with pytest.raises(ValueError, match="1 NaN"):
            getattr(found, name)(lib.array(np.where(Z == Z[3, 1], np.nan, Z)))
