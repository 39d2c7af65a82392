"""Calibrators and monitors as JSON texts, which load without executing code."""

from __future__ import annotations

import json
import re
import reprlib
import warnings
from collections.abc import Mapping
from datetime import date, datetime
from math import isfinite
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from skcalib._typing import Array
from skcalib._version import __version__, warn_of_version
from skcalib.base import BaseCalibrator
from skcalib.monitor import CalibrationMonitor

from ._calibrators import check_metadata, fitted_chain, known_calibrators

FORMAT, VERSION = "skcalib calibrator", 2

# scikit-learn's estimators around calibrators, and the parameter that contains them.
AROUND = {Pipeline: "steps", FrozenEstimator: "estimator"}

# Attributes that are not fitted state: output containers, routing, versions, array kinds.
NOT_STATE = {"_sklearn_output_config", "_metadata_request", "_skcalib_version", "_fitted_to"}

DTYPE_PATTERN = re.compile(
    r"bool|u?int(8|16|32|64)|float(16|32|64)|object|[SU][0-9]{1,6}|datetime64\[\w+\]"
)
SCALARS = {bool, int, float, str}

# Shorter tables are written value by value.
SHORT = 20

# Largest number of logits in the trial prediction after reading.
TRIAL = 10**5


def to_json(calibrator: Any, *, metadata: Mapping[str, Any] | None = None) -> str:
    """Write a fitted calibrator, a pipeline of calibrators, or a monitor as JSON text.

    The text contains the class, the parameters and the fitted attributes as plain numbers and
    strings, for people and other programs to read; :ref:`its format <json>` is documented. The
    calibrator that :func:`from_json` returns predicts bit for bit the same.

    Parameters
    ----------
    calibrator : calibrator, Pipeline or CalibrationMonitor
        A fitted calibrator made of maps and bins, a pipeline of fitted calibrators, or a monitor.
    metadata : dict, default=None
        Evidence about the calibrator, such as a data name, a date and a label count. Keys are text;
        values are text, finite numbers, dates, lists and dicts. Dates become text.

    Returns
    -------
    str
        The text, in ASCII.

    Raises
    ------
    NotFittedError
        If the calibrator is not fitted.
    TypeError
        If ``calibrator`` is not a calibrator of skcalib, or if JSON cannot represent a part: a
        classifier such as the trees of :class:`~skcalib.AutoCalibrator`, or a parameter such as a
        splitter. Save these calibrators with skops or joblib, or fit
        ``AutoCalibrator("smooth")``, which has no trees.

    See Also
    --------
    from_json : The calibrator again.
    to_onnx : For other languages and runtimes.

    Notes
    -----
    The text leaves out ``set_output``, metadata routing, and a pipeline's ``memory``.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import HistogramBinning
    >>> from skcalib.export import to_json
    >>> X = np.array([[2.0], [1.0], [-1.0], [-2.0]])
    >>> calibrator = HistogramBinning(n_bins=2).fit(X, ["b", "a", "b", "a"])
    >>> print(to_json(calibrator, metadata={"n_labels": 4}))  # doctest: +ELLIPSIS
    {
      "format": "skcalib calibrator",
      "version": 2,
      "skcalib": "...",
      "metadata": {
        "n_labels": 4
      },
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
    evidence = check_metadata(metadata)
    if type(calibrator) is CalibrationMonitor:
        state = _encode_members(vars(calibrator), "monitor")
        content = {"class": "CalibrationMonitor", "state": state}
    else:
        fitted_chain(calibrator, "to_json")
        content = _encode_estimator(calibrator, "calibrator")
    head = {"format": FORMAT, "version": VERSION, "skcalib": __version__}
    if evidence:
        head["metadata"] = evidence
    return _layout({**head, "calibrator": content})


def from_json(text: str, *, return_metadata: bool = False) -> Any:
    """Read a fitted calibrator, a pipeline of calibrators, or a monitor from JSON text.

    Nothing in the text is executed, and no name in it is imported. The function checks types, and
    that the calibrator predicts. It does not check that the numbers come from a fit: load files
    from people that you trust.

    Parameters
    ----------
    text : str
        Text by :func:`to_json`.
    return_metadata : bool, default=False
        Whether to return the metadata as well.

    Returns
    -------
    calibrator : calibrator, Pipeline or CalibrationMonitor
        The calibrator with its class, parameters and fitted attributes. Predictions are equal bit
        for bit.
    metadata : dict
        The metadata passed to :func:`to_json`, or an empty dict. Only returned if
        ``return_metadata=True``.

    Raises
    ------
    ValueError
        If the text is not valid JSON, if its calibrator cannot predict, or if this skcalib does not
        know its version or class.
    TypeError
        If ``text`` is not a string.

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
    >>> text = to_json(calibrator, metadata={"data": "validation rows", "n_labels": 200})
    >>> loaded, metadata = from_json(text, return_metadata=True)
    >>> np.array_equal(loaded.predict_proba(logits), calibrator.predict_proba(logits))
    True
    >>> metadata
    {'data': 'validation rows', 'n_labels': 200}
    """
    if not isinstance(text, str):
        raise TypeError(
            f"from_json takes text, got {type(text).__name__}. Read a file with "
            "pathlib.Path(file).read_text()."
        )
    try:
        raw = json.loads(text, parse_constant=int)  # int refuses NaN and Infinity, which JSON lacks
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"The text must be JSON, got {text[:40]!r}, which is the name of a file, breaks off or "
            f"is nested too deep: {error}. Pass the text that to_json returned, such as "
            "pathlib.Path(file).read_text()."
        ) from error
    written_by = _check_head(raw)
    try:
        with warnings.catch_warnings():  # the trial rows have no column names
            warnings.simplefilter("ignore")
            is_monitor = "state" in raw["calibrator"]
            calibrator = (_read_monitor if is_monitor else _read_calibrator)(raw["calibrator"])
        metadata = dict(raw.get("metadata", {}))
    except Exception as error:  # calibrators with wrong numbers may raise any error
        reason = " ".join(str(error).split()).rstrip(".")
        raise ValueError(
            "The text must hold a calibrator that predicts, or a monitor, got "
            f"{type(error).__name__}: {reason:.300}. Write it again with to_json."
        ) from error
    warn_of_version(type(calibrator).__name__, written_by)
    return (calibrator, metadata) if return_metadata else calibrator


# --------------------------------------------------------------------------------------
# Writing.


def _encode(value: Any, where: str) -> Any:
    """Encode a value for JSON; messages call it ``where``."""
    if isinstance(value, np.ndarray):
        return _encode_array(value, where)
    if isinstance(value, list | tuple):
        return [_encode(x, f"{where}[{k}]") for k, x in enumerate(value)]
    if isinstance(value, dict):
        if all(type(name) is str for name in value):
            return {"entries": _encode_members(value, where)}
        return {"pairs": [_encode(list(pair), where) for pair in value.items()]}
    if hasattr(value, "get_params"):
        return _encode_estimator(value, where)
    return _encode_scalar(value, where)


def _encode_members(value: Mapping[str, Any], where: str) -> dict[str, Any]:
    return {name: _encode(x, f"{where}.{name}") for name, x in value.items()}


def _encode_estimator(estimator: Any, where: str) -> dict[str, Any]:
    """Encode a calibrator as an object with its class, parameters and fitted attributes."""
    name = type(estimator).__name__
    kind: Any = type(estimator)
    if kind in AROUND:
        member = AROUND[kind]
        inside = _encode_members({member: getattr(estimator, member)}, where)
        return {"class": name, "parameters": inside}
    if known_calibrators().get(name) is not kind:
        raise _refusal(estimator, where)
    state: dict[str, Any] = estimator.__getstate__()  # fitted tensors become NumPy arrays
    params = {name: state[name] for name in estimator.get_params(deep=False)}
    fitted = {name: state[name] for name in state if name not in {*params, *NOT_STATE}}
    encoded = {"class": name, "parameters": _encode_members(params, where)}
    return encoded | ({"fitted": _encode_members(fitted, where)} if fitted else {})


def _encode_array(array: Array, where: str) -> dict[str, Any]:
    """Encode an array as an object with its dtype, shape and values.

    A table whose columns have many equal values one after another has each of them once.
    """
    name = array.dtype.str[1:] if array.dtype.kind in "SU" else array.dtype.name
    if not DTYPE_PATTERN.fullmatch(name):
        raise _refusal(array, where)
    encoded = {"dtype": name, "shape": list(array.shape)}
    if array.ndim == 2 and array.dtype == np.float64 and array.size > SHORT:
        columns = array.ravel(order="F")
        bits = columns.view(np.int64)
        starts = np.flatnonzero(np.append(True, bits[1:] != bits[:-1]))
        if len(starts) <= 0.6 * array.size:
            counts = np.diff(starts, append=array.size).tolist()
            return {**encoded, "values": _encode_values(columns[starts], where), "repeats": counts}
    return {**encoded, "values": _encode_values(array, where)}


def _encode_values(array: Array, where: str) -> list[Any]:
    """Encode the values of an array, row by row."""
    kind = array.dtype.kind
    if kind == "M":
        array = np.datetime_as_string(array)
    elif kind == "S":
        array = np.char.decode(array, "latin-1")
    values: list[Any] = array.ravel().tolist()
    if kind == "f":
        return [x if isfinite(x) else repr(x) for x in values]
    return [_encode_scalar(x, where) for x in values]


def _encode_scalar(value: Any, where: str) -> Any:
    """Return numbers and text unchanged; encode infinite numbers, NaN, dates and bytes."""
    value = value.item() if isinstance(value, np.generic) else value
    if type(value) is float and not isfinite(value):
        return {"float": repr(value)}
    if value is None or type(value) in SCALARS:
        return value
    if isinstance(value, bytes):
        return {"bytes": value.decode("latin-1")}
    if isinstance(value, date):
        encoded = {"datetime" if isinstance(value, datetime) else "date": value.isoformat()}
        if _decode_scalar(encoded) == value:  # unless a timestamp has nanoseconds
            return encoded
    raise _refusal(value, where)


def _refusal(value: Any, where: str) -> TypeError:
    """Return the error for a value that JSON cannot represent."""
    kind = type(value).__name__
    if hasattr(value, "predict_proba") and not isinstance(value, BaseCalibrator):
        got, remedy = f"a {kind}", 'fit one without classifiers, such as AutoCalibrator("smooth")'
    else:
        is_calibrator = isinstance(value, BaseCalibrator)  # of a class of the user
        got = f"{reprlib.repr(value)} of type {kind}"
        remedy = "export it with to_onnx" if is_calibrator else "set this part to None"
    return TypeError(
        f"to_json writes calibrators of skcalib that are made of maps and bins, got {got} for "
        f"{where}. Save the calibrator with skops.io.dump or joblib.dump, or {remedy}."
    )


def _layout(value: Any, indent: str = "") -> str:
    """Return JSON text with one line per member of an object, and one line per array."""
    more = indent + "  "
    if isinstance(value, dict) and value and "dtype" not in value:
        members = [f"{json.dumps(name)}: {_layout(x, more)}" for name, x in value.items()]
        return "{\n" + more + f",\n{more}".join(members) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(x, dict | list) for x in value):
        return "[\n" + more + f",\n{more}".join(_layout(x, more) for x in value) + f"\n{indent}]"
    return json.dumps(value, allow_nan=False)


# --------------------------------------------------------------------------------------
# Reading.


def _check_head(raw: Any) -> str:
    """Return which version of skcalib wrote a text, or raise a ValueError for another format."""
    head = raw if type(raw) is dict else {}
    written_by, version = head.get("skcalib"), head.get("version")
    if head.get("format") != FORMAT or type(version) is not int or type(written_by) is not str:
        raise ValueError(
            f'The text must be an object with the format "{FORMAT}", and versions of the format '
            f"and of skcalib, got {reprlib.repr(raw):.60}. Write it again with to_json."
        )
    if version != VERSION or "calibrator" not in head:
        raise ValueError(
            f"The format must be of version {VERSION} and hold a calibrator, got version {version} "
            f"by skcalib {written_by:.40}. Install that skcalib, or write it again with to_json."
        )
    return written_by


def _decode(raw: Any) -> Any:
    """Decode a value."""
    if type(raw) is list:
        return [_decode(x) for x in raw]
    if type(raw) is not dict:
        return raw
    if raw.keys() in ({"entries"}, {"pairs"}):
        pairs = raw["pairs"] if "pairs" in raw else raw["entries"].items()
        return {_decode(name): _decode(x) for name, x in pairs}
    if raw.keys() - {"repeats"} == {"dtype", "shape", "values"}:
        return _decode_array(raw)
    if "class" not in raw:
        return _decode_scalar(raw)
    return _decode_estimator(raw)


def _decode_array(raw: dict[str, Any]) -> Any:
    dtype, shape, values = raw["dtype"], raw["shape"], raw["values"]
    if type(dtype) is not str or not DTYPE_PATTERN.fullmatch(dtype):
        raise ValueError(f"the dtype {dtype!r:.40} must be one such as float64 or U9")
    texts = [x.encode("latin-1") for x in values] if dtype[0] == "S" else values
    array = np.array([_decode_scalar(x) for x in texts], dtype)
    # If the text was edited, the dtype may have rounded or cut values.
    if _encode_values(array, "") != values:
        raise ValueError(f"values must be of the type {dtype}, got {values!r:.80}")
    if "repeats" in raw:
        columns = np.repeat(array, raw["repeats"]).reshape(shape, order="F")
        return np.ascontiguousarray(columns)
    array = array.reshape(shape)
    return array if shape else array.item()


def _decode_scalar(raw: Any) -> Any:
    if type(raw) is not dict:
        return raw
    ((kind, text),) = raw.items()
    if kind == "bytes":
        return text.encode("latin-1")
    if kind == "float":
        return float(text)
    return {"date": date, "datetime": datetime}[kind].fromisoformat(text)


def _decode_estimator(raw: dict[str, Any]) -> Any:
    name, classes = raw["class"], known_calibrators() | {kind.__name__: kind for kind in AROUND}
    if type(name) is not str or name not in classes:
        raise ValueError(f"the class must be a calibrator of this skcalib, got {name!r:.60}")
    kind: Any = classes[name]
    params = {name: _decode(x) for name, x in raw["parameters"].items()}
    if kind is Pipeline:
        return Pipeline([(name, step) for name, step in params["steps"]])
    calibrator = kind(**params)
    fitted = _decode_attributes(kind, raw.get("fitted", {}))
    calibrator.__setstate__({**fitted, "_skcalib_version": __version__})
    return calibrator


def _decode_attributes(kind: type, raw: dict[str, Any]) -> dict[str, Any]:
    """Decode attributes, or raise a ValueError if one would replace a method of the class."""
    wrong = [name for name in raw if hasattr(kind, name) or not name.isidentifier()]
    if wrong:
        raise ValueError(f"attributes must have names of fitted ones, got {wrong[0]!r:.60}")
    return {name: _decode(x) for name, x in raw.items()}


def _read_calibrator(raw: Any) -> Any:
    """Decode a calibrator, and raise an error unless it predicts probabilities for trial logits."""
    calibrator = _decode(raw)
    chain = fitted_chain(calibrator, "from_json")
    n_columns, n_classes = chain[0].n_features_in_, len(chain[-1].classes_)
    most = max(n_classes, 2) * len(getattr(chain[0], "score_names_", [0]))
    if type(n_columns) is not int or not 0 < n_columns <= most:
        raise ValueError(f"n_features_in_ must be a number of columns, got {n_columns!r:.60}")
    # With few classes, each class is the most probable in one row.
    n = max(3, min(n_columns, TRIAL // n_columns))
    Z = (np.arange(n_columns) - np.arange(n)[:, None]) % n_columns * 1.0
    Z = np.linspace(-9, 9, n)[:, None] if n_columns == 1 else Z
    levels = getattr(calibrator, "feature_levels_", [])
    more = {"features": [[names[0] if len(names) else 0 for names in levels]] * n} if levels else {}
    P = calibrator.predict_proba(Z, **more)
    if P.shape != (n, n_classes) or not ((P >= 0) & (P <= 1)).all():
        raise ValueError("outputs must be probabilities of the classes")
    calibrator.predict(Z, **more)
    return calibrator


def _read_monitor(raw: dict[str, Any]) -> CalibrationMonitor:
    """Decode a monitor."""
    monitor = object.__new__(CalibrationMonitor)
    vars(monitor).update(_decode_attributes(CalibrationMonitor, raw["state"]))
    repr(monitor)  # reads the state
    return monitor
