import base64
import hashlib
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import fields, is_dataclass, replace
from itertools import pairwise
from pathlib import Path

import pytest

from leakledger.audit.records import Verdict
from leakledger.reports import text
from leakledger.reports.html import SECTIONS, TEMPLATES, render, write_report
from tests.reports.example import OVERRIDE, QUOTES, RIGHT_TO_LEFT, SCRIPT, SECRETS, TRUTH, empty, example
from tests.reports.page import parse

HTML = {
    "html", "head", "meta", "title", "link", "style", "body", "header", "nav", "main", "section", "h1", "h2", "h3",
    "h4", "p", "a", "ol", "ul", "li", "dl", "dt", "dd", "div", "span", "bdi", "b", "em", "strong", "small", "code",
    "pre", "table", "caption", "thead", "tbody", "tr", "th", "td", "figure", "figcaption", "details", "summary",
    "script",
}  # fmt: skip
SVG = {"svg", "g", "path", "line", "rect", "circle", "text", "title", "desc"}
PAYLOAD = "\"'><img src=x onerror=alert(1)></title></style><script>alert(1)</script>{{ 7 * 7 }}<!--]]>&lt;"
# Fields with a fixed set of values: no name can get there.
FIXED = {"status", "asset", "kind", "role", "form", "reference", "unit", "relation", "stage"}


def small():
    """One setting and one seed, so that a page takes a fraction of a second."""
    whole = example()
    own = whole.cases[0].setting
    case, one = replace(whole.cases[0], seed=0, setting=replace(own, reference=False)), own.id
    scores = tuple(s for s in whole.scores if s.setting == one)
    return replace(whole, cases=(case,), scores=scores, utility=tuple(u for u in whole.utility if u.setting == one))


