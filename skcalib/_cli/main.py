"""``python -m skcalib``: calibrate a classifier's logits and show the effect."""

from __future__ import annotations

import argparse
import sys
import textwrap
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from skcalib._rows.dask import ChunkError
from skcalib._validation.labels import shown
from skcalib._warnings import MissingClassesWarning
from skcalib.display import ReliabilityDisplay
from skcalib.metrics import ReliabilityCurve, reliability_curve
from skcalib.report import calibration_report
from skcalib.selection import CalibratorComparison, compare_calibrators

from . import parquet
from .apply import check_apply, run_apply
from .console import Console, check_is_other, checked_target, replacing, save_calibrator
from .files import InputError, LabelledLogits
from .loading import check_files, is_parquet, labels_of_type, load

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURES = (".png", ".pdf", ".svg")
PAGES = (".html", ".htm")
CALIBRATORS = (".json", ".skops", ".joblib", ".pkl", ".onnx")

STEM = "skcalib"

INTERRUPTED = 130  # exit status of a process that Ctrl-C ended

DESCRIPTION = """\
Calibrate a classifier: fit every calibrator of skcalib on one set of rows, compare the
probabilities before and after on other rows, draw the reliability diagrams, and write a report on
the best, a page for the browser.

Without files, the classifier is a small neural network that is trained on scikit-learn's
digits, which takes a second.
"""

EPILOG = """\
files:
  .npy, .npz, .csv or .tsv, and .csv.gz or .tsv.gz. Logits have one row per sample and one column
  per class, or a single column with the log-odds of the second class. Labels are one per row;
  sorted, they are in the order of the columns, or else --classes says the order. A .npz file with
  several arrays takes the name of one behind a colon.

  Text is UTF-8, with fields between commas, or semicolons or tabs if the first two lines have
  them, and with decimal points. The first line of a text file of logits is a header if none of its
  fields is a number, or if they are 0, 1, 2, ... as pandas writes. The first line of a text file of
  labels is a header if the file has one line more than there are rows of logits. With
  --label-column, labels stand in the same file as the logits, whose first line is a header.

  Parquet files, which may be larger than memory, hold the labels in the column that --label-column
  names, too, and logits in all others: a file, a directory, or a pattern in quotes. They are worked
  on with Dask, in processes on this machine (pip install 'skcalib[dask]').

  --apply reads the same files, and leaves out the column that --label-column names. Nothing in the
  file of the calibrator is executed. Text and Parquet files of probabilities have a column for each
  class, and one with the label that is predicted; .npy files have the probabilities only.

examples:
  python -m skcalib
  python -m skcalib --logits val_logits.npy --labels val_labels.npy \\
      --test-logits test_logits.npy --test-labels test_labels.npy
  python -m skcalib --logits run.npz:predictions --labels run.npz:ground_truth --probabilities
  python -m skcalib --logits scores.csv --label-column y --save calibrator.joblib
  python -m skcalib --logits 'scores/*.parquet' --label-column y --report report.html
  python -m skcalib --logits val.npy --labels y.npy --save calibrator.json
  python -m skcalib --apply calibrator.json --logits new.npy --output probabilities.csv

Without test files half of the rows, drawn at random with a fixed seed, are held out. The exit
status is 2 if the input is invalid, and nothing is written then; 1 if the results could not be
printed; 130 after Ctrl-C.
"""

OPTIONS = [
    ("--logits", "FILE", "logits to fit the calibrators on"),
    ("--labels", "FILE", "their labels"),
    ("--test-logits", "FILE", "logits to evaluate them on"),
    ("--test-labels", "FILE", "their labels"),
    (
        "--label-column",
        "NAME",
        "column of the logits' files, Parquet or text, that holds the labels",
    ),
    (
        "--output",
        "PATH",
        "where to write the diagrams: a file, which is replaced if it is there, or a directory "
        "that exists, to write skcalib-reliability.png to (default: the working directory)",
    ),
    (
        "--report",
        "FILE",
        "where to write the report on the best calibrator: a page that ends in .html or .htm, or a "
        "directory that exists, to write skcalib-report.html to (default: next to the diagrams)",
    ),
    (
        "--save",
        "FILE",
        "where to write the best calibrator, fitted: a file that ends in .json, .skops, .joblib, "
        ".pkl or .onnx",
    ),
    (
        "--apply",
        "FILE",
        "a saved calibrator, in a file that ends in .json or .skops, whose probabilities for "
        "--logits are written to --output: a file that ends in .csv, .tsv, .npy, .npz or "
        ".parquet, or a directory that exists, to write skcalib-probabilities to",
    ),
]


class Targets(NamedTuple):
    """The files to write."""

    diagrams: Path
    report: Path
    calibrator: Path | None


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    args = _parser().parse_args(argv)
    console = Console(sys.stdout, sys.stderr)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        # Not meant for users of the command line, such as those from old versions of matplotlib.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("error", MissingClassesWarning)
        warnings.showwarning = console.show_warning
        try:
            if args.apply is not None:
                run_apply(args, check_apply(args), console)
            else:
                _run(args, _targets(args), console)
        except KeyboardInterrupt:
            console.complain("interrupted.")
            return INTERRUPTED
        except MemoryError:
            console.complain(
                "The rows need more memory than is available; give fewer of them, or a Parquet "
                "file with --label-column, which may be larger than memory."
            )
            return 2
        except (InputError, ChunkError, ValueError, OSError) as error:
            console.complain(error)
            return 2
    if console.fault is not None:
        console.complain(f"The results could not be printed: {console.fault.strerror}.")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m skcalib",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for option, metavar, meaning in OPTIONS:
        parser.add_argument(option, metavar=metavar, help=meaning)
    parser.add_argument(
        "--probabilities",
        action="store_true",
        help="the files hold probabilities, whose logarithms are the logits",
    )
    parser.add_argument(
        "--classes", metavar="LABEL", nargs="+", help="all labels in the order of the columns"
    )
    parser.set_defaults(output=".")
    return parser


