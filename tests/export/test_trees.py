"""Trees as arrays: the probabilities of scikit-learn, bit for bit."""

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
from skcalib.export._classifiers import Trees, check_trees, trees_of


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
        at = trees.threshold_[trees.feature_ >= 0][:, None]
        at = np.vstack([at, np.nextafter(at, np.inf), np.nextafter(at, -np.inf)])
        np.testing.assert_array_equal(trees.predict_proba(at), classifier.predict_proba(at))


def chain(n, n_others):
    """A tree of n inner nodes, one below the other, and others that are leaves alone."""
    k, leaves = np.arange(n), n + 1 + n_others
    trees = Trees()
    trees.classes_, trees.n_features_in_, trees.link_ = np.arange(2), 1, "mean"
    trees.baseline_ = np.zeros(2)
    trees.root_ = np.append(0, 2 * n + 1 + np.arange(n_others))
    trees.feature_ = np.append(np.zeros(n, int), np.full(leaves, -1))
    trees.threshold_ = np.append(k, np.zeros(leaves)).astype(float)
    trees.left_ = np.append(n + k, np.arange(leaves))
    trees.right_ = np.append(k + 1, np.zeros(leaves, int))
    trees.right_[n - 1] = 2 * n
    ends = np.eye(2)[np.arange(n + 1) % 2]
    trees.value_ = np.vstack([ends, np.tile([0.5, 0.5], (n_others, 1))])
    return trees


def test_paths_of_all_lengths():
    """Also in one tree that is much deeper than the others."""
    n, n_others = 3000, 500
    trees = chain(n, n_others)
    check_trees(trees)
    X = np.array([0.0, 0.5, 7, n - 1, n])
    wanted = (np.eye(2)[[0, 1, 1, (n - 1) % 2, n % 2]] + n_others / 2) / (n_others + 1)
    np.testing.assert_allclose(trees.predict_proba(X[:, None]), wanted, rtol=1e-12)
    with pytest.raises(ValueError, match="expecting 1 features"):
        trees.predict_proba(X[:, None] * [1, 2])


# What is wrong with one node of a chain of three nodes and another tree: its attribute, number and
# value.
FAULTS = [
    ("right_", 1, 0),  # a cycle
    ("right_", 1, 1),
    ("right_", 1, 8),
    ("left_", 1, 1),
    ("left_", 1, 8),
    ("left_", 4, -1),  # leaves without values
    ("left_", 4, 5),
    ("feature_", 1, 1),
    ("root_", 1, -1),
    ("root_", 1, 8),
    ("value_", 0, np.nan),
]


@pytest.mark.parametrize(("name", "number", "value"), FAULTS)
def test_faults_of_nodes(name, number, value):
    trees = chain(3, 1)
    check_trees(trees)
    getattr(trees, name)[number] = value
    with pytest.raises(ValueError, match="children are later ones"):
        check_trees(trees)


@pytest.mark.parametrize("name", ["left_", "right_", "feature_", "root_", "threshold_", "value_"])
@pytest.mark.parametrize("change", [lambda a: a * 1j, lambda a: a[None], lambda a: a[:0]])
def test_faults_of_arrays(name, change):
    trees = chain(3, 1)
    setattr(trees, name, change(getattr(trees, name)))
    with pytest.raises(ValueError, match=r"later ones|no identity"):
        check_trees(trees)


def test_other_classifiers_have_none():
    X, y = make_logits(50, 2, random_state=0)
    assert trees_of(GradientBoostingClassifier(n_estimators=1).fit(X, y)) is None
    categories = HistGradientBoostingClassifier(
        max_iter=1, min_samples_leaf=1, categorical_features=[0]
    )
    X = np.repeat([[0.0], [1.0], [2.0]], 20, axis=0)
    assert trees_of(categories.fit(X, np.repeat([0, 1, 0], 20))) is None
