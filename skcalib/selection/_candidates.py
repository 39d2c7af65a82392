"""Candidates of the default calibrator, and names of calibrators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline

from skcalib._input.logits import refuse_masked
from skcalib._rows import Floats, Rows, namespace
from skcalib._warnings import warn
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
from skcalib.scaling._uncalibrated import unless_passthrough

# Default candidates that the prior of the weights favors.
SIMPLE = ("temperature", "uncalibrated")

# Trees are candidates up to this number of classes, since each class needs trees of its own. With
# more classes, ordinal calibration is a candidate if the classes are ordered.
MOST_CLASSES_OF_TREES = 20

# Matrix scaling is a candidate up to this number of products of a matrix and all logits. A fit
# takes 10 passes or more, so 10,000 rows of 300 classes take about a minute.
MATRIX_PRODUCTS = 1e9


class Uniform(BaseCalibrator):
    """Equal probabilities for all classes that are not masked."""

    def _fit(self, rows: Rows) -> dict[str, Any]:  # noqa: ARG002
        return {}

    def _calibrate(self, Z: Floats) -> Floats:
        return namespace(Z).zeros_like(Z)


def default_candidates(
    n_rows: int, n_classes: int, *, masked: bool, ordered: bool = False
) -> dict[str, BaseCalibrator]:
    """Return unfitted candidates by name, the simplest first."""
    candidates: dict[str, BaseCalibrator] = {
        "temperature": TemperatureScaling(smoothing="auto"),
        "uncalibrated": Uncalibrated(),
        "uniform": Uniform(),
    }
    if n_classes == 2:
        # Maps of one number, so that their mixture is one function of one number.
        candidates["spline"] = SplineCalibration()
        # A step function depends on the order of the rows. Probabilities of large logits round to
        # 1, where their order is lost, so temperature scaling comes first.
        candidates["Venn-Abers"] = make_pipeline(TemperatureScaling(), VennAbersCalibration())
        return candidates
    candidates["order-preserving"] = OrderPreservingScaling()
    rows_per_class = 2  # since a class has two parameters in vector scaling
    if ordered and n_classes > MOST_CLASSES_OF_TREES:
        candidates["ordinal"] = OrdinalCalibration()
        # With few rows per class, the order helps more than parameters of single classes.
        rows_per_class = 100
    if n_rows >= rows_per_class * n_classes:
        takes_matrix = not masked and n_rows * n_classes**2 < MATRIX_PRODUCTS
        for alpha in (0.1,) if takes_matrix else (0.1, 0.03):
            candidates[f"vector alpha={alpha:g}"] = VectorScaling(alpha=alpha, tol=1e-4)
        for alpha in (10, 0.1, 0.003) if takes_matrix else ():
            candidates[f"matrix alpha={alpha:g}"] = MatrixScaling(alpha=alpha, tol=1e-4)
    if n_classes <= MOST_CLASSES_OF_TREES:
        from sklearn.ensemble import ExtraTreesClassifier

        forest = ExtraTreesClassifier(50, min_samples_leaf=10, max_features=0.5, random_state=0)
        candidates["gradient boosting"] = EstimatorCalibration()
        candidates["extra trees"] = EstimatorCalibration(forest)
    return candidates


def by_name(calibrators: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
    """Calibrators by name: the class, or the repr if several calibrators have one class."""
    # A pipeline is a sequence of its steps, and a string a sequence of its letters.
    if hasattr(calibrators, "fit") or isinstance(calibrators, str) or not np.iterable(calibrators):
        raise ValueError(
            f"calibrators must be a list or a dict of calibrators, got {calibrators!r}. Pass it in "
            "a list."
        )
    if isinstance(calibrators, Mapping):
        named = {name: unless_passthrough(member) for name, member in calibrators.items()}
        for name in named:
            if not isinstance(name, str):
                raise ValueError(f"Names of calibrators must be strings, got {name!r}.")
    else:
        members = list(map(unless_passthrough, calibrators))
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


def taking_masked(calibrators: dict[str, Any]) -> dict[str, Any]:
    """Calibrators that take masked classes; a warning names the others."""
    taking = {name: c for name, c in calibrators.items() if getattr(c, "_takes_masked", True)}
    if not taking:
        refuse_masked(next(iter(calibrators.values())))
    if len(taking) < len(calibrators):
        warn(
            "Calibrators that take no masked classes, logits of -inf, are left out: "
            f"{', '.join(name for name in calibrators if name not in taking)}."
        )
    return taking
