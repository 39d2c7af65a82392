"""Laws of groups and of numbers of classes, over all public functions that take them."""

import warnings
from collections import Counter

import numpy as np
import pandas as pd
import public
import pytest
from public import LABELS, LOGITS, PROBABILITIES, REGISTRY, N, calls
from sklearn.linear_model import LogisticRegression

from skcalib import (
    AutoCalibrator,
    CalibratedClassifier,
    MultiLabelCalibrator,
    PlattScaling,
    PriorShift,
    TemperatureScaling,
)
from skcalib.conditional import ConditionalCalibrator
from skcalib.decision import bayes_decision, expected_cost
from skcalib.experimental import TopLabelCalibration
from skcalib.fusion import FusionCalibrator

GROUPS = np.arange(N) // 2
FORMS = {
    "text": GROUPS.astype(str),
    "objects": GROUPS.astype(object),
    "categories": pd.Categorical(GROUPS.astype(str)),
    "Series": pd.Series(GROUPS, index=np.arange(N)[::-1]),
    "list": GROUPS.tolist(),
}

QUICK_AND_SLOW = [
    name if name == "categories" else pytest.param(name, marks=pytest.mark.slow) for name in FORMS
]

# Everything that is fitted to logits and labels, or to features, and takes groups otherwise.
ELSEWHERE = {
    "CalibratedClassifier.fit": "as further arguments of the classifier",
    "LogitTransformer.fit": "as further arguments of the classifier",
    "ScoreTransformer.fit": "takes no labels",
}


