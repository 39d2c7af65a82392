"""Mixture of fitted calibrators and online maps that follows a stream of labelled rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from skcalib._fits import log_probabilities
from skcalib._input.arrays import as_array, check_in_memory
from skcalib._input.column_order import check_column_names
from skcalib._input.estimators import by_name
from skcalib._input.labels import as_labels, encode, exact, not_among, shown
from skcalib._input.logits import check_finite, check_weights, with_weight_only
from skcalib._input.parameters import check_real
from skcalib._input.predictions import logits_for
from skcalib._optimize.mixture import mixture
from skcalib._rows import Rows
from skcalib._typing import Array, ArrayLike, Floats, Indices
from skcalib.base import BaseCalibrator, masked_logits, set_fitted
from skcalib.scaling import Uncalibrated

from ._newton import Stream, updated

# Names of the maps in the weights.
MAPS = ("online", "online, fast")


class OnlineCalibrator(BaseCalibrator):
    r"""Mixture of fitted calibrators and online maps, updated by labelled rows.

    Calibrator e predicts the label of a row with the probability :math:`p_e`. After the row, its
    weight :math:`v_e` becomes

    .. math:: v_e \leftarrow (1 - \alpha) \frac{v_e p_e}{\sum_j v_j p_j} + \frac{\alpha}{E}

    with :math:`\alpha` = ``forget`` and E members: the calibrators and two maps. The weights start
    at :math:`1 / E`, and the calibrators do not change. A map is
    :math:`\mathrm{softmax}(a z + b)`, as in Platt scaling, where z are log-probabilities by the
    mixture over all calibrators. It starts at :math:`a = 1, b = 0`, and makes an online Newton step
    after each row. The map "online" forgets old rows at the rate ``forget``, and the map "online,
    fast" at ten times this rate, at least 0.01.

    Parameters
    ----------
    calibrators : dict of str to calibrator or list of calibrators
        Fitted calibrators with equal ``classes_``. If the estimator will be cloned, wrap them in
        :class:`~sklearn.frozen.FrozenEstimator`, which stays fitted.
    forget : float, default=0.0
        Share of the weight that is spread evenly over all members after each row, at least 0 and
        below 1. One divided by the number of rows between two changes is a good choice.
    classes : array-like of shape (n_classes,), default=None
        The calibrators' labels in column order. They need not be passed.

    Attributes
    ----------
    weights_ : dict of str to float
        Weight for each member, with the maps "online" and "online, fast".
    slope_ : ndarray of shape (2,)
        Slope for each map.
    intercept_ : ndarray of shape (2, n_classes)
        Intercepts for each map; 0 for more than 30 classes.
    precision_ : ndarray of shape (2, n_parameters, n_parameters)
        Accumulated curvature of the log loss, which makes steps smaller.
    classes_ : ndarray of shape (n_classes,)
        Labels in column order.
    n_features_in_ : int
        Number of columns of ``X``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Column names, if ``X`` had string names.

    See Also
    --------
    CalibrationMonitor : Alarms when the calibration has changed.
    skcalib.AutoCalibrator : Weights by cross-validation.

    Notes
    -----
    If each row is predicted before its label arrives, a bound holds for T rows in any order. The
    total log loss exceeds the loss of any sequence of members with S changes by at most

    .. math:: \ln E + S \ln \frac{E}{\alpha}
        + (T - 1 - S) \ln \frac{1}{1 - \alpha + \alpha / E} ,

    With ``forget=0`` it exceeds the loss of the best member by at most :math:`\ln E`.

    References
    ----------
    .. [1] Herbster, Warmuth, "Tracking the Best Expert", Machine Learning 32, 1998.
    .. [2] Hazan, Agarwal, Kale, "Logarithmic Regret Algorithms for Online Convex Optimization",
       Machine Learning 69, 2007.

    Examples
    --------
    >>> from skcalib import TemperatureScaling, Uncalibrated
    >>> from skcalib.datasets import make_logits
    >>> from skcalib.monitor import OnlineCalibrator
    >>> logits, y = make_logits(1000, 3, temperature=2.0, random_state=0)
    >>> fitted = [c.fit(logits[:500], y[:500]) for c in (Uncalibrated(), TemperatureScaling())]
    >>> calibrator = OnlineCalibrator(fitted).partial_fit(logits[500:], y[500:])
    >>> max(calibrator.weights_, key=calibrator.weights_.get)
    'TemperatureScaling'
    """

    __metadata_request__partial_fit: ClassVar = {"groups": True}

    classes_: Any
    n_features_in_: Any
    weights_: dict[str, float]
    slope_: Floats
    intercept_: Floats
    precision_: Floats

    def __init__(
        self,
        calibrators: Mapping[str, Any] | Sequence[Any],
        *,
        forget: float = 0.0,
        classes: ArrayLike | None = None,
    ) -> None:
        self.classes = classes
        self.calibrators = calibrators
        self.forget = forget

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,  # noqa: ARG002
    ) -> Self:
        """Restart with equal weights, and update the weights by labelled rows, in their order.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits, in memory.
        y : array-like of shape (n_samples,)
            Labels, which may all be equal.
        sample_weight : array-like of shape (n_samples,), optional
            As for :meth:`partial_fit`.
        groups : array-like of shape (n_samples,), optional
            Ignored: there are no folds.

        Returns
        -------
        self : object
            The calibrator.

        Raises
        ------
        ValueError
            As :meth:`partial_fit`. The calibrator is then unchanged.
        """
        return self._update(X, y, sample_weight, restarts=True)

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        classes: ArrayLike | None = None,
        groups: ArrayLike | None = None,  # noqa: ARG002
    ) -> Self:
        """Update the weights and the maps by labelled rows, in their order.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits, in memory.
        y : array-like of shape (n_samples,)
            Labels, which may all be equal.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 2 equals the row twice, up to 1000 times. A weight of 0 equals the row left
            out.
        classes : array-like of shape (n_labels,), optional
            Labels that may occur, as scikit-learn passes them: only checked.
        groups : array-like of shape (n_samples,), optional
            Ignored: there are no folds.

        Returns
        -------
        self : object
            The calibrator. One batch and its rows one by one give the same result.

        Raises
        ------
        ValueError
            If calibrators are not fitted or have different classes, labels are unknown, or
            ``forget`` or weights are invalid. The calibrator is then unchanged.
        """
        if classes is not None:
            unknown = not_among(np.ravel(exact(classes, "classes")), self._classes())
            if len(unknown):
                raise self._unknown("classes", unknown)
        return self._update(X, y, sample_weight, restarts=False)

    def _update(self, X: Any, y: Any, sample_weight: Any, *, restarts: bool) -> Self:
        """Update the state by rows, from the start or from the current state."""
        check_real("forget", self.forget, high=1, closed=True)
        check_in_memory([X, y])
        labels = column_or_1d(as_labels(y))
        X, classes = as_array(X), self._classes()
        check_consistent_length(X, labels)
        w = check_weights(sample_weight, len(labels))
        codes = encode(labels, classes)
        if (codes < 0).any():
            raise self._unknown("y", labels[codes < 0][:1])
        check_column_names(X, classes)
        # X must have the columns of the earlier rows, or else of the calibrators.
        Z = logits_for(self if self._has_state() else _first(self._experts()), X)
        codes, Z, w = with_weight_only(codes, Z, w)
        if len(Z):
            check_finite(Z)
        stream = self._start() if restarts else self._stream()
        return set_fitted(self, X, classes, self._state(stream, Z, codes, w))

    def _state(self, stream: Stream, Z: Floats, y: Indices, w: Floats | None) -> dict[str, Any]:
        """Return the fitted attributes after rows of logits (n, K), labels (n,), weights (n,)."""
        if len(Z):
            L = np.stack(self._logs(Z), axis=1).astype(np.float64)
            stream = updated(stream, L, y, np.ones(len(Z)) if w is None else w, self.forget)
        names, n_classes = [*self._experts(), *MAPS], len(self._classes())
        intercept = np.zeros((2, n_classes))
        if stream.maps.shape[1] > 1:
            intercept[:] = stream.maps[:, 1:]
        return {
            "weights_": dict(zip(names, stream.weights.tolist(), strict=True)),
            "slope_": stream.maps[:, 0].copy(),
            "intercept_": intercept,
            "precision_": stream.precisions,
        }

    def _unknown(self, name: str, unknown: Array) -> ValueError:
        return ValueError(
            f"{name} must hold only classes of the calibrators, [{shown(self._classes())}], got "
            f"{shown(unknown)}. Fit the calibrators with classes=."
        )

    def _experts(self) -> dict[str, Any]:
        """Return the checked calibrators by name, without FrozenEstimator."""
        experts = by_name(self.calibrators, Uncalibrated())
        if set(MAPS) & experts.keys():
            raise ValueError(
                f"calibrators must have other names than {MAPS}, got {[*experts]}. Rename them."
            )
        first = _first(experts)
        for name, expert in experts.items():
            check_is_fitted(expert)
            if list(expert.classes_) != list(first.classes_):
                raise ValueError(
                    f"calibrators must have equal classes, got [{shown(expert.classes_)}] for "
                    f"{name!r} and [{shown(first.classes_)}]. Fit them with the same classes=."
                )
        return {
            name: expert.estimator if isinstance(expert, FrozenEstimator) else expert
            for name, expert in experts.items()
        }

    def _classes(self) -> Array:
        classes = np.asarray(_first(self._experts()).classes_)
        if self.classes is not None and list(exact(self.classes, "classes")) != list(classes):
            raise ValueError(
                f"classes must be the classes of the calibrators, [{shown(classes)}], got "
                f"{self.classes!r:.80}. Leave it out."
            )
        return classes

    def _has_state(self) -> bool:
        """Return whether there is a state for these calibrators, which may have been replaced."""
        named = by_name(self.calibrators, Uncalibrated())
        return [*vars(self).get("weights_", {})] == [*named, *MAPS]

    def _start(self) -> Stream:
        experts = self._experts()
        return Stream.start(len(experts), len(_first(experts).classes_))

    def _stream(self) -> Stream:
        """Return the current state, or the start."""
        start = self._start()
        if not self._has_state():
            return start
        maps = np.hstack([self.slope_[:, None], self.intercept_])[:, : start.maps.shape[1]]
        return Stream(np.array([*self.weights_.values()]), maps, self.precision_)

    def _logs(self, Z: Floats) -> list[Floats]:
        """Return log-probabilities (n, K) of checked logits by each calibrator."""
        experts, classes = self._experts().values(), self._classes()
        logs = [log_probabilities(expert, Z, classes) for expert in experts]
        return [log.astype(Z.dtype) for log in logs]

    def __getattr__(self, name: str) -> Any:
        """Return attributes of the calibrators until ``fit`` sets them."""
        if name == "classes_":
            return self._classes()
        if name == "n_features_in_":
            return _first(self._experts()).n_features_in_
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")

    def __dir__(self) -> list[str]:
        """Return the names of attributes for tab completion, also of computed attributes."""
        return sorted({*super().__dir__(), "classes_", "n_features_in_"})

    def __sklearn_is_fitted__(self) -> bool:
        return True  # as soon as the calibrators are fitted

    def _fitted_for(self, X: Any) -> Self:
        if self._has_state():
            return super()._fitted_for(X)
        n_columns = _first(self._experts()).n_features_in_
        return set_fitted(copy(self), as_array(X, n_columns=n_columns), self._classes(), {})

    def _calibrate(self, Z: Floats) -> Floats:
        Z = masked_logits(Z)
        stream, logs = self._stream(), self._logs(Z)
        together = mixture(np.stack(logs), stream.weights[:-2] / stream.weights[:-2].sum())
        for slope, *intercepts in stream.maps:
            b = np.array(intercepts or [0.0], together.dtype)
            S = np.where(-np.inf == together, -np.inf, float(slope) * together + b)
            S = S - np.max(S, axis=1, keepdims=True)
            logs.append(S - np.log(np.sum(np.exp(S), axis=1, keepdims=True)))
        L = mixture(np.stack(logs), stream.weights)
        return L[:, 1:] - L[:, :1] if Z.shape[1] == 1 else L

    def _fit(self, rows: Rows) -> dict[str, Any]:
        rows = rows.in_memory()
        return self._state(self._start(), rows.X, rows.y, rows.w)


def _first(experts: Mapping[str, Any]) -> Any:
    return next(iter(experts.values()))
