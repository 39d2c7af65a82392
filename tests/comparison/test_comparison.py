"""compare_calibrators: the same numbers as by hand, the table, the plot, bad input."""

from __future__ import annotations

import io
import sys
import time
from dataclasses import replace

import joblib
import numpy as np
import pandas as pd
import pytest
from families import COMPARED, Weighable
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer, log_loss
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score

from skcalib import (
    BBQ,
    HistogramBinning,
    PlattScaling,
    TemperatureScaling,
    Uncalibrated,
    compare_calibrators,
)
from skcalib.comparison import CalibratorComparison
from skcalib.conditional import ConditionalCalibrator
from skcalib.datasets import make_logits
from skcalib.metrics import (
    calibration_difference,
    calibration_error_interval,
    calibration_scorer as our_scorer,
    expected_calibration_error,
)

SOME = [TemperatureScaling(), HistogramBinning(), PlattScaling()]
# Measures of each comparison, with their names as scorers.
MEASURES = {
    "log loss": "neg_log_loss",
    "Brier": "neg_brier_score",
    "ECE": "neg_expected_calibration_error",
    "RMSCE": "neg_root_mean_squared_calibration_error",
    "MCE": "neg_maximum_calibration_error",
    "classwise ECE": "neg_classwise_calibration_error",
    "accuracy": "accuracy",
}


@pytest.fixture(scope="module")
def rows():
    return make_logits(600, 3, temperature=3.0, random_state=0)


@pytest.fixture(scope="module")
def found(rows):
    return compare_calibrators(*rows, calibrators=SOME)


def of(found, name, measure):
    return found.scores[measure][found.names.index(name)]


@pytest.mark.slow
def test_every_calibrator_takes_part(rows):
    found = compare_calibrators(*rows, cv=2)
    kinds = {kind.__name__ for kind in COMPARED} - {"Uncalibrated"}
    assert set(found.names) == {"uncalibrated", *kinds}
    assert set(found.scores) == set(MEASURES)
    assert found.calibrators == {}


@pytest.mark.parametrize("calibrator", SOME, ids=repr)
@pytest.mark.parametrize("measure", [m for m in MEASURES if m != "Brier"])
def test_scores_match_cross_val_score(rows, found, calibrator, measure):
    """scikit-learn has the Brier score of several classes only since 1.7, so it is left out."""
    name = MEASURES[measure]
    expected = cross_val_score(clone(calibrator), *rows, cv=5, scoring=our_scorer(name))
    expected = -expected if name.startswith("neg_") else expected
    assert_allclose(of(found, type(calibrator).__name__, measure), expected)


def test_calibrators_are_fitted_once_for_a_test_set(rows):
    rest, y_rest = make_logits(500, 3, temperature=3.0, random_state=1)
    found = compare_calibrators(*rows, calibrators=SOME, test=(rest, y_rest))
    direct = TemperatureScaling().fit(*rows)
    assert of(found, "TemperatureScaling", "log loss") == [
        pytest.approx(log_loss(y_rest, direct.predict_proba(rest)))
    ]
    assert found.calibrators["TemperatureScaling"].temperature_ == direct.temperature_
    P = found.calibrators["uncalibrated"].predict_proba(rest)
    assert of(found, "uncalibrated", "ECE")[0] == expected_calibration_error(y_rest, P)
    assert (found.standard_error("ECE") > 0).all()
    assert "±" in str(found)


def test_tables_are_in_the_order_of_names(rows):
    class Worse(TemperatureScaling):
        def __init__(self, factor=1.0):
            super().__init__()
            self.factor = factor

        def fit(self, X, y, sample_weight=None):
            time.sleep(0.05 * (self.factor == 9.0))
            return super().fit(X, y, sample_weight)

        def _calibrate(self, Z):
            return super()._calibrate(Z) * self.factor

    factors = {"good": 1.0, "fair": 2.0, "bad": 9.0}  # from the best to the worst
    members = {name: Worse(factors[name]) for name in sorted(factors)}
    found = compare_calibrators(*rows, calibrators=members, test=rows)
    assert [name for name in found.names if name != "uncalibrated"] == list(factors)
    assert list(found.calibrators) == found.names
    assert found.names[found.fit_times.argmax()] == "bad"
    for name, factor in factors.items():
        assert found.calibrators[name].factor == factor
    assert not hasattr(members["bad"], "temperature_")


