"""Warnings that point at the line of the user's program that led to them."""

from __future__ import annotations

import inspect
import warnings

# A call may pass through all of them on its way, as in a pipeline inside of a search.
PASSED_THROUGH = frozenset({"skcalib", "sklearn", "joblib"})


def warn(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line that is in none of the packages that calls pass through.

    A number of frames that is written down where the warning is would be wrong wherever another
    method, or a step of a pipeline, leads there.
    """
    frame, level = inspect.currentframe(), 1
    while frame is not None and _package(frame.f_globals) in PASSED_THROUGH:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _package(names: dict[str, object]) -> str:
    """The package of the module with these names; of programs that is empty."""
    return str(names.get("__package__") or "").partition(".")[0]


class ProbabilitiesWarning(UserWarning):
    """Logits look like probabilities."""


class SmallWeightsWarning(UserWarning):
    """Weights have a sum that is far below the number of rows."""
