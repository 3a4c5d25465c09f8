"""The sampler: exact conditionals, the whole posterior where it can be enumerated, and calibration by simulation."""

from collections import Counter
from dataclasses import replace
from itertools import combinations_with_replacement, product
from math import factorial

import numpy as np
import pytest
import torch
from scipy.stats import chisquare, kstest, poisson
from torch.nn import functional

from leakledger.attacks.gradient.posterior import chains as module
from leakledger.attacks.gradient.posterior import tempering
from leakledger.attacks.gradient.posterior.annealing import _select, annealed, descend
from leakledger.attacks.gradient.posterior.chains import Chains, encoded, from_prior, prior_of
from leakledger.attacks.gradient.posterior.crossover import aligned, exchanged, outcomes, weighed
from leakledger.attacks.gradient.posterior.evidence import log_ways
from leakledger.attacks.gradient.posterior.pairs import sweep_pairs, visit_pair, visit_presence
from leakledger.attacks.gradient.posterior.sample_size import log_choices, of_unknown_size, places
from leakledger.attacks.gradient.posterior.search import settled
from leakledger.attacks.gradient.posterior.tempering import exchange, sampled
from tests.attacks.gradient.posterior_example import drawn, evidence_about, tiny

FALSE_ALARMS = 1e-4  # of each statistical test here: they run often


def started(network, cells, evidence, chains, seed=0):
    coins = torch.Generator().manual_seed(seed)
    index = from_prior(cells, chains * evidence.rows, coins, "cpu").view(chains, evidence.rows, len(cells))
    return Chains(network, cells, evidence, index, coins)


def test_the_residual_is_what_the_rows_leave_of_the_sum():
    network, cells = tiny()
    coins = torch.Generator().manual_seed(0)
    index, labels = drawn(cells, 3, coins)
    evidence = evidence_about(network, cells, index, labels, 1e-3, coins)
    state = started(network, cells, evidence, 2)
    state.become(index.expand(2, -1, -1), labels.expand(2, -1))
    entries = evidence.entries
    assert (state.energy() - entries / 2).abs().max() < 5 * (entries / 2) ** 0.5
    before = [r.clone() for r in state.residual]
    state.lift(1)
    state.put(1)
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(before, state.residual, strict=True))


def test_ladders_leave_the_posterior_as_it_is_where_the_factor_is_unknown(monkeypatch):
    """Each rung draws the factor under its own noise. Exactly: over a grid of factors, for each of six rows."""
    monkeypatch.setattr(tempering, "follow_the_best", lambda state: None)
    network, cells = tiny()
    cells, coins = cells[:2], torch.Generator().manual_seed(11)
    index, labels = drawn(cells, 1, coins)
    evidence = evidence_about(network, cells, index, labels, 0.5, coins, scale=0.6)
    every = torch.cartesian_prod(torch.arange(3), torch.arange(2))
    columns = encoded(network, cells, every[:, None])
    sums = network.sums(columns, labels.expand(6, 1), torch.ones(6, 1))
    grid = torch.linspace(0, 1, 2001)[:, None, None, None]
    left = [(t - grid * part).double().square().sum((-1, -2)) for t, part in zip(evidence.total, sums, strict=True)]
    weights = prior_of(cells, every) + torch.logsumexp(-torch.stack(left).sum(0) / (2 * evidence.noise**2), 0)
    state = started(network, cells, evidence, 1_600)
    reached = sampled(state, 20, 80).index[:, 0]
    shares = np.bincount(2 * reached[:, 0] + reached[:, 1], minlength=6) / len(reached)
    off = np.abs(shares - torch.softmax(weights, 0).numpy()).sum() / 2
    assert off < 0.008  # 0.013 where all rungs draw it under the least noise


