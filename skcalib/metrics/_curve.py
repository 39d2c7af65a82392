"""Reliability curves: bins of scores with their confidence and accuracy."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import betaincinv

from skcalib._rows import Array, ArrayLike, Floats
from skcalib._scores.bins import BinSums, Strategy, bin_sums, quantile_edges, uniform_edges
from skcalib._scores.columns import Columns
from skcalib._validation.inputs import check_integer, check_option, check_real

from ._input import OF_EACH, Kind, columns_of


@dataclass(frozen=True)
class ReliabilityCurve:
    """The bins of a reliability diagram, one entry per non-empty bin.

    Attributes
    ----------
    lower, upper : ndarray of shape (n,)
        Edges: the bin holds the scores ``s`` with ``lower < s <= upper``, the first one also 0.
    n_samples : ndarray of shape (n,)
        Number of rows.
    weight : ndarray of shape (n,)
        Sum of their weights; ``n_samples`` without weights.
    confidence : ndarray of shape (n,)
        Mean score.
    accuracy : ndarray of shape (n,)
        Weighted frequency of the event.
    n_effective : ndarray of shape (n,)
        ``sum(w)**2 / sum(w**2)``, the number of equally weighted rows that would estimate the
        accuracy with the same variance; ``n_samples`` without weights.
    label : ndarray of shape (n,) or None
        With ``kind="classwise"`` or ``"multilabel"`` the class or label each bin belongs to, else
        None.
    kind : str
        The score and the event, as for :func:`reliability_curve`, never "auto".
    """

    lower: Floats
    upper: Floats
    n_samples: Floats
    weight: Floats
    confidence: Floats
    accuracy: Floats
    n_effective: Floats
    label: Array | None = None
    kind: Kind = "top-label"

    @property
    def gap(self) -> Floats:
        """Confidence less accuracy, positive where the model is over-confident."""
        return self.confidence - self.accuracy

    @property
    def share(self) -> Floats:
        """Fraction of the weight of all bins."""
        return self.weight / self.weight.sum()

    def interval(self, confidence_level: float = 0.95) -> tuple[Floats, Floats]:
        """Clopper-Pearson interval of the accuracy of each bin.

        Parameters
        ----------
        confidence_level : float, default=0.95
            Between 0 and 1.

        Returns
        -------
        low, high : ndarray of shape (n,)
            Ends of the interval. With weights, the effective number of rows replaces the number
            of rows.

        References
        ----------
        .. [1] Clopper, Pearson, "The use of confidence or fiducial limits illustrated in the
           case of the binomial", Biometrika 26, 1934.
        """
        check_real("confidence_level", confidence_level, high=1)
        return clopper_pearson(self.accuracy, self.n_effective, confidence_level)


def clopper_pearson(rate: Any, n: Any, confidence_level: float) -> tuple[Floats, Floats]:
    """Clopper-Pearson intervals of rates of n rows, an effective number that need not be whole."""
    tail = (1 - confidence_level) / 2
    hits, misses = rate * n, (1 - rate) * n
    # The quantiles of a beta distribution with a parameter of zero are 0 or 1.
    none, all_ = rate <= 0, rate >= 1
    low = betaincinv(np.where(none, 1, hits), misses + 1, tail)
    high = betaincinv(hits + 1, np.where(all_, 1, misses), 1 - tail)
    return np.where(none, 0.0, low), np.where(all_, 1.0, high)


def curves_of(columns: Columns, n_bins: int, strategy: Strategy) -> Iterator[ReliabilityCurve]:
    """The curve of each column."""
    edges = edges_of(columns, n_bins, strategy)
    shared = edges[0] if strategy == "uniform" else edges
    sums = columns.sums(partial(bin_sums, edges=shared, n_bins=int(n_bins)))
    return map(partial(curve_of, kind=columns.kind), columns.labels, edges, sums)


def edges_of(columns: Columns, n_bins: int, strategy: Strategy) -> list[Floats]:
    """Edges of the bins of each column; for equal width all columns share one array."""
    check_integer("n_bins", n_bins)
    check_option("strategy", strategy, Strategy)
    n_bins = int(n_bins)
    if strategy == "uniform":
        return [uniform_edges(n_bins)] * len(columns.labels)
    return columns.ranked(lambda rows: quantile_edges(rows, n_bins), events=False)


def curve_of(
    label: Any, edges: Floats, sums: Floats | BinSums, *, kind: Kind = "binary"
) -> ReliabilityCurve:
    """The non-empty bins, from the rows of :class:`BinSums`."""
    filled = np.flatnonzero(sums[1] > 0)
    count, weight, weight_squared, hits, scores = np.asarray(sums)[:, filled]
    return ReliabilityCurve(
        lower=edges[filled],
        upper=edges[filled + 1],
        n_samples=count,
        weight=weight,
        confidence=scores / weight,
        accuracy=hits / weight,
        n_effective=effective_rows(count, weight, weight_squared),
        label=None if label is None else np.full(len(weight), label),
        kind=kind,
    )


def effective_rows(count: Floats, weight: Floats, weight_squared: Floats) -> Floats:
    """Number of equally weighted rows that would estimate accuracies with the same variance."""
    # Squares underflow for weights below 1e-162, which have no effect beside larger weights.
    known = weight_squared > 0
    n = np.divide(weight**2, weight_squared, out=count.copy(), where=known)
    return np.clip(n, np.minimum(count, 1), count)


def concatenated(curves: Iterable[ReliabilityCurve]) -> ReliabilityCurve:
    """The bins of several classes as one curve."""
    first, *_ = curves = [*curves]
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(curve, name) for curve in curves])
        for name in vars(first)
        if name != "kind"
    }
    return replace(first, **joined)


def reliability_curve(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    kind: Kind = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
) -> ReliabilityCurve:
    r"""Accuracy and confidence per bin of a score.

    The rows are grouped into bins :math:`B_m` of a score, with the accuracy and the confidence

    .. math:: \mathrm{acc}(B_m) = \frac{1}{W_m} \sum_{i \in B_m} w_i 1[\text{event}_i], \quad
        \mathrm{conf}(B_m) = \frac{1}{W_m} \sum_{i \in B_m} w_i\, \text{score}_i,

    where :math:`W_m = \sum_{i \in B_m} w_i`.

    Bins are closed on the right, and the first one also holds 0. Empty bins are left out.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels. With ``kind="multilabel"`` an indicator matrix, dense or sparse, of shape
        (n_samples, n_labels).
    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Probabilities: one column per class in the order of ``labels``, or for two classes the
        probability of ``pos_label`` alone. For a row-chunked Dask array, labels and weights must
        be Dask collections with the same chunks of rows, and bins of equal weight are bins of a
        random sample of at most a million rows. Tensors are copied to the host.
    n_bins : int, default=15
        Number of bins on [0, 1].
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal weight. In the latter ties share a bin, so there may be
        fewer than ``n_bins``.
    kind : {"auto", "top-label", "classwise", "binary", "multilabel"}, default="auto"
        The score, and the event that it predicts.

        - ``"auto"``: ``"binary"`` for two classes, and ``"top-label"`` for more.
        - ``"top-label"``: the largest probability of the row; the label is its class (the
          definition of [1]_, also for two classes).
        - ``"classwise"``: the probability of each class; the label is that class.
        - ``"binary"``: the probability of ``pos_label``; the label is that. Two classes only.
        - ``"multilabel"``: the probability of each of several labels, of which a row may have any
          number; the row has that label. Probabilities do not sum to one. Rows must be in memory.
    sample_weight : array-like of shape (n_samples,), default=None
        A weight of 2 is the row twice, a weight of 0 the row absent.
    labels : array-like of shape (n_classes,), default=None
        All labels in the order of the columns. Needed when ``y_true`` may lack some of them. By
        default the sorted labels in ``y_true``; with ``kind="multilabel"`` the names of the columns
        of a data frame, or their numbers.
    pos_label : label, default=None
        The class whose probability is the score of ``kind="binary"``, and the class of
        one-dimensional probabilities. By default the second of ``labels``.

    Returns
    -------
    ReliabilityCurve
        Arrays with one entry per bin.

    Raises
    ------
    ValueError
        If probabilities are outside [0, 1] or rows do not sum to one within 5e-3, if labels do
        not match the columns, if weights are negative or all zero, if lengths differ, or if an
        argument is invalid.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", ICML 2017,
       `arXiv:1706.04599 <https://arxiv.org/abs/1706.04599>`_, section 2.

    Examples
    --------
    >>> from skcalib.metrics import reliability_curve
    >>> curve = reliability_curve(
    ...     [0, 0, 1, 1], [0.1, 0.3, 0.35, 0.9], n_bins=2, kind="binary")
    >>> curve.accuracy.round(2).tolist(), curve.confidence.round(2).tolist()
    ([0.33, 1.0], [0.25, 0.9])
    """
    columns = columns_of(y_true, y_proba, kind, sample_weight, labels, pos_label)
    curves = curves_of(columns, n_bins, strategy)
    return concatenated(curves) if columns.kind in OF_EACH else next(curves)
