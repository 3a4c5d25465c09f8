from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment

from leakledger.attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable, RecordsClaim
from leakledger.attacks.gradient.atoms import Atoms
from leakledger.attacks.gradient.linear_layer import LinearLayer
from leakledger.attacks.gradient.portfolio import Portfolio
from leakledger.attacks.gradient.portfolio.claims import certain, joined, some, strongest
from leakledger.attacks.gradient.portfolio.exact import exact_rows
from leakledger.attacks.gradient.portfolio.peeling import peeled
from leakledger.attacks.gradient.portfolio.remainder import labels_left, remainder
from leakledger.attacks.gradient.posterior import Posterior
from leakledger.attacks.gradient.span import Span
from leakledger.attacks.gradient.spear import Spear
from leakledger.attacks.gradient.tableak import TabLeak
from leakledger.attacks.observed.gradients import find_gradients
from leakledger.attacks.observed.tabular import StructuralPrior
from leakledger.preprocess.models import as_arrays, as_tensors, gradient
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, Mechanism, NumericBlock, View
from tests.attacks.example import LAYOUT, exact, observe, rows_of

SHORT = {"restarts": 3, "iterations": 40}
FEW = {"chains": 6, "sweeps": 8, "repairs": 6, "pool": 256}  # of the posterior


def labels(count):
    return AuxiliaryKnowledge(labels={("ann", 0): np.arange(count) % 2})


def played(view, knowledge, **options):
    outcome = Portfolio(tableak=SHORT, **options).run(view, knowledge)
    return outcome[0] if isinstance(outcome, list) else outcome


def cells_right(claim, categories, numbers):
    """How many cells are right, rows matched."""
    hits = [
        [(own == c).sum() + (np.abs(x - n) <= 0.319).sum() for c, n in zip(categories, numbers, strict=True)]
        for own, x in zip(claim.categories, claim.numbers, strict=True)
    ]
    rows, matched = linear_sum_assignment(hits, maximize=True)
    return np.array(hits)[rows, matched].sum()


def update_in(view, knowledge):
    (update,) = find_gradients(view, knowledge)
    return update


@pytest.mark.parametrize("count", [1, 8])
def test_a_batch_that_exact_attacks_solve_needs_no_labels(count):
    categories, numbers, encoded = rows_of(LAYOUT, count, 0)
    claim = played(observe(encoded), AuxiliaryKnowledge())
    assert exact(claim, categories, numbers).all()
    assert claim.verified.all()


def test_what_remains_of_a_batch_is_the_gradient_of_the_rows_that_are_left():
    _, _, encoded = rows_of(LAYOUT, 8, 0)
    view = observe(encoded)
    whole = update_in(view, labels(8))
    left = remainder(whole, encoded[[1, 4, 6]])
    kept = [0, 2, 3, 5, 7]
    weights = as_tensors(whole.weights)
    x, y = as_tensors({"x": encoded[kept]})["x"], np.array(kept) % 2
    expected = as_arrays(gradient(view.public.model, weights, x, as_tensors({"y": y})["y"].long()))
    assert left.rows == 5
    assert left.labels.tolist() == sorted(y.tolist())
    for name, g in expected.items():
        assert np.allclose(left.gradient[name], g, atol=1e-5 * np.abs(g).max())


GAINS = FeatureLayout(tuple(NumericBlock(f"n{i}", i, 0.0, 1.0, unit="quartiles") for i in range(12)))


def with_gains(seed, count=8):
    """Rows (n, 12) in units of quartiles; of two columns, as of capital gains, most numbers are 0 and some enormous."""
    coins = np.random.default_rng(seed)
    rows = coins.normal(size=(count, 12))
    rows[:, :2] = np.where(coins.random((count, 2)) < 0.3, np.round(coins.uniform(500, 20000, (count, 2))), 0)
    return rows


def alike(claim, rows):
    """(m, n) which claimed row is which of the batch."""
    return np.isclose(claim.numbers[:, None], rows, rtol=1e-3, atol=0.05).all(2)


def test_rows_that_are_peeled_are_rows_of_the_batch_and_what_is_left_is_the_gradient_of_the_others():
    found = 0
    for seed in (0, 1, 9, 10):
        rows = with_gains(seed)
        view = observe(rows, GAINS)
        update = update_in(view, labels(8))
        claim, rest = peeled(update, labels(8), StructuralPrior(GAINS, {}), None, LinearLayer())
        assert not claim.verified.any()
        same = alike(claim, rows)
        assert (same.sum(1) == 1).all()
        assert (same.sum(0) <= 1).all()
        found += len(claim.numbers)
        others = np.flatnonzero(~same.any(0))
        assert (rest.rows if rest else 0) == len(others)
        if rest is None:
            continue
        assert rest.labels.tolist() == sorted(others % 2)
        x, y = as_tensors({"x": rows[others]})["x"], torch.tensor(others % 2)
        expected = as_arrays(gradient(view.public.model, as_tensors(update.weights), x, y))
        for name, g in expected.items():
            assert np.abs(rest.gradient[name] - g).max() < 1e-4 * np.abs(update.gradient[name]).max()
    assert found >= 16


