"""What is called a leak, what is not, and what an audit may not say."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from leakledger.audit.case import cases
from leakledger.audit.config_features import Features
from leakledger.audit.pytest_plugin import Audited
from leakledger.audit.records import (
    SCORER,
    UNTIMED,
    CaseRecord,
    CellDetail,
    Control,
    FeatureShare,
    Finding,
    Setting,
    Trial,
    Unread,
    UtilityRow,
    UtilityScore,
)
from leakledger.audit.summary import scores, utility
from leakledger.audit.verdicts.evidence import Series
from leakledger.audit.verdicts.missing import too_much_open
from leakledger.audit.verdicts.plan import fewest_clusters, needs, verdicts_need
from leakledger.audit.verdicts.policy import Policy, policy_of
from leakledger.audit.verdicts.rulings import rulings
from leakledger.audit.verdicts.words import verdict
from tests.audit.example import config

SETTING = Setting("a", "data", "iid", 4, "a", "a", "none", "fedsgd", False)
ALONE = replace(SETTING, parties=1)  # of whom the server may learn something
POLICY = Policy()


def trial(value, victim="P1", **changes):
    fields = {"attack": "tableak", "observers": ("server",), "asset": "records", "metric": "accuracy", "round": 0}
    return Trial(**{**fields, "victim": victim, "status": "scored", "value": value, "baseline": 0.5, **changes})


HELD = tuple(Control("tableak", kind, 1.0, 0.0, 1.0, True, "recovered") for kind in ("leaky", "power"))


def case(values, seed=0, setting=SETTING, **changes):
    """One trial for each party."""
    trials = tuple(trial(v, f"P{k + 1}") for k, v in enumerate(values))
    fields = {"trials": trials, "controls": HELD, "utility": (UtilityRow("f1", 0.5 + seed / 10),), **changes}
    return CaseRecord(f"{setting.id}-{seed}", setting, seed, **fields)


def ruled(records, policy=POLICY):
    return {(r.setting, r.adversary, r.asset): r for r in rulings(records, policy)}


def the_only(records, policy=POLICY):
    (ruling,) = rulings(records, policy)
    return ruling


def guesses(seeds, seed=0, parties=4):
    coins = np.random.default_rng(seed)
    return [case(coins.normal(0.5, 0.01, parties), s) for s in range(seeds)]


def said(records, policy=POLICY):
    found = rulings(records, policy)
    return verdict(records, found, scores(records), utility(records), alpha=policy.alpha)


def test_a_gain_in_every_cluster_leaks():
    found = the_only([case([0.9, 0.8, 0.95, 0.85], s) for s in range(2)])
    assert (found.verdict, found.clusters, found.seeds) == ("leaks", 8, 2)
    assert found.reasons == ("tableak by server gets more than the prior",)
    assert found.p < 0.05
    assert found.advantage == pytest.approx(0.75)
    assert found.low < found.advantage < found.high


def test_one_exact_cluster_of_a_client_who_subtracts_leaks():
    """Two parties, one seed: one cluster has no interval, and needs none where the attack vouches for what it says."""
    exact = trial(1.0, "P2", attack="statistics", observers=("P1",), asset="statistics", metric="std", certain=2)
    found = the_only([CaseRecord("a", SETTING, 0, (exact,))])
    assert found.verdict == "leaks"
    assert found.reasons == ("statistics by P1: claims vouched for as exact, and right",)
    wrong = replace(exact, certain_wrong=1)
    assert the_only([CaseRecord("a", SETTING, 0, (wrong,))]).verdict == "inconclusive"


def test_a_certainty_that_was_wrong_once_takes_the_others_away():
    right = trial(1.0, "P2", attack="statistics", asset="statistics", metric="std", certain=2)
    wrong = replace(right, victim="P3", value=0.5, certain_wrong=1)
    found = the_only([CaseRecord("a", SETTING, 0, (right, wrong))])
    assert found.verdict == "inconclusive"
    assert "statistics by server vouched for something that is not so" in found.missing


def test_a_certainty_that_was_wrong_takes_nothing_from_what_other_attacks_proved():
    """A plugin's attack that vouched for a value which nobody has made 'leaks' of plaintext inconclusive, and --fail-on
    leak end with 0.
    """
    right = trial(1.0, "P2", attack="plaintext", asset="vocabulary", metric="f1", certain=2)
    wrong = trial(0.0, "P2", attack="guesses", asset="vocabulary", metric="f1", certain=2, certain_wrong=2)
    found = the_only([CaseRecord("a", SETTING, 0, (right, wrong))])
    assert found.verdict == "leaks"
    assert found.reasons == ("plaintext by server: values told in the clear or proven, and right",)
    assert the_only([CaseRecord("a", SETTING, 0, (wrong,))]).verdict == "inconclusive"


@pytest.mark.parametrize("proven", [0, 1])
def test_the_attack_that_gets_most_speaks_where_a_lesser_one_scatters_less(proven):
    """A prior that scatters less makes the p-value of the lesser attack the smaller one."""
    lesser = [trial(0.75, f"P{k}", attack="linear_layer", spread=0.001, draws=20, certain=proven) for k in range(3)]
    most = [trial(1.0, f"P{k}", attack="span", spread=0.04, draws=20, certain=proven) for k in range(3)]
    found = the_only([CaseRecord("a", SETTING, seed, (*lesser, *most)) for seed in range(2)])
    assert (found.verdict, found.attack, found.advantage) == ("leaks", "span", 1.0)


def test_of_two_that_get_all_the_one_speaks_that_was_harder_to_guess():
    easily = [trial(1.0, f"P{k}", attack="linear_layer", baseline=0.9, certain=1) for k in range(3)]
    hardly = [trial(1.0, f"P{k}", attack="span", baseline=0.1, certain=1) for k in range(3)]
    found = the_only([CaseRecord("a", SETTING, seed, (*easily, *hardly)) for seed in range(2)])
    assert (found.attack, found.advantage) == ("span", 1.0)


def test_an_attack_that_no_test_shows_to_leak_does_not_speak_for_one_that_does():
    surely = [trial(0.75, f"P{k}", attack="linear_layer", spread=0.001, draws=20) for k in range(3)]
    by_luck = [trial(1.0, "P1", attack="span", spread=0.5, draws=20)]
    found = the_only([CaseRecord("a", SETTING, seed, (*surely, *by_luck)) for seed in range(2)])
    assert (found.verdict, found.attack) == ("leaks", "linear_layer")


def test_a_ruling_states_the_interval_of_the_score_that_it_quotes():
    values, baselines = (0.9, 0.4, 0.6), (0.3, 0.5, 0.4)
    trials = tuple(trial(v, f"P{k}", baseline=b) for k, (v, b) in enumerate(zip(values, baselines, strict=True)))
    records = [case((), seed, trials=trials) for seed in range(2)]
    (score,) = scores(records)
    found = the_only(records)
    stated = (score.advantage, score.advantage_low, score.advantage_high)
    assert (found.advantage, found.low, found.high) == pytest.approx(stated)


def test_what_the_prior_has_right_alone_has_no_advantage():
    told = trial(1.0, "P2", attack="vocabulary", asset="vocabulary", metric="f1", baseline=1.0, certain=2)
    found = the_only([CaseRecord("a", SETTING, 0, (told,))])
    assert (found.verdict, found.advantage, found.high) == ("leaks", None, None)


def test_where_the_prior_has_everything_right_nothing_can_be_seen_to_leak_or_not():
    """Of 80 seeds without any room for a gain the bound was 0, and the verdict "no leak"."""
    granted = [case([1.0] * 4, s, trials=tuple(trial(1.0, f"P{k}", baseline=1.0) for k in range(4))) for s in range(80)]
    found = the_only(granted)
    assert (found.verdict, found.advantage) == ("inconclusive", None)
    assert found.missing == ("the prior alone has all of it right, so that no attack could show anything",)
    one = replace(granted[0], trials=(trial(1.0, "P0", baseline=0.5), *granted[0].trials[1:]))
    assert the_only([one, *granted[1:]]).missing != found.missing


def test_what_an_attack_without_power_claims_stands():
    records = [case([0.9, 0.8, 0.95, 0.85], s, controls=(*HELD, replace(FAILED, kind="power"))) for s in range(2)]
    assert the_only(records).verdict == "leaks"


def test_one_cluster_of_an_attack_that_vouches_for_nothing_is_inconclusive():
    found = the_only([case([1.0])])
    assert found.verdict == "inconclusive"
    assert any("1 seed, of at least 29" in m for m in found.missing)


def test_one_batch_that_leaks_among_many_is_found_by_how_the_prior_scatters():
    values = [trial(0.5, f"P{k}", spread=0.04, draws=20) for k in range(9)]
    quiet = CaseRecord("a", SETTING, 0, tuple(values))
    assert the_only([quiet]).verdict == "inconclusive"
    loud = replace(quiet, trials=(*values, trial(1.0, "P9", spread=0.04, draws=20)))
    found = the_only([loud])
    assert (found.verdict, found.reasons) == (
        "leaks",
        ("tableak by server gets more than the prior in one batch, of P9 under seed 0",),
    )


def test_one_party_that_leaks_among_twenty_is_found():
    coins = np.random.default_rng(0)
    records = [case([1.0, *coins.normal(0.5, 0.2, 19)], s) for s in range(6)]
    found = the_only(records)
    assert found.verdict == "leaks"
    assert "of P1" in found.reasons[0]


def test_nothing_leaks_where_every_party_is_bounded_over_enough_seeds():
    found = the_only(guesses(80))
    assert (found.verdict, found.ceiling, found.missing) == ("no leak", 0.1, ())
    told = said(guesses(80)).leakage
    assert told.startswith("No leak above 0.1 of what a perfect attack gains, with 95 % confidence; the nearest is")


def test_a_verdict_that_nothing_leaks_is_no_surer_than_the_level_it_was_found_at():
    loose = replace(POLICY, alpha=0.4)
    assert said(guesses(40), loose).status == "no leak"
    assert "with 60 % confidence;" in said(guesses(40), loose).leakage


def test_where_nothing_leaks_the_verdict_names_what_no_attack_was_played_on():
    unplayed = "values held, who holds a value, sizes and statistics"
    assert f" No attack was played on {unplayed}: nothing is said of that." in said(guesses(80)).leakage
    assert "No attack was played" not in said([case([0.9, 0.8], s) for s in range(6)]).leakage


def test_where_nothing_leaks_the_verdict_says_how_many_adversaries_of_a_kind_were_not_played():
    """Of one client alone it said "no leak" by one client, whatever the three others were sent."""

    def by(*clients):
        seen = [(who, f"P{k + 1}") for who in clients for k in range(4) if who != f"P{k + 1}"]
        return [case([], s, trials=tuple(trial(0.5, v, observers=(who,)) for who, v in seen)) for s in range(80)]

    some = said(by("P2"))
    assert some.status == "no leak"
    assert some.leakage.endswith(" Played of the kind one client: 1 of 4; nothing is said of the others.")
    assert "Played of the kind" not in said(by("P1", "P2", "P3", "P4")).leakage
    assert "Played of the kind" not in said(guesses(80)).leakage


@pytest.mark.parametrize(
    ("who", "unplayed"),
    [
        ([("server",)], "No client was played as an adversary: nothing is said of what clients learn."),
        ([("P4",)], "The server was not played as an adversary: nothing is said of what it learns."),
        ([("server",), ("P4",)], ""),
        ([("P4", "server")], ""),
    ],
)
def test_where_nothing_leaks_the_verdict_says_that_the_server_or_clients_were_not_played(who, unplayed):
    """With clients as the only observers it said "no leak", and not that the server had been left out."""
    trials = tuple(trial(0.5, f"P{k + 1}", observers=o) for o in who for k in range(3 if "P4" in o else 4))
    found = said([case([], s, trials=trials) for s in range(80)])
    assert found.status == "no leak"
    assert ("as an adversary" in found.leakage) == bool(unplayed)
    assert unplayed in found.leakage


def test_a_test_that_nothing_leaks_warns_of_what_was_not_played():
    """It passed, and nobody read that no client was played and statistics were not attacked."""
    records = guesses(80)
    made = SimpleNamespace(verdict=said(records), cases=records, rulings=rulings(records, POLICY))
    with pytest.warns(UserWarning, match="nothing is said of") as told:
        Audited(Path(), Path(), Path(), made).assert_no_leak()
    texts = [str(w.message) for w in told]
    assert texts[0].startswith("No attack was played on")
    assert texts[1].startswith("No client was played")
    assert len(texts) == 2


@pytest.mark.parametrize("seeds", [2, 5, 20])
def test_too_few_seeds_end_inconclusive_and_say_how_many_it_takes(seeds):
    found = the_only(guesses(seeds))
    assert found.verdict == "inconclusive"
    assert found.missing == (f"{seeds} seeds, of at least 29 that no leak above 0.1 needs",)


def test_a_party_that_leaks_hides_in_no_mean():
    """One of forty: the mean stays below the ceiling, the party does not."""
    coins = np.random.default_rng(1)
    records = [case([0.75, *coins.normal(0.4, 0.01, 39)], s) for s in range(30)]
    assert the_only(records).verdict == "leaks"


FAILED = Control("tableak", "leaky", 0.4, 0.3, 0.1, False, "recovered")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"controls": (*HELD, FAILED)}, "the leaky control of tableak failed"),
        ({"controls": (*HELD, replace(FAILED, kind="power"))}, "tableak gets nowhere against rows that were planted"),
        (
            {"controls": (*HELD, replace(FAILED, kind="power", expected=UNTIMED))},
            "tableak reads times, and planted messages have none to show that it works",
        ),
        ({"controls": (*HELD, replace(FAILED, attack=SCORER, kind="null"))}, "the null control of scorer failed"),
        ({"unread": (Unread(("server",), "toy.x", "value", 3, "no attack"),)}, "1 kind of message unread: toy.x"),
    ],
)
def test_one_failed_control_or_unread_message_forbids_that_nothing_leaks(change, why):
    records = guesses(80)
    records[3] = replace(records[3], **change)
    found = the_only(records)
    assert found.verdict == "inconclusive"
    assert any(why in m for m in found.missing)


@pytest.mark.parametrize("kind", ["leaky", "power"])
def test_an_attack_that_nothing_shows_to_work_here_shows_no_safety(kind):
    records = [replace(r, controls=tuple(c for c in HELD if c.kind != kind)) for r in guesses(80)]
    found = the_only(records)
    assert (found.verdict, found.missing) == ("inconclusive", (f"no {kind} control of tableak was played",))
    once = the_only([*guesses(80)[:79], records[79]])
    assert once.missing == (f"no {kind} control of tableak was played in 1 of 80 seeds",)


@pytest.mark.parametrize("attack", ["tableak", SCORER])
def test_what_an_attack_finds_shows_nothing_where_it_or_the_scorer_failed_a_control(attack):
    leaky = [case([0.9, 0.8, 0.95, 0.85], s, findings=(FOUND,)) for s in range(2)]
    proven = tuple(replace(t, certain=1) for t in leaky[0].trials)
    leaky[0] = replace(leaky[0], trials=proven, controls=(replace(FAILED, attack=attack),))
    found = ruled(leaky)
    assert found["a", "server", "records"].verdict == "inconclusive"
    assert (found["a", "server", "check"].verdict == "inconclusive") == (attack == SCORER)


FOUND = Finding("sac-audit", ("server",), "P1", "proportional-shares", "shares do not hide", (3,))


def test_a_check_of_the_protocol_that_fires_leaks_and_the_silence_of_checks_does_not():
    records = [replace(r, findings=(FOUND,) if k == 0 else ()) for k, r in enumerate(guesses(80))]
    found = ruled(records)
    assert found["a", "server", "check"].verdict == "leaks"
    assert found["a", "server", "check"].reasons == ("proportional-shares fired in the view of server",)
    assert found["a", "server", "records"].verdict == "no leak"
    other = replace(SETTING, id="b")
    silent = [replace(r, setting=other) for r in guesses(80)]
    assert ruled([*records, *silent])["b", "server", "check"].verdict == "inconclusive"


def test_what_everyone_is_told_about_everyone_is_no_leak_of_one_party():
    pooled = replace(FOUND, attack="plaintext", check="stated-pooled")
    records = [replace(r, findings=(pooled,)) for r in guesses(80)]
    assert {r.verdict for r in rulings(records, POLICY)} == {"no leak"} | (
        {"inconclusive"} if ("a", "server", "check") in ruled(records) else set()
    )
    assert not any(r.verdict == "leaks" for r in rulings(records, POLICY))


@pytest.mark.parametrize(("prior", "verdict"), [(1.0, "inconclusive"), (0.8, "no leak")])
def test_a_column_whose_rare_value_no_attacked_batch_has_is_not_said_to_be_safe(prior, verdict):
    """Of 80 seeds none had met the rare value, and the bound of that column was 0: "no leak" in each column."""
    detail = CellDetail((FeatureShare("illness", "categorical", prior, prior),))
    records = [case([], s, trials=tuple(trial(0.5, f"P{k}", detail=detail) for k in range(4))) for s in range(80)]
    found = the_only(records)
    assert found.verdict == verdict
    why = "the prior alone has all of column illness right, so that no attack could show anything of it"
    assert found.missing == ((why,) if prior == 1 else ())


def test_a_party_that_no_attacked_batch_is_of_keeps_the_question_of_records_open():
    """A client that was drawn in no attacked round of any seed was as safe as the others."""
    found = the_only(guesses(80, parties=3))
    assert found.verdict == "inconclusive"
    assert found.missing == ("no batch of 1 of 4 parties was attacked by server",)
    of_sums = [case([], s, trials=(trial(0.5, "P1+P2+P3+P4"),)) for s in range(80)]
    assert the_only(of_sums).verdict == "no leak"


@pytest.mark.parametrize("told", [0.0, 1.0])
def test_one_column_of_many_whose_mean_is_told_every_time_is_no_safety(told):
    """A mean of 120 columns, of which one was told under each of 80 seeds, lay below floor and ceiling: "no leak"."""
    shares = tuple(FeatureShare(f"c{k}", "numeric", told * (k == 7), 0.0) for k in range(120))
    fields = {"attack": "statistics", "asset": "statistics", "metric": "mean", "baseline": 0.0}
    means = tuple(trial(told / 120, f"P{k + 1}", detail=CellDetail(shares), **fields) for k in range(4))
    controls = tuple(replace(c, attack="statistics") for c in HELD)
    found = the_only([case([], s, trials=means, controls=controls) for s in range(80)])
    assert found.verdict == ("inconclusive" if told else "no leak")
    assert all("in column c7, in 320" in why for why in found.missing)
    assert len(found.missing) == told


def test_a_column_that_is_open_under_too_few_seeds_is_named_and_seeds_are_not_said_to_lack():
    """Where all values of a column are equally frequent its order has no score: "28 seeds, of at least 29", of 29."""
    fields = {"attack": "statistics", "asset": "statistics", "metric": "mean", "baseline": 0.0}

    def means(seed):
        columns = ("age", "ward") if seed else ("age",)
        detail = CellDetail(tuple(FeatureShare(c, "numeric", 0.0, 0.0) for c in columns))
        return tuple(trial(0.0, f"P{k + 1}", detail=detail, **fields) for k in range(4))

    controls = tuple(replace(c, attack="statistics") for c in HELD)
    found = the_only([case([], s, trials=means(s), controls=controls) for s in range(29)])
    assert found.verdict == "inconclusive"
    assert found.missing == ("statistics by server may get up to 0.11 in column ward, in 28 independent clusters",)


def test_of_many_columns_that_are_open_a_few_are_named_and_the_others_counted():
    shares = tuple(FeatureShare(f"c{k}", "numeric", 1.0 * (k < 9), 0.0) for k in range(1200))
    fields = {"attack": "statistics", "asset": "statistics", "metric": "mean", "baseline": 0.0}
    means = tuple(trial(9 / 1200, f"P{k + 1}", detail=CellDetail(shares), **fields) for k in range(4))
    controls = tuple(replace(c, attack="statistics") for c in HELD)
    found = the_only([case([], s, trials=means, controls=controls) for s in range(80)])
    named = [f"in column c{k}, in" in why for k, why in enumerate(found.missing[:3])]
    assert named == [True] * 3
    assert found.missing[3:] == ("statistics by server: 6 other columns open as well",)


def test_a_column_of_which_the_prior_knows_the_statistic_of_every_party_leaves_nothing_open():
    """How many values a flag has, everyone knows: no other batch would have it otherwise, as of rows it might."""
    shares = FeatureShare("flag", "categorical", 1.0, 1.0), FeatureShare("ward", "categorical", 0.0, 0.0)
    fields = {"attack": "statistics", "asset": "sizes", "metric": "size", "baseline": 0.5}
    sizes = tuple(trial(0.5, f"P{k + 1}", detail=CellDetail(shares), **fields) for k in range(4))
    controls = tuple(replace(c, attack="statistics") for c in HELD)
    assert the_only([case([], s, trials=sizes, controls=controls) for s in range(80)]).verdict == "no leak"


def means_of(prior, told):
    """Cases in which an attack has told (seeds, parties) of the mean of one column right, where the prior has (...)."""
    fields = {"attack": "statistics", "asset": "statistics", "metric": "mean"}
    controls = tuple(replace(c, attack="statistics") for c in HELD)

    def one(value, baseline, k):
        of = FeatureShare("age", "numeric", float(value), float(baseline)), *OTHERS
        mean, guessed = (float(np.mean([getattr(f, name) for f in of])) for name in ("value", "baseline"))
        return trial(mean, f"P{k + 1}", detail=CellDetail(of), baseline=guessed, **fields)

    return [
        case([], s, trials=tuple(one(v, b, k) for k, (v, b) in enumerate(zip(*of, strict=True))), controls=controls)
        for s, of in enumerate(zip(told, prior, strict=True))
    ]


OTHERS = tuple(FeatureShare(f"c{k}", "numeric", 0.0, 0.0) for k in range(119))


@pytest.mark.parametrize(("gain", "verdict"), [(0.0, "no leak"), (0.4, "inconclusive")])
def test_a_column_that_the_prior_has_right_in_some_seeds_is_bounded_in_the_others(gain, verdict):
    """That the prior was right in three of ten seeds counted as if gains scattered: what claimed exactly the prior's
    values "may get up to 0.15" after 60 seeds, and 0.14 after 100.
    """
    coins = np.random.default_rng(5)
    prior = (coins.random((60, 4)) < 0.28).astype(float)
    found = the_only(means_of(prior, np.maximum(prior, coins.random((60, 4)) < gain)))
    assert found.verdict == verdict
    assert all("in column age" in why for why in found.missing)
    assert len(found.missing) == (gain > 0)


@pytest.mark.parametrize("room", [0.3, 0.72])
def test_the_bound_of_a_column_whose_room_scatters_holds_as_often_as_it_says(room):
    """Of all that the prior leaves as much is told as the ceiling allows."""
    coins, policy, below = np.random.default_rng(6), Policy(), 0
    for _ in range(300):
        rooms = (coins.random(60) < room).astype(float)
        gains, nothing = rooms * (coins.random(60) < policy.ceiling), np.zeros(60)
        seeds, victims = tuple(range(60)), ("P1",) * 60
        series = Series("statistics", ("server",), "mean", "age", gains, rooms, seeds, victims, nothing, 0)
        below += not list(too_much_open(("a", "server", "mean"), [series], policy))
    assert below <= 300 * 0.05


def test_claims_about_labels_that_the_server_holds_stand_for_no_other_party():
    """In a vertical federation they are a claim of their own, beside those about the three others of four parties."""
    fields = {"attack": "feature_exchange", "asset": "columns", "metric": "correlation", "observers": ("P1",)}
    controls = tuple(replace(c, attack="feature_exchange") for c in HELD)
    columns = tuple(trial(0.5, v, **fields) for v in ("P2", "P4", "server"))
    found = the_only([case([], s, trials=columns, controls=controls) for s in range(80)])
    assert found.missing == ("no claim by P1 about 1 of 3 parties",)


def test_claims_about_the_adversary_itself_stand_for_no_other_party():
    """One that claimed something of itself and nothing of P3 had said something of as many as there are."""
    about = ("P1", "P2", "P4")  # by P1, of whom three others are to be spoken of
    rows = [case([], s, trials=tuple(trial(0.5, v, observers=("P1",)) for v in about)) for s in range(80)]
    assert the_only(rows).missing == ("no batch of 1 of 3 parties was attacked by P1",)
    fields = {"attack": "statistics", "asset": "statistics", "metric": "mean", "observers": ("P1",)}
    controls = tuple(replace(c, attack="statistics") for c in HELD)
    means = tuple(trial(0.5, v, **fields) for v in about)
    found = the_only([case([], s, trials=means, controls=controls) for s in range(80)])
    assert found.missing == ("no claim by P1 about 1 of 3 parties",)


def test_an_attack_that_does_worse_than_the_prior_measures_nothing():
    coins = np.random.default_rng(2)
    records = [case(coins.normal(0.3, 0.01, 4), s) for s in range(80)]
    found = the_only(records)
    assert found.verdict == "inconclusive"
    assert found.missing == ("tableak by server does worse than the prior, so it is no measure of what there is",)


def test_an_attack_that_abstains_beside_a_guesser_shows_nothing():
    def silent(seed):
        guess = [trial(0.5, f"P{k}", attack="random_baseline") for k in range(4)]
        no = Trial("portfolio", ("server",), "records", "", "", 0, "abstained", reason="no claim to stand by")
        return CaseRecord(f"a-{seed}", SETTING, seed, (*guess, no))

    found = the_only([silent(s) for s in range(80)])
    assert found.verdict == "inconclusive"
    assert found.missing == ("portfolio made no claim: no claim to stand by", "no attack made a claim")


def test_seeds_under_which_an_attack_was_silent_are_named_though_it_spoke_under_others():
    quiet = Trial("tableak", ("server",), "records", "", "", 0, "abstained", reason="no loss is finite")
    records = [*guesses(60), *(replace(r, trials=(quiet,), seed=60 + r.seed) for r in guesses(40))]
    found = the_only(records)
    assert found.verdict == "inconclusive"
    assert found.missing == ("tableak by server made no claim in 40 of 100 seeds: no loss is finite",)


@pytest.mark.parametrize(("attack", "asset"), [("statistics", "mean"), ("sizes", "count")])
def test_an_attack_on_statistics_that_abstains_everywhere_leaves_its_question_open(attack, asset):
    quiet = Trial("statistics", ("server",), attack, "", "", 0, "abstained", reason="the columns are too alike")
    records = [replace(r, trials=(*r.trials, quiet)) for r in guesses(60)]
    found = ruled(records)
    assert found["a", "server", "records"].verdict == "no leak"
    missing = ("statistics made no claim: the columns are too alike", "no attack made a claim")
    assert found["a", "server", asset].missing == missing
    assert said(records).status == "inconclusive"


@pytest.mark.parametrize("leaking", [0.12, 0.3])
def test_many_rounds_of_five_seeds_bound_no_leak_that_five_seeds_may_miss(leaking):
    """Whole seeds leak or do not, and those that were met are as alike as can be."""
    coins = np.random.default_rng(5)
    for exactly in (True, False):
        for _ in range(30):
            leaks = coins.random(5) < leaking
            values = [np.full(6, 1.0 if leak else 0.5) + coins.normal(0, 0 if exactly else 0.02, 6) for leak in leaks]
            rounds = [tuple(trial(x, round=k) for k, x in enumerate(own)) for own in values]
            records = [replace(case([], seed), trials=trials) for seed, trials in enumerate(rounds)]
            assert the_only(records).verdict != "no leak"


def test_a_batch_left_out_beside_others_forbids_that_nothing_leaks():
    records = guesses(80)
    left = Trial("tableak", ("server",), "records", "", "P1", 0, "abstained", reason="no claim about this batch")
    records[0] = replace(records[0], trials=(*records[0].trials, left))
    assert "no claim about 1 of the attacked batches" in the_only(records).missing


@pytest.mark.parametrize("trained", [1, 3])
def test_rounds_whose_updates_no_attack_looked_at_forbid_that_nothing_leaks(trained):
    """By default the first round alone is attacked, of however many there are."""
    records = [replace(r, utility=(UtilityRow("rounds", float(trained)),)) for r in guesses(80)]
    found = the_only(records)
    assert found.missing == (("no claim about any batch of 2 of 3 rounds of training",) if trained == 3 else ())
    assert found.verdict == ("no leak" if trained == 1 else "inconclusive")


@pytest.mark.parametrize(("defense", "trained", "open"), [("none", 2, 0), ("pruning 0.9", 1, 0), ("pruning 0.9", 2, 1)])
def test_rows_that_come_again_behind_a_defense_forbid_that_nothing_leaks(defense, trained, open):
    """Each round was attacked alone, and what noise hides in one of them sixteen tell together."""
    records = []
    for seed in range(80):
        fields = {
            "trials": tuple(trial(0.5, f"P{k}", round=r) for k in (1, 2) for r in range(trained)),
            "utility": (UtilityRow("rounds", float(trained)),),
        }
        records.append(case([], seed, replace(SETTING, parties=2, defense=defense), **fields))
    found = the_only(records)
    assert found.verdict == ("inconclusive" if open else "no leak")
    assert found.missing == ("rows come again in 2 rounds: what hides behind pruning 0.9 in one may not in all",) * open


@pytest.mark.parametrize(("rounds", "defense", "said"), [(3, "pruning", 1), (1, "pruning", 0), (3, "none", 0)])
def test_that_rows_come_again_behind_a_defense_is_said_beforehand(rounds, defense, said):
    hidden = {"name": defense} | ({"share": 0.9} if defense == "pruning" else {})
    settings = config(attacks={"use": ["span"]}, training={"rounds": rounds}, defense=hidden)
    lines = [line for line in verdicts_need(settings, cases(settings)) if line.startswith("Behind")]
    assert len(lines) == said


def test_rounds_that_the_server_attacked_are_none_that_a_client_did():
    """The server's claims about three rounds stood for those of clients, who had attacked the first alone."""
    records = []
    for seed in range(80):
        trials = [trial(0.5, f"P{k}", round=r) for k in (1, 2) for r in range(3)]
        trials += [trial(0.5, f"P{3 - k}", observers=(f"P{k}",)) for k in (1, 2)]
        fields = {"trials": tuple(trials), "utility": (UtilityRow("rounds", 3.0),)}
        records.append(case([], seed, replace(SETTING, parties=2), **fields))
    said = {r.adversary: r for r in rulings(records, POLICY) if r.asset == "records"}
    assert said.pop("server").verdict == "no leak"
    (client,) = said.values()
    assert client.missing == ("no claim about any batch of 2 of 3 rounds of training",)
    assert client.verdict == "inconclusive"


