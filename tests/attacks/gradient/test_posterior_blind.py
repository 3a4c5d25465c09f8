"""The best claim without the update: of whole rows where enough are known, and no surer than witnesses find it."""

import numpy as np
import pytest
import torch

from leakledger.attacks.gradient.posterior.blind import ENOUGH, IndexedRows, blind_guess, head_start
from leakledger.attacks.gradient.posterior.cells import cells_of
from leakledger.attacks.gradient.posterior.chains import from_prior
from leakledger.attacks.gradient.posterior.claim import claimed
from leakledger.attacks.gradient.posterior.samples import Samples, rows_of
from leakledger.attacks.observed.barycentre import assigned
from leakledger.attacks.observed.gradients import find_gradients
from leakledger.attacks.observed.tabular import Rows, StructuralPrior
from tests.attacks.example import LAYOUT, observe
from tests.attacks.example import rows_of as example_rows
from tests.attacks.gradient.test_posterior_attack import LABELS

ROWS = 4


@pytest.fixture(scope="module")
def known():
    """An update, its prior, its cells, and by how much numbers may differ."""
    (update,) = find_gradients(observe(example_rows(LAYOUT, ROWS, 0)[2]), LABELS)
    prior = StructuralPrior(update.layout, {})
    categorical, numeric = cells_of(update.layout, LABELS, "cpu")
    return update, prior, categorical, numeric, 0.319 * prior.deviation


def guessed(known, labels=None, rows=None, seed=0):
    _, _, categorical, numeric, within = known
    coins = torch.Generator().manual_seed(seed)
    return blind_guess([*categorical, *numeric], len(categorical), ROWS, within, coins, "cpu", labels, rows)


def two_kinds(known, n=200):
    """Rows of two kinds, each with a label: no pair of cells is unlike the prior's, but rows are always whole."""
    _, _, categorical, numeric, _ = known
    cells = [*categorical, *numeric]
    kinds = np.array([[0] * len(cells), [c.size - 1 for c in cells]])
    return kinds, IndexedRows(kinds[np.arange(n) % 2], np.arange(n) % 2)


def test_a_guess_from_known_rows_is_of_them_and_of_the_labels(known):
    _, _, categorical, numeric, _ = known
    kinds, rows = two_kinds(known)
    for labels, share in (
        (torch.tensor([0, 0, 0, 0]), 0),
        (torch.tensor([1, 1, 1, 1]), 4),
        (torch.tensor([0, 1, 1, 1]), 3),
    ):
        guess = guessed(known, labels, rows)
        expected = rows_of(kinds[[1] * share + [0] * (ROWS - share)], categorical, numeric)
        order = np.argsort(-guess.categories[:, 0])
        assert (guess.categories[order] == expected.categories).all()
        assert np.allclose(guess.numbers[order], expected.numbers)


def test_without_labels_all_known_rows_count(known):
    kinds, rows = two_kinds(known)
    for guess in (guessed(known, None, rows), guessed(known, torch.tensor([0, 1, 0, 1]), IndexedRows(rows.index))):
        assert set(guess.categories[:, 0]) <= set(kinds[:, 0])


def test_too_few_known_rows_and_unknown_cells_leave_it_to_the_prior(known):
    labels = torch.tensor([0, 0, 1, 1])
    alone = guessed(known, labels)
    _, rows = two_kinds(known, 2 * (2 * ENOUGH - 1))
    few = guessed(known, labels, rows)
    assert (few.categories == alone.categories).all()
    assert np.allclose(few.numbers, alone.numbers)
    nothing = IndexedRows(np.full_like(two_kinds(known)[1].index, -1))
    assert guessed(known, labels, nothing).categories.shape == alone.categories.shape
    assert (guessed(known, labels, nothing).categories == alone.categories).all()


def test_whole_rows_are_guessed_better_than_their_pairs_tell(known):
    """Of rows of which no two cells go together, though all do: the prior knows nothing of it."""
    _, _, categorical, numeric, within = known
    cells = [*categorical, *numeric]
    kinds, rows = two_kinds(known)
    rng = np.random.default_rng(0)
    fresh = rows_of(kinds[rng.integers(0, 2, (500, ROWS))], categorical, numeric)
    wrong = [assigned(guessed(known, None, r), fresh, within)[1] / (ROWS * len(cells)) for r in (rows, None)]
    assert wrong[0] < wrong[1] - 0.1


