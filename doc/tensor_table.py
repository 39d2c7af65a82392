"""The table in ``guide/dask.rst`` of calibrators, by where they compute with tensors."""

import skcalib
from skcalib.base import BaseCalibrator
from skcalib.binning._histogram import _PerClass

# Where outputs are computed, and whether gradients pass through them.
SMOOTH = ("on the device", "yes")
STEPS = ("on the device", "no")
ON_HOST = ("on the host", "no")


def place(kind):
    """The row of a calibrator."""
    if not kind._on_device:  # noqa: SLF001
        return ON_HOST
    return STEPS if issubclass(kind, _PerClass) else SMOOTH


def names(row):
    """Names of the calibrators of a row, in alphabetical order."""
    modules = skcalib, skcalib.conditional, skcalib.experimental
    members = {name: getattr(module, name) for module in modules for name in module.__all__}
    return sorted(
        name
        for name, member in members.items()
        if isinstance(member, type) and issubclass(member, BaseCalibrator) and place(member) == row
    )


def table():
    """A row for each place."""
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: 64 20 16", ""]
    lines += ["   * - Calibrators", "     - Outputs", "     - Gradients"]
    for row in (SMOOTH, STEPS, ON_HOST):
        links = ", ".join(f":class:`~skcalib.{name}`" for name in names(row))
        lines += [f"   * - {links}", *(f"     - {cell}" for cell in row)]
    return "\n".join([*lines, ""])


def write(folder):
    """The table as a file, which the page includes."""
    (folder / "tensors.txt").write_text(table())
