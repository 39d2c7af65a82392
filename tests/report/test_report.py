"""The report checks its input, draws on the given axes, and repeats results of the functions."""

import re
import warnings

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from reports import few_rows, plain, report_of
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from skcalib import (
    BBQ,
    CalibratedClassifier,
    LogitTransformer,
    TemperatureScaling,
    VectorScaling,
    calibration_report,
    compare_calibrators,
)
from skcalib.conditional import ConditionalCalibrator, multicalibration_error
from skcalib.datasets import make_logits


def test_new_figure_by_default_and_no_style_is_touched(logits3):
    before = dict(mpl.rcParams)
    figure = calibration_report(TemperatureScaling().fit(*logits3), *logits3).figure_
    assert plt.get_fignums() == [figure.number]
    titles = [ax.get_title() for ax in figure.axes if ax.get_title()]
    assert [title.partition(" (ECE ")[0] for title in titles] == ["Before", "TemperatureScaling"]
    assert len(figure.legends) == 1  # both diagrams share it, so that it covers no interval
    assert dict(mpl.rcParams) == before


def test_a_subfigure_holds_the_report(logits3):
    figure = Figure((12, 7), layout="constrained")
    left, _ = figure.subfigures(1, 2)
    report = calibration_report(TemperatureScaling().fit(*logits3), *logits3, figure=left)
    assert report.figure_ is left
    figure.draw_without_rendering()
    assert max(ax.get_window_extent().x1 for ax in left.axes) <= figure.bbox.width / 2


def test_histograms_have_one_scale(logits3):
    figure = Figure((8, 7), layout="constrained")
    calibration_report(BBQ().fit(*logits3), *logits3, figure=figure)
    lower = sorted(figure.axes, key=lambda ax: ax.get_position().y0)[:2]
    assert lower[0].get_ylim() == lower[1].get_ylim()


@pytest.mark.parametrize("n_features", [3, 20])
def test_a_classifier_of_features_is_refused(n_features):
    X, y = make_classification(
        200, n_features, n_informative=3, n_redundant=0, n_classes=3, n_clusters_per_class=1,
        flip_y=0.2, random_state=0,
    )  # fmt: skip
    classifier = CalibratedClassifier(LogisticRegression(), TemperatureScaling(), ensemble=False)
    classifier = classifier.fit(X, y)
    Z = LogitTransformer(classifier.estimator_).fit(X, y).transform(X)
    for rows in (X, Z):
        with pytest.raises(ValueError, match=f"{n_features} features.*calibrator_"):
            calibration_report(classifier, rows, y)


def test_a_classifier_of_logits_is_a_calibrator(logits3):
    report = calibration_report(LogisticRegression().fit(*logits3), *logits3, name="Mine")
    assert repr(report) == "<CalibrationReport of Mine on 400 rows>"


def test_wrong_input_is_refused_before_anything_is_drawn(logits3):
    Z, y = logits3
    calibrator, figure = TemperatureScaling().fit(Z, y), Figure()
    with pytest.raises(NotFittedError):
        calibration_report(TemperatureScaling(), Z, y)
    for params, word in (
        ({"X": np.full_like(Z, np.nan)}, "NaN"),
        ({"kind": "classwise"}, "kind"),
        ({"y": y + 1}, "got 3"),
        ({"y": y[:-1]}, "inconsistent"),
        ({"comparison": []}, "compare_calibrators"),
        ({"figure": Figure().add_subplot()}, "ax.figure"),
    ):
        given = {"X": Z, "y": y, "figure": figure} | params
        with pytest.raises(ValueError, match=re.escape(word)):
            calibration_report(calibrator, **given)
    assert figure.axes == []  # all is checked before anything is drawn
    assert not plt.get_fignums()


@pytest.mark.slow
@pytest.mark.usefixtures("few_resamples")
def test_later_changes_of_arrays_do_not_change_results():
    calibrator, Z, y, _ = plain()
    w = np.ones(len(y))
    report, same = (
        calibration_report(calibrator, Z, y, sample_weight=w, random_state=0) for _ in range(2)
    )
    want = same.measures_["ECE"]
    Z[:], y[:], w[:] = 0, 0, 0
    assert report.measures_["ECE"] == want


def test_reports_of_tensors_are_reports_of_arrays(logits3):
    torch = pytest.importorskip("torch")
    calibrator = TemperatureScaling().fit(*logits3)
    want = calibration_report(calibrator, *logits3).evaluation
    X, y = map(torch.tensor, logits3)
    for given in ((X.requires_grad_(), y), (X, logits3[1]), (logits3[0], y)):
        found = calibration_report(calibrator, *given, figure=Figure()).evaluation
        np.testing.assert_array_equal(found.P, want.P)
        np.testing.assert_array_equal(found.y, want.y)


