"""Files for the command line: what is read, and what cannot be, in one sentence with a remedy."""

import gzip
import io
import zipfile

import numpy as np
import pandas as pd
import pytest
from numpy.lib import format as npy

from skcalib._cli import files as _files
from skcalib._cli.files import InputError, LabelledLogits, listed, read_pair, read_table, reading
from skcalib._cli.loading import _check_names, _check_probabilities, _halves, _logs, labels_of_type
from skcalib._cli.main import main
from skcalib.datasets import make_logits


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def files(folder):
    logits, y = make_logits(60, 3, random_state=0)
    np.save("z.npy", logits)
    np.save("y.npy", y)
    return logits, y


# --------------------------------------------------------------------------------------
# Bad files. Each function writes one, and says what is to be read of it.


def as_npz(folder, name, **arrays):
    np.savez_compressed(folder / name, **arrays)
    return bytearray((folder / name).read_bytes())


def truncated(folder, Z):
    whole = as_npz(folder, "bad.npz", z=Z)
    (folder / "bad.npz").write_bytes(whole[: len(whole) // 2])


def corrupt(folder, Z):
    whole = as_npz(folder, "bad.npz", z=Z)
    whole[55:75] = b"\xff" * 20  # where the compressed data start
    (folder / "bad.npz").write_bytes(whole)


def corrupt_and_stored(folder, Z):
    np.savez(folder / "bad.npz", z=Z)
    whole = bytearray((folder / "bad.npz").read_bytes())
    whole[-300] ^= 1  # in the last rows: only the checksum knows
    (folder / "bad.npz").write_bytes(whole)


def encrypted(folder, Z):
    whole = as_npz(folder, "bad.npz", z=Z)
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        whole[whole.index(mark) + place] |= 1
    (folder / "bad.npz").write_bytes(whole)


def unknown_compression(folder, Z):
    whole = as_npz(folder, "bad.npz", z=Z)
    for mark, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        whole[whole.index(mark) + place] = 77
    (folder / "bad.npz").write_bytes(whole)


def no_arrays(folder, Z):
    zipfile.ZipFile(folder / "bad.npz", "w").close()


def no_bytes(folder, Z):
    (folder / "bad.npz").write_bytes(b"")


def npy_named_npz(folder, Z):
    np.save(folder / "z.npy", Z)
    (folder / "z.npy").rename(folder / "bad.npz")


def npz_named_npy(folder, Z):
    as_npz(folder, "z.npz", z=Z)
    (folder / "z.npz").rename(folder / "bad.npy")


def with_header(shape, version=(1, 0), dtype="<f8"):
    stream = io.BytesIO()
    write = npy.write_array_header_1_0 if version == (1, 0) else npy.write_array_header_2_0
    write(stream, {"descr": dtype, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def claims_too_much(folder, Z):
    (folder / "bad.npy").write_bytes(with_header((6_000_000_000, 3)) + bytes(1000))


def claims_too_much_in_archive(folder, Z):
    with zipfile.ZipFile(folder / "bad.npz", "w") as archive:
        archive.writestr("z.npy", with_header((6_000_000_000, 3), (2, 0)) + bytes(1000))


def larger_than_memory(folder, Z):
    with (folder / "bad.npy").open("wb") as file:
        header = with_header((1 << 40,), dtype="|i1")
        file.write(header)
        file.truncate(len(header) + (1 << 40))  # which takes no room on the disk


def negative_shape(folder, Z):
    (folder / "bad.npy").write_bytes(with_header((-1, 3)) + bytes(240))


def next_version(folder, Z):
    np.save(folder / "z.npy", Z)
    whole = bytearray((folder / "z.npy").read_bytes())
    whole[6] = 9
    (folder / "bad.npy").write_bytes(whole)


def bomb(folder, Z):
    as_npz(folder, "bad.npz", z=np.zeros((300_000, 3)))


def packed_text_bomb(folder, Z):
    (folder / "bad.csv.gz").write_bytes(gzip.compress(b"0" * 5_000_000))


def pickled(folder, Z):
    np.save(folder / "bad.npy", np.array([None, 1]), allow_pickle=True)


def a_directory(folder, Z):
    (folder / "bad.npy").mkdir()


def long_field(folder, Z):
    (folder / "bad.csv").write_text("1," + "2" * 200_000)


def utf_16(folder, Z):
    (folder / "bad.csv").write_text("1,2,3\n", encoding="utf-16")


def open_quote(folder, Z):
    (folder / "bad.csv").write_text('1,2,3\n4,5,"6\n7,8,9\n')


def cut_gzip(folder, Z):
    (folder / "bad.tsv.gz").write_bytes(gzip.compress(b"1\t2\n" * 1000)[:-9])


def no_gzip(folder, Z):
    (folder / "bad.csv.gz").write_text("1,2,3\n")


def missing_numbers(folder, Z):
    (folder / "bad.csv").write_text("1,2,3\n1,,3\n")


def decimal_commas(folder, Z):
    (folder / "bad.csv").write_text("1,5;2,5;3\n")


def an_index(folder, Z):
    pd.DataFrame(Z, columns=list("abc")).to_csv(folder / "bad.csv")


def an_index_above_numbers(folder, Z):
    pd.DataFrame(Z).sample(frac=1.0, random_state=0).to_csv(folder / "bad.csv")


SAVE, SAVEZ = "write it again with numpy.save,", "write it again with numpy.savez,"
TEXT = "write it again as UTF-8 text"
PARQUET = "a Parquet file with --label-column"
BAD_LOGITS = {
    truncated: ("bad.npz", "not a zip file", SAVEZ),
    corrupt: ("bad.npz", "Error -3 while decompressing", SAVEZ),
    corrupt_and_stored: ("bad.npz", "Bad CRC-32", SAVEZ),
    encrypted: ("bad.npz", "is encrypted", SAVEZ),
    unknown_compression: ("bad.npz", "compression", SAVEZ),
    no_arrays: ("bad.npz", "is empty", "."),
    no_bytes: ("bad.npz", "not a zip file", SAVEZ),
    npy_named_npz: ("bad.npz", "not a zip file", SAVEZ),
    npz_named_npy: ("bad.npy", "magic string", SAVE),
    claims_too_much: ("bad.npy", "claims 144,000,000,000 bytes of data, and there are 1,000", SAVE),
    claims_too_much_in_archive: ("bad.npz", "claims 144,000,000,000 bytes", SAVEZ),
    larger_than_memory: ("bad.npy", "does not fit into memory", PARQUET),
    negative_shape: ("bad.npy", "claims -24 bytes", SAVE),
    next_version: ("bad.npy", "version", SAVE),
    bomb: ("bad.npz", "packed to less than a 200th of its size", SAVEZ),
    packed_text_bomb: ("bad.csv.gz", "packed to less than a 200th of its size", TEXT),
    pickled: ("bad.npy", "it holds Python objects", SAVE),
    a_directory: ("bad.npy", "Is a directory", "give a file that you may read"),
    long_field: ("bad.csv", "field larger than field limit", TEXT),
    utf_16: ("bad.csv", "can't decode byte 0xff", TEXT),
    open_quote: ("bad.csv", "unexpected end of data", TEXT),
    cut_gzip: ("bad.tsv.gz", "ended before the end-of-stream marker", TEXT),
    no_gzip: ("bad.csv.gz", "Not a gzipped file", TEXT),
    missing_numbers: ("bad.csv", "must hold a table of numbers, got '' in row 2", "."),
    decimal_commas: ("bad.csv", "got '1,5' in row 1", "write decimal points instead of commas"),
    an_index: ("bad.csv", "has no name, as the index that pandas", "with index=False"),
    an_index_above_numbers: ("bad.csv", "has no name, as the index", "with index=False"),
}


@pytest.mark.parametrize("make", BAD_LOGITS, ids=lambda make: make.__name__)
def test_bad_logits(files, folder, capsys, monkeypatch, make):
    monkeypatch.setattr(_files, "LARGE", 1 << 20)
    monkeypatch.setattr(_files, "_memory", lambda: 1 << 36)
    make(folder, files[0])
    name, condition, remedy = BAD_LOGITS[make]
    before = {p.name for p in folder.iterdir()}
    assert main(["--logits", name, "--labels", "y.npy"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("skcalib: ")
    assert err.count("\n") == 1
    assert err.endswith(".\n")
    for part in (name, condition, remedy):
        assert part in err
    assert {p.name for p in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("labels", "got"),
    [
        (np.array(1), "shape () of type int64"),
        (np.zeros(60, "M8[s]"), "type datetime64[s]"),
        (np.zeros(60, [("a", int)]), "type [('a'"),
        (np.zeros(60, complex), "type complex128"),
        (np.zeros((60, 3)), "shape (60, 3) of type float64"),
    ],
)
def test_bad_arrays_of_labels(files, folder, capsys, labels, got):
    np.save("bad.npy", labels)
    assert main(["--logits", "z.npy", "--labels", "bad.npy"]) == 2
    err = capsys.readouterr().err
    assert "bad.npy must hold one label per row, numbers or strings, got" in err
    assert got in err
    assert err.count("\n") == 1


def test_a_file_that_may_not_be_read():
    sentence = "^z cannot be read: Permission denied; give a file that you may read.$"
    with pytest.raises(InputError, match=sentence), reading("z", "write it again"):
        raise PermissionError(13, "Permission denied", "z")


@pytest.mark.parametrize(
    ("fault", "condition"),
    [
        (NotImplementedError(), "NotImplementedError"),
        (RuntimeError("a\n  b."), "a b"),
        (KeyError("no such thing"), "'no such thing'"),
        (RuntimeError("long " * 1000), "long long .{,190} ..."),
        (MemoryError(), None),
        (RecursionError("too deep"), "too deep"),
    ],
)
def test_whatever_reading_raises_is_one_sentence(fault, condition):
    sentence = f"^z cannot be read: {condition}; write it again.$"
    if condition is None:
        sentence = "^z does not fit into memory; give fewer rows, or a Parquet file with"
    with pytest.raises(InputError, match=sentence), reading("z", "write it again"):
        raise fault


def test_an_interrupt_is_no_fault_of_the_file():
    with pytest.raises(KeyboardInterrupt), reading("z", "write it again"):
        raise KeyboardInterrupt


def spoiled(whole, k, rng):
    """Content that was cut off, or has a wrong byte: anywhere, or near one of the ends.

    At the start are the headers, at the end the directories of archives.
    """
    bad = bytearray(whole)
    if k % 3 == 0:
        return bad[: rng.integers(len(bad))]
    bad[int(rng.integers(len(bad)) if k % 2 else rng.integers(-150, 150))] = rng.integers(256)
    return bad


@pytest.mark.parametrize("kind", ["npy", "npz", "csv", "csv.gz"])
@pytest.mark.filterwarnings("ignore")  # of zipfile and numpy, on what they find in headers
def test_whatever_is_wrong_with_a_file_is_one_sentence(files, folder, kind, rng):
    np.savez_compressed("z.npz", z=files[0])
    np.savetxt("z.csv", files[0], delimiter=",")
    np.savetxt("z.csv.gz", files[0], delimiter=",")
    whole = (folder / f"z.{kind}").read_bytes()
    said = []
    for k in range(150):
        (folder / f"bad.{kind}").write_bytes(spoiled(whole, k, rng))
        try:
            read_pair(f"bad.{kind}", "y.npy")
        except InputError as error:
            said.append(str(error))
    assert len(said) > 40
    assert all(text.startswith(f"bad.{kind} ") for text in said), said
    assert all("\n" not in text and text.endswith(".") for text in said)


# --------------------------------------------------------------------------------------
# What is read.


def test_arrays_as_they_are(files, folder):
    Z, y = files
    np.savez("run.npz", Z=np.asfortranarray(Z.astype(">f4")), y=y[:, None])
    found = read_pair("run.npz:Z", "run.npz:y")
    np.testing.assert_array_equal(found.logits, Z.astype(np.float32))
    assert found.logits.dtype == np.float32
    assert found.logits.dtype.isnative
    np.testing.assert_array_equal(found.labels, y)
    assert found.names is None
    np.save(
        "bytes.npy", np.array(["ant", "bee", "caf\u00e9"])[y].astype("U").astype(object).astype("U")
    )
    np.save("bytes.npy", np.char.encode(np.array(["ant", "bee", "caf\u00e9"])[y], "utf-8"))
    assert set(read_pair("z.npy", "bytes.npy").labels) == {"ant", "bee", "caf\u00e9"}


def test_an_array_with_a_long_header(files, folder):
    Z, _ = files
    (folder / "long.npy").write_bytes(with_header(Z.shape, (2, 0)) + Z.tobytes())
    np.testing.assert_array_equal(read_pair("long.npy", "y.npy").logits, Z)


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".tsv", ".tsv.gz", ".CSV"])
@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("header", [["a;b", "c,d", "e\tf"], [0, 1, 2], None])
def test_text(files, folder, suffix, mark, header):
    Z, y = files
    mark = "\t" if "tsv" in suffix else mark
    frame = pd.DataFrame(Z, columns=header)
    compression = "gzip" if suffix.endswith("gz") else None
    how = {"sep": mark, "index": False, "compression": compression}
    frame.to_csv(f"z{suffix}", header=header is not None, **how)
    words = pd.Series(np.array(["ant", "bee", "cat"])[y], name="what")
    words.to_csv(f"y{suffix}", header=header is not None, **how)
    found = read_pair(f"z{suffix}", f"y{suffix}")
    np.testing.assert_allclose(found.logits, Z, rtol=1e-12)
    assert found.names == (None if header is None else [str(name) for name in header])
    assert found.labels.tolist() == words.tolist()
    frame.columns = ["p", "q", "r"]
    frame.insert(1, "y", words)
    frame.to_csv(f"all{suffix}", **how)
    found = read_table(f"all{suffix}", "y")
    np.testing.assert_allclose(found.logits, Z, rtol=1e-12)
    assert found.labels.tolist() == words.tolist()
    assert found.names == ["p", "q", "r"]


def test_one_column_of_logits_has_no_header_that_counts(folder):
    (folder / "z.csv").write_text("0\n1\n2\n")
    (folder / "y.csv").write_text("a\nb\na\n")
    found = read_pair("z.csv", "y.csv")
    assert found.logits.tolist() == [[0], [1], [2]]


@pytest.mark.parametrize("header", ["label", "0", "cat", "7.5"])
def test_labels_have_a_header_if_there_is_one_line_more(folder, header):
    np.save("z.npy", np.zeros((3, 2)))
    (folder / "y.csv").write_text(f"{header}\ncat\ndog\ncat\n")
    assert read_pair("z.npy", "y.csv").labels.tolist() == ["cat", "dog", "cat"]
    (folder / "y.csv").write_text(f"{header}\n1\n0\n1\n")
    assert read_pair("z.npy", "y.csv").labels.tolist() == [1, 0, 1]
    (folder / "y.csv").write_text(f"{header}\ncat\ndog\n")
    assert read_pair("z.npy", "y.csv").labels.tolist() == [header, "cat", "dog"]


def test_a_header_above_too_few_numbers_is_no_label(folder):
    np.save("z.npy", np.zeros((3, 3)))
    (folder / "y.csv").write_text("label\n0\n1\n")
    with pytest.raises(InputError, match=r"'label' above numbers only: .* 2 labels for the 3"):
        read_pair("z.npy", "y.csv")


@pytest.mark.parametrize(
    ("texts", "expected", "dtype"),
    [
        (["9007199254740992", "9007199254740993"], [2**53, 2**53 + 1], np.int64),
        (["9007199254740993.0", "9007199254740992"], [2**53 + 1, 2**53], np.int64),
        (["-9223372036854775808", "9223372036854775807"], [-(2**63), 2**63 - 1], np.int64),
        (["18446744073709551615", "18446744073709551614"], [2**64 - 1, 2**64 - 2], np.uint64),
        (["-1", "9223372036854775808"], ["-1", "9223372036854775808"], None),
        (["18446744073709551616", "18446744073709551617"], None, None),
        (["0.1", "0.10000000000000000001"], None, None),
        (["0.5", "1.5"], [0.5, 1.5], np.float64),
        (["0.5", "1"], [0.5, 1.0], np.float64),
        (["1e3", "2.0"], [1000, 2], np.int64),
        (["10", "1_0"], None, None),
        (["1", "one"], None, None),
        (["inf", "1"], [np.inf, 1], np.float64),
        (["1", "1e-99999999999999999999"], None, None),
    ],
)
def test_labels_that_differ_are_never_merged(folder, texts, expected, dtype):
    np.save("z.npy", np.zeros((2, 2)))
    (folder / "y.csv").write_text("\n".join(texts))
    labels = read_pair("z.npy", "y.csv").labels
    assert labels.tolist() == (texts if expected is None else expected)
    assert labels.dtype == dtype if dtype is not None else labels.dtype.kind == "U"


def test_words_and_numbers_are_words(folder):
    np.save("z.npy", np.zeros((3, 3)))
    (folder / "y.csv").write_text("ant\n1\nbee\n")
    assert read_pair("z.npy", "y.csv").labels.tolist() == ["ant", "1", "bee"]


def test_a_header_above_nothing(folder):
    (folder / "z.csv").write_text("a,b\n")
    (folder / "y.csv").write_text("1\n")
    with pytest.raises(InputError, match="must hold a table of numbers, got 'a' in row 1"):
        read_pair("z.csv", "y.csv")


def test_the_line_that_differs_is_named(folder):
    (folder / "z.csv").write_text("1,2,3\n4,5,6\n7,8\n")
    with pytest.raises(InputError, match="fields, 3 in the first and 2 in line 3"):
        read_pair("z.csv", "y.csv")


def test_names_are_listed_up_to_ten():
    assert listed(range(10)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9"
    assert listed(range(11)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ... (11 in all)"


def test_a_label_that_is_missing(folder):
    np.save("z.npy", np.zeros((3, 2)))
    pd.Series(["a", None, "b"]).to_csv("y.csv", index=False, header=False)
    with pytest.raises(InputError, match="must hold a label for each row, got none for row 2"):
        read_pair("z.npy", "y.csv")


def test_labels_of_several_columns(folder):
    np.save("z.npy", np.zeros((2, 2)))
    (folder / "y.csv").write_text("1,2\n3,4\n")
    with pytest.raises(InputError, match=r"got shape \(2, 2\); --label-column says which"):
        read_pair("z.npy", "y.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,c\n1,2,3\n", "first line of z.csv, a, b, c, got 'y'"),
        ("1,2,3\n1,2,3\n", "first line of z.csv, 1, 2, 3, got 'y'"),
        ("y,b,y\n1,2,3\n", "got 'y' twice"),
        ("a,y\n", "must hold rows of logits and a label"),
        ("y\n1\n", "must hold rows of logits and a label"),
        (",a,y\n0,1,2\n", "first column of z.csv has no name"),
        (",".join(map(str, range(5000))) + "\n", r"8, 9, ... \(5,000 in all\), got 'y'"),
    ],
)
def test_bad_label_columns(folder, text, message):
    (folder / "z.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_table("z.csv", "y")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--logits", "z.npy", "--label-column", "y"],
            "got z.npy; give --labels and --test-labels",
        ),
        (["--logits", "z.npz:a", "--label-column", "y"], "got z.npz:a; give --labels"),
        (
            ["--logits", "z.csv", "--label-column", "y", "--test-logits", "z.parquet"],
            "all of one kind, got z.parquet",
        ),
        (
            ["--logits", "z.parquet", "--label-column", "y", "--test-logits", "z.tsv"],
            "all of one kind, got z.tsv",
        ),
        (["--logits", "z.csv", "--label-column", "y", "--labels", "z.csv"], "leave --labels and"),
    ],
)
def test_a_label_column_is_in_files_of_one_kind(folder, capsys, arguments, message):
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["z.txt", "z", "npy", "z.npy.gz", "z.gz", "z.npz.gz"])
def test_other_files(folder, name):
    with pytest.raises(InputError, match=r"must be a \.npy, \.npz, \.csv or \.tsv file, or"):
        read_pair(name, "y.npy")


