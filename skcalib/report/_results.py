"""What a report is made of: its rows, and the numbers that are computed from them when needed."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from skcalib._rows.arrays import Array, Floats
from skcalib.display import TemperatureSweepDisplay
from skcalib.metrics import (
    CalibrationTestResult,
    ScoreDecomposition,
    calibration_test,
    score_decomposition,
)
from skcalib.report._evaluation import DataSummary, by_class
from skcalib.selection import CalibratorComparison

from ._evaluation import Evaluation
from ._intervals import SEED, Intervals
from ._measures import Change
from ._verdict import verdict


@dataclass(frozen=True, eq=False)
class Results:
    """Rows and numbers of a report."""

    name: str
    given_name: str | None  #: by the user
    calibrator: Any
    comparison: CalibratorComparison | None
    warnings: list[str]
    rows: Evaluation
    sweep: TemperatureSweepDisplay
    data: DataSummary

    @property
    def both(self) -> list[tuple[Floats, str]]:
        """Probabilities before and after calibration, with their titles, which differ."""
        after = "After" if self.name == "Before" else self.name
        return [(self.rows.before, "Before"), (self.rows.after, after)]

    @cached_property
    def measures(self) -> dict[str, Change]:
        """All measures, with intervals."""
        return Intervals(self.rows).changes()

    @cached_property
    def tests(self) -> tuple[CalibrationTestResult, CalibrationTestResult]:
        """Tests of whether the model is calibrated, before and after."""
        n_resamples = Intervals(self.rows).n_resamples
        params = {**self.rows.keywords, "random_state": SEED, "n_resamples": n_resamples}
        before, after = (calibration_test(self.rows.y, P, **params) for P, _ in self.both)
        return before, after

    @cached_property
    def decompositions(self) -> dict[str, tuple[ScoreDecomposition, ScoreDecomposition]]:
        """Decompositions of proper scores, before and after."""
        rows = self.rows

        def of(P: Floats, score: Any) -> ScoreDecomposition:
            return score_decomposition(rows.y, P, score=score, **rows.of_rows)

        scores = ("log_loss", "brier_score")
        return {score: (of(rows.before, score), of(rows.after, score)) for score in scores}

    @cached_property
    def by_class(self) -> dict[str, Array]:
        """Rows, base rate, mean prediction and ECE of each class."""
        return by_class(self.rows)

    @cached_property
    def verdict(self) -> list[str]:
        """Three sentences."""
        return verdict(self.rows, self.name, self.measures, self.tests)
