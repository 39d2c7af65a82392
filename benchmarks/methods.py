"""Every calibrator of skcalib and of other libraries, for the benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from peers import SLOWEST, Fitted, Method, peers

import skcalib
import skcalib.experimental
from skcalib.base import BaseCalibrator


def all_methods() -> list[Method]:
    """Methods of skcalib, then those of each library that is installed."""
    return ours() + peers()


# Calibrators that need more than logits and labels, and the calibrator that changes nothing.
EXCLUDED = {"ConditionalCalibrator", "PriorShift", "NoisyLabelCalibration", "Uncalibrated"}


def calibrators() -> dict[str, type[BaseCalibrator]]:
    """Every calibrator that skcalib exports, by name, except the excluded."""
    modules = skcalib, skcalib.experimental
    members = {
        name: getattr(module, name)
        for module in modules
        for name in module.__all__
        if name not in EXCLUDED
    }
    return {
        name: member
        for name, member in members.items()
        if isinstance(member, type) and issubclass(member, BaseCalibrator)
    }


def of_ours(name: str, make: Callable[..., Any]) -> Method:
    def fit(Z: np.ndarray, y: np.ndarray) -> Fitted:
        return make(classes=range(max(Z.shape[1], 2))).fit(Z, y).predict_proba

    largest = SLOWEST if name == "EstimatorCalibration" else np.inf
    return Method(name, "skcalib", fit, largest=largest)


def ours() -> list[Method]:
    """Every calibrator of skcalib, with its defaults."""
    return [of_ours(name, make) for name, make in calibrators().items()]
