"""Tasks of the command line: compare calibrators, or apply a saved calibrator."""

from __future__ import annotations

import argparse
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

from skcalib._output import replacing
from skcalib._rows import Array
from skcalib._validation.labels import shown
from skcalib.comparison import compare_calibrators
from skcalib.datasets import load_digits_logits
from skcalib.export import from_json, to_json, to_onnx
from skcalib.report import calibration_report

from .reading import ARRAYS, Columns, Rows, read_parts, read_rows, reading, suffix_of

# Packages that formats need.
NEEDED = {".skops": "skops.io", ".onnx": "onnx", ".csv": "pandas", ".tsv": "pandas",
          ".parquet": "pyarrow"}  # fmt: skip

# Types in calibrators beyond those that skops trusts: our own, and boosted trees.
TRUSTED = ("skcalib.", "sklearn.ensemble._hist_gradient_boosting.predictor.")


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


def target_file(
    args: argparse.Namespace, option: str, path: str, suffixes: tuple[str, ...]
) -> Path:
    """Path of a file to write, which is checked before the computation."""
    target = Path(path)
    if target.suffix.lower() not in suffixes:
        raise ValueError(f"{option} must end in {', '.join(suffixes)}, got {path}.")
    if not target.parent.is_dir():
        raise ValueError(f"{option} must lie in a directory that exists, got {path}.")
    sources = (args.logits, args.labels, args.test_logits, args.test_labels, args.apply)
    if target.resolve() in [Path(source).resolve() for source in sources if source]:
        raise ValueError(f"{option} must be another file than the files to read, got {path}.")
    if target.suffix.lower() in NEEDED:
        import_module(NEEDED[target.suffix.lower()])
    return target


# Comparison.
def compare(args: argparse.Namespace) -> None:
    """Fit all calibrators, print a comparison, and write diagrams, a report and the best."""
    picture = target_file(args, "--output", args.output or "skcalib-reliability.png",
                          (".png", ".pdf", ".svg"))  # fmt: skip
    page = target_file(args, "--report", args.report, (".html", ".htm"))
    saved = None
    if args.save is not None:
        saved = target_file(args, "--save", args.save, (".json", ".skops", ".joblib", ".onnx"))
    with activity("reading files"):
        rows, test = _load(args)
    classes = _classes_like(rows.y, args.classes)
    with activity("fitting and comparing calibrators"):
        found = compare_calibrators(rows.X, rows.y, test=(test.X, test.y), classes=classes)
    best = next(name for name in found.names if name != "uncalibrated")
    calibrator = found.calibrators[best]
    if hasattr(rows.X, "columns"):  # so that --apply refuses columns in another order
        calibrator.feature_names_in_ = rows.X.columns.to_numpy(object)
    sizes = f"{len(rows.y):,} rows to calibrate on, {len(test.y):,} held out"
    notes = "".join(f" ({note})" for note in dict.fromkeys((rows.note, test.note)) if note)
    print(f"{args.logits or 'Neural network on digits'}: {sizes}{notes}")
    print(f"Classes in the order of the columns: {shown(calibrator.classes_)}\n\n{found}\n")
    with activity("writing the report"):
        report = _report(args, calibrator, test, best, found, sizes + notes)
        with replacing(picture) as file:
            report.figure_.savefig(file, dpi=135, format=picture.suffix[1:].lower())
        report.to_html(page)
    print(*(textwrap.fill(sentence, 88) for sentence in report.verdict_), sep="\n")
    print(f"\nReliability diagrams: {picture}\nReport on {best}: {page}")
    if saved:
        loaded = _save(calibrator, saved)
        logits = "logarithms of probabilities" if args.probabilities else "logits"
        print(f"{best}, which takes {logits}: {saved}; to load it:\n    {loaded}")


def _load(args: argparse.Namespace) -> tuple[Rows, Rows]:
    """Rows to calibrate on and rows to evaluate on, by default two random halves."""
    if args.logits is None:
        digits = load_digits_logits()
        rows = Rows(digits.logits_calibration, digits.y_calibration)
        return rows, Rows(digits.logits_test, digits.y_test)
    columns = Columns(args.label_column, args.columns)
    rows = _as_logits(read_rows(args.logits, args.labels, columns), args)
    if args.test_logits is not None:
        return rows, _as_logits(read_rows(args.test_logits, args.test_labels, columns), args)
    _, counts = np.unique(rows.y, return_counts=True)
    stratify = rows.y if counts.min() > 1 else None
    X, X_test, y, y_test = train_test_split(
        rows.X, rows.y, test_size=0.5, random_state=0, stratify=stratify
    )
    return rows._replace(X=X, y=y), rows._replace(X=X_test, y=y_test)


def _as_logits(rows: Rows, args: argparse.Namespace) -> Rows:
    """Rows with logarithms of probabilities, if the files hold probabilities."""
    if not args.probabilities:
        return rows
    P = np.asarray(rows.X, dtype=np.float64)
    if not (P.min() >= 0 and P.max() <= 1.001):
        raise ValueError(
            f"{args.logits} must hold probabilities, got numbers from {P.min():g} to {P.max():g}. "
            "Leave out --probabilities if the numbers are logits."
        )
    tiny = np.finfo(np.float64).tiny
    Z = np.log(np.maximum(P, tiny))
    if P.shape[1] == 1:  # log-odds of the second class
        Z -= np.log(np.maximum(1 - P, tiny))
    if hasattr(rows.X, "columns"):
        Z = type(rows.X)(Z, index=rows.X.index, columns=rows.X.columns)
    return rows._replace(X=Z)


def _classes_like(labels: Array | None, texts: list[str] | None) -> list[Any] | None:
    """Labels of --classes, as integers if the labels in the files are integers."""
    if texts is None or labels is None or labels.dtype.kind not in "iu":
        return texts
    return [int(text) if text.removeprefix("-").isdecimal() else text for text in texts]


