"""Measures of each class of a report."""

from __future__ import annotations

from typing import Any

import numpy as np

from skcalib._typing import Array
from skcalib.metrics import expected_calibration_error

from ._evaluation import Evaluation


def by_class(rows: Evaluation) -> dict[str, Array]:
    """Rows, base rate, mean prediction and ECE of each class, in the order of the columns."""
    counted = np.bincount(rows.index[rows.weights > 0], minlength=rows.n_classes)
    weight = np.bincount(rows.index, rows.weights, minlength=rows.n_classes)
    found = {
        "label": rows.classes,
        "n_samples": counted,
        "base_rate": weight / weight.sum(),
    }
    for when, P in (("before", rows.before), ("after", rows.after)):
        of_each: dict[str, Any] = {"kind": "classwise", "average": None, **rows.keywords}
        found[f"mean_{when}"] = np.average(P, axis=0, weights=rows.w).astype(np.float64)
        found[f"ece_{when}"] = expected_calibration_error(rows.y, P, **of_each)
    return found


def worst(table: dict[str, Array], n_classes: int) -> list[int]:
    """Indices of the classes with the largest ECE after calibration, in decreasing order."""
    return np.argsort(-table["ece_after"], kind="stable")[:n_classes].tolist()
