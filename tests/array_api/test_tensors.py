"""Laws of all calibrators that are given arrays of other libraries than NumPy.

Everything follows the logits: outputs are arrays of their library, precision and device.
"""

import copy
import pickle
from functools import cache

import numpy as np
import pytest
from families import CALIBRATORS, STAND_INS
from sklearn import config_context
from sklearn.base import clone

import skcalib
from skcalib.datasets import make_logits
from skcalib.export import from_json, to_json
from skcalib.scaling import BetaCalibration, PlattScaling, QuadraticScaling, SplineCalibration

TOLERANCE = {"float32": 1e-6, "float64": 1e-9}
METHODS = ["transform", "predict_proba", "predict_log_proba"]

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:Candidate .* is left out"),
]


def data(case, dtype, *, masked=False):
    """Logits, labels and weights of some kind of rows."""
    Z, y = make_logits(160, 2 if "column" in case else 4, temperature=2.0, random_state=1)
    rng, w = np.random.default_rng(0), None
    if case == "one column":
        Z = Z[:, 1:] - Z[:, :1]
    if masked:
        some = rng.random(Z.shape) < 0.2
        some[np.arange(len(y)), y] = False
        Z[some] = -np.inf
    if case == "weights":
        w = rng.integers(0, 4, len(y)).astype(dtype)
    return Z.astype(dtype), y, w


@cache
def fitted_to(kind, case, dtype, lib=None):
    """The calibrator fitted to rows of some kind, of NumPy or of a library; for tests that read."""
    Z, y, w = data(case, dtype, masked=case == "weights" and kind._takes_masked)
    if lib is not None:
        return kind().fit(lib.array(Z), lib.array(y), lib.array(w))
    with config_context(array_api_dispatch=False):
        return kind().fit(Z, y, w)


CASES = ["one column", pytest.param("two columns", marks=pytest.mark.slow), "several", "weights"]


