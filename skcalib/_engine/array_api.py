"""Arrays of other libraries, such as tensors on a GPU, by the array API standard.

With ``sklearn.config_context(array_api_dispatch=True)`` they are not converted to NumPy: functions
of blocks compute with them in their own namespace and on their device. Such a function takes its
operations from :func:`namespace`, which for NumPy's arrays is ``numpy``, and uses only those that
both have by the same name. What is called a tensor here is an array of any library but NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.utils._array_api import _convert_to_numpy, get_namespace


def is_tensor(x: Any) -> bool:
    """Whether it is an array of another library that is not to be converted to NumPy."""
    return _is_foreign(x) and get_config()["array_api_dispatch"]


def _is_foreign(x: Any) -> bool:
    """Whether it is an array with a device, of another library than NumPy and Dask."""
    if isinstance(x, np.ndarray | np.generic) or not hasattr(x, "device"):
        return False
    return hasattr(x, "__array_namespace__") or hasattr(x, "__dlpack__")


def namespace(x: Any) -> Any:
    """The module with the operations of an array: ``numpy``, or the namespace of a tensor."""
    return np if isinstance(x, np.ndarray | np.generic) else get_namespace(x)[0]


def library(x: Any) -> str:
    """The library and the device of an array, for comparison and for messages."""
    if not is_tensor(x):
        return "NumPy"
    return f"{namespace(x).__name__.split('.')[-1]} on {x.device}"


def like(value: Any, x: Any, dtype: Any = None) -> Any:
    """A number or an array of NumPy in the library and on the device of the array ``x``.

    ``dtype`` is a type of that library, by default that of the value.
    """
    if isinstance(x, np.ndarray):
        return np.asarray(value, dtype)
    value = np.ascontiguousarray(value) if np.ndim(value) else np.asarray(value)
    return namespace(x).asarray(value, dtype=dtype, device=x.device)


def on_host(x: Any) -> Any:
    """A tensor as an array of NumPy; other objects unchanged."""
    if not _is_foreign(x):
        return x
    if not get_config()["array_api_dispatch"]:
        return np.asarray(x)
    return np.asarray(_convert_to_numpy(x, namespace(x)))


def into(name: str, out: Any, *args: Any) -> Any:
    """An operation by its name; for NumPy its result is written to ``out``.

    Results of tensors are always new: that lets gradients pass, and not all libraries can write.
    """
    if isinstance(out, np.ndarray):
        return getattr(np, name)(*args, out=out)
    return getattr(namespace(args[0]), name)(*args)


def astype(x: Any, dtype: Any) -> Any:
    """The array in another type of its library; itself if it has that type."""
    if isinstance(x, np.ndarray | np.generic):
        return x.astype(dtype, copy=False)
    return namespace(x).astype(x, dtype, copy=False)


def smallest_normal(x: Any) -> float:
    """The smallest positive normal number in the precision of ``x``."""
    return float(namespace(x).finfo(x.dtype).smallest_normal)


def check_tensor(x: Any, name: str) -> Any:
    """The tensor, with a ValueError if its type is not a supported one."""
    xp = namespace(x)
    if x.dtype not in {xp.float32, xp.float64}:
        raise ValueError(
            f"{name} must be float32 or float64 to stay in {xp.__name__.split('.')[-1]}, got "
            f"{x.dtype}. Convert it, as in {name}.to(torch.float32) or "
            f"{name}.astype('float32')."
        )
    return x


def check_needs_no_gradients(x: Any, name: str) -> None:
    """Raise a ValueError for a tensor that records gradients, where they would be lost."""
    if getattr(x, "requires_grad", False):
        raise ValueError(
            f"{name} must not need gradients here, got a tensor with requires_grad=True, and the "
            f"result would have none. Pass {name}.detach()."
        )
