"""Class priors that have changed: every calibrator with PriorShift behind it, and without.

Records whose test rows have other class frequencies than the rows to fit (see ``records.py`` for
the formats). Priors are known, those of the test labels, or estimated from the test logits, by
"em" and "bbse": with mean and largest relative error over the classes. Run::

    python benchmarks/prior_shift.py FILE... [--rst FILE]
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from interface import both_columns
from records import measures, read
from sklearn.pipeline import make_pipeline

import skcalib
from skcalib import PriorShift
from skcalib._base import BaseCalibrator

# Those that are not for a single set of rows, or take long and tell no more.
LEFT_OUT = {"ClassifierCalibrator", "GroupCalibrator", "PriorShift"}
CALIBRATORS = [
    member()
    for name, member in vars(skcalib).items()
    if isinstance(member, type) and issubclass(member, BaseCalibrator) and name not in LEFT_OUT
]
COLUMNS = ["without", "known", "em", "error", "largest", "bbse", "error", "largest"]


def row_of(calibrator, fit, test):
    """Log loss without and with shifts, and relative errors of estimated priors over classes."""
    (Z, y), (Z_test, y_test) = fit, test
    true = np.bincount(y_test, minlength=Z.shape[1]) / len(y_test)
    chain = make_pipeline(calibrator, PriorShift()).fit(Z, y)
    calibrated = chain[:-1].transform(Z_test)
    known = make_pipeline(calibrator, PriorShift(priors=true)).fit(Z, y)
    found = [
        measures(chain.predict_proba(Z_test), y_test).log_loss,
        measures(known.predict_proba(Z_test), y_test).log_loss,
    ]
    for method in ("em", "bbse"):
        shift = chain[-1].set_params(method=method).adapt(calibrated)
        relative = np.abs(shift.priors_ / true - 1)
        found += [measures(shift.predict_proba(calibrated), y_test).log_loss]
        found += [relative.mean(), relative.max()]
    return [f"{value:.4f}" for value in found[:3]] + [
        f"{value:.1%}" if k in (0, 1, 3, 4) else f"{value:.4f}" for k, value in enumerate(found[3:])
    ]


def table(rows):
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    rule = "  ".join("=" * width for width in widths)
    lines = ["  ".join(v.ljust(n) for v, n in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([rule, lines[0].rstrip(), rule, *(s.rstrip() for s in lines[1:]), rule])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--rst", type=Path, metavar="FILE", help="the tables for the documentation")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    parts = []
    for file in args.files:
        fit, test = ((both_columns(Z), y) for Z, y in read(file))
        rows = [["", *COLUMNS]]
        rows += [[type(c).__name__, *row_of(c, fit, test)] for c in CALIBRATORS]
        parts += [file.stem, "", table(rows), ""]
        print("\n".join(parts[-4:]), flush=True)
    if args.rst:
        args.rst.write_text("\n".join(parts))


if __name__ == "__main__":
    main()
