"""Records of classifier outputs for the benchmarks, and the measures of what is fitted to them.

A record is a .npz file in one of two formats. With ``predictions`` (class probabilities) and
``ground_truth`` (labels) methods are fitted to the first half of the rows and evaluated on the
second. With ``logits_cal``, ``y_cal``, ``logits_test`` and ``y_test`` the parts are given. Outputs
are (n, K), or (n, 1) for the second of two classes; labels are column numbers, or indicators (n, K)
of labels that a row may have at once, of which each is a record of two classes. The second format
may have features of the rows: ``groups_cal`` and ``groups_test`` (n,), ``features_cal`` and
``features_test`` (n, d), with the names of their columns in ``feature_names`` (d,). Other records
are made from the data sets that come with scikit-learn.
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


# Names of records of scikit-learn's classifiers, and other data sets of tables.
CLASSIFIED = rf"(.+)-({'|'.join(CLASSIFIERS)})(-\d+)?"
OF_TABLES = {"supernovae"}
# Kinds of classifiers in folders that are made here.
KINDS = {"bundled": "bundled", "text": "next words"}


class Record(NamedTuple):
    """Logits and labels to fit, and to evaluate; features of both, and names of their columns."""

    fit: Part
    test: Part
    features: dict[str, Part]
    feature_names: tuple[str, ...] = ()


class Source(NamedTuple):
    """A record of a folder, which is read or made when it is needed."""

    folder: str
    name: str
    make: Callable[[], Record]

    @property
    def data_set(self) -> str:
        """Records of one data set are not independent, as they share their labels.

        It is DATA if the record is DATA-CLASSIFIER or DATA-CLASSIFIER-SEED, CIFAR by its number of
        classes wherever it was trained, and otherwise what stands before the first hyphen, as for
        all models that answer the same questions.
        """
        if match := re.fullmatch(CLASSIFIED, self.name):
            return match[1]
        if match := re.search(r"-c(?:ifar-?)?(10+)$", self.name):
            return f"cifar-{match[1]}"
        return self.name.partition("-")[0]

    @property
    def kind(self) -> str:
        """What its classifier is of."""
        of_table = self.data_set in OF_TABLES or re.fullmatch(CLASSIFIED, self.name)
        return KINDS.get(self.folder, "tables" if of_table else "networks")


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


def read(file: Path, label: int | None = None) -> tuple[Part, Part]:
    """Logits in double precision and labels, of the rows to fit and of those to evaluate."""
    with np.load(file) as data:
        if "predictions" in data:
            Z, y = logits_of(data["predictions"]), data["ground_truth"].ravel()
            half = len(y) // 2
            return (Z[:half], y[:half]), (Z[half:], y[half:])
        parts = [(data[f"logits_{part}"], data[f"y_{part}"]) for part in ("cal", "test")]
    if label is not None:
        parts = [(Z[:, label], y[:, label]) for Z, y in parts]
    fit, test = ((Z.reshape(len(y), -1).astype(np.float64), y.ravel()) for Z, y in parts)
    return fit, test


def features_of(file: Path) -> dict[str, Part]:
    """Those that the record has, of the rows to fit and of those to evaluate."""
    with np.load(file) as data:
        names = [name for name in FEATURES if f"{name}_cal" in data]
        return {name: (data[f"{name}_cal"], data[f"{name}_test"]) for name in names}


def recorded(folder: Path) -> Iterator[Source]:
    """The records in the files of a folder."""

    def make(file: Path, label: int | None) -> Record:
        with np.load(file) as data:
            names = tuple(data["feature_names"].tolist()) if "feature_names" in data else ()
        return Record(*read(file, label), features_of(file), names)

    for file in sorted(folder.glob("*.npz")):
        with np.load(file) as data:
            shape = data["y_cal"].shape if "y_cal" in data else ()
        labels = range(shape[1]) if len(shape) > 1 and shape[1] > 1 else [None]
        for label in labels:
            name = file.stem if label is None else f"{file.stem}-label{label}"
            yield Source(folder.resolve().name, name, partial(make, file, label))


def bundled(n_splits: int) -> Iterator[Source]:
    """Records of scikit-learn's data: half of the rows train, a quarter calibrates, one tests."""
    for seed in range(n_splits):
        for name in DATA:
            for kind in CLASSIFIERS:
                make = partial(make_record, name, kind, seed)
                yield Source("bundled", f"{name}-{kind}-{seed}", make)


def make_record(data: str, kind: str, seed: int) -> Record:
    X, y = DATA[data](return_X_y=True)
    part = partial(train_test_split, test_size=0.5, random_state=seed)
    train, rest, y_train, y_rest = part(X, y, stratify=y)
    fit, test, y_fit, y_test = part(rest, y_rest, stratify=y_rest)
    with threadpool_limits(1):  # threads cost more than they gain on so few rows
        classifier = CLASSIFIERS[kind](seed).fit(train, y_train)
    Z, Z_test = (np.log(np.maximum(classifier.predict_proba(A), LEAST)) for A in (fit, test))
    return Record((Z, y_fit), (Z_test, y_test), {})


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