def test_standard_errors_and_differences(found):
    values = of(found, "TemperatureScaling", "log loss")
    base = of(found, "uncalibrated", "log loss")
    k = found.names.index("TemperatureScaling")
    assert found.mean("log loss")[k] == pytest.approx(values.mean())
    spread = np.sqrt(((values - values.mean()) ** 2).sum() / 4 / 5)
    assert found.standard_error("log loss")[k] == pytest.approx(spread)
    gain = values - base
    frame = found.to_frame().loc["TemperatureScaling"]
    assert frame["log loss", "difference"] == pytest.approx(gain.mean())
    error = np.sqrt(((gain - gain.mean()) ** 2).sum() / 4 / 5)
    assert frame["log loss", "difference error"] == pytest.approx(error)
    # Temperature scaling changes no prediction, so only the log loss has a star.
    line = next(line for line in str(found).splitlines() if line.startswith("TemperatureScaling"))
    assert f"{values.mean():.4f}*" in line
    assert f"{found.mean('accuracy')[k]:.4f}*" not in line


@pytest.mark.parametrize("reference", ["HistogramBinning", "best"])
def test_differences_from_any_calibrator_or_the_best(rows, found, reference):
    """In the table, the page, the data frame and the plot."""
    other = compare_calibrators(*rows, calibrators=SOME, reference=reference)
    assert other.names == found.names
    assert other.reference == (found.names[0] if reference == "best" else reference)
    frame = other.to_frame()
    for measure, values in found.scores.items():
        paired = values - of(found, other.reference, measure)
        assert_allclose(frame[measure, "difference"], paired.mean(axis=1), atol=1e-15)
        error = paired.std(axis=1, ddof=1) / np.sqrt(5)
        assert_allclose(frame[measure, "difference error"], error, atol=1e-15)
    for text in (str(other), other._repr_html_()):
        assert f"Differences are from {other.reference}, on the same rows" in text
    assert f"difference from {other.reference}" in other._repr_html_()
    worst = frame["log loss", "difference"].iloc[-1]
    assert f"{worst:.4f}" in str(other)
    ax = other.plot()
    assert f"difference from {other.reference}" in ax.get_xlabel()
    line = ax.lines[-1] if len(ax.lines) else None
    assert line is not None
    of_reference = other.mean("log loss")[other.names.index(other.reference)]
    assert of_reference in [each.get_xdata()[0] for each in ax.lines]


def test_folds_keep_groups_together_and_calibrators_get_them(rows):
    Z, y = rows
    groups, seen = np.arange(600) // 6, []

    class Watching(TemperatureScaling):
        def fit(self, X, y, sample_weight=None, *, groups=None):
            seen.append(set(groups))
            return super().fit(X, y, sample_weight)

    for random_state in (None, 0):
        seen.clear()
        compare_calibrators(
            Z, y, calibrators=[Watching()], groups=groups, random_state=random_state
        )
        assert len(seen) == 5
        assert sum(100 - len(of_fold) for of_fold in seen) == 100


def test_the_printed_table_has_means_and_standard_errors(found):
    lines = str(found).splitlines()
    assert lines[0].endswith("fit [s]")
    titles = ["log loss", "difference", *list(MEASURES)[1:], "fit [s]"]
    assert " ".join(lines[0].split()) == " ".join(titles)
    assert lines[1].startswith(found.names[0])
    assert f"{found.mean('log loss')[0]:.4f}*" in lines[1]
    assert f"±{found.standard_error('log loss')[0]:.4f}" in lines[2]
    assert "Means over 5 splits" in str(found)
    assert "* differs from uncalibrated by more than two standard errors" in str(found)
    assert max(map(len, lines)) <= 120
    assert repr(found) == str(found)
    assert not [line for line in lines if line.endswith(" ")]


def test_the_data_frame_has_the_numbers_of_the_table(found):
    frame = found.to_frame()
    assert list(frame.index) == found.names
    assert_allclose(frame["ECE", "mean"], found.mean("ECE"))
    assert_allclose(frame["ECE", "standard error"], found.standard_error("ECE"))
    assert (frame["fit time", "mean"] > 0).all()


@pytest.mark.slow
def test_processes_that_give_all_results_at_the_end(rows):
    calls, how = [], {"calibrators": SOME, "cv": 2, "random_state": 0}
    with joblib.parallel_config("multiprocessing", n_jobs=2):
        there = compare_calibrators(*rows, **how, on_progress=lambda *done: calls.append(done))
    here = compare_calibrators(*rows, **how)
    assert_array_equal(there.scores["log loss"], here.scores["log loss"])
    assert calls[-1][0] == calls[-1][1] == len(calls)


