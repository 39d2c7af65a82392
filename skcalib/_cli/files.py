"""Logits and labels in files, for the command line: numpy's formats and text.

The size that a file claims is compared with its content before anything is allocated, and every
error of a file is one sentence.
"""

import csv
import gzip
import io
import math
import os
import re
import textwrap
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

from skcalib._rows.arrays import Array

# Names of columns that a message lists.
SHOWN = 10

# A file that unpacks to more than LARGE bytes and more than BOMB times its packed size is taken
# for a zip bomb: even saturated probabilities are compressed to no less than a fiftieth.
LARGE, BOMB = 1 << 30, 200

HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}

REMEDIES = {
    "npy": "write it again with numpy.save, as an array of numbers or of strings",
    "npz": "write it again with numpy.savez, as arrays of numbers or of strings",
    "csv": "write it again as UTF-8 text with one row per line and the same fields in each",
}

REMEDIES["tsv"] = REMEDIES["csv"]


class InputError(Exception):
    """What is wrong with the user's input, in one sentence."""


class LabelledLogits(NamedTuple):
    """Logits and labels of some rows: arrays, or Dask collections."""

    logits: Any
    labels: Any
    names: list[str] | None = None  #: of the columns of logits, where the file has them


@contextmanager
def reading(file: str, remedy: str) -> Iterator[None]:
    """Turn every error of reading a file into a sentence that names the file.

    Broad on purpose: readers raise what their formats, codecs and libraries raise (BadZipFile,
    zlib.error, struct.error, EOFError, RuntimeError for encryption, NotImplementedError for
    compression, UnicodeDecodeError, ArrowInvalid, ...), and no list of that is ever complete. To
    the user it is all one condition, a file that cannot be read. KeyboardInterrupt passes.
    """
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{file} does not exist.") from None
    except MemoryError as error:
        raise InputError(
            f"{file} does not fit into memory; give fewer rows, or a Parquet file with "
            "--label-column, which may be larger than memory."
        ) from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            condition, remedy = os.strerror(error.errno), "give a file that you may read"
        else:
            condition = " ".join(str(error).split()).rstrip(".") or type(error).__name__
            condition = textwrap.shorten(condition, 200, placeholder=" ...")
        raise InputError(f"{file} cannot be read: {condition}; {remedy}.") from error


def kind_of(file: str) -> str:
    """How a file is read, by its name: "npy", "npz", "csv", "tsv", or "" for all others."""
    name = Path(path_and_array(file)[0]).name.lower()
    parts = name.removesuffix(".gz").rpartition(".")
    kinds = {"csv", "tsv"} if name.endswith(".gz") else {"npy", "npz", "csv", "tsv"}
    return parts[2] if parts[1] and parts[2] in kinds else ""


def is_text(file: str) -> bool:
    """Whether a file is a table of text, whose columns may have names."""
    return kind_of(file) in {"csv", "tsv"}


def listed(names: Sequence[Any]) -> str:
    """Names for a message, the first few of many."""
    more = f", ... ({len(names):,} in all)" if len(names) > SHOWN else ""
    return ", ".join(str(name) for name in names[:SHOWN]) + more


# Logits and labels.
def read_pair(logits_file: str, labels_file: str) -> LabelledLogits:
    """Logits in one file, labels in another."""
    names, logits = read_logits(logits_file)
    labels = _labels(labels_file, len(logits), logits_file)
    if len(logits) != len(labels):
        raise InputError(
            f"{logits_file} and {labels_file} must be of one length, got {len(logits)} and "
            f"{len(labels)} rows."
        )
    return LabelledLogits(logits, labels, names)


def read_table(file: str, label: str) -> LabelledLogits:
    """Labels in one column of a text file, by its name, and logits in all others."""
    header, *lines = _lines(file)
    if header.count(label) != 1:
        raise InputError(
            f"--label-column must be one of the columns in the first line of {file}, "
            f"{listed(header)}, got {label!r}{' twice' if label in header else ''}."
        )
    if not lines or len(header) == 1:
        raise InputError(f"{file} must hold rows of logits and a label, got none.")
    k = header.index(label)
    texts = [line[k] for line in lines]
    names, *rest = [line[:k] + line[k + 1 :] for line in (header, *lines)]
    return LabelledLogits(_numbers(rest, file), _labels_of_texts(texts, file), names)


