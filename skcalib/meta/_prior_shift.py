"""Move calibrated logits to other class priors, passed or estimated from unlabelled logits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.optimize import minimize
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags

from skcalib._input.arrays import as_array
from skcalib._input.classes import in_class_order, resolve_classes
from skcalib._input.estimators import check_fitted
from skcalib._input.labels import exact, shown
from skcalib._input.logits import are_probabilities
from skcalib._input.predictions import check_new_rows
from skcalib._optimize.minimize import cached_parts
from skcalib._optimize.mixture import MixtureLoss
from skcalib._rows import Rows
from skcalib._rows.arrays import astype, double, log_softmax, softmax, to_library, weighted_sum
from skcalib._typing import Array, ArrayLike, Bools, Floats
from skcalib._warnings import FewRowsWarning, NotConvergedWarning, warn
from skcalib.base import BaseCalibrator, set_fitted

# Lower bounds for calibration priors, and for priors in ratios, so that logarithms are finite.
MIN_PRIOR, MIN_RATIO = 1e-100, float(np.finfo(np.float64).tiny)

# adapt warns if there are fewer unlabelled rows per class.
ROWS_PER_CLASS = 10

# Attributes that adapt adds.
ADAPTED = ("standard_errors_", "n_iter_", "log_likelihood_ratio_")


class _FromRates:
    """Fitted attribute that rates determine, so that ``compute`` returns it without a fit."""

    def __init__(self, compute: Callable[[Any], Any]) -> None:
        self.compute = compute

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, shift: Any, owner: type) -> Any:
        if shift is None:
            raise AttributeError(f"{owner.__name__} has {self.name} after fit only.")
        if vars(shift).get("before") is None:
            raise AttributeError("PriorShift without before must be fitted first.")
        return self.compute(shift)


class PriorShift(BaseCalibrator):
    r"""Shift of calibrated logits to other class priors, passed or estimated without labels.

    A calibrator is right for the class priors of its calibration rows, :math:`\pi`. If classes
    occur with other frequencies :math:`\pi'`, and each class looks as before (*label shift*),
    Bayes' rule yields the probabilities

    .. math:: p'(y = k \mid z) \propto p(y = k \mid z)\, \frac{\pi'_k}{\pi_k} .

    So the logarithm of the ratio is added to the logit of each class. Put it behind a calibrator,
    as in ``make_pipeline(VectorScaling(), PriorShift())``. It does not calibrate by itself.

    Pass the rates of each class before and after, or the new priors. Or let :meth:`adapt` estimate
    the new priors from unlabelled logits of the new population. Otherwise logits do not change.

    Parameters
    ----------
    before : array-like of shape (n_classes,), Series or dict, default=None
        Positive rate of each class in the rows that the logits are right for: sampling fractions,
        class weights, frequencies or numbers of rows. Only ratios between classes matter.
        ``before=[0.1, 1]`` corrects for training with one in ten negatives, and ``before=[1, w]``
        for ``scale_pos_weight=w`` in a boosted classifier. With rates no ``fit`` is needed, and
        ``fit`` reads only the classes in ``y``. A list or an array is in column order;
        a Series or a dict names the classes.
    after : array-like of shape (n_classes,), Series or dict, default=None
        Non-negative rate of each class in the new rows. By default 1 for each class.
    priors : array-like of shape (n_classes,), Series or dict, default=None
        New class priors, ordered as ``classes_`` or by name. A class with a prior of 0 has
        probability 0, up to rounding: its logit falls by about 700. None means the priors of the
        calibration rows. Not together with ``before``.
    classes : array-like of shape (n_classes,), default=None
        All labels in column order, as for :class:`TemperatureScaling`.
        Classes without calibration rows must have a prior of 0. With ``before`` and without
        ``fit``, None means 0, 1, ...

    Attributes
    ----------
    log_ratios_ : ndarray of shape (n_classes,)
        Additions to the logits: :math:`\log(\pi'_k / \pi_k)`. With rates, the priors are ``after``
        and ``before``, both divided by their sums. The smallest normal number replaces a prior of
        0.
    priors_ : ndarray of shape (n_classes,)
        Class priors :math:`\pi'` after the shift; not with ``before``.
    calibration_priors_ : ndarray of shape (n_classes,)
        Class priors :math:`\pi`: the mean probabilities of the calibration rows; not with
        ``before``.
    label_weights_ : ndarray of shape (n_classes,)
        Weight of the calibration rows per class; not with ``before``.
    standard_errors_ : ndarray of shape (n_classes,)
        Standard errors of ``priors_``, after :meth:`adapt`.
    n_iter_ : int
        Number of passes over the unlabelled rows, after :meth:`adapt`.
    log_likelihood_ratio_ : float
        Log-likelihood with the estimated priors minus the log-likelihood with the calibration
        priors, for the unlabelled rows, after :meth:`adapt`.
    classes_ : ndarray of shape (n_classes,)
        Labels in column order.
    n_features_in_ : int
        Number of columns in ``X`` during ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Column names, if ``X`` had string names.

    Warns
    -----
    UserWarning
        If there are fewer than ten unlabelled rows per class. As for :class:`TemperatureScaling`.
    ConvergenceWarning
        If the search for the priors does not converge.

    See Also
    --------
    VectorScaling : Offsets from labelled rows in the new population.

    Notes
    -----
    Calibration priors are mean probabilities, not frequencies of labels [2]_. :meth:`adapt`
    maximizes the log-likelihood of the unlabelled rows,
    :math:`\sum_i w_i \log \sum_k \pi'_k\, p_{ik} / \pi_k`, which is concave; EM [1]_ converges to
    the same maximum. One pseudo-row, which the calibration priors divide among the classes, makes
    every prior positive. Standard errors come from the observed information and the number of
    calibration rows; they ignore calibration errors. Weights count rows.

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

    classes_: Any = _FromRates(lambda shift: shift._rate_classes())  # noqa: SLF001
    n_features_in_: Any = _FromRates(lambda shift: len(shift.classes_))
    log_ratios_: Any = _FromRates(
        lambda shift: shift._rate_log_ratios(shift.classes_)  # noqa: SLF001
    )
    priors_: Floats
    calibration_priors_: Floats
    label_weights_: Floats
    standard_errors_: Floats
    n_iter_: int
    log_likelihood_ratio_: float

    def __init__(
        self,
        *,
        before: ArrayLike | Mapping[Any, float] | None = None,
        after: ArrayLike | Mapping[Any, float] | None = None,
        priors: ArrayLike | Mapping[Any, float] | None = None,
        classes: ArrayLike | None = None,
    ) -> None:
        self.classes = classes
        self.before = before
        self.after = after
        self.priors = priors

    def _fit(self, rows: Rows) -> dict[str, Any]:
        if self.before is not None or self.after is not None:
            return {"log_ratios_": self._rate_log_ratios(rows.classes)}
        n_classes = max(rows.n_columns, 2)
        labels = rows.sum(lambda Z, y, w: np.bincount(y, w, n_classes).astype(np.float64))
        sums = rows.sum(lambda Z, y, w: weighted_sum(softmax(Z).astype(np.float64), w))
        before = np.maximum(sums / rows.weight, MIN_PRIOR)
        priors = before
        if self.priors is not None:
            named = in_class_order(self.priors, rows.classes, "priors")
            priors = _check_priors(named, labels > 0)
        return {
            "calibration_priors_": before,
            "label_weights_": labels,
            **_moved(before, priors),
        }

    def _rate_log_ratios(self, classes: Array) -> Floats:
        """Return the additions (n_classes,) to the logits for the rates before and after."""
        if self.before is None:
            raise ValueError(
                "after needs before, the rates in the rows that the logits are right for, got "
                f"after={self.after!r:.80} alone. Pass before as well, or the new priors as priors."
            )
        if self.priors is not None:
            raise ValueError(
                "priors must be None with before, which the new priors follow from, got "
                f"before={self.before!r:.80} and priors={self.priors!r:.80}. Pass before and "
                "after, or priors alone."
            )
        old = _checked_rates("before", self.before, classes, above=True)
        new: Floats = np.ones(len(old))
        if self.after is not None:
            new = _checked_rates("after", self.after, classes, above=False)
        return _log_ratios(old / old.sum(), new / new.sum())

    def _rate_classes(self) -> Array:
        """Return the classes without a fit, from ``classes`` or the number of rates."""
        rates: Any = self.before
        # Values that are not lists, such as 0.1, are refused later.
        n_classes = max(len(rates), 2) if hasattr(rates, "__len__") else 2
        present = np.arange(n_classes) if self.classes is None else exact(self.classes, "classes")
        return resolve_classes(present, n_classes, self.classes)

    def _fitted_for(self, X: Any) -> Self:
        if self.before is None or "n_features_in_" in vars(self):
            return super()._fitted_for(X)
        X, classes, ratios = as_array(X, tensors=True), self.classes_, self.log_ratios_
        if X.shape[1] not in ({1, 2} if len(classes) == 2 else {len(classes)}):
            raise ValueError(
                f"X must have a column for each of the {len(classes)} rates in before, or one for "
                f"two rates, got {X.shape[1]}. Pass a rate for each class."
            )
        return set_fitted(copy(self), X, classes, {"log_ratios_": ratios})

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> Array:
        """Return the column names, as for other calibrators.

        Parameters
        ----------
        input_features : array-like of shape (n_columns,), default=None
            Column names of ``X``.

        Returns
        -------
        ndarray of shape (n_columns,)
            The same names, or x0, x1, ... if the columns have no names.

        Raises
        ------
        NotFittedError
            Before :meth:`fit`, also with ``before``: two classes have one or two columns.
        """
        if "n_features_in_" not in vars(self):  # the words that set_output recognizes
            raise NotFittedError("PriorShift does not provide get_feature_names_out before fit.")
        names: Array = super().get_feature_names_out(input_features)
        return names

    def __getstate__(self) -> dict[str, Any]:
        named = {
            name: dict(values.items())
            for name, values in vars(self).items()
            if name in ("before", "after", "priors") and hasattr(values, "items")
        }
        return super().__getstate__() | named  # a Series would be stored without its names

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = self.before is None
        return tags

    def adapt(self, X: ArrayLike, *, sample_weight: ArrayLike | None = None) -> Self:
        """Estimate the class priors of a new population from its logits, without labels.

        Pass calibrated logits: for a pipeline,
        ``pipeline[-1].adapt(pipeline[:-1].transform(X))``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Calibrated logits, as in :meth:`fit`.
        sample_weight : array-like of shape (n_samples,), optional
            Weight 2 equals the row twice, weight 0 equals the row left out.

        Returns
        -------
        self : object
            The transformer. Its new ``priors_`` replace the priors that were passed.

        Raises
        ------
        ValueError
            If the logits or the weights are invalid, or for a shift between rates (``before``). The
            transformer is then unchanged.
        sklearn.exceptions.NotFittedError
            Before :meth:`fit`.
        """
        if self.before is not None:
            raise ValueError(
                "adapt estimates priors in place of rates, got a shift with "
                f"before={self.before!r:.80}. Use PriorShift() without before, and fit it first."
            )
        check_fitted(self)
        rows = check_new_rows(self, X, sample_weight)
        estimate = most_likely_priors(rows, self.calibration_priors_, self.label_weights_)
        _warn_about_estimate(estimate, rows.weight, int(np.count_nonzero(self.label_weights_)))
        errors, ratio = estimate.standard_errors, estimate.log_likelihood_ratio
        adapted = dict(zip(ADAPTED, (errors, estimate.n_passes, ratio), strict=True))
        for name, value in {**_moved(self.calibration_priors_, estimate.priors), **adapted}.items():
            setattr(self, name, value)
        return self

    def _calibrate(self, Z: Floats) -> Floats:
        ratios = astype(to_library(self.log_ratios_, Z), Z.dtype)
        return Z + (ratios if Z.shape[1] > 1 else ratios[1:] - ratios[:1])


