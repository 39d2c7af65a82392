"""The layers of the package, as CONTRIBUTING.rst states them, and its imports."""

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import skcalib

ROOT = Path(__file__).parents[1]
PACKAGE = Path(skcalib.__file__).parent


def layers():
    """Names of the parts on each layer, from the lowest one up."""
    text = (ROOT / "CONTRIBUTING.rst").read_text()
    rows = re.findall(r"^    (\d+) +([\w ]+?)(?:   .*)?$", text, re.M)
    return [names.split() for _, names in sorted(rows, key=lambda row: int(row[0]))]


@cache
def modules():
    """The syntax tree of each module by its name within the package, as in ``metrics._curve``."""
    paths = PACKAGE.rglob("*.py")
    return {name_of(path): ast.parse(path.read_text()) for path in paths}


def name_of(path):
    """Name of a module within the package, with ``__init__`` for a package."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def part_of(module):
    """The package, or the module of its own, that a module is in; ``__main__`` is the CLI's."""
    part = module.split(".")[0]
    return "_cli" if part == "__main__" else part


def imports_of(module, tree):
    """Names of the modules of skcalib that a module imports; packages without ``__init__``."""
    here = module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
            yield from (_within(name) for name in found if name.split(".")[0] == "skcalib")
        elif isinstance(node, ast.ImportFrom) and node.level:
            base = here[: len(here) - node.level + 1]
            yield from _imported([*base, *(node.module or "").split(".")], node)
        elif isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "skcalib":
            yield from _imported(node.module.split(".")[1:], node)


def _imported(parts, node):
    name = ".".join(part for part in parts if part)
    for alias in node.names:
        inner = f"{name}.{alias.name}" if name else alias.name
        path = PACKAGE / inner.replace(".", "/")
        is_module = path.is_dir() or path.with_suffix(".py").exists()
        yield inner if is_module else name or "__init__"


def _within(name):
    return name.partition(".")[2] or "__init__"


# The subjects. They share the output helpers, ``_output``.
SUBJECTS = {
    "_cli", "_output", "clinical", "comparison", "conditional", "decision", "display",
    "experimental", "export", "fusion", "judge", "monitor", "report",
}  # fmt: skip
# What the subjects may import from the core, apart from public names and the list.
GATE = {"_input", "_typing", "_version", "_warnings"}


def listed_names():
    """The internal names of the core that CONTRIBUTING.rst lists for subjects."""
    text = (ROOT / "CONTRIBUTING.rst").read_text()
    part = text.split("The list of internal names")[1].split("\n\n``doc/")[0]
    return set(re.findall(r"``([\w.]+)``", part))


def internal_names(module, tree):
    """Names from other parts, not public, and neither input checks nor output helpers."""
    own = part_of(module)
    for name in _imported_names(module, tree):
        part = name.split(".")[0]
        if part not in {own, "_output", *GATE} and not _is_public(name):
            yield name


def _imported_names(module, tree):
    """Names within the package, such as ``base.BaseCalibrator``, also used as attributes."""
    here, modules = module.split(".")[:-1], {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.level or node.module.startswith("skcalib")):
            base = here[: len(here) - node.level + 1] if node.level else []
            parts = (node.module or "").removeprefix("skcalib").strip(".").split(".")
            prefix = [part for part in [*base, *parts] if part]
            for alias in node.names:
                name = ".".join([*prefix, alias.name])
                path = PACKAGE / name.replace(".", "/")
                if path.is_dir() or path.with_suffix(".py").exists():
                    modules[alias.asname or alias.name] = name
                else:
                    yield name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") in modules:
            yield f"{modules[node.value.id]}.{node.attr}"


def _is_public(name):
    """Whether the package, or a module without underscores, has a name in its ``__all__``."""
    module, _, last = name.rpartition(".")
    if any(part.startswith("_") for part in name.split(".")) and last != "__version__":
        return False
    owner = importlib.import_module(f"skcalib.{module}" if module else "skcalib")
    return last in owner.__all__