@pytest.mark.slow
@pytest.mark.usefixtures("few_resamples")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_integer_logits_are_accepted():
    Z = np.array([[0, 0, 3], [0, 2, 0], [1, 0, -(2**63)], [4, 0, 0]])
    y = np.array([2, 1, 1, 0])
    calibrator = BBQ().fit(Z, y)
    found = calibration_report(calibrator, Z, y).measures_["Brier score"]
    assert found == calibration_report(calibrator, Z.astype(float), y).measures_["Brier score"]


class Warns(TemperatureScaling):
    def predict_proba(self, X):
        warnings.warn("look out", UserWarning, stacklevel=2)
        return super().predict_proba(X)


@pytest.mark.slow
@pytest.mark.usefixtures("few_resamples")
def test_warnings_are_given_once_and_shown(logits3):
    calibrator = Warns().fit(*logits3)
    with pytest.warns(UserWarning, match="look out") as caught:
        report = calibration_report(calibrator, *logits3, figure=Figure((8, 7)))
    assert len(caught) == 1
    assert report.warnings_ == ["UserWarning: look out"]
    assert "<li>UserWarning: look out</li>" in report.to_html()


@pytest.mark.slow
def test_segments_are_found_in_features():
    rng = np.random.default_rng(0)
    subject = rng.choice(["art", "law"], size=600)
    Z, y = make_logits(600, 3, temperature=1.0, random_state=0)
    Z = Z * np.where(subject == "law", 3.0, 1.0)[:, None]
    conditional = ConditionalCalibrator([TemperatureScaling()], random_state=0)
    for calibrator, given in (
        (conditional.fit(Z, y, features=subject), {"features": subject}),
        (TemperatureScaling().fit(Z, y), {}),
    ):
        report = calibration_report(calibrator, Z, y, features=subject, random_state=0)
        P = calibrator.predict_proba(Z, **given)
        np.testing.assert_array_equal(report.evaluation.P, P)
        found = multicalibration_error(y, P, subject, n_resamples=99, random_state=0)
        assert report.segments_[1].statistic == found.statistic
        assert ("fit(X, y, features=features)" in report.code_) == bool(given)
        assert "features=features_test" in report.code_


@pytest.mark.slow
@pytest.mark.usefixtures("few_resamples")
def test_code_fits_to_features_that_the_report_does_not_have():
    Z, y = make_logits(200, 2, random_state=0)
    subject = np.arange(200) % 2
    calibrator = ConditionalCalibrator([TemperatureScaling()]).fit(Z, y, features=subject)
    with pytest.warns(UserWarning, match="features"):
        report = calibration_report(calibrator, Z, y, figure=Figure((8, 7)))
    assert "fit(X, y, features=features)" in report.code_
    assert "features_test" not in report.code_


def test_report_counts_rows_and_classes():
    assert report_of(plain).warnings_ == []
    assert report_of(few_rows).evaluation.n_samples == 20
    assert report_of(few_rows).risk_ is report_of(few_rows).segments_ is None
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", report_of(plain).date)


def test_two_reports_have_other_resamples_without_random_state(logits3):
    calibrator = VectorScaling().fit(*logits3)
    seeds = {
        calibration_report(calibrator, *logits3, figure=Figure()).evaluation.seed for _ in range(3)
    }
    assert len(seeds) == 3


@pytest.mark.parametrize("rows", ["2 splits", "a test set"])
def test_log_losses_of_a_comparison_name_their_rows(logits3, rows):
    test = logits3 if rows == "a test set" else None
    compared = compare_calibrators(*logits3, calibrators=[TemperatureScaling()], cv=2, test=test)
    table = compared._repr_html_()
    assert f"1 calibrator and the uncalibrated logits on {rows}, sorted by log loss." in table
    assert "The base rates of the classes have a log loss of " in table
    if test is None:
        assert "Means over 2 splits with their standard errors." in table


def test_a_page_shows_a_comparison(logits3, monkeypatch):
    calibrator = TemperatureScaling()
    compared = compare_calibrators(*logits3, calibrators=[calibrator], cv=2)
    report = calibration_report(calibrator.fit(*logits3), *logits3, comparison=compared)
    monkeypatch.setattr(type(report), "measures_", {})  # which take seconds
    page = report.to_html()
    assert "All measures are of the held-out rows." in page
    assert compared.__html__() in page
