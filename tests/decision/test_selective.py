"""Selective prediction: the definitions, conventions for ties and weights, and the guarantee."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import beta

from skcalib.decision import area_under_risk_coverage, risk_coverage_curve, selective_threshold
from skcalib.metrics import calibration_error_interval, calibration_scorer


@st.composite
def problems(draw):
    """Labels, probabilities with ties, weights with zeros (or None), and the kind."""
    rng, kind = np.random.default_rng(draw(st.integers(0, 10**6))), draw(st.sampled_from([0, 1]))
    n, K = draw(st.integers(1, 30)), 2 if kind else draw(st.integers(2, 4))
    P = rng.multinomial(draw(st.sampled_from([4, 10**6])), [1 / K] * K, size=n)
    w = draw(st.sampled_from([None, rng.integers(0, 3, n) + (np.arange(n) == 0)]))
    return (
        rng.integers(K, size=n),
        P / P.sum(axis=1, keepdims=True),
        w,
        ["top-label", "binary"][kind],
    )


def literal(y, P, w, kind):
    """Threshold, coverage and risk for each distinct score, and the mean risk of the rows."""
    score, right = (P.max(axis=1), P.argmax(axis=1) == y) if kind == "top-label" else (P[:, 1], y)
    w = np.ones(len(y)) if w is None else w

    def at(t):
        accepted = w * (score >= t)
        return t, accepted.sum() / w.sum(), (accepted * (1 - right)).sum() / accepted.sum()

    points = [at(t) for t in np.unique(score[w > 0])[::-1]]
    return points, np.average(
        [at(t)[2] if v else 0 for t, v in zip(score, w, strict=True)], weights=w
    )


@given(problem=problems())
def test_curves_and_areas_are_the_definitions(problem):
    y, P, w, kind = problem
    params = {"kind": kind, "labels": range(P.shape[1])}
    points, area = literal(*problem)
    curve = risk_coverage_curve(y, P, sample_weight=w, **params)
    found = np.column_stack([curve.threshold, curve.coverage, curve.risk])
    np.testing.assert_allclose(found, points, atol=1e-12)
    assert area_under_risk_coverage(y, P, sample_weight=w, **params) == pytest.approx(area)
    excess = partial(area_under_risk_coverage, excess=True, **params)
    assert 0 <= excess(y, P, sample_weight=w) <= area + 1e-12
    if w is not None:  # also the best ordering has no unit of weight
        assert excess(y, P, sample_weight=w) == pytest.approx(
            excess(np.repeat(y, w), np.repeat(P, w, axis=0)), abs=1e-12
        )


@pytest.mark.parametrize(("n", "n_wrong"), [(40, 7), (1000, 1), (5, 0), (6, 6)])
def test_excess_is_over_the_best_ordering(n, n_wrong):
    p, right = 1 - np.arange(n) / (2 * n), np.arange(n) < n - n_wrong
    wrong = n_wrong / n
    best = quad(lambda c: max(c - (1 - wrong), 0) / c, 0, 1, points=[1 - wrong])[0]
    params = {"kind": "binary", "labels": [False, True]}
    area = area_under_risk_coverage(right, p, **params)
    excess = area_under_risk_coverage(right, p, excess=True, **params)
    assert excess == pytest.approx(area - best, abs=1e-6)
    assert 0 <= excess <= wrong / n + 1e-12


def literal_fallback(n, wrong, risk, level):
    """Weights of hypotheses. A rejected hypothesis passes its level to the next one."""
    needed = next(k for k in range(1, 10**6) if (1 - risk) ** k <= level)
    sizes = [n[-1] / 2 / 4**j for j in range(20) if n[-1] / 2 / 4**j >= needed] or [needed]
    starts = [next((i for i, k in enumerate(n) if k >= size), None) for size in sizes]
    last, held = -1, 0
    for i, (k, e) in enumerate(zip(n, wrong, strict=True)):
        held += level / len(sizes) * starts.count(i)
        # The upper limit of Clopper and Pearson at the level in use.
        passes = held > 0 and e < k and beta.ppf(1 - held, e + 1, k - e) <= risk
        last, held = (i, held) if passes else (last, 0)
    return last


@pytest.mark.parametrize("seed", range(15))
def test_thresholds_are_tested_in_fixed_order(seed):
    rng = np.random.default_rng(seed)
    n = np.cumsum(rng.integers(1, 4, size=rng.integers(1, 500)))
    share = rng.choice([0, 0.02, 0.1]) + 0.2 * np.linspace(0, 1, len(n)) ** 2
    wrong = np.cumsum(rng.binomial(np.diff(n, prepend=0), share))
    risk, level = rng.choice([0.02, 0.1, 0.3]), rng.choice([0.05, 0.2])
    thresholds = np.append(np.linspace(0.99, 0.01, len(n)), np.inf)
    score = np.repeat(thresholds[:-1], np.diff(n, prepend=0))
    errors = np.diff(wrong, prepend=0)
    right = np.concatenate(
        [np.arange(k) >= e for k, e in zip(np.diff(n, prepend=0), errors, strict=True)]
    )
    params = {"risk": risk, "confidence_level": 1 - level, "kind": "binary"}
    found = selective_threshold(right, score, labels=[False, True], **params)
    assert found.threshold == thresholds[literal_fallback(n, wrong, risk, level)]


def test_too_few_rows_have_no_threshold():
    y, p = np.ones(59, dtype=int), np.linspace(0.5, 1, 59)
    find = partial(selective_threshold, kind="binary", labels=[0, 1])
    found = find(y, p)
    assert (found.threshold, found.coverage, found.risk) == (0.5, 1.0, 0.0)
    none = find(y[1:], p[1:])
    assert (none.threshold, none.coverage, none.risk) == (np.inf, 0.0, 0.0)
    assert find(y[:22], p[:22], risk=0.1, confidence_level=0.9).coverage == 1


def test_coverage_and_risk_hold_for_scores_at_the_threshold():
    rng = np.random.default_rng(0)
    for dtype in (np.float64, np.float32):
        P = rng.dirichlet([0.2] * 5, size=3000).astype(dtype)
        y = np.where(rng.uniform(size=3000) < P.max(axis=1), P.argmax(axis=1), 7)
        P, labels = np.hstack([P, np.zeros_like(P[:, :1])]), [0, 1, 2, 3, 4, 7]
        found = selective_threshold(y, P, risk=0.1, labels=labels)
        accepted = P.max(axis=1) >= found.threshold
        assert 0.2 < accepted.mean() == found.coverage < 1
        assert np.mean(P.argmax(axis=1)[accepted] != y[accepted]) == pytest.approx(found.risk)


@pytest.mark.parametrize("risk", [0, 1, -0.1, np.nan, "0.1", True])
def test_wrong_risks_are_refused(risk):
    with pytest.raises(ValueError, match="risk"):
        selective_threshold([0, 1], [0.2, 0.9], risk=risk)


def test_the_area_has_an_interval_and_a_scorer():
    rng = np.random.default_rng(0)
    P = rng.dirichlet([1, 1, 1], size=200)
    y = np.array([rng.choice(3, p=p) for p in P])
    area = area_under_risk_coverage(y, P)
    found = calibration_error_interval(
        y, P, measure=area_under_risk_coverage, n_resamples=99, random_state=0
    )
    assert found.low < found.estimate == area < found.high
    scorer = calibration_scorer(area_under_risk_coverage, excess=True)
    model = type("Model", (), {"classes_": np.arange(3), "predict_proba": lambda _, X: X})()
    assert scorer(model, P, y) == -area_under_risk_coverage(y, P, excess=True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["calibrated", "ten values", "rare errors", "at the risk"])
def test_promises_are_kept(kind):
    """In at least 95 % of samples; benchmarks/simulate.py selective has more kinds and rows."""
    rng, draws, n, error = np.random.default_rng(0), 500, 50, {
        "calibrated": lambda s: (1 - s) / 2,
        "ten values": lambda s: (1 - s) / 2,
        "rare errors": lambda s: 0.01 * (1 - s),
        "at the risk": lambda s: np.full_like(s, 0.1001),
    }[kind]  # fmt: skip
    # True risk at all scores in a large sample, and the promised risk.
    population = np.sort(rng.uniform(size=10**5))[::-1]
    if kind == "ten values":
        population = np.ceil(10 * population) / 10
    risks = np.cumsum(error(population)) / np.arange(1, 10**5 + 1)
    risk = 0.1 if kind == "at the risk" else risks[5 * 10**4 - 1]
    violated = 0
    for _ in range(draws):
        score = rng.choice(population, size=n)
        right = rng.uniform(size=n) >= error(score)
        found = selective_threshold(right, score, risk=risk, kind="binary", labels=[False, True])
        accepted = np.searchsorted(-population, -found.threshold, side="right")
        violated += bool(accepted and risks[accepted - 1] > risk * (1 + 1e-9))
    assert violated <= 0.05 * draws + 2 * np.sqrt(draws * 0.05 * 0.95)


def draw_categories(rng, m, n):
    z = np.abs(rng.normal(0, 2, m * n))
    return rng.uniform(size=m * n) < expit(z), expit(z), np.arange(m * n) % m


@pytest.mark.parametrize("size", [1, 3])
def test_categories_have_the_thresholds_of_their_rows_at_a_joint_level(size, rng):
    right, score, by = draw_categories(rng, 4, 600)
    groups = np.arange(len(by)) // (4 * size)
    params = {"risk": 0.2, "kind": "binary", "labels": [False, True]}
    found = selective_threshold(
        right, score, confidence_level=0.9, by=np.array(list("abcd"))[by], groups=groups, **params
    )
    whole = selective_threshold(right, score, confidence_level=0.9, groups=groups, **params)
    assert (found.threshold, found.coverage) == (whole.threshold, whole.coverage)
    assert list(found.by) == list("abcd")
    for k, part in enumerate(found.by.values()):
        rows = by == k
        alone = selective_threshold(
            right[rows], score[rows], confidence_level=0.975, groups=groups[rows], **params
        )
        assert part == alone
        assert part.n_labels == 600
        assert 0 < part.coverage < 1


def test_number_of_labels_that_would_suffice(rng):
    params = {"kind": "binary", "labels": [False, True]}
    right, score = np.ones(40, dtype=bool), np.linspace(0.5, 1, 40)
    found = selective_threshold(right, score, risk=0.05, **params)
    assert found.threshold == np.inf
    assert 59 <= found.n_labels <= 66  # steps of ten per cent
    enough = int(found.n_labels)
    again = selective_threshold(np.ones(enough, bool), np.linspace(0.5, 1, enough), **params)
    assert np.isfinite(again.threshold)
    assert again.n_labels == enough
    joint = selective_threshold(right, score, by=np.arange(40) % 4, risk=0.05, **params)
    for part in joint.by.values():  # log(0.05 / 4) / log(0.95) is 85.4
        assert 86 <= part.n_labels <= 95
    wrong = selective_threshold(~right, score, labels=[False, True], kind="binary")
    assert wrong.n_labels == np.inf
    right, score, _ = draw_categories(rng, 1, 60)
    few = selective_threshold(right, score, risk=0.1, **params)
    times = int(np.ceil(few.n_labels / 60))
    many = np.tile(right, times), np.tile(score, times)
    assert few.threshold == np.inf
    assert np.isfinite(selective_threshold(*many, risk=0.1, **params).threshold)
