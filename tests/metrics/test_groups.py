"""Intervals and tests of rows that belong to groups, such as the visits of a patient."""

import warnings
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
from families import benchmark
from scipy.special import expit, logit
from scipy.stats import binom, t as student, ttest_1samp
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from skcalib import clinical
from skcalib.clinical import calibration_intercept, calibration_slope, optimism_corrected
from skcalib.conditional import multicalibration_error
from skcalib.decision import selective_threshold
from skcalib.judge import calibrated_mean
from skcalib.metrics import (
    calibration_difference,
    calibration_error_interval,
    calibration_test,
    reliability_curve,
)

SIX = np.repeat(np.arange(60), 6)


def sample(n, seed=0, gap=0.0):
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 4, size=n)
    return (rng.uniform(size=n) < np.clip(p - gap, 0, 1)).astype(int), p


def mean_log_loss(y_true, y_proba, *, sample_weight=None):
    """As scikit-learn's log_loss, whose checks take nearly all the time of a simulation."""
    losses = -np.log(np.where(y_true == 1, y_proba, 1 - y_proba))
    return np.average(losses, weights=sample_weight)


def of_three(n, seed=0):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(3), size=n)
    return (P.cumsum(axis=1)[:, :-1] < rng.uniform(size=(n, 1))).sum(axis=1), P


# --------------------------------------------------------------------------------------
# Groups of one row are no groups, and groups of equal rows are single rows.


FUNCTIONS = {
    "interval": calibration_error_interval,
    "smooth interval": partial(calibration_error_interval, measure="smooth_calibration_error"),
    "loss": partial(calibration_error_interval, measure=mean_log_loss),
    "test": calibration_test,
    "z": partial(calibration_test, measure="spiegelhalter_z"),
    "difference": lambda y, p, **params: calibration_difference(y, p, p**2, **params),
    "slope": calibration_slope,
    "intercept": calibration_intercept,
    "index": partial(clinical.integrated_calibration_index, confidence_level=0.9),
    "segments": lambda y, p, **params: multicalibration_error(y, p, p > 0.3, **params),
}


