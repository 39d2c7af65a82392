"""Worst regret of calibrators in a stream, beside its bound, over kinds of rows and draws.

Each row is predicted before its label is known, with the labels of all rows before it. The regret
is the total log loss minus the loss of the best candidate or sequence of candidates. Run::

    python benchmarks/simulate_stream.py [--rows 1000] [--draws 5]
"""

from __future__ import annotations

import argparse

import numpy as np
from results import simple_table

from skcalib import AutoCalibrator
from skcalib._optimize.online import updated_weights
from skcalib.datasets import make_logits

# Share of the weight that is spread, and the kinds of rows: margins and events of two classes.
FORGET = 0.01
KINDS = ["as before", "sorted", "alternating", "reversed in the middle", "all wrong", "all equal"]


def rows_of(kind: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    logits, y = make_logits(n, 2, temperature=2.0, random_state=seed)
    m, half = logits[:, 1] - logits[:, 0], np.arange(n) < n / 2
    order = np.argsort(y, kind="stable") if kind == "sorted" else slice(None)
    events = {
        "alternating": np.arange(n) % 2,
        "reversed in the middle": np.where(half, y, 1 - y),
        "all wrong": m < 0,
        "all equal": np.ones(n),
    }
    return m[order, None], events.get(kind, y).astype(int)[order]


def of_candidates(m: np.ndarray, y: np.ndarray, seed: int) -> tuple[float, float]:
    """Regret against the best candidate, and with ``FORGET`` against the best of each half."""
    c = AutoCalibrator().partial_fit(*rows_of("as before", 300, seed + 1000))
    P = np.stack([part.predict_proba(m)[np.arange(len(y)), y] for part in c.components_], axis=1)
    P = (1 - c.smoothing_) * P + c.smoothing_ / 2
    L = np.log(P)
    totals = np.zeros(2)
    for k, share in enumerate((0.0, FORGET)):
        weights = c.expert_weights_
        for row in P:
            totals[k] -= np.log(weights @ row)
            weights = updated_weights(weights, row[None], None, share)
    halves = L[: len(y) // 2].sum(axis=0).max() + L[len(y) // 2 :].sum(axis=0).max()
    return totals[0] + L.sum(axis=0).max(), totals[1] + halves


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=5)
    args = parser.parse_args()
    E = len(AutoCalibrator().partial_fit(*rows_of("as before", 300, 0)).expert_weights_)
    switch = np.log(E * E / FORGET) - (args.rows - 2) * np.log1p(FORGET / E - FORGET)
    lines = []
    for kind in KINDS:
        draws = [rows_of(kind, args.rows, seed) for seed in range(args.draws)]
        one, two = np.max([of_candidates(*draw, seed) for seed, draw in enumerate(draws)], axis=0)
        figures = one, np.log(E), two, switch
        lines.append([kind, *(f"{figure:.1f}" for figure in figures)])
    print(simple_table(["rows", "candidate", "bound", "halves", "bound"], lines))


if __name__ == "__main__":
    main()
