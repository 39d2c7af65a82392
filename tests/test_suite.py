"""Benchmarks of every method on small records, whose figures are known."""

import csv
import runpy
import sys
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from layers import ROOT

import skcalib
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
def suite(script):
    return partial(script, "suite.py")


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


def test_features_are_given(suite, folder):
    """Records without are left out; the calibrator has features of the rows, drawn or all."""
    rng = np.random.default_rng(0)
    Z, group = rng.normal(size=(600, 1)), rng.integers(2, size=600)
    y = (rng.uniform(size=600) < 1 / (1 + np.exp(2 - Z[:, 0] - 4 * group))).astype(int)
    arrays = {"logits": Z, "y": y, "groups": group}
    halves = {"cal": slice(300), "test": slice(300, None)}
    np.savez(
        folder / "groups-bayes.npz",
        **{f"{name}_{half}": a[of] for name, a in arrays.items() for half, of in halves.items()},
    )
    text = suite(
        folder, "--features", "groups", "--methods", "AutoCalibrator", "Conditional.*groups",
        "--rows", "all", "200", "--draws", "1", "--by", "all",
    )  # fmt: skip
    for title in ("All records: 1 record", "All records, 200 rows drawn: 1 record"):
        without = row(text, title, "AutoCalibrator")[0]
        assert float(row(text, title, "ConditionalCalibrator")[2]) < float(without) - 0.1


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


def test_pairs_won(benchmarks):
    from results import shares_won

    loss = [[1.0, 2.0], [1.0, 3.0], [np.inf, 1.0], [np.nan, 0.5]]
    won = [(0.5 + 1 + 1 + 0 + 0) / 5, (0.5 + 1 + 0 + 0 + 0) / 5, (0 + 0 + 1 + 1 + 0) / 5, 1.0]
    np.testing.assert_allclose(shares_won(np.array(loss)), won)


@pytest.fixture
def arena(benchmarks):
    import calarena

    return calarena


class Shape(NamedTuple):
    """Probabilities as CalArena has them, and the logits that they are of."""

    p: np.ndarray
    Z: np.ndarray


P_TWO = np.array([0.2, 0.7, 0.9, 0.4, 0.6, 0.3], dtype=np.float32)
P_THREE = np.array([[0.5, 0.25, 0.25], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6]] * 2, dtype=np.float32)
SHAPES = {
    "of an event": Shape(P_TWO, np.log(P_TWO / (1 - P_TWO))[:, None]),
    "of an event, in a column": Shape(P_TWO[:, None], np.log(P_TWO / (1 - P_TWO))[:, None]),
    "two classes": Shape(np.stack([1 - P_TWO, P_TWO], 1), np.log(np.stack([1 - P_TWO, P_TWO], 1))),
    "three classes": Shape(P_THREE, np.log(P_THREE)),
}


@pytest.mark.parametrize("case", SHAPES)
def test_calarena_adapter(arena, case):
    """It is the calibrator of the logarithms."""
    p, Z = SHAPES[case]
    y = np.array([0, 1, 2, 0, 1, 0]) if case == "three classes" else np.array([0, 1, 1, 1, 0, 0])
    adapted = arena.Adapter(skcalib.TemperatureScaling()).fit(p, y)
    classes = list(range(max(Z.shape[1], 2)))
    direct = skcalib.TemperatureScaling(classes=classes).fit(Z, y)
    np.testing.assert_allclose(adapted.predict_proba(p), direct.predict_proba(Z), rtol=1e-5)
    assert adapted.predict_proba(p).shape == (len(p), len(classes))


def test_calarena_figures_by_hand(arena):
    """Of two classes twice scikit-learn's Brier score, and the ECE of the event."""
    of_two = arena.figures(np.array([[0.1, 0.9], [0.9, 0.1]]), np.array([1, 1]))
    log_losses = -np.log([0.9, 0.1])
    np.testing.assert_allclose(of_two[:4], [0.82, log_losses.mean(), (0.1 + 0.9) / 2, 0.5])
    of_three = arena.figures(np.array([[0.0, 0.4, 0.6], [0.5, 0.3, 0.2]]), np.array([0, 0]))
    log_loss = -np.log([np.finfo(np.float32).tiny, 0.5]).mean()
    brier = (1 + 0.16 + 0.36 + 0.25 + 0.09 + 0.04) / 2
    np.testing.assert_allclose(of_three[:4], [brier, log_loss, (0.6 + 0.5) / 2, 0.5])


