"""Laws of all measures that are given arrays of other libraries than NumPy."""

import pickle
from dataclasses import astuple, is_dataclass
from functools import cache
from inspect import signature

import numpy as np
import pytest
from families import MEASURES, OF_DECISIONS, of_case
from sklearn import config_context

import skcalib
from skcalib.datasets import make_logits
from skcalib.decision import bayes_decision, expected_cost
from skcalib.metrics import calibration_test, expected_calibration_error
from skcalib.monitor import CalibrationMonitor

TOLERANCE = {"float32": 1e-6, "float64": 1e-9}
SEED = {"n_resamples": 9, "random_state": 0}
FORMS = {
    "default": {},
    "class-wise": {"kind": "classwise"},
    "binary": {"kind": "binary"},
    "first class": {"kind": "binary", "pos_label": 0},
    "equal weight": {"strategy": "quantile"},
    "equal weight, class-wise": {"strategy": "quantile", "kind": "classwise"},
    "edges that scores are on": {"n_bins": 20},
    "many bins": {"n_bins": 100},
}
every = pytest.mark.parametrize("measure", MEASURES, ids=lambda f: f.__name__)
OF_SEVERAL_LABELS = [
    f for f in MEASURES if "kind" in signature(f).parameters and f is not calibration_test
]


def rows(n_classes=3, n=200, dtype="float64"):
    """Labels, probabilities that are on the edges of bins, and weights."""
    rng = np.random.default_rng(n_classes)
    P = rng.multinomial(20, [1 / n_classes] * n_classes, size=n) / 20
    P[: n // 2] = make_logits(n // 2, n_classes, return_proba=True, random_state=0)[2]
    w = rng.integers(0, 4, n).astype(float)
    return rng.integers(n_classes, size=n), P.astype(dtype), w


def forms(measure):
    """The arguments of the measure, by name, and the number of classes of the rows."""
    known = signature(measure).parameters
    seed = {name: value for name, value in SEED.items() if name in known}
    for name, form in FORMS.items():
        if form.keys() <= known.keys():
            yield name, {**form, **seed}, 2 if form.get("kind") == "binary" else 3


def numbers(result):
    """A number, or the numbers and arrays of a result, all of them on the host."""
    if isinstance(result, float):
        return [result]
    assert is_dataclass(result)
    values = [value for value in astuple(result) if not isinstance(value, str | dict | None)]
    assert all(isinstance(value, float | np.ndarray) for value in values)
    return values


def arguments(measure, y, P, convert):
    """Labels and probabilities of one model, or of two models for a comparison."""
    others = [np.roll(P, 1, axis=0)] if "other_proba" in signature(measure).parameters else []
    return [convert(y), convert(P), *map(convert, others)]


def check_equal(found, want, dtype):
    for a, b in zip(numbers(found), numbers(want), strict=True):
        assert type(a) is type(b)
        np.testing.assert_allclose(a, b, rtol=0, atol=TOLERANCE[dtype])


@cache
def results_of_numpy(measure, weighted, dtype):
    """The result of each form."""
    results = {}
    for name, given, n_classes in forms(measure):
        y, P, w = rows(n_classes, dtype=dtype)
        arrays = arguments(measure, y, P, np.asarray)
        results[name] = measure(*arrays, sample_weight=w if weighted else None, **given)
    return results


@every
@pytest.mark.parametrize("weighted", [False, True])
def test_results_match_numpy(measure, weighted, lib, dtype):
    wanted = results_of_numpy(measure, weighted, dtype)
    for name, given, n_classes in forms(measure):
        with of_case(name):
            y, P, w = rows(n_classes, dtype=dtype)
            w, want = w if weighted else None, wanted[name]
            tensors = arguments(measure, y, P, lib.array)
            check_equal(measure(*tensors, sample_weight=lib.array(w), **given), want, dtype)


@pytest.mark.parametrize("measure", OF_DECISIONS, ids=lambda f: f.__name__)
def test_decisions_match_numpy(measure, lib, dtype):
    y, P, w = rows(2, dtype=dtype)
    weights = {"sample_weight": w} if "sample_weight" in signature(measure).parameters else {}
    tensors = {name: lib.array(value) for name, value in weights.items()}
    for form in (P, P[:, 1]):
        want = measure(y, form, **weights)
        check_equal(measure(lib.array(y), lib.array(form), **tensors), want, dtype)


def test_views_of_tensors_have_the_errors_of_arrays(torch_lib):
    """Transposed and strided tensors, without warnings of torch."""
    y, P, w = rows()
    X = torch_lib.array(np.ascontiguousarray(P.T)).T
    assert not X.is_contiguous()
    found, want = (
        expected_calibration_error(y, p, kind="classwise", sample_weight=w) for p in (X, P)
    )
    assert found == pytest.approx(want, abs=1e-9)
    y, P, _ = rows(2)
    column = torch_lib.array(P)[:, 1]
    want = expected_calibration_error(y, P[:, 1])
    assert expected_calibration_error(y, column) == pytest.approx(want, abs=1e-9)


@pytest.mark.parametrize("measure", OF_SEVERAL_LABELS, ids=lambda f: f.__name__)
def test_several_labels(measure, lib, dtype):
    """Indicators and the probabilities of labels, which need not sum to one."""
    rng = np.random.default_rng(0)
    P, w = rng.integers(0, 21, size=(100, 3)) / 20, rng.integers(0, 4, 100).astype(float)
    y, P = (rng.random(P.shape) < P).astype(int), P.astype(dtype)
    known = signature(measure).parameters
    given = {name: value for name, value in SEED.items() if name in known}
    given["kind"] = "multilabel"
    want = measure(*arguments(measure, y, P, np.asarray), sample_weight=w, **given)
    found = measure(*arguments(measure, y, P, lib.array), sample_weight=lib.array(w), **given)
    check_equal(found, want, dtype)


def test_costs(lib, dtype):
    y, P, w = rows(dtype=dtype)
    cost = np.random.default_rng(0).random((len(y), 3, 4))
    for C in (cost[0], cost):
        want = bayes_decision(P, C)
        for given in (C, lib.array(C)):
            assert np.array_equal(bayes_decision(lib.array(P), given), want)
            found = expected_cost(lib.array(y), lib.array(P), given, sample_weight=lib.array(w))
            assert found == pytest.approx(expected_cost(y, P, C, sample_weight=w), abs=1e-9)
    y, P, w = rows(2, dtype=dtype)
    C = cost[0, :2]
    assert np.array_equal(bayes_decision(lib.array(P[:, 1]), C), bayes_decision(P[:, 1], C))


@pytest.mark.parametrize("kind", ["top-label", "classwise", "binary"])
def test_monitor(kind, lib, dtype):
    y, P, w = rows(2, dtype=dtype)
    want, found = (CalibrationMonitor(labels=[0, 1], kind=kind) for _ in range(2))
    for batch in (slice(0, 1), slice(1, 90), slice(90, None)):
        want.update(y[batch], P[batch], w[batch] + 1)
        found.update(*map(lib.array, (y[batch], P[batch], w[batch] + 1)))
    found.update(y, P), want.update(lib.array(y), P)
    want.update(y, P[:, 1]), found.update(y, lib.array(P[:, 1]))
    check_equal(found.curve(), want.curve(), dtype)
    check_equal(pickle.loads(pickle.dumps(found)).curve(), want.curve(), dtype)


def test_displays(lib):
    Z, y = make_logits(150, 3, temperature=2.0, random_state=0)
    X, labels, w = lib.array(Z), lib.array(y), lib.array(np.arange(150.0))
    plain, fitted = skcalib.TemperatureScaling().fit(Z, y), skcalib.TemperatureScaling().fit(X, y)
    for kind in (skcalib.ReliabilityDisplay, skcalib.ConfidenceDisplay):
        found = kind.from_estimator(fitted, X, labels, sample_weight=w)
        want = kind.from_estimator(plain, Z, y, sample_weight=np.arange(150.0))
        check_equal(found.curve, want.curve, "float64")
    P = fitted.predict_proba(X)
    grid = skcalib.ReliabilityDisplay.from_predictions(labels, P, kind="classwise")
    assert len(grid.displays_) == 3
    found = skcalib.TemperatureSweepDisplay.from_estimator(fitted, X, labels, sample_weight=w)
    want = skcalib.TemperatureSweepDisplay.from_logits(Z, y, sample_weight=np.arange(150.0))
    np.testing.assert_allclose(found.log_loss, want.log_loss, rtol=0, atol=1e-9)
    sweep = skcalib.TemperatureSweepDisplay.from_logits(X, labels)
    assert sweep.best_temperature == pytest.approx(plain.temperature_)
    assert len(skcalib.calibration_report(fitted, X, labels).figure_.axes) == 4


BAD = {
    "negative": lambda y, P, w: (y, P - 0.1, w),
    "not a number": lambda y, P, w: (y, P * np.nan, w),
    "sums": lambda y, P, w: (y, P * 1.1, w),
    "above one": lambda y, P, w: (y % 2, P[:, 1] * 40, w),
    "no rows": lambda y, P, w: (y[:0], P[:0], w[:0]),
    "lengths": lambda y, P, w: (y[1:], P, w),
    "negative weight": lambda y, P, w: (y, P, w - 1),
}


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("bad", BAD)
def test_errors_match_numpy(bad, lib):
    y, P, w = BAD[bad](*rows())
    with pytest.raises(ValueError, match=r".+") as want:
        expected_calibration_error(y, P, sample_weight=w)
    with pytest.raises(ValueError, match=r".+") as found:
        expected_calibration_error(*map(lib.array, (y, P)), sample_weight=lib.array(w))
    assert str(found.value) == str(want.value)


@every
def test_without_dispatch_tensors_are_converted(measure, torch_lib):
    y, P, w = rows(dtype="float32")
    seed = {name: value for name, value in SEED.items() if name in signature(measure).parameters}
    want = measure(*arguments(measure, y, P, np.asarray), sample_weight=w, **seed)
    tensors = arguments(measure, y, P, torch_lib.array)
    with config_context(array_api_dispatch=False):
        tensors[1].requires_grad_()
        found = measure(*tensors, sample_weight=torch_lib.array(w), **seed)
    check_equal(found, want, "float64")
