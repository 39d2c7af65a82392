"""How often intervals cover the truth, and tests reject, in data whose truth is known.

Logits of three classes are drawn as ``make_logits`` does, with a temperature that makes the model
calibrated (1) or over-confident. The true calibration error of the bins is that of a million rows
with their true probabilities in place of labels. Run::

    python benchmarks/simulate_uncertainty.py [--simulations 400] [--resamples 199]
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.special import softmax

from skcalib.datasets import make_logits
from skcalib.metrics import (
    calibration_error_interval,
    calibration_test,
    compare_calibration,
    debiased_expected_calibration_error,
    debiased_root_mean_squared_calibration_error,
    expected_calibration_error,
    root_mean_squared_calibration_error,
)

TEMPERATURES = [1.0, 1.2, 2.0]
N_ROWS = [300, 1000, 5000]
N_BINS = 15


def sample(n: int, temperature: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    logits, y = make_logits(n, 3, temperature=temperature, random_state=seed)
    return y, softmax(logits, axis=1)


def truth(temperature: float, power: int) -> float:
    """Mean of the gaps of the bins to this power, from true probabilities."""
    logits, _, proba = make_logits(
        1_000_000, 3, temperature=temperature, return_proba=True, random_state=0
    )
    P = softmax(logits, axis=1)
    best, score = P.argmax(axis=1), P.max(axis=1)
    bins = np.minimum((np.ceil(score * N_BINS) - 1).astype(int), N_BINS - 1)
    gap = np.bincount(bins, score - proba[np.arange(len(P)), best], N_BINS) / len(P)
    share = np.bincount(bins, minlength=N_BINS) / len(P)
    filled = share > 0
    return float(np.sum(share[filled] * np.abs(gap[filled] / share[filled]) ** power))


def of_size(n: int, temperature: float, simulations: int, resamples: int) -> list[float]:
    error, covered, rejected, different = truth(temperature, 1), [], [], []
    args = {"n_bins": N_BINS, "n_resamples": resamples, "random_state": 0}
    for seed in range(simulations):
        y, P = sample(n, temperature, seed)
        for method in ("auto", "basic", "percentile"):
            interval = calibration_error_interval(y, P, method=method, **args)
            covered.append(interval.low <= error <= interval.high)
        rejected.append(calibration_test(y, P, **args).pvalue <= 0.05)
        # Two models with the same true error: noise of the logits in opposite directions.
        noise = np.random.default_rng(seed).normal(scale=0.5, size=P.shape)
        one, other = (softmax(np.log(P) + sign * noise, axis=1) for sign in (1, -1))
        different.append(compare_calibration(y, one, other, **args).pvalue <= 0.05)
    by_method = np.reshape(covered, (-1, 3)).mean(axis=0)
    return [error, *by_method, float(np.mean(rejected)), float(np.mean(different))]


def biases(n: int, temperature: float, simulations: int) -> list[float]:
    """Mean of each estimate less the truth; squares for the quadratic ones."""
    linear, square = truth(temperature, 1), truth(temperature, 2)
    errors = []
    for seed in range(simulations):
        y, P = sample(n, temperature, seed)
        errors.append(
            [
                expected_calibration_error(y, P) - linear,
                debiased_expected_calibration_error(y, P) - linear,
                root_mean_squared_calibration_error(y, P) ** 2 - square,
                debiased_root_mean_squared_calibration_error(y, P) ** 2 - square,
            ]
        )
    return list(np.mean(errors, axis=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--simulations", type=int, default=400)
    parser.add_argument("--resamples", type=int, default=199)
    args = parser.parse_args()
    print("share of simulations: basic and percentile interval (95 %) cover the true ECE; the test")
    print("rejects at 5 %; two models with the same error are told apart at 5 %")
    print(f"{'rows':>6}{'T':>6}{'ECE':>9}{'basic':>9}{'percent.':>9}{'test':>9}{'two':>9}")
    for n in N_ROWS:
        for T in TEMPERATURES:
            error, *shares = of_size(n, T, args.simulations, args.resamples)
            print(f"{n:6}{T:6}{error:9.4f}" + "".join(f"{x:9.3f}" for x in shares), flush=True)
    print("bias of ECE, debiased ECE, squared RMSCE, squared debiased RMSCE")
    for n in N_ROWS:
        for T in TEMPERATURES:
            values = biases(n, T, args.simulations)
            print(f"{n:6}{T:6}" + "".join(f"{x:10.5f}" for x in values), flush=True)


if __name__ == "__main__":
    main()
