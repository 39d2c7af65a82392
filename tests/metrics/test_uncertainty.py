"""Intervals, tests and comparisons where bins hold few rows, weights are extreme, labels lack."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from families import GAPS, benchmark
from scipy.stats import binom
from sklearn.metrics import brier_score_loss, log_loss
from test_estimates import DEBIASED, KINDS, sample

from skcalib import ReliabilityDisplay
from skcalib.clinical import integrated_calibration_index, net_benefit
from skcalib.datasets import make_logits
from skcalib.metrics import (
    IntervalEstimate,
    calibration_difference,
    calibration_error_interval,
    calibration_test,
    debiased_root_mean_squared_calibration_error,
    expected_calibration_error,
    reliability_curve,
    smooth_calibration_error,
)
from skcalib.monitor import CalibrationMonitor

SLOW = pytest.mark.slow
# Plain errors, and debiased ones at the end.
BINNED = [measure.__name__ for measure in (*GAPS, *DEBIASED)]


# --------------------------------------------------------------------------------------
# Simulations: one small part of ``benchmarks/simulate_inference.py`` each.


@pytest.fixture(scope="module")
def simulation():
    return benchmark("simulate_inference")


STRUCTURES = [
    {"dependence": "equal", "groups": 20},
    {"dependence": "right"},
    {"dependence": "negation", "size": "2"},
    {"dependence": "equal", "size": "heavy", "groups": 50},
    {"dependence": "independent", "size": "1", "risks": "certain"},
    {"dependence": "right", "classes": "3"},
    {"dependence": "independent", "size": "1", "classes": "20 labels"},
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::families.ColumnOrderWarning")
@pytest.mark.parametrize("structure", STRUCTURES, ids=str)
def test_tests_keep_their_level(simulation, structure):
    structure = simulation.Structure(**structure)
    for name in ("ECE", "MCE", "ECE 100", "z"):
        if name != "z" or structure.classes == "2":
            found = simulation.simulate("level", name, structure, range(40))
            assert found.hits <= binom.ppf(0.999, 40, 0.05)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Intervals")
@pytest.mark.parametrize("structure", STRUCTURES[:5], ids=str)
def test_intervals_cover(simulation, structure):
    structure, names = simulation.Structure(**structure), ["ECE", "MCE", "debiased", "two-bin"]
    names += ["log loss", "net benefit", "bin"] * (structure.dependence != "negation")
    if structure.risks == "certain":  # nothing is valid for so few events, and a warning says so
        names.remove("log loss")
    resampled = {"ECE", "MCE", "debiased", "two-bin"}
    for name, factor in product(names, (1, 1.5)):
        if factor == 1 or name in {"ECE", "debiased", "log loss"}:
            seeds = range(20 if name in resampled else 40)
            found = simulation.simulate("coverage", name, structure, seeds, factor)
            assert found.hits >= binom.ppf(1e-3, found.draws, 0.95)


# --------------------------------------------------------------------------------------
# Intervals.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("measure", BINNED)
def test_the_interval_holds_zero_if_the_test_does_not_reject(measure, kind):
    """At one level, for each measure, with and without weights: both draw the same labels."""
    decided = set()
    for seed in range(4):
        temperature = [1.0, 1.3, 1.6][seed % 3]
        y, P = sample(150, temperature, seed, 2 if kind == "binary" else 8)
        w = np.random.default_rng(seed).exponential(size=150) if seed % 2 else None
        given = {
            "measure": measure, "kind": kind, "sample_weight": w, "random_state": seed,
            "labels": range(P.shape[1]), "n_resamples": 39,
            "strategy": ["uniform", "quantile"][seed % 2],
        }  # fmt: skip
        pvalue, level = calibration_test(y, P, **given).pvalue, [0.8, 0.95][seed // 2]
        interval = calibration_error_interval(y, P, **given, confidence_level=level)
        assert interval.low == 0 or pvalue <= 1 - level + 1e-9
        assert interval.low <= interval.estimate <= interval.high
        decided.add(interval.low > 0)
    assert False in decided


@pytest.mark.parametrize("measure", BINNED)
def test_many_rows_have_the_p_value_of_few(measure):
    """Many rows are drawn as cells of neighbours; groups of single rows draw each row."""
    random = np.random.default_rng(0)
    p = random.uniform(size=9000)
    y = random.uniform(size=9000) < p - 0.004
    given = {"measure": measure, "kind": "binary", "random_state": 0, "n_resamples": 199}
    cells = calibration_test(y, p, **given).pvalue
    rows = calibration_test(np.c_[y, y], np.c_[p, p], **{**given, "kind": "multilabel"}).pvalue
    assert cells == pytest.approx(rows, abs=0.1)


@pytest.mark.slow
def test_errors_of_both_of_two_classes_are_one():
    """The two events exclude one another, so their mean has the variance of one event."""
    y, P = sample(400, 1.6, n_classes=2)
    given = {"n_resamples": 400, "random_state": 0}
    one = calibration_error_interval(y, P, kind="binary", **given)
    for two in (P, P[:, 1]):
        both = calibration_error_interval(y, two, kind="classwise", **given)
        assert both.estimate == pytest.approx(one.estimate)
        np.testing.assert_allclose([both.low, both.high], [one.low, one.high], atol=0.006)
    assert one.low > 0


@pytest.mark.filterwarnings("ignore::families.ColumnOrderWarning")
@pytest.mark.parametrize("measure", [f.__name__ for f in GAPS])
def test_limits_are_within_the_range_of_errors(measure):
    """Upper limits are at most the error with an accuracy of 0 or 1 in each bin."""
    p = np.linspace(0.02, 0.98, 40)
    given = {"measure": measure, "n_bins": 40, "n_resamples": 39, "random_state": 0}
    for y in (p < 0.5, p > 0.5, np.arange(40) % 2 == 0):
        for w in (None, np.linspace(0, 1, 40) ** 8 + 1e-9):
            interval = calibration_error_interval(y, p, sample_weight=w, **given)
            assert 0 <= interval.low <= interval.high <= 1


@pytest.mark.filterwarnings("ignore::families.ColumnOrderWarning")
@pytest.mark.filterwarnings("ignore:Intervals of binned errors")
def test_gaps_that_cancel_between_neighbours():
    """No pooled gap is left, and the errors of single bins make the interval."""
    score = np.repeat([0.49, 0.52], 20)
    y = np.repeat([1, 0], 20)
    given = {"kind": "binary", "n_bins": 100, "n_resamples": 99, "random_state": 0}
    interval = calibration_error_interval(y, score, **given)
    assert 0.3 < interval.low < interval.estimate <= interval.high + 0.01
    exact = calibration_error_interval([1, 0] * 20, [0.25, 0.75] * 20, **given)
    assert 0.5 < exact.low < exact.high <= 0.75 + 1e-9


def test_weights_of_bins_match_a_sample():
    """A third of the population is wrong for certain, and more or fewer rows of a sample."""
    n, share = 400, 1 / 3
    p = np.where(np.arange(n) < share * n, 0.999, 0.001)
    given = {"labels": [0, 1], "n_resamples": 199, "random_state": 0}
    found = calibration_error_interval(np.zeros(n), p, **given)
    error = np.sqrt(share * (1 - share) / n)
    assert 1.3 * error < found.estimate - found.low < 3 * error
    assert 1.8 * error < found.high - found.estimate < 3 * error


def test_classwise_intervals_cover_with_few_wrong_rows():
    """Each wrong row is an error of two of the classes."""
    n, wrong, covered = 300, 0.01, 0
    P, random = np.tile([0.999, 0.0005, 0.0005], (n, 1)), np.random.default_rng(0)
    given = {"kind": "classwise", "labels": range(3), "n_resamples": 39, "random_state": 0}
    for _ in range(20):
        y = np.where(random.uniform(size=n) < wrong, random.integers(1, 3, size=n), 0)
        found = calibration_error_interval(y, P, **given)
        covered += found.low <= 2 * (wrong - 0.001) / 3 <= found.high
    assert covered >= binom.ppf(1e-3, 20, 0.95)


@pytest.mark.parametrize("measure", [f.__name__ for f in GAPS])
@pytest.mark.parametrize("kind", ["top-label", "binary"])
@pytest.mark.parametrize("w", [None, np.arange(40.0)], ids=["equal", "weighted"])
def test_intervals_of_rows_that_are_all_right(w, kind, measure):
    """Confidence 1 can be too high only. Weights leave an effective number of rows."""
    n = 40 if w is None else w.sum() ** 2 / (w @ w)
    given = {"kind": kind, "measure": measure, "sample_weight": w, "labels": [0, 1]}
    given |= {"n_resamples": 999, "random_state": 0, "confidence_level": 0.9}
    found = calibration_error_interval(np.ones(40), np.tile([0.0, 1.0], (40, 1)), **given)
    under = measure == "underconfidence_error"
    assert found.low == found.estimate == 0
    assert found.high == pytest.approx(0 if under else 1 - 0.05 ** (1 / n), rel=0.1)


def test_the_interval_of_one_wrong_row_matches_a_fraction():
    """All gaps have one sign, so that the error is the fraction of misclassified rows."""
    n = 500
    P = np.tile([1e-9, 1 - 1e-9], (n, 1))
    found = calibration_error_interval(np.arange(n) > 0, P, n_resamples=199, random_state=0)
    # The Clopper-Pearson limit of one event in 500.
    assert n * found.low < 0.08
    assert found.high == pytest.approx(0.0111, rel=0.1)


def test_intervals_are_printed_as_a_sentence():
    assert str(IntervalEstimate(0.671, 0.5, 0.849)) == "0.67 (95% interval 0.50 to 0.85)"
    assert str(IntervalEstimate(0.0123, 0.0, 0.1, 0.9)) == "0.012 (90% interval 0 to 0.10)"
    y, P = sample(100)
    found = calibration_error_interval(y, P, n_resamples=9, confidence_level=0.8, random_state=0)
    assert "(80% interval 0 to 0." in str(found)


# --------------------------------------------------------------------------------------
# Comparisons.


@pytest.mark.slow
@pytest.mark.parametrize(
    "measure",
    [BINNED[0], BINNED[-1], brier_score_loss, pytest.param(smooth_calibration_error, marks=SLOW)],
)
def test_the_interval_of_a_difference_holds_zero_unless_the_test_rejects(measure):
    decided = set()
    for seed in range(6):
        random = np.random.RandomState(seed)
        p = random.uniform(size=150)
        true = [p, 0.5 + (p > 0.5) * 0.3][seed % 2]
        y = random.uniform(size=150) < true
        given = {"kind": "binary", "measure": measure, "n_resamples": 19, "random_state": seed}
        for level in (0.8, 0.95):
            found = calibration_difference(y, p, true, confidence_level=level, **given)
            assert (found.low <= 0 <= found.high) == (found.pvalue > 1 - level + 1e-9)
            decided.add(found.low <= 0 <= found.high)
    assert decided == {False, True}


@pytest.mark.slow
def test_sharpness_is_not_taken_for_an_error():
    """Both models are calibrated, the second one by the means of thirds of the arcsine law."""
    rejected, outer = 0, 0.5 - np.sqrt(2) / (6 * np.arcsin(np.sqrt(1 / 3)))
    for seed in range(40):
        random = np.random.RandomState(seed)
        fine = random.beta(0.5, 0.5, size=300)
        y = random.uniform(size=300) < fine
        coarse = np.select([fine < 1 / 3, fine < 2 / 3], [outer, 0.5], 1 - outer)
        given = {"kind": "binary", "n_resamples": 39, "random_state": seed}
        rejected += calibration_difference(y, fine, coarse, **given).pvalue <= 0.05
    assert rejected <= binom.ppf(0.999, 40, 0.05)


# --------------------------------------------------------------------------------------
# Functions as measures.


ERRORS = {
    "smooth_calibration_error": "smooth_calibration_error",
    "index": integrated_calibration_index,
    "ECE": partial(expected_calibration_error, n_bins=5),
    "E50": partial(integrated_calibration_index, quantile=0.5),
}


@pytest.mark.parametrize("name", [*list(ERRORS)[:3], pytest.param("E50", marks=SLOW)])
def test_intervals_of_functions_hold_zero_unless_the_test_rejects(name):
    decided = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        p = rng.uniform(size=100)
        y = (rng.uniform(size=100) < (p**3 if seed % 2 else p)).astype(int)
        given = {"measure": ERRORS[name], "n_resamples": 19}
        interval = calibration_error_interval(y, p, random_state=seed, **given)
        test = calibration_test(y, p, random_state=seed, **given)
        assert interval.low <= interval.estimate < interval.high
        assert interval.low == 0 or test.pvalue <= 0.05
        decided.append(interval.low > 0)
    assert sum(decided[::2]) <= 1
    assert sum(decided[1::2]) >= 2


SCORES = {
    "log loss": log_loss,
    "Brier": brier_score_loss,
    "net benefit": partial(net_benefit, threshold=0.3),
}


@pytest.mark.parametrize("n_resamples", [40, 80])
@pytest.mark.parametrize("name", SCORES)
def test_differences_of_scores_have_the_interval_of_paired_rows(name, n_resamples):
    """Each row has a score of its own. The jackknife leaves out single rows, or pairs of rows."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.01, 0.99, size=80)
    y, other = (rng.uniform(size=80) < p).astype(int), np.clip(0.8 * p, 0.01, 0.99)
    given = {"measure": SCORES[name], "n_resamples": n_resamples, "random_state": 0}
    found = calibration_difference(y, p, other, labels=[0, 1], **given)
    if name == "net benefit":
        gain = np.where(y == 1, 1, -0.3 / 0.7)
        each = gain * (other >= 0.3) - gain * (p >= 0.3)
    elif name == "Brier":
        each = (y - other) ** 2 - (y - p) ** 2
    else:
        each = np.log(np.where(y == 1, p, 1 - p) / np.where(y == 1, other, 1 - other))
    assert found.estimate == pytest.approx(each.mean())
    width = 2 * 1.98 * each.std() / np.sqrt(80)
    assert found.high - found.low == pytest.approx(width, rel=0.15)


