"""The identity as a calibrator: a reference in comparisons, searches and mixtures."""

from __future__ import annotations

from typing import Any

from skcalib._rows import Rows
from skcalib._typing import Floats
from skcalib.base import BaseCalibrator


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
