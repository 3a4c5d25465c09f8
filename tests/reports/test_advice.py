"""Advice quotes verdicts and never betters them."""

from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from scipy import stats

from leakledger.audit.records import Ruling, UtilityRow
from leakledger.audit.verdicts import missing
from leakledger.reports.advice import FEWEST, changes, differences, differs_in, undefended, unstopped
from leakledger.reports.advice_words import costs, effects, lead, name, unchanged
from leakledger.reports.overview import SHORT, grid, headline, in_short
from tests.reports.example import case, example, setting

PLAIN, NOISE = setting(1), replace(setting(1), id="noisy", defense="gaussian(0.01)")
GOOD = frozenset({"fewer", "open", "lowers", "settles", "ends", "level"})


def ruling(s, verdict, low=0.8, high=0.9, asset="records", **more):
    middle = (low + high) / 2
    found = {
        "attack": "a",
        "observers": ("server",),
        "metric": "accuracy",
        "advantage": middle,
        "level": "value",
        "p": 0.01,
    }
    missing = ("too few seeds",) if verdict == "inconclusive" else ()
    return Ruling(s.id, "server", asset, verdict, 0.1, missing=missing, low=low, high=high, **{**found, **more})


def record(*rulings, settings=(PLAIN, NOISE), utility=()):
    cases = tuple(
        replace(case(1, s, seed), utility=(UtilityRow("f1", 0.5 if not utility else utility[i][seed]),))
        for i, s in enumerate(settings)
        for seed in range(len(utility[0]) if utility else 3)
    )
    return replace(example(), cases=cases, rulings=rulings, scores=(), leakage=())


def rows(audit):
    firsts = dict.fromkeys(c.setting for c in audit.cases)
    return grid(dict(enumerate(firsts, 1)), audit)


def only(audit):
    (change,) = changes(rows(audit), audit)
    return change


@pytest.mark.parametrize(
    ("after", "limits", "kind"),
    [
        ("no leak", (0.0, 0.05), "ends"),
        ("inconclusive", (0.0, 0.05), "open"),
        ("leaks", (0.1, 0.2), "lowers"),
        ("leaks", (0.1, 0.85), "same"),  # the intervals meet
        ("leaks", (0.95, 0.99), "raises"),
    ],
)
def test_a_change_is_called_no_better_than_the_verdicts_before_and_after(after, limits, kind):
    change = only(record(ruling(PLAIN, "leaks"), ruling(NOISE, after, *limits)))
    assert change.effects[0].kind == kind
    said = " ".join(effects(change))
    assert ("no leak" in said) == (kind == "ends")
    if kind == "open":
        assert "not ruled out" in said
        assert "too few seeds" in said
    if kind == "lowers":
        assert "still leak" in said
    if kind == "same":
        assert unchanged(change) == ["people's rows"]


def test_a_leak_that_a_fact_shows_is_not_lowered_by_its_mean():
    change = only(record(ruling(PLAIN, "leaks"), ruling(NOISE, "leaks", 0.1, 0.2, p=None)))
    assert change.effects[0].kind == "same"


def test_rows_known_by_code_are_another_leak_and_not_a_smaller_one():
    change = only(record(ruling(PLAIN, "leaks"), ruling(NOISE, "leaks", 0.1, 0.2, level="code")))
    assert change.effects[0].kind == "level"
    assert "still leak, known by the codes" in effects(change)[0]


def test_a_clause_that_names_what_leaks_has_a_verb_of_one_thing():
    for asset, clause in (("membership", "who holds a given value"), ("vocabulary", "which values each party holds")):
        change = only(record(*(ruling(s, v, asset=asset) for s, v in ((PLAIN, "leaks"), (NOISE, "inconclusive")))))
        assert effects(change)[0].startswith(f"{clause} is no longer shown to leak")


