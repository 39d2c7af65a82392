"""Names of measures, for scorers, intervals, tests, comparisons and monitors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import partial
from typing import Any

import numpy as np

from skcalib._typing import ArrayLike, Kind

from . import _calibration_error
from ._calibration_error import (
    FORMULAS,
    averaged_two_bin_calibration_error,
    expected_calibration_error,
    smooth_calibration_error,
)
from ._proper_scores import (
    Score,
    mean_brier_score,
    mean_log_loss,
    ranked_probability_score,
    score_decomposition,
)


def mean_part(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    part: str,
    score: Score,
    kind: Kind = "auto",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    order: ArrayLike | None = None,
) -> float:
    """Return a part of :func:`score_decomposition`, or its mean over several events in a row."""
    parts = score_decomposition(
        y_true, y_proba, score=score, kind=kind, sample_weight=sample_weight, labels=labels,
        pos_label=pos_label, order=order,
    )  # fmt: skip
    return float(np.mean(getattr(parts, part)))


_OF_LABELS = {"kind": "multilabel"}

# Functions and arguments of measures by name. All are errors: smaller is better. Names may begin
# with "neg_", as names of scorers do.
MEASURES: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    **{name: (getattr(_calibration_error, name), {}) for name in FORMULAS},
    "smooth_calibration_error": (smooth_calibration_error, {}),
    "averaged_two_bin_calibration_error": (averaged_two_bin_calibration_error, {}),
    "ranked_probability_score": (ranked_probability_score, {}),
    "log_loss": (mean_log_loss, {}),
    "brier_score": (mean_brier_score, {}),
    "classwise_calibration_error": (expected_calibration_error, {"kind": "classwise"}),
    "multilabel_calibration_error": (expected_calibration_error, _OF_LABELS),
}

for _score in ("log_loss", "brier_score"):
    _params = {"part": "miscalibration", "score": _score}
    MEASURES[f"{_score}_miscalibration"] = mean_part, _params
    MEASURES[f"multilabel_{_score}"] = mean_part, {**_params, "part": "score", **_OF_LABELS}

# Names of measures in papers and in other libraries.
ELSEWHERE = {
    "ace": "classwise_calibration_error",
    "brier": "brier_score",
    "brier_score_loss": "brier_score",
    "cross_entropy": "log_loss",
    "ece": "expected_calibration_error",
    "l1": "expected_calibration_error",
    "l2": "root_mean_squared_calibration_error",
    "logloss": "log_loss",
    "max": "maximum_calibration_error",
    "mce": "maximum_calibration_error",
    "nll": "log_loss",
    "rmsce": "root_mean_squared_calibration_error",
    "rps": "ranked_probability_score",
    "smece": "smooth_calibration_error",
}


def measure_name(name: str) -> str | None:
    """Return the name without "neg_" if there is a measure of this name, else None."""
    plain = name.removeprefix("neg_")
    return plain if plain in MEASURES else None


def name_of_function(measure: Callable[..., Any]) -> tuple[str | None, dict[str, Any]]:
    """Return the name of a function of this package, and the arguments that a partial binds.

    A partial with other arguments than bins and the kind of the score has no name.
    """
    function, bound = measure, {}
    if isinstance(measure, partial) and not measure.args:
        function, bound = measure.func, measure.keywords
    if bound.keys() <= {"n_bins", "strategy", "kind"}:
        for name, (target, fixed) in MEASURES.items():
            if function is target and not fixed:
                return name, dict(bound)
    return None, {}


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return the question whether another name is meant, or an empty text."""
    valid, plain = set(names), name.lower().replace(" ", "_").removeprefix("neg_")
    meant = [ELSEWHERE.get(plain, plain)]
    meant += get_close_matches(plain, [one.removeprefix("neg_") for one in valid], 1, 0.75)
    for one in meant:
        for candidate in (f"neg_{one}", one) if name.startswith("neg_") else (one, f"neg_{one}"):
            if candidate in valid:
                return f" Did you mean {candidate!r}?"
    return ""
