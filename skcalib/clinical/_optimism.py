"""Measures corrected for optimism: the fit repeated on bootstrap samples of its own rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state, column_or_1d, indexable
from sklearn.utils.parallel import Parallel, delayed

from skcalib._input.arrays import check_in_memory, on_host, taken
from skcalib._input.classes import ordered_categories
from skcalib._input.estimators import may_have, weight_params
from skcalib._input.groups import group_numbers
from skcalib._input.labels import as_labels, class_probabilities, shown
from skcalib._input.logits import check_weights
from skcalib._input.parameters import check_integer, check_real
from skcalib._typing import Array, ArrayLike, Bools, Floats, Indices
from skcalib._warnings import warn
from skcalib.metrics import calibration_scorer
from skcalib.metrics._named_scorers import Measures

from ._regression import calibration_intercept, calibration_slope, integrated_calibration_index

# A class with a single row is in 63 % of the samples.
TRIES = 1000


@dataclass(frozen=True)
class OptimismCorrection:
    """A measure for a model on its training rows, with its correction.

    Attributes
    ----------
    apparent : float
        The measure on the rows that the model was fitted to.
    optimism : float
        Mean difference between the measures on a bootstrap sample and on all rows, for models
        fitted to the sample.
    corrected : float
        ``apparent`` minus ``optimism``, an estimate for new rows.
    low, high : float
        Confidence interval of the measure on new rows.
    """

    apparent: float
    optimism: float
    corrected: float
    low: float
    high: float


FIGURES = {
    figure.__name__: calibration_scorer(figure, greater_is_better=True)
    for figure in (calibration_slope, calibration_intercept, integrated_calibration_index)
}


def optimism_corrected(
    estimator: Any,
    X: Any,
    y: ArrayLike,
    *,
    scoring: str | Sequence[str] | Mapping[str, Any] = "neg_brier_score",
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    n_resamples: int = 200,
    confidence_level: float = 0.95,
    n_jobs: int | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> dict[str, OptimismCorrection]:
    r"""Measures that a classifier will have on new rows, from the rows that it is fitted to.

    On its own rows a model looks better than it is. Its *optimism* is estimated by repeating the
    whole fit on bootstrap samples b of the rows [1]_. With the measure :math:`m_b` for the model
    fitted to b, on the rows in b and on all rows,

    .. math:: \mathrm{corrected} = \mathrm{apparent} - \frac{1}{B} \sum_b o_b , \qquad
        o_b = m_b(\text{rows of } b) - m_b(\text{all rows}) .

    All rows serve to fit and to validate. With thousands of rows a test set is the better choice.
    All steps that use the labels must be part of the estimator, such as a selection of features or
    a calibrator.

    The interval is :math:`[\mathrm{apparent} - q_{1 - \alpha/2},\; \mathrm{apparent} -
    q_{\alpha/2}]`, with the quantiles q of the :math:`o_b`. It is an interval for the measure of
    this fitted model on many new rows. It may be too narrow if there are few rows for the number of
    features. In a simulation with 200 rows and 20 features, 95 % intervals contained the log loss,
    the Brier score and the calibration slope in 94 to 97 % of samples, but the area under the ROC
    curve in only 73 %, because the bootstrap underestimates its optimism.

    Parameters
    ----------
    estimator : classifier
        A classifier with ``predict_proba``, or a pipeline that ends with one. Clones of it are
        fitted. A ``FrozenEstimator`` is not fitted and adds nothing to the optimism, so
        its own training rows must not be among these rows.
    X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
        Features per row.
    y : array-like of shape (n_samples,)
        Labels with any number of classes.
    scoring : str, list of str or dict, default="neg_brier_score"
        Measures, besides the log loss, as for :func:`compare_calibrators`: names of scorers, see
        :func:`skcalib.metrics.get_scorer_names`, or a dict with such names or functions
        ``scorer(estimator, X, y)``, which are passed ``sample_weight=`` if there are weights. For
        two classes also "calibration_slope", "calibration_intercept" and
        "integrated_calibration_index".
    sample_weight : array-like of shape (n_samples,), default=None
        Weights for fits and measures, which stay with the rows that are drawn. A weight of 0 is
        the row absent.
    groups : array-like of shape (n_samples,), default=None
        Group per row, such as a patient or a centre. Bootstrap samples consist of whole groups.
    n_resamples : int, default=200
        Number of bootstrap samples, and of fits.
    confidence_level : float, default=0.95
        Confidence level of the interval, between 0 and 1.
    n_jobs : int, default=None
        Number of jobs that fit at the same time, as everywhere in scikit-learn.
    random_state : int, RandomState instance or None, default=None
        Seed or generator of the bootstrap samples.

    Returns
    -------
    dict of str to OptimismCorrection
        By name of the measure, without ``"neg_"``: errors are positive. "log loss" is always there.

    Raises
    ------
    ValueError
        If labels, weights or an argument is invalid, if the classifier has no ``predict_proba``,
        or takes no weights although weights are passed, if a class has too few rows to be in
        samples, and if half of the samples have no values. Errors of the fit and of the measures
        for all rows, such as an error of :func:`~skcalib.clinical.calibration_slope` if a threshold
        separates the classes.

    Warns
    -----
    UserWarning
        If fits or measures raise a ValueError for some samples, which are left out.

    See Also
    --------
    compare_calibrators : Cross-validation of calibrators.

    Notes
    -----
    Rows are drawn without regard to their class, so the event rate varies as in new data. A sample
    that lacks a class is drawn again.

    If a row is drawn twice, both copies may be on different sides of a split inside the estimator.
    The calibrator of a :class:`CalibratedClassifier` is then fitted to logits that are somewhat
    over-confident.

    References
    ----------
    .. [1] Harrell, Lee, Mark, "Multivariable prognostic models: issues in developing models,
       evaluating assumptions and adequacy, and measuring and reducing errors", Statistics in
       Medicine 15, 1996.
    .. [2] Steyerberg, Harrell, Borsboom, Eijkemans, Vergouwe, Habbema, "Internal validation of
       predictive models: efficiency of some procedures for logistic regression analysis", Journal
       of Clinical Epidemiology 54, 2001.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skcalib.clinical import optimism_corrected
    >>> X, y = make_classification(200, 20, flip_y=0.3, random_state=0)
    >>> estimates = optimism_corrected(
    ...     LogisticRegression(C=1e3), X, y, scoring="calibration_slope", n_resamples=50,
    ...     random_state=0)
    >>> slope = estimates["calibration_slope"]
    >>> round(slope.apparent, 2), slope.corrected < 0.8
    (1.0, True)
    """
    check_integer("n_resamples", n_resamples)
    check_real("confidence_level", confidence_level, high=1)
    check_in_memory((X, y, sample_weight, groups))
    if not may_have(estimator, "predict_proba"):
        raise ValueError(
            f"estimator must be a classifier with predict_proba, got {estimator!r}. Pass one that "
            "has not only decision_function, such as CalibratedClassifier(estimator)."
        )
    order, targets = ordered_categories(y), y
    measures = Measures(scoring, X, order=order, others=FIGURES)
    X, labels = indexable(X, column_or_1d(as_labels(y)))
    targets = labels if order is None else targets
    w = check_weights(sample_weight, len(labels))
    counted = np.arange(len(labels)) if w is None else np.flatnonzero(w > 0)
    random, rows = check_random_state(random_state), (X, labels, w)
    classes = np.unique(labels[counted])
    if len(classes) < 2:
        raise ValueError(f"y must hold at least two classes, got {shown(classes) or 'no row'}.")
    present = labels[counted, None] == classes
    numbers = group_numbers(groups, labels, w)
    sample_values = partial(_values, estimator, rows, targets, counted=counted, measures=measures)
    samples = (counted[_drawn(present, random, numbers)] for _ in range(n_resamples))
    apparent = sample_values(counted)[0]  # first, because an error here would occur in all samples
    jobs = (delayed(_or_message)(sample_values, sample) for sample in samples)
    values = _valid_values(Parallel(n_jobs=n_jobs)(jobs))
    optimism = values[:, 0] - values[:, 1]
    mean, ends = optimism.mean(axis=0), [(1 + confidence_level) / 2, (1 - confidence_level) / 2]
    low, high = apparent - np.quantile(optimism, ends, axis=0)
    estimates = np.stack([apparent, mean, apparent - mean, low, high], axis=1)
    return {
        name: OptimismCorrection(*values)
        for name, values in zip(measures.names, estimates.tolist(), strict=True)
    }


def _drawn(present: Bools, random: np.random.RandomState, groups: Indices | None = None) -> Indices:
    """Draw a bootstrap sample of rows or of groups that contains every class.

    ``present`` (n, n_classes) marks the class of each row.
    """
    for _ in range(TRIES):
        rows = random.randint(len(present), size=len(present))
        if groups is not None:
            n_groups = int(groups.max()) + 1
            times = np.bincount(random.randint(n_groups, size=n_groups), minlength=n_groups)
            rows = np.repeat(np.arange(len(present)), times[groups])
        if present[rows].any(axis=0).all():
            return rows
    n_rows = present.sum(axis=0)
    raise ValueError(
        f"Bootstrap samples must hold all classes, got {np.sum(n_rows == n_rows.min())} of "
        f"{len(n_rows)} classes with {n_rows.min()} of {len(present)} rows, and {TRIES} samples "
        "that lack some class. Leave out, or put together, classes with so few rows."
    )


def _values(
    estimator: Any,
    rows: tuple[Any, Array, Floats | None],
    targets: Any,
    drawn: Indices,
    *,
    counted: Indices,
    measures: Measures,
) -> Floats:
    """Return measures (2, n_measures) on rows drawn and on rows of positive weight.

    A clone is fitted to the rows drawn, with ``targets``: the labels, or ordered categories.
    """
    X, y, w = rows
    weights = weight_params(estimator, None if w is None else w[drawn], "estimator")
    model = clone(estimator).fit(taken(X, drawn), taken(targets, drawn), **weights)
    classes = np.asarray(on_host(model.classes_))
    values = []
    for part in (drawn, counted):
        part_X = taken(X, part)
        P = np.asarray(on_host(class_probabilities(model.predict_proba(part_X), classes)))
        by_name = measures(P, classes, part_X, y[part], None if w is None else w[part])
        values.append([*by_name.values()])
    return np.array(values)


def _or_message(f: Callable[[Indices], Floats], rows: Indices) -> Floats | str:
    """Compute the values of a sample, or return the message of the error."""
    try:
        return f(rows)
    except ValueError as error:
        return str(error)


def _valid_values(results: list[Floats | str]) -> Floats:
    """Select the values (n, 2, n_measures) of the samples without an error."""
    values = [result for result in results if not isinstance(result, str)]
    messages = [result for result in results if isinstance(result, str)]
    if not messages:
        return np.array(values)
    lacking = f"{len(messages)} of {len(results)} bootstrap samples have no values: {messages[0]}"
    if len(values) <= len(messages):
        raise ValueError(f"{lacking} Choose a simpler model, or other measures.")
    warn(f"{lacking} They are left out, which makes the optimism somewhat too small.")
    return np.array(values)
