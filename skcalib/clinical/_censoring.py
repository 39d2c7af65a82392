"""Weights for rows with a follow-up that may end before the horizon."""

from __future__ import annotations

import numpy as np
from sklearn.utils import check_array, check_consistent_length

from skcalib._input.parameters import check_real
from skcalib._typing import ArrayLike, Floats


def censoring_weights(time: ArrayLike, event: ArrayLike, horizon: float) -> Floats:
    r"""Return the inverse probability of censoring weights of a risk by a horizon.

    A row has a known label if its event was observed, or if its follow-up reaches the horizon t.
    Its weight is

    .. math:: w_i = \frac{1}{G(\min(T_i, t))},

    where G(u) is the probability that censoring comes at u or later, estimated by the Kaplan-Meier
    method. Other rows have the weight 0. At the same time, events come before censorings.

    Parameters
    ----------
    time : array-like of shape (n_samples,)
        Time :math:`T_i` of the event, or of the end of the follow-up if it is earlier.
    event : array-like of shape (n_samples,)
        1 or True if the event was observed, 0 or False if the row is censored.
    horizon : float
        Horizon t, in the unit of ``time``.

    Returns
    -------
    ndarray of shape (n_samples,)
        Weights. Pass them as ``sample_weight`` together with the labels
        ``event & (time <= horizon)``.

    Raises
    ------
    ValueError
        If times are negative or missing, if ``event`` has values other than 0 and 1, if lengths
        differ, or if ``horizon`` is not a positive number.

    References
    ----------
    .. [1] Graf, Schmoor, Sauerbrei, Schumacher, "Assessment and Comparison of Prognostic
       Classification Schemes for Survival Data", Statistics in Medicine 18, 1999.

    Examples
    --------
    The second of three patients is lost after two years, so the last stands for two:

    >>> from skcalib.clinical import censoring_weights
    >>> censoring_weights(time=[1, 2, 6], event=[1, 0, 0], horizon=5)
    array([1., 0., 2.])
    """
    times = check_array(time, ensure_2d=False, dtype=np.float64, input_name="time").ravel()
    observed = check_array(event, ensure_2d=False, dtype=None, input_name="event").ravel()
    check_consistent_length(times, observed)
    check_real("horizon", horizon)
    if times.min() < 0:
        raise ValueError(f"time must not be negative, got {times.min():g}.")
    if not np.isin(observed, [0, 1]).all():
        raise ValueError(
            "event must be 1 where the event was observed and 0 where the row is censored, got "
            f"{np.unique(observed)[:5].tolist()}."
        )
    observed = observed.astype(bool)

    # Kaplan-Meier estimate of G just before each time of censoring: at a censoring time, the rows
    # at risk are those without an earlier censoring and without an event up to this time.
    lost, n_lost = np.unique(times[~observed], return_counts=True)
    n_gone = np.searchsorted(np.sort(times[~observed]), lost)
    n_gone += np.searchsorted(np.sort(times[observed]), lost, side="right")
    G = np.append(1.0, np.cumprod(1 - n_lost / (len(times) - n_gone)))

    has_outcome = observed | (times >= horizon)
    weights = np.zeros(len(times))
    weights[has_outcome] = 1 / G[np.searchsorted(lost, np.minimum(times, horizon)[has_outcome])]
    return weights
