r"""Learning from a stream, a row at a time: weights of experts, and slopes and offsets of sigmoids.

*Experts* e give each label a probability :math:`p_e`. Their weights are posterior probabilities,
:math:`v_e \leftarrow v_e p_e` divided by their sum, of which a share is then spread evenly: the
fixed share of Herbster and Warmuth, "Tracking the Best Expert", Machine Learning 32, 1998. The
probability of all labels is a mixture over the sequences of experts that a Markov chain draws; the
bounds are minus the logarithms of the probabilities of these sequences.

*Sigmoids* take the online Newton step of Hazan, Agarwal and Kale, "Logarithmic Regret Algorithms
for Online Convex Optimization", Machine Learning 69, 2007. Let :math:`x = (m, 1)` be a row with the
margin m, r its probability less its event at :math:`\theta = (a, c)`, and

.. math:: A \leftarrow A + \eta\, x x^\top, \qquad
    \theta \leftarrow \Pi_A(\theta - r A^{-1} x),

where :math:`\Pi_A` projects on the bounded set in the norm of A. The paper has
:math:`\eta = \gamma r^2` with a constant, which for log-odds up to B is less than
:math:`e^{-B}`, so that the method hardly moves; here it is the largest number for which the
parabola of this curvature, through the loss of the row, is below it at all log-odds of the bounded
set. That is all that the proof needs: the total loss is above that of any :math:`\theta^*` of the
set by at most :math:`\tfrac12 |\theta^* - \theta_0|_{A_0}^2 + \tfrac12 \sum_t r_t^2\, x_t^\top
A_t^{-1} x_t`. Since :math:`r^2 \le e^B \eta`, the sum is at most
:math:`e^B \log(\det A_T / \det A_0)`.
"""

import numpy as np
from scipy.special import expit

from skcalib._rows import Bools, Floats, Indices

# A row of a larger weight is this many rows; of a smaller one as many as it rounds up to.
MOST_PARTS = 1000

# No weight of an expert is smaller: any may become the best one, and none of them is lost.
SMALLEST_WEIGHT = 1e-300

# Slopes and offsets of a stream are no larger than this many times those before it, or one. The
# wider the set, the flatter the parabolas, and the longer the steps.
LARGEST = 2.0, 4.0

# Log-odds nearer to each other have the same curvature, which rounding makes of their difference.
NEAR = 1e-3


def in_parts(w: Floats | None, n_rows: int) -> tuple[Indices, Floats]:
    """Numbers of the rows, each repeated so that weights are at most one, and these weights."""
    if w is None:
        return np.arange(n_rows), np.ones(n_rows)
    n_parts = np.clip(np.ceil(w), 1, MOST_PARTS).astype(np.intp)
    return np.repeat(np.arange(n_rows), n_parts), np.repeat(w / n_parts, n_parts)


def updated_weights(weights: Floats, P: Floats, w: Floats | None, share: float) -> Floats:
    """Weights (E,) of experts after rows, to whose labels they gave probabilities ``P`` (n, E)."""
    P = P / P.max(axis=1, keepdims=True)
    for i, part in zip(*in_parts(w, len(P)), strict=True):
        weights = weights * P[i] ** part
        weights = np.maximum(weights / weights.sum(), SMALLEST_WEIGHT)
        spread = 1 - (1 - share) ** part
        weights = (1 - spread) * weights + spread / len(weights)
    return weights


def bounded_set(theta: Floats) -> Floats:
    """Least and largest parameters (2, K, 2) around slopes and offsets (K, 2).

    Slopes are up to a multiple of what they are, or of one, and of their sign or positive; offsets
    of both signs.
    """
    largest = np.maximum(abs(theta), 1) * LARGEST
    least = -largest
    least[:, 0] = np.where(theta[:, 0] < 0, least[:, 0], 0)
    return np.stack([least, largest])


def newton_steps(
    theta: Floats, information: Floats, bounds: Floats, M: Floats, E: Bools, w: Floats | None
) -> tuple[Floats, Floats]:
    """Slopes and offsets (K, 2) after rows, and the sum of curvatures (K, 2, 2).

    The rows have margins ``M`` (n, K), which do not count where they are infinite, and events ``E``
    (n, K). A standard normal prior is one of the curvatures, and is not in their sum.
    """
    counts = np.isfinite(M)
    M, (least, largest) = np.where(counts, M, 0.0), bounds
    for i, part in zip(*in_parts(w, len(M)), strict=True):
        m, weight = M[i], part * counts[i]
        z = m * theta[:, 0] + theta[:, 1]
        ends = m * least[:, 0], m * largest[:, 0]
        low, high = np.minimum(*ends) + least[:, 1], np.maximum(*ends) + largest[:, 1]
        square = np.stack([m * m, m, m, np.ones_like(m)], axis=1).reshape(-1, 2, 2)
        information = information + (weight * curvatures(z, low, high))[:, None, None] * square
        (aa, ac), (_, cc) = information.transpose(1, 2, 0)
        # The determinant of the sum with the identity, without the difference of large numbers.
        slope = weight * (expit(z) - E[i]) / (1 + aa + cc + np.maximum(aa * cc - ac * ac, 0))
        theta = theta - slope[:, None] * np.stack([(1 + cc) * m - ac, 1 + aa - ac * m], axis=1)
        outside = ((theta < least) | (theta > largest)).any(axis=1)
        for k in np.flatnonzero(outside):
            theta[k] = _projected(theta[k], np.eye(2) + information[k], least[k], largest[k])
    return theta, information


def curvatures(z: Floats, low: Floats, high: Floats) -> Floats:
    r"""Largest numbers with parabolas below the log loss, which touch it at log-odds ``z``.

    Below it between the log-odds ``low`` and ``high``. The chord of the slope, a mean of the
    second derivative, is least at an end, since that derivative has one maximum.
    """
    sign = np.where(z > 0, -1.0, 1.0)
    z = -abs(z)  # by symmetry, since differences of what is nearly linear are lost
    here = expit(z) * expit(-z)
    found = here
    for end in (sign * low, sign * high):
        far = end - z
        gap = np.logaddexp(0, end) - np.logaddexp(0, z) - expit(z) * far
        chord = 2 * np.maximum(gap, 0) / np.maximum(far * far, NEAR * NEAR)
        found = np.where(abs(far) > NEAR, np.minimum(found, chord), found)
    return found


def _projected(theta: Floats, A: Floats, least: Floats, largest: Floats) -> Floats:
    """The nearest parameters (2,) of a rectangle in the norm of A, from outside.

    They are on an edge that is crossed, where the other parameter is free up to its bounds.
    """
    inside, nearest = np.clip(theta, least, largest), []
    for i in np.flatnonzero(inside != theta):
        found, j = inside.copy(), 1 - i
        free = theta[j] - A[i, j] / A[j, j] * (inside[i] - theta[i])
        found[j] = np.clip(free, least[j], largest[j])
        nearest.append(((found - theta) @ A @ (found - theta), *found))
    return np.array(min(nearest)[1:])
