"""Calibrators and monitors as JSON: plain numbers and text that load without executing anything."""

import json
import re
import reprlib
import warnings
from copy import copy
from math import isfinite
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from skcalib import binning, meta, scaling, selection
from skcalib._base import BaseCalibrator
from skcalib._rows import Array
from skcalib._version import __version__, warn_of_version
from skcalib.monitor import CalibrationMonitor
from skcalib.selection import _candidates

from ._classifiers import ENSEMBLES, Trees, check_trees, trees_of
from ._onnx import chain_of

FORMAT, VERSION = "skcalib calibrator", 2

# All calibrators by name, also those that only the default calibrator has.
CALIBRATORS: dict[str, Any] = {
    name: kind
    for module in (binning, meta, scaling, selection, _candidates)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, BaseCalibrator | meta.MultiLabelCalibrator)
    if kind is not BaseCalibrator
}

MONITORS: dict[str, Any] = {"CalibrationMonitor": CalibrationMonitor}

# Classes by name. Classifiers are there as parameters, and once they are fitted as trees.
CLASSES = CALIBRATORS | {kind.__name__: kind for kind in (*ENSEMBLES, Pipeline, Trees)}

DTYPES = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)|object|U[1-9][0-9]{0,5}")
SCALARS = {bool, int, float, str}

# Deepest nesting that is read; letters of an array of text for each that the file has; numbers in
# the trial prediction.
DEEPEST, MOST_LETTERS, TRIAL = 64, 256, 10**5


def to_json(calibrator: Any) -> str:
    """A fitted calibrator, a pipeline of calibrators, or a monitor, as text in JSON.

    The text holds the class, the parameters and the fitted attributes as plain numbers and
    strings, for people and other programs to read; :ref:`its format <json>` is documented. What
    :func:`from_json` makes of it predicts bit for bit the same, and a monitor goes on as it would
    have done.

    Parameters
    ----------
    calibrator : calibrator, Pipeline or CalibrationMonitor
        A fitted calibrator of skcalib, a pipeline of fitted calibrators, or a monitor.

    Returns
    -------
    str
        The text, in ASCII.

    Raises
    ------
    NotFittedError
        If it is not fitted.
    TypeError
        If it is no calibrator of skcalib, or holds what JSON cannot: a classifier other than
        gradient boosting and forests of scikit-learn, labels that are neither numbers nor strings,
        or a parameter such as a splitter.

    See Also
    --------
    from_json : The calibrator again.
    to_onnx : For other languages and runtimes.

    Notes
    -----
    What says how outputs are wrapped, ``set_output``, and metadata routing are not part of the
    file, nor is the ``memory`` of a pipeline.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import HistogramBinning
    >>> from skcalib.export import to_json
    >>> X = np.array([[2.0], [1.0], [-1.0], [-2.0]])
    >>> calibrator = HistogramBinning(n_bins=2).fit(X, ["b", "a", "b", "a"])
    >>> print(to_json(calibrator))  # doctest: +ELLIPSIS
    {
      "format": "skcalib calibrator",
      "version": 2,
      "skcalib": "...",
      "calibrator": {
        "class": "HistogramBinning",
        "parameters": {
          "classes": null,
          "n_bins": 2,
          "pseudo_rows": 1.0,
          "strategy": "uniform"
        },
        "fitted": {
          "n_features_in_": 1,
          "classes_": {"dtype": "U1", "shape": [2], "values": ["a", "b"]},
          "bin_edges_": [
            {"dtype": "float64", "shape": [3], "values": [0.0, 0.5, 1.0]}
          ],
          "bin_values_": [
            {"dtype": "float64", "shape": [2], "values": [0.4166666666666667, 0.5833333333333334]}
          ]
        }
      }
    }
    """
    if type(calibrator) in MONITORS.values():
        state = _members(vars(calibrator), "monitor", fitted=True)
        content = {"class": type(calibrator).__name__, "state": state}
    else:
        chain_of(calibrator, "to_json")
        content = _written(calibrator, "calibrator", fitted=True)
    head = {"format": FORMAT, "version": VERSION, "skcalib": __version__}
    return _laid_out({**head, "calibrator": content})


