"""Bars of the segments with the largest gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skcalib._input.parameters import check_integer
from skcalib._output import counted, drawing
from skcalib._typing import ArrayLike, Kind

from ._segments import MulticalibrationResult, multicalibration_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer, ErrorbarContainer


class SegmentDisplay(drawing.ModelDisplay):
    """Segments of the rows with the largest standardized gaps, the largest gap on top.

    A bar is the mean score minus the event rate in a segment, for the range of scores with the
    largest gap in standard deviations. Bars to the right mean that scores are too high. Below the
    name are the range and the number of rows. Intervals are simultaneous, see
    :func:`skcalib.conditional.multicalibration_error`: if the model is calibrated, all of them
    contain 0 with a probability of 95 %. Bars with an interval that contains 0 are pale.

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
        Figure that contains the axes.
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
        cls, estimator: Any, X: ArrayLike, y: ArrayLike, *, features: Any = None, **params: Any
    ) -> Self:
        """Draw the worst segments for a fitted classifier.

        Parameters
        ----------
        estimator, X, y
            As for :meth:`skcalib.ReliabilityDisplay.from_estimator`.
        features : array-like or data frame of shape (n_samples, n_columns), default=None
            Features that define the segments; by default X.
        **params
            ``response_method`` and ``name`` as for
            :meth:`skcalib.ReliabilityDisplay.from_estimator`, and all other parameters of
            :meth:`from_predictions`, except ``labels``.

        Returns
        -------
        SegmentDisplay
            With the bars drawn.

        Raises
        ------
        ValueError
            As :meth:`from_predictions`, and for an estimator without the ``response_method``.
        """
        features = X if features is None else features
        return super().from_estimator(estimator, X, y, features=features, **params)

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
        groups: ArrayLike | None = None,
        n_resamples: int = 999,
        confidence_level: float = 0.95,
        random_state: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
        n_segments: int = 10,
        color: Any = None,
    ) -> Self:
        """Draw the worst segments for labels, probabilities and features.

        Parameters
        ----------
        y_true, y_proba, features, categorical_features, pairs, kind, sample_weight, labels, \
pos_label, groups, n_resamples, confidence_level, random_state
            As for :func:`skcalib.conditional.multicalibration_error`.
        name : str, default=None
            Title, with the p-value.
        ax, n_segments, color
            As for :meth:`plot`.

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
            groups=groups, n_resamples=n_resamples, confidence_level=confidence_level,
            random_state=random_state,
        )  # fmt: skip
        return cls(result, name=name).plot(ax, n_segments=n_segments, color=color)

    def plot(self, ax: Axes | None = None, *, n_segments: int = 10, color: Any = None) -> Self:
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; by default a new figure.
        n_segments : int, default=10
            The largest number of segments.
        color : matplotlib colour, default=None
            Colour for the bars; by default the first colour in the current style.

        Returns
        -------
        SegmentDisplay
            The display itself, with the attributes that end in an underscore set.

        Raises
        ------
        ValueError
            If ``n_segments`` is not an integer of at least 1.
        """
        from matplotlib.colors import to_rgba

        check_integer("n_segments", n_segments)
        r, n = self.result, min(n_segments, len(self.result.segment))
        ax = self._prepare(ax, (6.4, 1.1 + 0.42 * n), legend=False)
        gap, low, high = r.gap[:n], r.low[:n], r.high[:n]
        full = to_rgba("C0" if color is None else color)
        contains_zero = (low <= 0) & (high >= 0)
        colours = [(*full[:3], 0.3) if pale else full for pale in contains_zero]
        position = np.arange(n)
        self.bars_ = ax.barh(position, gap, 0.62, color=colours, edgecolor=full, linewidth=0.8)
        ends = np.abs(np.array([low, high]) - gap)
        look: Any = {"ecolor": drawing.foreground(ax), "elinewidth": 1.2, "capsize": 2.5}
        self.intervals_ = ax.errorbar(gap, position, xerr=ends, fmt="none", **look)
        ax.axvline(0, color=drawing.foreground(ax), linewidth=0.8)
        ax.set_ylim(n - 0.4, -0.6)
        # The names leave little width below the axes: the label ends with the axes.
        ax.set_xlabel("Mean score minus event rate", loc="right")
        ax.set_yticks(position, [self._describe(k) for k in range(n)], fontsize="small")
        ax.tick_params(axis="y", length=0)
        drawing.draw_as_written(*ax.get_yticklabels())
        if self.name is not None:
            drawing.draw_title(ax, f"{self.name} (p = {r.pvalue:.3g})")
        return self

    def _describe(self, k: int) -> str:
        """Return the name of a segment, and in a second line its scores and number of rows."""
        r = self.result
        name = r.segment[k] if r.label is None else f"{r.label[k]}: {r.segment[k]}"
        name = name if len(name) <= 40 else f"{name[:28]}\N{HORIZONTAL ELLIPSIS}{name[-11:]}"
        low = 0 if r.lower[k] <= r.upper[k] / 1000 else r.lower[k]
        return f"{name}\n{low:.2g}\N{EN DASH}{r.upper[k]:.2g}, {counted(r.n_samples[k], 'row')}"

    def _summary(self) -> str:
        r = self.result
        return f"largest gap {r.statistic:.1f} standard deviations, p = {r.pvalue:.3g}, {r.worst}"
