"""Raw log-odds at calibrated log-odds: the inverse of maps that are one increasing function."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from skcalib import (
    BetaCalibration,
    HistogramBinning,
    IsotonicCalibration,
    PlattScaling,
    SplineCalibration,
    TemperatureScaling,
)
from skcalib.datasets import make_logits

LOGITS, Y = make_logits(500, 2, temperature=2.0, random_state=0)
ODDS = LOGITS[:, 1:] - LOGITS[:, :1]
SMOOTH = [
    TemperatureScaling(),
    TemperatureScaling(smoothing=0),
    PlattScaling(),
    BetaCalibration(),
    SplineCalibration(increasing=True),
]
STEPS = [IsotonicCalibration(), IsotonicCalibration(interpolation="linear")]
STEPS.append(IsotonicCalibration(interpolation="centered", pseudo_rows=0))


@pytest.mark.parametrize("calibrator", SMOOTH, ids=str)
@pytest.mark.parametrize("scale", [1e-6, 1, 1e6])
def test_smooth_maps_are_inverted_exactly(calibrator, scale):
    calibrator.fit(scale * ODDS, Y)
    calibrated = calibrator.transform(scale * ODDS)
    inner = np.abs(calibrated) < 5
    raw = calibrator.inverse_transform(calibrated)
    np.testing.assert_allclose(raw[inner], scale * ODDS[inner], rtol=1e-6, atol=1e-6 * scale)
    again = calibrator.transform(np.clip(raw, -1e12, 1e12))
    np.testing.assert_allclose(again, calibrated, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("calibrator", [*SMOOTH, *STEPS], ids=str)
def test_inverse_is_the_least_raw_score_that_reaches_the_calibrated_score(calibrator):
    """The same rows are accepted by a threshold before and after calibration."""
    calibrated = calibrator.fit(ODDS, Y).transform(ODDS)
    levels = np.quantile(calibrated, [0, 0.2, 0.5, 0.9, 1])
    steps = np.unique(calibrated) if calibrator is STEPS[0] else []  # others interpolate
    for threshold in [*(levels - 1e-9), *(levels + 1e-9), *steps, -0.3, 1.2, 50, -50]:
        raw = calibrator.inverse_transform([[threshold]])
        assert raw.shape == (1, 1)
        np.testing.assert_array_equal(ODDS >= raw, calibrated >= threshold)
    ends = calibrator.inverse_transform([[-np.inf], [np.inf]])
    assert ends[0] == -np.inf


@pytest.mark.parametrize(
    ("calibrator", "X", "message"),
    [
        (TemperatureScaling(), LOGITS, "TemperatureScaling fitted to 2 columns"),
        (IsotonicCalibration(), LOGITS, "IsotonicCalibration fitted to 2 columns"),
        (SplineCalibration(), ODDS, "SplineCalibration with a map that may fall"),
    ],
)
def test_maps_of_several_columns_and_maps_that_may_fall_have_no_inverse(calibrator, X, message):
    calibrator.fit(X, Y)
    assert not hasattr(calibrator, "inverse_transform")
    with pytest.raises(AttributeError) as error:
        calibrator.inverse_transform(ODDS)
    assert message in str(error.value.__cause__)


def test_reversed_order_has_no_inverse():
    with pytest.warns(UserWarning, match="label 0|order"):
        calibrator = PlattScaling().fit(-ODDS, Y)
    assert not hasattr(calibrator, "inverse_transform")
    assert not hasattr(HistogramBinning(), "inverse_transform")


def test_wrong_input_of_the_inverse_is_named():
    with pytest.raises(NotFittedError):
        TemperatureScaling().inverse_transform(ODDS)
    calibrator = TemperatureScaling().fit(ODDS, Y)
    for wrong in (ODDS[:, 0], LOGITS, [[np.nan]]):
        with pytest.raises(ValueError, match="one column"):
            calibrator.inverse_transform(wrong)
