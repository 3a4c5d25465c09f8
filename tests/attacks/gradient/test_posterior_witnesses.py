"""What chains that began elsewhere make of a claim: how sure it is, whether it is made, and when they are not heard."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from leakledger.attacks.gradient.posterior import witnesses
from leakledger.attacks.gradient.posterior.annealing import annealed
from leakledger.attacks.gradient.posterior.blind import blind_guess
from leakledger.attacks.gradient.posterior.cells import cells_of
from leakledger.attacks.gradient.posterior.chains import Chains, from_prior
from leakledger.attacks.gradient.posterior.claim import claimed
from leakledger.attacks.gradient.posterior.intervals import Intervals
from leakledger.attacks.gradient.posterior.samples import Samples, rows_of
from leakledger.attacks.gradient.posterior.tempering import ladders, sampled
from leakledger.attacks.gradient.posterior.witnesses import called_for, effort, joined, witnessed
from leakledger.attacks.observed.barycentre import assigned
from leakledger.attacks.observed.gradients import find_gradients
from leakledger.attacks.observed.tabular import Rows, StructuralPrior
from tests.attacks.example import LAYOUT, observe
from tests.attacks.example import rows_of as example_rows
from tests.attacks.gradient.posterior_example import evidence_about, wide
from tests.attacks.gradient.test_posterior_attack import LABELS

ROWS = 4


@pytest.fixture(scope="module")
def known():
    """An update of four rows, its prior, and the cells of a row."""
    (update,) = find_gradients(observe(example_rows(LAYOUT, ROWS, 0)[2]), LABELS)
    prior = StructuralPrior(update.layout, {})
    return update, prior, *cells_of(update.layout, LABELS, "cpu")


def of_one_mind(cells, coins, witnesses=8):
    """Samples of chains that all found the same rows, and of witnesses that draw from the prior, one of each chain."""
    draws = from_prior(cells, (1 + witnesses) * ROWS, coins, "cpu").view(1 + witnesses, ROWS, -1).numpy()

    def of(index):
        return Samples(index, np.ones(index.shape[:2], bool), np.zeros(len(index)), np.arange(len(index)), True)

    return joined(of(draws[:1].repeat(witnesses, 0)), of(draws[1:]))


def test_a_claim_that_witnesses_do_not_share_is_not_sure(known):
    """Chains that began together agree in every cell; without witnesses each was said to be right for certain."""
    update, prior, categorical, numeric = known
    cells, coins = [*categorical, *numeric], torch.Generator().manual_seed(0)
    fresh = from_prior(cells, ROWS * 2000, coins, "cpu").view(2000, ROWS, -1).numpy()
    made, within = rows_of(fresh, categorical, numeric), 0.319 * prior.deviation
    said, found, alone = [], [], []
    for _ in range(20):
        samples = of_one_mind(cells, coins)
        claim = claimed(update, prior, categorical, numeric, samples, 0.319)
        said.append(claim.probability.mean())
        _, wrong = assigned(Rows(claim.categories, claim.numbers), made, within)
        found.append(1 - wrong / claim.probability.size)
        together = replace(samples, index=samples.index[:8], present=samples.present[:8], fit=samples.fit[:8])
        together = replace(together, ladder=samples.ladder[:8], witness=None)
        alone.append(claimed(update, prior, categorical, numeric, together, 0.319).probability.mean())
    assert np.mean(found) - 0.06 < np.mean(said) < np.mean(found) + 0.02  # too cautious, at most
    assert np.mean(alone) == 1.0


def test_a_claim_that_witnesses_hold_for_chance_gives_way_to_the_best_blind_one(known):
    update, prior, categorical, numeric = known
    cells, coins = [*categorical, *numeric], torch.Generator().manual_seed(1)
    blind = blind_guess(cells, len(categorical), ROWS, 0.319 * prior.deviation, coins, "cpu")
    gave_way = 0
    for _ in range(10):
        claim = claimed(update, prior, categorical, numeric, of_one_mind(cells, coins), 0.319, blind)
        gave_way += (claim.categories == blind.categories).all()
    assert gave_way >= 8


def test_more_samples_that_say_so_are_never_less_sure(known):
    """The curve rises; a cell that all samples have is as sure as witnesses were of such cells."""
    update, prior, categorical, numeric = known
    cells, coins = [*categorical, *numeric], torch.Generator().manual_seed(2)
    draw = from_prior(cells, ROWS, coins, "cpu").view(1, ROWS, -1).numpy().repeat(16, 0)
    draw[::4, 0, 0] = (draw[0, 0, 0] + 1) % cells[0].size  # one cell, that a quarter has otherwise
    ladder = np.arange(16)
    samples = Samples(draw, np.ones((16, ROWS), bool), np.zeros(16), ladder, True, witness=ladder >= 8)
    claim = claimed(update, prior, categorical, numeric, samples, 0.319)
    sure = np.sort(claim.probability.ravel())
    assert sure[0] == pytest.approx(0.75, abs=0.01)
    assert (sure[1:] == 1.0).all()


@pytest.fixture
def brief(monkeypatch):
    monkeypatch.setattr(witnesses, "LEVELS", 10)


def loud(rows=17, noise=2.0):
    """Chains that have come down to the noise, and the rows that are behind the update."""
    network, cells, index, labels, evidence, coins = wide(rows, noise)
    return annealed(network, cells, evidence, 4, 6, coins), index, labels


def started_at(like, index, labels):
    """Four chains at a batch."""
    return Chains(like.network, like.cells, like.evidence, index.repeat(4, 1, 1), like.coins, labels.repeat(4, 1))


def test_witnesses_that_end_as_probable_as_the_search_are_heard(brief):
    found, _, _ = loud()
    samples = sampled(found, 2, 4)
    heard = witnessed(found, samples, 4, 4)
    assert heard.witness.sum() == 4 * 4
    assert (~heard.witness).sum() == len(samples.fit)
    assert not set(heard.ladder[heard.witness]) & set(heard.ladder[~heard.witness])
    assert len(np.unique(heard.ladder[heard.witness])) == 4
    some = heard.of_one_size()
    assert (some.witness == heard.witness).all()


def test_witnesses_that_are_caught_on_their_way_are_not_heard(brief):
    """Under quiet noise a few chains that begin anywhere end far from the rows, which the search has found."""
    network, cells, index, labels, evidence, coins = wide(17, 1e-3)
    found = started_at(Chains(network, cells, evidence, index[None], coins), index, labels)
    samples = sampled(found, 2, 4)
    assert witnessed(found, samples, 4, 4) is samples


def test_a_search_that_is_caught_leaves_the_word_to_the_witnesses(brief):
    found, _, _ = loud()
    lost = Samples(found.index.numpy(), np.ones((4, found.rows), bool), np.full(4, -1e9), np.arange(4), settled=True)
    heard = witnessed(found, lost, 4, 4)
    assert heard.witness.all()
    assert heard.fit.min() > -1e9


def test_there_are_as_many_samples_of_witnesses_as_of_the_search_and_no_more_chains():
    _, _, _, _, many, _ = wide(20, 1.0)
    few = replace(many, rows=16)
    for evidence, chains, sweeps, own in ((many, 16, 32, 8), (few, 16, 32, 16), (few, 8, 16, 8), (few, 3, 5, 3)):
        assert effort(evidence, chains, sweeps)[0] == own
        samples = ladders(chains) * sweeps
        assert samples <= np.prod(effort(evidence, chains, sweeps)) < samples + own
    assert ladders(16) == 4
    assert ladders(3) == 1


def test_few_rows_that_are_told_apart_intervals_and_guessed_errors_call_none():
    network, cells, index, labels, evidence, coins = wide(20, 1.0)
    assert called_for(evidence)
    assert not called_for(replace(evidence, approximate=True))
    assert not called_for(replace(evidence, intervals=Intervals([torch.ones_like(t) for t in evidence.total], 1.0)))
    for noise, hidden in ((10.0, True), (1e-3, False)):
        few = evidence_about(network, cells, index[:16], labels[:16], noise, coins)
        assert called_for(few) == hidden
