"""Law of numbers without a meaning: infinity and NaN raise a ValueError in each dtype."""

import inspect
from itertools import product

import numpy as np
import pytest
from public import REGISTRY, N

# The parameters, with an array or a number of a dtype that has the value x in one place.
PARAMETERS = {
    "cost": lambda x: np.array([[0, x], [1, 0]]),
    "before": lambda x: np.array([0.5, x]),
    "after": lambda x: np.array([0.5, x]),
    "priors": lambda x: np.array([0.5, x]),
    "thresholds": lambda x: np.array([0.1, x]),
    "threshold": lambda x: x,
    "risk": lambda x: x,
    "sample_weight": lambda x: np.append(np.ones(N - 1), x),
    "confidence_level": lambda x: x,
    "tolerance": lambda x: x,
    "forget": lambda x: x,
    "smoothing": lambda x: x,
    "alpha": lambda x: x,
    "pseudo_rows": lambda x: x,
    "min_proba": lambda x: x,
    "step": lambda x: x,
}

# Results, which users do not construct, and the abstract class of all calibrators.
LEFT_OUT = (
    "NetBenefitCurve", "RiskCoverageCurve", "SelectiveThreshold", "IntervalEstimate",
    "BaseCalibrator.score",
)  # fmt: skip

CASES = [
    pytest.param(name, path, id=f"{path}-{name}")
    for name in PARAMETERS
    for path, call in REGISTRY.items()
    if name in call.parameters and path not in LEFT_OUT
]


def used(path, **params):
    """Call a function, or construct an object and call the method that reads its parameters."""
    call = REGISTRY[path]
    result = call(**params)
    if inspect.isclass(call.function):
        method = "fit" if hasattr(result, "fit") else "update"
        REGISTRY[f"{path}.{method}"].on(result)()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "path"), CASES)
def test_infinity_and_nan_are_refused(name, path):
    for value, dtype in product([np.inf, -np.inf, np.nan], [np.float16, np.float32, np.float64]):
        bad = np.asarray(PARAMETERS[name](value)).astype(dtype)[()]
        with pytest.raises(ValueError, match=name):
            used(path, **{name: bad})
