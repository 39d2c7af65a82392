"""A saved calibrator applied to logits in files, for the command line."""

import argparse
import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from skcalib._rows.arrays import Array
from skcalib._validation.inputs import are_probabilities
from skcalib.export import from_json
from skcalib.export._chain import chain_of
from skcalib.meta import MultiLabelCalibrator

from . import parquet
from .console import Console, check_is_other, checked_target, replacing
from .files import (
    InputError,
    is_text,
    kind_of,
    listed,
    read_logits,
    read_table,
    reading,
)
from .loading import as_logits

STEM = "skcalib-probabilities"
ENDINGS = (".csv", ".tsv", ".npy", ".npz", ".parquet")

# Rows that are written at a time as text.
ROWS_OF_TEXT = 1 << 14


def check_apply(args: argparse.Namespace) -> Path:
    """The file to write, after the arguments that go with --apply are checked."""
    others = ("labels", "test_labels", "test_logits", "report", "save", "classes")
    given = [f"--{name.replace('_', '-')}" for name in others if getattr(args, name) is not None]
    if given:
        raise InputError(
            f"--apply goes with --logits and --output, got {', '.join(given)}; leave that out."
        )
    if args.logits is None:
        raise InputError("--apply needs logits to calibrate: give --logits.")
    kind = kind_of(args.logits) or "parquet"
    output = args.output
    if Path(output).is_dir():
        output = str(Path(output) / f"{STEM}.{'npy' if kind == 'npz' else kind}")
    target = checked_target("--output", output, ENDINGS, "a directory that exists, or ")
    if (kind == "parquet") != (target.suffix.lower() == ".parquet"):
        raise InputError(
            f"--output {output} must end in .parquet if --logits are Parquet files, and only then, "
            f"got {args.logits}."
        )
    check_is_other("--output", target, {"--logits": args.logits})
    return target


def run_apply(args: argparse.Namespace, target: Path, console: Console) -> None:
    """Write calibrated probabilities and labels of the logits in a file."""
    calibrator = loaded(args.apply)
    console.show("reading ...")
    if any(len(getattr(member, "groups_", ())) for member in chain_of(calibrator, "--apply")):
        console.show_warning(
            f"The calibrator in {args.apply} was fitted with groups, which rows of files have not: "
            "the probabilities are those of the calibrator of all groups. Predict with groups=... "
            "in Python."
        )
    if target.suffix.lower() == ".parquet":
        n_rows = _apply_to_parquet(calibrator, args, target, console)
    else:
        names, logits = _read(args)
        check_columns(names, calibrator, args)
        console.show("calibrating ...")
        Z = as_logits(logits, args.logits, probabilities=args.probabilities)
        warn_of_probabilities(Z, calibrator, args, console)
        write(target, calibrator, *_outputs(calibrator, Z))
        n_rows = len(Z)
    classes = listed(calibrator.classes_.tolist())
    console.say(f"Calibrated probabilities of {n_rows:,} rows for the classes {classes}: {target}")


def _read(args: argparse.Namespace) -> tuple[list[str] | None, Array]:
    """Names of columns, where there are any, and logits; a column of labels is left out."""
    if args.label_column is None:
        return read_logits(args.logits)
    if not is_text(args.logits):
        raise InputError(
            f"--label-column names a column of Parquet or text files, got {args.logits}; leave it "
            "out for arrays."
        )
    rows = read_table(args.logits, args.label_column)
    return rows.names, rows.logits


def loaded(file: str) -> Any:
    """The calibrator in a file, from which nothing is executed."""
    kind = Path(file).suffix.lower()[1:]
    if kind == "json":
        with reading(file, "write it again with --save, or skcalib.export.to_json"):
            return from_json(Path(file).read_text(encoding="utf-8-sig"))
    if kind == "skops":
        with reading(file, "write it again with --save"):
            return _loaded_by_skops(file)
    why = {
        "joblib": ", since loading .joblib files executes what they say",
        "pkl": ", since loading .pkl files executes what they say",
        "onnx": "; .onnx files are run by onnxruntime",
    }
    raise InputError(
        f"--apply {file} must be a file that ends in .json or .skops{why.get(kind, '')}. Save the "
        "calibrator as one of these."
    )


