"""Run a simulation of ``benchmarks/simulations`` by its name, and print its table. Run::

python benchmarks/simulate.py --help
python benchmarks/simulate.py fusion --samples 40
"""

from __future__ import annotations

import importlib
from pathlib import Path

import simulations
from command_line import run

if __name__ == "__main__":
    for file in sorted(Path(simulations.__file__).parent.glob("[a-z]*.py")):
        importlib.import_module(f"simulations.{file.stem}")
    run(*simulations.SIMULATIONS)
