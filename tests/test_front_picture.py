"""The picture on the front page is up to date and agrees with the table."""

import json
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

SCRIPT = Path(__file__).parents[1] / "doc" / "before_after.py"


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def picture(script):
    with Image.open(script["PATH"]) as image:
        image.load()
    return image


N_BINS = 15  # of measures and displays by default


def per_bin(panel):
    """Shares of the rows, their confidence and their accuracy, with zeros for empty bins."""
    shares = np.zeros((3, N_BINS))
    weight = np.array(panel["rows"]) / np.sum(panel["rows"])
    bins = np.rint(N_BINS * np.array(panel["lower edge"])).astype(int)
    shares[:, bins] = weight * [np.ones(len(bins)), panel["confidence"], panel["accuracy"]]
    return shares


@pytest.mark.slow
def test_committed_picture_is_current(script, picture):
    kept, (_, drawn) = json.loads(picture.text["Description"]), script["draw"]()
    assert list(kept) == list(drawn)
    for name, panel in drawn.items():
        # The network that is trained differs a little between versions and machines.
        shares = [per_bin(of) for of in (kept[name], panel)]
        np.testing.assert_allclose(*shares, rtol=0, atol=0.01)
        assert kept[name]["ECE"] == pytest.approx(panel["ECE"], abs=0.01)


def test_picture_and_table_have_the_same_errors(picture):
    readme = (SCRIPT.parents[1] / "README.rst").read_text()
    before, after = json.loads(picture.text["Description"]).values()
    for name, panel in (("uncalibrated", before), ("calibrated", after)):
        error = re.search(rf"^{name} .*ECE (\S+)$", readme, re.M)[1]
        assert panel["ECE"] == pytest.approx(float(error), abs=6e-3)


def test_picture_is_opaque_and_not_clipped(picture):
    pixels = np.asarray(picture.convert("RGBA"))
    assert pixels.shape[1] >= 1200
    assert np.all(pixels[..., 3] == 255)
    for border in (pixels[:5], pixels[-5:], pixels[:, :5], pixels[:, -5:]):
        assert np.all(border == 255)


def test_picture_stands_in_readme_and_front_page(script):
    root = SCRIPT.parents[1]
    for page, source in {"README.rst": root, "doc/index.rst": root / "doc"}.items():
        assert script["PATH"].relative_to(source).as_posix() in (root / page).read_text()
