"""A calibrator fitted to one part of the rows and judged on another."""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcalib._base import BaseCalibrator
from skcalib._engine.inputs import is_lazy
from skcalib._engine.rows import Rows
from skcalib._subestimator import fit_calibrator, with_unknown_classes
from skcalib._typing import Floats
from skcalib._warnings import ProbabilitiesWarning
from skcalib.metrics._input import check_input

from ._measures import Measure, Predictions


class _Rows(NamedTuple):
    """Logits, labels and weights of some rows: arrays, or Dask collections."""

    Z: Any
    y: Any
    w: Any

    def part(self, rows: Any) -> _Rows:
        """Some of the rows."""
        return _Rows(self.Z[rows], self.y[rows], None if self.w is None else self.w[rows])


class _Uncalibrated(BaseCalibrator):
    """Logits as they are: what calibrators are compared with."""

    masked_: bool

    def _weights_are_relative(self) -> bool:
        return True

    def _fit(self, rows: Rows) -> dict[str, Any]:
        return {"masked_": bool(rows.sum(_count_masked))}

    def _calibrate(self, Z: Floats) -> Floats:
        return Z


def _count_masked(Z: Floats, *_: Any) -> Any:
    return np.isneginf(Z).sum()


class _Outcome(NamedTuple):
    """What one calibrator did on one split."""

    seconds: float
    measured: dict[str, float]
    fitted: Any
    said: list[tuple[type[Warning], str]]  #: warnings of the fit, each once


def _fit_and_judge(
    calibrator: Any, fit: _Rows, test: _Rows, classes: NDArray[Any], measures: list[Measure]
) -> _Outcome:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        # It was said of all rows already, before the first fit.
        warnings.simplefilter("ignore", ProbabilitiesWarning)
        start = time.perf_counter()
        fitted = fit_calibrator(calibrator, fit.Z, fit.y, fit.w, classes)
        seconds = time.perf_counter() - start
    known = np.asarray(getattr(fitted, "classes_", classes))
    P: Any = with_unknown_classes(fitted.predict_proba(test.Z), known, classes)
    if is_lazy(P):  # one check for all measures
        P, _ = check_input(test.y, P, test.w, classes, None)
        test = _Rows(test.Z, None, None)
    else:  # scorers of scikit-learn take columns to be in the order of the sorted labels
        order = np.argsort(classes)
        classes, P = classes[order], P[:, order]
    predictions = Predictions(classes, P)
    values = {measure.name: measure(predictions, *test) for measure in measures}
    said = dict.fromkeys((w.category, str(w.message)) for w in caught)
    return _Outcome(seconds, values, fitted, list(said))