def ahead_of(known, blind, rows, seed=0):
    _, _, categorical, numeric, within = known
    coins = torch.Generator().manual_seed(seed)
    return head_start(blind, rows, [*categorical, *numeric], len(categorical), within, coins, "cpu")


def test_what_is_made_of_the_prior_has_a_head_start_over_a_guess_of_whole_rows_alone(known):
    """Where known rows are like those of the prior there is next to none, and where none are known there is none."""
    _, _, categorical, numeric, _ = known
    cells = [*categorical, *numeric]
    _, rows = two_kinds(known)
    like_the_prior = IndexedRows(from_prior(cells, 5000, torch.Generator().manual_seed(9), "cpu").numpy())
    several, little = (
        np.mean([ahead_of(known, guessed(known, None, of, seed), of, seed) for seed in range(5)])
        for of in (rows, like_the_prior)
    )
    assert several > 0.1 * ROWS * len(cells)
    assert little < 0.02 * ROWS * len(cells)
    assert ahead_of(known, guessed(known), None) == 0


def test_samples_that_know_nothing_do_not_displace_a_guess_of_whole_rows(known):
    """By the prior of the samples a claim that is made of it is better, with witnesses or without."""
    update, prior, categorical, numeric, _ = known
    cells, coins = [*categorical, *numeric], torch.Generator().manual_seed(0)
    _, rows = two_kinds(known)
    blind = guessed(known, None, rows)
    ahead, gave_way = ahead_of(known, blind, rows), {0.0: 0, "ahead": 0}
    for number in range(10):
        index = from_prior(cells, 64 * ROWS, coins, "cpu").view(64, ROWS, -1).numpy()
        ladder, witnesses = np.arange(64) % 8, np.arange(64) % 8 > 3 if number % 2 else None
        samples = Samples(index, np.ones((64, ROWS), bool), np.zeros(64), ladder, True, witness=witnesses)
        for name, lead in ((0.0, 0.0), ("ahead", ahead)):
            claim = claimed(update, prior, categorical, numeric, samples, 0.319, blind, lead)
            gave_way[name] += bool((claim.categories == blind.categories).all())
    assert gave_way == {0.0: 0, "ahead": 10}


def test_what_all_samples_agree_on_is_claimed_whatever_the_head_start(known):
    update, prior, categorical, numeric, _ = known
    cells, coins = [*categorical, *numeric], torch.Generator().manual_seed(3)
    _, rows = two_kinds(known)
    blind = guessed(known, None, rows)
    index = from_prior(cells, ROWS, coins, "cpu").view(1, ROWS, -1).numpy().repeat(16, 0)
    samples = Samples(index, np.ones((16, ROWS), bool), np.zeros(16), np.arange(16) % 4, True)
    claim = claimed(update, prior, categorical, numeric, samples, 0.319, blind, ahead_of(known, blind, rows))
    assert (np.sort(claim.categories, 0) == np.sort(index[0, :, : len(categorical)], 0)).all()


def test_a_claim_that_gives_way_is_as_sure_as_witnesses_find_it(known):
    """The search's samples share a start; where they all have the guess, it is no surer than in witnesses."""
    update, prior, categorical, numeric, within = known
    cells, coins = [*categorical, *numeric], torch.Generator().manual_seed(0)
    witnesses = from_prior(cells, 16 * ROWS, coins, "cpu").view(16, ROWS, -1).numpy()
    shared = witnesses[:1].repeat(16, 0)
    index, ladder = np.concatenate([shared, witnesses]), np.arange(32)
    samples = Samples(index, np.ones((32, ROWS), bool), np.zeros(32), ladder, True, witness=ladder >= 16)
    alike = rows_of(shared[0], categorical, numeric)
    claim = claimed(update, prior, categorical, numeric, samples, 0.319, alike)
    made = rows_of(witnesses, categorical, numeric)
    _, wrong = assigned(Rows(claim.categories, claim.numbers), made, within)
    assert (claim.categories == alike.categories).all()
    assert claim.probability.mean() == pytest.approx(1 - wrong / claim.probability.size, abs=0.01)
