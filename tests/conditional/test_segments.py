"""Multicalibration: sums written out, all labels enumerated, and simulated levels."""

from itertools import pairwise, product

import numpy as np
import pandas as pd
import pytest

from skcalib.conditional import multicalibration_error
from skcalib.metrics import calibration_scorer

RNG = np.random.default_rng(0)
N = 400
SUBJECT = RNG.choice(["art", "law", "music"], size=N)
# Halves, because few distinct integers may be codes.
LENGTH = np.where(RNG.uniform(size=N) < 0.2, np.nan, RNG.integers(0, 20, size=N) / 2)
F = pd.DataFrame({"subject": SUBJECT, "length": LENGTH})
P = RNG.uniform(size=N).round(2)
Y = RNG.uniform(size=N) < P**2
W = RNG.integers(0, 4, size=N)
SOFT = RNG.dirichlet(np.ones(3), size=N)
LABELS = np.array(["a", "b", "c"])[(SOFT.cumsum(axis=1) < RNG.uniform(size=(N, 1))).sum(axis=1)]


def written_out(y, p, w, features, *, pairs):
    """The largest standardized gap of each segment by its name, from sums over masks."""
    edges = np.unique(np.quantile(features.length.dropna(), np.arange(1, 10) / 10, method="lower"))
    ends = [-np.inf, *edges, np.inf]
    first = {f"subject = {s}": features.subject == s for s in set(features.subject)}
    second = {"length missing": features.length.isna()}
    for a, b in pairwise(ends):
        inside = f"in ({a:g}, {b:g}]" if np.isfinite(a) else f"<= {b:g}"
        name = f"length {inside if np.isfinite(b) else f'> {a:g}'}"
        second[name] = (features.length > a) & (features.length <= b)
    segments = {"all rows": np.ones(len(y), bool), **first, **second}
    if pairs:
        segments |= {f"{a} and {b}": first[a] & second[b] for a, b in product(first, second)}
    found = {}
    for name, mask in segments.items():
        inside = np.flatnonzero(mask)
        if len(inside) < 5:
            continue
        below, equal = (
            np.array([w[inside][compare(p[inside], s)].sum() for s in p[inside]])
            for compare in (np.less, np.equal)
        )
        quarter = (4 * (below + equal / 2) / w[inside].sum() + 1e-9).astype(int)
        gaps = [0.0]
        for chosen in ({0, 1, 2, 3}, {0, 1}, {2, 3}, {0}, {1}, {2}, {3}):
            i = inside[np.isin(quarter, [*chosen])]
            if len(i):
                variance = max(np.sum(w[i] ** 2 * p[i] * (1 - p[i])), np.mean(w[i] ** 2))
                gaps.append(abs(np.sum(w[i] * (y[i] - p[i]))) / np.sqrt(variance))
        found[name] = max(gaps)
    return found


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("w", [None, W, W / 7])
def test_gaps_match_sums_written_out(w, pairs):
    result = multicalibration_error(Y, P, F, pairs=pairs, sample_weight=w, n_resamples=1)
    kept = np.ones(N, bool) if w is None else w > 0
    weights = np.ones(N) if w is None else w
    expected = written_out(Y[kept], P[kept], weights[kept], F[kept], pairs=pairs)
    found = dict(zip(result.segment, result.standardized_gap, strict=True))
    assert found == pytest.approx(expected)
    assert result.statistic == pytest.approx(max(expected.values())) == found[result.segment[0]]
    assert result.worst.startswith(f"{result.segment[0]}, scores from {result.lower[0]:.3g} ")


def test_entries_of_the_worst_range():
    """Counts, means and limits of a range come from its rows; intervals have a joint level."""
    found = multicalibration_error(Y, P, F, sample_weight=W, random_state=0)
    for k, name in enumerate(found.segment):
        if name.startswith("length") or name == "all rows":
            continue
        inside = (SUBJECT == name[10:]) & (W > 0) & (found.lower[k] <= P) & (found.upper[k] >= P)
        mean, rate = (np.average(x[inside], weights=W[inside]) for x in (P, Y))
        assert found.n_samples[k] == inside.sum()
        np.testing.assert_allclose([found.confidence[k], found.accuracy[k]], [mean, rate])
        np.testing.assert_allclose(found.gap[k], mean - rate)
    # Intervals of several rows are bounded at -1 and 1.
    ends = np.stack([found.gap - found.low, found.high - found.gap])
    width = ends.max(axis=0)
    is_bounded = (found.low == -1) | (found.high == 1)
    np.testing.assert_allclose(ends[:, ~is_bounded], [width[~is_bounded]] * 2)
    assert 0 < is_bounded.sum() < len(width) / 2
    critical = (found.standardized_gap * width / np.abs(found.gap))[~is_bounded]
    np.testing.assert_allclose(critical, critical[0])
    assert (found.pvalue <= 0.05) == (found.statistic > critical[0])


def test_order_and_names_of_labels_do_not_matter():
    order = RNG.permutation(N)
    names = np.array(["no", "yes"])[Y.astype(int)]
    for kind in ("binary", "top-label", "classwise"):
        given = multicalibration_error(Y, P, F, kind=kind, n_resamples=1)
        others = [
            multicalibration_error(Y[order], P[order], F.iloc[order], kind=kind, n_resamples=1),
            multicalibration_error(names, np.c_[1 - P, P], F, kind=kind, n_resamples=1),
        ]
        for other in others:
            assert other.statistic == pytest.approx(given.statistic)


