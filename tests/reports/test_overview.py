"""The first screen says no more than was attacked, and names what was not."""

from dataclasses import replace

import pytest

from leakledger.audit.records import Aborted
from leakledger.reports.html import render
from leakledger.reports.overview import MOST_ROWS, parted
from leakledger.reports.verdict import facts
from leakledger.reports.words import GROUPS
from tests.reports.example import example, setting
from tests.reports.page import parse
from tests.reports.test_advice import NOISE, PLAIN, record, rows, ruling

ENDED = (Aborted("P1", "train", 3, "PartyLost"),)


def aborted(audit, *settings, finished=True):
    """`audit`, all of whose cases of some settings were aborted; without the others too where not `finished`."""
    ended = tuple(replace(c, aborts=ENDED, trials=()) for c in audit.cases if c.setting in settings)
    kept = tuple(c for c in audit.cases if c.setting not in settings) if finished else ()
    names = {c.setting.id for c in kept}
    rulings = tuple(r for r in audit.rulings if r.setting in names)
    utility = tuple(u for u in audit.utility if u.setting in names)
    return replace(audit, cases=kept, aborted=ended, rulings=rulings, utility=utility, missing=0, frontier=())


def status(audit, name):
    return replace(audit, verdict=replace(audit.verdict, status=name), missing=0)


def page(audit):
    return parse(render(audit))


def first(audit):
    """The words of the first screen, the header with them."""
    read = page(audit)
    return f"{next(read.all('header')).words} {read.by_id('verdict').words}"


def badge(audit):
    return next(p.words for p in page(audit).all("p") if "badge" in p.attributes.get("class", ""))


MIXED = aborted(status(record(ruling(PLAIN, "leaks"), ruling(NOISE, "leaks")), "leaks"), NOISE)


def test_a_setting_of_which_every_case_was_aborted_has_a_row_without_an_answer():
    table = page(MIXED).table("What the worst adversary")
    assert [row[0].split()[0] for row in table] == ["1", "2"]
    assert table[1][1:] == ["◆ inconclusive not attacked: its 3 cases were aborted", "not measured"]
    said = first(MIXED)
    assert "2 settings, 6 cases (3 aborted)" in said
    assert "3 cases were aborted, all that there were of setting 2: nothing is known of it." in said


def test_what_leaks_is_said_of_the_settings_that_were_attacked_and_counted_among_those():
    said = first(MIXED)
    assert "Every setting that was attacked leaks people's rows." in said
    assert "nothing that was tried stops that" not in said
    assert "Nothing that was attacked stops: people's rows." in said
    assert "The server: people's rows (in 1 of 1) settings that were judged." in said
    assert "No two settings that were attacked differ in one thing" in said
    assert "No setting has a [[defense]]" not in said  # one has, and was aborted


def test_the_figures_say_how_many_settings_were_not_judged():
    assert ("settings not judged", "1") in facts(MIXED)
    assert "settings not judged" not in dict(facts(aborted(record(ruling(PLAIN, "leaks")))))


def test_a_setting_that_was_aborted_is_no_advice():
    """Nothing was shown of it, as of a defense that works."""
    assert "no longer shown to leak" not in render(MIXED)


def test_a_setting_with_some_aborted_cases_says_how_many():
    audit = record(ruling(PLAIN, "leaks"), settings=(PLAIN,))
    one = replace(audit.cases[0], aborts=ENDED)
    some = replace(audit, cases=audit.cases[1:], aborted=(one,), missing=0)
    assert "1 of 3 cases aborted" in page(some).table("What the worst adversary")[0][0]


@pytest.mark.parametrize("beside", [(), (setting(0),)], ids=["alone", "beside-a-reference"])
def test_where_no_case_was_attacked_nothing_is_said_to_have_been_read_or_checked(beside):
    audit = aborted(status(record(settings=(*beside, PLAIN)), "inconclusive"), PLAIN)
    audit = replace(audit, cases=tuple(replace(c, unread=(), findings=()) for c in audit.cases))
    said = first(audit)
    assert "nothing is known of the one setting that a federation can run" in said
    assert "No setting was attacked that a federation can run, so nothing can be said of anyone." in said
    assert "Add a second" not in said
    assert "run the same command again" in said
    whole = page(audit)
    assert "Every message that reached" not in whole.by_id("untested").words
    assert ("no check was made" if not beside else "no evidence of safety") in whole.by_id("checks").words
    assert ("No case was attacked." in said) == (not beside)


def test_an_adversary_to_whom_nothing_leaks_is_not_said_to_be_open():
    clean = status(record(ruling(PLAIN, "no leak"), ruling(NOISE, "no leak")), "no leak")
    assert "nothing ruled out" not in first(clean)
    assert "No leak above 0.1 in any setting, by the attacks that were played: the server." in first(clean)
    for doubted in (replace(clean, missing=1), replace(clean, aborted=(replace(clean.cases[0], aborts=ENDED),))):
        assert "in any setting" not in first(doubted)
        assert "nothing ruled out where the grid says inconclusive" in first(doubted)


