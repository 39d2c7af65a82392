"""Old names of the modules of ``_input``, until all imports have moved."""

from __future__ import annotations

from importlib import import_module
from typing import Any

MODULES = (
    "rows", "logits", "labels", "classes", "indicators", "parameters", "arrays", "groups",
    "features", "column_order",
)  # fmt: skip


def moved(name: str) -> Any:
    """Return an object of ``_input`` by its name."""
    modules = [import_module(f"skcalib._input.{module}") for module in MODULES]
    modules.append(import_module("skcalib.conditional._columns")) if name.startswith("F") else None
    for module in modules:
        if hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(name)