def test_classes_match_one_calibrator_per_class():
    found = multicalibration_error(LABELS, SOFT, F, kind="classwise", n_resamples=1)
    for k, label in enumerate("abc"):
        alone = multicalibration_error(LABELS == label, SOFT[:, k], F, n_resamples=1)
        of_class = found.label == label
        np.testing.assert_array_equal(found.segment[of_class], alone.segment)
        np.testing.assert_allclose(found.standardized_gap[of_class], alone.standardized_gap)


@pytest.mark.parametrize("kind", ["binary", pytest.param("classwise", marks=pytest.mark.slow)])
def test_pvalue_matches_all_labels(kind):
    """The probability of a maximum as large, summed over all labels of a few rows."""
    n, classes = (7, 2) if kind == "binary" else (6, 3)
    S = np.random.default_rng(1).dirichlet(np.ones(classes), size=n)
    labels = {"labels": range(classes), "kind": kind, "random_state": 0}
    features = np.array(["x", "y"])[np.arange(n) % 2]
    args = (S, features)
    y = S.argmax(axis=1)
    y[:2] = S[:2].argsort(axis=1)[:, -2]
    found = multicalibration_error(y, *args, **labels, n_resamples=4000)
    exact = 0.0
    for drawn in product(range(classes), repeat=n):
        statistic = multicalibration_error(drawn, *args, **labels, n_resamples=1).statistic
        exact += np.prod(S[np.arange(n), drawn]) * (statistic >= found.statistic - 1e-9)
    assert 0.01 < exact < 0.999
    assert found.pvalue == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 4000) + 1e-3)


def test_certain_scores_and_rows_of_no_segment():
    """Scores of 0 and 1 have finite gaps, and a category of four rows is in no segment."""
    y, p = np.r_[np.zeros(96), np.ones(4)], np.zeros(100)
    category = np.repeat(["common", "rare"], [96, 4])
    found = multicalibration_error(y, p, category, random_state=0)
    assert found.segment.tolist() == ["all rows", "0 = common"]
    assert found.statistic == 4
    assert found.pvalue == 0.001


def test_the_scorer_is_the_negative_statistic():
    from sklearn.linear_model import LogisticRegression

    X = np.c_[P, np.nan_to_num(LENGTH)]
    model = LogisticRegression().fit(X, Y)
    scorer = calibration_scorer(multicalibration_error, pairs=True)
    proba = model.predict_proba(X)
    for given in ({}, {"features": SUBJECT}):
        expected = multicalibration_error(
            Y, proba, given.get("features", X), pairs=True, n_resamples=1
        )
        assert scorer(model, X, Y, **given) == -expected.statistic
    request = scorer.set_score_request(sample_weight=None, features=True).get_metadata_routing()
    assert request.score.requests == {"sample_weight": None, "features": True}


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"kind": "multilabel"}, "multilabel"),
        ({"features": np.arange(N).astype(str)}, "400 rows"),
        ({"features": {"subject": SUBJECT}}, "pandas.DataFrame"),
    ],
)
def test_wrong_input_is_refused(changed, word):
    with pytest.raises(ValueError, match=word):
        multicalibration_error(Y, P, **({"features": F} | changed))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["binary", "top-label", "classwise"])
def test_calibrated_models_are_rejected_in_five_percent(kind):
    """Calibrated models are rejected with a probability of 5 %."""
    rejected = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        S = rng.dirichlet(np.full(2 if kind == "binary" else 3, 0.3), size=300)
        y = (S.cumsum(axis=1) < rng.uniform(size=(300, 1))).sum(axis=1)
        features = pd.DataFrame(
            {"a": rng.integers(0, 8, 300).astype(str), "b": rng.normal(size=300)}
        )
        # With 99 draws a p-value is at most 5/100 with that probability exactly.
        found = multicalibration_error(
            y, S, features, kind=kind, labels=range(S.shape[1]), n_resamples=99, random_state=seed
        )
        rejected += found.pvalue <= 0.05
    assert 200 * 0.05 - 9 < rejected < 200 * 0.05 + 9


@pytest.mark.parametrize(
    "codes", [np.arange(30), 7.0 * np.arange(30), np.arange(30).astype(object)]
)
def test_integers_that_may_be_codes_are_named(codes):
    """Intervals would mix hospital 7 with others."""
    rng, hospital = np.random.default_rng(0), np.repeat(codes, 80)
    p = rng.beta(2, 3, size=len(hospital))
    y = rng.uniform(size=len(p)) < np.where(hospital == codes[7], np.sqrt(p), p)
    frame = pd.DataFrame({"hospital": hospital, "age": rng.normal(size=len(p))})
    with pytest.warns(UserWarning, match="'hospital' .*categorical_features"):
        mixed = multicalibration_error(y, p, frame, n_resamples=99, random_state=0)
    assert "hospital in" in " ".join(mixed.segment)
    given = {"features": frame, "n_resamples": 99, "random_state": 0}
    as_numbers = multicalibration_error(y, p, categorical_features=[], **given)
    assert as_numbers.statistic == mixed.statistic
    result = multicalibration_error(y, p, categorical_features=["hospital"], **given)
    assert result.segment[0] == f"hospital = {codes[7]}"
    frame = frame.assign(hospital=hospital.astype(str))
    as_text = multicalibration_error(y, p, frame, n_resamples=99, random_state=0)
    assert as_text.statistic == result.statistic


@pytest.mark.parametrize("n_values", [10, 51])
def test_other_integers_are_numbers(n_values):
    multicalibration_error(Y, P, np.arange(N) % n_values, n_resamples=1)  # no warning
