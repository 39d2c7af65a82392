"""Libraries of arrays, for tests that hold in each; run with SCIPY_ARRAY_API=1."""

import os
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from sklearn import config_context

# NumPy refuses arrays on this device of array_api_strict, so no array is taken for its own.
CASES = [
    ("array_api_strict", "device1"),
    ("torch", "cpu"),
    ("torch", "cuda"),
    ("jax", "cpu"),
    ("cupy", "cuda"),
]
INSTALLED = [case for case in CASES if find_spec(case[0])]  # instead of hundreds of skipped tests


@dataclass(frozen=True)
class Library:
    """A library of arrays and a device of it."""

    name: str
    xp: Any  #: its namespace
    device: Any

    def __repr__(self):
        return self.name

    def array(self, a, dtype=None):
        """An array of NumPy, a list or a number as one of the library; None stays None."""
        if a is None:
            return None
        a = np.asarray(a)
        dtype = getattr(self.xp, str(dtype or a.dtype))
        return self.xp.asarray(np.ascontiguousarray(a), dtype=dtype, device=self.device)

    def numpy(self, x):
        """An array of the library, which it must be, as one of NumPy."""
        assert self.owns(x), f"{type(x)} on {getattr(x, 'device', None)}"
        if self.name.startswith("strict"):
            return np.asarray(x.to_device(self.xp.Device("CPU_DEVICE")))
        if self.name.startswith("torch"):
            return x.detach().cpu().numpy()
        return np.asarray(x.get() if self.name == "cupy" else x)

    def owns(self, x):
        """Whether it is an array of the library, on the device."""
        return isinstance(x, type(self.array(0.0))) and x.device == self.array(0.0).device


def library_of(name, device):
    """The library; tests are skipped where it, or the device, is missing."""
    module = pytest.importorskip(name, reason=f"{name} is not installed")
    if name == "array_api_strict":
        return Library(f"strict-{device}", module, module.Device(device))
    if name == "torch":
        if device == "cuda" and not module.cuda.is_available():
            pytest.skip("torch sees no GPU")
        return Library(f"torch-{device}", module, module.device(device, *[0] * (device == "cuda")))
    if name == "jax":
        module.config.update("jax_enable_x64", True)
        return Library("jax", module.numpy, module.devices(device)[0])
    return Library("cupy", module, module.cuda.Device(0))


class Skipped(pytest.Module):
    """A module of tests that is not even imported, which takes less time than to skip each test."""

    def collect(self):
        pytest.skip("scikit-learn needs SCIPY_ARRAY_API=1 in the environment")


def pytest_pycollect_makemodule(module_path, parent):
    if not os.environ.get("SCIPY_ARRAY_API"):
        return Skipped.from_parent(parent, path=module_path)
    return None


@pytest.fixture(autouse=True)
def _dispatching():
    """With array_api_dispatch, scikit-learn passes arrays of other libraries unchanged."""
    with config_context(array_api_dispatch=True):
        yield


@pytest.fixture(params=INSTALLED, ids="-".join)
def lib(request):
    """Each library and device that is there."""
    return library_of(*request.param)


@pytest.fixture
def torch_lib():
    return library_of("torch", "cpu")


@pytest.fixture
def strict():
    return library_of("array_api_strict", "CPU_DEVICE")


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    return request.param
