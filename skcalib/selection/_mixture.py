"""Which candidates a mixture consists of, with which weights, from out-of-fold probabilities."""

from __future__ import annotations

from collections import Counter
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from skcalib._typing import Bools, Floats
from skcalib.scaling._averaged import averaged, features_of

from ._out_of_fold import OutOfFold, log_of_labels
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
    linear: list[str]  #: candidates that count as the average of linear maps


def weighed(found: OutOfFold, combine: str, smoothing: float) -> Weighed:
    """Weights of candidates, "stack"ed or all on the "best", and their log losses."""
    names = list(found.candidates)
    share = np.full(len(found.L), 1 / len(found.L)) if found.w is None else found.w / found.w.sum()
    losses = -share @ found.L
    errors = np.sqrt(share**2 @ (found.L + losses) ** 2)
    linear = _linear_maps(found.fitted)
    if combine == "best":
        weights = (np.arange(len(names)) == losses.argmin()).astype(float)
    else:
        weights = without_negligible(_stacked(found, linear, smoothing), NEGLIGIBLE)
    by_name = [dict(zip(names, v.tolist(), strict=True)) for v in (weights, losses, errors)]
    return Weighed(by_name[0], by_name[1], by_name[2], list(compress(names, linear)))


def _stacked(found: OutOfFold, linear: Bools, smoothing: float) -> Floats:
    """Weights of all candidates, where linear maps of equal features count as their average."""
    pseudo_rows = PSEUDO_ROWS * (np.arange(found.L.shape[1]) == 0)
    weights = mixture_weights(found.L, found.w, pseudo_rows)
    if (weights[linear] > 0).sum() < 2:
        return weights
    share = weights[linear] / weights[linear].sum()
    L = np.column_stack([found.L[:, ~linear], _of_average(found, linear, share, smoothing)])
    pseudo_rows = np.append(pseudo_rows[~linear], pseudo_rows[linear].sum())
    *others, of_average = mixture_weights(L, found.w, pseudo_rows)
    weights[~linear] = others
    weights[linear] = of_average * share
    return weights


def _linear_maps(fitted: list[list[Any]]) -> Bools:
    """Which candidates are linear maps of log-probabilities, the same ones as most of them."""
    features = [tuple(features_of(member) for member in of_splits) for of_splits in fitted]
    counts = Counter(f for f in features if None not in f)
    most = counts.most_common(1)[0][0] if counts else None
    return np.array([f == most for f in features])


def _of_average(found: OutOfFold, linear: Bools, share: Floats, smoothing: float) -> Floats:
    """Log-probabilities of the labels of test rows by the average of the linear maps."""
    maps = [
        of_splits for of_splits, is_linear in zip(found.fitted, linear, strict=True) if is_linear
    ]
    return np.concatenate(
        [
            log_of_labels(averaged(of_split, share).predict_proba(Z), Z, y, smoothing)
            for of_split, (Z, y) in zip(zip(*maps, strict=True), found.tests, strict=True)
        ]
    )


def components(fitted: dict[str, Any], found: Weighed) -> tuple[list[Any], Floats]:
    """What is mixed, with weights: the average of linear maps, if there are several, and others."""
    maps = {name: member for name, member in fitted.items() if name in found.linear}
    others = {name: member for name, member in fitted.items() if name not in maps}
    share = np.array([found.weights[name] for name in maps])
    if len(set(map(features_of, maps.values()))) == 1 < len(maps):
        maps, share = {"average": averaged([*maps.values()], share)}, share.sum(keepdims=True)
    of_others = [found.weights[name] for name in others]
    return [*maps.values(), *others.values()], np.append(share, of_others)
