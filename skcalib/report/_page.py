"""Page of a report: its sections in their order, as HTML."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np
from sklearn.pipeline import Pipeline

from skcalib._input.labels import shown
from skcalib._output import written
from skcalib._output.html import Child, Number, definitions, element, page, resource, styled, table
from skcalib._version import versions
from skcalib.comparison._comparison import comparison_elements
from skcalib.metrics import CalibrationDifference, IntervalEstimate

from . import _pictures
from ._code import calibrator_code
from ._pictures import as_image, short
from ._verdict import as_pvalue, signed

Elements = list[Element]
Interval = IntervalEstimate | CalibrationDifference

# Rows of the tables of classes and segments.
MOST_TABLE_ROWS = 10

MEANINGS = {
    "log loss": "Mean negative logarithm of the probability of the label, over all classes. Choose "
    "calibrators by this proper scoring rule.",
    "Brier score": "Mean squared distance of the probabilities from the label, halved for two "
    "classes; a proper scoring rule.",
    "accuracy": "Fraction of rows with the label as the most probable class.",
    "confidence - accuracy": "Positive for over-confident models, negative for under-confident "
    "models.",
    "mean probability - event rate": "Positive if probabilities are too high on average.",
    "ECE": "Expected calibration error: mean distance between predicted probability and observed "
    "frequency in bins. It is biased upwards if bins hold few rows.",
    "debiased ECE": "ECE minus an estimate of its bias, for comparisons between models.",
    "MCE": "Maximum calibration error: largest distance of all bins, even of bins with few rows.",
    "averaged two-bin error": "Squared error of two bins, averaged over all thresholds. True "
    "probabilities minimize its expectation.",
    "smooth ECE": "Calibration error with a kernel in place of bins.",
    "classwise ECE": "ECE of the probability of each class, averaged over the classes.",
    "top-label ECE": "ECE of the largest probability, for the event that its class is the label.",
}


def report_page(report: Any) -> str:
    """HTML text of the whole page."""
    rows, title = report.evaluation, f"Calibration report: {report.name}"
    subtitle = f"{rows.n_samples:,} held-out rows, {len(rows.classes):,} classes, {report.date}"
    sections = [
        element("section", element("h2", heading), content, id=heading.split()[0].lower())
        for heading, make in SECTIONS.items()
        if (content := make(report))
    ]
    body = [
        element("header", element("h1", title), element("p", subtitle)),
        element("main", sections, class_="skcalib"),
    ]
    style = resource("_output/html.css") + resource("report/page.css")
    return page(title, *body, style=style)


def report_fragment(report: Any) -> str:
    """HTML text of verdict, measures and figure, for a notebook."""
    import matplotlib as mpl

    parts = [*verdict_sentences(report), *measures(report)]
    if "inline" not in mpl.get_backend().lower():  # this backend shows figures of pyplot itself
        figure = report.figure_
        while figure is not figure.figure:  # a subfigure cannot be saved
            figure = figure.figure
        alt = f"Reliability diagrams and histograms before calibration and after {report.name}."
        parts.append(element("img", src=as_image(figure), alt=alt, style="max-width: 100%"))
    return styled(*parts)


def verdict_sentences(report: Any) -> Elements:
    """Sentences of the verdict."""
    return [element("p", _unbroken(sentence), class_="verdict") for sentence in report.verdict_]


def _unbroken(text: str) -> str:
    """Text in which lines do not break within a p-value."""
    return text.replace("p = ", "p\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")


def measures(report: Any) -> Elements:
    """Measures before and after calibration with intervals."""
    writers = _minus, _minus, signed
    lines = [
        [_spaced(title), *map(_estimate, change, writers)]
        for title, change in report.measures_.items()
    ]
    caption = (
        "All measures are of the held-out rows. 95% intervals are in brackets. Lower values are "
        "better, except for the accuracy. Intervals of calibration errors contain the true error, "
        "which may lie below a biased estimate."
    )
    return [table(["measure", "before", "after", "change"], lines, caption=caption)]


def _estimate(interval: Interval, write: Callable[[float], str]) -> Number:
    """Cell with an estimate and its interval, if there is one."""
    if math.isnan(interval.low):
        return Number(write(interval.estimate))
    ends = f" [{write(interval.low)}, {write(interval.high)}]"
    return Number([write(interval.estimate), element("span", ends, class_="interval")])


def _spaced(title: str) -> str:
    return title.replace(" - ", " \N{MINUS SIGN} ")


def _minus(value: float) -> str:
    return written(value).replace("-", "\N{MINUS SIGN}")


def _hundredths(value: float) -> str:
    return f"{value:z.2f}".replace("-", "\N{MINUS SIGN}")


def comparison(report: Any) -> Elements:
    """Table of the comparison of calibrators, if there is one."""
    return [] if report.comparison is None else comparison_elements(report.comparison)


def diagrams(report: Any) -> Elements:
    """Reliability diagrams before and after calibration."""
    pair = [_pictures.reliability(report, *view) for view in report.views]
    caption = (
        "Bars show the observed frequency in bins of the predicted probability, with 95% "
        "intervals. Bars of stronger colour have more rows. The hatched area is the distance to "
        "the mean probability: orange if probabilities are too high, green if they are too low."
    )
    parts = element("div", pair, class_="pair"), element("figcaption", caption)
    return [element("figure", *parts)]


def classes(report: Any) -> Elements:
    """Classes with the largest ECE after calibration, if there are more than two."""
    if len(report.evaluation.classes) == 2:  # the measures of the event say all
        return []
    columns = report.by_class_
    worst = np.argsort(-columns["ece_after"], kind="stable")[:MOST_TABLE_ROWS].tolist()
    names = ("base_rate", "mean_before", "mean_after", "ece_before", "ece_after")
    lines = [
        [
            short(columns["label"][k]),
            Number(f"{columns['n_samples'][k]:,}"),
            *(Number(written(columns[name][k])) for name in names),
        ]
        for k in worst
    ]
    header = ["class", "rows", "base rate", "mean before", "mean after", "ECE before", "ECE after"]
    n = len(report.evaluation.classes)
    which = "All classes" if len(worst) == n else f"The {len(worst)} of {n} classes"
    caption = f"{which}, sorted by the ECE of their probability after calibration."
    return [table(header, lines, caption=caption)]


def segments(report: Any) -> Elements:
    """Segments of the features with the largest gaps, if there are features."""
    if report.segments_ is None:
        return []
    before, after = report.segments_
    text = (
        f"The largest gap of a segment is {before.statistic:.1f} standard deviations before "
        f"calibration ({as_pvalue(before.pvalue)}) and {after.statistic:.1f} after "
        f"({as_pvalue(after.pvalue)}). The p-value is the probability of a gap at least as large "
        "if the model is calibrated."
    )
    lines = [
        [
            short(after.segment[k]),
            f"{after.lower[k]:.3g} to {after.upper[k]:.3g}",
            Number(f"{after.n_samples[k]:,}"),
            Number(written(after.confidence[k])),
            Number(written(after.accuracy[k])),
            _estimate(IntervalEstimate(after.gap[k], after.low[k], after.high[k]), signed),
        ]
        for k in range(min(MOST_TABLE_ROWS, len(after.segment)))
    ]
    header = ["segment", "scores", "rows", "mean score", "event rate", "gap"]
    caption = (
        "Segments with the largest gaps after calibration. All intervals together contain 0 in "
        "95% of samples if the model is calibrated."
    )
    return [element("p", _unbroken(text)), table(header, lines, caption=caption)]


def decisions(report: Any) -> Elements:
    """Figures of a risk model and decision curves, for two classes."""
    if report.risk_ is None:
        return []
    caption = (
        f"Validation of the risk of {short(report.evaluation.classes[1])}, with 95% intervals in "
        "brackets. Calibration in the large is below 0 if risks are too high. The slope is 1 for a "
        "calibrated model, and below 1 if risks are too extreme. ICI, E50, E90 and Emax are mean, "
        "median, 90% quantile and maximum of the distance from a smooth calibration curve."
    )
    lines = [[title, *map(_risk_cell, pair)] for title, pair in report.risk_.items()]
    about_curves = (
        "Net benefit in true positives per row, if rows are treated when their risk reaches the "
        "threshold. A model is useful where its curve is above both reference lines."
    )
    curves = _pictures.decision_curves(report), element("figcaption", about_curves)
    return [
        table(["figure", "before", "after"], lines, caption=caption),
        element("figure", *curves),
    ]


def _risk_cell(risk: Any) -> Number:
    """Cell with a figure of a risk model, and its interval or p-value."""
    if risk is None:
        return Number("none")
    if isinstance(risk, float):
        return Number(written(risk))
    if isinstance(risk, IntervalEstimate):
        return _estimate(risk, _hundredths)
    pvalue = element("span", f" ({as_pvalue(risk.pvalue)})", class_="interval")
    return Number([_hundredths(risk.statistic), pvalue])


def subject(report: Any) -> Elements:
    """Calibrator with the weights of a mixture, data sizes, date, and the user's metadata."""
    rows, calibrator = report.evaluation, report.calibrator
    n_absent = len(rows.y) - rows.n_samples
    absent = f"; {n_absent:,} rows of weight 0 are left out" if n_absent else ""
    rare = rows.classes[rows.counts < 10]
    facts: list[tuple[str, Child]] = [
        *((key, str(value)) for key, value in report.metadata.items()),
        ("Calibrator", element("code", calibrator_code(calibrator))),
        *_mixture_weights(calibrator),
        ("Classes", f"{len(rows.classes):,}: {shown([short(c) for c in rows.classes])}"),
        ("Held-out rows", f"{rows.n_samples:,}{absent}"),
    ]
    if rows.sample_weight is not None:
        facts.append(("Effective sample size", f"{rows.n_effective:,.1f}"))
    if rows.groups is not None:
        facts.append(("Groups", f"{rows.groups.max() + 1:,}"))
    if len(rare):
        facts.append(("Classes with fewer than 10 rows", shown([short(c) for c in rare])))
    facts += [
        ("Bins", f"{rows.n_bins} of equal width"),
        ("Date", report.date),
        ("Versions", ", ".join(map(" ".join, versions().items()))),
    ]
    note = (
        "All measures assume held-out rows. They are too good if the classifier or the calibrator "
        "was fitted to these rows."
    )
    return [definitions(facts), element("p", note, class_="note")]


