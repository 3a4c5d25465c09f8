"""The prior of the posterior attack: what facts say of cells, and a tree of which values go together."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.gradient.posterior.cells import cells_of, tilted
from leakledger.attacks.gradient.posterior.chains import Chains, from_prior, prior_of
from leakledger.attacks.gradient.posterior.dependence import known_rows, linked
from leakledger.attacks.observed.row_facts import RowFacts
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, NumericBlock
from tests.attacks.gradient.posterior_example import TINY, drawn, evidence_about, tiny

FALSE_ALARMS = 1e-4
WARDS = CategoricalBlock("ward", 0, 3, ("east", "north", "west"))
AGE = NumericBlock("age", 0, shift=40.0, scale=13.0, low=20.0, high=80.0, integer=True, unit="deviation")


def shares(block, **facts):
    """The prior of the block's cell, and its cell."""
    categorical, numeric = cells_of(FeatureLayout((block,)), AuxiliaryKnowledge(), "cpu", RowFacts(**facts))
    (cell,) = (*categorical, *numeric)
    return np.exp(cell.log_prior.double().numpy()), cell


def moments(block, **facts):
    p, cell = shares(block, **facts)
    mean = p @ cell.raw
    return mean, np.sqrt(p @ (cell.raw - mean) ** 2)


def test_a_column_of_zeros_and_ones_has_its_mean_for_frequency():
    block = NumericBlock("owns", 0, shift=0.1, scale=0.3, integer=True, unit="deviation")
    p, cell = shares(block)
    assert cell.raw.tolist() == [0.0, 1.0]
    assert p[1] == pytest.approx(0.1, abs=1e-4)
    p, cell = shares(NumericBlock("owns", 0, shift=0.1, scale=0.4, integer=True))
    assert len(cell.raw) > 2
    assert len(shares(NumericBlock("owns", 0, shift=0.1, scale=0.3, integer=True, unit="quartiles"))[1].raw) > 2
    p, _ = shares(NumericBlock("owns", 0, shift=0.0, scale=1.0, low=0.0, high=1.0, integer=True))
    assert p == pytest.approx([0.5, 0.5])  # scaled by its range: nothing says how many are 1


def test_a_client_s_own_moments_go_before_the_public_ones():
    assert moments(AGE) == pytest.approx((40, 13), rel=0.01)
    assert moments(AGE, moments={"age": (55.0, 6.0)}) == pytest.approx((55, 6), rel=0.01)
    assert moments(AGE, moments={"age": (30.0, 0.0)}) == pytest.approx((30, 0), abs=0.1)


def test_how_often_a_client_said_that_it_holds_a_value_goes_before_public_and_granted_shares_and_known_rows():
    told = np.array([0.1, 0.2, 0.7])
    rows = {"ward": np.array(["east"] * 90 + ["west"])}
    assert shares(WARDS, rows=rows)[0][0] > 0.9
    assert shares(WARDS, rows=rows, shares={"ward": told})[0] == pytest.approx(told, abs=1e-4)
    granted = AuxiliaryKnowledge(marginals={"ward": (WARDS.values, np.array([0.8, 0.1, 0.1]))})
    for facts, expected in ((RowFacts(), [0.8, 0.1, 0.1]), (RowFacts(shares={"ward": told}), told)):
        (cell,), _ = cells_of(FeatureLayout((WARDS,)), granted, "cpu", facts)
        assert np.exp(cell.log_prior.numpy()) == pytest.approx(expected, abs=1e-4)


def test_a_column_in_unknown_units_that_is_standardised_is_not_even():
    assert moments(NumericBlock("age", 0), moments={"age": (0.0, 1.0)}) == pytest.approx((0, 1), abs=0.01)
    assert moments(NumericBlock("age", 0))[1] == pytest.approx(8 / np.sqrt(12), rel=0.01)


def test_a_column_scaled_by_its_quartiles_has_them_for_a_prior():
    _, std = moments(NumericBlock("age", 0, shift=40.0, scale=13.0, unit="quartiles"))
    assert std == pytest.approx(13 / 1.349, rel=0.02)


