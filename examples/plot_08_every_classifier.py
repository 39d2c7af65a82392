"""
8. Calibration of eleven scikit-learn classifiers
=================================================

How much does calibration improve eleven classifiers on two data sets, and which calibrator is the
best for each?
"""

# %%
# Two data sets: scikit-learn's digits, and a simulated problem with label noise, where the
# probabilities are not close to 0 or 1.

import warnings

from sklearn.datasets import load_digits, make_classification
from sklearn.model_selection import train_test_split

data = {
    "digits": load_digits(return_X_y=True),
    "label noise": make_classification(1500, 20, n_informative=8, flip_y=0.2, random_state=0),
}

# %%
# The classifiers have their default parameters, except for some that shorten the fit. Some have
# ``predict_proba``, others only ``decision_function``; one is a pipeline, one a grid search.

from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

classifiers = {
    "LogisticRegression": LogisticRegression(max_iter=3000),
    "LinearSVC": LinearSVC(),
    "SVC": SVC(),
    "RandomForest": RandomForestClassifier(50, random_state=0),
    "HistGradientBoosting": HistGradientBoostingClassifier(
        max_iter=10, learning_rate=0.25, random_state=0
    ),
    "GaussianNB": GaussianNB(),
    "KNeighbors": KNeighborsClassifier(),
    "MLP": MLPClassifier((50,), learning_rate_init=0.003, max_iter=50, random_state=0),
    "SGD": SGDClassifier(random_state=0),
    "Pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
    "GridSearchCV": GridSearchCV(GaussianNB(), {"var_smoothing": [1e-9, 1e-3, 0.1]}, cv=3),
}

# %%
# :class:`~skcalib.LogitTransformer` turns each classifier into a transformer. Calibrators are
# fitted to out-of-fold logits of the training half and evaluated on logits of the test half. Each
# classifier is fitted once per fold for all calibrators.

import re

import pandas as pd
from sklearn.exceptions import ConvergenceWarning

from skcalib import LogitTransformer, compare_calibrators

found = {}
for problem, (X, y) in data.items():
    X_fit, X_test, y_fit, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
    for name, classifier in classifiers.items():
        logits = LogitTransformer(classifier, cv=3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            Z_fit = logits.fit_transform(X_fit, y_fit)
            found[problem, name] = compare_calibrators(
                Z_fit,
                y_fit,
                test=(logits.transform(X_test), y_test),
                scoring={"ECE": "neg_expected_calibration_error"},
            )


def table(measure):
    """A row for each classifier, a column for each calibrator."""
    frame = pd.DataFrame(
        {key: dict(zip(c.names, c.mean(measure), strict=True)) for key, c in found.items()}
    ).T
    frame = frame[["uncalibrated", *sorted(frame.columns.drop("uncalibrated"))]].round(3)
    return frame.rename(columns=lambda name: re.sub("Scaling|Binning|Calibration", "", name))


# %%
# Compare calibrators by the log loss on the test half:

table("log loss")

# %%
# The expected calibration error with 15 bins:

table("ECE")

# %%
# The heat map shows the change of the log loss by each calibrator, averaged over the data sets.
# Blue is an improvement.

import matplotlib.pyplot as plt

losses = table("log loss")
change = losses.drop(columns="uncalibrated").sub(losses["uncalibrated"], axis=0)
change = change.groupby(level=1).mean().loc[list(classifiers)]

figure, ax = plt.subplots(figsize=(9, 6), layout="constrained")
image = ax.imshow(change, cmap="RdBu_r", vmin=-0.5, vmax=0.5, aspect="auto")
ax.set_xticks(range(change.shape[1]), change.columns, rotation=30, ha="right")
ax.set_yticks(range(len(change)), change.index)
for row, name in enumerate(change.index):
    for column, value in enumerate(change.loc[name]):
        color = "white" if abs(value) > 0.3 else "black"
        text = f"{value:+.2f}".replace("-0.00", "0.00").replace("+0.00", "0.00")
        ax.text(column, row, text, ha="center", va="center", color=color, fontsize="small")
figure.colorbar(image, label="change of the log loss", extend="both")
plt.show()

# %%
# The improvement depends on the classifier. Naive Bayes and nearest neighbours are strongly
# over-confident, and so are the margins of ``SGDClassifier``, which are not on the scale of
# log-odds; the margins of support vector machines and the votes of a forest are under-confident.
# Logistic regression, boosting and the network are nearly calibrated.
#
# The log loss of AutoCalibrator is within 0.02 of the lowest for every classifier, and is often the
# lowest. The parametric calibrators rarely increase the log loss. BBQ, isotonic regression and
# Venn-Abers predictors increase it a little for classifiers of the digits that are nearly
# calibrated, because there are few rows for ten classes.
#
# On the data with label noise, the miscalibration is not linear in the log-odds. There BBQ,
# isotonic regression, Venn-Abers predictors and order-preserving scaling are better than
# temperature, Platt, vector and matrix scaling, and splines are a little better still. The votes
# of nearest neighbours have few distinct values, and isotonic regression and Venn-Abers predictors
# are best for them.
#
# Histogram binning predicts zero for classes without calibration rows in a bin. On the digits it
# has one of the lowest calibration errors, and its log loss is often higher than without
# calibration. Choose by the log loss.
