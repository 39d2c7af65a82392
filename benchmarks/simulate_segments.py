"""Level and power of the test of ``multicalibration_error``, in simulated data.

Scores are skewed to small ones, as of a rare event. For the power the log-odds of the events of one
segment are shifted. Run::

    python benchmarks/simulate_segments.py [--samples 300] [--rows 300 3000]
        [--shifts 0 0.5 1]
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.special import expit

from skcalib.conditional import multicalibration_error

# Columns, and categories of each.
SEGMENTS = {2: (1, 2), 20: (2, 10), 200: (20, 10)}


def rejections(n_rows: int, shape: tuple[int, int], shift: float, n_samples: int) -> np.ndarray:
    """Whether each sample is rejected at 5 %, and whether its worst segment is the shifted one."""
    columns, levels = shape
    found = np.zeros((n_samples, 2), bool)
    for seed in range(n_samples):
        rng = np.random.default_rng(seed)
        features = rng.integers(levels, size=(n_rows, columns))
        z = rng.normal(-1.5, 1.5, size=n_rows)
        y = rng.uniform(size=n_rows) < expit(z + shift * (features[:, 0] == 1))
        result = multicalibration_error(
            y, expit(z), features, categorical_features=range(columns), n_resamples=99,
            random_state=seed, labels=[False, True],
        )  # fmt: skip
        rejected = result.pvalue <= 0.05
        found[seed] = rejected, rejected and result.segment[0] == "0 = 1"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 3000])
    parser.add_argument("--shifts", type=float, nargs="+", default=[0, 0.5, 1])
    args = parser.parse_args()
    print("rejected in % (of these with the shifted segment as the worst)")
    print(f"{'rows':>8}{'segments':>10}" + "".join(f"{f'shift {s}':>14}" for s in args.shifts))
    for n_rows in args.rows:
        for n_segments, shape in SEGMENTS.items():
            line = f"{n_rows:>8}{n_segments:>10}"
            for shift in args.shifts:
                rejected, named = rejections(n_rows, shape, shift, args.samples).mean(axis=0)
                line += f"{100 * rejected:>8.1f} ({100 * named:>3.0f})" if shift else (
                    f"{100 * rejected:>14.1f}"
                )  # fmt: skip
            print(line, flush=True)


if __name__ == "__main__":
    main()
