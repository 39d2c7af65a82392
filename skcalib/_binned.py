"""Measures over bins, and the bins themselves.

Every measure reduces the rows to sums per bin first and is one line after that. All take the
same arguments, described once in :func:`reliability_curve`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from ._base import Floats, Indices
from ._events import Events, Kind, check_input, check_option, scored
from ._rows import sum_rows
from ._steps import BinSums, bin_sums, quantile_edges, uniform_edges

Strategy = Literal["uniform", "quantile"]


@dataclass(frozen=True)
class ReliabilityCurve:
    """The bins of a reliability diagram, one entry per bin that holds any weight.

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
        Share of the rows whose event happened.
    n_effective : ndarray of shape (n,)
        ``sum(w)**2 / sum(w**2)``, the number of equally weighted rows that would fix the
        accuracy as well as these do; ``n_samples`` without weights.
    label : ndarray of shape (n,) or None
        With ``kind="classwise"`` the class each bin belongs to, else None.
    """

    lower: Floats
    upper: Floats
    n_samples: Floats
    weight: Floats
    confidence: Floats
    accuracy: Floats
    n_effective: Floats
    label: NDArray[Any] | None = None

    @property
    def gap(self) -> Floats:
        """Confidence less accuracy, positive where the model is over-confident."""
        return self.confidence - self.accuracy

    def interval(self, confidence_level: float = 0.95) -> tuple[Floats, Floats]:
        """Clopper-Pearson interval of the accuracy of each bin.

        Parameters
        ----------
        confidence_level : float, default=0.95
            Between 0 and 1.

        Returns
        -------
        low, high : ndarray of shape (n,)
            Ends of the interval. With weights the effective number of rows takes the place of
            the number of rows.

        References
        ----------
        .. [1] Clopper, Pearson, "The use of confidence or fiducial limits illustrated in the
           case of the binomial", Biometrika 26, 1934.
        """
        if not 0 < confidence_level < 1:
            raise ValueError(
                f"confidence_level must lie between 0 and 1, got {confidence_level!r}."
            )
        tail = (1 - confidence_level) / 2
        n, hits = self.n_effective, self.accuracy * self.n_effective
        misses = n - hits
        # The quantile of a beta distribution with a parameter of zero is an end of [0, 1].
        none, all_ = self.accuracy <= 0, self.accuracy >= 1
        low = betaincinv(np.where(none, 1, hits), misses + 1, tail)
        high = betaincinv(hits + 1, np.where(all_, 1, misses), 1 - tail)
        return np.where(none, 0.0, low), np.where(all_, 1.0, high)


def reliability_curve(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    kind: Kind = "top-label",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
) -> ReliabilityCurve:
    r"""Accuracy and confidence per bin of a score.

    The rows are put into bins :math:`B_m` by a score, and compared there:

    .. math:: \mathrm{acc}(B_m) = \frac{1}{W_m} \sum_{i \in B_m} w_i 1[\text{event}_i], \quad
        \mathrm{conf}(B_m) = \frac{1}{W_m} \sum_{i \in B_m} w_i\, \text{score}_i, \quad
        W_m = \sum_{i \in B_m} w_i .

    Bins are closed on the right, and the first one also holds 0. Empty bins are left out.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels.
    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Probabilities: one column per class in the order of ``labels``, or for two classes the
        probability of ``pos_label`` alone.
    n_bins : int, default=15
        Number of bins on [0, 1].
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal weight. The latter never tear equal scores apart, so
        there may be fewer than ``n_bins``.
    kind : {"top-label", "classwise", "binary"}, default="top-label"
        What the score and the event are.

        - ``"top-label"``: the largest probability of the row; the class it belongs to is right
          (the definition of [1]_, also for two classes).
        - ``"classwise"``: every column in turn; the label is that class.
        - ``"binary"``: the probability of ``pos_label``; the label is that. Two classes only.
    sample_weight : array-like of shape (n_samples,), default=None
        A weight of 2 is the row twice, a weight of 0 the row absent.
    labels : array-like of shape (n_classes,), default=None
        All labels in the order of the columns. Needed when ``y_true`` may lack some of them. By
        default the sorted labels in ``y_true``.
    pos_label : label, default=None
        The class whose probability is the score of ``kind="binary"``, and which one-dimensional
        probabilities belong to. By default the second of ``labels``.

    Returns
    -------
    ReliabilityCurve
        The bins as arrays.

    Raises
    ------
    ValueError
        If probabilities are outside [0, 1] or rows do not sum to one within 1e-3, if labels do
        not fit the columns, if weights are negative or all zero, if lengths differ, or if an
        argument is none of those listed.

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
    curves = _curves(y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label)
    if kind != "classwise":
        return next(curves)
    columns = zip(*(vars(curve).values() for curve in curves), strict=True)
    return ReliabilityCurve(*map(np.concatenate, columns))


