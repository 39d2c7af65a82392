"""A folder with logits and labels, and the command line."""

import shlex
from pathlib import Path

import numpy as np
import pytest
from tables import frame

from skcalib.__main__ import main
from skcalib.datasets import make_logits


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Working directory with arrays ``z.npy`` and ``y.npy`` and the table ``rows.csv``."""
    monkeypatch.chdir(tmp_path)
    logits, y = make_logits(200, 3, random_state=0)
    np.save("z.npy", logits)
    np.save("y.npy", y)
    frame(logits, y).to_csv("rows.csv", index=False)
    return tmp_path


@pytest.fixture
def run(capsys):
    """Output of the command line, which must succeed."""

    def run_line(line):
        capsys.readouterr()
        status = main(shlex.split(line))
        out, err = capsys.readouterr()
        assert status == 0, err
        return out, err

    return run_line


@pytest.fixture
def refusal(capsys):
    """Sentence of the command line about bad input, with status 2 and no file written."""

    def refuse(line):
        before = {path.name for path in Path().iterdir()}
        capsys.readouterr()
        assert main(shlex.split(line)) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("skcalib: ")
        assert err.count("\n") == 1
        assert err.endswith(".\n")
        assert {path.name for path in Path().iterdir()} == before
        return err

    return refuse
