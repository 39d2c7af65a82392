"""Groups that have bet already, by hashes that are equal in every process."""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcalib._typing import Array, Bools

Hashes = NDArray[np.uint64]

# Upper bound for the number of groups in the memory, at 8 bytes each.
MAX_GROUPS = 1_000_000


class NewGroups(NamedTuple):
    """Groups of a batch that have not bet before."""

    rows: Bools  #: (n,), whether the group of the row is new and has room in the memory
    hashes: Hashes  #: sorted hashes of these groups
    n_new: int  #: number of new groups, with or without room
    n_groups: int  #: number of groups of the batch


def new_groups(groups: Array, memory: Hashes) -> NewGroups:
    """Find the groups (n,) of a batch that are not in a sorted memory (n_stored,)."""
    names, number = np.unique(groups, return_inverse=True)
    hashes = stable_hashes(names)
    index = np.minimum(memory.searchsorted(hashes), max(len(memory) - 1, 0))
    is_new = memory[index] != hashes if len(memory) else np.ones(len(hashes), bool)
    n_new, room = int(is_new.sum()), MAX_GROUPS - len(memory)
    is_new[np.flatnonzero(is_new)[room:]] = False
    return NewGroups(is_new[number], np.sort(hashes[is_new]), n_new, len(hashes))


def stable_hashes(names: Array) -> Hashes:
    """Return hashes of 64 bits, equal for equal numbers with different types, and their text."""
    if names.dtype.kind == "M":
        names = np.datetime_as_string(names.astype("datetime64[ns]"))
    texts = (
        str(int(name) if isinstance(name, float) and name.is_integer() else name)
        for name in names.tolist()
    )
    digests = b"".join(
        blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest() for text in texts
    )
    return np.frombuffer(digests, "<u8").astype(np.uint64)
