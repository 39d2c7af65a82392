"""The command line applies a saved calibrator to the logits in a file."""

import shlex

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tables import NAMES, frame

from skcalib import MultiLabelCalibrator, PlattScaling, TemperatureScaling, VectorScaling
from skcalib.__main__ import main
from skcalib.datasets import make_logits
from skcalib.export import to_json
from skcalib.report import CalibrationReport

LOGITS, Y = make_logits(90, 3, random_state=0)


@pytest.fixture
def calibrator(folder):
    """Calibrator of named columns in ``c.json``, and new rows in ``new.csv``."""
    fitted = VectorScaling().fit(frame(LOGITS, Y)[NAMES.tolist()], NAMES[Y])
    (folder / "c.json").write_text(to_json(fitted))
    ids = [f"{k:03d}" for k in range(90)]
    frame(LOGITS, Y).assign(id=ids).to_csv("new.csv", index=False)
    return fitted


@pytest.mark.parametrize("output", ["p.csv", "p.parquet"])
def test_tables_have_kept_columns_probabilities_and_labels(calibrator, run, output):
    out, err = run(
        f"--apply c.json --logits new.csv --label-column label --keep id --output {output}"
    )
    assert out == f"Calibrated probabilities of 90 rows for 'bird', 'cat', 'dog': {output}\n"
    assert err == ""
    found = pd.read_csv(output, dtype={"id": str}) if output == "p.csv" else pd.read_parquet(output)
    assert list(found) == ["id", *NAMES, "label"]
    assert found["id"].tolist()[:2] == ["000", "001"]
    want = calibrator.predict_proba(frame(LOGITS, Y)[NAMES.tolist()])
    assert_allclose(found[NAMES], want, rtol=1e-12)
    assert_array_equal(found["label"], NAMES[want.argmax(axis=1)])


def test_arrays_hold_probabilities(calibrator, run, folder):
    np.save("new.npy", LOGITS)
    run("--apply c.json --logits new.npy")
    found = np.load("skcalib-probabilities.npy")
    want = calibrator.predict_proba(frame(LOGITS, Y)[NAMES.tolist()])
    assert_array_equal(found, want)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Dask by pandas
def test_parts_of_parquet_files_are_one_table(calibrator, run, folder):
    pytest.importorskip("dask.dataframe")
    (folder / "parts").mkdir()
    for k in range(3):
        frame(LOGITS, Y).iloc[30 * k : 30 * k + 30].to_parquet(f"parts/{k}.parquet")
    run("--apply c.json --logits parts --label-column label --output p.parquet")
    want = calibrator.predict_proba(frame(LOGITS, Y)[NAMES.tolist()])
    assert_allclose(pd.read_parquet("p.parquet")[NAMES], want)
    run("--apply c.json --logits parts --label-column label --output p.csv")
    assert_allclose(pd.read_csv("p.csv")[NAMES], want)


def test_skops_files_are_applied(calibrator, run, folder):
    skops = pytest.importorskip("skops.io")
    skops.dump(calibrator, "c.skops")
    run("--apply c.skops --logits new.csv --columns bird cat dog --output p.npy")
    assert np.load("p.npy").shape == (90, 3)


def test_foreign_types_in_skops_files_are_refused(folder, refusal):
    skops = pytest.importorskip("skops.io")
    skops.dump({"a": shlex.split}, "c.skops")
    assert "only types of skcalib" in refusal("--apply c.skops --logits z.npy")


def test_probabilities_and_log_odds(folder, run):
    Z, y = make_logits(90, 2, random_state=0)
    odds = Z[:, [1]] - Z[:, [0]]
    fitted = PlattScaling().fit(odds, y)
    (folder / "c.json").write_text(to_json(fitted))
    np.save("p.npy", 1 / (1 + np.exp(-odds)))
    run("--apply c.json --logits p.npy --probabilities --output q.npy")
    assert_allclose(np.load("q.npy"), fitted.predict_proba(odds), rtol=1e-9)
    P = fitted.predict_proba(odds)
    np.save("percent.npy", 100 * P)
    (folder / "c.json").write_text(to_json(PlattScaling().fit(np.log(P), y)))
    run("--apply c.json --logits percent.npy --probabilities --output r.npy")
    expected = PlattScaling().fit(np.log(P), y).predict_proba(np.log(P))
    assert_allclose(np.load("r.npy"), expected, rtol=1e-9)


