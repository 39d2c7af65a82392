"""Mutation testing: change the code in one place at a time, and run the tests that reach it.

The tests run once under coverage, which records the lines that each of them reaches. Then pytest
collects them, and a copy of the process is forked for each *mutant*: a function with one operator,
comparison, condition, constant, argument or statement changed. It runs the tests that reach the
line, the fastest and some others, until one fails. Mutants that survive are printed. General tools
start pytest again for each mutant, and collecting these tests takes longer than killing most
mutants. Texts of messages, default values and code outside of functions are not changed. Needs
``os.fork`` and ``pip install -e '.[test]'``. Run::

    python benchmarks/mutate.py [--modules _scores.bins displays] [--jobs 2] [--sample 500]
    python benchmarks/mutate.py --modules displays --tests tests/display
    python benchmarks/mutate.py --again OUTPUT --seconds 60

``--modules`` takes modules, packages, and the groups below.
"""

from __future__ import annotations

import argparse
import ast
import bisect
import collections
import gc
import itertools
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import types
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # tests import the changed code, wherever skcalib is installed
PACKAGE = ROOT / "skcalib"
GROUPS = {
    "displays": ["display", "report"],
    "users": ["_cli", "selection", "meta", "compose", "datasets", "monitor"],
    "numerical": ["_rows", "_optimize", "_scores", "_validation", "scaling", "binning", "metrics"],
}
GROUPS["numerical"] += ["_base", "_nested", "_warnings"]
# Tests that run other processes, which do not have the mutant, or that read the source code.
IGNORED = [f"--ignore=tests/{x}.py" for x in ("test_architecture", "rows/test_cluster")]
MEMORY = 6 << 30  # a mutant may try to allocate any number of bytes
BROKEN = 70  # exit status

OPERATORS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.MatMult: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
NAMES = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "argmin": "argmax",
    "argmax": "argmin",
    "any": "all",
    "all": "any",
    "floor": "ceil",
    "ceil": "floor",
    "left": "right",
    "right": "left",
}


# --------------------------------------------------------------------------------------
# Mutants of a module.


class Mutant(NamedTuple):
    module: str
    line: int
    change: str  #: the code before and after
    tree: ast.Module  #: of the unchanged module
    node: ast.AST  #: the node that is changed
    attribute: str
    value: Any  #: of the attribute in the mutant

    def __str__(self) -> str:
        return f"{self.module}.py:{self.line}: {self.change}"

    def codes(self) -> dict[tuple[str, int], types.CodeType]:
        """Code of each function of the changed module, by its name and first line."""
        old = getattr(self.node, self.attribute)
        setattr(self.node, self.attribute, self.value)
        top = compile(self.tree, str(path_of(self.module)), "exec")
        setattr(self.node, self.attribute, old)
        return {(code.co_qualname, code.co_firstlineno): code for code in codes_in(top)}


def path_of(module: str) -> Path:
    return PACKAGE / f"{module.replace('.', '/')}.py"


def modules_in(name: str) -> list[str]:
    """The modules of a package, or the one module of this name."""
    paths = sorted((PACKAGE / name.replace(".", "/")).glob("*.py"))
    return [f"{name}.{path.stem}" for path in paths if path.stem != "__init__"] or [name]


def codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield const
            yield from codes_in(const)


def mutants_of(module: str) -> list[Mutant]:
    tree = ast.parse(path_of(module).read_text())
    mutants = []
    for statement in statements(tree):
        for node in parts_of(statement):
            for attribute, value in changes(node):
                shown = node if isinstance(node, ast.expr) else statement
                before, old = brief(shown), getattr(node, attribute)
                setattr(node, attribute, value)
                after = brief(shown)
                setattr(node, attribute, old)
                line = getattr(node, "lineno", statement.lineno)
                change = f"{before}  ->  {after}"
                mutants.append(Mutant(module, line, change, tree, node, attribute, value))
    return mutants


