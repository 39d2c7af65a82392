"""What smooth maps of the log-odds share: sigmoids, one versus the rest, fitted by log loss."""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.optimize import OptimizeResult

from skcalib._base import BaseCalibrator
from skcalib._optimize import temperature as of_scale
from skcalib._optimize.logistic import Prior, RowSigmoids, fit_sigmoids
from skcalib._rows import ArrayLike, Bools, Floats, Indices, Rows, arrays as xa
from skcalib._scores.columns import joined, margins
from skcalib._validation.inputs import check_real, fitted_smoothing
from skcalib._validation.labels import shown
from skcalib._warnings import NoMinimumWarning, NotConvergedWarning, warn

# Log-odds further from zero are those of probabilities of 0 and 1 in double precision.
FARTHEST = 1e3

# Rows of a sample for each class that provides starting values, if there are so many log-odds that
# it costs less than the passes that it saves.
ROWS_PER_MAP, MANY_ODDS = 512, 1 << 15

# Features of finite log-odds (m, K), but the constant one: arrays (m, K).
Expand = Callable[[Floats], list[Floats]]


class _OneVsRestScaling(BaseCalibrator):
    """Sigmoids of functions of the log-odds of each class, fitted around temperature scaling.

    The log-odds are those of temperature scaling, mixed with the uniform distribution.
    """

    temperature_: float
    alpha_: float

    _on_device = True
    # Values of alpha that are no numbers.
    _options: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        smoothing: Literal["auto"] | float = "auto",
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(classes=classes)
        self.alpha = alpha
        self.smoothing = smoothing

    @abstractmethod
    def _fit_maps(self, odds: Rows, temperature: float) -> dict[str, Any]:
        """Fitted attributes, from rows of log-odds (n_rows, n_maps), class indices and weights.

        Infinite log-odds are those of masked classes, or of rows in which all others are masked.
        """

    @abstractmethod
    def _scores(self, U: Floats) -> Floats:
        """Calibrated log-odds (m, n_maps) of finite log-odds."""

    def _fit(self, rows: Rows) -> dict[str, Any]:
        check_real("alpha", self.alpha, closed=True, option=self._options)
        smoothing = fitted_smoothing(self.smoothing, rows)
        scale = of_scale.fit_inverse_temperature(rows, smoothing)
        if not scale.is_separable:
            of_scale.warn_of_no_minimum(scale)
        # At the largest temperature no log-odds would be left for slopes and offsets to work with.
        unit = of_scale.SMALLEST_SCALE if scale.outcome == "no_better_than_chance" else 1
        temperature = unit / scale.value
        odds = rows.with_logits(rows.map(partial(_mixed_log_odds, temperature, smoothing)))
        fitted = self._fit_maps(odds, temperature)
        return {**fitted, "temperature_": temperature, "smoothing_": smoothing}

    def _unmixed(self, Z: Floats) -> Floats:
        return xa.finite_unless_masked(lambda _: self._calibrate(Z), Z)

    def _calibrate(self, Z: Floats) -> Floats:
        """As in the base, but of logits with masked classes, which change the mixture."""
        U = _bounded(xa.double(_mixed_log_odds(self.temperature_, self.smoothing_, Z)))
        return joined(xa.astype(self._scores(U), Z.dtype), Z.shape[1])


def _mixed_log_odds(temperature: float, smoothing: float, Z: Floats, *_: Any) -> Floats:
    """Log-odds (m, n_maps) of the mixture that temperature scaling gives, infinite if masked."""
    if Z.shape[1] > 2:
        U = M = margins(of_scale.mixed_logits(temperature, smoothing, Z))
    else:
        M = margins(Z)
        U = of_scale.mixed_logits(temperature, smoothing, M)
    xp = xa.namespace(M)
    finite = xp.isfinite(M)
    if not xa.perhaps(~xp.all(finite)):
        return _bounded(U)
    return xp.where(finite, xp.clip(U, -FARTHEST, FARTHEST), M)


def _bounded(U: Floats) -> Floats:
    """Log-odds, which may be overwritten, no further from zero than is meant for finite ones."""
    if isinstance(U, np.ndarray):
        return np.clip(U, -FARTHEST, FARTHEST, out=U)
    return xa.namespace(U).clip(U, -FARTHEST, FARTHEST)


def fit_maps(
    odds: Rows, expand: Expand, prior: Prior, low: Floats | None = None
) -> tuple[Floats, int]:
    """The best parameters (K, d) for each class, and the number of passes over the rows.

    ``low`` (d,) are lower bounds. The start are parameters of a sample of the rows, or the means of
    the prior.
    """
    features, K = partial(_features, expand), odds.n_columns
    low = None if low is None else np.tile(low, (K, 1))

    def fit(rows: Rows, start: Floats | None) -> tuple[RowSigmoids, OptimizeResult]:
        sigmoids = RowSigmoids.of(rows, features, K, prior, smooth=False)
        start = np.resize(prior.mean, (K, prior.mean.shape[-1])) if start is None else start
        return sigmoids, fit_sigmoids(sigmoids, start, low)

    start = None
    if not odds.is_local or odds.n_rows * K >= MANY_ODDS:
        start = odds.sample(lambda rows: fit(rows, None)[1].x, ROWS_PER_MAP * K)
    sigmoids, found = fit(odds, start)
    plain = not prior.precision.any()
    if plain or not found.success:
        warn_unless_optimal(sigmoids, found, "a map", "alpha=1.0 or another alpha above 0")
    return found.x, found.nfev + 1  # one is for the weights


def _features(expand: Expand, U: Floats, _: Indices) -> tuple[list[Floats], Bools | None]:
    """Features of a block, and which rows count for each class, or None if all do.

    In double precision: log-odds that hardly vary are next to proportional to the constant feature.
    """
    U, xp = xa.double(U), xa.namespace(U)
    counts = xp.isfinite(U)
    if xp.all(counts):
        return expand(U), None
    return expand(xp.where(counts, U, 0.0)), counts


def warn_unless_optimal(
    sigmoids: RowSigmoids, found: OptimizeResult, separator: str, remedy: str
) -> None:
    """Warn of classes that are separable, or that Newton's method has not converged."""
    prior = sigmoids.prior
    plain = not (sigmoids.low if prior is None else prior.precision).any()
    separable = np.flatnonzero(sigmoids.share_wrong(found.x) == 0) if plain else np.zeros(0, int)
    if separable.size:
        # Two classes have a map of one or of both columns.
        where = f"column {shown(separable)} of X" if len(found.x) > 1 else "X"
        warn(
            f"The log loss has no minimum: in {where} {separator} separates the class "
            f"from the others, so that its slope would grow for ever. Use {remedy}.",
            NoMinimumWarning,
            f"separable by {separator}",
        )
    elif not found.success:
        warn(
            f"Newton's method did not converge in {found.nfev + 1} passes over the rows. Check X "
            f"for columns that hardly vary{f', and use {remedy}' if plain else ''}.",
            NotConvergedWarning,
        )
