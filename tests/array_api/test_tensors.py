"""Laws of all calibrators that are given arrays of other libraries than NumPy."""

import numpy as np
import pytest
from families import CALIBRATORS

from skcalib.datasets import make_logits


@pytest.mark.parametrize("kind", CALIBRATORS)
def test_outputs_follow_the_logits(kind, lib, dtype):
    Z, y = make_logits(300, 3, temperature=2.0, random_state=0)
    Z = Z.astype(dtype)
    want = kind().fit(Z, y).predict_proba(Z)
    X = lib.array(Z)
    found = kind().fit(X, lib.array(y)).predict_proba(X)
    assert found.dtype == X.dtype
    atol = 1e-6 if dtype == "float32" else 1e-9
    np.testing.assert_allclose(lib.numpy(found), want, atol=atol)
