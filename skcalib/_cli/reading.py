"""Logits and labels in files, for the command line: arrays of NumPy, text and Parquet.

Whatever reading a file raises becomes one sentence that names the file.
"""

import argparse
import csv
import gzip
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import train_test_split

from skcalib._rows import Array
from skcalib._validation import labels as of_labels
from skcalib._validation.labels import shown
from skcalib.datasets import load_digits_logits

# A report is drawn on no more rows than this, which would add nothing to a picture.
ROWS_OF_REPORT = 100_000

TEXT = {".csv", ".tsv"}


class LabelledLogits(NamedTuple):
    """Logits and labels of some rows: arrays, or Dask collections."""

    logits: Any
    labels: Any = None
    columns: Sequence[str] = ()  #: names of those of the logits, where the file has them


@contextmanager
def reading(file: str) -> Iterator[None]:
    """Turn whatever reading a file raises into a ValueError that names the file.

    Broad on purpose: readers raise what their formats, codecs and libraries raise, and no list of
    that is ever complete. To the user it is all one condition.
    """
    try:
        yield
    except ImportError:
        raise
    except Exception as error:
        said = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise ValueError(f"{file} cannot be read: {said[:300]}. See --help for files.") from error


def path_and_array(file: str) -> tuple[str, str]:
    """Path, and the name behind the colon of FILE.npz:NAME, which may be empty."""
    path, found, name = file.rpartition(".npz:")
    return (f"{path}.npz", name) if found else (file, "")


def kind_of(file: str) -> str:
    """How a file is read: ".npy", ".npz", ".csv" or ".tsv" by its name, all others as Parquet."""
    suffix = Path(path_and_array(file)[0].lower().removesuffix(".gz")).suffix
    return suffix if suffix in {".npy", ".npz", *TEXT} else ".parquet"


# Rows of the comparison.
def load(args: argparse.Namespace) -> tuple[LabelledLogits, LabelledLogits, Any]:
    """Rows to calibrate on, rows to evaluate on, and all labels in the order of the columns.

    The labels are None if calibrators are to find them.
    """
    if args.logits is None:
        digits = load_digits_logits()
        calibration = LabelledLogits(digits.logits_calibration, digits.y_calibration)
        return calibration, LabelledLogits(digits.logits_test, digits.y_test), None
    if args.label_column is not None and kind_of(args.logits) == ".parquet":
        calibration, test = _load_parquet(args)
    elif args.test_logits is None:
        calibration, test = _halves(_load_pair(args.logits, args.labels, args))
    else:
        calibration = _load_pair(args.logits, args.labels, args)
        test = _load_pair(args.test_logits, args.test_labels, args)
    classes: Any = _classes_like(calibration.labels, args.classes)
    if isinstance(calibration.labels, np.ndarray):  # of Dask collections, compare_calibrators does
        present = of_labels.distinct_labels(calibration.labels)
        classes = of_labels.resolve_classes(present, calibration.logits.shape[1], classes)
        of_labels.check_column_names(calibration, classes, args.logits, param="--classes")
        of_labels.check_column_names(test, classes, args.test_logits or "", param="--classes")
    of_labels.check_column_names(test, np.array(calibration.columns), args.test_logits or "")
    return calibration, test, classes


def _load_pair(logits: str, labels: str | None, args: argparse.Namespace) -> LabelledLogits:
    """Logits, and labels in a file of their own or in a column of the same one."""
    rows = read_logits(logits, args.label_column)
    if labels is not None:
        rows = rows._replace(labels=_read_labels(labels, len(rows.logits), logits))
    return rows._replace(logits=as_logits(rows.logits, logits, probabilities=args.probabilities))


def _halves(rows: LabelledLogits) -> tuple[LabelledLogits, LabelledLogits]:
    """Two halves of the rows, each with every class that has two."""
    _, counts = np.unique(rows.labels, return_counts=True)
    stratify = rows.labels if counts.min() > 1 else None
    Z, T, y, t = train_test_split(*rows[:2], test_size=0.5, random_state=0, stratify=stratify)
    return LabelledLogits(Z, y, rows.columns), LabelledLogits(T, t, rows.columns)


def _classes_like(labels: Any, texts: list[str] | None) -> list[Any] | None:
    """Labels from the command line, as integers or truth values if those in the files are."""
    if texts is None or labels.dtype.kind not in "biuf":
        return texts
    if labels.dtype.kind == "b":
        return [{"True": True, "False": False}.get(text, text) for text in texts]
    return [int(text) if text.removeprefix("-").isdecimal() else text for text in texts]


