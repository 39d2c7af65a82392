"""Elements and templates are filled with escaped texts."""

from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given, strategies as st

from skcalib._output.html import Entry, Html, aligned, as_text, element, fill, html, table


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
    made = element("p", text, title=value)
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


def test_tables_have_headers_captions_and_entries():
    entries = [Entry("-1.0", "±0.5", "*"), Entry("2", is_best=True)]
    rows = [["a", entries[0], "<"], ["b", entries[1], element("i", ">")]]
    text = table(["x", "y", "z"], rows, caption="C", class_="own")
    read = Read(text)
    heads = [attrs["scope"] for tag, attrs in read.tags if tag == "th"]
    assert heads == ["col"] * 3 + ["row"] * 2
    assert [attrs["class"] for tag, attrs in read.tags if tag == "span"] == ["mark", "spread"]
    assert "<td>\N{MINUS SIGN}1.0" in text
    assert "<strong>\N{BLACK STAR} 2</strong>" in text
    assert ("table", {"class": "own"}) in read.tags
    assert "<caption>C</caption>" in text
    assert unescape(text).count("<i>") == 1
    assert aligned([["", "y"], ["name", 10], ["b", entries[0]]]) == (
        "               y\nname          10\nb     -1.0* ±0.5"
    )


def test_templates_escape_texts_and_drop_empty_elements():
    template = (
        '<title>$t</title><section data-if="x" id="x">$x<b data-if="y">b</b>'
        '<i data-if="!y">c</i></section>'
        '<section data-if="y" id="y">$y</section>\n'
    )
    made = fill(template, {"t": "T & <t> $x", "x": element("i", ">"), "y": None})
    title = "<title>T &amp; &lt;t&gt; $x</title>"
    assert made == f'{title}<section id="x"><i>&gt;</i><i>c</i></section>'
    assert 'id="y">7</section>' in fill(template, {"t": "", "x": [], "y": 7})
    assert "<section>" not in made
    assert html(["a", None, [Html("<b>"), "<"]]) == "a<b>&lt;"
