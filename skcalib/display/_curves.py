"""Rows, bins, curves with bands, axes and panels of reliability diagrams."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, logit

from skcalib._input.arrays import on_host
from skcalib._input.labels import shown
from skcalib._input.measures import OF_EACH, ScoreColumns, Scored
from skcalib._input.parameters import check_integer
from skcalib._output.curves import resampled_band
from skcalib._output.drawing import new_figure
from skcalib._rows import Ranked
from skcalib._rows.ranking import distinct_scores
from skcalib._scores.isotonic import isotonic_blocks
from skcalib._scores.kernel import SmoothCurve
from skcalib._typing import Floats, Indices, Kind, NBins
from skcalib.metrics import ReliabilityCurve, reliability_curve, score_decomposition

# Events with a smaller base rate get quantile bins and logit axes.
RARE = 0.02

# Smallest distance between limits of logit axes and 0 or 1.
NEAREST = 1e-6

# Cells between the points of a smooth curve, and cells beyond the outermost scores.
STEP, MARGIN = 32, 64

# Smooth curves end where the kernel reaches fewer effective rows.
MIN_EFFECTIVE_ROWS = 3

# Number of scores of a band.
POINTS = 200


def with_weight(rows: Scored) -> Scored:
    """Select rows with a positive weight; other rows are neither counted nor drawn."""
    w = rows.weight
    if w is None or (len(w) and w.all()):
        return rows
    if not w.any():
        raise ValueError(
            "rows must have a positive total weight, got zero weights only. Pass weight=None for "
            "equal weights."
        )
    return Scored(rows.label, rows.score[w > 0], rows.event[w > 0], w[w > 0])


def _binary_arguments(rows: Scored) -> dict[str, Any]:
    """Return arguments for measures that compare events with scores."""
    weight = {"sample_weight": rows.weight, "labels": [False, True]}
    return {"y_true": rows.event, "y_proba": rows.score, "kind": "binary", **weight}


def bin_rows(rows: Scored, n_bins: NBins, strategy: Any) -> ReliabilityCurve:
    """Put rows into bins."""
    return reliability_curve(n_bins=n_bins, strategy=strategy, **_binary_arguments(rows))


def bin_error(curve: ReliabilityCurve) -> float:
    """Return the expected calibration error (ECE) from bins."""
    return float(curve.share @ np.abs(curve.gap))


def miscalibration(rows: Scored) -> float:
    """Return the miscalibration component of the Brier score."""
    return float(score_decomposition(score="brier_score", **_binary_arguments(rows)).miscalibration)


def is_rare(rows: Scored) -> bool:
    """Return whether the event's base rate is below RARE."""
    return bool(np.average(rows.event, weights=rows.weight) < RARE)


def logit_limits(curve: ReliabilityCurve) -> tuple[float, float]:
    """Return limits for logit axes that contain mean scores and frequencies of all bins."""
    # With this number of rows, frequencies nearer to 0 or 1 cannot be distinguished.
    nearest = max(NEAREST, 0.1 / curve.n_samples.sum())
    p = np.append(curve.confidence, curve.accuracy)
    z = logit(np.clip(p[(p > 0) & (p < 1)], nearest, 1 - nearest))
    low, high = (z.min(), z.max()) if len(z) else (-2.0, 2.0)
    margin = max(0.05 * (high - low), 0.3)
    return float(expit(low - margin)), float(expit(high + margin))


def row_counts(
    curve: ReliabilityCurve, rows: Scored | None, limits: tuple[float, float], scale: str
) -> tuple[Floats, Floats]:
    """Return row counts and bin edges for a histogram.

    Linear axes use the curve's bins. On logit axes these are usually quantile bins, with equal
    counts, so rows are counted in bins with equal width.
    """
    if scale == "logit" and rows is not None:
        low, high = map(logit, limits)
        counts, edges = np.histogram(rows.score, expit(np.linspace(low, high, 31)))
        return counts.astype(float), edges
    edges = np.union1d(curve.lower, curve.upper)
    counts = np.zeros(len(edges) - 1)
    counts[np.searchsorted(edges, curve.lower)] = curve.n_samples
    return counts, edges


def isotonic_curve(rows: Scored) -> tuple[Floats, Floats]:
    """Return the corners of the isotonic regression from scores to events."""
    return _corners(distinct_scores(rows.score, rows.event, rows.weight))


