"""The rate from few labels and many scores: the formula, invariances and coverage."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import beta, binom, norm

from skcalib import PlattScaling
from skcalib.judge import calibrated_mean, calibrated_mean_difference


@st.composite
def problems(draw):
    """Labels and scores of labelled rows and of all, of good, useless and negative scores."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n, rate = draw(st.sampled_from([3, 30, 200])), draw(st.sampled_from([0, 0.1, 0.5, 1]))
    y = rng.uniform(size=10 * n) < rate
    s = rng.normal(draw(st.sampled_from([-2, 0, 2])) * y, 1)
    s = np.exp(1.2 * s) if draw(st.booleans()) else s  # where power tuning matters
    return y, np.round(s, draw(st.sampled_from([0, 5]))), n


def fields(found):
    return np.array([found.estimate, found.low, found.high, found.n_effective])


@pytest.mark.filterwarnings("ignore::families.ReversedOrderWarning")
@given(problem=problems(), level=st.sampled_from([0.8, 0.95]))
def test_estimate_and_interval_are_the_formula(problem, level):
    y, s, n = problem
    found = calibrated_mean(y[:n], s[:n], s, confidence_level=level)
    y, f_all = y[:n].astype(float), np.full(len(s), y.mean())
    if 0 < y.mean() < 1:
        f_all = PlattScaling().fit(3 * s[:n, None] - 40, y).predict_proba(3 * s[:, None] - 40)[:, 1]
    f, c = f_all[:n], norm.ppf((1 + level) / 2) ** 2 / 2
    slope = min(max(np.polyfit(f, y, 1)[0], 0), 1) if np.ptp(f) > 0 else 0
    r = y - slope * f
    theta = y.mean() + slope * (f_all.mean() - f.mean())
    V = (n * r.var() + c) / (n * (n - 2)) + slope**2 * f_all.var() / len(s)
    n_effective = (n * y.var() + c) / (n - 1) / V
    hits, tail = theta * n_effective, (1 - level) / 2
    low = beta.ppf(tail, hits, n_effective - hits + 1) if hits > 0 else 0
    high = beta.ppf(1 - tail, hits + 1, n_effective - hits) if hits < n_effective else 1
    np.testing.assert_allclose(fields(found), [theta, low, high, n_effective], rtol=1e-4, atol=1e-9)
    assert found.low <= found.estimate <= found.high
    assert found.by == {}


@given(problem=problems(), seed=st.integers(0, 99))
def test_units_do_not_matter_and_weights_are_repetitions(problem, seed):
    y, s, n = problem
    rng = np.random.default_rng(seed)
    expected = fields(calibrated_mean(y[:n], s[:n], s))
    same = {"rtol": 1e-5, "atol": 1e-9}
    # Units and sign, a column, integers for booleans.
    other = calibrated_mean(y[:n].astype(int), 1e8 - s[:n, None], 1e8 - s[:, None])
    np.testing.assert_allclose(fields(other), expected, **same)
    # Weights are repetitions.
    w, w_all = rng.integers(1, 3, n), rng.integers(0, 3, len(s)) + (np.arange(len(s)) < n)
    other = calibrated_mean(y[:n], s[:n], s, sample_weight=w, sample_weight_all=w_all)
    repeated = calibrated_mean(np.repeat(y[:n], w), np.repeat(s[:n], w), np.repeat(s, w_all))
    np.testing.assert_allclose(fields(other), fields(repeated), **same)
    other = calibrated_mean(y[:n], 1e9 * s[:n], 1e9 * s)
    np.testing.assert_allclose(fields(other), expected, **same)
    # A group has the result of its rows.
    few, many = np.arange(n) % 2, np.arange(len(s)) % 2
    if n > 3:
        names = np.array(["left", "right"])
        found = calibrated_mean(y[:n], s[:n], s, by=names[few], by_all=names[many])
        np.testing.assert_allclose(fields(found), expected)
        assert list(found.by) == ["left", "right"]
        for k, name in enumerate(names):
            alone = calibrated_mean(y[:n][few == k], s[:n][few == k], s[many == k])
            np.testing.assert_allclose(fields(found.by[name]), fields(alone))


