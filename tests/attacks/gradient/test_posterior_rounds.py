"""Several rounds of the very same rows, read as one: by the network, and by the attack from a view."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.gradient.portfolio import Portfolio
from leakledger.attacks.gradient.posterior import Posterior, posterior
from leakledger.attacks.gradient.posterior.chains import encoded
from leakledger.attacks.gradient.posterior.evidence import Evidence
from leakledger.attacks.gradient.posterior.network import RowGradients
from leakledger.attacks.gradient.posterior.rounds import GradientsOfRounds, of_rounds
from leakledger.attacks.observed import repeats
from leakledger.attacks.observed.repeats import MOST, spread, with_repeats
from leakledger.attacks.observed.updates import find_updates
from leakledger.preprocess.messages import ClientGradient, ClientWeights, GlobalModel
from leakledger.preprocess.models import as_arrays, as_tensors, gradient, initial_weights
from leakledger.preprocess.pipeline import Encoded
from leakledger.preprocess.training.base import draw_batches
from leakledger.preprocess.training.fedavg import FedAvg
from leakledger.preprocess.views import Mechanism, Message, ModelSpec, PublicFacts, TrainingSpec, View
from leakledger.preprocess.wire import encode
from tests.attacks.example import LAYOUT, rows_of
from tests.attacks.gradient.posterior_example import drawn, tiny
from tests.attacks.gradient.test_posterior_attack import BRIEF, right

ROWS, RATE, LOUD = 4, 0.1, 0.06
NOISE = Mechanism("gaussian-noise", {"sigma": LOUD})
WHOLE = TrainingSpec(batch_size=None, learning_rate=RATE)
LABELS = np.arange(ROWS) % 2


def seen(rounds, training=WHOLE, mechanisms=(NOISE,), stated=ROWS, seed=0):
    """The server's view of so many noised gradients of the same rows, the model moved by each; and the rows."""
    categories, numbers, encoded = rows_of(LAYOUT, ROWS, 0)
    spec, coins = ModelSpec(LAYOUT.width, 2, (100, 100)), np.random.default_rng(seed)
    weights, messages = initial_weights(spec, coins), []
    for number in range(rounds):
        order = coins.permutation(ROWS)
        batch = torch.tensor(encoded[order], dtype=torch.float32), torch.tensor(LABELS[order])
        sent = as_arrays(gradient(spec, as_tensors(weights), *batch))
        sent = {k: (g + LOUD * coins.normal(size=g.shape)).astype(np.float32) for k, g in sent.items()}
        messages += told_and_sent(weights, ClientGradient(stated, sent), number, len(messages))
        weights = {k: (w - RATE * sent[k]).astype(np.float32) for k, w in weights.items()}
    public = PublicFacts(("ann",), "server", layout=LAYOUT, model=spec, training=training, mechanisms=mechanisms)
    return View(frozenset(["server"]), tuple(messages), public), categories, numbers


def told_and_sent(weights, update, number, first):
    """The messages of a round, numbered from `first` on: the model, and what the client answers."""
    for payload, ends in ((GlobalModel(weights), ("server", "ann")), (update, ("ann", "server"))):
        body = encode(payload.to_plain())
        yield Message(first, "train", number, payload.topic, *ends, None, False, body, body)
        first += 1


def granted(view):
    """The labels of each round, in the order of the first: a sum tells nothing of the order."""
    return AuxiliaryKnowledge(labels={("ann", m.round): LABELS for m in view.received(ClientGradient)})


def network(seed, hidden=(7, 5), activation="tanh", classes=3):
    spec = ModelSpec(6, classes, hidden, activation)
    weights = {n: np.float64(w) for n, w in initial_weights(spec, np.random.default_rng(seed)).items()}
    return RowGradients(spec, weights, "cpu")


