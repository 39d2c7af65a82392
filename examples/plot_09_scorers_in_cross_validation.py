"""
9. Calibration errors as scorers in cross-validation
====================================================

Scorers for the calibration error can be passed to scikit-learn as ``scoring``. Here they show the
effect of regularization on a logistic regression, and why a model should not be selected by the
ECE.
"""

# %%
# Ten regularization strengths, five folds, three scorers.

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcalib.metrics import calibration_scorer

X, y = load_digits(return_X_y=True)
X, y = X[:600], y[:600]
strengths = np.logspace(-6, 3, 10)
names = ["neg_expected_calibration_error", "neg_log_loss", "accuracy"]

search = GridSearchCV(
    make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
    {"logisticregression__C": strengths},
    scoring={name: calibration_scorer(name) for name in names},
    refit="neg_log_loss",
    cv=StratifiedKFold(5, shuffle=True, random_state=0),
).fit(X, y)
results = search.cv_results_

# %%
# On the left, with the strongest regularization, the model predicts nearly the base rates, one in
# ten for each class. Its ECE is small, but it does not discriminate between the classes. In the
# middle the accuracy is high and the confidence still low. This far better model has the largest
# ECE. On the right the model is calibrated and accurate.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(3, 1, sharex=True, figsize=(6, 6), layout="constrained")
for ax, name, label in zip(axes, names, ["ECE", "Log loss", "Accuracy"], strict=True):
    mean, sd = results[f"mean_test_{name}"], results[f"std_test_{name}"]
    ax.errorbar(strengths, -mean if name.startswith("neg_") else mean, sd, fmt="o-")
    ax.axvline(search.best_params_["logisticregression__C"], color="#D55E00", linestyle="--")
    ax.set(xscale="log", ylabel=label)
axes[0].set_title("Means and standard deviations of folds; dashed: lowest log loss", size="medium")
axes[-1].set_xlabel("Inverse regularization strength, C")
plt.show()

# %%
# So select models by a proper scoring rule, as ``refit`` does above, and use the calibration error
# to describe the selected model.

for i, what in {0: "strongest regularization", search.best_index_: "lowest log loss"}.items():
    ece, loss, accuracy = (abs(results[f"mean_test_{name}"][i]) for name in names)
    print(f"{what}: ECE {ece:.3f}, log loss {loss:.3f}, accuracy {accuracy:.3f}")
