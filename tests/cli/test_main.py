"""The command line: the main job, the user's files, and files that are no good."""

import contextlib
import io
import re
import subprocess
import sys
import types

import dask.dataframe as dd
import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from families import COMPARED
from scipy.special import softmax
from sklearn.metrics import brier_score_loss

import skcalib
from skcalib._cli import parquet as _parquet
from skcalib._cli.files import LabelledLogits
from skcalib._cli.loading import _halves
from skcalib._cli.main import _diagrams, main
from skcalib.datasets import make_logits
from skcalib.display import ReliabilityDisplay
from skcalib.metrics import expected_calibration_error, reliability_curve

NAME, REPORT = "skcalib-reliability.png", "skcalib-report.html"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def files(folder):
    logits, y = make_logits(600, 3, random_state=0)
    np.save("z.npy", logits)
    np.save("y.npy", y)
    return logits, y


@pytest.fixture
def unseen(monkeypatch):
    """Saves the seconds that drawing takes, where the picture is not what the test is about."""

    monkeypatch.setattr("skcalib._cli.main._diagrams", lambda *_: None)
    report = types.SimpleNamespace(to_html=lambda: "page")
    monkeypatch.setattr("skcalib._cli.main.calibration_report", lambda *_, **__: report)
    monkeypatch.setattr("skcalib._cli.main._save", lambda figure, path: path.write_text("drawn"))


def row(text, name):
    """The measures in the line of the table that starts with ``name``."""
    lines = text.splitlines()
    header = next(line for line in lines if "log loss" in line).replace("log loss", "loss")
    names = header.replace("classwise ECE", "classwise").replace("fit [s]", "").split()
    line = next(line for line in lines if line.startswith(name))
    fields = line.removeprefix(name).replace("*", "").split()[:-1]  # times differ from run to run
    return dict(zip(names, map(float, fields), strict=True))


@pytest.mark.slow
def test_digits(folder, capsys):
    assert main([]) == 0
    out, err = capsys.readouterr()
    assert not err
    assert "848 rows to calibrate on, 849 held out, 10 classes" in out
    before, after = row(out, "uncalibrated"), row(out, "TemperatureScaling")
    assert after["ECE"] < before["ECE"] / 2
    assert after["loss"] < before["loss"]
    assert after["accuracy"] == before["accuracy"]
    assert "The temperature is 3." in out
    assert "The classifier is over-confident" in out
    assert "lowers the ECE from" in out
    assert (folder / NAME).read_bytes().startswith(b"\x89PNG")
    page = (folder / REPORT).read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>")
    for name in COMPARED:  # the comparison is part of the page
        assert name.__name__ in page.replace("<wbr>", "")
    assert {p.name for p in folder.iterdir()} == {NAME, REPORT}


