from dataclasses import replace

from leakledger.audit.records import ASSETS, HELD_OUT
from leakledger.reports.accounts import accounts, assets
from leakledger.reports.html import render
from tests.reports.example import METHODS, SCRIPT, example, leakage, setting
from tests.reports.page import parse

SETTINGS = {i + 1: setting(i) for i in range(len(METHODS))}


def test_columns_are_the_assets_that_something_was_found_about_in_the_order_of_the_record():
    rows = [f for f in example().leakage if f.asset in ("records", "size", "vocabulary")]
    assert assets(rows) == ["values", "sizes", "records"]
    assert assets([]) == []


def test_every_setting_has_a_line_per_kind_of_adversary_with_a_cell_per_column_and_none_for_held_out_rows():
    rows = accounts(SETTINGS, example().leakage, ())
    assert [t.setting for t in rows] == list(SETTINGS.values())
    for t in rows:
        assert [line.adversary for line in t.lines] == ["server", "one client", "2 clients"]
        columns = [a for a in ASSETS if a not in HELD_OUT]
        assert all([f.asset for f, _ in line.leakage] == columns for line in t.lines)


def test_a_setting_without_anything_played_is_left_out():
    assert accounts(SETTINGS, leakage(0, setting(0)), ())[0].number == 1
    assert len(accounts(SETTINGS, leakage(0, setting(0)), ())) == 1


def test_each_cell_has_its_verdict_and_a_reference_has_none():
    rows = accounts(SETTINGS, example().leakage, example().rulings)
    for t in rows:
        for line in t.lines:
            for f, r in line.leakage:
                assert (r is None) == t.setting.reference
                assert r is None or (r.setting, r.adversary, r.asset) == (f.setting, f.adversary, f.asset)


def test_the_page_sets_the_account_of_both_methods_above_what_was_found(page):
    section = page.by_id("accounts")
    groups = list(section.all("tbody"))
    assert len(groups) == len(METHODS)
    words = groups[1].words
    assert f"server_dictionary is said to share: sums of {SCRIPT} (table 5)" in words
    assert "federated_zscore is said to share: nothing (ours)" in words
    local = next(g for g, method in zip(groups, METHODS, strict=True) if method[0] == "local")
    assert local.words.count("it gives no account") == 2


def test_a_cell_shows_advantage_interval_and_verdict_in_bold_where_something_leaks(page):
    reference, group, *_ = page.by_id("accounts").all("tbody")
    server, client, pair = list(group.all("tr"))[1:]
    first = next(server.all("td"))
    assert first.words == "0.830leaks[0.430, 1.000]9 of 12"
    assert [b.words for b in first.all("b")] == ["0.830"]
    assert {c.words for c in pair.all("td")} == {"–open"}
    assert "prior is right" in client.words
    assert not list(list(client.all("td"))[-1].all("b"))  # 0.83 - 0.03 * 31 < 0
    assert "none[" in page.by_id("accounts").words
    assert not list(reference.all("b"))[1:]  # its name alone


def test_an_audit_without_scores_says_so():
    page = parse(render(replace(example(), leakage=())))
    assert "No attack has been scored" in page.by_id("accounts").words


def test_the_page_says_that_what_evaluation_tells_is_not_in_the_table_where_it_tells_anything():
    said = "What evaluation tells of held-out rows is no matter of a method: it is not in this table"
    assert said in parse(render(example())).by_id("accounts").words
    rest = tuple(f for f in example().leakage if f.asset not in HELD_OUT)
    assert said not in parse(render(replace(example(), leakage=rest))).by_id("accounts").words
