"""Cross-validation of more rows than are gathered: two halves, on the workers of Dask.

Each half of the rows, at random, is fitted to and evaluated on the other one, where it is: weights
come from all rows, out of fold, and the client receives sums over rows. A half has so many rows
that more of them, or more folds, would change nothing; two folds cost one fit to all rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from skcalib._rows import Floats, Rows
from skcalib._splits import Split, hold_two_classes

from ._stacking import (
    Candidates,
    Fold,
    Weighed,
    chosen_weights,
    failed,
    fit_all,
    fit_and_test,
    hopeless,
    log_rows,
    pseudo_rows,
    weighed,
)

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
    """What the halves say of the candidates.

    If there are ``simple`` ones, a sample of the rows says first which ones are left out.
    """
    rng = check_random_state(0 if random_state is None else random_state)
    first = _sample(candidates, rows, smoothing, rng, verbose=verbose) if simple else []
    out = [name for fold in first for name in hopeless(fold)]
    if out and verbose:
        print(f"Left out after a sample: {', '.join(out)}", flush=True)
    rest = {name: candidate for name, candidate in candidates.items() if name not in out}
    folds, names = _halves(rest, rows, smoothing, rng.randint(2**31), verbose=verbose)
    L = folds[0].L.joined(folds[1].L)
    losses, errors = _losses(L, names)
    evidence = -L.weight * np.array([losses[name] for name in names])
    prior = pseudo_rows(names, evidence, L.weight, simple or names[:1], rows.n_columns)
    weights, linear = chosen_weights(folds, names, L, None, losses, combine, prior, smoothing)
    if first:  # those that were left out have losses on the sample only
        of_first = weighed(first, "best", smoothing, simple)
        losses, errors = of_first.losses | losses, of_first.errors | errors
    return Weighed(dict.fromkeys(losses, 0.0) | weights, losses, errors, linear)


def _sample(
    candidates: Candidates, rows: Any, smoothing: float, rng: Any, *, verbose: bool
) -> list[Fold]:
    """A fold of gathered rows; none if nothing can be fitted, as to rows of a single class."""
    some = rows.in_memory(or_some=True)
    order = rng.permutation(some.n_rows)
    test, train = np.split(order, [int(TEST_SHARE * some.n_rows)])
    split = Split(train, test)
    if not hold_two_classes(some.y, [split]):
        return []
    fold = fit_and_test(candidates, some, split, smoothing, "Sample" if verbose else "")
    return [fold] if fold.L else []


def _halves(
    candidates: Mapping[str, Any], rows: Any, smoothing: float, seed: int, *, verbose: bool
) -> tuple[list[Fold], list[str]]:
    """Candidates that can be fitted to both halves, with log-probabilities for the other."""
    halves = [rows.part(k, 2, seed) for k in range(2)]
    what = [f"Half {k + 1} of 2" if verbose else "" for k in range(2)]
    fits = [fit_all(candidates, *pair) for pair in zip(halves, what, strict=True)]
    out = failed(fits, candidates)
    names = [name for name in candidates if name not in out]
    folds = []
    for fitted, test in zip(fits, reversed(halves), strict=True):
        L = log_rows(test, [fitted.fitted[name] for name in names], smoothing)
        folds.append(Fold(fitted, test, L))
    return folds, names


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
