"""What pictures and pages share: colours, texts that fit, HTML elements, files replaced whole."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


def written(value: float) -> str:
    """A score or an error as text: four decimals, or if it is small digits that count."""
    if abs(value) >= 0.01 or value == 0:
        return f"{value:.4f}"
    return f"{value:.5f}" if abs(value) >= 0.001 else f"{value:.2g}"


def briefly(value: float) -> str:
    """The same in a picture: three decimals, or if it is small two digits that count."""
    return f"{value:.3f}" if value >= 0.01 or value == 0 else f"{value:.2g}"


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
