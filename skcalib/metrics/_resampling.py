"""Measures of resampled rows and simulated labels, for intervals and tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from inspect import signature
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skcalib._engine.inputs import check_in_memory
from skcalib._engine.rows import Rows
from skcalib._scores.bins import BinSums, Strategy, bin_index
from skcalib._typing import Array, Floats, Indices
from skcalib._validation.parameters import check_option

from ._calibration_error import OF_BINS, OF_GAPS, mean_over_classes
from ._curve import ReliabilityCurve, check_bins, curve_of, edges_of
from ._input import Kind, rows_of, scored
from ._smooth import smooth_calibration_error

Random = np.random.RandomState
Measure = str | Callable[..., float]

Method = Literal["auto", "inversion", "basic", "percentile"]

SMOOTH = "smooth_calibration_error"

# Arguments that are passed to a callable measure only if they differ from these defaults.
DEFAULTS = {"kind": "top-label", "n_bins": 15, "strategy": "uniform", "pos_label": None}

# Relative differences of measures that are smaller than this are treated as ties.
ROUNDING = 1e-12


class Problem(NamedTuple):
    """Checked rows, and the kind of their scores."""

    rows: Rows
    classes: Array
    kind: Kind
    pos_label: Any


def problem_of(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    kind: Kind,
    sample_weight: ArrayLike | None,
    labels: ArrayLike | None,
    pos_label: Any,
) -> Problem:
    check_option("kind", kind, Kind)
    check_in_memory((y_true, y_proba, sample_weight))
    rows, classes = rows_of(kind, y_true, y_proba, sample_weight, labels, pos_label)
    return Problem(rows.in_memory(), classes, kind, pos_label)


def measured_by(problem: Problem, measure: Measure, n_bins: int, strategy: Strategy) -> Measured:
    check_bins(n_bins, strategy)
    if callable(measure):
        asked = {"n_bins": n_bins, "strategy": strategy}
        given = passed_on(measure, kind=problem.kind, pos_label=problem.pos_label, **asked)
        return MeasuredByCall(problem, measure, given)
    if measure == SMOOTH:
        given = {"kind": problem.kind, "pos_label": problem.pos_label}
        return MeasuredByCall(problem, smooth_calibration_error, given)
    if isinstance(measure, str) and measure in OF_BINS:
        return MeasuredByBins(problem, measure, n_bins, strategy)
    raise ValueError(
        f"measure must be a callable or one of {', '.join([*OF_BINS, SMOOTH])}, got {measure!r}."
    )


class Measured(Protocol):
    """A measure that can be computed for resampled rows and for simulated labels."""

    problem: Problem

    def of_rows(self, times: Indices) -> float:
        """The measure if row i is repeated ``times[i]`` times."""

    def of_labels(self, random: Random) -> float:
        """The measure with labels drawn from the probabilities."""


class Column(NamedTuple):
    """Scores and their bins, which are the same in all resamples."""

    label: Any
    edges: Floats
    bins: Indices
    score: Floats
    event: NDArray[np.bool_]


class MeasuredByBins:
    """A binned measure: rows are assigned to bins once, and a resample takes a few bincounts."""

    def __init__(self, problem: Problem, name: str, n_bins: int, strategy: Strategy) -> None:
        self.problem = problem
        self.measure = OF_BINS[name]
        self.of_gaps: Any = OF_GAPS.get(name)  #: for measures that are homogeneous in the gaps
        columns = scored(*problem)
        edges = edges_of(columns, n_bins, strategy)
        self.columns = [
            Column(label, e, bin_index(score, e).astype(np.intp), score, event)
            for e, (label, score, event, _) in zip(edges, columns.each(), strict=True)
        ]

    def of_rows(self, times: Indices) -> float:
        """The measure if row i were there ``times[i]`` times."""
        return self._value(times, [column.event for column in self.columns])

    def of_labels(self, random: Random) -> float:
        """The measure with labels that are drawn from the probabilities."""
        once = np.ones(self.problem.rows.n_rows, dtype=np.intp)
        if self.problem.kind == "classwise":  # classes are mutually exclusive
            y = draw_labels(self.problem.rows.X, random)
            return self._value(once, [y == k for k in range(len(self.columns))])
        (column,) = self.columns
        return self._value(once, [random.uniform(size=len(once)) < column.score])

    def _value(self, times: Indices, events: list[NDArray[np.bool_]]) -> float:
        return mean_over_classes(self.curves(times, events), self.measure)

    def curves(self, times: Indices, events: list[NDArray[np.bool_]]) -> Iterator[ReliabilityCurve]:
        """The bins of every column, with row i repeated ``times[i]`` times."""
        sums = self.sums(times, events)
        for column, of_column in zip(self.columns, sums, strict=True):
            yield curve_of(column.label, column.edges, of_column)

    def sums(self, times: Indices, events: list[NDArray[np.bool_]]) -> Iterator[BinSums]:
        """Sums per bin of every column, with row i repeated ``times[i]`` times."""
        w = self.problem.rows.w
        weight = times if w is None else times * w
        squared = weight if w is None else weight * w
        for column, event in zip(self.columns, events, strict=True):
            rows = (times, weight, squared, weight * event, weight * column.score)
            n_bins = len(column.edges) - 1
            sums = [np.bincount(column.bins, values, n_bins) for values in rows]
            yield BinSums(*(values.astype(np.float64) for values in sums))


class MeasuredByCall:
    """Any function of labels and probabilities, with the columns in the order of sorted labels."""

    def __init__(
        self, problem: Problem, measure: Callable[..., float], given: dict[str, Any]
    ) -> None:
        self.problem = problem
        self.measure = measure
        if problem.kind == "multilabel":  # columns have names, which measures do not need
            self.P, self.named = problem.rows.X, given
            return
        order = np.argsort(problem.classes)
        # A function with pos_label takes one-dimensional probabilities as those of that class.
        P = problem.rows.X
        turned = P.ndim == 1 and order[0] == 1 and "pos_label" not in given
        P = 1 - P if turned else P
        self.P = P[:, order] if P.ndim == 2 else P
        # A resample may lack a class, so the function needs the list of all classes.
        named = {"labels": problem.classes[order]} if "labels" in free_names(measure) else {}
        self.named = {**named, **given}

    def of_rows(self, times: Indices) -> float:
        """The measure if row i were there ``times[i]`` times."""
        rows = np.repeat(np.arange(len(times)), times)
        return self._value(self.problem.rows.y[rows], rows)

    def of_labels(self, random: Random) -> float:
        """The measure with labels that are drawn from the probabilities."""
        return self._value(draw_labels(self.problem.rows.X, random), slice(None))

    def _value(self, y: Indices, rows: Any) -> float:
        w, classes = self.problem.rows.w, self.problem.classes
        weights = {} if w is None else {"sample_weight": w[rows]}
        labels = y if self.problem.kind == "multilabel" else classes[y]
        return float(self.measure(labels, self.P[rows], **weights, **self.named))


def passed_on(measure: Any, **given: Any) -> dict[str, Any]:
    """Arguments that differ from their defaults and for which the function has parameters."""
    known = free_names(measure)
    return {k: value for k, value in given.items() if k in known and value != DEFAULTS[k]}


def free_names(measure: Callable[..., float]) -> set[str]:
    """Names of the parameters of a function that are not bound by ``functools.partial``."""
    bound = set(measure.keywords) if isinstance(measure, partial) else set()
    try:
        found = signature(measure).parameters.values()
    except (TypeError, ValueError):  # some functions in C have no signature
        return set()
    named = {p.name for p in found if p.kind in {p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY}}
    return named - bound


def draw_labels(P: Floats, random: Random) -> Indices:
    """Class indices drawn from probabilities (n, n_classes), or (n,) for two classes."""
    u = random.uniform(size=len(P))
    return (u < P).astype(np.intp) if P.ndim == 1 else labels_at(P.cumsum(axis=1), u)


def labels_at(cumulative: Floats, u: Floats) -> Indices:
    """Class indices from cumulative probabilities (n, n_classes) and numbers in [0, 1)."""
    return (cumulative[:, :-1] <= (u * cumulative[:, -1])[:, None]).sum(axis=1)


def draw_rows(n: int, random: Random) -> Indices:
    """Number of times that each of n rows is in a bootstrap sample of n rows."""
    return np.bincount(random.randint(n, size=n), minlength=n)


def simple_ends(
    estimate: float, draws: Floats, level: float, method: Method
) -> tuple[float, float]:
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    if method != "percentile":
        low, high = 2 * estimate - high, 2 * estimate - low
    return float(low), float(high)
