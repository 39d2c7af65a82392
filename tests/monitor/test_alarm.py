"""Sequential tests: expected capital by enumeration, false alarms and delays by simulation."""

import copy
import itertools
import pickle

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import binom, kstest

import skcalib.monitor._drift as _drift
from skcalib.datasets import make_logits
from skcalib.monitor import CalibrationMonitor, DriftMonitor

P = np.array([[0.7, 0.2, 0.1], [0.7, 0.1, 0.2], [0.25, 0.5, 0.25], [0.1, 0.2, 0.7]])


def in_batches(monitor, size, *rows):
    """The monitor, updated with so many rows at a time."""
    for start in range(0, len(rows[0]), size):
        monitor.update(*(each[start : start + size] for each in rows))
    return monitor


def mean_over_labels(e_value, rows=P):
    """Of all labels of the rows, with their probabilities."""
    n_classes = rows.shape[1]
    total = 0.0
    for y in itertools.product(range(n_classes), repeat=len(rows)):
        total += np.prod(rows[np.arange(len(rows)), list(y)]) * e_value(np.array(y))
    return total


@pytest.mark.parametrize("kind", ["top-label", "classwise", "binary"])
@pytest.mark.parametrize("edges", [[0, 4], [0, 1, 3, 4]])
def test_the_expected_e_value_is_one_for_any_batches(kind, edges):
    rows = P[:, :2] / P[:, :2].sum(axis=1, keepdims=True) if kind == "binary" else P
    labels = range(rows.shape[1])

    def after_batches(y):
        monitor = CalibrationMonitor(kind=kind, labels=labels, n_bins=100)
        for start, stop in itertools.pairwise(edges):
            monitor.update(y[start:stop], rows[start:stop])
        return monitor.e_value

    assert mean_over_labels(after_batches, rows) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("weights", [[1, 0.5, 0.25, 1], [1, 1e-3, 0.9, 0.2]])
def test_weights_do_not_increase_it(weights):
    p = np.array([0.07, 0.3, 0.4, 0.9])

    def after_a_batch(y):
        return CalibrationMonitor(labels=[0, 1], kind="binary").update(y, p, weights).e_value

    assert mean_over_labels(after_a_batch, np.column_stack([1 - p, p])) <= 1 + 1e-12


@pytest.mark.parametrize("off", [-0.1, 0.1])
def test_a_gap_as_large_as_the_tolerance_is_no_evidence(off):
    """In the mean over the numbers of events among rows of one probability."""
    n, p = 60, 0.6

    def mean_with(tolerance):
        total = 0.0
        for k, chance in enumerate(binom.pmf(np.arange(n + 1), n, p + off)):
            monitor = CalibrationMonitor(kind="binary", labels=[0, 1], tolerance=tolerance)
            total += chance * monitor.update(np.arange(n) < k, np.full(n, p)).e_value
        return total

    assert mean_with(0.1) <= 1 + 1e-12
    assert mean_with(0.09) < mean_with(0.05) > 1.01


def test_the_expected_e_value_of_a_sum_is_one():
    def of_sum(y):
        first, second = (CalibrationMonitor(labels=range(3)) for _ in range(2))
        return (first.update(y[:2], P[:2]) + second.update(y[2:], P[2:])).e_value

    assert mean_over_labels(of_sum) == pytest.approx(1, abs=1e-12)


def over_confident(n, temperature=2.0, seed=0):
    logits, y = make_logits(n, 3, temperature=temperature, random_state=seed)
    return y, softmax(logits, axis=1)


def test_weights_are_relative_to_the_largest_one():
    y, proba = over_confident(60)
    w = np.random.default_rng(0).uniform(0.1, 1, size=60)
    w[7] = 1
    values = [
        CalibrationMonitor(labels=range(3)).update(y, proba, sample_weight).e_value
        for sample_weight in (w, 5 * w, None, np.full(60, 2.0))
    ]
    assert values[0] == pytest.approx(values[1]) != pytest.approx(values[2])
    assert values[2] == pytest.approx(values[3])


def test_an_alarm_stays_raised():
    monitor = CalibrationMonitor(labels=range(3))
    assert (monitor.e_value, monitor.p_value, monitor.alarm) == (1, 1, False)
    assert monitor.n_samples_at_alarm is None
    in_batches(monitor, 100, *over_confident(3000))
    assert monitor.alarm
    assert 100 <= monitor.n_samples_at_alarm <= 600
    assert "n_samples=3000, alarm=True)" in repr(monitor)
    largest, at = monitor.p_value, monitor.n_samples_at_alarm
    assert largest < 1e-20
    assert largest == pytest.approx(1 / monitor.e_value)
    y, proba = make_logits(20_000, 3, return_proba=True, random_state=1)[1:]
    monitor.update(y, proba)
    assert monitor.e_value < 1 / largest
    assert (monitor.p_value, monitor.n_samples_at_alarm) == (largest, at)
    assert not monitor.reset().alarm
    assert monitor.e_value == 1


