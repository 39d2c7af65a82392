"""Spline calibration: a natural cubic spline of the log-odds for each class."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from skcalib._base import BaseCalibrator
from skcalib._engine.rows import Rows
from skcalib._linear.mixed import mix_logits
from skcalib._linear.natural_spline import evaluate
from skcalib._linear.path import ALPHAS
from skcalib._linear.spline_fit import Splines
from skcalib._linear.temperature import fit_scale
from skcalib._scores.one_vs_rest import joined, margins
from skcalib._typing import Floats
from skcalib._validation.parameters import check_integer, check_real
from skcalib._warnings import NotConvergedWarning, warn

from ._order_preserving import PRIOR_STRENGTH, _log_probabilities
from ._temperature import _fitted_smoothing, _warn_of_no_minimum

__all__ = ["SplineCalibration"]

# Margins are no farther from zero. They are only with a smoothing of zero.
FARTHEST = 1e3

# Targets are mixed with the uniform distribution by this share of 1 / (N + 1): enough for rows that
# a threshold separates, and too little to matter elsewhere.
TARGET_SHARE = 0.2

# The strength has a log-normal prior about 1: within this factor of it with two in three.
LIKELY_FACTOR = 3.0


class SplineCalibration(BaseCalibrator):
    """Spline."""

    def __init__(
        self,
        *,
        n_knots: int = 6,
        alpha: Literal["auto", "loo"] | float = "loo",
        smoothing: Literal["auto"] | float = "auto",
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(classes=classes)
        self.n_knots = n_knots
        self.alpha = alpha
        self.smoothing = smoothing

    def _fit(self, rows: Rows) -> dict[str, Any]:
        check_integer("n_knots", self.n_knots, least=2)
        check_real("alpha", self.alpha, closed=True, option=("auto", "loo"))
        smoothing, scale = _fitted_smoothing(self.smoothing, rows), fit_scale(rows)
        if not scale.is_separable:
            _warn_of_no_minimum(scale)
        rows = rows.with_logits(rows.map(partial(_margins, 1 / scale.value, smoothing)))
        splines = Splines.of(rows, self.n_knots, TARGET_SHARE / (rows.weight + 1))
        alphas = ALPHAS if self.alpha == "loo" else np.array([_number(self.alpha)])
        starts, losses = splines.path(PRIOR_STRENGTH * alphas)
        penalties = losses + (np.log(alphas) / np.log(LIKELY_FACTOR)) ** 2 / 2
        best = int(np.argmin(penalties))
        theta, n_passes, converged = splines.fit(PRIOR_STRENGTH * alphas[best], starts[best])
        return {
            "knots_": splines.knots,
            "values_": splines.values(theta),
            "temperature_": 1 / scale.value,
            "smoothing_": smoothing,
            "alpha_": float(alphas[best]),
            "alphas_": alphas,
            "loo_losses_": losses / rows.weight,
            "n_iter_": n_passes,
        }

    def _calibrated(self, Z: Floats) -> Floats:
        L = _log_probabilities(self.temperature_, self.smoothing_, Z)
        S = super()._calibrated(L)
        return mix_logits(S[:, 1:] - S[:, :1] if Z.shape[1] == 1 else S, self.smoothing_)

    def _calibrate(self, L: Floats) -> Floats:
        M = np.clip(margins(L), -FARTHEST, FARTHEST, dtype=np.float64)
        low, high = self.knots_[:, 0], self.knots_[:, -1]
        S = evaluate((M - low) / (high - low), self.values_)
        return joined(S.astype(L.dtype, copy=False), L.shape[1])


def _number(alpha: Literal["auto"] | float) -> float:
    return 1.0 if alpha == "auto" else float(alpha)


def _margins(temperature: float, smoothing: float, Z: Floats, *_: Any) -> Floats:
    """Log-odds (m, K) of each class in the mixture, infinite where one is masked."""
    M = margins(_log_probabilities(temperature, smoothing, Z))
    return np.where(np.isfinite(M), np.clip(M, -FARTHEST, FARTHEST), M).astype(Z.dtype, copy=False)
