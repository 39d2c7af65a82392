"""Input of the command line: calibration rows and test rows."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from skcalib._rows.arrays import Array
from skcalib.datasets import load_digits_logits

from . import parquet
from .files import (
    InputError,
    LabelledLogits,
    integers_for,
    is_text,
    kind_of,
    listed,
    read_pair,
    read_table,
)


def is_parquet(args: argparse.Namespace) -> bool:
    """Whether labels are in the logits' file, and that is not one of text."""
    return args.label_column is not None and args.logits is not None and not is_text(args.logits)


def load(args: argparse.Namespace) -> tuple[str, LabelledLogits, LabelledLogits]:
    """Name of the data, calibration rows, test rows."""
    if args.logits is None:
        digits = load_digits_logits()
        return (
            "Neural network on digits",
            LabelledLogits(digits.logits_calibration, digits.y_calibration),
            LabelledLogits(digits.logits_test, digits.y_test),
        )
    if is_parquet(args):
        calibration, test = _load_parquet(args)
    else:
        given = _read(args.logits, args.labels, args)
        if args.test_logits is None:
            calibration, test = _halves(given)
        else:
            calibration, test = given, _read(args.test_logits, args.test_labels, args)
    _check_names(calibration, test, args)
    return args.logits, calibration, test


def check_files(args: argparse.Namespace) -> None:
    """Raise an InputError unless the files that are given go together."""
    if args.label_column is not None:
        if args.logits is None or args.labels is not None or args.test_labels is not None:
            raise InputError(
                "--label-column goes with --logits and --test-logits, which hold the labels as "
                "well; leave --labels and --test-labels out."
            )
        for file in filter(None, (args.logits, args.test_logits)):
            if kind_of(file) in {"npy", "npz"} or is_text(file) != is_text(args.logits):
                raise InputError(
                    f"--label-column names a column of Parquet or text files, all of one kind, got "
                    f"{file}; give --labels and --test-labels for arrays."
                )
        return
    if (args.logits is None) != (args.labels is None):
        if args.logits is not None and Path(args.logits).suffix in {".parquet", ""}:
            raise InputError(f"--logits {args.logits} needs --label-column, got none.")
        raise InputError("--logits and --labels go together, got only one of them.")
    if (args.test_logits is None) != (args.test_labels is None):
        raise InputError("--test-logits and --test-labels go together, got only one of them.")
    alone = args.test_logits is not None or args.classes is not None or args.probabilities
    if args.logits is None and alone:
        raise InputError("There is nothing to calibrate on: give --logits and --labels.")


def _check_names(
    calibration: LabelledLogits, test: LabelledLogits, args: argparse.Namespace
) -> None:
    """Raise an InputError unless named columns are in one order, that of the labels."""
    if calibration.names is None and test.names is not None:
        # Columns without names are the classes by their position.
        calibration = calibration._replace(names=test.names)
        args = argparse.Namespace(**{**vars(args), "logits": args.test_logits})
    if calibration.names is None:
        return
    if test.names is not None and test.names != calibration.names:
        raise InputError(
            f"{args.logits} and {args.test_logits} must have the same columns in the same order, "
            f"got {listed(calibration.names)} and {listed(test.names)}."
        )
    if args.classes is not None:
        order = args.classes
    elif isinstance(calibration.labels, np.ndarray):
        present = np.unique(calibration.labels)
        is_whole = len(present) == len(calibration.names)
        order = [str(x) for x in (present if is_whole else range(len(calibration.names)))]
    else:  # a data frame, whose columns calibrators compare with the labels
        return
    if order != calibration.names and sorted(order) == sorted(calibration.names):
        raise InputError(
            f"The columns of {args.logits} must be in the order of the labels, {listed(order)}, "
            f"got {listed(calibration.names)}; say the order of the columns with --classes."
        )


def _load_parquet(args: argparse.Namespace) -> list[LabelledLogits]:
    table = parquet.read(args.logits, args.label_column)
    if args.test_logits is None:
        tables = parquet.halves(table)
    else:
        tables = [table, parquet.read(args.test_logits, args.label_column)]
    found = [table.rows() for table in parquet.kept(tables, args.logits)]
    if not args.probabilities:
        return found
    for rows in found:  # here, since workers log a traceback of each error
        _check_probabilities(*parquet.range_of(rows.logits), args.logits)
    return [rows._replace(logits=rows.logits.map_partitions(_logs_of_part)) for rows in found]


def _logs_of_part(part: Any) -> Any:
    """A data frame of logarithms for one of probabilities, without pandas' own missing values."""
    P = parquet.as_array(part)
    return type(part)(_logs(P), index=part.index, columns=part.columns)


def _read(logits: str, labels: str | None, args: argparse.Namespace) -> LabelledLogits:
    """Rows of files other than Parquet, with logarithms of probabilities where these are given."""
    rows = read_pair(logits, labels) if labels else read_table(logits, args.label_column)
    return rows._replace(logits=as_logits(rows.logits, logits, probabilities=args.probabilities))


def as_logits(values: Array, file: str, *, probabilities: bool) -> Array:
    """What a file holds as logits: logarithms if these are probabilities."""
    if not probabilities:
        return values
    _check_probabilities(values.min(), values.max(), file)
    return _logs(values)


def _check_probabilities(low: float, high: float, file: str) -> None:
    if not (low >= 0 and high <= 1.001):  # NaN neither
        raise InputError(
            f"{file} must hold probabilities, got numbers from {low:g} to {high:g}; leave "
            "--probabilities out if they are logits."
        )


def _logs(P: Array) -> Array:
    """Logits of probabilities, of which zero has the logarithm of the smallest number."""
    P = P if P.dtype.kind == "f" else P.astype(float)
    tiny = np.finfo(P.dtype).tiny
    logs = np.log(np.maximum(P, tiny))
    return logs if P.shape[1] > 1 else logs - np.log(np.maximum(1 - P, tiny))


def _halves(rows: LabelledLogits) -> tuple[LabelledLogits, LabelledLogits]:
    """Two halves of the rows, each with every class that has two."""
    _, counts = np.unique(rows.labels, return_counts=True)
    stratify = rows.labels if counts.min() > 1 else None
    parts = train_test_split(*rows[:2], test_size=0.5, random_state=0, stratify=stratify)
    return LabelledLogits(parts[0], parts[2], rows.names), LabelledLogits(
        parts[1], parts[3], rows.names
    )


def labels_of_type(classes: list[str] | None, labels: Any) -> Array | None:
    """Labels from the command line, of the type of those in the files."""
    if classes is None:
        return None
    dtype = getattr(labels.dtype, "numpy_dtype", labels.dtype)  # of pandas' nullable columns
    kind = getattr(dtype, "kind", "O")
    if kind not in "biuf":
        return np.asarray(classes)
    parsers: dict[str, tuple[Callable[[str], Any], str]] = {
        "b": ({"False": False, "True": True}.__getitem__, "False and True"),
        "f": (float, "numbers"),
    }
    parse, what = parsers.get(kind, (int, "integers"))
    try:
        values = [parse(text) for text in classes]
    except (KeyError, ValueError):
        raise InputError(
            f"--classes must be {what}, as the labels are, got {' '.join(classes)}."
        ) from None
    if kind in "bf":
        return np.array(values, dtype)
    limits = np.iinfo(dtype)
    fits = limits.min <= min(values) and max(values) <= limits.max
    wide = dtype if fits else integers_for(values)
    if wide is None:
        raise InputError(f"--classes must be integers of 64 bits, got {' '.join(classes)}.")
    return np.array(values, wide)
