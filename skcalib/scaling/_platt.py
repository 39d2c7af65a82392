"""Platt scaling: a sigmoid of the margin for each class, fitted one versus the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skcalib._base import BaseCalibrator
from skcalib._engine.array_api import astype, namespace
from skcalib._engine.blocks import double
from skcalib._engine.rows import Rows
from skcalib._linear.logistic import SMALLEST_CURVATURE, Logistic, fit_logistic
from skcalib._scores.one_vs_rest import joined, margins, n_maps
from skcalib._typing import Floats
from skcalib._validation.labels import shown
from skcalib._validation.parameters import check_flag
from skcalib._warnings import NoMinimumWarning, NotConvergedWarning, ReversedOrderWarning, warn

from ._margins import Units, middle_of, without_certain_rows

__all__ = ["PlattScaling"]

# Rows of a sample for each class, if it is to provide starting values.
ROWS_PER_MAP, FEW_ROWS_PER_MAP = 512, 128

# A slope this many of its standard errors below zero is negative.
CLEARLY = 3.0

# Sigmoids with larger slopes or offsets are worked out in double precision.
LARGE = 64.0


class PlattScaling(BaseCalibrator):
    r"""Platt scaling: a sigmoid of the margin for each class, then rows that sum to one.

    For each class k, against all others, a slope :math:`a_k` and an offset :math:`c_k` of

    .. math:: \hat p_k = \sigma(a_k m_k + c_k), \qquad
        m_k = \log \frac{\mathrm{softmax}(z)_k}{1 - \mathrm{softmax}(z)_k} ,

    are those that minimise the log loss of the event :math:`y = k`; rows are then divided by
    their sum. Two classes take a single sigmoid, of the log-odds :math:`z_1 - z_0` of the second.

    Parameters
    ----------
    smooth_targets : bool, default=True
        Whether the targets are those of [1]_, :math:`(n_1 + 1) / (n_1 + 2)` for the
        :math:`n_1` rows of the class and :math:`1 / (n_0 + 2)` for the :math:`n_0` others,
        instead of 1 and 0. With them there always is an optimum.
    classes : array-like of shape (n_classes,), default=None
        All labels in the order of the columns of ``X``, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes,), or (1,) for two classes
        The slopes :math:`a`.
    intercept_ : ndarray of shape (n_classes,), or (1,) for two classes
        The offsets :math:`c`.
    n_iter_ : int
        Number of passes over the rows.
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the columns.
    n_features_in_ : int
        Number of columns of ``X`` seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Names of the columns, where ``X`` had string names.

    Warns
    -----
    ConvergenceWarning
        With ``smooth_targets=False``, if a class has no optimum, because a threshold on its
        margin separates it from the others. Its slope is then large but finite. Also if Newton's
        method does not converge.
    UserWarning
        If a slope is negative by more than three of its standard errors, so that the order of the
        rows is reversed, if weights sum to far less than the number of rows, and as for
        :class:`TemperatureScaling`.

    Notes
    -----
    The margin, not the probability, is what a sigmoid can calibrate: margins that are right by a
    constant and a factor come out exact. All classes take their Newton steps together, each one
    pass over the rows that sums a gradient and a Hessian of two by two for every class. Rows in
    which a class is masked are not counted for it, nor are margins on the right side of zero and
    more than a thousand temperatures from it: they have no information on the slope, which smoothed
    targets would make smaller because of them.

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
        super().__init__(classes=classes)
        self.smooth_targets = smooth_targets

    def _fit(self, rows: Rows) -> dict[str, Any]:
        check_flag("smooth_targets", self.smooth_targets)
        # Where a pass is a round trip a start is worth more.
        per_map = ROWS_PER_MAP if rows.passes_are_cheap else FEW_ROWS_PER_MAP
        of_sample = rows.sample(_fit_sample, per_map * n_maps(rows.n_columns))
        middle, start = of_sample or (rows.gather(middle_of), None)
        units = Units.of(rows, middle)
        problem = units.problem(rows, smooth=self.smooth_targets)
        if problem.has_outliers:
            units, problem = without_certain_rows(units, problem, smooth=self.smooth_targets)
        if start is not None:
            start = start * np.column_stack([units.unit, np.ones_like(units.unit)])
        theta, n_passes, converged = fit_logistic(problem, start)
        if not (self.smooth_targets and converged):
            _warn_unless_optimal(problem, theta, n_passes, converged=converged)
        _warn_of_reversed_order(problem, theta)
        slope = theta[:, 0] / units.unit
        return {
            "coef_": slope,
            "intercept_": theta[:, 1] - slope * units.centre,
            "n_iter_": n_passes,
        }

    def _calibrate(self, Z: Floats) -> Floats:
        M, parameters, xp = margins(Z), (self.coef_, self.intercept_), namespace(Z)
        if max(xp.max(abs(values)) for values in parameters) > LARGE:
            M = double(M)  # single precision loses what nearly cancels
        coef, intercept = (astype(values, M.dtype) for values in parameters)
        return joined(astype(M * coef + intercept, Z.dtype), Z.shape[1])


def _fit_sample(rows: Rows) -> tuple[Floats, Floats]:
    """The middle of the margins of a sample, and slopes and offsets (n_maps, 2) about it."""
    middle = middle_of(rows)
    units = Units.of(rows, middle)
    theta = fit_logistic(units.problem(rows, smooth=True))[0]
    theta[:, 0] /= units.unit
    return middle, theta


def _warn_of_reversed_order(problem: Logistic, theta: Floats) -> None:
    """Warn of classes whose probability falls as their logit rises, by more than chance."""
    slope = theta[:, 0]
    if (slope >= 0).all():
        return
    (aa, ac), (_, cc) = problem.derivatives(theta)[1].transpose(1, 2, 0)
    information = problem.weight * np.maximum(aa - ac**2 / np.maximum(cc, SMALLEST_CURVATURE), 0)
    falling = np.flatnonzero((slope < 0) & (slope * np.sqrt(information) < -CLEARLY))
    if falling.size:
        warn(
            f"The slope of {falling.size} of {slope.size} sigmoids is negative, which reverses the "
            f"order of the rows, the first for column {falling[0] + (slope.size == 1)} of X: on "
            "these rows the class is less frequent where its logit is larger. Check that the "
            "columns of X are in the order of the classes.",
            ReversedOrderWarning,
        )


def _warn_unless_optimal(
    problem: Logistic, theta: Floats, n_passes: int, *, converged: bool
) -> None:
    """Warn of classes that a threshold separates, or that Newton's method has not converged."""
    separable = np.flatnonzero(problem.share_wrong(theta) == 0)
    separable += problem.rows.n_columns - len(theta)  # two classes have a map for the second
    if separable.size and not problem.low.any():
        warn(
            f"The log loss has no minimum: in column {shown(separable)} of X a "
            "threshold on the margin separates the class from the others, so that its slope would "
            "grow for ever. Use smooth_targets=True.",
            NoMinimumWarning,
            "separable by a threshold",
        )
    elif not converged:
        warn(
            f"Newton's method did not converge in {n_passes} passes over the rows. Check X for "
            "columns that hardly vary"
            + ("." if problem.low.any() else ", and use smooth_targets=True."),
            NotConvergedWarning,
        )
