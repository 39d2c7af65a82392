"""Families of calibrators and measures for the laws. Public names of skcalib join automatically.

A law is a test over one of these families. ``test_calibrators.py`` has the laws of fits and
messages, ``test_outputs.py`` the laws of outputs, ``test_hard_data.py`` the laws of data without an
optimum, ``test_any_input.py`` the laws of random input, ``test_one_row.py`` the laws of single rows
and ``test_estimator_checks.py`` the checks of scikit-learn.
"""

from __future__ import annotations

from inspect import isfunction, signature

import pytest
from helpers import (
    features_of,
    fitted_state,
    log_probabilities_of,
    mixed,
    mixed_log_probabilities,
    of_case,
    predicting,
    public_objects,
    with_known,
)
from stand_ins import (
    STAND_INS,
    AutoCalibrator,
    ConditionalCalibrator,
    EstimatorCalibration,
    Unfittable,
    Weighable,
    refuse,
)

import skcalib
import skcalib.clinical
import skcalib.conditional
import skcalib.decision
import skcalib.experimental
import skcalib.metrics
from skcalib._base import BaseCalibrator
from skcalib.scaling import TemperatureScaling
from skcalib.scaling._linear import _LinearScaling

# --------------------------------------------------------------------------------------
# Calibrators.

# Every public calibrator, with fast stand-ins for the slow ones.
CALIBRATORS = [
    STAND_INS.get(member.__name__, member)
    for member in public_objects(skcalib, skcalib.conditional, skcalib.experimental)
    if isinstance(member, type) and issubclass(member, BaseCalibrator)
]

# Calibrators that keep the order of the classes.
ORDER_KEEPING = [kind for kind in CALIBRATORS if kind._keeps_order]

# Calibrators with random folds, which depend on the number and the order of rows.
WITH_FOLDS = AutoCalibrator, ConditionalCalibrator, skcalib.AutoCalibrator
WITHOUT_FOLDS = [kind for kind in CALIBRATORS if kind not in WITH_FOLDS]

# Calibrators outside the default comparison.
OTHERS = (
    skcalib.OrdinalCalibration,  # for ordered classes
    skcalib.Uncalibrated,  # always included
    EstimatorCalibration,
    ConditionalCalibrator,  # the default given features
    skcalib.experimental.NoisyLabelCalibration,  # of labels that are wrong
    skcalib.PriorShift,  # repairs nothing by itself
    skcalib.experimental.TopLabelCalibration,
)
COMPARED = [kind for kind in CALIBRATORS if kind not in OTHERS]

# Calibrators that minimize the log loss over linear maps.
JOINT = [kind for kind in CALIBRATORS if issubclass(kind, TemperatureScaling | _LinearScaling)]

# Parameters that make fits harder, such as no regularization.
HARDER = [
    {"alpha": 0},
    {"alpha": 0, "smoothing": 0},
    {"alpha": 0, "smoothing": 0, "fit_intercept": False},
    {"alpha": 0, "smoothing": 0, "normalize": False},
    {"smoothing": 0.01},
    {"pseudo_rows": 0},
    {"smooth_targets": False},
    {"alpha": 0, "increasing": True},
]

# Every calibrator with default parameters and with parameters that make the fit harder.
FORMS = [
    *(kind() for kind in CALIBRATORS),
    *(kind(alpha="loo") for kind in CALIBRATORS if issubclass(kind, _LinearScaling)),
    *(kind(**p) for kind in CALIBRATORS for p in HARDER if p.keys() <= kind().get_params().keys()),
]

# --------------------------------------------------------------------------------------
# Quick and slow members.


def _fit_path(kind):
    """Base classes and fit method, which calibrators on the same code path share."""
    bases = [base for base in kind.__mro__[1:] if issubclass(base, BaseCalibrator)]
    return kind.fit, tuple(base for base in bases if base.__name__ != kind.__name__)


# One calibrator of each fit path, for laws that take long.
REPRESENTATIVES = list({_fit_path(kind): kind for kind in CALIBRATORS}.values())
# Without features, ConditionalCalibrator is fitted as AutoCalibrator is.
REPRESENTATIVES.remove(ConditionalCalibrator)


def quick(members):
    """Parameters of a law, marked slow if another calibrator covers the same fit path.

    One calibrator of each fit path and its default form are quick. A law of the small
    AutoCalibrator is also tested, as a slow test, on the real AutoCalibrator.
    """
    defaults = {f"{kind.__name__}()" for kind in REPRESENTATIVES}
    members = list(members)
    if AutoCalibrator in members:
        members.append(skcalib.AutoCalibrator)
    return [
        member
        if member in REPRESENTATIVES or repr(member) in defaults
        else pytest.param(member, marks=pytest.mark.slow)
        for member in members
    ]


# --------------------------------------------------------------------------------------
# Measures.

# Functions of labels and probabilities, except functions with a cost, features or a threshold.
# MEASURES take every kind; OF_DECISIONS take certain scores alone.
OF_LABELS = [
    member
    for member in public_objects(
        skcalib.metrics, skcalib.decision, skcalib.clinical, skcalib.conditional
    )
    if isfunction(member)
    and {"y_true", "y_proba"} <= signature(member).parameters.keys()
    and not {"cost", "features", "threshold"} & signature(member).parameters.keys()
]
MEASURES = [
    f for f in OF_LABELS if getattr(signature(f).parameters.get("kind"), "default", 0) == "auto"
]
OF_DECISIONS = [f for f in OF_LABELS if f not in MEASURES]
# Binned measures that are proportional to the gaps of bins.
GAPS = [
    skcalib.metrics.expected_calibration_error,
    skcalib.metrics.maximum_calibration_error,
    skcalib.metrics.root_mean_squared_calibration_error,
    skcalib.metrics.overconfidence_error,
    skcalib.metrics.underconfidence_error,
]

__all__ = [
    "CALIBRATORS",
    "COMPARED",
    "FORMS",
    "GAPS",
    "HARDER",
    "JOINT",
    "MEASURES",
    "OF_DECISIONS",
    "OF_LABELS",
    "ORDER_KEEPING",
    "OTHERS",
    "REPRESENTATIVES",
    "STAND_INS",
    "WITHOUT_FOLDS",
    "WITH_FOLDS",
    "AutoCalibrator",
    "ConditionalCalibrator",
    "EstimatorCalibration",
    "Unfittable",
    "Weighable",
    "features_of",
    "fitted_state",
    "log_probabilities_of",
    "mixed",
    "mixed_log_probabilities",
    "of_case",
    "predicting",
    "public_objects",
    "quick",
    "refuse",
    "with_known",
]