def test_memory_of_this_machine():
    assert _files._memory() > 1 << 26


def test_memory_of_a_machine_that_does_not_tell(monkeypatch):
    def unknown(name):
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(_files.os, "sysconf", unknown)
    assert _files._memory() == np.inf


# --------------------------------------------------------------------------------------
# What is made of it.


class Arguments:
    logits, test_logits, classes = "z.csv", "t.csv", None


def named(names, labels=("ant", "bee", "cat"), like=np.array):
    return LabelledLogits(np.zeros((3, 3)), like(labels), names)


@pytest.mark.parametrize(
    ("names", "labels", "is_wrong"),
    [
        (["bee", "ant", "cat"], ["ant", "bee", "cat"], True),
        (["ant", "bee", "cat"], ["cat", "bee", "ant"], False),
        (["x", "y", "z"], ["ant", "bee", "cat"], False),
        (["1", "0", "2"], [0, 1, 2], True),
        (["1", "0", "2"], [0, 1, 1], True),  # a class is missing: labels are column numbers
        (["0", "1", "2"], [0, 1, 1], False),
        (["2", "10", "1"], [1, 2, 10], True),
        (["1", "2", "10"], [1, 2, 10], False),
        (None, ["ant", "bee", "cat"], False),
    ],
)
def test_columns_are_named_in_the_order_of_the_labels(names, labels, is_wrong):
    rows = named(names, labels)
    if is_wrong:
        with pytest.raises(InputError, match=r"z\.csv must be in the order of the labels"):
            _check_names(rows, rows, Arguments())
    else:
        _check_names(rows, rows, Arguments())


