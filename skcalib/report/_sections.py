"""The page of a report: its sections in their order, and the code that repeats a report.

Sections are functions that return elements, which are inside of ``main.skcalib``. Class names for
the style: ``skip`` (link to the contents), ``verdict`` (its section), ``pair`` (two figures side by
side), ``table`` (what scrolls where a table is wide), ``number`` (cells), ``interval`` (its ends,
within a cell), ``sortable``, ``measures``, ``classes``, ``segments``, ``decomposition``, ``risk``
and ``comparison`` (tables), ``note`` (a remark).
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from xml.etree.ElementTree import Element

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from skcalib._output import written
from skcalib._output.html import Child, Number, definitions, element, page, resource, styled, table
from skcalib._version import __version__, versions
from skcalib.comparison._comparison import comparison_elements
from skcalib.conditional import MulticalibrationResult
from skcalib.metrics import CalibrationDifference, IntervalEstimate
from skcalib.metrics._input import resolved

from . import _diagrams
from ._measures import MEANINGS, listed, short
from ._results import Results, as_pvalue, counted, few_of_a_kind, signed

# The tables of classes and of segments have at most so many rows.
CLASSES, SEGMENTS = 20, 20

Elements = list[Element]


def subject(results: Results) -> Element:
    """What was calibrated."""
    rows, n = results.rows, results.n_columns
    columns = "1 column of log-odds" if n == 1 else f"{n} columns"
    return definitions([
        ("Calibrator", element("code", constructor(results.calibrator))),
        ("Classes", f"{rows.n_classes}: {listed(rows.classes)}"),
        ("Rows", f"{counted(rows)} of logits with {columns}"),
        ("Bins", f"{rows.n_bins} of equal width"),
    ])  # fmt: skip


def verdict(results: Results) -> Elements:
    """Three sentences."""
    return [element("p", sentence) for sentence in results.verdict_]


def all_measures(results: Results) -> Elements:
    """All measures before and after with intervals."""
    lines = [
        [title, _number(before, written), _number(after, written), _number(difference, signed)]
        for title, (before, after, difference) in results.measures_.items()
    ]
    caption = (
        "Measures with 95% intervals in brackets; the change is the value after less that before, "
        "of the same rows."
    )
    note = (
        "Of the accuracy higher values are better, of all others lower ones. Intervals of "
        "calibration errors are those of the true error, and may lie below an estimate that is "
        "biased upwards where bins hold few rows. That bias may differ before and after, so that "
        "changes of debiased measures say more than those of the others."
    )
    if few := few_of_a_kind(results.rows):
        note += f" Most of these intervals are too narrow for these rows, since {few}."
    header = ["measure", "before", "after", "change"]
    found = table(header, lines, caption=caption, class_="measures")
    return [found, element("p", note, class_="note")]


def _number(
    found: IntervalEstimate | CalibrationDifference, written: Callable[[float], str]
) -> Number:
    """A cell with a number and the ends of its interval, if there is one."""
    ends = element("span", f" [{written(found.low)}, {written(found.high)}]", class_="interval")
    shown = [written(found.estimate), None if math.isnan(found.low) else ends]
    return Number(shown, found.estimate)


def comparison(results: Results) -> Elements:
    """The comparison of calibrators, or how to add it."""
    if results.comparison is not None:
        return comparison_elements(results.comparison, sortable=True)
    code = "calibration_report(..., comparison=compare_calibrators(logits, y))"
    return [element("p", "No comparison was given. To add one: ", element("code", code))]


def risk(results: Results) -> Elements | None:
    """Figures of the validation of a risk model, for two classes."""
    if results.risk_ is None:
        return None
    lines = [[title, *map(_figure, pair)] for title, pair in results.risk_.items()]
    caption = (
        f"Validation of the risk of class {short(results.rows.classes[1])}, with 95% intervals in "
        "brackets. Calibration in the large, the intercept of a logistic recalibration with a "
        "slope of 1, is below 0 where risks are too high; the slope, ideally 1, is smaller where "
        "they are too extreme. ICI, E50, E90 and Emax are the mean, median, 90% quantile and "
        "maximum of the distances from a smooth calibration curve."
    )
    header = ["figure", "before", "after"]
    return [
        table(header, lines, caption=caption, class_="risk"),
        _diagrams.decision_curves(results),
    ]


def _figure(found: Any) -> Number:
    """The cell of a figure of risks, with its interval or p-value."""
    if found is None:
        return Number("none", math.nan)
    if isinstance(found, float):
        return Number(written(found), found)
    if isinstance(found, IntervalEstimate):
        return _number(found, _in_hundredths)
    p = element("span", f" ({as_pvalue(found.pvalue)})", class_="interval")
    return Number([_in_hundredths(found.statistic), p], found.statistic)


def _in_hundredths(value: float) -> str:
    return f"{value:z.2f}".replace("-", "\N{MINUS SIGN}")


def classes(results: Results) -> Elements:
    """The worst classes as a table and as diagrams."""
    rows, found = results.rows, results.by_class_
    chosen = results.worst(CLASSES)
    decimals = ("base_rate", "mean_before", "mean_after", "ece_before", "ece_after")
    lines = [
        [
            short(found["label"][k]),
            Number(f"{found['n_samples'][k]:,}", found["n_samples"][k]),
            *(Number(written(found[name][k]), found[name][k]) for name in decimals),
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


def segments(results: Results) -> Elements:
    """The worst segments of features, as a table and as bars, or how to add them."""
    if results.segments_ is None:
        code = "calibration_report(..., features=features)"
        return [element("p", "No features were given. To add segments: ", element("code", code))]
    before, after = results.segments_
    said = (
        f"The largest gap of a segment is {before.statistic:.1f} standard deviations before "
        f"calibration (p = {before.pvalue:.3g}) and {after.statistic:.1f} after (p = "
        f"{after.pvalue:.3g}): a calibrated model has one as large with this probability, whatever "
        "the number of segments."
    )
    lines = [_segment(after, k) for k in range(min(SEGMENTS, len(after.segment)))]
    header = ["segment", "scores", "rows", "mean score", "event rate", "gap", "gap / sd"]
    caption = (
        f"After calibration: the {len(lines)} of {len(after.segment)} segments with the largest "
        "gaps in standard deviations, each in its worst range of scores. Intervals are of all "
        "segments at once: all of them contain 0 in 95% of samples of a calibrated model."
    )
    return [
        element("p", said),
        table(header, lines, caption=caption, sortable=True, class_="segments"),
        _diagrams.segments(results),
    ]


def _segment(of: MulticalibrationResult, k: int) -> list[Child]:
    """The cells of a segment."""
    return [
        short(of.segment[k]),
        f"{of.lower[k]:.3g} to {of.upper[k]:.3g}",
        Number(f"{of.n_samples[k]:,}", of.n_samples[k]),
        Number(written(of.confidence[k]), of.confidence[k]),
        Number(written(of.accuracy[k]), of.accuracy[k]),
        _number(IntervalEstimate(of.gap[k], of.low[k], of.high[k]), signed),
        Number(f"{of.standardized_gap[k]:.1f}", of.standardized_gap[k]),
    ]


def decomposition(results: Results) -> Elements:
    """Scores as miscalibration, discrimination and uncertainty."""
    names = {"log_loss": "log loss", "brier_score": "Brier score"}
    parts = ("score", "miscalibration", "discrimination", "uncertainty")
    lines = [
        [f"{names[score]} {when}", *(Number(written(v := getattr(d, part)), v) for part in parts)]
        for score, pair in results.decompositions_.items()
        for when, d in zip(("before", "after"), pair, strict=True)
    ]
    what, rate = "confidence for the event that the predicted class is the label", "accuracy"
    if (rows := results.rows).kind == "binary":
        what, rate = f"probability of {short(rows.classes[1])}", "event rate"
    caption = (
        f"Scores of the {what}: mean = calibration loss \N{MINUS SIGN} gain + score of the {rate}. "
        "The calibration loss is what recalibration could still remove; the gain, which should be "
        f"large, is by how much recalibrated probabilities are better than the {rate} alone."
    )
    header = ["score", "mean", "calibration loss", "gain", rate]
    return [
        table(header, lines, caption=caption, class_="decomposition"),
        _diagrams.plane(results),
    ]


def data(results: Results) -> Elements:
    """Summary of the rows."""
    held_out = (
        "The report takes the rows to be held out: if the classifier or the calibrator was fitted "
        "on them, all measures are better than on new rows."
    )
    return [definitions(results.facts), element("p", held_out, class_="note")]


def warnings(results: Results) -> Element:
    """Warnings that the evaluation gave."""
    if not results.warnings_:
        return element("p", "The evaluation gave no warnings.")
    return element("ul", [element("li", message) for message in results.warnings_])


def code(results: Results) -> Elements:
    """Code to repeat the report and to apply the calibrator."""
    return [
        element("h3", "To repeat the report", id="repeat"),
        element("pre", element("code", to_repeat(results)), tabindex=0),
        element("h3", "To apply the calibrator", id="apply"),
        element("pre", element("code", to_apply(results)), tabindex=0),
    ]


# Anchors and headings of all sections, and what fills them.
SECTIONS: tuple[tuple[str, str, Callable[[Results], Child]], ...] = (
    ("subject", "What was calibrated", subject),
    ("verdict", "Verdict", verdict),
    ("measures", "Measures", all_measures),
    ("comparison", "Comparison of calibrators", comparison),
    ("reliability", "Reliability diagrams", _diagrams.reliability),
    ("confidence", "Confidence", _diagrams.confidence),
    ("risk", "Risk model", risk),
    ("sweep", "Temperatures", _diagrams.sweep),
    ("classes", "Classes", classes),
    ("segments", "Segments", segments),
    ("decomposition", "Decomposition of scores", decomposition),
    ("data", "Data", data),
    ("warnings", "Warnings", warnings),
    ("code", "Code", code),
    ("versions", "Versions", lambda _: definitions(versions().items())),
    # A sentence on each measure.
    ("glossary", "Glossary", lambda of: definitions((m, MEANINGS[m]) for m in of.measures_)),
)


def page_of(results: Results) -> str:
    """The whole page: sections in order, with a table of contents."""
    title = f"Calibration report: {results.name}"
    style = resource("_output/html.css") + resource("report/page.css")
    filled = [(anchor, heading, fill(results)) for anchor, heading, fill in SECTIONS]
    shown = [each for each in filled if each[2] is not None]  # of more classes there is no risk
    links = [element("a", heading, href=f"#{anchor}") for anchor, heading, _ in shown]
    sections = [
        element(
            "section",
            element("h2", heading, id=f"{anchor}-heading"),
            content,
            id=anchor,
            class_="verdict" if anchor == "verdict" else None,
            aria_labelledby=f"{anchor}-heading",
        )
        for anchor, heading, content in shown
    ]
    body = [
        element("a", "Skip to the report", href="#report", class_="skip"),
        element("header", element("h1", title)),
        element("nav", element("ul", [element("li", a) for a in links]), aria_label="Contents"),
        element("main", sections, id="report", class_="skcalib"),
        element("footer", element("p", f"Written by skcalib {__version__}.")),
    ]
    return page(title, *body, style=style, script=resource("report/page.js"))


def fragment_of(results: Results) -> str:
    """Verdict, measures and figure for a notebook."""
    import matplotlib as mpl

    shown = [*verdict(results), *all_measures(results)]
    if "inline" not in mpl.get_backend().lower():  # which shows all figures of pyplot by itself
        figure = results.figure_
        while figure is not figure.figure:  # a subfigure, which cannot be saved by itself
            figure = figure.figure
        alt = f"Reliability diagrams, histograms, temperature sweep and measures of {results.name}."
        shown.append(
            element("img", src=_diagrams.as_image(figure), alt=alt, style="max-width: 100%")
        )
    return styled(*shown)


def to_repeat(results: Results) -> str:
    """The command line, or code that fits the calibrator and makes the report."""
    if results.command:
        return results.command
    rows, compared = results.rows, results.comparison
    more = [f"{name}={name}" for name in results.given]
    given = {
        "sample_weight=weights_test": rows.w is not None,
        "features=features_test": results.features is not None,
        f"name={results.given_name!r}": results.given_name is not None,
        f"n_bins={rows.n_bins}": rows.n_bins != 15,
        f"kind={rows.kind!r}": rows.kind != resolved("auto", rows.classes),
        "comparison=comparison": compared is not None,
    }
    arguments = ["calibrator", "logits_test", "y_test", *(name for name in given if given[name])]
    names, comparison = {"calibration_report"}, []
    if compared is not None:  # with fitted calibrators it was made on a test set
        names.add("compare_calibrators")
        test = ["test=(logits_test, y_test)"] * bool(compared.calibrators)
        call = ", ".join(["logits", "y", *test, *more])
        comparison = [f"comparison = compare_calibrators({call})"]
    return "\n".join([
        *imports(results.calibrator, names),
        "",
        f"calibrator = {constructor(results.calibrator)}",
        f"calibrator.fit({', '.join(['logits', 'y', *more])})  # held-out rows of the classifier",
        *comparison,
        f"report = calibration_report({', '.join(arguments)})",
        'report.to_html("report.html")',
    ])  # fmt: skip


def to_apply(results: Results) -> str:
    """Code that applies the calibrator, and stores it as JSON if that holds it."""
    given = "".join(f", {name}=new_{name}" for name in results.given)
    lines = [f"probabilities = calibrator.predict_proba(new_logits{given})"]
    # JSON holds what is of skcalib, in pipelines or not.
    if all(
        isinstance(part, Pipeline) or type(part).__module__.startswith("skcalib.")
        for part in estimators(results.calibrator)
    ):
        lines += [
            "",
            "from pathlib import Path",
            "from skcalib.export import from_json, to_json",
            "",
            'Path("calibrator.json").write_text(to_json(calibrator))',
            'calibrator = from_json(Path("calibrator.json").read_text())',
        ]
    return "\n".join(lines)


def constructor(calibrator: Any) -> str:
    """The call that makes the calibrator, before its fit."""
    if isinstance(calibrator, BaseEstimator):
        return calibrator.__repr__(N_CHAR_MAX=10**6)  # scikit-learn shows fewer by default
    return repr(calibrator)


def imports(calibrator: Any, names: set[str]) -> list[str]:
    """Import statements for the constructor and other names of skcalib."""
    modules: dict[str, set[str]] = {"skcalib": set(names)}
    for estimator in estimators(calibrator):
        kind = type(estimator)
        parts = kind.__module__.split(".")
        public = ".".join(part for part in parts if not part.startswith("_"))
        module = "skcalib" if parts[0] == "skcalib" else public
        modules.setdefault(module, set()).add(kind.__name__)
    used = set(re.findall(r"\b(array|nan|inf)\b", constructor(calibrator)))
    if used:
        modules["numpy"] = used
    ordered = sorted(modules.items(), key=lambda item: (item[0] == "skcalib", item[0]))
    return [f"from {module} import {', '.join(sorted(found))}" for module, found in ordered]


def estimators(calibrator: Any) -> Iterator[Any]:
    """A calibrator and the estimators within its parameters."""
    if isinstance(calibrator, Mapping):
        yield from estimators(list(calibrator.values()))
    elif isinstance(calibrator, list | tuple):
        for part in calibrator:
            yield from estimators(part)
    elif hasattr(calibrator, "get_params"):
        yield calibrator
        yield from estimators(calibrator.get_params(deep=False))
