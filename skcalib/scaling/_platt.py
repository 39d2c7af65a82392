"""Platt scaling: a sigmoid of the margin for each class, fitted one versus the rest."""

from typing import Any, Self

import numpy as np

from skcalib._base import BaseCalibrator
from skcalib._optimize.logistic import FeaturesOf, RowSigmoids, fit_sigmoids
from skcalib._optimize.newton import SMALLEST_CURVATURE
from skcalib._optimize.online import bounded_set, newton_steps
from skcalib._optimize.temperature import fit_inverse_temperature
from skcalib._rows import ArrayLike, Bools, Floats, Indices, Rows, arrays as xa
from skcalib._scores.columns import joined, margins, n_maps
from skcalib._validation.inputs import check_flag
from skcalib._warnings import ReversedOrderWarning, warn

from ._linear import MOST_STORED
from ._one_vs_rest import warn_unless_optimal

# Rows of a sample for each class, if it is to provide starting values.
ROWS_PER_MAP, FEW_ROWS_PER_MAP = 512, 128

# Margins this many times as far from the median as is typical, or where there are such this many
# temperatures from zero, have probabilities that double precision does not tell from 0 and 1.
# Smoothed targets would make the slope smaller because of them.
FARTHEST = 1e3

# Single precision holds the squares of smaller margins in units.
LARGEST = 1e15

# Margins whose differences are below this many rounding errors of the logits are equal.
ROUNDINGS = 8

# A slope this many of its standard errors below zero is negative.
CLEARLY = 3.0

# Sigmoids with larger slopes or offsets are worked out in double precision.
LARGE = 64.0


