"""Bayesian binning into quantiles."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from scipy.special import betaln

from skcalib._rows import Ranked
from skcalib._scores.bins import Bins, equal_mass_bins
from skcalib._typing import ArrayLike, Floats

from ._histogram import _PerClass

# Prior means are clipped away from 0 and 1, as in the code by Naeini, Cooper, Hauskrecht 2015.
MIN_PRIOR_MEAN = 0.005

# The average skips binnings with a smaller posterior weight, which is below rounding.
MIN_WEIGHT = 1e-17


class BBQ(_PerClass):
    r"""Bayesian binning into quantiles: an average of histograms with posterior weights.

    For each class, one-vs-rest, histograms with bins of equal weight are computed for every
    number of bins in a range. Bin b in a histogram contains rows with total weight :math:`n_b` and
    hits with total weight :math:`k_b`. Its prior is :math:`\mathrm{Beta}(2 p_b, 2 (1 - p_b))`, with
    its midpoint :math:`p_b` as mean. Its value is the posterior mean

    .. math:: \theta_b = \frac{k_b + 2 p_b}{n_b + 2} ,

    and the posterior weight of a histogram is proportional to its marginal likelihood

    .. math:: \prod_b \frac{B(k_b + 2 p_b, n_b - k_b + 2 (1 - p_b))}{B(2 p_b, 2 (1 - p_b))} .

    The calibrated probability is the mean of the values with these weights. Rows are then
    normalized. Two classes need only one function, for the second class.

    Parameters
    ----------
    bin_range : pair of int, default=None
        Smallest and largest number of bins. By default, with N the total weight, from
        :math:`\max(1, \lfloor N^{1/3} / 10 \rfloor)` to
        :math:`\min(\lceil N / 5 \rceil, \lceil 10 N^{1/3} \rceil)`, as published. The largest
        number is at most the number of distinct probabilities.
    classes : array-like of shape (n_classes,), default=None
        All labels in column order, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    bin_edges_ : list of ndarray of shape (n_steps + 1,)
        Edges in the averaged step function for each class, or for the second class only if there
        are two: all edges that some histogram has.
    bin_values_ : list of ndarray of shape (n_steps,)
        Values on these steps.
    n_bins_ : list of ndarray of shape (n_binnings,)
        How many bins each histogram has, for each class.
    log_weights_ : list of ndarray of shape (n_binnings,)
        Posterior weights, which sum to one, as logarithms.
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
    In the priors, midpoints are clipped to [0.005, 0.995], as in the authors' code. Bins end where
    the cumulative weight reaches equal parts of the total, and ties share a bin. In the authors'
    code all bins contain the same number of rows, and the last bin also the remainder. Single
    probabilities therefore differ by up to 0.17, but the held-out log loss does not.

    Dask collections with more than a million rows are sampled: a million rows at random, with all
    rows of classes that have fewer than 1000.

    Steps have no gradients: tensors that require gradients are refused.

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
        self, *, bin_range: tuple[int, int] | None = None, classes: ArrayLike | None = None
    ) -> None:
        self.classes = classes
        self.bin_range = bin_range

    def _check(self) -> None:
        if self.bin_range is None:
            return
        pair = list(self.bin_range) if np.iterable(self.bin_range) else []
        are_integers = all(isinstance(n, Integral) for n in pair)
        if not (len(pair) == 2 and are_integers and 1 <= pair[0] <= pair[1]):
            raise ValueError(
                "bin_range must be a pair of integers, the smallest number of bins (at least 1) "
                f"and the largest, got {self.bin_range!r}. Pass a pair such as (1, 20)."
            )

    def _fit_class(self, rows: Ranked, unit: float = 1.0) -> dict[str, Any]:  # noqa: ARG002
        # As published, but with at most one bin per distinct score, even if weights are large.
        weight = rows.weight.sum()
        root = np.cbrt(weight).round(9)  # the cube root of 27 000 may be just below 30
        high = max(1, int(min(np.ceil(weight / 5), np.ceil(10 * root), len(rows.scores))))
        low = min(max(1, int(root / 10)), high)
        if self.bin_range is not None:
            low, high = self.bin_range
        n_bins = np.arange(low, high + 1)
        bins = equal_mass_bins(rows, n_bins)
        log_evidence, values = _binning_evidence(bins, len(n_bins))
        log_weights = log_evidence - log_evidence.max()
        log_weights -= np.log(np.exp(log_weights).sum())
        edges, average = _average_steps(bins, values, np.exp(log_weights))
        return {
            "bin_edges_": edges,
            "bin_values_": average,
            "n_bins_": n_bins,
            "log_weights_": log_weights,
        }


def _binning_evidence(bins: Bins, n_binnings: int) -> tuple[Floats, Floats]:
    """Return log marginal likelihoods (n_binnings,), and the posterior mean (n_bins,) per bin."""
    middle = np.clip((bins.low + bins.high) / 2, MIN_PRIOR_MEAN, 1 - MIN_PRIOR_MEAN)
    a, b = 2 * middle, 2 * (1 - middle)
    terms = betaln(bins.hits + a, bins.weight - bins.hits + b) - betaln(a, b)
    log_evidence = np.bincount(bins.binning, terms, n_binnings).astype(np.float64)
    return log_evidence, (bins.hits + a) / (bins.weight + 2)


def _average_steps(bins: Bins, values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Average step functions to one with edges (n + 1,) and values (n,).

    ``values`` (n_bins,) are the values of all bins, ``weights`` (n_binnings,) sum to one.
    """
    counts = weights[bins.binning] > MIN_WEIGHT
    binning, high, values = bins.binning[counts], bins.high[counts], values[counts]
    last = np.append(binning[1:] != binning[:-1], True)
    weights = weights[binning]
    # Functions jump at their inner edges. Their mean jumps by the weighted sum of the jumps.
    inner, where = np.unique(high[~last], return_inverse=True)
    rise = np.diff(values, append=0.0)[~last] * weights[~last]
    first = np.append(True, last[:-1])
    start = np.sum(weights[first] * values[first])
    rises = np.bincount(where, rise, len(inner))
    return np.concatenate([[0.0], inner, [1.0]]), start + np.append(0.0, np.cumsum(rises))
