"""Columns of scores and events, made block by block from rows of labels and probabilities.

What looks at one class against all others, or at the top label, looks at such columns: the
per-class family, and every measure. They are reduced either to sums over the rows, or to the order
of the scores with what lies at each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from skcalib._engine.memory import Rows, is_far, map_columns, map_rows, reduce_whole, sum_rows
from skcalib._engine.ranking import Ranked, merged, ranked, summary
from skcalib._typing import Bools, Floats

T = TypeVar("T")

# Scores that are far away are told apart on so many cells, of all columns together: what comes of
# a chunk then takes up to 25 MB.
CELLS = 1 << 20

# So many scores are stored at a time, by columns: with more of them there are more passes.
AT_A_TIME = 1 << 25


class Scored(NamedTuple):
    """Scores of rows and whether their events happened: arrays of shape (n,)."""

    label: Any  #: the class that they are about, or None
    score: Floats
    event: Bools
    weight: Floats | None


@dataclass(frozen=True)
class Columns:
    """Scores and events of rows, one column for each of the labels.

    ``of_block`` makes scores and events, both of shape (m, n_columns), of a block of rows: of
    their labels (m,) and their probabilities or logits (m, ...).
    """

    labels: list[Any]  #: the class that each column is about, or None
    of_block: Callable[..., tuple[Floats, Bools]]
    y: Rows
    P: Rows
    w: Rows

    def sums(
        self, f: Callable[[Floats, Bools, Floats | None], Floats], *, at_least: int = 1
    ) -> Floats:
        """Sum over the rows of ``f(scores, events, weights)`` of blocks of them."""
        block = partial(_of_scores, f, self.of_block)
        return sum_rows(block, self.y, self.P, self.w, at_least=at_least)

    def ranked(self, then: Callable[[Ranked], T], *, events: bool = True) -> list[T]:
        """``then`` of the ranked scores of each column, with the events or without.

        Those of Dask collections are told apart up to :data:`CELLS`, see :func:`summary`.
        """
        if is_far(self.y):
            n_cells = CELLS // len(self.labels)
            of_chunk = partial(_summaries, self.of_block, n_cells)
            far = reduce_whole(partial(_merged, n_cells), of_chunk, self.y, self.P, self.w)
            return map_columns(lambda k: then(far[k]), len(far), len(far[0].scores))
        found: list[T] = []
        while len(found) < len(self.labels):
            some = slice(len(found), len(found) + max(1, AT_A_TIME // len(self.y)))
            found += self._ranked_in_memory(then, some, events=events)
        return found

    def _ranked_in_memory(
        self, then: Callable[[Ranked], T], some: slice, *, events: bool
    ) -> list[T]:
        S, E = _stored(self.of_block, self.y, self.P, some)

        def of_column(k: int) -> T:
            return then(ranked(S[k], E[k] if events else None, self.w))

        return map_columns(of_column, *S.shape)

    def each(self) -> Iterator[Scored]:
        """Scores and events of all rows, column by column."""
        S, E = map_rows(self.of_block, self.y, self.P)
        for k, label in enumerate(self.labels):
            score = np.ascontiguousarray(S[:, k], dtype=np.float64)
            yield Scored(label, score, E[:, k], self.w)


def _of_scores(
    f: Callable[..., Floats], of_block: Any, y: Any, P: Floats, w: Floats | None
) -> Floats:
    return f(*of_block(y, P), w)


def _stored(of_block: Any, y: Any, P: Floats, some: slice = slice(None)) -> tuple[Floats, Bools]:
    """Scores and events of all rows, for some of the columns: (n_columns, n)."""

    def of_some(y: Any, P: Floats) -> tuple[Floats, Bools]:
        S, E = of_block(y, P)
        return S[:, some], E[:, some]

    S, E = map_rows(of_some, y, P, order="F")
    return S.T, E.T


def _summaries(of_block: Any, n_cells: int, y: Any, P: Floats, w: Floats | None) -> list[Ranked]:
    S, E = _stored(of_block, y, P)
    return [summary(s, e, w, n_cells) for s, e in zip(S, E, strict=True)]


def _merged(n_cells: int, chunks: list[list[Ranked]]) -> list[Ranked]:
    return [merged(list(column), n_cells) for column in zip(*chunks, strict=True)]
