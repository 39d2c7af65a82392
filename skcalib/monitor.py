"""A reliability curve that is updated in batches, for a classifier in production."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._scores.bins import BinSums, uniform_edges
from ._typing import Array
from ._validation.classes import resolve_classes
from ._validation.labels import exact
from ._validation.parameters import check_option
from ._version import Versioned
from .display import ReliabilityDisplay
from .metrics import ReliabilityCurve, reliability_curve
from .metrics._calibration_error import OF_BINS, mean_over_classes
from .metrics._curve import binned, concatenated, curve_of
from .metrics._input import Kind, check_input, scored

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CalibrationMonitor"]


class CalibrationMonitor(Versioned):
    r"""Reliability curve of a stream of batches, in constant memory.

    Count, weight, hits and scores of a bin are sums over its rows, so those of batches are added:

    .. math:: \mathrm{acc}(B_m) = \frac{\sum_b H_{bm}}{\sum_b W_{bm}}, \quad
        \mathrm{conf}(B_m) = \frac{\sum_b S_{bm}}{\sum_b W_{bm}},

    with :math:`W_{bm}` the weight, :math:`H_{bm}` the weight of the hits, and :math:`S_{bm}` the
    weighted sum of the scores of the rows of batch b in bin m. Up to rounding, the results are
    those of the measures of all rows at once, whatever the batches and their order. Monitors with
    the same arguments are added with ``+`` and ``sum``.

    Parameters
    ----------
    n_bins : int, default=15
        Number of bins of equal width on [0, 1]. There are no quantile bins, since their edges
        depend on all rows.
    kind : {"top-label", "classwise", "binary"}, default="top-label"
        The score and the event, as for :func:`skcalib.metrics.reliability_curve`.
    labels : array-like of shape (n_classes,)
        All labels in the order of the columns. A batch may lack some of them.
    pos_label : label, default=None
        The class whose probability is the score of ``kind="binary"``, and the class of
        one-dimensional probabilities. By default the second of ``labels``.

    Attributes
    ----------
    n_bins : int
        Number of bins.
    kind : str
        The score and the event.
    labels : ndarray of shape (n_classes,)
        Labels in the order of the columns.
    pos_label : label or None
        As given.

    Raises
    ------
    ValueError
        If an argument is invalid, if ``labels`` is None or has duplicates, or if ``kind="binary"``
        is used with more than two labels.

    Examples
    --------
    >>> from skcalib.datasets import make_logits
    >>> from skcalib.metrics import expected_calibration_error
    >>> from skcalib.monitor import CalibrationMonitor
    >>> _, y, proba = make_logits(2000, 3, return_proba=True, random_state=0)
    >>> first = CalibrationMonitor(labels=range(3)).update(y[:1200], proba[:1200])
    >>> first
    CalibrationMonitor(n_bins=15, kind='top-label', n_samples=1200)
    >>> second = CalibrationMonitor(labels=range(3)).update(y[1200:], proba[1200:])
    >>> both = first + second
    >>> error = expected_calibration_error(y, proba)
    >>> abs(both.expected_calibration_error() - error) < 1e-12
    True
    """

    n_bins: int
    kind: Kind
    labels: Array
    pos_label: Any
    _sums: NDArray[np.float64]

    def __init__(
        self,
        *,
        n_bins: int = 15,
        kind: Kind = "top-label",
        labels: ArrayLike,
        pos_label: Any = None,
    ) -> None:
        if labels is None:
            raise ValueError(
                "labels must name all labels in column order, got None. A batch may lack some of "
                "them, so they cannot be inferred from it."
            )
        labels = np.array(exact(labels, "labels"))  # a copy, so that the caller cannot change it
        width = labels.size
        if width < 2:
            raise ValueError(f"labels must name at least two labels, got {labels.tolist()!r}.")
        resolve_classes(np.array([]), width, labels, name="labels")
        # Validates the other arguments with a single row, as each batch does.
        row = labels[:1], np.full((1, width), 1 / width)
        reliability_curve(*row, n_bins=n_bins, kind=kind, labels=labels, pos_label=pos_label)
        self.n_bins = int(n_bins)
        self.kind = kind
        self.labels = labels
        self.pos_label = pos_label
        self.reset()

    def update(
        self, y_true: ArrayLike, y_proba: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add the sums of a batch of rows; after an error the monitor is unchanged.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Labels.
        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Probabilities: one column per class in the order of ``labels``, or for two classes
            the probability of ``pos_label`` alone. With scikit-learn's ``array_api_dispatch`` they
            may be a tensor.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of 2 is the row twice, a weight of 0 the row absent.

        Returns
        -------
        CalibrationMonitor
            The monitor itself.

        Raises
        ------
        ValueError
            As :func:`skcalib.metrics.reliability_curve`; also for a batch without rows or
            without weight.

        Examples
        --------
        >>> from skcalib.monitor import CalibrationMonitor
        >>> monitor = CalibrationMonitor(labels=["ham", "spam"], kind="binary")
        >>> monitor.update(["ham", "spam"], [0.1, 0.7]).update(["ham"], [0.2]).n_samples
        3
        """
        rows, classes = check_input(y_true, y_proba, sample_weight, self.labels, self.pos_label)
        columns = scored(rows, classes, self.kind, self.pos_label)
        _, sums = binned(columns, self.n_bins, "uniform")
        # One-dimensional probabilities of the first label reverse the order of the two classes.
        reversed_ = classes[0] != self.labels[0]
        # Not in place: a shallow copy of the monitor shares the array.
        self._sums = self._sums + (sums[::-1] if reversed_ else sums)
        return self

    def __add__(self, other: Any) -> Self:
        if not isinstance(other, CalibrationMonitor):
            return NotImplemented
        ours, theirs = self._arguments(), other._arguments()
        differing = [name for name in ours if ours[name] != theirs[name]]
        if differing:
            found = "; ".join(f"{name} {ours[name]!r} and {theirs[name]!r}" for name in differing)
            raise ValueError(
                f"Monitors must have the same arguments to be added, got different ones: {found}. "
                "Create both with the same arguments and update them again."
            )
        total = type(self)(
            n_bins=self.n_bins, kind=self.kind, labels=self.labels, pos_label=self.pos_label
        )
        total._sums = self._sums + other._sums
        return total

    def __radd__(self, other: Any) -> Self:
        # ``sum(monitors)`` starts with 0. A copy, so that the sum is a new object.
        return copy(self) if type(other) is int and other == 0 else NotImplemented

    def reset(self) -> Self:
        """Remove all rows.

        Returns
        -------
        CalibrationMonitor
            The monitor itself, without rows.

        Examples
        --------
        >>> from skcalib.monitor import CalibrationMonitor
        >>> CalibrationMonitor(labels=[0, 1]).update([0, 1], [0.1, 0.7]).reset()
        CalibrationMonitor(n_bins=15, kind='top-label', n_samples=0)
        """
        n_curves = len(self.labels) if self.kind == "classwise" else 1
        self._sums = np.zeros((n_curves, len(BinSums._fields), self.n_bins))
        return self

    @property
    def n_samples(self) -> int:
        """Number of rows so far, without those of weight 0."""
        return int(BinSums(*self._sums[0]).n_samples.sum())

    def curve(self) -> ReliabilityCurve:
        """Accuracy and confidence per bin of all rows so far.

        Returns
        -------
        ReliabilityCurve
            As of :func:`skcalib.metrics.reliability_curve` with the uniform strategy. With
            ``kind="classwise"`` the classes are in the order of ``labels``.

        Raises
        ------
        ValueError
            If there are no rows yet.

        Examples
        --------
        >>> from skcalib.monitor import CalibrationMonitor
        >>> monitor = CalibrationMonitor(n_bins=2, kind="binary", labels=[0, 1])
        >>> curve = monitor.update([0, 0], [0.1, 0.3]).update([1, 1], [0.35, 0.9]).curve()
        >>> curve.accuracy.round(2).tolist(), curve.confidence.round(2).tolist()
        ([0.33, 1.0], [0.25, 0.9])
        """
        curves = self._curves()
        if self.kind != "classwise":
            return curves[0]
        return concatenated(curves)

    def expected_calibration_error(self) -> float:
        r"""Expected calibration error (ECE) of all rows so far.

        .. math:: \mathrm{ECE} = \sum_m \frac{W_m}{N}
            \left| \mathrm{acc}(B_m) - \mathrm{conf}(B_m) \right|

        Returns
        -------
        float
            As of :func:`skcalib.metrics.expected_calibration_error`.

        Raises
        ------
        ValueError
            If there are no rows yet.

        Examples
        --------
        >>> from skcalib.monitor import CalibrationMonitor
        >>> monitor = CalibrationMonitor(kind="binary", labels=[0, 1])
        >>> round(monitor.update([0, 1], [0.1, 0.7]).expected_calibration_error(), 3)
        0.2
        """
        return self.measure("expected_calibration_error")

    def maximum_calibration_error(self) -> float:
        r"""Maximum calibration error (MCE) of all rows so far.

        .. math:: \mathrm{MCE} = \max_m \left| \mathrm{acc}(B_m) - \mathrm{conf}(B_m) \right|

        Returns
        -------
        float
            As of :func:`skcalib.metrics.maximum_calibration_error`.

        Raises
        ------
        ValueError
            If there are no rows yet.

        Examples
        --------
        >>> from skcalib.monitor import CalibrationMonitor
        >>> monitor = CalibrationMonitor(kind="binary", labels=[0, 1])
        >>> round(monitor.update([0, 1], [0.1, 0.7]).maximum_calibration_error(), 3)
        0.3
        """
        return self.measure("maximum_calibration_error")

    def root_mean_squared_calibration_error(self) -> float:
        r"""Root mean squared calibration error (RMSCE) of all rows so far.

        .. math:: \mathrm{RMSCE} = \sqrt{\sum_m \frac{W_m}{N}
            \left( \mathrm{acc}(B_m) - \mathrm{conf}(B_m) \right)^2}

        Returns
        -------
        float
            As of :func:`skcalib.metrics.root_mean_squared_calibration_error`.

        Raises
        ------
        ValueError
            If there are no rows yet.

        Examples
        --------
        >>> from skcalib.monitor import CalibrationMonitor
        >>> monitor = CalibrationMonitor(kind="binary", labels=[0, 1])
        >>> round(monitor.update([0, 1], [0.1, 0.7]).root_mean_squared_calibration_error(), 3)
        0.224
        """
        return self.measure("root_mean_squared_calibration_error")

    def measure(self, name: str) -> float:
        """Any binned measure of all rows so far.

        Parameters
        ----------
        name : str
            Name of a binned measure of :mod:`skcalib.metrics`, such as
            ``"overconfidence_error"`` or ``"debiased_expected_calibration_error"``.

        Returns
        -------
        float
            As of the function of this name.

        Raises
        ------
        ValueError
            If there is no measure of this name, or there are no rows yet.

        Examples
        --------
        >>> from skcalib.monitor import CalibrationMonitor
        >>> monitor = CalibrationMonitor(kind="binary", labels=[0, 1])
        >>> round(monitor.update([0, 1], [0.1, 0.7]).measure("underconfidence_error"), 3)
        0.15
        """
        check_option("name", name, OF_BINS)
        return mean_over_classes(iter(self._curves()), OF_BINS[name])

    def plot(self, ax: Axes | None = None, **params: Any) -> ReliabilityDisplay:
        """Draw the reliability diagram of all rows so far.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        **params
            Passed to :meth:`skcalib.ReliabilityDisplay.plot`, such as ``name`` and ``style``.

        Returns
        -------
        ReliabilityDisplay
            The display with the diagram drawn.

        Raises
        ------
        ValueError
            If there are no rows yet, or with ``kind="classwise"``, which has one score per class.

        Examples
        --------
        >>> from skcalib.monitor import CalibrationMonitor
        >>> monitor = CalibrationMonitor(kind="binary", labels=[0, 1])
        >>> display = monitor.update([0, 1], [0.1, 0.7]).plot(name="Two rows")
        >>> [float(bar.get_height()) for bar in display.bars_]
        [0.0, 1.0]
        """
        if self.kind == "classwise":
            raise ValueError(
                "A diagram shows one score, got kind='classwise', which has one per class. Pass "
                "y_true == label and y_proba[:, k] to a monitor with kind='binary' for the "
                "diagram of a class."
            )
        return ReliabilityDisplay(self.curve(), kind=self.kind).plot(ax, **params)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(n_bins={self.n_bins}, kind={self.kind!r}, "
            f"n_samples={self.n_samples})"
        )

    def _arguments(self) -> dict[str, Any]:
        """The arguments that must be equal for monitors to be added."""
        labels = self.labels.tolist()
        return {
            "n_bins": self.n_bins,
            "kind": self.kind,
            "labels": labels,
            # None and the second label, the default, are the same.
            "pos_label": labels[1] if self.pos_label is None else self.pos_label,
        }

    def _curves(self) -> list[ReliabilityCurve]:
        """One curve, or with ``kind="classwise"`` one for every label."""
        if self.n_samples == 0:
            raise ValueError("The monitor has no samples yet; call update first.")
        edges = uniform_edges(self.n_bins)
        labels = self.labels if self.kind == "classwise" else [None]
        return [
            curve_of(label, edges, sums) for label, sums in zip(labels, self._sums, strict=True)
        ]
