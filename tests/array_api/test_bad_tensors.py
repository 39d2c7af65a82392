"""Bad tensors are refused before anything is changed, and gradients pass through outputs."""

from functools import cache

import numpy as np
import pytest
from families import CALIBRATORS

from skcalib.datasets import make_logits

OUTPUTS = ["transform", "predict_proba", "predict_log_proba", "predict"]
Z, Y = make_logits(120, 3, temperature=2.0, random_state=0)


@cache
def fitted(kind):
    """The fitted calibrator, which no test may change."""
    return kind().fit(Z, Y)


@pytest.fixture(params=CALIBRATORS)
def kind(request):
    return request.param


def test_bad_tensors_are_refused_with_a_remedy(kind, lib, torch_lib):
    found = fitted(kind)
    before = {name: id(value) for name, value in vars(found).items()}
    wrong = {
        "Convert": [lib.array(np.round(Z).astype(np.int64)), torch_lib.array(Z).bfloat16()],
        "moveaxis": [lib.array(Z[None])],
        "0 sample": [lib.array(Z[:0])],
        "features": [lib.array(np.hstack([Z, Z]))],
        "1 NaN": [lib.array(np.where(Z == Z[3, 1], np.nan, Z))],
    }
    for word, tensors in wrong.items():
        for X in tensors:
            for name in OUTPUTS:
                with pytest.raises(ValueError, match=word):
                    getattr(found, name)(X)
    with pytest.raises(ValueError, match="moveaxis"):
        found.fit(lib.array(Z[None]), Y)
    assert {name: id(value) for name, value in vars(found).items()} == before


def test_fits_ignore_gradients(kind, torch_lib):
    leaf = torch_lib.array(Z).requires_grad_()
    P = kind().fit(leaf, torch_lib.array(Y)).predict_proba(Z)
    np.testing.assert_allclose(P, fitted(kind).predict_proba(Z), rtol=0, atol=1e-9)


def test_gradients_match_differences_or_are_refused(kind, torch_lib):
    """Also if a class is masked, or probabilities are tied."""
    rows = Z[:3].copy()
    rows[0] = 0.5
    if kind._takes_masked:
        rows[1, 2] = -np.inf
    calibrator = fitted(kind)
    for name in OUTPUTS[1:3] if kind._takes_masked else OUTPUTS[:3]:
        leaf = torch_lib.array(rows).requires_grad_()
        try:
            output = getattr(calibrator, name)(leaf)
        except ValueError as error:
            assert "X.detach()" in str(error)  # noqa: PT017
            continue
        output[:, 0].sum().backward()
        step = 1e-6 * np.array([1.0, -1.0, 0.0])
        up, down = (getattr(calibrator, name)(rows + s)[:, 0] for s in (step, -step))
        slope = torch_lib.numpy(leaf.grad[:, 0] - leaf.grad[:, 1])
        np.testing.assert_allclose(slope[1:], ((up - down) / 2e-6)[1:], atol=1e-4)
        assert np.isfinite(torch_lib.numpy(leaf.grad)).all()
