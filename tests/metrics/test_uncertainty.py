"""Intervals, tests and comparisons where bins hold few rows, weights are extreme, labels lack."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from families import GAPS, benchmark, of_case
from scipy.stats import binom, chi2
from sklearn.metrics import brier_score_loss, log_loss
from test_estimates import KINDS, sample

from skcalib import ReliabilityDisplay
from skcalib.clinical import integrated_calibration_index, net_benefit
from skcalib.datasets import make_logits
from skcalib.metrics import (
    IntervalEstimate,
    _inversion,
    calibration_difference,
    calibration_error_interval,
    calibration_test,
    debiased_root_mean_squared_calibration_error,
    expected_calibration_error,
    reliability_curve,
    smooth_calibration_error,
)
from skcalib.metrics._calibration_error import FORMULAS
from skcalib.monitor import CalibrationMonitor

SLOW = pytest.mark.slow
# Plain errors, and debiased ones at the end.
BINNED = [*FORMULAS]


@pytest.fixture(scope="module")
def simulation():
    return benchmark("simulate_uncertainty")


# --------------------------------------------------------------------------------------
# Intervals.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("measure", BINNED)
def test_the_interval_holds_zero_unless_the_test_rejects(measure, kind):
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
        assert (interval.low > 0) == (pvalue <= 1 - level + 1e-9)
        assert interval.low <= interval.estimate <= interval.high
        decided.add(interval.low > 0)
    assert False in decided


@pytest.mark.parametrize("measure", BINNED)
def test_rows_that_are_drawn_together(measure, monkeypatch):
    """Many rows are resampled as cells of neighbours with equal noise; test and interval agree."""
    random = np.random.default_rng(0)
    p, w = random.uniform(size=3000), random.exponential(size=3000)
    y = random.uniform(size=3000) < p - 0.03
    given = {"measure": measure, "kind": "binary", "sample_weight": w, "random_state": 0}
    given |= {"n_resamples": 99}
    found = []
    for most in (1 << 20, 100):
        monkeypatch.setattr(_inversion, "MOST_SINGLE_ROWS", most)
        test = calibration_test(y, p, **given)
        interval = calibration_error_interval(y, p, **given)
        assert (interval.low > 0) == (test.pvalue <= 0.05)
        found.append([interval.low, interval.high, np.log(test.pvalue)])
    width = found[0][1] - found[0][0]
    np.testing.assert_allclose(found[1][:2], found[0][:2], atol=width / 8)
    np.testing.assert_allclose(found[1][2], found[0][2], atol=1.5)


@pytest.mark.slow
def test_rows_alone_in_their_bins_have_noise():
    """A hundred bins of one row each say next to nothing, and the interval says so."""
    given = {"n_bins": 100, "strategy": "quantile", "n_resamples": 99}
    found = [
        calibration_error_interval(*sample(100, seed=seed), **given, random_state=seed)
        for seed in range(12)
    ]
    assert sum(interval.low == 0 for interval in found) >= 10
    assert all(interval.estimate > 0.25 for interval in found)


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


@pytest.mark.filterwarnings("ignore:Columns of y_proba probably")
@pytest.mark.parametrize("measure", [f.__name__ for f in GAPS])
def test_limits_are_within_the_range_of_errors(measure):
    """Upper limits are at most the error with an accuracy of 0 or 1 in each bin."""
    p = np.linspace(0.02, 0.98, 40)
    given = {"measure": measure, "n_bins": 40, "n_resamples": 39, "random_state": 0}
    for y in (p < 0.5, p > 0.5, np.arange(40) % 2 == 0):
        for w in (None, np.linspace(0, 1, 40) ** 8 + 1e-9):
            interval = calibration_error_interval(y, p, sample_weight=w, **given)
            assert 0 <= interval.low <= interval.high <= 1


@pytest.mark.filterwarnings("ignore:Columns of y_proba probably")
def test_gaps_that_cancel_between_neighbours():
    """No pooled gap is left, and the errors of single bins make the interval."""
    score = np.repeat([0.49, 0.52], 20)
    y = np.repeat([1, 0], 20)
    given = {"kind": "binary", "n_bins": 100, "n_resamples": 99, "random_state": 0}
    interval = calibration_error_interval(y, score, **given)
    assert 0.3 < interval.low < interval.estimate <= interval.high + 0.01
    exact = calibration_error_interval([1, 0] * 20, [0.25, 0.75] * 20, **given)
    assert 0.5 < exact.low < exact.high <= 0.75 + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 6, 8, 13])
def test_intervals_cover(simulation, number):
    """Intervals hold the true error in 95 % of simulations, for small and large gaps."""
    cell, n = simulation.CELLS[number], 30
    for model in simulation.MODELS:
        assert simulation.coverage(cell, model, n, 39) * n >= binom.ppf(1e-3, n, 0.95)
    assert simulation.level(cell, n, 39) * n <= binom.ppf(0.999, n, 0.05)


def test_weights_of_bins_match_a_sample():
    """A third of the population is wrong for certain, and more or fewer rows of a sample."""
    n, share = 400, 1 / 3
    p = np.where(np.arange(n) < share * n, 0.999, 0.001)
    given = {"labels": [0, 1], "n_resamples": 199, "random_state": 0}
    found = calibration_error_interval(np.zeros(n), p, **given)
    error = np.sqrt(share * (1 - share) / n)
    assert 1.3 * error < found.estimate - found.low < 3 * error
    assert 1.8 * error < found.high - found.estimate < 3 * error


@pytest.mark.slow
@pytest.mark.parametrize("measure", [BINNED[0], *BINNED[-2:]])
def test_intervals_cover_gaps_of_one_bin(simulation, measure):
    """Debiased errors are 0 in half of these samples, and plain ones mostly noise."""
    cell, n = simulation.CELLS[6], 30
    for model in ("one", "above"):
        assert simulation.coverage(cell, model, n, 39, measure) * n >= binom.ppf(1e-3, n, 0.95)


def test_classwise_intervals_cover_with_few_wrong_rows():
    """Each wrong row is an error of two of the classes."""
    n, wrong, covered = 300, 0.01, 0
    P, random = np.tile([0.999, 0.0005, 0.0005], (n, 1)), np.random.default_rng(0)
    given = {"kind": "classwise", "labels": range(3), "n_resamples": 39, "random_state": 0}
    for _ in range(40):
        y = np.where(random.uniform(size=n) < wrong, random.integers(1, 3, size=n), 0)
        found = calibration_error_interval(y, P, **given)
        covered += found.low <= 2 * (wrong - 0.001) / 3 <= found.high
    assert covered >= binom.ppf(1e-3, 40, 0.95)


def limits_of_a_fraction(n_wrong, n, level):
    """Wilson's with a correction for continuity, as roots of polynomials."""
    z2 = float(chi2.ppf(level, 1))
    centres = (n_wrong - 0.5) / n, (n_wrong + 0.5) / n
    low, high = (np.roots([1 + z2 / n, -2 * c - z2 / n, c**2]).real for c in centres)
    return low.min(), high.max()


