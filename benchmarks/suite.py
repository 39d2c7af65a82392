"""Every calibrator on many recorded classifiers: log loss, Brier score, ECE, wins and times.

All calibrators of skcalib and those of other libraries that are installed are fitted to the records
of one or several folders (see ``records.py`` for the formats), or with ``--bundled`` to records
made from the data sets that come with scikit-learn. Failures are counted and named. Run::

    python benchmarks/suite.py --bundled
    python benchmarks/suite.py FOLDER... [--rows all 1500 500 --draws 2] [--jobs 2]
        [--by folder+classes rows kind record] [--methods AutoCalibrator '.*netcal'] [--variants]
        [--csv FILE] [--rst FILE]
"""

from __future__ import annotations

import argparse
import csv
import re
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from methods import all_methods, variants
from peers import Method, both_columns, probabilities
from records import Measures, Part, Record, bundled, measures, recorded
from results import LEGEND, TEMPERATURE, UNCALIBRATED, Result, failures, tables

BY = ["folder+classes", "rows", "kind", "record"]
SPLITS = 2
FAILED = Measures(np.inf, np.nan, np.nan, np.nan, 0)
LEFT_OUT = FAILED._replace(log_loss=np.nan)


def wanted(patterns: list[str], *, more: bool) -> list[Method]:
    """Methods whose names match one of the patterns, and those that others are compared with."""
    uncalibrated = Method(UNCALIBRATED, "skcalib", lambda _, __: probabilities)
    methods = [uncalibrated, *all_methods(), *(variants() if more else [])]
    patterns = [UNCALIBRATED, TEMPERATURE, *patterns]
    return [m for m in methods if any(re.fullmatch(p, m.name) for p in patterns)]


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


def parts_of(record: Record, rows: list[str], draws: int) -> Iterator[tuple[str, int, Part]]:
    """All rows of the calibration part, or random subsets if there are more rows than that."""
    Z, y = record.fit
    for n in rows:
        if n == "all":
            yield "", 0, record.fit
        elif int(n) < len(y):
            for seed in range(draws):
                some = np.random.default_rng(seed).permutation(len(y))[: int(n)]
                yield f"{n} rows drawn", seed, (Z[some], y[some])


def evaluated(source: Callable[[], Record], args: argparse.Namespace) -> list[Result]:
    """All methods on one record."""
    warnings.simplefilter("ignore")
    record, results = source(), []
    for drawn, draw, fit in parts_of(record, args.rows, args.draws):
        about = (*record[:3], record.n_classes, len(fit[1]), drawn, draw)
        for method in wanted(args.methods, more=args.variants):
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
