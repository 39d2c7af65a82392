"""Mixtures with the uniform distribution, in log space, against arithmetic of many digits."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.special import softmax

from skcalib._rows.arrays import mix_logits, mixed_probabilities
from skcalib.datasets import make_logits

shares = st.floats(1e-300, 1, exclude_max=True)


@given(shares, st.floats(-700, 700))
def test_log_odds_far_out_and_near_zero(smoothing, z):
    """Both probabilities are exact, one next to 0 and the other next to 1."""
    mixed = float(mix_logits(np.array([[z]]), smoothing)[0, 0])
    p, e = Fraction(math.exp(-abs(z))), Fraction(smoothing)
    larger = (1 - e) + e / 2 * (1 + p)
    smaller = (1 - e) * p + e / 2 * (1 + p)
    assert z == 0 or math.copysign(1, mixed) == math.copysign(1, z)
    if abs(z) > 1e-8:  # else exp(-abs(z)) has lost digits of z
        exact = float((larger - smaller) / smaller)
        assert abs(mixed) == pytest.approx(math.log1p(exact), rel=1e-7, abs=1e-300)
    else:
        assert mixed == pytest.approx((1 - smoothing) * z, rel=1e-7, abs=1e-300)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("smoothing", [0.0, 1e-9, 0.3])
@pytest.mark.parametrize("columns", [1, 2, 7])
@pytest.mark.parametrize("masked", [False, True])
def test_probabilities_match_the_logits(dtype, smoothing, columns, masked):
    L = make_logits(200, 7, random_state=0)[0].astype(dtype)[:, :columns]
    if masked and columns > 1:
        L[::3, 1] = -np.inf
    before = L.copy()
    P, M = mixed_probabilities(L, smoothing), mix_logits(L, smoothing)
    both = M if columns > 1 else np.hstack([np.zeros_like(M), M])
    assert P.dtype == dtype
    np.testing.assert_allclose(P, softmax(both, axis=1), rtol=30 * np.finfo(dtype).eps)
    assert np.array_equal(P == 0, np.isneginf(both))
    assert np.array_equal(L, before)
