"""Old names, until all imports have moved."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    module = "rows" if name == "checked_rows" else "arrays"
    return getattr(import_module(f"skcalib._input.{module}"), name)
