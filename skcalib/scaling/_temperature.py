"""Temperature scaling, and its mixture with uncalibrated and uniform probabilities."""

from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

import numpy as np

from skcalib._base import BaseCalibrator
from skcalib._optimize import mixture
from skcalib._optimize.temperature import fit_inverse_temperature, warn_of_no_minimum
from skcalib._rows import ArrayLike, Floats, Indices, Plan, Rows, arrays as xa
from skcalib._validation.inputs import check_option, fitted_smoothing, warn_of_small_weights
from skcalib._warnings import NotConvergedWarning, warn

LOSSES = Literal["log_loss", "brier"]


class TemperatureScaling(BaseCalibrator):
    r"""Temperature scaling: logits divided by one number.

    Fits the temperature :math:`T > 0` that minimises the log loss of

    .. math:: \hat p(y = k \mid z) = \mathrm{softmax}(z / T)_k .

    One parameter, so a few hundred rows are enough; the order of the classes in a row, and with
    it the accuracy, does not change. :math:`T > 1` lowers confidence, :math:`T < 1` raises it.
    The probabilities are then mixed with the uniform distribution,

    .. math:: (1 - \varepsilon)\, \hat p(y = k \mid z) + \varepsilon / K ,

    so that the log loss of a row is at most :math:`\log (K / \varepsilon)`. Where a few saturated
    rows determine the temperature of least log loss, it is that of the mixture instead.

    Parameters
    ----------
    smoothing : float or "auto", default="auto"
        The share :math:`\varepsilon` of the uniform distribution, at least 0 and below 1. "auto" is
        :math:`1 / (N + 1)` with N the sum of the weights [2]_, and 0 the plain form of [1]_.
    classes : array-like of shape (n_classes,), default=None
        All labels in the order of the columns of ``X``. Needed when ``y`` may lack some of
        them. By default the sorted labels in ``y``. Give them sorted if probabilities go to
        scikit-learn's own ``log_loss`` or ``roc_auc_score``, which take columns for sorted.

    Attributes
    ----------
    temperature_ : float
        The temperature :math:`T`.
    smoothing_ : float
        The share :math:`\varepsilon` of the uniform distribution.
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the columns.
    n_features_in_ : int
        Number of columns of ``X`` seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Names of the columns, where ``X`` had string names.

    Warns
    -----
    ConvergenceWarning
        If no temperature minimises the log loss: separable rows (``temperature_`` is then the
        optimum for smoothed labels, see the notes), rows no better than chance (it is at a bound
        relative to the differences of the logits), or constant logits (it is 1).
    UserWarning
        If ``X`` seems to hold probabilities, or ``y`` lacks classes that ``X`` has columns for. If
        weights sum to far less than the number of rows, where their sum matters: with
        ``smoothing="auto"``, or if rows are separable.

    See Also
    --------
    AutoCalibrator : The default, which mixes temperature scaling with more flexible methods.

    Notes
    -----
    With :math:`b = 1/T` the log loss is convex, and its derivatives for a row are the mean of
    the logits under :math:`\hat p` less the logit of the label, and their variance under
    :math:`\hat p`. The temperature is the exact zero of the first, which
    :func:`scipy.optimize.root_scalar` finds by Halley's method, from the answer on a sample of the
    rows, or else between bounds that are exact: the loss is at least ``b`` times the mean gap
    between the largest logit of a row and that of its label, and ``log K`` at ``b = 0``. Masked
    classes and other logits far below the largest do not enter them. The answer scales with the
    logits: :math:`T(c z) = c\, T(z)`.

    If every row is classified correctly, or tied, the log loss falls as T falls to 0. The
    temperature is then the optimum for labels that are smoothed by :math:`\delta = 1 / (N + 1)`:
    the class of the label has the target :math:`1 - \delta`, and :math:`\delta` is divided equally
    among all classes of the row. Masked classes are none of these, nor are classes more than 100
    times as far below the largest logit as the next class typically is, by the geometric mean over
    the rows: with logits of -1e4 or -1e30 in the place of -inf the temperature is the same.

    A row with the wrong label and a logit a million times as large as others sets the temperature
    of least log loss, at which all other rows have next to uniform probabilities. That has happened
    where the log loss of the calibration rows is larger than it would be with one confidence p for
    all predictions, :math:`-p \log p - (1 - p) \log \frac{1 - p}{K - 1}` with
    :math:`p = (n + 1) / (N + 2)` for the weight n of the rows that are classified correctly and
    the geometric mean K of their numbers of classes. Then T minimises the log loss of the mixture,
    among temperatures no higher than that; :func:`scipy.optimize.minimize_scalar` finds it around
    the best of several that are a factor of two apart. Finding out takes one pass, over a sample
    where there are many rows. With ``smoothing=0`` T is the one of least log loss in any case.

    The number K of classes in the mixture is that of the row, without masked classes.
    ``transform`` returns logarithms of the mixture, or its log-odds for a single column.
    ``predict`` does not depend on ``smoothing``.

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
    _on_device = True

    temperature_: float

    def __init__(
        self, *, smoothing: Literal["auto"] | float = "auto", classes: ArrayLike | None = None
    ) -> None:
        super().__init__(classes=classes)
        self.smoothing = smoothing

    def _weights_are_relative(self) -> bool:
        return self.smoothing != "auto"

    def _fit(self, rows: Rows) -> dict[str, Any]:
        smoothing = fitted_smoothing(self.smoothing, rows)
        scale = fit_inverse_temperature(rows, smoothing)
        if scale.outcome != "minimum":
            warn_of_no_minimum(scale)
            if scale.is_separable and self._weights_are_relative():
                warn_of_small_weights(rows.weight, rows.n_rows)
        return {"temperature_": 1 / scale.value, "smoothing_": smoothing}

    def _calibrate(self, Z: Floats) -> Floats:
        return Z / self.temperature_


class EnsembleTemperatureScaling(BaseCalibrator):
    r"""Ensemble temperature scaling: a mixture of scaled, uncalibrated and uniform probabilities.

    With the temperature T of temperature scaling, the probabilities are

    .. math:: \hat p(y = k \mid z) = \omega_1\, \mathrm{softmax}(z / T)_k
        + \omega_2\, \mathrm{softmax}(z)_k + \omega_3 / K ,

    where the weights :math:`\omega \ge 0` sum to one and minimise the log loss, or the Brier score,
    of the calibration rows. The order of the classes in a row, and with it the accuracy, does not
    change. It repairs what a temperature alone cannot: a classifier that is sometimes wrong however
    confident it is, for which every temperature is too high for most rows and too low for some.

    Parameters
    ----------
    loss : {"log_loss", "brier"}, default="log_loss"
        What the weights minimise. The temperature minimises the log loss in any case.
    smoothing : float or "auto", default="auto"
        Share :math:`\varepsilon` of the uniform distribution that is mixed into the result, as for
        :class:`TemperatureScaling`: it takes :math:`\varepsilon` of the first two weights, and adds
        it to the third. "auto" is :math:`1 / (N + 1)` with N the sum of the weights of the rows. 0
        is the plain form of [1]_, whose third weight may be 0.
    classes : array-like of shape (n_classes,), default=None
        All labels in the order of the columns of ``X``, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    temperature_ : float
        The temperature :math:`T`.
    weights_ : ndarray of shape (3,)
        The weights :math:`\omega` of scaled, uncalibrated and uniform probabilities, with
        ``smoothing``. They sum to one.
    smoothing_ : float
        The share :math:`\varepsilon`, which the third weight is at least.
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the columns.
    n_features_in_ : int
        Number of columns of ``X`` seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Names of the columns, where ``X`` had string names.

    Warns
    -----
    ConvergenceWarning
        If no temperature minimises the log loss, as :class:`TemperatureScaling`. If the weights do
        not converge.
    UserWarning
        As :class:`TemperatureScaling`.

    See Also
    --------
    TemperatureScaling : The same without the second member of the mixture.
    OrderPreservingScaling : Other increasing functions of all log-probabilities.

    Notes
    -----
    Given T both problems are convex. The log loss is minimised among positive weights by Newton's
    method, whose steps are calls of :func:`scipy.optimize.nnls`, from probabilities of labels that
    one pass over the logits computes. The Brier score is quadratic in the weights, and
    :func:`scipy.optimize.lsq_linear` minimises it from one pass. In [1]_ the temperature minimises
    the same loss as the weights, which is not convex for the Brier score.

    Where the temperature is near 1 the first two members are all but equal, and so the loss hardly
    depends on how their weights are divided, nor do the probabilities.

    The number K of classes is that of the row, without masked classes. ``transform`` returns
    logarithms of the mixture, or its log-odds for a single column. ``predict`` takes the class of
    the largest logit, so that it never changes, even where rounding makes probabilities equal.

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
    _on_device = True

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
        super().__init__(classes=classes)
        self.loss = loss
        self.smoothing = smoothing

    def _weights_are_relative(self) -> bool:
        return self.smoothing != "auto"

    def _fit(self, rows: Rows) -> dict[str, Any]:
        check_option("loss", self.loss, LOSSES)
        fitted = TemperatureScaling(smoothing=self.smoothing)._fit(rows)  # noqa: SLF001
        fit = _by_brier_score if self.loss == "brier" else _by_log_loss
        weights = (1 - fitted["smoothing_"]) * fit(rows, fitted["temperature_"])
        weights[2] += fitted["smoothing_"]
        return {**fitted, "weights_": weights}

    def _calibrate(self, Z: Floats) -> Floats:
        """Logits of the mixture of the first two members."""
        xp, weights = xa.namespace(Z), xa.on_host(self.weights_)[:2]
        if weights[1] == 0 or weights[0] == 0:
            return Z if weights[1] > 0 else Z / self.temperature_
        # Differences of the logarithms of two probabilities that are nearly equal are small.
        exact = xa.double(Z) if Z.shape[1] == 1 else Z
        members = [S - xp.log(total)[:, None] for S, _, total in _members(self.temperature_, exact)]
        L = mixture.mixture(xp.stack(members), weights / weights.sum())
        return xa.astype(xa.in_columns_of(Z, L), Z.dtype)

    def _uniform_share(self) -> float:
        return float(self.weights_[2])


