"""Laws of ties: votes k/10 of ten trees are the same scores in float32 and in float64."""

import numpy as np
import pytest
from families import FORMS, quick
from public import doors, numbers
from scipy.special import expit, logit
from sklearn.base import clone

import skcalib

N_TREES = 10

STEPS = [
    skcalib.HistogramBinning(n_bins=10),
    skcalib.HistogramBinning(strategy="quantile"),
    skcalib.IsotonicCalibration(interpolation="linear"),
    skcalib.IsotonicCalibration(interpolation="centered"),
    skcalib.VennAbersCalibration(multi_class="ovo"),
]

# Without normalization, fits depend on the form of the logits.
INVARIANT = [form for form in FORMS if form.get_params().get("normalize", True)]

# Results that depend on random draws of rows or labels.
RANDOM = {
    "metrics.calibration_test": "the p-value counts draws",
    "clinical.optimism_corrected": "fits to draws",
    "report.validation_report": "intervals of drawn rows",
}


def votes(n_classes, n_rows=300):
    rng = np.random.default_rng(0)
    V = np.array([rng.multinomial(N_TREES, p) for p in rng.dirichlet([2.0] * n_classes, n_rows)])
    return V, np.array([rng.choice(n_classes, p=v / N_TREES) for v in V])


def forms_of_logits(V):
    """The same votes as logits that differ by rounding."""
    P = (V + 0.5) / (N_TREES + V.shape[1] / 2)
    Z = np.log(P)
    forms = [Z.astype(np.float32), Z.astype(np.float32).astype(float), np.log(P.astype(np.float32)),
             (Z + 3.3).astype(np.float32)]  # fmt: skip
    if V.shape[1] == 2:
        log_odds = logit(P[:, 1:])
        forms += [log_odds, log_odds.astype(np.float32), log_odds.astype(np.float32).astype(float)]
    return Z, forms


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("calibrator", quick([*INVARIANT, *STEPS]), ids=repr)
def test_calibrators_give_the_same_votes_the_same_probabilities(calibrator, n_classes):
    V, y = votes(n_classes)
    Z, forms = forms_of_logits(V)
    expected = clone(calibrator).fit(Z, y).predict_proba(Z)
    for X in forms:
        P = clone(calibrator).fit(X, y).predict_proba(X)
        np.testing.assert_allclose(P, expected, atol=1e-4)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("calibrator", quick([*FORMS, *STEPS]), ids=repr)
def test_log_odds_of_two_digits_have_equal_probabilities_in_both_precisions(calibrator, rng):
    """Most scores after the fit are equal to some score in the fit, up to rounding."""
    z, new = (rng.normal(0, 2, (2000, 1)).round(2) for _ in range(2))
    fitted = clone(calibrator).fit(z, rng.random(2000) < expit(0.6 * z[:, 0]))
    single = fitted.predict_proba(new.astype(np.float32))
    np.testing.assert_allclose(single, fitted.predict_proba(new), atol=1e-5)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("door", doors(skip=RANDOM))
def test_measures_of_the_same_votes_are_equal(door):
    V, y = votes(2)
    p = V[:, 1] / N_TREES
    expected = numbers(door(y_true=y, y_proba=p))
    for q in (p.astype(np.float32), p.astype(np.float32).astype(float), 1 - (1 - p)):
        np.testing.assert_allclose(numbers(door(y_true=y, y_proba=q)), expected, atol=1e-5)


def test_dense_scores_in_single_precision_are_no_ties():
    """Their distances are rounding errors, but all of them together are no rounding error."""
    p = np.linspace(0.5, 0.501, 4000, dtype=np.float32)
    y = (np.arange(len(p)) % 2).astype(int)
    curve = skcalib.metrics.reliability_curve(y, p, n_bins=4, strategy="quantile")
    np.testing.assert_allclose(curve.n_samples, 1000, atol=50)
