"""Made data follow the true probabilities; the digits network has the documented properties."""

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import chisquare

from skcalib.datasets import make_logits


def test_labels_are_drawn_from_the_true_probabilities():
    _, y, P = make_logits(50_000, 4, return_proba=True, random_state=0)
    for k in range(4):
        tenth = np.digitize(P[:, k], np.linspace(0, 1, 11)[1:-1])
        for b in range(10):
            hits, expected = (y == k)[tenth == b].sum(), P[:, k][tenth == b].sum()
            n = (tenth == b).sum()
            assert chisquare([hits, n - hits], [expected, n - expected]).pvalue > 1e-5


def test_logits_have_the_requested_distortion():
    offset = [0.0, 1.0, -2.0]
    logits, _, P = make_logits(
        100, 3, temperature=2.5, offset=offset, return_proba=True, random_state=0
    )
    np.testing.assert_allclose(softmax((logits - offset) / 2.5, axis=1), P)


def test_seed():
    a, b, c = (make_logits(20, 3, random_state=seed) for seed in (0, 0, 1))
    assert np.array_equal(a[0], b[0])
    assert np.array_equal(a[1], b[1])
    assert not np.array_equal(a[0], c[0])


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_samples", -1), ("n_samples", True), ("n_classes", 1), ("temperature", 0),
     ("temperature", np.inf), ("spread", -1.0)],
)  # fmt: skip
def test_bad_parameters_are_named(name, value):
    with pytest.raises(ValueError, match=f"{name} .*{value}"):
        make_logits(**{name: value})


def test_digits_network(digits):
    assert digits.logits_calibration.shape == (848, 10)
    assert digits.logits_test.shape == (849, 10)
    np.testing.assert_allclose(
        softmax(digits.logits_test, axis=1), digits.classifier.predict_proba(digits.X_test)
    )
    accuracy = digits.classifier.score(digits.X_test, digits.y_test)
    confidence = softmax(digits.logits_test, axis=1).max(axis=1).mean()
    assert 0.8 < accuracy < 0.95
    assert confidence > accuracy + 0.05  # over-confident
