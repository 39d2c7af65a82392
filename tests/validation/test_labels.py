"""Labels of any type are told apart; the columns are theirs; input in other forms than arrays."""

import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from families import CALIBRATORS, MissingClassesWarning, order_of, quick, quiet, warnings_of
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array
from scipy.special import softmax
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import skcalib
from skcalib.datasets import make_logits
from skcalib.metrics import calibration_scorer, expected_calibration_error

few = pytest.mark.parametrize("kind", quick(CALIBRATORS, real=False))
Z3, Y3 = make_logits(300, 3, temperature=2.0, random_state=0)
P3 = softmax(Z3, axis=1)

# --------------------------------------------------------------------------------------
# Exactness. Large integers that are equal as floats; NumPy converts mixtures to floats.

FORMS = {
    "integers": np.array([2**62, 2**62 + 1, 2**62 + 2]),
    "unsigned integers": np.array([2**63, 2**63 + 1, 2**63 + 2], dtype=np.uint64),
    "bytes of numbers": np.array([-128, 0, 127], dtype=np.int8),
    "text": np.array(["a", "b", "c"]),
}
CONTAINERS = {
    "array": lambda y: y,
    "list": lambda y: y.tolist(),
    "series": lambda y: pd.Series(y, index=range(5, 5 + len(y))),
    "nullable series": lambda y: pd.Series(y).convert_dtypes(),
    "categories": lambda y: pd.Series(y, dtype="category"),
}
# NumPy converts some lists of large integers to floats.
AS_FLOATS = {form for form, names in FORMS.items() if np.array(names.tolist()).dtype.kind == "f"}


@pytest.mark.parametrize(
    ("form", "container"),
    [(f, c) for f in FORMS for c in CONTAINERS if f not in AS_FLOATS or c != "list"],
)
def test_labels_are_told_apart_in_any_container(form, container):
    names = FORMS[form]
    y = CONTAINERS[container](names[Y3])
    calibrator, plain = (skcalib.HistogramBinning().fit(Z3, labels) for labels in (y, Y3))
    assert calibrator.classes_.tolist() == names.tolist()
    assert calibrator.predict(Z3).tolist() == names[plain.predict(Z3)].tolist()
    assert_array_equal(calibrator.predict_proba(Z3), plain.predict_proba(Z3))
    for labels in (None, CONTAINERS[container](names)):
        error = expected_calibration_error(y, P3, kind="classwise", labels=labels)
        assert error == expected_calibration_error(Y3, P3, kind="classwise")


def test_labels_and_classes_of_different_types():
    names = 2**30 + np.arange(3)
    calibrator = skcalib.TemperatureScaling(classes=names).fit(Z3, names.astype(np.uint64)[Y3])
    assert calibrator.temperature_ == skcalib.TemperatureScaling().fit(Z3, Y3).temperature_
    with pytest.raises(ValueError, match="'1'"):
        skcalib.TemperatureScaling(classes=[1, 2, 3]).fit(Z3, np.array(["1", "2", "3"])[Y3])
    assert skcalib.TemperatureScaling().fit(Z3, Y3).score(Z3, Y3.astype(str)) == 0


# --------------------------------------------------------------------------------------
# Predictions depend on fitted attributes alone.

