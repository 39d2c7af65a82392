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
    lines, rows, modules = [], "y_test, p_test", {name: "skcalib"}  # modules of imported names
    if calibrator is not None:
        takes_features = "features" in signature(calibrator.predict_proba).parameters
        features = ", features=features" if takes_features else ""
        code, rows = calibrator_code(calibrator), "calibrator, X_test, y_test"
        held_out = "  # logits of rows that the classifier was not fitted to"
        lines = [f"calibrator = {code}", f"calibrator.fit(X, y{features}){held_out}"]
        modules |= {type(x).__name__: public_module(type(x)) for x in estimators(calibrator)}
        modules |= dict.fromkeys(re.findall(r"\b(?:array|nan|inf)\b", code), "numpy")
        if given["comparison"] is not None:
            modules["compare_calibrators"] = "skcalib"
            test = "test=(X_test, y_test)"
            lines.append(f"comparison = compare_calibrators(X, y{features}, {test})")
    imports = [
        f"from {module} import {', '.join(sorted(x for x in modules if modules[x] == module))}"
        for module in sorted(set(modules.values()))
    ]
    call = f"report = {name}({', '.join([rows, *arguments])})"
    return "\n".join([*imports, "", *lines, call, 'report.to_html("report.html")'])


def calibrator_code(calibrator: Any) -> str:
    """Return the constructor call of a calibrator."""
    if isinstance(calibrator, BaseEstimator):
        return calibrator.__repr__(N_CHAR_MAX=10**6)  # the default cuts long calls
    return repr(calibrator)


def public_module(kind: type) -> str:
    """Return the outermost package that has the class as an attribute."""
    parts = kind.__module__.split(".")
    packages = [".".join(parts[: k + 1]) for k in range(len(parts))]
    has_it = [getattr(sys.modules.get(x), kind.__name__, None) is kind for x in packages]
    return packages[has_it.index(True)] if any(has_it) else kind.__module__


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