def brief(node: ast.AST) -> str:
    return ast.unparse(node).split("\n")[0][:90]


def statements(tree: ast.AST, *, inside: bool = False) -> Iterator[ast.stmt]:
    """Statements inside functions, except docstrings, errors, warnings and imports."""
    for child in ast.iter_child_nodes(tree):
        inner = inside or isinstance(tree, ast.FunctionDef)
        if isinstance(child, ast.stmt) and inner and not is_left_alone(child):
            yield child
        yield from statements(child, inside=inner)


def is_left_alone(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        skipped = isinstance(node.value, ast.Constant) or "warn" in ast.unparse(node.value)[:13]
        return skipped or isinstance(node.value, (ast.Yield, ast.YieldFrom))
    return isinstance(node, (ast.Raise, ast.Import, ast.ImportFrom, ast.FunctionDef))


def parts_of(statement: ast.stmt) -> Iterator[ast.AST]:
    """The statement and its expressions, without statements and texts inside it."""
    yield statement
    todo = list(ast.iter_child_nodes(statement))
    while todo:
        node = todo.pop(0)
        if isinstance(node, (ast.stmt, ast.JoinedStr, ast.ExceptHandler)):
            continue
        if isinstance(node, ast.keyword) and node.arg in {"strict", "stacklevel"}:
            continue
        if isinstance(statement, ast.AnnAssign) and node is statement.annotation:
            continue
        yield node
        todo.extend(ast.iter_child_nodes(node))


def changes(node: ast.AST) -> Iterator[tuple[str, Any]]:  # noqa: C901 - a table
    """Attributes of a node and their changed values."""
    match node:
        case ast.BinOp() | ast.AugAssign() | ast.BoolOp() if type(node.op) in OPERATORS:
            yield "op", OPERATORS[type(node.op)]()
        case ast.Compare():
            for i, op in enumerate(node.ops):
                yield "ops", [*node.ops[:i], OPERATORS[type(op)](), *node.ops[i + 1 :]]
        case ast.UnaryOp(op=ast.USub() | ast.Invert()):
            yield "op", ast.UAdd()
        case ast.If() | ast.While() | ast.IfExp() if not is_flipped(node.test):
            yield "test", at(node, ast.UnaryOp(ast.Not(), node.test))
        case ast.comprehension() if node.ifs:
            yield "ifs", []
        case ast.Constant():
            yield from (("value", value) for value in other_constants(node.value))
        case ast.Attribute(attr=name) if name in NAMES:
            yield "attr", NAMES[name]
        case ast.Name(id=name) if name in NAMES:
            yield "id", NAMES[name]
        case ast.Call():
            for i, keyword in enumerate(node.keywords):
                if keyword.arg not in {None, "strict", "stacklevel"}:
                    yield "keywords", node.keywords[:i] + node.keywords[i + 1 :]
        case ast.Expr():
            # Not None alone, so that the function still refers to the same names.
            nothing = ast.BoolOp(ast.And(), [at(node, ast.Constant(None)), node.value])
            yield "value", at(node, nothing)


def at(place: ast.AST, node: ast.AST) -> ast.AST:
    return ast.fix_missing_locations(ast.copy_location(node, place))


def is_flipped(test: ast.expr) -> bool:
    """Whether a changed operator already negates the condition."""
    flipped = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
    return isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], flipped)


def other_constants(value: Any) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, (int, float)):
        yield value + 1 if abs(value) <= 2 else value * 2
    elif isinstance(value, str) and value in NAMES:
        yield NAMES[value]


# --------------------------------------------------------------------------------------
# Which tests reach which line.


