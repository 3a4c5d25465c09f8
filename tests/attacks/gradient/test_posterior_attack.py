"""The attack from a view to a claim, and the steps that lead its chains to the rows."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from leakledger.attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable, RecordsClaim
from leakledger.attacks.gradient.portfolio import Portfolio
from leakledger.attacks.gradient.posterior import Posterior, undefended
from leakledger.attacks.gradient.posterior.assembly import Assembly
from leakledger.attacks.gradient.posterior.assumed_errors import ASSUMED
from leakledger.attacks.gradient.posterior.atoms import atoms_of, with_labels
from leakledger.attacks.gradient.posterior.blind import blind_guess
from leakledger.attacks.gradient.posterior.cells import cells_of, most_uncertain
from leakledger.attacks.gradient.posterior.chains import Chains, from_prior, prior_of
from leakledger.attacks.gradient.posterior.claim import claimed
from leakledger.attacks.gradient.posterior.claim import rows_of as rows_in
from leakledger.attacks.gradient.posterior.evidence import channel, evidence_of
from leakledger.attacks.gradient.posterior.row_space import RowSpace, supported
from leakledger.attacks.gradient.posterior.samples import Samples
from leakledger.attacks.gradient.posterior.search import _suspects, search
from leakledger.attacks.gradient.posterior.undefended import judged
from leakledger.attacks.observed.barycentre import assigned
from leakledger.attacks.observed.gradients import find_gradients
from leakledger.attacks.observed.row_facts import RowFacts
from leakledger.attacks.observed.tabular import Rows, StructuralPrior
from leakledger.defenses import ClientClipping, GaussianNoise, Pruning, Quantisation
from leakledger.defenses.base import Chain
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, Mechanism, NumericBlock
from tests.attacks.example import LAYOUT, exact, observe, rows_of
from tests.attacks.gradient.posterior_example import wide

BRIEF = {"chains": 4, "sweeps": 6, "repairs": 6}
LABELS = AuxiliaryKnowledge(labels={("ann", 0): np.arange(4) % 2})


def defended(encoded, noise, *mechanisms, **options):
    """The view of a server that sees one noised gradient and knows the defense."""
    view = observe(encoded, noise=noise, **options)
    return replace(view, public=replace(view.public, mechanisms=mechanisms))


def right(claim, categories, numbers, within=0.319):
    """Share of cells of true rows that some claimed row has, each with its own categories and numbers."""
    close = np.abs(claim.numbers[:, None] - numbers[None]) <= within * np.array([13.0, 1.0])
    hits = np.concatenate([claim.categories[:, None] == categories[None], close], -1).mean(-1)
    return hits.max(0).mean()


def test_an_adversary_who_knows_the_noise_reads_rows_through_it():
    categories, numbers, encoded = rows_of(LAYOUT, 4, 0)
    view = defended(encoded, 1e-3, Mechanism("gaussian-noise", {"sigma": 1e-3}))
    (claim,) = Posterior(**BRIEF).run(view, LABELS)
    assert right(claim, categories, numbers) > 0.95
    assert claim.probability is not None
    assert claim.probability.mean() > 0.9


def test_noise_that_drowns_the_gradient_leaves_doubt_in_every_cell():
    _, _, encoded = rows_of(LAYOUT, 4, 0)
    view = defended(encoded, 10.0, Mechanism("gaussian-noise", {"sigma": 10.0}))
    (claim,) = Posterior(**BRIEF).run(view, LABELS)
    assert claim.probability is not None
    assert claim.probability.mean() < 0.6
    assert claim.category_entropy.mean() > 0.5


def test_a_claim_has_to_make_up_for_what_the_prior_of_its_chains_seems_ahead(monkeypatch):
    own = sys.modules[Posterior.__module__]
    categories, numbers, encoded = rows_of(LAYOUT, 4, 0)
    view = defended(encoded, 1e-3, Mechanism("gaussian-noise", {"sigma": 1e-3}))
    guess = Rows(np.zeros_like(categories), np.zeros_like(numbers))
    monkeypatch.setattr(own, "blind_guess", lambda *given: guess)
    for ahead, gives_way in ((0.0, False), (float(categories.size + numbers.size), True)):
        monkeypatch.setattr(own, "head_start", lambda *given, cells=ahead: cells)
        (claim,) = Posterior(**BRIEF).run(view, LABELS)
        assert bool((claim.categories == guess.categories).all()) is gives_way


def test_cells_are_linked_where_rows_are_known_and_are_to_be_used():
    (update,) = find_gradients(observe(rows_of(LAYOUT, 4, 0)[2]), LABELS)
    both = np.tile([0, 1, 2], 400)
    known = replace(update, facts=RowFacts(rows={"job": both, "city": both}))
    for attack, of, links in ((Posterior(), update, 0), (Posterior(), known, 2), (Posterior(tree=False), known, 0)):
        assert sum(len(c.links) for kind in attack.cells(of, LABELS) for c in kind) == links


def samples(index):
    """Of chains that settled, all alike probable."""
    return Samples(index, np.ones(index.shape[:2], bool), np.zeros(len(index)), np.arange(len(index)) % 2, True)


def test_samples_that_know_nothing_do_not_displace_the_best_blind_claim():
    """Claims are fitted to a few samples of the prior by chance; what samples agree on is held to."""
    _, _, encoded = rows_of(LAYOUT, 4, 0)
    (update,) = find_gradients(defended(encoded, 1.0, NOISE), LABELS)
    prior = StructuralPrior(update.layout, {})
    categorical, numeric = cells_of(update.layout, LABELS, "cpu")
    cells, coins = [*categorical, *numeric], torch.Generator().manual_seed(0)
    blind = blind_guess(cells, len(categorical), 4, 0.319 * prior.deviation, coins, "cpu")
    assert blind.categories.shape == (4, len(categorical))
    lost, apart = 0, 0
    for _ in range(20):
        index = from_prior(cells, 48, coins, "cpu").view(12, 4, -1).numpy()
        claim = claimed(update, prior, categorical, numeric, samples(index), 0.319, blind)
        lost += (claim.categories == blind.categories).all()
        agreed = np.repeat(index[:1], 12, axis=0)
        claim = claimed(update, prior, categorical, numeric, samples(agreed), 0.319, blind)
        apart += (np.sort(claim.categories, 0) == np.sort(index[0, :, : len(categorical)], 0)).all()
    assert lost > 10
    assert apart == 20


def test_a_claim_is_as_sure_as_it_is_right_in_samples_that_it_was_not_made_from():
    """In its own samples it is right too often: the commonest of few draws is less common in the posterior."""
    (update,) = find_gradients(defended(rows_of(LAYOUT, 4, 0)[2], 1.0, NOISE), LABELS)
    categorical, numeric = cells_of(update.layout, LABELS, "cpu")
    cells, coins = [*categorical, *numeric], torch.Generator().manual_seed(0)
    fresh = from_prior(cells, 4 * 2000, coins, "cpu").view(2000, 4, -1).numpy()
    made, within = rows_in(fresh, categorical, numeric), 0.319 * StructuralPrior(update.layout, {}).deviation
    said, found = [], []
    for _ in range(10):
        index = from_prior(cells, 4 * 16, coins, "cpu").view(16, 4, -1).numpy()
        claim = claimed(update, StructuralPrior(update.layout, {}), categorical, numeric, samples(index), 0.319)
        said.append(claim.probability.mean())
        _, wrong = assigned(Rows(claim.categories, claim.numbers), made, within)
        found.append(1 - wrong / claim.probability.size)
    assert np.mean(said) == pytest.approx(np.mean(found), abs=0.03)


def test_an_update_that_contradicts_its_defense_is_claimed_in_doubt():
    _, _, encoded = rows_of(LAYOUT, 4, 0)
    view = defended(encoded, 0.05, Mechanism("gaussian-noise", {"sigma": 0.01}))
    (claim,) = Posterior(**{**BRIEF, "repairs": 1}).run(view, LABELS)
    assert claim.probability is None
    assert (claim.category_entropy == 1).all()


def test_rows_that_leave_no_more_than_errors_that_nobody_made_are_in_doubt_unless_they_explain_the_update():
    """Errors are assumed of an undefended update, so that samples agree on wrong rows as well."""
    categories, numbers, encoded = rows_of(LAYOUT, 4, 0)
    (update,) = find_gradients(observe(encoded, activation="tanh"), LABELS)
    prior, sure, within = StructuralPrior(update.layout, {}), np.full((4, 6), 0.99), np.full(2, 0.1)
    zeros = np.zeros((4, 4)), np.zeros((4, 2))
    rough = numbers + np.array([[0.4, 0.03]])
    own = RecordsClaim("ann", 0, categories, rough, *zeros, probability=sure)
    claim = judged(own, prior, update, within)
    assert np.abs(claim.numbers - numbers).max() < 1e-4
    assert claim.verified.all()
    assert (claim.probability == sure).all()
    other = categories.copy()
    other[0, 1] = (other[0, 1] + 1) % 8
    claim = judged(replace(own, categories=other), prior, update, within)
    assert claim.probability is None
    assert claim.verified is None
    assert (claim.category_entropy == 1).all()
    assert np.array_equal(claim.numbers, rough)


def test_a_number_that_is_fitted_elsewhere_than_samples_have_it_is_not_as_probable_as_theirs(monkeypatch):
    categories, numbers, encoded = rows_of(LAYOUT, 2, 0)
    (update,) = find_gradients(observe(encoded), AuxiliaryKnowledge(labels={("ann", 0): np.array([0, 1])}))
    zeros, said = (np.zeros((2, 4)), np.zeros((2, 2))), np.full((2, 6), 0.9)
    own = RecordsClaim("ann", 0, categories, numbers, *zeros, probability=said)
    fitted = replace(own, numbers=numbers + np.array([[0.0, 0.5], [0.5, 0.0]]), verified=np.array([False, True]))
    monkeypatch.setattr(undefended, "held", lambda update, rows: fitted)
    claim = judged(own, StructuralPrior(update.layout, {}), update, np.full(2, 0.1))
    assert claim.probability[0] == pytest.approx([0.9, 0.9, 0.9, 0.9, 0.9, 0.1])
    assert (claim.probability[1] == 0.9).all()  # proven


def test_chains_on_an_undefended_update_end_at_rows_that_are_proven():
    categories, numbers, encoded = rows_of(LAYOUT, 4, 0)
    (claim,) = Posterior(**BRIEF).run(observe(encoded, activation="gelu"), LABELS)
    assert exact(claim, categories, numbers).all()
    assert claim.verified.all()


def test_less_noise_than_was_said_is_claimed_in_doubt():
    _, _, encoded = rows_of(LAYOUT, 4, 0)
    view = defended(encoded, 1e-3, Mechanism("gaussian-noise", {"sigma": 1e-2}))
    (claim,) = Posterior(**BRIEF).run(view, LABELS)
    assert claim.probability is None
    assert (claim.category_entropy == 1).all()


@pytest.mark.parametrize("sigma", [None, "loud", -1.0, float("nan"), float("inf"), True])
def test_noise_of_unknown_or_impossible_strength_is_named(sigma):
    _, _, encoded = rows_of(LAYOUT, 4, 0)
    given = {} if sigma is None else {"sigma": sigma}
    outcome = Posterior(**BRIEF).run(defended(encoded, 0.0, Mechanism("gaussian-noise", given)), LABELS)
    assert isinstance(outcome, NotApplicable)
    assert "gaussian-noise" in outcome.reason
    assert "sigma" in outcome.reason


def test_noise_of_strength_zero_is_none():
    categories, numbers, encoded = rows_of(LAYOUT, 4, 0)
    view = defended(encoded, 0.0, Mechanism("gaussian-noise", {"sigma": 0.0}))
    (claim,) = Posterior(**BRIEF).run(view, LABELS)
    assert right(claim, categories, numbers) > 0.95


def test_a_gradient_that_is_not_finite_is_named():
    encoded = rows_of(LAYOUT, 4, 0)[2]
    encoded[0, 0] = np.nan
    outcome = Posterior(**BRIEF).run(observe(encoded), LABELS)
    assert isinstance(outcome, NotApplicable)
    assert "not finite" in outcome.reason


def test_unknown_labels_are_sampled_too():
    categories, numbers, encoded = rows_of(LAYOUT, 2, 0)
    view = defended(encoded, 1e-3, Mechanism("gaussian-noise", {"sigma": 1e-3}))
    (claim,) = Posterior(**BRIEF).run(view, AuxiliaryKnowledge())
    assert right(claim, categories, numbers) > 0.9


def test_without_a_defense_rows_are_found_that_explain_the_update():
    categories, numbers, encoded = rows_of(LAYOUT, 4, 0)
    (claim,) = Posterior(**BRIEF).run(observe(encoded), LABELS)
    assert right(claim, categories, numbers) > 0.95


def test_the_portfolio_plays_it_where_updates_are_defended():
    _, _, encoded = rows_of(LAYOUT, 4, 0)
    view = defended(encoded, 1e-2, Mechanism("gaussian-noise", {"sigma": 1e-2}))
    (alone,) = Posterior(**BRIEF).run(view, LABELS)
    (claim,) = Portfolio(posterior=BRIEF).run(view, LABELS)
    assert (claim.categories == alone.categories).all()
    assert (claim.probability == alone.probability).all()


def test_a_defense_without_a_likelihood_is_not_attacked():
    _, _, encoded = rows_of(LAYOUT, 4, 0)
    outcome = Posterior(**BRIEF).run(defended(encoded, 0.0, Mechanism("sorcery")), LABELS)
    assert isinstance(outcome, NotApplicable)
    assert "sorcery" in outcome.reason
    outcome = Posterior(max_rows=3).run(observe(encoded), LABELS)
    assert isinstance(outcome, NotApplicable)
    assert "max_rows = 3" in outcome.reason


NOISE = Mechanism("gaussian-noise", {"sigma": 0.3})


def test_a_channel_is_what_defenses_do_together():
    entries = {"0.weight": np.array([[0.5, -1.0, 0.0, 0.0]])}
    two = channel([NOISE, Mechanism("gaussian-noise", {"sigma": 0.4})], entries)
    assert two.noise == pytest.approx(0.5)
    clipped = channel([Mechanism("example-clipping", {"clip_norm": 2.0}), NOISE], entries)
    assert (clipped.clip_norm, clipped.shrunk, clipped.noise) == (2.0, False, pytest.approx(0.3))
    assert channel([Mechanism("client-clipping", {"clip_norm": 2.0}), NOISE], entries).shrunk
    assert not channel([Mechanism("client-clipping", {"clip_norm": 2.6}), NOISE], entries).shrunk  # it was smaller
    assert isinstance(channel([NOISE, Mechanism("example-clipping", {"clip_norm": 2.0})], entries), str)
    assert isinstance(channel([Mechanism("gaussian-noise", {"sigma": float("inf")})], entries), str)
    assert channel([], entries).noise == pytest.approx(ASSUMED * np.sqrt(1.25 / 4))


AFTER = {
    "nothing": (),
    "hardly any noise": (GaussianNoise(1e-9),),
    "noise": (GaussianNoise(0.02),),
    "pruning": (Pruning(0.7),),
    "nearly all pruned": (Pruning(0.9),),
    "rounding": (Quantisation(4),),
    "rounding at random": (Quantisation(4, "stochastic"),),
}


@pytest.mark.parametrize("after", [*AFTER, "pruning, noise", "nearly all pruned, hardly any noise", "rounding, noise"])
def test_clipping_is_taken_for_idle_only_where_it_was(after):
    """Of updates of many sizes and shapes under one norm. Those far below it are recognised, unless noise hides what
    pruning or rounding did before.
    """
    coins, idle = np.random.default_rng(0), 0
    chain = [AFTER[name] for name in after.split(", ")]
    for size in np.geomspace(0.1, 30, 100):
        update = coins.normal(size=(6, 20)) ** coins.choice([1, 5])
        update = {"0.weight": (size * update / np.linalg.norm(update)).astype(np.float32)}
        defense = Chain((ClientClipping(1.0), *(part for parts in chain for part in parts)))
        sent = {n: a.astype(np.float64) for n, a in defense.protect(update, coins).items()}
        shrunk = channel(defense.mechanisms(), sent).shrunk
        assert shrunk or size < 1
        idle += not shrunk
    assert idle >= 15 or "," in after


CHANGED = {
    "pruning": {"share": 0.6},
    "quantisation": {"bits": 4, "rounding": "nearest"},
    "quantisation at random": {"bits": 4, "rounding": "stochastic"},
}


@pytest.mark.parametrize("name", CHANGED)
def test_what_pruning_and_rounding_change_counts_as_noise_of_the_same_mean_square(name):
    coins = np.random.default_rng(0)
    entries = coins.laplace(0, 0.2, (100, 100))
    kind = name.split()[0]
    defense = {"pruning": Pruning, "quantisation": Quantisation}[kind](**CHANGED[name])
    sent = {"w": np.float64(defense.protect({"w": np.float32(entries)}, coins)["w"])}
    through = channel([Mechanism(kind, CHANGED[name])], sent)
    (change,) = through.changes
    expected, error = change.mean_squares(sent)["w"], entries - sent["w"]
    alike = sent["w"] == 0 if kind == "pruning" else np.ones_like(error, bool)
    assert (error[alike] ** 2).mean() == pytest.approx(expected[alike].mean(), rel=0.1)
    assert (np.abs(entries - sent["w"]) <= change.halves["w"] + 1e-6).all()
    assert through.bounded
    assert not channel([Mechanism(kind, CHANGED[name]), NOISE], sent).bounded


PROTECTED = {
    "nine tenths pruned": Pruning(0.9),
    "4 bits": Quantisation(4),
    "4 bits, stochastic": Quantisation(4, "stochastic"),
}


@pytest.mark.parametrize("name", PROTECTED)
def test_an_adversary_who_knows_what_was_pruned_or_rounded_reads_rows_through_it(name):
    categories, numbers, encoded = rows_of(LAYOUT, 4, 0)
    view = defended(encoded, 0.0, *PROTECTED[name].mechanisms(), defense=PROTECTED[name])
    (claim,) = Posterior(**BRIEF).run(view, LABELS)
    assert right(claim, categories, numbers) > 0.95
    assert claim.probability is not None


@pytest.mark.parametrize(
    "defense",
    [
        Chain((Pruning(0.5), Quantisation(4))),
        Chain((Quantisation(4), Pruning(0.5))),
        Chain((Quantisation(4), GaussianNoise(1e-3))),
        Chain((ClientClipping(0.2), Quantisation(4))),
    ],
)
def test_of_changes_whose_bounds_are_not_used_nothing_is_sure(defense):
    _, _, encoded = rows_of(LAYOUT, 4, 0)
    (claim,) = Posterior(**BRIEF).run(defended(encoded, 0.0, *defense.mechanisms(), defense=defense), LABELS)
    assert claim.probability is None
    assert (claim.category_entropy == 1).all()


def test_bounds_of_changed_entries_are_those_of_the_defense():
    def halves(kind, entries, off=0.0, **given):
        (change,) = channel([Mechanism(kind, given)], {"w": np.array([entries])}, off).changes
        return change.halves["w"][0].tolist()

    assert halves("pruning", [3.0, -2.0, 0.0, 0.0], share=0.5) == [0, 0, 2, 2]
    assert halves("pruning", [0.0, 0.0], share=1.0) == [0, 0]
    assert halves("quantisation", [-7.0, 1.0, 0.0], bits=4, rounding="nearest") == [0.5] * 3
    assert halves("quantisation", [-7.0, 1.0, 0.0], bits=4, rounding="stochastic") == [1.0] * 3
    # worked out of two models, as a client reads it whose own update is subtracted
    assert halves("pruning", [3.0, -2.0, 4e-9, -3e-9], 1e-9, share=0.5) == [0, 0, 2, 2]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"bits": 4}, "rounding is None"),
        ({"bits": 4, "rounding": "up"}, "rounding is 'up'"),
        ({"bits": 2000, "rounding": "nearest"}, "bits is 2000, where at most 24"),
    ],
)
def test_a_rounding_that_no_defense_has_is_named(given, problem):
    encoded = rows_of(LAYOUT, 4, 0)[2]
    outcome = Posterior(**BRIEF).run(defended(encoded, 0.0, Mechanism("quantisation", given)), LABELS)
    assert isinstance(outcome, NotApplicable)
    assert problem in outcome.reason


@pytest.mark.parametrize("factor", [1e25, 1e-30])
def test_a_gradient_beyond_single_precision_is_no_crash(factor):
    (update,) = find_gradients(observe(rows_of(LAYOUT, 4, 0)[2]), LABELS)
    changed = replace(update, gradient={name: factor * g for name, g in update.gradient.items()})
    outcome = Posterior(**BRIEF).invert(changed, LABELS)
    assert isinstance(outcome, Abstained)
    assert "beyond single precision" in outcome.reason


def test_the_prior_of_a_number_has_the_public_moments_and_knows_no_more():
    values = np.linspace(-8, 8, 2001)
    log_prior = most_uncertain(values)
    normal = -(values**2) / 2
    assert np.allclose(log_prior - log_prior[1000], normal - normal[1000], atol=1e-3)
    skewed = np.linspace(-0.2, 12, 2001)
    p = np.exp(most_uncertain(skewed))
    assert p.sum() == pytest.approx(1)
    assert p @ skewed == pytest.approx(0, abs=1e-3)
    assert p @ skewed**2 == pytest.approx(1, abs=1e-2)


def test_cells_take_granted_shares_before_public_ones_and_even_ones_last():
    layout = FeatureLayout(
        (
            CategoricalBlock("ward", 0, 2, ("a", "b"), shift=(0.3, 0.7), scale=(0.4, 0.4)),
            CategoricalBlock("sex", 2, 2, ("f", "m")),
            NumericBlock("age", 4, shift=0.0, scale=50.0, low=0.0, high=50.0, integer=True),
        )
    )
    granted = AuxiliaryKnowledge(marginals={"sex": (("m", "f"), np.array([0.9, 0.1]))})
    (ward, sex), (age,) = cells_of(layout, granted, "cpu")
    assert ward.log_prior.exp().tolist() == pytest.approx([0.3, 0.7], abs=1e-3)
    assert sex.log_prior.exp().tolist() == pytest.approx([0.1, 0.9], abs=1e-3)
    assert age.size == 51
    assert age.log_prior.exp().tolist() == pytest.approx([1 / 51] * 51)
    assert age.raw.tolist() == list(range(51))


def test_the_row_space_fits_its_rows_and_leads_chains_to_them():
    _, cells, index, _, evidence, coins = wide(4)
    own = RowSpace(evidence, cells, index.clone(), coins).fits()
    others = RowSpace(evidence, cells, from_prior(cells, 200, coins, "cpu"), coins).fits()
    assert own.min() > others.quantile(0.99)
    pool = supported(evidence, cells, coins, 200, 20, 50)
    named = [f for f, c in enumerate(cells) if c.raw is None]
    found = (pool[:, None, named] == index[None][..., named]).all(-1).any(0)
    assert found.float().mean() >= 0.5


def test_quadratic_forms_of_candidates_are_those_of_rows_that_hold_them():
    _, cells, _, _, evidence, coins = wide(4)
    space = RowSpace(evidence, cells, from_prior(cells, 5, coins, "cpu"), coins)
    for f, cell in enumerate(cells[:3]):
        base = space.rows.clone()
        base[:, cell.columns] -= cell.codes[space.index[:, f]]
        forms = space._with(base, space.forms[0], cell, None)
        for value in range(cell.size):
            rows = base.clone()
            rows[:, cell.columns] += cell.codes[value]
            expected = ((rows @ space.forms[0]) * rows).sum(-1)
            assert torch.allclose(forms[:, value], expected, rtol=1e-3, atol=1e-3)


def test_a_pool_that_holds_the_rows_is_assembled_to_them():
    network, cells, index, _labels, evidence, coins = wide(4)
    pool = torch.unique(torch.cat([index, from_prior(cells, 100, coins, "cpu")]), dim=0)
    atoms = Assembly(evidence, atoms_of(network, cells, evidence, *with_labels(evidence, pool, network.classes)))
    noises = np.geomspace(evidence.loudest, evidence.noise, 30).tolist()
    chosen = atoms.choose(atoms.start(16, coins), noises, coins)
    state = Chains(network, cells, evidence, atoms.index[chosen], coins, atoms.labels[chosen])
    best = state.index[int(state.energy().argmin())]
    assert sorted(best.tolist()) == sorted(index.tolist())


def test_suspects_are_the_rows_that_the_residual_points_at():
    network, cells, index, _labels, evidence, coins = wide(4)
    wrong = index.clone()
    wrong[2, 0] = (wrong[2, 0] + 1) % cells[0].size
    state = Chains(network, cells, evidence, wrong.expand(3, -1, -1).clone(), coins)
    assert 2 in _suspects(state, 0).tolist()


def test_rows_without_a_share_in_the_residual_are_as_suspect_as_any():
    """What a residual has in columns that are 0 in every row, no row has."""
    network, cells, index, _labels, evidence, coins = wide(4)
    state = Chains(network, cells, evidence, index.expand(3, -1, -1).clone(), coins)
    state.residual[0].zero_()
    state.columns[..., :2] = 0.0
    state.residual[0][..., 0, 0] = state.residual[0][..., 1, 1] = 1.0
    chosen = _suspects(state, 0).tolist()
    assert len(set(chosen)) == len(chosen) > 0


def test_a_search_finds_what_is_as_probable_as_the_truth():
    network, cells, index, _labels, evidence, coins = wide(4)
    found = search(network, cells, evidence, 4, 8, coins)
    truth = Chains(network, cells, evidence, index[None].clone(), coins)
    assert float((found.energy() - found.log_prior()).min()) < float(truth.energy() - prior_of(cells, index).sum()) + 10


def test_the_noise_of_a_gradient_that_was_stretched_is_stretched_with_it():
    _, _, encoded = rows_of(LAYOUT, 4, 0)
    view = defended(encoded, 1e-3, Mechanism("gaussian-noise", {"sigma": 1e-3}))
    (update,) = find_gradients(view, LABELS)
    through = channel(update.mechanisms, update.gradient)
    plain = evidence_of(update, through, "cpu")
    double = evidence_of(replace(update, stretched=2.0), through, "cpu")
    assert double.noise == pytest.approx(2 * plain.noise)


@pytest.mark.parametrize("expected", [3, 6])
def test_of_a_sample_of_unknown_size_as_many_rows_are_claimed_as_there_are(expected):
    categories, numbers, encoded = rows_of(LAYOUT, 4, 0)
    view = defended(encoded, 1e-3, Mechanism("gaussian-noise", {"sigma": 1e-3}))
    (update,) = find_gradients(view, LABELS)
    mean = {name: g * 4 / expected for name, g in update.gradient.items()}
    told = Mechanism("gaussian-noise", {"sigma": 4e-3 / expected})
    blind = replace(
        update, gradient=mean, rows=expected, mechanisms=(told,), labels=update.labels[:0], guessed_size=True
    )
    claim = Posterior(**BRIEF).invert(blind, AuxiliaryKnowledge())
    assert len(claim.numbers) == 4
    assert right(claim, categories, numbers) > 0.9
    assert claim.probability.max() <= 1


def test_of_samples_of_several_sizes_those_of_the_commonest_are_claimed():
    index = np.arange(2 * 3 * 4).reshape(4, 3, 2)
    present = np.array([[1, 1, 0], [0, 1, 1], [1, 1, 1], [1, 0, 1]], bool)
    found = Samples(index, present, np.arange(4.0), np.arange(4), True).of_one_size()
    assert found.index[:, 0].tolist() == [index[0, 0].tolist(), index[1, 1].tolist(), index[3, 0].tolist()]
    assert (found.fit.tolist(), found.share, found.settled) == ([0, 1, 3], 0.75, True)
    assert found.ladder.tolist() == [0, 1, 3]
    few = Samples(index, present & (np.arange(4) == 3)[:, None], np.arange(4.0), np.arange(4), True).of_one_size()
    assert (few.fit.tolist(), few.share) == ([3], 0.25)  # a batch without rows is nothing to claim
    assert not len(Samples(index, present & False, np.arange(4.0), np.arange(4), True).of_one_size().fit)
