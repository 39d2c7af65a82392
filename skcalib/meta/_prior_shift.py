"""Calibrated logits moved to other class priors, known or estimated from unlabelled logits."""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from skcalib._rows import Floats, Rows, as_array, checked_rows
from skcalib._rows.arrays import (
    astype,
    check_needs_no_gradients,
    is_tensor,
    like,
    on_host,
    softmax,
    weighted_sum,
)
from skcalib._validation.inputs import (
    RowStatistics,
    check_fitted,
    check_priors,
    check_total_weight,
    check_unlabelled,
    warn_of_probabilities,
)
from skcalib._validation.labels import check_column_names, exact, resolve_classes
from skcalib._warnings import FewRowsWarning, NotConvergedWarning, warn
from skcalib.base import BaseCalibrator, set_fitted
from skcalib.meta._label_shift import Estimate, most_likely_priors

# Lower bounds of the calibration priors, and of priors in ratios, so that logarithms are finite.
LEAST_PRIOR, LEAST_RATIO = 1e-100, float(np.finfo(np.float64).tiny)

# Fewer unlabelled rows per class give a warning.
ROWS_PER_CLASS = 10

# Attributes that adapt adds, and that fit deletes.
ADAPTED = ("standard_errors_", "n_iter_", "log_likelihood_ratio_")


