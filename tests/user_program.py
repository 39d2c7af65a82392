"""A program that uses skcalib and is type-checked as strictly as can be: see .ci/run."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC  # type: ignore[import-untyped]

from skcalib import (
    CalibratedClassifier,
    TemperatureScaling,
    calibration_report,
    compare_calibrators,
)
from skcalib.datasets import make_logits
from skcalib.metrics import calibration_error_interval, expected_calibration_error
from skcalib.monitor import CalibrationMonitor

Floats = NDArray[np.floating[Any]]


def calibrated(logits: Floats, y: NDArray[np.intp]) -> tuple[float, Floats]:
    """The temperature, and probabilities of the same rows."""
    calibrator = TemperatureScaling().fit(logits, y)
    return calibrator.temperature_, calibrator.predict_proba(logits)


def main() -> None:
    """Use what most programs will."""
    logits, y = make_logits(500, 3, random_state=0)
    temperature, P = calibrated(logits, y)
    error: float = expected_calibration_error(y, P, n_bins=10, strategy="quantile")
    interval = calibration_error_interval(y, P, n_resamples=20, random_state=0)
    names: list[str] = compare_calibrators(logits, y, cv=2).names
    watched: int = CalibrationMonitor(labels=[0, 1, 2]).update(y, P).n_samples
    classifier = CalibratedClassifier(SVC(), TemperatureScaling(), cv=3)
    report = calibration_report(TemperatureScaling().fit(logits, y), logits, y)
    page: str = report.to_html()
    assert temperature > 0
    assert "<style>" in page
    assert "<script>" in page
    assert interval.low <= error + 1
    assert watched == 500
    assert len(names) == 16
    assert classifier.cv == 3


if __name__ == "__main__":
    main()
