"""Step functions of the probability of each class, and those of equal bins: histogram binning."""

from abc import abstractmethod
from functools import partial
from typing import Any

import numpy as np

from skcalib._base import BaseCalibrator
from skcalib._rows import ArrayLike, Bools, Floats, Indices, Ranked, Rows, arrays as xa
from skcalib._scores.bins import Strategy, bin_index, bin_sums, equal_mass_bins, uniform_edges
from skcalib._scores.columns import Columns, joined_probabilities, margins, n_maps, probabilities
from skcalib._validation.inputs import check_integer, check_option, check_real

# Stands for the rows of a class that is masked in all rows: one row of another class.
ALWAYS_MASKED = Ranked(np.array([0.5]), np.ones(1), np.zeros(1))


class _PerClass(BaseCalibrator):
    """One-vs-rest step functions of the probability of each class; rows are then normalized.

    Scores are ranked, and the functions applied, where the logits are; bins are found on the host.
    """

    _on_device = True

    bin_edges_: list[Floats]
    bin_values_: list[Floats]

    @abstractmethod
    def _fit_class(self, rows: Ranked, unit: float = 1.0) -> dict[str, Any]:
        """Fitted attributes of one class, from its ranked probabilities with their hits.

        ``unit`` is the weight of one pseudo-row.
        """

    def _check(self) -> None:
        """Raise a ValueError for invalid parameters."""

    def _fit(self, rows: Rows) -> dict[str, Any]:
        self._check()
        columns = Columns(list(range(n_maps(rows.n_columns))), _events_of_classes, rows)
        fits = self._fit_columns(columns)
        return {name: [fit[name] for fit in fits] for name in fits[0]}

    def _fit_columns(self, columns: Columns) -> list[dict[str, Any]]:
        unit = unit_of(columns.rows)
        return columns.ranked(
            lambda rows: self._fit_class(rows if len(rows.scores) else ALWAYS_MASKED, unit)
        )

    def _calibrate(self, Z: Floats) -> Floats:
        xp = xa.namespace(Z)
        if hasattr(xp, "step_values"):  # a graph of ONNX, whose bins are found by its own search
            scores = Z if Z.shape[1] > 2 else margins(Z)
            calibrated = xp.step_values(scores, self.bin_edges_, self.bin_values_)
        else:
            calibrated = self._values(probabilities(Z))
        return joined_probabilities(xa.astype(calibrated, Z.dtype), Z.shape[1])

    def _outputs_of_tensor(self, method: str, X: Any) -> Any:
        xa.check_needs_no_gradients(X, "X")
        return super()._outputs_of_tensor(method, X)

    def _values(self, P: Floats) -> Floats:
        """Calibrated one-vs-rest probabilities of a block of probabilities (m, n_maps)."""
        each = list(zip(self.bin_edges_, self.bin_values_, strict=True))
        if not isinstance(P, np.ndarray):
            columns = [self._value(P[:, k], *of_class) for k, of_class in enumerate(each)]
            return xa.namespace(P).stack(columns, axis=1)
        out = np.empty_like(P)
        for k, of_class in enumerate(each):
            out[:, k] = self._value(P[:, k], *of_class)
        return out

    def _value(self, p: Floats, edges: Floats, values: Floats) -> Floats:
        """Calibrated probabilities for probabilities ``p`` (m,) of one class."""
        return xa.take(values, bin_index(p, edges))


def unit_of(rows: Rows) -> float:
    """Weight of a pseudo-row: 1, or the mean weight of the rows if these are lighter."""
    return min(1.0, rows.weight / rows.n_rows)


def _events_of_classes(Z: Floats, y: Indices) -> tuple[Floats, Bools]:
    """Probability of each class, or of the second of two, and whether the label is that class.

    In rows where a class is masked, or is the only one that is not, its probability is NaN: such
    rows carry no information about it.
    """
    P, xp = probabilities(Z), xa.namespace(Z)
    masked = -np.inf == Z
    if xp.any(masked):
        masked = masked | (xp.count_nonzero(~masked, axis=1)[:, None] == 1)  # that one is certain
        if P.shape[1] == 1:
            masked = xp.any(masked, axis=1)[:, None]
        P = xa.put(P, np.nan, masked)
    return P, xa.is_event(y, P.shape[1])


