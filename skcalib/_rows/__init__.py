"""Rows: sums and maps over blocks of arrays, in memory or on Dask workers."""

from __future__ import annotations

from .arrays import both_columns, namespace
from .parallel import one_blas_thread, with_one_openmp_thread
from .ranking import Ranked
from .rows import Rows, map_blocks, thin

__all__ = [
    "Ranked",
    "Rows",
    "both_columns",
    "map_blocks",
    "namespace",
    "one_blas_thread",
    "thin",
    "with_one_openmp_thread",
]  # fmt: skip
