"""The default calibrator: a mixture of candidates, weighted by cross-validation."""

from collections.abc import Mapping, Sequence
from html import escape
from numbers import Integral
from operator import attrgetter
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.metaestimators import available_if

from skcalib._base import BaseCalibrator
from skcalib._nested import check_calibrator, check_order, log_probabilities
from skcalib._optimize.mixture import mixture
from skcalib._optimize.online import updated_weights
from skcalib._rows import ArrayLike, Floats, Rows, arrays as xa, as_array, check_in_memory
from skcalib._splits import Split, checked_splits, in_groups
from skcalib._validation.inputs import check_integer, check_option, check_real, check_weights
from skcalib._validation.labels import as_labels
from skcalib._warnings import give

from . import _stacking as stacking
from ._candidates import SIMPLE, by_name, default_candidates, taking_masked


class AutoCalibrator(BaseCalibrator):
    r"""The default calibrator: candidates weighted by cross-validated log loss.

    Candidates :math:`m`, from the logits as they are to temperature, order-preserving, vector and
    matrix scaling at several strengths and gradient boosting, are fitted across folds of the
    calibration rows. Their mixture

    .. math:: \hat p(y = k \mid z) = \sum_m \pi_m\, q_m(y = k \mid z)

    has the weights :math:`\pi` on the simplex that minimise the out-of-fold log loss; candidates
    of negligible weight are left out and the others fitted to all rows. Nothing has to be chosen,
    and the result is better than the best candidate more often than not.

    Parameters
    ----------
    calibrators : dict of str to calibrator or list of calibrators, default=None
        The candidates, by name. The first one should be the simplest, which weights are shrunk
        towards where rows are few. None stands for those in the Notes.
    cv : int, splitter or iterable of splits, default=5
        How to split the calibration rows. An integer is the number of random folds, or of folds of
        groups where ``fit`` is given ``groups``. Many rows of Dask are halved: see the Notes.
    combine : {"stack", "best"}, default="stack"
        Whether to mix the candidates, or to take the one of lowest out-of-fold log loss.
    forget : float, default=0.0
        Share of the weight that :meth:`partial_fit` spreads evenly over all experts after each row,
        at least 0 and below 1, against drift. One over the number of rows between two changes of
        the best expert is a good choice; with 0 no row is ever forgotten.
    n_jobs : int, default=None
        Number of fits at once.
    random_state : int, RandomState instance or None, default=None
        Shuffles the rows into folds. With None they are the same at every fit.
    classes : array-like of shape (n_classes,), default=None
        All labels in the order of the columns of ``X``, as for :class:`TemperatureScaling`.
    verbose : bool, default=False
        Whether to print a line for each fit, with its seconds, and one for each candidate.

    Attributes
    ----------
    weights_ : dict of str to float
        The weight of each candidate, 0 for those that are left out; in a stream after ``fit`` as
        it was fitted.
    calibrators_ : dict of str to calibrator
        The candidates of positive weight, fitted to all rows.
    cv_log_loss_ : dict of str to float
        Mean out-of-fold log loss of each candidate in nats; empty without cross-validation. Of
        candidates that are left out after the first fold, or after a sample of many rows of Dask,
        it is that of this fold or sample.
    cv_log_loss_error_ : dict of str to float
        Standard errors of these.
    components_ : list of calibrators
        What is mixed: ``calibrators_``, or from 2000 rows on the average of the linear maps among
        them, which is one linear map, and the other calibrators.
    component_weights_ : ndarray of shape (n_components,)
        Their weights.
    experts_ : ndarray of shape (n_experts, n_components)
        What :meth:`partial_fit` weighs, as mixtures of the components: the one that was fitted, if
        :meth:`fit` was called, and ``calibrators_`` from the first batch on.
    expert_weights_ : ndarray of shape (n_experts,)
        Their weights.
    smoothing_ : float
        Share of the uniform distribution that the mixture is mixed with, for N rows
        :math:`1 / (N + 1)`, or after :meth:`fit` its square for the default candidates, of which
        all but the uncalibrated logits are mixed with it themselves.
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the columns.
    n_features_in_ : int
        Number of columns of ``X`` seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Names of the columns, where ``X`` had string names.

    Warns
    -----
    UserWarning
        If a candidate fails on a fold, and is left out; if a class has so few rows, or groups, that
        fewer folds, or none, are possible; and as for :class:`TemperatureScaling`.

    Notes
    -----
    *Candidates.* Temperature scaling, mixed with the uniform distribution; the uncalibrated
    logits; the uniform distribution; :class:`OrderPreservingScaling`; :class:`VectorScaling` with
    ``alpha`` 1 and 0.1; :class:`MatrixScaling` with ``alpha`` 10, 1, 0.1, 0.01 and 0.003, or 3,
    0.3 and 0.03 for more than 256 classes, none where classes are masked; for two classes
    :class:`SplineCalibration` and centred :class:`IsotonicCalibration`; and
    :class:`EstimatorCalibration` with gradient boosting for up to 20 classes, for two from 400 rows
    on, and with 50 extra trees for 3 to 20 classes.

    *Weights* have a Dirichlet prior, as if there were more rows whose label a single candidate
    gives a positive probability: a tenth of one for each candidate but the uniform distribution,
    and :math:`\min(K - 1, 2)` for temperature scaling and the uncalibrated logits, which share
    them in proportion to their out-of-fold likelihoods. Of other candidates it is the first one
    that has them. The prior was learned from the outputs of 280 classifiers on 40 data sets with
    up to 520 rows. Weights below 0.01, those of classifiers below 0.05, are set to 0.

    From 2000 rows on, linear maps of the same log-probabilities are averaged as scores, and
    weighted together in a second step, since their average costs no more than one of them; other
    candidates are then left out unless they lower the out-of-fold log loss by more than 0.05 per
    cent. Of fewer rows the average is too sure, and the maps are mixed as probabilities.

    *Folds* are random and not stratified: with stratified ones, classes are exactly as frequent
    in the test rows as in the training rows, and the offsets of many classes would seem to help.
    Neither the order of the rows nor that of the classes changes them, below 50 000 rows.

    *Screening.* If a fold has 500 rows or more, those of these candidates that have a weight below
    0.01 in the best mixture on the first fold, linear maps and classifiers below 0.05, are not
    fitted on the others.

    *Many rows.* From 50 000 rows in memory on, weights come from 25 000 of them, or as many as hold
    500 of the rarest class, up to a million logits, the same at every fit, if ``cv`` is an integer
    and there are no groups. Candidates are then fitted to all rows.

    *Dask.* Row-chunked collections of up to 100 000 rows and 8 million logits are gathered. Of
    more, whatever the number ``cv``, there are two folds, halves of the rows at random that do not
    depend on the chunks: each half, on the workers, is fitted to and tested on the other one, so
    that weights come from all rows out of fold. A half has more rows than training folds in memory,
    and two folds cost one fit to all rows. A sample of up to 100 000 rows is all that is gathered:
    candidates that have little weight on a fifth of it, as in *Screening*, are not fitted to the
    halves, and classifiers and candidates that are not of this package are fitted to samples, of
    the halves and of all rows. Fits use all workers, one after the other, whatever ``n_jobs``.

    With scikit-learn's ``array_api_dispatch``, tensors are fitted and calibrated on the host, and
    outputs are tensors like ``X``.

    References
    ----------
    .. [1] Wolpert, "Stacked Generalization", Neural Networks 5, 1992.
    .. [2] van der Laan, Polley, Hubbard, "Super Learner", Statistical Applications in Genetics
       and Molecular Biology 6, 2007.
    .. [3] Herbster, Warmuth, "Tracking the Best Expert", Machine Learning 32, 1998.

    Examples
    --------
    >>> from skcalib import AutoCalibrator
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(600, 4, temperature=2.0, random_state=0)
    >>> calibrator = AutoCalibrator().fit(logits[:400], y[:400])
    >>> calibrator.predict_proba(logits[400:]).shape
    (200, 4)
    >>> len(calibrator.cv_log_loss_)
    13
    """

    weights_: dict[str, float]
    calibrators_: dict[str, Any]
    cv_log_loss_: dict[str, float]
    cv_log_loss_error_: dict[str, float]
    components_: list[Any]
    component_weights_: Floats
    smoothing_: float
    experts_: Floats
    expert_weights_: Floats

    # Outputs of a classifier are made of large blocks, since each call has a cost of its own.
    _rows_at_least = 1 << 12
    _takes_batches = True

    def __init__(
        self,
        calibrators: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        cv: Any = 5,
        combine: Literal["stack", "best"] = "stack",
        forget: float = 0.0,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        classes: ArrayLike | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(classes=classes)
        self.calibrators = calibrators
        self.cv = cv
        self.combine = combine
        self.forget = forget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the candidates and their weights to held-out logits and labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits of held-out rows, as for :class:`TemperatureScaling`.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 2 is the row twice, up to the folds, a weight of 0 the row absent.
        groups : array-like of shape (n_samples,), optional
            Groups of rows, which are not split between folds.

        Returns
        -------
        self : object
            The fitted calibrator.

        Raises
        ------
        ValueError
            For invalid parameters, candidates that are no calibrators or take no weights where
            there are some, and as other calibrators. The calibrator is then unchanged.
        """
        X, rows, splits = self._checked_splits(X, y, sample_weight, groups)
        return self._stored(X, rows.classes, self._fit_across(rows, splits))

    @available_if(attrgetter("_takes_batches"))  # type: ignore[untyped-decorator]
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        classes: ArrayLike | None = None,
    ) -> Self:
        r"""Update the weights of fitted candidates by the labelled rows of a batch, in their order.

        Each expert e, a fitted candidate that stays as it is, gives the label of a row the
        probability :math:`p_e`, mixed with ``smoothing_`` of the uniform distribution. Its weight
        :math:`v_e` becomes

        .. math:: v_e \leftarrow (1 - \alpha) \frac{v_e p_e}{\sum_j v_j p_j}
            + \frac{\alpha}{E}

        with E experts and :math:`\alpha` = ``forget``. Let each row be predicted before its
        label is known, with those of all rows before it. Whatever T rows and their order, the total
        log loss is above that of any sequence of experts that begins with e and changes S times by
        at most

        .. math:: \ln \frac{1}{v_e} + S \ln \frac{E}{\alpha}
            + (T - 1 - S) \ln \frac{1}{1 - \alpha + \alpha / E}

        with the weight :math:`v_e` at the beginning; with ``forget=0`` above that of the expert e
        by at most :math:`\ln (1 / v_e)`.

        The first call without a fit before fits all candidates to its batch, without
        cross-validation, and gives them equal weights: in all later rows the loss is at most
        :math:`\ln M` above that of the best of M candidates, of which there are 13 by default for 3
        to 20 classes. After :meth:`fit` half of the weight is on the mixture that it found, and the
        other half spread evenly over the M' candidates in ``calibrators_``: the loss is at most
        :math:`\ln 2` above that of the calibrator as it was fitted, and :math:`\ln 2M'` above that
        of the best of these, but for the first batch, which is predicted before there are weights.
        Candidates that ``fit`` left out are not among them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits, in memory.
        y : array-like of shape (n_samples,)
            Labels, which may all be equal where the calibrator is fitted.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 2 is the row twice, up to 1000 times, a weight of 0 the row absent.
        classes : array-like of shape (n_classes,), optional
            All labels, as the parameter of this name, for the first batch.

        Returns
        -------
        self : object
            The calibrator. It is the same for one batch or its rows one by one.

        Raises
        ------
        ValueError
            As :meth:`fit`, for other columns or labels than those before, and for rows that are not
            in memory. The calibrator is then unchanged.

        Examples
        --------
        >>> from skcalib import AutoCalibrator
        >>> from skcalib.datasets import make_logits
        >>> logits, y = make_logits(1000, 4, temperature=2.0, random_state=0)
        >>> calibrator = AutoCalibrator().partial_fit(logits[:400], y[:400])
        >>> len(calibrator.expert_weights_)
        13
        >>> calibrator = calibrator.partial_fit(logits[400:], y[400:])
        >>> max(calibrator.weights_, key=calibrator.weights_.get)
        'temperature'
        """
        check_real("forget", self.forget, high=1, closed=True)
        X, checked = self._checked_batch(X, y, sample_weight, classes)
        if "classes_" not in vars(self):
            return self._stored(X, checked.classes, self._all_kept(checked))
        rows: Any = checked.in_memory()
        parts, experts, weights = self._experts()
        L = np.stack(
            [stacking.log_of_labels(part, rows, self.smoothing_) for part in parts], axis=1
        )
        weights = updated_weights(weights, np.exp(L) @ experts.T, rows.w, self.forget)
        self.components_, self.experts_, self.expert_weights_ = parts, experts, weights
        self.component_weights_ = weights @ experts
        if len(weights) == len(self.calibrators_):  # all candidates
            self.weights_ = dict(zip(self.weights_, weights.tolist(), strict=True))
        return self

    def _experts(self) -> tuple[list[Any], Floats, Floats]:
        """What is mixed, experts as mixtures of it, and their weights at the beginning of a batch.

        After ``fit`` half of the weight is on what it found, the other on the candidates it kept.
        """
        parts, experts = self.components_, self.experts_
        if len(self.expert_weights_) > 1:
            return parts, experts, self.expert_weights_
        kept = [*self.calibrators_.values()]
        parts = [*parts, *(c for c in kept if not any(c is part for part in parts))]
        places = [next(i for i, part in enumerate(parts) if part is c) for c in kept]
        fitted = np.pad(experts, [(0, 0), (0, len(parts) - experts.shape[1])])
        weights = np.append(0.5, np.full(len(kept), 0.5 / len(kept)))
        return parts, np.vstack([fitted, np.eye(len(parts))[places]]), weights

    def _checked_splits(
        self, X: Any, y: Any, sample_weight: Any, groups: Any
    ) -> tuple[Any, Rows, list[Split] | None]:
        """Logits, checked rows with their groups, and splits unless ``cv`` is an integer."""
        check_real("forget", self.forget, high=1, closed=True)
        check_option("combine", self.combine, ["stack", "best"])
        if isinstance(self.cv, Integral):
            check_integer("cv", self.cv, least=2)
        if self.calibrators is not None:
            for candidate in by_name(self.calibrators).values():
                check_calibrator(candidate, None)
        X = as_array(X)
        rows = self._checked(X, y, sample_weight)
        if groups is not None or not isinstance(self.cv, Integral):
            check_in_memory([X])
        rows = in_groups(rows, X, groups, sample_weight)
        is_number = isinstance(self.cv, Integral)
        splits = None if is_number else self._given_splits(X, y, sample_weight, groups)
        return X, rows, splits

    def _given_splits(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> list[Split]:
        """Splits by a splitter, as numbers of the rows of positive weight."""
        labels = column_or_1d(as_labels(y))
        w = check_weights(sample_weight, len(labels))
        splits = checked_splits(self.cv, X, labels, w, groups=groups)
        if w is None:
            return splits
        number = np.cumsum(w > 0) - 1
        return [Split(*(number[part[w[part] > 0]] for part in split)) for split in splits]

    def _fit(self, rows: Rows) -> dict[str, Any]:
        return self._fit_across(rows, None)

    def _fit_across(self, rows: Rows, splits: list[Split] | None) -> dict[str, Any]:
        """Fitted attributes, with weights from the splits or, without any, from random folds."""
        return self._cross_fitted(rows, splits)[0]

    def _cross_fitted(
        self, rows: Rows, splits: list[Split] | None
    ) -> tuple[dict[str, Any], stacking.Weighed, list[stacking.Fold]]:
        """The same, with what cross-validation says and with the fits of the folds."""
        # The default candidates are mixed with the uniform distribution themselves, all but one.
        smoothing = 1 / (rows.weight + 1) ** (2 if self.calibrators is None else 1)
        candidates = self._candidates(rows)
        found, of_folds = self._weighed(candidates, rows, splits, smoothing)
        if self.verbose:
            for name, loss in found.losses.items():
                print(f"{name}: log loss {loss:.4f}, weight {found.weights[name]:.3f}", flush=True)
        kept = {name: candidates[name] for name, weight in found.weights.items() if weight > 0}
        return self._fitted_to_all(kept, rows, found, smoothing), found, of_folds

    def _fitted_to_all(
        self, candidates: dict[str, Any], rows: Rows, found: stacking.Weighed, smoothing: float
    ) -> dict[str, Any]:
        """Fitted attributes, with candidates fitted to all rows and their weights."""
        fitted, messages, errors = stacking.fit_all(
            candidates, rows, "All rows" if self.verbose else ""
        )
        for name, error in errors.items():
            error.add_note(f"Candidate {name!r} failed on all rows.")
            raise error
        give(messages.items(), ", ".join)
        fitted = {name: fitted[name] for name in candidates}
        parts, weights = stacking.components(fitted, found)
        return {
            "weights_": found.weights,
            "calibrators_": fitted,
            "cv_log_loss_": found.losses,
            "cv_log_loss_error_": found.errors,
            "components_": parts,
            "component_weights_": weights,
            "smoothing_": smoothing,
            "experts_": weights[None],
            "expert_weights_": np.ones(1),
        }

    def _all_kept(self, rows: Rows) -> dict[str, Any]:
        """Fitted attributes of all candidates, of equal weight: the experts of a stream."""
        if len(np.unique(rows.y)) == 1:
            raise ValueError(
                "The first batch, which candidates are fitted to, must hold at least two classes, "
                "got one class only. Begin with more rows, or with fit."
            )
        candidates = self._candidates(rows)
        equal = stacking.Weighed(dict.fromkeys(candidates, 1 / len(candidates)), {}, {}, [])
        fitted = self._fitted_to_all(candidates, rows, equal, 1 / (rows.weight + 1))
        experts = {
            "experts_": np.eye(len(candidates)),
            "expert_weights_": fitted["component_weights_"],
        }
        return fitted | experts

    def _candidates(self, rows: Rows) -> dict[str, Any]:
        """The candidates by name."""
        if self.calibrators is None:
            return dict(default_candidates(rows.n_rows, len(rows.classes), masked=rows.masked))
        candidates = by_name(self.calibrators)
        for candidate in candidates.values():
            check_calibrator(candidate, rows.w)
            check_order(candidate, rows.classes)
        return taking_masked(candidates) if rows.masked else candidates

    def _weighed(
        self, candidates: dict[str, Any], rows: Rows, splits: list[Split] | None, smoothing: float
    ) -> tuple[stacking.Weighed, list[stacking.Fold]]:
        """The weight of each candidate; all on the first one if there can be no folds."""
        simple: tuple[str, ...] = SIMPLE if self.calibrators is None else ()
        verbose = bool(self.verbose)
        sample: Any = rows
        if splits is None and len(candidates) == 1:
            splits = []
        elif splits is None:
            if rows.n_parts > 1:
                how = self.combine, smoothing, self.random_state
                found = stacking.weighed_in_halves(
                    candidates, rows, *how, simple=simple, verbose=verbose
                )
                return found, []
            if rows.groups is None:
                sample = stacking.in_canonical_order(stacking.rows_to_weigh_on(rows.in_memory()))
            splits = stacking.folds(sample.y, sample.groups, int(self.cv), self.random_state)
        if not splits:
            first = next(iter(candidates))
            return stacking.Weighed(
                {name: float(name == first) for name in candidates}, {}, {}, []
            ), []
        of_folds = stacking.out_of_fold(
            candidates, sample, splits, smoothing, self.n_jobs,
            screened=bool(simple), verbose=verbose,
        )  # fmt: skip
        names = list(of_folds[-1].L)  # the first fold may have others
        in_rows = [fold.of(names) for fold in of_folds]
        screen = of_folds[0] if simple else None
        return stacking.weighed(in_rows, names, self.combine, smoothing, simple, screen), of_folds

    def _unmixed(self, Z: Floats) -> Floats:
        parts = [log_probabilities(part, Z, self.classes_) for part in self.components_]
        L = mixture(xa.namespace(Z).stack(parts), self.component_weights_)
        return xa.in_columns_of(Z, L)

    def _calibrate(self, Z: Floats) -> Floats:
        return self._unmixed(Z)

    def _summary(self) -> str:
        """What the mixture consists of, in a line."""
        weights = self.weights_
        if len(self.expert_weights_) > len(self.calibrators_):  # in a stream after fit
            names = ["as fitted", *self.calibrators_]
            weights = dict(zip(names, self.expert_weights_.tolist(), strict=True))
        kept = sorted(weights.items(), key=lambda item: -item[1])
        return ", ".join(f"{name}: {weight:.2f}" for name, weight in kept if weight >= 0.005)

    def __str__(self) -> str:
        chosen = f"\n{self._summary()}" if hasattr(self, "weights_") else ""
        return f"{self!r}{chosen}"

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        found: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        found["text/plain"] = str(self)
        if hasattr(self, "weights_") and "text/html" in found:
            found["text/html"] += f"<p>{escape(self._summary())}</p>"
        return found
