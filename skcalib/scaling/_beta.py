"""Beta calibration: a sigmoid of two logarithms for each class."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from skcalib._optimize.logistic import Prior
from skcalib._rows import Floats, Rows, arrays as xa

from ._one_vs_rest import _OneVsRestScaling, fit_maps


class BetaCalibration(_OneVsRestScaling):
    r"""Beta calibration: a sigmoid of log p and log(1 - p) for each class, never decreasing.

    For each class k, against all others, with probabilities p of the class,

    .. math:: \hat p_k = \sigma\left(a_k \log 2 p - b_k \log 2 (1 - p) + c_k\right),
        \qquad a_k, b_k \ge 0 .

    The argument of the sigmoid is a constant plus the log-likelihood ratio of two beta
    distributions. At large log-odds of p those of :math:`\hat p_k` have the slope b, at small ones
    the slope a, so that probabilities near 0 and near 1 may be wrong in different ways; with a = b
    it is Platt scaling, and with a = b = 1 and c = 0 nothing changes. The log-odds of p are those
    of temperature scaling, mixed with the uniform distribution, and multiplied by the temperature
    again:

    .. math:: \log \frac{p}{1 - p} = T \log \frac{q_k}{1 - q_k}, \qquad
        q = (1 - \varepsilon)\, \mathrm{softmax}(z / T) + \varepsilon / K .

    Parameters minimise the log loss of the event :math:`y = k` plus the penalty of a prior around
    temperature scaling. Rows are then divided by their sum, and mixed with the uniform
    distribution. Two classes take a single map, for the second of them.

    Parameters
    ----------
    alpha : float, default=1.0
        Regularization strength: that of independent standard normal priors of
        :math:`(a + b) T / 2` around 1, and of :math:`(b - a) T` and c around 0. With other numbers
        :math:`1 / \alpha` is the variance of the priors, and 0 is the plain form of [1]_, which
        has no optimum for separable rows.
    smoothing : "auto" or float, default="auto"
        Share :math:`\varepsilon` of the uniform distribution in both mixtures, by default
        :math:`1 / (N + 1)`, with N the sum of the weights. With 0 the p are the
        probabilities of ``X`` as they are.
    classes : array-like of shape (n_classes,), default=None
        All labels in the order of the columns of ``X``, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    a_ : ndarray of shape (n_classes,), or (1,) for two classes
        The coefficients a of the logarithms of p: the slopes at small log-odds.
    b_ : ndarray of shape (n_classes,), or (1,) for two classes
        The coefficients b of those of 1 - p: the slopes at large log-odds.
    intercept_ : ndarray of shape (n_classes,), or (1,) for two classes
        The offsets c: calibrated log-odds at p = 1/2.
    temperature_ : float
        The temperature T.
    smoothing_ : float
        The share :math:`\varepsilon`.
    alpha_ : float
        The regularization strength :math:`\alpha`.
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
        If the logits are constant or no better than chance, as for :class:`TemperatureScaling`.
        With ``alpha=0``, if a class has no optimum, because the map separates it from the others;
        its parameters are then large but finite. Also if Newton's method does not converge.
    UserWarning
        If weights sum to far less than the number of rows, and as for
        :class:`TemperatureScaling`.

    See Also
    --------
    QuadraticScaling : A quadratic function of the log-odds.
    PlattScaling : A linear function of the log-odds.

    Notes
    -----
    The offset of [1]_ is that of :math:`a \log p - b \log(1 - p)`, which is c with
    :math:`(a - b) \log 2` added. Fitted by :func:`scipy.optimize.minimize` among
    :math:`a, b \ge 0`, with a method of Newton's for all classes at once, whose iterations are one
    pass over the rows each.

    References
    ----------
    .. [1] Kull, Silva Filho, Flach, "Beta calibration: a well-founded and easily implemented
       improvement on logistic calibration for binary classifiers", AISTATS 2017.
    .. [2] Berta, Holzmüller, Jordan, Bach, "Structured Matrix Scaling for Multi-Class
       Calibration", `arXiv:2511.03685 <https://arxiv.org/abs/2511.03685>`_.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import BetaCalibration
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(5000, 2, temperature=1.0, random_state=0)
    >>> odds = logits[:, 1] - logits[:, 0]
    >>> under_confident_above_half = np.where(odds > 0, odds / 2, odds)[:, None]
    >>> calibrator = BetaCalibration().fit(under_confident_above_half, y)
    >>> bool(calibrator.b_ > 1.5 * calibrator.a_)
    True
    """

    a_: Floats
    b_: Floats
    intercept_: Floats
    n_iter_: int

    def _fit_maps(self, odds: Rows, temperature: float) -> dict[str, Any]:
        # Of half the sum of a and b around 1, and of their difference and c around 0.
        forms = np.array([[0.5, 0.5, 0], [-1, 1, 0], [0, 0, 1]])
        prior = Prior(np.array([1.0, 1, 0]), self.alpha * forms.T @ forms)
        low = np.array([0, 0, -np.inf])
        _, solution = fit_maps(odds, partial(_expand, temperature), prior, low)
        a, b, intercept = solution.x.T
        return {
            "alpha_": float(self.alpha),
            "a_": a / temperature,
            "b_": b / temperature,
            "intercept_": intercept,
            "n_iter_": solution.nfev + 1,  # one pass sums the weights
        }

    def _scores(self, U: Floats) -> Floats:
        mean, difference = (self.a_ + self.b_) / 2, self.b_ - self.a_
        T = self.temperature_
        return (T * difference) * _bend(T, U) + (T * mean) * U + self.intercept_


def _bend(temperature: float, U: Floats) -> Floats:
    r""":math:`\frac1T \log \cosh(T u / 2)`, which is :math:`-\frac1{2T} \log 4 p (1 - p)`."""
    xp = xa.namespace(U)
    distance = xp.abs(xa.double(U))
    return xp.log1p(xp.expm1(-temperature * distance) / 2) / temperature + distance / 2


def _expand(temperature: float, U: Floats) -> list[Floats]:
    """Features with the parameters a and b, times T."""
    bend = _bend(temperature, U)
    return [U / 2 - bend, U / 2 + bend]
