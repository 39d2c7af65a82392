"""Weights of fitted calibrators that follow a stream of labelled rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from skcalib._input.labels import as_labels, encode, shown
from skcalib._input.logits import check_weights
from skcalib._input.parameters import check_real
from skcalib._rows import Array, ArrayLike, Floats
from skcalib.selection._candidates import by_name


class OnlineCalibrator(ClassifierMixin, TransformerMixin, BaseEstimator):
    r"""Mixture of fitted calibrators with weights that are updated by labelled rows.

    Calibrator e gives the label of a row the probability :math:`p_e`. After the row, its weight
    :math:`v_e` becomes

    .. math:: v_e \leftarrow (1 - \alpha) \frac{v_e p_e}{\sum_j v_j p_j} + \frac{\alpha}{E}

    with E calibrators and :math:`\alpha` = ``forget``. The weights start at :math:`1 / E`, and the
    calibrators do not change.

    Parameters
    ----------
    calibrators : dict of str to calibrator or list of calibrators
        Fitted calibrators with equal ``classes_``. If the estimator is to be cloned, wrap each in
        :class:`~sklearn.frozen.FrozenEstimator`, which stays fitted.
    forget : float, default=0.0
        Share of the weight that is spread evenly over all calibrators after each row, at least 0
        and below 1. One divided by the number of rows between two changes is a good choice.

    Attributes
    ----------
    weights_ : dict of str to float
        The weight of each calibrator.
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the columns.
    n_features_in_ : int
        Number of columns of ``X``.

    See Also
    --------
    CalibrationMonitor : Alarms when the calibration has changed.
    skcalib.AutoCalibrator : Weights by cross-validation.

    Notes
    -----
    Let each row be predicted before its label is known. For T rows in any order, the total log
    loss exceeds the loss of any sequence of calibrators with S changes by at most

    .. math:: \ln E + S \ln \frac{E}{\alpha}
        + (T - 1 - S) \ln \frac{1}{1 - \alpha + \alpha / E} ,

    and with ``forget=0`` the loss of the best calibrator by at most :math:`\ln E`.

    References
    ----------
    .. [1] Herbster, Warmuth, "Tracking the Best Expert", Machine Learning 32, 1998.

    Examples
    --------
    >>> from skcalib import TemperatureScaling, Uncalibrated
    >>> from skcalib.datasets import make_logits
    >>> from skcalib.monitor import OnlineCalibrator
    >>> logits, y = make_logits(1000, 3, temperature=2.0, random_state=0)
    >>> fitted = [c.fit(logits[:500], y[:500]) for c in (Uncalibrated(), TemperatureScaling())]
    >>> calibrator = OnlineCalibrator(fitted).partial_fit(logits[500:], y[500:])
    >>> {name: round(weight, 2) for name, weight in calibrator.weights_.items()}
    {'Uncalibrated': 0.0, 'TemperatureScaling': 1.0}
    """

    weights_: dict[str, float]

    def __init__(
        self, calibrators: Mapping[str, Any] | Sequence[Any], *, forget: float = 0.0
    ) -> None:
        self.calibrators = calibrators
        self.forget = forget

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Restart with equal weights, and update these by labelled rows, in their order.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`partial_fit`.

        Returns
        -------
        self : object
            The calibrator.
        """
        self.weights_ = self._updated(X, y, sample_weight, dict.fromkeys(self._experts(), 1.0))
        return self

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Update the weights by labelled rows, in their order.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits, in memory.
        y : array-like of shape (n_samples,)
            Labels, which may all be equal.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 2 is the row twice, up to 1000 times. A weight of 0 is the row absent.

        Returns
        -------
        self : object
            The calibrator. One batch and its rows one by one give the same weights.

        Raises
        ------
        ValueError
            For calibrators that are not fitted or have different classes, unknown labels, and
            invalid ``forget`` or weights. The calibrator is then unchanged.
        """
        self.weights_ = self._updated(X, y, sample_weight, self._current_weights())
        return self

    def _updated(
        self, X: Any, y: Any, sample_weight: Any, weights: dict[str, float]
    ) -> dict[str, float]:
        """Weights of the calibrators by name, after rows."""
        check_real("forget", self.forget, high=1, closed=True)
        labels = column_or_1d(as_labels(y))
        check_consistent_length(X, labels)
        w = check_weights(sample_weight, len(labels))
        codes = encode(labels, self.classes_)
        if (codes < 0).any():
            raise ValueError(
                f"y must hold only classes of the calibrators, [{shown(self.classes_)}], got "
                f"{shown(labels[codes < 0][:1])}. Fit the calibrators with classes=."
            )
        P = np.stack([c.predict_proba(X) for c in self._experts().values()], axis=1)
        # A probability of zero must not make all weights zero.
        P = np.maximum(P[np.arange(len(labels)), :, codes], np.finfo(np.float64).tiny)
        v = np.array([*weights.values()])
        v = update_weights(v / v.sum(), P, np.ones(len(P)) if w is None else w, self.forget)
        return dict(zip(weights, v.tolist(), strict=True))

    def _experts(self) -> dict[str, Any]:
        """The calibrators by name, checked."""
        experts = by_name(self.calibrators)
        first = next(iter(experts.values()))
        for name, expert in experts.items():
            check_is_fitted(expert)
            if list(expert.classes_) != list(first.classes_):
                raise ValueError(
                    f"calibrators must have equal classes, got [{shown(expert.classes_)}] for "
                    f"{name!r} and [{shown(first.classes_)}]. Fit them with the same classes=."
                )
        return experts

    def _current_weights(self) -> dict[str, float]:
        """The weights by name; equal ones before the first row."""
        experts = self._experts()
        weights = getattr(self, "weights_", {})
        equal = dict.fromkeys(experts, 1 / len(experts))
        return weights if weights.keys() == experts.keys() else equal

    @property
    def classes_(self) -> Array:
        """Labels in the order of the columns."""
        return np.asarray(next(iter(self._experts().values())).classes_)

    @property
    def n_features_in_(self) -> int:
        """Number of columns of ``X``."""
        return int(next(iter(self._experts().values())).n_features_in_)

    def __sklearn_is_fitted__(self) -> bool:
        return True  # as soon as the calibrators are fitted

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Probabilities of the mixture.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            One column per class in the order of ``classes_``.
        """
        weights = self._current_weights()
        P: Floats = sum(weights[name] * c.predict_proba(X) for name, c in self._experts().items())
        return P

    def transform(self, X: ArrayLike) -> Floats:
        """Logarithms of the probabilities, as calibrated logits.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            ``-inf`` for masked classes.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: ArrayLike) -> Array:
        """Most probable class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits.

        Returns
        -------
        ndarray of shape (n_samples,)
            Members of ``classes_``.
        """
        predicted: Array = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return predicted


def update_weights(v: Floats, P: Floats, w: Floats, forget: float) -> Floats:
    """Weights (E,) after rows with weights ``w`` and probabilities ``P`` (n, E) of the labels.

    A row of weight 2.5 counts as three rows of weight 2.5 / 3, since ``forget`` acts after each.
    """
    for p, weight in zip(P / P.max(axis=1, keepdims=True), w, strict=True):
        if weight == 0:
            continue
        times = int(np.clip(np.ceil(weight), 1, 1000))
        part = weight / times
        spread = 1 - (1 - forget) ** part
        for _ in range(times):
            v = v * p**part
            v = np.maximum(v / v.sum(), 1e-300)  # every calibrator can come back
            v = (1 - spread) * v + spread / len(v)
    return v
