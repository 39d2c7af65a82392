"""Measures of resampled rows and simulated labels, for intervals and tests."""

from collections.abc import Callable, Iterator
from functools import partial
from inspect import signature
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from skcalib._rows import ArrayLike, Bools, Floats, Indices, Ranked, Rows, check_in_memory
from skcalib._rows.ranking import ranked
from skcalib._scores.bins import BinSums, Strategy, bin_index
from skcalib._scores.columns import Scored
from skcalib._validation.inputs import check_option, meant

from ._calibration_error import FORMULAS, smooth_calibration_error
from ._curve import ReliabilityCurve, curve_of, edges_of
from ._input import Kind, check_input, columns_of, resolved

Random = np.random.RandomState
Measure = str | Callable[..., float]

Method = Literal["auto", "inversion", "basic", "percentile"]

SMOOTH = smooth_calibration_error.__name__

# Arguments that are passed to a callable measure only if they differ from these defaults.
DEFAULTS = {"kind": "auto", "n_bins": 15, "strategy": "uniform", "pos_label": None}

# Relative differences of measures that are smaller than this are treated as ties.
ROUNDING = 1e-12


class Problem(NamedTuple):
    """Checked rows, and the kind of their scores."""

    rows: Rows  #: in memory
    kind: Kind
    pos_label: Any


class Column(NamedTuple):
    """Scores and their bins, which are the same in all resamples."""

    label: Any
    edges: Floats
    bins: Indices
    score: Floats
    event: Bools


class MeasuredByBins:
    """A binned measure: rows are assigned to bins once, and a resample takes a few bincounts."""

    def __init__(self, problem: Problem, name: str, n_bins: int, strategy: Strategy) -> None:
        rows, kind, pos_label = self.problem = problem
        self.name, self.formula = name, FORMULAS[name]
        self.weights = np.ones(rows.n_rows) if rows.w is None else rows.w
        columns = columns_of(None, rows, kind, None, None, pos_label)
        edges = edges_of(columns, n_bins, strategy)
        self.columns = [
            Column(label, e, bin_index(score, e).astype(np.intp), score, event)
            for e, (label, score, event, _) in zip(edges, columns.each(), strict=True)
        ]

    def of_rows(self, times: Indices | None = None) -> float:
        """The measure if row i is repeated ``times[i]`` times, by default once."""
        return float(np.mean([*map(self.formula, self.curves(times))]))

    def curves(self, times: Indices | None = None) -> Iterator[ReliabilityCurve]:
        """The bins of every column, as of :meth:`sums`."""
        for column, sums in zip(self.columns, self.sums(times), strict=True):
            yield curve_of(column.label, column.edges, sums)

    def sums(self, times: Indices | None = None) -> Iterator[BinSums]:
        """Sums per bin of every column, with row i repeated ``times[i]`` times."""
        w, weight = self.problem.rows.w, self.weights if times is None else times * self.weights
        for _, edges, bins, score, event in self.columns:
            per_bin = partial(np.bincount, bins, minlength=len(edges) - 1)
            total, hits, scores = map(per_bin, (weight, weight * event, weight * score))
            # Without weights, that of a row and its square are the number of times it is there.
            count, squared = (total, total) if w is None else map(per_bin, (times, weight * w))
            sums = (count, total, squared, hits, scores)
            yield BinSums(*(values.astype(np.float64, copy=False) for values in sums))


