"""Logits and labels in Parquet files, for the command line: read, split and kept with Dask."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np

from skcalib._rows.arrays import Array

from .files import InputError, LabelledLogits, listed, reading

# A report is drawn on no more rows than this, which would add nothing to a picture.
ROWS_OF_REPORT = 100_000

REMEDY = "write it again as Parquet, with pandas or pyarrow"


@contextmanager
def cluster() -> Iterator[None]:
    """A cluster of processes on this machine, unless there is one already."""
    with _named_if_missing():
        import dask.dataframe  # noqa: F401
        from distributed import Client, LocalCluster, default_client
    with ExitStack() as ours:
        try:
            default_client()
        except ValueError:
            ours.enter_context(Client(ours.enter_context(LocalCluster(dashboard_address=":0"))))
        yield


@contextmanager
def _named_if_missing() -> Iterator[None]:
    """Name the missing package, of those that Dask needs for data frames."""
    try:
        yield
    except ImportError as missing:
        # Dask's own message has several lines; the cause names the missing package.
        name, cause = "a part of Dask", missing  # type: str, BaseException | None
        while cause is not None:
            name = getattr(cause, "name", None) or name
            cause = cause.__cause__ or cause.__context__
        raise InputError(
            f"Parquet files need Dask, and {name} is missing: pip install 'skcalib[dask]'."
        ) from missing


class Table(NamedTuple):
    """A Dask data frame of logits, and labels in one of its columns, if there are any."""

    frame: Any
    label: str | None

    @property
    def others(self) -> list[str]:
        """Names of the columns of logits."""
        return [name for name in self.frame.columns if name != self.label]

    def rows(self) -> LabelledLogits:
        """Data frame of logits and series of labels."""
        return LabelledLogits(self.frame[self.others], self.frame[self.label], self.others)


def read(pattern: str, label: str | None) -> Table:
    """The rows in Parquet files, of which only the column names are read."""
    import dask.dataframe as dd

    with reading(pattern, REMEDY):
        frame = dd.read_parquet(pattern)
        columns = list(frame.columns)
    if not columns:
        raise InputError(f"{pattern} must match Parquet files with rows, got none.")
    numbers = [name for name in columns if not isinstance(name, str)]
    if numbers:  # pandas writes and reads them, Dask does not
        raise InputError(
            f"Columns of {pattern} must have strings for names, got {numbers[0]!r}; write it again "
            "after frame.columns = frame.columns.astype(str)."
        )
    if label is not None and label not in columns:
        raise InputError(
            f"--label-column must be one of the columns of {pattern}, {listed(columns)}, "
            f"got {label!r}."
        )
    table = Table(frame, label)
    dtypes = frame[table.others].dtypes
    words = [name for name, dtype in dtypes.items() if dtype.kind not in "fiu"]
    if words or not len(dtypes):
        raise InputError(
            f"All columns of {pattern} but the labels must be logits, got "
            f"{f'{words[0]!r}, which holds no numbers' if words else 'no other column'}."
        )
    return table


def partitions(pattern: str, label: str | None) -> Iterator[Any]:
    """Data frames of the logits in Parquet files, one after the other; labels are left out."""
    with _named_if_missing():
        import dask.dataframe  # noqa: F401
    table = read(pattern, label)
    frame = table.frame[table.others]
    for k in range(frame.npartitions):
        with reading(pattern, REMEDY):
            part = frame.get_partition(k).compute(scheduler="synchronous")
        if len(part):
            yield part


def as_array(part: Any) -> Array:
    """A data frame of numbers as an array, without pandas' own missing values."""
    numeric = [getattr(dtype, "numpy_dtype", dtype) for dtype in part.dtypes]
    found: Array = part.to_numpy(np.result_type(np.float32, *numeric), na_value=np.nan)
    return found


def halves(table: Table) -> list[Table]:
    """Two halves of the rows, drawn at random with a fixed seed."""
    return [Table(part, table.label) for part in table.frame.random_split([0.5, 0.5], 0)]


def kept(tables: list[Table], file: str) -> list[Table]:
    """The rows in the memory of the workers, with Dask's progress bar on a terminal."""
    import dask
    from distributed import futures_of, progress, wait

    with reading(file, REMEDY):
        frames = dask.persist(*(table.frame for table in tables))
        # The bar is written to one of them, and must not be where either is not a terminal.
        if all(stream is not None and stream.isatty() for stream in (sys.stdout, sys.stderr)):
            progress(frames, notebook=False)
        wait(frames)
        for future in futures_of(frames):
            if future.status == "error":
                raise future.exception()
    return [Table(f, t.label) for f, t in zip(frames, tables, strict=True)]


def range_of(frame: Any) -> tuple[float, float]:
    """Smallest and largest number of a data frame."""
    import dask

    low, high = dask.compute(frame.min(), frame.max())
    return float(low.min()), float(high.max())


def some_rows(rows: LabelledLogits) -> LabelledLogits:
    """As many rows as a report needs, drawn at random with a fixed seed."""
    share = min(1.0, ROWS_OF_REPORT / len(rows.labels))
    logits, labels = (
        x.sample(frac=share, random_state=0).compute() for x in (rows.logits, rows.labels)
    )
    return LabelledLogits(logits, labels)
