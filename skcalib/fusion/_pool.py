"""Logarithmic pool of the evidence of several scores, with missing scores.

The evidence of a score is its calibrated log-probability minus the logarithm of the base rate. It
is an array (n, M, K) for n rows, M scores and K classes, with NaN for missing scores and zeros for
masked classes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from skcalib._rows import Array, Bools, Floats, Indices


class Pool(NamedTuple):
    """Parameters of a logarithmic pool of M scores, of which J have gaps."""

    weights: Floats  #: (M,) weights of the evidence
    intercept: Floats  #: (K,) offsets of the classes
    slopes: Floats  #: (M,) weights of imputed evidence minus ``weights``
    offsets: Floats  #: (M, K) offsets of the classes where a score is missing


def equal_weights(n_scores: int, n_classes: int) -> Pool:
    """Return the pool with equal weights that sum to one, which for one score is the score."""
    zeros = np.zeros((n_scores, n_classes))
    return Pool(np.full(n_scores, 1 / n_scores), np.zeros(n_classes), np.zeros(n_scores), zeros)


class Evidence(NamedTuple):
    """Evidence of rows: imputed where a score is missing."""

    E: Floats  #: (n, M, K)
    missing: Bools  #: (n, M)
    base: Floats  #: (n, K) logarithms of the base rates, -inf for masked classes

    def take(self, rows: Array) -> Evidence:
        """Return the evidence of some rows."""
        return Evidence(self.E[rows], self.missing[rows], self.base[rows])


def within_covariance(E: Floats, y: Indices, w: Floats) -> Floats:
    """Return the covariance (M, M) of the evidence of the scores, given the label.

    Each entry comes from the rows that have both scores. The correlations are shrunk by a tenth,
    and eigenvalues are bounded below, so that the matrix is positive definite.
    """
    n_classes = E.shape[2]
    has: Bools = ~np.isnan(E[:, :, 0])
    R, W = np.nan_to_num(E), has * w[:, None]
    for k in np.unique(y):
        rows = y == k
        total = np.maximum(W[rows].sum(axis=0), np.finfo(float).tiny)
        mean = np.einsum("nm,nmk->mk", W[rows], R[rows]) / total[:, None]
        R[rows] -= np.where(has[rows, :, None], mean, 0)
    R -= R.mean(axis=2, keepdims=True)
    pairs = np.maximum((W.T @ has) * n_classes, np.finfo(float).tiny)
    C = np.einsum("nmk,n,njk->mj", R, w, R, optimize=True) / pairs
    C = 0.9 * C + 0.1 * np.diag(np.diag(C))
    values, vectors = np.linalg.eigh(C)
    low = max(1e-3 * float(values.max()), 1e-12)
    covariance: Floats = (vectors * np.maximum(values, low)) @ vectors.T
    return covariance


def impute(E: Floats, covariance: Floats) -> Floats:
    """Return the evidence with the conditional mean in place of NaN, for Gaussian evidence.

    Under linear discriminant analysis the pool of the result is optimal for the scores that a row
    has: a copy of another score is replaced by it, and an independent score by zero.
    """
    has = ~np.isnan(E[:, :, 0])
    if has.all():
        return E
    out = np.nan_to_num(E)
    gaps = np.flatnonzero(~has.all(axis=1) & has.any(axis=1))
    patterns, of_row = np.unique(has[gaps], axis=0, return_inverse=True)
    for i, pattern in enumerate(patterns):
        rows, present, absent = gaps[of_row == i], np.flatnonzero(pattern), np.flatnonzero(~pattern)
        B = np.linalg.solve(
            covariance[np.ix_(present, present)], covariance[np.ix_(present, absent)]
        )
        out[np.ix_(rows, absent)] = np.einsum("nak,am->nmk", E[np.ix_(rows, present)], B)
    return out


def pooled(pool: Pool, evidence: Evidence) -> Floats:
    """Return the logits (n, K) of the pool."""
    E, missing, base = evidence
    if not missing.any():
        fused: Floats = base + pool.intercept + np.einsum("nmk,m->nk", E, pool.weights)
        return fused
    weights = pool.weights + missing * pool.slopes
    fused = base + pool.intercept + np.einsum("nmk,nm->nk", E, weights) + missing @ pool.offsets
    return np.where(np.all(missing, axis=1, keepdims=True), base, fused)  # rows without any score


def penalized_loss(
    theta: Floats, X: Floats, gaps: Floats, base: Floats, y: Indices, w: Floats, alpha: float
) -> tuple[float, Floats]:
    """Return the log loss of a pool with its ridge penalty in nats, and its gradient.

    ``theta`` has M weights, J slopes, and K offsets for the intercept and for each of the J scores
    with gaps. ``X`` (n, K, M + J) has the evidence, and the imputed evidence of scores with gaps;
    ``gaps`` (n, 1 + J) is one in the first column and indicates missing scores in the others.
    """
    n, n_classes, n_slopes = X.shape
    n_gaps = gaps.shape[1] - 1
    n_scores = n_slopes - n_gaps
    b, o = theta[:n_slopes], theta[n_slopes:].reshape(1 + n_gaps, n_classes)
    L = log_softmax(base + X @ b + gaps @ o, axis=1)
    rows = np.arange(n)
    R = np.exp(L)
    R[rows, y] -= 1
    R *= w[:, None]

    # The mean weight is free between 1 / M for copies and 1 for independent scores. Deviations from
    # it, and the weights of imputed evidence, have variance 1 / (2 alpha M). Offsets have strong
    # priors, since scores are calibrated already.
    ridge = 2 * alpha * n_scores * b
    ridge[:n_scores] -= 2 * alpha * b[:n_scores].sum()
    excess = (b[:n_scores].sum() - 1) / n_scores
    strength = np.full((1 + n_gaps, 1), 10.0)
    strength[0] = 100
    penalty = ridge @ b / 2 + excess**2 + (strength * o**2).sum()
    ridge[:n_scores] += 2 * excess / n_scores
    gradient = [X.reshape(-1, n_slopes).T @ R.ravel() + ridge, gaps.T @ R + 2 * strength * o]
    return penalty - w @ L[rows, y], np.concatenate([part.ravel() for part in gradient])


def fit_pool(evidence: Evidence, y: Indices, w: Floats, alpha: float) -> Pool:
    """Return the pool of lowest penalized log loss; rows without any score do not matter."""
    rows = np.flatnonzero(~evidence.missing.all(axis=1))
    E, missing, base = evidence.take(rows)
    n_scores, n_classes = E.shape[1:]
    with_gaps = np.flatnonzero(missing.any(axis=0))
    X = np.concatenate([E, E[:, with_gaps] * missing[:, with_gaps, None]], axis=1)
    X = np.ascontiguousarray(X.transpose(0, 2, 1))
    gaps = np.column_stack([np.ones(len(rows)), missing[:, with_gaps]])
    start = np.zeros(X.shape[2] + gaps.shape[1] * n_classes)
    start[:n_scores] = 1 / n_scores
    theta = minimize(
        penalized_loss,
        start,
        args=(X, gaps, base, y[rows], w[rows], alpha),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 500, "ftol": 1e-12, "gtol": 1e-6},
    ).x
    slopes, offsets = np.zeros(n_scores), np.zeros((n_scores, n_classes))
    n_slopes = X.shape[2]
    slopes[with_gaps] = theta[n_scores:n_slopes]
    fitted = theta[n_slopes:].reshape(-1, n_classes)
    offsets[with_gaps] = fitted[1:]
    return Pool(theta[:n_scores], fitted[0], slopes, offsets)


def held_out(evidence: Evidence, y: Indices, w: Floats, fold: Indices, alpha: float) -> Floats:
    """Return the log-probabilities (n, K) of pools that were fitted to the other folds."""
    L = np.empty(evidence.base.shape)
    for number in np.unique(fold):
        train, test = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        pool = fit_pool(evidence.take(train), y[train], w[train], alpha)
        L[test] = log_softmax(pooled(pool, evidence.take(test)), axis=1)
    return L


def choose_alpha(
    evidence: Evidence, y: Indices, w: Floats, fold: Indices
) -> tuple[float, Pool, Floats]:
    """Return the strength of the ridge, the pool, and its held-out log-probabilities.

    The strengths have a log-normal prior about 2 with a factor of 10 as standard deviation, chosen
    on 17 records. From 3 on, the search goes down or up as long as the held-out log loss minus the
    log-prior falls.
    """
    rows = np.arange(len(y))

    def evaluate(alpha: float) -> tuple[float, float, Floats]:
        L = held_out(evidence, y, w, fold, alpha)
        return float(np.log(alpha / 2) ** 2 / np.log(10) ** 2 / 2 - w @ L[rows, y]), alpha, L

    best = evaluate(3.0)
    for path in ((1.0, 0.3, 0.1), (10.0, 30.0, 100.0)):
        first = best
        for alpha in path:
            result = evaluate(alpha)
            if result[0] >= best[0]:
                break
            best = result
        if best is not first:
            break
    _, alpha, L = best
    return alpha, fit_pool(evidence, y, w, alpha), L


class Weighed(NamedTuple):
    """A pool that was fitted to held-out evidence, and mean log losses in nats."""

    pool: Pool
    alpha: float  #: strength of the ridge penalty
    covariance: Floats  #: (M, M) from ``within_covariance``
    alone: list[float]  #: of each score
    mean: float  #: of the mean of the probabilities of the scores
    fused: float  #: of pools that were fitted to the other folds
    without: list[float]  #: of such pools without each score


def weigh(E: Floats, base: Floats, y: Indices, w: Floats, fold: Indices) -> Weighed:
    """Return the pool for held-out evidence (n, M, K), and the losses of the scores and pools."""
    n_scores = E.shape[1]
    missing: Bools = np.isnan(E[:, :, 0])

    def loss_of(L: Floats) -> float:
        return float(-np.average(L[np.arange(len(y)), y], weights=w))

    # Evaluate the scores alone, and their mean.
    L = log_softmax(np.nan_to_num(E) + base[:, None], axis=2)
    alone = [loss_of(L[:, m]) for m in range(n_scores)]
    present = ~missing | np.all(missing, axis=1, keepdims=True)
    P = np.einsum("nmk,nm->nk", np.exp(L), present / present.sum(axis=1)[:, None])
    mean = float(-np.average(np.log(P[np.arange(len(y)), y]), weights=w))

    # Fit the pool, and pools without each score.
    covariance = within_covariance(E, y, w)
    if n_scores == 1:
        pool, rates = equal_weights(*E.shape[1:]), loss_of(log_softmax(base, axis=1))
        return Weighed(pool, 1.0, covariance, alone, mean, alone[0], [rates])
    evidence = Evidence(impute(E, covariance), missing, base)
    alpha, pool, L = choose_alpha(evidence, y, w, fold)
    without = []
    for m in range(n_scores):
        rest = np.delete(np.arange(n_scores), m)
        filled = impute(E[:, rest], covariance[np.ix_(rest, rest)])
        L_rest = held_out(Evidence(filled, missing[:, rest], base), y, w, fold, alpha)
        without.append(loss_of(L_rest))
    return Weighed(pool, alpha, covariance, alone, mean, loss_of(L), without)