@pytest.mark.slow
def test_as_a_module():
    run = subprocess.run(
        [sys.executable, "-m", "skcalib", "--help"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("usage: python -m skcalib")


def test_own_files(files, folder, capsys, unseen):
    logits, y = files
    (folder / "out").mkdir()
    args = ["--logits", "z.npy", "--labels", "y.npy"]
    test = ["--test-logits", "z.npy", "--test-labels", "y.npy"]
    assert main([*args, *test, "--output", "out"]) == 0
    out = capsys.readouterr().out
    assert "600 rows to calibrate on, 600 held out, 3 classes" in out
    expected = expected_calibration_error(y, softmax(logits, axis=1))
    assert row(out, "uncalibrated")["ECE"] == pytest.approx(expected, abs=1e-4)
    assert (folder / "out" / NAME).exists()


def test_a_diagram_for_each_calibrator(files):
    logits, y = files
    P = softmax(logits, axis=1)
    curve = reliability_curve(y, P)
    curves = {f"c{k}": curve for k in range(6)}
    figure = _diagrams(curves)
    assert figure.get_size_inches().tolist() == [18, 10]
    assert len(figure.axes) == 6
    expected = ReliabilityDisplay(curve, name="c0").plot().ax_
    for k, ax in enumerate(figure.axes):
        assert (ax.get_subplotspec().rowspan.start, ax.get_subplotspec().colspan.start) == divmod(
            k, 4
        )
        assert len(ax.patches) == len(expected.patches) > 5
    texts = [text.get_text() for text in figure.findobj(mpl.text.Text)]
    assert all(any(name in text for text in texts) for name in curves)


def test_half_of_the_rows_is_held_out(files, capsys, unseen):
    assert main(["--logits", "z.npy", "--labels", "y.npy"]) == 0
    assert "300 rows to calibrate on, 300 held out" in capsys.readouterr().out


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_output_file_is_replaced(files, folder, suffix, unseen):
    target = folder / f"picture{suffix}"
    target.write_text("old")
    assert main(["--logits", "z.npy", "--labels", "y.npy", "--output", str(target)]) == 0
    assert target.read_bytes() != b"old"
    names = {"z.npy", "y.npy", target.name, "picture-report.html"}
    assert {p.name for p in folder.iterdir()} == names


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ([], REPORT),
        (["--output", "a.pdf"], "a-report.html"),
        (["--output", "out"], f"out/{REPORT}"),
        (["--output", "out/my-reliability.svg"], "out/my-report.html"),
        (["--report", "r.html"], "r.html"),
        (["--report", "out/r.HTM", "--output", "a.png"], "out/r.HTM"),
        (["--report", "out"], f"out/{REPORT}"),
    ],
)
def test_where_the_report_is_written(files, folder, capsys, given, written, unseen):
    (folder / "out").mkdir()
    assert main(["--logits", "z.npy", "--labels", "y.npy", *given]) == 0
    assert (folder / written).read_text() == "page"
    assert len(list(folder.rglob("*.[hH][tT][mM]*"))) == 1
    assert re.search(rf"^Report on \w+: {re.escape(written)}$", capsys.readouterr().out, re.M)


def test_the_report_is_on_the_best_calibrator_with_the_comparison(files, unseen, monkeypatch):
    seen = []
    report = types.SimpleNamespace(to_html=lambda: "page")
    monkeypatch.setattr(
        "skcalib._cli.main.calibration_report",
        lambda *positional, **named: (seen.append((positional, named)), report)[1],
    )
    assert main(["--logits", "z.npy", "--labels", "y.npy"]) == 0
    ((calibrator, logits, labels), named) = seen.pop()
    assert len(logits) == len(labels) == 300
    best = next(name for name in named["comparison"].names if name != "uncalibrated")
    assert named["name"] == best == type(calibrator).__name__
    assert calibrator is named["comparison"].calibrators[best]


@pytest.mark.parametrize("header", ["", "a,b,c\n"])
def test_csv(files, folder, capsys, header, unseen):
    logits, y = files
    with (folder / "z.csv").open("w") as file:
        file.write(header)
        np.savetxt(file, logits, delimiter=",")
    names = np.array(["ant", "bee", "cat"])[y]
    (folder / "y.csv").write_text("\n".join(names) + "\n")
    assert main(["--logits", "z.npy", "--labels", "y.npy"]) == 0
    from_npy = capsys.readouterr().out
    assert main(["--logits", "z.csv", "--labels", "y.csv"]) == 0
    from_csv = capsys.readouterr().out
    for name in ("uncalibrated", "TemperatureScaling"):
        assert row(from_csv, name) == row(from_npy, name)


def test_csv_of_whole_numbers_are_column_numbers(files, folder, capsys, unseen):
    _, y = files
    (folder / "y.csv").write_text("label\n" + "\n".join(f"{k}.0" for k in y))
    assert main(["--logits", "z.npy", "--labels", "y.csv"]) == 0
    assert "3 classes" in capsys.readouterr().out


def test_csv_with_a_byte_order_mark(files, folder, capsys, unseen):
    _, y = files
    (folder / "y.csv").write_text("\n".join(map(str, y)), encoding="utf-8-sig")
    assert main(["--logits", "z.npy", "--labels", "y.csv"]) == 0
    assert "300 rows to calibrate on, 300 held out" in capsys.readouterr().out


def test_npz_with_probabilities(files, folder, capsys, unseen):
    logits, y = files
    P = softmax(logits, axis=1)
    np.savez(folder / "run.npz", P=P, y=y[:, None])
    np.savez(folder / "one.npz", y)
    assert main(["--logits", "z.npy", "--labels", "one.npz"]) == 0
    expected = capsys.readouterr().out
    assert main(["--logits", "run.npz:P", "--labels", "run.npz:y", "--probabilities"]) == 0
    out = capsys.readouterr().out
    assert row(out, "TemperatureScaling") == row(expected, "TemperatureScaling")