def test_classes_say_the_order_of_columns():
    rows = named(["bee", "ant", "cat"])
    arguments = Arguments()
    arguments.classes = ["bee", "ant", "cat"]
    _check_names(rows, rows, arguments)
    arguments.classes = ["ant", "bee", "cat"]
    with pytest.raises(InputError, match="labels, ant, bee, cat, got bee, ant, cat; say"):
        _check_names(rows, rows, arguments)


def test_columns_of_test_rows_are_those_of_the_others():
    rows = named(["x", "y", "z"])
    with pytest.raises(InputError, match=r"z.csv and t.csv must .* order, got x, y, z and x, z, y"):
        _check_names(rows, named(["x", "z", "y"]), Arguments())
    _check_names(rows, named(None), Arguments())
    _check_names(rows, named(["x", "y", "z"]), Arguments())


@pytest.mark.parametrize(
    ("dtype", "classes", "expected"),
    [
        (bool, ["False", "True"], [False, True]),
        (bool, ["True", "False"], [True, False]),
        (np.uint8, ["1", "300"], [1, 300]),
        (np.uint8, ["1", "-1"], [1, -1]),
        (np.int64, ["9007199254740993", "-1"], [2**53 + 1, -1]),
        (np.uint64, ["18446744073709551615", "0"], [2**64 - 1, 0]),
        (np.int64, ["18446744073709551615", "0"], [2**64 - 1, 0]),
        (np.float32, ["0.5", "1"], [0.5, 1.0]),
        ("U3", ["b", "abcde"], ["b", "abcde"]),
        (pd.Int64Dtype(), ["1", "0"], [1, 0]),
        (pd.BooleanDtype(), ["True", "False"], [True, False]),
        (pd.StringDtype(), ["b", "a"], ["b", "a"]),
    ],
    ids=str,
)
def test_classes_are_of_the_type_of_the_labels(dtype, classes, expected):
    labels = pd.Series([], dtype=dtype) if not isinstance(dtype, type | str) else np.zeros(0, dtype)
    found = labels_of_type(classes, labels)
    assert found.tolist() == expected
    assert labels_of_type(None, labels) is None
    if getattr(labels.dtype, "kind", "") in "bu":
        assert found.dtype.kind in "biu"


