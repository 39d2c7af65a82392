"""Warnings that point at the line of the user's program that led to them, and their classes."""

from __future__ import annotations

import inspect
import warnings

from sklearn.exceptions import ConvergenceWarning

# Frames of these packages may lie in between, as in a pipeline inside of a search.
PASSED_THROUGH = frozenset({"skcalib", "sklearn", "joblib"})


def warn(message: str | Warning, category: type[Warning] = UserWarning, *data: str) -> None:
    """Warn at the innermost line that is in none of the packages that calls pass through.

    A fixed ``stacklevel`` would be wrong wherever another method, or a step of a pipeline, calls.
    ``data`` are further arguments of the category.
    """
    frame, level = inspect.currentframe(), 1
    while frame is not None and _package(frame.f_globals) in PASSED_THROUGH:
        frame, level = frame.f_back, level + 1
    warning = message if isinstance(message, Warning) else category(message, *data)
    warnings.warn(warning, stacklevel=level)


def _package(names: dict[str, object]) -> str:
    """The package of the module with these names; of programs that is empty."""
    return str(names.get("__package__") or "").partition(".")[0]


class ProbabilitiesWarning(UserWarning):
    """Logits look like probabilities."""


class FitWarning(UserWarning):
    """A warning of a fit: those of many fits with one class and ``cause`` are merged into one.

    Their messages may differ by the numbers of each fit.
    """

    def __init__(self, message: str, cause: str = "") -> None:
        super().__init__(message)
        self.cause = cause


class NoMinimumWarning(FitWarning, ConvergenceWarning):
    """The log loss has no minimum."""


class NotConvergedWarning(FitWarning, ConvergenceWarning):
    """The optimizer stopped before it converged."""


class ReversedOrderWarning(FitWarning):
    """The probability of a class falls as its logit rises."""


class SmallWeightsWarning(FitWarning):
    """The sum of the weights is far below the number of rows."""


class FewRowsWarning(UserWarning):
    """There are few rows for the number of classes: ``weight`` is the sum of their weights."""

    def __init__(self, message: str, weight: float = 0.0, n_classes: int = 0) -> None:
        super().__init__(message)
        self.weight = weight
        self.n_classes = n_classes


class LabelShiftWarning(UserWarning):
    """More has changed than the class priors: ``pvalue`` is that of the test that says so.

    ``distance`` is the share of the rows that no class priors explain.
    """

    def __init__(self, message: str, pvalue: float = 0.0, distance: float = 0.0) -> None:
        super().__init__(message)
        self.pvalue = pvalue
        self.distance = distance
