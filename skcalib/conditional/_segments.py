r"""Multicalibration: gaps in all segments of the rows, and the null distribution of the largest.

A segment has four cells, the quarters of its rows by score. Seven unions of cells are its ranges of
scores: all scores, halves and quarters. A product with a sparse matrix sums drawn labels over all
cells, so that a draw costs little more than its random numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils import check_random_state

from skcalib._input.arrays import check_in_memory
from skcalib._input.groups import group_numbers
from skcalib._input.logits import check_weights
from skcalib._input.measures import Scored, check_draws_labels, check_measure, columns_of
from skcalib._input.parameters import check_integer, check_real, import_optional
from skcalib._typing import Array, ArrayLike, Bools, Floats, Indices, Kind
from skcalib._warnings import CodesWarning, FewGroupsWarning, warn
from skcalib.conditional._columns import MIN_WEIGHT, N_INTERVALS, FeatureColumns, fitted_columns
from skcalib.metrics._resampling import label_draws

if TYPE_CHECKING:
    import pandas as pd

# Quarters (columns) in the ranges of scores (rows).
RANGES = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1], *np.eye(4)], bool)

# Relative differences that are smaller than this are ties.
ROUNDING = 1e-12

# Fewer groups do not show how much the groups of a segment vary.
FEWEST_GROUPS = 5

# Largest number of distinct integers in a column that may hold codes of categories.
MOST_CODES = 50

# Random numbers that are drawn at once (rows times draws), to bound the memory.
MAX_DRAWN = 1 << 22


@dataclass(frozen=True)
class MulticalibrationResult:
    """Gaps of all segments, with a test of the largest gap.

    The arrays have one entry per segment, or with ``kind="classwise"`` per segment and class, for
    the range of scores with the largest standardized gap. The worst segment is the first.

    Attributes
    ----------
    statistic : float
        The largest standardized gap.
    pvalue : float
        Probability that a calibrated model has a statistic at least as large.
    label : ndarray of shape (n,) or None
        Class of the scores with ``kind="classwise"``.
    segment : ndarray of shape (n,)
        Names of the segments, such as "subject = law".
    lower, upper : ndarray of shape (n,)
        Smallest and largest score in the range.
    n_samples : ndarray of shape (n,)
        Number of rows.
    confidence, accuracy : ndarray of shape (n,)
        Mean score, and weighted frequency of events.
    standardized_gap : ndarray of shape (n,)
        Absolute gaps divided by their standard deviations, in descending order.
    low, high : ndarray of shape (n,)
        Ends of simultaneous intervals for the gaps. If the model is calibrated, all of them contain
        0 with the probability ``confidence_level``. No end is beyond -1 or 1.
    """

    statistic: float
    pvalue: float
    label: Array | None
    segment: Array
    lower: Floats
    upper: Floats
    n_samples: Indices
    confidence: Floats
    accuracy: Floats
    standardized_gap: Floats
    low: Floats
    high: Floats

    @property
    def gap(self) -> Floats:
        """Mean score minus frequency, positive where scores are too high."""
        return self.confidence - self.accuracy

    def to_frame(self) -> pd.DataFrame:
        """Return the segments as a data frame, the worst first.

        Returns
        -------
        pandas.DataFrame
            A row for each segment, and columns with the names of the arrays, and "gap".

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        pandas = import_optional("pandas", "to_frame", "'skcalib[frame]'")
        names = [
            "label", "segment", "lower", "upper", "n_samples", "confidence", "accuracy", "gap",
            "low", "high", "standardized_gap",
        ]  # fmt: skip
        columns = {name: getattr(self, name) for name in names}
        return pandas.DataFrame({name: x for name, x in columns.items() if x is not None})

    def __str__(self) -> str:
        """Write the largest gap, and a line for each of the ten worst segments."""
        lines = [f"Largest gap: {self.statistic:.1f} standard deviations (p = {self.pvalue:.3g})"]
        for k in range(min(10, len(self.segment))):
            name = "" if self.label is None else f" of class {self.label[k]}"
            n = self.n_samples[k]
            lines.append(
                f"{self.gap[k]:+.3f} [{self.low[k]:+.3f}, {self.high[k]:+.3f}]  {self.segment[k]}, "
                f"scores{name} {self.lower[k]:.3g} to {self.upper[k]:.3g}, "
                f"{n} {'row' if n == 1 else 'rows'}"
            )
        return "\n".join(lines)

    @property
    def worst(self) -> str:
        """Worst segment, in words."""
        name, n = "" if self.label is None else f" of class {self.label[0]}", self.n_samples[0]
        return (
            f"{self.segment[0]}, scores{name} from {self.lower[0]:.3g} to {self.upper[0]:.3g}: "
            f"{n} {'row' if n == 1 else 'rows'} with mean score {self.confidence[0]:.3f} and event "
            f"rate {self.accuracy[0]:.3f}"
        )


