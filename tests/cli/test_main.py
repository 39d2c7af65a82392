"""The command line: the main job on the digits and on the user's files."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from families import COMPARED
from scipy.special import expit, softmax
from sklearn.metrics import brier_score_loss

import skcalib
from skcalib.__main__ import main
from skcalib._cli.jobs import _diagrams, _of_chance
from skcalib._output import briefly, written
from skcalib.datasets import make_logits
from skcalib.export import to_json
from skcalib.metrics import expected_calibration_error, reliability_curve

NAME, REPORT = "skcalib-reliability.png", "skcalib-report.html"
GIVEN = "--logits z.npy --labels y.npy"
TEST = "--test-logits z.npy --test-labels y.npy"


def two_classes(logits, y):
    """Files of log-odds of the second class, with other columns beside them."""
    frame = pd.DataFrame({"risk": logits[:, 1] - logits[:, 0], "y": (y == 1).astype(int)})
    frame.to_csv("risk.csv", index=False)
    for name, column in {
        "id": 1000 + np.arange(len(y)),
        "patient": np.arange(len(y)) // 2,
        "name": [f"r{k}" for k in range(len(y))],
    }.items():
        file = "named" if name == "name" else name
        frame.assign(**{name: column})[[name, "risk", "y"]].to_csv(f"{file}.csv", index=False)


def row(text, name="TemperatureScaling"):
    """The measures in the line of the table that starts with ``name``."""
    lines = text.splitlines()
    header = next(line for line in lines if "log loss" in line).replace("log loss", "loss")
    names = header.replace("classwise ECE", "classwise").replace("fit [s]", "").split()
    line = next(line for line in lines if line.startswith(name))
    fields = line.removeprefix(name).replace("*", "").split()[:-1]  # times differ from run to run
    return dict(zip(names, map(float, fields), strict=True))


@pytest.mark.slow
def test_digits(tmp_path, monkeypatch, said):
    monkeypatch.chdir(tmp_path)
    out, err = said("")
    assert not err
    assert "Neural network on digits: 848 rows to calibrate on, 849 held out, 10 classes" in out
    before, after = row(out, "uncalibrated"), row(out)
    assert after["ECE"] < before["ECE"] / 2
    assert after["loss"] < before["loss"]
    assert after["accuracy"] == before["accuracy"]
    assert "The temperature is 3." in out
    assert "Before calibration the model is over-confident" in flat(out)
    assert "lowers the log loss (" in flat(out)
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


def test_version_names_those_of_other_packages(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    out = capsys.readouterr().out.replace("\n", " ")
    assert stop.value.code == 0
    assert f"skcalib {skcalib.__version__}, Python 3." in out
    assert f"NumPy {np.__version__}" in out


def test_own_files(files, folder, quick, said):
    logits, y = files
    (folder / "out").mkdir()
    out, err = said(f"{GIVEN} {TEST} --output out")
    assert not err
    assert out.startswith("z.npy: 200 rows to calibrate on, 200 held out, 3 classes\n")
    expected = expected_calibration_error(y, softmax(logits, axis=1))
    assert row(out, "uncalibrated")["ECE"] == pytest.approx(expected, abs=1e-4)
    temperature = skcalib.TemperatureScaling().fit(logits, y).temperature_
    assert f"The temperature is {temperature:.4g}." in out
    assert (folder / "out" / NAME).read_bytes() == b"drawn"


def test_the_diagram_of_the_uncalibrated_logits_is_the_first(files):
    logits, y = files
    curve = reliability_curve(y, softmax(logits, axis=1))
    *panels, _ = _diagrams(dict.fromkeys(["a", "b", "uncalibrated"], curve)).axes
    assert [ax.get_title().partition(":")[0] for ax in panels] == ["uncalibrated", "a", "b"]


def test_the_report_is_on_the_best_calibrator_with_the_comparison(files, quick, said):
    quick.members.append(skcalib.HistogramBinning())
    assert "100 rows to calibrate on, 100 held out" in said(GIVEN).out
    ((calibrator, logits, labels), named) = quick.reports.pop()
    assert len(logits) == len(labels) == 100
    best = next(name for name in named["comparison"].names if name != "uncalibrated")
    assert named["name"] == best == type(calibrator).__name__
    assert calibrator is named["comparison"].calibrators[best]


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("", [NAME, REPORT]),
        ("--output a.pdf", ["a.pdf", "a-report.html"]),
        ("--output out", [f"out/{NAME}", f"out/{REPORT}"]),
        ("--output out/my-reliability.svg", ["out/my-reliability.svg", "out/my-report.html"]),
        ("--report r.html", [NAME, "r.html"]),
        ("--report out/r.HTM --output a.PNG", ["a.PNG", "out/r.HTM"]),
        ("--report out", [NAME, f"out/{REPORT}"]),
    ],
)
def test_where_results_are_written(files, folder, quick, said, given, written):
    (folder / "out").mkdir()
    (folder / written[0]).write_text("old")
    before = set(folder.rglob("*.npy"))
    out = said(f"{GIVEN} {given}").out
    found = {p for p in folder.rglob("*") if p.is_file()} - before
    assert found == {folder / name for name in written}
    assert [(folder / name).read_text() for name in written] == ["drawn", "page"]
    pictures, report = written
    assert f"Reliability diagrams: {pictures}\nReport on TemperatureScaling: {report}\n" in out


def test_probabilities(files, quick, said):
    logits, y = files
    P = softmax(logits, axis=1)
    np.savez("run.npz", P=P, y=y[:, None])
    out = said("--logits run.npz:P --labels run.npz:y --probabilities").out
    assert row(out) == row(said(GIVEN).out)
    zeros = np.where(P < 0.01, 0, P).astype(np.float32)
    np.save("p.npy", zeros / zeros.sum(axis=1, keepdims=True))
    said("--logits p.npy --labels y.npy --probabilities")


@pytest.mark.parametrize("flag", ["", "--probabilities"])
def test_two_classes_in_one_column(folder, quick, said, flag):
    logits, y = make_logits(600, 2, random_state=0)
    margin = logits[:, 1] - logits[:, 0]
    np.save("two.npy", logits)
    np.save("one.npy", expit(margin) if flag else margin)
    np.save("y.npy", y)
    of_two, of_one = (
        said(f"--logits {given} --labels y.npy").out for given in ("two.npy", f"one.npy {flag}")
    )
    _, T, _, t = skcalib._cli.reading.train_test_split(
        logits, y, test_size=0.5, random_state=0, stratify=y
    )
    brier = brier_score_loss(t, softmax(T, axis=1)[:, 1])
    assert row(of_two, "uncalibrated")["Brier"] == pytest.approx(brier, abs=1e-4)
    # A margin is the difference of two logits: the same temperature.
    assert row(of_one) == pytest.approx(row(of_two), abs=2e-3)


def test_classes_in_the_order_of_the_columns(files, quick, said):
    quick.members.append(skcalib.VectorScaling())
    logits, y = files
    np.save("names.npy", np.array(["zebra", "ant", "bee"])[y])
    np.save("two.npy", logits[:, 1::-1])
    np.save("bool.npy", y > 0)
    by_number, by_name = (
        row(said(f"{GIVEN} {TEST} {more}".replace("y.npy", labels)).out, "VectorScaling")
        for labels, more in (("y.npy", ""), ("names.npy", "--classes zebra ant bee"))
    )
    assert by_number == by_name
    given = "--logits two.npy --labels bool.npy --classes"
    assert row(said(f"{given} True False").out)["accuracy"] > 0.5
    np.save("two.npy", logits[:, :2])
    said(f"{given} False True")


@pytest.mark.parametrize(
    "line",
    [
        "id.csv --drop id",
        "id.csv --columns risk",
        "patient.csv --columns risk",
        "named.csv --drop name",
        "named.csv --drop name --test-logits named.csv",
    ],
)
def test_columns_that_are_no_logits(files, quick, said, line):
    two_classes(*files)
    out, err = said(f"--label-column y --logits {line}")
    assert not err
    if "--test-logits" not in line:
        assert row(out) == row(said("--label-column y --logits risk.csv").out)


@pytest.mark.parametrize(
    "line", ["id.csv --columns id risk", "id.csv --columns risk id", "patient.csv --classes 0 1"]
)
def test_whoever_names_columns_or_classes_knows_that_these_are_logits(files, quick, said, line):
    two_classes(*files)
    said(f"--label-column y --logits {line}")


def test_columns_in_the_order_of_the_command_line(files, quick, said):
    quick.members.append(skcalib.VectorScaling())
    logits, y = files
    frame = pd.DataFrame(logits[:, [2, 0, 1]], columns=["c", "a", "b"])
    frame.assign(y=y).to_csv("z.csv")  # with an index, whose name is empty
    expected = row(said(GIVEN).out, "VectorScaling")
    found = said("--logits z.csv --label-column y --columns a b c").out
    assert row(found, "VectorScaling") == expected
    frame.to_csv("z.csv", index=False)
    found = said("--logits z.csv --labels y.npy --columns a b c").out
    assert row(found, "VectorScaling") == expected


@pytest.mark.parametrize(
    ("names", "is_right"),
    [
        (["logit_0", "logit_1"], True),
        (["p1", "other"], True),
        (["0", "1"], True),  # as pandas counts
        (["neg", "pos"], False),
    ],
)
def test_names_of_two_columns(files, quick, names, is_right):
    logits, y = files
    frame = pd.DataFrame(logits[:, :2], columns=names).assign(y=np.where(y == 1, 1, 0))
    frame.to_csv("z.csv", index=False)
    given = ["--logits", "z.csv", "--label-column", "y"]
    assert main(given) == (0 if is_right else 2)
    assert main([*given, "--columns", *names]) == 0
    frame.assign(y=np.array(["ant", "bee"])[frame.y]).to_csv("z.csv", index=False)
    assert main(given) == (0 if names == ["0", "1"] else 2)


@pytest.mark.parametrize(("n", "status"), [(19, 0), (20, 2)])
def test_few_rows_may_all_have_other_whole_numbers(folder, quick, n, status):
    logits, _ = make_logits(n, 3, random_state=0)
    np.save("y.npy", np.arange(n) % 3)
    np.save("z.npy", np.c_[np.arange(n), logits[:, :2]])
    assert main(GIVEN.split()) == status


def flat(text):
    """The text in one line."""
    return " ".join(text.split())


def test_logits_no_better_than_chance(files, quick, said, rng):
    """It says so before anything else, also where some measure is much lower afterwards."""
    quick.members.append(skcalib.VectorScaling())
    chance = "These logits are no better than chance, as far as the held-out rows show: the least"
    assert chance not in flat(said(GIVEN).out)
    counts = np.array([100, 60, 40])
    np.save("y.npy", np.repeat(np.arange(3), counts))
    for z in (rng.normal(size=(200, 3)), 30 * rng.normal(size=(200, 3)), np.zeros((200, 3))):
        np.save("z.npy", z)
        out = flat(said(GIVEN).out)
        assert out.index(f"{chance} log") < out.index("Verdict.")
        assert f"{-counts / 200 @ np.log(counts / 200):.4f} that of the frequencies" in out


@pytest.mark.slow
def test_chance_is_seldom_better_than_chance(rng):
    """Of 300 samples without information, at most 5 % are said to have some."""
    wrong = 0
    for _ in range(300):
        share = rng.dirichlet(np.ones(3))
        y = rng.choice(3, 200, p=share)
        members = {f"c{k}": np.log(rng.dirichlet(50 * share + 0.1, size=200)) for k in range(5)}
        losses = np.array([-Z[np.arange(200), y].mean() for Z in members.values()])
        found = SimpleNamespace(mean=lambda _, losses=losses: losses)
        wrong += not _of_chance(found, np.unique(y, return_counts=True)[1])
    assert wrong <= 15


def test_small_numbers_are_written_with_digits_that_count():
    """Of rare events log losses differ in the third digit."""
    numbers = [0, 0.5, 0.01, 0.0035138, 0.0035210, -0.0035210, 6.3e-6]
    texts = ["0.0000", "0.5000", "0.0100", "0.00351", "0.00352", "-0.00352", "6.3e-06"]
    assert [written(number) for number in numbers] == texts
    in_pictures = ["0.000", "0.500", "0.010", "0.0035", "0.0035"]
    assert [briefly(number) for number in numbers[:5]] == in_pictures


def test_a_column_of_probabilities_is_a_warning(files, quick, said):
    two_classes(*files)
    frame = pd.read_csv("risk.csv")
    frame.assign(risk=expit(frame.risk)).to_csv("p.csv", index=False)
    err = said("--logits p.csv --label-column y").err
    assert err.startswith("skcalib: warning: The column of X is between 0 and 1")
    assert "Add --probabilities.\n" in err
    assert not said("--logits p.csv --label-column y --probabilities").err


@pytest.mark.parametrize(
    ("least", "most", "is_noticed"),
    [(0, 100, True), (0, 36, False), (-9, 90, False), (0, 101, False)],  # a score may end at 36
)
def test_a_column_of_percentages_is_a_warning(folder, quick, said, least, most, is_noticed):
    column, y = np.linspace(least, most, 200), np.arange(200) % 3 == 0
    np.save("p.npy", column)
    np.save("y.npy", y)
    err = said("--logits p.npy --labels y.npy").err
    assert ("The column of p.npy is between 0 and 100: it probably holds perc" in err) == is_noticed
    Path("c.json").write_text(to_json(skcalib.PlattScaling().fit(column[:, None], y)))
    err = said("--apply c.json --logits p.npy").err
    assert err.count("holds percentages") == is_noticed


def test_the_label_of_the_second_column_is_said(files, quick, said):
    two_classes(*files)
    frame, given = pd.read_csv("risk.csv"), "--logits risk.csv --label-column y"
    assert "second column" not in said(given).out
    frame.assign(y=np.array(["survived", "died"])[frame.y]).to_csv("risk.csv", index=False)
    for more, label in (("", "survived"), ("--classes survived died", "died")):
        out = said(f"{given} {more}").out
        assert f"2 classes\nLabel '{label}' is that of the second column" in out


def test_warnings_are_sentences(files, quick, said):
    logits, _ = files
    np.save("best.npy", logits.argmax(axis=1))
    err = said("--logits z.npy --labels best.npy").err
    start = "skcalib: warning: TemperatureScaling: The log loss has no minimum: every"
    assert err.startswith(start)
    assert err.count("\n") == 1


# --------------------------------------------------------------------------------------
# Bad input: one sentence, exit status 2, nothing written. Bad files are in test_files.

ID = "--logits id.csv --label-column y"
BAD = [
    ("--logits z.npy", "needs labels: give either --labels or --label-column"),
    (f"{GIVEN} --label-column y", "give either --labels or --label-column"),
    (f"{GIVEN} --test-logits z.npy", "--test-logits and --test-labels go"),
    (f"{GIVEN} --test-labels y.npy", "--test-logits and --test-labels go"),
    (
        "--logits z.csv --label-column y --test-labels y.npy",
        "with --label-column, which holds for both files, leave --test-labels out",
    ),
    (TEST, "nothing to calibrate on"),
    ("--probabilities", "nothing to calibrate on: give --logits"),
    ("--label-column y", "nothing to calibrate on: give --logits"),
    ("--classes y", "nothing to calibrate on: give --logits"),
    ("--label-column ''", "nothing to calibrate on: give --logits"),
    (f"--logits z.npy --labels '' {TEST}", "it is no .npy, .npz"),
    ("--logits z.npy --label-column y", "a column of Parquet or t"),
    ("--logits z.parquet --labels y.npy", "Parquet needs --label-column"),
    (f"{GIVEN} --classes 0 1 b", "labels of one type that can be sort"),
    ("--logits y.npy --labels z.npy", "must hold one label per row, got"),
    ("--logits nan.npy --labels y.npy", "for masked classes, got 1 NaN"),
    ("--logits z.npy --labels same.npy", "no row with label 1, 2; leave"),
    (
        "--logits groups.npy --labels y.npy",
        "got 4 columns, and no row with label 3; leave out columns that are no classes, such as an "
        "index, with --drop, or name",
    ),
    ("--logits index.npy --labels y.npy", "Column 0 of index.npy holds anot"),
    ("--logits patient.csv --label-column y", "'patient', 'risk' of patient.csv name "),
    (ID, "Column 'id' of id.csv holds another whole number"),
    (f"{ID} --drop risk", "Column 'id' of id.csv holds another whole number"),
    (f"{GIVEN} --test-logits index.npy --test-labels y.npy", "Column 0 of index.npy"),
    ("--logits named.csv --label-column y", "its columns 'name' hold text; leave them out w"),
    (f"{ID} --columns a", "; --columns is 'a'"),
    (f"{ID} --drop no", "'id', 'risk', 'y'; --drop"),
    (f"{ID} --drop id risk", "a table of numbers"),
    (f"{GIVEN} --columns a", "--columns names a column of Parquet or text"),
    ("--columns a", "nothing to calibrate on: give --logits"),
    ("--drop a", "nothing to calibrate on: give --logits"),
    (f"{GIVEN} --keep a", "--keep, --priors and --costs go with --apply"),
    (f"{GIVEN} --costs 0", "--keep, --priors and --costs go with --apply"),
    ("--logits z.npy --labels many.npy", "must be one column for each"),
    (f"{GIVEN} --classes 0 1", "got 2 labels and 3 columns"),
    (f"{GIVEN} --classes a b c", "which is not one of ['a', 'b', 'c']"),
    (
        f"{GIVEN} --test-logits z.npy --test-labels other.npy",
        "of test must be among those of y, got 7",
    ),
    (f"{GIVEN} --probabilities", "must hold probabilities, got numbers from"),
]


@pytest.mark.parametrize(("line", "sentence"), BAD)
def test_bad_input(files, refusal, line, sentence):
    logits, y = files
    np.save("nan.npy", np.vstack([[np.nan, 0, 0], logits[1:]]))
    np.save("same.npy", np.zeros(200, int))
    np.save("many.npy", np.arange(200).astype(str))
    np.save("other.npy", np.where(y == 2, 7, y))
    np.save("index.npy", np.c_[np.arange(200), logits])
    np.save("groups.npy", np.c_[np.arange(200) // 2, logits])
    two_classes(logits, y)
    assert sentence in refusal(line)
