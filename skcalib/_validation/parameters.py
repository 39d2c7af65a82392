"""Checks of parameters: integers, real numbers, options."""

from __future__ import annotations

from numbers import Integral
from typing import Any


def check_option(name: str, value: str, options: Any) -> None:
    """Raise a ValueError for a value that is none of the literals."""
    if value not in options.__args__:
        names = ", ".join(map(repr, options.__args__))
        raise ValueError(f"{name} must be one of {names}, got {value!r}.")


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