@pytest.mark.parametrize(
    ("dtype", "classes", "message"),
    [
        (bool, ["no", "yes"], "must be False and True, as the labels are, got no yes"),
        (int, ["1", "1.5"], "must be integers, as the labels are, got 1 1.5"),
        (float, ["1", "b"], "must be numbers, as the labels are, got 1 b"),
    ],
)
def test_classes_of_another_type(dtype, classes, message):
    with pytest.raises(InputError, match=message):
        labels_of_type(classes, np.zeros(0, dtype))


def test_classes_and_labels_are_integers_of_one_type():
    # Else they meet as floating-point numbers, in which large ones are equal.
    assert labels_of_type(["1", "0"], np.zeros(0, np.uint64)).dtype == np.uint64


def test_classes_that_no_integer_of_64_bits_holds():
    with pytest.raises(InputError, match="must be integers of 64 bits, got -1 184"):
        labels_of_type(["-1", str(2**64)], np.zeros(0, int))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_probability_of_zero_is_the_smallest_number(dtype):
    tiny = np.finfo(dtype).tiny
    P = np.array([[0.0, 1.0, 0.0], [0.25, 0.25, 0.5]], dtype)
    logs = _logs(P)
    assert logs.dtype == dtype
    np.testing.assert_array_equal(logs, np.log(np.maximum(P, tiny)))
    assert logs[0].tolist() == [np.log(tiny), 0, np.log(tiny)]
    margins = _logs(np.array([[0.0], [1.0], [0.5], [0.25]], dtype))
    largest = -np.log(tiny)
    np.testing.assert_allclose(margins[:, 0], [-largest, largest, 0, -np.log(3)], rtol=1e-6)