def test_a_round_whose_attack_had_nothing_to_say_is_not_said_to_be_unattacked():
    """An attack that abstained from the one round was followed by "1 of 1 rounds of training were not attacked"."""
    abstained = trial(None, "", status="abstained", baseline=None, metric="", reason="too noisy")
    fields = {"trials": (abstained,), "utility": (UtilityRow("rounds", 1.0),)}
    found = the_only([case([], s, **fields) for s in range(40)])
    assert "no claim about any batch of 1 of 1 round of training" in found.missing
    assert not any("not attacked" in m for m in found.missing)


def test_a_round_of_which_every_batch_was_left_out_is_one_without_a_claim():
    """One that spoke of round 0 alone had "1 of 3 rounds": what it said nothing of in round 1 has a round, too."""
    silent = trial(None, status="abstained", baseline=None, metric="", reason="too noisy", round=1)
    guess = trial(0.5, attack="random_baseline", round=1)
    fields = {"trials": (trial(0.5), silent, guess), "utility": (UtilityRow("rounds", 3.0),)}
    found = the_only([case([], s, **fields) for s in range(40)])
    assert "no claim about any batch of 2 of 3 rounds of training" in found.missing


@pytest.mark.parametrize(("use", "rounds", "said"), [("span", [0], 1), ("span", [0, 1, 2], 0), ("plaintext", [0], 0)])
def test_that_rounds_are_left_out_is_said_beforehand_where_rows_are_attacked(use, rounds, said):
    settings = config(attacks={"use": [use], "rounds": rounds}, audit={"seeds": list(range(40))})
    lines = [line.partition(",")[0] for line in verdicts_need(settings, cases(settings))]
    assert lines.count("attacks.rounds has 1 of up to 3 rounds") == said


