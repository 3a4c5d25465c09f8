"""Bounds on what is scored of records: that no adversary exceeds them, and what happens to one that does."""

from dataclasses import replace
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from leakledger.attacks.base import AuxiliaryKnowledge, RecordsClaim
from leakledger.audit.bounds import above_bounds, bound_checks, mean_bound
from leakledger.audit.case import cases
from leakledger.audit.cells import Cells
from leakledger.audit.federate import federate
from leakledger.audit.granted import attempts, granted_knowledge, make_attack
from leakledger.audit.leakage import adversary
from leakledger.audit.play import view_of
from leakledger.audit.records import CaseRecord, Control, Ruling, Setting, Trial
from leakledger.audit.scoring import score
from leakledger.audit.scoring.bounds import Bounds, Drawn, bounds_of_batch, covered, in_one_window, mechanism_of_batch
from leakledger.audit.summary import scores
from leakledger.audit.tables import print_verdict
from leakledger.audit.truth import Truth
from leakledger.audit.verdicts.policy import Policy
from leakledger.audit.verdicts.rulings import rulings
from leakledger.defenses.accounting.mechanism import GaussianMechanism
from leakledger.defenses.accounting.reconstruction import gaussian_success
from leakledger.defenses.gaussian_noise import GaussianNoise
from leakledger.preprocess.secret import PUBLIC_MASTER
from leakledger.reports.html import render
from tests.audit.example import config
from tests.audit.example import truth as true_of
from tests.reports.example import example

DP_SGD = {"name": "example-clipping", "clip_norm": 1.0, "then": [{"name": "gaussian-noise", "sigma": 0.25}]}
NOISE = {"name": "gaussian-noise", "sigma": 0.25}
CLIENT = {"name": "client-clipping", "clip_norm": 0.5, "then": [{"name": "gaussian-noise", "sigma": 0.25}]}
SETTING = Setting("a", "data", "iid", 4, "a", "a", "dp", "fedsgd", False)
HELD = tuple(Control("posterior", kind, 1.0, 0.0, 1.0, True, "recovered") for kind in ("leaky", "power"))


def random_table(seed, rows=9):
    coins = np.random.default_rng(seed)
    numbers = coins.normal(size=(rows, 2)).round(1)
    return Cells(coins.integers(2, size=(rows, 2)), numbers)


def near(table, guess, tolerance):
    same = (table.categories == guess[0]).all(1)
    return same & (np.abs(table.numbers - guess[1]) <= tolerance).all(1)


def most_by_trial(table, claims, tolerance):
    """The rows that the best of many claims are near to: every set of claims at rows, corners and midpoints of rows."""
    middles = [(a + b) / 2 for a in table.numbers for b in table.numbers]
    masks = {tuple(near(table, (c, n), tolerance)) for c in np.unique(table.categories, axis=0) for n in middles}
    sets = [np.array(m) for m in masks if any(m)]
    return max(int(np.any(some, axis=0).sum()) for some in combinations_with_replacement(sets, claims))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("claims", [1, 2, 3])
def test_no_set_of_claims_is_near_to_more_rows_than_the_count_says(seed, claims):
    table, tolerance = random_table(seed), np.array([0.7, 0.7])
    assert most_by_trial(table, claims, tolerance) <= covered(table, claims, tolerance) <= len(table)


def test_of_rows_that_are_far_apart_each_claim_is_near_to_one():
    table = Cells(np.zeros((5, 0), np.int64), 10.0 * np.arange(5)[:, None])
    assert [covered(table, m, np.array([0.1])) for m in (1, 2, 5, 9)] == [1, 2, 5, 5]


def test_claims_are_dealt_to_where_they_are_near_to_most():
    categories = np.repeat([0, 1, 2], [4, 2, 1])[:, None]
    table = Cells(categories, np.zeros((7, 1)))
    assert [covered(table, m, np.array([0.3])) for m in (1, 2, 3)] == [4, 6, 7]


def test_a_window_is_closed_and_twice_as_wide_as_the_tolerance():
    assert in_one_window(np.array([0.0, 1.0, 2.0, 2.1]), 1.0) == 3
    assert in_one_window(np.zeros(4), 0.0) == 4


def test_a_row_among_equally_likely_ones_has_the_bound_of_the_formula():
    table = Drawn(Cells(np.arange(100)[:, None], np.zeros((100, 0))), np.zeros(100))
    found = bounds_of_batch(GaussianMechanism(0.5), table, np.zeros(1), 1, np.zeros(0))
    assert found["exact_rows"] == pytest.approx(gaussian_success(0.01, 2.0))
    assert found["accuracy"] == pytest.approx(found["exact_rows"])
    assert "numeric_accuracy" not in found