def check_like(found, want, lib, dtype):
    found = lib.numpy(found)
    assert found.dtype == want.dtype
    finite = np.isfinite(want)
    np.testing.assert_array_equal(np.isfinite(found), finite)
    # Of logits far from zero, the relative error.
    tolerance = 10 * TOLERANCE[dtype]
    np.testing.assert_allclose(found[finite], want[finite], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", CALIBRATORS)
def test_outputs_are_those_of_numpy_where_the_logits_are(kind, case, lib, dtype):
    Z, y, w = data(case, dtype, masked=case == "weights" and kind._takes_masked)
    plain, fitted = fitted_to(kind, case, dtype), fitted_to(kind, case, dtype, lib)
    with config_context(array_api_dispatch=False):
        want = {method: getattr(plain, method)(Z) for method in [*METHODS, "predict"]}
    X = lib.array(Z)
    P = lib.numpy(fitted.predict_proba(X))
    assert P.dtype == dtype
    np.testing.assert_allclose(P, want["predict_proba"], rtol=0, atol=TOLERANCE[dtype])
    for method in METHODS:
        check_like(getattr(fitted, method)(X), want[method], lib, dtype)
    predicted = lib.numpy(fitted.predict(X))
    assert predicted.dtype == want["predict"].dtype
    # Where two classes are next to equally probable rounding decides.
    top = np.sort(want["predict_proba"], axis=1)[:, -2:]
    clear = top[:, 1] - top[:, 0] > 1e-5
    np.testing.assert_array_equal(predicted[clear], want["predict"][clear])
    score = fitted.score(X, lib.array(y), lib.array(w))
    assert score == pytest.approx(plain.score(Z, y, w), abs=2 / len(y))


@pytest.mark.parametrize("kind", CALIBRATORS)
def test_labels_and_weights_may_be_anywhere(kind, lib):
    """As may the labels of predictions, which are text in NumPy."""
    Z, y, w = data("weights", "float64", masked=kind._takes_masked)
    X, names = lib.array(Z), np.array(["a", "b", "c", "d"])
    want = lib.numpy(fitted_to(kind, "weights", "float64", lib).predict_proba(X))
    fitted = kind().fit(X, names[y].tolist(), w.tolist())
    np.testing.assert_allclose(lib.numpy(fitted.predict_proba(X)), want, rtol=0, atol=1e-9)
    predicted = fitted.predict(X)
    assert isinstance(predicted, np.ndarray)
    assert set(predicted) <= set(names)
    assert 0 <= fitted.score(X, names[y]) <= 1
    Z, y, _ = data("several", "float64")
    score = fitted_to(kind, "several", "float64", lib).score(lib.array(Z), y.tolist(), w.tolist())
    assert score == fitted_to(kind, "several", "float64").score(Z, y, w)


@pytest.mark.parametrize("kind", CALIBRATORS)
def test_a_fitted_calibrator(kind, lib):
    """Its arrays are where the logits are; those of copies, pickles and JSON are of NumPy.

    So these are used without the library, and the device, that the fit was on.
    """
    Z, y, _ = data("several", "float64")
    X, plain = lib.array(Z), fitted_to(kind, "several", "float64")
    fitted = fitted_to(kind, "several", "float64", lib)
    for name, value in vars(plain).items():
        if isinstance(value, np.ndarray) and name != "classes_":
            assert lib.numpy(getattr(fitted, name)).shape == value.shape
    want = lib.numpy(fitted.predict_proba(X))
    alone = lib.numpy(fitted.predict_proba(lib.array(Z[7:8])))
    np.testing.assert_allclose(alone, want[7:8], rtol=0, atol=1e-9)
    with config_context(array_api_dispatch=False):
        blob = pickle.dumps(fitted)
        others = [pickle.loads(blob), copy.copy(fitted), copy.deepcopy(fitted)]
        if kind.__name__ not in STAND_INS:
            others.append(from_json(to_json(fitted)))
        for other in others:
            assert not [k for k, v in vars(other).items() if lib.owns(v)]
            np.testing.assert_allclose(other.predict_proba(Z), want, rtol=0, atol=1e-9)
    assert lib.name.split("-")[0].encode() not in blob
    want = lib.numpy(fitted.transform(X))
    np.testing.assert_array_equal(lib.numpy(kind().fit_transform(X, y)), want)


@pytest.mark.filterwarnings("ignore:The features alone")
def test_features(lib):
    Z, y, _ = data("several", "float64")
    F = (y == 1) + 1.0 * (np.arange(len(y)) % 3)
    X, of_rows = lib.array(Z), lib.array(F)
    few = skcalib.conditional.ConditionalCalibrator([skcalib.VectorScaling()], cv=2)
    found, want = few.fit(X, y, features=of_rows), clone(few).fit(Z, y, features=F)
    assert want.feature_weights_["without features"] < 1
    for method in [*METHODS, "predict"]:
        output = lib.numpy(getattr(found, method)(X, features=of_rows))
        np.testing.assert_allclose(output, getattr(want, method)(Z, features=F), atol=1e-9)
    assert found.score(X, y, features=of_rows) == want.score(Z, y, features=F)
    with pytest.raises(ValueError, match=r"ConditionalCalibrator\.transform\(\) must use the same"):
        found.transform(Z, features=F)


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
@pytest.mark.parametrize("case", CASES)
def test_intervals(case, multi_class, lib, dtype):
    Z, y, w = data(case, dtype, masked=case == "weights")
    X, calibrator = lib.array(Z), skcalib.VennAbersCalibration(multi_class=multi_class)
    want = calibrator.fit(Z, y, w).predict_interval(Z)
    found = lib.numpy(calibrator.fit(X, y, w).predict_interval(X))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "kind", [PlattScaling, BetaCalibration, QuadraticScaling, SplineCalibration]
)
@pytest.mark.parametrize(
    "row", [[0, 0, 0, 0], [1, 1, 1, 0], [1, 2, -np.inf, 2], [1] + [-np.inf] * 3]
)
def test_gradients_at_ties_and_masked_classes(kind, row, torch_lib):
    """Those of a maximum would be shared among the ties, and an infinite margin has none."""
    Z, y = make_logits(300, 4, temperature=2.0, random_state=0)
    calibrator = kind().fit(torch_lib.array(Z), y)
    x = torch_lib.array(np.array([row], dtype=float)).requires_grad_()
    calibrator.predict_log_proba(x)[0, 0].backward()
    for k in np.flatnonzero(np.isfinite(row)):
        step = torch_lib.array(1e-6 * np.eye(4)[k])
        up, down = (calibrator.predict_log_proba(x.detach() + s) for s in (step, -step))
        slope = float((up - down)[0, 0]) / 2e-6
        np.testing.assert_allclose(float(x.grad[0, k]), slope, atol=1e-6)
    assert np.isfinite(torch_lib.numpy(x.grad)).all()


@pytest.mark.parametrize("kind", CALIBRATORS)
def test_precision_within_autocast(kind, torch_lib):
    Z, y = make_logits(120, 3, random_state=0)
    X = torch_lib.array(Z, "float32")
    calibrator = kind().fit(X, y)
    with torch_lib.xp.autocast("cpu", dtype=torch_lib.xp.bfloat16):
        found = calibrator.predict_proba(X)
    assert found.dtype == X.dtype
    expected = torch_lib.numpy(calibrator.predict_proba(X))
    np.testing.assert_array_equal(torch_lib.numpy(found), expected)