@pytest.mark.parametrize("hidden", [(), (7,), (7, 5)])
@pytest.mark.parametrize("classes", [3, 1])
@pytest.mark.parametrize("clip_norm", [None, 0.8])
def test_what_rows_add_to_several_rounds_is_the_sum_of_what_they_add_to_each(hidden, classes, clip_norm):
    each = [network(seed, hidden, classes=classes) for seed in range(3)]
    scales, coins = (1.0, 0.5, 2.0), torch.Generator().manual_seed(0)
    both = GradientsOfRounds(each, scales, clip_norm)
    rows, labels = torch.randn(2, 4, 6, generator=coins), torch.randint(each[0].classes, (2, 4), generator=coins)
    norms = [n.square(n.first(rows), labels).sqrt() for n in each]
    cuts = [torch.ones_like(n) if clip_norm is None else (clip_norm / n).clamp(max=1) for n in norms]
    assert clip_norm is None or any((c < 1).any() for c in cuts)
    sums = both.sums(rows, labels, torch.ones(2, 4))
    parts = [n.sums(rows, labels, scale * cut) for n, scale, cut in zip(each, scales, cuts, strict=True)]
    assert torch.allclose(sums[0], torch.cat([p[0] for p in parts], 1), atol=1e-6)
    for own, expected in zip(sums[1:], [layer for p in parts for layer in p[1:]], strict=True):
        assert torch.allclose(own, expected, atol=1e-6)
    residual = [torch.randn(s.shape, generator=coins) for s in sums]
    share = both.share(both.first(rows, residual), labels, residual)
    for m in range(4):
        alone = both.sums(rows[:, m : m + 1], labels[:, m : m + 1], torch.ones(2, 1))
        inner = sum((a * r).sum((1, 2)) for a, r in zip(alone, residual, strict=True))
        assert torch.allclose(share.inner[:, m], inner, atol=1e-4)
        assert torch.allclose(share.square[:, m], sum((a**2).sum((1, 2)) for a in alone), rtol=1e-4)
    products = both.products(share, rows, share, rows)
    assert torch.allclose(products.diagonal(dim1=1, dim2=2), share.square, rtol=1e-4)


def told(network, rows, labels, noise, coins, clip_norm=None):
    """What a noised gradient of rows (B, D) is evidence of."""
    own = GradientsOfRounds([network], [1.0], clip_norm)
    sums = own.sums(rows[None], labels[None], torch.ones(1, len(rows)))
    total = [s[0] + noise * torch.randn(s[0].shape, generator=coins) for s in sums]
    return Evidence(total, noise, len(rows), labels, torch.zeros(network.classes), clip_norm)


def near(network, by, coins):
    """A network whose weights are off by so much."""
    moved = [torch.cat([w, b[:, None]], 1) for w, b in zip(network.weights, network.biases, strict=True)]
    return network.moved([by * torch.randn(m.shape, generator=coins) for m in moved])


@pytest.mark.parametrize(("by", "models"), [(0.0, 1), (1e-3, 1), (2.0, 4)])
@pytest.mark.parametrize("clip_norm", [None, 0.8])
def test_rounds_whose_models_are_near_count_as_one_with_less_noise(by, models, clip_norm):
    one, cells = tiny()
    coins = torch.Generator().manual_seed(0)
    index, labels = drawn(cells, 6, coins)
    rows = encoded(one, cells, index)
    each = [near(one, by, coins) for _ in range(8)]
    rounds = [(n, told(n, rows, labels, 0.05, coins, clip_norm)) for n in each]
    network, evidence = of_rounds(rounds, cells, labels, 4, coins)
    assert len(network.weights[0]) == models * len(one.weights[0])
    assert evidence.clip_norm is None
    if models == 1:
        assert evidence.noise == pytest.approx(0.05 / 8**0.5, rel=1e-6)
    sums = network.sums(rows[None], labels[None], torch.ones(1, 6))
    left = [t - s[0] for t, s in zip(evidence.total, sums, strict=True)]
    energy = float(sum((rest**2).sum() for rest in left)) / evidence.noise**2
    count = evidence.entries  # at the truth a chi-square of them
    assert energy == pytest.approx(count, abs=5 * (2 * count) ** 0.5)


def test_only_sums_of_all_rows_with_normal_errors_count_together():
    one, cells = tiny()
    coins = torch.Generator().manual_seed(0)
    index, labels = drawn(cells, 6, coins)
    usual = told(one, encoded(one, cells, index), labels, 0.1, coins)
    for other in (
        replace(usual, shrunk=True),
        replace(usual, weights=usual.total),
        replace(usual, choices=torch.ones(7)),
    ):
        with pytest.raises(ValueError, match="with normal errors"):
            of_rounds([(one, usual), (one, other)], cells, labels, 4, coins)


def test_noise_of_one_round_hides_what_several_rounds_of_the_same_rows_tell():
    view, categories, numbers = seen(8)
    one = Posterior(**BRIEF, together=0, rounds=(0,)).run(view, granted(view))
    several = Posterior(**BRIEF, rounds=(0,)).run(view, granted(view))
    alone, told = (right(claims[0], categories, numbers) for claims in (one, several))
    assert alone < 0.7 < 0.9 < told
    assert {m.sequence for m in view.messages} == set(several[0].evidence)


