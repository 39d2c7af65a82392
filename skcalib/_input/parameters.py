"""Checks of parameters, and of optional packages.

``sklearn.utils.check_scalar`` accepts booleans as integers and NaN as any number, and names no
remedy.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from math import inf
from numbers import Integral, Real
from typing import Any, get_args

import numpy as np

from skcalib._rows import Rows


def check_integer(name: str, value: Any, *, low: int = 1) -> None:
    """Raise a ValueError unless a value is an integer of at least ``low``."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < low:
        raise ValueError(f"{name} must be an integer of at least {low}, got {value!r}.")


def check_real(
    name: str,
    value: Any,
    *,
    high: float = inf,
    closed: bool = False,
    option: str | tuple[str, ...] = (),
    remedy: str = "",
) -> None:
    """Raise a ValueError unless a value is a finite real number between 0 and ``high``.

    ``closed`` allows 0. ``option`` is one string, or several strings, that are allowed too.
    """
    options = (option,) if isinstance(option, str) else option
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if is_number and (0 < value < high or (closed and value == 0)):
        return
    if isinstance(value, str) and value in options:
        return
    wanted = f"a finite number {'of at least' if closed else 'above'} 0"
    if high < inf:
        wanted = f"a number {'of at least 0 and below' if closed else 'between 0 and'} {high}"
    if options:
        wanted = f"{', '.join(map(repr, options))} or {wanted}"
    raise ValueError(f"{name} must be {wanted}, got {value!r}. {remedy}".rstrip())


def check_option(name: str, value: Any, options: Any | Collection[str], remedy: str = "") -> None:
    """Raise a ValueError unless a value is one of the strings, or belongs to a Literal type."""
    valid = get_args(options) or tuple(options)
    if not (isinstance(value, str) and value in valid):
        names = ", ".join(map(repr, valid))
        raise ValueError(f"{name} must be one of {names}, got {value!r}. {remedy}".rstrip())


def check_flag(name: str, value: Any) -> None:
    """Raise a ValueError unless a value is a Python or NumPy boolean."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}.")


def fitted_smoothing(smoothing: Any, rows: Rows) -> float:
    """Check the parameter ``smoothing``, and return it, or 1 / (N + 1) for "auto"."""
    check_real("smoothing", smoothing, high=1, closed=True, option="auto")
    return 1 / (rows.weight + 1) if smoothing == "auto" else float(smoothing)


def import_optional(package: str, caller: str, name: str | None = None) -> Any:
    """Import an optional package, or raise an ImportError that tells how to install it.

    ``caller`` needs the package. ``name`` is its name for pip, if that differs.
    """
    try:
        return import_module(package)
    except ImportError as missing:
        raise ImportError(f"{caller} needs {package}: pip install {name or package}.") from missing
