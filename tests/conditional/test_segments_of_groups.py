"""Segments that hold few groups: a warning with a remedy, and intervals within [-1, 1]."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from skcalib import validation_report
from skcalib.conditional import multicalibration_error

HOSPITAL = np.arange(1500) % 25
RNG = np.random.default_rng(0)
P = RNG.uniform(0.05, 0.6, size=1500)
Y = (RNG.uniform(size=1500) < np.where(HOSPITAL == 7, P + 0.3, P)).astype(int)
NAMES = np.array([f"H{k:02}" for k in range(25)])[HOSPITAL]


@pytest.mark.filterwarnings("error")
def test_segments_of_one_group_each_have_a_warning_with_the_remedy():
    with pytest.warns(UserWarning, match="25 of 25, .*groups="):
        found = multicalibration_error(Y, P, NAMES, groups=HOSPITAL, random_state=0)
    assert (found.low >= -1).all()
    assert (found.high <= 1).all()
    assert (found.low <= found.high).all()
    best = multicalibration_error(Y, P, NAMES, random_state=0)
    assert best.segment[0] == "0 = H07"
    assert best.pvalue <= 0.01


@pytest.mark.filterwarnings("error")
def test_segments_of_many_groups_have_no_warning():
    patient, age = np.arange(1500) // 3, np.where(np.arange(1500) < 12, "young", "old")
    multicalibration_error(Y, P, age, groups=patient, random_state=0)


@pytest.mark.filterwarnings("error")
def test_a_report_gives_the_warning_when_it_is_created():
    with pytest.warns(UserWarning, match="25 of 25") as caught:
        report = validation_report(
            Y, P, groups=HOSPITAL, features=NAMES, figure=Figure((5, 7)), random_state=0
        )
    assert [w.filename for w in caught] == [__file__]
    assert "25 of 25" in " ".join(report.warnings_)
    assert (report.segments_.high <= 1).all()


def test_the_result_prints_and_is_a_frame():
    found = multicalibration_error(Y, P, NAMES, random_state=0)
    lines = str(found).splitlines()
    assert lines[0].startswith("Largest gap: ")
    assert len(lines) == 11
    assert "0 = H07, scores" in lines[1]
    pytest.importorskip("pandas")
    frame = found.to_frame()
    assert frame["segment"][0] == "0 = H07"
    np.testing.assert_allclose(frame["gap"], frame["confidence"] - frame["accuracy"])
    assert "label" not in frame
