"""Fast or failing estimators in place of slow ones."""

from __future__ import annotations

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.naive_bayes import BernoulliNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer

import skcalib
import skcalib.conditional
import skcalib.experimental


def refuse(*_, **__):
    raise AssertionError("something was fitted, or computed")


class Unfittable(ClassifierMixin, BaseEstimator):
    """Classifier that fails in fit: invalid input must raise before the fit."""

    fit = predict_proba = refuse


class Weighable(Unfittable):
    """Unfittable classifier that accepts weights."""

    def fit(self, X, y, sample_weight=None):
        refuse()


class EstimatorCalibration(skcalib.experimental.EstimatorCalibration):
    """EstimatorCalibration with a classifier in closed form, which is fast and deterministic."""

    @staticmethod
    def _default_estimator():
        return make_pipeline(Binarizer(threshold=-1.0), BernoulliNB())


class AutoCalibrator(skcalib.AutoCalibrator):
    """AutoCalibrator with a few fast candidates and two folds."""

    def __init__(
        self,
        calibrators=None,
        *,
        cv=2,
        combine="stack",
        n_jobs=None,
        random_state=None,
        classes=None,
    ):
        super().__init__(
            calibrators,
            cv=cv,
            combine=combine,
            n_jobs=n_jobs,
            random_state=random_state,
            classes=classes,
        )

    def _candidates(self, rows):
        if self.calibrators is not None:
            return skcalib.AutoCalibrator._candidates(self, rows)
        return {
            "temperature": skcalib.TemperatureScaling(smoothing="auto"),
            "vector": skcalib.VectorScaling(tol=1e-11),
            "histogram": skcalib.HistogramBinning(n_bins=5),
        }


class ConditionalCalibrator(skcalib.conditional.ConditionalCalibrator):
    """ConditionalCalibrator with a few fast candidates and two folds."""

    def __init__(
        self,
        calibrators=None,
        *,
        cv=2,
        combine="stack",
        categorical_features="from_dtype",
        n_jobs=None,
        random_state=None,
        classes=None,
    ):
        super().__init__(
            calibrators,
            cv=cv,
            combine=combine,
            categorical_features=categorical_features,
            n_jobs=n_jobs,
            random_state=random_state,
            classes=classes,
        )

    _candidates = AutoCalibrator._candidates


# Fast stand-ins for slow calibrators, by name.
STAND_INS = {
    kind.__name__: kind for kind in (AutoCalibrator, EstimatorCalibration, ConditionalCalibrator)
}