@pytest.mark.parametrize(("clip_norm", "known"), [(None, True), (0.3, True), (None, False)])
def test_a_visit_draws_from_the_conditional_that_energies_give(clip_norm, known):
    network, cells = tiny()
    coins = torch.Generator().manual_seed(1)
    index, labels = drawn(cells, 2, coins)
    evidence = evidence_about(network, cells, index, labels, 0.05, coins, known=known, clip_norm=clip_norm)
    state = started(network, cells, evidence, 20_000)
    state.become(index.expand(20_000, -1, -1), labels.expand(20_000, -1))
    state.lift(0)
    state.visit(0, 0, evidence.noise)
    state.put(0)
    reached = torch.bincount(state.index[:, 0, 0], minlength=3).numpy()
    options = index.repeat(3, 1, 1)
    options[:, 0, 0] = torch.arange(3)
    every = Chains(network, cells, evidence, options, coins, labels.repeat(3, 1))
    weights = torch.softmax((prior_of(cells, options).sum(-1) - every.energy()).double(), 0).numpy()
    assert chisquare(reached, 20_000 * weights).pvalue > FALSE_ALARMS


def joint(state, noise):
    """The joint log posterior of all chains, up to a constant, each under its own noise."""
    power = (noise[:, 0] / state.evidence.noise) ** 2
    return float((state.log_prior() - state.energy() / power).sum())


@pytest.mark.parametrize(("clip_norm", "known"), [(None, True), (0.3, True), (None, False)])
def test_exchanges_of_rows_are_drawn_by_the_joint_posterior_of_both_chains(clip_norm, known):
    network, cells = tiny()
    coins = torch.Generator().manual_seed(1)
    index, labels = drawn(cells, 4, coins)
    evidence = evidence_about(network, cells, index, labels, 0.05, coins, known=known, clip_norm=clip_norm)
    noise = torch.tensor([[0.05], [0.08], [0.2], [0.05]])
    state = started(network, cells, evidence, 4)
    start = state.index.clone(), state.labels.clone()
    sides, places = (torch.tensor([2]), torch.tensor([1])), torch.tensor([3, 0, 2])
    gains = weighed(state, noise, sides, places)[0]
    before = joint(state, noise)
    for way, gain in zip(outcomes(3), gains, strict=True):
        state.become(*start)
        exchanged(state, sides, places, way[None] > 0)
        assert joint(state, noise) - before == pytest.approx(float(gain), abs=2e-3, rel=1e-4)
        assert torch.equal(state.index[[0, 3]], start[0][[0, 3]])  # the other chains stay as they are
        swapped = places[way > 0]
        assert torch.equal(state.index[2, swapped], start[0][1, swapped])
        assert torch.equal(state.labels[1, swapped], start[1][2, swapped])


@pytest.mark.parametrize("known", [True, False])
def test_rows_of_all_chains_come_into_the_order_of_the_best(known):
    network, cells = tiny()
    coins = torch.Generator().manual_seed(1)
    index, labels = drawn(cells, 6, coins)
    evidence = evidence_about(network, cells, index, labels, 0.05, coins, known=known)
    own = labels if evidence.labels is None else evidence.labels
    order = torch.arange(6).roll(2)
    if known:  # each place keeps its label
        for same in (torch.nonzero(own == y)[:, 0] for y in (0, 1)):
            order[same] = same.flip(0)
    rows, told = torch.stack([index, index[order], index[order]]), torch.stack([own, own[order], own[order]])
    state = started(network, cells, evidence, 3)
    state.become(rows, told)
    energy = state.energy().clone()
    aligned(state)
    assert torch.allclose(state.energy(), energy, rtol=1e-4)
    assert (state.columns == state.columns[0]).all()
    assert (state.labels == state.labels[0]).all()


