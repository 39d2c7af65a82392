"""Isotonic calibration."""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from skcalib._rows.arrays import Floats
from skcalib._rows.ranking import Ranked
from skcalib._scores.bins import bins_ending_at
from skcalib._scores.isotonic import interpolated, isotonic_blocks, knots
from skcalib._validation.inputs import check_option, check_real

from ._per_class import _PerClass

Interpolation = Literal["constant", "linear", "centered"]


class IsotonicCalibration(_PerClass):
    r"""Isotonic regression: the non-decreasing function of the probability with least squares.

    For each class, one-vs-rest, the function :math:`f` that minimizes

    .. math:: \sum_i w_i \big( f(p_{ik}) - [y_i = k] \big)^2

    among all non-decreasing functions, where i runs over the rows and, with ``smoothing``, two
    pseudo-rows. Calibrated rows are then normalized. Two classes need only one function, for the
    second class.

    Parameters
    ----------
    interpolation : {"constant", "linear", "centered"}, default="constant"
        Between the probabilities seen in ``fit``: a step function as in [2]_, with edges halfway
        between them; linear interpolation as in scikit-learn's ``IsotonicRegression``; or linear
        interpolation between the centres of the steps, the weighted means of the probabilities of
        their rows, centred isotonic regression [3]_, which is strictly increasing except where it
        is 0 or 1. The function is constant beyond the smallest and the largest knot.
    smoothing : float, default=1.0
        Weight of each of two pseudo-rows, a hit at the smallest probability and a miss at the
        largest, which keep :math:`f` off 0 and 1. With them a lowest step of misses only, of the
        weight n, has the value :math:`s / (n + s)`, or is merged with the next one if that is
        lower. 0 is the plain form of [1]_ and [2]_.
    classes : array-like of shape (n_classes,), default=None
        All labels in the order of the columns of ``X``, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    bin_edges_ : list of ndarray of shape (n_bins + 1,) or (n_thresholds,)
        Edges of the steps for each class, or for the second of two classes; with
        ``interpolation="linear"`` or ``"centered"`` the knots.
    bin_values_ : list of ndarray of shape (n_bins,) or (n_thresholds,)
        Values of the steps, or at the knots.
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the columns.
    n_features_in_ : int
        Number of columns of ``X`` seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Names of the columns, where ``X`` had string names.

    Warns
    -----
    UserWarning
        As for :class:`TemperatureScaling`.

    Notes
    -----
    Fitted by :func:`scipy.optimize.isotonic_regression`, once for each class, from the distinct
    probabilities.

    With ``smoothing=0`` the value of the lowest step is often exactly 0, so the probability of the
    label of a held-out row may be zero, which makes the log loss very large.

    For tensors scores are ranked, and steps applied, on their device. Steps have no gradients, so
    that tensors must not need any.

    References
    ----------
    .. [1] Zadrozny, Elkan, "Transforming Classifier Scores into Accurate Multiclass Probability
       Estimates", KDD 2002.
    .. [2] Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", ICML 2017,
       `arXiv:1706.04599 <https://arxiv.org/abs/1706.04599>`_, section 4.1.
    .. [3] Oron, Flournoy, "Centered Isotonic Regression: Point and Interval Estimation for
       Dose-Response Studies", Statistics in Biopharmaceutical Research 2017,
       `arXiv:1701.05964 <https://arxiv.org/abs/1701.05964>`_.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import IsotonicCalibration
    >>> p = np.array([[0.9, 0.1], [0.7, 0.3], [0.5, 0.5], [0.3, 0.7], [0.1, 0.9]])
    >>> calibrator = IsotonicCalibration().fit(np.log(p), [0, 1, 0, 1, 1])
    >>> calibrator.bin_edges_[0].round(2).tolist(), calibrator.bin_values_[0].round(2).tolist()
    ([0.0, 0.6, 1.0], [0.5, 0.67])
    >>> plain = IsotonicCalibration(smoothing=0).fit(np.log(p), [0, 1, 0, 1, 1])
    >>> plain.bin_edges_[0].round(2).tolist(), plain.bin_values_[0].tolist()
    ([0.0, 0.2, 0.6, 1.0], [0.0, 0.5, 1.0])
    """

    def __init__(
        self,
        *,
        interpolation: Interpolation = "constant",
        smoothing: float = 1.0,
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(classes=classes)
        self.interpolation = interpolation
        self.smoothing = smoothing

    def _weights_are_relative(self) -> bool:
        return not self.smoothing

    def _check(self) -> None:
        check_option("interpolation", self.interpolation, Interpolation)
        check_real("smoothing", self.smoothing, closed=True)

    def _fit_class(self, rows: Ranked) -> dict[str, Any]:
        # Two rows more: a hit at the lowest score, and a miss at the highest.
        low, high = np.zeros_like(rows.scores), np.zeros_like(rows.scores)
        low[0] = high[-1] = self.smoothing
        rows = Ranked(rows.scores, rows.weight + low + high, rows.hits + low)
        blocks = isotonic_blocks(rows)
        if self.interpolation == "constant":
            bins = bins_ending_at(rows, blocks.end, np.zeros_like(blocks.end))
            return {"bin_edges_": np.append(0.0, bins.high), "bin_values_": blocks.value}
        edges, values = knots(rows, blocks, centered=self.interpolation == "centered")
        return {"bin_edges_": edges, "bin_values_": values}

    def _value(self, p: Floats, edges: Floats, values: Floats) -> Floats:
        if len(edges) == len(values):  # linear interpolation; steps have one edge more
            return interpolated(p, edges, values)
        return super()._value(p, edges, values)