def run_under_coverage(tests: list[str], folder: Path, jobs: int) -> None:
    options = [
        *["-q", "-p", "no:cacheprovider", "-n", str(jobs), "--cov=skcalib", "--cov-context=test"],
        *["--cov-report=", "--cov-fail-under=0"],
        *["-o", "junit_family=xunit1", f"--junitxml={folder / 'times.xml'}"],
    ]
    subprocess.run(
        [sys.executable, "-m", "pytest", *tests, *IGNORED, *options],
        cwd=ROOT,
        env={**os.environ, "COVERAGE_FILE": str(folder / "coverage")},
        check=True,
    )


def times_of_tests(folder: Path) -> dict[str, float]:
    cases = ET.parse(folder / "times.xml").iter("testcase")
    return {f"{case.get('file')}::{case.get('name')}": float(case.get("time")) for case in cases}


def tests_of_lines(folder: Path, module: str) -> dict[int, list[str]]:
    from coverage import CoverageData

    data = CoverageData(str(folder / "coverage"))
    data.read()
    return {
        line: [context.removesuffix("|run") for context in contexts if context.endswith("|run")]
        for line, contexts in data.contexts_by_lineno(str(path_of(module))).items()
    }


# --------------------------------------------------------------------------------------
# Tests of mutants, inside pytest.


