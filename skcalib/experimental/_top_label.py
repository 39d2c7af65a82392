"""Top-label calibration."""

from __future__ import annotations

from typing import Any

import numpy as np

from skcalib._fits import fit_to_rows, log_probabilities
from skcalib._input.estimators import check_calibrator, check_order
from skcalib._input.labels import shown
from skcalib._input.parameters import check_real
from skcalib._optimize.mixture import mixture
from skcalib._rows import Rows
from skcalib._typing import ArrayLike, Floats, Indices
from skcalib._warnings import Messages, ProbabilitiesWarning, give, recorded
from skcalib.base import BaseCalibrator, both_columns
from skcalib.scaling import PlattScaling

# Classes of the inner calibrators: 1 if the top label is the label.
WRONG_OR_RIGHT = np.arange(2)


class TopLabelCalibration(BaseCalibrator):
    r"""Top-label calibration: a binary calibrator of the confidence for each predicted class.

    The top label :math:`t` of a row is the class with the largest logit. Its log-odds are the
    margin :math:`m = \log(p_t / (1 - p_t))`, with :math:`p = \mathrm{softmax}(z)`. For each top
    label a binary calibrator :math:`g_t` is fitted to the event that the top label is right. The
    confidence

    .. math:: \hat p_t = h_t(m), \qquad
        h_t = \frac{n_t\, g_t + s\, g}{n_t + s} ,

    is then the frequency of correct predictions among rows with this top label and this confidence.
    :math:`n_t` is the weight of the calibration rows with top label t, :math:`g` the pooled
    calibrator for the margins of all rows, and :math:`s` the ``shrinkage``. The remaining
    probability is divided among the other classes in proportion to their probabilities,

    .. math:: \hat p_k = (1 - \hat p_t) \frac{p_k}{1 - p_t} , \qquad k \ne t .

    Parameters
    ----------
    calibrator : calibrator, default=None
        A binary calibrator. Clones are fitted to the margins as one column of log-odds, with labels
        1 for correct and 0 for wrong predictions. None means :class:`PlattScaling`; [1]_ uses
        ``HistogramBinning(strategy="quantile")``.
    shrinkage : float, default=20.0
        Weight of the pooled calibrator, in rows. 0 does not use the pooled calibrator, except for
        classes without a calibrator.
    classes : array-like of shape (n_classes,), default=None
        All labels in column order, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    calibrators_ : list of calibrators
        The calibrator :math:`g_t` for each class. It is the pooled calibrator if the class was
        never predicted, or if its predictions in the calibration rows are all correct or all wrong.
    pooled_calibrator_ : calibrator
        The calibrator :math:`g` for all rows.
    shares_ : ndarray of shape (n_classes,)
        The shares :math:`n_t / (n_t + s)`; 0 for classes with the pooled calibrator.
    classes_ : ndarray of shape (n_classes,)
        Labels in column order.
    n_features_in_ : int
        Number of columns in ``X`` during ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Column names, if ``X`` had string names.

    Warns
    -----
    UserWarning
        If a binary calibrator warns, with its top label; if weights sum to far less than the
        number of rows, and as for :class:`TemperatureScaling`.

    See Also
    --------
    ConditionalCalibrator : Calibration within segments that features define.

    Notes
    -----
    ``predict`` returns the top label of the logits, even if another class has a larger calibrated
    probability. Two classes have two calibrators, one for each prediction.

    Only the confidence is calibrated. For over-confident logits put temperature scaling before
    it, as in ``make_pipeline(TemperatureScaling(), TopLabelCalibration())``.

    If all predictions are correct, or all are wrong, the pooled calibrator is :class:`PlattScaling`
    with smoothed targets. Rows with a single class that is not masked do not count.

    Dask collections with more than a million rows are sampled. With scikit-learn's
    ``array_api_dispatch``, tensors are copied to the host, and outputs are tensors like ``X``.

    References
    ----------
    .. [1] Gupta, Ramdas, "Top-label calibration and multiclass-to-binary reductions", ICLR 2022,
       `arXiv:2107.08353 <https://arxiv.org/abs/2107.08353>`_.

    Examples
    --------
    >>> from sklearn.metrics import log_loss
    >>> from sklearn.pipeline import make_pipeline
    >>> from skcalib import TemperatureScaling
    >>> from skcalib.experimental import TopLabelCalibration
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(4000, 3, random_state=0)
    >>> logits[:, 0] += 1  # so that the first class is predicted too often
    >>> scaling = TemperatureScaling()
    >>> losses = [
    ...     log_loss(y[2000:], calibrator.fit(logits[:2000], y[:2000]).predict_proba(logits[2000:]))
    ...     for calibrator in (scaling, make_pipeline(scaling, TopLabelCalibration()))
    ... ]
    >>> [round(loss, 3) for loss in losses]
    [0.616, 0.613]
    """

    calibrators_: list[Any]
    pooled_calibrator_: Any
    shares_: Floats

    _keeps_predictions = True
    _has_class_parameters = False
    _passes_groups_on = True

    def __init__(
        self,
        calibrator: Any = None,
        *,
        shrinkage: float = 20.0,
        classes: ArrayLike | None = None,
    ) -> None:
        self.classes = classes
        self.calibrator = calibrator
        self.shrinkage = shrinkage

    def _fit(self, rows: Rows) -> dict[str, Any]:
        calibrator = PlattScaling() if self.calibrator is None else self.calibrator
        check_real("shrinkage", self.shrinkage, closed=True)
        check_calibrator(calibrator, rows.w)
        check_order(calibrator, WRONG_OR_RIGHT)
        tops = rows.map(_tops).in_memory()
        margins, top = _event_rows(tops)
        one_sided = (margins.y == margins.y[0]).all()
        with recorded(ProbabilitiesWarning) as messages:
            pooled = fit_to_rows(PlattScaling() if one_sided else calibrator, margins)
        n_classes = max(rows.n_columns, 2)
        # Binary calibrators need both events, so other classes use the pooled calibrator.
        calibrators, weight = [pooled] * n_classes, np.zeros(n_classes)
        messages_by_class: dict[Any, Messages] = {"all rows": messages}
        for members in _rows_by_class(top):
            part, k = margins.take(members), int(top[members[0]])
            if (part.y[1:] != part.y[:1]).any():
                with recorded(ProbabilitiesWarning) as messages_by_class[k]:
                    calibrators[k] = fit_to_rows(calibrator, part)
                weight[k] = part.weight
        give(messages_by_class.items(), lambda counts: f"Top label in column {shown(counts)}")
        return {
            "calibrators_": calibrators,
            "pooled_calibrator_": pooled,
            "shares_": weight / np.where(weight > 0, weight + float(self.shrinkage), 1),
        }

    def _calibrate(self, Z: Floats) -> Floats:
        top, margin, S = top_and_rest(both_columns(Z))
        confidence = self._confidence(margin, top)[:, None]
        S = np.where(top[:, None] == np.arange(S.shape[1]), confidence, S)
        return S[:, 1:] - S[:, :1] if Z.shape[1] == 1 else S

    def _confidence(self, margin: Floats, top: Indices) -> Floats:
        """Return calibrated log-odds (m,) for margins and top labels (m,)."""
        Z = _clip_margins(margin)
        pooled = L = log_probabilities(self.pooled_calibrator_, Z, WRONG_OR_RIGHT)
        if not isinstance(L, np.ndarray):  # an ONNX graph has branches for all classes
            for k in np.flatnonzero(self.shares_).tolist():
                L = np.where((top == k)[:, None], self._mixed(k, Z, pooled), L)
        else:
            for rows in _rows_by_class(top):
                k = int(top[rows[0]])
                L[rows] = self._mixed(k, Z[rows], L[rows])
        return L[:, 1] - L[:, 0]

    def _mixed(self, k: int, Z: Floats, pooled: Floats) -> Floats:
        """Mix pooled log-probabilities (m, 2) with log-probabilities by the calibrator of class k.

        ``Z`` are margins (m, 1).
        """
        share = self.shares_[k]
        if not share > 0:
            return pooled
        by_class = log_probabilities(self.calibrators_[k], Z, WRONG_OR_RIGHT)
        parts = np.stack([by_class, pooled])
        return by_class if share == 1 else mixture(parts, np.array([share, 1 - share]))


