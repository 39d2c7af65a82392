"""Searches that end at a limit warn, and name a remedy."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from skcalib import (
    BetaCalibration,
    EnsembleTemperatureScaling,
    MatrixScaling,
    OrderPreservingScaling,
    OrdinalCalibration,
    PlattScaling,
    QuadraticScaling,
    SplineCalibration,
)
from skcalib.datasets import make_logits

Z, Y = make_logits(300, 3, temperature=2.0, offset=[0, 1, 2], random_state=0)
# Calibrators whose number of passes is a constant, and a word of the remedy.
CONSTANTS = {
    "logistic.MAX_PASSES": [
        (PlattScaling(), "nearly constant columns"),
        (PlattScaling(smooth_targets=False), "smooth_targets=True"),
        (QuadraticScaling(), "nearly constant columns"),
        (QuadraticScaling(alpha=0), "alpha"),
        (BetaCalibration(alpha=0), "alpha"),
        (SplineCalibration(alpha=0.1), "knots"),
    ],
    "mixture.MAX_ITERATIONS": [(EnsembleTemperatureScaling(), "ensemble")],
    "piecewise.MAX_PASSES": [(OrderPreservingScaling(), "converged")],
}


@pytest.mark.parametrize("constant", CONSTANTS)
def test_a_search_that_ends_at_its_limit_warns_with_a_remedy(constant, monkeypatch):
    monkeypatch.setattr(f"skcalib._optimize.{constant}", 2 if "logistic" in constant else 1)
    for calibrator, remedy in CONSTANTS[constant]:
        with pytest.warns(ConvergenceWarning, match=remedy):
            P = calibrator.fit(Z, Y).predict_proba(Z)
        assert np.isfinite(P).all()


@pytest.mark.parametrize("alpha", [0, 1.0])
@pytest.mark.parametrize("kind", [MatrixScaling, OrdinalCalibration])
def test_a_search_that_ends_at_max_iter_names_it(kind, alpha):
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        fitted = kind(alpha=alpha, max_iter=1).fit(Z, Y)
    assert np.isfinite(fitted.predict_proba(Z)).all()


@pytest.mark.parametrize("kind", [PlattScaling, QuadraticScaling, BetaCalibration])
def test_usual_rows_need_few_passes(kind):
    assert 4 <= kind().fit(Z, Y).n_iter_ < 15
