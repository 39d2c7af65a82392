"""The tables of the paper on recorded network outputs: ECE, error and log loss by method.

The protocol of Guo, Pleiss, Sun and Weinberger, "On Calibration of Modern Neural Networks"
(arXiv:1706.04599): methods are fitted on a validation set, 5000 rows for CIFAR, and evaluated on
the test rows, the ECE with 15 bins. A record is a .npz file as in ``records.py``. Vector and matrix
scaling are included in the form of the paper, without regularization and on the raw logits, and in
skcalib's default form; histograms have 15 bins, of equal width and of equal weight. A star marks a
fit with a ConvergenceWarning. ``--times`` also measures the statements of the paper about
computation time, and ``--only-times`` nothing else.
Run::

    python benchmarks/reproduce_table1.py --records DIRECTORY [--splits 20] [--times]
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from records import Measures, measures, read
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.exceptions import ConvergenceWarning
from timing import medians

from skcalib import (
    BBQ,
    HistogramBinning,
    IsotonicCalibration,
    MatrixScaling,
    TemperatureScaling,
    VectorScaling,
)

Record = tuple[np.ndarray, np.ndarray]
# In the order of the paper; then bins of equal weight, which it may have used, and our defaults.
METHODS = {
    "uncalibrated": None,
    "histogram": HistogramBinning(pseudo_rows=0),
    "isotonic": IsotonicCalibration(pseudo_rows=0),
    "BBQ": BBQ(),
    "temperature": TemperatureScaling(smoothing=0),
    "vector": VectorScaling(alpha=0, smoothing=0, normalize=False),
    "matrix": MatrixScaling(alpha=0, smoothing=0, normalize=False),
    "equal weight": HistogramBinning(strategy="quantile", pseudo_rows=0),
    "vector, default": VectorScaling(),
    "matrix, default": MatrixScaling(),
}
# Tables of the paper: name, measure of records.py, factor, sign, decimals.
TABLES = [
    ("ECE in per cent, 15 bins (table 1)", "ece", 100, 1, 2),
    ("error in per cent (table S2)", "accuracy", 100, -1, 2),
    ("log loss (table S3)", "log_loss", 1, 1, 4),
]
# Widths of the columns, and the number of repetitions of the rows to measure the growth of times.
WIDTHS = [max(len(name), 13) + 2 for name in METHODS]
GROWTH = 8


def all_rows(file: Path) -> Record:
    Z, y = map(np.concatenate, zip(*read(file), strict=True))
    return Z, y


def split(n_rows: int, n_fit: int, seed: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Calibration and test rows: the first rows and the others, or a random split."""
    rows = np.arange(n_rows) if seed is None else np.random.default_rng(seed).permutation(n_rows)
    return rows[:n_fit], rows[n_fit:]


def evaluated(name: str, fit: Record, test: Record) -> tuple[Measures, str]:
    """Measures on the test rows, and the ConvergenceWarning of the fit if there is one."""
    (Z, y), K = test, test[0].shape[1]
    if METHODS[name] is None:
        return measures(softmax(Z, axis=1), y), ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        fitted = METHODS[name].set_params(classes=range(K)).fit(*fit)
    messages = [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]
    return measures(fitted.predict_proba(Z), y), "".join(messages[:1])


def values_of(record: Record, args: argparse.Namespace) -> tuple[np.ndarray, list[str]]:
    """Measures (n_splits, n_methods, n_measures), and the warning of each method, if any."""
    Z, y = record
    values, warned = [], [""] * len(METHODS)
    for seed in range(args.splits) if args.splits else [None]:
        a, b = split(len(y), args.rows, seed)
        found = [evaluated(name, (Z[a], y[a]), (Z[b], y[b])) for name in METHODS]
        values.append([v for v, _ in found])
        warned = [old or new for old, (_, new) in zip(warned, found, strict=True)]
    return np.array(values), warned


def cell(values: np.ndarray, decimals: int, *, optimal: bool) -> str:
    """A figure, or the mean and the standard deviation over the splits."""
    text = f"{values.mean():.{decimals}f}"
    if len(values) > 1:
        text += f" ±{values.std(ddof=1):.{decimals}f}"
    return text + ("" if optimal else "*")


def tables(records: dict[str, Record], args: argparse.Namespace) -> tuple[list, list[str]]:
    """Lines of cells, of which the first is the measure and the second the record; and notes."""
    found = {name: values_of(record, args) for name, record in records.items()}
    lines = []
    for title, measure, factor, sign, decimals in TABLES:
        place = Measures._fields.index(measure)
        for name, (values, warned) in found.items():
            figures = values[:, :, place].T * sign * factor + factor * (sign < 0)
            each = zip(figures, warned, strict=True)
            lines.append([title, name, *(cell(f, decimals, optimal=not w) for f, w in each)])
    each = [(name, zip(METHODS, warned, strict=True)) for name, (_, warned) in found.items()]
    return lines, [f"* {name}, {m}: {text}" for name, pairs in each for m, text in pairs if text]


def show(lines: list[list[str]]) -> None:
    for title, *_ in TABLES:
        print(f"\n{title}\n{'':26}" + "".join(map(str.rjust, METHODS, WIDTHS)))
        for which, record, *cells in lines:
            if which == title:
                print(f"{record:26}" + "".join(map(str.rjust, cells, WIDTHS)))