def read_logits(file: str) -> tuple[list[str] | None, Array]:
    """Names of the columns, where there are any, and logits."""
    if is_text(file):
        lines = _lines(file)
        names = lines.pop(0) if _is_header(lines[0]) and len(lines) > 1 else None
        return names, _numbers(lines, file)
    table = _array(file)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or table.dtype.kind not in "fiu":
        raise InputError(
            f"{file} must hold a table of numbers, got shape {table.shape} of type {table.dtype}."
        )
    return None, table


def _labels(file: str, n_rows: int, logits_file: str) -> Array:
    """Labels, below a header line if there is one line more than rows of logits."""
    if not is_text(file):
        labels = _array(file)
        if labels.ndim == 0 or labels.size != len(labels) or labels.dtype.kind not in "biufSU":
            raise InputError(
                f"{file} must hold one label per row, numbers or strings, got shape "
                f"{labels.shape} of type {labels.dtype}."
            )
        with reading(file, "write labels as strings, not as bytes"):
            labels = np.char.decode(labels, "utf-8") if labels.dtype.kind == "S" else labels
        return labels.ravel()
    lines = _lines(file)
    if len(lines[0]) > 1:
        raise InputError(
            f"{file} must hold one label per row, got shape ({len(lines)}, {len(lines[0])}); "
            "--label-column says which of several columns holds them."
        )
    texts = [field for (field,) in lines]
    if len(texts) == n_rows + 1:
        return _labels_of_texts(texts[1:], file)
    if len(texts) == n_rows > 1 and not is_number(texts[0]) and all(map(is_number, texts[1:])):
        raise InputError(
            f"{file} holds {texts[0]!r} above numbers only: a header, so that there are "
            f"{n_rows - 1} labels for the {n_rows} rows of {logits_file}, or else a label to give "
            "by a .npy file."
        )
    return _labels_of_texts(texts, file)


def _labels_of_texts(texts: list[str], file: str) -> Array:
    """Numbers if all are, else strings: labels that differ are never merged by rounding."""
    distinct = set(texts)
    if "" in distinct:
        raise InputError(
            f"{file} must hold a label for each row, got none for row {texts.index('') + 1}; "
            "leave out the rows without one."
        )
    if not all(map(is_number, distinct)):
        return np.array(texts)
    numbers: dict[str, Any] = {text: float(text) for text in distinct}
    dtype: type | None = float
    if all(map(math.isfinite, numbers.values())):
        exact = {text: Decimal(text) for text in distinct}
        if all(x == x.to_integral_value() for x in exact.values()):
            numbers = {text: int(x) for text, x in exact.items()}
            dtype = integers_for(numbers.values())
        elif len(set(numbers.values())) < len(set(exact.values())):
            dtype = None
    return np.array([numbers[text] for text in texts], dtype) if dtype else np.array(texts)


def integers_for(values: Any) -> type | None:
    """The integers of 64 bits that hold all values, if there are any."""
    low, high = min(values), max(values)
    if low >= -(2**63) and high < 2**63:
        return np.int64
    return np.uint64 if low >= 0 and high < 2**64 else None


# Text.
def _lines(file: str) -> list[list[str]]:
    """Fields of each line, equally many; blank lines are skipped."""
    with reading(file, REMEDIES["csv"]):
        text = _unpacked(file).decode("utf-8-sig")
        delimiter = "\t" if kind_of(file) == "tsv" else _delimiter(text)
        stream = io.StringIO(text, newline="")
        lines = [line for line in csv.reader(stream, delimiter=delimiter, strict=True) if line]
    if not lines:
        raise InputError(f"{file} is empty.")
    width = len(lines[0])
    for number, line in enumerate(lines, start=1):
        if len(line) != width:
            raise InputError(
                f"{file} cannot be read: its lines differ in the number of fields, {width} in the "
                f"first and {len(line)} in line {number}; {REMEDIES['csv']}."
            )
    if lines[0][0] == "":
        raise InputError(
            f"The first column of {file} has no name, as the index that pandas writes; write the "
            "file with index=False."
        )
    return lines


def _unpacked(file: str) -> bytes:
    if not file.lower().endswith(".gz"):
        return Path(file).read_bytes()
    packed = Path(file).stat().st_size
    with gzip.open(file) as stream:
        content = stream.read(max(LARGE, BOMB * packed) + 1)
    _check_fits(len(content), packed)
    return content