def test_tables_of_one_split_have_no_standard_errors():
    scores = {"log loss": np.array([[np.nan], [0.5]]), "none": np.full((2, 1), np.nan)}
    found = CalibratorComparison(["A & B", "uncalibrated"], scores, np.ones((2, 1)))
    assert not found.to_frame().isna().all().any()
    assert {part for _, part in found.to_frame()} == {"mean", "difference"}


def test_a_data_frame_needs_pandas(found, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pandas"):
        found.to_frame()


def test_the_plot_shows_differences_with_two_standard_errors(found):
    import matplotlib.pyplot as plt

    ax = found.plot()
    assert [t.get_text() for t in ax.get_yticklabels()] == found.names
    dots = ax.containers[0].lines[0]
    assert_allclose(dots.get_xdata(), found.mean("log loss"))
    assert "2 standard errors of the difference" in " ".join(ax.get_xlabel().split())
    (bars,) = ax.containers[0].lines[2]
    ends = np.array([segment[:, 0] for segment in bars.get_segments()])
    error = found.to_frame()["log loss", "difference error"]
    assert_allclose(np.diff(ends, axis=1).ravel(), 4 * error)
    _, other = plt.subplots()
    assert found.plot(other, measure="accuracy") is other


@pytest.mark.parametrize("width", [None, 3.3])
def test_no_text_is_cut_off(found, width):
    import matplotlib.pyplot as plt

    ax = None if width is None else plt.figure(figsize=(width, 3), layout="constrained").subplots()
    compared = replace(found, names=["EnsembleTemperatureScaling", *found.names[1:]])
    ax = compared.plot(ax)
    ax.figure.draw_without_rendering()
    for text in (ax.xaxis.label, *ax.get_yticklabels()):
        box = text.get_window_extent()
        assert 0 <= box.x0 < box.x1 <= ax.figure.bbox.width
        assert 0 <= box.y0 < box.y1 <= ax.figure.bbox.height


@pytest.mark.slow
def test_measures_are_chosen_by_name_or_function(rows):
    def surest(estimator, X, y):
        return estimator.predict_proba(X).max()

    args = {"calibrators": SOME, "cv": 3}
    one = compare_calibrators(*rows, scoring="balanced_accuracy", **args)
    assert list(one.scores) == ["log loss", "balanced_accuracy"]
    several = compare_calibrators(*rows, scoring=["neg_log_loss", "neg_brier_score"], **args)
    assert list(several.scores) == ["log loss", "brier_score"]
    assert (several.scores["brier_score"] > 0).all()
    own = {"top": surest, "auc": "roc_auc_ovr", "acc": get_scorer("accuracy")}
    found = compare_calibrators(*rows, scoring=own, **args)
    assert list(found.scores) == ["log loss", "top", "auc", "acc"]
    assert (of(found, "uncalibrated", "top") > of(found, "TemperatureScaling", "top")).all()
    auc = cross_val_score(TemperatureScaling(), *rows, cv=3, scoring="roc_auc_ovr")
    assert_allclose(of(found, "TemperatureScaling", "auc"), auc)


def test_weights_count_as_repeated_rows(rows, rng):
    logits, y = rows
    w = rng.integers(1, 3, len(y))
    twice = np.repeat(logits, w, axis=0), np.repeat(y, w)
    by_weight = compare_calibrators(*rows, calibrators=SOME, sample_weight=w, test=(*rows, w))
    again = compare_calibrators(*twice, calibrators=SOME, test=twice)
    assert by_weight.names == again.names
    for measure in MEASURES:
        assert_allclose(by_weight.scores[measure], again.scores[measure], rtol=1e-6)
    folds = compare_calibrators(*rows, calibrators=SOME, sample_weight=w, cv=2)
    (first, second), _ = StratifiedKFold(2).split(logits, y)
    direct = TemperatureScaling().fit(logits[first], y[first], w[first])
    expected = log_loss(y[second], direct.predict_proba(logits[second]), sample_weight=w[second])
    assert of(folds, "TemperatureScaling", "log loss")[0] == pytest.approx(expected)


def test_the_log_loss_of_the_base_rates_stands_below(rows):
    _, y = rows
    w = np.arange(len(y)) % 3
    found = compare_calibrators(*rows, calibrators=SOME, cv=2, sample_weight=w)
    rates = np.bincount(y, w) / w.sum()
    assert found.base_rate_log_loss == pytest.approx(-np.average(np.log(rates[y]), weights=w))
    line = f"base rates of the classes have a log loss of {found.base_rate_log_loss:.4f}"
    assert line in str(found)


def test_kinds_of_calibration_errors():
    """By default two classes are one event, as in measures; names with a kind keep theirs."""
    logits, y = make_logits(300, 2, random_state=0)
    shifted = np.column_stack([logits[:, 0], logits[:, 1] + 1])
    P = softmax(shifted, axis=1)
    measures = ["neg_expected_calibration_error", "neg_classwise_calibration_error"]
    params = {"calibrators": SOME, "test": (shifted, y), "scoring": measures}
    for kind in ("auto", "binary", "top-label"):
        found = compare_calibrators(shifted, y, kind=kind, **params)
        row = found.names.index("uncalibrated")
        error = found.scores["expected_calibration_error"][row, 0]
        assert error == pytest.approx(expected_calibration_error(y, P, kind=kind))
        error = found.scores["classwise_calibration_error"][row, 0]
        assert error == pytest.approx(expected_calibration_error(y, P, kind="classwise"))
    with pytest.raises(ValueError, match="kind"):
        compare_calibrators(shifted, y, kind="multilabel", **params)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::families.AbsentClassesWarning")
def test_rows_that_lack_classes(rows):
    logits, y = rows
    names = np.array(["a", "b", "c"])
    keep = (y != 1) | (np.arange(len(y)) < 4)
    with pytest.warns(UserWarning, match="least populated class"):
        found = compare_calibrators(logits[keep], names[y[keep]], cv=4)
    assert np.isfinite(found.scores["log loss"]).all()
    keep = y != 1
    found = compare_calibrators(logits[keep], names[y[keep]], labels=names, cv=3)
    assert np.isfinite(found.scores["log loss"]).all()
    backwards = compare_calibrators(
        logits[keep][:, ::-1], names[y[keep]], labels=names[::-1], cv=3, calibrators=SOME
    )
    for name in backwards.names:
        assert_allclose(of(backwards, name, "log loss"), of(found, name, "log loss"), rtol=1e-5)


def test_a_classifier_that_never_saw_a_class_gives_it_no_probability(rows):
    logits, y = rows
    train, test = np.flatnonzero((y != 1) & (np.arange(len(y)) < 400)), np.arange(400, 600)
    own = {"own": LogisticRegression(max_iter=1000)}
    found = compare_calibrators(logits, y, calibrators=own, cv=[(train, test)])
    P = np.insert(own["own"].fit(logits[train], y[train]).predict_proba(logits[test]), 1, 0, axis=1)
    assert of(found, "own", "log loss") == [pytest.approx(log_loss(y[test], P))]
    assert of(found, "own", "accuracy") == [np.mean(P.argmax(axis=1) == y[test])]


@pytest.mark.parametrize("wide", [False, True])
def test_test_rows_are_as_wide_as_the_others(wide):
    """Two columns and one column of log-odds are both of two classes, but not of one fit."""
    logits, y = make_logits(300, 2, random_state=0)
    margin = logits[:, 1:] - logits[:, :1]
    fit, test = (logits, margin) if wide else (margin, logits)
    with pytest.raises(ValueError, match=f"{1 + wide}, got {2 - wide}"):
        compare_calibrators(fit, y, calibrators=[Weighable()], test=(test, y))


@pytest.mark.filterwarnings("ignore::families.AbsentClassesWarning")
def test_training_rows_need_two_classes_with_weight_and_test_rows_may_have_one(rows):
    logits, y = rows
    halves = [(np.arange(300), np.arange(300, 600)), (np.arange(300, 600), np.arange(300))]
    w = ((np.arange(600) >= 300) | (y == 2)).astype(float)
    with pytest.raises(ValueError, match=r"\[2\] in split 0"):
        compare_calibrators(logits, y, cv=halves, sample_weight=w, calibrators=[Weighable()])
    one = [(np.flatnonzero(y != 1), np.flatnonzero(y == 1))]
    found = compare_calibrators(logits, y, cv=one, calibrators=SOME)
    assert np.isfinite(found.scores["log loss"]).all()


def test_progress_is_reported_after_each_fit(rows):
    calls = []
    compare_calibrators(*rows, calibrators=SOME, cv=2, on_progress=lambda *done: calls.append(done))
    assert calls == [(k, 8) for k in range(1, 9)]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"calibrators": {"uncalibrated": BBQ()}}, "always included"),
        ({"calibrators": {"best": BBQ()}}, "best"),
        ({"scoring": "ece"}, "'ece'"),
        ({"scoring": len}, "dict"),
        ({"scoring": ["accuracy", len]}, "scoring="),
        ({"scoring": {1: "accuracy"}}, "got 1"),
        ({"scoring": {"mine": 3}}, "'mine'"),
        ({"test": 0.2}, "test must"),
        ({"test": (np.zeros((2, 3)), [0, 9])}, "got 9"),
        ({"test": (np.full((2, 3), np.nan), [0, 1])}, "finite"),
        ({"sample_weight": [1.0]}, "one entry per row"),
        ({"labels": [0, 1]}, "2 labels"),
        ({"reference": "BBQ"}, "reference"),
        ({"y": np.zeros(600)}, "two classes"),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused_before_any_fit(rows, change, word):
    """All before anything is fitted."""
    logits, y = rows
    given = {"X": logits, "y": y, "calibrators": [Weighable()], **change}
    with pytest.raises((ValueError, TypeError), match=word):
        compare_calibrators(**given)