def band(
    rows: Scored, drawn: SmoothCurve | None, level: float, n_resamples: int, seed: Any,
    groups: Indices | None = None, *, calibrated: bool,
) -> tuple[Floats, Floats, Floats]:  # fmt: skip
    """Return scores, and pointwise quantiles of curves for resampled rows: three arrays.

    Curves are isotonic, or smooth with the bandwidth of ``drawn``. The samples have the rows'
    scores and events of a calibrated model, or are bootstrap samples, of whole ``groups`` (n,).
    """
    x = _points(np.unique(rows.score)) if drawn is None else drawn.score

    def curve(sample: Ranked) -> Floats:
        if drawn is None:
            return np.interp(x, *_corners(sample))
        w, cells = sample.weight, drawn.cells(sample.scores)
        above = drawn.smooth(cells, sample.hits - w * sample.scores)[0]
        # The scores of a calibrated model are not resampled, so their density is known.
        density = drawn.density * w.sum() if calibrated else drawn.smooth(cells, w)[0]
        # Smaller densities are rounding errors.
        least = 1e-9 * np.nanmax(density, initial=0)
        value = x + above / np.maximum(density, least)
        return value if calibrated else np.clip(value, 0, 1)

    ends = resampled_band(rows, curve, level, n_resamples, seed, groups, calibrated=calibrated)
    low, high = np.clip(ends, 0, 1)
    return x, low, high


def _points(scores: Floats) -> Floats:
    """Return scores for a band: half are quantiles, half are evenly spaced."""
    ranks = np.linspace(0, len(scores) - 1, POINTS // 2).round().astype(np.intp)
    return np.union1d(scores[ranks], np.linspace(scores[0], scores[-1], POINTS // 2))


def _corners(rows: Ranked) -> tuple[Floats, Floats]:
    blocks = isotonic_blocks(rows)
    ends = np.stack([rows.scores[blocks.start], rows.scores[blocks.end]], axis=1)
    return ends.ravel(), np.repeat(blocks.value, 2)


def pieces(scores: Floats, curve: SmoothCurve) -> list[Indices]:
    """Return the cells of the curve, one array per piece.

    Pieces end where neighbouring scores are more than two bandwidths apart, and where the kernel
    reaches too few rows.
    """
    n_cells = len(curve.score)
    occupied = np.flatnonzero(np.bincount(curve.cells(scores), minlength=n_cells))
    breaks = np.flatnonzero(np.diff(occupied) > 2 * curve.bandwidth * n_cells)
    starts, ends = occupied[np.append(0, breaks + 1)], occupied[np.append(breaks, -1)]
    is_near = np.zeros(n_cells, dtype=bool)
    for first, last in zip(starts, ends, strict=True):
        is_near[max(first - MARGIN, 0) : last + MARGIN + 1] = True
    edges = np.flatnonzero(
        np.diff(is_near & (curve.n_rows >= MIN_EFFECTIVE_ROWS), prepend=False, append=False)
    )
    # Every 32nd cell in a piece, and both ends.
    return [
        np.union1d([first, end - 1], np.arange(first - first % -STEP, end, STEP))
        for first, end in edges.reshape(-1, 2)
    ]


def drawn_curve(rows: Scored, groups: Indices | None = None) -> SmoothCurve:
    """Return the smooth curve at the scores to draw, with NaN between two pieces."""
    narrowest = SmoothCurve.narrowest_drawn(rows.score, rows.weight, groups)
    whole = SmoothCurve.of(rows.score, rows.event, rows.weight, narrowest=narrowest)
    parts = pieces(rows.score, whole)
    ends = np.cumsum([len(part) for part in parts], dtype=np.intp)[:-1]
    cells = np.concatenate([*parts, np.empty(0, np.intp)])
    fields = (np.insert(field, ends, np.nan) for field in whole.at(cells)[:4])
    score, value, density, n_rows = fields
    return SmoothCurve(score, value, density, n_rows, whole.bandwidth, whole.error)


def axis_labels(kind: Kind, event: str | None = None) -> tuple[str, str]:
    """Return names for the score and for its event's frequency; ``event`` is an event's name."""
    if kind == "top-label":
        return "Confidence", "Accuracy"
    of_event = "" if event is None else f" of {event}"
    return f"Predicted probability{of_event}", "Observed frequency"


def binary_event(columns: ScoreColumns, pos_label: Any) -> str | None:
    """Return the event's name for two classes, else None."""
    if columns.kind != "binary":
        return None
    return event_name(columns.rows.classes[1] if pos_label is None else pos_label)


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
