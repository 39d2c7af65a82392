r"""Log loss of linear maps of features of rows, with a ridge penalty; and that of two classes.

Notation of the whole package, which is that of the user guide: a block of rows has logits ``Z``
of shape (m, K), class indices ``y`` (m,) and weights ``w`` (m,) or None for ones. Features ``F``
(m, K) are the logits, or log-probabilities. A model has parameters ``theta`` (p,), scores
``S = map(theta, F)`` of shape (m, K) that are linear in ``theta``, and probabilities
``P = softmax(S)``. The log loss is

.. math:: L(\theta) = \frac1N \sum_i w_i (\log\sum_k e^{s_{ik}} - s_{i y_i}), \quad
    N = \sum_i w_i,

convex in ``theta``. With the residual ``R = w (P - Y)`` its gradient is ``adjoint(R, F) / N``. A
ridge penalty on the distance from the parameters that leave the features as they are may be added.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skcalib._optimize.temperature import log_mixture
from skcalib._rows import Floats, Indices, Plan, Rows, arrays as xa

# Lower log-probabilities are those of a probability of zero in double precision, whatever slope a
# map gives them. None is to outweigh all others.
LOWEST_FEATURE = -1e3

# Up to so many features a pass in double precision costs little more than in single precision.
FEW_ELEMENTS = 1 << 15

# Log-probabilities of masked classes are lower yet, to be told from others.
MASKED_FEATURE = -2e3


class Regularization(NamedTuple):
    """Strengths of the ridge penalty on the diagonal of a matrix, off it, and on the intercepts.

    A vector map has nothing off the diagonal.
    """

    diagonal: float = 0.0
    off_diagonal: float = 0.0
    intercept: float = 0.0

    @classmethod
    def rule(cls, K: int, weight: float, alpha: float = 1.0) -> Regularization:
        r"""Strengths in proportion to the number of classes (Berta et al., arXiv:2511.03685).

        As a prior, the penalty counts as a constant number of rows, times ``alpha``. The K (K - 1)
        entries off the diagonal are penalised K - 1 times as much as those on it. Where there is
        less than one row for two of them, the rows cannot tell how large these are, and the
        effective sample size for them is smaller than N: :math:`N \cdot 2 N / (K (K - 1))`.
        """
        scale = alpha / weight
        fewer = max(1.0, K * (K - 1) / (2 * weight))
        return cls(scale * K, scale * K * (K - 1) * fewer, scale * K)

    def of_matrix(self, K: int) -> Floats:
        """Strengths of the entries of a matrix (K, K)."""
        strengths = np.full((K, K), float(self.off_diagonal))
        np.fill_diagonal(strengths, self.diagonal)
        return strengths


NO_RIDGE = Regularization()


@dataclass(eq=False)
class Objective:
    r"""Log loss of a linear map of features, plus a ridge penalty on the distance from identity.

    .. math:: L(\theta) + \sum_j \text{ridge}_j (\theta_j - \text{identity}_j)^2

    The rows hold the features, or logits from which ``make_features`` makes those of each block in
    each pass. ``masks`` says that some may be those of masked classes. With ``double`` passes are
    in double precision whatever that of the rows.
    """

    map_: Any  #: one of :mod:`skcalib._optimize.maps`
    rows: Rows
    regularization: Regularization = NO_RIDGE
    make_features: Callable[..., Floats] | None = None
    masks: bool = False
    double: bool = False

    def __post_init__(self) -> None:
        self.n_classes = max(self.rows.n_columns, 2)
        self.few = self.rows.n_rows * self.n_classes <= FEW_ELEMENTS
        self.dtype = np.dtype(np.float64) if self.double else self.rows.dtype
        self.identity, self.ridge = self.map_.prior(self.regularization, self.n_classes)

    @property
    def separated(self) -> float:
        """Value below which every row is classified correctly, so that there is no minimum.

        A row that is not has a loss of at least log 2. With a ridge there always is a minimum.
        """
        if self.ridge.any():
            return -np.inf
        return float(np.log(2) * self.rows.least_weight / self.rows.weight)

    def mean(self, f: Callable[..., Floats], plan: Plan) -> Floats:
        """Sum of ``f(F, y, w, *scratch)`` over the rows, divided by their weight."""
        if self.make_features is not None or self.dtype != self.rows.dtype:
            # What goes to the rows must not hold them.
            f = partial(_of_features, f, self.make_features, self.dtype)
        mean: Floats = self.rows.sum(f, plan) / self.rows.weight
        return mean

    def value_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """Value and gradient (p,) at ``theta``: one pass over the rows."""
        map_, masks, parameters = self.map_, self.masks, theta.astype(self.dtype, copy=False)

        def block(F: Floats, y: Indices, w: Floats | None, S: Floats | None) -> Floats:
            xp, S = xa.namespace(F), centred_scores(parameters, map_, F, S, masks=masks)
            score = xa.of_labels(S, y)
            R = xa.into("exp", S, S)
            total = xp.sum(R, axis=1)
            loss = xa.weighted_sum(xp.log(total) - score, w)
            # Probabilities less the indicator of the label, times the weights.
            share = 1 / total
            R *= (share if w is None else xa.astype(w * share, share.dtype))[:, None]
            R = xa.less_at_labels(R, y, 1 if w is None else w)
            return xa.flat(loss, map_.adjoint(R, F))

        # Else adding the gradients of matrices up takes as long as their products.
        plan = Plan(scratch=1, dtype=self.dtype, at_least=2 * len(theta) // self.n_classes)
        loss, gradient = np.split(self.mean(block, plan), [1])
        away = theta - self.identity
        gradient += 2 * self.ridge * away
        return float(loss[0]) + float(np.sum(self.ridge * away**2)), gradient

    def second_order(self, theta: Floats) -> tuple[float, Floats, Floats]:
        """Value, gradient (p,) and Hessian (p, p) at ``theta``: one pass over the rows."""
        p, map_, masks = len(theta), self.map_, self.masks

        def block(F: Floats, y: Indices, w: Floats | None) -> Floats:
            xp, w = xa.namespace(F), xa.ones_unless(w, F)
            S = centred_scores(theta, map_, F, None, masks=masks)
            score, P = xa.of_labels(S, y), xp.exp(S)
            total = xp.sum(P, axis=1)
            P /= total[:, None]
            H = map_.hessian(P, F, w)
            R = xa.less_at_labels(P * w[:, None], y, w)
            loss = xa.weighted_sum(xp.log(total) - score, w)
            return xa.flat(loss, map_.adjoint(R, F), H)

        sums = self.mean(block, Plan(room=p // self.n_classes))
        loss, gradient, hessian = sums[0], sums[1 : p + 1], sums[p + 1 :].reshape(p, p)
        hessian[np.diag_indices(p)] += 2 * self.ridge
        away = theta - self.identity
        gradient += 2 * self.ridge * away
        return float(loss) + float(np.sum(self.ridge * away**2)), gradient, hessian

    def share_wrong(self, theta: Floats) -> float:
        """Share of the weight of the rows in which the score of the label is not the largest."""
        map_, masks, parameters = self.map_, self.masks, theta.astype(self.dtype, copy=False)

        def block(F: Floats, y: Indices, w: Floats | None) -> Floats:
            S = centred_scores(parameters, map_, F, None, masks=masks)
            score = xa.of_labels(S, y)
            others = xa.less_at_labels(S, y, np.inf)
            return xa.weighted_sum(score <= xa.namespace(F).max(others, axis=1), w)

        return float(self.mean(block, Plan()))


def _of_features(
    f: Callable[..., Floats],
    make_features: Callable[..., Floats] | None,
    dtype: np.dtype[Any],
    Z: Floats,
    y: Indices,
    w: Floats | None,
    *scratch: Floats | None,
) -> Floats:
    """``f`` of the features of a block of rows, in a precision."""
    F = xa.astype(Z, getattr(xa.namespace(Z), dtype.name))
    if make_features is not None:
        F = make_features(F)
    if scratch and F.shape[1] > Z.shape[1]:  # logits of one column have features of two
        scratch = (None,)
    return f(F, y, w, *scratch)


def centred_scores(
    theta: Floats, map_: Any, F: Floats, out: Floats | None, *, masks: bool
) -> Floats:
    """Scores whose largest in each row is 0, so that their exponentials are safe."""
    S = map_.scores(xa.like(theta, F), F, out=out)
    S = mask_scores(S, F) if masks else S
    S -= xa.namespace(S).max(S, axis=1, keepdims=True)
    return S


def log_features(temperature: float, smoothing: float, Z: Floats, *_: Any) -> Floats:
    """Log-probabilities (m, K) of the mixture that temperature scaling gives, raised."""
    F = log_mixture(temperature, smoothing, Z)
    return raised(F) if xa.namespace(F).min(F) < LOWEST_FEATURE else F


def raised(F: Floats) -> Floats:
    """Log-probabilities, in place no less than :data:`LOWEST_FEATURE` but for masked classes."""
    masked = -np.inf == F
    return xa.put(xa.at_least(F, LOWEST_FEATURE, F), MASKED_FEATURE, masked)


def mask_scores(S: Floats, F: Floats) -> Floats:
    """Scores, in place -inf where features are those of masked classes.

    Only maps of each class by itself meet such.
    """
    return xa.put(S, -np.inf, F == MASKED_FEATURE)