def test_unknown_measures_are_refused(found):
    for call in (
        *(found.mean, found.standard_error, found.best),
        lambda name: found.plot(measure=name),
    ):
        with pytest.raises(ValueError, match="got 'loss'"):
            call("loss")


@pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_warnings_of_fits_come_once_and_with_the_name(n_jobs):
    """Warnings of fits in other processes must not be lost."""
    y = np.repeat([0, 1], 20)
    separable = np.where(y == 1, 1.0, -1.0)[:, None] * np.arange(1, 41)[:, None]
    sharp = {"sharp": TemperatureScaling()}
    three = {**sharp, "steps": HistogramBinning(), "same": TemperatureScaling()}
    both = "^sharp in 4 of 4 splits, same in 4 of 4 splits: "
    with pytest.warns(ConvergenceWarning, match=both) as caught:
        compare_calibrators(separable, y, calibrators=three, cv=4, n_jobs=n_jobs)
    assert [w.filename for w in caught] == [__file__]
    with pytest.warns(ConvergenceWarning, match="^sharp: "):
        compare_calibrators(separable, y, calibrators=sharp, test=(separable, y))


@pytest.mark.slow
def test_features_are_passed_to_calibrators_that_accept_them():
    """In each fold, and in a test set; rows of weight 0 are left out."""
    rng = np.random.default_rng(0)
    subject, w = rng.choice(["art", "law"], size=400), rng.integers(0, 3, size=400)
    Z, y = make_logits(400, 3, temperature=1.0, random_state=0)
    Z = Z * np.where(subject == "law", 3.0, 1.0)[:, None]
    name, frame = "ConditionalCalibrator", pd.DataFrame({"subject": subject})
    members = [ConditionalCalibrator([TemperatureScaling()], cv=2, random_state=0), BBQ()]
    found = compare_calibrators(
        Z, y, calibrators=members, cv=KFold(2), features=frame, sample_weight=w
    )
    losses = []
    for train, test in KFold(2).split(Z):
        fitted = clone(members[0]).fit(Z[train], y[train], w[train], features=subject[train])
        P = fitted.predict_proba(Z[test], features=subject[test])
        losses.append(log_loss(y[test], P, sample_weight=w[test]))
    assert_allclose(of(found, name, "log loss"), losses, rtol=1e-6)
    judged = compare_calibrators(
        Z[train], y[train], calibrators=members, sample_weight=w[train],
        features=list(subject[train]), test=(Z[test], y[test], w[test], list(subject[test])),
    )  # fmt: skip
    assert of(judged, name, "log loss") == [pytest.approx(losses[-1], rel=1e-6)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_calibrators_of_features_are_compared_by_default(rows):
    Z, y = rows
    found = compare_calibrators(Z[:200], y[:200], cv=2, features=np.arange(200))
    assert "ConditionalCalibrator" in found.names


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, ""), (1.1, "\rcompare_calibrators: 4 of 4 fits\n")]
)
def test_a_line_shows_the_progress_of_long_fits_on_a_terminal(rows, monkeypatch, seconds, text):
    class Slow(TemperatureScaling):
        def fit(self, X, y, sample_weight=None):
            clock.append(clock[-1] + seconds)
            return super().fit(X, y, sample_weight)

    clock, terminal = [0.0], io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(time, "monotonic", lambda: clock[-1])
    compare_calibrators(*rows, calibrators=[Slow()], cv=2)
    assert terminal.getvalue() == text


