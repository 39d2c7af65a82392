"""Masked classes, logits far below the others, rows of weight 0, and the ends of the range."""

import numpy as np
import pytest
from families import (
    CALIBRATORS,
    COMPARED,
    FORMS,
    JOINT,
    WITH_FOLDS,
    EstimatorCalibration,
    quick,
    quiet,
    warnings_of,
)
from scipy.optimize import minimize
from scipy.special import expit, log_expit, softmax
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skcalib import (
    BBQ,
    AutoCalibrator as DefaultCalibrator,
    BetaCalibration,
    MatrixScaling,
    OrderPreservingScaling,
    OrdinalCalibration,
    PlattScaling,
    QuadraticScaling,
    TemperatureScaling,
    TemperatureSweepDisplay,
    VectorScaling,
    calibration_report,
    compare_calibrators,
)
from skcalib.datasets import make_logits
from skcalib.experimental import NoisyLabelCalibration

K = 4
Z, Y = make_logits(1200, K, temperature=2.0, offset=[0, 1, 0, -1], random_state=0)
HIDDEN = np.random.default_rng(0).uniform(size=Z.shape) < 0.4
HIDDEN[np.arange(len(Y)), Y] = False
MASKED = np.where(HIDDEN, -np.inf, Z)
TAKING = [kind for kind in CALIBRATORS if kind._takes_masked]
taking = pytest.mark.parametrize("kind", quick(TAKING))
DTYPES = pytest.mark.parametrize("dtype", [np.float64, np.float32])


# --------------------------------------------------------------------------------------
# Masked classes.


@pytest.mark.parametrize("form", quick(f for f in FORMS if type(f) in TAKING), ids=repr)
@DTYPES
def test_a_masked_class_has_probability_zero_and_the_others_sum_to_one(form, dtype):
    X, y, masked = MASKED[:300].astype(dtype), Y[:300], HIDDEN[:300]
    c = quiet(form, X, y)
    P, L, T = c.predict_proba(X), c.predict_log_proba(X), c.transform(X)
    assert P.dtype == L.dtype == T.dtype == dtype
    for hidden in (P == 0, np.isneginf(L), np.isneginf(T)):
        assert np.array_equal(hidden, masked) or (hidden[masked].all() and hidden is not T)
    assert np.isfinite(T[~masked]).all()
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-5)
    assert not masked[np.arange(300), c.predict(X)].any()
    np.testing.assert_allclose(softmax(T, axis=1), P, atol=1e-6)


# For a classifier the column is another feature.
MAPS = [f for f in FORMS if type(f) in TAKING and type(f) is not EstimatorCalibration]


@pytest.mark.parametrize("form", quick(MAPS), ids=repr)
def test_a_class_that_is_masked_in_all_rows_is_not_there(form):
    """A column of -inf, or of a low number, does not change the other probabilities."""
    c = quiet(form, Z, Y)
    for low in (-np.inf, -1e9):
        wide = np.c_[Z, np.full(len(Z), low)]
        other = quiet(form, wide, Y, classes=range(K + 1))
        # The ridge of vector scaling has the number of classes in it, and noise goes to all
        # labels. A sigmoid fitted with rows of the masked class expects a fraction of a row in it.
        # The uniform share also changes the shape of an increasing function. For a classifier
        # the column is another feature.
        atol = 1e-9
        if isinstance(form, (VectorScaling, NoisyLabelCalibration, *WITH_FOLDS)):
            atol = 3e-2 if getattr(form, "alpha", 0) == "loo" else 5e-3
        elif low > -np.inf or isinstance(form, EstimatorCalibration):
            of_mixture = isinstance(form, OrderPreservingScaling | OrdinalCalibration)
            atol = 1e-2 if of_mixture else 2e-3
        np.testing.assert_allclose(other.predict_proba(wide)[:, :K], c.predict_proba(Z), atol=atol)