@pytest.mark.parametrize("P", [[0.0, 1.002], [-1e-9, 1.0], [np.nan, 1.0]])
def test_what_is_no_probability(files, folder, capsys, P):
    np.save("p.npy", np.tile(P, (60, 1)))
    assert main(["--logits", "p.npy", "--labels", "y.npy", "--probabilities"]) == 2
    assert f"p.npy must hold probabilities, got numbers from {P[0]:g}" in capsys.readouterr().err


def test_what_is_a_probability():
    _check_probabilities(0, 1.0009, "p")
    assert _logs(np.array([[0, 1]])).dtype == np.float64


def test_every_class_with_two_rows_is_in_both_halves(rng):
    y = rng.permutation(np.r_[np.repeat(np.arange(12), 2), np.zeros(100, int)])
    rows = LabelledLogits(np.arange(2.0 * len(y)).reshape(-1, 2), y, ["a", "b"])
    halves = _halves(rows)
    for half in halves:
        assert set(half.labels) == set(range(12))
        assert half.names == ["a", "b"]
        assert len(half.labels) == 62
        np.testing.assert_array_equal(half.labels, y[(half.logits[:, 0] // 2).astype(int)])
    assert not set(halves[0].logits[:, 0]) & set(halves[1].logits[:, 0])


def test_a_class_with_one_row_is_in_one_half(rng):
    y = np.r_[np.zeros(99, int), 1]
    calibration, test = _halves(LabelledLogits(rng.normal(size=(100, 2)), y))
    assert calibration.labels.sum() + test.labels.sum() == 1
    assert len(calibration.labels) == len(test.labels) == 50
