"""Isotonic calibration, and inductive Venn-Abers predictors."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np

from skcalib._input.measures import ScoreColumns
from skcalib._input.parameters import check_option, check_real
from skcalib._input.predictions import predict
from skcalib._rows import Ranked, Rows, arrays
from skcalib._scores import columns
from skcalib._scores.bins import bin_index, bins_ending_at
from skcalib._scores.isotonic import Merge, interpolated, isotonic_blocks, knots, merged, steps
from skcalib._typing import ArrayLike, Floats, Indices
from skcalib.base import IncreasingMap

from ._histogram import _PerClass

Interpolation = Literal["constant", "linear", "centered"]
MultiClass = Literal["ovr", "ovo"]

# One pass over the rows ranks the scores of this many pairs of classes.
PAIRS_AT_A_TIME = 64


class IsotonicCalibration(IncreasingMap, _PerClass):
    r"""Isotonic regression: the non-decreasing function of the probability with least squares.

    For each class, one-vs-rest, the non-decreasing function :math:`f` minimizes

    .. math:: \sum_i w_i \big( f(p_{ik}) - [y_i = k] \big)^2 ,

    where i runs over the rows and, with ``pseudo_rows``, two pseudo-rows. Calibrated rows are then
    normalized. Two classes need only one function, for the second class.

    Parameters
    ----------
    interpolation : {"constant", "linear", "centered"}, default="constant"
        How values between the fitted probabilities are computed. "constant" is a step function with
        edges halfway between the probabilities [2]_. "linear" interpolates between them, as
        scikit-learn's ``IsotonicRegression``. "centered" interpolates between the weighted mean
        probabilities of the steps (centred isotonic regression [3]_), which increases strictly
        except where it is 0 or 1. Beyond the smallest and the largest knot the function is
        constant.
    pseudo_rows : float, default=1.0
        Weight :math:`s` of two pseudo-rows, a hit at the smallest probability and a miss at the
        largest. They keep :math:`f` away from 0 and 1: if the lowest step has n rows and no hit,
        its value is :math:`s / (n + s)` instead of 0, unless the next step is lower still. If rows
        weigh less than 1 on average, :math:`s` is multiplied by the mean. 0 is the plain form in
        [1]_ and [2]_.
    classes : array-like of shape (n_classes,), default=None
        All labels in column order, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    bin_edges_ : list of ndarray of shape (n_bins + 1,) or (n_thresholds,)
        Edges of the steps for each class, or for the second of two classes. With
        ``interpolation="linear"`` or ``"centered"`` these are the knots.
    bin_values_ : list of ndarray of shape (n_bins,) or (n_thresholds,)
        Values of the steps, or at the knots.
    classes_ : ndarray of shape (n_classes,)
        Labels in column order.
    n_features_in_ : int
        Number of columns in ``X`` during ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Column names, if ``X`` had string names.

    Warns
    -----
    UserWarning
        As for :class:`TemperatureScaling`.

    Notes
    -----
    Fitted by :func:`scipy.optimize.isotonic_regression`, once for each class, from the distinct
    probabilities.

    With ``pseudo_rows=0`` the lowest step is often exactly 0. A held-out row may then have the
    probability 0 for its label, which makes the log loss very large.

    Dask collections with more than a million rows are sampled: a million rows at random, with all
    rows of classes that have fewer than 1000.

    Steps have no gradients: tensors that require gradients are refused.

    References
    ----------
    .. [1] Zadrozny, Elkan, "Transforming Classifier Scores into Accurate Multiclass Probability
       Estimates", KDD 2002.
    .. [2] Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", ICML 2017,
       `arXiv:1706.04599 <https://arxiv.org/abs/1706.04599>`_, section 4.1.
    .. [3] Oron, Flournoy, "Centered Isotonic Regression: Point and Interval Estimation for
       Dose-Response Studies", Statistics in Biopharmaceutical Research 2017,
       `arXiv:1701.05964 <https://arxiv.org/abs/1701.05964>`_.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import IsotonicCalibration
    >>> p = np.array([[0.9, 0.1], [0.7, 0.3], [0.5, 0.5], [0.3, 0.7], [0.1, 0.9]])
    >>> calibrator = IsotonicCalibration().fit(np.log(p), [0, 1, 0, 1, 1])
    >>> calibrator.bin_edges_[0].round(2).tolist(), calibrator.bin_values_[0].round(2).tolist()
    ([0.0, 0.6, 1.0], [0.5, 0.67])
    >>> plain = IsotonicCalibration(pseudo_rows=0).fit(np.log(p), [0, 1, 0, 1, 1])
    >>> plain.bin_edges_[0].round(2).tolist(), plain.bin_values_[0].tolist()
    ([0.0, 0.2, 0.6, 1.0], [0.0, 0.5, 1.0])
    """

    def __init__(
        self,
        *,
        interpolation: Interpolation = "constant",
        pseudo_rows: float = 1.0,
        classes: ArrayLike | None = None,
    ) -> None:
        self.classes = classes
        self.interpolation = interpolation
        self.pseudo_rows = pseudo_rows

    def _check(self) -> None:
        check_option("interpolation", self.interpolation, Interpolation)
        check_real("pseudo_rows", self.pseudo_rows, closed=True)

    def _fit_class(self, rows: Ranked, unit: float = 1.0) -> dict[str, Any]:
        # Two pseudo-rows keep values off 0 and 1: a hit at the lowest score, a miss at the highest.
        low, high = np.zeros_like(rows.scores), np.zeros_like(rows.scores)
        low[0] = high[-1] = unit * self.pseudo_rows
        rows = Ranked(rows.scores, rows.weight + low + high, rows.hits + low)
        blocks = isotonic_blocks(rows)
        if self.interpolation == "constant":
            bins = bins_ending_at(rows, blocks.end, np.zeros_like(blocks.end))
            return {"bin_edges_": np.append(0.0, bins.high), "bin_values_": blocks.value}
        edges, values = knots(rows, blocks, centered=self.interpolation == "centered")
        return {"bin_edges_": edges, "bin_values_": values}

    def _value(self, p: Floats, edges: Floats, values: Floats) -> Floats:
        if len(edges) == len(values):  # knots of an interpolation; steps have one more edge
            return interpolated(p, edges, values)
        return super()._value(p, edges, values)


class VennAbersCalibration(_PerClass):
    r"""Inductive Venn-Abers predictor: isotonic regression with the test row, under both labels.

    For two classes, isotonic regression is fitted to the calibration rows and the test row, once
    with the test label 0 and once with 1. Its values at the test row are :math:`p_0` and
    :math:`p_1`. The calibrated probability of the second class is between the two,

    .. math:: \frac{p_1}{1 - p_0 + p_1} \quad\text{or}\quad p_1 + \frac{p_0^2 - p_1^2}{2},

    which minimizes the worst-case regret in log loss or in the Brier score. It is never 0 or 1.
    With three or more classes there is a predictor for each class against the rest, and rows are
    then normalized, or a predictor for each pair of classes.

    Parameters
    ----------
    merge : {"log_loss", "brier"}, default="log_loss"
        How :math:`p_0` and :math:`p_1` become one probability, by the first or the second formula.
    multi_class : {"ovr", "ovo"}, default="ovr"
        With more than two classes, one-vs-rest or one-vs-one. One-vs-one fits K (K - 1) / 2
        predictors to the rows of two classes and couples them as in [2]_,
        :math:`p_k \propto 1 / (\sum_{j \ne k} 1 / r_{kj} - (K - 2))` with the probability
        :math:`r_{kj}` of k among k and j. The cost of one-vs-one is quadratic in K.
    classes : array-like of shape (n_classes,), default=None
        All labels in column order, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    bin_edges_ : list of ndarray of shape (n_bins + 1,)
        Edges of the steps of the merged probability, for each class, for the second of two classes,
        or for each pair.
    bin_values_ : list of ndarray of shape (n_bins,)
        The merged probability.
    bin_intervals_ : list of ndarray of shape (n_bins, 2)
        :math:`p_0` and :math:`p_1`.
    pairs_ : ndarray of shape (n_pairs, 2)
        Columns of the two classes for each pair; empty without ``multi_class="ovo"``.
    classes_ : ndarray of shape (n_classes,)
        Labels in column order.
    n_features_in_ : int
        Number of columns in ``X`` during ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Column names, if ``X`` had string names.

    Warns
    -----
    UserWarning
        As for :class:`TemperatureScaling`.

    Notes
    -----
    Fitted by :func:`scipy.optimize.isotonic_regression` and its tangents, once for each class.
    All values :math:`p_0` and :math:`p_1` are computed in ``fit``, at the cost of a sort and a
    binary search, so that a prediction is one search. They equal the values of two refits for each
    test row with weight 1. Test scores within a rounding error of a calibration score are equal
    to it. Dask collections are sampled as for :class:`IsotonicCalibration`.

    For tensors, pairs of classes and intervals are computed on the host. Steps have no gradients:
    tensors that require gradients are refused.

    References
    ----------
    .. [1] Vovk, Petej, Fedorova, "Large-Scale Probabilistic Predictors with and without Guarantees
       of Validity", NeurIPS 2015, `arXiv:1511.00213 <https://arxiv.org/abs/1511.00213>`_.
    .. [2] Price, Knerr, Personnaz, Dreyfus, "Pairwise Neural Network Classifiers with
       Probabilistic Outputs", NIPS 1994.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import VennAbersCalibration
    >>> p = np.array([[0.9, 0.1], [0.7, 0.3], [0.5, 0.5], [0.3, 0.7], [0.1, 0.9]])
    >>> calibrator = VennAbersCalibration().fit(np.log(p), [0, 1, 0, 1, 1])
    >>> calibrator.predict_proba(np.log([[0.4, 0.6]])).round(3).tolist()
    [[0.4, 0.6]]
    >>> calibrator.predict_interval(np.log([[0.4, 0.6]])).round(3).tolist()
    [[[0.0, 0.667], [0.333, 1.0]]]
    """

    bin_intervals_: list[Floats]
    pairs_: Indices

    @property
    def _on_device(self) -> bool:  # type: ignore[override]
        return not len(self.pairs_)

    def __init__(
        self,
        *,
        merge: Merge = "log_loss",
        multi_class: MultiClass = "ovr",
        classes: ArrayLike | None = None,
    ) -> None:
        self.classes = classes
        self.merge = merge
        self.multi_class = multi_class

    def predict_interval(self, X: ArrayLike) -> Floats:
        r"""Return the two probabilities :math:`p_0 \le p_1` before they are merged.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes, 2)
            :math:`p_0` and :math:`p_1` for each class against the rest. For two classes, the first
            class has :math:`1 - p_1` and :math:`1 - p_0` of the second. A masked class has twice 0.
            With ``multi_class="ovo"`` and more than two classes, the second axis runs over
            ``pairs_``, and the values are for the second class of each pair. For a tensor or a Dask
            collection as :meth:`transform`.
        """
        return predict(self._fitted_for(X), X, _intervals)

    def _check(self) -> None:
        check_option("merge", self.merge, Merge)
        check_option("multi_class", self.multi_class, MultiClass)

    def _fit(self, rows: Rows) -> dict[str, Any]:
        self._check()
        one_vs_one = self.multi_class == "ovo" and rows.n_columns > 2
        pairs = columns.class_pairs(rows.n_columns if one_vs_one else 1)
        if not one_vs_one:
            return {**super()._fit(rows), "pairs_": pairs}
        fits = []
        for start in range(0, len(pairs), PAIRS_AT_A_TIME):
            chosen = pairs[start : start + PAIRS_AT_A_TIME]
            events = partial(columns.pair_events, pairs=chosen)
            scores = ScoreColumns(chosen.tolist(), events, rows)
            fits += scores.ranked(self._fit_class)
        return {**{name: [fit[name] for fit in fits] for name in fits[0]}, "pairs_": pairs}

    def _fit_class(self, rows: Ranked, unit: float = 1.0) -> dict[str, Any]:  # noqa: ARG002
        fitted = steps(rows)
        intervals = np.stack([fitted.p0, fitted.p1], axis=1)
        values = merged(fitted.p0, fitted.p1, self.merge)
        return {"bin_edges_": fitted.edges, "bin_values_": values, "bin_intervals_": intervals}

    def __getstate__(self) -> dict[str, Any]:
        # Files are half as large without merged probabilities that follow from the intervals.
        state: dict[str, Any] = super().__getstate__()
        follow = map(np.array_equal, state.get("bin_values_", []), self._merged_intervals())
        return {name: x for name, x in state.items() if name != "bin_values_" or not all(follow)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "bin_intervals_" in state and "bin_values_" not in state:
            self.bin_values_ = self._merged_intervals()

    def _merged_intervals(self) -> list[Floats]:
        """Merge the intervals of all step functions; without a fit there are none."""
        intervals = vars(self).get("bin_intervals_", [])
        return [merged(p0, p1, self.merge) for p0, p1 in (interval.T for interval in intervals)]

    def _calibrate(self, Z: Floats) -> Floats:
        if not self.pairs_.shape[0]:
            return super()._calibrate(Z)
        if isinstance(Z, np.ndarray):
            R = self._values(arrays.double(columns.pair_scores(Z, self.pairs_)))
        else:  # a graph of ONNX
            differences = Z[:, self.pairs_[:, 1]] - Z[:, self.pairs_[:, 0]]
            pair_steps = self.bin_edges_, self.bin_values_
            R = arrays.namespace(Z).step_values(differences, *pair_steps, log_odds=True)
        P = columns.coupled(R, self.pairs_, arrays.masked_logits(Z) == -np.inf)
        return columns.joined_probabilities(arrays.astype(P, Z.dtype), Z.shape[1])


def _intervals(calibrator: VennAbersCalibration, Z: Floats) -> Floats:
    """Return p0 and p1 for each class, (m, K, 2), or each pair of classes, (m, n_pairs, 2)."""
    masked, pairs = np.isneginf(Z), calibrator.pairs_
    if len(pairs):
        S = columns.pair_scores(np.where(masked, 0, Z), pairs)
        never, always = masked[:, pairs[:, 1]], masked[:, pairs[:, 0]]
    else:
        S, never = columns.probabilities(Z), masked
        always = ~masked & (masked.sum(axis=1, keepdims=True) == Z.shape[1] - 1)
    out = np.empty((*S.shape, 2), Z.dtype)
    column_steps = zip(calibrator.bin_edges_, calibrator.bin_intervals_, strict=True)
    for k, (edges, values) in enumerate(column_steps):
        out[:, k] = values[bin_index(S[:, k], edges)]
    if S.shape[1] == 1:
        out = np.concatenate([1 - out[:, :, ::-1], out], axis=1)
    if masked.any():
        out[always] = 1
        out[never] = 0
    return out
