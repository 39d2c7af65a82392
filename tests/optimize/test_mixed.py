"""Mixtures with the uniform distribution, in log space, against arithmetic of many digits."""

import math
from fractions import Fraction

import numpy as np
import pytest
from families import both_columns
from hypothesis import given, strategies as st
from scipy.special import softmax

from skcalib import TemperatureScaling
from skcalib.datasets import make_logits

shares = st.floats(1e-300, 1, exclude_max=True)


def mixture(calibrator, share):
    """The calibrator with a temperature of 1 and this share of the uniform distribution."""
    calibrator.temperature_, calibrator.smoothing_ = 1.0, share
    return calibrator


def rows(columns, dtype=np.float64):
    Z, y = make_logits(200, max(columns, 2), temperature=2.0, random_state=0)
    return (Z if columns > 1 else Z[:, 1:] - Z[:, :1]).astype(dtype), y


ODDS = TemperatureScaling().fit(*rows(1))


@given(shares, st.floats(-700, 700))
def test_log_odds_of_a_mixture_are_exact_far_out_and_near_zero(share, z):
    """Both probabilities are exact, one next to 0 and the other next to 1."""
    mixed = float(mixture(ODDS, share).transform([[z]])[0, 0])
    p, e = Fraction(math.exp(-abs(z))), Fraction(share)
    larger = (1 - e) + e / 2 * (1 + p)
    smaller = (1 - e) * p + e / 2 * (1 + p)
    assert z == 0 or math.copysign(1, mixed) == math.copysign(1, z)
    if abs(z) > 1e-8:  # else exp(-abs(z)) has lost digits of z
        exact = float((larger - smaller) / smaller)
        assert abs(mixed) == pytest.approx(math.log1p(exact), rel=1e-7, abs=1e-300)
    else:
        assert mixed == pytest.approx((1 - share) * z, rel=1e-7, abs=1e-300)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("share", [0.0, 1e-9, 0.3])
@pytest.mark.parametrize("columns", [1, 2, 7])
@pytest.mark.parametrize("masked", [False, True])
def test_probabilities_of_a_mixture_are_the_softmax_of_its_logits(dtype, share, columns, masked):
    X, y = rows(columns, dtype)
    calibrator = mixture(TemperatureScaling().fit(X, y), share)
    if masked and columns > 1:
        X[::3, 1] = -np.inf
    before = X.copy()
    P, M = calibrator.predict_proba(X), both_columns(calibrator.transform(X))
    assert P.dtype == dtype
    np.testing.assert_allclose(P, softmax(M, axis=1), rtol=30 * np.finfo(dtype).eps)
    np.testing.assert_allclose(
        P, (1 - share) * softmax(both_columns(X), axis=1) + share * uniform(X), rtol=1e-4
    )
    assert np.array_equal(P == 0, np.isneginf(M))
    assert np.array_equal(X, before)


def uniform(X):
    possible = np.isfinite(both_columns(X))
    return possible / possible.sum(axis=1, keepdims=True)
