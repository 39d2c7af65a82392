"""Trees of HTML elements, whose texts and attributes are escaped when they are written.

:func:`element` makes an element of :mod:`xml.etree.ElementTree`, :func:`table` a table with headers
that are read aloud and numbers by which a script can sort; :func:`fragment`, :func:`styled`
and :func:`page` write them.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from hashlib import sha256
from importlib.resources import files
from itertools import zip_longest
from typing import NamedTuple, TypeAlias
from xml.etree.ElementTree import Element, tostring

Child: TypeAlias = "Element | str | int | float | Iterable[Child] | None"
Attribute: TypeAlias = "str | int | float | bool | None"

# Characters that no page may hold: control characters, lone surrogates, noncharacters.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


class Number(NamedTuple):
    """A cell of a table: a number as it is written, and the value that it is sorted by."""

    text: Child
    value: float


Cell: TypeAlias = "Child | Number"


def element(tag: str, *children: Child, **attributes: Attribute) -> Element:
    """An element with texts, elements and lists of both; None among them is left out.

    ``class_`` is the attribute ``class``, ``aria_label`` the attribute ``aria-label``. An attribute
    that is True stands without a value; one that is None or False is left out. The contents of
    ``script`` and ``style`` are written as they are, and must not come from users.
    """
    made = Element(tag)
    for name, value in attributes.items():
        if value is not None and value is not False:
            written = "" if value is True else as_text(value)
            made.set(name.removesuffix("_").replace("_", "-"), written)
    for child in children:
        _append(made, child)
    return made


def as_text(value: object) -> str:
    """The text of a value, in which U+FFFD replaces characters that no page may hold."""
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", str(value))


def table(
    header: Sequence[Child],
    rows: Iterable[Sequence[Cell]],
    *,
    caption: Child = None,
    sortable: bool = False,
    class_: str | None = None,
) -> Element:
    """A table, each of whose columns and rows has a header; the first cell of a row is its header.

    Cells are texts, elements, or of type :class:`Number`, which is written as
    ``<td class="number" data-value="...">``; the header of a column of numbers has the class
    ``number`` as well. A sortable table has the class ``sortable``.
    """
    rows = list(rows)
    numbers = [
        all(isinstance(cell, Number) for cell in column) for column in zip(*rows, strict=True)
    ]
    heads = [
        element("th", cell, scope="col", class_="number" if is_number else None)
        for cell, is_number in zip_longest(header, numbers)
    ]
    body = [
        element("tr", _cell(first, "th", scope="row"), [_cell(cell, "td") for cell in others])
        for first, *others in rows
    ]
    classes = " ".join(name for name in (class_, "sortable" if sortable else None) if name)
    return element(
        "div",
        element(
            "table",
            None if caption is None else element("caption", caption),
            element("thead", element("tr", heads)),
            element("tbody", body),
            class_=classes or None,
        ),
        class_="table",  # which scrolls where the table is wider than the screen
    )


def definitions(pairs: Iterable[tuple[Child, Child]]) -> Element:
    """A list of terms and their descriptions."""
    found = [(element("dt", term), element("dd", text)) for term, text in pairs]
    return element("dl", found)


def fragment(*elements: Element) -> str:
    """Elements as text."""
    return "".join(tostring(part, encoding="unicode", method="html") for part in elements)


def styled(*elements: Element) -> str:
    """Elements as text with their style, for a notebook: nothing else in it is restyled.

    The other two classes keep MathJax from typesetting what stands between dollar signs.
    """
    style = element("style", resource("_output/html.css"))
    classes = "skcalib mathjax_ignore tex2jax_ignore"
    return fragment(element("div", style, elements, class_=classes))


def resource(path: str) -> str:
    """The text of a file of this package."""
    return files("skcalib").joinpath(path).read_text("utf-8")


def page(title: str, *body: Child, style: str, script: str) -> str:
    """A whole page in English as text, to be written as UTF-8, with its style and script.

    Its policy forbids all else: it names the script by its hash, so that no other runs, and nothing
    is loaded.
    """
    digest = b64encode(sha256(script.encode()).digest()).decode()
    policy = (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    root = element(
        "html",
        element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("title", title),
            element("meta", http_equiv="Content-Security-Policy", content=policy),
            element("style", style),
            element("script", script),
        ),
        element("body", body),
        lang="en",
    )
    return f"<!DOCTYPE html>\n{fragment(root)}\n"


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
        value = repr(float(cell.value))
        return element(tag, cell.text, class_="number", data_value=value, **attributes)
    return element(tag, cell, **attributes)