@pytest.mark.parametrize(
    ("use", "training", "rounds", "clusters"),
    [
        ("span", {}, [0], 8),
        ("span", {"participation": 0.5}, [0], 4),
        ("span", {"participation": 0.01}, [0], 2),
        ("span", {"aggregation": "secure-aggregation"}, [0], 2),
        ("span", {"aggregation": "secure-aggregation"}, [0, 1, 2], 6),
        ("plaintext", {"participation": 0.5}, [0], 8),  # all parties are asked before training
    ],
)
def test_clusters_of_rows_are_those_who_take_part_in_a_round_and_one_where_updates_are_added_up(
    use, training, rounds, clusters
):
    """Three parties behind secure aggregation under two seeds were said to make six clusters at least: there were two,
    and that these show no leak in the mean was not said.
    """
    attacks, parties = {"use": [use], "rounds": rounds}, {"kind": "iid", "parties": 4}
    settings = config(attacks=attacks, training=training, audit={"seeds": [0, 1]}, partition=parties)
    assert fewest_clusters(settings, cases(settings)) == clusters
    few = [line for line in verdicts_need(settings, cases(settings)) if "cannot show a leak in the mean" in line]
    assert len(few) == (clusters < 5)


@pytest.mark.parametrize(
    ("use", "observers", "seeds", "ceiling", "said"),
    [
        ("span", ["clients"], 40, 0.2, []),
        ("span", ["clients"], 40, 0.1, ["That"]),  # an attack has power
        ("span", ["clients", "server + P1"], 40, 0.2, ["Evaluation"]),
        ("plaintext", ["clients"], 40, 0.1, ["attacks.use"]),
        ("plaintext", ["server"], 40, 0.1, ["attacks.use", "Evaluation"]),
        ("random_baseline", ["clients"], 40, 0.1, ["attacks.use"]),  # a guess reads nothing
        ("plaintext", ["server"], 28, 0.1, ['"No']),
    ],
)
def test_what_no_number_of_seeds_makes_safe_is_said_beforehand(use, observers, seeds, ceiling, said):
    """An audit of 29 seeds ran to its end before it said that it could not have ended with "no leak"."""
    chosen = {"seeds": list(range(seeds)), "observers": observers, "ceiling": ceiling}
    settings = config(attacks={"use": [use], "rounds": [0, 1, 2]}, audit=chosen)
    assert [line.split()[0] for line in verdicts_need(settings, cases(settings))] == said


