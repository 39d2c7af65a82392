"""Pictures of a report: its figure, and vector graphics of the page with texts for them."""

from __future__ import annotations

import copy
import io
import re
from base64 import b64encode
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element

import numpy as np

from skcalib import clinical, conditional, display, metrics
from skcalib._output import briefly, written
from skcalib._output.drawing import draw_title
from skcalib._output.html import element
from skcalib.metrics._input import Kind
from skcalib.metrics._proper_scores import brier_scores, log_losses

from ._measures import Evaluation, short
from ._results import Results, View

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

# The grid of classes, and the bars of segments, have at most so many.
GRID, BARS = 9, 8

# Letters are paths, since fonts differ from machine to machine. The salt gives elements the same
# names each time.
_SETTINGS: dict[str, Any] = {"svg.fonttype": "path", "svg.hashsalt": "skcalib", "font.size": 10}

# The settings of matplotlib are those of all threads: two that change and restore them at the same
# time would leave those of the pictures behind.
_LOCK = Lock()

_NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))

# The digits of coordinates beyond a hundredth of a point, which are a tenth of a picture; the scale
# of letters, such as 0.015625, stays as it is.
_DIGITS = re.compile(r"(scale\([^)]*\))|(?<=\d\.\d\d)\d+")

# Names of rectangles that clip, which depend on the last digits of the layout: these are not the
# same each time.
_CLIPS = re.compile(r"\bp[0-9a-f]{10}\b")


def figure_of(results: Results, figure: Figure | SubFigure | None) -> Figure | SubFigure:
    """The figure of a report, a new one by default: diagrams, histograms, sweep and a table."""
    if figure is None:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=(10, 8), layout="constrained")
    # Upright figures have less room for three diagrams side by side than on top of each other.
    if is_upright := bool(figure.bbox.width < figure.bbox.height):
        grid = figure.add_gridspec(3, 2, height_ratios=(2.4, 0.9, 1))
        at_sweep, at_table = grid[2, 0], grid[2, 1]
    else:
        grid = figure.add_gridspec(2, 3, height_ratios=(1.55, 1), width_ratios=(1, 1, 1.05))
        at_sweep, at_table = grid[0, 2], grid[1, 2]
    rows, histograms = results.rows, []
    for column, view in enumerate(results.views):
        diagram, histogram = (figure.add_subplot(grid[row, column]) for row in range(2))
        display.ReliabilityDisplay.from_predictions(
            rows.y, view.P, **rows.of_kind, name=view.title, ax=diagram
        )
        display.ConfidenceDisplay.from_predictions(rows.y, view.P, **rows.of_kind, ax=histogram)
        histograms.append(histogram)
    for ax in histograms:
        ax.set_ylim(0, max(ax.get_ylim()[1] for ax in histograms))
    panels: Any = (
        figure.add_subplot(at_sweep)
        if is_upright
        else at_sweep.subgridspec(2, 1).subplots(sharex=True)
    )
    draw_title(results.sweep.plot(panels).ax_, "Logits divided by T")
    _draw_table(figure.add_subplot(at_table), results)
    return figure


def _draw_table(ax: Any, results: Results) -> None:
    """The measures that take no time, in letters as large as there is room for."""
    rows = results.rows
    before, after = (
        {
            "log loss": rows.mean(log_losses(P, rows.index)),
            "Brier": rows.mean(brier_scores(P, rows.index)),
            "ECE": metrics.expected_calibration_error(rows.y, P, **rows.of_kind),
            "MCE": metrics.maximum_calibration_error(rows.y, P, **rows.of_kind),
            "accuracy": rows.mean(P.argmax(axis=1) == rows.index),
        }
        for P in (rows.before, rows.after)
    )
    lines = [f"{'':9}{'before':>9}{'after':>9}", ""]
    lines += [f"{key:9}{written(before[key]):>9}{written(after[key]):>9}" for key in before]
    room = 72 * ax.get_window_extent().width / ax.figure.dpi / (0.62 * len(lines[0]))
    ax.text(
        0.5, 0.5, "\n".join(lines), family="monospace", ha="center", va="center", linespacing=1.5,
        fontsize=min(10, max(room, 7)),
    )  # fmt: skip
    ax.set_axis_off()


