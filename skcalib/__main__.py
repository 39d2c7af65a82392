"""``python -m skcalib``: calibrate a classifier's logits and show what that changed."""

from __future__ import annotations

import argparse
import csv
import os
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

import skcalib

from . import _parquet
from ._chunks import ChunkError
from .compare import compare_calibrators
from .datasets import load_digits_logits
from .display import ReliabilityDisplay
from .metrics import ReliabilityCurve, reliability_curve
from .report import calibration_report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[Any]

# A bar is shown after so many seconds.
PATIENCE = 3.0

DESCRIPTION = """\
Calibrate a classifier: fit every calibrator of skcalib on one set of rows, compare the
probabilities before and after on other rows, draw the reliability diagrams, and report on the
best.

Without files, the classifier is a small neural network that is trained on scikit-learn's
digits, which takes a second.
"""

EPILOG = """\
files:
  .npy, .npz or .csv. Logits have one row per sample and one column per class, or a single
  column with the log-odds of the second class. Labels are one per row; sorted, they are in the
  order of the columns, or else --classes says the order. A .npz file with several arrays takes
  the name of one behind a colon. A .csv file of numbers may have a header line.

  Parquet files, which may be larger than memory, hold the labels in the column that --label-column
  names, and logits in all others: a file, a directory, or a pattern in quotes. They are worked on
  with Dask, in processes on this machine (pip install 'skcalib[dask]').

examples:
  python -m skcalib
  python -m skcalib --logits val_logits.npy --labels val_labels.npy \\
      --test-logits test_logits.npy --test-labels test_labels.npy
  python -m skcalib --logits run.npz:predictions --labels run.npz:ground_truth --probabilities
  python -m skcalib --logits 'scores/*.parquet' --label-column y

Without test files half of the rows, drawn at random with a fixed seed, are held out. The exit
status is 2 if the input is no good; nothing is written then.
"""


class Split(NamedTuple):
    """Logits and labels of some rows: arrays, or Dask collections."""

    logits: Any
    labels: Any


