"""Trees as arrays: the probabilities of scikit-learn, bit for bit."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from threadpoolctl import threadpool_limits

from skcalib.datasets import make_logits
from skcalib.export._trees import Trees, faults_of, trees_of


@pytest.fixture(autouse=True)
def _one_thread():
    """Threads of gradient boosting wait for one another, for long on a machine that is busy."""
    with threadpool_limits(1, user_api="openmp"):
        yield


CLASSIFIERS = [
    ExtraTreesClassifier(5, min_samples_leaf=3, random_state=0),
    RandomForestClassifier(3, max_leaf_nodes=9, random_state=0),
    HistGradientBoostingClassifier(max_iter=4, max_leaf_nodes=4, random_state=0),
    HistGradientBoostingClassifier(max_iter=9, early_stopping=True, random_state=0),
]


@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=repr)
@pytest.mark.parametrize("K", [2, 3, 12])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_probabilities_are_those_of_the_classifier(classifier, K, dtype):
    # Private attributes of scikit-learn are behind this: it is what notices that they changed.
    X, y = make_logits(250, K, random_state=0)
    w = np.random.default_rng(0).integers(1, 3, len(y)).astype(float)
    classifier.fit(X, y + 5, sample_weight=w)
    trees = trees_of(classifier)
    X = np.vstack([X, X.round(1), 1e30 * X]).astype(dtype)  # also at thresholds
    for rows in (X, X[:1], X[:9]):
        P = trees.predict_proba(rows)
        np.testing.assert_array_equal(P, classifier.predict_proba(rows))
        assert P.dtype == np.float64
    np.testing.assert_array_equal(trees.classes_, classifier.classes_)


def test_a_row_at_a_threshold_goes_left():
    X = np.arange(4.0)[:, None]
    boosting = HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=1)
    forest = ExtraTreesClassifier(2, random_state=0)
    for classifier in (boosting, forest):
        trees = trees_of(classifier.fit(X, [0, 0, 1, 1]))
        at = trees.threshold[trees.feature >= 0][:, None]
        at = np.vstack([at, np.nextafter(at, np.inf), np.nextafter(at, -np.inf)])
        np.testing.assert_array_equal(trees.predict_proba(at), classifier.predict_proba(at))


def test_paths_of_all_lengths():
    """Also in one tree that is much deeper than the others, and without end in none."""
    n, n_others = 3000, 500
    k = np.arange(n)
    left, right = np.append(n + k, n + np.arange(n + 1)), np.append(k + 1, n + np.arange(n + 1))
    right[n - 1] = 2 * n
    others = 2 * n + 1 + np.arange(n_others)
    trees = Trees(
        classes_=np.arange(2),
        n_features_in_=1,
        link="mean",
        single=False,
        baseline=np.zeros(2),
        root=np.append(0, others),
        feature=np.append(np.zeros(n, int), np.full(n + 1 + n_others, -1)),
        threshold=np.append(k, np.zeros(n + 1 + n_others)).astype(float),
        left=np.append(left, others),
        right=np.append(right, others),
        value=np.vstack([np.eye(2)[np.arange(n + 1) % 2], np.tile([0.5, 0.5], (n_others, 1))]),
    )
    assert not faults_of(trees)
    X = np.array([0.0, 0.5, 7, n - 1, n])
    wanted = (np.eye(2)[[0, 1, 1, (n - 1) % 2, n % 2]] + n_others / 2) / (n_others + 1)
    np.testing.assert_allclose(trees.predict_proba(X[:, None]), wanted, rtol=1e-12)
    cycle = replace(trees, right=np.where(np.arange(len(trees.right)) < n, 0, trees.right))
    assert "children" in faults_of(cycle)
    cycle.predict_proba(X[:, None])  # comes to an end


def test_other_classifiers_have_none():
    X, y = make_logits(50, 2, random_state=0)
    assert trees_of(GradientBoostingClassifier(n_estimators=1).fit(X, y)) is None
    categories = HistGradientBoostingClassifier(
        max_iter=1, min_samples_leaf=1, categorical_features=[0]
    )
    X = np.repeat([[0.0], [1.0], [2.0]], 20, axis=0)
    assert trees_of(categories.fit(X, np.repeat([0, 1, 0], 20))) is None