def test_fewer_assets_of_a_group_are_named_and_a_group_with_others_is_none_the_better():
    def change(before, after):
        told = [ruling(PLAIN, "leaks", asset=a) for a in before] + [ruling(NOISE, "leaks", asset=a) for a in after]
        left = [ruling(s, "inconclusive", asset=a) for s in (PLAIN, NOISE) for a in ("mean", "std", "minimum")]
        taken = {(r.setting, r.asset) for r in told}
        return only(record(*told, *(r for r in left if (r.setting, r.asset) not in taken)))

    better = change(("mean", "std", "minimum"), ("minimum",))
    assert [e.kind for e in better.effects if e.kind != "same"] == ["fewer"]
    (clause,) = effects(better)
    assert "means and deviations to the server are no longer shown to leak" in clause
    assert "not ruled out; the rest still leaks" in clause
    assert not [e for e in change(("mean", "std"), ("minimum", "std")).effects if e.kind != "same"]
    assert [e.kind for e in change(("mean",), ("mean", "std")).effects if e.kind != "same"] == ["raises"]


def test_what_leaks_more_to_one_adversary_is_no_smaller_leak_since_another_is_no_longer_shown_one():
    before = ruling(PLAIN, "leaks"), replace(ruling(PLAIN, "leaks", 0.2, 0.4), adversary="one client")
    for low, high, kind in ((0.7, 0.9, "raises"), (0.3, 0.9, "fewer")):
        after = ruling(NOISE, "inconclusive"), replace(ruling(NOISE, "leaks", low, high), adversary="one client")
        change = only(record(*before, *after))
        assert change.effects[0].kind == kind
        assert change.helps == (kind == "fewer")
        if kind == "raises":
            assert effects(change) == ["but of people's rows, more leaks of cells of rows to a single client"]
        else:
            assert effects(change)[0].endswith("(60\u00a0% of what guessing leaves open, to a single client)")


@pytest.mark.parametrize(
    ("of_client", "of_server", "kind"),
    [
        (("leaks", 0.1, 0.2), ("inconclusive", 0.1, 0.2), "same"),  # a lower figure, of somebody else
        (("inconclusive", 0.1, 0.2), ("leaks", 0.1, 0.2), "lowers"),
        (("leaks", 0.1, 0.2, "code"), ("leaks", 0.8, 0.9, "code"), "same"),
        (("inconclusive", 0.1, 0.2, "code"), ("leaks", 0.8, 0.9, "code"), "level"),
    ],
)
def test_nothing_gets_better_where_one_adversary_more_is_shown_something(of_client, of_server, kind):
    def of(s, who, verdict, low, high, level="value"):
        return replace(ruling(s, verdict, low, high, level=level), adversary=who)

    before = of(PLAIN, "server", "leaks", 0.8, 0.9), of(PLAIN, "one client", "inconclusive", 0.1, 0.2)
    change = only(record(*before, of(NOISE, "server", *of_server), of(NOISE, "one client", *of_client)))
    assert change.effects[0].kind == kind
    assert change.helps == (kind != "same")


def test_what_leaks_more_to_one_adversary_is_no_leak_of_less_since_another_knows_codes_now():
    before = ruling(PLAIN, "leaks"), replace(ruling(PLAIN, "leaks", 0.2, 0.4, level="code"), adversary="one client")
    after = (ruling(NOISE, "leaks", level="code"), ruling(NOISE, "leaks", 0.7, 0.9, level="code"))
    change = only(record(*before, after[0], replace(after[1], adversary="one client")))
    assert change.effects[0].kind == "raises"


def test_one_adversary_that_is_left_open_keeps_a_leak_from_ending():
    after = ruling(NOISE, "no leak"), replace(ruling(NOISE, "inconclusive"), adversary="one client")
    assert only(record(ruling(PLAIN, "leaks"), *after)).effects[0].kind == "open"


def test_what_gets_worse_is_said_beside_what_gets_better():
    audit = record(
        ruling(PLAIN, "leaks"), ruling(NOISE, "no leak"),
        ruling(PLAIN, "inconclusive", asset="vocabulary"), ruling(NOISE, "leaks", asset="vocabulary"),
    )  # fmt: skip
    said = effects(only(audit))
    assert said[0].startswith("no leak of people's rows above 0.1")
    assert said[1].startswith("but which values each party holds leaks then")


