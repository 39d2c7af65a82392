"""Logits of any classifier of scikit-learn."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.frozen import FrozenEstimator

from skcalib._engine.array_api import on_host
from skcalib._typing import Floats
from skcalib._validation.indicator import of_outputs
from skcalib._validation.parameters import check_option, check_real

ResponseMethod = Literal["auto", "decision_function", "predict_proba"]


class Response(NamedTuple):
    """Where the logits of a classifier come from."""

    method: str
    min_proba: float  #: lower bound of probabilities
    multilabel: bool = False  #: whether rows have several labels

    def least(self, dtype: np.dtype[Any]) -> float:
        """The smallest probability."""
        return max(self.min_proba, float(np.finfo(dtype).tiny))


def response_of(estimator: Any, response_method: ResponseMethod, min_proba: float) -> Response:
    """Where the logits of a classifier come from, which may be fitted or not."""
    check_real("min_proba", min_proba, high=1)
    check_option("response_method", response_method, ResponseMethod)
    known = ["decision_function", "predict_proba"]
    wanted = known if response_method == "auto" else [response_method]
    if response_method == "auto" and _is_one_versus_one(estimator):
        wanted = ["predict_proba"]
    for name in wanted:
        if hasattr(estimator, name):
            return Response(name, min_proba)
    remedy = (
        " Its margins are those of pairs of classes: set decision_function_shape='ovr'."
        if _is_one_versus_one(estimator)
        else " Logits cannot come from predictions of labels."
    )
    raise ValueError(f"estimator must have {' or '.join(wanted)}, got {estimator!r}.{remedy}")


def _is_one_versus_one(estimator: Any) -> bool:
    """Whether a parameter of it, or of its last step, makes margins those of pairs of classes."""
    inner = estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator
    return any(
        name.split("__")[-1] == "decision_function_shape" and value == "ovo"
        for name, value in inner.get_params().items()
    )


def logits_of(estimator: Any, X: Any, response: Response) -> Floats:
    """Logits (n, n_classes) of a fitted classifier, or margins (n, 1) of two classes.

    Of several labels per row the log-odds (n, n_labels).
    """
    method = response.method
    if response.multilabel:
        return _log_odds_of(estimator, X, response)
    Z = np.asarray(on_host(getattr(estimator, method)(X)))
    Z = Z if Z.dtype in (np.float32, np.float64) else Z.astype(np.float64)
    Z = Z[:, None] if Z.ndim == 1 else Z
    n_classes = len(on_host(estimator.classes_))
    margins = method == "decision_function" and n_classes == 2 and Z.shape[1] == 1
    if Z.shape[1] != n_classes and not margins:
        raise ValueError(
            f"{method} must give one column for each of the {n_classes} classes, got "
            f"{Z.shape[1]} columns from {type(estimator).__name__}. Choose another "
            "response_method."
        )
    return Z if method == "decision_function" else np.log(np.maximum(Z, response.least(Z.dtype)))


def _log_odds_of(estimator: Any, X: Any, response: Response) -> Floats:
    outputs = of_outputs(getattr(estimator, response.method)(X), estimator.classes_)
    Z = np.asarray(on_host(outputs))
    Z = Z if Z.dtype in (np.float32, np.float64) else Z.astype(np.float64)
    if response.method == "decision_function":
        return Z
    return log_odds(Z, response.least(Z.dtype))


def log_odds(P: Floats, least: float) -> Floats:
    """Log-odds of probabilities, which and whose complements are at least ``least``."""
    odds: Floats = np.log(np.maximum(P, least)) - np.log(np.maximum(1 - P, least))
    return odds
