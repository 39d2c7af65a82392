"""Colours and texts of pictures.

Colours are those of the style in use, and tints that are seen on its background. Texts fit by the
usual width of letters: they are shrunk to no less than 7 points, and wrapped.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from skcalib._rows import ArrayLike, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

Colour = tuple[float, float, float]

# The palette of Okabe and Ito, which is safe for colour-blind readers.
BLUE, DARK_BLUE, VERMILION, GREEN = "#56B4E9", "#0072B2", "#D55E00", "#009E73"
PINK, AMBER = "#CC79A7", "#E69F00"

# Contrast that lines need with their background (Web Content Accessibility Guidelines, 1.4.11).
CONTRAST = 3.0

# Number of rows whose bin is drawn half opaque.
HALF = 10

# The smallest font size, in points.
SMALLEST = 7.0

# Usual width of a letter, and height of a line, in font sizes.
LETTER, LINE = 0.58, 1.25

# Joins words that stay in one line.
NBSP = "\N{NO-BREAK SPACE}"


class Theme(NamedTuple):
    """Colours of axes as the style in use, or their user, has made them."""

    foreground: Colour  #: of text and neutral lines
    background: Colour

    @classmethod
    def of(cls, ax: Axes) -> Self:
        """The colours of axes."""
        return cls._on(ax, [ax.get_facecolor()])

    @classmethod
    def around(cls, ax: Axes) -> Self:
        """The colours of what stands beside axes, on their figure."""
        return cls._on(ax, [])

    @classmethod
    def _on(cls, ax: Axes, layers: list[Any]) -> Self:
        background = _behind(ax, layers)
        wanted = _rgb(ax.xaxis.label.get_color())
        if contrast(wanted, background) < CONTRAST:
            wanted = max((0.0, 0.0, 0.0), (1.0, 1.0, 1.0), key=lambda c: contrast(c, background))
        return cls(wanted, background)

    @property
    def is_dark(self) -> bool:
        """Whether white is seen better than black."""
        return contrast(self.background, (1, 1, 1)) > contrast(self.background, (0, 0, 0))

    @property
    def muted(self) -> Colour:
        """Neutral lines and bars that stay in the background."""
        return self.legible(self.mixed(self.foreground, 0.66))

    @property
    def models(self) -> tuple[Colour, ...]:
        """Colours of models on the same axes: the style's, or Okabe's and Ito's by default."""
        return tuple(self.legible(colour) for colour in _cycle())

    def model(self, number: int) -> Colour:
        """Colour of a model by its number."""
        colours = _cycle()
        return self.legible(colours[number % len(colours)])

    def mixed(self, colour: Any, opacity: float) -> Colour:
        """The opaque colour that a colour of this opacity has on the background."""
        return _between(self.background, _rgb(colour), opacity)

    def tints(self, colour: Any, n_samples: ArrayLike, share: float = 1.0) -> list[Colour]:
        """Opaque colours of areas that stand for so many rows each, faded by their number."""
        return [self.mixed(colour, share * float(x)) for x in opacity(n_samples)]

    def legible(self, colour: Any) -> Colour:
        """The colour, mixed with the foreground as far as its contrast requires."""
        shades = (_between(_rgb(colour), self.foreground, k / 20) for k in range(20))
        readable = (shade for shade in shades if contrast(shade, self.background) >= CONTRAST)
        return next(readable, self.foreground)


def opacity(n_samples: ArrayLike) -> Floats:
    r"""Opacity of a bin with n rows, :math:`n / (n + 10)`: a single row is hardly seen."""
    n = np.asarray(n_samples, dtype=np.float64)
    return n / (n + HALF)


def faded(colour: Any, n_samples: ArrayLike) -> Floats:
    """Colours with opacity, of shape (n, 4), of dots and lines that stand for so many rows each."""
    alpha = opacity(n_samples)
    return np.column_stack([np.tile(_rgb(colour), (len(alpha), 1)), alpha])


def contrast(one: Any, other: Any) -> float:
    """Contrast ratio of two colours, from 1 to 21, of the Web Content Accessibility Guidelines."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: Any) -> float:
    parts = zip(_rgb(colour), (0.2126, 0.7152, 0.0722), strict=True)
    return sum(k * (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4) for c, k in parts)


def _behind(ax: Axes, layers: list[Any]) -> Colour:
    """The background of axes: layers, over those of the figures that hold them."""
    from matplotlib.colors import to_rgba

    figure = ax.figure
    layers = [*layers, figure.get_facecolor()]
    while figure is not figure.figure:  # subfigures
        figure = figure.figure
        layers.append(figure.get_facecolor())
    seen: Colour = (1.0, 1.0, 1.0)
    for layer in reversed(layers):
        *colour, alpha = to_rgba(layer)
        seen = _between(seen, tuple(colour), alpha)  # type: ignore[arg-type]
    return seen


def _cycle() -> list[Any]:
    import matplotlib as mpl

    keys = mpl.rcParams["axes.prop_cycle"].by_key()
    if keys.get("color", []) in ([], mpl.rcParamsDefault["axes.prop_cycle"].by_key()["color"]):
        return [DARK_BLUE, VERMILION, GREEN, PINK, AMBER, BLUE]
    return list(keys["color"])


def _between(one: Colour, other: Colour, share: float) -> Colour:
    """The colour between two, at a share of the way to the other."""
    red, green, blue = (a + share * (b - a) for a, b in zip(one, other, strict=True))
    return red, green, blue


def _rgb(colour: Any) -> Colour:
    from matplotlib.colors import to_rgb

    return to_rgb(colour)


def as_written(*texts: Text) -> None:
    """Draw texts with names given by users as they are, without mathematical notation."""
    for text in texts:
        text.set_parse_math(False)


def letters_in(width: float, size: float) -> int:
    """Number of letters of a font size that stand in a width in inches."""
    return max(int(72 * width / (LETTER * size) + 1e-6), 4)  # rounding errors cost no letter


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
