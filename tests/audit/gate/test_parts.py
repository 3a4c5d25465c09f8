import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from scipy import stats

from leakledger.audit.chain import canonical, digest_of
from leakledger.audit.gate import parts
from leakledger.audit.gate.baseline import FORMAT, _entry, moved, read_baseline, write_baseline
from leakledger.audit.gate.decide import gate
from leakledger.audit.gate.policy import policy_of
from leakledger.audit.gate.snapshot import snapshot
from leakledger.audit.records import CellDetail, FeatureShare, Finding
from tests.audit.gate.made import PRIOR, SEEDS, baseline, controls, decided, finding, only, record, trial

MARGIN = [{"margin": 0.1}]
PARTIES = [f"P{k}" for k in range(1, 13)]
COLUMNS = ["age", "ward", "sex"]
OTHERS = range(100, 112)


def federation(advantages, seeds=SEEDS, columns=(), held=None):
    """An audit of parties by name; of each its advantage, or (seeds, columns) advantages, or one for each column."""

    def more(seed):
        k = list(seeds).index(seed)
        for victim, of in advantages.items():
            each = np.asarray(of, float)
            each = each[k] if each.ndim == 2 else np.atleast_1d(each)
            shares = (
                FeatureShare(c, "numeric", PRIOR + x * (1 - PRIOR), PRIOR) for c, x in zip(columns, each, strict=False)
            )
            yield replace(trial(float(each.mean()), victim=victim), detail=CellDetail(tuple(shares)))

    made = record(None, seeds=seeds, more=lambda seed: tuple(more(seed)), held=held)
    return replace(made, cases=tuple(replace(c, trials=c.trials[1:]) for c in made.cases))  # none is silent


def parties(rest, **others):
    return dict.fromkeys(PARTIES, rest) | others


BEFORE = federation(parties(0.5, P7=0.0))
EXPOSED = federation(parties(0.35, P7=1.0))


def test_one_party_that_is_exposed_while_the_mean_falls_is_a_violation_that_names_it():
    outcome = decided(EXPOSED, BEFORE, leakage=MARGIN)
    check = only(outcome, "regression")
    assert outcome.exit_code == 10
    assert "of P7 gets 1.00 of what the prior leaves, 0.00 before" in check.reasons[0]
    assert (check.observed, check.before, check.difference) == pytest.approx((1.0, 0.0, 1.0))
    assert check.cost == pytest.approx(1.0)  # what a waiver would have to cover
    assert decided(BEFORE, BEFORE, leakage=MARGIN).exit_code == 0
    assert decided(BEFORE, EXPOSED, leakage=MARGIN).exit_code == 10  # eleven parties that tell a little more


def test_one_column_of_one_party_that_is_exposed_while_all_means_fall_is_a_violation_that_names_both():
    before = federation(parties([0.5, 0.5, 0.5], P7=[0.5, 0.5, 0.0]), columns=COLUMNS)
    after = federation(parties([0.4, 0.4, 0.4], P7=[0.0, 0.0, 0.9]), columns=COLUMNS)
    outcome = decided(after, before, leakage=MARGIN)
    reason = only(outcome, "regression").reasons[0]
    assert (outcome.exit_code, "of P7 in column sex gets 0.90" in reason) == (10, True)


def test_one_column_that_is_exposed_for_all_is_named_before_its_parties():
    before = federation(parties([0.5, 0.5, 0.0]), columns=COLUMNS)
    after = federation(parties([0.3, 0.3, 0.3]), columns=COLUMNS)
    check = only(decided(after, before, leakage=MARGIN), "regression")
    assert "in column sex gets 0.30 of what the prior leaves, 0.00" in check.reasons[0]
    assert "of P" not in check.reasons[0]
    assert check.reasons[1].endswith("; 10 more")


def test_other_seeds_show_a_party_that_is_exposed_too():
    assert decided(federation(parties(0.35, P7=1.0), OTHERS), BEFORE, leakage=MARGIN).exit_code == 10


