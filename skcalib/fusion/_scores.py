"""Scores of rows: checks of their columns and gaps, names, folds and calibration."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import GroupKFold, KFold
from sklearn.utils import check_random_state

from skcalib._inner.fits import fit_calibrator, log_probabilities
from skcalib._input.arrays import as_array, check_in_memory
from skcalib._input.classes import check_column_names
from skcalib._input.logits import check_finite, kinds_of_probabilities, warn_of_probabilities
from skcalib._input.parameters import check_integer
from skcalib._rows import Array, Bools, Floats, Indices
from skcalib._splits import Split, first_tests, made_splits
from skcalib._warnings import warn
from skcalib.scaling import MatrixScaling, SplineCalibration, VectorScaling

# A matrix of more classes takes long to fit.
MANY_CLASSES = 100


class Scores(NamedTuple):
    """Scores of rows, with labels, weights and groups."""

    Z: Floats  #: (n, M, width), NaN where a score is missing
    has: Bools  #: (n, M)
    y: Indices  #: (n,) class indices
    w: Floats | None  #: (n,)
    groups: Array | None  #: (n,)

    def take(self, rows: Array) -> Scores:
        """Return some of the rows."""
        w, groups = (part if part is None else part[rows] for part in (self.w, self.groups))
        return Scores(self.Z[rows], self.has[rows], self.y[rows], w, groups)


def as_matrix(X: Any, estimator: Any, n_columns: int | None = None) -> Any:
    """Return ``X`` in memory in two dimensions, or raise a ValueError with the remedy."""
    name = type(estimator).__name__
    check_in_memory(
        [X], f"{name} takes rows in memory, got a Dask collection. Call compute() on a part of it."
    )
    parts = X if isinstance(X, list | tuple) else []
    if any(len(getattr(part, "shape", ())) > 1 for part in parts):
        raise ValueError(
            f"X must be one array with the scores side by side, got {len(parts)} arrays. Pass "
            "np.hstack(X), and the number of arrays as n_scores."
        )
    if getattr(X, "ndim", 2) > 2:
        raise ValueError(
            "X must have two dimensions with the scores side by side, got shape "
            f"{tuple(X.shape)}. Pass X.reshape(len(X), -1) for (n_samples, n_scores, n_classes), "
            "or np.hstack(X) for (n_scores, n_samples, n_classes)."
        )
    return as_array(X, n_columns=n_columns)


def name_scores(names: Sequence[Any], n_scores: Any, n_columns: int) -> list[str]:
    """Return the names of the scores: shared starts of the names of columns, or numbers."""
    starts = [str(name).rpartition("__")[0] for name in names]
    distinct = list(dict.fromkeys(starts))
    if n_scores is None:
        if not names or not all(starts):
            raise ValueError(
                "n_scores must be the number of scores, got None and columns that are not named "
                f"as 'score__class'. Pass n_scores= for the {n_columns} columns of X."
            )
        n_scores = len(distinct)
    check_integer("n_scores", n_scores)
    width, rest = divmod(n_columns, int(n_scores))
    if rest:
        raise ValueError(
            f"X must have as many columns for each of n_scores={n_scores} scores, got {n_columns} "
            "columns. Pass one column per score and class, or log-odds with a column per score."
        )
    if all(starts) and len(distinct) == n_scores:
        if starts != [name for name in distinct for _ in range(width)]:
            raise ValueError(
                f"The columns of a score must be side by side in X, got {list(names)!s:.200}. "
                "Order the columns by score."
            )
        return distinct
    if width == 1 and names:
        return [str(name) for name in names]
    return [f"score {m}" for m in range(int(n_scores))]


def check_class_names(names: Sequence[Any], n_scores: int, classes: Array) -> None:
    """Raise a ValueError if the columns of a score are named by the classes in another order."""
    width = len(names) // n_scores
    for start in range(0, len(names), max(width, 1)):
        check_column_names(SimpleNamespace(columns=names[start : start + width]), classes)


def split_scores(X: Floats, n_scores: int, *, method: str) -> tuple[Floats, Bools]:
    """Return scores (n, M, width) and which are present (n, M), or raise a ValueError."""
    Z = X.reshape(len(X), n_scores, X.shape[1] // n_scores)
    nan: Bools = np.isnan(Z)
    has = ~nan[:, :, 0]
    partial = int(np.any(nan.any(axis=2) != nan.all(axis=2), axis=1).sum())
    if partial:
        raise ValueError(
            "All columns of a missing score must be NaN, got some in "
            f"{partial} of {len(Z)} rows. Set the other columns to NaN too, or fill options that "
            "were not returned by skcalib.judge.ScoreTransformer."
        )
    present = Z[has] if nan.any() else Z.reshape(-1, Z.shape[2])
    if len(present):
        check_finite(present)
        kinds = kinds_of_probabilities(present) if len(present) > n_scores else frozenset()
        if kinds - {"sigmoids"}:
            warn_of_probabilities(Z.shape[2], kinds - {"sigmoids"}, method)
    empty = int((~has).all(axis=1).sum())
    if empty:
        warn(f"{empty} of {len(Z)} rows have no score: their probabilities are the base rates.")
    return Z, has


def make_splits(
    cv: Any, random_state: Any, y: Array, kept: Indices, groups: Array | None
) -> list[Split]:
    """Return splits of the rows ``kept`` of labels (n,); ``groups`` (n,) are not split.

    An integer ``cv`` is the number of random folds, or of folds of groups.
    """
    if isinstance(cv, Integral):
        check_integer("cv", cv, least=2)
        by = None if groups is None else groups[kept]
        n_folds = min(int(cv), len(kept) if by is None else len(np.unique(by)))
        if n_folds < 2:
            raise ValueError(
                f"Folds need at least two {'rows' if groups is None else 'groups'}, got 1. "
                "Calibrate on more rows, or leave groups out if rows are independent."
            )
        rng = check_random_state(0 if random_state is None else random_state)
        random = KFold(n_folds, shuffle=True, random_state=rng)
        folds = random if by is None else GroupKFold(n_folds)
        cv = [(kept[train], kept[test]) for train, test in folds.split(kept, groups=by)]
    number = np.full(len(y), -1)
    number[kept] = np.arange(len(kept))
    splits = [
        Split(*(number[rows][number[rows] >= 0] for rows in split))
        for split in made_splits(cv, y, y, groups=groups)
    ]
    splits = [split for split in splits if len(split.test)]
    if len(np.unique(first_tests(splits)[1])) < 2:
        raise ValueError(
            f"cv must put rows into at least two test sets, got {len(splits)} splits. Use cv=5."
        )
    return splits


def fit_score(calibrator: Any, scores: Scores, m: int, classes: Array) -> Any:
    """Return a calibrator of score ``m``; None if the rows that have it are of a single class."""
    rows = np.flatnonzero(scores.has[:, m])
    Z, y = scores.Z[rows, m], scores.y[rows]
    if not len(y) or (y == y[0]).all():
        return None
    if calibrator is None:
        many = len(classes) > MANY_CLASSES or bool(np.isneginf(Z).any())
        calibrator = VectorScaling() if many else MatrixScaling()
        calibrator = SplineCalibration() if len(classes) == 2 else calibrator
    w, groups = (part if part is None else part[rows] for part in (scores.w, scores.groups))
    return fit_calibrator(calibrator, Z, classes[y], w, classes, groups=groups)


def evidence_of(
    calibrators: Sequence[Any], Z: Floats, has: Bools, classes: Array, log_rates: Floats
) -> tuple[Floats, Floats]:
    """Return the evidence (n, M, K), NaN where missing, and logarithms (n, K) of base rates.

    Masked classes have zero evidence, and base rates of zero. A score without a calibrator has zero
    evidence.
    """
    E = np.where(has[:, :, None], 0.0, np.full((len(Z), len(calibrators), len(classes)), np.nan))
    masked = np.zeros((len(Z), len(classes)), bool)
    for m, calibrator in enumerate(calibrators):
        rows = np.flatnonzero(has[:, m])
        if len(rows) and calibrator is not None:
            L = log_probabilities(calibrator, Z[rows, m], classes).astype(np.float64)
            masked[rows] |= np.isneginf(L)
            E[rows, m] = L - log_rates
    if masked.any():
        E[np.broadcast_to(masked[:, None], E.shape) & has[:, :, None]] = 0
    return E, np.where(masked, -np.inf, log_rates)