def test_where_nothing_is_trained_nothing_is_said_of_training():
    """An attack on updates may be named beside those that read features, and has none there."""
    settings = config(
        attacks={"use": ["feature_exchange", "span"], "rounds": [0]}, audit={"seeds": list(range(40)), "ceiling": 0.1}
    )
    made = [replace(case, features=Features()) for case in cases(settings)]
    assert not list(verdicts_need(settings, made))


def test_of_a_sum_over_many_clients_reasons_say_how_many_and_not_all_their_names():
    many = ["+".join(f"P{k}" for k in range(first, first + 12)) for first in (1, 2)]
    setting = replace(SETTING, parties=14)

    def found(often, once, baseline, **fields):
        """The first of two sums has `once` in one of 40 clusters, else `often`; the second has what the prior has."""
        records = []
        for seed in range(40):
            values = once if seed == 7 else often, baseline
            fields |= {"observers": ("P14",), "baseline": baseline}
            trials = tuple(trial(v, m, **fields) for v, m in zip(values, many, strict=True))
            records.append(case([], seed, setting, trials=trials))
        return the_only(records)

    assert found(0.8, 0.8, 0.5).reasons == ("tableak by P14 gets more than the prior of 12 clients together",)
    batch = "tableak by P14 gets more than the prior in one batch, of 12 clients together under seed 7"
    assert found(0.5, 1.0, 0.5, spread=0.01, draws=40).reasons == (batch,)
    once = found(0.0005, 1.0, 0.0005).missing
    assert "tableak by P14 gets 1.00 of 12 clients together under seed 7, where the prior gets 0.00" in once
    assert any(" of 12 clients together, in 40 independent clusters" in why for why in once)


