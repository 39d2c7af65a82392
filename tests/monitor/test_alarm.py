"""Alarm of monitors: expected e-values by enumeration, false alarms by simulation."""

import copy
import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from scipy.stats import binom

from skcalib.datasets import make_logits
from skcalib.export import from_json, to_json
from skcalib.monitor import CalibrationMonitor

P = np.array([[0.7, 0.2, 0.1], [0.7, 0.1, 0.2], [0.25, 0.5, 0.25], [0.1, 0.2, 0.7]])


def in_batches(monitor, size, *rows):
    """The monitor, updated with batches of ``size`` rows."""
    for start in range(0, len(rows[0]), size):
        monitor.update(*(each[start : start + size] for each in rows))
    return monitor


def mean_over_labels(e_value, rows=P):
    """Mean e-value over all labels of the rows, weighted by the probability of the labels."""
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
        monitor = CalibrationMonitor(labels, kind=kind, n_bins=100)
        for start, stop in itertools.pairwise(edges):
            monitor.update(y[start:stop], rows[start:stop])
        return monitor.e_value_

    assert mean_over_labels(after_batches, rows) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("weights", [[1, 0.5, 0.25, 1], [1, 1e-3, 0.9, 0.2]])
def test_weights_do_not_increase_the_e_value(weights):
    p = np.array([0.07, 0.3, 0.4, 0.9])

    def after_a_batch(y):
        return CalibrationMonitor([0, 1], kind="binary").update(y, p, weights).e_value_

    assert mean_over_labels(after_a_batch, np.column_stack([1 - p, p])) <= 1 + 1e-12


@pytest.mark.parametrize("off", [-0.1, 0.1])
def test_a_gap_as_large_as_the_tolerance_is_no_evidence(off):
    """The expected e-value over binomial numbers of events is at most 1."""
    n, p = 60, 0.6

    def mean_with(tolerance):
        total = 0.0
        for k, chance in enumerate(binom.pmf(np.arange(n + 1), n, p + off)):
            monitor = CalibrationMonitor([0, 1], tolerance=tolerance)
            total += chance * monitor.update(np.arange(n) < k, np.full(n, p)).e_value_
        return total

    assert mean_with(0.1) <= 1 + 1e-12
    assert mean_with(0.09) < mean_with(0.05) > 1.01


# Labels of dependent rows: thresholds of one uniform variable, or one label for all.
DEPENDENT = {"thresholds": np.array([0.2, 0.5, 0.9]), "equal": np.array([0.6, 0.6, 0.6])}


def mean_over_dependent_labels(p, groups, weights=None):
    """Expected e-value of one batch with labels ``u < p`` for a uniform variable u."""
    ends, total = np.unique([0, *p, 1]), 0.0
    for low, high in itertools.pairwise(ends):
        monitor = CalibrationMonitor([0, 1], n_bins=7)
        y = ((low + high) / 2 < p).astype(int)
        total += (high - low) * monitor.update(y, p, weights, groups).e_value_
    return total


@pytest.mark.parametrize("weights", [None, [1, 3, 0.2]])
@pytest.mark.parametrize("case", DEPENDENT)
def test_dependent_rows_of_a_group_do_not_increase_the_e_value(case, weights):
    p = DEPENDENT[case]
    assert mean_over_dependent_labels(p, ["a", "a", "a"], weights) <= 1 + 1e-12
    if weights is None:
        assert mean_over_dependent_labels(p, None) > 1.02


def test_groups_of_single_rows_change_nothing():
    y, proba = over_confident(60)
    w = np.random.default_rng(0).uniform(0.1, 1, size=60)
    for weights in (None, w):
        alone = CalibrationMonitor(range(3)).update(y, proba, weights)
        grouped = CalibrationMonitor(range(3)).update(y, proba, weights, np.arange(60))
        assert grouped.e_value_ == pytest.approx(alone.e_value_)


