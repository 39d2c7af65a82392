"""Time of the expected calibration error, as a multiple of simple passes over its input.

Run::

    python benchmarks/bench_measures.py
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.special import softmax
from timing import medians

from skcalib.datasets import make_logits
from skcalib.metrics import (
    calibration_error_interval,
    calibration_test,
    expected_calibration_error,
    score_decomposition,
    smooth_calibration_error,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()

    logits, y = make_logits(1_000_000, 10, dtype=np.float32, random_state=0)
    P = softmax(logits, axis=1)
    seconds = medians(
        {
            "max and argmax of each row": lambda: (P.max(axis=1), P.argmax(axis=1)),
            "top-label ECE, equal width": lambda: expected_calibration_error(y, P),
            "top-label ECE, equal weight": lambda: expected_calibration_error(
                y, P, strategy="quantile"
            ),
            "class-wise ECE": lambda: expected_calibration_error(y, P, kind="classwise"),
        },
        args.repeat,
    )
    report("1 000 000 x 10, float32", seconds)

    random = np.random.default_rng(0)
    p = random.uniform(size=10_000_000)
    hit = (random.uniform(size=len(p)) < p).astype(int)
    seconds = medians(
        {
            "np.sort of the scores": lambda: np.sort(p),
            "binary ECE, equal width": lambda: expected_calibration_error(hit, p, kind="binary"),
            "binary ECE, equal weight": lambda: expected_calibration_error(
                hit, p, kind="binary", strategy="quantile"
            ),
        },
        args.repeat,
    )
    report("10 000 000 binary scores, float64", seconds)
    seconds = medians(
        {
            "binary ECE": lambda: expected_calibration_error(hit[:100_000], p[:100_000]),
            "smooth ECE": lambda: smooth_calibration_error(hit[:100_000], p[:100_000]),
            "decomposition": lambda: score_decomposition(hit[:100_000], p[:100_000]),
            "interval, 1000 resamples": lambda: calibration_error_interval(
                hit[:100_000], p[:100_000], n_resamples=1000, random_state=0
            ),
            "test, 1000 simulations": lambda: calibration_test(
                hit[:100_000], p[:100_000], n_resamples=1000, random_state=0
            ),
        },
        args.repeat,
    )
    report("100 000 binary scores, float64", seconds)


def report(title: str, seconds: dict[str, float]) -> None:
    unit = next(iter(seconds.values()))
    print(title)
    for name, t in seconds.items():
        print(f"    {name:28} {t:8.4f} s {t / unit:6.2f} x")


if __name__ == "__main__":
    main()
