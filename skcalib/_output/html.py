"""HTML from templates: escaped texts, optional elements and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

Child: TypeAlias = "str | int | float | Markup | Iterable[Child] | None"

# Characters that HTML forbids: control characters, lone surrogates, noncharacters.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")

# Element of a template that depends on a value. It contains no other element with the same tag.
_OPTIONAL = re.compile(r'<(\w+) data-if="(\w+)"(.*?)</\1>\n?', re.DOTALL)


class Html(str):
    """Markup, which is inserted without escapes."""

    __slots__ = ()


@runtime_checkable
class Markup(Protocol):
    """Object that is shown as markup, by the protocol of templates."""

    def __html__(self) -> str:
        """Return markup."""


class Number(NamedTuple):
    """Content of a table cell that is aligned to the right."""

    text: Child


Cell: TypeAlias = "Child | Number"


def as_text(value: object) -> str:
    """Return a value as text, with U+FFFD in place of characters that HTML forbids."""
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", str(value))


def html(child: Child) -> Html:
    """Return markup of a text, of markup, of an object with ``__html__``, or of a nested list."""
    if isinstance(child, Html):
        return child
    if isinstance(child, Markup):
        return Html(child.__html__())
    if isinstance(child, Iterable) and not isinstance(child, str):
        return Html("".join(map(html, child)))
    return Html("" if child is None else escape(as_text(child)))


def element(tag: str, *children: Child, **attributes: object) -> Html:
    """Return an element with escaped texts and attributes; an attribute None is left out.

    ``class_`` is the attribute ``class``, ``aria_label`` the attribute ``aria-label``. The content
    of ``style`` must not come from users.
    """
    pairs = "".join(
        f' {name.removesuffix("_").replace("_", "-")}="{escape(as_text(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    end = "" if tag in ("img", "wbr") else f"</{tag}>"
    return Html(f"<{tag}{pairs}>{html(children)}{end}")


def table(
    header: Sequence[Child],
    rows: Iterable[Sequence[Cell]],
    *,
    caption: Child = None,
    class_: str | None = None,
) -> Html:
    """Return a table inside of a ``div`` that scrolls; the first cell of each row is a header."""
    rows = list(rows)
    first = rows[0] if rows else [None] * len(header)
    heads = [
        _cell(Number(title) if isinstance(below, Number) else title, "th", scope="col")
        for title, below in zip(header, first, strict=True)
    ]
    body = [
        element("tr", _cell(name, "th", scope="row"), [_cell(cell, "td") for cell in others])
        for name, *others in rows
    ]
    content = element(
        "table",
        None if caption is None else element("caption", caption),
        element("thead", element("tr", heads)),
        element("tbody", body),
        class_=class_,
    )
    return element("div", content, class_="table", tabindex=0)


def _cell(cell: Cell, tag: str, **attributes: str) -> Html:
    if isinstance(cell, Number):
        return element(tag, cell.text, class_="number", **attributes)
    return element(tag, cell, **attributes)


def styled(*children: Child) -> str:
    """Return elements with their style, for a notebook.

    The classes ``mathjax_ignore`` and ``tex2jax_ignore`` keep MathJax from typesetting text
    between dollar signs.
    """
    style = element("style", Html(resource("_output/html.css")))
    return element("div", style, children, class_="skcalib mathjax_ignore tex2jax_ignore")


def fill(template: str, values: dict[str, Any]) -> str:
    """Return a template with escaped values in place of ``$name``.

    An element with the first attribute ``data-if="name"`` stays if the value is true.
    """

    def keep(match: re.Match[str]) -> str:
        tag, name, rest = match.groups()
        return _OPTIONAL.sub(keep, f"<{tag}{rest}</{tag}>") if values[name] else ""

    return Template(_OPTIONAL.sub(keep, template)).substitute(
        {name: html(value) for name, value in values.items()}
    )


def resource(path: str) -> str:
    """Return the text of a file of this package."""
    return files("skcalib").joinpath(path).read_text("utf-8")
