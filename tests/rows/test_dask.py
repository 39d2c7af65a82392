"""Dask: the same answers from chunks of rows, lazily, and only sums on the way."""

from functools import cache, partial
from inspect import signature

import dask
import dask.array as da
import dask.dataframe as dd
import families
import numpy as np
import pandas as pd
import pytest
from families import rows_of
from numpy.testing import assert_allclose
from public import numbers
from sklearn.base import clone

import skcalib
from skcalib import (
    BBQ,
    HistogramBinning,
    IsotonicCalibration,
    PlattScaling,
    TemperatureScaling,
    VectorScaling,
    VennAbersCalibration,
    metrics,
)
from skcalib.datasets import make_logits
from skcalib.experimental import TopLabelCalibration

N, CHUNK = 3000, 700
# Fits by gradient tolerance get a tiny tolerance here, so that results are exact.
EXACT = [
    *(families.with_known(kind, tol=1e-11) for kind in families.CALIBRATORS),
    VectorScaling(tol=1e-11, alpha=0, fit_intercept=False),
    VectorScaling(tol=1e-11, alpha=0, normalize=False),
    PlattScaling(smooth_targets=False),
    HistogramBinning(n_bins=70, pseudo_rows=1.0),
    HistogramBinning(strategy="quantile"),
    IsotonicCalibration(interpolation="linear", pseudo_rows=0),
    IsotonicCalibration(interpolation="centered"),
    VennAbersCalibration(multi_class="ovo"),
]


@pytest.fixture(autouse=True)
def _in_this_process():
    with dask.config.set(scheduler="synchronous"):
        yield


def problem(n_classes, *, weighted=False, n=N, dtype=float, random_state=0):
    """Logits, labels and weights, in memory."""
    K = max(n_classes, 2)
    Z, y = make_logits(n, K, temperature=2.0, offset=np.arange(K) / K, random_state=random_state)
    Z = Z[:, 1:] - Z[:, :1] if n_classes == 1 else Z
    w = np.random.default_rng(1).integers(0, 4, n).astype(float) if weighted else None
    return Z.astype(dtype), y, w


@cache
def three():
    """Logits and labels of three classes in memory, and with Dask."""
    Z, y, _ = problem(3)
    return Z, y, *chunked(Z, y)


def chunked(*arrays, chunk=CHUNK):
    """The same with Dask."""
    return tuple(
        None if a is None else da.from_array(a, chunks=(chunk, *a.shape[1:])) for a in arrays
    )


def fitted_numbers(calibrator):
    """All fitted numbers as one array."""
    state = families.fitted_state(calibrator)
    names = [name for name in sorted(state) if not name.endswith(NO_ESTIMATES)]
    values = [state[name] for name in names]
    flat = [np.ravel(a) for v in values for a in (v if isinstance(v, list) else [v])]
    return np.concatenate([[], *flat])


# Attributes that describe the course of a fit.
NO_ESTIMATES = ("classes_", "n_features_in_", "feature_names_in_", "loss_", "losses_", "n_iter_")
NO_ESTIMATES += ("information_",)


@pytest.mark.slow
@pytest.mark.parametrize(("n_classes", "weighted"), [(1, False), (4, True)])
@pytest.mark.parametrize("form", EXACT, ids=repr)
def test_parameters_are_those_in_memory(form, n_classes, weighted):
    Z, y, w = problem(n_classes, weighted=weighted)
    here = type(form)(**form.get_params()).fit(Z, y, w)
    far = type(form)(**form.get_params()).fit(*chunked(Z, y, w))
    np.testing.assert_allclose(fitted_numbers(far), fitted_numbers(here), rtol=1e-9, atol=1e-9)
    if hasattr(here, "information_"):
        scale = np.abs(here.information_).max()
        np.testing.assert_allclose(far.information_, here.information_, atol=1e-4 * scale)
    assert far.n_features_in_ == here.n_features_in_
    assert np.array_equal(far.classes_, here.classes_)


@pytest.mark.parametrize("kind", families.quick(families.CALIBRATORS))
def test_single_precision_stays_so(kind):
    Z, y, _ = problem(3, dtype=np.float32)
    X, Y = chunked(Z, y)
    here, far = kind().fit(Z, y), kind().fit(X, Y)
    np.testing.assert_allclose(fitted_numbers(far), fitted_numbers(here), rtol=2e-3, atol=2e-3)
    lazy = far.predict_proba(X)
    assert lazy.dtype == lazy.compute().dtype == np.float32


