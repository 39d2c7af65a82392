"""Run a simulation of ``benchmarks/simulations`` by its name, and print its table.

The arguments of the simulation are the options. Lines appear as soon as they are known, and the
table at the end. Run::

    python benchmarks/simulate.py --help
    python benchmarks/simulate.py fusion --samples 40
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import sys
import warnings
from pathlib import Path
from typing import Any

import simulations
from results import simple_table


def parse_arguments() -> tuple[simulations.Simulation, dict[str, Any]]:
    """Return a simulation and its arguments from the command line."""
    for file in sorted(Path(simulations.__file__).parent.glob("[a-z]*.py")):
        importlib.import_module(f"simulations.{file.stem}")
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    commands = parser.add_subparsers(dest="simulation", required=True)
    for name, function in simulations.SIMULATIONS.items():
        text = inspect.getdoc(function)
        raw = argparse.RawDescriptionHelpFormatter
        command = commands.add_parser(
            name, help=text.split("\n", 1)[0], description=text, formatter_class=raw
        )
        for option, parameter in inspect.signature(function).parameters.items():
            default, several = parameter.default, isinstance(parameter.default, tuple)
            kind = type(default[0] if several else default)
            nargs = "+" if several else None
            command.add_argument(f"--{option}", nargs=nargs, type=kind, default=default)
    options = vars(parser.parse_args())
    return simulations.SIMULATIONS[options.pop("simulation")], options


def as_text(cell: Any) -> str:
    return f"{cell:.4f}" if isinstance(cell, float) else str(cell)


def main() -> None:
    function, options = parse_arguments()
    warnings.simplefilter("ignore")
    lines = []
    for line in function(**options):
        lines.append([as_text(cell) for cell in line])
        print(*lines[-1], sep="  ", file=sys.stderr, flush=True)
    print(simple_table(lines[0], lines[1:]))


if __name__ == "__main__":
    main()