@pytest.mark.parametrize("seed", [9, 10])
def test_a_proven_row_is_peeled_once(seed):
    rows = with_gains(seed)
    update, prior = update_in(observe(rows, GAINS), labels(8)), StructuralPrior(GAINS, {})
    first, _ = peeled(update, labels(8), prior, None, LinearLayer())
    known = replace(some(first, np.array([0])), verified=np.ones(1, bool))
    again, rest = peeled(update, labels(8), prior, known, LinearLayer())
    assert (alike(again, rows).sum(0) <= 1).all()
    assert again.verified.sum() == 1
    assert len(again.numbers) + rest.rows == 8


def test_a_batch_that_is_peeled_whole_needs_no_guess(monkeypatch):
    monkeypatch.setattr(TabLeak, "invert_all", lambda *arguments: pytest.fail("nothing is left to guess"))
    rows = with_gains(1)
    claim = played(observe(rows, GAINS), labels(8))
    assert alike(claim, rows).sum() == 8
    assert not claim.verified.any()


def test_of_networks_whose_shares_of_rows_are_unknown_nothing_is_peeled():
    view = observe(with_gains(0), GAINS)
    update = replace(update_in(view, labels(8)), model=replace(view.public.model, dropout=0.2))
    found, rest = peeled(update, labels(8), StructuralPrior(GAINS, {}), None, LinearLayer())
    assert found is None
    assert rest is update


def test_guessed_rows_most_like_proven_ones_give_way_where_together_they_are_too_many():
    rows, prior = with_gains(0), StructuralPrior(GAINS, {})
    update = update_in(observe(rows, GAINS), labels(8))
    claim = RecordsClaim("ann", 0, np.zeros((8, 0), np.int64), rows, np.zeros((8, 0)), np.zeros((8, 12)), (0, 1))
    proven, guess = some(claim, np.arange(5)), some(claim, np.array([6, 1, 7, 3, 5]))
    together = joined(prior, update, proven, guess)
    assert np.array_equal(together.numbers, rows[[0, 1, 2, 3, 4, 6, 7, 5]])


def test_rows_that_are_not_in_the_batch_leave_no_remainder():
    _, _, encoded = rows_of(LAYOUT, 8, 0)
    update = update_in(observe(encoded), labels(8))
    assert remainder(update, rows_of(LAYOUT, 2, 9)[2]) is None


@pytest.mark.parametrize(
    ("labels", "taken", "left"), [([0, 0, 1], [0], [0, 1]), ([0, 1], [1, 1], None), ([], [1], []), ([2, 2], [2], [2])]
)
def test_the_labels_left_are_those_that_known_rows_do_not_take(labels, taken, left):
    found = labels_left(np.array(labels, np.int64), np.array(taken, np.int64))
    assert (found is None) if left is None else found.tolist() == left


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.003, 0.03])
def test_under_noise_that_nobody_states_the_posterior_betters_tableak_and_is_sure_of_nothing(noise):
    right = {"portfolio": 0, "tableak": 0}
    for seed in range(2):
        categories, numbers, encoded = rows_of(LAYOUT, 6, seed)
        view = observe(encoded, noise=noise)
        mine = played(view, labels(6), seed=3, posterior=FEW)
        (theirs,) = TabLeak(seed=3, **SHORT).run(view, labels(6))
        assert mine.probability is None
        assert (mine.category_entropy == 1).all()
        right["portfolio"] += cells_right(mine, categories, numbers)
        right["tableak"] += cells_right(theirs, categories, numbers)
    assert right["portfolio"] > right["tableak"]


def test_where_the_posterior_has_nothing_to_say_the_portfolio_is_tableak(monkeypatch):
    view = observe(rows_of(LAYOUT, 6, 0)[2], noise=0.01)
    monkeypatch.setattr(Posterior, "inverted_from", lambda *arguments: NotApplicable("a test"))
    mine = played(view, labels(6), seed=3)
    (theirs,) = TabLeak(seed=3, **SHORT).run(view, labels(6))
    assert np.array_equal(mine.categories, theirs.categories)
    assert np.array_equal(mine.numbers, theirs.numbers)


def test_chains_begin_at_what_tableak_made_of_a_batch(monkeypatch):
    view, begun = observe(rows_of(LAYOUT, 6, 0)[2], noise=0.01), []

    def kept(attack, update, knowledge, guess):
        begun.append(guess)
        return NotApplicable("a test")

    monkeypatch.setattr(Posterior, "inverted_from", kept)
    mine = played(view, labels(6))
    assert np.array_equal(begun[0].categories, mine.categories)