def test_groups_change_the_test_and_no_measure():
    y, proba = np.repeat(over_confident(300)[0], 4), np.repeat(over_confident(300)[1], 4, axis=0)
    rows = CalibrationMonitor(range(3)).update(y, proba)
    grouped = CalibrationMonitor(range(3)).update(y, proba, groups=np.arange(1200) // 4)
    once = CalibrationMonitor(range(3)).update(y[::4], proba[::4])
    measure = "expected_calibration_error"
    assert grouped.measure(measure) == rows.measure(measure)
    assert grouped.n_samples_ == 1200
    # Four equal rows count as one row for the test; only the stake differs.
    assert once.e_value_ / 3 < grouped.e_value_ < 3 * once.e_value_ < rows.e_value_


def test_small_batches_do_not_warn_about_column_order():
    y, proba = (np.repeat(each, 25, axis=0) for each in ([0, 1, 2], P[[3, 1, 2]]))
    monitor = CalibrationMonitor(range(3)).update(y, proba, groups=np.repeat([1, 2, 3], 25))
    assert monitor.n_samples_ == 75


def test_a_large_group_counts_as_much_as_a_single_row():
    y, proba = over_confident(300)
    times = np.where(np.arange(300) == 0, 100, 1)
    rows = np.repeat(np.arange(300), times)
    once = CalibrationMonitor(range(3)).update(y, proba).e_value_
    grouped = CalibrationMonitor(range(3)).update(y[rows], proba[rows], groups=rows).e_value_
    assert once > 10
    assert grouped == pytest.approx(once, rel=0.3)


def visits(rng, n_patients=100, batch=100, effect=1.0, batches=40):
    """Calibrated risks of visits, with outcomes that patients share, or partly share."""
    u = rng.uniform(size=n_patients)
    for _ in range(batches):
        patient = rng.integers(n_patients, size=batch)
        risk = rng.uniform(0.05, 0.95, size=batch)
        shared = rng.uniform(size=batch) < effect
        yield patient, risk, (np.where(shared, u[patient], rng.uniform(size=batch)) < risk) * 1


@pytest.mark.filterwarnings("ignore:The monitor hardly sees")
@pytest.mark.parametrize("effect", [1.0, 0.5])
def test_groups_that_return_raise_no_false_alarm(effect):
    found = 0
    for seed in range(12):
        monitor = CalibrationMonitor([0, 1])
        for patient, risk, y in visits(np.random.default_rng(seed), effect=effect):
            monitor.update(y, risk, groups=patient)
        assert monitor.n_bets_ == 100
        assert monitor.n_samples_ == 4000
        found += monitor.alarm_
    assert found <= 2


def test_a_group_bets_in_its_first_batch_only():
    y, proba = over_confident(200)
    first, other = np.arange(100) // 2, np.arange(100) // 2 + 30
    monitor = CalibrationMonitor(range(3)).update(y[:100], proba[:100], groups=first)
    monitor.update(y[100:], proba[100:], groups=other)
    new = other >= 50  # groups of the second batch that were not in the first
    wanted = CalibrationMonitor(range(3)).update(y[:100], proba[:100], groups=first)
    wanted.update(y[100:][new], proba[100:][new], groups=other[new])
    assert monitor.n_bets_ == wanted.n_bets_ == 80
    assert monitor.e_value_ == pytest.approx(wanted.e_value_, rel=0.2)  # another reserve
    assert monitor.n_samples_ == 200
    before = monitor.e_value_
    with pytest.warns(UserWarning, match="0 of 50 groups"):
        monitor.update(y[:100], proba[:100], groups=first)
    assert (monitor.e_value_, monitor.n_bets_, monitor.n_samples_) == (before, 80, 300)
    monitor.update(y[:100], proba[:100], groups=first)  # warns once
    assert monitor.reset().n_bets_ == 0
    assert monitor.update(y[:100], proba[:100], groups=first).n_bets_ == 50
    assert monitor.update(y[:100], proba[:100]).n_bets_ == 150


SAME = {
    "text": lambda g: g.astype(str),
    "objects": lambda g: g.astype(object),
    "floats": lambda g: g.astype(float),
    "list": lambda g: g.tolist(),
    "categories": lambda g: pd.Categorical(g.astype(str)),
    "other categories": lambda g: pd.Series(pd.Categorical(g, categories=[*range(60, -1, -1)])),
    "nullable": lambda g: pd.Series(g, dtype="Int64"),
}


@pytest.mark.filterwarnings("ignore:The monitor hardly sees")
@pytest.mark.parametrize("form", SAME)
def test_a_group_is_recognized_in_any_type(form):
    y, proba = over_confident(100)
    groups = np.arange(100) // 2
    monitor = CalibrationMonitor(range(3)).update(y, proba, groups=groups)
    assert monitor.update(y, proba, groups=SAME[form](groups)).n_bets_ == 50


@pytest.mark.filterwarnings("ignore:The monitor hardly sees")
def test_dates_and_weights_of_groups():
    y, proba = over_confident(100)
    day = np.datetime64("2026-01-01") + np.arange(100) // 2
    w = np.where(np.arange(100) < 50, 0.0, 1.0)  # groups without weight do not bet
    monitor = CalibrationMonitor(range(3)).update(y, proba, w, groups=day)
    assert monitor.n_bets_ == 25
    assert monitor.update(y, proba, groups=pd.Series(day)).n_bets_ == 50
    assert w.tolist() == [0.0] * 50 + [1.0] * 50


@pytest.mark.filterwarnings("ignore:The monitor hardly sees")
def test_groups_are_recognized_in_other_processes():
    """Python's hash of text changes between processes, but these numbers do not."""
    groups = ["Ann", "Bob", "Bob"]
    text = to_json(CalibrationMonitor([0, 1]).update([0, 1, 1], [0.1, 0.6, 0.7], groups=groups))
    assert "[6815783469026767838, 16704144070441063186]" in text
    monitor = from_json(text)
    assert monitor.n_bets_ == 2
    for same in (monitor, pickle.loads(pickle.dumps(monitor)), copy.deepcopy(monitor)):
        assert same.update([0, 1], [0.1, 0.6], groups=["Bob", "Cid"]).n_bets_ == 3


@pytest.mark.slow
def test_a_full_memory_warns_once():
    n = 1_000_001
    monitor = CalibrationMonitor([0, 1])
    with pytest.warns(UserWarning, match="memory"):
        monitor.update(np.zeros(n), np.full(n, 0.2), groups=np.arange(n))
    assert monitor.n_bets_ == n - 1
    before = monitor.e_value_
    monitor.update([0, 1] * 20, [0.3] * 40, groups=np.arange(n, n + 40))
    assert (monitor.n_bets_, monitor.n_samples_, monitor.e_value_) == (n - 1, n + 40, before)


def test_small_batches_are_judged_together():
    monitor = CalibrationMonitor([0, 1])
    for k in range(9):  # a patient returns
        monitor.update([0], [0.2], groups=[k % 2])
    monitor.update([0], [0.2], groups=[0])  # the tenth group
    for _ in range(9):
        monitor.update([0], [0.2], groups=[0])
    with pytest.warns(UserWarning, match="hardly"):
        monitor.update([0], [0.2], groups=[0])


def over_confident(n, temperature=2.0, seed=0):
    logits, y = make_logits(n, 3, temperature=temperature, random_state=seed)
    return y, softmax(logits, axis=1)


def test_weights_are_relative_to_the_largest_one():
    y, proba = over_confident(60)
    w = np.random.default_rng(0).uniform(0.1, 1, size=60)
    w[7] = 1
    values = [
        CalibrationMonitor(range(3)).update(y, proba, sample_weight).e_value_
        for sample_weight in (w, 5 * w, None, np.full(60, 2.0))
    ]
    assert values[0] == pytest.approx(values[1]) != pytest.approx(values[2])
    assert values[2] == pytest.approx(values[3])


def test_an_alarm_stays_raised():
    monitor = CalibrationMonitor(range(3))
    assert (monitor.e_value_, monitor.alarm_) == (1, False)
    assert monitor.n_samples_at_alarm_ is None
    in_batches(monitor, 100, *over_confident(3000))
    assert monitor.alarm_
    assert 100 <= monitor.n_samples_at_alarm_ <= 600
    assert "n_samples=3000, alarm=True)" in repr(monitor)
    largest, at = monitor.e_value_, monitor.n_samples_at_alarm_
    assert largest > 1e20
    y, proba = make_logits(20_000, 3, return_proba=True, random_state=1)[1:]
    monitor.update(y, proba)
    assert monitor.e_value_ < largest
    assert monitor.n_samples_at_alarm_ == at
    assert not monitor.reset().alarm_
    assert monitor.e_value_ == 1


def test_strong_evidence_neither_overflows_nor_warns():
    monitor = CalibrationMonitor([0, 1], kind="binary")
    for _ in range(3):
        monitor.update(np.zeros(5000, int), np.ones(5000))
    assert 1e100 < monitor.e_value_ < np.inf


@pytest.mark.parametrize(("tolerance", "expected"), [(0.0, True), (0.01, True), (0.05, False)])
def test_a_tolerance_is_no_reason_for_an_alarm(tolerance, expected, rng):
    y = (rng.uniform(size=50_000) < 0.57).astype(int)
    monitor = CalibrationMonitor([0, 1], tolerance=tolerance)
    assert monitor.update(y, np.full(50_000, 0.6)).alarm_ is expected
