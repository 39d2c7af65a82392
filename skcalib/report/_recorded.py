"""Warnings that are recorded, so that a report can show them, and given afterwards."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from skcalib._warnings import warn


@contextmanager
def recorded() -> Iterator[list[warnings.WarningMessage]]:
    """Record warnings in place of giving them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield caught


def emitted(caught: list[warnings.WarningMessage]) -> list[str]:
    """Give recorded warnings, each once; returns what they say, with their classes."""
    distinct = {(type(w.message), str(w.message)): w.message for w in caught}
    for message in distinct.values():
        warn(message if isinstance(message, Warning) else UserWarning(message))
    return [f"{kind.__name__}: {text}" for kind, text in distinct]
