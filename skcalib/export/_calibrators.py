"""Calibrators that can be exported, and metadata about them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from skcalib import conditional, experimental  # noqa: F401  (they define calibrators)
from skcalib._fits import output_of
from skcalib._input.estimators import check_fitted
from skcalib.base import OUTPUTS, BaseCalibrator
from skcalib.fusion import FusionCalibrator
from skcalib.meta import MultiLabelCalibrator

CALIBRATORS = BaseCalibrator, MultiLabelCalibrator, FusionCalibrator
PRECISIONS = "float32", "float64"
STEPS = *CALIBRATORS, Pipeline, str, type(None)  # "passthrough" and None are steps without effect


def known_calibrators() -> dict[str, type]:
    """Return all calibrator classes by name, including members of the default calibrator."""
    kinds: list[type[Any]] = [MultiLabelCalibrator, FusionCalibrator]
    kinds += BaseCalibrator.__subclasses__()
    for kind in kinds:  # the list grows by the classes derived from each class
        kinds += kind.__subclasses__()
    return {
        kind.__name__: kind
        for kind in kinds
        if kind.__module__.startswith("skcalib.") and kind.__name__[0] != "_"
    }


def fitted_chain(calibrator: Any, action: str) -> list[Any]:
    """Check and list the fitted calibrators in a pipeline; messages call the caller ``action``."""
    chain = _members(calibrator, action)
    if not chain:
        raise ValueError(f"{action} needs at least one calibrator, got a pipeline without any.")
    for member in chain:
        check_fitted(member)
    return chain


def _members(calibrator: Any, action: str) -> list[Any]:
    """List the calibrator, or all calibrators in nested pipelines."""
    if not isinstance(calibrator, Pipeline):
        if not isinstance(calibrator, CALIBRATORS):
            raise _refusal(calibrator, action)
        return [calibrator]
    steps = calibrator.steps
    others = [k for k, (_, step) in enumerate(steps) if not isinstance(step, STEPS)]
    if others:
        name, step = steps[others[-1]]
        first = (others[-1] + 1) % len(steps)  # of the calibrators, 0 if there are none
        remedy = f"Pass the calibrators alone, as in pipeline[{first}:]." if first else ""
        raise _refusal(step, action, f" in step {name!r} of the pipeline", remedy)
    real = [step for _, step in steps if step not in (None, "passthrough")]
    return [member for step in real for member in _members(step, action)]


def _refusal(calibrator: Any, action: str, where: str = "", remedy: str = "") -> TypeError:
    """Return the error for an object that is no calibrator, and the remedy."""
    is_class = isinstance(calibrator, type)
    got = f"the class {calibrator.__name__}" if is_class else type(calibrator).__name__
    if not remedy and hasattr(calibrator, "best_estimator_"):
        remedy = "Pass its best_estimator_."
    elif not remedy and hasattr(calibrator, "calibrators_") and action == "to_json":
        remedy = (
            "Save it as a whole by skops.io.dump, or pass its calibrator_ alone if this was "
            'fitted without classifiers, as AutoCalibrator("smooth") is.'
        )
    elif not remedy:
        remedy = "Fit a calibrator to the logits of the classifier, and pass the calibrator."
        if action == "to_onnx":
            remedy += " For a classifier with its calibrators see register_skl2onnx."
    return TypeError(
        f"{action} takes a fitted calibrator of skcalib, or a pipeline of calibrators, got "
        f"{got}{where}. {remedy}"
    )


def chain_logits(chain: Sequence[Any], Z: Any) -> Any:
    """Apply the formulas of all calibrators in a chain to logits: traced arrays or tensors."""
    for member in chain:
        Z = output_of(member, OUTPUTS["logits"], Z)
    return Z


def checked_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the precision of an exported model, or raise a ValueError."""
    for precision in map(np.dtype, PRECISIONS):
        if isinstance(dtype, str | type | np.dtype) and dtype in (precision, precision.type):
            return precision
    raise ValueError(f"dtype must be one of {', '.join(map(repr, PRECISIONS))}, got {dtype!r}.")


def check_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Convert metadata to text, numbers, lists and dicts. Dates become text."""

    def as_plain_value(value: Any) -> Any:
        if isinstance(value, date):
            return value.isoformat()
        if isinstance(value, np.ndarray | np.generic):
            return value.tolist()
        raise TypeError(f"{value!r:.60} of type {type(value).__name__}")

    try:
        members = {} if metadata is None else dict(metadata)
        if not all(isinstance(name, str) for name in members):
            raise TypeError("a key that is not text")
        text = json.dumps(members, default=as_plain_value, allow_nan=False)
        plain: dict[str, Any] = json.loads(text)
    except (TypeError, ValueError) as error:
        raise TypeError(
            "metadata must be a dict of text, finite numbers, dates, lists and dicts, such as "
            "{'data': 'validation 2026-01', 'n_labels': 5000}, got "
            f"{metadata!r:.80}: {error}. Convert other values to text."
        ) from error
    return plain
