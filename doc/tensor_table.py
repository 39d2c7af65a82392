"""The table in ``guide/dask.rst`` of calibrators, by where they compute with tensors."""

import skcalib
from skcalib._base import BaseCalibrator
from skcalib.binning._histogram import _PerClass

DEVICE, HOST = "on the device", "on the host"

# Where they are fitted and applied, and whether gradients pass through their outputs.
ON_DEVICE = (DEVICE, DEVICE, "yes")
SPLINES = (f"{HOST}, but for the temperature", DEVICE, "yes")
STEPS = (f"ranked {DEVICE}", DEVICE, "no")
OF_OTHERS = (HOST, HOST, "no")


def place(kind):
    """The row of a calibrator."""
    if not kind._on_device:  # noqa: SLF001
        return OF_OTHERS
    if issubclass(kind, _PerClass):
        return STEPS
    return SPLINES if kind is skcalib.SplineCalibration else ON_DEVICE


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
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: 52 18 18 12", ""]
    lines += ["   * - Calibrators", "     - Fitted", "     - Applied", "     - Gradients"]
    for row in (ON_DEVICE, SPLINES, STEPS, OF_OTHERS):
        links = ", ".join(f":class:`~skcalib.{name}`" for name in names(row))
        lines += [f"   * - {links}", *(f"     - {cell}" for cell in row)]
    return "\n".join([*lines, ""])


def write(folder):
    """The table as a file, which the page includes."""
    (folder / "tensors.txt").write_text(table())
