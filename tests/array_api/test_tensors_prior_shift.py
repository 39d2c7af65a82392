"""Priors estimated from tensors: the same, and what they shift stays where it is."""

import numpy as np
import pytest

from skcalib import PriorShift
from skcalib.datasets import make_logits

Z, Y = make_logits(600, 3, random_state=0)


@pytest.mark.parametrize("method", ["em", "bbse"])
def test_adapt_to_tensors(method, lib):
    new = Z[Y != 1]
    want = PriorShift(method=method).fit(Z, Y).adapt(new)
    found = PriorShift(method=method).fit(lib.array(Z), Y).adapt(lib.array(new))
    for name in ("priors_", "standard_errors_", "log_ratios_"):
        np.testing.assert_allclose(lib.numpy(getattr(found, name)), getattr(want, name), rtol=1e-6)
    calibrated = lib.numpy(found.transform(lib.array(new)))
    np.testing.assert_allclose(calibrated, want.transform(new), rtol=1e-6)
    again = PriorShift(method=method).fit(Z, Y).adapt(lib.array(new))
    np.testing.assert_allclose(again.priors_, want.priors_, rtol=1e-6)