@taking
@pytest.mark.filterwarnings("ignore:.*of the rows have logits equal:UserWarning")
def test_masked_rows_do_not_count_for_their_class(kind):
    """A map of a class is fitted to the rows that do not mask the class."""
    c = kind().fit(MASKED, Y)
    if kind is TemperatureScaling:
        P, X = softmax(MASKED / c.temperature_, axis=1), np.where(HIDDEN, 0, Z)
        assert abs(np.mean((P * X).sum(axis=1) - X[np.arange(len(Y)), Y])) < 1e-9
        return
    extra = np.full((500, K), -np.inf)  # rows that say nothing of the last class
    extra[:, :3] = Z[:500, :3]
    first = kind().fit(np.r_[MASKED, extra], np.r_[Y, np.arange(500) % 3])
    # These calibrators have no map, or a map of log-odds after a common temperature.
    joint = {VectorScaling, QuadraticScaling, BetaCalibration}
    for name in ("coef_", "bin_values_"):
        if hasattr(c, name) and kind not in joint:
            np.testing.assert_allclose(getattr(first, name)[3], getattr(c, name)[3], rtol=1e-6)


@taking
def test_masked_class_of_two(kind):
    X = Z[:, :2].copy()
    y = Y % 2
    X[::5, 1] = np.where(y[::5] == 0, -np.inf, X[::5, 1])
    P = kind().fit(X, y).predict_proba(X)
    assert np.array_equal(P[:, 1] == 0, np.isneginf(X[:, 1]))
    assert (P[np.isneginf(X[:, 1]), 0] == 1).all()
    if kind in {EstimatorCalibration, NoisyLabelCalibration}:  # which learn from these as well
        return
    kept = np.isfinite(X).all(axis=1)
    alone = kind().fit(X[kept], y[kept])
    atol = 2e-2 if issubclass(kind, DefaultCalibrator) else 3e-3  # folds of other rows
    np.testing.assert_allclose(alone.predict_proba(X[kept]), P[kept], atol=atol)


@pytest.mark.parametrize("calibrator", [MatrixScaling(), make_pipeline(MatrixScaling(), BBQ())])
def test_maps_that_mix_columns_refuse_masked_classes(calibrator):
    with pytest.raises(ValueError, match="Use VectorScaling"):
        calibrator.fit(MASKED, Y)
    calibrator.fit(Z, Y)
    with pytest.raises(ValueError, match="MatrixScaling"):
        calibrator.predict_proba(MASKED)


@taking
def test_the_label_is_never_masked(kind):
    X = MASKED.copy()
    X[7, Y[7]] = -np.inf
    X[7, Y[7] - 1] = 0
    with pytest.raises(ValueError, match="1 of 1200 rows"):
        kind().fit(X, Y)
    w = np.ones(len(Y))
    w[7] = 0  # the row is not there
    kind().fit(X, Y, w)


# --------------------------------------------------------------------------------------
# Logits far below the others, or far above.


@pytest.mark.parametrize("far", [1e4, 1e9, 1e30])
@DTYPES
def test_extreme_low_logits_do_not_determine_the_temperature(far, dtype, recwarn):
    wide = np.c_[Z, np.full(len(Z), -far)].astype(dtype)
    expected = TemperatureScaling().fit(Z.astype(dtype), Y).temperature_
    found = TemperatureScaling(classes=range(K + 1)).fit(wide, Y).temperature_
    assert found == pytest.approx(expected, rel=1e-6)
    some = np.where(HIDDEN, -far, Z).astype(dtype)
    expected = TemperatureScaling().fit(MASKED.astype(dtype), Y).temperature_
    assert TemperatureScaling().fit(some, Y).temperature_ == pytest.approx(expected, rel=1e-6)
    assert not recwarn


@pytest.mark.parametrize("kind", [VectorScaling, MatrixScaling, PlattScaling])
@pytest.mark.parametrize("far", [1e5, 1e30])
@DTYPES
def test_extreme_low_logits_do_not_determine_the_map(kind, far, dtype, recwarn):
    """A column far below the others in all rows, or in some, as masks without -inf have it."""
    half = len(Z) // 2
    for X in (np.c_[Z, np.full(len(Z), -far)], np.where(HIDDEN, -far, Z)):
        params = {"classes": range(X.shape[1])}
        c = kind(**params).fit(X[:half].astype(dtype), Y[:half])
        reference = TemperatureScaling(**params).fit(X[:half], Y[:half])
        of_label = np.arange(half), Y[half:]
        losses = [-np.mean(f.predict_log_proba(X[half:])[of_label]) for f in (c, reference)]
        assert losses[0] < losses[1]
    assert not recwarn


