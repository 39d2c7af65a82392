"""Settings of the tests of reports."""

import pytest


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch):
    """Intervals are those of the measures whatever the number of resamples."""
    monkeypatch.setattr("skcalib.report._intervals.MOST", 99)
