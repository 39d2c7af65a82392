"""The page of a report and the table of a comparison in a browser.

They need Chromium, whose path the environment variable CHROMIUM may give, and playwright, which
drives it: ``python -m pytest -m browser``.
"""

import os
import re
import shutil
from typing import NamedTuple

import numpy as np
import pytest
from matplotlib.figure import Figure

from skcalib import PlattScaling, TemperatureScaling, calibration_report, compare_calibrators
from skcalib._output.html import Number, page, resource, table
from skcalib.datasets import make_logits

pytestmark = pytest.mark.browser

WIDTHS = (375, 800, 1250)
SCHEMES = ("light", "dark")

# Each would set window.broken, or load something, if it were not escaped.
HOSTILE = (
    "<script>window.broken=1</script>",
    '"><img src=x onerror=window.broken=1>',
    "'--><style>body{display:none}</style></title></script><h1>broken</h1>",
    "a very long name of a class without a space_" + "x" * 80,
)


def found_browser():
    """The path of a Chromium, if there is one."""
    names = (os.environ.get("CHROMIUM", "chromium"), "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


@pytest.fixture(scope="module")
def browser():
    if found_browser() is None:
        pytest.skip("no Chromium was found; its path can be given as CHROMIUM")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=found_browser(), args=["--no-sandbox"])
        yield started
        started.close()


class Opened(NamedTuple):
    """A page in a browser, with what it said and asked for."""

    page: object
    said: list
    asked: list

    def run(self, script, *arguments):
        return self.page.evaluate(script, *arguments)


@pytest.fixture
def opened(browser):
    """A function that opens a file; contexts are closed in the end."""
    contexts = []

    def open_file(path, *, width=1250, **settings):
        context = browser.new_context(viewport={"width": width, "height": 900}, **settings)
        contexts.append(context)
        found = Opened(context.new_page(), [], [])
        found.page.on("console", lambda message: found.said.append(message.text))
        found.page.on("pageerror", lambda error: found.said.append(str(error)))
        found.page.on("request", lambda request: found.asked.append(request.url))
        found.page.goto(path.as_uri())
        return found

    yield open_file
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def report():
    """A report on four classes with hostile names, and a comparison with such names."""
    logits, y = make_logits(600, 4, temperature=3.0, random_state=0)
    labels = np.array(HOSTILE)[y]
    classes = list(HOSTILE)
    calibrators = {HOSTILE[1]: TemperatureScaling(), "Platt": PlattScaling()}
    comparison = compare_calibrators(logits, labels, calibrators=calibrators, labels=classes)
    calibrator = TemperatureScaling(classes=classes).fit(logits, labels)
    return calibration_report(
        calibrator,
        logits,
        labels,
        name=HOSTILE[0],
        comparison=comparison,
        figure=Figure(figsize=(10, 8), layout="constrained"),
    )


