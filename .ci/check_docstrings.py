"""Check the docstrings of all public names by numpydoc: ``python .ci/check_docstrings.py``."""

import importlib
import inspect
import pkgutil
import sys

from numpydoc.validate import validate

import skcalib

PUBLIC = [m.name for m in pkgutil.iter_modules(skcalib.__path__) if not m.name.startswith("_")]
MODULES = ["skcalib", *(f"skcalib.{name}" for name in PUBLIC)]
# Results of functions, which no module lists.
RESULTS = {"skcalib.report": ["CalibrationReport", "ValidationReport"]}
# Optional: extended summaries, examples and references to other names; first lines without a verb;
# parameters "as for" another function; named returns.
ALLOWED = {"ES01", "EX01", "GL01", "GL02", "PR04", "RT02", "SA01", "SS05", "SS06"}


def public_names():
    """Yield the full names of public objects, and of the methods that their classes define."""
    for name in MODULES:
        module = importlib.import_module(name)
        for member in (*module.__all__, *RESULTS.get(name, ())):
            yield f"{name}.{member}"
            value = getattr(module, member)
            for method, f in vars(value).items() if inspect.isclass(value) else ():
                if not method.startswith("_") and inspect.isfunction(f):
                    yield f"{name}.{member}.{method}"


def is_result(name):
    """Return whether a function returns the object: its docstring has attributes only."""
    module, member = name.rsplit(".", 1)
    docstring = inspect.getdoc(getattr(sys.modules.get(module), member, None)) or ""
    return "\nAttributes\n" in docstring and "\nParameters\n" not in docstring


def main():
    errors = [
        f"{name}: {code} {message}"
        for name in sorted(set(public_names()))
        for code, message in validate(name)["errors"]
        if code not in ALLOWED and not (code == "PR01" and is_result(name))
    ]
    print(*errors, sep="\n", end="\n" * bool(errors))
    return len(errors)


if __name__ == "__main__":
    sys.exit(main() > 0)