FLAGS = ("normalize", "fit_intercept", "smooth_targets", "increasing")
OTHER_VALUES = {
    "classes": [[2, 1, 0]], "categorical_features": [[]], "alpha": [0.0, 7.0],
    "alpha_intercept": [0.0, 7.0], "loss": ["log_loss", "brier"], "max_iter": [1], "tol": [1e-2],
    "n_bins": [3, 40], "n_knots": [2, 3], "strategy": ["uniform", "quantile"],
    "shrinkage": [0.0, 3.0], "smoothing": [0.5], "noise_matrix": [0.7 * np.eye(3) + 0.1],
    "pseudo_rows": [0.0, 0.5], "interpolation": ["constant", "linear", "centered"],
    "bin_range": [(2, 3)], "merge": ["log_loss", "brier"], "multi_class": ["ovr", "ovo"],
    "priors": [[0.2, 0.3, 0.5], [0.5, 0.5, 0]], "calibrator": [skcalib.TemperatureScaling()],
    "estimator": [GaussianNB()], "calibrators": [[skcalib.TemperatureScaling()]], "cv": [2],
    "ordered": [True], "order": [[0, 2, 1]], "after": [None], "before": [None],
    "combine": ["best"], "n_jobs": [1], "random_state": [1], "verbose": [False], "forget": [0.5],
    **{name: [True, False] for name in FLAGS},
}  # fmt: skip


def outputs(calibrator):
    return [
        getattr(calibrator, name)(Z3)
        for name in ("transform", "predict_proba", "predict_log_proba", "predict")
    ]


@pytest.mark.slow
@few
def test_later_parameters_change_no_prediction(kind):
    for name in kind().get_params():
        if name == "order" and kind is not skcalib.OrdinalCalibration:
            continue  # it needs ordered=True
        for first in [kind().get_params()[name], *OTHER_VALUES[name]]:
            calibrator = quiet(kind(**{name: first}), Z3, Y3)  # one iteration is not enough
            before = outputs(calibrator)
            for then in OTHER_VALUES[name]:
                calibrator.set_params(**{name: then})
                for again in (calibrator, pickle.loads(pickle.dumps(calibrator))):
                    for old, new in zip(before, outputs(again), strict=True):
                        assert_array_equal(old, new, err_msg=f"{name}: {first!r}, then {then!r}")
                assert repr(clone(calibrator).get_params()[name]) == repr(then)


@pytest.mark.parametrize(
    ("params", "later"),
    [
        ({}, {"min_proba": 0.2}),
        ({"response_method": "predict_proba"}, {"response_method": "decision_function"}),
    ],
)
def test_later_parameters_change_no_prediction_of_a_classifier(params, later):
    X = Z3[:, :1]
    base = LogisticRegression().fit(X, Y3)
    for model in (
        skcalib.CalibratedClassifier(base, skcalib.TemperatureScaling(), cv=3, **params),
        skcalib.LogitTransformer(base, cv=3, **params),
    ):
        model.fit(X, Y3)
        name = "predict_proba" if hasattr(model, "predict_proba") else "transform"
        before = getattr(model, name)(X)
        assert_array_equal(getattr(model.set_params(**later), name)(X), before)


# --------------------------------------------------------------------------------------
# Columns and classes.


FEATURES = {
    "last column": (11, range(10), "10"),
    "pixels": (24, range(10), r"10, 11, 12, 13, 14, \.\.\. \(9 more\)"),
    "labels from 1": (13, [1, 2, 3], r"0, 4, 5, 6, 7, \.\.\. \(5 more\)"),
    "index, and labels from 1": (4, [1, 2, 3], "0"),
    "iris": (4, [0, 2], "1, 3"),
}


@pytest.mark.parametrize("case", FEATURES)
def test_features_and_index_columns_are_warned_of(case, rng):
    n_columns, labels, which = FEATURES[case]
    X, y = rng.normal(size=(200, n_columns)), np.array(labels)[np.arange(200) % len(labels)]
    calibrator = skcalib.VectorScaling()
    caught = warnings_of(calibrator.fit, X, y)
    (lack,) = [w.message for w in caught if isinstance(w.message, MissingClassesWarning)]
    assert re.match(f"No row has label {which}: ", str(lack))
    assert len(str(lack)) < 300
    assert lack.n_columns == n_columns
    assert list(lack.missing) == sorted(set(range(n_columns)) - set(labels))
    assert calibrator.classes_.tolist() == list(range(n_columns))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("error", MissingClassesWarning)
        named = skcalib.VectorScaling(classes=range(n_columns)).fit(X, y)
    assert_array_equal(named.predict(X), calibrator.predict(X))


