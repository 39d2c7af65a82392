"""Calibrated classifiers of scikit-learn: the least probability of votes, and ensembles of splits.

``--what ensemble`` compares the values of ``ensemble``. ``--what min_proba`` compares lower bounds
of probabilities with scikit-learn's ``CalibratedClassifierCV`` with one classifier. Run::

    OMP_NUM_THREADS=1 python benchmarks/compare_classifiers.py --what min_proba [--draws 3]
    OMP_NUM_THREADS=1 python benchmarks/compare_classifiers.py --what ensemble --calibrator platt
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from command_line import run
from sklearn import datasets, ensemble
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import skcalib
from skcalib.metrics import expected_calibration_error

CLASSIFIERS = {
    "forest of 25": ensemble.RandomForestClassifier(25),
    "forest of 100": ensemble.RandomForestClassifier(100),
    "forest of 500": ensemble.RandomForestClassifier(500),
    "extra trees": ensemble.ExtraTreesClassifier(100),
    "boosting": ensemble.HistGradientBoostingClassifier(max_iter=50),
    "tree": DecisionTreeClassifier(min_samples_leaf=10),
    "neighbours": KNeighborsClassifier(15),
    "naive Bayes": GaussianNB(),
    "logistic": make_pipeline(StandardScaler(), LogisticRegression()),
    "support vectors": make_pipeline(StandardScaler(), SVC()),
    "network": make_pipeline(StandardScaler(), MLPClassifier((30,), max_iter=100)),
}
CALIBRATORS = {
    "platt": skcalib.PlattScaling(),
    "temperature": skcalib.TemperatureScaling(),
    "beta": skcalib.BetaCalibration(),
    "isotonic": skcalib.IsotonicCalibration(),
    "auto": skcalib.AutoCalibrator(),
}


def generated(n_classes: int, flip_y: float, seed: int) -> tuple:
    """5000 rows of some noise."""
    return datasets.make_classification(
        5000, 20, n_informative=6, n_classes=n_classes, flip_y=flip_y, random_state=seed
    )


DATA: dict[str, Callable[[int], tuple]] = {
    "2 classes": lambda seed: generated(2, 0.02, seed),
    "2 classes, noise": lambda seed: generated(2, 0.2, seed),
    "3 classes": lambda seed: generated(3, 0.02, seed),
    "3 classes, noise": lambda seed: generated(3, 0.2, seed),
    "7 classes": lambda seed: generated(7, 0.05, seed),
    "cancer": lambda _: datasets.load_breast_cancer(return_X_y=True),
    "digits": lambda _: datasets.load_digits(return_X_y=True),
}


def compared(classifier: object, calibrator: object, what: str) -> dict[str, object]:
    """What is compared, the reference first."""
    if what == "ensemble":
        return {
            str(each): skcalib.CalibratedClassifier(classifier, calibrator, ensemble=each)
            for each in (False, True, "auto")
        }
    one = skcalib.CalibratedClassifier(classifier, calibrator, ensemble=False)
    return {
        "sigmoid": CalibratedClassifierCV(classifier, ensemble=False),
        "1e-15": clone(one).set_params(min_proba=1e-15),
        "auto": one,
    }


def measured(model: object, X: np.ndarray, y: np.ndarray, n_rows: int, seed: int) -> list[float]:
    """Log loss, ECE and seconds of a prediction of the test rows."""
    X, X_test, y, y_test = train_test_split(X, y, train_size=n_rows, stratify=y, random_state=seed)
    random = [name for name in model.get_params() if name.endswith("random_state")]
    model.set_params(**dict.fromkeys(random, seed)).fit(X, y)
    start = time.perf_counter()
    P = model.predict_proba(X_test)
    seconds = time.perf_counter() - start
    error = expected_calibration_error(y_test, P, kind="top-label", labels=model.classes_)
    return [log_loss(y_test, P), error, seconds]


def compare(
    what: str = "ensemble",
    calibrator: str = "platt",
    classifiers: tuple[str, ...] = tuple(CLASSIFIERS),
    data: tuple[str, ...] = tuple(DATA),
    draws: int = 3,
    rows: int = 600,
) -> Iterator[tuple[Any, ...]]:
    """Log loss, ECE, and time of a prediction, of several models of each classifier.

    The first model is the reference: the difference of log losses has a standard error over data
    sets and draws, and the time is a multiple. At most half of a data set calibrates.
    """
    yield "classifier", "model", "log loss", "ECE", "difference", "standard error", "time"
    for name in classifiers:
        reference: Any = None
        for title, model in compared(CLASSIFIERS[name], CALIBRATORS[calibrator], what).items():
            found = []
            for make, seed in itertools.product(data, range(draws)):
                X, y = DATA[make](seed)
                found.append(measured(model, X, y, min(rows, len(y) // 2), seed))
            values = np.array(found)
            reference = values if reference is None else reference
            gain = values[:, 0] - reference[:, 0]
            spread = float(gain.std(ddof=1) / np.sqrt(len(gain)))
            loss, error, seconds = values.mean(axis=0)
            ratio = f"{seconds / reference[:, 2].mean():.1f}"
            yield name, title, loss, error, float(gain.mean()), spread, ratio


if __name__ == "__main__":
    run(compare)
