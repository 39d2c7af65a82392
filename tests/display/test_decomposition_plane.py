"""The plane of score decompositions: points are the components, lines the scores."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from drawing import in_legend, partly_slow
from matplotlib.figure import Figure
from scipy.special import softmax
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from skcalib import TemperatureScaling
from skcalib.datasets import make_logits
from skcalib.metrics import ScoreDecomposition, ScoreDecompositionDisplay, score_decomposition

# Some models give the most probable class the least probability.
pytestmark = pytest.mark.filterwarnings("ignore::families.ColumnOrderWarning")

N = 300
RNG = np.random.default_rng(0)
CLASSES = np.array(["zoo", "bee", "ant"])
Z, Y = make_logits(N, 3, temperature=2.0, random_state=0)
WEIGHT = RNG.integers(4, size=N).astype(float)
MULTI = {
    "a": softmax(Z, axis=1),
    "b": softmax(Z / 2, axis=1),
    "c": softmax(0.3 * Z + RNG.normal(size=Z.shape), axis=1),
}
TWO = {name: P[:, 0] for name, P in MULTI.items()}
LABELS = np.stack([Y == 0, Y == 1, Y == 2], axis=1).astype(int)

SCORES = ["log_loss", "brier_score"]
KINDS = {
    "classwise": (CLASSES[Y], MULTI, {"labels": CLASSES}),
    "top-label": (Y, {"a": MULTI["a"], "b": MULTI["b"]}, {}),  # they predict the same
    "binary": (Y == 0, TWO, {}),
    "multilabel": (LABELS, MULTI, {}),
}


def drawn(y, probabilities, **params):
    return ScoreDecompositionDisplay.from_predictions(
        y, probabilities, **{"ax": Figure().subplots(), **params}
    )


@pytest.mark.parametrize(
    ("kind", "score", "weighted"), partly_slow([*KINDS], SCORES, [True, False])
)
def test_points_are_components_and_lines_are_scores(kind, score, weighted):
    y, probabilities, params = KINDS[kind]
    params = {"kind": kind, "score": score, "sample_weight": WEIGHT if weighted else None, **params}
    display = drawn(y, probabilities, **params)
    assert list(display.points_) == list(display.decompositions) == list(probabilities)
    for name, P in probabilities.items():
        parts = score_decomposition(y, P, **params)
        wanted = {k: np.mean(v) for k, v in vars(parts).items() if k != "label"}
        held = display.decompositions[name]
        for key, value in wanted.items():
            assert getattr(held, key) == pytest.approx(value)
        x, y_ = wanted["miscalibration"], wanted["discrimination"]
        np.testing.assert_allclose(display.points_[name].get_xydata(), [[x, y_]])
        assert f"{name}: {wanted['score']:#.3g}" in in_legend(display.ax_)
        assert display.uncertainty == pytest.approx(wanted["uncertainty"])
    assert f"Base rate: {display.uncertainty:#.3g}" in in_legend(display.ax_)
    assert f"Equal {score.replace('_', ' ').replace('brier', 'Brier')}" in in_legend(display.ax_)
    (low, high), (bottom, top) = display.ax_.get_xlim(), display.ax_.get_ylim()
    for point in display.points_.values():
        ((x, y_),) = point.get_xydata()
        assert low < x < high
        assert bottom < y_ < top


def test_models_stand_in_the_legend_in_order_of_their_scores():
    display = drawn(Y, MULTI)
    scores = [d.score for d in display.decompositions.values()]
    wanted = [list(MULTI)[k] for k in np.argsort(scores)]
    assert [text.split(":")[0] for text in in_legend(display.ax_)[:3]] == wanted
    handles = display.ax_.get_legend().legend_handles[:3]
    for name, handle in zip(wanted, handles, strict=True):
        point = display.points_[name]
        assert handle.get_marker() == point.get_marker()
        assert handle.get_color() == point.get_color()


def test_arrows_go_from_model_to_model():
    display = drawn(Y, MULTI, arrows=[("a", "b"), ("c", "a")])
    assert len(display.arrows_) == 2
    for arrow, (start, end) in zip(display.arrows_, [("a", "b"), ("c", "a")], strict=True):
        assert arrow.xy == tuple(display.points_[end].get_xydata()[0])
        assert arrow.xyann == tuple(display.points_[start].get_xydata()[0])
    assert drawn(Y, MULTI).arrows_ == []


def test_several_estimators_are_drawn_as_their_predictions():
    models = [DecisionTreeClassifier(max_depth=3, random_state=0), GaussianNB()]
    fitted = dict(zip("ab", (model.fit(Z, CLASSES[Y]) for model in models), strict=True))
    given = {"score": "brier_score", "sample_weight": WEIGHT, "ax": Figure().subplots()}
    one = ScoreDecompositionDisplay.from_estimator(fitted, Z, CLASSES[Y], **given)
    found = {name: model.predict_proba(Z) for name, model in fitted.items()}
    other = drawn(CLASSES[Y], found, labels=np.unique(CLASSES), **given)
    assert one.decompositions == other.decompositions
    assert one.score == other.score == "brier_score"


def test_estimators_of_several_labels():
    model = KNeighborsClassifier(9).fit(Z, LABELS)
    display = ScoreDecompositionDisplay.from_estimator(
        {"k nearest": model}, Z, LABELS, kind="multilabel", score="brier_score"
    )
    P = np.stack([p[:, 1] for p in model.predict_proba(Z)], axis=1)
    wanted = score_decomposition(LABELS, P, kind="multilabel", score="brier_score")
    assert display.decompositions["k nearest"].score == pytest.approx(np.mean(wanted.score))


@pytest.mark.slow
def test_decompositions_without_rows_can_be_drawn():
    """A model that is perfect, and one that predicts the base rate."""
    parts = {
        "perfect": ScoreDecomposition(0.0, 0.0, 0.25, 0.25),
        "constant": ScoreDecomposition(0.25, 0.0, 0.0, 0.25),
    }
    for held in (parts, {"perfect": parts["perfect"]}, {"constant": parts["constant"]}):
        display = ScoreDecompositionDisplay(held).plot(Figure().subplots())
        display.figure_.draw_without_rendering()
        assert "Equal score" in in_legend(display.ax_)
    nothing = ScoreDecomposition(0.0, 0.0, 0.0, 0.0)
    ScoreDecompositionDisplay({"nothing": nothing}).plot().figure_.draw_without_rendering()


def test_scores_of_ordered_classes():
    display = drawn(Y, MULTI, score="ranked_probability_score", kind="auto")
    wanted = score_decomposition(Y, MULTI["a"], score="ranked_probability_score")
    assert display.decompositions["a"] == wanted
    assert "Equal ranked probability score" in in_legend(display.ax_)


def test_keys_need_not_be_strings():
    calibrator = TemperatureScaling().fit(Z, Y)
    display = ScoreDecompositionDisplay.from_estimator({1: calibrator, 2: calibrator}, Z, Y)
    assert list(display.points_) == ["1", "2"]
    assert len(display.plot(arrows=[(1, 2)]).arrows_) == 1


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"y_proba": {}}, "y_proba"),
        ({"kind": "top-label"}, "same uncertainty"),
        ({"arrows": [("a", "z")]}, "arrows"),
        ({"arrows": [("a", "b", "c")]}, "arrows"),
    ],
)
def test_wrong_models_and_arrows_are_refused(change, word):
    params = {"y_proba": MULTI, **change}
    with pytest.raises(ValueError, match=word):
        ScoreDecompositionDisplay.from_predictions(Y, **params)
    assert not plt.get_fignums()


def test_wrong_decompositions_are_refused():
    with pytest.raises(ValueError, match="decompositions"):
        ScoreDecompositionDisplay([])
    with pytest.raises(ValueError, match="score"):
        ScoreDecompositionDisplay({"a": ScoreDecomposition(1, 0, 0, 1)}, score="spherical")


def test_a_single_model_needs_no_name():
    model = GaussianNB().fit(Z, Y)
    one = ScoreDecompositionDisplay.from_estimator(model, Z, Y, ax=Figure().subplots())
    other = drawn(Y, model.predict_proba(Z))
    assert [*one.points_, *other.points_] == ["GaussianNB", "Model"]
    loss = one.decompositions["GaussianNB"].score
    assert repr(one) == (
        f"<ScoreDecompositionDisplay: GaussianNB; least log loss {loss:#.3g} of GaussianNB>"
    )
    assert one.decompositions["GaussianNB"] == other.decompositions["Model"]
