"""Fuzz test: every calibrator and measure with random extreme data.

Extreme scales, ties, constant and repeated columns, missing classes, weights over 16 orders of
magnitude, separable rows and uninformative logits, in both precisions. A call is a fit, all
outputs, and all measures of them. A fit may warn, but not raise; parameters and probabilities must
be finite, and measures satisfy their invariants. Failures are printed with their seed. Run::

    python benchmarks/fuzz.py [--calls 1000] [--seed 0]
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
import warnings

import numpy as np

import skcalib
from skcalib import metrics
from skcalib.datasets import make_logits


def random_logits(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    K = int(random.choice([1, 2, 2, 3, 3, 4, 7, 15, 40]))
    n = int(random.choice([2, 3, 5, 10, 30, 100, 300, 1000]))
    Z, y = make_logits(
        n,
        max(K, 2),
        temperature=random.choice([0.01, 0.5, 1, 3, 100]),
        spread=random.choice([0.01, 1, 3, 30]),
        offset=random.normal(scale=random.choice([0, 1, 10]), size=max(K, 2)),
        random_state=int(random.integers(1 << 30)),
    )
    return (Z if K > 1 else Z[:, 1:] - Z[:, :1]), y


def set_column(Z: np.ndarray, k: int, values: np.ndarray | float) -> np.ndarray:
    Z = Z.copy()
    Z[:, k] = values
    return Z


# Distortions of logits and of labels.
OF_LOGITS = [
    lambda Z, _: Z,
    lambda Z, random: Z * 10.0 ** random.uniform(-8, 4),
    lambda Z, _: np.round(Z),
    lambda Z, random: set_column(Z, random.integers(Z.shape[1]), random.normal()),
    lambda Z, random: set_column(Z, 0, Z[:, random.integers(Z.shape[1])]),
    lambda Z, _: np.repeat(Z[:1], len(Z), axis=0),
    lambda Z, random: Z + random.normal(scale=10.0 ** random.uniform(0, 4), size=(len(Z), 1)),
    lambda Z, random: Z * 10.0 ** random.uniform(-6, 6, size=Z.shape[1]),
    lambda Z, random: set_column(Z, -1, Z[:, -1] - 10.0 ** random.uniform(0, 6)),
]
OF_LABELS = [
    lambda y, _, __: y,
    lambda y, _, __: y,
    lambda _, Z, __: Z.argmax(axis=1) if Z.shape[1] > 1 else (Z[:, 0] > 0).astype(int),
    lambda _, Z, __: Z.argmin(axis=1) if Z.shape[1] > 1 else (Z[:, 0] < 0).astype(int),
    lambda y, Z, random: random.integers(max(Z.shape[1], 2), size=len(y)),
]


def distorted(
    Z: np.ndarray, y: np.ndarray, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    y = OF_LABELS[random.integers(len(OF_LABELS))](y, Z, random)
    y[:2] = [0, 1]  # at least two classes
    return OF_LOGITS[random.integers(len(OF_LOGITS))](Z, random), y


def random_calibrator(random: np.random.Generator, n_classes: int) -> skcalib.BBQ:
    forms = [
        skcalib.TemperatureScaling(),
        skcalib.VectorScaling(
            alpha=random.choice([0, 1e-3, 1, 1e6]),
            normalize=bool(random.integers(2)),
            fit_intercept=bool(random.integers(2)),
        ),
        skcalib.MatrixScaling(
            alpha=random.choice([0, 1e-3, 1, 1e6]), normalize=bool(random.integers(2))
        ),
        skcalib.PlattScaling(smooth_targets=bool(random.integers(2))),
        skcalib.HistogramBinning(
            n_bins=int(random.integers(1, 200)),
            strategy=str(random.choice(["uniform", "quantile"])),
            smoothing=float(random.choice([0, 1])),
        ),
        skcalib.IsotonicCalibration(
            interpolation=str(random.choice(["constant", "linear", "centered"])),
            smoothing=float(random.choice([0, 1])),
        ),
        skcalib.VennAbersCalibration(
            merge=str(random.choice(["log_loss", "brier"])),
            multi_class=str(random.choice(["ovr", "ovo"])),
        ),
        skcalib.BBQ(bin_range=(1, 50) if random.integers(2) else None),
    ]
    return forms[random.integers(len(forms))].set_params(classes=range(n_classes))


def check(seed: int) -> None:
    random = np.random.default_rng(seed)
    Z, y = distorted(*random_logits(random), random)
    Z = Z.astype(random.choice([np.float32, np.float64]))
    w = 10.0 ** random.uniform(-8, 8, size=len(y)) if seed % 3 == 0 else None
    calibrator = random_calibrator(random, max(Z.shape[1], 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)
        calibrator.fit(Z, y, sample_weight=w)
        P = calibrator.predict_proba(Z)
        logs = calibrator.predict_log_proba(Z)
    for name, value in vars(calibrator).items():
        for part in value if isinstance(value, list) else [value]:
            if name.endswith("_") and np.asarray(part).dtype.kind == "f":
                assert np.isfinite(part).all(), f"{name} is not finite"
    assert np.isfinite(P).all(), "probabilities are not finite"
    assert ((P >= 0) & (P <= 1 + 1e-6)).all(), "a probability is not between 0 and 1"
    assert np.isfinite(logs).all(), "log-probabilities are not finite"
    assert np.allclose(P.sum(axis=1), 1, atol=1e-4), "probabilities do not sum to one"
    check_measures(y, P, w, random)


def check_measures(
    y: np.ndarray, P: np.ndarray, w: np.ndarray | None, random: np.random.Generator
) -> None:
    given = {
        "kind": str(random.choice(["top-label", "classwise"])),
        "sample_weight": w,
        "labels": range(P.shape[1]),
    }
    bins = {
        "n_bins": int(random.integers(1, 100)),
        "strategy": str(random.choice(["uniform", "quantile"])),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values = {
            name: getattr(metrics, name)(y, P, **given, **({} if "smooth" in name else bins))
            for name in metrics.__all__
            if name.endswith("_error")
        }
        parts = metrics.score_decomposition(y, P, **given)
    for name, value in values.items():
        assert 0 <= value <= 1 + 1e-6, f"{name} is {value}"
    ordered = [values[f"{name}_calibration_error"] for name in ("expected", "root_mean_squared")]
    assert ordered[0] <= ordered[1] + 1e-9, "the ECE is larger than the RMSCE"
    total = parts.miscalibration - parts.discrimination + parts.uncertainty
    assert np.allclose(total, parts.score, atol=1e-9), "the components do not add up to the score"
    least = np.min([parts.miscalibration, parts.discrimination])
    assert least > -1e-9, f"a component is negative: {least}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    started, failures = time.monotonic(), 0
    for seed in range(args.seed, args.seed + args.calls):
        try:
            check(seed)
        except Exception:
            failures += 1
            print(f"seed {seed}:", traceback.format_exc(limit=-2), flush=True)
    print(f"{args.calls} calls, {failures} failures, {time.monotonic() - started:.0f} seconds")
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