def _checked_rates(name: str, rates: Any, classes: Array, *, above: bool) -> Floats:
    """Return rates (n_classes,) in class order, or raise a ValueError.

    With ``above`` all rates must be positive.
    """
    values = np.asarray(in_class_order(rates, classes, name))
    fits = values.ndim == 1 and len(values) > 1 and values.dtype.kind in "iuf"
    fits = fits and bool((np.isfinite(values) & (values >= 0)).all() and values.any())
    if not fits or (above and not values.all()):
        raise ValueError(
            f"{name} must be a list of {'positive' if above else 'non-negative'} numbers, one for "
            f"each class in their order, got {rates!r:.80}. For the rate of an event pass "
            "[1 - rate, rate]."
        )
    if len(values) != len(classes):
        raise ValueError(
            f"{name} must have a rate for each of the {len(classes)} classes, [{shown(classes)}], "
            f"got {len(values)}. Pass a rate for each column of logits."
        )
    return values.astype(np.float64)


def _check_priors(priors: Any, present: Bools) -> Floats:
    """Return priors (K,) that sum to one, or raise a ValueError for other numbers.

    ``present`` (K,) says which classes have rows. The prior of other classes must be 0.
    """
    values = np.asarray(priors)
    if values.shape != present.shape or values.dtype.kind not in "iuf":
        raise ValueError(
            f"priors must be a list of {len(present)} numbers, one for each of the classes in "
            f"their order, or a Series or a dict by name, got {type(priors).__name__} of shape "
            f"{values.shape}. Pass one prior for each class."
        )
    if not are_probabilities(values[None].astype(np.float64)):
        raise ValueError(
            f"priors must be probabilities that sum to one, got a minimum of {values.min():g} and "
            f"a sum of {values.sum():g}. Pass numbers of rows divided by their sum."
        )
    absent = np.flatnonzero((values > 0) & ~present)
    if len(absent):
        raise ValueError(
            "priors must be 0 for classes without rows in y, since their logits are not "
            f"calibrated, got positive priors at positions [{shown(absent)}]. Set them to 0, or "
            "calibrate with rows of these classes."
        )
    normalized: Floats = values / values.sum(dtype=np.float64)
    return normalized


