"""Log loss and calibration error of classifiers of several labels, before and after calibration.

Rows have 14 labels with base rates from 2 to 75 per cent, which depend on each other, as in data
of genes or topics. scikit-learn's ``CalibratedClassifierCV`` is wrapped in ``OneVsRestClassifier``.
Times are those of the fit, in seconds of CPU. Run::

    python benchmarks/simulate_labels.py [--rows 1500] [--draws 3] [--speed]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB

from skcalib import CalibratedClassifier, MultiLabelCalibrator
from skcalib.metrics import expected_calibration_error, score_decomposition

CLASSIFIERS = {
    "naive Bayes": GaussianNB(),
    "logistic regression": LogisticRegression(C=100, max_iter=500),
}
METHODS: dict[str, Callable[[Any], Any]] = {
    "uncalibrated": OneVsRestClassifier,
    "CalibratedClassifier": lambda base: CalibratedClassifier(OneVsRestClassifier(base)),
    "sigmoid": lambda base: OneVsRestClassifier(
        CalibratedClassifierCV(base, method="sigmoid", ensemble=False)
    ),
    "isotonic": lambda base: OneVsRestClassifier(
        CalibratedClassifierCV(base, method="isotonic", ensemble=False)
    ),
}


def genes(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels with the same hidden causes."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(n, 8))
    offsets = logit(np.geomspace(0.02, 0.75, 14))
    Y = rng.uniform(size=(n, 14)) < expit(offsets + hidden @ rng.normal(scale=0.6, size=(8, 14)))
    return hidden @ rng.normal(size=(8, 60)) + rng.normal(size=(n, 60)), Y.astype(int)


def topics(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Counts of words in texts about some of 12 topics."""
    X, Y = make_multilabel_classification(
        n, n_features=60, n_classes=12, n_labels=3, length=40, random_state=seed
    )
    return X, Y


def figures(make: Any, name: str, n_rows: int, seed: int) -> list[tuple[float, float, float]]:
    """Mean log loss, mean ECE over the labels, and seconds of each method."""
    X, Y = make(n_rows + 4000, seed)
    found = []
    for method in METHODS.values():
        classifier = method(clone(CLASSIFIERS[name]))
        start = time.process_time()
        P = classifier.fit(X[:n_rows], Y[:n_rows]).predict_proba(X[n_rows:])
        seconds = time.process_time() - start
        loss = score_decomposition(Y[n_rows:], P, kind="multilabel").score.mean()
        error = expected_calibration_error(Y[n_rows:], P, kind="multilabel")
        found.append((loss, error, seconds))
    return found


def speed(n_rows: int = 10_000, n_labels: int = 1000) -> None:
    rng = np.random.default_rng(0)
    Z = rng.normal(-2, 2, (n_rows, n_labels))
    Y = rng.uniform(size=Z.shape) < expit(Z / 2)
    for n_jobs in (None, 2):
        start = time.perf_counter()
        calibrator = MultiLabelCalibrator(n_jobs=n_jobs).fit(Z, Y)
        print(f"{n_labels} labels, {n_rows} rows, {n_jobs=}: {time.perf_counter() - start:.2f} s")
    for n in (n_rows, 1):
        start = time.perf_counter()
        calibrator.predict_proba(Z[:n])
        print(f"predict_proba of {n} rows: {time.perf_counter() - start:.3f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=1500, help="rows to fit to")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--speed", action="store_true", help="times of many labels only")
    args = parser.parse_args()
    if args.speed:
        speed()
        return
    warnings.simplefilter("ignore")
    print(f"{'':32}" + "".join(f"{name:>26}" for name in METHODS))
    for make in (genes, topics):
        for name in CLASSIFIERS:
            draws = [figures(make, name, args.rows, seed) for seed in range(args.draws)]
            means = np.mean(draws, axis=0)
            cells = "".join(f"{a:>12.4f}{b:>8.4f}{s:>6.1f}" for a, b, s in means)
            print(f"{make.__name__:8}{name:24}{cells}", flush=True)


if __name__ == "__main__":
    main()
