"""Parquet files on the command line, read in this process."""

import contextlib
import re
import sys
import types

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

import skcalib
from skcalib._cli import parquet as _parquet
from skcalib._cli.files import InputError, LabelledLogits
from skcalib._cli.loading import _logs_of_part
from skcalib._cli.main import main
from skcalib.datasets import make_logits


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder, no cluster, one calibrator, and pictures of which only the rows are kept."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("skcalib._cli.parquet.cluster", contextlib.nullcontext)
    monkeypatch.setattr("distributed.wait", lambda frames: None)
    monkeypatch.setattr("distributed.futures_of", lambda frames: [])
    members = [skcalib.TemperatureScaling()]
    monkeypatch.setattr("skcalib.selection._compare._every_calibrator", lambda: members)
    drawn = types.SimpleNamespace(savefig=lambda file, **_: None, to_html=lambda: "page", rows=[])
    monkeypatch.setattr("skcalib._cli.main._diagrams", lambda *_: drawn)

    def report(calibrator, logits, y, *, name, comparison):
        drawn.rows.append((logits, y))
        return drawn

    monkeypatch.setattr("skcalib._cli.main.calibration_report", report)
    with dask.config.set(scheduler="synchronous"):
        yield drawn


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


def test_a_report_on_so_many_rows_and_on_all_below(here, rows, monkeypatch):
    Z, y = rows
    arguments = written(Z, y, npartitions=2)
    every = {tuple(row): label for row, label in zip(Z.tolist(), y, strict=True)}
    for limit, n_rows in ((100, 100), (100_000, 400)):
        monkeypatch.setattr(_parquet, "ROWS_OF_REPORT", limit)
        assert main([*arguments, "--test-logits", "*.parquet"]) == 0
        logits, labels = here.rows.pop()
        assert len(labels) == len(logits) == n_rows
        # Each row once, with its own label.
        found = {tuple(row): k for row, k in zip(logits.to_numpy().tolist(), labels, strict=True)}
        assert len(found) == n_rows
        assert found.items() <= every.items()


def test_a_report_has_at_most_so_many_rows():
    assert _parquet.ROWS_OF_REPORT == 100_000
    n = 150_000
    frame = dd.from_pandas(pd.DataFrame({"a": np.arange(n), "y": np.arange(n)}), npartitions=3)
    logits, labels = _parquet.some_rows(LabelledLogits(frame[["a"]], frame["y"]))[:2]
    assert 100_000 - 3 <= len(labels) <= 100_000  # a share of each partition
    np.testing.assert_array_equal(logits["a"], labels)


def test_columns_with_numbers_for_names(here, rows, capsys):
    # Where all names are numbers, pandas makes them numbers again.
    arguments = written(*rows, columns=[0, 1, 2], label=7)
    assert main(arguments) == 2
    message = "Columns of *.parquet must have strings for names, got 0; write it again"
    assert message in capsys.readouterr().err
    assert main(written(*rows, columns=["0", "1", "2"], label="7")) == 0


def test_many_columns_are_not_listed(here, capsys):
    arguments = written(np.zeros((2, 1000)), [0, 1], columns=[f"c{k}" for k in range(1000)])
    arguments[-1] = "label"
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert "c7, c8, ... (1,001 in all), got 'label'" in err
    assert len(err) < 300


def test_test_files_with_columns_in_another_order(here, rows, tmp_path, capsys):
    Z, y = rows
    arguments = written(Z, y)
    frame = pd.DataFrame(Z, columns=list("abc")).assign(y=y)
    frame[["y", "c", "b", "a"]].to_parquet("test.pq")
    assert main([*arguments, "--test-logits", "test.pq"]) == 2
    assert "order, got a, b, c and c, b, a" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no Parquet at all" * 100, None])
def test_files_that_are_no_parquet(here, rows, tmp_path, capsys, content):
    arguments = written(*rows)
    whole = (tmp_path / "0.parquet").read_bytes()
    (tmp_path / "0.parquet").write_bytes(whole[:-100] if content is None else content)
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("skcalib: *.parquet cannot be read: ")
    assert err.endswith("; write it again as Parquet, with pandas or pyarrow.\n")
    assert err.count("\n") == 1


def test_columns_that_turn_out_to_be_damaged(here, rows, tmp_path, capsys):
    arguments = written(*rows)
    whole = bytearray((tmp_path / "0.parquet").read_bytes())
    whole[4:400] = b"\xff" * 396  # the first pages
    (tmp_path / "0.parquet").write_bytes(whole)
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("skcalib: *.parquet cannot be read: ")
    assert err.count("\n") == 1


def test_workers_that_cannot_read(here, monkeypatch):
    fault = OSError("Couldn't deserialize thrift: TProtocolException")
    future = types.SimpleNamespace(status="error", exception=lambda: fault)
    fine = types.SimpleNamespace(status="finished", exception=lambda: None)
    table = _parquet.Table(dd.from_pandas(pd.DataFrame({"a": [1.0], "y": [0]})), "y")
    monkeypatch.setattr("distributed.futures_of", lambda frames: [fine, future])
    with pytest.raises(InputError, match=r"^t cannot be read: Couldn't deserialize thrift"):
        _parquet.kept([table], "t")
    monkeypatch.setattr("distributed.futures_of", lambda frames: [fine])
    assert len(_parquet.kept([table], "t")) == 1


@pytest.mark.parametrize("is_nullable", [False, True])
def test_probabilities(here, rows, capsys, is_nullable):
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


def test_range_of_all_columns():
    frame = dd.from_pandas(pd.DataFrame({"a": [1.0, 7.0], "b": [-3.0, 2.0]}), npartitions=2)
    assert _parquet.range_of(frame) == (-3.0, 7.0)


def test_numbers_that_are_no_probabilities(here, rows, capsys):
    arguments = [*written(*rows), "--probabilities"]
    assert main(arguments) == 2
    low, high = rows[0].min(), rows[0].max()
    said = re.search(r"probabilities, got numbers from (\S+) to (\S+);", capsys.readouterr().err)
    assert float(said[1]) >= float(f"{low:g}")
    assert float(said[2]) <= float(f"{high:g}")


@pytest.mark.parametrize("module", ["distributed", "dask.dataframe"])
def test_a_part_of_dask_that_is_missing_is_named(tmp_path, monkeypatch, capsys, module):
    monkeypatch.setitem(sys.modules, module, None)
    assert main(["--logits", "rows.parquet", "--label-column", "y"]) == 2
    assert capsys.readouterr().err == (
        f"skcalib: Parquet files need Dask, and {module} is missing: pip install 'skcalib[dask]'.\n"
    )


@pytest.mark.parametrize(
    ("named", "said"), [("pyarrow", "and pyarrow is missing"), (None, "a part of Dask is missing")]
)
def test_what_dask_lacks_is_named(named, said):
    def import_of_dask():
        try:
            raise ImportError(name=named)
        except ImportError as missing:
            raise ImportError("Requirements are not installed:\n\n  pip ...") from missing

    with pytest.raises(InputError, match=said), _parquet._named_if_missing():
        import_of_dask()
