import re
from dataclasses import replace

import numpy as np
import pytest

from leakledger.audit.gate.snapshot import snapshot
from leakledger.audit.records import SCORER, metric_title
from tests.audit.gate.made import (
    CONFIG,
    PRIOR,
    SEEDS,
    controls,
    decided,
    noise,
    only,
    record,
    silent,
    trial,
    unread,
)

FLAT = np.full(len(SEEDS), 0.4)
MARGIN = [{"margin": 0.1}]


def test_a_leak_that_grew_fails_and_one_that_stayed_passes():
    before = record(FLAT + noise(1))
    assert decided(record(FLAT + noise(2)), before, leakage=MARGIN).status == "pass"
    grown = decided(record(FLAT + 0.3 + noise(3)), before, leakage=MARGIN)
    assert (grown.status, grown.exit_code) == ("fail", 10)
    check = only(grown, "regression")
    assert check.difference == pytest.approx(0.3, abs=0.05)
    assert check.before == pytest.approx(0.4, abs=0.05)


def test_a_leak_that_shrank_passes():
    outcome = decided(record(FLAT - 0.3 + noise(3)), record(FLAT + noise(1)), leakage=MARGIN)
    assert (outcome.status, outcome.exit_code) == ("pass", 0)


def test_growth_that_is_sure_and_below_the_floor_does_not_fail():
    outcome = decided(record(FLAT + 0.02), record(FLAT), leakage=[{"margin": 0.1, "floor": 0.03}])
    assert outcome.status == "pass"
    assert decided(record(FLAT + 0.02), record(FLAT), leakage=[{"margin": 0.1, "floor": 0.01}]).status == "fail"


def test_what_is_not_significant_is_not_equal():
    wild = decided(record(FLAT + noise(4, 0.3)), record(FLAT + noise(5, 0.3)), leakage=[{"margin": 0.05}])
    assert (wild.status, wild.exit_code) == ("inconclusive", 11)
    check = only(wild, "regression")
    assert check.needed > check.clusters


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_fewer_than_five_clusters_never_pass_however_equal_they_are(count):
    few = record(FLAT[:count], seeds=SEEDS[:count])
    outcome = decided(few, few, leakage=MARGIN)
    assert outcome.status == "inconclusive"
    assert "from 5 on" in only(outcome, "regression").reasons[-1]


def test_an_attack_worse_than_the_prior_counts_as_the_prior():
    outcome = decided(record(np.zeros(12)), record(np.full(12, -5.0)), leakage=MARGIN)
    assert only(outcome, "regression").difference == 0
    assert outcome.status == "pass"


def test_the_worst_of_the_attacks_and_the_worst_record_decide():
    def metric(advantage):
        return lambda seed: (trial(advantage, metric="worst_record"), trial(0.1, attack="other"))

    held = (*controls(), *controls("other"))
    before = record(FLAT, more=metric(0.4), held=held)
    outcome = decided(record(FLAT, more=metric(0.9), held=held), before, leakage=MARGIN)
    assert outcome.status == "fail"
    assert only(outcome, "regression").metric == "worst_record"
    assert decided(record(FLAT, more=metric(0.4), held=held), before, leakage=MARGIN).status == "pass"


@pytest.mark.parametrize("kind", ["leaky", "null", "shuffled", "power"])
def test_a_failed_control_forbids_a_pass(kind):
    before = record(FLAT)
    outcome = decided(record(FLAT, held=controls(**{kind: False})), before, leakage=MARGIN)
    assert outcome.status == "inconclusive"
    assert f"the {kind} control of made did not hold in this run" in only(outcome, "regression").reasons


def test_an_attack_that_failed_a_control_shows_no_growth_and_one_without_power_does():
    grown, before = FLAT + 0.4, record(FLAT)
    for kind, status in (("null", "inconclusive"), ("power", "fail")):
        assert decided(record(grown, held=controls(**{kind: False})), before, leakage=MARGIN).status == status
    scorer = (*controls(), *controls(SCORER, leaky=False))
    assert decided(record(grown, held=scorer), before, leakage=MARGIN).status == "inconclusive"
    assert decided(record(grown), record(FLAT, held=controls(null=False)), leakage=MARGIN).status == "inconclusive"


def test_an_attack_without_a_leaky_control_measures_nothing():
    untried = tuple(c for c in controls() if c.kind != "leaky")
    assert decided(record(FLAT, held=untried), record(FLAT), leakage=MARGIN).status == "inconclusive"


