"""One calibrated probability from several scores of the same row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags

from skcalib._fits import log_probabilities
from skcalib._input.arrays import as_kind_of, column_names
from skcalib._input.estimators import check_fitted
from skcalib._input.groups import in_groups, unless_single
from skcalib._input.labels import shown
from skcalib._input.logits import warn_of_small_weights
from skcalib._input.parameters import check_integer
from skcalib._input.predictions import logits_for
from skcalib._input.rows import check_fit, check_not_swapped, labelled_rows, with_classes
from skcalib._rows import Rows, map_blocks
from skcalib._rows.arrays import mix_logits
from skcalib._splits import first_tests, given_splits, random_splits
from skcalib._typing import Array, ArrayLike, Floats, Output, Split
from skcalib._version import Versioned
from skcalib._warnings import give, recorded
from skcalib.base import Outputs, set_fitted
from skcalib.scaling import Uncalibrated
from skcalib.selection import AutoCalibrator
from skcalib.selection._auto import fit_stack

from ._pool import fit_weights, fused_logits
from ._scores import (
    as_matrix,
    check_class_names,
    check_column_order,
    check_scores,
    check_widths,
    name_scores,
)


class FusionCalibrator(Outputs, Versioned, ClassifierMixin, BaseEstimator):
    r"""One calibrated probability from several scores of the same row.

    Scores are the logits of several models, judges, prompts or forecasters. A calibrator is fitted
    to each score :math:`m` alone. Its evidence is the logarithm of its calibrated probability minus
    the logarithm of the base rate :math:`\pi`, and the fused probabilities are

    .. math:: \hat p(y = k) = \mathrm{softmax}_k\Bigl(\log \pi_k + c_k
        + \sum_m \Bigl[ b_m \log \frac{p_m(y = k)}{\pi_k}
        + \sum_j e_{mjk} \bigl(p_m(y = j) - \bar p(y = j)\bigr) \Bigr] \Bigr) .

    The weights :math:`b`, offsets :math:`c` and effects :math:`e` minimize the log loss of
    out-of-fold evidence, with a ridge penalty that shrinks the weights towards the usefulness of
    each score alone. The effects correct for classes that a score prefers, where it disagrees with
    the mean :math:`\bar p` of the scores.

    Parameters
    ----------
    n_scores : int, default=None
        Number of scores. None reads it from the names of the columns of a data frame, such as
        ``trees__logit_0``, as :class:`~sklearn.pipeline.FeatureUnion` names them.
    calibrator : calibrator, default=None
        Calibrator of each score. None means ``AutoCalibrator("smooth")``, with the folds of ``cv``.
    cv : int, splitter or iterable of splits, default=5
        How to split the rows for out-of-fold evidence. An integer is the number of random folds, or
        of folds of groups if ``fit`` is given ``groups``.
        From 50 000 rows on, folds consist of a sample.
    random_state : int, RandomState instance or None, default=None
        Shuffles the rows into folds. With None the folds are the same at every fit.
    classes : array-like of shape (n_classes,), default=None
        All labels in the column order of each score, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    weights_ : dict of str to float
        Weight :math:`b_m` of each score. A weight may be negative, and a sum above one says that
        the scores are not copies of one another.
    loss_report_ : dict of str to float
        Mean out-of-fold log losses in nats: each score alone, the "mean" of the calibrated
        probabilities, and the "fusion". A row without a score counts with its base rates.
    leave_one_out_ : dict of str to float
        Mean out-of-fold log loss of the fusion without each score.
    calibrators_ : list of calibrators
        Calibrator of each score, fitted to all rows that have it.
    score_names_ : list of str
        Names of the scores: shared starts of the names of columns, or "score 0", "score 1", ...
    base_rates_ : ndarray of shape (n_classes,)
        Base rates :math:`\pi` of the classes.
    intercept_ : ndarray of shape (n_classes,)
        Offsets :math:`c` of the classes.
    covariance_ : ndarray of shape (n_scores, n_scores)
        Covariance of the evidence of the scores given the label, which fills in missing scores.
    imputed_slopes_ : ndarray of shape (n_scores,)
        Change of the weight of each score where it is missing and filled in.
    missing_offsets_ : ndarray of shape (n_scores, n_classes)
        Offsets of the classes where a score is missing.
    effects_ : ndarray of shape (n_scores * n_classes, n_classes)
        Effects of disagreement: changes of the logits of all classes per probability of a class by
        which a score exceeds the mean of the scores. Empty for more than 20 classes.
    smoothing_ : float
        Share of the uniform distribution in the probabilities: :math:`1 / (N + 1)^2` for N rows,
        since the calibrators of the scores are smoothed themselves, or 0 for a single score.
    classes_ : ndarray of shape (n_classes,)
        Labels in the column order of each score.
    n_features_in_ : int
        Number of columns in ``X`` during ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Column names, where ``X`` had string names.

    Warns
    -----
    UserWarning
        If rows have no score; if the fit of a score warns, with the names of the scores; and if
        more than 5 per cent of the rows equal another row and ``groups`` are not given.

    See Also
    --------
    LogitTransformer : Logits of a classifier, for a ``FeatureUnion`` of several classifiers.
    skcalib.judge.ScoreTransformer : Logits of grades and stated confidences.
    sklearn.ensemble.StackingClassifier : Fits classifiers and a classifier of their outputs.

    Notes
    -----
    *Missing scores* are NaN in all columns of a score. The conditional mean of its evidence given
    the other scores replaces it, as in linear discriminant analysis: a missing copy of another
    score loses nothing, and an independent score counts as zero. A weight of its own and offsets
    follow if scores are missing because the row is hard. A row without any score gets the base
    rates.

    *Ridge.* A score alone that lowers the log loss of the base rates by G nats in total, to the
    mean :math:`l`, has the usefulness :math:`G / (G + 2) / l`. The prior means of the weights are
    in proportion to the usefulness, so that noise has a weight near zero. The penalty is
    :math:`3 M \|d\|^2` for deviations :math:`d` of M weights from the proportion,
    :math:`100 \|c\|^2`, and :math:`5 \|e\|^2`. The total weight is nearly free between one, which
    is best for copies, and the effective number of scores.

    Fit it on rows that none of the scored models was trained on. See :doc:`/guide/fusion`.

    References
    ----------
    .. [1] Bruemmer, de Villiers, "The BOSARIS Toolkit: Theory, Algorithms and Code for Surviving
       the New DCF", 2011, `arXiv:1304.2865 <https://arxiv.org/abs/1304.2865>`_.
    .. [2] Genest, Zidek, "Combining Probability Distributions: A Critique and an Annotated
       Bibliography", Statistical Science 1, 1986.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.datasets import make_logits
    >>> from skcalib.fusion import FusionCalibrator
    >>> logits, y = make_logits(600, 3, random_state=0)
    >>> noise = np.random.default_rng(0).normal(size=(2, 600, 3))
    >>> X = np.hstack([logits + noise[0], logits + 2 * noise[1]])
    >>> X[::5, 3:] = np.nan  # the second score is missing in some rows
    >>> fusion = FusionCalibrator(n_scores=2).fit(X[:400], y[:400])
    >>> fusion.predict_proba(X[400:]).shape
    (200, 3)
    >>> fusion.weights_["score 0"] > fusion.weights_["score 1"]
    True
    """

    weights_: dict[str, float]
    loss_report_: dict[str, float]
    leave_one_out_: dict[str, float]
    calibrators_: list[Any]
    score_names_: list[str]
    base_rates_: Floats
    covariance_: Floats
    intercept_: Floats
    imputed_slopes_: Floats
    missing_offsets_: Floats
    effects_: Floats
    smoothing_: float

    def __init__(
        self,
        n_scores: int | None = None,
        *,
        calibrator: Any = None,
        cv: Any = 5,
        random_state: int | np.random.RandomState | None = None,
        classes: ArrayLike | None = None,
    ) -> None:
        self.n_scores = n_scores
        self.calibrator = calibrator
        self.cv = cv
        self.random_state = random_state
        self.classes = classes

    # Searches with metadata routing pass groups on without set_fit_request.
    __metadata_request__fit: ClassVar = {"groups": True}

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the calibrators of the scores and their weights to held-out scores and labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_scores * n_classes) or (n_samples, n_scores)
            Logits of the first score, then of the second score, and so on, or for two classes
            log-odds of ``classes_[1]``. NaN in all columns of a score marks a missing score.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 2 is the row twice, except that both are in one fold. A weight of 0 is the
            row absent.
        groups : array-like of shape (n_samples,), optional
            Groups of rows, such as the question. Folds do not split groups.

        Returns
        -------
        self : object
            The fitted calibrator.

        Raises
        ------
        ValueError
            If the columns are not ``n_scores`` times as many as for one score, if a row has some
            columns of a score, if the rows that have a score are of one class, if scores mask all
            classes of a row, if folds have one class only, for Dask collections, and as for other
            calibrators. The calibrator is then unchanged.
        """
        matrix = as_matrix(X)
        check_not_swapped(y=y, X=matrix)
        columns = column_names(matrix)
        names = name_scores(columns, self.n_scores, matrix.shape[1])
        check = partial(check_scores, n_scores=len(names))
        rows, statistics = labelled_rows(self, matrix, y, sample_weight, check=check)
        named = statistics.categories if self.classes is None else self.classes
        check_widths(
            rows.n_columns, len(names), statistics.labels if named is None else np.asarray(named)
        )
        rows = with_classes(rows, statistics, self, rows.n_columns // len(names))
        check_class_names(columns, names, rows.classes)
        rows = in_groups(rows, matrix, groups, sample_weight)
        if isinstance(self.cv, Integral):
            check_integer("cv", self.cv, low=2)
            splits = random_splits(rows, int(self.cv), self.random_state)
        else:
            splits = given_splits(self.cv, matrix, y, sample_weight, groups)
        if not splits or len(np.unique(first_tests(splits)[1])) < 2:
            raise ValueError(
                "cv must put rows into at least two test sets, with two classes in the other rows, "
                f"got {len(splits)} splits. Use cv=5, or calibrate on more rows or groups."
            )
        rows = rows.replace(X=rows.X.reshape(rows.n_rows, len(names), -1))
        return set_fitted(self, matrix, rows.classes, self._fit(rows, splits, names))

    def _fit(self, rows: Rows, splits: list[Split], names: list[str]) -> dict[str, Any]:
        """Return fitted attributes from rows of scores (n, M, width) and splits."""
        n_scores, n_classes = len(names), len(rows.classes)
        share = 1 / (rows.weight + 1)
        counts = np.bincount(rows.y, rows.w, n_classes)
        log_rates = np.log((1 - share) * counts / rows.weight + share / n_classes)

        # Calibrate each score alone, on all rows and across folds.
        tested, fold, _ = first_tests(splits)
        once = [Split(train, tested[fold == i]) for i, (train, _) in enumerate(splits)]
        calibrators, messages = [], {}
        L = np.full((rows.n_rows, n_scores, n_classes), np.nan)
        for m, name in enumerate(names):
            with recorded() as messages[name]:
                calibrator, L[:, m] = fit_score(self.calibrator, rows, m, name, once)
            calibrators.append(calibrator)
        give(messages.items(), lambda counts: f"Score {shown(counts)}")
        warn_of_small_weights(rows.weight, rows.n_rows)

        y, w = rows.y[tested], np.ones(len(tested)) if rows.w is None else rows.w[tested]
        return fit_weights(names, L[tested], log_rates, y, w, fold) | {
            "score_names_": names,
            "calibrators_": calibrators,
            "base_rates_": np.exp(log_rates),
            "smoothing_": share**2 if n_scores > 1 else 0.0,  # scores are smoothed themselves
        }

    def _predict(self, X: Any, output: Output) -> Any:
        """Check the scores ``X``, and return an output for the fused log-probabilities (n, K)."""
        check_fitted(self)
        scores = as_matrix(X, self.n_features_in_)
        check_column_order(scores, self)
        Z = logits_for(self, scores)
        check_scores(Z, len(self.score_names_), fit=False)
        scores = Z if len(Z) else np.zeros((1, Z.shape[1]), Z.dtype)  # for the dtype of no rows
        L = map_blocks(partial(fused_log_probabilities, self), scores)
        fused = Uncalibrated()  # nothing is left to calibrate
        fused.classes_ = self.classes_
        return output(fused, as_kind_of(L, X))[: len(Z)]

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> Array:  # noqa: ARG002
        """Return names of the columns of logits, ``logit_`` and the label.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Ignored.

        Returns
        -------
        ndarray of str
            One name per class.
        """
        check_fitted(self)
        return np.array([f"logit_{label}" for label in self.classes_.tolist()], dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def fit_score(
    calibrator: Any, rows: Rows, m: int, name: str, splits: Sequence[Split]
) -> tuple[Any, Floats]:
    """Return a calibrator of score ``m``, and log-probabilities (n, K) of held-out rows.

    ``rows`` have scores (n, M, width), with NaN in place of missing ones. The log-probabilities are
    NaN in rows without the score, and in rows that no split tests. The mixture of the default is
    the same in all splits.
    """
    has = np.flatnonzero(~np.isnan(rows.X[:, m, 0]))
    part, classes = rows.take(has), rows.classes
    if len(np.unique(part.y)) < 2:
        raise ValueError(
            "The rows that have a score must be of at least two classes, got one class or "
            f"no row for {name!r}. Leave this score out."
        )
    # Splits of the rows that have the score, with two classes to train on.
    inner = [Split(*(np.flatnonzero(np.isin(has, side)) for side in split)) for split in splits]
    inner = [s for s in inner if len(s.test) and len(np.unique(part.y[s.train])) > 1]
    auto = AutoCalibrator("smooth", classes=classes)
    if calibrator is not None:  # as the only candidate
        auto = AutoCalibrator([calibrator], combine="best", classes=classes)
    Z, checked = check_fit(auto, part.X[:, m], classes[part.y], part.w)
    stack = fit_stack(auto, checked.replace(groups=unless_single(part.groups)), inner or None)
    L = np.full((rows.n_rows, len(classes)), np.nan)
    if inner:
        L[has[np.concatenate([split.test for split in inner])]] = stack.held_out(checked)
    if calibrator is None:
        return set_fitted(auto, Z, classes, stack.attributes), L
    return next(iter(stack.attributes["calibrators_"].values())), L


def fused_log_probabilities(fusion: FusionCalibrator, X: Floats) -> Floats:
    """Return log-probabilities (m, K) for a block of checked scores."""
    n_scores, log_rates = len(fusion.score_names_), np.log(fusion.base_rates_)
    Z = X.reshape(len(X), n_scores, X.shape[1] // n_scores)
    missing = np.isnan(Z[:, :, 0])
    Z = np.where(missing[:, :, None], 0, Z)  # of any value
    L = np.stack(
        [log_probabilities(c, Z[:, m], fusion.classes_) for m, c in enumerate(fusion.calibrators_)],
        axis=1, dtype=float,
    )  # fmt: skip
    L[missing] = np.nan
    weights = np.append([*fusion.weights_.values()], fusion.imputed_slopes_)
    # Files that were saved before the effects were added have none.
    effects = [fusion.intercept_, *fusion.missing_offsets_, *getattr(fusion, "effects_", ())]
    L = fused_logits(L, log_rates, fusion.covariance_, weights, np.array(effects))
    return mix_logits(L, fusion.smoothing_).astype(X.dtype, copy=False)
