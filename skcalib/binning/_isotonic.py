"""Isotonic calibration."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from skcalib._engine.ranking import Ranked
from skcalib._scores.bins import bins_ending_at
from skcalib._scores.isotonic import isotonic_blocks
from skcalib._typing import Floats
from skcalib._validation.parameters import check_option

from ._per_class import _PerClass

__all__ = ["IsotonicCalibration"]

Interpolation = Literal["constant", "linear"]


class IsotonicCalibration(_PerClass):
    r"""Isotonic regression: the non-decreasing function of the probability with least squares.

    For each class, one-vs-rest, the function :math:`f` that minimizes

    .. math:: \sum_i w_i \big( f(p_{ik}) - [y_i = k] \big)^2

    among all non-decreasing functions. Rows are then normalized. Two classes need only one
    function, for the second class.

    Parameters
    ----------
    interpolation : {"constant", "linear"}, default="constant"
        Between the probabilities seen in ``fit``: a step function as in [2]_, with edges halfway
        between them, or linear interpolation as in scikit-learn's ``IsotonicRegression``. The
        function is constant beyond the smallest and the largest.
    classes : array-like of shape (n_classes,), default=None
        All labels in the order of the columns of ``X``, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    bin_edges_ : list of ndarray of shape (n_bins + 1,) or (n_thresholds,)
        Edges of the steps for each class, or for the second of two classes; with
        ``interpolation="linear"`` the knots.
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
    The value of the lowest step is often exactly 0, so the probability of the label of a held-out
    row may be zero, which makes the log loss very large.

    References
    ----------
    .. [1] Zadrozny, Elkan, "Transforming Classifier Scores into Accurate Multiclass Probability
       Estimates", KDD 2002.
    .. [2] Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", ICML 2017,
       `arXiv:1706.04599 <https://arxiv.org/abs/1706.04599>`_, section 4.1.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import IsotonicCalibration
    >>> p = np.array([[0.9, 0.1], [0.7, 0.3], [0.5, 0.5], [0.3, 0.7], [0.1, 0.9]])
    >>> calibrator = IsotonicCalibration().fit(np.log(p), [0, 1, 0, 1, 1])
    >>> calibrator.bin_edges_[0].round(2).tolist(), calibrator.bin_values_[0].tolist()
    ([0.0, 0.2, 0.6, 1.0], [0.0, 0.5, 1.0])
    """

    def _weights_are_relative(self) -> bool:
        return True

    def __init__(
        self, *, interpolation: Interpolation = "constant", classes: ArrayLike | None = None
    ) -> None:
        super().__init__(classes=classes)
        self.interpolation = interpolation

    def _check(self) -> None:
        check_option("interpolation", self.interpolation, Interpolation)

    def _fit_class(self, rows: Ranked) -> dict[str, Any]:
        blocks = isotonic_blocks(rows)
        if self.interpolation == "constant":
            bins = bins_ending_at(rows, blocks.end, np.zeros_like(blocks.end))
            return {"bin_edges_": np.append(0.0, bins.high), "bin_values_": blocks.value}
        # The function is constant from the first score of a block to its last.
        both, first = np.unique(np.concatenate([blocks.start, blocks.end]), return_index=True)
        values = np.tile(blocks.value, 2)[first]
        return {"bin_edges_": rows.scores[both], "bin_values_": values}

    def _value(self, p: Floats, edges: Floats, values: Floats) -> Floats:
        if len(edges) == len(values):  # linear interpolation; steps have one edge more
            return np.interp(p, edges, values)
        return super()._value(p, edges, values)
