"""Linear maps after temperature scaling: vector scaling, matrix scaling, Dirichlet calibration."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.optimize import OptimizeResult

from skcalib._input.parameters import check_flag, check_integer, check_real, fitted_smoothing
from skcalib._optimize import temperature
from skcalib._optimize.linear import LinearLoss, log_features
from skcalib._optimize.maps import LOWEST_FEATURE, MatrixMap, Regularization, VectorMap
from skcalib._optimize.strength import Fit, choose_strength
from skcalib._rows import Rows, arrays, one_blas_thread
from skcalib._typing import ArrayLike, Floats
from skcalib._warnings import NoMinimumWarning, NotConvergedWarning, warn
from skcalib.base import BaseCalibrator


class _LinearScaling(BaseCalibrator):
    """Base class for linear maps after temperature scaling.

    Subclasses define the map and the penalty.
    """

    _on_device = True
    _fitted_map: ClassVar[VectorMap | MatrixMap]
    # Regularization strengths by name, with the strings that they accept.
    _strengths: ClassVar[dict[str, tuple[str, ...]]] = {"alpha": ("loo",)}

    alpha: Literal["auto", "loo"] | float
    smoothing: Literal["auto"] | float
    normalize: bool = True
    fit_intercept: bool = True
    max_iter: int
    tol: float
    coef_: Floats
    intercept_: Floats
    temperature_: float
    smoothing_: float
    normalize_: bool
    alpha_: float
    alphas_: Floats
    loo_losses_: Floats
    loss_: float
    n_iter_: int

    def _fit(self, rows: Rows) -> dict[str, Any]:
        self._check()
        strengths = [getattr(self, name) for name in self._strengths]
        is_plain = not any(strengths)
        smoothing = fitted_smoothing(self.smoothing, rows)
        scale = temperature.fit_inverse_temperature(rows, smoothing)
        temperature.warn_of_no_minimum(scale, penalized=not is_plain)
        b = scale.value
        if is_plain and scale.outcome == "no_better_than_chance":
            b /= temperature.SMALLEST_SCALE  # the map may reverse logits: gradients must not vanish
        loss = self._loss(rows, b, smoothing)
        rule = partial(self._regularization, loss.n_classes, rows.weight)
        alpha = 1.0 if isinstance(strengths[0], str) else float(strengths[0])
        best, fits = None, list[Fit]()
        with one_blas_thread:
            if "loo" in strengths:
                best, fits = choose_strength(loss, rule, self.tol, self.max_iter)
                alpha = best.alpha
            loss = loss.penalized_with(rule(alpha))
            if is_plain and scale.outcome == "separable":
                # Slopes, or offsets that break ties, would diverge: keep the identity.
                x = loss.identity
                solution = OptimizeResult(x=x, fun=loss.value_gradient(x)[0], nit=0)
            else:
                solution = self._minimize(loss, best)
        coef, intercept = loss.map_.coefficients(solution.x, loss.n_classes)
        penalty = loss.ridge @ (solution.x - loss.identity) ** 2
        return {
            "coef_": coef * (1.0 if self.normalize else b),
            "intercept_": intercept,
            "temperature_": 1 / b if self.normalize else 1.0,
            "normalize_": bool(self.normalize),
            "alpha_": alpha,
            "alphas_": np.array([fit.alpha for fit in fits]),
            "loo_losses_": np.array([fit.estimate for fit in fits]),
            "smoothing_": smoothing,
            "loss_": solution.fun - float(penalty),
            "n_iter_": int(solution.nit) + sum(fit.n_iter for fit in fits),
        }

    def _check(self) -> None:
        """Raise a ValueError for invalid parameters."""
        for name, options in self._strengths.items():
            check_real(name, getattr(self, name), closed=True, option=options)
        check_integer("max_iter", self.max_iter)
        check_real("tol", self.tol)
        check_flag("normalize", self.normalize)
        check_flag("fit_intercept", self.fit_intercept)

    def _regularization(self, K: int, weight: float, alpha: float) -> Regularization:
        """Return the penalty for K classes, rows with a total weight, and a strength."""
        return Regularization.rule(K, weight, alpha)

    def _loss(self, rows: Rows, b: float, smoothing: float) -> LinearLoss:
        """Return the unpenalized loss of the map on log-probabilities, or on logits times ``b``.

        Smoothed temperature scaling with temperature ``1 / b`` yields the log-probabilities.
        """

        def scaled(Z: Floats, *_: Any) -> Floats:
            F = arrays.both_columns(Z) * b
            lowest = F.max(axis=1, keepdims=True) + LOWEST_FEATURE  # for masked classes
            return np.where(np.isneginf(F), lowest, F)

        features = partial(log_features, 1 / b, smoothing) if self.normalize else scaled
        map_ = self._fitted_map if self.fit_intercept else VectorMap(fit_intercept=False)
        return LinearLoss(replace(map_, masked=rows.masked and self.normalize), rows.map(features))

    def _minimize(self, loss: LinearLoss, near: Fit | None) -> OptimizeResult:
        """Minimize the loss, from a fit that is ``near`` if there is one, and warn if it fails."""
        tol, start, blocks = self.tol, None, None
        if near is not None:
            start, blocks = near.theta, near.blocks
            # On few rows be exact, so that a weight of 2 equals the row twice to seven digits.
            tol = min(tol, 1e-9) if loss.is_small else tol
        solution = loss.minimize(tol, self.max_iter, start, blocks)
        solution.success = bool(np.linalg.norm(solution.jac) <= self.tol)
        if not (solution.success and loss.ridge.all()):
            _warn_unless_optimal(solution, loss, self.tol, self.max_iter)
        return solution

    def _calibrate(self, Z: Floats) -> Floats:
        F = arrays.both_columns(Z)
        if self.normalize_:
            Z = arrays.masked_logits(Z)
            F = temperature.log_mixture(self.temperature_, self.smoothing_, Z)
            F = arrays.namespace(F).clip(F, LOWEST_FEATURE, None)
        coef, intercept = (arrays.astype(a, F.dtype) for a in (self.coef_, self.intercept_))
        L = (F * coef if coef.ndim == 1 else F @ coef.T) + intercept
        return arrays.in_columns_of(Z, L)


def _warn_unless_optimal(
    solution: OptimizeResult, loss: LinearLoss, tol: float, max_iter: int
) -> None:
    """Warn if the parameters are not a minimizer, and say why.

    ``solution`` is the result for ``loss``; ``tol`` and ``max_iter`` were its limits.
    """
    # The ridge on the intercepts, the last parameters, does not count: they separate no rows.
    K = loss.n_classes
    is_plain = not loss.ridge[: max(K, len(loss.ridge) - K)].all()
    if is_plain and loss.has_no_errors(solution.x):
        warn(
            "The log loss has no minimum: a map was found that classifies every row correctly "
            f"(separable rows), and the loss, {solution.fun:.1e} so far, tends to zero as it "
            "grows. Use alpha=1.0 or another alpha above 0, or calibrate on more rows.",
            NoMinimumWarning,
            "separable by a map",
        )
    elif not solution.success:
        length = np.linalg.norm(solution.jac)
        limited = solution.nit >= max_iter
        where = "" if limited else ", where no step lowers the objective"
        why = ": with alpha=0 there is no optimum if some rows are separable" if is_plain else ""
        warn(
            f"The fit stopped after {solution.nit} iterations at a gradient of norm {length:.1e}, "
            f"above tol={tol:g}{where}. "
            f"Increase {'max_iter' if limited else 'tol'} or alpha{why}.",
            NotConvergedWarning,
            "max_iter" if limited else "tol",
        )


class VectorScaling(_LinearScaling):
    r"""Vector scaling: a slope and an offset for the logits of each class.

    Temperature scaling comes first, with log-probabilities
    :math:`l = \log \mathrm{softmax}(z / T)`. Slopes :math:`a` and offsets :math:`c` then yield

    .. math:: \hat p(y = k \mid z) = \mathrm{softmax}(a \circ l + c)_k .

    They minimise the log loss plus a ridge penalty, which shrinks them towards
    :math:`a = 1, c = 0`,

    .. math:: \frac1N \sum_i w_i\, \ell_i(a, c)
        + \alpha \frac{K}{N} \left( \|a - 1\|^2 + \|c\|^2 \right),

    with N the total weight and K the number of classes. Vector scaling repairs over-predicted
    classes, which temperature scaling cannot. With few rows the ridge penalty keeps it from fitting
    noise; with many rows the penalty vanishes.

    Parameters
    ----------
    alpha : "loo" or float, default="loo"
        Regularization strength, as a multiple of the rule above. "loo" tries 3, 1, 0.3 and so on to
        0.003. It stops when the summed leave-one-out log loss, estimated without refits [3]_, minus
        a log prior rises. It tries 10 if 1 is no better than 3. The prior is log-normal with median
        1 and a factor of 3 as standard deviation. A fixed number is two to three times as fast. 0
        is the plain form [1]_, which has no optimum if the rows are separable.
    smoothing : float or "auto", default="auto"
        Share :math:`\varepsilon` of the uniform distribution, mixed into the probabilities after
        temperature scaling and into the final probabilities. "auto" is :math:`1 / (N + 1)`.
        ``smoothing=0`` gives the plain map exactly, without any mixture.
    normalize : bool, default=True
        Whether to work on log-probabilities, so that a constant added to a row of logits changes
        nothing. False is the literal form :math:`\mathrm{softmax}(a \circ z + c)` [1]_ on raw
        logits, shrunk towards :math:`a = 1/T`.
    fit_intercept : bool, default=True
        Whether to fit offsets. Without offsets each class has its own temperature.
    max_iter : int, default=100
        Largest number of iterations.
    tol : float, default=1e-5
        The fit has converged if the gradient norm is at most ``tol``.
    classes : array-like of shape (n_classes,), default=None
        All labels in column order, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes,)
        The slopes :math:`a`.
    intercept_ : ndarray of shape (n_classes,)
        The offsets :math:`c`; zero without ``fit_intercept``.
    temperature_ : float
        The temperature T; 1 with ``normalize=False``, where the slopes multiply the logits.
    alpha_ : float
        The regularization strength, as a multiple of the rule.
    alphas_ : ndarray of shape (n_alphas,)
        Strengths compared by ``alpha="loo"``, in decreasing order; else empty.
    loo_losses_ : ndarray of shape (n_alphas,)
        Their estimated leave-one-out log losses, given the temperature.
    loss_ : float
        Mean log loss on the calibration rows, without the ridge penalty and before the final
        mixture.
    smoothing_ : float
        The share :math:`\varepsilon` of the uniform distribution.
    normalize_ : bool
        Whether the slopes multiply log-probabilities: ``normalize`` during ``fit``.
    n_iter_ : int
        Number of iterations, each about one pass over the rows, summed over all strengths.
    classes_ : ndarray of shape (n_classes,)
        Labels in column order.
    n_features_in_ : int
        Number of columns in ``X`` during ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Column names, if ``X`` had string names.

    Warns
    -----
    ConvergenceWarning
        If the gradient norm does not fall to ``tol``. The parameters are then the best so far,
        never worse than temperature scaling. Also as :class:`TemperatureScaling`; for separable
        rows only with ``alpha=0``, when slopes and offsets stay 1 and 0.

    Notes
    -----
    :func:`scipy.optimize.minimize` minimizes the convex objective by a preconditioned L-BFGS,
    passed as its ``method``. The fit stops when the gradient norm is at most ``tol``.
    Log-probabilities are stored for up to four million logits; with more logits each pass computes
    them. Masked classes stay masked. With ``normalize=False`` the map acts on the raw logits, and
    only the final probabilities are mixed.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", ICML 2017,
       `arXiv:1706.04599 <https://arxiv.org/abs/1706.04599>`_, section 4.2.
    .. [2] Berta, Holzmüller, Jordan, Bach, "Structured Matrix Scaling for Multi-Class
       Calibration", `arXiv:2511.03685 <https://arxiv.org/abs/2511.03685>`_.
    .. [3] Rad, Maleki, "A Scalable Estimate of the Out-of-Sample Prediction Error via Approximate
       Leave-One-Out Cross-Validation", JRSS B 2020,
       `arXiv:1801.10243 <https://arxiv.org/abs/1801.10243>`_.

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
        alpha: Literal["loo"] | float = "loo",
        smoothing: Literal["auto"] | float = "auto",
        normalize: bool = True,
        fit_intercept: bool = True,
        max_iter: int = 100,
        tol: float = 1e-5,
        classes: ArrayLike | None = None,
    ) -> None:
        self.classes = classes
        self.alpha = alpha
        self.smoothing = smoothing
        self.normalize = normalize
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol


class MatrixScaling(_LinearScaling):
    r"""Matrix scaling: a linear map of the logits, with an offset for each class.

    Temperature scaling comes first, with log-probabilities
    :math:`l = \log \mathrm{softmax}(z / T)`. A matrix :math:`A` and offsets :math:`c` then yield

    .. math:: \hat p(y = k \mid z) = \mathrm{softmax}(A\, l + c)_k .

    They minimise the log loss plus a ridge penalty, which shrinks them towards
    :math:`A = I, c = 0`, more strongly off the diagonal,

    .. math:: \frac1N \sum_i w_i\, \ell_i(A, c) + \alpha \frac KN R(A, c), \quad
        R = \sum_k (a_{kk} - 1)^2 + \|c\|^2 + (K - 1)\, m \sum_{k \ne j} a_{kj}^2 ,

    with N the total weight, K the number of classes and :math:`m = \max(1, K (K - 1) / 2N)`.
    m exceeds 1 if there is less than one row for two entries off the diagonal. Matrix scaling
    repairs confused classes, which vector scaling cannot. Without regularization its K (K + 1)
    parameters need many times more rows.

    Parameters
    ----------
    alpha : "loo" or float, default="loo"
        Regularization strength, as a multiple of the rule above. "loo" tries 3, 1, 0.3 and so on to
        0.003. It stops when the summed leave-one-out log loss, estimated without refits [3]_, minus
        a log prior rises. It tries 10 if 1 is no better than 3. The prior is log-normal with median
        1 and a factor of 3 as standard deviation. A fixed number is two to three times as fast. 0
        is the plain form [1]_, which has no optimum if a linear map can classify all rows
        correctly, and overfits if it nearly can.
    smoothing : float or "auto", default="auto"
        Share :math:`\varepsilon` of the uniform distribution, mixed into the probabilities after
        temperature scaling and into the final probabilities. "auto" is :math:`1 / (N + 1)`.
        ``smoothing=0`` gives the plain map exactly, without any mixture.
    normalize : bool, default=True
        Whether to work on log-probabilities, so that a constant added to a row of logits changes
        nothing. False is the literal form :math:`\mathrm{softmax}(A z + c)` [1]_ on raw logits,
        shrunk towards :math:`A = I / T`.
    max_iter : int, default=200
        Largest number of iterations.
    tol : float, default=1e-5
        The fit has converged if the gradient norm is at most ``tol``.
    classes : array-like of shape (n_classes,), default=None
        All labels in column order, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_classes)
        The matrix :math:`A`; row k has the weights of all log-probabilities in class k.
    intercept_ : ndarray of shape (n_classes,)
        The offsets :math:`c`.
    temperature_ : float
        The temperature T; 1 with ``normalize=False``, where the matrix multiplies the logits.
    alpha_ : float
        The regularization strength, as a multiple of the rule.
    alphas_ : ndarray of shape (n_alphas,)
        Strengths compared by ``alpha="loo"``, in decreasing order; else empty.
    loo_losses_ : ndarray of shape (n_alphas,)
        Their estimated leave-one-out log losses, given the temperature.
    loss_ : float
        Mean log loss on the calibration rows, without the ridge penalty and before the final
        mixture.
    smoothing_ : float
        The share :math:`\varepsilon` of the uniform distribution.
    normalize_ : bool
        Whether the matrix multiplies log-probabilities: ``normalize`` during ``fit``.
    n_iter_ : int
        Number of iterations, each about one pass over the rows, summed over all strengths.
    classes_ : ndarray of shape (n_classes,)
        Labels in column order.
    n_features_in_ : int
        Number of columns in ``X`` during ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Column names, if ``X`` had string names.

    Warns
    -----
    ConvergenceWarning
        If ``alpha=0`` and a map classifies all rows correctly, so that no optimum exists; or if the
        gradient norm does not fall to ``tol``. The parameters are then the best so far, never worse
        than temperature scaling. Also as :class:`TemperatureScaling`; for separable rows only with
        ``alpha=0``, when the matrix stays the identity.

    Notes
    -----
    :func:`scipy.optimize.minimize` minimizes the convex objective by a preconditioned L-BFGS,
    passed as its ``method``. The fit stops when the gradient norm is at most ``tol``. It needs time
    :math:`O(n K^2)` and about fifty arrays as large as ``coef_``. Log-probabilities are stored for
    up to four million logits. Rows with masked classes, logits of -inf, are refused, since the
    matrix mixes all classes. With ``normalize=False`` the map acts on the raw logits, and only the
    final probabilities are mixed. Log-probabilities below -1000 count as -1000.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", ICML 2017,
       `arXiv:1706.04599 <https://arxiv.org/abs/1706.04599>`_, section 4.2.
    .. [2] Berta, Holzmüller, Jordan, Bach, "Structured Matrix Scaling for Multi-Class
       Calibration", `arXiv:2511.03685 <https://arxiv.org/abs/2511.03685>`_.
    .. [3] Rad, Maleki, "A Scalable Estimate of the Out-of-Sample Prediction Error via Approximate
       Leave-One-Out Cross-Validation", JRSS B 2020,
       `arXiv:1801.10243 <https://arxiv.org/abs/1801.10243>`_.

    Examples
    --------
    A part of the logit of the third class has leaked into the second:

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
        alpha: Literal["loo"] | float = "loo",
        smoothing: Literal["auto"] | float = "auto",
        normalize: bool = True,
        max_iter: int = 200,
        tol: float = 1e-5,
        classes: ArrayLike | None = None,
    ) -> None:
        self.classes = classes
        self.alpha = alpha
        self.smoothing = smoothing
        self.normalize = normalize
        self.max_iter = max_iter
        self.tol = tol


class DirichletCalibration(_LinearScaling):
    r"""Dirichlet calibration: a matrix map of log-probabilities, regularized off the diagonal.

    If the predicted probabilities within each class have a Dirichlet distribution, calibrated
    probabilities are the softmax of a linear map:

    .. math:: \hat p(y = k \mid z) = \mathrm{softmax}(W l + b)_k,
        \qquad l = \log \mathrm{softmax}(z / T) ,

    with the temperature T of temperature scaling. The matrix :math:`W` and the intercepts :math:`b`
    minimise the log loss with off-diagonal and intercept regularization (ODIR) [1]_,

    .. math:: \frac1N \sum_i w_i\, \ell_i(W, b)
        + \frac{\lambda}{K (K - 1)} \sum_{k \ne j} w_{kj}^2 + \frac{\mu}{K} \sum_k b_k^2
        + \delta \sum_k (w_{kk} - 1)^2 , \qquad \delta = \frac{K m}{10 N} ,

    with N the total weight, K the number of classes, and :math:`m = \max(1, K (K - 1) / 2N)`.
    The slopes on the diagonal are nearly free: the small strength :math:`\delta` ensures a minimum.
    The strength :math:`\lambda` is chosen from the data. With two classes this is beta calibration,
    with one slope for :math:`\log p`, one for :math:`\log (1 - p)`, and an intercept. The most
    probable class may change.

    Parameters
    ----------
    alpha : "loo", "auto" or float, default="loo"
        Regularization strength :math:`\lambda` off the diagonal. "auto" is
        :math:`K^2 (K - 1)^2 m / N`, the rule of :class:`MatrixScaling`. "loo" chooses a multiple of
        the rule by leave-one-out log losses, estimated without refits [3]_, and a prior, as
        :class:`MatrixScaling` does. 0 is no regularization.
    alpha_intercept : "auto", "loo" or float, default="auto"
        Regularization strength :math:`\mu` on the intercepts. "auto" is :math:`K^2 / N`, and "loo"
        chooses a multiple as for ``alpha``: the same multiple if both are chosen.
    smoothing : float or "auto", default="auto"
        Share :math:`\varepsilon` of the uniform distribution, mixed into the probabilities after
        temperature scaling and into the final probabilities. "auto" is :math:`1 / (N + 1)`.
        ``smoothing=0`` gives the plain map exactly, without any mixture.
    max_iter : int, default=200
        Largest number of iterations.
    tol : float, default=1e-5
        The fit has converged if the gradient norm is at most ``tol``.
    classes : array-like of shape (n_classes,), default=None
        All labels in column order, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_classes)
        The matrix :math:`W`; row k has the weights of all log-probabilities in class k.
    intercept_ : ndarray of shape (n_classes,)
        The intercepts :math:`b`.
    temperature_ : float
        The temperature T.
    alpha_ : float
        The strength :math:`\lambda`.
    alpha_intercept_ : float
        The strength :math:`\mu`.
    alphas_ : ndarray of shape (n_alphas, 2)
        Pairs (:math:`\lambda`, :math:`\mu`) compared by "loo", in decreasing order; else empty.
    loo_losses_ : ndarray of shape (n_alphas,)
        Their estimated leave-one-out log losses, given the temperature.
    loss_ : float
        Mean log loss on the calibration rows, without the penalties and before the final mixture.
    smoothing_ : float
        The share :math:`\varepsilon` of the uniform distribution.
    normalize_ : bool
        Whether the matrix multiplies log-probabilities: True, as in :class:`MatrixScaling`.
    n_iter_ : int
        Number of iterations, each about one pass over the rows, summed over all strengths.
    classes_ : ndarray of shape (n_classes,)
        Labels in column order.
    n_features_in_ : int
        Number of columns in ``X`` during ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Column names, if ``X`` had string names.

    Warns
    -----
    ConvergenceWarning
        If the gradient norm does not fall to ``tol``. The parameters are then the best so far. If
        ``alpha`` is 0, also if a map classifies all rows correctly, so that no optimum exists. If
        ``alpha_intercept`` is 0 too, also as :class:`TemperatureScaling`.

    See Also
    --------
    MatrixScaling : The same map, with a penalty on all entries.

    Notes
    -----
    :class:`MatrixScaling` describes the fit by :func:`scipy.optimize.minimize`, the leave-one-out
    estimate, time, memory and masked classes, which are refused.

    There are three differences from [1]_. The features are log-probabilities after temperature
    scaling and smoothing, not the classifier's: naive Bayes, for example, predicts
    log-probabilities of -700, where a penalty has no meaning. The diagonal has the small penalty
    :math:`\delta`, since with 500 rows and 100 classes free slopes are worse than no calibration.
    If both strengths are 0, :math:`\delta` is 0 as well. The strengths are chosen from the data.

    References
    ----------
    .. [1] Kull, Perello-Nieto, Kängsepp, Silva Filho, Song, Flach, "Beyond temperature scaling:
       Obtaining well-calibrated multiclass probabilities with Dirichlet calibration", NeurIPS 2019,
       `arXiv:1910.12656 <https://arxiv.org/abs/1910.12656>`_.
    .. [2] Berta, Holzmüller, Jordan, Bach, "Structured Matrix Scaling for Multi-Class
       Calibration", `arXiv:2511.03685 <https://arxiv.org/abs/2511.03685>`_.
    .. [3] Rad, Maleki, "A Scalable Estimate of the Out-of-Sample Prediction Error via Approximate
       Leave-One-Out Cross-Validation", JRSS B 2020,
       `arXiv:1801.10243 <https://arxiv.org/abs/1801.10243>`_.

    Examples
    --------
    A naive Bayes classifier, which counts correlated features twice:

    >>> from sklearn.datasets import load_digits
    >>> from sklearn.metrics import log_loss
    >>> from sklearn.naive_bayes import BernoulliNB
    >>> from skcalib import DirichletCalibration, TemperatureScaling
    >>> X, y = load_digits(return_X_y=True)
    >>> X, y = X[y < 4] > 8, y[y < 4]
    >>> logits = BernoulliNB().fit(X[:200], y[:200]).predict_log_proba(X)
    >>> fitted = (c.fit(logits[200:460], y[200:460])
    ...           for c in (DirichletCalibration(), TemperatureScaling()))
    >>> losses = [log_loss(y[460:], c.predict_proba(logits[460:])) for c in fitted]
    >>> losses[0] < losses[1]
    True
    """

    _fitted_map = MatrixMap()
    _takes_masked = False

    alpha_intercept: Literal["auto", "loo"] | float
    alpha_intercept_: float
    _strengths = dict.fromkeys(("alpha", "alpha_intercept"), ("loo", "auto"))

    def __init__(
        self,
        *,
        alpha: Literal["auto", "loo"] | float = "loo",
        alpha_intercept: Literal["auto", "loo"] | float = "auto",
        smoothing: Literal["auto"] | float = "auto",
        max_iter: int = 200,
        tol: float = 1e-5,
        classes: ArrayLike | None = None,
    ) -> None:
        self.classes = classes
        self.alpha = alpha
        self.alpha_intercept = alpha_intercept
        self.smoothing = smoothing
        self.max_iter = max_iter
        self.tol = tol

    def _regularization(self, K: int, weight: float, alpha: float) -> Regularization:
        """Return the penalty, with ``alpha`` times the rule for strengths that are "loo"."""
        rule = Regularization.rule(K, weight)
        chosen = {"auto": rule, "loo": Regularization.rule(K, weight, alpha)}
        off, intercept = self.alpha, self.alpha_intercept
        is_plain = off == intercept == 0
        return Regularization(
            diagonal=0.0 if is_plain else 0.1 * rule.off_diagonal / (K - 1),
            off_diagonal=chosen[off].off_diagonal if isinstance(off, str) else off / (K * (K - 1)),
            intercept=chosen[intercept].intercept if isinstance(intercept, str) else intercept / K,
        )

    def _fit(self, rows: Rows) -> dict[str, Any]:
        fitted = super()._fit(rows)
        K = len(fitted["intercept_"])
        # Convert multiples of the rule to the units of alpha and alpha_intercept.
        multiples = np.append(fitted["alpha_"], fitted["alphas_"])
        rules = [self._regularization(K, rows.weight, alpha) for alpha in multiples.tolist()]
        used, *tried = [(r.off_diagonal * K * (K - 1), r.intercept * K) for r in rules]
        alphas = np.array(tried).reshape(-1, 2)
        names = "alpha_", "alpha_intercept_"
        return fitted | dict(zip(names, used, strict=True)) | {"alphas_": alphas}
