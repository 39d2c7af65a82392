"""Warnings that point at the line of the user's program that led to them, and their classes."""

from __future__ import annotations

import inspect
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from sklearn.exceptions import ConvergenceWarning

# Calls pass through these packages, as in a pipeline inside a search, and through these modules of
# Python, as in a decorated function or a cached property.
PASSED_THROUGH = frozenset({"skcalib", "sklearn", "joblib", "contextlib", "functools"})

# Messages of warnings from a fit, by class and cause. Some warnings cannot be pickled, so that only
# their messages come back from other processes.
Messages = dict[tuple[type[Warning], str], str]

Name = TypeVar("Name", bound=Hashable)


def warn(message: str | Warning, category: type[Warning] = UserWarning, *data: Any) -> None:
    """Warn at the innermost line outside the packages that calls pass through.

    A fixed ``stacklevel`` would be wrong if another method, or a step of a pipeline, is the caller.
    ``data`` are further arguments for the category.
    """
    frame, level = inspect.currentframe(), 1
    while frame is not None:
        module = str(frame.f_globals.get("__name__") or "")
        if module.partition(".")[0] not in PASSED_THROUGH:
            break
        frame, level = frame.f_back, level + 1
    warning = message if isinstance(message, Warning) else category(message, *data)
    warnings.warn(warning, stacklevel=level)


class ProbabilitiesWarning(UserWarning):
    """Logits look like probabilities."""


class MissingClassesWarning(UserWarning):
    """No row has the labels of the columns ``missing``."""

    def __init__(self, message: str, missing: Sequence[int] = (), n_columns: int = 0) -> None:
        super().__init__(message)
        self.missing = tuple(missing)
        self.n_columns = n_columns


class FitWarning(UserWarning):
    """Warning from a fit. Warnings with equal class and ``cause`` from many fits are merged.

    Their messages may differ in numbers.
    """

    def __init__(self, message: str, cause: str = "") -> None:
        super().__init__(message)
        self.cause = cause


class ColumnOrderWarning(FitWarning):
    """The columns may be in another order than the classes."""


class AbsentClassesWarning(FitWarning):
    """No row has a class that several rows should have by the uncalibrated probabilities."""


class NoMinimumWarning(FitWarning, ConvergenceWarning):
    """The log loss has no minimum."""


class NotConvergedWarning(FitWarning, ConvergenceWarning):
    """The optimizer stopped before it converged."""


class ReversedOrderWarning(FitWarning):
    """The probability of a class falls as its logit rises."""


class SmallWeightsWarning(FitWarning):
    """The total weight is far below the number of rows."""


class FewGroupsWarning(UserWarning):
    """There are few groups, or few groups or rows with an event, for intervals and tests."""


class CodesWarning(UserWarning):
    """A column of numbers may contain codes of categories."""


class FewRowsWarning(UserWarning):
    """There are few rows for the number of classes: ``weight`` is the sum of their weights."""

    def __init__(self, message: str, weight: float = 0.0, n_classes: int = 0) -> None:
        super().__init__(message)
        self.weight = weight
        self.n_classes = n_classes


@contextmanager
def ignored(*categories: type[Warning]) -> Iterator[None]:
    """Ignore warnings of these classes, in a block or in calls of a decorated function."""
    with warnings.catch_warnings():
        for category in categories:
            warnings.simplefilter("ignore", category)
        yield


@contextmanager
def recorded(*without: type[Warning]) -> Iterator[Messages]:
    """Record warnings instead of giving them, and ignore the classes in ``without``.

    The messages are complete at the end of the block. The key of a warning is its cause, or its
    message if it has none.
    """
    messages: Messages = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        for category in without:
            warnings.simplefilter("ignore", category)
        yield messages
    for w in caught:
        text = str(w.message)
        messages[w.category, getattr(w.message, "cause", "") or text] = text


def give(
    by_fit: Iterable[tuple[Name, Messages]],
    prefix: Callable[[Counter[Name]], str] | None = None,
) -> None:
    """Give recorded warnings again, but equal warnings only once.

    ``by_fit`` yields names and messages of fits. ``prefix`` writes the beginning of a warning from
    the names and their counts.
    """
    texts: Messages = {}
    names: dict[tuple[type[Warning], str], Counter[Name]] = defaultdict(Counter)
    for name, messages in by_fit:
        texts = messages | texts  # the first text of a cause wins
        for key in messages:
            names[key][name] += 1
    for key, counts in names.items():
        category, cause = key
        data = [cause] if issubclass(category, FitWarning) else []
        warn(f"{prefix(counts)}: {texts[key]}" if prefix else texts[key], category, *data)
