"""The joint family: a linear map of the logits, then softmax, fitted by log loss."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import OptimizeResult
from scipy.special import log_softmax
from sklearn.exceptions import ConvergenceWarning

from ._base import BaseCalibrator, Floats, Indices
from ._maps import MatrixMap, VectorMap
from ._minimise import Objective, Rows, raised, share_wrong
from ._rounds import best_parameters
from ._rows import both_columns, total_weight
from ._scale import Scale, fit_scale
from ._threads import with_one_blas_thread
from ._warn import warn

__all__ = ["MatrixScaling", "TemperatureScaling", "VectorScaling"]

_ENDED_AT_BOUND = {
    "separable": (
        "The log loss has no minimum: every row is classified correctly, or tied, so it falls "
        "all the way to the smallest temperature tried, {T:g}, where probabilities are 0 or 1. "
        "Calibrate on rows that the classifier was not trained on, or on more of them."
    ),
    "hopeless": (
        "The log loss has no minimum: on these rows the logits are no better than chance, so it "
        "falls all the way to the largest temperature tried, {T:g}, where all classes are "
        "equally probable. Check that the columns of X are in the order of the classes."
    ),
    "constant": (
        "The log loss has no minimum: the logits of each row are all equal, so every "
        "temperature gives the same probabilities. The temperature is set to {T:g}. Check X."
    ),
}


def _fit_scale(Z: Floats, y: Indices, w: Floats | None) -> Scale:
    """One over the temperature, with a warning where there is no best one."""
    scale = fit_scale(Z, y, w)
    if scale.outcome != "minimum":
        outcome = "separable" if scale.outcome == "tied" else scale.outcome
        message = _ENDED_AT_BOUND[outcome].format(T=1 / scale.value)
        warn(message, ConvergenceWarning)
    return scale


class TemperatureScaling(BaseCalibrator):
    r"""Temperature scaling: logits divided by one number.

    Fits the temperature :math:`T > 0` that minimises the log loss of

    .. math:: \hat p(y = k \mid z) = \mathrm{softmax}(z / T)_k .

    One parameter, so a few hundred rows are enough; the order of the classes in a row, and with
    it the accuracy, does not change. :math:`T > 1` lowers confidence, :math:`T < 1` raises it.

    Parameters
    ----------
    classes : array-like of shape (n_classes,), default=None
        All labels in the order of the columns of ``X``. Needed when ``y`` may lack some of
        them. By default the sorted labels in ``y``. Give them sorted if probabilities go to
        scikit-learn's own ``log_loss`` or ``roc_auc_score``, which take columns for sorted.

    Attributes
    ----------
    temperature_ : float
        The temperature :math:`T`.
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the columns.
    n_features_in_ : int
        Number of columns of ``X`` seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Names of the columns, where ``X`` had string names.

    Warns
    -----
    ConvergenceWarning
        If no temperature minimises the log loss: separable rows, rows no better than chance
        (``temperature_`` is then at a bound relative to the differences of the logits), or
        constant logits (``temperature_`` is 1).
    UserWarning
        If ``X`` seems to hold probabilities, or ``y`` lacks classes that are taken for granted.

    Notes
    -----
    With :math:`b = 1/T` the log loss is convex, and its derivatives for a row are the mean of
    the logits under :math:`\hat p` less the logit of the label, and their variance under
    :math:`\hat p`. The temperature is the exact zero of the first, found by Newton's method
    from the answer on a sample of the rows. It lies between exact bounds: the loss is at least
    ``b`` times the mean gap between the largest logit of a row and that of its label, and ``log K``
    at ``b = 0``. Masked classes and other logits far below the largest have no say in them. The
    answer scales with the logits: :math:`T(c z) = c\, T(z)`.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", ICML 2017,
       `arXiv:1706.04599 <https://arxiv.org/abs/1706.04599>`_, section 4.2.

    Examples
    --------
    >>> from skcalib import TemperatureScaling
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(20_000, 10, temperature=2.0, random_state=0)
    >>> calibrator = TemperatureScaling().fit(logits, y)
    >>> round(calibrator.temperature_, 1)
    2.0
    >>> calibrator.predict_proba(logits[:3]).shape
    (3, 10)
    """

    temperature_: float

    def _weights_are_relative(self) -> bool:
        return True

    def _fit(self, Z: Floats, y: Indices, w: Floats | None) -> dict[str, Any]:
        return {"temperature_": 1 / _fit_scale(Z, y, w).value}

    def _calibrate(self, Z: Floats) -> Floats:
        return _divided(Z, self.temperature_)


def _divided(Z: Floats, temperature: float) -> Floats:
    """Logits divided by a temperature, which a number of their precision may not hold."""
    limits = np.finfo(Z.dtype)
    if limits.tiny <= temperature <= limits.max:
        return Z / np.asarray(temperature, Z.dtype)
    return (Z.astype(np.float64) / temperature).astype(Z.dtype)


class _LinearScaling(BaseCalibrator):
    """What vector and matrix scaling share: a linear map, fitted around temperature scaling."""

    # The map of a fitted calibrator, whose offsets may be zero.
    _fitted_map: ClassVar[VectorMap | MatrixMap]

    alpha: Literal["auto"] | float
    normalize: bool
    max_iter: int
    tol: float
    coef_: Floats
    intercept_: Floats
    temperature_: float
    normalize_: bool
    loss_: float
    n_iter_: int

    @abstractmethod
    def _map(self) -> VectorMap | MatrixMap:
        """The map from features to scores."""

    def _fit(self, Z: Floats, y: Indices, w: Floats | None) -> dict[str, Any]:
        strength = _check_search(self.alpha, self.max_iter, self.tol)
        temperature = _fit_scale(Z, y, w)
        scale = temperature.value
        make_rows = Rows.of_log_probabilities if self.normalize else Rows.of_scores
        rows = make_rows(Z, y, w, scale)
        K, map_ = rows.n_classes, self._map()
        ridge = strength / total_weight(y, w) * map_.ridge(K)
        objective = Objective(map_, rows, map_.identity(K), ridge)
        settled = temperature.outcome == "separable"
        # Offsets that break ties run off to where probabilities are 0 or 1, unless they are held.
        if settled or (temperature.outcome == "tied" and strength == 0):
            fun, _ = objective.in_double().value_gradient(objective.centre)
            found = OptimizeResult(x=objective.centre, fun=fun, nit=0)
        else:
            found = with_one_blas_thread(_search, map_, objective, self.tol, self.max_iter)
        coef, intercept = map_.coefficients(found.x, K)
        return {
            "coef_": coef * (1.0 if self.normalize else scale),
            "intercept_": intercept,
            "temperature_": 1 / scale if self.normalize else 1.0,
            "normalize_": bool(self.normalize),
            "loss_": found.fun - objective.penalty(found.x),
            "n_iter_": int(found.nit),
        }

    def _calibrate(self, Z: Floats) -> Floats:
        theta = np.concatenate([self.coef_.ravel(), self.intercept_]).astype(Z.dtype)
        F = both_columns(_divided(Z, self.temperature_))
        if self.normalize_:
            F = raised(log_softmax(F, axis=1))
        S = self._fitted_map.scores(theta, F)
        return S[:, 1:] - S[:, :1] if Z.shape[1] == 1 else S


class VectorScaling(_LinearScaling):
    r"""Vector scaling: a slope and an offset for the logit of each class.

    Temperature scaling comes first; then, on the log-probabilities :math:`l = \log
    \mathrm{softmax}(z / T)` that it gives, the slopes :math:`a` and offsets :math:`c` of

    .. math:: \hat p(y = k \mid z) = \mathrm{softmax}(a \circ l + c)_k

    are those that minimise the log loss plus a ridge towards :math:`a = 1, c = 0`,

    .. math:: \frac1N \sum_i w_i\, \ell_i(a, c)
        + \alpha \frac{K}{N} \left( \|a - 1\|^2 + \|c\|^2 \right),

    with N the sum of the weights and K the number of classes. It repairs what temperature scaling
    cannot, a class that is given too often; the ridge keeps it from fitting noise where rows are
    few, and vanishes as they become many.

    Parameters
    ----------
    alpha : "auto" or float, default="auto"
        Strength of the ridge, 1 by default. 0 is the plain form of [1]_, which has no optimum if
        the rows are separable.
    normalize : bool, default=True
        Whether to work on log-probabilities, so that a constant added to a row of logits changes
        nothing. False is the literal form :math:`\mathrm{softmax}(a \circ z + c)` of [1]_ on raw
        logits, with a ridge towards :math:`a = 1/T`.
    fit_intercept : bool, default=True
        Whether there are offsets. Without them each class has a temperature of its own.
    max_iter : int, default=100
        Largest number of iterations.
    tol : float, default=1e-5
        Norm of the gradient at which the fit is done.
    classes : array-like of shape (n_classes,), default=None
        All labels in the order of the columns of ``X``, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes,)
        The slopes :math:`a`.
    intercept_ : ndarray of shape (n_classes,)
        The offsets :math:`c`; zero without ``fit_intercept``.
    temperature_ : float
        The temperature T of the log-probabilities that the slopes multiply; 1 with
        ``normalize=False``, where they multiply the logits.
    loss_ : float
        Mean log loss on the calibration rows, without the ridge.
    normalize_ : bool
        Whether slopes and offsets are those of log-probabilities, as ``normalize`` in ``fit``.
    n_iter_ : int
        Number of iterations, each about one pass over the rows.
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the columns.
    n_features_in_ : int
        Number of columns of ``X`` seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Names of the columns, where ``X`` had string names.

    Warns
    -----
    ConvergenceWarning
        If the gradient does not come below ``tol``. The parameters are then the best that were
        found, never worse than temperature scaling. Also as :class:`TemperatureScaling`; where
        all rows are classified correctly, slopes and offsets are left alone.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", ICML 2017,
       `arXiv:1706.04599 <https://arxiv.org/abs/1706.04599>`_, section 4.2.
    .. [2] Berta, Holzmüller, Jordan, Bach, "Structured Matrix Scaling for Multi-Class
       Calibration", `arXiv:2511.03685 <https://arxiv.org/abs/2511.03685>`_.

    Examples
    --------
    >>> from sklearn.metrics import log_loss
    >>> from skcalib import TemperatureScaling, VectorScaling
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(2000, 3, offset=[0, 1, 2], random_state=0)
    >>> temperature = TemperatureScaling().fit(logits[:1000], y[:1000])
    >>> vector = VectorScaling().fit(logits[:1000], y[:1000])
    >>> losses = [log_loss(y[1000:], c.predict_proba(logits[1000:])) for c in (temperature, vector)]
    >>> losses[1] < losses[0]
    True
    """

    _fitted_map = VectorMap()

    def __init__(
        self,
        *,
        alpha: Literal["auto"] | float = "auto",
        normalize: bool = True,
        fit_intercept: bool = True,
        max_iter: int = 100,
        tol: float = 1e-5,
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(classes=classes)
        self.alpha = alpha
        self.normalize = normalize
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol

    def _map(self) -> VectorMap:
        return VectorMap(self.fit_intercept)


class MatrixScaling(_LinearScaling):
    r"""Matrix scaling: any linear map of the logits, and an offset for each class.

    Temperature scaling comes first; then, on the log-probabilities :math:`l = \log
    \mathrm{softmax}(z / T)` that it gives, the matrix :math:`A` and the offsets :math:`c` of

    .. math:: \hat p(y = k \mid z) = \mathrm{softmax}(A\, l + c)_k

    are those that minimise the log loss plus a ridge towards :math:`A = I, c = 0` that is
    stronger off the diagonal,

    .. math:: \frac1N \sum_i w_i\, \ell_i(A, c) + \alpha \frac KN R(A, c), \quad
        R = \sum_k (a_{kk} - 1)^2 + \|c\|^2 + (K - 1) \sum_{k \ne j} a_{kj}^2 ,

    with N the sum of the weights and K the number of classes. It repairs what vector scaling
    cannot, classes that are taken for each other. There are K (K + 1) parameters: without the
    ridge they need many times more rows than that.

    Parameters
    ----------
    alpha : "auto" or float, default="auto"
        Strength of the ridge, 1 by default. 0 is the plain form of [1]_, which has no optimum if
        a linear map can classify all rows correctly, and overfits if it nearly can.
    normalize : bool, default=True
        Whether to work on log-probabilities, so that a constant added to a row of logits changes
        nothing. False is the literal form :math:`\mathrm{softmax}(A z + c)` of [1]_ on raw
        logits, with a ridge towards :math:`A = I / T`.
    max_iter : int, default=200
        Largest number of iterations.
    tol : float, default=1e-5
        Norm of the gradient at which the fit is done.
    classes : array-like of shape (n_classes,), default=None
        All labels in the order of the columns of ``X``, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_classes)
        The matrix :math:`A`; row k holds what each log-probability adds to the score of class k.
    intercept_ : ndarray of shape (n_classes,)
        The offsets :math:`c`.
    temperature_ : float
        The temperature T of the log-probabilities that the matrix multiplies; 1 with
        ``normalize=False``, where it multiplies the logits.
    loss_ : float
        Mean log loss on the calibration rows, without the ridge.
    normalize_ : bool
        Whether slopes and offsets are those of log-probabilities, as ``normalize`` in ``fit``.
    n_iter_ : int
        Number of iterations, each about one pass over the rows.
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the columns.
    n_features_in_ : int
        Number of columns of ``X`` seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Names of the columns, where ``X`` had string names.

    Warns
    -----
    ConvergenceWarning
        If ``alpha=0`` and there is no optimum, because a map was found that classifies all rows
        correctly; or if the gradient does not come below ``tol``. The parameters are then the
        best that were found, never worse than temperature scaling. Also as
        :class:`TemperatureScaling`; where all rows are classified correctly as they are, the
        map is left alone.

    Notes
    -----
    Masked classes, logits of -inf, are refused, since the matrix mixes the logits of all classes.
    Log-probabilities below -1000 count as -1000. The objective is convex, and the fit ends where
    the norm of its gradient, in double precision, is below ``tol``. A fit takes time
    :math:`O(n K^2)` and holds some fifty arrays of the size of ``coef_``.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", ICML 2017,
       `arXiv:1706.04599 <https://arxiv.org/abs/1706.04599>`_, section 4.2.
    .. [2] Berta, Holzmüller, Jordan, Bach, "Structured Matrix Scaling for Multi-Class
       Calibration", `arXiv:2511.03685 <https://arxiv.org/abs/2511.03685>`_.

    Examples
    --------
    Logits in which a part of the third class has leaked into the second:

    >>> from sklearn.metrics import log_loss
    >>> from skcalib import MatrixScaling, VectorScaling
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(4000, 3, random_state=0)
    >>> logits[:, 1] += 0.5 * logits[:, 2]
    >>> vector = VectorScaling().fit(logits[:2000], y[:2000])
    >>> matrix = MatrixScaling().fit(logits[:2000], y[:2000])
    >>> losses = [log_loss(y[2000:], c.predict_proba(logits[2000:])) for c in (vector, matrix)]
    >>> losses[1] < losses[0]
    True
    """

    _fitted_map = MatrixMap()
    _takes_masked = False

    def __init__(
        self,
        *,
        alpha: Literal["auto"] | float = "auto",
        normalize: bool = True,
        max_iter: int = 200,
        tol: float = 1e-5,
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(classes=classes)
        self.alpha = alpha
        self.normalize = normalize
        self.max_iter = max_iter
        self.tol = tol

    def _map(self) -> MatrixMap:
        return MatrixMap()


def _check_search(alpha: Any, max_iter: Any, tol: Any) -> float:
    """Raise a ValueError for what cannot be; else the factor of the ridge."""
    if alpha != "auto" and not (_is_real(alpha) and 0 <= alpha < np.inf):
        raise ValueError(f"alpha must be 'auto' or a number of at least 0, got {alpha!r}.")
    if not isinstance(max_iter, Integral) or isinstance(max_iter, bool) or max_iter < 1:
        raise ValueError(f"max_iter must be an integer of at least 1, got {max_iter!r}.")
    if not (_is_real(tol) and 0 < tol < np.inf):
        raise ValueError(f"tol must be a positive number, got {tol!r}.")
    return 1.0 if alpha == "auto" else float(alpha)


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _search(
    map_: VectorMap | MatrixMap, objective: Objective, tol: float, max_iter: int
) -> OptimizeResult:
    """Best parameters, starting from the centre of the ridge, with a warning if not optimal."""
    found = best_parameters(map_, objective, tol, max_iter)
    plain, message = not np.any(objective.ridge), None
    if plain and not share_wrong(found.x, map_, objective.rows):
        message = (
            "The log loss has no minimum: a map was found that classifies every row correctly "
            f"(separable rows), and the loss, {found.fun:.1e} so far, falls for ever as it grows. "
            "Use alpha='auto' or another alpha above 0, or calibrate on more rows."
        )
    elif not found.success:
        length = np.linalg.norm(found.jac)
        limited = found.nit >= max_iter
        message = (
            f"The fit stopped after {found.nit} iterations at a gradient of norm {length:.1e}, "
            f"above tol={tol:g}{'' if limited else ', where no step lowers the objective'}. "
            f"Increase {'max_iter' if limited else 'tol'} or alpha"
            + (": without a ridge there is no optimum if some rows are separable." * plain or ".")
        )
    if message:
        warn(message, ConvergenceWarning)
    return found
