"""Reliability curves: the bins of scores, and what measures make of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, ndtr

from ._base import Floats
from ._columns import Columns
from ._events import Kind, check_option, columns_of
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


# --------------------------------------------------------------------------------------
# From labels and probabilities to sums per bin.


def mean_over_classes(
    curves: Iterator[ReliabilityCurve], measure: Callable[[ReliabilityCurve], Any]
) -> float:
    """Mean of a measure over the curves, one per class with ``kind="classwise"``, else one."""
    return float(np.mean([measure(curve) for curve in curves]))


def _share(curve: ReliabilityCurve) -> Floats:
    return curve.weight / curve.weight.sum()


# Measures of gaps and shares of bins along the last axis, in proportion to the gaps.


def _mean_gap(gap: Floats, share: Floats) -> Any:
    return np.sum(share * np.abs(gap), axis=-1)


def _largest_gap(gap: Floats, share: Floats) -> Any:  # noqa: ARG001
    return np.max(np.abs(gap), axis=-1)


def _root_mean_square_gap(gap: Floats, share: Floats) -> Any:
    return np.sqrt(np.sum(share * gap**2, axis=-1))


def _mean_gap_above(gap: Floats, share: Floats) -> Any:
    return np.sum(share * np.maximum(gap, 0), axis=-1)


def _mean_gap_below(gap: Floats, share: Floats) -> Any:
    return np.sum(share * np.maximum(-gap, 0), axis=-1)


OF_GAPS: dict[str, Callable[[Floats, Floats], Any]] = {
    "expected_calibration_error": _mean_gap,
    "maximum_calibration_error": _largest_gap,
    "root_mean_squared_calibration_error": _root_mean_square_gap,
    "overconfidence_error": _mean_gap_above,
    "underconfidence_error": _mean_gap_below,
}


def _of_curve(of_gaps: Callable[[Floats, Floats], Any]) -> Callable[[ReliabilityCurve], Any]:
    return lambda curve: of_gaps(curve.gap, _share(curve))


# Measures with their bias taken off need the number of rows as well.


def debiased_square(curve: ReliabilityCurve) -> Any:
    """Estimate of the mean squared gap without bias, which may be negative."""
    return np.sum(_share(curve) * (curve.gap**2 - _variance(curve, curve.n_effective - 1)))


def _debiased_root_mean_square(curve: ReliabilityCurve) -> Any:
    return np.sqrt(np.maximum(debiased_square(curve), 0))


def _debiased_mean_gap(curve: ReliabilityCurve) -> Any:
    deviation = np.sqrt(_variance(curve, curve.n_effective))
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(deviation > 0, np.abs(curve.gap) / deviation, np.inf)
    # The mean size of a normal variable about the gap, which resampling would estimate.
    size = np.abs(curve.gap) * (1 - 2 * ndtr(-z)) + deviation * np.sqrt(2 / np.pi) * np.exp(
        -(z**2) / 2
    )
    return max(np.sum(_share(curve) * (2 * np.abs(curve.gap) - size)), 0.0)


def _variance(curve: ReliabilityCurve, n: Floats) -> Floats:
    """Variance of the accuracy of bins, for so many rows; of a single row nothing is known."""
    spread = curve.accuracy * (1 - curve.accuracy)
    return np.divide(spread, n, out=np.zeros_like(spread), where=n > 0)


OF_BINS: dict[str, Callable[[ReliabilityCurve], Any]] = {
    **{name: _of_curve(of_gaps) for name, of_gaps in OF_GAPS.items()},
    "debiased_expected_calibration_error": _debiased_mean_gap,
    "debiased_root_mean_squared_calibration_error": _debiased_root_mean_square,
}


def curves_of(
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
    check_bins(n_bins, strategy)
    columns = columns_of(y_true, y_proba, kind, sample_weight, labels, pos_label)
    edges, sums = binned(columns, int(n_bins), strategy)
    return map(curve_of, columns.labels, edges, sums)


def joined(curves: Iterable[ReliabilityCurve]) -> ReliabilityCurve:
    """The bins of several classes as one."""
    columns = zip(*(vars(curve).values() for curve in curves), strict=True)
    return ReliabilityCurve(*map(np.concatenate, columns))


def check_bins(n_bins: Any, strategy: Any) -> None:
    """Raise a ValueError for a number of bins or a strategy that cannot be."""
    if isinstance(n_bins, bool) or not isinstance(n_bins, Integral) or n_bins < 1:
        raise ValueError(f"n_bins must be an integer of at least 1, got {n_bins!r}.")
    check_option("strategy", strategy, Strategy)


def curve_of(label: Any, edges: Floats, sums: Floats | BinSums) -> ReliabilityCurve:
    """The bins that hold any weight, from the rows of :class:`BinSums`."""
    filled = np.flatnonzero(BinSums(*sums).weight > 0)
    count, weight, weight_squared, hits, scores = (row[filled] for row in sums)
    return ReliabilityCurve(
        lower=edges[filled],
        upper=edges[filled + 1],
        n_samples=count,
        weight=weight,
        confidence=scores / weight,
        accuracy=hits / weight,
        n_effective=effective_rows(count, weight, weight_squared),
        label=None if label is None else np.full(len(weight), label),
    )


def effective_rows(count: Floats, weight: Floats, weight_squared: Floats) -> Floats:
    """Number of equally weighted rows that would fix the accuracy of bins as well."""
    # Squares underflow for weights below 1e-162: beside others of note, no measure feels them.
    known = weight_squared > 0
    return np.clip(
        np.divide(weight**2, weight_squared, out=count.copy(), where=known),
        np.minimum(count, 1),
        count,
    )


def edges_of(columns: Columns, n_bins: int, strategy: Strategy) -> list[Floats]:
    """Edges of the bins of each column; those of equal width are one array."""
    if strategy == "uniform":
        return [uniform_edges(n_bins)] * len(columns.labels)
    return columns.ranked(lambda rows: quantile_edges(rows, n_bins), events=False)


def binned(columns: Columns, n_bins: int, strategy: Strategy) -> tuple[list[Floats], Floats]:
    """Edges of the bins of each column, and what is in them: shape (n_columns, 5, n_bins)."""
    edges = edges_of(columns, n_bins, strategy)
    of_all = edges[0] if strategy == "uniform" else edges
    return edges, columns.sums(partial(bin_sums, edges=of_all, n_bins=n_bins))
