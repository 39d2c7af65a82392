r"""Natural cubic splines with equally spaced knots, as functions of their values at the knots.

On knots :math:`t_j = j / (J - 1)` of the unit interval a natural cubic spline is

.. math:: s(u) = r_0 + r_1 u + \sum_{j=0}^{J-2} r_{j+2} (u - t_j)_+^3 ,

linear outside of the interval, so that its J values at the knots determine it. Its roughness
:math:`\int s''(u)^2 du` is a quadratic form in them (Green and Silverman, "Nonparametric Regression
and Generalized Linear Models", 1994, section 2.1). Other knots are a change of units.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from skcalib._engine.array_api import at_least, into, like, namespace
from skcalib._typing import Floats


def curvatures_of_values(n_knots: int) -> Floats:
    """The matrix (J, J) from values at the knots to second derivatives there."""
    h, each = 1 / (n_knots - 1), np.eye(n_knots)
    overlap = h / 6 * (4 * each + np.eye(n_knots, k=1) + np.eye(n_knots, k=-1))[1:-1, 1:-1]
    found = np.zeros((n_knots, n_knots))
    found[1:-1] = np.linalg.solve(overlap, np.diff(each, n=2, axis=0) / h)
    return found


def slopes_of_values(n_knots: int) -> Floats:
    """The matrix (J - 1, J) from values at the knots to coefficients of the slope.

    They are those of quadratic B-splines, which are positive and sum to 1: the spline increases if
    all are positive (Ramsay, "Monotone regression splines in action", 1988). At the ends of the
    interval, where the slope is stationary, they are its values.
    """
    h = 1 / (n_knots - 1)
    each, bend = np.diff(np.eye(n_knots), axis=0), np.diff(curvatures_of_values(n_knots), axis=0)
    return each / h - h / 6 * bend


def powers_of_values(n_knots: int) -> Floats:
    """The matrix (J + 1, J) from values at the knots to the coefficients of :func:`powers`."""
    h, values = 1 / (n_knots - 1), np.eye(n_knots)
    bend = np.diff(curvatures_of_values(n_knots), axis=0)
    slope = (values[1] - values[0]) / h - h / 6 * bend[0]
    return np.vstack([values[0], slope, np.diff(bend, axis=0, prepend=0) / (6 * h)])


def smooth_basis(n_knots: int) -> Floats:
    """Values at the knots of J splines that span all: (J, J), a column for each.

    The last one is 1 and the one before ``u - 1/2``. The others have roughness 1, are orthogonal
    with respect to it, and to lines at the knots.
    """
    knots = np.linspace(0, 1, n_knots)
    bend, h = curvatures_of_values(n_knots), 1 / (n_knots - 1)
    # The second derivative is linear between the knots.
    left, right = bend[:-1], bend[1:]
    rough = h / 3 * (left.T @ left + right.T @ right + left.T @ right / 2 + right.T @ left / 2)
    sizes, vectors = np.linalg.eigh(rough)
    return np.column_stack([vectors[:, 2:] / np.sqrt(sizes[2:]), knots - 0.5, np.ones(n_knots)])


def powers(U: Floats, n_knots: int) -> Iterator[Floats]:
    """The functions 1, u and cubes above the knots but the last, linear outside of the interval.

    The cubes are in the same array, which the next one overwrites.
    """
    xp = namespace(U)
    yield xp.ones_like(U)
    yield U
    inside, above = xp.clip(U, 0.0, 1.0), at_least(U - 1, 0)
    distance, out = xp.empty_like(U), xp.empty_like(U)
    for j in range(n_knots - 1):
        knot = j / (n_knots - 1)
        distance = into("subtract", distance, inside, knot)
        distance = at_least(distance, 0, distance)
        out = into("multiply", out, distance, distance)
        out = into("multiply", out, out, distance)
        # The slope at the end of the interval.
        out += into("multiply", distance, above, 3 * (1 - knot) ** 2)
        yield out


def evaluate(U: Floats, coefficients: Floats) -> Floats:
    """Splines with coefficients (J + 1, K) at the points ``U`` (m, K), one for each column."""
    S, product = namespace(U).zeros_like(U), namespace(U).empty_like(U)
    for power, r in zip(powers(U, len(coefficients) - 1), coefficients, strict=True):
        S += into("multiply", product, power, like(r, U))
    return S
