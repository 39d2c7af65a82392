"""Timing of tasks in turn within one process, for ratios that are robust to a busy machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median
from timeit import timeit
from typing import Any


def seconds(task: Callable[[], Any]) -> float:
    """Seconds of one run."""
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def medians(
    tasks: Mapping[str, Callable[[], Any]], repeat: int, slow: float = float("inf")
) -> dict[str, float]:
    """Median seconds of each task, run in turn so that drift of the machine affects all equally.

    The first run of each, with its lazy imports and cold caches, counts only for tasks that take
    longer than ``slow`` seconds, which are not repeated.
    """
    first = {name: seconds(task) for name, task in tasks.items()}
    times: dict[str, list[float]] = {name: [t] if t > slow else [] for name, t in first.items()}
    for _ in range(repeat):
        for name, task in tasks.items():
            if first[name] <= slow:
                times[name].append(seconds(task))
    return {name: median(values) for name, values in times.items()}


def least(tasks: Mapping[str, Callable[[], Any]], repeat: int, calls: int) -> dict[str, float]:
    """Least mean seconds of so many calls of each task, run in turn: for calls of microseconds.

    Other processes only ever add to them.
    """
    best = dict.fromkeys(tasks, float("inf"))
    for task in tasks.values():
        task()
    for _ in range(repeat):
        for name, task in tasks.items():
            best[name] = min(best[name], timeit(task, number=calls) / calls)
    return best
