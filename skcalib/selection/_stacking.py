"""Stacking: candidates are weighted by cross-validation and fitted to all rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, TimeSeriesSplit
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from skcalib._nested import fit_to_rows, log_probabilities
from skcalib._optimize.mixture import MixtureLoss, fit_intercept, mixture, mixture_weights
from skcalib._rows import Array, Floats, Indices, MemoryRows, arrays as xa
from skcalib._rows.parallel import with_one_blas_thread
from skcalib._splits import Split, hold_two_classes
from skcalib._warnings import Messages, ProbabilitiesWarning, give, recorded, warn
from skcalib.meta._estimator_calibration import EstimatorCalibration

# Candidates with a smaller weight are left out, after the first fold if it has enough rows.
# Classifiers such as trees take most of the time, and need more weight on this fold.
NEGLIGIBLE, LEAST_OF_CLASSIFIERS = 0.01, 0.1

# Pseudo-rows of each candidate in the prior of the weights.
EACH = 0.15

# From MANY_ROWS on, weights are estimated on FEWER_ROWS.
MANY_ROWS, FEWER_ROWS = 50_000, 25_000


class Fits(NamedTuple):
    """Candidates fitted to the same rows, with their warnings and errors, all by name."""

    fitted: dict[str, Any]
    messages: dict[str, Messages]
    errors: dict[str, Exception]


class Fold(NamedTuple):
    """Candidates fitted to the training part of a split, and evaluated on its test part."""

    test: Indices  #: numbers of the test rows
    fitted: dict[str, Any]
    Q: dict[str, Floats]  #: probabilities (n_test,) of the labels
    errors: dict[str, Exception]


class HeldOut(NamedTuple):
    """Test rows, each row once, with log-probabilities of the mixture."""

    rows: Indices  #: numbers of the rows (n,)
    fold: Indices  #: number of the split with the row in its test set (n,)
    L: Floats  #: (n, K)


class Stack(NamedTuple):
    """A mixture of calibrators, and its cross-validation."""

    weights: dict[str, float]  #: of all candidates, 0 if left out
    fitted: dict[str, Any]  #: candidates of positive weight, fitted to all rows
    intercept: Floats  #: (K,), added to the logarithms of the mixture
    losses: dict[str, float]  #: mean out-of-fold log losses
    errors: dict[str, float]  #: standard errors of the losses
    held_out: HeldOut | None


def stack(
    rows: MemoryRows,
    candidates: Mapping[str, Any],
    splits: Sequence[Split],
    *,
    simple: Sequence[str],
    smoothing: float,
    combine: str = "stack",
    screen: bool = False,
    n_jobs: int | None = None,
) -> Stack:
    """Fit candidates, and mix them with the weights of lowest out-of-fold log loss.

    Each probability is mixed with a share ``smoothing`` of the uniform distribution. The prior of
    the weights favors the ``simple`` candidates, or the first one. ``combine="best"`` selects a
    single candidate. With ``screen`` the first fold decides which candidates are fitted on the
    other folds.
    """
    if not splits:
        simplest = next(iter(candidates))
        fitted = fit_to_all_rows({simplest: candidates[simplest]}, rows)
        all_weights = {name: float(name == simplest) for name in candidates}
        return Stack(all_weights, fitted, np.zeros(len(rows.classes)), {}, {}, None)

    # Fit the candidates to each training part; predict the labels of its test part.
    folds = fit_folds(rows, candidates, splits, smoothing, screen=screen, n_jobs=n_jobs)
    test = np.concatenate([split.test for split in splits])
    shares = shares_of(rows, test)
    losses, errors = log_losses(folds, shares, rows.groups)

    # Weight the candidates that every fold has.
    names = list(folds[-1].Q)
    Q = np.concatenate([np.column_stack([fold.Q[name] for name in names]) for fold in folds])
    if combine == "best":
        weights = (np.array(names) == min(names, key=losses.__getitem__)) * 1.0
    else:
        prior = pseudo_rows(Q, shares, names, simple or names[:1], len(rows.classes))
        weights = lowest_loss(Q, shares, prior)
        weights = np.where(weights < min(NEGLIGIBLE, weights.max()), 0, weights)
        weights /= weights.sum()

    # Correct the frequency of the event: mixtures of steps and of maps without an intercept predict
    # too many rare events.
    kept = dict(zip(np.array(names)[weights > 0].tolist(), weights[weights > 0], strict=True))
    L = np.concatenate([fold_mixture(fold, rows, kept) for fold in folds])
    has_intercept = combine == "stack" and len(rows.classes) == 2
    intercept = fit_intercept(L, rows.y[test], shares) if has_intercept else np.zeros(L.shape[1])

    fitted = fit_to_all_rows({name: candidates[name] for name in kept}, rows)
    all_weights = {name: float(kept.get(name, 0)) for name in losses}
    numbers, fold, first = first_tests(splits)
    L = xa.log_softmax(xa.mix_logits(L[first] + intercept, smoothing))
    return Stack(all_weights, fitted, intercept, losses, errors, HeldOut(numbers, fold, L))


def fit_folds(
    rows: MemoryRows,
    candidates: Mapping[str, Any],
    splits: Sequence[Split],
    smoothing: float,
    *,
    screen: bool,
    n_jobs: int | None,
) -> list[Fold]:
    """Folds with the candidates that fit on all of them; a warning names the others."""
    folds: list[Fold] = []
    rest = candidates
    if screen:
        folds = [fit_fold(rows, candidates, splits[0], smoothing)]
        w = None if rows.w is None else rows.w[splits[0].test]
        rest = promising(candidates, folds[0], w)
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


def fit_fold(
    rows: MemoryRows, candidates: Mapping[str, Any], split: Split, smoothing: float
) -> Fold:
    """Candidates fitted to the training part, and probabilities of the labels of the test part."""
    test = rows.taken(split.test)
    n_classes = np.count_nonzero(xa.both_columns(test.X) > -np.inf, axis=1)  # not masked
    fitted, _, errors = fit_all(candidates, rows.taken(split.train))
    Q = {}
    for name, calibrator in fitted.items():
        try:
            L = log_probabilities(calibrator, test.X, rows.classes)
        except Exception as error:  # calibrators of users may raise anything
            errors[name] = error
        else:
            of_labels = np.exp(L[np.arange(test.n_rows), test.y], dtype=np.float64)
            Q[name] = (1 - smoothing) * of_labels + smoothing / n_classes
    return Fold(split.test, fitted, Q, errors)


def fit_all(candidates: Mapping[str, Any], rows: MemoryRows) -> Fits:
    """Candidates fitted to the same rows."""
    fits = Fits({}, {}, {})
    for name, candidate in candidates.items():
        try:
            with recorded(ProbabilitiesWarning) as fits.messages[name]:
                fits.fitted[name] = fit_to_rows(candidate, rows)
        except Exception as error:  # calibrators of users may raise anything
            fits.errors[name] = error
    return fits


def fit_to_all_rows(candidates: Mapping[str, Any], rows: MemoryRows) -> dict[str, Any]:
    """Fitted candidates, with one warning for equal warnings of several candidates."""
    fitted, messages, errors = fit_all(candidates, rows)
    for name, error in errors.items():
        error.add_note(f"Candidate {name!r} failed on all rows.")
        raise error
    give(messages.items(), ", ".join)
    return fitted


def promising(candidates: Mapping[str, Any], fold: Fold, w: Floats | None) -> dict[str, Any]:
    """Candidates that have some weight in the best mixture on the test rows of one fold.

    ``w`` are weights of the test rows or None. All candidates are kept if there are few test rows,
    where the weights depend on chance. The prior is one row for the first candidate, which stays,
    since a prior for all candidates would keep similar ones.
    """
    names = list(fold.Q)
    if len(fold.test) < 500:
        return dict(candidates)
    Q = np.column_stack([*fold.Q.values()])
    weights = lowest_loss(Q, w, (np.arange(len(names)) == 0) * 1.0)
    is_classifier = [isinstance(candidates[name], EstimatorCalibration) for name in names]
    least = np.where(is_classifier, LEAST_OF_CLASSIFIERS, NEGLIGIBLE)
    out = np.array(names[1:])[weights[1:] < least[1:]]
    return {name: candidate for name, candidate in candidates.items() if name not in out}


def shares_of(rows: MemoryRows, test: Indices) -> Floats | None:
    """Weights of test rows; a row in several test sets has its weight in total."""
    times = np.bincount(test)[test]
    if rows.w is None and times.max() == 1:
        return None
    shares: Floats = (1.0 if rows.w is None else rows.w[test]) / times
    return shares


def log_losses(
    folds: Sequence[Fold], w: Floats | None, groups: Array | None = None
) -> tuple[dict[str, float], ...]:
    """Mean log losses on the test rows of the folds that have the candidate; standard errors."""
    group = None if groups is None else np.unique(groups, return_inverse=True)[1]
    sizes = [len(fold.test) for fold in folds]
    parts = np.split(np.ones(sum(sizes)) if w is None else w, np.cumsum(sizes)[:-1])
    means, errors = {}, {}
    for name in folds[0].Q:
        pairs = [pair for pair in zip(folds, parts, strict=True) if name in pair[0].Q]
        test = np.concatenate([fold.test for fold, _ in pairs])
        losses = -np.log(np.concatenate([fold.Q[name] for fold, _ in pairs]))
        shares = np.concatenate([part for _, part in pairs])
        shares = shares / shares.sum()
        means[name] = float(shares @ losses)
        # Several losses of one row, or of one group, are not independent.
        unit = test if group is None else group[test]
        deviations = np.bincount(unit, shares * (losses - means[name]))
        errors[name] = float(np.linalg.norm(deviations))
    return means, errors


def pseudo_rows(
    Q: Floats, w: Floats | None, names: Sequence[str], simple: Sequence[str], n_classes: int
) -> Floats:
    r"""Pseudo-rows (M,) of the prior, given probabilities (n, M) of the labels.

    Every candidate except the uniform distribution has EACH, so that few rows, which cannot tell
    candidates apart, mix all of them. The simple candidates share
    :math:`\min(K - 1, \max(2, 15 K / N))` more, for K classes and N rows, in proportion to their
    likelihoods. The numbers were chosen on 40 data sets with up to 520 rows.
    """
    prior = np.where(np.array(names) == "uniform", 0.0, EACH)
    favored = np.isin(names, simple)
    if favored.any():
        total = float(len(Q) if w is None else w.sum())
        likelihoods = xa.weighted_sum(np.log(Q[:, favored]), w)
        prior[favored] += min(n_classes - 1, max(2, 15 * n_classes / total)) * softmax(likelihoods)
    return prior


def lowest_loss(Q: Floats, w: Floats | None, prior: Floats) -> Floats:
    """Weights (M,) of the mixture of lowest log loss, given probabilities (n, M) of the labels."""
    Q = Q / Q.max(axis=1, keepdims=True)
    loss = MixtureLoss(MemoryRows(Q, None, w), prior)
    start = np.full(Q.shape[1], 1 / Q.shape[1])
    weights: Floats = with_one_blas_thread(mixture_weights, loss, start).x
    return weights


def fold_mixture(fold: Fold, rows: MemoryRows, weights: Mapping[str, float]) -> Floats:
    """Log-probabilities (n_test, K) of the mixture of the candidates with these weights."""
    Z = rows.X[fold.test]
    parts = [log_probabilities(fold.fitted[name], Z, rows.classes) for name in weights]
    return mixture(np.stack(parts).astype(np.float64), np.array([*weights.values()]))


def first_tests(splits: Sequence[Split]) -> tuple[Indices, Indices, Indices]:
    """Numbers of the test rows, their first split, and their positions in all test sets."""
    test = np.concatenate([split.test for split in splits])
    fold = np.repeat(np.arange(len(splits)), [len(split.test) for split in splits])
    rows, first = np.unique(test, return_index=True)
    return rows, fold[first], first


def random_splits(rows: MemoryRows, n_folds: int, random_state: Any) -> list[Split]:
    """Random folds of rows, or folds of groups; from MANY_ROWS rows on, folds of a sample.

    Folds are not stratified: otherwise classes would be as frequent in the test rows as in the
    training rows, unlike in new data, and intercepts of many classes would seem to help. If the
    training rows of a fold hold one class only, there are fewer, stratified folds, or none.
    """
    rng = check_random_state(0 if random_state is None else random_state)
    if rows.groups is not None:
        n_groups = len(np.unique(rows.groups))
        if n_groups < 2:
            raise ValueError(
                f"groups must hold at least two groups, since folds keep groups together, got "
                f"{n_groups}. Leave groups out if rows are independent."
            )
        numbers = np.arange(rows.n_rows)
        splits = [*GroupKFold(min(n_folds, n_groups)).split(rows.y, groups=rows.groups)]
    else:
        warn_of_equal_rows(rows.X)
        numbers = rows_to_weigh_on(rows)
        splits = [*KFold(min(n_folds, len(numbers)), shuffle=True, random_state=rng).split(numbers)]
    y = rows.y[numbers]
    splits = [Split(*split) for split in splits]
    if not hold_two_classes(y, splits):
        splits = _fewer_splits(y, n_folds, rng, grouped=rows.groups is not None)
    return [Split(numbers[train], numbers[test]) for train, test in splits]


def forward_splits(rows: MemoryRows) -> list[Split]:
    """Five splits of rows in time order: training rows are earlier than test rows.

    The time of a group is the position of its first row, so that no group is split.
    """
    time = np.arange(rows.n_rows)
    if rows.groups is not None:
        _, first, group = np.unique(rows.groups, return_index=True, return_inverse=True)
        time = np.argsort(np.argsort(first))[group]
    n_times = int(time.max()) + 1
    if n_times < 6:
        unit = "rows" if rows.groups is None else "groups"
        raise ValueError(f"cv='time' needs at least six {unit}, got {n_times}. Pass cv=2.")
    splits = [
        Split(
            np.flatnonzero(time < test[0]), np.flatnonzero((time >= test[0]) & (time <= test[-1]))
        )
        for _, test in TimeSeriesSplit(5).split(np.arange(n_times))
    ]
    if not hold_two_classes(rows.y, splits):
        raise ValueError(
            f"cv='time' needs two classes in the first training rows, got one class in "
            f"{len(splits[0].train)} rows. Pass more rows, or cv=5."
        )
    return splits


def warn_of_equal_rows(Z: Floats) -> None:
    """Warn if more than 5 per cent of the rows have the logits of another row.

    Two columns are not checked. Rows are not counted if they have the lowest logit of all, where
    classifiers clip probabilities. Scores of few values, as of nearest neighbors, do not count.
    """
    n_rows, n_columns = Z.shape
    if n_columns < 3:
        return
    most = 10_000
    if (
        n_rows > most
    ):  # the middle of the order of the first column, so that equal rows stay together
        start = (n_rows - most) // 2
        Z = Z[np.argpartition(Z[:, 0], (start, start + most))[start : start + most]]
    n_checked = len(Z)
    lowest = np.min(Z, where=np.isfinite(Z), initial=np.inf)
    Z = Z[np.all(lowest != Z, axis=1)]
    hashes = np.array([hash(row.tobytes()) for row in Z])
    _, first, counts = np.unique(hashes, return_index=True, return_counts=True)
    share = counts[counts > 1].sum() / n_checked
    if share <= 0.05:
        return
    # Columns of few values have few combinations, which occur twice by chance.
    n_values = max(len(np.unique(column)) for column in Z[first].T)
    if (n_columns - 1) * np.log(n_values) > 2 * np.log(len(first)) - np.log(2):
        warn(
            f"{share:.0%} of the rows have logits equal to the logits of another row, so the rows "
            "seem to be dependent and held-out losses too low: pass groups= to fit with one value "
            "for all rows of the same origin, or remove repeated rows."
        )


def rows_to_weigh_on(rows: MemoryRows) -> Indices:
    """Numbers of all rows, or of a random sample of many rows.

    The sample is large enough for 500 rows of the rarest class, up to a million logits.
    """
    n, counts = rows.n_rows, np.bincount(rows.y)
    if n < MANY_ROWS:
        return np.arange(n)
    enough = 500 * n // counts[counts > 0].min()
    n_sample = min(n, max(FEWER_ROWS, min(enough, 1_000_000 // len(counts))))
    return np.sort(np.random.default_rng(0).choice(n, n_sample, replace=False))


def _fewer_splits(y: Indices, n_folds: int, rng: Any, *, grouped: bool) -> list[Split]:
    """Stratified folds, as many as the rarer classes allow, or none for groups, with a warning."""
    most_frequent = y == np.bincount(y).argmax()
    n_others = int((~most_frequent).sum())
    fewer = 0 if grouped else min(n_folds, n_others, int(most_frequent.sum()))
    splits = []
    if fewer >= 2:
        stratified = StratifiedKFold(fewer, shuffle=True, random_state=rng)
        splits = [Split(*split) for split in stratified.split(y, most_frequent)]
    if fewer < n_folds:
        outcome = (
            f"there are {fewer} folds" if splits else "the first candidate is used without any"
        )
        warn(
            f"The training rows of each of {n_folds} folds must hold two classes, got {n_others} "
            f"of {len(y)} rows that are not of the most frequent class: {outcome}. Calibrate on "
            f"more {'groups' if grouped else 'rows'}."
        )
    return splits
