from dataclasses import replace

from leakledger.audit.records import Unread
from leakledger.reports.html import render
from leakledger.reports.unread import unread
from leakledger.reports.verdict import doubts
from tests.reports.example import case, example, setting

SERVER, COALITION = ("server",), ("P1", "P2")
WHY = "no attack that was played reads this kind"


def told(topic="toy.counts", observers=SERVER, messages=3, reason=WHY):
    return Unread(observers, topic, "aggregate", messages, reason)


def of(*found, number=1, **changes):
    return replace(case(number, replace(setting(number), **changes), 0), unread=found)


def test_a_kind_has_one_row_with_every_setting_and_adversary_that_it_reached_and_the_most_messages_of_a_case():
    rows = unread([of(told(), told(observers=COALITION, messages=7)), of(told(), number=2)])
    (row,) = rows
    assert row.settings == (setting(1).id, setting(2).id)
    assert row.observers == (SERVER, COALITION)
    assert (row.topic, row.discloses, row.reason, row.messages) == ("toy.counts", "aggregate", WHY, 7)


def test_kinds_and_reasons_have_rows_of_their_own_and_references_none():
    rows = unread([of(told(), told("toy.hint"), told(reason="another"))])
    assert [(r.topic, r.reason) for r in rows] == [("toy.counts", WHY), ("toy.hint", WHY), ("toy.counts", "another")]
    assert unread([of(told(), reference=True), of(number=2)]) == []


def test_the_page_lists_what_nobody_read_and_says_so_where_everything_was_read():
    cases = [of(), of(number=2)]
    page = render(replace(example(), cases=tuple(cases)))
    assert "Every message that reached an adversary was read" in page
    changed = replace(example(), cases=(of(told()), *cases))
    assert "toy.counts" in render(changed)
    assert WHY in render(changed)
    assert "1 kind of message reached somebody and no attack read it; see “What was not tested”." in doubts(changed)
    assert not any("no attack read" in d for d in doubts(replace(example(), cases=tuple(cases))))