def as_image(figure: Figure) -> str:
    """An address that holds a figure as SVG, without indentation."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata=_NO_METADATA)
    svg = file.getvalue()
    lines = svg[svg.index("<svg") :].splitlines()
    shorter = _DIGITS.sub(lambda found: found[1] or "", "\n".join(map(str.strip, lines)))
    names: dict[str, str] = {}
    shorter = _CLIPS.sub(lambda found: names.setdefault(found[0], f"p{len(names)}"), shorter)
    return f"data:image/svg+xml;base64,{b64encode(shorter.encode()).decode()}"


def drawn(draw: Callable[[Figure], Any], size: tuple[float, float]) -> str:
    """The address of a picture in the colours of the page and not in those of the style in use."""
    from matplotlib import style
    from matplotlib.figure import Figure

    with _LOCK, style.context(["default", _SETTINGS]):  # restores the settings in use
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        return as_image(figure)


def picture(
    draw: Callable[[Figure], Any], size: tuple[float, float], alt: str, caption: str
) -> Element:
    """A figure of a page. ``draw`` is called with a figure of a size in inches."""
    width, height = (round(96 * inches) for inches in size)
    return element(
        "figure",
        element("img", src=drawn(draw, size), alt=alt, width=width, height=height),
        element("figcaption", caption),
    )


def reliability(results: Results) -> list[Element]:
    """Reliability diagrams before and after side by side, and smooth ones in one diagram."""
    rows, (before, after, _) = results.rows, results.measures_["smooth ECE"]

    def draw(figure: Figure) -> None:
        ax = figure.subplots()
        for view in results.views:
            display.ReliabilityDisplay.from_predictions(
                rows.y, view.P, **rows.of_kind, style="smooth", name=view.title, ax=ax
            )

    smooth = picture(
        draw,
        (5.6, 6.0),
        "Smooth reliability curves: the smooth calibration error is "
        f"{written(before.estimate)} before calibration and {written(after.estimate)} after "
        f"calibration by {results.name}.",
        "Smooth curves of the observed frequency before and after calibration, without bins. A "
        "line is as thick as its rows are dense, and the shaded area is where the curve of a "
        "calibrated model would lie in 95% of samples.",
    )
    return [_pair(results, _reliability, rows.kind), smooth]


def _pair(results: Results, draw: Callable[..., Element], *args: Any) -> Element:
    """Two figures, before and after, side by side where there is room."""
    figures = [draw(results.rows, view, *args) for view in results.views]
    return element("div", figures, class_="pair")


def _reliability(rows: Evaluation, view: View, kind: Kind) -> Element:
    """The diagram of the top label, or of the second of two classes."""
    params: Any = {**rows.keywords, "kind": kind}
    curve = metrics.reliability_curve(rows.y, view.P, **params)
    error = metrics.expected_calibration_error(rows.y, view.P, **params)
    if kind == "binary":
        label = short(rows.classes[1])
        what = f"Reliability diagram of the probability of {label}"
        bins = described(curve, "mean", "frequency")
        caption = (
            f"frequency of the label {label} by its predicted probability, with 95% intervals. The "
            "area above shows how many rows each bin holds."
        )
    else:
        what, bins = "Reliability diagram", described(curve, "confidence", "accuracy")
        caption = (
            "accuracy of each bin of the confidence, with 95% intervals, and its gap to the mean "
            "confidence of the bin. The area above shows how many rows each bin holds."
        )
    return picture(
        lambda figure: display.ReliabilityDisplay.from_predictions(
            rows.y, view.P, **params, name=view.title, ax=figure.subplots()
        ),
        (4.6, 5.2),
        f"{what}, {view.when}: ECE {written(error)}. {bins}",
        f"{view.heading}: {caption}",
    )


def described(curve: metrics.ReliabilityCurve, confidence: str, accuracy: str) -> str:
    """The bins in words."""
    gap, n = curve.gap, int(curve.n_samples.sum())
    largest, fullest = int(np.argmax(np.abs(gap))), int(np.argmax(curve.weight))
    return (
        f"{n:,} rows in {len(gap)} bins; in {np.count_nonzero(gap > 0)} of them the {confidence} "
        f"exceeds the {accuracy}. The bin with the most rows, {curve.n_samples[fullest]:,.0f}, has "
        f"{confidence} {briefly(curve.confidence[fullest])} and {accuracy} "
        f"{briefly(curve.accuracy[fullest])}; the largest gap, of a bin with "
        f"{curve.n_samples[largest]:,.0f}, is between {confidence} "
        f"{briefly(curve.confidence[largest])} and {accuracy} {briefly(curve.accuracy[largest])}."
    )


def confidence(results: Results) -> Element:
    """Histograms of the score before and after, with the same scale."""
    rows = results.rows
    curves = [metrics.reliability_curve(rows.y, view.P, **rows.of_kind) for view in results.views]
    top = min(1.0, 1.05 * max(np.max(curve.weight / curve.weight.sum()) for curve in curves))
    return _pair(results, _histogram, top)


def _histogram(rows: Evaluation, view: View, top: float) -> Element:
    curve = metrics.reliability_curve(rows.y, view.P, **rows.of_kind)
    share = curve.weight / curve.weight.sum()
    fullest = int(np.argmax(share))
    score, frequency = "confidence", "accuracy"
    if rows.kind == "binary":
        score, frequency = "predicted probability", "observed frequency"

    def draw(figure: Figure) -> None:
        ax = figure.subplots()
        display.ConfidenceDisplay.from_predictions(
            rows.y, view.P, **rows.of_kind, name=view.title, ax=ax
        )
        ax.set_ylim(0, top)

    return picture(
        draw,
        (4.6, 3.2),
        f"Histogram of the {score}, {view.when}: mean {briefly(share @ curve.confidence)}, "
        f"{frequency} {briefly(share @ curve.accuracy)}; {share[fullest]:.1%} of the rows have a "
        f"{score} between {briefly(curve.lower[fullest])} and {briefly(curve.upper[fullest])}.",
        f"{view.heading}: {score} of the rows, its mean, and the {frequency}.",
    )


def decision_curves(results: Results) -> Element:
    """Net benefit before and after, at thresholds up to the highest risks."""
    rows = results.rows
    highest = float(np.quantile(rows.after[:, 1], 0.99))
    t = np.linspace(0, min(max(highest, 1e-3), 0.99), 101)[1:]
    curves = [
        clinical.net_benefit_curve(rows.y, view.P, thresholds=t, **rows.of_rows)
        for view in results.views
    ]

    def draw(figure: Figure) -> None:
        ax = figure.subplots()
        for view, curve in zip(results.views, curves, strict=True):
            clinical.NetBenefitDisplay(curve, name=view.title).plot(ax)

    at = int(np.argmin(np.abs(t - rows.mean(rows.index == 1))))  # where treating all is worth 0
    before, after = (curve.net_benefit[at] for curve in curves)
    return picture(
        draw,
        (5.6, 4.6),
        f"Decision curves: at a threshold of {t[at]:.4f}, the nearest to the event rate, the net "
        f"benefit is {before:.4f} before and {after:.4f} after calibration, and "
        f"{curves[0].treat_all[at]:.4f} if everyone is treated.",
        "Net benefit of treating rows whose risk is at least the threshold, in true positives per "
        "row: a model is of use at the thresholds where it is above both treating everyone and "
        "treating none.",
    )


def sweep(results: Results) -> Element:
    """Log loss and ECE by temperature."""
    shown = results.sweep
    T, losses, errors = shown.temperatures, shown.log_loss, shown.expected_calibration_error
    at_one, lowest = int(np.argmin(np.abs(T - 1))), int(np.argmin(losses))
    return picture(
        # A display of its own, since one keeps the artists that it drew.
        lambda figure: copy.copy(shown).plot(figure.subplots(2, 1, sharex=True)),
        (6.4, 5.0),
        "Log loss and ECE of the logits divided by a temperature T: at T = 1 the log loss is "
        f"{written(losses[at_one])} and the ECE {written(errors[at_one])}; the log loss is lowest, "
        f"{written(losses[lowest])}, at T = {T[lowest]:.3g}, where the ECE is "
        f"{written(errors[lowest])}. {shown.name} has a log loss of {shown.reference:.4f}.",
        "Log loss and ECE of the logits divided by a temperature, and the log loss of the "
        "calibrator as a line. The best temperature is that of these rows, chosen after the fact.",
    )


def classes(results: Results) -> Element:
    """Diagrams of the classes with the largest ECE, or of the top label of two classes."""
    rows = results.rows
    if rows.kind == "binary":
        return _pair(results, _reliability, "top-label")
    chosen, errors = results.worst(GRID), results.by_class_["ece_after"]

    n = int(np.ceil(np.sqrt(len(chosen))))
    each = ", ".join(f"{short(rows.classes[k])} {written(errors[k])}" for k in chosen)
    return picture(
        lambda figure: display.ReliabilityDisplay.from_predictions(
            rows.y,
            rows.after,
            **{**rows.keywords, "kind": "classwise"},
            subset=rows.classes[list(chosen)],
            ax=figure.subplots(-(-len(chosen) // n), n, squeeze=False),
        ),
        (max(2.7 * n, 4.5), 3.2 * -(-len(chosen) // n) + 0.8),
        "Reliability diagrams of the predicted probability of classes, after calibration, with "
        f"their ECE: {each}.",
        f"After calibration: the {len(chosen)} classes with the largest ECE of their predicted "
        "probability.",
    )


def segments(results: Results) -> Element:
    """Bars of the worst segments before and after, with one scale."""
    found = results.segments_ or ()
    ends = [end[:BARS] for of in found for end in (of.low, of.high)]
    low, high = float(min(map(np.min, ends))), float(max(map(np.max, ends)))
    margin = 0.05 * (high - low)

    def bars(_: Evaluation, view: View, of: conditional.MulticalibrationResult) -> Element:
        def draw(figure: Figure) -> None:
            bars = conditional.SegmentDisplay(of, name=view.title)
            ax = bars.plot(figure.subplots(), n_segments=BARS).ax_
            ax.set_xlim(low - margin, high + margin)

        n = min(BARS, len(of.segment))
        alt = f"The {n} worst segments {view.when}. {short(of.worst)}."
        return picture(draw, (4.6, 1.2 + 0.42 * n), alt, f"{view.heading}: the worst segments.")

    pairs = zip(results.views, found, strict=True)
    return element("div", [bars(results.rows, *pair) for pair in pairs], class_="pair")


def plane(results: Results) -> Element:
    """Calibration loss and gain over the base rates of all classes before and after."""
    rows = results.rows
    of_rows: Any = {**rows.of_rows, "kind": "classwise"}
    models = {"Before": rows.before, "After": rows.after}
    found = {name: metrics.score_decomposition(rows.y, P, **of_rows) for name, P in models.items()}
    shown = metrics.ScoreDecompositionDisplay(found, score="log_loss")
    parts = "; ".join(
        f"{name.lower()} calibration a calibration loss of {written(d.miscalibration)} and a gain "
        f"over the base rates of {written(d.discrimination)}"
        for name, d in shown.decompositions.items()
    )
    return picture(
        lambda figure: copy.copy(shown).plot(figure.subplots(), arrows=[("Before", "After")]),
        (5.6, 4.6),
        f"Decomposition of the log loss of the classes: {parts}.",
        "Log loss of the probability of each class, as a mean over the classes: what recalibration "
        "could still remove, and the gain over the base rates. Calibration moves to the left; "
        "models at the upper left are the best.",
    )
