r"""Log loss of linear maps of logits, and their minimum.

Notation of the whole module, which is that of the user guide: a block of rows has logits ``Z``
of shape (m, K), class indices ``y`` (m,) and weights ``w`` (m,) or None for ones. A model has
parameters ``theta`` (p,), scores ``S = map(theta, Z)`` of shape (m, K) that are linear in
``theta``, and probabilities ``P = softmax(S)``. The log loss is

.. math:: L(\theta) = \frac1N \sum_i w_i (\log\sum_k e^{s_{ik}} - s_{i y_i}), \quad
    N = \sum_i w_i,

convex in ``theta``. With the residual ``R = w (P - Y)`` its gradient is ``adjoint(R, Z) / N``,
and its Hessian times ``v`` is ``adjoint(w (P * V - P (P . V)), Z) / N`` with ``V = map(v, Z)``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from skcalib._engine.blocks import weighted_sum
from skcalib._typing import Floats, Indices

from .features import Features, mask_scores


class LinearMap(Protocol):
    """A calibrator of the joint family, told by its map and the adjoint of it.

    ``scores`` is linear in ``theta``: ``<R, scores(theta, Z)> = <adjoint(R, Z), theta>`` for
    every ``R`` of the shape of the scores.
    """

    def scores(self, theta: Floats, Z: Floats, out: Floats | None = None) -> Floats:
        """Scores (m, K) of logits ``Z`` (m, K) under parameters ``theta`` (p,).

        Written to ``out`` if that is given; never to ``Z``, nor a view of it.
        """

    def adjoint(self, R: Floats, Z: Floats) -> Floats:
        """Sum over the rows of what ``R`` (m, K) says on each parameter: shape (p,)."""

    def hessian(self, P: Floats, Z: Floats, w: Floats) -> Floats:
        """Sum over the rows of the Hessians (p, p) at probabilities ``P`` (m, K)."""


def loss_gradient(theta: Floats, map_: LinearMap, rows: Features) -> tuple[float, Floats]:
    """Mean log loss and its gradient (p,) at ``theta``: one pass over the rows."""
    theta, masks = theta.astype(rows.dtype, copy=False), rows.masks

    def block(F: Floats, y: Indices, w: Floats | None, S: Floats | None) -> Floats:
        each = np.arange(len(F))
        S = _centred_scores(theta, map_, F, S, masks)
        of_label = S[each, y]
        R = np.exp(S, out=S)
        total = R.sum(axis=1)
        loss = weighted_sum(np.log(total) - of_label, w)
        R *= _per_row(1 / total, w)
        R[each, y] -= 1 if w is None else w
        return np.append(loss, map_.adjoint(R, F))

    mean = rows.mean(block, scratch=1)
    return float(mean[0]), mean[1:]


def hessian_product(theta: Floats, v: Floats, map_: LinearMap, rows: Features) -> Floats:
    """Hessian (p, p) of the mean log loss at ``theta`` times ``v`` (p,): one pass."""
    theta, v = (a.astype(rows.dtype, copy=False) for a in (theta, v))
    masks = rows.masks

    def block(
        F: Floats, _: Indices, w: Floats | None, S: Floats | None, V: Floats | None
    ) -> Floats:
        S = _centred_scores(theta, map_, F, S, masks)
        P = np.exp(S, out=S)
        total = P.sum(axis=1)
        V = map_.scores(v, F, out=V)
        V -= _per_row(np.einsum("ij,ij->i", P, V) / total, None)
        V *= P
        V *= _per_row(1 / total, w)
        return map_.adjoint(V, F).astype(np.float64, copy=False)

    return rows.mean(block, scratch=2)


def second_order(theta: Floats, map_: LinearMap, rows: Features) -> tuple[float, Floats, Floats]:
    """Mean log loss at ``theta``, its gradient (p,) and its Hessian (p, p): one dear pass."""
    p, masks = len(theta), rows.masks

    def block(F: Floats, y: Indices, w: Floats | None) -> Floats:
        w = np.ones(len(F)) if w is None else w
        S = _centred_scores(theta, map_, F, None, masks)
        each = np.arange(len(F))
        of_label, P = S[each, y], np.exp(S)
        total = P.sum(axis=1)
        P /= total[:, None]
        H = map_.hessian(P, F, w)
        R = P * w[:, None]
        R[each, y] -= w
        return np.concatenate([[w @ (np.log(total) - of_label)], map_.adjoint(R, F), H.ravel()])

    mean = rows.mean(block, scratch=0, room=p // rows.n_classes)
    return float(mean[0]), mean[1 : p + 1], mean[p + 1 :].reshape(p, p)


def share_wrong(theta: Floats, map_: LinearMap, rows: Features) -> float:
    """Share of the weight of the rows in which the score of the label is not the largest."""
    theta, masks = theta.astype(rows.dtype, copy=False), rows.masks

    def block(F: Floats, y: Indices, w: Floats | None, S: Floats | None) -> Floats:
        S = _centred_scores(theta, map_, F, S, masks)
        each = np.arange(len(F))
        of_label = S[each, y]
        S[each, y] = -np.inf
        return weighted_sum(of_label <= S.max(axis=1), w)

    return float(rows.mean(block, scratch=1))


def _centred_scores(
    theta: Floats,
    map_: LinearMap,
    F: Floats,
    out: Floats | None,
    masks: bool,  # noqa: FBT001
) -> Floats:
    """Scores whose largest in each row is 0, so that their exponentials are safe."""
    S = map_.scores(theta, F, out=out)
    S = mask_scores(S, F) if masks else S
    S -= S.max(axis=1, keepdims=True)
    return S


def _per_row(values: Floats, w: Floats | None) -> Floats:
    """Numbers per row, times the weights, as a column to multiply rows with."""
    return (values if w is None else w * values)[:, None]


@dataclass(frozen=True)
class Objective:
    r"""Log loss of a linear map on some rows, plus a ridge towards the parameters ``centre``.

    .. math:: L(\theta) + \sum_j \text{ridge}_j (\theta_j - \text{centre}_j)^2
    """

    map_: LinearMap
    rows: Features
    centre: Floats
    ridge: Floats | float = 0.0

    @cached_property
    def separated(self) -> float:
        """Value below which every row must be right, so that there is no minimum.

        A row that is wrong has a loss of at least log 2. With a ridge there always is a minimum.
        """
        if np.any(self.ridge):
            return -np.inf
        least = self.rows.rows.reduce(np.minimum, _least_weight)
        return float(np.log(2) * least / self.rows.weight)

    def penalty(self, theta: Floats) -> float:
        """The ridge at ``theta``."""
        return float(np.sum(self.ridge * (theta - self.centre) ** 2))

    def value_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """Value and gradient (p,) at ``theta``."""
        loss, gradient = loss_gradient(theta, self.map_, self.rows)
        return loss + self.penalty(theta), gradient + 2 * self.ridge * (theta - self.centre)

    def in_double(self) -> Objective:
        """The same, worked out in double precision whatever that of the rows."""
        return replace(self, rows=replace(self.rows, double=True))

    def hessian_product(self, theta: Floats, v: Floats) -> Floats:
        """Hessian at ``theta`` times ``v`` (p,)."""
        return hessian_product(theta, v, self.map_, self.rows) + 2 * self.ridge * v


def _least_weight(_: Any, __: Any, w: Floats | None, *___: Any) -> Any:
    return 1.0 if w is None else np.min(w, where=w > 0, initial=np.inf)
