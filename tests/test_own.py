"""A calibrator that a researcher writes: two methods, as the guide shows."""

import numpy as np
import pytest
import sklearn
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.utils.estimator_checks import parametrize_with_checks

from skcalib import TemperatureScaling, compare_calibrators
from skcalib.base import BaseCalibrator
from skcalib.datasets import make_logits
from skcalib.testing import expected_failed_checks


def losses(b, Z, y):
    both = Z if Z.shape[1] > 1 else np.hstack([np.zeros_like(Z), Z])
    return -log_softmax(b * both, axis=1)[np.arange(len(y)), y]


class OwnScaling(BaseCalibrator):
    """Temperature scaling in ten lines."""

    _keeps_order = True

    def __init__(self, *, classes=None):
        super().__init__(classes=classes)

    def _fit(self, rows):
        def loss(log_b):
            def block(Z, y, w):
                return np.sum(losses(np.exp(log_b), Z, y) * (1 if w is None else w))

            return rows.sum(block) / rows.weight

        # Too close to 0 or 1, as for separable rows, the minimum would depend on rounding.
        return {"scale_": float(np.exp(minimize_scalar(loss, (-1, 0), tol=1e-10).x))}

    def _calibrate(self, Z):
        return self.scale_ * Z


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # of features in place of logits
@parametrize_with_checks([OwnScaling()], expected_failed_checks=expected_failed_checks)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("n_columns", [1, 2, 4])
def test_it_is_temperature_scaling(n_columns):
    Z, y = make_logits(500, max(n_columns, 2), temperature=2.0, random_state=0)
    Z = Z[:, 1:] - Z[:, :1] if n_columns == 1 else Z
    w = np.arange(500) % 3.0
    own, plain = OwnScaling().fit(Z, y, w), TemperatureScaling(smoothing=0).fit(Z, y, w)
    np.testing.assert_allclose(own.predict_proba(Z), plain.predict_proba(Z), atol=1e-6)
    assert np.array_equal(own.predict(Z), plain.predict(Z))
    own = sklearn.clone(own).fit(Z, np.array(list("abcd"))[y])
    assert set(own.predict(Z)) <= set("abcd")


def test_it_is_compared_with_others():
    Z, y = make_logits(300, 3, temperature=2.0, random_state=0)
    table = compare_calibrators(Z, y, calibrators=[OwnScaling(), TemperatureScaling()], cv=2)
    assert set(table.names) == {"OwnScaling", "TemperatureScaling", "uncalibrated"}


def test_mistakes_of_a_first_calibrator_are_named():
    Z, y = make_logits(100, 3, random_state=0)

    class Forgetful(OwnScaling):
        def _fit(self, rows):
            self.scale_ = 1.0

    class Flat(OwnScaling):
        def _calibrate(self, Z):
            return self.scale_ * Z[:, 0]

    with pytest.raises(TypeError, match="dict of fitted attributes by name, got None"):
        Forgetful().fit(Z, y)
    with pytest.raises(ValueError, match=r"\(100, 3\), got \(100,\) from Flat"):
        Flat().fit(Z, y).predict_proba(Z)