def test_batches_in_which_the_prior_is_better_do_not_make_up_for_those_that_leak():
    """One batch in five tells 60 % of what the prior leaves; losses in the others bring the mean to -0.02."""
    found = the_only([case([0.42 if s % 5 else 0.8], s, ALONE) for s in range(120)])
    assert found.advantage < 0
    assert found.verdict == "inconclusive"
    assert [said.partition(",")[0] for said in found.missing] == ["tableak by server may get up to 0.17"]


@pytest.mark.parametrize(("asset", "metric"), [("vocabulary", "f1"), ("statistics", "mean"), ("membership", "auc")])
def test_a_party_that_no_attack_claims_anything_about_forbids_that_nothing_leaks(asset, metric):
    def told(seed, parties):
        trials = tuple(trial(0.5, f"P{k + 1}", asset=asset, metric=metric) for k in range(parties))
        return case([], seed, trials=trials)

    assert the_only([told(s, 4) for s in range(80)]).verdict == "no leak"
    found = the_only([told(s, 3) for s in range(80)])
    assert (found.verdict, found.missing) == ("inconclusive", ("no claim by server about 1 of 4 parties",))
    once = the_only([told(s, 4 if s else 2) for s in range(80)])
    assert once.missing == ("no claim by server about 2 of 4 parties in 1 of 80 seeds",)


