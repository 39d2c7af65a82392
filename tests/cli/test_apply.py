"""``--apply``: a saved calibrator for logits in files."""

import csv
import json
import pathlib
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
import skops.io
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import FunctionTransformer

import skcalib
from skcalib._cli.jobs import save_calibrator
from skcalib.datasets import make_logits
from skcalib.export import to_json

NAMES = np.array(["ant", "bee", "cat"])
Z, Y = make_logits(300, 3, random_state=0)


@pytest.fixture
def calibrator(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = saved(skcalib.VectorScaling().fit(Z, NAMES[Y]))
    skops.io.dump(found, "c.skops")
    np.save("new.npy", Z[:50])
    return found


def saved(fitted, encoding=None):
    """The calibrator, which is applied from now on."""
    pathlib.Path("c.json").write_text(to_json(fitted), encoding)
    return fitted


@pytest.fixture
def applied(calibrator, said):
    """What is said where the calibrator is applied to a file, behind which options may stand."""
    return lambda line: said(f"--apply c.json --logits {line}")


@pytest.mark.parametrize("file", ["c.json", "c.skops"])
def test_probabilities_are_those_of_the_calibrator(calibrator, file, said):
    out, err = said(f"--apply {file} --logits new.npy")
    assert not err
    assert "of 50 rows for the classes 'ant', 'bee', 'cat': skcalib-probabilities.npy" in out
    found = np.load("skcalib-probabilities.npy")
    np.testing.assert_array_equal(found, calibrator.predict_proba(Z[:50]))


def written(file):
    """Probabilities and labels in a file of any kind, for a data frame of logits."""
    if file.suffix == ".npz":
        with np.load(file) as found:
            return found["probabilities"], found["labels"]
    if file.suffix == ".parquet":
        frame = pd.read_parquet(file)
        header, rows = list(frame.columns), frame.to_numpy()
    else:
        mark = "\t" if file.suffix == ".tsv" else ","
        header, *rows = csv.reader(file.read_text().splitlines(), delimiter=mark)
    assert header[-1] == "label"
    P = np.array([[float(field) for field in row[:-1]] for row in rows])
    return P, np.array([row[-1] for row in rows])


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tsv", "npz:a", "parquet"])
@pytest.mark.parametrize("labelled", [False, True])
def test_files_of_all_kinds(calibrator, applied, ending, labelled):
    X = Z[:50].round(3)
    frame = pd.DataFrame(X, columns=NAMES)
    if labelled:
        frame.insert(1, "y", NAMES[Y[:50]])
    name = f"new.{ending}"
    if ending == "parquet":
        frame.to_parquet("new.parquet", row_group_size=20)
    elif ending == "npz:a":
        np.savez("new.npz", a=X)
    else:
        frame.to_csv(name, index=False, sep="\t" if ending == "tsv" else ",")
    for output in ["csv", "tsv", "npz", "parquet"]:
        column = "--label-column y" if labelled and ending != "npz:a" else ""
        applied(f"{name} {column} --output p.{output}")
        P, labels = written(pathlib.Path(f"p.{output}"))
        np.testing.assert_array_equal(P, calibrator.predict_proba(X))
        np.testing.assert_array_equal(labels, calibrator.predict(X))


def test_parquet_files_of_several_parts(calibrator, applied):
    for k in range(3):
        pd.DataFrame(Z[50 * k : 50 * (k + 1)], columns=NAMES).to_parquet(f"part{k}.parquet")
    applied("part*.parquet")
    P, _ = written(pathlib.Path("skcalib-probabilities.parquet"))
    np.testing.assert_array_equal(P, calibrator.predict_proba(Z[:150]))


def test_probabilities_and_float32(calibrator, applied):
    P = softmax(Z[:50], axis=1).astype(np.float32)
    np.save("p.npy", P)
    applied("p.npy --probabilities --output out.npy")
    found = np.load("out.npy")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, calibrator.predict_proba(np.log(P)))


def test_one_column_and_integers_as_labels(applied):
    margins = (Z[:, [1]] - Z[:, [0]]).round(2)
    fitted = saved(skcalib.TemperatureScaling().fit(margins, (Y == 1) + 3))
    pathlib.Path("new.csv").write_text("\n".join(map(str, margins[:, 0])))
    applied("new.csv")
    file = pathlib.Path("skcalib-probabilities.csv")
    assert file.read_text().startswith("3,4,label\n")
    P, labels = written(file)
    np.testing.assert_array_equal(P, fitted.predict_proba(margins))
    np.testing.assert_array_equal(labels.astype(int), fitted.predict(margins))


