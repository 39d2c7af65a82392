"""The joint family: a linear map of the logits, then softmax, fitted by log loss."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax, softmax
from sklearn.exceptions import ConvergenceWarning

from ._base import BaseCalibrator, Floats, Indices
from ._minimise import (
    Coordinates,
    Objective,
    Rows,
    Scale,
    fit_scale,
    loss_gradient,
    minimise,
    total_weight,
)
from ._rows import both_columns

__all__ = ["TemperatureScaling", "VectorScaling"]

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
        message = _ENDED_AT_BOUND[scale.outcome].format(T=1 / scale.value)
        warnings.warn(message, ConvergenceWarning, stacklevel=4)
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
        (``temperature_`` is then at a bound relative to the spread of the logits), or constant
        logits (``temperature_`` is 1).
    UserWarning
        If ``X`` seems to hold probabilities, or ``y`` lacks classes that are taken for granted.

    Notes
    -----
    With :math:`b = 1/T` the log loss is convex, and its derivatives for a row are the mean of
    the logits under :math:`\hat p` less the logit of the label, and their variance under
    :math:`\hat p`. The temperature is the exact zero of the first, found by Newton's method
    from the answer on a sample of the rows. The answer scales with the logits:
    :math:`T(c z) = c\, T(z)`.

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

    def _fit(self, Z: Floats, y: Indices, w: Floats | None) -> dict[str, Any]:
        return {"temperature_": 1 / _fit_scale(Z, y, w).value}

    def _calibrate(self, Z: Floats) -> Floats:
        return Z / np.asarray(self.temperature_, Z.dtype)


@dataclass(frozen=True)
class VectorMap:
    """Scores ``a * F + c``, with parameters ``(a, c)``, or ``a`` alone."""

    fit_intercept: bool = True

    def scores(self, theta: Floats, Z: Floats, out: Floats | None = None) -> Floats:
        """Scores (m, K) of features ``Z`` (m, K)."""
        K = Z.shape[1]
        out = np.multiply(Z, theta[:K], out=out)
        if self.fit_intercept:
            out += theta[K:]
        return out

    def adjoint(self, R: Floats, Z: Floats) -> Floats:
        """Sum over the rows of what ``R`` (m, K) says on each parameter."""
        slopes = np.einsum("ij,ij->j", R, Z)
        return np.concatenate([slopes, R.sum(axis=0)]) if self.fit_intercept else slopes


def _whitened(objective: Objective) -> Coordinates:
    """Parameters of a vector map in which the Hessian at the centre has unit blocks per class.

    The block of class k is the Hessian by ``(a_k, c_k)``, the mean of
    ``p (1 - p) [[f^2, f], [f, 1]]`` with the probability p and the feature f of that class.
    """
    theta, rows = objective.centre, objective.rows
    n_kinds = 1 + (len(theta) > rows.n_classes)

    def block(F: Floats, _: Indices, w: Floats | None) -> Floats:
        # In double precision, so that rounding does not make a block indefinite.
        F = F.astype(np.float64)
        P = softmax(objective.map_.scores(theta, F), axis=1)
        P -= P**2
        if w is not None:
            P *= w[:, None]
        PF = P * F
        return np.stack([np.einsum("ij,ij->j", PF, F), PF.sum(axis=0), P.sum(axis=0)])

    aa, ac, cc = rows.mean(block, scratch=0)
    hessian = np.array([[aa, ac], [ac, cc]]).transpose(2, 0, 1)[:, :n_kinds, :n_kinds]
    # Classes that hardly occur have hardly any curvature; steps along it need not be large.
    floor = 2 * np.max(objective.ridge) + 1e-6 * np.max(hessian) + 1e-12
    root = np.linalg.inv(np.linalg.cholesky(hessian + floor * np.eye(n_kinds)))

    def forward(u: Floats) -> Floats:
        return np.einsum("kij,ik->jk", root, u.reshape(n_kinds, -1)).ravel()

    def transposed(g: Floats) -> Floats:
        return np.einsum("kij,jk->ik", root, g.reshape(n_kinds, -1)).ravel()

    return Coordinates(forward, transposed)


class VectorScaling(BaseCalibrator):
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

    coef_: Floats
    intercept_: Floats
    temperature_: float
    loss_: float
    n_iter_: int

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

    def _fit(self, Z: Floats, y: Indices, w: Floats | None) -> dict[str, Any]:
        strength = _check_search(self.alpha, self.max_iter, self.tol)
        temperature = _fit_scale(Z, y, w)
        scale = temperature.value
        rows = Rows(Z, y, w, scale)
        if self.normalize:
            rows = Rows.of_log_probabilities(Z, y, w, scale)
        K = max(Z.shape[1], 2)
        identity = np.repeat([1.0, 0.0] if self.fit_intercept else [1.0], K)
        objective = Objective(
            VectorMap(self.fit_intercept), rows, identity, strength * K / total_weight(y, w)
        )
        theta, n_iter = identity, 0
        if temperature.outcome != "separable":  # else all is right as it is, or never will be
            theta, n_iter = _fit_map(objective, _whitened(objective), self.tol, self.max_iter)
        return {
            "coef_": theta[:K] * (1.0 if self.normalize else scale),
            "intercept_": theta[K:] if self.fit_intercept else np.zeros(K),
            "temperature_": 1 / scale if self.normalize else 1.0,
            "loss_": loss_gradient(theta, objective.map_, rows)[0],
            "n_iter_": n_iter,
        }

    def _calibrate(self, Z: Floats) -> Floats:
        coef, intercept = self.coef_.astype(Z.dtype), self.intercept_.astype(Z.dtype)
        F = both_columns(Z / np.asarray(self.temperature_, Z.dtype))
        S = (log_softmax(F, axis=1) if self.normalize else F) * coef + intercept
        return S[:, 1:] - S[:, :1] if Z.shape[1] == 1 else S


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


def _fit_map(
    objective: Objective, coordinates: Coordinates, tol: float, max_iter: int
) -> tuple[Floats, int]:
    """Best parameters and number of iterations, starting from the centre of the ridge."""
    centre = objective.centre
    found = minimise(objective, centre, coordinates=coordinates, tol=tol, max_iter=max_iter)
    if not found.success:
        warnings.warn(
            f"The fit stopped after {found.nit} iterations at a gradient of norm "
            f"{np.linalg.norm(found.jac):.1e}, above tol={tol:g}. Increase max_iter or alpha: "
            "without a ridge (alpha=0) separable rows have no optimum.",
            ConvergenceWarning,
            stacklevel=4,
        )
    return found.x, found.nit