@pytest.mark.parametrize("spoken", [80, 0])
def test_a_question_that_an_attack_passes_over_while_it_answers_another_is_open(spoken):
    """Of counts it says something under each of 100 seeds, of means under 80 of them, or for one client alone."""

    def told(metric, who):
        fields = {"attack": "statistics", "asset": "statistics", "metric": metric, "observers": (who,)}
        return [trial(0.5, f"P{k + 1}", **fields) for k in range(4) if f"P{k + 1}" != who]

    def of_seed(seed):
        own = [told("count", "P1"), told("count", "P2"), told("mean", "P1"), told("mean", "P2") * (seed < spoken)]
        return case([], seed, trials=tuple(t for trials in own for t in trials))

    controls = tuple(replace(c, attack="statistics") for c in HELD)
    found = ruled([replace(of_seed(s), controls=controls) for s in range(100)])
    assert found["a", "one client", "count"].verdict == "no leak"
    some = " in 20 of 100 seeds" if spoken else ""
    assert found["a", "one client", "mean"].missing == (f"no claim by P2 about 3 of 3 parties{some}",)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"unread": (Unread(("P2",), "toy.x", "value", 3, "no attack"),)}, "1 kind of message unread: toy.x"),
        ({"findings": (Finding("plaintext", ("P2",), "server", "stated-pooled", "-"),)}, "no attack made a claim"),
    ],
)
def test_an_adversary_of_whom_nothing_was_scored_has_a_verdict_that_is_open(change, why):
    """What it was told follows into no score, and the audit said "no leak" as if it had not been played."""
    records = [replace(r, **change) for r in guesses(80)]
    found = ruled(records)
    assert found["a", "server", "records"].verdict == "no leak"
    assert found["a", "one client", "records"].verdict == "inconclusive"
    assert why in found["a", "one client", "records"].missing
    assert said(records).status == "inconclusive"