def _loaded_by_skops(file: str) -> Any:
    try:
        import skops.io
    except ImportError:
        raise InputError(
            f"--apply {file} needs skops: pip install skops, or give a file that ends in .json."
        ) from None
    types = skops.io.get_untrusted_types(file=file)
    foreign = [name for name in types if not name.startswith("skcalib.")]
    if foreign:
        raise InputError(
            f"{file} must hold types of skcalib and scikit-learn only, got {listed(foreign)}; load "
            "it in Python if you trust them."
        )
    calibrator = skops.io.load(file, trusted=types)
    chain_of(calibrator, "--apply")
    return calibrator


def check_columns(names: list[str] | None, calibrator: Any, args: argparse.Namespace) -> None:
    """Raise an InputError unless named columns are in the order of the classes."""
    order = [str(label) for label in calibrator.classes_]
    if names is not None and names != order and sorted(names) == sorted(order):
        raise InputError(
            f"The columns of {args.logits} must be in the order of the classes of the calibrator, "
            f"{listed(order)}, got {listed(names)}."
        )


def warn_of_probabilities(
    Z: Array, calibrator: Any, args: argparse.Namespace, console: Console
) -> None:
    """Warn of probabilities that are taken as logits; the rows of several labels may be any."""
    if not isinstance(calibrator, MultiLabelCalibrator) and are_probabilities(Z):
        console.show_warning(
            f"Every row of {args.logits} is non-negative and sums to one: it probably holds "
            "probabilities where logits are expected. Give --probabilities."
        )


def _outputs(calibrator: Any, Z: Array) -> tuple[Array, Array]:
    return calibrator.predict_proba(Z), calibrator.predict(Z)


def write(target: Path, calibrator: Any, P: Array, labels: Array) -> None:
    """Probabilities, and labels where the format has room for them."""
    kind = target.suffix.lower()
    with replacing(target) as file:
        if kind == ".npy":
            np.save(file, P)
        elif kind == ".npz":
            labels = labels.astype(str) if labels.dtype.kind == "O" else labels
            np.savez(file, probabilities=P, labels=labels)
        else:
            delimiter = "\t" if kind == ".tsv" else ","
            for text in _lines(calibrator.classes_, P, labels, delimiter):
                file.write(text.encode())


def _names(classes: Array, labels: Array) -> list[str]:
    """Names of columns of tables: one for the label, unless a row may have several."""
    names = [str(label) for label in classes.tolist()]
    label = "label" if "label" not in names else "predicted label"
    return names if labels.ndim > 1 else [*names, label]


def _lines(classes: Array, P: Array, labels: Array, delimiter: str) -> Iterator[str]:
    """Text with a column for each class, and one for the label, below their names."""
    for start in range(0, len(P), ROWS_OF_TEXT):
        some = slice(start, start + ROWS_OF_TEXT)
        stream = io.StringIO()
        writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
        if start == 0:
            writer.writerow(_names(classes, labels))
        rows = zip(P[some].tolist(), labels[some].tolist(), strict=True)
        writer.writerows(row if labels.ndim > 1 else [*row, label] for row, label in rows)
        yield stream.getvalue()


def _apply_to_parquet(
    calibrator: Any, args: argparse.Namespace, target: Path, console: Console
) -> int:
    """The same for Parquet files, one partition after the other; returns the number of rows."""
    n_rows = 0
    with replacing(target) as file, _parquet_writer(file) as put:
        for part in parquet.partitions(args.logits, args.label_column):
            check_columns([*map(str, part.columns)], calibrator, args)
            logits = parquet.as_array(part)
            Z = as_logits(logits, args.logits, probabilities=args.probabilities)
            if n_rows == 0:
                warn_of_probabilities(Z, calibrator, args, console)
            put(calibrator.classes_, *_outputs(calibrator, Z))
            n_rows += len(Z)
        if n_rows == 0:
            raise InputError(f"{args.logits} is empty.")
    return n_rows


@contextmanager
def _parquet_writer(file: Any) -> Iterator[Any]:
    """A function that adds probabilities and labels to a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writers: list[Any] = []

    def put(classes: Array, P: Array, labels: Array) -> None:
        label = labels.astype(str).tolist() if labels.dtype.kind in "OU" else labels
        columns = [*P.T, label] if labels.ndim == 1 else list(P.T)
        table = pa.table([pa.array(column) for column in columns], names=_names(classes, labels))
        if not writers:
            writers.append(pq.ParquetWriter(file, table.schema))
        writers[0].write_table(table)

    try:
        yield put
    finally:
        for writer in writers:
            writer.close()
