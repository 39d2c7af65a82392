"""Results of monitors equal results of the measures on all rows, for any batches."""

import copy
import dataclasses
import pickle
from itertools import pairwise

import numpy as np
import pytest
from families import of_case
from hypothesis import given, strategies as st

from skcalib import metrics
from skcalib.export import from_json, to_json
from skcalib.metrics import reliability_curve
from skcalib.monitor import CalibrationMonitor

MEASURES = [
    "expected_calibration_error",
    "maximum_calibration_error",
    "root_mean_squared_calibration_error",
]
KINDS = ["top-label", "classwise", "binary"]
NAMES = np.array(["sheep", "ant", "zebra", "bee"])  # not in sorted order


@st.composite
def batched(draw):
    """Arguments of a monitor, rows with ties and extremes, and where batches begin."""
    kind, n = draw(st.sampled_from(KINDS)), draw(st.integers(1, 60))
    K = 2 if kind == "binary" else draw(st.integers(2, 4))
    starts = draw(st.lists(st.integers(1, n - 1), unique=True)) if n > 1 else []
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    P = rng.dirichlet([draw(st.sampled_from([0.05, 1.0]))] * K, size=n)
    if draw(st.booleans()):
        P = rng.multinomial(20, [1 / K] * K, size=n) / 20  # on the edges of bins
    P = P.astype(draw(st.sampled_from([np.float64, np.float32])))
    w = None
    if draw(st.booleans()):
        w = rng.choice([0.0, 0.5, 1.0, 2.0], size=n)
        w[[0, *starts]] += 1  # a batch without any weight is an error
    pos_label = draw(st.sampled_from([None, *NAMES[:K]]))
    if K == 2 and draw(st.booleans()):
        P = P[:, 1]
    arguments = {
        "n_bins": draw(st.integers(1, 20)), "kind": kind, "labels": NAMES[:K],
        "pos_label": pos_label,
    }  # fmt: skip
    # Batches lack classes: labels come in runs.
    y = np.sort(rng.integers(K, size=n)) if draw(st.booleans()) else rng.integers(K, size=n)
    return arguments, (NAMES[y], P, w), [0, *sorted(starts), n]


def batches(rows, edges):
    for start, stop in pairwise(edges):
        yield [None if a is None else a[start:stop] for a in rows]


def assert_same_curve(got, expected):
    for name, values in vars(expected).items():
        found = getattr(got, name)
        if values is None or np.asarray(values).dtype.kind == "U":
            assert np.array_equal(found, values)
        else:
            assert found.dtype == np.float64
            np.testing.assert_allclose(found, values, rtol=1e-12, atol=1e-14)


def in_order(curve, labels):
    """The curve with its classes in the order of the labels."""
    if curve.label is None:
        return curve
    order = np.concatenate([np.flatnonzero(curve.label == label) for label in labels])
    arrays = {
        name: values[order]
        for name, values in vars(curve).items()
        if isinstance(values, np.ndarray)
    }
    return dataclasses.replace(curve, **arrays)


def assert_as_at_once(monitor, rows, arguments):
    y, P, w = rows
    kwargs = arguments | {"sample_weight": w}
    expected = in_order(reliability_curve(y, P, **kwargs), arguments["labels"])
    assert_same_curve(monitor.curve(), expected)
    for name in MEASURES:
        value = monitor.measure(name)
        assert type(value) is float
        assert value == pytest.approx(getattr(metrics, name)(y, P, **kwargs), abs=1e-12)
    assert monitor.n_samples_ == (len(y) if w is None else np.count_nonzero(w))


@pytest.mark.slow
@given(data=batched())
def test_batches_are_all_rows_at_once(data):
    arguments, rows, edges = data
    monitor = CalibrationMonitor(**arguments)
    for batch in batches(rows, edges):
        assert monitor.update(*batch) is monitor
    assert_as_at_once(monitor, rows, arguments)


