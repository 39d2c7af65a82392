"""Measures: hand tables, a literal transcription of the paper, identities, bad input."""

from functools import partial
from inspect import signature

import numpy as np
import pytest
from families import GAPS, OF_DECISIONS, of_case
from hypothesis import given, settings, strategies as st
from scipy.special import softmax
from scipy.stats import binomtest, norm

from skcalib.metrics import (
    calibration_difference,
    calibration_error_interval,
    calibration_test,
    debiased_expected_calibration_error,
    debiased_root_mean_squared_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
    overconfidence_error,
    reliability_curve,
    root_mean_squared_calibration_error,
    score_decomposition,
    smooth_calibration_error,
    underconfidence_error,
)

DEBIASED = [debiased_expected_calibration_error, debiased_root_mean_squared_calibration_error]
BINNED = [*GAPS, *DEBIASED]
KINDS = ["top-label", "classwise", "binary"]
STRATEGIES = ["uniform", "quantile"]
binned = pytest.mark.parametrize("measure", BINNED, ids=lambda f: f.__name__)
# All measures, with both strategies where they have bins.
every = pytest.mark.parametrize(
    "measure",
    [partial(measure, strategy=strategy) for strategy in STRATEGIES for measure in BINNED]
    + [partial(smooth_calibration_error)],
    ids=lambda f: "-".join([f.func.__name__, *f.keywords.values()]),
)


def literal_bins(scores, hits, weights, n_bins):
    """Equations (1) and (2) of the paper: size, accuracy and confidence of each bin.

    And the effective number of its rows.
    """
    bins = []
    for m in range(n_bins):
        low, high = np.linspace(0, 1, n_bins + 1)[m : m + 2]
        inside = [i for i, s in enumerate(scores) if low < s <= high or (m == 0 and s == 0)]
        size = sum(weights[i] for i in inside)
        if size > 0:
            acc = sum(weights[i] * hits[i] for i in inside) / size
            conf = sum(weights[i] * scores[i] for i in inside) / size
            bins.append((size, acc, conf, size**2 / sum(weights[i] ** 2 for i in inside)))
    return bins


def debiased_size(gap, acc, n):
    """Twice the absolute gap, less its expected value with the noise of the accuracy added."""
    s = np.sqrt(max(acc * (1 - acc), 0) / n)
    if s < 1e-9:
        return abs(gap)
    return 2 * abs(gap) - gap * (1 - 2 * norm.cdf(-gap / s)) - 2 * s * norm.pdf(gap / s)


def literal(measure, scores, hits, weights, n_bins):
    """Equations (3) and (5), the quadratic mean between them, the two parts of (3), debiased."""
    bins = literal_bins(scores, hits, weights, n_bins)
    N = sum(size for size, *_ in bins)
    gaps = [(size / N, conf - acc, acc, n) for size, acc, conf, n in bins]
    if measure is expected_calibration_error:
        return sum(share * abs(gap) for share, gap, *_ in gaps)
    if measure is maximum_calibration_error:
        return max(abs(gap) for _, gap, *_ in gaps)
    if measure is overconfidence_error:
        return sum(share * gap for share, gap, *_ in gaps if gap > 0)
    if measure is underconfidence_error:
        return sum(-share * gap for share, gap, *_ in gaps if gap < 0)
    if measure is root_mean_squared_calibration_error:
        return np.sqrt(sum(share * gap**2 for share, gap, *_ in gaps))
    if measure is debiased_expected_calibration_error:
        return max(sum(share * debiased_size(gap, acc, n) for share, gap, acc, n in gaps), 0)
    variance = [acc * (1 - acc) / (n - 1) if n > 1 else 0 for _, _, acc, n in gaps]
    square = sum(g[0] * (g[1] ** 2 - v) for g, v in zip(gaps, variance, strict=True))
    return np.sqrt(max(square, 0))


@st.composite
def rows(draw, max_classes=5):
    """Labels, probabilities with ties and extremes, weights or None."""
    n, K = draw(st.integers(1, 40)), draw(st.integers(2, max_classes))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    P = softmax(rng.normal(scale=draw(st.sampled_from([0.0, 1.0, 1000.0])), size=(n, K)), axis=1)
    if draw(st.booleans()):
        P = rng.multinomial(20, [1 / K] * K, size=n) / 20  # on the edges of bins
    w = rng.choice([0.0, 0.5, 1.0, 2.0], size=n) + (np.arange(n) == 0)
    return rng.integers(K, size=n), P, draw(st.sampled_from([None, w]))


