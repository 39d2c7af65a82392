"""Settings of the tests of reports."""

import pytest


@pytest.fixture(autouse=True)
def _few_resamples_and_no_drawing(monkeypatch):
    """Intervals are those of the measures whatever the number of resamples.

    Pages have empty pictures, unless a test asks for ``page_of(case, drawn=True)``: those of a
    page take seconds.
    """
    for bound, value in {"LEAST": 19, "MOST": 49, "ENTRIES": 10_000}.items():
        monkeypatch.setattr(f"skcalib.report._measures.{bound}", value)
    monkeypatch.setattr("skcalib.report._diagrams.drawn", lambda draw, size: "data:,")


@pytest.fixture
def quick(monkeypatch):
    """For tests that say nothing of intervals that take long."""
    monkeypatch.setattr("skcalib.report._measures.TOO_MANY", {"smooth": 0, "classes": 0})