def from_json(text: str) -> Any:
    """The fitted calibrator, pipeline of calibrators, or monitor, of a text by :func:`to_json`.

    Nothing in the text is executed, and no name in it is imported. Types and sizes are checked,
    and that the calibrator predicts; but not that its numbers are those of a fit: load files from
    people that you trust.

    Parameters
    ----------
    text : str
        Text by :func:`to_json`.

    Returns
    -------
    calibrator or Pipeline
        Of the same class, with the same parameters and fitted attributes, and the same predictions,
        bit for bit. A classifier inside is replaced by its trees as arrays.

    Raises
    ------
    ValueError
        If it is not valid JSON, or not that of a calibrator that predicts, or of a version or class
        that this version of skcalib does not know.
    TypeError
        If it is not a string.

    Warns
    -----
    InconsistentVersionWarning
        If another version of skcalib wrote the text.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import TemperatureScaling
    >>> from skcalib.datasets import make_logits
    >>> from skcalib.export import from_json, to_json
    >>> logits, y = make_logits(200, 3, random_state=0)
    >>> calibrator = TemperatureScaling().fit(logits, y)
    >>> loaded = from_json(to_json(calibrator))
    >>> np.array_equal(loaded.predict_proba(logits), calibrator.predict_proba(logits))
    True
    """
    if not isinstance(text, str):
        raise TypeError(
            f"from_json takes text, got {type(text).__name__}. Read a file with "
            "pathlib.Path(file).read_text()."
        )
    try:
        raw = json.loads(text, parse_constant=int)  # which refuses NaN and Infinity, no JSON
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"The text must be JSON, got {text[:40]!r}, which breaks off or is nested too deep: "
            f"{error}. Pass the text that to_json returned, not the name of a file."
        ) from error
    written_by = _checked_head(raw)
    try:
        with warnings.catch_warnings():  # of wrong numbers, and of columns without names
            warnings.simplefilter("ignore")
            read = _read_monitor if "state" in raw["calibrator"] else _read_calibrator
            calibrator = read(raw["calibrator"], len(text))
    except Exception as error:  # whatever a calibrator of wrong numbers raises
        reason = " ".join(str(error).split()).rstrip(".")
        raise ValueError(
            "The text must be that of a calibrator that predicts or of a monitor, got "
            f"{type(error).__name__}: {reason:.300}. Write it again with to_json."
        ) from error
    warn_of_version(type(calibrator).__name__, written_by)
    return calibrator


