"""Score decompositions of several models in the plane of miscalibration and discrimination."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skcalib._output import drawing
from skcalib._output.drawing import MARKERS, ScoreMethod
from skcalib._typing import ArrayLike, Floats, Kind

from ._proper_scores import Score, ScoreDecomposition, score_decomposition, score_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.contour import QuadContourSet
    from matplotlib.lines import Line2D
    from matplotlib.text import Annotation

NAMES = {
    "log_loss": "log loss",
    "brier_score": "Brier score",
    "ranked_probability_score": "ranked probability score",
    None: "score",
}


class ScoreDecompositionDisplay(drawing.Display):
    r"""Plane with the miscalibration and the discrimination of several models.

    The mean score of a model, its log loss, Brier score or ranked probability score, is

    .. math:: \bar S = \mathrm{MCB} - \mathrm{DSC} + \mathrm{UNC},

    with the miscalibration MCB, which recalibration would remove, the discrimination DSC, which is
    the improvement of the recalibrated probabilities over the base rate, and the uncertainty UNC,
    the score of the base rate (see :func:`skcalib.metrics.score_decomposition`). MCB is on the
    horizontal axis and DSC on the vertical axis. Models at the upper left are the best, and models
    with the same score lie on a line of slope 1. A calibrator moves a model to the left; a better
    classifier is further up.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create a display.

    Parameters
    ----------
    decompositions : dict of str to ScoreDecomposition
        Decomposition for each model, by its name. Entries for each class or label are averaged.
        All models need the same uncertainty, as they have on the same rows.
    score : {"log_loss", "brier_score", "ranked_probability_score"}, default=None
        The scoring rule, for the legend.

    Attributes
    ----------
    decompositions : dict of str to ScoreDecomposition
        Decomposition for each model, with means over classes or labels.
    uncertainty : float
        The uncertainty, which all models have in common.
    ax_ : matplotlib Axes
        Axes with the plane.
    figure_ : matplotlib Figure
        Figure that contains them.
    points_ : dict of str to matplotlib Line2D
        Marker of each model.
    contours_ : matplotlib QuadContourSet
        Lines with equal scores.
    uncertainty_line_ : matplotlib Line2D
        Line for the score at the base rate.
    arrows_ : list of matplotlib Annotation
        Arrows between models.

    References
    ----------
    .. [1] Dimitriadis, Gneiting, Jordan, "Stable reliability diagrams for probabilistic
       classifiers", PNAS 118, 2021, `arXiv:2008.03033 <https://arxiv.org/abs/2008.03033>`_.
    .. [2] Dimitriadis, Gneiting, Jordan, Vogel, "Evaluating probabilistic classifiers: The
       triptych", International Journal of Forecasting 40, 2024,
       `arXiv:2301.10803 <https://arxiv.org/abs/2301.10803>`_.

    Examples
    --------
    >>> from scipy.special import softmax
    >>> from skcalib import TemperatureScaling
    >>> from skcalib.datasets import load_digits_logits
    >>> from skcalib.metrics import ScoreDecompositionDisplay
    >>> digits = load_digits_logits()
    >>> calibrator = TemperatureScaling().fit(digits.logits_calibration, digits.y_calibration)
    >>> display = ScoreDecompositionDisplay.from_predictions(digits.y_test, {
    ...     "Uncalibrated": softmax(digits.logits_test, axis=1),
    ...     "Temperature": calibrator.predict_proba(digits.logits_test)})
    >>> before, after = display.decompositions.values()
    >>> after.miscalibration < before.miscalibration
    True
    """

    points_: dict[str, Line2D]
    contours_: QuadContourSet
    uncertainty_line_: Line2D
    arrows_: list[Annotation]

    def __init__(
        self, decompositions: Mapping[str, ScoreDecomposition], *, score: Score | None = None
    ) -> None:
        _check_names("decompositions", decompositions)
        if score is not None:
            score = score_name(score)
        self.decompositions = {str(name): _mean(d) for name, d in decompositions.items()}
        self.uncertainty = _common_uncertainty(self.decompositions)
        self.score = score

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike,
        *,
        response_method: ScoreMethod = "auto",
        score: Score = "log_loss",
        kind: Kind = "classwise",
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        order: ArrayLike | None = None,
        ax: Axes | None = None,
        arrows: Iterable[tuple[str, str]] = (),
        legend: bool | str = True,
        color: Any = None,
    ) -> Self:
        """Draw the plane of fitted classifiers.

        Parameters
        ----------
        estimator : dict of str to classifier, or classifier
            Fitted classifiers of the same classes, by their names, or a single classifier.
        X : array-like of shape (n_samples, n_features)
            Held-out input.
        y : array-like of shape (n_samples,)
            Labels.
        response_method : {"auto", "predict_proba", "decision_function"}, default="auto"
            Method that returns the scores, as for
            :meth:`skcalib.ReliabilityDisplay.from_estimator`.
        score, kind, sample_weight, pos_label, order, ax, arrows, legend, color
            As for :meth:`from_predictions`.

        Returns
        -------
        ScoreDecompositionDisplay
            With the plane drawn.

        Raises
        ------
        ValueError
            As :meth:`from_predictions`.
        """
        if not isinstance(estimator, Mapping):
            estimator = {type(estimator).__name__: estimator}
        _check_names("estimator", estimator)
        decompositions = {}
        for name, model in estimator.items():
            P, classes = drawing.predict(model, X, response_method)
            decompositions[name] = score_decomposition(
                y, P, score=score, kind=kind, sample_weight=sample_weight,
                labels=None if kind == "multilabel" else classes, pos_label=pos_label, order=order,
            )  # fmt: skip
        return cls(decompositions, score=score).plot(ax, arrows=arrows, legend=legend, color=color)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: Any,
        *,
        score: Score = "log_loss",
        kind: Kind = "classwise",
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        pos_label: Any = None,
        order: ArrayLike | None = None,
        ax: Axes | None = None,
        arrows: Iterable[tuple[str, str]] = (),
        legend: bool | str = True,
        color: Any = None,
    ) -> Self:
        """Draw the plane for labels and probabilities by one or more models.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Labels.
        y_proba : dict of str to array-like, or array-like
            Probabilities by each model, with its name, or by a single model, as for
            :func:`skcalib.metrics.score_decomposition`.
        score : {"log_loss", "brier_score", "ranked_probability_score"}, default="log_loss"
            The proper scoring rule.
        kind : {"classwise", "binary", "multilabel", "cumulative", "top-label"}, \
