"""The page of a report in Chromium, light, dark and on a phone.

The test needs Chromium, with a path in the environment variable CHROMIUM if it is not on the PATH,
and playwright: ``python -m pytest -m browser``.
"""

import os
import shutil

import pytest
from reports import hostile, report_of

pytestmark = pytest.mark.browser

SCREENS = {
    "light": {"viewport": {"width": 1250, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1250, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 375, "height": 800}, "color_scheme": "light"},
}

# Elements that reach beyond the screen outside of a table that scrolls.
OVERFLOW = """() => [...document.querySelectorAll("body *")]
    .filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest("div.table"))
    .map(e => e.outerHTML.slice(0, 200))"""

# Colour of the page, and whether each image was drawn.
DRAWN = """() => [getComputedStyle(document.body).backgroundColor,
    [...document.images].every(image => image.complete && image.naturalWidth > 0)]"""


@pytest.fixture(scope="module")
def browser():
    names = (os.environ.get("CHROMIUM", "chromium"), "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip("no Chromium was found; the variable CHROMIUM can give its path")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_the_page_has_no_error_and_no_overflow(browser, screen, tmp_path):
    path = tmp_path / "report.html"
    report_of(hostile).to_html(path)
    page, messages, requests = browser.new_page(**SCREENS[screen]), [], []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri())
    assert messages == []
    assert [url for url in requests if not url.startswith("data:")] == [path.as_uri()]
    assert page.evaluate("window.broken") is None
    assert page.evaluate(OVERFLOW) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    colour = "rgb(20, 20, 20)" if screen == "dark" else "rgb(255, 255, 255)"
    assert page.evaluate(DRAWN) == [colour, True]
    page.close()