@pytest.mark.parametrize("missing", [[7], [3, 7], [2, 5, 9], [0, 4, 5], None])
def test_a_split_that_lacks_classes_is_taken_with_a_warning(missing):
    n_rows, n_classes = (600, 10) if missing else (200, 100)
    Z, y = make_logits(n_rows, n_classes, random_state=0)
    if missing is None:  # as chance has it: about 13 of 100
        missing = np.setdiff1d(np.arange(n_classes), y).tolist()
        assert len(missing) > 5
    seen = ~np.isin(y, missing)
    first = ", ".join(map(str, missing[:5]))
    with pytest.warns(UserWarning, match=f"label {first}") as caught:
        calibrator = skcalib.TemperatureScaling().fit(Z[seen], y[seen])
    assert calibrator.classes_.tolist() == list(range(n_classes))
    assert len(str(caught[0].message)) < 300
    assert caught[0].message.missing == tuple(missing)


# Data frames with labels as column names.
NAMES = ["bee", "ant", "cat"]


@pytest.mark.parametrize(
    "form", [list, np.array, lambda y: y.astype(object), lambda y: pd.Series(y, dtype="boolean")]
)
def test_booleans_stay_booleans(form):
    calibrator = skcalib.BBQ().fit(Z3[:, :2], form(Y3 == 1))
    assert calibrator.classes_.dtype == calibrator.predict(Z3[:, :2]).dtype == bool
    # Also events of one kind.
    for event in (False, True):
        found = expected_calibration_error(form(np.full(300, event)), P3[:, 0], kind="binary")
        assert found == pytest.approx(abs(P3[:, 0].mean() - event))


def test_classes_in_another_order_than_the_logits_are_refused():
    names = np.array(["a", "b", "c"])[Y3]
    turned = skcalib.BBQ(classes=["b", "c", "a"])
    message = "order of the logits"
    with pytest.raises(ValueError, match=message):
        skcalib.CalibratedClassifier(LogisticRegression(), turned).fit(Z3, names)
    with pytest.raises(ValueError, match=message):
        skcalib.compare_calibrators(Z3, names, calibrators=[turned])
    test = pd.DataFrame(Z3, columns=["b", "c", "a"])
    with pytest.raises(ValueError, match="Columns of test"):
        skcalib.compare_calibrators(Z3, names, test=(test, names))


@pytest.mark.filterwarnings("ignore::families.ColumnOrderWarning")
def test_scorers_know_labels_of_another_type():
    names = 2**30 + np.arange(3)
    calibrator = skcalib.TemperatureScaling().fit(Z3, names[Y3])
    score, P = calibration_scorer("neg_expected_calibration_error"), calibrator.predict_proba(Z3)
    for y in (names.astype(np.uint64)[Y3], names.astype(object)[Y3].tolist()):
        assert score(calibrator, Z3, y) == -expected_calibration_error(Y3, P)
    with pytest.raises(ValueError, match="astype"):
        score(calibrator, Z3, names.astype(str)[Y3])
    higher = (names + 1).astype(np.uint64)[Y3]  # the last column has no rows
    with_unseen = np.c_[P, np.zeros(len(P))]
    expected = -expected_calibration_error(Y3 + 1, with_unseen, labels=range(4))
    assert score(calibrator, Z3, higher) == expected


@few
def test_columns_named_by_labels_in_another_order_are_refused(kind):
    y, sorted_names = np.array(NAMES)[Y3], sorted(NAMES)
    X = pd.DataFrame(Z3, columns=NAMES)
    message = r"X\[classes\]"
    calibrator = kind(**order_of(kind, NAMES))
    with pytest.raises(ValueError, match=message):
        calibrator.fit(X, y)
    assert not hasattr(calibrator, "classes_")
    in_order, named = X[sorted_names], kind(classes=NAMES, **order_of(kind, NAMES))
    for c, frame, array in ((named, X, Z3), (calibrator, in_order, Z3[:, [1, 0, 2]])):
        without_names = clone(c).fit(array, y)
        assert_array_equal(c.fit(frame, y).predict(frame), without_names.predict(array))
        other = frame.iloc[:, [2, 0, 1]]
        for method in (c.predict, c.predict_proba, c.transform):
            with pytest.raises(ValueError, match="order"):
                method(other)
        with pytest.raises(ValueError, match="order of the classes"):
            without_names.predict(other)


