"""Worst regret of calibrators in a stream, beside its bound, over kinds of rows and draws.

Each row is predicted before its label is known, with the labels of all rows before it. The regret
is the total log loss less that of the best candidate, sequence of candidates, or sigmoid. Run::

    python benchmarks/simulate_stream.py [--rows 1000] [--draws 5]
"""

from __future__ import annotations

import argparse

import numpy as np
from results import simple_table
from scipy.optimize import minimize
from scipy.special import expit

from skcalib import AutoCalibrator, PlattScaling
from skcalib._optimize.online import newton_steps, updated_weights
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


def loss(z: np.ndarray, y: np.ndarray) -> float:
    return float(np.logaddexp(0, np.where(y > 0, -z, z)).sum())


def of_sigmoid(m: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Regret against the best sigmoid within the bounds, and its bound from the data."""
    first = PlattScaling().partial_fit(m[:1], y[:1], classes=[0, 1])
    theta, information, z, half = np.array([[1.0, 0.0]]), np.zeros((1, 2, 2)), np.zeros(len(y)), 0.0
    for i in range(len(y)):
        x = np.append(m[i], 1.0)
        z[i] = theta[0] @ x
        theta, information = newton_steps(
            theta, information, first.bounds_, m[i : i + 1], y[i : i + 1, None], None
        )
        inverse = np.linalg.inv(np.eye(2) + information[0])
        half += (expit(z[i]) - y[i]) ** 2 * (x @ inverse @ x) / 2
    found = minimize(
        lambda t: loss(t[0] * m[:, 0] + t[1], y), [0.5, 0.0], bounds=list(first.bounds_[:, 0].T)
    )
    return loss(z, y) - found.fun, half + ((found.x - [1, 0]) ** 2).sum() / 2


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
        sigmoid = max(of_sigmoid(*draw) for draw in draws)
        one, two = np.max([of_candidates(*draw, seed) for seed, draw in enumerate(draws)], axis=0)
        figures = one, np.log(E), two, switch, *sigmoid
        lines.append([kind, *(f"{figure:.1f}" for figure in figures)])
    print(
        simple_table(["rows", "candidate", "bound", "halves", "bound", "sigmoid", "bound"], lines)
    )


if __name__ == "__main__":
    main()
