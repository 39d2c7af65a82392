"""
23. Three classifiers, one probability
======================================

Three classifiers of different kinds see the same table. Their fusion is calibrated, and better than
each classifier. ``VotingClassifier`` and ``StackingClassifier`` of scikit-learn are compared.
"""

# %%
# The task: hand-written digits with noise, ten classes. Half of the rows are for evaluation.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier, StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler

from skcalib import LogitTransformer, ReliabilityDisplay
from skcalib.fusion import FusionCalibrator
from skcalib.metrics import expected_calibration_error

X, y = load_digits(return_X_y=True)
X = X + np.random.default_rng(0).normal(scale=6, size=X.shape)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
classifiers = [
    ("forest", RandomForestClassifier(random_state=0)),
    ("line", make_pipeline(StandardScaler(), LogisticRegression())),
    ("bayes", GaussianNB()),
]

# %%
# In a pipeline, ``LogitTransformer`` fits each classifier across folds, so that the fusion sees
# held-out logits. ``FeatureUnion`` puts them side by side, and names them in a data frame.

models = FeatureUnion([(name, LogitTransformer(model)) for name, model in classifiers])
fusion = make_pipeline(models, FusionCalibrator()).set_output(transform="pandas")
combined = {
    **dict(classifiers),
    "voting": VotingClassifier(classifiers, voting="soft"),
    "stacking": StackingClassifier(classifiers, LogisticRegression(max_iter=1000)),
    "fusion": fusion,
}
probabilities = {name: model.fit(X, y).predict_proba(X_test) for name, model in combined.items()}
pd.DataFrame(
    {
        "log loss": {name: log_loss(y_test, P) for name, P in probabilities.items()},
        "accuracy": {n: accuracy_score(y_test, P.argmax(axis=1)) for n, P in probabilities.items()},
        "ECE": {n: expected_calibration_error(y_test, P) for n, P in probabilities.items()},
    }
).round(3)

# %%
# The report of the fusion has log losses of held-out rows. The last column says what the loss would
# be without each classifier.

report = fusion[-1]
pd.DataFrame(
    {"alone": report.loss_report_, "without it": report.leave_one_out_, "weight": report.weights_}
).round(3)

# %%
# Voting is under-confident: the mean of probabilities that disagree is too close to uniform. The
# bars of the fusion are closest to the diagonal.

figure, axes = plt.subplots(1, 3, figsize=(9, 4.2), layout="constrained")
entries = {}
for ax, name in zip(axes, ["voting", "stacking", "fusion"], strict=True):
    display = ReliabilityDisplay.from_predictions(y_test, probabilities[name], ax=ax, legend=False)
    ax.set_title(f"{name}\nECE {display.expected_calibration_error:.3f}", fontsize="medium")
    for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
        entries[label.split(" (")[0]] = handle
for ax in axes[1:]:
    ax.set_ylabel("")
figure.legend(entries.values(), entries, loc="outside lower center", ncols=5, frameon=False)
plt.show()
