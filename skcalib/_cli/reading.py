"""Logits and labels in files, for the command line: arrays of NumPy, text and Parquet.

Whatever reading a file raises becomes one sentence that names the file.
"""

import argparse
import csv
import gzip
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import train_test_split

from skcalib._rows import Array
from skcalib._validation import labels as of_labels
from skcalib._validation.labels import shown
from skcalib._warnings import warn
from skcalib.datasets import load_digits_logits

# A report is drawn on no more rows than this, which would add nothing to a picture.
ROWS_OF_REPORT = 100_000

# Whether a column numbers the rows is seen in the first ones, if they are no fewer than the second.
HEAD, FEWEST = 1000, 20

# The probability of larger log-odds is 1 in double precision: they are seldom meant.
LARGEST_LOG_ODDS = 37

TEXT = {".csv", ".tsv"}

# Names of columns by the option that gives them.
Named = Mapping[str, Sequence[str]]


class LabelledLogits(NamedTuple):
    """Logits and labels of some rows: arrays, or Dask collections."""

    logits: Any
    labels: Any = None
    columns: Sequence[str] = ()  #: names of those of the logits, where the file has them
    kept: Sequence[Any] = ()  #: columns that are written beside the probabilities


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
    warn_of_percentages(calibration.logits, args.logits)
    if args.classes is None and not args.columns:
        _check_two_names(calibration, args.logits)
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
    rows = read_logits(logits, named_in(args))
    check_columns(rows, logits, args)
    if labels is not None:
        rows = rows._replace(labels=_read_labels(labels, len(rows.logits), logits))
    return rows._replace(logits=as_logits(rows.logits, logits, probabilities=args.probabilities))


def named_in(args: argparse.Namespace) -> Named:
    """The columns that options name."""
    label = [] if args.label_column is None else [args.label_column]
    options = {"--columns": args.columns, "--drop": args.drop, "--keep": args.keep}
    return {"--label-column": label, **options}


def places(names: Sequence[str], named: Named) -> list[int]:
    """Columns of logits; a ValueError for a name that is not that of one column."""
    names = list(names)
    for option, wanted in named.items():
        for name in wanted:
            if names.count(name) != 1:
                raise ValueError(f"its columns are {shown(names)}; {option} is {name!r}")
    if named.get("--columns"):
        return [names.index(name) for name in named["--columns"]]
    others = {name for wanted in named.values() for name in wanted}
    return [k for k, name in enumerate(names) if name not in others]


def check_columns(rows: LabelledLogits, file: str, args: argparse.Namespace) -> None:
    """Raise a ValueError for a column that numbers the rows, unless it was chosen."""
    Z = _first_ones(rows.logits)
    if args.columns or len(Z) < FEWEST:
        return
    for k, column in enumerate(Z.T):
        numbers = np.unique(column)
        if len(numbers) < len(Z) or (column != np.rint(column)).any():
            continue
        # Scores may be whole numbers, but alone are seldom those of the rows in turn.
        if Z.shape[1] > 1 or numbers[-1] - numbers[0] == len(Z) - 1:
            raise ValueError(
                f"Column {(rows.columns or range(Z.shape[1]))[k]!r} of {file} holds another whole "
                "number in each row, as an index: leave it out with --drop, or when an array is "
                "saved. If it holds logits, name all columns of these with --columns."
            )


def warn_of_percentages(logits: Any, file: str) -> None:
    """Warn of a single column that is like percentages.

    Small percentages alone are not noticed: log-odds, and points of a score, may be like them.
    """
    Z = _first_ones(logits)
    if Z.shape[1] == 1 and len(Z) >= FEWEST and Z.min() >= 0 and LARGEST_LOG_ODDS < Z.max() <= 100:
        warn(
            f"The column of {file} is between 0 and 100: it probably holds percentages where "
            "log-odds are expected. If so, divide it by 100, and add --probabilities."
        )


def _first_ones(values: Any) -> Array:
    """The first rows, of Dask collections those of a partition."""
    if isinstance(values, np.ndarray):
        return values[:HEAD]
    part = values.get_partition(0).compute()[:HEAD]
    return _as_array(part) if part.ndim == 2 else part.to_numpy()


