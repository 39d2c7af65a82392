"""Verdict of a report: the answers of the numbers, as sentences of ``verdict.toml``."""

from __future__ import annotations

import tomllib
from string import Template
from typing import Any

import numpy as np

from skcalib._output import counted, resource, written

from ._numbers import Evaluation, has_interval, measured, risk_figure

SENTENCES: dict[str, Any] = tomllib.loads(resource("report/verdict.toml"))

# Level that all tests share.
ALPHA = 0.05

# Tests by intervals that do not contain 1.
RISK_TESTS = {
    "the mean risk": "observed over expected",
    "the spread of the risks": "calibration slope",
}

# With fewer rows, intervals and tests detect large errors only.
FEW_ROWS = 100

# With fewer rows that contradict the prediction, intervals of mean scores are too narrow.
FEW_SURPRISES = 10


def verdict(name: str, *evaluations: Evaluation) -> list[str]:
    """Return sentences on all tests, on the effect of calibration or the risks, and on the ECE.

    The verdict is on the last evaluation. The first of two is before calibration by ``name``.
    """
    rows, is_calibration = evaluations[-1], len(evaluations) > 1
    sentences = SENTENCES["calibration" if is_calibration else "validation"]
    doubted, n_tests = rejections(rows, ALPHA)
    rejected, _ = rejections(rows, ALPHA / n_tests)
    words = {
        "name": name,
        "tests": tests_with_verb(rejected or doubted, n_tests, rows),
        "level": ALPHA,
        "limit": f"{ALPHA / n_tests:.3g}",
        "n_tests": n_tests,
        "units": rows.units,
        "reveal": "reveals" if rows.n_units == 1 else "reveal",
        "ece": written(rows.ece.estimate),
        "low": written(rows.ece.low),
        "high": written(rows.ece.high),
        "before": written(evaluations[0].ece.estimate),
        "p": as_pvalue(rows.tests["the ECE"].pvalue),
    }
    nothing = "few" if rows.n_effective < FEW_ROWS else "none"
    answer = "rejected" if rejected else "doubted" if doubted else nothing
    ece_answer = "other" if doubted else nothing
    if "the ECE" in doubted:
        ece_answer = "rejected" if "the ECE" in rejected else "doubted"
    texts = sentences["tests"][answer], sentences["ece"]["start"] + sentences["ece"][ece_answer]
    first, last = (Template(text).substitute(words) for text in texts)
    return [
        first,
        *([effect(name, *evaluations)] if is_calibration else risks(rows, rejected)),
        last,
    ]


def rejections(rows: Evaluation, level: float) -> tuple[list[str], int]:
    """Return the tests on the page that reject at a level, and the number of all tests."""
    rejected = {"the ECE": False}  # the first in sentences
    for test, title in RISK_TESTS.items() if rows.kind == "binary" else ():
        found = risk_figure(rows, title, 1 - level)
        if has_interval(found):
            rejected[test] = not found.low <= 1 <= found.high
    rejected |= {test: found.pvalue <= level for test, found in rows.tests.items()}
    return [test for test, rejects in rejected.items() if rejects], len(rejected)


def tests_with_verb(names: list[str], n_tests: int, rows: Evaluation) -> str:
    """Return the tests that find an error as a subject with its verb, with the worst segment."""
    if "a segment" in names and (found := rows.segments) is not None:
        gap, low, high = (signed(float(x[0])) for x in (found.gap, found.low, found.high))
        segment = f"{found.segment[0]}, scores from {found.lower[0]:.2f} to {found.upper[0]:.2f}"
        names = [*names[:-1], f"a segment ({segment}: gap {gap} [{low}, {high}])"]
    if len(names) > 1:
        return f"the tests of {', '.join(names[:-1])} and {names[-1]} find"
    if names:
        return f"the test of {names[0]} finds"
    return f"none of {n_tests} tests finds" if n_tests > 1 else "the test does not find"


def effect(name: str, before: Evaluation, after: Evaluation) -> str:
    """Return the sentence on the change of the log loss."""
    change = measured(after, "log loss", before)
    answer, interval, caution = "unclear", "without an interval", ""
    if np.array_equal(before.P, after.P):
        answer = "unchanged"
    elif has_interval(change):
        answer = "better" if change.high < 0 else "worse" if change.low > 0 else "unclear"
        interval = f"95% interval {signed(change.low)} to {signed(change.high)}"
        if rare := few_surprises(before, after):
            caution = f"; {rare}, so this interval is too narrow"
    return Template(SENTENCES["calibration"]["effect"][answer]).substitute(
        name=name,
        before=written(measured(before, "log loss").estimate),
        after=written(measured(after, "log loss").estimate),
        change=f"change {signed(change.estimate)}, {interval}",
        caution=caution,
    )


def risks(rows: Evaluation, rejected: list[str]) -> list[str]:
    """Return sentences on the mean and on the spread of the risks, of two classes."""
    sentences = []
    for test, title in RISK_TESTS.items() if rows.kind == "binary" else ():
        if has_interval(found := risk_figure(rows, title)):
            answer = "below" if found.high < 1 else "above" if found.low > 1 else "none"
            text = Template(SENTENCES["validation"][test][answer])
            are = "are" if test in rejected else "may be"
            numbers = f"{found.estimate:.2f} (95% interval {found.low:.2f} to {found.high:.2f})"
            sentences.append(text.substitute(are=are, numbers=numbers))
    if sentences and (caution := few_surprises(rows)):
        sentences.append(f"{caution.capitalize()}, so these intervals are too narrow.")
    return sentences


def few_surprises(*evaluations: Evaluation) -> str:
    """Return a clause on the kind of rows that is rare; empty if there are enough of both."""
    hits = [int(evaluation.hits.sum()) for evaluation in evaluations]
    rows = evaluations[-1]
    counts = {"hits": min(hits), "misses": rows.n_samples - max(hits)}
    n, rarer = min((n, outcome) for outcome, n in counts.items())
    if n >= FEW_SURPRISES:
        return ""
    kind = SENTENCES["rare"][rows.kind][rarer]
    return f"only {counted(n, 'row')} {'is' if n == 1 else 'are'} {kind}"


def as_pvalue(pvalue: float) -> str:
    """Return a p-value as text."""
    return "p < 0.001" if pvalue < 0.0005 else f"p = {pvalue:.3f}"


def signed(value: float) -> str:
    """Return a difference as text, with its sign."""
    sign = "+" if value >= 0 else "\N{MINUS SIGN}" if value < 0 else ""
    return sign + written(abs(value))
