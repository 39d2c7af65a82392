"""Files that appear when they are complete."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


@contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """A file that replaces ``target`` once it is complete.

    It is created under an unpredictable name, exclusively, so that no existing file or link is
    opened, with the mode that the umask gives. A target that is a link is itself replaced, not what
    it points to: in a shared folder, others may have put it there. A device or a pipe is refused,
    since a file in its place would break what else uses it.
    """
    if os.path.lexists(target) and not (target.is_symlink() or target.is_file()):
        raise OSError(
            f"The file {str(target)!r} would replace what is no file, such as a device or a pipe. "
            "Choose another path."
        )
    draft = target.with_name(f".skcalib-{secrets.token_hex(8)}{target.suffix}")
    try:
        with draft.open("xb") as file:
            yield file
        draft.replace(target)
    finally:  # it is gone if all went well
        with suppress(OSError):
            draft.unlink()


def check_target(path: str | os.PathLike[str]) -> Path:
    """The path of a file to write, in a directory that exists."""
    if not isinstance(path, str | os.PathLike):
        raise ValueError(
            f"path must be that of a file, as a string or a pathlib.Path, got {type(path).__name__}"
            ". Pass path='report.html', or None for the text of the page."
        )
    target = Path(path)
    if target.is_dir() or not target.name:
        raise ValueError(
            f"path must be that of a file, got the directory {str(path)!r}. Add the name of a "
            "file, such as report.html."
        )
    if not target.parent.is_dir():
        raise ValueError(
            f"path must lie in a directory that exists, got {str(path)!r}. Create "
            f"{str(target.parent)!r} first."
        )
    return target