def _members(temperature: float, Z: Floats) -> Iterator[tuple[Floats, Floats, Floats]]:
    """Scores (m, K) of scaled and uncalibrated logits, their exponentials, and the sums of these.

    The largest score of a row is 0, so that scores can overflow to -inf only.
    """
    U = xa.both_columns(Z)
    xp = xa.namespace(U)
    with np.errstate(over="ignore"):
        U = U - xp.max(U, axis=1, keepdims=True)
        for S in (U / temperature, U):
            E = xp.exp(S)
            yield S, E, xp.sum(E, axis=1)


def _uniform(Z: Floats) -> Floats:
    """Probability (m,) of each class that is not masked, if all are equally probable."""
    return 1 / xa.double(xa.namespace(Z).count_nonzero(-np.inf != xa.both_columns(Z), axis=1))


def _by_log_loss(rows: Rows, temperature: float) -> Floats:
    """Weights of the least log loss, with a warning where the search stopped before."""
    given = rows.with_logits(rows.map(partial(_of_labels, temperature), Plan(room=4)))
    found = mixture.mixture_weights(mixture.MixtureLoss(given, np.zeros(3)), np.full(3, 1 / 3))
    if not found.success:
        warn(
            f"The weights of the ensemble did not converge in {mixture.MAX_ITERATIONS} iterations. "
            "They are close to the best ones; use loss='brier' for weights in closed form.",
            NotConvergedWarning,
        )
    return np.asarray(found.x)


