"""False alarms and power of the check for columns in another order than the classes.

Logits are noise, plus a signal of the label, plus a bias of each class. Classes are rare or
frequent, and models may confuse neighbouring classes. The output has the number of warnings for
2500 weak or biased models with columns in the right order, and for 400 better models the share of
warnings after two columns are exchanged, or all columns moved by one.

Run ``python benchmarks/simulate_column_check.py``, which takes 15 seconds.
"""

from __future__ import annotations

import numpy as np

from skcalib._validation.column_order import largest_columns, suspect_columns


def make_model(
    rng: np.random.Generator, *, signals: list[float], biases: list[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Logits and labels of a random model."""
    n_classes = int(rng.choice([2, 3, 4, 6, 10, 30, 100, 300]))
    n_rows = int(rng.choice([50, 200, 1000, 5000]))
    priors = rng.dirichlet(np.full(n_classes, rng.choice([0.3, 1.0, 10.0])))
    y = rng.choice(n_classes, n_rows, p=priors)
    width = rng.choice([0.1, 1.0, 2.0])  # of the confusion of neighbours
    distance = (np.arange(n_classes) - y[:, None]) / width
    bias = rng.choice(biases) * rng.normal(size=n_classes)
    Z = rng.normal(size=(n_rows, n_classes)) + bias
    return Z + rng.choice(signals) * np.exp(-0.5 * distance**2), y


def is_alarm(Z: np.ndarray, y: np.ndarray) -> bool:
    return suspect_columns(y, largest_columns(Z), Z.shape[1]) is not None


def main() -> None:
    rng = np.random.default_rng(0)
    weak = (
        make_model(rng, signals=[0.0, 0.1, 0.3, 1.0], biases=[0.0, 0.5, 1.0, 3.0])
        for _ in range(2500)
    )
    print(f"weak or biased models: {sum(is_alarm(Z, y) for Z, y in weak)} of 2500 warn")
    two = moved = 0
    for _ in range(400):
        Z, y = make_model(rng, signals=[3.0, 5.0], biases=[0.0, 0.5])
        two += is_alarm(Z[:, [1, 0, *range(2, Z.shape[1])]], y)
        moved += is_alarm(np.roll(Z, 1, axis=1), y)
    print(f"better models: {two / 400:.0%} warn with two columns exchanged, ", end="")
    print(f"{moved / 400:.0%} with all columns moved by one")


if __name__ == "__main__":
    main()