def test_a_party_of_which_the_baseline_had_no_claim_is_compared_with_the_prior():
    before = federation({p: 0.5 for p in PARTIES if p != "P7"})
    outcome = decided(EXPOSED, before, leakage=MARGIN)
    assert (outcome.exit_code, "of P7 gets 1.00" in only(outcome, "regression").reasons[0]) == (10, True)


def test_an_attack_that_failed_a_control_shows_of_no_party_that_it_grew():
    held = controls(null=False)
    outcome = decided(federation(parties(0.35, P7=1.0), held=held), BEFORE, leakage=MARGIN)
    assert outcome.exit_code == 11


def test_growth_of_a_party_that_few_seeds_cannot_prove_is_open_and_no_growth_passes():
    few = SEEDS[:5]
    before, grown = federation(parties(0.5, P7=0.0), few), federation(parties(0.4, P7=0.6), few)
    assert decided(before, before, leakage=MARGIN).exit_code == 0
    outcome = decided(grown, before, leakage=MARGIN)
    reason = only(outcome, "regression").reasons[-1]
    assert outcome.exit_code == 11
    assert "may have grown alone, and more seeds tell" in reason
    assert "of P7, from 0.00 to 0.60" in reason


@pytest.mark.parametrize("seeds", [1, 2, 4])
def test_fewer_than_five_clusters_of_a_party_say_nothing_of_what_grew(seeds):
    few = SEEDS[:seeds]
    before, grown = federation(parties(0.5, P7=0.0), few), federation(parties(0.4, P7=0.6), few)
    assert decided(before, before, leakage=MARGIN).exit_code == 0
    assert decided(grown, before, leakage=MARGIN).exit_code == 11


def test_a_pass_says_how_many_parts_were_compared_and_what_grew_most_by_chance():
    coins = np.random.default_rng(3)
    two = [federation(parties(0.5, P7=0.5 + 0.5 * coins.random((12, 1)))) for _ in range(2)]
    lower, higher = sorted(two, key=lambda r: np.mean([t.value for c in r.cases for t in c.trials]))
    (reason,) = [r for r in only(decided(higher, lower, leakage=MARGIN), "regression").reasons if "single" in r]
    assert reason.startswith("of 12 single parties and columns none grew beyond chance")


def test_unchanged_parties_and_columns_fail_no_more_often_than_alpha():
    def ends(k):
        coins = np.random.default_rng([k, 5])
        runs = [
            federation({p: 0.4 + 0.2 * coins.standard_t(3, (12, 3)) for p in PARTIES[:4]}, columns=COLUMNS)
            for _ in range(2)
        ]
        return decided(*runs, leakage=[{"margin": 0.3}]).status

    failed = [ends(k) for k in range(100)].count("fail")
    assert stats.binomtest(failed, 100, 0.05, alternative="greater").pvalue > 1e-5, failed


def test_parts_share_a_fifth_of_the_level_and_nothing_where_there_are_none():
    assert parts.weighted([0.01, 0.5], []) == pytest.approx([0.02, 1.0])
    assert parts.weighted([0.01], [0.001] * 4) == pytest.approx([0.0125, *[0.02] * 4])


def of_version_1(path, made):
    """Writes the baseline of a run as the first version of the format had it."""
    write_baseline(path, baseline(made))
    plain = json.loads(path.read_text())
    old = plain["snapshot"]
    del old["columns"]
    for m in old["measures"]:
        del m["column"]
    for f in old["facts"]:
        del f["shown"]
    kept = moved(snapshot(made), "A. Person", "first", now="2026-11-01")
    move = replace(kept.last, content=digest_of(canonical(old)))
    move = replace(move, head=_entry(move, ()).head)
    path.write_text(json.dumps({"format": FORMAT, "version": 1, "history": [asdict(move)], "snapshot": old}))


