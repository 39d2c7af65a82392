"""The registry of public functions: every one can be called by the laws."""

import warnings

import pytest
from public import REGISTRY, calls, doors

# Results, which functions return and users do not construct.
RESULTS = {
    name
    for name in REGISTRY
    if "." not in name and name.endswith(("Curve", "Result", "Display", "Comparison"))
} | {
    name
    for name in REGISTRY
    if name.split(".")[0]
    in (
        "CalibratedMean", "CalibrationDifference", "IntervalEstimate", "OptimismCorrection",
        "ScoreDecomposition", "SelectiveThreshold",
    )
}  # fmt: skip


@pytest.mark.parametrize("call", calls(skip=dict.fromkeys(RESULTS, "results")))
def test_every_public_function_can_be_called_with_the_example(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except ImportError as error:
            pytest.skip(str(error))  # an optional library


@pytest.mark.parametrize("door", doors())
def test_every_measure_can_be_called_with_labels_and_probabilities(door):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        door()


def test_a_stale_exception_is_an_error():
    with pytest.raises(ValueError, match="no public functions"):
        calls("y_true", skip={"PlattScaling.fit": "has no y_true"})
