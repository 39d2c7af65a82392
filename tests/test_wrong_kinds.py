"""Law of wrong kinds of input: one sentence names the kind, in every argument of rows."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from public import LABELS, LOGITS, REGISTRY, N

from skcalib import AutoCalibrator

NO_ROWS = {
    "dict": {"a": [0.0] * N, "b": [1.0] * N},
    "set": {0.25, 0.75},
    "generator": (row for row in LOGITS),
    "type": float,
    "structured": np.array([(0.25, 0.75)] * N, dtype=[("a", float), ("b", float)]),
    "no columns": pd.DataFrame(index=range(N)),
    "times": pd.DataFrame({"a": [0.25] * N, "b": [pd.Timestamp("2024-01-01", tz="UTC")] * N}),
    "equal names": pd.DataFrame(LOGITS, columns=["a", "a"]),
}
NO_WEIGHTS = {
    "set": {1.0},
    "generator": (1.0 for _ in range(N)),
    "type": float,
    "parts": [[1.0], [1.0, 2.0]],
    "times": pd.Series([pd.Timestamp("2024-01-01", tz="UTC")] * N),
    "missing": [None] * N,
}
WRONG = {"X": NO_ROWS, "y_proba": NO_ROWS, "sample_weight": NO_WEIGHTS}

# Features for classifiers may be of any kind, and scikit-learn's score checks weights by itself.
# Several models come as a dict of probabilities.
OTHER = ("CalibratedClassifier", "LogitTransformer", "from_estimator", "optimism_corrected",
         "FusionCalibrator.score")  # fmt: skip
SEVERAL = ("ScoreDecompositionDisplay", "NetBenefitDisplay", "RiskCoverageDisplay")

CASES = [
    pytest.param(name, path, id=f"{path}-{name}")
    for name in WRONG
    for path, call in REGISTRY.items()
    if name in call.parameters
    and not path.startswith("BaseCalibrator")
    and not any(word in path for word in OTHER)
    and not (name == "y_proba" and any(word in path for word in SEVERAL))
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "path"), CASES)
def test_wrong_kinds_are_refused_by_name(name, path):
    for value in WRONG[name].values():
        with pytest.raises(
            (ValueError, TypeError), match=rf"(?s){name}.*(got|distinct|contains|expecting)"
        ):
            REGISTRY[path](**{name: value})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("value", [pd.NA, np.nan, [1], np.array([0, 1])], ids=str)
@pytest.mark.parametrize("path", [p for p, c in REGISTRY.items() if "pos_label" in c.parameters])
def test_an_event_that_is_no_label_is_refused(path, value):
    call = REGISTRY[path]
    arguments = {"kind": "binary"} if "kind" in call.parameters else {}
    with pytest.raises(ValueError, match="pos_label"):
        call(pos_label=value, **arguments)


@pytest.mark.parametrize("name", ["classes", "labels", "order"])
def test_all_labels_that_lack_one_are_refused(name):
    labels = {name: [0, pd.NA]}
    if name == "labels":
        call = partial(REGISTRY["metrics.expected_calibration_error"], **labels)
    else:
        call = partial(AutoCalibrator(ordered=name == "order", **labels).fit, LOGITS, LABELS)
    with pytest.raises(ValueError, match=f"{name} contains <NA>: no label may be missing"):
        call()


@pytest.mark.parametrize(
    "y",
    [
        pd.Series(np.array(["ham", "spam"])[LABELS], dtype="category"),
        pd.Series(np.array(["ham", "spam"])[LABELS], dtype="string"),
        pd.date_range("2024-01-01", periods=N, tz="Europe/Berlin"),
        pd.period_range("2024-01", periods=N, freq="M"),
    ],
    ids=["categories", "text", "times", "periods"],
)
def test_labels_of_another_type_are_no_classes(y):
    assert REGISTRY["TemperatureScaling.score"](y=y) == 0
    with pytest.raises(ValueError, match="y must hold"):
        REGISTRY["OnlineCalibrator.partial_fit"](y=y)


@pytest.mark.parametrize(
    "value", [np.array([(1.0, 2.0)] * N, "f8,f8"), [[1, 2], [3, 4]] * (N // 2)]
)
def test_cells_of_features_are_numbers_or_text(value):
    features = pd.DataFrame({"a": value}) if isinstance(value, list) else value
    with pytest.raises(ValueError, match="features must"):
        REGISTRY["ConditionalCalibrator.fit"](features=features)


@pytest.mark.parametrize("cell", [np.zeros(2), pd.Series([0.0, 1.0])], ids=["array", "series"])
def test_cells_of_logits_are_no_arrays(cell):
    rows = pd.Series([cell] * N)
    with pytest.raises(TypeError, match="X must hold numbers, got"):
        REGISTRY["TemperatureScaling.fit"](X=pd.DataFrame({"a": rows, "b": LOGITS[:, 1]}))
    with pytest.raises(ValueError, match=rf"sample_weight must be .* of {N} parts\."):
        REGISTRY["TemperatureScaling.fit"](sample_weight=rows)