class HistogramBinning(_PerClass):
    r"""Histogram binning: the frequency of the class in the bin of a probability.

    For each class, one-vs-rest, the probabilities are divided into bins. The calibrated
    probability is the value of the bin, the frequency of the class among its calibration rows,

    .. math:: \theta_m = \frac{k_m + s\, c_m}{n_m + s} ,

    with the weight :math:`n_m` of the rows in the bin, the weight :math:`k_m` of its hits, the
    midpoint :math:`c_m` and ``pseudo_rows`` :math:`s`. Rows are then normalized. Two classes need
    only one step function, for the second class.

    Parameters
    ----------
    n_bins : int, default=15
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal weight: at most ``n_bins`` of them, since ties share a
        bin.
    pseudo_rows : float, default=1.0
        Weight of the pseudo-rows that are added to each bin, with the midpoint as their frequency,
        which keep values off 0 and 1. Where rows have a mean weight of less than 1 it is a multiple
        of that. 0 is the plain form of [1]_ and [2]_.
    classes : array-like of shape (n_classes,), default=None
        All labels in the order of the columns of ``X``, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    bin_edges_ : list of ndarray of shape (n_bins + 1,)
        Edges of the bins of each class, or of the second of two classes. Bins are closed on the
        right, and the first one also holds 0, as in the measures.
    bin_values_ : list of ndarray of shape (n_bins,)
        Values of the bins; the midpoint for a bin without rows.
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
    For tensors scores are ranked, and steps applied, on their device. Steps have no gradients, so
    that tensors must not need any.

    References
    ----------
    .. [1] Zadrozny, Elkan, "Obtaining Calibrated Probability Estimates from Decision Trees and
       Naive Bayesian Classifiers", ICML 2001.
    .. [2] Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", ICML 2017,
       `arXiv:1706.04599 <https://arxiv.org/abs/1706.04599>`_, section 4.1.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import HistogramBinning
    >>> p = np.array([[0.8, 0.2], [0.7, 0.3], [0.4, 0.6], [0.3, 0.7], [0.1, 0.9]])
    >>> calibrator = HistogramBinning(n_bins=2).fit(np.log(p), [0, 1, 1, 0, 1])
    >>> calibrator.bin_edges_[0].tolist(), calibrator.bin_values_[0].round(3).tolist()
    ([0.0, 0.5, 1.0], [0.417, 0.688])
    """

    def __init__(
        self,
        *,
        n_bins: int = 15,
        strategy: Strategy = "uniform",
        pseudo_rows: float = 1.0,
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(classes=classes)
        self.n_bins = n_bins
        self.strategy = strategy
        self.pseudo_rows = pseudo_rows

    def _check(self) -> None:
        check_integer("n_bins", self.n_bins)
        check_option("strategy", self.strategy, Strategy)
        check_real("pseudo_rows", self.pseudo_rows, closed=True)

    def _fit_columns(self, columns: Columns) -> list[dict[str, Any]]:
        if self.strategy == "quantile":
            return super()._fit_columns(columns)
        # Needs no ranking. All classes share one array of edges, which makes predictions faster.
        edges = uniform_edges(self.n_bins)
        sums = columns.sums(partial(bin_sums, edges=edges, n_bins=self.n_bins))
        unit = unit_of(columns.rows)
        return [self._of_bins(edges, w, hits, unit) for _, w, _, hits, _ in sums]

    def _values(self, P: Floats) -> Floats:
        edges = self.bin_edges_[0]
        if not isinstance(P, np.ndarray) or any(other is not edges for other in self.bin_edges_):
            return super()._values(P)
        values = np.stack(self.bin_values_).astype(P.dtype)
        return values[np.arange(P.shape[1]), bin_index(P, edges)]

    def _fit_class(self, rows: Ranked, unit: float = 1.0) -> dict[str, Any]:
        bins = equal_mass_bins(rows, np.array([self.n_bins]))
        return self._of_bins(np.append(0.0, bins.high), bins.weight, bins.hits, unit)

    def _of_bins(self, edges: Floats, weight: Floats, hits: Floats, unit: float) -> dict[str, Any]:
        """Fitted attributes of one class, from edges (n_bins + 1,), weight and hits (n_bins,)."""
        middle = (edges[:-1] + edges[1:]) / 2
        # An empty bin has the value that it would have with any pseudo-rows.
        pseudo_rows = np.where(weight > 0, unit * self.pseudo_rows, 1.0)
        return {
            "bin_edges_": edges,
            "bin_values_": (hits + pseudo_rows * middle) / (weight + pseudo_rows),
        }
