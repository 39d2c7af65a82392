"""Old names, until all imports have moved."""

from __future__ import annotations

from typing import Any

from . import moved


def __getattr__(name: str) -> Any:
    return moved(name)