def _log_ratios(before: Floats, priors: Floats) -> Floats:
    """Return the additions (n_classes,) to the logits, finite for priors of 0."""
    return np.log(np.maximum(priors, MIN_RATIO)) - np.log(before)


def _moved(before: Floats, priors: Floats) -> dict[str, Floats]:
    """Return the fitted attributes for new priors (n_classes,)."""
    return {"priors_": priors.copy(), "log_ratios_": _log_ratios(before, priors)}


def _warn_about_estimate(estimate: Estimate, weight: float, n_classes: int) -> None:
    """Warn if the estimated priors are uncertain."""
    needed = ROWS_PER_CLASS * n_classes
    if weight < needed:
        message = (
            f"The priors of {n_classes} classes are estimated from {weight:g} unlabelled rows, "
            f"with standard errors up to {estimate.standard_errors.max():.2g}. Pass at least "
            f"{needed} rows, or pass the priors."
        )
        warn(FewRowsWarning(message, weight, n_classes))
    if not estimate.converged:
        warn(
            f"The class priors did not converge in {estimate.n_passes} passes over the rows. Check "
            "the logits for very large values, or pass the priors.",
            NotConvergedWarning,
        )


class Estimate(NamedTuple):
    """Class priors with standard errors, and the outcome of the search."""

    priors: Floats  #: (K,)
    standard_errors: Floats  #: (K,)
    log_likelihood_ratio: float  #: against the calibration priors
    n_passes: int
    converged: bool