def test_several_labels(applied):
    fitted = saved(skcalib.MultiLabelCalibrator().fit(Z, np.eye(3, dtype=int)[Y]))
    applied("new.npy --output p.csv")
    header, *rows = csv.reader(pathlib.Path("p.csv").read_text().splitlines())
    assert header == ["0", "1", "2"]
    np.testing.assert_array_equal(np.array(rows, float), fitted.predict_proba(Z[:50]))
    np.save("p.npy", softmax(Z[:50], axis=1))
    assert not applied("p.npy").err  # several labels may have logits like these


def test_labels_that_are_objects(calibrator, said):
    skops.io.dump(skcalib.VectorScaling().fit(Z, NAMES[Y].astype(object)), "o.skops")
    said("--apply o.skops --logits new.npy --output p.npz")
    _, labels = written(pathlib.Path("p.npz"))
    np.testing.assert_array_equal(labels, calibrator.predict(Z[:50]))


def test_a_saved_model_of_onnx_is_valid(calibrator):
    onnx = pytest.importorskip("onnx")
    assert "onnxruntime" in save_calibrator(calibrator, pathlib.Path("best.onnx"))
    onnx.checker.check_model("best.onnx")


@pytest.mark.parametrize("module", ["skops.io", "onnx"])
def test_formats_whose_library_is_missing(calibrator, module, monkeypatch, refusal):
    monkeypatch.setitem(sys.modules, module, None)
    np.save("y.npy", Y[:50])
    lines = ["--logits new.npy --labels y.npy --save d.skops", "--apply c.skops --logits new.npy"]
    if module == "onnx":
        lines = ["--logits new.npy --labels y.npy --save c.onnx"]
    for line in lines:
        assert f"import of {module} halted; None in sys.modules: install it" in refusal(line)


