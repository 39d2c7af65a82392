"""Reliability diagrams store and draw the numbers of measures, and refuse other input."""

import pickle
from functools import partial
from itertools import pairwise

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from drawing import band_of, in_legend, partly_slow
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from skcalib import ReliabilityDisplay
from skcalib.metrics import expected_calibration_error, reliability_curve

N = 240
NAMES = np.array(["zoo", "bee", "ant"])
RNG = np.random.default_rng(1)
P = RNG.dirichlet([0.6, 0.8, 1.0], size=N)
Y = NAMES[np.where(RNG.uniform(size=N) < 0.7, P.argmax(axis=1), RNG.integers(3, size=N))]
W = RNG.integers(4, size=N).astype(float)
STYLES = ["bars", "dots", "corp", "smooth"]


def draw(y=Y, p=P, **params):
    """A diagram on axes of its own, unless some are given."""
    params = {"n_resamples": 2, "ax": Figure().subplots()} | params
    if np.ndim(p) == 2:
        params.setdefault("labels", NAMES)
    return ReliabilityDisplay.from_predictions(y, p, **params)


def event(p_max=1.0, n=400):
    """Labels and probabilities of a calibrated model of two classes."""
    p = np.random.default_rng(0).uniform(0, p_max, size=n)
    return np.random.default_rng(1).uniform(size=n) < p, p


def heights(bars):
    return [bar.get_height() for bar in bars]


# Numbers ------------------------------------------------------------------------------------------

BINS = [{}, {"n_bins": 4, "sample_weight": W}, {"n_bins": 40, "strategy": "quantile"}]


@pytest.mark.parametrize(("style", "bins"), partly_slow(STYLES, BINS))
def test_bins_match_the_curve(style, bins):
    display = draw(style=style, **bins)
    kept = bins.get("sample_weight", np.ones(N)) > 0
    alone = {k: v[kept] if k == "sample_weight" else v for k, v in bins.items()}
    expected = reliability_curve(Y[kept], P[kept], labels=NAMES, **alone)
    for name, values in vars(expected).items():
        np.testing.assert_array_equal(getattr(display.curve, name), values, err_msg=name)
    error = expected_calibration_error(Y, P, labels=NAMES, **bins)
    assert display.expected_calibration_error == pytest.approx(error)
    counts, edges, _ = display.counts_.get_data()
    assert counts[counts > 0].tolist() == expected.n_samples.tolist()
    assert edges[:-1][counts > 0].tolist() == expected.lower.tolist()
    assert display.counts_ax_.get_ylim() == (0, expected.n_samples.max())


def test_bars_are_accuracies_and_gaps_within_their_bins():
    display = draw(style="bars", name="A name")
    c = display.curve
    np.testing.assert_allclose(heights(display.bars_), c.accuracy)
    np.testing.assert_allclose(heights(display.gaps_), c.gap)
    for bars in (display.bars_, display.gaps_):
        np.testing.assert_allclose([bar.get_x() for bar in bars], c.lower)
        np.testing.assert_allclose([b.get_x() + b.get_width() for b in bars], c.upper)
    assert [gap.get_hatch()[0] for gap in display.gaps_] == ["\\/"[int(g > 0)] for g in c.gap]
    assert f"Accuracy (ECE {display.expected_calibration_error:.3f})" in in_legend(display.ax_)
    assert display.ax_.get_title() == "A name"
    opacity = [bar.get_facecolor()[3] for bar in display.bars_]
    np.testing.assert_allclose(opacity, c.n_samples / (c.n_samples + 10))


def test_dots_are_accuracies_at_the_confidence():
    display = draw(style="dots", name="A name")
    c = display.curve
    np.testing.assert_allclose(display.line_.get_xydata(), np.c_[c.confidence, c.accuracy])
    np.testing.assert_allclose(display.dots_.get_offsets(), np.c_[c.confidence, c.accuracy])
    assert f"A name (ECE {display.expected_calibration_error:.3f})" in in_legend(display.ax_)


