"""What to_onnx knows of calibrators, checked where onnx is not installed, too."""

import skcalib
from skcalib._base import BaseCalibrator
from skcalib.export import to_onnx  # noqa: F401  (registers formulas)
from skcalib.export._formulas import formula


def test_every_calibrator_has_a_formula():
    kinds = [getattr(skcalib, name) for name in skcalib.__all__]
    kinds = {k for k in kinds if isinstance(k, type) and issubclass(k, BaseCalibrator)}
    assert kinds - formula.registry.keys() == set()