# Without groups of the user.
OTHERS = {
    "NetBenefitDisplay": "takes numbers of groups from from_predictions",
    "ReliabilityDisplay": "takes numbers of groups from from_predictions",
    "RiskCoverageDisplay": "takes numbers of groups from from_predictions",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", QUICK_AND_SLOW)
@pytest.mark.parametrize("call", calls("groups", skip=OTHERS))
def test_groups_of_any_type(call, form):
    groups, more = FORMS[form], {}
    if "groups_all" in call.parameters:  # of twice as many rows
        more["groups_all"] = np.tile(np.asarray(groups), 2)
    if call.name == "clinical.integrated_calibration_index":
        more["confidence_level"] = 0.95  # groups change only the interval
    call(groups=groups, **more)


@pytest.mark.parametrize("call", calls("groups", "y_true"))
def test_groups_of_another_length_are_refused(call):
    with pytest.raises(ValueError, match="groups"):
        call(groups=GROUPS[:-1])


@pytest.mark.parametrize("call", calls("groups", skip=OTHERS))
def test_few_groups_give_a_warning_once_at_the_line_of_the_user(call):
    groups, more = np.arange(N) // 10, {}
    if "groups_all" in call.parameters:
        more["groups_all"] = np.tile(groups, 2)
    if call.name == "clinical.integrated_calibration_index":
        more["confidence_level"] = 0.95
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(groups=groups, **more)
    assert max(Counter(str(w.message) for w in caught).values(), default=0) <= 1
    assert {w.filename for w in caught} <= {public.__file__}


@pytest.mark.slow
@pytest.mark.usefixtures("few_resamples")
@pytest.mark.parametrize("call", calls("groups", "categorical_features", "metadata"))
def test_the_figures_of_a_report_give_no_further_warning(call):
    with pytest.warns(UserWarning, match="groups"):
        report = call(groups=np.arange(N) // 10)
    assert report.verdict_
    assert report.to_html()


def test_every_fit_takes_groups():
    fits = [call for call in REGISTRY.values() if "X" in call.parameters]
    names = {c.name: c.parameters for c in fits if c.name.endswith((".fit", ".partial_fit"))}
    assert len(names) > 20
    assert {name for name, has in names.items() if "groups" not in has} <= ELSEWHERE.keys()


class Spy(PlattScaling):
    """Calibrator that records the groups of its fits."""

    fits: list = []  # noqa: RUF012

    def fit(self, X, y, sample_weight=None, *, groups=None):
        self.fits.append(None if groups is None else list(groups))
        return super().fit(X, y, sample_weight)


AROUND = {
    "AutoCalibrator": lambda: AutoCalibrator({"a": Spy(), "b": TemperatureScaling()}, cv=2),
    "CalibratedClassifier": lambda: CalibratedClassifier(LogisticRegression(), Spy(), cv=2),
    "ConditionalCalibrator": lambda: ConditionalCalibrator({"a": Spy()}, cv=2),
    "FusionCalibrator": lambda: FusionCalibrator(2, calibrator=Spy()),
    "MultiLabelCalibrator": lambda: MultiLabelCalibrator(Spy()),
    "TopLabelCalibration": lambda: TopLabelCalibration(Spy()),
}


def test_the_law_covers_all_that_fit_a_calibrator():
    found = {param.id for name in ("calibrator", "calibrators") for param in calls(name)}
    others = {
        "CalibratorComparison",  # a result
        "NoisyLabelCalibration",  # refuses calibrators with folds
        "OnlineCalibrator",  # takes fitted calibrators
    }
    fitting = {name for name in found if name[0].isupper() and "." not in name}
    assert fitting == AROUND.keys() | others


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", AROUND)
def test_inner_calibrators_get_the_groups_of_their_rows(name):
    Spy.fits.clear()
    around, y = AROUND[name](), LABELS
    if name == "MultiLabelCalibrator":
        y = np.stack([LABELS, 1 - LABELS], axis=1)
    around.fit(LOGITS, y, groups=GROUPS)
    assert Spy.fits
    for groups in Spy.fits:
        assert groups is not None
        assert set(groups) <= set(GROUPS)


# Functions of a number for each class.
OF_CLASSES = {
    "before": lambda values: PriorShift(before=values),
    "after": lambda values: PriorShift(before=[1, 1], after=values),
    "priors": lambda values: PriorShift(priors=values),
}


def test_the_law_covers_all_numbers_of_classes():
    found = {name for name in ("before", "after", "priors", "rates") if calls(name)}
    assert found <= OF_CLASSES.keys()


@pytest.mark.parametrize("form", [dict, pd.Series])
@pytest.mark.parametrize("name", OF_CLASSES)
def test_numbers_of_classes_by_name(name, form):
    labels = np.array(["no", "yes"])[LABELS]
    wanted = OF_CLASSES[name]([0.2, 0.8]).fit(LOGITS, labels).predict_proba(LOGITS)
    found = OF_CLASSES[name](form({"yes": 0.8, "no": 0.2})).fit(LOGITS, labels)
    np.testing.assert_allclose(found.predict_proba(LOGITS), wanted)
    with pytest.raises(ValueError, match="each class"):
        OF_CLASSES[name](form({"yes": 0.8, "nein": 0.2})).fit(LOGITS, labels)


# Rows of costs in another order than the columns, by name.
COSTS = {"no": [0.0, 1.0], "yes": [10.0, 0.0]}
ROWS = ["yes", "no"]
NAMED_COSTS = {
    "frame": pd.DataFrame(COSTS, index=["send", "treat"]).T.loc[ROWS],
    "dict": {row: COSTS[row] for row in ROWS},
    "dicts": {row: dict(zip("ab", COSTS[row], strict=True)) for row in ROWS},
    "Series": pd.Series({row: COSTS[row] for row in ROWS}),
}


def of_costs():
    return {param.id for param in calls("cost")}


@pytest.mark.parametrize("form", NAMED_COSTS)
def test_costs_by_name(form):
    assert of_costs() == {"decision.bayes_decision", "decision.expected_cost"}
    labels, cost = np.array(["no", "yes"])[LABELS], NAMED_COSTS[form]
    plain = list(COSTS.values())
    wanted = expected_cost(LABELS, PROBABILITIES, plain)
    assert wanted != expected_cost(LABELS, PROBABILITIES, plain[::-1])
    assert expected_cost(labels, PROBABILITIES, cost) == pytest.approx(wanted)
    one_column = expected_cost(labels, PROBABILITIES[:, 1], cost, pos_label="yes")
    assert one_column == pytest.approx(wanted)
    frame = pd.DataFrame(PROBABILITIES, columns=["no", "yes"])
    assert (bayes_decision(frame, cost) == bayes_decision(PROBABILITIES, plain)).all()


def test_costs_with_names_that_are_not_all_classes():
    labels = np.array(["no", "yes"])[LABELS]
    frame = NAMED_COSTS["frame"]
    for cost in (frame.rename(index={"no": "none"}), {"yes": [1, 0], "none": [0, 1]}):
        with pytest.raises(ValueError, match="each class"):
            expected_cost(labels, PROBABILITIES, cost)
    with pytest.raises(ValueError, match=r"cost\.T"):
        expected_cost(labels, PROBABILITIES, frame.T)
    other = frame.loc[["no", "yes"]].set_axis(["healthy", "ill"])  # names of something else
    wanted = expected_cost(LABELS, PROBABILITIES, list(COSTS.values()))
    assert expected_cost(labels, PROBABILITIES, other) == pytest.approx(wanted)
