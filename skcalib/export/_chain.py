"""What is exported: a fitted calibrator, or a pipeline of them."""

from collections.abc import Iterator
from typing import Any

from sklearn.pipeline import Pipeline

from skcalib._base import BaseCalibrator
from skcalib._validation.inputs import check_fitted
from skcalib.meta import MultiLabelCalibrator


def chain_of(calibrator: Any, action: str) -> list[Any]:
    """The fitted calibrators that are applied one after the other; ``action`` is for messages."""
    chain = list(_calibrators_in(calibrator, action))
    if not chain:
        raise ValueError(f"{action} needs at least one calibrator, got a pipeline without any.")
    for member in chain:
        check_fitted(member)
    return chain


def _calibrators_in(calibrator: Any, action: str, name: str | None = None) -> Iterator[Any]:
    """A calibrator, or the members of a pipeline; ``name`` is that of its step in another."""
    if isinstance(calibrator, Pipeline):
        for step, member in calibrator.steps:
            if member is not None and member != "passthrough":
                yield from _calibrators_in(member, action, step)
    elif isinstance(calibrator, BaseCalibrator | MultiLabelCalibrator):
        yield calibrator
    else:
        of_class = isinstance(calibrator, type)
        got = f"the class {calibrator.__name__}" if of_class else type(calibrator).__name__
        where = "" if name is None else f" in step {name!r} of the pipeline"
        remedy = "Fit a calibrator to the logits of the classifier, and pass that."
        if name is not None:
            remedy = "Pass the calibrators alone, as in pipeline[1:]."
        elif hasattr(calibrator, "best_estimator_"):
            remedy = "Pass its best_estimator_."
        elif hasattr(calibrator, "calibrators_") and action == "to_json":
            remedy = "Save it as a whole by skops.io.dump, or pass its calibrator_ alone."
        elif action == "to_onnx":
            remedy += " For a classifier with its calibrators see register_skl2onnx."
        raise TypeError(
            f"{action} takes a fitted calibrator of skcalib, or a pipeline of calibrators, got "
            f"{got}{where}. {remedy}"
        )
