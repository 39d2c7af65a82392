"""The rows of a report, with probabilities before and after, their summary and their classes."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from skcalib._output.html import as_text
from skcalib._rows.arrays import Array, Floats, Indices
from skcalib._validation.labels import encode, shown
from skcalib.metrics import expected_calibration_error


@dataclass(frozen=True)
class Evaluation:
    """Labels, weights and settings, and the probabilities that are evaluated with them."""

    y: Array
    w: Floats | None
    classes: Array
    n_bins: int
    before: Floats
    after: Floats

    @cached_property
    def keywords(self) -> dict[str, Any]:
        """Arguments of measures and displays."""
        return {**self.of_rows, "n_bins": self.n_bins}

    @cached_property
    def of_rows(self) -> dict[str, Any]:
        """Arguments of measures without bins."""
        return {"sample_weight": self.w, "labels": self.classes}

    @cached_property
    def index(self) -> Indices:
        """The column of the label of each row."""
        return encode(self.y, self.classes)

    @cached_property
    def weights(self) -> Floats:
        """The weight of each row, 1 by default."""
        return np.ones(len(self.y)) if self.w is None else self.w

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @cached_property
    def n_samples(self) -> int:
        """Number of rows with a positive weight."""
        return int(np.count_nonzero(self.weights))

    @cached_property
    def n_effective(self) -> float:
        """Number of rows of equal weight whose means would have the same variance."""
        w = self.weights / self.weights.max()
        return float(w.sum() ** 2 / (w @ w))

    def mean(self, values: Array) -> float:
        """The weighted mean of a value of each row."""
        return float(np.average(values, weights=self.w))


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


# Longer names are cut: they would fill the page, and leave no room for the diagrams.
LETTERS = 120


def short(name: object) -> str:
    """A name of a class as text, without what exceeds some letters."""
    text = as_text(name)
    return text if len(text) <= LETTERS else f"{text[: LETTERS - 1]}\N{HORIZONTAL ELLIPSIS}"


def listed(classes: Iterable[Any]) -> str:
    """The first names of classes as a list, with quotation marks around texts."""
    return shown([short(c) if len(as_text(c)) > LETTERS else c for c in classes])


def by_class(rows: Evaluation) -> dict[str, Array]:
    """Rows, base rate, mean prediction and ECE of each class, in the order of the columns."""
    counted = np.bincount(rows.index[rows.weights > 0], minlength=rows.n_classes)
    weight = np.bincount(rows.index, rows.weights, minlength=rows.n_classes)
    found = {
        "label": rows.classes,
        "n_samples": counted,
        "base_rate": weight / weight.sum(),
    }
    for when, P in (("before", rows.before), ("after", rows.after)):
        of_each: dict[str, Any] = {"kind": "classwise", "average": None, **rows.keywords}
        found[f"mean_{when}"] = np.average(P, axis=0, weights=rows.w).astype(np.float64)
        found[f"ece_{when}"] = expected_calibration_error(rows.y, P, **of_each)
    return found


def worst(table: dict[str, Array], n_classes: int) -> list[int]:
    """Indices of the classes with the largest ECE after calibration, in decreasing order."""
    return np.argsort(-table["ece_after"], kind="stable")[:n_classes].tolist()
