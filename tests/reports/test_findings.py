from dataclasses import replace

from leakledger.audit.records import Ruling
from leakledger.reports.findings import by_bound, coverage, findings, silences, worst
from leakledger.reports.overview import cell, measured, share
from leakledger.reports.words import GROUPS
from tests.reports.example import SERVER, score, scored, scores, setting

ROWS = scores(5, setting(5))  # two on records, one on statistics, two without a claim, one inconclusive
ACCURACY, EXACT, READOUT, SPAN, SPEAR, FREQUENCY = ROWS


def test_findings_are_sorted_by_the_lower_bound_and_not_by_the_mean():
    wide = replace(ACCURACY, **scored(0.9, 0.0, 0.8), attack="wide")
    narrow = replace(ACCURACY, **scored(0.5, 0.0, 0.1), attack="narrow")
    assert [s.attack for s in by_bound([wide, narrow])] == ["narrow", "wide"]


def test_a_finding_of_one_cluster_is_sorted_by_its_advantage():
    lone = replace(ACCURACY, advantage=0.7, advantage_low=None, advantage_high=None, clusters=1, attack="lone")
    rows = [replace(ACCURACY, **scored(a, 0.0, 0.0), attack=str(a)) for a in (0.6, 0.8)]
    assert [s.attack for s in by_bound([*rows, lone])] == ["0.8", "lone", "0.6"]


def test_findings_do_not_depend_on_the_order_of_the_scores():
    assert by_bound(ROWS) == by_bound(ROWS[::-1])


def test_no_claim_is_no_finding_and_no_finding_is_a_silence():
    assert set(by_bound(ROWS)) == {ACCURACY, EXACT, READOUT, FREQUENCY}
    assert {s.attack for s in silences(ROWS)} == {"span", "spear"}


def test_silences_of_one_reason_share_a_row():
    again, other = replace(SPAN, setting="b", metric="exact_rows"), replace(SPAN, reason="another")
    rows = silences([SPAN, again, again, other])
    assert [(r.reason, r.settings) for r in rows] == sorted(
        [(SPAN.reason, (SPAN.setting, "b")), ("another", (SPAN.setting,))]
    )


def test_coverage_counts_settings_and_not_metrics():
    rows = coverage([ACCURACY, EXACT, replace(ACCURACY, setting="b"), SPEAR])
    assert [(r.observers, r.attack, r.statuses) for r in rows] == [
        ((SERVER,), "tableak", (("scored", 2),)),
        ((SERVER,), "spear", (("abstained", 1),)),
    ]


def test_the_worst_attack_counts_for_its_asset_alone():
    assert worst(ROWS, ACCURACY.setting, "records") == ACCURACY
    assert worst(ROWS, ACCURACY.setting, "statistics") == READOUT
    assert worst(ROWS, ACCURACY.setting, "vocabulary") is None
    assert worst(ROWS, "elsewhere", "records") is None


def ruled(verdict, asset="records", adversary=SERVER, **more):
    return Ruling(setting(5).id, adversary, asset, verdict, 0.1, **more)


def test_of_two_assets_that_are_known_in_full_the_cell_quotes_the_one_that_was_harder_to_guess():
    [sizes] = [g for g in GROUPS if g.id == "sizes"]
    told = {"attack": "plaintext", "observers": (SERVER,), "advantage": 1.0}
    rulings = [ruled("leaks", asset, metric=asset, **told) for asset in ("size", "count")]
    found = [
        score(setting(5), "plaintext", (SERVER,), "sizes", asset, "", **scored(1.0, guessed, 0.0))
        for asset, guessed in (("size", 0.5), ("count", 0.1))
    ]
    for order in (1, -1):
        assert cell(sizes, rulings[::order], found).ruling.asset == "count"


