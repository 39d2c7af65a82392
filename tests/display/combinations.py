"""Products of parameters of which few combinations are quick."""

from itertools import product

import pytest


def partly_slow(*values):
    """All combinations, of which only a diagonal is quick, in which every value occurs."""
    indices = [range(len(of)) for of in values]
    diagonal = {tuple(k % len(of) for of in values) for k in range(max(map(len, values)))}
    return [
        pytest.param(
            *(of[k] for of, k in zip(values, chosen, strict=True)),
            marks=() if chosen in diagonal else pytest.mark.slow,
        )
        for chosen in product(*indices)
    ]
