"""Calibrators of groups: mixtures by hand, the shrinkage, groups of any kind, routing."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import sklearn
from matplotlib.figure import Figure
from scipy.special import softmax
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skcalib import (
    AutoCalibrator,
    GroupCalibrator,
    HistogramBinning,
    MatrixScaling,
    PlattScaling,
    TemperatureScaling,
    calibration_report,
    compare_calibrators,
)
from skcalib._rows.rows import MemoryRows
from skcalib.datasets import make_logits
from skcalib.meta._groups import SHRINKAGES, out_of_fold_losses
from skcalib.report._code import to_apply, to_repeat

ONE_BIN = HistogramBinning(n_bins=1, pseudo_rows=0)
OUTPUTS = ("predict_proba", "predict_log_proba", "transform", "predict")
Z, Y = make_logits(900, 3, temperature=1.0, random_state=0)
G = np.random.default_rng(0).choice(["ant", "bee", "cat"], 900, p=[0.5, 0.3, 0.2])
Z = Z * np.array([1.0, 3.0, 0.5])[np.searchsorted(["ant", "bee", "cat"], G)][:, None]


def simulated(n_groups, n_rows, spread, seed=0):
    """Logits, labels and groups whose log-temperatures differ by so much, to fit and to test."""
    rng = np.random.default_rng(seed)
    T = np.exp(spread * rng.normal(size=n_groups))
    for n in (n_rows, 100):
        g = np.repeat(np.arange(n_groups), n)
        logits, y = make_logits(len(g), 3, temperature=1.0, random_state=int(rng.integers(99)))
        yield logits * T[g][:, None], y, g


# --------------------------------------------------------------------------------------
# Numbers.


def test_mixture_by_hand():
    """Frequencies of the second class: 1/2 of two rows, 3/4 of four rows, 2/3 of all."""
    y, g = np.array([0, 1, 0, 1, 1, 1]), np.array([0, 0, 1, 1, 1, 1])
    margin = np.linspace(-1, 1, 6)[:, None]
    c = GroupCalibrator(ONE_BIN, shrinkage=3).fit(margin, y, groups=g)
    found = c.predict_proba([[0.5]] * 4, groups=[0, 1, 2, 1])[:, 1]
    first, second = (2 / 2 + 3 * 2 / 3) / 5, (4 * 3 / 4 + 3 * 2 / 3) / 7
    np.testing.assert_allclose(found, [first, second, 2 / 3, second])
    np.testing.assert_allclose(c.shares_, [2 / 5, 4 / 7])
    found = c.transform([[0.5]] * 2, groups=[0, 1])
    np.testing.assert_allclose(
        found, [[np.log(first / (1 - first))], [np.log(second / (1 - second))]]
    )
    weighted = GroupCalibrator(ONE_BIN, shrinkage=3)
    weighted.fit(margin, y, np.array([1, 2, 1, 1, 1, 1]), groups=g)
    np.testing.assert_allclose(weighted.shares_, [3 / 6, 4 / 7])


@pytest.mark.parametrize("seed", range(4))
def test_one_group_is_that_of_all_rows(seed):
    """Its calibrator is the one of all rows, at any shrinkage, and rounding must not choose one."""
    Z, y = make_logits(300, 3, temperature=2.0, random_state=seed)
    calibrator = GroupCalibrator().fit(Z, y, groups=np.zeros(300, int))
    assert calibrator.shrinkage_ == np.inf


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize(
    "calibrator", [TemperatureScaling(), PlattScaling(), AutoCalibrator([TemperatureScaling()])]
)
def test_without_shrinkage_groups_are_calibrated_by_themselves(name, calibrator):
    c = GroupCalibrator(calibrator, shrinkage=0).fit(Z, Y, groups=G)
    found = getattr(c, name)(Z, groups=G)
    for group in ("ant", "bee", "cat"):
        of_group = G == group
        own = calibrator.fit(Z[of_group], Y[of_group])
        expected = getattr(own, name)(Z[of_group])
        if name == "transform":
            found_logits, expected = (softmax(a, axis=1) for a in (found[of_group], expected))
            np.testing.assert_allclose(found_logits, expected, rtol=1e-9)
        elif name == "predict":
            assert np.array_equal(found[of_group], expected)
        else:
            np.testing.assert_allclose(found[of_group], expected, rtol=1e-9)


@pytest.mark.parametrize("name", OUTPUTS)
def test_other_groups_and_none_are_calibrated_by_all_rows(name):
    c = GroupCalibrator().fit(Z, Y, groups=G)
    pooled = getattr(c, name)(Z, groups=["dog"] * 900)
    with pytest.warns(UserWarning, match="fitted with groups, got none: .*Pass groups=, the group"):
        np.testing.assert_array_equal(getattr(c, name)(Z), pooled)
    plain = GroupCalibrator().fit(Z, Y)
    assert plain.calibrators_ == []
    assert plain.groups_.size == 0
    assert plain.shrinkage_ == 0
    np.testing.assert_array_equal(getattr(plain, name)(Z, groups=G), pooled)
    if name == "predict_proba":
        np.testing.assert_allclose(pooled, TemperatureScaling().fit(Z, Y).predict_proba(Z))


def test_weight_two_is_the_row_twice_and_zero_no_row():
    w = np.random.default_rng(0).integers(0, 3, 900)
    group = np.where(w == 0, "dog", G)
    c = GroupCalibrator(shrinkage=10).fit(Z, Y, w, groups=group)
    twice = GroupCalibrator(shrinkage=10).fit(
        np.repeat(Z, w, axis=0), np.repeat(Y, w), groups=np.repeat(G, w)
    )
    assert c.groups_.tolist() == ["ant", "bee", "cat"]
    found, expected = (m.predict_proba(Z, groups=G) for m in (c, twice))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


# --------------------------------------------------------------------------------------
# The shrinkage.


def test_a_group_with_one_label_has_the_pooled_calibrator():
    y = np.where(G == "cat", 2, Y)
    c = GroupCalibrator(AutoCalibrator([TemperatureScaling()]), shrinkage=5).fit(Z, y, groups=G)
    assert (c.shares_ > 0).tolist() == [True, True, False]
    assert c.calibrators_[2] is c.pooled_calibrator_
    # Without a second label outside of one fold there is nothing to choose the shrinkage by.
    y = (np.arange(900) == 0).astype(int)
    c = GroupCalibrator(LogisticRegression(), classes=range(3)).fit(Z, y, groups=G)
    assert (c.shrinkage_, c.shares_.tolist()) == (np.inf, [0, 0, 0])


def test_warnings_name_the_groups_they_are_of():
    y = np.where(G == "ant", Y, Z.argmax(axis=1))
    with pytest.warns(UserWarning, match=r"^Group 'bee', 'cat': The log loss has no mini") as seen:
        GroupCalibrator(shrinkage=5).fit(Z, y, groups=G)
    assert len(seen) == 1


@pytest.mark.slow
def test_equal_groups_are_pooled_and_different_ones_are_not():
    for spread, harm in ((0.0, 0.001), (0.7, -0.03)):
        (X, y, g), (new, label, h) = simulated(20, 60, spread)
        c = GroupCalibrator().fit(X, y, groups=g)
        outputs = c.predict_proba(new, groups=h), c.pooled_calibrator_.predict_proba(new)
        losses = [log_loss(label, P) for P in outputs]
        assert losses[0] - losses[1] < harm
        assert c.shrinkage_ >= 100 if spread == 0 else c.shrinkage_ <= 50


@pytest.mark.slow
def test_the_choice_is_that_of_the_lowest_loss_in_five_folds():
    """By brute force: a fit for each shrinkage and each fold."""
    (X, y, g), _ = simulated(4, 40, 0.7)
    w = np.random.default_rng(0).uniform(0.2, 2, len(y))
    binning = HistogramBinning(n_bins=2, pseudo_rows=1.0)
    losses = np.zeros(len(SHRINKAGES))
    for train, test in KFold(5, shuffle=True, random_state=0).split(X):
        for i, s in enumerate(SHRINKAGES):
            c = GroupCalibrator(binning, shrinkage=min(s, 1e12))
            c.fit(X[train], y[train], w[train], groups=g[train])
            of_label = c.predict_log_proba(X[test], groups=g[test])[np.arange(len(test)), y[test]]
            losses[i] -= w[test] @ of_label
    rows = MemoryRows(X, y, w, classes=np.arange(3), groups=g)
    found = out_of_fold_losses(binning, rows, 4)
    np.testing.assert_allclose(found, losses, rtol=1e-9)
    for _ in range(3):
        c = GroupCalibrator(binning).fit(X, y, w, groups=g)
        assert c.shrinkage_ == SHRINKAGES[losses.argmin()]


# --------------------------------------------------------------------------------------
# Groups of any kind.


@pytest.mark.parametrize(
    "names", [[2, 0, 7], [0.5, 1.5, -1.0], [True, False, True], np.array(["a", "b", "c"], object)]
)
def test_groups_of_any_type(names):
    g = np.asarray(names)[np.searchsorted(["ant", "bee", "cat"], G)]
    c = GroupCalibrator(shrinkage=5).fit(Z, Y, groups=g)
    assert c.groups_.tolist() == sorted(set(g.tolist()))
    expected = c.predict_proba(Z, groups=g)
    frame = pd.DataFrame(Z, columns=["a", "b", "c"])
    series = pd.Series(g, index=np.arange(900) + 5)
    framed = GroupCalibrator(shrinkage=5).fit(frame, Y, groups=series)
    np.testing.assert_allclose(framed.predict_proba(frame, groups=series), expected, rtol=1e-12)
    np.testing.assert_allclose(c.predict_proba(Z.tolist(), groups=g.tolist()), expected)


def test_masked_classes_and_single_precision():
    X = Z.astype(np.float32)
    X[Y != 2, 2] = np.where(np.arange((Y != 2).sum()) % 2, -np.inf, X[Y != 2, 2])
    c = GroupCalibrator().fit(X, Y, groups=G)
    found = c.predict_proba(X, groups=G)
    assert found.dtype == np.float32
    assert np.array_equal(found == 0, np.isneginf(X))
    for groups in (None, G):
        with pytest.raises(ValueError, match="MatrixScaling mixes the logits of all classes"):
            GroupCalibrator(MatrixScaling()).fit(X, Y, groups=groups)


def test_groups_are_routed():
    with sklearn.config_context(enable_metadata_routing=True):
        routed = GroupCalibrator(shrinkage=5).set_fit_request(groups=True)
        routed.set_predict_proba_request(groups=True)
        pipeline = make_pipeline(FunctionTransformer(), routed).fit(Z, Y, groups=G)
        found = pipeline.predict_proba(Z, groups=G)
    plain = GroupCalibrator(shrinkage=5).fit(Z, Y, groups=G)
    np.testing.assert_array_equal(found, plain.predict_proba(Z, groups=G))


def test_fit_transform_and_score_have_the_groups():
    """Inside a pipeline the next step is fitted to what it is given later."""
    w = np.random.default_rng(0).uniform(0.5, 2, 900)
    c = GroupCalibrator(shrinkage=5).fit(Z, Y, w, groups=G)
    found = GroupCalibrator(shrinkage=5).fit_transform(Z, Y, w, groups=G)
    np.testing.assert_array_equal(found, c.transform(Z, groups=G))
    assert np.abs(found - c.transform(Z, groups=["dog"] * 900)).max() > 1
    binned = GroupCalibrator(HistogramBinning(pseudo_rows=1), shrinkage=5).fit(Z, Y, w, groups=G)
    right = binned.predict(Z, groups=G) == Y
    assert binned.score(Z, Y, w, groups=G) == pytest.approx(w @ right / w.sum(), rel=1e-12)
    assert binned.score(Z, Y, groups=G) != binned.score(Z, Y, groups=["dog"] * 900)
    with sklearn.config_context(enable_metadata_routing=True):
        first = GroupCalibrator(shrinkage=5).set_fit_request(groups=True)
        first.set_transform_request(groups=True)
        pipeline = make_pipeline(first, PlattScaling()).fit(Z, Y, groups=G)
    found = first.fit(Z, Y, groups=G).transform(Z, groups=G)
    np.testing.assert_array_equal(pipeline[-1].coef_, PlattScaling().fit(found, Y).coef_)


def test_searches_score_with_the_groups():
    """The accuracy, that of the pooled calibrator if all shrinkages have the same."""
    numbers = np.searchsorted(["ant", "bee", "cat"], G)
    shifted = Z + 4 * np.eye(3)[numbers]
    with sklearn.config_context(enable_metadata_routing=True):
        routed = GroupCalibrator(PlattScaling()).set_fit_request(groups=True)
        routed.set_score_request(groups=True)
        search = GridSearchCV(routed, {"shrinkage": [1, 1e6]}, cv=3).fit(shifted, Y, groups=G)
    alone, pooled = search.cv_results_["mean_test_score"]
    assert alone > pooled + 0.05


# --------------------------------------------------------------------------------------
# Bad input.

CHUNKED = da.from_array(Z, chunks=(300, 3)), da.from_array(Y, chunks=300)


@pytest.mark.parametrize(
    ("params", "rows", "groups", "message"),
    [
        ({"shrinkage": -1}, (Z, Y), G, "'cv' or a finite number of at least 0, got -1"),
        ({"calibrator": 1}, (Z, Y), G, "calibrator must be an estimator"),
        ({"calibrator": PlattScaling(classes=[2, 1, 0])}, (Z, Y), G, "in the order of the logits"),
        ({}, (Z, Y), G[1:], "groups must have one entry per row, 900, got 899"),
        ({}, (Z, Y), [None, *G[1:]], "groups contains None: .* at position 0"),
        ({}, CHUNKED, G, "Groups are for rows in memory, got a Dask collection"),
        ({}, (Z, Y), np.c_[G, G], "groups must have one dimension"),
        ({}, (Z, Y), "ant", r"groups must have one entry per row, got 'ant'. .* \['ant'\] \* len"),
    ],
)
def test_bad_fits(params, rows, groups, message):
    c = GroupCalibrator(**params)
    before = dict(vars(c))
    with pytest.raises(ValueError, match=message):
        c.fit(*rows, groups=groups)
    assert vars(c) == before


def test_bad_outputs():
    with pytest.raises(NotFittedError):
        GroupCalibrator().predict(Z, groups=G)
    c = GroupCalibrator().fit(Z, Y, groups=G)
    with pytest.raises(ValueError, match="groups must have one entry per row, 900, got 899"):
        c.predict_proba(Z, groups=G[1:])
    numbers = np.searchsorted(c.groups_, G)
    of_numbers = GroupCalibrator(shrinkage=5).fit(Z, Y, groups=numbers)
    for calibrator, groups in (
        (c, numbers),
        (of_numbers, G),
        (of_numbers, numbers.astype("M8[D]")),
    ):
        with pytest.raises(ValueError, match="of the type that they were of in fit, as in"):
            calibrator.predict_proba(Z, groups=groups)
    with pytest.raises(ValueError, match="got 1 NaN"):
        c.predict_proba(np.vstack([Z[:3], [[np.nan, 0, 0]]]), groups=G[:4])
    with pytest.raises(ValueError, match="Groups are for rows in memory"):
        c.predict_proba(CHUNKED[0], groups=G)
    with pytest.warns(UserWarning, match="fitted with groups, got none"):
        found, pooled = c.predict_proba(CHUNKED[0]).compute(), c.predict_proba(Z)
    np.testing.assert_array_equal(found, pooled)


def test_groups_by_position_are_not_taken_for_weights():
    with pytest.raises(ValueError, match=r"must be numbers, got '\w+'. Pass groups by name"):
        GroupCalibrator().fit(Z, Y, G)


def rows_of_some(rows):
    return Z[rows], Y[rows], None, G[rows]


def test_a_comparison_judges_the_calibrators_of_the_groups():
    fit, test = slice(None, None, 2), slice(1, None, 2)
    found = compare_calibrators(
        Z[fit],
        Y[fit],
        groups=G[fit],
        test=rows_of_some(test),
        calibrators=[GroupCalibrator(), TemperatureScaling()],
    )
    c = GroupCalibrator().fit(Z[fit], Y[fit], groups=G[fit])
    P = c.predict_proba(Z[test], groups=G[test])
    row = found.names.index("GroupCalibrator")
    assert found.scores["log loss"][row, 0] == pytest.approx(log_loss(Y[test], P), rel=1e-12)
    folds = compare_calibrators(Z, Y, groups=G, cv=2, calibrators=[TemperatureScaling()])
    splits = GroupKFold(2)
    of_groups = compare_calibrators(Z, Y, groups=G, cv=splits, calibrators=[TemperatureScaling()])
    assert not np.array_equal(folds.scores["log loss"], of_groups.scores["log loss"])


@pytest.mark.parametrize("groups", [G, None])
def test_by_default_groups_are_compared_as_well(monkeypatch, groups):
    monkeypatch.setattr("skcalib.selection._compare._every_calibrator", lambda: [PlattScaling()])
    found = compare_calibrators(Z, Y, groups=groups, cv=2)
    assert ("GroupCalibrator" in found.names) == (groups is not None)


def test_a_report_judges_the_calibrators_of_the_groups():
    c = GroupCalibrator().fit(Z[:450], Y[:450], groups=G[:450])
    new, figure = (Z[450:], Y[450:]), Figure((10, 8))
    report = calibration_report(c, *new, groups=G[450:], figure=figure)
    P = c.predict_proba(Z[450:], groups=G[450:])
    np.testing.assert_array_equal(report.rows.after, P)
    assert report.sweep.reference == pytest.approx(log_loss(Y[450:], P), rel=1e-12)
    assert "calibrator.fit(logits, y, groups=groups)" in to_repeat(report)
    assert "logits_test, y_test, groups=groups_test)" in to_repeat(report)
    assert "predict_proba(new_logits, groups=new_groups)" in to_apply(report)
    with pytest.raises(ValueError, match="whose predictions depend on them, got groups and Temper"):
        calibration_report(c.pooled_calibrator_, *new, groups=G[450:])
