"""The default calibrator: a mixture of candidates, weighted by cross-validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np

from skcalib._fits import inner_logits, log_probabilities
from skcalib._input.arrays import check_in_memory
from skcalib._input.classes import columns_in_order
from skcalib._input.estimators import by_name, check_calibrator, check_order, taking_masked
from skcalib._input.groups import in_groups
from skcalib._input.parameters import check_integer, check_option
from skcalib._input.rows import check_fit
from skcalib._optimize.mixture import mixture, mixture_from_log_odds
from skcalib._rows import Rows, arrays, namespace
from skcalib._scores.columns import margins
from skcalib._splits import forward_splits, given_splits, random_splits
from skcalib._typing import ArrayLike, Floats, Split
from skcalib.base import BaseCalibrator, set_fitted
from skcalib.scaling import Uncalibrated

from ._candidates import SIMPLE, default_candidates
from ._stacking import Stack, stack


class AutoCalibrator(BaseCalibrator):
    r"""The default calibrator: a mixture of candidates, weighted by cross-validated log loss.

    The calibrated probabilities are

    .. math:: \hat p(y = k \mid z) = \mathrm{softmax}_k\Bigl(
        b + \log \sum_m \pi_m\, q_m(y \mid z)\Bigr)

    with candidates :math:`q_m` and weights :math:`\pi` on the simplex that minimize the out-of-fold
    log loss. For two classes an intercept :math:`b` corrects the frequency of the event. Candidates
    with negligible weight are left out, and the others are fitted to all rows.

    Parameters
    ----------
    calibrators : dict of str to calibrator, list of calibrators or "smooth", default=None
        The candidates, by name, the simplest first. None means the candidates in the Notes, and
        "smooth" the same without trees and Venn-Abers predictors. :func:`~skcalib.export.to_json`
        and :func:`~skcalib.export.to_torch` export every mixture of smooth candidates.
    cv : int, "time", splitter or iterable of splits, default=5
        How to split the calibration rows. An integer is the number of random folds, which do not
        split ``groups``. "time" is for rows in time order: five test parts, each with all earlier
        rows as its training part.
    combine : {"stack", "best"}, default="stack"
        Whether to mix the candidates, or to select the candidate with the lowest out-of-fold log
        loss.
    ordered : bool, default=False
        Whether the classes have an order, such as grades. With more than 20 classes
        :class:`OrdinalCalibration` is then a candidate. :class:`VectorScaling` and
        :class:`MatrixScaling` then need 100 rows per class to be candidates.
    order : array-like of shape (n_classes,), default=None
        All labels from the lowest to the highest class, as for :class:`OrdinalCalibration`, with
        ``ordered=True``.
    n_jobs : int, default=None
        Number of folds to fit at once.
    random_state : int, RandomState instance or None, default=None
        Shuffles the rows into folds. With None the folds are the same at every fit.
    classes : array-like of shape (n_classes,), default=None
        All labels in column order, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    weights_ : dict of str to float
        The weights :math:`\pi_m`, 0 for candidates that are left out.
    calibrators_ : dict of str to calibrator
        The candidates with positive weight, fitted to all rows.
    intercept_ : ndarray of shape (n_classes,)
        The intercept :math:`b`; zero for more than two classes, with ``combine="best"``, or without
        folds.
    cv_log_loss_ : dict of str to float
        Mean out-of-fold log losses in nats; empty without folds. For trees that are left out after
        the first fold it is the loss on this fold.
    cv_log_loss_error_ : dict of str to float
        Standard errors of ``cv_log_loss_``, by ``groups`` if ``fit`` gets them.
    smoothing_ : float
        Share of the uniform distribution: :math:`1 / (N + 1)` for N rows, or its square for the
        default candidates, which are smoothed themselves.
    classes_ : ndarray of shape (n_classes,)
        Labels in column order.
    n_features_in_ : int
        Number of columns in ``X`` during ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Column names, if ``X`` had string names.

    Warns
    -----
    UserWarning
        If a candidate fails on a fold, and is left out. If a class has too few rows, or groups, for
        the folds. If ``groups`` are not given, and more than 5 per cent of the rows, with three or
        more columns, equal another row. Also as :class:`TemperatureScaling`.

    See Also
    --------
    OnlineCalibrator : Weights for fitted calibrators that follow a stream of labels.

    Notes
    -----
    *Candidates* are temperature scaling, the uncalibrated logits and the uniform distribution. Two
    classes add :class:`SplineCalibration` and :class:`VennAbersCalibration`, so the mixture is a
    function of the log-odds. More classes add :class:`OrderPreservingScaling`,
    :class:`VectorScaling`, :class:`MatrixScaling` at three strengths, and trees for up to 20
    classes.

    *Prior.* The weights have a Dirichlet prior with 0.3 rows for each default candidate except the
    uniform distribution, or 0.2 rows with more than two classes, where temperature scaling, the
    uncalibrated logits and ordinal calibration share :math:`\min(K - 2, \max(1, 15 K / N))` more
    rows. If you pass ``calibrators``, each has 0.1 rows, and the first
    :math:`\min(K - 1, \max(2, 15 K / N))` more. With ``groups`` the row weights are divided by the
    design effect of the losses [3]_: the number of rows that count as one independent row.

    From 50 000 rows on, weights come from a sample. With Dask, a random sample replaces more rows
    than fit into memory. See :doc:`/guide/default`.

    References
    ----------
    .. [1] Wolpert, "Stacked Generalization", Neural Networks 5, 1992.
    .. [2] van der Laan, Polley, Hubbard, "Super Learner", Statistical Applications in Genetics
       and Molecular Biology 6, 2007.
    .. [3] Kish, "Survey Sampling", Wiley 1965.

    Examples
    --------
    >>> from skcalib import AutoCalibrator
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(600, 4, temperature=2.0, random_state=0)
    >>> calibrator = AutoCalibrator().fit(logits[:400], y[:400])
    >>> calibrator.predict_proba(logits[400:]).shape
    (200, 4)
    >>> len(calibrator.cv_log_loss_)
    10
    """

    weights_: dict[str, float]
    calibrators_: dict[str, Any]
    intercept_: Floats
    cv_log_loss_: dict[str, float]
    cv_log_loss_error_: dict[str, float]
    smoothing_: float

    def __init__(
        self,
        calibrators: Mapping[str, Any] | Sequence[Any] | Literal["smooth"] | None = None,
        *,
        cv: Any = 5,
        combine: Literal["stack", "best"] = "stack",
        ordered: bool = False,
        order: ArrayLike | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        classes: ArrayLike | None = None,
    ) -> None:
        self.classes = classes
        self.calibrators = calibrators
        self.cv = cv
        self.combine = combine
        self.ordered = ordered
        self.order = order
        self.n_jobs = n_jobs
        self.random_state = random_state

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
            A weight of 2 means the row twice, in the same fold. A weight of 0 means that the row is
            absent.
        groups : array-like of shape (n_samples,), optional
            Groups of rows. Folds do not split groups, and rows that depend on others of their
            group count as fewer rows.

        Returns
        -------
        self : object
            The fitted calibrator.

        Raises
        ------
        ValueError
            If parameters are invalid, a candidate is no calibrator or does not accept weights, and
            as for other calibrators. The calibrator is then unchanged.
        """
        X, rows, splits = self._checked_splits(X, y, sample_weight, groups)
        return set_fitted(self, X, rows.classes, fit_stack(self, rows, splits).attributes)

    def _checked_splits(
        self, X: Any, y: Any, sample_weight: Any, groups: Any
    ) -> tuple[Any, Rows, list[Split] | None]:
        """Check the arguments of ``fit``: return logits, rows with groups, and splits.

        Splits are None if ``cv`` is an integer. ``X`` is (n, K), the other arrays are (n,).
        """
        check_option("combine", self.combine, ["stack", "best"])
        if self.order is not None and not self.ordered:
            raise ValueError(
                f"order is for ordered=True, got order={self.order!r} with ordered=False. Pass "
                "both."
            )
        is_number, is_time = isinstance(self.cv, Integral), isinstance(self.cv, str)
        if is_number:
            check_integer("cv", self.cv, low=2)
        if is_time:
            check_option("cv", self.cv, ["time"])
        X, rows = check_fit(self, X, y, sample_weight)
        if not is_number:
            check_in_memory([X])
        rows = in_groups(rows, X, groups, sample_weight)
        if is_number:
            return X, rows, None
        if is_time:
            return X, rows, forward_splits(rows.in_memory())
        return X, rows, given_splits(self.cv, X, y, sample_weight, groups)

    @property
    def _is_default(self) -> bool:
        """Whether the candidates are default candidates, all or the smooth ones."""
        calibrators = self.calibrators
        return calibrators is None or (isinstance(calibrators, str) and calibrators == "smooth")

    def _fit(self, rows: Rows) -> dict[str, Any]:
        return fit_stack(self, rows, None).attributes

    def _candidates(self, rows: Rows) -> dict[str, Any]:
        """Return the default candidates, or check the user's candidates, by name."""
        if self.calibrators is None or self._is_default:
            is_smooth = self.calibrators is not None
            return default_candidates(rows, ordered=self.ordered, smooth=is_smooth)
        candidates = by_name(self.calibrators, Uncalibrated())
        for candidate in candidates.values():
            check_calibrator(candidate, rows.w)
            check_order(candidate, rows.classes)
        return taking_masked(candidates) if rows.masked else candidates

    def _calibrate(self, Z: Floats) -> Floats:
        weights, xp = np.array([self.weights_[name] for name in self.calibrators_]), namespace(Z)
        if self._is_default and len(self.classes_) == 2:
            # The default candidates are maps of the log-odds, and so is their mixture.
            M, members = margins(Z), self.calibrators_.values()
            logits, shares = zip(*(inner_logits(member, M) for member in members), strict=True)
            L = mixture_from_log_odds(xp.stack(logits), weights, np.array(shares))
        else:
            Z = arrays.masked_logits(Z)
            parts = [log_probabilities(c, Z, self.classes_) for c in self.calibrators_.values()]
            L = mixture(xp.stack(parts), weights)
        return arrays.in_columns_of(Z, L + arrays.to_library(self.intercept_, L, L.dtype))

    def _summary(self) -> str:
        """Return the mixture weights in one line."""
        weights = sorted(self.weights_.items(), key=lambda item: -item[1])
        return ", ".join(f"{name}: {weight:.2f}" for name, weight in weights if weight >= 0.005)

    def __str__(self) -> str:
        chosen = f"\n{self._summary()}" if hasattr(self, "weights_") else ""
        return f"{self!r}{chosen}"

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        bundle["text/plain"] = str(self)
        if hasattr(self, "weights_") and "text/html" in bundle:
            bundle["text/html"] += f"<p>{escape(self._summary())}</p>"
        return bundle


def fit_stack(auto: AutoCalibrator, rows: Rows, splits: list[Split] | None) -> Stack:
    """Fit the mixture of a default calibrator to checked rows; None means random splits."""
    if auto.order is not None:
        rows = rows.replace(order=auto.order)
    if auto.ordered:
        columns_in_order(rows.classes, rows.order)
    local = rows.in_memory()  # a sample if Dask has many rows
    candidates, is_default = auto._candidates(local), auto._is_default  # noqa: SLF001
    if splits is None and len(candidates) > 1:
        splits = random_splits(local, int(auto.cv), auto.random_state)
    smoothing = 1 / (local.weight + 1)
    if is_default:  # all default candidates except the uncalibrated logits are smoothed already
        smoothing = 1 / (local.weight + 1) ** 2
    return stack(
        local,
        candidates,
        splits or [],
        simple=SIMPLE if is_default else (),
        smoothing=smoothing,
        combine=auto.combine,
        # The first split in time has too few training rows to evaluate trees.
        screen=is_default and not isinstance(auto.cv, str),
        n_jobs=auto.n_jobs,
    )