def test_strong_evidence_neither_overflows_nor_warns():
    monitor = CalibrationMonitor(kind="binary", labels=[0, 1])
    for _ in range(3):
        monitor.update(np.zeros(5000, int), np.ones(5000))
    assert 1e100 < monitor.e_value < np.inf
    assert 1e100 < (monitor + monitor).e_value < np.inf
    assert 0 < monitor.p_value < 1e-100


def test_sums_begin_anew_and_empty_monitors_add_nothing():
    y, proba = over_confident(400)
    first, second, empty = (CalibrationMonitor(labels=range(3)) for _ in range(3))
    first.update(y[:205], proba[:205])
    second.update(y[205:], proba[205:])
    total = first + second
    assert total.e_value > max(first.e_value, second.e_value)
    assert total.n_samples_at_alarm == 400
    assert (second + first).e_value == pytest.approx(total.e_value)
    assert (first + empty).e_value == pytest.approx(first.e_value)
    assert (empty + empty).e_value == 1


def alarms(n_lives, n_rows, batch, kind="top-label", n_classes=3, **arguments):
    """Number of lives of a calibrated model with an alarm."""
    found = 0
    for seed in range(n_lives):
        rng = np.random.default_rng(seed)
        monitor = CalibrationMonitor(labels=range(n_classes), kind=kind, **arguments)
        for _ in range(0, n_rows, batch):
            proba = softmax(2 * rng.normal(size=(batch, n_classes)), axis=1)
            y = (proba.cumsum(axis=1)[:, :-1] <= rng.uniform(size=(batch, 1))).sum(axis=1)
            monitor.update(y, proba)
        found += monitor.alarm
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "batch", "n_batches"),
    [("top-label", 1000, 100), ("classwise", 10, 300), ("binary", 10, 300)],
)
def test_false_alarms_over_long_lives(kind, batch, n_batches):
    """The rate is far below 5 %; benchmarks/simulate_monitoring.py has longer lives."""
    n_classes = 2 if kind == "binary" else 4
    assert alarms(25, n_batches * batch, batch, kind, n_classes) <= 2


@pytest.mark.parametrize("level", [0, 1, -0.1, np.nan, "0.05", None, True], ids=repr)
def test_bad_levels(level):
    for make in (lambda a: CalibrationMonitor(labels=[0, 1], **a), lambda a: DriftMonitor(P, **a)):
        with pytest.raises(ValueError, match="alarm_level must be a number between 0 and 1"):
            make({"alarm_level": level})


@pytest.mark.parametrize("tolerance", [-0.1, 1, np.nan, "no", None])
def test_bad_tolerances(tolerance):
    with pytest.raises(ValueError, match="tolerance must be a number of at least 0 and below 1"):
        CalibrationMonitor(labels=[0, 1], tolerance=tolerance)


@pytest.mark.parametrize(("tolerance", "expected"), [(0.0, True), (0.01, True), (0.05, False)])
def test_a_tolerance_is_no_reason_for_an_alarm(tolerance, expected, rng):
    y = (rng.uniform(size=50_000) < 0.57).astype(int)
    monitor = CalibrationMonitor(kind="binary", labels=[0, 1], tolerance=tolerance)
    assert monitor.update(y, np.full(50_000, 0.6)).alarm is expected


# --------------------------------------------------------------------------------------
# Drift of the predictions.


@pytest.mark.parametrize("bag", [[0, 1, 2, 3], [0, 0, 2, 2], [1, 1, 1, 1], [3, 0, 3, 3, 1]])
def test_relative_ranks_are_uniform_for_any_sample(bag):
    """Over all orders of the rows, of which the last two are ranked; also both together."""
    grid, joint, n = np.linspace(0, 1, 11), 0, 0
    for order in itertools.permutations(bag):
        counts = np.bincount(order[:-2], minlength=4)
        new = np.array(order[-2:])
        ends = [_drift.relative_ranks(new, counts, np.full(2, u)) for u in (0.0, 1.0)]
        below = np.clip((grid[:, None] - ends[0]) / (ends[1] - ends[0]), 0, 1)
        joint, n = joint + below[:, None, 0] * below[None, :, 1], n + 1
    np.testing.assert_allclose(joint / n, grid[:, None] * grid, atol=1e-12)


@pytest.mark.parametrize("kind", ["top-label", "classwise", "binary"])
def test_drift_of_predictions(kind):
    def proba(n, scale, seed):
        n_classes = 2 if kind == "binary" else 3
        return softmax(scale * np.random.default_rng(seed).normal(size=(n, n_classes)), axis=1)

    monitor = DriftMonitor(proba(1000, 2, 0), kind=kind)
    in_batches(monitor, 100, proba(1000, 2, 1))
    assert not monitor.alarm
    assert 0.01 < monitor.e_value < 10
    in_batches(monitor, 100, proba(1000, 4, 100))
    assert 1000 < monitor.n_samples_at_alarm <= 1500
    assert monitor.n_samples == 2000
    assert repr(monitor) == f"DriftMonitor(kind={kind!r}, n_samples=2000, alarm=True)"
    rows, new = proba(300, 3, 7), DriftMonitor(proba(1000, 2, 0), kind=kind)
    assert not monitor.reset().alarm
    assert monitor.update(rows).e_value == new.update(rows).e_value != 1