def test_granted_labels_leave_fewer_rows_that_the_target_may_be():
    cells, labels = Cells(np.arange(100)[:, None], np.zeros((100, 0))), np.repeat([0, 1], [90, 10])
    blind = bounds_of_batch(GaussianMechanism(1.0), Drawn(cells, np.zeros(100)), np.zeros(2), 2, np.zeros(0))
    told = bounds_of_batch(GaussianMechanism(1.0), Drawn(cells, labels), np.array([1, 1]), 2, np.zeros(0))
    assert blind["exact_rows"] == pytest.approx(gaussian_success(2 / 99, 1.0))
    assert told["exact_rows"] == pytest.approx(gaussian_success(2 / 9, 1.0))


def test_cells_of_larger_batches_have_no_bound():
    table = Drawn(random_table(0), np.zeros(9))
    assert bounds_of_batch(GaussianMechanism(1.0), table, np.zeros(2), 2, np.ones(2)).keys() == {
        "exact_rows",
        "identical_rows",
    }


def test_who_knows_the_table_knows_a_batch_of_all_its_rows():
    table = Drawn(random_table(0), np.zeros(9))
    found = bounds_of_batch(GaussianMechanism(1.0), table, np.zeros(9), 9, np.ones(2))
    assert found == {"exact_rows": 1.0, "identical_rows": 1.0}


def test_rows_that_are_held_back_may_be_any():
    table = Drawn(Cells(np.arange(100)[:, None], np.zeros((100, 0))), np.zeros(100), held_back=20)
    found = bounds_of_batch(GaussianMechanism(1.0), table, np.zeros(1), 1, np.zeros(0))
    assert found["exact_rows"] == pytest.approx(gaussian_success(1 / 80, 1.0))


@pytest.mark.parametrize(
    ("defense", "training", "mu"),
    [
        (DP_SGD, {"rounds": 1, "batch_size": 4}, 1.0),
        (DP_SGD, {"rounds": 3, "batch_size": 2, "sampling": "poisson"}, 2.0),
        (CLIENT, {"rounds": 1, "batch_size": 4}, 2.0),
        (CLIENT, {"rounds": 1, "batch_size": 4, "algorithm": "fedavg"}, 2.0),
        (NOISE, {"rounds": 1, "batch_size": 4}, None),
        ({"name": "none"}, {"rounds": 1, "batch_size": 4}, None),
        ({"name": "example-clipping", "clip_norm": 1.0}, {"rounds": 1, "batch_size": 4}, None),
    ],
)
def test_one_update_of_a_case_is_as_private_as_its_defense_makes_it(defense, training, mu):
    truth = true_of(defense=defense, training=training)
    found = mechanism_of_batch(truth, "P1", 0)
    assert (found and found.mu) == (None if mu is None else pytest.approx(mu))


def claim_of(truth, victim="P1"):
    own = truth.batch(victim, 0)
    doubt = np.zeros(own.categories.shape), np.zeros(own.numbers.shape)
    return RecordsClaim(victim, 0, own.categories, own.numbers, *doubt)


def test_noise_without_clipping_bounds_nothing():
    truth = true_of(defense=NOISE)
    assert Bounds(truth, AuxiliaryKnowledge()).of(claim_of(truth), truth) == {}


def test_a_case_under_dp_sgd_has_bounds_below_one_for_whole_rows():
    truth = true_of(defense=DP_SGD)
    found = Bounds(truth, AuxiliaryKnowledge()).of(claim_of(truth), truth)
    assert 0 < found["identical_rows"] <= found["exact_rows"] < 1


@pytest.mark.parametrize("multiplier", [0.3, 1.0, 3.0])
def test_the_best_adversary_who_knows_the_table_stays_below_its_bound(multiplier):
    """Rows are unit vectors at will; the likeliest of them is claimed, which nothing beats."""
    coins, n, trials = np.random.default_rng(3), 30, 20_000
    gradients = coins.normal(size=(n, n))
    gradients /= np.linalg.norm(gradients, axis=1, keepdims=True)
    true = coins.integers(n, size=trials)
    seen = gradients[true] + multiplier * coins.standard_normal((trials, n))
    hits = (seen @ gradients.T).argmax(1) == true
    table = Drawn(Cells(np.arange(n)[:, None], np.zeros((n, 0))), np.zeros(n))
    bound = bounds_of_batch(GaussianMechanism(multiplier), table, np.zeros(1), 1, np.zeros(0))["exact_rows"]
    assert hits.mean() <= bound + 4 * (bound * (1 - bound) / trials) ** 0.5 + 1e-9
    assert hits.mean() > 0.5 * bound  # and it is not idle


