"""Temperature scaling, no calibration, and mixtures of both."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

import numpy as np

from skcalib._input.arrays import on_host
from skcalib._input.parameters import check_option, fitted_smoothing
from skcalib._optimize import mixture
from skcalib._optimize.temperature import fit_inverse_temperature, warn_of_no_minimum
from skcalib._rows import Rows, arrays
from skcalib._typing import ArrayLike, Floats, Indices
from skcalib._warnings import NotConvergedWarning, warn
from skcalib.base import BaseCalibrator, IncreasingMap

LOSSES = Literal["log_loss", "brier"]


class TemperatureScaling(IncreasingMap, BaseCalibrator):
    r"""Temperature scaling: logits divided by one number.

    The temperature :math:`T > 0` minimises the log loss of

    .. math:: \hat p(y = k \mid z) = \mathrm{softmax}(z / T)_k .

    A few hundred rows suffice for this one parameter. The order of the classes within a row and the
    accuracy do not change. :math:`T > 1` lowers confidence, :math:`T < 1` raises it. The
    probabilities are then mixed with the uniform distribution,

    .. math:: (1 - \varepsilon)\, \hat p(y = k \mid z) + \varepsilon / K ,

    so that a row's log loss is at most :math:`\log (K / \varepsilon)`. ``smoothing=0`` gives
    :math:`\mathrm{softmax}(z / T)` exactly.

    Parameters
    ----------
    smoothing : float or "auto", default="auto"
        The share :math:`\varepsilon` of the uniform distribution, at least 0 and below 1. "auto" is
        :math:`1 / (N + 1)` with N the total weight [2]_. ``smoothing=0`` is
        :math:`\mathrm{softmax}(z / T)` exactly, the plain form [1]_.
    classes : array-like of shape (n_classes,), default=None
        All labels in column order. Needed if ``y`` may lack some labels. By default the sorted
        labels in ``y``. Sort them if you pass probabilities to ``log_loss`` or ``roc_auc_score`` of
        scikit-learn, which assume sorted columns.

    Attributes
    ----------
    temperature_ : float
        The temperature :math:`T`.
    smoothing_ : float
        The share :math:`\varepsilon` of the uniform distribution.
    classes_ : ndarray of shape (n_classes,)
        Labels in column order.
    n_features_in_ : int
        Number of columns in ``X`` during ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Column names, if ``X`` had string names.

    Warns
    -----
    ConvergenceWarning
        If no temperature minimises the log loss. For separable rows ``temperature_`` is then the
        optimum for labels smoothed by :math:`1 / (N + 1)`. For rows no better than chance it is a
        million times the mean range of a row's logits, and for constant logits 1.
    UserWarning
        If ``X`` seems to contain probabilities, if ``y`` lacks a class that has a column in ``X``,
        or if weights sum to far less than the number of rows.

    See Also
    --------
    AutoCalibrator : The default, which mixes temperature scaling with more flexible methods.

    Notes
    -----
    The log loss is convex in :math:`1 / T`; Halley's method finds the zero of its slope. T scales
    with the logits: :math:`T(c z) = c\, T(z)`.

    A few rows with a wrong label and logits of thousands may determine T. ``fit`` concludes this if
    one confidence for all predictions has a lower log loss. With smoothing, T then minimises the
    mixture's log loss: the best of a grid, and the zero of the slope nearby.

    In the mixture K counts the unmasked classes of the row. ``transform`` returns logarithms of the
    mixed probabilities, or log-odds for a single column.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", ICML 2017,
       `arXiv:1706.04599 <https://arxiv.org/abs/1706.04599>`_, section 4.2.
    .. [2] Berta, Holzmüller, Jordan, Bach, "Structured Matrix Scaling for Multi-Class
       Calibration", `arXiv:2511.03685 <https://arxiv.org/abs/2511.03685>`_.

    Examples
    --------
    >>> from skcalib import TemperatureScaling
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(20_000, 10, temperature=2.0, random_state=0)
    >>> calibrator = TemperatureScaling().fit(logits, y)
    >>> round(calibrator.temperature_, 1)
    2.0
    >>> calibrator.predict_proba(logits[:3]).shape
    (3, 10)
    >>> mixed = TemperatureScaling(smoothing=0.01).fit(logits, y)
    >>> mixed.temperature_ == calibrator.temperature_
    True
    >>> round(float(mixed.predict_proba(100 * logits).min()), 6)
    0.001
    """

    _keeps_order = True
    _has_class_parameters = False
    _on_device = True

    temperature_: float

    def __init__(
        self, *, smoothing: Literal["auto"] | float = "auto", classes: ArrayLike | None = None
    ) -> None:
        self.classes = classes
        self.smoothing = smoothing

    def _fit(self, rows: Rows) -> dict[str, Any]:
        smoothing = fitted_smoothing(self.smoothing, rows)
        scale = fit_inverse_temperature(rows, smoothing)
        warn_of_no_minimum(scale)
        return {"temperature_": 1 / scale.value, "smoothing_": smoothing}

    def _calibrate(self, Z: Floats) -> Floats:
        return Z / self.temperature_


class Uncalibrated(BaseCalibrator):
    """No calibration: the baseline in comparisons, searches and mixtures.

    ``transform`` returns its input, and ``predict_proba`` its softmax. Use it as a value in
    :class:`~sklearn.model_selection.GridSearchCV`, or as a candidate for :class:`AutoCalibrator`.

    Parameters
    ----------
    classes : array-like of shape (n_classes,), default=None
        All labels in column order, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels in column order.
    n_features_in_ : int
        Number of columns in ``X`` during ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Column names, if ``X`` had string names.

    See Also
    --------
    TemperatureScaling : Divides all logits by one number.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.pipeline import Pipeline
    >>> from skcalib import TemperatureScaling, Uncalibrated
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(500, 3, temperature=1.0, random_state=0)
    >>> search = GridSearchCV(
    ...     Pipeline([("calibrator", Uncalibrated())]),
    ...     {"calibrator": [Uncalibrated(), TemperatureScaling()]},
    ...     scoring="neg_log_loss",
    ... )
    >>> search.fit(logits, y).predict_proba(logits).shape
    (500, 3)
    """

    _on_device = True
    _keeps_order = True
    _has_class_parameters = False

    def _fit(self, rows: Rows) -> dict[str, Any]:  # noqa: ARG002
        return {}

    def _calibrate(self, Z: Floats) -> Floats:
        return Z


def unless_passthrough(calibrator: Any) -> Any:
    """Return the calibrator, or ``Uncalibrated()`` for "passthrough", as in pipelines."""
    is_passthrough = isinstance(calibrator, str) and calibrator == "passthrough"
    return Uncalibrated() if is_passthrough else calibrator


class EnsembleTemperatureScaling(BaseCalibrator):
    r"""Ensemble temperature scaling: a mixture of scaled, uncalibrated and uniform probabilities.

    With the temperature T of temperature scaling, the probabilities are

    .. math:: \hat p(y = k \mid z) = \omega_1\, \mathrm{softmax}(z / T)_k
        + \omega_2\, \mathrm{softmax}(z)_k + \omega_3 / K ,

    where the weights :math:`\omega \ge 0` sum to one and minimise the log loss or the Brier score.
    The order of the classes within a row and the accuracy do not change. The mixture suits a
    classifier that is sometimes wrong at any confidence: every single temperature is too high for
    most rows and too low for some.

    Parameters
    ----------
    loss : {"log_loss", "brier"}, default="log_loss"
        Loss that the weights minimise. The temperature always minimises the log loss.
    smoothing : float or "auto", default="auto"
        Share :math:`\varepsilon` of the uniform distribution, mixed into the result as in
        :class:`TemperatureScaling`. The share moves from the first two weights to the third. "auto"
        is :math:`1 / (N + 1)` with N the sum of the row weights. ``smoothing=0`` is the plain form
        [1]_ exactly.
    classes : array-like of shape (n_classes,), default=None
        All labels in column order, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    temperature_ : float
        The temperature :math:`T`.
    weights_ : ndarray of shape (3,)
        The weights :math:`\omega` for scaled, uncalibrated and uniform probabilities, including
        ``smoothing``. They sum to one.
    smoothing_ : float
        The share :math:`\varepsilon`, a lower bound of the third weight.
    classes_ : ndarray of shape (n_classes,)
        Labels in column order.
    n_features_in_ : int
        Number of columns in ``X`` during ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Column names, if ``X`` had string names.

    Warns
    -----
    ConvergenceWarning
        If no temperature minimises the log loss, as :class:`TemperatureScaling`. If the weights do
        not converge.
    UserWarning
        As :class:`TemperatureScaling`.

    See Also
    --------
    TemperatureScaling : The mixture without its second member.
    OrderPreservingScaling : Other increasing functions of all log-probabilities.

    Notes
    -----
    Given T both problems are convex. Newton's method minimises the log loss among positive weights,
    with steps by :func:`scipy.optimize.nnls`. One pass over the logits computes the label
    probabilities. The Brier score is quadratic in the weights, and
    :func:`scipy.optimize.lsq_linear` minimises it after one pass. In [1]_ the temperature minimises
    the same loss as the weights, which is not convex for the Brier score.

    With a temperature near 1 the first two members are nearly equal, and their separate weights
    matter little. ``predict`` returns the class with the largest logit, even if rounding makes
    probabilities equal.

    References
    ----------
    .. [1] Zhang, Kailkhura, Han, "Mix-n-Match: Ensemble and Compositional Methods for Uncertainty
       Calibration in Deep Learning", ICML 2020,
       `arXiv:2003.07329 <https://arxiv.org/abs/2003.07329>`_.

    Examples
    --------
    Logits with a temperature of 2, and every tenth label drawn at random:

    >>> import numpy as np
    >>> from sklearn.metrics import log_loss
    >>> from skcalib import EnsembleTemperatureScaling, TemperatureScaling
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(4000, 5, temperature=2.0, random_state=0)
    >>> y[::10] = np.random.default_rng(0).integers(0, 5, size=400)
    >>> ensemble = EnsembleTemperatureScaling().fit(logits[:2000], y[:2000])
    >>> temperature = TemperatureScaling().fit(logits[:2000], y[:2000])
    >>> X_test, y_test = logits[2000:], y[2000:]
    >>> losses = [log_loss(y_test, c.predict_proba(X_test)) for c in (ensemble, temperature)]
    >>> losses[0] < losses[1]
    True
    >>> round(float(ensemble.weights_.sum()), 9)
    1.0
    """

    _keeps_order = True
    _has_class_parameters = False
    _on_device = True
    _is_smoothed = False  # the weights include the share of the uniform distribution

    temperature_: float
    weights_: Floats
    smoothing_: float

    def __init__(
        self,
        *,
        loss: LOSSES = "log_loss",
        smoothing: Literal["auto"] | float = "auto",
        classes: ArrayLike | None = None,
    ) -> None:
        self.classes = classes
        self.loss = loss
        self.smoothing = smoothing

    def _fit(self, rows: Rows) -> dict[str, Any]:
        check_option("loss", self.loss, LOSSES)
        fitted = TemperatureScaling(smoothing=self.smoothing)._fit(rows)  # noqa: SLF001
        fit = _fit_brier_score if self.loss == "brier" else _fit_log_loss
        weights = (1 - fitted["smoothing_"]) * fit(rows, fitted["temperature_"])
        weights[2] += fitted["smoothing_"]
        return {**fitted, "weights_": weights}

    def _calibrate(self, Z: Floats) -> Floats:
        weights = on_host(self.weights_)
        mix_members = partial(self._mix_members, weights[:2])
        L = arrays.finite_unless_masked(mix_members, arrays.masked_logits(Z))
        return arrays.mix_logits(L, float(weights[2]))

    def _mix_members(self, weights: Floats, Z: Floats) -> Floats:
        """Mix the first two members by ``weights`` (2,): logits (m, K), or log-odds (m, 1)."""
        xp = arrays.namespace(Z)
        if weights[1] == 0 or weights[0] == 0:
            return Z if weights[1] > 0 else Z / self.temperature_
        # Log-odds near 0 are differences of nearly equal logarithms: use double precision.
        exact = arrays.double(Z) if Z.shape[1] == 1 else Z
        members = [
            S - xp.log(total)[:, None] for S, _, total in _mixture_terms(self.temperature_, exact)
        ]
        L = mixture.mixture(xp.stack(members), weights / weights.sum())
        return arrays.astype(arrays.in_columns_of(Z, L), Z.dtype)


def _mixture_terms(temperature: float, Z: Floats) -> Iterator[tuple[Floats, Floats, Floats]]:
    """Yield scores (m, K), exponentials and their sums, for scaled and uncalibrated logits.

    The largest score of a row is 0, so that scores can overflow to -inf only.
    """
    U = arrays.both_columns(Z)
    xp = arrays.namespace(U)
    with np.errstate(over="ignore"):
        U = U - xp.max(U, axis=1, keepdims=True)
        for S in (U / temperature, U):
            E = xp.exp(S)
            yield S, E, xp.sum(E, axis=1)


def _uniform(Z: Floats) -> Floats:
    """Return the uniform probability (m,) over the unmasked classes."""
    return 1 / np.count_nonzero(~np.isneginf(arrays.both_columns(Z)), axis=1)


def _fit_log_loss(rows: Rows, temperature: float) -> Floats:
    """Return the weights that minimize the log loss. Warn if the search does not converge."""
    labels = rows.map(partial(_label_probabilities, temperature))
    solution = mixture.mixture_weights(mixture.MixtureLoss(labels, np.zeros(3)), np.full(3, 1 / 3))
    if not solution.success:
        warn(
            f"The weights of the ensemble did not converge in {mixture.MAX_ITERATIONS} iterations. "
            "They are close to the best ones; use loss='brier' for weights in closed form.",
            NotConvergedWarning,
        )
    return np.asarray(solution.x)


def _label_probabilities(temperature: float, Z: Floats, y: Indices, *_: Any) -> Floats:
    """Return the three members' label probabilities (m, 3), divided by the largest.

    ``Z`` is (m, K), ``y`` is (m,).
    """
    i = np.arange(len(y))
    logs = [S[i, y] - np.log(total) for S, _, total in _mixture_terms(temperature, Z)]
    L = np.stack([*logs, np.log(_uniform(Z))], axis=1)
    return np.exp(L - L.max(axis=1, keepdims=True))


def _fit_brier_score(rows: Rows, temperature: float) -> Floats:
    """Return the weights (3,) that minimize the Brier score."""
    sums = rows.sum(partial(_products, temperature)) / rows.weight
    # Scalar products between (probabilities minus one-hot labels) of two members.
    sizes, vectors = np.linalg.eigh(sums[:3] - sums[3] - sums[3][:, None] + 1)
    roots = np.sqrt(np.maximum(sizes, 0))[:, None] * vectors.T
    return mixture.least_squares_weights(roots, np.zeros(3))


def _products(temperature: float, Z: Floats, y: Indices, w: Floats | None) -> Floats:
    """Sum scalar products between members' probabilities, and their label probabilities.

    The result is (4, 3): one row of scalar products per member, then the label probabilities. ``Z``
    is (m, K); ``y`` and ``w`` are (m,).
    """
    P, Q = (
        (E / total[:, None]).astype(np.float64, copy=False)
        for _, E, total in _mixture_terms(temperature, Z)
    )
    i = np.arange(len(y))
    products = [np.einsum("ij,ij->i", *pair) for pair in ((P, P), (P, Q), (Q, Q))]
    values = np.stack([*products, P[i, y], Q[i, y], _uniform(Z)])
    pp, pq, qq, p, q, u = arrays.weighted_sum(values.T, w)
    return np.array([[pp, pq, u], [pq, qq, u], [u, u, u], [p, q, u]])