@pytest.mark.parametrize("n_events", [9, 10])
@pytest.mark.parametrize(
    ("measure", "is_binned"),
    [
        ("expected_calibration_error", True),
        ("maximum_calibration_error", True),
        ("smooth_calibration_error", False),
        (log_loss, False),
    ],
)
def test_few_events_warn_of_differences_and_of_measures_without_bins(measure, is_binned, n_events):
    p = np.linspace(0.02, 0.2, 100)
    y = np.arange(100) % 11 == 0
    y[0], y[5] = False, n_events == 10
    settings = {"measure": measure, "n_resamples": 19, "random_state": 0}
    for function, needs_events in (
        (lambda: calibration_difference(y, p, p**1.1, **settings), True),
        (lambda: calibration_error_interval(y, p, **settings), not is_binned),
    ):
        if needs_events and n_events < 10:
            with pytest.warns(UserWarning, match="got 9"):
                function()
        else:
            function()  # no warning


@pytest.mark.parametrize("n_labels", [19, 20])
def test_a_difference_with_as_many_labels_as_groups_warns(n_labels):
    rng = np.random.default_rng(0)
    P = rng.uniform(size=(40, n_labels))
    Y = (rng.uniform(size=P.shape) < P).astype(int)
    given = {"kind": "multilabel", "groups": np.arange(40) // 2, "n_resamples": 19}
    if n_labels == 20:
        with pytest.warns(UserWarning, match="got 20 for 20 columns"):
            calibration_difference(Y, P, P**2, random_state=0, **given)
    else:
        calibration_difference(Y, P, P**2, random_state=0, **given)  # no warning


@pytest.mark.filterwarnings("ignore:Intervals need 10")
@pytest.mark.parametrize(
    ("n_groups", "n_resamples"), [(30, 50), pytest.param(200, 200, marks=SLOW)]
)
def test_the_kind_of_a_function_depends_on_no_seed_and_no_rows(n_groups, n_resamples):
    """A log loss of few events has the interval of a mean, for each seed."""
    rng = np.random.default_rng(0)
    p = rng.beta(0.5, 20, n_groups)
    y = (np.arange(n_groups) % 15 == 0).astype(int)
    given = {"measure": partial(log_loss, labels=[0, 1]), "n_resamples": n_resamples}
    found = [calibration_error_interval(y, p, random_state=seed, **given) for seed in range(2)]
    mean = calibration_error_interval(y, p, method="jackknife", **given)
    assert [(one.low, one.high) for one in found] == [(mean.low, mean.high)] * 2
    error = calibration_error_interval(y, p, method="inversion", random_state=0, **given)
    assert error.high != mean.high


def test_functions_that_give_no_number_for_drawn_labels():
    def measure(y, p):
        return np.nan if y[0] else 0.1

    y, p = np.arange(40) % 2, np.full(40, 0.5)
    with pytest.raises(ValueError, match="finite"):
        calibration_error_interval(y, p, measure=measure, random_state=0)


NAMES = np.array(["ant", "bee", "cat"])


@pytest.mark.parametrize(
    "measure",
    [
        "expected_calibration_error",
        "smooth_calibration_error",
        log_loss,
        smooth_calibration_error,
        partial(log_loss, normalize=True),
        partial(log_loss, labels=NAMES),
        partial(expected_calibration_error, kind="classwise"),
        partial(partial(expected_calibration_error, n_bins=5), labels=list(NAMES)),
        lambda y, P: np.mean(P[np.arange(len(P)), np.searchsorted(NAMES, y)]),
        lambda y, P, *, labels: np.mean(P[:, 0]) - np.mean(y == labels[0]),
    ],
)
def test_measures_of_draws_that_lack_a_class(measure):
    """Two of three draws lack the class that has one row. Functions are given its label."""
    y, P = sample(40)
    y[y == 2] = 1
    y[0] = 2
    given = {"measure": measure, "n_resamples": 5, "random_state": 0}
    for kind in ({}, {"kind": "classwise"}) if isinstance(measure, str) else ({},):
        interval = calibration_error_interval(NAMES[y], P, **given, **kind)
        assert interval.low <= interval.high
        assert np.isfinite([interval.low, interval.high]).all()
        assert 0 < calibration_test(NAMES[y], P, **given, **kind).pvalue <= 1
        same = calibration_difference(NAMES[y], P, P, **given, **kind)
        assert (same.estimate, same.pvalue) == (0, 1)


# --------------------------------------------------------------------------------------
# Weights so small that their squares underflow.


def rows_of_tiny_weight(smallest):
    """Bins of ordinary weights, one of both, and bins that hold only tiny ones."""
    rng = np.random.default_rng(0)
    p = rng.uniform(size=300)
    y = (rng.uniform(size=300) < p).astype(int)
    w = rng.exponential(size=300)
    w[p < 0.3] = smallest * (1 + rng.integers(3, size=(p < 0.3).sum()))
    w[np.flatnonzero(p > 0.9)[0]] = smallest
    return y, p, w


@pytest.mark.parametrize("smallest", [1e-161, 5e-324])
@pytest.mark.parametrize("kind", KINDS)
def test_effective_rows_are_finite_beside_tiny_weights(smallest, kind):
    y, p, w = rows_of_tiny_weight(smallest)
    curve = reliability_curve(y, p, kind=kind, sample_weight=w)
    assert (curve.n_effective >= 1).all()
    assert (curve.n_effective <= curve.n_samples).all()
    low, high = curve.interval()
    assert ((0 <= low) & (low <= high) & (high <= 1)).all()
    ReliabilityDisplay.from_predictions(y, p, kind=kind, sample_weight=w)
    monitor = CalibrationMonitor(labels=[0, 1], kind=kind).update(y, p, w)
    assert np.isfinite(monitor.curve().n_effective).all()


# --------------------------------------------------------------------------------------
# Functions as measures: columns and arguments.


def test_functions_get_columns_in_the_order_of_the_sorted_labels():
    _, y, P = make_logits(200, 3, return_proba=True, random_state=0)
    names, order = np.array(["ant", "bee", "cat"])[y], [2, 0, 1]
    given = {"measure": log_loss, "n_resamples": 9, "random_state": 0}
    plain = calibration_error_interval(names, P, **given)
    turned = calibration_error_interval(names, P[:, order], labels=["cat", "ant", "bee"], **given)
    assert turned.estimate == pytest.approx(plain.estimate)
    assert turned.estimate == pytest.approx(log_loss(names, P))


def test_function_measures_get_the_probability_of_their_positive_label():
    _, y, P = make_logits(200, 2, return_proba=True, random_state=0)
    expected = np.mean((P[:, 1] - y) ** 2)
    for measure in (brier_score_loss, lambda y, p: np.mean((p - y) ** 2)):
        given = {"measure": measure, "n_resamples": 9, "random_state": 0}
        for p, label in ((P[:, 1], None), (P[:, 0], 0)):
            found = calibration_error_interval(y, p, pos_label=label, **given)
            assert found.estimate == pytest.approx(expected)


def test_models_are_compared_by_a_measure_without_bias():
    y, P = sample(300, 1.5)
    found = calibration_difference(y, P, P[::-1], n_resamples=9, random_state=0)
    measure = debiased_root_mean_squared_calibration_error
    assert found.estimate == pytest.approx(measure(y, P[::-1]) - measure(y, P))
    with pytest.raises(ValueError, match=r"\(300, 2\)"):
        calibration_difference(y == 1, P[:, 1], np.c_[1 - P[:, 1], P[:, 1]])