@pytest.mark.parametrize("levels", [("score", ""), ("", "model 1", "")])
def test_levels_of_names_in_another_order_are_refused(levels):
    """The labels are one level of a MultiIndex, the others are equal for all columns."""
    y = np.array(NAMES)[Y3]
    for place in range(len(levels)):
        names = [(*levels[:place], name, *levels[place:]) for name in NAMES]
        X = pd.DataFrame(Z3, columns=pd.MultiIndex.from_tuples(names))
        with pytest.raises(ValueError, match="order of the classes"):
            skcalib.TemperatureScaling().fit(X, y)
        skcalib.TemperatureScaling(classes=NAMES).fit(X, y)


@pytest.mark.slow
def test_names_of_the_columns_of_dask_data_frames():
    dd, y = pytest.importorskip("dask.dataframe"), np.array(NAMES)[Y3]
    X = dd.from_pandas(pd.DataFrame(Z3, columns=NAMES).assign(y=y), npartitions=3)
    with pytest.raises(ValueError, match="order of the classes"):
        skcalib.TemperatureScaling().fit(X[NAMES], X["y"])
    fitted = skcalib.TemperatureScaling().fit(X[sorted(NAMES)], X["y"])
    here = skcalib.TemperatureScaling(classes=NAMES).fit(Z3, y)
    assert fitted.temperature_ == pytest.approx(here.temperature_, rel=1e-9)


def test_names_of_the_columns_of_probabilities():
    y = np.array(NAMES)[Y3]
    P = pd.DataFrame(P3, columns=NAMES)
    for measure in (expected_calibration_error, skcalib.ReliabilityDisplay.from_predictions):
        with pytest.raises(ValueError, match="labels="):
            measure(y, P)
    error = expected_calibration_error(y, P, labels=NAMES)
    assert error == expected_calibration_error(Y3, P3)
    assert error == expected_calibration_error(y, P[sorted(NAMES)])


@pytest.mark.parametrize(
    ("columns", "labels"),
    [
        ([2, 0, 1], [0, 1, 2]),
        (["2", "0", "1"], [0, 1, 2]),
        (["2", "0", "1"], [0.0, 1.0, 2.0]),
        ([2, 0, 1], ["0", "1", "2"]),
        (["True", "False"], [False, True]),
    ],
)
def test_names_are_compared_as_text_and_as_labels(columns, labels):
    K = len(labels)
    X, y = pd.DataFrame(Z3[:, :K], columns=columns), np.array(labels)[Y3 % K]
    with pytest.raises(ValueError, match="order of the classes"):
        skcalib.TemperatureScaling().fit(X, y)


@pytest.mark.parametrize(
    ("columns", "classes"),
    [
        (["0", "1", "3"], None),
        (["x1", "y1", "z1"], None),
        (range(3), [0, 2, 1]),  # a data frame without names
        ([("a", 0), ("a", 1), ("b", 0)], None),
    ],
)
def test_unrelated_column_names_do_not_warn(columns, classes):
    X = pd.DataFrame(Z3[:, classes or range(3)])
    X.columns = pd.Index(columns)
    fitted, bare = (skcalib.BBQ(classes=classes).fit(data, Y3) for data in (X, X.to_numpy()))
    for found, expected in zip(fitted.bin_values_, bare.bin_values_, strict=True):
        assert_array_equal(found, expected)


# --------------------------------------------------------------------------------------
# Messages.


