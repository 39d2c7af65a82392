"""Classes, categories and events in reliability diagrams: names, rows, curves and axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from skcalib._input.arrays import on_host
from skcalib._input.labels import shown
from skcalib._input.measures import OF_EACH, Scored
from skcalib._input.parameters import check_integer
from skcalib._output.drawing import new_figure
from skcalib.metrics import ReliabilityCurve

from ._curves import bin_error


def event_name(label: Any) -> str | None:
    """Return an event's name, or None for True, which is no name."""
    if isinstance(label, bool | np.bool_):
        return None
    return str(label) if isinstance(label, str) else f"class {label}"


def split(rows: list[Scored], by: Any, kind: str, sample_weight: Any) -> list[tuple[Any, Scored]]:
    """Split rows by category ``by`` (n,), sorted by category name.

    ``sample_weight`` (n,) tells which rows were left out of the scores, because their weight is 0.
    """
    if kind in OF_EACH:
        raise ValueError(
            f"by is for a single diagram, got kind={kind!r}, which has a panel for each class. "
            "Pass kind='top-label', or 'binary' with y_true == label."
        )
    label, score, event, weight = rows[0]
    values = np.asarray(by)
    if sample_weight is not None and values.shape == np.shape(sample_weight):
        values = values[np.asarray(on_host(sample_weight)) > 0]  # scores leave them out
    if values.shape != score.shape:
        raise ValueError(
            f"by must have one entry per row, shape {score.shape}, got shape {values.shape}."
        )
    parts = []
    for value in sorted(set(values.tolist()), key=str):
        chosen = values == value
        w = None if weight is None else weight[chosen]
        parts.append((value, Scored(label, score[chosen], event[chosen], w)))
    return parts


def curves_by_class(curve: ReliabilityCurve) -> dict[Any, ReliabilityCurve]:
    """Split a curve for several classes into one curve per class."""
    arrays = {name: x for name, x in vars(curve).items() if isinstance(x, np.ndarray)}
    labels = arrays.pop("label")
    return {
        label: ReliabilityCurve(
            **{name: x[labels == label] for name, x in arrays.items()}, kind="binary"
        )
        for label in dict.fromkeys(labels.tolist())
    }


def choose_classes(
    curves: dict[Any, ReliabilityCurve], subset: Any, n_axes: int | None, *, ordered: bool = False
) -> list[Any]:
    """Return the classes in ``subset``, or the classes with the largest ECE if it is a number.

    Classes with the largest ECE are in decreasing order, or in the order of ``curves`` if
    ``ordered``. There are at most ``n_axes`` of them.
    """
    if np.ndim(subset) == 0 and not isinstance(subset, str):
        check_integer("subset", subset)
        worst = sorted(curves, key=lambda label: -bin_error(curves[label]))
        worst = worst[: min(subset, n_axes or subset)]
        return [label for label in curves if label in worst] if ordered else worst
    chosen = list(dict.fromkeys(np.atleast_1d(np.asarray(subset)).tolist()))
    unknown = [label for label in chosen if label not in curves]
    if unknown or not chosen:
        got = repr(unknown[0]) if unknown else "none"
        raise ValueError(f"subset must name classes among {shown(list(curves))}, got {got}.")
    if n_axes is not None and len(chosen) > n_axes:
        raise ValueError(f"ax must hold {len(chosen)} axes, one per class, got {n_axes}.")
    return chosen


def new_panels(n: int) -> Any:
    """Create a figure with at least n axes, and return them as an array."""
    n_columns = int(np.ceil(np.sqrt(n)))
    n_rows = -(-n // n_columns)
    figure = new_figure((2.3 * n_columns + 0.6, 2.4 * n_rows + 1))
    return figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False)


def as_panels(ax: Any) -> Any:
    """Return an array of axes (n_rows, n_columns), or None for a new figure."""
    from matplotlib.axes import Axes

    if ax is None:
        return None
    panels = np.asarray(ax, dtype=object)
    if panels.ndim == 0 or not all(isinstance(panel, Axes) for panel in panels.flat):
        raise ValueError(
            "With a panel for each class, ax must be an array of matplotlib Axes, got "
            f"{type(ax).__name__}. Pass ax=figure.subplots(2, 3), or leave it out."
        )
    return panels.reshape(-1, panels.shape[-1])
