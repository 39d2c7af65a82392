"""The rows of a report: labels, weights, and probabilities before and after calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skcalib._engine.cached import cached_property
from skcalib._typing import Array, Floats, Indices
from skcalib._validation.labels import encode


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