def test_values_beyond_the_client_s_extremes_are_next_to_impossible():
    p, cell = shares(AGE, extremes={"age": (30.0, 50.0)})
    inside = (cell.raw >= 30) & (cell.raw <= 50)
    assert p[~inside].sum() < 1e-4
    assert (p > 0).all()


def test_candidates_that_a_client_does_not_hold_are_next_to_impossible():
    p, _ = shares(WARDS, held={"ward": frozenset({"east", "west"})})
    assert p == pytest.approx([0.5, 0, 0.5], abs=1e-4)
    assert (p > 0).all()
    p, _ = shares(CategoricalBlock("ward", 0, 3), sizes={"ward": 2})
    assert p == pytest.approx([0.5, 0.5, 0], abs=1e-4)
    p, _ = shares(WARDS, held={"ward": frozenset({"elsewhere"})})
    assert p == pytest.approx([1 / 3] * 3)


def test_known_rows_say_how_common_values_are():
    ward = np.array(["east"] * 90 + ["north"] * 10)
    p, _ = shares(WARDS, rows={"ward": ward})
    assert p == pytest.approx([0.9, 0.1, 0], abs=0.02)
    assert p[2] > 1e-3
    age = np.array([25.0, 25.0, 70.0, np.nan] * 25)
    p, cell = shares(AGE, rows={"age": age}, rows_of="client")
    assert p[cell.raw == 25] > 0.3
    assert p[cell.raw == 70] > 0.15
    mean, std = moments(AGE, rows={"age": age}, rows_of="population", moments={"age": (45.0, 10.0)})
    assert (mean, std) == pytest.approx((45, 10), rel=0.01)  # of their shape, with the client's own moments


GAIN = NumericBlock("gain", 0, shift=2000.0, scale=7000.0, low=0.0, high=100_000.0, integer=True, unit="deviation")


def test_a_number_that_most_known_rows_have_is_as_common_as_there():
    """Half of the known rows were smoothed however many there were: a 0 that 920 of 1,000 rows have had 46 %."""
    coins = np.random.default_rng(0)
    gain = np.concatenate([np.zeros(920), coins.integers(3000, 90_000, 80).astype(float)])
    p, cell = shares(GAIN, rows={"gain": gain}, rows_of="population")
    assert p[cell.raw == 0] == pytest.approx(0.85, abs=0.03)
    new = p[~np.isin(cell.raw, gain) & (cell.raw > 3000)]
    assert new.sum() == pytest.approx(0.08, abs=0.02)  # 80 of 1,000 rows have a value of their own
    assert new.min() > 1e-8


def test_of_few_known_numbers_that_all_differ_those_near_them_are_as_likely():
    p, cell = shares(AGE, rows={"age": np.array([30.0, 34.0, 41.0, 44.0])}, rows_of="population")
    assert p[cell.raw == 37] == pytest.approx(p[cell.raw == 41], rel=0.2)


def test_tilting_to_moments_that_hold_already_changes_nothing():
    values = np.linspace(-3, 3, 601)
    shares = np.exp(-np.abs(values))
    shares /= shares.sum()
    std = np.sqrt(shares @ values**2)
    assert tilted(shares, values, 0.0, std) == pytest.approx(shares, rel=0.05)


def rows_of_a_chain(coins, rows, flip=0.2):
    """Ward decides age, age decides sex, each up to chance."""
    ward = coins.integers(0, 3, rows)
    band = np.where(coins.random(rows) < flip, coins.integers(0, 3, rows), ward)
    sex = np.where(coins.random(rows) < flip, coins.integers(0, 2, rows), band > 1)
    return np.stack([ward, sex, band * 20 + coins.integers(0, 20, rows)], -1)  # in the order of the cells


def neighbours(cells):
    return {tuple(sorted((f, link.other))) for f, c in enumerate(cells) for link in c.links}


def test_the_tree_has_the_edges_that_made_the_rows():
    _, cells = tiny()
    assert neighbours(linked(cells, rows_of_a_chain(np.random.default_rng(0), 2000))) == {(0, 2), (1, 2)}


