"""Log loss of calibrators of groups, less that of the calibrator of all rows, in simulated data.

The logarithms of the temperatures of groups have a standard deviation of ``spread``. Run::

    python benchmarks/simulate_groups.py [--rows 3000] [--classes 2] [--draws 5]
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from sklearn.metrics import log_loss

from skcalib import GroupCalibrator
from skcalib.datasets import make_logits

SHRINKAGES = {"chosen": "cv", "100": 100, "alone": 0}


def rows(temperatures: np.ndarray, n_rows: int, n_classes: int, seed: int) -> tuple:
    """Logits, labels and groups, with as many rows in each group."""
    groups = np.repeat(np.arange(len(temperatures)), n_rows)
    Z, y = make_logits(len(groups), n_classes, temperature=1.0, random_state=seed)
    return Z * temperatures[groups][:, None], y, groups


def differences(spread: float, per_group: int, n_rows: int, n_classes: int, seed: int) -> list:
    """Log loss on 300 new rows of each group, by shrinkage, less that of the pooled calibrator."""
    rng = np.random.default_rng(seed)
    temperatures = np.exp(spread * rng.normal(size=max(n_rows // per_group, 10)))
    Z, y, groups = rows(temperatures, per_group, n_classes, 2 * seed)
    new, labels, of_new = rows(temperatures, 300, n_classes, 2 * seed + 1)
    found = []
    for shrinkage in SHRINKAGES.values():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of separable groups
            calibrator = GroupCalibrator(shrinkage=shrinkage).fit(Z, y, groups=groups)
        pooled = calibrator.pooled_calibrator_.predict_proba(new)
        own = calibrator.predict_proba(new, groups=of_new)
        found.append(log_loss(labels, own) - log_loss(labels, pooled))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=3000, help="calibration rows in all")
    parser.add_argument("--classes", type=int, default=2)
    parser.add_argument("--draws", type=int, default=5)
    args = parser.parse_args()
    print(f"{'spread':>8}{'rows':>6}" + "".join(f"{name:>10}" for name in SHRINKAGES) + "   worst")
    for spread in (0, 0.2, 0.5):
        for per_group in (10, 30, 100, 300):
            found = np.array(
                [
                    differences(spread, per_group, args.rows, args.classes, seed)
                    for seed in range(args.draws)
                ]
            )
            means = "".join(f"{mean:>+10.4f}" for mean in found.mean(axis=0))
            print(f"{spread:>8}{per_group:>6}{means}{found[:, 0].max():>+8.4f}", flush=True)


if __name__ == "__main__":
    main()
