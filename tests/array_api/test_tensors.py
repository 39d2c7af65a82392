"""Laws of all calibrators that are given arrays of other libraries than NumPy.

Fits copy the rows to the host. Outputs follow the logits: they are arrays of their library,
precision and device.
"""

from functools import cache

import numpy as np
import pytest
from families import CALIBRATORS, ProbabilitiesWarning, fitted_state, order_of
from scipy.special import softmax
from sklearn import config_context
from sklearn.base import clone

import skcalib
from skcalib.datasets import make_logits
from skcalib.scaling import (
    DirichletCalibration,
    EnsembleTemperatureScaling,
    MatrixScaling,
    OrderPreservingScaling,
    TemperatureScaling,
    VectorScaling,
)

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
def fitted_to(kind, case, dtype):
    """The calibrator fitted to NumPy arrays; for tests that only read it."""
    Z, y, w = data(case, dtype, masked=case == "weights" and kind._takes_masked)
    with config_context(array_api_dispatch=False):
        return kind().fit(Z, y, w)


CASES = ["one column", pytest.param("two columns", marks=pytest.mark.slow), "several", "weights"]


def check_like(found, want, lib, dtype):
    found = lib.numpy(found)
    assert found.dtype == want.dtype
    finite = np.isfinite(want)
    np.testing.assert_array_equal(np.isfinite(found), finite)
    # Logits far from zero are compared by their relative error.
    tolerance = 10 * TOLERANCE[dtype]
    np.testing.assert_allclose(found[finite], want[finite], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", CALIBRATORS)
def test_outputs_match_numpy_on_the_device_of_the_logits(kind, case, lib, dtype):
    Z, y, w = data(case, dtype, masked=case == "weights" and kind._takes_masked)
    fitted = fitted_to(kind, case, dtype)
    with config_context(array_api_dispatch=False):
        want = {method: getattr(fitted, method)(Z) for method in [*METHODS, "predict"]}
    X = lib.array(Z)
    P = lib.numpy(fitted.predict_proba(X))
    assert P.dtype == dtype
    np.testing.assert_allclose(P, want["predict_proba"], rtol=0, atol=TOLERANCE[dtype])
    for method in METHODS:
        check_like(getattr(fitted, method)(X), want[method], lib, dtype)
    predicted = lib.numpy(fitted.predict(X))
    assert predicted.dtype == want["predict"].dtype
    # Rounding decides between classes with nearly equal probabilities.
    top = np.sort(want["predict_proba"], axis=1)[:, -2:]
    clear = top[:, 1] - top[:, 0] > 1e-5
    np.testing.assert_array_equal(predicted[clear], want["predict"][clear])
    score = fitted.score(X, lib.array(y), lib.array(w))
    assert score == pytest.approx(fitted.score(Z, y, w), abs=2 / len(y))


# Forms of the joint family that take other paths than the default.
FORMS = [
    TemperatureScaling(smoothing=0.1),
    VectorScaling(alpha="loo"),
    VectorScaling(smoothing=0),
    VectorScaling(normalize=False, fit_intercept=False),
    MatrixScaling(alpha=3.0, normalize=False),
    MatrixScaling(smoothing=0),
    DirichletCalibration(alpha="auto", alpha_intercept="loo"),
    OrderPreservingScaling(n_knots=0),
    OrderPreservingScaling(smoothing=0),
    EnsembleTemperatureScaling(loss="brier"),
]


@pytest.mark.parametrize("case", ["one column", "several", "masked"])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_all_forms_have_the_outputs_of_numpy(form, case, lib, dtype):
    Z, y, w = data(case, dtype, masked=case == "masked" and type(form)._takes_masked)
    fitted = clone(form).fit(Z, y, w)
    P = lib.numpy(fitted.predict_proba(lib.array(Z)))
    np.testing.assert_allclose(P, fitted.predict_proba(Z), rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("kind", CALIBRATORS)
def test_predicted_text_is_in_numpy_arrays(kind, lib):
    Z, y, _ = data("several", "float64")
    names = np.array(["a", "b", "c", "d"])
    fitted = kind(**order_of(kind, names)).fit(lib.array(Z), names[y].tolist())
    predicted = fitted.predict(lib.array(Z))
    assert isinstance(predicted, np.ndarray)
    np.testing.assert_array_equal(predicted, fitted.predict(Z))
    assert 0 <= fitted.score(lib.array(Z), names[y]) <= 1


def check_equal_states(found, want):
    """Fitted attributes are equal, and of the same types."""
    found, want = fitted_state(found), fitted_state(want)
    assert found.keys() == want.keys()
    for name, value in want.items():
        assert type(found[name]) is type(value), name
        np.testing.assert_equal(found[name], value, err_msg=name)


@pytest.mark.parametrize("dispatch", [True, False])
@pytest.mark.parametrize("kind", CALIBRATORS)
def test_a_fit_to_tensors_is_a_fit_to_their_numpy_copies(kind, dispatch, lib):
    if not (dispatch or lib.name == "torch-cpu"):
        pytest.skip("NumPy converts tensors of torch and JAX only")
    Z, y, w = data("weights", "float32", masked=kind._takes_masked)
    with config_context(array_api_dispatch=dispatch):
        found = kind().fit(lib.array(Z), lib.array(y), lib.array(w))
    check_equal_states(found, fitted_to(kind, "weights", "float32"))


@pytest.mark.parametrize("factor", [1, 100])
@pytest.mark.parametrize("kind", CALIBRATORS)
def test_probabilities_in_place_of_logits_are_warned_of(kind, factor, lib):
    fitted, Z = fitted_to(kind, "several", "float64"), data("several", "float64")[0]
    P = lib.array(factor * softmax(Z, axis=1))
    with pytest.warns(ProbabilitiesWarning, match="predictions"):
        fitted.predict_proba(P)
    fitted.predict_proba(P[:1, ...])  # one row may have any logits


@pytest.mark.filterwarnings("ignore:The features alone")
def test_features(lib):
    Z, y, _ = data("several", "float64")
    F = (y == 1) + 1.0 * (np.arange(len(y)) % 3)
    X, of_rows = lib.array(Z), lib.array(F)
    few = skcalib.conditional.ConditionalCalibrator([skcalib.VectorScaling()], cv=2)
    fitted = few.fit(X, y, features=of_rows)
    assert fitted.feature_weights_["without features"] < 1
    for method in [*METHODS, "predict"]:
        output = lib.numpy(getattr(fitted, method)(X, features=of_rows))
        np.testing.assert_allclose(output, getattr(fitted, method)(Z, features=F), atol=1e-9)
    assert fitted.score(X, y, features=of_rows) == fitted.score(Z, y, features=F)


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
@pytest.mark.parametrize("case", CASES)
def test_intervals(case, multi_class, lib, dtype):
    Z, y, w = data(case, dtype, masked=case == "weights")
    X, calibrator = lib.array(Z), skcalib.VennAbersCalibration(multi_class=multi_class)
    want = calibrator.fit(Z, y, w).predict_interval(Z)
    found = lib.numpy(calibrator.predict_interval(X))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-6)


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


@pytest.mark.parametrize("kind", [TemperatureScaling, MatrixScaling, OrderPreservingScaling])
def test_a_network_is_trained_through_a_calibrated_head(kind, torch_lib):
    """The log loss of calibrated probabilities falls as the weights before them are trained."""
    torch = torch_lib.xp
    Z, y = make_logits(160, 3, temperature=2.0, random_state=1)
    X, labels = torch_lib.array(Z.astype(np.float32)), torch_lib.array(y)
    torch.manual_seed(0)
    network, head = torch.nn.Linear(3, 3), kind().fit(X, y)
    optimizer, losses = torch.optim.Adam(network.parameters(), lr=0.05), []
    for _ in range(30):
        optimizer.zero_grad()
        loss = torch.nn.functional.nll_loss(head.predict_log_proba(network(X)), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.05
