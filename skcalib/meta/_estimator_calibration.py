"""Any classifier of scikit-learn, fitted to log-probabilities, as a calibrator."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np
from sklearn.base import clone

from skcalib import _nested as nested
from skcalib._base import BaseCalibrator
from skcalib._optimize.linear import LOWEST_FEATURE
from skcalib._optimize.temperature import fit_inverse_temperature, mixed_logits
from skcalib._rows import ArrayLike, Floats, Indices, Rows, arrays as xa, with_one_openmp_thread
from skcalib._validation.inputs import fitted_smoothing

# Features with more numbers than this are worth more than one OpenMP thread in a fit.
MANY_NUMBERS = 1 << 20

# Features are multiples of it.
FEATURE_UNIT = 2.0**-40


class EstimatorCalibration(BaseCalibrator):
    r"""Any classifier of scikit-learn as a calibrator, fitted to log-probabilities.

    With the log-probabilities after temperature scaling mixed with the uniform distribution,

    .. math:: l = \log\left((1 - \varepsilon)\, \mathrm{softmax}(z / T)
        + \frac{\varepsilon}{K}\right),

    the features of a row are :math:`l_1, \dots, l_K` and these less their mean; for two classes,
    the log-odds :math:`l_2 - l_1` alone. Classes are numbered by their mean log-probability, and
    rows sorted, so that nothing depends on the order of either. The probabilities :math:`f(l)` of
    a classifier that is fitted to these features are mixed in turn,

    .. math:: \hat p_k = (1 - \varepsilon)\, f_k(l) + \frac{\varepsilon}{K} .

    The order of the classes in a row may change, and with it the accuracy.

    Parameters
    ----------
    estimator : classifier, default=None
        A classifier with ``predict_proba``, or a pipeline that ends with one, of which a clone is
        fitted. Its labels are the numbers of the classes. None stands for
        :class:`~sklearn.ensemble.HistGradientBoostingClassifier` with 20 iterations of trees with
        at most 4 leaves, strongly regularized, whose result does not depend on chance.
    smoothing : float or "auto", default="auto"
        The share :math:`\varepsilon` of the uniform distribution, at least 0 and below 1.
        "auto" is :math:`1 / (N + 1)` for N rows, or for weights that sum to N.
    classes : array-like of shape (n_classes,), default=None
        All labels in the order of the columns of ``X``, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    estimator_ : classifier
        The fitted classifier.
    order_ : ndarray of shape (n_classes,)
        The column of ``X`` of each class of ``estimator_``, by increasing mean log-probability.
    temperature_ : float
        The temperature :math:`T` of the features.
    smoothing_ : float
        The share :math:`\varepsilon`.
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the columns.
    n_features_in_ : int
        Number of columns of ``X`` seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Names of the columns, where ``X`` had string names.

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
    ``fit`` raises a ValueError for weights that the classifier does not take. A class that no
    row is labelled with has the probability :math:`\varepsilon / K`; a masked class has
    probability 0, and its log-probability is the lowest one among the features. Features are
    computed in double precision and rounded to multiples of :math:`2^{-40}`, without which trees
    may divide ties by rounding errors.

    The default is chosen for its log loss and its cost on recorded outputs of networks and other
    classifiers. Gradient boosting grows a tree for each class in each iteration: 5000 rows of ten
    classes take some 0.1 s, of a hundred classes some 5 s. Another classifier, such as
    ``ExtraTreesClassifier(100, min_samples_leaf=10, max_features=0.5)``, has a single tree for all
    classes.

    Dask collections of more than a million rows are represented by a random sample of a million
    rows, with all rows of classes that have fewer than 1000.

    With scikit-learn's ``array_api_dispatch``, tensors are fitted and calibrated on the host, and
    outputs are tensors like ``X``.

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
    >>> losses[0] < losses[1]
    True
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
        super().__init__(classes=classes)
        self.estimator = estimator
        self.smoothing = smoothing

    def _fit(self, rows: Rows) -> dict[str, Any]:
        estimator = self._default_estimator() if self.estimator is None else self.estimator
        nested.check_classifier(estimator, type(self).__name__)
        if not nested.may_have(estimator, "predict_proba"):
            raise ValueError(
                f"estimator must have predict_proba, got {estimator!r}. Choose another classifier, "
                "or wrap it as in CalibratedClassifier(estimator)."
            )
        n_rows, rows = rows.n_rows, rows.in_memory()
        if rows.n_rows < n_rows and len(np.unique(rows.y)) == 1:
            raise ValueError(
                "The sample of the rows that the classifier is fitted to must hold at least two "
                f"classes, got one class only in {rows.n_rows:,} of {n_rows:,} rows. Fit another "
                "calibrator, or fit to rows in memory with all rows of the rarer classes."
            )
        smoothing = fitted_smoothing(self.smoothing, rows)
        temperature = 1 / fit_inverse_temperature(rows, smoothing).value
        L = rows.map(lambda Z, *_: _bounded(mixed_logits(temperature, smoothing, Z), smoothing))
        order, some = canonical_orders(L, rows.y, rows.w)
        F, y = _features(L[some], order), np.argsort(order)[rows.y[some]]
        w = None if rows.w is None else rows.w[some]
        weights = nested.weight_params(estimator, w, "estimator")
        fit = partial(clone(estimator).fit, F, y, **weights)
        return {
            "estimator_": fit() if F.size > MANY_NUMBERS else with_one_openmp_thread(fit),
            "order_": order,
            "temperature_": temperature,
            "smoothing_": smoothing,
        }

    def _unmixed(self, Z: Floats) -> Floats:
        scaled = mixed_logits(self.temperature_, 0.0, Z)
        # A graph rounds in another way than NumPy, which is not to move features over thresholds.
        exact = scaled if isinstance(Z, np.ndarray) else xa.double(scaled)
        return super()._unmixed(xa.astype(xa.mix_logits(exact, self.smoothing_), Z.dtype))

    def _calibrate(self, Z: Floats) -> Floats:
        F, xp = _features(_bounded(Z, self.smoothing_), self.order_), xa.namespace(Z)
        if hasattr(xp, "predict_proba"):  # a graph of ONNX, which the classifier is converted to
            P = xp.predict_proba(self.estimator_, F)
        else:  # blocks are divided among threads already
            P = with_one_openmp_thread(_predict_proba, self.estimator_, F)
        known = self.order_[self.estimator_.classes_]
        P = nested.with_unknown_classes(P, known, np.arange(max(Z.shape[1], 2)))
        L = xa.astype(xp.log(xa.at_least(P, xa.smallest_normal(Z))), Z.dtype)
        return xa.in_columns_of(Z, L)

    @staticmethod
    def _default_estimator() -> Any:
        return boosted_trees(0.3, 20)


