r"""Which candidates a mixture consists of, with which weights: stacking by cross-validation.

With the out-of-fold probability :math:`q_{im}` that candidate m gives the label of row i, the
weights :math:`\pi` on the simplex have the least log loss of :math:`\sum_m \pi_m q_{im}`, with
pseudo-rows: the negative logarithm of the posterior density for a Dirichlet prior. See
:func:`~skcalib._optimize.mixture.mixture_weights`.
"""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from skcalib._optimize.mixture import MixtureLoss, mixture_weights
from skcalib._rows import Bools, Floats, MemoryRows
from skcalib._rows.parallel import with_one_blas_thread
from skcalib.scaling._vector_matrix import _averaged, _features_of

from ._out_of_fold import Candidates, Fold, log_of_labels

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


def weighed(folds: list[Fold], combine: str, smoothing: float) -> Weighed:
    """Weights of candidates, "stack"ed or all on the "best", and their log losses."""
    names = list(folds[0].L)
    L = np.concatenate([np.column_stack([fold.L[name] for name in names]) for fold in folds])
    w = np.concatenate([np.ones(len(f.test.y)) if f.test.w is None else f.test.w for f in folds])
    share = w / w.sum()
    losses = -share @ L
    errors = np.sqrt(share**2 @ (L + losses) ** 2)
    linear = _linear_maps(names, folds)
    if combine == "best":
        weights = (np.arange(len(names)) == losses.argmin()).astype(float)
    else:
        weights = _stacked(folds, linear, np.isin(names, linear), L, w, smoothing)
        weights = np.where(weights < min(NEGLIGIBLE, weights.max()), 0, weights)
        weights /= weights.sum()
    of_names = [dict(zip(names, v.tolist(), strict=True)) for v in (weights, losses, errors)]
    return Weighed(of_names[0], of_names[1], of_names[2], linear)


def _linear_maps(names: list[str], folds: list[Fold]) -> list[str]:
    """Candidates that are linear maps of the log-probabilities that most of them are maps of."""
    of_each = {
        name: tuple(_features_of(fold.fits.fitted[name]) for fold in folds) for name in names
    }
    counts = Counter(features for features in of_each.values() if None not in features)
    most = [features for features, _ in counts.most_common(1)]
    return [name for name, features in of_each.items() if features in most]


def _stacked(
    folds: list[Fold], linear: list[str], is_linear: Bools, L: Floats, w: Floats, smoothing: float
) -> Floats:
    """Weights of all candidates, where linear maps of equal features count as their average."""
    pseudo_rows = PSEUDO_ROWS * (np.arange(L.shape[1]) == 0)
    weights = stacking_weights(L, w, pseudo_rows)
    if np.count_nonzero(weights[is_linear]) < 2:
        return weights
    share = weights[is_linear] / weights[is_linear].sum()
    of_average = []
    for fold in folds:
        average = _averaged([fold.fits.fitted[name] for name in linear], share)
        of_average.append(log_of_labels(average, fold.test, smoothing))
    L = np.column_stack([L[:, ~is_linear], np.concatenate(of_average)])
    pseudo_rows = np.append(pseudo_rows[~is_linear], pseudo_rows[is_linear].sum())
    *others, total = pruned_weights(L, w, pseudo_rows, GAIN)
    weights[~is_linear], weights[is_linear] = others, total * share
    return weights


def stacking_weights(L: Floats, w: Floats | None, pseudo_rows: Floats) -> Floats:
    """Weights (M,) of candidates with out-of-fold log-probabilities ``L`` (n, M) of the labels.

    ``w`` (n,) are weights of the rows, or None, and ``pseudo_rows`` (M,) the prior.
    """
    Q = np.exp(L - L.max(axis=1, keepdims=True))
    loss = MixtureLoss(MemoryRows(Q, None, w), pseudo_rows)
    start = np.full(L.shape[1], 1 / L.shape[1])
    weights: Floats = with_one_blas_thread(mixture_weights, loss, start).x
    return weights


def pruned_weights(L: Floats, w: Floats, pseudo_rows: Floats, gain: float) -> Floats:
    """As :func:`stacking_weights`, without candidates that lower the log loss by little.

    One at a time, from the one of least weight on, candidates are left out without which the mean
    log loss is higher by no more than the share ``gain`` of it; never the last one in ``L``.
    """

    def fit(kept: Bools) -> tuple[float, Floats]:
        weights = np.zeros(L.shape[1])
        weights[kept] = stacking_weights(L[:, kept], w, pseudo_rows[kept])
        with np.errstate(divide="ignore"):
            log_mixed = logsumexp(L + np.log(weights), axis=1)
        return -float(w @ log_mixed) / w.sum(), weights

    kept = np.ones(L.shape[1], bool)
    least, weights = fit(kept)
    for m in np.argsort(weights[:-1], kind="stable"):
        without = kept.copy()
        without[m] = False
        loss, others = fit(without)
        if loss <= (1 + gain) * least:
            kept, weights = without, others
    return weights


def components(fitted: Candidates, found: Weighed) -> tuple[list[Any], Floats]:
    """What is mixed, with weights: the average of linear maps, if there are several, and others."""
    maps = {name: member for name, member in fitted.items() if name in found.linear}
    others = {name: member for name, member in fitted.items() if name not in maps}
    share = np.array([found.weights[name] for name in maps])
    if len(set(map(_features_of, maps.values()))) == 1 < len(maps):
        maps, share = {"average": _averaged([*maps.values()], share)}, share.sum(keepdims=True)
    of_others = [found.weights[name] for name in others]
    return [*maps.values(), *others.values()], np.append(share, of_others)