def test_where_nothing_leaks_what_was_not_asked_is_named():
    """Under the verdict of no leak, means alone stood for all statistics."""
    clean = status(record(*(ruling(s, "no leak", asset=a) for s in (PLAIN, NOISE) for a in ("mean", "std"))), "no leak")
    said = first(clean)
    unplayed = "people's rows, which values each party holds, parties' sizes and who holds a given value"
    assert f"No attack was played on {unplayed}: nothing is said of that." in said
    cell = page(clean).table("What the worst adversary")[0][3]
    assert cell.startswith("● no leak above 0.1")
    assert cell.endswith("of means and deviations alone: nothing else was asked")
    better = status(record(ruling(PLAIN, "leaks", asset="mean"), ruling(NOISE, "no leak", asset="mean")), "leaks")
    assert "no leak of means above 0.1" in first(better)
    every = [ruling(PLAIN, "no leak", asset=a) for g in GROUPS for a in g.assets]
    whole = first(status(record(*every, settings=(PLAIN,)), "no leak"))
    assert "nothing else was asked" not in whole
    assert badge(clean) == "● No leak in what was attacked"
    assert "no leak in what was attacked</title>" in render(clean)
    for clients, said in (((), " in what was attacked"), (("one client",), ""), (("server and 2 clients",), "")):
        asked = every + [replace(r, adversary=kind) for kind in clients for r in every]
        assert badge(status(record(*asked, settings=(PLAIN,)), "no leak")) == f"● No leak{said}"
    alone = [replace(r, adversary="one client") for r in every]
    assert badge(status(record(*alone, settings=(PLAIN,)), "no leak")) == "● No leak in what was attacked"
    assert "No attack was played on" not in whole
    assert "No attack was played on" not in first(MIXED)


def test_what_a_check_of_the_protocol_shows_is_learnt_by_somebody():
    fired = ruling(PLAIN, "leaks", asset="check"), ruling(NOISE, "inconclusive")
    said = first(status(record(*fired), "leaks"))
    assert "Nothing was shown to leak to anyone" not in said
    assert "The server: what checks of the protocol show (in 1 of 2) settings." in said


def test_of_many_settings_those_with_the_worst_leaks_stand_on_the_first_screen():
    """What the headline says was of setting 36 of 100, folded away with ninety that leak less."""
    many = [replace(PLAIN, id=f"setting {i}", defense=f"noise {i}") for i in range(30)]
    told = [ruling(s, "leaks", asset="mean") for s in many[:12]]
    audit = record(*told, ruling(many[24], "leaks"), settings=(*many, setting(0)))
    lost = aborted(audit, many[20])
    for some in (audit, lost):
        above, below = parted(rows(some))
        assert [row.number for row in above][:9] == list(range(1, 10))
        assert above[-1].setting == many[24]
        assert len(above) + len(below) == len(rows(some))
        assert [row.number for row in below][-1] == rows(some)[-1].number
    read = page(status(audit, "leaks"))
    shown = read.table("What the worst adversary that was played learns, by setting (10 of 31, those with the worst")
    folded = read.table("What the worst adversary learns, further settings")
    assert (len(shown), len(folded)) == (MOST_ROWS, 21)
    assert "those with" not in first(record(settings=tuple(many)))


def test_that_no_check_fired_is_no_evidence_of_safety():
    quiet = example()
    quiet = replace(quiet, cases=tuple(replace(c, findings=()) for c in quiet.cases))
    assert "That is no evidence of safety" in page(quiet).by_id("checks").words


def test_what_is_said_of_seeds_is_said_of_those_that_finished():
    whole = replace(example(), missing=0)
    some = replace(whole, cases=whole.cases[1:], aborted=(replace(whole.cases[0], aborts=ENDED),))
    assert "on the same seeds throughout" in page(whole).by_id("frontier").words
    read = page(some)
    assert "on the seeds that finished, which may not be the same throughout" in read.by_id("frontier").words
    assert "in the worst seed of those that finished" in read.by_id("privacy").words
    assert "Every message that reached" not in read.by_id("untested").words
    assert "was read by no attack" in read.by_id("untested").words


def test_two_defenses_without_a_scored_attack_are_not_said_to_be_one():
    silent = replace(record(), frontier=())
    assert "Of no method was an attack scored under more than one" in page(silent).by_id("frontier").words
    assert (
        "No method was audited under more"
        in page(replace(record(settings=(PLAIN,)), frontier=())).by_id("frontier").words
    )
