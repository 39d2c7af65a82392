"""Columns in another order than the classes are refused or warned of, by names, text and rows."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from families import ColumnOrderWarning, warnings_of
from scipy.special import softmax
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skcalib import (
    BBQ,
    LogitTransformer,
    ReliabilityDisplay,
    TemperatureScaling,
    TemperatureSweepDisplay,
    Uncalibrated,
    VectorScaling,
    calibration_report,
    compare_calibrators,
)
from skcalib.datasets import make_logits
from skcalib.metrics import expected_calibration_error
from skcalib.monitor import CalibrationMonitor

Z3, Y3 = make_logits(300, 3, temperature=2.0, random_state=0)
Z12, Y12 = make_logits(1000, 12, temperature=2.0, random_state=0)
NAMES = np.array(["a", "b", "c"])


def warned(f, *args, **params):
    """The message of the warning of columns, or an empty string."""
    caught = warnings_of(f, *args, **params)
    return "".join({str(w.message) for w in caught if issubclass(w.category, ColumnOrderWarning)})


# --------------------------------------------------------------------------------------
# Names.


@pytest.mark.parametrize("form", ["{}", "logit_{}", "p({})", "{}_proba", "class {} logit"])
@pytest.mark.parametrize("labels", [[0, 1, 2], ["a", "b", "c"], ["low", "lower", "lowest"]])
def test_names_with_a_prefix_and_a_suffix_are_compared(form, labels):
    y = np.array(labels)[Y3]
    names = [form.format(label) for label in sorted(labels)]
    for order in permutations(range(3)):
        X = pd.DataFrame(Z3[:, order], columns=[names[k] for k in order])
        P = pd.DataFrame(softmax(X.to_numpy(), axis=1), columns=X.columns)
        calls = (
            lambda X=X: TemperatureScaling().fit(X, y),
            lambda P=P: expected_calibration_error(y, P),
            lambda P=P: ReliabilityDisplay.from_predictions(y, P),
            lambda P=P: CalibrationMonitor(labels=sorted(labels)).update(y, P),
        )
        for call in calls:
            if order == (0, 1, 2):
                call()
            else:
                with pytest.raises(ValueError, match="order of the classes"):
                    call()


# --------------------------------------------------------------------------------------
# Text with numbers.


@pytest.mark.parametrize(
    "order",
    [
        ["0", "1", "2", "10"],
        ["-2", "-1", "1"],
        ["class 1", "class 2", "class 10"],
        ["5-10", "10-20", "<5", ">20"],
        ["2", "10", "other"],
        ["a1", "b2"],
        ["a", "b"],
    ],
)
def test_text_with_numbers_may_be_in_the_order_of_the_numbers(order):
    Z, y = make_logits(2000, len(order), temperature=2.0, random_state=0)
    message = warned(TemperatureScaling().fit, Z, np.array(order)[y])
    assert (message == "") == (order == sorted(order))
    assert ", ".join(map(repr, order[:3])) in message or order == sorted(order)


@pytest.mark.parametrize("form", ["{}", "class {}", "{}%"])
def test_text_with_numbers_is_warned_of_unless_the_rows_agree_with_its_order(form):
    labels = np.array([form.format(k) for k in range(12)])
    message = warned(TemperatureScaling().fit, Z12, labels[Y12])
    assert f"may be in the order ['{labels[0]}', '{labels[1]}', '{labels[2]}'" in message
    assert "classes=" in message
    P = softmax(Z12, axis=1)
    assert "labels=" in warned(expected_calibration_error, labels[Y12], P)
    # Columns in the order of text, as classifiers of scikit-learn have them, and named labels.
    order = np.argsort(labels)
    TemperatureScaling().fit(Z12[:, order], labels[Y12])
    expected_calibration_error(labels[Y12], P[:, order])
    TemperatureScaling(classes=labels).fit(Z12, labels[Y12])
    expected_calibration_error(labels[Y12], P, labels=labels)


def test_columns_of_dask_cannot_be_compared_with_the_labels():
    da = pytest.importorskip("dask.array")
    labels = np.array([str(k) for k in range(12)])
    X, y = da.from_array(Z12, chunks=(500, 12)), da.from_array(labels[Y12], chunks=500)
    assert "may be in the order" in warned(TemperatureScaling().fit, X, y)


# --------------------------------------------------------------------------------------
# Ordered categories.


def ordered(labels, names):
    return pd.Series(pd.Categorical(np.array(names)[labels], categories=names, ordered=True))


ENUM = "polars"
FORMS = [
    ordered,
    lambda y, names: pd.Categorical(np.array(names)[y], names, ordered=True),
    lambda y, names: ordered(y, names).to_frame("y")["y"],
    ENUM,
]


@pytest.mark.filterwarnings("ignore::families.AbsentClassesWarning")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("names", [["low", "mid", "high"], ["a", "c", "b"]])
def test_ordered_categories_are_in_the_order_of_the_columns(form, names):
    if form is ENUM:
        polars = pytest.importorskip("polars")
        form = lambda y, names: polars.Series(np.array(names)[y], dtype=polars.Enum(names))  # noqa: E731
    for kept in (range(300), np.flatnonzero(Y3 < 2)):  # also if the rows lack a category
        y = form(Y3[kept], names)
        calibrator = VectorScaling(classes=names).fit(Z3[kept], np.array(names)[Y3[kept]])
        found = VectorScaling().fit(Z3[kept], y)
        assert found.classes_.tolist() == names
        np.testing.assert_array_equal(found.transform(Z3), calibrator.transform(Z3))
    P = softmax(Z3, axis=1)
    error = expected_calibration_error(form(Y3, names), P, kind="classwise")
    assert error == expected_calibration_error(Y3, P, kind="classwise")


def test_ordered_categories_in_text_order_warn():
    names = ["low", "mid", "high"]
    columns = Z3[:, [2, 0, 1]]  # high, low, mid, as classifiers of scikit-learn have them
    y = ordered(Y3, names)
    assert "may be in the order ['high', 'low', 'mid']" in warned(
        TemperatureScaling().fit, columns, y
    )
    P = softmax(columns, axis=1)
    assert "labels=" in warned(expected_calibration_error, y, P)


# --------------------------------------------------------------------------------------
# Labels that mean no class.


@pytest.mark.parametrize("mark", [255, -100, -1, 3])
def test_ignore_index_in_place_of_an_absent_class_warns(mark):
    y = np.where(Y3 == 1, mark, Y3)
    for call, x in (
        (lambda y, x: TemperatureScaling().fit(x, y), Z3),
        (expected_calibration_error, softmax(Z3, axis=1)),
    ):
        message = warned(call, y, x)
        assert f"except {mark}, and no row has label 1" in message


def test_a_mark_in_few_bits_warns_once(rng):
    """The difference between -100 and 40 is no number of 8 bits."""
    y = np.append(rng.integers(0, 41, 500), np.arange(41)).astype(np.int8)
    y[:9] = -100
    message = warned(TemperatureScaling().fit, rng.normal(size=(len(y), 42)), y)
    assert "except -100, and no row has label 41" in message


@pytest.mark.parametrize("labels", [[1, 2, 3], [-1, 0, 1], [10, 20, 30], [7, 8, 9], [0, 1, 2]])
def test_integers_from_another_number_on_are_labels(labels):
    TemperatureScaling().fit(Z3, np.array(labels)[Y3])


# --------------------------------------------------------------------------------------
# The rows.


def seem_exchanged(y, Z):
    """Whether a fit warns of the columns, for logits or the column that is largest in each row."""
    n_classes = Z.shape[1] if Z.ndim == 2 else max(y.max(), Z.max()) + 1
    Z = Z if Z.ndim == 2 else 4.0 * np.eye(n_classes)[Z]
    message = warned(Uncalibrated(classes=range(n_classes)).fit, Z, y)
    return "belong to other classes" in message or "instead of 1" in message


@pytest.mark.parametrize("n_classes", [2, 3, 10, 100])
def test_two_exchanged_columns_and_turned_columns_are_found(n_classes, rng):
    y = rng.integers(n_classes, size=60 * n_classes)
    top = np.where(rng.random(len(y)) < 0.7, y, rng.integers(n_classes, size=len(y)))
    assert not seem_exchanged(y, top)
    assert seem_exchanged(y, np.r_[1, 0, 2:n_classes][top])
    assert seem_exchanged(y, np.roll(np.arange(n_classes), 1)[top])


def test_weak_and_biased_models_raise_no_false_alarm(rng):
    for k in range(1000):
        n_classes, n_rows = [2, 3, 10, 50][k % 4], [20, 60, 500][k % 3]
        y = rng.choice(n_classes, n_rows, p=rng.dirichlet(np.ones(n_classes)))
        if y.min() < y.max():
            bias = rng.choice([0, 1, 3]) * rng.normal(size=n_classes)
            noise = rng.normal(size=(n_rows, n_classes))
            assert not seem_exchanged(y, noise + bias + 0.3 * (k % 2) * np.eye(n_classes)[y])


@pytest.mark.parametrize("n_classes", [3, 4, 10])
def test_a_model_that_gives_neighbouring_classes_raises_no_false_alarm(n_classes, rng):
    for y in (np.arange(600) % n_classes, rng.integers(n_classes, size=600)):
        for steps in (1, 2, rng.integers(3, size=600)):
            for top in (np.minimum(y + steps, n_classes - 1), np.maximum(y - steps, 0)):
                assert not seem_exchanged(y, top)
        assert not seem_exchanged(y, np.zeros(600, int))


def test_labels_may_alternate():
    y = np.arange(600) % 4
    assert not seem_exchanged(y, y)
    assert seem_exchanged(y, (y + 1) % 4)
    y = np.arange(600) % 10
    assert seem_exchanged(y, y ^ 1)


@pytest.mark.parametrize("n_classes", [3, 4, 10])
@pytest.mark.parametrize("rare", [0, 1, 2])
def test_columns_moved_by_one_are_found_if_a_rare_class_is_never_predicted(n_classes, rare, rng):
    shares = np.where(np.arange(n_classes) == rare, 0.03, 0.97 / (n_classes - 1))
    y = rng.choice(n_classes, 600, p=shares)
    others = np.delete(np.arange(n_classes), rare)
    top = np.where(y == rare, rng.choice(others, 600), y)
    Z = rng.normal(size=(600, n_classes)) + 6 * np.eye(n_classes)[top]
    Z[:, rare] -= 9
    assert not warned(TemperatureScaling().fit, Z, y)
    for step in range(1, n_classes):
        moved = np.roll(Z, step, axis=1)
        assert "belong to other classes" in warned(TemperatureScaling().fit, moved, y)
        P = softmax(moved, axis=1)
        assert "belong to other classes" in warned(expected_calibration_error, y, P)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_fits_measures_and_diagrams_warn_of_exchanged_columns(n_classes):
    Z, y = make_logits(600, n_classes, random_state=0)
    wrong = np.roll(Z, 1, axis=1)
    P = softmax(wrong, axis=1)
    assert "classes=" in warned(VectorScaling().fit, wrong, y)
    assert "classes=" in warned(VectorScaling(classes=range(n_classes)).fit, wrong, y)
    assert "labels=" in warned(expected_calibration_error, y, P)
    assert "labels=" in warned(ReliabilityDisplay.from_predictions, y, P)
    both = np.r_[wrong, Z], np.r_[y, y], np.r_[np.zeros(600), np.ones(600)]
    VectorScaling().fit(*both)  # rows of weight 0 do not count
    if n_classes == 2:
        assert "-X" in warned(VectorScaling().fit, Z[:, :1] - Z[:, 1:], y)
        assert "pos_label" in warned(expected_calibration_error, y, P[:, 1])
        VectorScaling().fit(Z[:, 1:] - Z[:, :1], y)


def test_pipelines_have_columns_in_the_order_of_the_calibrator():
    X, y = make_classification(600, 8, n_informative=6, n_classes=3, random_state=0)
    names = ["low", "mid", "high"]
    for labels in (np.array(names)[y], ordered(y, names), np.array(["2", "10", "1"])[y]):
        pipeline = make_pipeline(LogitTransformer(LogisticRegression()), TemperatureScaling())
        assert pipeline.fit(X, labels).score(X, labels) > 0.6


@pytest.mark.usefixtures("few_resamples")
@pytest.mark.parametrize(
    "use",
    [
        lambda X, y: compare_calibrators(X, y, calibrators=[BBQ()], cv=3),
        lambda X, y: calibration_report(Uncalibrated().fit(Z3, Y3), X, y, figure=None).measures_,
        TemperatureSweepDisplay.from_logits,
    ],
    ids=["comparison", "report", "sweep"],
)
def test_exchanged_columns_are_warned_of_once_for_each_set_of_rows(use):
    caught = warnings_of(use, Z3[:, [1, 0, 2]], Y3)
    texts = [str(w.message) for w in caught if issubclass(w.category, ColumnOrderWarning)]
    assert 1 <= len(texts) == len({text.partition("Columns of")[0] for text in texts}) <= 2


def test_exchanged_columns_of_a_test_set_are_warned_of_once():
    with pytest.warns(ColumnOrderWarning, match="uncalibrated, BBQ") as caught:
        compare_calibrators(Z3, Y3, calibrators=[BBQ()], test=(Z3[:, [1, 0, 2]], Y3))
    assert len(caught) == 1
