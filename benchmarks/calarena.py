"""skcalib in CalArena, a benchmark of calibrators (Berta et al. 2026, arXiv:2605.30188).

CalArena runs any object with ``fit(p_cal, y_cal)`` and ``predict_proba(p)``. To run every
calibrator of skcalib in it, with this folder on the ``PYTHONPATH``, write into its
``custom_calibrators.py``::

    from calarena import entries

    CUSTOM_CALIBRATORS = entries()

and for one with other parameters ``{"my name": lambda: Adapter(MatrixScaling(alpha=1.0))}``. As a
command this module runs every calibrator on one of its experiments, recorded as ``records.py``
says, and writes the figures beside those that are published, from a csv file with a line for each
method: ``method,brier,log_loss,ece_15,accuracy,seconds``. Run::

    OMP_NUM_THREADS=1 python benchmarks/calarena.py RECORD.npz PUBLISHED.csv [--rst FILE]
        [--methods AutoCalibrator '.*Scaling']
"""

from __future__ import annotations

import argparse
import csv
import re
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from methods import calibrators
from peers import probabilities
from records import Part, logits_of, read
from results import UNCALIBRATED, simple_table
from sklearn.base import clone
from sklearn.metrics import accuracy_score

from skcalib._base import BaseCalibrator
from skcalib.metrics import expected_calibration_error

BASE = "Base-model"
HEADER = ["method", "figures of", "Brier", "log loss", "ECE", "accuracy", "seconds"]
# A unit of the last digit that is published: CalArena adds in single precision, which changes the
# ECE of ten thousand rows by half of one.
DIGITS = 1e-5


class Adapter:
    """A calibrator of skcalib that is given probabilities, as CalArena does.

    They are those of all classes, (n, K), or of the second of two, (n,) or (n, 1), and in single
    precision those below its smallest number count as that. Labels are column numbers, and need
    not contain every class. ``predict_proba`` returns the probabilities of all classes, (n, K).
    """

    def __init__(self, calibrator: BaseCalibrator) -> None:
        self.calibrator = calibrator

    def fit(self, p_cal: np.ndarray, y_cal: np.ndarray) -> Self:
        Z = logits_of(p_cal)
        classes = list(range(max(Z.shape[1], 2)))
        self.calibrator_ = clone(self.calibrator).set_params(classes=classes)
        self.calibrator_.fit(Z, np.ravel(y_cal))
        return self

    def predict_proba(self, p: np.ndarray) -> np.ndarray:
        return self.calibrator_.predict_proba(logits_of(p))


def entries() -> dict[str, Callable[[], Adapter]]:
    """Every calibrator of skcalib with its defaults, for CalArena's ``CUSTOM_CALIBRATORS``."""
    return {
        f"skcalib-{name}": lambda make=make: Adapter(make()) for name, make in calibrators().items()
    }


class Figures(NamedTuple):
    """What CalArena measures on test rows, in the order of its results."""

    brier: float
    log_loss: float
    ece_15: float
    accuracy: float
    seconds: float = 0.0


def figures(P: np.ndarray, y: np.ndarray) -> Figures:
    """Measures as CalArena defines them.

    The Brier score is not halved for two classes. The log loss is that of logarithms which are
    clipped at that of the smallest number of single precision, -87.3. The ECE of 15 bins is that
    of the top label, or of the second of two classes.
    """
    K, rows = P.shape[1], np.arange(len(y))
    log_p = np.log(np.maximum(P, np.finfo(np.float32).tiny).astype(np.float64))
    kind = "binary" if K == 2 else "top-label"
    return Figures(
        float(((P - np.eye(K)[y]) ** 2).sum(axis=1).mean()),
        float(-log_p[rows, y].mean()),
        expected_calibration_error(y, P, labels=range(K), kind=kind),
        accuracy_score(y, P.argmax(axis=1)),
    )


def run(make: Callable[[], Adapter], fit: Part, test: Part) -> Figures:
    """Figures on the test rows; the seconds are those to fit and to predict."""
    start = time.perf_counter()
    P = make().fit(*fit).predict_proba(test[0])
    seconds = time.perf_counter() - start
    return figures(P, test[1])._replace(seconds=seconds)


def published(file: Path) -> dict[str, Figures]:
    with file.open() as lines:
        rows = list(csv.DictReader(lines))
    return {r["method"]: Figures(*(float(r[name]) for name in Figures._fields)) for r in rows}


def check(uncalibrated: Figures, base: Figures) -> None:
    """Whether the measures, and the rows, are those of what is published."""
    if not np.allclose(uncalibrated[:4], base[:4], rtol=0, atol=DIGITS):
        raise ValueError(
            f"The uncalibrated probabilities must have the figures of {BASE}, {base[:4]}, "
            f"got {uncalibrated[:4]}: these are other rows."
        )


def table(ours: dict[str, Figures], theirs: dict[str, Figures]) -> str:
    """All methods by their log loss."""
    found = [(name, "skcalib", f) for name, f in ours.items()]
    found += [(name, "CalArena", f) for name, f in theirs.items()]
    lines = [
        [name, of, *(f"{v:.5f}" for v in f[:3]), f"{f.accuracy:.4f}", f"{f.seconds:.3f}"]
        for name, of, f in sorted(found, key=lambda each: each[2].log_loss)
    ]
    return simple_table(HEADER, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("record", type=Path, metavar="RECORD.npz")
    parser.add_argument("published", type=Path, metavar="PUBLISHED.csv")
    parser.add_argument("--methods", nargs="+", default=[".*"], metavar="REGEX")
    parser.add_argument("--rst", type=Path, metavar="FILE", help="the table, for the documentation")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    # CalArena keeps probabilities in single precision.
    fit, test = ((probabilities(Z.astype(np.float32)), y) for Z, y in read(args.record))
    theirs = published(args.published)
    ours = {UNCALIBRATED: figures(*test)}
    check(ours[UNCALIBRATED], theirs[BASE])
    for name, make in calibrators().items():
        if any(re.fullmatch(pattern, name) for pattern in args.methods):
            ours[name] = run(lambda make=make: Adapter(make()), fit, test)
            print(name, *(f"{v:.5f}" for v in ours[name]), flush=True)
    text = table(ours, theirs)
    print(text)
    if args.rst:
        args.rst.write_text(text)


if __name__ == "__main__":
    main()
