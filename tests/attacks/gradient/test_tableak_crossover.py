from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.attacks.gradient.tableak.crossover import OFF, crossed, crossover_rng, crowded, stretches
from leakledger.attacks.observed.tabular import StructuralPrior
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, NumericBlock

PRIOR = StructuralPrior(
    FeatureLayout((NumericBlock("age", 0, 40.0, 13.0, 17.0, 90.0), CategoricalBlock("job", 1, 4))), {}
)
TOLERANCE = 0.319 * PRIOR.deviation
BATCH = SimpleNamespace(victim="ann", round=0, evidence=())


def restarts(count, rows, seed=0):
    """Units, variables, losses and the coins of a crossover; restarts hold the same rows in orders of their own."""
    draws = np.random.default_rng(seed)
    units = draws.dirichlet(np.ones(PRIOR.size), rows)
    order = np.stack([draws.permutation(rows) for _ in range(count)])
    variables = np.stack([np.arange(rows)[o, None] + 100.0 * i + np.zeros(PRIOR.size) for i, o in enumerate(order)])
    return units[order], variables, draws.permutation(count) / count, np.random.default_rng(seed)


@given(st.integers(1, 3000), st.integers(0, 20), st.integers(1, 40))
def test_stretches_are_all_iterations_in_order_the_first_the_longest(iterations, crossovers, restarts):
    parts = stretches(iterations, crossovers, restarts)
    assert [step for part in parts for step in part] == list(range(iterations))
    assert len(parts) in (1, crossovers + 1)
    assert len({len(p) for p in parts[1:]}) <= 1
    assert all(map(len, parts))
    assert len(parts[0]) >= 2 * len(parts[-1]) or len(parts) == 1


@pytest.mark.parametrize("arguments", [(1500, 0, 30), (1500, 4, 8), (5, 4, 30)])
def test_without_crossovers_or_with_too_little_to_cross_there_is_one_stretch(arguments):
    assert stretches(*arguments) == [range(arguments[0])]


def test_the_published_budget_is_split_into_a_fifth_and_eight_tenths():
    assert [len(s) for s in stretches(1500, 8, 30)] == [300, *[150] * 8]


@pytest.mark.parametrize(("count", "parents"), [(9, 3), (11, 3), (30, 10)])
def test_the_best_third_goes_on_as_it_is_in_the_order_of_the_best_one(count, parents):
    units, variables, losses, coins = restarts(count, 5)
    after = crossed(coins, PRIOR, units, variables, losses, np.zeros(units.shape[1], int), TOLERANCE)
    best = losses.argsort()[:parents]
    assert after.shape == variables.shape
    assert np.array_equal(after[0], variables[best[0]])
    assert np.array_equal(
        after[:parents] - 100.0 * best[:, None, None], np.repeat(after[:1] - 100.0 * best[0], parents, 0)
    )


@given(st.integers(9, 30), st.integers(1, 6), st.integers(0, 99))
def test_each_row_of_a_child_is_near_that_row_of_one_of_two_parents(count, rows, seed):
    units, variables, losses, coins = restarts(count, rows, seed)
    parents = count // 3
    after = crossed(coins, PRIOR, units, variables, losses, np.zeros(units.shape[1], int), TOLERANCE)
    for child in after[parents:]:
        far = np.abs(child - after[:parents]).max(-1)  # (parents, rows)
        assert (far.min(0) <= OFF).all()
        assert len(set(far.argmin(0))) <= 2


def test_children_take_rows_of_both_parents():
    units, variables, losses, coins = restarts(30, 8)
    after = crossed(coins, PRIOR, units, variables, losses, np.zeros(units.shape[1], int), TOLERANCE)
    origins = np.floor((after[10:, :, 0] + 50) / 100)  # which restart a row is of
    assert np.mean([len(set(child)) == 2 for child in origins]) > 0.9


@given(st.lists(st.integers(0, 2), min_size=1, max_size=7), st.integers(0, 99))
def test_a_row_stays_in_a_place_of_its_label(labels, seed):
    units, variables, losses, coins = restarts(12, len(labels), seed)
    place = np.arange(len(labels)) + 0.0
    variables = variables * 0 + 10.0 * place[:, None]  # every restart has other rows; these tell the places
    after = crossed(coins, PRIOR, units, variables, losses, np.array(labels), TOLERANCE)
    origin = np.round(after[:, :, 0] / 10).astype(int)
    assert (np.array(labels)[origin] == labels).all()
    assert (np.sort(origin[:4], axis=1) == place).all()


def test_no_two_restarts_are_copies_even_of_a_single_row():
    units, variables, losses, coins = restarts(30, 1)
    after = crossed(coins, PRIOR, units, variables, losses, np.zeros(units.shape[1], int), TOLERANCE)
    assert len({a.tobytes() for a in after}) == 30


def test_a_crossover_depends_on_seed_number_victim_and_round():
    other = [
        crossover_rng(0, BATCH, 0),
        crossover_rng(1, BATCH, 0),
        crossover_rng(0, BATCH, 1),
        crossover_rng(0, SimpleNamespace(victim="bob", round=0), 0),
        crossover_rng(0, SimpleNamespace(victim="ann", round=1), 0),
    ]
    assert len({c.random() for c in other}) == 5
    assert crossover_rng(0, BATCH, 0).random() == crossover_rng(0, BATCH, 0).random()


@pytest.mark.parametrize(
    ("hidden", "rows", "is_crowded"),
    [((100, 100), 33, False), ((100, 100), 34, True), ((400, 50), 17, True), ((400, 50), 16, False), ((), 128, False)],
)
def test_the_narrowest_layer_says_whether_a_batch_is_crowded(hidden, rows, is_crowded):
    assert crowded(hidden, rows) == is_crowded
