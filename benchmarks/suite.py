"""Every calibrator on many recorded classifiers: losses, calibration errors and times, to a file.

The script fits all calibrators of skcalib and of other installed libraries. The records come from
folders (``records.py`` describes the formats), with ``--bundled`` from the data sets in
scikit-learn, and with ``--text`` from next-word predictions (``next_word.py``). Each line of the
file has the figures of one method on one record, and the version of the library. The version of
skcalib is the last commit of its code. Lines of this version are not computed again, so that a
stopped run continues; lines of other versions are replaced. ``table.py`` makes tables and figures
from the file. Run::

    OMP_NUM_THREADS=1 python benchmarks/suite.py [FOLDER...] [--bundled] [--text] [--jobs 2]
        [--methods AutoCalibrator '.*, netcal'] [--rows all 1500 500 --draws 2] [--limit 300]
        [--features groups features] [--groups day] [--csv FILE]

``--features`` leaves out records without these features. It adds ``ConditionalCalibrator`` with the
features, and each of its parts. A part without weight counts as failed.

``--groups`` makes groups of rows with equal values of this feature. If a record lacks the feature,
the last feature defines the groups. Records without features are left out. The default is fitted
with groups, with and without ``ordered=True``, and without groups. If the record has a feature
``horizon``, ``ConditionalCalibrator`` is fitted with groups and this feature, and the default with
``cv="time"`` by the features after it, which are times.
"""

from __future__ import annotations

import argparse
import re
import signal
import time
import warnings
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from methods import all_methods
from next_word import ROWS, next_word
from peers import Fitted, Method, both_columns, probabilities
from records import FEATURES, Measures, Part, Record, Source, bundled, measures, recorded
from results import RESULTS, UNCALIBRATED, Result, read, version_of, write

from skcalib import AutoCalibrator
from skcalib.conditional import ConditionalCalibrator
from skcalib.conditional._parts import PARTS

SPLITS = 2
# Methods without groups, for comparison.
COMPARED_WITH_GROUPS = ["TemperatureScaling", "OrdinalCalibration", "AutoCalibrator"]
FAILED = Measures(np.inf, np.nan, np.nan, np.nan, 0)
LEFT_OUT = FAILED._replace(log_loss=np.nan)


def wanted(patterns: list[str]) -> list[Method]:
    """Return the uncalibrated probabilities, and methods whose names match one of the patterns."""
    some = [m for m in all_methods() if any(re.fullmatch(p, m.name) for p in patterns)]
    return [Method(UNCALIBRATED, "", lambda _, __: probabilities), *some]