class SegmentCells(NamedTuple):
    """Scores in a column, and the cells of all segments."""

    label: Any
    score: Floats
    event: Bools
    cells: Any  #: sparse matrix (4 n_segments, n) with the weights of the rows in each cell
    scale: Floats  #: standard deviation of the sum of residuals in each range, (n_segments, 7)

    def excess(self, residuals: Floats) -> Floats:
        """Return absolute standardized sums (n_segments, 7, n_draws) of residuals (n, n_draws)."""
        return np.abs(in_ranges(self.cells @ residuals)) / self.scale[:, :, None]


def in_ranges(cell_sums: Floats) -> Floats:
    """Add sums over cells (4 n_segments, ...) to sums over ranges (n_segments, 7, ...)."""
    shape = (len(cell_sums) // 4, 4, int(np.prod(cell_sums.shape[1:])))
    sums: Floats = RANGES.astype(float) @ cell_sums.reshape(shape)
    return sums.reshape(shape[0], len(RANGES), *cell_sums.shape[1:])


def multicalibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    features: Any,
    *,
    categorical_features: Any = "from_dtype",
    pairs: bool = False,
    kind: Kind = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    groups: ArrayLike | None = None,
    n_resamples: int = 999,
    confidence_level: float = 0.95,
    random_state: int | np.random.RandomState | None = None,
) -> MulticalibrationResult:
    r"""Find the largest gap in any segment of the rows, and test whether it is chance.

    A model that is calibrated on average may be wrong by subject, country or length. With segments
    S and ranges I of the scores in a segment, the statistic is

    .. math:: \max_{S, I} \frac{\bigl|\sum_{i \in S, p_i \in I} w_i (y_i - p_i)\bigr|}
        {\sqrt{\sum_{i \in S, p_i \in I} w_i^2\, p_i (1 - p_i)}}

    for scores :math:`p_i` and events :math:`y_i`. The variance below the root is at least the mean
    of :math:`w_i^2`. Without this bound, a single event with a small score would be the largest gap
    of a calibrated model.

    The segments are all rows, categories with at least five rows, ten intervals per column of
    numbers with nearly equal numbers of rows, and missing numbers. The ranges are all scores in the
    segment, the halves, and the quarters; ties share a range. Over-confidence at both ends cancels
    over all rows of a segment, but not within its halves.

    For the p-value labels are drawn from the probabilities ``n_resamples`` times, as if the model
    were calibrated, and the *maximum* is taken of each draw. So the p-value is exact for any number
    of segments: ``p <= 0.05`` with a probability of at most 5 % if the model is calibrated. With
    groups the labels depend fully within a group, in the two ways of
    :func:`~skcalib.metrics.calibration_test`. The variance is the variance for rows in a group that
    are equal.

    Parameters
    ----------
    y_true, y_proba
        As for :func:`reliability_curve`, in memory.
    features : array-like or data frame of shape (n_samples, n_columns)
        Features per row, or one column (n_samples,). Missing values are allowed.
    categorical_features : "from_dtype" or list of str or int, default="from_dtype"
        Columns of categories, by name or number. By default all columns without numbers.
    pairs : bool, default=False
        Whether levels of two features are segments as well, such as "subject = law and age > 60".
    kind : {"auto", "top-label", "classwise", "binary"}, default="auto"
        As for :func:`reliability_curve`. With "classwise" the maximum is over the classes too.
    sample_weight, labels, pos_label
        As for :func:`reliability_curve`.
    groups : array-like of shape (n_samples,), default=None
        Group per row, such as a patient or a week. Rows in a group may depend on one another.
    n_resamples : int, default=999
        Number of draws. The p-value is a multiple of ``1 / (n_resamples + 1)``.
    confidence_level : float, default=0.95
        Confidence level of the intervals, between 0 and 1.
    random_state : int, RandomState instance or None, default=None
        Seed or generator for the draws.

    Returns
    -------
    MulticalibrationResult
        With ``statistic``, ``pvalue``, and arrays with an entry for each segment, the worst first.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`. Also if features have another number of rows, are infinite, or
        contain a column of categories that all differ, and for ``kind="multilabel"``.

    Warns
    -----
    UserWarning
        If there are fewer than 20 groups, or segments with fewer than 5 large groups, such as each
        hospital with ``groups=hospital``: leave out ``groups`` to see which hospital is wrong. And
        if a column of numbers has 11 to 50 distinct integers, which may be codes of categories,
        unless ``categorical_features`` is a list.

    Notes
    -----
    MCGrad [1]_ defines the multicalibration error for two classes: the largest range of cumulative
    residuals in any segment, in standard deviations. Its p-value is for a single segment, and a
    rule of thumb (5 standard deviations) allows for the choice of the worst segment. Here the
    p-value is for the maximum, the ranges are few and nested, and several classes and weights are
    allowed.

    References
    ----------
    .. [1] Tax, Perini, Linder, Haimovich, Karamshuk, Okati, Vojnovic, Apostolopoulos, "MCGrad:
       Multicalibration at Web Scale", KDD 2026,
       `arXiv:2509.19884 <https://arxiv.org/abs/2509.19884>`_.

    Examples
    --------
    Events of one subject are less frequent than their probabilities say:

    >>> import numpy as np
    >>> from skcalib.conditional import multicalibration_error
    >>> rng = np.random.default_rng(0)
    >>> subject = rng.choice(["art", "law", "music"], size=3000)
    >>> p = rng.uniform(size=3000)
    >>> y = rng.uniform(size=3000) < np.where(subject == "law", 0.8 * p, p)
    >>> result = multicalibration_error(y, p, subject, random_state=0)
    >>> result.pvalue
    0.001
    >>> str(result.segment[0]), bool(result.gap[0] > 0.05)
    ('0 = law', True)
    """
    check_integer("n_resamples", n_resamples)
    check_real("confidence_level", confidence_level, high=1)
    rows = (y_true, y_proba, kind, sample_weight, labels, pos_label)
    numbers = group_numbers(groups, y_proba, sample_weight)
    names, cells = segment_cells(rows, features, categorical_features, pairs=pairs, groups=numbers)
    maxima = null_maxima(cells, n_resamples, check_random_state(random_state), numbers)
    critical = max(float(np.quantile(one, confidence_level, method="higher")) for one in maxima)
    tables = zip(*(worst_ranges(names, one, critical) for one in cells), strict=True)
    label, *arrays = map(np.concatenate, tables)
    standardized_gaps = arrays[6]
    order, statistic = np.argsort(-standardized_gaps, kind="stable"), float(standardized_gaps.max())
    arrays = [values[order] for values in arrays]
    classes = None if cells[0].label is None else label[order]
    # The p-value counts the rows themselves as a draw.
    as_large = max(int(np.count_nonzero(one >= (1 - ROUNDING) * statistic)) for one in maxima)
    pvalue = (1 + as_large) / (1 + n_resamples)
    return MulticalibrationResult(statistic, pvalue, classes, *arrays)


