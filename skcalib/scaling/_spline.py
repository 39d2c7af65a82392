"""Spline calibration: one natural cubic spline of log-odds per class."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from skcalib._input.arrays import on_host
from skcalib._input.parameters import check_flag, check_integer
from skcalib._optimize.spline import Splines, evaluate, value_powers
from skcalib._optimize.strength import log_prior
from skcalib._rows import Rows, arrays, one_blas_thread
from skcalib._typing import ArrayLike, Floats
from skcalib._warnings import NotConvergedWarning, warn
from skcalib.base import IncreasingMap

from ._one_vs_rest import _OneVsRestScaling
from ._order_preserving import PRIOR_STRENGTH

# Candidate strengths for alpha="loo".
ALPHAS = np.array([30, 10, 3, 1, 0.3, 0.1, 0.03, 0.01, 0.003])

# Targets are mixed with 1/2 by TARGET_SHARE / (N + 1), so that separable rows have an optimum.
# Elsewhere the share is too small to matter.
TARGET_SHARE = 0.2


class SplineCalibration(IncreasingMap, _OneVsRestScaling):
    r"""Spline calibration: one natural cubic spline of log-odds per class.

    Temperature scaling comes first, mixed with the uniform distribution. A natural cubic spline
    :math:`s_k` maps the log-odds :math:`x_k` of class k,

    .. math:: \hat p_k = \sigma(s_k(x_k)), \qquad
        x_k = \log \frac{q_k}{1 - q_k}, \qquad
        q = (1 - \varepsilon)\, \mathrm{softmax}(z / T) + \varepsilon / K .

    The spline has J equally spaced knots :math:`t_{k1}, \dots, t_{kJ}`. It minimises the log loss
    of the event :math:`y = k` plus a roughness penalty, which shrinks it to a line, that is, to
    Platt scaling:

    .. math:: \frac1N \sum_i w_i\, \ell_i(s_k)
        + \frac{2 \alpha}{N} (t_{kJ} - t_{k1}) \int s_k''(x)^2 dx ,

    with N the total weight and K the number of classes. Rows are then divided by their sum,
    and mixed with the uniform distribution again. Two classes share one spline, for the second
    class. Beyond the outer knots splines are lines.

    Parameters
    ----------
    n_knots : int, default=10
        Number J of knots, at least 2. With 2 splines are lines.
    alpha : "loo" or float, default="loo"
        Regularization strength. With 1 the prior for the slope is a Brownian motion, with standard
        deviation 1/2 from the first knot to the last. "loo" chooses among nine strengths from 30 to
        0.003. It minimizes the summed leave-one-out log loss, estimated without refits [3]_, minus
        a log prior. The prior is log-normal with median 1 and a factor of 3 as standard deviation.
        0 is no penalty.
    increasing : bool, default=False
        Whether splines are non-decreasing: the slope is then a non-negative combination of
        quadratic B-splines [2]_, and splines keep the order of log-odds, up to ties.
    smoothing : float or "auto", default="auto"
        Share :math:`\varepsilon` of the uniform distribution in both mixtures. "auto" is
        :math:`1 / (N + 1)`. ``smoothing=0`` gives the plain map exactly, without any mixture.
    classes : array-like of shape (n_classes,), default=None
        All labels in column order, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    knots_ : ndarray of shape (n_classes, n_knots), or (1, n_knots) for two classes
        The knots, in log-odds.
    values_ : ndarray of the shape of ``knots_``
        Calibrated log-odds at the knots.
    temperature_ : float
        The temperature T.
    smoothing_ : float
        The share :math:`\varepsilon`.
    alpha_ : float
        The regularization strength :math:`\alpha`.
    alphas_ : ndarray of shape (n_alphas,)
        Strengths compared by ``alpha="loo"``, in decreasing order; else empty.
    loo_losses_ : ndarray of shape (n_alphas,)
        Their estimated leave-one-out log losses, summed over sigmoids, given the temperature and
        the knots.
    n_iter_ : int
        Number of passes over the rows after the temperature fit.
    classes_ : ndarray of shape (n_classes,)
        Labels in column order.
    n_features_in_ : int
        Number of columns in ``X`` during ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Column names, if ``X`` had string names.

    Warns
    -----
    ConvergenceWarning
        As :class:`TemperatureScaling`, but not for separable rows. Also if Newton's method does
        not converge.
    UserWarning
        As for :class:`TemperatureScaling`.

    Notes
    -----
    There are three differences from [1]_. The roughness is penalized, not all coefficients. The
    outer knots leave 2 % of the information :math:`p (1 - p)` on each side. Leave-one-out chooses
    the strength. Targets are 1 and 0, mixed with 1/2 by a share of :math:`0.2 / (N + 1)`, so that
    separable rows have an optimum.

    All strengths are compared on counts in 512 cells of log-odds, which needs one pass. Newton
    steps by :func:`scipy.optimize.minimize` with gradients from all rows then correct the fit at
    the chosen strength. With ``increasing`` the strength is chosen without that condition.

    References
    ----------
    .. [1] Lucena, "Spline-Based Probability Calibration", 2018,
       `arXiv:1809.07751 <https://arxiv.org/abs/1809.07751>`_.
    .. [2] Ramsay, "Monotone Regression Splines in Action", Statistical Science 3, 1988.
    .. [3] Rad, Maleki, "A Scalable Estimate of the Out-of-Sample Prediction Error via Approximate
       Leave-One-Out Cross-Validation", JRSS B 2020,
       `arXiv:1801.10243 <https://arxiv.org/abs/1801.10243>`_.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics import log_loss
    >>> from skcalib import PlattScaling, SplineCalibration
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(4000, 2, random_state=0)
    >>> bent = np.sinh(logits[:, 1:] - logits[:, :1])  # over-confident far from zero
    >>> X, X_test, y, y_test = bent[:2000], bent[2000:], y[:2000], y[2000:]
    >>> methods = PlattScaling().fit(X, y), SplineCalibration().fit(X, y)
    >>> losses = [log_loss(y_test, method.predict_proba(X_test)) for method in methods]
    >>> bool(losses[1] < losses[0])
    True
    """

    knots_: Floats
    values_: Floats
    alphas_: Floats
    loo_losses_: Floats
    n_iter_: int

    _options = ("loo",)

    def __init__(
        self,
        *,
        n_knots: int = 10,
        alpha: Literal["loo"] | float = "loo",
        increasing: bool = False,
        smoothing: Literal["auto"] | float = "auto",
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(alpha=alpha, smoothing=smoothing, classes=classes)  # type: ignore[arg-type]
        self.n_knots = n_knots
        self.increasing = increasing

    def _is_increasing(self) -> bool:
        return self.increasing

    def _fit(self, rows: Rows) -> dict[str, Any]:
        check_integer("n_knots", self.n_knots, low=2)
        check_flag("increasing", self.increasing)
        return super()._fit(rows)

    def _fit_maps(self, odds: Rows, _: float) -> dict[str, Any]:
        chosen = isinstance(self.alpha, str)
        alphas = ALPHAS if chosen else np.array([float(self.alpha)])
        with one_blas_thread:
            splines = Splines.of(odds, self.n_knots, TARGET_SHARE / (odds.weight + 1))
            starts, losses = splines.path(PRIOR_STRENGTH * alphas)
            best = int(np.argmin(losses - log_prior(alphas))) if chosen else 0
            alpha = float(alphas[best])
            result = splines.fit(PRIOR_STRENGTH * alpha, starts[best], increasing=self.increasing)
        n_passes = result.nfev + 1  # one is for the cells
        if not result.success:
            warn(
                f"Newton's method did not converge in {n_passes} passes over the rows. Increase "
                "alpha, or use fewer knots.",
                NotConvergedWarning,
            )
        return {
            "knots_": splines.knots(),
            "values_": splines.knot_values(result.x),
            "alpha_": alpha,
            "alphas_": alphas.copy() if chosen else np.empty(0),
            "loo_losses_": losses / odds.weight if chosen else np.empty(0),
            "n_iter_": n_passes,
        }

    def _scores(self, U: Floats) -> Floats:
        low, high = (
            arrays.to_library(self.knots_[:, 0], U),
            arrays.to_library(self.knots_[:, -1], U),
        )
        coefficients = value_powers(self.knots_.shape[1]) @ on_host(self.values_).T
        return evaluate((U - low) / (high - low), coefficients)
