"""Tables of the results of the suite: full ones by group, and mean log losses of many groups."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

UNCALIBRATED, TEMPERATURE = "uncalibrated", "TemperatureScaling"
# Log losses that differ by less are tied; those above uncalibrated by more are harm; ratios to one
# that is smaller say nothing.
TIE, HARM, SIZABLE = 1e-9, 0.01, 0.005
HEADER = "method", "log loss", "Brier", "ECE", "won", "worst", "harmed", "ratio"
HEADER = *HEADER, "median s", "total s", "zeros", "failed"
GROUPS_PER_TABLE = 6
LEGEND = f"""\
Means over records of what is measured on their test rows. The log loss is that of scikit-learn,
which clips probabilities to [2.2e-16, 1 - 2.2e-16]; the Brier score, too, which is halved for two
classes; the ECE is that of the top label with 15 bins. *Won* is the share of pairs with another
method of the table on the same record in which the log loss is lower; ties count half. *Worst* is
the largest increase of the log loss over that of the uncalibrated classifier, *harmed* the share of
records on which it increases by more than {HARM}, and *ratio* the largest ratio of the log loss to
that of temperature scaling, where the latter is at least {SIZABLE}. Seconds are those to fit and to
predict: the median, and the sum over records. *Zeros* are test rows whose label has a probability
of 0. *Failed* are records on which the method raised an error or gave probabilities that are not
finite. They count as lost and as harmed, and means over the other records have a star, as where a
method is left out because it is too slow.
"""


class Result(NamedTuple):
    """A method on a record, of which all rows or random ones calibrate."""

    folder: str
    record: str
    kind: str
    classes: int
    rows: int
    drawn: str
    draw: int
    method: str
    log_loss: float
    brier: float
    ece: float
    accuracy: float
    zeros: int
    seconds: float
    error: str


def bucket(value: int, bounds: Iterable[int], what: str) -> str:
    """``100 to 299 rows`` for 150, if 100 and 300 are bounds."""
    low = max((b for b in bounds if b <= value), default=1)
    high = min((b - 1 for b in bounds if b > value), default=None)
    if high is None:
        return f"{low} or more {what}"
    return f"{low} {what}" if low == high else f"{low} to {high} {what}"


GROUPINGS: dict[str, Callable[[Result], str]] = {
    "all": lambda _: "all records",
    "folder": lambda r: r.folder,
    "classes": lambda r: bucket(r.classes, (2, 3, 50), "classes"),
    "rows": lambda r: "" if r.drawn else bucket(r.rows, (100, 300, 1000, 3000), "rows"),
    "kind": lambda r: r.kind,
    # Those that are not one of many of a kind.
    "record": lambda r: r.record if r.kind == r.folder else "",
}


def natural(label: str) -> list[str | int]:
    """Sort key by which 100 comes after 20."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", label)]


def grouped(results: list[Result], by: str) -> dict[str, list[Result]]:
    """Results of each group by its name, where ``folder+classes`` groups by both."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        parts = [GROUPINGS[name](result) for name in by.split("+")]
        if all(parts):
            groups.setdefault(", ".join(parts), []).append(result)
    return {name: groups[name] for name in sorted(groups, key=natural)}


def methods_of(results: list[Result]) -> list[str]:
    return list(dict.fromkeys(r.method for r in results))


def values(results: list[Result], name: str) -> np.ndarray:
    """Values of a field (n_methods, n_records): results are those of all methods by record."""
    of_all = np.array([getattr(r, name) for r in results], dtype=np.float64)
    return of_all.reshape(-1, len(methods_of(results))).T


def shares_won(loss: np.ndarray) -> np.ndarray:
    """Share of pairs won by each method; a failure is infinite, a method left out is nan."""
    mine, other = loss[:, None], loss[None]
    counted = ~(np.isnan(mine) | np.isnan(other)) & ~np.eye(len(loss), dtype=bool)[:, :, None]
    won, lost = mine < other - TIE, other < mine - TIE
    points = np.where(won, 1.0, np.where(lost, 0.0, 0.5)) * counted
    return points.sum(axis=(1, 2)) / np.maximum(counted.sum(axis=(1, 2)), 1)


def over_finite(of: Callable[[np.ndarray], float], values: np.ndarray, form: str) -> str:
    """Statistic of the values that are finite, with a star if some are not."""
    finite = np.isfinite(values)
    if not finite.any():
        return "-"
    return format(of(values[finite]), form) + ("" if finite.all() else "*")


def order(losses: np.ndarray) -> np.ndarray:
    """Methods by their mean log loss over records without a failure."""
    return np.argsort(np.ma.masked_invalid(losses).mean(axis=1).filled(np.inf))


def full_table(results: list[Result]) -> str:
    """All figures of each method."""
    methods, loss = methods_of(results), values(results, "log_loss")
    brier, ece, seconds = (values(results, name) for name in ("brier", "ece", "seconds"))
    zeros, won = values(results, "zeros").sum(axis=1), shares_won(loss)
    start, scaled = (loss[methods.index(name)] for name in (UNCALIBRATED, TEMPERATURE))
    sizable = scaled >= SIZABLE
    lines = [
        [
            methods[m],
            *(over_finite(np.mean, v[m], ".4f") for v in (loss, brier, ece)),
            f"{won[m]:.2f}",
            over_finite(np.max, loss[m] - start, "+.3f"),
            f"{100 * np.mean(loss[m] > start + HARM):.0f} %",
            over_finite(np.max, (loss[m] / scaled)[sizable], ".3f"),
            over_finite(np.median, seconds[m], ".4f"),
            over_finite(np.sum, seconds[m], ".1f"),
            f"{zeros[m]:.0f}",
            f"{np.isinf(loss[m]).sum()}",
        ]
        for m in order(loss)
    ]
    return simple_table(HEADER, lines)


def loss_table(groups: dict[str, list[Result]]) -> str:
    """Mean log loss of each method in each group."""
    losses = [values(group, "log_loss") for group in groups.values()]
    methods = methods_of(next(iter(groups.values())))
    lines = [
        [methods[m], *(over_finite(np.mean, loss[m], ".4f") for loss in losses)]
        for m in order(np.hstack(losses))
    ]
    return simple_table(["method", *groups], lines)


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


def tables(results: list[Result], by: str, *, full: bool) -> Iterator[str]:
    """Full tables of each group where folders are apart; of other groups mean log losses.

    Results with random calibration rows have tables of their own.
    """
    for drawn in dict.fromkeys(r.drawn for r in results):
        of = f", {drawn}" if drawn else ""
        groups = list(grouped([r for r in results if r.drawn == drawn], by).items())
        if full or "folder" in by or by == "all":
            for name, group in groups:
                n = len({(r.folder, r.record) for r in group})
                yield titled(f"{name}{of}: {n} record{'s' * (n > 1)}", full_table(group))
        elif groups:
            parts = range(0, len(groups), GROUPS_PER_TABLE)
            some = [dict(groups[first : first + GROUPS_PER_TABLE]) for first in parts]
            yield titled(f"Log loss by {by}{of}", "\n".join(map(loss_table, some)))


def failures(results: list[Result]) -> str:
    """Errors of each method, with the records on which they occurred."""
    records: dict[str, list[str]] = {}
    for r in results:
        if r.error:
            error = r.error.replace("`", "'")
            records.setdefault(f"{r.method}: ``{error}``", []).append(r.record)
    lines = [f"- {error}: {', '.join(dict.fromkeys(names))}" for error, names in records.items()]
    return titled("Failures", "\n".join(lines) + "\n") if lines else "No method failed.\n"