def test_labels_of_all_rows_are_their_mean_and_scores_without_information_cost_little():
    rng = np.random.default_rng(0)
    y, s = rng.integers(2, size=100), rng.normal(size=100)
    found = calibrated_mean(y, s, s)
    assert found.estimate == pytest.approx(y.mean())
    constant = calibrated_mean(y, np.ones(100), np.ones(1000))
    assert constant.estimate == y.mean()
    assert constant.n_effective == pytest.approx(100 * 98 / 99)
    # A judge that is always right is worth many labels, but not all rows.
    found = calibrated_mean(y, y, np.tile(y, 100))
    assert 400 < found.n_effective < 2000
    # A rate of 0 is uncertain, too.
    assert calibrated_mean(np.zeros(30), rng.normal(size=30), rng.normal(size=300)).high > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.5, 0.01])
@pytest.mark.parametrize("separation", [4, 0, -1.5])
@pytest.mark.parametrize("n", [30, 300])
def test_intervals_cover_and_are_narrow(rate, separation, n):
    rng, covered, widths = np.random.default_rng(0), [], []
    for _ in range(150):
        y = rng.uniform(size=3000) < rate
        s = rng.normal(separation * y, 1)
        found = calibrated_mean(y[:n], s[:n], s)
        classical = calibrated_mean(y[:n], np.zeros(n), np.zeros(3000))
        covered.append(found.low <= rate <= found.high)
        widths.append((found.high - found.low) / (classical.high - classical.low))
    assert np.mean(covered) > 0.95 - 3 * np.sqrt(0.95 * 0.05 / 150)
    assert np.mean(widths) < (0.9 if separation and (n, rate) == (300, 0.5) else 1.03)


Y, S, MANY = [0, 1, 0, 1], [0.1, 0.9, 0.3, 0.2], np.linspace(0, 1, 20)
FEW_GROUPS, GROUPS = ["a", "a", "a", "b"], ["a"] * 10 + ["b"] * 10


@pytest.mark.parametrize(
    ("args", "word"),
    [
        ((["no", "yes"] * 2, S, MANY), "y == label"),
        ((S, Y, MANY), "swapped"),
        ((Y, MANY, S), "20 and 4"),
        ((Y, S, S[:3]), "4 and 3"),
        ((Y, [0.1, np.nan, 0, 1], MANY), "score_labelled .*1 of 4 .*middle .*FusionCalibrator"),
        ((Y, S, [*MANY, np.inf, -np.inf]), "score_all .*2 of 22"),
        ((Y, ["a"] * 4, MANY), "score_labelled"),
        ((Y, np.ones((4, 2)), MANY), "one column"),
        ((Y[:2], S[:2], MANY), "3 rows"),
    ],
)
def test_wrong_labels_and_scores_are_named(args, word):
    with pytest.raises(ValueError, match=f"(?s){word}"):
        calibrated_mean(*args)


@pytest.mark.parametrize(
    ("params", "word"),
    [
        ({"sample_weight": [1, 1, 0, 0]}, "3 rows"),
        ({"sample_weight": [0.25] * 4}, r"len\(w\)"),
        ({"by": FEW_GROUPS}, "by_all"),
        ({"by": GROUPS, "by_all": GROUPS}, "20 and 20"),
        ({"by": FEW_GROUPS, "by_all": FEW_GROUPS}, "4 and 4"),
        ({"by": ["a", "a", "a", "c"], "by_all": GROUPS}, "'c'"),
        ({"by": FEW_GROUPS, "by_all": GROUPS}, "category 'b'"),
    ],
    ids=str,
)
def test_wrong_weights_and_categories_are_named(params, word):
    with pytest.raises(ValueError, match=word):
        calibrated_mean(Y, S, MANY, **params)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_scores_of_all_precisions(dtype):
    """Half precision holds these scores exactly, and infinity is refused in all of them."""
    scores = (np.arange(40) % 16 / 4 - 2).astype(dtype)
    y = np.array(Y * 4)
    found = calibrated_mean(y, scores[:16], scores)
    assert fields(found) == pytest.approx(
        fields(calibrated_mean(y, scores[:16] * 1.0, scores * 1.0))
    )
    for place, name in ((3, "score_labelled"), (30, "score_all")):
        wrong = scores.copy()
        wrong[place] = np.inf
        with pytest.raises(ValueError, match=name):
            calibrated_mean(y, wrong[:16], wrong)


