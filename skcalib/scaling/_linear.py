"""What vector, matrix and Dirichlet scaling share: a linear map, fitted by log loss."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from skcalib._base import finite_unless_masked
from skcalib._engine.array_api import astype, namespace
from skcalib._engine.blas import with_one_blas_thread
from skcalib._engine.blocks import both_columns, flat, log_softmax
from skcalib._engine.rows import Rows
from skcalib._linear.features import Features, raised
from skcalib._linear.loss import Objective, Regularization, share_wrong
from skcalib._linear.maps import MatrixMap, VectorMap
from skcalib._linear.mixed import mix_logits
from skcalib._linear.path import Choice, choose_strength
from skcalib._linear.solver import Solution, best_parameters
from skcalib._linear.temperature import SMALLEST_SCALE, FittedScale, fit_scale
from skcalib._typing import Floats
from skcalib._validation.parameters import check_flag, check_integer, check_real
from skcalib._warnings import NoMinimumWarning, NotConvergedWarning, warn

from ._temperature import _divided, _fitted_smoothing, _Smoothed, _warn_of_no_minimum

# Number of log-probabilities of a mixture that are stored; more are made in each pass.
MOST_STORED = 1 << 22


class Prepared(NamedTuple):
    """What a linear map is fitted to."""

    temperature: FittedScale
    smoothing: float
    features: Features


class _LinearScaling(_Smoothed):
    """What vector, matrix and Dirichlet scaling share: a linear map around temperature scaling."""

    _on_device = True
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
        self._check_parameters()
        return self._fit_map(self._prepared(rows), None)

    def _check_parameters(self) -> None:
        check_real("alpha", self.alpha, closed=True, option=("auto", "loo"))
        check_integer("max_iter", self.max_iter)
        check_real("tol", self.tol)
        check_flag("normalize", self.normalize)

    def _prepared(self, rows: Rows) -> Prepared:
        """Features, which maps with other strengths above 0 can share."""
        smoothing = _fitted_smoothing(self.smoothing, rows)
        temperature = _fit_temperature(rows, self._strength())
        features = _features(rows, temperature.value, smoothing, normalize=self.normalize)
        return Prepared(temperature, smoothing, features)

    def _strength(self) -> float:
        return 1.0 if self.alpha in ("auto", "loo") else float(self.alpha)

    def _chooses_strength(self) -> bool:
        return self.alpha == "loo"

    def _regularization(self, K: int, weight: float, alpha: float) -> Regularization:
        """That of a strength, as a multiple of the rule, for rows of this weight."""
        return Regularization.rule(K, weight, alpha)

    def _fit_map(self, prepared: Prepared, start: Floats | None) -> dict[str, Any]:
        """Fitted attributes, found from parameters to start from if they are given."""
        temperature, smoothing, features = prepared
        K, map_, scale = features.n_classes, self._map(), temperature.value
        # Without regularization slopes, or offsets that break ties, diverge.
        fixed = temperature.is_separable and self._strength() == 0
        choice = Choice(self._strength(), start=start)
        if self._chooses_strength():
            args = map_, features, self.tol, self.max_iter, self._regularization
            choice = with_one_blas_thread(choose_strength, *args)
        regularization = self._regularization(K, features.rows.weight, choice.alpha)
        objective = Objective(map_, features, regularization)
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
            "smoothing_": smoothing,
            "loss_": found.fun - objective.penalty(found.x),
            "n_iter_": int(choice.nit + found.nit),
        }

    def _unmixed(self, Z: Floats) -> Floats:
        if self.normalize_:
            Z = _mixed(self.temperature_, self.smoothing_, Z)
        return super()._unmixed(Z)

    def _calibrate(self, Z: Floats) -> Floats:
        theta = astype(flat(self.coef_, self.intercept_), Z.dtype)
        F = both_columns(Z)
        if self.normalize_:
            # Several logits of a mixture are its log-probabilities.
            mixed = self.smoothing_ > 0 and F is Z
            F = raised(F if mixed else log_softmax(F))
        S = self._fitted_map.scores(theta, F)
        return S[:, 1:] - S[:, :1] if Z.shape[1] == 1 else S


def _fit_temperature(rows: Rows, strength: float) -> FittedScale:
    """The scale that the map starts from, with a warning if neither has a minimum."""
    scale = fit_scale(rows)
    if not scale.is_separable or strength == 0:  # a ridge penalty gives the map a minimum
        _warn_of_no_minimum(scale)
    if scale.outcome == "hopeless" and strength == 0:
        # The map may reverse logits, whose gradients are not to vanish.
        return replace(scale, value=scale.value / SMALLEST_SCALE)
    return scale


def _features(rows: Rows, scale: float, smoothing: float, *, normalize: bool) -> Features:
    """Log-probabilities of the mixture that temperature scaling gives, or the scaled logits."""
    if not normalize:
        return Features.of_scores(rows, scale)
    if smoothing > 0 and rows.n_rows * rows.n_columns > MOST_STORED:
        return replace(Features.of_log_probabilities(rows, scale), smoothing=smoothing)
    if smoothing > 0:  # logarithms of a mixture would double the time of each pass
        return Features.of_stored(rows, partial(_log_mixture, 1 / scale, smoothing))
    return Features.of_log_probabilities(rows, scale)


def _mixed(temperature: float, smoothing: float, Z: Floats, *_: Any) -> Floats:
    """Logits of the mixture that temperature scaling gives."""
    if Z.shape[1] > 1:  # else constants of rows leave rounding errors of their size
        Z = Z - namespace(Z).max(Z, axis=1, keepdims=True)
    scaled = finite_unless_masked(partial(_divided, temperature=temperature), Z)
    return mix_logits(scaled, smoothing)


def _log_mixture(temperature: float, smoothing: float, Z: Floats, *_: Any) -> Floats:
    """Its log-probabilities, with one column per class."""
    L = _mixed(temperature, smoothing, Z)
    return L if Z.shape[1] > 1 else log_softmax(L)


def _unchanged(objective: Objective, *_: Any) -> Solution:
    """The parameters that leave the features as they are."""
    return Solution(objective.identity, *objective.in_double().value_gradient(objective.identity))


def _search(objective: Objective, tol: float, max_iter: int, start: Floats | None) -> Solution:
    """Best parameters, with a warning if they are not optimal."""
    found = best_parameters(objective, tol, max_iter, start)
    # Intercepts alone separate no rows.
    plain = not objective.ridge[: -objective.features.n_classes].all()
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