def test_a_score_that_is_no_number_bounds_nothing():
    assert the_only([case([float("nan")] * 4, s) for s in range(80)]).verdict == "inconclusive"


@pytest.mark.parametrize(
    ("prior", "draws", "verdict"),
    [(0.0, 40, "inconclusive"), (0.0, 0, "inconclusive"), (0.0001, 0, "inconclusive"), (0.02, 0, "no leak")],
)
def test_one_batch_that_is_told_whole_is_not_safe_where_nothing_says_how_the_prior_scatters(prior, draws, verdict):
    """One of 80 seeds was told whole, and the mean bounded below 0.1 read "no leak"; luck, where the prior has one in
    fifty right by itself.
    """

    def seed(k):
        values = [float(k == 7 and v == 0) or prior for v in range(4)]
        of = {"baseline": prior, "spread": 0.0, "draws": draws, "metric": "accuracy"}
        return case([], k, trials=tuple(trial(x, f"P{v}", **of) for v, x in enumerate(values)))

    found = the_only([seed(k) for k in range(80)])
    assert found.verdict == verdict
    if verdict == "inconclusive":
        assert found.missing == (f"tableak by server gets 1.00 of P0 under seed 7, where the prior gets {prior:.2f}",)


def test_an_observer_is_no_party_that_is_left_out():
    observed = {"observers": ("P4", "server"), "asset": "vocabulary", "metric": "f1"}
    trials = [trial(0.5, f"P{k + 1}", **observed) for k in range(3)]
    assert the_only([case([], s, trials=tuple(trials)) for s in range(80)]).verdict == "no leak"


def test_the_pooled_reference_is_no_setting_of_a_federation():
    reference = replace(SETTING, id="pooled", reference=True)
    records = [case([0.9] * 8, 0, reference), *guesses(80)]
    assert set(ruled(records)) == {("a", "server", "records")}
    found = said(records)
    assert found.status == "no leak"
    assert "pooled reference 0.500" in found.utility


