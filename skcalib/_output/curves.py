"""Curves over thresholds with bootstrap bands, the base class for displays of decisions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils import check_random_state

from skcalib._input.measures import Scored
from skcalib._input.parameters import check_integer, check_real
from skcalib._output import drawing
from skcalib._rows import Ranked
from skcalib._rows.ranking import distinct_scores
from skcalib._typing import Floats, Indices

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import FillBetweenPolyCollection
    from matplotlib.legend import Legend
    from matplotlib.lines import Line2D

# Label that marks lines without a model, for the legend order.
REFERENCE = "reference"

# A line: its x values, a function from a curve to y values, a function from ranked scores to a
# curve, the label of the vertical axis, and the score in the legend.
Line = tuple[Floats, Callable[[Any], Floats], Callable[[Ranked], Any], str, str]


def resampled_band(
    rows: Scored,
    curve: Callable[[Ranked], Floats],
    level: float,
    n_resamples: int,
    seed: Any,
    groups: Indices | None = None,
    *,
    calibrated: bool = False,
) -> tuple[Floats, Floats]:
    """Return pointwise quantiles of the curve (n_points,) over bootstrap samples.

    The samples consist of rows, or of whole groups if ``groups`` (n,) are their numbers. For a
    ``calibrated`` model the samples are the rows, with events drawn from the scores. Rows of a
    group then depend fully on one another.
    """
    random, order = check_random_state(seed), np.argsort(rows.score)
    score, event, w = rows.score[order], rows.event[order], rows.weight
    w = np.ones(len(order)) if w is None else w[order]
    units = order if calibrated else np.arange(len(order))  # a number for each row, or group
    units = units if groups is None else groups[order]
    n_units = int(units.max()) + 1
    draws = []
    for _ in range(n_resamples):
        if calibrated:
            sample = random.uniform(size=n_units)[units] < score, w
        else:
            counts = np.bincount(random.randint(n_units, size=n_units), minlength=n_units)
            sample = event, w * counts[units]
        draws.append(curve(distinct_scores(score, *sample, are_sorted=True)))
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high


class CurveDisplay(drawing.ModelDisplay):
    """One line per model with a bootstrap band.

    Derived classes define the line in ``_line``, and set limits in ``_arrange``.
    """

    line_: Line2D
    band_: FillBetweenPolyCollection | None
    legend_: Legend | None

    def __init__(
        self,
        curve: Any,
        *,
        name: str | None = None,
        rows: Scored | None = None,
        groups: Indices | None = None,
    ) -> None:
        self.curve = curve
        self.groups = groups
        self.name = name
        self.rows = rows

    def plot(
        self,
        ax: Axes | None = None,
        *,
        confidence_level: float | None = 0.95,
        legend: bool | str = True,
        n_resamples: int = 200,
        random_state: Any = None,
        color: Any = None,
        line_kw: Any = None,
    ) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure. Axes may contain curves for other models.
        confidence_level : float or None, default=0.95
            Level for the band; None for no band.
        legend : bool or str, default=True
            Whether to draw the legend, or a matplotlib location. By default it is above a new
            figure, and at the best location inside your axes.
        n_resamples : int, default=200
            Number of bootstrap samples for the band.
        random_state : int, RandomState instance or None, default=None
            Seed or generator for the samples.
        color : matplotlib colour, default=None
            Colour of the curve; by default the next colour in the style.
        line_kw : dict, default=None
            Other properties, as for ``Axes.plot``.

        Returns
        -------
        Display
            The display itself, with its attributes that end in an underscore set.

        Raises
        ------
        ValueError
            If the confidence level is outside (0, 1), there is less than one sample, the legend's
            location is unknown, or the axes contain another kind of diagram.
        """
        check_integer("n_resamples", n_resamples)
        if confidence_level is not None:
            remedy = "Pass None to draw no band."
            check_real("confidence_level", confidence_level, high=1, remedy=remedy)
        x, values, curve_from, ylabel, score = self._line()
        ax = self._prepare(ax, (5.2, 4), legend)
        number = drawing.check_same_diagram(ax, f"a curve of the {ylabel.lower()}")
        top = ax.get_ylim()[1] if number else 0.0
        look = drawing.line_properties(color, line_kw)
        label = drawing.legend_label(self.name or f"Model {number + 1}") + score
        self.line_, self.band_ = drawing.draw_line(ax, x, values(self.curve), label, look), None
        drawing.mark_diagram(self.line_, f"a curve of the {ylabel.lower()}")
        if confidence_level is not None and self.rows is not None:
            resampling = confidence_level, n_resamples, random_state, self.groups
            ends = resampled_band(self.rows, lambda rows: values(curve_from(rows)), *resampling)
            label = f"{100 * confidence_level:g} % confidence band"
            self.band_ = drawing.draw_band(ax, (x, *ends), self.line_, label)
        self._arrange(number, top)
        ax.set_ylabel(ylabel)
        handles = ax.get_legend_handles_labels()[0]
        handles.sort(key=lambda handle: handle.get_gid() == REFERENCE)
        self.legend_ = drawing.draw_legend(ax, handles, legend=legend)
        return self

    @abstractmethod
    def _line(self) -> Line:
        """Return the line."""

    @abstractmethod
    def _arrange(self, number: int, top: float) -> None:
        """Set limits, where ``number`` other models reach up to ``top``."""
