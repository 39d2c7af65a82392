"""Prose, names and messages use the terms of the field, by which people search."""

import re
from functools import cache

import layers
import pytest

# The term of the field, and expressions that have stood in its place.
TERMS = {
    "over-confident": r"surer than|sure enough|surest",
    "regularization, shrunk towards": r"holds? (it )?to (it|temperature)|held to|how strongly",
    "over-predicted class": r"given too often|given too rarely",
    "confused classes": r"taken for (each other|one another)",
    "calibrated": r"keeps? (its|their) word",
    "base rate": r"how frequent the event is",
    "gradient norm": r"certificate",
    "pass over the data": r"rounds? of messages",
    "ties share a bin": r"tear|torn",
    "weights that sum to N": r"\bheavy\b",
    "layer": r"\bfloors? (\d|to|one|below|above)|higher floor|lower floor",
    "row-chunked Dask array": r"(rows|are|is|be|as well) with Dask",
    "client": r"the process that asks",
    "distributed": r"far away",
    "invalid": r"no good\b|that cannot be\b\.",
    "held-out": r"(has|have) (never|not) seen|not seen in fit",
    "proper scoring rule": r"parts of scores",
    "k-th row": r"so-manieth",
}
FILES = [
    *sorted(layers.PACKAGE.rglob("*.py")),
    *sorted((layers.ROOT / "benchmarks").glob("*.py")),
    *sorted((layers.ROOT / "examples").glob("*.*")),
    *sorted((layers.ROOT / "doc").glob("*.rst")),
    *sorted((layers.ROOT / "doc" / "guide").glob("*.rst")),
    *sorted((layers.ROOT / "doc" / "recipes").glob("*.rst")),
    *sorted(layers.ROOT.glob("*.rst")),
]


@cache
def text_of(path):
    return re.sub(r"\s+(# )?", " ", path.read_text())  # phrases may be broken across lines


@pytest.mark.slow
@pytest.mark.parametrize("term", TERMS)
def test_terms_of_the_field(term):
    found = {}
    for path in FILES:
        text = text_of(path)
        hits = [match.group() for match in re.finditer(TERMS[term], text, re.IGNORECASE)]
        found |= {str(path.relative_to(layers.ROOT)): hits} if hits else {}
    assert found == {}, f"say {term}"
