"""Reports of rows and under circumstances that are rare: what they must not claim, nor break."""

import copy
import os
import pickle
import re
from concurrent.futures import ThreadPoolExecutor

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from skcalib import TemperatureScaling, calibration_report
from skcalib.datasets import make_logits
from skcalib.report._intervals import gap_interval, mean_interval
from skcalib.report._pictures import drawn


def report_on(Z, y, other=None, **params):
    calibrator = TemperatureScaling().fit(*(other or (Z, y)))
    return calibration_report(calibrator, Z, y, figure=Figure((10, 8)), **params)


@pytest.fixture(autouse=True)
def _fewer_resamples(monkeypatch):
    monkeypatch.setattr("skcalib.report._intervals.MOST", 99)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("confidence", [0.999, 0.99, 0.9, 0.6, 0.02])
@pytest.mark.parametrize("n", [100, 1000])
def test_gap_of_calibrated_rows_is_covered(confidence, n, weighted, rng):
    """Even where most samples hold no error, and the normal interval has no width."""
    c, covered = np.full(n, confidence), []
    for _ in range(400):
        w = rng.exponential(size=n) if weighted else np.ones(n)
        found = gap_interval(c, rng.uniform(size=n) < c, w)
        assert found.low <= found.estimate <= found.high
        covered.append(found.low <= 0 <= found.high)
    assert np.mean(covered) > 0.92


def test_gap_of_many_errors_is_that_of_the_mean(rng):
    c = rng.uniform(0.4, 1, size=20_000)
    hit, w = rng.uniform(size=20_000) < c**2, rng.uniform(size=20_000)
    found, normal = gap_interval(c, hit, w), mean_interval(c - hit, w)
    ends = [found.low, found.high]
    np.testing.assert_allclose(ends, [normal.low, normal.high], atol=1e-3)


@pytest.mark.parametrize("hit", [0, 1])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 1.0])
def test_gap_of_rows_that_are_all_right_or_all_wrong(confidence, hit):
    """Its width is that of Wilson's interval on the side that rows do not rule out."""
    n, z2 = 500, 1.959964**2
    found = gap_interval(np.full(n, confidence), np.full(n, hit), np.ones(n))
    assert found.high - found.low == pytest.approx(z2 / (n + z2), rel=1e-4)
    assert found.estimate == pytest.approx(confidence - hit)


@pytest.mark.filterwarnings("ignore:The log loss has no minimum")
def test_rows_without_an_error_do_not_show_underconfidence(logits3, rng):
    """Probabilities of 0.9999, of which none is wrong in 500 rows, may well be right."""
    y = rng.integers(3, size=500)
    Z = np.log(0.00005) * (np.arange(3) != y[:, None])
    first, second, _ = report_on(Z, y, logits3).verdict_
    assert "neither over- nor under-confidence" in first
    assert second.endswith("but new rows may say otherwise, since none of them is misclassified.")


@pytest.mark.filterwarnings("ignore:The log loss has no minimum")
@pytest.mark.parametrize(("n_wrong", "words"), [
    (1, "only 1 of them is misclassified"),
    (9, "only 9 of them are misclassified"),
    (493, "only 7 of them are classified correctly"),
])  # fmt: skip
def test_few_errors_make_scores_uncertain(n_wrong, words, logits3, rng):
    y = rng.integers(3, size=500)
    top = np.where(np.arange(500) < n_wrong, (y + 1) % 3, y)
    Z = 6.0 * (np.arange(3) == top[:, None])
    report = report_on(Z, y, logits3)
    _, second, third = report.verdict_
    assert words in second
    assert "interval of the mean confidence less the accuracy" in third
    assert f"too narrow for these rows, since {words}" in report._repr_html_()
    assert not re.search("worse|improve|lowers|raises", second)


def test_enough_errors_let_the_scores_decide(logits3, rng):
    y = rng.integers(3, size=500)
    top = np.where(np.arange(500) < 10, (y + 1) % 3, y)
    report = report_on(3.0 * (np.arange(3) == top[:, None]), y, logits3)
    assert "misclassified" not in report.verdict_[1]
    assert "interval of the true error" in report.verdict_[2]
    assert "too narrow" not in report._repr_html_()


@pytest.mark.parametrize("kind", ["pipe", "link to a pipe"])
def test_what_is_no_file_stays(kind, logits3, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    report, path = report_on(*logits3), tmp_path / "pipe"
    if kind == "pipe":
        with pytest.raises(OSError, match="would replace what is no file"):
            report.to_html(path)
    else:
        (tmp_path / "link").symlink_to(path)
        report.to_html(tmp_path / "link")
        assert (tmp_path / "link").is_file()
    assert path.is_fifo()
    assert len(list(tmp_path.iterdir())) <= 2


def test_a_calibrator_named_before_is_after(logits3):
    page = report_on(*logits3, name="Before").to_html()
    other = report_on(*logits3, name="Mine").to_html()
    for words in ("Before calibration:", "After calibration:", "before calibration:"):
        assert page.count(words) == other.count(words)


def test_threads_restore_the_settings():
    before = dict(mpl.rcParams)

    def draw(k):
        look = ("light", "dark")[k % 2]
        return look, drawn(lambda figure: figure.subplots().plot([0, 1]), (3, 3), look)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(draw, range(16)))
    assert dict(mpl.rcParams) == before
    assert len(set(found)) == 2


def test_copies_have_the_same_page(logits3):
    report = report_on(*logits3)
    copies = [copy.deepcopy(report), pickle.loads(pickle.dumps(report)), copy.copy(report)]
    assert {other.to_html() for other in copies} == {report.to_html()}


@pytest.mark.parametrize("n_classes", [2, 4])
def test_long_names_of_classes_are_cut(n_classes):
    Z, y = make_logits(200, n_classes, random_state=0)
    names = np.array([f"{k}{1000 * 'L'}" for k in range(n_classes)])
    page = report_on(Z, names[y]).to_html()
    assert max(map(len, re.findall("L+", page))) < 200
    assert "1" + 118 * "L" + "\N{HORIZONTAL ELLIPSIS}" in page
    assert len(page) < 2e6
