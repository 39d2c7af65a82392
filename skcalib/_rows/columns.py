"""Scores and events of rows, in columns.

Measures and calibrators of single classes use one column per class, or one for the top label. It is
computed block by block from logits or probabilities and labels, and reduced either to sums over the
rows, or to ranked scores with their weights and hits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from skcalib._typing import Bools, Floats

from .ranking import Ranked, are_single, distinct_scores
from .rows import Rows, map_blocks

T = TypeVar("T")


class Scored(NamedTuple):
    """Scores of rows and indicators of their events: arrays of shape (n,)."""

    label: Any  #: the class of the scores, or None
    score: Floats
    event: Bools
    weight: Floats | None


@dataclass(frozen=True)
class ScoreColumns:
    """Scores and events of rows, one column for each of the labels.

    ``score_block`` computes scores and events (m, n_columns) for a block of rows with probabilities
    or logits (m, ...) and labels (m,).
    """

    labels: list[Any]  #: the class of each column, or None
    score_block: Callable[..., tuple[Floats, Bools]]
    rows: Rows
    kind: Any = "binary"  #: name of the score and the event, as in the measures

    def sums(
        self, f: Callable[[Floats, Bools, Floats | None], Floats], at_least: int = 1
    ) -> Floats:
        """Return the sum of ``f(scores, events, weights)`` over blocks of rows."""
        score_block = self.score_block  # not self, which holds the rows
        return self.rows.sum(lambda P, y, w: f(*score_block(P, y), w), at_least=at_least)

    def ranked(self, then: Callable[[Ranked], T], *, events: bool = True) -> list[T]:
        """Apply ``then`` to the ranked scores of each column, with the events or without."""
        rows = self.rows.in_memory()
        S, E = map_blocks(self.score_block, rows.X, rows.y, order="F")
        pairs = zip(S.T, E.T if events else [None] * S.shape[1], strict=True)
        single = isinstance(rows.X, np.ndarray) and are_single(rows.X)
        return [then(distinct_scores(*pair, rows.w, single=single)) for pair in pairs]

    def scored(self) -> Iterator[Scored]:
        """Yield the scores and events of all rows, column by column, in memory."""
        rows = self.rows.in_memory()
        S, E = map_blocks(self.score_block, rows.X, rows.y)
        for k, label in enumerate(self.labels):
            score = np.ascontiguousarray(S[:, k], dtype=np.float64)
            yield Scored(label, score, E[:, k], rows.w)
