"""Platt scaling: a sigmoid of the margin for each class, fitted one versus the rest."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from skcalib._input.parameters import check_flag
from skcalib._optimize.logistic import NO_WEIGHT, RowSigmoids
from skcalib._optimize.minimize import SMALLEST_CURVATURE
from skcalib._optimize.temperature import fit_inverse_temperature
from skcalib._rows import Rows, arrays
from skcalib._scores.columns import joined, margins
from skcalib._typing import ArrayLike, Floats, Indices
from skcalib._warnings import ReversedOrderWarning, warn
from skcalib.base import BaseCalibrator, IncreasingMap

from ._one_vs_rest import FARTHEST, finite_range, fit_maps


class PlattScaling(IncreasingMap, BaseCalibrator):
    r"""Platt scaling: a sigmoid of the margin for each class, then normalized rows.

    For each class k a slope :math:`a_k` and an offset :math:`c_k` in

    .. math:: \hat p_k = \sigma(a_k m_k + c_k), \qquad
        m_k = \log \frac{\mathrm{softmax}(z)_k}{1 - \mathrm{softmax}(z)_k} ,

    minimise the log loss of the event :math:`y = k`. Each row is then divided by its sum. Two
    classes share one sigmoid, for the log-odds :math:`z_1 - z_0`.

    Parameters
    ----------
    smooth_targets : bool, default=True
        Whether to use Platt's targets [1]_: :math:`(n_1 + 1) / (n_1 + 2)` for the :math:`n_1` rows
        in the class and :math:`1 / (n_0 + 2)` for the :math:`n_0` other rows, instead of 1 and 0.
        With these targets an optimum always exists.
    classes : array-like of shape (n_classes,), default=None
        All labels in column order, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes,), or (1,) for two classes
        The slopes :math:`a`.
    intercept_ : ndarray of shape (n_classes,), or (1,) for two classes
        The offsets :math:`c`.
    n_iter_ : int
        Number of passes over the rows.
    classes_ : ndarray of shape (n_classes,)
        Labels in column order.
    n_features_in_ : int
        Number of columns in ``X`` during ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Column names, if ``X`` had string names.

    Warns
    -----
    ConvergenceWarning
        With ``smooth_targets=False``, if a threshold on the margin separates a class from the
        others, so that no optimum exists. The slope is then large but finite. Also if Newton's
        method does not converge.
    UserWarning
        If a slope is negative by more than three standard errors, which reverses the order of the
        rows. Also as :class:`TemperatureScaling`.

    Notes
    -----
    Margins that differ from the true log-odds by a factor and a constant become exact. ``fit``
    calls :func:`scipy.optimize.minimize` with a Newton method for all classes at once; each
    iteration is one pass over the rows, which sums one gradient and one 2 x 2 Hessian per class.
    Rows that mask a class do not count for the class. Correct margins beyond a thousand
    temperatures do not count either: with smoothed targets they would flatten the slope.

    References
    ----------
    .. [1] Platt, "Probabilistic Outputs for Support Vector Machines and Comparisons to
       Regularized Likelihood Methods", Advances in Large Margin Classifiers, 1999.
    .. [2] Lin, Lin, Weng, "A Note on Platt's Probabilistic Outputs for Support Vector Machines",
       Machine Learning 68, 2007.
    .. [3] Zadrozny, Elkan, "Transforming Classifier Scores into Accurate Multiclass Probability
       Estimates", KDD 2002.

    Examples
    --------
    >>> from skcalib import PlattScaling
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(5000, 2, temperature=2.0, offset=[0, 1], random_state=0)
    >>> calibrator = PlattScaling().fit(logits, y)
    >>> calibrator.coef_.round(1), calibrator.intercept_.round(1)
    (array([0.5]), array([-0.5]))
    """

    _on_device = True

    coef_: Floats
    intercept_: Floats
    n_iter_: int

    def __init__(self, *, smooth_targets: bool = True, classes: ArrayLike | None = None) -> None:
        self.classes = classes
        self.smooth_targets = smooth_targets

    def _fit(self, rows: Rows) -> dict[str, Any]:
        check_flag("smooth_targets", self.smooth_targets)
        margin_rows = rows.map(lambda Z, *_: margins(Z))
        highest, lowest = margin_rows.sum(finite_range, merge=np.maximum)
        if max(highest.max(), lowest.max()) > FARTHEST:  # such as -1e9 instead of -inf
            limit = FARTHEST / fit_inverse_temperature(rows).value
            margin_rows = margin_rows.map(partial(_without_far, limit))
            highest, lowest = margin_rows.sum(finite_range, merge=np.maximum)
        # Centre the margins, so that equal margins become zero and get no slope.
        total, weight = margin_rows.sum(_finite_sums)
        centre = np.clip(total / np.maximum(weight, NO_WEIGHT), -lowest, highest)
        centre = np.where(weight > 0, centre, 0)
        sigmoids, solution = fit_maps(
            margin_rows.map(lambda M, *_: M.astype(np.float64) - centre),
            lambda U: [U],
            smooth_targets=self.smooth_targets,
            separator="a threshold",
            remedy="smooth_targets=True",
        )
        _warn_of_reversed_order(sigmoids, solution.x)
        slope, intercept = solution.x.T
        # A class that is masked in all calibration rows becomes improbable in other rows.
        unknown = sigmoids.weight <= NO_WEIGHT
        return {
            "coef_": slope,
            "intercept_": np.where(unknown, -np.log1p(rows.weight), intercept - slope * centre),
            "n_iter_": solution.nfev + 1,  # one pass sums the weights
        }

    def _is_increasing(self) -> bool:
        return bool(np.all(getattr(self, "coef_", 1.0) > 0))

    def _calibrate(self, Z: Floats) -> Floats:
        return joined(log_odds(margins(Z), self.coef_, self.intercept_), Z.shape[1])


def _finite_sums(M: Floats, _: Indices, w: Floats | None) -> Floats:
    """Sum the finite margins per class, and their weights: (2, n_maps)."""
    finite, w = np.isfinite(M), np.ones(len(M)) if w is None else w
    return np.stack([w @ np.where(finite, M, 0), w @ finite])


def _without_far(limit: float, M: Floats, y: Indices, *_: Any) -> Floats:
    """Replace correct margins beyond a limit by infinity, so that they do not count.

    Margins ``M`` are (m, n_maps), class indices ``y`` are (m,).
    """
    wrong = (M > 0) != arrays.is_event(y, M.shape[1])
    return np.where((np.abs(M) <= np.float64(limit)) | wrong, M, np.inf)


def log_odds(M: Floats, coef: Floats, intercept: Floats) -> Floats:
    """Map margins to calibrated log-odds, in the precision of the margins.

    ``M`` is (m, n_maps), ``coef`` and ``intercept`` are (n_maps,).
    """
    dtype, xp = M.dtype, arrays.namespace(coef)
    # Large terms may cancel and need double precision.
    if any(arrays.may_be_true(xp.max(abs(values)) > 64) for values in (coef, intercept)):
        M = arrays.double(M)
    coef, intercept = (arrays.astype(values, M.dtype) for values in (coef, intercept))
    return arrays.astype(M * coef + intercept, dtype)


def _warn_of_reversed_order(sigmoids: RowSigmoids, theta: Floats) -> None:
    """Warn if slopes are negative by more than three standard errors."""
    slope = theta[:, 0]
    if (slope >= 0).all():
        return
    (aa, ac), (_, cc) = sigmoids.derivatives(theta)[1].transpose(1, 2, 0)
    information = sigmoids.weight * np.maximum(aa - ac**2 / np.maximum(cc, SMALLEST_CURVATURE), 0)
    falling = np.flatnonzero(slope * np.sqrt(information) < -3)
    if falling.size:
        # With two classes, the one sigmoid may use one column or both.
        first = f", the first for column {falling[0]} of X" if slope.size > 1 else ""
        warn(
            f"The slope of {falling.size} of {slope.size} sigmoids is negative, which reverses the "
            f"order of the rows{first}: on these rows the class is less frequent where its logit "
            "is larger. Check that the columns of X are in the order of the classes.",
            ReversedOrderWarning,
        )
