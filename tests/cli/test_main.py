"""The command line: the main job on the digits and on the user's files."""

import re
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from families import COMPARED
from scipy.special import softmax
from sklearn.metrics import brier_score_loss

import skcalib
from skcalib.__main__ import main
from skcalib._cli.jobs import _diagrams
from skcalib.datasets import make_logits
from skcalib.display import ReliabilityDisplay
from skcalib.metrics import expected_calibration_error, reliability_curve

NAME, REPORT = "skcalib-reliability.png", "skcalib-report.html"
GIVEN = ["--logits", "z.npy", "--labels", "y.npy"]
TEST = ["--test-logits", "z.npy", "--test-labels", "y.npy"]


def row(text, name="TemperatureScaling"):
    """The measures in the line of the table that starts with ``name``."""
    lines = text.splitlines()
    header = next(line for line in lines if "log loss" in line).replace("log loss", "loss")
    names = header.replace("classwise ECE", "classwise").replace("fit [s]", "").split()
    line = next(line for line in lines if line.startswith(name))
    fields = line.removeprefix(name).replace("*", "").split()[:-1]  # times differ from run to run
    return dict(zip(names, map(float, fields), strict=True))


@pytest.mark.slow
def test_digits(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([]) == 0
    out, err = capsys.readouterr()
    assert not err
    assert "Neural network on digits: 848 rows to calibrate on, 849 held out, 10 classes" in out
    before, after = row(out, "uncalibrated"), row(out)
    assert after["ECE"] < before["ECE"] / 2
    assert after["loss"] < before["loss"]
    assert after["accuracy"] == before["accuracy"]
    assert "The temperature is 3." in out
    assert "The classifier is over-confident" in out
    assert "lowers the ECE from" in out
    assert (tmp_path / NAME).read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / REPORT).read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert ">python -m skcalib<" in page
    for name in COMPARED:  # the comparison is part of the page
        assert name.__name__ in page.replace("<wbr>", "")
    assert {p.name for p in tmp_path.iterdir()} == {NAME, REPORT}


