"""Facts of the package as a whole: layers, imports, names, documentation."""

from __future__ import annotations

import ast
import graphlib
import importlib
import inspect
import itertools
import pydoc
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import layers
import numpy as np
import pytest

import skcalib

PACKAGE = Path(skcalib.__file__).parent
ROOT = Path(__file__).parents[1]

PARTS = "clinical conditional datasets decision experimental export fusion judge metrics"
PARTS += " monitor testing"
MODULES = [skcalib, *(importlib.import_module(f"skcalib.{part}") for part in PARTS.split())]
PUBLIC = [f"{module.__name__}.{name}" for module in MODULES for name in module.__all__]
PUBLIC += ["skcalib.report.CalibrationReport", "skcalib.report.ValidationReport"]
PUBLIC += ["skcalib.comparison.CalibratorComparison"]


TREES = layers.modules()


def test_every_part_is_on_one_layer():
    named = list(itertools.chain(*layers.layers()))
    assert sorted(named) == sorted({layers.part_of(module) for module in TREES})
    assert len(layers.layers()) <= 11


def test_imports_point_downwards_and_have_no_cycles():
    number = {name: k for k, names in enumerate(layers.layers()) for name in names}
    graph = {}
    for module, tree in TREES.items():
        part, found = layers.part_of(module), set(layers.imports_of(module, tree))
        for name in found:
            other = layers.part_of(name)
            assert other == part or number[other] < number[part], f"{module} imports {name}"
        graph[module] = {name if name in TREES else f"{name}.__init__" for name in found}
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError


def test_subjects_import_public_names_the_gate_and_a_list_of_30_names():
    listed, used = layers.listed_names(), set()
    for module, tree in TREES.items():
        if layers.part_of(module) in layers.SUBJECTS:
            for name in layers.internal_names(module, tree):
                assert name in listed, f"{module} uses {name}, which is not in the list"
                used.add(name)
    assert used == listed
    assert len(listed) <= 30
    assert not {name for name in listed if name.split(".")[0] in layers.SUBJECTS}


# They index rows of any X and of fit arguments, and find the namespace of a tensor, as scikit-learn
# does.
PRIVATE_NAMES_OF_SCIKIT_LEARN = {
    "compose._folds": {"_safe_split", "_check_method_params"},
    "_rows.arrays": {"_array_api"},
}


@pytest.mark.slow
def test_no_other_private_names_of_scikit_learn():
    for module, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sklearn"):
                parts = [*node.module.split("."), *(alias.name for alias in node.names)]
                private = {part for part in parts if part.startswith("_")}
                assert private <= PRIVATE_NAMES_OF_SCIKIT_LEARN.get(module, set()), module


# Optional packages: pandas for tables, Dask for chunks of rows, ONNX and torch for export.
EXTRAS = {
    "comparison._comparison": {"pandas"},
    "conditional._segments": {"pandas"},
    "_rows.dask": {"dask"},
    "_input.dask": {"dask"},
    "_cli.reading": {"dask", "pandas"},
    "_cli.jobs": {"pandas", "pyarrow", "skops"},
    "export._graph": {"onnx"},
    "export._onnx": {"onnx"},
    "export._classifiers": {"onnx", "skl2onnx"},
    "export._skl2onnx": {"onnx", "skl2onnx"},
    "export._torch": {"torch"},
    "export._torch_modules": {"torch"},
}


@pytest.mark.slow
def test_only_the_runtime_packages_are_imported():
    # joblib and threadpoolctl come with scikit-learn.
    runtime = {"numpy", "scipy", "sklearn", "matplotlib", "joblib", "threadpoolctl", "skcalib"}
    for module, tree in TREES.items():
        for node in ast.walk(tree):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            allowed = runtime | EXTRAS.get(module, set()) | sys.stdlib_module_names
            assert {n.split(".")[0] for n in names} <= allowed, module


def test_signatures_fit_on_a_few_lines():
    """In help() and in editors, types are names such as ArrayLike, not their whole definition."""
    for path in PUBLIC:
        obj = pydoc.locate(path)
        methods = [f for f in vars(obj).values() if callable(f) or isinstance(f, classmethod)]
        for member in [obj, *(methods if inspect.isclass(obj) else [])]:
            function = getattr(member, "__func__", member)
            if inspect.isclass(function) or hasattr(function, "__code__"):
                signature = str(inspect.signature(function)).replace("'", "")
                assert len(signature) <= 600, (path, function, signature)