@pytest.mark.parametrize("size", [1, 3])
def test_intervals_on_a_test_set_are_paired(size):
    """As the interval of the difference, and in the table, the data frame, the page and the plot.

    Groups of three equal rows have the interval of single rows.
    """
    X, y = make_logits(1000, 3, temperature=2.0, random_state=0)
    test, rows = slice(500, None), np.repeat(np.arange(500), size)
    given = {"calibrators": [TemperatureScaling()], "scoring": ["neg_log_loss", "accuracy"]}
    judged = X[test][rows], y[test][rows], None, None, rows
    found = compare_calibrators(X[:500], y[:500], test=judged, **given)
    P, before = (
        found.calibrators[name].predict_proba(judged[0])
        for name in ("TemperatureScaling", "uncalibrated")
    )
    expected = calibration_difference(judged[1], before, P, measure="log_loss", groups=rows)
    low, high = found.interval("log loss")
    width = expected.high - expected.low
    assert_allclose([low[0], high[0]], [expected.low, expected.high], atol=0.35 * width)
    assert_array_equal([low[1], high[1]], [0, 0])
    cell = f"[{low[0]:.4f}, {high[0]:.4f}]"
    assert cell in str(found)
    assert cell.replace("-", "\N{MINUS SIGN}") in found._repr_html_()
    frame = found.to_frame()["log loss"].loc["TemperatureScaling"]
    assert_array_equal(frame[["difference low", "difference high"]], [low[0], high[0]])
    bars = found.plot().containers[0].lines[2][0].get_segments()[0][:, 0]
    assert_allclose(bars - found.mean("log loss")[1], [low[0], high[0]])
    assert frame["difference error"] == pytest.approx(width / (2 * 1.96), rel=0.4)
    one = calibration_error_interval(judged[1], P, measure="log_loss", groups=rows)
    reach = 1.96 * found.standard_error("log loss")[found.names.index("TemperatureScaling")]
    assert reach == pytest.approx((one.high - one.low) / 2, rel=0.2)
    narrow = found.interval("log loss", 0.5)
    assert low[0] < narrow[0][0] < narrow[1][0] < high[0]


