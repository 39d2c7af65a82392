"""Bayesian binning into quantiles."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln, logsumexp

from skcalib._engine.ranking import Ranked
from skcalib._scores.bins import Bins, equal_mass_bins
from skcalib._typing import Floats
from skcalib._validation.parameters import is_integer

from ._per_class import _PerClass

__all__ = ["BBQ"]

# Priors of a bin are not surer than this (Naeini, Cooper, Hauskrecht 2015, their code).
SUREST_PRIOR = 0.005

# A binning of smaller weight adds nothing to an average that rounding would not take away.
LEAST_WEIGHT = 1e-17


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
        if not (len(pair) == 2 and all(map(is_integer, pair)) and 1 <= pair[0] <= pair[1]):
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