@pytest.mark.slow
def test_as_a_module():
    run = subprocess.run(
        [sys.executable, "-m", "skcalib", "--help"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("usage: python -m skcalib")


def test_help_is_worth_reading(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    for word in ("--test-labels", "--report", "--probabilities", ".npz", "Some commands:", "is 2"):
        assert word in text


def test_own_files(files, folder, quick, capsys):
    logits, y = files
    (folder / "out").mkdir()
    assert main([*GIVEN, *TEST, "--output", "out"]) == 0
    out, err = capsys.readouterr()
    assert not err
    assert out.startswith("z.npy: 200 rows to calibrate on, 200 held out, 3 classes\n")
    expected = expected_calibration_error(y, softmax(logits, axis=1))
    assert row(out, "uncalibrated")["ECE"] == pytest.approx(expected, abs=1e-4)
    temperature = skcalib.TemperatureScaling().fit(logits, y).temperature_
    assert f"The temperature is {temperature:.4g}." in out
    assert (folder / "out" / NAME).read_bytes() == b"drawn"


@pytest.mark.slow
def test_a_diagram_for_each_calibrator(files):
    logits, y = files
    curve = reliability_curve(y, softmax(logits, axis=1))
    curves = {f"c{k}": curve for k in range(6)}
    figure = _diagrams(curves)
    assert figure.get_size_inches().tolist() == [18, 10]
    assert len(figure.axes) == 6
    expected = ReliabilityDisplay(curve, name="c0").plot().ax_
    for k, ax in enumerate(figure.axes):
        place = ax.get_subplotspec()
        assert (place.rowspan.start, place.colspan.start) == divmod(k, 4)
        assert len(ax.patches) == len(expected.patches) > 5
    texts = [text.get_text() for text in figure.findobj(mpl.text.Text)]
    assert all(any(name in text for text in texts) for name in curves)


def test_the_report_is_on_the_best_calibrator_with_the_comparison(files, quick, capsys):
    quick.members.append(skcalib.HistogramBinning())
    assert main(GIVEN) == 0
    ((calibrator, logits, labels), named) = quick.reports.pop()
    assert len(logits) == len(labels) == 100
    best = next(name for name in named["comparison"].names if name != "uncalibrated")
    assert named["name"] == best == type(calibrator).__name__
    assert calibrator is named["comparison"].calibrators[best]
    assert "100 rows to calibrate on, 100 held out" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ([], [NAME, REPORT]),
        (["--output", "a.pdf"], ["a.pdf", "a-report.html"]),
        (["--output", "out"], [f"out/{NAME}", f"out/{REPORT}"]),
        (["--output", "out/my-reliability.svg"], ["out/my-reliability.svg", "out/my-report.html"]),
        (["--report", "r.html"], [NAME, "r.html"]),
        (["--report", "out/r.HTM", "--output", "a.PNG"], ["a.PNG", "out/r.HTM"]),
        (["--report", "out"], [NAME, f"out/{REPORT}"]),
    ],
)
def test_where_results_are_written(files, folder, quick, capsys, given, written):
    (folder / "out").mkdir()
    (folder / written[0]).write_text("old")
    before = set(folder.rglob("*.npy"))
    assert main([*GIVEN, *given]) == 0
    found = {p for p in folder.rglob("*") if p.is_file()} - before
    assert found == {folder / name for name in written}
    assert [(folder / name).read_text() for name in written] == ["drawn", "page"]
    out = capsys.readouterr().out
    assert (
        f"Reliability diagrams: {written[0]}\nReport on TemperatureScaling: {written[1]}\n" in out
    )


def test_text_and_arrays_are_the_same_rows(files, folder, quick, capsys):
    logits, y = files
    names = np.array(["ant", "bee", "cat"])[y]
    assert main(GIVEN) == 0
    expected = row(capsys.readouterr().out)
    np.savetxt("z.csv", logits, delimiter=",")
    (folder / "y.csv").write_text("\n".join(names) + "\n")
    frame = pd.DataFrame(logits, columns=list("abc"))
    frame.insert(1, "label", names)
    frame.to_csv("rows.tsv.gz", sep="\t", index=False)
    (folder / "whole.csv").write_text("label\n" + "\n".join(f"{k}.0" for k in y))
    (folder / "large.csv").write_text("\n".join(str(2**53 + k) for k in y))
    columns = ["--logits", "rows.tsv.gz", "--label-column", "label"]
    for arguments in (
        ["--logits", "z.csv", "--labels", "y.csv"],
        ["--logits", "z.npy", "--labels", "whole.csv"],
        ["--logits", "z.npy", "--labels", "large.csv"],
        columns,
    ):
        assert main(arguments) == 0
        out = capsys.readouterr().out
        assert row(out) == expected
        assert "100 held out, 3 classes" in out
    assert main([*columns, "--test-logits", "rows.tsv.gz"]) == 0
    assert "200 rows to calibrate on, 200 held out" in capsys.readouterr().out


def test_probabilities(files, quick, capsys):
    logits, y = files
    P = softmax(logits, axis=1)
    np.savez("run.npz", P=P, y=y[:, None])
    assert main(GIVEN) == 0
    expected = row(capsys.readouterr().out)
    assert main(["--logits", "run.npz:P", "--labels", "run.npz:y", "--probabilities"]) == 0
    assert row(capsys.readouterr().out) == expected
    zeros = np.where(P < 0.01, 0, P).astype(np.float32)
    np.save("p.npy", zeros / zeros.sum(axis=1, keepdims=True))
    assert main(["--logits", "p.npy", "--labels", "y.npy", "--probabilities"]) == 0


@pytest.mark.parametrize("probabilities", [False, True])
def test_two_classes_in_one_column(folder, quick, capsys, probabilities):
    logits, y = make_logits(600, 2, random_state=0)
    margin = logits[:, 1] - logits[:, 0]
    np.save("two.npy", logits)
    np.save("one.npy", 1 / (1 + np.exp(-margin)) if probabilities else margin)
    np.save("y.npy", y)
    assert main(["--logits", "two.npy", "--labels", "y.npy"]) == 0
    out = capsys.readouterr().out
    _, T, _, t = skcalib._cli.reading.train_test_split(
        logits, y, test_size=0.5, random_state=0, stratify=y
    )
    brier = brier_score_loss(t, softmax(T, axis=1)[:, 1])
    assert row(out, "uncalibrated")["Brier"] == pytest.approx(brier, abs=1e-4)
    flag = ["--probabilities"] if probabilities else []
    assert main(["--logits", "one.npy", "--labels", "y.npy", *flag]) == 0
    # A margin is the difference of two logits: the same temperature.
    assert row(capsys.readouterr().out) == pytest.approx(row(out), abs=2e-3)


def test_classes_in_the_order_of_the_columns(files, quick, capsys):
    quick.members.append(skcalib.VectorScaling())
    logits, y = files
    np.save("names.npy", np.array(["zebra", "ant", "bee"])[y])
    np.save("two.npy", logits[:, 1::-1])
    np.save("bool.npy", y > 0)
    outputs = []
    for labels, classes in (("y.npy", []), ("names.npy", ["--classes", "zebra", "ant", "bee"])):
        test = ["--test-logits", "z.npy", "--test-labels", labels]
        assert main(["--logits", "z.npy", "--labels", labels, *test, *classes]) == 0
        outputs.append(row(capsys.readouterr().out, "VectorScaling"))
    assert outputs[0] == outputs[1]
    arguments = ["--logits", "two.npy", "--labels", "bool.npy", "--classes", "True", "False"]
    assert main(arguments) == 0
    np.save("two.npy", logits[:, :2])
    assert row(capsys.readouterr().out)["accuracy"] > 0.5
    assert main([*arguments[:-2], "False", "True"]) == 0


def test_warnings_are_sentences(files, quick, capsys):
    logits, _ = files
    np.save("best.npy", logits.argmax(axis=1))
    assert main(["--logits", "z.npy", "--labels", "best.npy"]) == 0
    out, err = capsys.readouterr()
    assert err.startswith(
        "skcalib: warning: TemperatureScaling: The log loss has no minimum: every"
    )
    assert err.count("\n") == 1
    assert "under-confident" in out


def test_a_calibrator_that_does_not_help_is_said_not_to(files, quick, capsys):
    # The test rows are calibrated as they are; the calibrator has learned from others.
    calm, y = make_logits(4000, 3, temperature=1.0, random_state=1)
    np.save("tz.npy", calm)
    np.save("ty.npy", y)
    assert main([*GIVEN, "--test-logits", "tz.npy", "--test-labels", "ty.npy"]) == 0
    assert "does not lower the log loss" in " ".join(capsys.readouterr().out.split())


# --------------------------------------------------------------------------------------
# Bad input: one sentence, exit status 2, nothing written. Bad files are in test_files.

BAD = {
    "no labels": (["--logits", "z.npy"], "needs labels: give either --labels or --label-column"),
    "two labels": ([*GIVEN, "--label-column", "y"], "give either --labels or --label-column"),
    "no test labels": ([*GIVEN, "--test-logits", "z.npy"], "--test-logits and --test-labels go"),
    "no test logits": ([*GIVEN, "--test-labels", "y.npy"], "--test-logits and --test-labels go"),
    "test labels": (
        ["--logits", "z.csv", "--label-column", "y", "--test-labels", "y.npy"],
        "with --label-column, which holds for both files, leave --test-labels out",
    ),
    "only tests": (TEST, "nothing to calibrate on"),
    "only a flag": (["--probabilities"], "nothing to calibrate on: give --logits"),
    "only a column": (["--label-column", "y"], "nothing to calibrate on: give --logits"),
    "only classes": (["--classes", "y"], "nothing to calibrate on: give --logits"),
    "a column without a name": (["--label-column", ""], "nothing to calibrate on: give --logits"),
    "labels without a name": (["--logits", "z.npy", "--labels", "", *TEST], "it is no .npy, .npz"),
    "column of arrays": (["--logits", "z.npy", "--label-column", "y"], "a column of Parquet or t"),
    "parquet": (["--logits", "z.parquet", "--labels", "y.npy"], "Parquet needs --label-column"),
    "mixed classes": ([*GIVEN, "--classes", "0", "1", "b"], "labels of one type that can be sort"),
    "swapped": (["--logits", "y.npy", "--labels", "z.npy"], "must hold one label per row, got"),
    "nan": (["--logits", "nan.npy", "--labels", "y.npy"], "for masked classes, got 1 NaN"),
    "one class": (["--logits", "z.npy", "--labels", "same.npy"], "no row with label 1, 2; leave"),
    "an index": (
        ["--logits", "index.npy", "--labels", "y.npy"],
        "got 4 columns, and no row with label 3; leave out columns that are no classes",
    ),
    "many classes": (["--logits", "z.npy", "--labels", "many.npy"], "must be one column for each"),
    "classes": ([*GIVEN, "--classes", "0", "1"], "got 2 labels and 3 columns"),
    "bad classes": ([*GIVEN, "--classes", "a", "b", "c"], "which is not one of ['a', 'b', 'c']"),
    "new labels": (
        [*GIVEN, "--test-logits", "z.npy", "--test-labels", "other.npy"],
        "Labels of test must be among those of y, got 7",
    ),
    "no probabilities": ([*GIVEN, "--probabilities"], "must hold probabilities, got numbers from"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(files, folder, capsys, case):
    logits, y = files
    np.save("nan.npy", np.vstack([[np.nan, 0, 0], logits[1:]]))
    np.save("same.npy", np.zeros(200, int))
    np.save("many.npy", np.arange(200).astype(str))
    np.save("other.npy", np.where(y == 2, 7, y))
    np.save("index.npy", np.c_[np.arange(200), logits])
    before = {p.name for p in folder.iterdir()}
    args, sentence = BAD[case]
    assert main(args) == 2
    out, err = capsys.readouterr()
    assert sentence in err
    assert err.startswith("skcalib: ")
    assert err.count("\n") == 1
    assert not out
    assert {p.name for p in folder.iterdir()} == before


def test_an_option_that_there_is_not(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--logit", "z.npy", "--no-such"])
    assert stop.value.code == 2
    assert re.search("error: unrecognized arguments: --no-such", capsys.readouterr().err)