class MeasuredByCall:
    """Any function of labels and probabilities, with the columns in the order of sorted labels.

    ``params`` are passed if they are not the default and the function has parameters of the name.
    """

    def __init__(self, problem: Problem, measure: Callable[..., float], **params: Any) -> None:
        self.problem = problem
        self.measure = measure
        known, params = free_names(measure), params | problem._asdict()
        self.named = {k: params[k] for k in DEFAULTS if k in known and params[k] != DEFAULTS[k]}
        self.P = problem.rows.X
        if problem.kind == "multilabel":  # columns have names, which measures do not need
            return
        order = np.argsort(problem.rows.classes)
        if self.P.ndim == 2:
            self.P = self.P[:, order]
        elif order[0] == 1 and "pos_label" not in self.named:
            # A function with pos_label takes one-dimensional probabilities as those of that class.
            self.P = 1 - self.P
        if "labels" in known:  # of which a resample may lack one
            self.named["labels"] = problem.rows.classes[order]

    def of_rows(self, times: Indices | None = None) -> float:
        """The measure if row i is repeated ``times[i]`` times, by default once."""
        rows = slice(None) if times is None else np.repeat(np.arange(len(times)), times)
        return self._value(self.problem.rows.y[rows], rows)

    def of_labels(self, random: Random) -> float:
        """The measure with labels that are drawn from the probabilities."""
        P, u = self.problem.rows.X, random.uniform(size=self.problem.rows.n_rows)
        y = (u < P).astype(np.intp) if P.ndim == 1 else labels_at(P.cumsum(axis=1), u)
        return self._value(y, slice(None))

    def _value(self, y: Indices, rows: Any) -> float:
        w, classes = self.problem.rows.w, self.problem.rows.classes
        weights = {} if w is None else {"sample_weight": w[rows]}
        labels = y if self.problem.kind == "multilabel" else classes[y]
        return float(self.measure(labels, self.P[rows], **weights, **self.named))


Measured = MeasuredByBins | MeasuredByCall


def measured_by(
    measure: Measure,
    n_bins: int,
    strategy: Strategy,
    y_true: ArrayLike,
    y_proba: ArrayLike,
    kind: Kind,
    sample_weight: ArrayLike | None,
    labels: ArrayLike | None,
    pos_label: Any,
) -> Measured:
    """A measure that can be computed for resampled rows and for simulated labels."""
    check_option("kind", kind, Kind)
    check_in_memory((y_true, y_proba, sample_weight))
    rows = check_input(y_true, y_proba, sample_weight, labels, pos_label, kind)
    problem = Problem(rows.in_memory(), resolved(kind, rows.classes), pos_label)
    if measure == SMOOTH:
        measure = smooth_calibration_error
    if callable(measure):
        return MeasuredByCall(problem, measure, n_bins=n_bins, strategy=strategy)
    if isinstance(measure, str) and measure in FORMULAS:
        return MeasuredByBins(problem, measure, n_bins, strategy)
    known = [*FORMULAS, SMOOTH]
    hint = meant(measure, known) if isinstance(measure, str) else ""
    raise ValueError(
        f"measure must be a callable or one of {', '.join(known)}, got {measure!r}. {hint}".rstrip()
    )


def free_names(measure: Callable[..., float]) -> set[str]:
    """Names of the parameters of a function that are not bound by ``functools.partial``."""
    bound = set(measure.keywords) if isinstance(measure, partial) else set()
    try:
        parameters = signature(measure).parameters.values()
    except (TypeError, ValueError):  # some functions in C have no signature
        return set()
    named = {p.name for p in parameters if p.kind in {p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY}}
    return named - bound


def labels_at(cumulative: Floats, u: Floats) -> Indices:
    """Class indices from cumulative probabilities (n, n_classes) and numbers in [0, 1)."""
    return (cumulative[:, :-1] <= (u * cumulative[:, -1])[:, None]).sum(axis=1)


def draw_rows(n: int, random: Random) -> Indices:
    """Number of times that each of n rows is in a bootstrap sample of n rows."""
    return np.bincount(random.randint(n, size=n), minlength=n)


def bootstrap_band(
    rows: Scored, curve: Callable[[Ranked], Floats], level: float, n_resamples: int, seed: Any
) -> tuple[Floats, Floats]:
    """Pointwise quantiles of the curves of bootstrap samples of the rows."""
    random, order = check_random_state(seed), np.argsort(rows.score)
    score, event, w = rows.score[order], rows.event[order], rows.weight
    w = np.ones(len(order)) if w is None else w[order]
    draws = [
        curve(ranked(score, event, w * draw_rows(len(w), random), are_sorted=True))
        for _ in range(n_resamples)
    ]
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high