def test_a_number_of_few_values_goes_with_the_category_that_determines_it():
    """Sixteen values in eight bins left two categories to each."""
    grade = CategoricalBlock("grade", 0, 16, tuple("abcdefghijklmnop"))
    years = NumericBlock("years", 16, shift=8.0, scale=4.0, low=1.0, high=16.0, integer=True, unit="deviation")
    held = np.random.default_rng(0).integers(0, 16, 4000)
    facts = RowFacts(rows={"grade": np.array(grade.values)[held], "years": held + 1.0})
    layout = FeatureLayout((grade, years))
    categorical, numeric = cells_of(layout, AuxiliaryKnowledge(), "cpu", facts)
    cells = [*categorical, *numeric]
    index = from_prior(linked(cells, known_rows(layout, cells, facts)), 500, torch.Generator().manual_seed(0), "cpu")
    assert float((index[:, 0] == index[:, 1]).double().mean()) > 0.9


def test_rows_without_dependence_and_few_rows_make_no_edges():
    _, cells = tiny()
    rows = from_prior(cells, 300, torch.Generator().manual_seed(0), "cpu").numpy()
    assert neighbours(linked(cells, rows)) == set()
    assert neighbours(linked(cells, rows[:2])) == set()
    assert neighbours(linked(cells, np.zeros((0, 3), np.int64))) == set()


def whole_tree():
    network, cells = tiny()
    return network, linked(cells, rows_of_a_chain(np.random.default_rng(0), 500))


def every_row(cells):
    return torch.tensor(list(product(*(range(c.size) for c in cells))))


def test_links_leave_the_marginals_as_they_are():
    _, cells = whole_tree()
    rows = every_row(cells)
    joint = prior_of(cells, rows).double().exp()
    assert float(joint.sum()) == pytest.approx(1, abs=1e-3)
    for f, cell in enumerate(cells):
        margin = torch.zeros(cell.size, dtype=torch.double).index_add(0, rows[:, f], joint)
        assert torch.allclose(margin, cell.log_prior.double().exp(), atol=1e-3)


def test_rows_drawn_from_the_prior_are_as_likely_as_it_says():
    _, cells = whole_tree()
    found = from_prior(cells, 20_000, torch.Generator().manual_seed(0), "cpu")
    rows = every_row(cells)
    pairs = torch.zeros(3, 2, dtype=torch.double)
    pairs.index_put_((rows[:, 0], rows[:, 1]), prior_of(cells, rows).double().exp(), accumulate=True)
    seen = torch.bincount(2 * found[:, 0] + found[:, 1], minlength=6).double()
    expected = (pairs / pairs.sum()).flatten() * 20_000
    assert chisquare(seen.numpy(), expected.numpy()).pvalue > FALSE_ALARMS
    assert pairs[0, 0] / pairs[0].sum() > pairs[2, 0] / pairs[2].sum() + 0.1  # they do depend


@pytest.mark.parametrize("feature", [0, 1])
def test_a_visit_counts_the_neighbours_of_a_cell(feature):
    network, cells = whole_tree()
    coins = torch.Generator().manual_seed(1)
    index, labels = drawn(cells, 2, coins)
    evidence = evidence_about(network, cells, index, labels, 1.0, coins)
    state = Chains(network, cells, evidence, index.expand(20_000, -1, -1).clone(), coins)
    state.lift(0)
    state.visit(0, feature, evidence.noise)
    state.put(0)
    size = cells[feature].size
    options = index.repeat(size, 1, 1)
    options[:, 0, feature] = torch.arange(size)
    every = Chains(network, cells, evidence, options, coins, labels.repeat(size, 1))
    weights = torch.softmax((prior_of(cells, options).sum(-1) - every.energy()).double(), 0).numpy()
    reached = torch.bincount(state.index[:, 0, feature], minlength=size).numpy()
    assert chisquare(reached, 20_000 * weights).pvalue > FALSE_ALARMS