def most_likely_priors(rows: Rows, calibration_priors: Floats, labels: Floats) -> Estimate:
    r"""Estimate class priors from unlabelled rows by maximum likelihood, with one pseudo-row.

    Label shift means that logits within each class have the same distribution as in the calibration
    rows, and only the class priors :math:`\pi` differ. The likelihood of a row is then the mixture
    :math:`\sum_k \pi_k p_{ik} / \pi^{\mathrm{calibration}}_k`, up to a constant.

    The calibration priors (K,) divide the pseudo-row among the classes. ``labels`` (K,) are the
    weights of the calibration rows per class. Classes without calibration rows get the prior 0.
    """
    present, calibration_weight = labels > 0, float(labels.sum())
    start = calibration_priors[present] / calibration_priors[present].sum()
    ratios = partial(_ratios, np.log(calibration_priors[present]), present)
    loss = MixtureLoss(rows.map(ratios), start)

    # Search in logarithms, because the pseudo-row keeps priors above zero. A search within bounds
    # needs ten times as many passes if many priors are small. The Hessian omits the diagonal of
    # the gradient, which vanishes at the minimum.
    def in_logarithms(u: Floats) -> tuple[float, Floats, Floats]:
        x = np.exp(u)
        value, gradient, hessian = loss.second_order(x)
        return value, x * gradient, x[:, None] * hessian * x

    fun, jac, hess = cached_parts(in_logarithms, 3, start.shape)
    options = {"gtol": 1e-10, "maxiter": 1000, "max_trust_radius": 100.0}
    u0 = np.log(start)
    result = minimize(fun, u0, jac=jac, hess=hess, method="trust-ncg", options=options)
    x = np.exp(result.x) / np.exp(result.x).sum()
    gain = (loss.second_order(start)[0] - result.fun) * loss.weight
    variances = _variances(x, loss.second_order(x)[2], start, loss.weight, calibration_weight)
    priors, errors = np.zeros(len(labels)), np.zeros(len(labels))
    priors[present], errors[present] = x, np.sqrt(variances)
    # Rounding may end the search earlier. The gradient equals the step of an EM iteration, so its
    # size says how far the priors are off.
    converged = bool(np.abs(result.jac).max() <= 1e-6)
    return Estimate(priors, errors, float(gain), result.nfev, converged)


