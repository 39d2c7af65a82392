"""The sections of a page, as functions of a report that return elements."""

import math
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from skcalib._output.html import Number, definitions, element, table
from skcalib._version import versions
from skcalib.report._evaluation import FEW, listed, short, worst
from skcalib.selection._comparison import comparison_elements

from . import _code, _diagrams
from ._measures import measures
from ._results import Results
from ._verdict import counted, few_of_a_kind, signed

# The table of classes has at most so many rows.
CLASSES = 20

DASH = "\N{EN DASH}"

Elements = list[Element]


def subject(results: Results) -> Elements:
    """What was calibrated."""
    rows, data = results.rows, results.data
    columns = "1 column of log-odds" if data.n_columns == 1 else f"{data.n_columns} columns"
    facts: list[tuple[Any, Any]] = [
        ("Calibrator", element("code", _code.constructor(results.calibrator))),
        ("Classes", f"{rows.n_classes}: {listed(rows.classes)}"),
        ("Rows", f"{counted(rows)} of logits with {columns}"),
        ("Bins", f"{rows.n_bins} of equal width"),
    ]
    return [definitions(facts)]


def verdict(results: Results) -> Elements:
    """Three sentences."""
    return [element("p", sentence) for sentence in results.verdict]


def all_measures(results: Results) -> Elements:
    """All measures before and after with intervals."""
    found = table(
        ["measure", "before", "after", "change"],
        [
            [title, _value(change.before), _value(change.after), _difference(change.difference)]
            for title, change in results.measures.items()
        ],
        caption=(
            "Measures with 95% intervals in brackets; the change is the value after less that "
            "before, of the same rows."
        ),
        class_="measures",
    )
    note = (
        "Of the accuracy higher values are better, of all others lower ones. Intervals of "
        "calibration errors are those of the true error, and may lie below an estimate that is "
        "biased upwards where bins hold few rows. That bias may differ before and after, so that "
        "changes of debiased measures say more than those of the others."
    )
    if few := few_of_a_kind(results.rows):
        note += f" Most of these intervals are too narrow for these rows, since {few}."
    return [found, element("p", note, class_="note")]


def _value(found: Any) -> Number:
    return Number([f"{found.estimate:.4f}", _ends(found.low, found.high, "")], found.estimate)


def _difference(found: Any) -> Number:
    return Number([signed(found.statistic), _ends(found.low, found.high, "+")], found.statistic)


def _ends(low: float, high: float, sign: str) -> Element | None:
    if math.isnan(low):
        return None
    ends = (signed(end) if sign else f"{end:.4f}" for end in (low, high))
    return element("span", " [", ", ".join(ends), "]", class_="interval")


def comparison(results: Results) -> Elements:
    """The comparison of calibrators, or how to add it."""
    if results.comparison is not None:
        return comparison_elements(results.comparison, sortable=True)
    code = "calibration_report(..., comparison=compare_calibrators(logits, y))"
    return [element("p", "No comparison was given. To add one: ", element("code", code))]


def reliability(results: Results) -> Elements:
    """Reliability diagrams."""
    return [_diagrams.reliability(results), _diagrams.smooth(results)]


def confidence(results: Results) -> Elements:
    """Histograms of the confidence."""
    return [_diagrams.confidence(results)]


def sweep(results: Results) -> Elements:
    """The temperature sweep."""
    return [_diagrams.sweep(results)]


def classes(results: Results) -> Elements:
    """The worst classes as a table and as diagrams."""
    rows, found = results.rows, results.by_class
    chosen = worst(found, CLASSES)
    decimals = ("base_rate", "mean_before", "mean_after", "ece_before", "ece_after")
    lines = [
        [
            short(found["label"][k]),
            Number(f"{found['n_samples'][k]:,}", found["n_samples"][k]),
            *(Number(f"{found[name][k]:.4f}", found[name][k]) for name in decimals),
        ]
        for k in chosen
    ]
    header = ["class", "rows", "base rate", "mean before", "mean after", "ECE before", "ECE after"]
    which = "All classes" if len(chosen) == rows.n_classes else (
        f"The {len(chosen)} of {rows.n_classes} classes with the largest ECE after calibration"
    )  # fmt: skip
    caption = f"{which}: rows with the label, base rate, mean predicted probability and its ECE."
    return [
        table(header, lines, caption=caption, sortable=True, class_="classes"),
        _diagrams.classes(results),
    ]


