"""Laws of differences: all are the second minus the first, after minus before."""

import inspect

import numpy as np
import pytest
from public import LABELS, LOGITS, PROBABILITIES, REGISTRY, N

import skcalib


def _others(call):
    """Names of the parameters of the second model, with the names of the first."""
    names = [name for name in call.parameters if name.startswith("other_")]
    return {name: "y_proba" if name == "other_proba" else name[6:] for name in names}


PAIRED = [pytest.param(call, id=name) for name, call in REGISTRY.items() if _others(call)]
WEAK, STRONG = PROBABILITIES[:, 1] / 100, 0.2 + PROBABILITIES[:, 1] / 2
VALUES = {  # arguments of a small and of a large model
    "y_proba": (WEAK, STRONG),
    "y": (np.arange(N) % 5 == 0, np.arange(N) % 5 > 0),
    "score_labelled": (WEAK, STRONG),
    "score_all": (np.tile(WEAK, 2), np.tile(STRONG, 2)),
}
EXTRA = {"metrics.calibration_difference": {"measure": lambda y, p: float(np.mean(p))}}


def test_each_function_of_two_models_is_found():
    assert {"metrics.calibration_difference", "judge.calibrated_mean_difference"} <= {
        call.id for call in PAIRED
    }
    assert {name for name in REGISTRY if name.endswith("_difference")} <= {
        call.id for call in PAIRED
    }


@pytest.mark.parametrize("call", PAIRED)
def test_a_function_of_two_models_returns_the_second_minus_the_first(call):
    names, extra = _others(call), EXTRA.get(call.name, {})
    small = {first: VALUES[first][0] for first in names.values()}
    large = {other: VALUES[first][1] for other, first in names.items()}
    rises = call(**small, **large, **extra)
    falls = call(
        **{first: VALUES[first][1] for first in names.values()},
        **{other: VALUES[first][0] for other, first in names.items()},
        **extra,
    )
    assert 0 < rises.low < rises.estimate < rises.high
    ends = falls.low, falls.estimate, falls.high
    assert ends == pytest.approx((-rises.high, -rises.estimate, -rises.low))


@pytest.mark.parametrize("call", PAIRED)
def test_docstrings_say_what_is_subtracted(call):
    text = inspect.getdoc(call.function).split("Returns\n-------")[1]
    assert "of the second model minus the measure of the first" in text or (
        "the second mean minus the first" in text
    )


@pytest.mark.slow
@pytest.mark.usefixtures("few_resamples")
def test_a_report_has_values_after_minus_before():
    calibrator = skcalib.TemperatureScaling().fit(LOGITS, LABELS)
    report = skcalib.calibration_report(calibrator, LOGITS, LABELS, figure=None, random_state=0)
    for before, after, difference in report.measures_.values():
        assert difference.estimate == pytest.approx(after.estimate - before.estimate, abs=1e-12)


def test_a_comparison_has_the_calibrator_minus_the_reference():
    found = skcalib.compare_calibrators(
        LOGITS, LABELS, calibrators={"temperature": skcalib.TemperatureScaling()}, cv=2
    )
    table = found.to_frame()
    for title in found.scores:
        mean = table[title, "mean"]
        if (title, "difference") in table:
            expected = mean - mean[found.reference]
            np.testing.assert_allclose(table[title, "difference"], expected, atol=1e-12)
