"""A reliability curve that is updated in batches, with its measures and an alarm."""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skcalib._rows import Array, ArrayLike, Floats, namespace
from skcalib._scores.bins import BinSums, bin_sums, uniform_edges
from skcalib._validation.inputs import check_option, check_real
from skcalib._validation.labels import exact, resolve_classes
from skcalib._version import Versioned
from skcalib.display import ReliabilityDisplay
from skcalib.metrics import ReliabilityCurve, reliability_curve
from skcalib.metrics._calibration_error import FORMULAS
from skcalib.metrics._curve import concatenated, curve_of
from skcalib.metrics._input import Kind, check_kind, columns_of, resolved

from ._drift import Bets, SequentialTest, bet_on, e_value, together

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class CalibrationMonitor(SequentialTest, Versioned):
    r"""Reliability curve of a stream of batches, in constant memory.

    Count, weight, hits and scores of a bin are sums over its rows, so those of batches are added:

    .. math:: \mathrm{acc}(B_m) = \frac{\sum_b H_{bm}}{\sum_b W_{bm}}, \quad
        \mathrm{conf}(B_m) = \frac{\sum_b S_{bm}}{\sum_b W_{bm}},

    with :math:`W_{bm}` the weight, :math:`H_{bm}` the weight of the hits, and :math:`S_{bm}` the
    weighted sum of the scores of the rows of batch b in bin m. Up to rounding, the results are
    those of the measures of all rows at once, whatever the batches and their order. Monitors with
    the same arguments are added with ``+`` and ``sum``.

    A sequential test of calibration, by betting [1]_ [2]_, raises an alarm. For a bin with weight
    W, hits H and mean score s in a batch, the factor

    .. math:: \exp(\delta H) \,/\, \big( 1 + s (e^\delta - 1) \big)^W

    has an expected value of at most 1 if the probabilities are calibrated, whatever happened
    before. The e-value is a mixture of products of such factors over 16 shifts :math:`\delta` of
    the log-odds, over single bins, all bins and both halves of the bins in opposite directions, and
    over the row from which on rows count. The probability that it ever reaches 20 is at most 5 %
    (Ville's inequality), however often one looks.

    Parameters
    ----------
    n_bins : int, default=15
        Number of bins of equal width on [0, 1]. There are no quantile bins, since their edges
        depend on all rows.
    kind : {"auto", "top-label", "classwise", "binary"}, default="auto"
        The score and the event, as for :func:`skcalib.metrics.reliability_curve`.
    labels : array-like of shape (n_classes,)
        All labels in the order of the columns. A batch may lack some of them.
    pos_label : label, default=None
        The class whose probability is the score of ``kind="binary"``, and the class of
        one-dimensional probabilities. By default the second of ``labels``.
    alarm_level : float, default=0.05
        Largest probability of ever raising a false alarm.
    tolerance : float, default=0.0
        Difference between the accuracy and the confidence of a bin that is no reason for an alarm.
        With 0 any miscalibration raises an alarm at some time, also that of a calibrator that was
        fitted to few rows.

    Attributes
    ----------
    n_bins : int
        Number of bins.
    kind : str
        The score and the event, never "auto".
    labels : ndarray of shape (n_classes,)
        Labels in the order of the columns.
    pos_label : label or None
        As given.
    alarm_level : float
        Largest probability of a false alarm.
    tolerance : float
        Difference that is no reason for an alarm.

    Raises
    ------
    ValueError
        If an argument is invalid, if ``labels`` is None or has duplicates, or if ``kind="binary"``
        is used with more than two labels.

    See Also
    --------
    DriftMonitor : Drift of the predictions, for which no labels are needed.

    Notes
    -----
    The test assumes that the labels of a batch are independent given its probabilities. In the test
    weights are divided by the largest one of their batch, since a row with a large weight is not as
    good as independent rows: a weight of 2 is the row twice in all measures, but not in the test,
    in which that of a batch of a single row does not matter.

    The e-value of a sum is that of the rows of both monitors, as if they had come at the same time,
    and its alarm begins anew: alarms of its parts are not taken over, as several monitors have
    several false alarms. It is weaker than the e-value of one monitor of all rows, which knows that
    a drift of the first rows is one of the last.

    References
    ----------
    .. [1] Arnold, Henzi, Ziegel, "Sequentially valid tests for forecast calibration", Annals of
       Applied Statistics 17, 2023, `arXiv:2109.11761 <https://arxiv.org/abs/2109.11761>`_.
    .. [2] Waudby-Smith, Ramdas, "Estimating means of bounded random variables by betting", Journal
       of the Royal Statistical Society B 86, 2024, `arXiv:2010.09686
       <https://arxiv.org/abs/2010.09686>`_.

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

    labels: Array
    _sums: Floats  #: of all rows, as :class:`BinSums` (n_curves, 5, n_bins)

    def __init__(
        self,
        *,
        n_bins: int = 15,
        kind: Kind = "auto",
        labels: ArrayLike,
        pos_label: Any = None,
        alarm_level: float = 0.05,
        tolerance: float = 0.0,
    ) -> None:
        if labels is None:
            raise ValueError(
                "labels must name all labels in column order, got None. A batch may lack some of "
                "them, so they cannot be inferred from it."
            )
        labels = np.array(exact(labels, "labels"))  # a copy, so that the caller cannot change it
        check_kind(kind, ["auto", "top-label", "classwise", "binary"])
        width = labels.size
        if width < 2:
            raise ValueError(f"labels must name at least two labels, got {labels.tolist()!r}.")
        resolve_classes(labels, width, labels, proba=True)
        # Validates the other arguments with a single row, as each batch does.
        row = labels[:1], np.full((1, width), 1 / width)
        reliability_curve(*row, n_bins=n_bins, kind=kind, labels=labels, pos_label=pos_label)
        check_real("alarm_level", alarm_level, high=1)
        check_real("tolerance", tolerance, high=1, closed=True)
        self.n_bins = int(n_bins)
        self.kind = resolved(kind, labels)
        self.labels = labels
        self.pos_label = pos_label
        self.alarm_level = float(alarm_level)
        self.tolerance = float(tolerance)
        self.reset()

    def update(
        self, y_true: ArrayLike, y_proba: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add the sums of a batch of rows, and bet on it; after an error nothing is changed.

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
        if np.shape(y_proba)[:1] == np.shape(y_true)[:1] == (0,):
            return self  # a batch without rows
        columns = columns_of(y_true, y_proba, self.kind, sample_weight, self.labels, self.pos_label)
        edges = uniform_edges(self.n_bins)
        sums = columns.sums(partial(bin_sums, edges=edges, n_bins=self.n_bins))
        # One-dimensional probabilities of the first label reverse the order of the two classes.
        sums = sums[::-1] if columns.labels[0] != self.labels[0] else sums
        # Factors of rows with weights of at most 1 have an expected value of at most 1.
        weighted = columns.rows.w is not None
        largest = float(columns.rows.sum(_largest_weight, merge=np.maximum)) if weighted else 1.0
        bets, n_before = Bets(self._capital, self._reserve), self.n_samples
        # Not in place: a shallow copy of the monitor shares the arrays.
        self._sums = self._sums + sums
        bets = bet_on(bets, sums / largest, n_before, self.n_samples - n_before, self.tolerance)
        self._store(bets, e_value(bets.capital), self.n_samples)
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
        total = copy(self)
        total._sums = self._sums + other._sums
        bets = together(Bets(self._capital, self._reserve), Bets(other._capital, other._reserve))
        total._start(bets, e_value(bets.capital), total.n_samples)
        return total

    def __radd__(self, other: Any) -> Self:
        # ``sum(monitors)`` starts with 0. A copy, so that the sum is a new object.
        return copy(self) if type(other) is int and other == 0 else NotImplemented

    def reset(self) -> Self:
        """Remove all rows, and begin a new test, with a new probability of a false alarm.

        Returns
        -------
        CalibrationMonitor
            The monitor itself, without rows.

        Examples
        --------
        >>> from skcalib.monitor import CalibrationMonitor
        >>> CalibrationMonitor(labels=[0, 1]).update([0, 1], [0.1, 0.7]).reset()
        CalibrationMonitor(n_bins=15, kind='binary', n_samples=0)
        """
        n_curves = len(self.labels) if self.kind == "classwise" else 1
        self._sums = np.zeros((n_curves, len(BinSums._fields), self.n_bins))
        # For each curve the bets on each bin, on all bins, and on both halves of the bins.
        self._start(Bets.new(n_curves, self.n_bins + 2))
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
        return ReliabilityDisplay(self.curve()).plot(ax, **params)

    def _curves(self) -> list[ReliabilityCurve]:
        """One curve, or with ``kind="classwise"`` one for every label."""
        if self.n_samples == 0:
            raise ValueError("The monitor has no samples yet; call update first.")
        edges = uniform_edges(self.n_bins)
        labels = self.labels if self.kind == "classwise" else [None]
        return [
            curve_of(label, edges, sums, kind=self.kind)
            for label, sums in zip(labels, self._sums, strict=True)
        ]

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(n_bins={self.n_bins}, kind={self.kind!r}, "
            f"n_samples={self.n_samples}{', alarm=True' * self.alarm})"
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
            "alarm_level": self.alarm_level,
            "tolerance": self.tolerance,
        }


def _largest_weight(P: Floats, y: Any, w: Floats) -> Any:  # noqa: ARG001
    return namespace(w).max(w)
