"""Reliability diagrams of the classes in one figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from skcalib._output.text import SMALLEST, as_written
from skcalib._validation.inputs import check_integer
from skcalib._validation.labels import shown
from skcalib.metrics._input import OF_EACH

from ._around import legend_above, names_around
from ._axes import new_figure
from ._limits import shown_rows
from ._panels import (
    HISTOGRAM,
    NBSP,
    SPACE,
    Margins,
    Panels,
    add_panels,
    height_of_lines,
    inches,
    place,
    titles_in,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.legend import Legend


class ReliabilityGridDisplay:
    """Reliability diagrams of several classes in one figure.

    Created by ``ReliabilityDisplay.from_predictions(..., kind="classwise")``, or with
    ``kind="multilabel"``, which has a diagram for each label. The title of each diagram has the
    label of the class, the number of rows with this label, and the ECE of the bins that are drawn.
    A class whose probabilities are all in one uniform bin has quantile bins, which the title says,
    if no strategy was given, and its axes end where its probabilities do.

    The histograms of rows above the diagrams have the same scale, whose end is in the legend. Of
    more than 25 diagrams only those at the borders have ticks.

    Parameters
    ----------
    displays : list of ReliabilityDisplay
        One for each class, with the label as its name.
    name : str, default=None
        Name of the model, above the legend.

    Attributes
    ----------
    displays_ : list of ReliabilityDisplay
        The diagrams, drawn.
    figure_ : matplotlib Figure or SubFigure
        Figure that contains them.
    axes_ : list of matplotlib Axes
        Axes of the diagrams, row by row.
    legend_ : matplotlib Legend
        Legend of all diagrams.

    Examples
    --------
    >>> from skcalib import ReliabilityDisplay
    >>> from skcalib.datasets import load_digits_logits
    >>> digits = load_digits_logits()
    >>> grid = ReliabilityDisplay.from_estimator(
    ...     digits.classifier, digits.X_test, digits.y_test, kind="classwise", max_classes=4)
    >>> [display.name for display in grid.displays_]
    ['8', '1', '9', '4']
    """

    displays_: list[Any]
    figure_: Figure | SubFigure
    axes_: list[Axes]
    legend_: Legend

    def __init__(self, displays: Sequence[Any], *, name: str | None = None) -> None:
        self.displays = list(displays)
        self.name = name

    def plot(
        self,
        figure: Figure | SubFigure | None = None,
        *,
        n_columns: int | None = None,
        **plot_params: Any,
    ) -> Self:
        """Draw the diagrams.

        Parameters
        ----------
        figure : matplotlib Figure or SubFigure, default=None
            Where to draw; by default a new figure.
        n_columns : int, default=None
            Number of diagrams side by side; by default the square root of the number of
            diagrams, rounded up.
        **plot_params
            Passed to :meth:`ReliabilityDisplay.plot` of each.

        Returns
        -------
        ReliabilityGridDisplay
            The display itself, with the attributes that end in an underscore set.

        Raises
        ------
        ValueError
            If ``n_columns`` is not an integer of at least 1.
        """
        if n_columns is None:
            n_columns = int(np.ceil(np.sqrt(len(self.displays))))
        check_integer("n_columns", n_columns)
        n_rows = -(-len(self.displays) // n_columns)
        top = HISTOGRAM[1] if plot_params.get("counts", True) else 1.0
        side = min(2.3, max(1.3, 14 / n_columns))  # of diagrams in a new figure, in inches
        new = None
        if figure is None:
            size = max(1.15 * side * n_columns, 4.5), 1.3 * top * side * n_rows
            figure = new = new_figure(size, "none")
        self.figure_, self.displays_ = figure, self.displays
        around = names_around(figure, self.displays[0].kind)
        panels = Panels(n_rows, n_columns, around, Margins(SPACE, SPACE, SPACE, SPACE))
        panels = self._draw(figure, panels, top, plot_params)
        # What has been drawn tells how large the margins must be.
        height = self.legend_.get_window_extent().height / figure.dpi
        panels = replace(panels, figure=around._replace(top=height + 2 * SPACE))
        panels = panels.with_labels(self.axes_)
        if new is not None:
            new.set_size_inches(panels.size(side, top * side))
        place(self.axes_, panels)
        first: Any = self.axes_[0].get_axes_locator()
        first.legend = self.legend_
        return self

    def _draw(
        self, figure: Figure | SubFigure, panels: Panels, top: float, plot_params: dict[str, Any]
    ) -> Panels:
        """Draw the diagrams and the legend, and return the panels with room for the titles."""
        room = inches(figure)[0] / (panels.n_columns + 0.3) - SPACE
        wanted = min(max(4.5 * room, SMALLEST), 10)
        titles, size = titles_in([_title(display) for display in self.displays], room, wanted)
        above = max(height_of_lines(title, size) for title in titles) + SPACE
        panels = replace(panels, cell=panels.cell._replace(top=above))
        most = max(float(shown_rows(display).n_samples.max()) for display in self.displays)
        is_logit = plot_params.get("scale") == "logit"
        own = [display.zoomed or is_logit for display in self.displays]
        self.axes_ = add_panels(figure, panels, own, top=top, most=most)
        for display, ax, title in zip(self.displays, self.axes_, titles, strict=True):
            display.plot(ax, **{**plot_params, "legend": False})
            # A fixed height spares Matplotlib the search for one.
            as_written(ax.set_title(title, fontsize=size, y=1, pad=3))
        self.legend_ = legend_above(figure, self.axes_, most if top > 1 else None, self.name)
        return panels


def check_grid(
    kind: str, ax: Any, classes: ArrayLike | None, max_classes: int, figure: Any
) -> None:
    """Raise a ValueError for arguments that do not suit the kind of diagram."""
    if kind not in OF_EACH:
        for name, given in (("classes", classes), ("figure", figure)):
            if given is not None:
                raise ValueError(
                    f"{name} is for kind='classwise' or 'multilabel', got kind={kind!r}. Leave it "
                    "out, or pass kind='classwise' for a diagram of each class."
                )
        return
    if ax is not None:
        raise ValueError(
            f"kind={kind!r} draws a diagram for each class and needs a figure, got ax. Pass "
            "figure= instead, a Figure or SubFigure."
        )
    if classes is None:
        check_integer("max_classes", max_classes)
    elif len(np.atleast_1d(np.asarray(classes))) == 0:
        raise ValueError(
            "classes must name at least one class, got none. Pass None for the classes with the "
            "largest ECE."
        )


def chosen(displays: Sequence[Any], classes: ArrayLike | None, max_classes: int) -> list[Any]:
    """The diagrams of the given classes, or of those with the largest ECE."""
    if classes is None:
        # Sorting is stable: classes with the same ECE keep their order.
        worst = sorted(displays, key=lambda display: -display.expected_calibration_error)
        return worst[:max_classes]
    known = {display.rows.label: display for display in displays if display.rows is not None}
    wanted = np.atleast_1d(np.asarray(classes)).tolist()
    unknown = [label for label in wanted if label not in known]
    if unknown:
        raise ValueError(f"classes must be among {shown(known)}, got {unknown[0]!r}.")
    return [known[label] for label in dict.fromkeys(wanted)]


def _title(display: Any) -> str:
    """The name of a class, its rows and its ECE, which are not broken in two."""
    parts = [f"ECE {display.expected_calibration_error:.3f}"]
    if display.rows is not None:
        parts.insert(0, f"{int(display.rows.event.sum()):,} rows")
    if display.zoomed:
        parts.append("quantile bins")
    return f"{display.name}: " + ", ".join(part.replace(" ", NBSP) for part in parts)