def trial(value, bound, victim, **changes):
    fields = {"attack": "posterior", "observers": ("server",), "asset": "records", "metric": "exact_rows", "round": 0}
    return Trial(
        **{**fields, "victim": victim, "status": "scored", "value": value, "baseline": 0.0, **changes}, bound=bound
    )


def audit(value, bound, seeds=6):
    """Six seeds of four parties; the headline metric, which has no bound, is perfect."""
    headline = {"metric": "accuracy", "baseline": 0.5}
    return [
        CaseRecord(
            f"a-{seed}",
            SETTING,
            seed,
            trials=tuple(
                t for k in range(4) for t in (trial(value, bound, f"P{k}"), trial(1.0, None, f"P{k}", **headline))
            ),
            controls=HELD,
        )
        for seed in range(seeds)
    ]


def test_an_attack_above_its_bound_is_a_failed_control_and_its_leak_inconclusive():
    records = audit(0.9, 0.2)
    assert above_bounds(records) == {("a", "posterior")}
    assert {s.status for s in scores(records)} == {"inconclusive"}
    assert all("no adversary can exceed" in s.reason for s in scores(records))
    (ruling,) = rulings(records, Policy())
    assert ruling.verdict == "inconclusive"
    assert any("more than no adversary can" in m for m in ruling.missing)


def test_an_attack_below_its_bound_keeps_its_scores_and_its_leak():
    records = audit(0.1, 0.2)
    assert above_bounds(records) == frozenset()
    by = {s.metric: s for s in scores(records)}
    assert by["exact_rows"].bound == pytest.approx(0.2)
    assert by["accuracy"].bound is None
    (ruling,) = rulings(records, Policy())
    assert ruling.verdict == "leaks"


def test_luck_in_a_few_clusters_is_no_failed_control():
    records = audit(0.0, 0.2, seeds=2)
    lucky = replace(records[0], trials=(trial(1.0, 0.2, "P0"), *records[0].trials[1:]))
    (check,) = bound_checks([lucky, records[1]])
    assert check.passed
    assert check.low < 0.2 < check.high


def test_a_mean_of_clusters_of_which_one_has_no_bound_has_none():
    assert mean_bound([trial(0.1, 0.2, "P0"), trial(0.1, 0.4, "P1")]) == pytest.approx(0.3)
    assert mean_bound([trial(0.1, 0.2, "P0"), trial(0.1, None, "P1")]) is None
    assert bound_checks([CaseRecord("a", SETTING, 0, trials=(trial(0.1, None, "P0"),))]) == ()


def test_noise_that_is_declared_and_not_added_is_found_out(monkeypatch):
    """The exact attack on one row gets it whole, while the noise that is public would hide it."""
    monkeypatch.setattr(GaussianNoise, "protect", lambda self, update, coins: update)
    loud = {**DP_SGD, "then": [{"name": "gaussian-noise", "sigma": 3.0}]}
    settings = config(
        defense=loud, training={"rounds": 1, "batch_size": 1}, attacks={"use": ["span"]}, audit={"seeds": [0, 1, 2]}
    )
    records = []
    for case in cases(settings):
        truth = Truth(federate(settings, case, PUBLIC_MASTER))
        knowledge, attempted = granted_knowledge(settings, truth), attempts(settings, truth)
        attack = make_attack("span", settings, case)
        outcome = attack.run(view_of(("server",), truth), knowledge)
        trials = score(attack, ("server",), outcome, knowledge, truth, attempted, np.random.default_rng(0), 3)
        records.append(CaseRecord(case.id, case.setting, case.seed, trials=tuple(trials)))
    assert {attack for _, attack in above_bounds(records)} == {"span"}
    failed = [c for c in bound_checks(records) if not c.passed]
    assert {"exact_rows", "identical_rows"} <= {c.metric for c in failed}
    assert {s.status for s in scores(records) if s.value is not None} == {"inconclusive"}


def test_the_console_says_what_was_got_beside_the_bound_and_what_lies_above():
    console = Console(record=True, width=200)
    checks = (*bound_checks(audit(0.1, 0.2)), *bound_checks(audit(0.9, 0.2)))
    print_verdict(console, replace(example(), bounds=checks), Path("report.html"))
    lines = [line for line in console.export_text().splitlines() if "can be had" in line]
    assert len(lines) == 2
    assert "gets 0.900" in lines[0]
    assert lines[0].endswith("at most 0.200 can be had: above its bound, a failed control")
    assert lines[1].endswith("at most 0.200 can be had")
    print_verdict(console, replace(example(), bounds=bound_checks(audit(0.1, 0.2002))), Path("report.html"))
    assert "at most 0.201 can be had" in console.export_text()


