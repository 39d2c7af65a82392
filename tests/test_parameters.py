"""Law of parameters: in all functions a wrong value is a ValueError that names the parameter.

It is raised before anything is drawn. Infinity and NaN are wrong in each dtype.
"""

import inspect

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from public import REGISTRY, N

WRONG = {
    "ax": [Figure(), plt, "x", Figure().subplots(1, 3)],
    "band": ["x"],
    "by": [np.zeros(3)],
    "confidence_level": [0, 1, 95, -0.1, "high", True],
    "features": [np.zeros(7)],
    "forget": [-0.1, 1, "no"],
    "figure": ["a", Figure().subplots()],
    "groups": [np.zeros(3), [1]],
    "kind": ["no"],
    "labels": [[0], [0, 2]],
    "legend": ["above"],
    "max_iter": [0],
    "n_bins": [0, 2.5, "many"],
    "n_resamples": [0, 1.5, "many"],
    "pos_label": [7],
    "response_method": ["no"],
    "sample_weight": [np.zeros(N), -np.ones(N), np.ones(3)],
    "scale": ["no"],
    "score": ["no"],
    "smoothing": [-1, 2, "x"],
    "strategy": ["no"],
    "style": ["pie"],
    "risk": [0, 1, -0.1, "0.1", True],
    "tol": [-1],
    "tolerance": [-0.1, 1, "no", None],
}
# Results, which users do not construct, and functions that ignore a parameter.
LEFT_OUT = {
    "confidence_level": ["IntervalEstimate"],
    "features": ["TemperatureSweepDisplay.from_estimator"],
    "kind": ["ReliabilityCurve"],
    "n_resamples": ["clinical.integrated_calibration_index"],
    "scale": ["NetBenefitCurve"],
    "risk": ["RiskCoverageCurve", "SelectiveThreshold"],
    "score": ["ScoreDecomposition", "ScoreDecompositionDisplay"],
    "by": ["CalibratedMean", "SelectiveThreshold"],
}


def is_covered(name, path):
    kind, _, method = path.partition(".")
    if name == "sample_weight":
        return method != "score"  # which is scikit-learn's
    if name == "groups":  # constructors of displays take numbers; fits without folds ignore them
        is_fit = method in ("fit", "fit_transform", "partial_fit")
        return bool(method) and (not is_fit or "cv" in REGISTRY[kind].parameters)
    return path not in LEFT_OUT.get(name, ())


CASES = [
    pytest.param(name, path, id=f"{name}-{path}")
    for name in WRONG
    for path, call in REGISTRY.items()
    if name in call.parameters and is_covered(name, path)
]


def used(path, **params):
    """Call a function, or construct an object and call the method that reads its parameters."""
    call = REGISTRY[path]
    result = call(**params)
    if inspect.isclass(call.function):
        methods = ("fit", "update", "plot")
        method = next(m for m in methods if f"{path}.{m}" in REGISTRY)
        REGISTRY[f"{path}.{method}"].on(result)()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "path"), CASES)
def test_wrong_values_are_refused_by_name(name, path):
    for value in WRONG[name]:
        with pytest.raises(ValueError, match=name):
            used(path, **{name: value})
    if not path.endswith(".plot"):  # of a display that was drawn before
        assert not plt.get_fignums()


# --------------------------------------------------------------------------------------
# Infinity and NaN in each dtype.

# The parameters, with an array or a number of a dtype that has the value x in one place.
NUMBERS = {
    "cost": lambda x: np.array([[0, x], [1, 0]]),
    "before": lambda x: np.array([0.5, x]),
    "after": lambda x: np.array([0.5, x]),
    "priors": lambda x: np.array([0.5, x]),
    "thresholds": lambda x: np.array([0.1, x]),
    "sample_weight": lambda x: np.append(np.ones(N - 1), x),
    **dict.fromkeys(
        ["threshold", "risk", "confidence_level", "tolerance", "forget", "smoothing", "alpha",
         "pseudo_rows", "min_proba", "step"], lambda x: x,
    ),
}  # fmt: skip
IN_DTYPES = [
    (np.inf, np.float64), (np.inf, np.float16), (-np.inf, np.float32),
    (np.nan, np.float16), (np.nan, np.float64),
]  # fmt: skip
RESULTS = ("NetBenefitCurve", "RiskCoverageCurve", "SelectiveThreshold", "IntervalEstimate")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "path"),
    [
        pytest.param(name, path, id=f"{path}-{name}")
        for name in NUMBERS
        for path, call in REGISTRY.items()
        if name in call.parameters and path not in (*RESULTS, "BaseCalibrator.score")
    ],
)
def test_infinity_and_nan_are_refused(name, path):
    for value, dtype in IN_DTYPES:
        bad = np.asarray(NUMBERS[name](value)).astype(dtype)[()]
        with pytest.raises(ValueError, match=name):
            used(path, **{name: bad})
