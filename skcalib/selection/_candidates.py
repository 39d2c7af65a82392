"""Candidates for the default calibrator, and names for calibrators."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import make_pipeline

from skcalib._rows import Rows, namespace
from skcalib._typing import Floats
from skcalib.base import BaseCalibrator
from skcalib.binning import VennAbersCalibration
from skcalib.meta._estimator_calibration import EstimatorCalibration
from skcalib.scaling import (
    MatrixScaling,
    OrderPreservingScaling,
    OrdinalCalibration,
    SplineCalibration,
    TemperatureScaling,
    Uncalibrated,
    VectorScaling,
)

# Default candidates that the weights' prior favors.
SIMPLE = ("temperature", "uncalibrated", "ordinal")

# Trees are candidates up to this number of classes, since every class needs separate trees. With
# more classes, ordinal calibration is a candidate if the classes are ordered.
MOST_CLASSES_OF_TREES = 20

# Matrix scaling is a candidate up to this number of multiplications per pass. A fit needs 10 passes
# or more: about a minute for 10,000 rows and 300 classes.
MATRIX_PRODUCTS = 1e9


class Uniform(BaseCalibrator):
    """Equal probabilities for all unmasked classes."""

    _on_device = True

    def _fit(self, rows: Rows) -> dict[str, Any]:  # noqa: ARG002
        return {}

    def _calibrate(self, Z: Floats) -> Floats:
        return namespace(Z).zeros_like(Z)


def default_candidates(
    rows: Rows, *, ordered: bool = False, smooth: bool = False
) -> dict[str, BaseCalibrator]:
    """Return unfitted candidates by name, the simplest first.

    The ``smooth`` candidates exclude trees and step functions.
    """
    n_rows, n_classes = rows.n_rows, len(rows.classes)
    candidates: dict[str, BaseCalibrator] = {
        "temperature": TemperatureScaling(smoothing="auto"),
        "uncalibrated": Uncalibrated(),
        "uniform": Uniform(),
    }
    if n_classes == 2:
        # Maps of the log-odds, so that their mixture is a function of the log-odds.
        candidates["spline"] = SplineCalibration()
        if not smooth:
            # Temperature scaling comes first: probabilities of large logits round to 1, and a step
            # function needs their order.
            candidates["Venn-Abers"] = make_pipeline(TemperatureScaling(), VennAbersCalibration())
        return candidates
    candidates["order-preserving"] = OrderPreservingScaling()
    rows_per_class = 2  # since a class has two parameters in vector scaling
    if ordered and n_classes > MOST_CLASSES_OF_TREES:
        candidates["ordinal"] = OrdinalCalibration()
        # With few rows per class, the order helps more than separate parameters per class.
        rows_per_class = 100
    if n_rows >= rows_per_class * n_classes:
        takes_matrix = not rows.masked and n_rows * n_classes**2 < MATRIX_PRODUCTS
        for alpha in (0.1,) if takes_matrix else (0.1, 0.03):
            candidates[f"vector alpha={alpha:g}"] = VectorScaling(alpha=alpha, tol=1e-4)
        for alpha in (10, 0.1, 0.003) if takes_matrix else ():
            candidates[f"matrix alpha={alpha:g}"] = MatrixScaling(alpha=alpha, tol=1e-4)
    if n_classes <= MOST_CLASSES_OF_TREES and not smooth:
        from sklearn.ensemble import ExtraTreesClassifier

        forest = ExtraTreesClassifier(50, min_samples_leaf=10, max_features=0.5, random_state=0)
        candidates["gradient boosting"] = EstimatorCalibration()
        candidates["extra trees"] = EstimatorCalibration(forest)
    return candidates
