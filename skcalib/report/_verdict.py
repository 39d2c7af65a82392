"""Verdict of a report: two sentences on the effect of calibration and the remaining error."""

from __future__ import annotations

import numpy as np

from skcalib._output import written
from skcalib.metrics import CalibrationTestResult

from ._numbers import Change, Evaluation

# With fewer rows, intervals and tests detect large errors only.
FEW_ROWS = 100

# With fewer rows that contradict the prediction, intervals of mean scores are too narrow.
FEW_SURPRISES = 10


def verdict(
    rows: Evaluation,
    name: str,
    measures: dict[str, Change],
    tests: tuple[CalibrationTestResult, CalibrationTestResult],
) -> list[str]:
    """Sentences on the change of the log loss, and on the remaining calibration error."""
    return [_effect(rows, name, measures["log loss"]), _remaining(rows, measures["ECE"], tests[1])]


def _effect(rows: Evaluation, name: str, loss: Change) -> str:
    if np.array_equal(rows.before, rows.after):
        return f"{name} leaves all probabilities unchanged."
    difference = loss.difference
    numbers = (
        f"from {written(loss.before.estimate)} to {written(loss.after.estimate)} (change "
        f"{signed(difference.estimate)}, 95% interval {signed(difference.low)} to "
        f"{signed(difference.high)})"
    )
    caution = few_surprises(rows)
    if difference.high < 0:
        text = f"{name} improves the probabilities: the log loss falls {numbers}"
    elif difference.low > 0:
        text = f"{name} makes the probabilities worse: the log loss rises {numbers}"
    else:
        text = f"{name} has no clear effect: the log loss goes {numbers}"
    return f"{text}; {caution}, so this interval is too narrow." if caution else f"{text}."


def _remaining(rows: Evaluation, ece: Change, test: CalibrationTestResult) -> str:
    after, p = ece.after, as_pvalue(test.pvalue)
    start = (
        f"After calibration the ECE is {written(after.estimate)} (95% interval of the true error "
        f"{written(after.low)} to {written(after.high)}; before calibration "
        f"{written(ece.before.estimate)})"
    )
    if test.pvalue <= 0.05:
        return f"{start}: the model is still miscalibrated ({p})."
    if rows.n_effective < FEW_ROWS:
        n = f"{rows.n_samples:,} {'row' if rows.n_samples == 1 else 'rows'}"
        limit = f"but {n} reveal only large errors"
    else:
        limit = "which does not prove its absence"
    return f"{start}: no remaining miscalibration was detected ({p}), {limit}."


def few_surprises(rows: Evaluation) -> str:
    """Clause that says which kind of rows is rare; empty if there are enough of each."""
    used = rows.weights > 0
    hits = [int(rows.events(P)[1][used].sum()) for P in (rows.before, rows.after)]
    misses = rows.n_samples - max(hits)
    kinds = ("with the event", "without the event") if rows.kind == "binary" else (
        "classified correctly", "misclassified",
    )  # fmt: skip
    n, kind = min((min(hits), kinds[0]), (misses, kinds[1]))
    if n >= FEW_SURPRISES:
        return ""
    return f"only {n} {'row is' if n == 1 else 'rows are'} {kind}"


def as_pvalue(pvalue: float) -> str:
    """P-value as text."""
    return "p < 0.001" if pvalue < 0.0005 else f"p = {pvalue:.3f}"


def signed(value: float) -> str:
    """Difference as text, with its sign."""
    return ("+" if value >= 0 else "\N{MINUS SIGN}") + written(abs(value))
