"""Logarithmic pool of the evidence of several scores, with missing scores.

The evidence of a score is its calibrated log-probability minus the logarithm of the base rate. It
is an array (n, M, K) for n rows, M scores and K classes, with NaN for missing scores and zeros for
masked classes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from skcalib._typing import Array, Bools, Floats, Indices

# Strengths of the ridge penalty for weights, offsets, offsets where a score is missing, and effects
# of disagreement, chosen on 17 records and in simulations.
RIDGE, OFFSET_RIDGE, GAP_RIDGE, EFFECT_RIDGE = 3.0, 100.0, 10.0, 5.0
# Disagreement has effects up to this number of classes, since it has effects for all their pairs.
MOST_CLASSES_OF_EFFECTS = 20


class Evidence(NamedTuple):
    """Evidence of rows, with values in place of gaps; zeros in rows without any score."""

    X: Floats  #: (n, K, 2 M) evidence, then the evidence that was filled in, else zero
    F: Floats  #: (n, 1 + M + M K) one, ones for gaps, and disagreement of each score with the mean
    base: Floats  #: (n, K) logarithms of the base rates, -inf for masked classes
    covariance: Floats  #: (M, M) of the scores, given the label

    @property
    def n_scores(self) -> int:
        """Number M of scores."""
        return len(self.covariance)

    def take(self, rows: Array) -> Evidence:
        """Return the evidence of some rows."""
        return Evidence(self.X[rows], self.F[rows], self.base[rows], self.covariance)


class Prior(NamedTuple):
    """Prior of the weights: means in proportion to the usefulness of each score alone."""

    shares: Floats  #: (M,) usefulness, with a sum of one
    n_useful: float  #: effective number of useful scores: 1 for copies, M for independent scores


def within_covariance(E: Floats, y: Indices, w: Floats) -> Floats:
    """Return the covariance (M, M) of the evidence of the scores, given the label.

    Each entry comes from the rows that have both scores. The correlations are shrunk by a tenth,
    and eigenvalues are bounded below, so that the matrix is positive definite.
    """
    n_classes, tiny = E.shape[2], np.finfo(float).tiny
    has: Bools = ~np.isnan(E[:, :, 0])
    W, is_class = has * w[:, None], np.eye(n_classes)[y]
    sums = np.einsum("nc,nm,nmk->cmk", is_class, W, np.nan_to_num(E), optimize=True)
    means = sums / np.maximum(is_class.T @ W, tiny)[:, :, None]
    R = np.nan_to_num(E - means[y])
    R -= R.mean(axis=2, keepdims=True)
    C = np.einsum("nmk,n,njk->mj", R, w, R, optimize=True)
    C /= np.maximum(W.T @ has, tiny) * n_classes
    values, vectors = np.linalg.eigh(0.9 * C + 0.1 * np.diag(np.diag(C)))
    low = max(1e-3 * float(values.max()), 1e-12)
    covariance: Floats = (vectors * np.maximum(values, low)) @ vectors.T
    return covariance


def fill_gaps(E: Floats, base: Floats, covariance: Floats) -> Evidence:
    """Return the evidence with the conditional mean in place of NaN, for Gaussian evidence.

    Under linear discriminant analysis the pool of the result is optimal for the scores that a row
    has: a copy of another score is replaced by it, and an independent score by zero. Rows without
    any score have zeros everywhere, and so the base rates.
    """
    has: Bools = ~np.isnan(E[:, :, 0])
    filled: Floats = np.where(has[:, :, None], E, 0)
    rows = np.flatnonzero(~has.all(axis=1))
    if len(rows):
        # The system of the scores that a row has, with ones on the diagonal for other scores.
        pairs = has[rows, :, None] & has[rows, None, :]
        systems = np.where(pairs, covariance, np.eye(len(covariance)))
        means = covariance @ np.linalg.solve(systems, filled[rows])
        filled[rows] = np.where(has[rows, :, None], filled[rows], means)
    gaps = np.column_stack([np.ones(len(E)), ~has]) * has.any(axis=1, keepdims=True)
    X = np.concatenate([filled, filled * ~has[:, :, None]], axis=1).transpose(0, 2, 1)
    P = softmax(base[:, None] + filled, axis=2)
    disagreement = P - P.sum(axis=1, keepdims=True) / max(P.shape[1], 1)  # no score is no error
    few_classes = E.shape[2] <= MOST_CLASSES_OF_EFFECTS
    F = [gaps, disagreement.reshape(len(E), -1)] if few_classes else [gaps]
    return Evidence(np.ascontiguousarray(X), np.hstack(F), base, covariance)


def pooled(evidence: Evidence, weights: Floats, effects: Floats) -> Floats:
    """Return the logits (n, K) for weights (2 M,) and effects (1 + M + M K, K), or (1 + M, K)."""
    Z: Floats = evidence.base + evidence.X @ weights + evidence.F[:, : len(effects)] @ effects
    return Z


def alone(evidence: Evidence) -> Floats:
    """Return the log-probabilities (n, K, M) of each score; base rates in rows without it."""
    filled, imputed = np.split(evidence.X, 2, axis=2)
    L: Floats = log_softmax(evidence.base[:, :, None] + filled - imputed, axis=1)
    return L


def prior_of(evidence: Evidence, y: Indices, w: Floats) -> Prior:
    """Return the prior of the weights.

    The usefulness of a score alone is G / (G + 2) / loss, if it lowers the log loss of the base
    rates by G nats in total. Noise has almost none, and so a weight near zero. The effective number
    of scores is one over the variance of their mean, by usefulness, in units of their variances.
    """
    losses = mean_loss(alone(evidence), y, w)
    gains = mean_loss(log_softmax(evidence.base, axis=1), y, w) - losses
    gains = w.sum() * np.maximum(gains, 0)
    useful = (gains + 0.02) / (gains + 2) / np.maximum(losses, 1e-12)
    shares = useful / useful.sum()
    scaled = shares / np.sqrt(np.diag(evidence.covariance))
    return Prior(shares, float(1 / (scaled @ evidence.covariance @ scaled)))


def penalized_loss(
    theta: Floats, evidence: Evidence, y: Indices, w: Floats, prior: Prior
) -> tuple[float, Floats]:
    """Return the log loss of a pool with its ridge penalty in nats, and its gradient.

    ``theta`` has the weights b, their changes a, the offsets c, the offsets g of gaps, and the
    effects e. With the shares u of the prior and their number S, the weights are b = t u + d, where
    d is orthogonal to u, and the penalty is
    ((t - 1) / (S - 0.7))^2 + 3 M (|d|^2 + |a|^2) + 100 |c|^2 + 10 |g|^2 + 5 |e|^2.
    The total t is nearly free between 1, which is best for copies, and S, which is best for
    independent scores.
    """
    (shares, n_useful), n_scores = prior, evidence.n_scores
    weights, effects = as_pool(theta, evidence)
    Z, numbers = pooled(evidence, weights, effects), np.arange(len(y))
    Z -= Z.max(axis=1, keepdims=True)
    R = np.exp(Z)
    sums = R.sum(axis=1)
    losses = np.log(sums) - Z[numbers, y]
    R *= (w / sums)[:, None]
    R[numbers, y] -= w

    direction, ridge = shares / (shares @ shares), RIDGE * n_scores
    total = direction @ weights[:n_scores]
    excess, deviations = (total - 1) / (n_useful - 0.7), weights.copy()
    deviations[:n_scores] -= total * shares
    pull = strengths_of(evidence) * effects
    penalty = excess**2 + ridge * deviations @ deviations + (pull * effects).sum()
    slopes = evidence.X.reshape(-1, 2 * n_scores).T @ R.ravel() + 2 * ridge * deviations
    slopes[:n_scores] += 2 * excess / (n_useful - 0.7) * direction
    gradient = np.append(slopes, evidence.F.T @ R + 2 * pull)
    return penalty + w @ losses, gradient


def strengths_of(evidence: Evidence) -> Floats:
    """Return the strengths (1 + M + M K, 1) of the ridge penalty of effects."""
    strengths = np.full((evidence.F.shape[1], 1), EFFECT_RIDGE)
    strengths[0], strengths[1 : 1 + evidence.n_scores] = OFFSET_RIDGE, GAP_RIDGE
    return strengths


def fit_pool(evidence: Evidence, y: Indices, w: Floats) -> tuple[Floats, Floats]:
    """Return the weights and effects of lowest penalized log loss.

    A single score keeps its probabilities.
    """
    n_scores, n_classes = evidence.n_scores, evidence.base.shape[1]
    start = np.zeros(2 * n_scores + evidence.F.shape[1] * n_classes)
    start[:n_scores] = 1
    if n_scores < 2:
        return as_pool(start, evidence)
    prior = prior_of(evidence, y, w)
    start[:n_scores] = prior.shares
    # In units by the curvature of the loss the search takes a third of the steps.
    unit = 1 / np.sqrt(curvatures(start, evidence, w))

    def in_units(u: Floats) -> tuple[float, Floats]:
        loss, gradient = penalized_loss(unit * u, evidence, y, w, prior)
        return loss, unit * gradient

    options = {"maxiter": 500, "ftol": 1e-12, "gtol": 1e-6}
    found = minimize(in_units, start / unit, method="L-BFGS-B", jac=True, options=options).x
    return as_pool(unit * found, evidence)


def curvatures(theta: Floats, evidence: Evidence, w: Floats) -> Floats:
    """Return the diagonal of the Hessian of the penalized loss, without the penalty of totals."""
    P = softmax(pooled(evidence, *as_pool(theta, evidence)), axis=1)
    means = np.einsum("nk,nkm->nm", P, evidence.X)
    weights = np.einsum("nk,nkm->m", w[:, None] * P, (evidence.X - means[:, None]) ** 2)
    effects = (evidence.F**2).T @ (w[:, None] * P * (1 - P)) + 2 * strengths_of(evidence)
    return np.append(weights + 2 * RIDGE * evidence.n_scores, effects)


def as_pool(theta: Floats, evidence: Evidence) -> tuple[Floats, Floats]:
    """Return the weights (2 M,) and effects (1 + M + M K, K) in the optimizer's parameters."""
    weights, effects = np.split(theta, [2 * evidence.n_scores])
    return weights, effects.reshape(evidence.F.shape[1], -1)


