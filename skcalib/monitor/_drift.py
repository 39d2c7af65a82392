"""Sequential tests by betting, with e-values after every batch, and that of drift.

Drift is that of the predictions themselves, for which no labels are needed.

A bet is a factor, computed from a batch, whose expected value is at most 1 under the null
hypothesis, whatever happened before. The capital of who bets is the product of factors; it starts
at 1, and exceeds ``1 / level`` at any time with a probability of at most ``level`` (Ville's
inequality). The mean of the capital of many bets has the same property, and grows nearly as fast
as that of the best of them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from skcalib._rows import ArrayLike, Floats, Indices
from skcalib._scores.bins import BinSums
from skcalib._validation.inputs import check_integer, check_real
from skcalib._version import Versioned
from skcalib.metrics._input import Kind, check_kind, columns_of, resolved, unlabelled


def bet_on(bets: Bets, sums: Floats, n_before: int, n: int, tolerance: float) -> Bets:
    """Bets after a batch of ``n`` rows with the :class:`BinSums` (n_curves, 5, n_bins)."""
    n_curves, _, n_bins = sums.shape
    curves, bins = np.nonzero(sums[:, BinSums._fields.index("weight")])
    _, weight, _, hits, scores = sums[curves, :, bins].T
    # On single bins, on all bins, and on both halves: under-confidence is fewer events below 1/2,
    # and more above. A bin that contains 1/2 is in neither half.
    single = log_factors(weight, hits, scores, tolerance)
    side = (2 * bins + 1 - n_bins)[:, None]
    halves = np.where(side < 0, single[:, ::-1], np.where(side, single, 0))
    # Bins of a curve are next to one another, and each curve has at least one.
    each = np.arange(n_curves)
    joint = np.add.reduceat([single, halves], curves.searchsorted(each), axis=1)
    reserve, capital = less_reserve(bets.reserve, n_before, n), bets.capital.copy()
    capital[curves, bins] = after(capital[curves, bins], reserve, single)
    capital[:, n_bins:] = after(capital[:, n_bins:], reserve, joint.swapaxes(0, 1))
    return Bets(capital, reserve)


def log_factors(weight: Floats, hits: Floats, scores: Floats, tolerance: float) -> Capital:
    r"""Logarithms of the factors of bins, for each of the shifts: (n_bins, n_shifts).

    The event of a row with probability p multiplies the capital by
    :math:`e^{\delta y} / (1 + p (e^\delta - 1))`, the likelihood ratio of shifted log-odds, with an
    expected value of 1. The denominators of the rows of a bin are replaced by that of their mean
    score, which is not smaller (the logarithm is concave), and with a tolerance by the largest one
    that it permits.
    """
    p = (scores / weight)[:, None]
    if tolerance:
        p = np.maximum(p + np.copysign(tolerance, SHIFTS), 0)
    return hits[:, None] * SHIFTS - weight[:, None] * np.log1p(np.minimum(p, 1) * GROWTH)


def e_value(capital: Capital) -> float:
    """Mean over the curves: a third on single bins, on all bins, and on both halves."""
    n_curves, n_rows, n_shifts = capital.shape
    single, joint = capital[:, :-2].sum(), capital[:, -2:].sum()
    return float(single / (n_rows - 2) + joint) / (3 * n_curves * n_shifts)


Capital = NDArray[np.float64]

# What the bets assume: the log-odds of the event, or of a cell, are shifted by these numbers. A
# shift of the other sign is at the mirrored index.
_SIZES = 2.0 ** np.arange(-5, 3)
SHIFTS = np.concatenate([-_SIZES[::-1], _SIZES])
GROWTH = np.expm1(SHIFTS)
SHIFTS.flags.writeable = GROWTH.flags.writeable = False

# Half of the capital of each bet is staked from the first row on, since models may be
# miscalibrated from the start. The rest is kept for a drift, which begins later: after n rows the
# fraction 1 / sqrt(1 + n / RESERVED_ROWS) of it is left.
FIRST_STAKE = 0.5
RESERVED_ROWS = 100
# The logarithm of the largest capital: the product of two is finite.
LOG_MOST = 345.0


class Bets(NamedTuple):
    """Capital of bets, and the part of the capital of each that is not staked yet."""

    capital: Capital
    reserve: float

    @classmethod
    def new(cls, *shape: int) -> Bets:
        """Bets of which each has a capital of 1."""
        return cls(np.ones((*shape, len(SHIFTS))), 1 - FIRST_STAKE)


def less_reserve(reserve: float, n_before: int, n: int) -> float:
    """What is left of the reserve for ``n`` rows that follow ``n_before`` rows."""
    return reserve * math.sqrt((RESERVED_ROWS + n_before) / (RESERVED_ROWS + n_before + n))


def after(capital: Capital, reserve: float, log_factors: Capital) -> Capital:
    """Capital when all but the reserve was staked: a mixture over the rows where a drift begins.

    If the factors are 1 the capital stays as it is, whatever part of it was staked.
    """
    staked = np.maximum(capital - reserve, 0) * np.exp(np.minimum(log_factors, LOG_MOST))
    return np.minimum(reserve + staked, math.exp(LOG_MOST))


def together(first: Bets, second: Bets) -> Bets:
    """The bets on the rows of both: factors of different rows are multiplied."""
    capital = np.minimum(first.capital * second.capital, math.exp(LOG_MOST))
    return Bets(capital, first.reserve * second.reserve)


class SequentialTest:
    """Mixin with the result of the test, for classes with an ``alarm_level``."""

    alarm_level: float
    _capital: Capital
    _reserve: float
    _e_value: float
    _largest_e_value: float
    _n_samples_at_alarm: int | None

    def _start(self, bets: Bets, e_value: float = 1.0, n_samples: int = 0) -> None:
        """Begin with these bets."""
        self._largest_e_value, self._n_samples_at_alarm = 1.0, None
        self._store(bets, e_value, n_samples)

    def _store(self, bets: Bets, e_value: float, n_samples: int) -> None:
        """Bets after a batch, their e-value and the number of rows."""
        self._capital, self._reserve = bets
        self._e_value = e_value
        self._largest_e_value = max(self._largest_e_value, e_value)
        if self._n_samples_at_alarm is None and self._largest_e_value * self.alarm_level >= 1:
            self._n_samples_at_alarm = n_samples

    @property
    def e_value(self) -> float:
        """Evidence against the hypothesis: its expected value is at most 1 if that is true."""
        return self._e_value

    @property
    def p_value(self) -> float:
        """Inverse of the largest e-value so far, which is valid at any time."""
        return 1 / self._largest_e_value

    @property
    def alarm(self) -> bool:
        """Whether the p-value is or was at most ``alarm_level``."""
        return self._n_samples_at_alarm is not None

    @property
    def n_samples_at_alarm(self) -> int | None:
        """Number of rows at the end of the batch that raised the alarm; None without one."""
        return self._n_samples_at_alarm


# Scores are counted in cells of equal width in log-odds, which do not depend on the data.
_EDGES = expit(np.linspace(-20, 20, 1001))
# Ranks are counted in intervals of equal length.
_N_INTERVALS = 16
# So many ranks are computed at a time, from all pairs of them.
_BLOCK = 256
# Without it, numbers of random_state=0 would be those of ``default_rng(0)``, by which the rows may
# have been made.
_STREAM = 1970


# Logarithms of the densities of ranks that are bet on, (n_intervals, n_bets, n_shifts): shifted on
# one of the intervals, linearly, or on the outer intervals.
_MIDDLE = 2 * (np.arange(_N_INTERVALS) + 0.5) / _N_INTERVALS - 1
_SHAPES = np.column_stack([np.eye(_N_INTERVALS), _MIDDLE, 2 * np.abs(_MIDDLE) - 1])
_TILTED = _SHAPES[:, :, None] * SHIFTS
_LOG_FACTORS = _TILTED - logsumexp(_TILTED, axis=0) + np.log(_N_INTERVALS)


class DriftMonitor(SequentialTest, Versioned):
    r"""Sequential test of whether predictions are distributed as on the reference rows.

    Each score, such as the confidence, is ranked among those of the reference rows and of all rows
    before it, with ties broken at random, and the rows of a batch in random order. The relative
    ranks (conformal p-values) are independent and uniform on [0, 1] as long as all rows are
    exchangeable, for reference samples of any size. The e-value is that of bets against their
    uniform distribution, a conformal test martingale [1]_: a mixture over densities with more or
    fewer ranks in one of 16 intervals, towards one end, or towards both ends, and over the row from
    which on rows count. The probability that it ever reaches 20 without a drift is at most 5 %.

    Predictions may drift although they are calibrated, and be miscalibrated although their
    distribution does not change: for calibration :class:`CalibrationMonitor` needs labels.

    Parameters
    ----------
    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Probabilities for the reference rows: rows like those that the model was calibrated on, but
        not these rows themselves.
    kind : {"auto", "top-label", "classwise", "binary"}, default="auto"
        The score: the largest probability, the probability of each class, or that of the second
        class. "auto" is "binary" for two classes, and "top-label" for more. With "classwise" the
        e-value is the largest one of the classes divided by their number.
    alarm_level : float, default=0.05
        Largest probability of ever raising a false alarm.
    random_state : int, default=0
        Determines how ties are broken, and the order in which the rows of a batch are ranked. The
        probability of a false alarm is one over these numbers as well: monitors with the same ones
        are not independent where most scores are tied.

    Attributes
    ----------
    kind : str
        The score, never "auto".
    alarm_level : float
        Largest probability of a false alarm.
    random_state : int
        As given.
    n_classes : int
        Number of classes, 2 for one-dimensional probabilities.
    n_samples : int
        Number of rows since the reference rows.

    Raises
    ------
    ValueError
        If probabilities are invalid, or an argument is.

    See Also
    --------
    CalibrationMonitor : Tests of calibration, which need labels.

    Notes
    -----
    The state is a count for each of 1002 cells of the scores. Rows after a drift are counted too,
    so a drift that has not raised an alarm after many times as many rows as there are reference
    rows will not raise one any more. Use some thousand reference rows. Rows that depend on one
    another, such as frames of a video, are not exchangeable.

    References
    ----------
    .. [1] Vovk, Petej, Nouretdinov, Ahlberg, Carlsson, Gammerman, "Retrain or not retrain:
       conformal test martingales for change-point detection", COPA 2021, `arXiv:2102.10439
       <https://arxiv.org/abs/2102.10439>`_.

    Examples
    --------
    >>> from scipy.special import softmax
    >>> from skcalib.datasets import make_logits
    >>> from skcalib.monitor import DriftMonitor
    >>> logits, _ = make_logits(2000, 3, random_state=0)
    >>> monitor = DriftMonitor(softmax(logits[:1000], axis=1))
    >>> monitor.update(softmax(logits[1000:], axis=1)).alarm
    False
    >>> monitor.update(softmax(logits[1000:] / 2, axis=1))
    DriftMonitor(kind='top-label', n_samples=2000, alarm=True)
    """

    _reference: Indices
    _counts: Indices
    n_samples: int

    def __init__(
        self,
        y_proba: ArrayLike,
        *,
        kind: Kind = "auto",
        alarm_level: float = 0.05,
        random_state: int = 0,
    ) -> None:
        check_kind(kind, ["auto", "top-label", "classwise", "binary"])
        check_real("alarm_level", alarm_level, high=1)
        check_integer("random_state", random_state, least=0)
        self.kind = kind
        self.alarm_level = float(alarm_level)
        self.random_state = int(random_state)
        self.n_classes: int | None = None
        cells, self.n_classes = self._cells(y_proba)
        self._reference = _counted(cells)
        self.reset()

    def update(self, y_proba: ArrayLike) -> Self:
        """Bet on a batch of rows; after an error nothing is changed.

        Parameters
        ----------
        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Probabilities, with the columns of those of the reference rows.

        Returns
        -------
        DriftMonitor
            The monitor itself.

        Raises
        ------
        ValueError
            If probabilities are invalid, or have another number of columns.

        Examples
        --------
        >>> from skcalib.monitor import DriftMonitor
        >>> monitor = DriftMonitor([0.1, 0.7, 0.4, 0.2], kind="binary")
        >>> monitor.update([0.6, 0.3]).update([0.8]).n_samples
        3
        """
        cells, _ = self._cells(y_proba)
        n = cells.shape[1]
        # Depends on the number of rows so far, so that copies and pickles have the same future.
        random = np.random.default_rng([self.random_state, self.n_samples, _STREAM])
        # Sorted rows are not exchangeable, though batches of them may be.
        cells = cells[:, random.permutation(n)]
        uniform = random.uniform(size=cells.shape)
        columns = zip(cells, self._counts, uniform, strict=True)
        ranks = np.array([relative_ranks(*column) for column in columns])
        intervals = np.minimum((_N_INTERVALS * ranks).astype(np.intp), _N_INTERVALS - 1)
        counts = [np.bincount(row, minlength=_N_INTERVALS) for row in intervals]
        reserve = less_reserve(self._reserve, self.n_samples, n)
        found = np.tensordot(counts, _LOG_FACTORS, axes=1)
        bets = Bets(after(self._capital, reserve, found), reserve)
        self._counts = self._counts + _counted(cells)
        self.n_samples += n
        self._store(bets, _e_value(bets.capital), self.n_samples)
        return self

    def reset(self) -> Self:
        """Remove all rows but the reference rows, and begin a new test.

        It has a new probability of a false alarm. Where predictions have changed for good, as after
        recalibration, a new monitor needs new reference rows.

        Returns
        -------
        DriftMonitor
            The monitor itself, as it was before the first batch.

        Examples
        --------
        >>> from skcalib.monitor import DriftMonitor
        >>> DriftMonitor([0.1, 0.7, 0.4, 0.2], kind="binary").update([0.6, 0.3]).reset()
        DriftMonitor(kind='binary', n_samples=0)
        """
        self._counts, self.n_samples = self._reference, 0
        self._start(Bets.new(len(self._counts), _LOG_FACTORS.shape[1]))
        return self

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(kind={self.kind!r}, n_samples={self.n_samples}"
            f"{', alarm=True' * self.alarm})"
        )

    def _cells(self, y_proba: Any) -> tuple[Indices, int]:
        """Cells of the scores, (n_scores, n_samples), and the number of classes."""
        rows = unlabelled(y_proba)
        n_classes, self.kind = len(rows.classes), resolved(self.kind, rows.classes)
        if self.n_classes not in {None, n_classes}:
            raise ValueError(
                "y_proba must have the columns of the reference rows, which have "
                f"{self.n_classes} classes, got shape {np.shape(y_proba)}."
            )
        columns = columns_of(None, rows, self.kind, None, None, None)
        cells = [np.searchsorted(_EDGES, column.score) for column in columns.each()]
        return np.array(cells), n_classes


def _counted(cells: Indices) -> Indices:
    """Number of rows in each cell, (n_scores, n_cells)."""
    return np.array([np.bincount(row, minlength=len(_EDGES) + 1) for row in cells])


def relative_ranks(cells: Indices, counts: Indices, uniform: Floats) -> Floats:
    """Ranks of rows among those counted in ``counts``, the rows before them, and themselves.

    They are divided by the number of these rows, and ties are broken by numbers in [0, 1).
    """
    found = []
    for start in range(0, len(cells), _BLOCK):
        c, u = cells[start : start + _BLOCK], uniform[start : start + _BLOCK]
        earlier = np.tri(len(c), k=-1, dtype=bool)
        lower = (np.cumsum(counts) - counts)[c] + ((c < c[:, None]) & earlier).sum(axis=1)
        equal = counts[c] + ((c == c[:, None]) & earlier).sum(axis=1) + 1
        found.append((lower + u * equal) / (counts.sum() + np.arange(1, len(c) + 1)))
        counts = counts + np.bincount(c, minlength=len(counts))
    return np.concatenate(found)


def _e_value(capital: Capital) -> float:
    """A third on single intervals, on one end, and on both; of several scores the largest share.

    Ranks of several scores are not independent jointly, so that the mean would not do.
    """
    single, joint = capital[:, :-2].mean(axis=(1, 2)), capital[:, -2:].mean(axis=2).sum(axis=1)
    return float(np.max(single + joint)) / (3 * len(capital))
