"""One calibrator per label, for rows that may have several labels at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, ClassifierMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags, check_array, check_consistent_length
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import validate_data

from skcalib._fits import fit_to_rows, log_probabilities, with_fitted
from skcalib._input.arrays import as_kind_of, as_numpy, check_in_memory, on_host
from skcalib._input.column_order import check_label_order
from skcalib._input.estimators import check_calibrator, check_fitted, check_order
from skcalib._input.groups import check_groups
from skcalib._input.labels import as_columns, as_indicator, label_names, shown
from skcalib._input.logits import (
    FEW_LOG_ODDS,
    FLOATS,
    check_finite,
    check_weights,
    warn_of_small_weights,
    with_nan,
    with_weight_only,
)
from skcalib._input.parameters import check_flag
from skcalib._rows import Rows
from skcalib._typing import Array, ArrayLike, Floats
from skcalib._version import Versioned
from skcalib._warnings import Messages, ProbabilitiesWarning, give, recorded, warn
from skcalib.base import accuracy
from skcalib.scaling import PlattScaling
from skcalib.scaling._temperature import unless_passthrough

# The row lacks or has the label.
CLASSES = np.array([0, 1])


def fit_label(
    calibrator: Any, number: int, z: Floats, e: Array, w: Floats | None, groups: Array | None
) -> tuple[Any, Messages]:
    """Fit a calibrator to one label, and return it with the messages of its warnings.

    ``z`` are log-odds (n,), ``e`` indicators (n,), ``w`` weights and ``groups`` (n,) or None.
    """
    y = e.astype(np.intp)
    if groups is not None and w is not None:
        groups = groups[w > 0]
    y, z, w = with_weight_only(y, z, w)
    rows = Rows(z[:, None], y, w, classes=CLASSES, groups=groups)
    if not len(y) or (y == y[0]).all():
        return _shift_to_base_rate(rows), {}
    try:
        with recorded(ProbabilitiesWarning) as messages:
            return fit_to_rows(calibrator, rows), messages
    except Exception as error:
        error.add_note(f"Label {number} failed.")
        raise


def _shift_to_base_rate(rows: Rows) -> Any:
    """Return a calibrator that only shifts log-odds, for a label that is equal in all rows."""
    sign = 1.0 if rows.n_rows and rows.y[0] else -1.0
    shift = _shift_below(-sign * rows.X[:, 0].astype(np.float64), rows.w)
    fitted = {"coef_": np.ones(1), "intercept_": np.array([-sign * shift]), "n_iter_": 0}
    return with_fitted(PlattScaling(), fitted, rows)


def _shift_below(z: Floats, w: Floats | None) -> float:
    """Return the shift that lowers the mean probability to 1 / (2 N + 2), or 0 if it is lower.

    ``z`` are log-odds (n,), ``w`` weights (n,) or None.
    """
    if not len(z):
        return 0.0
    w = np.ones(len(z)) if w is None else w
    rate = 0.5 / (w.sum() + 1)

    def excess(shift: float) -> float:
        return float(np.average(expit(z + shift), weights=w)) - rate

    if excess(0.0) <= 0:
        return 0.0
    # The lower end brackets the root, as even the largest probability is below the rate there. The
    # 1 allows for rounding.
    return float(brentq(excess, min(logit(rate) - z.max(), 0.0) - 1.0, 0.0, xtol=1e-12))


def closest_increasing(P: Floats) -> Floats:
    """Return the non-decreasing rows (n, m) at the smallest squared distance from rows P (n, m).

    Each row is an isotonic regression, by the max-min formula: the mean of columns a to b is
    minimized over b >= j, then maximized over a <= j.
    """
    n, m = P.shape
    sums = np.cumsum(np.column_stack([np.zeros(n), P]), axis=1)
    result: Floats = np.zeros_like(P)
    for a in range(m):
        means = (sums[:, a + 1 :] - sums[:, a, None]) / np.arange(1, m - a + 1)
        smallest = np.minimum.accumulate(means[:, ::-1], axis=1)[:, ::-1]
        result[:, a:] = np.maximum(result[:, a:], smallest)
    limits = np.finfo(np.float64)  # log-odds must be finite
    return np.clip(result, limits.tiny, 1 - limits.epsneg)


def warn_about_labels(
    E: Array, W: Floats | None, messages: Sequence[Messages], names: Array
) -> None:
    """Warn about labels that all rows have or lack, and repeat the warnings of fits.

    ``E`` are indicators (n, n_labels), ``W`` weights (n,) or (n, n_labels) or None, and ``names``
    labels (n_labels,).
    """
    counts = np.ones(E.shape, bool) if W is None else np.broadcast_to(W.T > 0, E.T.shape).T
    for value, what in ((False, "has"), (True, "lacks")):
        none = ~(counts & (value != E)).any(axis=0)
        if value:
            none &= counts.any(axis=0)
        if none.any():
            warn(
                f"No row {what} label {shown(names[none])}: its log-odds are only shifted, "
                "where they contradict that. Calibrate on more rows, or leave it out."
            )
    give(zip(names.tolist(), messages, strict=True), lambda counts: f"Label {shown(counts)}")


def warn_of_increasing_labels(E: Array) -> None:
    """Warn if indicators (n, n_labels) never fall within a row, as for increasing horizons."""
    steps = np.diff(E.astype(np.int8), axis=1)
    if (steps >= 0).all() and (steps > 0).any(axis=0).all():
        warn(
            "Each row that has a label has all later labels, as events by increasing horizons do, "
            "but the calibrated probabilities of a row may fall. Pass increasing=True if they must "
            "not."
        )


class MultiLabelCalibrator(
    Versioned, ClassifierMixin, OneToOneFeatureMixin, TransformerMixin, BaseEstimator
):
    r"""One calibrator per label, for rows with several labels at once, or none.

    For each label j a calibrator for two classes, :math:`f_j`, is fitted to the log-odds
    :math:`z_{ij}` and the indicators :math:`y_{ij}` of the label,

    .. math:: \hat p(y_{ij} = 1 \mid z_i) = \sigma(f_j(z_{ij})) .

    Probabilities of a row do not sum to one: the labels do not exclude one another.

    Parameters
    ----------
    calibrator : calibrator, default=None
        A calibrator for two classes. A clone is fitted for each label. None means
        :class:`PlattScaling`, and "passthrough" means :class:`Uncalibrated`.
    increasing : bool, default=False
        Whether probabilities increase from column to column, such as risks by one, two and five
        years. If they fall in a row, isotonic regression replaces them by the closest
        probabilities that do not fall.
    n_jobs : int, default=None
        Number of labels that are fitted in parallel.

    Attributes
    ----------
    calibrators_ : list of calibrators
        The fitted calibrator of each label.
    classes_ : ndarray of shape (n_labels,)
        Numbers of the labels, 0 to ``n_labels - 1``, as for other multilabel classifiers in
        scikit-learn.
    n_features_in_ : int
        Number of columns in ``X`` during ``fit``.
    feature_names_in_ : ndarray of shape (n_labels,)
        Column names, if ``X`` had string names.

    Warns
    -----
    UserWarning
        If a label is equal in all calibration rows, if the fit for a label warns, or if ``X``
        probably contains probabilities. Also if each row with a label has all later labels, unless
        ``increasing=True``.

    See Also
    --------
    CalibratedClassifier : Accepts several labels as well, and fits across folds.
    LogitTransformer : Log-odds from classifiers with several labels.

    Notes
    -----
    If no row has a label, the rows only show that the label is rare. Its log-odds are shifted so
    that the mean probability is :math:`1 / (2 N + 2)` for N rows [2]_, unless the mean is already
    lower. If all rows have the label, the shift is upwards. In both cases the calibrator is a
    :class:`PlattScaling` with a slope of 1.

    The default has two parameters per label. :class:`AutoCalibrator` was no better in simulations,
    and a hundred times slower.

    Each label is calibrated separately. Dependence between labels is neither needed nor modelled.

    With scikit-learn's ``array_api_dispatch``, tensors are copied to the host, and outputs are
    tensors like ``X``. Rows must be in memory.

    References
    ----------
    .. [1] Platt, "Probabilistic Outputs for Support Vector Machines and Comparisons to
       Regularized Likelihood Methods", Advances in Large Margin Classifiers, 1999.
    .. [2] Brown, Cai, DasGupta, "Interval Estimation for a Binomial Proportion", Statistical
       Science 16, 2001, on the prior of Jeffreys.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.multiclass import OneVsRestClassifier
    >>> from skcalib import MultiLabelCalibrator
    >>> X, Y = make_multilabel_classification(900, random_state=0)
    >>> classifier = OneVsRestClassifier(LogisticRegression()).fit(X[:300], Y[:300])
    >>> Z = classifier.decision_function(X)
    >>> calibrator = MultiLabelCalibrator().fit(Z[300:600], Y[300:600])
    >>> calibrator.predict_proba(Z[600:]).shape
    (300, 5)
    """

    calibrators_: list[Any]
    classes_: Array
    n_features_in_: int

    def __init__(
        self, calibrator: Any = None, *, increasing: bool = False, n_jobs: int | None = None
    ) -> None:
        self.calibrator = calibrator
        self.increasing = increasing
        self.n_jobs = n_jobs

    __metadata_request__fit: ClassVar = {"groups": True}

    def fit(
        self,
        X: ArrayLike,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit a calibrator for each label to held-out log-odds.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_labels)
            Log-odds of each label in held-out rows. The classifier must not have been trained on
            these rows. For probabilities ``p`` pass ``scipy.special.logit(p)``.
        y : {array-like, sparse matrix} of shape (n_samples, n_labels)
            Indicator matrix: 1 where the row has the label, else 0.
        sample_weight : array-like of shape (n_samples,) or (n_samples, n_labels), optional
            Weight 2 equals the row twice, weight 0 equals the row left out. An array with
            one column per label weights every entry of ``y``; pass 0 for unknown entries.
        groups : array-like of shape (n_samples,), optional
            Groups of rows, for a calibrator with folds. Other calibrators ignore groups.

        Returns
        -------
        self : object
            The fitted calibrator.

        Raises
        ------
        ValueError
            If ``y`` is not an indicator matrix with the shape of ``X``, or both have the same
            column names in different orders. If ``X`` is not finite, or weights are negative or all
            zero. If ``calibrator`` is not a calibrator, or accepts no weights although weights are
            passed. The calibrator is then unchanged.
        """
        calibrator = PlattScaling() if self.calibrator is None else self.calibrator
        calibrator = unless_passthrough(calibrator)
        check_flag("increasing", self.increasing)
        check_calibrator(calibrator, None)
        check_order(calibrator, CLASSES)
        Z = _checked_log_odds(X, type(self).__name__)
        W = _checked_weights(sample_weight, Z.shape)
        unknown = None if W is None else W.reshape(len(Z), -1) == 0
        E = as_indicator(y, unknown=unknown)
        check_consistent_length(Z, E)
        check_label_order(X, y)
        if Z.shape != E.shape:
            raise ValueError(
                "X must have one column of log-odds for each column of y, got "
                f"{Z.shape[1]} columns and {E.shape[1]} labels. Pass the same labels in X and y."
            )
        check_calibrator(calibrator, W)
        codes = None if groups is None else check_groups(groups, len(Z))
        # Copy columns to contiguous memory. Weights of rows are shared by all labels.
        weights = [W] * Z.shape[1] if W is None or W.ndim == 1 else np.ascontiguousarray(W.T)
        columns = zip(np.ascontiguousarray(Z.T), np.ascontiguousarray(E.T), weights, strict=True)
        jobs = (
            delayed(fit_label)(calibrator, k, *column, codes) for k, column in enumerate(columns)
        )
        calibrators, messages = zip(*Parallel(n_jobs=self.n_jobs)(jobs), strict=True)
        if W is not None:
            warn_of_small_weights(float(W.sum()), int(np.count_nonzero(W)))
        warn_about_labels(E, W, messages, label_names(y, E.shape[1]))
        if not self.increasing and E.shape[1] > 1 and unknown is None:
            warn_of_increasing_labels(E)
        validate_data(self, X if hasattr(X, "columns") else Z, skip_check_array=True)
        self.calibrators_, self.classes_ = list(calibrators), np.arange(Z.shape[1])
        return self

    def transform(self, X: ArrayLike) -> Floats:
        """Return the calibrated log-odds.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_labels)
            Log-odds, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Log-odds of the calibrated probabilities, always finite. float32 for float32 log-odds,
            else float64.
        """
        return self._outputs(X, np.subtract)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return the calibrated probability of each label.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_labels)
            Log-odds, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Probabilities, which do not sum to one.
        """
        return self._outputs(X, lambda has, lacks: np.exp(has))

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Return the logarithm of the calibrated probability of each label.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_labels)
            Log-odds, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            As :meth:`predict_proba`.
        """
        return self._outputs(X, lambda has, lacks: has)

    def predict(self, X: ArrayLike) -> Array:
        """Return indicators of the labels with a probability above 0.5.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_labels)
            Log-odds, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Indicator matrix of zeros and ones.
        """
        P = on_host(self.predict_proba(X))
        return as_kind_of((P > 0.5).astype(np.intp), X)

    def score(self, X: ArrayLike, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the subset accuracy: a row counts if all its labels are right.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_labels)
            Log-odds, as in :meth:`fit`.
        y : {array-like, sparse matrix} of shape (n_samples, n_labels)
            Indicator matrix.
        sample_weight : array-like of shape (n_samples,), optional
            Weights.

        Returns
        -------
        float
            Weighted share of rows without a wrong label.
        """
        return accuracy(as_indicator(y), self.predict(X), sample_weight)

    def _outputs(self, X: Any, output: Callable[[Floats, Floats], Floats]) -> Array:
        """Apply ``output`` to the log-probabilities (n, n_labels) that rows have and lack labels.

        ``X`` are log-odds (n, n_labels).
        """
        check_fitted(self)
        Z = _checked_log_odds(X, type(self).__name__, predicts=True)
        # Check only the number and the names of the columns.
        validate_data(self, X if hasattr(X, "columns") else Z, reset=False, skip_check_array=True)
        if not len(Z):
            return as_kind_of(Z, X)
        pairs = [
            log_probabilities(calibrator, z[:, None], CLASSES).T
            for calibrator, z in zip(self.calibrators_, np.ascontiguousarray(Z.T), strict=True)
        ]
        lacks, has = np.stack(pairs, axis=2)
        if self.increasing:
            falls = (np.diff(has, axis=1) < 0).any(axis=1)
            P = closest_increasing(np.exp(has[falls].astype(np.float64)))
            has[falls], lacks[falls] = np.log(P), np.log1p(-P)
        return as_kind_of(output(has, lacks), X)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        return tags


def _checked_log_odds(X: Any, name: str, *, predicts: bool = False) -> Floats:
    """Return finite log-odds (n, n_labels) as a NumPy array; predictions may have no rows."""
    check_in_memory([X])
    remedy = (
        "np.stack([np.log(p[:, 1]) - np.log(p[:, 0]) for p in X], axis=1), or the output of a "
        "LogitTransformer, which does that"
    )
    X = as_columns(X, "X", remedy)
    options = {"input_name": "X", "estimator": name, "ensure_min_samples": int(not predicts)}
    Z = check_array(with_nan(X), dtype=FLOATS, ensure_all_finite=False, **options)
    if len(Z):
        check_finite(np.reshape(Z, (-1, 1)))
        _warn_about_probabilities(Z, "predictions" if predicts else "fit")
    return np.asarray(Z)


def _checked_weights(sample_weight: Any, shape: tuple[int, int]) -> Floats | None:
    """Return the checked weights of rows (n,), or of entries (n, n_labels)."""
    if sample_weight is None:
        return None
    weights = as_numpy(sample_weight, "sample_weight")
    if getattr(weights, "shape", None) == shape:
        W = check_weights(np.ravel(weights), int(np.prod(shape)))
        return None if W is None else W.reshape(shape)
    return check_weights(weights, shape[0])


def _warn_about_probabilities(Z: Floats, method: str) -> None:
    """Warn if log-odds look like probabilities; a few may be between 0 and 1 by chance."""
    if Z.min() >= 0 and Z.max() <= 1 and (method == "fit" or Z.size >= FEW_LOG_ODDS):
        warn(
            "Every entry of X is between 0 and 1: X probably holds probabilities where log-odds "
            f"are expected by {method}. Pass scipy.special.logit(p) instead.",
            ProbabilitiesWarning,
        )
