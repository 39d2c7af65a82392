"""Calibration with noisy labels: probabilities of the true class from labels with errors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_softmax
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from skcalib._fits import fit_to_rows, log_probabilities
from skcalib._input.column_order import check_column_names
from skcalib._input.estimators import check_calibrator, check_order
from skcalib._rows import Rows
from skcalib._typing import ArrayLike, Floats
from skcalib._warnings import NotConvergedWarning, ProbabilitiesWarning, give, recorded, warn
from skcalib.base import BaseCalibrator, both_columns
from skcalib.scaling import TemperatureScaling

# The fit ends if no posterior changes by more than TOLERANCE, or after MAX_ITERATIONS fits. It has
# converged if the last change is at most LARGEST_CHANGE, the error of the inner fits.
TOLERANCE, MAX_ITERATIONS, LARGEST_CHANGE = 1e-12, 500, 1e-4

# Smallest divisor and argument of a logarithm.
SMALLEST = float(np.finfo(np.float64).tiny)


class NoisyLabelCalibration(BaseCalibrator):
    r"""Calibration with labels that are wrong in some rows.

    A row in class :math:`k` has the label :math:`\tilde y = j` with probability :math:`Q_{kj}`,
    independent of the logits. The calibrator predicts the probability
    :math:`\hat p(z)` of the true class. The fit minimizes the log loss of the observed labels [1]_,

    .. math:: -\sum_i w_i \log \sum_k \hat p_k(z_i)\, Q_{k \tilde y_i} .

    Parameters
    ----------
    calibrator : calibrator, default=None
        The calibrator, which is cloned. None means :class:`TemperatureScaling` with
        ``smoothing=0``.
    noise_matrix : array-like of shape (n_classes, n_classes), default=None
        The matrix :math:`Q`: a row for each true class, a column for each label, in the order of
        ``classes_``. Rows sum to one. None estimates the matrix together with the calibrator. With
        fewer than :math:`30 K^2` rows for K classes, a single share of wrong labels is estimated,
        and divided evenly among the other labels.
    classes : array-like of shape (n_classes,), default=None
        All labels in column order, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    calibrator_ : calibrator
        The fitted calibrator.
    noise_matrix_ : ndarray of shape (n_classes, n_classes)
        The matrix :math:`Q`, passed or estimated.
    n_iter_ : int
        Number of fits of the calibrator.
    classes_ : ndarray of shape (n_classes,)
        Labels in column order.
    n_features_in_ : int
        Number of columns in ``X`` during ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Column names, if ``X`` had string names.

    Warns
    -----
    UserWarning
        If the calibrator warns, and as for :class:`TemperatureScaling`.
    ConvergenceWarning
        If the fit does not converge.

    See Also
    --------
    PriorShift : Other class priors, with correct labels.

    Notes
    -----
    The fit is expectation maximization with extrapolated steps [2]_: each row is repeated for each
    class, weighted by the posterior probability of the class given the logits and the label. Ten
    pseudo-rows with the uncalibrated probabilities keep fits to few rows stable.

    A matrix can be estimated if the calibrator has few parameters, or from rows that are almost
    certain. Isotonic regression explains noise as uncertainty. Pass the matrix if rows were
    labelled twice.

    ``fit`` raises a ValueError for an invalid or singular matrix, for a calibrator with folds, and
    if the copies need over 4 gigabytes. Dask collections with more than a million rows are sampled.

    References
    ----------
    .. [1] Patrini, Rozza, Krishna Menon, Nock, Qu, "Making Deep Neural Networks Robust to Label
       Noise: a Loss Correction Approach", CVPR 2017, the forward correction,
       `arXiv:1609.03683 <https://arxiv.org/abs/1609.03683>`_.
    .. [2] Varadhan, Roland, "Simple and Globally Convergent Methods for Accelerating the
       Convergence of Any EM Algorithm", Scandinavian Journal of Statistics 35, 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import TemperatureScaling
    >>> from skcalib.experimental import NoisyLabelCalibration
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(5000, 3, random_state=0)
    >>> rng = np.random.default_rng(0)
    >>> Q = np.array([[0.8, 0.2, 0.0], [0.0, 0.9, 0.1], [0.1, 0.1, 0.8]])
    >>> noisy = np.array([rng.choice(3, p=Q[k]) for k in y])
    >>> by_true = TemperatureScaling().fit(logits, y).temperature_
    >>> by_noisy = TemperatureScaling().fit(logits, noisy).temperature_
    >>> calibrator = NoisyLabelCalibration(noise_matrix=Q).fit(logits, noisy)
    >>> by_matrix = calibrator.calibrator_.temperature_
    >>> print(f"{by_true:.2f} {by_noisy:.2f} {by_matrix:.2f}")
    2.02 3.84 2.02
    """

    calibrator_: Any
    noise_matrix_: Floats
    n_iter_: int

    def __init__(
        self,
        calibrator: Any = None,
        *,
        noise_matrix: ArrayLike | None = None,
        classes: ArrayLike | None = None,
    ) -> None:
        self.classes = classes
        self.calibrator = calibrator
        self.noise_matrix = noise_matrix

    def _fit(self, rows: Rows) -> dict[str, Any]:
        calibrator = TemperatureScaling(smoothing=0) if self.calibrator is None else self.calibrator
        n_classes = max(rows.n_columns, 2)
        matrix: Any = self.noise_matrix
        Q = None if matrix is None else _check_noise_matrix(matrix, n_classes)
        if hasattr(matrix, "columns"):
            check_column_names(matrix, rows.classes, "noise_matrix")
            check_column_names(matrix.T, rows.classes, "noise_matrix.T")
        check_calibrator(calibrator, np.ones(1))
        check_order(calibrator, rows.classes)
        if makes_folds(calibrator):
            raise ValueError(
                "calibrator must have no folds, which would divide the copies of a row, got "
                f"{type(calibrator).__name__}. Pass a calibrator such as VectorScaling()."
            )
        rows = rows.in_memory()
        Z = _subtract_maxima(rows.X.astype(np.float64))
        em = _Iteration(calibrator, Rows(Z, rows.y, rows.w, classes=rows.classes), Q)
        state, n_iter = _fixed_point(em)
        give([("", state.messages)])
        return {"calibrator_": state.calibrator, "noise_matrix_": state.Q, "n_iter_": n_iter}

    def _calibrate(self, Z: Floats) -> Floats:
        L = log_probabilities(self.calibrator_, _subtract_maxima(Z), self.classes_)
        return L[:, 1:] - L[:, :1] if Z.shape[1] == 1 else L


def makes_folds(calibrator: Any) -> bool:
    """Return whether ``fit``, or the ``fit`` of a pipeline step, divides rows among folds."""
    if isinstance(calibrator, Pipeline):
        return any(makes_folds(step) for _, step in calibrator.steps)
    ignores_groups = getattr(type(calibrator), "fit", None) is BaseCalibrator.fit
    return not ignores_groups and has_fit_parameter(calibrator, "groups")


def _subtract_maxima(Z: Floats) -> Floats:
    """Subtract the maximum of each row from logits (n, K), so that no constant is large."""
    return Z - np.max(Z, axis=1, keepdims=True) if Z.shape[1] > 1 else Z


def _check_noise_matrix(matrix: Any, K: int) -> Floats:
    """Return the noise matrix (K, K) with rows that sum to one, or raise a ValueError."""
    Q, tolerance = np.asarray(matrix), 1e-3
    condition, got = "", f"an array of shape {Q.shape} of {Q.dtype}"
    if Q.shape != (K, K) or Q.dtype.kind not in "iuf":
        condition = f"numbers of shape {K, K}, a row for each class"
    elif not (np.isfinite(Q).all() and Q.min() >= 0):
        condition, got = "non-negative numbers", f"values from {Q.min():g} to {Q.max():g}"
    elif (np.abs(Q.sum(axis=1) - 1) > tolerance).any():
        condition, got = "rows that sum to one", f"sums {Q.sum(axis=1)!s:.80}"
        if (np.abs(Q.sum(axis=0) - 1) <= tolerance).all():
            got += (
                ", and columns that do. Rows are true classes: pass its transpose, noise_matrix.T"
            )
    elif np.linalg.cond(Q) > 1e6:
        condition, got = "an inverse, or labels do not tell classes apart", "a singular matrix"
    if condition:
        raise ValueError(
            f"noise_matrix must have {condition}, got {got}. Entry [k, j] is the probability of "
            "the label j in rows of class k; None estimates it."
        )
    return Q / Q.sum(axis=1, keepdims=True, dtype=np.float64)


class _State(NamedTuple):
    """Fit, joint log-probabilities (n, K) of class and observed label, and the observed loss."""

    calibrator: Any
    Q: Floats
    S: Floats
    loss: float
    messages: Any


class _Iteration(NamedTuple):
    """Iteration of EM, from scores ``S`` (n, K): their softmax is the posterior."""

    calibrator: Any
    rows: Rows
    noise_matrix: Floats | None  #: (K, K), or None to estimate it

    def start(self) -> _State:
        """Iterate from uncalibrated logits and the matrix, or a fifth of wrong labels."""
        L = log_softmax(both_columns(self.rows.X), axis=1)
        Q = _symmetric(0.2, L.shape[1]) if self.noise_matrix is None else self.noise_matrix
        return self(self._scores(L, Q))

    def __call__(self, S: Floats) -> _State:
        P, w = np.exp(log_softmax(S, axis=1)), self._weights()
        with recorded(ProbabilitiesWarning) as messages:
            fitted = fit_to_rows(self.calibrator, self._copies(P))
        Q = self._estimated_noise(P) if self.noise_matrix is None else self.noise_matrix
        S = self._scores(log_probabilities(fitted, self.rows.X, self.rows.classes), Q)
        return _State(fitted, Q, S, -float(w @ np.logaddexp.reduce(S, axis=1)), messages)

    def _weights(self) -> Floats:
        """Return the weights of the rows (n,)."""
        return np.ones(len(self.rows.y)) if self.rows.w is None else self.rows.w

    def _scores(self, L: Floats, Q: Floats) -> Floats:
        """Add log-probabilities (n, K) of the classes and of the observed label in each class."""
        return L + np.log(np.maximum(Q, SMALLEST)).T[self.rows.y]

    def _copies(self, P: Floats) -> Rows:
        """Copy each row once for each class, with its posterior ``P`` (n, K) as weight.

        Ten pseudo-rows in total shrink the calibrator towards the uncalibrated probabilities.
        """
        rows, w = self.rows, self._weights()
        uncalibrated = np.exp(log_softmax(both_columns(rows.X).astype(np.float64), axis=1))
        share = P + uncalibrated * 10.0 / w.sum()
        i, k = np.nonzero(share > 1e-12)  # others would not change the fit
        largest = 5 * 10**8  # logits of 4 gigabytes
        if len(i) * P.shape[1] > largest:
            raise ValueError(
                "Copies of rows, one for each possible class, must have at most "
                f"{largest:g} logits in total, got {len(i)} copies of {len(P)} rows with "
                f"{P.shape[1]} classes. Fit to fewer rows."
            )
        return Rows(rows.X[i], k, w[i] * share[i, k], classes=rows.classes)

    def _estimated_noise(self, P: Floats) -> Floats:
        """Estimate the noise matrix (K, K) from the posterior ``P`` (n, K).

        With fewer than 30 rows per entry only one share of wrong labels is estimated. With more
        rows, one pseudo-row for each class shrinks the matrix towards that share.
        """
        K = P.shape[1]
        counts = (P * self._weights()[:, None]).T @ np.eye(K)[self.rows.y]
        Q = _symmetric(1 - np.trace(counts) / counts.sum(), K)
        if counts.sum() < 30 * counts.size:
            return Q
        counts += Q
        noise: Floats = counts / np.maximum(counts.sum(axis=1, keepdims=True), SMALLEST)
        return noise


def _symmetric(wrong: float, K: int) -> Floats:
    """Return the noise matrix (K, K) with the same share of wrong labels for all classes."""
    Q: Floats = np.where(np.eye(K) > 0, 1 - wrong, wrong / (K - 1))
    return Q


def _fixed_point(em: _Iteration) -> tuple[_State, int]:
    """Iterate EM to a fixed point, and return its state and the number of iterations.

    An extrapolation follows every two iterations, unless it raises the loss by more than a nat.
    """
    before, n, smallest, since = em.start(), 1, np.inf, 0
    while True:
        first = em(before.S)
        second = em(first.S)
        n += 2
        P, R = (np.exp(log_softmax(state.S, axis=1)) for state in (first, second))
        moved = float(np.abs(R - P).max())
        smallest, since = min(smallest, moved), 0 if moved < smallest else since + 1
        # Fits of trees never agree to the last digit, so the tolerance alone would not end them.
        stuck = since >= (10 if moved > LARGEST_CHANGE else 3)  # extrapolations without progress
        if n >= MAX_ITERATIONS or moved < TOLERANCE or stuck:
            break
        seen = np.isfinite(second.S)  # masked classes have no step
        step = np.where(seen, first.S, 0) - np.where(seen, before.S, 0)
        change = np.where(seen, second.S, 0) - np.where(seen, first.S, 0) - step
        size = np.sqrt((P * step**2).sum() / max((P * change**2).sum(), SMALLEST))
        size = np.clip(size, 1, 100)
        far = em(np.where(seen, before.S + 2 * size * step + size**2 * change, -np.inf))
        n += 1
        before = far if far.loss < second.loss + 1 else second
    if moved > LARGEST_CHANGE:
        warn(
            f"The fit to noisy labels did not converge in {n} fits of the calibrator. Pass "
            "noise_matrix, or choose a calibrator with fewer parameters.",
            NotConvergedWarning,
        )
    return second, n