def held_out_loss(evidence: Evidence, y: Indices, w: Floats, fold: Indices) -> float:
    """Return the mean log loss of pools that were fitted to the other folds."""
    L = np.empty(evidence.base.shape)
    for number in np.unique(fold):
        train, test = fold != number, fold == number
        pool = fit_pool(evidence.take(train), y[train], w[train])
        L[test] = pooled(evidence.take(test), *pool)
    return float(mean_loss(log_softmax(L, axis=1), y, w))


def mean_loss(L: Floats, y: Indices, w: Floats) -> Floats:
    """Return the mean log loss of log-probabilities (n, K), or (M,) losses of (n, K, M)."""
    losses: Floats = -np.average(L[np.arange(len(y)), y], axis=0, weights=w)
    return losses


def loss_report(names: list[str], evidence: Evidence, y: Indices, w: Floats) -> dict[str, float]:
    """Return the mean log losses of each score, and of the mean of their probabilities."""
    L = alone(evidence)
    has = 1 - evidence.F[:, 1 : 1 + len(names)]  # rows without any score have no gaps
    P = np.einsum("nkm,nm->nk", np.exp(L), has / has.sum(axis=1, keepdims=True))
    report = dict(zip(names, mean_loss(L, y, w).tolist(), strict=True))
    return report | {"mean": float(mean_loss(np.log(np.maximum(P, np.finfo(float).tiny)), y, w))}