def slopes(records: dict[str, Record], n_fit: int) -> None:
    """Of vector scaling: "the learned vector has nearly constant entries"."""
    print("\nslopes of vector scaling, as multiples of the one slope of temperature scaling")
    for record, (Z, y) in records.items():
        texts = []
        for name in ("vector", "vector, default"):
            K, fit = range(Z.shape[1]), (Z[:n_fit], y[:n_fit])
            vector = METHODS[name].set_params(classes=K).fit(*fit)
            one = vector.temperature_ / TemperatureScaling(classes=K).fit(*fit).temperature_
            least, most = vector.coef_.min() / one, vector.coef_.max() / one
            texts.append(f"{name}: {least:.2f} to {most:.2f}")
        print(f"{record:26}" + "   ".join(texts))


def loss_of(Z: np.ndarray, y: np.ndarray) -> Callable[[float], float]:
    rows = np.arange(len(y))
    return lambda b: -log_softmax(float(np.squeeze(b)) * Z, axis=1)[rows, y].mean()


def line_search(Z: np.ndarray, y: np.ndarray) -> float:
    """Naive line search for the inverse temperature, to six digits."""
    options = {"xatol": 1e-6}
    return minimize_scalar(loss_of(Z, y), bounds=(1e-2, 10), method="bounded", options=options).x


def conjugate_gradients(Z: np.ndarray, y: np.ndarray) -> tuple[int, int, float]:
    """scipy's method from an initial value of 1: iterations, passes, and relative error."""

    def slope(b: np.ndarray) -> np.ndarray:
        P = softmax(b[0] * Z, axis=1)
        return np.array([((P * Z).sum(axis=1) - Z[np.arange(len(y)), y]).mean()])

    found = minimize(loss_of(Z, y), np.ones(1), jac=slope, method="CG")
    exact = 1 / TemperatureScaling(classes=range(Z.shape[1])).fit(Z, y).temperature_
    return found.nit, found.nfev + found.njev, abs(found.x[0] / exact - 1)


def times_of(Z: np.ndarray, y: np.ndarray, repeat: int) -> dict[str, float]:
    """Seconds of a fit of every method, and of the naive line search."""
    K = range(Z.shape[1])
    tasks = {name: partial(c.set_params(classes=K).fit, Z, y) for name, c in METHODS.items() if c}
    return medians({**tasks, "line search": partial(line_search, Z, y)}, repeat, slow=5.0)


def ratios(Z: np.ndarray, y: np.ndarray, repeat: int) -> dict[str, float]:
    """Fits relative to softmax and to temperature scaling, "by far the fastest" in the paper."""
    # Alone, because the state of the allocator after a fit can make it several times slower.
    unit = medians({"softmax": partial(softmax, Z, axis=1)}, 20)["softmax"]
    print(f"{len(y)} rows, {Z.shape[1]} classes; a softmax pass takes {1000 * unit:.2f} ms")
    seconds = times_of(Z, y, repeat)
    for name, t in sorted(seconds.items(), key=lambda item: item[1]):
        ratio = t / seconds["temperature"]
        print(f"    {name:18}{1000 * t:10.1f} ms{t / unit:9.1f} softmax{ratio:9.2f} temperature")
    return seconds


def more_rows(Z: np.ndarray, y: np.ndarray) -> Record:
    """The rows several times, with a little noise so that there are no ties."""
    noise = np.random.default_rng(0).normal(scale=1e-3, size=(GROWTH * len(y), Z.shape[1]))
    return np.tile(Z, (GROWTH, 1)) + noise, np.tile(y, GROWTH)


def growth(few: dict[str, float], many: dict[str, float]) -> None:
    """Growth of times: "all methods scale linearly with the number of validation set samples"."""
    print(f"{GROWTH} times the rows:", ", ".join(f"{k} {many[k] / few[k]:.1f}" for k in many))


def per_iteration(records: dict[str, Record], seconds: dict[str, dict[str, float]]) -> None:
    """Vector and matrix scaling, "linear and quadratic respectively in the number of classes"."""
    print("\nmilliseconds per iteration (and iterations), by the number of classes")
    for name in ("vector", "matrix", "vector, default", "matrix, default"):
        texts = []
        for record, (Z, y) in records.items():
            K = Z.shape[1]
            steps = METHODS[name].set_params(classes=range(K)).fit(Z, y).n_iter_
            texts.append(f"{K}: {1000 * seconds[record][name] / steps:5.2f} ({steps:3})")
        print(f"    {name:18}" + "   ".join(texts))


def times(records: dict[str, Record], args: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")
    rows = {name: (Z[: args.rows], y[: args.rows]) for name, (Z, y) in records.items()}
    seconds = {}
    for name, record in rows.items():
        print(f"\n{name}")
        seconds[name] = ratios(*record, args.repeat)
        growth(seconds[name], ratios(*more_rows(*record), args.repeat))
        n_iter, n_passes, off = conjugate_gradients(*record)
        print(f"conjugate gradients: {n_iter} iterations, {n_passes} passes, error {off:.0e}")
    per_iteration(rows, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--records", type=Path, required=True, metavar="DIRECTORY")
    parser.add_argument(
        "--rows", type=int, default=5000, help="number of calibration rows, the first ones"
    )
    parser.add_argument("--splits", type=int, default=0, help="number of random splits instead")
    parser.add_argument("--output", type=Path, metavar="FILE", help="the tables as .csv")
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--only-times", action="store_true")
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    records = {f.stem: all_rows(f) for f in sorted(args.records.glob("*.npz"))}
    if not args.only_times:
        lines, notes = tables(records, args)
        show(lines)
        print("", *notes, sep="\n")
        slopes(records, args.rows)
        if args.output:
            with args.output.open("w", newline="") as file:
                csv.writer(file).writerows([["measure", "record", *METHODS], *lines])
    if args.times or args.only_times:
        times(records, args)


if __name__ == "__main__":
    main()
