"""Files for the command line: what is read, and what cannot be, in one sentence."""

import gzip
import io
import os
import zipfile

import numpy as np
import pandas as pd
import pytest
from numpy.lib import format as npy

from skcalib.__main__ import main
from skcalib._cli import reading
from skcalib.datasets import make_logits


def read_pair(logits, labels):
    class Arguments:
        label_column, probabilities = None, False
        columns = drop = keep = ()

    return reading._load_pair(logits, labels, Arguments)


# --------------------------------------------------------------------------------------
# Bad files: what they hold.


def saved(array, **params):
    stream = io.BytesIO()
    np.save(stream, array, **params)
    return stream.getvalue()


def archive(Z, save=np.savez_compressed, *, marks=(), at=None, by=b""):
    """An archive, with some bytes replaced: all that are at a place, or one behind each mark."""
    stream = io.BytesIO()
    save(stream, z=Z)
    whole = bytearray(stream.getvalue())
    if at is not None:
        whole[at : at + len(by)] = by
    for mark, place, value in marks:
        whole[whole.index(mark) + place] = value
    return bytes(whole)


def claiming(version=(1, 0)):
    """A file of more numbers than any memory holds."""
    stream = io.BytesIO()
    write = npy.write_array_header_1_0 if version == (1, 0) else npy.write_array_header_2_0
    write(stream, {"descr": "<f8", "fortran_order": False, "shape": (1 << 47, 3)})
    return stream.getvalue() + bytes(1000)


def zipped(**files):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as made:
        for name, content in files.items():
            made.writestr(f"{name}.npy", content)
    return stream.getvalue()


Z = make_logits(200, 3, random_state=0)[0]
LOCAL, CENTRAL = b"PK\x03\x04", b"PK\x01\x02"
BAD = {
    "truncated.npz": archive(Z)[:2000],
    "corrupt.npz": archive(Z, at=55, by=b"\xff" * 20),  # where the compressed data start
    # In the last rows: only the checksum knows.
    "corrupt and stored.npz": archive(Z, np.savez, at=-300, by=b"\x00\xff\x00\xff"),
    "encrypted.npz": archive(Z, marks=[(LOCAL, 6, 1), (CENTRAL, 8, 1)]),
    "unknown compression.npz": archive(Z, marks=[(LOCAL, 8, 77), (CENTRAL, 10, 77)]),
    "no arrays.npz": zipped(),
    "no bytes.npz": b"",
    "claims too much.npy": claiming(),
    "claims too much.npz": zipped(z=claiming((2, 0))),
    "cut.npy": saved(Z)[:1000],
    "no rows.npy": saved(Z[:0]),
    "cube.npy": saved(np.zeros((200, 2, 2))),
    "strings.npy": saved(Z.astype(str)),
    "text.npy": b"not an array",
    "next version.npy": saved(Z)[:6] + b"\x09" + saved(Z)[7:],
    "pickled.npy": saved(np.array([None, 1]), allow_pickle=True),
    "a folder.npy": None,
    "empty.csv": "\n\n",
    "header.csv": "a,b,c\n",
    "ragged.csv": "1,2,3\n1,2\n",
    "words.csv": "a,b\nc,d\n",
    "number among names.csv": "a,b,7\n" + "1,2,3\n" * 200,
    "utf 16.csv": "1,2,3\n".encode("utf-16"),
    "open quote.csv": '1,2,3\n4,5,"6\n7,8,9\n',
    "missing numbers.csv": "1,,3\n" * 200,
    "decimal commas.csv": "1,5;2,5;3\n" * 200,
    "index.csv": pd.DataFrame(Z, columns=list("abc")).to_csv(),
    "index above numbers.csv": pd.DataFrame(Z).sample(frac=1.0, random_state=0).to_csv(),
    "cut.tsv.gz": gzip.compress(b"1\t2\n" * 1000)[:-9],
    "no gzip.csv.gz": "1,2,3\n",
    "ending.txt": "1,2,3\n",
}