def decomposition(results: Results) -> Elements:
    """Scores as miscalibration, discrimination and uncertainty."""
    names = {"log_loss": "log loss", "brier_score": "Brier score"}
    parts = ("score", "miscalibration", "discrimination", "uncertainty")
    lines = [
        [f"{names[score]} {when}", *(Number(f"{(v := getattr(d, part)):.4f}", v) for part in parts)]
        for score, pair in results.decompositions.items()
        for when, d in zip(("before", "after"), pair, strict=True)
    ]
    caption = (
        "Scores of the confidence for the event that the predicted class is the label: score = "
        "miscalibration \N{MINUS SIGN} discrimination + uncertainty. Miscalibration is what "
        "isotonic recalibration would gain; discrimination, which should be large, what the "
        "recalibrated confidence gains over the accuracy alone."
    )
    header = ["score", "mean", *parts[1:]]
    return [
        table(header, lines, caption=caption, class_="decomposition"),
        _diagrams.plane(results),
    ]


def data(results: Results) -> Elements:
    """Summary of the rows."""
    rows, found = results.rows, results.data
    weighted = rows.w is not None
    total = f"{rows.weights.sum():,.6g} in total, {rows.n_effective:,.1f} effective rows"
    low = [rows.classes[k] for k in np.flatnonzero((found.counts > 0) & (found.counts < FEW))]
    none = [rows.classes[k] for k in np.flatnonzero(found.counts == 0)]
    n_masked = f"{found.n_masked:,} logits in {found.n_masked_rows:,} rows"
    facts: list[tuple[Any, Any]] = [
        ("Rows", f"{rows.n_samples:,}{_absent(found.n_given - rows.n_samples)}"),
        ("Weights", total if weighted else "none: all rows count the same"),
        (f"Classes with fewer than {FEW} rows", listed(low) if low else "none"),
        ("Classes without rows", listed(none) if none else "none"),
        ("Logits", f"{found.lowest:.4g} to {found.highest:.4g}, {found.precision}"),
        ("Masked classes", n_masked if found.n_masked else "none"),
        ("Rows with a tie for the largest logit", f"{found.n_ties:,}"),
        ("Distinct confidences after calibration", f"{found.n_distinct:,}"),
    ]
    held_out = (
        "The report takes the rows to be held out: if the classifier or the calibrator was fitted "
        "on them, all measures are better than on new rows."
    )
    return [definitions(facts), element("p", held_out, class_="note")]


def _absent(n_rows: int) -> str:
    return f", and {n_rows:,} with a weight of 0, which are left out" if n_rows else ""


def warnings(results: Results) -> Elements:
    """Warnings that the evaluation gave."""
    if not results.warnings:
        return [element("p", "The evaluation gave no warnings.")]
    return [element("ul", [element("li", message) for message in results.warnings])]


def code(results: Results) -> Elements:
    """Code to repeat the report and to apply the calibrator."""
    return [
        element("h3", "To repeat the report", id="repeat"),
        element("pre", element("code", _code.to_repeat(results)), tabindex=0),
        element("h3", "To apply the calibrator", id="apply"),
        element("pre", element("code", _code.to_apply(results)), tabindex=0),
    ]


def of_versions(results: Results) -> Elements:  # noqa: ARG001
    """Versions of Python and of the packages."""
    return [definitions(versions().items())]


def glossary(results: Results) -> Elements:
    """A sentence on each measure."""
    found = measures(results.rows.n_classes)
    return [definitions((measure.title, measure.meaning) for measure in found)]