def _predict_proba(classifier: Any, F: Floats) -> Floats:
    """Probabilities by a classifier, and by a forest without the tasks of joblib.

    For one row a task for each tree takes ten times as long as the trees.
    """
    if type(classifier).__module__ == "sklearn.ensemble._forest":
        S = F.astype(np.float32)
        P = np.mean([tree.tree_.predict(S) for tree in classifier.estimators_], axis=0)
    else:
        P = classifier.predict_proba(F)
    return P


def boosted_trees(learning_rate: float, n_iterations: int) -> Any:
    """Gradient boosting of small trees, strongly regularized."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    # Subsampling, of more than 200 000 rows and for the bins only, is all that is random.
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


def _bounded(Z: Floats, smoothing: float) -> Floats:
    """Log-probabilities, in double precision, of logits of the mixture by temperature scaling.

    None is lower than the mixture allows, and those of masked classes are as low.
    """
    L = xa.log_softmax(xa.double(Z))
    lowest = max(np.log(smoothing / L.shape[1]), LOWEST_FEATURE) if smoothing else LOWEST_FEATURE
    return xa.at_least(L, lowest)


def canonical_orders(L: Floats, y: Indices, w: Floats | None) -> tuple[Indices, Indices]:
    """Orders of the classes and of the rows that do not depend on how these are ordered.

    Of the classes by mean log-probability, frequency and mean probability, since the first two are
    equal by chance where logits are integers; of the rows by sums of multiples of the
    log-probabilities that few others have. Numbers that differ by rounding errors are equal.
    """
    L = np.round(L, 9)
    n, K = L.shape
    of_logs, of_all = (np.round(np.average(A, axis=0, weights=w), 9) for A in (L, np.exp(L)))
    classes = np.lexsort((of_all, np.bincount(y, w, K), of_logs))
    sums = (L[:, classes] * np.sqrt(np.arange(2, K + 2))).sum(axis=1)
    weights = np.zeros(n) if w is None else w
    return classes, np.lexsort((weights, np.argsort(classes)[y], sums))


def _features(L: Floats, order: Indices) -> Floats:
    """Features of log-probabilities (n, K), with the classes in that order."""
    L, xp = L[:, order], xa.namespace(L)
    if len(order) == 2:
        return _rounded(L[:, 1:] - L[:, :1])
    return _rounded(xa.concat([L, L - xp.sum(L, axis=1, keepdims=True) / len(order)], axis=1))


def _rounded(F: Floats) -> Floats:
    """Features without the last digits, as far as these are rounding errors.

    Else trees might divide ties, such as equal votes of a forest, by these.
    """
    return xa.namespace(F).round(F / FEATURE_UNIT) * FEATURE_UNIT
