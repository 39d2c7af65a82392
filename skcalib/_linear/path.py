"""Fits along decreasing regularization strengths, and the choice of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from skcalib._typing import Floats

from .features import Features
from .leave_one_out import leave_one_out_loss
from .loss import LinearMap, Objective, Regularization
from .solver import Solution, best_parameters

# Strengths that are tried, as multiples of the rule.
ALPHAS = np.array([30, 10, 3, 1, 0.3, 0.1, 0.03, 0.01, 0.003])

# Gradient norm that is enough to compare strengths.
PATH_TOL = 3e-4


def path(
    map_: LinearMap,
    features: Features,
    regularizations: Iterable[Regularization],
    tol: float,
    max_iter: int,
) -> Iterator[Solution]:
    """Best parameters for each regularization, from the strongest on, each the next one's start."""
    start = None
    for regularization in regularizations:
        objective = Objective(map_, features, regularization)
        found = best_parameters(objective, tol, max_iter, start)
        yield found
        start = found.x


@dataclass(frozen=True)
class Choice:
    """A strength, as a multiple of the rule, and how it was found."""

    alpha: float
    alphas: Floats = field(default_factory=lambda: np.empty(0))  #: strengths that were tried
    losses: Floats = field(default_factory=lambda: np.empty(0))  #: their estimated losses
    start: Floats | None = None  #: parameters from which to start the fit
    nit: int = 0  #: iterations of all fits


def choose_strength(
    map_: LinearMap,
    features: Features,
    tol: float,
    max_iter: int,
    rule: Callable[[int, float, float], Regularization] = Regularization.rule,
) -> Choice:
    """The strength of the least approximate leave-one-out log loss.

    ``rule`` gives the regularization for a number of classes, a weight of the rows, and a strength.

    The path ends where the estimate rises: estimates for much weaker strengths may be too low,
    where parameters are many for the rows.
    """
    regularizations = [
        rule(features.n_classes, features.rows.weight, float(alpha)) for alpha in ALPHAS
    ]
    fits: list[Solution] = []
    losses: list[float] = []
    found = path(map_, features, regularizations, max(tol, PATH_TOL), max_iter)
    for regularization, solution in zip(regularizations, found, strict=True):
        objective = Objective(map_, features, regularization)
        fits.append(solution)
        losses.append(leave_one_out_loss(objective, solution.x))
        if losses[-1] > min(losses):
            break
    best = int(np.argmin(losses))
    tried, nit = ALPHAS[: len(losses)].copy(), sum(fit.nit for fit in fits)
    return Choice(float(tried[best]), tried, np.array(losses), fits[best].x, nit)
