"""The version, and what keeps a pickle of another version from passing for one of this."""

from __future__ import annotations

import warnings
from typing import Any

from sklearn.exceptions import InconsistentVersionWarning

__version__ = "0.1.0"


class Versioned:
    """Mixin that writes the version into pickles and warns where another version reads them.

    scikit-learn does so for its own estimators only.
    """

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        return {**state, "_skcalib_version": __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        written_by = state.pop("_skcalib_version", "unknown")
        if written_by != __version__:
            warnings.warn(
                InconsistentVersionWarning(
                    estimator_name=type(self).__name__,
                    current_sklearn_version=__version__,
                    original_sklearn_version=written_by,
                ),
                stacklevel=2,
            )
        if hasattr(super(), "__setstate__"):
            super().__setstate__(state)  # type: ignore[misc]
        else:
            vars(self).update(state)
