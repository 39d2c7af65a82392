"""Errors of estimated class priors, coverage of their standard errors, and the test of label shift.

Classes are normal, with known densities; logits are calibrated, or twice as large. The class
frequencies of both populations are drawn from a Dirichlet distribution. New rows are as they were,
or more noisy, which is no label shift. Run::

    python benchmarks/simulate_prior_shift.py [--draws 200]
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

from skcalib import PriorShift

SETTINGS = [(2, 300), (2, 3000), (3, 1000), (10, 1000), (10, 10_000)]
SHARP = 1.5
METHODS = ("em", "bbse")


def rows(n: int, priors: np.ndarray, trained: np.ndarray, noise: float, rng) -> tuple:
    """Logits that are calibrated for the priors ``trained``, and labels."""
    y = rng.choice(len(priors), p=priors, size=n)
    X = noise * rng.normal(size=(n, len(priors)))
    X[np.arange(n), y] += SHARP
    return SHARP * X + np.log(trained), y


def draw(seed: int, n_classes: int, n: int, method: str, *, noise: float, scale: float) -> tuple:
    """The p-value, the mean error of the priors, and the share of those within two errors."""
    rng = np.random.default_rng([seed, n_classes, n])
    before, after = rng.dirichlet(np.full(n_classes, 3.0), size=2)
    Z, y = rows(n, before, before, 1.0, rng)
    Z_new, _ = rows(n, after, before, noise, rng)
    shift = PriorShift(method=method, classes=range(n_classes)).fit(scale * Z, y)
    shift.adapt(scale * Z_new)
    off = shift.priors_ - after
    covered = np.abs(off) < 1.96 * shift.standard_errors_
    return shift.label_shift_pvalue_, np.abs(off).mean(), covered.mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--draws", type=int, default=200)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print("classes  rows  alarms  alarms noise | error and coverage: em, bbse, em x2, bbse x2")
    for n_classes, n in SETTINGS:
        found = {}
        for method in METHODS:
            for noise, scale in ((1.0, 1.0), (1.0, 2.0), (1.3, 1.0)):
                some = [
                    draw(seed, n_classes, n, method, noise=noise, scale=scale)
                    for seed in range(args.draws)
                ]
                found[method, noise, scale] = np.array(some)
        alarms = [np.mean(found["em", noise, 1.0][:, 0] < 0.01) for noise in (1.0, 1.3)]
        columns = [found[m, 1.0, scale][:, 1:].mean(axis=0) for scale in (1, 2) for m in METHODS]
        text = "  ".join(f"{error:.4f} {covered:.1%}" for error, covered in columns)
        print(f"{n_classes:3d} {n:6d}  {alarms[0]:.1%} {alarms[1]:.1%}  {text}", flush=True)


if __name__ == "__main__":
    main()
