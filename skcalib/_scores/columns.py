"""Columns of scores and events, computed block by block from labels and probabilities.

One-vs-rest calibrators and all measures use such columns, one per class or one for the top label.
They are reduced either to sums over the rows, or to the ranked scores with the weight and the hits
of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from skcalib._engine.ranking import Ranked
from skcalib._engine.rows import PLAIN, Plan, Rows
from skcalib._typing import Bools, Floats

T = TypeVar("T")


class Scored(NamedTuple):
    """Scores of rows and indicators of their events: arrays of shape (n,)."""

    label: Any  #: the class of the scores, or None
    score: Floats
    event: Bools
    weight: Floats | None


@dataclass(frozen=True)
class Columns:
    """Scores and events of rows, one column for each of the labels.

    ``of_block`` returns the scores and events, both of shape (m, n_columns), of a block of rows
    with probabilities or logits (m, ...) and labels (m,).
    """

    labels: list[Any]  #: the class of each column, or None
    of_block: Callable[..., tuple[Floats, Bools]]
    rows: Rows

    def sums(
        self, f: Callable[[Floats, Bools, Floats | None], Floats], plan: Plan = PLAIN
    ) -> Floats:
        """Sum over the blocks of rows of ``f(scores, events, weights)``."""
        return self.rows.sum(partial(_of_scores, f, self.of_block), plan)

    def ranked(self, then: Callable[[Ranked], T], *, events: bool = True) -> list[T]:
        """``then`` applied to the ranked scores of each column, with the events or without."""
        return self.rows.ranked(self.of_block, len(self.labels), then, events=events)

    def each(self) -> Iterator[Scored]:
        """Scores and events of all rows, column by column, in memory."""
        rows = self.rows.in_memory()
        S, E = rows.map(lambda P, y, _: self.of_block(P, y))
        for k, label in enumerate(self.labels):
            score = np.ascontiguousarray(S[:, k], dtype=np.float64)
            yield Scored(label, score, E[:, k], rows.w)


def _of_scores(
    f: Callable[..., Floats], of_block: Any, P: Floats, y: Any, w: Floats | None
) -> Floats:
    return f(*of_block(P, y), w)
