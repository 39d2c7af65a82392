"""The rows of a report, and the numbers that are computed from them when they are needed."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from skcalib import metrics
from skcalib._rows import Array, Floats
from skcalib.display import TemperatureSweepDisplay
from skcalib.metrics import (
    CalibrationTestResult,
    MulticalibrationResult,
    ScoreDecomposition,
    multicalibration_error,
)
from skcalib.selection import CalibratorComparison

from ._measures import SEED, Change, changes_of, number_of_resamples, risk_figures
from ._rows import Evaluation
from ._verdict import verdict


class View(NamedTuple):
    """Probabilities before or after calibration, with their names."""

    P: Floats
    title: str
    heading: str
    when: str


@dataclass(eq=False, repr=False)
class Results:
    """What was evaluated, and the numbers of a report."""

    name: str
    given_name: str | None  #: by the user
    calibrator: Any
    comparison: CalibratorComparison | None
    warnings_: list[str]
    rows: Evaluation
    sweep: TemperatureSweepDisplay
    n_columns: int  #: of the logits
    facts: list[tuple[str, str]]  #: about the logits and their rows
    given: tuple[str, ...] = ()  #: what else predictions were given: features
    features: Any = None
    command: str = ""  #: the command line that was typed
    figure_: Any = None

    @property
    def views(self) -> tuple[View, View]:
        """Probabilities before and after calibration, with titles that differ."""
        title, when = "After" if self.name == "Before" else self.name, "after calibration by "
        return (
            View(self.rows.before, "Before", "Before calibration", "before calibration"),
            View(self.rows.after, title, "After calibration", when + title),
        )

    @cached_property
    def measures_(self) -> dict[str, Change]:
        """All measures, with intervals."""
        return changes_of(self.rows)

    @cached_property
    def tests_(self) -> tuple[CalibrationTestResult, CalibrationTestResult]:
        """Tests of whether the model is calibrated, before and after."""
        n_resamples = number_of_resamples(self.rows.n_samples)
        params = {**self.rows.of_kind, "random_state": SEED, "n_resamples": n_resamples}
        before, after = (
            metrics.calibration_test(self.rows.y, view.P, **params) for view in self.views
        )
        return before, after

    @cached_property
    def segments_(self) -> tuple[MulticalibrationResult, MulticalibrationResult] | None:
        """Gaps of the segments of features before and after, if there are features."""
        if self.features is None:
            return None
        n_resamples = number_of_resamples(self.rows.n_samples)
        of_rows: Any = {**self.rows.of_rows, "kind": self.rows.kind, "n_resamples": n_resamples}
        before, after = (
            multicalibration_error(self.rows.y, view.P, self.features, **of_rows, random_state=SEED)
            for view in self.views
        )
        return before, after

    @cached_property
    def risk_(self) -> dict[str, tuple[Any, Any]] | None:
        """Figures of the risk of the second of two classes, before and after."""
        return risk_figures(self.rows) if self.rows.kind == "binary" else None

    @cached_property
    def decompositions_(self) -> dict[str, tuple[ScoreDecomposition, ScoreDecomposition]]:
        """Decompositions of proper scores, before and after."""
        rows = self.rows

        def of(P: Floats, score: Any) -> ScoreDecomposition:
            return metrics.score_decomposition(
                rows.y, P, score=score, kind=rows.kind, **rows.of_rows
            )

        scores = ("log_loss", "brier_score")
        return {score: (of(rows.before, score), of(rows.after, score)) for score in scores}

    @cached_property
    def by_class_(self) -> dict[str, Array]:
        """Rows, base rate, mean prediction and ECE of each class, in the order of the columns."""
        rows = self.rows
        weight = np.bincount(rows.index, rows.weights, minlength=rows.n_classes)
        found = {
            "label": rows.classes,
            "n_samples": rows.counts,
            "base_rate": weight / weight.sum(),
        }
        each: dict[str, Any] = {"kind": "classwise", "average": None, **rows.keywords}
        for when, P in (("before", rows.before), ("after", rows.after)):
            found[f"mean_{when}"] = np.average(P, axis=0, weights=rows.w).astype(np.float64)
            found[f"ece_{when}"] = metrics.expected_calibration_error(rows.y, P, **each)
        return found

    @cached_property
    def verdict_(self) -> list[str]:
        """Three sentences: before calibration, its effect, and what is left."""
        return verdict(self.rows, self.name, self.measures_, self.tests_)

    def worst(self, n_classes: int) -> list[int]:
        """Indices of the classes with the largest ECE after calibration, in decreasing order."""
        order = np.argsort(-self.by_class_["ece_after"], kind="stable")
        return order[:n_classes].tolist()