default="classwise"
            The events; "cumulative" for the ranked probability score. Components for each class or
            label are averaged. With ``"top-label"`` the event, a correct prediction, depends on the
            model, and so does the uncertainty: "top-label" is for models with the same predictions.
        sample_weight, labels, pos_label, order
            As for :func:`skcalib.metrics.reliability_curve`.
        ax, arrows, legend, color
            As for :meth:`plot`.

        Returns
        -------
        ScoreDecompositionDisplay
            With the plane drawn.

        Raises
        ------
        ValueError
            As :func:`skcalib.metrics.score_decomposition` and :meth:`plot`; for no models, and for
            models with different uncertainties.
        """
        if not isinstance(y_proba, Mapping):
            y_proba = {"Model": y_proba}
        _check_names("y_proba", y_proba)
        params: dict[str, Any] = {
            "score": score, "kind": kind, "sample_weight": sample_weight, "labels": labels,
            "pos_label": pos_label, "order": order,
        }  # fmt: skip
        decompositions = {
            name: score_decomposition(y_true, P, **params) for name, P in y_proba.items()
        }
        return cls(decompositions, score=score).plot(ax, arrows=arrows, legend=legend, color=color)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        arrows: Iterable[tuple[str, str]] = (),
        legend: bool | str = True,
        color: Any = None,
    ) -> Self:
        """Draw the plane.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        arrows : iterable of (str, str), default=()
            Pairs of models to join by an arrow, such as the uncalibrated and a calibrated one.
        legend : bool or str, default=True
            Whether to draw the legend, or a location as in matplotlib. By default it stands above a
            new figure, and at the best place within the user's axes.
        color : colour of matplotlib, or dict of str to colour, default=None
            Colour for all points, or for the models that the dictionary names; by default the next
            colours in the current style.

        Returns
        -------
        ScoreDecompositionDisplay
            The display itself, with the attributes that end in an underscore set.

        Raises
        ------
        ValueError
            For arrows between models that the display does not have, and an unknown location of the
            legend.
        """
        pairs = [tuple(map(str, pair)) for pair in arrows]
        self._check(pairs)
        models = self.decompositions
        ax = self._prepare(ax, (5.2, 4.2 + 0.1 * len(models)), legend)
        named = color if isinstance(color, Mapping) else dict.fromkeys(models, color)
        colours = {str(name): colour for name, colour in named.items()}
        self.points_ = {}
        for k, (name, d) in enumerate(models.items()):
            label = drawing.legend_label(f"{name}: {d.score:#.3g}")
            self.points_[name] = ax.plot(
                [d.miscalibration], [d.discrimination], MARKERS[k % len(MARKERS)], markersize=8,
                fillstyle="none", markeredgewidth=1.7, zorder=3, label=label,
                color=colours.get(name),
            )[0]  # fmt: skip
        places = [(d.miscalibration, d.discrimination) for d in models.values()]
        xlim, ylim = plane_limits(*np.transpose(places))
        self._draw_scores(xlim, ylim)
        self.arrows_ = [self._draw_arrow(*pair) for pair in pairs]
        ax.set(xlabel="Calibration loss (MCB)", ylabel="Gain over the base rate (DSC)")
        order = sorted(models, key=lambda name: models[name].score)
        handles: list[Any] = [*(self.points_[name] for name in order), self.uncertainty_line_]
        handles += self.contours_.legend_elements()[0][:1]
        handles[-1].set_label(f"Equal {NAMES[self.score]}")
        drawing.draw_legend(ax, handles, legend=legend)
        return self

    def _summary(self) -> str:
        best = min(self.decompositions.items(), key=lambda item: item[1].score)
        of = ", ".join(self.decompositions)
        return f"{of}; least {NAMES[self.score]} {best[1].score:#.3g} of {best[0]}"

    def _check(self, pairs: list[Any]) -> None:
        names = list(self.decompositions)
        for pair in pairs:
            if len(pair) != 2 or not set(pair) <= set(names):
                raise ValueError(
                    f"arrows must be pairs of names among {', '.join(map(repr, names))}, got "
                    f"{pair!r}."
                )

    def _draw_scores(self, xlim: tuple[float, float], ylim: tuple[float, float]) -> None:
        """Draw lines of equal score with their values, and the line of the base rate."""
        ax, unc = self.ax_, self.uncertainty
        pale, dark = drawing.foreground(ax, 0.35), drawing.foreground(ax)
        x, y = np.meshgrid(np.linspace(*xlim, 3), np.linspace(*ylim, 3))
        self.contours_ = ax.contour(
            x, y, unc + x - y, levels=8, colors=[pale], linewidths=0.7, linestyles="-", zorder=1
        )
        # One row of labels near the bottom, which no edge cuts off and few models cover.
        bottom, margin = ylim[0] + 0.07 * np.ptp(ylim), 0.06 * np.ptp(xlim)
        places = [(level - unc + bottom, bottom) for level in self.contours_.levels]
        inside = [spot for spot in places if xlim[0] + margin < spot[0] < xlim[1] - margin]
        ax.set(xlim=xlim, ylim=ylim)  # labels take their angles from the limits
        ax.clabel(
            self.contours_, fmt="%.3g", fontsize="small", colors=[drawing.foreground(ax, 0.7)],
            manual=inside,
        )  # fmt: skip
        self.uncertainty_line_ = ax.axline(
            (0, 0), slope=1, color=dark, linestyle="--", linewidth=1.2, zorder=1.1,
            label=f"Base rate: {unc:#.3g}",
        )  # fmt: skip

    def _draw_arrow(self, start: str, end: str) -> Annotation:
        tail, head = (self.decompositions[name] for name in (start, end))
        colour = drawing.foreground(self.ax_, 0.6)
        return self.ax_.annotate(
            "", (head.miscalibration, head.discrimination),
            xytext=(tail.miscalibration, tail.discrimination), zorder=2,
            arrowprops={"arrowstyle": "->", "color": colour, "shrinkA": 6, "shrinkB": 6},
        )  # fmt: skip


def plane_limits(x: Floats, y: Floats) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return limits of MCB, from 0, and of DSC, from 0 unless all models are far above 0."""
    right = float(x.max()) or 0.1 * float(y.max()) or 1.0
    low, high = float(y.min()), float(y.max())
    # Models that differ by noise only are not drawn far apart.
    spread = max(high - low, 0.5 * right)
    bottom = low - 0.25 * spread if low > spread else -0.04 * max(high, spread)
    return (-0.04 * right, 1.25 * right), (bottom, high + 0.3 * spread)


