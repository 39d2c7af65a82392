"""Laws of weights: whole numbers count as copies, zeros as absent rows, in any kind of array."""

import numpy as np
import pandas as pd
import pytest
from public import LABELS, LOGITS, PROBABILITIES, N, calls, numbers

WEIGHTS = np.random.default_rng(0).integers(1, 4, N).astype(float)
KINDS = {
    "nullable Series": lambda w: pd.Series(w.astype(int), np.arange(N)[::-1], dtype="Int64"),
    "integers": lambda w: w.astype(np.uint8),
    "float32": lambda w: w.astype(np.float32),
    "list": lambda w: w.tolist(),
}
QUICK, SLOW = ["nullable Series"], ["integers", "float32", "list"]
ROWS = {
    "y_true": LABELS,
    "y_proba": PROBABILITIES,
    "other_proba": PROBABILITIES[:, ::-1],
    "X": LOGITS,
    "y": LABELS,
    "features": np.linspace(-1, 1, N)[:, None],
}
# Folds, and reports, are not functions of the rows alone.
OTHER = {
    "CalibratedClassifier.fit": "folds of all rows",
    "ConditionalCalibrator.fit_transform": "has the rows",
    "ConditionalCalibrator.score": "features only if there were some in fit",
    "judge.calibrated_mean": "weights of all rows as well",
    "judge.calibrated_mean_difference": "weights of all rows as well",
    "MultiLabelCalibrator.fit": "several labels",
    "MultiLabelCalibrator.score": "several labels",
    "comparison.compare_calibrators": "has times",
    "report.calibration_report": "has the rows",
    "clinical.optimism_corrected": "draws rows",
}

WEIGHTED = calls("sample_weight", skip=OTHER)


def values(call, rows, w):
    given = {name: a[rows] for name, a in ROWS.items() if name in call.parameters}
    return numbers(call(sample_weight=w, **given))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kinds", [QUICK, pytest.param(SLOW, marks=pytest.mark.slow)], ids=" ".join)
@pytest.mark.parametrize("call", WEIGHTED)
def test_weights_of_any_kind(call, kinds):
    rows = np.arange(N)
    wanted = values(call, rows, WEIGHTS)
    for kind in kinds:
        found = values(call, rows, KINDS[kind](WEIGHTS))
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-7, err_msg=kind)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", WEIGHTED)
def test_a_weight_of_zero_is_the_row_absent(call):
    w = WEIGHTS.copy()
    w[::5] = 0
    found, wanted = values(call, np.arange(N), w), values(call, w > 0, w[w > 0])
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-7)
