"""Texts that fit, by the usual width of letters: shrunk to no less than 7 points, and wrapped."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.text import Text

# The smallest font size, in points.
SMALLEST = 7.0

# Usual width of a letter, and height of a line, in font sizes.
LETTER, LINE = 0.58, 1.25

# Joins words that stay in one line.
NBSP = "\N{NO-BREAK SPACE}"


def as_written(*texts: Text) -> None:
    """Draw texts with names given by users as they are, without mathematical notation."""
    for text in texts:
        text.set_parse_math(False)


def letters_in(width: float, size: float) -> int:
    """Number of letters of a font size that stand in a width in inches."""
    return max(int(72 * width / (LETTER * size)), 4)


def wrapped(text: str, width: float, size: float) -> str:
    """The text in lines of a width in inches; words that are longer are broken."""
    n = letters_in(width, size)
    lines = (textwrap.wrap(x, n, break_on_hyphens=False) or [""] for x in text.split("\n"))
    return "\n".join(line for part in lines for line in part).replace(NBSP, " ")


def fitted(text: str, width: float, size: float, smallest: float = SMALLEST) -> tuple[str, float]:
    """The text and its font size for a width in inches: shrunk, and then wrapped."""
    longest = max(map(len, text.split("\n")))
    size = min(size, max(72 * width / (LETTER * max(longest, 1)), smallest))
    return wrapped(text, width, size), size


def shortened(text: str, width: float, size: float, end: int = 8) -> str:
    """The text without its middle, as far as a width in inches requires.

    So many letters at its end are kept.
    """
    n = letters_in(width, size)
    if len(text) <= n:
        return text
    end = min(end, n // 2)
    return f"{text[: n - end - 1]}\N{HORIZONTAL ELLIPSIS}{text[-end:]}"
