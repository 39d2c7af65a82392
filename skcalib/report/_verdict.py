"""Verdict of a report: sentences on the effect of calibration and on the calibration error."""

from __future__ import annotations

import numpy as np

from skcalib._output import written

from ._numbers import ALPHA, Evaluation, mean_estimate, risk_figure

# With fewer rows, intervals and tests detect large errors only.
FEW_ROWS = 100

# With fewer rows that contradict the prediction, intervals of mean scores are too narrow.
FEW_SURPRISES = 10


def headline(rows: Evaluation, name: str = "") -> str:
    """Return the sentence on all tests of the page, after the calibrator ``name``."""
    doubted, rejected, n_tests = rows.decisions
    after = f" after {name}" if name else ""
    if rejected:
        return f"Not calibrated{after}: {_tests_of(rejected, rows)} an error."
    if doubted:
        return (
            f"Not clear{after}: {_tests_of(doubted, rows)} an error with p below {ALPHA}, but not "
            f"below {ALPHA / n_tests:.3g}, the limit for {n_tests} tests."
        )
    none = f"none of {n_tests} tests finds" if n_tests > 1 else "the test does not find"
    if rows.n_effective < FEW_ROWS:
        return f"Not shown{after}: {none} an error, but {counted(rows)} reveal only large errors."
    return (
        f"Calibrated{after} as far as {counted(rows)} show: {none} an error, and the true ECE is "
        f"at most {written(rows.ece.high)} (end of the 95% interval)."
    )


def _tests_of(names: list[str], rows: Evaluation) -> str:
    """Return the names of tests as a subject with its verb, with the worst segment."""
    if "a segment" in names and (found := rows.segments) is not None:
        gap, low, high = (signed(float(x[0])) for x in (found.gap, found.low, found.high))
        segment = f"{found.segment[0]}, scores from {found.lower[0]:.2f} to {found.upper[0]:.2f}"
        names = [*names[:-1], f"a segment ({segment}: gap {gap} [{low}, {high}])"]
    if len(names) == 1:
        return f"the test of {names[0]} finds"
    return f"the tests of {', '.join(names[:-1])} and {names[-1]} find"


def effect(name: str, before: Evaluation, after: Evaluation) -> str:
    """Return the sentence on the change of the log loss."""
    if np.array_equal(before.P, after.P):
        return f"{name} leaves all probabilities unchanged."
    first, second = (rows.row_values["log loss"] for rows in (before, after))
    means = [float(np.average(losses, weights=after.weights)) for losses in (first, second)]
    change, low, high, _ = mean_estimate(second - first, after.weights, after.groups)
    numbers = (
        f"from {written(means[0])} to {written(means[1])} (change {signed(change)}, 95% interval "
        f"{signed(low)} to {signed(high)})"
    )
    if high < 0:
        text = f"{name} improves the probabilities: the log loss falls {numbers}"
    elif low > 0:
        text = f"{name} makes the probabilities worse: the log loss rises {numbers}"
    else:
        text = f"{name} has no clear effect: the log loss goes {numbers}"
    caution = few_surprises(before, after)
    return f"{text}; {caution}, so this interval is too narrow." if caution else f"{text}."


def risks(rows: Evaluation) -> list[str]:
    """Return sentences on the mean and on the spread of the risks, of two classes."""
    if rows.kind != "binary":
        return []
    claims = {
        "observed over expected": ("too high on average", "too low on average", "the mean risk"),
        "calibration slope": ("too extreme", "not extreme enough", "the spread of the risks"),
    }
    sentences = []
    for title, (above, below, what) in claims.items():
        found = risk_figure(rows, title)
        if found is not None and not np.isnan(found.low):
            error = above if found.high < 1 else below if found.low > 1 else None
            verb = "are" if what in rows.decisions[1] else "may be"
            start = f"Risks {verb} {error}" if error else f"No error of {what} was detected"
            ends = f"95% interval {found.low:.2f} to {found.high:.2f}"
            sentences.append(f"{start}: {title} is {found.estimate:.2f} ({ends}).")
    if sentences and (caution := few_surprises(rows)):
        sentences.append(f"{caution.capitalize()}, so these intervals are too narrow.")
    return sentences


def remaining(rows: Evaluation, before: Evaluation | None = None) -> str:
    """Return the sentence on the calibration error, after calibration if there was a before."""
    ece, p = rows.ece, as_pvalue(rows.test.pvalue)
    when, still, left, earlier = "The", "", "", ""
    if before is not None:
        when, still, left = "After calibration the", "still ", "remaining "
        earlier = f"; before calibration {written(before.ece.estimate)}"
    start = (
        f"{when} ECE is {written(ece.estimate)} (95% interval of the true error "
        f"{written(ece.low)} to {written(ece.high)}{earlier})"
    )
    doubted, rejected, _ = rows.decisions
    if "the ECE" in rejected:
        return f"{start}: the model is {still}miscalibrated ({p})."
    if "the ECE" in doubted:
        return f"{start}: the model may {still}be miscalibrated ({p})."
    if doubted:
        return f"{start}: the ECE alone does not show an error ({p})."
    limit = "which does not prove its absence"
    if rows.n_effective < FEW_ROWS:
        limit = f"but {counted(rows)} reveal only large errors"
    return f"{start}: no {left}miscalibration was detected ({p}), {limit}."


def counted(rows: Evaluation) -> str:
    """Return the number of independent units as text: groups, or rows without groups."""
    if rows.groups is None:
        return f"{rows.n_samples:,} {'row' if rows.n_samples == 1 else 'rows'}"
    n = len(np.unique(rows.groups[rows.weights > 0]))
    return f"{n:,} {'group' if n == 1 else 'groups'}"


def few_surprises(*evaluations: Evaluation) -> str:
    """Return a clause on the kind of rows that is rare; empty if there are enough of both."""
    rows = evaluations[-1]
    hits = [int(evaluation.hits[rows.weights > 0].sum()) for evaluation in evaluations]
    misses = rows.n_samples - max(hits)
    kinds = ("with the event", "without the event") if rows.kind == "binary" else (
        "classified correctly", "misclassified",
    )  # fmt: skip
    n, kind = min((min(hits), kinds[0]), (misses, kinds[1]))
    if n >= FEW_SURPRISES:
        return ""
    return f"only {n} {'row is' if n == 1 else 'rows are'} {kind}"


def as_pvalue(pvalue: float) -> str:
    """Return a p-value as text."""
    return "p < 0.001" if pvalue < 0.0005 else f"p = {pvalue:.3f}"


def signed(value: float) -> str:
    """Return a difference as text, with its sign."""
    return ("+" if value >= 0 else "\N{MINUS SIGN}") + written(abs(value))
