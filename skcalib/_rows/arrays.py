"""Functions on arrays in any library with the array API standard, such as tensors on a GPU.

Predictions run in the logits' library: in NumPy, in a tensor's library while scikit-learn's
``array_api_dispatch`` is on, or with an array that writes an ONNX graph. They use operations from
:func:`namespace`. Functions in this module bridge differences between libraries, or are faster in
NumPy. A tensor is an array in any library except NumPy. Blocks are (m, K): rows of logits or
probabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.utils import _array_api
from sklearn.utils._array_api import get_namespace

from skcalib._typing import Array, Floats

# Smallest share of the uniform distribution, so that no probability is exactly 0.
TINY = float(np.finfo(np.float64).tiny)


def is_foreign(x: Any) -> bool:
    """Return whether an object is an array that belongs neither to NumPy nor to Dask."""
    if isinstance(x, np.ndarray | np.generic) or not hasattr(x, "device"):
        return False
    return hasattr(x, "__array_namespace__") or hasattr(x, "__dlpack__")


def namespace(x: Any) -> Any:
    """Return the module with operations for an array: ``numpy``, or the tensor's library."""
    if isinstance(x, np.ndarray | np.generic):
        return np
    if get_config()["array_api_dispatch"]:
        return get_namespace(x)[0]
    # During export: an ONNX graph, or a tensor inside a torch module.
    if hasattr(x, "__array_namespace__"):
        return x.__array_namespace__()
    if not hasattr(_array_api, "array_api_compat"):
        raise ImportError("Modules of torch need scikit-learn 1.7 or later. Upgrade it.")
    return _array_api.array_api_compat.array_namespace(x)


def may_be_true(condition: Any) -> bool:
    """Return whether a condition is true, or cannot be read from tensors and graphs.

    Reading a tensor would wait for the device, and a graph has no data.
    """
    return bool(condition) if isinstance(condition, np.generic | bool) else True


def library_of(xp: Any) -> str:
    """Return the name of the library behind a namespace, such as "torch" or "jax"."""
    return str(xp.__name__.removesuffix(".numpy").split(".")[-1])


def to_library(value: Any, x: Any, dtype: Any = None) -> Any:
    """Convert a number or a NumPy array to the library and the device of the array ``x``.

    Tensors stay where they are. ``dtype`` belongs to the library of ``x``; by default the value's
    type is kept.
    """
    if isinstance(x, np.ndarray):
        return np.asarray(value, dtype)
    if is_foreign(value):
        return value if dtype is None else astype(value, dtype)
    value = np.array(value, order="C")  # torch warns of read-only arrays
    return namespace(x).asarray(value, dtype=dtype, device=x.device)


def at_least(x: Any, low: float) -> Any:
    """Clip the entries of ``x`` from below."""
    if isinstance(x, np.ndarray):
        return np.maximum(x, low)
    return namespace(x).clip(x, low, None)  # maximum of torch takes no number


def at_most(x: Any, high: float) -> Any:
    """Clip the entries of ``x`` from above."""
    return np.minimum(x, high) if isinstance(x, np.ndarray) else namespace(x).clip(x, None, high)


def clip(x: Any, low: float, high: float) -> Any:
    """Clip the entries of ``x`` from both sides."""
    if isinstance(x, np.ndarray):
        return np.minimum(np.maximum(x, low), high)  # np.clip takes twice as long for one row
    return namespace(x).clip(x, low, high)


def concat(arrays: Sequence[Any], axis: int = 0) -> Any:
    """Join arrays along an axis."""
    xp = namespace(arrays[0])
    return (np.concatenate if xp is np else xp.concat)(arrays, axis=axis)


def take(values: Any, index: Any) -> Any:
    """Return ``values[index]`` along the first axis, in the library of the indices (m,)."""
    if isinstance(index, np.ndarray):
        return values[index]
    return namespace(index).take(to_library(values, index), index, axis=0)


def astype(x: Any, dtype: Any) -> Any:
    """Convert an array to another dtype in the same library."""
    if isinstance(x, np.ndarray | np.generic):
        return x.astype(dtype, copy=False)
    return namespace(x).astype(x, dtype, copy=False)


def double(A: Array) -> Array:
    """Convert an array to double precision."""
    if isinstance(A, np.ndarray | np.generic):
        return A.astype(np.float64, copy=False)
    if "mps" in str(A.device):  # Apple devices lack double precision
        return A
    return astype(A, namespace(A).float64)


