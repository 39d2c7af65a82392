"""The per-class family without parameters: step functions of the probability of each class."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaln, logsumexp

from ._base import BaseCalibrator, Floats, Indices
from ._columns import Columns
from ._one_vs_rest import joined_probabilities, n_maps, probabilities
from ._steps import (
    Bins,
    BinSums,
    Ranked,
    bin_index,
    bin_sums,
    bins_ending_at,
    equal_mass_bins,
    isotonic_blocks,
    uniform_edges,
)

__all__ = ["BBQ", "HistogramBinning", "IsotonicCalibration"]

Bools = NDArray[np.bool_]

# Priors of a bin are not surer than this (Naeini, Cooper, Hauskrecht 2015, their code).
SUREST_PRIOR = 0.005
# What a class that is masked in all rows is taken to have: a row that is not of the class.
ALWAYS_MASKED = Ranked(np.array([0.5]), np.ones(1), np.zeros(1))
# A binning of smaller weight adds nothing to an average that rounding would not take away.
LEAST_WEIGHT = 1e-17


class _PerClass(BaseCalibrator):
    """A step function of its own for the probability of each class, then rows are normalised."""

    # A loop over the classes is worth it only for so many rows.
    _rows_at_least = 4096

    bin_edges_: list[Floats]
    bin_values_: list[Floats]

    @abstractmethod
    def _fit_class(self, rows: Ranked) -> dict[str, Any]:
        """Fitted attributes of one class, from ranked probabilities and whether it was that."""

    def _check(self) -> None:
        """Raise a ValueError for parameters that cannot be."""

    def _fit(self, Z: Floats, y: Indices, w: Floats | None) -> dict[str, Any]:
        self._check()
        columns = Columns(list(range(n_maps(Z))), _events_of_classes, y, Z, w)
        fits = self._fit_columns(columns)
        return {name: [fit[name] for fit in fits] for name in fits[0]}

    def _fit_columns(self, columns: Columns) -> list[dict[str, Any]]:
        return columns.ranked(self._fit_some_class)

    def _fit_some_class(self, rows: Ranked) -> dict[str, Any]:
        return self._fit_class(rows if len(rows.scores) else ALWAYS_MASKED)

    def _calibrate(self, Z: Floats) -> Floats:
        calibrated = self._values(probabilities(Z))
        return joined_probabilities(calibrated.astype(Z.dtype, copy=False), Z.shape[1])

    def _values(self, P: Floats) -> Floats:
        """Calibrated probabilities of classes on their own for a block of them (m, n_maps)."""
        out = np.empty_like(P)
        each = zip(P.T, self.bin_edges_, self.bin_values_, strict=True)
        for k, of_class in enumerate(each):
            out[:, k] = self._value(*of_class)
        return out

    def _value(self, p: Floats, edges: Floats, values: Floats) -> Floats:
        """Calibrated probabilities for probabilities ``p`` (m,) of one class."""
        return values[bin_index(p, edges)]


def _events_of_classes(y: Indices, Z: Floats) -> tuple[Floats, Bools]:
    """Probability of each class, or of the second of two, and whether it was that class.

    In rows where a class is masked, or the other one of two, its probability is NaN: such rows say
    nothing about it.
    """
    P = probabilities(Z)
    masked = np.isneginf(Z)
    if masked.any():
        masked |= np.count_nonzero(~masked, axis=1)[:, None] == 1  # a class alone is certain
        P[masked if P.shape[1] > 1 else masked.any(axis=1, keepdims=True)] = np.nan
    return P, y[:, None] == (np.arange(P.shape[1]) if P.shape[1] > 1 else 1)


class HistogramBinning(_PerClass):
    r"""Histogram binning: the share of hits in the bin that a probability is in.

    For each class, against all others, the probabilities are put into bins, and what comes out
    is the value of the bin, the share of its rows that belong to the class,

    .. math:: \theta_m = \frac{k_m + s\, c_m}{n_m + s} ,

    with the weight :math:`n_m` of the rows in the bin, that of the hits among them :math:`k_m`, the
    midpoint :math:`c_m` and the smoothing :math:`s`. Rows are then divided by their sum. Two
    classes take a single step function, for the second of them.

    Parameters
    ----------
    n_bins : int, default=15
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal weight: at most ``n_bins`` of them, since equal
        probabilities stay together.
    smoothing : float, default=0.0
        Weight of rows whose share of hits is the midpoint that are added to each bin.
    classes : array-like of shape (n_classes,), default=None
        All labels in the order of the columns of ``X``, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    bin_edges_ : list of ndarray of shape (n_bins + 1,)
        Edges of the bins of each class, or of the second of two. A bin holds its upper edge, and
        the first one also 0, as in the measures.
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
    ([0.0, 0.5, 1.0], [0.5, 0.667])
    """

    def __init__(
        self,
        *,
        n_bins: int = 15,
        strategy: Literal["uniform", "quantile"] = "uniform",
        smoothing: float = 0.0,
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(classes=classes)
        self.n_bins = n_bins
        self.strategy = strategy
        self.smoothing = smoothing

    def _weights_are_relative(self) -> bool:
        return not self.smoothing

    def _check(self) -> None:
        if not (_is_integer(self.n_bins) and self.n_bins >= 1):
            raise ValueError(f"n_bins must be an integer of at least 1, got {self.n_bins!r}.")
        if self.strategy not in {"uniform", "quantile"}:
            raise ValueError(f"strategy must be 'uniform' or 'quantile', got {self.strategy!r}.")
        real = isinstance(self.smoothing, Real) and not isinstance(self.smoothing, bool)
        if not (real and 0 <= self.smoothing < np.inf):
            raise ValueError(f"smoothing must be a number of at least 0, got {self.smoothing!r}.")

    def _fit_columns(self, columns: Columns) -> list[dict[str, Any]]:
        if self.strategy == "quantile":
            return super()._fit_columns(columns)
        # Needs no order. One array for all, which predictions are quicker with.
        edges = uniform_edges(self.n_bins)
        sums = columns.sums(partial(bin_sums, edges=edges, n_bins=self.n_bins))
        return [self._of_bins(edges, *BinSums(*of_class)[1::2]) for of_class in sums]

    def _values(self, P: Floats) -> Floats:
        edges = self.bin_edges_[0]
        if any(other is not edges for other in self.bin_edges_):
            return super()._values(P)
        values = np.stack(self.bin_values_).astype(P.dtype)
        return values[np.arange(P.shape[1]), bin_index(P, edges)]

    def _fit_class(self, rows: Ranked) -> dict[str, Any]:
        bins = equal_mass_bins(rows, np.array([self.n_bins]))
        return self._of_bins(np.append(0.0, bins.high), bins.weight, bins.hits)

    def _of_bins(self, edges: Floats, weight: Floats, hits: Floats) -> dict[str, Any]:
        """Fitted attributes of one class, from edges (n_bins + 1,), weight and hits (n_bins,)."""
        middle = (edges[:-1] + edges[1:]) / 2
        # An empty bin has the value that any amount of smoothing would give it.
        smoothing = np.where(weight > 0, self.smoothing, 1.0)
        return {
            "bin_edges_": edges,
            "bin_values_": (hits + smoothing * middle) / (weight + smoothing),
        }


class IsotonicCalibration(_PerClass):
    r"""Isotonic regression: the best non-decreasing function of the probability.

    For each class, against all others, the function :math:`f` that minimises

    .. math:: \sum_i w_i \big( f(p_{ik}) - [y_i = k] \big)^2

    among all that do not decrease. Rows are then divided by their sum. Two classes take a single
    function, for the second of them.

    Parameters
    ----------
    interpolation : {"constant", "linear"}, default="constant"
        Between the probabilities seen in ``fit``: a step function as in [2]_, with the steps
        halfway, or straight lines as in scikit-learn's ``IsotonicRegression``. Constant beyond the
        ends.
    classes : array-like of shape (n_classes,), default=None
        All labels in the order of the columns of ``X``, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    bin_edges_ : list of ndarray of shape (n_bins + 1,) or (n_thresholds,)
        Edges of the steps for each class, or for the second of two; with
        ``interpolation="linear"`` the probabilities at which the lines meet.
    bin_values_ : list of ndarray of shape (n_bins,) or (n_thresholds,)
        Values on the steps, or where the lines meet.
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
    The value of the lowest step is often exactly 0, so a row may get a probability of zero for its
    label, and the log loss of that is very large.

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
        self,
        *,
        interpolation: Literal["constant", "linear"] = "constant",
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(classes=classes)
        self.interpolation = interpolation

    def _check(self) -> None:
        if self.interpolation not in {"constant", "linear"}:
            raise ValueError(
                f"interpolation must be 'constant' or 'linear', got {self.interpolation!r}."
            )

    def _fit_class(self, rows: Ranked) -> dict[str, Any]:
        blocks = isotonic_blocks(rows)
        if self.interpolation == "constant":
            bins = bins_ending_at(rows, blocks.end, np.zeros_like(blocks.end))
            return {"bin_edges_": np.append(0.0, bins.high), "bin_values_": blocks.value}
        # A line is level from the first score of a block to its last.
        both, first = np.unique(np.concatenate([blocks.start, blocks.end]), return_index=True)
        values = np.tile(blocks.value, 2)[first]
        return {"bin_edges_": rows.scores[both], "bin_values_": values}

    def _value(self, p: Floats, edges: Floats, values: Floats) -> Floats:
        if len(edges) == len(values):  # lines; steps have one edge more
            return np.interp(p, edges, values)
        return super()._value(p, edges, values)