def test_the_console_names_the_questions_that_stay_open_and_are_in_no_row():
    def line(*open_ones):
        console = Console(record=True, width=300)
        print_verdict(console, replace(example(), rulings=open_ones), Path("report.html"))
        return [text for text in console.export_text().splitlines() if text.startswith("Not answered")]

    unread = Ruling(
        "s", "server", "records", "inconclusive", 0.1, missing=("1 kind of message unread: train.gradient",)
    )
    too = replace(unread, asset="size")
    told = "Not answered: records, size by server in 1 of 1 setting: 1 kind of message unread: train.gradient."
    assert line(unread, too) == [told]
    apart = line(unread, replace(too, setting="t"))  # neither is open in both
    assert [text.partition(" by ")[0] for text in apart] == ["Not answered: records", "Not answered: size"]
    assert all("in 1 of 2 settings" in text for text in apart)
    assert line(replace(unread, verdict="leaks")) == []
    scored = next(s for s in example().scores if s.advantage is not None)
    assert line(Ruling(scored.setting, adversary(scored.observers), scored.asset, "inconclusive", 0.1)) == []
    assert len(line(*(replace(unread, adversary=f"{k} clients", missing=("few",)) for k in range(20)))) == 8


@pytest.mark.parametrize(
    ("advantage", "verdict", "told"),
    [
        (0.0, "leaks", True),
        (-0.4, "leaks", True),
        (None, "leaks", True),
        (0.01, "leaks", False),
        (0.0, "inconclusive", False),
    ],
)
def test_the_console_says_why_something_leaks_that_no_row_shows(advantage, verdict, told):
    scored = next(s for s in example().scores if s.detail is not None and s.defense != "none")
    least = replace(scored, advantage=advantage, advantage_low=None, advantage_high=None)
    why = ("span by P1 gets more than the prior of P3",)
    asked = Ruling(scored.setting, adversary(scored.observers), scored.asset, verdict, 0.1, reasons=why)
    console = Console(record=True, width=300)
    print_verdict(console, replace(example(), scores=(least,), rulings=(asked,)), Path("report.html"))
    text = console.export_text(clear=False)
    assert (f"{scored.setting}: {why[0]}." in text) == told
    many = tuple(replace(asked, setting=f"s{k}") for k in range(9))
    print_verdict(console, replace(example(), scores=(least,), rulings=many), Path("report.html"))
    assert ("1 more leak that no row shows is in the report." in console.export_text()) == (verdict == "leaks")


def test_the_console_has_the_attack_that_gets_most_of_those_with_one_verdict():
    """A weaker one stood beside the same verdict: "-0.60, leaks"."""
    best = next(s for s in example().scores if s.detail is not None and s.defense != "none")
    weak = replace(best, attack="linear_layer", advantage=-0.6, advantage_low=None, advantage_high=None)
    asked = Ruling(best.setting, adversary(best.observers), best.asset, "leaks", 0.1)
    console = Console(record=True, width=300)
    guess = replace(best, attack="random_baseline")
    print_verdict(console, replace(example(), scores=(weak, best, guess), rulings=(asked,)), Path("report.html"))
    table = console.export_text().partition("┗")[0]
    assert [name in table for name in (f"{best.attack} (", "linear_layer", "random_baseline")] == [True, False, True]
    assert "1 more row is in the report." in table


def test_the_console_takes_no_guess_for_a_finding():
    scored = next(s for s in example().scores if s.detail is not None and s.defense != "none")  # no reference
    guess = replace(scored, attack="random_baseline", advantage_low=scored.advantage_low + 0.001)
    asked = Ruling(scored.setting, adversary(scored.observers), scored.asset, "inconclusive", 0.1, missing=("few",))

    def told(*scores):
        console = Console(record=True, width=300)
        print_verdict(console, replace(example(), scores=scores, rulings=(asked,)), Path("report.html"))
        return console.export_text()

    assert f"Records under {scored.method}, {scored.defense}, by {scored.attack} (" in told(guess, scored)
    assert "Not answered: " not in told(guess, scored)
    assert "Records under" not in told(guess)
    assert "Not answered: records" in told(guess)


def test_the_report_shows_the_bound_beside_the_value():
    record = example()
    bounded = tuple(replace(s, bound=0.123) for s in record.scores)
    assert "no adversary above 0.123" in render(replace(record, scores=bounded))
    assert "no adversary above 0.123" not in render(record)