@pytest.mark.parametrize("style", ["bars", "dots"])
@pytest.mark.parametrize("level", [0.5, 0.99])
def test_whiskers_are_intervals_of_the_bins(style, level):
    display = draw(style=style, confidence_level=level, sample_weight=W)
    whiskers = display.intervals_.lines[2][0]
    segments = np.array(whiskers.get_segments())
    c, order = display.curve, np.argsort(segments[:, 0, 0])
    segments, opacity = segments[order], whiskers.get_colors()[order, 3]
    np.testing.assert_allclose(opacity, c.n_samples / (c.n_samples + 10))
    x = (c.lower + c.upper) / 2 if style == "bars" else c.confidence
    np.testing.assert_allclose(segments[:, :, 0], np.column_stack([x, x]))
    np.testing.assert_allclose(segments[:, :, 1], np.column_stack(c.interval(level)), atol=1e-12)
    assert f"{100 * level:g} % interval" in in_legend(display.ax_)


@pytest.mark.parametrize("kind", ["top-label", "binary"])
@pytest.mark.parametrize("weighted", [False, True])
def test_corp_is_isotonic_regression(kind, weighted):
    y, p = event(n=200)
    p = p.round(2)
    w = RNG.integers(4, size=200).astype(float) if weighted else None
    display = draw(y, p, kind=kind, style="corp", sample_weight=w)
    score = np.maximum(p, 1 - p) if kind == "top-label" else p
    happened = (p > 0.5) == y if kind == "top-label" else y
    expected = IsotonicRegression().fit(score, happened, w)
    kept = score if w is None else score[w > 0]
    x, values = display.line_.get_data()
    np.testing.assert_allclose(np.interp(kept, x, values), expected.predict(kept), atol=1e-9)
    assert (x[0], x[-1]) == pytest.approx((kept.min(), kept.max()))


def test_response_method_chooses_the_scores():
    X, y = P[:, :2], Y == "zoo"
    svc, logistic = LinearSVC().fit(X, y), LogisticRegression().fit(X, y)

    def make(model, **params):
        return ReliabilityDisplay.from_estimator(model, X, y, ax=Figure().subplots(), **params)

    expected = reliability_curve(y, expit(svc.decision_function(X)))
    np.testing.assert_allclose(make(svc).curve.accuracy, expected.accuracy)
    for method in ("auto", "predict_proba", "decision_function"):
        found = make(logistic, response_method=method).curve
        assert found.gap == pytest.approx(reliability_curve(y, logistic.predict_proba(X)).gap)

    class Both(LogisticRegression):
        """A classifier with probabilities that are not the softmax of its scores."""

        def predict_proba(self, X):
            return 0.5 + 0.1 * (super().predict_proba(X) - 0.5)

    both = Both().fit(X, y)
    assert make(both).curve.confidence.max() < 0.56
    assert make(both, response_method="decision_function").curve.confidence.max() > 0.56
    with pytest.raises(ValueError, match="LinearSVC"):
        make(svc, response_method="predict_proba")
    with pytest.raises(ValueError, match="response_method"):
        make(svc, response_method="predict")


# Events -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("classes", "pos_label", "name"),
    [
        (["benign", "malignant"], "malignant", " of malignant"),
        (["benign", "malignant"], "benign", " of benign"),
        ([0, 1], None, " of class 1"),
        ([False, True], None, ""),
    ],
)
@pytest.mark.parametrize("columns", [1, 2])
def test_axes_name_the_event(classes, pos_label, name, columns):
    y, p = event()
    labels = np.array(classes)[y.astype(int)]
    if pos_label == classes[0] and columns == 1:
        p = 1 - p
    p = np.column_stack([1 - p, p]) if columns == 2 else p
    display = draw(labels, p, pos_label=pos_label, labels=None)
    assert display.ax_.get_xlabel() == f"Predicted probability{name}"
    assert display.ax_.get_ylabel() == "Observed frequency"
    expected = reliability_curve(labels, p, kind="binary", pos_label=pos_label)
    np.testing.assert_allclose(display.curve.accuracy, expected.accuracy)
    top = draw(labels, p, kind="top-label", pos_label=pos_label, labels=None)
    assert (top.ax_.get_xlabel(), top.ax_.get_ylabel()) == ("Confidence", "Accuracy")


