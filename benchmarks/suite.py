"""Every calibrator on many recorded classifiers: log loss, Brier score, ECE, wins and times.

All calibrators of skcalib and those of other libraries that are installed are fitted to the records
of one or several folders (see ``records.py`` for the formats), or with ``--bundled`` to records
made from the data sets that come with scikit-learn. Failures are counted and named. Run::

    python benchmarks/suite.py --bundled
    python benchmarks/suite.py FOLDER... [--rows all 1500 500 --draws 2] [--jobs 2]
        [--by folder+classes rows kind record] [--methods AutoCalibrator '.*netcal'] [--variants]
        [--csv FILE] [--rst FILE] [--features groups features]

With ``--features`` records without these are left out, and ``ConditionalCalibrator`` and each of
its parts are given them; a part without weight counts as failed.
"""

from __future__ import annotations

import argparse
import csv
import re
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from methods import all_methods, variants
from peers import Fitted, Method, both_columns, probabilities
from records import FEATURES, Measures, Part, Record, bundled, measures, recorded
from results import LEGEND, TEMPERATURE, UNCALIBRATED, Result, failures, tables

from skcalib import ConditionalCalibrator
from skcalib.selection._parts import PARTS

BY = ["folder+classes", "rows", "kind", "record"]
SPLITS = 2
FAILED = Measures(np.inf, np.nan, np.nan, np.nan, 0)
LEFT_OUT = FAILED._replace(log_loss=np.nan)


def wanted(patterns: list[str], more: list[Method]) -> list[Method]:
    """Methods whose names match one of the patterns, and those that others are compared with."""
    uncalibrated = Method(UNCALIBRATED, "skcalib", lambda _, __: probabilities)
    methods = [uncalibrated, *all_methods(), *more]
    patterns = [UNCALIBRATED, TEMPERATURE, *patterns]
    return [m for m in methods if any(re.fullmatch(p, m.name) for p in patterns)]


def given_features(record: Record, names: list[str], some: Any) -> list[Method]:
    """The calibrator given features of some rows, mixed and each part of it alone."""
    names = [name for name in names if name in record.features]
    F, F_test = map(np.column_stack, zip(*(record.features[name] for name in names), strict=True))
    categorical = [0] if "groups" in names else []

    def method(part: str) -> Method:
        def fit(Z: np.ndarray, y: np.ndarray) -> Fitted:
            calibrator = ConditionalCalibrator(
                categorical_features=categorical, classes=range(record.n_classes)
            ).fit(Z, y, features=F[some])
            weights = calibrator.feature_weights_
            if part:
                if not weights.get(part):
                    raise ValueError("the part has no weight")
                calibrator.feature_weights_ = {name: float(name == part) for name in weights}
            return partial(calibrator.predict_proba, features=F_test)

        name = "ConditionalCalibrator given " + " and ".join(names)
        return Method(f"{name}, {part} alone" if part else name, "skcalib", fit)

    return [method(part) for part in ("", *PARTS[1:])]


def run(method: Method, fit: Part, test: Part) -> tuple[Measures, float, str]:
    """Measures on the test rows, seconds, and the error if there was one."""
    (Z, y), (Z_test, y_test) = fit, test
    if Z.size > method.largest:
        return LEFT_OUT, np.nan, f"left out: more than {method.largest:g} logits"
    if not method.binary:
        Z, Z_test = both_columns(Z), both_columns(Z_test)
    try:
        X, X_test = method.prepare(Z), method.prepare(Z_test)
        start = time.perf_counter()
        P = method.fit(X, y)(X_test)
        seconds = time.perf_counter() - start
        if P.shape != (len(Z_test), max(Z_test.shape[1], 2)):
            raise ValueError(f"probabilities of shape {P.shape}")
        return measures(P, y_test), seconds, ""
    except Exception as error:
        return FAILED, np.nan, f"{type(error).__name__}: {str(error).partition(chr(10))[0][:80]}"


def parts_of(record: Record, rows: list[str], draws: int) -> Iterator[tuple[str, int, Any]]:
    """All rows of the calibration part, or random subsets if there are more rows than that."""
    n_rows = len(record.fit[1])
    for n in rows:
        if n == "all":
            yield "", 0, slice(None)
        elif int(n) < n_rows:
            for seed in range(draws):
                yield (
                    f"{n} rows drawn",
                    seed,
                    np.random.default_rng(seed).permutation(n_rows)[: int(n)],
                )


def evaluated(source: Callable[[], Record], args: argparse.Namespace) -> list[Result]:
    """All methods on one record."""
    warnings.simplefilter("ignore")
    record, results = source(), []
    if args.features and record.features.keys().isdisjoint(args.features):
        return []
    for drawn, draw, some in parts_of(record, args.rows, args.draws):
        Z, y = record.fit
        fit = Z[some], y[some]
        about = (*record[:3], record.n_classes, len(fit[1]), drawn, draw)
        more = variants() if args.variants else []
        more += given_features(record, args.features, some) if args.features else []
        for method in wanted(args.methods, more):
            values, seconds, error = run(method, fit, record.test)
            results.append(Result(*about, method.name, *values, seconds, error))
    return results


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    add = parser.add_argument
    add("folders", type=Path, nargs="*", metavar="FOLDER", help="folders of .npz files")
    add("--bundled", action="store_true", help="records made from scikit-learn's data sets")
    add("--methods", nargs="+", default=[".*"], metavar="REGEX", help="names of methods")
    add("--variants", action="store_true", help="also other parameters than the defaults")
    add("--rows", nargs="+", default=["all"], help="calibration rows drawn, or all")
    add("--draws", type=int, default=2, help="random subsets of each number of rows")
    add("--by", nargs="+", default=BY, help="groupings; + joins them")
    add("--features", nargs="+", default=[], choices=FEATURES, help="arrays of features to use")
    add("--full", action="store_true", help="all figures in the tables of all groupings")
    add("--jobs", type=int, default=1, help="records at a time; more than one affects times")
    add("--csv", type=Path, metavar="FILE", help="every figure of every record")
    add("--rst", type=Path, metavar="FILE", help="the tables for the documentation")
    args = parser.parse_args()
    if not args.folders and not args.bundled:
        parser.error("There are no records: name a FOLDER, or use --bundled.")
    for folder in args.folders:
        if not any(folder.glob("*.npz")):
            parser.error(f"FOLDER must have records in .npz files, got {folder} with none.")
    return args


def main() -> None:
    args = arguments()
    sources = [*chain(*map(recorded, args.folders)), *(bundled(SPLITS) if args.bundled else [])]
    found = Parallel(args.jobs)(delayed(evaluated)(source, args) for source in sources)
    results = list(chain(*found))
    text = [LEGEND, *chain(*(tables(results, by, full=args.full) for by in args.by))]
    text = "\n".join([*text, failures(results)])
    print(text)
    if args.rst:
        args.rst.write_text(text)
    if args.csv:
        with args.csv.open("w", newline="") as file:
            csv.writer(file).writerows([Result._fields, *results])


if __name__ == "__main__":
    main()
