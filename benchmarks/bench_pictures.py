"""Seconds to draw displays and save them as PNG, grids of many classes, and reports with pages.

Wall and CPU time, each the least of several runs in one process, so that imports are done::

    python benchmarks/bench_pictures.py [CLASSES ...]
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from scipy.special import softmax

from skcalib import (
    ConfidenceDisplay,
    ReliabilityDisplay,
    TemperatureScaling,
    TemperatureSweepDisplay,
    calibration_report,
)
from skcalib.datasets import make_logits

STYLES = ("bars", "dots", "corp", "smooth")
REPEAT = 4
N_ROWS = 10_000


def png(draw: Callable[[], Any]) -> None:
    """Draw a figure and save it in memory."""
    draw().figure_.savefig(io.BytesIO(), format="png")
    plt.close("all")


def times(draw: Callable[[], Any]) -> tuple[float, float]:
    """Least wall and CPU seconds."""
    found = []
    for _ in range(REPEAT):
        wall, cpu = time.perf_counter(), time.process_time()
        png(draw)
        found.append((time.perf_counter() - wall, time.process_time() - cpu))
    walls, cpus = zip(*found, strict=True)
    return min(walls), min(cpus)


def logits_of(n_classes: int) -> tuple[Any, Any]:
    """Labels and over-confident logits."""
    Z, y = make_logits(N_ROWS, n_classes, temperature=1.5, random_state=0)
    return y, Z


def report_of(calibrator: Any, Z: Any, y: Any) -> Any:
    """A report, of which the page has been made as well."""
    report = calibration_report(calibrator, Z, y)
    report.to_html()
    return report


def tasks(n_classes: list[int]) -> dict[str, Callable[[], Any]]:
    """All pictures by name."""
    y, Z = logits_of(10)
    P = softmax(Z, axis=1)
    found: dict[str, Callable[[], Any]] = {
        "ConfidenceDisplay": partial(ConfidenceDisplay.from_predictions, y, P),
        "TemperatureSweepDisplay": partial(TemperatureSweepDisplay.from_logits, Z, y),
    }
    draw = ReliabilityDisplay.from_predictions
    for style in STYLES:
        found[f"ReliabilityDisplay {style}"] = partial(draw, y, P, style=style)
    for k in n_classes:
        y, Z = logits_of(k)
        P = softmax(Z, axis=1)
        calibrator = TemperatureScaling().fit(Z, y)
        found[f"CalibrationReport and its page, {k} classes"] = partial(report_of, calibrator, Z, y)
        for style in STYLES[:2]:
            found[f"ReliabilityGridDisplay {style}, {k} classes"] = partial(
                draw, y, P, kind="classwise", max_classes=k, style=style
            )
    return found


def main() -> None:
    mpl.use("agg")
    print(f"{N_ROWS:,} rows, matplotlib {mpl.__version__}, numpy {np.__version__}")
    print(f"{'':44}{'wall s':>8}{'CPU s':>8}")
    for name, draw in tasks([int(k) for k in sys.argv[1:]] or [9, 100]).items():
        wall, cpu = times(draw)
        print(f"{name:44}{wall:8.2f}{cpu:8.2f}")


if __name__ == "__main__":
    main()
