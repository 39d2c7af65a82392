"""Calibrators, and pipelines of calibrators, as objects of JSON files, with their parameters."""

from inspect import signature
from math import isfinite
from types import NoneType, SimpleNamespace
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.pipeline import Pipeline

from skcalib._base import BaseCalibrator
from skcalib._scores.columns import n_maps
from skcalib._validation.inputs import check_fitted
from skcalib._version import _plain

from ._kind_of_labels import Labels, Names
from ._kinds import REMEDY, Integer, Place, check, check_names, is_integer, is_text
from ._state import FITTED, read_fields, write_fields

# Classifiers as parameters, of which only what differs from the default is written.
CLASSIFIERS = [ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier]
KNOWN: dict[str, type] = {kind.__name__: kind for kind in [*FITTED, *CLASSIFIERS, Pipeline]}

# Calibrators that are computed for each that is written, on average, some of them repeatedly.
MOST_REPEATS = 100

COMMON: dict[str, Any] = {"n_features_in_": Integer(1), "classes_": Labels("classes")}
NAMES = {"feature_names_in_": Names("columns")}


# Calibrators.
def written(calibrator: Any) -> dict[str, Any]:
    """A fitted calibrator, or a pipeline of calibrators, for JSON."""
    return write_object(calibrator, _place())


def read(raw: Any) -> Any:
    """The fitted calibrator, or pipeline of calibrators, of a value of JSON, checked."""
    return read_object(raw, _place())


def _place() -> Place:
    codec = SimpleNamespace(write=write_object, read=read_object, shape_of=shape_of)
    codec.tally = SimpleNamespace(written=0, counted=0, of_place={})
    return Place("calibrator", codec=codec)


def write_object(calibrator: Any, place: Place) -> dict[str, Any]:
    """The same for one that may be inside another."""
    if id(calibrator) in place.known:
        return {"same_as": place.known[id(calibrator)]}
    place.known[id(calibrator)] = place.where
    kind, name = type(calibrator), type(calibrator).__name__
    if kind is Pipeline:
        steps = [[name, _written_step(step, place.at(name))] for name, step in calibrator.steps]
        return {"class": name, "steps": steps}
    if kind not in FITTED:
        raise TypeError(
            f"{name} at {place.where} cannot be written as JSON, which holds calibrators of "
            "skcalib. Save it with skops, or use to_onnx."
        )
    check_fitted(calibrator)
    kinds = {**COMMON, **NAMES, **FITTED[kind].required, **FITTED[kind].optional}
    fitted = write_fields(calibrator, kinds, place.at("fitted"))  # first, as it matters most
    parameters = write_parameters(calibrator, place.at("parameters").inside())
    return {"class": name, "parameters": parameters, "fitted": fitted}


def _written_step(step: Any, place: Place) -> Any:
    return step if step in (None, "passthrough") else write_object(step, place)


def read_object(raw: Any, place: Place) -> Any:
    """The same for one that may be inside another."""
    check(place, "an object", raw, holds=type(raw) is dict)
    tally = place.codec.tally
    tally.written += 1
    if raw.keys() == {"same_as"}:
        return _read_again(raw["same_as"], place)
    before = tally.counted
    tally.counted += 1
    kind = _class_of(raw, place)
    found = _read_pipeline(raw, place) if kind is Pipeline else _read_calibrator(kind, raw, place)
    place.known[place.where] = found
    tally.of_place[place.where] = tally.counted - before
    return found


def _read_again(where: Any, place: Place) -> Any:
    """The calibrator that was read at another place.

    Since predictions compute it again, with all that is inside it, a file of a few members might
    stand for billions of them.
    """
    there = is_text(where) and where in place.known
    check(place, "the place of a calibrator further up", where, holds=there)
    tally = place.codec.tally
    tally.counted += tally.of_place[where]
    few = tally.counted <= MOST_REPEATS * tally.written
    check(place, f"one of at most {MOST_REPEATS} for each that the file has", where, holds=few)
    return place.known[where]


def _class_of(raw: dict[str, Any], place: Place) -> type:
    name = raw.get("class")
    if not is_text(name) or name not in KNOWN:
        raise ValueError(
            f"{place.where} is of the class {name!r:.100}, which skcalib does not read from JSON. "
            "Install a newer skcalib if that wrote it; other classes are saved with skops."
        )
    return KNOWN[str(name)]


