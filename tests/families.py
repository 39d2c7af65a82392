"""The families whose laws are tested. What skcalib exports joins them by itself."""

import numpy as np

import skcalib
from skcalib._base import BaseCalibrator
from skcalib.scaling import VectorMap

CALIBRATORS = [
    member
    for member in (getattr(skcalib, name) for name in skcalib.__all__)
    if isinstance(member, type) and issubclass(member, BaseCalibrator)
]
# Members of the joint family: their fit is the minimum of the log loss over linear maps.
JOINT = [skcalib.TemperatureScaling, skcalib.VectorScaling]
# The same in the forms of the paper, which are at their optimum when applied a second time.
PLAIN = [
    skcalib.TemperatureScaling(),
    skcalib.VectorScaling(alpha=0, normalize=False, tol=1e-8),
]
# Calibrators without a ridge or a prior, which weighs rows against itself: scaling all weights
# changes nothing.
INDIFFERENT_TO_TOTAL_WEIGHT = [skcalib.TemperatureScaling]
# Calibrators that keep the order of the classes in every row, and with it the accuracy.
ORDER_KEEPING = [skcalib.TemperatureScaling]


class TemperatureMap:
    """Scores ``theta Z``."""

    @staticmethod
    def scores(theta, Z, out=None):
        return np.multiply(Z, theta[0], out=out)

    @staticmethod
    def adjoint(R, Z):
        return np.array([np.einsum("ij,ij->", R, Z)])


class MatrixMap:
    """Scores ``Z A^T + c`` with ``theta`` the rows of ``A`` and then ``c``."""

    @staticmethod
    def scores(theta, Z, out=None):
        K = Z.shape[1]
        out = np.matmul(Z, theta[: K * K].reshape(K, K).T, out=out)
        out += theta[K * K :]
        return out

    @staticmethod
    def adjoint(R, Z):
        return np.concatenate([(R.T @ Z).ravel(), R.sum(axis=0)])


def identity(map_, K):
    """Parameters of the map that leave logits of K classes as they are."""
    if map_ is TemperatureMap:
        return np.ones(1)
    slopes = np.eye(K).ravel() if map_ is MatrixMap else np.ones(K)
    return np.concatenate([slopes, np.zeros(K)])


MAPS = [TemperatureMap, VectorMap, MatrixMap]
