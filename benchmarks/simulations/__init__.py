"""Simulations: what an estimate or a test promises, in data whose truth is known.

A simulation is a generator that yields the header of a table, then its lines, and whose arguments
have defaults. The decorator adds it to the list for ``benchmarks/simulate.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Simulation = Callable[..., Iterator[tuple[Any, ...]]]
SIMULATIONS: list[Simulation] = []


def simulation(f: Simulation) -> Simulation:
    """Register a simulation."""
    SIMULATIONS.append(f)
    return f