def test_proven_rows_stay_and_what_is_left_fills_the_batch(monkeypatch):
    categories, numbers, encoded = rows_of(LAYOUT, 8, 0)
    view = observe(encoded)

    def three(*arguments):
        return some(exact_rows(*arguments), np.arange(3))

    monkeypatch.setattr("leakledger.attacks.gradient.portfolio.portfolio.exact_rows", three)
    monkeypatch.setattr(LinearLayer, "invert", lambda *arguments: Abstained("nothing"))
    proven = played(view, labels(8), posterior=FEW)  # by atoms, from the rows of the posterior
    assert exact(proven, categories, numbers).all()
    assert proven.verified.all()

    monkeypatch.setattr(Atoms, "invert", lambda *arguments: Abstained("nothing"))
    claim = played(view, labels(8), posterior=FEW)
    assert len(claim.numbers) == 8
    assert claim.verified.tolist() == [True] * 3 + [False] * 5
    assert exact(claim, categories, numbers).sum() >= 3
    assert np.isinf(claim.residual[3:]).all()
    assert (claim.number_entropy[:3] == 0).all()
    only_exact = played(view, AuxiliaryKnowledge())
    assert len(only_exact.numbers) == 3


def test_rows_that_no_exact_attack_finds_are_proven_once_chains_have_found_them():
    """Of six rows in three columns the first layer's row space says nothing."""
    codes = np.arange(5.0)[:, None]
    layout = FeatureLayout(
        (
            NumericBlock("age", 0),
            NumericBlock("score", 1),
            CategoricalBlock("grade", 2, 5, codes=codes, shift=(2.0,), scale=(1.4,)),
        )
    )
    categories, numbers, encoded = rows_of(layout, 6, 3)
    view = observe(encoded, layout, hidden=(100, 16), activation="leaky-relu", seed=3)
    (alone,) = Atoms().run(view, labels(6))
    assert not alone.verified.any()
    claim = played(view, labels(6), posterior=FEW)
    assert exact(claim, categories, numbers).all()
    assert claim.verified.all()


def test_without_labels_and_without_proof_the_reason_is_tableaks():
    outcome = played(observe(rows_of(LAYOUT, 6, 0)[2], noise=0.01), AuxiliaryKnowledge())
    assert isinstance(outcome, NotApplicable)
    assert "labels" in outcome.reason


@pytest.mark.parametrize("activation", ["tanh", "gelu", "sigmoid", "leaky-relu", "elu"])
def test_another_activation_than_relu_is_solved_without_labels(activation):
    categories, numbers, encoded = rows_of(LAYOUT, 8, 0)
    claim = played(observe(encoded, activation=activation), AuxiliaryKnowledge())
    assert exact(claim, categories, numbers).all()
    assert claim.verified.all()


def test_no_gradient_is_not_applicable():
    view = observe(rows_of(LAYOUT, 4, 0)[2])
    assert isinstance(played(View(view.observers, view.messages[:1], view.public), labels(4)), NotApplicable)


@pytest.mark.parametrize("options", [{"spear": {"draws": -1}}, {"seed": -1}, {"tableak": {"restarts": 0}}])
def test_settings_out_of_range_are_refused(options):
    with pytest.raises(ValueError, match="must be at least"):
        Portfolio(**options)


def test_rows_that_a_search_found_without_proof_go_before_those_that_tableak_guesses(monkeypatch):
    categories, numbers, encoded = rows_of(LAYOUT, 8, 0)
    (found,) = Spear().run(observe(encoded), AuxiliaryKnowledge())
    six = some(found, np.arange(6))
    unsure = replace(found, residual=np.full(8, 1e-4), verified=np.arange(8) > 6)
    monkeypatch.setattr(LinearLayer, "invert", lambda *arguments: Abstained("nothing"))
    monkeypatch.setattr(Span, "invert", lambda *arguments: six)
    monkeypatch.setattr(Spear, "invert", lambda *arguments: unsure)
    monkeypatch.setattr(Atoms, "invert", lambda *arguments: Abstained("nothing"))
    claim = played(observe(encoded), AuxiliaryKnowledge())
    assert exact(claim, categories, numbers).all()
    assert claim.verified.tolist() == [True] * 6 + [False, True]
    assert claim.residual[6:].tolist() == [1e-4, 1e-4]
    monkeypatch.setattr(Spear, "invert", lambda *arguments: replace(unsure, residual=np.full(8, 0.1)))
    assert len(played(observe(encoded), AuxiliaryKnowledge()).numbers) == 6


