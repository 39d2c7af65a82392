"""Tasks of the command line: compare calibrators, or apply a saved calibrator."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import chain
from pathlib import Path
from threading import Timer
from typing import IO, Any

import numpy as np
from sklearn.model_selection import train_test_split

from skcalib._input.labels import is_text, shown
from skcalib._input.logits import are_probabilities
from skcalib._output import replacing
from skcalib._typing import Array
from skcalib._warnings import warn
from skcalib.comparison import compare_calibrators
from skcalib.datasets import load_digits_logits
from skcalib.export import from_json, to_json, to_onnx
from skcalib.report import calibration_report

from .reading import (
    FileColumns,
    FileRows,
    class_columns,
    file_suffix,
    read_parts,
    read_rows,
    reading,
)

# Packages that file formats need.
NEEDED = {".skops": "skops.io", ".onnx": "onnx", ".csv": "pandas", ".tsv": "pandas",
          ".parquet": "pyarrow"}  # fmt: skip

# Types in calibrators that skops does not trust by itself: types of skcalib, and trees.
TRUSTED = (
    "skcalib.",
    "sklearn.ensemble._hist_gradient_boosting.predictor.",
    "sklearn.tree._tree.Tree",
)


@contextmanager
def activity(text: str) -> Iterator[None]:
    """Print a line to standard error if the block takes longer than two seconds."""
    timer = Timer(2, lambda: print(f"skcalib: {text} ...", file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def say(*lines: str) -> None:
    """Print lines, and nothing more once the reader has closed the pipe, as ``head`` does."""
    try:
        print(*lines, sep="\n", flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def target_file(
    args: argparse.Namespace, option: str, path: str, suffixes: tuple[str, ...]
) -> Path:
    """Return the path of a file to write, or raise a ValueError before the computation.

    ``option`` is the option that named the file.
    """
    target = Path(path)
    if target.suffix.lower() not in suffixes:
        raise ValueError(f"{option} must end in {', '.join(suffixes)}, got {path}. Rename it.")
    if not target.parent.is_dir():
        raise ValueError(f"{option} must be in an existing directory, got {path}. Make it first.")
    sources = (args.logits, args.labels, args.test_logits, args.test_labels, args.apply)
    if target.resolve() in [Path(source).resolve() for source in sources if source]:
        raise ValueError(f"{option} must not be a file to read, got {path}. Choose another name.")
    if target.suffix.lower() in NEEDED:
        import_module(NEEDED[target.suffix.lower()])
    return target


# Comparison.
def compare(args: argparse.Namespace) -> None:
    """Compare all calibrators, and write diagrams, a report and the best calibrator."""
    picture = target_file(args, "--output", args.output or "skcalib-reliability.png",
                          (".png", ".pdf", ".svg"))  # fmt: skip
    page = target_file(args, "--report", args.report, (".html", ".htm"))
    saved = None
    if args.save is not None:
        saved = target_file(args, "--save", args.save, (".json", ".skops", ".joblib", ".onnx"))
    with activity("reading files"):
        rows, test = _load(args)
    classes = _parse_classes(rows.y, args.classes)
    with activity("fitting and comparing calibrators"):
        comparison = compare_calibrators(rows.X, rows.y, test=(test.X, test.y), labels=classes)
    best = next(name for name in comparison.names if name != "uncalibrated")
    calibrator = comparison.calibrators[best]
    if hasattr(rows.X, "columns"):  # --apply finds the columns by these names
        calibrator.feature_names_in_ = rows.X.columns.to_numpy(object)
    sizes = f"{len(rows.y):,} rows to calibrate on, {len(test.y):,} held out"
    notes = "".join(f" ({note})" for note in dict.fromkeys((rows.note, test.note)) if note)
    say(f"{args.logits or 'Neural network on digits'}: {sizes}{notes}")
    say(f"Classes in the order of the columns: {shown(calibrator.classes_)}\n\n{comparison}\n")
    with activity("writing the report"):
        report = _report(args, calibrator, test, best, comparison, sizes + notes)
        with replacing(picture) as file:
            report.figure_.savefig(file, dpi=135, format=picture.suffix[1:].lower())
        report.to_html(page)
    say(*(textwrap.fill(sentence, 88) for sentence in report.verdict_))
    say(f"\nReliability diagrams: {picture}\nReport on {best}: {page}")
    if saved:
        inputs = "logarithms of probabilities" if args.probabilities else "logits"
        say(f"{best}, a calibrator of {inputs}: {_save(calibrator, saved)}")


def _load(args: argparse.Namespace) -> tuple[FileRows, FileRows]:
    """Read rows to calibrate on and rows to evaluate on, by default two random halves."""
    if args.logits is None:
        digits = load_digits_logits()
        rows = FileRows(digits.logits_calibration, digits.y_calibration)
        return rows, FileRows(digits.logits_test, digits.y_test)
    columns = FileColumns(args.label_column, args.columns)
    rows = _as_logits(read_rows(args.logits, args.labels, columns), args)
    if args.test_logits is not None:
        return rows, _as_logits(read_rows(args.test_logits, args.test_labels, columns), args)
    _, counts = np.unique(rows.y, return_counts=True)
    stratify = rows.y if counts.min() > 1 else None
    X, X_test, y, y_test = train_test_split(
        rows.X, rows.y, test_size=0.5, random_state=0, stratify=stratify
    )
    return rows._replace(X=X, y=y), rows._replace(X=X_test, y=y_test)


def _as_logits(rows: FileRows, args: argparse.Namespace) -> FileRows:
    """Convert probabilities in files to their logarithms, if --probabilities says so."""
    if not args.probabilities:
        return rows
    P = np.asarray(rows.X, dtype=np.float64)
    if P.shape[1] > 1 and are_probabilities(P / 100):
        P = P / 100
    if not (P.min() >= 0 and P.max() <= 1.001):
        raise ValueError(
            f"{args.logits} must hold probabilities, got numbers from {P.min():g} to {P.max():g}. "
            "Leave out --probabilities if the numbers are logits; divide percentages by 100."
        )
    if P.shape[1] == 1 and rows.y is not None and args.classes is None and is_text(rows.y):
        raise ValueError(
            f"{args.logits} must name the label of its one column of probabilities, got text "
            f"labels {shown(np.unique(rows.y))}. Name both with --classes, this label second."
        )
    tiny = np.finfo(np.float64).tiny
    Z = np.log(np.maximum(P, tiny))
    if P.shape[1] == 1:  # log-odds of the second class
        Z -= np.log(np.maximum(1 - P, tiny))
    if hasattr(rows.X, "columns"):
        Z = type(rows.X)(Z, index=rows.X.index, columns=rows.X.columns)
    return rows._replace(X=Z)


def _parse_classes(labels: Array | None, texts: list[str] | None) -> list[Any] | None:
    """Return the labels in --classes, as integers if the labels in the files are integers."""
    if texts is None or labels is None or labels.dtype.kind not in "iu":
        return texts
    return [int(text) if text.removeprefix("-").isdecimal() else text for text in texts]


def _report(
    args: argparse.Namespace,
    calibrator: Any,
    test: FileRows,
    best: str,
    comparison: Any,
    sizes: str,
) -> Any:
    """Return a report on the best calibrator, with the facts of this run, in a new figure."""
    from matplotlib.figure import Figure

    sources = {"Logits": args.logits, "Labels": args.labels, "Test logits": args.test_logits}
    metadata = {name: file for name, file in sources.items() if file}
    if args.logits is None:
        metadata = {"Model": "small neural network on scikit-learn's digits"}
    return calibration_report(
        calibrator, _inputs(calibrator, test), test.y, name=best, comparison=comparison,
        random_state=0, figure=Figure((8.6, 7), layout="constrained"),
        metadata={**metadata, "Rows": sizes, "Command": args.command},
    )  # fmt: skip


def _save(calibrator: Any, target: Path) -> Path:
    """Write a fitted calibrator, and return the path.

    The format is skops if the format of the suffix cannot store the calibrator.
    """
    try:
        _write_calibrator(calibrator, target)
    except TypeError:  # JSON stores maps and bins, but no trees
        import_module(NEEDED[".skops"])
        wanted, target = target.suffix, target.with_suffix(".skops")
        warn(f"{wanted} cannot store this calibrator, so it is saved as {target}.")
        _write_calibrator(calibrator, target)
    return target


def _write_calibrator(calibrator: Any, target: Path) -> None:
    """Write a fitted calibrator in the format of the suffix."""
    with replacing(target) as file:
        match target.suffix.lower():
            case ".json":
                file.write(to_json(calibrator).encode())
            case ".onnx":
                file.write(to_onnx(calibrator).SerializeToString())
            case ".skops":
                import skops.io

                file.write(skops.io.dumps(calibrator))
            case _:
                import joblib

                joblib.dump(calibrator, file)


# Application.
def apply(args: argparse.Namespace) -> None:
    """Write calibrated probabilities and predicted labels for the logits in a file."""
    kind = file_suffix(args.logits)
    default = {".npz": ".npy", ".tsv": ".csv"}.get(kind, kind)
    path = args.output or f"skcalib-probabilities{default}"
    target = target_file(args, "--output", path, (".csv", ".parquet", ".npy"))
    if args.keep and target.suffix.lower() == ".npy":
        raise ValueError(f"--keep needs a table as --output, .csv or .parquet, got {target}.")
    calibrator = _load_calibrator(args.apply)
    columns = FileColumns(args.label_column, args.columns, args.keep)
    parts = read_parts(args.logits, columns, lambda names: _known_columns(calibrator, names))
    parts = (_as_logits(part, args) for part in parts)
    write = {".csv": _write_csv, ".parquet": _write_parquet, ".npy": _write_array}
    with activity("calibrating"), replacing(target) as file:
        n_rows = write[target.suffix.lower()](file, calibrator, parts)
    say(f"Calibrated probabilities of {n_rows:,} rows for {shown(calibrator.classes_)}: {target}")


def _load_calibrator(file: str) -> Any:
    """Load a calibrator from a file in a format that cannot execute code."""
    with reading(file):
        if file.lower().endswith(".json"):
            return from_json(Path(file).read_text(encoding="utf-8-sig"))
        if not file.lower().endswith(".skops"):
            raise ValueError("--apply reads .json and .skops, because other formats execute code")
        import skops.io

        types = skops.io.get_untrusted_types(file=file)
        if foreign := [name for name in types if not name.startswith(TRUSTED)]:
            raise ValueError(f"it must contain only types of skcalib, got {shown(foreign)}")
        return skops.io.load(file, trusted=types)


def _known_columns(calibrator: Any, names: list[str]) -> list[str]:
    """Return the columns in ``names`` that a calibrator was fitted to, or no columns.

    If it was fitted without names, the columns are those with the names of its classes.
    """
    if hasattr(calibrator, "feature_names_in_"):
        fitted = list(calibrator.feature_names_in_)
        return fitted if set(fitted) <= set(names) else []
    if len(calibrator.classes_) != getattr(calibrator, "n_features_in_", 0):
        return []
    return class_columns(list(calibrator.classes_), names)


def _write_array(file: IO[bytes], calibrator: Any, parts: Iterator[FileRows]) -> int:
    """Write the probabilities of all parts, and return the number of rows."""
    P = np.concatenate([calibrator.predict_proba(_inputs(calibrator, part)) for part in parts])
    np.save(file, P)
    return len(P)


def _write_csv(file: IO[bytes], calibrator: Any, parts: Iterator[FileRows]) -> int:
    """Write the table of each part, and return the number of rows."""
    n_rows = 0
    for part in parts:
        table = _table(calibrator, part)
        file.write(table.to_csv(index=False, header=n_rows == 0).encode())
        n_rows += len(table)
    return n_rows


def _write_parquet(file: IO[bytes], calibrator: Any, parts: Iterator[FileRows]) -> int:
    """Write the table of each part, and return the number of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = (pa.Table.from_pandas(_table(calibrator, part)) for part in parts)
    first = next(tables)
    n_rows = 0
    with pq.ParquetWriter(file, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)
            n_rows += len(table)
    return n_rows


def _inputs(calibrator: Any, part: FileRows) -> Any:
    """Return the logits, with names of columns if the calibrator was fitted to names."""
    return part.X if hasattr(calibrator, "feature_names_in_") else np.asarray(part.X)


def _table(calibrator: Any, part: FileRows) -> Any:
    """Return a table of copied columns, the probability of each class, and the predicted label."""
    import pandas as pd

    X = _inputs(calibrator, part)
    P, labels = calibrator.predict_proba(X), calibrator.predict(X)
    columns = dict(zip(map(str, calibrator.classes_.tolist()), P.T, strict=True))
    if labels.ndim == 1:  # with several labels per row, the columns are the labels
        columns["predicted label" if "label" in columns else "label"] = labels
    frame = pd.DataFrame(columns)
    if part.copied is None:
        return frame
    if twice := set(part.copied.columns) & set(columns):
        raise ValueError(
            f"--keep must name no column of the results, got {shown(sorted(twice))}. Rename it."
        )
    return pd.concat([part.copied.reset_index(drop=True), frame], axis=1)
