"""Versions of skcalib and its dependencies, and a warning about pickles from other versions."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
from sklearn.exceptions import InconsistentVersionWarning

from ._warnings import warn

__version__ = "0.1.0"


def versions() -> dict[str, str]:
    """Return the versions of this package, Python, and the packages that it needs."""
    import matplotlib as mpl
    import scipy
    import sklearn

    return {
        "skcalib": __version__,
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "SciPy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "matplotlib": mpl.__version__,
    }


class Versioned:
    """Mixin that stores the version in pickles and warns if another version loads them.

    scikit-learn does this only for its own estimators. Parameters that are ranges or arrays from
    other packages are stored as lists and NumPy arrays, so that loading need not trust more types.
    """

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        plain = {name: _as_plain(value) for name, value in state.items()}
        return {**plain, "_skcalib_version": __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        warn_of_version(type(self).__name__, state.pop("_skcalib_version", "unknown"))
        if hasattr(super(), "__setstate__"):
            super().__setstate__(state)  # type: ignore[misc]
        else:
            vars(self).update(state)


def warn_of_version(name: str, written_by: str) -> None:
    """Warn if an object of the class ``name`` was written by another version of skcalib."""
    if written_by != __version__:
        warn(
            InconsistentVersionWarning(
                estimator_name=name,
                current_sklearn_version=__version__,
                original_sklearn_version=written_by,
            )
        )


def _as_plain(value: Any) -> Any:
    """Convert a range to a list, and array-likes such as a pandas index to NumPy arrays."""
    if isinstance(value, range):
        return list(value)
    if isinstance(value, np.ndarray | np.generic) or not hasattr(value, "__array__"):
        return value
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)  # of torch
