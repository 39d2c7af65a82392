"""Laws of groups and of numbers of classes, over all public functions that take them."""

import numpy as np
import pandas as pd
import pytest
from public import LABELS, LOGITS, REGISTRY, N, calls

from skcalib import PriorShift

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


def test_every_fit_takes_groups():
    fits = [call for call in REGISTRY.values() if "X" in call.parameters]
    names = {c.name: c.parameters for c in fits if c.name.endswith((".fit", ".partial_fit"))}
    assert len(names) > 20
    assert {name for name, has in names.items() if "groups" not in has} <= ELSEWHERE.keys()


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