def given_features(record: Record, names: list[str], some: Any) -> list[Method]:
    """Return the calibrator with features of some rows, mixed and with each part alone."""
    names = [name for name in names if name in record.features]
    F, F_test = map(np.column_stack, zip(*(record.features[name] for name in names), strict=True))
    categorical = [0] if "groups" in names else []

    def method(part: str) -> Method:
        def fit(Z: np.ndarray, y: np.ndarray) -> Fitted:
            calibrator = ConditionalCalibrator(
                categorical_features=categorical, classes=range(max(Z.shape[1], 2))
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


def with_groups(record: Record, name: str, some: Any) -> list[Method]:
    """Return the default with groups by a feature, for classes with and without an order."""
    names, (F, F_test) = record.feature_names, record.features["features"]
    column = names.index(name) if name in names else -1
    groups, classes = F[some, column], range(max(record.fit[0].shape[1], 2))

    def default(Z: np.ndarray, y: np.ndarray, *, ordered: bool) -> Fitted:
        calibrator = AutoCalibrator(ordered=ordered, classes=classes)
        return calibrator.fit(Z, y, groups=groups).predict_proba

    def given_horizon(Z: np.ndarray, y: np.ndarray) -> Fitted:
        horizon = [names.index("horizon")]
        calibrator = ConditionalCalibrator(ordered=True, categorical_features=[0], classes=classes)
        calibrator.fit(Z, y, features=F[some][:, horizon], groups=groups)
        return partial(calibrator.predict_proba, features=F_test[:, horizon])

    def forward(Z: np.ndarray, y: np.ndarray) -> Fitted:
        times = F[some, names.index("horizon") + 1 :]  # a day, or a season and a week
        _, time = np.unique(times, axis=0, return_inverse=True)
        order = np.argsort(time, kind="stable")
        calibrator = AutoCalibrator(cv="time", ordered=True, classes=classes)
        return calibrator.fit(Z[order], y[order], groups=time[order]).predict_proba

    by = f"with groups by {names[column]}"
    fits: dict[str, Any] = {
        f"AutoCalibrator {by}": partial(default, ordered=False),
        f"AutoCalibrator(ordered=True) {by}": partial(default, ordered=True),
    }
    if "horizon" in names:
        fits[f"ConditionalCalibrator given horizon, {by}"] = given_horizon
        fits["AutoCalibrator(cv='time', ordered=True)"] = forward
    return [Method(method, "skcalib", fit) for method, fit in fits.items()]


def too_slow(*_: object) -> None:
    raise TimeoutError


def run(method: Method, fit: Part, test: Part, limit: float = 0) -> tuple[Measures, float, str]:
    """Return measures on the test rows, CPU seconds, and an error message or an empty text."""
    (Z, y), (Z_test, y_test) = fit, test
    if Z.size > method.largest:
        return LEFT_OUT, np.nan, f"left out: more than {method.largest:g} logits"
    if not method.binary:
        Z, Z_test = both_columns(Z), both_columns(Z_test)
    try:
        signal.signal(signal.SIGPROF, too_slow)
        signal.setitimer(signal.ITIMER_PROF, limit)
        X, X_test = method.prepare(Z), method.prepare(Z_test)
        start = time.process_time()
        P = method.fit(X, y)(X_test)
        seconds = time.process_time() - start
        if P.shape != (len(Z_test), max(Z_test.shape[1], 2)):
            raise ValueError(f"probabilities of shape {P.shape}")
        return measures(P, y_test), seconds, ""
    except TimeoutError:
        return LEFT_OUT, np.nan, f"left out: more than {limit:g} s"
    except Exception as error:
        return FAILED, np.nan, f"{type(error).__name__}: {str(error).partition(chr(10))[0][:80]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def draws_of(args: argparse.Namespace) -> list[tuple[str, int]]:
    """Return all rows of the calibration part, and random subsets."""
    numbers = [n for n in args.rows if n != "all"]
    drawn = [(f"{n} rows drawn", draw) for n in numbers for draw in range(args.draws)]
    return [("", 0)] * ("all" in args.rows) + drawn


def evaluated(source: Source, args: argparse.Namespace, known: set[tuple]) -> list[Result]:
    """Evaluate methods on one record, unless the results are known for their versions."""
    warnings.simplefilter("ignore")

    def about(method: Method, drawn: str, draw: int) -> tuple:
        key = source.folder, source.name, drawn, str(draw), method.name
        return *key, *version_of(method.library)

    draws, usual = draws_of(args), wanted(args.methods)
    if (
        not args.features
        and not args.groups
        and all(about(m, *d) in known for m in usual for d in draws)
    ):
        return []
    record, results = source.make(), []
    if args.features and record.features.keys().isdisjoint(args.features):
        return []
    if args.groups and not record.feature_names:
        return []
    for drawn, draw in draws:
        Z, y = record.fit
        n, some = int(drawn.partition(" ")[0] or 0), slice(None)
        if n >= len(y):
            continue
        if n:
            some = np.random.default_rng(draw).permutation(len(y))[:n]
        fit, K = (Z[some], y[some]), max(Z.shape[1], 2)
        of = source.folder, source.data_set, source.name, source.kind, K, len(fit[1]), drawn, draw
        given = given_features(record, args.features, some) if args.features else []
        given += with_groups(record, args.groups, some) if args.groups else []
        for method in usual + given:
            if about(method, drawn, draw) not in known:
                values, seconds, error = run(method, fit, record.test, args.limit)
                by = method.name, method.library, *version_of(method.library)
                results.append(Result(*of, *by, *values, seconds, error))
    return results


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    add = parser.add_argument
    add("folders", type=Path, nargs="*", metavar="FOLDER", help="folders of .npz files")
    add("--bundled", action="store_true", help="records made from scikit-learn's data sets")
    add("--text", type=int, nargs="?", const=ROWS, metavar="ROWS", help="next-word predictions")
    add("--methods", nargs="+", metavar="REGEX", help="names of methods, by default all of them")
    add("--rows", nargs="+", default=["all"], help="calibration rows drawn, or all")
    add("--draws", type=int, default=2, help="random subsets of each number of rows")
    add("--features", nargs="+", default=[], choices=FEATURES, help="arrays of features to use")
    add("--groups", metavar="NAME", help="name of the feature with the groups of the rows")
    add("--limit", type=float, default=300, help="CPU seconds, after which a method is left out")
    add("--jobs", type=int, default=1, help="records at a time")
    add(
        "--csv",
        type=Path,
        metavar="FILE",
        help="default: results/suite.csv, features.csv or groups.csv",
    )
    args = parser.parse_args()
    name = "groups.csv" if args.groups else "features.csv" if args.features else "suite.csv"
    args.csv = args.csv or RESULTS / name
    args.methods = args.methods or (COMPARED_WITH_GROUPS if args.groups else [".*"])
    if not args.folders and not args.bundled and not args.text:
        parser.error("There are no records: name a FOLDER, or use --bundled or --text.")
    for folder in args.folders:
        if not any(folder.glob("*.npz")):
            parser.error(f"FOLDER must have records in .npz files, got {folder} with none.")
    return args


def main() -> None:
    args = arguments()
    sources = [*(next_word(args.text) if args.text else []), *chain(*map(recorded, args.folders))]
    sources += bundled(SPLITS) if args.bundled else []
    results = read(args.csv)
    known = {
        (*key, result.version, result.commit)
        for key, result in results.items()
        if not result.commit.endswith("+")
    }
    write(args.csv, results.values())
    tasks = (delayed(evaluated)(source, args, known) for source in sources)
    for found in Parallel(args.jobs, return_as="generator_unordered")(tasks):
        write(args.csv, found, "a")
        for result in found:
            print(*result.key, f"{result.log_loss:.5f}", result.error, flush=True)
    write(args.csv, sorted(read(args.csv).values()))


if __name__ == "__main__":
    main()
