"""Output of the command line: messages, a progress bar, and files."""

import os
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import glob
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, TextIO

import joblib

from skcalib._output import files as _files
from skcalib.export import to_json, to_onnx

from .files import InputError, path_and_array

# Packages that formats of calibrators need, and a format that needs none.
NEEDED = {".skops": ("skops", ".joblib"), ".onnx": ("onnx", ".json")}


class Console:
    """Standard output and error, which may be closed, full or of any encoding.

    A reader that closes its pipe, as ``head`` does, must not end the computation, so nothing more
    is written to a stream that failed.
    """

    def __init__(self, out: TextIO | None, err: TextIO | None) -> None:
        self.out = out
        self.err = err
        self.fault: OSError | None = None  #: why results could not be printed
        self._shown = ""

    def say(self, text: str) -> None:
        """Print a result."""
        self.clear()
        fault = _put(f"{text}\n", self.out)
        if fault is not None:
            self.out = None
            self.fault = None if isinstance(fault, BrokenPipeError) else fault

    def complain(self, message: object) -> None:
        """Print an error."""
        self.clear()
        if _put(f"skcalib: {message}\n", self.err) is not None:
            self.err = None

    def show_warning(self, message: Warning | str, *_: Any, **__: Any) -> None:
        """Show a warning as a sentence, in place of ``warnings.showwarning``."""
        self.complain(f"warning: {message}")

    def show(self, activity: str) -> None:
        """Show the current activity on a terminal, until something is printed."""
        if self.err is not None and self.err.isatty():
            _put(f"\r{activity:{len(self._shown)}}", self.err)
            self._shown = activity

    def __call__(self, done: int, total: int) -> None:
        """Show how many fits are done."""
        self.show(f"[{'=' * (30 * done // total):30}] {done} of {total} fits")

    def clear(self) -> None:
        """Clear the line of the activity."""
        if self._shown:
            _put(f"\r{'':{len(self._shown)}}\r", self.err)
            self._shown = ""


def _put(text: str, stream: TextIO | None) -> OSError | None:
    """Write text, escaping what the encoding lacks; returns the error if it fails."""
    if stream is None:  # as Python has it for one that was closed at the start
        return None
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except OSError as error:
        _let_go(stream)
        return error
    return None


def _let_go(stream: TextIO) -> None:
    """Redirect a broken stream to the null device, or Python fails to flush it at its exit."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


@contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """A file that replaces ``target`` once it is complete, or an InputError."""
    try:
        with _files.replacing(target) as file:
            yield file
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split()).rstrip(".")
        raise InputError(
            f"{target} cannot be written: {reason}; choose another place, or make room."
        ) from error


def checked_target(option: str, path: str, suffixes: tuple[str, ...], other: str = "") -> Path:
    """The path of a file to write, checked before the computation.

    ``other`` is what else the option may name, for the message.
    """
    target = Path(path)
    folder = target.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(f"{option} {path} must lie in a directory that exists and is writable.")
    if target.suffix.lower() not in suffixes or target.is_dir():
        endings = f"{', '.join(suffixes[:-1])} or {suffixes[-1]}"
        raise InputError(f"{option} {path} must be {other}a file that ends in {endings}.")
    needed, other = NEEDED.get(target.suffix.lower(), ("", ""))
    if needed and find_spec(needed) is None:
        raise InputError(
            f"{option} {path} needs {needed}: pip install {needed}, or give a file that ends in "
            f"{other}."
        )
    return target


def check_is_other(option: str, target: Path, inputs: Mapping[str, str | None]) -> None:
    """Raise an InputError for a file to write that is read, or would be the next time.

    ``inputs`` are the files to read by their options.
    """
    for name, given in inputs.items():
        if given is None:
            continue
        path = path_and_array(given)[0]
        files = [Path(one) for one in (path, *glob(path))]  # noqa: PTH207  (absolute ones as well)
        if any(target.resolve() == file.resolve() or _is_in(target, file) for file in files):
            raise InputError(
                f"{option} {target} must be another file than those of {name}, got {given}. Choose "
                "another name."
            )


def _is_in(file: Path, folder: Path) -> bool:
    return folder.is_dir() and folder.resolve() in file.resolve().parents


def save_calibrator(calibrator: Any, target: Path) -> str:
    """Write a fitted calibrator in the format of the suffix; returns how to load it."""
    suffix = target.suffix.lower()
    with replacing(target) as file:
        if suffix == ".skops":
            import skops.io

            skops.io.dump(calibrator, file)
        elif suffix == ".json":
            file.write(to_json(calibrator).encode())
        elif suffix == ".onnx":
            file.write(to_onnx(calibrator).SerializeToString())
        elif suffix == ".joblib":
            joblib.dump(calibrator, file)
        else:
            pickle.dump(calibrator, file)
    if suffix == ".skops":
        trusted = skops.io.get_untrusted_types(file=target)
        return f"skops.io.load({str(target)!r}, trusted={trusted})"
    if suffix == ".json":
        return f"skcalib.export.from_json(pathlib.Path({str(target)!r}).read_text())"
    if suffix == ".onnx":
        return f"onnxruntime.InferenceSession({str(target)!r})"
    if suffix == ".joblib":
        return f"joblib.load({str(target)!r})"
    return f"pickle.loads(pathlib.Path({str(target)!r}).read_bytes())"
