"""The verdict of a report: three sentences that claim no more than the rows show."""

import numpy as np

from skcalib._rows.arrays import Floats
from skcalib.metrics import (
    CalibrationComparisonResult,
    CalibrationErrorInterval,
    CalibrationTestResult,
)

from ._evaluation import Evaluation
from ._intervals import gap_interval
from ._measures import ACCURACY, BRIER, DEBIASED_ECE, ECE, LOG_LOSS, Change

# With fewer rows of equal weight neither intervals nor tests say much.
FEW_ROWS = 100

# With fewer rows that are misclassified, or that are not, the spread of the scores is not seen.
FEW_OF_A_KIND = 10

SIGNIFICANT = 0.05

# An ECE below this is small, however significant it is for many rows.
SMALL = 0.01

# The measures of the second sentence.
JUDGED = (LOG_LOSS, BRIER, DEBIASED_ECE)


def verdict(
    rows: Evaluation,
    name: str,
    measures: dict[str, Change],
    tests: tuple[CalibrationTestResult, CalibrationTestResult],
) -> list[str]:
    """What was wrong before calibration, what it changed, and what is left."""
    before, after = tests
    return [
        _before(rows, before.pvalue),
        _effect(rows, name, measures),
        _after(rows, measures[ECE.title], after.pvalue),
    ]


def has_few_rows(rows: Evaluation) -> bool:
    """Whether the rows are too few for a verdict."""
    return rows.n_effective < FEW_ROWS


def few_of_a_kind(rows: Evaluation) -> str | None:
    """Which rows are too few to tell the uncertainty of scores, as text."""
    used = rows.weights > 0
    n = [int(np.sum(P.argmax(axis=1)[used] == rows.index[used])) for P in (rows.before, rows.after)]
    found = {"misclassified": rows.n_samples - max(n), "classified correctly": min(n)}
    kind, fewest = min(found.items(), key=lambda item: item[1])
    if fewest >= FEW_OF_A_KIND:
        return None
    return f"only {fewest} of them {'is' if fewest == 1 else 'are'} {kind}".replace(
        "only 0 of them are", "none of them is"
    )


def _before(rows: Evaluation, pvalue: float) -> str:
    confidence, hit = rows.before.max(axis=1), rows.before.argmax(axis=1) == rows.index
    gap = mean_gap(rows, rows.before)
    means = (
        f"its mean confidence is {rows.mean(confidence):.1%} and its accuracy {rows.mean(hit):.1%}"
    )
    if has_few_rows(rows):
        return (
            f"{counted(rows)} are too few to say how well the model is calibrated: on them {means} "
            "before calibration."
        )
    if gap.low > 0 or gap.high < 0:
        kind = "over-confident" if gap.low > 0 else "under-confident"
        return f"Before calibration the model is {kind}: {means}, a difference of {_points(gap)}."
    start = "Before calibration the rows show neither over- nor under-confidence on average"
    if pvalue <= SIGNIFICANT:
        return (
            f"{start}, but the model is miscalibrated, since confidence and accuracy differ from "
            f"bin to bin by more than chance explains ({as_pvalue(pvalue)}): {means}."
        )
    return f"{start}, and no other miscalibration ({as_pvalue(pvalue)}): {means}."


def _effect(rows: Evaluation, name: str, measures: dict[str, Change]) -> str:
    found = {m.title: measures[m.title].difference for m in JUDGED}
    if np.array_equal(rows.before, rows.after):
        return f"{name} leaves all probabilities as they are."
    if uncertain := _uncertain(rows, name, joined([_change(*item) for item in found.items()])):
        return uncertain
    fell = [_fall(title, d) for title, d in found.items() if d.high < 0]
    rose = [_fall(title, d) for title, d in found.items() if d.low > 0]
    other = [_change(title, d) for title, d in found.items() if not (d.high < 0 or d.low > 0)]
    accuracy = _of_accuracy(measures[ACCURACY.title].difference)
    unclear = f"; not clear is the change of {joined(other)}" if other else ""
    if rose and fell:
        return (
            f"{name} does not improve all measures: it lowers {joined(fell)}, but raises "
            f"{joined(rose)}{unclear}{accuracy}."
        )
    if rose:
        # A calibration error alone may rise where the scores tell classes better apart.
        worse = any(found[m.title].low > 0 for m in (LOG_LOSS, BRIER))
        verb = "makes the probabilities worse: it raises" if worse else "raises"
        return f"{name} {verb} {joined(rose)}{unclear}{accuracy}."
    if fell:
        return f"{name} lowers {joined(fell)}{unclear}{accuracy}."
    return f"{name} has no clear effect on {joined(other)}{accuracy}."