@pytest.mark.parametrize("kind", [VectorScaling, MatrixScaling])
@pytest.mark.parametrize("normalize", [True, False])
@DTYPES
def test_rare_events_and_rows_far_out_do_not_end_the_search(kind, normalize, dtype, recwarn, rng):
    """Undamped Newton steps would increase the gradient here."""
    z = rng.normal(-10, 1, 2000)
    z[-3:] = 300
    y = (np.arange(2000) < 5).astype(int)
    c = kind(normalize=normalize).fit(z[:, None].astype(dtype), y)
    platt = PlattScaling(smooth_targets=False).fit(z[:, None], y)
    s = platt.coef_ * z + platt.intercept_
    best = -np.mean(np.where(y == 1, log_expit(s), log_expit(-s)))
    assert c.loss_ < 0.0200
    assert best < c.loss_ + 1e-9 or kind is MatrixScaling or normalize
    assert not recwarn


# --------------------------------------------------------------------------------------
# Rows of weight 0.


@pytest.mark.parametrize("form", quick(FORMS), ids=repr)
def test_values_in_rows_without_weight_are_ignored(form):
    X, y, w = Z[:300].astype(np.float32), Y[:300], np.ones(300)
    X[:9:3] = [8e37, 0, 0, -8e37]
    X[1:10:3] = [0, -1e36, 0, 1e20]
    w[:10] = 0
    found, kept = quiet(form, X, y, w), quiet(form, X[10:], y[10:])
    np.testing.assert_allclose(
        found.predict_proba(X[10:]), kept.predict_proba(X[10:]), rtol=1e-4, atol=1e-6
    )


# --------------------------------------------------------------------------------------
# The ends of the range.