def test_silence_is_the_prior_where_a_control_shows_that_the_attack_works_and_nothing_elsewhere():
    before = record(FLAT)
    assert decided(record(None), before, leakage=MARGIN).status == "pass"
    outcome = decided(record(None, held=controls(leaky=False)), before, leakage=MARGIN)
    assert outcome.status == "inconclusive"
    assert "the messages say nothing" in " ".join(only(outcome, "regression").reasons)


def test_an_attack_that_speaks_where_it_was_silent_has_grown():
    assert decided(record(FLAT), record(None), leakage=MARGIN).status == "fail"


def test_claims_about_clusters_of_which_the_baseline_has_none_are_no_pass():
    def some(seeds, advantage):
        return lambda seed: (trial(advantage if seed < 6 else 1.0, attack="other"),) if seed in seeds else ()

    both = (*controls(), *controls("other"))
    before = record(FLAT, more=some(range(6), 0.4), held=both)
    outcome = decided(record(FLAT, more=some(SEEDS, 0.4), held=both), before, leakage=MARGIN)
    (reason,) = only(outcome, "regression").reasons
    assert reason == "other makes claims about 6 clusters of which it had none before"
    assert decided(before, before, leakage=MARGIN).status == "pass"


def test_an_attack_that_speaks_under_more_seeds_than_before_has_grown_though_all_seeds_are_others():
    def every(made, step):
        return replace(made, cases=tuple(replace(c, trials=(silent(),)) if c.seed % step else c for c in made.cases))

    often, others = (record(np.full(60, 0.4), seeds=range(first, first + 60)) for first in (0, 100))
    wide = [{"margin": 0.3}]
    assert decided(others, often, leakage=wide).status == "pass"
    assert decided(every(others, 2), every(often, 2), leakage=wide).status == "pass"
    assert decided(every(others, 2), often, leakage=wide).status == "pass"
    assert decided(others, every(often, 2), leakage=wide).status == "fail"


def test_an_attack_that_is_no_longer_played_is_no_pass():
    both = (*controls(), *controls("other"))
    before = record(FLAT, more=lambda seed: (trial(0.1, attack="other"),), held=both)
    outcome = decided(record(FLAT), before, leakage=MARGIN)
    assert only(outcome, "regression").reasons == ("other was not played, and was before",)


def test_a_pass_names_the_kinds_that_no_attack_read_before_either():
    """Such a message may have carried a number and now carry rows: its name and how often it is sent stay the same."""
    made = record(FLAT, unread=[unread("train.model"), unread("toy.hint")])
    outcome = decided(made, made, leakage=MARGIN)
    assert outcome.status == "pass"
    assert "No attack reads toy.hint, train.model: whether what they tell has grown is not compared" in outcome.notes
    assert not any("No attack reads" in n for n in decided(record(FLAT), record(FLAT), leakage=MARGIN).notes)


def test_a_new_kind_of_message_that_nobody_reads_forbids_a_pass():
    before = record(FLAT, unread=[unread("train.model")])
    assert decided(record(FLAT, unread=[unread("train.model")]), before, leakage=MARGIN).status == "pass"
    outcome = decided(record(FLAT, unread=[unread("new.topic")]), before, leakage=MARGIN)
    assert "new.topic" in only(outcome, "regression").reasons[0]
    assert outcome.status == "inconclusive"


def test_batches_about_which_nothing_is_claimed_any_more_forbid_a_pass():
    before = record(FLAT, more=lambda seed: (trial(0.4, victim="P2"),))
    outcome = decided(record(FLAT), before, leakage=MARGIN)
    assert outcome.status == "inconclusive"
    assert "12 clusters" in only(outcome, "regression").reasons[0]


def test_other_seeds_are_compared_as_two_samples_and_said_so():
    seeds = [s + 100 for s in SEEDS]
    now = record(FLAT + noise(2), seeds=seeds)
    outcome = decided(now, record(FLAT + noise(1)), leakage=[{"margin": 0.3}])
    assert outcome.status == "pass"
    assert any("two samples" in n for n in outcome.notes)
    grown = record(FLAT + 0.3 + noise(2), seeds=seeds)
    assert decided(grown, record(FLAT + noise(1)), leakage=MARGIN).status == "fail"