def test_groups_and_categories_together():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(120), 5)
    by = np.array(["left", "right"])[groups % 2]
    y = rng.uniform(size=120)[groups] < 0.4
    s = y + rng.normal(size=600)
    few = slice(0, 300)
    given = {"by": by[few], "by_all": by, "groups": groups[few], "groups_all": groups}
    found = calibrated_mean(y[few], s[few], s, **given)
    plain = calibrated_mean(y[few], s[few], s, by=by[few], by_all=by)
    for name in ("left", "right"):
        assert found.by[name].estimate == pytest.approx(plain.by[name].estimate)
        assert found.by[name].n_effective < 0.6 * plain.by[name].n_effective
    with pytest.raises(ValueError, match="999"):
        calibrated_mean(y[few], s[few], s, groups=np.full(300, 999), groups_all=groups)
    with pytest.raises(ValueError, match="groups_all"):
        calibrated_mean(y[few], s[few], s, groups=groups[few])


@pytest.mark.slow
def test_intervals_with_groups_cover():
    """Four equal rows in each group."""
    covered, rng = 0, np.random.default_rng(0)
    groups = np.repeat(np.arange(1000), 4)
    for _ in range(200):
        y = (rng.uniform(size=1000) < 0.3)[groups]
        s = 2 * y + rng.normal(size=1000)[groups]
        found = calibrated_mean(y[:240], s[:240], s, groups=groups[:240], groups_all=groups)
        covered += found.low <= 0.3 <= found.high
    assert covered >= binom.ppf(1e-3, 200, 0.94)


def fractional_platt(u, s):
    """Log loss of shares u of events, with the targets of Platt, by a general minimizer."""
    n_hits, n = u.sum(), len(u)
    high, low = (n_hits + 1) / (n_hits + 2), 1 / (n - n_hits + 2)
    t = u * high + (1 - u) * low

    def loss(theta):
        z = theta[0] * (s - s.mean()) + theta[1]
        return np.sum(np.logaddexp(0, z) - t * z)

    slope, offset = minimize(loss, [0.1, 0.0], tol=1e-12).x
    return lambda x: expit(slope * (x - s.mean()) + offset)


@pytest.mark.parametrize("bounds", [(0, 1), (1, 5), (-2, 0)])
@pytest.mark.parametrize("levels", [2, 3, 11, 1000])
def test_the_formula_of_ratings_and_of_their_difference(bounds, levels, rng):
    n, N, (low, high) = 60, 500, bounds
    quality, c = rng.normal(size=N), norm.ppf(0.975) ** 2 / 2
    systems, parts = [], []
    for shift in (0, 0.7):
        u = np.round((levels - 1) * expit(quality + shift + rng.normal(size=N))) / (levels - 1)
        s = quality + rng.normal(0, 0.5, N)
        y = (low + (high - low) * u)[:n]
        f_all = fractional_platt(u[:n], s[:n])(s)
        slope = min(max(np.polyfit(f_all[:n], u[:n], 1)[0], 0), 1)
        r = u[:n] - slope * f_all[:n]
        theta = r.mean() + slope * f_all.mean()
        V = (n * r.var() + c) / (n * (n - 2)) + slope**2 * f_all.var() / N
        rate = u[:n].mean()
        m = (n * rate * (1 - rate) + c) / (n - 1) / V
        a, b = np.array([theta * m, theta * m + 1]), np.array([m - theta * m + 1, m - theta * m])
        ends = beta.ppf([0.025, 0.975], a, b)
        expected = low + (high - low) * np.array([theta, *ends])
        found = calibrated_mean(y, s[:n], s, bounds=bounds)
        np.testing.assert_allclose(fields(found)[:3], expected, rtol=1e-4, atol=1e-5)
        assert found.n_effective == pytest.approx((n * u[:n].var() + c) / (n - 1) / V, rel=1e-3)
        systems += [y, s[:n], s]
        parts.append((u[:n], slope * f_all))
    (u, g), (u2, g2) = parts
    d, h = u2 - u, g2 - g
    slope = min(max(np.polyfit(h[:n], d, 1)[0], 0), 1)
    shown = d[d != 0]
    r, unseen = d - slope * h[:n], c * np.mean(shown**2) / (1 + len(shown))
    V = (n * r.var() + unseen) / (n * (n - 2)) + slope**2 * h.var() / N
    found = calibrated_mean_difference(*systems, bounds=bounds)
    reach = norm.ppf(0.975) * np.sqrt(V)
    theta = r.mean() + slope * h.mean()
    expected = (high - low) * np.array([theta, theta - reach, theta + reach])
    np.testing.assert_allclose(fields(found)[:3], expected, rtol=1e-4, atol=1e-5)
    # Never much wider than the labels alone.
    assert found.n_effective > 0.9 * n
    swapped = calibrated_mean_difference(*systems[3:], *systems[:3], bounds=bounds)
    np.testing.assert_allclose(fields(swapped)[[0, 2, 1]], -fields(found)[:3])