@binned
@settings(max_examples=10)
@given(data=rows(), n_bins=st.integers(1, 30))
def test_two_classes_are_one_event_by_default(measure, data, n_bins):
    """With two classes, the default measures the risk of the event; with more, the top label."""
    y, P, w = data
    params = {"n_bins": n_bins, "sample_weight": w, "labels": range(P.shape[1])}
    kind = "binary" if P.shape[1] == 2 else "top-label"
    assert measure(y, P, **params) == measure(y, P, kind=kind, **params)
    if P.shape[1] == 2:
        assert measure(y, P[:, 1], **params) == measure(y, P[:, 1], kind="binary", **params)


@binned
@settings(max_examples=10)
@given(data=rows(max_classes=2), n_bins=st.integers(1, 30), k=st.integers(0, 1))
def test_binary_is_the_column_of_the_positive_label(measure, data, n_bins, k):
    y, P, w = data
    names = np.array(["no", "yes"])
    expected = literal(measure, P[:, k], y == k, np.ones(len(y)) if w is None else w, n_bins)
    kwargs = {"n_bins": n_bins, "sample_weight": w, "labels": names, "kind": "binary"}
    for y_proba in (P, P[:, k]):
        got = measure(names[y], y_proba, pos_label=names[k], **kwargs)
        assert got == pytest.approx(expected, abs=1e-9)


def test_every_measure_shows_its_parameters_and_its_formula():
    names = signature(expected_calibration_error).parameters
    for measure in BINNED:
        assert signature(measure).parameters == names
        assert list(signature(measure, follow_wrapped=False).parameters) == list(names)
        assert ".. math::" in measure.__doc__
    assert list(names) == [
        "y_true", "y_proba", "n_bins", "strategy", "kind", "sample_weight", "labels", "pos_label",
        "average", "order",
    ]  # fmt: skip


@pytest.mark.parametrize("measure", [*BINNED, reliability_curve])
def test_bins_by_their_edges_or_the_cube_root_of_the_rows(measure, rng):
    y, P = rng.integers(3, size=125), rng.dirichlet([1, 1, 1], size=125)

    def numbers(**given):
        found = measure(y, P, kind="classwise", **given)
        return found if isinstance(found, float) else found.gap.tolist()

    assert numbers(n_bins=[0, 0.25, 0.5, 0.75, 1]) == numbers(n_bins=4)
    for strategy in STRATEGIES:
        assert numbers(n_bins="cube_root", strategy=strategy) == numbers(
            n_bins=5, strategy=strategy
        )
    assert numbers(n_bins=np.array([0, 0.1, 1])) == numbers(n_bins=(0, 0.1, 1), strategy="quantile")
    first = {"sample_weight": np.arange(125) < 28}  # rows without weight do not count
    assert numbers(n_bins="cube_root", **first) == numbers(n_bins=4, **first)


@pytest.mark.parametrize("edges", [[0, 0.5], [0.1, 1], [0, 0.5, 0.5, 1], [[0, 1]], [0], [0, 2, 1]])
def test_edges_that_do_not_increase_from_zero_to_one(edges):
    for function in (expected_calibration_error, reliability_curve, calibration_test):
        with pytest.raises(ValueError, match="n_bins"):
            function([0, 1], [0.2, 0.7], n_bins=edges)


@every
@pytest.mark.parametrize("kind", KINDS)
def test_rows_have_no_order_and_weights_no_unit(measure, kind, rng):
    y, P = rng.integers(2, size=80), rng.dirichlet([1, 1], size=80).round(1)
    w, order = rng.integers(0, 4, size=80), rng.permutation(80)
    weighted = measure(y, P, sample_weight=w, kind=kind)
    turned = measure(y[order], P[order], sample_weight=w[order], kind=kind)
    assert turned == pytest.approx(weighted, abs=1e-12)
    assert weighted == pytest.approx(measure(y, P, sample_weight=1e-9 * w, kind=kind), abs=1e-12)
    if measure.func not in DEBIASED:  # which depend on the effective number of rows
        repeated = measure(np.repeat(y, w), np.repeat(P, w, axis=0), kind=kind)
        assert weighted == pytest.approx(repeated, abs=1e-12)


