"""Partial pooling: a calibrator for each group of rows, mixed with one for all rows.

A group has the probabilities of its own calibrator with the share ``n / (n + s)``, where ``n`` is
the weight of its calibration rows and ``s`` the shrinkage, and otherwise the pooled ones.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from skcalib._nested import fit_to_rows, log_probabilities
from skcalib._optimize.mixture import mixture
from skcalib._rows import Array, Floats, Indices, arrays as xa
from skcalib._rows.rows import MemoryRows
from skcalib._validation.labels import shown
from skcalib._warnings import Messages, ProbabilitiesWarning, give, recorded


def members(group: Indices) -> Iterator[tuple[int, Indices]]:
    """The number of each group that has rows, and the numbers of its rows."""
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    starts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    for low, high in pairwise([0, *starts.tolist(), len(group)]):
        yield int(ordered[low]), order[low:high]


class Fitted(NamedTuple):
    """The calibrator of all rows, those of the groups, and what the groups weigh.

    Groups without rows, or whose rows are all of one class, have the pooled calibrator, and no
    weight.
    """

    pooled: Any
    calibrators: list[Any]
    weight: Floats
    messages: dict[Any, Messages]  #: warnings by the number of the group, or "all rows"

    def shares(self, shrinkage: float) -> Floats:
        """The share of the own calibrator of each group."""
        return self.weight / np.where(self.weight > 0, self.weight + shrinkage, 1)


def fit_groups(calibrator: Any, rows: MemoryRows, n_groups: int, pooled: Any = None) -> Fitted:
    """Copies of the calibrator fitted to all rows and to those of each group, 0 to n_groups - 1.

    ``pooled`` replaces the calibrator of all rows.
    """
    with recorded(ProbabilitiesWarning) as messages:
        of_all = fit_to_rows(pooled or calibrator, rows)
    found = Fitted(of_all, [of_all] * n_groups, np.zeros(n_groups), {"all rows": messages})
    for k, numbers in members(rows.groups):
        part = rows.taken(numbers)
        if (part.y[1:] != part.y[:1]).any():
            with recorded(ProbabilitiesWarning) as found.messages[k]:
                found.calibrators[k] = fit_to_rows(calibrator, part)
            found.weight[k] = part.weight
    return found


def warn_of_groups(kind: str, names: Array | range, found: Mapping[Any, Messages]) -> None:
    """Give each warning once, with the names of the groups that it is of."""
    named = ((names[k] if isinstance(k, int) else k, messages) for k, messages in found.items())
    give(named, lambda of_each: f"{kind} {shown(of_each)}")


def log_probabilities_of_groups(
    pooled: Any,
    calibrators: Sequence[Any],
    shares: Floats,
    Z: Floats,
    group: Indices,
    classes: Array,
) -> Floats:
    """Logarithms (m, K) of the mixed probabilities, for checked logits of rows of some groups."""

    def mixed(k: int, Z: Floats, pooled: Floats) -> Floats:
        own = log_probabilities(calibrators[k], Z, classes)
        if shares[k] == 1:
            return own
        parts = xa.namespace(own).stack([own, pooled])
        return mixture(parts, np.array([shares[k], 1 - shares[k]]))

    L = log_probabilities(pooled, Z, classes)
    if not isinstance(L, np.ndarray):  # a graph that is built, for whichever groups
        xp, everywhere = xa.namespace(L), L
        for k in np.flatnonzero(shares).tolist():
            L = xp.where((group == k)[:, None], mixed(k, Z, everywhere), L)
        return L
    for k, some in members(group):
        if shares[k] > 0:
            L[some] = mixed(k, Z[some], L[some])
    return L
