"""Names with $ or _ are drawn literally in every picture."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text
from scipy.special import softmax

from skcalib import (
    ConfidenceDisplay,
    ReliabilityDisplay,
    TemperatureScaling,
    TemperatureSweepDisplay,
    calibration_report,
    compare_calibrators,
)
from skcalib.conditional import SegmentDisplay
from skcalib.datasets import make_logits
from skcalib.decision import RiskCoverageDisplay
from skcalib.monitor import CalibrationMonitor

# Invalid mathtext with a first character that makes matplotlib omit labels from legends.
NAME = r"_costs $\frac$ 5 $x_$"
Z, Y = make_logits(100, 3, random_state=0)
P = softmax(Z, axis=1)
FITTED = TemperatureScaling().fit(Z, Y)


def two_models(name):
    first = ReliabilityDisplay.from_predictions(Y, P, style="dots", name=name)
    other = ReliabilityDisplay.from_predictions(Y, P, style="dots", name="b", ax=first.ax_)
    return other.figure_


def of_classes(name):
    labels = np.array([name, "b", "c"])
    return ReliabilityDisplay.from_predictions(
        labels[Y], P, kind="classwise", labels=labels, name=name
    ).figure_


def compared(name):
    members = {name: TemperatureScaling()}
    found = compare_calibrators(Z, Y, calibrators=members, scoring={name: "accuracy"}, cv=2)
    return found.plot(measure=name).figure


def watched(name):
    monitor = CalibrationMonitor(labels=range(3)).update(Y, P)
    return ReliabilityDisplay(monitor.curve(), name=name).plot().figure_


def swept(name):
    return TemperatureSweepDisplay.from_estimator(FITTED, Z, Y, name=name).figure_


def swept_on_one(name):
    ax = plt.figure().subplots()
    return TemperatureSweepDisplay.from_estimator(FITTED, Z, Y, name=name, ax=ax).figure_


def of_segments(name):
    columns = pd.DataFrame({name: np.arange(len(Y)) % 2})
    return SegmentDisplay.from_predictions(Y, P, columns, name=name, n_resamples=9).figure_


# Each picture and the number of times that the name appears in it.
PICTURES = {
    "bars": (lambda name: ReliabilityDisplay.from_predictions(Y, P, name=name).figure_, 1),
    "dots": (two_models, 1),
    "corp": (
        lambda name: ReliabilityDisplay.from_predictions(Y, P, style="corp", name=name).figure_, 1
    ),
    "of a fitted classifier": (
        lambda name: ReliabilityDisplay.from_estimator(FITTED, Z, Y, name=name).figure_, 1
    ),
    "classes": (of_classes, 2),
    "confidence": (lambda name: ConfidenceDisplay.from_predictions(Y, P, name=name).figure_, 1),
    "risk": (lambda name: RiskCoverageDisplay.from_predictions(Y, P, name=name).figure_, 1),
    "segments": (of_segments, 3),
    "sweep": (swept, 1),
    "sweep on one": (swept_on_one, 1),
    "report": (lambda name: calibration_report(FITTED, Z, Y, name=name).figure_, 1),
    "comparison": (compared, 2),
    "monitor": (watched, 1),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("picture", PICTURES)
def test_names_are_drawn_as_they_are_written(picture):
    draw, times = PICTURES[picture]
    figure = draw(NAME)
    figure.set_layout_engine("none")  # takes several drawings
    figure.draw_without_rendering()
    drawn = [text for text in figure.findobj(Text) if NAME in text.get_text() and shown(text)]
    assert len(drawn) == times
    assert not any(text.get_parse_math() for text in drawn)


def shown(text):
    return text.get_visible() and text.get_window_extent().width > 0
