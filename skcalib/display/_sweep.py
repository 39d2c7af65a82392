"""Log loss and ECE as functions of the temperature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.special import softmax
from sklearn.utils import column_or_1d

from skcalib._fits import fit_to_rows
from skcalib._input.arrays import check_in_memory, on_host
from skcalib._input.estimators import check_takes_logits, features_argument
from skcalib._input.labels import as_labels, encode
from skcalib._input.logits import check_weights
from skcalib._input.measures import Scored, check_measure
from skcalib._input.rows import check_fit, check_not_swapped
from skcalib._output import briefly, drawing
from skcalib._typing import ArrayLike, Floats, NBins
from skcalib._warnings import ColumnOrderWarning, ignored
from skcalib.base import both_columns
from skcalib.metrics._proper_scores import log_losses
from skcalib.scaling import TemperatureScaling

from ._artists import legend_handles
from ._curves import bin_error, bin_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


class TemperatureSweepDisplay(drawing.Display):
    r"""Log loss and ECE as functions of the temperature that divides the logits.

    For each temperature T the probabilities are :math:`\mathrm{softmax}(z / T)`. Vertical lines
    mark T = 1, the uncalibrated logits, and the temperature that minimizes the log loss, by
    :class:`~skcalib.TemperatureScaling` on these rows. The ECE often has its minimum elsewhere,
    shown by a marker, and it is discontinuous, because rows move from bin to bin.

    Use :meth:`from_estimator`, :meth:`from_logits` or :meth:`from_predictions` to create a display.

    Parameters
    ----------
    temperatures : ndarray of shape (n,)
        The temperatures.
    log_loss, expected_calibration_error : ndarray of shape (n,)
        Log loss and ECE at the temperatures.
    best_temperature : float
        The temperature with the lowest log loss.
    reference : float, default=None
        Another calibrator's log loss, drawn as a horizontal line.
    name : str, default=None
        Name of the other calibrator.

    Attributes
    ----------
    axes_ : list of matplotlib Axes
        Axes with the log loss, and with the ECE.
    ax_ : matplotlib Axes
        The axes with the log loss.
    figure_ : matplotlib Figure
        Figure that contains the axes.
    log_loss_line_, ece_line_ : matplotlib Line2D
        The curves.
    ece_minimum_ : matplotlib Line2D
        Marker at the lowest ECE.
    start_lines_, best_lines_ : list of matplotlib Line2D
        Vertical lines at T = 1 and at the best temperature, in each panel.
    reference_line_ : matplotlib Line2D or None
        The other calibrator's log loss.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", ICML 2017,
       `arXiv:1706.04599 <https://arxiv.org/abs/1706.04599>`_, section 4.2.

    Examples
    --------
    >>> from skcalib import TemperatureSweepDisplay
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(2000, 3, temperature=2.0, random_state=0)
    >>> display = TemperatureSweepDisplay.from_logits(logits, y)
    >>> round(display.best_temperature, 1)
    2.0
    """

    axes_: list[Axes]
    log_loss_line_: Line2D
    ece_line_: Line2D
    ece_minimum_: Line2D
    start_lines_: list[Line2D]
    best_lines_: list[Line2D]
    reference_line_: Line2D | None

    def __init__(
        self,
        temperatures: Floats,
        log_loss: Floats,
        expected_calibration_error: Floats,
        best_temperature: float,
        *,
        reference: float | None = None,
        name: str | None = None,
    ) -> None:
        self.temperatures = temperatures
        self.log_loss = log_loss
        self.expected_calibration_error = expected_calibration_error
        self.best_temperature = best_temperature
        self.reference = reference
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        calibrator: Any,
        X: ArrayLike,
        y: ArrayLike,
        *,
        temperatures: ArrayLike | None = None,
        n_bins: NBins = 15,
        sample_weight: ArrayLike | None = None,
        features: Any = None,
        name: str | None = None,
        ax: Axes | Sequence[Axes] | None = None,
        legend: bool | str = True,
    ) -> Self:
        """Draw the sweep for logits, with a fitted calibrator's log loss.

        Parameters
        ----------
        calibrator : calibrator
            Any fitted calibrator. Its log loss is a horizontal line.
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Held-out logits.
        y : array-like of shape (n_samples,)
            Labels.
        temperatures, n_bins, sample_weight
            As for :meth:`from_logits`.
        features : array-like or data frame of shape (n_samples, n_columns), default=None
            Features per row, if the calibrator needs ``features``.
        name : str, default=None
            Calibrator name; by default the name of its class.
        ax, legend
            As for :meth:`plot`.

        Returns
        -------
        TemperatureSweepDisplay
            With the sweep drawn.

        Raises
        ------
        ValueError
            As :meth:`from_logits`, and if an estimator was not fitted to logits, such as a
            classifier of features.
        """
        check_takes_logits(calibrator)
        check_in_memory((X, y, sample_weight))
        check_not_swapped(y=y, X=X)
        classes = on_host(calibrator.classes_)
        P = on_host(calibrator.predict_proba(X, **features_argument(calibrator, features)))
        sweep = _sweep(X, y, sample_weight, classes, n_bins, temperatures)
        losses = log_losses(P, encode(column_or_1d(as_labels(y)), classes))
        reference = float(np.average(losses, weights=check_weights(sample_weight, len(P))))
        name = drawing.name_of(name, calibrator)
        return cls(*sweep, reference=reference, name=name).plot(ax, legend=legend)

    @classmethod
    def from_logits(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        *,
        temperatures: ArrayLike | None = None,
        n_bins: NBins = 15,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        ax: Axes | Sequence[Axes] | None = None,
        legend: bool | str = True,
    ) -> Self:
        """Draw the sweep for logits and labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits, as for the calibrators.
        y : array-like of shape (n_samples,)
            Labels.
        temperatures : array-like of shape (n,), default=None
            Positive numbers. By default 1, the best temperature, and a logarithmic grid around
            both.
        n_bins : int, "cube_root" or array-like, default=15
            Bins for the ECE, as for :func:`skcalib.metrics.reliability_curve`.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.
        labels : array-like of shape (n_classes,), default=None
            All labels in column order.
        ax, legend
            As for :meth:`plot`.

        Returns
        -------
        TemperatureSweepDisplay
            With the sweep drawn.

        Raises
        ------
        ValueError
            As ``fit`` of :class:`~skcalib.TemperatureScaling`. Also if temperatures are not
            positive and finite, or bins are invalid.

        Warns
        -----
        ConvergenceWarning
            As ``fit`` of :class:`~skcalib.TemperatureScaling`, if the log loss has no minimum.
        """
        sweep = _sweep(X, y, sample_weight, labels, n_bins, temperatures)
        return cls(*sweep).plot(ax, legend=legend)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        temperatures: ArrayLike | None = None,
        n_bins: NBins = 15,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        pos_label: Any = None,
        ax: Axes | Sequence[Axes] | None = None,
        legend: bool | str = True,
    ) -> Self:
        """Draw the sweep for labels and probabilities, with their logarithms as logits.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Labels.
        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Probabilities: one column per class, ordered as ``labels``, or for two classes the
            probability of ``pos_label`` alone.
        pos_label : label, default=None
            Label for a single column of probabilities, as for
            :func:`skcalib.metrics.reliability_curve`.
        temperatures, n_bins, sample_weight, labels, ax, legend
            As for :meth:`from_logits`.

        Returns
        -------
        TemperatureSweepDisplay
            With the sweep drawn.

        Raises
        ------
        ValueError
            As :meth:`from_logits`, and if numbers are no probabilities.
        """
        check_in_memory((y_true, y_proba, sample_weight))
        rows = check_measure(y_true, y_proba, sample_weight, labels, pos_label)
        P, y, w = rows.X, rows.y, rows.w
        P = np.asarray(P, dtype=np.float64)
        P = np.column_stack([1 - P, P]) if P.ndim == 1 else P
        X = np.log(np.maximum(P, np.finfo(np.float64).tiny))
        with ignored(ColumnOrderWarning):  # check_measure has warned
            sweep = _sweep(X, rows.classes[y], w, rows.classes, n_bins, temperatures)
        return cls(*sweep).plot(ax, legend=legend)

    def _summary(self) -> str:
        loss = f"log loss {self.log_loss.min():.4g} at T = {self.best_temperature:.3g}"
        ece = briefly(self.expected_calibration_error.min())
        return f"lowest {loss}, ECE {ece} at its own best T"

    def plot(self, ax: Axes | Sequence[Axes] | None = None, *, legend: bool | str = True) -> Self:
        """Draw the sweep.

        Parameters
        ----------
        ax : matplotlib Axes or two matplotlib Axes, default=None
            Where to draw: the log loss and the ECE on two axes, or both on one, with the ECE scale
            on the right. By default two axes in a new figure, one above the other.
        legend : bool or str, default=True
            Whether to draw the legend, or a matplotlib location. By default it is above a new
            figure, and at the best location inside your axes.

        Returns
        -------
        TemperatureSweepDisplay
            The display itself, with its attributes that end in an underscore set.

        Raises
        ------
        ValueError
            If the legend's location is unknown.
        """
        drawing.check_legend(legend)
        if ax is None:
            ax = drawing.new_figure((5.2, 5)).subplots(2, 1, sharex=True)
        pair: Any = ax  # Figure.subplots returns an array of axes
        is_pair = np.shape(pair) == (2,)
        for panel in pair if is_pair else [pair]:
            drawing.check_axes(panel)
        upper, lower = pair if is_pair else (pair, pair.twinx())
        self.ax_, self.axes_, self.figure_ = upper, [upper, lower], upper.figure
        self._draw_curves()
        self._draw_temperatures([upper, lower] if is_pair else [upper])
        self._label(is_pair=is_pair)
        drawing.draw_legend(upper, legend_handles(self.axes_), legend=legend)
        return self

    def _draw_curves(self) -> None:
        """Draw both curves, a marker at the lowest ECE, and the calibrator's log loss."""
        from matplotlib.colors import to_rgba

        (upper, lower), T = self.axes_, self.temperatures
        errors = self.expected_calibration_error
        colour, k = to_rgba("C1"), int(np.argmin(errors))
        losses = self.log_loss
        (self.log_loss_line_,) = upper.plot(T, losses, color=to_rgba("C0"), label="Log loss")
        (self.ece_line_,) = lower.plot(T, errors, color=colour, label="ECE")
        (self.ece_minimum_,) = lower.plot(
            T[k], errors[k], "D", color=colour, linestyle="",
            label=f"Lowest ECE: {briefly(errors[k])} at T = {T[k]:.3g}",
        )  # fmt: skip
        self.reference_line_ = None
        if self.reference is not None:
            name = f"{self.name or 'Calibrator'}: {briefly(self.reference)}"
            self.reference_line_ = self.ax_.axhline(
                self.reference, color=to_rgba("C2"), linestyle=(0, (5, 1)),
                label=drawing.legend_label(name),
            )  # fmt: skip

    def _draw_temperatures(self, axes: Sequence[Axes]) -> None:
        # Draw the dashed line on top of the wide line: both are visible where they coincide.
        pale, dark = (drawing.foreground(axes[0], alpha) for alpha in (0.35, 1))
        start: dict[str, Any] = {"color": pale, "linewidth": 3, "label": "T = 1 (uncalibrated)"}
        best: dict[str, Any] = {
            "color": dark, "linestyle": "--", "linewidth": 1.2,
            "label": f"T = {self.best_temperature:.3g} (lowest log loss)",
        }  # fmt: skip
        self.start_lines_ = [ax.axvline(1, zorder=1.5, **start) for ax in axes]
        self.best_lines_ = [ax.axvline(self.best_temperature, zorder=1.6, **best) for ax in axes]

    def _label(self, *, is_pair: bool) -> None:
        from matplotlib.ticker import LogLocator

        upper, lower = self.axes_
        upper.set_ylabel("Log loss")
        lower.set_ylabel("ECE")
        lower.set_ylim(bottom=0)
        if not is_pair:  # scales have the colours of their curves
            upper.yaxis.label.set_color(self.log_loss_line_.get_color())
            lower.yaxis.label.set_color(self.ece_line_.get_color())
            lower.grid(visible=False)
        # Limits that contain the curves and the vertical lines.
        T, marked = self.temperatures, [1.0, self.best_temperature]
        span = min(T[0], min(marked) / 1.1), max(T[-1], max(marked) * 1.1)
        steps = (1, 2, 5) if span[1] < 20 * span[0] else (1, 3)
        for ax in self.axes_:
            ax.set(xscale="log", xlim=span)
            ax.minorticks_off()
            ax.xaxis.set_major_locator(LogLocator(subs=steps))
            ax.xaxis.set_major_formatter("{x:.7g}")
        if is_pair:
            upper.tick_params(labelbottom=False)
        (lower if is_pair else upper).set_xlabel("Temperature T")


