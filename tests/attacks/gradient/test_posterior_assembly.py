"""Batches as choices of atoms: what they cost, and populations of them and of chains, which follow their weights."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from leakledger.attacks.gradient.posterior import search as search_module
from leakledger.attacks.gradient.posterior.assembly import Assembly
from leakledger.attacks.gradient.posterior.atoms import atoms_of, with_labels
from leakledger.attacks.gradient.posterior.chains import Chains, from_prior
from leakledger.attacks.gradient.posterior.resampling import drawn_anew
from leakledger.attacks.gradient.posterior.sample_size import of_unknown_size
from leakledger.attacks.gradient.posterior.search import cost
from tests.attacks.gradient.posterior_example import wide


def example(rows, others=60, noise=0.003, sized=True, **changes):
    """An assembly of the rows of a batch and others, with the chains that are at given choices."""
    network, cells, index, _, evidence, coins = wide(rows, noise=noise)
    evidence = replace(evidence, **changes) if sized else of_unknown_size(evidence, rows)
    pool = torch.cat([index, from_prior(cells, others, coins, "cpu")])
    found = Assembly(evidence, atoms_of(network, cells, evidence, *with_labels(evidence, pool, network.classes)))

    def chains(chosen):
        given = found.index[chosen], coins, found.labels[chosen], found.present[chosen]
        return Chains(network, cells, evidence, *given)

    return found, chains, coins


@pytest.mark.parametrize("changes", [{}, {"labels": None}, {"clip_norm": 0.5}])
def test_choices_cost_what_chains_at_their_rows_do(changes):
    found, chains, coins = example(5, **changes)
    chosen = found.start(6, coins)
    there = chains(chosen)
    assert found.squares(chosen).numpy() == pytest.approx(2 * 0.003**2 * there.energy().numpy(), rel=1e-3)
    assert found.costs(chosen).numpy() == pytest.approx(cost(there).numpy(), rel=1e-3)


def test_of_an_unknown_number_of_rows_places_without_one_add_nothing_to_the_sum():
    found, chains, coins = example(5, sized=False)
    chosen = found.start(6, coins)
    chosen[:, 0] = len(found.target) - 1
    assert not found.present[chosen[:, 0]].any()
    assert found.squares(chosen).numpy() == pytest.approx(2 * 0.003**2 * chains(chosen).energy().numpy(), rel=1e-3)


def test_members_have_as_many_followers_as_their_weights_say():
    weights = torch.tensor([0.5, 0.3, 0.15, 0.05, *[1e-9] * 16])
    followers = Counter(drawn_anew(weights.log(), torch.Generator().manual_seed(1)).tolist())
    for member, weight in enumerate(weights.tolist()):
        assert abs(followers[member] - 20 * weight) <= 1


def test_a_population_of_even_weights_or_of_none_is_left_as_it_is():
    coins = torch.Generator().manual_seed(1)
    assert drawn_anew(torch.zeros(8), coins) is None
    assert drawn_anew(torch.full((8,), torch.nan), coins) is None


def test_of_a_population_fewer_end_where_they_are_caught():
    """Over several batches: a population's choices cost less in the middle than those that come down alone."""
    gained = []
    for rows in (17, 18, 19, 20):
        found, _, coins = example(rows, others=150, noise=0.02)
        noises = np.geomspace(1.0, 0.02, 12).tolist()
        start = found.start(24, coins)
        alone, together = (found.choose(start.clone(), noises, coins, population) for population in (False, True))
        gained.append(float(found.costs(alone).median() - found.costs(together).median()))
    assert sum(gain > 10 for gain in gained) >= 3


def test_chains_that_come_apart_when_they_come_down_once_more_stay_as_they_were(monkeypatch):
    network, cells, index, labels, evidence, coins = wide(6)
    found = Chains(network, cells, evidence, index.repeat(4, 1, 1), coins, labels.repeat(4, 1))

    def melt(chains, loudest, levels):
        other = from_prior(cells, 24, coins, "cpu").view(4, 6, -1)
        chains.become(other, chains.labels)

    monkeypatch.setattr(search_module, "descend", melt)
    assert search_module._loosened_once(found) is found
    monkeypatch.setattr(search_module, "descend", lambda chains, loudest, levels: chains.sweep(evidence.noise))
    again = search_module._loosened_once(found)
    assert again is not found
    assert float(cost(again).mean()) < float(cost(found).mean()) + 20
