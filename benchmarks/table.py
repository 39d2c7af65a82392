"""Tables and figures of the results of the suite, from its files, in seconds.

Without files, those in ``benchmarks/results`` are read, and what the page ``doc/suite.rst``, which
says what is in the columns, includes is written to ``doc/suite_tables.rst`` and ``doc/_static``.
Of other files the tables are printed. Run::

    python benchmarks/table.py [FILE.csv...]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from results import DEFAULT, RESULTS, UNCALIBRATED, Result, read, simple_table, titled

DOC = Path(__file__).parent.parent / "doc"
# Log losses that differ by less are tied; those above uncalibrated by more are harm.
TIE, HARM = 1e-9, 0.01
# Resamples of data sets, and the least number of these for an interval.
RESAMPLES, LEAST = 2000, 5
HEADER = "method", "log loss", "Brier", "ECE", "less log loss [%]", "less Brier [%]", "won [%]"
HEADER = *HEADER, "harmed [%]", "s", "zeros", "failed"
OVERVIEW = "of", "records", "data sets", "default", "best other", "its method", "gain [%]", "ahead"
# A folder of records to which no method was ever tuned.
UNSEEN = "second"
# The least share of records on which a method is run that can be compared with others.
MOST = 0.9
# Colours of Okabe and Ito, which the colour-blind tell apart, and markers, by library.
LOOKS = {"skcalib": ("#0072B2", "o"), "other libraries": ("#D55E00", "s"), "": ("black", "D")}


class Group:
    """Figures (M, n) of methods on records.

    A failure leaves a record uncalibrated. Where a method is left out, as it is too slow, is NaN.
    """

    def __init__(self, results: list[Result]) -> None:
        place = {(r.method, r.key[:4]): r for r in results if not r.error.startswith("left out")}
        self.methods = list(dict.fromkeys(method for method, _ in place))
        self.records = list(dict.fromkeys(record for _, record in place))
        self.grid = [[place.get((m, record)) for record in self.records] for m in self.methods]
        self.start = self.methods.index(UNCALIBRATED)
        self.default = self.methods.index(DEFAULT) if DEFAULT in self.methods else self.start
        libraries = [next(filter(None, row)).library for row in self.grid]
        self.library = np.array(
            [name if name in LOOKS else "other libraries" for name in libraries]
        )
        self.data_sets = [r.data_set for r in self.grid[self.start]]
        self.failed = np.isposinf(self.of("log_loss"))
        self.loss, self.brier, self.ece = (
            np.where(self.failed, v[self.start], v)
            for v in map(self.of, ("log_loss", "brier", "ece"))
        )
        self.run = ~np.isnan(self.loss)
        self.rare = self.run.mean(axis=1) < MOST

    def of(self, name: str) -> np.ndarray:
        return np.array([[getattr(r, name) if r else np.nan for r in row] for row in self.grid])

    def less(self, loss: np.ndarray) -> np.ndarray:
        """Per cent of the uncalibrated loss that is gone, at least -100."""
        return 100 * np.maximum(1 - loss / np.maximum(loss[self.start], TIE), -1)

    def won(self) -> np.ndarray:
        """Per cent of the other methods whose log loss is higher; ties count half."""
        loss = np.where(self.failed, np.inf, self.loss)
        mine, other = loss[:, None], loss[None]
        points = np.where(mine < other - TIE, 1.0, np.where(other < mine - TIE, 0.0, 0.5))
        known = ~(np.isnan(mine) | np.isnan(other)) & ~np.eye(len(loss), dtype=bool)[:, :, None]
        n = known.sum(axis=1)
        return 100 * np.where(n > 0, (points * known).sum(axis=1) / np.maximum(n, 1), np.nan)

    def limits(self, values: np.ndarray) -> np.ndarray:
        """95 per cent limits (2, M) of means, by drawing data sets with all of their records."""
        names, of = np.unique(self.data_sets, return_inverse=True)
        D = len(names) if len(names) >= LEAST else 0
        drawn = np.random.default_rng(0).multinomial(
            D, np.full(len(names), 1 / len(names)), RESAMPLES
        )
        weights = drawn[:, of].astype(float)
        with np.errstate(invalid="ignore"):
            means = weights @ np.nan_to_num(values).T / (weights @ ~np.isnan(values).T)
            return np.quantile(means, [0.025, 0.975], axis=0)

    def best_other(self) -> int:
        """Of the methods of other libraries that of the least mean log loss."""
        less = mean(self.loss - self.loss[self.default])
        others = (self.library == "other libraries") & ~self.rare
        return int(np.where(others, less, np.inf).argmin()) if others.any() else self.start

    def gain(self) -> np.ndarray:
        """Per cent (1, n) of the log loss of the best other method that the default takes away."""
        other = np.maximum(self.loss[self.best_other()], TIE)
        return 100 * np.maximum(1 - self.loss[[self.default]] / other, -1)


def mean(values: np.ndarray) -> np.ndarray:
    """Means over the records that a method is run on."""
    return np.ma.masked_invalid(values).mean(axis=1).filled(np.nan)


def with_limits(group: Group, values: np.ndarray) -> list[str]:
    """Means, and intervals where there are enough data sets."""
    each = zip(mean(values), *group.limits(values), strict=True)
    return [
        f"{v:.1f}" + ("" if np.isnan(low) else f" [{low:.1f}, {high:.1f}]") for v, low, high in each
    ]


def full_table(group: Group) -> str:
    """All figures of each method; those of other libraries that are ahead of the default bold."""
    losses = [group.loss, group.brier, group.ece]
    shares = [group.less(group.loss), group.less(group.brier), group.won()]
    columns = [[f"{v:.4f}" for v in mean(values)] for values in losses]
    columns += [with_limits(group, values) for values in shares]
    for column, goods in zip(columns, [*(-v for v in losses), *shares], strict=True):
        ahead = mean(goods - goods[group.default]) > TIE
        ahead &= (group.library == "other libraries") & (DEFAULT in group.methods)
        for m in np.flatnonzero(ahead):
            column[m] = f"**{column[m]}**"
    harmed = np.where(group.run, group.loss > group.loss[group.start] + HARM, np.nan)
    seconds = np.ma.median(np.ma.masked_invalid(group.of("seconds")), axis=1).filled(np.nan)
    columns += [
        [f"{100 * v:.0f}" for v in mean(harmed)],
        [f"{v:.2g}" for v in seconds],
        [f"{v:.0f}" for v in np.nansum(group.of("zeros"), axis=1)],
        [f"{v}" for v in group.failed.sum(axis=1)],
    ]
    names = starred(group)
    order = np.lexsort([-mean(shares[0]), group.rare])
    return simple_table(HEADER, [[names[m], *(c[m] for c in columns)] for m in order])


def starred(group: Group) -> list[str]:
    """Names of methods, with a star where they are left out on some records."""
    everywhere = zip(group.methods, group.run.all(axis=1), strict=True)
    return [name if run else rf"{name} \*" for name, run in everywhere]


def overview(groups: dict[str, Group]) -> str:
    """The default beside the best method of other libraries, which is bold where it is ahead."""
    lines = []
    for title, group in groups.items():
        if DEFAULT not in group.methods:
            continue
        run = group.run[group.best_other()] & group.run[group.default]
        default, other = group.loss[[group.default, group.best_other()]][:, run]
        cells = [f"{other.mean():.4f}", starred(group)[group.best_other()]]
        if other.mean() < default.mean():
            cells = [f"**{cell}**" for cell in cells]
        numbers = str(len(group.records)), str(len(set(group.data_sets)))
        gain, ahead = with_limits(group, group.gain()), f"{np.sum(default < other - TIE)}"
        lines.append([title, *numbers, f"{default.mean():.4f}", *cells, *gain, ahead])
    return simple_table(OVERVIEW, lines) if lines else ""


def groups_of(results: list[Result], name: Callable[[Result], str]) -> dict[str, Group]:
    found: dict[str, list[Result]] = {}
    for r in sorted(results, key=lambda r: (r.kind, r.classes > 2, r)):
        found.setdefault(name(r), []).append(r)
    return {title: Group(some) for title, some in found.items()}


def kind(r: Result) -> str:
    """Title of the section of a result."""
    title = [r.kind, "two classes" if r.classes == 2 else "several classes", r.drawn]
    return ", ".join(filter(None, title)).capitalize()


def beside(published: list[Result], results: list[Result]) -> str:
    """All methods on the record of which another benchmark has published results."""
    of = {r.key[:4] for r in published}
    some = [r for r in [*published, *results] if r.key[:4] in of and not r.error]
    lines = [
        [r.method.removesuffix(f", {r.library}"), r.library]
        + [f"{v:.5f}" for v in (r.log_loss, r.brier, r.ece)]
        + [f"{r.accuracy:.4f}", f"{r.seconds:.3f}"]
        for r in sorted(some, key=lambda r: r.log_loss)
    ]
    return simple_table(["method", "of", "log loss", "Brier", "ECE", "accuracy", "s"], lines)


def figure(group: Group, file: Path) -> None:
    """What each method takes away of both losses, and its wins, with intervals over data sets."""
    panels = {
        "less log loss [%]": group.less(group.loss),
        "less Brier score [%]": group.less(group.brier),
        "other methods beaten [%]": group.won(),
    }
    order = [m for m in mean(group.less(group.loss)).argsort() if not group.rare[m]]
    y, height = np.arange(len(order)), 0.8 + 0.17 * len(order)
    fig, axes = plt.subplots(1, 3, figsize=(9, height), sharey=True, layout="constrained")
    for ax, (label, values) in zip(axes, panels.items(), strict=True):
        middle, limits = mean(values)[order], group.limits(values)[:, order]
        for name, (colour, marker) in LOOKS.items():
            of = group.library[order] == name
            error = np.abs(limits - middle)[:, of]
            look = {"fmt": marker, "color": colour, "ms": 4, "lw": 1, "label": name or UNCALIBRATED}
            ax.errorbar(middle[of], y[of], xerr=error, **look)
        # The worst methods would hide how the others differ.
        if (low := np.quantile(limits[0], 0.2)) < 0:
            ax.set_xlim(left=low - 0.2 * (limits[1].max() - low))
        ax.axvline(0 if "less" in label else 50, color="0.6", lw=0.8, zorder=0)
        ax.set_xlabel(label)
        ax.grid(axis="y", color="0.92")
    axes[0].set_yticks(y, [group.methods[m] for m in order], fontsize=7)
    axes[0].set_ylim(-0.8, len(order) - 0.2)
    axes[0].legend(fontsize=8)
    fig.savefig(file, dpi=110, metadata={"Software": None})
    plt.close(fig)


def page() -> Iterator[str]:
    """Tables, after comments by which ``doc/suite.rst`` includes them, and figures."""
    of_file = {name: list(read(RESULTS / f"{name}.csv").values()) for name in ("suite", "calarena")}
    results = of_file["suite"]
    whole = [r for r in results if not r.drawn]
    everything, kinds = Group(sorted(whole)), groups_of(results, kind)
    unseen = [r for r in whole if r.folder == UNSEEN]
    groups = {"all": everything, **kinds, **({"unseen": Group(unseen)} if unseen else {})}
    yield from (".. overview", overview(groups))
    data_sets = groups_of(whole, lambda r: f"{r.data_set}, {r.kind}")
    order = sorted(data_sets, key=lambda name: np.nanmean(data_sets[name].gain()))
    yield from (".. data sets", overview({name: data_sets[name] for name in order}))
    yield ".. kinds"
    for title, group in {"All records": everything, **kinds}.items():
        text = full_table(group)
        if len(set(group.data_sets)) >= LEAST:
            name = f"suite-{title.replace(',', '').replace(' ', '-').lower()}.png"
            figure(group, DOC / "_static" / name)
            text = f".. figure:: /_static/{name}\n   :alt: {title}, as in the table\n\n{text}"
        yield titled(title, text)
    yield from (".. published", beside(of_file.get("calarena", []), results))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE.csv")
    args = parser.parse_args()
    if not args.files:
        (DOC / "suite_tables.rst").write_text("\n".join(page()))
    for file in args.files:
        groups = groups_of(list(read(file).values()), kind)
        print(*(titled(name, full_table(group)) for name, group in groups.items()), sep="\n")


if __name__ == "__main__":
    main()