def run(name, y, p, **params):
    """Numbers of the result, with few resamples."""
    if name not in {"slope", "intercept"}:
        params |= {"n_resamples": 19, "random_state": 0}
    values = vars(FUNCTIONS[name](y, p, **params)).values()
    return [value for value in values if isinstance(value, float)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_groups_of_single_rows_match_no_groups(name):
    y, p = sample(80)
    assert run(name, y, p, groups=np.arange(80)[::-1]) == run(name, y, p)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_fewer_than_twenty_groups_warn(name):
    y, p = sample(60)
    with pytest.warns(UserWarning, match="20 groups .*got 6"):
        run(name, y, p, groups=np.arange(60) % 6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows_without_weight_are_in_no_group(name):
    y, p = sample(120)
    groups, kept = np.arange(120) % 40, np.arange(120) % 5 > 0
    w = kept.astype(float)
    alone = run(name, y[kept], p[kept], groups=groups[kept], sample_weight=w[kept])
    assert run(name, y, p, groups=groups, sample_weight=w) == alone


@pytest.mark.parametrize(
    "measure", ["expected_calibration_error", "smooth_calibration_error", "spiegelhalter_z"]
)
def test_p_value_of_equal_rows_matches_single_rows(measure):
    """Labels are drawn that are equal within groups; single rows have other random numbers."""
    y, p = sample(60, gap=0.1)
    given = {"measure": measure, "n_resamples": 99, "random_state": 0, "kind": "binary"}
    test = partial(calibration_test, **given)
    together = test(y[SIX], p[SIX], groups=SIX).pvalue
    assert together == pytest.approx(test(y, p).pvalue, abs=0.1)
    assert test(y[SIX], p[SIX]).pvalue < 0.5 * together


@pytest.mark.parametrize("kind", ["top-label", "classwise"])
def test_p_value_of_equal_rows_of_several_classes(kind):
    y, P = of_three(60)
    test = partial(calibration_test, kind=kind, n_resamples=99, random_state=0)
    assert test(y[SIX], P[SIX], groups=SIX).pvalue == pytest.approx(test(y, P).pvalue, abs=0.05)


def test_segments_of_equal_rows_have_the_p_value_of_single_rows():
    y, p = sample(60, gap=0.1)
    test = partial(multicalibration_error, n_resamples=99, random_state=0)
    side = np.array(["left", "right"])[np.arange(60) % 2]
    one, six = test(y, p, side), test(y[SIX], p[SIX], side[SIX], groups=SIX)
    assert six.pvalue == pytest.approx(one.pvalue, abs=0.05)
    assert six.statistic == pytest.approx(one.statistic, rel=0.1)
    assert six.high[0] - six.low[0] == pytest.approx(one.high[0] - one.low[0], rel=0.1)


def test_rows_that_are_right_together_keep_the_level():
    """A question and its negation: the residuals of both cancel if their events are drawn."""
    rng = np.random.default_rng(0)
    q = rng.uniform(0.8, 0.99, 200)
    right = np.arange(200) % 20 >= 3  # more wrong answers than expected
    y, p = np.stack([right, ~right], 1).ravel() * 1, np.stack([q, 1 - q], 1).ravel()
    groups = np.repeat(np.arange(200), 2)
    given = {"measure": "spiegelhalter_z", "n_resamples": 999, "random_state": 0}
    together = calibration_test(y, p, groups=groups, **given)
    one = calibration_test(y[::2], p[::2], **given)
    assert together.pvalue == pytest.approx(one.pvalue, abs=0.05)
    assert abs(together.statistic) == pytest.approx(abs(one.statistic), rel=0.1)


def test_effective_rows_of_equal_rows_are_groups():
    y, p = sample(60)
    one = reliability_curve(y, p, n_bins=4, kind="binary")
    six = reliability_curve(y[SIX], p[SIX], n_bins=4, kind="binary", groups=SIX)
    assert (six.n_samples == 6 * one.n_samples).all()
    np.testing.assert_array_equal(six.n_groups, one.n_samples)
    few = one.n_samples > 2
    np.testing.assert_allclose(six.n_effective[few], one.n_samples[few])
    (low, high), (low1, high1) = six.interval(), one.interval()
    assert (low <= low1 + 1e-12).all()
    assert (high >= high1 - 1e-12).all()
    free = reliability_curve(y, p, n_bins=4, kind="binary", groups=np.arange(60))
    assert free.n_groups is None


@pytest.mark.parametrize("kind", ["top-label", "classwise"])
def test_effective_rows_lie_between_groups_and_rows(kind):
    y, P = of_three(300)
    curve = reliability_curve(y, P, kind=kind, groups=np.arange(300) % 30)
    plain = reliability_curve(y, P, kind=kind)
    assert (curve.n_effective <= plain.n_effective + 1e-9).all()
    assert (curve.n_effective > 0).all()
    assert (curve.n_effective < plain.n_effective).any()


def test_thresholds_of_equal_rows_match_single_rows():
    y, P = of_three(400, seed=3)
    P = P**3 / (P**3).sum(axis=1, keepdims=True)
    y = np.where(np.arange(400) % 4 == 0, y, P.argmax(axis=1))
    one = selective_threshold(y, P, risk=0.1)
    repeated = np.repeat(np.arange(400), 3)
    three = selective_threshold(y[repeated], P[repeated], risk=0.1, groups=repeated)
    for name in ("threshold", "coverage", "risk"):
        assert getattr(three, name) == pytest.approx(getattr(one, name)), name
    assert selective_threshold(y[repeated], P[repeated], risk=0.1).coverage > one.coverage
    with pytest.warns(UserWarning, match="20 groups .*got 4"):
        selective_threshold(y, P, groups=np.arange(400) % 4)


def test_mean_of_equal_rows_is_as_uncertain_as_that_of_single_rows():
    y, p = sample(500)
    few = slice(0, 100)
    repeated = np.repeat(np.arange(500), 4)
    one = calibrated_mean(y[few], logit(p[few]), logit(p))
    four = calibrated_mean(
        y[repeated][:400], logit(p[repeated][:400]), logit(p[repeated]),
        groups=repeated[:400], groups_all=repeated,
    )  # fmt: skip
    plain = calibrated_mean(y[repeated][:400], logit(p[repeated][:400]), logit(p[repeated]))
    assert four.estimate == pytest.approx(one.estimate, abs=0.01)
    assert four.high - four.low == pytest.approx(one.high - one.low, rel=0.1)
    assert plain.high - plain.low < 0.6 * (four.high - four.low)
    assert four.n_effective == pytest.approx(one.n_effective, rel=0.15)


def test_benefit_of_equal_rows_is_as_uncertain_as_that_of_single_rows():
    y, p = sample(60)
    for standardized in (False, True):
        curve = partial(
            clinical.net_benefit_curve, standardized=standardized, thresholds=[0.1, 0.3]
        )
        one, six = curve(y, p), curve(y[SIX], p[SIX], groups=SIX)
        np.testing.assert_allclose(six.net_benefit, one.net_benefit)
        np.testing.assert_allclose(six.high - six.low, one.high - one.low, rtol=0.04)
        plain = curve(y[SIX], p[SIX])
        assert (plain.high - plain.low < 0.5 * (one.high - one.low)).all()


def test_the_net_benefit_of_no_treated_row_has_limits_of_no_event():
    """None of n rows: the rate may be up to 1 - 0.025 ** (1 / n)."""
    y, p = np.arange(300) % 50 == 0, np.full(300, 0.02)
    most = 1 - 0.025 ** (1 / 300)
    found = clinical.net_benefit_curve(y, p, thresholds=[0.2])
    assert (found.low[0], found.high[0]) == pytest.approx((-most / 4, most))
    six = clinical.net_benefit_curve(
        np.repeat(y, 6), np.repeat(p, 6), thresholds=[0.2], groups=np.repeat(np.arange(300), 6)
    )
    assert six.high[0] == pytest.approx(most, rel=0.02)


def test_limits_of_a_difference_of_errors_allow_for_opposite_errors_of_groups():
    y, p = sample(300)
    q = expit(1.1 * logit(p))
    options = {"groups": np.arange(300) // 3, "n_resamples": 199, "random_state": 0}
    measure = "expected_calibration_error"
    first, second = (calibration_error_interval(y, P, measure=measure, **options) for P in (p, q))
    found = calibration_difference(y, p, q, measure=measure, **options)
    assert found.pvalue > 0.05
    further = second.high - second.estimate + first.estimate - first.low
    assert found.high >= found.estimate + further - 1e-12


def test_a_few_large_groups_count_as_few():
    """Two groups with most rows: the interval has the t quantile of about one degree of freedom."""
    y, p = sample(1000)
    y[:900] = np.arange(900) % 3 == 0
    even = np.arange(1000) % 100
    uneven = np.r_[np.arange(800) % 2, 2 + np.arange(200) % 98]
    for interval in (
        partial(clinical.net_benefit_curve, y, p, thresholds=[0.2]),
        partial(calibration_error_interval, y, p, measure=mean_log_loss),
        partial(calibration_slope, y, p),
    ):
        few, many = interval(groups=uneven), interval(groups=even)
        assert np.all(few.high - few.low > 1.8 * (many.high - many.low))


@pytest.mark.parametrize("name", ["interval", "loss", "difference", "slope", "intercept", "index"])
def test_few_groups_with_an_event_give_one_warning(name):
    y, p = sample(600)
    y[:] = np.arange(600) % 100 == 0
    with pytest.warns(UserWarning, match="10 independent groups .*got 6") as caught:
        run(name, y, p, groups=np.arange(600) // 6)
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize(("n_wrong", "warns"), [(2, True), (7, False)])
def test_losses_warn_if_a_few_groups_have_most_of_the_wrong_predictions(n_wrong, warns):
    """Events are frequent. A few groups are wrong, and one row of some other groups."""
    groups, event = np.repeat(np.arange(24), 6), np.arange(144) % 2 == 0
    wrong = (groups < n_wrong) | ((groups < 14) & (np.arange(144) % 6 == 0))
    p = np.where(event != wrong, 0.9, 0.1)
    message = "7 groups with wrong .* got about 3"
    with pytest.warns(UserWarning, match=message) if warns else nullcontext():
        calibration_error_interval(event, p, measure=log_loss, groups=groups)
    calibration_error_interval(event, p, groups=groups, n_resamples=9)  # an error, no loss


@pytest.mark.parametrize(("n_wrong", "warns"), [(2, True), (14, False)])
def test_differences_of_errors_warn_if_few_groups_have_wrong_predictions(n_wrong, warns):
    """Questions and their negations: each group has both outcomes, but few groups are wrong."""
    groups, turn = np.repeat(np.arange(24), 2), np.arange(48) % 2
    p = np.where(turn, 0.1, 0.9)
    event = (groups < n_wrong) == turn
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calibration_difference(event, p, p**2, groups=groups, n_resamples=39)
    assert [one.filename for one in caught] == [__file__] * warns
    assert all("7 groups with wrong predictions, got about 2" in str(o.message) for o in caught)


# --------------------------------------------------------------------------------------
# Formulas.


def logistic_fit(design, y, offset=0.0):
    """Coefficients, residuals and variances of the events."""
    beta = np.zeros(design.shape[1])
    for _ in range(50):
        p = expit(design @ beta + offset)
        hessian = (design.T * p * (1 - p)) @ design
        beta = beta + np.linalg.solve(hessian, design.T @ (y - p))
    return beta, y - p, p * (1 - p)


def logistic_jackknife(design, y, groups, offset=0.0):
    """Estimate, standard error and degrees of freedom of the first coefficient, by loops."""
    beta, residual, variance = logistic_fit(design, y, offset)
    names, squares = np.unique(groups), []
    for name in names:
        kept = groups != name
        hessian = (design[kept].T * variance[kept]) @ design[kept]
        squares.append(np.linalg.solve(hessian, design[kept].T @ residual[kept])[0] ** 2)
    total = sum(squares)
    error = np.sqrt(total * (len(names) - 1) / len(names))
    return beta[0], error, total**2 / sum(square**2 for square in squares) - 1


def slope_and_intercept(y, p, formula):
    """Results of a formula for both figures."""
    z, ones = logit(p), np.ones((len(y), 1))
    return {
        calibration_slope: formula(np.c_[z, ones], y),
        calibration_intercept: formula(ones, y, offset=z),
    }


def test_slope_and_intercept_have_errors_of_the_jackknife_of_groups():
    y, p = sample(240, seed=4)
    groups = np.repeat(["a", *map(str, range(39))], [*range(1, 12), *[6] * 29])
    expected = slope_and_intercept(y, p, partial(logistic_jackknife, groups=groups))
    for figure, (estimate, error, freedom) in expected.items():
        found = figure(y, p, groups=groups, confidence_level=0.9)
        assert found.estimate == pytest.approx(estimate, rel=1e-5)
        reach = student.ppf(0.95, freedom) * error
        assert (found.high - found.low) / 2 == pytest.approx(reach, rel=1e-5)
        assert found.high + found.low == pytest.approx(2 * estimate, rel=1e-5, abs=1e-6)


@pytest.mark.filterwarnings("ignore:.*20 groups")
def test_interval_is_infinite_if_a_group_alone_determines_the_figure():
    y, p = sample(60)
    halves = np.arange(60) // 30
    slope = calibration_slope(y, 0.2 + 0.2 * halves, groups=halves)
    one = {"groups": np.zeros(60)}
    loss = calibration_error_interval(y, p, measure="log_loss", **one)
    for found in (slope, calibration_intercept(y, p, **one), loss):
        assert np.isfinite(found.estimate)
        assert (found.low, found.high) == (-np.inf, np.inf)


def test_optimism_is_estimated_from_whole_groups():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(30), 4)
    X = rng.normal(size=(30, 2))[groups]
    y = (X[:, 0] + rng.normal(size=30)[groups] > 0).astype(int)
    seen = []

    class Spy(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            seen.append(X)
            return super().fit(X, y, sample_weight)

    optimism_corrected(Spy(), X, y, groups=groups, n_resamples=5, random_state=0)
    for drawn in seen[1:]:
        times = np.array([(drawn == X[4 * g]).all(axis=1).sum() for g in range(30)])
        assert set(times.tolist()) <= {0, 4, 8, 12, 16, 20, 24}
        assert times.sum() == 120


def test_groups_without_an_interval_are_refused():
    y, p = sample(60)
    with pytest.raises(ValueError, match="confidence_level"):
        clinical.integrated_calibration_index(y, p, groups=SIX[::6])


# --------------------------------------------------------------------------------------
# Simulations, beside the simulations of test_uncertainty.py.


@pytest.fixture(scope="module")
def simulation():
    return benchmark("simulate_inference")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Intervals")
@pytest.mark.parametrize("risks", ["uniform", "1.2 %"])
def test_slopes_and_means_of_groups_cover(simulation, risks):
    structure = simulation.Structure(200, "30", "correlated", risks)
    for name in ("slope", "intercept", "mean", "log loss"):
        found = simulation.simulate("coverage", name, structure, range(60))
        assert found.hits >= binom.ppf(1e-3, found.draws, 0.95)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::families.FewGroupsWarning")
@pytest.mark.parametrize("n_groups", [20, 50])
def test_skewed_scores_and_differences_of_few_groups_cover(n_groups):
    """Differences without a correction cover 85 and 91 %."""
    rng, n_draws = np.random.default_rng(0), 400
    p = rng.uniform(size=100_000)
    q = expit(1.5 * logit(p))
    true = np.mean(p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q)))
    loss = np.mean(-p * np.log(q) - (1 - p) * np.log(1 - q))
    groups, covered = np.repeat(np.arange(n_groups), 2), np.zeros(2)
    given = {"groups": groups, "measure": mean_log_loss, "n_resamples": 99, "labels": [0, 1]}
    for _ in range(n_draws):
        p = rng.uniform(size=n_groups)[groups]
        y, q = (rng.uniform(size=n_groups)[groups] < p).astype(int), expit(1.5 * logit(p))
        difference = calibration_difference(y, p, q, **given)
        single = calibration_error_interval(y, q, **given)
        covered += difference.low <= true <= difference.high, single.low <= loss <= single.high
    assert (covered >= binom.ppf(1e-3, n_draws, 0.935)).all()


def of_mean(terms, level=0.95):
    """Difference of the mean of a second model with such terms from the mean of a first one."""
    unit = 0.5 / np.abs(terms).max()
    found = calibration_difference(
        np.arange(len(terms)) % 2, np.full(len(terms), 0.5), 0.5 + unit * terms,
        measure=lambda y_true, y_proba, sample_weight=None: np.average(
            y_proba, weights=sample_weight
        ),
        n_resamples=10 * len(terms), confidence_level=level, labels=[0, 1],
    )  # fmt: skip
    return found.low / unit, found.high / unit, found.pvalue


def test_the_interval_of_skewed_terms_holds_zero_unless_the_test_rejects():
    rng = np.random.default_rng(0)
    for _ in range(60):
        terms = rng.exponential(size=12) - 0.8
        low, high, pvalue = of_mean(terms, 0.9)
        assert low < terms.mean() < high
        assert (low <= 0 <= high) == (pvalue >= 0.1)


@pytest.mark.parametrize("n", [12, 50])
def test_an_outlier_moves_an_end_away_by_about_half_of_its_distance(n):
    """Without a bound one outlier of 12 terms moves an end from 2.2 to 7 standard errors."""
    terms = np.append(np.linspace(0, 0.1, n - 1), 5.0)
    mean, error = terms.mean(), terms.std(ddof=1) / np.sqrt(n)
    for sign in (1, -1):
        for level in (0.9, 0.95, 0.999):
            low, high, _ = of_mean(sign * terms, level)
            reach = student.ppf((1 + level) / 2, n - 1) * error
            assert 0.7 * reach < min(high - sign * mean, sign * mean - low) < reach
            assert reach < max(high - sign * mean, sign * mean - low) < 1.6 * reach


def test_the_interval_of_symmetric_terms_is_the_t_interval():
    terms = np.linspace(-1, 3, 11)
    low, high, pvalue = of_mean(terms)
    expected = ttest_1samp(terms, popmean=0)
    assert (low, high) == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert pvalue == pytest.approx(expected.pvalue)


@pytest.mark.slow
def test_debiased_errors_of_calibrated_groups_are_seldom_rejected():
    """The drawn labels and the given ones subtract the noise of the same number of rows."""
    rejected, groups = 0, np.repeat(np.arange(50), 6)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        p = expit(4 * rng.normal(size=300))
        y = (rng.uniform(size=50)[groups] < p).astype(int)
        found = calibration_test(
            y, p, measure="debiased_root_mean_squared_calibration_error", groups=groups,
            n_resamples=39, random_state=seed,
        )  # fmt: skip
        rejected += found.pvalue <= 0.05
    assert rejected <= 5  # 2 are expected; 13 with effective numbers of rows


@pytest.mark.slow
def test_groups_that_depend_in_opposite_ways_keep_the_level():
    """Half of the groups have events together, half are right together: one draw would not do."""
    rejected, groups = 0, np.repeat(np.arange(200), 6)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        p, u = rng.beta(4, 4, size=1200), rng.uniform(size=200)[groups]
        right = np.where(u < np.maximum(p, 1 - p), p > 0.5, p <= 0.5)
        y = np.where(groups % 2 == 0, right, u < p)
        given = {"n_bins": 1, "groups": groups, "n_resamples": 39, "random_state": seed}
        rejected += calibration_test(y, p, **given).pvalue <= 0.05
    assert rejected <= binom.ppf(0.999, 60, 0.05)


@pytest.mark.parametrize("measure", ["ece", "brier"])
def test_rare_labels_in_few_groups_warn(measure):
    """Each of several labels may be rare, and a rare wrong class too."""
    rng = np.random.default_rng(0)
    groups, P = np.repeat(np.arange(40), 2), np.full((80, 3), 0.01)
    y = np.zeros((80, 3), int)
    y[[3, 20], [0, 1]] = 1
    names = {"ece": "multilabel_calibration_error", "brier": "multilabel_brier_score"}
    given = {"groups": groups, "n_resamples": 19, "measure": names[measure]}
    with pytest.warns(UserWarning, match="event.*got 2"):
        calibration_error_interval(y, P, **given)
    often = (rng.uniform(size=(80, 3)) < 0.3).astype(int)
    calibration_error_interval(often, P + 0.29, **given)  # no warning


def test_more_bins_than_groups_warn():
    y, p = sample(60)
    given = {"n_resamples": 19, "groups": np.arange(60) // 2}
    with pytest.warns(UserWarning, match="n_bins"):
        calibration_error_interval(y, p, n_bins=61, **given)
    calibration_error_interval(y, p, n_bins=60, **given)  # no warning


@pytest.mark.parametrize(("n_groups", "equal"), [(60, True), (200, False)])
def test_segments_of_groups_keep_the_level(n_groups, equal):
    rejected, groups = 0, np.repeat(np.arange(n_groups), 6)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        p = rng.beta(1, 4, size=n_groups)[groups] if equal else rng.beta(1, 4, size=len(groups))
        y = (rng.uniform(size=n_groups)[groups] < p).astype(int)
        # Equal numbers of groups per segment, because few would be warned of.
        features = np.stack([rng.permutation(n_groups) % 5 for _ in range(2)], axis=1)[groups]
        found = multicalibration_error(
            y, p, features, categorical_features=[0, 1], groups=groups, n_resamples=39,
            random_state=seed, labels=[0, 1],
        )  # fmt: skip
        rejected += found.pvalue <= 0.05
    assert rejected <= binom.ppf(0.999, 60, 0.06)


@pytest.mark.slow
def test_promised_risks_are_kept_with_groups():
    """Six equal rows in each group; independent rows would break the promise in 13 %."""
    groups, broken = np.repeat(np.arange(200), 6), 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        s = rng.uniform(0.5, 1, size=200)[groups]
        right = (rng.uniform(size=200)[groups] < s).astype(int)
        given = {"risk": 0.1, "kind": "binary", "labels": [0, 1]}
        found = selective_threshold(right, s, groups=groups, **given)
        broken += np.isfinite(found.threshold) and (1 - found.threshold) / 2 > 0.1
    assert broken <= binom.ppf(0.999, 200, 0.05)