@pytest.mark.parametrize("measure", [f.__name__ for f in GAPS])
@pytest.mark.parametrize("kind", ["top-label", "binary"])
@pytest.mark.parametrize("w", [None, np.arange(40.0)], ids=["equal", "weighted"])
def test_intervals_of_rows_that_are_all_right(w, kind, measure):
    """Confidence 1 can be too high only. Weights leave an effective number of rows."""
    n = 40 if w is None else w.sum() ** 2 / (w @ w)
    given = {"kind": kind, "measure": measure, "sample_weight": w, "labels": [0, 1]}
    given |= {"n_resamples": 19, "random_state": 0, "confidence_level": 0.9}
    found = calibration_error_interval(np.ones(40), np.tile([0.0, 1.0], (40, 1)), **given)
    under = measure == "underconfidence_error"
    _, high = limits_of_a_fraction(0, n, 0.9)
    assert found.low == found.estimate == 0
    assert found.high == pytest.approx(0 if under else high, abs=1e-9)


def test_the_interval_of_one_wrong_row_matches_a_fraction():
    """All gaps have one sign, so that the error is the fraction of misclassified rows."""
    n = 500
    P = np.tile([1e-9, 1 - 1e-9], (n, 1))
    found = calibration_error_interval(np.arange(n) > 0, P, n_resamples=199, random_state=0)
    # Clopper-Pearson limits of one event are 0.051 (5 % below) and 5.6 (2.5 % above).
    assert 0.04 < n * found.low < 0.08
    assert found.high == pytest.approx(limits_of_a_fraction(1, n, 0.95)[1], rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_wrong", [0.5, 1, 3])
def test_intervals_cover_with_few_wrong_rows(n_wrong, weighted):
    """The expected number of wrong rows is given, at a confidence of 0.9999."""
    n, n_draws, random = 500, 60, np.random.default_rng(0)
    gap, w = n_wrong / n - 1e-4, np.full(n, 7.0) if weighted else None
    P, covered = np.tile([1e-4, 0.9999], (n, 1)), 0
    given = {"labels": [False, True], "n_resamples": 99, "sample_weight": w, "random_state": 0}
    for _ in range(n_draws):
        y = random.uniform(size=n) < 1 - n_wrong / n
        found = calibration_error_interval(y, P, **given)
        covered += found.low <= gap <= found.high
    assert covered >= binom.ppf(1e-3, n_draws, 0.94)


@pytest.mark.slow
def test_intervals_of_debiased_errors_cover_where_models_are_confident():
    """Few rows are wrong: their number determines both the gap and the variance."""
    n, n_draws = 1000, 80
    q = 1 - np.random.default_rng(99).beta(0.5, 60, 1_000_000)
    bins = np.ceil(15 * q).astype(int)
    gap = 0.01 * np.bincount(bins, q > 0.995) / np.maximum(np.bincount(bins), 1)
    error = np.sqrt(np.sum(np.bincount(bins) / len(q) * gap**2))
    for measure in BINNED[-2:]:
        true = error if "root" in measure else 0.01 * np.mean(q > 0.995)
        covered = 0
        for seed in range(n_draws):
            rng = np.random.default_rng(seed)
            p = 1 - rng.beta(0.5, 60, n)
            y = (rng.uniform(size=n) < np.where(p > 0.995, p - 0.01, p)).astype(int)
            found = calibration_error_interval(
                y, p, measure=measure, labels=[0, 1], n_resamples=99, random_state=seed
            )
            covered += found.low <= true <= found.high
        assert covered >= binom.ppf(1e-3, n_draws, 0.95)


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
def test_intervals_of_differences_cover(simulation):
    """A gap of 7 % above 0.9 only, and none: few samples show the difference."""
    cell, n, covered = simulation.CELLS[6], 30, 0
    for seed in range(n):
        y, P, true = simulation.rows(cell.n_rows, 2, "above", seed)
        error = simulation.truth(cell, "above", cell.edges(y, P, None), BINNED[-1])
        given = {"kind": "binary", "n_resamples": 39, "random_state": seed}
        found = calibration_difference(y, P, true, **given)
        covered += found.low <= error <= found.high
    assert covered >= binom.ppf(1e-3, n, 0.95)


@pytest.mark.slow
def test_comparisons_keep_their_level(simulation):
    """Sharpness is not taken for an error: the models of the first pair are calibrated."""
    for case, (strategy, n_bins) in product(simulation.PAIRS[:4:2], simulation.BINS):
        rejected = simulation.rejection_rate(case, 300, 40, 39, strategy=strategy, n_bins=n_bins)
        with of_case((case, strategy)):
            assert rejected * 40 <= binom.ppf(0.999, 40, 0.05)
    assert simulation.rejection_rate("top-label 3 over", 1000, 20, 59) > 0.8


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
    for seed in range(10):
        rng = np.random.default_rng(seed)
        p = rng.uniform(size=150)
        y = (rng.uniform(size=150) < p**2 if seed % 2 else rng.uniform(size=150) < p).astype(int)
        given = {"measure": ERRORS[name], "n_resamples": 19}
        interval = calibration_error_interval(y, p, random_state=seed, **given)
        test = calibration_test(y, p, random_state=seed, **given)
        assert interval.low <= interval.estimate < interval.high
        if isinstance(ERRORS[name], str):  # functions are recognized by draws of their own
            assert (interval.low > 0) == (test.pvalue <= 0.05)
        decided.append(interval.low > 0)
    assert sum(decided[::2]) <= 1
    assert sum(decided[1::2]) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("name", ["smooth_calibration_error", "index"])
def test_intervals_of_functions_cover(name):
    measure = ERRORS[name]
    f = smooth_calibration_error if isinstance(measure, str) else measure
    rng = np.random.default_rng(99)
    q = rng.uniform(size=400_000)
    true = {power: f(rng.uniform(size=len(q)) < q**power, q) for power in (1, 1.4)} | {1: 0.0}
    for power, error in true.items():
        covered = 0
        for seed in range(30):
            rng = np.random.default_rng(seed)
            p = rng.uniform(size=200)
            y = (rng.uniform(size=200) < p**power).astype(int)
            found = calibration_error_interval(
                y, p, measure=measure, n_resamples=39, random_state=seed
            )
            covered += found.low <= error <= found.high
        assert covered >= binom.ppf(1e-3, 30, 0.95)


SCORES = {
    "log loss": log_loss,
    "Brier": brier_score_loss,
    "net benefit": partial(net_benefit, threshold=0.3),
}


@pytest.mark.parametrize("n_resamples", [200, 400])
@pytest.mark.parametrize("name", SCORES)
def test_differences_of_scores_have_the_interval_of_paired_rows(name, n_resamples):
    """Each row has a score of its own. The jackknife of 400 rows, or fewer bootstrap samples."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.01, 0.99, size=400)
    y, other = (rng.uniform(size=400) < p).astype(int), np.clip(0.8 * p, 0.01, 0.99)
    given = {"measure": SCORES[name], "n_resamples": n_resamples, "random_state": 0}
    given["labels"] = [0, 1]
    found = calibration_difference(y, p, other, **given)
    if name == "net benefit":
        gain = np.where(y == 1, 1, -0.3 / 0.7)
        each = gain * (p >= 0.3) - gain * (other >= 0.3)
    elif name == "Brier":
        each = (y - p) ** 2 - (y - other) ** 2
    else:
        each = np.log(np.where(y == 1, other, 1 - other) / np.where(y == 1, p, 1 - p))
    assert found.estimate == pytest.approx(each.mean())
    width = 2 * 1.96 * each.std() / 20
    assert found.high - found.low == pytest.approx(width, rel=0.15)


@pytest.mark.parametrize("n_groups", [30, 1000])
def test_the_kind_of_a_function_depends_on_no_seed_and_no_rows(n_groups):
    """A log loss of few events has the interval of a mean, for each seed."""
    rng = np.random.default_rng(0)
    p = rng.beta(0.5, 20, n_groups)
    y = (np.arange(n_groups) % 15 == 0).astype(int)
    given = {"measure": partial(log_loss, labels=[0, 1]), "n_resamples": 1000}
    found = [calibration_error_interval(y, p, random_state=seed, **given) for seed in range(3)]
    mean = calibration_error_interval(y, p, method="jackknife", **given)
    assert [(one.low, one.high) for one in found] == [(mean.low, mean.high)] * 3
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
    given = {"measure": measure, "n_resamples": 9, "random_state": 0}
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


def test_function_measures_match_named_measures():
    """Both draw labels from the same probabilities."""
    y, P = sample(150, 1.2)
    of_function = partial(expected_calibration_error, labels=range(3))
    by_name, by_function = (
        calibration_test(y, P, measure=measure, n_resamples=399, random_state=0).pvalue
        for measure in ("expected_calibration_error", of_function)
    )
    assert 0.2 < by_name < 0.8
    assert by_function == pytest.approx(by_name, abs=0.08)


def test_models_are_compared_by_a_measure_without_bias():
    y, P = sample(300, 1.5)
    found = calibration_difference(y, P, P[::-1], n_resamples=9, random_state=0)
    measure = debiased_root_mean_squared_calibration_error
    assert found.estimate == pytest.approx(measure(y, P) - measure(y, P[::-1]))
    with pytest.raises(ValueError, match=r"of the same shape, got \(300,\) and \(300, 2\)"):
        calibration_difference(y == 1, P[:, 1], np.c_[1 - P[:, 1], P[:, 1]])
