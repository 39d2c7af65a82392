"""Rows that calibrators are fitted to and scored on, and calibrators by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array, column_or_1d

from skcalib._base import BaseCalibrator
from skcalib._engine.inputs import as_numpy, if_in_memory
from skcalib._engine.rows import Rows
from skcalib._typing import Floats
from skcalib._validation.labels import as_labels
from skcalib._validation.logits import any_masked
from skcalib._validation.weights import check_weights


class Sample(NamedTuple):
    """Logits, labels and weights of some rows: arrays, or Dask collections."""

    Z: Any
    y: Any
    w: Any

    def part(self, rows: Any) -> Sample:
        """Some of the rows."""
        return Sample(self.Z[rows], self.y[rows], None if self.w is None else self.w[rows])


class Uncalibrated(BaseCalibrator):
    """Logits as they are: what calibrators are compared with."""

    masked_: bool

    def _weights_are_relative(self) -> bool:
        return True

    def _fit(self, rows: Rows) -> dict[str, Any]:
        return {"masked_": any_masked(rows)}

    def _calibrate(self, Z: Floats) -> Floats:
        return Z


def checked_sample(
    logits: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, classes: ArrayLike | None
) -> tuple[Sample, Uncalibrated]:
    """The rows, checked as calibrators check them, and the fitted calibrator that did."""
    checked = Uncalibrated(classes=classes).fit(logits, y, sample_weight)
    return Sample(*if_in_memory(_arrays, logits, y, sample_weight)), checked


def _arrays(logits: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> tuple[Any, ...]:
    """Arrays with all rows, also those of weight 0, by whose numbers they are split."""
    Z = check_array(
        as_numpy(logits, "logits"), dtype=[np.float64, np.float32], ensure_all_finite=False
    )
    return Z, column_or_1d(as_labels(y)), check_weights(sample_weight, len(Z))


def by_name(calibrators: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
    """Calibrators by their names; by their classes' or, if these are equal, by their repr."""
    # A pipeline is a sequence of its steps, and a string one of its letters.
    if hasattr(calibrators, "fit") or isinstance(calibrators, str) or not np.iterable(calibrators):
        raise ValueError(
            f"calibrators must be a list or a dict of calibrators, got {calibrators!r}. Pass it in "
            "a list."
        )
    if isinstance(calibrators, Mapping):
        named = dict(calibrators)
        nameless = [name for name in named if not isinstance(name, str)]
        if nameless:
            raise ValueError(f"Names of calibrators must be strings, got {nameless[0]!r}.")
    else:
        members = list(calibrators)
        kinds = Counter(type(member).__name__ for member in members)
        names = [
            repr(member) if kinds[type(member).__name__] > 1 else type(member).__name__
            for member in members
        ]
        named = dict(zip(names, members, strict=True))
        if len(named) < len(members):
            raise ValueError(f"calibrators must differ, or be a dict with names, got {names}.")
    if not named:
        raise ValueError(f"calibrators must name at least one, got {calibrators!r}.")
    return named