@pytest.mark.slow
@pytest.mark.parametrize("form", [f for f in FORMS if type(f) in (*JOINT, PlattScaling)], ids=repr)
@pytest.mark.parametrize(
    ("dtype", "scale"),
    [(np.float32, s) for s in (1e-36, 1e-6, 1e6, 8e35)]
    + [(np.float64, s) for s in (1e-98, 1e-60, 1e60, 1e99)],
)
def test_scale_of_the_logits_is_irrelevant(form, dtype, scale):
    """Sums of squares would overflow in single and double precision."""
    X, y = Z[:300], Y[:300]
    if isinstance(form, PlattScaling):  # margins of more than two classes do not scale
        X, y = X[:, :2], y % 2
    plain = quiet(form, X.astype(dtype), y)
    scaled = (X / 10 * scale).astype(dtype)
    np.testing.assert_allclose(
        quiet(form, scaled, y).predict_proba(scaled),
        plain.predict_proba(X.astype(dtype)),
        rtol=2e-3 if dtype == np.float32 else 1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize("kind", quick(CALIBRATORS))
@pytest.mark.parametrize("scale", [1e-98, 1e99])
def test_all_of_the_accepted_range_is_fitted(kind, scale):
    X = Z[:300] / 10 * scale
    with np.errstate(all="raise", under="ignore"):
        c = quiet(kind(), X, Y[:300])
        P = c.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert np.isfinite(c.transform(X)).all()


# --------------------------------------------------------------------------------------
# Weights that are shares of one.


@pytest.mark.parametrize("form", quick(FORMS), ids=repr)
def test_weights_that_sum_to_one_warn(form):
    caught = warnings_of(clone(form).fit, Z, Y, np.full(len(Z), 1 / len(Z)))
    assert any("sum to 1" in str(warning.message) for warning in caught)
    clone(form).fit(Z, Y, np.full(len(Z), 0.1))  # else it warns


# --------------------------------------------------------------------------------------
# Order that is reversed.


def test_a_slope_that_is_negative_by_chance_is_not_told(recwarn, rng):
    for _ in range(20):
        PlattScaling().fit(rng.normal(size=(100, 1)), rng.integers(2, size=100))
    assert not recwarn


# --------------------------------------------------------------------------------------
# Comparisons, reports, sweeps and chunks.


@pytest.mark.slow
def test_masked_classes_are_compared_reported_and_swept():
    with pytest.warns(UserWarning, match="MatrixScaling"):
        found = compare_calibrators(MASKED[:600], Y[:600], cv=3)
    taking = {kind.__name__ for kind in COMPARED if kind._takes_masked}
    assert set(found.names) == taking | {"uncalibrated"}
    for values in found.scores.values():
        assert np.isfinite(values).all()
    calibrator = VectorScaling().fit(MASKED[:600], Y[:600])
    report = calibration_report(calibrator, MASKED[600:], Y[600:])
    assert np.isfinite(report.evaluation.P).all()
    sweep = TemperatureSweepDisplay.from_logits(MASKED, Y)
    best = TemperatureScaling(smoothing=0).fit(MASKED, Y)
    loss = -np.mean(best.predict_log_proba(MASKED)[np.arange(len(Y)), Y])
    assert sweep.log_loss.min() == pytest.approx(loss)


@pytest.mark.slow
@pytest.mark.parametrize("kind", TAKING)
def test_masked_classes_in_chunks(kind):
    da = pytest.importorskip("dask.array")
    X, y = da.from_array(MASKED, chunks=(500, -1)), da.from_array(Y, chunks=500)
    c = kind().fit(X, y)
    np.testing.assert_allclose(
        c.predict_proba(X).compute(), kind().fit(MASKED, Y).predict_proba(MASKED), atol=1e-4
    )
    w = da.from_array((np.arange(len(Y)) % 500 > 0) * 1.0, chunks=500)  # and one row is absent
    spoiled = MASKED.copy()
    spoiled[::500] = [1e99, 0, 0, -1e99]
    found = kind().fit(da.from_array(spoiled, chunks=(500, -1)), y, w)
    kept = kind().fit(MASKED[np.arange(len(Y)) % 500 > 0], Y[np.arange(len(Y)) % 500 > 0])
    np.testing.assert_allclose(found.predict_proba(MASKED), kept.predict_proba(MASKED), atol=1e-4)


# --------------------------------------------------------------------------------------
# Margins that are bunched, or apart.


def literal_platt(m, y):
    """Slope and offset by a general search for the minimum of Platt's loss."""
    n1, n0 = np.sum(y == 1), np.sum(y == 0)
    target = np.where(y == 1, (n1 + 1) / (n1 + 2), 1 / (n0 + 2))

    def loss(theta):
        s = theta[0] * m + theta[1]
        return -np.mean(target * log_expit(s) + (1 - target) * log_expit(-s))

    return minimize(loss, [0.5, 0.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-15})


@pytest.mark.parametrize("spread", [0.0, 1e-12, 1e-6, 1e-3, 1e-2])
@DTYPES
def test_bunched_margins(spread, dtype, rng):
    """Naive Bayes gives bunched, clipped margins; rows far from the bunch are not masked."""
    bunch = rng.uniform(size=2000) < 0.6
    m = np.where(bunch, 2.6 + spread * rng.normal(size=2000), rng.normal(0, 3, 2000)).astype(dtype)
    y = (rng.uniform(size=2000) < expit(0.7 * m)).astype(int)
    c = PlattScaling().fit(m[:, None], y)
    best = literal_platt(m.astype(float), y).x
    np.testing.assert_allclose([c.coef_[0], c.intercept_[0]], best, atol=1e-4)


@pytest.mark.parametrize("n_events", [5, 50])
def test_classes_far_apart_are_both_there(n_events, rng):
    m = np.r_[rng.normal(0, 1, 100), rng.normal(3000, 1, n_events)]
    c = PlattScaling().fit(m[:, None], (np.arange(100 + n_events) >= 100).astype(int))
    P = c.predict_proba([[0.0], [3000.0]])[:, 1]
    assert P[0] == pytest.approx(1 / 102, rel=0.01)
    assert P[1] == pytest.approx((n_events + 1) / (n_events + 2), rel=0.01)


def test_a_masked_class_may_have_a_negative_slope(rng):
    """However little probability that would give it if its mask were a small number."""
    F = 2 * rng.normal(size=(4000, 3))
    S, masked = F * [1, 1, -0.7], rng.uniform(size=4000) < 0.5
    S[masked, 2] = F[masked, 2] = -np.inf
    u = rng.uniform(size=(4000, 1))
    y = (softmax(S, axis=1).cumsum(axis=1) < u).sum(axis=1)
    c = VectorScaling().fit(F, y)
    assert c.coef_[2] / c.temperature_ < -0.3
    held = VectorScaling().fit(np.where(masked[:, None] & [False, False, True], -1e9, F), y)
    assert c.loss_ < held.loss_ - 0.02  # a number that a negative slope would make certain


def test_masks_of_rows_without_weight_are_ignored():
    X, w = Z[:300].copy(), np.ones(300)
    X[3, Y[3] - 1], w[3] = -np.inf, 0
    MatrixScaling().fit(X, Y[:300], w)
    with pytest.warns(UserWarning, match="masked"):
        found = compare_calibrators(Z[:300], Y[:300], test=(MASKED[300:500], Y[300:500]))
    assert "MatrixScaling" not in found.names
