"""The report shows the numbers that the measures give, and draws where it is told."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.special import softmax
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcalib import (
    BBQ,
    CalibratedClassifier,
    IsotonicCalibration,
    LogitTransformer,
    MatrixScaling,
    TemperatureScaling,
    TemperatureSweepDisplay,
    VectorScaling,
)
from skcalib.datasets import make_logits
from skcalib.metrics import (
    expected_calibration_error,
    maximum_calibration_error,
    reliability_curve,
)
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
    figure = calibration_report(calibrator.fit(Z[:200], names[:200]), Z[200:], names[200:]).figure_
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


@pytest.mark.slow
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
    figure = calibration_report(calibrator, digits.logits_test[kept], digits.y_test[kept]).figure_
    assert list(table_of(figure)) == KEYS


def test_loss_of_the_calibrator_is_in_the_sweep(logits3):
    Z, y = logits3
    calibrator = MatrixScaling().fit(Z, y)
    figure = calibration_report(calibrator, Z, y, name="Mine").figure_
    labels = [line.get_label() for ax in figure.axes for line in ax.lines]
    assert f"Mine: {log_loss(y, calibrator.predict_proba(Z)):.3f}" in labels


@pytest.mark.parametrize("name", ["Before", None])
def test_name_is_the_title(logits3, name):
    figure = calibration_report(TemperatureScaling().fit(*logits3), *logits3, name=name).figure_
    titles = [ax.get_title() for ax in figure.axes if ax.get_title()]
    assert titles == ["Before", name or "TemperatureScaling", "Logits divided by T"]


@pytest.mark.parametrize("weighted", [False, True])
def test_each_column_shows_its_own_probabilities(logits3, rng, weighted):
    """And with the bins that were asked for, the weights and the order of the classes."""
    Z, y = logits3
    names = np.array(["c", "a", "b"])
    w = rng.uniform(size=len(y)) if weighted else None
    calibrator = VectorScaling(classes=names).fit(Z, names[y])
    figure = calibration_report(calibrator, Z, names[y], sample_weight=w, n_bins=4).figure_
    upper, lower, *_ = figure.axes
    columns = [(upper, lower), (figure.axes[2], figure.axes[3])]
    for P, (diagram, histogram) in zip(
        [softmax(Z, axis=1), calibrator.predict_proba(Z)], columns, strict=True
    ):
        given = {"sample_weight": w, "labels": names, "n_bins": 4}
        curve = reliability_curve(names[y], P, **given)
        heights = [bar.get_height() for bar in diagram.containers[0]]
        np.testing.assert_allclose(heights, curve.accuracy)
        shares = [bar.get_height() for bar in histogram.containers[0]]
        np.testing.assert_allclose(shares, curve.weight / curve.weight.sum())
        error = expected_calibration_error(names[y], P, **given)
        assert f"Accuracy (ECE {error:.3f})" in diagram.get_legend_handles_labels()[1]
        mean = np.average(P.max(axis=1), weights=w)
        assert f"Average confidence {mean:.3f}" in histogram.get_legend_handles_labels()[1]


def test_bins_of_the_sweep_are_those_of_the_rest(logits3):
    Z, y = logits3
    ece = {}
    for n_bins in (3, 40):
        figure = calibration_report(TemperatureScaling().fit(Z, y), Z, y, n_bins=n_bins).figure_
        (line,) = [x for ax in figure.axes for x in ax.lines if x.get_label() == "ECE"]
        (at_one,) = line.get_ydata()[line.get_xdata() == 1]
        ece[n_bins] = at_one
        expected = expected_calibration_error(y, softmax(Z, axis=1), n_bins=n_bins)
        assert at_one == pytest.approx(expected, abs=1e-9)
        assert table_of(figure)["ECE"][0] == pytest.approx(at_one, abs=6e-5)
    assert abs(ece[3] - ece[40]) > 1e-3


@pytest.mark.parametrize("draw", [calibration_report, TemperatureSweepDisplay.from_estimator])
@pytest.mark.parametrize("n_features", [3, 5, 20])
def test_a_classifier_of_features_is_no_calibrator(n_features, draw):
    """Whether it gets its logits or its features; the message says where both are."""
    X, y = make_classification(
        200, n_features, n_informative=3, n_redundant=0, n_classes=3, n_clusters_per_class=1,
        flip_y=0.2, random_state=0,
    )  # fmt: skip
    classifier = CalibratedClassifier(LogisticRegression(), TemperatureScaling()).fit(X, y)
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


@pytest.mark.parametrize("draw", [calibration_report, TemperatureSweepDisplay.from_estimator])
def test_a_classifier_of_logits_is_a_calibrator(logits3, draw):
    """The line of its log loss is that of its probabilities."""
    Z, y = logits3
    classifier = LogisticRegression().fit(Z, y)
    drawn = draw(classifier, Z, y)
    axes = drawn.figure_.axes if draw is calibration_report else drawn.axes_
    labels = [label for ax in axes for label in ax.get_legend_handles_labels()[1]]
    assert f"LogisticRegression: {log_loss(y, classifier.predict_proba(Z)):.3f}" in labels


@pytest.mark.parametrize("thing", [TemperatureScaling, StandardScaler(), "temperature"], ids=repr)
@pytest.mark.parametrize("draw", [calibration_report, TemperatureSweepDisplay.from_estimator])
def test_what_is_no_calibrator_at_all(logits3, draw, thing):
    with pytest.raises(ValueError, match="calibrator must be an estimator with fit and predict_pr"):
        draw(thing, *logits3)


@pytest.mark.parametrize("columns", [1, 2])
def test_two_classes_have_one_column_or_two(columns):
    Z, y = make_logits(100, 2, random_state=0)
    Z = Z if columns == 2 else Z[:, 1:] - Z[:, :1]
    classifier = LogisticRegression().fit(Z, y)
    figure = calibration_report(classifier, Z, y).figure_
    shown = [text.get_text() for ax in figure.axes for text in ax.texts]
    assert any(f"{log_loss(y, classifier.predict_proba(Z)):.4f}" in text for text in shown)


@pytest.mark.slow
def test_histograms_have_the_same_scale(logits3):
    figure = calibration_report(TemperatureScaling().fit(*logits3), *logits3).figure_
    limits = [ax.get_ylim() for ax in figure.axes if ax.get_ylabel().startswith("Share")]
    assert len(limits) == 2
    assert limits[0] == limits[1]


def test_given_figure_is_used(logits3):
    calibrator = TemperatureScaling().fit(*logits3)
    for figure in (Figure(), Figure(figsize=(20, 8)).subfigures(1, 2)[0]):
        assert calibration_report(calibrator, *logits3, figure=figure).figure_ is figure
        assert len(figure.axes) == 7
    assert not plt.get_fignums()


def test_new_figure_by_default_and_no_style_is_touched(logits3):
    before = dict(mpl.rcParams)
    figure = calibration_report(TemperatureScaling().fit(*logits3), *logits3).figure_
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


def test_axes_are_no_figure():
    Z, y = make_logits(100, 3, random_state=0)
    calibrator = TemperatureScaling().fit(Z, y)
    with pytest.raises(ValueError, match=r"Figure or SubFigure, got Axes. Pass ax.figure"):
        calibration_report(calibrator, Z, y, figure=Figure().add_subplot())


def test_labels_are_checked_before_anything_is_drawn():
    Z, y = make_logits(100, 3, random_state=0)
    calibrator, figure = TemperatureScaling().fit(Z, y), Figure()
    with pytest.raises(ValueError, match="at least two classes"):
        calibration_report(calibrator, Z[y == 1], y[y == 1], figure=figure)
    assert figure.axes == []
