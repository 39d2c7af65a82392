"""Numbers as text, and files, for pictures, tables and pages."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import IO

# Text in place of a number that does not exist.
NO_NUMBER = "\N{EN DASH}"


def counted(n: int, noun: str) -> str:
    """Write a number of things: "1 row", "2,000 rows"."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def written(value: float) -> str:
    """Write a score or error as text: four decimals, or two significant digits if it is small."""
    if math.isnan(value):
        return NO_NUMBER
    if abs(value) >= 0.01 or value == 0:
        return f"{value:.4f}"
    return f"{value:.5f}" if abs(value) >= 0.001 else f"{value:.2g}"


def briefly(value: float) -> str:
    """Write a score or error in a picture: three decimals, or two digits if it is small."""
    if math.isnan(value):
        return NO_NUMBER
    return f"{value:.3f}" if abs(value) >= 0.01 or value == 0 else f"{value:.2g}"


@contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """Open a new file, which replaces ``target`` when the block ends without an error."""
    if target.exists() and not target.is_file():
        raise OSError(
            f"{str(target)!r} must be a file, got a directory, device or pipe. Choose another path."
        )
    draft = target.with_name(f".skcalib-{secrets.token_hex(8)}{target.suffix}")
    try:
        with draft.open("xb") as file:
            yield file
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def resource(path: str) -> str:
    """Return the text of a file of this package."""
    return files("skcalib").joinpath(path).read_text("utf-8")
