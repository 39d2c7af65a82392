"""Classifiers of scikit-learn as ONNX graphs: by skl2onnx, but for those of which it loses digits.

Linear classifiers and ensembles of trees have formulas here, in double precision as those of
scikit-learn, since steps of a calibrator see the smallest differences.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier, GradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import (
    LogisticRegression,
    LogisticRegressionCV,
    Perceptron,
    RidgeClassifier,
    RidgeClassifierCV,
    SGDClassifier,
)
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from ._graph import Value, concat
from ._onnx_trees import tree_probabilities, tree_scores
from ._trees import missing_goes_left, trees_of

# Classifiers with linear margins.
LINEAR = {
    LinearDiscriminantAnalysis,
    LinearSVC,
    LogisticRegression,
    LogisticRegressionCV,
    Perceptron,
    RidgeClassifier,
    RidgeClassifierCV,
    SGDClassifier,
}


# Classifiers that take features in single precision, in scikit-learn or in skl2onnx.
SINGLE = {
    AdaBoostClassifier,
    BaggingClassifier,
    DecisionTreeClassifier,
    ExtraTreeClassifier,
    GradientBoostingClassifier,
}


class Features(NamedTuple):
    """Inputs of a classifier, one matrix or several columns."""

    values: dict[str, Value]  #: by their names
    n_columns: list[int | None]
    options: dict[Any, Any]  #: of converters of skl2onnx, by the identity of estimators

    def as_one(self) -> Value:
        """All columns as one matrix."""
        return concat(list(self.values.values()))

    def single(self) -> Features:
        """The same in single precision."""
        values = {name: value.astype(np.float32) for name, value in self.values.items()}
        return self._replace(values=values)


def response(classifier: Any, method: str, X: Features) -> Value:
    """Probabilities (n_rows, K), or margins (n_rows, K) or (n_rows, 1), of a fitted classifier."""
    steps, last = _steps(classifier)
    if not _has_formula(last, method):
        whole = Pipeline([*steps, ("classifier", last)]) if steps else last
        return _response_by_skl2onnx(whole, last, method, X)
    if steps:
        X = Features({"X": _by_skl2onnx(Pipeline(steps), X)[0]}, [None], X.options)
    return _by_formula(last, method, X.as_one())


def _steps(classifier: Any) -> tuple[list[tuple[str, Any]], Any]:
    """Steps before the last classifier in pipelines, and that."""
    classifier = _innermost(classifier)
    if not isinstance(classifier, Pipeline):
        return [], classifier
    *before, (_, last) = classifier.steps
    after, last = _steps(last)
    real = [step for _, step in before if step not in (None, "passthrough")]
    return [(f"step{i}", step) for i, step in enumerate([*real, *(s for _, s in after)])], last


def _innermost(classifier: Any) -> Any:
    """The classifier that does the work, in frozen ones and in searches."""
    while isinstance(classifier, FrozenEstimator | GridSearchCV | RandomizedSearchCV):
        is_frozen = isinstance(classifier, FrozenEstimator)
        classifier = classifier.estimator if is_frozen else classifier.best_estimator_
    return classifier


def _has_formula(classifier: Any, method: str) -> bool:
    if trees_of(classifier) is not None:
        return hasattr(classifier, method)
    return type(classifier) in LINEAR and method == "decision_function"


def _by_formula(classifier: Any, method: str, F: Value) -> Value:
    trees = trees_of(classifier)
    if trees is not None:
        of_trees = tree_probabilities if method == "predict_proba" else tree_scores
        return of_trees(trees, F, missing_goes_left(classifier))
    coef, intercept = classifier.coef_, np.asarray(classifier.intercept_, np.float64)
    F = F if F.dtype.kind == "f" else F.astype(np.float64)
    S = F.astype(np.float64) @ coef.T.astype(np.float64) + intercept
    return S.astype(np.result_type(F.dtype, coef.dtype))


def _response_by_skl2onnx(classifier: Any, last: Any, method: str, X: Features) -> Value:
    """As skl2onnx converts the classifier, of which ``last`` is the last step."""
    margins = method == "decision_function"
    if not margins and type(last) is LinearDiscriminantAnalysis and len(last.classes_) == 2:
        raise TypeError(
            "skl2onnx converts probabilities of LinearDiscriminantAnalysis wrongly for two "
            "classes. Calibrate its decision_function, as response_method='auto' does."
        )
    options: dict[str, bool] = {"zipmap": False, **({"raw_scores": True} if margins else {})}
    X = X._replace(options={**X.options, id(last): options})
    made = _by_skl2onnx(classifier, X.single() if type(last) in SINGLE else X)[-1]
    if margins and len(last.classes_) == 2:  # skl2onnx gives that of the other class as well
        return made.columns(-1, np.iinfo(np.int64).max)
    return made


def _by_skl2onnx(estimator: Any, X: Features) -> list[Value]:
    """Outputs of an estimator of scikit-learn as skl2onnx converts it."""
    kind, graph = type(estimator).__name__, next(iter(X.values.values())).graph
    try:
        import skl2onnx
        from skl2onnx.common import data_types
    except ImportError as missing:
        raise ImportError(
            f"{kind} is converted to ONNX by skl2onnx, which is not installed: "
            "pip install skl2onnx."
        ) from missing
    kinds = {
        "float32": data_types.FloatTensorType,
        "float64": data_types.DoubleTensorType,
        "int64": data_types.Int64TensorType,
        "bool": data_types.BooleanTensorType,
        "object": data_types.StringTensorType,
    }
    inputs = zip(X.values.items(), X.n_columns, strict=True)
    types = [(name, kinds[value.dtype.name]([None, n])) for (name, value), n in inputs]
    try:
        model = skl2onnx.to_onnx(
            estimator, initial_types=types, options=X.options, target_opset=graph.opsets
        )
    except (RuntimeError, NameError, NotImplementedError, ValueError) as error:
        raise TypeError(
            f"{kind} cannot be converted to ONNX by skl2onnx {skl2onnx.__version__}: "
            f"{str(error).splitlines()[0]} Use another classifier, or another response_method."
        ) from error
    return graph.outputs_of(model, X.values)
