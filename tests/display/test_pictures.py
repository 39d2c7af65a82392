"""Laws of all pictures: artists hold what the measures say, and every argument gets there."""

import itertools
from functools import partial

import numpy as np
import pytest
from drawing import in_legend, partly_slow
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from scipy.special import expit, logit, softmax
from sklearn.metrics import log_loss

from skcalib import (
    ConfidenceDisplay,
    ReliabilityDisplay,
    TemperatureScaling,
    TemperatureSweepDisplay,
    VectorScaling,
)
from skcalib._output.theme import Theme, faded
from skcalib.datasets import make_logits
from skcalib.display._style import MARKERS
from skcalib.metrics import expected_calibration_error, reliability_curve, score_decomposition

N = 240
STYLES = ["bars", "dots", "corp"]


class Fixed:
    """A classifier that hands out its input."""

    def __init__(self, classes):
        self.classes_ = classes

    def predict_proba(self, X):
        return X


@pytest.fixture
def rows():
    """Labels, probabilities, classes in the order of the columns, and weights with zeros."""
    rng = np.random.default_rng(1)
    P = rng.dirichlet([0.6, 0.8, 1.0], size=N)
    y = np.where(rng.uniform(size=N) < 0.7, P.argmax(axis=1), rng.integers(3, size=N))
    names = np.array(["zoo", "bee", "ant"])
    return names[y], P, names, rng.integers(4, size=N).astype(float)


def from_predictions(display, y, P, names, **params):
    return display.from_predictions(y, P, labels=names, **params)


def from_estimator(display, y, P, names, **params):
    return display.from_estimator(Fixed(names), P, y, **params)


WAYS = [from_predictions, from_estimator]
both_ways = pytest.mark.parametrize("make", WAYS)


def assert_same(curve, expected):
    for name, values in vars(expected).items():
        np.testing.assert_array_equal(getattr(curve, name), values, err_msg=name)


def with_weight_alone(y, P, sample_weight=None, **params):
    """The curve of the rows that have weight."""
    if sample_weight is None:
        return reliability_curve(y, P, **params)
    kept = sample_weight > 0
    return reliability_curve(y[kept], P[kept], sample_weight=sample_weight[kept], **params)


def miscalibration(y, P, names, **params):
    parts = score_decomposition(y, P, labels=names, score="brier_score", **params)
    return parts.miscalibration


def diagram(y, p, **params):
    """Of an event, on axes of its own unless some are given."""
    params = {"kind": "binary", "n_resamples": 2, "ax": Figure().subplots(), **params}
    return ReliabilityDisplay.from_predictions(y, p, **params)


def heights(bars):
    return [bar.get_height() for bar in bars]


def corners(bars):
    return np.array([[bar.get_x(), bar.get_x() + bar.get_width()] for bar in bars])


def whiskers(display):
    """Segments of shape (n, 2, 2), and their colours of shape (n, 4)."""
    collection = display.intervals_.lines[2][0]
    return np.array(collection.get_segments()), collection.get_edgecolor()


# Bins -------------------------------------------------------------------------------------------

BINS = [({}, False), ({"n_bins": 4}, True), ({"n_bins": 40, "strategy": "quantile"}, False)]


@pytest.mark.parametrize(("style", "bins", "make"), partly_slow(STYLES, BINS, WAYS, quick=3))
def test_bins_are_those_asked_for(make, style, bins, rows):
    (y, P, names, w), (given, weighted) = rows, bins
    params = {**given, "sample_weight": w if weighted else None}
    drawn = {"style": style, "n_resamples": 2, "ax": Figure().subplots()}
    display = make(ReliabilityDisplay, y, P, names, **params, **drawn)
    expected = with_weight_alone(y, P, **params, labels=names)
    assert_same(display.curve, expected)
    error = expected_calibration_error(y, P, labels=names, **params)
    assert display.expected_calibration_error == pytest.approx(error)
    if style == "bars":
        np.testing.assert_allclose(heights(display.bars_), expected.accuracy)
        np.testing.assert_allclose(heights(display.counts_), expected.n_samples)
        edges = np.column_stack([expected.lower, expected.upper])
        for bars in (display.bars_, display.gaps_, display.counts_):
            np.testing.assert_allclose(corners(bars), edges)
    else:
        counts, edges, _ = display.counts_.get_data()
        assert counts[counts > 0].tolist() == expected.n_samples.tolist()
        assert edges[:-1][counts > 0].tolist() == expected.lower.tolist()
        assert edges[1:][counts > 0].tolist() == expected.upper.tolist()
    most = expected.n_samples.max()
    assert display.counts_ax_.get_ylim() == (0, most)
    assert [text.get_text() for text in display.counts_ax_.get_yticklabels()] == [f"{most:,.0f}"]


