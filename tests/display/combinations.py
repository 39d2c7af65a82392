"""Products of parameters, and parts of them that are quicker."""

from itertools import product

import pytest


def pairs(first, second, *others):
    """All combinations of the first two, with the values of the others in turn."""
    chosen = product(enumerate(first), enumerate(second))
    return [(a, b, *(of[(i + j) % len(of)] for of in others)) for (i, a), (j, b) in chosen]


def slow(*combinations):
    """Combinations for the slow tests alone."""
    return [pytest.param(*values, marks=pytest.mark.slow) for values in combinations]


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