class PriorShift(BaseCalibrator):
    r"""Calibrated logits for other class priors, known or estimated from unlabelled rows.

    A calibrator is right for the class priors of its calibration rows, :math:`\pi`. If classes
    occur with other frequencies :math:`\pi'`, and each class looks as before (*label shift*), the
    probabilities are

    .. math:: p'(y = k \mid z) \propto p(y = k \mid z)\, \frac{\pi'_k}{\pi_k} ,

    by Bayes' rule: the logarithm of the ratio is added to the logit of each class. Put it behind
    a calibrator, as in ``make_pipeline(VectorScaling(), PriorShift())``. It does not calibrate by
    itself.

    Pass the new priors as ``priors``, or let :meth:`adapt` estimate them from logits of the new
    population, without labels. Without either, logits do not change. If there are no
    calibration rows, :meth:`from_rates` makes a fitted shift from the rates of the classes.

    Parameters
    ----------
    priors : array-like of shape (n_classes,), default=None
        New class priors in the order of ``classes_``. A class with a prior of 0 has probability
        0, up to rounding: its logit falls by about 700. None means the priors of the calibration
        rows.
    classes : array-like of shape (n_classes,), default=None
        All labels in the order of the columns of ``X``, as for :class:`TemperatureScaling`.
        Classes without calibration rows must have a prior of 0.

    Attributes
    ----------
    priors_ : ndarray of shape (n_classes,)
        Class priors :math:`\pi'` of the transformed logits.
    calibration_priors_ : ndarray of shape (n_classes,)
        Class priors :math:`\pi`: the mean probabilities of the calibration rows.
    log_ratios_ : ndarray of shape (n_classes,)
        Additions to the logits: :math:`\log(\pi'_k / \pi_k)`, with a prior of 0 replaced by
        the smallest normal number.
    label_weights_ : ndarray of shape (n_classes,)
        Weight of the calibration rows of each class; 0 by :meth:`from_rates`.
    standard_errors_ : ndarray of shape (n_classes,)
        Standard errors of ``priors_``, after :meth:`adapt`.
    n_iter_ : int
        Number of passes over the unlabelled rows, after :meth:`adapt`.
    log_likelihood_ratio_ : float
        Log-likelihood of the unlabelled rows with the estimated priors minus the log-likelihood
        with the calibration priors, after :meth:`adapt`.
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the columns.
    n_features_in_ : int
        Number of columns of ``X`` seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Names of the columns, if ``X`` had string names.

    Warns
    -----
    UserWarning
        If there are fewer than ten unlabelled rows per class. As for :class:`TemperatureScaling`.
    ConvergenceWarning
        If the search for the priors does not converge.

    See Also
    --------
    VectorScaling : An offset for each class, from labelled rows of the new population.

    Notes
    -----
    Calibration priors are mean probabilities, not frequencies of labels [2]_. :meth:`adapt`
    maximizes the log-likelihood of the unlabelled rows,
    :math:`\sum_i w_i \log \sum_k \pi'_k\, p_{ik} / \pi_k`, which is concave; EM [1]_ converges to
    the same maximum. One pseudo-row, divided among the classes like the calibration priors, keeps
    every prior above 0. Standard errors come from the observed information and the number of
    calibration rows; they ignore errors of the calibration. Weights count rows.

    :meth:`adapt` does not test for label shift. If the new rows differ in more than their class
    priors, the estimates are wrong.

    References
    ----------
    .. [1] Saerens, Latinne, Decaestecker, "Adjusting the Outputs of a Classifier to New a Priori
       Probabilities: A Simple Procedure", Neural Computation 2002.
    .. [2] Alexandari, Kundaje, Shrikumar, "Maximum Likelihood with Bias-Corrected Calibration is
       Hard-To-Beat at Label Shift Adaptation", ICML 2020,
       `arXiv:1901.06852 <https://arxiv.org/abs/1901.06852>`_.

    Examples
    --------
    The first class is three times as frequent as in the calibration rows:

    >>> import numpy as np
    >>> from sklearn.metrics import log_loss
    >>> from sklearn.pipeline import make_pipeline
    >>> from skcalib import PriorShift, TemperatureScaling
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(8000, 3, temperature=2.0, random_state=0)
    >>> chain = make_pipeline(TemperatureScaling(), PriorShift()).fit(logits[:3000], y[:3000])
    >>> new = np.random.default_rng(0).random(5000) < np.where(y[3000:] == 0, 1, 1 / 3)
    >>> X_new, y_new = logits[3000:][new], y[3000:][new]
    >>> shift = chain[-1].adapt(chain[:-1].transform(X_new))
    >>> shift.priors_.round(2).tolist()
    [0.6, 0.2, 0.19]
    >>> (np.bincount(y_new) / len(y_new)).round(2).tolist()
    [0.6, 0.19, 0.21]
    >>> [round(log_loss(y_new, c.predict_proba(X_new)), 3) for c in (chain[:-1], chain)]
    [0.591, 0.517]
    """

    _on_device = True

    priors_: Floats
    calibration_priors_: Floats
    log_ratios_: Floats
    label_weights_: Floats
    standard_errors_: Floats
    n_iter_: int
    log_likelihood_ratio_: float

    def __init__(
        self, *, priors: ArrayLike | None = None, classes: ArrayLike | None = None
    ) -> None:
        super().__init__(classes=classes)
        self.priors = priors

    @classmethod
    def from_rates(
        cls,
        *,
        before: ArrayLike,
        after: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        n_columns: int | None = None,
    ) -> Self:
        r"""The shift between two rates of each class, without calibration rows.

        A class that occurs at the rate :math:`a_k` where it was at the rate :math:`b_k` has
        :math:`\log(a_k / b_k)` added to its logits. Only ratios between classes matter: rates are
        shares of classes or numbers of rows. If a share of the rows of each class was kept for
        training, or if rows had class weights, pass the shares or weights as ``before`` and leave
        out ``after``. For example, ``before=[1, w]`` undoes ``scale_pos_weight=w`` of a boosted
        classifier, and ``before=[0.1, 1]`` undoes a subsample of one in ten negatives.

        The shift assumes calibrated logits. Calibrate an over-confident model before the shift, on
        rows with the rates ``before``. If labelled rows with the new rates are available, fit a
        calibrator with an offset for each class instead.

        Parameters
        ----------
        before : array-like of shape (n_classes,)
            Positive rates in the rows that the logits are right for.
        after : array-like of shape (n_classes,), default=None
            Rates in the new rows, some of them perhaps 0; by default 1 for each class.
        classes : array-like of shape (n_classes,), default=None
            Labels in the order of the columns; by default 0, 1, ...
        n_columns : int, default=None
            1 for logits of a single column, the log-odds of the second of two classes; by default
            there is a column for each class.

        Returns
        -------
        PriorShift
            A fitted shift; ``priors_`` and ``calibration_priors_`` are the rates divided by their
            sums. :meth:`adapt` needs calibration rows, so call :meth:`fit` before it.

        Raises
        ------
        ValueError
            If rates are negative, all zero or not numbers, or numbers of classes differ.

        Examples
        --------
        >>> import numpy as np
        >>> from skcalib import PriorShift
        >>> shift = PriorShift.from_rates(before=[0.5, 0.5], after=[0.99, 0.01])
        >>> shift.predict_proba(np.log([[0.5, 0.5], [0.1, 0.9]])).round(3).tolist()
        [[0.99, 0.01], [0.917, 0.083]]
        """
        old = _checked_rates("before", before, above=True)
        new = np.ones(len(old)) if after is None else _checked_rates("after", after, above=False)
        if len(new) != len(old):
            raise ValueError(
                f"after must have a rate for each of the {len(old)} classes of before, got "
                f"{len(new)}."
            )
        present = np.arange(len(old)) if classes is None else exact(classes, "classes")
        labels = resolve_classes(present, len(old), classes)
        width = len(old) if n_columns is None else n_columns
        if width != len(old) and (width, len(old)) != (1, 2):
            raise ValueError(
                f"n_columns must be {len(old)}, the number of classes, or 1 for two classes, got "
                f"{n_columns!r}."
            )
        old, new = old / old.sum(), new / new.sum()
        fitted = _fitted_attributes(old, new, np.zeros(len(old)))
        return set_fitted(cls(classes=classes), np.empty((0, width)), labels, fitted)

    def _fit(self, rows: Rows) -> dict[str, Any]:
        n_classes = max(rows.n_columns, 2)
        labels = rows.sum(lambda Z, y, w: np.bincount(y, w, n_classes).astype(np.float64))
        sums = rows.sum(lambda Z, y, w: weighted_sum(softmax(Z).astype(np.float64), w))
        before = np.maximum(sums / rows.weight, LEAST_PRIOR)
        priors = before if self.priors is None else check_priors(self.priors, labels > 0)
        return _fitted_attributes(before, priors, labels)

    def adapt(self, X: ArrayLike, *, sample_weight: ArrayLike | None = None) -> Self:
        """Estimate the class priors of a new population from its logits, without labels.

        Pass calibrated logits: for a pipeline,
        ``pipeline[-1].adapt(pipeline[:-1].transform(X))``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Calibrated logits, as in :meth:`fit`.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 2 is the row twice, a weight of 0 the row absent.

        Returns
        -------
        self : object
            The transformer, with new ``priors_``, which replace the priors that were passed.

        Raises
        ------
        ValueError
            If the logits or the weights are invalid, or if there were no calibration rows. The
            transformer is then unchanged.
        sklearn.exceptions.NotFittedError
            Before :meth:`fit`.
        """
        check_fitted(self)
        rows, weight = self._checked_unlabelled(X, sample_weight)
        if not self.label_weights_.any():
            raise ValueError(
                "adapt compares rows with the rows of fit, got a shift by from_rates, which has no "
                "rows. Call fit with calibrated logits and labels first."
            )
        estimate = most_likely_priors(rows, self.calibration_priors_, self.label_weights_)
        _warn_about_estimate(estimate, weight, int(np.count_nonzero(self.label_weights_)))
        errors, ratio = estimate.standard_errors, estimate.log_likelihood_ratio
        adapted = dict(zip(ADAPTED, (errors, estimate.n_passes, ratio), strict=True))
        for name, value in {**_moved(self.calibration_priors_, estimate.priors), **adapted}.items():
            setattr(self, name, value)
        return self

    def _checked_unlabelled(self, X: Any, sample_weight: Any) -> tuple[Rows, float]:
        """Return rows of logits, in memory or of a Dask collection, and their weight."""
        X = as_array(X, n_columns=self.n_features_in_)
        if is_tensor(X):
            check_needs_no_gradients(X, "X")
            X = on_host(X)
        check_column_names(X, self.classes_)
        check = partial(check_unlabelled, copy(self))
        logits: RowStatistics
        rows, logits = checked_rows(check, X=X, sample_weight=sample_weight)
        check_total_weight(logits.weight)
        if logits.like_probabilities:
            warn_of_probabilities(rows.n_columns, logits.like_probabilities)
        return rows, logits.weight

    def _calibrate(self, Z: Floats) -> Floats:
        ratios = astype(like(self.log_ratios_, Z), Z.dtype)
        return Z + (ratios if Z.shape[1] > 1 else ratios[1:] - ratios[:1])