# Probabilities in place of logits.
def as_logits(values: Array, file: str, *, probabilities: bool) -> Array:
    """What a file holds as logits: logarithms if these are probabilities."""
    if not probabilities:
        return values
    _check_probabilities(values.min(), values.max(), file)
    return _logs(values)


def _check_probabilities(low: float, high: float, file: str) -> None:
    if not (low >= 0 and high <= 1.001):  # NaN neither
        raise ValueError(
            f"{file} must hold probabilities, got numbers from {low:g} to {high:g}; leave "
            "--probabilities out if they are logits."
        )


def _logs(P: Array) -> Array:
    """Logits of probabilities, of which zero has the logarithm of the smallest number."""
    P = P if P.dtype.kind == "f" else P.astype(float)
    tiny = np.finfo(P.dtype).tiny
    logs = np.log(np.maximum(P, tiny))
    return logs if P.shape[1] > 1 else logs - np.log(np.maximum(1 - P, tiny))


# Arrays and text.
def read_logits(file: str, label: str | None = None) -> LabelledLogits:
    """Logits in a file of arrays or text, and the labels in one column of text, if it is named."""
    with reading(file):
        is_text = kind_of(file) in TEXT
        if label is not None and not is_text:
            raise ValueError("--label-column names a column of Parquet or text files")
        rows = _rows_of_text(_lines(file), label) if is_text else LabelledLogits(_array(file))
        logits = rows.logits[:, None] if rows.logits.ndim == 1 else rows.logits
        if logits.ndim != 2 or logits.dtype.kind not in "fiu" or not logits.size:
            raise ValueError(f"it must hold a table of numbers, got {logits.dtype} {logits.shape}")
        return rows._replace(logits=logits)


def _rows_of_text(lines: list[list[str]], label: str | None) -> LabelledLogits:
    """Logits and labels in the fields of lines, of which the first one may be a header."""
    names, labels = lines[0], None
    if names[0] == "":
        raise ValueError("its first column has no name, as an index; write it with index=False")
    if label is not None:
        if names.count(label) != 1:
            raise ValueError(f"its columns are {shown(names)}; --label-column is {label!r}")
        k = names.index(label)
        labels = _as_labels(np.array([line.pop(k) for line in lines][1:]))
    # A header has no number, or counts columns from 0, as pandas writes.
    counted = len(names) > 1 and names == [str(k) for k in range(len(names))]
    if label is not None or counted or not any(map(_is_number, names)):
        return LabelledLogits(np.array(lines[1:], float), labels, names)
    return LabelledLogits(np.array(lines, float))


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _lines(file: str) -> list[list[str]]:
    """Fields of each line of text, equally many; blank lines are skipped."""
    opened = gzip.open if file.lower().endswith(".gz") else open
    with opened(file, "rt", encoding="utf-8-sig", newline="") as stream:
        head = [stream.readline(), stream.readline()]
        # Semicolons or tabs if each of the first lines has one, else commas.
        marks = (mark for mark in ";\t" if all(mark in line for line in head if line.strip()))
        mark = "\t" if kind_of(file) == ".tsv" else next(marks, ",")
        stream.seek(0)
        lines = [line for line in csv.reader(stream, delimiter=mark, strict=True) if line]
    if len({len(line) for line in lines}) != 1:
        raise ValueError("its lines must have equally many fields" if lines else "it is empty")
    return lines


