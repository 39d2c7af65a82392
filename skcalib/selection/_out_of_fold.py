"""Fits of candidates, their out-of-fold probabilities, and the folds that these come from."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from skcalib._nested import fit_to_rows, log_probabilities, with_fitted
from skcalib._rows import Array, Floats, Indices, MemoryRows, Rows, both_columns
from skcalib._splits import Split, hold_two_classes
from skcalib._warnings import Messages, ProbabilitiesWarning, recorded, warn
from skcalib.scaling._linear import fit_linear_maps
from skcalib.scaling._vector_matrix import _family_of

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


def fit_all(candidates: Mapping[str, Any], rows: Rows) -> Fits:
    """All candidates fitted to the same rows, families of linear maps together."""
    families = defaultdict(list)
    for name, candidate in candidates.items():
        family = _family_of(candidate)
        families[("a family", *family) if family else name].append(name)
    found = Fits({}, {}, {})
    for names in families.values():
        _fit_into(found, {name: candidates[name] for name in names}, rows)
    return found


def _fit_into(found: Fits, members: Candidates, rows: Rows) -> None:
    """Fit candidates that are alone, or a family of linear maps."""
    try:
        with recorded(ProbabilitiesWarning) as messages:
            fitted = _fitted(list(members.values()), rows)
    except Exception as error:  # calibrators of users may raise anything
        if len(members) == 1:
            found.errors.update(dict.fromkeys(members, error))
        else:  # those of a family that do not fail
            for name, member in members.items():
                _fit_into(found, {name: member}, rows)
    else:
        found.fitted.update(zip(members, fitted, strict=True))
        found.messages[", ".join(members)] = messages


def _fitted(members: list[Any], rows: Rows) -> list[Any]:
    if len(members) == 1:
        return [fit_to_rows(members[0], rows)]
    attributes = fit_linear_maps(rows, [member._spec() for member in members])  # noqa: SLF001
    return [with_fitted(*pair, rows) for pair in zip(members, attributes, strict=True)]


def out_of_fold(
    candidates: Mapping[str, Any],
    rows: MemoryRows,
    splits: list[Split],
    smoothing: float,
    n_jobs: int | None,
) -> list[Fold]:
    """Candidates that can be fitted on each fold; others are left out with a warning.

    If none can, the error of the first is raised.
    """
    jobs = (delayed(_fold)(candidates, rows, split, smoothing) for split in splits)
    folds = list(Parallel(n_jobs=n_jobs)(jobs))
    errors = {name: error for fold in folds for name, error in fold.fits.errors.items()}
    if len(errors) == len(candidates):
        raise errors[next(iter(candidates))]
    for name, error in errors.items():
        warn(f"Candidate {name!r} failed on a fold and is left out: {error}")
        for fold in folds:
            fold.L.pop(name, None)
    return folds


def _fold(candidates: Mapping[str, Any], rows: MemoryRows, split: Split, smoothing: float) -> Fold:
    train, test = map(rows.taken, split)
    fits, L = fit_all(candidates, train), {}
    for name in candidates:  # in their order
        if name in fits.fitted:
            try:
                L[name] = log_of_labels(fits.fitted[name], test, smoothing)
            except Exception as error:  # as above
                fits.errors[name] = error
    return Fold(fits, test, L)


def log_of_labels(calibrator: Any, rows: MemoryRows, smoothing: float) -> Floats:
    """Log-probabilities of the labels of rows (n,), mixed with the uniform distribution.

    That is uniform among the classes that are not masked.
    """
    L = log_probabilities(calibrator, rows.X, rows.classes)[np.arange(rows.n_rows), rows.y]
    n_classes = np.count_nonzero(both_columns(rows.X) > -np.inf, axis=1)
    return np.log((1 - smoothing) * np.exp(L, dtype=np.float64) + smoothing / n_classes)


def rows_to_weigh_on(rows: Rows) -> MemoryRows:
    """All rows, or if they are many some of them at random, in memory."""
    return rows.sample(_some, max(FEWER_ROWS, MANY_NUMBERS // rows.n_columns), or_all=True)


def _some(rows: Any) -> MemoryRows:
    n_rows = rows.n_rows
    if n_rows < MANY_ROWS:
        return rows
    return rows.taken(np.sort(np.random.default_rng(0).choice(n_rows, FEWER_ROWS, replace=False)))


def folds(y: Indices, groups: Array | None, n_folds: int, random_state: Any) -> list[Split]:
    """Random folds of rows, or folds of groups, whose training rows hold two classes.

    With a warning fewer folds where that is not possible, or none. Folds are not stratified
    otherwise, since classes would then be as frequent in the test rows as in the training rows,
    which they are not in new data: offsets of many classes would seem to help.
    """
    of_what = y if groups is None else np.unique(groups)
    if len(of_what) < 2:
        raise ValueError(
            f"groups must hold at least two groups, which folds consist of, got {len(of_what)}. "
            "Leave groups out if rows are independent."
        )
    n_folds = min(n_folds, len(of_what))
    rng = check_random_state(0 if random_state is None else random_state)
    splitter = KFold(n_folds, shuffle=True, random_state=rng)
    splitter = splitter if groups is None else GroupKFold(n_folds)
    found = [Split(*s) for s in splitter.split(y, groups=groups)]
    return found if hold_two_classes(y, found) else _fewer_folds(y, groups, n_folds, rng)


def _fewer_folds(y: Indices, groups: Array | None, n_folds: int, rng: Any) -> list[Split]:
    """As many stratified folds of rows as those of the rarer classes allow; none of groups."""
    is_most_frequent = y == np.bincount(y).argmax()
    others = min(int(is_most_frequent.sum()), int((~is_most_frequent).sum()))
    fewer = min(n_folds, others) if groups is None else 0
    splits: list[Split] = []
    if fewer >= 2:
        stratified = StratifiedKFold(fewer, shuffle=True, random_state=rng)
        splits = [Split(*s) for s in stratified.split(y, is_most_frequent)]
    outcome = f"there are {fewer} folds" if splits else "the first candidate is used, without any"
    if fewer < n_folds:
        warn(
            "The training rows of each fold must hold two classes, not so those of "
            f"{n_folds} folds with {others} of {len(y)} rows that are not of the most frequent "
            f"class: {outcome}. Calibrate on more {'rows' if groups is None else 'groups'}."
        )
    return splits