def segment_cells(
    arguments: tuple[Any, ...],
    features: Any,
    categorical_features: Any,
    *,
    pairs: bool,
    groups: Indices | None = None,
) -> tuple[list[str], list[SegmentCells]]:
    """Return the names of the segments, and the cells for each column of scores.

    ``arguments`` are the arguments for a measure, ``groups`` numbers (n,) or None.
    """
    check_in_memory([*arguments, features])
    y_true, y_proba, kind, sample_weight, labels, pos_label = arguments
    check_draws_labels(kind, "multicalibration_error")
    rows = check_measure(y_true, y_proba, sample_weight, labels, pos_label, kind)
    n = np.shape(y_proba)[0]
    w = check_weights(sample_weight, n)
    is_kept = None if w is None else (w > 0).astype(float)
    names, members = find_segments(features, n, is_kept, categorical_features, pairs=pairs)
    if groups is not None:
        warn_of_few_groups_in_segments(names, members, groups)
    scored = columns_of(None, rows, kind, None, None, pos_label).scored()
    return names, [_make_cells(len(names), members, column, groups) for column in scored]


def find_segments(
    features: Any, n_rows: int, is_kept: Floats | None, categorical_features: Any, *, pairs: bool
) -> tuple[list[str], list[Indices]]:
    """Return the names of segments, and arrays (n,) of their numbers, or -1 for no segment.

    ``is_kept`` (n_rows,) is 1 for rows with positive weight, else 0, or None.
    """
    n = n_rows if is_kept is None else int(is_kept.sum())
    names, members = ["all rows"], [np.zeros(n, np.intp)]
    if features is None:
        return names, members
    columns, numbers = fitted_columns(features, n_rows, is_kept, categorical_features)
    if isinstance(categorical_features, str):
        warn_of_codes(columns, numbers)
    levels, level_names = columns.level_rows(numbers), columns.level_names()
    n_levels = len(level_names)
    for size in (1, 2) if pairs else (1,):
        for chosen in combinations(range(levels.shape[1]), size):
            powers = (n_levels + 1) ** np.arange(size)
            codes, number, count = np.unique(
                levels[:, chosen] @ powers, return_inverse=True, return_counts=True
            )
            parts = codes[:, None] // powers % (n_levels + 1)
            is_segment = (count >= MIN_WEIGHT) & (parts < n_levels).all(axis=1)
            segment_numbers = len(names) + np.cumsum(is_segment) - 1
            members.append(np.where(is_segment, segment_numbers, -1)[number])
            names += [" and ".join(level_names[k] for k in part) for part in parts[is_segment]]
    return names, members


