"""Top-label calibration, and the partial pooling of calibrators of groups of rows that it uses.

A group has the probabilities of its own calibrator with the share ``n / (n + s)``, where ``n`` is
the weight of its calibration rows and ``s`` the shrinkage, and otherwise the pooled ones.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from skcalib import _nested as nested
from skcalib._base import BaseCalibrator
from skcalib._optimize.mixture import mixture
from skcalib._rows import Array, Floats, Indices, MemoryRows, Rows, arrays as xa, both_columns
from skcalib._scores.columns import top_and_rest
from skcalib._validation.inputs import check_real
from skcalib._warnings import Messages, ProbabilitiesWarning, recorded
from skcalib.scaling import PlattScaling

# The classes of the inner calibrators: whether the top label is the label.
WRONG_OR_RIGHT = np.arange(2)


class TopLabelCalibration(BaseCalibrator):
    r"""Top-label calibration: a binary calibrator of the confidence for each predicted class.

    The top label of a row is the class :math:`t` of its largest logit, and the margin
    :math:`m = \log(p_t / (1 - p_t))` its log-odds, with :math:`p = \mathrm{softmax}(z)`. The rows
    with the same top label have a binary calibrator :math:`g_t` of their own, fitted to the event
    that the label is the top label, so that the confidence

    .. math:: \hat p_t = h_t(m), \qquad
        h_t = \frac{n_t\, g_t + s\, g}{n_t + s} ,

    is the frequency of right predictions among rows with this top label and this confidence.
    :math:`n_t` is the weight of the calibration rows of the class, :math:`g` the pooled calibrator
    of the margins of all rows, and :math:`s` the ``shrinkage``. The rest is divided among the other
    classes in proportion to their probabilities,

    .. math:: \hat p_k = (1 - \hat p_t) \frac{p_k}{1 - p_t} , \qquad k \ne t .

    Parameters
    ----------
    calibrator : calibrator, default=None
        A binary calibrator, of which clones are fitted to the margins as one column of log-odds
        and to labels that are 1 for right predictions and 0 for wrong ones. None stands for
        :class:`PlattScaling`; [1]_ has ``HistogramBinning(strategy="quantile")``.
    shrinkage : float, default=20.0
        Weight of the pooled calibrator, in rows. With 0 each class has its own calibrator alone,
        unless it has none.
    classes : array-like of shape (n_classes,), default=None
        All labels in the order of the columns of ``X``, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    calibrators_ : list of calibrators
        The calibrator :math:`g_t` of each class; the pooled one for a class whose predictions in
        the calibration rows are all right or all wrong, or which was never predicted.
    pooled_calibrator_ : calibrator
        The calibrator :math:`g` of all rows.
    shares_ : ndarray of shape (n_classes,)
        The shares :math:`n_t / (n_t + s)`; 0 for classes that have the pooled calibrator.
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the columns.
    n_features_in_ : int
        Number of columns of ``X`` seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Names of the columns, where ``X`` had string names.

    Warns
    -----
    UserWarning
        If a binary calibrator warns, with the top label that it is of; if weights sum to far less
        than the number of rows, and as for :class:`TemperatureScaling`.

    See Also
    --------
    ConditionalCalibrator : Segments of rows that are given, as features.

    Notes
    -----
    *Predictions.* ``predict`` gives the top label of the logits, to which the confidence belongs.
    Where a confidence falls below the probability of another class, ``predict_proba`` is largest
    for that class: it is not raised to keep the order, which would undo the calibration of classes
    that are predicted too often. Two classes have two calibrators, one for each prediction.

    *The other classes.* Only the confidence is calibrated. With over-confident logits the
    probabilities of the other classes are too far apart, which scaling before it corrects, as in
    ``make_pipeline(TemperatureScaling(smoothing="auto"), TopLabelCalibration())``. It changes no
    top label.

    *Few rows.* If all predictions of all rows are right, or all wrong, the pooled calibrator is
    :class:`PlattScaling`, whose targets are smoothed, whatever ``calibrator`` is. Rows of which
    all classes but one are masked are certain, and not counted.

    Row-chunked Dask collections send two numbers per row, the margin and the top label, to the
    client, for up to 8 million rows; outputs are lazy.

    With scikit-learn's ``array_api_dispatch``, tensors are fitted and calibrated on the host, and
    outputs are tensors like ``X``.

    References
    ----------
    .. [1] Gupta, Ramdas, "Top-label calibration and multiclass-to-binary reductions", ICLR 2022,
       `arXiv:2107.08353 <https://arxiv.org/abs/2107.08353>`_.

    Examples
    --------
    >>> from sklearn.metrics import log_loss
    >>> from sklearn.pipeline import make_pipeline
    >>> from skcalib import TemperatureScaling, TopLabelCalibration
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(4000, 3, random_state=0)
    >>> logits[:, 0] += 1  # so that the first class is predicted too often
    >>> scaling = TemperatureScaling()
    >>> losses = [
    ...     log_loss(y[2000:], calibrator.fit(logits[:2000], y[:2000]).predict_proba(logits[2000:]))
    ...     for calibrator in (scaling, make_pipeline(scaling, TopLabelCalibration()))
    ... ]
    >>> losses[1] < losses[0]
    True
    """

    _keeps_predictions = True
    # The loop over the classes has an overhead, which fewer rows would not outweigh.
    _rows_at_least = 1 << 12

    def __init__(
        self,
        calibrator: Any = None,
        *,
        shrinkage: float = 20.0,
        classes: ArrayLike | None = None,
    ) -> None:
        super().__init__(classes=classes)
        self.calibrator = calibrator
        self.shrinkage = shrinkage

    def _fit(self, rows: Rows) -> dict[str, Any]:
        calibrator = PlattScaling() if self.calibrator is None else self.calibrator
        check_real("shrinkage", self.shrinkage, closed=True)
        nested.check_calibrator(calibrator, rows.w)
        nested.check_order(calibrator, WRONG_OR_RIGHT)
        tops = rows.with_logits(rows.map(_tops)).in_memory()
        margins = _of_events(tops.X, tops.y, tops.w)
        one_sided = (margins.y == margins.y[0]).all()
        n_classes = max(rows.n_columns, 2)
        pooled = PlattScaling() if one_sided else None
        fitted = fit_groups(calibrator, margins, n_classes, pooled)
        nested.warn_of_groups("Top label in column", range(n_classes), fitted.messages)
        return {
            "calibrators_": fitted.calibrators,
            "pooled_calibrator_": fitted.pooled,
            "shares_": fitted.shares(float(self.shrinkage)),
        }

    def _calibrate(self, Z: Floats) -> Floats:
        top, margin, S = top_and_rest(both_columns(Z))
        S = xa.put(S, self._confidence(margin, top)[:, None], xa.is_event(top, S.shape[1]))
        return S[:, 1:] - S[:, :1] if Z.shape[1] == 1 else S

    def _confidence(self, margin: Floats, top: Indices) -> Floats:
        """Calibrated log-odds of the top labels of a block of rows."""
        fitted = self.pooled_calibrator_, self.calibrators_, self.shares_
        L = log_probabilities_of_groups(*fitted, _bounded(margin), top, WRONG_OR_RIGHT)
        return L[:, 1] - L[:, 0]


def _tops(Z: Floats, *_: Any) -> Floats:
    """Margin and number of the top label of each row of a block: (m, 2)."""
    top, margin = top_and_rest(both_columns(Z))[:2]
    return np.column_stack([margin, top]).astype(Z.dtype)


def _bounded(margin: Floats) -> Floats:
    """Margins as one column of log-odds, as large as those that calibrators take."""
    largest = float(np.finfo(margin.dtype).max) / 4
    return xa.at_most(margin, largest)[:, None]


def _of_events(tops: Floats, y: Array, w: Floats | None) -> MemoryRows:
    """Rows of margins in groups of top labels, with whether this is the label as the class.

    Without rows of a single possible class; if there are no others, one row stands for them.
    """
    margin, top = tops[:, 0], tops[:, 1].astype(np.intp)
    some = np.isfinite(margin)
    if not some.any():
        margin, y, top, w, some = np.zeros(1, tops.dtype), top[:1], top[:1], None, np.array([True])
    events = (y == top).astype(np.intp)
    rows = MemoryRows(_bounded(margin), events, w, classes=WRONG_OR_RIGHT, groups=top)
    return rows.taken(some)


def members(group: Indices) -> Iterator[tuple[int, Indices]]:
    """The number of each group that has rows, and the numbers of its rows."""
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    starts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    for low, high in pairwise([0, *starts.tolist(), len(group)]):
        yield int(ordered[low]), order[low:high]


class Fitted(NamedTuple):
    """The calibrator of all rows, those of the groups, and what the groups weigh.

    Groups without rows, or whose rows are all of one class, have the pooled calibrator, and no
    weight.
    """

    pooled: Any
    calibrators: list[Any]
    weight: Floats
    messages: dict[Any, Messages]  #: warnings by the number of the group, or "all rows"

    def shares(self, shrinkage: float) -> Floats:
        """The share of the own calibrator of each group."""
        return self.weight / np.where(self.weight > 0, self.weight + shrinkage, 1)


def fit_groups(calibrator: Any, rows: MemoryRows, n_groups: int, pooled: Any = None) -> Fitted:
    """Copies of the calibrator fitted to all rows and to those of each group, 0 to n_groups - 1.

    ``pooled`` replaces the calibrator of all rows.
    """
    with recorded(ProbabilitiesWarning) as messages:
        of_all = nested.fit_to_rows(pooled or calibrator, rows)
    found = Fitted(of_all, [of_all] * n_groups, np.zeros(n_groups), {"all rows": messages})
    for k, numbers in members(rows.groups):
        part = rows.taken(numbers)
        if (part.y[1:] != part.y[:1]).any():
            with recorded(ProbabilitiesWarning) as found.messages[k]:
                found.calibrators[k] = nested.fit_to_rows(calibrator, part)
            found.weight[k] = part.weight
    return found


def log_probabilities_of_groups(
    pooled: Any,
    calibrators: Sequence[Any],
    shares: Floats,
    Z: Floats,
    group: Indices,
    classes: Array,
) -> Floats:
    """Logarithms (m, K) of the mixed probabilities, for checked logits of rows of some groups."""

    def mixed(k: int, Z: Floats, pooled: Floats) -> Floats:
        own = nested.log_probabilities(calibrators[k], Z, classes)
        if shares[k] == 1:
            return own
        parts = xa.namespace(own).stack([own, pooled])
        return mixture(parts, np.array([shares[k], 1 - shares[k]]))

    L = nested.log_probabilities(pooled, Z, classes)
    if not isinstance(L, np.ndarray):  # a graph that is built, for whichever groups
        xp, everywhere = xa.namespace(L), L
        for k in np.flatnonzero(shares).tolist():
            L = xp.where((group == k)[:, None], mixed(k, Z, everywhere), L)
        return L
    for k, some in members(group):
        if shares[k] > 0:
            L[some] = mixed(k, Z[some], L[some])
    return L