class PlattScaling(BaseCalibrator):
    r"""Platt scaling: a sigmoid of the margin for each class, then rows that sum to one.

    For each class k, against all others, a slope :math:`a_k` and an offset :math:`c_k` of

    .. math:: \hat p_k = \sigma(a_k m_k + c_k), \qquad
        m_k = \log \frac{\mathrm{softmax}(z)_k}{1 - \mathrm{softmax}(z)_k} ,

    are those that minimise the log loss of the event :math:`y = k`; rows are then divided by
    their sum. Two classes take a single sigmoid, of the log-odds :math:`z_1 - z_0` of the second.

    Parameters
    ----------
    smooth_targets : bool, default=True
        Whether the targets are those of [1]_, :math:`(n_1 + 1) / (n_1 + 2)` for the
        :math:`n_1` rows of the class and :math:`1 / (n_0 + 2)` for the :math:`n_0` others,
        instead of 1 and 0. With them there always is an optimum.
    classes : array-like of shape (n_classes,), default=None
        All labels in the order of the columns of ``X``, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes,), or (1,) for two classes
        The slopes :math:`a`.
    intercept_ : ndarray of shape (n_classes,), or (1,) for two classes
        The offsets :math:`c`.
    information_ : ndarray of shape (n_classes, 2, 2), or (1, 2, 2) for two classes
        Hessians of the total log loss of each class by slope and offset, which are inverse
        covariances of these; of a stream the sums of the curvatures of its rows.
    bounds_ : ndarray of shape (2, n_classes, 2), or (2, 1, 2) for two classes
        The least, and the largest, slopes and offsets in a stream.
    n_iter_ : int
        Number of passes over the rows.
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the columns.
    n_features_in_ : int
        Number of columns of ``X`` seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Names of the columns, where ``X`` had string names.

    Warns
    -----
    ConvergenceWarning
        With ``smooth_targets=False``, if a class has no optimum, because a threshold on its
        margin separates it from the others. Its slope is then large but finite. Also if Newton's
        method does not converge.
    UserWarning
        If a slope is negative by more than three of its standard errors, so that the order of the
        rows is reversed, if weights sum to far less than the number of rows, and as for
        :class:`TemperatureScaling`.

    Notes
    -----
    The margin, not the probability, is what a sigmoid can calibrate: margins that are right by a
    constant and a factor come out exact. Fitted by :func:`scipy.optimize.minimize` with a method of
    Newton's for all classes at once, whose iterations are one pass over the rows each, that sums a
    gradient and a Hessian of two by two for every class. Rows in which a class is masked are not
    counted for it. Nor are margins on the right side of zero that are a thousand times as far from
    the median as is typical or, if there are such, a thousand temperatures from zero: they have no
    information on the slope, which smoothed targets would make smaller because of them.

    References
    ----------
    .. [1] Platt, "Probabilistic Outputs for Support Vector Machines and Comparisons to
       Regularized Likelihood Methods", Advances in Large Margin Classifiers, 1999.
    .. [2] Lin, Lin, Weng, "A Note on Platt's Probabilistic Outputs for Support Vector Machines",
       Machine Learning 68, 2007.
    .. [3] Zadrozny, Elkan, "Transforming Classifier Scores into Accurate Multiclass Probability
       Estimates", KDD 2002.
    .. [4] Hazan, Agarwal, Kale, "Logarithmic Regret Algorithms for Online Convex Optimization",
       Machine Learning 69, 2007.

    Examples
    --------
    >>> from skcalib import PlattScaling
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(5000, 2, temperature=2.0, offset=[0, 1], random_state=0)
    >>> calibrator = PlattScaling().fit(logits, y)
    >>> calibrator.coef_.round(1), calibrator.intercept_.round(1)
    (array([0.5]), array([-0.5]))
    """

    _on_device = True

    coef_: Floats
    intercept_: Floats
    information_: Floats
    bounds_: Floats
    n_iter_: int

    def __init__(self, *, smooth_targets: bool = True, classes: ArrayLike | None = None) -> None:
        super().__init__(classes=classes)
        self.smooth_targets = smooth_targets

    def _fit(self, rows: Rows) -> dict[str, Any]:
        check_flag("smooth_targets", self.smooth_targets)
        # Where a pass is a round trip a start is worth more.
        per_map = ROWS_PER_MAP if rows.is_local else FEW_ROWS_PER_MAP
        K = n_maps(rows.n_columns)
        units, start = rows.sample(_fit_sample, per_map * K) or (None, None)
        if units is None:
            units = rows.sample(_units, or_all=True)
        features = _in_units(units)
        if K > 1 and rows.n_rows * K <= MOST_STORED:
            rows = rows.with_logits(rows.map(lambda Z, *_: margins(Z)))
            features = _in_units(units, stored=True)
        sigmoids = RowSigmoids.of(rows, features, K, smooth=self.smooth_targets)
        found = fit_sigmoids(sigmoids, sigmoids.constant if start is None else start)
        if not (self.smooth_targets and found.success):
            remedy = "smooth_targets=True"
            warn_unless_optimal(sigmoids, found, "a threshold", remedy)
        _warn_of_reversed_order(sigmoids, found.x)
        centre, spread, _ = units
        slope = found.x[:, 0] / spread
        theta = np.stack([slope, found.x[:, 1] - slope * centre], axis=1)
        # The margin is a linear function of what was fitted, constant where no spread is known.
        linear = np.zeros_like(found.hess)
        linear[:, 0, 0], linear[:, 0, 1] = np.where(np.isfinite(spread), spread, 0), centre
        linear[:, 1, 1] = 1
        information = linear @ found.hess @ linear.transpose(0, 2, 1)
        return {
            **_attributes(theta, sigmoids.weight[:, None, None] * information),
            "bounds_": bounded_set(theta),
            "n_iter_": found.nfev + 1,  # one is for the weights
        }

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        classes: ArrayLike | None = None,
    ) -> Self:
        r"""Update slopes and offsets by the labelled rows of a batch, in their order.

        One online Newton step for each row and each class, on the log loss of its event: with
        the margin m and :math:`x = (m, 1)`, the probability less the event r, and the curvature
        :math:`\eta` of the log loss, or a smaller one where that does not bound it below,

        .. math:: A \leftarrow A + \eta\, x x^\top, \qquad
            (a, c) \leftarrow \Pi_A \big( (a, c) - r A^{-1} x \big) .

        A begins with the identity plus ``information_``, and :math:`\Pi_A` is the nearest point
        within ``bounds_`` in the norm of A. Without a fit before, slopes begin with 1 and offsets
        with 0, and stay in [0, 2] and [-4, 4]; after :meth:`fit` they go on as if its rows had
        come first, and where it found slopes or offsets above 1, these limits are as many times as
        large.

        Let each row be predicted before its label is known, with those of all rows before it.
        Whatever the rows and their order, the total log loss of the events of a class is above that
        of any fixed :math:`\theta^* = (a, c)` within the bounds by at most

        .. math:: \tfrac12 |\theta^* - \theta_0|_{A_0}^2
            + \tfrac12 \sum_t r_t^2\, x_t^\top A_t^{-1} x_t
            \;\le\; \tfrac12 |\theta^* - \theta_0|_{A_0}^2
            + e^B \ln \Big( 1 + \frac{T (R^2 + 1)}{8} \Big)

        for T rows with margins up to R, and log-odds up to B within the bounds: O(log T). The
        first bound depends on the data, and is typically ten to a hundred nats; of the second the
        constant :math:`e^B` is needed in the worst case, of rows that are wrong and certain.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits, in memory.
        y : array-like of shape (n_samples,)
            Labels, which may all be equal if the classes are known.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 2 is the row twice, up to 1000 times, a weight of 0 the row absent.
        classes : array-like of shape (n_classes,), optional
            All labels, as the parameter of this name, for the first batch.

        Returns
        -------
        self : object
            The calibrator. It is the same for one batch or its rows one by one.

        Raises
        ------
        ValueError
            As :meth:`fit`, for other columns or labels than those before, and for rows that are not
            in memory. The calibrator is then unchanged.

        Examples
        --------
        >>> from skcalib import PlattScaling
        >>> from skcalib.datasets import make_logits
        >>> logits, y = make_logits(5000, 2, temperature=2.0, offset=[0, 1], random_state=2)
        >>> calibrator = PlattScaling()
        >>> for rows in range(0, 5000, 100):
        ...     batch = slice(rows, rows + 100)
        ...     calibrator = calibrator.partial_fit(logits[batch], y[batch], classes=[0, 1])
        >>> calibrator.coef_.round(1), calibrator.intercept_.round(1)
        (array([0.5]), array([-0.4]))
        """
        check_flag("smooth_targets", self.smooth_targets)
        X, rows = self._checked_batch(X, y, sample_weight, classes)
        K = n_maps(rows.n_columns)
        if "classes_" not in vars(self):
            theta = np.tile([1.0, 0.0], (K, 1))
            attributes = _attributes(theta, np.zeros((K, 2, 2)))
            attributes |= {"bounds_": bounded_set(theta), "n_iter_": 1}
            self._stored(X, rows.classes, attributes)
        theta = np.stack([self.coef_, self.intercept_], axis=1)
        stream = xa.double(margins(rows.X)), xa.is_event(rows.y, K), rows.w
        found = newton_steps(theta, self.information_, self.bounds_, *stream)
        for name, value in _attributes(*found).items():
            setattr(self, name, value)
        return self

    def _calibrate(self, Z: Floats) -> Floats:
        return joined(log_odds(margins(Z), self.coef_, self.intercept_), Z.shape[1])


