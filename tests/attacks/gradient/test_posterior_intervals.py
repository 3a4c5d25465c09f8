"""Entries that are known by an interval: pruned and rounded updates, as the real defenses make them."""

import math
from collections import Counter
from itertools import product

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import chisquare, kstest, norm

from leakledger.attacks.gradient.posterior.assembly import Assembly
from leakledger.attacks.gradient.posterior.atoms import atoms_of, with_labels
from leakledger.attacks.gradient.posterior.chains import Chains, encoded, prior_of
from leakledger.attacks.gradient.posterior.evidence import NARROW, channel, evidence_of
from leakledger.attacks.gradient.posterior.intervals import Intervals, log_within, log_within_triangle
from leakledger.attacks.gradient.posterior.pairs import sweep_pairs, visit_pair
from leakledger.attacks.gradient.posterior.search import SURPRISED, plausible, search
from leakledger.attacks.gradient.posterior.tempering import sampled
from leakledger.attacks.observed.sums import of_sum
from leakledger.attacks.observed.update import ObservedUpdate
from leakledger.defenses import GaussianNoise, Pruning, Quantisation
from leakledger.defenses.base import Chain
from tests.attacks.gradient.posterior_example import SPEC, TINY, drawn, tiny
from tests.attacks.gradient.test_posterior_chains import FALSE_ALARMS, started, unordered

NOISE = 0.15  # of a mean gradient: enough to leave several batches possible
CHANGES = {
    "pruned": Pruning(0.8),
    "rounded": Quantisation(2),
    "rounded at random": Quantisation(2, "stochastic"),
}
ABOUT = [(0.0, 0.1), (0.7, 0.1), (1.05, 0.1), (1.3, 0.1), (2.0, 0.1), (0.5, 1.0), (3.0, 1.0), (0.2, 8.0)]


@pytest.mark.parametrize(("residual", "smear"), ABOUT)
def test_the_likelihood_of_an_interval_is_the_integral_over_it(residual, smear):
    expected = norm.logcdf((1 - residual) / smear)
    expected += np.log1p(-np.exp(norm.logcdf((-1 - residual) / smear) - expected))
    found = log_within(torch.tensor([residual, -residual]), torch.ones(1), smear)
    np.testing.assert_allclose(found, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("residual", "smear"), ABOUT)
