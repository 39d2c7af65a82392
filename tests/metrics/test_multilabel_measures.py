"""Measures, scorers and diagrams of several labels per row."""

from functools import partial
from inspect import signature

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from families import MEASURES, of_case
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB

from skcalib import ReliabilityDisplay
from skcalib.metrics import (
    calibration_error_interval,
    calibration_scorer,
    calibration_test,
    expected_calibration_error,
    get_scorer_names,
    maximum_calibration_error,
    reliability_curve,
    score_decomposition,
    smooth_calibration_error,
)
from skcalib.monitor import CalibrationMonitor

RNG = np.random.default_rng(0)
N, L = 150, 3
Z = RNG.normal(-0.5, 2, (N, L))
Y = (RNG.uniform(size=Z.shape) < expit(Z / 2)).astype(int)
P = expit(Z)
W = RNG.integers(0, 3, N)
OF_LABELS = {"kind": "multilabel"}

AVERAGED = [measure for measure in MEASURES if "average" in signature(measure).parameters]
STRATEGIES = [{}, {"strategy": "quantile", "n_bins": 4}]


# Measures with each strategy that they have.
MEMBERS = [
    partial(measure, **given)
    for measure in AVERAGED
    for given in (STRATEGIES if "n_bins" in signature(measure).parameters else [{}])
]
every = pytest.mark.parametrize("measure", MEMBERS, ids=lambda m: f"{m.func.__name__}{m.keywords}")


@every
def test_averages(measure):
    """Errors of each label, their mean, and the error of all entries pooled."""
    given = OF_LABELS | {"sample_weight": W}
    each = [measure(Y[:, j], P[:, j], kind="binary", sample_weight=W) for j in range(L)]
    assert_allclose(measure(Y, P, average=None, **given), each, rtol=1e-9)
    assert measure(Y, P, **given) == pytest.approx(np.mean(each))
    assert measure(Y, P, average="macro", **given) == measure(Y, P, **given)
    pooled = measure(Y.ravel(), P.ravel(), kind="binary", sample_weight=np.repeat(W, L))
    assert measure(Y, P, average="micro", **given) == pytest.approx(pooled)
    if "debiased" not in measure.func.__name__:  # which depend on the effective number of rows
        repeated = measure(np.repeat(Y, W, axis=0), np.repeat(P, W, axis=0), **OF_LABELS)
        assert measure(Y, P, **given) == pytest.approx(repeated)


@every
def test_order_and_form_of_labels(measure):
    each, order = measure(Y, P, average=None, **OF_LABELS), [2, 0, 1]
    assert_array_equal(measure(Y[:, order], P[:, order], average=None, **OF_LABELS), each[order])
    assert_array_equal(measure(sp.csc_array(Y), P, average=None, **OF_LABELS), each)
    assert_array_equal(measure(Y.tolist(), P.tolist(), average=None, **OF_LABELS), each)


@every
def test_average_of_classwise_and_of_single_scores(measure):
    """Classwise measures take average=None but not average='micro'."""
    p = P / P.sum(axis=1, keepdims=True)
    y = p.argmax(axis=1)
    each = measure(y, p, kind="classwise", average=None)
    assert each.shape == (L,)
    assert measure(y, p, kind="classwise") == pytest.approx(each.mean())
    with pytest.raises(ValueError, match="average='micro'"):
        measure(y, p, kind="classwise", average="micro")
    with pytest.raises(ValueError, match="average=None"):
        measure(y, p, kind="top-label", average=None)
    with pytest.raises(ValueError, match="average"):
        measure(Y, P, average="mean", **OF_LABELS)


def test_curve_and_decomposition_have_names_of_labels():
    names = ["x", "y", "z"]
    curve = reliability_curve(Y, P, labels=names, n_bins=5, **OF_LABELS)
    parts = score_decomposition(pd.DataFrame(Y, columns=names), P, **OF_LABELS)
    assert_array_equal(parts.label, names)
    for j, name in enumerate(names):
        one = reliability_curve(Y[:, j], P[:, j], n_bins=5, kind="binary")
        assert_array_equal(curve.accuracy[curve.label == name], one.accuracy)
        alone = score_decomposition(Y[:, j], P[:, j], kind="binary")
        assert parts.score[j] == pytest.approx(alone.score)
        assert parts.miscalibration[j] == pytest.approx(alone.miscalibration)
    numbered = reliability_curve(Y, P, n_bins=5, **OF_LABELS)
    assert_array_equal(np.array(names)[numbered.label], curve.label)


# ------------------------------------------------------------------------------------------
# Uncertainty: rows are resampled with all of their labels.