def _ratios(log_priors: Floats, present: Bools, Z: Floats, *_: Any) -> Floats:
    """Return ratios of probabilities to calibration priors (m, n_present), scaled per row.

    ``log_priors`` are (n_present,), ``present`` (K,) and ``Z`` logits (m, K). The largest ratio in
    a row is 1. A row with all these classes masked has equal ratios: it carries no information.
    """
    L = log_softmax(double(Z))[:, present] - log_priors
    top = L.max(axis=1, keepdims=True)
    return np.exp(np.where(top > -np.inf, L - np.where(top > -np.inf, top, 0), 0))


def _variances(
    x: Floats, hessian: Floats, before: Floats, weight: float, calibration_weight: float
) -> Floats:
    r"""Return variances (K,) of the priors :math:`\pi'`, by the observed information :math:`H`.

    ``x`` and ``before`` are priors (K,), ``hessian`` is (K, K). The calibration priors are as
    uncertain as label frequencies. Their relative errors :math:`\varepsilon` add
    :math:`(\mathrm{diag}(\pi') - H^{-1})\, \varepsilon` to the estimate.
    """
    inverse = np.linalg.pinv(hessian, hermitian=True)
    sums = inverse.sum(axis=0)
    row_part = np.diag(inverse) - sums**2 / sums.sum()  # priors sum to one
    prior_part = (np.diag(x) - inverse) ** 2 @ (1 / before)
    return np.maximum(row_part / weight + prior_part / calibration_weight, 0)