def test_every_round_gets_the_claim_that_all_of_them_lead_to_and_it_is_worked_out_once(monkeypatch):
    view, *_ = seen(3)
    calls = []
    inverted = Posterior.inverted_from
    monkeypatch.setattr(Posterior, "inverted_from", lambda *given: calls.append(given) or inverted(*given))
    for attack in (Posterior(**BRIEF), Portfolio(posterior=BRIEF)):
        claims = attack.run(view, granted(view))
        assert [c.round for c in claims] == [0, 1, 2]
        for c in claims:
            assert np.array_equal(c.categories, claims[0].categories)
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("training", "stated", "together"),
    [
        (WHOLE, ROWS, True),
        (replace(WHOLE, batch_size=ROWS + 1), ROWS, True),  # it has no more
        (replace(WHOLE, batch_size=ROWS), ROWS, False),  # it may have more
        (replace(WHOLE, batch_size=ROWS + 1, sampling="poisson"), ROWS, False),
        (None, ROWS, False),
    ],
)
def test_rounds_are_read_together_where_batches_are_known_to_be_of_all_rows(training, stated, together):
    view, *_ = seen(3, training, stated=stated)
    updates = find_updates(view, AuxiliaryKnowledge(), rounds=(1,))
    (update,) = with_repeats(view, AuxiliaryKnowledge(), updates, find_updates)
    assert [r.round for r in update.repeats] == ([0, 1, 2] if together else [])


def test_updates_of_other_labels_or_without_a_defense_are_left_alone():
    view, *_ = seen(3)
    other = AuxiliaryKnowledge(labels={("ann", 0): LABELS, ("ann", 1): np.ones(ROWS, int), ("ann", 2): LABELS[::-1]})
    found = with_repeats(view, other, find_updates(view, other), find_updates)
    assert [[r.round for r in u.repeats] for u in found] == [[0, 2], [1], [0, 2]]
    plain, *_ = seen(3, mechanisms=())
    assert not any(u.repeats for u in with_repeats(plain, other, find_updates(plain, other), find_updates))


def test_rounds_are_spread_over_those_in_which_a_client_took_part(monkeypatch):
    view, *_ = seen(6)
    absent = replace(view, messages=tuple(m for m in view.messages if m.topic == GlobalModel.topic or m.round % 2))
    monkeypatch.setattr(repeats, "MOST", 3)
    (update, *_) = updates = find_updates(absent, AuxiliaryKnowledge())
    for found in with_repeats(absent, AuxiliaryKnowledge(), updates, find_updates):
        assert [r.round for r in found.repeats] == [1, 3, 5]
    monkeypatch.setattr(repeats, "NUMBERS", 4 * sum(g.size for g in update.gradient.values()))  # room for two
    (first, *_) = with_repeats(absent, AuxiliaryKnowledge(), updates, find_updates)
    assert [r.round for r in first.repeats] == [1, 5]


def of_round(view, number, **changed):
    """The view in which the messages of one round have payloads with other fields."""
    messages = []
    for m in view.messages:
        own = {name: to for name, to in changed.items() if m.round == number and hasattr(m.payload, name)}
        body = encode(replace(m.payload, **own).to_plain())
        messages.append(replace(m, body=body, content=body))
    return replace(view, messages=tuple(messages))


def read_from(view, claim):
    return sorted({view.messages[number].round for number in claim.evidence})


def test_a_round_that_clipping_has_cut_is_not_read_as_if_it_had_not():
    view, *_ = seen(3, mechanisms=(Mechanism("client-clipping", {"clip_norm": 20.0}), NOISE))
    loud = {name: 8 * g for name, g in view.messages[3].payload.gradient.items()}
    for number in (1, 0):  # also where it is the first
        cut = of_round(view, number, gradient=loud)
        claims = Posterior(**BRIEF).run(cut, granted(cut))
        others = [k for k in range(3) if k != number]
        assert [c.round for c in claims] == [0, 1, 2]
        assert [read_from(cut, claims[k]) for k in others] == [others, others]
        assert all(np.array_equal(c.categories, claims[0].categories) for c in claims)


def test_a_round_whose_model_has_diverged_leaves_the_others_readable():
    view, *_ = seen(3)
    weights = {name: np.float32(1e15) * w for name, w in view.messages[2].payload.weights.items()}
    claims = Posterior(**BRIEF).run(diverged := of_round(view, 1, weights=weights), granted(view))
    assert [c.round for c in claims] == [0, 1, 2]
    assert read_from(diverged, claims[0]) == [0, 2]


