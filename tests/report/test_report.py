"""The report shows the numbers that the measures give, and draws where it is told."""

import re
import warnings

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from pages_of_reports import parsed, plain, report_of
from scipy.special import softmax
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcalib import (
    BBQ,
    CalibratedClassifier,
    ConfidenceDisplay,
    IsotonicCalibration,
    LogitTransformer,
    MatrixScaling,
    ReliabilityDisplay,
    TemperatureScaling,
    TemperatureSweepDisplay,
    VectorScaling,
)
from skcalib.conditional import ConditionalCalibrator, multicalibration_error
from skcalib.datasets import make_logits
from skcalib.metrics import expected_calibration_error, maximum_calibration_error
from skcalib.report import calibration_report

KEYS = ["log loss", "Brier", "ECE", "MCE", "accuracy"]


def table_of(drawn):
    """The numbers before and after, by name, of a report or its figure."""
    figure = getattr(drawn, "figure_", drawn)
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("calibrator", "size"),
    [
        (MatrixScaling(), (10, 8)),
        (make_pipeline(TemperatureScaling(), IsotonicCalibration()), (8, 10)),
    ],
    ids=["wide", "upright"],
)
def test_nothing_stands_out_of_the_figure(calibrator, size, logits3):
    Z, y = logits3
    names = np.array(["ant", "bee", "zebra"])[y]
    figure = Figure(size, layout="constrained")
    calibration_report(calibrator.fit(Z[:200], names[:200]), Z[200:], names[200:], figure=figure)
    titles = [ax.get_title() for ax in figure.axes if ax.get_title()]
    assert titles == ["Before", type(calibrator).__name__, "Logits divided by T"]
    assert list(table_of(figure)) == KEYS
    figure.draw_without_rendering()
    before, sweep = (ax.get_position() for ax in figure.axes if ax.get_title() in titles[::2])
    is_beside, is_below = sweep.x0 > before.x1, sweep.y1 < before.y0
    assert (is_beside, is_below) == ((True, False) if size[0] > size[1] else (False, True))
    whole = figure.bbox
    drawn = figure.get_tightbbox().transformed(figure.dpi_scale_trans)
    assert whole.x0 - 1 <= drawn.x0
    assert drawn.x1 <= whole.x1 + 1
    assert whole.y0 - 1 <= drawn.y0
    assert drawn.y1 <= whole.y1 + 1


def held(ax):
    """Bars and lines of axes as numbers."""
    bars = [patch.get_bbox().get_points() for patch in ax.patches]
    lines = [np.asarray(line.get_xydata(), dtype=float) for line in ax.lines]
    return [*bars, *lines]


def assert_same(ax, expected):
    for a, b in zip(held(ax), held(expected), strict=True):
        np.testing.assert_allclose(a, b)
    assert held(ax)
    assert ax.get_title() == expected.get_title()