def _attributes(theta: Floats, information: Floats) -> dict[str, Any]:
    """Slopes and offsets (K, 2), and their information, as fitted attributes."""
    return {"coef_": theta[:, 0], "intercept_": theta[:, 1], "information_": information}


def log_odds(M: Floats, coef: Floats, intercept: Floats) -> Floats:
    """Calibrated log-odds of margins, in their precision."""
    parameters, dtype, xp = (coef, intercept), M.dtype, xa.namespace(coef)
    if any(xa.perhaps(xp.max(abs(values)) > LARGE) for values in parameters):
        M = xa.double(M)  # single precision loses what nearly cancels
    coef, intercept = (xa.astype(values, M.dtype) for values in parameters)
    return xa.astype(M * coef + intercept, dtype)


def _fit_sample(rows: Rows) -> tuple[Floats, Floats]:
    """Units of the margins of a sample, and slopes and offsets (n_maps, 2) in them."""
    units = _units(rows)
    sigmoids = RowSigmoids.of(rows, _in_units(units), units.shape[1], smooth=True)
    return units, fit_sigmoids(sigmoids, sigmoids.constant).x


def _units(rows: Rows) -> Floats:
    """Median margins of each class, median distances from them, and limits: (3, n_maps).

    Without those that are masked, and without distances that rounding of the logits may account
    for. If no others are left the second is infinite. Larger margins than the limits do not count
    on the side of the label.
    """
    rows = rows.on_host()
    M, eps = margins(rows.X), float(np.finfo(rows.dtype).eps)
    centre, spread = np.zeros(M.shape[1]), np.full(M.shape[1], np.inf)
    size, limited = _median(np.abs(rows.X.max(axis=1))), False
    for k, margin in enumerate(M.T):
        finite = margin[np.isfinite(margin)]
        if len(finite):
            centre[k] = _median(finite)
            distance = np.abs(finite - finite.dtype.type(centre[k]))
            some = distance > ROUNDINGS * eps * max(size, abs(centre[k]))
            spread[k] = _median(distance[some]) if some.any() else np.inf
            limited |= bool(distance.max() > FARTHEST * spread[k])
    limit = np.abs(centre) + FARTHEST * spread
    if limited:  # by outliers, or by margins of which most are bunched
        scale = fit_inverse_temperature(rows)
        known = scale.outcome == "minimum"
        limit = np.full_like(centre, FARTHEST / scale.value if known else np.inf)
    return np.stack([centre, spread, limit])


