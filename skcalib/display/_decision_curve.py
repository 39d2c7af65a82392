"""What curves of decisions share: a line for each model, and its band."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from skcalib._rows import ArrayLike, Floats, Ranked, on_host
from skcalib._scores.columns import Scored
from skcalib._validation.inputs import check_integer, check_real
from skcalib.metrics._resampling import bootstrap_band

from . import _artists
from ._layout import new_figure
from ._style import Look, entry

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import FillBetweenPolyCollection
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D


class CurveDisplay:
    """A curve and its band: what displays of decisions share."""

    ax_: Axes
    figure_: Figure | SubFigure
    line_: Line2D
    band_: FillBetweenPolyCollection | None

    name: str | None
    rows: Scored | None

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: ArrayLike, y: ArrayLike, *, name: str | None = None, **params: Any
    ) -> Self:
        """Draw the curve of a fitted classifier.

        Parameters
        ----------
        estimator : classifier
            Fitted classifier with ``predict_proba``, or a pipeline that ends with one.
        X : array-like of shape (n_samples, n_features)
            Held-out input.
        y : array-like of shape (n_samples,)
            Labels.
        name : str, default=None
            Name of the model; by default the name of the estimator's class.
        **params
            Other arguments of ``from_predictions``, such as ``ax``, and of ``plot``.

        Returns
        -------
        Display
            With the curve drawn.
        """
        labels, name = on_host(estimator.classes_), name or type(estimator).__name__
        P = estimator.predict_proba(X)
        return cls.from_predictions(y, P, labels=labels, name=name, **params)  # type: ignore[attr-defined]

    def _draw(
        self,
        ax: Axes | None,
        kind: str,
        label: str,
        xy: tuple[Floats, Floats],
        values: Callable[[Ranked], Floats],
        level: float | None,
        resampling: tuple[int, Any],
    ) -> Look:
        """Draw the curve, and a band of ``values`` of bootstrap samples at the same places."""
        check_integer("n_resamples", resampling[0])
        if level is not None:
            check_real("confidence_level", level, high=1, remedy="Pass None to draw no band.")
        ax = new_figure((5.2, 4)).subplots() if ax is None else ax
        look = Look.next_on(ax, "curve", kind, "linear")
        self.ax_, self.figure_, self.band_ = ax, ax.figure, None
        name = entry(self.name or f"Model {look.number + 1}")
        self.line_ = _artists.line(ax, *xy, look, f"{name}{label}")
        self.line_.set_clip_on(True)
        if level is not None and self.rows is not None:
            low, high = bootstrap_band(self.rows, values, level, *resampling)
            self.band_ = _artists.band(ax, (xy[0], low, high), look, level, "confidence band")
        return look
