"""Table of the README: ``CalibratedClassifier`` and scikit-learn's ``CalibratedClassifierCV``.

Each method calibrates the same classifiers on the same rows. The table shows the mean over five
random splits into 75 % training and 25 % test rows. Run::

    OMP_NUM_THREADS=1 python benchmarks/compare_scikit_learn.py
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from command_line import run
from sklearn.base import ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.naive_bayes import GaussianNB

from skcalib import CalibratedClassifier
from skcalib.metrics import expected_calibration_error


def methods(classifier: ClassifierMixin) -> dict[str, ClassifierMixin]:
    """Return the classifier without calibration and with each method around it."""
    return {
        "no calibration": classifier,
        "scikit-learn, isotonic": CalibratedClassifierCV(classifier, method="isotonic"),
        "scikit-learn, sigmoid": CalibratedClassifierCV(classifier, method="sigmoid"),
        "scikit-learn, temperature": CalibratedClassifierCV(classifier, method="temperature"),
        "skcalib, default": CalibratedClassifier(classifier),
    }


def compare() -> Iterator[tuple[Any, ...]]:
    """Log loss, ECE and accuracy of each method on two data sets."""
    yield "data", "method", "log loss", "ECE", "accuracy"
    made = make_classification(3000, 20, n_informative=8, n_classes=3, flip_y=0.1, random_state=0)
    data = {
        "boosting, 3 classes": (HistGradientBoostingClassifier(max_iter=50, random_state=0), *made),
        "naive Bayes, digits": (GaussianNB(), *load_digits(return_X_y=True)),
    }
    splitter = StratifiedShuffleSplit(5, test_size=0.25, random_state=0)
    for title, (classifier, X, y) in data.items():
        for name, method in methods(classifier).items():
            results = []
            for train, test in splitter.split(X, y):
                P = method.fit(X[train], y[train]).predict_proba(X[test])
                ece = expected_calibration_error(y[test], P)
                results.append([log_loss(y[test], P), ece, np.mean(P.argmax(axis=1) == y[test])])
            yield title, name, *(f"{v:.3f}" for v in np.mean(results, axis=0))


if __name__ == "__main__":
    run(compare)
