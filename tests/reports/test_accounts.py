from dataclasses import replace

from leakledger.audit.records import ASSETS, Leakage
from leakledger.reports.accounts import accounts, assets, learnt
from leakledger.reports.html import render
from tests.reports.example import METHODS, SCRIPT, example, leakage, setting
from tests.reports.page import parse

SETTINGS = {i + 1: setting(i) for i in range(len(METHODS))}


def test_columns_are_the_assets_that_something_was_found_about_in_the_order_of_the_record():
    rows = [f for f in example().leakage if f.asset in ("records", "size", "vocabulary")]
    assert assets(rows) == ["values", "sizes", "records"]
    assert assets([]) == []


def test_every_setting_has_a_line_per_kind_of_adversary_with_a_cell_per_column():
    rows = accounts(SETTINGS, example().leakage)
    assert [t.setting for t in rows] == list(SETTINGS.values())
    for t in rows:
        assert [line.adversary for line in t.lines] == ["server", "one client", "2 clients"]
        assert all([f.asset for f in line.leakage] == list(ASSETS) for line in t.lines)


def test_a_setting_without_anything_played_is_left_out():
    assert accounts(SETTINGS, leakage(0, setting(0)))[0].number == 1
    assert len(accounts(SETTINGS, leakage(0, setting(0)))) == 1


def test_only_an_interval_above_0_counts_as_learnt():
    one = next(f for f in example().leakage if f.score is not None)
    for low, expected in ((0.01, True), (0.0, False), (-0.1, False), (None, False)):
        assert learnt(replace(one, low=low)) is expected
    assert not learnt(replace(one, low=0.01, score=replace(one.score, status="inconclusive")))
    assert not learnt(Leakage("a", "server", "size", 4, None))


def test_the_page_sets_the_account_of_both_methods_above_what_was_found(page):
    section = page.by_id("accounts")
    groups = list(section.all("tbody"))
    assert len(groups) == len(METHODS)
    words = groups[1].words
    assert f"server_dictionary is said to share: sums of {SCRIPT} (table 5)" in words
    assert "server_zscore is said to share: nothing (ours)" in words
    local = next(g for g, method in zip(groups, METHODS, strict=True) if method[0] == "local")
    assert local.words.count("it gives no account") == 2


def test_a_cell_shows_advantage_and_interval_in_bold_where_something_was_learnt(page):
    group = next(page.by_id("accounts").all("tbody"))
    server, client, pair = list(group.all("tr"))[1:]
    first = next(server.all("td"))
    assert first.words == "0.860[0.460, 1.000]9 of 12"
    assert [b.words for b in first.all("b")] == ["0.860"]
    assert {c.words for c in pair.all("td")} == {"–"}
    assert "prior is right" in client.words
    assert not list(list(client.all("td"))[-1].all("b"))  # 0.86 - 0.03 * 31 < 0


def test_an_audit_without_scores_says_so():
    page = parse(render(replace(example(), leakage=())))
    assert "No attack has been scored" in page.by_id("accounts").words
