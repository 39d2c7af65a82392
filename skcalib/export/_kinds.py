"""Kinds of values in JSON files: each is written, and checked and read back.

Sizes of arrays are numbers or names, such as "columns", whose sizes are the same for all values of
a calibrator.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import inf, isnan
from typing import Any

import numpy as np

from skcalib._rows.arrays import Array

# A size, or its name, or the name with what the size is larger by.
Size = int | str | tuple[str, int]

REMEDY = "Write it again with to_json."
NOT_FINITE = {"inf": inf, "-inf": -inf, "nan": float("nan")}
LIMITS = np.iinfo(np.int64)
# Longest strings of labels, names and options.
LONGEST = 10_000


class Sizes(dict[str, int]):
    """Sizes by name, and those of entries of lists, which all lists of a calibrator share."""

    def __init__(self, known: Mapping[str, int] | None = None) -> None:
        super().__init__(known or {})
        self._entries: dict[int, Sizes] = {}

    def of_entry(self, k: int) -> Sizes:
        """Sizes of the k-th entries."""
        return self._entries.setdefault(k, Sizes(self))


@dataclass(frozen=True)
class Place:
    """Where in a file a value is, with the sizes that are known there."""

    where: str
    sizes: Sizes = field(default_factory=Sizes)
    #: Calibrators by their places, or their places by identity; shared by all places of a file.
    known: dict[Any, Any] = field(default_factory=dict)
    #: Functions that write and read calibrators inside others, and say how large they are.
    codec: Any = None

    def at(self, name: str) -> Place:
        """The place of a member by name."""
        return replace(self, where=f"{self.where}.{name}")

    def entry(self, k: int) -> Place:
        """The place of the k-th entry of a list."""
        return replace(self, where=f"{self.where}[{k}]", sizes=self.sizes.of_entry(k))

    def inside(self) -> Place:
        """The same place for a calibrator inside another one, with sizes of its own."""
        return replace(self, sizes=Sizes())


def invalid(place: Place, wanted: str, got: Any) -> ValueError:
    """The error of a value that is not what is wanted; ``got`` as it is in the file."""
    return ValueError(f"{place.where} must be {wanted}, got {reprlib.repr(got)}. {REMEDY}")


def check(place: Place, wanted: str, got: Any, *, holds: bool) -> None:
    """Raise a ValueError unless something holds."""
    if not holds:
        raise invalid(place, wanted, got)


def is_integer(raw: Any) -> bool:
    """Whether it is an integer of 64 bits, and no boolean."""
    return type(raw) is int and LIMITS.min <= raw <= LIMITS.max


def is_text(raw: Any) -> bool:
    """Whether it is a string that may be a name or a label."""
    return type(raw) is str and len(raw) <= LONGEST


def check_names(raw: Any, required: set[str], optional: set[str], place: Place) -> None:
    """Raise a ValueError unless it is an object with these members."""
    check(place, "an object", raw, holds=type(raw) is dict)
    missing, unknown = required - raw.keys(), raw.keys() - required - optional
    if missing or unknown:
        what, name = ("lacks", min(missing)) if missing else ("must not have", min(unknown))
        raise ValueError(f"{place.where} {what} {reprlib.repr(name)}. {REMEDY}")


@dataclass(frozen=True)
class Number:
    """A float, by default a finite one; infinite ones and NaN are strings."""

    low: float = -inf
    high: float = inf
    is_open: bool = False  #: whether the limits are excluded
    finite: bool = True

    def write(self, value: Any, _: Place) -> Any:
        """The value for JSON."""
        value = float(value)
        return value if abs(value) < inf else repr(value)

    def read(self, raw: Any, place: Place) -> float:
        """The value, checked."""
        value: Any = NOT_FINITE.get(raw) if not self.finite and is_text(raw) else raw
        check(place, self._wanted(), raw, holds=type(value) in (int, float))
        value = float(value)
        inside = self.low < value < self.high if self.is_open else self.low <= value <= self.high
        fits = not self.finite if isnan(value) else inside and (abs(value) < inf or not self.finite)
        check(place, self._wanted(), raw, holds=fits)
        return value

    def _wanted(self) -> str:
        return wanted_of("a number", self.low, self.high, is_open=self.is_open, finite=self.finite)


def wanted_of(what: str, low: float, high: float, *, is_open: bool, finite: bool) -> str:
    """What a number or several must be, in words."""
    if finite and (low, high) == (-inf, inf):
        return what.replace("number", "finite number")
    if high < inf:
        what += f" between {low:g} and {high:g}" + (", these excluded" if is_open else "")
    elif low > -inf:
        what += f" {'above' if is_open else 'of at least'} {low:g}"
    return what + ("" if finite else ', or "inf", "-inf" or "nan"')


@dataclass(frozen=True)
class Integer:
    """An integer."""

    low: int = 0

    def write(self, value: Any, _: Place) -> int:
        """The value for JSON."""
        return int(value)

    def read(self, raw: Any, place: Place) -> int:
        """The value, checked."""
        fits = is_integer(raw) and raw >= self.low
        check(place, f"an integer of at least {self.low}", raw, holds=fits)
        return int(raw)


@dataclass(frozen=True)
class Flag:
    """True or false."""

    def write(self, value: Any, _: Place) -> bool:
        """The value for JSON."""
        return bool(value)

    def read(self, raw: Any, place: Place) -> bool:
        """The value, checked."""
        check(place, "true or false", raw, holds=type(raw) is bool)
        return bool(raw)


@dataclass(frozen=True)
class Option:
    """One of some strings."""

    options: tuple[str, ...]

    def write(self, value: Any, _: Place) -> str:
        """The value for JSON."""
        return str(value)

    def read(self, raw: Any, place: Place) -> str:
        """The value, checked."""
        wanted = " or ".join(f'"{option}"' for option in self.options)
        check(place, wanted, raw, holds=is_text(raw) and raw in self.options)
        return str(raw)


@dataclass(frozen=True)
class Numbers:
    """An array of floats, or of integers, in one or two dimensions: a list, or a list of rows.

    In single precision it is ``{"dtype": "float32", "values": ...}``.
    """

    shape: tuple[Size, ...]
    low: float = -inf
    high: float = inf
    is_open: bool = False
    finite: bool = True
    integer: bool = False
    increasing: bool = False  #: whether none is less than the one before, in each row
    total: float | None = None  #: their sum, or those of the rows

    def write(self, value: Any, _: Place) -> Any:
        """The value for JSON."""
        array = np.asarray(value)
        values = array.tolist()
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            values = [list(map(_plain, row)) if array.ndim > 1 else _plain(row) for row in values]
        return {"dtype": "float32", "values": values} if array.dtype == np.float32 else values

    def read(self, raw: Any, place: Place) -> Array:
        """The value, checked."""
        raw, dtype = self._values(raw, place)
        rows = raw if len(self.shape) > 1 else [raw]
        check(place, "a list", raw, holds=type(raw) is list)
        fits = all(type(row) is list and len(row) == len(rows[0]) for row in rows)
        check(place, "a list of lists of one length", raw, holds=fits)
        flat = list(chain.from_iterable(rows))
        if not self.finite:
            flat = [NOT_FINITE.get(x, x) if type(x) is str else x for x in flat]
        self._check_types(flat, place)
        with np.errstate(over="ignore"):
            array = np.array(flat, dtype)
        array = array.reshape(len(rows), len(rows[0])) if rows else array.reshape(0, *self._rest())
        array = array if len(self.shape) > 1 else array.reshape(-1)
        self._check(array, place)
        return array

    def _values(self, raw: Any, place: Place) -> tuple[Any, Any]:
        if type(raw) is dict and not self.integer:
            fits = raw.keys() == {"dtype", "values"} and raw["dtype"] == "float32"
            check(place, 'a list, or {"dtype": "float32", "values": a list}', raw, holds=fits)
            return raw["values"], np.float32
        return raw, np.intp if self.integer else np.float64

    def _rest(self) -> tuple[int, ...]:
        """Number of columns of an array without rows."""
        return tuple(size if isinstance(size, int) else 0 for size in self.shape[1:])

    def _check_types(self, flat: list[Any], place: Place) -> None:
        found = set(map(type, flat)) - ({int} if self.integer else {int, float})
        if found:
            odd = next(x for x in flat if type(x) in found)
            raise invalid(place, f"a list of {'integers' if self.integer else 'numbers'}", odd)
        if self.integer and not all(map(is_integer, flat)):
            raise invalid(place, "a list of integers of 64 bits", flat)

    def _check(self, array: Array, place: Place) -> None:
        check_shape(array.shape, self.shape, place)
        if not array.size:
            return
        low, high = np.fmin.reduce(array, axis=None), np.fmax.reduce(array, axis=None)  # no NaN
        inside = self.low < low and high < self.high
        inside = inside if self.is_open else self.low <= low and high <= self.high
        fits = inside and (not self.finite or bool(np.isfinite(array).all()))
        limits = {"is_open": self.is_open, "finite": self.finite}
        wanted = wanted_of("a list of numbers", self.low, self.high, **limits)
        check(place, wanted, [float(low), float(high)], holds=fits)
        if self.increasing:
            ordered = bool((array[..., 1:] >= array[..., :-1]).all())
            check(place, "a list of numbers in increasing order", array.tolist(), holds=ordered)
        if self.total is not None:
            sums = array.sum(axis=-1)
            near = bool((abs(sums - self.total) < 1e-6).all())
            check(place, f"numbers whose sum is {self.total:g}", array.tolist(), holds=near)


def _plain(value: float) -> Any:
    return value if abs(value) < inf else repr(value)


def check_shape(shape: tuple[int, ...], wanted: Sequence[Size], place: Place) -> None:
    """Raise a ValueError for another shape; sizes that are not known yet are noted."""
    expected = []
    for size, of_size in zip(shape, wanted, strict=True):
        name, more = of_size if isinstance(of_size, tuple) else (of_size, 0)
        if isinstance(name, str):
            name = place.sizes.setdefault(name, size - more)
        expected.append(name + more)
    if list(shape) != expected:
        text = " x ".join(map(str, expected))
        raise ValueError(
            f"{place.where} must have {text} entries, got {' x '.join(map(str, shape))}. {REMEDY}"
        )


@dataclass(frozen=True)
class Each:
    """A list of values of a kind, each with sizes of its own."""

    kind: Any
    n: Size

    def write(self, value: Any, place: Place) -> list[Any]:
        """The value for JSON."""
        return [self.kind.write(member, place.entry(k)) for k, member in enumerate(value)]

    def read(self, raw: Any, place: Place) -> list[Any]:
        """The value, checked."""
        check(place, "a list", raw, holds=type(raw) is list)
        check_shape((len(raw),), (self.n,), place)
        return [self.kind.read(x, place.entry(k)) for k, x in enumerate(raw)]


@dataclass(frozen=True)
class ByName:
    """A dict from names to values of a kind."""

    kind: Any

    def write(self, value: Any, place: Place) -> dict[str, Any]:
        """The value for JSON."""
        return {name: self.kind.write(x, place.at(name)) for name, x in value.items()}

    def read(self, raw: Any, place: Place) -> dict[str, Any]:
        """The value, checked."""
        check(place, "an object", raw, holds=type(raw) is dict)
        return {name: self.kind.read(x, place.at(name)) for name, x in raw.items()}
