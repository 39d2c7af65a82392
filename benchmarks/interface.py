"""What a calibration method of any library is to the benchmarks, and what libraries are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

Fitted = Callable[[np.ndarray], np.ndarray]
Fit = Callable[[np.ndarray, np.ndarray], Fitted]


@dataclass(frozen=True)
class Method:
    """A calibration method of a library, and how it is fitted.

    ``kind`` is the name of skcalib's class for it. ``fit`` takes logits (n, K), or (n, 1) for two
    classes if ``binary``, as converted by ``prepare``, which is not timed, and labels. It returns a
    function from such logits to probabilities. The method is too slow for more than ``largest``
    elements.
    """

    kind: str
    library: str
    fit: Fit
    prepare: Callable[[np.ndarray], np.ndarray] = np.asarray
    largest: float = np.inf
    binary: bool = True

    @property
    def name(self) -> str:
        return self.kind if self.library == "skcalib" else f"{self.kind}, {self.library}"

    def takes(self, Z: np.ndarray) -> bool:
        """Whether it is for such logits, and not too slow for them."""
        return Z.size <= self.largest and (self.binary or Z.shape[1] > 1)


def both_columns(Z: np.ndarray) -> np.ndarray:
    return Z if Z.shape[1] > 1 else np.hstack([np.zeros_like(Z), Z])


def probabilities(Z: np.ndarray) -> np.ndarray:
    P = softmax(both_columns(Z), axis=1)
    return P / P.sum(axis=1, keepdims=True)


def in_double(Z: np.ndarray) -> np.ndarray:
    return probabilities(Z.astype(np.float64))


def in_single(Z: np.ndarray) -> np.ndarray:
    return probabilities(Z.astype(np.float32))


def margins(Z: np.ndarray) -> np.ndarray:
    """Log-odds of every class against the others, or of the second of two."""
    if Z.shape[1] == 1:
        return Z
    P = softmax(Z.astype(np.float64), axis=1)
    return np.log(P) - np.log1p(-np.minimum(P, 1 - 1e-16))


def one_vs_rest(fit: Fit) -> Fit:
    """One fit of scores and events for each class, normalized; of two classes the second only."""

    def fit_all(S: np.ndarray, y: np.ndarray) -> Fitted:
        columns = dict(enumerate(S.T)) if S.shape[1] > 2 else {1: S[:, -1]}
        fitted = [fit(scores, y == k) for k, scores in columns.items()]

        def predict(S: np.ndarray) -> np.ndarray:
            scores = S.T if len(fitted) > 1 else S.T[-1:]
            P = np.stack([f(s) for f, s in zip(fitted, scores, strict=True)], axis=1)
            P = P if P.shape[1] > 1 else np.hstack([1 - P, P])
            return P / np.maximum(P.sum(axis=1, keepdims=True), 1e-30)

        return predict

    return fit_all


def or_never(fit: Fit) -> Fit:
    """Probability 0 for events that no row has, for which some libraries raise an error."""
    return lambda scores, events: fit(scores, events) if events.any() else np.zeros_like
