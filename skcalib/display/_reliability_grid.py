"""Reliability diagrams of the classes in one figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from skcalib._validation.labels import shown
from skcalib._validation.parameters import check_integer
from skcalib.metrics._input import OF_EACH

from ._axes import new_figure, title_size
from ._look import AXIS_NAMES, Look, recorded
from ._text import as_written

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.legend import Legend


class ReliabilityGridDisplay:
    """Reliability diagrams of several classes in one figure.

    Created by ``ReliabilityDisplay.from_predictions(..., kind="classwise")``, or with
    ``kind="multilabel"``, which has a diagram for each label. The title of each diagram has the
    label of the class, the number of rows with this label, and the ECE of the predicted
    probabilities of the class.

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
        if figure is None:
            figure = new_figure((max(2.7 * n_columns, 4.5), 3.3 * n_rows + 0.8))
        titles = [_title(display) for display in self.displays]
        size = title_size(titles, figure.bbox.width / figure.dpi / n_columns)
        self.figure_, self.displays_ = figure, self.displays
        for k, display in enumerate(self.displays):
            ax = figure.add_subplot(n_rows, n_columns, k + 1)
            display.plot(ax, **{**plot_params, "legend": False})
            as_written(ax.set_title(titles[k], fontsize=size))
            ax.set(xlabel="", ylabel="")
            if display.counts_ax_ is not None and k % n_columns:
                display.counts_ax_.set_ylabel("")
        self.axes_ = [display.ax_ for display in self.displays]
        score, event = AXIS_NAMES[self.displays_[0].kind]
        figure.supxlabel(score)
        figure.supylabel(event)
        self.legend_ = _grid_legend(figure, self.displays_[0], self.name)
        return self


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
    error = f"ECE {display.expected_calibration_error:.3f}"
    if display.rows is None:
        return f"{display.name}: {error}"
    return f"{display.name}: {int(display.rows.event.sum()):,} rows, {error}"


def _grid_legend(figure: Figure | SubFigure, display: Any, name: str | None) -> Legend:
    """One legend for all diagrams, without the name and the score of the first class."""
    handles, labels = display.ax_.get_legend_handles_labels()
    event = AXIS_NAMES[display.kind][1]
    models = [handle for handle, _ in recorded(handles, Look)]
    labels = [event if h in models else label for h, label in zip(handles, labels, strict=True)]
    legend = figure.legend(
        handles, labels, loc="outside upper center", ncols=2, title=name, frameon=False
    )
    as_written(legend.get_title())
    return legend
