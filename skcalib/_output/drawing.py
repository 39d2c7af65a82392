"""Figures, axes, legends and texts for displays.

The matplotlib style in use determines layout, font sizes and colours.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from scipy.special import expit, softmax

from skcalib._input.arrays import on_host
from skcalib._input.labels import class_probabilities
from skcalib._input.parameters import check_option
from skcalib._typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import FillBetweenPolyCollection
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

ScoreMethod = Literal["auto", "predict_proba", "decision_function"]

# Markers for models on the same axes, in this order.
MARKERS = "os^DvPX<p>dh*8"

# Attributes that mark figures and legends as created by a display, and artists as part of a
# diagram. They are pickled with the artists, and vanish if the axes are cleared.
_OWN, _DIAGRAM = "_skcalib_own", "_skcalib_diagram"


class Display:
    """Base class for displays: name, representation, axes and figure."""

    ax_: Axes
    figure_: Figure | SubFigure
    _name: str | None = None

    @property
    def name(self) -> str | None:
        """Name of the model as text, or None."""
        return self._name

    @name.setter
    def name(self, name: Any) -> None:
        self._name = None if name is None else str(name) or None

    def __repr__(self) -> str:
        name = "" if self.name is None else f" of {self.name}"
        return f"<{type(self).__name__}{name}: {self._summary()}>"

    @abstractmethod
    def _summary(self) -> str:
        """Describe the display in a few words and numbers."""

    def _prepare(self, ax: Axes | None, size: tuple[float, float], legend: Any) -> Axes:
        """Return the axes to draw on, by default in a new figure with a ``size`` in inches."""
        check_legend(legend)
        check_axes(ax)
        self.ax_ = new_figure(size).subplots() if ax is None else ax
        self.figure_ = self.ax_.figure
        return self.ax_


class ModelDisplay(Display):
    """Base class for displays of labels and probabilities, which a classifier may predict."""

    from_predictions: Any  # a class method of each display

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        response_method: ScoreMethod = "auto",
        name: str | None = None,
        **params: Any,
    ) -> Self:
        """Draw the display for a fitted classifier.

        Parameters
        ----------
        estimator : classifier
            Fitted classifier, or a pipeline that ends with one.
        X : array-like of shape (n_samples, n_features)
            Held-out input.
        y : array-like of shape (n_samples,)
            Labels.
        response_method : {"auto", "predict_proba", "decision_function"}, default="auto"
            Method that returns the scores. "auto" calls ``decision_function``, for logits, only if
            there is no ``predict_proba``.
        name : str, default=None
            Name of the model; by default the name of the estimator's class.
        **params
            All other parameters of ``from_predictions``, except ``labels``.

        Returns
        -------
        Display
            The display, drawn.

        Raises
        ------
        ValueError
            As ``from_predictions``, and if the estimator lacks the ``response_method``.
        """
        P, classes = predict(estimator, X, response_method)
        labels = None if params.get("kind") == "multilabel" else classes
        name = name_of(name, estimator)
        display: Self = cls.from_predictions(y, P, labels=labels, name=name, **params)
        return display


def new_figure(size: tuple[float, float]) -> Figure:
    """Create a pyplot figure with constrained layout."""
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=size, layout="constrained")
    setattr(figure, _OWN, True)
    return figure


def check_axes(ax: Any) -> None:
    """Raise a ValueError if ``ax`` is neither None nor Axes."""
    if ax is None:
        return
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

    if isinstance(ax, Axes):
        return
    if isinstance(ax, FigureBase):
        problem = f"a {type(ax).__name__}. Pass ax=figure.subplots()"
    elif isinstance(ax, np.ndarray | list | tuple):
        problem = f"a sequence of length {len(ax)}. Pass one of them, such as ax=axes[0]"
    elif isinstance(ax, ModuleType):
        problem = f"the module {ax.__name__}. Pass ax=plt.gca()"
    else:
        problem = f"{type(ax).__name__}. Pass None for a new figure"
    raise ValueError(f"ax must be matplotlib Axes or None, got {problem}.")


def check_legend(legend: Any) -> None:
    """Raise a ValueError if ``legend`` is neither a bool nor a location of matplotlib."""
    from matplotlib.legend import Legend

    if isinstance(legend, bool):
        return
    if not isinstance(legend, str) or legend.removeprefix("outside ") not in Legend.codes:
        raise ValueError(
            "legend must be True, False or a location of matplotlib such as 'upper left', got "
            f"{legend!r}."
        )


def draw_legend(ax: Axes, handles: Iterable[Any], *, legend: Any) -> Any:
    """Draw a legend above a new figure, or inside the user's axes, and return it.

    ``legend`` is a bool or a location, as for ``plot``.
    """
    if legend is False:
        return None
    figure, handles = ax.figure, list(handles)
    if legend is True:
        legend = "outside upper center" if hasattr(figure, _OWN) else "best"
    if legend.startswith("outside"):
        for outdated in [drawn for drawn in figure.legends if hasattr(drawn, _OWN)]:
            outdated.remove()  # it shows fewer models
        for n_columns in range(max(1, int(figure.bbox.width / figure.dpi / 2.4)), 0, -1):
            drawn = figure.legend(handles=handles, loc=legend, ncols=n_columns)
            draw_as_written(*drawn.get_texts())  # also where the legend is measured
            if n_columns == 1 or drawn.get_window_extent().width < figure.bbox.width:
                break
            drawn.remove()  # long names: fewer columns
        setattr(drawn, _OWN, True)
    else:
        drawn = ax.legend(handles=handles, loc=legend, fontsize="small")
        draw_as_written(*drawn.get_texts())
    return drawn


def mark_diagram(artist: Any, diagram: str) -> None:
    """Mark an artist as part of a diagram."""
    setattr(artist, _DIAGRAM, diagram)


def diagrams_on(ax: Axes) -> list[str]:
    """List the diagrams on the axes, one entry per model."""
    artists = [*ax.patches, *ax.lines]
    return [getattr(artist, _DIAGRAM) for artist in artists if hasattr(artist, _DIAGRAM)]


def check_same_diagram(ax: Axes, diagram: str) -> int:
    """Raise a ValueError if the axes show another diagram; else count the models on them."""
    others = diagrams_on(ax)
    for other in others:
        if other != diagram:
            raise ValueError(
                f"Models on the same axes must be drawn in the same diagram, got {diagram} on axes "
                f"with {other}. Pass other axes, or the same kind and scale."
            )
    return len(others)


def draw_as_written(*texts: Text) -> None:
    """Draw texts that contain the user's names without mathematical notation."""
    for text in texts:
        text.set_parse_math(False)