@pytest.mark.parametrize("clip_norm", [None, 0.3])
def test_whether_a_row_is_there_and_its_label_are_drawn_from_the_conditional_that_energies_give(clip_norm):
    network, cells = tiny()
    coins = torch.Generator().manual_seed(1)
    index, labels = drawn(cells, 3, coins)
    sent = evidence_about(network, cells, index[:2], labels[:2], 0.3, coins, clip_norm=clip_norm)
    evidence = replace(of_unknown_size(sent, 1), rows=3)  # two rows and a place, in which one may be
    evidence = replace(evidence, choices=evidence.choices[:4])
    present = torch.tensor([[1.0, 1.0, 0.0]])
    rows = [x.expand(20_000, *x.shape).clone() for x in (index, labels, present[0])]
    state = Chains(network, cells, evidence, rows[0], coins, *rows[1:])
    state.lift(2)
    state.visit_label(2, evidence.noise)
    state.put(2)
    reached = torch.bincount(2 * state.present[:, 2].long() + state.labels[:, 2], minlength=4).numpy()
    all_labels, there = labels.repeat(4, 1), present.repeat(4, 1)
    all_labels[:, 2], there[:, 2] = torch.arange(4) % 2, torch.arange(4) // 2
    every = Chains(network, cells, evidence, index.repeat(4, 1, 1), coins, all_labels, there)
    row = prior_of(cells, index[2], labels[2]) + evidence.label_prior[0]  # the prior's, where it is not there, too
    weights = every.log_prior() + torch.where(there[:, 2] > 0, 0.0, row) - every.energy()
    weights = torch.softmax(weights.double(), 0).numpy()
    assert chisquare(reached, 20_000 * weights).pvalue > FALSE_ALARMS


@pytest.mark.parametrize("clip_norm", [None, 0.3])
def test_which_of_two_places_have_their_row_is_drawn_from_the_joint_conditional(clip_norm):
    network, cells = tiny()
    coins = torch.Generator().manual_seed(1)
    index, labels = drawn(cells, 2, coins)
    sent = evidence_about(network, cells, index[:1], labels[:1], 0.3, coins, clip_norm=clip_norm)
    evidence = replace(of_unknown_size(sent, 1), rows=2)
    evidence = replace(evidence, choices=evidence.choices[:3])
    rows = [x.expand(20_000, *x.shape).clone() for x in (index, labels, torch.tensor([1.0, 0.0]))]
    state = Chains(network, cells, evidence, rows[0], coins, *rows[1:])
    visit_presence(state, torch.full((20_000, 1), evidence.noise))
    reached = torch.bincount((state.present[:, 0] + 2 * state.present[:, 1]).long(), minlength=4).numpy()
    there = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    every = Chains(network, cells, evidence, index.repeat(4, 1, 1), coins, labels.repeat(4, 1), there)
    weights = evidence.choices[there.sum(1).long()] - every.energy()
    assert chisquare(reached, 20_000 * torch.softmax(weights.double(), 0).numpy()).pvalue > FALSE_ALARMS


@pytest.mark.parametrize("shrunk", [False, True])
@pytest.mark.parametrize("clip_norm", [None, 0.3])
def test_a_visit_of_a_pair_draws_from_the_joint_conditional_that_energies_give(clip_norm, shrunk):
    network, cells = tiny()
    coins = torch.Generator().manual_seed(1)
    index, labels = drawn(cells, 3, coins)
    evidence = evidence_about(network, cells, index, labels, 0.3, coins, clip_norm=clip_norm)
    state = started(network, cells, evidence, 20_000)
    state.become(index.expand(20_000, -1, -1), labels.expand(20_000, -1))
    factor = 0.6 if shrunk else 1.0
    if shrunk:
        rescale(state, factor)
    state.lift(0)
    state.lift(2)
    visit_pair(state, 0, 2, 0, torch.full((20_000, 1), evidence.noise))
    state.put(0)
    state.put(2)
    reached = torch.bincount(3 * state.index[:, 0, 0] + state.index[:, 2, 0], minlength=9).numpy()
    options = index.repeat(9, 1, 1)
    options[:, 0, 0], options[:, 2, 0] = torch.arange(9) // 3, torch.arange(9) % 3
    every = Chains(network, cells, evidence, options, coins, labels.repeat(9, 1))
    rescale(every, factor)
    weights = torch.softmax((prior_of(cells, options).sum(-1) - every.energy()).double(), 0).numpy()
    due = 20_000 * weights
    likely = due >= 5
    assert likely.sum() >= 3
    assert chisquare(reached[likely], reached[likely].sum() * due[likely] / due[likely].sum()).pvalue > FALSE_ALARMS


def rescale(state, factor):
    """Chains that take the sum for shrunk by `factor`."""
    state.scale[:] = factor
    state.refresh()


