"""
21. Validating a risk model
===========================

A risk model of malignant tumours is fitted to few patients and validated on other patients. The
example shows calibration in the large, slope, integrated calibration index and a decision curve,
before and after recalibration.
"""

# %%
# The data are measurements of 569 breast tumours, with 37 % malignant tumours. A logistic
# regression with ten features and nearly no regularization fits noise in 100 patients. Another 200
# patients recalibrate the model, and the remaining patients validate it.

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcalib import PlattScaling, ReliabilityDisplay
from skcalib.clinical import NetBenefitDisplay

X, benign = load_breast_cancer(return_X_y=True)
X, y = X[:, [1, 4, 5, 8, 9, 11, 14, 18, 19, 28]], 1 - benign
X_development, X, y_development, y = train_test_split(X, y, train_size=100, random_state=1)
X_calibration, X, y_calibration, y = train_test_split(X, y, train_size=200, random_state=0)
model = make_pipeline(StandardScaler(), LogisticRegression(C=1e4, max_iter=10_000))
model.fit(X_development, y_development)
platt = PlattScaling().fit(model.predict_log_proba(X_calibration), y_calibration)
risks = {
    "developed": model.predict_proba(X)[:, 1],
    "recalibrated": platt.predict_proba(model.predict_log_proba(X))[:, 1],
}

# %%
# The slope of the developed model is far below 1: its risks are too extreme. Recalibration keeps
# the order of the patients, so the c-statistic does not change.

from sklearn.metrics import roc_auc_score

from skcalib.clinical import calibration_intercept, calibration_slope, integrated_calibration_index
from skcalib.metrics import calibration_test


def with_interval(result):
    return f"{result.estimate:.2f} ({result.low:.2f} to {result.high:.2f})"


pd.DataFrame(
    {
        name: {
            "c-statistic": f"{roc_auc_score(y, p):.2f}",
            "calibration in the large": with_interval(calibration_intercept(y, p)),
            "calibration slope": with_interval(calibration_slope(y, p)),
            "ICI": f"{integrated_calibration_index(y, p):.3f}",
            "E90": f"{integrated_calibration_index(y, p, quantile=0.9):.3f}",
            "Spiegelhalter's p": f"{calibration_test(y, p, measure='spiegelhalter_z').pvalue:.3f}",
        }
        for name, p in risks.items()
    }
)

# %%
# Calibration curves. Few patients have risks in the middle, where curves are uncertain.

ax = None
for name, p in risks.items():
    display = ReliabilityDisplay.from_predictions(
        y, p, name=name, style="smooth", confidence_level=None, ax=ax
    )
    ax = display.ax_

# %%
# The decision curve shows the net benefit by threshold. The model is useful at thresholds where
# its curve is above both lines: a biopsy for everyone, and a biopsy for nobody.

ax = None
for name, p in risks.items():
    display = NetBenefitDisplay.from_predictions(
        y, p, name=name, thresholds=np.linspace(0.01, 0.8, 80), ax=ax
    )
    ax = display.ax_

# %%
# This is the net benefit of the recalibrated model at a threshold of 30 %, minus the net benefit of
# the developed model. The patients are too few to
# show a difference there: the interval contains zero.

from functools import partial

from skcalib.clinical import net_benefit
from skcalib.metrics import calibration_difference

calibration_difference(
    y, risks["developed"], risks["recalibrated"],
    measure=partial(net_benefit, threshold=0.3), random_state=0,
)  # fmt: skip

# %%
# One call makes the report of a validation: these figures with intervals, a calibration curve and a
# decision curve with bands, as a page by ``report.to_html("report.html")``.

import textwrap

from skcalib import validation_report

report = validation_report(y, risks["developed"], name="Developed model", random_state=0)
print(*(textwrap.fill(sentence, 90) for sentence in report.verdict_), sep="\n\n")
{title: str(value) for title, value in report.risk_.items()}

# sphinx_gallery_thumbnail_number = 2
