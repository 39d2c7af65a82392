"""Temperature scaling."""

from typing import Any, Literal

from numpy.typing import ArrayLike

from skcalib._base import BaseCalibrator
from skcalib._optimize.temperature import divided, fit_inverse_temperature, warn_of_no_minimum
from skcalib._rows.arrays import Floats
from skcalib._rows.rows import Rows
from skcalib._validation.inputs import fitted_smoothing, warn_of_small_weights


class TemperatureScaling(BaseCalibrator):
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
    :math:`\hat p`. The temperature is the exact zero of the first, which
    :func:`scipy.optimize.root_scalar` finds by Newton's method, from the answer on a sample of the
    rows, or else between bounds that are exact: the loss is at least ``b`` times the mean gap
    between the largest logit of a row and that of its label, and ``log K`` at ``b = 0``. Masked
    classes and other logits far below the largest do not enter them. The answer scales with the
    logits: :math:`T(c z) = c\, T(z)`.

    If every row is classified correctly, or tied, the log loss falls as T falls to 0. The
    temperature is then the optimum for labels that are smoothed by :math:`\delta = 1 / (N + 1)`:
    the class of the label has the target :math:`1 - \delta`, and :math:`\delta` is divided equally
    among all classes of the row. Masked classes are none of these, nor are classes more than 100
    times as far below the largest logit as the next class typically is, by the geometric mean over
    the rows: with logits of -1e4 or -1e30 in the place of -inf the temperature is the same.

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
        smoothing, scale = fitted_smoothing(self.smoothing, rows), fit_inverse_temperature(rows)
        warn_of_no_minimum(scale)
        if scale.is_separable and self._weights_are_relative():
            warn_of_small_weights(rows.weight, rows.n_rows)
        return {"temperature_": 1 / scale.value, "smoothing_": smoothing}

    def _calibrate(self, Z: Floats) -> Floats:
        return divided(Z, self.temperature_)
