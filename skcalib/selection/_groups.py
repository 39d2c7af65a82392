"""A calibrator for each group of rows, as far as the rows of the group support it."""

from __future__ import annotations

from copy import copy
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from skcalib._base import BaseCalibrator, accuracy
from skcalib._engine.array_api import is_tensor
from skcalib._engine.inputs import as_array
from skcalib._engine.memory import MemoryRows
from skcalib._engine.rows import Plan, Rows
from skcalib._subestimator import check_calibrator, check_order, fit_to_rows
from skcalib._typing import Array, Floats
from skcalib._validation.floats import check_fitted
from skcalib._validation.logits import any_masked
from skcalib._validation.parameters import check_real
from skcalib._validation.weights import check_weights
from skcalib.scaling import TemperatureScaling

from ._partial_pooling import (
    checked_groups,
    chosen_shrinkage,
    encoded,
    fit_groups,
    log_probabilities_of_groups,
    members,
    warn_of_groups,
)

__all__ = ["GroupCalibrator"]


class GroupCalibrator(BaseCalibrator):
    r"""A calibrator for each group of rows, shrunk towards one for all rows.

    Groups are hospitals, languages, devices or whatever else the rows come from. The calibrated
    probabilities of a row of group :math:`g` are those of a mixture,

    .. math:: \hat p(y = k \mid z, g) = \frac{n_g\, p_g(k \mid z) + s\, p(k \mid z)}{n_g + s},

    of the calibrator :math:`p_g` of the :math:`n_g` calibration rows of the group and of the pooled
    calibrator :math:`p` of all rows. The shrinkage :math:`s` is the weight of the latter, in rows.

    Parameters
    ----------
    calibrator : calibrator, default=None
        The calibrator of which clones are fitted. None stands for :class:`TemperatureScaling`.
    shrinkage : float or "auto", default="auto"
        The shrinkage :math:`s`. "auto" chooses, among 5, 10, 20, 50 and so on to 1000, and infinity
        for the pooled calibrator alone, the one of the lowest out-of-fold log loss in 5 folds.
    classes : array-like of shape (n_classes,), default=None
        All labels in the order of the columns of ``X``, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    groups_ : ndarray of shape (n_groups,)
        The groups in the calibration rows, sorted; none if ``fit`` was given no groups.
    calibrators_ : list of calibrators
        The calibrator of each group; the pooled one where all labels of a group are equal.
    pooled_calibrator_ : calibrator
        The calibrator of all rows.
    shrinkage_ : float
        The shrinkage; infinite if only the pooled calibrator counts, 0 without groups.
    shares_ : ndarray of shape (n_groups,)
        The shares :math:`n_g / (n_g + s)`; 0 for groups that have the pooled calibrator.
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the columns.
    n_features_in_ : int
        Number of columns of ``X`` seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Names of the columns, where ``X`` had string names.

    Warns
    -----
    UserWarning
        If the fit of a group warns, with the groups concerned, and as for
        :class:`TemperatureScaling`.

    See Also
    --------
    TopLabelCalibration : Groups are the predicted classes.

    Notes
    -----
    Rows of a group that ``fit`` was not given, and all rows if ``predict_proba`` is given no
    groups, have the probabilities of the pooled calibrator. Through a pipeline, groups arrive by
    scikit-learn's metadata routing, after ``set_fit_request(groups=True)`` and
    ``set_predict_proba_request(groups=True)``. Searches route them to ``fit`` and ``score`` only,
    not to predictions, and so neither to scorers. :class:`CalibratedClassifier` takes groups for
    its folds and not for its outputs.

    The default shrinkage keeps small groups from harm: if all groups have the same temperature, the
    pooled calibrator does best, and mostly is chosen. The folds are random but the same at every
    fit, so that a row of weight 2 is not quite the row twice; with a number as ``shrinkage`` it is.

    Groups are for rows in memory. Without groups, Dask collections are calibrated as by the pooled
    calibrator.

    With scikit-learn's ``array_api_dispatch``, tensors are fitted and calibrated on the host, and
    outputs are tensors like ``X``.

    References
    ----------
    .. [1] Gelman, Hill, "Data Analysis Using Regression and Multilevel/Hierarchical Models",
       Cambridge University Press, 2006: partial pooling.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import GroupCalibrator
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(2000, 3, temperature=1.0, random_state=0)
    >>> groups = np.repeat(["here", "there"], 1000)
    >>> logits[groups == "there"] *= 3  # over-confident there
    >>> calibrator = GroupCalibrator().fit(logits, y, groups=groups)
    >>> [round(c.temperature_, 1) for c in calibrator.calibrators_]
    [1.0, 3.1]
    >>> calibrator.predict_proba(logits[-2:], groups=["there", "elsewhere"]).shape
    (2, 3)
    """

    groups_: Array
    calibrators_: list[Any]
    pooled_calibrator_: Any
    shrinkage_: float
    shares_: Floats

    # The number of the group of the rows that outputs are made for; -1 for none.
    _group: int = -1

    def __init__(
        self,
        calibrator: Any = None,
        *,
        shrinkage: Literal["auto"] | float = "auto",
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(classes=classes)
        self.calibrator = calibrator
        self.shrinkage = shrinkage

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the calibrators to held-out logits, labels and groups.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits of held-out rows, as for :class:`TemperatureScaling`.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 2 is the row twice, up to the folds, a weight of 0 the row absent.
        groups : array-like of shape (n_samples,), optional
            The group of each row: integers, strings or anything else that can be sorted. Without
            groups there is the pooled calibrator only.

        Returns
        -------
        self : object
            The fitted calibrator.

        Raises
        ------
        ValueError
            For invalid parameters, missing groups, and as other calibrators. The calibrator is then
            unchanged.
        """
        check_real("shrinkage", self.shrinkage, closed=True, option="auto")
        X = as_array(X)
        rows, classes = self._checked(X, y, sample_weight)
        if groups is None:
            return self._stored(X, classes, self._fit(rows, classes))
        labels = checked_groups(X, groups)
        w = check_weights(sample_weight, len(labels))
        labels = labels if w is None else labels[w > 0]
        return self._stored(X, classes, self._fit(rows, classes, labels))

    def _fit(
        self, rows: Rows, classes: Array | None = None, labels: Array | None = None
    ) -> dict[str, Any]:
        classes = np.arange(max(rows.n_columns, 2)) if classes is None else classes
        calibrator = TemperatureScaling() if self.calibrator is None else self.calibrator
        check_calibrator(calibrator, rows.w)
        check_order(calibrator, classes)
        if isinstance(calibrator, BaseCalibrator):
            calibrator._check_takes_masked(masked=any_masked(rows))  # noqa: SLF001
        if labels is None:
            pooled = fit_to_rows(calibrator, rows, classes)
            return _attributes(np.zeros(0, np.intp), [], pooled, 0.0, np.zeros(0))
        held = MemoryRows(*rows.arrays)
        groups, group = np.unique(labels, return_inverse=True)
        if self.shrinkage == "auto":
            shrinkage = chosen_shrinkage(calibrator, held, group, len(groups), classes)
        else:
            shrinkage = float(self.shrinkage)
        fitted = fit_groups(calibrator, held, group, len(groups), classes)
        warn_of_groups("Group", groups, fitted.messages)
        shares = fitted.shares(shrinkage)
        return _attributes(groups, fitted.calibrators, fitted.pooled, shrinkage, shares)

    def fit_transform(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Floats:
        """Fit, and calibrate the same rows with the same groups.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits, as in :meth:`fit`.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights, as in :meth:`fit`.
        groups : array-like of shape (n_samples,), optional
            The group of each row.

        Returns
        -------
        ndarray of the shape of ``X``
            As :meth:`transform`.
        """
        return self.fit(X, y, sample_weight, groups=groups).transform(X, groups=groups)

    def transform(self, X: ArrayLike, *, groups: ArrayLike | None = None) -> Floats:
        """Calibrated logits.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits, as in :meth:`fit`.
        groups : array-like of shape (n_samples,), optional
            The group of each row.

        Returns
        -------
        ndarray of the shape of ``X``
            Logits of the calibrated probabilities, as of other calibrators.
        """
        return self._outputs(X, "_calibrated", groups)

    def predict_proba(self, X: ArrayLike, *, groups: ArrayLike | None = None) -> Floats:
        """Calibrated probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits, as in :meth:`fit`.
        groups : array-like of shape (n_samples,), optional
            The group of each row.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            One column per class in the order of ``classes_``.
        """
        return self._outputs(X, "_probabilities", groups)

    def predict_log_proba(self, X: ArrayLike, *, groups: ArrayLike | None = None) -> Floats:
        """Logarithm of the calibrated probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits, as in :meth:`fit`.
        groups : array-like of shape (n_samples,), optional
            The group of each row.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            As :meth:`predict_proba`.
        """
        return self._outputs(X, "_log_probabilities", groups)

    def predict(self, X: ArrayLike, *, groups: ArrayLike | None = None) -> Array:
        """The most probable class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits, as in :meth:`fit`.
        groups : array-like of shape (n_samples,), optional
            The group of each row.

        Returns
        -------
        ndarray of shape (n_samples,)
            Members of ``classes_``.
        """
        return self._outputs(X, "_most_probable", groups)

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> float:
        """Accuracy of the most probable classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits, as in :meth:`fit`.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights.
        groups : array-like of shape (n_samples,), optional
            The group of each row.

        Returns
        -------
        float
            Weighted share of the rows with the right class.
        """
        return accuracy(y, self.predict(X, groups=groups), sample_weight)

    def _outputs(self, X: Any, method: str, groups: Any = None) -> Array:
        if groups is None:
            return super()._outputs(X, method)
        check_fitted(self)
        X = as_array(X, n_columns=self.n_features_in_)
        self._check_library(X, method)
        if is_tensor(X):
            return self._outputs_of_host(X, method, groups)
        group = encoded(checked_groups(X, groups), self.groups_)
        Z = super()._outputs(X, "_unchanged")
        parts = [(some, self._of_group(k)) for k, some in members(group)]
        of_parts = [_mapped(part, method, Z[some]) for some, part in parts]
        out = np.empty((len(Z), *of_parts[0].shape[1:]), of_parts[0].dtype)
        for (some, _), values in zip(parts, of_parts, strict=True):
            out[some] = values
        return out

    def _of_group(self, k: int) -> Self:
        """The calibrator, for rows of the group alone."""
        part = copy(self)
        part._group = k  # noqa: SLF001
        return part

    def _unchanged(self, Z: Floats) -> Floats:
        return Z

    def _calibrated(self, Z: Floats) -> Floats:
        shares = np.append(self.shares_, 0)  # the last one for no group
        fitted = self.pooled_calibrator_, self.calibrators_, shares
        L = log_probabilities_of_groups(*fitted, Z, np.full(len(Z), self._group), self.classes_)
        return L[:, 1:] - L[:, :1] if Z.shape[1] == 1 else L

    def _calibrate(self, Z: Floats) -> Floats:
        return self._calibrated(Z)


def _attributes(
    groups: Array, calibrators: list[Any], pooled: Any, shrinkage: float, shares: Floats
) -> dict[str, Any]:
    return {
        "groups_": groups,
        "calibrators_": calibrators,
        "pooled_calibrator_": pooled,
        "shrinkage_": shrinkage,
        "shares_": shares,
    }


def _mapped(calibrator: Any, method: str, Z: Floats) -> Array:
    plan = Plan(at_least=calibrator._rows_at_least)  # noqa: SLF001
    outputs: Array = MemoryRows(Z).map(getattr(calibrator, method), plan)
    return outputs
