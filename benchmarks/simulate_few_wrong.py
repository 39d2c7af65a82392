"""Coverage of intervals of the ECE where hardly a row is misclassified.

A number of misclassified rows is expected, among rows whose confidence is always 0.9999, or among
those of 0.99999 where they are 80 % of the rows and the others are spread over 0.6 to 0.95 and
calibrated. Run::

    OMP_NUM_THREADS=1 python benchmarks/simulate_few_wrong.py [--draws 200]
"""

import argparse

import numpy as np

from skcalib.metrics import calibration_error_interval

N_BINS, SURE = 15, 0.999


def sample(random, n, n_wrong, *, spread):
    """Confidences and the true accuracies of the rows."""
    confidence = np.full(n, 0.9999)
    if spread:
        confidence = np.where(np.arange(n) < 0.8 * n, 0.99999, random.uniform(0.6, 0.95, n))
    return confidence, np.where(confidence > SURE, 1 - n_wrong / n, confidence)


def coverage(n, n_wrong, n_draws, *, spread):
    """Fractions of the intervals that hold the true error, and that lie below and above it."""
    random, found = np.random.default_rng(0), []
    for seed in range(n_draws):
        confidence, accuracy = sample(random, n, n_wrong, spread=spread)
        y = random.uniform(size=n) < accuracy
        interval = calibration_error_interval(
            y, np.c_[1 - confidence, confidence], labels=[False, True], n_resamples=199,
            n_bins=N_BINS, random_state=seed,
        )  # fmt: skip
        bins = np.minimum((confidence * N_BINS).astype(int), N_BINS - 1)
        error = np.abs(np.bincount(bins, confidence - accuracy)).sum() / n
        found.append((interval.high < error - 1e-12, interval.low > error + 1e-12))
    below, above = np.mean(found, axis=0)
    return 1 - below - above, below, above


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--draws", type=int, default=200)
    args = parser.parse_args()
    print(f"{'rows':>6}{'wrong':>7}{'confidence':>12}{'covered':>9}{'below':>7}{'above':>7}")
    for n in (100, 500, 2000):
        for n_wrong in (0.5, 1, 2, 3):
            for spread in (False, True):
                values = coverage(n, n_wrong, args.draws, spread=spread)
                name = "spread" if spread else "0.9999"
                shares = "{:9.3f}{:7.3f}{:7.3f}".format(*values)
                print(f"{n:6}{n_wrong:7}{name:>12}{shares}", flush=True)
