"""Logits and labels in Parquet files, for the command line: read, split and kept with Dask."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

# A report is drawn on no more rows than this, which would add nothing to a picture.
ROWS_OF_REPORT = 100_000


class ParquetError(ValueError):
    """What is wrong with the files, in one sentence."""


@contextmanager
def cluster() -> Iterator[None]:
    """A cluster of processes on this machine, unless there is one already."""
    try:
        from distributed import Client, LocalCluster, default_client
    except ImportError as missing:
        raise ParquetError("Parquet files need Dask: pip install 'skcalib[dask]'.") from missing
    with ExitStack() as ours:
        try:
            default_client()
        except ValueError:
            ours.enter_context(Client(ours.enter_context(LocalCluster(dashboard_address=":0"))))
        yield


class Table(NamedTuple):
    """A Dask data frame of logits, and labels in one of its columns."""

    frame: Any
    label: str

    def split(self) -> tuple[Any, Any]:
        """Data frame of logits and series of labels."""
        return self.frame[[name for name in self.frame.columns if name != self.label]], self.frame[
            self.label
        ]


def read(pattern: str, label: str) -> Table:
    """The rows in Parquet files, of which nothing but the column names is looked at."""
    import dask.dataframe as dd

    try:
        table = Table(dd.read_parquet(pattern), label)
        columns = list(table.frame.columns)
    except (OSError, ValueError) as error:
        raise ParquetError(f"{pattern} cannot be read: {error}".rstrip(".") + ".") from error
    if not columns:
        raise ParquetError(f"{pattern} must match Parquet files with rows, got none.")
    if label not in columns:
        raise ParquetError(
            f"--label-column must be one of the columns of {pattern}, {', '.join(columns)}, got "
            f"{label!r}."
        )
    dtypes = table.split()[0].dtypes
    others = [name for name, dtype in dtypes.items() if dtype.kind not in "fiu"]
    if others or not len(dtypes):
        raise ParquetError(
            f"All columns of {pattern} but the labels must be logits, got "
            f"{f'{others[0]!r}, which holds no numbers' if others else 'no other column'}."
        )
    return table


def halves(table: Table) -> list[Table]:
    """Two halves of the rows, drawn at random with a fixed seed."""
    return [Table(part, table.label) for part in table.frame.random_split([0.5, 0.5], 0)]


def kept(tables: list[Table]) -> list[Table]:
    """The rows in the memory of the workers, with Dask's bar of progress on a terminal."""
    import dask
    from distributed import progress, wait

    frames = dask.persist(*(table.frame for table in tables))
    if sys.stderr.isatty():
        progress(frames, notebook=False)
    wait(frames)
    return [Table(f, t.label) for f, t in zip(frames, tables, strict=True)]


def some_rows(logits: Any, labels: Any) -> tuple[Any, Any]:
    """So many rows as a report needs, drawn at random with a fixed seed."""
    share = min(1.0, ROWS_OF_REPORT / len(labels))
    return tuple(x.sample(frac=share, random_state=0).compute() for x in (logits, labels))
