"""What vector and matrix scaling share: a linear map, fitted by log loss."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import log_softmax

from skcalib._base import BaseCalibrator
from skcalib._engine.blas import with_one_blas_thread
from skcalib._engine.blocks import both_columns
from skcalib._engine.rows import Rows
from skcalib._linear.features import Features, raised
from skcalib._linear.loss import LinearMap, Objective, Regularization, share_wrong
from skcalib._linear.maps import MatrixMap, VectorMap
from skcalib._linear.path import Choice, choose_strength
from skcalib._linear.solver import Solution, best_parameters
from skcalib._linear.temperature import SMALLEST_SCALE
from skcalib._typing import Floats
from skcalib._validation.parameters import check_integer, check_real
from skcalib._warnings import NoMinimumWarning, NotConvergedWarning, warn

from ._temperature import _divided, _fit_scale


class _LinearScaling(BaseCalibrator):
    """What vector and matrix scaling share: a linear map, fitted around temperature scaling."""

    # The map of a fitted calibrator, whose offsets may be zero.
    _fitted_map: ClassVar[VectorMap | MatrixMap]

    alpha: Literal["auto", "loo"] | float
    normalize: bool
    max_iter: int
    tol: float
    coef_: Floats
    intercept_: Floats
    temperature_: float
    normalize_: bool
    alpha_: float
    alphas_: Floats
    loo_losses_: Floats
    loss_: float
    n_iter_: int

    @abstractmethod
    def _map(self) -> VectorMap | MatrixMap:
        """The map from features to scores."""

    def _fit(self, rows: Rows) -> dict[str, Any]:
        check_real("alpha", self.alpha, closed=True, option=("auto", "loo"))
        check_integer("max_iter", self.max_iter)
        check_real("tol", self.tol)
        strength = 1.0 if self.alpha in ("auto", "loo") else float(self.alpha)
        temperature = _fit_scale(rows)
        scale = temperature.value
        if temperature.outcome == "hopeless" and strength == 0:
            scale /= SMALLEST_SCALE  # a map may reverse logits, whose gradients are not to vanish
        made_of = Features.of_log_probabilities if self.normalize else Features.of_scores
        features = made_of(rows, scale)
        K, map_ = features.n_classes, self._map()
        # Without regularization offsets that break ties diverge, to probabilities of 0 and 1.
        ties = temperature.outcome == "tied" and strength == 0
        fixed = ties or temperature.outcome == "separable"
        choice = Choice(strength) if fixed else self._choice(map_, features, strength)
        objective = Objective(map_, features, Regularization.rule(K, rows.weight, choice.alpha))
        search = _unchanged if fixed else _search
        found = with_one_blas_thread(search, objective, self.tol, self.max_iter, choice.start)
        coef, intercept = map_.coefficients(found.x, K)
        return {
            "coef_": coef * (1.0 if self.normalize else scale),
            "intercept_": intercept,
            "temperature_": 1 / scale if self.normalize else 1.0,
            "normalize_": bool(self.normalize),
            "alpha_": choice.alpha,
            "alphas_": choice.alphas,
            "loo_losses_": choice.losses,
            "loss_": found.fun - objective.penalty(found.x),
            "n_iter_": int(choice.nit + found.nit),
        }

    def _choice(self, map_: LinearMap, features: Features, strength: float) -> Choice:
        """The strength, chosen from the data if that is asked for."""
        if self.alpha != "loo":
            return Choice(strength)
        return with_one_blas_thread(choose_strength, map_, features, self.tol, self.max_iter)

    def _calibrate(self, Z: Floats) -> Floats:
        theta = np.concatenate([self.coef_.ravel(), self.intercept_]).astype(Z.dtype)
        F = both_columns(_divided(Z, self.temperature_))
        if self.normalize_:
            F = raised(log_softmax(F, axis=1))
        S = self._fitted_map.scores(theta, F)
        return S[:, 1:] - S[:, :1] if Z.shape[1] == 1 else S


def _unchanged(objective: Objective, *_: Any) -> Solution:
    """The parameters that leave the features as they are."""
    return Solution(objective.identity, *objective.in_double().value_gradient(objective.identity))


def _search(objective: Objective, tol: float, max_iter: int, start: Floats | None) -> Solution:
    """Best parameters, with a warning if they are not optimal."""
    found = best_parameters(objective, tol, max_iter, start)
    plain = not objective.ridge.any()
    if plain and not share_wrong(found.x, objective.map_, objective.features):
        warn(
            "The log loss has no minimum: a map was found that classifies every row correctly "
            f"(separable rows), and the loss, {found.fun:.1e} so far, tends to zero as it grows. "
            "Use alpha='auto' or another alpha above 0, or calibrate on more rows.",
            NoMinimumWarning,
            "separable by a map",
        )
    elif not found.success:
        length = np.linalg.norm(found.jac)
        limited = found.nit >= max_iter
        where = "" if limited else ", where no step lowers the objective"
        why = ": with alpha=0 there is no optimum if some rows are separable" if plain else ""
        warn(
            f"The fit stopped after {found.nit} iterations at a gradient of norm {length:.1e}, "
            f"above tol={tol:g}{where}. "
            f"Increase {'max_iter' if limited else 'tol'} or alpha{why}.",
            NotConvergedWarning,
            "max_iter" if limited else "tol",
        )
    return found
