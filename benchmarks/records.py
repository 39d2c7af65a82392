"""Records of classifier outputs for the benchmarks, and the measures of what is fitted to them.

A record is a .npz file in one of two formats. With ``predictions`` (class probabilities) and
``ground_truth`` (labels) methods are fitted to the first half of the rows and evaluated on the
second. With ``logits_cal``, ``y_cal``, ``logits_test`` and ``y_test`` the parts are given. Outputs
are (n, K), or (n, 1) for the second of two classes; labels are column numbers. The second may have
features of the rows: ``groups_cal`` and ``groups_test`` (n,), ``features_cal`` and
``features_test`` (n, d). Other records are made from the data sets that come with scikit-learn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from skcalib.metrics import expected_calibration_error

Part = tuple[np.ndarray, np.ndarray]
TINY = np.finfo(np.float64).tiny
# Probabilities of a recorded classifier below this count as this, as those of a forest do.
LEAST = 1e-15
# Names of features, the first of which are categories.
FEATURES = "groups", "features"
DATA = {
    "breast_cancer": load_breast_cancer,
    "wine": load_wine,
    "iris": load_iris,
    "digits": load_digits,
}
CLASSIFIERS: dict[str, Callable] = {
    "logistic": lambda _: make_pipeline(StandardScaler(), LogisticRegression()),
    "forest": lambda seed: RandomForestClassifier(random_state=seed),
    "extratrees": lambda seed: ExtraTreesClassifier(random_state=seed),
    "boosting": lambda seed: HistGradientBoostingClassifier(max_iter=50, random_state=seed),
    "bayes": lambda _: GaussianNB(),
    "mlp": lambda seed: make_pipeline(StandardScaler(), MLPClassifier(random_state=seed)),
    "neighbours": lambda _: make_pipeline(StandardScaler(), KNeighborsClassifier(10)),
}


class Record(NamedTuple):
    """Logits and labels to fit, and to evaluate; of which folder and kind; features of both."""

    folder: str
    name: str
    kind: str
    fit: Part
    test: Part
    features: dict[str, Part]

    @property
    def n_classes(self) -> int:
        return max(self.fit[0].shape[1], 2)


class Measures(NamedTuple):
    """What is measured on test rows; ``zeros`` counts labels with a probability of 0."""

    log_loss: float
    brier: float
    ece: float
    accuracy: float
    zeros: int


def logits_of(P: np.ndarray) -> np.ndarray:
    """Logarithms of the probabilities of all classes, or log-odds of the second of two."""
    P, least = P.reshape(len(P), -1), np.finfo(P.dtype).tiny
    log_p = np.log(np.maximum(P, least).astype(np.float64))
    if P.shape[1] > 1:
        return log_p
    return log_p - np.log(np.maximum(1 - P.astype(np.float64), least))


def read(file: Path) -> tuple[Part, Part]:
    """Logits in double precision and labels, of the rows to fit and of those to evaluate."""
    with np.load(file) as data:
        if "predictions" in data:
            Z, y = logits_of(data["predictions"]), data["ground_truth"].ravel()
            half = len(y) // 2
            return (Z[:half], y[:half]), (Z[half:], y[half:])
        parts = [(data[f"logits_{part}"], data[f"y_{part}"].ravel()) for part in ("cal", "test")]
    fit, test = ((Z.reshape(len(y), -1).astype(np.float64), y) for Z, y in parts)
    return fit, test


def features_of(file: Path) -> dict[str, Part]:
    """Those that the record has, of the rows to fit and of those to evaluate."""
    with np.load(file) as data:
        names = [name for name in FEATURES if f"{name}_cal" in data]
        return {name: (data[f"{name}_cal"], data[f"{name}_test"]) for name in names}


def recorded(folder: Path) -> Iterator[Callable[[], Record]]:
    """Functions that read a record. Its kind is that of the classifier if files are DATA-KIND."""
    files, name = sorted(folder.glob("*.npz")), folder.resolve().name
    named = all(re.search(r"-[a-z_]+$", file.stem) for file in files)
    for file in files:
        kind = file.stem.rpartition("-")[2] if named else name
        yield partial(lambda f, k: Record(name, f.stem, k, *read(f), features_of(f)), file, kind)


def bundled(n_splits: int) -> Iterator[Callable[[], Record]]:
    """Functions that make a record: half of the rows train, a quarter calibrates, one tests."""
    for seed in range(n_splits):
        for name in DATA:
            for kind in CLASSIFIERS:
                yield partial(make_record, name, kind, seed)


def make_record(data: str, kind: str, seed: int) -> Record:
    X, y = DATA[data](return_X_y=True)
    part = partial(train_test_split, test_size=0.5, random_state=seed)
    train, rest, y_train, y_rest = part(X, y, stratify=y)
    fit, test, y_fit, y_test = part(rest, y_rest, stratify=y_rest)
    with threadpool_limits(1):  # threads cost more than they gain on so few rows
        classifier = CLASSIFIERS[kind](seed).fit(train, y_train)
    Z, Z_test = (np.log(np.maximum(classifier.predict_proba(A), LEAST)) for A in (fit, test))
    return Record("bundled", f"{data}-{kind}-{seed}", kind, (Z, y_fit), (Z_test, y_test), {})


def measures(P: np.ndarray, y: np.ndarray) -> Measures:
    """Log loss and Brier score as in scikit-learn, which halves the latter for two classes."""
    K, p = P.shape[1], P[np.arange(len(y)), y]
    if not np.isfinite(P).all():
        raise ValueError(f"{np.sum(~np.isfinite(P).all(axis=1))} rows have no probabilities.")
    P = np.maximum(P.astype(np.float64), TINY)
    P /= P.sum(axis=1, keepdims=True)
    squares = ((P - np.eye(K)[y]) ** 2).sum(axis=1)
    return Measures(
        log_loss(y, P, labels=range(K)),
        float(squares.mean()) / (2 if K == 2 else 1),
        expected_calibration_error(y, P, labels=range(K)),
        accuracy_score(y, P.argmax(axis=1)),
        int(np.sum(p <= TINY)),
    )