def _array(file: str) -> Array:
    """The array in a .npy or .npz (``FILE:NAME``) file."""
    path, name = path_and_array(file)
    if kind_of(file) == ".parquet":
        raise ValueError("it is no .npy, .npz, .csv or .tsv file; Parquet needs --label-column")
    with Path(path).open("rb") as stream:
        found = np.load(stream, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return found
        if name not in found.files and not (name == "" and len(found.files) == 1):
            raise ValueError(f"it holds {shown(found.files)}; name one, as in {path}:NAME")
        array: Array = found[name or found.files[0]]
        return array


def _read_labels(file: str, n_rows: int, logits: str) -> Array:
    """Labels, below a header line if there is one line more than rows of logits."""
    with reading(file):
        is_text = kind_of(file) in TEXT
        labels = np.array(_lines(file)) if is_text else _array(file)
        if labels.ndim == 0 or labels.size != len(labels) or labels.dtype.kind not in "biufSU":
            raise ValueError(f"it must hold one label per row, got {labels.dtype} {labels.shape}")
        labels = labels.ravel()[1:] if is_text and len(labels) == n_rows + 1 else labels.ravel()
        if len(labels) != n_rows:
            raise ValueError(f"it holds {len(labels):,} labels for {n_rows:,} rows of {logits}")
        return _as_labels(labels)


def _as_labels(labels: Array) -> Array:
    """Labels as integers if all of them are whole numbers, else as text."""
    if labels.dtype.kind in "biu":
        return labels
    texts = np.char.decode(labels, "utf-8") if labels.dtype.kind == "S" else labels.astype(str)
    missing = np.isin(texts, ["", "nan"])
    if missing.any():
        raise ValueError(f"it has no label for row {missing.argmax() + 1}; leave such rows out")
    with suppress(ValueError, OverflowError):
        return texts.astype(np.int64)
    with suppress(ValueError):
        numbers = texts.astype(float)
        if (np.abs(numbers) < 2**53).all() and (numbers == np.rint(numbers)).all():
            return numbers.astype(np.int64)  # 1.0 and 1e3, exact below this limit
    return texts


# Parquet.
@contextmanager
def cluster() -> Iterator[None]:
    """A cluster of processes on this machine, unless there is one already."""
    from distributed import Client, LocalCluster, default_client

    with ExitStack() as ours:
        try:
            default_client()
        except ValueError:
            ours.enter_context(Client(ours.enter_context(LocalCluster(dashboard_address=":0"))))
        yield


def _read_parquet(pattern: str, label: str | None) -> Any:
    """Data frame of the rows, of which only the names and types of columns are read."""
    with reading(pattern):
        import dask.dataframe as dd

        frame = dd.read_parquet(pattern)
        if not len(frame.columns):
            raise ValueError("there are no Parquet files of that name")
        if label is not None and label not in frame.columns:
            raise ValueError(f"its columns are {shown(frame.columns)}; --label-column is {label!r}")
        dtypes = {name: dtype for name, dtype in frame.dtypes.items() if name != label}
        words = [name for name, dtype in dtypes.items() if dtype.kind not in "fiu"]
        if words or not dtypes:
            raise ValueError(f"all columns but the labels must hold numbers, got {shown(words)}")
        return frame


def _rows_of_frame(frame: Any, label: str | None) -> LabelledLogits:
    logits = frame[[name for name in frame.columns if name != label]]
    return LabelledLogits(logits, None if label is None else frame[label], list(logits.columns))


def partitions(pattern: str, label: str | None) -> Iterator[LabelledLogits]:
    """The logits in Parquet files, one part after the other; a column of labels is left out."""
    rows = _rows_of_frame(_read_parquet(pattern, label), label)
    for k in range(rows.logits.npartitions):
        with reading(pattern):
            part = rows.logits.get_partition(k).compute(scheduler="synchronous")
        if len(part):
            yield LabelledLogits(_as_array(part), None, rows.columns)


def _as_array(part: Any) -> Array:
    """A data frame of numbers as an array, without pandas' own missing values."""
    numeric = [getattr(dtype, "numpy_dtype", dtype) for dtype in part.dtypes]
    found: Array = part.to_numpy(np.result_type(np.float32, *numeric), na_value=np.nan)
    return found


def _load_parquet(args: argparse.Namespace) -> list[LabelledLogits]:
    """Rows to calibrate on and to evaluate on, in the memory of the workers."""
    import dask
    from distributed import progress

    frame, label = _read_parquet(args.logits, args.label_column), args.label_column
    if args.test_logits is None:
        frames = frame.random_split([0.5, 0.5], 0)
    else:
        frames = [frame, _read_parquet(args.test_logits, label)]
    with reading(args.logits):
        frames = dask.persist(*frames)
        # The bar is written to one of them, and must not be where either is not a terminal.
        if all(stream is not None and stream.isatty() for stream in (sys.stdout, sys.stderr)):
            progress(frames, notebook=False)
    found = [_rows_of_frame(frame, label) for frame in frames]
    if not args.probabilities:
        return found
    for Z, *_ in found:  # here, since workers log a traceback of each error
        low, high = dask.compute(Z.min().min(), Z.max().max())
        _check_probabilities(low, high, args.logits)
    return [rows._replace(logits=rows.logits.map_partitions(_logs_of_part)) for rows in found]


def _logs_of_part(part: Any) -> Any:
    """A data frame of logarithms for one of probabilities."""
    return type(part)(_logs(_as_array(part)), index=part.index, columns=part.columns)


def some_rows(rows: LabelledLogits) -> LabelledLogits:
    """As many rows as a report needs, in memory; of Dask collections at random, by a fixed seed."""
    if isinstance(rows.labels, np.ndarray):
        return rows
    share = min(1.0, ROWS_OF_REPORT / len(rows.labels))
    return LabelledLogits(*(x.sample(frac=share, random_state=0).compute() for x in rows[:2]))