def _read_calibrator(kind: Any, raw: dict[str, Any], place: Place) -> Any:
    check(place, "a calibrator", raw["class"], holds=kind in FITTED)
    check_names(raw, {"class", "parameters", "fitted"}, set(), place)
    calibrator = kind(**read_parameters(kind, raw["parameters"], place.at("parameters").inside()))
    fitted, inside = FITTED[kind], place.at("fitted")
    _read_sizes(raw["fitted"], inside, multilabel=not issubclass(kind, BaseCalibrator))
    attributes = read_fields(
        raw["fitted"], {**COMMON, **fitted.required}, {**NAMES, **fitted.optional}, inside
    )
    wanted = fitted.law(attributes, inside.sizes)
    check(inside, f"attributes with {wanted}", raw["fitted"], holds=not wanted)
    for name, value in attributes.items():
        setattr(calibrator, name, value)
    if isinstance(calibrator, BaseCalibrator):
        calibrator._fitted_to = "NumPy"  # noqa: SLF001
        _try(calibrator, place)
    return calibrator


def _read_sizes(raw: Any, place: Place, *, multilabel: bool) -> None:
    """Note the numbers of columns and classes, on which other sizes depend."""
    check_names(raw, set(COMMON), set(raw) if type(raw) is dict else set(), place)
    columns = COMMON["n_features_in_"].read(raw["n_features_in_"], place.at("n_features_in_"))
    classes = len(COMMON["classes_"].read(raw["classes_"], place.at("classes_")))
    fits = columns == classes
    if not multilabel:
        fits = classes > 1 and (fits or (columns, classes) == (1, 2))
    check(place.at("n_features_in_"), f"the number of {classes} classes", columns, holds=fits)
    place.sizes.update(columns=columns, maps=n_maps(columns))


def _try(calibrator: BaseCalibrator, place: Place) -> None:
    """Raise a ValueError unless the calibrator gives probabilities of some logits."""
    Z = np.outer([-1.0, 0.0, 1.0], np.arange(calibrator.n_features_in_) + 1.0)
    try:
        with np.errstate(all="ignore"):
            P = calibrator._probabilities(Z)  # noqa: SLF001
    except Exception as error:
        raise ValueError(
            f"{place.where} gives no probabilities: {error!r:.200}. {REMEDY}"
        ) from error
    right = P.shape == (3, len(calibrator.classes_)) and P.min() >= 0
    if not (right and np.abs(P.sum(axis=1) - 1).max() < 1e-6):
        raise ValueError(f"{place.where} gives invalid probabilities, {P[0]}. {REMEDY}")


def _read_pipeline(raw: dict[str, Any], place: Place) -> Pipeline:
    check_names(raw, {"class", "steps"}, set(), place)
    steps = raw["steps"]
    fits = type(steps) is list and all(type(x) is list and len(x) == 2 for x in steps)
    check(place, "a pipeline of pairs of a name and a calibrator", steps, holds=fits)
    names = [name for name, _ in steps]
    valid = all(is_text(name) and "__" not in name for name in names) and len({*names}) == len(
        names
    )
    check(place, 'a pipeline with different names without "__"', names, holds=valid)
    valid = not {*names} & signature(Pipeline).parameters.keys()
    check(place, "a pipeline whose names are not those of its parameters", names, holds=valid)
    found = [
        (
            name,
            step if step in (None, "passthrough") else read_object(step, place.at(name).inside()),
        )
        for name, step in steps
    ]
    shapes = {shape_of(step) for _, step in found if isinstance(step, BaseEstimator)}
    fits = len(shapes) == 1 and isinstance(found[-1][1], BaseEstimator)
    check(place, "a pipeline of calibrators for the same classes", names, holds=fits)
    return Pipeline(found)


def shape_of(calibrator: Any) -> tuple[int, int]:
    """Numbers of columns and of classes of a calibrator, or of the last one of a pipeline."""
    last = calibrator[-1] if isinstance(calibrator, Pipeline) else calibrator
    return last.n_features_in_, len(last.classes_)


# Parameters.
def write_parameters(estimator: Any, place: Place) -> dict[str, Any]:
    """Parameters by name for JSON; of a classifier those that are not the defaults."""
    params = estimator.get_params(deep=False)
    if type(estimator) in CLASSIFIERS:
        defaults = type(estimator)().get_params(deep=False)
        params = {name: x for name, x in params.items() if not _equal(x, defaults[name])}
    return {name: _written(_plain(value), place.at(name)) for name, value in params.items()}


def _equal(x: Any, default: Any) -> bool:
    return x is default or (type(x) is type(default) and bool(x == default))


