"""Sums and maps over blocks of rows: in memory with threads, on workers of Dask, or of tensors."""

from .arrays import Array, Bools, Floats, Indices

__all__ = ["Array", "Bools", "Floats", "Indices"]
