"""Indicators of labels: matrices of zeros and ones, one column per label, several per row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import get_tags

from skcalib._engine.array_api import (
    check_needs_no_gradients,
    check_tensor,
    is_tensor,
    on_host,
)
from skcalib._engine.dask_inputs import is_dask
from skcalib._engine.inputs import as_numpy
from skcalib._typing import Array, Bools, Floats

from .labels import shown


def has_columns(y: Any) -> bool:
    """Whether labels are sparse, or have more than one column."""
    if issparse(y):
        return True
    shape = getattr(y, "shape", None)
    if shape is None and isinstance(y, list | tuple):
        shape = getattr(as_numpy(y, "y"), "shape", None)
    return shape is not None and len(shape) == 2 and shape[1] > 1


def takes_indicator(estimator: Any) -> bool:
    """Whether a classifier takes several labels per row, by its tags."""
    tags = get_tags(estimator)
    of_labels = tags.classifier_tags is not None and tags.classifier_tags.multi_label
    return bool(tags.target_tags.multi_output or of_labels)


def as_indicator(y: Any, name: str = "y") -> Bools:
    """Which labels (n, n_labels) each row has; a ValueError for what is no indicator matrix."""
    if is_dask(y):
        raise ValueError(
            f"{name} with several labels per row must be in memory, got a Dask collection. Pass "
            f"{name}.compute()."
        )
    if issparse(y):
        y = y.tocsr()
        _check_zeros_and_ones(y.data, name)
        return np.asarray(y.toarray() != 0)
    found = as_numpy(y, name)
    if not hasattr(found, "shape") or found.ndim != 2:
        _refuse_shape(found, name)
    found = np.asarray(found)
    _check_zeros_and_ones(found, name)
    return found.astype(bool)


def _refuse_shape(y: Any, name: str) -> NoReturn:
    if y is None:
        raise ValueError(
            f"{name} must be an indicator matrix: this requires {name} to be passed, but the "
            f"target {name} is None."
        )
    shape = f"shape {y.shape}" if hasattr(y, "shape") else f"a {type(y).__name__}"
    first = next(iter(y.ravel().tolist() if hasattr(y, "shape") else y), None)
    remedy = (
        f"Convert sets of labels by MultiLabelBinarizer().fit_transform({name})."
        if isinstance(first, set | frozenset | list | tuple)
        else "One label per row is for other calibrators, such as TemperatureScaling, and for "
        "other kinds of measures and diagrams."
    )
    raise ValueError(
        f"{name} must be an indicator matrix of shape (n_samples, n_labels), of zeros and ones, "
        f"got {shape}. {remedy}"
    )


def _check_zeros_and_ones(values: Array, name: str) -> None:
    if values.dtype == bool or not values.size:
        return
    are_numbers = values.dtype.kind in "biufO"  # old versions of numpy do not compare text
    other = ~((values == 0) | (values == 1)) if are_numbers else np.ones(values.shape, bool)
    if not other.any():
        return
    worst = values[other].ravel()[:1].tolist()[0]
    remedy = (
        "For labels that are unknown in some rows, fit with a weight of 0 for each of them, "
        f"sample_weight=~np.isnan({name}), and zeros in their place."
        if isinstance(worst, float) and np.isnan(worst)
        else f"Convert sets of labels by MultiLabelBinarizer, or scores as in {name} > 0.5."
    )
    raise ValueError(
        f"{name} must be an indicator matrix, of zeros and ones only, got {worst!r}. {remedy}"
    )


def names_of_labels(y: Any, n_labels: int) -> Array:
    """Names of the columns of a data frame of indicators, or their numbers."""
    columns = getattr(y, "columns", None)
    return np.arange(n_labels) if columns is None else np.asarray(columns)


def check_labels_of_columns(X: Any, y: Any, name_X: str = "X", name_y: str = "y") -> None:
    """Raise a ValueError for data frames with the same columns in another order."""
    found, wanted = (list(getattr(frame, "columns", ())) for frame in (X, y))
    if found != wanted and found and len(found) == len(wanted) and set(found) == set(wanted):
        raise ValueError(
            f"Columns of {name_X} must be in the order of those of {name_y}, got columns "
            f"{shown(found)} and {shown(wanted)}. Reorder them, as in {name_X}[{name_y}.columns]."
        )


def as_host_array(x: Any, name: str) -> Any:
    """A list or a tensor as an array of NumPy; other objects unchanged."""
    if not is_tensor(x):
        return as_numpy(x, name)
    check_needs_no_gradients(check_tensor(x, name), name)
    return on_host(x)


def check_two_dimensions(x: Any, name: str, remedy: str) -> None:
    """Raise a ValueError for an array, or a list, with two columns for each label."""
    if isinstance(x, list | tuple) or getattr(x, "ndim", 2) > 2:
        found = f"shape {x.shape}" if hasattr(x, "shape") else "a list of arrays"
        raise ValueError(
            f"{name} must have two dimensions, one column for each label, got {found}. If it has "
            "the probabilities of absence and presence of each label, as MultiOutputClassifier "
            f"gives them, pass {remedy}."
        )


def of_outputs(P: Any, classes: Any) -> Any:
    """Probabilities (n, n_labels) from those of a classifier, which may be a list over the labels.

    ``classes`` are its ``classes_``, which tell the label of the columns in a list.
    """
    if not isinstance(P, list):
        return P
    pairs = zip(map(on_host, P), classes, strict=True)
    return np.column_stack([_of_label(np.asarray(p), list(known)) for p, known in pairs])


def _of_label(p: Floats, known: Sequence[Any]) -> Floats:
    if not all(label in (0, 1) for label in known):
        raise ValueError(
            f"Each output of the classifier must be an indicator of a label, got one with classes "
            f"{shown(known)}. Calibrate outputs of several classes one by one."
        )
    return p[:, known.index(1)] if 1 in known else np.zeros_like(p[:, 0])
