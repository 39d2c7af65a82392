"""Indicators of labels: matrices of zeros and ones, one column per label, several per row."""

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import get_tags

from skcalib._rows import Array, Bools, arrays as xa, as_numpy

from .labels import shown


def has_columns(y: Any) -> bool:
    """Whether labels are sparse, or have more than one column."""
    shape: tuple[int, ...] = getattr(as_numpy(y, "y"), "shape", ())
    return issparse(y) or (len(shape) == 2 and shape[1] > 1)


def takes_indicator(estimator: Any) -> bool:
    """Whether a classifier takes several labels per row, by its tags."""
    tags = get_tags(estimator)
    of_labels = tags.classifier_tags is not None and tags.classifier_tags.multi_label
    return bool(tags.target_tags.multi_output or of_labels)


def as_indicator(y: Any, name: str = "y") -> Bools:
    """Which labels (n, n_labels) each row has; a ValueError for what is no indicator matrix."""
    if y is None:
        raise ValueError(f"This requires {name} to be passed, but the target {name} is None.")
    if xa.is_dask(y):
        raise ValueError(
            f"{name} with several labels per row must be in memory, got a Dask collection. Pass "
            f"{name}.compute()."
        )
    E = y.toarray() if issparse(y) else as_numpy(y, name)
    got = f"shape {E.shape}" if hasattr(E, "shape") else f"a {type(E).__name__}"
    remedy = (
        f"Convert sets of labels by MultiLabelBinarizer().fit_transform({name}). For one label per "
        "row use another calibrator, such as TemperatureScaling, or kind of measure."
    )
    if len(getattr(E, "shape", ())) == 2:
        E = np.asarray(E)
        are_numbers = E.dtype.kind in "biufO"  # old versions of NumPy do not compare text
        valid = (E == 0) | (E == 1) if are_numbers else np.zeros(E.shape, bool)
        if valid.all():
            return E.astype(bool)
        worst = E[~valid].tolist()[0]
        got, remedy = repr(worst), f"{remedy} Convert scores, as in {name} > 0.5."
        if isinstance(worst, float) and np.isnan(worst):
            remedy = (
                "For labels that are unknown in some rows, fit with a weight of 0 for each of "
                f"them, sample_weight=~np.isnan({name}), and zeros in their place."
            )
    raise ValueError(
        f"{name} must be an indicator matrix of shape (n_samples, n_labels), of zeros and ones "
        f"only, got {got}. {remedy}"
    )


def names_of_labels(y: Any, n_labels: int) -> Array:
    """Names of the columns of a data frame of indicators, or their numbers."""
    columns = getattr(y, "columns", None)
    return np.arange(n_labels) if columns is None else np.asarray(columns)


def check_labels_of_columns(X: Any, y: Any, name_X: str = "X", name_y: str = "y") -> None:
    """Raise a ValueError for data frames with the same columns in another order."""
    of_x, of_y = (list(getattr(frame, "columns", ())) for frame in (X, y))
    if of_x != of_y and len(of_x) == len(of_y) and set(of_x) == set(of_y):
        raise ValueError(
            f"Columns of {name_X} must be in the order of those of {name_y}, got columns "
            f"{shown(of_x)} and {shown(of_y)}. Reorder them, as in {name_X}[{name_y}.columns]."
        )


def as_columns(x: Any, name: str, remedy: str) -> Any:
    """An array, on the host, with one column for each label; a ValueError for one with two.

    Other objects, as data frames, are unchanged.
    """
    if xa.is_tensor(x):
        xa.check_needs_no_gradients(xa.check_tensor(x, name), name)
    x = as_numpy(x, name)
    if isinstance(x, list | tuple) or getattr(x, "ndim", 2) > 2:
        found = f"shape {x.shape}" if hasattr(x, "shape") else "a list of arrays"
        raise ValueError(
            f"{name} must have two dimensions, one column for each label, got {found}. If it has "
            "the probabilities of absence and presence of each label, as MultiOutputClassifier "
            f"gives them, pass {remedy}."
        )
    return x


def of_outputs(P: Any, classes: Any) -> Any:
    """Probabilities (n, n_labels) from those of a classifier, which may be a list over the labels.

    ``classes`` are its ``classes_``, which tell the label of the columns in a list.
    """
    if not isinstance(P, list):
        return P
    columns = []
    for p, known in zip(map(xa.on_host, P), map(list, classes), strict=True):
        if not all(label in (0, 1) for label in known):
            raise ValueError(
                "Each output of the classifier must be an indicator of a label, got one with "
                f"classes {shown(known)}. Calibrate outputs of several classes one by one."
            )
        columns.append(p[:, known.index(1)] if 1 in known else np.zeros_like(p[:, 0]))
    return np.column_stack(columns)
