"""The families whose laws are tested. What skcalib exports joins them by itself."""

import numpy as np

import skcalib
import skcalib.metrics
from skcalib._base import BaseCalibrator
from skcalib._engine.memory import MemoryRows
from skcalib._linear.features import Features
from skcalib._linear.maps import MatrixMap, VectorMap

CALIBRATORS = [
    member
    for member in (getattr(skcalib, name) for name in skcalib.__all__)
    if isinstance(member, type) and issubclass(member, BaseCalibrator)
]
# Members of the joint family: their fit is the minimum of the log loss over linear maps.
JOINT = [skcalib.TemperatureScaling, skcalib.VectorScaling, skcalib.MatrixScaling]
# The same in the forms of the paper, which are at their optimum when applied a second time.
PLAIN = [
    skcalib.TemperatureScaling(),
    skcalib.VectorScaling(alpha=0, normalize=False, tol=1e-8),
    skcalib.MatrixScaling(alpha=0, normalize=False, tol=1e-8),
]
# Every calibrator, and forms without what holds it back where there is little to learn from.
FORMS = [
    *(kind() for kind in CALIBRATORS),
    skcalib.VectorScaling(alpha=0),
    skcalib.VectorScaling(alpha=0, fit_intercept=False),
    skcalib.VectorScaling(alpha=0, normalize=False),
    skcalib.MatrixScaling(alpha=0),
    skcalib.MatrixScaling(alpha=0, normalize=False),
    skcalib.PlattScaling(smooth_targets=False),
]
# Calibrators without a ridge or a prior, which weighs rows against itself: scaling all weights
# changes nothing.
INDIFFERENT_TO_TOTAL_WEIGHT = [skcalib.TemperatureScaling]
# Calibrators that keep the order of the classes in every row, and with it the accuracy.
ORDER_KEEPING = [skcalib.TemperatureScaling]


class TemperatureMap:
    """Scores ``theta Z``."""

    def __repr__(self):
        return "TemperatureMap()"

    @staticmethod
    def identity(_):
        return np.ones(1)

    @staticmethod
    def ridge(regularization, _):
        return np.array([regularization.diagonal])

    @staticmethod
    def preconditioner(*_):
        return np.asarray

    @staticmethod
    def scores(theta, Z, out=None):
        return np.multiply(Z, theta[0], out=out)

    @staticmethod
    def adjoint(R, Z):
        return np.array([np.einsum("ij,ij->", R, Z)])


MAPS = [TemperatureMap, VectorMap, MatrixMap]


def features_of(Z, y, w=None, scale=1.0):
    """Scaled logits as features of a linear map."""
    return Features(MemoryRows(Z, y, w), scale)


def log_probabilities_of(Z, y, w, scale):
    """Log-probabilities of scaled logits as features."""
    return Features.of_log_probabilities(MemoryRows(Z, y, w), scale)


# Measures in proportion to the gaps of bins.
GAPS = [
    skcalib.metrics.expected_calibration_error,
    skcalib.metrics.maximum_calibration_error,
    skcalib.metrics.root_mean_squared_calibration_error,
    skcalib.metrics.overconfidence_error,
    skcalib.metrics.underconfidence_error,
]