def test_intervals_are_for_means_over_rows_of_a_test_set(found):
    """Calibration errors have none, nor have means over splits with common training rows.

    The bins of these logits are all over-confident, so the ECE is a mean over the rows at hand.
    """
    Z, y = make_logits(3000, 3, temperature=4.0, random_state=0)
    test = 1.5 * Z[1500:], y[1500:], 1 + np.arange(1500) % 3
    there = compare_calibrators(Z[:1500], y[:1500], calibrators=SOME, test=test)
    for measure in MEASURES:
        is_mean = measure in {"log loss", "Brier", "accuracy"}
        assert np.isfinite(there.interval(measure)).all() == is_mean
        assert np.isnan(found.interval(measure)).all()
        assert ((measure, "difference low") in there.to_frame()) == is_mean
    assert "an interval that excludes 0" in str(there)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_few_errors_in_a_test_set_warn(n_classes):
    """Nine rows with the event, or nine wrong top labels, do not show how much losses vary."""
    X, y = make_logits(500, n_classes, random_state=0)
    hit = y == 1 if n_classes == 2 else X.argmax(axis=1) != y
    for n_hits in (9, 10):
        rows = np.r_[np.flatnonzero(hit)[:n_hits], np.flatnonzero(~hit)[:90]]
        given = {"calibrators": [TemperatureScaling()], "test": (X[rows], y[rows])}
        if n_hits == 9:
            with pytest.warns(UserWarning, match="got 9"):
                compare_calibrators(X, y, **given)
        else:
            compare_calibrators(X, y, **given)  # no warning


@pytest.mark.parametrize(
    "members",
    [
        [Uncalibrated(), TemperatureScaling()],
        ["passthrough", TemperatureScaling()],
        {"uncalibrated": Uncalibrated(), "T": TemperatureScaling()},
        {"raw": "passthrough", "T": TemperatureScaling()},
    ],
)
def test_no_calibration_has_one_row(members):
    logits, y = make_logits(200, 3, random_state=0)
    comparison = compare_calibrators(logits, y, calibrators=members, cv=2)
    assert sorted(comparison.names)[-1] == "uncalibrated"
    assert len(comparison.names) == 2
    if "raw" in members:
        comparison = compare_calibrators(logits, y, calibrators=members, cv=2, reference="raw")
        assert comparison.reference == "uncalibrated"
