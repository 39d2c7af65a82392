"""Tensors without scikit-learn's ``array_api_dispatch``: they are converted to NumPy arrays."""

import numpy as np
import pytest
from families import CALIBRATORS

from skcalib.datasets import make_logits

torch = pytest.importorskip("torch", reason="torch is not installed")

Z, Y = make_logits(160, 3, temperature=2.0, random_state=1)
Z = Z.astype(np.float32)


@pytest.mark.parametrize("kind", CALIBRATORS)
def test_tensors_are_converted(kind):
    w = np.arange(160.0)
    X = torch.tensor(Z, requires_grad=True)
    found = kind().fit(X, torch.tensor(Y), torch.tensor(w, requires_grad=True))
    want = kind().fit(Z, Y, w)
    for method in ("transform", "predict_proba", "predict_log_proba", "predict"):
        output = getattr(found, method)(X)
        assert type(output) is np.ndarray
        np.testing.assert_array_equal(output, getattr(want, method)(Z))


def test_types_that_numpy_lacks_are_refused():
    with pytest.raises(ValueError, match=r"X\.detach"):
        CALIBRATORS[0]().fit(torch.tensor(Z).bfloat16(), Y)
