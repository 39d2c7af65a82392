"""Run functions that yield a table from the command line: their arguments are the options."""

from __future__ import annotations

import argparse
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from results import simple_table

# A generator of the header of a table, then of its lines. Its arguments have defaults.
Table = Callable[..., Iterator[tuple[Any, ...]]]


def add_options(parser: argparse.ArgumentParser, function: Table) -> None:
    """Add an option for each argument, of the type of its default. ``*names`` are positional."""
    for name, parameter in inspect.signature(function).parameters.items():
        default = parameter.default
        if parameter.kind is parameter.VAR_POSITIONAL:
            parser.add_argument(name, nargs="*")
        elif isinstance(default, bool):
            parser.add_argument(f"--{name}", action="store_true")
        else:
            several = isinstance(default, tuple)
            kind = type(default[0]) if several and default else str if several else type(default)
            nargs = "+" if several else None
            parser.add_argument(f"--{name}", nargs=nargs, type=kind, default=default)
    parser.set_defaults(function=function)


def as_text(cell: Any) -> str:
    return f"{cell:.4f}" if isinstance(cell, float) else str(cell)


def run(*functions: Table) -> None:
    """Run a function, the named one if there are several, and print its table.

    Lines appear on the standard error stream as soon as they are known.
    """
    raw: dict[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter}
    parser = argparse.ArgumentParser(**raw)
    if len(functions) == 1:
        add_options(parser, functions[0])
    else:
        commands = parser.add_subparsers(required=True)
        for f in functions:
            text, name = inspect.getdoc(f), f.__name__.replace("_", "-")
            add_options(
                commands.add_parser(name, help=text.split("\n")[0], description=text, **raw), f
            )
    options = vars(parser.parse_args())
    function = options.pop("function")
    given = [
        value
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.VAR_POSITIONAL
        for value in options.pop(name)
    ]
    warnings.simplefilter("ignore")
    lines = []
    for line in function(*given, **options):
        lines.append([as_text(cell) for cell in line])
        print(*lines[-1], sep="  ", file=sys.stderr, flush=True)
    print(simple_table(lines[0], lines[1:]))
