"""Sums and maps over blocks of rows: in memory with threads, on workers of Dask, or of tensors."""

from __future__ import annotations

from numpy.typing import ArrayLike

from .arrays import Array, Bools, Floats, Indices, both_columns, namespace, on_host
from .inputs import as_array, as_numpy, check_in_memory, checked_rows
from .parallel import with_one_blas_thread, with_one_openmp_thread
from .ranking import Ranked
from .rows import MemoryRows, Plan, Rows

__all__ = [
    "Array", "ArrayLike", "Bools", "Floats", "Indices", "MemoryRows", "Plan", "Ranked", "Rows",
    "as_array", "as_numpy", "both_columns", "check_in_memory", "checked_rows",
    "namespace", "on_host", "with_one_blas_thread", "with_one_openmp_thread",
]  # fmt: skip