def _sweep(
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    classes: ArrayLike | None,
    n_bins: NBins,
    temperatures: ArrayLike | None,
) -> tuple[Floats, Floats, Floats, float]:
    """Return temperatures (n,), log losses (n,), ECEs (n,), and the best temperature.

    The arguments are as for :meth:`TemperatureSweepDisplay.from_logits`.
    """
    scaling = TemperatureScaling(smoothing=0, classes=classes)
    rows = check_fit(scaling, X, y, sample_weight)[1].in_memory()
    best = float(fit_to_rows(scaling, rows).temperature_)
    T = _temperatures(temperatures, best)
    Z, label, w = both_columns(rows.X.astype(np.float64)), rows.y, rows.w
    is_binary = Z.shape[1] == 2  # the second class is the event, as in measures
    event = label == 1 if is_binary else Z.argmax(axis=1) == label
    losses, errors = np.empty_like(T), np.empty_like(T)
    for k, t in enumerate(T):
        P = softmax(Z / t, axis=1)
        # Calibrators compute probabilities in the logits' precision.
        losses[k] = np.average(log_losses(P.astype(rows.X.dtype), label), weights=w)
        scored = Scored(None, P[:, 1] if is_binary else P.max(axis=1), event, w)
        errors[k] = bin_error(bin_rows(scored, n_bins, "uniform"))
    return T, losses, errors, best


def _temperatures(temperatures: ArrayLike | None, best: float) -> Floats:
    if temperatures is None:
        low, high = min(best, 1) / 3, max(best, 1) * 3
        return np.union1d(np.geomspace(low, high, 60), [1.0, best])
    T = np.unique(np.asarray(temperatures, dtype=np.float64))
    if len(T) < 2 or not (T[0] > 0 and np.isfinite(T).all()):
        raise ValueError(
            "temperatures must hold at least two distinct positive finite numbers, got "
            f"{np.asarray(temperatures).tolist()!r}. Pass None for a grid around 1 and the best "
            "temperature."
        )
    return T
