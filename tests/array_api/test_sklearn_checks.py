"""The checks that scikit-learn has of the array API, for every calibrator; none is skipped."""

from unittest import SkipTest

import pytest
from families import CALIBRATORS
from sklearn.utils.estimator_checks import estimator_checks_generator

pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")
torch = pytest.importorskip("torch", reason="torch is not installed")

# What is tested; other libraries and devices are missing on most machines, and a torch with CUDA
# that finds no GPU makes checks fail that scikit-learn should skip.
DEVICES = {None, "cpu", "device1"} | ({"cuda"} if torch.cuda.is_available() else set())
LIBRARIES = {None, "numpy", "array_api_strict", "torch"}
NAMES = {"input", "mixed_inputs", "same_namespace"}


def place(value):
    """A library and a device, of a pair or the name of a library."""
    return (value.xp, value.device) if hasattr(value, "xp") else (value, None)


def checks_of(calibrator):
    for _, check in estimator_checks_generator(calibrator):
        name = check.func.__name__.removeprefix("check_array_api_")
        if name not in NAMES:
            continue
        pairs = [place(value) for value in check.keywords.values()]
        if all(v in LIBRARIES | DEVICES | {"float32", "float64"} for pair in pairs for v in pair):
            words = [str(v) for pair in pairs for v in pair if v is not None]
            yield pytest.param(check, calibrator, id="-".join([type(calibrator).__name__, *words]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("check", "calibrator"), [case for kind in CALIBRATORS for case in checks_of(kind())]
)
def test_check(check, calibrator):
    try:
        check(calibrator)
    except SkipTest as reason:
        pytest.fail(f"skipped: {reason}")


def test_there_are_checks_of_each_kind():
    names = {case.values[0].func.__name__ for case in checks_of(CALIBRATORS[0]())}
    assert {name.removeprefix("check_array_api_") for name in names} == NAMES
