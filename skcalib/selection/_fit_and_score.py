"""A calibrator fitted to one part of the rows and judged on another."""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcalib._base import BaseCalibrator
from skcalib._engine.dask import is_dask
from skcalib._engine.memory import sum_rows
from skcalib._subestimator import fit_calibrator, with_unknown_classes
from skcalib._typing import Floats
from skcalib._warnings import FitWarning, ProbabilitiesWarning
from skcalib.metrics._input import check_input

from ._measures import NamedScorer, Predictions


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

    def _fit(self, Z: Floats, y: NDArray[np.intp], w: Floats | None) -> dict[str, Any]:  # noqa: ARG002
        return {"masked_": bool(sum_rows(_count_masked, Z))}

    def _calibrate(self, Z: Floats) -> Floats:
        return Z


def _count_masked(Z: Floats) -> Any:
    return np.isneginf(Z).sum()


# Messages of the warnings of a fit, by their class and cause. Not every warning can be pickled.
Messages = dict[tuple[type[Warning], str], str]


class _Outcome(NamedTuple):
    """What one calibrator did on one split."""

    seconds: float
    measured: dict[str, float]
    fitted: Any
    warnings: Messages


def _fit_and_judge(
    calibrator: Any, fit: _Rows, test: _Rows, classes: NDArray[Any], measures: list[NamedScorer]
) -> _Outcome:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        # It was said of all rows already, before the first fit.
        warnings.simplefilter("ignore", ProbabilitiesWarning)
        start = time.perf_counter()
        fitted = fit_calibrator(calibrator, fit.Z, fit.y, fit.w, classes)
        seconds = time.perf_counter() - start
    known = np.asarray(getattr(fitted, "classes_", classes))
    P = with_unknown_classes(fitted.predict_proba(test.Z), known, classes)
    if is_dask(P):  # one check for all measures
        y, P, w, _ = check_input(test.y, P, test.w, classes, None)
        test = _Rows(test.Z, y, w)
    else:  # scorers of scikit-learn take columns to be in the order of the sorted labels
        order = np.argsort(classes)
        classes, P = classes[order], P[:, order]
    predictions = Predictions(classes, P)
    values = {measure.name: measure(predictions, *test) for measure in measures}
    return _Outcome(seconds, values, fitted, dict(map(_keyed, caught)))


def _keyed(caught: warnings.WarningMessage) -> tuple[tuple[type[Warning], str], str]:
    """The message of a warning after its class and cause; without a cause that is the message."""
    message = str(caught.message)
    cause = caught.message.cause if isinstance(caught.message, FitWarning) else message
    return (caught.category, cause), message
