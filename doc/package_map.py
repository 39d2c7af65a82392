"""The map of the package in ``architecture.rst``, drawn from the imports when pages are built."""

import ast
import itertools
import sys
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
import layers

WIDTH, HEIGHT = 0.79, 0.6  # of boxes, whose centres are 1 apart
# Where the centres are from left to right, so that no arrow passes behind a box, which is tested.
COLUMNS = {
    "__init__": 2.32, "_cli": 1.28, "export": 4.2,
    "compose": 1.9, "report": 0.22, "monitor": 3.62,
    "selection": 0.99, "display": 0.08,
    "binning": 1.47, "datasets": 4.2, "scaling": 2.38, "metrics": 3.29, "_subestimator": 0.0,
    "_splits": 0.09, "_base": 3.93, "_output": 1.0,
    "_linear": 3.29, "_validation": 1.47, "_scores": 2.38, "_version": 4.2,
    "_engine": 3.93,
    "_typing": 1.04, "_warnings": 1.96,
}  # fmt: skip
FILLS = {True: "#dbe9f6", False: "#f0f0f0"}  # of public packages, and of private ones


def title(part):
    """The name of a part as users know it."""
    return "skcalib" if part == "__init__" else part


def trees():
    """The syntax trees of the modules of each part."""
    found = {part: {} for part in itertools.chain(*layers.layers())}
    for module, tree in layers.modules().items():
        found[layers.part_of(module)][module] = tree
    return found


def arrows():
    """Pairs of parts, of which the first imports the second, and not only by way of a third."""
    imports = {
        part: {
            layers.part_of(name)
            for module, tree in modules.items()
            for name in layers.imports_of(module, tree)
        }
        - {part}
        for part, modules in trees().items()
    }
    below = {}  # all that a part imports, directly or not
    for part in itertools.chain(*layers.layers()):
        below[part] = imports[part].union(*(below[name] for name in imports[part]))
    return [
        (part, name)
        for part, names in imports.items()
        for name in sorted(names)
        if not any(name in below[other] for other in names)
    ]


def sizes():
    """Numbers of modules and of lines of each part."""
    return {
        part: (
            len(modules),
            sum(
                len((layers.PACKAGE / f"{name.replace('.', '/')}.py").read_text().splitlines())
                for name in modules
            ),
        )
        for part, modules in trees().items()
    }


def sentences():
    """The first line of the docstring of each part."""
    found = {}
    for part, modules in trees().items():
        tree = modules.get(f"{part}.__init__") or modules[part]
        found[part] = ast.get_docstring(tree).splitlines()[0]
    return found


def ends(upper, lower):
    """Ends of an arrow between two places: where the edges of the boxes face one another."""
    lean = max(-1, min(1, lower[0] - upper[0])) * WIDTH / 3
    return (upper[0] + lean, upper[1] - HEIGHT / 2), (lower[0] - lean, lower[1] + HEIGHT / 2)


def layout():
    """The centre of each box."""
    levels = enumerate(layers.layers())
    return {part: (COLUMNS[part], level) for level, parts in levels for part in parts}


def draw():
    """The figure: boxes on their layers, the lowest layer at the bottom."""
    places = layout()
    figure = Figure(figsize=(8.4, 7.6), facecolor="white")
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(-0.65, 4.7), ylim=(-0.5, len(layers.layers()) - 0.5))
    ax.axis("off")
    for level in range(len(layers.layers())):
        ax.text(-0.58, level, str(level), va="center", color="#555555", size=11)
    for upper, lower in arrows():
        start, end = ends(places[upper], places[lower])
        style = {"arrowstyle": "-|>", "color": "#555555", "shrinkA": 0, "shrinkB": 0}
        ax.annotate("", xy=end, xytext=start, arrowprops=style)
    for part, (n_modules, n_lines) in sizes().items():
        draw_box(
            ax, places[part], part, f"{n_modules} module{'s' * (n_modules > 1)}\n{n_lines} lines"
        )
    return figure


def draw_box(ax, place, part, size):
    """The box of a part with its name and its size."""
    x, y = place
    fill = FILLS[part == "__init__" or not part.startswith("_")]
    patch = Rectangle(
        (x - WIDTH / 2, y - HEIGHT / 2), WIDTH, HEIGHT, facecolor=fill, edgecolor="#333333"
    )
    ax.add_patch(patch)
    ax.text(x, y + 0.16, title(part), ha="center", va="center", size=11, weight="bold")
    ax.text(x, y - 0.11, size, ha="center", va="center", size=8)


def table():
    """A table of the parts from the highest layer down, with the sentence of each."""
    found = sentences()
    rows = ["   * - Layer", "     - Package", "     - Contents"]
    for level, parts in list(enumerate(layers.layers()))[::-1]:
        for part in parts:
            rows += [f"   * - {level}", f"     - ``{title(part)}``", f"     - {found[part]}"]
    return "\n".join([".. list-table::", "   :header-rows: 1", "", *rows, ""])


def write(folder):
    """The map and the table as files, which the page includes."""
    draw().savefig(folder / "package_map.svg")
    (folder / "packages.txt").write_text(table())
