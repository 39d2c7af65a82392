"""Log loss of calibration given features, less that without, in simulated data.

Features are five columns of noise, three of numbers and two of categories, or segments whose
temperatures and offsets differ: the logarithms of temperatures, and the offsets, have a standard
deviation of ``spread``. Run::

    python benchmarks/simulate_features.py [--rows 500 2000 6000] [--classes 2 4 10] [--draws 20]
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.metrics import log_loss

from skcalib.conditional import ConditionalCalibrator
from skcalib.datasets import make_logits

N_TEST, N_SEGMENTS = 20_000, 30


def noise(rng: np.random.Generator, n_rows: int) -> tuple[np.ndarray, list[int]]:
    """Five columns of noise, and which of them hold categories."""
    numbers, categories = rng.normal(size=(n_rows, 3)), rng.integers([5, 30], size=(n_rows, 2))
    return np.column_stack([numbers, categories]), [3, 4]


def kinds(Z: np.ndarray) -> dict[str, np.ndarray]:
    """Logits that are miscalibrated in different ways."""
    bent = Z.copy()
    bent[Z.argmax(axis=1) == 0] *= 2
    return {"calibrated": Z, "over-confident": 3 * Z, "under-confident": 0.5 * Z, "bent": bent}


def difference(Z: np.ndarray, y: np.ndarray, F: np.ndarray, columns: list, n: int) -> list[float]:
    """Log loss with features less that without, on rows from n on; and seconds of the fit."""
    calibrator = ConditionalCalibrator(categorical_features=columns)
    start = time.perf_counter()
    calibrator.fit(Z[:n], y[:n], features=F[:n])
    seconds = time.perf_counter() - start
    given = calibrator.predict_proba(Z[n:], features=F[n:])
    without = calibrator.predict_proba(Z[n:])
    return [log_loss(y[n:], given) - log_loss(y[n:], without), seconds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[500, 2000, 6000])
    parser.add_argument("--classes", type=int, nargs="+", default=[2, 4, 10])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--spread", type=float, nargs="*", default=[0.0, 0.2, 0.5])
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # features that are better than the logits
    print(f"{'rows':>6}{'classes':>8}  {'features':18}{'mean':>9}{'largest':>9}{'seconds':>9}")
    for n in args.rows:
        for n_classes in args.classes:
            found: dict[str, list] = {}
            for seed in range(args.draws):
                rng = np.random.default_rng(seed)
                Z, y = make_logits(n + N_TEST, n_classes, temperature=1.0, random_state=seed)
                F, columns = noise(rng, len(y))
                for kind, of_kind in kinds(Z).items():
                    out = difference(of_kind, y, F, columns, n)
                    found.setdefault(f"noise, {kind}", []).append(out)
                segment = rng.integers(N_SEGMENTS, size=len(y))
                for spread in args.spread:
                    T = np.exp(spread * rng.normal(size=N_SEGMENTS))
                    c = spread * rng.normal(size=(N_SEGMENTS, n_classes))
                    out = difference(Z * T[segment, None] + c[segment], y, segment, [0], n)
                    found.setdefault(f"segments, {spread}", []).append(out)
            for name, values in found.items():
                (mean, seconds), largest = np.mean(values, axis=0), np.max(values, axis=0)[0]
                print(
                    f"{n:>6}{n_classes:>8}  {name:18}{mean:>+9.5f}{largest:>+9.5f}{seconds:>9.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
