"""Calibrate a classifier, and see what it gains.

Fits every calibrator of skcalib on one set of rows, compares the probabilities before and after on
other rows, draws reliability diagrams, and writes a report on the best, a page for the browser.
Without files, the classifier is a small neural network that is trained on scikit-learn's digits,
which takes a second. Without test files half of the rows, drawn at random with a fixed seed, are
held out.

Some commands:
  python -m skcalib
  python -m skcalib --logits val_logits.npy --labels val_labels.npy --test-logits test_logits.npy
      --test-labels test_labels.npy
  python -m skcalib --logits run.npz:predictions --labels run.npz:ground_truth --probabilities
  python -m skcalib --logits scores.csv --label-column y --save calibrator.joblib
  python -m skcalib --logits 'scores/*.parquet' --label-column y --report report.html
  python -m skcalib --logits val.npy --labels y.npy --save calibrator.json
  python -m skcalib --apply calibrator.json --logits new.npy --output probabilities.csv
  python -m skcalib --apply calibrator.json --logits new.csv --keep id --output probabilities.csv

Files that are read:
  .npy, .npz, .csv or .tsv, and .csv.gz or .tsv.gz. Logits have one row per sample and one column
  per class, or a single column with the log-odds of the second class. A .npz file with several
  arrays takes the name of one behind a colon.

  Labels are one per row. They are compared as integers if all are whole numbers, else as text.
  Sorted, they are in the order of the columns, or else --classes says the order.

  All other columns of text and Parquet files are logits, but for those that --drop names; or else
  --columns names those of the logits, in the order of the classes. A column that numbers the rows
  is refused, and so are two columns whose names hold neither of two labels, unless --columns names
  them.

  Text is UTF-8, with fields between commas, or semicolons or tabs if the first two lines have
  them, and with decimal points. The first line of a text file of logits is a header if none of its
  fields is a number, or if they are 0, 1, 2, ... as pandas writes. The first line of a text file of
  labels is a header if the file has one line more than there are rows of logits. With
  --label-column, labels stand in the same file as the logits, whose first line is a header.

  Parquet files, which may be larger than memory, hold the labels in the column that --label-column
  names, too, and logits in all others: a file, a directory, or a pattern in quotes. They are worked
  on with Dask, in processes on this machine (pip install 'skcalib[dask]').

  A single column that is nowhere negative and between 37 and 100 somewhere is taken for log-odds,
  with a warning that it may hold percentages.

Files that are written:
  --output is a picture, .png, .pdf or .svg; --report a page, .html or .htm. Each may also be a
  directory that exists, for skcalib-reliability.png and skcalib-report.html in it; by default the
  picture is in the working directory, and the page next to it. --save takes .json, .skops,
  .joblib, .pkl and .onnx.

  --apply takes .json and .skops, of which nothing is executed, and writes probabilities to
  --output, .csv, .tsv, .npy, .npz or .parquet, or skcalib-probabilities in a directory. It leaves
  out the column that --label-column names. Tables have a column for each class, and one with the
  label that is predicted, behind the columns that --keep names; .npy files have the probabilities
  only. In .csv and .tsv, texts that a spreadsheet would take for formulas, since they begin with
  =, +, -, @, a tab or a return, begin with an apostrophe.

  --priors moves the probabilities of --apply to new frequencies of the classes, from those of
  --calibration-priors. --costs chooses the label of least expected cost: of two classes, it takes
  the costs of label 1 and label 2 where 1 is true, and then of both where 2 is true.

  Files appear when they are whole, in place of others of their name, but of none that is read.

The exit status is 2 if anything that is given cannot be used, and 130 after Ctrl-C.
"""

import argparse
import io
import shlex
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from skcalib._cli import jobs
from skcalib._validation.labels import shown
from skcalib._version import versions
from skcalib._warnings import MissingClassesWarning, ProbabilitiesWarning

# Options, what they take, of which "..." is several values, and what they mean.
ROWS = (
    ("--logits", "FILE", "logits to fit the calibrators on, or to calibrate with --apply"),
    ("--labels", "FILE", "their labels"),
    ("--test-logits", "FILE", "logits to evaluate the calibrators on"),
    ("--test-labels", "FILE", "their labels"),
    ("--label-column", "NAME", "column of text or Parquet files that holds the labels"),
    ("--columns", "NAME ...", "columns of text or Parquet files that hold logits, in this order"),
    ("--drop", "NAME ...", "columns of text or Parquet files to leave out, such as an index"),
    ("--probabilities", "", "the files hold probabilities, whose logarithms are the logits"),
    ("--classes", "LABEL ...", "all labels in the order of the columns"),
)
RESULTS = (
    ("--output", "PATH", "where to write the diagrams, or with --apply the probabilities"),
    ("--report", "PATH", "where to write the report on the best calibrator"),
    ("--save", "PATH", "where to write the best calibrator, fitted"),
    ("--apply", "PATH", "a saved calibrator, whose probabilities for --logits are written"),
    ("--keep", "NAME ...", "with --apply, columns that are no logits, to write with the results"),
    ("--priors", "NUMBER ...", "with --apply, frequencies of the classes in the new rows"),
    ("--calibration-priors", "NUMBER ...", "those in the rows that the calibrator was fitted to"),
    ("--costs", "NUMBER ...", "with --apply, costs of the labels, for each true class in turn"),
)

