"""The page in a real browser: what it loads, how it fits, whether it can be read in the dark and on paper."""

import shutil

import pytest

from leakledger.reports.html import write_report
from tests.reports.example import empty

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PAPER = 702  # CSS px between the margins of an A4 page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome on the path"),
]

# Relative luminance and contrast ratio: WCAG 2.2, definitions.
CONTRAST = """
() => {
  const rgb = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b]
    .map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (node) => {
    for (let n = node; n; n = n.parentElement) {
      const c = rgb(getComputedStyle(n).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const own = (node) => [...node.childNodes].some((c) => c.nodeType === 3 && c.data.trim());
  const shown = [...document.body.querySelectorAll("*")].filter((n) => own(n) && n.checkVisibility());
  return shown.filter((n) => !["title", "desc"].includes(n.tagName)).map((n) => {
    const style = getComputedStyle(n);
    const [a, b] = [light(rgb(n instanceof SVGElement ? style.fill : style.color)), light(ground(n))];
    return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), n.tagName, n.textContent.trim().slice(0, 40)];
  });
}
"""

# Boxes that hold more than they show, and are no place to scroll.
CLIPPED = """
() => [...document.querySelectorAll("body *")]
  .filter((n) => n.checkVisibility() && !(n instanceof SVGElement) && n.clientWidth)
  .filter((n) => n.scrollWidth > n.clientWidth + 1 && !["auto", "scroll"].includes(getComputedStyle(n).overflowX))
  .filter((n) => getComputedStyle(n).display !== "inline")
  .map((n) => `${n.tagName}.${n.className} ${n.scrollWidth} > ${n.clientWidth}: ${n.textContent.trim().slice(0, 40)}`)
"""


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(record, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(record, path)
    return path.as_uri()


@pytest.fixture
def visit(browser):
    """Opens an address; returns the page, what it asked for and what it complained about."""
    pages = []

    def opened(address, width=1280, **media):
        page = browser.new_page(viewport={"width": width, "height": 900})
        pages.append(page)
        page.emulate_media(**media)
        asked, complaints = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        return page, asked, complaints

    yield opened
    for page in pages:
        page.close()


def unfold(page):
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true })")


def test_a_page_asks_for_nothing_but_itself_and_complains_of_nothing(visit, address):
    page, asked, complaints = visit(address)
    unfold(page)
    page.wait_for_load_state("networkidle")
    assert [url for url in asked if not url.startswith("data:")] == [address]
    assert complaints == []


def test_the_policy_stops_a_script_that_gets_onto_the_page_all_the_same(visit, address, html, tmp_path):
    path = tmp_path / "tampered.html"
    path.write_text(html.replace("</main>", "<script>document.title = 'ran'</script></main>"), encoding="utf-8")
    page, _, complaints = visit(path.as_uri())
    assert page.title() != "ran"
    assert any("Content Security Policy" in c for c in complaints)


def test_every_chart_has_a_size_and_lies_within_the_page(visit, address):
    page, *_ = visit(address)
    unfold(page)
    boxes = [chart.bounding_box() for chart in page.locator("figure svg").all()]
    assert len(boxes) == 25
    assert all(box["width"] > 200 and box["height"] > 80 and box["x"] >= 0 for box in boxes)


@pytest.mark.parametrize("width", [320, 360, 768, 1024, 1280, 1920])
def test_the_page_never_scrolls_sideways(visit, address, width):
    page, *_ = visit(address, width)
    unfold(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CLIPPED) == []


def test_text_on_a_phone_is_large_enough_to_read(visit, address):
    page, *_ = visit(address, 360)
    sizes = page.evaluate("""() => [...document.querySelectorAll("main *")]
      .filter((n) => !(n instanceof SVGElement) && n.checkVisibility() && n.textContent.trim())
      .map((n) => parseFloat(getComputedStyle(n).fontSize))""")
    assert min(sizes) >= 11
    scale = page.evaluate("""() => [...document.querySelectorAll("figure svg")]
      .filter((n) => n.checkVisibility()).map((n) => n.getBoundingClientRect().width / n.viewBox.baseVal.width)""")
    assert min(scale) > 0.75  # labels of 11 px and more keep 8 px


def test_nothing_is_cut_off_on_paper_and_what_is_folded_is_printed(visit, address):
    page, *_ = visit(address, PAPER, media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= PAPER
    assert page.evaluate(CLIPPED) == []
    assert page.evaluate("[...document.querySelectorAll('table')].every((table) => table.checkVisibility())")
    assert page.locator("nav").is_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_stands_out_from_its_ground(visit, address, scheme):
    page, *_ = visit(address, color_scheme=scheme)
    unfold(page)
    ratios = page.evaluate(CONTRAST)
    assert len(ratios) > 500
    assert [r for r in ratios if r[0] < 4.5] == []  # WCAG 2.2, 1.4.3


def test_dark_mode_is_dark(visit, address):
    page, *_ = visit(address, color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 23, 28)"
    page, *_ = visit(address, color_scheme="dark", media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_the_keyboard_reaches_the_report_first(visit, address):
    page, *_ = visit(address)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the report"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"


def test_an_empty_report_fits_too(visit, tmp_path):
    write_report(empty(), tmp_path / "report.html")
    page, _, complaints = visit((tmp_path / "report.html").as_uri(), 360)
    assert complaints == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