@pytest.mark.parametrize(("clip_norm", "known"), [(None, True), (0.3, True), (None, False)])
def test_long_runs_visit_batches_as_often_as_the_posterior_has_them(clip_norm, known, monkeypatch):
    monkeypatch.setattr(module, "PROPOSALS", 6)
    network, cells = tiny()
    cells = [cells[0], cells[1]]  # categories alone: 36 batches of two rows, each with four kinds of labels
    coins = torch.Generator().manual_seed(2)
    index, labels = drawn(cells, 2, coins)
    evidence = evidence_about(network, cells, index, labels, 0.3, coins, known=known, clip_norm=clip_norm)
    state = started(network, cells, evidence, 4_000)
    for _ in range(20):
        state.sweep(evidence.noise)
        sweep_pairs(state, evidence.noise)
    kinds = [tuple(r) for r in product(*(range(c.size) for c in cells), range(2))]
    batches = torch.tensor(list(product(kinds, repeat=2)))  # (n, 2, F + 1), the label last
    if known:
        batches = batches[(batches[..., -1] == labels).all(1)]
    every = Chains(network, cells, evidence, batches[..., :-1].clone(), coins, batches[..., -1].clone())
    expected = torch.softmax((every.log_prior() - every.energy()).double(), 0).numpy()
    reached = torch.cat([state.index, state.labels[..., None]], -1)
    wanted, counts = Counter(), Counter(map(unordered, reached.tolist()))
    for batch, share in zip(batches.tolist(), expected, strict=True):
        wanted[unordered(batch)] += 4_000 * share
    likely = [b for b, n in wanted.items() if n >= 10]
    found = np.array([counts[b] for b in likely] + [4_000 - sum(counts[b] for b in likely)])
    due = np.array([wanted[b] for b in likely] + [4_000 - sum(wanted[b] for b in likely)])
    assert chisquare(found[due > 5], due[due > 5] / due[due > 5].sum() * found[due > 5].sum()).pvalue > FALSE_ALARMS


def test_long_runs_visit_batches_of_all_sizes_as_often_as_the_posterior_has_them():
    network, cells = tiny()
    cells = [cells[0], cells[1]]
    coins = torch.Generator().manual_seed(2)
    index, labels = drawn(cells, 2, coins)
    evidence = of_unknown_size(evidence_about(network, cells, index, labels, 0.6, coins), 1)
    state = started(network, cells, evidence, 4_000)
    for _ in range(30):
        state.sweep(evidence.noise)
        sweep_pairs(state, evidence.noise)
    kinds = [tuple(r) for r in product(*(range(c.size) for c in cells), range(2))]
    batches = [b for k in range(evidence.rows + 1) for b in combinations_with_replacement(kinds, k)]
    whole = torch.tensor([[*b, *[kinds[0]] * (evidence.rows - len(b))] for b in batches])
    sizes = torch.tensor([len(b) for b in batches])
    there = (torch.arange(evidence.rows) < sizes[:, None]).float()
    every = Chains(network, cells, evidence, whole[..., :-1].clone(), coins, whole[..., -1].clone(), there)
    likely = torch.softmax((every.log_prior() - every.energy()).double(), 0).tolist()
    expected = Counter()
    for batch, share in zip(batches, likely, strict=True):
        alike = [factorial(n) for n in (*Counter(batch).values(), evidence.rows - len(batch))]
        expected[unordered(batch)] = share * factorial(evidence.rows) / np.prod(alike)
    total = sum(expected.values())
    rows = zip(state.index.tolist(), state.labels.tolist(), state.present.tolist(), strict=True)
    counts = Counter(unordered((*i, y) for i, y, p in zip(*batch, strict=True) if p) for batch in rows)
    due = np.array([4_000 * expected[b] / total for b in expected])
    found = np.array([counts[b] for b in expected])
    often = due >= 10
    found, due = [np.append(x[often], x[~often].sum()) for x in (found, due)]
    assert often.sum() > 20
    assert chisquare(found, due * found.sum() / due.sum()).pvalue > FALSE_ALARMS


