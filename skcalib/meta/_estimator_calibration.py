"""Any classifier in scikit-learn, fitted to log-probabilities, as a calibrator."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np
from sklearn.base import clone

from skcalib._input.classes import with_unknown_classes
from skcalib._input.estimators import check_classifier, may_have, weight_params
from skcalib._input.parameters import fitted_smoothing
from skcalib._optimize.maps import LOWEST_FEATURE
from skcalib._optimize.temperature import fit_inverse_temperature, mixed_logits
from skcalib._rows import Rows, map_blocks, with_one_openmp_thread
from skcalib._rows.arrays import (
    astype,
    at_least,
    concat,
    double,
    in_columns_of,
    log_softmax,
    masked_logits,
    mix_logits,
    namespace,
    smallest_normal,
)
from skcalib._typing import ArrayLike, Floats, Indices
from skcalib.base import BaseCalibrator

# Below this number of features, starting OpenMP threads costs more than they save.
MANY_NUMBERS = 1 << 20

# Features are rounded to multiples of this unit, so that trees do not divide ties.
FEATURE_UNIT = 2.0**-40


class EstimatorCalibration(BaseCalibrator):
    r"""Any classifier in scikit-learn as a calibrator, fitted to log-probabilities.

    After temperature scaling, the probabilities are mixed with the uniform distribution,

    .. math:: l = \log\left((1 - \varepsilon)\, \mathrm{softmax}(z / T)
        + \frac{\varepsilon}{K}\right).

    The features of a row are :math:`l_1, \dots, l_K`, and the same numbers minus their mean. For
    two classes the only feature is the log-odds :math:`l_2 - l_1`. Classes are numbered by their
    mean log-probability, and rows are sorted, so that the fit does not depend on their order. A
    classifier is fitted to these features. Its probabilities :math:`f(l)` are mixed with the
    uniform distribution, too,

    .. math:: \hat p_k = (1 - \varepsilon)\, f_k(l) + \frac{\varepsilon}{K} .

    The order of the classes in a row may change, and with it the accuracy.

    Parameters
    ----------
    estimator : classifier, default=None
        A classifier with ``predict_proba``, or a pipeline that ends with one. A clone is fitted
        with class numbers as labels. None means a strongly regularized and deterministic
        :class:`~sklearn.ensemble.HistGradientBoostingClassifier`, with 20 iterations and trees with
        at most 4 leaves.
    smoothing : float or "auto", default="auto"
        The share :math:`\varepsilon` of the uniform distribution, at least 0 and below 1.
        "auto" is :math:`1 / (N + 1)` for N rows, or for weights that sum to N.
    classes : array-like of shape (n_classes,), default=None
        All labels in column order, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    estimator_ : classifier
        The fitted classifier.
    order_ : ndarray of shape (n_classes,)
        Column numbers for the classes in ``estimator_``, by increasing mean log-probability.
    temperature_ : float
        The temperature :math:`T` of the features.
    smoothing_ : float
        The share :math:`\varepsilon`.
    classes_ : ndarray of shape (n_classes,)
        Labels in column order.
    n_features_in_ : int
        Number of columns in ``X`` during ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Column names, if ``X`` had string names.

    Warns
    -----
    UserWarning
        If weights sum to far less than the number of rows, and as for
        :class:`TemperatureScaling`.

    See Also
    --------
    AutoCalibrator : Mixes trees with linear maps, by cross-validation.

    Notes
    -----
    ``fit`` raises a ValueError if weights are passed and the classifier accepts none. A class
    without calibration rows has the probability :math:`\varepsilon / K`, and a masked class the
    probability 0. Features are rounded to multiples of :math:`2^{-40}`, because trees might
    otherwise divide ties by rounding errors.

    Gradient boosting grows one tree per class in each iteration: with 5000 rows a fit takes about
    0.1 s for ten classes and 5 s for a hundred classes. In a forest such as
    ``ExtraTreesClassifier(100, min_samples_leaf=10, max_features=0.5)`` one tree serves all
    classes.

    Dask collections with more than a million rows are sampled. With scikit-learn's
    ``array_api_dispatch``, tensors are copied to the host, and outputs are tensors like ``X``.

    References
    ----------
    .. [1] Wolpert, "Stacked Generalization", Neural Networks 5, 1992: classifiers fitted to
       the outputs of others.

    Examples
    --------
    >>> from sklearn.metrics import log_loss
    >>> from skcalib import MatrixScaling
    >>> from skcalib.experimental import EstimatorCalibration
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(4000, 3, random_state=0)
    >>> logits[logits.argmax(axis=1) == 0] *= 3  # no linear map undoes this
    >>> losses = [
    ...     log_loss(y[2000:], calibrator.fit(logits[:2000], y[:2000]).predict_proba(logits[2000:]))
    ...     for calibrator in (EstimatorCalibration(), MatrixScaling())
    ... ]
    >>> [round(loss, 3) for loss in losses]
    [0.622, 0.625]
    """

    estimator_: Any
    order_: Indices
    temperature_: float
    smoothing_: float

    def __init__(
        self,
        estimator: Any = None,
        *,
        smoothing: Literal["auto"] | float = "auto",
        classes: ArrayLike | None = None,
    ) -> None:
        self.classes = classes
        self.estimator = estimator
        self.smoothing = smoothing

    def _fit(self, rows: Rows) -> dict[str, Any]:
        estimator = self._default_estimator() if self.estimator is None else self.estimator
        check_classifier(estimator, type(self).__name__)
        if not may_have(estimator, "predict_proba"):
            raise ValueError(
                f"estimator must have predict_proba, got {estimator!r}. Choose another classifier, "
                "or wrap it as in CalibratedClassifier(estimator)."
            )
        n_rows, rows = rows.n_rows, rows.in_memory()
        if rows.n_rows < n_rows and len(np.unique(rows.y)) == 1:
            raise ValueError(
                "The sample of rows for the classifier must contain at least two classes, got one "
                f"class only in {rows.n_rows:,} of {n_rows:,} rows. Fit another calibrator, or fit "
                "to rows in memory with all rows of the rarer classes."
            )
        smoothing = fitted_smoothing(self.smoothing, rows)
        temperature = 1 / fit_inverse_temperature(rows, smoothing).value
        L = map_blocks(
            lambda Z: _clip_log_probabilities(mixed_logits(temperature, smoothing, Z), smoothing),
            rows.X,
        )
        order, in_order = canonical_orders(L, rows.y, rows.w)
        F, y = _tree_features(L[in_order], order), np.argsort(order)[rows.y[in_order]]
        w = None if rows.w is None else rows.w[in_order]
        weights = weight_params(estimator, w, "estimator")
        fit = partial(clone(estimator).fit, F, y, **weights)
        return {
            "estimator_": fit() if F.size > MANY_NUMBERS else with_one_openmp_thread(fit),
            "order_": order,
            "temperature_": temperature,
            "smoothing_": smoothing,
        }

    def _calibrate(self, Z: Floats) -> Floats:
        scaled = mixed_logits(self.temperature_, 0.0, masked_logits(Z))
        # ONNX graphs do not round as NumPy does. In float32 features might cross thresholds.
        exact = scaled if isinstance(Z, np.ndarray) else double(scaled)
        mixed = astype(mix_logits(exact, self.smoothing_), Z.dtype)
        F = _tree_features(_clip_log_probabilities(mixed, self.smoothing_), self.order_)
        xp = namespace(Z)
        if hasattr(xp, "predict_proba"):  # an ONNX graph contains the converted classifier
            P = xp.predict_proba(self.estimator_, F)
        else:  # one OpenMP thread, since threads already share the blocks
            P = with_one_openmp_thread(_predict_proba, self.estimator_, F)
        classes = self.order_[self.estimator_.classes_]
        P = with_unknown_classes(P, classes, np.arange(max(Z.shape[1], 2)))
        L = astype(xp.log(at_least(P, smallest_normal(Z))), Z.dtype)
        return in_columns_of(Z, L)

    @staticmethod
    def _default_estimator() -> Any:
        return boosted_trees(0.3, 20)


def _predict_proba(classifier: Any, F: Floats) -> Floats:
    """Return the probabilities (m, n_classes) of a classifier for features (m, n_features).

    Forests are evaluated without joblib: for one row, its tasks take ten times as long as the
    trees.
    """
    if type(classifier).__module__ == "sklearn.ensemble._forest":
        S = F.astype(np.float32)
        P = np.mean([tree.tree_.predict(S) for tree in classifier.estimators_], axis=0)
    else:
        P = classifier.predict_proba(F)
    return P


def boosted_trees(learning_rate: float, n_iterations: int) -> Any:
    """Return an unfitted gradient boosting classifier with small, strongly regularized trees."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    # The seed only affects the subsample for the bins, with more than 200 000 rows.
    return HistGradientBoostingClassifier(
        learning_rate=learning_rate,
        max_iter=n_iterations,
        max_leaf_nodes=4,
        min_samples_leaf=10,
        l2_regularization=10,
        max_bins=64,
        early_stopping=False,
        random_state=0,
    )


