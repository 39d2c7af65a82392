"""Logarithmic pool of the evidence of several scores, with missing scores.

The evidence of a score is its calibrated log-probability minus the logarithm of the base rate. It
is an array (n, M, K) for n rows, M scores and K classes, with NaN for missing scores and zeros for
masked classes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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
    """Normal prior of the parameters, as a quadratic penalty in nats."""

    mean: Floats  #: (2 M,) of the weights
    precision: Floats  #: (2 M, 2 M) of the weights
    strengths: Floats  #: (1 + M + M K, 1) of the penalty of squared effects


def fit_weights(
    names: list[str], L: Floats, log_rates: Floats, y: Indices, w: Floats, fold: Indices
) -> dict[str, Any]:
    """Return the fitted attributes of a pool of held-out log-probabilities ``L`` (n, M, K).

    ``names`` are the names of the scores, and ``fold`` (n,) the numbers of the folds.
    """
    n_scores, (E, base) = len(names), evidence_of(L, log_rates)
    covariance, without = within_covariance(E, y, w), {}
    evidence = fill_gaps(E, base, covariance)
    weights, effects = fit_pool(evidence, y, w)
    for m, name in enumerate(names):
        rest = np.delete(np.arange(n_scores), m)
        others = fill_gaps(E[:, rest], base, covariance[np.ix_(rest, rest)])
        without[name] = held_out_loss(others, y, w, fold)
    losses = loss_report(names, evidence, y, w)
    return {
        "weights_": dict(zip(names, weights.tolist(), strict=False)),
        "imputed_slopes_": weights[n_scores:],
        "intercept_": effects[0],
        "missing_offsets_": effects[1 : 1 + n_scores],
        "effects_": effects[1 + n_scores :],
        "covariance_": covariance,
        "loss_report_": losses | {"fusion": held_out_loss(evidence, y, w, fold)},
        "leave_one_out_": without,
    }


def fused_logits(
    L: Floats, log_rates: Floats, covariance: Floats, weights: Floats, effects: Floats
) -> Floats:
    """Return the logits (n, K) of the pool of log-probabilities ``L`` (n, M, K)."""
    return pooled(fill_gaps(*evidence_of(L, log_rates), covariance), weights, effects)


def evidence_of(L: Floats, log_rates: Floats) -> tuple[Floats, Floats]:
    """Return the evidence (n, M, K), NaN where missing, and logarithms (n, K) of base rates.

    ``L`` are log-probabilities (n, M, K) of the scores. Masked classes have zero evidence, and base
    rates of zero.
    """
    masked: Bools = np.any(np.isneginf(L), axis=1)
    E = L - log_rates
    E[masked[:, None] & ~np.isnan(L)] = 0
    return E, np.where(masked, -np.inf, log_rates)


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
    X = np.concatenate([filled, filled * ~has[:, :, None]], axis=1).transpose(0, 2, 1)
    L = base[:, None] + filled
    P = np.exp(L - L.max(axis=2, keepdims=True))  # scipy.special.softmax takes twice as long
    P /= P.sum(axis=2, keepdims=True)
    disagreement = P - P.sum(axis=1, keepdims=True) / max(P.shape[1], 1)  # no score is no error
    parts: list[Array] = [np.ones((len(E), 1)), ~has]
    if E.shape[2] <= MOST_CLASSES_OF_EFFECTS:
        parts.append(disagreement.reshape(len(E), -1))
    F = np.hstack(parts)
    F[~has.any(axis=1)] = 0
    return Evidence(np.ascontiguousarray(X), F, base, covariance)


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
    """Return the prior of the parameters.

    The usefulness of a score alone is G / (G + 2) / loss, if it lowers the log loss of the base
    rates by G nats in total. Noise has almost none, and so a weight near zero. The effective number
    S of scores is one over the variance of their mean, by usefulness, in units of their variances.

    With the usefulness u as shares, the weights are b = t u + d, where d is orthogonal to u, and
    the penalty for M scores is
    ((t - 1) / (S - 0.7))^2 + 3 M (|d|^2 + |a|^2) + 100 |c|^2 + 10 |g|^2 + 5 |e|^2
    with changes a of the weights, offsets c, offsets g of gaps, and effects e. The total t is
    nearly free between 1, which is best for copies, and S, which is best for independent scores.
    """
    losses, n_scores = mean_loss(alone(evidence), y, w), evidence.n_scores
    gains = mean_loss(log_softmax(evidence.base, axis=1), y, w) - losses
    gains = w.sum() * np.maximum(gains, 0)
    useful = (gains + 0.02) / (gains + 2) / np.maximum(losses, 1e-12)
    shares = useful / useful.sum()
    scaled = shares / np.sqrt(np.diag(evidence.covariance))
    n_useful = 1 / (scaled @ evidence.covariance @ scaled)

    direction = shares / (shares @ shares)  # its product with the weights is their total t
    precision = RIDGE * n_scores * np.eye(2 * n_scores)
    of_total = direction / (n_useful - 0.7) ** 2 - RIDGE * n_scores * shares
    precision[:n_scores, :n_scores] += np.outer(direction, of_total)
    n_effects = evidence.F.shape[1] - 1 - n_scores
    strengths = np.repeat([OFFSET_RIDGE, GAP_RIDGE, EFFECT_RIDGE], [1, n_scores, n_effects])
    return Prior(np.append(shares, np.zeros(n_scores)), precision, strengths[:, None])


def penalized_loss(
    theta: Floats, evidence: Evidence, y: Indices, w: Floats, prior: Prior
) -> tuple[float, Floats]:
    """Return the log loss of a pool with its penalty in nats, and its gradient.

    ``theta`` are the weights, then the effects.
    """
    weights, effects = as_pool(theta, evidence)
    L, rows = log_softmax(pooled(evidence, weights, effects), axis=1), np.arange(len(y))
    R = w[:, None] * np.exp(L)
    R[rows, y] -= w
    deviations = weights - prior.mean
    pull, effects_pull = prior.precision @ deviations, prior.strengths * effects
    penalty = deviations @ pull + np.sum(effects * effects_pull)
    slopes = evidence.X.reshape(-1, len(weights)).T @ R.ravel() + 2 * pull
    gradient = np.append(slopes, evidence.F.T @ R + 2 * effects_pull)
    return float(penalty - w @ L[rows, y]), gradient


def fit_pool(evidence: Evidence, y: Indices, w: Floats) -> tuple[Floats, Floats]:
    """Return the weights and effects of lowest penalized log loss.

    A single score keeps its probabilities.
    """
    n_scores = evidence.n_scores
    no_effects = np.zeros((evidence.F.shape[1], evidence.base.shape[1]))
    if n_scores < 2:
        return np.repeat([1.0, 0.0], n_scores), no_effects
    prior = prior_of(evidence, y, w)
    # In units by the curvature of the loss the search takes a third of the steps.
    unit = 1 / np.sqrt(curvatures(prior, evidence, w))

    def in_units(u: Floats) -> tuple[float, Floats]:
        loss, gradient = penalized_loss(unit * u, evidence, y, w, prior)
        return loss, unit * gradient

    start = np.append(prior.mean, no_effects) / unit
    options = {"maxiter": 500, "ftol": 1e-12, "gtol": 1e-6}
    found = minimize(in_units, start, method="L-BFGS-B", jac=True, options=options).x
    return as_pool(unit * found, evidence)


def curvatures(prior: Prior, evidence: Evidence, w: Floats) -> Floats:
    """Return the diagonal of the Hessian of the penalized loss, without the penalty of totals.

    It is for the weights with the highest prior density, and no effects.
    """
    P = softmax(evidence.base + evidence.X @ prior.mean, axis=1)
    means = np.einsum("nk,nkm->nm", P, evidence.X)
    weights = np.einsum("nk,nkm->m", w[:, None] * P, (evidence.X - means[:, None]) ** 2)
    effects = (evidence.F**2).T @ (w[:, None] * P * (1 - P)) + 2 * prior.strengths
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
