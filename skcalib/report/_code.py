"""Code that repeats a report, and that applies its calibrator."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from skcalib.metrics._input import resolved

from ._results import Results

WHOLE = 10**6  # characters, of which scikit-learn shows fewer by default


def to_repeat(results: Results) -> str:
    """The command line, or code that fits the calibrator and makes the report."""
    if results.command:
        return results.command
    rows, compared = results.rows, results.comparison
    more = [f"{name}={name}" for name in results.given]
    given = {
        "sample_weight=weights_test": rows.w is not None,
        "features=features_test": results.features is not None,
        f"name={results.given_name!r}": results.given_name is not None,
        f"n_bins={rows.n_bins}": rows.n_bins != 15,
        f"kind={rows.kind!r}": rows.kind != resolved("auto", rows.classes),
        "comparison=comparison": compared is not None,
    }
    arguments = ["calibrator", "logits_test", "y_test", *(name for name in given if given[name])]
    names, comparison = {"calibration_report"}, []
    if compared is not None:  # with fitted calibrators it was made on a test set
        names.add("compare_calibrators")
        test = ["test=(logits_test, y_test)"] * bool(compared.calibrators)
        call = ", ".join(["logits", "y", *test, *more])
        comparison = [f"comparison = compare_calibrators({call})"]
    return "\n".join([
        *imports(results.calibrator, names),
        "",
        f"calibrator = {constructor(results.calibrator)}",
        f"calibrator.fit({', '.join(['logits', 'y', *more])})  # held-out rows of the classifier",
        *comparison,
        f"report = calibration_report({', '.join(arguments)})",
        'report.to_html("report.html")',
    ])  # fmt: skip


def to_apply(results: Results) -> str:
    """Code that applies the calibrator, and stores it as JSON if that holds it."""
    given = "".join(f", {name}=new_{name}" for name in results.given)
    lines = [f"probabilities = calibrator.predict_proba(new_logits{given})"]
    # JSON holds what is of skcalib, in pipelines or not.
    if all(
        isinstance(part, Pipeline) or type(part).__module__.startswith("skcalib.")
        for part in estimators(results.calibrator)
    ):
        lines += [
            "",
            "from pathlib import Path",
            "from skcalib.export import from_json, to_json",
            "",
            'Path("calibrator.json").write_text(to_json(calibrator))',
            'calibrator = from_json(Path("calibrator.json").read_text())',
        ]
    return "\n".join(lines)


def constructor(calibrator: Any) -> str:
    """The call that makes the calibrator, before its fit."""
    if isinstance(calibrator, BaseEstimator):
        return calibrator.__repr__(N_CHAR_MAX=WHOLE)
    return repr(calibrator)


def imports(calibrator: Any, names: set[str]) -> list[str]:
    """Import statements for the constructor and other names of skcalib."""
    modules: dict[str, set[str]] = {"skcalib": set(names)}
    for estimator in estimators(calibrator):
        kind = type(estimator)
        parts = kind.__module__.split(".")
        public = ".".join(part for part in parts if not part.startswith("_"))
        module = "skcalib" if parts[0] == "skcalib" else public
        modules.setdefault(module, set()).add(kind.__name__)
    used = set(re.findall(r"\b(array|nan|inf)\b", constructor(calibrator)))
    if used:
        modules["numpy"] = used
    ordered = sorted(modules.items(), key=lambda item: (item[0] == "skcalib", item[0]))
    return [f"from {module} import {', '.join(sorted(found))}" for module, found in ordered]


def estimators(calibrator: Any) -> Iterator[Any]:
    """A calibrator and the estimators within its parameters."""
    if isinstance(calibrator, Mapping):
        yield from estimators(list(calibrator.values()))
    elif isinstance(calibrator, list | tuple):
        for part in calibrator:
            yield from estimators(part)
    elif hasattr(calibrator, "get_params"):
        yield calibrator
        yield from estimators(calibrator.get_params(deep=False))