@pytest.mark.parametrize("name", [*BAD, "none.npy", "none.csv"])
def test_bad_files(files, folder, refusal, name):
    content = BAD.get(name, "")
    if content is None:
        (folder / name).mkdir()
    elif name in BAD:
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    said = refusal(["--logits", name, "--labels", "y.npy"])
    assert name in said or name == "no rows.npy"  # whose fault the rows are, not the file


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (PermissionError(13, "Permission denied", "z"), "Permission denied"),
        (NotImplementedError(), "NotImplementedError"),
        (RuntimeError("a\n  b."), r"a b\. See"),
        (RuntimeError("long " * 1000), r"(long ){59}long \. See"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_whatever_reading_raises_is_one_sentence(fault, said):
    with pytest.raises(ValueError, match=f"^z cannot be read: .*{said}"), reading.reading("z"):
        raise fault


class Executed:
    """What executes something where it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("executed",)


def test_nothing_in_an_array_is_executed(folder):
    np.save("bad.npy", np.array([Executed()], dtype=object), allow_pickle=True)
    np.savez("bad.npz", z=np.array([Executed()], dtype=object))
    for name in ("bad.npy", "bad.npz"):
        with pytest.raises(ValueError, match="allow_pickle=False"):
            reading.read_logits(name)
    assert not (folder / "executed").exists()


@pytest.mark.parametrize(
    ("labels", "got"),
    [
        (np.array(1), "one label per row, got int64 ()"),
        (np.zeros(200, "M8[s]"), "datetime64[s] (200,)"),
        (np.zeros(200, complex), "complex128 (200,)"),
        (np.zeros((200, 3)), "got float64 (200, 3)"),
        (np.r_[np.nan, np.zeros(199)], "no label for row 1;"),
        (np.zeros(3, int), "bad.npy cannot be read: it holds 3 labels for 200 rows of z.npy"),
    ],
)
def test_bad_arrays_of_labels(files, refusal, labels, got):
    np.save("bad.npy", labels)
    said = refusal("--logits z.npy --labels bad.npy")
    assert "bad.npy" in said
    assert got in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a\n\nb\n\nc", "holds 3 labels for 200 rows"),  # blank lines are none
        ("1,2\n3,4\n", r"label per row, got <U1 \(2, 2\)"),
        ('a\n""\n' * 100, "no label for row 2"),
    ],
)
def test_bad_text_of_labels(folder, text, said):
    (folder / "y.csv").write_text(text)
    with pytest.raises(ValueError, match=said):
        read_pair("z.npy", "y.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,c\n1,2,3\n", "columns are 'a', 'b', 'c'; --label-column is 'y'"),
        ("y,b,y\n1,2,3\n", "columns are 'y', 'b', 'y'; --label"),
        (",a,y\n0,1,2\n", "first column has no name"),
        (",".join(map(str, range(5000))) + "\n", r"'4', ... \(4,995 more\); --label"),
    ],
)
def test_bad_label_columns(folder, text, message):
    (folder / "z.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        reading.read_logits("z.csv", {"--label-column": ["y"]})


# --------------------------------------------------------------------------------------
# What is read.


def test_arrays_as_they_are(files, folder):
    Z, y = files
    np.savez("run.npz", Z=np.asfortranarray(Z.astype(">f4")), y=y[:, None])
    found = read_pair("run.npz:Z", "run.npz:y")
    np.testing.assert_array_equal(found.logits, Z.astype(np.float32))
    np.testing.assert_array_equal(found.labels, y)
    assert found.logits.dtype.itemsize == 4
    assert found.columns == ()
    np.savez("one.npz", Z)
    np.testing.assert_array_equal(reading.read_logits("one.npz").logits, Z)
    np.save("bytes.npy", np.char.encode(np.array(["ant", "bee", "caf\u00e9"])[y], "utf-8"))
    assert set(read_pair("z.npy", "bytes.npy").labels) == {"ant", "bee", "caf\u00e9"}
    np.save("one.npy", Z[:, 0])
    assert reading.read_logits("one.npy").logits.shape == (200, 1)


def test_which_array_of_an_archive(files):
    np.savez("two.npz", a=files[0], b=files[1])
    for name in ("two.npz", "two.npz:c"):
        with pytest.raises(ValueError, match=r"holds 'a', 'b'; name one, as in two\.npz:NAME"):
            reading.read_logits(name)


@pytest.mark.parametrize(
    ("suffix", "mark"),
    [(".csv", ","), (".csv.gz", ";"), (".CSV", "\t"), (".tsv", "\t"), (".tsv.gz", "\t")],
)
@pytest.mark.parametrize("header", [["a;b", "c,d", "e\tf"], [0, 1, 2], None])
def test_text(files, suffix, mark, header):
    Z, y = files
    frame = pd.DataFrame(Z, columns=header)
    compression = "gzip" if suffix.endswith("gz") else None
    how = {"sep": mark, "index": False, "compression": compression, "encoding": "utf-8-sig"}
    frame.to_csv(f"z{suffix}", header=header is not None, **how)
    words = pd.Series(np.array(["ant", "bee", "caf\u00e9 #1"])[y], name="what")
    words.to_csv(f"y{suffix}", header=header is not None, **how)
    found = read_pair(f"z{suffix}", f"y{suffix}")
    np.testing.assert_allclose(found.logits, Z, rtol=1e-12)
    assert list(found.columns) == ([] if header is None else [str(name) for name in header])
    assert found.labels.tolist() == words.tolist()
    frame.columns = ["p", "q", "r"]
    frame.insert(1, "y", words)
    frame.to_csv(f"all{suffix}", **how)
    found = reading.read_logits(f"all{suffix}", {"--label-column": ["y"]})
    np.testing.assert_allclose(found.logits, Z, rtol=1e-12)
    assert found.labels.tolist() == words.tolist()
    assert found.columns == ["p", "q", "r"]


def test_one_column_of_logits_has_no_header_that_counts(folder):
    (folder / "z.csv").write_text("0\n1\n2\n")
    (folder / "y.csv").write_text("a\nb\na\n")
    assert read_pair("z.csv", "y.csv").logits.tolist() == [[0], [1], [2]]


def test_commas_in_a_column_between_tabs(folder):
    np.save("z.npy", np.zeros((3, 2)))
    (folder / "y.tsv").write_text("ant, red\nant, black\nbee\n")
    assert read_pair("z.npy", "y.tsv").labels.tolist() == ["ant, red", "ant, black", "bee"]


@pytest.mark.parametrize("header", ["label", "0", "cat", "7.5"])
def test_labels_have_a_header_if_there_is_one_line_more(folder, header):
    np.save("z.npy", np.zeros((3, 2)))
    (folder / "y.csv").write_text(f"{header}\ncat\ndog\ncat\n")
    assert read_pair("z.npy", "y.csv").labels.tolist() == ["cat", "dog", "cat"]
    (folder / "y.csv").write_text(f"{header}\n1\n0\n1\n")
    assert read_pair("z.npy", "y.csv").labels.tolist() == [1, 0, 1]
    (folder / "y.csv").write_text(f"{header}\ncat\ndog\n")
    assert read_pair("z.npy", "y.csv").labels.tolist() == [header, "cat", "dog"]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["9007199254740992", "9007199254740993"], [2**53, 2**53 + 1]),
        (["-9223372036854775808", "9223372036854775807"], [-(2**63), 2**63 - 1]),
        (["18446744073709551616", "18446744073709551617"], None),  # text, and not merged
        (["9007199254740992.0", "9007199254740993.0"], None),
        (["0.5", "1.5"], None),
        (["1", "2.0", "1e3"], [1, 2, 1000]),
        (["1", "one"], None),
        (["inf", "1"], None),
        (np.array([0.0, 2.0], np.float32), [0, 2]),
        (np.array([0.5, 2.0]), ["0.5", "2.0"]),
        (np.array([False, True]), [False, True]),
        (np.array([2**64 - 1, 3], np.uint64), [2**64 - 1, 3]),
        (np.array([b"1", b"0"]), [1, 0]),
    ],
    ids=str,
)
def test_labels_are_integers_or_text(labels, expected):
    found = reading._as_labels(np.asarray(labels))
    assert found.tolist() == (labels if expected is None else expected)
    assert found.dtype.kind in "biuU"


@pytest.mark.parametrize("labels", [["a", "", "b"], ["1", "nan"], [np.nan, 0.0]])
def test_a_label_that_is_missing(labels):
    with pytest.raises(ValueError, match="no label for row"):
        reading._as_labels(np.array(labels))


# --------------------------------------------------------------------------------------
# What is made of it.


@pytest.mark.parametrize(
    ("names", "test", "more", "is_wrong"),
    [
        (["bee", "ant", "cat"], None, [], True),
        (["bee", "ant", "cat"], None, ["--classes", "bee", "ant", "cat"], False),
        (["ant", "bee", "cat"], None, ["--classes", "bee", "ant", "cat"], True),
        (["x", "y", "z"], ["x", "z", "y"], [], True),
        (None, ["bee", "ant", "cat"], [], True),
        (["x", "y", "z"], ["x", "y", "z"], [], False),
        (["x", "y", "z"], None, [], False),
    ],
)
def test_columns_of_files_in_another_order(files, quick, capsys, names, test, more, is_wrong):
    logits, y = files
    np.save("y.npy", np.array(["ant", "bee", "cat"])[y])
    pd.DataFrame(logits).to_csv("z.csv", index=False, header=names or False)
    arguments = ["--logits", "z.csv", "--labels", "y.npy", *more]
    if test is not None:
        pd.DataFrame(logits).to_csv("t.csv", index=False, header=test)
        arguments += ["--test-logits", "t.csv", "--test-labels", "y.npy"]
    assert main(arguments) == 2 * is_wrong
    said = f"Columns of {'z' if test is None else 't'}.csv must be in the order of the classes"
    assert (said in capsys.readouterr().err) == is_wrong


@pytest.mark.parametrize(
    ("dtype", "classes", "expected"),
    [
        (bool, ["True", "False"], [True, False]),
        (bool, ["True", "no"], [True, "no"]),
        (np.uint8, ["1", "300", "-2", "b", "--2"], [1, 300, -2, "b", "--2"]),
        (float, ["1", "0"], [1, 0]),
        (np.int64, ["9007199254740993", "-1"], [2**53 + 1, -1]),
        ("U3", ["b", "abcde"], ["b", "abcde"]),
        (pd.Int64Dtype(), ["1", "0"], [1, 0]),
        (pd.BooleanDtype(), ["True", "False"], [True, False]),
        (pd.StringDtype(), ["b", "a"], ["b", "a"]),
    ],
    ids=str,
)
def test_classes_are_of_the_type_of_the_labels(dtype, classes, expected):
    labels = pd.Series([], dtype=dtype) if not isinstance(dtype, type | str) else np.zeros(0, dtype)
    assert reading._classes_like(labels, classes) == expected
    assert reading._classes_like(labels, None) is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_probability_of_zero_is_the_smallest_number(dtype):
    tiny = np.finfo(dtype).tiny
    P = np.array([[0.0, 1.0, 0.0], [0.25, 0.25, 0.5]], dtype)
    logs = reading._logs(P)
    assert logs.dtype == dtype
    np.testing.assert_array_equal(logs, np.log(np.maximum(P, tiny)))
    assert logs[0].tolist() == [np.log(tiny), 0, np.log(tiny)]
    margins = reading._logs(np.array([[0.0], [1.0], [0.5], [0.25]], dtype))
    largest = -np.log(tiny)
    np.testing.assert_allclose(margins[:, 0], [-largest, largest, 0, -np.log(3)], rtol=1e-6)


@pytest.mark.parametrize("P", [[0.0, 1.002], [-1e-9, 1.0], [np.nan, 1.0]])
def test_what_is_no_probability(files, refusal, P):
    np.save("p.npy", np.tile(P, (200, 1)))
    said = refusal("--logits p.npy --labels y.npy --probabilities")
    assert f"p.npy must hold probabilities, got numbers from {P[0]:g}" in said


def test_what_is_a_probability():
    reading._check_probabilities(0, 1.0009, "p")
    assert reading._logs(np.array([[0, 1]])).dtype == np.float64


def test_every_class_with_two_rows_is_in_both_halves(rng):
    y = rng.permutation(np.r_[np.repeat(np.arange(12), 2), np.zeros(100, int)])
    rows = reading.LabelledLogits(np.arange(2.0 * len(y)).reshape(-1, 2), y, ("a", "b"))
    halves = reading._halves(rows)
    for half in halves:
        assert set(half.labels) == set(range(12))
        assert half.columns == ("a", "b")
        assert len(half.labels) == 62
        np.testing.assert_array_equal(half.labels, y[(half.logits[:, 0] // 2).astype(int)])
    assert not set(halves[0].logits[:, 0]) & set(halves[1].logits[:, 0])


def test_a_class_with_one_row_is_in_one_half(rng):
    y = np.r_[np.zeros(99, int), 1]
    calibration, test = reading._halves(reading.LabelledLogits(rng.normal(size=(100, 2)), y))
    assert calibration.labels.sum() + test.labels.sum() == 1
    assert len(calibration.labels) == len(test.labels) == 50