def test_of_several_pairs_the_least_favourable_one_speaks():
    other = replace(PLAIN, id="other", encoder="local"), replace(NOISE, id="other-noisy", encoder="local")
    verdicts = zip((PLAIN, NOISE, *other), ("leaks", "no leak", "leaks", "inconclusive"), strict=True)
    audit = record(*(ruling(s, v) for s, v in verdicts), settings=(PLAIN, NOISE, *other))
    change = next(c for c in changes(rows(audit), audit) if c.part == "defense")
    assert len(change.pairs) == 2
    assert change.effects[0].kind == "open"


def test_settings_that_differ_in_two_things_are_not_compared():
    assert differs_in(PLAIN, NOISE) == "defense"
    assert differs_in(PLAIN, replace(NOISE, encoder="local")) is None
    assert differs_in(PLAIN, PLAIN) is None
    assert differs_in(PLAIN, replace(PLAIN, encoder="local", scaler="local")) == "preprocessing"
    assert differs_in(PLAIN, replace(PLAIN, scaler="zscore-sac (uniform)")) == "scaler"


def test_a_reference_is_no_advice():
    audit = record(ruling(PLAIN, "leaks"), settings=(PLAIN, replace(NOISE, reference=True)))
    assert changes(rows(audit), audit) == []


def test_costs_are_paired_by_seed_with_a_students_interval():
    before, after = [0.5, 0.6, 0.7, 0.8], [0.4, 0.55, 0.6, 0.77]
    audit = record(ruling(PLAIN, "leaks"), ruling(NOISE, "no leak"), utility=(before, after))
    (cost,) = only(audit).costs
    found = [b - a for a, b in zip(before, after, strict=True)]
    low, high = stats.t.interval(0.95, 3, fmean(found), stats.sem(found))
    assert (cost.metric, cost.change, cost.low, cost.high) == ("F1", *map(pytest.approx, (fmean(found), low, high)))


def test_two_seeds_give_no_interval_and_the_words_say_so():
    audit = record(ruling(PLAIN, "leaks"), ruling(NOISE, "no leak"), utility=([0.5, 0.6], [0.4, 0.6]))
    assert FEWEST > 2
    assert costs(only(audit)) == "F1 −0.050 (2 seeds, no interval)"


def test_a_metric_that_was_not_measured_costs_nothing_known():
    audit = record(ruling(PLAIN, "leaks"), ruling(NOISE, "no leak"))
    (before, after) = (tuple(c for c in audit.cases if c.setting == s) for s in (PLAIN, NOISE))
    assert differences(before, after, ("auroc",)) == ()
    silent = replace(audit, cases=tuple(replace(c, utility=()) for c in audit.cases))
    assert costs(only(silent)) == "what it costs was not measured"


def test_the_lead_says_what_helps_what_it_costs_and_what_nothing_stops():
    both = [ruling(s, "leaks", asset="mean") for s in (PLAIN, NOISE)]
    audit = record(ruling(PLAIN, "leaks"), ruling(NOISE, "no leak"), *both, utility=([0.5] * 3, [0.4] * 3))
    made, of = changes(rows(audit), audit), rows(audit)
    said = lead(made, of, unstopped(of))
    assert said[0].startswith("With gaussian(0.01), no leak of people's rows above 0.1")
    assert "F1 −0.100" in said[0]
    assert said[1] == "Every setting of this run leaks parties' own statistics: nothing that was tried stops that."


