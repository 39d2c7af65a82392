"""Score decompositions of several models in the plane of miscalibration and discrimination."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skcalib._output.theme import Theme
from skcalib._rows import ArrayLike, Floats, on_host
from skcalib._validation.inputs import check_option
from skcalib._validation.labels import of_outputs
from skcalib.metrics import ScoreDecomposition, score_decomposition
from skcalib.metrics._input import Kind
from skcalib.metrics._proper_scores import Score

from ._layout import SMALL, Display, check_legend, draw_legend, make_room, shrink, size_of
from ._style import entry


def plane_limits(x: Floats, y: Floats) -> tuple[tuple[float, float], tuple[float, float]]:
    """Limits of MCB, from 0, and of DSC, from 0 unless all models are far above it.

    At the top and at the right there is room for the labels of lines.
    """
    right = float(x.max()) or 0.1 * float(y.max()) or 1.0
    low, high = float(y.min()), float(y.max())
    # Models that are equal but for noise are not drawn far apart.
    spread = max(high - low, 0.5 * right)
    bottom = low - 0.25 * spread if low > spread else -0.04 * max(high, spread)
    return (-0.04 * right, 1.25 * right), (bottom, high + 0.3 * spread)


def exit_of(
    offset: float, xlim: tuple[float, float], ylim: tuple[float, float]
) -> tuple[float, float, bool] | None:
    """Where the line y = x - offset leaves the axes, in fractions, and whether at the top.

    None where it leaves near a corner, in which a label has no room.
    """
    x = (ylim[1] + offset - xlim[0]) / (xlim[1] - xlim[0])
    y = (xlim[1] - offset - ylim[0]) / (ylim[1] - ylim[0])
    if x <= 1:
        return (x, 1.0, True) if 0.08 < x < 0.9 else None
    return (1.0, y, False) if 0.08 < y < 0.9 else None


if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from matplotlib.text import Annotation

# Of the models in turn. Together with the colours they differ for many models.
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", "p", ">", "d", "h", "*", "8")

_NAMES = {"log_loss": "log loss", "brier_score": "Brier score", None: "score"}


class ScoreDecompositionDisplay(Display):
    r"""Plane of the miscalibration and the discrimination of several models.

    The mean score of a model, its log loss or Brier score, is

    .. math:: \bar S = \mathrm{MCB} - \mathrm{DSC} + \mathrm{UNC},

    with the miscalibration MCB, which recalibration would remove, the discrimination DSC, which is
    the improvement of the recalibrated probabilities over the base rate, and the uncertainty UNC,
    the score of the base rate itself (see :func:`skcalib.metrics.score_decomposition`). MCB is on
    the horizontal axis and DSC on the vertical one, so models at the upper left are the best, and
    models of equal score lie on a line of slope 1. A calibrator moves a model to the left;
    a better classifier is further up.

    Use :meth:`from_estimators` or :meth:`from_predictions` to create a display.

    Parameters
    ----------
    decompositions : dict of str to ScoreDecomposition
        Decomposition of each model, by its name. Entries for each class or label are averaged.
        All models need the same uncertainty, as they have on the same rows.
    score : {"log_loss", "brier_score"}, default=None
        The scoring rule, for the legend.

    Attributes
    ----------
    decompositions : dict of str to ScoreDecomposition
        Decomposition of each model, with the means of entries for each class or label.
    uncertainty : float
        The uncertainty, which all models have in common.
    ax_ : matplotlib Axes
        Axes with the plane.
    figure_ : matplotlib Figure
        Figure that contains them.
    points_ : dict of str to matplotlib Line2D
        Marker of each model.
    score_lines_ : list of matplotlib Line2D
        Lines of equal score, whose labels are texts of the axes.
    uncertainty_line_ : matplotlib Line2D
        Line of the score of the base rate.
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
    >>> from skcalib.display import ScoreDecompositionDisplay
    >>> from skcalib.datasets import load_digits_logits
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
    score_lines_: list[Line2D]
    uncertainty_line_: Line2D
    arrows_: list[Annotation]

    def __init__(
        self, decompositions: Mapping[str, ScoreDecomposition], *, score: Score | None = None
    ) -> None:
        _check_names("decompositions", decompositions, "ScoreDecomposition")
        if score is not None:
            check_option("score", score, Score)
        self.decompositions = {str(name): _mean(d) for name, d in decompositions.items()}
        self.uncertainty = _common_uncertainty(self.decompositions)
        self.score = score

    @classmethod
    def from_estimators(
        cls,
        estimators: Mapping[str, Any],
        X: ArrayLike,
        y: ArrayLike,
        *,
        score: Score = "log_loss",
        kind: Kind = "classwise",
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        ax: Axes | None = None,
        **plot_params: Any,
    ) -> Self:
        """Draw the plane of fitted classifiers.

        Parameters
        ----------
        estimators : dict of str to classifier
            Fitted classifiers of the same classes with ``predict_proba``, by their names.
        X : array-like of shape (n_samples, n_features)
            Held-out input.
        y : array-like of shape (n_samples,)
            Labels.
        score, kind, sample_weight, pos_label
            As for :meth:`from_predictions`.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        **plot_params
            Passed to :meth:`plot`.

        Returns
        -------
        ScoreDecompositionDisplay
            With the plane drawn.

        Raises
        ------
        ValueError
            As :meth:`from_predictions`.
        """
        _check_names("estimators", estimators, "a classifier")
        found = {}
        for name, estimator in estimators.items():
            P, classes = estimator.predict_proba(X), estimator.classes_
            labels = None if kind == "multilabel" else on_host(classes)
            found[name] = score_decomposition(
                y, of_outputs(P, classes), score=score, kind=kind, sample_weight=sample_weight,
                labels=labels, pos_label=pos_label,
            )  # fmt: skip
        return cls(found, score=score).plot(ax, **plot_params)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: Mapping[str, ArrayLike],
        *,
        score: Score = "log_loss",
        kind: Kind = "classwise",
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        pos_label: Any = None,
        ax: Axes | None = None,
        **plot_params: Any,
    ) -> Self:
        """Draw the plane of labels and of the probabilities of several models.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Labels.
        y_proba : dict of str to array-like
            Probabilities of each model, by its name, as for
            :func:`skcalib.metrics.score_decomposition`.
        score : {"log_loss", "brier_score"}, default="log_loss"
            The proper scoring rule.
        kind : {"classwise", "binary", "multilabel", "top-label"}, default="classwise"
            The events. Components for each class or label are averaged. With ``"top-label"`` the
            event that the prediction is correct, and so the uncertainty, depends on the model: it
            is for models of equal accuracy, such as calibrators that keep the predictions.
        sample_weight, labels, pos_label
            As for :func:`skcalib.metrics.reliability_curve`.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        **plot_params
            Passed to :meth:`plot`.

        Returns
        -------
        ScoreDecompositionDisplay
            With the plane drawn.

        Raises
        ------
        ValueError
            As :func:`skcalib.metrics.score_decomposition` and :meth:`plot`; for models that have no
            names, and for models whose uncertainty differs.
        """
        _check_names("y_proba", y_proba, "the probabilities")
        params: dict[str, Any] = {
            "score": score, "kind": kind, "sample_weight": sample_weight, "labels": labels,
            "pos_label": pos_label,
        }  # fmt: skip
        found = {name: score_decomposition(y_true, P, **params) for name, P in y_proba.items()}
        return cls(found, score=score).plot(ax, **plot_params)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        arrows: Iterable[tuple[str, str]] = (),
        legend: bool | str = True,
    ) -> Self:
        """Draw the plane.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        arrows : iterable of (str, str), default=()
            Pairs of models to join by an arrow, such as the uncalibrated and a calibrated one.
        legend : bool or str, default=True
            Whether to draw the legend, above the axes, or a location of matplotlib within them.

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
        from matplotlib.ticker import MaxNLocator

        pairs = [tuple(map(str, pair)) for pair in arrows]
        self._check(pairs)
        check_legend(legend)
        ax = self._on(ax, (5.2, 4.2 + 0.1 * len(self.decompositions)))
        theme = Theme.of(ax)
        found = self.decompositions.values()
        limits = plane_limits(*np.transpose([(d.miscalibration, d.discrimination) for d in found]))
        ax.set(xlim=limits[0], ylim=limits[1])
        self._draw_scores(theme, *limits)
        self._draw_models(theme)
        self.arrows_ = [self._arrow(theme, *pair) for pair in pairs]
        order = np.argsort([d.score for d in self.decompositions.values()], kind="stable")
        points = list(self.points_.values())
        handles = [*(points[k] for k in order), self.uncertainty_line_, *self.score_lines_[:1]]
        draw_legend(ax, handles, legend=legend)
        ax.set(xlabel="Calibration loss (MCB)", ylabel="Gain over the base rate (DSC)")
        side = min(size_of(ax))
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10]))
            if side < SMALL:
                shrink(axis, 0.7 * side)
        make_room(ax)
        return self

    def _summary(self) -> str:
        best = min(self.decompositions.items(), key=lambda item: item[1].score)
        of = ", ".join(self.decompositions)
        return f"{of}; least {_NAMES[self.score]} {best[1].score:#.3g} of {best[0]}"

    def _check(self, pairs: list[Any]) -> None:
        known = list(self.decompositions)
        for pair in pairs:
            if len(pair) != 2 or not set(pair) <= set(known):
                raise ValueError(
                    f"arrows must be pairs of names among {', '.join(map(repr, known))}, got "
                    f"{pair!r}."
                )

    def _draw_scores(
        self, theme: Theme, xlim: tuple[float, float], ylim: tuple[float, float]
    ) -> None:
        """Lines of equal score, labelled where they leave the axes, and that of the base rate."""
        from matplotlib.ticker import MaxNLocator

        ax, unc = self.ax_, self.uncertainty
        name = _NAMES[self.score]
        corners = unc + xlim[0] - ylim[1], unc + xlim[1] - ylim[0]
        n_lines = min(12, max(4, int(sum(size_of(ax)) / 0.55)))
        levels = np.asarray(MaxNLocator(n_lines, steps=[1, 2, 5, 10]).tick_values(*corners))
        digits = max(0, -int(np.floor(np.log10(levels[1] - levels[0]) + 1e-9)))
        levels = levels[(levels > corners[0]) & (levels < corners[1])]
        pale: dict[str, Any] = {
            "color": theme.legible(theme.mixed(theme.foreground, 0.4)), "linewidth": 0.7,
            "label": f"Equal {name}", "zorder": 1,
        }  # fmt: skip
        self.score_lines_ = [ax.axline((0, unc - level), slope=1, **pale) for level in levels]
        for level in levels:
            place = exit_of(level - unc, xlim, ylim)
            if place is not None:
                self._write(theme, f"{level:.{digits}f}", *place)
        self.uncertainty_line_ = ax.axline(
            (0, 0), slope=1, color=theme.foreground, linestyle="--", linewidth=1.2, zorder=1.1,
            label=f"Base rate: {unc:#.3g}",
        )  # fmt: skip

    def _write(self, theme: Theme, text: str, x: float, y: float, at_top: Any) -> None:
        self.ax_.annotate(
            text, (x, y), xycoords="axes fraction", xytext=(0, -3) if at_top else (-3, 0),
            textcoords="offset points", ha="center" if at_top else "right",
            va="top" if at_top else "center", fontsize=7.5, zorder=1.2,
            color=theme.legible(theme.muted),
            bbox={"facecolor": theme.background, "edgecolor": "none", "pad": 1},
        )  # fmt: skip

    def _draw_models(self, theme: Theme) -> None:
        self.points_ = {}
        for k, (name, d) in enumerate(self.decompositions.items()):
            self.points_[name] = self.ax_.plot(
                [d.miscalibration], [d.discrimination], _MARKERS[k % len(_MARKERS)],
                color=theme.model(k), markersize=8,
                fillstyle="none", markeredgewidth=1.7, zorder=3,
                label=entry(f"{name}: {d.score:#.3g}"),
            )[0]  # fmt: skip

    def _arrow(self, theme: Theme, start: str, end: str) -> Annotation:
        joined = (self.decompositions[name] for name in (start, end))
        tail, head = ((d.miscalibration, d.discrimination) for d in joined)
        colour = theme.legible(theme.muted)
        props = {"arrowstyle": "->", "color": colour, "shrinkA": 6, "shrinkB": 6}
        return self.ax_.annotate("", head, xytext=tail, arrowprops=props, zorder=2)


def _check_names(name: str, value: Any, what: str) -> None:
    if not isinstance(value, Mapping):
        raise ValueError(
            f"{name} must be a dictionary from the name of each model to {what}, got "
            f"{type(value).__name__}. Pass {{'name': ...}}."
        )
    if not value:
        raise ValueError(f"{name} must hold at least one model, got none.")


def _mean(parts: ScoreDecomposition) -> ScoreDecomposition:
    """The decomposition with the means of entries for each class or label."""
    names = ("score", "miscalibration", "discrimination", "uncertainty")
    means: dict[str, Any] = {name: float(np.mean(getattr(parts, name))) for name in names}
    return ScoreDecomposition(**means)


def _common_uncertainty(decompositions: Mapping[str, ScoreDecomposition]) -> float:
    found = {name: float(d.uncertainty) for name, d in decompositions.items()}
    (first, wanted), *others = found.items()
    for name, value in others:
        if not np.isclose(value, wanted, rtol=1e-6, atol=0):
            raise ValueError(
                f"All models must have the same uncertainty, got {wanted:.6g} for {first!r} and "
                f"{value:.6g} for {name!r}. Pass the same rows, weights and kind for each; with "
                "kind='top-label' it depends on the predictions, so pass kind='classwise' for "
                "models that predict differently."
            )
    return wanted
