"""The suite of benchmarks on small records, whose figures are known."""

import csv
import runpy
import sys

import numpy as np
import pytest
from layers import ROOT

BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture
def benchmarks(monkeypatch):
    """Modules of the benchmarks can be imported, and are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield
    for path in BENCHMARKS.glob("*.py"):
        sys.modules.pop(path.stem, None)


@pytest.fixture
def suite(benchmarks, monkeypatch, capsys):
    """What the suite prints when it is called with these arguments."""

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["suite.py", *map(str, args)])
        runpy.run_path(str(BENCHMARKS / "suite.py"), run_name="__main__")
        return capsys.readouterr().out

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
    table = text[text.index(title) :].splitlines()
    line = next(line for line in table if line.startswith(f"{method} "))
    return line.split()[1:]


# Of the uncalibrated classifiers, by hand; the label of one row has a probability of 0.
PAIRS = -np.log([0.9, 0.8, 0.7, 0.4]).mean()
TRIPLES = -np.log([np.finfo(float).eps, 0.6, 0.7, 0.7]).mean()
ECE = (0.1 + 0.2 + 0.3 + 0.6) / 4, (0.5 + 0.4 + 0.6) / 4
BRIER = (0.01 + 0.04 + 0.09 + 0.36) / 4, (1.5 + 0.26 + 0.14 + 0.14) / 4


def test_figures_are_those_by_hand(suite, folder):
    text = suite(folder, "--methods", "MatrixScaling", "--by", "all", "folder+classes", "kind")
    means = [f"{np.mean(v):.4f}" for v in ((PAIRS, TRIPLES), BRIER, ECE)]
    assert row(text, "All records: 2 records", "uncalibrated")[:3] == means
    first = [f"{v:.4f}" for v in (PAIRS, BRIER[0], ECE[0])]
    assert (
        row(text, f"{folder.name}, 2 classes: 1 record".capitalize(), "uncalibrated")[:3] == first
    )
    assert row(text, "Log loss by kind", "uncalibrated") == [f"{TRIPLES:.4f}", f"{PAIRS:.4f}"]
    assert str(folder.parent) not in text


def test_failures_and_zeros_are_shown(suite, folder):
    text = suite(folder, "--methods", "MatrixScaling", "--by", "all")
    matrix = row(text, "All records", "MatrixScaling")
    assert matrix[0].endswith("*")
    assert matrix[-1] == "1"
    assert row(text, "All records", "uncalibrated")[-2:] == ["1", "0"]
    failures = text[text.index("Failures") :]
    assert "MatrixScaling: ``ValueError" in failures
    assert "triples-bayes" in failures


@pytest.mark.slow
def test_every_figure_is_written(suite, folder, tmp_path):
    file, tables = tmp_path / "all.csv", tmp_path / "tables.rst"
    text = suite(folder, "--rows", "all", "6", "--csv", file, "--rst", tables)
    assert tables.read_text() in text
    with file.open() as lines:
        results = list(csv.DictReader(lines))
    losses = {(r["record"], r["draw"], r["method"]): r["log_loss"] for r in results if r["drawn"]}
    assert {draw for _, draw, _ in losses} == {"0", "1"}
    assert {record for record, _, _ in losses} == {"triples-bayes"}  # the other has four rows
    of_one = [r["method"] for r in results if r["record"] == "pairs-forest"]
    assert len(of_one) == len(set(of_one))
    assert {"BBQ", "TemperatureScaling", "IsotonicCalibration, scikit-learn"} <= set(of_one)


def test_folders_without_records(suite, tmp_path):
    for args in ([], [tmp_path]):
        with pytest.raises(SystemExit):
            suite(*args)


def test_pairs_won(benchmarks):
    from results import shares_won

    loss = [[1.0, 2.0], [1.0, 3.0], [np.inf, 1.0], [np.nan, 0.5]]
    won = [(0.5 + 1 + 1 + 0 + 0) / 5, (0.5 + 1 + 0 + 0 + 0) / 5, (0 + 0 + 1 + 1 + 0) / 5, 1.0]
    np.testing.assert_allclose(shares_won(np.array(loss)), won)


def test_comparisons(benchmarks):
    """Of a failure, of a gain and of a loss where temperature scaling has a loss near 0."""
    from results import Result, full_table

    losses = {
        "uncalibrated": [0.5, 0.5, 0.5],
        "TemperatureScaling": [0.4, 0.002, 0.5],
        "BBQ": [0.3, 0.8, np.inf],
    }
    results = [
        Result("f", f"r{i}", "k", 2, 9, "", 0, method, of[i], 0.1, 0.1, 0.9, 0, 1.0, "")
        for i in range(3)
        for method, of in losses.items()
    ]
    worst, harmed, _, ratio = row(full_table(results), "method", "BBQ")[4:8]
    assert (worst, harmed, ratio) == ("+0.300*", "67", "0.750*")


def test_draws_differ(benchmarks):
    from records import make_record
    from suite import parts_of

    record = make_record("iris", "bayes", 0)
    (_, _, (Z, y)), (_, _, (again, _)) = parts_of(record, ["20"], 2)
    assert len(Z) == len(y) == 20
    assert not np.array_equal(Z, again)


BUCKETS = {2: "2 rows", 3: "3 to 49 rows", 49: "3 to 49 rows", 50: "50 or more rows"}


@pytest.mark.parametrize(("value", "label"), BUCKETS.items())
def test_buckets(benchmarks, value, label):
    from results import bucket

    assert bucket(value, (2, 3, 50), "rows") == label


def test_bundled_records(benchmarks):
    """Half of the rows train, a quarter calibrates and a quarter tests."""
    from records import make_record

    record = make_record("iris", "bayes", 0)
    again = make_record("iris", "bayes", 0)
    assert record.n_classes == 3
    assert (len(record.fit[1]), len(record.test[1])) == (37, 38)
    np.testing.assert_array_equal(record.fit[0], again.fit[0])
