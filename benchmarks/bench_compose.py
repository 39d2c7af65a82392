"""Calibrated classifiers: time and agreement with scikit-learn's, and clipping of zeros.

Run::

    python benchmarks/bench_compose.py
"""

from __future__ import annotations

import time

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from skcalib import CalibratedClassifier, IsotonicCalibration, PlattScaling, TemperatureScaling


def times() -> None:
    random = np.random.default_rng(0)
    y = random.integers(10, size=1_000_000)
    X = random.normal(size=(len(y), 10)) + np.eye(10)[y]
    theirs = CalibratedClassifierCV(GaussianNB(), method="temperature", ensemble=False)
    print("fit to 1 000 000 x 10 rows, 5 folds of GaussianNB, temperature scaling")
    for classifier in (CalibratedClassifier(GaussianNB()), theirs):
        start = time.perf_counter()
        classifier.fit(X, y)
        print(f"    {type(classifier).__name__:24}{time.perf_counter() - start:8.2f} s")


def agreement() -> None:
    cases = [
        ("temperature", TemperatureScaling(), LogisticRegression(C=100), 2),
        ("temperature", TemperatureScaling(), LogisticRegression(C=100), 3),
        ("sigmoid", PlattScaling(), LinearSVC(), 2),
        ("isotonic", IsotonicCalibration(interpolation="linear", smoothing=0), GaussianNB(), 2),
        ("isotonic", IsotonicCalibration(interpolation="linear", smoothing=0), GaussianNB(), 3),
    ]
    print("largest difference of probabilities from CalibratedClassifierCV")
    for method, calibrator, base, K in cases:
        X, y = make_classification(600, n_informative=6, n_classes=K, random_state=0)
        weights = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
        worst = 0.0
        for ensemble in (False, True):
            for w in (None, weights):
                ours = CalibratedClassifier(base, calibrator, ensemble=ensemble).fit(X, y, w)
                theirs = CalibratedClassifierCV(base, method=method, ensemble=ensemble)
                theirs.fit(X, y, sample_weight=w)
                worst = max(worst, np.abs(ours.predict_proba(X) - theirs.predict_proba(X)).max())
        print(f"    {method:12}{K} classes{worst:12.1e}")


def clipping() -> None:
    print("log loss of a forest of 20 trees, temperature scaling, by min_proba")
    data = {
        "digits": load_digits(return_X_y=True),
        "two classes": make_classification(2000, n_informative=5, flip_y=0.2, random_state=1),
    }
    for name, (X, y) in data.items():
        a, b, ya, yb = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
        for least in (np.finfo(float).tiny, 1e-15, 0.5 / 20):
            forest = RandomForestClassifier(20, random_state=0)
            P = CalibratedClassifier(forest, min_proba=least).fit(a, ya).predict_proba(b)
            print(f"    {name:12}{least:10.2g}{log_loss(yb, P):10.4f}")


if __name__ == "__main__":
    times()
    agreement()
    clipping()
