"""Checks of rows, labels and weights, one by one."""

from fractions import Fraction
from typing import Literal

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.utils import check_X_y

from skcalib import TemperatureScaling
from skcalib._validation import inputs
from skcalib._validation.labels import as_labels, encode
from skcalib.metrics import expected_calibration_error


def test_findings_add_up():
    one = inputs.Found(np.array([0, 2]), 3.0, like_probabilities=True)
    other = inputs.Found(np.array([1, 2]), 5.0, like_probabilities=False)
    total = one + other
    assert total.labels.tolist() == [0, 1, 2]
    assert total.weight == 8
    assert not total.like_probabilities
    assert (one + one).like_probabilities


@pytest.mark.parametrize("classes", [[0, 1, 2], [3, 1, 2], [-1, 0, 1], ["b", "a", "c"]])
def test_labels_become_places_in_the_list_of_classes(classes):
    classes = np.array(classes)
    y = np.tile(classes[[2, 0, 1]], 4)
    assert_array_equal(encode(y, classes), np.tile([2, 0, 1], 4))
    assert encode(y, classes).dtype == np.intp


def test_rows_that_are_no_probabilities_are_counted():
    P = np.full((5, 2), 0.5)
    inputs.check_probabilities(P)
    P[1] = [1.5, -0.5]
    P[3] = [0.5, 0.6]
    P[4] = np.nan
    with pytest.raises(ValueError, match=r"got 3 of 5 rows .* minimum -0.5, maximum 1.5 and sum 1"):
        inputs.check_probabilities(P)


def test_probabilities_of_any_type_are_floats_of_double_or_single_precision(rng):
    P = rng.dirichlet(np.ones(3), size=50).astype(np.float16)
    y = rng.integers(3, size=50)
    P = P / P.sum(axis=1, keepdims=True, dtype=np.float64)
    half = (P.astype(np.float16) / 1).astype(np.float16)
    assert expected_calibration_error(y, half) == expected_calibration_error(
        y, half.astype(np.float64)
    )
    assert expected_calibration_error([0, 1], [[1, 0], [0, 1]]) == 0


@pytest.mark.parametrize("value", [2, np.int8(2), np.uint64(2**63)])
def test_integers(value):
    inputs.check_integer("n_bins", value, least=2)


@pytest.mark.parametrize("value", [1, 2.0, True, np.True_, "2", None, np.array(2)])
def test_what_is_no_integer(value):
    with pytest.raises(ValueError, match=r"^n_bins must be an integer of at least 2, got "):
        inputs.check_integer("n_bins", value, least=2)


@pytest.mark.parametrize("value", [0.5, 1, np.float32(0.5), Fraction(1, 2), 10**400])
def test_real_numbers(value):
    inputs.check_real("min_proba", value)
    inputs.check_real("min_proba", value, closed=True)


@pytest.mark.parametrize("value", [-1, np.nan, np.inf, True, np.True_, "1", "auto", None, 1j])
@pytest.mark.parametrize("closed", [False, True])
def test_what_is_no_real_number(value, closed):
    with pytest.raises(
        ValueError, match=r"^min_proba must be a finite number (above|of at least) 0, got "
    ):
        inputs.check_real("min_proba", value, closed=closed)


def test_ends_of_intervals():
    inputs.check_real("min_proba", 0, closed=True)
    inputs.check_real("min_proba", 1 - 1e-16, high=1)
    for value, params in [
        (0, {}),
        (0, {"high": 1}),
        (1, {"high": 1}),
    ]:
        with pytest.raises(ValueError, match=f"got {value}"):
            inputs.check_real("min_proba", value, **params)


def test_a_number_or_an_option():
    inputs.check_real("min_proba", "auto", option="auto")
    with pytest.raises(
        ValueError, match=r"^min_proba must be 'auto' or a number between 0 and 1, got 'a'. T"
    ):
        inputs.check_real("min_proba", "a", high=1, option="auto", remedy="Try 0.5.")


@pytest.mark.parametrize("options", [Literal["a", "b"], ["a", "b"], {"a": 1, "b": 2}])
def test_options(options):
    inputs.check_option("strategy", "b", options)
    inputs.check_option("strategy", np.str_("b"), options)
    for value in ("c", None, ["a"], np.array(["a", "b"])):
        with pytest.raises(ValueError, match=r"^strategy must be one of 'a', 'b', got "):
            inputs.check_option("strategy", value, options)


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
def test_arrays_that_are_not_checked_are_what_scikit_learn_returns(rng, k):
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
