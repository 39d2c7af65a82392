"""Ensemble temperature scaling."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax

from skcalib._base import BaseCalibrator, finite_unless_masked
from skcalib._engine.blocks import both_columns
from skcalib._engine.rows import Plan, Rows
from skcalib._linear.mixed import mix_logits, mixture
from skcalib._linear.simplex import MAX_PASSES, least_log_loss, least_quadratic
from skcalib._linear.temperature import fit_scale
from skcalib._typing import Floats, Indices
from skcalib._validation.parameters import check_option
from skcalib._validation.weights import warn_of_small_weights
from skcalib._warnings import NotConvergedWarning, warn

from ._temperature import _divided, _fitted_smoothing, _warn_of_no_minimum

__all__ = ["EnsembleTemperatureScaling"]

LOSSES = Literal["log_loss", "brier"]


class EnsembleTemperatureScaling(BaseCalibrator):
    r"""Ensemble temperature scaling: a mixture of scaled, uncalibrated and uniform probabilities.

    With the temperature T of temperature scaling, the probabilities are

    .. math:: \hat p(y = k \mid z) = \omega_1\, \mathrm{softmax}(z / T)_k
        + \omega_2\, \mathrm{softmax}(z)_k + \omega_3 / K ,

    where the weights :math:`\omega \ge 0` sum to one and minimise the log loss, or the Brier score,
    of the calibration rows. The order of the classes in a row, and with it the accuracy, does not
    change. It repairs what a temperature alone cannot: a classifier that is sometimes wrong however
    confident it is, for which every temperature is too high for most rows and too low for some.

    Parameters
    ----------
    loss : {"log_loss", "brier"}, default="log_loss"
        What the weights minimise. The temperature minimises the log loss in any case.
    smoothing : float or "auto", default="auto"
        Share :math:`\varepsilon` of the uniform distribution that is mixed into the result, as for
        :class:`TemperatureScaling`: it takes :math:`\varepsilon` of the first two weights, and adds
        it to the third. "auto" is :math:`1 / (N + 1)` with N the sum of the weights of the rows. 0
        is the plain form of [1]_, whose third weight may be 0.
    classes : array-like of shape (n_classes,), default=None
        All labels in the order of the columns of ``X``, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    temperature_ : float
        The temperature :math:`T`.
    weights_ : ndarray of shape (3,)
        The weights :math:`\omega` of scaled, uncalibrated and uniform probabilities, with
        ``smoothing``. They sum to one.
    smoothing_ : float
        The share :math:`\varepsilon`, which the third weight is at least.
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the columns.
    n_features_in_ : int
        Number of columns of ``X`` seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Names of the columns, where ``X`` had string names.

    Warns
    -----
    ConvergenceWarning
        If no temperature minimises the log loss, as :class:`TemperatureScaling`. If the weights do
        not converge.
    UserWarning
        As :class:`TemperatureScaling`.

    See Also
    --------
    TemperatureScaling : The same without the second member of the mixture.
    OrderPreservingScaling : Other increasing functions of all log-probabilities.

    Notes
    -----
    Given T both problems are convex. The log loss is minimised by Newton's method among weights
    that sum to one, from probabilities of labels that one pass over the logits computes. The fit
    ends where the duality gap, a bound on how far the log loss is above its minimum, is 1e-9, or
    where no step lowers it by more than rounding. The Brier score is quadratic in the weights, and
    its minimum is computed exactly from one pass. In [1]_ the temperature minimises the same loss
    as the weights, which is not convex for the Brier score.

    Where the temperature is near 1 the first two members are all but equal, and so the loss hardly
    depends on how their weights are divided, nor do the probabilities.

    The number K of classes is that of the row, without masked classes. ``transform`` returns
    logarithms of the mixture, or its log-odds for a single column. ``predict`` takes the class of
    the largest logit, so that it never changes, even where rounding makes probabilities equal.

    References
    ----------
    .. [1] Zhang, Kailkhura, Han, "Mix-n-Match: Ensemble and Compositional Methods for Uncertainty
       Calibration in Deep Learning", ICML 2020,
       `arXiv:2003.07329 <https://arxiv.org/abs/2003.07329>`_.

    Examples
    --------
    Logits with a temperature of 2, and every tenth label drawn at random:

    >>> import numpy as np
    >>> from sklearn.metrics import log_loss
    >>> from skcalib import EnsembleTemperatureScaling, TemperatureScaling
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(4000, 5, temperature=2.0, random_state=0)
    >>> y[::10] = np.random.default_rng(0).integers(0, 5, size=400)
    >>> ensemble = EnsembleTemperatureScaling().fit(logits[:2000], y[:2000])
    >>> temperature = TemperatureScaling().fit(logits[:2000], y[:2000])
    >>> X_test, y_test = logits[2000:], y[2000:]
    >>> losses = [log_loss(y_test, c.predict_proba(X_test)) for c in (ensemble, temperature)]
    >>> losses[0] < losses[1]
    True
    >>> float(ensemble.weights_.sum())
    1.0
    """

    _keeps_order = True

    temperature_: float
    weights_: Floats
    smoothing_: float

    def __init__(
        self,
        *,
        loss: LOSSES = "log_loss",
        smoothing: Literal["auto"] | float = "auto",
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(classes=classes)
        self.loss = loss
        self.smoothing = smoothing

    def _weights_are_relative(self) -> bool:
        return self.smoothing != "auto"

    def _fit(self, rows: Rows) -> dict[str, Any]:
        check_option("loss", self.loss, LOSSES)
        smoothing, scale = _fitted_smoothing(self.smoothing, rows), fit_scale(rows)
        _warn_of_no_minimum(scale)
        if scale.is_separable and self._weights_are_relative():
            warn_of_small_weights(rows.weight, rows.n_rows)
        fit = _by_brier_score if self.loss == "brier" else _by_log_loss
        weights = (1 - smoothing) * fit(rows, 1 / scale.value)
        weights[2] += smoothing
        return {"temperature_": 1 / scale.value, "weights_": weights, "smoothing_": smoothing}

    def _calibrate(self, Z: Floats) -> Floats:
        """Logits of the mixture of the first two members."""
        scaled = _divided(Z, self.temperature_)
        if self.weights_[1] == 0 or self.weights_[0] == 0:
            return Z if self.weights_[1] > 0 else scaled
        of_members = self.weights_[:2] / self.weights_[:2].sum()
        L = mixture(_log_probabilities(scaled, Z), of_members)
        return (L[:, 1:] - L[:, :1] if Z.shape[1] == 1 else L).astype(Z.dtype, copy=False)

    def _calibrated(self, Z: Floats) -> Floats:
        return mix_logits(super()._calibrated(Z), float(self.weights_[2]))


def _log_probabilities(*logits: Floats) -> Floats:
    """Log-probabilities (members, m, K) of logits (m, K) or (m, 1), in double precision."""
    return np.stack([log_softmax(both_columns(Z).astype(np.float64), axis=1) for Z in logits])


def _members(temperature: float, Z: Floats) -> Floats:
    """Log-probabilities (3, m, K) of scaled and uncalibrated logits, and of the uniform ones."""
    scaled = (finite_unless_masked(partial(_divided, temperature=T), Z) for T in (temperature, 1.0))
    uniform = np.where(np.isneginf(both_columns(Z)), -np.inf, 0.0)
    return _log_probabilities(*scaled, uniform)


def _by_log_loss(rows: Rows, temperature: float) -> Floats:
    """Weights of the least log loss, with a warning where the search stopped before."""
    plan = Plan(room=4)
    weights, converged = least_log_loss(
        rows.with_logits(rows.map(partial(_of_labels, temperature), plan))
    )
    if not converged:
        warn(
            f"The weights of the ensemble did not converge in {MAX_PASSES} passes over the rows. "
            "They are close to the best ones; use loss='brier' for weights in closed form.",
            NotConvergedWarning,
        )
    return weights


def _of_labels(temperature: float, Z: Floats, y: Indices, *_: Any) -> Floats:
    """Probabilities (m, 3) that the members give the labels, relative to the largest of these."""
    L = _members(temperature, Z)[:, np.arange(len(y)), y]
    return np.exp(L - L.max(axis=0)).T


def _by_brier_score(rows: Rows, temperature: float) -> Floats:
    """Weights of the least Brier score."""
    sums = rows.sum(partial(_squares_and_hits, temperature), Plan(room=4)) / rows.weight
    return least_quadratic(sums[:3], -sums[3])


def _squares_and_hits(temperature: float, Z: Floats, y: Indices, w: Floats | None) -> Floats:
    """Products of the probabilities of members (3, 3), and those of labels (1, 3), summed."""
    P = np.exp(_members(temperature, Z))
    weighted = P if w is None else P * w[:, None]
    products = np.einsum("aik,bik->ab", weighted, P)
    return np.concatenate([products, weighted[:, np.arange(len(y)), y].sum(axis=1)[None]])
