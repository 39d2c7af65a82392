"""skcalib in CalArena, a benchmark of calibrators (Berta et al. 2026, arXiv:2605.30188).

CalArena runs any object with ``fit(p_cal, y_cal)`` and ``predict_proba(p)``. To run every
calibrator of skcalib in it, with this folder on the ``PYTHONPATH``, write into its
``custom_calibrators.py``::

    from calarena import entries

    CUSTOM_CALIBRATORS = entries()

and for one with other parameters ``{"my name": lambda: Adapter(MatrixScaling(alpha=1.0))}``.
``results/calarena.csv`` has its published figures of one experiment, in the columns of the suite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy as np
from methods import calibrators
from records import logits_of
from sklearn.base import clone

from skcalib.base import BaseCalibrator


class Adapter:
    """A calibrator of skcalib that is given probabilities, as CalArena does.

    They are those of all classes, (n, K), or of the second of two, (n,) or (n, 1), and in single
    precision those below its smallest number count as that. Labels are column numbers, and need
    not contain every class. ``predict_proba`` returns the probabilities of all classes, (n, K).
    """

    def __init__(self, calibrator: BaseCalibrator) -> None:
        self.calibrator = calibrator

    def fit(self, p_cal: np.ndarray, y_cal: np.ndarray) -> Self:
        Z = logits_of(p_cal)
        classes = list(range(max(Z.shape[1], 2)))
        self.calibrator_ = clone(self.calibrator).set_params(classes=classes)
        self.calibrator_.fit(Z, np.ravel(y_cal))
        return self

    def predict_proba(self, p: np.ndarray) -> np.ndarray:
        return self.calibrator_.predict_proba(logits_of(p))


def entries() -> dict[str, Callable[[], Adapter]]:
    """Every calibrator of skcalib with its defaults, for CalArena's ``CUSTOM_CALIBRATORS``."""
    return {
        f"skcalib-{name}": lambda make=make: Adapter(make()) for name, make in calibrators().items()
    }
