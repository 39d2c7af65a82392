"""What vector, matrix and Dirichlet scaling share: linear maps, fitted by log loss."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy.optimize import OptimizeResult

from skcalib._base import BaseCalibrator
from skcalib._optimize import loss, temperature
from skcalib._optimize.leave_one_out import Choice, choose_strength
from skcalib._optimize.maps import MatrixMap, VectorMap
from skcalib._optimize.minimize import best_parameters
from skcalib._rows import Floats, Rows, arrays as xa
from skcalib._rows.parallel import with_one_blas_thread
from skcalib._validation import inputs
from skcalib._warnings import NoMinimumWarning, NotConvergedWarning, warn

# Number of features that are stored; more are made in each pass.
MOST_STORED = 1 << 22


# Regularization of K classes, rows of some weight, and a multiple.
Rule = Callable[[int, float, float], loss.Regularization]


class Spec(NamedTuple):
    """A linear map that is to be fitted."""

    map_: VectorMap | MatrixMap
    strengths: tuple[Any, ...]  #: numbers, "auto", or "loo" for the choice from the rows
    rule: Rule
    smoothing: Literal["auto"] | float
    normalize: bool
    max_iter: int
    tol: float


class _LinearScaling(BaseCalibrator):
    """What vector, matrix and Dirichlet scaling share: a linear map around temperature scaling."""

    _on_device = True
    # The map of a fitted calibrator, whose offsets may be zero.
    _fitted_map: ClassVar[VectorMap | MatrixMap]

    alpha: Literal["auto", "loo"] | float
    smoothing: Literal["auto"] | float
    normalize: bool
    max_iter: int
    tol: float
    coef_: Floats
    intercept_: Floats
    temperature_: float
    smoothing_: float
    normalize_: bool
    alpha_: float
    alphas_: Floats
    loo_losses_: Floats
    loss_: float
    n_iter_: int

    @abstractmethod
    def _spec(self) -> Spec:
        """The map and its regularization, from checked parameters."""

    def _fit(self, rows: Rows) -> dict[str, Any]:
        return fit_linear_maps(rows, [self._spec()])[0]

    def _checked_spec(self, map_: VectorMap | MatrixMap, *strengths: Any, rule: Rule) -> Spec:
        """The same from a map, strengths, and a rule that gives the regularization."""
        for name, strength in zip(("alpha", "alpha_intercept"), strengths, strict=False):
            inputs.check_real(name, strength, closed=True, option=("auto", "loo"))
        inputs.check_integer("max_iter", self.max_iter)
        inputs.check_real("tol", self.tol)
        inputs.check_flag("normalize", self.normalize)
        return Spec(map_, strengths, rule, self.smoothing, self.normalize, self.max_iter, self.tol)

    def _unmixed(self, Z: Floats) -> Floats:
        F = xa.both_columns(Z)
        if self.normalize_:
            F = temperature.log_mixture(self.temperature_, self.smoothing_, Z)
        S = super()._unmixed(F)
        return S[:, 1:] - S[:, :1] if Z.shape[1] == 1 else S

    def _calibrate(self, F: Floats) -> Floats:
        theta = xa.astype(xa.flat(self.coef_, self.intercept_), F.dtype)
        return self._fitted_map.scores(theta, loss.raised(F) if self.normalize_ else F)


def fit_linear_maps(rows: Rows, specs: Sequence[Spec]) -> list[dict[str, Any]]:
    """Fitted attributes of linear maps of the same features.

    Each starts from where the one before of its kind ended: fits are fastest in the order of
    decreasing strengths.
    """
    first = specs[0]
    smoothing = inputs.fitted_smoothing(first.smoothing, rows)
    scale = _fit_temperature(rows, plain=not any(first.strengths))
    shared = _objective(rows, first, scale.value, smoothing)
    ends: dict[Any, Floats] = {}
    fitted = []
    for spec in specs:
        fit = partial(_fit_map, replace(shared, map_=spec.map_), spec, scale)
        objective, choice, solution = with_one_blas_thread(fit, ends.get(spec.map_))
        ends[spec.map_] = solution.x
        coef, intercept = spec.map_.coefficients(solution.x, objective.n_classes)
        attributes = {
            "coef_": coef * (1.0 if spec.normalize else scale.value),
            "intercept_": intercept,
            "temperature_": 1 / scale.value if spec.normalize else 1.0,
            "normalize_": bool(spec.normalize),
            "alpha_": choice.alpha,
            "alphas_": choice.alphas,
            "loo_losses_": choice.losses,
            "smoothing_": smoothing,
            "loss_": solution.fun - objective.penalty(solution.x),
            "n_iter_": int(choice.nit + solution.nit),
        }
        fitted.append(attributes)
    return fitted


def _fit_map(
    objective: loss.Objective,
    spec: Spec,
    scale: temperature.InverseTemperature,
    start: Floats | None,
) -> tuple[loss.Objective, Choice, OptimizeResult]:
    """The objective of the strength that is given or chosen, the choice, and the solution."""
    rule = partial(spec.rule, objective.n_classes, objective.rows.weight)

    def objective_of(alpha: float) -> loss.Objective:
        return replace(objective, regularization=rule(alpha))

    if "loo" in spec.strengths:
        choice = choose_strength(objective_of, spec.tol, spec.max_iter)
    else:
        strength = spec.strengths[0]
        choice = Choice(1.0 if strength == "auto" else float(strength), start=start)
    objective = objective_of(choice.alpha)
    if scale.is_separable and not any(spec.strengths):
        # Without regularization slopes, or offsets that break ties, diverge.
        x = objective.identity
        fun = replace(objective, double=True).value_gradient(x)[0]
        return objective, choice, OptimizeResult(x=x, fun=fun, nit=0)
    solution = best_parameters(objective, spec.tol, spec.max_iter, choice.start)
    if not (solution.success and objective.ridge.all()):
        _warn_unless_optimal(solution, objective, spec)
    return objective, choice, solution


def _fit_temperature(rows: Rows, *, plain: bool) -> temperature.InverseTemperature:
    """The scale that the map starts from, with a warning if neither has a minimum.

    ``plain`` says that there is no regularization, which would give the map one.
    """
    scale = temperature.fit_inverse_temperature(rows)
    if not scale.is_separable or plain:
        temperature.warn_of_no_minimum(scale)
    if scale.outcome == "no_better_than_chance" and plain:
        # The map may reverse logits, whose gradients are not to vanish.
        return replace(scale, value=scale.value / temperature.SMALLEST_SCALE)
    return scale


def _objective(rows: Rows, spec: Spec, scale: float, smoothing: float) -> loss.Objective:
    """Log loss of a map of the log-probabilities of temperature scaling, or of scaled logits."""

    def scaled(Z: Floats, *_: Any) -> Floats:
        xp = xa.namespace(Z)
        with np.errstate(over="ignore"):
            F = xa.both_columns(Z) * float(scale)
        # Masked classes are far below the largest of their row.
        return xp.where(-np.inf == F, xp.max(F, axis=1, keepdims=True) + loss.LOWEST_FEATURE, F)

    make = partial(loss.log_features, 1 / scale, smoothing) if spec.normalize else scaled
    masks = rows.masked and spec.normalize and isinstance(spec.map_, VectorMap)
    if rows.n_rows * rows.n_columns > MOST_STORED:
        return loss.Objective(spec.map_, rows, make_features=make, masks=masks)
    return loss.Objective(spec.map_, rows.with_logits(rows.map(make, order="F")), masks=masks)


def _warn_unless_optimal(solution: OptimizeResult, objective: loss.Objective, spec: Spec) -> None:
    """Warn of parameters that are not those of a minimum, and say why."""
    # Intercepts alone, the last parameters, separate no rows.
    K = objective.n_classes
    plain = not objective.ridge[: max(K, len(objective.ridge) - K)].all()
    if plain and not objective.share_wrong(solution.x):
        warn(
            "The log loss has no minimum: a map was found that classifies every row correctly "
            f"(separable rows), and the loss, {solution.fun:.1e} so far, tends to zero as it "
            "grows. Use alpha='auto' or another alpha above 0, or calibrate on more rows.",
            NoMinimumWarning,
            "separable by a map",
        )
    elif not solution.success:
        length = np.linalg.norm(solution.jac)
        limited = solution.nit >= spec.max_iter
        where = "" if limited else ", where no step lowers the objective"
        why = ": with alpha=0 there is no optimum if some rows are separable" if plain else ""
        warn(
            f"The fit stopped after {solution.nit} iterations at a gradient of norm {length:.1e}, "
            f"above tol={spec.tol:g}{where}. "
            f"Increase {'max_iter' if limited else 'tol'} or alpha{why}.",
            NotConvergedWarning,
            "max_iter" if limited else "tol",
        )
