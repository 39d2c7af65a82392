"""Records that artists carry: how models on the same axes look, and which line is the diagonal.

A record is an attribute of its artist, so axes that were cleared hold none, and figures that were
pickled hold those they had.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from ._axes import BLUE, DARK_BLUE, GREEN, VERMILION, entry

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes


Style = Literal["bars", "dots", "corp"]

Scale = Literal["linear", "logit"]

# Of the models on the same axes, in this order. Markers tell them apart without colour.
COLOURS = (DARK_BLUE, VERMILION, GREEN, "#CC79A7", "#E69F00", BLUE, "black")

MARKERS = "os^DvPX"

DASHES: tuple[Any, ...] = ("-", (0, (6, 1.5)), (0, (2, 1)), (0, (6, 1.5, 1.5, 1.5)))

# Names of the axes of a diagram by its kind.
AXIS_NAMES = {
    "top-label": ("Confidence", "Accuracy"),
    "binary": ("Predicted probability", "Observed frequency"),
}

_RECORD = "_skcalib_record"


class Diagonal(NamedTuple):
    """The artist is the line of perfect calibration."""


class Look(NamedTuple):
    """The artist shows a model, drawn in this way."""

    style: str
    kind: str
    scale: str
    number: int  #: of models that the axes held before

    @classmethod
    def next_on(cls, ax: Axes, style: str, kind: str, scale: str) -> Self:
        """The look of the next model, or a ValueError if it cannot join those on the axes."""
        others = [look for _, look in recorded([*ax.patches, *ax.lines], Look)]
        for other in others:
            if "bars" in (style, other.style):
                raise ValueError(
                    "Bars of two models would hide each other: ax must hold no other diagram, got "
                    "axes with one. Pass style='dots' or style='corp' for each, or other axes."
                )
            for name, value in (("kind", kind), ("scale", scale)):
                if getattr(other, name) != value:
                    raise ValueError(
                        f"Diagrams on the same axes must have one {name}, got {name}={value!r} on "
                        f"axes with {name}={getattr(other, name)!r}. Pass the same {name}, or "
                        "other axes."
                    )
        return cls(style, kind, scale, len(others))

    @property
    def colour(self) -> str:
        """Colour of the model."""
        return COLOURS[self.number % len(COLOURS)]

    @property
    def dashes(self) -> Any:
        """Line style of its curve and of its histogram."""
        return DASHES[self.number % len(DASHES)]

    @property
    def line(self) -> dict[str, Any]:
        """Arguments for its line: dots that are joined, or a curve."""
        params: dict[str, Any] = {"color": self.colour, "clip_on": self.scale == "logit"}
        if self.style == "corp":
            return {**params, "linestyle": self.dashes, "linewidth": 1.5}
        marker = MARKERS[self.number % len(MARKERS)]
        return {**params, "marker": marker, "markersize": 4.5, "linewidth": 0.8}

    def label(self, name: str | None) -> str:
        """Entry of the model in the legend."""
        if name is not None:
            return entry(name)
        return f"Model {self.number + 1}" if self.number else AXIS_NAMES[self.kind][1]


def record(artist: Artist, what: Look | Diagonal) -> None:
    """Attach a record to an artist."""
    setattr(artist, _RECORD, what)


def recorded(artists: Iterable[Artist], kind: type) -> list[tuple[Any, Any]]:
    """The artists that carry a record of a kind, each with its record."""
    found = [(artist, getattr(artist, _RECORD, None)) for artist in artists]
    return [(artist, what) for artist, what in found if isinstance(what, kind)]
