"""Vector graphics of a page, in light and in dark colours, with texts that say what they show."""

from __future__ import annotations

import io
import re
from base64 import b64encode
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element

from skcalib._output.html import element

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Letters are paths, since fonts differ from machine to machine. The salt gives elements the same
# names each time.
_SHARED: dict[str, Any] = {"svg.fonttype": "path", "svg.hashsalt": "skcalib", "font.size": 10}

# Backgrounds are those of the page.
_DARK: dict[str, Any] = {
    **dict.fromkeys(("figure.facecolor", "savefig.facecolor", "axes.facecolor"), "#15181b"),
    **dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"),
        "#e8e8e8",
    ),
}
_LOOKS: dict[str, list[Any]] = {
    "light": ["default", _SHARED],
    "dark": ["default", {**_SHARED, **_DARK}],
}

_NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))

DARK = "screen and (prefers-color-scheme: dark)"

Draw = Callable[["Figure"], Any]

# The settings of matplotlib are those of all threads: two that change and restore them at the same
# time would leave those of the pictures behind.
_SETTINGS = Lock()


def picture(
    draw: Draw, size: tuple[float, float], *, alt: str, caption: str, class_: str | None = None
) -> Element:
    """A figure of a page. ``draw`` is called with a figure of a size in inches."""
    light, dark = (as_data(drawn(draw, size, look)) for look in ("light", "dark"))
    width, height = (round(96 * inches) for inches in size)
    return element(
        "figure",
        element(
            "picture",
            element("source", srcset=dark, media=DARK),
            element("img", src=light, alt=alt, width=width, height=height),
        ),
        element("figcaption", caption),
        class_=class_,
    )


def drawn(draw: Draw, size: tuple[float, float], look: str) -> str:
    """A picture as SVG, in the colours of the page and not in those of the style in use."""
    from matplotlib import style
    from matplotlib.figure import Figure

    with _SETTINGS, style.context(_LOOKS[look]):  # restores the settings in use
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        return svg_of(figure)


def svg_of(figure: Figure) -> str:
    """A figure as SVG, without what does not show."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata=_NO_METADATA)
    return smaller(file.getvalue())


# What does not show, or can be written in fewer letters: patterns and what replaces them.
_SHORTER: tuple[tuple[str, Any], ...] = (
    (r"(?s)<!--.*?-->|<metadata>.*?</metadata>", ""),
    # Coordinates to a hundredth of a point. The scale of letters, such as 0.015625, stays as it is.
    (r"(scale\([^)]*\))|(?<=\d\.\d\d)\d+", lambda found: found[1] or ""),
    (r'<g id="[^"]*">', "<g>"),
    (r'style="[^"]*"', lambda found: found[0].replace(": ", ":").replace("; ", ";")),
    (r"\s*\n\s*", "\n"),
    (r"([ML]) (?=[-\d.]+ [-\d.]+)", r"\1"),
    (r"\n(?=[MLQCz])", ""),
    (r"<g>\n(<(?:path|use)[^>]*/>)\n</g>", r"\1"),
    ("DejaVuSans", "f"),
)


def smaller(svg: str) -> str:
    """The same picture in fewer letters."""
    svg = svg[svg.index("<svg") :]
    for pattern, replacement in _SHORTER:
        svg = re.sub(pattern, replacement, svg)
    return svg


def as_data(svg: str) -> str:
    """An image as an address that holds it."""
    return f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"