@pytest.mark.parametrize(("kind", "gap"), [("auto", "Under-estimated"), ("top-label", "Over-conf")])
def test_low_risks_are_not_called_over_confident(kind, gap):
    y, p = np.arange(200) % 4 == 0, np.repeat([0.05, 0.15], 100)
    assert any(label.startswith(gap) for label in in_legend(draw(y, p, kind=kind).ax_))


def test_rare_events_have_quantile_bins_dots_and_logit_axes():
    y, p = event(0.02, 20_000)
    display = draw(y, p)
    assert display.dots_ is not None
    assert display.ax_.get_xscale() == display.ax_.get_yscale() == "logit"
    np.testing.assert_allclose(display.curve.n_samples, 20_000 / 15, atol=1)
    low, high = display.ax_.get_xlim()
    assert 0 < low < display.curve.confidence.min()
    assert display.curve.confidence.max() < high < 0.1
    assert display.counts_.get_data()[0].sum() > 0.9 * 20_000
    chosen = draw(y, p, style="bars", strategy="uniform")
    assert chosen.ax_.get_xscale() == "linear"
    assert len(chosen.bars_) == 1
    assert draw(y, p, style="corp").ax_.get_xscale() == "logit"
    assert draw(y, p, style="smooth").ax_.get_xscale() == "linear"
    assert draw(y, p, scale="linear").ax_.get_xlim() == (0, 1)
    assert draw(*event(0.1)).ax_.get_xscale() == "linear"
    weighted = draw(*event(0.1), sample_weight=np.where(event(0.1)[0], 0.01, 1))
    assert weighted.ax_.get_xscale() == "logit"


@pytest.mark.parametrize("style", ["dots", "corp"])
def test_logit_axes_show_all_models_and_frequencies_of_0_and_1(style):
    figure = Figure()
    ax = figure.subplots()
    params = {"style": style, "scale": "logit", "strategy": "quantile", "ax": ax}
    draw(*event(0.1), **params)
    narrow = ax.get_xlim()
    draw(*event(1.0), **params)
    assert ax.get_xlim()[0] <= narrow[0]
    assert ax.get_xlim()[1] > narrow[1]
    draw(
        np.ones(30), np.ones(30), labels=[0, 1], style="corp", scale="logit"
    ).figure_.draw_without_rendering()
    figure.draw_without_rendering()


# Groups -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("style", ["dots", "corp", "smooth"])
def test_by_draws_a_curve_for_each_group_and_for_all(style):
    y, p = event()
    centre = np.array(["Ulm", "Lyon", "Basel"])[np.arange(400) % 3]
    w = np.arange(400) % 4.0
    w[centre == "Ulm"] = 0
    display = draw(y, p, by=centre, style=style, sample_weight=w)
    assert list(display.displays_) == ["Basel", "Lyon"]  # rows of Ulm have no weight
    names = [label.split(" (")[0] for label in in_legend(display.ax_)]
    assert {"All", "Basel", "Lyon"} < set(names)
    for name, part in display.displays_.items():
        alone = draw(y[centre == name], p[centre == name], style=style, labels=[False, True],
                     sample_weight=w[centre == name])  # fmt: skip
        np.testing.assert_allclose(part.line_.get_xydata(), alone.line_.get_xydata())
        assert part.ax_ is display.ax_
        assert part.band_ is part.intervals_ is part.counts_ is None
    whole = draw(y, p, style=style, sample_weight=w)
    np.testing.assert_allclose(display.line_.get_xydata(), whole.line_.get_xydata())
    assert (display.band_ or display.intervals_) is not None


def test_many_groups_share_one_entry_of_the_legend():
    y, p = event()
    display = draw(y, p, by=np.arange(400) % 12)
    assert len(display.displays_) == 12
    assert "12 groups" in in_legend(display.ax_)
    assert display.strokes_ is not None  # a smooth curve by default
    assert len(in_legend(display.ax_)) == 4


