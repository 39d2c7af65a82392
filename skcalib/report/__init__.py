"""Reports as a figure and as a page: of a calibrator before and after, and of a model.

The texts of the page are in ``page.html``, the sentences of the verdict in ``verdict.toml``.
"""

from __future__ import annotations

from ._report import (
    CalibrationReport as CalibrationReport,
    ValidationReport as ValidationReport,
    calibration_report,
    validation_report,
)

# The classes of the results are public in this module only, not in skcalib.
__all__ = ["calibration_report", "validation_report"]
