"""Calibration given a category of few levels, in simulated data of three sources.

The logits of the sources have slopes and offsets that differ much, little or not at all. The output
has the mean excess over the log loss of the true probabilities, for ``ConditionalCalibrator`` given
the source, and for a ``PlattScaling`` for each source. Run::

    python benchmarks/simulate_sources.py [--samples 20] [--rows 300 1500]
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.special import expit, rel_entr

from skcalib import PlattScaling
from skcalib.conditional import ConditionalCalibrator

NEW_ROWS = 4000
# Slopes and offsets that turn the true log-odds into the logits of each source.
SOURCES = {
    "differ much": ([0.3, 0.8, 2.0], [2.5, 0.0, 0.0]),
    "differ little": ([1.2, 1.0, 0.8], [0.3, 0.0, -0.3]),
    "are equal": ([1.5, 1.5, 1.5], [0.0, 0.0, 0.0]),
}


def excesses(kind: str, n_rows: int, seed: int) -> list[float]:
    """Excess of the log loss for new rows, given the source and for each source by itself."""
    rng = np.random.default_rng(seed)
    true = rng.normal(0.5, 1.2, n_rows + NEW_ROWS)
    source = rng.choice(3, len(true), p=[0.5, 0.3, 0.2])
    y = (rng.random(len(true)) < expit(true)).astype(int)
    slopes, offsets = map(np.array, SOURCES[kind])
    Z = (slopes[source] * true + offsets[source])[:, None]
    fit, new, F = slice(n_rows), slice(n_rows, None), source.astype(str).astype(object)[:, None]
    given = ConditionalCalibrator(random_state=0).fit(Z[fit], y[fit], features=F[fit])
    P = [given.predict_proba(Z[new], features=F[new]), np.empty((NEW_ROWS, 2))]
    for s in range(3):
        rows = source[fit] == s
        P[1][source[new] == s] = (
            PlattScaling().fit(Z[fit][rows], y[fit][rows]).predict_proba(Z[new][source[new] == s])
        )
    truth = expit(np.column_stack([-true[new], true[new]]))
    return [rel_entr(truth, Q).sum(axis=1).mean() for Q in P]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 1500])
    args = parser.parse_args()
    print(f"{'sources':<14}{'rows':>6}{'given the source':>18}{'Platt for each':>16}")
    for kind in SOURCES:
        for n_rows in args.rows:
            found = [excesses(kind, n_rows, seed) for seed in range(args.samples)]
            given, each = np.mean(found, axis=0)
            print(f"{kind:<14}{n_rows:>6}{given:>18.4f}{each:>16.4f}", flush=True)


if __name__ == "__main__":
    main()
