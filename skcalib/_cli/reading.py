"""Logits and labels in files: NumPy arrays, and tables that pandas or Dask reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from skcalib._input.labels import shown
from skcalib._typing import Array

ARRAYS, TABLES = (".npy", ".npz"), (".csv", ".tsv", ".parquet")

# A comparison uses a random sample of this size from larger Parquet files.
MAX_FILE_ROWS = 1_000_000

# Larger Parquet files are read by Dask.
LARGE_FILE = 1 << 30

# Longer labels are probably documents. NumPy would reserve the longest length for every label.
LONGEST_LABEL = 1000


class FileRows(NamedTuple):
    """Logits, labels and further columns of rows in a file."""

    X: Any  #: array or data frame of numbers
    y: Any = None
    copied: Any = None  #: data frame with the columns of --keep
    note: str = ""  #: says if the rows are a sample


class FileColumns(NamedTuple):
    """Columns in a table that options name."""

    label: str | None = None
    logits: Sequence[str] = ()
    keep: Sequence[str] = ()

    def text(self) -> list[str]:
        """Return the columns to read as text."""
        return [*([] if self.label is None else [self.label]), *self.keep]


@contextmanager
def reading(file: str) -> Iterator[None]:
    """Turn any error of a reader into a ValueError that names the file."""
    try:
        yield
    except ImportError:
        raise
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{file} must be text in UTF-8, got another encoding. Save it with encoding='utf-8'."
        ) from error
    except Exception as error:
        text = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise ValueError(f"{file} cannot be read: {text[:300]}.") from error


def file_suffix(file: str) -> str:
    """Return the suffix of a file, without the name of an array, as in FILE.npz:NAME."""
    path = file.rpartition(".npz:")[0] + ".npz" if ".npz:" in file else file.rstrip("/")
    suffix = Path(path).suffix.lower()
    if suffix not in (*ARRAYS, *TABLES):
        if not Path(file).is_dir():
            raise ValueError(f"{file} must end in {', '.join((*ARRAYS, *TABLES))}.")
        return ".parquet"
    return suffix


# Rows to calibrate on.
def read_rows(logits: str, labels: str | None, columns: FileColumns) -> FileRows:
    """Read logits, and labels from a separate file or from a column of the same table.

    ``logits`` and ``labels`` name files.
    """
    label_column = columns.label if labels is None else None
    with reading(logits):
        if file_suffix(logits) in ARRAYS:
            if label_column or columns.logits:
                raise ValueError("--label-column and --columns are for .csv, .tsv and .parquet")
            rows = FileRows(_matrix(_read_array(logits)))
        else:
            wanted = columns._replace(label=label_column)
            frame, note = _read_sample(logits, wanted.text())
            rows = _split_columns(frame, wanted)._replace(note=note)
    if labels is None:
        return rows
    with reading(labels):
        y = _read_labels(labels, columns.label)
        if y.shape != (len(rows.X),):
            raise ValueError(
                f"it must hold one label for each of the {len(rows.X):,} rows of {logits}, got "
                f"shape {y.shape} (the first line of a text file is a header)"
            )
    return rows._replace(y=y)


def _read_labels(file: str, column: str | None) -> Array:
    """Read labels from a separate file."""
    if file_suffix(file) in ARRAYS:
        y = _read_array(file)
        if y.dtype.kind in "US":
            _check_length(np.char.str_len(y.ravel()))
        return y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    frame, _ = _read_sample(file, None)
    if column is None and len(frame.columns) != 1:
        raise ValueError(
            f"it must have one column, got {shown(list(frame.columns))}. Write it without its "
            "index (index=False), or name the column with --label-column"
        )
    return _column_labels(frame, column or frame.columns[0])


def _split_columns(frame: Any, columns: FileColumns) -> FileRows:
    """Split a table into logits, labels and columns to copy."""
    if not len(frame):
        raise ValueError("it has no rows")
    names = list(frame.columns)
    for name in (*columns.text(), *columns.logits):
        if names.count(name) != 1:
            raise ValueError(f"it must have one column {name!r}, got the columns {shown(names)}")
    chosen = list(columns.logits) or [name for name in names if name not in columns.text()]
    X = frame[chosen]
    _check_numbers(X, is_chosen=bool(columns.logits))
    y = _column_labels(frame, columns.label) if columns.label is not None else None
    dtype = np.float32 if {str(dtype).lower() for dtype in X.dtypes} == {"float32"} else np.float64
    return FileRows(X.astype(dtype), y, frame[list(columns.keep)])


def _check_numbers(X: Any, *, is_chosen: bool) -> None:
    """Raise a ValueError with the line and the column if a column contains no logits."""
    import pandas as pd

    for name, values in X.items():
        _check_no_vectors(name, values)
        wrong = pd.to_numeric(values, errors="coerce").isna()
        if wrong.any() or not pd.api.types.is_numeric_dtype(values):
            row = int(np.argmax(wrong))
            cell = values.iloc[row]
            content = "nothing" if pd.isna(cell) else f"{str(cell)[:40]!r}"
            raise ValueError(
                f"column {str(name)!r} must hold numbers, got {content} in row {row + 1} (line "
                f"{row + 2} of text). Leave out this row, or name the columns of logits with "
                "--columns"
            )
        is_index = pd.api.types.is_integer_dtype(values) and values.is_unique and len(values) > 20
        if not is_chosen and (str(name).startswith("Unnamed: ") or is_index):
            raise ValueError(
                f"column {str(name)!r} seems to be an index of the rows. Write the file without it "
                "(index=False), or name the columns of logits with --columns"
            )
    if X.shape[1] == 0:
        raise ValueError("it has no columns of logits")


def _check_no_vectors(name: Any, values: Any) -> None:
    """Raise a ValueError for a column of lists or arrays, which Parquet files may contain."""
    sizes = [np.size(cell) for cell in values if isinstance(cell, list | tuple | np.ndarray)]
    if values.dtype == object and sizes:
        raise ValueError(
            f"column {str(name)!r} must hold one entry per row, got vectors of {sizes[0]} entries. "
            "Write each entry of the vectors as a column"
        )


def _column_labels(frame: Any, name: str) -> Array:
    """Return the labels in a column: integers if all are whole numbers, else text."""
    import pandas as pd

    if name not in frame:
        raise ValueError(f"it must have a column {name!r}, got {shown(list(frame.columns))}")
    labels = frame[name]
    _check_no_vectors(name, labels)
    if labels.isna().any():
        row = int(np.argmax(labels.isna()))
        raise ValueError(f"column {name!r} has no label in row {row + 1} (line {row + 2} of text)")
    texts = labels.astype(str)
    _check_length(texts.str.len().to_numpy())
    spaced = texts != texts.str.strip()
    if spaced.any():
        row = int(np.argmax(spaced))
        raise ValueError(
            f"label {texts.iloc[row]!r} in row {row + 1} (line {row + 2} of text) begins or ends "
            "with a space. Remove the space"
        )
    numbers = pd.to_numeric(labels, errors="coerce")
    # A leading zero, as in "001", means text.
    if numbers.notna().all() and (numbers % 1 == 0).all() and not texts.str.match(r"0\d").any():
        return numbers.to_numpy(np.int64)
    return texts.to_numpy(object).astype(str)


def _check_length(n_letters: Array) -> None:
    """Raise a ValueError for labels that are too long, by their numbers of letters (n_rows,)."""
    if n_letters.max(initial=0) > LONGEST_LABEL:
        row = int(n_letters.argmax())
        raise ValueError(
            f"labels must have at most {LONGEST_LABEL:,} letters, got {n_letters[row]:,} in row "
            f"{row + 1}. Name the column of labels with --label-column, or shorten the labels"
        )


# Rows to apply a calibrator to.
def class_columns(classes: Sequence[Any], names: Sequence[str]) -> list[str]:
    """Return columns with the classes as names, up to a common start and end, or no columns."""
    first, *_ = texts = [str(label) for label in classes]
    candidates = set()
    for name in names:
        for match in re.finditer(re.escape(first), name):
            start, end = name[: match.start()], name[match.end() :]
            candidates.add(tuple(f"{start}{text}{end}" for text in texts))
    complete = [columns for columns in candidates if set(columns) <= set(names)]
    return list(complete[0]) if len(complete) == 1 else []


def read_parts(
    logits: str, columns: FileColumns, choose: Callable[[list[str]], list[str]] = lambda _: []
) -> Iterator[FileRows]:
    """Yield logits without labels: all rows at once, or the partitions of large Parquet files.

    ``choose`` selects the columns of logits among all names. If it selects none, all are logits.
    """

    def split(frame: Any) -> FileRows:
        chosen = columns.logits or choose([str(name) for name in frame.columns])
        return _split_columns(frame, columns._replace(logits=chosen))

    with reading(logits):
        if file_suffix(logits) in ARRAYS:
            if columns.text() or columns.logits:
                raise ValueError("--keep and names of columns are for .csv, .tsv and .parquet")
            yield FileRows(_matrix(_read_array(logits)))
        elif file_suffix(logits) != ".parquet" or _is_small(logits):
            yield split(_read_sample(logits, columns.text())[0])._replace(y=None)
        else:
            frame = _dask_frame(logits)
            for k in range(frame.npartitions):
                part = frame.get_partition(k).compute(scheduler="synchronous")
                if len(part):
                    yield split(part)


# Files.
def _read_array(file: str) -> Array:
    """Read an array from a .npy file, or from a .npz file, as in FILE.npz:NAME."""
    path, _, name = file.rpartition(".npz:") if ".npz:" in file else (file, "", "")
    with Path(f"{path}.npz" if name else file).open("rb") as stream:
        content = np.load(stream, allow_pickle=False)
        if isinstance(content, np.ndarray):
            return content
        if name not in content.files and (name or len(content.files) != 1):
            raise ValueError(
                f"it holds {shown(content.files)}; name one, as in {path or file}:NAME"
            )
        array: Array = content[name or content.files[0]]
        return array


def _matrix(array: Array) -> Array:
    """Return an array of numbers with rows and columns, or raise a ValueError."""
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.dtype.kind not in "fiu" or not array.size:
        raise ValueError(f"it must hold a table of numbers, got {array.dtype} {array.shape}")
    return array


def _read_sample(file: str, text_columns: Sequence[str] | None) -> tuple[Any, str]:
    """Read a data frame with all rows, or a random sample of a large Parquet file, and a note."""
    if file_suffix(file) != ".parquet":
        return _read_text(file, text_columns), ""
    if _is_small(file):
        import pandas as pd

        return pd.read_parquet(file), ""
    frame = _dask_frame(file)
    n_rows = len(frame)
    if n_rows <= MAX_FILE_ROWS:
        return frame.compute(), ""
    sample = frame.sample(frac=MAX_FILE_ROWS / n_rows, random_state=0).compute()
    return sample, f"{len(sample):,} of {n_rows:,} rows of {file}, drawn at random"


def _is_small(file: str) -> bool:
    """Return whether pandas reads a Parquet file: Dask reads folders, patterns and large files."""
    path = Path(file)
    return path.is_file() and path.stat().st_size <= LARGE_FILE


def _dask_frame(file: str) -> Any:
    """Open Parquet files as a Dask data frame, or raise a ValueError if there are none."""
    import dask.dataframe as dd

    frame = dd.read_parquet(file)
    if not len(frame.columns):
        raise ValueError("there are no Parquet files of this name")
    return frame


def _read_text(file: str, text_columns: Sequence[str] | None) -> Any:
    """Read a data frame from a .csv or .tsv file with a header in the first line.

    Commas separate fields, or semicolons or tabs if the header contains no comma. Labels and
    columns to copy stay text, because numbers would lose leading zeros.
    """
    import pandas as pd

    with Path(file).open(encoding="utf-8-sig") as stream:
        header, second = stream.readline(), stream.readline()
    if header.startswith("sep="):
        raise ValueError(f"line 1 must be a header, got {header.strip()!r}. Delete this line")
    seps = "\t" if Path(file).suffix.lower() == ".tsv" else ",;\t"
    sep = next((sep for sep in seps if sep in header), ",")
    fields = pd.read_csv(file, sep=sep, header=None, nrows=1, dtype=str, encoding="utf-8-sig")
    if (repeated := fields.iloc[0].dropna()).duplicated().any():
        raise ValueError(
            f"names of columns must differ, got {repeated[repeated.duplicated()].iloc[0]!r} twice"
        )
    frame = pd.read_csv(
        file,
        sep=sep,
        decimal="," if sep != "," and "," in second else ".",
        dtype=str if text_columns is None else dict.fromkeys(text_columns, str),
        encoding="utf-8-sig",
        keep_default_na=False,  # "NA" and "None" may be classes
        na_values=["", "nan", "NaN", "<NA>"],
    )
    if not isinstance(frame.index, pd.RangeIndex):  # surplus first columns become an index
        raise ValueError(
            f"line 1 must be a header with as many fields as line 2, got {header.strip()!r}"
        )
    names = [str(name) for name in frame.columns]
    if all(map(_is_number, names)) and names != [str(k) for k in range(len(names))]:
        raise ValueError(f"line 1 must be a header with names, got {shown(names)}")
    return frame


def _is_number(text: str) -> bool:
    """Return whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