# --------------------------------------------------------------------------------------
# Outputs.


@pytest.mark.parametrize("kind", families.quick(families.CALIBRATORS))
def test_outputs_are_lazy_and_have_the_chunks_of_the_input(kind):
    Z, y, _ = problem(4, n=400)
    names = np.array(["ant", "bee", "cat", "dog"])
    calibrator = kind(**families.order_of(kind, names)).fit(Z, names[y])
    for lengths in [(150, 150, 100), *(LENGTHS if kind is TemperatureScaling else [])]:
        rows = Z[: sum(lengths)]
        (X,) = chunked(rows, chunk=lengths)
        for name in ("predict_proba", "predict_log_proba", "transform", "predict"):
            with dask.config.set(scheduler=families.refuse):
                lazy = getattr(calibrator, name)(X)
            here = getattr(calibrator, name)(rows)
            assert lazy.chunks == (lengths, *((n,) for n in here.shape[1:]))
            assert lazy.dtype == here.dtype
            blocks = [np.asarray(block) for block in dask.compute(*np.ravel(lazy.to_delayed()))]
            assert tuple(map(len, blocks)) == lengths
            np.testing.assert_array_equal(np.concatenate(blocks), here)


def frames(n=400, n_classes=3, npartitions=4):
    Z, y, w = problem(n_classes, n=n, weighted=True)
    names = [f"z{k}" for k in range(n_classes)]
    frame = pd.DataFrame(Z, columns=names)
    frame = frame.assign(y=np.array(["ant", "bee", "cat"])[y], w=w)
    return frame, dd.from_pandas(frame, npartitions=npartitions), names


def test_a_later_fit_does_not_change_lazy_outputs():
    Z, y, X, _ = three()
    calibrator = TemperatureScaling().fit(Z, y)
    expected, lazy = calibrator.predict_proba(Z), calibrator.predict_proba(X)
    calibrator.fit(3 * Z, y)
    np.testing.assert_allclose(lazy.compute(), expected)


def test_the_accuracy_matches_rows_in_memory():
    Z, y, w = problem(3, n=300, weighted=True)
    X, labels, weights = chunked(Z, y, w, chunk=100)
    calibrator = TemperatureScaling().fit(X, labels)
    assert calibrator.score(X, labels) == calibrator.score(Z, y) == (Z.argmax(axis=1) == y).mean()
    assert calibrator.score(X, labels, weights) == calibrator.score(Z, y, w)
    frame = dd.from_pandas(pd.DataFrame(Z).assign(y=y), npartitions=3)
    assert calibrator.score(frame[[0, 1, 2]], frame["y"]) == calibrator.score(Z, y)


