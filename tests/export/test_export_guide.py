"""The code of the guide's page on export runs."""

import re
import textwrap
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow
PAGE = (Path(__file__).parents[2] / "doc" / "guide" / "export.rst").read_text()


def blocks_of(section):
    """The blocks of code of a section, as readers run them one after the other."""
    heading = rf"^{section}\n-+\n(.*?)(?=^[^\n]+\n-+\n|\Z)"
    text = re.search(heading, PAGE, flags=re.M | re.S).group(1)
    blocks = re.findall(r"^\.\. code-block:: python\n\n((?:    .*\n|\n)+)", text, flags=re.M)
    return "\n".join(map(textwrap.dedent, blocks))


def test_onnx(tmp_path, monkeypatch):
    for module in ("onnx", "onnxruntime"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    monkeypatch.chdir(tmp_path)
    found = {}
    exec(blocks_of("ONNX"), found)
    assert found["classes"] == list(range(10))
    assert np.isfinite(found["proba"]).all()
    assert found["model"].graph.output[0].name == "label"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_skl2onnx():
    for module in ("skl2onnx", "onnxruntime"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    found = {}
    exec(blocks_of("Pipelines with classifiers: skl2onnx"), found)
    expected = found["classifier"].predict_proba(found["X"])
    np.testing.assert_allclose(found["proba"], expected, atol=1e-6)
