"""Trees of HTML elements are written as HTML that reads as it was meant."""

from base64 import b64encode
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given, strategies as st

from skcalib._output.html import Number, as_text, definitions, element, fragment, page, table


class Read(HTMLParser):
    """Start tags with their attributes, and texts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)


@pytest.mark.slow
@given(st.text(), st.text())
def test_texts_and_attributes_are_escaped(text, value):
    made = fragment(element("p", text, title=value))
    made.encode()  # without lone surrogates
    assert "\0" not in made
    read = Read(made)
    assert read.tags == [("p", {"title": as_text(value)})]
    assert "".join(read.texts) == as_text(text)


@pytest.mark.parametrize("code", [0, 1, 8, 11, 31, 127, 159, 0xD800, 0xDFFF, 0xFFFE, 0xFFFF])
def test_characters_that_no_page_may_hold(code):
    assert as_text(f"a{chr(code)}b") == "a\N{REPLACEMENT CHARACTER}b"


@pytest.mark.parametrize("text", ["\t\n\r", "é漢🙂", "\N{REPLACEMENT CHARACTER}"])
def test_other_characters_stay(text):
    assert as_text(text) == text


def test_children_of_all_kinds():
    made = element("p", "a", None, [element("b", 1), "c", [2.5, None]], (x for x in "de"))
    assert fragment(made) == "<p>a<b>1</b>c2.5de</p>"


def test_attributes_of_all_kinds():
    made = element("th", class_="x", aria_label=3, hidden=True, id=None, draggable=False)
    assert fragment(made) == '<th class="x" aria-label="3" hidden=""></th>'
    assert fragment(element("br")) == "<br>"


def test_tables_have_headers_captions_and_values():
    rows = [["a", Number("1.0", 1.04), "<"], ["b", Number("nan", float("nan")), element("i", ">")]]
    text = fragment(table(["x", "y", "z"], rows, caption="C", sortable=True, class_="own"))
    read = Read(text)
    heads = [attrs["scope"] for tag, attrs in read.tags if tag == "th"]
    assert heads == ["col"] * 3 + ["row"] * 2
    values = [attrs["data-value"] for tag, attrs in read.tags if "data-value" in attrs]
    assert values == ["1.04", "nan"]
    assert ("table", {"class": "own sortable"}) in read.tags
    assert "&lt;" in text
    assert unescape(text).count("<i>") == 1


def test_pages_are_whole():
    text = page("T & <t>", element("h1", "x"), style="a > b {}", script="1 < 2")
    assert text.startswith('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">')
    assert "<title>T &amp; &lt;t&gt;</title>" in text
    assert "<style>a > b {}</style><script>1 < 2</script></head>" in text
    digest = b64encode(sha256(b"1 < 2").digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text.replace("&#x27;", "'")
    assert text.endswith("<body><h1>x</h1></body></html>\n")


def test_definitions():
    assert fragment(definitions([("a", 1)])) == "<dl><dt>a</dt><dd>1</dd></dl>"