def drawn(n, seed, *, equal):
    """Calibrated labels of a row, which are independent or as dependent as can be."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(size=(n, 3))
    p = np.repeat(p[:, :1], 3, axis=1) if equal else p
    return (rng.uniform(size=(n, 1)) < p).astype(int), p


@pytest.mark.parametrize("equal", [False, True])
def test_intervals_of_calibrated_labels_hold_zero(equal):
    given = {"n_resamples": 39, **OF_LABELS}
    samples = [drawn(100, seed, equal=equal) for seed in range(20)]
    intervals = [calibration_error_interval(*s, random_state=0, **given) for s in samples]
    tests = [calibration_test(*s, random_state=0, **given).pvalue <= 0.05 for s in samples]
    pairs = zip(intervals, tests, strict=True)
    assert all(interval.low == 0 or rejects for interval, rejects in pairs)
    assert sum(tests) <= 5
    assert all(interval.low <= interval.estimate <= interval.high for interval in intervals)


def test_miscalibration_of_a_label_is_detected():
    y, p = drawn(200, 0, equal=True)
    given = {"n_resamples": 99, "random_state": 0, **OF_LABELS}
    high = np.clip(p + 0.15, 0, 1)
    assert calibration_test(y, high, **given).pvalue < 0.05
    true = np.mean(high - p)
    for measure in ("expected_calibration_error", "debiased_expected_calibration_error"):
        found = calibration_error_interval(y, high, measure=measure, **given)
        assert 0 < found.low < true < found.high


# ------------------------------------------------------------------------------------------
# Scorers.

X = RNG.normal(size=(N, 2)) + Y @ RNG.normal(size=(L, 2))


@pytest.mark.parametrize("classifier", [OneVsRestClassifier, MultiOutputClassifier])
def test_scorers(classifier):
    fitted = classifier(GaussianNB()).fit(X, Y)
    Q = fitted.predict_proba(X)
    Q = np.column_stack([p[:, 1] for p in Q]) if isinstance(Q, list) else Q
    each = zip(Y.T, Q.T, strict=True)
    losses = np.array([(log_loss(y, p), brier_score_loss(y, p)) for y, p in each])
    expected = {
        "neg_multilabel_calibration_error": expected_calibration_error(Y, Q, **OF_LABELS),
        "neg_multilabel_log_loss": losses[:, 0].mean(),
        "neg_multilabel_brier_score": losses[:, 1].mean(),
    }
    assert expected.keys() == {n for n in get_scorer_names() if n.startswith("neg_multilabel")}
    for name, value in expected.items():
        assert calibration_scorer(name)(fitted, X, sp.csr_array(Y)) == pytest.approx(-value)
    micro = calibration_scorer("neg_maximum_calibration_error", kind="multilabel", average="micro")
    pooled = maximum_calibration_error(Y, Q, average="micro", sample_weight=W, **OF_LABELS)
    assert micro(fitted, X, Y, sample_weight=W) == pytest.approx(-pooled)


# ------------------------------------------------------------------------------------------
# Diagrams.


def test_diagrams():
    frame = pd.DataFrame(Y, columns=["sport", "law", "art"])
    given = {"sample_weight": W, **OF_LABELS}
    grid = ReliabilityDisplay.from_predictions(frame, P, subset=2, **given)
    errors = expected_calibration_error(Y, P, average=None, **given)
    worst = np.argsort(-errors)[:2]
    assert list(grid.displays_) == frame.columns[worst].tolist()
    found = [panel.expected_calibration_error for panel in grid.displays_.values()]
    assert_allclose(found, errors[worst])
    n_rows = [int(Y[W > 0, j].sum()) for j in worst]
    titles = [ax.get_title() for ax in grid.axes_]
    for j, n, title in zip(worst, n_rows, titles, strict=True):
        assert title == f"{frame.columns[j]}\n{n} rows, ECE {errors[j]:.3f}"


# ------------------------------------------------------------------------------------------
# Bad input.

OUTPUTS = np.stack([1 - P.T, P.T], axis=2)
FRAME = pd.DataFrame(P, columns=list("abc"))
# Labels, probabilities, arguments, and a word or a number that the message must have.
BAD = {
    "default kind": (Y, P, {"kind": "top-label"}, "kind='multilabel'"),
    "logits": (Y, Z, {}, "logits"),
    "one label per row": (Y[:, 0], P, {}, r"\(150,\)"),
    "sets": ([{0}, {1}], P[:2], {}, "MultiLabelBinarizer"),
    "counts": (2 * Y, P, {}, "ones only, got 2"),
    "width": (Y, P[:, :2], {}, r"\(150, 2\)"),
    "outputs": (Y, OUTPUTS, {}, r"np.stack"),
    "list of outputs": (Y, list(OUTPUTS), {}, r"np.stack"),
    "pos_label": (Y, P, {"pos_label": 1}, "pos_label"),
    "labels": (Y, P, {"labels": [0, 1]}, "3 columns"),
    "order of labels": (Y, FRAME, {"labels": list("bac")}, "order"),
    "order of labels in y_true": (
        pd.DataFrame(Y, columns=list("abc")),
        P,
        {"labels": list("bac")},
        "Columns of y_true must",
    ),
    "weights": (Y, P, {"sample_weight": np.ones(Y.shape)}, "one entry per row"),
    "order of columns": (pd.DataFrame(Y, columns=list("bac")), FRAME, {}, "order"),
}


@pytest.mark.parametrize(
    "function",
    [
        expected_calibration_error,
        smooth_calibration_error,
        reliability_curve,
        score_decomposition,
        calibration_error_interval,
        ReliabilityDisplay.from_predictions,
    ],
)
def test_bad_input(function):
    for case, (y, p, given, message) in BAD.items():
        with of_case(case), pytest.raises(ValueError, match=message):
            function(y, p, **OF_LABELS | given)


def test_functions_of_one_score_refuse_several_labels():
    with pytest.raises(ValueError, match="spiegelhalter_z"):
        calibration_test(Y, P, measure="spiegelhalter_z", **OF_LABELS)
    with pytest.raises(ValueError, match="kind"):
        CalibrationMonitor(labels=range(3), **OF_LABELS)
    with pytest.raises(ValueError, match="average"):
        calibration_scorer("neg_multilabel_calibration_error", average=None)
    da = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match="in memory"):
        expected_calibration_error(Y, da.from_array(P, chunks=(50, 3)), **OF_LABELS)