def _clip_log_probabilities(Z: Floats, smoothing: float) -> Floats:
    """Return log-probabilities (m, K) of mixed logits in float64.

    They are clipped at the smallest value of the mixture, also for masked classes.
    """
    L = log_softmax(double(Z))
    lowest = max(np.log(smoothing / L.shape[1]), LOWEST_FEATURE) if smoothing else LOWEST_FEATURE
    return at_least(L, lowest)


def canonical_orders(L: Floats, y: Indices, w: Floats | None) -> tuple[Indices, Indices]:
    """Return canonical orders of the classes (K,) and the rows (n,) that ignore their input order.

    ``L`` are log-probabilities (n, K), ``y`` columns (n,) and ``w`` weights (n,) or None. Classes
    are sorted by mean log-probability, frequency and mean probability, because the first two are
    often equal if logits are integers. Rows are sorted by a sum of log-probabilities with
    irrational factors, which is rarely equal for different rows. Numbers are rounded first.
    """
    L = np.round(L, 9)
    n, K = L.shape
    mean_logs, means = (np.round(np.average(A, axis=0, weights=w), 9) for A in (L, np.exp(L)))
    classes = np.lexsort((means, np.bincount(y, w, K), mean_logs))
    sums = (L[:, classes] * np.sqrt(np.arange(2, K + 2))).sum(axis=1)
    weights = np.zeros(n) if w is None else w
    return classes, np.lexsort((weights, np.argsort(classes)[y], sums))


def _tree_features(L: Floats, order: Indices) -> Floats:
    """Return features (n, n_features) for log-probabilities (n, K), with sorted classes."""
    L, xp = L[:, order], namespace(L)
    if len(order) == 2:
        return _rounded(L[:, 1:] - L[:, :1])
    return _rounded(concat([L, L - xp.sum(L, axis=1, keepdims=True) / len(order)], axis=1))


def _rounded(F: Floats) -> Floats:
    """Round features, so that trees do not divide ties by rounding errors."""
    return namespace(F).round(F / FEATURE_UNIT) * FEATURE_UNIT
