"""Matrix scaling."""

from __future__ import annotations

from typing import Literal

from skcalib._optimize.maps import MatrixMap
from skcalib._typing import ArrayLike

from ._linear import _LinearScaling


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
        Gradient norm at which the fit has converged.
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
