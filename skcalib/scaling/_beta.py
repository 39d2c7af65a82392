"""Beta calibration: a sigmoid of two logarithms for each class."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from skcalib._optimize.logistic import Prior
from skcalib._rows import Rows, arrays
from skcalib._typing import Floats
from skcalib.base import IncreasingMap

from ._one_vs_rest import _OneVsRestScaling, fit_maps


class BetaCalibration(IncreasingMap, _OneVsRestScaling):
    r"""Beta calibration: a sigmoid of log p and log(1 - p) for each class, non-decreasing.

    The probability p of class k is mapped by

    .. math:: \hat p_k = \sigma\left(a_k \log 2 p - b_k \log 2 (1 - p) + c_k\right),
        \qquad a_k, b_k \ge 0 .

    The sigmoid's argument is a constant plus the log-likelihood ratio between two beta
    distributions. As a function of the log-odds, its slope is b at large log-odds and a at small
    log-odds, so that it can correct different errors near 0 and near 1. With a = b the map is Platt
    scaling, and with a = b = 1 and c = 0 the identity. Temperature scaling comes first, mixed with
    the uniform distribution. The log-odds are multiplied by the temperature again:

    .. math:: \log \frac{p}{1 - p} = T \log \frac{q_k}{1 - q_k}, \qquad
        q = (1 - \varepsilon)\, \mathrm{softmax}(z / T) + \varepsilon / K .

    The parameters minimise the log loss of the event :math:`y = k` plus a penalty that shrinks them
    to temperature scaling. Rows are then divided by their sum, and mixed with the uniform
    distribution. Two classes share one map, for the second class.

    Parameters
    ----------
    alpha : float, default=1.0
        Regularization strength: :math:`(a + b) T / 2` has a normal prior around 1, and
        :math:`(b - a) T` and c have normal priors around 0, all with variance :math:`1 / \alpha`.
        0 is the plain form of [1]_, which has no optimum for separable rows.
    smoothing : "auto" or float, default="auto"
        Share :math:`\varepsilon` of the uniform distribution in both mixtures, by default
        :math:`1 / (N + 1)`, with N the total weight. ``smoothing=0`` gives the plain map
        exactly: p are then the uncalibrated probabilities.
    classes : array-like of shape (n_classes,), default=None
        All labels in column order, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    a_ : ndarray of shape (n_classes,), or (1,) for two classes
        The coefficients a of log p: the slopes at small log-odds.
    b_ : ndarray of shape (n_classes,), or (1,) for two classes
        The coefficients b of log(1 - p): the slopes at large log-odds.
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
        Labels in column order.
    n_features_in_ : int
        Number of columns in ``X`` during ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Column names, if ``X`` had string names.

    Warns
    -----
    ConvergenceWarning
        If the logits are constant or no better than chance, as for :class:`TemperatureScaling`.
        With ``alpha=0``, if the map separates a class from the others, so that no optimum exists.
        The parameters are then large but finite. Also if Newton's method does not converge.
    UserWarning
        As for :class:`TemperatureScaling`.

    See Also
    --------
    QuadraticScaling : A quadratic function of the log-odds.
    PlattScaling : A linear function of the log-odds.

    Notes
    -----
    In [1]_ the offset is c plus :math:`(a - b) \log 2`. :func:`scipy.optimize.minimize` finds the
    minimum among :math:`a, b \ge 0` by a Newton method for all classes at once. Each iteration is
    one pass over the rows.

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
        # The prior shrinks (a + b) / 2 to 1, and b - a and c to 0.
        forms = np.array([[0.5, 0.5, 0], [-1, 1, 0], [0, 0, 1]])
        prior = Prior(np.array([1.0, 1, 0]), self.alpha * forms.T @ forms)
        low = np.array([0, 0, -np.inf])
        _, solution = fit_maps(odds, partial(_beta_features, temperature), prior, low)
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
    r"""Return :math:`\frac1T \log \cosh(T u / 2)`, or :math:`-\frac1{2T} \log 4 p (1 - p)`."""
    xp = arrays.namespace(U)
    distance = xp.abs(arrays.double(U))
    return xp.log1p(xp.expm1(-temperature * distance) / 2) / temperature + distance / 2


def _beta_features(temperature: float, U: Floats) -> list[Floats]:
    """Return the features (m, n_maps) that a and b multiply, times T."""
    bend = _bend(temperature, U)
    return [U / 2 - bend, U / 2 + bend]
