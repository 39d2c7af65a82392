"""Checks of rows, labels and weights, one by one."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.utils import check_X_y

from skcalib import TemperatureScaling
from skcalib._validation import inputs
from skcalib._validation.labels import as_labels


def _data(Z, y):
    return [
        (Z, y),
        (Z.astype(np.float32), y.astype(np.int8)),
        (np.asfortranarray(Z), y.astype(str)),
        (Z[::-1, ::2], y > 0),
        (Z.astype(">f8"), y),
        (Z.astype(int), y),
        (Z.astype(np.float16), y.astype(object)),
        (Z.tolist(), y.tolist()),
        (Z.astype(np.longdouble), y.astype(float)),
    ]


@pytest.mark.parametrize("k", range(9))
def test_unchecked_arrays_match_checks_of_scikit_learn(rng, k):
    Z, y = _data(rng.normal(size=(20, 4)), rng.integers(0, 3, size=20))[k]
    (found, labels, w), _ = inputs.check_rows(np.asarray(Z), np.asarray(y), None)
    wanted = check_X_y(Z, as_labels(y), dtype=[np.float64, np.float32])
    assert found.dtype == wanted[0].dtype
    assert_array_equal(found, wanted[0])
    assert_array_equal(labels, wanted[1])
    assert w is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda Z, y: (np.matrix(Z), y), "np.matrix is not supported"),
        (lambda Z, y: (Z + 0j, y), "Complex data not supported"),
        (lambda Z, y: (Z, y[:-1]), "inconsistent numbers of samples"),
        (lambda Z, y: (Z[:0], y[:0]), r"Found array with 0 sample\(s\)"),
        (lambda Z, y: (Z[:, :0], y), r"0 feature\(s\)"),
        (lambda Z, y: (Z, np.where(y, np.inf, 0.0)), "Input y contains infinity"),
        (lambda Z, y: (Z, y + 0j), "Complex data not supported"),
    ],
)
@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_scikit_learn_checks_all_other_arrays(rng, change, message):
    Z, y = change(rng.normal(size=(20, 2)), rng.integers(0, 2, size=20))
    with pytest.raises((ValueError, TypeError), match=message):
        TemperatureScaling().fit(Z, y)


@pytest.mark.parametrize("n", [3, 200])
def test_probabilities_in_all_rows_only(rng, n):
    P = rng.dirichlet([1, 1, 1], size=n)
    assert inputs.are_probabilities(P)
    for row in (0, n - 1):
        for values in ([-0.1, 0.6, 0.5], [0.5, 0.6, 0.5]):
            Z = P.copy()
            Z[row] = values
            assert not inputs.are_probabilities(Z)
