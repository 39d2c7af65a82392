"""What the JSON file of each calibrator holds: its fitted attributes, and of what kind they are.

A calibrator is written and read only if it is listed here. An attribute that a prediction needs is
required; others, which say how the fit went, may be missing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from skcalib._base import BaseCalibrator
from skcalib._scores.columns import pairs_of
from skcalib.binning import BBQ, HistogramBinning, IsotonicCalibration, VennAbersCalibration
from skcalib.meta import (
    ClassifierCalibrator,
    GroupCalibrator,
    MultiLabelCalibrator,
    PriorShift,
    TopLabelCalibration,
)
from skcalib.scaling import (
    BetaCalibration,
    DirichletCalibration,
    EnsembleTemperatureScaling,
    MatrixScaling,
    OrderPreservingScaling,
    PlattScaling,
    QuadraticScaling,
    SplineCalibration,
    TemperatureScaling,
    VectorScaling,
)
from skcalib.selection import AutoCalibrator
from skcalib.selection._candidates import Uncalibrated, Uniform

from ._kind_of_labels import Labels
from ._kinds import (
    ByName,
    Each,
    Flag,
    Integer,
    Number,
    Numbers,
    Option,
    Place,
    Size,
    Sizes,
    check,
    check_names,
)
from ._trees import Trees, faults_of, trees_of

TEMPERATURE = Number(0, is_open=True)
SHARE = Number(0, 1)
STRENGTH = Number(0)
ANY = Number(finite=False)
PER_MAP = Numbers(("maps",))

# A spline is computed by matrices with as many rows and columns as there are knots.
MOST_KNOTS = 1000


@dataclass(frozen=True)
class Nested:
    """A calibrator, or a pipeline of calibrators, with this number of columns."""

    columns: str = "columns"

    def write(self, value: Any, place: Place) -> Any:
        """The value for JSON."""
        return place.codec.write(value, place.inside())

    def read(self, raw: Any, place: Place) -> Any:
        """The value, checked."""
        found = place.codec.read(raw, place.inside())
        known = place.sizes
        wanted = (1, 2) if self.columns == "one" else (known["columns"], known["classes"])
        last = found[-1] if isinstance(found, Pipeline) else found
        fits = isinstance(last, BaseCalibrator) and place.codec.shape_of(found) == wanted
        check(place, "a calibrator of {} columns and {} classes".format(*wanted), raw, holds=fits)
        return found


class Classifier:
    """The classifier of a :class:`ClassifierCalibrator`, as trees."""

    def write(self, value: Any, place: Place) -> Any:
        """The value for JSON."""
        trees = trees_of(value)
        if trees is None:
            raise TypeError(
                f"Classifiers in JSON are gradient boosting and forests without categories, got "
                f"{type(value).__name__} at {place.where}. Save the calibrator with skops, or use "
                "to_onnx."
            )
        return write_fields(trees, TREES, place)

    def read(self, raw: Any, place: Place) -> Trees:
        """The value, checked."""
        inside = place.inside()
        trees = Trees(**read_fields(raw, TREES, {}, inside))
        wanted, classes = faults_of(trees), place.sizes["classes"]
        check(place, f"trees with {wanted}", raw, holds=not wanted)
        n_features = 1 if classes == 2 else 2 * classes
        wanted = f"trees of {n_features} features with classes up to {classes - 1}"
        labels = trees.classes_
        fits = labels.dtype.kind == "i" and labels.min() >= 0 and labels.max() < classes
        fits = fits and trees.n_features_in_ == n_features
        check(place, wanted, raw, holds=bool(fits))
        return trees


TREES = {
    "link": Option(("mean", "sigmoid", "softmax")),
    "single": Flag(),
    "n_features_in_": Integer(1),
    "classes_": Labels("classes"),
    "baseline": Numbers(("scores",)),
    "root": Numbers(("trees",), 0, integer=True, increasing=True),
    "feature": Numbers(("nodes",), -1, integer=True),
    "threshold": Numbers(("nodes",), finite=False),
    "left": Numbers(("nodes",), 0, integer=True),
    "right": Numbers(("nodes",), 0, integer=True),
    "value": Numbers(("leaves", "values")),
}


def write_fields(value: Any, kinds: dict[str, Any], place: Place) -> dict[str, Any]:
    """Attributes for JSON, those that are there."""
    found = vars(value)
    return {name: kinds[name].write(found[name], place.at(name)) for name in kinds if name in found}


def read_fields(
    raw: Any, required: dict[str, Any], optional: dict[str, Any], place: Place
) -> dict[str, Any]:
    """Attributes by name, checked; in the order of the kinds, since some have sizes of others."""
    check_names(raw, set(required), set(optional), place)
    kinds = {**required, **optional}
    return {name: kinds[name].read(raw[name], place.at(name)) for name in kinds if name in raw}


@dataclass(frozen=True)
class Fitted:
    """Fitted attributes by name, and what must hold for all of them together.

    ``law`` returns what does not, given the attributes and the sizes, or nothing.
    """

    required: dict[str, Any]
    optional: dict[str, Any] = field(default_factory=dict)
    law: Callable[[dict[str, Any], Sizes], str] = lambda *_: ""


def _isotonic(fitted: dict[str, Any], _: Sizes) -> str:
    edges, values = fitted["bin_edges_"], fitted["bin_values_"]
    fits = all(len(e) - len(v) in (0, 1) for e, v in zip(edges, values, strict=True))
    return "" if fits else "as many bin_edges_ as bin_values_, or one more"


def _venn_abers(fitted: dict[str, Any], sizes: Sizes) -> str:
    pairs, n = fitted["pairs_"], len(fitted["bin_edges_"])
    if not len(pairs):
        return "" if n == sizes["maps"] else f"bin_edges_ of {sizes['maps']} classes"
    K = sizes["columns"]
    # First their number, since all pairs may be too many for the memory.
    fits = n == len(pairs) == K * (K - 1) // 2 and np.array_equal(pairs, pairs_of(K))
    return "" if fits else "pairs_ of all classes, with bin_edges_ of each"


def _spline(fitted: dict[str, Any], _: Sizes) -> str:
    knots = fitted["knots_"]
    n_knots = knots.shape[1]
    if not 2 <= n_knots <= MOST_KNOTS:
        return f"2 to {MOST_KNOTS} knots"
    width = knots[:, -1:] - knots[:, :1]
    even = knots[:, :1] + width * np.linspace(0, 1, n_knots)
    fits = (width > 0).all() and (abs(knots - even) <= 1e-6 * width).all()
    return "" if fits else "equally spaced knots_"


def _groups(fitted: dict[str, Any], _: Sizes) -> str:
    groups = fitted["groups_"].tolist()
    try:
        return "" if groups == sorted(groups) else "groups_ in order"
    except TypeError:  # of labels of several types
        return "groups_ that can be sorted"


_FIT = {"n_iter_": Integer(), "alpha_": STRENGTH}
_AROUND = {"temperature_": TEMPERATURE, "smoothing_": SHARE}
_PATH = {
    "alphas_": Numbers(("alphas",), finite=False),
    "loo_losses_": Numbers(("alphas",), finite=False),
}


def _linear(*shape: str, **more: Any) -> Fitted:
    required = {
        "coef_": Numbers(shape),
        "intercept_": Numbers(("classes",)),
        "normalize_": Flag(),
        **_AROUND,
    }
    return Fitted(required, {**_FIT, **_PATH, "loss_": ANY, **more})


def _steps(edges: Size = ("bins", 1), n: str = "maps") -> dict[str, Any]:
    """Edges and values of step functions."""
    return {
        "bin_edges_": Each(Numbers((edges,), 0, 1, increasing=True), n),
        "bin_values_": Each(Numbers(("bins",), 0, 1), n),
    }


def _prior_shift(fitted: dict[str, Any], sizes: Sizes) -> str:
    edges, codes, K = fitted["cell_edges_"], fitted["cell_codes_"], sizes["classes"]
    n_cells = len(edges) * (edges.shape[1] + 1)
    fits = not len(codes) or codes.max() < n_cells * K
    return "" if fits else f"cell_codes_ below {n_cells * K}"


PRIORS = Numbers(("classes",), 0, 1)

FITTED: dict[type, Fitted] = {
    TemperatureScaling: Fitted(_AROUND),
    VectorScaling: _linear("classes"),
    MatrixScaling: _linear("classes", "classes"),
    DirichletCalibration: _linear(
        "classes",
        "classes",
        alpha_intercept_=STRENGTH,
        alphas_=Numbers(("alphas", 2), finite=False),
    ),
    OrderPreservingScaling: Fitted(
        {
            "knots_": Numbers(("knots",), increasing=True),
            "slopes_": Numbers((("knots", 1),), 0),
            **_AROUND,
        },
        {"alpha_": STRENGTH},
    ),
    EnsembleTemperatureScaling: Fitted({**_AROUND, "weights_": Numbers((3,), 0, 1, total=1)}),
    PlattScaling: Fitted({"coef_": PER_MAP, "intercept_": PER_MAP}, _FIT),
    QuadraticScaling: Fitted(
        {
            "intercept_": PER_MAP,
            "coef_": PER_MAP,
            "quadratic_": PER_MAP,
            "limits_": Numbers((2, "maps"), finite=False),
            **_AROUND,
        },
        _FIT,
    ),
    BetaCalibration: Fitted({"a_": PER_MAP, "b_": PER_MAP, "intercept_": PER_MAP, **_AROUND}, _FIT),
    SplineCalibration: Fitted(
        {
            "knots_": Numbers(("maps", "knots"), increasing=True),
            "values_": Numbers(("maps", "knots")),
            **_AROUND,
        },
        {**_FIT, **_PATH},
        law=_spline,
    ),
    HistogramBinning: Fitted(_steps()),
    IsotonicCalibration: Fitted(_steps("knots"), law=_isotonic),
    BBQ: Fitted(
        _steps(),
        {
            "n_bins_": Each(Numbers(("binnings",), 1, integer=True), "maps"),
            "log_weights_": Each(Numbers(("binnings",), finite=False), "maps"),
        },
    ),
    VennAbersCalibration: Fitted(
        {
            **_steps(n="functions"),
            "bin_intervals_": Each(Numbers(("bins", 2), 0, 1, increasing=True), "functions"),
            "pairs_": Numbers(("pairs", 2), 0, integer=True),
        },
        law=_venn_abers,
    ),
    ClassifierCalibrator: Fitted({"estimator_": Classifier(), **_AROUND}),
    Uniform: Fitted({}),
    Uncalibrated: Fitted({"masked_": Flag()}),
    TopLabelCalibration: Fitted(
        {
            "pooled_calibrator_": Nested("one"),
            "calibrators_": Each(Nested("one"), "classes"),
            "shares_": Numbers(("classes",), 0, 1),
        }
    ),
    GroupCalibrator: Fitted(
        {
            "groups_": Labels("groups"),
            "pooled_calibrator_": Nested(),
            "calibrators_": Each(Nested(), "groups"),
            "shares_": Numbers(("groups",), 0, 1),
            "shrinkage_": Number(0, finite=False),
        },
        law=_groups,
    ),
    AutoCalibrator: Fitted(
        {
            # First, since components refer to them.
            "calibrators_": ByName(Nested()),
            "components_": Each(Nested(), "components"),
            "component_weights_": Numbers(("components",), 0, 1, total=1),
            "smoothing_": SHARE,
        },
        {
            "weights_": ByName(SHARE),
            "cv_log_loss_": ByName(ANY),
            "cv_log_loss_error_": ByName(ANY),
        },
    ),
    PriorShift: Fitted(
        {
            "calibration_priors_": PRIORS,
            "priors_": PRIORS,
            "log_ratios_": Numbers(("classes",)),
            "label_weights_": Numbers(("classes",), 0),
            "cell_edges_": Numbers(("classes", "edges"), finite=False, increasing=True),
            "cell_codes_": Numbers(("cells",), 0, integer=True),
            "cell_weights_": Numbers(("cells",), 0),
        },
        {
            "standard_errors_": Numbers(("classes",), finite=False),
            "n_iter_": Integer(),
            "log_likelihood_ratio_": ANY,
            "label_shift_pvalue_": ANY,
        },
        law=_prior_shift,
    ),
    MultiLabelCalibrator: Fitted({"calibrators_": Each(Nested("one"), "classes")}),
}