def draw_title(ax: Axes, name: str | None) -> None:
    """Set a model's name as the title of the axes."""
    if name is not None:
        draw_as_written(ax.set_title(name))


def legend_label(name: str) -> str:
    """Return a label for a legend; matplotlib omits names that begin with an underscore."""
    return f" {name}" if name.startswith("_") else name


def label_once(ax: Axes, label: str) -> str:
    """Return a label for a legend, or "_nolegend_" if the axes have the label already."""
    return "_nolegend_" if label in ax.get_legend_handles_labels()[1] else label


def name_of(name: Any, estimator: Any) -> str:
    """Return a model's name as text, by default the name of its class."""
    return type(estimator).__name__ if name is None else str(name) or type(estimator).__name__


def line_properties(color: Any, line_kw: Any, *, for_bars: bool = False) -> dict[str, Any]:
    """Return properties for a curve, or for bars, with long names such as "linewidth"."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    look = {} if color is None else {"color": color}
    return look | normalize_kwargs(line_kw, Patch if for_bars else Line2D)


def draw_line(ax: Axes, x: Floats, y: Floats, label: str, look: dict[str, Any]) -> Line2D:
    """Draw a curve through ``x`` and ``y`` (n,) with line properties ``look``."""
    (line,) = ax.plot(x, y, label=label, **({"linewidth": 1.6} | look))
    return line


def draw_band(
    ax: Axes, ends: tuple[Floats, Floats, Floats], line: Line2D, label: str
) -> FillBetweenPolyCollection:
    """Draw a band between ``ends``, (x, low, high) as arrays (n,), in the line's colour."""
    colour, label = line.get_color(), label_once(ax, label)
    return ax.fill_between(*ends, color=colour, alpha=0.18, linewidth=0, zorder=0.5, label=label)


def foreground(ax: Axes, alpha: float = 1.0) -> Any:
    """Return the text colour of the axes, with an opacity."""
    from matplotlib.colors import to_rgba

    return to_rgba(ax.xaxis.label.get_color(), alpha)


def predict(estimator: Any, X: Any, response_method: ScoreMethod) -> tuple[Any, Any]:
    """Predict probabilities by a fitted classifier, and return its classes as well.

    The scores from ``decision_function`` are used as logits.
    """
    check_option("response_method", response_method, ScoreMethod)
    name: str = response_method
    if response_method == "auto":
        has_proba = hasattr(estimator, "predict_proba")
        name = "predict_proba" if has_proba else "decision_function"
    if not hasattr(estimator, name):
        raise ValueError(
            f"response_method={response_method!r} needs a classifier with {name}, got "
            f"{type(estimator).__name__}. Pass a fitted classifier that has it."
        )
    classes = estimator.classes_
    output = on_host(getattr(estimator, name)(X))
    if name == "decision_function":
        scores = np.asarray(output, dtype=np.float64)
        output = expit(scores) if scores.ndim == 1 else softmax(scores, axis=1)
    P = class_probabilities(output, classes)
    return P, classes if isinstance(classes, list) else on_host(classes)