@pytest.mark.parametrize(
    ("params", "word"),
    [({"style": "bars"}, "style='dots'"), ({"kind": "classwise", "ax": None}, "classwise")],
)
def test_groups_are_curves_in_a_single_diagram(params, word):
    with pytest.raises(ValueError, match=word):
        draw(by=Y, **params)
    assert not plt.get_fignums()


COPIES = 6


@pytest.mark.parametrize("weight", [None, W])
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("band", ["consistency", "confidence"])
def test_copies_of_rows_in_groups_count_once(style, band, weight):
    y, p = event(n=N)
    y, p = y[np.argsort(p)], np.sort(p)
    params = {"style": style, "band": band, "n_resamples": 9, "strategy": "quantile"}
    once = draw(y, p, random_state=0, sample_weight=weight, **params)
    copied = draw(
        y.repeat(COPIES), p.repeat(COPIES), random_state=0,
        sample_weight=None if weight is None else weight.repeat(COPIES),
        groups=np.arange(N).repeat(COPIES), **params,
    )  # fmt: skip
    if style in ("bars", "dots"):
        n, expected = copied.curve.n_effective, once.curve.n_effective
        np.testing.assert_allclose(n, expected, rtol=0.12)
        if weight is None:
            np.testing.assert_allclose(n, expected)
            (low, high), (inner_low, inner_high) = (
                shown.curve.interval(0.9) for shown in (copied, once)
            )
            assert np.all((low <= inner_low) & (inner_high <= high))
    else:
        for found, wanted in zip(band_of(copied), band_of(once), strict=True):
            np.testing.assert_allclose(found, wanted, atol=1e-9)


def test_few_groups_are_warned_of_and_independent_rows_lose_little():
    y, p = event(n=4000)
    groups = np.arange(4000) % 400
    n = draw(y, p, groups=groups, n_bins=4).curve.n_effective
    assert np.all((n <= 1000 + 100) & (n > 700))
    with pytest.warns(UserWarning, match="got 8"):
        draw(y, p, groups=np.arange(4000) % 8)
    assert draw(y, p, kind="classwise", groups=groups, ax=None).displays_[True].groups is not None


# Axes, legends and looks --------------------------------------------------------------------------


def test_new_figures_have_a_legend_outside_and_constrained_layout():
    display = draw(style="dots", ax=None)
    assert plt.get_fignums() == [display.figure_.number]
    assert type(display.figure_.get_layout_engine()).__name__ == "ConstrainedLayoutEngine"
    assert display.ax_.get_legend() is None
    draw(style="dots", ax=display.ax_, name="B")
    (legend,) = display.figure_.legends
    assert len(legend.get_texts()) == 4
    display.figure_.draw_without_rendering()
    assert legend.get_window_extent().y0 >= display.counts_ax_.get_window_extent().y1


@pytest.mark.parametrize("legend", [False, "lower right", "outside lower center"])
def test_legends_stand_where_they_are_asked_for(legend):
    display = draw(legend=legend, ax=Figure(layout="constrained").subplots())
    is_above = legend == "outside lower center"
    assert (display.ax_.get_legend() is None) == (legend is False or is_above)
    assert len(display.figure_.legends) == is_above


def test_legends_of_the_user_stay():
    figure = Figure(layout="constrained")
    ax = figure.subplots()
    own = figure.legend(ax.plot([0, 1]), ["mine"])
    for _ in range(2):
        draw(ax=ax, style="dots", legend="outside lower center")
    assert len(figure.legends) == 2
    assert figure.legends[0] is own
    assert len(figure.legends[1].get_texts()) == 4


def test_whiskers_counts_and_legend_can_be_left_out():
    display = draw(confidence_level=None, counts=False, legend=False)
    assert display.intervals_ is display.counts_ is display.counts_ax_ is display.legend_ is None
    assert display.ax_.get_xlim() == display.ax_.get_ylim() == (0, 1)
    assert not display.ax_.child_axes