@every
def test_kinds_match_binary_measures_of_their_scores_and_events(measure, rng):
    """Top-label and classwise measures equal binary measures of the same scores and events."""
    y, P, w = rng.integers(3, size=90), rng.dirichlet([1, 1, 1], size=90), rng.uniform(size=90)
    of_events = partial(measure, kind="binary", sample_weight=w)
    top = of_events(P.argmax(axis=1) == y, P.max(axis=1))
    assert measure(y, P, sample_weight=w) == pytest.approx(top, abs=1e-12)
    each = [of_events(y == k, P[:, k]) for k in range(3)]
    given = {"kind": "classwise", "sample_weight": w}
    np.testing.assert_allclose(measure(y, P, average=None, **given), each, atol=1e-12)
    assert measure(y, P, **given) == pytest.approx(np.mean(each), abs=1e-12)


def test_hand_table():
    """Confidences .9 .9 in one bin, .7 and .6 in two more; right, wrong, right, right."""
    P = [[0.9, 0.1, 0.0], [0.9, 0.0, 0.1], [0.2, 0.7, 0.1], [0.0, 0.4, 0.6]]
    y = [0, 1, 1, 2]
    curve = reliability_curve(y, P, n_bins=10)
    np.testing.assert_allclose(curve.lower, [0.5, 0.6, 0.8])
    np.testing.assert_allclose(curve.upper, [0.6, 0.7, 0.9])
    np.testing.assert_allclose(curve.n_samples, [1, 1, 2])
    np.testing.assert_allclose(curve.weight, [1, 1, 2])
    np.testing.assert_allclose(curve.confidence, [0.6, 0.7, 0.9])
    np.testing.assert_allclose(curve.accuracy, [1, 1, 0.5])
    np.testing.assert_allclose(curve.gap, [-0.4, -0.3, 0.4])
    assert curve.label is None


def test_number_of_effective_rows():
    y, p = [1, 0, 1], [0.9, 0.9, 0.9]
    equal = reliability_curve(y, p, kind="binary", sample_weight=[2, 2, 2])
    assert equal.n_effective.tolist() == [3]
    unequal = reliability_curve(y, p, kind="binary", sample_weight=[1, 1, 2])
    assert unequal.n_effective[0] == pytest.approx(16 / 6)
    assert unequal.n_samples.tolist() == [3]
    assert unequal.weight.tolist() == [4]


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_interval_matches_clopper_and_pearson(level):
    p = np.repeat([0.05, 0.35, 0.65, 0.95], [4, 7, 30, 5])
    y = np.concatenate([[0] * 4, [1, 0, 0, 0, 1, 0, 0], [1, 0, 0] * 10, [1] * 5])
    curve = reliability_curve(y, p, kind="binary", n_bins=10)
    low, high = curve.interval(level)
    for m, (n, k) in enumerate([(4, 0), (7, 2), (30, 10), (5, 5)]):
        exact = binomtest(k, n).proportion_ci(level, method="exact")
        assert (low[m], high[m]) == pytest.approx((exact.low, exact.high), abs=1e-12)


# --------------------------------------------------------------------------------------
# The traps of others.


def test_equal_mass_bins_with_ties():
    """Ties merge quantile bins and raise no error."""
    p = np.repeat([0.2, 0.8], 50)
    y = np.arange(100) % 5 == 0
    curve = reliability_curve(y, p, kind="binary", strategy="quantile", n_bins=15)
    np.testing.assert_allclose(curve.confidence, [0.2, 0.8])
    np.testing.assert_allclose(curve.accuracy, [0.2, 0.2])


def test_a_probability_just_above_one_is_one():
    """One value of 1.0000001 must not make all probabilities count as logits."""
    one = np.nextafter(np.float32(1), np.float32(2))
    P = np.array([[one, 0], [0.3, 0.7]], dtype=np.float32)
    assert expected_calibration_error([0, 1], P) == pytest.approx(0.15, abs=1e-6)
    assert expected_calibration_error([0, 1], P[:, 1] * 0 + [0, one]) == pytest.approx(0, abs=1e-6)


# --------------------------------------------------------------------------------------
# Labels.


