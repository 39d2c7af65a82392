"""Pipelines of scikit-learn with calibrators, as skl2onnx converts them, in onnxruntime."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC

from skcalib import (
    BBQ,
    CalibratedClassifier,
    HistogramBinning,
    IsotonicCalibration,
    LogitTransformer,
    PlattScaling,
    TemperatureScaling,
    VectorScaling,
    VennAbersCalibration,
)
from skcalib.datasets import make_logits
from skcalib.experimental import EstimatorCalibration
from skcalib.export import register_skl2onnx, to_onnx

skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from onnx_cases import onnxruntime, run  # noqa: E402  (after the skip)

# Warnings of skl2onnx and its imports.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Attribute `prob[AB]_` was deprecated:FutureWarning"),
]

TOLERANCE = {"float32": 1e-5, "float64": 1e-6}

CLASSIFIERS = [
    LogisticRegression(),
    LinearSVC(),
    RidgeClassifier(),
    HistGradientBoostingClassifier(max_iter=4, random_state=0),
    RandomForestClassifier(5, random_state=0),
]
OTHERS = [
    LinearDiscriminantAnalysis(),
    SVC(),
    GaussianNB(),
    MLPClassifier((4,), max_iter=30, tol=0.1, random_state=0),
    GradientBoostingClassifier(n_estimators=4, random_state=0),
    ExtraTreesClassifier(5, random_state=0),
]
CLASSIFIERS += [pytest.param(classifier, marks=pytest.mark.slow) for classifier in OTHERS]


@pytest.fixture(scope="module", autouse=True)
def _registered():
    register_skl2onnx()


def rows_of(n_classes, n_rows=300):
    return make_classification(
        n_rows, 6, n_informative=5, n_redundant=0, n_classes=n_classes, flip_y=0.2, random_state=0
    )


def converted(model, X, **options):
    return skl2onnx.to_onnx(model, X[:1], options={"zipmap": False, **options})


def check_agreement(model, X, *, share=0.0):
    """Check labels and probabilities against the model, and types against the input."""
    label, P = run(converted(model, X), X).values()
    expected = model.predict_proba(X)
    close = np.abs(P - expected).max(axis=1) < TOLERANCE[X.dtype.name]
    assert 1 - close.mean() <= share
    top_two = np.sort(expected, axis=1)[:, -2:]
    sure = close & (np.diff(top_two)[:, 0] > 1e-6)
    assert label[sure].tolist() == model.predict(X)[sure].tolist()
    return P


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::families.ColumnOrderWarning")
@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=lambda c: type(c).__name__)
def test_classifiers_with_scaled_features(classifier):
    is_boosting = isinstance(classifier, HistGradientBoostingClassifier)
    for n_classes in (2, 3):
        X, y = rows_of(n_classes)
        y = np.array(["a", "b", "c"])[y]
        whole = make_pipeline("passthrough", StandardScaler(), classifier)
        for calibrator in (TemperatureScaling(), IsotonicCalibration()):
            model = CalibratedClassifier(whole, calibrator, cv=2).fit(X, y)
            assert check_agreement(model, X).dtype == np.float64
            # Features in single precision may be on the other side of a threshold.
            share = 0.5 if is_boosting else 0.01
            assert check_agreement(model, X.astype(np.float32), share=share).dtype == np.float32


@pytest.mark.parametrize(
    "model",
    [
        CalibratedClassifier(LogisticRegression(), HistogramBinning(), cv=3, ensemble=True),
        CalibratedClassifier(
            RandomForestClassifier(5, random_state=0), BBQ(), response_method="predict_proba"
        ),
        CalibratedClassifier(
            GridSearchCV(LogisticRegression(), {"C": [0.1, 1]}, cv=2), PlattScaling(), cv=2
        ),
        CalibratedClassifier(GaussianNB(), make_pipeline(TemperatureScaling(), BBQ()), cv=2),
        CalibratedClassifier(LogisticRegression(), EstimatorCalibration(), cv=2),
        make_pipeline(StandardScaler(), CalibratedClassifier(LinearSVC(), VectorScaling(), cv=2)),
        make_pipeline(LogitTransformer(GaussianNB(), cv=2), VectorScaling()),
        make_pipeline(
            make_pipeline(StandardScaler(), LogitTransformer(SVC(kernel="linear"), cv=2)),
            make_pipeline(TemperatureScaling(), PlattScaling()),
            VennAbersCalibration(),
        ),
    ],
    ids=lambda model: " ".join(repr(model).split())[:60],
)
def test_whole_pipelines_are_converted(model):
    for n_classes in (2, 3):
        X, y = rows_of(n_classes)
        check_agreement(model.fit(X, y), X)


def test_frozen_classifiers_are_converted():
    X, y = rows_of(3)
    frozen = FrozenEstimator(make_pipeline(StandardScaler(), MLPClassifier(max_iter=20, tol=1)))
    frozen.estimator.fit(X[:150], y[:150])
    check_agreement(CalibratedClassifier(frozen, TemperatureScaling()).fit(X[150:], y[150:]), X)


@pytest.mark.filterwarnings("ignore:The training rows of 1 of 2 splits lack class 2")
def test_classes_that_a_fold_lacks():
    X, y = rows_of(3, 150)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    splits = [(np.arange(100), np.arange(100)), (np.arange(150), np.arange(150))]
    model = CalibratedClassifier(LogisticRegression(), PlattScaling(), cv=splits, ensemble=True)
    check_agreement(model.fit(X, y), X)


def test_columns_of_a_data_frame_are_inputs():
    """Each is an input of its own, also where preprocessing is inside."""
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    X, y = rows_of(3)
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    frame["g"] = np.where(X[:, 0] > 0, "x", "y")
    columns = ColumnTransformer(
        [("numbers", StandardScaler(), list("abcdef")), ("text", OneHotEncoder(), ["g"])]
    )
    inputs = {name: frame[[name]].to_numpy() for name in frame}
    inputs["g"] = inputs["g"].astype(object)
    for model in (
        CalibratedClassifier(make_pipeline(columns, LogisticRegression()), cv=2),
        CalibratedClassifier(make_pipeline(columns, GaussianNB()), PlattScaling(), cv=2),
        make_pipeline(columns, CalibratedClassifier(LogisticRegression(), BBQ(), cv=2)),
    ):
        model.fit(frame, y)
        session = onnxruntime.InferenceSession(converted(model, frame).SerializeToString())
        P = session.run(None, inputs)[1]
        np.testing.assert_allclose(P, model.predict_proba(frame), atol=1e-6)


def test_columns_of_several_types_are_concatenated():
    """Columns are concatenated in the common dtype of NumPy."""
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    X, y = rows_of(3)
    frame = pandas.DataFrame({"a": X[:, 0], "b": np.rint(4 * X[:, 1]).astype(np.int32)})
    frame["c"] = X[:, 2].astype(np.float32)
    inputs = {name: frame[[name]].to_numpy() for name in frame}
    for classifier in (LogisticRegression(), RandomForestClassifier(3, random_state=0)):
        model = CalibratedClassifier(classifier, PlattScaling(), cv=2).fit(frame, y)
        session = onnxruntime.InferenceSession(converted(model, frame).SerializeToString())
        P = session.run(None, inputs)[1]
        np.testing.assert_allclose(P, model.predict_proba(frame), atol=1e-6)


def test_ordered_categories_keep_the_order_of_their_columns():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    for names in (["low", "high"], ["low", "mid", "high"]):
        X, y = rows_of(len(names))
        labels = pandas.Categorical(np.array(names)[y], categories=names, ordered=True)
        for classifier in (LogisticRegression(), GaussianNB()):
            transformer = LogitTransformer(classifier, cv=2)
            model = make_pipeline(transformer, VectorScaling()).fit(X, pandas.Series(labels))
            assert model.classes_.tolist() == names
            check_agreement(model, X)
        check_agreement(CalibratedClassifier(GaussianNB(), cv=2).fit(X, pandas.Series(labels)), X)


def test_integer_features_are_converted():
    """Integers also work with steps of skl2onnx, except for steps without int32."""
    X, y = rows_of(3)
    X = np.rint(4 * X).astype(np.int64)
    classifier = make_pipeline(StandardScaler(), LogisticRegression())
    model = CalibratedClassifier(classifier, PlattScaling(), cv=2).fit(X, y)
    P = run(converted(model, X), X)["probabilities"]
    np.testing.assert_allclose(P, model.predict_proba(X), atol=1e-5)
    with pytest.raises(TypeError, match="Pipeline"):
        converted(model, X.astype(np.int32))


def test_sparse_coefficients_are_converted():
    X, y = rows_of(3)
    classifier = LogisticRegression(C=0.01, l1_ratio=1, solver="saga", tol=0.1)
    classifier = FrozenEstimator(classifier.fit(X, y).sparsify())
    check_agreement(CalibratedClassifier(classifier, PlattScaling()).fit(X, y), X)


def test_forests_see_features_in_single_precision():
    """At the thresholds and one number in double precision beside them."""
    X, y = rows_of(2)
    forest = RandomForestClassifier(5, random_state=0)
    model = CalibratedClassifier(forest, PlattScaling(), cv=2, ensemble=False).fit(X, y)
    tree = model.estimator_.estimators_[0].tree_
    inner = tree.feature >= 0
    rows = np.repeat(X[:1], inner.sum(), axis=0)
    rows[np.arange(len(rows)), tree.feature[inner]] = tree.threshold[inner]
    check_agreement(model, np.concatenate([np.nextafter(rows, far) for far in (-9e9, rows, 9e9)]))


def test_missing_features_go_where_scikit_learn_sends_them():
    """Trees send them where scikit-learn does."""
    X, y = rows_of(3)
    X[::7, 0] = np.nan
    for classifier in (
        HistGradientBoostingClassifier(max_iter=4),
        RandomForestClassifier(5, random_state=0),
    ):
        model = CalibratedClassifier(classifier, TemperatureScaling(), cv=2).fit(X, y)
        check_agreement(model, X)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_probabilities_may_be_dictionaries(dtype):
    """The default of skl2onnx, which are in single precision only."""
    X, y = rows_of(3)
    X = X.astype(dtype)
    for model in (
        CalibratedClassifier(GaussianNB(), PlattScaling(), cv=2),
        make_pipeline(
            LogitTransformer(LogisticRegression(), cv=2), TemperatureScaling(), PlattScaling()
        ),
    ):
        found = list(run(skl2onnx.to_onnx(model.fit(X, y), X[:1]), X).values())
        P = np.array([[row[label] for label in range(3)] for row in found[1]])
        np.testing.assert_allclose(P, model.predict_proba(X), atol=1e-5)
        assert len(found) == 2


def test_probabilities_may_be_columns():
    X, y = rows_of(3)
    model = make_pipeline(LogitTransformer(GaussianNB(), cv=2), PlattScaling()).fit(X, y)
    found = list(run(converted(model, X, zipmap="columns"), X).values())
    np.testing.assert_allclose(np.column_stack(found[1:]), model.predict_proba(X), atol=1e-6)
    with_classes = list(run(converted(model, X, output_class_labels=True), X).values())
    assert with_classes[2].tolist() == [0, 1, 2]


def test_calibrators_alone_are_converted():
    Z, y = make_logits(200, 3, random_state=0)
    calibrator = PlattScaling().fit(Z, y)
    for dtype in ("float32", "float64"):
        assert check_agreement(calibrator, Z.astype(dtype)).dtype == dtype


def test_old_versions_of_operators_are_refused():
    X, y = rows_of(2)
    model = CalibratedClassifier(RandomForestClassifier(3), BBQ(), cv=2).fit(X, y)
    for target in (18, {"": 20, "ai.onnx.ml": 3}):
        made = skl2onnx.to_onnx(model, X[:1], options={"zipmap": False}, target_opset=target)
        P = run(made, X)["probabilities"]
        np.testing.assert_allclose(P, model.predict_proba(X), atol=1e-6)
    with pytest.raises(RuntimeError, match="target_opset"):
        skl2onnx.to_onnx(model, X[:1], target_opset=15)


@pytest.mark.parametrize(
    "estimator",
    [LogisticRegression(), GaussianNB(), make_pipeline(StandardScaler(), MLPClassifier((3,)))],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_classifiers_in_a_calibrator_are_converted(estimator):
    for n_classes in (2, 4):
        Z, y = make_logits(200, n_classes, random_state=0)
        calibrator = EstimatorCalibration(estimator).fit(Z, y)
        for dtype in ("float32", "float64"):
            P = run(to_onnx(calibrator, dtype=dtype), Z.astype(dtype))["probabilities"]
            expected = calibrator.predict_proba(Z.astype(dtype))
            np.testing.assert_allclose(P, expected, atol=TOLERANCE[dtype])


class TestErrors:
    X, Y = rows_of(2)

    def test_models_that_are_not_fitted_are_refused(self):
        for model in (CalibratedClassifier(GaussianNB()), PlattScaling()):
            with pytest.raises(NotFittedError, match="not fitted"):
                converted(model, self.X)

    def test_calibrators_of_other_libraries_are_refused(self):
        model = CalibratedClassifier(GaussianNB(), LogisticRegression(), cv=2)
        with pytest.raises(TypeError, match="fitted calibrator"):
            converted(model.fit(self.X, self.Y), self.X)

    def test_several_labels_are_refused(self):
        Y = np.column_stack([self.Y, 1 - self.Y])
        classifier = RandomForestClassifier(5, random_state=0)
        model = CalibratedClassifier(classifier, cv=2).fit(self.X, Y)
        with pytest.raises(TypeError, match="several labels"):
            converted(model, self.X)

    def test_margins_missing_in_skl2onnx_are_refused(self):
        model = CalibratedClassifier(QuadraticDiscriminantAnalysis(), PlattScaling(), cv=2)
        with pytest.raises(TypeError, match="response_method"):
            converted(model.fit(self.X, self.Y), self.X)
        model.set_params(response_method="predict_proba")
        check_agreement(model.fit(self.X, self.Y), self.X)

    def test_probabilities_wrong_in_skl2onnx_are_refused(self):
        model = CalibratedClassifier(
            LinearDiscriminantAnalysis(), PlattScaling(), cv=2, response_method="predict_proba"
        )
        with pytest.raises(TypeError, match="LinearDiscriminantAnalysis"):
            converted(model.fit(self.X, self.Y), self.X)

    def test_converters_that_ignore_raw_scores(self):
        """The converter of LightGBM does this. Its probabilities must not count as margins."""

        class Margins(GaussianNB):
            def decision_function(self, X):
                return np.diff(self.predict_joint_log_proba(X), axis=1)[:, 0]

        from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes

        def convert(scope, operator, container):
            label, P = (output.full_name for output in operator.outputs)
            (X,) = (variable.full_name for variable in operator.inputs)
            container.add_node("ArgMax", X, label, axis=1, keepdims=0)
            container.add_node("Softmax", X, P, axis=1)

        options = {name: [True, False] for name in ("nocl", "zipmap", "raw_scores")}
        shapes = calculate_linear_classifier_output_shapes
        skl2onnx.update_registered_converter(Margins, "Margins", shapes, convert, options=options)
        model = CalibratedClassifier(Margins(), PlattScaling(), cv=2).fit(self.X, self.Y)
        with pytest.raises(TypeError, match="raw_scores"):
            converted(model, self.X)

    def test_missing_skl2onnx_is_named(self, monkeypatch):
        Z, y = make_logits(100, 3, random_state=0)
        calibrator = EstimatorCalibration(GaussianNB()).fit(Z, y)
        monkeypatch.setitem(sys.modules, "skl2onnx", None)
        with pytest.raises(ImportError, match="GaussianNB"):
            to_onnx(calibrator)
        with pytest.raises(ImportError, match="skl2onnx"):
            register_skl2onnx()
