r"""Stacking by cross-validation: candidates on folds, or on halves of many rows, and their weights.

With the out-of-fold probability :math:`q_{im}` that candidate m gives the label of row i, the
weights :math:`\pi` on the simplex have the least log loss of :math:`\sum_m \pi_m q_{im}`, with
pseudo-rows: the negative logarithm of the posterior density for a Dirichlet prior. See
:func:`~skcalib._optimize.mixture.mixture_weights`.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from skcalib._nested import fit_to_rows, log_probabilities, with_fitted
from skcalib._optimize.linear import LOWEST_FEATURE
from skcalib._optimize.mixture import MixtureLoss, mixture, mixture_weights
from skcalib._rows import Array, Bools, Floats, Indices, MemoryRows, Plan, Rows, arrays as xa
from skcalib._rows.parallel import with_one_blas_thread
from skcalib._splits import Split, hold_two_classes
from skcalib._warnings import Messages, ProbabilitiesWarning, recorded, warn
from skcalib.meta._classifier_calibrator import ClassifierCalibrator, canonical_orders
from skcalib.scaling._linear import fit_linear_maps
from skcalib.scaling._matrix import _averaged, _family_of, _features_of

# Number of rows from which on weights are estimated on fewer of them.
MANY_ROWS, FEWER_ROWS = 50_000, 25_000

# These are more where the rarest class would have fewer rows, up to a number of logits.
ROWS_OF_RAREST, MOST_LOGITS = 500, 1_000_000

# Candidates by name, fitted or not.
Candidates = dict[str, Any]


class Fits(NamedTuple):
    """Fitted candidates by name, their warnings, and the errors of those that failed."""

    fitted: Candidates
    messages: dict[str, Messages]
    errors: dict[str, Exception]


class Fold(NamedTuple):
    """Candidates fitted to the training rows, and log-probabilities of the labels of test rows."""

    fits: Fits
    test: Any  #: rows
    L: Any  #: a dict of (n_test,) for each candidate, or rows with all (n_test, M) for logits

    def of(self, names: Iterable[str]) -> "Fold":
        """The same with rows, of some of the candidates."""
        columns = [self.L[name] for name in names]
        return self._replace(L=MemoryRows(np.column_stack(columns), None, self.test.w))


def fit_all(candidates: Mapping[str, Any], rows: Rows, what: str = "") -> Fits:
    """All candidates fitted to the same rows, families of linear maps together.

    With lines that say so, if there is text of ``what`` the rows are.
    """
    families = defaultdict(list)
    for name, candidate in candidates.items():
        family = _family_of(candidate)
        families[("a family", *family) if family else name].append(name)
    found = Fits({}, {}, {})
    for names in families.values():
        start = time.perf_counter()
        _fit_into(found, {name: candidates[name] for name in names}, rows)
        if what:
            print(f"{what}: {', '.join(names)}: {time.perf_counter() - start:.1f} s", flush=True)
    return found


def _fit_into(found: Fits, members: Candidates, rows: Rows) -> None:
    """Fit candidates that are alone, or a family of linear maps."""
    try:
        with recorded(ProbabilitiesWarning) as messages:
            if len(members) == 1:
                fitted = [fit_to_rows(member, rows) for member in members.values()]
            else:
                attributes = fit_linear_maps(rows, list(members.values()))
                pairs = zip(members.values(), attributes, strict=True)
                fitted = [with_fitted(*pair, rows) for pair in pairs]
    except Exception as error:  # calibrators of users may raise anything
        if len(members) == 1:
            found.errors.update(dict.fromkeys(members, error))
        else:  # those of a family that do not fail
            for name, member in members.items():
                _fit_into(found, {name: member}, rows)
    else:
        found.fitted.update(zip(members, fitted, strict=True))
        found.messages[", ".join(members)] = messages


def out_of_fold(
    candidates: Mapping[str, Any],
    rows: MemoryRows,
    splits: list[Split],
    smoothing: float,
    n_jobs: int | None,
    *,
    screened: bool = False,
    verbose: bool = False,
) -> list[Fold]:
    """Candidates that can be fitted on each fold; others are left out with a warning.

    If none can, the error of the first is raised. If they are ``screened``, other folds than the
    first have those that are :func:`promising` there.
    """
    what = [f"Fold {k + 1} of {len(splits)}" if verbose else "" for k in range(len(splits))]
    pairs = list(zip(splits, what, strict=True))
    found: list[Fold] = []
    rest = candidates
    if screened:
        found = [fit_and_test(candidates, rows, *pairs[0], smoothing)]
        rest = promising(candidates, found[0], "the first fold" if verbose else "")
    found += Parallel(n_jobs=n_jobs)(
        delayed(fit_and_test)(rest, rows, *pair, smoothing) for pair in pairs[len(found) :]
    )
    for name in failed([fold.fits for fold in found], candidates):
        for fold in found:
            fold.L.pop(name, None)
    return found


def failed(fits: list[Fits], candidates: Mapping[str, Any]) -> list[str]:
    """Candidates that failed on a fold, with a warning; if all did, the error of the first."""
    errors = {name: error for of_fold in fits for name, error in of_fold.errors.items()}
    if len(errors) == len(candidates):
        raise errors[next(iter(candidates))]
    for name, error in errors.items():
        warn(f"Candidate {name!r} failed on a fold and is left out: {error}")
    return list(errors)


def fit_and_test(
    candidates: Mapping[str, Any], rows: MemoryRows, split: Split, what: str, smoothing: float
) -> Fold:
    train, test = map(rows.taken, split)
    fits, L = fit_all(candidates, train, what), {}
    for name in candidates:  # in their order
        if name in fits.fitted:
            try:
                L[name] = log_of_labels(fits.fitted[name], test, smoothing)
            except Exception as error:  # as above
                fits.errors[name] = error
    return Fold(fits, test, L)


def log_of_labels(calibrator: Any, rows: MemoryRows, smoothing: float) -> Floats:
    """Log-probabilities of the labels of rows (n,), mixed with the uniform distribution.

    That is uniform among the classes that are not masked.
    """
    L = log_probabilities(calibrator, rows.X, rows.classes)[np.arange(rows.n_rows), rows.y]
    n_classes = np.count_nonzero(xa.both_columns(rows.X) > -np.inf, axis=1)
    return np.log((1 - smoothing) * np.exp(L, dtype=np.float64) + smoothing / n_classes)


def log_rows(rows: Rows, calibrators: list[Any], smoothing: float) -> Any:
    """The rows with log-probabilities (n, M) of the labels in place of logits."""
    # On workers half the memory counts, and rounding errors of single precision average out.
    dtype = np.float64 if rows.is_local else np.float32
    of_block = partial(_logs_of_labels, calibrators, rows.classes, smoothing, dtype)
    return rows.with_logits(rows.map(of_block, Plan(at_least=1 << 12)))


def _logs_of_labels(
    calibrators: list[Any],
    classes: Array,
    smoothing: float,
    dtype: Any,
    Z: Floats,
    y: Indices,
    *_: Any,
) -> Floats:
    block = MemoryRows(Z, y, None, classes=classes)
    return np.column_stack([log_of_labels(c, block, smoothing) for c in calibrators]).astype(dtype)


def rows_to_weigh_on(rows: Any) -> MemoryRows:
    """All rows, or if they are many some of them at random, more where a class is rare."""
    if rows.n_rows >= MANY_ROWS:
        counts = np.bincount(rows.y)
        enough = ROWS_OF_RAREST * rows.n_rows // counts[counts > 0].min()
        n_some = max(FEWER_ROWS, min(enough, MOST_LOGITS // len(counts)))
        n_some = min(n_some, rows.n_rows)
        some = np.random.default_rng(0).choice(rows.n_rows, n_some, replace=False)
        rows = rows.taken(np.sort(some))
    found: MemoryRows = rows
    return found


def in_canonical_order(rows: MemoryRows) -> MemoryRows:
    """The rows in an order that depends on neither theirs nor that of the classes."""
    Z = xa.double(xa.both_columns(rows.X))
    L = np.maximum(Z - Z.max(axis=1, keepdims=True), LOWEST_FEATURE)
    _, order = canonical_orders(L, rows.y, rows.w)
    return rows.taken(order)


def folds(y: Indices, groups: Array | None, n_folds: int, random_state: Any) -> list[Split]:
    """Random folds of rows, or folds of groups, whose training rows hold two classes.

    With a warning fewer folds where that is not possible, or none. Folds are not stratified
    otherwise, since classes would then be as frequent in the test rows as in the training rows,
    which they are not in new data: offsets of many classes would seem to help.
    """
    of_what = y if groups is None else np.unique(groups)
    if len(of_what) < 2:
        raise ValueError(
            f"groups must hold at least two groups, which folds consist of, got {len(of_what)}. "
            "Leave groups out if rows are independent."
        )
    n_folds = min(n_folds, len(of_what))
    rng = check_random_state(0 if random_state is None else random_state)
    splitter = KFold(n_folds, shuffle=True, random_state=rng)
    splitter = splitter if groups is None else GroupKFold(n_folds)
    found = [Split(*s) for s in splitter.split(y, groups=groups)]
    return found if hold_two_classes(y, found) else _fewer_folds(y, groups, n_folds, rng)


def _fewer_folds(y: Indices, groups: Array | None, n_folds: int, rng: Any) -> list[Split]:
    """As many stratified folds of rows as those of the rarer classes allow; none of groups."""
    is_most_frequent = y == np.bincount(y).argmax()
    others = min(int(is_most_frequent.sum()), int((~is_most_frequent).sum()))
    fewer = min(n_folds, others) if groups is None else 0
    splits: list[Split] = []
    if fewer >= 2:
        stratified = StratifiedKFold(fewer, shuffle=True, random_state=rng)
        splits = [Split(*s) for s in stratified.split(y, is_most_frequent)]
    outcome = f"there are {fewer} folds" if splits else "the first candidate is used, without any"
    if fewer < n_folds:
        warn(
            "The training rows of each fold must hold two classes, not so those of "
            f"{n_folds} folds with {others} of {len(y)} rows that are not of the most frequent "
            f"class: {outcome}. Calibrate on more {'rows' if groups is None else 'groups'}."
        )
    return splits


# Candidates with a smaller weight are left out; costly ones with one below the second number:
# classifiers, the slowest to predict, and after the first fold linear maps, the slowest to fit.
NEGLIGIBLE, COSTLY_LEAST = 0.01, 0.05

# Candidates beside the average of linear maps are left out unless they lower the out-of-fold log
# loss by more than this share of it: each costs as much at prediction as the average, or more.
GAIN = 0.0005

# Number of test rows of the first fold from which on candidates are left out of the others.
ROWS_TO_SCREEN_ON = 500

# Number of rows from which on linear maps are averaged.
ROWS_TO_AVERAGE = 2000

# Pseudo-rows of the prior of the weights, learned from 40 data sets with up to 520 rows: this
# number for the simple candidates, or the second divided by the rows per class if that is more, but
# at most one less than there are classes; and the third for each candidate.
PSEUDO_ROWS, PSEUDO_ROWS_OF_FEW, PSEUDO_ROWS_OF_EACH = 2, 15, 0.1


class Weighed(NamedTuple):
    """Candidates by name with what cross-validation says of each."""

    weights: dict[str, float]
    losses: dict[str, float]  #: mean out-of-fold log loss
    errors: dict[str, float]  #: and its standard error
    linear: list[str]  #: candidates that count as the average of linear maps


def weighed(
    folds: list[Fold],
    names: list[str],
    combine: str,
    smoothing: float,
    simple: Sequence[str],
    first: Fold | None = None,
) -> Weighed:
    """Weights of candidates, "stack"ed or all on the "best", and their log losses.

    The folds have rows of the candidates with these names. The ``simple`` ones, or the first, are
    those that weights are shrunk towards. Of those that were left out after a ``first`` fold,
    losses are those in this fold.
    """
    L = reduce(lambda a, b: a.joined(b), (fold.L for fold in folds))
    losses, errors = _losses(L, names)
    evidence = -L.weight * np.array([*losses.values()])
    prior = pseudo_rows(names, evidence, L.weight, simple or names[:1], folds[0].test.n_columns)
    linear: list[str] = []
    if combine == "best":
        weights = np.array([name == min(names, key=losses.__getitem__) for name in names], float)
    else:
        weights, linear = _stacked(folds, names, L, prior, smoothing)
        least = [_least(folds[-1].fits.fitted[name]) for name in names]
        weights = np.where(weights < np.minimum(least, weights.max()), 0, weights)
        weights /= weights.sum()
    if first is not None:
        before = _losses(first.of(first.L).L, list(first.L))
        losses, errors = before[0] | losses, before[1] | errors
    of_names = dict(zip(names, weights.tolist(), strict=True))
    return Weighed(dict.fromkeys(losses, 0.0) | of_names, losses, errors, linear)


def _losses(L: Rows, names: list[str]) -> tuple[dict[str, float], dict[str, float]]:
    """Mean log loss of each candidate, and its standard error."""
    w, w2, *sums = L.sum(_moments)
    first, second, squares = np.reshape(sums, (3, len(names)))
    losses = -first / w
    errors = np.sqrt(np.maximum(squares + losses * (2 * second + losses * w2), 0)) / w
    pairs = zip(names, losses.tolist(), strict=True), zip(names, errors.tolist(), strict=True)
    return dict(pairs[0]), dict(pairs[1])


def _moments(L: Floats, _: Any, w: Floats | None) -> Floats:
    """Sums over a block by which losses have means and standard errors."""
    L, w = L.astype(np.float64), np.ones(len(L)) if w is None else w
    return np.concatenate([[w.sum(), w @ w], w @ L, w**2 @ L, w**2 @ L**2])


def pseudo_rows(
    names: list[str], evidence: Floats, weight: float, simple: Sequence[str], n_columns: int
) -> Floats:
    r"""Pseudo-rows (M,) of candidates, whose ``evidence`` sums out-of-fold log-probabilities.

    They are :math:`\min(K - 1, \max(2, 15 K / N))` for K classes and N rows (the sum of weights),
    which the simple candidates share in proportion to their likelihoods: by their posterior
    probabilities, if these are equal before. Every other candidate but the uniform distribution
    has a tenth of one, so that of few rows, which cannot tell them apart, all are mixed.
    """
    found = np.where(np.array(names) == "uniform", 0.0, PSEUDO_ROWS_OF_EACH)
    some, K = np.isin(names, simple), max(n_columns, 2)
    if some.any():
        of_simple = min(K - 1, max(PSEUDO_ROWS, PSEUDO_ROWS_OF_FEW * K / weight))
        found[some] += of_simple * softmax(evidence[some])
    return found


def promising(candidates: Mapping[str, Any], fold: Fold, where: str) -> dict[str, Any]:
    """Candidates without those of little weight on the test rows of a fold, if these are many.

    Of a few hundred rows, chance decides which ones these are. The weights have no prior but one
    row for the first candidate, which stays, since a row for each would keep similar ones.
    ``where`` says in a line where others are left out.
    """
    names = list(fold.L)
    if fold.test.n_rows < ROWS_TO_SCREEN_ON:
        return dict(candidates)
    weights = stacking_weights(fold.of(names).L, (np.arange(len(names)) == 0) * 1.0)
    least = [_least(fold.fits.fitted[name], linear=COSTLY_LEAST) for name in names]
    out = [names[k] for k in np.flatnonzero(weights < least) if k]
    if out and where:
        print(f"Left out after {where}: {', '.join(out)}", flush=True)
    return {name: candidate for name, candidate in candidates.items() if name not in out}


def _least(calibrator: Any, linear: float = NEGLIGIBLE) -> float:
    """The weight below which a candidate is left out, and that for linear maps."""
    if isinstance(calibrator, ClassifierCalibrator):
        return COSTLY_LEAST
    return linear if _features_of(calibrator) else NEGLIGIBLE


def _linear_maps(names: list[str], folds: list[Fold]) -> list[str]:
    """Candidates that are linear maps of the log-probabilities that most of them are maps of."""
    of_each = {
        name: tuple(_features_of(fold.fits.fitted[name]) for fold in folds) for name in names
    }
    counts = Counter(features for features in of_each.values() if None not in features)
    most = [features for features, _ in counts.most_common(1)]
    return [name for name, features in of_each.items() if features in most]


def _stacked(
    folds: list[Fold],
    names: list[str],
    L: Rows,
    prior: Floats,
    smoothing: float,
) -> tuple[Floats, list[str]]:
    """Weights of all candidates, and those linear maps that count as their average.

    The average of scores costs no more than one of the maps, but is more confident than they are:
    of few rows, which leave the maps uncertain, the mixture of their probabilities has a lower
    loss.
    """
    weights = stacking_weights(L, prior)
    linear = _linear_maps(names, folds)
    is_linear = np.isin(names, linear)
    if L.n_rows < ROWS_TO_AVERAGE or np.count_nonzero(weights[is_linear]) < 2:
        return weights, []
    share = weights[is_linear] / weights[is_linear].sum()
    averages = [_averaged([fold.fits.fitted[name] for name in linear], share) for fold in folds]
    pairs = zip(folds, averages, strict=True)
    of_average = (log_rows(fold.test, [average], smoothing) for fold, average in pairs)
    both = L.extended(reduce(lambda a, b: a.joined(b), of_average).X)
    L = L.with_logits(both.map(lambda L, *others: np.column_stack([L[:, ~is_linear], others[-1]])))
    prior = np.append(prior[~is_linear], prior[is_linear].sum())
    *others, total = pruned_weights(L, prior, GAIN)
    weights[~is_linear], weights[is_linear] = others, total * share
    return weights, linear


def stacking_weights(L: Rows, pseudo_rows: Floats, kept: Any = slice(None)) -> Floats:
    """Weights (M,) of candidates, for rows with log-probabilities (n, M) of the labels for logits.

    ``pseudo_rows`` (M,) are the prior, and ``kept`` the columns of the candidates.
    """
    relative = partial(_relative, kept)
    if L.is_local:
        loss = MixtureLoss(L.with_logits(L.map(relative)), pseudo_rows)
    else:  # in each pass, since they would take as much memory of workers as the logarithms
        loss = MixtureLoss(L, pseudo_rows, relative)
    start = np.full(len(pseudo_rows), 1 / len(pseudo_rows))
    weights: Floats = with_one_blas_thread(mixture_weights, loss, start).x
    return weights


def _relative(kept: Any, L: Floats, *_: Any) -> Floats:
    """Probabilities with logarithms ``L`` of some candidates, as multiples of the largest."""
    L = L[:, kept].astype(np.float64)
    Q: Floats = np.exp(L - L.max(axis=1, keepdims=True))
    return Q


def _log_likelihood(weights: Floats, L: Floats, _: Any, w: Floats | None, *__: Any) -> Any:
    """Sum of the logarithms of the mixed probabilities of a block."""
    with np.errstate(divide="ignore"):
        return xa.weighted_sum(logsumexp(L + np.log(weights), axis=1), w)


def pruned_weights(L: Rows, pseudo_rows: Floats, gain: float) -> Floats:
    """As :func:`stacking_weights`, without candidates that lower the log loss by little.

    One at a time, from the one of least weight on, candidates are left out without which the mean
    log loss is higher by no more than the share ``gain`` of it; never the last one in ``L``.
    """

    def fit(kept: Bools) -> tuple[float, Floats]:
        weights = np.zeros(len(kept))
        weights[kept] = stacking_weights(L, pseudo_rows[kept], kept)
        return -float(L.sum(partial(_log_likelihood, weights))) / L.weight, weights

    kept = np.ones(len(pseudo_rows), bool)
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


def out_of_fold_mixture(fold: Fold, found: Weighed, smoothing: float) -> Floats:
    """Log-probabilities (n_test, K) of the mixture for the test rows of a fold."""
    kept = {name: fold.fits.fitted[name] for name, weight in found.weights.items() if weight > 0}
    parts, weights = components(kept, found)
    rows = fold.test
    L = mixture(np.stack([log_probabilities(c, rows.X, rows.classes) for c in parts]), weights)
    return xa.log_softmax(xa.mix_logits(L.astype(np.float64), smoothing))


# Share of the gathered rows that candidates are tested on, and left out of the halves.
TEST_SHARE = 0.2


def weighed_in_halves(
    candidates: Candidates,
    rows: Any,
    combine: str,
    smoothing: float,
    random_state: Any,
    *,
    simple: Sequence[str],
    verbose: bool,
) -> Weighed:
    """What two halves of rows say of the candidates: more rows than are gathered, with Dask.

    Each half of the rows, at random, is fitted to and evaluated on the other one, where it is:
    weights come from all rows, out of fold, and the client receives sums over rows. A half has so
    many rows that more of them, or more folds, would change nothing; two folds cost one fit to all
    rows. If there are ``simple`` candidates, a sample says first which ones are left out.
    """
    rng = check_random_state(0 if random_state is None else random_state)
    first = _sample(candidates, rows, smoothing, rng, verbose=verbose) if simple else None
    if first is not None:
        candidates = promising(candidates, first, "a sample" if verbose else "")
    seed = rng.randint(2**31)
    halves = [rows.part(k, 2, seed) for k in range(2)]
    what = [f"Half {k + 1} of 2" if verbose else "" for k in range(2)]
    fits = [fit_all(candidates, *pair) for pair in zip(halves, what, strict=True)]
    out = failed(fits, candidates)
    names = [name for name in candidates if name not in out]
    folds = []
    for fitted, test in zip(fits, reversed(halves), strict=True):
        L = log_rows(test, [fitted.fitted[name] for name in names], smoothing)
        folds.append(Fold(fitted, test, L))
    return weighed(folds, names, combine, smoothing, simple, first)


def _sample(
    candidates: Candidates, rows: Any, smoothing: float, rng: Any, *, verbose: bool
) -> Fold | None:
    """A fold of gathered rows; None if nothing can be fitted, as to rows of a single class."""
    some = rows.in_memory(or_some=True)
    order = rng.permutation(some.n_rows)
    test, train = np.split(order, [int(TEST_SHARE * some.n_rows)])
    split = Split(train, test)
    if not hold_two_classes(some.y, [split]):
        return None
    fold = fit_and_test(candidates, some, split, "Sample" if verbose else "", smoothing)
    return fold if fold.L else None
