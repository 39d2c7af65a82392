"""Step functions of class probabilities, one-vs-rest, and histogram binning."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Any

import numpy as np

from skcalib._input.arrays import check_needs_no_gradients
from skcalib._input.measures import ScoreColumns
from skcalib._input.parameters import check_integer, check_option, check_real
from skcalib._rows import Ranked, Rows, arrays
from skcalib._scores.bins import bin_index, bin_sums, closed, equal_mass_bins, uniform_edges
from skcalib._scores.columns import joined_probabilities, margins, n_maps, probabilities
from skcalib._typing import ArrayLike, Bools, Floats, Indices, Strategy
from skcalib.base import BaseCalibrator

# A class that is masked in all rows is fitted to this single row, a miss, so that it has a map.
ALWAYS_MASKED = Ranked(np.array([0.5]), np.ones(1), np.zeros(1))


class _PerClass(BaseCalibrator):
    """One-vs-rest step functions of class probabilities; rows are then normalized."""

    _on_device = True

    bin_edges_: list[Floats]
    bin_values_: list[Floats]

    @abstractmethod
    def _fit_class(self, rows: Ranked, unit: float = 1.0) -> dict[str, Any]:
        """Return the fitted attributes of one class for its ranked probabilities and hits.

        ``unit`` is the weight of one pseudo-row, for methods that add pseudo-rows.
        """

    def _check(self) -> None:
        """Raise a ValueError for invalid parameters."""

    def _fit(self, rows: Rows) -> dict[str, Any]:
        self._check()
        columns = ScoreColumns(list(range(n_maps(rows.n_columns))), _class_events, rows)
        fits = self._fit_columns(columns)
        return {name: [fit[name] for fit in fits] for name in fits[0]}

    def _fit_columns(self, columns: ScoreColumns) -> list[dict[str, Any]]:
        unit = pseudo_row_weight(columns.rows)
        return columns.ranked(
            lambda rows: self._fit_class(rows if len(rows.scores) else ALWAYS_MASKED, unit)
        )

    def _calibrate(self, Z: Floats) -> Floats:
        check_needs_no_gradients(Z, "X")
        xp = arrays.namespace(Z)
        if hasattr(xp, "step_values"):  # a graph of ONNX searches the bins in its own way
            scores = Z if Z.shape[1] > 2 else margins(Z)
            calibrated = xp.step_values(scores, self._edges(), self.bin_values_)
        else:
            calibrated = self._values(probabilities(Z))
        return joined_probabilities(arrays.astype(calibrated, Z.dtype), Z.shape[1])

    def _edges(self) -> list[Floats]:
        """Return the edges of each class for predictions, which may differ by rounding."""
        return self.bin_edges_

    def _values(self, P: Floats) -> Floats:
        """Calibrate one-vs-rest probabilities (m, n_maps)."""
        steps = list(zip(self._edges(), self.bin_values_, strict=True))
        if not isinstance(P, np.ndarray):
            columns = [self._value(P[:, k], *step) for k, step in enumerate(steps)]
            return arrays.namespace(P).stack(columns, axis=1)
        out = np.empty_like(P)
        for k, step in enumerate(steps):
            out[:, k] = self._value(P[:, k], *step)
        return out

    def _value(self, p: Floats, edges: Floats, values: Floats) -> Floats:
        """Calibrate probabilities ``p`` (m,) of one class: edges (n + 1,), values (n,)."""
        return arrays.take(values, bin_index(p, edges))


def pseudo_row_weight(rows: Rows) -> float:
    """Return the weight of a pseudo-row: 1, or the mean weight of the rows if it is smaller."""
    return min(1.0, rows.weight / rows.n_rows)


def _class_events(Z: Floats, y: Indices) -> tuple[Floats, Bools]:
    """Return probabilities and events (m, n_maps) for each class, or for the second of two.

    The probability is NaN in rows that carry no information about the class, because the class or
    every other class is masked.
    """
    P, masked = probabilities(Z), np.isneginf(Z)
    if masked.any():
        masked |= np.count_nonzero(~masked, axis=1)[:, None] == 1  # the other class is certain
        P[masked if P.shape[1] > 1 else masked.any(axis=1, keepdims=True)] = np.nan
    return P, arrays.is_event(y, P.shape[1])


class HistogramBinning(_PerClass):
    r"""Histogram binning: the observed frequency of the class in each bin of the probability.

    For each class, one-vs-rest, the probabilities are divided into bins. The calibrated
    probability is the frequency of the class among the calibration rows of the bin,

    .. math:: \theta_m = \frac{k_m + s\, c_m}{n_m + s} ,

    where rows in the bin have the total weight :math:`n_m` and hits the weight :math:`k_m`,
    :math:`c_m` is the midpoint, and :math:`s` are the ``pseudo_rows``. Rows are then normalized.
    Two classes need only one step function, for the second class.

    Parameters
    ----------
    n_bins : int, default=15
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        "uniform" bins are equally wide. "quantile" bins are equally heavy, and can be fewer than
        ``n_bins``, since ties share a bin.
    pseudo_rows : float, default=1.0
        Weight of the pseudo-rows that are added to each bin, with the midpoint as their frequency.
        They keep values away from 0 and 1. If rows weigh less than 1 on average, the weight is
        multiplied by the mean. 0 is the plain form in [1]_ and [2]_.
    classes : array-like of shape (n_classes,), default=None
        All labels in column order, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    bin_edges_ : list of ndarray of shape (n_bins + 1,)
        Bin edges for each class, or for the second of two classes. Bins are closed on the right,
        and the first bin also contains 0, as in the measures.
    bin_values_ : list of ndarray of shape (n_bins,)
        Value in each bin; the midpoint if the bin is empty.
    classes_ : ndarray of shape (n_classes,)
        Labels in column order.
    n_features_in_ : int
        Number of columns in ``X`` during ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Column names, if ``X`` had string names.

    Warns
    -----
    UserWarning
        As for :class:`TemperatureScaling`.

    Notes
    -----
    Bins of equal width are exact for Dask collections. For bins of equal weight, Dask collections
    with more than a million rows are sampled: a million rows at random, with all rows of classes
    that have fewer than 1000.

    Steps have no gradients: tensors that require gradients are refused.

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
        self.classes = classes
        self.n_bins = n_bins
        self.strategy = strategy
        self.pseudo_rows = pseudo_rows

    def _check(self) -> None:
        check_integer("n_bins", self.n_bins)
        check_option("strategy", self.strategy, Strategy)
        check_real("pseudo_rows", self.pseudo_rows, closed=True)

    def _fit_columns(self, columns: ScoreColumns) -> list[dict[str, Any]]:
        if self.strategy == "quantile":
            return super()._fit_columns(columns)
        # Equal widths need no ranking. Sharing one array of edges makes predictions faster.
        edges = uniform_edges(self.n_bins)
        sums = columns.sums(partial(bin_sums, edges=closed(edges), n_bins=self.n_bins))
        values = self._frequencies(edges, sums[:, 1], sums[:, 3], pseudo_row_weight(columns.rows))
        return [{"bin_edges_": edges, "bin_values_": value} for value in values]

    def _edges(self) -> list[Floats]:
        first = self.bin_edges_[0]
        if all(edges is first for edges in self.bin_edges_):
            return [closed(first, self.strategy)] * len(self.bin_edges_)
        return [closed(edges, self.strategy) for edges in self.bin_edges_]

    def _values(self, P: Floats) -> Floats:
        first, *others = self._edges()
        if not isinstance(P, np.ndarray) or any(edges is not first for edges in others):
            return super()._values(P)
        values = np.stack(self.bin_values_).astype(P.dtype)
        return values[np.arange(P.shape[1]), bin_index(P, first)]

    def _fit_class(self, rows: Ranked, unit: float = 1.0) -> dict[str, Any]:
        bins = equal_mass_bins(rows, np.array([self.n_bins]))
        edges = np.append(0.0, bins.high)
        values = self._frequencies(edges, bins.weight, bins.hits, unit)
        return {"bin_edges_": edges, "bin_values_": values}

    def _frequencies(self, edges: Floats, weight: Floats, hits: Floats, unit: float) -> Floats:
        """Return values (..., n_bins) for edges (n_bins + 1,), weight and hits (..., n_bins).

        ``unit`` is the weight of one pseudo-row.
        """
        middle = (edges[:-1] + edges[1:]) / 2
        # An empty bin always gets pseudo-rows: without them its value would be 0 / 0.
        pseudo_rows = np.where(weight > 0, unit * self.pseudo_rows, 1.0)
        values: Floats = (hits + pseudo_rows * middle) / (weight + pseudo_rows)
        return values
