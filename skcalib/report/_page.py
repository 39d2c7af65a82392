"""The page of a report: sections in order, with a table of contents.

Class names for the style: ``skip`` (link to the contents), ``verdict`` (its section), ``pair`` (two
figures side by side), ``table`` (what scrolls where a table is wide), ``number`` (cells),
``interval`` (its ends, within a cell), ``sortable``, ``measures``, ``classes``, ``decomposition``
and ``comparison`` (tables), ``note`` (a remark). The sections are inside of ``main.skcalib``.
"""

from collections.abc import Callable
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

from skcalib._output.html import element, head, page, resource, styled
from skcalib._version import __version__

from . import _sections
from ._pictures import as_data, svg_of
from ._results import Results


class Section(NamedTuple):
    """A section with its heading, the name of its anchor, and what fills it."""

    anchor: str
    heading: str
    fill: Callable[[Results], list[Element]]


SECTIONS = (
    Section("subject", "What was calibrated", _sections.subject),
    Section("verdict", "Verdict", _sections.verdict),
    Section("measures", "Measures", _sections.all_measures),
    Section("comparison", "Comparison of calibrators", _sections.comparison),
    Section("reliability", "Reliability diagrams", _sections.reliability),
    Section("confidence", "Confidence", _sections.confidence),
    Section("sweep", "Temperatures", _sections.sweep),
    Section("classes", "Classes", _sections.classes),
    Section("decomposition", "Decomposition of scores", _sections.decomposition),
    Section("data", "Data", _sections.data),
    Section("warnings", "Warnings", _sections.warnings),
    Section("code", "Code", _sections.code),
    Section("versions", "Versions", _sections.of_versions),
    Section("glossary", "Glossary", _sections.glossary),
)


def page_of(results: Results) -> str:
    """The whole page."""
    title = f"Calibration report: {results.name}"
    style = resource("_output/html.css") + resource("report/page.css")
    body = [
        element("a", "Skip to the report", href="#report", class_="skip"),
        element("header", element("h1", title)),
        element("nav", element("ul", map(_entry, SECTIONS)), aria_label="Contents"),
        element("main", [_section(s, results) for s in SECTIONS], id="report", class_="skcalib"),
        element("footer", element("p", f"Written by skcalib {__version__}.")),
    ]
    return page(title, head=head(style=style, script=resource("report/page.js")), body=body)


def fragment_of(results: Results, figure: Any) -> str:
    """Verdict, measures and figure for a notebook."""
    return styled(
        *_sections.verdict(results), *_sections.all_measures(results), *_figure(results, figure)
    )


def _entry(section: Section) -> Element:
    return element("li", element("a", section.heading, href=f"#{section.anchor}"))


def _section(section: Section, results: Results) -> Element:
    heading = f"{section.anchor}-heading"
    return element(
        "section",
        element("h2", section.heading, id=heading),
        section.fill(results),
        id=section.anchor,
        class_="verdict" if section.anchor == "verdict" else None,
        aria_labelledby=heading,
    )


def _figure(results: Results, figure: Any) -> list[Element]:
    """The figure, unless the notebook shows all figures of pyplot by itself."""
    import matplotlib as mpl

    if "inline" in mpl.get_backend().lower():
        return []
    while figure is not figure.figure:  # a subfigure, which cannot be saved by itself
        figure = figure.figure
    alt = f"Reliability diagrams, histograms, temperature sweep and measures of {results.name}."
    source = as_data(svg_of(figure))
    return [element("img", src=source, alt=alt, style="max-width: 100%")]
