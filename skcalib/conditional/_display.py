"""The worst segments of a model, as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skcalib._output.theme import LINE, NBSP, SMALLEST, Theme, as_written, fitted, shortened
from skcalib._rows import ArrayLike
from skcalib._validation.inputs import check_integer
from skcalib.display._layout import ModelDisplay, cell_of, draw_title, largest, make_room, size_of
from skcalib.metrics._input import Kind

from ._segments import MulticalibrationResult, multicalibration_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer, ErrorbarContainer

# Height of a bar in its row; shares of the cell that names have, and of the axes that bars have.
HEIGHT, NAMES, ROOM = 0.62, 0.4, 0.72


class SegmentDisplay(ModelDisplay):
    """The segments of the rows with the largest standardized gaps, the worst one on top.

    A bar is the mean score less the event rate of a segment, in the range of scores where this is
    largest in standard deviations: it goes to the right where scores are too high. Below the name
    are this range and the number of rows. Intervals are those of
    :func:`skcalib.conditional.multicalibration_error`, of all segments at once: if the model is
    calibrated, all of them contain 0 with a probability of 95 %. Bars whose interval contains 0
    are faint.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create a display.

    Parameters
    ----------
    result : MulticalibrationResult
        The gaps of the segments.
    name : str, default=None
        Title, with the p-value.

    Attributes
    ----------
    result : MulticalibrationResult
        The gaps of the segments.
    ax_ : matplotlib Axes
        Axes with the bars.
    figure_ : matplotlib Figure
        Figure that contains them.
    bars_ : matplotlib BarContainer
        The bars.
    intervals_ : matplotlib ErrorbarContainer
        The intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.conditional import SegmentDisplay
    >>> rng = np.random.default_rng(0)
    >>> subject, p = rng.choice(["art", "law", "music"], size=3000), rng.uniform(size=3000)
    >>> y = rng.uniform(size=3000) < np.where(subject == "law", 0.8 * p, p)
    >>> display = SegmentDisplay.from_predictions(y, p, subject)
    >>> len(display.bars_)  # all rows, and three subjects
    4
    """

    bars_: BarContainer
    intervals_: ErrorbarContainer

    def __init__(self, result: MulticalibrationResult, *, name: str | None = None) -> None:
        self.result = result
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike,
        *,
        features: Any = None,
        name: str | None = None,
        **params: Any,
    ) -> Self:
        """Draw the worst segments of a fitted classifier.

        Parameters
        ----------
        estimator : classifier
            Fitted classifier with ``predict_proba``, or a pipeline that ends with one.
        X : array-like of shape (n_samples, n_features)
            Held-out input.
        y : array-like of shape (n_samples,)
            Labels.
        features : array-like or data frame of shape (n_samples, n_columns), default=None
            Features of the rows that segments are of; by default X.
        name : str, default=None
            Title; by default the name of the estimator's class.
        **params
            Other arguments of :meth:`from_predictions`, such as ``pairs`` and ``ax``.

        Returns
        -------
        SegmentDisplay
            With the bars drawn.
        """
        of_rows = X if features is None else features
        found: Self = super().from_estimator(estimator, X, y, name=name, features=of_rows, **params)
        return found

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        features: Any,
        *,
        categorical_features: Any = "from_dtype",
        pairs: bool = False,
        kind: Kind = "auto",
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        pos_label: Any = None,
        n_resamples: int = 999,
        confidence_level: float = 0.95,
        random_state: int | np.random.RandomState | None = 0,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_params: Any,
    ) -> Self:
        """Draw the worst segments of labels, probabilities and features.

        Parameters
        ----------
        y_true, y_proba, features, categorical_features, pairs, kind, sample_weight, labels, \
pos_label, n_resamples, confidence_level, random_state
            As for :func:`skcalib.conditional.multicalibration_error`.
        name : str, default=None
            Title, with the p-value.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        **plot_params
            Passed to :meth:`plot`.

        Returns
        -------
        SegmentDisplay
            With the bars drawn.

        Raises
        ------
        ValueError
            As :func:`skcalib.conditional.multicalibration_error` and :meth:`plot`.
        """
        result = multicalibration_error(
            y_true, y_proba, features, categorical_features=categorical_features, pairs=pairs,
            kind=kind, sample_weight=sample_weight, labels=labels, pos_label=pos_label,
            n_resamples=n_resamples, confidence_level=confidence_level, random_state=random_state,
        )  # fmt: skip
        return cls(result, name=name).plot(ax, **plot_params)

    def plot(self, ax: Axes | None = None, *, n_segments: int = 10) -> Self:
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        n_segments : int, default=10
            The largest number of segments; there are fewer where they have no room.

        Returns
        -------
        SegmentDisplay
            The display itself, with the attributes that end in an underscore set.

        Raises
        ------
        ValueError
            If ``n_segments`` is not an integer of at least 1.
        """
        check_integer("n_segments", n_segments)
        n = min(n_segments, len(self.result.segment))
        ax = self._on(ax, (6.4, 1.1 + 0.42 * n))
        lines = ROOM * size_of(ax)[1] * 72 / LINE  # of letters of one point
        n = max(1, min(n, int(lines / (2 * SMALLEST))))
        gap, low, high = (getattr(self.result, name)[:n] for name in ("gap", "low", "high"))
        theme, at = Theme.of(ax), np.arange(n)
        colour = theme.model(0)
        faint = theme.mixed(colour, 0.3)
        colours = [faint if a <= 0 <= b else colour for a, b in zip(low, high, strict=True)]
        self.bars_ = ax.barh(at, gap, HEIGHT, color=colours, edgecolor=colour, linewidth=0.8)
        ends = np.abs(np.array([low, high]) - gap)
        look: Any = {"ecolor": theme.foreground, "elinewidth": 1.2, "capsize": 2.5}
        self.intervals_ = ax.errorbar(gap, at, xerr=ends, fmt="none", **look)
        ax.axvline(0, color=theme.foreground, linewidth=0.8)
        ax.set(ylim=(n - 0.4, -0.6), xlabel="Mean score less event rate")
        ax.tick_params(axis="y", length=0)
        self._draw_names(n, lines / (2 * n))
        if self.name is not None:
            title = f"{self.name} (p{NBSP}={NBSP}{self.result.pvalue:.3g})"
            draw_title(ax, title, (1 - 0.8 * NAMES) * size_of(ax)[0])
        make_room(ax)
        return self

    def _summary(self) -> str:
        r = self.result
        return f"largest gap {r.statistic:.1f} standard deviations, p = {r.pvalue:.3g}, {r.worst}"

    def _draw_names(self, n: int, most: float) -> None:
        """Names of segments, with their range of scores and number of rows in a second line."""
        width, r = NAMES * cell_of(self.ax_)[0], self.result
        names = list(r.segment)
        if r.label is not None:
            names = [f"{label}: {name}" for label, name in zip(r.label, names, strict=True)]
        lower = np.where(r.lower > r.upper / 1000, r.lower, 0)
        sizes = [
            f"{lower[k]:.2g}\N{EN DASH}{r.upper[k]:.2g}, {r.n_samples[k]:,} rows" for k in range(n)
        ]
        size = min(
            fitted(text, width, min(largest(), max(most, SMALLEST)))[1]
            for text in [*sizes, *names[:n]]
        )
        lines = [f"{shortened(names[k], width, size)}\n{sizes[k]}" for k in range(n)]
        self.ax_.set_yticks(np.arange(n), lines, fontsize=size)
        as_written(*self.ax_.get_yticklabels())
