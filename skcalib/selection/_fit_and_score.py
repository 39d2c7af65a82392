"""Calibrators fitted to training rows and scored on test rows, one outcome for each split.

This is below the comparison and any automatic choice: what an outcome is scored by, such as
measures, or the out-of-fold probabilities themselves, is a function that the caller passes.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from skcalib._subestimator import fit_calibrator, with_unknown_classes
from skcalib._typing import Array
from skcalib._warnings import FitWarning, ProbabilitiesWarning, warn

from ._sample import Sample

# Messages of the warnings of a fit, by their class and cause. Not every warning can be pickled.
Messages = dict[tuple[type[Warning], str], str]

# A function ``score(P, test, classes)`` of the probabilities of test rows, a column per class.
Score = Callable[[Any, Sample, Array], Any]


class Outcome(NamedTuple):
    """One calibrator on one split."""

    score: Any  #: what the function of that name returned
    fitted: Any
    seconds: float  #: duration of the fit
    warnings: Messages


def fit_and_score(
    calibrators: Iterable[Any],
    splits: Sequence[tuple[Sample, Sample]],
    classes: Array,
    score: Score,
    *,
    n_jobs: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[list[Outcome]]:
    """For each calibrator its outcomes on each split, a pair of training and test rows.

    Training rows may lack classes; a calibrator without ``classes`` gives them probability 0.
    Warnings of the fits are part of the outcomes, which :func:`warn_of_fits` gives.
    """
    jobs = [
        delayed(_fit_and_score)(calibrator, train, test, classes, score)
        for calibrator in calibrators
        for train, test in splits
    ]
    outcomes = []
    for outcome in Parallel(n_jobs=n_jobs, return_as="generator")(jobs):
        outcomes.append(outcome)
        if on_progress is not None:
            on_progress(len(outcomes), len(jobs))
    return [outcomes[i : i + len(splits)] for i in range(0, len(outcomes), len(splits))]


def _fit_and_score(
    calibrator: Any, train: Sample, test: Sample, classes: Array, score: Score
) -> Outcome:
    with recorded_warnings() as caught:
        start = time.perf_counter()
        fitted = fit_calibrator(calibrator, train.Z, train.y, train.w, classes)
        seconds = time.perf_counter() - start
    known = np.asarray(getattr(fitted, "classes_", classes))
    P = with_unknown_classes(fitted.predict_proba(test.Z), known, classes)
    return Outcome(score(P, test, classes), fitted, seconds, messages_of(caught))


@contextmanager
def recorded_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Record the warnings of a fit to rows that were checked before."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("ignore", ProbabilitiesWarning)
        yield caught


def messages_of(caught: list[warnings.WarningMessage]) -> Messages:
    """Messages of recorded warnings, by their class and cause."""
    return dict(map(_keyed, caught))


def _keyed(caught: warnings.WarningMessage) -> tuple[tuple[type[Warning], str], str]:
    """The message of a warning after its class and cause; without a cause that is the message."""
    message = str(caught.message)
    cause = caught.message.cause if isinstance(caught.message, FitWarning) else message
    return (caught.category, cause), message


def warn_of_fits(outcomes: dict[str, list[Outcome]]) -> None:
    """Give each warning of the fits once, with the calibrators and the number of splits."""
    warn_once({name: [o.warnings for o in of_splits] for name, of_splits in outcomes.items()})


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
