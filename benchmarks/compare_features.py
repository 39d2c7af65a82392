"""Calibration given features on recorded classifiers: log loss without, of each part, and mixed.

Records are ``.npz`` files with logits and labels (see ``records.py``) and with ``groups_cal``,
``groups_test``, ``features_cal`` or ``features_test``. Run::

    python benchmarks/compare_features.py FOLDER... [--groups]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.metrics import log_loss

from skcalib import AutoCalibrator, ConditionalCalibrator


def records(folders: list[Path], *, groups_only: bool) -> Iterator[tuple]:
    """Name of each record, its arrays, features to fit and to test, and which are categories."""
    for file in sorted(file for folder in folders for file in folder.glob("*.npz")):
        data = dict(np.load(file))
        names = ["groups"] if groups_only else ["groups", "features"]
        names = [name for name in names if f"{name}_cal" in data]
        if names:
            fit, test = (
                np.column_stack([data[f"{name}_{part}"] for name in names])
                for part in ("cal", "test")
            )
            yield file.stem, data, fit, test, [0] if "groups" in names else []


def losses(data: dict, fit: np.ndarray, test: np.ndarray, categorical: list) -> dict[str, float]:
    """Log losses on the test rows, and seconds of the fit with features."""
    found = {}
    Z, y, new, labels = (data[k] for k in ("logits_cal", "y_cal", "logits_test", "y_test"))
    P = AutoCalibrator().fit(Z, y).predict_proba(new)
    found["default"] = log_loss(labels, P)
    start = time.perf_counter()
    calibrator = ConditionalCalibrator(categorical_features=categorical).fit(Z, y, features=fit)
    found["seconds"] = time.perf_counter() - start
    found["mixture"] = log_loss(labels, calibrator.predict_proba(new, features=test))
    weights = calibrator.feature_weights_
    for part in weights:
        if weights[part] > 0:
            calibrator.feature_weights_ = {name: float(name == part) for name in weights}
            P = calibrator.predict_proba(new, features=test)
            found[part] = log_loss(labels, P)
    found["features alone, out-of-fold"] = calibrator.loss_report_["features alone"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--groups", action="store_true", help="groups only, of several features")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # features that are better than the logits
    for name, *record in records(args.folders, groups_only=args.groups):
        found = losses(*record)
        print(name, *(f"{key} {value:.4f}" for key, value in found.items()), sep="; ", flush=True)


if __name__ == "__main__":
    main()