# Writing.
def _written(value: Any, where: str, *, fitted: bool) -> Any:
    """A value for JSON; of estimators also what was ``fitted``, unless they are parameters."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or type(value) in SCALARS - {float}:
        return value
    if type(value) is float:  # an array without dimensions has room for what is not finite
        return value if isfinite(value) else _written(np.array(value), where, fitted=fitted)
    if isinstance(value, np.ndarray):
        return _array(value, where)
    if isinstance(value, list | tuple):
        return [_written(x, f"{where}[{k}]", fitted=fitted) for k, x in enumerate(value)]
    if isinstance(value, dict) and all(type(name) is str for name in value):
        return {"entries": _members(value, where, fitted=fitted)}
    if fitted and type(value) in ENSEMBLES:
        value = trees_of(value)
    if CLASSES.get(type(value).__name__) is type(value):
        return _estimator(value, where, fitted=fitted)
    raise _refused(value, where)


def _members(value: dict[str, Any], where: str, *, fitted: bool) -> dict[str, Any]:
    return {name: _written(x, f"{where}.{name}", fitted=fitted) for name, x in value.items()}


def _estimator(estimator: Any, where: str, *, fitted: bool) -> dict[str, Any]:
    """An estimator as an object with its class, parameters and fitted attributes."""
    kind = type(estimator)
    state = estimator.__getstate__()  # with arrays of NumPy, where they are tensors
    params = {name: state[name] for name in estimator.get_params(deep=False)}
    if kind is Pipeline:
        steps = {"steps": estimator.steps}
        return {"class": kind.__name__, "parameters": _members(steps, where, fitted=fitted)}
    if kind in ENSEMBLES:  # those that are as by default may differ between versions
        default = kind().get_params(deep=False)
        params = {name: x for name, x in params.items() if repr(x) != repr(default[name])}
    found = {"class": kind.__name__, "parameters": _members(params, where, fitted=False)}
    if fitted:
        attributes = {name: x for name, x in state.items() if name.endswith("_")}
        found["fitted"] = _members(attributes, where, fitted=True)
    return found


def _array(array: Array, where: str) -> dict[str, Any]:
    """An array as an object with its dtype, shape and values; infinite ones and NaN as text."""
    name = array.dtype.str[1:] if array.dtype.kind == "U" else array.dtype.name
    found = [x.item() if isinstance(x, np.generic) else x for x in array.ravel().tolist()]
    values = [repr(x) if type(x) is float and not isfinite(x) else x for x in found]
    fits = DTYPES.fullmatch(name) and set(map(type, found)) <= SCALARS
    if not fits or (name == "object" and values != found):
        raise _refused(array, where)
    return {"dtype": name, "shape": list(array.shape), "values": values}


def _refused(value: Any, where: str) -> TypeError:
    return TypeError(
        f"{where} cannot be written as JSON, which holds numbers, text, arrays of these, and "
        "calibrators of skcalib with trees of gradient boosting without categories or of forests "
        f"inside, got {value!r:.100} of type {type(value).__name__}. Save the calibrator with "
        "skops, use to_onnx, or set a parameter that predictions do not need to None."
    )


def _laid_out(value: Any, indent: str = "") -> str:
    """JSON with one line for each member of an object and for each array."""
    more = indent + "  "
    if isinstance(value, dict) and value and "dtype" not in value:
        members = [f"{json.dumps(name)}: {_laid_out(x, more)}" for name, x in value.items()]
        return "{\n" + more + f",\n{more}".join(members) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(x, dict | list) for x in value):
        return "[\n" + more + f",\n{more}".join(_laid_out(x, more) for x in value) + f"\n{indent}]"
    return json.dumps(value, allow_nan=False)


# Reading.
def _checked_head(raw: Any) -> str:
    """The version of skcalib that wrote a file, whose format is checked."""
    head = raw if type(raw) is dict else {}
    of_skcalib, version = head.get("skcalib"), head.get("version")
    if head.get("format") != FORMAT or type(version) is not int or type(of_skcalib) is not str:
        raise ValueError(
            f'The text must be an object whose format is "{FORMAT}", with versions of the format '
            f"and of skcalib, got {reprlib.repr(raw):.60}. Write it again with to_json."
        )
    if version != VERSION or "calibrator" not in head:
        raise ValueError(
            f"The format must be of version {VERSION} and hold a calibrator, got version {version} "
            f"by skcalib {of_skcalib:.40}. Install that skcalib, or write it again with to_json."
        )
    return of_skcalib


def _read(raw: Any, path: tuple[str, ...], most: int) -> Any:
    """The value of JSON, with the names on the way to it and the largest size of an array."""
    _check(path[:9], f"nested at most {DEEPEST} deep", holds=len(path) <= DEEPEST)
    if type(raw) is list:
        return [_read(x, (*path, str(k)), most) for k, x in enumerate(raw)]
    if type(raw) is not dict:
        return raw
    if raw.keys() == {"entries"}:
        return _read_members(raw["entries"], path, most)
    if raw.keys() == {"dtype", "shape", "values"}:
        return _read_array(raw, path, most)
    return _read_estimator(raw, path, most)


def _read_members(raw: dict[str, Any], path: tuple[str, ...], most: int) -> dict[str, Any]:
    _check(path, "an object", holds=type(raw) is dict)
    return {name: _read(x, (*path, name), most) for name, x in raw.items()}


def _read_array(raw: dict[str, Any], path: tuple[str, ...], most: int) -> Any:
    dtype, shape, values = raw["dtype"], raw["shape"], raw["values"]
    fits = type(dtype) is str and DTYPES.fullmatch(dtype) is not None
    _check(path, "of a dtype such as float64 or U9", holds=fits)
    fits = type(values) is list and type(shape) is list and set(map(type, values)) <= SCALARS
    fits = fits and all(type(size) is int and size <= most for size in shape)
    _check(path, "an array with sizes and values", holds=fits)
    letters = sum(len(x) + 1 for x in values if type(x) is str)
    wide = dtype[:1] == "U" and int(dtype[1:]) * len(values) > MOST_LETTERS * letters
    _check(path, "text of about equal lengths", holds=not wide)
    array = np.array(values, dtype).reshape(shape)
    # What the type has rounded, or taken for something else, is not the same again.
    same = _array(array, "") == raw
    _check(path, f"values of the type {dtype} in that shape", holds=same)
    return array if shape else array.item()


def _read_estimator(raw: dict[str, Any], path: tuple[str, ...], most: int) -> Any:
    name = raw.get("class")
    fits = type(name) is str and name in CLASSES and "parameters" in raw
    _check(path, "a calibrator of a class that this version of skcalib has", holds=fits)
    kind = CLASSES[str(name)]
    params = _read_members(raw["parameters"], path, most)
    if kind is Pipeline:
        params = {"steps": [(name, step) for name, step in params["steps"]]}
    found = kind(**params)
    fitted = _read_members(raw.get("fitted", {}), path, most)
    fits = all(re.fullmatch("[a-z][a-z0-9_]*_", name) for name in fitted)
    _check(path, "fitted with names that end in an underscore", holds=fits)
    n = fitted.get("n_features_in_", 1)
    fits = type(n) is int and 0 < n <= most
    _check(path, "of no more columns than the text is long", holds=fits)
    vars(found).update(fitted)
    if kind is Trees:
        check_trees(found)
    return found


def _read_calibrator(raw: Any, most: int) -> Any:
    """A calibrator, or an error unless it gives probabilities of some logits.

    Each class is the most probable one in a row, as far as they are few.
    """
    calibrator = _read(raw, ("calibrator",), most)
    chain = chain_of(calibrator, "from_json")
    n_columns = chain[0].n_features_in_
    n = max(3, min(n_columns, TRIAL // n_columns))
    Z = (np.arange(n_columns) - np.arange(n)[:, None]) % n_columns * 1.0
    Z = np.linspace(-9, 9, n)[:, None] if n_columns == 1 else Z
    levels = getattr(calibrator, "feature_levels_", [])
    more = {"features": [[of[0] if len(of) else 0 for of in levels]] * n} if levels else {}
    P, shape = calibrator.predict_proba(Z, **more), (n, len(chain[-1].classes_))
    fits = P.shape == shape and bool(((P >= 0) & (P <= 1)).all())
    _check(("outputs",), "probabilities", holds=fits)
    calibrator.predict(Z, **more)
    return calibrator


def _read_monitor(raw: dict[str, Any], most: int) -> Any:
    """A monitor with its state, of which a copy takes some rows."""
    kind: Any = MONITORS.get(raw["class"])
    state = _read_members(raw["state"], ("monitor",), most)
    fits = kind is not None and not any(hasattr(kind, name) for name in state)
    _check(("monitor",), "of a class, and of attributes, that skcalib has", holds=fits)
    fits = all(type(n) is not int or n <= most for n in map(state.get, ("n_bins", "n_classes")))
    _check(("monitor",), "of no more bins and classes than the text is long", holds=fits)
    monitor: Any = object.__new__(kind)
    vars(monitor).update(state)
    trial, labels = copy(monitor), state.get("labels")
    rows = () if labels is None else (np.resize(labels, 20),)  # the fewest that are bet on
    K = state["n_classes"] if labels is None else len(labels)
    trial.update(*rows, np.full((20, K), 1 / K))
    shapes = [{name: np.shape(x) for name, x in vars(m).items()} for m in (monitor, trial)]
    fits = shapes[0] == shapes[1] and 0 < trial.p_value <= 1 and 0 <= trial.e_value < np.inf
    _check(("monitor",), "updated as monitors are", holds=fits)
    return monitor


def _check(path: tuple[str, ...], wanted: str, *, holds: bool) -> None:
    if not holds:
        raise ValueError(f"{'.'.join(path):.200} must be {wanted}")
