"""The map of the package and the paths of calls that the documentation shows."""

import itertools
import runpy
from pathlib import Path

import layers
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

DOC = Path(__file__).parents[1] / "doc"
MAP = runpy.run_path(str(DOC / "package_map.py"))
CALLS = runpy.run_path(str(DOC / "call_paths.py"))
PARTS = list(itertools.chain(*layers.layers()))


def test_names_and_sizes_are_inside_of_their_boxes():
    figure = MAP["draw"]()
    canvas = FigureCanvasAgg(figure)
    (ax,) = figure.axes
    boxes = [patch.get_window_extent() for patch in ax.patches]
    texts = [text for text in ax.texts if text.get_text() and not text.get_text().isdigit()]
    assert len(texts) == 2 * len(boxes) == 2 * len(PARTS)
    for k, text in enumerate(texts):
        area, box = text.get_window_extent(canvas.get_renderer()), boxes[k // 2]
        assert box.count_contains(area.corners()) == 4, text.get_text()
    for box in boxes:
        assert figure.bbox.count_contains(box.corners()) == 4


def test_no_arrow_of_the_map_is_hidden_by_a_box():
    places, half = MAP["layout"](), np.array([MAP["WIDTH"] + 0.08, MAP["HEIGHT"] - 0.02]) / 2
    for upper, lower in MAP["arrows"]():
        points = np.linspace(*MAP["ends"](places[upper], places[lower]), 100)
        for part, place in places.items():
            inside = (np.abs(points - place) < half).all(axis=1)
            assert not inside.any(), f"{upper} to {lower} passes behind {part}: change COLUMNS"


def test_arrows_lead_wherever_imports_do_and_none_is_implied_by_others():
    pairs = MAP["arrows"]()
    imports = {
        (layers.part_of(module), layers.part_of(name))
        for module, tree in layers.modules().items()
        for name in layers.imports_of(module, tree)
    }
    imports = {(upper, lower) for upper, lower in imports if upper != lower}
    assert implied(pairs) == implied(imports)
    for pair in pairs:
        assert pair not in implied(set(pairs) - {pair})


def implied(pairs):
    """All pairs of a part and one that is reached from it."""
    reached = {part: set() for part in PARTS}
    for part in PARTS:  # from the lowest layer up
        below = [lower for upper, lower in pairs if upper == part]
        reached[part].update(below, *(reached[lower] for lower in below))
    return {(part, other) for part in PARTS for other in reached[part]}


def test_docstrings_of_parts_start_with_a_sentence():
    found = MAP["sentences"]()
    assert list(found) == PARTS
    assert not [sentence for sentence in found.values() if not sentence.endswith(".")]


@pytest.mark.parametrize("call", CALLS["calls"]().values(), ids=CALLS["calls"]())
def test_calls_go_up_only_as_callbacks(call):
    first = CALLS["traced"](call)
    outer = {
        layers.part_of(caller.module)
        for caller, entry, _ in CALLS["steps"](first)
        if entry.is_callback_from(caller)
    }
    assert outer <= {"_engine", "_scores", "_base"}
    assert "_engine" in outer, "nothing was traced"


def test_paths_start_at_the_files_of_the_functions():
    first = [CALLS["traced"](call).module for call in CALLS["calls"]().values()]
    assert first == ["metrics._calibration_error", "_base"]
