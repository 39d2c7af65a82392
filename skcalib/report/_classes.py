"""Measures of each class of a report."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from skcalib._output.html import as_text
from skcalib._typing import Array
from skcalib._validation.labels import shown
from skcalib.metrics import expected_calibration_error

from ._evaluation import Evaluation

# Longer names are cut: they would fill the page, and leave no room for the diagrams.
LETTERS = 120


def short(name: object) -> str:
    """A name of a class as text, without what exceeds some letters."""
    text = as_text(name)
    return text if len(text) <= LETTERS else f"{text[: LETTERS - 1]}\N{HORIZONTAL ELLIPSIS}"


def listed(classes: Iterable[Any]) -> str:
    """The first names of classes as a list, with quotation marks around texts."""
    return shown([short(c) if len(as_text(c)) > LETTERS else c for c in classes])


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
