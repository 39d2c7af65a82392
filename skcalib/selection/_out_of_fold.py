"""Fits of candidates, their out-of-fold probabilities, and the folds that these come from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from skcalib._engine.blocks import both_columns
from skcalib._engine.memory import MemoryRows
from skcalib._engine.rows import Rows
from skcalib._splits import Split
from skcalib._subestimator import fit_to_rows, log_probabilities, with_fitted
from skcalib._typing import Array, Floats, Indices
from skcalib._warnings import warn
from skcalib.scaling._family import family_of, fit_together

from ._fit_and_score import Messages, messages_of, recorded_warnings

# Number of rows from which on weights are estimated on fewer of them.
MANY_ROWS, FEWER_ROWS = 50_000, 25_000

# Number of logits that are gathered at least, if there are as many, to choose rows from.
MANY_NUMBERS = 1 << 24

# Candidates by name, fitted or not.
Candidates = dict[str, Any]


class Fits(NamedTuple):
    """Fitted candidates by name, their warnings, and the errors of those that failed."""

    fitted: Candidates
    messages: dict[str, Messages]
    errors: dict[str, Exception]


class Fold(NamedTuple):
    """Candidates fitted to the training rows, and log-probabilities of the labels of test rows."""

    fits: Fits
    test: MemoryRows
    L: dict[str, Floats]  #: (n_test,) for each candidate


def fit_all(candidates: Mapping[str, Any], rows: Rows, classes: Array) -> Fits:
    """All candidates fitted to the same rows, families of linear maps together."""
    families = defaultdict(list)
    for name, candidate in candidates.items():
        family = family_of(candidate)
        families[("a family", *family) if family else name].append(name)
    found = Fits({}, {}, {})
    for names in families.values():
        _fit_into(found, {name: candidates[name] for name in names}, rows, classes)
    return found


def _fit_into(found: Fits, members: Candidates, rows: Rows, classes: Array) -> None:
    try:
        with recorded_warnings() as caught:
            fitted = _fitted(list(members.values()), rows, classes)
    except Exception as error:  # calibrators of users may raise anything
        if len(members) == 1:
            found.errors.update(dict.fromkeys(members, error))
        else:  # those of a family that do not fail
            for name, member in members.items():
                _fit_into(found, {name: member}, rows, classes)
    else:
        found.fitted.update(zip(members, fitted, strict=True))
        found.messages[", ".join(members)] = messages_of(caught)


def _fitted(members: list[Any], rows: Rows, classes: Array) -> list[Any]:
    if len(members) == 1:
        return [fit_to_rows(members[0], rows, classes)]
    found = zip(members, fit_together(members, rows), strict=True)
    return [with_fitted(member, attributes, rows, classes) for member, attributes in found]


def out_of_fold(
    candidates: Mapping[str, Any],
    rows: MemoryRows,
    splits: list[Split],
    classes: Array,
    smoothing: float,
    n_jobs: int | None,
) -> list[Fold]:
    """Candidates that can be fitted on each fold; others are left out with a warning.

    If none can, the error of the first is raised.
    """
    jobs = (delayed(_fold)(candidates, rows, split, classes, smoothing) for split in splits)
    folds = list(Parallel(n_jobs=n_jobs)(jobs))
    errors = {name: error for fold in folds for name, error in fold.fits.errors.items()}
    if len(errors) == len(candidates):
        raise errors[next(iter(candidates))]
    for name, error in errors.items():
        warn(f"Candidate {name!r} failed on a fold and is left out: {error}")
        for fold in folds:
            fold.L.pop(name, None)
    return folds


def _fold(
    candidates: Mapping[str, Any],
    rows: MemoryRows,
    split: Split,
    classes: Array,
    smoothing: float,
) -> Fold:
    train, test = (part_of(rows, numbers) for numbers in split)
    fits, L = fit_all(candidates, train, classes), {}
    for name in candidates:  # in their order
        if name in fits.fitted:
            try:
                L[name] = log_of_labels(fits.fitted[name], test, classes, smoothing)
            except Exception as error:  # as above
                fits.errors[name] = error
    return Fold(fits, test, L)


def part_of(rows: MemoryRows, numbers: Indices) -> MemoryRows:
    """Some of the rows."""
    return MemoryRows(*(None if a is None else a[numbers] for a in rows.arrays))


def log_of_labels(calibrator: Any, rows: MemoryRows, classes: Array, smoothing: float) -> Floats:
    """Log-probabilities of the labels of rows (n,), mixed with the uniform distribution.

    That is uniform among the classes that are not masked.
    """
    L = log_probabilities(calibrator, rows.X, classes)[np.arange(rows.n_rows), rows.y]
    n_classes = np.count_nonzero(both_columns(rows.X) > -np.inf, axis=1)
    return np.log((1 - smoothing) * np.exp(L, dtype=np.float64) + smoothing / n_classes)


def rows_to_weigh_on(rows: Rows) -> MemoryRows:
    """All rows, or if they are many some of them at random, in memory."""
    return MemoryRows(*rows.gather(_some, max(FEWER_ROWS, MANY_NUMBERS // rows.n_columns)))


def _some(rows: Rows) -> tuple[Any, ...]:
    n_rows, arrays = rows.n_rows, rows.arrays[:3]
    if n_rows < MANY_ROWS:
        return arrays
    some = np.sort(np.random.default_rng(0).choice(n_rows, FEWER_ROWS, replace=False))
    return tuple(None if a is None else a[some] for a in arrays)


def random_folds(y: Indices, n_folds: int, random_state: Any) -> list[Split]:
    """Random folds, or as few stratified ones as the rarest classes allow; none for a single row.

    Folds are not stratified, since classes would then be as frequent in the test rows as in the
    training rows, which they are not in new data: offsets of many classes would seem to help.
    """
    n_folds = min(n_folds, len(y))
    rng = check_random_state(0 if random_state is None else random_state)
    found = [Split(*s) for s in KFold(n_folds, shuffle=True, random_state=rng).split(y)]
    if hold_two_classes(y, found):
        return found
    is_most_frequent = y == np.bincount(y).argmax()
    others = min(int(is_most_frequent.sum()), int((~is_most_frequent).sum()))
    fewer = min(n_folds, others)
    if fewer < 2:
        warn(
            f"The training rows of each fold must hold two classes, got {others} of {len(y)} rows "
            "that are not of the most frequent class: the first candidate is used, without "
            "cross-validation. Calibrate on more rows."
        )
        return []
    if fewer < n_folds:
        warn(
            f"The training rows of each of the {n_folds} folds must hold two classes, got {others} "
            f"rows that are not of the most frequent class: there are {fewer} folds. Calibrate on "
            "more rows."
        )
    splitter = StratifiedKFold(fewer, shuffle=True, random_state=rng)
    return [Split(*s) for s in splitter.split(y, is_most_frequent)]


def folds_of_groups(y: Array, groups: Array, n_folds: int) -> list[Split]:
    """Folds of groups, as many as there are groups at most; none if the classes do not allow any.

    ``y`` are the labels.
    """
    n_groups = len(np.unique(groups))
    if n_groups < 2:
        raise ValueError(
            f"groups must hold at least two groups, which folds consist of, got {n_groups}. Leave "
            "groups out if rows are independent."
        )
    splitter = GroupKFold(min(n_folds, n_groups))
    found = [Split(*s) for s in splitter.split(y, groups=groups)]
    if hold_two_classes(y, found):
        return found
    warn(
        "The training rows of each fold must hold two classes, got all rows but those of one class "
        f"in a single one of {len(found)} folds of groups: the first candidate is used, without "
        "cross-validation. Calibrate on more groups."
    )
    return []


def hold_two_classes(y: Array, splits: list[Split]) -> bool:
    """Whether the training rows of each split do."""
    return all((y[train] != y[train[0]]).any() for train, _ in splits)