def test_rounds_that_cannot_be_read_together_are_read_one_by_one():
    view, *_ = seen(2, mechanisms=(NOISE, Mechanism("pruning", {"sparsity": 0.5})))
    claims = Posterior(**BRIEF).run(view, granted(view))
    assert [read_from(view, c) for c in claims] == [[0], [1]]


def trained(rounds, training, sigma, seed=0):
    """The server's view of so many local trainings on the same rows, each noised; the rows, and what was granted."""
    categories, numbers, encoded = rows_of(LAYOUT, 2 * ROWS, 0)
    spec, coins = ModelSpec(LAYOUT.width, 2, (100, 100)), np.random.default_rng(seed)
    data = Encoded(encoded.astype(np.float32), np.arange(2 * ROWS) % 2)
    weights, messages, labels = initial_weights(spec, coins), [], {}
    for number in range(rounds):
        batches = draw_batches(training, data, coins)
        labels["ann", number] = np.concatenate([data.labels[rows] for rows in batches])
        after = FedAvg().client(spec, training, GlobalModel(weights), data, batches).weights
        sent = {k: (w + sigma * coins.normal(size=w.shape)).astype(np.float32) for k, w in after.items()}
        messages += told_and_sent(weights, ClientWeights(2 * ROWS, sent), number, len(messages))
        weights = sent
    noise = Mechanism("gaussian-noise", {"sigma": sigma})
    public = PublicFacts(("ann",), "server", layout=LAYOUT, model=spec, training=training, mechanisms=(noise,))
    view = View(frozenset(["server"]), tuple(messages), public)
    return view, categories, numbers, AuxiliaryKnowledge(labels=labels)


@pytest.mark.parametrize(("epochs", "batch", "sigma"), [(1, None, 0.006), (2, 4, 0.02)])
def test_local_trainings_on_the_same_rows_are_read_together_where_noise_hides_more_than_their_way(epochs, batch, sigma):
    training = TrainingSpec("fedavg", learning_rate=RATE, batch_size=batch, local_epochs=epochs)
    view, categories, numbers, known = trained(8, training, sigma)
    one = Posterior(**BRIEF, together=0, rounds=(0,)).run(view, known)
    several = Posterior(**BRIEF, rounds=(0,)).run(view, known)
    assert (read_from(view, one[0]), read_from(view, several[0])) == ([0], list(range(8)))
    alone, told = (right(claims[0], categories, numbers) for claims in (one, several))
    assert told > alone + 0.1
    assert (several[0].probability is None) == (epochs > 1)  # what its way adds is not known of several rounds


def test_local_trainings_whose_way_leaves_more_than_noise_are_read_one_by_one():
    training = TrainingSpec("fedavg", learning_rate=RATE, batch_size=2, local_epochs=4)
    view, _, _, known = trained(2, training, 1e-4)
    claims = Posterior(**BRIEF).run(view, known)
    assert [read_from(view, c) for c in claims] == [[0], [1]]


def test_local_trainings_that_clipping_surely_left_alone_are_read_together_whatever_their_way_is_off_by():
    """The bound is so little above what was sent that it would not be, were that off by as much as its middle is."""
    view, _, _, known = trained(3, TrainingSpec("fedavg", learning_rate=RATE, batch_size=4, local_epochs=2), 0.02)
    clipping = Mechanism("client-clipping", {"clip_norm": 4.8})
    mechanisms = (clipping, *view.public.mechanisms)
    clipped = replace(view, public=replace(view.public, mechanisms=mechanisms))
    (claim,) = Posterior(**BRIEF, rounds=(0,)).run(clipped, known)
    assert read_from(clipped, claim) == [0, 1, 2]


def test_whether_rounds_can_be_read_together_is_judged_once_for_all_that_are_attacked(monkeypatch):
    view, *_ = seen(4)
    judged, judge = [], posterior.counting_with_others
    monkeypatch.setattr(posterior, "counting_with_others", lambda update: judged.append(update.round) or judge(update))
    assert len(Posterior(**BRIEF).run(view, granted(view))) == 4
    assert judged == 2 * [0, 1, 2, 3]  # whose claims are one, and for that one


def test_of_many_rounds_those_are_read_that_lie_evenly():
    assert spread(range(5)) == [0, 1, 2, 3, 4]
    assert len(spread(range(100))) == MOST
    assert spread(range(100), 3) == [0, 50, 99]
    assert spread(range(100), 1) == [0]
    assert spread([]) == []