def test_labels_give_the_order_of_the_columns():
    P = [[0.9, 0.1], [0.2, 0.8]]
    y = ["zebra", "ant"]
    assert expected_calibration_error(y, P, labels=["zebra", "ant"]) == pytest.approx(0.15)
    assert expected_calibration_error(y, P) == pytest.approx(0.85)


def test_labels_without_weight_do_not_count():
    P = [[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]]
    y = ["a", "b", "other"]
    assert expected_calibration_error(y, P, sample_weight=[1, 1, 0]) == pytest.approx(0.15)


# --------------------------------------------------------------------------------------
# Bad input.

GOOD = {"y_true": [0, 1, 1], "y_proba": [[0.5, 0.5], [0.2, 0.8], [0.9, 0.1]]}
THREE = {"y_true": [0, 1, 2], "y_proba": np.full((3, 3), 1 / 3)}
# Arguments, and a word or a number that the message must have.
BAD = {
    "no bins": ({"n_bins": 0}, "n_bins"),
    "half a bin": ({"n_bins": 2.5}, "n_bins"),
    "true bins": ({"n_bins": True}, "n_bins"),
    "strategy": ({"strategy": "equal"}, "'quantile'"),
    "kind": ({"kind": "top"}, "kind"),
    "binary of three": (THREE | {"kind": "binary"}, "two classes"),
    "above one": ({"y_proba": [0.5, 1.5, 0.1]}, "1.5 in row 1"),
    "below zero": ({"y_proba": [0.5, -0.5, 0.1]}, "-0.5"),
    "nan": ({"y_proba": [0.5, np.nan, 0.1]}, "nan in row 1"),
    "rows above one": ({"y_proba": [[0.5, 0.5], [0.5, 0.507], [0.9, 0.1]]}, "1.007"),
    "rows below zero": ({"y_proba": [[0.5, 0.5], [-0.5, 1.5], [0.9, 0.1]]}, "-0.5"),
    "rows of nan": ({"y_proba": [[0.5, 0.5], [np.nan, 0.6], [0.9, 0.1]]}, "nan"),
    "logits": ({"y_proba": [[5, -5], [3, 1], [0.9, 0.1]]}, "logits"),
    "scalar": ({"y_proba": 0.5}, "y_proba"),
    "one column": ({"y_proba": [[0.5], [0.6], [0.1]]}, r"\(3, 1\)"),
    "swapped": ({"y_true": [0.5, 0.2, 0.9], "y_proba": [0, 1, 1]}, "swapped"),
    "no rows": ({"y_true": [], "y_proba": np.ones((0, 2))}, "0 sample"),
    "three dimensions": ({"y_proba": np.ones((3, 2, 2))}, "dim"),
    "text": ({"y_proba": np.array(["0.5", "0.2", "x"])}, "x"),
    "rows of labels": ({"y_true": [[0, 1, 1]]}, "y_true"),
    "complex labels": ({"y_true": np.array([0, 1j, 1])}, "omplex"),
    "lengths": ({"y_true": [0, 1]}, r"\[2, 3\]"),
    "labels": ({"y_true": ["a", "b", "c"]}, "3 classes"),
    "unknown label": ({"labels": [0, 2]}, "labels"),
    "three labels": ({"labels": [0, 1, 2]}, "labels"),
    "one label": ({"y_true": ["a", "a", "a"], "y_proba": [0.1, 0.2, 0.3]}, "classes"),
    "pos_label": ({"pos_label": 7}, "pos_label"),
    "negative weight": ({"sample_weight": [1, 1, -1]}, "negative"),
    "no weight": ({"sample_weight": [0, 0, 0]}, "zero"),
    "few weights": ({"sample_weight": [1, 1]}, r"\(3,\)"),
}


def compared_with_itself(**given):
    return calibration_difference(other_proba=given["y_proba"], **given)


@pytest.mark.parametrize(
    "function",
    [
        reliability_curve,
        score_decomposition,
        smooth_calibration_error,
        *BINNED,
        *OF_DECISIONS,
        calibration_error_interval,
        calibration_test,
        compared_with_itself,
    ],
)
def test_bad_input_is_refused(function):
    parameters = signature(function).parameters
    for case, (change, message) in BAD.items():
        if "given" in parameters or change.keys() <= parameters.keys():  # some have no bins
            with of_case(case), pytest.raises(ValueError, match=message):
                function(**(GOOD | change))
