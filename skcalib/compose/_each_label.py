"""The calibrator of each label, and warnings about labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

from skcalib._base import BaseCalibrator
from skcalib._engine.memory import MemoryRows
from skcalib._engine.rows import Plan
from skcalib._subestimator import fit_to_rows, log_probabilities, with_fitted
from skcalib._typing import Array, Floats
from skcalib._validation.labels import shown
from skcalib._validation.rows import with_weight_only
from skcalib._warnings import warn
from skcalib.scaling import PlattScaling
from skcalib.selection._fit_and_score import Messages, messages_of, recorded_warnings
from skcalib.selection._partial_pooling import warn_of_groups

# Whether a row has the label.
CLASSES = np.array([0, 1])


def fit_label(
    calibrator: Any, number: int, z: Floats, e: Array, w: Floats | None
) -> tuple[Any, Messages]:
    """The calibrator of the label of that number, and messages of its warnings."""
    y = e.astype(np.intp)
    y, z, w = with_weight_only(y, z, w)
    rows = MemoryRows(z[:, None], y, w)
    if not len(y) or (y == y[0]).all():
        return _shifted(rows), {}
    with recorded_warnings() as caught:
        try:
            fitted = fit_to_rows(calibrator, rows, CLASSES)
        except Exception as error:
            error.add_note(f"Label {number} failed.")
            raise
    return fitted, messages_of(caught)


def _shifted(rows: MemoryRows) -> Any:
    """The log-odds as they are, up to a constant, for rows that all have the label, or lack it."""
    sign = 1.0 if rows.n_rows and rows.y[0] else -1.0
    shift = _shift_below(-sign * rows.X[:, 0].astype(np.float64), rows.w)
    fitted = {"coef_": np.ones(1), "intercept_": np.array([-sign * shift]), "n_iter_": 0}
    return with_fitted(PlattScaling(), fitted, rows, CLASSES)


def _shift_below(z: Floats, w: Floats | None) -> float:
    """What added to log-odds lowers the mean probability to 1/2 of N + 1; 0 if it is below."""
    if not len(z):
        return 0.0
    w = np.ones(len(z)) if w is None else w
    rate = 0.5 / (w.sum() + 1)

    def excess(shift: float) -> float:
        return float(np.average(expit(z + shift), weights=w)) - rate

    if excess(0.0) <= 0:
        return 0.0
    # One less than what lowers the largest to the rate, since that may fail by rounding.
    return float(brentq(excess, min(logit(rate) - z.max(), 0.0) - 1.0, 0.0, xtol=1e-12))


def outputs_of(calibrator: Any, method: str, z: Floats) -> Floats:
    """What a method of blocks gives for log-odds (n,) of a label that rows have: (n,)."""
    Z = z[:, None]
    if isinstance(calibrator, BaseCalibrator):
        plan = Plan(at_least=calibrator._rows_at_least)  # noqa: SLF001
        found: Floats = MemoryRows(Z).map(getattr(calibrator, method), plan)
        return found[:, -1]
    L = log_probabilities(calibrator, Z, CLASSES)
    of_others: dict[str, Floats] = {
        "_calibrated": L[:, 1] - L[:, 0],
        "_probabilities": np.exp(L[:, 1]),
        "_log_probabilities": L[:, 1],
    }
    return of_others[method]


def warn_of_labels(E: Array, W: Floats | None, messages: dict[int, Messages], names: Array) -> None:
    """Warn of labels that all rows have or lack, and of those whose fits warned."""
    known = np.ones(E.shape, bool) if W is None else np.broadcast_to(W.T > 0, E.T.shape).T
    for value, what in ((False, "has"), (True, "lacks")):
        none = ~(known & (value != E)).any(axis=0)
        if value:
            none &= known.any(axis=0)
        if none.any():
            warn(
                f"No row {what} label {shown(names[none])}: its log-odds are not calibrated, only "
                "shifted where they contradict that. Calibrate on more rows, or leave it out."
            )
    warn_of_groups("Label", names, messages)