def top_and_rest(Z: Floats) -> tuple[Indices, Floats, Floats]:
    """Split logits into the top label (m,), its margin (m,), and the other classes (m, K).

    ``Z`` are logits (m, K), one column per class. The other classes are log-probabilities,
    conditional on the top label being wrong, and -inf for the top label. The margin is infinite
    where all other classes are masked.
    """
    top = np.argmax(Z, axis=1)
    is_top = top[:, None] == np.arange(Z.shape[1])
    below = np.where(is_top, -np.inf, Z - np.max(Z, axis=1, keepdims=True))
    lowest = np.finfo(Z.dtype).min / 2  # a bound for differences between logits
    second = np.maximum(np.max(below, axis=1, keepdims=True), lowest)
    below = below - second
    with np.errstate(divide="ignore"):
        others = np.log(np.sum(np.exp(below), axis=1))
    below = below - np.where(others > -np.inf, others, 0.0)[:, None]
    return top, -(second[:, 0] + others), below


def _tops(Z: Floats, *_: Any) -> Floats:
    """Return the margin and the column of the top label: (m, 2)."""
    top, margin = top_and_rest(both_columns(Z))[:2]
    return np.column_stack([margin, top]).astype(Z.dtype)


def _clip_margins(margin: Floats) -> Floats:
    """Return margins (m, 1) as log-odds, clipped to the largest that calibrators accept."""
    largest = float(np.finfo(margin.dtype).max) / 4
    return np.minimum(margin, largest)[:, None]


def _event_rows(tops: Rows) -> tuple[Rows, Indices]:
    """Return rows of margins, with class 1 if the top label is right, and their top labels (n,).

    The columns of ``tops`` (n, 2) are margins and top labels. Rows with a single possible class
    are left out. If there are no other rows, one row remains.
    """
    X = tops.X[:]  # of many rows, X is computed when it is indexed
    margin, top = X[:, 0], X[:, 1].astype(np.intp)
    is_uncertain = np.isfinite(margin)
    if not is_uncertain.any():
        one = Rows(np.zeros((1, 1), tops.dtype), np.array([1]), classes=WRONG_OR_RIGHT)
        return one, top[:1]
    rows = tops.replace(X=_clip_margins(margin), classes=WRONG_OR_RIGHT, masked=False, order=None)
    rows = rows.relabel(lambda y: (y == top).astype(np.intp))
    return rows.take(is_uncertain), top[is_uncertain]


def _rows_by_class(top: Indices) -> list[Indices]:
    """Return the row numbers for each class in ``top`` (n,)."""
    order = np.argsort(top, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(top[order])) + 1)
