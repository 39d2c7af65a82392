"""Which candidates a mixture consists of, with which weights, from out-of-fold probabilities."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skcalib._typing import Array, Bools, Floats
from skcalib.scaling._family import averaged, features_of

from ._out_of_fold import Candidates, Fold, log_of_labels
from ._stacking import mixture_weights, without_negligible

# Candidates with a smaller weight are left out.
NEGLIGIBLE = 0.01

# Number of pseudo-rows that the weight of the first candidate is raised by.
PSEUDO_ROWS = 1.0


class Weighed(NamedTuple):
    """Candidates by name with what cross-validation says of each."""

    weights: dict[str, float]
    losses: dict[str, float]  #: mean out-of-fold log loss
    errors: dict[str, float]  #: and its standard error


def weighed(folds: list[Fold], combine: str, classes: Array, smoothing: float) -> Weighed:
    """Weights of candidates, "stack"ed or all on the "best", and their log losses."""
    names = list(folds[0].L)
    L = np.concatenate([np.column_stack([fold.L[name] for name in names]) for fold in folds])
    w = np.concatenate([_weights_of(fold) for fold in folds])
    share = w / w.sum()
    losses = -share @ L
    errors = np.sqrt(share**2 @ (L + losses) ** 2)
    if combine == "best":
        weights = (np.arange(len(names)) == losses.argmin()).astype(float)
    else:
        members = [[fold.fits.fitted[name] for name in names] for fold in folds]
        weights = without_negligible(_stacked(folds, members, L, w, classes, smoothing), NEGLIGIBLE)
    return Weighed(*(dict(zip(names, v.tolist(), strict=True)) for v in (weights, losses, errors)))


def _weights_of(fold: Fold) -> Floats:
    return np.ones(fold.test.n_rows) if fold.test.w is None else fold.test.w


def _stacked(
    folds: list[Fold],
    members: list[list[Any]],
    L: Floats,
    w: Floats,
    classes: Array,
    smoothing: float,
) -> Floats:
    """Weights of all candidates, where linear maps of equal features count as their average."""
    pseudo_rows = PSEUDO_ROWS * (np.arange(L.shape[1]) == 0)
    weights = mixture_weights(L, w, pseudo_rows)
    linear = _linear_maps(members)
    if np.count_nonzero(weights[linear]) < 2:
        return weights
    share = weights[linear] / weights[linear].sum()
    of_average = [
        log_of_labels(averaged(_chosen(fitted, linear), share), fold.test, classes, smoothing)
        for fold, fitted in zip(folds, members, strict=True)
    ]
    L = np.column_stack([L[:, ~linear], np.concatenate(of_average)])
    pseudo_rows = np.append(pseudo_rows[~linear], pseudo_rows[linear].sum())
    *others, total = mixture_weights(L, w, pseudo_rows)
    weights[~linear], weights[linear] = others, total * share
    return weights


def _linear_maps(members: list[list[Any]]) -> Bools:
    """Which candidates are linear maps of the same log-probabilities in all fits of theirs."""
    features = [[features_of(member) for member in fitted] for fitted in members]
    of_each = [list(of_splits) for of_splits in zip(*features, strict=True)]
    first = next((f for f in of_each if None not in f), None)
    return np.array([f == first is not None for f in of_each])


def _chosen(members: list[Any], which: Bools) -> list[Any]:
    return [member for member, is_chosen in zip(members, which, strict=True) if is_chosen]


def components(fitted: Candidates, weights: dict[str, float]) -> tuple[list[Any], Floats]:
    """What is mixed, with weights: the average of linear maps, if there are several, and others."""
    members, share = list(fitted.values()), np.array([weights[name] for name in fitted])
    linear = _linear_maps([members])
    if linear.sum() < 2:
        return members, share
    mean = averaged(_chosen(members, linear), share[linear])
    return [mean, *_chosen(members, ~linear)], np.append(share[linear].sum(), share[~linear])