def _check_two_names(rows: LabelledLogits, file: str) -> None:
    """Raise a ValueError for two named columns that are perhaps not those of two classes."""
    names = list(rows.columns)
    if len(names) != 2 or names == ["0", "1"]:
        return
    labels = set(_first_ones(rows.labels).tolist())
    if not any(str(label) in name for label in labels for name in names):
        raise ValueError(
            f"The columns {shown(names)} of {file} name neither of the labels: leave out with "
            "--drop what is no logit, or name the columns of logits with --columns."
        )


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
def read_logits(file: str, named: Named = MappingProxyType({})) -> LabelledLogits:
    """Logits in a file of arrays or text, and of text labels and others in columns by name."""
    with reading(file):
        is_text = kind_of(file) in TEXT
        if any(named.values()) and not is_text:
            option = next(option for option, wanted in named.items() if wanted)
            raise ValueError(f"{option} names a column of Parquet or text files")
        rows = _rows_of_text(_lines(file), named) if is_text else LabelledLogits(_array(file))
        logits = rows.logits[:, None] if rows.logits.ndim == 1 else rows.logits
        if logits.ndim != 2 or logits.dtype.kind not in "fiu" or not logits.size:
            raise ValueError(f"it must hold a table of numbers, got {logits.dtype} {logits.shape}")
        return rows._replace(logits=logits)


def _rows_of_text(lines: list[list[str]], named: Named) -> LabelledLogits:
    """Logits and other columns in the fields of lines, of which the first one may be a header."""
    names, has_names = lines[0], any(named.values())
    chosen = places(names, named) if has_names else list(range(len(names)))
    if names[0] == "" and 0 in chosen:
        raise ValueError("its first column has no name, as an index; write it with index=False")
    # A header has no number, or counts columns from 0, as pandas writes.
    counted = len(names) > 1 and names == [str(k) for k in range(len(names))]
    if not (has_names or counted or not any(map(is_number, names))):
        return LabelledLogits(np.array(lines, float))

    def fields(option: str) -> list[Array]:
        columns = map(names.index, named.get(option, ()))
        return [np.array([line[k] for line in lines[1:]]) for k in columns]

    words = [names[k] for line in lines[1:2] for k in chosen if line[k] and not is_number(line[k])]
    if words:
        raise ValueError(
            f"its columns {shown(words)} hold text; leave them out with --drop, "
            "or write numbers with decimal points"
        )
    labels = next(map(_as_labels, fields("--label-column")), None)
    logits = np.array([[line[k] for k in chosen] for line in lines[1:]], float)
    return LabelledLogits(logits, labels, [names[k] for k in chosen], fields("--keep"))


def is_number(field: str) -> bool:
    """Whether a text is a number."""
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


def _read_parquet(pattern: str, named: Named) -> tuple[Any, list[str]]:
    """Data frame of the rows, and the names of its logits: only names and types are read."""
    with reading(pattern):
        import dask.dataframe as dd

        frame = dd.read_parquet(pattern)
        if not len(frame.columns):
            raise ValueError("there are no Parquet files of that name")
        logits = [frame.columns[k] for k in places(frame.columns, named)]
        words = [name for name in logits if frame[name].dtype.kind not in "fiu"]
        if words or not logits:
            raise ValueError(
                f"all columns but the labels must hold numbers, got {shown(words)}; leave out "
                "others with --drop"
            )
        return frame, logits  # whole: Dask loses partitions of some that hold chosen columns


def partitions(pattern: str, named: Named) -> Iterator[LabelledLogits]:
    """The logits in Parquet files, one part after the other; a column of labels is left out."""
    frame, logits = _read_parquet(pattern, named)
    frame = frame[[*logits, *named["--keep"]]]
    for k in range(frame.npartitions):
        with reading(pattern):
            part = frame.get_partition(k).compute(scheduler="synchronous")
        if len(part):
            kept = [part[name] for name in named["--keep"]]
            yield LabelledLogits(_as_array(part[logits]), None, logits, kept)


def _as_array(part: Any) -> Array:
    """A data frame of numbers as an array, without pandas' own missing values."""
    numeric = [getattr(dtype, "numpy_dtype", dtype) for dtype in part.dtypes]
    found: Array = part.to_numpy(np.result_type(np.float32, *numeric), na_value=np.nan)
    return found


def _load_parquet(args: argparse.Namespace) -> list[LabelledLogits]:
    """Rows to calibrate on and to evaluate on, in the memory of the workers."""
    import dask
    from distributed import progress

    files = [args.logits, args.test_logits or args.logits]
    (frame, logits), (test, test_logits) = (_read_parquet(file, named_in(args)) for file in files)
    frames = frame.random_split([0.5, 0.5], 0) if args.test_logits is None else [frame, test]
    with reading(args.logits):
        frames = dask.persist(*frames)
        # The bar is written to one of them, and must not be where either is not a terminal.
        if all(stream is not None and stream.isatty() for stream in (sys.stdout, sys.stderr)):
            progress(frames, notebook=False)
    found = [
        LabelledLogits(frame[names], frame[args.label_column], names)
        for frame, names in zip(frames, (logits, test_logits), strict=True)
    ]
    check_columns(found[0], args.logits, args)
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


def counts_of(labels: Any) -> Array:
    """Number of rows of each label that occurs."""
    if isinstance(labels, np.ndarray):
        return np.unique(labels, return_counts=True)[1]
    counts: Array = labels.value_counts().compute().to_numpy(float)
    return counts