@pytest.mark.slow
@both_ways
@pytest.mark.parametrize("bins", BINS, ids=str)
def test_grid_has_the_bins_of_each_class_and_the_worst_first(make, bins, rows):
    (y, P, names, w), (given, weighted) = rows, bins
    params = {**given, "sample_weight": w if weighted else None}
    kwargs = {"kind": "classwise", "max_classes": 2, "counts": False, "confidence_level": None}
    grid = make(ReliabilityDisplay, y, P, names, figure=Figure(), **params, **kwargs)
    errors = {}
    column = {"kind": "binary", **params}
    for k, name in enumerate(names):
        errors[str(name)] = expected_calibration_error(y == name, P[:, k], **column)
        drawn = [display for display in grid.displays_ if display.name == str(name)]
        if drawn:
            assert_same(drawn[0].curve, with_weight_alone(y == name, P[:, k], **column))
            assert drawn[0].kind == "binary"
            assert drawn[0].intervals_ is drawn[0].counts_ is None
    assert [d.name for d in grid.displays_] == sorted(errors, key=errors.get, reverse=True)[:2]


@pytest.mark.slow
def test_classes_that_are_equally_bad_keep_their_order():
    one = np.tile([0.5, 0.25, 0.25, 0.0], (8, 1))
    P = np.concatenate([np.roll(one, k, axis=1) for k in range(4)])
    y = np.repeat(np.arange(4), 8)
    params = {"kind": "classwise", "n_bins": 4, "counts": False, "figure": Figure()}
    grid = ReliabilityDisplay.from_predictions(y, P, **params)
    # By symmetry, and to the last bit: all numbers are sums of powers of two.
    assert len({display.expected_calibration_error for display in grid.displays_}) == 1
    assert [display.name for display in grid.displays_] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("style", ["bars", "dots"])
@pytest.mark.parametrize("level", [0.5, 0.99])
def test_whiskers_stand_in_their_bins(rows, style, level):
    y, P, names, w = rows
    kwargs = {"style": style, "confidence_level": level, "sample_weight": w}
    display = from_predictions(ReliabilityDisplay, y, P, names, ax=Figure().subplots(), **kwargs)
    segments, colours = whiskers(display)
    c, theme = display.curve, Theme.of(display.ax_)
    x = (c.lower + c.upper) / 2 if style == "bars" else c.confidence
    np.testing.assert_allclose(segments[:, :, 0], np.column_stack([x, x]))
    np.testing.assert_allclose(segments[:, :, 1], np.column_stack(c.interval(level)), atol=1e-12)
    wanted = theme.foreground if style == "bars" else theme.models[0]
    np.testing.assert_allclose(colours, faded(wanted, c.n_samples))
    assert f"{100 * level:g} % interval" in in_legend(display.ax_)


@pytest.mark.slow
@pytest.mark.parametrize("styles", list(itertools.permutations(STYLES, 2)))
def test_another_style_forgets_the_first(rows, styles):
    y, P, names, _ = rows
    held = {
        "bars": {"bars_", "gaps_", "intervals_"},
        "dots": {"intervals_", "line_", "dots_", "joins_"},
        "corp": {"line_", "band_"},
    }
    display = from_predictions(ReliabilityDisplay, y, P, names, style=styles[0], n_resamples=2)
    display.plot(Figure().subplots(), style=styles[1], n_resamples=2)
    drawn = {name for name in set().union(*held.values()) if getattr(display, name) is not None}
    assert drawn == held[styles[1]]
    assert all(getattr(display, name) is not None for name in ("counts_", "diagonal_"))


# The confidence histogram -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "gap", "names"),
    [
        ("auto", "Under-estimated", ["Average probability 0.100", "Observed frequency 0.250"]),
        ("top-label", "Over-confident", ["Average confidence 0.900", "Accuracy 0.750"]),
    ],
)
def test_two_classes_are_an_event_in_pictures(kind, gap, names):
    """A risk that is too low is not drawn as a confidence that is too high."""
    p, y = np.repeat([0.05, 0.15], 100), np.arange(200) % 4 == 0
    left, right = Figure().subplots(1, 2)
    diagram(y, p, kind=kind, ax=left)
    assert gap in in_legend(left)
    ConfidenceDisplay.from_predictions(y, p, kind=kind, ax=right)
    assert in_legend(right) == names


