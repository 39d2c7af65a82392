"""Temperature scaling."""

from __future__ import annotations

from typing import Any, Literal

from numpy.typing import ArrayLike

from skcalib._base import BaseCalibrator, labels_of
from skcalib._engine.array_api import astype, namespace, smallest_normal
from skcalib._engine.blocks import both_columns, double
from skcalib._engine.rows import Rows
from skcalib._linear.mixed import mix_logits, mixed_probabilities
from skcalib._linear.temperature import FittedScale, fit_scale
from skcalib._typing import Array, Floats
from skcalib._validation.parameters import check_real
from skcalib._validation.weights import warn_of_small_weights
from skcalib._warnings import NoMinimumWarning, warn

__all__ = ["TemperatureScaling"]

_NO_MINIMUM = {
    "separable": (
        "The log loss has no minimum: every row is classified correctly, or tied (separable rows), "
        "so it falls as the temperature falls to 0. The temperature is set to {T:g}, the optimum "
        "for labels smoothed by 1/(N + 1), where N is the sum of the weights. Calibrate on rows "
        "that the classifier was not trained on, or on more of them."
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


def _warn_of_no_minimum(scale: FittedScale) -> None:
    """Warn where no temperature is best, of what is used instead."""
    if scale.outcome != "minimum":
        outcome = "separable" if scale.is_separable else scale.outcome
        warn(_NO_MINIMUM[outcome].format(T=1 / scale.value), NoMinimumWarning, outcome)


def _fitted_smoothing(smoothing: Literal["auto"] | float, rows: Rows) -> float:
    """The share of the uniform distribution in the mixture."""
    check_real("smoothing", smoothing, high=1, closed=True, option="auto")
    return 1 / (rows.weight + 1) if smoothing == "auto" else float(smoothing)


class _Smoothed(BaseCalibrator):
    """A calibrator whose probabilities are mixed with the uniform distribution."""

    smoothing: Literal["auto"] | float
    smoothing_: float

    def _unmixed(self, Z: Floats) -> Floats:
        """Calibrated logits before the mixture."""
        return super()._calibrated(Z)

    def _calibrated(self, Z: Floats) -> Floats:
        return mix_logits(self._unmixed(Z), self.smoothing_)

    def _probabilities(self, Z: Floats) -> Floats:
        return mixed_probabilities(self._unmixed(Z), self.smoothing_)

    def _most_probable(self, Z: Floats) -> Array:
        if self._keeps_order:
            return super()._most_probable(Z)
        # Rounding may make probabilities of the mixture equal.
        return labels_of(self.classes_, both_columns(self._unmixed(Z)))


class TemperatureScaling(_Smoothed):
    r"""Temperature scaling: logits divided by one number.

    Fits the temperature :math:`T > 0` that minimises the log loss of

    .. math:: \hat p(y = k \mid z) = \mathrm{softmax}(z / T)_k .

    One parameter, so a few hundred rows are enough; the order of the classes in a row, and with
    it the accuracy, does not change. :math:`T > 1` lowers confidence, :math:`T < 1` raises it.
    With ``smoothing`` the probabilities are then mixed with the uniform distribution,

    .. math:: (1 - \varepsilon)\, \hat p(y = k \mid z) + \varepsilon / K ,

    so that the log loss of a row is at most :math:`\log (K / \varepsilon)`.

    Parameters
    ----------
    smoothing : float or "auto", default=0.0
        The share :math:`\varepsilon` of the uniform distribution, at least 0 and below 1. 0 is the
        plain form of [1]_, and "auto" is :math:`1 / (N + 1)` with N the sum of the weights [2]_.
    classes : array-like of shape (n_classes,), default=None
        All labels in the order of the columns of ``X``. Needed when ``y`` may lack some of
        them. By default the sorted labels in ``y``. Give them sorted if probabilities go to
        scikit-learn's own ``log_loss`` or ``roc_auc_score``, which take columns for sorted.

    Attributes
    ----------
    temperature_ : float
        The temperature :math:`T`.
    smoothing_ : float
        The share :math:`\varepsilon` of the uniform distribution.
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the columns.
    n_features_in_ : int
        Number of columns of ``X`` seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Names of the columns, where ``X`` had string names.

    Warns
    -----
    ConvergenceWarning
        If no temperature minimises the log loss: separable rows (``temperature_`` is then the
        optimum for smoothed labels, see the notes), rows no better than chance (it is at a bound
        relative to the differences of the logits), or constant logits (it is 1).
    UserWarning
        If ``X`` seems to hold probabilities, or ``y`` lacks classes that ``X`` has columns for. If
        the weights are relative, where their sum matters: with ``smoothing="auto"``, or if rows
        are separable.

    See Also
    --------
    AutoCalibrator : The default, which mixes temperature scaling with more flexible methods.

    Notes
    -----
    With :math:`b = 1/T` the log loss is convex, and its derivatives for a row are the mean of
    the logits under :math:`\hat p` less the logit of the label, and their variance under
    :math:`\hat p`. The temperature is the exact zero of the first, found by Newton's method
    from the answer on a sample of the rows. It lies between exact bounds: the loss is at least
    ``b`` times the mean gap between the largest logit of a row and that of its label, and ``log K``
    at ``b = 0``. Masked classes and other logits far below the largest do not enter them. The
    answer scales with the logits: :math:`T(c z) = c\, T(z)`.

    If every row is classified correctly, or tied, the log loss falls as T falls to 0. The
    temperature is then the optimum for labels that are smoothed by :math:`\delta = 1 / (N + 1)`:
    the class of the label has the target :math:`1 - \delta`, and :math:`\delta` is divided equally
    among all classes of the row. Masked classes are none of these, nor are classes more than 100
    times as far below the largest logit as is typical: with logits of -1e4 or -1e30 in the place
    of -inf the temperature is the same. Typical is the geometric mean over the rows of the harmonic
    mean of the distances from the largest logit.

    The number K of classes in the mixture is that of the row, without masked classes.
    ``transform`` returns logarithms of the mixture, or its log-odds for a single column.
    ``predict`` does not depend on ``smoothing``.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", ICML 2017,
       `arXiv:1706.04599 <https://arxiv.org/abs/1706.04599>`_, section 4.2.
    .. [2] Berta, Holzmüller, Jordan, Bach, "Structured Matrix Scaling for Multi-Class
       Calibration", `arXiv:2511.03685 <https://arxiv.org/abs/2511.03685>`_.

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
    >>> mixed = TemperatureScaling(smoothing=0.01).fit(logits, y)
    >>> mixed.temperature_ == calibrator.temperature_
    True
    >>> round(float(mixed.predict_proba(100 * logits).min()), 6)
    0.001
    """

    _keeps_order = True
    _on_device = True

    temperature_: float

    def __init__(
        self, *, smoothing: Literal["auto"] | float = 0.0, classes: ArrayLike | None = None
    ) -> None:
        super().__init__(classes=classes)
        self.smoothing = smoothing

    def _weights_are_relative(self) -> bool:
        return self.smoothing != "auto"

    def _fit(self, rows: Rows) -> dict[str, Any]:
        smoothing, scale = _fitted_smoothing(self.smoothing, rows), fit_scale(rows)
        _warn_of_no_minimum(scale)
        if scale.is_separable and self._weights_are_relative():
            warn_of_small_weights(rows.weight, rows.n_rows)
        return {"temperature_": 1 / scale.value, "smoothing_": smoothing}

    def _calibrate(self, Z: Floats) -> Floats:
        return _divided(Z, self.temperature_)


def _divided(Z: Floats, temperature: float) -> Floats:
    """Logits divided by a temperature, which a number of their precision may not hold."""
    if smallest_normal(Z) <= temperature <= float(namespace(Z).finfo(Z.dtype).max):
        return Z / float(temperature)
    return astype(double(Z) / float(temperature), Z.dtype)