def _written(value: Any, place: Place) -> Any:
    """A value of a parameter for JSON."""
    value = value.item() if isinstance(value, np.generic) else value
    plain = value is None or type(value) in (bool, str) or is_integer(value)
    if plain or (type(value) is float and isfinite(value)):
        return value
    if isinstance(value, list | tuple):
        return [_written(member, place.entry(k)) for k, member in enumerate(value)]
    if isinstance(value, dict) and all(map(is_text, value)):
        return {"entries": {name: _written(x, place.at(name)) for name, x in value.items()}}
    if isinstance(value, np.ndarray) and value.ndim == 1:
        found = Labels("labels").write(value, place)
        return found if isinstance(found, dict) else {"dtype": _name(value.dtype), "values": found}
    if type(value) in KNOWN.values():
        return _written_estimator(value, place)
    raise TypeError(
        f"{place.where} cannot be written as JSON, got {value!r:.100}. Set the parameter to a "
        "number, a string or None, which changes no predictions, as in copy.copy(calibrator)."
        f"set_params({place.where.rpartition('.')[2]}=None), or save the calibrator with skops."
    )


def _written_estimator(estimator: Any, place: Place) -> dict[str, Any]:
    """An estimator that is not fitted, or whose fit does not matter, for JSON."""
    name = type(estimator).__name__
    if isinstance(estimator, Pipeline):
        return {"class": name, "steps": [[n, _written(s, place)] for n, s in estimator.steps]}
    return {"class": name, "parameters": write_parameters(estimator, place)}


def _name(dtype: np.dtype[Any]) -> str:
    return dtype.str[1:] if dtype.kind == "U" else dtype.name


def read_parameters(kind: Any, raw: Any, place: Place) -> dict[str, Any]:
    """Parameters of a class, checked; those that are missing have their defaults."""
    check_names(raw, set(), set(kind().get_params(deep=False)), place)
    hints = get_type_hints(kind.__init__) if kind in FITTED else {}
    found = {name: _read(value, place.at(name)) for name, value in raw.items()}
    for name, value in found.items():
        check_type(value, hints.get(name, Any), place.at(name))
    return found


def _read(raw: Any, place: Place) -> Any:
    """A value of a parameter."""
    if raw is None or type(raw) in (bool, float) or is_text(raw) or is_integer(raw):
        return raw
    if type(raw) is list:
        return [_read(member, place.entry(k)) for k, member in enumerate(raw)]
    keys = raw.keys() if type(raw) is dict else None
    if keys == {"entries"}:
        entries = raw["entries"]
        check(place, "an object of entries", entries, holds=type(entries) is dict)
        return {name: _read(x, place.at(name)) for name, x in entries.items()}
    if keys == {"dtype", "values"}:
        return Labels("labels").read(raw, place.inside())
    wanted = "null, a number, a string, a list, or an object with class and parameters"
    fits = keys in ({"class", "parameters"}, {"class", "steps"})
    check(place, wanted, raw, holds=fits)
    kind = _class_of(raw, place)
    if kind is Pipeline:
        return _read_unfitted_pipeline(raw, place)
    check(place, wanted, raw, holds="parameters" in raw)
    return kind(**read_parameters(kind, raw["parameters"], place))


def _read_unfitted_pipeline(raw: dict[str, Any], place: Place) -> Pipeline:
    steps = raw.get("steps")
    fits = type(steps) is list and all(
        type(x) is list and len(x) == 2 and is_text(x[0]) for x in steps
    )
    check(
        place, "a pipeline of pairs of a name and a calibrator", steps, holds=fits and bool(steps)
    )
    return Pipeline([(name, _read(step, place.at(name))) for name, step in raw["steps"]])


def check_type(value: Any, hint: Any, place: Place) -> None:
    """Raise a ValueError for a value that a hint excludes, if it is one of simple types."""
    members = get_args(hint) if get_origin(hint) is not Literal and get_args(hint) else (hint,)
    options = [o for m in members if get_origin(m) is Literal for o in get_args(m)]
    types = [m for m in members if get_origin(m) is not Literal]
    if not all(t in (bool, int, float, NoneType) for t in types):
        return
    allowed = {*types, int} if float in types else set(types)
    fits = type(value) in allowed or (type(value) is str and value in options)
    wanted = [f'"{o}"' for o in options] + [t.__name__ for t in types]
    check(place, " or ".join(wanted), value, holds=fits)
