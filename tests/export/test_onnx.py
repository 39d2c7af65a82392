"""ONNX models of all calibrators, run in onnxruntime, against the calibrators themselves."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from families import CALIBRATORS, FORMS, STAND_INS, of_case, quick
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skcalib
from skcalib.export import to_onnx

onnx = pytest.importorskip("onnx", reason="onnx is not installed")

from onnx_cases import hard_rows, logits_of, run  # noqa: E402  (after the skip)

OUTPUTS = ["probabilities", "logits", "label"]
DTYPES = ["float32", "float64"]
# Largest differences of probabilities, and relative ones of logits.
TOLERANCE = {"float32": 1e-5, "float64": 1e-9}

# Calibrators with steps. In a small share of rows, a score may fall on the other side of an edge,
# because the runtime rounds the exponential function differently.
WITH_STEPS = (
    skcalib.HistogramBinning
    | skcalib.IsotonicCalibration
    | skcalib.VennAbersCalibration
    | skcalib.BBQ
    | skcalib.experimental.EstimatorCalibration
    | skcalib.AutoCalibrator
)
SHARE = 1e-3

# Parameters that make the default calibrators fast.
FAST = {
    "AutoCalibrator": {
        "calibrators": {
            "temperature": skcalib.TemperatureScaling(smoothing="auto"),
            "vector": skcalib.VectorScaling(),
            "histogram": skcalib.HistogramBinning(n_bins=5),
        },
        "cv": 2,
        "random_state": 0,
    },
    "ConditionalCalibrator": {"calibrators": [skcalib.VectorScaling()], "cv": 2},
    "EstimatorCalibration": {
        "estimator": HistGradientBoostingClassifier(max_iter=3, random_state=0)
    },
}


def real(form):
    """The form of a calibrator, with the calibrator itself in place of its stand-in."""
    name = type(form).__name__
    if name not in STAND_INS:
        return form
    return STAND_INS[name].__bases__[0](**form.get_params(deep=False) | FAST[name])


ALL = [real(kind()) for kind in CALIBRATORS]


def relative(A, B):
    """Relative differences of large numbers; equal infinities have none."""
    with np.errstate(invalid="ignore"):
        return np.where(A == B, 0, np.abs(A - B) / (1 + np.abs(B)))


def close_rows(calibrator, found, X, tolerance):
    """Rows with the probabilities and logits of the calibrator, up to rounding errors.

    Where logits in single precision are not enough to compute them, the errors of the calibrator
    itself, four times, count as well.
    """
    wide = X.astype(np.float64)
    P, S = calibrator.predict_proba(X), calibrator.transform(X)
    of_proba = np.abs(P - calibrator.predict_proba(wide)).max(axis=1)
    of_logits = relative(S, calibrator.transform(wide)).max(axis=1)
    proba = np.abs(found["probabilities"] - P).max(axis=1) <= tolerance + 4 * of_proba
    return proba & (relative(found["logits"], S).max(axis=1) <= tolerance + 4 * of_logits)


def check_agreement(calibrator, X, *, optimized=(False, True)):
    """Check the probabilities, logits and labels of the model of a calibrator."""
    model = to_onnx(calibrator, dtype=X.dtype, outputs=OUTPUTS)
    share = SHARE if isinstance(calibrator, WITH_STEPS) else 0
    wrong_by_trees = 1e-6 * isinstance(calibrator, skcalib.experimental.EstimatorCalibration)
    tolerance = max(TOLERANCE[str(X.dtype)], wrong_by_trees)
    P = calibrator.predict_proba(X)
    tied = np.diff(np.sort(P, axis=1)[:, -2:])[:, 0] < 2 * max(tolerance, 1e-6)
    labels_in_double = calibrator.predict(X.astype(np.float64))
    for level in optimized:
        found = run(model, X, optimized=level)
        assert found["probabilities"].dtype == found["logits"].dtype == X.dtype
        close = close_rows(calibrator, found, X, tolerance)
        assert 1 - close.mean() <= share, X[~close][:5]
        labels = calibrator.predict(X)
        same = np.abs(found["probabilities"] - P).max(axis=1) <= tolerance
        labels_differ = (found["label"] != labels) & same & (labels == labels_in_double)
        assert not (labels_differ & ~(tied & ~calibrator._keeps_order)).any()
        assert (found["probabilities"][X == -np.inf] == 0).all() if X.shape[1] > 1 else True


@pytest.mark.parametrize(
    ("dtype", "widths"),
    [
        ("float32", (1, 3)),
        ("float64", (2,)),
        pytest.param("float32", (10,), marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("form", quick(FORMS), ids=repr)
def test_models_have_the_outputs_of_every_calibrator(form, dtype, widths, rng):
    form = real(form)
    for n_columns in widths:
        Z, y = logits_of(n_columns)
        calibrator = clone(form).fit(Z.astype(dtype), y)
        X = hard_rows(Z, 200, rng, masked=form._takes_masked).astype(dtype)
        with of_case(f"{n_columns} columns"):
            check_agreement(calibrator, X)


@pytest.mark.parametrize("calibrator", ALL, ids=lambda calibrator: type(calibrator).__name__)
def test_models_are_valid(calibrator):
    """Models have the documented versions and take any number of independent rows.

    The calibrator does not change.
    """
    for n_columns in (1, 3):
        Z, y = logits_of(n_columns)
        fitted = clone(calibrator).fit(Z, y)
        before = {name: id(value) for name, value in vars(fitted).items()}
        model = to_onnx(fitted, outputs=OUTPUTS)
        again = to_onnx(fitted, outputs=OUTPUTS)
        assert again.SerializeToString() == model.SerializeToString()
        assert {name: id(value) for name, value in vars(fitted).items()} == before
        versions = {opset.domain: opset.version for opset in model.opset_import}
        assert versions in ({"": 18}, {"": 18, "ai.onnx.ml": 3})
        assert model.ir_version == 8
        assert {node.domain for node in model.graph.node} == versions.keys()
        onnx.checker.check_model(model, full_check=True)
        shapes = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        assert shapes.graph.output == model.graph.output
        used = {name for node in model.graph.node for name in node.input}
        assert {constant.name for constant in model.graph.initializer} <= used
        assert len(onnx.shape_inference.infer_shapes(model).graph.value_info) > 0
        X = Z[:20].astype(np.float32)
        one_by_one, nothing = [run(model, X[i : i + 1]) for i in range(3)], run(model, X[:0])
        for name, together in run(model, X).items():
            alone = np.concatenate([found[name] for found in one_by_one])
            np.testing.assert_allclose(
                *(A if name != "label" else A == A[0] for A in (alone, together[:3])), rtol=1e-5
            )
            assert nothing[name].shape == (0, *together.shape[1:])


@pytest.mark.parametrize(
    "labels",
    [
        ["no", "peut-être", "yes"],
        [-3, 0, 4],
        [1.0, 2.0, 3.0],
        np.array([1, 2, 2**40], np.uint64),
        np.array(["a", "b", "c"], object),
        np.array([1, 2, 3], np.int8),
        [False, True],
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::families.ColumnOrderWarning")
def test_labels_of_any_type_are_an_output(labels):
    Z, y = logits_of(3 if len(labels) == 3 else 1)
    calibrator = skcalib.VectorScaling().fit(Z, np.asarray(labels)[y])
    model = to_onnx(calibrator, outputs=("label", "probabilities"))
    found = run(model, Z.astype(np.float32))
    assert list(found) == ["label", "probabilities"]
    assert found["label"].tolist() == calibrator.predict(Z).tolist()
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    assert json.loads(metadata["skcalib.classes"]) == np.asarray(labels).tolist()


@pytest.mark.filterwarnings("ignore::families.ColumnOrderWarning")
def test_labels_without_an_onnx_type_are_refused_as_output():
    Z, y = logits_of(3)
    calibrator = skcalib.PlattScaling().fit(Z, np.array([1, 2, 2**63], np.uint64)[y])
    run(to_onnx(calibrator), Z.astype(np.float32))
    with pytest.raises(ValueError, match="'label'"):
        to_onnx(calibrator, outputs="label")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_columns", [1, 2, 5])
def test_pipelines_are_one_model(n_columns, dtype, rng):
    Z, y = logits_of(n_columns)
    Z = Z.astype(dtype)
    X = hard_rows(Z, 200, rng, masked=False).astype(dtype)
    pair = skcalib.TemperatureScaling(), skcalib.PlattScaling()
    nested = make_pipeline(
        skcalib.VectorScaling(), make_pipeline("passthrough", skcalib.OrderPreservingScaling())
    )
    for chain in (make_pipeline(*pair), make_pipeline(*pair[::-1]), nested):
        chain.fit(Z, y)
        found = run(to_onnx(chain, dtype=dtype, outputs=OUTPUTS), X)
        P = chain.predict_proba(X)
        np.testing.assert_allclose(found["probabilities"], P, atol=TOLERANCE[dtype])
        sure = np.diff(np.sort(P, axis=1)[:, -2:])[:, 0] > 1e-6
        assert (found["label"] == chain.predict(X))[sure].all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_columns", [1, 2, 4])
def test_known_and_estimated_priors_are_exported(n_columns, dtype, rng):
    """Known priors (including zero) and estimated priors."""
    Z, y = logits_of(n_columns)
    priors = np.array([0.6, 0.4, 0, 0][: max(n_columns, 2)])
    Z = Z.astype(dtype)
    X = hard_rows(Z, 200, rng, masked=True).astype(dtype)
    given = skcalib.PriorShift(priors=priors).fit(Z, y)
    check_agreement(given, X)
    adapted = clone(given).set_params(priors=None).fit(Z, y).adapt(Z[y < 2])
    check_agreement(adapted, X)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "member",
    [
        None,
        skcalib.PlattScaling(smooth_targets=False),
        skcalib.TemperatureScaling(smoothing="auto"),
        skcalib.IsotonicCalibration(),
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # of labels that no row has
def test_several_labels_have_an_output_each(member, dtype, rng):
    Z, _ = logits_of(4)
    Z = Z.astype(dtype)
    E = rng.random(Z.shape) < 1 / (1 + np.exp(-Z / 2))
    E[:, 3] = False
    X = hard_rows(Z, 200, rng, masked=False).astype(dtype)
    for n_labels in (4, 1):
        calibrator = skcalib.MultiLabelCalibrator(member).fit(Z[:, :n_labels], E[:, :n_labels])
        model = to_onnx(calibrator, dtype=dtype, outputs=OUTPUTS)
        onnx.checker.check_model(model, full_check=True)
        found = run(model, X[:, :n_labels])
        P = calibrator.predict_proba(X[:, :n_labels])
        np.testing.assert_allclose(found["probabilities"], P, atol=TOLERANCE[dtype])
        S = calibrator.transform(X[:, :n_labels])
        assert relative(found["logits"], S).max() < TOLERANCE[dtype]
        sure = np.abs(P - 0.5) > 1e-5
        assert (found["label"] == calibrator.predict(X[:, :n_labels]))[sure].all()
        assert found["label"].dtype == np.int64
        assert "label" in model.graph.input[0].doc_string


def test_predictions_where_probabilities_are_tied():
    """Calibrators that keep the order predict the labels of the logits."""
    Z, y = logits_of(3)
    X = np.array([[0, 1e-6, 0], [40, 41, 0], [0, 0, 1e-30]], np.float32)
    for kind in (skcalib.TemperatureScaling, skcalib.OrderPreservingScaling):
        calibrator = kind(smoothing=0.01).fit(Z, y)
        found = run(to_onnx(calibrator, outputs=OUTPUTS), X)
        assert found["label"].tolist() == calibrator.predict(X).tolist() == [1, 1, 2]


INVALID = {"NaN": [0, np.nan, 1], "masked throughout": [-np.inf, -np.inf, -np.inf]}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("calibrator", ALL, ids=lambda calibrator: type(calibrator).__name__)
def test_invalid_rows_give_nan_and_change_no_other_row(calibrator, dtype):
    """Invalid rows do not change other rows, and smooth maps give NaN for them."""
    Z, y = logits_of(3)
    cases = dict(INVALID)
    if not calibrator._takes_masked:
        cases["masked"] = [0, -np.inf, 1]
    X = np.array([*cases.values(), *Z[:2]], dtype)
    model = to_onnx(clone(calibrator).fit(Z, y), dtype=dtype)
    P = run(model, X)["probabilities"]
    np.testing.assert_allclose(P[-2:], run(model, X[-2:])["probabilities"], rtol=1e-5)
    if not isinstance(calibrator, WITH_STEPS):
        for case, row in zip(cases, P, strict=False):
            assert np.isnan(row).all(), (case, row)


class TestNumbers:
    """Parameters and logits far from 1, which single precision does not hold."""

    @pytest.mark.parametrize(
        ("dtype", "scale"),
        [
            ("float32", 1e-35),
            ("float64", 1e35),
            pytest.param("float32", 1e35, marks=pytest.mark.slow),
        ],
    )
    @pytest.mark.parametrize("calibrator", ALL, ids=lambda calibrator: type(calibrator).__name__)
    def test_tiny_and_huge_logits_are_exact(self, calibrator, scale, dtype):
        if isinstance(calibrator, skcalib.PlattScaling | skcalib.experimental.TopLabelCalibration):
            scale = max(scale, 0.01)  # margins of smaller logits are next to constant
        for n_columns in (1, 3):
            Z, y = logits_of(n_columns)
            X = (scale * Z).astype(dtype)
            check_agreement(clone(calibrator).fit(X, y), X, optimized=[True])

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_small_log_odds_are_exact(self, dtype):
        """Small log-odds are as exact as large ones."""
        Z, y = logits_of(1)
        X = -(10.0 ** -np.arange(0, 35.0))[:, None].astype(dtype)
        calibrator = skcalib.TemperatureScaling(smoothing=0.01).fit(Z, y)
        found = run(to_onnx(calibrator, dtype=dtype, outputs="logits"), X)["logits"]
        tolerance = {"float32": 1e-6, "float64": 1e-14}[dtype]
        np.testing.assert_allclose(found, calibrator.transform(X), rtol=tolerance)

    @pytest.mark.parametrize("smoothing", [1e-45, 0.3])
    @pytest.mark.parametrize("n_columns", [1, 3])
    def test_tiny_and_large_smoothing_is_exact(self, smoothing, n_columns):
        Z, y = logits_of(n_columns)
        Z = Z.astype(np.float32)
        X = np.concatenate([Z, 100 * Z, 1e4 * Z])
        for calibrator in ALL:
            if "smoothing" in calibrator.get_params():
                c = clone(calibrator).set_params(smoothing=smoothing).fit(Z, y)
                check_agreement(c, X, optimized=[True])


class TestWhatIsWritten:
    def test_a_model_describes_itself(self):
        Z, y = logits_of(1)
        names = np.array(["no", "yes"])
        chain = make_pipeline(skcalib.PlattScaling(), skcalib.HistogramBinning()).fit(Z, names[y])
        model = to_onnx(chain, outputs=OUTPUTS)
        metadata = {entry.key: entry.value for entry in model.metadata_props}
        assert metadata == {
            "skcalib.calibrator": "PlattScaling > HistogramBinning",
            "skcalib.classes": '["no", "yes"]',
        }
        assert model.producer_name == "skcalib"
        assert model.producer_version == skcalib.__version__
        (X,) = model.graph.input
        assert X.name == "X"
        assert "yes" in X.doc_string
        assert all(output.doc_string for output in model.graph.output)

    def test_metadata_are_written_and_must_not_collide(self):
        calibrator = skcalib.PlattScaling().fit(*logits_of(3))
        model = to_onnx(calibrator, metadata={"data": "rows of 2026", "n_labels": 300})
        metadata = {entry.key: entry.value for entry in model.metadata_props}
        assert metadata["data"] == "rows of 2026"
        assert metadata["n_labels"] == "300"
        assert "skcalib.classes" in metadata
        with pytest.raises(ValueError, match="begin with"):
            to_onnx(calibrator, metadata={"skcalib.classes": "[]"})
        with pytest.raises(TypeError, match="metadata"):
            to_onnx(calibrator, metadata="rows of 2026")


class Mine(skcalib.TemperatureScaling):
    """A calibrator of somebody else, who does nothing for ONNX."""

    def _calibrate(self, Z):
        return np.minimum(np.where(Z > 0, 1 + Z, np.exp(Z)) * np.array([0.5]), 9.0)


class Operating(skcalib.TemperatureScaling):
    """A calibrator with operators, also in place."""

    def _calibrate(self, Z):
        Z = 2 * Z
        Z += 1.0
        Z /= 4
        chosen = (Z != 0.25) & ~(abs(Z) > 1) | (Z >= 3)
        return np.where(chosen, Z, 3 - Z * np.rint(Z))


class Sliced(skcalib.TemperatureScaling):
    """A calibrator with slices of columns, also with steps."""

    def _calibrate(self, Z):
        return Z[:, ::-1] + Z[:, -1:] + Z[:, [0]] + Z[:, 0][:, None]


class Squared(skcalib.TemperatureScaling):
    """A calibrator with an operator that graphs do not have."""

    def _calibrate(self, Z):
        return Z**2


class Sorted(skcalib.TemperatureScaling):
    """A calibrator with an operation that graphs do not have."""

    def _calibrate(self, Z):
        return np.sort(Z, axis=1)


class Branching(skcalib.TemperatureScaling):
    """A calibrator that depends on the numbers."""

    def _calibrate(self, Z):
        return Z if np.max(Z) > 0 else -Z


class Converting(skcalib.TemperatureScaling):
    """A calibrator that needs an array of NumPy."""

    def _calibrate(self, Z):
        return np.asarray(Z) / 2


class Other(skcalib.TemperatureScaling):
    """A calibrator that replaces a public method."""

    def predict_proba(self, X):
        return 1 - super().predict_proba(X)


def test_classes_derived_from_calibrators():
    for n_columns in (1, 2, 4):
        Z, y = logits_of(n_columns)
        for kind in (Mine, Operating, Sliced):
            check_agreement(kind().fit(Z, y), Z)
        chain = make_pipeline(Mine(), skcalib.AutoCalibrator({"mine": Mine()}))
        P = run(to_onnx(chain.fit(Z, y), dtype="float64"), Z)["probabilities"]
        np.testing.assert_allclose(P, chain.predict_proba(Z), atol=1e-9)


class TestErrors:
    Z, Y = logits_of(3)

    def test_objects_that_are_not_fitted_calibrators_are_refused(self):
        Z, y = self.Z, self.Y
        features = np.array(["a", "b"])[(y > 0) * 1]
        given = skcalib.conditional.ConditionalCalibrator([skcalib.PlattScaling()], cv=2)
        with pytest.warns(UserWarning, match="features alone"):
            given.fit(Z, y, features=features)
        T = skcalib.TemperatureScaling()
        chain = make_pipeline(T, StandardScaler(), clone(T)).fit(Z, y)
        classifier = skcalib.CalibratedClassifier(LogisticRegression(), cv=2).fit(Z, y)
        search = GridSearchCV(skcalib.HistogramBinning(), {"n_bins": [3, 5]}).fit(Z, y)
        assert to_onnx(search.best_estimator_)
        for wrong, error, words in [
            (skcalib.PlattScaling(), NotFittedError, "PlattScaling"),
            (make_pipeline(skcalib.PlattScaling()), NotFittedError, "PlattScaling"),
            *((w, TypeError, "fitted") for w in (skcalib.PlattScaling, LogisticRegression(), None)),
            (classifier, TypeError, "register_skl2onnx"),
            (given, ValueError, "features"),
            (search, TypeError, "best_estimator_"),
            (chain, TypeError, r"pipeline\[2:\]"),
            (make_pipeline("passthrough"), ValueError, "at least one calibrator"),
        ]:
            with pytest.raises(error, match=words):
                to_onnx(wrong)

    def test_classes_that_replace_public_methods(self):
        for calibrator in (Other(), skcalib.experimental.TopLabelCalibration(Other())):
            with pytest.raises(TypeError, match="Other"):
                to_onnx(calibrator.fit(self.Z, self.Y))

    def test_operations_without_an_onnx_equivalent_are_refused(self):
        for calibrator, name in ((Sorted(), "'sort'"), (Squared(), "'power'")):
            with pytest.raises(AttributeError, match=name):
                to_onnx(calibrator.fit(self.Z, self.Y))
        for calibrator in (Branching(), Converting()):
            with pytest.raises(TypeError, match="no numbers"):
                to_onnx(calibrator.fit(self.Z, self.Y))

    @pytest.mark.parametrize("dtype", ["float16", "double precision", int, None, 3, np.array([1])])
    def test_other_types_are_refused(self, dtype):
        with pytest.raises(ValueError, match="dtype"):
            to_onnx(skcalib.PlattScaling().fit(self.Z, self.Y), dtype=dtype)

    @pytest.mark.parametrize("outputs", [(), None, "proba", ("label", "label"), [["label"]], 3])
    def test_other_outputs_are_refused(self, outputs):
        with pytest.raises(ValueError, match="outputs"):
            to_onnx(skcalib.PlattScaling().fit(self.Z, self.Y), outputs=outputs)

    def test_missing_onnx_is_named_with_the_remedy(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "onnx", None)
        with pytest.raises(ImportError, match="pip install"):
            to_onnx(skcalib.PlattScaling().fit(self.Z, self.Y))


def test_increasing_risks_are_refused_with_a_remedy():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(100, 2))
    Y = np.stack([Z[:, 0] > 1, Z[:, 0] > 0], axis=1).astype(int)
    calibrator = skcalib.MultiLabelCalibrator(increasing=True).fit(Z, Y)
    with pytest.raises(TypeError, match="increasing"):
        to_onnx(calibrator)
