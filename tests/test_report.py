"""The report shows the numbers that the measures give, and draws where it is told."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.special import softmax
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline

from skcalib import (
    BBQ,
    IsotonicCalibration,
    MatrixScaling,
    TemperatureScaling,
    VectorScaling,
)
from skcalib.datasets import make_logits
from skcalib.metrics import expected_calibration_error, maximum_calibration_error
from skcalib.report import calibration_report

KEYS = ["log loss", "Brier", "ECE", "MCE", "accuracy"]


def table_of(figure):
    """The numbers before and after, by name."""
    (text,) = [t.get_text() for ax in figure.axes for t in ax.texts]
    header, _, *lines = text.splitlines()
    assert header.split() == ["before", "after"]
    cells = [line.rsplit(maxsplit=2) for line in lines]
    return {name.strip(): (float(before), float(after)) for name, before, after in cells}


def numbers(y, P, w=None, n_bins=15):
    hit = np.arange(P.shape[1]) == y[:, None]
    return [
        log_loss(y, P, sample_weight=w),
        np.average(((P - hit) ** 2).sum(axis=1), weights=w),
        expected_calibration_error(y, P, sample_weight=w, n_bins=n_bins),
        maximum_calibration_error(y, P, sample_weight=w, n_bins=n_bins),
        np.average(P.argmax(axis=1) == y, weights=w),
    ]


@pytest.mark.parametrize("weighted", [False, True])
def test_table_has_the_measures(logits3, rng, weighted):
    Z, y = logits3
    w = rng.uniform(size=len(y)) if weighted else None
    calibrator = VectorScaling().fit(Z, y)
    table = table_of(calibration_report(calibrator, Z, y, sample_weight=w, n_bins=7))
    assert list(table) == KEYS
    before, after = np.transpose(list(table.values()))
    np.testing.assert_allclose(before, numbers(y, softmax(Z, axis=1), w, 7), atol=6e-5)
    np.testing.assert_allclose(after, numbers(y, calibrator.predict_proba(Z), w, 7), atol=6e-5)


@pytest.mark.parametrize(
    "calibrator",
    [
        MatrixScaling(),
        BBQ(),
        make_pipeline(TemperatureScaling(), IsotonicCalibration()),
    ],
    ids=lambda calibrator: type(calibrator).__name__,
)
def test_every_calibrator_has_a_report(calibrator, logits3):
    Z, y = logits3
    names = np.array(["ant", "bee", "zebra"])[y]
    figure = calibration_report(calibrator.fit(Z[:200], names[:200]), Z[200:], names[200:])
    titles = [ax.get_title() for ax in figure.axes]
    assert "Before" in titles
    assert type(calibrator).__name__ in titles
    assert list(table_of(figure)) == KEYS
    figure.draw_without_rendering()
    whole = figure.bbox
    drawn = figure.get_tightbbox().transformed(figure.dpi_scale_trans)
    assert whole.x0 - 1 <= drawn.x0
    assert drawn.x1 <= whole.x1 + 1
    assert whole.y0 - 1 <= drawn.y0
    assert drawn.y1 <= whole.y1 + 1


def test_classes_in_another_order_change_nothing(logits3):
    Z, y = logits3
    names = np.array(["c", "b", "a"])
    plain = calibration_report(TemperatureScaling().fit(Z, y), Z, y)
    named = calibration_report(TemperatureScaling(classes=names).fit(Z, names[y]), Z, names[y])
    assert table_of(plain) == table_of(named)


@pytest.mark.parametrize("columns", [1, 2])
def test_two_classes(columns):
    Z, y = make_logits(400, 2, random_state=0)
    Z = Z if columns == 2 else Z[:, 1:] - Z[:, :1]
    table = table_of(calibration_report(TemperatureScaling().fit(Z, y), Z, y))
    assert table["log loss"][1] < table["log loss"][0]
    assert table["accuracy"][0] == table["accuracy"][1]


def test_rows_may_lack_classes(digits):
    calibrator = TemperatureScaling().fit(digits.logits_calibration, digits.y_calibration)
    kept = digits.y_test != 3
    figure = calibration_report(calibrator, digits.logits_test[kept], digits.y_test[kept])
    assert list(table_of(figure)) == KEYS


def test_loss_of_the_calibrator_is_in_the_sweep(logits3):
    Z, y = logits3
    calibrator = MatrixScaling().fit(Z, y)
    figure = calibration_report(calibrator, Z, y, name="Mine")
    labels = [line.get_label() for ax in figure.axes for line in ax.lines]
    assert f"Mine: {log_loss(y, calibrator.predict_proba(Z)):.3f}" in labels


@pytest.mark.parametrize("name", ["Before", "Mine", None])
def test_name_is_the_title(logits3, name):
    figure = calibration_report(TemperatureScaling().fit(*logits3), *logits3, name=name)
    titles = [ax.get_title() for ax in figure.axes if ax.get_title()]
    assert titles == ["Before", name or "TemperatureScaling", "Logits divided by T"]


def test_histograms_have_the_same_scale(logits3):
    figure = calibration_report(TemperatureScaling().fit(*logits3), *logits3)
    limits = [ax.get_ylim() for ax in figure.axes if ax.get_ylabel().startswith("Share")]
    assert len(limits) == 2
    assert limits[0] == limits[1]


def test_given_figure_is_used(logits3):
    calibrator = TemperatureScaling().fit(*logits3)
    for figure in (Figure(), Figure(figsize=(20, 8)).subfigures(1, 2)[0]):
        assert calibration_report(calibrator, *logits3, figure=figure) is figure
        assert len(figure.axes) == 7
    assert not plt.get_fignums()


def test_new_figure_by_default_and_no_style_is_touched(logits3):
    before = dict(mpl.rcParams)
    figure = calibration_report(TemperatureScaling().fit(*logits3), *logits3)
    assert plt.get_fignums() == [figure.number]
    assert figure.get_size_inches().tolist() == [10, 8]
    assert dict(mpl.rcParams) == before


def test_bad_input(logits3):
    Z, y = logits3
    calibrator = TemperatureScaling().fit(Z, y)
    with pytest.raises(NotFittedError):
        calibration_report(TemperatureScaling(), Z, y)
    with pytest.raises(ValueError, match="NaN"):
        calibration_report(calibrator, np.full_like(Z, np.nan), y)
    with pytest.raises(ValueError, match="sample_weight"):
        calibration_report(calibrator, Z, y, sample_weight=-np.ones(len(y)))
    with pytest.raises(ValueError, match="n_bins"):
        calibration_report(calibrator, Z, y, n_bins=0)
    with pytest.raises(ValueError, match="y must hold only labels named in"):
        calibration_report(calibrator, Z, y + 1)
    with pytest.raises(ValueError, match="inconsistent"):
        calibration_report(calibrator, Z, y[:-1])
    assert not plt.get_fignums()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_integers_are_logits_as_well():
    """Their differences may be more than integers can hold."""
    Z = np.array([[0, 0, 3], [0, 2, 0], [1, 0, -(2**63)], [4, 0, 0]])
    y = np.array([2, 1, 1, 0])
    calibrator = BBQ().fit(Z, y)
    of_integers = table_of(calibration_report(calibrator, Z, y))
    assert of_integers == table_of(calibration_report(calibrator, Z.astype(float), y))