def _delimiter(text: str) -> str:
    """Semicolon or tab if each of the first two lines has one outside of quotes, else a comma."""
    lines = re.sub(r'"[^"]*"', "", text.lstrip()).split("\n", 2)[:2]
    return next((mark for mark in ";\t" if all(mark in line for line in lines if line)), ",")


def _is_header(line: list[str]) -> bool:
    """Whether no field is a number; or whether they count columns from 0, as pandas writes."""
    counted = len(line) > 1 and line == [str(k) for k in range(len(line))]
    return counted or not any(map(is_number, line))


def _numbers(lines: list[list[str]], file: str) -> Array:
    try:
        return np.array(lines, dtype=np.float64)
    except ValueError:
        number, field = next(
            (k, field) for k, line in enumerate(lines, 1) for field in line if not is_number(field)
        )
        decimal_comma = re.fullmatch(r"\s*[-+]?\d*,\d+(e[-+]?\d+)?\s*", field, re.IGNORECASE)
        remedy = "; write decimal points instead of commas" if decimal_comma else ""
        raise InputError(
            f"{file} must hold a table of numbers, got {textwrap.shorten(field, 60)!r} in row "
            f"{number}{remedy}."
        ) from None


def is_number(field: str) -> bool:
    """Whether a field is a number, which 1_000 is in Python only."""
    try:
        float(field)
        Decimal(field)
    except (ValueError, InvalidOperation):
        return False
    return "_" not in field


# Arrays.
def path_and_array(file: str) -> tuple[str, str | None]:
    """Path, and the name behind the colon of FILE.npz:NAME."""
    path, found, name = file.rpartition(".npz:")
    return (f"{path}.npz", name) if found else (file, None)


def _array(file: str) -> Array:
    """The array in a .npy or .npz (``FILE:NAME``) file."""
    kind, (path, name) = kind_of(file), path_and_array(file)
    if kind not in REMEDIES:
        raise InputError(f"{file} must be a .npy, .npz, .csv or .tsv file, or one of text in .gz.")
    with reading(path, REMEDIES[kind]), Path(path).open("rb") as stream:
        if kind == "npy":
            size = os.fstat(stream.fileno()).st_size
            array = _array_in(stream, size, size)
        else:
            array = _array_in_archive(stream, path, name)
    if array.size == 0:
        raise InputError(f"{file} is empty.")
    return array


def _array_in_archive(stream: IO[bytes], path: str, name: str | None) -> Array:
    with zipfile.ZipFile(stream) as archive:
        members = {m.filename.removesuffix(".npy"): m for m in archive.infolist()}
        if not members:
            raise InputError(f"{path} is empty.")
        if name is None and len(members) == 1:
            (name,) = members
        if name not in members:
            raise InputError(
                f"{path} holds the arrays {listed(list(members))}: name one of them, as in "
                f"{path}:{next(iter(members))}."
            )
        with archive.open(members[name]) as packed:
            return _array_in(packed, members[name].file_size, members[name].compress_size)


def _array_in(stream: IO[bytes], size: int, packed: int) -> Array:
    """The array in a stream of ``size`` bytes, which were ``packed`` bytes when compressed."""
    version = npy.read_magic(stream)
    if version not in HEADERS:  # columns with names that are not ASCII, or yet to come
        raise ValueError(f"its version of the format is {version[0]}.{version[1]}")
    shape, _, dtype = HEADERS[version](stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    claimed, held = math.prod(shape) * dtype.itemsize, size - stream.tell()
    if min(shape, default=0) < 0 or claimed > held:
        raise ValueError(f"its header claims {claimed:,} bytes of data, and there are {held:,}")
    _check_fits(claimed, packed)
    stream.seek(0)
    array = npy.read_array(stream, allow_pickle=False)
    stream.read(1)  # an archive compares checksums at the end of a member
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _check_fits(n_bytes: int, packed: int) -> None:
    """Raise an error for a zip bomb, and for data that are larger than the memory."""
    if n_bytes > LARGE and n_bytes > BOMB * packed:
        raise ValueError(f"it is packed to less than a {BOMB}th of its size")
    if n_bytes > _memory():
        raise MemoryError


def _memory() -> float:
    """Bytes of physical memory, infinite if unknown."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return math.inf