def test_without_evidence_visits_of_numbers_leave_the_linked_prior_as_it_is(monkeypatch):
    network, cells = whole_tree()
    monkeypatch.setattr("leakledger.attacks.gradient.posterior.cells.LARGEST_CHOICE", 5)  # ages by proposals
    coins = torch.Generator().manual_seed(3)
    index, labels = drawn(cells, 1, coins)
    evidence = evidence_about(network, cells, index, labels, 1e4, coins)
    state = Chains(network, cells, evidence, from_prior(cells, 4_000, coins, "cpu")[:, None], coins)
    for _ in range(5):
        state.sweep(evidence.noise)
    rows = every_row(cells)
    old = torch.zeros(3, 2, dtype=torch.double)
    joint = prior_of(cells, rows).double().exp()
    old.index_put_((rows[:, 0], (rows[:, 2] > 30).long()), joint, accumulate=True)
    seen = torch.bincount(2 * state.index[:, 0, 0] + (state.index[:, 0, 2] > 30), minlength=6).numpy()
    assert chisquare(seen, ((old / old.sum()).flatten() * 4_000).numpy()).pvalue > FALSE_ALARMS


def labelled_tree(rows=2_000, seed=4):
    """Cells linked to each other and to a label that follows ward, and the rows that showed it."""
    network, cells = tiny()
    coins = np.random.default_rng(seed)
    table = rows_of_a_chain(coins, rows)
    labels = np.where(coins.random(rows) < 0.2, coins.integers(0, 2, rows), table[:, 0] > 1)
    return network, linked(cells, table, labels, 2)


def test_the_label_is_a_node_of_the_tree():
    _, cells = labelled_tree()
    assert neighbours(cells) == {(0, 2), (1, 2), (0, 3)}
    assert not any(
        link.other == 3 for c in linked(tiny()[1], np.zeros((5, 3), np.int64), np.zeros(4), 2) for link in c.links
    )


@pytest.mark.parametrize("label", [0, 1])
def test_rows_drawn_for_a_label_are_as_likely_as_it_says(label):
    _, cells = labelled_tree()
    labels = torch.full((20_000,), label)
    found = from_prior(cells, 20_000, torch.Generator().manual_seed(0), "cpu", labels)
    rows = every_row(cells)
    joint = prior_of(cells, rows, torch.full((len(rows),), label)).double().exp()
    assert float(joint.sum()) == pytest.approx(1, abs=2e-3)
    pairs = torch.zeros(3, 2, dtype=torch.double).index_put((rows[:, 0], rows[:, 1]), joint, accumulate=True)
    seen = torch.bincount(2 * found[:, 0] + found[:, 1], minlength=6).double()
    assert chisquare(seen.numpy(), ((pairs / pairs.sum()).flatten() * 20_000).numpy()).pvalue > FALSE_ALARMS
    wards = pairs.sum(1) / pairs.sum()
    assert bool(wards[2] > 0.5) == bool(label)


def test_without_evidence_visits_leave_rows_and_labels_as_the_prior_has_them():
    network, cells = labelled_tree()
    coins = torch.Generator().manual_seed(5)
    index, labels = drawn(cells, 1, coins)
    known = evidence_about(network, cells, index, labels, 1e4, coins)
    evidence = replace(known, labels=None, label_prior=torch.tensor([0.5, 0.5]).log())
    state = Chains(network, cells, evidence, from_prior(cells, 4_000, coins, "cpu")[:, None], coins)
    for _ in range(10):
        state.sweep(evidence.noise)
    rows = every_row(cells)
    old = torch.zeros(3, 2, dtype=torch.double)
    for label in (0, 1):
        joint = prior_of(cells, rows, torch.full((len(rows),), label)).double().exp() / 2
        old.index_put_((rows[:, 0], torch.full((len(rows),), label)), joint, accumulate=True)
    seen = torch.bincount(2 * state.index[:, 0, 0] + state.labels[:, 0], minlength=6).numpy()
    assert chisquare(seen, ((old / old.sum()).flatten() * 4_000).numpy()).pvalue > FALSE_ALARMS


def test_known_rows_are_numbered_as_cells_are():
    facts = RowFacts(rows={"ward": np.array(["west", "?"]), "age": np.array([20.4, np.nan])})
    layout = FeatureLayout((AGE, CategoricalBlock("ward", 1, 3, WARDS.values)))
    categorical, numeric = cells_of(layout, AuxiliaryKnowledge(), "cpu", facts)
    assert known_rows(layout, [*categorical, *numeric], facts).tolist() == [[2, 0], [-1, -1]]
    assert known_rows(TINY, tiny()[1], RowFacts()).shape == (0, 3)
