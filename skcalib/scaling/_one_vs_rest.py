"""Base class for smooth maps of log-odds: one sigmoid per class, fitted by the log loss."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.optimize import OptimizeResult

from skcalib._input.labels import shown
from skcalib._input.parameters import check_real, fitted_smoothing
from skcalib._optimize.logistic import Prior, RowSigmoids, fit_sigmoids
from skcalib._optimize.temperature import (
    SMALLEST_SCALE,
    fit_inverse_temperature,
    mixed_logits,
    warn_of_no_minimum,
)
from skcalib._rows import Rows, arrays, thin
from skcalib._scores.columns import joined, margins
from skcalib._typing import ArrayLike, Bools, Floats
from skcalib._warnings import NoMinimumWarning, NotConvergedWarning, warn
from skcalib.base import BaseCalibrator

# Log-odds beyond this bound mean probabilities of 0 and 1 in double precision.
FARTHEST = 1e3

# A sample with ROWS_PER_MAP rows per class provides starting values if there are MANY_ODDS log-odds
# or more: with fewer it costs more than the passes that it saves.
ROWS_PER_MAP, MANY_ODDS = 512, 1 << 15

# Function from finite log-odds (m, K) to features, each (m, K), without the constant one.
Expand = Callable[[Floats], list[Floats]]


class _OneVsRestScaling(BaseCalibrator):
    """Base class for calibrators that map each class's log-odds after temperature scaling.

    Before the map, the probabilities are mixed with the uniform distribution.
    """

    temperature_: float
    alpha_: float

    _on_device = True
    # Strings that alpha accepts.
    _options: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        smoothing: Literal["auto"] | float = "auto",
        classes: ArrayLike | None = None,
    ) -> None:
        self.classes = classes
        self.alpha = alpha
        self.smoothing = smoothing

    @abstractmethod
    def _fit_maps(self, odds: Rows, temperature: float) -> dict[str, Any]:
        """Fit maps to rows with log-odds (n_rows, n_maps), and return the fitted attributes.

        Log-odds are infinite if the class, or every other class, is masked.
        """

    @abstractmethod
    def _scores(self, U: Floats) -> Floats:
        """Map finite log-odds ``U`` (m, n_maps) to calibrated log-odds (m, n_maps)."""

    def _fit(self, rows: Rows) -> dict[str, Any]:
        check_real("alpha", self.alpha, closed=True, option=self._options)
        smoothing = fitted_smoothing(self.smoothing, rows)
        scale = fit_inverse_temperature(rows, smoothing)
        warn_of_no_minimum(scale, penalized=True)
        # At the largest temperature log-odds would vanish, and slopes could not reverse them.
        unit = SMALLEST_SCALE if scale.outcome == "no_better_than_chance" else 1
        temperature = unit / scale.value
        odds = rows.map(partial(_mixed_log_odds, temperature, smoothing))
        fitted = self._fit_maps(odds, temperature)
        return {**fitted, "temperature_": temperature, "smoothing_": smoothing}

    def _calibrate(self, Z: Floats) -> Floats:
        Z = arrays.masked_logits(Z)  # masked classes change the mixture
        U = arrays.double(_mixed_log_odds(self.temperature_, self.smoothing_, Z))
        U = arrays.namespace(U).clip(U, -FARTHEST, FARTHEST)
        return joined(arrays.astype(self._scores(U), Z.dtype), Z.shape[1])


def _mixed_log_odds(temperature: float, smoothing: float, Z: Floats, *_: Any) -> Floats:
    """Return log-odds (m, n_maps) after smoothed temperature scaling, infinite if masked."""
    if Z.shape[1] > 2:
        U = M = margins(mixed_logits(temperature, smoothing, Z))
    else:
        M = margins(Z)
        U = mixed_logits(temperature, smoothing, M)
    xp = arrays.namespace(M)
    finite, U = xp.isfinite(M), xp.clip(U, -FARTHEST, FARTHEST)
    return xp.where(finite, U, M) if arrays.may_be_true(~xp.all(finite)) else U


def finite_range(U: Floats, *_: Any) -> Floats:
    """Return the largest finite log-odds, and the largest of their negatives: (2, n_maps)."""
    finite = np.isfinite(U)
    return np.stack([np.where(finite, V, -np.inf).max(axis=0) for V in (U, -U)]).astype(float)


def fit_maps(
    odds: Rows,
    expand: Expand,
    prior: Prior | None = None,
    low: Floats | None = None,
    *,
    smooth_targets: bool = False,
    separator: str = "a map",
    remedy: str = "alpha=1.0 or another alpha above 0",
) -> tuple[RowSigmoids, OptimizeResult]:
    """Fit one logistic regression per class to features that ``expand`` computes from log-odds.

    ``odds`` are rows with log-odds (n, n_maps). ``low`` (d,) are lower bounds. The search starts
    from the fit to a sample, else from the prior mean, else from constants with the class rates.
    ``separator`` and ``remedy`` are words for the warning about separable classes.
    """
    K = odds.n_columns
    low = None if low is None else np.tile(low, (K, 1))

    def fit(rows: Rows, start: Floats | None) -> tuple[RowSigmoids, OptimizeResult]:
        features = partial(_features, expand)
        sigmoids = RowSigmoids.of(rows, features, prior, smooth=smooth_targets)
        if start is None:
            mean = None if prior is None else prior.mean
            start = sigmoids.constant if mean is None else np.resize(mean, (K, mean.shape[-1]))
        return sigmoids, fit_sigmoids(sigmoids, start, low)

    start = None
    if not odds.is_local or odds.n_rows * K >= MANY_ODDS:
        sample = thin(odds, ROWS_PER_MAP * K)
        start = None if sample is None else fit(sample, None)[1].x
    sigmoids, solution = fit(odds, start)
    _warn_unless_fitted(sigmoids, solution, separator, remedy)
    return sigmoids, solution


def _features(expand: Expand, U: Floats) -> tuple[list[Floats], Bools | None]:
    """Return features (m, K), and which rows count for each class, or None if all count.

    Double precision separates log-odds that vary little from the constant feature.
    """
    U = U.astype(np.float64, copy=False)
    counts = np.isfinite(U)
    if counts.all():
        return expand(U), None
    return expand(np.where(counts, U, 0.0)), counts


def _warn_unless_fitted(
    sigmoids: RowSigmoids, solution: OptimizeResult, separator: str, remedy: str
) -> None:
    """Warn if unpenalized classes are separable, or if the search has not converged.

    ``separator`` and ``remedy`` are words for the message.
    """
    prior = sigmoids.prior
    plain = not (sigmoids.low if prior is None else prior.precision).any()
    separable = np.flatnonzero(sigmoids.share_wrong(solution.x) == 0) if plain else np.zeros(0, int)
    if separable.size:
        # With two classes, the one map may use one column or both.
        where = f"column {shown(separable)} of X" if len(solution.x) > 1 else "X"
        warn(
            f"The log loss has no minimum: in {where} {separator} separates the class "
            f"from the others, so the slope would grow without bound. Use {remedy}.",
            NoMinimumWarning,
            f"separable by {separator}",
        )
    elif not solution.success:
        warn(
            f"Newton's method did not converge in {solution.nfev + 1} passes over the rows. Check "
            f"X for nearly constant columns{f', and use {remedy}' if plain else ''}.",
            NotConvergedWarning,
        )
