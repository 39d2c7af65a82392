"""Peak memory of fits, predictions and measures, as multiples of the size of the input.

Each figure is from a separate process: the peak of its resident memory less that after loading the
input. Linux only. A figure takes one to fifteen seconds, and is printed as soon as it is known.
Run::

    python benchmarks/memory.py [--sizes 200000x10 50000x100 5000x1000]
"""

from __future__ import annotations

import argparse
import json
import pickle
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from scipy.special import softmax

import skcalib
from skcalib import metrics
from skcalib.datasets import make_logits

SIZES = ["200000x10", "50000x100", "5000x1000"]
MIB = 1 << 20
CALIBRATORS = {
    "temperature": skcalib.TemperatureScaling,
    "vector": skcalib.VectorScaling,
    "matrix": skcalib.MatrixScaling,
    "Platt": skcalib.PlattScaling,
    "histogram": skcalib.HistogramBinning,
    "isotonic": skcalib.IsotonicCalibration,
    "BBQ": skcalib.BBQ,
}
DRAWS = {"n_resamples": 20, "random_state": 0}
MEASURES = {
    "ECE": metrics.expected_calibration_error,
    "ECE, equal weight": partial(metrics.expected_calibration_error, strategy="quantile"),
    "ECE, class-wise": partial(metrics.expected_calibration_error, kind="classwise"),
    "debiased RMSCE": metrics.debiased_root_mean_squared_calibration_error,
    "smooth ECE": metrics.smooth_calibration_error,
    "decomposition": metrics.score_decomposition,
    "interval, 20 resamples": partial(metrics.calibration_error_interval, **DRAWS),
    "test, 20 simulations": partial(metrics.calibration_test, **DRAWS),
}


def status(field: str) -> int:
    """Bytes of a field of /proc/self/status; unlike ru_maxrss not inherited from the parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field + ":"))


def task_of(kind: str, name: str, folder: Path) -> Callable[[np.ndarray, np.ndarray], object]:
    """The task to measure, as a function of logits or probabilities and labels."""
    if kind == "measure":
        return lambda P, y: MEASURES[name](y, P, labels=range(P.shape[1]))
    if name == "softmax":
        return lambda Z, _: softmax(Z, axis=1)
    if kind == "fit":
        return lambda Z, y: CALIBRATORS[name](classes=range(Z.shape[1])).fit(Z, y)
    fitted = pickle.loads((folder / f"{name}.pickle").read_bytes())
    return lambda Z, _: fitted.predict_proba(Z)


def warm_up(kind: str, name: str) -> None:
    """Run lazy imports and other initialization, whose memory is not that of the task."""
    Z, y = make_logits(300, 3, dtype=np.float32, random_state=0)
    if kind == "measure":
        task_of(kind, name, Path())(softmax(Z, axis=1), y)
    elif name != "softmax":
        CALIBRATORS[name]().fit(Z, y).predict_proba(Z)


def peak(kind: str, name: str, folder: Path) -> dict[str, float]:
    """Peak memory of a task, in a separate process."""
    warm_up(kind, name)
    task = task_of(kind, name, folder)
    X = np.load(folder / ("P.npy" if kind == "measure" else "Z.npy"))
    y = np.load(folder / "y.npy")
    before = status("VmRSS")
    hidden = status("VmHWM") - before  # an earlier peak, which hides lower ones
    result = task(X, y)
    above = status("VmHWM") - before
    if kind == "fit":
        (folder / f"{name}.pickle").write_bytes(pickle.dumps(result))
    return {"above": above, "hidden": hidden, "input": X.nbytes}


def in_a_process(*task: object) -> dict:
    command = [sys.executable, __file__, "--task", json.dumps(task)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def write(size: str, folder: Path) -> int:
    """Write logits and labels to files, in a separate process since a child inherits the peak."""
    n, K = map(int, size.split("x"))
    offset = np.random.default_rng(0).normal(scale=0.5, size=K)
    Z = np.lib.format.open_memmap(folder / "Z.npy", "w+", dtype=np.float32, shape=(n, K))
    P = np.lib.format.open_memmap(folder / "P.npy", "w+", dtype=np.float32, shape=(n, K))
    y = np.empty(n, np.intp)
    for i, low in enumerate(range(0, n, 50_000)):
        rows = slice(low, min(low + 50_000, n))
        Z[rows], y[rows] = make_logits(
            rows.stop - low,
            K,
            temperature=2.0,
            offset=offset,
            dtype=np.float32,
            random_state=i,
        )
        P[rows] = softmax(Z[rows], axis=1)
    np.save(folder / "y.npy", y)
    return n * K * 4


def multiples(sizes: list[str]) -> None:
    tasks = [(kind, name) for kind in ("fit", "predict") for name in CALIBRATORS]
    tasks += [("predict", "softmax"), *(("measure", name) for name in MEASURES)]
    print("peak memory less that after loading the input, MiB, and as a multiple of the input")
    print(f"{'':31}" + "".join(f"{size:>16}" for size in sizes), flush=True)
    with tempfile.TemporaryDirectory() as top:
        folders = [f"{top}/{size}" for size in sizes]
        for size, folder in zip(sizes, folders, strict=True):
            Path(folder).mkdir()
            in_a_process("write", size, folder)
        for task in tasks:
            print(f"{' '.join(task):31}", end="", flush=True)
            for folder in folders:
                found = in_a_process("peak", *task, folder)
                above, small = found["above"], found["above"] <= found["hidden"]
                cell = f"{'<' * small}{above / MIB:.0f} ({above / found['input']:.2f})"
                print(f"{cell:>16}", end="", flush=True)
            print()


def run_task(task: str, *args: object) -> object:
    warnings.simplefilter("ignore")
    if task == "write":
        return write(args[0], Path(args[1]))
    return peak(args[0], args[1], Path(args[2]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--sizes", nargs="*", default=SIZES, metavar="ROWSxCOLUMNS")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.task:
        print(json.dumps(run_task(*json.loads(args.task))))
        return
    multiples(args.sizes)


if __name__ == "__main__":
    main()