@pytest.mark.parametrize("kind", KINDS)
def test_counts_and_weights_that_are_exact_add_up_exactly(kind, rng):
    """Integers and halves have no rounding, so not a bit may differ."""
    y, P = rng.integers(2, size=500), rng.integers(0, 65, size=500) / 64
    w = rng.integers(1, 5, size=500) / 2
    monitor = CalibrationMonitor(kind=kind, labels=[0, 1], n_bins=16)
    for rows in np.array_split(rng.permutation(500), 7):
        monitor.update(y[rows], P[rows], w[rows])
    expected = reliability_curve(y, P, kind=kind, sample_weight=w, n_bins=16)
    for name, values in vars(expected).items():
        assert np.array_equal(getattr(monitor.curve(), name), values), name


@pytest.mark.parametrize("kind", KINDS)
def test_bins_may_have_given_edges(kind, rng):
    edges = [0, 0.1, 0.5, 0.9, 1]
    y, P = NAMES[rng.integers(2, size=500)], rng.uniform(size=500)
    monitor = CalibrationMonitor(NAMES[:2], kind=kind, n_bins=edges)
    for rows in np.array_split(np.arange(500), 3):
        monitor.update(y[rows], P[rows])
    rows = {"n_bins": edges, "kind": kind, "labels": NAMES[:2]}
    assert_as_at_once(monitor, (y, P, None), rows)
    assert monitor.n_bins == 4
    assert repr(from_json(to_json(monitor))) == repr(monitor)
    same = [CalibrationMonitor(NAMES[:2], n_bins=n) for n in (6, np.linspace(0, 1, 7))]
    assert same[0].update(y, P).e_value_ == same[1].update(y, P).e_value_


@pytest.mark.parametrize("n_bins", ["cube_root", "auto", [0.1, 0.5], [0, 0.7, 0.5, 1], 0, 2.5])
def test_bins_that_change_with_the_rows_are_refused(n_bins):
    with pytest.raises((ValueError, TypeError), match="n_bins"):
        CalibrationMonitor([0, 1], n_bins=n_bins)


@pytest.mark.parametrize("kind", ["top-label", "classwise"])
def test_classes_in_the_order_of_labels(kind):
    """One-dimensional probabilities may belong to the first label."""
    both = np.array([[0.9, 0.1], [0.3, 0.7], [0.8, 0.2]])
    y = ["yes", "no", "no"]
    arguments = {"kind": kind, "labels": ["yes", "no"], "pos_label": "yes"}
    mixed = CalibrationMonitor(**arguments).update(y[:2], both[:2, 0]).update(y[2:], both[2:])
    plain = CalibrationMonitor(**arguments).update(y, both)
    assert_same_curve(mixed.curve(), plain.curve())
    if kind == "classwise":
        assert plain.curve().label.tolist() == ["yes"] * 3 + ["no"] * 3


def test_a_batch_without_rows_changes_nothing(rng):
    y, P = rng.integers(2, size=60), rng.dirichlet([1, 1], size=60)
    monitor = CalibrationMonitor([0, 1]).update(y, P)
    before = monitor.measure(MEASURES[0])
    assert monitor.update(y[:0], P[:0]).update([], []).n_samples_ == 60
    assert monitor.measure(MEASURES[0]) == before


def test_rows_of_weight_zero_are_absent(rng):
    y, p, w = rng.integers(2, size=60), rng.uniform(size=60), np.repeat([1.0, 0.0], 30)
    monitor = CalibrationMonitor([0, 1]).update(y, p, w)
    assert monitor.n_samples_ == 30
    part = CalibrationMonitor([0, 1]).update(y[:30], p[:30])
    assert monitor.measure(MEASURES[0]) == part.measure(MEASURES[0])
    # Labels of rows without weight may be unknown.
    monitor.update([0, 7], [0.5, 0.5], [1, 0])


# --------------------------------------------------------------------------------------
# State.


