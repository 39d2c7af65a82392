"""Spline calibration: a natural cubic spline of the log-odds for each class."""

from typing import Any, Literal

import numpy as np

from skcalib._optimize.linear import ALPHAS, log_prior
from skcalib._optimize.spline import Splines, evaluate, powers_of_values
from skcalib._rows import ArrayLike, Floats, Rows, arrays as xa, with_one_blas_thread
from skcalib._validation.inputs import check_flag, check_integer
from skcalib._warnings import NotConvergedWarning, warn

from ._one_vs_rest import _OneVsRestScaling
from ._order_preserving import PRIOR_STRENGTH

# Targets are mixed with the uniform distribution by this share of 1 / (N + 1): enough for rows that
# a threshold separates, and too little to matter elsewhere.
TARGET_SHARE = 0.2


class SplineCalibration(_OneVsRestScaling):
    r"""Spline calibration: a natural cubic spline of the log-odds of each class.

    Temperature scaling comes first, mixed with the uniform distribution. Then, for each class k
    against all others, a natural cubic spline :math:`s_k` of the log-odds :math:`x_k` of the
    mixture,

    .. math:: \hat p_k = \sigma(s_k(x_k)), \qquad
        x_k = \log \frac{q_k}{1 - q_k}, \qquad
        q = (1 - \varepsilon)\, \mathrm{softmax}(z / T) + \varepsilon / K ,

    with J equally spaced knots :math:`t_{k1}, \dots, t_{kJ}`, is the one that minimises the log
    loss of the event :math:`y = k` plus a penalty on its roughness, which shrinks it towards
    a line, that is, towards Platt scaling:

    .. math:: \frac1N \sum_i w_i\, \ell_i(s_k)
        + \frac{2 \alpha}{N} (t_{kJ} - t_{k1}) \int s_k''(x)^2 dx ,

    with N the sum of the weights and K the number of classes. Rows are then divided by their sum,
    and mixed with the uniform distribution again. Two classes take a single spline, of the log-odds
    of the second. Beyond the outer knots splines are lines.

    Parameters
    ----------
    n_knots : int, default=10
        Number J of knots, at least 2. 2 gives lines.
    alpha : "loo" or float, default="loo"
        Regularization strength. With 1 the penalty is that of a normal prior of the
        slope of the spline, a Brownian motion with standard deviation 1/2 from the first knot to
        the last. "loo" takes that of nine from 30 to 0.003 with the least leave-one-out log loss,
        estimated without refits [3]_, and a log-normal prior about 1. 0 is no penalty.
    increasing : bool, default=False
        Whether splines have slopes that are nowhere negative, more precisely, a non-negative
        combination of quadratic B-splines as slope [2]_. They then keep the order of the
        log-odds of a class, up to ties.
    smoothing : float or "auto", default="auto"
        Share :math:`\varepsilon` of the uniform distribution that is mixed into the probabilities,
        before and after, as for :class:`VectorScaling`. "auto" is :math:`1 / (N + 1)`.
    classes : array-like of shape (n_classes,), default=None
        All labels in the order of the columns of ``X``, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    knots_ : ndarray of shape (n_classes, n_knots), or (1, n_knots) for two classes
        The knots, log-odds of each class.
    values_ : ndarray of the shape of ``knots_``
        Values of the splines at the knots, calibrated log-odds.
    temperature_ : float
        The temperature T.
    smoothing_ : float
        The share :math:`\varepsilon`.
    alpha_ : float
        The regularization strength :math:`\alpha`.
    alphas_ : ndarray of shape (n_alphas,)
        With ``alpha="loo"`` the strengths that were tried, in decreasing order; else empty.
    loo_losses_ : ndarray of shape (n_alphas,)
        Their estimated leave-one-out log losses, of all sigmoids together, given the temperature
        and the knots.
    n_iter_ : int
        Number of passes over the rows, without those for the temperature.
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the columns.
    n_features_in_ : int
        Number of columns of ``X`` seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Names of the columns, where ``X`` had string names.

    Warns
    -----
    ConvergenceWarning
        As :class:`TemperatureScaling`, but not for separable rows. Also if Newton's method does
        not converge.
    UserWarning
        If weights sum to far less than the number of rows, and as for
        :class:`TemperatureScaling`.

    Notes
    -----
    This is the spline calibration of [1]_ with another penalty, other knots and another choice of
    the strength: on the roughness instead of all coefficients, equally spaced between the log-odds
    that have 2 % of the information of the rows, the sum of :math:`p (1 - p)`, below and above
    them, and by leave-one-out instead of a held-out fold. Fitted by
    :func:`scipy.optimize.minimize` with a method of Newton's for all classes at once.

    Targets are 1 and 0, mixed with 1/2 by a share of :math:`0.2 / (N + 1)`, so that there is an
    optimum where a threshold separates a class from the others.

    All strengths are tried on counts in cells of the log-odds, which takes one pass. A weight of
    one is left out at a time, so that a weight of two is the row twice here as well. The prior of
    the strength has a standard deviation of log 3: estimates from a few hundred rows are uncertain,
    and without it they are followed too far. The fit at the strength that is chosen is then
    corrected by Newton steps with the gradient of all rows, until it has converged. With
    ``increasing`` the strength is chosen without that condition.

    For tensors on a device the temperature is fitted there and the splines on the host;
    probabilities are computed on the device, and differentiable.

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

    def _fit(self, rows: Rows) -> dict[str, Any]:
        check_integer("n_knots", self.n_knots, least=2)
        check_flag("increasing", self.increasing)
        return super()._fit(rows)

    def _fit_maps(self, odds: Rows, _: float) -> dict[str, Any]:
        return with_one_blas_thread(self._fit_splines, odds)

    def _fit_splines(self, odds: Rows) -> dict[str, Any]:
        splines = Splines.of(odds, self.n_knots, TARGET_SHARE / (odds.weight + 1))
        chosen = isinstance(self.alpha, str)
        alphas = ALPHAS if chosen else np.array([float(self.alpha)])
        starts, losses = splines.path(PRIOR_STRENGTH * alphas)
        best = int(np.argmin(losses - log_prior(alphas))) if chosen else 0
        alpha = float(alphas[best])
        found = splines.fit(PRIOR_STRENGTH * alpha, starts[best], increasing=self.increasing)
        n_passes = found.nfev + 1  # one is for the cells
        if not found.success:
            warn(
                f"Newton's method did not converge in {n_passes} passes over the rows. Increase "
                "alpha, or use fewer knots.",
                NotConvergedWarning,
            )
        return {
            "knots_": splines.knots(),
            "values_": splines.values_of(found.x),
            "alpha_": alpha,
            "alphas_": alphas.copy() if chosen else np.empty(0),
            "loo_losses_": losses / odds.weight if chosen else np.empty(0),
            "n_iter_": n_passes,
        }

    def _scores(self, U: Floats) -> Floats:
        low, high = xa.like(self.knots_[:, 0], U), xa.like(self.knots_[:, -1], U)
        coefficients = powers_of_values(self.knots_.shape[1]) @ xa.on_host(self.values_).T
        return evaluate((U - low) / (high - low), coefficients)
