"""The map of the package in ``architecture.rst``, drawn from the imports when pages are built."""

import ast
import itertools
import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.path import Path as Line

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
import layers

WIDTH, HEIGHT = 0.84, 0.6  # of boxes, whose centres are 1 apart
COLUMNS = 5
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


def hidden(places, drawn):
    """Pairs of an arrow and a part behind whose box it passes."""
    points = np.linspace(*np.swapaxes(list(drawn.values()), 0, 1), 50)[:, :, np.newaxis]
    inside = np.abs(points - list(places.values())) < np.array([WIDTH, HEIGHT]) / 2 - 0.01
    found = np.argwhere(inside.all(axis=-1).any(axis=0))
    return [(list(drawn)[i], list(places)[j]) for i, j in found]


def lines(places, pairs):
    """Ends of the arrows between parts that have a place."""
    placed = [(upper, lower) for upper, lower in pairs if upper in places and lower in places]
    return {(upper, lower): ends(places[upper], places[lower]) for upper, lower in placed}


def cost(places, pairs):
    """Difficulty of reading: arrows hidden by boxes, crossing arrows, and widths of arrows."""
    drawn = lines(places, pairs)
    if not drawn:
        return 0
    crossing = sum(
        Line(line).intersects_path(Line(other), filled=False)
        for (pair, line), (other_pair, other) in itertools.combinations(drawn.items(), 2)
        if not set(pair) & set(other_pair)
    )
    width = sum(abs(start[0] - end[0]) for start, end in drawn.values())
    return 10 * len(hidden(places, drawn)) + crossing + width / 2


def layout(pairs, rounds=3):
    """The centre of each box: layer by layer the cheapest order, given that of the others."""
    places = {}
    levels = list(enumerate(layers.layers()))[::-1]
    for level, parts in levels * rounds:
        columns = itertools.permutations(range(COLUMNS), len(parts))
        orders = [dict(zip(parts, ((x, level) for x in xs), strict=True)) for xs in columns]
        places |= min(orders, key=lambda order: cost(places | order, pairs))
    return places


def draw():
    """The figure: boxes on their layers, the lowest layer at the bottom."""
    pairs = arrows()
    places = layout(pairs)
    figure = Figure(figsize=(8.4, 7.6))
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(-0.7, COLUMNS - 0.5), ylim=(-0.5, len(layers.layers()) - 0.5))
    ax.axis("off")
    for level in range(len(layers.layers())):
        ax.text(-0.6, level, str(level), va="center", color="#555555", size=11)
    for upper, lower in pairs:
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
