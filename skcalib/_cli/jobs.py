"""What the command line does: compare calibrators, or apply a saved one to new logits."""

import argparse
import csv
import io
import os
import pickle
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from glob import glob
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from skcalib._output import replacing
from skcalib._rows import Array
from skcalib._validation.inputs import are_probabilities, check_priors, warn_of_probabilities
from skcalib._validation.labels import check_column_names, shown
from skcalib.comparison import CalibratorComparison, compare_calibrators
from skcalib.decision import bayes_decision
from skcalib.display import ReliabilityDisplay
from skcalib.export import from_json, to_json, to_onnx
from skcalib.export._calibrators import chain_of
from skcalib.meta import MultiLabelCalibrator, PriorShift
from skcalib.metrics import ReliabilityCurve, reliability_curve
from skcalib.report import calibration_report

from . import reading

PICTURES = (".png", ".pdf", ".svg")
PAGES = (".html", ".htm")
CALIBRATORS = (".json", ".skops", ".joblib", ".pkl", ".onnx")
PROBABILITIES = (".csv", ".tsv", ".npy", ".npz", ".parquet")

# Level of the test whether logits are better than chance.
LEVEL = 0.05

# Packages that formats need.
NEEDED = {".skops": "skops.io", ".onnx": "onnx", ".parquet": "pyarrow"}


# Messages.
def say(text: str) -> None:
    """Print a result; a reader that closes its pipe, as ``head`` does, costs no picture."""
    show("")
    try:
        print(text, flush=True)
    except OSError as error:
        # Else Python would fail to flush it at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise


def complain(message: object) -> None:
    """Print an error or a warning in one line."""
    show("")
    print("skcalib:", " ".join(str(message).split()), file=sys.stderr)


def show(activity: str) -> None:
    """Show the current activity on a terminal, until the next one or something is printed."""
    if sys.stderr is not None and sys.stderr.isatty():
        print(f"\r{activity:60}\r", end="", file=sys.stderr, flush=True)


# Files to write.
def target_of(
    args: argparse.Namespace, option: str, given: str, endings: tuple[str, ...], default: str = ""
) -> Path:
    """The file that an option says to write, checked before the computation.

    A directory that exists stands for the file ``default`` in it.
    """
    target = Path(given) / default if default and Path(given).is_dir() else Path(given)
    if target.suffix.lower() not in endings or target.is_dir():
        where = "a directory that exists, or " if default else ""
        raise ValueError(
            f"{option} {given} must be {where}a file that ends in {', '.join(endings)}."
        )
    if not os.access(target.parent, os.W_OK):
        raise ValueError(f"{option} {given} must lie in a directory that exists and is writable.")
    if target.suffix.lower() in NEEDED:
        import_module(NEEDED[target.suffix.lower()])
    for source in filter(None, (args.logits, args.labels, args.test_logits, args.test_labels)):
        path = reading.path_and_array(source)[0]
        read = {Path(one).resolve() for one in (path, *glob(path))}  # noqa: PTH207
        if read & {target.resolve(), *target.resolve().parents}:
            raise ValueError(
                f"{option} {target} must be another file than those that are read, got {source}. "
                "Choose another name."
            )
    return target


