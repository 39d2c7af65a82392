"""Out-of-fold probabilities of candidates, and the folds that they come from."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import check_random_state

from skcalib._engine.blocks import both_columns
from skcalib._engine.rows import Rows
from skcalib._splits import Split
from skcalib._typing import Array, Floats, Indices
from skcalib._validation.labels import encode
from skcalib._warnings import warn

from ._fit_and_score import fit_and_score
from ._sample import Sample

# Number of rows from which on weights are estimated on a sample of half as many rows or more.
MANY_ROWS = 100_000


class OutOfFold(NamedTuple):
    """Log-probabilities of the labels of test rows, by candidates fitted to training rows."""

    candidates: dict[str, Any]  #: those that could be fitted on every fold
    L: Floats  #: (n, M), with a row for each test row of each split
    w: Floats | None
    fitted: list[list[Any]]  #: for each candidate its fits, one for each split
    tests: list[tuple[Floats, Indices]]  #: logits and class indices of the test rows


def rows_to_weigh_on(rows: Rows, classes: Array) -> Sample:
    """All rows, or if they are many every k-th one, in memory."""
    Z, y, w = rows.gather(_thinned, MANY_ROWS // 2)
    return Sample(Z, classes[y], w)


def _thinned(rows: Rows) -> tuple[Any, ...]:
    return rows.every(max(1, rows.n_rows // (MANY_ROWS // 2))).arrays[:3]


def folds(y: Array, n_folds: int, random_state: Any) -> list[Split]:
    """Random folds, or as few stratified ones as the rarest classes allow; none for a single row.

    Folds are not stratified, since classes would then be as frequent in the test rows as in the
    training rows, which they are not in new data: offsets of many classes would seem to help.
    """
    n_folds = min(n_folds, len(y))
    rng = check_random_state(0 if random_state is None else random_state)
    found = [Split(*s) for s in KFold(n_folds, shuffle=True, random_state=rng).split(y)]
    if all(_has_two_classes(y[train]) for train, _ in found):
        return found
    labels, counts = np.unique(y, return_counts=True)
    is_most_frequent = y == labels[counts.argmax()]
    others = min(int(is_most_frequent.sum()), int((~is_most_frequent).sum()))
    fewer = min(n_folds, others)
    if fewer < 2:
        warn(
            "Weights cannot be estimated by cross-validation, for which at least 2 of the rows "
            f"must not be of the most frequent class, got {others} of {len(y)}. The first "
            "candidate is used. Calibrate on more rows."
        )
        return []
    if fewer < n_folds:
        warn(
            f"Each training set must hold two classes, got {others} rows that are not of the most "
            f"frequent class for cv={n_folds}: {fewer} folds are used. Calibrate on more rows."
        )
    splitter = StratifiedKFold(fewer, shuffle=True, random_state=rng)
    return [Split(*s) for s in splitter.split(y, is_most_frequent)]


def _has_two_classes(y: Array) -> bool:
    return bool((y != y[0]).any())


def out_of_fold(
    candidates: Mapping[str, Any],
    sample: Sample,
    splits: list[Split],
    classes: Array,
    smoothing: float,
    n_jobs: int | None,
) -> OutOfFold:
    """Log-probabilities of the labels of all test rows, mixed with the uniform distribution.

    Candidates that fail on a fold are left out with a warning; if all do, the error is raised.
    """
    pairs = [(sample.part(train), sample.part(test)) for train, test in splits]
    score = partial(_of_labels, smoothing=smoothing)
    outcomes = fit_and_score(
        candidates.values(), pairs, classes, score, n_jobs=n_jobs, keep_errors=True
    )
    kept, found, failed = {}, [], {}
    for (name, candidate), of_splits in zip(candidates.items(), outcomes, strict=True):
        errors = [outcome.error for outcome in of_splits if outcome.error is not None]
        if errors:
            failed[name] = errors[0]
        else:
            kept[name] = candidate
            found.append(of_splits)
    if not kept:
        raise next(iter(failed.values()))
    for name, error in failed.items():
        warn(f"Candidate {name!r} failed on a fold and is left out: {error}")
    L = [np.concatenate([outcome.score for outcome in of_splits]) for of_splits in found]
    w = None if sample.w is None else np.concatenate([test.w for _, test in pairs])
    fitted = [[outcome.fitted for outcome in of_splits] for of_splits in found]
    tests = [(test.Z, encode(test.y, classes=classes)) for _, test in pairs]
    return OutOfFold(kept, np.column_stack(L), w, fitted, tests)


def _of_labels(P: Floats, test: Sample, classes: Array, *, smoothing: float) -> Floats:
    if P.shape != (len(test.y), len(classes)) or not np.isfinite(P).all():
        raise ValueError(
            "predict_proba must give finite probabilities with a column for each of the "
            f"{len(classes)} classes, got shape {P.shape} for {len(test.y)} rows and "
            f"{np.count_nonzero(~np.isfinite(P))} values that are not finite."
        )
    return log_of_labels(P, test.Z, encode(test.y, classes=classes), smoothing)


def log_of_labels(P: Floats, Z: Floats, y: Indices, smoothing: float) -> Floats:
    """Logarithms of the probabilities (n, K) of class indices, mixed with the uniform ones.

    These are uniform among the classes that are not masked by the logits.
    """
    of_label = P[np.arange(len(P)), y].astype(np.float64)
    n_classes = np.count_nonzero(both_columns(Z) > -np.inf, axis=1)
    return np.log((1 - smoothing) * of_label + smoothing / n_classes)
