"""How exported models of all calibrators differ from these, and what they cost.

The first table has the largest differences of probabilities on new rows, and on the calibration
rows, ties, extremes and masked classes among them, with the number of rows beyond the tolerance,
for 2, 10 and 100 classes; JSON has to give the same probabilities. The second one has sizes, and
times of one row. Needs onnx and onnxruntime. Run::

    OMP_NUM_THREADS=1 python benchmarks/export_table.py [--rows 100000] [--only VectorScaling BBQ]
        [--differences FILE] [--costs FILE]
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from results import simple_table
from timing import least

import skcalib
import skcalib.export
from skcalib._base import BaseCalibrator
from skcalib.datasets import make_logits
from skcalib.export import from_json, to_json, to_onnx

PRECISIONS = [(2, "float32"), (10, "float32"), (100, "float32"), (100, "float64")]
COSTLY = [10, 1000]
# With this number of classes or more fits end early, and those with folds or trees are left out.
MANY = 1000
EARLY = {"alpha": 1.0, "max_iter": 3}
TOLERANCE = {"float32": 1e-5, "float64": 1e-6}


def calibrators(only: list[str]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Names of all calibrators, and these."""
    of_labels = skcalib.MultiLabelCalibrator
    public = {
        name: getattr(module, name)
        for module in (skcalib, skcalib.conditional, skcalib.experimental)
        for name in module.__all__
    }
    for name in only or public:
        kind = public[name]
        if isinstance(kind, type) and issubclass(kind, BaseCalibrator | of_labels):
            yield name, kind


def fitted(kind: Callable[[], Any], Z: np.ndarray, y: np.ndarray) -> Any:
    calibrator = kind()
    is_of_labels = isinstance(calibrator, skcalib.MultiLabelCalibrator)
    return calibrator.fit(Z, np.eye(Z.shape[1])[y] if is_of_labels else y)


def logits(n: int, K: int) -> tuple[np.ndarray, np.ndarray]:
    return make_logits(n, K, temperature=2.0, random_state=0)


def new_rows(calibrator: Any, Z: np.ndarray, n: int) -> np.ndarray:
    """Rows of many scales, the calibration rows, ties, extremes and, if it can, masked classes."""
    rng = np.random.default_rng(1)
    K = Z.shape[1]
    scaled = rng.normal(size=(n, K)) * rng.choice([0.1, 1.0, 3.0, 30.0], size=(n, 1))
    parts = [scaled, Z, np.round(Z), 1e4 * Z, 1e30 * Z, np.zeros((1, K))]
    mask = rng.random(Z.shape) < 0.3
    masked = np.where(mask & ~mask.all(axis=1, keepdims=True), -np.inf, Z)
    try:
        calibrator.predict_proba(masked)
        parts.append(masked)
    except ValueError:
        pass
    return np.concatenate(parts).astype(Z.dtype)


def session(calibrator: Any, dtype: str) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    content = to_onnx(calibrator, dtype=dtype).SerializeToString()
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def by_onnx(calibrator: Any, X: np.ndarray) -> np.ndarray:
    found: np.ndarray = session(calibrator, X.dtype.name).run(None, {"X": X})[0]
    return found


def differences(only: list[str], n: int) -> str:
    lines = []
    for name, kind in calibrators(only):
        lines.append([name])
        for K, dtype in PRECISIONS:
            S, y = logits(2000, K)
            Z = S.astype(dtype)
            calibrator = fitted(kind, Z, y)
            X = new_rows(calibrator, Z, n * 10 // max(K, 10))
            P = calibrator.predict_proba(X)
            lines[-1].append(shown(by_onnx(calibrator, X), P))
            np.testing.assert_array_equal(from_json(to_json(calibrator)).predict_proba(X), P)
        print(lines[-1], flush=True)
    return simple_table(["method", *(f"{K}, {dtype}" for K, dtype in PRECISIONS)], lines)


def shown(found: np.ndarray, P: np.ndarray) -> str:
    """The largest difference of probabilities, with the number of rows beyond the tolerance."""
    wrong = np.abs(found - P).max(axis=1)
    beyond = np.count_nonzero(~(wrong <= TOLERANCE[P.dtype.name]))
    return f"{wrong.max():.0e}" + (f" ({beyond})" if beyond else "")


def costs(only: list[str]) -> str:
    lines = []
    for name, kind in calibrators(only):
        line = [name]
        for K in COSTLY:
            line += cost(kind, K)
        lines.append(line)
        print(line, flush=True)
    header = [f"{K}: {what}" for K in COSTLY for what in ("kB", "us")]
    return simple_table(["method", *header], lines)


def cost(kind: Callable[[], Any], K: int) -> list[str]:
    """Kilobytes of the model, and microseconds for one row."""
    if K >= MANY:
        known = kind().get_params()
        if known.keys() & {"cv", "estimator"}:
            return ["-"] * 2
        kind = partial(kind, **{name: EARLY[name] for name in EARLY if name in known})
    Z, y = logits(max(2000, 3 * K), K)
    calibrator = fitted(kind, Z.astype(np.float32), y)
    size = len(to_onnx(calibrator).SerializeToString())
    model, x = session(calibrator, "float32"), Z[:1].astype(np.float32)
    row = least({"row": lambda: model.run(None, {"X": x})}, 100, 5)["row"]
    return [f"{size / 1e3:.0f}", f"{1e6 * row:.0f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--rows", type=int, default=100_000, help="new rows, fewer for more than 10 classes")
    add("--only", nargs="+", default=[], metavar="NAME", help="these calibrators")
    add("--differences", type=Path, metavar="FILE", help="the first table for the documentation")
    add("--costs", type=Path, metavar="FILE", help="the second one")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for path, table in (
        (args.differences, lambda: differences(args.only, args.rows)),
        (args.costs, lambda: costs(args.only)),
    ):
        text = table()
        print(f"\n{text}")
        if path:
            path.write_text(text)


if __name__ == "__main__":
    main()
