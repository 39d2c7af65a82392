"""Time to fit a temperature, or slopes and offsets, as a multiple of one softmax pass.

Next to temperature scaling, in the same process, scikit-learn's own (1.8 and newer), called
directly, without the meta-estimator around it. Run::

    python benchmarks/bench_scaling.py
"""

from __future__ import annotations

import argparse
import warnings
from functools import partial

import numpy as np
from scipy.special import softmax
from timing import medians

from skcalib import TemperatureScaling, VectorScaling
from skcalib.datasets import make_logits

SIZES = [(25_000, 1000), (50_000, 100), (1_000_000, 10), (5000, 100), (1000, 10)]


def fits() -> dict:
    """Fits by name: functions of logits and labels."""
    found = {
        "TemperatureScaling": lambda Z, y: TemperatureScaling().fit(Z, y).temperature_,
        "VectorScaling": lambda Z, y: VectorScaling().fit(Z, y).loss_,
    }
    try:
        from sklearn.calibration import _TemperatureScaling
    except ImportError:
        return found
    return found | {"scikit-learn": lambda Z, y: 1 / float(_TemperatureScaling().fit(Z, y).beta_)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for n, K in SIZES:
        offset = np.random.default_rng(0).normal(scale=0.5, size=K)
        Z, y = make_logits(n, K, temperature=2.0, offset=offset, dtype=np.float32, random_state=0)
        print(f"{n} x {K}, float32")
        for name, fit in fits().items():
            # One library at a time: what one leaves in the allocator slows the softmax pass.
            tasks = {"softmax": partial(softmax, Z, axis=1), name: partial(fit, Z, y)}
            unit, t = medians(tasks, args.repeat).values()
            what = "loss" if name == "VectorScaling" else "T"
            print(f"    {name:20} {t:8.4f} s / {unit:8.4f} s = {t / unit:6.2f}", end="   ")
            print(f"{what} = {fit(Z, y):.8f}")


if __name__ == "__main__":
    main()
