"""What was evaluated for a report, its numbers, and the verdict: what the rows show of them.

Numbers are computed when they are needed. The verdict is three sentences that claim no more than
the rows show.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from skcalib import conditional, metrics
from skcalib._output import written
from skcalib._rows import Array, Floats
from skcalib.comparison import CalibratorComparison
from skcalib.conditional import MulticalibrationResult
from skcalib.display import TemperatureSweepDisplay
from skcalib.metrics import CalibrationTestResult, ScoreDecomposition

from . import _measures
from ._measures import SEED, Change, Evaluation, number_of_resamples, short


class View(NamedTuple):
    """Probabilities before or after calibration, with their names."""

    P: Floats
    title: str
    heading: str
    when: str


@dataclass(eq=False, repr=False)
class Results:
    """What was evaluated, and the numbers of a report."""

    name: str
    given_name: str | None  #: by the user
    calibrator: Any
    comparison: CalibratorComparison | None
    warnings_: list[str]
    rows: Evaluation
    sweep: TemperatureSweepDisplay
    n_columns: int  #: of the logits
    facts: list[tuple[str, str]]  #: about the logits and their rows
    given: tuple[str, ...] = ()  #: what else predictions were given: features
    features: Any = None
    command: str = ""  #: the command line that was typed
    figure_: Any = None

    @property
    def views(self) -> tuple[View, View]:
        """Probabilities before and after calibration, with titles that differ."""
        title, when = "After" if self.name == "Before" else self.name, "after calibration by "
        return (
            View(self.rows.before, "Before", "Before calibration", "before calibration"),
            View(self.rows.after, title, "After calibration", when + title),
        )

    @cached_property
    def measures_(self) -> dict[str, Change]:
        """All measures, with intervals."""
        return _measures.changes_of(self.rows)

    @cached_property
    def tests_(self) -> tuple[CalibrationTestResult, CalibrationTestResult]:
        """Tests of whether the model is calibrated, before and after."""
        n_resamples = number_of_resamples(self.rows.n_samples)
        params = {**self.rows.of_kind, "random_state": SEED, "n_resamples": n_resamples}
        before, after = (
            metrics.calibration_test(self.rows.y, view.P, **params) for view in self.views
        )
        return before, after

    @cached_property
    def segments_(self) -> tuple[MulticalibrationResult, MulticalibrationResult] | None:
        """Gaps of the segments of features before and after, if there are features."""
        if self.features is None:
            return None
        rows, n_resamples = self.rows, number_of_resamples(self.rows.n_samples)
        params: Any = {"kind": rows.kind, "random_state": SEED, "n_resamples": n_resamples}
        before, after = (
            conditional.multicalibration_error(rows.y, P, self.features, **rows.of_rows, **params)
            for P in (rows.before, rows.after)
        )
        return before, after

    @cached_property
    def risk_(self) -> dict[str, tuple[Any, Any]] | None:
        """Figures of the risk of the second of two classes, before and after."""
        return _measures.risk_figures(self.rows) if self.rows.kind == "binary" else None

    @cached_property
    def decompositions_(self) -> dict[str, tuple[ScoreDecomposition, ScoreDecomposition]]:
        """Decompositions of proper scores, before and after."""
        rows = self.rows

        def of(P: Floats, score: Any) -> ScoreDecomposition:
            return metrics.score_decomposition(
                rows.y, P, score=score, kind=rows.kind, **rows.of_rows
            )

        scores = ("log_loss", "brier_score")
        return {score: (of(rows.before, score), of(rows.after, score)) for score in scores}

    @cached_property
    def by_class_(self) -> dict[str, Array]:
        """Rows, base rate, mean prediction and ECE of each class, in the order of the columns."""
        rows = self.rows
        weight = np.bincount(rows.index, rows.weights, minlength=rows.n_classes)
        found = {
            "label": rows.classes,
            "n_samples": rows.counts,
            "base_rate": weight / weight.sum(),
        }
        each: dict[str, Any] = {"kind": "classwise", "average": None, **rows.keywords}
        for when, P in (("before", rows.before), ("after", rows.after)):
            found[f"mean_{when}"] = np.average(P, axis=0, weights=rows.w).astype(np.float64)
            found[f"ece_{when}"] = metrics.expected_calibration_error(rows.y, P, **each)
        return found

    @cached_property
    def verdict_(self) -> list[str]:
        """Three sentences: before calibration, its effect, and what is left."""
        return verdict(self.rows, self.name, self.measures_, self.tests_)

    def worst(self, n_classes: int) -> list[int]:
        """Indices of the classes with the largest ECE after calibration, in decreasing order."""
        order = np.argsort(-self.by_class_["ece_after"], kind="stable")
        return order[:n_classes].tolist()


# With fewer rows of equal weight neither intervals nor tests say much.
FEW_ROWS = 100

# With fewer rows that are misclassified, or that are not, the spread of the scores is not seen.
FEW_OF_A_KIND = 10

SIGNIFICANT = 0.05

# An ECE below this is small, however significant it is for many rows.
SMALL = 0.01

# The proper scores, which say alone whether probabilities are worse; all measures of the second
# sentence.
SCORES = ("log loss", "Brier score")
JUDGED = (*SCORES, "debiased ECE")

# Of each sentence the first whose condition holds is said.
BEFORE = {
    "few rows": "{rows} are too few to say how well the model is calibrated: on them {means} "
    "before calibration.",
    "it leans": "Before calibration the model {kind}: {means}, a difference of {size}.",
    "it errs": "Before calibration the rows show neither over- nor under-{noun} on average, but "
    "the model is miscalibrated, since predictions and frequencies differ from bin to bin by more "
    "than chance explains ({p}): {means}.",
    "otherwise": "Before calibration the rows show neither over- nor under-{noun} on average, and "
    "no other miscalibration ({p}): {means}.",
}
EFFECT = {
    "unchanged": "{name} leaves all probabilities as they are.",
    "few rows": "What {name} changes is uncertain with so few rows: {changes}.",
    "few of a kind": "On these rows {name} changes {changes}, but new rows may say otherwise, "
    "since {few}.",
    # A calibration error alone may rise where the scores tell classes better apart.
    "scores rise": "{name} makes the probabilities worse: it {moves}{accuracy}.",
    "otherwise": "{name} {moves}{accuracy}.",
}
AFTER = {
    "few rows": "{ece}, and {p} is the probability of one at least as large if the model were "
    "calibrated, but so few rows reveal only large errors.",
    "it errs and leans": "{ece}, {small}more than chance explains if the model were calibrated "
    "({p}): the model {kind} now, by {size}.",
    "it errs": "{ece}, {small}more than chance explains if the model were calibrated ({p}): some "
    "miscalibration is left.",
    "otherwise": "{ece}, no more than chance explains if the model were calibrated ({p}): these "
    "rows show no miscalibration that is left, which does not prove that there is none.",
}


def verdict(
    rows: Evaluation,
    name: str,
    measures: dict[str, Change],
    tests: tuple[CalibrationTestResult, CalibrationTestResult],
) -> list[str]:
    """What was wrong before calibration, what it changed, and what is left."""
    before, after = (test.pvalue for test in tests)
    return [
        _before(rows, before),
        _effect(rows, name, measures),
        _after(rows, measures["ECE"].after, after),
    ]


def _said(cases: dict[str, str], holds: dict[str, Any], **words: Any) -> str:
    holds = {"otherwise": True, **holds}
    return next(text for condition, text in cases.items() if holds[condition]).format(**words)


def _before(rows: Evaluation, pvalue: float) -> str:
    lean = lean_of(rows, rows.before)
    holds = {
        "few rows": rows.n_effective < FEW_ROWS,
        "it leans": lean["kind"],
        "it errs": pvalue <= SIGNIFICANT,
    }
    return _said(BEFORE, holds, rows=counted(rows), p=as_pvalue(pvalue), **lean)


def _effect(rows: Evaluation, name: str, measures: dict[str, Change]) -> str:
    changes = {title: measures[title].difference for title in JUDGED}
    risen = [title for title, d in changes.items() if d.low > 0]
    fallen = [title for title, d in changes.items() if d.high < 0]
    unclear = [title for title in changes if title not in risen + fallen]
    said = {"lowers": fallen, "raises": risen, "has no clear effect on": unclear}
    each = {
        title: f"the {title} ({signed(d.estimate)}, 95% interval {signed(d.low)} to "
        f"{signed(d.high)})"
        for title, d in changes.items()
    }
    moves = [
        f"{verb} {joined(each[title] for title in some)}" for verb, some in said.items() if some
    ]
    few, accuracy = few_of_a_kind(rows), measures["accuracy"].difference
    verb = "falls" if accuracy.estimate < 0 else "rises"
    points = f"; the accuracy {verb} by {100 * abs(accuracy.estimate):.1f} percentage points"
    holds = {
        "unchanged": np.array_equal(rows.before, rows.after),
        "few rows": rows.n_effective < FEW_ROWS,
        "few of a kind": few,
        "scores rise": {*SCORES} & {*risen} and not {*SCORES} & {*fallen},
    }
    words = {"changes": joined(each.values()), "moves": "; it ".join(moves), "few": few}
    clear = accuracy.high < 0 or accuracy.low > 0
    return _said(EFFECT, holds, name=name, accuracy=points if clear else "", **words)


def _after(rows: Evaluation, ece: metrics.IntervalEstimate, pvalue: float) -> str:
    lean = lean_of(rows, rows.after)
    few_rows, errs = rows.n_effective < FEW_ROWS, pvalue <= SIGNIFICANT
    interval = f"95% interval of the true error {written(ece.low)} to {written(ece.high)}"
    if few_of_a_kind(rows) and not few_rows:  # resamples of rows without errors hold none either
        interval = f"95% interval of the {lean['gap']} {lean['ends']}"
    return _said(
        AFTER,
        {"few rows": few_rows, "it errs and leans": errs and lean["kind"], "it errs": errs},
        ece=f"After calibration the ECE is {written(ece.estimate)} ({interval})",
        p=as_pvalue(pvalue),
        small="which is small, but " if ece.high < SMALL else "",
        **lean,
    )


def lean_of(rows: Evaluation, P: Floats) -> dict[str, str]:
    """Words about the mean score less the frequency; no kind if the sign of it is not sure."""
    score, event = rows.scored(P)
    gap = _measures.gap_interval(score, event, rows.weights)
    low, high = sorted((abs(gap.low), abs(gap.high)))
    mean, frequency = (f"{in_percent(rows.mean(x))}%" for x in (score, event))
    size = abs(gap.estimate)
    if rows.kind == "binary":
        event_name = short(rows.classes[1])
        over, under = (f"{v}-estimates the probability of {event_name}" for v in ("over", "under"))
        means = f"its mean is {mean}, and {frequency} of the rows are {event_name}"
        words = {"noun": "estimation", "gap": "mean probability less the event rate"}
    else:
        over, under = "is over-confident", "is under-confident"
        means = f"its mean confidence is {mean} and its accuracy {frequency}"
        words = {"noun": "confidence", "gap": "mean confidence less the accuracy"}
    return words | {
        "means": means,
        "kind": over if gap.low > 0 else under if gap.high < 0 else "",
        "size": f"{in_percent(size)} percentage points (95% interval {in_percent(low)} to "
        f"{in_percent(high)})",
        "ends": f"{signed(gap.low)} to {signed(gap.high)}",
    }


def few_of_a_kind(rows: Evaluation) -> str:
    """Which rows are too few to tell the uncertainty of scores, as text; empty if none are."""
    used = rows.weights > 0
    hits = [np.sum(rows.scored(P)[1][used]) for P in (rows.before, rows.after)]
    if rows.kind == "binary":
        none, all_ = (f"of class {short(name)}" for name in rows.classes)
    else:
        none, all_ = "misclassified", "classified correctly"
    found = {none: rows.n_samples - max(hits), all_: min(hits)}
    kind, n = min(found.items(), key=lambda item: item[1])
    if n >= FEW_OF_A_KIND:
        return ""
    return f"{f'only {n}' if n else 'none'} of them {'is' if n < 2 else 'are'} {kind}"


def in_percent(value: float) -> str:
    """A share in percent with one decimal, that of a rare event with two digits that count."""
    return f"{100 * value:.1f}" if value >= 0.01 or value == 0 else f"{100 * value:.2g}"


def counted(rows: Evaluation) -> str:
    """How many rows there are."""
    return "1 row" if rows.n_samples == 1 else f"{rows.n_samples:,} rows"


def as_pvalue(pvalue: float) -> str:
    """A p-value as text."""
    if pvalue < 0.0005:
        return "p < 0.001"
    return f"p = {pvalue:.3f}" if pvalue < 0.0995 else f"p = {pvalue:.2f}"


def joined(parts: Iterable[str]) -> str:
    """Parts of a sentence as a list in words."""
    *others, last = [*parts] or [""]
    return f"{', '.join(others)} and {last}" if others else last


def signed(value: float) -> str:
    """A difference as text."""
    return ("+" if value >= 0 else "\N{MINUS SIGN}") + written(abs(value))