def _mixture_weights(calibrator: Any) -> list[tuple[str, Child]]:
    """Positive weights of a fitted mixture of calibrators, in descending order."""
    steps = (
        [step for _, step in calibrator.steps] if isinstance(calibrator, Pipeline) else [calibrator]
    )
    return [
        (
            "Weights of the mixture",
            ", ".join(
                f"{name} {weight:.3f}"
                for name, weight in sorted(step.weights_.items(), key=lambda item: -item[1])
                if weight > 0
            ),
        )
        for step in steps
        if isinstance(getattr(step, "weights_", None), dict)
    ]


def warnings(report: Any) -> Elements:
    """Warnings of the evaluation, if there were any."""
    texts = [element("li", text) for text in report.warnings_]
    return [element("ul", texts)] if texts else []


SECTIONS: dict[str, Callable[[Any], Elements]] = {
    "Verdict": verdict_sentences,
    "Measures": measures,
    "Comparison of calibrators": comparison,
    "Reliability diagrams": diagrams,
    "Classes": classes,
    "Segments": segments,
    "Decisions": decisions,
    "Calibrator and data": subject,
    "Warnings": warnings,
    "Code": lambda report: [element("pre", element("code", report.code_), tabindex=0)],
    "Glossary": lambda report: [
        definitions((_spaced(m), MEANINGS[m]) for m in report.measures_),
    ],
}
