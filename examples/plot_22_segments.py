"""
22. One model, six subjects, before and after
=============================================

A model answers questions on six subjects, and its over- or under-confidence differs between
subjects. Measures over all rows do not show this. A calibrator that knows the subject corrects each
subject.
"""

# %%
# The simulated logits of four answers have a temperature for each subject. One half of the rows is
# for calibration, and the other half for evaluation.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.special import softmax

from skcalib import AutoCalibrator
from skcalib.conditional import ConditionalCalibrator, SegmentDisplay, multicalibration_error
from skcalib.datasets import make_logits
from skcalib.metrics import expected_calibration_error

rng = np.random.default_rng(0)
temperatures = {
    "algebra": 1.0, "anatomy": 1.1, "ethics": 0.7, "law": 1.7, "physics": 1.2, "religions": 0.6,
}  # fmt: skip
subject = rng.choice(list(temperatures), size=8000)
features = pd.DataFrame({"subject": subject, "length": rng.lognormal(3, 1, size=8000).round()})
logits, y = make_logits(8000, 4, temperature=1.0, random_state=0)
logits *= features.subject.map(temperatures).to_numpy()[:, None]
fit, test = slice(4000), slice(4000, None)

# %%
# Three models are compared: without calibration, with the default calibrator, and with the default
# calibrator given the subject. The second feature, the length of the question, has no effect here.

pooled = AutoCalibrator(random_state=0).fit(logits[fit], y[fit])
subjects = features[["subject"]]
given = ConditionalCalibrator(random_state=0).fit(logits[fit], y[fit], features=subjects[fit])
probabilities = {
    "uncalibrated": softmax(logits[test], axis=1),
    "pooled": pooled.predict_proba(logits[test]),
    "given the subject": given.predict_proba(logits[test], features=subjects[test]),
}

# %%
# The expected calibration error of all rows is nearly the same for the last two. The largest gap
# of a segment, in standard deviations, separates them. Its p-value says whether the gap is more
# than chance.

found = {
    name: multicalibration_error(y[test], P, features[test], random_state=0)
    for name, P in probabilities.items()
}
pd.DataFrame(
    {
        "ECE": {name: expected_calibration_error(y[test], P) for name, P in probabilities.items()},
        "largest gap": {name: result.statistic for name, result in found.items()},
        "p-value": {name: result.pvalue for name, result in found.items()},
        "worst segment": {name: result.segment[0] for name, result in found.items()},
    }
).round(3)

# %%
# Bars show the worst segments of both calibrators, with simultaneous intervals of all segments.
# Segments with bars to the right are over-confident. Faint bars may be chance.

figure, axes = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained", sharex=True)
for ax, name in zip(axes, ["pooled", "given the subject"], strict=True):
    SegmentDisplay(found[name], name=name).plot(ax, n_segments=8)
