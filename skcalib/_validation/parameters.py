"""Checks of parameters: integers, real numbers, options, flags.

``sklearn.utils.check_scalar`` takes booleans for integers and NaN for any number, and names no
remedy.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf
from numbers import Integral, Real
from typing import Any, get_args

import numpy as np


def check_integer(name: str, value: Any, *, least: int = 1) -> None:
    """Raise a ValueError for a value that is not an integer, or less than ``least``."""
    if not is_integer(value) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}.")


def is_integer(value: Any) -> bool:
    """Whether a value is an integer, of Python or NumPy, and no boolean."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_real(
    name: str,
    value: Any,
    *,
    low: float = 0,
    high: float = inf,
    closed: bool = False,
    option: str | tuple[str, ...] = (),
    remedy: str = "",
) -> None:
    """Raise a ValueError for a value that is not a finite real number between the limits.

    ``closed`` admits ``low`` itself, and ``option`` is a string that is admitted too, or several.
    """
    options = (option,) if isinstance(option, str) else option
    if isinstance(value, str) and value in options:
        return
    is_real = isinstance(value, Real) and not isinstance(value, bool)
    if is_real and (low < value < high or (closed and value == low)):
        return
    if high < inf:
        wanted = f"a number of at least {low} and below {high}"
        wanted = wanted if closed else f"a number between {low} and {high}"
    else:
        wanted = f"a finite number {'of at least' if closed else 'above'} {low}"
    wanted = " or ".join([", ".join(map(repr, options)), wanted] if options else [wanted])
    raise ValueError(f"{name} must be {wanted}, got {value!r}.{' ' * bool(remedy)}{remedy}")


def check_option(name: str, value: Any, options: Any | Collection[str]) -> None:
    """Raise a ValueError for a value that is none of the strings, or of a Literal of them."""
    known = get_args(options) or tuple(options)
    if not (isinstance(value, str) and value in known):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}.")


def check_flag(name: str, value: Any) -> None:
    """Raise a ValueError for a value that is not a boolean, of Python or NumPy."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}.")