def _checked_rates(name: str, rates: Any, *, above: bool) -> Floats:
    """Return rates of classes as an array; with ``above`` all of them must be positive."""
    values = np.asarray(rates)
    fits = values.ndim == 1 and len(values) > 1 and values.dtype.kind in "iuf"
    fits = fits and bool(np.isfinite(values).all() and values.min() >= 0 and values.max() > 0)
    if not fits or (above and not values.all()):
        raise ValueError(
            f"{name} must be a list of {'positive' if above else 'non-negative'} numbers, one for "
            f"each class in their order, got {rates!r:.80}. For the rate of an event pass "
            "[1 - rate, rate]."
        )
    return values.astype(np.float64)


def _fitted_attributes(before: Floats, priors: Floats, labels: Floats) -> dict[str, Any]:
    """Return fitted attributes: old and new priors, and the weight of each label."""
    return {"calibration_priors_": before, "label_weights_": labels, **_moved(before, priors)}


def _moved(before: Floats, priors: Floats) -> dict[str, Floats]:
    """Return fitted attributes of new priors, with their additions to the logits."""
    ratios = np.log(np.maximum(priors, LEAST_RATIO)) - np.log(before)
    return {"priors_": priors.copy(), "log_ratios_": ratios}


def _warn_about_estimate(estimate: Estimate, weight: float, n_classes: int) -> None:
    """Warn if the estimated priors are uncertain."""
    least = ROWS_PER_CLASS * n_classes
    if weight < least:
        message = (
            f"The priors of {n_classes} classes are estimated from {weight:g} unlabelled rows, "
            f"with standard errors up to {estimate.standard_errors.max():.2g}. Pass at least "
            f"{least} rows, or give the priors."
        )
        warn(FewRowsWarning(message, weight, n_classes))
    if not estimate.converged:
        warn(
            f"The class priors did not converge in {estimate.n_passes} passes over the rows. Check "
            "the logits for very large values, or give the priors.",
            NotConvergedWarning,
        )