def test_other_seeds_pass_below_no_margin_that_what_they_did_not_meet_may_exceed():
    now, before = record(np.ones(12), seeds=[s + 100 for s in SEEDS]), record(np.ones(12))
    outcome = decided(now, before, leakage=MARGIN)
    check = only(outcome, "regression")
    assert outcome.status == "inconclusive"
    assert check.high == pytest.approx(1 - 0.05 ** (1 / 12), abs=0.01)
    assert check.needed == 29
    assert "the same seeds as before would be compared in pairs" in check.reasons[-1]
    assert decided(record(np.ones(12)), before, leakage=MARGIN).status == "pass"


@pytest.mark.parametrize("told", [0.0, 1.0], ids=["nothing", "everything"])
def test_other_seeds_with_other_luck_of_the_prior_are_no_growth_of_what_is_told_in_full_or_not_at_all(told):
    def lucky(often):
        """The prior knows one batch in `often` by itself; the attack has all of the rest, or nothing."""

        def more(seed):
            prior = float(seed % often == 0)
            return (replace(trial(0, asset="held_out_rate"), value=max(prior, told), baseline=prior),)

        return more

    seeds = [s + 100 for s in SEEDS]
    before = record(FLAT, more=lucky(3))
    outcome = decided(record(FLAT, seeds=seeds, more=lucky(12)), before, leakage=[{"margin": 0.3}])
    (check,) = [c for c in outcome.checks if c.asset == "held_out_rate"]
    assert (check.observed, check.before) == pytest.approx((told, told))
    assert check.high == pytest.approx(1 - 0.05 ** (1 / 12), abs=0.01)  # what twelve seeds may have missed
    assert outcome.status == "pass"


def test_the_change_under_test_is_compared_and_a_change_of_how_it_is_measured_is_stale():
    before = record(FLAT)
    subject = {**CONFIG, "preprocessing": [{"encoder": "e", "sharing": "proportional"}]}
    outcome = decided(record(FLAT, config=subject, setting="s2"), before, leakage=MARGIN)
    assert outcome.baseline.changed == ("[preprocessing]",)
    assert outcome.status == "pass"
    attacks = {**CONFIG, "attacks": {"use": ["weaker"], "labels": "public"}}
    stale = decided(record(FLAT, config=attacks), before, leakage=MARGIN)
    assert (stale.status, stale.exit_code) == ("inconclusive", 11)
    assert "[attacks]" in stale.baseline.stale[0]


def test_too_many_checks_for_so_few_clusters_pass_none():
    def many(seed):
        return tuple(trial(0.4, observers=(f"P{k}",), asset="vocabulary", metric="f1") for k in range(2, 40))

    outcome = decided(record(FLAT[:5], seeds=SEEDS[:5], more=many), record(FLAT[:5], seeds=SEEDS[:5], more=many))
    assert outcome.status == "inconclusive"
    assert any(
        re.search("can fail none of .* pass none either; [67] can", r) for c in outcome.checks for r in c.reasons
    )


def test_an_unfinished_run_passes_nothing():
    outcome = decided(record(FLAT, missing=2), record(FLAT), leakage=MARGIN)
    assert outcome.status == "inconclusive"
    assert "2 cases" in only(outcome, "regression").reasons[0]


def test_ceilings_fail_above_and_are_certified_only_by_many_seeds():
    high = decided(record(FLAT + noise(1)), leakage=[{"ceiling": 0.2}])
    assert (only(high, "ceiling").status, high.exit_code) == ("fail", 10)
    assert only(decided(record(FLAT + noise(1)), leakage=[{"ceiling": 0.42}]), "ceiling").status == "inconclusive"
    many = tuple(range(60))
    low = record(np.full(60, 0.0), seeds=many, parties=1)
    assert decided(low, leakage=[{"ceiling": 0.1}]).status == "pass"
    mistrusted = record(np.full(60, 0.0), seeds=many, parties=1, held=controls(power=False))
    assert decided(mistrusted, leakage=[{"ceiling": 0.1}]).status == "inconclusive"
    doubtful = record(np.full(60, 0.0), seeds=many, parties=1, unread=[unread("t")])
    assert decided(doubtful, leakage=[{"ceiling": 0.1}]).status == "inconclusive"


def test_claims_about_more_parties_under_other_seeds_are_growth():
    def claims(seeds, *victims):
        return record(None, seeds=seeds, more=lambda seed: tuple(trial(0.5, victim=v) for v in victims))

    before, other = claims(range(40), "P1"), range(100, 140)
    assert decided(claims(other, "P1"), before, leakage=MARGIN).status == "pass"
    assert decided(claims(other, "P1", "P2", "P3"), before, leakage=MARGIN).status == "fail"