def test_the_floor_says_how_much_counts_as_a_leak():
    records = [case([0.52] * 4, s) for s in range(10)]
    assert the_only(records, Policy(floor=0.01)).verdict == "leaks"
    assert the_only(records, Policy(floor=0.05)).verdict == "inconclusive"


def test_twenty_null_settings_are_seldom_called_a_leak_and_one_leak_among_them_is_found():
    coins, wrong = np.random.default_rng(3), 0
    for _ in range(60):
        records = [
            case(coins.normal(0.505, 0.05, 1), s, replace(SETTING, id=f"s{k}")) for k in range(20) for s in range(8)
        ]
        wrong += any(r.verdict == "leaks" for r in rulings(records, POLICY))
    assert wrong <= 8  # 60 audits at 5 %: 3 are expected, more than 8 in one of 300
    leaky = [*records, *(case(coins.normal(0.9, 0.05, 4), s, replace(SETTING, id="leaky")) for s in range(8))]
    assert ruled(leaky)["leaky", "server", "records"].verdict == "leaks"


def test_the_sentence_says_what_leaks_and_how_surely():
    found = said([case([0.9, 0.8, 0.95, 0.85], s) for s in range(2)])
    assert found.status == "leaks"
    start = "Leaks in 1 of 1 setting: tableak by server gets 87.5% of cells of records under a (prior alone 50.0%"
    assert found.leakage.startswith(start)
    assert "Best F1 0.550 by a" in found.utility


def test_the_sentence_on_utility_has_an_interval_and_what_a_model_that_learnt_nothing_has():
    def utility_of(**metrics):
        rows = [UtilityScore("s", "a", "", "", "none", "t", m, 0.747, low, 0.78, 3) for m, low in metrics.items()]
        return verdict([], [], [], rows).utility

    said = utility_of(f1=0.71, majority_f1=0.71)
    assert said == "Best F1 0.747 (0.710 to 0.780) by a, t; who always says the commonest class has 0.747."
    assert utility_of(r2=None) == "Best R² 0.747 by a, t."


def test_what_the_bits_show_is_not_said_in_the_words_of_the_hits():
    """A prior that knows every mean within its tolerance may still be told all digits."""

    def told(seed):
        fields = {"attack": "statistics", "asset": "statistics"}
        shares = [trial(1.0, f"P{k}", metric="mean", **{**fields, "baseline": 1.0}) for k in range(4)]
        bits = [
            trial(0.6 + seed / 100, f"P{k}", metric="mean_information", **{**fields, "baseline": 0.0}) for k in range(4)
        ]
        held = (Control("statistics", "leaky", 1.0, 0.0, 1.0, True, "recovered"),)
        return CaseRecord(f"a-{seed}", SETTING, seed, (*shares, *bits), controls=held)

    found = said([told(s) for s in range(6)])
    assert found.status == "leaks"
    assert "statistics by server gets 62% of what the prior leaves of the bits of local means under a" in found.leakage
    assert "prior alone" not in found.leakage


def test_an_audit_without_scores_or_with_missing_cases_is_inconclusive():
    empty = CaseRecord("a", SETTING, 0)
    assert verdict([empty], rulings([empty], POLICY), (), ()).status == "inconclusive"
    records = guesses(80)
    found = verdict(records, rulings(records, POLICY), scores(records), utility(records), missing=2)
    assert (found.status, found.leakage) == ("inconclusive", "Inconclusive: 2 cases did not run to the end.")


def test_the_policy_is_that_of_the_configuration():
    assert policy_of({"audit": {"ceiling": 0.2, "floor": 0.0, "alpha": 0.1}}) == Policy(0.0, 0.2, 0.1)
    assert policy_of({}) == Policy()


def test_what_a_verdict_takes_is_said_beforehand():
    few = list(needs(POLICY, 1, 3))
    assert "3 clusters per setting cannot show a leak in the mean" in few[0]
    assert "needs at least 29 seeds; audit.seeds has 1" in few[1]
    assert list(needs(POLICY, 40, 160)) == []


@pytest.mark.parametrize("metric", ["tpr_at_0.1%", "tpr_at_1%"])
def test_a_few_members_that_are_sure_forbid_that_nothing_leaks_though_the_ranking_gains_nothing(metric):
    def ranked(rate):
        told = {"asset": "membership", "baseline": 0.1, "metric": metric}
        auc = trial(0.9, asset="membership", metric="auc", baseline=0.9)
        return the_only([case([], s, ALONE, trials=(auc, trial(rate, **told))) for s in range(80)])

    assert ranked(0.1).verdict == "no leak"
    found = ranked(0.6)
    assert (found.verdict, found.metric) == ("inconclusive", "auc")
    assert found.missing[0].startswith("tableak by server may get up to 0.5")


@pytest.mark.parametrize(
    ("asset", "headline", "beside"), [("columns", "correlation", "exact_values"), ("vocabulary", "f1", "count_rank")]
)
def test_what_is_got_beside_the_headline_metric_forbids_that_nothing_leaks(asset, headline, beside):
    """Six values of ten are exact and the others far off, so that the column does not correlate; or the values were
    known, and how often each occurs was not.
    """

    def told(value):
        whole = trial(0.5, asset=asset, metric=headline, baseline=0.5)
        also = trial(value, asset=asset, metric=beside, baseline=0.1)
        return the_only([case([], s, ALONE, trials=(whole, also)) for s in range(80)])

    assert told(0.1).verdict == "no leak"
    found = told(0.6)
    assert (found.verdict, found.metric) == ("inconclusive", headline)
    assert found.missing[0].startswith("tableak by server may get up to 0.5")


def test_that_several_clients_learn_nothing_for_one_reason_is_said_once():
    silent = [
        trial(None, "", observers=(who,), status="abstained", metric="", baseline=None, reason="nothing to read")
        for who in ("P1", "P2", "P3")
    ]
    found = ruled([case([], 0, trials=tuple(silent))])["a", "one client", "records"]
    assert found.missing.count("tableak made no claim: nothing to read") == 1