def _uncertain(rows: Evaluation, name: str, changes: str) -> str | None:
    """The sentence on the effect if the intervals of the changes are not to be trusted."""
    if has_few_rows(rows):
        return f"What {name} changes is uncertain with so few rows: {changes}."
    if few := few_of_a_kind(rows):
        return (
            f"On these rows {name} changes {changes}, but new rows may say otherwise, since {few}."
        )
    return None


def _after(rows: Evaluation, ece: Change, pvalue: float) -> str:
    value = (
        f"After calibration the ECE is {ece.after.estimate:.4f} (95% interval of the true error "
        f"{ece.after.low:.4f} to {ece.after.high:.4f})"
    )
    if few_of_a_kind(rows) and not has_few_rows(rows):
        # Resamples of rows without errors hold no errors either.
        gap = mean_gap(rows, rows.after)
        value = (
            f"After calibration the ECE is {ece.after.estimate:.4f} (95% interval of the mean "
            f"confidence less the accuracy {signed(gap.low)} to {signed(gap.high)})"
        )
    if has_few_rows(rows):
        return (
            f"{value}, and {as_pvalue(pvalue)} is the probability of one at least as large if the "
            "model were calibrated, but so few rows reveal only large errors."
        )
    if pvalue <= SIGNIFICANT:
        small = "which is small, but " if ece.after.high < SMALL else ""
        return (
            f"{value}, {small}more than chance explains if the model were calibrated "
            f"({as_pvalue(pvalue)}): {_left(rows)}."
        )
    return (
        f"{value}, no more than chance explains if the model were calibrated "
        f"({as_pvalue(pvalue)}): these rows show no miscalibration of the confidence that is left, "
        "which does not prove that there is none."
    )


def _left(rows: Evaluation) -> str:
    """Which miscalibration is left."""
    gap = mean_gap(rows, rows.after)
    if gap.low > 0 or gap.high < 0:
        kind = "over-confident" if gap.low > 0 else "under-confident"
        return f"the model is {kind} now, by {_points(gap)}"
    return "some miscalibration of the confidence is left"


def mean_gap(rows: Evaluation, P: Floats) -> CalibrationErrorInterval:
    """Mean confidence less accuracy, with its interval."""
    hit = P.argmax(axis=1) == rows.index
    return gap_interval(P.max(axis=1), hit, rows.weights)


def counted(rows: Evaluation) -> str:
    """How many rows there are."""
    return "1 row" if rows.n_samples == 1 else f"{rows.n_samples:,} rows"


def as_pvalue(pvalue: float) -> str:
    """A p-value as text."""
    return f"p = {pvalue:.3f}" if pvalue < 0.0995 else f"p = {pvalue:.2f}"


def joined(parts: list[str]) -> str:
    """Parts of a sentence as a list in words."""
    *others, last = parts
    return f"{', '.join(others)} and {last}" if others else last


def _points(gap: CalibrationErrorInterval) -> str:
    low, high = sorted((100 * abs(gap.low), 100 * abs(gap.high)))
    return f"{100 * abs(gap.estimate):.1f} percentage points (95% interval {low:.1f} to {high:.1f})"


def _fall(title: str, difference: CalibrationComparisonResult) -> str:
    """The size of a clear change, whose direction the verb says."""
    low, high = sorted((abs(difference.low), abs(difference.high)))
    size = abs(difference.statistic)
    return f"the {title} by {size:.4f} (95% interval {low:.4f} to {high:.4f})"


def _change(title: str, difference: CalibrationComparisonResult) -> str:
    d = difference
    low, high = signed(d.low), signed(d.high)
    return f"the {title} ({signed(d.statistic)}, 95% interval {low} to {high})"


def signed(value: float) -> str:
    """A difference as text."""
    return f"{value:+.4f}".replace("-", "\N{MINUS SIGN}")


def _of_accuracy(difference: CalibrationComparisonResult) -> str:
    if not (difference.high < 0 or difference.low > 0):
        return ""
    verb = "falls" if difference.statistic < 0 else "rises"
    return f"; the accuracy {verb} by {100 * abs(difference.statistic):.1f} percentage points"