def _median(values: Floats) -> float:
    """One of the middle values, and so exact in their precision."""
    middle = len(values) // 2
    return float(np.partition(values, middle)[middle])


def _in_units(units: Floats, *, stored: bool = False) -> FeaturesOf:
    """Features of blocks of rows: margins in units, all of which count if none is as large.

    The rows have logits, or ``stored`` margins.
    """
    near = float(min(units[2].min(), LARGEST * units[1].min()))

    def standardized(Z: Floats, y: Indices) -> tuple[list[Floats], Bools | None]:
        """Margins in units about the centre, and which of them count, or None if all do."""
        margin = Z if stored else margins(Z)
        xp = xa.namespace(margin)
        # Limits may be beyond single precision, and the spread of masked classes is not known.
        with np.errstate(over="ignore", invalid="ignore"):
            placed = xa.like(units, margin, margin.dtype)
            centre, spread, limit = placed[0, :], placed[1, :], placed[2, :]
            M = margin - centre
            M /= spread
        if -near < float(xp.min(margin)) and float(xp.max(margin)) < near:
            return [M], None
        right = (margin > 0) == xa.is_event(y, M.shape[1])
        counts = xp.isfinite(margin) & ((xp.abs(margin) <= limit) | ~right)
        return [xp.clip(xp.where(counts, M, 0.0), -LARGEST, LARGEST)], counts

    return standardized


def _warn_of_reversed_order(sigmoids: RowSigmoids, theta: Floats) -> None:
    """Warn of classes whose probability falls as their logit rises, by more than chance."""
    slope = theta[:, 0]
    if (slope >= 0).all():
        return
    (aa, ac), (_, cc) = sigmoids.derivatives(theta)[1].transpose(1, 2, 0)
    information = sigmoids.weight * np.maximum(aa - ac**2 / np.maximum(cc, SMALLEST_CURVATURE), 0)
    falling = np.flatnonzero((slope < 0) & (slope * np.sqrt(information) < -CLEARLY))
    if falling.size:
        # Two classes have a sigmoid of one or of both columns.
        first = f", the first for column {falling[0]} of X" if slope.size > 1 else ""
        warn(
            f"The slope of {falling.size} of {slope.size} sigmoids is negative, which reverses the "
            f"order of the rows{first}: on these rows the class is less frequent where its logit "
            "is larger. Check that the columns of X are in the order of the classes.",
            ReversedOrderWarning,
        )
