"""Calibrators as JSON: plain numbers that load without executing anything."""

from typing import Any

from skcalib._version import __version__, warn_of_version

from ._chain import chain_of
from ._kinds import REMEDY, Place, check_names, is_integer, is_text
from ._objects import read, written
from ._text import laid_out, parsed

FORMAT, VERSION = "skcalib calibrator", 1


def to_json(calibrator: Any) -> str:
    """A fitted calibrator, or a pipeline of calibrators, as text in JSON.

    The text holds the class, the parameters and the fitted attributes as plain numbers and
    strings, for people and other programs to read; :ref:`its format <json>` is documented. What
    :func:`from_json` makes of it predicts bit for bit the same.

    Parameters
    ----------
    calibrator : calibrator or Pipeline
        A fitted calibrator of skcalib, or a pipeline of fitted calibrators.

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
      "version": 1,
      "skcalib": "...",
      "calibrator": {
        "class": "HistogramBinning",
        "parameters": {
          "classes": null,
          "n_bins": 2,
          "smoothing": 0.0,
          "strategy": "uniform"
        },
        "fitted": {
          "n_features_in_": 1,
          "classes_": ["a", "b"],
          "bin_edges_": [
            [0.0, 0.5, 1.0]
          ],
          "bin_values_": [
            [0.5, 0.5]
          ]
        }
      }
    }
    """
    chain_of(calibrator, "to_json")
    return laid_out(
        {
            "format": FORMAT,
            "version": VERSION,
            "skcalib": __version__,
            "calibrator": written(calibrator),
        }
    )


def from_json(text: str) -> Any:
    """The fitted calibrator, or pipeline of calibrators, of a text by :func:`to_json`.

    Nothing in the text is executed, and no name in it is imported: it is safe to load text from
    others. Everything is checked, and text that was damaged or changed raises an error unless it is
    that of a valid calibrator.

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
        If it is not valid JSON, or that of a calibrator, or of a version or class that this version
        of skcalib does not know.
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
    raw = parsed(text)
    written_by = _checked_head(raw)
    calibrator = read(raw["calibrator"])
    warn_of_version(type(calibrator).__name__, written_by)
    return calibrator


def _checked_head(raw: Any) -> str:
    """The version of skcalib that wrote a file, whose format is checked."""
    if type(raw) is not dict or raw.get("format") != FORMAT:
        got = f"format {raw.get('format')!r:.40}" if type(raw) is dict else type(raw).__name__
        raise ValueError(
            f'The text must be an object whose format is "{FORMAT}", got {got}. {REMEDY}'
        )
    version: Any = raw.get("version")
    if is_integer(version) and version > VERSION:
        raise ValueError(
            f"The format must be of version {VERSION} or lower, got {version}. Install the version "
            f"of skcalib that wrote it, {raw.get('skcalib')!r:.40}, or a newer one."
        )
    place = Place("The text")
    check_names(raw, {"format", "version", "skcalib", "calibrator"}, set(), place)
    if not is_integer(version) or version != VERSION or not is_text(raw["skcalib"]):
        got = f"{version!r:.40} and {raw['skcalib']!r:.40}"
        raise ValueError(
            f"The text must have the version {VERSION}, and that of skcalib as a string, "
            f"got {got}. {REMEDY}"
        )
    return str(raw["skcalib"])
