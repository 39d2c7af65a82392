"""Times as ratios within one process, on a machine that is not quiet."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any


def medians(tasks: Mapping[str, Callable[[], Any]], repeat: int) -> dict[str, float]:
    """Median seconds of each task, run in turn so that drift of the machine hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for name in tasks:  # caches, lazy imports, the allocator
        tasks[name]()
    for _ in range(repeat):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            times[name].append(time.perf_counter() - start)
    return {name: median(values) for name, values in times.items()}
