"""Arrays of other libraries, such as tensors on a GPU, by the array API standard.

With ``sklearn.config_context(array_api_dispatch=True)`` they are not converted to NumPy: functions
of blocks compute with them in their own namespace and on their device. Such a function takes its
operations from :func:`namespace`, which for NumPy's arrays is ``numpy``, and uses only those that
both have by the same name. What is called a tensor here is an array of any library but NumPy.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from sklearn import config_context, get_config
from sklearn.utils._array_api import _convert_to_numpy, get_namespace

from skcalib._typing import Array


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
    return f"{_name(namespace(x))} on {x.device}"


def _name(xp: Any) -> str:
    """What users call a namespace: that of JAX is jax.numpy, and others are wrapped."""
    return str(xp.__name__.removesuffix(".numpy").split(".")[-1])


def like(value: Any, x: Any, dtype: Any = None) -> Any:
    """A number or an array of NumPy in the library and on the device of the array ``x``.

    Arrays of that library stay where they are. ``dtype`` is a type of the library, by default that
    of the value.
    """
    if isinstance(x, np.ndarray):
        return np.asarray(value, dtype)
    if _is_foreign(value):
        return value if dtype is None else astype(value, dtype)
    value = np.ascontiguousarray(value) if np.ndim(value) else np.asarray(value)
    return namespace(x).asarray(value, dtype=dtype, device=x.device)


def following(value: Array, x: Any) -> Any:
    """An array of NumPy in the library of ``x``, except for text, which no other has."""
    return like(value, x) if is_tensor(x) and value.dtype.kind in "biuf" else value


def on_host(x: Any) -> Any:
    """A tensor as an array of NumPy; other objects unchanged."""
    if not _is_foreign(x):
        return x
    with config_context(array_api_dispatch=True):  # else those of other devices are refused
        return np.asarray(_convert_to_numpy(x, namespace(x)))


def into(name: str, out: Any, *args: Any) -> Any:
    """An operation by its name; for NumPy its result is written to ``out``.

    Results of tensors are always new: that lets gradients pass, and not all libraries can write.
    """
    if isinstance(out, np.ndarray):
        return getattr(np, name)(*args, out=out)
    return getattr(namespace(args[0]), name)(*args)


def at_least(x: Any, low: float, out: Any = None) -> Any:
    """Entries no less than a number; for NumPy written to ``out``, as by :func:`into`."""
    if isinstance(x, np.ndarray):
        return np.maximum(x, low, out=out)
    return namespace(x).clip(x, low, None)  # maximum of torch takes no number


def at_most(x: Any, high: float, out: Any = None) -> Any:
    """Entries no more than a number, likewise."""
    if isinstance(x, np.ndarray):
        return np.minimum(x, high, out=out)
    return namespace(x).clip(x, None, high)


def put(x: Any, value: float, where: Any) -> Any:
    """The array with a number at some places; that of NumPy is changed."""
    if isinstance(x, np.ndarray):
        np.copyto(x, value, where=where)
        return x
    return namespace(x).where(where, value, x)


def concat(arrays: Sequence[Any], axis: int = 0) -> Any:
    """Arrays joined along an axis, by the name that NumPy 1 has for it."""
    xp = namespace(arrays[0])
    return (np.concatenate if xp is np else xp.concat)(arrays, axis=axis)


def entries(values: Any, index: Any) -> Any:
    """Entries of an array along its first axis, where the indices (m,) are."""
    if isinstance(index, np.ndarray):
        return values[index]
    return namespace(index).take(like(values, index), index, axis=0)


def astype(x: Any, dtype: Any) -> Any:
    """The array in another type of its library; itself if it has that type."""
    if isinstance(x, np.ndarray | np.generic):
        return x.astype(dtype, copy=False)
    return namespace(x).astype(x, dtype, copy=False)


def smallest_normal(x: Any) -> float:
    """The smallest positive normal number in the precision of ``x``."""
    return float(namespace(x).finfo(x.dtype).smallest_normal)


def in_full_precision(x: Any) -> AbstractContextManager[Any]:
    """A context in which torch computes in the precision of a tensor, also within its autocast."""
    xp = namespace(x)
    if _name(xp) != "torch":
        return nullcontext()
    context: AbstractContextManager[Any] = xp.autocast(x.device.type, enabled=False)
    return context


def check_tensor(x: Any, name: str) -> Any:
    """The tensor, with a ValueError if its type is not a supported one."""
    xp = namespace(x)
    library = _name(xp)
    # Types of JAX are equal to others that have another hash.
    if x.dtype not in (xp.float32, xp.float64):
        remedy = f"{name}.to(torch.float32)" if library == "torch" else f"{name}.astype('float32')"
        if library == "array_api_strict":
            remedy = f"array_api_strict.astype({name}, array_api_strict.float32)"
        raise ValueError(
            f"{name} must be float32 or float64 to stay in {library}, got {x.dtype}. Pass {remedy}."
        )
    return x


def check_has_doubles(x: Any, name: str) -> None:
    """Raise a ValueError for a tensor where there is no double precision, as on MPS of Apple."""
    xp = namespace(x)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # JAX warns, and gives single precision
            has_doubles = xp.zeros(1, dtype=xp.float64, device=x.device).dtype == xp.float64
    except (TypeError, RuntimeError):
        has_doubles = False
    if not has_doubles:
        remedy = f"{name}.cpu()"
        if _name(xp) == "jax":
            remedy = f"{name} after jax.config.update('jax_enable_x64', True)"
        raise ValueError(
            f"{name} must be where there is double precision, in which sums over rows are "
            f"computed, got an array in {library(x)}, which has none. Pass {remedy}."
        )


def check_needs_no_gradients(x: Any, name: str) -> None:
    """Raise a ValueError for a tensor that records gradients, where they would be lost."""
    if getattr(x, "requires_grad", False):
        raise ValueError(
            f"{name} must not need gradients here, got a tensor with requires_grad=True, and the "
            f"result would have none. Pass {name}.detach()."
        )
