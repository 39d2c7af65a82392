"""Simulations: what an estimate or a test promises, in data whose truth is known.

A simulation is a generator that yields the header of a table, then its lines, and whose arguments
have defaults. The decorator adds it to those that ``benchmarks/simulate.py`` runs by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Simulation = Callable[..., Iterator[tuple[Any, ...]]]
SIMULATIONS: dict[str, Simulation] = {}


def simulation(f: Simulation) -> Simulation:
    """Register a simulation by its name, with dashes."""
    SIMULATIONS[f.__name__.replace("_", "-")] = f
    return f