def test_several_labels_have_no_column_of_labels(folder, run):
    Z, y = make_logits(90, 3, random_state=0)
    fitted = MultiLabelCalibrator(TemperatureScaling()).fit(Z, np.eye(3, dtype=int)[y])
    (folder / "c.json").write_text(to_json(fitted))
    np.save("new.npy", Z)
    run("--apply c.json --logits new.npy --output p.csv")
    assert pd.read_csv("p.csv").shape == (90, 3)


def test_classes_may_be_named_label(folder, run):
    fitted = VectorScaling().fit(LOGITS, np.array(["a", "b", "label"])[Y])
    (folder / "c.json").write_text(to_json(fitted))
    run("--apply c.json --logits z.npy --output p.csv")
    assert list(pd.read_csv("p.csv")) == ["a", "b", "label", "predicted label"]


@pytest.mark.parametrize(
    ("suffix", "form"),
    [("csv", "{}"), ("tsv", "logit {}"), ("parquet", "p({})"), ("csv", "a_{}_a")],
)
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("labels", [NAMES, np.array([0, 1, 2]), np.array(["a", "aa", "aaa"])])
def test_columns_are_found_by_the_names_of_the_classes(folder, run, suffix, form, named, labels):
    """In any order, beside other columns, for calibrators of arrays and of named columns."""
    names = [form.format(label) for label in labels]
    X = pd.DataFrame(LOGITS, columns=names)
    calibrator = VectorScaling().fit(X if named else LOGITS, labels[Y])
    (folder / "c.json").write_text(to_json(calibrator))
    table = X[[names[k] for k in (2, 0, 1)]].assign(id=np.arange(90), label=labels[Y])
    if suffix == "parquet":
        table.to_parquet("new.parquet")
    else:
        table.to_csv(f"new.{suffix}", index=False, sep="\t" if suffix == "tsv" else ",")
    run(f"--apply c.json --logits new.{suffix} --output p.csv")
    found = pd.read_csv("p.csv")[[str(label) for label in labels]]
    assert_allclose(found, calibrator.predict_proba(X if named else LOGITS), rtol=1e-9)


@pytest.mark.slow
def test_the_file_that_a_calibrator_was_saved_from_can_be_applied(folder, run, monkeypatch):
    monkeypatch.setattr(CalibrationReport, "measures_", {})  # which take seconds
    run("--logits rows.csv --label-column label --save c.skops")
    run("--apply c.skops --logits rows.csv --output p.csv")
    P = pd.read_csv("p.csv")[NAMES]
    assert_allclose(P.sum(axis=1), 1)
    run("--apply c.skops --logits rows.csv --label-column label --output q.csv")
    assert_allclose(pd.read_csv("q.csv")[NAMES], P)


BAD = {
    "--logits new.csv --columns cat bird dog": "order",
    "--logits new.csv --columns cat bird": "feature",
    "--logits new.csv --columns bird cat dog --keep id --output p.npy": "--keep",
    "--logits new.csv --columns bird cat dog --keep label": "--keep",
    "--logits new.csv --columns bird cat dog --keep x": "column 'x'",
    "--logits z.npy --keep id --output p.csv": ".csv, .tsv and .parquet",
    "--logits new.csv --output p.txt": ".csv, .parquet, .npy",
    "--logits new.csv --output c.json": "--output",
}


@pytest.mark.parametrize("line", BAD)
def test_bad_input_is_one_sentence(calibrator, refusal, line):
    assert BAD[line] in refusal(f"--apply c.json {line}")


def test_broken_calibrator_files_give_one_message(folder, refusal):
    (folder / "c.json").write_text("{}")
    assert "c.json cannot be read: " in refusal("--apply c.json --logits z.npy")


def test_probabilities_in_place_of_logits_are_a_warning(calibrator, folder, capsys):
    np.save("p.npy", calibrator.predict_proba(frame(LOGITS, Y)[NAMES.tolist()]))
    status = main(shlex.split("--apply c.json --logits p.npy --output q.npy"))
    err = capsys.readouterr().err
    assert status == 0
    assert err == "" or "Add --probabilities" in err  # predictions may warn
