"""Check the docstrings of all public names by numpydoc: ``python .ci/check_docstrings.py``."""

import importlib
import inspect
import sys

from numpydoc.validate import validate

MODULES = ["skcalib", "skcalib.datasets", "skcalib.export", "skcalib.metrics"]
# Results that are not in the top level, as their functions are.
RESULTS = {
    "skcalib.report": ["CalibrationReport"],
    "skcalib.comparison": ["CalibratorComparison"],
    "skcalib.clinical": ["OptimismCorrection"],
}
# No extended summary, example or see-also where there is nothing to say; a first line that says
# what the thing is; parameters that are "as for" another function; named returns; docstrings that
# are put together.
ALLOWED = {"ES01", "EX01", "GL01", "GL02", "PR04", "RT02", "SA01", "SS05", "SS06"}


def public_names():
    """The full names of public objects, and of the methods that their classes define."""
    for name in [*MODULES, *RESULTS]:
        module = importlib.import_module(name)
        for member in RESULTS.get(name, module.__all__):
            yield f"{name}.{member}"
            value = getattr(module, member)
            for method, f in vars(value).items() if inspect.isclass(value) else ():
                if not method.startswith("_") and inspect.isfunction(f):
                    yield f"{name}.{member}.{method}"


def is_result(name):
    """Whether users are given it by a function, and its attributes are what is documented."""
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
