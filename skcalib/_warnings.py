"""Warnings that point at the line of the user's program that led to them, and their classes."""

import inspect
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sklearn.exceptions import ConvergenceWarning

# Frames of these packages may lie in between, as in a pipeline inside of a search.
PASSED_THROUGH = frozenset({"skcalib", "sklearn", "joblib"})

# Messages of the warnings of a fit, by their class and cause. Not every warning can be pickled.
Messages = dict[tuple[type[Warning], str], str]


def warn(message: str | Warning, category: type[Warning] = UserWarning, *data: Any) -> None:
    """Warn at the innermost line that is in none of the packages that calls pass through.

    A fixed ``stacklevel`` would be wrong wherever another method, or a step of a pipeline, calls.
    ``data`` are further arguments of the category.
    """
    frame, level = inspect.currentframe(), 1
    while frame is not None:
        package = str(frame.f_globals.get("__package__") or "")  # of programs empty
        if package.partition(".")[0] not in PASSED_THROUGH:
            break
        frame, level = frame.f_back, level + 1
    warning = message if isinstance(message, Warning) else category(message, *data)
    warnings.warn(warning, stacklevel=level)


class ProbabilitiesWarning(UserWarning):
    """Logits look like probabilities."""


class MissingClassesWarning(UserWarning):
    """There are more columns than labels: no row has those of the columns ``missing``."""

    def __init__(self, message: str, missing: Sequence[int] = (), n_columns: int = 0) -> None:
        super().__init__(message)
        self.missing = tuple(missing)
        self.n_columns = n_columns


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


@contextmanager
def recorded_warnings(*ignored: type[Warning]) -> Iterator[list[warnings.WarningMessage]]:
    """Record warnings in place of giving them, but for those of some classes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        for category in ignored:
            warnings.simplefilter("ignore", category)
        yield caught


def recorded(fit: Callable[..., Any], *args: Any) -> tuple[Any, Messages]:
    """What a fit to rows that were checked before returns, and messages of its warnings.

    Without a cause a warning is one of its own, by its message.
    """
    with recorded_warnings(ProbabilitiesWarning) as caught:
        fitted = fit(*args)
    messages = [(w.category, getattr(w.message, "cause", ""), str(w.message)) for w in caught]
    return fitted, {(kind, cause or text): text for kind, cause, text in messages}


def warn_once(found: dict[str, list[Messages]]) -> None:
    """Give each warning once, with the names and, of several fits, the number that it is of."""
    first: Messages = {}
    counts: dict[tuple[type[Warning], str], Counter[str]] = defaultdict(Counter)
    for name, of_splits in found.items():
        for messages in of_splits:
            first = messages | first
            for key in messages:
                counts[key][name] += 1
    n_splits = max(map(len, found.values()))
    for key, of_each in counts.items():
        splits = "" if n_splits == 1 else f" in {{}} of {n_splits} splits"
        each = ", ".join(f"{name}{splits.format(n)}" for name, n in of_each.items())
        category, cause = key
        data = [cause] if issubclass(category, FitWarning) else []
        warn(f"{each}: {first[key]}", category, *data)
