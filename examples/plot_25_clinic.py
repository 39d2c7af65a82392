"""
25. Validating a risk model
===========================

A model of the risk of malignant tumours, fitted to few patients and validated on others:
calibration in the large, slope, integrated calibration index, and a decision curve, before and
after recalibration.
"""

# %%
# Measurements of 569 breast tumours, of which 37 % are malignant. A logistic regression without
# regularization of ten features on 100 patients fits noise. The others are divided into those that
# recalibrate the model and those that validate it.

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
# The figures of a validation. The slope of the developed model is far below 1: its risks are too
# extreme. The c-statistic is the same after recalibration, which keeps the order of the patients.

from sklearn.metrics import roc_auc_score

from skcalib.clinical import calibration_intercept, calibration_slope, integrated_calibration_index
from skcalib.metrics import calibration_test


def with_interval(found):
    return f"{found.estimate:.2f} ({found.low:.2f} to {found.high:.2f})"


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
# The decision curve: at which thresholds of the risk a biopsy that the model decides on does more
# good than one for everyone, or for none.

ax = None
for name, p in risks.items():
    display = NetBenefitDisplay.from_predictions(
        y, p, name=name, thresholds=np.linspace(0.01, 0.8, 80), ax=ax
    )
    ax = display.ax_

# %%
# The difference of the two at a threshold of 30 %, with its interval: with so few patients no
# difference can be seen there.

from functools import partial

from skcalib.clinical import net_benefit
from skcalib.metrics import calibration_difference

calibration_difference(
    y, risks["recalibrated"], risks["developed"],
    measure=partial(net_benefit, threshold=0.3), random_state=0,
)  # fmt: skip

# sphinx_gallery_thumbnail_number = 2