@dataclass
class Mutation:
    """Plugin that replaces the test loop of pytest."""

    mutants: list[Mutant]
    folder: Path
    jobs: int
    seconds: float  #: time of tests per mutant
    fates: dict[int, str] = field(default_factory=dict)  #: by number of the mutant

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        times = {name: t for name, t in times_of_tests(self.folder).items() if name in items}
        modules = {mutant.module for mutant in self.mutants}
        reach = {module: tests_of_lines(self.folder, module) for module in modules}
        kept = self.folder / "sound.txt"
        if not kept.exists():
            sound = self._sound(session, items, sorted(times, key=times.get))
            kept.write_text("\n".join(sound))
        sound = set(kept.read_text().split("\n")) & set(times)
        todo, running = list(enumerate(self.mutants))[::-1], {}
        while todo or running:
            while todo and len(running) < self.jobs:
                i, mutant = todo.pop()
                names = set(reach[mutant.module].get(mutant.line, [])) & sound
                names, limit = self._affordable({name: times[name] for name in names})
                if names:
                    pid = forked(session, [items[name] for name in names], mutant, limit)
                    running[pid] = i
                else:
                    self._note(i, "not reached")
            if running:
                pid, status = os.wait()
                self._note(running.pop(pid), fate_of(status))
        return True

    def _affordable(self, times: dict[str, float]) -> tuple[list[str], int]:
        """Names of tests, and their time limit in seconds with a mutant.

        Half of the time is for the fastest tests, the rest for random other ones.
        """
        quickest = sorted(times, key=times.get)
        totals = list(itertools.accumulate(times[name] for name in quickest))
        n_quick = bisect.bisect(totals, self.seconds / 2)
        names, spent = quickest[:n_quick], sum(totals[n_quick - 1 : n_quick])
        others = quickest[n_quick:]
        random.Random(0).shuffle(others)
        for name in others:
            if spent + times[name] <= self.seconds:
                names.append(name)
                spent += times[name]
        return names, 10 + int(3 * spent)

    def _sound(self, session: pytest.Session, items: dict, names: list[str]) -> set[str]:
        """Names of the tests that pass without a mutant when they are run in this way."""
        parts = [names[i :: 8 * self.jobs] for i in range(8 * self.jobs)]
        sound: set[str] = set()
        while parts:
            batch = {
                forked(session, [items[n] for n in p], None, 600): p for p in parts[: self.jobs]
            }
            parts = parts[self.jobs :]
            for _ in range(len(batch)):
                pid, status = os.wait()
                part = batch[pid]
                if os.waitstatus_to_exitcode(status) == 0:
                    sound.update(part)
                elif len(part) > 1:  # find the one that fails
                    parts += [part[: len(part) // 2], part[len(part) // 2 :]]
                else:
                    print("left out, fails without a mutant:", part[0], flush=True)
        return sound

    def _note(self, i: int, fate: str) -> None:
        self.fates[i] = fate
        if fate not in {"killed", "timed out"}:
            print(f"{fate}: {self.mutants[i]}", flush=True)


def forked(session: pytest.Session, items: list, mutant: Mutant | None, limit: int) -> int:
    """Process that runs tests with a mutant: exits with 1 if one fails, 0 if not."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os._exit(fails(session, items, mutant, limit))
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:  # never return to the code of the parent
        os._exit(BROKEN)


def fails(session: pytest.Session, items: list, mutant: Mutant | None, limit: int) -> int:
    """Whether a test fails with the mutant."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    signal.alarm(limit)
    if mutant is not None:
        codes = mutant.codes()
        for function in functions_of(mutant.module):
            code = function.__code__
            function.__code__ = codes[code.co_qualname, code.co_firstlineno]
    silence = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(silence, number)
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return 1
    return 0


def functions_of(module: str) -> list[types.FunctionType]:
    path = str(path_of(module))
    # Not isinstance, which calls __class__ of objects of other libraries.
    everything = [f for f in gc.get_objects() if type(f) is types.FunctionType]
    return [f for f in everything if f.__code__.co_filename == path]


def fate_of(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    fates = {0: "survived", -signal.SIGALRM: "timed out", BROKEN: "not made"}
    return fates.get(code, "killed")


def report(mutation: Mutation) -> None:
    fates = collections.defaultdict(collections.Counter)
    for i, fate in mutation.fates.items():
        for row in (mutation.mutants[i].module, "all"):
            fates[row][fate] += 1
    columns = ["killed", "timed out", "survived", "not reached", "not made"]
    print(f"\n{'module':16}", *(f"{name:>12}" for name in ["mutants", *columns, "score"]))
    for row in sorted(fates, key=lambda name: (name == "all", name)):
        counts = [fates[row][name] for name in columns]
        score = (counts[0] + counts[1]) / max(1, sum(counts[:-1]))
        print(f"{row:16}", *(f"{n:12}" for n in [sum(counts), *counts]), f"{score:12.1%}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--modules", nargs="+", default=list(GROUPS))
    parser.add_argument("--tests", nargs="+", default=["tests"], help="files or folders of tests")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=20, help="time of tests per mutant")
    parser.add_argument("--sample", type=int, help="number of mutants, chosen at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reach", type=Path, help="folder where results of the tests are kept")
    parser.add_argument("--again", type=Path, help="only the surviving mutants of this output")
    parser.add_argument("--list", action="store_true", help="only print the mutants")
    args = parser.parse_args()

    modules = dict.fromkeys(
        m for name in args.modules for part in GROUPS.get(name, [name]) for m in modules_in(part)
    )
    mutants = [mutant for module in modules for mutant in mutants_of(module)]
    if args.again:
        named = set(args.again.read_text().splitlines())
        mutants = [mutant for mutant in mutants if f"survived: {mutant}" in named]
    if args.sample:
        mutants = random.Random(args.seed).sample(mutants, args.sample)
    if args.list:
        print(*mutants, sep="\n")
        sys.exit()
    os.environ["OMP_NUM_THREADS"] = "1"  # no threads before the fork
    os.chdir(ROOT)
    folder = args.reach or Path(tempfile.mkdtemp())
    folder.mkdir(exist_ok=True)
    if not (folder / "times.xml").exists():
        run_under_coverage(args.tests, folder, args.jobs)
    started = time.perf_counter()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # report when terminated
    mutation = Mutation(mutants, folder, args.jobs, args.seconds)
    plain = ["-s", "-q", "--no-header", *(f"-pno:{x}" for x in ("cacheprovider", "xdist", "cov"))]
    pytest.main([*args.tests, *IGNORED, *plain], plugins=[mutation])
    report(mutation)
    print(f"{time.perf_counter() - started:.0f} seconds with {args.jobs} processes")
