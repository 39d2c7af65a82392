"""Reliability diagrams of the classes in one figure."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from skcalib._output import briefly
from skcalib._output.theme import NBSP, SMALLEST, Theme, as_written, wrapped
from skcalib._validation.inputs import check_integer
from skcalib._validation.labels import shown
from skcalib.metrics._input import OF_EACH

from . import _layout
from ._artists import counts_above
from ._curves import shown_rows
from ._style import AXIS_NAMES, kind_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.legend import Legend


# Panels of less than so many inches for each side are left out, unless they were asked for.
LEAST_PANEL = 1.3

# Of more panels those inside have no ticks, which take long to lay out.
MANY = 25


class ReliabilityGridDisplay(_layout.Display):
    """Reliability diagrams of several classes in one figure.

    Created by ``ReliabilityDisplay.from_predictions(..., kind="classwise")``, or with
    ``kind="multilabel"``, which has a diagram for each label. The title of each diagram has the
    label of the class, the number of rows with this label, and the ECE of the bins that are drawn.
    A class whose probabilities are all in one uniform bin has quantile bins, which the title says,
    if no strategy was given, and its axes end where its probabilities do.

    What stands above the legend says how many of the classes are drawn, if not all are.

    The histograms of rows above the diagrams have the same scale, whose end is in the legend. Tick
    labels stand at the borders, and wherever the limits of a diagram are its own. Of more than 25
    diagrams others have no ticks.

    Parameters
    ----------
    displays : list of ReliabilityDisplay
        One for each class, with the label as its name.
    name : str, default=None
        Name of the model, above the legend.
    n_classes : int, default=None
        Number of classes of the model, of which more may be left out; by default that of displays.

    Attributes
    ----------
    displays_ : list of ReliabilityDisplay
        The diagrams, drawn.
    figure_ : matplotlib Figure or SubFigure
        Figure that contains them.
    axes_ : list of matplotlib Axes
        Axes of the diagrams, row by row.
    legend_ : matplotlib Legend or None
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
    axes_: list[Axes]
    legend_: Legend | None

    def __init__(
        self, displays: Sequence[Any], *, name: str | None = None, n_classes: int | None = None
    ) -> None:
        self.displays = list(displays)
        self.name = name
        self.n_classes = len(self.displays) if n_classes is None else n_classes

    def _summary(self) -> str:
        return f"{len(self.displays)} of {self.n_classes} classes"

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
            Where to draw; by default a new figure. A figure without a layout engine gets
            constrained layout.
        n_columns : int, default=None
            Number of diagrams side by side; by default the square root of the number of
            diagrams, rounded up, or what the sides of ``figure`` have room for.
        **plot_params
            Passed to :meth:`ReliabilityDisplay.plot` of each, and ``legend=False`` for no legend.

        Returns
        -------
        ReliabilityGridDisplay
            The display itself, with the attributes that end in an underscore set.

        Raises
        ------
        ValueError
            If ``n_columns`` is not an integer of at least 1.
        """
        n = len(self.displays)
        n_columns = side_by_side(n, figure) if n_columns is None else n_columns
        check_integer("n_columns", n_columns)
        counts, legend = (plot_params.pop(name, True) for name in ("counts", "legend"))
        _layout.check_legend(legend)
        n_rows, style = -(-n // n_columns), plot_params.get("style", "bars")
        self.figure_ = figure = _laid_out(figure, n_columns, n_rows)
        self.displays_ = self.displays
        # The first row is that of the legend, which needs no more than its letters.
        places = figure.add_gridspec(n_rows + 1, n_columns, height_ratios=[1e-3] + n_rows * [1.0])
        self.axes_ = [
            figure.add_subplot(places[1 + k // n_columns, k % n_columns]) for k in range(n)
        ]
        for ax in self.axes_ if n > MANY else []:
            ax.xaxis.set_visible(False)
            ax.yaxis.set_visible(False)
        most = max(float(shown_rows(display).n_samples.max()) for display in self.displays)
        for display, ax in zip(self.displays, self.axes_, strict=True):
            display.plot(ax, **{**plot_params, "counts": False, "legend": False})
            if counts:
                display.counts_ax_ = ax
                display.counts_ = counts_above(ax, shown_rows(display), style, most)
        self._label(n_columns, counts=counts)
        self.legend_ = None
        if legend is not False:
            self._draw_legend(figure.add_subplot(places[0, :]), most if counts else None)
        return self

    def _label(self, n_columns: int, *, counts: bool) -> None:
        """Titles, names of the axes, and tick labels at the borders or of limits of their own."""
        across, up = AXIS_NAMES[self.displays[0].kind]
        width = _layout.size_of(self.axes_[0])[0]
        size = min(max(4.5 * width, SMALLEST), _layout.largest() + 1)
        self.figure_.supxlabel(across, fontsize=size)
        self.figure_.supylabel(up, fontsize=size)
        limits = [ax.get_xlim() for ax in self.axes_]
        for k, (display, ax) in enumerate(zip(self.displays, self.axes_, strict=True)):
            ax.set(xlabel="", ylabel="")
            below, left = limits[k + n_columns :: n_columns], limits[k - k % n_columns : k]
            labelled = limits[k] not in below, limits[k] not in left
            if len(limits) <= MANY:
                ax.tick_params(labelbottom=labelled[0], labelleft=labelled[1])
            else:
                for axis in itertools.compress((ax.xaxis, ax.yaxis), labelled):
                    axis.set_visible(True)
                    _layout.set_ticks(axis, _layout.side_of(ax))
            title = wrapped(_title(display), 1.2 * width, size)
            # A fixed height spares Matplotlib the search for one.
            as_written(ax.set_title(title, fontsize=size, y=_layout.TOP if counts else 1, pad=3))

    def _draw_legend(self, ax: Axes, most: float | None) -> None:
        """One legend for all panels, at the top, with their different entries once each."""
        from matplotlib.patches import Patch

        found: dict[str, Any] = {}
        for handle in (handle for panel in self.axes_ for handle in _layout.entries(panel)):
            kind = kind_of(handle)  # models have the name of their quantity, without the score
            found.setdefault(AXIS_NAMES[kind][1] if kind else handle.get_label(), handle)
        found["Perfect"] = found.pop("Perfect")
        if most is not None:
            found[f"Rows (up to {most:,.0f})"] = Patch(color=Theme.of(self.axes_[0]).muted)
        width = ax.figure.bbox.width / ax.figure.dpi
        size = min(max(1.6 * width, SMALLEST), _layout.largest())
        drawn, shown = len(self.displays), f"{self._summary()}, the largest ECE first"
        parts = [self.name or "", shown if drawn < self.n_classes else ""]
        title = wrapped(": ".join(filter(None, parts)), width, size + 1) or None
        place: Any = {"loc": "lower center", "title": title, "title_fontsize": size + 1}
        self.legend_ = _layout.legend_in_columns(
            ax, found.values(), found, size, width - 0.6, **place
        )
        ax.set_axis_off()


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


def _laid_out(figure: Any, n_columns: int, n_rows: int) -> Any:
    """A figure with a layout engine, a new one of the size of the panels if there is none."""
    if figure is None:
        side = min(2.1, max(1.2, 14 / n_columns))  # of diagrams, in inches
        size = max(1.15 * side * n_columns + 0.4, 4.5), 1.5 * side * n_rows + 0.8
        return _layout.new_figure(size, "compressed")
    if figure.figure.get_layout_engine() is None:
        figure.figure.set_layout_engine("constrained")
    return figure


def places_in(figure: Any) -> tuple[int, int]:
    """How many panels have room side by side and on top of each other."""
    across, up = (max(int(side / figure.dpi / LEAST_PANEL), 1) for side in figure.bbox.size)
    return across, up


def side_by_side(n: int, figure: Any) -> int:
    """The number of columns of n panels: about that of rows, unless a side has no room for it."""
    square = int(np.ceil(np.sqrt(n)))
    across, up = (n, n) if figure is None else places_in(figure)
    return square if across * up < n else max(min(square, across), -(-n // up))


def chosen(
    displays: Sequence[Any], classes: ArrayLike | None, max_classes: int, figure: Any
) -> list[Any]:
    """The diagrams of the given classes, or of those with the largest ECE that have room."""
    if classes is None:
        if figure is not None:
            across, up = places_in(figure)
            max_classes = min(max_classes, across * up)
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
    parts = [f"ECE {briefly(display.expected_calibration_error)}"]
    if display.rows is not None:
        parts.insert(0, f"{int(display.rows.event.sum()):,} rows")
    if display.zoomed:
        parts.append("quantile bins")
    return f"{display.name}: " + ", ".join(part.replace(" ", NBSP) for part in parts)
