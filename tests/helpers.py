"""Functions that tests of several folders share."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.pipeline import Pipeline

from skcalib._optimize.linear import log_features
from skcalib._rows.arrays import both_columns
from skcalib._rows.rows import MemoryRows


def public_objects(*modules):
    """Objects in the ``__all__`` of the modules."""
    return [getattr(module, name) for module in modules for name in module.__all__]


@contextmanager
def of_case(name):
    """Add the name of the failing case to errors inside a loop over cases."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"in the case of {name!r}")
        raise


def fitted_state(calibrator):
    """Fitted attributes by name. Attributes of inner estimators replace these estimators."""
    state = {}
    for name, value in vars(calibrator).items():
        if name.endswith("_"):
            state |= _flat(name, value)
    return state


def _flat(name, value):
    if isinstance(value, Pipeline):
        return _flat(name, value[-1])
    if isinstance(value, HistGradientBoostingClassifier | ExtraTreesClassifier):
        return {name: repr(value)}
    if isinstance(value, BaseEstimator):
        value = fitted_state(value)
    elif isinstance(value, list) and any(isinstance(member, BaseEstimator) for member in value):
        value = dict(enumerate(value))
    if not isinstance(value, dict):
        return {name: value}
    parts = [_flat(f"{name}{key}", part) for key, part in value.items()]
    return {key: part for flat in parts for key, part in flat.items()}


def predicting(calibrator, Z, calibrated):
    """Logits that decide the prediction: uncalibrated ones if the calibrator keeps predictions."""
    return Z if calibrator._keeps_predictions else calibrated


def with_known(kind, **params):
    """The calibrator with the parameters that its constructor accepts."""
    return kind(**{name: params[name] for name in params if name in kind().get_params()})


def features_of(Z, y, w=None, scale=1.0):
    """Rows of scaled logits as features of a linear map."""
    return MemoryRows(both_columns(scale * Z), y, w)


def log_probabilities_of(Z, y, w, scale):
    """Rows of log-probabilities of scaled logits as features."""
    return MemoryRows(log_features(1.0, 0.0, scale * Z), y, w)


def mixed(P, c):
    """Probabilities mixed with the uniform distribution by ``smoothing_``."""
    return (1 - c.smoothing_) * P + c.smoothing_ / P.shape[1]


def mixed_log_probabilities(c, Z):
    """Smoothed log-probabilities of temperature scaling, the input of linear maps."""
    return np.log(mixed(softmax(Z / c.temperature_, axis=1), c))
