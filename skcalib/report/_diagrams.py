"""The pictures of a report, each with a text for those who do not see it."""

import copy
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from skcalib._output.html import element
from skcalib._rows.arrays import Floats
from skcalib._scores.columns import Scored
from skcalib.display import (
    ConfidenceDisplay,
    ReliabilityDisplay,
    ReliabilityGridDisplay,
    ScoreDecompositionDisplay,
    TemperatureSweepDisplay,
)
from skcalib.display._axes import curve_of_rows
from skcalib.metrics import (
    ReliabilityCurve,
    expected_calibration_error,
    reliability_curve,
    score_decomposition,
    smooth_calibration_error,
)
from skcalib.report._evaluation import short, worst

from ._evaluation import Evaluation
from ._pictures import picture
from ._results import Results

DIAGRAM, HISTOGRAM, SWEEP = (4.6, 5.2), (4.6, 3.2), (6.4, 5.0)
SMOOTH, PLANE = (5.6, 6.0), (5.6, 4.6)

# The grid of classes has at most so many.
GRID = 9


def pair(*figures: Element) -> Element:
    """Two figures side by side where there is room."""
    return element("div", figures, class_="pair")


def reliability(results: Results) -> Element:
    """Reliability diagrams before and after."""
    rows = results.rows
    return pair(*(_reliability(rows, P, title) for P, title in results.both))


def _reliability(rows: Evaluation, P: Floats, title: str) -> Element:
    curve = reliability_curve(rows.y, P, **rows.keywords)
    error = expected_calibration_error(rows.y, P, **rows.keywords)

    def draw(figure: Any) -> None:
        ReliabilityDisplay.from_predictions(
            rows.y, P, **rows.keywords, name=title, ax=figure.subplots()
        )

    return picture(
        draw,
        DIAGRAM,
        alt=f"Reliability diagram, {_when(title)}: ECE {error:.4f}. {described(curve)}",
        caption=(
            f"{_heading(title)}: accuracy of each bin of the confidence, with 95% intervals, and "
            "its gap to the mean confidence of the bin. The area above shows how many rows each "
            "bin holds."
        ),
    )


def smooth(results: Results) -> Element:
    """Smooth reliability curves before and after in one diagram."""
    rows = results.rows
    errors = [smooth_calibration_error(rows.y, P, **rows.of_rows) for P, _ in results.both]

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        for P, title in results.both:
            ReliabilityDisplay.from_predictions(
                rows.y, P, **rows.keywords, style="smooth", name=title, ax=ax
            )

    return picture(
        draw,
        SMOOTH,
        alt=(
            "Smooth reliability curves: the smooth calibration error is "
            f"{errors[0]:.4f} before calibration and {errors[1]:.4f} after calibration by "
            f"{results.name}."
        ),
        caption=(
            "Smooth curves of the accuracy before and after calibration, without bins. A line is "
            "as thick as its rows are dense, and the shaded area is where the curve of a "
            "calibrated model would lie in 95% of samples."
        ),
    )


def described(curve: ReliabilityCurve) -> str:
    """The bins in words."""
    gap, n = curve.gap, int(curve.n_samples.sum())
    largest, fullest = int(np.argmax(np.abs(gap))), int(np.argmax(curve.weight))
    return (
        f"{n:,} rows in {len(gap)} bins; in {np.count_nonzero(gap > 0)} of them the confidence "
        f"exceeds the accuracy. The bin with the most rows, {curve.n_samples[fullest]:,.0f}, has "
        f"confidence {curve.confidence[fullest]:.3f} and accuracy {curve.accuracy[fullest]:.3f}; "
        f"the largest gap, of a bin with {curve.n_samples[largest]:,.0f}, is between confidence "
        f"{curve.confidence[largest]:.3f} and accuracy {curve.accuracy[largest]:.3f}."
    )


def confidence(results: Results) -> Element:
    """Histograms of the confidence before and after, with the same scale."""
    rows = results.rows
    curves = [reliability_curve(rows.y, P, **rows.keywords) for P, _ in results.both]
    top = min(1.0, 1.05 * max(np.max(curve.weight / curve.weight.sum()) for curve in curves))
    figures = []
    for curve, (P, title) in zip(curves, results.both, strict=True):

        def draw(figure: Any, P: Floats = P, title: str = title) -> None:
            ax = figure.subplots()
            ConfidenceDisplay.from_predictions(rows.y, P, **rows.keywords, name=title, ax=ax)
            ax.set_ylim(0, top)

        share = curve.weight / curve.weight.sum()
        fullest = int(np.argmax(share))
        figures.append(picture(
            draw,
            HISTOGRAM,
            alt=(
                f"Histogram of the confidence, {_when(title)}: mean "
                f"{share @ curve.confidence:.3f}, accuracy {share @ curve.accuracy:.3f}; "
                f"{share[fullest]:.1%} of the rows have a confidence between "
                f"{curve.lower[fullest]:.3f} and {curve.upper[fullest]:.3f}."
            ),
            caption=f"{_heading(title)}: confidence of the rows, its mean, and the accuracy.",
        ))  # fmt: skip
    return pair(*figures)


