"""A reliability curve that is updated in batches, with its measures and an alarm."""

from __future__ import annotations

import warnings
from hashlib import blake2b
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from skcalib._input.arrays import as_array, on_host
from skcalib._input.classes import resolve_classes
from skcalib._input.groups import check_groups
from skcalib._input.labels import encode, exact
from skcalib._input.logits import check_weights
from skcalib._input.measures import check_kind, resolved
from skcalib._input.parameters import check_option, check_real
from skcalib._typing import Array, ArrayLike, Bools, Floats, Kind
from skcalib._version import Versioned
from skcalib._warnings import ColumnOrderWarning, warn
from skcalib.metrics import ReliabilityCurve, reliability_curve
from skcalib.metrics._calibration_error import FORMULAS

from ._bets import Bets, Capital, bet_on, bet_weights, bin_sides, e_value

# The share of new groups is judged from this number of groups on.
FEW_GROUPS = 10


Hashes = NDArray[np.uint64]

# Upper bound for the number of groups in the memory, at 8 bytes each.
MAX_GROUPS = 1_000_000


class CalibrationMonitor(Versioned):
    r"""Reliability curve of a stream of batches in limited memory, with an alarm.

    The monitor stores sums for each bin: number of rows, weight, hits and scores. Up to rounding,
    all results equal the measures of all rows at once.

    A sequential test of calibration by betting [1]_ [2]_ raises an alarm. For a bin with weight W,
    hits H and mean score s in a batch, the factor

    .. math:: \exp(\delta H) \,/\, \big( 1 + s (e^\delta - 1) \big)^W

    has an expected value of at most 1, conditional on all earlier batches, if the probabilities are
    calibrated. The e-value is a mixture of products of these factors. It mixes 16 shifts
    :math:`\delta` of the log-odds, the first row of the bets, and the bins that they are on: single
    bins, all bins, and both halves in opposite directions. The probability that the e-value ever
    reaches 20 is at most 5 % (Ville's inequality), for any number of batches.

    Parameters
    ----------
    labels : array-like of shape (n_classes,)
        All labels in column order. A batch may lack some of them.
    n_bins : int or array-like, default=15
        Number of bins of equal width on [0, 1], or edges that increase from 0 to 1. There are no
        quantile bins and no ``"cube_root"``, since these depend on all rows.
    kind : {"auto", "top-label", "classwise", "binary"}, default="auto"
        The score and the event, as for :func:`skcalib.metrics.reliability_curve`.
    pos_label : label, default=None
        The class of the score for ``kind="binary"``, and for one-dimensional probabilities. By
        default the second label.
    confidence_level : float, default=0.95
        Probability that no false alarm is ever raised.
    tolerance : float, default=0.0
        Difference between the accuracy and the confidence of a bin that raises no alarm. With 0 any
        miscalibration raises an alarm at some time, even if it comes only from a fit to few rows.

    Attributes
    ----------
    alarm_ : bool
        Whether the e-value is or was at least ``1 / (1 - confidence_level)``.
    e_value_ : float
        Evidence against calibration: if the model is calibrated, its expected value is at most 1.
    n_samples_ : int
        Number of rows so far, without rows of weight 0.
    n_samples_at_alarm_ : int or None
        Number of rows at the end of the batch that raised the alarm.
    n_bets_ : int
        Number of bets: groups, and rows in batches without groups.

    Raises
    ------
    ValueError
        If an argument is invalid, if ``labels`` has duplicates, or if ``kind="binary"`` is used
        with more than two labels.

    Warns
    -----
    UserWarning
        Once if fewer than a tenth of the groups in a batch are new; batches with fewer than ten
        groups are counted together. Once if the memory of a million groups is full.

    Notes
    -----
    The test assumes that labels in different groups are independent, conditional on their
    probabilities and the earlier batches. A 64-bit hash of its text identifies a group, so 7, 7.0
    and "7" are one group. The test divides the weights by the largest weight in the batch.

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
    >>> monitor = CalibrationMonitor([0, 1, 2])
    >>> monitor.update(y[:1200], proba[:1200]).update(y[1200:], proba[1200:])
    CalibrationMonitor(n_bins=15, kind='top-label', n_samples=2000)
    >>> round(monitor.measure("expected_calibration_error"), 4)
    0.0284
    >>> round(expected_calibration_error(y, proba), 4)
    0.0284
    >>> monitor.alarm_
    False
    """

    labels: Array
    n_samples_at_alarm_: int | None
    n_bets_: int
    _sums: Floats
    _edges: Floats
    _memory: Hashes
    _recent: list[int]
    _warned: list[str]
    _capital: Capital
    _reserve: float

    def __init__(
        self,
        labels: ArrayLike,
        *,
        n_bins: int | ArrayLike = 15,
        kind: Kind = "auto",
        pos_label: Any = None,
        confidence_level: float = 0.95,
        tolerance: float = 0.0,
    ) -> None:
        if labels is None:
            raise ValueError(
                "labels must name all labels in column order, got None. A batch may lack some of "
                "them, so they cannot be inferred from it."
            )
        self.labels = np.array(exact(labels, "labels"))  # a copy
        if isinstance(n_bins, str):
            raise ValueError(
                "n_bins must be a number or edges, since the number of rows of a monitor changes, "
                f"got {n_bins!r}. Pass the cube root of the expected number of rows."
            )
        check_kind(kind, ["auto", "top-label", "classwise", "binary"])
        width = self.labels.size
        if width < 2:
            raise ValueError(f"labels must name at least two labels, got {self.labels.tolist()!r}.")
        resolve_classes(self.labels, width, self.labels, proba=True)
        # A curve of one row checks the other arguments, as every batch does.
        row = self.labels[:1], np.full((1, width), 1 / width)
        reliability_curve(*row, n_bins=n_bins, kind=kind, labels=self.labels, pos_label=pos_label)
        check_real("confidence_level", confidence_level, high=1)
        check_real("tolerance", tolerance, high=1, closed=True)
        edges = np.array(n_bins, dtype=np.float64)
        self._edges = edges if edges.ndim else np.linspace(0, 1, int(edges) + 1)
        self.n_bins = len(self._edges) - 1
        self.kind = resolved(kind, self.labels)
        self.pos_label = pos_label
        self.confidence_level = float(confidence_level)
        self.tolerance = float(tolerance)
        self.reset()

    def update(
        self,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Add a batch of rows, and bet on it. The monitor is unchanged after an error.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Labels.
        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Probabilities: one column per class, ordered as ``labels``, or for two classes
            the probability of ``pos_label`` alone.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 equals the row twice, weight 0 equals the row left out.
        groups : array-like of shape (n_samples,), default=None
            Rows with the same value depend on one another, such as visits of one patient. The test
            counts all rows of a group in a batch as a single bet, and a group bets only in its
            first batch. The curve and the measures count all rows.

        Returns
        -------
        CalibrationMonitor
            The monitor itself.

        Raises
        ------
        ValueError
            If the batch is invalid, as for :func:`skcalib.metrics.reliability_curve`, or all its
            weights are zero.

        Examples
        --------
        >>> from skcalib.monitor import CalibrationMonitor
        >>> monitor = CalibrationMonitor(["ham", "spam"])
        >>> monitor.update(["ham", "spam"], [0.1, 0.7]).update(["ham"], [0.2]).n_samples_
        3
        """
        y_true, y_proba = on_host(y_true), as_array(on_host(y_proba), "y_proba", flat=True)
        if np.shape(y_proba)[:1] == (0,) and np.size(y_true) == 0:
            return self  # a batch without rows
        # A warning of the column order would be a false alarm: a few groups may favour any column.
        sums = self._bin_sums(y_true, y_proba, sample_weight, warns=groups is None)
        n = np.shape(y_proba)[0]
        bet_sums, new = sums, None
        w = check_weights(sample_weight, n)
        if w is not None or groups is not None:
            w = np.ones(n) if w is None else w.copy()
            if groups is not None:
                groups, counts = check_groups(groups, n), w > 0
                new = new_groups(groups[counts], self._memory)
                w[counts] *= new.rows
            if w.any():
                w = bet_weights(w, groups)
                bet_sums = self._bin_sums(y_true, y_proba, w, warns=False)
        n_before, bets = self.n_samples_, Bets(self._capital, self._reserve)
        # No +=: a shallow copy of the monitor shares the array.
        self._sums = self._sums + sums
        if w is None or w.any():
            n_rows, tolerance = self.n_samples_ - n_before, self.tolerance
            more = bin_sides(self._edges), n_before, n_rows, tolerance
            self._capital, self._reserve = bet_on(bets, bet_sums, *more)
        self.e_value_ = e_value(self._capital)
        self.n_bets_ += self.n_samples_ - n_before if new is None else len(new.hashes)
        if not self.alarm_ and self.e_value_ * (1 - self.confidence_level) >= 1:
            self.n_samples_at_alarm_ = self.n_samples_
        if new is not None:
            self._remember(new)
        return self

    def _remember(self, new: NewGroups) -> None:
        """Store the new groups of a batch, and warn once if few groups still bet."""
        self._memory = np.sort(np.concatenate([self._memory, new.hashes]), kind="stable")
        n_new, n_groups = self._recent[0] + new.n_new, self._recent[1] + new.n_groups
        few = 10 * n_new < n_groups >= FEW_GROUPS
        self._recent = [n_new, n_groups] if n_groups < FEW_GROUPS else [0, 0]
        if len(new.hashes) < new.n_new and "full" not in self._warned:
            self._warned = [*self._warned, "full"]
            warn(
                f"The memory of the monitor is full, with {len(self._memory):,} groups: new groups "
                "no longer bet, so later changes raise no alarm. Call reset()."
            )
        if few and "few" not in self._warned:
            self._warned = [*self._warned, "few"]
            warn(
                "The monitor hardly sees changes any more: a group bets only in its first batch, "
                f"and {n_new} of {n_groups} groups are new. Pass rows of new groups, or no groups "
                "if the probabilities use the earlier outcomes of the group."
            )

    def _bin_sums(self, y_true: Any, y_proba: Any, sample_weight: Any, *, warns: bool) -> Floats:
        """Return sums (n_curves, 5, n_bins) over the rows of a batch in each bin.

        The sums are the number of rows, the weight, the squared weight, and the weight times the
        event and times the score.

        ``warns`` says whether to warn of columns in another order.
        """
        with warnings.catch_warnings():
            if not warns:
                warnings.simplefilter("ignore", ColumnOrderWarning)
            curve = reliability_curve(
                y_true, y_proba, n_bins=self._edges, kind=self.kind, sample_weight=sample_weight,
                labels=self.labels, pos_label=self.pos_label,
            )  # fmt: skip
        sums, weight = np.zeros(self._sums.shape), curve.weight
        label = (
            np.zeros(len(weight), int) if curve.label is None else encode(curve.label, self.labels)
        )
        bins = np.searchsorted(self._edges, curve.lower)
        squares, means = weight**2 / curve.n_effective, np.array([curve.accuracy, curve.confidence])
        sums[label, :, bins] = np.stack([curve.n_samples, weight, squares, *weight * means], axis=1)
        return sums

    def reset(self) -> Self:
        """Remove all rows and groups, and begin a new test with a new probability of false alarms.

        Returns
        -------
        CalibrationMonitor
            The monitor itself, without rows.

        Examples
        --------
        >>> from skcalib.monitor import CalibrationMonitor
        >>> CalibrationMonitor([0, 1]).update([0, 1], [0.1, 0.7]).reset()
        CalibrationMonitor(n_bins=15, kind='binary', n_samples=0)
        """
        n_curves = len(self.labels) if self.kind == "classwise" else 1
        self._sums = np.zeros((n_curves, 5, self.n_bins))
        self._capital, self._reserve = Bets.start(n_curves, self.n_bins)
        self._memory, self._recent, self._warned = np.zeros(0, np.uint64), [0, 0], []
        self.e_value_, self.n_bets_ = 1.0, 0
        self.n_samples_at_alarm_ = None
        return self

    @property
    def alarm_(self) -> bool:
        """Whether the e-value is or was at least ``1 / (1 - confidence_level)``."""
        return self.n_samples_at_alarm_ is not None

    @property
    def n_samples_(self) -> int:
        """Number of rows so far, without rows of weight 0."""
        return int(self._sums[0, 0].sum())

    def curve(self) -> ReliabilityCurve:
        """Return the reliability curve of all rows so far.

        Returns
        -------
        ReliabilityCurve
            Result of :func:`skcalib.metrics.reliability_curve` with the uniform strategy. With
            ``kind="classwise"`` the classes are ordered as ``labels``.

        Raises
        ------
        ValueError
            If there are no rows yet.

        Examples
        --------
        >>> from skcalib.monitor import CalibrationMonitor
        >>> monitor = CalibrationMonitor([0, 1], n_bins=2)
        >>> curve = monitor.update([0, 0], [0.1, 0.3]).update([1, 1], [0.35, 0.9]).curve()
        >>> curve.accuracy.round(2).tolist(), curve.confidence.round(2).tolist()
        ([0.33, 1.0], [0.25, 0.9])
        """
        return self._curve(slice(None))

    def measure(self, name: str) -> float:
        """Compute a calibration error of all rows so far.

        Parameters
        ----------
        name : str
            Name of a measure with bins in :mod:`skcalib.metrics`, such as
            ``"expected_calibration_error"`` or ``"overconfidence_error"``.

        Returns
        -------
        float
            Result of the function with this name.

        Raises
        ------
        ValueError
            If there is no measure of this name, or there are no rows yet.

        Examples
        --------
        >>> from skcalib.monitor import CalibrationMonitor
        >>> monitor = CalibrationMonitor([0, 1])
        >>> round(monitor.update([0, 1], [0.1, 0.7]).measure("underconfidence_error"), 3)
        0.15
        """
        name = name.removeprefix("neg_") if isinstance(name, str) else name
        check_option("name", name, FORMULAS)
        curves = [self._curve(slice(k, k + 1)) for k in range(len(self._sums))]
        return float(np.mean([*map(FORMULAS[name], curves)]))

    def _curve(self, labels: slice) -> ReliabilityCurve:
        """Return the curve of all rows, or with ``kind="classwise"`` the curves of some labels."""
        if self.n_samples_ == 0:
            raise ValueError("The monitor needs samples, got none yet. Call update first.")
        curves, bins = np.nonzero(self._sums[labels, 1] > 0)
        count, weight, squares, hits, scores = self._sums[labels][curves, :, bins].T
        n_effective = np.divide(weight**2, squares, out=count.copy(), where=squares > 0)
        return ReliabilityCurve(
            lower=self._edges[bins], upper=self._edges[bins + 1], n_samples=count, weight=weight,
            confidence=scores / weight, accuracy=hits / weight, n_effective=n_effective,
            label=self.labels[labels][curves] if self.kind == "classwise" else None,
            kind=self.kind,
        )  # fmt: skip

    def __repr__(self) -> str:
        alarm = ", alarm=True" if self.alarm_ else ""
        return (
            f"{type(self).__name__}(n_bins={self.n_bins}, kind={self.kind!r}, "
            f"n_samples={self.n_samples_}{alarm})"
        )


class NewGroups(NamedTuple):
    """Groups of a batch that have not bet before."""

    rows: Bools  #: (n,), whether the group of the row is new and has room in the memory
    hashes: Hashes  #: sorted hashes of these groups
    n_new: int  #: number of new groups, with or without room
    n_groups: int  #: number of groups of the batch


def new_groups(groups: Array, memory: Hashes) -> NewGroups:
    """Find the groups (n,) of a batch that are not in a sorted memory (n_stored,)."""
    names, number = np.unique(groups, return_inverse=True)
    hashes = stable_hashes(names)
    index = np.minimum(memory.searchsorted(hashes), max(len(memory) - 1, 0))
    is_new = memory[index] != hashes if len(memory) else np.ones(len(hashes), bool)
    n_new, room = int(is_new.sum()), MAX_GROUPS - len(memory)
    is_new[np.flatnonzero(is_new)[room:]] = False
    return NewGroups(is_new[number], np.sort(hashes[is_new]), n_new, len(hashes))


def stable_hashes(names: Array) -> Hashes:
    """Return hashes of 64 bits, equal for equal numbers with different types, and their text."""
    if names.dtype.kind == "M":
        names = np.datetime_as_string(names.astype("datetime64[ns]"))
    texts = (
        str(int(name) if isinstance(name, float) and name.is_integer() else name)
        for name in names.tolist()
    )
    digests = b"".join(
        blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest() for text in texts
    )
    return np.frombuffer(digests, "<u8").astype(np.uint64)