def test_a_baseline_of_version_1_is_read_and_what_it_lacks_is_open_until_it_is_written_anew(tmp_path):
    path = tmp_path / "b.json"
    before = federation(parties([0.5, 0.5, 0.5]), columns=COLUMNS)
    of_version_1(path, before)
    kept = read_baseline(path)

    def against(now):
        return gate(now, policy_of({"leakage": MARGIN}), (str(path), kept))

    outcome = against(before)
    assert (outcome.exit_code, kept.snapshot.columns) == (11, None)
    assert any("version 1" in n and "single columns" in n and "baseline save" in n for n in outcome.notes)
    assert any("single columns" in r for r in only(outcome, "regression").reasons)
    exposed = federation(parties([0.3, 0.3, 0.3], P7=[1.0, 1.0, 1.0]), columns=COLUMNS)
    assert "of P7" in only(against(exposed), "regression").reasons[0]  # parties it held before
    write_baseline(path, moved(snapshot(before), "B", "anew", kept.history))
    again = read_baseline(path)
    assert (len(again.history), gate(before, policy_of({"leakage": MARGIN}), ("b", again)).exit_code) == (2, 0)


def told(*parties, **some):
    """An audit in which a check fired about these parties, about others under some seeds alone."""
    fired = [finding(party=p) for p in parties] + [(finding(party=p), seeds) for p, seeds in some.items()]
    return record(np.full(12, 0.4), findings=fired)


@pytest.mark.parametrize(
    ("now", "status", "said"),
    [
        (told("P1"), "pass", "in 12 of 12 seeds"),
        (told("P1", "P2"), "fail", "of P2 to server in 12 of 12 seeds, 0 before"),
        (told("P2"), "fail", "of P2"),
        (told("P1", P2=range(8)), "fail", "of P2 to server in 8 of 12 seeds, 0 before"),
        (told("P1", P2=range(4), P3=range(4)), "inconclusive", "of P2 to server in 4 of 12 seeds, 0 before"),
        (told("P1", P2=range(1)), "pass", ""),
    ],
)
def test_a_finding_of_another_party_than_the_baseline_had_it_of_is_new(now, status, said):
    check = only(decided(now, told("P1"), leakage=MARGIN), "finding")
    assert (check.status, said in check.reasons[0]) == (status, True)


def test_a_finding_before_other_eyes_than_the_baseline_had_it_is_new():
    def seen(*clients):
        fired = [
            Finding("sac_audit", (c,), "P9", "plaintext-told", "P9's numbers travel in the clear") for c in clients
        ]
        return record(np.full(12, 0.4), findings=fired)

    check = only(decided(seen("P1", "P2"), seen("P1"), leakage=MARGIN), "finding")
    assert (check.status, "of P9 to P2" in check.reasons[0]) == ("fail", True)


def test_rows_that_are_proven_of_another_party_are_new():
    def proven(victim):
        return record(np.full(12, 0.4), more=lambda seed: (trial(0.4, victim=victim, certain=2),))

    assert only(decided(proven("P1"), proven("P1"), leakage=MARGIN), "finding").status == "pass"
    assert only(decided(proven("P2"), proven("P1"), leakage=MARGIN), "finding").status == "fail"


def test_a_baseline_of_version_1_does_not_say_of_whom_a_finding_is(tmp_path):
    of_version_1(tmp_path / "b.json", told("P1"))
    kept = read_baseline(tmp_path / "b.json")
    outcome = gate(told("P1", "P2"), policy_of({"leakage": MARGIN}), ("b.json", kept))
    check = only(outcome, "finding")
    assert (check.status, outcome.exit_code, "version 1" in check.reasons[0]) == ("inconclusive", 11, True)


@pytest.mark.parametrize(("seeds", "status"), [(1, "inconclusive"), (2, "inconclusive"), (5, "fail")])
def test_a_finding_of_another_party_under_few_seeds_may_be_chance(seeds, status):
    def fired(party):
        return record(np.full(12, 0.4), seeds=SEEDS[:seeds], findings=[finding(party=party)])

    assert only(decided(fired("P2"), fired("P1"), leakage=MARGIN), "finding").status == status
