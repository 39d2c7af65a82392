"""How models on the same axes look: colours, markers, dashes, and entries of the legend.

Artists carry a record of the model that they show, or of what else they are. It is an attribute of
the artist, so axes that were cleared hold none, and figures that were pickled hold those they had.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from skcalib._output.theme import Colour, Theme
from skcalib._validation.inputs import check_option, check_real

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer, Container

Style = Literal["bars", "dots", "corp", "smooth"]

Scale = Literal["linear", "logit"]

Band = Literal["consistency", "confidence"]

# Of the models on the same axes, in this order. They tell models apart without colour.
MARKERS = "os^DvPX"

DASHES: tuple[Any, ...] = ("-", (0, (6, 1.5)), (0, (2, 1)), (0, (6, 1.5, 1.5, 1.5)))

# Horizontal distance between dots of two models in the same place, in points.
DODGE = 2.5

# Names of the axes of a diagram by its kind.
AXIS_NAMES = {
    "top-label": ("Confidence", "Accuracy"),
    "binary": ("Predicted probability", "Observed frequency"),
}

_RECORD = "_skcalib_record"

# What artists are that show no model.
DIAGONAL, KEY, HISTOGRAM, ROOM = "diagonal", "key", "histogram", "room"


def entry(name: str) -> str:
    """A name for a legend, from which matplotlib omits names that begin with an underscore."""
    return f" {name}" if name.startswith("_") else name


class Look(NamedTuple):
    """The artist shows a model, drawn in this way."""

    style: str
    kind: str
    scale: str
    number: int  #: of models that the axes held before
    theme: Theme

    @classmethod
    def next_on(cls, ax: Axes, style: str, kind: str, scale: str) -> Self:
        """The look of the next model, or a ValueError if it cannot join those on the axes."""
        found = [getattr(artist, _RECORD, None) for artist in [*ax.patches, *ax.lines]]
        others = [look for look in found if isinstance(look, Look)]
        for other in others:
            if "bars" in (style, other.style):
                raise ValueError(
                    "Bars of two models would hide each other: ax must hold no other diagram, got "
                    "axes with one. Pass style='dots', 'corp' or 'smooth' for each, or other axes."
                )
            for name, value in (("kind", kind), ("scale", scale)):
                if getattr(other, name) != value:
                    raise ValueError(
                        f"Diagrams on the same axes must have one {name}, got {name}={value!r} on "
                        f"axes with {name}={getattr(other, name)!r}. Pass the same {name}, or "
                        "other axes."
                    )
        return cls(style, kind, scale, len(others), Theme.of(ax))

    @property
    def colour(self) -> Colour:
        """Colour of the model."""
        return self.theme.model(self.number)

    @property
    def marker(self) -> str:
        """Marker of its dots."""
        return MARKERS[self.number % len(MARKERS)]

    @property
    def shift(self) -> float:
        """Horizontal distance from the true place, in points, to the right and left in turn."""
        return DODGE * ((self.number + 1) // 2) * (-1) ** (self.number + 1)

    @property
    def dashes(self) -> Any:
        """Line style of its curve and of its histogram."""
        return DASHES[self.number % len(DASHES)]

    def label(self, name: str | None, score: str) -> str:
        """Entry of the model in the legend."""
        if name is None:
            quantity = AXIS_NAMES[self.kind][1].split()[-1].capitalize()
            name = f"Model {self.number + 1}" if self.number else quantity
        return f"{entry(name)} ({score})"


def check_look(style: str, scale: str, level: float | None, band: str, *, has_rows: bool) -> None:
    """Raise a ValueError for a style, scale, level or band that a diagram cannot have."""
    check_option("style", style, Style)
    check_option("scale", scale, Scale)
    check_option("band", band, Band)
    if level is not None:
        remedy = "Pass None to draw neither error bars nor a band."
        check_real("confidence_level", level, high=1, remedy=remedy)
    if style == "bars" and scale == "logit":
        raise ValueError(
            "Bars begin at 0, which a logit scale does not have, got style='bars' and "
            "scale='logit'. Pass style='dots' or style='corp'."
        )
    if style == "smooth" and scale == "logit":
        raise ValueError(
            "The kernel of a smooth curve has one width, which on a logit scale is larger than "
            "the whole range of small scores, got style='smooth' and scale='logit'. Pass "
            "style='dots' or style='corp'."
        )
    if style in ("corp", "smooth") and not has_rows:
        raise ValueError(
            f"style={style!r} needs scores and events of rows, got rows=None. Use "
            "from_predictions, or pass rows= to the constructor."
        )


def record(artist: Artist | Container, what: Look | str) -> None:
    """Attach a record to an artist: the look of its model, or what it is."""
    setattr(artist, _RECORD, what)


def recorded(artists: Iterable[Any], *names: str) -> list[Any]:
    """The artists that are one of these things."""
    return [artist for artist in artists if getattr(artist, _RECORD, None) in names]


def kind_of(artist: Any) -> str | None:
    """The kind of diagram whose model an artist shows, or None."""
    look = getattr(artist, _RECORD, None)
    return look.kind if isinstance(look, Look) else None


def area_key(ax: Axes, label: str, facecolor: Any, **params: Any) -> BarContainer:
    """An entry of the legend for areas, which draws none: those in the diagram are faded."""
    from matplotlib.container import BarContainer
    from matplotlib.patches import Rectangle

    patch = Rectangle((0, 0), 1, 1, facecolor=facecolor, linewidth=0.5, **params)
    key = BarContainer([patch], label=label)
    _add_once(ax, key)
    return key


def whisker_key(ax: Axes, label: str, colour: Any) -> None:
    """An entry of the legend for error bars."""
    from matplotlib.collections import LineCollection
    from matplotlib.container import ErrorbarContainer

    bars = LineCollection([[(0, 0), (0, 1)]], colors=[colour], linewidths=[1])
    lines: Any = (None, (), (bars,))
    key = ErrorbarContainer(lines, has_yerr=True, label=label)
    record(key, KEY)
    _add_once(ax, key)


def _add_once(ax: Axes, key: Any) -> None:
    if key.get_label() not in ax.get_legend_handles_labels()[1]:
        ax.add_container(key)
