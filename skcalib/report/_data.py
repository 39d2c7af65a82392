"""Summary of the rows that a report is about."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skcalib._typing import Floats, Indices

from ._evaluation import Evaluation

# Classes with fewer rows are listed: their measures say little.
FEW = 10


class DataSummary(NamedTuple):
    """What is counted in rows; rows with a weight of 0 are left out of all but ``n_given``."""

    n_given: int
    n_columns: int
    counts: Indices  #: rows of each class
    precision: str
    lowest: float  #: of the logits that are not masked
    highest: float
    n_masked: int  #: logits of minus infinity
    n_masked_rows: int
    n_ties: int  #: rows whose largest logit two classes share
    n_distinct: int  #: distinct confidences after calibration


def summary_of(Z: Floats, rows: Evaluation) -> DataSummary:
    """The summary of logits and their rows."""
    kept = rows.weights > 0
    n_given, Z = len(Z), Z[kept]
    masked = np.isneginf(Z)
    finite = Z[~masked]
    largest = Z.max(axis=1, keepdims=True)
    n_ties = np.count_nonzero((largest == Z).sum(axis=1) > 1 if Z.shape[1] > 1 else Z[:, 0] == 0)
    return DataSummary(
        n_given,
        Z.shape[1],
        np.bincount(rows.index[kept], minlength=rows.n_classes),
        str(Z.dtype),
        float(finite.min()) if finite.size else float("nan"),
        float(finite.max()) if finite.size else float("nan"),
        int(np.count_nonzero(masked)),
        int(np.count_nonzero(masked.any(axis=1))),
        int(n_ties),
        len(np.unique(rows.after[kept].max(axis=1))),
    )