@pytest.mark.slow
@pytest.mark.parametrize(("n_bins", "weighted"), [(None, False), (6, True)])
def test_panels_are_displays(n_bins, weighted):
    """Of a calibrator of classes in an order of their own that changes much, on other rows."""
    Z, y = make_logits(500, 3, temperature=3.0, offset=[0, 2, 0], random_state=0)
    y = np.array(["c", "a", "b"])[y]
    calibrator = VectorScaling(classes=["c", "a", "b"]).fit(Z[:200], y[:200])
    Z, y, w = Z[200:], y[200:], np.random.default_rng(0).integers(4, size=300).astype(float)
    params = {"sample_weight": w if weighted else None}
    params |= {} if n_bins is None else {"n_bins": n_bins}
    figure = calibration_report(calibrator, Z, y, figure=Figure((10, 8)), **params).figure_
    columns = [
        (figure.axes[:2], "Before", softmax(Z, axis=1)),
        (figure.axes[2:4], "VectorScaling", calibrator.predict_proba(Z)),
    ]
    for (diagram, histogram), title, P in columns:
        keywords = {"ax": Figure().subplots(), "labels": calibrator.classes_, **params}
        bars = ReliabilityDisplay.from_predictions(y, P, name=title, **keywords)
        assert_same(diagram, bars.ax_)
        (strip,) = (child for child in diagram.child_axes if child.get_visible())
        assert_same(strip, bars.counts_ax_)
        keywords["ax"] = Figure().subplots()
        assert_same(histogram, ConfidenceDisplay.from_predictions(y, P, **keywords).ax_)
    highest = [max(bar.get_height() for bar in figure.axes[k].patches) for k in (1, 3)]
    assert highest[0] != highest[1]
    for k in (1, 3):
        assert figure.axes[k].get_ylim() == pytest.approx((0, min(1, 1.05 * max(highest))))
    sweep = TemperatureSweepDisplay.from_estimator(
        calibrator, Z, y, ax=Figure().subplots(2), **params
    )
    loss, error = figure.axes[4:6]
    assert loss.get_title() == "Logits divided by T"
    loss.set_title("")
    for ax, expected in zip((loss, error), sweep.axes_, strict=True):
        assert_same(ax, expected)
        assert ax.get_ylabel() == expected.get_ylabel()
    texts = [text.get_text() for text in loss.get_legend().get_texts()]
    assert texts == [text.get_text() for text in sweep.ax_.get_legend().get_texts()]


@pytest.mark.parametrize("draw", [calibration_report, TemperatureSweepDisplay.from_estimator])
@pytest.mark.parametrize("n_features", [3, 20])
def test_a_classifier_of_features_is_no_calibrator(n_features, draw):
    """Whether it gets its logits or its features; the message says where both are."""
    X, y = make_classification(
        200, n_features, n_informative=3, n_redundant=0, n_classes=3, n_clusters_per_class=1,
        flip_y=0.2, random_state=0,
    )  # fmt: skip
    classifier = CalibratedClassifier(LogisticRegression(), TemperatureScaling(), ensemble=False)
    classifier = classifier.fit(X, y)
    message = (
        "calibrator must be fitted to logits, one column for each of its 3 classes, got "
        f"CalibratedClassifier, which was fitted to {n_features} features. Pass .*calibrator_"
    )
    Z = LogitTransformer(classifier.estimator_).fit(X, y).transform(X)
    for rows in (X, Z):
        with pytest.raises(ValueError, match=message):
            draw(classifier, rows, y)
    if n_features != 3:
        for rows in (X, Z):
            with pytest.raises(ValueError, match=r"got LogisticRegression, which .* features"):
                draw(classifier.estimator_, rows, y)


@pytest.mark.slow
@pytest.mark.parametrize("draw", [calibration_report, TemperatureSweepDisplay.from_estimator])
def test_a_classifier_of_logits_is_a_calibrator(logits3, draw):
    """The line of its log loss is that of its probabilities."""
    Z, y = logits3
    classifier = LogisticRegression().fit(Z, y)
    drawn = draw(classifier, Z, y, name="Mine")
    axes = drawn.figure_.axes if draw is calibration_report else drawn.axes_
    labels = [label for ax in axes for label in ax.get_legend_handles_labels()[1]]
    assert f"Mine: {log_loss(y, classifier.predict_proba(Z)):.3f}" in labels


@pytest.mark.parametrize("thing", [TemperatureScaling, StandardScaler(), "temperature"], ids=repr)
@pytest.mark.parametrize("draw", [calibration_report, TemperatureSweepDisplay.from_estimator])
def test_what_is_no_calibrator_at_all(logits3, draw, thing):
    with pytest.raises(ValueError, match="calibrator must be an estimator with fit and predict_pr"):
        draw(thing, *logits3)


@pytest.mark.slow
def test_new_figure_by_default_and_no_style_is_touched(logits3):
    before = dict(mpl.rcParams)
    figure = calibration_report(TemperatureScaling().fit(*logits3), *logits3).figure_
    assert plt.get_fignums() == [figure.number]
    assert figure.get_size_inches().tolist() == [10, 8]
    assert len(figure.axes) == 7
    assert dict(mpl.rcParams) == before