@pytest.mark.parametrize("metric", ["exact_rows", "identical_rows"])
def test_whole_rows_that_are_told_though_cells_gain_nothing_over_the_prior_have_grown(metric):
    """An attack that has one row of four and claims no other has fewer cells right than a good guess of all."""

    def rows(share):
        of = replace(trial(0.0, metric=metric), value=share, baseline=0.0)
        return record(np.full(len(SEEDS), -0.5), more=lambda seed: (of,))

    outcome = decided(rows(0.5), rows(0.0), leakage=MARGIN)
    assert outcome.exit_code == 10
    assert (
        f"made by server ({metric_title(metric)}) gets 0.50 of what the prior leaves"
        in only(outcome, "regression").reasons[0]
    )
    assert decided(rows(0.5), rows(0.5), leakage=MARGIN).exit_code == 0


@pytest.mark.parametrize(
    ("asset", "metric", "headline"),
    [
        ("records", "owner", "accuracy"),
        ("membership", "tpr_at_0.1%", "auc"),
        ("vocabulary", "count_rank", "f1"),
        ("columns", "exact_values", "correlation"),
    ],
)
def test_what_a_headline_metric_does_not_tell_has_grown_beside_it(asset, metric, headline):
    """Whose a row is, who surely holds a value, how often it occurs: all of it new, and the headline as before."""

    def audit(value):
        own = trial(0.4, asset=asset, metric=headline, victim="P1+P2")
        beside = replace(trial(0.0, asset=asset, metric=metric, victim="P1+P2"), value=value)
        made = record(None, more=lambda seed: (own, beside))
        return replace(made, cases=tuple(replace(c, trials=c.trials[1:]) for c in made.cases))

    outcome = decided(audit(1.0), audit(PRIOR), leakage=MARGIN)
    assert outcome.exit_code == 10
    assert (
        f"made by server ({metric_title(metric)}) gets 1.00 of what the prior leaves"
        in only(outcome, "regression").reasons[0]
    )
    assert decided(audit(1.0), audit(1.0), leakage=MARGIN).exit_code == 0


def test_batches_of_which_no_row_is_found_tell_no_owner():
    """`owner` is measured of identical rows alone: by luck of coins a batch has none, and that is no lost batch."""

    def audit(*lucky):
        def more(seed):
            yield trial(0.4, victim="P1+P2")
            if seed in lucky:
                yield replace(trial(0.0, metric="owner", victim="P1+P2"), value=1.0)

        made = record(None, more=lambda seed: tuple(more(seed)))
        return replace(made, cases=tuple(replace(c, trials=c.trials[1:]) for c in made.cases))

    assert decided(audit(*SEEDS[1:]), audit(*SEEDS), leakage=[{"margin": 0.3}]).exit_code == 0
    assert decided(audit(*SEEDS), audit(*SEEDS[1:]), leakage=[{"margin": 0.3}]).exit_code == 0
    assert decided(audit(*SEEDS), audit(), leakage=[{"margin": 0.3}]).exit_code == 10
    assert decided(audit(*SEEDS), audit(0), leakage=[{"margin": 0.3}]).exit_code == 10


def test_of_sums_over_other_clients_in_which_no_row_is_found_nothing_is_told_either():
    def audit(**owners):
        def more(seed):
            for victim, value in owners.items():
                yield trial(0.4, victim=victim.replace("_", "+"))
                if value is not None:
                    yield replace(trial(0.0, metric="owner", victim=victim.replace("_", "+")), value=value)

        made = record(None, more=lambda seed: tuple(more(seed)))
        return replace(made, cases=tuple(replace(c, trials=c.trials[1:]) for c in made.cases))

    some, all_of_them = audit(P1_P2=0.9, P1_P3=None), audit(P1_P2=0.9, P1_P3=0.9)
    assert decided(some, all_of_them, leakage=MARGIN).exit_code == 0
    assert decided(all_of_them, some, leakage=MARGIN).exit_code == 10
    assert {
        m.victim for s in snapshot(audit(P1_P2=0.9, P3=None)).measures for m in s.clusters if s.metric == "owner"
    } == {"P1+P2"}


def test_series_of_two_runs_that_share_no_cluster_are_open_without_a_warning():
    def audit(*attacked):
        return record(None, more=lambda seed: (trial(0.5, attack="other"),) if seed in attacked else ())

    outcome = decided(audit(5), audit(4), leakage=MARGIN)
    assert outcome.exit_code == 11
    assert any("no claim about 1 cluster that" in r for r in only(outcome, "regression").reasons)
