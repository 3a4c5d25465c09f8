"""The page in a real browser: what it loads, how it fits, whether it can be read in the dark and on paper."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from markupsafe import escape

from leakledger.reports.html import write_report
from tests.reports.example import SCRIPT, empty

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
AXE = next(iter((Path(__file__).parents[2] / "node_modules/axe-core").glob("axe.min.js")), None)
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
    assert len(boxes) == 23
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


@pytest.mark.parametrize("folded", [True, False])
def test_nothing_is_cut_off_on_paper(visit, address, folded):
    page, *_ = visit(address, PAPER, media="print")
    if not folded:
        unfold(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= PAPER
    assert page.evaluate(CLIPPED) == []
    assert page.locator("nav").is_hidden()
    assert page.locator(".tools").is_hidden()


def test_a_name_as_long_as_a_path_breaks_on_paper_and_cuts_nothing_off(visit, html, tmp_path):
    path = tmp_path / "long.html"
    path.write_text(html.replace(str(escape(SCRIPT)), "hospital_" * 14), encoding="utf-8")
    page, *_ = visit(path.as_uri(), PAPER, media="print")
    unfold(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= PAPER
    assert page.evaluate(CLIPPED) == []


def test_what_is_folded_stays_folded_on_paper_under_its_heading(visit, address):
    page, *_ = visit(address, PAPER, media="print")
    assert page.locator("#finding-2-vocabulary > summary").is_visible()
    assert page.locator("#finding-2-vocabulary table").first.is_hidden()


def test_what_remains_open_is_on_paper_though_it_is_folded_on_a_screen(visit, record, tmp_path):
    leaks = replace(record, verdict=replace(record.verdict, status="leaks"))
    write_report(leaks, tmp_path / "leaks.html")
    page, *_ = visit((tmp_path / "leaks.html").as_uri())
    doubt = page.get_by_text("The null control of tableak failed in 1 of 21 runs.")
    assert not doubt.is_visible()
    page.emulate_media(media="print")
    assert doubt.is_visible()


@pytest.mark.parametrize("width", [1400, 390])
def test_the_first_screen_says_what_leaks_to_whom_what_stops_it_and_what_that_costs(visit, address, width):
    page, *_ = visit(address, width)
    fold = 900
    assert page.locator("h1").bounding_box()["y"] < fold / 2
    for lead in page.locator(".lead").all():
        box = lead.bounding_box()
        assert box["y"] + box["height"] < fold
    verdicts = page.locator(".grid td.cell b").all_inner_texts()
    assert {v.strip().split(" above")[0] for v in verdicts if "F1" not in v} <= {
        "▲ leaks",
        "● no leak",
        "◆ inconclusive",
    }


def test_findings_are_filtered_and_sorted_and_all_come_back(visit, address):
    page, _, complaints = visit(address)
    shown = "#finding-list > .finding:not([hidden])"
    whole = page.locator(shown).count()
    page.locator(".tools select").first.select_option("leaks")
    leaking = page.locator(shown).count()
    assert 0 < leaking < whole
    assert page.locator(".tools output").inner_text() == f"{leaking} of {whole} findings"
    page.locator(".tools select").first.select_option("")
    page.locator(".tools select").last.select_option("setting")
    numbers = page.locator(shown).evaluate_all("(all) => all.map((f) => Number(f.dataset.setting))")
    assert len(numbers) == whole
    assert numbers == sorted(numbers)
    assert complaints == []


def test_a_link_to_a_folded_finding_unfolds_it(visit, address):
    page, *_ = visit(f"{address}#finding-2-records")
    assert page.locator("#finding-2-records").get_attribute("open") is not None
    page, *_ = visit(f"{address}#setting-3")
    assert page.locator("#setting-3").is_visible()


def test_without_its_script_the_page_is_whole(browser, address):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    assert page.locator("#finding-list > .finding").count() > 50
    assert page.locator(".tools").count() == 0
    context.close()


@pytest.mark.skipif(AXE is None, reason="no axe-core: `npm install --no-save axe-core` in the repository")
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_axe_finds_no_barrier(browser, address, scheme, width):
    context = browser.new_context(bypass_csp=True, color_scheme=scheme, viewport={"width": width, "height": 900})
    page = context.new_page()
    page.set_default_timeout(0)
    page.goto(address)
    unfold(page)
    page.evaluate(AXE.read_text(encoding="utf-8"))
    levels = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
    found = page.evaluate("(levels) => axe.run({ runOnly: levels, resultTypes: ['violations'] })", levels)
    context.close()
    assert [(v["id"], v["nodes"][0]["html"]) for v in found["violations"]] == []
    assert len(found["passes"]) > 20


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