def test_bad_input(logits3):
    Z, y = logits3
    calibrator, figure = TemperatureScaling().fit(Z, y), Figure()
    with pytest.raises(NotFittedError):
        calibration_report(TemperatureScaling(), Z, y)
    for params, message in (
        ({"logits": np.full_like(Z, np.nan)}, "NaN"),
        ({"sample_weight": -np.ones(len(y))}, "sample_weight"),
        ({"n_bins": 0}, "n_bins"),
        ({"y": y + 1}, "y must hold only labels named in"),
        ({"y": y[:-1]}, "inconsistent"),
        ({"logits": Z[y == 1], "y": y[y == 1]}, "at least two classes"),
        ({"comparison": []}, "must be the result of compare_calibrators, got list"),
        ({"figure": Figure().add_subplot()}, "Figure or SubFigure, got Axes. Pass ax.figure"),
    ):
        given = {"logits": Z, "y": y, "figure": figure} | params
        with pytest.raises(ValueError, match=re.escape(message)):
            calibration_report(calibrator, **given)
    assert figure.axes == []  # all is checked before anything is drawn
    assert not plt.get_fignums()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_integers_are_logits_as_well():
    """Their differences may be more than integers can hold."""
    Z = np.array([[0, 0, 3], [0, 2, 0], [1, 0, -(2**63)], [4, 0, 0]])
    y = np.array([2, 1, 1, 0])
    calibrator = BBQ().fit(Z, y)
    of_integers = table_of(calibration_report(calibrator, Z, y))
    assert of_integers == table_of(calibration_report(calibrator, Z.astype(float), y))


@pytest.mark.slow
def test_warnings_are_shown_and_given_once(quick):
    Z = np.array([[0.0, 1], [1, 0], [0, 2], [3, 0]])  # separable
    y = np.array([1, 0, 1, 0])
    calibrator = TemperatureScaling().fit(*make_logits(100, 2, random_state=0))
    with pytest.warns(ConvergenceWarning, match="no minimum") as caught:
        report = calibration_report(calibrator, Z, y, figure=Figure((10, 8)))
    assert len(caught) == 1
    assert caught[0].filename == __file__
    (message,) = report.warnings_
    assert message == f"NoMinimumWarning: {caught[0].message}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ConvergenceWarning):
            calibration_report(calibrator, Z, y)
    assert "<ul><li>NoMinimumWarning: " in report.to_html()
    assert "gave no warnings" in parsed(plain).section("warnings")["text"]
    assert report_of(plain).warnings_ == []


@pytest.mark.slow
def test_segments_of_features():
    """The section has the gaps of the measure, and features reach what takes them."""
    rng = np.random.default_rng(0)
    subject = rng.choice(["art", "law"], size=600)
    logits, y = make_logits(600, 3, temperature=1.0, random_state=0)
    logits = logits * np.where(subject == "law", 3.0, 1.0)[:, None]
    conditional = ConditionalCalibrator([TemperatureScaling()], random_state=0)
    for calibrator, given in (
        (conditional.fit(logits, y, features=subject), {"features": subject}),
        (TemperatureScaling().fit(logits, y), {}),
    ):
        report = calibration_report(calibrator, logits, y, features=subject)
        P = calibrator.predict_proba(logits, **given)
        np.testing.assert_array_equal(report.rows.after, P)
        found = multicalibration_error(y, P, subject, n_resamples=999, random_state=0)
        assert report.segments_[1].statistic == found.statistic
        page = report.to_html()
        assert f"{found.standardized_gap[0]:.1f}</td>" in page
        assert "features=features_test" in page
        assert ("new_features" in page) == bool(given)
    assert "No features were given" in report_of(plain).to_html()
    with pytest.raises(ValueError, match="features must have one row for each"):
        calibration_report(calibrator, logits, y, features=subject[1:])
