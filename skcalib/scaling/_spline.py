"""Spline calibration: a natural cubic spline of the log-odds for each class."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from skcalib._engine.blas import with_one_blas_thread
from skcalib._engine.rows import Rows
from skcalib._linear.natural_spline import evaluate, powers_of_values
from skcalib._linear.path import ALPHAS
from skcalib._linear.spline_fit import Splines
from skcalib._typing import Floats
from skcalib._validation.parameters import check_integer, check_real
from skcalib._warnings import NotConvergedWarning, warn

from ._one_vs_rest import _OneVsRestScaling
from ._order_preserving import PRIOR_STRENGTH

__all__ = ["SplineCalibration"]

# Targets are mixed with the uniform distribution by this share of 1 / (N + 1): enough for rows that
# a threshold separates, and too little to matter elsewhere.
TARGET_SHARE = 0.2

# The strength has a log-normal prior about 1: within this factor of it with two in three.
LIKELY_FACTOR = 3.0


class SplineCalibration(_OneVsRestScaling):
    """Spline."""

    knots_: Floats
    values_: Floats
    alphas_: Floats
    loo_losses_: Floats
    n_iter_: int

    def __init__(
        self,
        *,
        n_knots: int = 6,
        alpha: Literal["auto", "loo"] | float = "loo",
        increasing: bool = False,
        smoothing: Literal["auto"] | float = "auto",
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(alpha=alpha, smoothing=smoothing, classes=classes)
        self.n_knots = n_knots
        self.increasing = increasing

    def _fit(self, rows: Rows) -> dict[str, Any]:
        check_integer("n_knots", self.n_knots, least=2)
        check_real("alpha", self.alpha, closed=True, option=("auto", "loo"))
        return self._fit_around_temperature(rows, 0)  # lines are not regularized

    def _fit_maps(self, odds: Rows, temperature: float, alpha: float) -> dict[str, Any]:
        return with_one_blas_thread(self._fit_splines, odds)

    def _fit_splines(self, odds: Rows) -> dict[str, Any]:
        splines = Splines.of(odds, self.n_knots, TARGET_SHARE / (odds.weight + 1))
        alphas = ALPHAS if self.alpha == "loo" else np.array([_number(self.alpha)])
        starts, losses = splines.path(PRIOR_STRENGTH * alphas)
        best = _most_probable(alphas, losses)
        strength = PRIOR_STRENGTH * alphas[best]
        fitted = splines.fit(strength, starts[best], increasing=self.increasing)
        theta, n_passes, converged = fitted
        if not converged:
            warn(
                f"Newton's method did not converge in {n_passes} passes over the rows. Increase "
                "alpha, or use fewer knots.",
                NotConvergedWarning,
            )
        chosen = len(alphas) > 1
        return {
            "knots_": splines.knots(),
            "values_": splines.values_of(theta),
            "alpha_": float(alphas[best]),
            "alphas_": alphas.copy() if chosen else np.empty(0),
            "loo_losses_": losses / odds.weight if chosen else np.empty(0),
            "n_iter_": n_passes,
        }

    def _scores(self, U: Floats) -> Floats:
        low, high = self.knots_[:, 0], self.knots_[:, -1]
        coefficients = powers_of_values(self.knots_.shape[1]) @ self.values_.T
        return evaluate((U - low) / (high - low), coefficients)


def _number(alpha: Literal["auto"] | float) -> float:
    return 1.0 if alpha == "auto" else float(alpha)


def _most_probable(alphas: Floats, losses: Floats) -> int:
    """Where the sum of leave-one-out losses and minus the log of the prior is least."""
    if len(alphas) == 1:  # it may be 0
        return 0
    prior = (np.log(alphas) / np.log(LIKELY_FACTOR)) ** 2 / 2
    return int(np.argmin(losses + prior))