def test_mixtures_that_single_neurons_show_are_no_batch(monkeypatch):
    _, _, encoded = rows_of(LAYOUT, 8, 0)
    (found,) = Spear().run(observe(encoded), AuxiliaryKnowledge())
    mixed = replace(found, numbers=found.numbers.mean(0) + np.zeros((8, 1)), verified=np.zeros(8, bool))
    monkeypatch.setattr(LinearLayer, "invert", lambda *arguments: mixed)
    monkeypatch.setattr(Span, "invert", lambda *arguments: Abstained("nothing"))
    monkeypatch.setattr(Spear, "invert", lambda *arguments: Abstained("nothing"))
    monkeypatch.setattr(Atoms, "invert", lambda *arguments: Abstained("nothing"))
    assert isinstance(played(observe(encoded), AuxiliaryKnowledge()), NotApplicable)
    monkeypatch.setattr(LinearLayer, "invert", lambda *arguments: found)
    assert played(observe(encoded), AuxiliaryKnowledge()).verified.all()


def test_what_spear_finds_without_proof_is_held_against_all_layers(monkeypatch):
    _, _, encoded = rows_of(LAYOUT, 8, 0)
    (found,) = Spear().run(observe(encoded), AuxiliaryKnowledge())
    monkeypatch.setattr(Span, "invert", lambda *arguments: Abstained("nothing"))
    monkeypatch.setattr(Spear, "invert", lambda *arguments: replace(found, verified=np.zeros(8, bool)))
    atoms, held = Atoms.invert, []

    def only_held(self, update, knowledge, known):
        held.append(len(known))
        return atoms(self, update, knowledge, known) if self.attempts == 0 else Abstained("nothing")

    monkeypatch.setattr(Atoms, "invert", only_held)
    assert played(observe(encoded), AuxiliaryKnowledge()).verified.all()
    assert len(held) == 2


def test_of_a_batch_that_no_attack_solves_only_certain_rows_stay():
    view = observe(rows_of(LAYOUT, 8, 0)[2])
    update = update_in(view, AuxiliaryKnowledge())
    (found,) = Spear().run(view, AuxiliaryKnowledge())
    unsure = replace(found, residual=np.full(8, 1e-4), verified=np.arange(8) < 3)
    assert np.array_equal(strongest([unsure], update).numbers, found.numbers[:3])
    assert strongest([unsure, found], update) is found
    assert strongest([], update) is None


def test_rows_of_which_only_numbers_are_unsure_are_certain_too():
    view = observe(rows_of(LAYOUT, 8, 0)[2])
    update = update_in(view, AuxiliaryKnowledge())
    (found,) = Spear().run(view, AuxiliaryKnowledge())
    unsure = replace(found, verified=np.zeros(8, bool))
    assert certain(unsure, replace(update, noise=1e-6)).all()
    assert not certain(unsure, update).any()
    assert certain(replace(unsure, number_entropy=np.ones(found.number_entropy.shape)), update).all()
    open = replace(unsure, category_entropy=np.full(found.category_entropy.shape, 0.1))
    assert not certain(open, replace(update, noise=1e-6)).any()


def test_guesses_of_rows_that_are_proven_already_give_way_wherever_they_stand():
    view = observe(rows_of(LAYOUT, 8, 0)[2])
    update = update_in(view, AuxiliaryKnowledge())
    (found,) = Spear().run(view, AuxiliaryKnowledge())
    order = np.array([5, 1, 7, 0, 2, 6, 3, 4])
    claim = joined(StructuralPrior(LAYOUT, {}), update, some(found, np.arange(3)), some(found, order))
    assert np.array_equal(claim.numbers[3:], found.numbers[[5, 7, 6, 3, 4]])


@pytest.mark.parametrize("noise", [1e-3, 0.0])
def test_of_a_sample_of_unknown_size_no_more_rows_are_claimed_than_are_found(noise):
    categories, _, encoded = rows_of(LAYOUT, 4, 0)
    view = observe(encoded)
    coins = np.random.default_rng(0)
    whole = update_in(view, labels(4))
    sent = {n: (g + noise * coins.standard_normal(g.shape)) * 4 / 6 for n, g in whole.gradient.items()}
    told = (Mechanism("gaussian-noise", {"sigma": noise * 4 / 6}),) if noise else ()
    blind = replace(whole, gradient=sent, rows=6, labels=whole.labels[:0], mechanisms=told, guessed_size=True)
    brief = {"chains": 4, "sweeps": 6, "repairs": 6}
    claim = Portfolio(posterior=brief, tableak=SHORT).invert(blind, AuxiliaryKnowledge())
    assert sorted(map(tuple, claim.categories[:4].tolist())) == sorted(map(tuple, categories.tolist()))
    assert len(claim.numbers) == 4
