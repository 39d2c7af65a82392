"""Properties that are computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

Result = TypeVar("Result")


class cached_property(Generic[Result]):  # noqa: N801
    """``functools.cached_property`` without its lock, which Python has removed in 3.12.

    In Python 3.11 a property has one lock for all instances: threads would wait for one another,
    and a process that is forked while another thread computes the property would wait for ever.
    Two threads that need the same property at once both compute it.
    """

    def __init__(self, f: Callable[[Any], Result]) -> None:
        self.f = f
        self.__doc__ = f.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Result: ...

    def __get__(self, instance: object | None, owner: type | None = None) -> Self | Result:
        if instance is None:
            return self
        value = self.f(instance)
        vars(instance)[self.name] = value  # from now on found before this descriptor
        return value
