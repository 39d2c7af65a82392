"""The command line compares calibrators, and writes diagrams, a report and the best one."""

import os
import pickle
import subprocess
import sys
import time
from pathlib import Path
from threading import Timer

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from tables import NAMES

import skcalib
from skcalib import TemperatureScaling
from skcalib.__main__ import main
from skcalib._cli import jobs
from skcalib.datasets import make_logits
from skcalib.experimental import EstimatorCalibration
from skcalib.export import from_json, to_json


def test_help_fits_on_one_screen(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100


def test_version_names_versions_of_other_packages(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert f"NumPy {np.__version__}" in capsys.readouterr().out


@pytest.mark.slow
def test_the_demo_as_a_module(tmp_path):
    run = subprocess.run(
        [sys.executable, "-W", "error", "-m", "skcalib"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "MPLBACKEND": "Agg"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("Neural network on digits: 848 rows to calibrate on, 849 held out")
    assert "improves the probabilities" in run.stdout
    files = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(files) == {"skcalib-reliability.png", "skcalib-report.html"}
    assert min(files.values()) > 10_000


@pytest.mark.slow
@pytest.mark.usefixtures("few_resamples")
def test_a_table_with_all_outputs(folder, run):
    out, _ = run(
        "--logits rows.csv --label-column label --output r.svg --report r.html --save c.joblib"
    )
    assert "rows.csv: 100 rows to calibrate on, 100 held out" in out
    assert "Classes in the order of the columns: 'bird', 'cat', 'dog'" in out
    best = out.split("Report on ")[1].split(":")[0]
    assert f"{best}, a calibrator of logits: c.joblib" in out
    assert (folder / "r.svg").stat().st_size > 10_000
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert f"Calibration report: {best}</h1>" in page
    assert "100 rows to calibrate on, 100 held out" in page
    assert "--report r.html --save c.joblib" in page
    calibrator = joblib.load("c.joblib")
    assert type(calibrator).__name__ == best
    assert calibrator.feature_names_in_.tolist() == NAMES.tolist()


@pytest.mark.slow
@pytest.mark.usefixtures("few_resamples")
def test_probabilities_and_test_files(folder, run):
    Z, y = make_logits(300, 2, random_state=1)
    p = 1 / (1 + np.exp(Z[:, 0] - Z[:, 1]))
    np.save("p.npy", p[:150])
    np.save("labels.npy", np.array(["no", "yes"])[y[:150]])
    pd.DataFrame({"score": p[150:]}).to_parquet("test.parquet")
    pd.DataFrame({"y": np.array(["no", "yes"])[y[150:]]}).to_csv("test.csv", index=False)
    out, err = run(
        "--logits p.npy --labels labels.npy --test-logits test.parquet --test-labels test.csv "
        "--probabilities --classes no yes --save c.json"
    )
    assert "150 rows to calibrate on, 150 held out" in out
    assert "a calibrator of logarithms of probabilities: c.json" in out
    assert "warning" not in err
    calibrator = from_json((folder / "c.json").read_text())
    assert calibrator.classes_.tolist() == ["no", "yes"]


@pytest.mark.slow
@pytest.mark.usefixtures("few_resamples")
def test_classes_in_the_order_of_the_columns(folder, run):
    np.save("y.npy", np.array([30, 10, 20])[np.load("y.npy")])
    out, _ = run("--logits z.npy --labels y.npy --classes 30 10 20")
    assert "Classes in the order of the columns: 30, 10, 20" in out


# Options, and words that the sentence must have.
BAD_OPTIONS = {
    "--labels y.npy": "--logits and --labels",
    "--columns a": "--logits and --labels",
    "--logits z.npy": "--labels or --label-column",
    "--logits z.npy --labels y.npy --test-logits z.npy": "--test-labels",
    "--logits z.npy --labels y.npy --test-labels y.npy": "--test-logits",
    "--logits z.npy --labels y.npy --keep id": "--apply",
    "--apply c.json": "--logits and --output",
    "--apply c.json --logits z.npy --labels y.npy": "got --labels",
    "--apply c.joblib --logits z.npy": ".json and .skops",
    "--output a.gif": ".png, .pdf, .svg",
    "--output missing/a.png": "existing directory",
    "--report a.pdf": ".html, .htm",
    "--save a.pkl": ".json, .skops, .joblib, .onnx",
    "--logits z.npy --labels y.npy --report z.html": "not be a file to read, got z.html",
    "--logits z.npy --labels y.npy --probabilities": "must hold probabilities",
    "--logits z.npy --labels y.npy --classes 0 1": "classes",
    "--logits z.npy --labels two.npy": "--columns",
    "--logits p.npy --labels text.npy --probabilities": "--classes",
}


@pytest.mark.parametrize("line", BAD_OPTIONS)
def test_bad_options_are_one_sentence(folder, refusal, line):
    two = np.load("y.npy") % 2
    np.save("two.npy", two)
    np.save("text.npy", np.array(["no", "yes"])[two])
    np.save("p.npy", np.linspace(0.1, 0.9, len(two)))
    (folder / "z.html").symlink_to(folder / "z.npy")
    (folder / "c.joblib").write_bytes(pickle.dumps(print))
    assert BAD_OPTIONS[line] in refusal(line)


@pytest.mark.parametrize(
    ("fault", "status", "words"),
    [
        (KeyboardInterrupt(), 130, "interrupted."),
        (MemoryError(), 2, "memory is too small."),
        (ValueError("one\nline"), 2, "one line"),
        (ImportError("No module named 'dask'"), 2, "pip install 'skcalib[frame,dask]'"),
    ],
)
def test_faults_are_one_line_and_a_status(folder, monkeypatch, capsys, fault, status, words):
    def fail(*_, **__):
        raise fault

    monkeypatch.setattr("skcalib._cli.jobs.compare_calibrators", fail)
    assert main(["--logits", "z.npy", "--labels", "y.npy"]) == status
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1
    assert not (folder / "skcalib-report.html").exists()
    monkeypatch.setattr("skcalib._cli.jobs.compare_calibrators", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["--logits", "z.npy", "--labels", "y.npy"])


@pytest.mark.parametrize(
    "trees", [HistGradientBoostingClassifier(max_iter=5), ExtraTreesClassifier(5)], ids=repr
)
def test_trees_are_saved_by_skops_because_json_cannot_hold_them(folder, trees):
    pytest.importorskip("skops")
    calibrator = EstimatorCalibration(trees).fit(np.load("z.npy"), np.load("y.npy"))
    with pytest.warns(UserWarning, match="saved as c.skops"):
        assert jobs._save(calibrator, Path("c.json")) == Path("c.skops")
    assert not Path("c.json").exists()
    assert main(["--apply", "c.skops", "--logits", "z.npy", "--output", "p.npy"]) == 0
    np.testing.assert_array_equal(np.load("p.npy"), calibrator.predict_proba(np.load("z.npy")))


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs pipes of POSIX")
def test_a_reader_may_close_the_pipe_early(folder):
    line = [sys.executable, "-u", "-m", "skcalib", "--apply", "c.json", "--logits", "z.npy"]
    calibrator = TemperatureScaling().fit(np.load("z.npy"), np.load("y.npy"))
    Path("c.json").write_text(to_json(calibrator), encoding="utf-8")
    reader, writer = os.pipe()
    os.close(reader)
    env = {**os.environ, "PYTHONPATH": str(Path(skcalib.__file__).parents[1])}
    run = subprocess.run(line, stdout=writer, stderr=subprocess.PIPE, text=True, env=env)  # noqa: PLW1510
    os.close(writer)
    assert (run.returncode, run.stderr) == (0, "")
    assert Path("skcalib-probabilities.npy").exists()


def test_a_slow_step_prints_a_line(folder, monkeypatch, capsys):
    """With a clock that is ten times as fast."""

    def wait(*_, **__):
        time.sleep(0.25)
        raise ValueError("stop.")

    monkeypatch.setattr("skcalib._cli.jobs.Timer", lambda seconds, f: Timer(seconds / 10, f))
    monkeypatch.setattr("skcalib._cli.jobs.compare_calibrators", wait)
    assert main(["--logits", "z.npy", "--labels", "y.npy"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["skcalib: fitting and comparing calibrators ...", "skcalib: stop."]