NAMED = np.array(["a", "b", "c"], dtype=object)[Y3]


def spoiled(value):
    y = NAMED.copy()
    y[7] = value
    return y


MISSING = {
    "None": (spoiled(None), "None"),
    "NaN": (spoiled(np.nan), "NaN"),
    "NA": (spoiled(pd.NA), "<NA>"),
    "list with NaN": (spoiled(np.nan).tolist(), "NaN"),
    "list with None": (spoiled(None).tolist(), "None"),
    "series of strings": (pd.Series(spoiled(pd.NA), dtype="string"), "(<NA>|NaN)"),
    "nullable integers": (pd.Series(Y3, dtype="Int64").where(np.arange(300) != 7), "(<NA>|NaN)"),
    "floats": (np.where(np.arange(300) == 7, np.nan, Y3), "NaN"),
}


@pytest.mark.parametrize("case", MISSING)
def test_missing_labels_are_named(case):
    y, found = MISSING[case]
    with pytest.raises(ValueError, match=f"{found} at position 7"):
        skcalib.TemperatureScaling().fit(Z3, y)
    with pytest.raises(ValueError, match=f"y_true .*{found} at position 7"):
        expected_calibration_error(y, P3)


@pytest.mark.parametrize("names", [np.array([0, 1, 2], object), np.array([b"a", b"b", b"c"])])
def test_the_accuracy_takes_labels_that_fits_take(names):
    calibrator = skcalib.TemperatureScaling().fit(Z3, names[Y3])
    assert calibrator.score(Z3, names[Y3]) == (Z3.argmax(axis=1) == Y3).mean()
    assert calibrator.score(Z3, names[[0] * 300]) == (Z3.argmax(axis=1) == 0).mean()


@pytest.mark.parametrize("labels", [spoiled(1), spoiled(1).tolist(), pd.Series(spoiled(1))])
def test_labels_of_two_types_are_named(labels):
    for action in (
        lambda: skcalib.TemperatureScaling().fit(Z3, labels),
        lambda: expected_calibration_error(labels, P3),
    ):
        with pytest.raises(ValueError, match="one type"):
            action()


def test_ordered_categories_without_rows_are_no_classes():
    y = pd.Categorical.from_codes((Y3 > 0) * 2, ["low", "middle", "high"], ordered=True)
    fitted = skcalib.TemperatureScaling().fit(Z3[:, 1:2] - Z3[:, :1], y)
    assert fitted.classes_.tolist() == ["low", "high"]


def test_labels_of_two_types_in_two_chunks_are_named():
    da = pytest.importorskip("dask.array")
    labels = Y3.astype(object)
    labels[100:] = Y3[100:].astype(str)
    X, y = (da.from_array(values, chunks=(100, *values.shape[1:])) for values in (Z3, labels))
    with pytest.raises(ValueError, match="one type"):
        skcalib.TemperatureScaling().fit(X, y)


def test_one_hot_labels_raise_with_a_remedy():
    hot = np.eye(3)[Y3]
    for y in (hot, hot.astype(bool), hot.tolist(), csr_array(hot)):
        with pytest.raises(ValueError, match=r"y\.argmax"):
            skcalib.TemperatureScaling().fit(Z3, y)
        with pytest.raises(ValueError, match=r"y_true\.argmax"):
            expected_calibration_error(y, P3)
    with pytest.raises(ValueError, match=r"y\.ravel"):
        skcalib.TemperatureScaling().fit(Z3, np.c_[Y3, Y3])