def _check_names(name: str, value: Any) -> None:
    """Raise a ValueError if ``value`` is no dictionary from names to models, or is empty."""
    if not isinstance(value, Mapping) or not value:
        got = "an empty one" if isinstance(value, Mapping) else type(value).__name__
        raise ValueError(
            f"{name} must be a dictionary from the name of each model to the model, got {got}. "
            "Pass {'name': ...}."
        )


def _mean(parts: ScoreDecomposition) -> ScoreDecomposition:
    """Return the decomposition with means over classes or labels."""
    names = ("score", "miscalibration", "discrimination", "uncertainty")
    means: dict[str, Any] = {name: float(np.mean(getattr(parts, name))) for name in names}
    return ScoreDecomposition(**means)


def _common_uncertainty(decompositions: Mapping[str, ScoreDecomposition]) -> float:
    uncertainties = {name: float(d.uncertainty) for name, d in decompositions.items()}
    (first, wanted), *others = uncertainties.items()
    for name, value in others:
        if not np.isclose(value, wanted, rtol=1e-6, atol=0):
            raise ValueError(
                f"All models must have the same uncertainty, got {wanted:.6g} for {first!r} and "
                f"{value:.6g} for {name!r}. Pass the same rows, weights and kind for each; with "
                "kind='top-label' it depends on the predictions, so pass kind='classwise' for "
                "models that predict differently."
            )
    return wanted
