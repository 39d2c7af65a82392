"""Curves of what is decided above a threshold: risk and coverage, and net benefit."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skcalib._rows import Floats, Ranked
from skcalib._scores.columns import Scored
from skcalib._validation.inputs import check_integer, check_real
from skcalib.metrics._resampling import bootstrap_band

from . import _artists
from ._layout import ModelDisplay, check_legend, draw_legend, make_room
from ._style import Look, entry, recorded

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import FillBetweenPolyCollection
    from matplotlib.lines import Line2D

# Number of places at which curves and their bands are drawn.
PLACES = 400

# Risks of a smaller share of the rows, which are noisy, do not set the scale.
LEAST_COVERAGE = 0.05

# What artists are that show the net benefit of no model.
REFERENCE = "reference"

# Places of a line, the values of a curve there, the curve of ranked scores, the name of the
# vertical axis, and the score in the legend.
Line = tuple[Floats, Callable[[Any], Floats], Callable[[Ranked], Any], str, str]


class CurveDisplay(ModelDisplay):
    """A line for each model, and its band: what displays of decisions share.

    Derived classes say what to draw, ``_line``, and set limits, ``_arrange``.
    """

    line_: Line2D
    band_: FillBetweenPolyCollection | None

    def __init__(self, curve: Any, *, name: str | None = None, rows: Scored | None = None) -> None:
        self.curve = curve
        self.name = name
        self.rows = rows

    def plot(
        self,
        ax: Axes | None = None,
        *,
        confidence_level: float | None = 0.95,
        legend: bool | str = True,
        n_resamples: int = 200,
        random_state: int | np.random.RandomState | None = 0,
    ) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure. Axes may hold curves of other models.
        confidence_level : float or None, default=0.95
            Level of the band; None for no band.
        legend : bool or str, default=True
            Whether to draw the legend, above the axes, or a location of matplotlib within them.
        n_resamples : int, default=200
            Number of bootstrap samples for the band.
        random_state : int, RandomState instance or None, default=0
            Seed or generator of the samples.

        Returns
        -------
        Display
            The display itself, with the attributes that end in an underscore set.

        Raises
        ------
        ValueError
            For a confidence level outside of (0, 1), fewer than one sample, an unknown location of
            the legend, or axes with a diagram of another kind.
        """
        check_legend(legend)
        check_integer("n_resamples", n_resamples)
        if confidence_level is not None:
            remedy = "Pass None to draw no band."
            check_real("confidence_level", confidence_level, high=1, remedy=remedy)
        x, values, curve_from, ylabel, score = self._line()
        ax = self._on(ax, (5.2, 4))
        look = Look.next_on(ax, "curve", ylabel, "linear")
        self.band_ = None
        label = entry(self.name or f"Model {look.number + 1}") + score
        self.line_ = _artists.line(ax, x, values(self.curve), look, label)
        self.line_.set_clip_on(True)
        if confidence_level is not None and self.rows is not None:
            resampling = confidence_level, n_resamples, random_state
            ends = bootstrap_band(self.rows, lambda rows: values(curve_from(rows)), *resampling)
            self.band_ = _artists.band(ax, (x, *ends), look, confidence_level, "confidence band")
        self._arrange(look, ax.get_ylim()[1] if look.number else 0.0)
        ax.set_ylabel(ylabel)
        handles = ax.get_legend_handles_labels()[0]
        handles.sort(key=lambda handle: handle in recorded(ax.lines, REFERENCE))
        draw_legend(ax, handles, legend=legend)
        make_room(ax)
        return self

    @abstractmethod
    def _line(self) -> Line:
        """What to draw."""

    @abstractmethod
    def _arrange(self, look: Look, top: float) -> None:
        """Set limits, for other models at ``top``."""
