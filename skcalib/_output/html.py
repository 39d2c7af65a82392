"""HTML from templates: escaped texts, optional elements, and tables for pages and texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from itertools import zip_longest
from string import Template
from typing import Any, NamedTuple

from . import resource

# Characters that HTML forbids: control characters, lone surrogates, noncharacters.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")

# Element of a template that depends on a value, or on its absence ("!"). It contains no other
# element with the same tag.
_OPTIONAL = re.compile(r'<(\w+) data-if="(!?)(\w+)"(.*?)</\1>\n?', re.DOTALL)

BEST_MARK = "\N{BLACK STAR}"  # beside bold type, which is not read aloud


class Html(str):
    """Markup, which is inserted without escapes."""

    __slots__ = ()

    def __html__(self) -> Html:
        return self


class Entry(NamedTuple):
    """Number in a table, with its interval or error, a mark, and whether it is the best."""

    number: str
    spread: str = ""
    mark: str = ""
    is_best: bool = False

    def __str__(self) -> str:
        return f"{self.number}{self.mark} {self.spread}".rstrip()

    def __html__(self) -> Html:
        number, spread = (text.replace("-", "\N{MINUS SIGN}") for text in self[:2])
        spread = f" {spread.replace('±', '± ')}"
        return html([
            element("strong", f"{BEST_MARK} {number}") if self.is_best else number,
            element("span", self.mark, class_="mark") if self.mark else None,
            element("span", spread, class_="spread") if self.spread else None,
        ])  # fmt: skip


def as_text(value: object) -> str:
    """Return a value as text, with U+FFFD in place of characters that HTML forbids."""
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", str(value))


def html(child: Any) -> Html:
    """Return markup of a text, of an object with ``__html__``, or of a nested list."""
    if hasattr(child, "__html__"):
        return Html(child.__html__())
    if isinstance(child, Iterable) and not isinstance(child, str):
        return Html("".join(map(html, child)))
    return Html("" if child is None else escape(as_text(child)))


def element(tag: str, *children: Any, **attributes: object) -> Html:
    """Return an element with escaped texts and attributes; an attribute None is left out.

    ``class_`` is the attribute ``class``. The content of ``style`` must not come from users.
    """
    pairs = "".join(
        f' {name.removesuffix("_")}="{escape(as_text(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    end = "" if tag in ("img", "wbr") else f"</{tag}>"
    return Html(f"<{tag}{pairs}>{html(children)}{end}")


def table(
    header: Sequence[Any], rows: Iterable[Sequence[Any]], caption: Any = None, **attributes: Any
) -> Html:
    """Return a table inside of a ``div`` that scrolls; the first cell of each row is a header."""
    head = element("tr", [element("th", title, scope="col") for title in header])
    body = [
        element("tr", element("th", name, scope="row"), [element("td", cell) for cell in cells])
        for name, *cells in rows
    ]
    title = None if caption is None else element("caption", caption)
    parts = title, element("thead", head), element("tbody", body)
    return element("div", element("table", parts, **attributes), class_="table", tabindex=0)


def aligned(rows: Iterable[Sequence[Any]]) -> str:
    """Return rows of cells as lines of text, with all columns but the first to the right.

    Cells that a row lacks at its end are empty.
    """
    columns = list(zip_longest(*(map(str, row) for row in rows), fillvalue=""))
    first, *widths = (max(map(len, column)) for column in columns)
    return "\n".join(
        "  ".join([name.ljust(first), *map(str.rjust, cells, widths)]).rstrip()
        for name, *cells in zip(*columns, strict=True)
    )


def styled(*children: Any) -> str:
    """Return elements with their style, for a notebook.

    The classes ``mathjax_ignore`` and ``tex2jax_ignore`` keep MathJax from typesetting text
    between dollar signs.
    """
    style = element("style", Html(resource("_output/html.css")))
    return element("div", style, children, class_="skcalib mathjax_ignore tex2jax_ignore")


def fill(template: str, values: dict[str, Any]) -> str:
    """Return a template with escaped values in place of ``$name``.

    An element with the first attribute ``data-if="name"`` stays if the value is true, and with
    ``data-if="!name"`` if it is not.
    """

    def keep(match: re.Match[str]) -> str:
        tag, negation, name, rest = match.groups()
        stays = bool(values[name]) != bool(negation)
        return _OPTIONAL.sub(keep, f"<{tag}{rest}</{tag}>") if stays else ""

    return Template(_OPTIONAL.sub(keep, template)).substitute(
        {name: html(value) for name, value in values.items()}
    )