def _of_labels(temperature: float, Z: Floats, y: Indices, *_: Any) -> Floats:
    """Probabilities (m, 3) that the members give the labels, relative to the largest of these."""
    xp = xa.namespace(Z)
    members = _members(temperature, Z)
    logs = [xa.double(xa.of_labels(S, y) - xp.log(total)) for S, _, total in members]
    L = xp.stack([*logs, xp.log(_uniform(Z))], axis=1)
    return xp.exp(L - xp.max(L, axis=1, keepdims=True))


def _by_brier_score(rows: Rows, temperature: float) -> Floats:
    """Weights of the least Brier score."""
    sums = rows.sum(partial(_products, temperature), Plan(room=4)) / rows.weight
    # Of the differences of the members' probabilities from 1 for the label and 0 for the others.
    sizes, vectors = np.linalg.eigh(sums[:3] - sums[3] - sums[3][:, None] + 1)
    roots = np.sqrt(np.maximum(sizes, 0))[:, None] * vectors.T
    return mixture.least_squares_weights(roots, np.zeros(3))


def _products(temperature: float, Z: Floats, y: Indices, w: Floats | None) -> Floats:
    """Products of the probabilities of members (3, 3), and those of labels (1, 3), summed."""
    P, Q = (E / total[:, None] for _, E, total in _members(temperature, Z))
    P, Q = xa.double(P), xa.double(Q)
    products = [xa.vecdot(*pair) for pair in ((P, P), (P, Q), (Q, Q))]
    values = [*products, xa.of_labels(P, y), xa.of_labels(Q, y), _uniform(Z)]
    pp, pq, qq, p, q, u = (float(xa.weighted_sum(value, w)) for value in values)
    return np.array([[pp, pq, u], [pq, qq, u], [u, u, u], [p, q, u]])
