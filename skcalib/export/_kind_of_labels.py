"""Kinds of labels, and of names of columns, in JSON files."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skcalib._rows.arrays import Array

from ._kinds import LIMITS, NOT_FINITE, Place, Size, _plain, check, check_shape, is_integer, is_text


@dataclass(frozen=True)
class Labels:
    """An array of labels: integers, floats, booleans or strings.

    A list whose labels are all of one of these types, or, for arrays of other types than those that
    NumPy gives such a list, ``{"dtype": ..., "values": ...}``.
    """

    n: Size

    def write(self, value: Any, _: Place) -> Any:
        """The value for JSON."""
        array = np.asarray(value)
        if array.dtype.kind not in "iufbUO" or array.ndim != 1:
            raise TypeError(
                f"Labels must be integers, floats, booleans or strings to be written as JSON, got "
                f"{array.dtype} in the shape {array.shape}. Save the calibrator with skops."
            )
        values = [x.item() if isinstance(x, np.generic) else x for x in array.tolist()]
        odd = [label for label in values if type(label) not in (int, float, bool, str)]
        if odd:
            raise TypeError(
                "Labels must be integers, floats, booleans or strings to be written as JSON, got "
                f"{odd[0]!r}. Save the calibrator with skops."
            )
        plain = [_plain(x) if type(x) is float else x for x in values]
        is_plain = plain == values and _natural(values) == array.dtype
        name = array.dtype.str[1:] if array.dtype.kind == "U" else array.dtype.name
        return plain if is_plain else {"dtype": name, "values": plain}

    def read(self, raw: Any, place: Place) -> Array:
        """The value, checked."""
        marked = type(raw) is dict and raw.keys() == {"dtype", "values"}
        values = raw["values"] if marked else raw
        fits = type(values) is list and all(type(x) in (int, float, bool, str) for x in values)
        fits = fits and all(is_text(x) for x in values if type(x) is str)
        fits = fits and all(LIMITS.min <= x < 2**64 for x in values if type(x) is int)
        check(place, "a list of labels: integers, floats, booleans or strings", raw, holds=fits)
        dtype = _dtype_of(raw["dtype"], values, place) if marked else _natural(values)
        check(place, "a list of labels of one type", raw, holds=dtype is not None)
        check_shape((len(values),), (self.n,), place)
        if dtype.kind == "f":
            values = [NOT_FINITE.get(x, x) if type(x) is str else x for x in values]
        check(place, "labels without a duplicate", raw, holds=len(set(values)) == len(values))
        with np.errstate(over="ignore"):
            array = np.array(values, dtype)
        kept = array.tolist() == values  # NaN and what the type rounds are not
        check(place, f"labels that the type {dtype} holds", raw, holds=kept)
        return array


@dataclass(frozen=True)
class Names:
    """An array of different strings, of objects as scikit-learn has it."""

    n: Size

    def write(self, value: Any, _: Place) -> list[str]:
        """The value for JSON."""
        return [str(name) for name in value]

    def read(self, raw: Any, place: Place) -> Array:
        """The value, checked."""
        fits = type(raw) is list and all(map(is_text, raw)) and len(set(raw)) == len(raw)
        check(place, "a list of different names", raw, holds=fits)
        check_shape((len(raw),), (self.n,), place)
        return np.array(raw, dtype=object)


def _natural(values: list[Any]) -> Any:
    """The dtype of the array of a list of labels; None unless they are of one type."""
    types = set(map(type, values))
    if not types:
        return np.dtype(np.int64)
    known = {int: np.int64, float: np.float64, bool: np.bool_}
    if types == {str}:
        length = max(1, *map(len, values))
        return np.dtype(f"U{length}") if _are_of_length(length, values) else None
    is_known = len(types) == 1 and types <= known.keys()
    if types == {int} and not all(map(is_integer, values)):
        return None
    return np.dtype(known[types.pop()]) if is_known else None


def _are_of_length(length: int, values: list[Any]) -> bool:
    """Whether strings are about as long as an array has room for; else it might fill the memory."""
    return len(values) * length <= 10**5 + 100 * sum(len(x) + 1 for x in values)


# Types of labels by name, with what they hold.
_INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
_FLOATS = ["float16", "float32", "float64"]
_DTYPES = {**dict.fromkeys(_INTEGERS, int), **dict.fromkeys(_FLOATS, float), "bool": bool}


def _dtype_of(name: Any, values: list[Any], place: Place) -> Any:
    """The dtype by name, for labels that are of its type."""
    if name == "object":
        return np.dtype(object)
    if type(name) is str and name[:1] == "U" and name[1:].isascii() and name[1:].isdigit():
        length = int(name[1:5])
        fits = str(length) == name[1:] and all(type(x) is str and len(x) <= length for x in values)
        fits = fits and length > 0 and _are_of_length(length, values)
        check(place.at("dtype"), "of strings as long as the labels", name, holds=fits)
        return np.dtype(name)
    known = type(name) is str and name in _DTYPES
    check(place.at("dtype"), f"one of {', '.join(_DTYPES)}, U and object", name, holds=known)
    kind, dtype = _DTYPES[name], np.dtype(name)
    fits = all(type(x) is kind or (kind is float and x in NOT_FINITE) for x in values)
    if kind is int and fits:
        limits = np.iinfo(dtype)
        fits = all(limits.min <= x <= limits.max for x in values)
    check(place.at("values"), f"labels of the type {name}", values, holds=fits)
    return dtype