def expected_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    kind: Kind = "top-label",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    r"""Expected calibration error (ECE): the mean gap between confidence and accuracy.

    .. math:: \mathrm{ECE} = \sum_m \frac{W_m}{N}
        \left| \mathrm{acc}(B_m) - \mathrm{conf}(B_m) \right|

    With few rows per bin it is biased upwards: even a calibrated model has a positive ECE. It is
    no criterion for choosing a model, since predicting the base rate for every row makes it 0.

    Parameters
    ----------
    y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label
        As for :func:`reliability_curve`. With ``kind="classwise"`` the result is the mean over
        the classes.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", ICML 2017,
       `arXiv:1706.04599 <https://arxiv.org/abs/1706.04599>`_, equation (3).
    .. [2] Naeini, Cooper, Hauskrecht, "Obtaining Well Calibrated Probabilities Using Bayesian
       Binning", AAAI 2015.

    Examples
    --------
    >>> from skcalib.metrics import expected_calibration_error
    >>> y_proba = [[0.9, 0.1, 0.0], [0.9, 0.0, 0.1], [0.2, 0.7, 0.1], [0.0, 0.4, 0.6]]
    >>> round(expected_calibration_error([0, 1, 1, 2], y_proba), 3)
    0.375
    """
    curves = _curves(y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label)
    return _mean(curves, lambda gap, share: np.sum(share * gap))


def maximum_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    kind: Kind = "top-label",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    r"""Maximum calibration error (MCE): the largest gap between confidence and accuracy.

    .. math:: \mathrm{MCE} = \max_m \left| \mathrm{acc}(B_m) - \mathrm{conf}(B_m) \right|

    The maximum is over the bins that hold any weight, however little: a bin with one row can
    decide it.

    Parameters
    ----------
    y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label
        As for :func:`reliability_curve`. With ``kind="classwise"`` the result is the mean over
        the classes.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", ICML 2017,
       `arXiv:1706.04599 <https://arxiv.org/abs/1706.04599>`_, equation (5).

    Examples
    --------
    >>> from skcalib.metrics import maximum_calibration_error
    >>> y_proba = [[0.9, 0.1, 0.0], [0.9, 0.0, 0.1], [0.2, 0.7, 0.1], [0.0, 0.4, 0.6]]
    >>> round(maximum_calibration_error([0, 1, 1, 2], y_proba), 3)
    0.4
    """
    curves = _curves(y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label)
    return _mean(curves, lambda gap, _: np.max(gap))


def root_mean_squared_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    kind: Kind = "top-label",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    r"""Root mean squared calibration error (RMSCE): the quadratic mean of the gaps.

    .. math:: \mathrm{RMSCE} = \sqrt{\sum_m \frac{W_m}{N}
        \left( \mathrm{acc}(B_m) - \mathrm{conf}(B_m) \right)^2}

    Always ECE <= RMSCE <= MCE.

    Parameters
    ----------
    y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label
        As for :func:`reliability_curve`. With ``kind="classwise"`` the result is the mean over
        the classes.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`.

    References
    ----------
    .. [1] Kumar, Liang, Ma, "Verified Uncertainty Calibration", NeurIPS 2019,
       `arXiv:1909.10155 <https://arxiv.org/abs/1909.10155>`_, section 2.

    Examples
    --------
    >>> from skcalib.metrics import root_mean_squared_calibration_error
    >>> y_proba = [[0.9, 0.1, 0.0], [0.9, 0.0, 0.1], [0.2, 0.7, 0.1], [0.0, 0.4, 0.6]]
    >>> round(root_mean_squared_calibration_error([0, 1, 1, 2], y_proba), 3)
    0.377
    """
    curves = _curves(y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label)
    return _mean(curves, lambda gap, share: np.sqrt(np.sum(share * gap**2)))


# --------------------------------------------------------------------------------------
# From labels and probabilities to sums per bin.


def _mean(curves: Iterator[ReliabilityCurve], measure: Callable[[Floats, Floats], Any]) -> float:
    """Mean over the curves of a measure of the sizes of the gaps and the shares of the bins."""
    values = [measure(np.abs(c.gap), c.weight / c.weight.sum()) for c in curves]
    return float(np.mean(values))


def _curves(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    n_bins: int,
    strategy: Strategy,
    kind: Kind,
    sample_weight: ArrayLike | None,
    labels: ArrayLike | None,
    pos_label: Any,
) -> Iterator[ReliabilityCurve]:
    """One curve, or with ``kind="classwise"`` one for every column."""
    if isinstance(n_bins, bool) or not isinstance(n_bins, Integral) or n_bins < 1:
        raise ValueError(f"n_bins must be an integer of at least 1, got {n_bins!r}.")
    check_option("strategy", strategy, Strategy)
    check_option("kind", kind, Kind)
    y, P, w, classes = check_input(y_true, y_proba, sample_weight, labels, pos_label)
    return (
        _curve(label, *_bin_rows(events, (y, scores, w), int(n_bins), strategy))
        for label, events, scores in scored(P, classes, kind, pos_label)
    )


def _curve(label: Any, edges: Floats, sums: BinSums) -> ReliabilityCurve:
    filled = sums.weight > 0
    count, weight, weight_squared, hits, scores = (column[filled] for column in sums)
    return ReliabilityCurve(
        lower=edges[:-1][filled],
        upper=edges[1:][filled],
        n_samples=count,
        weight=weight,
        confidence=scores / weight,
        accuracy=hits / weight,
        n_effective=weight**2 / weight_squared,
        label=None if label is None else np.full(len(weight), label),
    )


def _bin_rows(
    events: Events,
    rows: tuple[Indices, Floats, Floats | None],
    n_bins: int,
    strategy: Strategy,
) -> tuple[Floats, BinSums]:
    y, P, w = rows
    if strategy == "uniform":
        edges = uniform_edges(n_bins)
    else:
        edges = quantile_edges(events(y, P)[0], w, n_bins)

    def block(y: Indices, P: Floats, w: Floats | None) -> Floats:
        return bin_sums(*events(y, P), w, edges)

    return edges, BinSums(*sum_rows(block, y, P, w))
