"""The families whose laws are tested. What skcalib exports joins them by itself."""

import numpy as np

import skcalib
from skcalib._base import BaseCalibrator

CALIBRATORS = [
    member
    for member in (getattr(skcalib, name) for name in skcalib.__all__)
    if isinstance(member, type) and issubclass(member, BaseCalibrator)
]
# Members of the joint family: their fit is the minimum of the log loss over linear maps.
JOINT = [skcalib.TemperatureScaling]
# Calibrators that keep the order of the classes in every row, and with it the accuracy.
ORDER_KEEPING = [skcalib.TemperatureScaling]


class TemperatureMap:
    """Scores ``theta Z``."""

    @staticmethod
    def n_parameters(_):
        return 1

    @staticmethod
    def scores(theta, Z):
        return theta[0] * Z

    @staticmethod
    def adjoint(R, Z):
        return np.array([np.sum(R * Z)])


class VectorMap:
    """Scores ``theta[:K] * Z + theta[K:]``."""

    @staticmethod
    def n_parameters(K):
        return 2 * K

    @staticmethod
    def scores(theta, Z):
        K = Z.shape[1]
        return theta[:K] * Z + theta[K:]

    @staticmethod
    def adjoint(R, Z):
        return np.concatenate([np.sum(R * Z, axis=0), R.sum(axis=0)])


class MatrixMap:
    """Scores ``Z A^T + c`` with ``theta`` the rows of ``A`` and then ``c``."""

    @staticmethod
    def n_parameters(K):
        return K * K + K

    @staticmethod
    def scores(theta, Z):
        K = Z.shape[1]
        return Z @ theta[: K * K].reshape(K, K).T + theta[K * K :]

    @staticmethod
    def adjoint(R, Z):
        return np.concatenate([(R.T @ Z).ravel(), R.sum(axis=0)])


MAPS = [TemperatureMap, VectorMap, MatrixMap]