def smallest_normal(x: Any) -> float:
    """Return the smallest positive normal number in the precision of ``x``."""
    return float(namespace(x).finfo(x.dtype).smallest_normal)


def in_full_precision(x: Any) -> AbstractContextManager[Any]:
    """Return a context that disables autocast, so that torch keeps the precision of ``x``."""
    xp = namespace(x)
    if library_of(xp) != "torch":
        return nullcontext()
    context: AbstractContextManager[Any] = xp.autocast(x.device.type, enabled=False)
    return context


def both_columns(Z: Array) -> Array:
    """Return logits with one column per class: one column ``z`` stands for ``(0, z)``.

    Parameters
    ----------
    Z : array of shape (m, n_columns)
        Logits, or one column with the log-odds of the second of two classes. An array in any
        library with the array API.

    Returns
    -------
    array of shape (m, n_classes)
        Logits.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.base import both_columns
    >>> both_columns(np.array([[1.5], [-2.0]]))
    array([[ 0. ,  1.5],
           [ 0. , -2. ]])
    """
    if Z.shape[1] > 1:
        return Z
    if not isinstance(Z, np.ndarray):
        xp = namespace(Z)
        return xp.concat([xp.zeros_like(Z), Z], axis=1)
    both = np.zeros((len(Z), 2), Z.dtype, order="F")
    both[:, 1] = Z[:, 0]
    return both


def in_columns_of(Z: Array, L: Array) -> Array:
    """Return logits ``L`` (m, K), as log-odds (m, 1) if ``Z`` has a single column."""
    return L[:, 1:] - L[:, :1] if Z.shape[1] == 1 else L


def is_event(y: Array, n_maps: int) -> Array:
    """Return whether the label (m,) is the class of the map: (m, n_maps).

    A single map belongs to the second of two classes.
    """
    return y[:, None] == (1 if n_maps == 1 else to_library(np.arange(n_maps), y))


def softmax(S: Array) -> Array:
    """Return probabilities (m, K) for logits (m, K), or (m, 2) for log-odds (m, 1).

    ``scipy.special.softmax`` takes several times as long for few columns.
    """
    both = both_columns(S)
    xp = namespace(both)
    if xp is not np and hasattr(xp, "softmax"):  # a single operation in torch and in ONNX
        return xp.softmax(both, axis=1)
    P = both - xp.max(both, axis=1, keepdims=True)
    P = np.exp(P, out=P) if xp is np else xp.exp(P)
    P /= xp.sum(P, axis=1, keepdims=True)
    return P


def log_softmax(S: Array) -> Array:
    """Return log-probabilities (m, K), finite except for masked classes."""
    both = both_columns(S)
    xp = namespace(both)
    if xp is not np and hasattr(xp, "log_softmax"):
        return xp.log_softmax(both, axis=1)
    below = both - xp.max(both, axis=1, keepdims=True)
    return below - xp.log(xp.sum(xp.exp(below), axis=1, keepdims=True))


def finite_unless_masked(f: Callable[[Floats], Floats], Z: Floats) -> Floats:
    """Apply ``f`` to logits (m, K) clipped to finite numbers, and restore -inf at masks."""
    # Clip at a quarter of the range, so that differences between logits are finite as well.
    xp = namespace(Z)
    largest = float(xp.finfo(Z.dtype).max) / 4
    # Reading a minimum of a tensor would wait for the device, and a graph has no data.
    masked = None if xp is np and not Z.min() < -largest else -np.inf == Z
    with np.errstate(over="ignore"):
        out = f(Z if masked is None else clip(Z, -largest, largest))
        out = clip(out, -largest, largest)
    return out if masked is None else xp.where(masked, -np.inf, out)


def masked_logits(Z: Floats) -> Floats:
    """Restore -inf for masked classes in the logits that ``_calibrate`` gets.

    ``_calibrate`` gets finite logits, with a number for masked classes that no other class has.
    Formulas that sum over the classes of a row need -inf for masked classes.

    Parameters
    ----------
    Z : array of shape (m, n_columns)
        Logits that ``_calibrate`` gets. An array in any library with the array API.

    Returns
    -------
    array of shape (m, n_columns)
        Logits, -inf for masked classes.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.base import masked_logits
    >>> masked_logits(np.array([[0.5, np.finfo(float).min / 4]]))
    array([[ 0.5, -inf]])
    """
    xp = namespace(Z)
    lowest = float(xp.finfo(Z.dtype).min) / 4
    if xp is np and not Z.min() <= lowest:
        return Z
    return xp.where(lowest >= Z, -np.inf, Z)