def test_events_are_ratings_of_two_levels(rng):
    y, s = rng.integers(2, size=80), rng.normal(size=400)
    expected = fields(calibrated_mean(y, s[:80], s))
    np.testing.assert_allclose(fields(calibrated_mean(y, s[:80], s, bounds=(0, 1))), expected)
    rated = fields(calibrated_mean(1 + 4 * y, s[:80], s, bounds=(1, 5)))
    np.testing.assert_allclose(rated, [*(1 + 4 * expected[:3]), expected[3]])


def test_paired_difference_is_narrower_than_two_intervals_and_knows_groups(rng):
    groups = np.repeat(np.arange(100), 5)
    quality = rng.normal(size=100)[groups]
    one, two = quality > 0, quality + rng.normal(0, 0.2, 500) > 0.1
    s, few = quality + rng.normal(size=500), slice(0, 200)
    args = one[few], s[few], s, two[few], s[few], s
    found = calibrated_mean_difference(*args)
    alone = [calibrated_mean(y[few], s[few], s) for y in (one, two)]
    assert found.estimate == pytest.approx(alone[1].estimate - alone[0].estimate, abs=0.01)
    assert found.high - found.low < 0.7 * sum(part.high - part.low for part in alone)
    grouped = calibrated_mean_difference(*args, groups=groups[few], groups_all=groups)
    assert grouped.estimate == found.estimate
    assert grouped.n_effective < found.n_effective
    with pytest.raises(ValueError, match="same rows"):
        calibrated_mean_difference(*args[:3], one[:100], s[:100], s)


@pytest.mark.parametrize("n_differ", [0, 3])
def test_differences_in_groups_of_equal_rows_count_each_group_once(rng, n_differ):
    """Six equal rows are one row, for the differences that labels show and those that they hide."""
    y, s = rng.integers(2, size=100), rng.normal(size=300)
    other = np.where(np.arange(100) < n_differ, 1 - y, y)
    rows = y, s[:100], s, other, s[:100], s
    one = calibrated_mean_difference(*rows)
    six, groups = (np.repeat(values, 6) for values in rows), np.repeat(np.arange(300), 6)
    with pytest.warns(UserWarning, match=f"10 groups in which .* got {n_differ}"):
        grouped = calibrated_mean_difference(*six, groups=groups[:600], groups_all=groups)
    assert grouped.high - grouped.low == pytest.approx(one.high - one.low, rel=0.05)


@pytest.mark.parametrize(
    ("y", "bounds", "word"),
    [
        ([1, 2, 3, 6], (1, 5), "got .*6"),
        ([1, 2, 3, np.nan], (1, 5), "NaN"),
        (list("abcd"), (1, 5), "bounds"),
        (Y, (5, 1), "bounds"),
        (Y, (0, np.inf), "bounds"),
        ([1, 2, 3, 4], None, "bounds"),
    ],
)
def test_wrong_ratings_and_bounds_are_named(y, bounds, word):
    with pytest.raises(ValueError, match=word):
        calibrated_mean(y, S, MANY, bounds=bounds)
    with pytest.raises(ValueError, match=word):
        calibrated_mean_difference(y, S, MANY, y, S, MANY, bounds=bounds)


@pytest.mark.parametrize(
    ("other", "bounds", "name"),
    [
        ((["no", "yes"] * 2, S, MANY), None, "other_y .*other_y =="),
        (([1, 2, 3, 6], S, MANY), (0, 5), "other_y"),
        ((S, Y, MANY), None, r"other_y and other_score_labelled .*other_y\.$"),
        (([0, None, 0, 1], S, MANY), None, "other_y"),
        ((Y, [0.1, np.nan, 0, 1], MANY), None, "other_score_labelled"),
        ((Y, S, np.append(MANY[1:], np.inf)), None, "other_score_all"),
        ((Y, S, MANY.astype(str)), None, "other_score_all"),
    ],
)
def test_messages_name_the_arguments_of_the_other_system(other, bounds, name):
    with pytest.raises(ValueError, match=f"(?s)^(Input )?{name}"):
        calibrated_mean_difference(Y, S, MANY, *other, bounds=bounds)
