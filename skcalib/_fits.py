"""Fit calibrators inside other estimators, and compute their outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from skcalib import base
from skcalib._input.arrays import on_host
from skcalib._input.classes import with_unknown_classes
from skcalib._input.estimators import fit_params, params_named, weight_params
from skcalib._input.groups import unless_single
from skcalib._input.logits import refuse_masked
from skcalib._rows import Rows, both_columns, namespace
from skcalib._rows.arrays import mix_logits
from skcalib._typing import Array, Floats, Output
from skcalib.base import BaseCalibrator


def fit_calibrator(
    calibrator: Any,
    Z: Floats,
    y: Array,
    w: Floats | None,
    classes: Array | None,
    *,
    groups: Any = None,
    order: Array | None = None,
    **arguments: Any,
) -> Any:
    """Fit a copy of the calibrator to logits (n, K), labels (n,) and weights (n,).

    ``classes`` (K,) are the column labels, None for calibrators with several labels per row.
    ``order`` (K,) are the labels from the lowest to the highest, or None. Calibrators for ordered
    classes get this order unless they define one.
    """
    fitted = clone(calibrator)
    names = [name for name, value in params_named("classes", fitted).items() if value is None]
    fitted.set_params(**dict.fromkeys(names, classes))
    for name, value in params_named("order", fitted).items():
        # The default calibrator accepts an order only with ordered=True.
        if value is None and fitted.get_params().get(f"{name}ed", True):
            fitted.set_params(**{name: order})
    arguments |= weight_params(fitted, w)
    if (groups := unless_single(groups)) is not None:
        arguments |= fit_params(fitted, "groups", groups)
    if not isinstance(fitted, Pipeline):
        return fitted.fit(Z, y, **arguments)
    with config_context(enable_metadata_routing=False):  # routing would refuse arguments for steps
        return fitted.fit(Z, y, **arguments)


def fit_to_rows(calibrator: Any, rows: Rows) -> Any:
    """Fit a copy of the calibrator to checked rows with logits and class indices.

    Calibrators that inherit ``fit`` from BaseCalibrator pass over the rows. Other calibrators are
    fitted in memory, to a sample if Dask has many rows.
    """
    if inherits(calibrator, "fit"):
        return with_fitted(calibrator, calibrator._fit(rows), rows)  # noqa: SLF001
    sample = rows.in_memory()
    return fit_calibrator(
        calibrator, sample.X, rows.classes[sample.y], sample.w, rows.classes, groups=sample.groups,
        order=rows.order,
    )  # fmt: skip


def with_fitted(
    calibrator: BaseCalibrator, attributes: dict[str, Any], rows: Rows
) -> BaseCalibrator:
    """Copy the calibrator, and set attributes that were fitted to rows."""
    fitted = clone(calibrator)
    for name, value in attributes.items():
        setattr(fitted, name, value)
    fitted.classes_, fitted.n_features_in_ = rows.classes, rows.n_columns
    return fitted


def log_probabilities(calibrator: Any, Z: Floats, classes: Array) -> Floats:
    """Predict log-probabilities (m, K) by a fitted calibrator for checked logits (m, K).

    They are -inf for masked classes, and finite for other classes. ``classes`` (K,) are the column
    labels.
    """
    if not isinstance(Z, np.ndarray):  # an ONNX graph, or a tensor inside a torch module
        return output_of(calibrator, base.log_probabilities, Z)
    if inherits(calibrator, "predict_proba"):
        if not calibrator._takes_masked and np.isneginf(Z.min()):  # noqa: SLF001
            refuse_masked(calibrator)
        return base.log_probabilities(calibrator, Z)
    P = np.asarray(calibrator.predict_proba(Z), dtype=Z.dtype)
    fitted_classes = np.asarray(on_host(getattr(calibrator, "classes_", classes)))
    if P.shape != (len(Z), len(fitted_classes)) or not np.isfinite(P).all():
        n_bad = np.count_nonzero(~np.isfinite(P))
        raise ValueError(
            f"predict_proba must return finite probabilities of {len(fitted_classes)} classes, got "
            f"an array of shape {P.shape} for {len(Z)} rows, with {n_bad} values that are not "
            f"finite, from {calibrator!r}. Choose another calibrator."
        )
    P = np.maximum(with_unknown_classes(P, fitted_classes, classes), np.finfo(Z.dtype).tiny)
    return np.where(np.isneginf(both_columns(Z)), -np.inf, np.log(P))


def inner_logits(calibrator: BaseCalibrator | Pipeline, Z: Floats) -> tuple[Floats, float]:
    """Calibrate logits inside ``_calibrate``, where they are finite and overflow is ignored.

    Return logits, and the share of the uniform distribution that they do not contain. The outer
    calibrator clips its own logits. Calibrators must inherit ``predict_proba``, because this
    function calls ``_calibrate`` only.
    """
    share = 0.0
    for member in getattr(calibrator, "named_steps", {"": calibrator}).values():
        Z = member._calibrate(mix_logits(Z, share))  # noqa: SLF001
        share = base.uniform_share(member)
    return Z, share


def blockwise(calibrator: Any) -> list[BaseCalibrator]:
    """Return the calibrator in a list, or the calibrators in a pipeline.

    Raise a TypeError for other estimators, and for subclasses that replace public methods: their
    outputs cannot be computed block by block.
    """
    if isinstance(calibrator, Pipeline):
        steps = [step for _, step in calibrator.steps if step not in (None, "passthrough")]
        return [member for step in steps for member in blockwise(step)]
    outputs, kind = ("transform", "predict_proba", "predict_log_proba", "predict"), type(calibrator)
    keeps_outputs = kind.__module__.startswith("skcalib.") or all(
        getattr(kind, name, None) is getattr(BaseCalibrator, name) for name in outputs
    )
    if not (keeps_outputs and isinstance(calibrator, BaseCalibrator)):
        raise TypeError(
            "Only calibrators of skcalib can be exported, and classes derived from BaseCalibrator "
            f"that inherit its public methods, got {kind.__name__}. Pass one of these."
        )
    if getattr(calibrator, "feature_names_", []):
        raise ValueError(
            "Models that are exported take logits only, got a calibrator that was fitted with "
            "features. Save it by to_json or skops, or fit AutoCalibrator, which takes none."
        )
    return [calibrator]


def output_of(calibrator: Any, output: Output, Z: Any) -> Any:
    """Compute an output of a calibrator, or a pipeline of calibrators, for logits ``Z`` (m, K).

    ``output`` is a function in :mod:`skcalib.base`, such as ``probabilities``. Outputs are NaN
    where a calibrator would raise an error for masked classes.
    """
    xp, members = namespace(Z), blockwise(calibrator)
    for i, member in enumerate(members):
        if not member._takes_masked:  # noqa: SLF001
            Z = xp.where(-np.inf == Z, np.nan, Z)
        f = output if i == len(members) - 1 else base.calibrated_logits
        Z = f(member, Z)
    return Z


def inherits(calibrator: Any, method: str) -> bool:
    """Return whether a calibrator inherits a method from BaseCalibrator unchanged."""
    if not isinstance(calibrator, BaseCalibrator):
        return False
    return getattr(type(calibrator), method) is getattr(BaseCalibrator, method)
