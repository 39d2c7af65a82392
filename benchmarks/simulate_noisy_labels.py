"""Labels of which some are wrong: log loss by the true classes, of four temperatures.

They are fitted to the noisy labels, given their noise matrix, with an estimated matrix, and to the
true labels. Noise goes evenly to all other classes, or from each class to the next. Run::

    python benchmarks/simulate_noisy_labels.py [--draws 20] [--rows 500 2000 20000]
        [--classes 2 3 10] [--wrong 0.05 0.2 0.4]
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np
from sklearn.metrics import log_loss

from skcalib import TemperatureScaling
from skcalib.datasets import make_logits
from skcalib.experimental import NoisyLabelCalibration

N_TEST = 5000


def losses(n_rows: int, n_classes: int, wrong: float, kind: str, seed: int) -> list[float]:
    """Log losses of a draw: noisy labels, matrix given, matrix estimated, true labels."""
    one = np.eye(n_classes)
    others = np.roll(one, 1, axis=1) if kind == "to the next" else (1 - one) / (n_classes - 1)
    Q = (1 - wrong) * one + wrong * others
    Z, y = make_logits(n_rows + N_TEST, n_classes, random_state=seed)
    u = np.random.default_rng(seed).random((n_rows, 1))
    noisy = (u > np.cumsum(Q, axis=1)[y[:n_rows]]).sum(axis=1)
    fits = [
        TemperatureScaling(classes=range(n_classes)).fit(Z[:n_rows], noisy),
        NoisyLabelCalibration(noise_matrix=Q, classes=range(n_classes)).fit(Z[:n_rows], noisy),
        NoisyLabelCalibration(classes=range(n_classes)).fit(Z[:n_rows], noisy),
        TemperatureScaling(classes=range(n_classes)).fit(Z[:n_rows], y[:n_rows]),
    ]
    labels = list(range(n_classes))
    return [log_loss(y[n_rows:], c.predict_proba(Z[n_rows:]), labels=labels) for c in fits]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--rows", type=int, nargs="+", default=[500, 2000, 20_000])
    parser.add_argument("--classes", type=int, nargs="+", default=[2, 3, 10])
    parser.add_argument("--wrong", type=float, nargs="+", default=[0.05, 0.2, 0.4])
    args = parser.parse_args()
    print("classes   rows  wrong  noise        noisy   given  estimated   true  worse than noisy")
    for case in itertools.product(args.classes, args.rows, args.wrong, ["even", "to the next"]):
        n_classes, n_rows, wrong, kind = case
        if n_classes == 2 and kind != "even":  # which is the same
            continue
        found = np.array([losses(n_rows, *case[:1], wrong, kind, s) for s in range(args.draws)])
        worse = np.mean(found[:, 2] > found[:, 0])
        means = "  ".join(f"{mean:6.4f}" for mean in found.mean(axis=0))
        print(f"{n_classes:7} {n_rows:6} {wrong:6} {kind:12} {means}  {worse:5.0%}", flush=True)


if __name__ == "__main__":
    main()