@pytest.mark.parametrize("probabilities", [False, True])
def test_two_classes_in_one_column(folder, capsys, probabilities, unseen):
    logits, y = make_logits(600, 2, random_state=0)
    margin = logits[:, 1] - logits[:, 0]
    np.save("two.npy", logits)
    np.save("one.npy", 1 / (1 + np.exp(-margin)) if probabilities else margin)
    np.save("y.npy", y)
    assert main(["--logits", "two.npy", "--labels", "y.npy"]) == 0
    expected = row(capsys.readouterr().out, "TemperatureScaling")
    flag = ["--probabilities"] if probabilities else []
    assert main(["--logits", "one.npy", "--labels", "y.npy", *flag]) == 0
    got = row(capsys.readouterr().out, "TemperatureScaling")
    # A margin is the difference of two logits: the same temperature.
    assert got == pytest.approx(expected, abs=2e-3)


def test_brier_score_is_that_of_scikit_learn(folder, capsys, unseen):
    logits, y = make_logits(300, 2, random_state=0)
    np.save("z.npy", logits)
    np.save("y.npy", y)
    files = ["--logits", "z.npy", "--labels", "y.npy"]
    assert main([*files, "--test-logits", "z.npy", "--test-labels", "y.npy"]) == 0
    expected = brier_score_loss(y, softmax(logits, axis=1)[:, 1])
    assert row(capsys.readouterr().out, "uncalibrated")["Brier"] == pytest.approx(
        expected, abs=1e-4
    )


def test_halves_share_every_class(rng):
    y = rng.permutation(np.repeat([0, 1], [196, 4]))
    calibration, test = _halves(LabelledLogits(rng.normal(size=(200, 2)), y))
    assert calibration.labels.sum() == test.labels.sum() == 2


def test_probabilities_of_zero_are_no_obstacle(folder, capsys, unseen):
    logits, y = make_logits(300, 3, temperature=200.0, random_state=0)
    np.save("p.npy", softmax(logits, axis=1).astype(np.float32))
    np.save("y.npy", y)
    assert main(["--logits", "p.npy", "--labels", "y.npy", "--probabilities"]) == 0


def test_classes_in_the_order_of_the_columns(files, folder, capsys, unseen):
    _, y = files
    np.save("names.npy", np.array(["zebra", "ant", "bee"])[y])
    outputs = []
    for labels, classes in (("y.npy", []), ("names.npy", ["--classes", "zebra", "ant", "bee"])):
        calibration = ["--logits", "z.npy", "--labels", labels]
        test = ["--test-logits", "z.npy", "--test-labels", labels]
        assert main([*calibration, *test, *classes]) == 0
        outputs.append(row(capsys.readouterr().out, "VectorScaling"))
    assert outputs[0] == outputs[1]


def test_boolean_labels_in_the_order_of_the_columns(folder, capsys, unseen):
    logits, y = make_logits(300, 2, random_state=0)
    np.save("z.npy", logits)
    np.save("other.npy", logits[:, ::-1])
    np.save("y.npy", y.astype(bool))
    lines = []
    for columns, classes in (("z", ["False", "True"]), ("other", ["True", "False"])):
        files = ["--logits", f"{columns}.npy", "--labels", "y.npy"]
        assert main([*files, "--classes", *classes]) == 0
        lines.append(row(capsys.readouterr().out, "TemperatureScaling"))
    assert lines[0] == lines[1]


