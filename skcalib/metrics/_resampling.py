"""Measures of resampled rows and simulated labels, for intervals and tests."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from inspect import signature
from typing import Any, Literal, NamedTuple

import numpy as np

from skcalib._input.arrays import check_in_memory
from skcalib._input.groups import group_numbers
from skcalib._input.measures import check_draws_labels, check_measure, columns_of, resolved
from skcalib._input.parameters import check_option
from skcalib._rows import Rows
from skcalib._scores.bins import bin_index, closed
from skcalib._typing import ArrayLike, Bools, Floats, Indices, Kind, NBins, Strategy
from skcalib._warnings import ColumnOrderWarning

from ._calibration_error import (
    FORMULAS,
    averaged_two_bin_calibration_error,
    smooth_calibration_error,
)
from ._curve import ReliabilityCurve, curve_from_sums, edges_of
from ._groups import Random
from ._names import MEASURES, measure_name, name_of_function, suggestion
from ._proper_scores import ranked_probability_score

Measure = str | Callable[..., Any]

Method = Literal["auto", "inversion", "jackknife"]

# Measures by name that are computed by a call, in contrast to the measures of bins.
CALLED: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (smooth_calibration_error, averaged_two_bin_calibration_error)
}

# Arguments that are passed to a callable measure only if they differ from these defaults.
DEFAULTS = {"kind": "auto", "n_bins": 15, "strategy": "uniform", "pos_label": None}

# Relative differences of measures that are smaller than this are treated as ties.
ROUNDING_ERROR = 1e-12


class Problem(NamedTuple):
    """Checked rows, and the kind of their scores."""

    rows: Rows  #: in memory
    kind: Kind
    pos_label: Any
    groups: Indices | None = None  #: number of the group of each row

    @property
    def weights(self) -> Floats:
        """Weight of each row."""
        return np.ones(self.rows.n_rows) if self.rows.w is None else self.rows.w

    @property
    def clusters(self) -> Indices:
        """Number of the group of each row; without groups, each row is a group."""
        return np.arange(self.rows.n_rows) if self.groups is None else self.groups

    @property
    def units(self) -> Indices | None:
        """Groups of labels that may depend on one another, None if there are none."""
        return self.clusters if self.kind == "multilabel" else self.groups

    @property
    def dependences(self) -> tuple[bool, ...]:
        """Whether rows in a group are right together, or have events together, for all tests.

        The event of the top label is that the row is right.
        """
        if self.units is None:
            return (False,)
        return (True,) if self.kind == "top-label" else (False, True)


class Column(NamedTuple):
    """Scores and their bins, which are the same in all resamples."""

    label: Any
    edges: Floats
    bins: Indices
    score: Floats
    event: Bools


class MeasuredByBins:
    """A binned measure: rows are assigned to bins once, and a resample takes a few bincounts."""

    def __init__(self, problem: Problem, name: str, n_bins: NBins, strategy: Strategy) -> None:
        rows, kind, pos_label, _ = self.problem = problem
        self.name, self.formula = name, FORMULAS[name]
        self.weights = problem.weights
        columns = columns_of(None, rows, kind, None, None, pos_label)
        edges = edges_of(columns, n_bins, strategy)
        self.columns = [
            Column(label, e, bin_index(score, closed(e, strategy)).astype(np.intp), score, event)
            for e, (label, score, event, _) in zip(edges, columns.scored(), strict=True)
        ]

    def of_rows(self, times: Indices | None = None) -> float:
        """Measure the rows if row i is repeated ``times[i]`` times, by default once."""
        return float(np.mean([self.formula(bins) for bins in self.curves(times)]))

    def curves(self, times: Indices | None = None) -> Iterator[ReliabilityCurve]:
        """Yield the bins of each column, with row i repeated ``times[i]`` times."""
        w, weight = self.problem.rows.w, self.weights if times is None else times * self.weights
        for label, edges, bins, score, event in self.columns:
            per_bin = partial(np.bincount, bins, minlength=len(edges) - 1)
            total, hits, scores = map(per_bin, (weight, weight * event, weight * score))
            # Without weights, the weight of a row is the number of times that it is drawn.
            count, squared = (total, total) if w is None else map(per_bin, (times, weight * w))
            sums = np.stack([count, total, squared, hits, scores]).astype(np.float64)
            yield curve_from_sums(label, edges, sums)


class MeasuredByCall:
    """Any function of labels and probabilities, with the columns in the order of sorted labels.

    ``params`` are passed if they are not the default and the function has parameters of the name.
    """

    def __init__(self, problem: Problem, measure: Callable[..., float], **params: Any) -> None:
        self.problem = problem
        self.measure = measure
        #: 2 for a squared norm of the residuals, else 1: intervals are for the norm
        is_squared = getattr(measure, "func", measure) is averaged_two_bin_calibration_error
        self.power = 2 if is_squared else 1
        names, params = free_names(measure), params | problem._asdict()
        self.named = {
            name: params[name]
            for name, default in DEFAULTS.items()
            if name in names and (np.ndim(params[name]) or params[name] != default)
        }
        self.order: Indices | None = None  #: of the columns, if there are two and more
        self.is_reversed = False  #: whether the function takes 1 - p
        classes = problem.rows.classes
        if problem.kind == "multilabel":  # columns have names, which measures do not need
            return
        order = np.argsort(classes)
        if problem.rows.X.ndim == 2:
            self.order = order
        else:
            # A function with pos_label takes one-dimensional probabilities of that class.
            self.is_reversed = bool(order[0] == 1 and "pos_label" not in self.named)
        if "labels" in names:  # a resample may lack a class
            self.named["labels"] = classes[order]
        if measure is ranked_probability_score and problem.rows.order is not None:
            self.named["order"] = problem.rows.order

    def of_rows(self, times: Indices | None = None) -> float:
        """Measure the rows if row i is repeated ``times[i]`` times, by default once."""
        rows = slice(None) if times is None else np.repeat(np.arange(len(times)), times)
        return self._value(self.problem.rows.y[rows], self.problem.rows.X[rows], rows)

    def of_spread(self, n: int, random: Random) -> float:
        """Return the measure of n calibrated rows with spread probabilities."""
        rows = self.problem.rows
        if rows.X.ndim == 1 or self.problem.kind == "multilabel":
            P = random.uniform(0.02, 0.98, size=(n, *rows.X.shape[1:]))
        else:
            P = random.dirichlet(np.ones(rows.X.shape[1]), size=n)
        spread = copy(self)
        new = Rows(P, np.zeros(n, np.intp), None, classes=rows.classes)
        spread.problem = self.problem._replace(rows=new, groups=None)
        return spread.of_labels(P)(random)

    def of_labels(self, P: Floats, *, right: bool = False) -> Callable[[Random], float]:
        """Return a function that draws labels from probabilities and measures these rows."""
        several = P.ndim > 1 and self.problem.kind != "multilabel"
        draw = label_draws(np.atleast_2d(P.T), self.problem.units, exclusive=several, right=right)

        def measure(random: Random) -> float:
            drawn = draw(random)  # classes, or events of all columns
            if self.problem.kind == "multilabel":
                drawn = drawn.T.astype(np.intp)
            elif not several:
                drawn = drawn[0].astype(np.intp)
            return self._value(drawn, P, slice(None))

        return measure

    def _value(self, y: Indices, P: Floats, rows: Any) -> float:
        w, classes = self.problem.rows.w, self.problem.rows.classes
        P = 1 - P if self.is_reversed else P if self.order is None else P[:, self.order]
        weights = {} if w is None else {"sample_weight": w[rows]}
        labels = y if self.problem.kind == "multilabel" else classes[y]
        with warnings.catch_warnings():  # all rows have been checked
            warnings.simplefilter("ignore", ColumnOrderWarning)
            value = self.measure(labels, P, **weights, **self.named)
        return float(getattr(value, "estimate", value))


Measured = MeasuredByBins | MeasuredByCall


def measured_by(
    measure: Measure,
    n_bins: NBins,
    strategy: Strategy,
    y_true: ArrayLike,
    y_proba: ArrayLike,
    kind: Kind,
    sample_weight: ArrayLike | None,
    labels: ArrayLike | None,
    pos_label: Any,
    groups: ArrayLike | None = None,
) -> Measured:
    """Return a measure that takes resampled rows and simulated labels."""
    if kind == "cumulative":
        check_draws_labels(kind, "An interval or a test")
    check_option("kind", kind, Kind)
    check_in_memory((y_true, y_proba, sample_weight, groups))
    name, params = _named(measure)
    fixed = params.pop("kind", kind)
    if kind not in ("auto", fixed):
        raise ValueError(
            f"measure={measure!r} has kind={fixed!r}, got kind={kind!r}. Leave kind out."
        )
    kind = fixed
    n_bins, strategy = params.pop("n_bins", n_bins), params.pop("strategy", strategy)
    rows = check_measure(y_true, y_proba, sample_weight, labels, pos_label, kind)
    numbers = group_numbers(groups, y_proba, sample_weight)
    problem = Problem(rows.in_memory(), resolved(kind, rows.classes), pos_label, numbers)
    if name in FORMULAS:
        return MeasuredByBins(problem, name, n_bins, strategy)
    function: Any = measure if name is None else MEASURES[name][0]
    if name is not None and params:
        function = partial(function, **params)
    return MeasuredByCall(problem, function, n_bins=n_bins, strategy=strategy)


def _named(measure: Measure) -> tuple[str | None, dict[str, Any]]:
    """Return the name of a measure, None for functions of users, and the arguments it stands for.

    Raise a ValueError for an unknown name, and for an object that is no function.
    """
    if callable(measure) and not isinstance(measure, type):
        return name_of_function(measure)
    name = measure_name(measure) if isinstance(measure, str) else None
    if name is None:
        question = suggestion(measure, MEASURES) if isinstance(measure, str) else ""
        raise ValueError(
            f"measure must be a callable or one of {', '.join(MEASURES)}, got {measure!r}."
            f"{question}"
        )
    function, params = MEASURES[name]
    return (name_of_function(function)[0] or name), dict(params)


def free_names(measure: Callable[..., float]) -> set[str]:
    """Return the parameters of a function that ``functools.partial`` does not bind."""
    bound = set(measure.keywords) if isinstance(measure, partial) else set()
    try:
        parameters = signature(measure).parameters.values()
    except (TypeError, ValueError):  # some functions in C have no signature
        return set()
    named = {p.name for p in parameters if p.kind in {p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY}}
    return named - bound


def label_draws(
    S: Floats, units: Indices | None, *, exclusive: bool, right: bool
) -> Callable[[Random], Any]:
    """Return a function that draws events (K, n) with probabilities S, or classes (n,).

    All rows of a unit have the same uniform number, so that they depend fully on one another: they
    have their events together, or they are ``right`` together. A row is right if its most probable
    outcome happens.
    """
    n, rows = S.shape[1], np.arange(S.shape[1])

    def uniform(random: Random) -> Floats:
        u = np.asarray(random.uniform(size=n if units is None else int(units.max()) + 1))
        return u if units is None else u[units]

    if not exclusive:
        likely, side = np.maximum(S, 1 - S), S > 0.5

        def events(random: Random) -> Bools:
            u = uniform(random)
            return np.asarray((u < likely) == side if right else u < S)

        return events
    ranks = np.argsort(-S, axis=0, kind="stable") if right else np.arange(len(S))[:, None]
    ranks = np.broadcast_to(ranks, S.shape)
    cumulative = np.take_along_axis(S, ranks, axis=0).cumsum(axis=0).T

    def classes(random: Random) -> Indices:
        u = uniform(random) * cumulative[:, -1]
        return np.asarray(ranks[(cumulative[:, :-1] <= u[:, None]).sum(axis=1), rows])

    return classes