@pytest.mark.parametrize("output", ["csv", "tsv", "parquet"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_columns_are_kept_beside_probabilities(calibrator, applied, ending, output):
    frame = pd.DataFrame(Z[:50].round(3), columns=NAMES)
    frame.insert(1, "label", NAMES[Y[:50]])
    frame.insert(0, "id", [f"{'0' if k % 2 else '-'}{k}" for k in range(50)])
    frame["age"] = np.arange(50)
    name = f"new.{ending}"
    if ending == "parquet":
        frame.to_parquet(name, row_group_size=20)
    else:
        frame.to_csv(name, index=False)
    file = f"p.{output}"
    assert not applied(f"{name} --keep label id --drop age --output {file}").err
    if output == "parquet":
        found = pd.read_parquet(file)
    else:
        found = pd.read_csv(file, sep="\t" if output == "tsv" else ",", dtype={"id": str})
    assert list(found.columns) == ["label", "id", *NAMES, "predicted label"]
    for kept in ("label", "id"):  # as they are: neither numbers nor formulas
        assert found[kept].tolist() == frame[kept].tolist()
    logits = frame[NAMES].to_numpy()
    np.testing.assert_array_equal(found[NAMES], calibrator.predict_proba(logits))
    np.testing.assert_array_equal(found["predicted label"], calibrator.predict(logits))


def test_columns_by_name(calibrator, applied):
    frame = pd.DataFrame(Z[:50].round(3), columns=NAMES)
    frame.assign(more="x")[["more", *NAMES[::-1]]].to_csv("new.csv", index=False)
    applied("new.csv --columns ant bee cat --output p.npy")
    P = calibrator.predict_proba(frame[NAMES].to_numpy())
    np.testing.assert_array_equal(np.load("p.npy"), P)


def test_texts_are_no_formulas(applied):
    """A spreadsheet takes them as text; numbers, also negative ones, stay as they are."""
    names = np.array(["-1 or 2", "=cmd|' /C calc'!A0", "@sum"])
    fitted = saved(skcalib.VectorScaling().fit(Z, names[Y]))
    pd.DataFrame(Z[:3]).assign(what=["+1+1", "-17", "a=b"]).to_csv("new.csv", index=False)
    for ending, mark in (("csv", ","), ("tsv", "\t")):
        applied(f"new.csv --keep what --output p.{ending}")
        with pathlib.Path(f"p.{ending}").open(newline="") as file:
            header, *rows = csv.reader(file, delimiter=mark)
        assert header == ["what", *(f"'{name}" for name in names), "label"]
        assert [fields[0] for fields in rows] == ["'+1+1", "-17", "a=b"]
        expected = [f"'{label}" for label in fitted.predict(Z[:3])]
        assert [fields[-1] for fields in rows] == expected
    applied("new.csv --keep what --output p.parquet")
    assert list(pd.read_parquet("p.parquet").columns)[1:-1] == names.tolist()
    saved(skcalib.VectorScaling().fit(Z, Y - 1))
    applied("new.npy --output p.csv")
    assert pathlib.Path("p.csv").read_text().startswith("-1,0,1,label\n")


def test_a_calibrator_of_named_columns(applied, refusal):
    """Names are compared with those of the file, and missed in arrays by nobody."""
    frame = pd.DataFrame(Z, columns=["x", "y", "z"])
    fitted = saved(skcalib.VectorScaling().fit(frame, NAMES[Y]))
    frame[:50].to_csv("new.csv", index=False)
    frame[:50].to_parquet("new.parquet")
    for ending in ("npy", "csv", "parquet"):
        assert not applied(f"new.{ending} --output p.npy").err
        np.testing.assert_array_equal(np.load("p.npy"), fitted.predict_proba(frame[:50]))
    frame[["x", "z", "y"]].to_csv("new.csv", index=False)
    said = "the columns that c.json was fitted to, 'x', 'y', 'z', got 'x', 'z', 'y'; name those of"
    assert said in refusal("--apply c.json --logits new.csv")
    applied("new.csv --columns x y z --output q.npy")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("is_shifted", [False, True])
@pytest.mark.parametrize("has_costs", [False, True])
def test_priors_and_costs(calibrator, applied, dtype, is_shifted, has_costs):
    np.save("new.npy", Z[:50].astype(dtype))
    P, given = calibrator.predict_proba(Z[:50].astype(dtype)), ""
    if is_shifted:
        given += "--priors 0.8 0.2 0.0 --calibration-priors 0.5 0.25 0.25"
        P *= np.array([0.8 / 0.5, 0.2 / 0.25, 0])
        P /= P.sum(axis=1, keepdims=True)
    cost = 1 - np.eye(3)
    if has_costs:
        given += " --costs 0 1 9 20 0 5 3 3 0"
        cost = np.array([[0, 1, 9], [20, 0, 5], [3, 3, 0]])
    applied(f"new.npy {given} --output p.npz")
    found, labels = written(pathlib.Path("p.npz"))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, P, rtol=1e-5, atol=1e-30)
    np.testing.assert_array_equal(labels, NAMES[(P @ cost).argmin(axis=1)])


def test_priors_and_costs_are_for_one_label(calibrator, refusal):
    saved(skcalib.MultiLabelCalibrator().fit(Z, np.eye(3, dtype=int)[Y]))
    for given in ("--priors .5 .2 .3 --calibration-priors .5 .2 .3", "--costs 0 1 2 3 4 5 6 7 8"):
        said = refusal(f"--apply c.json --logits new.npy {given}")
        assert "are for one label per row, got several" in said


NEW = "--logits new.npy"
BAD = [
    ("--apply c.json", "--apply goes with --logits and --output, got no --logits"),
    (f"{NEW} --labels y.npy", "--apply goes with --logits and --output, got --l"),
    (f"{NEW} --report r.html", "got --report."),
    (f"{NEW} --save c.pkl --classes a", "got --classes, --save"),
    (f"--apply no.json {NEW}", "No such file"),
    (f"--apply c.joblib {NEW}", "end in .json or .skops"),
    (f"--apply c.onnx {NEW}", "end in .json or .skops"),
    (f"--apply c {NEW}", "end in .json or .skops"),
    (f"--apply cut.json {NEW}", "cut.json cannot be read: The"),
    (f"--apply new.json {NEW}", "new.json cannot be read"),
    (f"--apply g.skops {NEW}", "neither of skcalib nor of scikit-"),
    (f"--apply f.skops {NEW}", "calibrator of skcalib, or"),
    (f"--apply n.skops {NEW}", "calibrator of skcalib, or"),
    ("--logits two.npy", "X has 2 features, but VectorScaling is expecting 3"),
    ("--logits nan.npy", "1 NaN"),
    (f"{NEW} --output new.npy", "another file than those that are read"),
    ("--logits new.npz:a --output ./new.npz", "another file than those that"),
    ("--logits *.parquet --output no.parquet", "another file than those that"),
    ("--logits no --output no/p.parquet", "another file than those that are read"),
    ("--logits no.parquet --output p.parquet", "no.parquet holds no rows"),
    ("--logits no.parquet --output p.csv", "no.parquet holds no rows"),
    ("--logits order.csv", "of the classes, got columns 'bee', 'ant', 'cat' for classes 'ant'"),
    (f"{NEW} --label-column y", "a column of Parquet or text files"),
    (f"{NEW} --probabilities", "must hold probabilities"),
    (f"{NEW} --output p.txt", "ends in .csv, .tsv, .npy, .npz, .parquet"),
    ("--logits no/*.parquet", "no/*.parquet"),
    ("--logits words.parquet", "the labels must hold numbers, got 'y'; leave out others with -"),
    ("--logits index.csv", "Column 'id' of index.csv holds another whole number"),
    (f"{NEW} --keep id", "--keep needs a table as --output"),
    ("--logits index.csv --keep id --output p.npz", "needs a table"),
    ("--logits index.csv --keep no", "; --keep is 'no'"),
    ("--logits index.csv --columns ant bee cat --keep ant", "--keep 'ant' is a column of the res"),
    (f"{NEW} --priors 1 0", "--priors and --calibration-priors go toget"),
    (f"{NEW} --calibration-priors 1", "priors go together"),
    (f"{NEW} --priors 1 0 --calibration-priors .5 .5", "priors must be a list of 3 numbers"),
    (f"{NEW} --priors 1 1 1 --calibration-priors .5 .5 0", "priors must be probabilities that sum"),
    (f"{NEW} --priors 1 0 0 --calibration-priors .5 .5 0", "--calibration-priors must be above 0"),
    (f"{NEW} --costs 0 1 5 0", "--costs must be 9 numbers"),
    (f"{NEW} --costs" + 9 * " nan", "cost must be finite"),
]


# How files are written, for a calibrator.
FILES = {
    "cut.json": lambda name, c: pathlib.Path(name).write_text(to_json(c)[:100]),
    "new.json": lambda name, _: pathlib.Path(name).write_bytes(b"\xff\xfe\x00"),
    "c.joblib": lambda name, c: joblib.dump(c, name),
    "f.skops": lambda name, _: skops.io.dump(LogisticRegression().fit(Z, Y), name),
    "g.skops": lambda name, _: skops.io.dump(FunctionTransformer(pathlib.Path), name),
    "n.skops": lambda name, _: skops.io.dump([1, 2], name),
    "two.npy": lambda name, _: np.save(name, Z[:5, :2]),
    "nan.npy": lambda name, _: np.save(name, np.vstack([[np.nan, 0, 0], Z[:5]])),
    "order.csv": lambda name, _: pathlib.Path(name).write_text("bee,ant,cat\n1,2,3\n"),
    "index.csv": lambda name, _: pd.DataFrame(Z[:50], columns=NAMES).to_csv(name, index_label="id"),
    "words.parquet": lambda name, _: pd.DataFrame({"a": [1.0], "y": ["x"]}).to_parquet(name),
}


@pytest.mark.parametrize(("line", "sentence"), BAD)
def test_bad_input_is_a_sentence(calibrator, refusal, line, sentence):
    line = line if "--apply" in line else f"--apply c.json {line}"
    pathlib.Path("no").mkdir()
    pd.DataFrame(Z[:0], columns=NAMES).to_parquet("no.parquet")
    for name in FILES.keys() & set(line.split()):
        FILES[name](name, calibrator)
    assert sentence in refusal(line)


@pytest.mark.parametrize("ending", ["npy", "parquet"])
def test_probabilities_in_place_of_logits_are_a_warning(applied, ending):
    P = softmax(Z[:50], axis=1)
    np.save("p.npy", P)
    for part in ("p.parquet", "p2.parquet"):
        pd.DataFrame(P, columns=NAMES).to_parquet(part)
    err = applied(f"p*.{ending}" if ending == "parquet" else f"p.{ending}").err
    assert err.count("probabilities where logits are expected. Pass np.log(p) instead. Add") == 1
    assert not applied(f"p.{ending} --probabilities").err


@pytest.mark.filterwarnings("ignore:The features alone")
def test_a_calibrator_given_features_is_a_warning(applied):
    fitted = skcalib.conditional.ConditionalCalibrator([skcalib.PlattScaling()])
    saved(fitted.fit(Z, Y, features=(Y % 2).astype(str)))
    assert "fitted with features, got none" in applied("new.npy").err


def test_a_class_that_is_called_label(applied):
    names = np.array(["ant", "bee", "label"])
    saved(skcalib.VectorScaling().fit(Z, names[Y]), encoding="utf-8-sig")  # as of PowerShell
    applied("new.npy --output p.csv")
    assert list(pd.read_csv("p.csv").columns) == [*names, "predicted label"]


def test_another_version_is_a_warning(applied):
    text = json.loads(pathlib.Path("c.json").read_text())
    pathlib.Path("c.json").write_text(json.dumps({**text, "skcalib": "0.0.1"}))
    assert "warning: Trying to unpickle estimator VectorScaling" in applied("new.npy").err
