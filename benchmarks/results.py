"""Results of the suite in a file, and tables for the documentation."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

RESULTS = Path(__file__).parent / "results"
UNCALIBRATED, DEFAULT = "uncalibrated", "AutoCalibrator"


class Result(NamedTuple):
    """A method on a record, of which all rows or random ones calibrate.

    ``commit`` is that of skcalib; ``seconds`` are those of the processor to fit and to predict.
    Where ``error`` starts with *left out* the method was too slow to be run.
    """

    folder: str
    data_set: str
    record: str
    kind: str
    classes: int
    rows: int
    drawn: str
    draw: int
    method: str
    library: str
    version: str
    commit: str
    log_loss: float
    brier: float
    ece: float
    accuracy: float
    zeros: int
    seconds: float
    error: str

    @property
    def key(self) -> tuple[str, ...]:
        """What it is the result of."""
        return self.folder, self.record, self.drawn, str(self.draw), self.method


@cache
def version_of(library: str) -> tuple[str, str]:
    """Version, and for skcalib the last commit that changed it, with a + if it differs."""
    if library != "skcalib":
        return version(library) if library else "", ""
    git = ["git", "-C", str(Path(__file__).parent.parent)]
    commit = [*git, "log", "-1", "--format=%h", "--", library]
    changed = subprocess.call([*git, "diff", "--quiet", "HEAD", "--", library])
    return version(library), subprocess.check_output(commit, text=True).strip() + "+" * changed


def read(file: Path) -> dict[tuple[str, ...], Result]:
    """Results by their keys; a later line replaces an earlier one."""
    if not file.exists():
        return {}
    types = {"classes": int, "rows": int, "draw": int, "zeros": int, "seconds": float}
    types |= dict.fromkeys(("log_loss", "brier", "ece", "accuracy"), float)
    with file.open(newline="") as lines:
        results = [
            Result(**{name: types.get(name, str)(value) for name, value in line.items()})
            for line in csv.DictReader(lines)
        ]
    return {result.key: result for result in results}


def write(file: Path, results: Iterable[Result], mode: str = "w") -> None:
    """A line for each result, of six digits; ``"a"`` appends them."""
    with file.open(mode, newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        if mode == "w":
            writer.writerow(Result._fields)
        writer.writerows([f"{v:.6g}" if isinstance(v, float) else v for v in r] for r in results)


def simple_table(header: Iterable[str], lines: list[list[str]]) -> str:
    """A simple table of reStructuredText, which reads well as plain text, too."""
    rows = [list(header), *lines]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = "  ".join("=" * width for width in widths)
    text = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([rule, text[0], rule, *text[1:], rule, ""])


def titled(text: str, table: str) -> str:
    text = text[0].upper() + text[1:]
    return f"{text}\n{'~' * len(text)}\n\n{table}"
