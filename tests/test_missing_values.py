"""Law of missing values: NaN, None and pandas.NA raise a ValueError in every argument of rows."""

import numpy as np
import pandas as pd
import pytest
from public import LABELS, LOGITS, PROBABILITIES, REGISTRY, N

ARGUMENTS = {
    "y": LABELS,
    "y_true": LABELS,
    "y_proba": PROBABILITIES,
    "other_proba": PROBABILITIES,
    "sample_weight": np.ones(N),
    "X": LOGITS,
}
COLUMNS = {"X": LOGITS[:, :1], "y": np.stack([LABELS, 1 - LABELS], axis=1)}

# Features of classifiers may be missing. ScoreTransformer ignores labels.
OTHER = {
    "X": ("CalibratedClassifier", "LogitTransformer", "ScoreTransformer", "from_estimator",
          "optimism_corrected"),
    "y": ("ScoreTransformer",),
}  # fmt: skip


CASES = [
    pytest.param(name, path, id=f"{path}-{name}")
    for name in ARGUMENTS
    for path, call in REGISTRY.items()
    if name in call.parameters
    and not (path.startswith("BaseCalibrator") or path.endswith(".score"))
    and not any(word in path for word in OTHER.get(name, ()))
]


def with_missing(array, value):
    """The array with one missing value, as floats for NaN and else as objects."""
    array = np.array(array, dtype=float if isinstance(value, float) else object)
    array.flat[3] = value
    return array


def forms(array, value):
    """Arrays, lists, and for columns a Series and a nullable Series."""
    array = with_missing(array, value)
    yield array
    yield array.tolist()
    if array.ndim == 1:
        yield pd.Series(array)
        yield pd.Series(array).convert_dtypes()
    else:
        yield pd.DataFrame(array)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "path"), CASES)
def test_missing_values_are_refused(name, path):
    array = ARGUMENTS[name]
    if (path.startswith("MultiLabelCalibrator") and name == "y") or "inverse_transform" in path:
        array = COLUMNS[name]
    for value in (np.nan, None, pd.NA):
        for given in forms(array, value):
            with pytest.raises(ValueError, match=r"(?i)nan|missing|null|none|<na>|label"):
                REGISTRY[path](**{name: given})


RAGGED = [
    (name, path)
    for name in ("y_proba", "X", "cost")
    for path, call in REGISTRY.items()
    if name in call.parameters
    and not (path.endswith((".score", "from_estimator")) or "Classifier" in path)
    and not any(word in path for word in ("LogitTransformer", "optimism_corrected", "inverse"))
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "path"), RAGGED)
def test_rows_of_different_lengths_are_refused(name, path):
    """Rows of logits, such as candidates of a search engine, are to be padded."""
    rows = {"X": LOGITS, "y_proba": PROBABILITIES, "cost": 1 - np.eye(2)}[name].tolist()
    rows[1] = [*rows[1], 0.0]
    for form in (rows, tuple(map(tuple, rows))):
        with pytest.raises(ValueError, match=r"-inf|zeros|columns|dimensions|homogeneous"):
            REGISTRY[path](**{name: form})
    if path.endswith("Scaling.fit"):
        arrays = list(map(np.array, rows))
        for form in (rows, arrays, np.array(arrays, dtype=object)):
            with pytest.raises(ValueError, match="-inf"):
                REGISTRY[path](**{name: form})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("X", r"got 1 NaN, the first in row 1, column 1.*Leave out"),
        ("y", r"contains <NA>: each row must have a label, got <NA> at position 3.*Leave out"),
        (
            "sample_weight",
            r"contains NaN: each row must have a weight, .* at position 3.*Leave out",
        ),
        ("groups", r"contains <NA>: each row must have a group, got <NA> at position 3.*Leave out"),
    ],
)
def test_messages_about_missing_values_say_where_and_what_to_do(name, message):
    array = {**ARGUMENTS, "groups": np.arange(N) // 2}[name]
    column = with_missing(array, pd.NA)
    frame = pd.Series(column) if name == "sample_weight" else pd.DataFrame(column)
    with pytest.raises(ValueError, match=message):
        REGISTRY["AutoCalibrator.fit"](**{name: frame})


def test_features_may_be_missing():
    features = pd.DataFrame({"length": np.arange(N), "topic": ["law", "art"] * (N // 2)})
    features = features.astype(object)
    features.iloc[3:5] = pd.NA, None
    for given in (features, features.convert_dtypes(), features.to_numpy()):
        P = REGISTRY["ConditionalCalibrator.fit"](features=given).predict_proba(
            LOGITS, features=given
        )
        assert np.isfinite(P).all()
