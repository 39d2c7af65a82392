"""Measures by name, from scorers, of probabilities that are computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import signature
from typing import Any, ClassVar, NamedTuple

import numpy as np
import sklearn.metrics
from sklearn.base import BaseEstimator, ClassifierMixin

from skcalib._input.arrays import check_in_memory
from skcalib._input.measures import check_kind, check_measure
from skcalib._typing import Array, Floats, Indices, Kind

from ._names import measure_name
from ._proper_scores import mean_over_rows, ranked_probability_score
from ._scorers import CalibrationScorer, calibration_scorer

Scorer = Callable[..., float]


class Measures:
    """The log loss, and the measures that ``scoring`` names, of probabilities.

    ``kind`` is passed to calibration errors by name, and ``order``, if it is known, to measures of
    ordered classes. ``others`` are more scorers by name. Raise a ValueError for a measure that
    would load Dask collections, such as ``logits``, into memory.
    """

    LOG_LOSS = "log loss"

    #: The best value is marked for proper scores only, which should choose calibrators.
    PROPER = frozenset({LOG_LOSS, "Brier", "brier_score"})

    #: Means over rows. Calibration errors are none, although some rows cannot tell the difference.
    MEANS = PROPER | {"accuracy", "ranked_probability_score"}

    #: Names in scikit-learn, by title, of the measures of every comparison.
    EVERY: ClassVar = {
        LOG_LOSS: "neg_log_loss",
        "Brier": "neg_brier_score",
        "ECE": "neg_expected_calibration_error",
        "RMSCE": "neg_root_mean_squared_calibration_error",
        "MCE": "neg_maximum_calibration_error",
        "classwise ECE": "neg_classwise_calibration_error",
        "accuracy": "accuracy",
    }

    def __init__(
        self,
        scoring: Any,
        logits: Any,
        kind: Kind = "auto",
        order: Array | None = None,
        others: Mapping[str, Scorer] | None = None,
    ) -> None:
        check_kind(kind, ["auto", "top-label", "binary", "classwise"])
        self.scorers = [_measure(self.LOG_LOSS, "neg_log_loss", kind, order)]
        log_losses = calibration_scorer("neg_log_loss"), sklearn.metrics.get_scorer("neg_log_loss")
        for name, scorer in named(scoring).items():
            if not isinstance(name, str):
                raise ValueError(f"Names of measures in scoring must be strings, got {name!r}.")
            is_log_loss = (isinstance(scorer, str) and measure_name(scorer) == "log_loss") or any(
                type(scorer) is type(one) and vars(scorer) == vars(one) for one in log_losses
            )
            if name == self.LOG_LOSS and not is_log_loss:
                raise ValueError(
                    f"{name!r} in scoring is the name of a column of every comparison, got "
                    f"{scorer!r} for it. Choose another name."
                )
            if name != self.LOG_LOSS:
                other = (others or {}).get(scorer) if isinstance(scorer, str) else None
                self.scorers.append(_measure(name, other or scorer, kind, order))
        for measure in self.scorers:
            if not measure.takes_rows:
                check_in_memory(
                    [logits],
                    "For Dask collections, scoring must name measures of skcalib, 'neg_log_loss', "
                    f"'neg_brier_score' or 'accuracy', got {measure.name!r}.",
                )

    @property
    def names(self) -> list[str]:
        """Names of the measures."""
        return [measure.name for measure in self.scorers]

    @property
    def greater_is_better(self) -> tuple[str, ...]:
        """Names of the measures that are no errors."""
        return tuple(measure.name for measure in self.scorers if measure.sign > 0)

    def __call__(self, P: Any, classes: Array, Z: Any, y: Any, w: Any) -> dict[str, float]:
        """Return the measures, by name, of the probabilities of test rows.

        ``P`` are (n, K), ``classes`` (K,), ``Z`` logits or features (n, ...), ``y`` labels (n,) and
        ``w`` weights (n,) or None.
        """
        # Scorers of scikit-learn take columns to be in the order of the sorted labels.
        order = np.argsort(classes)
        classes, P = classes[order], P[:, order].astype(np.float64, copy=False)
        if all(measure.takes_rows for measure in self.scorers):  # one check for all of them
            P, y, w = check_measure(y, P, w, classes), None, None
        predictions = Predictions(classes, P)
        return {measure.name: measure(predictions, Z, y, w) for measure in self.scorers}


class Predictions(ClassifierMixin, BaseEstimator):
    """A fitted classifier for scorers, with probabilities that are computed once."""

    def __init__(self, classes_: Array, P: Floats) -> None:
        self.classes_ = classes_
        self.P = P

    def predict_proba(self, X: Any) -> Floats:  # noqa: ARG002
        """Return the probabilities."""
        return self.P

    def predict(self, X: Any) -> Array:  # noqa: ARG002
        """Return the most probable classes."""
        return self.classes_[self.P.argmax(axis=1)]


class NamedScorer(NamedTuple):
    """A scorer with its name and sign: errors asked for by name are shown as positive."""

    name: str
    scorer: Scorer
    sign: int

    @property
    def takes_rows(self) -> bool:
        """Whether the measure takes checked rows in place of probabilities.

        Scorers of several labels do not, and functions of users do not.
        """
        if not isinstance(self.scorer, CalibrationScorer):
            return False
        is_ours = getattr(self.scorer.measure, "__module__", "").startswith("skcalib.metrics.")
        return is_ours and self.scorer.params.get("kind") != "multilabel"

    def __call__(self, predictions: Predictions, Z: Any, y: Any, w: Any) -> float:
        weights = {} if w is None else {"sample_weight": w}
        return float(self.sign * self.scorer(predictions, Z, y, **weights))


def named(scoring: Any) -> Mapping[Any, Any]:
    """Return scorers, or their names, by their names in the comparison."""
    if scoring is None:
        return Measures.EVERY
    if isinstance(scoring, Mapping):
        return scoring
    listed = [scoring] if isinstance(scoring, str) or not isinstance(scoring, Iterable) else scoring
    names = list(listed)
    nameless = [scorer for scorer in names if not isinstance(scorer, str)]
    if nameless:
        raise ValueError(
            "scoring must hold names of scorers, or be a dict where scorers themselves get names, "
            f"got {nameless[0]!r}. Pass scoring={{'my measure': scorer}}."
        )
    plain = [name.removeprefix("neg_") for name in names]
    return {
        Measures.LOG_LOSS if p == "log_loss" else p: s for p, s in zip(plain, names, strict=True)
    }


def _measure(name: str, scorer: Any, kind: Kind, order: Array | None) -> NamedScorer:
    if isinstance(scorer, str):
        # Accuracy by predictions of scikit-learn would load Dask collections into memory.
        if scorer == "accuracy":
            return NamedScorer(name, CalibrationScorer(_accuracy, {}, sign=1), 1)
        one = calibration_scorer(scorer)
        if isinstance(one, CalibrationScorer) and "kind" in signature(one.measure).parameters:
            one.params = {"kind": kind} | one.params
        if isinstance(one, CalibrationScorer) and one.measure is ranked_probability_score:
            one.params = {"order": order} | one.params
        is_error = scorer.startswith("neg_") or measure_name(scorer) is not None
        return NamedScorer(name, one, -1 if is_error else 1)
    if not callable(scorer):
        raise ValueError(
            "A measure in scoring must be the name of a scorer or a function scorer(estimator, X, "
            f"y), got {scorer!r} for {name!r}."
        )
    return NamedScorer(name, scorer, 1)


def _accuracy(y_true: Any, y_proba: Any, *, sample_weight: Any = None, labels: Any = None) -> float:
    def hits(P: Floats, y: Indices) -> Floats:
        return (P.argmax(axis=1) == y).astype(np.float64)

    return mean_over_rows(hits, y_true, y_proba, sample_weight, labels)
