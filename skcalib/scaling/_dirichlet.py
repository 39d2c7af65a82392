"""Dirichlet calibration."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from skcalib._optimize.maps import MatrixMap, Regularization
from skcalib._rows import Rows
from skcalib._typing import ArrayLike

from ._linear import _LinearScaling

# Regularization strength on the diagonal, divided by the strength in matrix scaling.
DIAGONAL = 0.1


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
        Gradient norm at which the fit has converged.
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

    def _regularization(self, K: int, weight: float, alpha: float = 1.0) -> Regularization:
        """Return the penalty, with ``alpha`` times the rule for strengths that are "loo"."""
        rule = Regularization.rule(K, weight)
        chosen = {"auto": rule, "loo": Regularization.rule(K, weight, alpha)}
        off, intercept = self.alpha, self.alpha_intercept
        strength = 0.0 if off == intercept == 0 else DIAGONAL
        return Regularization(
            strength * rule.off_diagonal / (K - 1),
            chosen[off].off_diagonal if isinstance(off, str) else off / (K * (K - 1)),
            chosen[intercept].intercept if isinstance(intercept, str) else intercept / K,
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
