"""
Calibration errors in cross-validation
======================================

Scorers for the calibration error work wherever scikit-learn takes ``scoring``. Here they show what
regularisation does to a logistic regression, and why the ECE should not choose the model.
"""

# %%
# Ten strengths of regularisation, five folds, three scorers.

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcalib.metrics import get_scorer

X, y = load_digits(return_X_y=True)
X, y = X[:600], y[:600]
strengths = np.logspace(-6, 3, 10)
names = ["neg_expected_calibration_error", "neg_log_loss", "accuracy"]

search = GridSearchCV(
    make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
    {"logisticregression__C": strengths},
    scoring={name: get_scorer(name) for name in names},
    refit="neg_log_loss",
    cv=StratifiedKFold(5, shuffle=True, random_state=0),
).fit(X, y)
results = search.cv_results_

# %%
# On the left, under the strongest regularisation, the model knows next to nothing: it gives every
# class a probability of about one in ten, and is right about as often. Its ECE is small all the
# same, because it does not claim to know more. In the middle it is mostly right but hardly surer
# than before: under-confident, with the largest ECE of all, though it is a far better model. On
# the right it has become as sure as it is right.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(3, 1, sharex=True, figsize=(6, 6), layout="constrained")
for ax, name, label in zip(axes, names, ["ECE", "Log loss", "Accuracy"], strict=True):
    mean, sd = results[f"mean_test_{name}"], results[f"std_test_{name}"]
    ax.errorbar(strengths, -mean if name.startswith("neg_") else mean, sd, fmt="o-")
    ax.axvline(search.best_params_["logisticregression__C"], color="#D55E00", linestyle="--")
    ax.set(xscale="log", ylabel=label)
axes[0].set_title("Mean and spread over folds; dashed: chosen by log loss")
axes[-1].set_xlabel("Inverse strength of regularisation, C")
plt.show()

# %%
# So let a proper score choose, which is what ``refit`` above says, and read the calibration error
# to know what is wrong with what was chosen.

for i, what in {0: "knows nothing", search.best_index_: "chosen by log loss"}.items():
    ece, loss, accuracy = (abs(results[f"mean_test_{name}"][i]) for name in names)
    print(f"{what}: ECE {ece:.3f}, log loss {loss:.3f}, accuracy {accuracy:.3f}")
