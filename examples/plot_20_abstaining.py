"""
20. Abstaining with a promised error rate
=========================================

A network that reads digits is wrong for one digit in eight. A person reads the digits with the
lowest confidence, so that at most 5 % of the remaining predictions are wrong.
"""

# %%
# The example compares the bundled network with the same network after matrix scaling. One half of
# the test digits chooses the threshold, and the other half shows the result.

import numpy as np
from scipy.special import softmax

from skcalib import MatrixScaling
from skcalib.datasets import load_digits_logits
from skcalib.decision import RiskCoverageDisplay, area_under_risk_coverage, selective_threshold

digits = load_digits_logits()
calibrator = MatrixScaling().fit(digits.logits_calibration, digits.y_calibration)
probabilities = {
    "uncalibrated": softmax(digits.logits_test, axis=1),
    "matrix scaling": calibrator.predict_proba(digits.logits_test),
}
half = np.random.default_rng(0).permutation(len(digits.y_test)) < len(digits.y_test) // 2

# %%
# The diagram shows the share of errors among the accepted digits (risk) by the share of accepted
# digits (coverage). Matrix scaling changes predictions, so the error rate of all rows differs, on
# the right.

display = None
for name, P in probabilities.items():
    ax = display.ax_ if display else None
    display = RiskCoverageDisplay.from_predictions(digits.y_test, P, name=name, ax=ax)
ax = display.ax_
_ = ax.axhline(0.05, color="grey", linewidth=1)

# %%
# The area under this curve (AURC) depends on the error rate and on the order of the confidences.
# The excess over the area of the best order compares only the order.

import pandas as pd

pd.DataFrame(
    {
        "AURC": {
            name: area_under_risk_coverage(digits.y_test, P) for name, P in probabilities.items()
        },
        "excess": {
            name: area_under_risk_coverage(digits.y_test, P, excess=True)
            for name, P in probabilities.items()
        },
    }
).round(4)

# %%
# The thresholds come from one half of the rows and keep the risk below 5 % with a confidence of 95
# %. The coverage and the risk are measured on the other half. Both models keep the promise. Matrix
# scaling has the better confidences and answers more often.

rows = []
for name, P in probabilities.items():
    threshold = selective_threshold(digits.y_test[half], P[half], risk=0.05).threshold
    accepted = ~half & (P.max(axis=1) >= threshold)
    wrong = P.argmax(axis=1)[accepted] != digits.y_test[accepted]
    rows.append([name, threshold, accepted.sum() / (~half).sum(), wrong.mean()])
pd.DataFrame(rows, columns=["model", "threshold", "coverage", "risk"]).set_index("model").round(3)

# sphinx_gallery_thumbnail_number = 1
