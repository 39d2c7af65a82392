"""Texts that fit: measured, shrunk to no less than 7 points, and wrapped."""

from __future__ import annotations

import textwrap
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.text import Text

# The smallest font size, in points.
SMALLEST = 7.0

_DOTS = "\N{HORIZONTAL ELLIPSIS}"

# Height of a line, in font sizes.
LINE = 1.25


def as_written(*texts: Text) -> None:
    """Draw texts with names given by users as they are, without mathematical notation."""
    for text in texts:
        text.set_parse_math(False)


def text_width(text: str) -> float:
    """Width of the longest line of a text, in font sizes, with 10 % for the hinting of letters."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=1)
    measure = partial(text_to_path.get_text_width_height_descent, prop=font, ismath=False)
    return 1.1 * max((measure(line)[0] for line in text.splitlines()), default=0.0)


class Measure:
    """Widths of texts as :func:`text_width`, from those of their letters: fast for many texts."""

    def __init__(self, *texts: str) -> None:
        self._letters = {letter: text_width(letter) for letter in {*"".join(texts)}}
        self._letters["\n"] = 0.0

    def __call__(self, text: str) -> float:
        """Width of the longest line of a text with no other letters, in font sizes."""
        return max((sum(map(self._letters.__getitem__, x)) for x in text.splitlines()), default=0.0)


def wrapped(text: str, width: float, measure: Measure | None = None) -> str:
    """The text in even lines of at most a width in font sizes; words that are longer are broken."""
    measure = measure or Measure(text, " ")
    n = max(len(line) for line in [*text.splitlines(), ""])
    while n > 1 and measure(lines := _lines(text, n)) > width:
        n -= 1
    if n <= 1:
        return text
    longest = max(map(len, text.replace("\n", " ").split(" ")), default=0)
    while n > longest and (other := _lines(text, n - 1)).count("\n") == lines.count("\n"):
        n, lines = n - 1, other
    return lines


def fitted(text: str, width: float, size: float, smallest: float = SMALLEST) -> tuple[str, float]:
    """The text and its font size for a width in inches: shrunk, and then wrapped."""
    room = 72 * width / max(text_width(text), 1e-9)
    if room >= smallest:
        return text, min(size, room)
    smallest = min(size, smallest)
    return wrapped(text, 72 * width / smallest), smallest


def shortened(
    text: str, width: float, measure: Measure | None = None, end: int | None = None
) -> str:
    """The text without its middle, as far as a width in font sizes requires.

    So many letters at its end are kept, by default up to eight.
    """
    measure = measure or Measure(text, _DOTS)
    kept, end = len(text), min(8, len(text) // 2) if end is None else end
    while kept > end + 1 and measure(text) > width:
        kept -= 1
        text = f"{text[: kept - end]}{_DOTS}{text[-end:]}"
    return text


def _lines(text: str, n: int) -> str:
    wrap = partial(textwrap.wrap, width=n, break_on_hyphens=False)
    return "\n".join("\n".join(wrap(line)) for line in text.splitlines())
