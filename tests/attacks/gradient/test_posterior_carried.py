"""Cells that go together change together, and the posterior stays what it is."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.gradient.posterior.carried import carriers
from leakledger.attacks.gradient.posterior.cells import cells_of
from leakledger.attacks.gradient.posterior.chains import Chains, from_prior, prior_of
from leakledger.attacks.gradient.posterior.dependence import known_rows, linked
from leakledger.attacks.gradient.posterior.pairs import sweep_pairs, visit_carried_pair
from leakledger.attacks.observed.row_facts import RowFacts
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, ModelSpec, NumericBlock
from tests.attacks.gradient.posterior_example import drawn, evidence_about, tiny

FALSE_ALARMS, CHAINS = 1e-4, 20_000
LAYOUT = FeatureLayout(
    (
        CategoricalBlock("degree", 0, 4, tuple("abcd")),
        NumericBlock("years", 4, shift=10.0, scale=3.0, low=8.0, high=13.0, integer=True, unit="deviation"),
        CategoricalBlock("sex", 5, 2),
    )
)
DEGREE, YEARS, SEX = 0, 2, 1  # cells have categories first


def tied(others=0.05, rows=4_000):
    """A degree that takes as many years as all who have it but for a few, and somewhat more women among the higher."""
    network, _ = tiny(LAYOUT, ModelSpec(LAYOUT.width, 2, (8, 6), "tanh"))
    coins = np.random.default_rng(0)
    degree = coins.integers(0, 4, rows)
    free = others * np.array([6.0, 1.0, 1.0, 0.5])[degree]
    years = np.where(coins.random(rows) < free, coins.integers(0, 6, rows), degree + 1)
    sex = np.where(coins.random(rows) < 0.7, coins.integers(0, 2, rows), degree > 1)
    facts = RowFacts(
        rows={"degree": np.array([*"abcd"])[degree], "years": years + 8.0, "sex": sex}, rows_of="population"
    )
    categorical, numeric = cells_of(LAYOUT, AuxiliaryKnowledge(), "cpu", facts)
    cells = [*categorical, *numeric]
    return network, linked(cells, known_rows(LAYOUT, cells, facts))


def together(rows, seed=1, noise=0.5, **changes):
    """One chain with rows that have values which go together, in many copies; the carrier is number 0."""
    network, cells = tied()
    coins = torch.Generator().manual_seed(seed)
    index, labels = drawn(cells, rows, coins)
    index[:, YEARS] = carriers(cells)[0].values[index[:, DEGREE], 1]
    evidence = replace(evidence_about(network, cells, index, labels, noise, coins), **changes)
    return Chains(network, cells, evidence, index.expand(CHAINS, -1, -1).clone(), coins)


def likelihoods(state, options):
    """(n,) the log posteriors of batches `options` (n, B, F), up to a constant."""
    labels = state.labels[:1].expand(len(options), -1)
    every = Chains(state.network, state.cells, state.evidence, options, state.coins, labels.clone())
    return (prior_of(state.cells, options).sum(-1) - every.energy()).double()


def test_a_cell_is_carried_by_one_that_spares_half_of_the_wrong_guesses_of_it():
    (carrier,) = carriers(tied()[1])
    assert carrier.places == (DEGREE, YEARS)
    assert carrier.values.tolist() == [[k, k + 1] for k in range(4)]
    assert carriers(tied(others=0.9)[1]) == []
    assert carriers(tiny(LAYOUT)[1]) == []


def weights_of(state):
    coins = torch.Generator().manual_seed(7)
    return [0.5 + torch.rand(part.shape, generator=coins) for part in state.evidence.total]


@pytest.mark.parametrize("weighted", [False, True])
def test_cells_that_go_together_are_drawn_from_their_conditional(weighted):
    state = together(2)
    if weighted:
        state = together(2, weights=weights_of(state))
    options = state.index[:1].repeat(4, 1, 1)
    options[:, 0, [DEGREE, YEARS]] = state.carriers[0].values
    expected = torch.softmax(likelihoods(state, options), 0).numpy()
    state.lift(0)
    state.visit_carried(0, 0, state.evidence.noise)
    state.put(0)
    assert bool((state.index[:, 0, YEARS] == state.index[:, 0, DEGREE] + 1).all())
    reached = torch.bincount(state.index[:, 0, DEGREE], minlength=4).numpy()
    assert expected.max() < 0.95
    assert chisquare(reached, CHAINS * expected).pvalue > FALSE_ALARMS
    rest = [part.clone() for part in state.residual]
    state.refresh()
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(rest, state.residual, strict=True))


@pytest.mark.parametrize("weighted", [False, True])
def test_of_two_rows_they_are_drawn_from_the_joint_conditional(weighted):
    state = together(3)
    if weighted:
        state = together(3, weights=weights_of(state))
    pairs = torch.cartesian_prod(torch.arange(4), torch.arange(4))
    options = state.index[:1].repeat(16, 1, 1)
    for row, chosen in zip((0, 2), pairs.T, strict=True):
        options[:, row, DEGREE], options[:, row, YEARS] = chosen, chosen + 1
    expected = torch.softmax(likelihoods(state, options), 0).numpy()
    state.lift(0)
    state.lift(2)
    visit_carried_pair(state, 0, 2, 0, torch.full((CHAINS, 1), state.evidence.noise))
    reached = torch.bincount(4 * state.index[:, 0, DEGREE] + state.index[:, 2, DEGREE], minlength=16).numpy()
    likely = expected * CHAINS > 5
    seen = [*reached[likely], reached[~likely].sum() + 1]
    hoped = (
        np.array([*expected[likely], expected[~likely].sum()]) * CHAINS + np.eye(1, likely.sum() + 1, likely.sum())[0]
    )
    assert likely.sum() > 3
    assert chisquare(seen, hoped * sum(seen) / hoped.sum()).pvalue > FALSE_ALARMS


def test_a_row_whose_values_do_not_go_together_takes_no_part():
    state = together(2)
    state.index[::2, 0, YEARS] = 0  # of no degree
    state.become(state.index, state.labels)
    before = state.index.clone()
    state.lift(0)
    state.lift(1)
    state.visit_carried(0, 0, state.evidence.noise)
    visit_carried_pair(state, 0, 1, 0, state.evidence.noise)
    assert torch.equal(state.index[::2], before[::2])
    assert not torch.equal(state.index[1::2], before[1::2])


def alone(cells, network, begun, coins, rows=1):
    """Chains at rows (C, F), of an update that says nothing."""
    index, labels = drawn(cells, rows, coins)
    evidence = evidence_about(network, cells, index, labels, 1e4, coins)
    return Chains(network, cells, evidence, begun.view(-1, rows, len(cells)).clone(), coins)


def as_the_prior_has_it(cells, rows):
    """Whether degrees and years of rows (n, F) come together as often as the prior says, but for chance."""
    every = torch.cartesian_prod(torch.arange(4), torch.arange(2), torch.arange(6))
    joint = prior_of(cells, every).double().exp().view(4, 2, 6).sum(1).flatten()
    seen = torch.bincount(6 * rows[:, DEGREE] + rows[:, YEARS], minlength=24).numpy()
    return chisquare(seen, (joint / joint.sum()).numpy() * len(rows)).pvalue > FALSE_ALARMS


@pytest.mark.parametrize("pairs", [False, True])
def test_without_evidence_sweeps_leave_the_prior_as_it_is_and_move_what_single_visits_do_not(pairs):
    network, cells = tied(others=0.02, rows=20_000)
    coins = torch.Generator().manual_seed(3)
    begun = from_prior(cells, CHAINS, coins, "cpu")
    left = []
    for carried in (True, False):
        state = alone(cells, network, begun, coins, 2 if pairs else 1)
        if not carried:
            state.carriers = []
        for _ in range(3):
            sweep_pairs(state, 1e4) if pairs else state.sweep(1e4)
        rows = state.index.flatten(0, 1)
        assert as_the_prior_has_it(cells, rows)
        left.append(float((rows[:, DEGREE] != begun[:, DEGREE]).double().mean()))
    assert left[0] > 0.7
    assert left[1] < 0.3
