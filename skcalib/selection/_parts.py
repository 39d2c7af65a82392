"""Parts of a calibration given features, effects and boosted trees, and their weights.

All are fitted to log-probabilities that are out-of-fold as well, so that they correct what the
calibration without features gets wrong on new rows.
"""

from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils.parallel import Parallel, delayed

from skcalib._nested import with_unknown_classes
from skcalib._optimize.effects import effect_scores, fit_effects
from skcalib._rows import Array, Floats, Indices, arrays as xa
from skcalib._rows.parallel import with_one_openmp_thread
from skcalib._validation.features import MISSING, Columns

from ._candidates import MOST_CLASSES_OF_TREES
from ._stacking import NEGLIGIBLE, stacking_weights

# What is mixed.
PARTS = ("without features", "effects", "trees")

# Strengths of effects that are compared, the strongest first: each fit starts from the one before.
STRENGTHS = (100.0, 30.0, 10.0, 3.0)

# Features count only if they lower the out-of-fold log loss by more than this many standard errors
# of the difference.
LEAST_GAIN = 2.0


class Held(NamedTuple):
    """Held-out rows: out-of-fold log-probabilities, labels, weights or None, features, fold."""

    L: Floats  #: (n, K), -inf for masked classes
    y: Indices
    w: Floats | None
    F: Floats  #: numbers of the columns of features, (n, d)
    fold: Indices

    def taken(self, some: Array) -> "Held":
        """Some of the rows."""
        return Held(*[None if a is None else a[some] for a in self])  # type: ignore[arg-type]


class Weighed(NamedTuple):
    """What cross-validation says: strength of effects, weights of parts, and mean log losses."""

    strength: float
    weights: Floats  #: (3,), of PARTS
    without: float
    given: float  #: the same, given features


def weigh(columns: Columns, held: Held, smoothing: float, n_jobs: int | None) -> Weighed:
    """Strength and weights by the log loss of parts that are fitted to the other folds."""
    tests = [held.fold == k for k in range(held.fold.max() + 1)]
    run = Parallel(n_jobs=n_jobs)
    paths = list(run(delayed(path_of_effects)(columns, held.taken(~test)) for test in tests))
    strength = _best_strength(columns, held, tests, paths)
    tables = [path[strength] for path in paths]
    pairs = zip(tests, tables, strict=True)
    found = run(delayed(_parts_of_fold)(columns, held, *pair) for pair in pairs)
    # Out-of-fold log-probabilities (n, n_parts) of the labels.
    Q = np.zeros((len(held.y), 2 if held.L.shape[1] > MOST_CLASSES_OF_TREES else 3))
    for test, parts in zip(tests, found, strict=True):
        mixed, y = mixed_parts(parts, smoothing), held.y[test]
        Q[test] = mixed[:, np.arange(len(y)), y].T
    return _weighed(Q, held.w, STRENGTHS[strength])


def _best_strength(
    columns: Columns, held: Held, tests: list[Array], paths: list[list[Floats]]
) -> int:
    """The number of the strength of lowest out-of-fold log loss."""
    losses, levels = np.zeros(len(STRENGTHS)), columns.levels_of(held.F)
    for test, path in zip(tests, paths, strict=True):
        y, w = held.y[test], None if held.w is None else held.w[test]
        for k, effects in enumerate(path):
            S = xa.log_softmax(effect_scores(effects, held.L[test], levels[test]))
            losses[k] -= xa.weighted_sum(xa.of_labels(S, y), w)
    return int(losses.argmin())


def _weighed(Q: Floats, w: Floats | None, strength: float) -> Weighed:
    """Weights of parts with log-probabilities ``Q`` (n, n_parts) of the labels."""
    first = np.eye(Q.shape[1])[0]
    weights = stacking_weights(Q, w, first)
    weights = np.where(weights < NEGLIGIBLE, 0, weights)
    weights /= weights.sum()
    gain = np.log(np.exp(Q - Q[:, :1]) @ weights)
    share = np.full(len(Q), 1 / len(Q)) if w is None else w / w.sum()
    mean = share @ gain
    if mean <= LEAST_GAIN * np.sqrt(share**2 @ (gain - mean) ** 2):
        weights, mean = first, 0.0
    without = -float(share @ Q[:, 0])
    return Weighed(strength, weights, without, without - float(mean))


def path_of_effects(columns: Columns, held: Held, least: float = 0.0) -> list[Floats]:
    """Tables of effects of all strengths, down to the least."""
    rows = *held[:3], columns.levels_of(held.F), int(columns.first[-1])
    tables: list[Floats] = []
    for strength in STRENGTHS:
        if strength >= least:
            tables.append(fit_effects(*rows, strength, tables[-1] if tables else None))
    return tables


def _parts_of_fold(columns: Columns, held: Held, test: Array, effects: Floats) -> Floats:
    """Log-probabilities (n_parts, n_test, K) for test rows, of parts fitted to all others."""
    trees = fit_trees(columns, held.taken(~test), effects)
    return log_parts(columns, effects, trees, held.L[test], held.F[test])


def fit_trees(columns: Columns, held: Held, effects: Floats) -> list[Any]:
    """Boosted trees on log-probabilities and features; none for many classes."""
    if held.L.shape[1] > MOST_CLASSES_OF_TREES:
        return []
    trees = HistGradientBoostingClassifier(
        learning_rate=0.15,
        max_iter=80,
        max_leaf_nodes=4,
        min_samples_leaf=10,
        l2_regularization=10,
        max_bins=64,
        early_stopping=False,
        random_state=0,
    )
    T = for_trees(columns, effects, held.L, held.F)
    return [with_one_openmp_thread(trees.fit, T, held.y, held.w)]


def for_trees(columns: Columns, effects: Floats, L: Floats, F: Floats) -> Floats:
    """What trees see: log-probabilities, or log-odds of two classes, and features."""
    intercepts = effects[:, 1:]
    if L.shape[1] == 2:
        L, intercepts = L[:, 1:] - L[:, :1], intercepts[:, 1:] - intercepts[:, :1]
    return np.column_stack([np.maximum(L, MISSING), columns.for_trees(F, intercepts)])


def log_parts(columns: Columns, effects: Floats, trees: list[Any], L: Floats, F: Floats) -> Floats:
    """Log-probabilities (n_parts, n, K) without features, of effects, and of trees if any."""
    parts = [L, xa.log_softmax(effect_scores(effects, L, columns.levels_of(F)))]
    for fitted in trees:
        T = for_trees(columns, effects, L, F)
        P = with_one_openmp_thread(fitted.predict_proba, T)
        P = with_unknown_classes(P, fitted.classes_, np.arange(L.shape[1]))
        log_p = np.log(np.maximum(P, np.finfo(np.float64).tiny))
        parts.append(xa.log_softmax(np.where(np.isneginf(L), -np.inf, log_p)))
    return np.stack(parts)


def mixed_parts(parts: Floats, smoothing: float) -> Floats:
    """Parts, of which those with features are mixed with the uniform distribution as well."""
    mixed = [xa.log_softmax(xa.mix_logits(part, smoothing)) for part in parts[1:]]
    return np.stack([parts[0], *mixed])