def test_a_drift_of_classes_needs_classwise_scores():
    def proba(n, offset, seed):
        Z = 2 * np.random.default_rng(seed).normal(size=(n, 3))
        return softmax(Z + np.array([offset, 0, 0]), axis=1)

    classes = DriftMonitor(proba(1000, 0, 0), kind="classwise").update(proba(100, 0, 1))
    assert in_batches(classes, 100, proba(2000, 1, 2)).alarm


def test_batches_may_be_sorted(rng):
    monitor = DriftMonitor(rng.random(300), kind="binary")
    for _ in range(4):
        monitor.update(np.sort(rng.random(500)))
    assert not monitor.alarm


def test_copies_and_pickles_of_drift_have_the_same_future(rng):
    proba = rng.dirichlet([1, 1, 1], size=90)
    monitor = DriftMonitor(proba[:30]).update(proba[30:60])
    others = copy.copy(monitor), pickle.loads(pickle.dumps(monitor))
    monitor.update(proba[60:])
    for other in others:
        assert other.n_samples == 30
        assert other.update(proba[60:]).e_value == monitor.e_value != 1


def false_drifts(n_lives, n_reference, n_rows, kind):
    found = 0
    for seed in range(n_lives):
        rng = np.random.default_rng(seed)
        proba = rng.dirichlet([0.5] * 3, size=n_reference + n_rows)
        monitor = DriftMonitor(proba[:n_reference], kind=kind, random_state=seed)
        found += in_batches(monitor, 50, proba[n_reference:]).alarm
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_reference", "kind"), [(1, "top-label"), (30, "classwise"), (1000, "top-label")]
)
def test_false_alarms_of_drift_over_long_lives(n_reference, kind):
    assert false_drifts(30, n_reference, 5_000, kind) <= 3


BAD_DRIFT = {
    "logits": ([[5.0, -5.0, 0.0]], "Pass probabilities, not logits"),
    "fewer columns": ([[0.5, 0.5]], r"columns of the reference rows, which have 3.*shape \(1, 2\)"),
    "one dimension": ([0.5], r"columns of the reference rows, which have 3.*shape \(1,\)"),
    "scalar": (0.5, "y_proba must have one or two dimensions, got none"),
    "no rows": (np.ones((0, 3)), r"Found array with 0 sample\(s\)"),
    "NaN": ([[np.nan, 0.5, 0.5]], "got 1 of 1 rows"),
}


@pytest.mark.parametrize("case", BAD_DRIFT)
def test_bad_predictions_leave_the_monitor_unchanged(case):
    proba, message = BAD_DRIFT[case]
    monitor = DriftMonitor(P)
    before = pickle.dumps(monitor)
    with pytest.raises(ValueError, match=message):
        monitor.update(proba)
    assert pickle.dumps(monitor) == before


def test_bad_arguments_of_drift():
    with pytest.raises(ValueError, match="kind must be one of"):
        DriftMonitor(P, kind="confidence")
    with pytest.raises(ValueError, match="kind='binary' is for two classes, got 3"):
        DriftMonitor(P, kind="binary")
    with pytest.raises(ValueError, match="random_state must be an integer of at least 0"):
        DriftMonitor(P, random_state=None)
    with pytest.raises(ValueError, match="Pass probabilities, not logits"):
        DriftMonitor(2 * P)


def test_one_dimension_is_the_second_class(rng):
    p = rng.uniform(size=80)
    one, two = (
        DriftMonitor(both(p[:40]), kind="binary").update(both(p[40:]))
        for both in (lambda p: p, lambda p: np.column_stack([1 - p, p]))
    )
    assert one.e_value == two.e_value


def test_ties_of_single_rows_are_broken_by_other_numbers_each_time(monkeypatch):
    """Where all scores are equal, the ranks are these numbers alone: uniform and independent."""
    found, ranks = [], _drift.relative_ranks

    def kept(*args):
        found.append(ranks(*args))
        return found[-1]

    monkeypatch.setattr(_drift, "relative_ranks", kept)
    monitor = in_batches(DriftMonitor(np.full(200, 0.3), kind="binary"), 1, np.full(1000, 0.3))
    u = np.concatenate(found)
    assert len(np.unique(u)) == 1000
    assert kstest(u, "uniform").pvalue > 0.01
    assert abs(np.corrcoef(u[1:], u[:-1])[0, 1]) < 0.1
    assert not monitor.alarm


def test_ties_are_broken_independently_of_rows_made_with_the_same_seed():
    """``default_rng(0)`` and ``default_rng([0, 0])`` give the same numbers."""
    drift = DriftMonitor(np.random.default_rng(1).random(2000).round(1), kind="binary")
    assert drift.update(np.random.default_rng(0).random(500).round(1)).e_value < 5