@pytest.mark.parametrize("kind", KINDS)
def test_state_does_not_grow(kind, rng):
    def size(monitor):
        return sum(a.nbytes for a in vars(monitor).values() if isinstance(a, np.ndarray))

    monitor = CalibrationMonitor(kind=kind, labels=[0, 1])
    names, before = set(vars(monitor)), size(monitor)
    for n in (1, 10, 10_000):
        monitor.update(rng.integers(2, size=n), rng.uniform(size=n), rng.uniform(size=n))
        monitor.curve()
        assert set(vars(monitor)) == names
        assert size(monitor) == before


def test_reset_forgets_all_rows():
    monitor = CalibrationMonitor([0, 1]).update([0, 1], [0.9, 0.2])
    assert monitor.reset() is monitor
    assert monitor.n_samples_ == 0
    assert monitor.update([0, 1], [0.1, 0.7]).measure(MEASURES[0]) == pytest.approx(0.2)


def test_copies_are_independent():
    labels = np.array([0, 1])
    monitor = CalibrationMonitor(labels).update([0, 1], [0.1, 0.7])
    before = pickle.dumps(monitor)
    assert copy.copy(monitor).update([0], [0.99]).n_samples_ == 3
    assert pickle.dumps(monitor) == before
    labels[:] = 7
    assert monitor.labels.tolist() == [0, 1]


# --------------------------------------------------------------------------------------
# Errors.

BAD_ARGUMENTS = {
    "no labels": ({"labels": None}, "None"),
    "one label": ({"labels": ["a"]}, "two labels"),
    "a table": ({"labels": [[0, 1], [2, 3]]}, "distinct"),
    "twice": ({"labels": [0, 1, 1]}, "distinct"),
    "binary of three": ({"kind": "binary", "labels": [0, 1, 2]}, "two classes, got 3"),
}


@pytest.mark.parametrize("case", BAD_ARGUMENTS)
def test_bad_arguments_are_refused(case):
    change, message = BAD_ARGUMENTS[case]
    with pytest.raises(ValueError, match=message):
        CalibrationMonitor(**({"labels": [0, 1]} | change))


GOOD = {"y_true": [0, 1, 1], "y_proba": [[0.5, 0.5], [0.2, 0.8], [0.9, 0.1]]}
BAD_BATCHES = {
    "above one": ({"y_proba": [0.5, 1.5, 0.1]}, "1.5"),
    "logits": ({"y_proba": [[5, -5], [3, 1], [0.9, 0.1]]}, "logits"),
    "one column": ({"y_proba": [[0.5], [0.6], [0.1]]}, "one column per class"),
    "three columns": ({"y_proba": np.full((3, 3), 1 / 3)}, "3 columns"),
    "lengths": ({"y_true": [0, 1]}, "inconsistent"),
    "unknown label": ({"y_true": [0, 1, 2]}, "got 2"),
    "negative weight": ({"sample_weight": [1, 1, -1]}, "weight of -1"),
    "no weight": ({"sample_weight": [0, 0, 0]}, "zero"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_bad_batch_is_refused_and_leaves_the_monitor_unchanged(kind):
    monitor = CalibrationMonitor(kind=kind, labels=[0, 1]).update(**GOOD)
    before = pickle.dumps(monitor)
    for case, (change, message) in BAD_BATCHES.items():
        with of_case(case), pytest.raises(ValueError, match=message) as ours:
            monitor.update(**(GOOD | change))
        assert pickle.dumps(monitor) == before
        with of_case(case), pytest.raises(ValueError, match=message) as theirs:
            reliability_curve(**(GOOD | change), kind=kind, labels=[0, 1])
        assert str(ours.value) == str(theirs.value)


def test_measures_before_any_row_and_of_other_names_are_refused():
    monitor = CalibrationMonitor([0, 1])
    for result in (monitor.curve, lambda: monitor.measure(MEASURES[0])):
        with pytest.raises(ValueError, match="samples"):
            result()
    with pytest.raises(ValueError, match="'expected_calibration_error'"):
        monitor.update([0, 1], [0.1, 0.7]).measure("ece")
