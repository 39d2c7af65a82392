"""Order-preserving scaling."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np
from scipy.optimize import OptimizeResult

from skcalib._input.parameters import check_integer, check_real, fitted_smoothing
from skcalib._optimize import temperature
from skcalib._optimize.linear import log_features
from skcalib._optimize.maps import LOWEST_FEATURE
from skcalib._optimize.piecewise import fit_slopes, piecewise
from skcalib._rows import Rows, arrays, one_blas_thread, thin
from skcalib._typing import ArrayLike, Floats, Indices
from skcalib._warnings import NotConvergedWarning, warn
from skcalib.base import BaseCalibrator

# Lower bound of the slopes, so that distinct logits remain distinct, up to rounding.
SMALLEST_SLOPE = 0.05

# Ridge strength times N for alpha=1: a normal prior with standard deviation 1/2.
PRIOR_STRENGTH = 2.0

# Share of log-probabilities below the first knot, and above the last.
TAIL_SHARE = 0.005

# Quantiles are computed from a histogram with N_LOG_CELLS cells between LOWEST_KNOT and 0. The
# quantile at level q is at least log(q / K).
N_LOG_CELLS, LOWEST_KNOT = 1024, -32.0

# Rows per slope in the sample that provides starting values.
ROWS_PER_SLOPE = 256


class OrderPreservingScaling(BaseCalibrator):
    r"""Order-preserving scaling: one increasing function of all log-probabilities.

    Temperature scaling comes first, mixed with the uniform distribution. An increasing, piecewise
    linear function f then maps the log-probabilities :math:`l`,

    .. math:: \hat p(y = k \mid z) = \mathrm{softmax}(f(l))_k, \qquad
        l_k = \log\left((1 - \varepsilon)\, \mathrm{softmax}(z / T)_k + \varepsilon / K\right).

    Its slopes :math:`b_0, \dots, b_J` between J knots minimise the log loss plus a ridge penalty,
    which shrinks them towards :math:`f(l) = l`,

    .. math:: \frac1N \sum_i w_i\, \ell_i(b) + \frac{2 \alpha}{N} \sum_j (b_j - 1)^2,
        \qquad b_j \ge 0.05,

    with N the total weight and K the number of classes. The function corrects small
    probabilities by another factor than large probabilities, which no linear map can: forests,
    naive Bayes and other classifiers with saturated or truncated outputs need this. The order of
    the classes within a row and the accuracy do not change. For two classes
    :math:`f(l_1) - f(l_0)` is an odd function of the margin.

    Parameters
    ----------
    n_knots : int, default=6
        Number of knots. 0 is temperature scaling with one more slope.
    alpha : float, default=1.0
        Regularization strength. With 1 each slope has a normal prior with mean 1 and standard
        deviation 1/2. With 0 there may be no optimum.
    smoothing : "auto" or float, default="auto"
        Share :math:`\varepsilon` of the uniform distribution in the mixture, by default
        :math:`1 / (N + 1)`: zero and nearly zero probabilities then differ little.
        ``smoothing=0`` gives the plain map exactly, on :math:`\log \mathrm{softmax}(z / T)`.
    classes : array-like of shape (n_classes,), default=None
        All labels in column order, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    knots_ : ndarray of shape (n_knots,)
        Log-probabilities :math:`l` where the slope changes, in increasing order.
    slopes_ : ndarray of shape (n_knots + 1,)
        The slopes :math:`b`: below the first knot, between neighbouring ones, above the last.
    temperature_ : float
        The temperature T.
    smoothing_ : float
        The share :math:`\varepsilon`.
    alpha_ : float
        The regularization strength :math:`\alpha`.
    classes_ : ndarray of shape (n_classes,)
        Labels in column order.
    n_features_in_ : int
        Number of columns in ``X`` during ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Column names, if ``X`` had string names.

    Warns
    -----
    ConvergenceWarning
        As :class:`TemperatureScaling`; for separable rows only if ``alpha=0``, when slopes are 1.
        Also if Newton's method does not converge.
    UserWarning
        As for :class:`TemperatureScaling`.

    Notes
    -----
    This is the diagonal form in [1]_, where neural networks are fitted by gradient descent.
    Piecewise linear functions with fixed knots are linear in their slopes, so the log loss is
    convex. :func:`scipy.optimize.minimize` minimizes it by a Newton method within bounds, in a few
    passes that sum the gradient and the Hessian.

    Knots are equally spaced between the 0.5 % and the 99.5 % quantiles of the log-probabilities,
    weighted by the probabilities. No knot is below :math:`\log(0.005 / K)`. The outermost segments
    continue beyond the knots. ``predict`` returns the class with the largest logit, even if
    rounding makes calibrated probabilities equal.

    References
    ----------
    .. [1] Rahimi, Shaban, Cheng, Hartley, Boots, "Intra Order-Preserving Functions for
       Calibration of Multi-Class Neural Networks", NeurIPS 2020,
       `arXiv:2003.06820 <https://arxiv.org/abs/2003.06820>`_.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics import log_loss
    >>> from skcalib import OrderPreservingScaling, TemperatureScaling
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(10_000, 10, random_state=0)
    >>> P = np.exp(logits)
    >>> P /= P.sum(axis=1, keepdims=True)
    >>> truncated = np.log(np.maximum(P, 0.02))  # small probabilities are lost
    >>> X, X_test, y, y_test = truncated[:5000], truncated[5000:], y[:5000], y[5000:]
    >>> methods = TemperatureScaling().fit(X, y), OrderPreservingScaling().fit(X, y)
    >>> losses = [log_loss(y_test, method.predict_proba(X_test)) for method in methods]
    >>> bool(losses[1] < losses[0])
    True
    """

    _keeps_order = True
    _has_class_parameters = False
    _on_device = True
    _is_smoothed = False  # the slopes, which follow the mixture, decide about small probabilities

    knots_: Floats
    slopes_: Floats
    temperature_: float
    alpha_: float
    smoothing_: float

    def __init__(
        self,
        *,
        n_knots: int = 6,
        alpha: float = 1.0,
        smoothing: Literal["auto"] | float = "auto",
        classes: ArrayLike | None = None,
    ) -> None:
        self.classes = classes
        self.n_knots = n_knots
        self.alpha = alpha
        self.smoothing = smoothing

    def _fit(self, rows: Rows) -> dict[str, Any]:
        check_integer("n_knots", self.n_knots, low=0)
        check_real("alpha", self.alpha, closed=True)
        alpha = float(self.alpha)
        smoothing = fitted_smoothing(self.smoothing, rows)
        scale = temperature.fit_inverse_temperature(rows, smoothing)
        mixed = partial(log_features, 1 / scale.value, smoothing)
        rows = rows.map(mixed)
        knots = _knots(rows, self.n_knots)
        temperature.warn_of_no_minimum(scale, penalized=alpha > 0)
        slopes = np.ones(len(knots) + 1)
        if alpha > 0 or scale.outcome != "separable":  # otherwise slopes would diverge
            result = _fit_slopes(knots, PRIOR_STRENGTH * alpha, rows)
            slopes = result.x[0]
            if not result.success:
                warn(
                    f"The fit stopped after {result.nfev} iterations, before it converged. "
                    "Increase alpha, or use fewer knots.",
                    NotConvergedWarning,
                )
        return {
            "knots_": knots,
            "slopes_": slopes,
            "temperature_": 1 / scale.value,
            "alpha_": alpha,
            "smoothing_": smoothing,
        }

    def _calibrate(self, Z: Floats) -> Floats:
        L = temperature.log_mixture(self.temperature_, self.smoothing_, arrays.masked_logits(Z))
        L = arrays.namespace(L).clip(L, LOWEST_FEATURE, None)
        return arrays.in_columns_of(Z, piecewise(L, self.knots_, self.slopes_))


def _knots(rows: Rows, n_knots: int) -> Floats:
    """Return equally spaced knots between two quantiles of the log-probabilities.

    Log-probabilities are weighted by their probabilities, as if these drew the labels.
    """
    shares = np.append(0, rows.sum(_histogram).cumsum())
    limits = np.linspace(LOWEST_KNOT, 0, N_LOG_CELLS + 1)
    low, high = np.interp([TAIL_SHARE, 1 - TAIL_SHARE], shares / shares[-1], limits)
    return np.linspace(low, high, n_knots + 2)[1:-1]


def _histogram(L: Floats, _: Indices, w: Floats | None) -> Floats:
    """Sum the weights of log-probabilities ``L`` (m, K) in equal cells from LOWEST_KNOT to 0."""
    L = L.astype(np.float64, copy=False)
    cells = N_LOG_CELLS - L * (N_LOG_CELLS / LOWEST_KNOT)
    cells = np.clip(cells, 0, N_LOG_CELLS - 1).astype(np.intp)
    P = np.exp(L) if w is None else np.exp(L) * w[:, None]
    return np.asarray(np.bincount(cells.ravel(), P.ravel(), N_LOG_CELLS), np.float64)


def _fit_slopes(knots: Floats, strength: float, rows: Rows) -> OptimizeResult:
    """Fit the slopes to rows of log-probabilities, starting from the slopes for a sample."""
    p = len(knots) + 1
    sample = thin(rows, ROWS_PER_SLOPE * p)
    start = np.ones(p) if sample is None else _fit_slopes(knots, strength, sample).x[0]
    with one_blas_thread:
        return fit_slopes(rows, knots, strength / rows.weight, start, SMALLEST_SLOPE)
