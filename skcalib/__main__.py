"""Compare all calibrators on logits from files, and write diagrams and a report on the best.

Without files, the logits come from a small neural network on scikit-learn's digits. Without test
files, a random half of the rows is held out.

  python -m skcalib --logits logits.npy --labels y.npy --save calibrator.skops
  python -m skcalib --logits scores.csv --label-column y --report report.html
  python -m skcalib --apply calibrator.skops --logits new.csv --keep id --output new_p.csv

Arrays are .npy, .npz (FILE.npz:NAME). Tables are .csv, .tsv, .parquet, with names of columns.
"""

from __future__ import annotations

import argparse
import io
import shlex
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from skcalib._cli import jobs
from skcalib._input.labels import shown
from skcalib._version import versions
from skcalib._warnings import MissingClassesWarning, ProbabilitiesWarning

OPTIONS = (
    ("--logits", "FILE", "logits, one row per sample and one column per class"),
    ("--labels", "FILE", "labels, one per row"),
    ("--test-logits", "FILE", "logits of held-out rows"),
    ("--test-labels", "FILE", "labels of held-out rows"),
    ("--label-column", "NAME", "column of labels, by default in the file of logits"),
    ("--columns", "NAME ...", "columns of logits, in the order of the classes"),
    ("--classes", "LABEL ...", "all labels in the order of the columns; by default sorted"),
    ("--probabilities", "", "files hold probabilities or percentages; their logarithms are logits"),
    ("--output", "FILE", "diagrams (.png, .pdf, .svg); with --apply, probabilities"),
    ("--report", "FILE", "report on the best calibrator (.html)"),
    ("--save", "FILE", "best calibrator (.json, .skops, .joblib, .onnx)"),
    ("--apply", "FILE", "saved calibrator (.json, .skops) to apply to --logits"),
    ("--keep", "NAME ...", "columns to copy to the output of --apply"),
)

INTERRUPTED = 130  # exit status after Ctrl-C


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    typed = ["python", "-m", "skcalib", *(sys.argv[1:] if argv is None else argv)]
    args = _parser().parse_args(argv, argparse.Namespace(command=shlex.join(typed)))
    if isinstance(sys.stdout, io.TextIOWrapper):  # labels may hold letters that it cannot encode
        sys.stdout.reconfigure(errors="backslashreplace")
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("error", MissingClassesWarning)
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        warnings.showwarning = _warn
        try:
            _check_options(args)
            (jobs.compare if args.apply is None else jobs.apply)(args)
        except KeyboardInterrupt:
            _complain("interrupted.")
            return INTERRUPTED
        except MissingClassesWarning as error:
            _complain(
                f"There must be one column of logits for each class, got {error.n_columns} columns "
                f"and no row with label {shown(error.missing)}. Name the columns of logits with "
                "--columns, or all labels with --classes."
            )
        except ImportError as error:
            _complain(f"{error}: install it with pip install 'skcalib[frame,dask]' or by its name.")
        except (ValueError, OSError, RuntimeError, MemoryError) as error:
            _complain(str(error) or "memory is too small.")
        else:
            return 0
    return 2


def _complain(message: object) -> None:
    """Print an error or a warning on one line."""
    text = " ".join(str(message).split()).removesuffix(".")
    print(f"skcalib: {text}.", file=sys.stderr)


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning on one line."""
    remedy = " Add --probabilities." if isinstance(message, ProbabilitiesWarning) else ""
    _complain(f"warning: {message}{remedy}")


def _parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m skcalib",
        usage="%(prog)s [--logits FILE (--labels FILE | --label-column NAME)] [options]",
        description=__doc__,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(
            prog, max_help_position=32, width=100
        ),
    )
    for option, metavar, meaning in OPTIONS:
        if not metavar:
            parser.add_argument(option, action="store_true", help=meaning)
            continue
        value, *several = metavar.split()
        parser.add_argument(option, metavar=value, nargs="+" if several else None, help=meaning)
    with_others = ", ".join(map(" ".join, versions().items()))
    parser.add_argument("--version", action="version", version=with_others)
    parser.set_defaults(columns=(), keep=(), report="skcalib-report.html")
    return parser


def _check_options(args: argparse.Namespace) -> None:
    """Raise a ValueError if options do not suit one another."""
    fitting = ("labels", "test_logits", "test_labels", "classes", "save")
    options = [f"--{name.replace('_', '-')}" for name in fitting if getattr(args, name) is not None]
    if args.apply is not None:
        if options or args.logits is None:
            raise ValueError(
                "--apply goes with --logits and --output, got "
                f"{', '.join(options) or 'no --logits'}."
            )
        return
    if args.keep:
        raise ValueError("--keep goes with --apply, got no --apply.")
    if args.logits is None:
        if args.probabilities or args.columns or args.label_column or set(options) - {"--save"}:
            raise ValueError("--logits and --labels must name files to calibrate on, got none.")
    elif args.labels is None and args.label_column is None:
        raise ValueError("--logits needs --labels or --label-column, got neither.")
    elif args.test_labels is not None and args.test_logits is None:
        raise ValueError("--test-labels goes with --test-logits, got no --test-logits.")
    elif args.labels is not None and (args.test_logits is None) != (args.test_labels is None):
        raise ValueError("--test-logits goes with --test-labels, got no --test-labels.")


if __name__ == "__main__":
    sys.exit(main())
