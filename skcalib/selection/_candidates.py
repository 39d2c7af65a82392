"""The candidates of the default calibrator, simple ones first, and calibrators by name."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from skcalib import binning, scaling
from skcalib._base import BaseCalibrator
from skcalib._rows import Floats, Rows, namespace
from skcalib._warnings import warn
from skcalib.meta._estimator_calibration import EstimatorCalibration

# Regularization strengths of vector and matrix maps, as multiples of the rule. Averages of the maps
# cover what is between.
VECTOR_STRENGTHS = (1.0, 0.1)
MATRIX_STRENGTHS = (10.0, 1.0, 0.1, 0.01, 0.003)

# Those of the default candidates that weights are shrunk towards.
SIMPLE = ("temperature", "uncalibrated")

# Gradient norm of the fits: averages need no more.
TOL = 1e-4

# With more classes than this a matrix map has so many parameters that fewer strengths must do.
MANY_CLASSES, FEW_STRENGTHS = 256, (3.0, 0.3, 0.03)

# Trees are for this many classes at most, each of which takes trees of its own; and for two
# classes, whose log-odds smooth maps fit well, from this many rows on.
MOST_CLASSES_OF_TREES, ROWS_OF_TREES = 20, 400


class Uncalibrated(BaseCalibrator):
    """Logits as they are: what calibrators are compared with."""

    masked_: bool

    def _weights_are_relative(self) -> bool:
        return True

    def _fit(self, rows: Rows) -> dict[str, Any]:
        return {"masked_": rows.masked}

    def _calibrate(self, Z: Floats) -> Floats:
        return Z


class Uniform(BaseCalibrator):
    """The same probability for all classes that are not masked."""

    def _weights_are_relative(self) -> bool:
        return True

    def _fit(self, rows: Rows) -> dict[str, Any]:  # noqa: ARG002
        return {}

    def _calibrate(self, Z: Floats) -> Floats:
        return namespace(Z).zeros_like(Z)


def default_candidates(n_rows: int, n_classes: int, *, masked: bool) -> dict[str, BaseCalibrator]:
    """Calibrators by name, the one that weights are shrunk towards first.

    Fewer for many classes, and for masked ones; a spline and isotonic regression for two classes.
    """
    found: dict[str, BaseCalibrator] = {
        "temperature": scaling.TemperatureScaling(smoothing="auto"),
        "uncalibrated": Uncalibrated(),
        "uniform": Uniform(),
        "order-preserving": scaling.OrderPreservingScaling(),
    }
    found |= {
        f"vector alpha={a:g}": scaling.VectorScaling(alpha=a, tol=TOL) for a in VECTOR_STRENGTHS
    }
    if not masked:
        strengths = MATRIX_STRENGTHS if n_classes <= MANY_CLASSES else FEW_STRENGTHS
        found |= {f"matrix alpha={a:g}": scaling.MatrixScaling(alpha=a, tol=TOL) for a in strengths}
    if n_classes == 2:  # with more classes, maps of each class add nothing to those of all
        found["spline"] = scaling.SplineCalibration()
        found["isotonic"] = binning.IsotonicCalibration(interpolation="centered")
    if 2 < n_classes <= MOST_CLASSES_OF_TREES or (n_classes == 2 and n_rows >= ROWS_OF_TREES):
        found["gradient boosting"] = EstimatorCalibration()
    if 2 < n_classes <= MOST_CLASSES_OF_TREES:
        from sklearn.ensemble import ExtraTreesClassifier

        forest = ExtraTreesClassifier(50, min_samples_leaf=10, max_features=0.5, random_state=0)
        found["extra trees"] = EstimatorCalibration(forest)
    return found


def by_name(calibrators: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
    """Calibrators by their names; by their classes' or, if these are equal, by their repr."""
    # A pipeline is a sequence of its steps, and a string one of its letters.
    if hasattr(calibrators, "fit") or isinstance(calibrators, str) or not np.iterable(calibrators):
        raise ValueError(
            f"calibrators must be a list or a dict of calibrators, got {calibrators!r}. Pass it in "
            "a list."
        )
    if isinstance(calibrators, Mapping):
        named = dict(calibrators)
        nameless = [name for name in named if not isinstance(name, str)]
        if nameless:
            raise ValueError(f"Names of calibrators must be strings, got {nameless[0]!r}.")
    else:
        members = list(calibrators)
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
    """Calibrators that take masked classes; others are left out with a warning."""
    taking = {name: c for name, c in calibrators.items() if getattr(c, "_takes_masked", True)}
    if not taking:
        next(iter(calibrators.values()))._check_takes_masked(masked=True)  # noqa: SLF001
    if len(taking) < len(calibrators):
        warn(
            "Calibrators that take no masked classes, logits of -inf, are left out: "
            f"{', '.join(name for name in calibrators if name not in taking)}."
        )
    return taking
