"""Which candidates a mixture consists of, with which weights, from out-of-fold probabilities."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from skcalib._typing import Array, Bools, Floats
from skcalib.scaling._family import averaged, features_of

from ._out_of_fold import Candidates, Fold, log_of_labels
from ._stacking import mixture_weights, pruned_weights, without_negligible

# Candidates with a smaller weight are left out.
NEGLIGIBLE = 0.01

# Candidates beside the average of linear maps are left out unless they lower the out-of-fold log
# loss by more than this share of it: each costs as much at prediction as the average, or more.
GAIN = 0.0005

# Number of pseudo-rows that the weight of the first candidate is raised by.
PSEUDO_ROWS = 1.0


class Weighed(NamedTuple):
    """Candidates by name with what cross-validation says of each."""

    weights: dict[str, float]
    losses: dict[str, float]  #: mean out-of-fold log loss
    errors: dict[str, float]  #: and its standard error
    linear: list[str]  #: candidates that count as the average of linear maps


def weighed(folds: list[Fold], combine: str, classes: Array, smoothing: float) -> Weighed:
    """Weights of candidates, "stack"ed or all on the "best", and their log losses."""
    names = list(folds[0].L)
    L = np.concatenate([np.column_stack([fold.L[name] for name in names]) for fold in folds])
    w = np.concatenate([_weights_of(fold) for fold in folds])
    share = w / w.sum()
    losses = -share @ L
    errors = np.sqrt(share**2 @ (L + losses) ** 2)
    members = [[fold.fits.fitted[name] for name in names] for fold in folds]
    linear = _linear_maps(members)
    if combine == "best":
        weights = (np.arange(len(names)) == losses.argmin()).astype(float)
    else:
        maps = [_chosen(fitted, linear) for fitted in members]
        weights = _stacked(folds, linear, maps, L, w, classes, smoothing)
        weights = without_negligible(weights, NEGLIGIBLE)
    by_name = [dict(zip(names, v.tolist(), strict=True)) for v in (weights, losses, errors)]
    return Weighed(by_name[0], by_name[1], by_name[2], _chosen(names, linear))


def _weights_of(fold: Fold) -> Floats:
    return np.ones(fold.test.n_rows) if fold.test.w is None else fold.test.w


def _stacked(
    folds: list[Fold],
    linear: Bools,
    maps: list[list[Any]],
    L: Floats,
    w: Floats,
    classes: Array,
    smoothing: float,
) -> Floats:
    """Weights of all candidates, where linear maps of equal features count as their average."""
    pseudo_rows = PSEUDO_ROWS * (np.arange(L.shape[1]) == 0)
    weights = mixture_weights(L, w, pseudo_rows)
    if np.count_nonzero(weights[linear]) < 2:
        return weights
    share = weights[linear] / weights[linear].sum()
    of_average = [
        log_of_labels(averaged(of_fold, share), fold.test, classes, smoothing)
        for fold, of_fold in zip(folds, maps, strict=True)
    ]
    L = np.column_stack([L[:, ~linear], np.concatenate(of_average)])
    pseudo_rows = np.append(pseudo_rows[~linear], pseudo_rows[linear].sum())
    *others, total = pruned_weights(L, w, pseudo_rows, GAIN)
    weights[~linear], weights[linear] = others, total * share
    return weights


def _linear_maps(members: list[list[Any]]) -> Bools:
    """Which candidates are linear maps of the log-probabilities that most of them are maps of."""
    features = [[features_of(member) for member in fitted] for fitted in members]
    of_each = list(zip(*features, strict=True))
    counts = Counter(f for f in of_each if None not in f)
    most = counts.most_common(1)[0][0] if counts else None
    return np.array([f == most for f in of_each])


def _chosen(members: list[Any], which: Bools) -> list[Any]:
    return [member for member, is_chosen in zip(members, which, strict=True) if is_chosen]


def components(fitted: Candidates, found: Weighed) -> tuple[list[Any], Floats]:
    """What is mixed, with weights: the average of linear maps, if there are several, and others."""
    maps = {name: member for name, member in fitted.items() if name in found.linear}
    others = {name: member for name, member in fitted.items() if name not in maps}
    share = np.array([found.weights[name] for name in maps])
    if len(set(map(features_of, maps.values()))) == 1 < len(maps):
        maps, share = {"average": averaged([*maps.values()], share)}, share.sum(keepdims=True)
    of_others = [found.weights[name] for name in others]
    return [*maps.values(), *others.values()], np.append(share, of_others)
