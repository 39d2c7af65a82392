"""What smooth maps of the log-odds share: sigmoids, one versus the rest, fitted by log loss."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from skcalib._base import finite_unless_masked
from skcalib._engine.array_api import astype, namespace
from skcalib._engine.blocks import double
from skcalib._engine.rows import Rows
from skcalib._linear.logistic import Logistic, fit_logistic
from skcalib._linear.temperature import SMALLEST_SCALE, fit_scale
from skcalib._scores.one_vs_rest import joined, margins
from skcalib._typing import Bools, Floats, Indices
from skcalib._validation.labels import shown
from skcalib._validation.parameters import check_real
from skcalib._warnings import NoMinimumWarning, NotConvergedWarning, warn

from ._linear import _mixed
from ._temperature import _fitted_smoothing, _Smoothed, _warn_of_no_minimum

# Log-odds further from zero are those of probabilities of 0 and 1 in double precision.
FARTHEST = 1e3

# Rows of a sample for each class that provides starting values, if there are so many log-odds that
# it costs less than the passes that it saves.
ROWS_PER_MAP, MANY_ODDS = 512, 1 << 15

# Features of finite log-odds (m, K), but the constant one: arrays (m, K).
Expand = Callable[[Floats], list[Floats]]


class _OneVsRestScaling(_Smoothed):
    """Sigmoids of functions of the log-odds of each class, fitted around temperature scaling.

    The log-odds are those of temperature scaling, mixed with the uniform distribution.
    """

    _on_device = True

    alpha: Literal["auto", "loo"] | float
    temperature_: float
    alpha_: float

    @abstractmethod
    def _fit_maps(self, odds: Rows, temperature: float, alpha: float) -> dict[str, Any]:
        """Fitted attributes, from rows of log-odds (n_rows, n_maps), class indices and weights.

        Infinite log-odds are those of masked classes, or of rows in which all others are masked.
        """

    @abstractmethod
    def _scores(self, U: Floats) -> Floats:
        """Calibrated log-odds (m, n_maps) of finite log-odds."""

    def _fit(self, rows: Rows) -> dict[str, Any]:
        check_real("alpha", self.alpha, closed=True, option="auto")
        alpha = 1.0 if self.alpha == "auto" else float(self.alpha)
        return {**self._fit_around_temperature(rows, alpha), "alpha_": alpha}

    def _fit_around_temperature(self, rows: Rows, alpha: float) -> dict[str, Any]:
        """The temperature, the share of the uniform distribution, and what is fitted to them."""
        smoothing = _fitted_smoothing(self.smoothing, rows)
        temperature = _fit_temperature(rows)
        odds = rows.with_logits(rows.map(partial(_mixed_log_odds, temperature, smoothing)))
        return {
            **self._fit_maps(odds, temperature, alpha),
            "temperature_": temperature,
            "smoothing_": smoothing,
        }

    def _unmixed(self, Z: Floats) -> Floats:
        return finite_unless_masked(lambda _: self._calibrate(Z), Z)

    def _calibrate(self, Z: Floats) -> Floats:
        """As in the base, but of logits with masked classes, which change the mixture."""
        U = _bounded(double(_mixed_log_odds(self.temperature_, self.smoothing_, Z)))
        return joined(astype(self._scores(U), Z.dtype), Z.shape[1])


def _fit_temperature(rows: Rows) -> float:
    """The temperature, with a warning if there is none, but for separable rows."""
    scale = fit_scale(rows)
    if not scale.is_separable:
        _warn_of_no_minimum(scale)
    # At the largest temperature no log-odds would be left that slopes and offsets can work with.
    return (SMALLEST_SCALE if scale.outcome == "hopeless" else 1) / scale.value


def _mixed_log_odds(temperature: float, smoothing: float, Z: Floats, *_: Any) -> Floats:
    """Log-odds (m, n_maps) of the mixture that temperature scaling gives, infinite if masked."""
    if Z.shape[1] > 2:
        U = M = margins(_mixed(temperature, smoothing, Z))
    else:
        M = margins(Z)
        U = _mixed(temperature, smoothing, M)
    xp = namespace(M)
    finite = xp.isfinite(M)
    if xp.all(finite):
        return _bounded(U)
    return xp.where(finite, xp.clip(U, -FARTHEST, FARTHEST), M)


def _bounded(U: Floats) -> Floats:
    """Log-odds, which may be overwritten, no further from zero than is meant for finite ones."""
    if isinstance(U, np.ndarray):
        return np.clip(U, -FARTHEST, FARTHEST, out=U)
    return namespace(U).clip(U, -FARTHEST, FARTHEST)


# Parameters (K, d), the number of passes over the rows, and whether Newton's method has converged.
Fitted = tuple[Floats, int, bool]


@dataclass(frozen=True)
class Prior:
    """Independent normal priors of parameters: their means, and one over their variances: (d,)."""

    mean: Floats
    precision: Floats


def problem_of(odds: Rows, expand: Expand, prior: Prior) -> Logistic:
    """The logistic regressions of rows of log-odds, with the same prior for each."""
    shape = len(prior.mean) - 1, odds.n_columns
    features = partial(_features, expand)
    plain = Logistic.of(odds, features, np.ones(shape), np.zeros(shape), smooth=False)
    ridge = prior.precision / 2 / plain.weight[:, None]
    return replace(plain, ridge=ridge, centre=np.broadcast_to(prior.mean, ridge.shape))


def _features(expand: Expand, U: Floats, _: Indices) -> tuple[list[Floats], Bools | None]:
    """Features of a block, and which rows count for each class, or None if all do.

    In double precision: log-odds that hardly vary are next to proportional to the constant feature.
    """
    U, xp = double(U), namespace(U)
    counts = xp.isfinite(U)
    if xp.all(counts):
        return expand(U), None
    return expand(xp.where(counts, U, 0.0)), counts


def fit_maps(odds: Rows, expand: Expand, prior: Prior) -> tuple[Floats, int]:
    """The best parameters (K, d) for each class, and the number of passes over the rows."""
    fitted = best_maps(odds, expand, prior)
    warn_unless_optimal(odds, expand, prior, fitted)
    return fitted[:2]


def best_maps(odds: Rows, expand: Expand, prior: Prior) -> Fitted:
    """The best maps, without a warning if there are none.

    The start are parameters of a sample of the rows, or the means of the prior.
    """
    start = None
    if not odds.passes_are_cheap or odds.n_rows * odds.n_columns >= MANY_ODDS:
        of_sample = partial(_fit_sample, expand, prior)
        start = odds.sample(of_sample, ROWS_PER_MAP * odds.n_columns)
    problem = problem_of(odds, expand, prior)
    if start is None:
        start = np.tile(prior.mean, (odds.n_columns, 1))
    return fit_logistic(problem, start)


def _fit_sample(expand: Expand, prior: Prior, odds: Rows) -> Floats:
    start = np.tile(prior.mean, (odds.n_columns, 1))
    return fit_logistic(problem_of(odds, expand, prior), start)[0]


def warn_unless_optimal(odds: Rows, expand: Expand, prior: Prior, fitted: Fitted) -> None:
    """Warn of classes that are separable, or that Newton's method has not converged."""
    theta, n_passes, converged = fitted
    plain, separable = not prior.precision.any(), np.zeros(0, int)
    if plain:
        share_wrong = problem_of(odds, expand, prior).share_wrong(theta)
        separable = np.flatnonzero(share_wrong == 0)
    separable += len(theta) == 1  # two classes have a map for the second
    if separable.size:
        warn(
            f"The log loss has no minimum: in column {shown(separable)} of X the map separates the "
            "class from the others, so that its slopes would grow for ever. Use alpha='auto' or "
            "another alpha above 0.",
            NoMinimumWarning,
            "separable by a map",
        )
    elif not converged:
        warn(
            f"Newton's method did not converge in {n_passes} passes over the rows. Check X for "
            f"columns that hardly vary{', and use a larger alpha' if plain else ''}.",
            NotConvergedWarning,
        )