@pytest.mark.slow
def test_import_has_no_effect():
    """No change of NumPy's error state and random state, and no matplotlib."""
    code = """
import sys, numpy as np
state, errors = np.random.get_state()[1].copy(), np.geterr()
import skcalib, skcalib.metrics, skcalib.datasets, skcalib.monitor
assert np.geterr() == errors
assert (np.random.get_state()[1] == state).all()
assert not [m for m in sys.modules if m.startswith("matplotlib")], "matplotlib"
"""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_work_leaves_the_global_random_state_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    skcalib.datasets.make_logits(10, 3, random_state=0)
    skcalib.datasets.load_digits_logits()
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


# Results of functions. The examples of these functions show them.
WITHOUT_EXAMPLE = {
    "CalibratedMean",
    "CalibrationDifference",
    "CalibrationTestResult",
    "IntervalEstimate",
    "MulticalibrationResult",
    "NetBenefitCurve",
    "OptimismCorrection",
    "ReliabilityCurve",
    "register_skl2onnx",
    "RiskCoverageCurve",
    "ScoreDecomposition",
    "SelectiveThreshold",
}


def wrote(function):
    """Whether it stands in the source, and was not made by scikit-learn or dataclasses."""
    return PACKAGE in Path(function.__code__.co_filename).parents


def test_public_names_have_an_example_types_and_a_place_in_the_reference():
    """The doctests run it; that the rest of the docstring is complete, numpydoc checks."""
    text = (ROOT / "doc" / "api.rst").read_text()
    for path in PUBLIC:
        obj, (module, name) = pydoc.locate(path), path.rsplit(".", 1)
        assert name in WITHOUT_EXAMPLE or ">>> " in inspect.getdoc(obj), path
        entry = rf"currentmodule:: {module}\n(?:(?!currentmodule).)*\b{name}\b"
        assert re.search(entry, text, re.S), path
        of_class = [f for f in vars(obj).values() if inspect.isfunction(f) and wrote(f)]
        for function in of_class if inspect.isclass(obj) else [obj]:
            parameters = [p for p in inspect.signature(function).parameters if p != "self"]
            assert {*parameters, "return"} <= set(function.__annotations__), function


def test_version_stands_in_all_files_that_have_it():
    for name in ("CHANGELOG.rst", "CITATION.cff", "codemeta.json", "conda/recipe.yaml"):
        assert re.search(rf"\b{re.escape(skcalib.__version__)}\b", (ROOT / name).read_text()), name


def test_lower_bounds_stand_in_the_readme_and_in_the_recipe():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    readme = (ROOT / "README.rst").read_text()
    recipe = (ROOT / "conda" / "recipe.yaml").read_text().replace("matplotlib-base", "matplotlib")
    for requirement in project["dependencies"]:
        name, bound = requirement.split(">=")
        assert f"{name} {bound}" in readme
        assert f"{name} >={bound}" in recipe
    assert f"Python {project['requires-python'].removeprefix('>=')}" in readme


# Tests of formulas, and what needs a private name otherwise. All other tests use public names.
PRIVATE_NAMES_IN_TESTS = {
    "conftest.py": "quick stand-ins of the default calibrators in comparisons",
    "families.py": "classes of warnings, which tests take from there",
    "cli/test_cli_compare.py": "faults during a comparison",
    "cli/test_files.py": "functions that read files",
    "optimize/test_leave_one_out.py": "the approximate leave-one-out loss",
    "optimize/test_limits.py": "limits of searches",
    "optimize/test_minimise.py": "the log loss of linear maps",
    "optimize/test_mixture_weights.py": "weights of mixtures",
    "scores/test_bins.py": "the rule of bins",
    "scores/test_columns.py": "log-odds of one class against the others",
    "scores/test_kernel.py": "smooth curves",
    "test_calibrators.py": "sizes of blocks and of stored rows, which few rows do not reach",
    "test_html.py": "escaped texts in pages",
}
# Subjects whose tests still use private names.
SUBJECTS_WITH_PRIVATE_NAMES = {
    "clinical", "comparison", "compose", "conditional", "decision", "display", "experimental",
    "export", "fusion", "judge", "meta", "monitor", "report", "selection",
}  # fmt: skip


def test_tests_use_public_names():
    private = re.compile(r"\bskcalib(\.[a-z]\w*)*\._[a-z]|from skcalib[\w.]* import .*\b_[a-z]")
    tests = ROOT / "tests"
    found = {
        path.relative_to(tests).as_posix()
        for path in tests.rglob("*.py")
        if private.search(path.read_text())
    }
    of_subjects = {name for name in found if name.split("/")[0] in SUBJECTS_WITH_PRIVATE_NAMES}
    assert found - of_subjects == set(PRIVATE_NAMES_IN_TESTS)
