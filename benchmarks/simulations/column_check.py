"""Check for columns in another order than the classes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from skcalib._input.column_order import check_column_order
from skcalib._rows import Rows

from . import simulation

ROWS = 100, 300, 1000, 5000


def make_weak_model(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Logits and labels of a weak or biased model of rare and frequent classes."""
    n_classes = int(rng.choice([2, 3, 4, 6, 10, 30, 100, 300]))
    n_rows = int(rng.choice([50, 200, 1000, 5000]))
    priors = rng.dirichlet(np.full(n_classes, rng.choice([0.3, 1.0, 10.0])))
    y = rng.choice(n_classes, n_rows, p=priors)
    width = rng.choice([0.1, 1.0, 2.0])  # of the confusion of neighbours
    signal, bias = rng.choice([0.0, 0.1, 0.3, 1.0]), rng.choice([0.0, 0.5, 1.0, 3.0])
    distance = (np.arange(n_classes) - y[:, None]) / width
    Z = rng.normal(size=(n_rows, n_classes)) + bias * rng.normal(size=n_classes)
    return Z + signal * np.exp(-0.5 * distance**2), y


def is_alarm(Z: np.ndarray, y: np.ndarray) -> bool:
    with warnings.catch_warnings(record=True) as alarms:
        warnings.simplefilter("always")
        check_column_order(Rows(Z, y, classes=np.arange(Z.shape[1])), named=True)
    return bool(alarms)


@simulation
def column_check(models: int = 2500, draws: int = 40) -> Iterator[tuple[Any, ...]]:
    """Warnings of the check for columns in another order than the classes.

    Logits are noise, plus a signal of the label, plus a bias of each class. Classes are rare or
    frequent, and models may confuse neighbouring classes. The first line has the number of warnings
    for weak or biased models with columns in the right order. The others have the shares of better
    models that warn after two columns are exchanged, and after all columns moved by one.
    """
    yield "models", *(f"{n} rows" for n in ROWS)
    rng = np.random.default_rng(0)
    alarms = sum(is_alarm(*make_weak_model(rng)) for _ in range(models))
    yield "weak or biased", f"{alarms} of {models}", *[""] * (len(ROWS) - 1)
    for n_classes in (2, 3, 10, 30, 100):
        shares = []
        for n_rows in ROWS:
            two = moved = 0
            for _ in range(draws):
                y = rng.integers(n_classes, size=n_rows)
                Z = rng.normal(size=(n_rows, n_classes)) + 3 * np.eye(n_classes)[y]
                two += is_alarm(Z[:, [1, 0, *range(2, n_classes)]], y)
                moved += is_alarm(np.roll(Z, 1, axis=1), y)
            shares.append(f"{two / draws:.2f} / {moved / draws:.2f}")
        yield f"{n_classes} classes", *shares
