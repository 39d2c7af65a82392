"""Parquet files on the command line, read in this process."""

import contextlib
import re
import sys
from types import SimpleNamespace

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

from skcalib.__main__ import main
from skcalib._cli import reading
from skcalib._cli.reading import LabelledLogits, _logs_of_part
from skcalib.datasets import make_logits


@pytest.fixture
def here(tmp_path, monkeypatch, quick):
    """A folder, no cluster, one calibrator, and pictures of which only the rows are kept."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("skcalib._cli.reading.cluster", contextlib.nullcontext)
    with dask.config.set(scheduler="synchronous"):
        yield quick


@pytest.fixture
def rows():
    return make_logits(400, 3, temperature=2.0, random_state=0)


def written(Z, y, *, columns=("a", "b", "c"), label="y", npartitions=1):
    """Files of so many rows with the label in the second column."""
    frame = pd.DataFrame(Z, columns=list(columns))
    frame.insert(1, label, y)
    for k, part in enumerate(np.array_split(np.arange(len(y)), npartitions)):
        frame.iloc[part].to_parquet(f"{k}.parquet")
    return ["--logits", "*.parquet", "--label-column", str(label)]


def test_a_report_has_at_most_so_many_rows():
    assert reading.ROWS_OF_REPORT == 100_000
    n = 150_000
    frame = dd.from_pandas(pd.DataFrame({"a": np.arange(n), "y": np.arange(n)}), npartitions=3)
    logits, labels = reading.some_rows(LabelledLogits(frame[["a"]], frame["y"]))[:2]
    assert 100_000 - 3 <= len(labels) <= 100_000  # a share of each partition
    np.testing.assert_array_equal(logits["a"], labels)


def test_columns_that_are_no_logits_or_in_another_order(here, rows):
    """They are left out before rows are read into memory, by the rules of text."""
    Z, y = rows
    written(Z, y, npartitions=2)
    for k in range(2):
        frame = pd.read_parquet(f"{k}.parquet")
        frame.assign(name="r", id=k * 1000 + np.arange(len(frame))).to_parquet(f"{k}.parquet")
    given = {"logits": "*.parquet", "test_logits": None, "label_column": "y", "classes": None}
    given |= {"probabilities": False, "columns": (), "drop": (), "keep": ()}

    def loaded(**others):
        return reading.load(SimpleNamespace(**(given | others)))[:2]

    found = loaded(drop=["name", "id"], test_logits="1.parquet")
    assert [rows.columns for rows in found] == [["a", "b", "c"]] * 2
    np.testing.assert_array_equal(found[0].logits.compute(), Z)
    np.testing.assert_array_equal(found[1].logits.compute(), Z[200:])
    np.testing.assert_array_equal(found[1].labels.compute(), y[200:])
    calibration, test = loaded(columns=["c", "a"])
    assert list(calibration.logits.columns) == list(test.logits.columns) == ["c", "a"]
    for wrong, message in (
        ({"drop": ["name"]}, "Column 'id' of"),
        ({}, "must hold numbers, got 'name'; leave out others with --drop"),
        ({"drop": ["name", "id", "a"]}, r"columns 'b', 'c' of \*.parquet name neither of the lab"),
        ({"drop": ["no"]}, "--drop is 'no'"),
    ):
        with pytest.raises(ValueError, match=message):
            loaded(**wrong)
    loaded(drop=["name", "id", "a"], classes=["0", "1"])


def test_frequencies_of_labels(rows):
    labels = np.array(["ant", "bee", "cat"])[rows[1]]
    found = reading.counts_of(dd.from_pandas(pd.Series(labels), npartitions=3))
    assert sorted(found) == sorted(np.bincount(rows[1]))
    assert sorted(reading.counts_of(labels)) == sorted(np.bincount(rows[1]))


@pytest.mark.slow
def test_columns_with_numbers_for_names(here, rows, refusal):
    # Where all names are numbers, pandas makes them numbers again.
    refusal(written(*rows, columns=[0, 1, 2], label=7), start="*.parquet cannot be read: ")
    assert main(written(*rows, columns=["0", "1", "2"], label="7")) == 0


def test_test_files_with_columns_in_another_order(here, rows, tmp_path, refusal):
    Z, y = rows
    arguments = written(Z, y)
    frame = pd.DataFrame(Z, columns=list("abc")).assign(y=y)
    frame[["y", "c", "b", "a"]].to_parquet("test.pq")
    said = "Columns of test.pq must be in the order of the classes, got columns 'c', 'b', 'a'"
    assert said in refusal([*arguments, "--test-logits", "test.pq"])


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no Parquet" * 100, "cut", "bad pages"])
def test_files_that_are_no_parquet(here, rows, tmp_path, refusal, content):
    arguments = written(*rows)
    whole = (tmp_path / "0.parquet").read_bytes()
    if isinstance(content, str):
        content = whole[:-100] if content == "cut" else whole[:4] + b"\xff" * 396 + whole[400:]
    (tmp_path / "0.parquet").write_bytes(content)
    refusal(arguments, start="*.parquet cannot be read: ")


@pytest.mark.parametrize("is_nullable", [False, True])
def test_logarithms_of_probabilities(here, rows, capsys, is_nullable):
    P = softmax(rows[0], axis=1)
    P[:, 0][P[:, 0] < 1e-3] = 0.0
    part = pd.DataFrame(P.astype(np.float32), columns=list("abc"))
    plain = _logs_of_part(part)
    if is_nullable:
        plain = _logs_of_part(part.astype("Float32"))
    assert set(plain.dtypes) == {np.dtype(np.float32)}
    assert plain.columns.tolist() == ["a", "b", "c"]
    expected = np.log(np.maximum(part.to_numpy(), np.finfo(np.float32).tiny))
    np.testing.assert_array_equal(plain.to_numpy(), expected)
    pd.testing.assert_frame_equal(_logs_of_part(part[:0]), plain[:0])
    whole = pd.DataFrame({"a": [0, 1], "b": [1, 0]}).astype("Int64" if is_nullable else int)
    assert _logs_of_part(whole)["a"].tolist() == [np.log(np.finfo(float).tiny), 0]


def test_missing_values_of_pandas_are_nan():
    part = pd.DataFrame({"a": [0.5, None], "b": [0.5, 0.5]}).astype("Float64")
    np.testing.assert_array_equal(_logs_of_part(part), np.log([[0.5, 0.5], [np.nan, 0.5]]))


def test_numbers_that_are_no_probabilities(here, rows, capsys):
    arguments = [*written(*rows), "--probabilities"]
    assert main(arguments) == 2
    low, high = rows[0].min(), rows[0].max()
    said = re.search(r"probabilities, got numbers from (\S+) to (\S+);", capsys.readouterr().err)
    assert float(said[1]) >= float(f"{low:g}")
    assert float(said[2]) <= float(f"{high:g}")


@pytest.mark.slow
@pytest.mark.parametrize("module", ["distributed", "dask.dataframe"])
def test_without_dask(tmp_path, monkeypatch, refusal, module):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    assert "pip install 'skcalib[dask]'" in refusal("--logits rows.parquet --label-column y")


def test_a_cluster_of_its_own(monkeypatch):
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
    with reading.cluster():
        assert len(opened) == 2
    assert not opened


@pytest.mark.slow
@pytest.mark.parametrize("is_terminal", [False, True])
def test_bar_of_dask_on_a_terminal(here, rows, monkeypatch, is_terminal):
    """Its own, shown while the rows are read."""
    seen = []
    monkeypatch.setattr("distributed.progress", lambda *_, **__: seen.append("bar"))
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: is_terminal, raising=False)
    assert main(written(*rows)) == 0
    assert seen == ["bar"] * is_terminal


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--label-column z", "columns are 'a', 'b', 'y', 'name'; --label-column is 'z'"),
        ("--label-column y", "must hold numbers, got 'name'"),
        ("--label-column y --logits labels.parquet", "but the labels must hold numbers"),
        ("--label-column y --logits none/*.parquet", "there are no Parquet files of that"),
        ("--label-column y --logits none.parquet", "none.parquet cannot be read"),
        ("--label-column y --logits .", ". cannot be read"),
        ("--labels rows.parquet", "Parquet needs --label-column"),
    ],
)
def test_bad_input(here, arguments, message, refusal):
    frame = pd.DataFrame({"a": [0.5, 1.0], "b": [1.0, 0.0], "y": [0, 1], "name": ["ant", "bee"]})
    frame.to_parquet("rows.parquet")
    frame[["y"]].to_parquet("labels.parquet")
    assert message in refusal(f"--logits rows.parquet --output .. {arguments}")


@pytest.mark.slow
def test_probabilities_and_classes(here, rows, capsys):
    P = softmax(rows[0], axis=1)
    arguments = [*written(P, rows[1]), "--probabilities", "--classes", "0", "1", "2"]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    n_fit, n_test = re.search(r"(\d+) rows to calibrate on, (\d+) held out", said).groups()
    assert int(n_fit) + int(n_test) == 400
    assert re.search(r"The temperature is [12]\.\d+", said)
