"""Files of logits and labels are read as pandas and NumPy read them, or refused in one sentence."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tables import NAMES, frame

from skcalib._cli.reading import FileColumns, read_parts, read_rows
from skcalib.datasets import make_logits

LOGITS, Y = make_logits(60, 3, random_state=0)
TABLE = frame(LOGITS, Y)
LABELLED = FileColumns(label="label")


def test_vectors_in_a_column_are_refused(folder):
    """Parquet files may hold lists, which pandas cannot convert to numbers."""
    table = pd.DataFrame({"logits": list(LOGITS), "label": NAMES[Y]})
    table.to_parquet("v.parquet")
    with pytest.raises(ValueError, match="vectors of 3 entries"):
        read_rows("v.parquet", None, LABELLED)
    pd.DataFrame({"labels": list(LOGITS)}).to_parquet("y.parquet")
    np.save("z.npy", LOGITS)
    with pytest.raises(ValueError, match="vectors of 3 entries"):
        read_rows("z.npy", "y.parquet", FileColumns())
    with pytest.raises(ValueError, match="vectors of 3 entries"):
        next(read_parts("v.parquet", FileColumns(logits=["logits"])))


def test_documents_are_no_labels(folder):
    labels = np.array(["a", "b" * 10**6, "c"], dtype=object)[Y]
    TABLE.assign(label=labels).to_csv("long.csv", index=False)
    with pytest.raises(ValueError, match="got 1,000,000"):
        read_rows("long.csv", None, LABELLED)
    np.save("z.npy", LOGITS)
    np.save("y.npy", np.array(["a", "b" * 2000, "c"])[Y])
    with pytest.raises(ValueError, match="got 2,000"):
        read_rows("z.npy", "y.npy", FileColumns())


# --------------------------------------------------------------------------------------
# Files that are read.


def write(path, table):
    """Write a table in the format of the suffix."""
    if path.endswith(".parquet"):
        table.to_parquet(path)
    else:
        table.to_csv(path, index=False, sep="\t" if path.endswith(".tsv") else ",")


@pytest.mark.parametrize("path", ["rows.csv", "rows.tsv", "rows.parquet"])
def test_tables(folder, path):
    write(path, TABLE)
    rows = read_rows(path, None, LABELLED)
    assert list(rows.X.columns) == NAMES.tolist()
    assert_allclose(rows.X, LOGITS)
    assert_array_equal(rows.y, NAMES[Y])
    assert rows.note == ""


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_arrays(folder, dtype):
    Z = np.round(4 * LOGITS).astype(dtype)
    np.save("z.npy", Z)
    np.savez("run.npz", logits=Z, y=Y)
    np.savez("one.npz", Z)
    np.save("y.npy", Y[:, None])
    for logits, labels in (
        ("z.npy", "y.npy"),
        ("run.npz:logits", "run.npz:y"),
        ("one.npz", "y.npy"),
    ):
        rows = read_rows(logits, labels, FileColumns())
        assert_array_equal(rows.X, Z)
        assert rows.X.dtype == dtype
        assert_array_equal(rows.y, Y)


def test_log_odds_in_one_column(folder):
    np.save("z.npy", LOGITS[:, 0])
    np.save("y.npy", Y > 0)
    assert read_rows("z.npy", "y.npy", FileColumns()).X.shape == (60, 1)


@pytest.mark.parametrize("sep", [";", "\t"])
def test_other_separators_and_decimal_commas(folder, sep):
    for decimal in (",", "."):
        TABLE.to_csv("rows.csv", index=False, sep=sep, decimal=decimal)
        rows = read_rows("rows.csv", None, LABELLED)
        assert_allclose(rows.X, LOGITS)
        assert_array_equal(rows.y, NAMES[Y])


def test_byte_order_marks_are_skipped(folder):
    TABLE.to_csv("rows.csv", index=False, encoding="utf-8-sig")
    assert list(read_rows("rows.csv", None, LABELLED).X.columns) == NAMES.tolist()


def test_parquet_columns_stay_float32(folder):
    TABLE.astype(dict.fromkeys(NAMES, np.float32)).to_parquet("rows.parquet")
    assert (read_rows("rows.parquet", None, LABELLED).X.dtypes == np.float32).all()


@pytest.mark.parametrize("name", ["id", None])
def test_the_index_of_a_parquet_file_is_no_column(folder, name):
    index = pd.Index(np.arange(60) + 1000, name=name)
    TABLE.set_index(index).to_parquet("rows.parquet")
    assert list(read_rows("rows.parquet", None, LABELLED).X.columns) == NAMES.tolist()


def test_columns_are_chosen_in_their_order(folder):
    TABLE.assign(id=np.arange(60)).to_csv("rows.csv", index=False)
    rows = read_rows("rows.csv", None, FileColumns("label", ["dog", "bird"]))
    assert_allclose(rows.X, LOGITS[:, [2, 0]])


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["3", "1", "2"], [3, 1, 2]),
        (["1.0", "2.0", "10"], [1, 2, 10]),
        (["-1", "0", "1"], [-1, 0, 1]),
        (["001", "002", "010"], ["001", "002", "010"]),
        (["1", "x", "2"], ["1", "x", "2"]),
        (["True", "False", "True"], ["True", "False", "True"]),
        (["0.5", "1", "2"], ["0.5", "1", "2"]),
    ],
)
def test_labels_are_integers_if_all_are_whole_numbers(folder, labels, expected):
    table = pd.DataFrame(LOGITS[:3], columns=NAMES).assign(label=labels)
    table.to_csv("rows.csv", index=False)
    table[["label"]].to_csv("y.csv", index=False)
    np.save("z.npy", LOGITS[:3])
    for rows in (read_rows("rows.csv", None, LABELLED), read_rows("z.npy", "y.csv", FileColumns())):
        assert rows.y.tolist() == expected


def test_words_for_missing_values_may_be_classes(folder):
    table = pd.DataFrame(LOGITS[:4], columns=["NA", "None", "null"]).drop(index=3)
    table.assign(label=table.columns).to_csv("rows.csv", index=False)
    assert read_rows("rows.csv", None, LABELLED).y.tolist() == ["NA", "None", "null"]


def test_a_column_of_labels_in_a_file_of_their_own(folder):
    TABLE.to_csv("y.csv")  # with the index
    np.save("z.npy", LOGITS)
    assert_array_equal(read_rows("z.npy", "y.csv", LABELLED).y, NAMES[Y])


@pytest.fixture
def parts(folder):
    """A folder with three Parquet files."""
    pytest.importorskip("dask.dataframe")
    (folder / "parts").mkdir()
    for k in range(3):
        table = TABLE.iloc[20 * k : 20 * k + 20].assign(id=[f"{i:03d}" for i in range(20)])
        table.to_parquet(f"parts/{k}.parquet", index=False)


# Dask calls deprecated functions of pandas.
dask_warns = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@dask_warns
@pytest.mark.parametrize("path", ["parts", "parts/", "parts/*.parquet"])
def test_several_parquet_files_are_read_by_dask(parts, path):
    columns = FileColumns("label", (), ["id"])
    rows = read_rows(path, None, columns)
    assert_allclose(rows.X, LOGITS)
    assert_array_equal(rows.y, NAMES[Y])
    assert rows.note == ""
    each = list(read_parts(path, columns))
    assert [len(part.X) for part in each] == [20, 20, 20]
    assert each[1].copied["id"].tolist()[:2] == ["000", "001"]


@dask_warns
def test_a_sample_of_many_rows_is_stated(parts, monkeypatch):
    monkeypatch.setattr("skcalib._cli.reading.MAX_FILE_ROWS", 30)
    rows = read_rows("parts", None, FileColumns("label", NAMES.tolist()))
    assert 20 <= len(rows.X) <= 40
    assert rows.note == f"{len(rows.X)} of 60 rows of parts, drawn at random"
    assert len(rows.y) == len(rows.X)


# --------------------------------------------------------------------------------------
# Files that are refused.

# Texts, and words that the sentence must have.
TEXTS = {
    "an empty cell": ("a,b,label\n1,2,x\n1,,y\n", "'b' must hold numbers, got nothing in row 2"),
    "a word": ("a,b,label\n1,2,x\n1,two,y\n", "'two' in row 2 (line 3"),
    "a comment": ("# note\na,b,label\n1,2,x\n", "'# note'"),
    "a comment below": ("a,b,label\n# note\n1,2,x\n", "'# note' in row"),
    "trailing commas": ("a,b,label,\n1,2,x,\n", "'Unnamed: 3'"),
    "more fields": ("a,b,label\n1,2,x,\n1,2,y,\n", "fields as line 2"),
    "a long line": ("a,b,label\n1,2,x\n1,2,y,3\n", "3 fields in line 3, saw 4"),
    "sep=": ("sep=;\na;b;label\n1;2;x\n", "Delete this line"),
    "no header": ("1.5,2,0\n1,2,1\n", "header"),
    "no label": ("a,b,label\n1,2,x\n1,2,\n", "no label in row 2 (line 3"),
    "a space": ("a,b,label\n1,2,x\n1,2,x \n", "'x ' in row 2 (line 3"),
    "no column": ("a,b\n1,2\n", "one column 'label'"),
    "no rows": ("a,b,label\n", "no rows"),
    "nothing": ("", "No columns"),
    "a name twice": ("a,b,b,label\n1,2,3,x\n", "'b' twice"),
    "labels only": ("label\nx\n", "no columns of logits"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_invalid_text_is_reported_with_row_and_column(folder, refusal, case):
    text, message = TEXTS[case]
    (folder / "bad.csv").write_text(text)
    found = refusal("--logits bad.csv --label-column label")
    assert found.startswith("skcalib: bad.csv cannot be read: ")
    assert message in found


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_other_encodings_are_refused(folder, refusal, encoding):
    TABLE.assign(label="vögel").to_csv("bad.csv", index=False, encoding=encoding)
    assert "bad.csv must be text in UTF-8" in refusal("--logits bad.csv --label-column label")


@pytest.mark.parametrize("name", ["", "id"])
def test_an_index_among_the_columns_is_refused(folder, refusal, name):
    TABLE.to_csv("bad.csv", index_label=name)
    message = refusal("--logits bad.csv --label-column label")
    assert "seems to be an index of the rows" in message
    assert read_rows("bad.csv", None, FileColumns("label", NAMES.tolist())).X.shape == (60, 3)


def test_labels_with_their_index_are_refused(folder, refusal):
    pd.Series(NAMES[np.load("y.npy")], name="label").to_csv("y.csv")
    assert "index=False" in refusal("--logits z.npy --labels y.csv")


@pytest.mark.parametrize("name", ["z.txt", "z.xlsx", "z", "z.npy.gz"])
def test_unknown_suffixes_name_the_known_ones(folder, refusal, name):
    (folder / name).write_text("a")
    message = refusal(f"--logits {name} --labels y.npy")
    assert f"{name} must end in .npy, .npz, .csv, .tsv, .parquet." in message


BAD_FILES = {
    "missing.npy": "No such file or directory",
    "text.npy": "cannot be read",
    "objects.npy": "cannot be read",
    "cube.npy": "float64 (2, 2, 2)",
    "words.npy": "<U1 (2, 1)",
    "two.npz": "two.npz:NAME",
    "two.npz:c": "'a', 'b'",
    "text.parquet": "cannot be read",
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_arrays_and_parquet_files_are_refused(folder, refusal, name):
    (folder / "text.npy").write_text("1 2 3")
    (folder / "text.parquet").write_text("1 2 3")
    np.save("objects.npy", np.array([{}, 1], dtype=object))  # loading them could execute code
    np.save("cube.npy", np.zeros((2, 2, 2)))
    np.save("words.npy", np.array(["a", "b"]))
    np.savez("two.npz", a=[1], b=[2])
    assert BAD_FILES[name] in refusal(f"--logits {name} --labels y.npy")


def test_labels_of_another_length_are_refused(folder, refusal):
    np.save("few.npy", np.zeros(7))
    pd.Series(np.load("y.npy")).to_csv("y.csv", index=False, header=False)  # without a header
    assert "200 rows of z.npy, got shape (7,)" in refusal("--logits z.npy --labels few.npy")
    assert "(199,) (the first line of a text" in refusal("--logits z.npy --labels y.csv")


def test_columns_option_needs_a_table(folder, refusal):
    for line in ("--label-column a", "--labels y.npy --columns a b"):
        assert ".csv, .tsv and .parquet" in refusal(f"--logits z.npy {line}")
