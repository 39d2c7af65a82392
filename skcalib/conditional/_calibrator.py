"""Default calibrator that also uses features, such as a country or the length of a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
from sklearn.metrics import accuracy_score

from skcalib._fits import fit_to_rows, log_probabilities
from skcalib._input.arrays import as_array, as_kind_of, check_in_memory, on_host
from skcalib._input.estimators import check_fitted
from skcalib._input.labels import as_labels, encode
from skcalib._input.logits import check_weights
from skcalib._input.predictions import logits_for
from skcalib._optimize.mixture import mixture
from skcalib._rows import Rows, map_blocks
from skcalib._rows.arrays import mix_logits
from skcalib._splits import first_tests, random_splits
from skcalib._typing import Array, ArrayLike, Floats, Split
from skcalib._warnings import recorded, warn
from skcalib.base import set_fitted
from skcalib.conditional._columns import FeatureColumns, fitted_columns
from skcalib.scaling import TemperatureScaling
from skcalib.selection import AutoCalibrator
from skcalib.selection._auto import fit_stack

from ._parts import PARTS, HeldOut, Parts, fit_parts, weigh

# From this number of rows on, effects are fitted to all rows rather than to held-out rows.
MANY_ROWS = 50_000

# Number of rows that is added to each class, so that no base rate is 0.
EXTRA_ROWS = 1e-6

# Fitted attributes with the feature columns.
COLUMNS = ("feature_names_", "feature_levels_", "is_categorical_")

# Names of the log losses in the report.
REPORTED = ("without features", "with features", "features alone")


class ConditionalCalibrator(AutoCalibrator):
    r"""Default calibrator that is also calibrated within values of features.

    Probabilities that are right on average can be wrong by subject, country, device, hospital or
    answer length. :class:`AutoCalibrator` turns logits :math:`z` into log-probabilities :math:`l`.
    With features :math:`x`, the calibrated probabilities

    .. math:: \hat p(y \mid z, x) = \pi_0\, e^{l_y} + \pi_1\, \mathrm{softmax}_y\Bigl(
        \bigl(1 + \textstyle\sum_j a_{g_j}\bigr)\, l + \textstyle\sum_j b_{g_j}\Bigr)
        + \dots + \pi_3\, q_y(l, x)

    are a mixture of four parts. The first is the calibration without features. The second is a map
    with a slope :math:`a` and intercepts :math:`b`, shrunk towards 0, for each level :math:`g_j` of
    each feature. The third is the same map on top of temperature scaling, and the fourth boosted
    trees :math:`q`. The weights :math:`\pi` minimize the log loss on held-out rows. If features do
    not lower it, the calibrator equals :class:`AutoCalibrator`.

    Parameters
    ----------
    calibrators : dict of str to calibrator, list of calibrators or "smooth", default=None
        Candidates for the calibration without features, as for :class:`AutoCalibrator`.
    cv : int, "time", splitter or iterable of splits, default=5
        How to split the calibration rows, as for :class:`AutoCalibrator`.
    combine : {"stack", "best"}, default="stack"
        Whether to mix the candidates without features, or to take one of them.
    ordered : bool, default=False
        Whether the classes have an order, as for :class:`AutoCalibrator`.
    order : array-like of shape (n_classes,), default=None
        All labels from the lowest to the highest class, with ``ordered=True``.
    categorical_features : "from_dtype" or list of str or int, default="from_dtype"
        Names or numbers of the feature columns with categories. "from_dtype" treats text, other
        objects and categorical types as categories, and numbers as numbers. Name the columns with
        numbers that stand for categories.
    n_jobs : int, default=None
        Number of fits in parallel.
    random_state : int, RandomState instance or None, default=None
        Shuffles the rows into folds. With None the folds are the same at every fit.
    classes : array-like of shape (n_classes,), default=None
        All labels in column order, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    feature_weights_ : dict of str to float
        The weights :math:`\pi` of the parts: "without features", "effects", "effects on
        temperature scaling" and "trees".
    loss_report_ : dict of str to float
        Mean out-of-fold log losses in nats: "without features", "with features", and "features
        alone", without the logits. Empty after a fit without features.
    effects_ : list of ndarray of shape (n_levels + 1, 1 + n_classes)
        One table for the calibration without features, and one for temperature scaling: the slope
        and the intercepts for each level, column after column. The last row, with zeros, is for
        categories without a level.
    feature_temperature_, feature_smoothing_ : float
        The fitted temperature, and the share of the uniform distribution in each part with
        features, :math:`1 / (N + 1)` for N rows.
    trees_ : list of HistGradientBoostingClassifier
        The boosted trees; empty if they have no weight.
    feature_names_ : list of str
        Names of the feature columns, or their numbers.
    feature_levels_ : list of ndarray
        Categories in each column, or edges between its intervals of numbers.
    is_categorical_ : ndarray of shape (n_columns,)
        Which feature columns contain categories.
    weights_, calibrators_, intercept_, cv_log_loss_, cv_log_loss_error_, smoothing_
        As in :class:`AutoCalibrator`, for the calibration without features.
    classes_ : ndarray of shape (n_classes,)
        Labels in column order.
    n_features_in_ : int
        Number of columns in ``X`` during ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Column names, if ``X`` had string names.

    Warns
    -----
    UserWarning
        If the features alone predict the labels better than the calibrated logits: fit the
        classifier to the features. If features were passed to ``fit`` but not to a prediction. And
        as for :class:`AutoCalibrator`.

    See Also
    --------
    AutoCalibrator : The calibration without features.
    TopLabelCalibration : Calibration within predicted classes.

    Notes
    -----
    *Features* are a data frame or an array with one row for each row of ``X``. For the effects,
    numbers are cut into ten intervals, and missing numbers are a level. A category has no effect if
    it is missing, new, or rarer than five rows in ``fit``.

    *Fits.* The parts with features are fitted to out-of-fold log-probabilities. Cross-validation
    selects how strongly effects are shrunk. Trees, for up to 20 classes, use log-probabilities,
    numbers, and the intercepts of categories. Features count only if they lower the out-of-fold log
    loss by more than 1.5 standard errors, or by 2.5 with more than ten levels in all. With
    ``groups`` the limit is between 2.5, with many groups, and 3, with ten or fewer, and standard
    errors treat rows of a group as dependent. A row in several test sets counts once, in the first
    test set.

    References
    ----------
    .. [1] Tax, Perini, Linder, Haimovich et al., "MCGrad: Multicalibration at Web Scale",
       KDD 2026, `arXiv:2509.19884 <https://arxiv.org/abs/2509.19884>`_: boosted trees on features
       and scores, for two classes.
    .. [2] Gelman, Hill, "Data Analysis Using Regression and Multilevel/Hierarchical Models",
       Cambridge University Press, 2006: varying slopes and intercepts.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics import log_loss
    >>> from skcalib.conditional import ConditionalCalibrator
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(4000, 3, temperature=1.0, random_state=0)
    >>> subject = np.tile(["law", "physics"], 2000)
    >>> logits[subject == "physics"] *= 3  # over-confident in physics
    >>> fit, new = slice(2000), slice(2000, None)
    >>> calibrator = ConditionalCalibrator().fit(logits[fit], y[fit], features=subject[fit])
    >>> [
    ...     round(log_loss(y[new], calibrator.predict_proba(logits[new], features=of_rows)), 2)
    ...     for of_rows in (subject[new], np.full(2000, "unknown"))
    ... ]
    [0.61, 0.64]
    """

    feature_weights_: dict[str, float]
    loss_report_: dict[str, float]
    effects_: list[Floats]
    feature_temperature_: float
    feature_smoothing_: float
    trees_: list[Any]
    feature_names_: list[str]
    feature_levels_: list[Array]
    is_categorical_: Array

    def __init__(
        self,
        calibrators: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        cv: Any = 5,
        combine: Literal["stack", "best"] = "stack",
        ordered: bool = False,
        order: ArrayLike | None = None,
        categorical_features: Any = "from_dtype",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(
            calibrators,
            cv=cv,
            combine=combine,
            ordered=ordered,
            order=order,
            n_jobs=n_jobs,
            random_state=random_state,
            classes=classes,
        )
        self.categorical_features = categorical_features

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        features: Any = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the parts and their weights to held-out logits with labels and features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits of held-out rows, as for :class:`TemperatureScaling`.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 2 equals the row twice, up to the folds. A weight of 0 equals the row left
            out.
        features : array-like or data frame of shape (n_samples, n_columns), optional
            Features per row, or one column (n_samples,). None fits :class:`AutoCalibrator`.
        groups : array-like of shape (n_samples,), optional
            Groups of rows, which are not split between folds.

        Returns
        -------
        self : object
            The fitted calibrator.

        Raises
        ------
        ValueError
            If features have another length, are infinite, or contain a column of categories that
            all differ. And as for :class:`AutoCalibrator`. The calibrator is then unchanged.
        """
        Z, rows, splits = self._checked_splits(X, y, sample_weight, groups)
        if features is None:
            attributes = fit_stack(self, rows, splits).attributes | _without_features()
            return set_fitted(self, Z, rows.classes, attributes)
        check_in_memory([Z, features])
        w = None if sample_weight is None else check_weights(sample_weight, Z.shape[0])
        columns, F = fitted_columns(features, Z.shape[0], w, self.categorical_features)
        in_memory: Any = rows
        if splits is None:
            splits = random_splits(in_memory, int(self.cv), self.random_state)
        elif len(np.unique(first_tests(splits)[1])) < 2:
            raise ValueError(
                "cv must put rows into at least two test sets to evaluate the effects of features, "
                f"got {len(splits)} {'split' if len(splits) == 1 else 'equal splits'}. Use cv=5."
            )
        attributes = self._fit_to_features(in_memory, columns, F, splits)
        return set_fitted(self, Z, rows.classes, attributes)

    def _fit(self, rows: Rows) -> dict[str, Any]:
        return fit_stack(self, rows, None).attributes | _without_features()

    def _fit_to_features(
        self, rows: Any, columns: FeatureColumns, F: Floats, splits: list[Split]
    ) -> dict[str, Any]:
        """Return the fitted attributes for rows in memory and features ``F`` (n, d)."""
        stack = fit_stack(self, rows, splits)
        if not stack.folds:  # a warning says so
            return stack.attributes | _without_features()

        # Only the log-probabilities without features must be out-of-fold. The single parameter of
        # temperature scaling overfits very little, so it is fitted to all rows.
        test, fold, first = first_tests(splits)
        L = mix_logits(stack.held_out(rows)[first], stack.attributes["smoothing_"])
        with recorded():  # rows without a best temperature have a fallback
            scaling = fit_to_rows(TemperatureScaling(), rows)
        scaled = log_probabilities(scaling, rows.X, rows.classes)
        smoothing = scaling.smoothing_
        w = None if rows.w is None else rows.w[test]
        groups = None if rows.groups is None else rows.groups[test]
        bases = np.stack([L, scaled[test]], axis=1)
        samples = HeldOut(bases, rows.y[test], w, F[test], fold, groups)
        base_rates, strengths = _with_base_rates(samples), [[10.0, 1.0, 0.1]]
        weighed = weigh(columns, samples, smoothing, self.n_jobs)
        alone = weigh(columns, base_rates, smoothing, self.n_jobs, strengths)
        if rows.n_rows >= MANY_ROWS:  # overfitting is negligible: use all rows
            without = set_fitted(AutoCalibrator(), rows.X, rows.classes, stack.attributes)
            L = log_probabilities(without, rows.X, rows.classes)
            samples = HeldOut(np.stack([L, scaled], axis=1), rows.y, rows.w, F, fold)
        parts = fit_parts(columns, samples, weighed)
        losses = weighed.without_features, weighed.with_features, alone.with_features
        _warn_of_features_alone(*losses)
        return stack.attributes | {
            "feature_weights_": dict(zip(PARTS, weighed.weights.tolist(), strict=False)),
            "loss_report_": dict(zip(REPORTED, losses, strict=True)),
            "feature_temperature_": scaling.temperature_,
            "feature_smoothing_": smoothing,
            "effects_": parts.effects,
            "trees_": parts.trees,
            **dict(zip(COLUMNS, columns, strict=True)),
        }

    @property
    def _parts(self) -> Parts:
        """Effects and trees that were fitted to features."""
        columns = FeatureColumns(*(getattr(self, name) for name in COLUMNS))
        return Parts(columns, self.effects_, self.trees_)

    def fit_transform(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        features: Any = None,
        groups: ArrayLike | None = None,
    ) -> Floats:
        """Fit, and calibrate the same logits.

        Parameters
        ----------
        X, y, sample_weight, features, groups
            As for :meth:`fit`.

        Returns
        -------
        ndarray of the shape of ``X``
            As :meth:`transform`.
        """
        fitted = self.fit(X, y, sample_weight, features=features, groups=groups)
        return fitted.transform(X, features=features)

    def transform(self, X: ArrayLike, *, features: Any = None) -> Floats:
        """Return the calibrated logits.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits, as in :meth:`fit`.
        features : array-like or data frame of shape (n_samples, n_columns), optional
            Features per row, as in :meth:`fit`.

        Returns
        -------
        ndarray of the shape of ``X``
            Calibrated logits, as for other calibrators.
        """
        L = self._given_features(X, features)
        if L is None:
            return super().transform(X)
        return as_kind_of(L[:, 1:] - L[:, :1] if self.n_features_in_ == 1 else L, X)

    def predict_proba(self, X: ArrayLike, *, features: Any = None) -> Floats:
        """Return the calibrated probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits, as in :meth:`fit`.
        features : array-like or data frame of shape (n_samples, n_columns), optional
            Features per row, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            One column per class, ordered as ``classes_``.
        """
        L = self._given_features(X, features)
        return super().predict_proba(X) if L is None else as_kind_of(np.exp(L), X)

    def predict_log_proba(self, X: ArrayLike, *, features: Any = None) -> Floats:
        """Return the logarithms of the calibrated probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits, as in :meth:`fit`.
        features : array-like or data frame of shape (n_samples, n_columns), optional
            Features per row, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            As :meth:`predict_proba`.
        """
        L = self._given_features(X, features)
        return super().predict_log_proba(X) if L is None else as_kind_of(L, X)

    def predict(self, X: ArrayLike, *, features: Any = None) -> Array:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits, as in :meth:`fit`.
        features : array-like or data frame of shape (n_samples, n_columns), optional
            Features per row, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels in ``classes_``.
        """
        L = self._given_features(X, features)
        return super().predict(X) if L is None else as_kind_of(self.classes_[L.argmax(axis=1)], X)

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        features: Any = None,
    ) -> float:
        """Return the accuracy of the most probable classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits, as in :meth:`fit`.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights.
        features : array-like or data frame of shape (n_samples, n_columns), optional
            Features per row, as in :meth:`fit`.

        Returns
        -------
        float
            Weighted share of correct rows.
        """
        predicted = as_labels(self.predict(X, features=features))
        numbers = encode(as_labels(y), self.classes_), encode(predicted, self.classes_)
        w = check_weights(sample_weight, len(predicted))
        return float(accuracy_score(*numbers, sample_weight=w))

    def _given_features(self, X: Any, features: Any) -> Floats | None:
        """Return log-probabilities (n, K) for logits and features (n, d), on the host.

        Return None if there are no features, or no rows.
        """
        check_fitted(self)
        if features is None:
            if self.feature_names_:
                warn(
                    "The calibrator was fitted with features, got none: the probabilities "
                    "do not depend on features. Pass features= with one row for each row of X."
                )
            return None
        if not self.feature_names_:
            raise ValueError(
                "The calibrator was fitted without features, got features. Leave them out, "
                "or pass features= to fit as well."
            )
        check_in_memory([X, features])
        L = on_host(super().predict_log_proba(X))
        if not len(L):
            return None
        Z = logits_for(self, as_array(X, n_columns=self.n_features_in_))
        outputs: Floats = map_blocks(
            self._mixed, L, Z, self._parts.columns.numbers(features, len(L))
        )
        return outputs

    def _mixed(self, L: Floats, Z: Floats, F: Floats) -> Floats:
        """Mix log-probabilities (m, K) without features with the parts given features (m, d).

        ``Z`` are logits (m, n_columns).
        """
        weights = np.array([*self.feature_weights_.values()])
        used = np.flatnonzero(weights)
        if used[-1] == 0:
            return L
        without = L.astype(np.float64)
        smoothing = self.feature_smoothing_
        scaling = {"temperature_": self.feature_temperature_, "smoothing_": smoothing}
        scaled = log_probabilities(
            set_fitted(TemperatureScaling(), Z, self.classes_, scaling), Z, self.classes_
        )
        parts = self._parts.log_probabilities(np.stack([without, scaled], axis=1), F, smoothing)
        # The parts know nothing about rows with only unknown categories.
        is_known = self._parts.columns.are_known(F)[:, None]
        return np.where(is_known, mixture(parts[used], weights[used]), without).astype(L.dtype)

    def _summary(self) -> str:
        """Return lines with the weights in the mixture and the log losses."""
        lines = [super()._summary()]
        if self.loss_report_:
            shares = (f"{part}: {share:.2f}" for part, share in self.feature_weights_.items())
            losses = (f"{name} {loss:.4f}" for name, loss in self.loss_report_.items())
            lines += [", ".join(shares), f"Out-of-fold log loss {', '.join(losses)}"]
        return "\n".join(lines)


def _without_features() -> dict[str, Any]:
    """Return the fitted attributes that depend on features, for a fit without features."""
    return {
        "feature_weights_": {PARTS[0]: 1.0},
        "loss_report_": {},
        "feature_temperature_": 1.0,
        "feature_smoothing_": 0.0,
        "effects_": [],
        "trees_": [],
        **dict(zip(COLUMNS, ([], [], np.zeros(0, bool)), strict=True)),
    }


def _with_base_rates(samples: HeldOut) -> HeldOut:
    """Replace the log-probabilities of held-out rows by logarithms of the base rates."""
    L = samples.L[:, :1]
    rates = np.bincount(samples.y, samples.w, L.shape[-1]) + EXTRA_ROWS
    return samples._replace(L=np.where(np.isneginf(L), L, np.log(rates / rates.sum())))


def _warn_of_features_alone(without: float, with_features: float, alone: float) -> None:
    """Warn if the features alone have a lower log loss than the logits."""
    if alone < without:
        warn(
            f"The features alone predict the labels with a log loss of {alone:.4f}, better than "
            f"the calibrated logits without them, {without:.4f}; together they have "
            f"{with_features:.4f}. Most of the gain is not calibration: fit the classifier to "
            "these features as well."
        )