def sweep(results: Results) -> Element:
    """Log loss and ECE by temperature."""
    shown = results.sweep

    def draw(figure: Any) -> None:
        # A display of its own, since one keeps the artists that it drew.
        copy.copy(shown).plot(figure.subplots(2, 1, sharex=True))

    return picture(
        draw,
        SWEEP,
        alt=_described_sweep(shown),
        caption=(
            "Log loss and ECE of the logits divided by a temperature, and the log loss of the "
            "calibrator as a line. The best temperature is that of these rows, chosen after the "
            "fact."
        ),
    )


def _described_sweep(shown: TemperatureSweepDisplay) -> str:
    at_one, lowest = (int(np.argmin(x)) for x in (np.abs(shown.temperatures - 1), shown.log_loss))
    losses, errors = shown.log_loss, shown.expected_calibration_error
    return (
        "Log loss and ECE of the logits divided by a temperature T: at T = 1 the log loss is "
        f"{losses[at_one]:.4f} and the ECE {errors[at_one]:.4f}; the log loss is lowest, "
        f"{losses[lowest]:.4f}, at T = {shown.temperatures[lowest]:.3g}, where the ECE is "
        f"{errors[lowest]:.4f}. {shown.name} has a log loss of {shown.reference:.4f}."
    )


def classes(results: Results) -> Element:
    """Diagrams of the classes with the largest ECE, or of the event if there are two classes."""
    rows = results.rows
    if rows.n_classes == 2:
        return pair(*(_event(rows, P, title) for P, title in results.both))
    table = results.by_class
    chosen = worst(table, GRID)

    def draw(figure: Any) -> None:
        displays = [_of_class(rows, k) for k in chosen]
        ReliabilityGridDisplay(displays).plot(figure)

    n = int(np.ceil(np.sqrt(len(chosen))))
    size = (max(2.7 * n, 4.5), 3.2 * -(-len(chosen) // n) + 0.8)
    each = ", ".join(f"{short(rows.classes[k])} {table['ece_after'][k]:.4f}" for k in chosen)
    return picture(
        draw,
        size,
        alt=(
            "Reliability diagrams of the predicted probability of classes, after calibration, with "
            f"their ECE: {each}."
        ),
        caption=(
            f"After calibration: the {len(chosen)} classes with the largest ECE of their predicted "
            "probability."
        ),
    )


def plane(results: Results) -> Element:
    """Miscalibration and discrimination of all classes before and after."""
    rows = results.rows
    models = {"Before": rows.before, "After": rows.after}
    display = ScoreDecompositionDisplay(
        {
            name: score_decomposition(rows.y, P, kind="classwise", **rows.of_rows)
            for name, P in models.items()
        },
        score="log_loss",
    )
    parts = [
        f"{name.lower()} calibration miscalibration {d.miscalibration:.4f} and discrimination "
        f"{d.discrimination:.4f}"
        for name, d in display.decompositions.items()
    ]

    def draw(figure: Any) -> None:
        copy.copy(display).plot(figure.subplots(), arrows=[("Before", "After")])

    return picture(
        draw,
        PLANE,
        alt=f"Decomposition of the log loss of the classes: {'; '.join(parts)}.",
        caption=(
            "Log loss of the probability of each class, as a mean over the classes: miscalibration "
            "and discrimination. Calibration moves to the left; models at the upper left are the "
            "best."
        ),
    )


def _of_class(rows: Evaluation, k: int) -> ReliabilityDisplay:
    """The diagram of a class after calibration."""
    of_class = Scored(None, rows.after[:, k], rows.index == k, rows.w)
    curve = curve_of_rows(of_class, rows.n_bins, "uniform")
    name = short(rows.classes[k])
    return ReliabilityDisplay(curve, kind="binary", name=name, rows=of_class)


def _event(rows: Evaluation, P: Floats, title: str) -> Element:
    event: dict[str, Any] = {**rows.keywords, "kind": "binary"}
    curve = reliability_curve(rows.y, P, **event)
    error = expected_calibration_error(rows.y, P, **event)
    label = short(rows.classes[1])

    def draw(figure: Any) -> None:
        ReliabilityDisplay.from_predictions(rows.y, P, **event, name=title, ax=figure.subplots())

    return picture(
        draw,
        DIAGRAM,
        alt=(
            f"Reliability diagram of the probability of {label}, {_when(title)}: ECE {error:.4f}. "
            f"{described(curve).replace('accuracy', 'frequency').replace('confidence', 'mean')}"
        ),
        caption=f"{_heading(title)}: frequency of the label {label} by its predicted probability.",
    )


def _when(title: str) -> str:
    return "before calibration" if title == "Before" else f"after calibration by {title}"


def _heading(title: str) -> str:
    return "Before calibration" if title == "Before" else "After calibration"