def test_confidence_is_of_rows_and_not_of_each_class():
    with pytest.raises(ValueError, match="kind must be one of 'auto', 'top-label', 'binary', got"):
        ConfidenceDisplay.from_predictions([0, 1], [0.5, 0.5], kind="classwise")


@pytest.mark.parametrize(
    ("of_rows", "make"),
    partly_slow([({}, False), ({"n_bins": 3}, True), ({"n_bins": 50}, True)], WAYS),
)
def test_histogram_of_the_confidence(make, of_rows, rows):
    (y, P, names, w), (given, weighted) = rows, of_rows
    w, n_bins = w if weighted else np.ones(N), given.get("n_bins", 15)
    ax = Figure().subplots()
    display = make(ConfidenceDisplay, y, P, names, sample_weight=w, ax=ax, name="A", **given)
    confidence, right = P.max(axis=1), names[P.argmax(axis=1)] == y
    share, edges = np.histogram(confidence, n_bins, range=(0, 1), weights=w)
    held = np.histogram(confidence[w > 0], edges)[0] > 0
    np.testing.assert_allclose(heights(display.bars_), share[held] / share.sum())
    expected = np.column_stack([edges[:-1], edges[1:]])[held]
    np.testing.assert_allclose(corners(display.bars_), expected)
    for value, line in (
        (np.average(confidence, weights=w), display.confidence_line_),
        (np.average(right, weights=w), display.accuracy_line_),
    ):
        np.testing.assert_allclose(line.get_xdata(), [value, value])
        assert float(line.get_label().split()[-1]) == pytest.approx(value, abs=6e-4)
    assert ax.get_xlim() == (0, 1)
    assert ax.get_ylim() == pytest.approx((0, min(1, 1.05 * max(heights(display.bars_)))))
    assert ax.get_title() == "A"
    of = "weight of " if weighted else ""
    assert ax.get_ylabel() == f"Share of {of}{np.sum(w > 0)} rows"


# Several models on the same axes ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("style", "scale"), partly_slow(["dots", "corp"], ["linear", "logit"], quick=1)
)
def test_each_model_has_a_look_of_its_own(rows, style, scale):
    y, P, names, _ = rows
    ax = Figure(figsize=(9, 11)).subplots()
    colours = Theme.of(ax).models
    dashes, displays, labels = {"line": set(), "counts": set()}, [], []
    for k in range(9):
        name = None if k in {0, 4} else f"model {k}"
        display = from_predictions(
            ReliabilityDisplay, y, P, names, ax=ax, style=style, scale=scale, name=name,
            n_resamples=2, n_bins=5 + k,
        )  # fmt: skip
        colour = colours[k % len(colours)]
        assert display.line_.get_color() == colour
        assert tuple(display.counts_.get_edgecolor()) == to_rgba(colour)
        label = name or {0: "Accuracy", 4: "Model 5"}[k]
        if style == "dots":
            assert display.line_.get_marker() == MARKERS[k % len(MARKERS)]
            dots = np.column_stack([display.curve.confidence, display.curve.accuracy])
            np.testing.assert_array_equal(display.line_.get_xydata(), dots)
            wanted = faded(colour, display.curve.n_samples)
            np.testing.assert_allclose(whiskers(display)[1], wanted)
            label += f" (ECE {display.expected_calibration_error:.3f})"
        else:
            tint = Theme.of(ax).mixed(colour, 0.12)
            assert tuple(display.band_.get_facecolor()[0]) == pytest.approx(to_rgba(tint))
            label += f" (calibration loss {miscalibration(y, P, names):.3f})"
            dashes["line"].add(str(display.line_._unscaled_dash_pattern))
            dashes["counts"].add(str(display.counts_.get_linestyle()))
        assert display.line_.get_label() == label
        displays.append(display)
        labels.append(label)
    if style == "corp":
        assert list(map(len, dashes.values())) == [4, 4]
    *texts, interval, diagonal = in_legend(ax)
    assert texts == labels
    assert interval == ("95 % interval" if style == "dots" else "95 % band if calibrated")
    assert diagonal == "Perfect"
    assert len({display.diagonal_ for display in displays}) == 1
    above = [child for child in ax.child_axes if child.get_visible()]
    assert above == [displays[0].counts_ax_]
    assert {display.counts_ax_ for display in displays} == {*above}
    assert ax.get_xlim() == ax.child_axes[0].get_xlim()
    assert ax.get_xscale() == ax.get_yscale() == scale


