"""Effects and boosted trees that calibrate with features, and their weights.

All parts are fitted to out-of-fold log-probabilities, so that they correct errors of the
calibration without features on new rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from scipy.special import log_softmax
from sklearn.utils.parallel import Parallel, delayed

from skcalib._input.classes import with_unknown_classes
from skcalib._rows import with_one_openmp_thread
from skcalib._rows.arrays import mix_logits
from skcalib._typing import Array, Floats, Indices
from skcalib.conditional._columns import MISSING, FeatureColumns
from skcalib.selection._stacking import candidate_weights

from ._effects import effect_scores, fit_effects

# Members of the mixture. Effects are fitted on top of the calibration without features, and of
# temperature scaling.
PARTS = ("without features", "effects", "effects on temperature scaling", "trees")

# Regularization strengths of effects on both bases, in decreasing order: each fit starts from the
# previous fit. On temperature scaling also weak strengths are tried, because scores may mean
# different things in a few categories, which then need separate maps.
STRENGTHS = ((100.0, 10.0), (100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03))

# Strengths below WEAK need this number of rows per intercept. With many classes and fewer rows,
# levels would learn the classes of their rows, and new rows may have other classes.
WEAK, MIN_ROWS_PER_INTERCEPT = 3.0, 3

# Features must lower the out-of-fold log loss by more than this number of standard errors. Many
# levels gain more by chance than a few levels.
FEW_LEVELS = 10
GAIN, GAIN_OF_FEW_LEVELS, GAIN_OF_FEW_GROUPS = 2.5, 1.5, 3.0

# With groups, a weaker strength must lower it by more than this number of standard errors.
GAIN_OF_STRENGTH = 1.5

# With fewer rows boosted trees overfit. With more classes, each with its own trees, they take long.
MIN_ROWS_FOR_TREES, MOST_CLASSES = 600, 20


class HeldOut(NamedTuple):
    """Held-out rows: log-probabilities, labels, weights or None, features, and folds."""

    L: Floats  #: (n, n_bases, K), -inf for masked classes; effects are fitted on top of each base
    y: Indices
    w: Floats | None
    F: Floats  #: numbers of the columns of features, (n, d)
    fold: Indices
    groups: Array | None = None

    def taken(self, rows: Array) -> HeldOut:
        """Return the rows with these numbers, or where ``rows`` is True."""
        return HeldOut(*[None if a is None else a[rows] for a in self])  # type: ignore[arg-type]

    def mean(self, values: Floats) -> tuple[float, float]:
        """Return the weighted mean of values (n,), and its standard error over rows or groups."""
        share = np.full(len(values), 1 / len(values)) if self.w is None else self.w / self.w.sum()
        mean = share @ values
        deviations = share * (values - mean)
        if self.groups is not None:
            group = np.unique(self.groups, return_inverse=True)[1]
            deviations = np.bincount(group, deviations)
        return float(mean), float(np.linalg.norm(deviations))

    def min_gain(self, n_levels: int) -> float:
        """Return the smallest gain by features that counts, in standard errors."""
        if self.groups is None:
            return GAIN_OF_FEW_LEVELS if n_levels <= FEW_LEVELS else GAIN
        # With few groups the standard error is itself uncertain: use a quantile of Student's t.
        n_groups = len(np.unique(self.groups))
        quantile = stats.t.isf(stats.norm.sf(GAIN), max(n_groups - 1, 1))
        return min(float(quantile), GAIN_OF_FEW_GROUPS)


class Weighed(NamedTuple):
    """Results of cross-validation: strengths for effects, weights of parts, and mean log losses."""

    strengths: list[float]  #: by base
    weights: Floats  #: of PARTS
    without_features: float
    with_features: float  #: mean log loss given features


class Parts(NamedTuple):
    """Effects and trees that are fitted to features."""

    columns: FeatureColumns
    effects: list[Floats]  #: a table for each base
    trees: list[Any]  #: one classifier, or none

    def log_probabilities(self, L: Floats, F: Floats, smoothing: float) -> Floats:
        """Return log-probabilities (n_parts, n, K) without features, by effects, and by trees.

        ``L`` are log-probabilities (n, n_bases, K), ``F`` features (n, d). The parts with features
        contain a share ``smoothing`` of the uniform distribution.
        """
        levels, parts = self.columns.level_rows(F), []
        for k, effects in enumerate(self.effects):
            parts.append(log_softmax(effect_scores(effects, L[:, k], levels), axis=1))
        for trees in self.trees:
            T = self.for_trees(L, F)
            P = with_one_openmp_thread(trees.predict_proba, T)
            P = with_unknown_classes(P, trees.classes_, np.arange(L.shape[-1]))
            log_p = np.log(np.maximum(P, np.finfo(np.float64).tiny))
            parts.append(log_softmax(np.where(np.isneginf(L[:, 0]), -np.inf, log_p), axis=1))
        mixed = (log_softmax(mix_logits(S, smoothing), axis=1) for S in parts)
        return np.stack([L[:, 0], *mixed])

    def for_trees(self, L: Floats, F: Floats) -> Floats:
        """Return the input (n, n_inputs) for the trees: log-probabilities or log-odds, features."""
        S, intercepts = np.maximum(L[:, 0], MISSING), self.effects[0][:, 1:]
        if S.shape[1] == 2:
            S, intercepts = S[:, 1:] - S[:, :1], intercepts[:, 1:] - intercepts[:, :1]
        return np.column_stack([S, self.columns.for_trees(F, intercepts)])


def weigh(
    columns: FeatureColumns,
    samples: HeldOut,
    smoothing: float,
    n_jobs: int | None,
    strengths: Sequence[Sequence[float]] = STRENGTHS,
) -> Weighed:
    """Find the strengths and weights with the lowest log loss on held-out rows.

    ``strengths`` are tried in this order for each base.
    """
    tests = [samples.fold == k for k in np.unique(samples.fold)]
    run = Parallel(n_jobs=n_jobs)

    # Select a strength for each base, and reuse the effects of each fold.
    bases = enumerate(strengths[: samples.L.shape[1]])
    pairs = [select_effects(columns, samples, base, tests, tried, run) for base, tried in bases]
    selected, tables = zip(*pairs, strict=True)

    # Predict the labels in each fold by parts that are fitted to the other folds.
    trees = len(samples.y) >= MIN_ROWS_FOR_TREES and samples.L.shape[-1] <= MOST_CLASSES
    predict = delayed(partial(predict_fold, columns, samples, smoothing=smoothing, trees=trees))
    parts = run(predict(*job) for job in zip(tests, zip(*tables, strict=True), strict=True))
    Q = np.zeros((len(samples.y), len(parts[0])))  # log-probabilities of the labels
    for test, L in zip(tests, parts, strict=True):
        Q[test] = L[:, np.arange(L.shape[1]), samples.y[test]].T

    # Weight the parts, and drop the features unless their gain is large against its error.
    weights = candidate_weights(np.exp(Q - Q.max(axis=1, keepdims=True)), samples.w)
    gain, error = samples.mean(np.log(np.exp(Q - Q[:, :1]) @ weights))
    if gain <= samples.min_gain(int(columns.first[-1])) * error:
        weights, gain = np.eye(len(weights))[0], 0.0
    without_features = -samples.mean(Q[:, 0])[0]
    return Weighed(list(selected), weights, without_features, without_features - gain)


def select_effects(
    columns: FeatureColumns,
    samples: HeldOut,
    base: int,
    tests: list[Array],
    strengths: Sequence[float],
    run: Parallel,
) -> tuple[float, list[Floats]]:
    """Return the strength with the lowest out-of-fold log loss, and the effects per fold.

    ``tests`` are masks (n,) of the test rows per fold.
    """
    L, levels = samples.L[:, base], columns.level_rows(samples.F)
    total = len(L) if samples.w is None else samples.w.sum()
    if total < MIN_ROWS_PER_INTERCEPT * columns.first[-1] * (L.shape[1] - 1):
        strengths = [strength for strength in strengths if strength >= WEAK]
    tables: list[Any] = [None] * len(tests)
    selected: tuple[float, list[Floats]] = strengths[0], []
    best_Q: Floats | None = None
    min_gain = 0.0 if samples.groups is None else GAIN_OF_STRENGTH
    for strength in strengths:
        tables = run(
            delayed(_effects)(columns, samples.taken(~test), base, strength, start)
            for test, start in zip(tests, tables, strict=True)
        )
        Q = np.zeros(len(L))  # log-probabilities of the labels
        for test, effects in zip(tests, tables, strict=True):
            log_p = log_softmax(effect_scores(effects, L[test], levels[test]), axis=1)
            Q[test] = log_p[np.arange(len(log_p)), samples.y[test]]
        gain, error = (1.0, 0.0) if best_Q is None else samples.mean(Q - best_Q)
        if gain > min_gain * error:
            selected, best_Q = (strength, tables), Q
    return selected


def predict_fold(
    columns: FeatureColumns,
    samples: HeldOut,
    test: Array,
    effects: Sequence[Floats],
    *,
    smoothing: float,
    trees: bool,
) -> Floats:
    """Fit parts to all rows outside a test mask (n,), and predict the test rows.

    Return log-probabilities (n_parts, n_test, K).
    """
    parts = Parts(columns, list(effects), [])
    if trees:
        parts = with_trees(parts, samples.taken(~test))
    return parts.log_probabilities(samples.L[test], samples.F[test], smoothing)


def fit_parts(columns: FeatureColumns, samples: HeldOut, weighed: Weighed) -> Parts:
    """Fit the parts with the selected strengths to all rows; trees only if they have a weight."""
    effects = [_effects(columns, samples, *base) for base in enumerate(weighed.strengths)]
    parts = Parts(columns, effects, [])
    return with_trees(parts, samples) if weighed.weights[len(effects) + 1 :].any() else parts


def _effects(
    columns: FeatureColumns,
    samples: HeldOut,
    base: int,
    strength: float,
    start: Floats | None = None,
) -> Floats:
    """Fit the table of effects (n_levels + 1, 1 + K) on a base, from a table ``start`` or None."""
    rows = samples.L[:, base], samples.y, samples.w, columns.level_rows(samples.F)
    return fit_effects(*rows, int(columns.first[-1]), strength, start)


def with_trees(parts: Parts, samples: HeldOut) -> Parts:
    """Return the parts with boosted trees that are fitted to these rows."""
    T = parts.for_trees(samples.L, samples.F)
    from sklearn.ensemble import HistGradientBoostingClassifier

    trees = HistGradientBoostingClassifier(
        learning_rate=0.25, max_iter=48, max_leaf_nodes=4, min_samples_leaf=10,
        l2_regularization=10, max_bins=64, early_stopping=False, random_state=0,
    )  # fmt: skip
    return parts._replace(trees=[with_one_openmp_thread(trees.fit, T, samples.y, samples.w)])
