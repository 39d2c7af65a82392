"""One calibrated probability from several scores of the same row."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils import Tags, check_consistent_length
from sklearn.utils.validation import validate_data

from skcalib._inner.checks import check_calibrator, check_order
from skcalib._inner.fits import warn_of_groups
from skcalib._input.arrays import as_kind_of, column_names
from skcalib._input.classes import ordered_categories, resolve_classes
from skcalib._input.groups import check_groups
from skcalib._input.labels import as_labels, distinct_labels, encode
from skcalib._input.logits import as_floats, check_weights, warn_of_small_weights
from skcalib._input.rows import check_fitted, check_not_swapped, logits_for
from skcalib._rows import Array, ArrayLike, Floats, arrays
from skcalib._splits import first_tests
from skcalib._version import Versioned
from skcalib._warnings import ProbabilitiesWarning, recorded
from skcalib.base import labels_of

from ._pool import Evidence, Pool, impute, pooled, weigh
from ._scores import (
    Scores,
    as_matrix,
    check_class_names,
    evidence_of,
    fit_score,
    make_splits,
    name_scores,
    split_scores,
)

# Number of log-probabilities that predictions hold in memory at once.
BLOCK = 1 << 22


class FusionCalibrator(Versioned, ClassifierMixin, TransformerMixin, BaseEstimator):
    r"""One calibrated probability from several scores of the same row.

    Scores are the logits of several models, judges, prompts or forecasters. A calibrator is fitted
    to each score :math:`m` alone. Its evidence is the logarithm of its calibrated probability minus
    the logarithm of the base rate :math:`\pi`, and the fused probabilities are

    .. math:: \hat p(y = k) = \mathrm{softmax}_k\Bigl(\log \pi_k + c_k
        + \sum_m b_m \log \frac{p_m(y = k)}{\pi_k}\Bigr) .

    The weights :math:`b` and offsets :math:`c` minimize the log loss of out-of-fold evidence, with
    a ridge penalty that shrinks the weights towards equal ones.

    Parameters
    ----------
    n_scores : int, default=None
        Number of scores. None reads it from the names of the columns of a data frame, such as
        ``trees__logit_0``, as :class:`~sklearn.pipeline.FeatureUnion` names them.
    calibrator : calibrator, default=None
        Calibrator of each score. None means :class:`SplineCalibration` for two classes and
        :class:`MatrixScaling` for up to 100 classes. More classes, and scores with masked classes,
        have :class:`VectorScaling`.
    cv : int, splitter or iterable of splits, default=5
        How to split the rows for out-of-fold evidence. An integer is the number of random folds, or
        of folds of groups if ``fit`` is given ``groups``.
    random_state : int, RandomState instance or None, default=None
        Shuffles the rows into folds. With None the folds are the same at every fit.
    classes : array-like of shape (n_classes,), default=None
        All labels in the order of the columns of each score, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    weights_ : dict of str to float
        Weight :math:`b_m` of each score. Equal weights are ``1 / n_scores``. A weight may be
        negative, and a sum above one says that the scores are not copies of one another.
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
    alpha_ : float
        Strength of the ridge penalty.
    smoothing_ : float
        Share of the uniform distribution in the probabilities: :math:`1 / (N + 1)^2` for N rows,
        since the calibrators of the scores are smoothed themselves, or 0 for a single score.
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the columns of each score.
    n_features_in_ : int
        Number of columns of ``X`` seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Names of the columns, where ``X`` had string names.

    Warns
    -----
    UserWarning
        If rows have no score; if the fit of a score warns, with the scores concerned; and if ``X``
        probably holds probabilities.

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

    *Ridge.* The strength is chosen by the out-of-fold log loss with a log-normal prior about 2.

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
    >>> {name: round(weight, 1) for name, weight in fusion.weights_.items()}
    {'score 0': 0.7, 'score 1': 0.4}
    """

    weights_: dict[str, float]
    loss_report_: dict[str, float]
    leave_one_out_: dict[str, float]
    calibrators_: list[Any]
    score_names_: list[str]
    base_rates_: Floats
    intercept_: Floats
    covariance_: Floats
    imputed_slopes_: Floats
    missing_offsets_: Floats
    alpha_: float
    smoothing_: float
    classes_: Array
    n_features_in_: int

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
            columns of a score, if the rows that have a score are of one class, for Dask
            collections, and as for other calibrators. The calibrator is then unchanged.
        """
        check_not_swapped(y=y, X=X)
        matrix = as_matrix(X, self)
        names = name_scores(column_names(matrix), self.n_scores, matrix.shape[1])
        labels = as_labels(y, warns=True)
        check_consistent_length(matrix, labels)
        if self.calibrator is not None:
            check_calibrator(self.calibrator, None)
        w = check_weights(sample_weight, len(labels))
        by = None if groups is None else check_groups(matrix, groups)
        Z = as_floats(matrix, "X", estimator=type(self).__name__)
        Z, has = split_scores(Z, len(names), method="fit")
        kept = np.arange(len(labels)) if w is None else np.flatnonzero(w)

        # Find the classes, and the base rates.
        present, categories = distinct_labels(labels[kept]), ordered_categories(y)
        if len(present) < 2:
            raise ValueError(f"y must hold at least two classes, got one class only: {present}.")
        classes = resolve_classes(present, Z.shape[2], self.classes, categories=categories)
        check_class_names(column_names(matrix), len(names), classes)
        if self.calibrator is not None:
            check_order(self.calibrator, classes)
        scores = Scores(Z, has, encode(labels, classes), w, by).take(kept)
        splits = make_splits(self.cv, self.random_state, labels, kept, by)
        fitted = self._fit(scores, splits, names, classes)
        validate_data(self, matrix, skip_check_array=True)
        for name, value in fitted.items():
            setattr(self, name, value)
        return self

    def _fit(
        self, scores: Scores, splits: list[Any], names: list[str], classes: Array
    ) -> dict[str, Any]:
        """Return fitted attributes."""
        w = np.ones(len(scores.y)) if scores.w is None else scores.w
        weight, n_classes = float(w.sum()), len(classes)
        share = 1 / (weight + 1)
        counts = np.bincount(scores.y, w, n_classes)
        log_rates = np.log((1 - share) * counts / weight + share / n_classes)

        # Calibrate each score alone, on all rows and across folds.
        calibrators, messages = [], {}
        for m, name in enumerate(names):
            with recorded(ProbabilitiesWarning) as messages[m]:
                calibrators.append(fit_score(self.calibrator, scores, m, classes))
            if calibrators[m] is None:
                raise ValueError(
                    "Rows that have a score must be of at least two classes, got "
                    f"{np.count_nonzero(scores.has[:, m])} rows with {name!r}. Leave it out."
                )
        E = np.full((len(scores.y), len(names), n_classes), np.nan)
        base = np.tile(log_rates, (len(scores.y), 1))
        rows, fold, _ = first_tests(splits)
        for number, (train, _) in enumerate(splits):
            test, part = rows[fold == number], scores.take(train)
            with recorded():
                fits = [fit_score(self.calibrator, part, m, classes) for m in range(len(names))]
            E[test], base[test] = evidence_of(
                fits, scores.Z[test], scores.has[test], classes, log_rates
            )

        # Weigh the out-of-fold evidence.
        weighed = weigh(E[rows], base[rows], scores.y[rows], w[rows], fold)
        warn_of_groups("Score", np.array(names), messages)
        warn_of_small_weights(weight, len(scores.y))
        report = dict(zip(names, weighed.alone, strict=True))
        return {
            "classes_": classes,
            "score_names_": names,
            "calibrators_": calibrators,
            "base_rates_": np.exp(log_rates),
            "weights_": dict(zip(names, weighed.pool.weights.tolist(), strict=True)),
            "intercept_": weighed.pool.intercept,
            "imputed_slopes_": weighed.pool.slopes,
            "missing_offsets_": weighed.pool.offsets,
            "covariance_": weighed.covariance,
            "alpha_": weighed.alpha,
            "smoothing_": share**2 if len(names) > 1 else 0.0,  # scores are smoothed themselves
            "loss_report_": report | {"mean": weighed.mean, "fusion": weighed.fused},
            "leave_one_out_": dict(zip(names, weighed.without, strict=True)),
        }

    def transform(self, X: ArrayLike) -> Floats:
        """Calibrated logits.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_scores * n_classes) or (n_samples, n_scores)
            Scores, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Logarithms of the fused probabilities: one column per class, also for two classes.
            float32 for float32 scores, else float64. For a tensor a tensor, as in all outputs.
        """
        return as_kind_of(self._log_probabilities(X), X)

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Logarithm of the fused probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_scores * n_classes) or (n_samples, n_scores)
            Scores, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            One column per class in the order of ``classes_``.
        """
        return as_kind_of(self._log_probabilities(X), X)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Fused probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_scores * n_classes) or (n_samples, n_scores)
            Scores, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            One column per class in the order of ``classes_``.
        """
        return as_kind_of(np.exp(self._log_probabilities(X)), X)

    def predict(self, X: ArrayLike) -> Array:
        """The most probable class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_scores * n_classes) or (n_samples, n_scores)
            Scores, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Members of ``classes_``.
        """
        L = as_kind_of(self._log_probabilities(X), X)
        return labels_of(self.classes_, L)

    def _log_probabilities(self, X: Any) -> Floats:
        """Return the logarithms (n, K) of the probabilities for checked scores."""
        check_fitted(self)
        matrix = as_matrix(X, self, self.n_features_in_)
        check_class_names(column_names(matrix), len(self.score_names_), self.classes_)
        Z = logits_for(self, matrix)
        Z, has = split_scores(Z, len(self.score_names_), method="predictions")
        weights = np.array([*self.weights_.values()])
        pool = Pool(weights, self.intercept_, self.imputed_slopes_, self.missing_offsets_)
        log_rates = np.log(self.base_rates_)
        out, n_rows = [], max(1, BLOCK // (len(weights) * len(self.classes_)))
        for start in range(0, max(len(Z), 1), n_rows):
            rows = slice(start, start + n_rows)
            E, base = evidence_of(self.calibrators_, Z[rows], has[rows], self.classes_, log_rates)
            evidence = Evidence(impute(E, self.covariance_), ~has[rows], base)
            out.append(log_softmax(pooled(pool, evidence), axis=1))
        L = np.concatenate(out)
        if self.smoothing_:
            L = log_softmax(arrays.mix_logits(L, self.smoothing_), axis=1)
        return L.astype(Z.dtype)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> Array:  # noqa: ARG002
        """Names of the columns of logits, ``logit_`` and the label.

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