class BBQ(_PerClass):
    r"""Bayesian binning into quantiles: an average over histograms, by how likely each is.

    For each class, against all others, histograms with bins of equal weight are made for every
    number of bins in a range. Bin b of a histogram, with the weight :math:`n_b` of its rows and
    that of the hits among them :math:`k_b`, has a prior
    :math:`\mathrm{Beta}(2 p_b, 2 (1 - p_b))` about its midpoint :math:`p_b`, so that its value is

    .. math:: \theta_b = \frac{k_b + 2 p_b}{n_b + 2} ,

    and the histogram is as likely as the labels are under it,

    .. math:: \prod_b \frac{B(k_b + 2 p_b, n_b - k_b + 2 (1 - p_b))}{B(2 p_b, 2 (1 - p_b))} .

    What comes out is the mean of the values with these weights. Rows are then divided by their sum.
    Two classes take a single function, for the second of them.

    Parameters
    ----------
    bin_range : pair of int, default=None
        Smallest and largest number of bins. By default, with N the sum of the weights, from
        :math:`\max(1, \lfloor N^{1/3} / 10 \rfloor)` to
        :math:`\min(\lceil N / 5 \rceil, \lceil 10 N^{1/3} \rceil)`, as published, but no more
        than there are distinct probabilities.
    classes : array-like of shape (n_classes,), default=None
        All labels in the order of the columns of ``X``, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    bin_edges_ : list of ndarray of shape (n_steps + 1,)
        Edges of the average for each class, or for the second of two: a mean of step functions is
        one step function, on the edges of all of them.
    bin_values_ : list of ndarray of shape (n_steps,)
        Its values.
    n_bins_ : list of ndarray of shape (n_binnings,)
        The numbers of bins that were averaged over, for each class.
    log_weights_ : list of ndarray of shape (n_binnings,)
        Logarithms of their weights, which sum to one.
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
    Midpoints are kept between 0.005 and 0.995 in the priors, as in the authors' program. Bins are
    cut where the cumulative weight reaches equal parts of the total; the authors' program gives
    each bin the same whole number of rows and the last one the remainder as well. Single
    probabilities differ by up to 0.17 for that, held-out log loss does not. Ties share a bin, so a
    histogram may have fewer bins than its number says.

    References
    ----------
    .. [1] Naeini, Cooper, Hauskrecht, "Obtaining Well Calibrated Probabilities Using Bayesian
       Binning", AAAI 2015.

    Examples
    --------
    >>> from skcalib import BBQ
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(1000, 2, random_state=0)
    >>> calibrator = BBQ().fit(logits, y)
    >>> int(calibrator.n_bins_[0][0]), int(calibrator.n_bins_[0][-1])
    (1, 100)
    """

    n_bins_: list[Floats]
    log_weights_: list[Floats]

    def __init__(
        self,
        *,
        bin_range: tuple[int, int] | None = None,
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(classes=classes)
        self.bin_range = bin_range

    def _check(self) -> None:
        if self.bin_range is None:
            return
        pair = list(self.bin_range) if np.iterable(self.bin_range) else []
        if not (len(pair) == 2 and all(map(_is_integer, pair)) and 1 <= pair[0] <= pair[1]):
            raise ValueError(
                "bin_range must be a pair of integers, the smallest number of bins (at least 1) "
                f"and the largest, got {self.bin_range!r}."
            )

    def _fit_class(self, rows: Ranked) -> dict[str, Any]:
        low, high = self.bin_range or _published_range(rows.weight.sum(), len(rows.scores))
        n_bins = np.arange(low, high + 1)
        bins = equal_mass_bins(rows, n_bins)
        log_evidence, values = _binning_evidence(bins, len(n_bins))
        log_weights = log_evidence - logsumexp(log_evidence)
        edges, average = _average_steps(bins, values, np.exp(log_weights))
        return {
            "bin_edges_": edges,
            "bin_values_": average,
            "n_bins_": n_bins,
            "log_weights_": log_weights,
        }


def _published_range(weight: float, n_scores: int) -> tuple[int, int]:
    """Smallest and largest number of bins for rows of this weight in all.

    There are never more bins than distinct scores, however much the rows weigh.
    """
    root = np.cbrt(weight)
    high = max(1, int(min(np.ceil(weight / 5), np.ceil(10 * root), n_scores)))
    return min(max(1, int(root / 10)), high), high


def _binning_evidence(bins: Bins, n_binnings: int) -> tuple[Floats, Floats]:
    """Log evidence (n_binnings,) of the labels under each binning, and value of every bin."""
    middle = np.clip((bins.low + bins.high) / 2, SUREST_PRIOR, 1 - SUREST_PRIOR)
    a, b = 2 * middle, 2 * (1 - middle)
    terms = betaln(bins.hits + a, bins.weight - bins.hits + b) - betaln(a, b)
    log_evidence = np.bincount(bins.binning, terms, n_binnings).astype(np.float64)
    return log_evidence, (bins.hits + a) / (bins.weight + 2)


def _average_steps(bins: Bins, values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """The weighted mean of step functions as one: edges (n + 1,) and values (n,)."""
    kept = weights[bins.binning] > LEAST_WEIGHT
    binning, high, values = bins.binning[kept], bins.high[kept], values[kept]
    last = np.append(binning[1:] != binning[:-1], True)
    weights = weights[binning]
    # Each function rises at its inner edges; the mean rises by the sum of what they do.
    inner, where = np.unique(high[~last], return_inverse=True)
    rise = np.diff(values, append=0.0)[~last] * weights[~last]
    first = np.append(True, last[:-1])
    start = np.sum(weights[first] * values[first])
    rises = np.bincount(where, rise, len(inner))
    return np.concatenate([[0.0], inner, [1.0]]), start + np.append(0.0, np.cumsum(rises))


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
