"""The files that two calls pass through, in ``architecture.rst``, traced when pages are built."""

import inspect
import sys
from dataclasses import dataclass, field
from pathlib import Path

from scipy.special import softmax

from skcalib import TemperatureScaling
from skcalib.datasets import make_logits
from skcalib.metrics import expected_calibration_error

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import layers

LEVELS = {part: level for level, parts in enumerate(layers.layers()) for part in parts}


@dataclass
class Entry:
    """A module that is entered from another one: its functions that are, and what they enter."""

    module: str
    functions: dict = field(default_factory=dict)  # in order; a set has none
    inner: dict = field(default_factory=dict)

    def is_callback_from(self, outer):
        """Whether the call goes up, which only functions that were handed down can do."""
        part, other = layers.part_of(self.module), layers.part_of(outer.module)
        return part != other and LEVELS[part] >= LEVELS[other]


def calls():
    """The two calls, by what users write."""
    Z, y = make_logits(1000, 3, random_state=0)
    P = softmax(Z, axis=1)
    return {
        "expected_calibration_error": lambda: expected_calibration_error(y, P),
        "temperature_scaling": lambda: TemperatureScaling().fit(Z, y),
    }


def traced(call):
    """The entry of the module that a call enters first."""
    call()  # so that no import is traced
    start = Entry("")
    entries = {}  # of frames that have not returned

    def profile(frame, event, _):
        if event == "call" and is_shown(frame):
            caller = frame.f_back
            while caller is not None and caller not in entries:
                caller = caller.f_back
            entries[frame] = entered(entries.get(caller, start), frame)
        elif event == "return":
            entries.pop(frame, None)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    (first,) = start.inner.values()
    return first


def is_shown(frame):
    """Whether a function of the package runs; not properties, constructors, comprehensions."""
    name = frame.f_code.co_name
    if layers.PACKAGE not in Path(frame.f_code.co_filename).parents:
        return False
    attribute = inspect.getattr_static(frame.f_locals.get("self"), name, None)
    return name not in {"__init__", "<listcomp>", "<genexpr>"} and not isinstance(
        attribute, property
    )


def entered(entry, frame):
    """The entry of the module of a frame, which an entry calls."""
    module = layers.name_of(Path(frame.f_code.co_filename))
    if module != entry.module:
        entry = entry.inner.setdefault(module, Entry(module))
        entry.functions[frame.f_code.co_qualname.replace(".<locals>", "")] = None
    return entry


def steps(entry, depth=0):
    """All pairs of entries, of which the first calls the second, with their depth, in order."""
    for inner in entry.inner.values():
        yield entry, inner, depth + 1
        yield from steps(inner, depth + 1)


def text(first):
    """The entries as lines, each indented below the one that calls it; an arrow for callbacks."""
    rows = [(first.module, first)] + [
        ("  " * depth + "↑ " * inner.is_callback_from(outer) + inner.module, inner)
        for outer, inner, depth in steps(first)
    ]
    width = max(len(name) for name, _ in rows) + 2
    return "\n".join(f"{name:{width}}{', '.join(entry.functions)}" for name, entry in rows) + "\n"


def write(folder):
    """A file for each call, which the page includes."""
    for name, call in calls().items():
        (folder / f"{name}.txt").write_text(text(traced(call)), encoding="utf-8")
