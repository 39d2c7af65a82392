"""Partial pooling: a calibrator for each group of rows, mixed with one for all rows.

A group has the probabilities of its own calibrator with the share ``n / (n + s)``, where ``n`` is
the weight of its calibration rows and ``s`` the shrinkage, and otherwise the pooled ones.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import KFold

from skcalib._base import BaseCalibrator, accuracy, labels_of
from skcalib._nested import check_calibrator, check_order, fit_to_rows, log_probabilities
from skcalib._optimize.mixture import mixture
from skcalib._rows import Array, Floats, Indices, arrays as xa, as_array, check_in_memory
from skcalib._rows.rows import MemoryRows, Rows
from skcalib._splits import Split, hold_two_classes
from skcalib._validation.inputs import check_fitted, check_real, check_weights
from skcalib._validation.labels import as_labels, encode, shown
from skcalib._warnings import Messages, ProbabilitiesWarning, give, recorded, warn
from skcalib.scaling import TemperatureScaling

# Shrinkages that are compared out-of-fold, the last one for a single calibrator of all rows.
SHRINKAGES = (5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, np.inf)

N_FOLDS = 5

# Sums of losses that differ by no more than this share are equal.
ROUNDING = 1e-12


def in_groups(rows: Rows, X: Any, groups: Any, sample_weight: Any) -> Rows:
    """The rows of ``X`` of positive weight with the group of each, if there are groups."""
    if groups is None:
        return rows
    labels = checked_groups(X, groups)
    w = check_weights(sample_weight, len(labels))
    return rows.grouped(labels if w is None else labels[w > 0])


def checked_groups(X: Any, groups: Any) -> Array:
    """The group of each row; a ValueError for those that are missing or too few."""
    check_in_memory(
        [X, groups],
        "Groups are for rows in memory, got a Dask collection. Call compute() on a part of it that "
        "fits into memory, or leave groups out.",
    )
    if np.ndim(groups) == 0:
        raise ValueError(
            f"groups must have one entry per row, got {groups!r}. For rows of a single group pass "
            f"[{groups!r}] * len(X)."
        )
    labels = as_labels(groups, "groups")
    if len(labels) != X.shape[0]:
        raise ValueError(
            f"groups must have one entry per row, {X.shape[0]}, got {len(labels)}. Pass the groups "
            "of the same rows, in their order."
        )
    return labels


def encoded(labels: Array, groups: Array) -> Indices:
    """The number of each label among the groups, or -1; a ValueError for labels of another type."""
    if len(groups) == 0:
        return np.full(len(labels), -1)
    try:
        return encode(labels, groups)
    except TypeError as error:
        raise ValueError(
            "groups must be of the type that they were of in fit, as in "
            f"{groups.tolist()[0]!r}, got {labels.tolist()[0]!r}. Convert them."
        ) from error


def members(group: Indices) -> Iterator[tuple[int, Indices]]:
    """The number of each group that has rows, and the numbers of its rows."""
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    starts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    for low, high in pairwise([0, *starts.tolist(), len(group)]):
        yield int(ordered[low]), order[low:high]


class Fitted(NamedTuple):
    """The calibrator of all rows, those of the groups, and what the groups weigh.

    Groups without rows, or whose rows are all of one class, have the pooled calibrator, and no
    weight.
    """

    pooled: Any
    calibrators: list[Any]
    weight: Floats
    messages: dict[Any, Messages]  #: warnings by the number of the group, or "all rows"

    def shares(self, shrinkage: float) -> Floats:
        """The share of the own calibrator of each group."""
        return self.weight / np.where(self.weight > 0, self.weight + shrinkage, 1)


def fit_groups(calibrator: Any, rows: MemoryRows, n_groups: int, pooled: Any = None) -> Fitted:
    """Copies of the calibrator fitted to all rows and to those of each group, 0 to n_groups - 1.

    ``pooled`` replaces the calibrator of all rows.
    """
    with recorded(ProbabilitiesWarning) as messages:
        of_all = fit_to_rows(pooled or calibrator, rows)
    found = Fitted(of_all, [of_all] * n_groups, np.zeros(n_groups), {"all rows": messages})
    for k, numbers in members(rows.groups):
        part = rows.taken(numbers)
        if (part.y[1:] != part.y[:1]).any():
            with recorded(ProbabilitiesWarning) as found.messages[k]:
                found.calibrators[k] = fit_to_rows(calibrator, part)
            found.weight[k] = part.weight
    return found


def warn_of_groups(kind: str, names: Array | range, found: Mapping[Any, Messages]) -> None:
    """Give each warning once, with the names of the groups that it is of."""
    named = ((names[k] if isinstance(k, int) else k, messages) for k, messages in found.items())
    give(named, lambda of_each: f"{kind} {shown(of_each)}")


def out_of_fold_losses(calibrator: Any, rows: MemoryRows, n_groups: int) -> Floats:
    """Log loss of all rows, summed, for each of the shrinkages.

    If there can be no folds it is least for the pooled calibrator alone.
    """
    n_folds = min(N_FOLDS, rows.n_rows)
    splits = [Split(*s) for s in KFold(n_folds, shuffle=True, random_state=0).split(rows.y)]
    if not hold_two_classes(rows.y, splits):
        return -(np.array(SHRINKAGES) == np.inf).astype(float)
    losses = np.zeros(len(SHRINKAGES))
    for train, test in splits:
        fitted, part = fit_groups(calibrator, rows.taken(train), n_groups), rows.taken(test)
        label, given = (np.arange(part.n_rows), part.y), (part.X, part.groups, part.classes)
        pooled = log_probabilities(fitted.pooled, part.X, part.classes)[label]
        own = log_probabilities_of_groups(*fitted[:2], fitted.shares(0.0), *given)[label]
        for i, shrinkage in enumerate(SHRINKAGES):
            share = fitted.shares(shrinkage)[part.groups]
            with np.errstate(divide="ignore"):
                mixed = np.logaddexp(own + np.log(share), pooled + np.log1p(-share))
            losses[i] -= xa.weighted_sum(mixed, part.w)
    return losses


def log_probabilities_of_groups(
    pooled: Any,
    calibrators: Sequence[Any],
    shares: Floats,
    Z: Floats,
    group: Indices,
    classes: Array,
) -> Floats:
    """Logarithms (m, K) of the mixed probabilities, for checked logits of rows of some groups."""

    def mixed(k: int, Z: Floats, pooled: Floats) -> Floats:
        own = log_probabilities(calibrators[k], Z, classes)
        if shares[k] == 1:
            return own
        parts = xa.namespace(own).stack([own, pooled])
        return mixture(parts, np.array([shares[k], 1 - shares[k]]))

    L = log_probabilities(pooled, Z, classes)
    if not isinstance(L, np.ndarray):  # a graph that is built, for whichever groups
        xp, everywhere = xa.namespace(L), L
        for k in np.flatnonzero(shares).tolist():
            L = xp.where((group == k)[:, None], mixed(k, Z, everywhere), L)
        return L
    for k, some in members(group):
        if shares[k] > 0:
            L[some] = mixed(k, Z[some], L[some])
    return L


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
    shrinkage : float or "cv", default="cv"
        The shrinkage :math:`s`. "cv" chooses, among 5, 10, 20, 50 and so on to 1000, and infinity
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

    def __init__(
        self,
        calibrator: Any = None,
        *,
        shrinkage: Literal["cv"] | float = "cv",
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
        check_real("shrinkage", self.shrinkage, closed=True, option="cv")
        X = as_array(X)
        rows = in_groups(self._checked(X, y, sample_weight), X, groups, sample_weight)
        return self._stored(X, rows.classes, self._fit(rows))

    def _fit(self, rows: Rows) -> dict[str, Any]:
        calibrator = TemperatureScaling() if self.calibrator is None else self.calibrator
        check_calibrator(calibrator, rows.w)
        check_order(calibrator, rows.classes)
        if isinstance(calibrator, BaseCalibrator):
            calibrator._check_takes_masked(masked=rows.masked)  # noqa: SLF001
        groups, shrinkage = np.zeros(0, np.intp), 0.0
        if rows.groups is None:
            fitted = Fitted(fit_to_rows(calibrator, rows), [], np.zeros(0), {})
        else:
            groups, group = np.unique(rows.groups, return_inverse=True)
            held = cast("MemoryRows", rows.grouped(group))
            if self.shrinkage == "cv":
                losses = out_of_fold_losses(calibrator, held, len(groups))
                # Of losses that are equal but for rounding, as with one group, the most shrinkage.
                least = losses <= losses.min() + ROUNDING * abs(losses.min())
                shrinkage = SHRINKAGES[int(np.flatnonzero(least)[-1])]
            else:
                shrinkage = float(self.shrinkage)
            fitted = fit_groups(calibrator, held, len(groups))
            warn_of_groups("Group", groups, fitted.messages)
        return {
            "groups_": groups,
            "calibrators_": fitted.calibrators,
            "pooled_calibrator_": fitted.pooled,
            "shrinkage_": shrinkage,
            "shares_": fitted.shares(shrinkage),
        }

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
        check_fitted(self)
        if groups is None:
            if self.groups_.shape[0]:  # which may be a tensor
                warn(
                    "The calibrator was fitted with groups, got none: every row is calibrated like "
                    "one of an unknown group. Pass groups=, the group of each row."
                )
            return super()._outputs(X, method)
        X = as_array(X, n_columns=self.n_features_in_)
        self._check_library(X, method)
        if xa.is_tensor(X):
            return self._outputs_of_host(X, method, groups)
        group = encoded(checked_groups(X, groups), self.groups_)
        Z = super()._outputs(X, "_unchanged")
        outputs: Array = MemoryRows(Z, group).map(partial(self._of_groups, method))
        return outputs

    def _unchanged(self, Z: Floats) -> Floats:
        return Z

    def _of_groups(self, method: str, Z: Floats, group: Indices) -> Array:
        """A method of the base class for a block of rows of groups."""
        shares = np.append(self.shares_, 0)  # the last one for no group
        fitted = self.pooled_calibrator_, self.calibrators_, shares
        L = log_probabilities_of_groups(*fitted, Z, group, self.classes_)
        S = L[:, 1:] - L[:, :1] if Z.shape[1] == 1 else L
        if method == "_most_probable":
            return labels_of(self.classes_, xa.both_columns(S))
        of_scores = {"_probabilities": xa.softmax, "_log_probabilities": xa.log_softmax}
        return of_scores[method](S) if method in of_scores else S

    def _unmixed(self, Z: Floats) -> Floats:
        L = log_probabilities(self.pooled_calibrator_, Z, self.classes_)
        return L[:, 1:] - L[:, :1] if Z.shape[1] == 1 else L

    def _calibrate(self, Z: Floats) -> Floats:
        return self._unmixed(Z)