def with_every_text(value, change):
    """`value` with `change` applied to every string in it that is not one of a fixed set."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(k): with_every_text(v, change) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(with_every_text(v, change) for v in value)
    if is_dataclass(value):
        changed = {f.name: getattr(value, f.name) for f in fields(value) if f.name not in FIXED}
        return replace(value, **{name: with_every_text(v, change) for name, v in changed.items()})
    return value


def is_inert(page):
    """Only known elements, no event handlers, no addresses but those within the page, no inline style, one script."""
    assert [node.text for node in page.all("script")] == [(TEMPLATES / "report.js").read_text(encoding="utf-8")]
    for node in page.all():
        assert node.tag in HTML | SVG, f"<{node.tag}> has no place in a report"
        for name, value in node.attributes.items():
            assert not name.startswith("on"), f"{name} on <{node.tag}>"
            assert name not in {"style", "src", "srcdoc", "action", "formaction", "xlink:href", "background"}
            if name == "href":
                assert value == "data:," or value.startswith("#")
    return True


def test_a_page_holds_nothing_that_runs_loads_or_leaves_it(page):
    assert is_inert(page)
    assert sum(node.tag == "style" for node in page.all()) == 1


def test_markup_in_any_text_of_the_record_stays_text():
    metrics = {"f1", "accuracy"}  # they make the plane and choose the columns
    hostile = with_every_text(small(), lambda text: text if text in metrics else PAYLOAD + text)
    page = parse(render(hostile, reveal=True))
    assert is_inert(page)
    sections = {name: page.by_id(name).text for name in SECTIONS}
    sections["verdict"] += next(page.all("header")).text
    silent = [name for name, text in sections.items() if PAYLOAD not in text and name != "method"]
    assert silent == []
    assert PAYLOAD in next(page.all("title")).text


def test_hostile_names_are_shown_as_they_are(page):
    shown = page.by_id("exchange").text
    assert SCRIPT in shown
    assert QUOTES in shown
    assert RIGHT_TO_LEFT in shown
    drawn = "".join(title.text for svg in page.all("svg") for title in svg.all("title"))
    assert SCRIPT in drawn
    assert QUOTES in drawn


def test_a_name_cannot_turn_the_direction_of_the_text_after_it(html):
    assert OVERRIDE not in html
    assert "Klinik⟨U+202E⟩Nord" in html


def test_lone_surrogates_and_control_characters_do_not_break_the_file(tmp_path):
    odd = with_every_text(small(), lambda text: text + "\ud800\x00\x1b\uffff")
    write_report(odd, tmp_path / "report.html")
    assert "⟨U+D800⟩⟨U+0000⟩⟨U+001B⟩⟨U+FFFF⟩" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_masked_values_are_nowhere_in_the_file(html):
    assert [s for s in (*SECRETS, "secret-17") if s in html] == []
    assert TRUTH not in html
    assert "•••" in html


def test_revealed_values_are_shown_under_a_warning(record):
    page = parse(render(record, reveal=True))
    assert all(secret in page.by_id("evidence").text for secret in SECRETS)
    assert f"truth {TRUTH}" in page.by_id("evidence").words
    assert any("Handle this file like the audited data" in p.words for p in page.all("p"))
    assert "•••" not in page.text


def test_the_policy_allows_one_style_sheet_and_one_script_by_their_hashes_and_nothing_else(page):
    texts = (next(page.all(tag)).text for tag in ("style", "script"))
    style, script = (base64.b64encode(hashlib.sha256(t.encode()).digest()).decode() for t in texts)
    metas = [m.attributes for m in page.all("meta") if m.attributes.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.split(" ", 1) for rule in metas[0]["content"].split("; "))
    assert rules == {
        "default-src": "'none'",
        "style-src": f"'sha256-{style}'",
        "script-src": f"'sha256-{script}'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_the_policy_comes_before_the_style_that_it_allows(html):
    assert html.index("Content-Security-Policy") < html.index("<style>")


def test_the_same_record_gives_the_same_page(record, html):
    assert render(record) == html


@pytest.mark.slow
def test_another_process_with_other_hash_seeds_gives_the_same_page(html):
    code = "from reports.html import render; from tests.reports.example import example; print(render(example()))"
    env = {**os.environ, "PYTHONHASHSEED": "271", "PYTHONIOENCODING": "utf-8"}
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=root, env=env)
    assert done.stdout.decode() == html + "\n"


def test_sections_stand_in_their_order_under_one_title(page):
    assert [s.attributes["id"] for s in page.all("section")] == list(SECTIONS)
    assert len(list(page.all("h1"))) == 1
    assert [a.attributes["href"] for a in next(page.all("nav")).all("a")] == [f"#{name}" for name in SECTIONS]


def test_headings_never_skip_a_level(page):
    levels = [int(h.tag[1]) for h in page.all("h1", "h2", "h3", "h4")]
    assert all(b <= a + 1 for a, b in pairwise(levels))


def test_every_table_has_a_caption_and_scoped_headers(page):
    tables = list(page.all("table"))
    assert len(tables) > 30
    for table in tables:
        assert next(table.all("caption")).words
        assert all(th.attributes["scope"] in {"col", "row", "rowgroup"} for th in table.all("th"))
        columns = len(list(next(table.all("thead")).all("th")))
        assert columns
        for row in (row for body in table.all("tbody") for row in body.all("tr")):
            assert sum(int(cell.attributes.get("colspan", 1)) for cell in row.all("th", "td")) == columns


def test_ids_are_unique_and_every_reference_resolves(page):
    ids = [n.attributes["id"] for n in page.all() if "id" in n.attributes]
    assert len(ids) == len(set(ids))
    links = [a.attributes["href"][1:] for a in page.all("a")]
    labels = [i for n in page.all() for i in n.attributes.get("aria-labelledby", "").split()]
    assert set(links) | set(labels) <= set(ids)


def test_every_chart_is_an_image_with_a_title_and_a_description(page):
    charts = [svg for svg in page.all("svg") if svg.attributes.get("aria-hidden") != "true"]
    # Two planes by F1 and by AUROC, a frontier; of each of three protocols a picture, a matrix and a sequence diagram;
    # columns of each of seven settings; two calibration curves.
    assert len(charts) == 4 + 1 + 3 * 3 + 7 + 2
    for chart in charts:
        assert chart.attributes["role"] == "img"
        title, description = (c for c in chart.children if c.tag in {"title", "desc"})
        assert title.words
        assert description.words


def test_every_column_of_every_setting_is_listed_beside_the_prior(record, page):
    shown = {s.setting: s.detail.features for s in record.scores if s.detail is not None}
    for number, features in enumerate(shown.values(), 1):
        rows = page.table(f"Columns under setting {number},")
        assert [row[0] for row in rows] == [f"{f.feature}{f.kind}" for f in features]
        assert [row[2] for row in rows] == [f"{f.baseline:.3f}" for f in features]
        assert rows[-1][3] == "––"  # a constant column leaves no advantage


def test_the_surest_cells_of_every_setting_stand_beside_the_prior_on_the_same_cells(page):
    rows = page.table("tableak: share right among the cells it is surest of")
    assert len(rows) == 7 * 2
    assert all(row[2:] == ["0.960[0.944, 0.976]prior 0.600"] * 4 for row in rows)
    assert "The 20 % of numeric cells that it is surest of are right with 96 %" in page.by_id("calibration").words


def test_buckets_are_listed_with_their_share_and_the_prior(page):
    rows = page.table("tableak: accuracy by entropy, numeric cells")
    assert [row[0] for row in rows] == ["up to −1", "−1 to 0.72", "above 0.72"]
    assert rows[0][1:] == ["1,20020 %", "0.970[0.900, 1.000]", "0.400"]


def test_a_row_that_the_attack_has_proven_is_marked(page):
    heads = [th.words for th in page.by_id("evidence").all("th") if "seen by" in th.words]
    assert any("proven by the attack" in head for head in heads)


def test_a_page_claims_no_more_than_was_tested(html):
    assert not re.search("compliant|anonymous|anonymi[sz]ed", html, re.IGNORECASE)
    assert "It is not a proof" in html
    assert "were not tested, listed there or not" in html


def test_every_setting_and_asset_has_one_finding_with_all_its_metrics_inside(record, page):
    found = {d.attributes["id"]: d for d in page.by_id("findings").all("details") if "id" in d.attributes}
    numbers = {c.setting.id: n for n, c in enumerate(record.cases[:: len(record.run.seeds)], 1)}
    for r in record.rulings:
        finding = found[f"finding-{numbers[r.setting]}-{r.asset}"]
        assert r.adversary.replace("one client", "a single client") in finding.words
    rows = [row for d in found.values() for row in d.all("tr") if list(row.all("td"))]
    assert len(rows) == sum(s.status not in {"abstained", "not_applicable"} for s in record.scores)
    worst = found["finding-2-records"]
    accuracy = next(s for s in record.scores if s.setting == record.cases[3].setting.id and s.metric == "accuracy")
    assert f"{accuracy.value:.3f}{text.interval(accuracy.low, accuracy.high)}" in worst.words


def test_leaks_are_listed_before_what_is_open(page):
    order = [d.attributes["data-verdict"] for d in page.by_id("finding-list").all("details")]
    assert order == sorted(order, key=("leaks", "inconclusive", "no leak", "not judged").index)


def test_the_grid_quotes_the_worst_verdict_of_every_setting_and_column(record, page):
    rows = {r[0].split()[0]: r[1:] for r in page.table("What the worst adversary that was played learns")}
    assert rows["2"][0].startswith("◆ inconclusive")
    assert rows["2"][1].startswith("▲ leaks")
    assert rows["1"][0].startswith("Not judged")  # pooled rows are no federation
    assert all("F1" in row[-1] and "AUROC" in row[-1] for row in rows.values())


def test_a_score_without_numbers_keeps_its_reason(page):
    finding = page.by_id("finding-6-vocabulary").words
    assert "3 clusters, and at least 5 are needed" in finding


def test_attacks_without_a_claim_are_listed_apart_with_their_reason(page):
    assert not any("span" in row[0] for row in page.table("Every metric of records"))
    rows = page.table("Abstained or not applicable")
    assert [(row[0], row[4]) for row in rows] == [
        ("span", f"the encoder of {SCRIPT} is no one-hot"),
        ("spear", "no batch of full rank"),
    ]
    assert rows[0][5] == "1 2 3 4 5 6 7"


def test_an_inconclusive_verdict_says_why(page):
    assert "Inconclusive" in next(page.all("header")).words
    verdict = page.by_id("verdict").words
    assert "The null control of tableak failed in 1 of 21 runs." in verdict
    assert "2 cases have not run yet." in verdict


@pytest.mark.parametrize("status", ["leaks", "no leak", "inconclusive"])
def test_the_verdict_is_in_words_and_not_in_colour_alone(status):
    page = parse(render(replace(empty(), verdict=Verdict(status, "About leaks.", "About use."))))
    assert status.capitalize() in next(page.all("header")).words
    assert "About leaks." in page.by_id("verdict").words
    assert "About use." in page.by_id("verdict").words


def test_an_unfinished_audit_says_so_before_anything_else(record, html):
    assert html.index("Unfinished audit") < html.index('id="verdict"')
    assert "Unfinished audit" not in render(replace(small(), missing=0))


def test_a_failed_control_is_shown_first_with_where_it_failed(page):
    assert "1 control failed" in page.by_id("controls").words
    first, *others = page.table("Controls over all cases")
    assert first[:2] == ["tableak", "null"]
    assert first[6] == "20 of 21"
    assert "failed" in first[7]
    assert "setting 3 seed 1" in first[7]
    assert all("passed" in row[7] for row in others)


def test_observations_of_the_first_case_are_listed_in_full(record, page):
    case = record.cases[0]
    rows = page.table("Observations of server, setting 1")
    assert len(rows) == sum(o.observer == "server" for o in case.observations)
    assert rows[0][0] == "dictionary.local"
    assert rows[-1][6:] == ["100", "8.54 MB", "100", "8.55 MB", "rounds 0–99"]
    relayed = next(row for row in rows if row[3] == "relayed")
    assert relayed[6:] == ["3", "9.60 kB", "6", "19.8 kB", "round 0"]


def test_of_a_setting_the_case_with_the_first_seed_is_shown(record):
    first = small().cases[0]
    later = replace(first, seed=9, observations=first.observations[:1])
    page = parse(render(replace(small(), cases=(first, later))))
    assert "seed 0" in page.by_id("exchange").words
    assert "seed 9" not in page.by_id("exchange").words


def test_what_was_not_tested_is_listed(record, page):
    assert all(item in page.by_id("untested").text for item in record.run.not_tested)


def test_the_command_and_the_configuration_in_force_are_given(record, page):
    command, config = page.by_id("reproduce").all("pre")
    assert command.text == record.run.command
    assert tomllib.loads(config.text) == record.run.config


def test_an_empty_record_gives_sentences_instead_of_charts():
    page = parse(render(empty()))
    assert is_inert(page)
    assert list(page.all("svg", "table")) == []
    assert all(len(page.by_id(name).words) > 40 for name in SECTIONS)


def test_a_record_without_utility_has_no_plane_and_says_why(record):
    page = parse(render(replace(small(), utility=())))
    assert "nothing to set against the leakage" in page.by_id("plane").words
    assert "No utility or cost was measured." in page.by_id("utility").words


def test_a_report_replaces_the_old_one_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    with path.open() as reader:
        write_report(empty(), path)
        assert reader.read() == "old"  # the old file was not written to
    assert path.read_text(encoding="utf-8") == render(empty())
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_a_report_that_cannot_be_put_in_place_leaves_nothing_behind(tmp_path):
    (tmp_path / "report.html").mkdir()
    with pytest.raises(OSError, match=r"report\.html"):
        write_report(empty(), tmp_path / "report.html")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
