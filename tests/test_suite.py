"""Benchmarks of every method on small records, whose figures are known."""

import csv
import itertools
import runpy
import sys
from unittest.mock import ANY

import numpy as np
import pytest
from joblib.externals.loky import get_reusable_executor
from layers import ROOT

from skcalib.datasets import make_logits

BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture
def benchmarks(monkeypatch):
    """Modules of the benchmarks can be imported, and are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield
    for path in BENCHMARKS.glob("*.py"):
        sys.modules.pop(path.stem, None)


@pytest.fixture
def script(benchmarks, monkeypatch, capsys):
    """What a script prints when it is called with these arguments."""

    def run(name, *args):
        monkeypatch.setattr(sys, "argv", [name, *map(str, args)])
        runpy.run_path(str(BENCHMARKS / name), run_name="__main__")
        return capsys.readouterr().out

    return run


@pytest.fixture
def suite(script, tmp_path):
    """Results in the file of the suite for these arguments, by record, rows drawn and method."""

    def run(*args):
        printed = script("suite.py", *args, "--csv", tmp_path / "suite.csv")
        with (tmp_path / "suite.csv").open() as lines:
            results = list(csv.DictReader(lines))
        return {(r["record"], r["drawn"], r["method"]): r for r in results}, printed

    return run


@pytest.fixture
def table(script, suite, tmp_path):
    """Text of the tables of the results for these arguments."""

    def run(*args):
        suite(*args)
        return script("table.py", tmp_path / "suite.csv")

    return run


@pytest.fixture
def folder(tmp_path):
    """A record in each format: one column of probabilities, and logits with a masked class."""
    fit = np.array([0.3, 0.8, 0.4, 0.7])
    test = np.array([0.9, 0.8, 0.3, 0.6])
    np.savez(
        tmp_path / "pairs-forest.npz",
        predictions=np.concatenate([fit, test])[:, None],
        ground_truth=[0, 1, 1, 0, 1, 1, 0, 0],
    )
    P = np.array([[0.5, 0.5, 0.0], [0.6, 0.1, 0.3], [0.2, 0.7, 0.1], [0.1, 0.2, 0.7]])
    with np.errstate(divide="ignore"):
        Z = np.log(P)
    np.savez(
        tmp_path / "triples-bayes.npz",
        logits_cal=np.tile(Z, (3, 1)), y_cal=np.array([0, 0, 1, 2, 1, 0, 0, 2, 0, 2, 1, 2]),
        logits_test=Z, y_test=np.array([2, 0, 1, 2]),
    )  # fmt: skip
    return tmp_path


def row(text, title, method):
    """Cells of a method in the table with this title."""
    lines = text[text.index(f"{title}\n") :].splitlines()
    rule = next(line for line in lines if line.startswith("=="))
    ends = np.cumsum([len(column) + 2 for column in rule.split()])
    line = next(line for line in lines if line.startswith(f"{method} "))
    return [line[start:end].strip() for start, end in itertools.pairwise(ends)]


# Of the uncalibrated classifiers, by hand; the label of one row has a probability of 0.
PAIRS = -np.log([0.9, 0.8, 0.7, 0.4]).mean()
TRIPLES = -np.log([np.finfo(float).eps, 0.6, 0.7, 0.7]).mean()
ECE = (0.1 + 0.2 + 0.3 + 0.6) / 4, (0.5 + 0.4 + 0.6) / 4
BRIER = (0.01 + 0.04 + 0.09 + 0.36) / 4, (1.5 + 0.26 + 0.14 + 0.14) / 4


def test_figures_are_those_by_hand(table, folder):
    text = table(folder, "--methods", "MatrixScaling")
    for k, title in enumerate(["Tables, two classes", "Tables, several classes"]):
        figures = (PAIRS, TRIPLES)[k], BRIER[k], ECE[k]
        assert row(text, title, "uncalibrated")[:3] == [f"{v:.4f}" for v in figures]
        assert row(text, title, "uncalibrated")[3] == "0.0"


def test_failures_and_zeros_are_shown(suite, table, folder):
    """A failure leaves the record uncalibrated, but is lost and without a time."""
    results, _ = suite(folder, "--methods", "MatrixScaling")
    assert results["triples-bayes", "", "MatrixScaling"]["error"].startswith("ValueError: ")
    text = table(folder, "--methods", "MatrixScaling")
    cells = row(text, "Tables, several classes", "MatrixScaling")
    assert [cells[0], cells[3], cells[5], *cells[7:]] == [
        f"{TRIPLES:.4f}", "0.0", "0.0", "nan", "0", "1"
    ]  # fmt: skip
    assert row(text, "Tables, several classes", "uncalibrated")[5:] == ["100.0", "0", ANY, "1", "0"]


@pytest.mark.slow
def test_features_are_given(suite, folder):
    """Records without are left out; the calibrator has features of the rows that are drawn."""
    rng = np.random.default_rng(0)
    Z, group = rng.normal(size=(600, 1)), rng.integers(2, size=600)
    y = (rng.uniform(size=600) < 1 / (1 + np.exp(2 - Z[:, 0] - 4 * group))).astype(int)
    arrays = {"logits": Z, "y": y, "groups": group}
    halves = {"cal": slice(300), "test": slice(300, None)}
    np.savez(
        folder / "groups-bayes.npz",
        **{f"{name}_{half}": a[of] for name, a in arrays.items() for half, of in halves.items()},
    )
    results, _ = suite(
        folder, "--features", "groups", "--methods", "AutoCalibrator", "Conditional.*groups",
        "--rows", "200", "--draws", "1",
    )  # fmt: skip
    assert {record for record, *_ in results} == {"groups-bayes"}
    drawn = "groups-bayes", "200 rows drawn"
    with_groups, without = (
        float(results[*drawn, name]["log_loss"])
        for name in ("ConditionalCalibrator given groups", "AutoCalibrator")
    )
    assert with_groups < without - 0.1


def test_labels_are_records(suite, folder):
    """Labels of two dimensions are those of as many records of two classes, of one data set."""
    rng = np.random.default_rng(0)
    Z, Y = rng.normal(size=(20, 3)), rng.integers(2, size=(20, 3))
    np.savez(folder / "heart-net.npz", logits_cal=Z, y_cal=Y, logits_test=Z, y_test=1 - Y)
    results, _ = suite(folder, "--methods", "uncalibrated")
    for k in range(3):
        found = results[f"heart-net-label{k}", "", "uncalibrated"]
        expected = np.logaddexp(0, np.where(Y[:, k] == 0, -Z[:, k], Z[:, k])).mean()
        assert float(found["log_loss"]) == pytest.approx(expected, rel=1e-5)
        assert (found["data_set"], found["classes"]) == ("heart", "2")


def test_known_results_stay(suite, folder, tmp_path):
    """Only methods of another version are run again, and lines of others are kept."""
    file = tmp_path / "suite.csv"
    _, printed = suite(folder, "--methods", "PlattScaling.*")
    assert printed.count("PlattScaling, scikit-learn") == 2
    lines = file.read_text().replace("scikit-learn,1.", "scikit-learn,0.").splitlines(keepends=True)
    file.write_text("".join([*lines, *lines[1:2]]))  # stopped before it was sorted
    old, _ = suite(folder, "--methods", "TemperatureScaling")
    assert old["pairs-forest", "", "PlattScaling, scikit-learn"]["version"].startswith("0.")
    new, printed = suite(folder, "--methods", "PlattScaling.*")
    assert new["pairs-forest", "", "PlattScaling, scikit-learn"]["version"][:2] != "0."
    assert new.keys() == old.keys()
    ran = {line.split(maxsplit=3)[-1].rpartition(" ")[0].strip() for line in printed.splitlines()}
    assert all("scikit-learn" in name for name in ran)


@pytest.mark.slow
def test_every_method_is_run(suite, folder):
    # Workers that another test has left cannot import modules of the benchmarks.
    get_reusable_executor().shutdown()
    results, _ = suite(folder, "--rows", "all", "6", "--jobs", "2")
    assert {record for record, drawn, _ in results if drawn} == {"triples-bayes"}  # of more rows
    of_one = {method for record, _, method in results if record == "pairs-forest"}
    assert {"BBQ", "TemperatureScaling", "IsotonicCalibration, scikit-learn"} <= of_one


@pytest.fixture
def group(benchmarks):
    """Results of methods by their losses on records of data sets; the first is uncalibrated."""
    from results import Result
    from table import Group

    def make(losses, data_sets):
        names = ["uncalibrated", "AutoCalibrator", "A, lib", "B, lib"]
        return Group([
            Result(
                "folder", data_set, f"{i}", "tables", 2, 10, "", 0, names[m],
                "lib" if m > 1 else "skcalib", "1", "", loss, loss / 4, loss / 9, 1.0, 0, 1.0, "",
            )
            for m, row in enumerate(losses)
            for i, (loss, data_set) in enumerate(zip(row, data_sets, strict=True))
        ])  # fmt: skip

    return make


LOSSES = [[1.0, 2.0], [1.0, 3.0], [np.inf, 1.0], [np.nan, 0.5]]


def test_pairs_won(group):
    """The share of each record; ties count half, a failure loses, one that is left out is none."""
    won = [[75, 100 / 3], [75, 0], [0, 200 / 3], [np.nan, 100]]
    np.testing.assert_allclose(group(LOSSES, "ab").won(), won)


def test_share_of_the_loss_that_is_gone(group):
    """At least -100 per cent; a failure leaves a record uncalibrated."""
    of = group([[1.0, 2.0], [0.5, 9.0], [np.inf, 1.0], [np.nan, 0.5]], "ab")
    np.testing.assert_allclose(of.less(of.loss), [[0, 0], [50, -100], [0, 50], [np.nan, 75]])


def test_intervals_are_over_data_sets(group):
    """Of records that repeat those of five data sets they are as wide as those of the five."""
    values = np.random.default_rng(0).normal(size=(1, 5))
    once, many = group(np.ones((4, 5)), "abcde"), group(np.ones((4, 40)), "abcde" * 8)
    limits = once.limits(values)
    assert limits[0] < values.mean() < limits[1]
    np.testing.assert_allclose(many.limits(np.tile(values, 8)), limits)
    assert np.isnan(group(np.ones((4, 40)), "abcd" * 10).limits(np.ones((1, 40)))).all()


@pytest.mark.slow
def test_page_of_results(benchmarks, group, monkeypatch, tmp_path):
    """Each table that the page includes, with a figure where there are enough data sets."""
    import results
    import table

    (tmp_path / "_static").mkdir()
    monkeypatch.setattr(table, "DOC", tmp_path)
    monkeypatch.setattr(table, "RESULTS", tmp_path)
    losses = 1 + np.random.default_rng(0).uniform(size=(4, 5))
    found = [r for line in group(losses, "abcde").grid for r in line]
    results.write(tmp_path / "suite.csv", found)
    results.write(tmp_path / "calarena.csv", [found[0]._replace(library="C", method="x, C")])
    monkeypatch.setattr(sys, "argv", ["table.py"])
    table.main()
    text = (tmp_path / "suite_tables.rst").read_text()
    page = (ROOT / "doc" / "suite.rst").read_text()
    for mark in ("overview", "data sets", "kinds", "published"):
        assert f"\n.. {mark}\n" in f"\n{text}"
        assert f":start-after: .. {mark}\n" in page
    assert {path.name for path in (tmp_path / "_static").iterdir()} == {
        "suite-all-records.png", "suite-tables-two-classes.png"
    }  # fmt: skip
    shown = row(text, "Tables, two classes", "A, lib")[0].strip("*")
    assert float(shown) == pytest.approx(losses[2].mean(), abs=1e-4)
    assert float(row(text, ".. published", "x")[1]) == pytest.approx(losses[0, 0], abs=1e-4)


def test_other_classes_are_failures(benchmarks):
    """A method that leaves out a class has failed."""
    from peers import Method
    from suite import run

    Z, y = make_logits(30, 3, random_state=0)
    short = Method("", "", lambda _, __: lambda Z: np.full((len(Z), 2), 0.5))
    assert run(short, (Z, y), (Z, y.clip(max=1)))[2] == "ValueError: probabilities of shape (30, 2)"


def test_slow_methods_are_left_out(benchmarks):
    """Once their time is over, without a time or a loss."""
    from peers import Method
    from suite import run

    Z, y = make_logits(30, 3, random_state=0)
    endless = Method("", "", lambda _, __: next(k for k in itertools.count() if k < 0))
    values, seconds, error = run(endless, (Z, y), (Z, y), 0.1)
    assert error == "left out: more than 0.1 s"
    assert np.isnan([values.log_loss, seconds]).all()


# A script, arguments that make it short, and what it prints.
SCRIPTS = {
    "bench_methods": ("--sizes 300x2 --repeat 1 --kinds PlattScaling", "PlattScaling"),
    "bench_small_fits": ("--sizes 50x2 --seconds 0 --kinds TemperatureScaling", "Temperature"),
    "bench_rows": ("--classes 2 --repeat 1 --only Temperature", "TemperatureScaling"),
    "bench_solvers": ("--sizes 100x2 100x3 --repeat 1", "sigmoids 100x3"),
    "bench_matrix": ("--rows 100 --classes 5 --alphas 1", "alpha=1 "),
    "simulate_features": ("--rows 100 --classes 2 --draws 1", "noise"),
    "simulate_prior_shift": ("--draws 1", "bbse"),
    "simulate_segments": ("--rows 100 --samples 2", "200"),
    "simulate_smooth_band": ("--draws 1 --resamples 9", "ten values"),
    "simulate_rare_events": ("--draws 1", "1:650"),
    "simulate_monitoring": ("--lives 5 --only drift", "logits times 0.5"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_run(script, name):
    arguments, printed = SCRIPTS[name]
    assert printed in script(f"{name}.py", *arguments.split())