# Comparison.
def compare(args: argparse.Namespace) -> None:
    """Fit all calibrators, print how they compare, and write pictures, a report and the best."""
    picture = target_of(args, "--output", args.output, PICTURES, "skcalib-reliability.png")
    beside = picture.with_name(f"{picture.stem.removesuffix('-reliability')}-report.html")
    page = target_of(args, "--report", args.report or str(beside), PAGES, "skcalib-report.html")
    saved = None if args.save is None else target_of(args, "--save", args.save, CALIBRATORS)
    with_dask = args.label_column is not None and reading.kind_of(args.logits) == ".parquet"
    with reading.cluster() if with_dask else nullcontext():
        show("reading ...")
        calibration, test, classes = reading.load(args)
        found, curves = _compared(calibration, test, classes)
        n_fit, n_test, some = len(calibration.labels), len(test.labels), reading.some_rows(test)
        chance = _of_chance(found, reading.counts_of(test.labels))
    best = next(name for name in found.names if name != "uncalibrated")
    calibrator = found.calibrators[best]
    say(
        f"{args.logits or 'Neural network on digits'}: {n_fit:,} rows to calibrate on, {n_test:,} "
        f"held out, {_told(calibrator.classes_)}\n\n{found}\n\n{chance}"
        f"The temperature is {found.calibrators['TemperatureScaling'].temperature_:.4g}."
    )
    if saved:
        how = save_calibrator(calibrator, saved)
        takes = "logarithms of probabilities" if args.probabilities else "logits"
        say(f"{best}, which takes {takes}: {saved}; to load it:\n    {how}")
    show("drawing ...")
    with replacing(picture) as file:
        _diagrams(curves).savefig(file, dpi=135, format=picture.suffix[1:].lower())
    report = calibration_report(calibrator, *some[:2], name=best, comparison=found)
    report.command = args.command
    report.to_html(page)
    verdict = "\n".join(textwrap.fill(sentence, 88) for sentence in report.verdict_)
    say(f"\n{verdict}\n\nReliability diagrams: {picture}\nReport on {best}: {page}")


def _told(classes: Array) -> str:
    """The number of classes; of two that are texts also which one log-odds are of."""
    count = f"{len(classes)} classes"
    if len(classes) != 2 or not isinstance(classes[1], str):
        return count
    return (
        f"{count}\nLabel {shown(classes[1:])} is that of the second column, or of log-odds; "
        "--classes names another order."
    )


def _compared(
    calibration: reading.LabelledLogits, test: reading.LabelledLogits, classes: Array | None
) -> tuple[CalibratorComparison, dict[str, ReliabilityCurve]]:
    """Every calibrator by every measure, and its reliability curve."""
    show("calibrating ...")
    found = compare_calibrators(
        calibration.logits,
        calibration.labels,
        test=(test.logits, test.labels),
        labels=classes,
        on_progress=lambda k, n: show(f"[{'=' * (30 * k // n):30}] {k} of {n} fits"),
    )
    show("evaluating ...")
    curves = {
        name: reliability_curve(test.labels, each.predict_proba(test.logits), labels=each.classes_)
        for name, each in found.calibrators.items()
    }
    return found, curves


def _of_chance(found: CalibratorComparison, counts: Array) -> str:
    """A warning unless some log loss is below that of the frequencies of the labels alone.

    If logits and labels were independent, the expected ratio of the likelihoods, with calibrators
    from other rows, would be at most 1, and by Markov's inequality the ratio above 1 / LEVEL for
    one of n calibrators with a probability of at most n LEVEL.
    """
    share, losses = counts / counts.sum(), found.mean("log loss")
    of_labels = -float(share @ np.log(share))
    if counts.sum() * (of_labels - losses.min()) > np.log(len(losses) / LEVEL):
        return ""
    warning = (
        "These logits are no better than chance, as far as the held-out rows show: the least log "
        f"loss is {losses.min():.4f}, and {of_labels:.4f} that of the frequencies of the labels "
        "alone. Check that rows and labels belong together, and that all columns are logits."
    )
    return f"{textwrap.fill(warning, 88)}\n"