def test_labels_in_a_column_of_text(files, folder, capsys, unseen):
    logits, y = files
    assert main(["--logits", "z.npy", "--labels", "y.npy"]) == 0
    expected = row(capsys.readouterr().out, "VectorScaling")
    frame = pd.DataFrame(logits, columns=list("abc"))
    frame.insert(1, "label", np.array(["ant", "bee", "cat"])[y])
    frame.to_csv("rows.tsv.gz", sep="\t", index=False)
    arguments = ["--logits", "rows.tsv.gz", "--label-column", "label"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "rows.tsv.gz: 300 rows to calibrate on, 300 held out, 3 classes" in out
    assert row(out, "VectorScaling") == expected
    assert main([*arguments, "--test-logits", "rows.tsv.gz"]) == 0
    assert "600 rows to calibrate on, 600 held out" in capsys.readouterr().out


def test_labels_beyond_the_exact_numbers_of_floats(files, folder, capsys, unseen):
    _, y = files
    (folder / "y.csv").write_text("\n".join(str(2**53 + k) for k in y))
    assert main(["--logits", "z.npy", "--labels", "y.csv"]) == 0
    assert "3 classes" in capsys.readouterr().out


def test_warnings_are_sentences(files, capsys, unseen):
    logits, _ = files
    np.save("best.npy", logits.argmax(axis=1))
    assert main(["--logits", "z.npy", "--labels", "best.npy"]) == 0
    out, err = capsys.readouterr()
    names = "EnsembleTemperatureScaling, TemperatureScaling, AutoCalibrator"
    assert err.startswith(f"skcalib: warning: {names}: The log loss")
    assert "The log loss has no minimum: every row is classified" in err
    assert err.count("\n") == 1
    assert "under-confident" in out


def test_a_calibrator_that_does_not_help_is_said_not_to(files, folder, capsys, unseen):
    # The test rows are calibrated as they are; the calibrator has learned from others.
    calm, y = make_logits(4000, 3, temperature=1.0, random_state=1)
    np.save("tz.npy", calm)
    np.save("ty.npy", y)
    args = ["--logits", "z.npy", "--labels", "y.npy"]
    assert main([*args, "--test-logits", "tz.npy", "--test-labels", "ty.npy"]) == 0
    assert "does not lower the log loss" in " ".join(capsys.readouterr().out.split())


def test_rare_class_in_the_split(folder, capsys, unseen):
    logits, y = make_logits(200, 3, random_state=0)
    y = np.where(y == 2, 0, y)
    y[0] = 2  # one row of its class: no stratified split
    np.save("z.npy", logits)
    np.save("y.npy", y)
    assert main(["--logits", "z.npy", "--labels", "y.npy"]) == 0
    assert "3 classes" in capsys.readouterr().out


def test_progress_is_shown_on_a_terminal_only(files, monkeypatch, capsys, unseen):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for stream, shown in ((io.StringIO(), False), (Terminal(), True)):
        monkeypatch.setattr(sys, "stderr", stream)
        assert main(["--logits", "z.npy", "--labels", "y.npy"]) == 0
        text = stream.getvalue()
        if not shown:
            assert text == ""
            continue
        # From the first moment to the last, each line over the one before, and nothing is left.
        n = len(COMPARED) + 1  # and the uncalibrated logits
        of = f"of {n} fits"
        steps = ["reading ...", "calibrating ...", f"1 {of}", f"{n} {of}", "drawing ..."]
        places = [text.index(step) for step in steps]
        assert places == sorted(places)
        assert text.startswith("\rreading ...\rcalibrating")
        assert f"[{'=' * 30}] {n} {of}" in text
        assert text.endswith(f"\rdrawing ...\r{' ' * 11}\r")


def test_help_is_worth_reading(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    for word in (
        "--logits",
        "--test-labels",
        "--report",
        "--probabilities",
        ".npz",
        "examples:",
        "status is 2",
    ):
        assert word in text


# --------------------------------------------------------------------------------------
# Bad files: one sentence, exit status 2, nothing written.

GIVEN = ["--logits", "z.npy", "--labels", "y.npy"]
BAD = {
    "no labels": (["--logits", "z.npy"], "--logits and --labels go together"),
    "no test labels": ([*GIVEN, "--test-logits", "z.npy"], "--test-logits and --test-labels go"),
    "only tests": (["--test-logits", "z.npy", "--test-labels", "y.npy"], "nothing to calibrate on"),
    "only a flag": (["--probabilities"], "nothing to calibrate on: give --logits"),
    "missing": (["--logits", "no.npy", "--labels", "y.npy"], "no.npy does not exist"),
    "text": (
        ["--logits", "z.txt", "--labels", "y.npy"],
        "must be a .npy, .npz, .csv or .tsv file",
    ),
    "no npy": (["--logits", "fake.npy", "--labels", "y.npy"], "fake.npy cannot be read: "),
    "cut npy": (["--logits", "cut.npy", "--labels", "y.npy"], "cut.npy cannot be read: "),
    "no npz": (["--logits", "fake.npz", "--labels", "y.npy"], "fake.npz cannot be read: "),
    "objects": (["--logits", "z.npy", "--labels", "o.npy"], "o.npy cannot be read: "),
    "which array": (["--logits", "two.npz", "--labels", "y.npy"], "holds the arrays a, b: name"),
    "wrong array": (["--logits", "two.npz:c", "--labels", "y.npy"], "as in two.npz:a"),
    "empty": (["--logits", "none.npy", "--labels", "y.npy"], "none.npy is empty"),
    "empty csv": (["--logits", "none.csv", "--labels", "y.npy"], "none.csv is empty"),
    "ragged": (["--logits", "ragged.csv", "--labels", "y.npy"], "lines differ in the number of"),
    "words": (["--logits", "words.csv", "--labels", "y.npy"], "must hold a table of numbers"),
    "cube": (["--logits", "cube.npy", "--labels", "y.npy"], r"numbers, got shape (2, 2, 2)"),
    "label table": (
        ["--logits", "z.npy", "--labels", "z.npy"],
        "must hold one label per row, numbers or",
    ),
    "lengths": (["--logits", "z.npy", "--labels", "few.npy"], "got 600 and 3 rows"),
    "nan": (["--logits", "nan.npy", "--labels", "y.npy"], "for masked classes, got 1 NaN"),
    "one class": (["--logits", "z.npy", "--labels", "same.npy"], "at least two classes"),
    "classes": ([*GIVEN, "--classes", "0", "1"], "got 2 labels and 3 columns"),
    "bad classes": (
        [*GIVEN, "--classes", "a", "b", "c"],
        "--classes must be integers, as",
    ),
    "no probabilities": ([*GIVEN, "--probabilities"], "must hold probabilities, got numbers from"),
    "new labels": (
        [*GIVEN, "--test-logits", "z.npy", "--test-labels", "other.npy"],
        "Labels of test must be among those of y, got 7",
    ),
    "output folder": ([*GIVEN, "--output", "nowhere/p.png"], "must lie in a directory that exists"),
    "output kind": (
        [*GIVEN, "--output", "p.txt"],
        "or a file that ends in .png, .pdf or .svg",
    ),
    "report folder": (
        [*GIVEN, "--report", "nowhere/r.html"],
        "--report nowhere/r.html must lie in",
    ),
    "report kind": (
        [*GIVEN, "--report", "r.png"],
        "--report r.png must be a directory that exists, or a file that ends in .html or .htm.",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(files, folder, capsys, case):
    logits, y = files
    (folder / "z.txt").write_text("1 2 3")
    (folder / "fake.npy").write_text("not an array")
    (folder / "fake.npz").write_text("not an archive")
    (folder / "cut.npy").write_bytes((folder / "z.npy").read_bytes()[:1000])
    (folder / "none.csv").write_text("")
    (folder / "ragged.csv").write_text("1,2,3\n1,2\n")
    (folder / "words.csv").write_text("a,b\nc,d\n")
    np.save("o.npy", np.array(["a", None], dtype=object))
    np.savez("two.npz", a=logits, b=y)
    np.save("none.npy", np.zeros((0, 3)))
    np.save("cube.npy", np.zeros((2, 2, 2)))
    np.save("few.npy", y[:3])
    np.save("nan.npy", np.vstack([[np.nan, 0, 0], logits[1:]]))
    np.save("same.npy", np.zeros(600, int))
    np.save("other.npy", np.where(y == 2, 7, y))
    before = {p.name for p in folder.iterdir()}
    args, sentence = BAD[case]
    assert main(args) == 2
    out, err = capsys.readouterr()
    assert sentence in err
    assert err.startswith("skcalib: ")
    assert err.count("\n") == 1
    assert "Reliability diagrams" not in out
    assert {p.name for p in folder.iterdir()} == before


def test_failure_while_writing_leaves_nothing(files, folder, capsys, monkeypatch):
    from matplotlib.figure import Figure

    def full(self, file, **_):
        file.write(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(Figure, "savefig", full)
    (folder / NAME).write_text("old")
    assert main(GIVEN) == 2
    assert "No space left" in capsys.readouterr().err
    assert (folder / NAME).read_text() == "old"
    assert {p.name for p in folder.iterdir()} == {"z.npy", "y.npy", NAME}


@pytest.fixture
def parquet(folder, monkeypatch):
    """A Parquet file, read in this process."""
    monkeypatch.setattr("skcalib._cli.parquet.cluster", contextlib.nullcontext)
    frame = pd.DataFrame({"a": [0.5, 1.0], "b": [1.0, 0.0], "y": [0, 1], "name": ["ant", "bee"]})
    frame.to_parquet(folder / "rows.parquet")
    frame[["y"]].to_parquet(folder / "labels.parquet")
    return "rows.parquet"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--logits", "rows.parquet"], "rows.parquet needs --label-column"),
        (["--label-column", "y"], "--label-column goes with --logits"),
        (
            ["--logits", "rows.parquet", "--label-column", "y", "--test-labels", "rows.parquet"],
            "leave --labels and --test-labels out",
        ),
        (["--logits", "rows.parquet", "--label-column", "z"], "a, b, y, name, got 'z'"),
        (["--logits", "rows.parquet", "--label-column", "y"], "'name', which holds no numbers"),
        (["--logits", "labels.parquet", "--label-column", "y"], "got no other column"),
        (["--logits", "none/*.parquet", "--label-column", "y"], "must match Parquet files"),
        (["--logits", "none.parquet", "--label-column", "y"], "none.parquet does not exist"),
    ],
)
def test_bad_parquet_input(parquet, arguments, message, capsys):
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_parquet_without_dask(folder, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert main(["--logits", "rows.parquet", "--label-column", "y"]) == 2
    assert "pip install 'skcalib[dask]'" in capsys.readouterr().err


def test_parquet_with_a_cluster_of_its_own(monkeypatch):
    """One is started unless there is one, and closed."""
    opened = []

    class Fake:
        def __init__(self, *_, **__):
            opened.append(self)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            opened.remove(self)

    monkeypatch.setattr("distributed.LocalCluster", Fake)
    monkeypatch.setattr("distributed.Client", Fake)
    with _parquet.cluster():
        assert len(opened) == 2
    assert not opened


def test_probabilities_in_parquet_files(folder, monkeypatch, capsys, unseen):
    monkeypatch.setattr("skcalib._cli.parquet.cluster", contextlib.nullcontext)
    monkeypatch.setattr("skcalib._cli.parquet.kept", lambda tables, _: tables)
    members = [skcalib.TemperatureScaling()]
    monkeypatch.setattr("skcalib.selection._compare._every_calibrator", lambda: members)
    logits, y = make_logits(600, 3, temperature=2.0, random_state=0)
    P = softmax(logits, axis=1)
    frame = pd.DataFrame(P, columns=list("abc")).assign(y=y)
    frame.to_parquet("rows.parquet")
    arguments = ["--logits", "rows.parquet", "--label-column", "y", "--probabilities"]
    assert main([*arguments, "--classes", "0", "1", "2"]) == 0
    said = capsys.readouterr().out
    assert "600 rows" not in said  # two halves
    assert re.search(r"The temperature is [12]\.\d+", said)


def test_bar_of_dask_on_a_terminal(monkeypatch):
    """Its own, shown while the rows are read."""
    seen = []
    monkeypatch.setattr("distributed.progress", lambda *_, **__: seen.append("bar"))
    monkeypatch.setattr("distributed.wait", lambda _: seen.append("done"))
    table = _parquet.Table(dd.from_pandas(pd.DataFrame({"a": [1.0], "y": [0]})), "y")
    for is_terminal, expected in ((True, ["bar", "done"]), (False, ["done"])):
        seen.clear()
        for stream in (sys.stdout, sys.stderr):
            monkeypatch.setattr(stream, "isatty", lambda said=is_terminal: said, raising=False)
        (kept,) = _parquet.kept([table], "t.parquet")
        assert seen == expected
        assert kept.label == "y"


def test_names_of_test_columns_are_compared_with_the_labels(files, folder, capsys):
    logits, y = files
    np.save("names.npy", np.array(["ant", "bee", "cat"])[y])
    rows = [",".join(map(str, row)) for row in logits[:, [2, 0, 1]]]
    (folder / "turned.csv").write_text("\n".join(["cat,ant,bee", *rows]))
    given = ["--logits", "z.npy", "--labels", "names.npy", "--test-labels", "names.npy"]
    assert main([*given, "--test-logits", "turned.csv"]) == 2
    assert "columns of turned.csv must be in the order of the labels" in capsys.readouterr().err
