"""Base class for step functions of class probabilities."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from skcalib._input.arrays import check_needs_no_gradients
from skcalib._input.measures import ScoreColumns
from skcalib._rows import Ranked, Rows, arrays
from skcalib._scores.bins import bin_index
from skcalib._scores.columns import joined_probabilities, margins, n_maps, probabilities
from skcalib._typing import Bools, Floats, Indices
from skcalib.base import BaseCalibrator

# A class that is masked in all rows is fitted to this single row, a miss, so that it has a map.
ALWAYS_MASKED = Ranked(np.array([0.5]), np.ones(1), np.zeros(1))


class _PerClass(BaseCalibrator):
    """One-vs-rest step functions of class probabilities; rows are then normalized."""

    _on_device = True

    bin_edges_: list[Floats]
    bin_values_: list[Floats]

    @abstractmethod
    def _fit_class(self, rows: Ranked, unit: float = 1.0) -> dict[str, Any]:
        """Return the fitted attributes of one class for its ranked probabilities and hits.

        ``unit`` is the weight of one pseudo-row, for methods that add pseudo-rows.
        """

    def _check(self) -> None:
        """Raise a ValueError for invalid parameters."""

    def _fit(self, rows: Rows) -> dict[str, Any]:
        self._check()
        columns = ScoreColumns(list(range(n_maps(rows.n_columns))), _class_events, rows)
        fits = self._fit_columns(columns)
        return {name: [fit[name] for fit in fits] for name in fits[0]}

    def _fit_columns(self, columns: ScoreColumns) -> list[dict[str, Any]]:
        unit = pseudo_row_weight(columns.rows)
        return columns.ranked(
            lambda rows: self._fit_class(rows if len(rows.scores) else ALWAYS_MASKED, unit)
        )

    def _calibrate(self, Z: Floats) -> Floats:
        check_needs_no_gradients(Z, "X")
        xp = arrays.namespace(Z)
        if hasattr(xp, "step_values"):  # a graph of ONNX searches the bins in its own way
            scores = Z if Z.shape[1] > 2 else margins(Z)
            calibrated = xp.step_values(scores, self._edges(), self.bin_values_)
        else:
            calibrated = self._values(probabilities(Z))
        return joined_probabilities(arrays.astype(calibrated, Z.dtype), Z.shape[1])

    def _edges(self) -> list[Floats]:
        """Return the edges of each class for predictions, which may differ by rounding."""
        return self.bin_edges_

    def _values(self, P: Floats) -> Floats:
        """Calibrate one-vs-rest probabilities (m, n_maps)."""
        steps = list(zip(self._edges(), self.bin_values_, strict=True))
        if not isinstance(P, np.ndarray):
            columns = [self._value(P[:, k], *step) for k, step in enumerate(steps)]
            return arrays.namespace(P).stack(columns, axis=1)
        out = np.empty_like(P)
        for k, step in enumerate(steps):
            out[:, k] = self._value(P[:, k], *step)
        return out

    def _value(self, p: Floats, edges: Floats, values: Floats) -> Floats:
        """Calibrate probabilities ``p`` (m,) of one class: edges (n + 1,), values (n,)."""
        return arrays.take(values, bin_index(p, edges))


def pseudo_row_weight(rows: Rows) -> float:
    """Return the weight of a pseudo-row: 1, or the mean weight of the rows if it is smaller."""
    return min(1.0, rows.weight / rows.n_rows)


def _class_events(Z: Floats, y: Indices) -> tuple[Floats, Bools]:
    """Return probabilities and events (m, n_maps) for each class, or for the second of two.

    The probability is NaN in rows that carry no information about the class, because the class or
    every other class is masked.
    """
    P, masked = probabilities(Z), np.isneginf(Z)
    if masked.any():
        masked |= np.count_nonzero(~masked, axis=1)[:, None] == 1  # the other class is certain
        P[masked if P.shape[1] > 1 else masked.any(axis=1, keepdims=True)] = np.nan
    return P, arrays.is_event(y, P.shape[1])
