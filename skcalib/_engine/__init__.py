"""Sums and maps over blocks of rows: in memory with threads, or on the workers of Dask."""
