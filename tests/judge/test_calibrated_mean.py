"""The rate from few labels and many scores: the formula, invariances and coverage."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import beta, binom, norm

from skcalib import PlattScaling
from skcalib.judge import calibrated_mean


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


@pytest.mark.filterwarnings("ignore::skcalib._warnings.ReversedOrderWarning")
@given(problem=problems(), level=st.sampled_from([0.8, 0.95]))
def test_the_formula(problem, level):
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
def test_units_weights_order_and_groups(problem, seed):
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
def test_coverage_and_width(rate, separation, n):
    rng, covered, widths = np.random.default_rng(0), [], []
    for _ in range(300):
        y = rng.uniform(size=3000) < rate
        s = rng.normal(separation * y, 1)
        found = calibrated_mean(y[:n], s[:n], s)
        classical = calibrated_mean(y[:n], np.zeros(n), np.zeros(3000))
        covered.append(found.low <= rate <= found.high)
        widths.append((found.high - found.low) / (classical.high - classical.low))
    assert np.mean(covered) > 0.95 - 3 * np.sqrt(0.95 * 0.05 / 300)
    assert np.mean(widths) < (0.9 if separation and (n, rate) == (300, 0.5) else 1.03)


Y, S, MANY = [0, 1, 0, 1], [0.1, 0.9, 0.3, 0.2], np.linspace(0, 1, 20)
FEW_GROUPS, GROUPS = ["a", "a", "a", "b"], ["a"] * 10 + ["b"] * 10


@pytest.mark.parametrize(
    ("args", "params", "message"),
    [
        ((["no", "yes"] * 2, S, MANY), {}, "0 and 1, or booleans, .*'no'.*y == label"),
        ((S, Y, MANY), {}, "y and score_labelled are probably swapped"),
        ((Y, MANY, S), {}, "4 labels in y, .*got 20 and 4.*not swapped"),
        ((Y, S, S[:3]), {}, "the scores of all rows, .*got 4 and 3"),
        ((Y, [0.1, np.nan, 0, 1], MANY), {}, "score_labelled must .* 1e.100 .*got 1 of 4 that"),
        ((Y, S, [*MANY, np.inf, -np.inf]), {}, "score_all must .*got 2 of 22 .*middle of the"),
        ((Y, ["a"] * 4, MANY), {}, "score_labelled must hold one number .*<U1"),
        ((Y, np.ones((4, 2)), MANY), {}, r"got shape \(4, 2\) .*one column of"),
        ((Y[:2], S[:2], MANY), {}, "At least 3 rows must be labelled, .*got 2. Label more"),
        ((Y, S, MANY), {"sample_weight": [1, 1, 0, 0]}, "At least 3 .*got 2"),
        ((Y, S, MANY), {"sample_weight": [0.25] * 4}, r"a weight of 2 .*got 1.* by len\(w\) / sum"),
        ((Y, S, MANY), {"confidence_level": 95}, "confidence_level must be a number between"),
        ((Y, S, MANY), {"by": FEW_GROUPS}, "got by only. Pass by_all as well"),
        ((Y, S, MANY), {"by": GROUPS, "by_all": GROUPS}, "got 20 and 20 for 4 and 20 rows"),
        (
            (Y, S, MANY),
            {"by": FEW_GROUPS, "by_all": FEW_GROUPS},
            "got 4 and 4 for 4 and 20",
        ),
        (
            (Y, S, MANY),
            {"by": ["a", "a", "a", "c"], "by_all": GROUPS},
            r"by must be among by_all, got others: \['c'\]",
        ),
        (
            (Y, S, MANY),
            {"by": FEW_GROUPS, "by_all": GROUPS},
            "At least 3 rows must be labelled, .*got 1 in category 'b'",
        ),
    ],
)
def test_messages(args, params, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        calibrated_mean(*args, **params)


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
        with pytest.raises(ValueError, match=f"{name} must hold finite numbers"):
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
    with pytest.raises(ValueError, match=r"groups must be among groups_all, got others: \[999\]"):
        calibrated_mean(y[few], s[few], s, groups=np.full(300, 999), groups_all=groups)
    with pytest.raises(ValueError, match=r"got groups only. Pass groups_all as well"):
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
