"""Trees of HTML elements, which escape texts and attributes when they are written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import NamedTuple, TypeAlias
from xml.etree.ElementTree import Element, tostring

Child: TypeAlias = "Element | str | int | float | Iterable[Child] | None"
Attribute: TypeAlias = "str | int | float | None"

# Characters that HTML forbids: control characters, lone surrogates, noncharacters.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")

# A page runs no scripts and loads nothing.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


class Number(NamedTuple):
    """Content of a table cell that is aligned to the right."""

    text: Child


Cell: TypeAlias = "Child | Number"


def element(tag: str, *children: Child, **attributes: Attribute) -> Element:
    """Element with texts, elements and nested lists of both; children that are None are left out.

    ``class_`` is the attribute ``class``, ``aria_label`` the attribute ``aria-label``. Attributes
    that are None are left out. The content of ``style`` is not escaped, and must not come from
    users.
    """
    made = Element(tag)
    for name, value in attributes.items():
        if value is not None:
            made.set(name.removesuffix("_").replace("_", "-"), as_text(value))
    for child in children:
        _append(made, child)
    return made


def as_text(value: object) -> str:
    """Text of a value, with U+FFFD in place of characters that HTML forbids."""
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", str(value))


def table(
    header: Sequence[Child],
    rows: Iterable[Sequence[Cell]],
    *,
    caption: Child = None,
    class_: str | None = None,
) -> Element:
    """Table inside of a ``div`` that scrolls; the first cell of each row is a header."""
    rows = list(rows)
    heads = [
        element("th", cell, scope="col", class_="number" if isinstance(below, Number) else None)
        for cell, below in zip(header, rows[0] if rows else [None] * len(header), strict=True)
    ]
    body = [
        element("tr", _cell(first, "th", scope="row"), [_cell(cell, "td") for cell in others])
        for first, *others in rows
    ]
    content = element(
        "table",
        None if caption is None else element("caption", caption),
        element("thead", element("tr", heads)),
        element("tbody", body),
        class_=class_,
    )
    return element("div", content, class_="table", tabindex=0)


def definitions(pairs: Iterable[tuple[Child, Child]]) -> Element:
    """List of terms and their descriptions."""
    return element("dl", [(element("dt", term), element("dd", text)) for term, text in pairs])


def fragment(*elements: Element) -> str:
    """HTML text of elements."""
    return "".join(tostring(part, encoding="unicode", method="html") for part in elements)


def styled(*elements: Element) -> str:
    """HTML text of elements with their style, for a notebook.

    The classes ``mathjax_ignore`` and ``tex2jax_ignore`` keep MathJax from typesetting text
    between dollar signs.
    """
    style = element("style", resource("_output/html.css"))
    classes = "skcalib mathjax_ignore tex2jax_ignore"
    return fragment(element("div", style, elements, class_=classes))


def resource(path: str) -> str:
    """Text of a file of this package."""
    return files("skcalib").joinpath(path).read_text("utf-8")


def page(title: str, *body: Child, style: str) -> str:
    """HTML text of a whole page in English."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("style", style),
    )
    return f"<!DOCTYPE html>\n{fragment(element('html', head, element('body', body), lang='en'))}\n"


def _append(parent: Element, child: Child) -> None:
    if child is None:
        return
    if isinstance(child, Element):
        parent.append(child)
    elif isinstance(child, Iterable) and not isinstance(child, str):
        for inner in child:
            _append(parent, inner)
    elif len(parent):
        parent[-1].tail = (parent[-1].tail or "") + as_text(child)
    else:
        parent.text = (parent.text or "") + as_text(child)


def _cell(cell: Cell, tag: str, **attributes: Attribute) -> Element:
    if isinstance(cell, Number):
        return element(tag, cell.text, class_="number", **attributes)
    return element(tag, cell, **attributes)