INTERRUPTED = 130  # exit status of a process that Ctrl-C ended


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    typed = ["python", "-m", "skcalib", *(sys.argv[1:] if argv is None else argv)]
    args = _parser().parse_args(argv, argparse.Namespace(command=shlex.join(typed)))
    if isinstance(sys.stdout, io.TextIOWrapper):  # names may hold what its encoding lacks
        sys.stdout.reconfigure(errors="backslashreplace")
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("error", MissingClassesWarning)
        warnings.showwarning = _warn
        try:
            _check(args)
            (jobs.compare if args.apply is None else jobs.apply)(args)
        except KeyboardInterrupt:
            jobs.complain("interrupted.")
            return INTERRUPTED
        except MissingClassesWarning as lack:  # for which there is nobody to heed a warning
            jobs.complain(
                f"There must be one column of logits for each class, got {lack.n_columns} columns, "
                f"and no row with label {shown(lack.missing)}; leave out columns that are no "
                "classes, such as an index, with --drop, or name all classes with --classes."
            )
        except MemoryError as error:
            jobs.complain(f"Memory is too small; give fewer rows, or Parquet files. {error}")
        except ImportError as error:
            jobs.complain(_of_missing_package(error))
        # Whatever files and rows can be the cause of; anything else is a fault of ours to report.
        except (ValueError, OSError, RuntimeError) as error:
            jobs.complain(error)
        else:
            return 0
    return 2


def _of_missing_package(error: ImportError) -> str:
    """What is missing, and how to install it."""
    # That Dask cannot read data frames is caused by the package that is missing.
    cause = error.__cause__ if isinstance(error.__cause__, ImportError) else error
    package = (cause.name or "").partition(".")[0]
    package = "skcalib[dask]" if package in {"dask", "distributed"} else package
    return f"{cause}: install it{f', as by pip install {package!r}' if package else ''}."


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    """Show a warning as a sentence, but for that of names, which are compared with the file's."""
    if str(message).startswith("X does not have valid feature names"):
        return
    remedy = " Add --probabilities." if isinstance(message, ProbabilitiesWarning) else ""
    jobs.complain(f"warning: {message}{remedy}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m skcalib",
        usage="%(prog)s [--logits FILE (--labels FILE | --label-column NAME)] [options]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for title, options in (("rows", ROWS), ("results", RESULTS)):
        group = parser.add_argument_group(title)
        for option, metavar, meaning in options:
            if not metavar:
                group.add_argument(option, action="store_true", help=meaning)
                continue
            value, *several = metavar.split()
            kind, number = float if value == "NUMBER" else str, "+" if several else None
            group.add_argument(option, metavar=value, type=kind, nargs=number, help=meaning)
    with_others = ", ".join(map(" ".join, versions().items()))
    parser.add_argument("--version", action="version", version=with_others)
    parser.set_defaults(output=".", columns=(), drop=(), keep=())
    return parser


def _check(args: argparse.Namespace) -> None:
    """Raise a ValueError unless the options go together."""
    fitting = ("labels", "test_logits", "test_labels", "classes", "report", "save")
    given = [f"--{name.replace('_', '-')}" for name in fitting if getattr(args, name) is not None]
    if args.apply is not None and (given or args.logits is None):
        raise ValueError(
            f"--apply goes with --logits and --output, got {', '.join(given) or 'no --logits'}."
        )
    if (args.priors is None) != (args.calibration_priors is None):
        raise ValueError("--priors and --calibration-priors go together, got only one of them.")
    if args.apply is not None:
        return
    if args.keep or args.priors or args.costs:
        raise ValueError("--keep, --priors and --costs go with --apply, got no --apply.")
    if args.logits is None:
        named = args.label_column is not None or args.columns or args.drop
        if args.probabilities or named or set(given) - {"--report", "--save"}:
            raise ValueError("There is nothing to calibrate on: give --logits and --labels.")
    elif (args.labels is None) == (args.label_column is None):
        raise ValueError("--logits needs labels: give either --labels or --label-column.")
    elif (args.test_labels is None) != (args.labels is None or args.test_logits is None):
        raise ValueError(
            "--test-logits and --test-labels go together, got only one of them; with "
            "--label-column, which holds for both files, leave --test-labels out."
        )


if __name__ == "__main__":
    sys.exit(main())
