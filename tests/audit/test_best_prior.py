"""The best prior-only batch: what it is made from, that it is found, and that nothing of the attacked rows is in it."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.attacks.base import AuxiliaryKnowledge, RecordsClaim
from leakledger.attacks.observed.barycentre import assigned, barycentre, densest
from leakledger.audit.cells import TOLERANCE, Cells
from leakledger.audit.scoring import best_prior as module
from leakledger.audit.scoring.best_prior import BestPrior, best_prior, chosen, guesses
from leakledger.audit.scoring.records import measure
from leakledger.audit.scoring.target_batches import Batches, Population, population_without, target_batches
from tests.audit.example import truth

T = truth()
VICTIM = T.parties[0]
BATCH = T.batch(VICTIM, 0)
OTHERS = population_without(T, VICTIM, 0)


def as_rows(cells):
    return [(*c, *n) for c, n in zip(cells.categories.tolist(), cells.numbers.tolist(), strict=True)]


def small(seed, batches=30, rows=3):
    """Batches of two categories and one number, the tolerance of the number, and its unit."""
    coins = np.random.default_rng(seed)
    made = Batches(coins.integers(0, 3, (batches, rows, 2)), coins.integers(0, 8, (batches, rows, 1)).astype(float))
    return made, np.array([1.0]), np.array([1.0 / TOLERANCE])


def claim(batch=BATCH, layout=None, victim=VICTIM):
    doubt = np.zeros(batch.categories.shape), np.zeros(batch.numbers.shape)
    return RecordsClaim(victim, 0, batch.categories, batch.numbers, *doubt, layout=layout)


def test_the_rows_under_attack_are_no_part_of_the_population_and_all_others_are():
    own = len(np.unique(np.concatenate(T.federated.batches[VICTIM, 0])))
    assert len(OTHERS) == len(T.population) - own
    everything, left = sorted(as_rows(T.population)), sorted(as_rows(OTHERS.cells))
    assert sorted(left + as_rows(BATCH)) == everything
    assert (OTHERS.owner == 0).sum() == len(T.federated.train[VICTIM]) - own


def test_a_simulated_batch_has_the_rows_of_one_client_and_the_labels_that_are_known():
    labels = T.labels(VICTIM, 0)[: len(BATCH)]
    counts = OTHERS.counts(labels)
    assert sum(n for _, n in counts) == len(BATCH)
    marked = replace(OTHERS, cells=Cells(np.c_[OTHERS.owner, OTHERS.stratum], np.zeros((len(OTHERS), 0))))
    made = target_batches(marked, len(BATCH), counts, 40, np.random.default_rng(0)).categories
    assert all(len(np.unique(batch[:, 0])) == 1 for batch in made)
    assert set(made[:, 0, 0].tolist()) == {0, 1, 2}
    for batch in made:
        strata, rows = np.unique(batch[:, 1], return_counts=True)
        assert tuple(zip(strata.tolist(), rows.tolist(), strict=True)) == counts


def test_rows_of_a_label_that_a_client_lacks_come_from_the_others_and_of_one_that_nobody_has_from_all():
    cells = Cells(np.arange(4)[:, None], np.zeros((4, 0)))
    of = Population(cells, np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1]), np.array([0.5]), np.zeros(0))
    assert of.rows(0, 1).tolist() == [3]
    assert of.rows(1, 0).tolist() == [2]
    assert of.rows(1, 7).tolist() == of.rows(0, 7).tolist() == [0, 1, 2, 3]


def test_continuous_labels_are_known_by_decile():
    labels = np.random.default_rng(0).normal(size=1000)
    of = replace(OTHERS, cuts=np.quantile(labels, np.arange(1, 10) / 10))
    assert of.counts(labels) == tuple((decile, 100) for decile in range(10))


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=12), st.integers(0, 3))
def test_the_densest_interval_is_that_of_a_search_over_all(values, tolerance):
    column = np.array(values, float)
    (middle,) = densest(column[:, None], tolerance + 0.5)
    within = [(np.abs(column - m) <= tolerance + 0.5).sum() for m in np.arange(-9, 9.5, 0.5)]
    assert (np.abs(column - middle) <= tolerance + 0.5).sum() == max(within)


def test_matching_is_the_best_of_all_permutations():
    made, tolerance, units = small(0)
    claimed = made.batch(7)
    order, wrong = assigned(claimed, made, tolerance)
    for m in range(len(made)):
        truth_rows = made.batch(m)
        right = [
            (claimed.categories == truth_rows.categories[list(p)]).sum()
            + (np.abs(claimed.numbers - truth_rows.numbers[list(p)]) <= 1).sum()
            for p in permutations(range(3))
        ]
        mine = truth_rows.take(order[m])
        assert (claimed.categories == mine.categories).sum() + (
            np.abs(claimed.numbers - mine.numbers) <= 1
        ).sum() == max(right)
    mean = np.mean([measure(claimed, made.batch(m), units)["accuracy"] for m in range(len(made))])
    assert 1 - wrong / 9 == pytest.approx(mean)  # the scorer's own figure


def test_no_start_is_left_worse_than_it_was_and_no_single_change_of_a_category_improves_the_end():
    made, tolerance, _ = small(1)
    for m in range(5):
        start = made.batch(m)
        end = barycentre(start, made, tolerance)
        order, wrong = assigned(end.rows, made, tolerance)
        assert end.wrong == wrong <= assigned(start, made, tolerance)[1]
        matched = np.take_along_axis(made.categories, order[:, :, None], 1)
        for value in range(3):
            changed = (matched == value).sum(0)
            assert (changed <= (matched == end.rows.categories).sum(0)).all()


def test_one_row_is_the_mode():
    made, tolerance, _ = small(2, batches=200, rows=1)
    rows = barycentre(made.batch(0), made, tolerance).rows
    for k in range(2):
        assert rows.categories[0, k] == np.bincount(made.categories[:, 0, k]).argmax()


def test_batches_that_are_all_alike_are_found_exactly():
    one, tolerance, _ = small(3, batches=1, rows=6)
    coins = np.random.default_rng(0)
    orders = [coins.permutation(6) for _ in range(20)]
    made = Batches(one.categories[0][orders], one.numbers[0][orders])
    assert barycentre(made.batch(0), made, tolerance).wrong == 0


def test_the_way_that_is_chosen_is_the_best_of_each_metric_on_other_batches():
    coins = np.random.default_rng(0)
    ways = guesses(OTHERS, len(BATCH), None, coins)
    assert set(ways) == {"drawn", "joint", "modal", "mean", "optimised", "closest"}
    best, spreads, trials = chosen(ways, OTHERS, T.deviations, len(BATCH), None, coins)
    assert set(best) == set(spreads) == set(measure(BATCH, BATCH, T.deviations))
    assert trials > 10
    assert 0 < spreads["accuracy"] < 0.5
    fresh = target_batches(OTHERS, len(BATCH), None, 300, np.random.default_rng(9))
    for metric, low_is_good in (("accuracy", False), ("worst_record", False), ("rmse", True)):
        means = {
            name: np.mean([measure(way(coins), fresh.batch(m), T.deviations)[metric] for m in range(300)])
            for name, way in ways.items()
        }
        ahead = (min if low_is_good else max)(means.values())
        luck = 3 * spreads[metric] / np.sqrt(trials)  # of the trials that it was chosen on
        assert means[best[metric]] == pytest.approx(ahead, abs=luck), metric
        assert luck < abs(ahead - (max if low_is_good else min)(means.values())), metric


def test_a_batch_beyond_the_largest_is_not_optimised(monkeypatch):
    monkeypatch.setattr(module, "LARGEST", len(BATCH) - 1)
    assert set(guesses(OTHERS, len(BATCH), None, np.random.default_rng(0))) == {"drawn", "joint", "modal", "mean"}


def test_the_baseline_is_a_score_of_rows_and_its_cells_have_its_accuracy():
    prior = best_prior(BATCH, OTHERS, T.deviations, None, np.random.default_rng(0), 5)
    assert prior.metrics.keys() == measure(BATCH, BATCH, T.deviations).keys()
    assert np.hstack([prior.categories, prior.numbers]).mean() == pytest.approx(prior.metrics["accuracy"])


def test_attacks_that_know_the_same_share_a_baseline_and_labels_make_another():
    kept = len(T.kept_baselines)
    labels = {(VICTIM, 0): T.labels(VICTIM, 0)}
    plain, knowing = (BestPrior(T, AuxiliaryKnowledge(known), 77, 3) for known in ({}, labels))
    first = plain.of(claim(), BATCH, T)
    assert plain.of(claim(BATCH.take(np.array([1]))), BATCH, T) is first
    assert BestPrior(T, AuxiliaryKnowledge(), 77, 3).of(claim(), BATCH, T) is first
    assert knowing.of(claim(), BATCH, T) is not first
    terms = T.in_terms_of(T.layout)
    assert plain.of(claim(layout=T.layout), terms.batch(VICTIM, 0), terms) is not first
    assert len(T.kept_baselines) == kept + 3


def test_the_truth_does_not_move_what_is_claimed_against_it():
    one, other = BATCH, T.batch(T.parties[1], 0)
    ways = [
        guesses(OTHERS, len(b), None, np.random.default_rng(3))["optimised"](np.random.default_rng())
        for b in (one, other)
    ]
    assert np.array_equal(ways[0].categories, ways[1].categories)
