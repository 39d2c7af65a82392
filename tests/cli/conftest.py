"""A folder with logits and labels, and a comparison that takes no time."""

import shlex
import types
from pathlib import Path

import numpy as np
import pytest

import skcalib
from skcalib.__main__ import main
from skcalib._output import replacing
from skcalib.datasets import make_logits


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory, with ``z.npy`` and ``y.npy``."""
    monkeypatch.chdir(tmp_path)
    logits, y = make_logits(200, 3, random_state=0)
    np.save("z.npy", logits)
    np.save("y.npy", y)
    return tmp_path


@pytest.fixture
def files(folder):
    """The logits and labels in the folder."""
    return np.load("z.npy"), np.load("y.npy")


def status_of(given):
    """The exit status of the command line, which is given its arguments, as a list or a line."""
    return main(shlex.split(given) if isinstance(given, str) else given)


@pytest.fixture
def said(capsys):
    """What the command line writes, as ``out`` and ``err``, where all goes well."""

    def of(given):
        capsys.readouterr()
        assert status_of(given) == 0
        return capsys.readouterr()

    return of


@pytest.fixture
def refusal(capsys):
    """What it says of bad input: one sentence and status 2, and nothing is written."""

    def of(given, start=""):
        folder = Path()
        before, _ = {p.name for p in folder.iterdir()}, capsys.readouterr()
        assert status_of(given) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith(f"skcalib: {start}")
        assert err.endswith(".\n")
        assert err.count("\n") == 1
        assert {p.name for p in folder.iterdir()} == before
        return err

    return of


@pytest.fixture
def quick(monkeypatch):
    """One calibrator, pictures that take no time, and what the report was made of."""
    seen = types.SimpleNamespace(members=[skcalib.TemperatureScaling()], reports=[])
    monkeypatch.setattr("skcalib.comparison._compare._every_calibrator", lambda: seen.members)

    def to_html(path):
        with replacing(path) as file:
            file.write(b"page")

    drawn = types.SimpleNamespace(
        savefig=lambda file, **_: file.write(b"drawn"), to_html=to_html, verdict_=["Verdict."]
    )
    monkeypatch.setattr("skcalib._cli.jobs._diagrams", lambda *_: drawn)

    def report(*args, **named):
        seen.reports.append((args, named))
        return drawn

    monkeypatch.setattr("skcalib._cli.jobs.calibration_report", report)
    return seen