@pytest.mark.slow
@pytest.mark.parametrize("few_first", [False, True])
def test_histogram_reaches_as_high_as_the_model_with_most_rows_in_a_bin(rows, few_first):
    y, P, names, _ = rows
    ax = Figure().subplots()
    parts = [slice(None), slice(0, 30)]
    made = [
        from_predictions(ReliabilityDisplay, y[s], P[s], names, ax=ax, style="dots")
        for s in (parts[::-1] if few_first else parts)
    ]
    most = max(display.curve.n_samples.max() for display in made)
    strip = made[0].counts_ax_
    assert strip is made[1].counts_ax_
    assert strip.get_ylim() == (0, most)
    assert [text.get_text() for text in strip.get_yticklabels()] == [f"{most:,.0f}"]


@pytest.mark.slow
@pytest.mark.parametrize("style", ["dots", "corp"])
def test_logit_axes_show_all_models(style):
    """Limits are those of each model alone, taken together, in whatever order they come."""
    rng = np.random.default_rng(0)
    made = [expit(rng.normal(middle, 1, size=500)) for middle in (-4, 2)]
    made = [(rng.uniform(size=500) < p, p) for p in made]
    make = partial(diagram, style=style, scale="logit", strategy="quantile", n_bins=5)
    alone = np.array([make(*rows).ax_.get_xlim() for rows in made])
    assert alone[0, 0] < alone[1, 0]
    for order in (made, made[::-1]):
        ax = Figure().subplots()
        for rows in order:
            display = make(*rows, ax=ax)
        wanted = (alone[:, 0].min(), alone[:, 1].max())
        assert ax.get_xlim() == pytest.approx(wanted)
        assert ax.get_ylim()[0] == pytest.approx(wanted[0])
        assert display.counts_ax_.get_xlim() == pytest.approx(wanted)


def test_limits_of_logit_axes_leave_a_margin_around_the_dots():
    rng = np.random.default_rng(0)
    p = expit(rng.normal(0, 1, size=4000))
    params = {"style": "dots", "scale": "logit", "strategy": "quantile", "n_bins": 8}
    display = diagram(rng.uniform(size=4000) < p, p, **params)
    c = display.curve
    z = logit(np.concatenate([c.confidence, c.accuracy]))
    margin = max(0.3, 0.05 * np.ptp(z))
    wanted = expit([z.min() - margin, z.max() + margin])
    np.testing.assert_allclose(display.ax_.get_xlim(), wanted)


@pytest.mark.parametrize("style", ["dots", "corp"])
def test_logit_axes_end_a_tenth_of_a_row_from_zero_and_one(style):
    p = np.repeat([1e-9, 0.5, 1 - 1e-9], 40)
    display = diagram(np.arange(120) % 2, p, style=style, scale="logit")
    nearest = logit(0.1 / 120)
    wanted = [1.1 * nearest, -1.1 * nearest]  # 5 % of twice that as a margin
    for limits in (display.ax_.get_xlim(), display.ax_.get_ylim()):
        np.testing.assert_allclose(logit(limits), wanted)


# Where things are -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["linear", "logit"])
@pytest.mark.parametrize("n_models", [1, 3])
@pytest.mark.parametrize("legend", [True, False])
def test_histogram_stands_right_above_the_diagram(rows, scale, n_models, legend):
    y, P, names, _ = rows
    ax = Figure(figsize=(5, 7)).subplots()
    for _ in range(n_models):
        display = from_predictions(
            ReliabilityDisplay, y, P, names, ax=ax, style="dots", scale=scale, legend=legend
        )
    ax.figure.draw_without_rendering()
    low, high = ax.get_xlim()
    left, bottom, right, top = ax.transData.transform([[low, low], [high, high]]).ravel()
    assert right - left == pytest.approx(top - bottom)  # a square
    assert ax.get_window_extent().bounds == pytest.approx(
        (left, bottom, right - left, top - bottom)
    )
    strip = display.counts_ax_.get_window_extent()
    assert (strip.x0, strip.x1) == pytest.approx((left, right), abs=0.5)
    above = (np.array([strip.y0, strip.y1]) - bottom) / (top - bottom)
    np.testing.assert_allclose(above, [1.04, 1.22], atol=1e-3)
    assert strip.y1 <= ax.get_position(original=True).y1 * ax.figure.bbox.height + 0.5
    if legend:
        box = ax.get_legend().get_window_extent()
        if box.y0 >= strip.y1:  # above, in the place of the axes
            assert box.y1 <= ax.get_position(original=True).y1 * ax.figure.bbox.height + 0.5
        else:
            assert left <= box.x0 < box.x1 <= right
            assert bottom <= box.y0 < box.y1 <= top
    else:
        assert ax.get_legend() is None