@pytest.mark.parametrize("shape", [(4, 3, 2, 5), (4, 3, 10)])
def test_logits_of_images_and_sequences(shape, rng):
    X, y = rng.normal(size=shape), rng.integers(3, size=(4, *shape[2:]))
    remedy = r"moveaxis.*{0}\.reshape"
    with pytest.raises(ValueError, match=remedy.format("X")):
        skcalib.TemperatureScaling().fit(X, y)
    with pytest.raises(ValueError, match=remedy.format("y_proba")):
        expected_calibration_error(y, softmax(X, axis=1))
    # The remedy in the message works.
    flat = np.moveaxis(X, 1, -1).reshape(-1, 3)
    calibrator = skcalib.TemperatureScaling().fit(flat, y.ravel())
    assert_array_equal(flat[7], X[0, :, 1, 2] if X.ndim == 4 else X[0, :, 7])
    with pytest.raises(ValueError, match=remedy.format("X")):
        calibrator.predict_proba(X)


class Tensor:
    """Tensor of another library, as NumPy converts it."""

    def __init__(self, values, dtype, fault=None, *, requires_grad=False, device="cpu"):
        self.values, self.dtype, self.fault = np.asarray(values), dtype, fault
        self.requires_grad, self.device = requires_grad, device
        self.shape, self.ndim = self.values.shape, self.values.ndim

    def __len__(self):
        return len(self.values)

    def __array__(self, dtype=None, copy=None):
        if self.fault is not None:
            raise self.fault
        return self.values if dtype is None else self.values.astype(dtype)


HALF = TypeError("Got unsupported ScalarType BFloat16")
GRAD = RuntimeError("Can't call numpy() on Tensor that requires grad. Use detach() instead.")
AWAY = TypeError("can't convert cuda:0 device type tensor to numpy.")
UNREADABLE = {
    "bfloat16": Tensor(Z3, "torch.bfloat16", HALF),
    "gradient": Tensor(Z3, "torch.float32", GRAD, requires_grad=True),
    "device": Tensor(Z3, "torch.float32", AWAY, device="cuda:0"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_tensors_that_numpy_cannot_read(case):
    tensor = UNREADABLE[case]
    fitted = skcalib.TemperatureScaling().fit(Z3, Y3)
    for name, call in (
        ("X", lambda: skcalib.TemperatureScaling().fit(tensor, Y3)),
        ("X", lambda: fitted.predict_proba(tensor)),
        ("y", lambda: skcalib.TemperatureScaling().fit(Z3, tensor)),
        ("y_proba", lambda: expected_calibration_error(Y3, tensor)),
    ):
        with pytest.raises(ValueError, match=f"{tensor.dtype}: .*Pass {name}"):
            call()


def to_bfloat16(values):
    """The nearest number with eight bits: float32 without its last two bytes."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32)


@pytest.mark.parametrize("rounded", [to_bfloat16, np.float16])
def test_probabilities_rounded_by_networks_are_probabilities(rounded):
    Z, y = make_logits(4000, 5, random_state=0)
    P = rounded(softmax(Z, axis=1)).astype(np.float32)
    off = np.abs(P.sum(axis=1) - 1).max()
    assert off > 1e-4
    exact = expected_calibration_error(y, softmax(Z, axis=1))
    assert expected_calibration_error(y, P) == pytest.approx(exact, abs=0.01)
    with pytest.warns(UserWarning, match="probabilities"):
        skcalib.TemperatureScaling().fit(P, y)


@pytest.mark.parametrize("what", ["X", "y", "sample_weight"])
def test_masked_arrays_of_numpy_are_refused(what):
    given = {"X": Z3, "y": Y3, "sample_weight": np.ones(len(Y3))}
    masked = np.ma.masked_array(given[what])
    skcalib.TemperatureScaling().fit(**{**given, what: masked})  # nothing is masked
    masked = np.ma.masked_array(given[what], mask=np.zeros(given[what].shape, bool))
    masked.mask[3] = True
    with pytest.raises(ValueError, match=f"{what} .*masked"):
        skcalib.TemperatureScaling().fit(**{**given, what: masked})


def test_absent_classes_do_not_cause_a_message_about_logits():
    with pytest.warns(MissingClassesWarning, match="labels="):
        expected_calibration_error([0, 0], [[0.9, 0.1], [0.8, 0.2]], kind="classwise")
