"""Code that repeats a report."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from inspect import signature
from typing import Any

from sklearn.base import BaseEstimator

# Names of data in the code.
DATA = {
    "sample_weight": "w_test", "groups": "groups_test", "features": "features_test",
    "labels": "labels", "comparison": "comparison",
}  # fmt: skip


def report_code(function: Callable[..., Any], given: Mapping[str, Any]) -> str:
    """Return code that calls a function of reports with these arguments, and writes the page.

    The code also fits the calibrator, and compares calibrators if the page shows a comparison.
    """
    name, calibrator = function.__name__, given.get("calibrator")
    parameters = [x for x in signature(function).parameters.values() if x.kind is x.KEYWORD_ONLY]
    arguments = [
        f"{x.name}={DATA.get(x.name, repr(given[x.name]))}"
        for x in parameters
        if x.name not in ("metadata", "figure", "random_state") and given[x.name] is not x.default
    ]
    if calibrator is None:
        lines, rows = [f"from skcalib import {name}", ""], ["y_test", "p_test"]
    else:
        lines, rows = fit_lines(calibrator, name, given), ["calibrator", "X_test", "y_test"]
    call = f"report = {name}({', '.join([*rows, *arguments])})"
    return "\n".join([*lines, call, 'report.to_html("report.html")'])


def fit_lines(calibrator: Any, name: str, given: Mapping[str, Any]) -> list[str]:
    """Return lines of code that import the function ``name``, and fit and compare calibrators."""
    takes_features = "features" in signature(calibrator.predict_proba).parameters
    features = ", features=features" if takes_features else ""
    code, names = calibrator_code(calibrator), {"skcalib": {name}}
    lines = [
        "",
        f"calibrator = {code}",
        f"calibrator.fit(X, y{features})  # logits of rows that the classifier was not fitted to",
    ]
    if given["comparison"] is not None:
        names["skcalib"].add("compare_calibrators")
        test = "test=(X_test, y_test)"
        lines.append(f"comparison = compare_calibrators(X, y{features}, {test})")
    for kind in map(type, estimators(calibrator)):
        names.setdefault(public_module(kind), set()).add(kind.__name__)
    if arrays := set(re.findall(r"\b(array|nan|inf)\b", code)):
        names["numpy"] = arrays
    imports = [
        f"from {module} import {', '.join(sorted(names[module]))}" for module in sorted(names)
    ]
    return [*imports, *lines]


def calibrator_code(calibrator: Any) -> str:
    """Return the constructor call of a calibrator."""
    if isinstance(calibrator, BaseEstimator):
        return calibrator.__repr__(N_CHAR_MAX=10**6)  # the default cuts long calls
    return repr(calibrator)


def public_module(kind: type) -> str:
    """Return the shortest name of a module that exports a class."""
    package = kind.__module__.partition(".")[0]
    public = [
        name
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] == package and kind.__name__ in getattr(module, "__all__", ())
    ]
    return min(public, key=len, default=kind.__module__)


def estimators(calibrator: Any) -> Iterator[Any]:
    """Yield the calibrator and the estimators within its parameters."""
    if isinstance(calibrator, Mapping):
        calibrator = list(calibrator.values())
    if isinstance(calibrator, list | tuple):
        for part in calibrator:
            yield from estimators(part)
    elif hasattr(calibrator, "get_params") and not isinstance(calibrator, type):
        yield calibrator
        yield from estimators(calibrator.get_params(deep=False))