def _plus_uniform(P: Floats, L: Floats, smoothing: float) -> Floats:
    """Add a share of the uniform distribution to scaled probabilities ``P`` (m, K).

    Classes do not count where the logits ``L`` (m, K) or (m, 1) are -inf.
    """
    xp = namespace(P)
    if xp is np and L.min() != -np.inf:
        P += max(smoothing / P.shape[1], TINY)
        return P
    is_class = astype(-np.inf < both_columns(L), P.dtype)
    n_classes = xp.sum(is_class, axis=1, keepdims=True)
    return P + is_class * (max(smoothing, P.shape[1] * TINY) / n_classes)


def mix_logits(Z: Floats, smoothing: float) -> Floats:
    r"""Mix the uniform distribution into logits ``Z`` (m, K), or log-odds (m, 1).

    .. math:: q_k = (1 - \varepsilon)\, p_k + \varepsilon / K_i,

    where :math:`K_i` counts the unmasked classes in the row, so that the class order does
    not change. For several columns the result is log-probabilities, -inf for masked classes. NumPy
    computes them in double precision, which represents every ``smoothing``. ``np.logaddexp`` is as
    exact, but ten times as slow.
    """
    if smoothing == 0:
        return Z
    xp = namespace(Z)
    if Z.shape[1] > 1:
        if isinstance(Z, np.ndarray):
            P = np.subtract(Z, Z.max(axis=1, keepdims=True), dtype=np.float64)
            P = np.exp(P, out=P)
            P *= (1 - smoothing) / P.sum(axis=1, keepdims=True)
        else:  # single precision suffices if it represents the share
            P = softmax(Z if smoothing > 1e-30 else double(Z)) * (1 - smoothing)
        P = _plus_uniform(P, Z, smoothing)
        if not isinstance(Z, np.ndarray):  # log(0) at masked classes has no gradient
            P = xp.where(-np.inf == Z, -np.inf, xp.log(at_least(P, smallest_normal(P))))
            return astype(P, Z.dtype)
        with np.errstate(divide="ignore"):
            return np.log(P, out=P).astype(Z.dtype, copy=False)
    # Compute the odds of the more probable class minus one: exact near 0 and far from 0. The
    # logits' precision suffices if it represents the smoothing.
    distance = xp.abs(Z if smoothing / 2 > smallest_normal(Z) else double(Z))
    rarer = xp.exp(-distance) * (1 - smoothing / 2) + max(smoothing / 2, TINY)
    excess = xp.log1p(xp.expm1(-distance) * (smoothing - 1) / rarer)
    return astype(xp.where(Z < 0, -excess, excess), Z.dtype)


def mixed_probabilities(Z: Floats, smoothing: float) -> Floats:
    """Return probabilities (m, K) for :func:`mix_logits`, for logits (m, K) or log-odds (m, 1)."""
    P = softmax(Z)
    if smoothing > 0:
        P = _plus_uniform(P * (1 - smoothing), Z, smoothing)
    return P


def weighted_sum(values: Array, w: Array | None = None) -> Any:
    """Sum values (m,) or (m, d) over rows with weights ``w`` (m,), in double precision."""
    return values.sum(axis=0, dtype=np.float64) if w is None else w @ values


def searchsorted(edges: Floats, x: Array) -> Array:
    """Return how many sorted edges are below each number in a tensor."""
    x = double(x)
    x = x.contiguous() if hasattr(x, "contiguous") else x  # torch warns otherwise
    return namespace(x).searchsorted(to_library(edges, x), x)


def bincount(index: Array, values: Any, n: int) -> Floats:
    """Sum the values at each index below ``n``, or count the indices: float64 (n,).

    Values are broadcast to the shape of ``index``.
    """
    if values is not None:
        values = np.broadcast_to(np.asarray(values, np.float64), index.shape)
    if index.flags.f_contiguous:  # ravel then copies neither array
        index, values = index.T, None if values is None else values.T
    values = None if values is None else values.ravel()
    return np.bincount(index.ravel(), values, n).astype(np.float64, copy=False)