def unordered(batch):
    """A batch without the order of its rows, which no update tells: chains need not visit every one."""
    return tuple(sorted(map(tuple, batch)))


CHANNELS = {
    "noise": {},
    "rows clipped": {"clip_norm": 0.3},
    "labels unknown": {"known": False},
    "shrunk": {"scale": 0.4},
    "rows unknown": {},
}
EXPECTED = 1  # rows


@pytest.mark.slow
@pytest.mark.parametrize("channel", CHANNELS)
def test_ranks_of_the_truth_among_samples_are_uniform(channel):
    """Simulation-based calibration (Talts et al. 2018), on statistics that do not depend on the order of rows."""
    network, cells = tiny()
    coins, jitter = torch.Generator().manual_seed(5), np.random.default_rng(0)
    ranks = {"age": [], "log posterior": [], "rows": []}
    open_size = channel == "rows unknown"
    for trial in range(40 if open_size else 60):
        rows = size_of(coins) if open_size else 2
        index, labels = (drawn_of[:rows] for drawn_of in drawn(cells, max(rows, 1), coins))
        given = dict(CHANNELS[channel])
        if "scale" in given:
            given["scale"] = float(torch.rand((), generator=coins).clamp(0.05, 0.99))
        evidence = evidence_about(network, cells, index, labels, 0.15, coins, **given)
        if open_size:
            evidence = of_unknown_size(evidence, EXPECTED)
        samples = sampled(started(network, cells, evidence, 64, seed=trial), 10, 4)
        empty = (0, 0, 0, evidence.rows - rows)
        there = functional.pad(torch.ones(rows), empty[2:])
        truth = Chains(
            network,
            cells,
            evidence,
            functional.pad(index, empty)[None],
            coins,
            functional.pad(labels, empty[2:])[None],
            there[None],
        )
        ages = (samples.index[..., 2] * samples.present).sum(1)
        figures = {"age": (ages, float(index[:, 2].sum()))}
        if open_size:
            figures["rows"] = (samples.present.sum(1), float(rows))
        if channel != "shrunk":  # there the factor is drawn beside the rows
            figures["log posterior"] = (samples.fit, float((truth.log_prior() - truth.energy())[0]))
        for name, (drawn_values, value) in figures.items():
            tied = np.abs(drawn_values - value) <= 1e-4
            below = ((drawn_values < value) & ~tied).sum()
            ranks[name].append((below + jitter.random() * (tied.sum() + 1)) / (len(drawn_values) + 1))
    for name, found in ranks.items():
        assert not found or kstest(found, "uniform").pvalue > FALSE_ALARMS, name


def size_of(coins):
    """A number of rows as the prior of a Poisson sample has them."""
    room = places(EXPECTED)
    chances = torch.softmax(log_choices(EXPECTED, "cpu") + log_ways(room), 0)
    return int(torch.multinomial(chances, 1, generator=coins))


def test_places_hold_all_but_one_in_a_thousand_poisson_samples_and_their_number_is_poisson():
    for expected in (1, 2, 8, 32, 128):
        room = places(expected)
        assert poisson.sf(room, expected) < 1e-3
        chances = torch.exp(log_choices(expected, "cpu") + log_ways(room)).numpy()
        np.testing.assert_allclose(chances, poisson.pmf(range(room + 1), expected), atol=2e-3)


def test_exchange_swaps_the_better_fit_towards_the_true_noise():
    network, cells = tiny()
    coins = torch.Generator().manual_seed(0)
    index, labels = drawn(cells, 2, coins)
    evidence = evidence_about(network, cells, index, labels, 1e-3, coins)
    state = started(network, cells, evidence, 2)
    wrong = index.clone()
    wrong[0, 0] = (wrong[0, 0] + 1) % 3
    state.become(torch.stack([wrong, index]), labels.expand(2, -1))
    exchange(state, torch.tensor([1e-3, 2e-3]), torch.arange(2), 0, 2)
    assert (state.index[0] == index).all()
    assert (state.index[1] == wrong).all()


