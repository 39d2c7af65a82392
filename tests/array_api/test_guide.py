"""The code of the guide's page on tensors runs."""

import re
import textwrap
from pathlib import Path

import numpy as np
from sklearn import config_context

PAGE = (Path(__file__).parents[2] / "doc" / "guide" / "tensors.rst").read_text()


def test_code(torch_lib):
    """All blocks one after the other, as readers run them."""
    blocks = re.findall(r"^\.\. code-block:: python\n\n((?:    .*\n|\n)+)", PAGE, flags=re.M)
    assert len(blocks) > 4
    torch_lib.xp.manual_seed(0)
    found = {}
    with config_context(array_api_dispatch=False):  # they switch it on themselves
        exec("\n".join(map(textwrap.dedent, blocks)), found)
    assert abs(found["calibrator"].temperature_ - 2) < 0.2
    np.testing.assert_allclose(found["on_host"], found["proba"].cpu().numpy(), atol=1e-6)
    assert found["scores"].shape == (5,)
    assert set(found["predicted"]) <= set("abcdefghij")
