"""Measures of calibration from sums of bins that have been added up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skcalib._rows.arrays import Array, Floats
from skcalib._scores.bins import BinSums, uniform_edges
from skcalib._validation.inputs import check_option
from skcalib.display import ReliabilityDisplay
from skcalib.metrics import ReliabilityCurve
from skcalib.metrics._calibration_error import FORMULAS
from skcalib.metrics._curve import concatenated, curve_of
from skcalib.metrics._input import Kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class BinnedMeasures:
    """Mixin with the measures of the rows whose sums are in ``_sums`` (n_curves, 5, n_bins)."""

    n_bins: int
    kind: Kind
    labels: Array
    _sums: NDArray[np.float64]

    @property
    def n_samples(self) -> int:
        """Number of rows so far, without those of weight 0."""
        return number_of_rows(self._sums)

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
        check_option("name", name, FORMULAS)
        return float(np.mean([*map(FORMULAS[name], self._curves())]))

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

    def _curves(self) -> list[ReliabilityCurve]:
        """One curve, or with ``kind="classwise"`` one for every label."""
        if self.n_samples == 0:
            raise ValueError("The monitor has no samples yet; call update first.")
        edges = uniform_edges(self.n_bins)
        labels = self.labels if self.kind == "classwise" else [None]
        return [
            curve_of(label, edges, sums) for label, sums in zip(labels, self._sums, strict=True)
        ]


def number_of_rows(sums: Floats) -> int:
    """Number of rows of :class:`BinSums` (n_curves, 5, n_bins)."""
    return int(BinSums(*sums[0]).n_samples.sum())
