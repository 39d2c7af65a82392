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
    def scores(theta, Z, out=None):
        return np.multiply(Z, theta[0], out=out)

    @staticmethod
    def adjoint(R, Z):
        return np.array([np.einsum("ij,ij->", R, Z)])


class VectorMap:
    """Scores ``theta[:K] * Z + theta[K:]``."""

    @staticmethod
    def n_parameters(K):
        return 2 * K

    @staticmethod
    def scores(theta, Z, out=None):
        K = Z.shape[1]
        out = np.multiply(Z, theta[:K], out=out)
        out += theta[K:]
        return out

    @staticmethod
    def adjoint(R, Z):
        return np.concatenate([np.einsum("ij,ij->j", R, Z), R.sum(axis=0)])


class MatrixMap:
    """Scores ``Z A^T + c`` with ``theta`` the rows of ``A`` and then ``c``."""

    @staticmethod
    def n_parameters(K):
        return K * K + K

    @staticmethod
    def scores(theta, Z, out=None):
        K = Z.shape[1]
        out = np.matmul(Z, theta[: K * K].reshape(K, K).T, out=out)
        out += theta[K * K :]
        return out

    @staticmethod
    def adjoint(R, Z):
        return np.concatenate([(R.T @ Z).ravel(), R.sum(axis=0)])


MAPS = [TemperatureMap, VectorMap, MatrixMap]