@pytest.mark.slow
@pytest.mark.parametrize("counts", [True, False])
def test_axes_of_a_diagram_end_at_its_corner(rows, counts):
    y, P, names, _ = rows
    display = from_predictions(
        ReliabilityDisplay, y, P, names, ax=Figure().subplots(), counts=counts, legend=False
    )
    ax = display.ax_
    assert ax.get_xlim() == (0, 1)
    assert ax.get_ylim() == (0, 1)
    for ticks in (ax.get_xticks(), ax.get_yticks()):
        np.testing.assert_allclose(ticks, np.linspace(0, 1, 6), atol=1e-12)


# Sweeps -----------------------------------------------------------------------------------------


@pytest.fixture
def logits():
    Z, y = make_logits(300, 3, temperature=2.0, random_state=3)
    return Z, y, np.random.default_rng(0).integers(4, size=300).astype(float)


def literal_sweep(Z, y, w, T, n_bins):
    losses, errors = [], []
    for t in T:
        P = softmax(Z / t, axis=1)
        losses.append(log_loss(y, P, sample_weight=w))
        errors.append(expected_calibration_error(y, P, n_bins=n_bins, sample_weight=w))
    return losses, errors


SWEEPS = [(1.0, False, {}), (0.2, True, {}), (30.0, True, {"n_bins": 4})]


@pytest.mark.parametrize(("given", "way"), partly_slow(SWEEPS, ["logits", "estimator"], quick=2))
def test_sweep_is_made_of_everything_it_is_given(logits, given, way):
    (scale, weighted, bins), (Z, y, w) = given, logits
    Z, w = scale * Z, w if weighted else None
    given = {"ax": list(Figure().subplots(2)), "sample_weight": w, **bins}
    vector = VectorScaling().fit(Z[:200], y[:200])
    if way == "logits":
        display = TemperatureSweepDisplay.from_logits(Z, y, **given)
        assert display.reference is display.reference_line_ is None
    else:
        display = TemperatureSweepDisplay.from_estimator(vector, Z, y, **given)
        loss = log_loss(y, vector.predict_proba(Z), sample_weight=w)
        assert display.reference == pytest.approx(loss)
        assert list(display.reference_line_.get_ydata()) == [display.reference] * 2
        assert display.reference_line_.get_label() == f"VectorScaling: {loss:.3f}"
    best = TemperatureScaling().fit(Z, y, w).temperature_
    T = display.temperatures
    spaced = np.geomspace(min(best, 1) / 3, max(best, 1) * 3, 60)
    np.testing.assert_allclose(T, np.union1d(spaced, [1, best]))
    losses, errors = literal_sweep(Z, y, w, T, bins.get("n_bins", 15))
    np.testing.assert_allclose(display.log_loss, losses, rtol=1e-9)
    np.testing.assert_allclose(display.expected_calibration_error, errors, rtol=1e-6, atol=1e-9)
    upper, lower = display.axes_
    for line, ax, values in (
        (display.log_loss_line_, upper, display.log_loss),
        (display.ece_line_, lower, display.expected_calibration_error),
    ):
        np.testing.assert_array_equal(line.get_xydata(), np.column_stack([T, values]))
        assert line.axes is ax
    assert display.best_temperature == best
    assert [line.get_xdata()[0] for line in display.best_lines_] == [best] * 2
    assert [line.axes for line in display.best_lines_] == [upper, lower]
    assert [line.axes for line in display.start_lines_] == [upper, lower]
    assert display.best_lines_[0].get_label() == f"T = {best:.3g} (lowest log loss)"
    assert [upper.get_ylabel(), lower.get_ylabel()] == ["Log loss", "ECE"]
    assert lower.get_xlabel() == "Temperature T"
    assert upper.get_xscale() == lower.get_xscale() == "log"
    for ax in (upper, lower):
        np.testing.assert_allclose(ax.get_xlim(), (T[0], T[-1]))
    assert lower.get_ylim()[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("stacked", [True, False])
def test_legend_of_a_sweep_names_each_line_once(logits, stacked):
    figure = Figure(figsize=(5, 5))
    ax = figure.subplots(2) if stacked else figure.subplots()
    vector = VectorScaling().fit(*logits[:2])
    display = TemperatureSweepDisplay.from_estimator(vector, *logits[:2], ax=ax, name="V")
    texts = in_legend(display.ax_)
    assert len(texts) == len(set(texts)) == (4 if stacked else 5)
    assert ("ECE" in texts) == (not stacked)
    assert (len(display.best_lines_), len(display.start_lines_)) == ((2, 2) if stacked else (1, 1))