def test_the_likelihood_of_stochastic_rounding_is_the_mean_of_its_triangle(residual, smear):
    def part(low, high):
        return quad(lambda x: (1 - abs(x)) * norm.pdf(x, residual, smear), low, high)[0]

    found = log_within_triangle(torch.tensor([residual, -residual]), torch.ones(1), smear)
    np.testing.assert_allclose(found, math.log(part(-1, 0) + part(0, 1)), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("triangular", [False, True])
def test_the_truth_is_no_surprise_and_others_of_its_size_are(triangular):
    coins = np.random.default_rng(0)
    truth = coins.laplace(0, 0.1, (50, 40))
    level = np.floor(truth + coins.random((50, 40))) if triangular else np.rint(truth)
    half = torch.full((50, 40), 1.0 if triangular else 0.5)
    intervals = Intervals([half], 1e-3, triangular)
    other = coins.laplace(0, 0.1, (50, 40))  # as small, but those of other rows
    near, far = (torch.tensor((level - entries)[None], dtype=torch.float32) for entries in (truth, other))
    assert abs(float(intervals.surprise([near]))) < SURPRISED
    assert float(intervals.surprise([far])) > SURPRISED


def protected(network, cells, index, labels, defense, coins, clients=1):
    """Evidence in the mean gradient of rows (B, F) of so many clients, each protected by `defense`."""
    total = {}
    for rows, own in zip(index.chunk(clients), labels.chunk(clients), strict=True):
        columns = encoded(network, cells, rows[None])
        sums = network.sums(columns, own[None], torch.ones(1, len(rows)))
        mean = {}
        for i, s in enumerate(sums):
            layer = (s[0] / len(rows)).numpy()
            mean |= {f"{i}.weight": layer[:, :-1].copy(), f"{i}.bias": layer[:, -1].copy()}
        for name, g in defense.protect(mean, coins).items():
            total[name] = total.get(name, 0.0) + np.float64(g) / clients
    weights = {f"{i}.weight": np.float64(w) for i, w in enumerate(network.weights)}
    weights |= {f"{i}.bias": np.float64(b) for i, b in enumerate(network.biases)}
    update = ObservedUpdate(
        "ann",
        0,
        len(index),
        TINY,
        SPEC,
        labels.numpy(),
        weights,
        total,
        2.0**-24,
        mechanisms=of_sum(defense.mechanisms(), [1 / clients] * clients),
    )
    through = channel(update.mechanisms, update.gradient)
    assert not isinstance(through, str)
    return evidence_of(update, through, "cpu")


def noised(change):
    return Chain((GaussianNoise(NOISE), CHANGES[change]))


@pytest.mark.parametrize("change", CHANGES)
def test_kept_entries_count_in_full_and_others_by_what_is_known_of_them(change):
    network, cells = tiny()
    coins = torch.Generator().manual_seed(0)
    evidence = protected(network, cells, *drawn(cells, 2, coins), noised(change), np.random.default_rng(0))
    zero = [t == 0 for t in evidence.total]
    for weight, half, none in zip(evidence.weights, evidence.intervals.halves, zero, strict=True):
        assert (weight > 0).all()
        assert (weight <= 1).all()
        if change == "pruned":
            assert (half > 0).equal(none)
            assert (weight[~none] == 1).all()
            assert (weight[none] < 1).all()
        else:  # a tensor whose steps are small beside the noise has errors like that
            assert (half > 0).any()
            assert (half[half > 0] > NARROW * evidence.intervals.smear).all()
    assert evidence.intervals.smear == pytest.approx(2 * NOISE)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("pair", [False, True])
def test_visits_draw_from_the_conditional_that_weighted_energies_give(change, pair):
    network, cells = tiny()
    coins = torch.Generator().manual_seed(1)
    index, labels = drawn(cells, 2, coins)
    evidence = protected(network, cells, index, labels, noised(change), np.random.default_rng(0))
    state = started(network, cells, evidence, 20_000)
    state.become(index.expand(20_000, -1, -1), labels.expand(20_000, -1))
    state.lift(0)
    if pair:
        state.lift(1)
        visit_pair(state, 0, 1, 0, evidence.noise)
        state.put(1)
    else:
        state.visit(0, 0, evidence.noise)
    state.put(0)
    reached = torch.bincount(3 * state.index[:, 0, 0] + state.index[:, 1, 0], minlength=9).numpy()
    options = index.repeat(9, 1, 1)
    options[:, 0, 0], options[:, 1, 0] = torch.arange(9) // 3, torch.arange(9) % 3
    every = Chains(network, cells, evidence, options, coins, labels.repeat(9, 1))
    weights = torch.softmax((prior_of(cells, options).sum(-1) - every.energy()).double(), 0).numpy()
    weights = weights if pair else weights * (options[:, 1, 0] == index[1, 0]).numpy()
    due = 20_000 * weights / weights.sum()
    likely = due >= 5
    assert reached[due == 0].sum() == 0
    assert chisquare(reached[likely], reached[likely].sum() * due[likely] / due[likely].sum()).pvalue > FALSE_ALARMS


@pytest.mark.parametrize("change", CHANGES)
def test_long_runs_visit_batches_as_often_as_the_exact_posterior_has_them(change):
    network, cells = tiny()
    cells = [cells[0], cells[1]]  # categories alone, so that all batches of two rows can be tried
    coins = torch.Generator().manual_seed(2)
    index, labels = drawn(cells, 2, coins)
    evidence = protected(network, cells, index, labels, noised(change), np.random.default_rng(1))
    state = started(network, cells, evidence, 4_000)
    state.exact = True
    for _ in range(25):
        state.sweep(evidence.noise)
        sweep_pairs(state, evidence.noise)
    kinds = list(product(*(range(c.size) for c in cells)))
    batches = torch.tensor(list(product(kinds, repeat=2)))
    every = Chains(network, cells, evidence, batches.clone(), coins, labels.repeat(len(batches), 1))
    exact = torch.softmax((every.log_prior() - every.misfit()).double(), 0)
    normal = torch.softmax((every.log_prior() - every.energy()).double(), 0)
    assert (exact - normal).abs().max() > 0.02  # else this would not tell one from the other
    wanted, counts = Counter(), Counter()
    told = [tuple(zip(map(tuple, b), labels.tolist(), strict=True)) for b in batches.tolist()]
    for batch, share in zip(told, exact.tolist(), strict=True):
        wanted[unordered(batch)] += 4_000 * share
    for batch in state.index.tolist():
        counts[unordered(zip(map(tuple, batch), labels.tolist(), strict=True))] += 1
    likely = [b for b, n in wanted.items() if n >= 10]
    found = np.array([counts[b] for b in likely] + [4_000 - sum(counts[b] for b in likely)])
    due = np.array([wanted[b] for b in likely] + [4_000 - sum(wanted[b] for b in likely)])
    assert len(likely) >= 3
    assert chisquare(found[due > 5], due[due > 5] / due[due > 5].sum() * found[due > 5].sum()).pvalue > FALSE_ALARMS


@pytest.mark.parametrize("change", ["pruned", "rounded"])
def test_the_exact_posterior_is_that_of_what_the_defense_may_have_made_of_noised_gradients(change):
    """Against a likelihood of its own, from the levels of the defense."""
    network, cells = tiny()
    cells = [cells[0], cells[1]]
    coins = torch.Generator().manual_seed(2)
    index, labels = drawn(cells, 2, coins)
    defense = Chain((GaussianNoise(NOISE), Pruning(0.8) if change == "pruned" else Quantisation(4)))
    evidence = protected(network, cells, index, labels, defense, np.random.default_rng(1))
    batches = torch.tensor(list(product(product(*(range(c.size) for c in cells)), repeat=2)))
    every = Chains(network, cells, evidence, batches, coins, labels.repeat(len(batches), 1))
    likelihood = np.zeros(len(batches))
    for rest, total in zip(every.residual, evidence.total, strict=True):
        sent = total.numpy() / 2
        means = sent - rest.numpy() / 2
        for part in (np.s_[:, :-1], np.s_[:, -1:]):  # a tensor each: weights, bias
            likelihood += likelihood_of(change, sent[part], means[(slice(None), *part)]).sum((1, 2))
    prior = every.log_prior().numpy()
    exact, found = (np.exp(x - x.max()) for x in (prior + likelihood, prior - every.misfit().numpy()))
    assert np.abs(exact / exact.sum() - found / found.sum()).sum() < 0.01
    assert (exact / exact.sum()).max() < 0.99


def likelihood_of(change, sent, means):
    """log P(sent (out, in) | means (n, out, in)) of a tensor whose entries had noise added."""
    if change == "pruned":
        least = np.abs(sent[sent != 0]).min() if sent.any() else 0.0
        within = norm.cdf((least - means) / NOISE) - norm.cdf((-least - means) / NOISE)
        return np.where(sent == 0, np.log(within), norm.logpdf(sent, means, NOISE))
    half = np.abs(sent).max() / 7 / 2
    return np.log(norm.cdf((sent + half - means) / NOISE) - norm.cdf((sent - half - means) / NOISE))


SENT = {
    **{change: (noised(change), 1) for change in CHANGES},
    **{f"sum of {k} clients": (GaussianNoise(0.1), k) for k in (2, 10)},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SENT)
def test_ranks_of_the_truth_are_uniform_behind_the_real_defenses(name):
    """Simulation-based calibration (Talts et al. 2018) of what the defenses themselves sent, and of sums of clients."""
    network, cells = tiny()
    defense, clients = SENT[name]
    coins, jitter = torch.Generator().manual_seed(5), np.random.default_rng(0)
    ranks = {"age": [], "log posterior": []}
    for trial in range(40):
        index, labels = drawn(cells, max(2, clients), coins)
        evidence = protected(network, cells, index, labels, defense, np.random.default_rng(trial), clients)
        samples = sampled(started(network, cells, evidence, 64, seed=trial), 8, 4)
        truth = Chains(network, cells, evidence, index[None], coins, labels[None])
        figures = {
            "age": (samples.index[..., 2].sum(1), float(index[:, 2].sum())),
            "log posterior": (samples.fit, float((truth.log_prior() - truth.misfit())[0])),
        }
        for figure, (values, value) in figures.items():
            tied = np.abs(values - value) <= 1e-4
            below = ((values < value) & ~tied).sum()
            ranks[figure].append((below + jitter.random() * (tied.sum() + 1)) / (len(values) + 1))
    for figure, found in ranks.items():
        assert kstest(found, "uniform").pvalue > FALSE_ALARMS, figure


FINE = {"pruned": Pruning(0.8), "rounded": Quantisation(4), "rounded at random": Quantisation(4, "stochastic")}


@pytest.mark.parametrize("change", FINE)
def test_a_search_ends_at_rows_that_break_no_bounds(change):
    network, cells = tiny()
    coins = torch.Generator().manual_seed(0)
    index, labels = drawn(cells, 3, coins)
    evidence = protected(network, cells, index, labels, FINE[change], np.random.default_rng(0))
    found = search(network, cells, evidence, 8, 6, coins, pool=64)
    assert bool(plausible(found).any())
    truth = Chains(network, cells, evidence, index[None], coins, labels[None])
    assert bool(plausible(truth).all())
    assert float((truth.misfit() - truth.log_prior() - (found.misfit() - found.log_prior()).min()).abs()) < 10
    wrong = index.clone()
    wrong[0, 0] = (wrong[0, 0] + 1) % 3
    assert not bool(plausible(Chains(network, cells, evidence, wrong[None], coins, labels[None])).any())


@pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
@pytest.mark.parametrize("bits", [2, 4, 6, 8, 10, 12, 16, 24])
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_the_truth_is_plausible_whatever_a_step_is_beside_the_noise(bits, rounding, noise):
    network, cells = tiny()
    coins = torch.Generator().manual_seed(0)
    index, labels = drawn(cells, 3, coins)
    rounded = Quantisation(bits, rounding)
    defense = Chain((GaussianNoise(noise), rounded)) if noise else rounded
    surprised = []
    for seed in range(20):
        evidence = protected(network, cells, index, labels, defense, np.random.default_rng(seed))
        truth = Chains(network, cells, evidence, index[None], coins, labels[None])
        assert bool(plausible(truth).all()) or noise  # an energy of normal noise has a tail
        if evidence.intervals is not None:
            surprised.append(float(evidence.intervals.surprise(truth.residual)))
        others = started(network, cells, evidence, 16, seed)
        assert bool(torch.isfinite(others.misfit()).all())
    if noise and surprised:  # errors are as stated
        assert abs(np.mean(surprised)) < 1.5
        assert np.max(np.abs(surprised)) < SURPRISED


def test_a_choice_among_atoms_fits_as_chains_do():
    network, cells = tiny()
    coins = torch.Generator().manual_seed(0)
    index, labels = drawn(cells, 2, coins)
    evidence = protected(network, cells, index, labels, noised("pruned"), np.random.default_rng(0))
    pool = with_labels(evidence, drawn(cells, 6, coins)[0], network.classes)
    atoms = Assembly(evidence, atoms_of(network, cells, evidence, *pool))
    chosen = torch.tensor([[0, 7], [3, 11]])
    state = Chains(network, cells, evidence, atoms.index[chosen], coins, atoms.labels[chosen])
    gram = torch.stack([atoms.gram[c][:, c].sum() for c in chosen])
    square = evidence.square - 2 * atoms.target[chosen].sum(1) + gram
    torch.testing.assert_close(state.energy(), square / (2 * evidence.noise**2), rtol=1e-4, atol=1e-3)