def _diagrams(curves: dict[str, ReliabilityCurve]) -> Any:
    """Reliability diagrams in rows of four, that of the uncalibrated logits first."""
    from matplotlib.figure import Figure

    names = sorted(curves, key="uncalibrated".__ne__)
    figure = Figure(figsize=(9.6, 0.9 + 2.9 * -(-len(names) // 4)), layout="constrained")
    axes = figure.subplots(-(-len(names) // 4), min(len(names), 4), squeeze=False)
    for ax, name in zip(axes.flat, names, strict=False):
        ReliabilityDisplay(curves[name], name=name).plot(ax, legend=False)
    for unused in axes.flat[len(names) :]:
        unused.set_axis_off()
    return figure


# Calibrators in files.
def save_calibrator(calibrator: Any, target: Path) -> str:
    """Write a fitted calibrator in the format of the suffix; returns how to load it."""
    name = repr(str(target))
    match target.suffix.lower():
        case ".json":
            content = to_json(calibrator).encode()
            how = f"skcalib.export.from_json(pathlib.Path({name}).read_text())"
        case ".onnx":
            content = to_onnx(calibrator).SerializeToString()
            how = f"onnxruntime.InferenceSession({name})"
        case ".skops":
            import skops.io

            content = skops.io.dumps(calibrator)
            trusted = skops.io.get_untrusted_types(data=content)
            how = f"skops.io.load({name}, trusted={trusted})"
        case _:
            content = pickle.dumps(calibrator)
            how = f"joblib.load({name})"
    with replacing(target) as file:
        file.write(content)
    return how


def load_calibrator(file: str) -> Any:
    """The calibrator in a file, from which nothing is executed."""
    with reading.reading(file):
        if file.lower().endswith(".json"):
            return from_json(Path(file).read_text(encoding="utf-8-sig"))
        if not file.lower().endswith(".skops"):
            # Loading others executes what they say.
            raise ValueError("--apply takes files that end in .json or .skops")
        import skops.io

        types = skops.io.get_untrusted_types(file=file)
        foreign = [name for name in types if not name.startswith("skcalib.")]
        if foreign:
            raise ValueError(f"it holds {shown(foreign)}, neither of skcalib nor of scikit-learn")
        calibrator = skops.io.load(file, trusted=types)
        chain_of(calibrator, "--apply")
        return calibrator


# Application.
def apply(args: argparse.Namespace) -> None:
    """Write calibrated probabilities and labels of the logits in a file."""
    name = f"skcalib-probabilities{reading.kind_of(args.logits).replace('npz', 'npy')}"
    target = target_of(args, "--output", args.output, PROBABILITIES, name)
    show("reading ...")
    calibrator = load_calibrator(args.apply)
    if args.keep and target.suffix.lower() in {".npy", ".npz"}:
        raise ValueError(f"--keep needs a table as --output, .csv, .tsv or .parquet, got {target}.")
    with replacing(target) as file:
        n_rows = _write(file, target.suffix.lower(), _outputs(calibrator, args))
    classes = shown(calibrator.classes_)
    say(f"Calibrated probabilities of {n_rows:,} rows for the classes {classes}: {target}")


class Output(NamedTuple):
    """Results for one part of the rows."""

    P: Array  #: probabilities
    labels: Array  #: those that are predicted, or have the least expected cost
    columns: dict[str, Any]  #: of a table


def _outputs(calibrator: Any, args: argparse.Namespace) -> Iterator[Output]:
    """Probabilities and labels, of one part of the rows after the other."""
    named = reading.named_in(args)
    if reading.kind_of(args.logits) == ".parquet":
        parts = reading.partitions(args.logits, named)
    else:
        parts = iter([reading.read_logits(args.logits, named)])
    decide = _decision(calibrator, args)
    # Rows of several labels may be any numbers, also those of probabilities.
    k, has_several = -1, isinstance(calibrator, MultiLabelCalibrator)
    for k, part in enumerate(parts):
        _check_part(part, calibrator, args)
        Z = reading.as_logits(part.logits, args.logits, probabilities=args.probabilities)
        if k == 0 and not has_several:
            reading.warn_of_percentages(Z, args.logits)
            if are_probabilities(Z):
                warn_of_probabilities(Z.shape[1])
        P, labels = decide(calibrator.predict_proba(Z), calibrator.predict(Z))
        kept = dict(zip(args.keep, part.kept, strict=True))
        yield Output(P, labels, _columns(calibrator.classes_, P, labels, kept))
    if k < 0:
        raise ValueError(f"{args.logits} holds no rows.")


def _check_part(part: reading.LabelledLogits, calibrator: Any, args: argparse.Namespace) -> None:
    """Raise a ValueError for columns that are not those that the calibrator was fitted to."""
    check_column_names(part, calibrator.classes_, args.logits)
    reading.check_columns(part, args.logits, args)
    names, found = list(getattr(calibrator, "feature_names_in_", ())), list(part.columns)
    if names and found and names != found and not args.columns:
        raise ValueError(
            f"{args.logits} must have the columns that {args.apply} was fitted to, {shown(names)}, "
            f"got {shown(found)}; name those of logits in this order with --columns."
        )


def _decision(
    calibrator: Any, args: argparse.Namespace
) -> Callable[[Array, Array], tuple[Array, Array]]:
    """What --priors and --costs make of probabilities and labels."""
    classes, costs, shift = calibrator.classes_, args.costs, None
    n = len(classes)
    if (costs or args.priors) and isinstance(calibrator, MultiLabelCalibrator):
        raise ValueError("--priors and --costs are for one label per row, got several; omit them.")
    if costs and len(costs) != n**2:
        raise ValueError(
            f"--costs must be {n**2} numbers, for each of the {n} classes, if it is the true one, "
            f"the costs of the {n} labels, got {len(costs)}."
        )
    if args.priors:
        new, old = (
            check_priors(given, np.full(n, fill_value=True))
            for given in (args.priors, args.calibration_priors)
        )
        if not old.all():
            raise ValueError("--calibration-priors must be above 0, got 0; leave the class out.")
        shift = PriorShift.from_rates(before=old, after=new, classes=classes)

    def decided(P: Array, labels: Array) -> tuple[Array, Array]:
        if shift is not None:
            with np.errstate(divide="ignore"):  # of zeros, which are masked classes
                Z = np.log(P)
            P, labels = shift.predict_proba(Z), shift.predict(Z)
        return P, classes[bayes_decision(P, np.reshape(costs, (n, n)))] if costs else labels

    return decided


def _write(file: IO[bytes], kind: str, outputs: Iterator[Output]) -> int:
    """Write probabilities, and labels where there is room for them; returns the number of rows."""
    if kind == ".parquet":
        return _write_parquet(file, outputs)
    all_P, all_labels, tables = zip(*outputs, strict=True)
    P, labels = np.concatenate(all_P), np.concatenate(all_labels)
    if kind == ".npy":
        np.save(file, P)
    elif kind == ".npz":
        labels = labels.astype(str) if labels.dtype.kind == "O" else labels
        np.savez(file, probabilities=P, labels=labels)
    else:
        text = io.TextIOWrapper(file, "utf-8", newline="")
        table = csv.writer(text, delimiter="\t" if kind == ".tsv" else ",", lineterminator="\n")
        table.writerow(map(_as_text, tables[0]))
        for columns in tables:
            values = [column.tolist() for column in columns.values()]
            table.writerows([*map(_as_text, row)] for row in zip(*values, strict=True))
        text.detach()  # flushes it, and leaves the file open
    return len(P)


def _as_text(value: Any) -> Any:
    """A field of text, with an apostrophe where a spreadsheet would take it for a formula."""
    is_formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if is_formula and not reading.is_number(value) else value


def _columns(classes: Array, P: Array, labels: Array, kept: dict[str, Any]) -> dict[str, Any]:
    """Columns of tables by name: one for the label as well, unless a row may have several."""
    columns = dict(zip(map(str, classes.tolist()), P.T, strict=True))
    if labels.ndim == 1:
        columns["predicted label" if "label" in [*columns, *kept] else "label"] = labels
    if twice := kept.keys() & columns.keys():
        raise ValueError(f"--keep {shown(twice)} is a column of the results too; rename it.")
    return {**kept, **columns}


def _write_parquet(file: IO[bytes], outputs: Iterator[Output]) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    n_rows, tables = 0, (pa.table(output.columns) for output in outputs)
    first = next(tables)
    with pq.ParquetWriter(file, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)
            n_rows += len(table)
    return n_rows
