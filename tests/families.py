"""The families whose laws are tested. What skcalib exports joins them by itself."""

import numpy as np

import skcalib
import skcalib.metrics
from skcalib._base import BaseCalibrator
from skcalib._engine.memory import MemoryRows
from skcalib._linear.features import Features
from skcalib._linear.maps import MatrixMap, VectorMap
from skcalib.scaling import TemperatureScaling
from skcalib.scaling._linear import _LinearScaling

CALIBRATORS = [
    member
    for member in (getattr(skcalib, name) for name in skcalib.__all__)
    if isinstance(member, type) and issubclass(member, BaseCalibrator)
]
# Members of the joint family: their fit is the minimum of the log loss over linear maps.
JOINT = [kind for kind in CALIBRATORS if issubclass(kind, TemperatureScaling | _LinearScaling)]
# Regularization off, and what else makes a fit harder.
HARDER = [
    {"alpha": 0},
    {"alpha": "loo"},
    {"alpha": 0, "fit_intercept": False},
    {"alpha": 0, "normalize": False},
    {"smooth_targets": False},
]
# Calibrators without a ridge or a prior, for which only the ratios of weights matter.
INDIFFERENT_TO_TOTAL_WEIGHT = [kind for kind in CALIBRATORS if kind()._weights_are_relative()]
ORDER_KEEPING = [kind for kind in CALIBRATORS if kind._keeps_order]


def with_known(kind, **params):
    """The calibrator with those of the parameters that it has."""
    return kind(**{name: params[name] for name in params if name in kind().get_params()})


# The joint family as in the paper, which is at its optimum when applied a second time.
PLAIN = [with_known(kind, alpha=0, normalize=False, tol=1e-8) for kind in JOINT]
# Every calibrator, by default and where a fit is harder.
FORMS = [
    *(kind() for kind in CALIBRATORS),
    *(kind(**p) for kind in CALIBRATORS for p in HARDER if p.keys() <= kind().get_params().keys()),
]


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