class InputError(Exception):
    """What is wrong with the user's input, in one sentence."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    args = _parser().parse_args(argv)
    progress = Progress(sys.stderr)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = _warning_printer(progress)
        try:
            picture = _picture_path(args.output)
            _run(args, picture, progress)
        except (InputError, ChunkError, ValueError, OSError) as error:
            progress.clear()
            print(f"skcalib: {error}", file=sys.stderr)
            return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m skcalib",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--logits", metavar="FILE", help="logits to fit the calibrators on")
    parser.add_argument("--labels", metavar="FILE", help="their labels")
    parser.add_argument("--test-logits", metavar="FILE", help="logits to judge them on")
    parser.add_argument("--test-labels", metavar="FILE", help="their labels")
    parser.add_argument(
        "--label-column", metavar="NAME", help="column of Parquet files that holds the labels"
    )
    parser.add_argument(
        "--probabilities",
        action="store_true",
        help="the files hold probabilities, whose logarithms are the logits",
    )
    parser.add_argument(
        "--classes", metavar="LABEL", nargs="+", help="all labels in the order of the columns"
    )
    parser.add_argument(
        "--output",
        metavar="PATH",
        default=".",
        help="where to write the diagrams: a file, which is replaced if it is there, or a "
        "directory that exists, to write skcalib-reliability.png to (default: the working "
        "directory); a report on the best calibrator is written next to it",
    )
    return parser


def _run(args: argparse.Namespace, picture: Path, progress: Progress) -> None:
    with _parquet.cluster() if args.label_column is not None else nullcontext():
        source, calibration, test = _load(args)
        classes = _as_labels(args.classes, calibration.labels)
        found = compare_calibrators(*calibration, test=test, classes=classes, on_progress=progress)
        progress.clear()
        labels = found.calibrators["TemperatureScaling"].classes_
        curves = {
            name: reliability_curve(
                test.labels, calibrator.predict_proba(test.logits), labels=labels
            )
            for name, calibrator in found.calibrators.items()
        }
        print(
            f"{source}: {len(calibration.labels):,} rows to calibrate on, {len(test.labels):,} "
            f"held out, {len(labels)} classes\n\n{found}\n"
        )
        some = test if args.label_column is None else Split(*_parquet.some_rows(*test))
    print(textwrap.fill(_finding(found, curves["uncalibrated"]), 88))
    print(f"The temperature is {found.calibrators['TemperatureScaling'].temperature_:.4g}.")
    best = next(name for name in found.names if name != "uncalibrated")
    report = picture.with_name(
        f"{picture.stem.removesuffix('-reliability')}-report{picture.suffix}"
    )
    _save(_diagrams(curves), picture)
    _save(calibration_report(found.calibrators[best], *some, name=best), report)
    print(f"Reliability diagrams: {picture}\nReport on {best}: {report}")


def _as_labels(classes: list[str] | None, labels: Any) -> Array | None:
    """Labels from the command line, of the type of those in the files."""
    if classes is None:
        return None
    is_number = getattr(labels.dtype, "kind", "O") in "biuf"
    return np.asarray(classes).astype(labels.dtype) if is_number else np.asarray(classes)


# --------------------------------------------------------------------------------------
# Reading.


def _load(args: argparse.Namespace) -> tuple[str, Split, Split]:
    """Name of the data, rows to calibrate on, rows to judge on."""
    if args.label_column is None and (args.logits is None) != (args.labels is None):
        if args.logits is not None and Path(args.logits).suffix in {".parquet", ""}:
            raise InputError(f"--logits {args.logits} needs --label-column, got none.")
        raise InputError("--logits and --labels go together, got only one of them.")
    if args.label_column is None and (args.test_logits is None) != (args.test_labels is None):
        raise InputError("--test-logits and --test-labels go together, got only one of them.")
    if args.label_column is not None:
        return _load_parquet(args)
    if args.logits is None:
        if args.test_logits is not None or args.classes is not None or args.probabilities:
            raise InputError("There is nothing to calibrate on: give --logits and --labels.")
        digits = load_digits_logits()
        return (
            "Neural network on digits",
            Split(digits.logits_calibration, digits.y_calibration),
            Split(digits.logits_test, digits.y_test),
        )
    as_logs = args.probabilities
    given = _load_split(args.logits, args.labels, probabilities=as_logs)
    if args.test_logits is None:
        return args.logits, *_halves(given)
    test = _load_split(args.test_logits, args.test_labels, probabilities=as_logs)
    return args.logits, given, test


def _load_parquet(args: argparse.Namespace) -> tuple[str, Split, Split]:
    if args.logits is None or args.labels is not None or args.test_labels is not None:
        raise InputError(
            "--label-column goes with --logits and --test-logits, which hold the labels as well; "
            "leave --labels and --test-labels out."
        )
    table = _parquet.read(args.logits, args.label_column)
    if args.test_logits is None:
        tables = _parquet.halves(table)
    else:
        tables = [table, _parquet.read(args.test_logits, args.label_column)]
    calibration, test = (Split(*table.split()) for table in _parquet.kept(tables))
    if args.probabilities:
        of_part = partial(_logs_of_part, file=args.logits)
        calibration, test = (
            Split(rows.logits.map_partitions(of_part), rows.labels) for rows in (calibration, test)
        )
    return args.logits, calibration, test


def _logs_of_part(part: Any, file: str) -> Any:
    """A data frame of logarithms for one of probabilities."""
    return part * np.nan if part.empty else part * 0 + _logs(part.to_numpy(), file)


def _load_split(logits_file: str, labels_file: str, *, probabilities: bool) -> Split:
    logits, labels = _read(logits_file), _read(labels_file)
    logits = logits[:, None] if logits.ndim == 1 else logits
    if logits.ndim != 2 or logits.dtype.kind not in "fiu":
        raise InputError(
            f"{logits_file} must hold a table of numbers, got shape {logits.shape} of type "
            f"{logits.dtype}."
        )
    if labels.size != len(labels):
        raise InputError(f"{labels_file} must hold one label per row, got shape {labels.shape}.")
    labels = labels.ravel()
    if len(logits) != len(labels):
        raise InputError(
            f"{logits_file} and {labels_file} must be of one length, got {len(logits)} and "
            f"{len(labels)} rows."
        )
    return Split(_logs(logits, logits_file) if probabilities else logits, labels)


def _logs(P: Array, file: str) -> Array:
    P = P if P.dtype.kind == "f" else P.astype(float)
    if not (P.min() >= 0 and P.max() <= 1.001):
        raise InputError(
            f"{file} must hold probabilities, got numbers from {P.min():g} to {P.max():g}; "
            "leave --probabilities out if they are logits."
        )
    tiny = np.finfo(P.dtype).tiny
    P = np.maximum(P, tiny)
    return np.log(P) if P.shape[1] > 1 else np.log(P) - np.log(np.maximum(1 - P, tiny))


def _halves(rows: Split) -> tuple[Split, Split]:
    labels, counts = np.unique(rows.labels, return_counts=True)
    stratify = rows.labels if counts.min() > 1 and len(rows.labels) >= 2 * len(labels) else None
    parts = train_test_split(*rows, test_size=0.5, random_state=0, stratify=stratify)
    return Split(parts[0], parts[2]), Split(parts[1], parts[3])


def _read(file: str) -> Array:
    """The array in a .npy, .npz (``FILE:NAME``) or .csv file."""
    path, name = file, None
    if ".npz:" in file:
        path, name = file.rsplit(":", 1)
    suffix = Path(path).suffix.lower()
    try:
        if suffix == ".npy":
            array = np.load(path, allow_pickle=False)
        elif suffix == ".npz":
            array = _read_npz(path, name)
        elif suffix == ".csv":
            array = _read_csv(path)
        else:
            raise InputError(f"{file} must be a .npy, .npz or .csv file.")
    except FileNotFoundError:
        raise InputError(f"{path} does not exist.") from None
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{path} cannot be read: {error}".rstrip(".") + ".") from error
    if array.size == 0:
        raise InputError(f"{file} is empty.")
    return array


def _read_npz(path: str, name: str | None) -> Array:
    with np.load(path, allow_pickle=False) as arrays:
        if name is None and len(arrays.files) == 1:
            name = arrays.files[0]
        if name not in arrays.files:
            raise InputError(
                f"{path} holds the arrays {', '.join(arrays.files)}: name one of them, as in "
                f"{path}:{arrays.files[0]}."
            )
        return arrays[name]


def _read_csv(path: str) -> Array:
    """Numbers, below a header line or not; or, if some field is not a number, strings."""
    with Path(path).open(newline="", encoding="utf-8-sig") as file:
        lines = [line for line in csv.reader(file) if line]
    if len({len(line) for line in lines}) > 1:
        raise ValueError("its lines differ in the number of fields")
    body = lines if lines and any(map(_is_number, lines[0])) else lines[1:]
    if not all(_is_number(field) for line in body for field in line):
        return np.array(lines)
    table = np.array(body, dtype=np.float64)
    whole = table.shape[1:] == (1,) and bool((table == np.floor(table)).all())
    return table.astype(np.int64) if whole else table


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


# --------------------------------------------------------------------------------------
# Reporting.


def _finding(found: skcalib.CalibratorComparison, before: ReliabilityCurve) -> str:
    """What was found, in one sentence."""
    best = next(k for k, name in enumerate(found.names) if name != "uncalibrated")
    old = found.names.index("uncalibrated")

    def change(measure: str) -> str:
        values = found.mean(measure)
        verb = "lowers" if values[best] < values[old] else "does not lower"
        return f"{verb} the {measure} from {values[old]:.4f} to {values[best]:.4f}"

    accuracy = found.mean("accuracy")[old]
    confidence = before.weight @ before.confidence / before.weight.sum()
    sure = "over-confident" if confidence > accuracy else "under-confident"
    return (
        f"The classifier is {sure} on the rows held out: {confidence:.1%} sure on average, right "
        f"in {accuracy:.1%}; {found.names[best]} {change('ECE')} and {change('log loss')}."
    )


def _diagrams(curves: dict[str, ReliabilityCurve]) -> Figure:
    """Reliability diagrams in rows of four."""
    from matplotlib.figure import Figure

    n_rows = -(-len(curves) // 4)
    figure = Figure(figsize=(18, 5 * n_rows), layout="constrained")
    for k, (name, curve) in enumerate(curves.items(), start=1):
        ax = figure.add_subplot(n_rows, 4, k)
        ReliabilityDisplay(curve, name=name).plot(ax)
    return figure


def _save(figure: Any, picture: Path) -> None:
    """Write a picture; the file appears when it is whole."""
    partial = picture.with_name(f".{picture.stem}-{os.getpid()}{picture.suffix}")
    try:
        figure.savefig(partial, dpi=150)
        partial.replace(picture)
    finally:
        partial.unlink(missing_ok=True)


def _picture_path(output: str) -> Path:
    """The file to write, for a path that is one or a directory."""
    picture = Path(output)
    if picture.is_dir():
        return picture / "skcalib-reliability.png"
    if not picture.parent.is_dir():
        raise InputError(f"--output {output} must lie in a directory that exists.")
    if picture.suffix.lower() not in {".png", ".pdf", ".svg"}:
        raise InputError(
            f"--output {output} must be a directory that exists, or end in .png, .pdf or .svg."
        )
    return picture


class Progress:
    """A bar on a terminal, once the work has taken a few seconds."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.start = time.monotonic()
        self.shown = False

    def __call__(self, done: int, total: int) -> None:
        """Show how much is done."""
        if not self.stream.isatty() or time.monotonic() - self.start < PATIENCE:
            return
        bar = "=" * (30 * done // total)
        self.stream.write(f"\r[{bar:30}] {done} of {total} fits")
        self.stream.flush()
        self.shown = True

    def clear(self) -> None:
        """Leave an empty line."""
        if self.shown:
            self.stream.write(f"\r{'':60}\r")
            self.shown = False


def _warning_printer(progress: Progress) -> Callable[..., None]:
    """What shows a warning as a sentence."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        progress.clear()
        print(f"skcalib: warning: {message}", file=sys.stderr)

    return show


if __name__ == "__main__":
    sys.exit(main())
