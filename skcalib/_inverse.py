"""Inverse of calibrators that are one increasing function of the log-odds."""

from __future__ import annotations

import numpy as np
from sklearn.utils.metaestimators import available_if

from ._rows import ArrayLike, Floats, as_numpy
from ._validation.inputs import check_fitted

# Raw log-odds up to sinh(REACH), about 5e12, are searched.
REACH = 30.0


class IncreasingMap:
    """Base of calibrators that map the log-odds of two classes by one increasing function."""

    def _is_increasing(self) -> bool:
        """Whether the function is increasing, from parameters and fitted attributes."""
        return True

    def _check_increasing(self) -> bool:
        """Raise an AttributeError unless the map is one increasing function of one column."""
        name, n_columns = type(self).__name__, getattr(self, "n_features_in_", 1)
        if not self._is_increasing():
            raise AttributeError(
                f"inverse_transform is for increasing maps, got a {name} with a map that may fall. "
                "Use TemperatureScaling, IsotonicCalibration or SplineCalibration(increasing=True)."
            )
        if n_columns != 1:
            raise AttributeError(
                f"inverse_transform is for one column of log-odds, got a {name} fitted to "
                f"{n_columns} columns. Fit it to the log-odds X[:, 1:] - X[:, :1] of two classes."
            )
        return True

    @available_if(_check_increasing)  # type: ignore[untyped-decorator]
    def inverse_transform(self, X: ArrayLike) -> Floats:
        """Raw log-odds of calibrated log-odds, such as the raw score at a calibrated threshold.

        It is available after a fit to one column. The result is the least raw log-odds with
        calibrated log-odds of at least ``X``, which serves step functions as well. The function is
        inverted by bisection.

        Parameters
        ----------
        X : array-like of shape (n_samples, 1)
            Calibrated log-odds. For a calibrated probability ``p`` pass ``np.log(p / (1 - p))``.

        Returns
        -------
        ndarray of shape (n_samples, 1)
            Raw log-odds, float64. -inf where all raw log-odds have calibrated log-odds of at least
            ``X``, and inf where none have.
        """
        check_fitted(self)
        target = np.asarray(as_numpy(X, "X"), dtype=np.float64)
        if target.ndim != 2 or target.shape[1] != 1 or np.isnan(target).any():
            raise ValueError(
                "X must be one column of calibrated log-odds without NaN, of shape (n_samples, 1), "
                f"got shape {target.shape}. Pass X[:, None] for a one-dimensional array."
            )
        low, high = np.full(target.shape, -REACH), np.full(target.shape, REACH)
        # The inverse of sinh has a fine grid near 0 and reaches large log-odds.
        for _ in range(64):
            middle = (low + high) / 2
            reaches = self._calibrated(np.sinh(middle)) >= target  # type: ignore[attr-defined]
            low, high = np.where(reaches, low, middle), np.where(reaches, middle, high)
        raw = np.sinh(high)
        return np.where(low == -REACH, -np.inf, np.where(high == REACH, np.inf, raw))