def test_every_metric_of_an_asset_is_behind_one_finding():
    (records, vocabulary, statistics) = findings({6: setting(5)}, ROWS, [ruled("leaks")])
    assert (records.asset, records.scores, records.verdict) == ("records", (ACCURACY, EXACT), "leaks")
    assert (statistics.scores, vocabulary.scores) == ((READOUT,), (FREQUENCY,))
    assert statistics.verdict is None  # nothing was ruled about it


def test_a_finding_is_as_bad_as_the_worst_adversary_and_none_when_all_are_none():
    for verdicts, expected in (
        (("no leak", "leaks", "inconclusive"), "leaks"),
        (("no leak", "inconclusive"), "inconclusive"),
        (("no leak", "no leak"), "no leak"),
    ):
        rulings = [ruled(v, adversary=f"{i} clients") for i, v in enumerate(verdicts)]
        (found,) = findings({6: setting(5)}, [], rulings)
        assert found.verdict == expected
        assert len(found.rulings) == len(verdicts)


def test_leaks_come_before_what_is_open_and_that_before_what_does_not_leak():
    rulings = [ruled("no leak", "records"), ruled("inconclusive", "vocabulary"), ruled("leaks", "size")]
    assert [f.asset for f in findings({6: setting(5)}, [], rulings)] == ["size", "vocabulary", "records"]


def test_a_share_is_never_rounded_to_all_or_to_nothing():
    assert [share(v) for v in (1.0, 0.9999, 0.5, 0.001, 0.0)] == [
        "100\u00a0%", "99\u00a0%", "50\u00a0%", "under 1\u00a0%", "0\u00a0%",
    ]  # fmt: skip


def test_an_amount_stands_beside_what_guessing_gets():
    assert measured(None, ACCURACY) == "69\u00a0% of cells right, guessing 41\u00a0%"
    open_ = replace(ACCURACY, low=0.3, high=0.9)
    within = "69\u00a0% of cells right (30\u00a0% to 90\u00a0%), guessing 41\u00a0%"
    assert measured(None, open_, interval=True) == within
    assert measured(ruled("inconclusive"), None) == ""


def test_a_leak_that_the_mean_does_not_show_says_what_does():
    level = replace(ACCURACY, value=1.0, baseline=1.0)
    assert measured(ruled("leaks"), level) == "100\u00a0% of cells right, guessing 100\u00a0%; a fact shows it"
    assert measured(ruled("leaks", p=0.01), level).endswith("; not the mean, but a part shows it")
    assert measured(ruled("leaks"), ACCURACY) == measured(ruled("inconclusive"), ACCURACY) == measured(None, ACCURACY)


def test_an_advantage_of_bits_says_so_beside_hits_that_leave_none():
    """Row counts of parties alike in size: all right, as guessing has them, and beside that an advantage of 0.12."""
    all_known = replace(ACCURACY, asset="statistics", metric="count", value=1.0, baseline=1.0)
    of_bits = ruled("leaks", "count", metric="count_information", advantage=0.12)
    assert measured(of_bits, all_known, named=False) == (
        "100\u00a0% right, guessing 100\u00a0%; 12\u00a0% of the bits that guessing leaves open; a fact shows it"
    )


def test_a_leak_that_the_mean_may_not_show_says_what_does():
    """Of four batches one was read: 50 % of cells, guessing 48 %, from 93 % below the prior to perfect."""
    wide, plain = {"low": -0.9, "high": 1.0}, measured(None, ACCURACY)
    why = {word: (f"a by server gets more than the prior{word}",) for word in ("", " in one batch, of P2 under seed 0")}
    assert measured(ruled("leaks", **wide), ACCURACY) == f"{plain}; a fact shows it"
    assert measured(ruled("leaks", p=0.01, reasons=why[""], **wide), ACCURACY) == plain
    parts = why[" in one batch, of P2 under seed 0"]
    assert measured(ruled("leaks", p=0.01, reasons=parts, **wide), ACCURACY) == f"{plain}; a part shows it"
    assert measured(ruled("leaks", p=0.01, reasons=parts, low=0.1, high=1.0), ACCURACY) == plain
