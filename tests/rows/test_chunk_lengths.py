"""Chunks of rows of any length: none, one, known beforehand or not."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from families import CALIBRATORS, quick

from skcalib import PlattScaling, TemperatureScaling, metrics
from skcalib.datasets import make_logits

LENGTHS = [(0, 60, 0, 0, 1, 39, 0), (100,), (0, 100), (50, 50)]


@pytest.fixture(autouse=True)
def _in_this_process():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("method", ["transform", "predict_proba", "predict_log_proba", "predict"])
def test_outputs_have_the_chunks_of_the_input(method, lengths):
    Z, y = make_logits(100, 3, random_state=0)
    calibrator = TemperatureScaling().fit(Z, y)
    found = getattr(calibrator, method)(da.from_array(Z, chunks=(lengths, 3)))
    expected = getattr(calibrator, method)(Z)
    assert found.chunks == (lengths, *((n,) for n in expected.shape[1:]))
    assert found.dtype == expected.dtype
    blocks = [np.asarray(block) for block in dask.compute(*np.ravel(found.to_delayed()))]
    assert tuple(map(len, blocks)) == lengths
    np.testing.assert_array_equal(np.concatenate(blocks), expected)


@pytest.mark.parametrize("method", ["transform", "predict_proba", "predict"])
def test_partitions_without_rows_have_none_afterwards(method):
    Z, y = make_logits(100, 3, random_state=0)
    frame = pd.DataFrame(Z, columns=list("abc"))
    calibrator = TemperatureScaling().fit(frame, y)
    largest = Z[:20, 0].max()  # of the first partition, of which nothing is left
    kept = frame[frame["a"] > largest]
    lazy = dd.from_pandas(frame, npartitions=5)
    found = getattr(calibrator, method)(lazy[lazy["a"] > largest])
    blocks = [np.asarray(block) for block in dask.compute(*np.ravel(found.to_delayed()))]
    assert len(blocks[0]) == 0
    np.testing.assert_array_equal(np.concatenate(blocks), getattr(calibrator, method)(kept))


@pytest.mark.parametrize("kind", quick(CALIBRATORS))
@pytest.mark.parametrize("lengths", LENGTHS[:1], ids=str)
def test_fits_to_chunks_of_any_length(kind, lengths):
    Z, y = make_logits(100, 3, random_state=0)
    w = np.arange(100) % 3.0
    rows = [da.from_array(Z, chunks=(lengths, 3))]
    rows += [da.from_array(column, chunks=(lengths,)) for column in (y, w)]
    far, here = kind().fit(*rows), kind().fit(Z, y, w)
    np.testing.assert_allclose(far.predict_proba(Z), here.predict_proba(Z), rtol=1e-3, atol=1e-4)
    error = metrics.expected_calibration_error(rows[1], here.predict_proba(rows[0]))
    expected = metrics.expected_calibration_error(y, here.predict_proba(Z))
    assert error == pytest.approx(expected)


@pytest.mark.parametrize("unknown", ["X", "y", "w"])
def test_chunks_of_which_some_lengths_are_known(unknown):
    """What is not known beforehand is taken to fit, and looked at when it is computed."""
    Z, y = make_logits(100, 2, random_state=0)
    w = np.arange(100) % 3.0
    frame = pd.DataFrame({"a": Z[:, 0], "b": Z[:, 1], "y": y, "w": w})
    frame = dd.from_pandas(frame, npartitions=4, sort=False)
    rows = {
        "X": da.from_array(Z, chunks=(25, 2)),
        "y": da.from_array(y, chunks=25),
        "w": da.from_array(w, chunks=25),
    }
    rows[unknown] = frame[["a", "b"]] if unknown == "X" else frame[unknown]
    far = PlattScaling().fit(rows["X"], rows["y"], rows["w"])
    here = PlattScaling().fit(Z, y, w)
    np.testing.assert_allclose(far.coef_, here.coef_, rtol=1e-9)