def _run(args: argparse.Namespace, targets: Targets, console: Console) -> None:
    check_files(args)
    with parquet.cluster() if is_parquet(args) else nullcontext():
        console.show("reading ...")
        source, calibration, test = load(args)
        classes = labels_of_type(args.classes, calibration.labels)
        found, curves = _compared(calibration, test, classes, console)
        n_fit, n_test = len(calibration.labels), len(test.labels)
        some = parquet.some_rows(test) if is_parquet(args) else test
    best = next(name for name in found.names if name != "uncalibrated")
    calibrator = found.calibrators[best]
    temperature = found.calibrators["TemperatureScaling"].temperature_
    console.say(
        f"{source}: {n_fit:,} rows to calibrate on, {n_test:,} held out, "
        f"{len(calibrator.classes_)} classes\n\n{found}\n"
    )
    console.say(textwrap.fill(_finding(found, curves["uncalibrated"]), 88))
    console.say(f"The temperature is {temperature:.4g}.")
    if targets.calibrator is not None:
        how = save_calibrator(calibrator, targets.calibrator)
        takes = "logarithms of probabilities" if args.probabilities else "logits"
        console.say(f"{best}, which takes {takes}: {targets.calibrator}; to load it:\n    {how}")
    console.show("drawing ...")
    _save(_diagrams(curves), targets.diagrams)
    report = calibration_report(calibrator, some.logits, some.labels, name=best, comparison=found)
    page = report.to_html()
    with replacing(targets.report) as file:
        file.write(page.encode())
    console.say(f"Reliability diagrams: {targets.diagrams}\nReport on {best}: {targets.report}")


def _compared(
    calibration: LabelledLogits, test: LabelledLogits, classes: Any, console: Console
) -> tuple[CalibratorComparison, dict[str, ReliabilityCurve]]:
    """Every calibrator by every measure, and its reliability curve."""
    console.show("calibrating ...")
    try:
        found = compare_calibrators(
            calibration.logits,
            calibration.labels,
            test=(test.logits, test.labels),
            classes=classes,
            on_progress=console,
        )
    except MissingClassesWarning as lack:  # for which there is nobody to heed a warning
        raise InputError(
            f"There must be one column of logits for each class, got {lack.n_columns} columns, and "
            f"no row with label {shown(lack.missing)}; leave out columns that are no classes, such "
            "as an index, or name all classes with --classes."
        ) from lack
    console.show("evaluating ...")
    curves = {
        name: reliability_curve(test.labels, each.predict_proba(test.logits), labels=each.classes_)
        for name, each in found.calibrators.items()
    }
    return found, curves


# Reporting.
def _finding(found: CalibratorComparison, before: ReliabilityCurve) -> str:
    """The result in one sentence."""
    best = next(k for k, name in enumerate(found.names) if name != "uncalibrated")
    old = found.names.index("uncalibrated")

    def change(measure: str) -> str:
        values = found.mean(measure)
        verb = "lowers" if values[best] < values[old] else "does not lower"
        return f"{verb} the {measure} from {values[old]:.4f} to {values[best]:.4f}"

    accuracy = found.mean("accuracy")[old]
    confidence = before.weight @ before.confidence / before.weight.sum()
    verdict = "over-confident" if confidence > accuracy else "under-confident"
    return (
        f"The classifier is {verdict} on the held-out rows: mean confidence {confidence:.1%}, "
        f"accuracy {accuracy:.1%}; {found.names[best]} {change('ECE')} and {change('log loss')}."
    )


def _diagrams(curves: dict[str, ReliabilityCurve]) -> Figure:
    """Reliability diagrams in rows of four."""
    from matplotlib.figure import Figure

    n_rows = -(-len(curves) // 4)
    figure = Figure(figsize=(18, 5 * n_rows), layout="constrained")
    for k, (name, curve) in enumerate(curves.items(), start=1):
        ax = figure.add_subplot(n_rows, 4, k)
        ReliabilityDisplay(curve, name=name).plot(ax)
    return figure


def _save(figure: Any, picture: Path) -> None:
    """Write a picture; the file appears when it is complete."""
    with replacing(picture) as file:
        figure.savefig(file, dpi=150, format=picture.suffix[1:].lower())


def _targets(args: argparse.Namespace) -> Targets:
    """The files to write, for paths of which --output and --report may be directories."""
    other = "a directory that exists, or "
    output = _in_directory(args.output, f"{STEM}-reliability.png")
    diagrams = checked_target("--output", output, PICTURES, other)
    beside = diagrams.with_name(f"{diagrams.stem.removesuffix('-reliability')}-report.html")
    if args.report is None:
        report = checked_target("--report", str(beside), PAGES)
    else:
        path = _in_directory(args.report, f"{STEM}-report.html")
        report = checked_target("--report", path, PAGES, other)
    saved = args.save and checked_target("--save", args.save, CALIBRATORS)
    targets = Targets(diagrams, report, saved)
    given = ("logits", "labels", "test_logits", "test_labels")
    inputs = {f"--{name.replace('_', '-')}": getattr(args, name) for name in given}
    for option, target in zip(("--output", "--report", "--save"), targets, strict=True):
        if target is not None:
            check_is_other(option, target, inputs)
    return targets


def _in_directory(path: str, name: str) -> str:
    """The path of a file: if it is a directory, of one with that name in it."""
    return str(Path(path) / name) if Path(path).is_dir() else path