def test_samples_come_from_the_first_rungs_and_settle_at_the_truth():
    network, cells = tiny()
    coins = torch.Generator().manual_seed(0)
    index, labels = drawn(cells, 2, coins)
    evidence = evidence_about(network, cells, index, labels, 0.02, coins)
    samples = sampled(started(network, cells, evidence, 16), 5, 10)
    assert samples.index.shape == (40, 2, len(cells))  # four ladders
    assert samples.settled


def test_an_energy_that_is_too_high_does_not_count_as_settled():
    entries = 10_000
    assert bool(settled(torch.tensor(entries / 2), entries))
    assert not bool(settled(torch.tensor(entries / 2 + 3 * (entries / 2) ** 0.5), entries))


def test_selection_copies_chains_by_how_much_likelier_less_noise_makes_them():
    network, cells = tiny()
    coins = torch.Generator().manual_seed(0)
    index, labels = drawn(cells, 2, coins)
    evidence = evidence_about(network, cells, index, labels, 1e-3, coins)
    state = started(network, cells, evidence, 8)
    wrong = index.clone()
    wrong[0, 0] = (wrong[0, 0] + 1) % 3
    state.become(torch.stack([index, *[wrong] * 7]), labels.expand(8, -1))
    _select(state, 1.0, 1.0)
    assert (state.index[1:] == wrong).all()  # under the same noise all weights are even
    _select(state, 1.0, 1e-3)
    assert (state.index == index).all()


def test_annealing_ends_at_batches_as_probable_as_the_truth():
    network, cells = tiny()
    coins = torch.Generator().manual_seed(0)
    index, labels = drawn(cells, 3, coins)
    evidence = evidence_about(network, cells, index, labels, 0.02, coins)
    found = annealed(network, cells, evidence, 24, 8, coins)
    assert found.index.shape == (24, 3, len(cells))
    assert settled(found.energy(), evidence.entries).float().mean() > 0.5


def test_rows_that_make_up_for_each_other_come_loose_under_more_noise():
    """Two rows of one class have each other's cells but one: to put any of them right alone makes the fit worse."""
    network, cells = tiny()
    coins = torch.Generator().manual_seed(4)
    index, labels = drawn(cells, 3, coins)
    index[1] = (index[0] + 1) % torch.tensor([c.size for c in cells])
    labels[1] = labels[0]
    evidence = evidence_about(network, cells, index, labels, 0.02, coins)
    wrong = index.clone()
    wrong[0, 1:], wrong[1, 1:] = index[1, 1:], index[0, 1:]
    state = started(network, cells, evidence, 8)
    state.become(wrong.expand(8, -1, -1), labels.expand(8, -1))
    assert not settled(state.energy(), evidence.entries).any()
    descend(state, 5 * evidence.noise, 10)
    assert settled(state.energy(), evidence.entries).all()


def test_two_rows_that_hide_a_value_from_each_other_get_it_right_together():
    """Two copies of a row, one of each class, at a network whose classes are all alike: their gradients cancel."""
    network, cells = tiny()
    network.weights[-1][:], network.biases[-1][:] = network.weights[-1][:1] * torch.tensor([[1.0], [-1.0]]), 0.0
    coins = torch.Generator().manual_seed(0)
    index = drawn(cells, 1, coins)[0].repeat(2, 1)
    labels = torch.tensor([0, 1])
    evidence = evidence_about(network, cells, index, labels, 1e-3, coins)
    single, paired = (started(network, cells, evidence, 200) for _ in range(2))
    wrong = index.clone()
    wrong[:, 0] = (index[:, 0] + 1) % 3
    for state in (single, paired):
        state.become(wrong.expand(200, -1, -1), labels.expand(200, -1))
    for i in (0, 1):
        single.lift(i)
        single.visit(i, 0, evidence.noise)
        single.put(i)
    paired.lift(0)
    paired.lift(1)
    visit_pair(paired, 0, 1, 0, evidence.noise)
    right = [(state.index[:, :, 0] == index[:, 0]).all(1).float().mean() for state in (single, paired)]
    assert right[0] < 0.1
    assert right[1] > 0.9
