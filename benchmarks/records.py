"""Calibration of recorded network outputs: temperature and measures, before and after.

A record is a .npz file with class probabilities ``predictions`` (n, K) and labels
``ground_truth`` (n,). The calibrator is fitted on the first half of the rows and judged on the
second. The temperature is compared with a brute-force minimum of the log loss. Run::

    python benchmarks/records.py --records DIRECTORY
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.metrics import accuracy_score, log_loss

from skcalib import TemperatureScaling, VectorScaling
from skcalib.metrics import expected_calibration_error, maximum_calibration_error


def brute_force(Z: np.ndarray, y: np.ndarray) -> float:
    """Temperature by search over the values of the literal log loss."""

    def loss(T: float) -> float:
        return -log_softmax(Z / T, axis=1)[np.arange(len(y)), y].mean()

    options = {"xatol": 1e-12}
    return float(minimize_scalar(loss, bounds=(0.1, 10), method="bounded", options=options).x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--records", type=Path, required=True, metavar="DIRECTORY")
    args = parser.parse_args()
    columns = ("ECE-15", "MCE", "log loss", "accuracy")
    for file in sorted(args.records.glob("*.npz")):
        with np.load(file) as record:
            P, y = record["predictions"], record["ground_truth"].ravel()
        half = len(y) // 2
        Z = np.log(P.astype(np.float64))
        calibrator = TemperatureScaling().fit(Z[:half], y[:half])
        single = TemperatureScaling().fit(np.log(P[:half]), y[:half])
        T, brute = calibrator.temperature_, brute_force(Z[:half], y[:half])
        print(f"{file.stem}: {half} rows to fit, {len(y) - half} to judge, {P.shape[1]} classes")
        print(f"    T = {T:.10f}, by brute force {brute:.10f}, relative {T / brute - 1:+.1e}")
        print(f"    from float32 logits {single.temperature_:.10f}")
        print(" " * 18, *(f"{c:>10}" for c in columns))
        for name, proba in {
            "uncalibrated": softmax(Z[half:], axis=1),
            "temperature": calibrator.predict_proba(Z[half:]),
            "vector": VectorScaling().fit(Z[:half], y[:half]).predict_proba(Z[half:]),
            "vector, plain": VectorScaling(alpha=0).fit(Z[:half], y[:half]).predict_proba(Z[half:]),
        }.items():
            values = (
                expected_calibration_error(y[half:], proba),
                maximum_calibration_error(y[half:], proba),
                log_loss(y[half:], proba),
                accuracy_score(y[half:], proba.argmax(axis=1)),
            )
            print(f"    {name:14}", *(f"{v:10.7f}" for v in values))


if __name__ == "__main__":
    main()
