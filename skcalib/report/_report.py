"""Report of a calibrator: diagrams and measures before and after calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from skcalib._engine.array_api import on_host
from skcalib._engine.blocks import both_columns
from skcalib._engine.memory import MemoryRows
from skcalib._scores.proper import brier_scores, log_losses
from skcalib._typing import Array, Floats
from skcalib._validation.labels import as_labels, encode
from skcalib._validation.weights import check_weights
from skcalib.display import ConfidenceDisplay, ReliabilityDisplay, TemperatureSweepDisplay
from skcalib.display._axes import new_figure
from skcalib.display._sweep import sweep_of
from skcalib.metrics import expected_calibration_error, maximum_calibration_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

__all__ = ["calibration_report"]


class _Evaluation(NamedTuple):
    """Labels, weights and settings with which probabilities are evaluated."""

    y: Array
    w: Floats | None
    classes: Array
    n_bins: int

    @property
    def keywords(self) -> dict[str, Any]:
        """Arguments of measures and displays."""
        return {"sample_weight": self.w, "labels": self.classes, "n_bins": self.n_bins}

    def measures(self, P: Floats) -> dict[str, float]:
        """The measures of the table, by name."""
        index = encode(self.y, self.classes)
        return {
            "log loss": self._mean(log_losses(P, index)),
            "Brier": self._mean(brier_scores(P, index)),
            "ECE": expected_calibration_error(self.y, P, **self.keywords),
            "MCE": maximum_calibration_error(self.y, P, **self.keywords),
            "accuracy": self._mean(P.argmax(axis=1) == index),
        }

    def _mean(self, values: Array) -> float:
        return float(np.average(values, weights=self.w))


def calibration_report(
    calibrator: Any,
    logits: ArrayLike,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    name: str | None = None,
    figure: Figure | SubFigure | None = None,
    n_bins: int = 15,
) -> Figure | SubFigure:
    r"""Draw diagrams and measures before and after calibration in one figure.

    The figure has reliability diagrams and histograms of the confidence, before and after; log loss
    and ECE of the logits as functions of a temperature, with the log loss of the calibrator as a
    horizontal line; and a table of measures. Its Brier score is that of scikit-learn, with half of
    the sum over the classes if there are two,

    .. math:: \frac{1}{N h} \sum_i w_i \sum_k (\hat p_{ik} - 1[y_i = k])^2 ,
        \qquad h = 2 \text{ for two classes, else } 1 ,

    with N the sum of the weights.

    Parameters
    ----------
    calibrator : calibrator
        Any fitted calibrator.
    logits : array-like of shape (n_samples, n_classes) or (n_samples, 1)
        Logits of held-out rows, which neither classifier nor calibrator was fitted on.
    y : array-like of shape (n_samples,)
        Labels.
    sample_weight : array-like of shape (n_samples,), default=None
        A weight of 2 is the row twice, a weight of 0 the row absent.
    name : str, default=None
        Name of the calibrator; by default the name of its class.
    figure : matplotlib Figure or SubFigure, default=None
        Where to draw; by default a new figure. About 10 by 8 inches with
        ``layout="constrained"`` suit the report.
    n_bins : int, default=15
        Number of bins of all diagrams and measures.

    Returns
    -------
    matplotlib Figure or SubFigure
        With the drawing.

    Raises
    ------
    ValueError
        If logits, labels or weights are invalid, ``n_bins`` is not an integer of at least 1, or
        ``calibrator`` is not fitted to logits, such as a classifier of features.
    NotFittedError
        If the calibrator is not fitted.

    Warns
    -----
    ConvergenceWarning
        If no temperature minimizes the log loss on these rows, as ``fit`` of
        :class:`~skcalib.TemperatureScaling`.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", ICML 2017,
       `arXiv:1706.04599 <https://arxiv.org/abs/1706.04599>`_, figures 1 and 4.

    Examples
    --------
    >>> from skcalib import VectorScaling, calibration_report
    >>> from skcalib.datasets import load_digits_logits
    >>> digits = load_digits_logits()
    >>> calibrator = VectorScaling().fit(digits.logits_calibration, digits.y_calibration)
    >>> figure = calibration_report(calibrator, digits.logits_test, digits.y_test)
    >>> len(figure.axes)
    7
    """
    _check_figure(figure)
    # First, because it checks logits and labels.
    sweep, reference = sweep_of(calibrator, logits, y, sample_weight, n_bins=n_bins)
    after, logits, y = map(on_host, (calibrator.predict_proba(logits), logits, y))
    Z = both_columns(check_array(logits, dtype=[np.float64, np.float32], ensure_all_finite=False))
    before = MemoryRows(Z).map(lambda z: softmax(z, axis=1))
    w = check_weights(sample_weight, len(Z))
    check_consistent_length(y, Z)
    rows = _Evaluation(column_or_1d(as_labels(y)), w, on_host(calibrator.classes_), n_bins)
    measures = rows.measures(before), rows.measures(after)
    name = type(calibrator).__name__ if name is None else name
    if figure is None:
        figure = new_figure((10, 8))
    grid = figure.add_gridspec(2, 3, height_ratios=(1.55, 1), width_ratios=(1, 1, 1.05))
    histograms = []
    for column, (title, P) in enumerate([("Before", before), (name, after)]):
        diagram, histogram = (figure.add_subplot(grid[row, column]) for row in range(2))
        ReliabilityDisplay.from_predictions(rows.y, P, **rows.keywords, name=title, ax=diagram)
        ConfidenceDisplay.from_predictions(rows.y, P, **rows.keywords, ax=histogram)
        histograms.append(histogram)
    for ax in histograms:
        ax.set_ylim(0, max(ax.get_ylim()[1] for ax in histograms))
    panels: Any = grid[0, 2].subgridspec(2, 1).subplots(sharex=True)
    TemperatureSweepDisplay(*sweep, reference=reference, name=name).plot(panels)
    panels[0].set_title("Logits divided by T")
    _table(figure.add_subplot(grid[1, 2]), *measures)
    return figure


def _check_figure(figure: Any) -> None:
    if figure is not None and not hasattr(figure, "add_gridspec"):
        raise ValueError(
            f"figure must be a matplotlib Figure or SubFigure, got {type(figure).__name__}. Pass "
            "ax.figure, or None for a new figure."
        )


def _table(ax: Axes, before: dict[str, float], after: dict[str, float]) -> None:
    lines = [f"{'':9}{'before':>9}{'after':>9}", ""]
    lines += [f"{key:9}{before[key]:9.4f}{after[key]:9.4f}" for key in before]
    ax.text(
        0.5, 0.5, "\n".join(lines), family="monospace", ha="center", va="center", linespacing=1.5
    )
    ax.set_axis_off()