def test_a_leak_that_is_only_no_longer_shown_is_no_help_before_one_that_is_shown_smaller():
    other = replace(setting(1), id="other", defense="clipping(0.1)")
    open_, smaller = (NOISE, "inconclusive", 0.0, 0.05), (other, "leaks", 0.1, 0.2)
    audit = record(ruling(PLAIN, "leaks"), ruling(*open_), ruling(*smaller), settings=(PLAIN, NOISE, other))
    assert [c.after for c in changes(rows(audit), audit) if c.before == "none"] == [other.defense, NOISE.defense]
    audit = record(ruling(PLAIN, "leaks"), ruling(*open_))
    (said,) = lead(changes(rows(audit), audit), rows(audit), [])
    assert said.startswith(
        "No change between settings of this run is shown to make a leak smaller. With gaussian(0.01), "
    )


def test_the_headline_names_the_adversary_that_gets_its_figure():
    by_client = replace(ruling(PLAIN, "leaks", 0.9, 0.9), adversary="one client", observers=("P1",))
    audit = record(ruling(PLAIN, "leaks", 0.6, 0.6), by_client, settings=(PLAIN,))
    leaking = replace(audit, verdict=replace(audit.verdict, status="leaks"))
    said = headline(rows(audit), leaking)
    assert said == "A single client can rebuild people's rows: 90\u00a0% of what guessing leaves open."
    assert rows(audit)[0].cells[0].who == ("one client", "server")


def test_the_headline_names_the_worst_leak_and_claims_nothing_where_the_verdict_does_not():
    audit = record(ruling(PLAIN, "leaks"), ruling(NOISE, "inconclusive"))
    leaking = replace(audit, verdict=replace(audit.verdict, status="leaks"))
    assert headline(rows(audit), leaking).startswith("The server can rebuild people's rows")
    unsure = replace(audit, verdict=replace(audit.verdict, status="inconclusive"))
    assert headline(rows(audit), unsure) == "This audit cannot say whether anything leaks."
    none = record(ruling(PLAIN, "no leak"), ruling(NOISE, "no leak"))
    none = replace(none, verdict=replace(none.verdict, status="no leak"))
    said = headline(rows(none), none)
    assert said.startswith("No leak above 0.1 of what a perfect attack gains, with 95 % confidence,")
    loose = replace(none, run=replace(none.run, config={**none.run.config, "audit": {"alpha": 0.4}}))
    assert "with 60 % confidence," in headline(rows(loose), loose)


def test_a_defense_is_named_alone_and_other_changes_with_what_they_replace():
    audit = record(ruling(PLAIN, "leaks"), ruling(NOISE, "no leak"))
    assert name(only(audit)) == "gaussian(0.01)"
    local = replace(PLAIN, id="local", encoder="local", scaler="local")
    audit = record(ruling(PLAIN, "leaks"), ruling(local, "no leak"), settings=(PLAIN, local))
    assert name(only(audit)) == "local in place of server_dictionary + federated_zscore (encoder and scaler together)"


@pytest.mark.parametrize(
    ("reason", "short"),
    [
        ("portfolio gets nowhere against rows that were planted under this batch size and defense", "planted rows"),
        ("2 seeds, of at least 29 that no leak above 0.1 needs", "2 of at least 29 seeds"),
        ("3 kinds of message unread: a, b, c", "no attack read"),
        ("span by server gets 1.00 of P0 under seed 7, where the prior gets 0.02", "what luck does not explain"),
        ("something of a later version", "something of a later version"),
    ],
)
def test_a_reason_in_short_keeps_what_it_says(reason, short):
    assert short in in_short(reason)


def test_the_short_reasons_are_those_that_the_verdict_library_gives():
    text = (Path(missing.__file__)).read_text(encoding="utf-8")
    assert all(part in text for part in SHORT)
    assert "of at least {needed} that" in text


def test_defenses_are_named_where_rows_leak_and_none_was_tried():
    assert undefended(rows(record(ruling(PLAIN, "leaks"), settings=(PLAIN,))))
    assert not undefended(rows(record(ruling(PLAIN, "inconclusive"), settings=(PLAIN,))))
    assert not undefended(rows(record(ruling(PLAIN, "leaks"), ruling(NOISE, "leaks"))))