def _report(
    args: argparse.Namespace, calibrator: Any, test: Rows, best: str, found: Any, sizes: str
) -> Any:
    """Report on the best calibrator with the facts of this run, in a figure of its own."""
    from matplotlib.figure import Figure

    sources = {"Logits": args.logits, "Labels": args.labels, "Test logits": args.test_logits}
    metadata = {name: file for name, file in sources.items() if file}
    if args.logits is None:
        metadata = {"Model": "small neural network on scikit-learn's digits"}
    return calibration_report(
        calibrator, test.X, test.y, name=best, comparison=found, random_state=0,
        figure=Figure((8.6, 7), layout="constrained"),
        metadata={**metadata, "Rows": sizes, "Command": args.command},
    )  # fmt: skip


def _save(calibrator: Any, target: Path) -> str:
    """Write a fitted calibrator in the format of the suffix, and return code that loads it."""
    name = repr(str(target))
    with replacing(target) as file:
        match target.suffix.lower():
            case ".json":
                file.write(to_json(calibrator).encode())
                return f"skcalib.export.from_json(pathlib.Path({name}).read_text())"
            case ".onnx":
                file.write(to_onnx(calibrator).SerializeToString())
                return f"onnxruntime.InferenceSession({name})"
            case ".skops":
                import skops.io

                content = skops.io.dumps(calibrator)
                file.write(content)
                trusted = skops.io.get_untrusted_types(data=content)
                return f"skops.io.load({name}, trusted={trusted})"
            case _:
                import joblib

                joblib.dump(calibrator, file)
                return f"joblib.load({name})"


# Application.
def apply(args: argparse.Namespace) -> None:
    """Write calibrated probabilities and predicted labels of the logits in a file."""
    default = f"skcalib-probabilities{suffix_of(args.logits).replace('npz', 'npy')}"
    target = target_file(args, "--output", args.output or default,
                         (".csv", ".tsv", ".parquet", ".npy", ".npz"))  # fmt: skip
    if args.keep and target.suffix.lower() in ARRAYS:
        raise ValueError(f"--keep needs a table as --output, .csv or .parquet, got {target}.")
    calibrator = _load_calibrator(args.apply)
    parts = read_parts(args.logits, Columns(args.label_column, args.columns, args.keep))
    outputs = (_outputs(calibrator, _as_logits(part, args)) for part in parts)
    with activity("calibrating"), replacing(target) as file:
        n_rows = _write(file, target.suffix.lower(), calibrator.classes_, outputs)
    print(f"Calibrated probabilities of {n_rows:,} rows for {shown(calibrator.classes_)}: {target}")


def _load_calibrator(file: str) -> Any:
    """Calibrator in a file, which cannot execute code."""
    with reading(file):
        if file.lower().endswith(".json"):
            return from_json(Path(file).read_text(encoding="utf-8-sig"))
        if not file.lower().endswith(".skops"):
            raise ValueError("--apply takes .json and .skops, because other formats execute code")
        import skops.io

        types = skops.io.get_untrusted_types(file=file)
        if foreign := [name for name in types if not name.startswith(TRUSTED)]:
            raise ValueError(f"it holds types that are not of skcalib: {shown(foreign)}")
        return skops.io.load(file, trusted=types)


def _outputs(calibrator: Any, part: Rows) -> tuple[Array, Array, Any]:
    """Probabilities, predicted labels and kept columns."""
    X = part.X if hasattr(calibrator, "feature_names_in_") else np.asarray(part.X)
    return calibrator.predict_proba(X), calibrator.predict(X), part.kept


def _write(
    file: IO[bytes], kind: str, classes: Array, outputs: Iterator[tuple[Array, Array, Any]]
) -> int:
    """Write the results of all parts, and return the number of rows."""
    if kind in ARRAYS:
        P, labels = (np.concatenate(arrays) for arrays in list(zip(*outputs, strict=True))[:2])
        if kind == ".npy":
            np.save(file, P)
        else:
            labels = labels.astype(str) if labels.dtype.kind == "O" else labels
            np.savez(file, probabilities=P, labels=labels)
        return len(P)
    frames = (_frame(classes, *output) for output in outputs)
    if kind == ".parquet":
        return _write_parquet(file, frames)
    n_rows = 0
    for frame in frames:
        text = frame.to_csv(index=False, header=n_rows == 0, sep="\t" if kind == ".tsv" else ",")
        file.write(text.encode())
        n_rows += len(frame)
    return n_rows


def _frame(classes: Array, P: Array, labels: Array, kept: Any) -> Any:
    """Table of kept columns, the probability of each class and the label with the largest one."""
    import pandas as pd

    columns = dict(zip(map(str, classes.tolist()), P.T, strict=True))
    if labels.ndim == 1:  # several labels of a row are the columns themselves
        columns["predicted label" if "label" in columns else "label"] = labels
    frame = pd.DataFrame(columns)
    if kept is None:
        return frame
    if twice := set(kept.columns) & set(columns):
        raise ValueError(f"--keep must name no column of the results, got {shown(sorted(twice))}.")
    return pd.concat([kept.reset_index(drop=True), frame], axis=1)


def _write_parquet(file: IO[bytes], frames: Iterator[Any]) -> int:
    """Write one data frame after another to a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    first = next(frames)
    n_rows, schema = 0, pa.Schema.from_pandas(first, preserve_index=False)
    with pq.ParquetWriter(file, schema) as writer:
        for frame in chain([first], frames):
            writer.write_table(pa.Table.from_pandas(frame, schema, preserve_index=False))
            n_rows += len(frame)
    return n_rows
