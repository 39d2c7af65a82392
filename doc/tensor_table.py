"""The table in ``guide/tensors.rst`` of calibrators that compute where their tensors are."""

import skcalib
from skcalib._base import BaseCalibrator

PLACES = {True: "on the device", False: "on the host"}


def names(on_device):
    """Names of the calibrators that declare it, in alphabetical order."""
    members = {name: getattr(skcalib, name) for name in skcalib.__all__}
    return sorted(
        name
        for name, member in members.items()
        if isinstance(member, type)
        and issubclass(member, BaseCalibrator)
        and member._on_device is on_device  # noqa: SLF001
    )


def table():
    """A row for each place."""
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: 20 80", ""]
    lines += ["   * - Computed", "     - Calibrators"]
    for on_device, place in PLACES.items():
        links = ", ".join(f":class:`~skcalib.{name}`" for name in names(on_device))
        lines += [f"   * - {place}", f"     - {links}"]
    return "\n".join([*lines, ""])


def write(folder):
    """The table as a file, which the page includes."""
    (folder / "tensors.txt").write_text(table())