def warn_of_codes(columns: FeatureColumns, numbers: Floats) -> None:
    """Warn if integers (n, d) may be codes of categories, which intervals of numbers mix."""
    for name, is_categorical, x in zip(
        columns.names, columns.is_categorical, numbers.T, strict=True
    ):
        distinct = np.unique(x[~np.isnan(x)])
        may_be_codes = N_INTERVALS < len(distinct) <= MOST_CODES and not (distinct % 1).any()
        if may_be_codes and not is_categorical:
            warn(
                f"Column {name!r} of features is cut into intervals of numbers, got "
                f"{len(distinct)} distinct integers. If they are codes of categories, list the "
                "column in categorical_features, or make it text. If they are numbers, pass a list "
                "without the column, such as categorical_features=[].",
                CodesWarning,
            )


def warn_of_few_groups_in_segments(
    names: list[str], members: list[Indices], groups: Indices
) -> None:
    """Warn if segments consist of a few large groups, such as each hospital of one hospital.

    ``members`` are segment numbers (n,) per kind of segment, ``groups`` numbers (n,).
    """
    few = []
    for number in members[1:]:  # the first is all rows
        pairs = np.unique(np.stack([number, groups])[:, number >= 0], axis=1)
        counted = number[number >= 0], pairs[0]
        n_rows, n_groups = (np.bincount(x, minlength=len(names)) for x in counted)
        is_few = (n_groups > 0) & (n_groups < FEWEST_GROUPS) & (n_rows > 5 * n_groups)
        few += np.flatnonzero(is_few).tolist()
    if few:
        warn(
            f"Segments of fewer than {FEWEST_GROUPS} groups have intervals that say nothing, got "
            f"{len(few)} of {len(names) - 1}, such as {names[few[0]]}. Leave out groups= for the "
            "gaps of these segments.",
            FewGroupsWarning,
        )


def _make_cells(
    n_segments: int, members: list[Indices], column: Scored, groups: Indices | None
) -> SegmentCells:
    """Return the cells of a column of scores.

    ``members`` are segment numbers (n,) per kind of segment, ``groups`` numbers (n,) or None.
    """
    label, score, event, w = column
    w = np.ones(len(score)) if w is None else w / w.max()
    rows = [np.flatnonzero(number >= 0) for number in members]
    row = np.concatenate(rows)
    cell = np.concatenate(
        [4 * m[i] + quarters(score[i], m[i], w[i]) for m, i in zip(members, rows, strict=True)]
    )
    shape = (4 * n_segments, len(score))
    cells = csr_array((w[row], (cell, row)), shape=shape)
    statistics = np.column_stack([score * (1 - score), np.ones(len(score))])
    variance, squares = np.moveaxis(in_ranges(cells.power(2) @ statistics), -1, 0)
    count = in_ranges(np.bincount(cell, minlength=shape[0]).astype(float))
    floor = np.where(count > 0, squares / np.where(count > 0, count, 1), 1.0)
    variance = np.maximum(variance, floor)
    if groups is not None:
        variance *= np.maximum(
            _squares_by_group(cells, groups) / np.where(squares > 0, squares, np.inf), 1
        )
    return SegmentCells(label, score, event, cells, np.sqrt(variance))