@pytest.mark.slow
def test_parquet_files_read_by_columns(tmp_path):
    """Dask reads the labels of several files in one part, and the logits in others."""
    frame, _, names = frames()
    for k in range(4):
        frame[100 * k : 100 * (k + 1)].to_parquet(tmp_path / f"{k}.parquet")
    lazy = dd.read_parquet(tmp_path)
    assert len(lazy["y"].to_delayed()) < lazy.npartitions
    far = PlattScaling().fit(lazy[names], lazy["y"], lazy["w"])
    here = PlattScaling().fit(frame[names], frame["y"], frame["w"])
    assert_allclose(far.coef_, here.coef_, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("kind", families.REPRESENTATIVES)
def test_data_frames(kind):
    frame, lazy, names = frames()
    here = kind().fit(frame[names], frame["y"], frame["w"])
    far = kind().fit(lazy[names], lazy["y"], lazy["w"])
    assert far.feature_names_in_.tolist() == names
    for name in ("predict_proba", "transform", "predict"):
        with dask.config.set(scheduler=families.refuse):
            output = getattr(far, name)(lazy[names])
        np.testing.assert_array_equal(output.compute(), getattr(far, name)(frame[names]))
    np.testing.assert_allclose(
        far.predict_proba(frame[names]), here.predict_proba(frame[names]), atol=1e-4
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("of_logits", "of_labels"),
    [("Float64", "boolean"), ("Float32", "Int64"), ("Int64", "Int64"), 2 * ("int64[pyarrow]",)],
)
def test_nullable_columns(of_logits, of_labels):
    """Dask's example of such a column holds a missing value."""
    if "pyarrow" in of_logits + of_labels:
        pytest.importorskip("pyarrow")
    Z, y, _ = problem(2, n=400)
    frame = pd.DataFrame(np.round(4 * Z), columns=["no", "yes"]).astype(of_logits)
    frame = frame.assign(y=pd.Series(y).astype(of_labels), w=pd.Series(1.5, range(400), "Float64"))
    lazy, names = dd.from_pandas(frame, npartitions=3), ["no", "yes"]
    here = PlattScaling().fit(frame[names], frame["y"], frame["w"])
    far = PlattScaling().fit(lazy[names], lazy["y"], lazy["w"])
    np.testing.assert_allclose(far.coef_, here.coef_, rtol=1e-6)
    assert np.array_equal(far.classes_, here.classes_)
    for name in ("predict_proba", "predict_log_proba", "transform", "predict"):
        with dask.config.set(scheduler=families.refuse):
            output = getattr(far, name)(lazy[names])
        expected = getattr(far, name)(frame[names])
        assert output.dtype == expected.dtype
        np.testing.assert_array_equal(output.compute(), expected)
    error = metrics.expected_calibration_error(lazy["y"], far.predict_proba(lazy[names]))
    expected = metrics.expected_calibration_error(frame["y"], far.predict_proba(frame[names]))
    assert error == pytest.approx(expected)


# --------------------------------------------------------------------------------------
# Chunks of rows of any length: none, one, known beforehand or not.

LENGTHS = [(0, 60, 0, 0, 1, 39, 0), (100,), (0, 100), (50, 50)]


@pytest.mark.parametrize("kind", families.quick(families.CALIBRATORS))
def test_fits_to_chunks_of_any_length(kind):
    Z, y = make_logits(100, 3, random_state=0)
    w = np.arange(100) % 3.0
    rows = chunked(Z, y, w, chunk=LENGTHS[0])
    far, here = kind().fit(*rows), kind().fit(Z, y, w)
    np.testing.assert_allclose(far.predict_proba(Z), here.predict_proba(Z), rtol=1e-3, atol=1e-4)
    error = metrics.expected_calibration_error(rows[1], here.predict_proba(rows[0]))
    expected = metrics.expected_calibration_error(y, here.predict_proba(Z))
    assert error == pytest.approx(expected)


@pytest.mark.parametrize("unknown", ["X", "y", "w"])
def test_chunks_of_unknown_length_can_be_mixed_with_known_lengths(unknown):
    """Unknown chunk lengths are assumed to match and checked during the computation."""
    Z, y = make_logits(100, 2, random_state=0)
    w = np.arange(100) % 3.0
    frame = pd.DataFrame(Z, columns=["a", "b"]).assign(y=y, w=w)
    frame = dd.from_pandas(frame, npartitions=4, sort=False)
    rows = dict(zip("Xyw", chunked(Z, y, w, chunk=25), strict=True))
    rows[unknown] = frame[["a", "b"]] if unknown == "X" else frame[unknown]
    far, here = PlattScaling().fit(*rows.values()), PlattScaling().fit(Z, y, w)
    np.testing.assert_allclose(far.coef_, here.coef_, rtol=1e-9)


# --------------------------------------------------------------------------------------
# Measures.

# Sums over chunks. The averaged two-bin error sorts rows in memory.
MEASURES = [
    getattr(metrics, name)
    for name in metrics.__all__
    if name.endswith("_error") and not name.startswith("averaged")
]
PARTS = partial(metrics.score_decomposition, score="ranked_probability_score")


def forms_of(measure):
    """Arguments of the measure: kinds of probabilities, bins and strategies."""
    if measure is PARTS:
        return [{}]
    forms = [{"kind": kind} for kind in ("top-label", "classwise", "binary")]
    if "n_bins" in signature(measure).parameters:
        forms += [{"kind": "classwise", "n_bins": 80}, {"strategy": "quantile"}]
    return forms


@pytest.mark.parametrize(
    "measure", [*MEASURES, metrics.reliability_curve, metrics.score_decomposition, PARTS]
)
def test_measures_of_chunks_equal_measures_in_memory(measure):
    for form in forms_of(measure):
        Z, y, w = problem(2 if form.get("kind") == "binary" else 4, weighted=True)
        P = TemperatureScaling().fit(Z, y).predict_proba(Z)
        Y, Q, W = chunked(y, P, w)
        far, here = (
            measure(*rows[:2], sample_weight=rows[2], **form) for rows in ((Y, Q, W), (y, P, w))
        )
        assert_allclose(numbers(far), numbers(here), rtol=1e-6, err_msg=str(form))


# --------------------------------------------------------------------------------------
# Fits that need ranks or folds take a random sample of a million rows.


@cache
def many():
    """Logits, labels and weights of 1.2 million rows. The last class has 300 of them."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=1_200_000)
    y[::4000] = 2
    Z = rng.normal(size=(len(y), 3)).astype(np.float32)
    Z[np.arange(len(y)), y] += 1
    return Z, y, rng.integers(1, 4, len(y)).astype(float)


def test_samples_keep_rare_classes_and_the_shares_of_the_classes():
    Z, y, w = many()
    sample, again = (rows_of(*chunked(Z, y, w, chunk=300_000)).in_memory() for _ in range(2))
    assert 990_000 < sample.n_rows < 1_010_000
    assert np.count_nonzero(sample.y == 2) == 300
    of_classes = (np.bincount(labels, v) for labels, v in ((sample.y, sample.w), (y, w)))
    assert_allclose(*of_classes, rtol=0.01)
    np.testing.assert_array_equal(sample.X, again.X)


def test_a_sample_without_rare_classes_has_the_weights_of_its_rows():
    Z, y, w = many()
    two = Z[:, :2], np.minimum(y, 1)
    assert rows_of(*chunked(*two, chunk=300_000)).in_memory().w is None
    assert set(rows_of(*chunked(*two, w, chunk=300_000)).in_memory().w) == {1, 2, 3}


@pytest.mark.slow
@pytest.mark.parametrize("form", [IsotonicCalibration(), TopLabelCalibration()], ids=repr)
def test_fits_to_a_sample_are_near_fits_to_all_rows(form):
    Z, y, w = many()
    here, far = clone(form).fit(Z, y, w), clone(form).fit(*chunked(Z, y, w, chunk=300_000))
    off = far.predict_proba(Z[:9000]) - here.predict_proba(Z[:9000])
    assert 0 < np.abs(off).mean() < 0.01


# --------------------------------------------------------------------------------------
# Bad input.


def spoiled(block, block_id=(0, 0)):
    block = block.copy()
    if block_id[0] in {2, 3}:
        block[5, 1] = np.nan
    return block


def damaged(block, block_id=(0, 0)):
    if block_id[0] == 1:
        raise OSError("file is damaged")
    return block


@cache
def bad_fits():
    Z, y, X, Y = three()
    _, lazy, names = frames()
    rows = lazy.assign(i=lazy.index)
    like = {"dtype": X.dtype, "meta": np.empty((0, 3))}
    later, fewer = rows[names][rows["i"] >= 100], rows["y"][rows["i"] < 300]
    far = lazy[names].mask(lazy["z0"] > 3)
    late = da.arange(N, chunks=CHUNK) >= CHUNK
    return {
        "chunks along the classes": (X.rechunk((CHUNK, 2)), Y, None, "rechunk"),
        "chunks of other lengths": (X, Y.rechunk(CHUNK // 2), None, "rechunk"),
        "other unknown chunks": (X[Y < 5], Y[:CHUNK], None, "5 and 1 chunks"),
        "rows that do not match": (X[Y < 2], Y[Y < 3], None, r"X\.blocks\[\d\]"),
        "no rows beside labels": (later, rows["y"], None, r"X\.partitions\[0\]"),
        "labels without rows": (rows[names], fewer, rows["w"], r"X\.partitions\[3\]"),
        "labels in memory": (X, y, None, "y of type ndarray"),
        "logits in memory": (Z, Y, None, "X of type ndarray"),
        "weights in memory": (X, Y, np.ones(N), "sample_weight of type ndarray"),
        "a delayed object": (X, dask.delayed([1]), None, "Dask array"),
        "NaN": (X.map_blocks(spoiled, **like), Y, None, r"X\.blocks\[[23]\]: .*NaN"),
        "NaN in a frame": (far, lazy["y"], None, r"X\.partitions\[\d\]: .*NaN"),
        "one dimension": (X[:, 0], Y, None, "3 classes"),
        "no rows": (X[:0], Y[:0], None, "rows"),
        "one class": (X, Y * 0, None, "two classes"),
        "continuous": (X, Y + 0.5, None, "continuous"),
        "negative weights": (X, Y, -Y, r"X\.blocks\[\d\].*negative"),
        "no weights": (X, Y, 0 * Y, "all zero"),
        "no weights after a chunk without rows": (X[late], Y[late], 0 * Y[late], "all zero"),
        "weights of two dimensions": (X, Y, X, "one entry per row"),
    }


@pytest.mark.parametrize("kind", [TemperatureScaling, BBQ])
def test_bad_input_is_refused_in_a_sentence(kind):
    for case, (X, y, w, message) in bad_fits().items():
        calibrator = kind()
        with families.of_case(case), pytest.raises(ValueError, match=message) as refusal:
            calibrator.fit(X, y, w)
        assert str(refusal.value).endswith(".")
        assert vars(calibrator) == kind().get_params()


def test_a_chunk_that_cannot_be_made_is_reported():
    _, _, X, Y = three()
    X = X.map_blocks(damaged, dtype=X.dtype, meta=np.empty((0, 3)))
    with pytest.raises(RuntimeError, match="file is damaged"):
        TemperatureScaling().fit(X, Y)


def test_bad_rows_of_a_prediction_are_named():
    Z, y, X, _ = three()
    calibrator = TemperatureScaling().fit(Z, y)
    lazy = calibrator.predict_proba(X.map_blocks(spoiled, dtype=X.dtype, meta=np.empty((0, 3))))
    with pytest.raises(ValueError, match=r"X\.blocks\[[23]\]: .*NaN"):
        lazy.compute()
    frame, lazy, names = frames()
    calibrator.fit(lazy[names], lazy["y"])
    with pytest.raises(ValueError, match=r"X\.partitions\[\d\]: .*NaN"):
        calibrator.predict(lazy[names].mask(lazy["z0"] > 3)).compute()
    frame = frame[names].astype("Float64")
    frame.loc[150, "z1"] = pd.NA
    with pytest.raises(ValueError, match=r"X\.partitions\[1\]: .*NaN"):
        calibrator.predict_proba(dd.from_pandas(frame, npartitions=4)).compute()


def test_bad_shapes_of_a_prediction_are_refused_at_once():
    Z, y, X, _ = three()
    calibrator = TemperatureScaling().fit(Z, y)
    with pytest.raises(ValueError, match="2 features"):
        calibrator.predict_proba(X[:, :2])
    with pytest.raises(ValueError, match="chunks"):
        calibrator.predict_proba(X.rechunk((CHUNK, 2)))
    with pytest.raises(ValueError, match="two dimensions"):
        calibrator.predict_proba(X[X[:, 0] > 0][:, 0])  # of unknown length
    frame, lazy, names = frames()
    calibrator.fit(frame[names], frame["y"])
    with pytest.raises(ValueError, match="feature names"):
        calibrator.predict_proba(lazy[names[::-1]])


def test_functions_that_need_rows_in_memory_refuse_dask():
    Z, y, X, Y = three()
    calibrator = TemperatureScaling().fit(Z, y)
    Q = calibrator.predict_proba(X)
    for function in (
        metrics.calibration_error_interval,
        metrics.calibration_test,
        skcalib.ReliabilityDisplay.from_predictions,
        skcalib.ConfidenceDisplay.from_predictions,
    ):
        with pytest.raises(ValueError, match="in memory"):
            function(Y, Q)
    for function in (skcalib.calibration_report, skcalib.TemperatureSweepDisplay.from_estimator):
        for labels in (y, Y):
            with pytest.raises(ValueError, match="in memory"):
                function(calibrator, X, labels)
    skcalib.ReliabilityDisplay(metrics.reliability_curve(Y, Q)).plot()


def test_bad_probabilities_are_named():
    _, y, X, Y = three()
    with pytest.raises(ValueError, match=r"y_proba\.blocks\[\d\]"):
        metrics.expected_calibration_error(Y, X)
    with pytest.raises(ValueError, match="y_true of type ndarray"):
        metrics.expected_calibration_error(y, X)


def test_probabilities_in_dask_chunks_warn():
    Z, y, _, Y = three()
    P = TemperatureScaling().fit(Z, y).predict_proba(Z)
    with pytest.warns(UserWarning, match="probabilities"):
        TemperatureScaling().fit(*chunked(P), Y)
    P[-1] = [3, -1, 2]  # no probabilities: one row in the last chunk says so
    TemperatureScaling().fit(*chunked(P), Y)
