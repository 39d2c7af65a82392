"""Cross-validation of more rows than are gathered: two halves, on the workers of Dask.

Each half of the rows, at random, is fitted to and evaluated on the other one, where it is: weights
come from all rows, out of fold, and the client receives sums over rows. A half has so many rows
that more of them, or more folds, would change nothing; two folds cost one fit to all rows.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from skcalib._splits import Split, hold_two_classes

from . import _stacking as stacking

# Share of the gathered rows that candidates are tested on, and left out of the halves.
TEST_SHARE = 0.2


def weighed_in_halves(
    candidates: stacking.Candidates,
    rows: Any,
    combine: str,
    smoothing: float,
    random_state: Any,
    *,
    simple: Sequence[str],
    verbose: bool,
) -> stacking.Weighed:
    """What the halves say of the candidates.

    If there are ``simple`` ones, a sample of the rows says first which ones are left out.
    """
    rng = check_random_state(0 if random_state is None else random_state)
    first = _sample(candidates, rows, smoothing, rng, verbose=verbose) if simple else None
    if first is not None:
        candidates = stacking.promising(candidates, first, "a sample" if verbose else "")
    seed = rng.randint(2**31)
    halves = [rows.part(k, 2, seed) for k in range(2)]
    what = [f"Half {k + 1} of 2" if verbose else "" for k in range(2)]
    fits = [stacking.fit_all(candidates, *pair) for pair in zip(halves, what, strict=True)]
    out = stacking.failed(fits, candidates)
    names = [name for name in candidates if name not in out]
    folds = []
    for fitted, test in zip(fits, reversed(halves), strict=True):
        L = stacking.log_rows(test, [fitted.fitted[name] for name in names], smoothing)
        folds.append(stacking.Fold(fitted, test, L))
    return stacking.weighed(folds, names, combine, smoothing, simple, first)


def _sample(
    candidates: stacking.Candidates, rows: Any, smoothing: float, rng: Any, *, verbose: bool
) -> stacking.Fold | None:
    """A fold of gathered rows; None if nothing can be fitted, as to rows of a single class."""
    some = rows.in_memory(or_some=True)
    order = rng.permutation(some.n_rows)
    test, train = np.split(order, [int(TEST_SHARE * some.n_rows)])
    split = Split(train, test)
    if not hold_two_classes(some.y, [split]):
        return None
    fold = stacking.fit_and_test(candidates, some, split, "Sample" if verbose else "", smoothing)
    return fold if fold.L else None
