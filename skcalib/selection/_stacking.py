"""Stacking: weight candidates by cross-validation, and fit them to all rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.utils.parallel import Parallel, delayed

from skcalib._fits import fit_to_rows, log_probabilities
from skcalib._optimize.mixture import MixtureLoss, fit_intercept, mixture, mixture_weights
from skcalib._rows import Rows, arrays
from skcalib._rows.parallel import one_blas_thread
from skcalib._typing import Array, ArrayLike, Floats, Indices, Split
from skcalib._warnings import (
    AbsentClassesWarning,
    Messages,
    ProbabilitiesWarning,
    give,
    recorded,
    warn,
)
from skcalib.meta._estimator_calibration import EstimatorCalibration

# Candidates with a smaller weight are left out. With more than two classes the limit is larger,
# because each candidate needs a pass over all logits. The smaller limit applies to simple
# candidates and the uniform distribution: they need little time, and protect against overconfident
# flexible candidates.
NEGLIGIBLE, NEGLIGIBLE_OF_MORE = 0.01, 0.04

# Pseudo-rows per candidate in the prior of the weights, unless they are default candidates.
PSEUDO_ROWS = 0.1


class Fold(NamedTuple):
    """Candidates fitted to the training part of a split, and predictions for the test part."""

    test: Indices  #: numbers of the test rows
    fitted: dict[str, Any]
    Q: dict[str, Floats]  #: label probabilities (n_test,)
    errors: dict[str, Exception]


class Stack(NamedTuple):
    """A fitted mixture of candidates."""

    attributes: dict[str, Any]  #: fitted attributes of :class:`AutoCalibrator`, by name
    folds: list[Fold]  #: empty without splits

    def held_out(self, rows: Rows) -> Floats:
        """Predict log-probabilities (n_test, K) for all test rows by the mixture in each fold."""
        weights = {name: w for name, w in self.attributes["weights_"].items() if w > 0}
        L = []
        for fold in self.folds:
            Z = rows.X[fold.test]
            parts = [log_probabilities(fold.fitted[name], Z, rows.classes) for name in weights]
            L.append(mixture(np.stack(parts).astype(np.float64), np.array([*weights.values()])))
        held_out: Floats = np.concatenate(L) + self.attributes["intercept_"]
        return log_softmax(held_out, axis=1)


def stack(
    rows: Rows,
    candidates: Mapping[str, Any],
    splits: Sequence[Split],
    *,
    simple: Sequence[str],
    smoothing: float,
    combine: str = "stack",
    screen: bool = False,
    n_jobs: int | None = None,
) -> Stack:
    """Fit candidates, and find the mixture weights that minimize the out-of-fold log loss.

    The uniform distribution is mixed into all candidates with a share ``smoothing``. The prior of
    the weights favors the ``simple`` default candidates, or the first candidate. Rows that depend
    on others of their group count as fewer rows. ``combine="best"`` selects a single candidate.
    With ``screen`` the first fold decides whether classifiers are fitted on the other folds.
    Without splits the first candidate has all the weight.
    """
    intercept: Floats = np.zeros(len(rows.classes))
    folds: list[Fold] = []
    losses: dict[str, float] = {}
    errors: dict[str, float] = {}
    weights = dict.fromkeys(candidates, 0.0) | {next(iter(candidates)): 1.0}
    if splits:
        # Fit the candidates to each training part; predict the labels in the test part.
        folds = fit_folds(rows, candidates, splits, smoothing, screen=screen, n_jobs=n_jobs)
        # A row in several test sets divides its weight among them.
        test = np.concatenate([split.test for split in splits])
        w = (np.ones(len(test)) if rows.w is None else rows.w[test]) / np.bincount(test)[test]
        groups = test if rows.groups is None else rows.groups[test]
        losses, errors = candidate_losses(folds, w, groups)
        weights = dict.fromkeys(losses, 0.0)
        names = list(folds[-1].Q)  # candidates that were fitted on all folds

    if splits and combine == "best":
        weights[min(names, key=losses.__getitem__)] = 1.0
    elif splits:
        Q = np.concatenate([np.column_stack([fold.Q[name] for name in names]) for fold in folds])
        if rows.groups is not None:
            w /= design_effect(Q, w, groups)
        prior = pseudo_rows(Q, w, names, simple, len(rows.classes))
        two_classes = len(rows.classes) == 2
        is_cheap = two_classes | np.isin(names, [*simple, "uniform"])
        smallest = np.where(is_cheap, NEGLIGIBLE, NEGLIGIBLE_OF_MORE)
        best_weights = candidate_weights(Q, w, prior, smallest)
        weights |= dict(zip(names, best_weights.tolist(), strict=True))
        # Correct the frequency of the event: step functions, and maps without an intercept, predict
        # too many rare events.
        if two_classes:
            y, p_label = rows.y[test], Q @ best_weights
            log_odds = np.log(p_label / np.maximum(1 - p_label, smoothing / 2)) * (2 * y - 1)
            intercept = fit_intercept(log_odds, y, w) * np.array([-0.5, 0.5])

    weighted = {name: candidates[name] for name, weight in weights.items() if weight > 0}
    attributes = {
        "weights_": weights,
        "calibrators_": fit_to_all_rows(weighted, rows),
        "cv_log_loss_": losses,
        "cv_log_loss_error_": errors,
        "intercept_": intercept,
        "smoothing_": smoothing,
    }
    return Stack(attributes, folds)


def fit_folds(
    rows: Rows,
    candidates: Mapping[str, Any],
    splits: Sequence[Split],
    smoothing: float,
    *,
    screen: bool,
    n_jobs: int | None,
) -> list[Fold]:
    """Fit candidates to the training part of each split, and warn of candidates that fail.

    Candidates that fail on a fold are left out of all folds.
    """
    folds: list[Fold] = []
    rest = candidates
    if screen:
        folds = [fit_fold(rows, candidates, splits[0], smoothing)]
        w = None if rows.w is None else rows.w[splits[0].test]
        rest = without_useless_trees(candidates, folds[0], w)
    folds += Parallel(n_jobs=n_jobs)(
        delayed(fit_fold)(rows, rest, split, smoothing) for split in splits[len(folds) :]
    )
    errors = {name: error for fold in folds for name, error in fold.errors.items()}
    if len(errors) == len(candidates):
        raise errors[next(iter(candidates))]
    for name, error in errors.items():
        warn(f"Candidate {name!r} failed on a fold and is left out: {error}")
        for fold in folds:
            fold.Q.pop(name, None)
    return folds


def fit_fold(rows: Rows, candidates: Mapping[str, Any], split: Split, smoothing: float) -> Fold:
    """Fit candidates to the training part of a split, and predict the labels in the test part.

    Label probabilities are mixed with a share ``smoothing`` of the uniform distribution.
    """
    train, test = rows.take(split.train), rows.take(split.test)
    n_classes = np.count_nonzero(arrays.both_columns(test.X) > -np.inf, axis=1)  # not masked
    fold = Fold(split.test, {}, {}, {})
    for name, candidate in candidates.items():
        try:
            with recorded():  # fits to all rows warn as well
                fold.fitted[name] = fit_to_rows(candidate, train)
            L = log_probabilities(fold.fitted[name], test.X, rows.classes)
        except Exception as error:  # calibrators of users may raise anything
            fold.errors[name] = error
        else:
            p_label = np.exp(L[np.arange(test.n_rows), test.y], dtype=np.float64)
            fold.Q[name] = (1 - smoothing) * p_label + smoothing / n_classes
    return fold


def fit_to_all_rows(candidates: Mapping[str, Any], rows: Rows) -> dict[str, Any]:
    """Fit candidates to all rows. Equal warnings by several candidates are given once."""
    fitted: dict[str, Any] = {}
    messages: dict[str, Messages] = {}
    for name, candidate in candidates.items():
        try:
            with recorded(AbsentClassesWarning, ProbabilitiesWarning) as messages[name]:
                fitted[name] = fit_to_rows(candidate, rows)
        except Exception as error:
            error.add_note(f"Candidate {name!r} failed on all rows.")
            raise
    give(messages.items(), ", ".join)
    return fitted


def without_useless_trees(
    candidates: Mapping[str, Any], fold: Fold, w: Floats | None
) -> dict[str, Any]:
    """Leave out classifiers unless they lower the mixture's log loss on one fold.

    Classifiers such as trees take most of the time. They must lower the log loss by 0.05 per cent,
    and by one nat in total, which useless trees rarely do by chance. ``w`` are the test rows'
    weights (n_test,) or None. Folds with fewer than 500 test rows are no evidence.
    """
    others = {name: c for name, c in candidates.items() if not isinstance(c, EstimatorCalibration)}
    if len(fold.test) < 500 or len(others) == len(candidates):
        return dict(candidates)

    def lowest(names: Iterable[str]) -> float:
        Q = np.column_stack([fold.Q[name] for name in names if name in fold.Q])
        weights = lowest_loss(Q, w, np.eye(Q.shape[1])[0])
        return float(-np.average(np.log(Q @ weights), weights=w))

    loss = lowest(candidates)
    total = len(fold.test) if w is None else w.sum()
    is_useful = lowest(others) - loss >= max(5e-4 * loss, 1 / total)
    return dict(candidates) if is_useful else others


def candidate_losses(
    folds: Sequence[Fold], w: Floats, groups: Array
) -> tuple[dict[str, float], dict[str, float]]:
    """Average log losses on the test rows, with standard errors, by candidate.

    ``w`` and ``groups`` (n_test,) are the weights and groups of all test rows. Losses in one group
    depend on one another, as do several losses of one row.
    """
    group = np.unique(groups, return_inverse=True)[1]
    means, errors = {}, {}
    for name in folds[0].Q:
        # A candidate that is left out after the first fold has losses on that fold only.
        losses = -np.log(np.concatenate([fold.Q[name] for fold in folds if name in fold.Q]))
        n = len(losses)
        share = w[:n] / w[:n].sum()
        means[name] = float(share @ losses)
        deviations = np.bincount(group[:n], share * (losses - means[name]))
        errors[name] = float(np.linalg.norm(deviations))
    return means, errors


def pseudo_rows(
    Q: Floats, w: Floats | None, names: Sequence[str], simple: Sequence[str], n_classes: int
) -> Floats:
    r"""Return the prior's pseudo-rows (M,) for label probabilities ``Q`` (n, M).

    Every candidate except the uniform distribution gets some, so that few rows, which cannot tell
    candidates apart, mix them all. The ``simple`` default candidates share
    :math:`\min(K - 2, \max(1, 15 K / N))` more, with N the total weight, in proportion to their
    likelihoods. The numbers were chosen on 112 tables with up to 1400 rows, on samples of 30 to 140
    rows and on other records of two classes. Without ``simple`` candidates the first is favored.
    """
    K, N = n_classes, len(Q) if w is None else float(w.sum())
    if simple:
        single, shared = 0.3 if K == 2 else 0.2, min(K - 2, max(1, 15 * K / N))
    else:
        single, shared = PSEUDO_ROWS, min(K - 1, max(2, 15 * K / N))
    prior = np.where(np.array(names) == "uniform", 0.0, single)
    favored = np.isin(names, simple or names[:1])
    if favored.any():
        prior[favored] += shared * softmax(arrays.weighted_sum(np.log(Q[:, favored]), w))
    return prior


def design_effect(Q: Floats, w: Floats, groups: Array) -> float:
    r"""Return how many rows in groups tell as much about the candidates as one independent row.

    ``Q`` are label probabilities (n, M), ``w`` and ``groups`` (n,). With the differences
    :math:`d_{im}` between the loss of a candidate and the mean loss of all candidates, minus their
    mean over the rows, it is the ratio of two variances, or one if that is larger:

    .. math:: \sum_{g, m} \Bigl(\sum_{i \in g} w_i d_{im}\Bigr)^2 \Big/ \sum_{i, m} w_i d_{im}^2 .
    """
    d = np.log(Q)
    d -= d.mean(axis=1, keepdims=True)
    d -= np.average(d, axis=0, weights=w)
    group = np.unique(groups, return_inverse=True)[1]
    sums = np.stack([np.bincount(group, w * column) for column in d.T])
    independent = (w @ d**2).sum()
    return max(1.0, float((sums**2).sum() / independent)) if independent > 0 else 1.0


def lowest_loss(Q: Floats, w: Floats | None, prior: Floats) -> Floats:
    """Return the mixture weights (M,) that minimize the log loss.

    ``Q`` are label probabilities (n, M), ``w`` is (n,), ``prior`` are pseudo-rows (M,).
    """
    Q = Q / Q.max(axis=1, keepdims=True)
    loss = MixtureLoss(Rows(Q, None, w), prior)
    start = np.full(Q.shape[1], 1 / Q.shape[1])
    with one_blas_thread:
        weights: Floats = mixture_weights(loss, start).x
    return weights


def candidate_weights(
    Q: Floats,
    w: Floats | None,
    prior: Floats | float = PSEUDO_ROWS,
    smallest: ArrayLike = NEGLIGIBLE,
) -> Floats:
    """Return the mixture weights (M,) that minimize the log loss, without small weights.

    ``Q`` are label probabilities (n, M), ``w`` is (n,), ``prior`` are pseudo-rows (M,).
    """
    weights = lowest_loss(Q, w, np.broadcast_to(prior, Q.shape[1]))
    large = np.where(weights < np.minimum(smallest, weights.max()), 0, weights)
    normalized: Floats = large / large.sum()
    return normalized
