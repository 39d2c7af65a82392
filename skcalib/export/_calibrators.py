"""Calibrators that can be exported, and metadata about them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from skcalib import conditional, experimental  # noqa: F401  (they define calibrators)
from skcalib._input.rows import check_fitted
from skcalib.base import BaseCalibrator
from skcalib.fusion import FusionCalibrator
from skcalib.meta import MultiLabelCalibrator

EXPORTED = BaseCalibrator | MultiLabelCalibrator | FusionCalibrator


def known_calibrators() -> dict[str, type]:
    """Return all calibrator classes by name, including members of the default calibrator."""

    def subclasses(kind: type[Any]) -> Iterator[type[Any]]:
        children: list[type[Any]] = kind.__subclasses__()
        for child in children:
            yield child
            yield from subclasses(child)

    public = [
        kind
        for kind in subclasses(BaseCalibrator)
        if kind.__module__.startswith("skcalib.") and not kind.__name__.startswith("_")
    ]
    return {kind.__name__: kind for kind in (*public, MultiLabelCalibrator, FusionCalibrator)}


def fitted_chain(calibrator: Any, action: str) -> list[Any]:
    """Check and list the fitted calibrators in a pipeline; messages call the caller ``action``."""
    chain = list(_iterate_chain(calibrator, action))
    if not chain:
        raise ValueError(f"{action} needs at least one calibrator, got a pipeline without any.")
    for member in chain:
        check_fitted(member)
    return chain


def _iterate_chain(
    calibrator: Any, action: str, step: str | None = None, following: str = ""
) -> Iterator[Any]:
    """Yield the calibrator, or all calibrators in nested pipelines.

    Messages name the ``step``, and say that the steps in ``following`` can be passed alone.
    """
    if isinstance(calibrator, Pipeline):
        steps = [
            (i, name, member)
            for i, (name, member) in enumerate(calibrator.steps)
            if member is not None and member != "passthrough"
        ]
        refused = [s for s in steps if not isinstance(s[2], Pipeline | EXPORTED)]
        for i, name, member in refused[-1:] or steps:  # the steps after the last refused one work
            following = f"pipeline[{i + 1}:]" if i < steps[-1][0] else ""
            yield from _iterate_chain(member, action, name, following)
    elif isinstance(calibrator, EXPORTED):
        yield calibrator
    else:
        is_class = isinstance(calibrator, type)
        got = f"the class {calibrator.__name__}" if is_class else type(calibrator).__name__
        where = "" if step is None else f" in step {step!r} of the pipeline"
        remedy = "Fit a calibrator to the logits of the classifier, and pass the calibrator."
        if following:
            remedy = f"Pass the calibrators alone, as in {following}."
        elif hasattr(calibrator, "best_estimator_"):
            remedy = "Pass its best_estimator_."
        elif hasattr(calibrator, "calibrators_") and action == "to_json":
            remedy = (
                "Save it as a whole by skops.io.dump, or pass its calibrator_ alone if this was "
                'fitted without classifiers, as AutoCalibrator("smooth") is.'
            )
        elif action == "to_onnx":
            remedy += " For a classifier with its calibrators see register_skl2onnx."
        raise TypeError(
            f"{action} takes a fitted calibrator of skcalib, or a pipeline of calibrators, got "
            f"{got}{where}. {remedy}"
        )


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
    except (TypeError, ValueError) as error:
        raise TypeError(
            "metadata must be a dict of text, finite numbers, dates, lists and dicts, such as "
            "{'data': 'validation 2026-01', 'n_labels': 5000}, got "
            f"{metadata!r:.80}: {error}. Convert other values to text."
        ) from error
    plain: dict[str, Any] = json.loads(text)
    return plain
