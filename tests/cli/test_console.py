"""What the command line hands out: to pipes that close, terminals, links; saved calibrators."""

import errno
import io
import os
import pathlib
import pickle
import re
import stat
import sys
import types

import joblib
import numpy as np
import pytest
import skops.io

import skcalib
from skcalib.__main__ import main
from skcalib._cli import jobs
from skcalib._cli.jobs import show
from skcalib._output import replacing

NAME, REPORT = "skcalib-reliability.png", "skcalib-report.html"
GIVEN = ["--logits", "z.npy", "--labels", "y.npy"]
FILES = " ".join(GIVEN)


@pytest.fixture
def pictures(folder, quick):
    """Whether both are there, and nothing that was not to stay."""

    def are_there():
        found = {p.name for p in folder.iterdir()} - {"z.npy", "y.npy"}
        return found == {NAME, REPORT} and (folder / NAME).read_bytes() == b"drawn"

    return are_there


# --------------------------------------------------------------------------------------
# Streams.


def closed_pipe():
    """A stream into a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    return open(writer, "w", encoding="utf-8")  # noqa: PTH123


def test_a_pipe_that_nobody_reads(pictures, monkeypatch, capsys):
    with closed_pipe() as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert main(GIVEN) == 0
        stream.write("what Python itself may write at its exit")
        stream.flush()
    assert pictures()
    assert capsys.readouterr().err == ""


def test_a_full_disk_for_what_is_printed(folder, quick, monkeypatch, capsys):
    """Nothing is written, and Python has nothing to flush at its exit."""
    with open("/dev/full", "w") as stream:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdout", stream)
        assert main(GIVEN) == 2
        stream.flush()
    assert re.fullmatch(r"skcalib: .*No space left on device\n", capsys.readouterr().err)
    assert {p.name for p in folder.iterdir()} == {"z.npy", "y.npy"}


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_stream_that_is_closed(pictures, monkeypatch, capsys, name):
    monkeypatch.setattr(sys, name, None)
    assert main(GIVEN) == 0
    assert pictures()
    out, err = capsys.readouterr()
    assert (out == "") == (name == "stdout")
    assert err == ""
    assert main(["--logits", "none.npy", "--labels", "y.npy"]) == 2


@pytest.mark.parametrize(
    ("encoding", "name", "printed"),
    [
        ("ascii", "caf\u00e9.png", rb"caf\xe9.png"),
        ("ascii", "\u96ea.png", rb"\u96ea.png"),
        ("utf-8", "caf\u00e9.png", "caf\u00e9.png".encode()),
        ("utf-8", "\udcff.png", rb"\udcff.png"),  # how Python reads a name that is not UTF-8
        ("latin-1", "\u96ea.png", rb"\u96ea.png"),
    ],
)
def test_names_that_the_stream_cannot_encode(folder, quick, monkeypatch, encoding, name, printed):
    kinds = "strict", "backslashreplace"  # as Python opens them
    streams = [io.TextIOWrapper(io.BytesIO(), encoding, errors) for errors in kinds]
    for stream, where in zip(streams, ("stdout", "stderr"), strict=True):
        monkeypatch.setattr(sys, where, stream)
    assert main([*GIVEN, "--output", name]) == 0
    assert (folder / name).exists()
    assert b"Reliability diagrams: " + printed in streams[0].buffer.getvalue()
    assert main(["--logits", f"{name}.npy", "--labels", "y.npy"]) == 2
    streams[1].flush()
    assert b"skcalib: " + printed + b".npy cannot be read" in streams[1].buffer.getvalue()


def test_an_interrupt_says_so_and_leaves_nothing(folder, quick, monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    for where in ("reading.load", "compare_calibrators", "_diagrams"):
        with monkeypatch.context() as patch:
            patch.setattr(f"skcalib._cli.jobs.{where}", interrupted)
            assert main(GIVEN) == 130
        assert capsys.readouterr().err == "skcalib: interrupted.\n"
    drawn = types.SimpleNamespace(savefig=interrupted)
    monkeypatch.setattr("skcalib._cli.jobs._diagrams", lambda *_: drawn)
    assert main(GIVEN) == 130
    assert {p.name for p in folder.iterdir()} == {"z.npy", "y.npy"}


def of_dask_without(package):
    """What Dask raises, which names itself, where it lacks a package."""
    error = ImportError("Dask dataframe requirements are not installed.")
    error.__cause__ = ImportError(f"No {package}", name=package)
    return error


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            MemoryError("Unable to allocate 3 TiB"),
            "Memory is too small; give fewer rows, or Parquet files. Unable to allocate 3 TiB",
        ),
        (MemoryError(), "Parquet files.\n"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (ImportError("No module named 'x'"), "No module named 'x': install it.\n"),
        (ImportError("No x", name="x.y"), "No x: install it, as by pip install 'x'.\n"),
        (ImportError("No dask", name="dask.array"), "as by pip install 'skcalib[dask]'.\n"),
        (of_dask_without("pyarrow"), "No pyarrow: install it, as by pip install 'pyarrow'.\n"),
        (RuntimeError("a worker\n  is gone"), "skcalib: a worker is gone\n"),
    ],
)
def test_whatever_a_fit_raises_is_one_sentence(folder, quick, monkeypatch, capsys, fault, said):
    def failing(*_, **__):
        raise fault

    monkeypatch.setattr("skcalib._cli.jobs.compare_calibrators", failing)
    assert main(GIVEN) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_a_fault_of_the_program_is_not_hidden(folder, quick, monkeypatch):
    monkeypatch.setattr("skcalib._cli.jobs.compare_calibrators", None)
    with pytest.raises(TypeError):
        main(GIVEN)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("is_terminal", [False, True])
def test_progress_is_shown_on_a_terminal_only(folder, quick, monkeypatch, is_terminal):
    stream = Terminal() if is_terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    assert main(GIVEN) == 0
    text = stream.getvalue()
    if not is_terminal:
        assert text == ""
        return
    # From the first moment to the last, each over the one before, and nothing is left.
    steps = ["reading ...", "calibrating ...", "1 of 2 fits", "2 of 2 fits", "drawing ..."]
    places = [text.index(step) for step in steps]
    assert places == sorted(places)
    assert text.startswith("\rreading ...")
    assert f"[{'=' * 15}{' ' * 15}] 1 of 2 fits" in text
    assert text.endswith(f"\r{' ' * 60}\r")
    parts = re.split("\r+", text)
    assert all(len(part) in {0, 60} for part in parts)


def test_what_is_printed_clears_progress(monkeypatch, capsys):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    for act, left in ((jobs.say, ""), (jobs.complain, "skcalib: x\n")):
        show("drawing ...")
        act("x")
        assert stream.getvalue().endswith(f"drawing ...{' ' * 49}\r\r{' ' * 60}\r{left}")
    assert capsys.readouterr().out == "x\n"


# --------------------------------------------------------------------------------------
# Files.


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_files_have_the_mode_of_the_umask(tmp_path, mask):
    old = os.umask(mask)
    try:
        with replacing(tmp_path / "a.png") as file:
            file.write(b"whole")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a.png").stat().st_mode) == 0o666 & ~mask
    assert (tmp_path / "a.png").read_bytes() == b"whole"


def test_a_file_appears_when_it_is_whole(tmp_path):
    target = tmp_path / "a.png"
    target.write_text("old")
    with replacing(target) as file:
        file.write(b"half")
        file.flush()
        assert target.read_text() == "old"
        (draft,) = set(tmp_path.iterdir()) - {target}
        assert draft.name.startswith(".skcalib-")
        assert draft.suffix == ".png"
    assert target.read_bytes() == b"half"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("fault", [KeyboardInterrupt, ValueError, OSError(errno.ENOSPC, "no room")])
def test_a_failure_leaves_what_was_there(tmp_path, fault):
    target = tmp_path / "a.png"
    target.write_text("old")
    expected = OSError if isinstance(fault, OSError) else fault
    with pytest.raises(expected), replacing(target):
        raise fault
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_names_of_drafts_cannot_be_foretold(tmp_path, monkeypatch):
    names = set()
    for _ in range(3):
        with replacing(tmp_path / "a.png"):
            names |= {p.name for p in tmp_path.iterdir()} - {"a.png"}
    assert len(names) == 3
    # And if they could, a link of that name is not followed, and stays.
    victim = tmp_path / "victim"
    victim.write_text("mine")
    monkeypatch.setattr("secrets.token_hex", lambda n: "known")
    (tmp_path / ".skcalib-known.png").symlink_to(victim)
    with pytest.raises(FileExistsError), replacing(tmp_path / "b.png"):
        raise AssertionError
    assert victim.read_text() == "mine"


def test_a_target_that_is_a_link_is_replaced_itself(folder, quick):
    (folder / "mine.txt").write_text("mine")
    for name in (NAME, REPORT):
        (folder / name).symlink_to("mine.txt")
    assert main(GIVEN) == 0
    assert (folder / "mine.txt").read_text() == "mine"
    for name in (NAME, REPORT):
        assert not (folder / name).is_symlink()
        assert (folder / name).read_text() in {"drawn", "page"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--output none/p.png", "--output none/p.png must lie in a directory that exists"),
        ("--output p", "--output p must be a directory that exists, or a file that ends in"),
        ("--output p.txt", "or a file that ends in .png, .pdf, .svg."),
        ("--report d", "--report d must be a directory that exists, or a file that ends in"),
        ("--report r.txt", "--report r.txt must be a directory that exists, or a file that"),
        ("--report none/r.html", "--report none/r.html must lie in a directory that exists"),
        ("--save c.txt", "--save c.txt must be a file that ends in .json, .skops, "),
        ("--save d", "--save d must be a file that ends in"),
        ("--save ''", "--save must be a file that ends in"),
        ("--save none/c.pkl", "--save none/c.pkl must lie in a directory that exists and is"),
    ],
)
def test_targets_are_checked_before_the_work(folder, refusal, monkeypatch, line, message):
    (folder / "d" / REPORT).mkdir(parents=True)
    monkeypatch.setattr("skcalib._cli.reading.load", None)
    assert message in refusal(f"{FILES} {line}")


OWN = "--logits rows --label-column y"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"{OWN} --output rows", "--output rows/skcalib-reliability.png must be another file"),
        (f"{OWN} --report rows/r.html", "--report rows/r.html must be another file than those"),
        (f"{OWN} --save rows/c.json", "--save rows/c.json must be another file than those"),
        ("--logits *.html --label-column y --report r.html", "that are read, got *.html."),
        (f"{FILES} --report r.html", "another file than those that are read, got y.npy. Choose"),
        (f"{FILES} --test-logits rows --test-labels y.npy --report rows/r.html", "read, got rows"),
    ],
)
def test_targets_are_other_files_than_those_that_are_read(folder, refusal, line, message):
    (folder / "rows").mkdir()
    (folder / "y.npy").rename(folder / "r.html")
    (folder / "y.npy").symlink_to("r.html")
    assert message in refusal(line)
    assert not any((folder / "rows").iterdir())


def test_kinds_of_targets_have_no_ending_in_common():
    """So no two of them are one file."""
    kinds = [jobs.PICTURES, jobs.PAGES, jobs.CALIBRATORS]
    assert len(set().union(*kinds)) == sum(map(len, kinds))


def test_a_folder_that_may_not_be_written(folder, monkeypatch, refusal):
    monkeypatch.setattr("os.access", lambda *_: False)
    assert "must lie in a directory that exists and is writable" in refusal(GIVEN)


# --------------------------------------------------------------------------------------
# Calibrators.

LOADERS = {"skops": skops, "joblib": joblib, "pickle": pickle, "pathlib": pathlib}
LOADERS["skcalib"] = skcalib


@pytest.mark.parametrize("suffix", ["skops", "joblib", "pkl", "PKL", "json"])
@pytest.mark.parametrize("probabilities", [False, True])
def test_the_best_calibrator_is_saved(folder, quick, capsys, suffix, probabilities):
    logits, y = np.load("z.npy"), np.array(["ant", "bee", "cat"])[np.load("y.npy")]
    np.save("y.npy", y)
    if probabilities:
        P = np.exp(logits)
        np.save("z.npy", P / P.sum(axis=1, keepdims=True))
    name = f"it's the best.{suffix}"
    test = ["--test-logits", "z.npy", "--test-labels", "y.npy"]
    flag = ["--probabilities"] if probabilities else []
    assert main([*GIVEN, *test, *flag, "--save", name]) == 0
    out = capsys.readouterr().out
    takes = "logarithms of probabilities" if probabilities else "logits"
    head, _, rest = out.partition(f"TemperatureScaling, which takes {takes}: {name}; to load it:\n")
    assert "The temperature is" in head
    # What is printed is what loads it.
    loaded = eval(rest.splitlines()[0], dict(LOADERS))
    X = np.load("z.npy")
    X = np.log(X) if probabilities else X
    expected = skcalib.TemperatureScaling().fit(X, y)
    np.testing.assert_array_equal(loaded.predict_proba(X), expected.predict_proba(X))
    assert loaded.classes_.tolist() == ["ant", "bee", "cat"]
    assert {p.name for p in folder.iterdir()} == {"z.npy", "y.npy", NAME, REPORT, name}