@pytest.fixture(scope="module")
def file(report, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    report.to_html(path)
    return path


# --------------------------------------------------------------------------------------
# The page of a report.


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_says_and_loads_nothing_and_does_not_scroll_to_the_side(
    file, opened, width, scheme
):
    found = opened(file, width=width, color_scheme=scheme)
    assert found.said == []
    assert [url for url in found.asked if not url.startswith("data:")] == [file.as_uri()]
    assert found.run("document.documentElement.scrollWidth") == width
    # Whatever is wider than the screen is inside of what scrolls.
    outside = """width => [...document.querySelectorAll("body *")]
        .filter(e => e.getBoundingClientRect().right > width + 1 && !e.closest("div.table"))
        .map(e => e.outerHTML.slice(0, 200))"""
    assert found.run(outside, width) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_words_of_measures_stay_whole(file, opened, width):
    found = opened(file, width=width)
    broken = """[...document.querySelectorAll(".measures tbody th")].flatMap(cell =>
        [...cell.textContent.matchAll(/\\S+/g)].filter(word => {
            const range = document.createRange();
            range.setStart(cell.firstChild, word.index);
            range.setEnd(cell.firstChild, word.index + word[0].length);
            return range.getClientRects().length > 1;
        }).map(String))"""
    assert found.run("document.querySelectorAll('.measures tbody th').length") > 10
    assert found.run(broken) == []


def test_nothing_else_may_run_or_load(file, opened, tmp_path):
    """The policy stops what an escaped name could not do anyway."""
    text = file.read_text("utf-8")
    attack = (
        "<script>window.broken=1</script><img src='x.png' onerror='window.broken=1'>"
        "<link rel=stylesheet href='x.css'><iframe src='x.html'></iframe>"
    )
    (tmp_path / "attacked.html").write_text(text.replace("<main", f"{attack}<main", 1), "utf-8")
    for name in ("x.png", "x.css", "x.html"):
        (tmp_path / name).write_text("")
    found = opened(tmp_path / "attacked.html")
    assert found.run("window.broken") is None
    assert found.said  # the browser complains of each
    assert all("Content Security Policy" in message for message in found.said), found.said
    # And without the policy they would have run.
    policy = 'http-equiv="Content-Security-Policy"'
    assert policy in text
    (tmp_path / "open.html").write_text(
        text.replace(policy, "name=none").replace("<main", f"{attack}<main", 1), "utf-8"
    )
    assert opened(tmp_path / "open.html").run("window.broken") == 1


# Contrast by WCAG 2.2, 1.4.3, of each text with the opaque background behind it.
CONTRAST = """() => {
  const parse = (colour) => {
    const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const light = (c) => {
    const [r, g, b] = c.slice(0, 3).map((x) => x / 255)
      .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c[3] > 0.99) return c;
    }
    return parse("Canvas");
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || ["STYLE", "SCRIPT"].includes(e.tagName)) continue;
    const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    found.push([ratio, e.tagName, e.textContent.slice(0, 40)]);
  }
  return found.sort((x, y) => x[0] - y[0]);
}"""


@pytest.mark.parametrize("scheme", SCHEMES)
def test_contrast_of_all_texts(file, opened, scheme):
    found = opened(file, color_scheme=scheme)
    ratios = found.run(CONTRAST)
    assert len(ratios) > 100
    assert ratios[0][0] >= 4.5, ratios[:5]
    background = found.run("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_figures_are_those_of_the_scheme(file, opened, scheme):
    """And have the background of the page."""
    found = opened(file, color_scheme=scheme)
    corner = """() => [...document.querySelectorAll("figure img")].map((image) => {
        const canvas = document.createElement("canvas").getContext("2d");
        canvas.filter = getComputedStyle(image).filter;
        canvas.drawImage(image, 0, 0);
        return [...canvas.getImageData(1, 1, 1, 1).data].slice(0, 3).join(", ");
    })"""
    found.page.wait_for_function("[...document.images].every((image) => image.complete)")
    colours = found.run(corner)
    assert len(colours) >= 6
    background = found.run("getComputedStyle(document.body).backgroundColor")
    assert {f"rgb({colour})" for colour in colours} == {background}


@pytest.mark.parametrize("width", WIDTHS)
def test_figures_are_shown_whole(file, opened, width):
    found = opened(file, width=width)
    sizes = found.run(
        "[...document.images].map((i) => [i.naturalWidth / i.naturalHeight, i.width / i.height])"
    )
    assert sizes
    for natural, shown in sizes:
        assert shown == pytest.approx(natural, rel=0.02)


def test_the_page_is_accessible(file, opened):
    """Rules of axe, for headings, landmarks, names, tables, contrast."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    for width in WIDTHS:
        # The rules are a script, which the policy of the page does not allow.
        found = opened(file, width=width, bypass_csp=True)
        violations = axe.Axe().run(found.page).response["violations"]
        assert [(v["id"], [n["html"] for n in v["nodes"]]) for v in violations] == []


def test_the_first_tab_stop_leads_to_the_content(file, opened):
    found = opened(file)
    found.page.keyboard.press("Tab")
    box = found.run("document.activeElement.getBoundingClientRect().toJSON()")
    assert box["top"] >= 0
    assert box["width"] > 50
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert found.run(outline) == "solid"
    found.page.keyboard.press("Enter")
    assert found.run("location.hash.slice(1)") == found.run("document.querySelector('main').id")


def test_the_page_is_whole_without_javascript(file, opened):
    found = opened(file, java_script_enabled=False)
    assert found.said == []
    page = found.page
    assert page.locator("h2").count() > 8
    assert page.locator("table.sortable").count() >= 2
    assert page.locator("button").count() == 0  # none that would do nothing
    with_script = opened(file).page
    texts = [each.locator("body").inner_text() for each in (page, with_script)]
    assert texts[0].split() == texts[1].split()


def test_print_on_a4(file, opened):
    found = opened(file, color_scheme="dark")
    printed = found.page.pdf(prefer_css_page_size=True, print_background=True)
    boxes = re.findall(rb"/MediaBox\s*\[\s*0 0 ([\d.]+) ([\d.]+)\s*\]", printed)
    assert 3 <= len(boxes) <= 15
    for box in boxes:
        # 210 mm x 297 mm in points.
        assert [float(x) for x in box] == pytest.approx([595.3, 841.9], abs=1)


def test_nothing_is_cut_in_print(file, opened):
    # The width between the margins of A4: 180 mm, at 96 pixels per inch.
    width = int(180 / 25.4 * 96)
    found = opened(file, width=width, color_scheme="dark")
    found.page.emulate_media(media="print", color_scheme="dark")
    assert found.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    outside = """width => [...document.querySelectorAll("body *")]
        .filter(e => e.getBoundingClientRect().right > width + 1)
        .map(e => e.outerHTML.slice(0, 200))"""
    assert found.run(outside, width) == []
    assert found.run(CONTRAST)[0][0] >= 7
    clipped = """[...document.querySelectorAll("div.table, pre, figure")]
        .filter((e) => getComputedStyle(e).overflowX !== "visible").length"""
    assert found.run(clipped) == 0
    kept = """["figure", "tr", "pre"].map((s) => document.querySelector(s))
        .every((e) => getComputedStyle(e).breakInside === "avoid")"""
    assert found.run(kept)


# --------------------------------------------------------------------------------------
# Sorting.

NAMES = ["b", "C", "a", "10", "9", "d"]
VALUES = [2.0, np.nan, -np.inf, 10.0, 2.0, 9.0]


@pytest.fixture
def sortable(tmp_path):
    """A page with a table of names, numbers, and texts that are numbers."""
    rows = [
        [name, Number(f"{value:.1f} with a text", value), str(k)]
        for name, value, k in zip(NAMES, VALUES, (10, 9, 100, 1, 2, 3), strict=True)
    ]
    body = [table(["name", "value", "count"], rows, sortable=True), table(["name"], [["a"]])]
    path = tmp_path / "table.html"
    style = resource("_output/html.css") + resource("report/page.css")
    script = resource("report/page.js")
    path.write_text(page("A table", *body, style=style, script=script), "utf-8")
    return path


def order(found, column=0):
    """The texts of a column, and the direction that each header says."""
    texts = found.run(
        "k => [...document.querySelector('tbody').rows].map((r) => r.cells[k].textContent)", column
    )
    sorts = found.run(
        "[...document.querySelectorAll('table.sortable th[scope=col]')].map((h) => h.ariaSort)"
    )
    return texts, sorts


def test_sorting_by_clicks(sortable, opened):
    found = opened(sortable)
    assert order(found) == (NAMES, [None, None, None])
    assert found.run("document.querySelectorAll('button').length") == 3  # none in the other table
    button = found.page.get_by_role("button", name="value")
    button.click()
    # b and 9 have one value, and stay in their order; what is not a number is last.
    assert order(found) == (["a", "b", "9", "d", "10", "C"], [None, "ascending", None])
    button.click()
    assert order(found) == (["10", "d", "b", "9", "a", "C"], [None, "descending", None])
    button.click()
    assert order(found) == (["a", "b", "9", "d", "10", "C"], [None, "ascending", None])
    found.page.get_by_role("button", name="name").click()
    assert order(found) == (["10", "9", "a", "b", "C", "d"], ["ascending", None, None])
    found.page.get_by_role("button", name="count").click()
    assert order(found) == (["10", "9", "d", "C", "b", "a"], [None, None, "ascending"])
    assert found.said == []


def test_sorting_by_keys(sortable, opened):
    found = opened(sortable)
    focused = "document.activeElement.textContent"
    for _ in range(2):
        found.page.keyboard.press("Tab")
    assert found.run(focused) == "value"
    found.page.keyboard.press("Enter")
    assert order(found)[1] == [None, "ascending", None]
    found.page.keyboard.press("Space")
    assert order(found)[1] == [None, "descending", None]
    assert found.run(focused) == "value"  # the focus stays
    found.page.keyboard.press("Shift+Tab")
    found.page.keyboard.press("Space")
    assert order(found)[1] == ["ascending", None, None]


def test_sorting_every_column_of_the_report(file, opened):
    found = opened(file)
    buttons = found.page.locator("th button")
    assert buttons.count() > 10
    for k in range(buttons.count()):
        table = buttons.nth(k).locator("xpath=ancestor::table")
        column = buttons.nth(k).evaluate("b => b.closest('th').cellIndex")
        rows = sorted(table.locator("tbody tr").all_inner_texts())
        for sign in (1, -1):
            buttons.nth(k).click()
            values = table.evaluate(
                "(t, k) => [...t.tBodies[0].rows].map((r) => r.cells[k].dataset.value)", column
            )
            if None not in values:
                assert (np.diff(sign * np.array(values, float)) >= 0).all()
        assert sorted(table.locator("tbody tr").all_inner_texts()) == rows
    assert found.said == []


def test_wide_tables_can_be_scrolled_by_keys(file, opened):
    for width in WIDTHS:
        found = opened(file, width=width)
        frames = """[...document.querySelectorAll("div.table")].map(
            (e) => [e.scrollWidth > e.clientWidth, e.tabIndex === 0 || !!e.querySelector("button")]
        )"""
        found.page.wait_for_function(f"{frames}.every(([wide, reached]) => reached || !wide)")
        if width == min(WIDTHS):
            assert any(wide for wide, _ in found.run(frames))


# --------------------------------------------------------------------------------------
# Tables in notebooks.

# What other pages may say of tables, and the colours of three dark or light notebooks.
FOREIGN = """
  table { border: 3px solid red; width: 50px; font-size: 30px; margin: 40px; }
  th, td { text-align: center; background: yellow; color: white; padding: 0; max-width: 60px; }
  tbody tr:nth-child(odd) { background: #f5f5f5; }
  caption { color: transparent; } strong { color: white; }
"""


@pytest.mark.parametrize("what", ["comparison", "report"])
@pytest.mark.parametrize(
    ("background", "colour"), [("#111111", "#eeeeee"), ("#ffffff", "#000000"), ("#1e1e1e", "#ccc")]
)
def test_tables_in_a_page_with_a_style_of_its_own(
    report, opened, tmp_path, background, colour, what
):
    fragment = (report.comparison if what == "comparison" else report)._repr_html_()
    (tmp_path / "notebook.html").write_text(
        "<!DOCTYPE html><html lang=en><head><meta charset=utf-8><title>n</title>"
        f"<style>body {{ background: {background}; color: {colour}; }}{FOREIGN}</style></head>"
        "<body><table id=other><caption>c</caption><tr><th>x</th><td><strong>y</strong></td></tr>"
        f"</table><div id=here>{fragment}</div></body></html>",
        "utf-8",
    )
    found = opened(tmp_path / "notebook.html")
    assert found.said == []
    assert found.run("window.broken") is None
    ratios = [
        ratio for ratio, *_ in found.run(CONTRAST.replace("document.body", "document.all.here"))
    ]
    assert len(ratios) > 20
    assert min(ratios) >= 4.5
    # Numbers are aligned, and the other table is as it was.
    align = "(s) => getComputedStyle(document.querySelector(s)).textAlign"
    assert found.run(align, "#here td.number") == "right"
    styles = "JSON.stringify([...document.querySelectorAll('#other, #other *')].map((e) => {"
    styles += " const s = getComputedStyle(e); return [...s].map((p) => s.getPropertyValue(p)); }))"
    with_ours = found.run(styles)
    found.run("document.querySelector('#here').remove()")
    assert found.run(styles) == with_ours
