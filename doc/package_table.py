"""The table of packages in ``architecture.rst``, made from the sources when pages are built."""

import ast
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import layers


def sentences():
    """The first sentence of each package or module, from the lowest layer up."""
    trees = layers.modules()
    return {
        part: ast.get_docstring(trees.get(f"{part}.__init__") or trees[part]).splitlines()[0]
        for parts in layers.layers()
        for part in parts
    }


def write(folder):
    """The packages from the highest layer down, with the sentence of each."""
    found = sentences()
    rows = ["   * - Layer", "     - Package", "     - Contents"]
    for level, parts in list(enumerate(layers.layers()))[::-1]:
        for part in parts:
            name = "skcalib" if part == "__init__" else part
            rows += [f"   * - {level}", f"     - ``{name}``", f"     - {found[part]}"]
    text = "\n".join([".. list-table::", "   :header-rows: 1", "", *rows, ""])
    (folder / "packages.txt").write_text(text)
