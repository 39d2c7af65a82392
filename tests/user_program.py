"""A program that uses skcalib, for strict checks of types by .ci/run."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
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
from skcalib.comparison import CalibratorComparison
from skcalib.datasets import make_logits
from skcalib.metrics import (
    ReliabilityCurve,
    calibration_difference,
    calibration_error_interval,
    calibration_test,
    expected_calibration_error,
    reliability_curve,
    smooth_calibration_error,
)
from skcalib.monitor import CalibrationMonitor
from skcalib.report import CalibrationReport

Floats = NDArray[np.floating[Any]]


def calibrated(logits: Floats, y: NDArray[np.intp]) -> tuple[float, Floats]:
    """The temperature, and probabilities of the same rows."""
    calibrator = TemperatureScaling().fit(logits, y)
    return calibrator.temperature_, calibrator.predict_proba(logits)


def measured(y: NDArray[np.intp], P: Floats, Q: Floats) -> None:
    """Measures and fields of results are numbers; measures of each class are arrays."""
    error: float = expected_calibration_error(y, P, n_bins=10, strategy="quantile")
    of_classes: Floats = expected_calibration_error(y, P, kind="classwise", average=None)
    smooth: float = smooth_calibration_error(y, P, labels=[0, 1, 2])
    assert smooth >= 0
    assert len(smooth_calibration_error(y, P, average=None, kind="classwise")) == 3
    interval = calibration_error_interval(y, P, n_resamples=20, random_state=0)
    pvalue: float = calibration_test(y, P, n_resamples=20, random_state=0).pvalue
    difference = calibration_difference(y, P, Q, measure=expected_calibration_error, n_resamples=20)
    curve: ReliabilityCurve = reliability_curve(y, P)
    assert interval.low <= error <= 1
    assert of_classes.shape == (3,)
    assert 0 < pvalue <= 1
    assert difference.low <= difference.high
    assert curve.gap.ndim == 1


def reported(logits: Floats, y: NDArray[np.intp], folder: Path) -> CalibrationReport:
    """A report, its page as text and in a file."""
    compared: CalibratorComparison = compare_calibrators(logits, y, cv=2)
    calibrator = TemperatureScaling().fit(logits, y)
    report = calibration_report(calibrator, logits, y, comparison=compared)
    page: str = report.to_html()
    report.to_html(folder / "report.html")
    assert page == (folder / "report.html").read_text(encoding="utf-8")
    assert len(compared.names) == 16
    return report


def main() -> None:
    """Run the calls that most programs need."""
    logits, y = make_logits(500, 3, random_state=0)
    temperature, P = calibrated(logits, y)
    measured(y, P, np.full_like(P, 1 / 3))
    with TemporaryDirectory() as folder:
        page: str = reported(logits, y, Path(folder)).to_html()
    watched: int = CalibrationMonitor([0, 1, 2]).update(y, P).n_samples_
    classifier = CalibratedClassifier(SVC(), TemperatureScaling(), cv=3)
    assert temperature > 0
    assert "<style>" in page
    assert "<script" not in page
    assert watched == 500
    assert classifier.cv == 3


if __name__ == "__main__":
    main()
