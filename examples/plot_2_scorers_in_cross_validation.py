"""
Calibration errors in cross-validation
======================================

Scorers for the calibration error work wherever scikit-learn takes ``scoring``. Here they show what
regularisation does to a logistic regression, and why the ECE should not choose the model.
"""

# %%
# Twelve strengths of regularisation, five folds, three scorers.

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

# %%
# With strong regularisation (left) the model is hardly surer than chance, though it is mostly
# right: under-confident. Where it becomes as sure as it is right, the ECE is smallest.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(3, 1, sharex=True, figsize=(6, 6), layout="constrained")
for ax, name, label in zip(axes, names, ["ECE", "Log loss", "Accuracy"], strict=True):
    sign = -1 if name.startswith("neg_") else 1
    values = sign * search.cv_results_[f"mean_test_{name}"]
    ax.semilogx(strengths, values, "o-", color="#0072B2")
    best = values.argmin() if sign < 0 else values.argmax()
    ax.plot(strengths[best], values[best], "o", color="#D55E00", markersize=9, label="best")
    ax.set_ylabel(label)
axes[0].legend()
axes[-1].set_xlabel("Inverse strength of regularisation, C")
plt.show()

# %%
# A model that has learned nothing can have an ECE of nearly zero, because it says so:

from sklearn.dummy import DummyClassifier

dummy = DummyClassifier(strategy="prior").fit(X, y)
for label, model in {"prior": dummy, "logistic regression": search.best_estimator_}.items():
    scores = {name: get_scorer(name)(model, X, y) for name in names}
    print(label, {name: round(float(score), 3) for name, score in scores.items()})

# %%
# So let the log loss choose, which is what ``refit`` above says, and read the calibration error to
# know what is wrong with what was chosen.

print(f"C chosen by log loss: {search.best_params_['logisticregression__C']:g}")