@pytest.fixture
def published(tmp_path):
    """A record, and the figures of its uncalibrated probabilities."""
    P = np.array([[0.5, 0.25, 0.25], [0.1, 0.65, 0.25], [0.2, 0.15, 0.65], [0.9, 0.05, 0.05]])
    y = np.array([0, 1, 1, 0])
    record, file = tmp_path / "three.npz", tmp_path / "published.csv"
    np.savez(
        record,
        logits_cal=np.log(np.tile(P, (4, 1))), y_cal=np.tile(y, 4), logits_test=np.log(P), y_test=y,
    )  # fmt: skip
    log_loss, brier = -np.log([0.5, 0.65, 0.15, 0.9]).mean(), (0.375 + 0.195 + 1.185 + 0.015) / 4
    ece = (0.5 + (0.65 + 0.65 - 1) + 0.1) / 4
    file.write_text(
        "method,brier,log_loss,ece_15,accuracy,seconds\n"
        f"Base-model,{brier:.5f},{log_loss:.5f},{ece:.5f},0.75,0\nTS,0.3,0.4,0.1,0.75,0.5\n"
    )
    return record, file


def test_calarena_beside_published(script, published, tmp_path):
    rst = tmp_path / "calarena.rst"
    text = script("calarena.py", *published, "--methods", "TemperatureScaling", "--rst", rst)
    assert rst.read_text() in text
    assert row(text, "method", "TS") == [
        "CalArena", "0.30000", "0.40000", "0.10000", "0.7500", "0.500"
    ]  # fmt: skip
    assert row(text, "method", "uncalibrated")[1:5] == row(text, "method", "Base-model")[1:5]
    ours = row(text, "figures of", "TemperatureScaling")
    assert ours[0] == "skcalib"
    assert float(ours[-1]) >= 0  # seconds, rounded
    table = text[text.index("figures of") :]
    losses = {name: float(row(table, "figures of", name)[2]) for name in ("TS", "uncalibrated")}
    first = min(losses, key=losses.get)
    assert all(table.index(f"\n{first} ") <= table.index(f"\n{name} ") for name in losses)
    assert "VectorScaling" not in text


def test_one_vs_rest(benchmarks):
    """One fit of each class, normalized; for two classes that of the second only."""
    from peers import one_vs_rest

    fitted = []

    def fit(scores, events):
        fitted.append(events)
        return lambda scores: scores + np.mean(events)

    S, y = np.array([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]]), np.array([2, 0])
    P = one_vs_rest(fit)(S, y)(S)
    np.testing.assert_allclose(P, (S + np.array([0.5, 0, 0.5])) / 2)
    np.testing.assert_array_equal(fitted, [y == 0, y == 1, y == 2])
    two = one_vs_rest(fit)(S[:, :2], np.array([1, 0]))(S[:, :2])
    np.testing.assert_allclose(two, [[0.3, 0.7], [0.2, 0.8]])


@pytest.mark.parametrize("n_columns", [1, 2, 3])
def test_methods_of_libraries(benchmarks, n_columns):
    """Of scikit-learn, which is always installed: probabilities of all classes."""
    from peers import peers

    Z, y = make_logits(60, max(n_columns, 2), random_state=0)
    Z = Z if n_columns > 1 else Z[:, 1:] - Z[:, :1]
    methods = [m for m in peers() if m.library == "scikit-learn"]
    assert {"PlattScaling", "IsotonicCalibration"} <= {m.kind for m in methods}
    for method in methods:
        X = method.prepare(Z)
        P = method.fit(X, y)(X)
        assert P.shape == (60, max(n_columns, 2))
        np.testing.assert_allclose(P.sum(axis=1), 1)


def test_other_classes_are_failures(benchmarks):
    """A method that leaves out a class has failed."""
    from peers import Method
    from suite import run

    Z, y = make_logits(30, 3, random_state=0)
    short = Method("", "", lambda _, __: lambda Z: np.full((len(Z), 2), 0.5))
    assert run(short, (Z, y), (Z, y.clip(max=1)))[2] == "ValueError: probabilities of shape (30, 2)"


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
    "simulate_stream": ("--rows 30 --draws 1", "alternating"),
    "simulate_monitoring": ("--lives 5 --only drift", "logits times 0.5"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_run(script, name):
    arguments, printed = SCRIPTS[name]
    assert printed in script(f"{name}.py", *arguments.split())
