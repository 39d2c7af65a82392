"""Histogram binning, isotonic calibration and BBQ: literal transcriptions, peers, limits."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.special import betaln, expit, logit, softmax

from skcalib import BBQ, HistogramBinning, IsotonicCalibration, VennAbersCalibration
from skcalib.datasets import make_logits

EVERY = [
    HistogramBinning(),
    HistogramBinning(strategy="quantile", n_bins=7, pseudo_rows=2.0),
    IsotonicCalibration(),
    IsotonicCalibration(interpolation="linear", pseudo_rows=0),
    IsotonicCalibration(interpolation="centered"),
    BBQ(),
    VennAbersCalibration(),
]


def margins_of(p):
    """A column of log-odds for probabilities that are not 0 or 1."""
    return logit(np.asarray(p, dtype=float))[:, None]


@pytest.fixture(params=["plain", "ties", "weights"])
def problem(request, rng):
    """Probabilities of two classes, whether the second happened, weights."""
    p = rng.beta(0.7, 0.7, size=200).clip(0.001, 0.999)
    if request.param == "ties":
        p = np.round(p * 20).clip(1, 19) / 20
    y = (rng.uniform(size=200) < p**2).astype(int)
    w = rng.integers(1, 5, size=200) / 2 if request.param == "weights" else None
    return expit(margins_of(p))[:, 0], y, w


def fit(calibrator, p, y, w=None):
    return calibrator.fit(margins_of(p), y, sample_weight=w)


def of_second(calibrator, p):
    return calibrator.predict_proba(margins_of(p))[:, 1]


# --------------------------------------------------------------------------------------
# Histogram binning.


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("smoothing", [0.0, 1.5])
def test_value_of_a_bin_is_the_share_of_hits(problem, strategy, smoothing):
    p, y, w = problem
    c = fit(HistogramBinning(n_bins=6, strategy=strategy, pseudo_rows=smoothing), p, y, w)
    w = np.ones(len(p)) if w is None else w
    edges, values = c.bin_edges_[0], c.bin_values_[0]
    assert edges[0] == 0
    assert edges[-1] == 1
    for m, (low, high) in enumerate(pairwise(edges)):
        inside = (p > low) & (p <= high)
        weight, middle = w[inside].sum(), (low + high) / 2
        if weight + smoothing == 0:
            assert values[m] == middle
        else:
            hits = w[inside] @ y[inside]
            expected = (hits + smoothing * middle) / (weight + smoothing)
            np.testing.assert_allclose(values[m], expected)
    np.testing.assert_allclose(
        of_second(c, p),
        values[np.maximum(np.searchsorted(edges, p) - 1, 0)],
        rtol=1e-12,
        atol=1e-15,
    )


def test_probabilities_are_valid_if_one_row_has_nearly_all_weight():
    """The weight of the last bin, a difference of sums of 1e16, rounds to nothing."""
    for calibrator in EVERY:
        c = fit(calibrator, [0.2, 0.7, 0.8], [0, 1, 1], [1e16, 0.9, 0.9])
        assert ((c.bin_values_[0] >= 0) & (c.bin_values_[0] <= 1)).all(), calibrator


def test_steps_cover_all_probabilities(problem):
    for calibrator in EVERY:
        c = fit(calibrator, *problem)
        edges, values = c.bin_edges_[0], c.bin_values_[0]
        assert (np.diff(edges) > 0).all()
        if calibrator.get_params().get("interpolation") not in {"linear", "centered"}:
            assert edges[0] == 0
            assert edges[-1] == 1
            assert len(values) == len(edges) - 1
    assert len(fit(HistogramBinning(), *problem).bin_values_[0]) == 15


# --------------------------------------------------------------------------------------
# BBQ.


def literal_bbq(p, y, w, low, high, new):
    """Naeini, Cooper, Hauskrecht 2015 with plain loops; ties stay together."""
    w = np.ones(len(p)) if w is None else w
    order = np.argsort(p, kind="stable")
    p, y, w = p[order], y[order], w[order]
    logs, answers = [], []
    for B in range(low, high + 1):
        edges, mass, target = [0.0], 0.0, 1
        for i in range(len(p) - 1):
            mass += w[i]
            if p[i] < p[i + 1] and mass >= target * w.sum() / B - 1e-9:
                edges.append((p[i] + p[i + 1]) / 2)
                while target * w.sum() / B - 1e-9 <= mass:
                    target += 1
        edges.append(1.0)
        log, answer = 0.0, np.zeros(len(new))
        for m in range(len(edges) - 1):
            inside = (p > edges[m]) & (p <= edges[m + 1])
            n, k = w[inside].sum(), w[inside] @ y[inside]
            middle = np.clip((edges[m] + edges[m + 1]) / 2, 0.005, 0.995)
            a, b = 2 * middle, 2 * (1 - middle)
            log += betaln(k + a, n - k + b) - betaln(a, b)
            answer[(new > edges[m]) & (new <= edges[m + 1])] = (k + a) / (n + 2)
        logs.append(log)
        answers.append(answer)
    weights = np.exp(np.array(logs) - max(logs))
    return weights / weights.sum(), weights @ np.array(answers) / weights.sum()


@pytest.mark.parametrize("bin_range", [None, (1, 1), (3, 3), (2, 30)])
def test_bbq_is_the_literal_transcription(problem, bin_range):
    p, y, w = problem
    c = fit(BBQ(bin_range=bin_range), p, y, w)
    N = len(p) if w is None else w.sum()
    published = max(1, int(N ** (1 / 3) / 10)), min(int(np.ceil(N / 5)), len(np.unique(p)))
    low, high = bin_range or published
    assert c.n_bins_[0].tolist() == list(range(low, high + 1))
    new = expit(margins_of(np.linspace(0.0004, 0.9996, 400)))[:, 0]
    weights, expected = literal_bbq(p, y, w, low, high, new)
    np.testing.assert_allclose(np.exp(c.log_weights_[0]), weights, atol=1e-12)
    np.testing.assert_allclose(of_second(c, new), expected, atol=1e-12)


# --------------------------------------------------------------------------------------
# All of them.


@pytest.mark.parametrize("calibrator", EVERY, ids=repr)
def test_several_classes_are_one_versus_rest_and_rows_are_normalised(calibrator):
    Z, y = make_logits(400, 4, random_state=0)
    P = softmax(Z, axis=1)
    together = calibrator.fit(Z, y).predict_proba(Z)
    apart = np.stack(
        [of_second(fit(calibrator, P[:, k], (y == k).astype(int)), P[:, k]) for k in range(4)],
        axis=1,
    )
    np.testing.assert_allclose(together, apart / apart.sum(axis=1, keepdims=True), atol=1e-6)


@pytest.mark.parametrize(
    ("n", "most"), [(5, 1), (7, 2), (40, 8), (1000, 100), (1001, 101), (27000, 300)]
)
def test_bbq_tries_as_many_bins_as_its_authors(n, most, rng):
    """At most one for five rows, begun ones included, and ten cube roots."""
    margin = np.sort(rng.normal(size=(n, 1)), axis=0)
    y = np.arange(n) % 2
    assert BBQ().fit(margin, y).n_bins_[0].max() == most
