"""Calibrated logits moved to other class priors, known or estimated from unlabelled logits."""

from copy import copy
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from skcalib._base import BaseCalibrator
from skcalib._rows import Array, Floats, Indices, Plan, Rows, arrays as xa, as_array, checked_rows
from skcalib._validation import inputs
from skcalib._validation.labels import check_column_names, exact, resolve_classes
from skcalib._warnings import FewRowsWarning, LabelShiftWarning, NotConvergedWarning, warn
from skcalib.meta import _label_shift as shift

METHODS = Literal["em", "bbse"]

# Priors are no less, neither those of calibration rows, nor in ratios, whose logarithms are finite.
LEAST_PRIOR, TINY = 1e-100, float(np.finfo(np.float64).tiny)

# Fewer unlabelled rows for each class give a warning.
ROWS_PER_CLASS = 10

# The level of the test of label shift.
LEVEL = 0.01

# What adapt adds to the attributes of fit.
OF_ADAPT = ("standard_errors_", "n_iter_", "log_likelihood_ratio_", "label_shift_pvalue_")


class PriorShift(BaseCalibrator):
    r"""Calibrated logits moved to other class priors, known or estimated from unlabelled rows.

    A calibrator is right for the class priors of its calibration rows, :math:`\pi`. Where classes
    occur with other frequencies :math:`\pi'`, and each class looks as before (*label shift*), the
    probabilities are

    .. math:: p'(y = k \mid z) \propto p(y = k \mid z)\, \frac{\pi'_k}{\pi_k} ,

    by Bayes' rule: the logarithm of the ratio is added to the logit of each class. It goes behind
    a calibrator, as in ``make_pipeline(VectorScaling(), PriorShift())``, and repairs nothing by
    itself.

    The new priors are given, as ``priors``, or estimated by :meth:`adapt` from logits of the new
    population, without labels. Until then, without ``priors``, logits stay as they are. Where there
    are no calibration rows, :meth:`from_rates` makes a fitted shift of the rates of the classes.

    Parameters
    ----------
    priors : array-like of shape (n_classes,), default=None
        The new class priors in the order of ``classes_``. A class with a prior of 0 has probability
        0, up to rounding: its logit falls by some 700. None stands for those of the calibration
        rows.
    method : {"em", "bbse"}, default="em"
        How :meth:`adapt` estimates priors. "em" maximises the likelihood [1]_, for which
        probabilities must be calibrated. "bbse" is black box shift estimation [2]_ by the confusion
        matrix of the calibration rows, with larger errors, but right whether probabilities are
        calibrated or not.
    classes : array-like of shape (n_classes,), default=None
        All labels in the order of the columns of ``X``, as for :class:`TemperatureScaling`. Classes
        without calibration rows have no prior but 0.

    Attributes
    ----------
    priors_ : ndarray of shape (n_classes,)
        The class priors :math:`\pi'` of the transformed logits.
    calibration_priors_ : ndarray of shape (n_classes,)
        The class priors :math:`\pi`: the mean probabilities of the calibration rows.
    log_ratios_ : ndarray of shape (n_classes,)
        What is added to the logits: :math:`\log(\pi'_k / \pi_k)`, with a prior of 0 replaced by
        the smallest normal number.
    standard_errors_ : ndarray of shape (n_classes,)
        Standard errors of ``priors_``, after :meth:`adapt`.
    n_iter_ : int
        Number of passes over the unlabelled rows that the estimate took, after :meth:`adapt`.
    log_likelihood_ratio_ : float
        Log-likelihood of the unlabelled rows with the most likely priors less that with the
        calibration priors, after :meth:`adapt` with "em"; 0 for "bbse".
    label_shift_pvalue_ : float
        That of the test of label shift, after :meth:`adapt`. NaN if there are too few rows for a
        test: fewer than five for each of as many cells as classes, or fewer than 30 calibration
        rows of a class that more of the unlabelled rows belong to.
    label_weights_ : ndarray of shape (n_classes,)
        Weight of the calibration rows of each class; 0 by :meth:`from_rates`.
    cell_edges_ : ndarray of shape (n_classes, n_bins - 1)
        Edges of the bins of confidence of each predicted class.
    cell_codes_ : ndarray of shape (n_cells,)
        Cells that calibration rows are in: predicted class, bin and label, as one number.
    cell_weights_ : ndarray of shape (n_cells,)
        Their weight.
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the columns.
    n_features_in_ : int
        Number of columns of ``X`` seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Names of the columns, where ``X`` had string names.

    Warns
    -----
    UserWarning
        If the unlabelled rows say that more has changed than the class priors, and if there are
        fewer than ten for each class. As for :class:`TemperatureScaling`.
    ConvergenceWarning
        If "em" does not converge.

    See Also
    --------
    VectorScaling : An offset for each class, from labelled rows of the new population.

    Notes
    -----
    *Calibration priors* are the mean probabilities of the calibration rows, not the frequencies of
    their labels. After calibrators with an offset for each class these are all but equal. Where
    they are not, the densities :math:`p(y = k \mid z)\, p(z) / \pi_k` of the classes sum to one
    with the means only, and rows without a shift have the estimate :math:`\pi` [3]_; on recorded
    networks the means have the lower log loss.

    *Maximum likelihood.* The log-likelihood of the unlabelled rows,
    :math:`\sum_i w_i \log \sum_k \pi'_k\, p_{ik} / \pi_k`, is concave:
    :func:`scipy.optimize.minimize` ("trust-ncg"), in the logarithms of the priors, finds the
    maximum that EM converges to. Estimates of
    both methods include one pseudo-row, divided among the classes like the calibration priors, so
    that none is 0 and few rows change little. Standard errors of "em" are those of the observed
    information: they ignore that the probabilities are not exactly calibrated. Those of "bbse"
    include the sampling of both sets of rows. Predicted classes are those for equal priors, so that
    rare ones occur.

    *Weights* are numbers of rows, also in standard errors and the test, which are right for these
    only: rows with weights of 1/2 are half as many, and those of importance sampling are worth
    fewer rows than they count for.

    *Test.* Rows are sorted into cells, by predicted class and confidence. Under label shift the
    shares of cells are a mixture of those of the classes in the calibration rows; the chi-square
    statistic, at the least over all mixtures, has a covariance that includes the sampling of both.
    It depends on the shares of cells in each class. Where more unlabelled than calibration rows are
    of a class, these are estimated from both, so that classes with few calibration rows raise no
    alarm; if these are frequent later, hardly anything else does. A class with fewer than 30
    calibration rows is not tested if it is.
    A p-value below 0.01 gives a warning. The test needs no calibrated probabilities, and with very
    many rows it finds differences too small to matter: the warning says which share of the rows is
    affected.

    Row-chunked Dask collections send three numbers per row to the client in ``fit``, of up to two
    million rows; :meth:`adapt` passes over the chunks. With scikit-learn's ``array_api_dispatch``
    tensors are shifted where they are.

    References
    ----------
    .. [1] Saerens, Latinne, Decaestecker, "Adjusting the Outputs of a Classifier to New a Priori
       Probabilities: A Simple Procedure", Neural Computation 2002.
    .. [2] Lipton, Wang, Smola, "Detecting and Correcting for Label Shift with Black Box
       Predictors", ICML 2018, `arXiv:1802.03916 <https://arxiv.org/abs/1802.03916>`_.
    .. [3] Alexandari, Kundaje, Shrikumar, "Maximum Likelihood with Bias-Corrected Calibration is
       Hard-To-Beat at Label Shift Adaptation", ICML 2020,
       `arXiv:1901.06852 <https://arxiv.org/abs/1901.06852>`_.

    Examples
    --------
    Rows of the first class are three times as frequent as in the calibration rows:

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
    >>> bool(np.abs(shift.priors_ - np.bincount(y_new) / len(y_new)).max() < 0.02)
    True
    >>> losses = [log_loss(y_new, c.predict_proba(X_new)) for c in (chain[:-1], chain)]
    >>> losses[1] < losses[0]
    True
    """

    _on_device = True

    priors_: Floats
    calibration_priors_: Floats
    log_ratios_: Floats
    label_weights_: Floats
    cell_edges_: Floats
    cell_codes_: Indices
    cell_weights_: Floats
    standard_errors_: Floats
    n_iter_: int
    log_likelihood_ratio_: float
    label_shift_pvalue_: float

    def __init__(
        self,
        *,
        priors: ArrayLike | None = None,
        method: METHODS = "em",
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(classes=classes)
        self.priors = priors
        self.method = method

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
        shares of classes, numbers of rows, or what sampling has made of them. Where a share of the
        rows of each class was kept for training, or these had class weights, the shares or weights
        are ``before``, and ``after`` is left out. So ``before=[1, w]`` takes back the
        ``scale_pos_weight`` w of a boosted classifier, and ``before=[0.1, 1]`` that one in ten
        negatives was kept.

        It is right for calibrated logits: a model that is over-confident has to be calibrated as
        well, in front of the shift and for the rates ``before``. With labelled rows as they occur,
        a calibrator with an offset for each class needs no shift.

        Parameters
        ----------
        before : array-like of shape (n_classes,)
            Positive rates in the rows that the logits are right for.
        after : array-like of shape (n_classes,), default=None
            Rates in the new rows, of which some may be 0; by default 1 for each class.
        classes : array-like of shape (n_classes,), default=None
            Labels in the order of the columns; by default 0, 1, ...
        n_columns : int, default=None
            1 for logits of a single column, the log-odds of the second of two classes; by default
            there is a column for each class.

        Returns
        -------
        PriorShift
            It is fitted; ``priors_`` and ``calibration_priors_`` are the rates divided by their
            sums. :meth:`adapt` needs calibration rows, and so :meth:`fit`.

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
        table = shift.Table(np.empty((len(old), 0)), np.empty(0, np.intp), np.empty(0))
        fitted = _fitted(old, new, np.zeros(len(old)), table)
        return cls(classes=classes)._set_fitted(np.empty((0, width)), labels, fitted)  # noqa: SLF001

    def _fit(self, rows: Rows) -> dict[str, Any]:
        inputs.check_option("method", self.method, METHODS)
        n_classes = max(rows.n_columns, 2)
        labels = rows.sum(lambda _, y, w: np.bincount(y, w, n_classes).astype(np.float64))
        sums = rows.sum(
            lambda Z, _, w: xa.weighted_sum(xa.softmax(Z).astype(np.float64), w), Plan(room=3)
        )
        means = sums / rows.weight
        before = np.maximum(means, LEAST_PRIOR)
        priors = before if self.priors is None else inputs.check_priors(self.priors, labels > 0)
        table = shift.table_of(rows, shift.prediction_offsets(before, labels))
        return _fitted(before, priors, labels, table)

    def _set_fitted(self, X: Any, classes: Array, fitted: dict[str, Any]) -> Self:
        for name in OF_ADAPT:
            self.__dict__.pop(name, None)
        return super()._set_fitted(X, classes, fitted)

    def adapt(self, X: ArrayLike, *, sample_weight: ArrayLike | None = None) -> Self:
        """Estimate the class priors of a new population from its logits, without labels.

        Behind a calibrator these are what it transforms: for a pipeline,
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
            The transformer, with new ``priors_``, which replace those given.

        Raises
        ------
        ValueError
            If the logits are invalid, as for outputs, if weights are, for "bbse" if the confusion
            matrix of the calibration rows is singular, or if there were none. The transformer is
            then unchanged.
        sklearn.exceptions.NotFittedError
            Before :meth:`fit`.
        """
        inputs.check_fitted(self)
        inputs.check_option("method", self.method, METHODS)
        rows, weight = self._checked_unlabelled(X, sample_weight)
        labels = xa.on_host(self.label_weights_)
        if not labels.any():
            raise ValueError(
                "adapt compares rows with those of fit, got a shift by from_rates, which has none. "
                "Call fit with calibrated logits and labels first."
            )
        before = xa.on_host(self.calibration_priors_)
        of_fit = self.cell_edges_, self.cell_codes_, self.cell_weights_
        table = shift.Table(*map(xa.on_host, of_fit))
        of_cells = shift.cell_weights(rows, table, shift.prediction_offsets(before, labels))
        if self.method == "bbse":
            found = shift.priors_by_confusion(of_cells, table, before)
        else:
            found = shift.most_likely_priors(rows, before, labels)
        test = shift.label_shift_test(of_cells, table, found.priors)
        _warn_of(found, test, weight, int(np.count_nonzero(labels)))
        others = (found.standard_errors, found.n_passes, found.log_likelihood_ratio, test.pvalue)
        fitted = {**_moved(before, found.priors), **dict(zip(OF_ADAPT, others, strict=True))}
        for name, value in fitted.items():
            is_array = isinstance(value, np.ndarray)
            setattr(self, name, xa.like(value, self.calibration_priors_) if is_array else value)
        return self

    def _checked_unlabelled(self, X: Any, sample_weight: Any) -> tuple[Rows, float]:
        """Rows of logits in memory or of a Dask collection, and their weight."""
        X = as_array(X, n_columns=self.n_features_in_)
        if xa.is_tensor(X):
            xa.check_needs_no_gradients(X, "X")
            X = xa.on_host(X)
        check_column_names(X, xa.on_host(self.classes_))
        check = partial(inputs.check_unlabelled, copy(self))
        found: inputs.Found
        rows, found = checked_rows(check, X=X, sample_weight=sample_weight)
        inputs.check_total_weight(found.weight)
        if found.like_probabilities:
            inputs.warn_of_probabilities(rows.n_columns, found.like_probabilities)
        return rows, found.weight

    def _calibrate(self, Z: Floats) -> Floats:
        ratios = xa.astype(xa.like(self.log_ratios_, Z), Z.dtype)
        return Z + (ratios if Z.shape[1] > 1 else ratios[1:] - ratios[:1])


def _checked_rates(name: str, rates: Any, *, above: bool) -> Floats:
    """Rates of classes as an array; ``above`` zero, or some of them."""
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


def _fitted(before: Floats, priors: Floats, labels: Floats, table: shift.Table) -> dict[str, Any]:
    """Attributes of a fit: old and new priors, and what is kept of the calibration rows."""
    return {
        "calibration_priors_": before,
        "label_weights_": labels,
        "cell_edges_": table.edges,
        "cell_codes_": table.codes,
        "cell_weights_": table.weights,
        **_moved(before, priors),
    }


def _moved(before: Floats, priors: Floats) -> dict[str, Floats]:
    """New priors, and what they add to the logits."""
    ratios = np.log(np.maximum(priors, TINY)) - np.log(before)
    return {"priors_": priors.copy(), "log_ratios_": ratios}


def _warn_of(found: shift.Estimate, test: shift.ShiftTest, weight: float, n_classes: int) -> None:
    """Warn of priors that are not well known, and of more than label shift."""
    least = ROWS_PER_CLASS * n_classes
    if weight < least:
        message = (
            f"The priors of {n_classes} classes are estimated from {weight:g} unlabelled rows, "
            f"with standard errors up to {found.standard_errors.max():.2g}. Pass at least "
            f"{least} rows, or give the priors."
        )
        warn(FewRowsWarning(message, weight, n_classes))
    if not found.converged:
        warn(
            f"The class priors did not converge in {shift.MAX_ITERATIONS} iterations. They are "
            "close to the most likely ones; use method='bbse' for priors in closed form.",
            NotConvergedWarning,
        )
    if test.pvalue < LEVEL:
        message = (
            "More has changed than the class priors: no mixture of the classes as they are in the "
            "calibration rows gives these predicted classes and confidences "
            f"(p = {test.pvalue:.2g}; {100 * test.distance:.2g} % of the rows differ). The "
            "estimated priors may be wrong, and shifted probabilities with them. Pass logits that "
            "the steps before have calibrated; if they are, calibrate with labelled rows of the "
            "new population."
        )
        warn(LabelShiftWarning(message, *test))