def test_models_on_the_same_axes_have_their_own_looks():
    ax = Figure().subplots()
    shown = [draw(p=P ** (k + 1) / (P ** (k + 1)).sum(1, keepdims=True), style="dots", ax=ax)
             for k in range(4)]  # fmt: skip
    colours = [to_rgb(display.line_.get_color()) for display in shown]
    cycle = mpl.rcParams["axes.prop_cycle"].by_key()["color"]
    assert colours == [to_rgb(colour) for colour in cycle[:4]]
    assert len({display.line_.get_marker() for display in shown}) == 4
    labels = in_legend(ax)
    assert [label.split(" (")[0] for label in labels[:4]] == [
        "Accuracy", "Model 2", "Model 3", "Model 4",
    ]  # fmt: skip
    assert labels[4:] == ["95 % interval", "Perfect"]
    assert len(ax.child_axes) == 1
    most = max(display.curve.n_samples.max() for display in shown)
    assert shown[0].counts_ax_.get_ylim() == (0, most)
    with mpl.rc_context({"axes.prop_cycle": mpl.cycler(color=["#123456"])}):
        assert to_rgb(draw(style="corp").line_.get_color()) == to_rgb("#123456")


@pytest.mark.parametrize("styles", list(pairwise([*STYLES, STYLES[0]])))
def test_another_style_forgets_the_first(styles):
    held = {
        "bars": {"bars_", "gaps_", "intervals_"}, "dots": {"intervals_", "line_", "dots_"},
        "corp": {"line_", "band_"}, "smooth": {"line_", "strokes_", "band_"},
    }  # fmt: skip
    display = draw(style=styles[0])
    assert display.plot(Figure().subplots(), style=styles[1], n_resamples=2) is display
    drawn = {name for name in set().union(*held.values()) if getattr(display, name) is not None}
    assert drawn == held[styles[1]]


def test_representation_has_the_name_and_the_error():
    assert repr(draw(name="M")).startswith("<ReliabilityDisplay of M: 240 rows in 10 bins, ECE 0.")


# Errors -------------------------------------------------------------------------------------------


def pickled(ax):
    return pickle.loads(pickle.dumps(ax.figure)).axes[0]


@pytest.mark.parametrize("styles", [("bars", "bars"), ("bars", "dots"), ("corp", "bars")])
def test_bars_share_no_axes(styles):
    ax = draw(style=styles[0]).ax_
    for held in (ax, pickled(ax)):
        with pytest.raises(ValueError, match="style='dots'"):
            draw(style=styles[1], ax=held)
    ax.clear()
    draw(style=styles[1], ax=ax)


def test_axes_hold_one_kind_and_one_scale():
    y, p = event()
    make = partial(draw, y, p, style="dots", ax=Figure().subplots())
    make()
    for change in ({"kind": "top-label"}, {"scale": "logit"}):
        with pytest.raises(ValueError, match="other axes"):
            make(**change)


@pytest.mark.parametrize(
    ("ax", "remedy"),
    [
        (Figure(), "ax=figure.subplots"),
        (plt, r"ax=plt.gca\(\)"),
        (np.array([1, 2]), "one of them"),
        ("x", "None"),
    ],
)
def test_wrong_axes_are_named_with_the_remedy(ax, remedy):
    with pytest.raises(ValueError, match=remedy):
        draw(ax=ax)
    with pytest.raises(ValueError, match="ax="):
        draw(ax=ax, kind="classwise")


@pytest.mark.parametrize("style", ["bars", "smooth"])
@pytest.mark.parametrize("kind", ["auto", "classwise"])
def test_logit_axes_are_for_dots_and_steps(style, kind):
    with pytest.raises(ValueError, match="style='dots'"):
        draw(style=style, kind=kind, scale="logit", ax=None)
    assert not plt.get_fignums()


def test_curves_need_rows_with_weight():
    curve = reliability_curve(Y, P, labels=NAMES)
    assert ReliabilityDisplay(curve).plot(Figure().subplots(), style="dots").line_ is not None
    for style in ("corp", "smooth"):
        with pytest.raises(ValueError, match="rows="):
            ReliabilityDisplay(curve).plot(style=style)
    rows = draw().rows._replace(weight=np.zeros(N))
    with pytest.raises(ValueError, match="weight"):
        ReliabilityDisplay(curve, rows=rows)