def _squares_by_group(cells: Any, groups: Indices) -> Floats:
    """Sum the squared weights of groups (n,) in each range: (n_segments, 7)."""
    n, n_groups = len(groups), int(groups.max()) + 1
    by_group = cells @ csr_array((np.ones(n), (np.arange(n), groups)), shape=(n, n_groups))
    step = max(1, MAX_DRAWN // cells.shape[0])
    blocks = (by_group[:, i : i + step].toarray() for i in range(0, n_groups, step))
    total: Floats = sum((in_ranges(block) ** 2).sum(axis=-1) for block in blocks)
    return total


def quarters(score: Floats, segment: Indices, w: Floats) -> Indices:
    """Return the quarter (n,) of each row by its score in the segment; ties share a quarter.

    ``score``, ``segment`` and ``w`` are (n,).
    """
    order = np.lexsort((score, segment))
    first = np.diff(segment[order], prepend=-1) != 0
    is_new = first | (np.diff(score[order], prepend=-1.0) != 0)
    reached = np.append(0.0, np.cumsum(w[order]))

    def span(starts: Bools) -> tuple[Floats, Floats]:
        """Return the weights before and after each row's run of rows between two starts."""
        edges, number = np.append(np.flatnonzero(starts), len(w)), np.cumsum(starts) - 1
        return reached[edges[number]], reached[edges[number + 1]]

    (low, high), (begin, end) = span(is_new), span(first)
    quarter = np.empty(len(w), np.intp)
    # Without the tolerance, rounding would decide for ranks between two quarters.
    share = ((low + high) / 2 - begin) / (end - begin) + ROUNDING
    quarter[order] = np.minimum(4 * share, 3)
    return quarter


def null_maxima(
    cells: list[SegmentCells],
    n_resamples: int,
    random: np.random.RandomState,
    groups: Indices | None = None,
) -> list[Floats]:
    """Return the largest standardized gap of each draw of labels, for each dependence."""
    S, maxima = np.stack([one.score for one in cells]), []
    exclusive = len(cells) > 1
    # As in calibration_test, rows of a group have events together, or are right together.
    for right in (False,) if groups is None else (False, True):
        draw = label_draws(S, groups, exclusive=exclusive, right=right)
        size, largest = max(1, MAX_DRAWN // S.size), []
        for start in range(0, n_resamples, size):
            drawn = [draw(random) for _ in range(min(size, n_resamples - start))]
            events = (
                np.stack([(y == k) if exclusive else y[0] for y in drawn], axis=1)
                for k in range(len(cells))
            )
            excess = [
                one.excess(event - one.score[:, None]).max(axis=(0, 1))
                for one, event in zip(cells, events, strict=True)
            ]
            largest.append(np.max(excess, axis=0))
        maxima.append(np.concatenate(largest))
    return maxima


def worst_ranges(names: list[str], column: SegmentCells, critical: float) -> tuple[Array, ...]:
    """Return the arrays (n_segments,) of the result, for the worst range of each segment.

    ``critical`` is the critical value of the largest standardized gap.
    """
    gaps = column.excess((column.event - column.score)[:, None])[:, :, 0]
    worst = gaps.argmax(axis=1)
    worst_range = np.arange(len(names)), worst

    def sums(values: Floats, weights: Any = column.cells) -> Floats:
        in_worst: Floats = in_ranges(weights @ values)[worst_range]
        return in_worst

    ones, entries = np.ones_like(column.score), column.cells.tocoo()
    weight = sums(ones)
    mean, rate = sums(column.score) / weight, sums(column.event.astype(float)) / weight
    number = 4 * np.arange(len(names))[:, None] + np.arange(4)
    lowest, highest = (
        np.full(column.cells.shape[0], np.inf),
        np.full(column.cells.shape[0], -np.inf),
    )
    np.minimum.at(lowest, entries.row, column.score[entries.col])
    np.maximum.at(highest, entries.row, column.score[entries.col])
    lower = np.where(RANGES[worst], lowest[number], np.inf).min(axis=1)
    upper = np.where(RANGES[worst], highest[number], -np.inf).max(axis=1)
    n_rows, reach = sums(ones, column.cells != 0), critical * column.scale[worst_range] / weight
    gap = mean - rate
    return (
        np.full(len(names), column.label), np.array(names), lower, upper, n_rows.astype(np.intp),
        mean, rate, gaps[worst_range], np.maximum(gap - reach, -1), np.minimum(gap + reach, 1),
    )  # fmt: skip
