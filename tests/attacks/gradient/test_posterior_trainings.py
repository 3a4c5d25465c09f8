"""The posterior on weights after local training: the middle of the way, what it is off by, and the rows behind it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leakledger.attacks.base import Abstained, NotApplicable, RecordsClaim
from leakledger.attacks.gradient.portfolio import Portfolio
from leakledger.attacks.gradient.posterior import Posterior, local_training
from leakledger.attacks.gradient.posterior.cells import cells_of
from leakledger.attacks.gradient.posterior.chains import Chains, squared
from leakledger.attacks.gradient.posterior.evidence import channel, evidence_of
from leakledger.attacks.gradient.posterior.local_training import (
    as_gradient,
    drawn_order,
    followed,
    of_one_step,
    trained_sum,
)
from leakledger.attacks.gradient.posterior.network import RowGradients
from leakledger.attacks.observed.tabular import StructuralPrior
from leakledger.attacks.observed.update import Member, Schedule
from leakledger.attacks.observed.updates import find_updates
from leakledger.preprocess.views import Mechanism
from tests.attacks.gradient.test_fedavg_attack import BOUNDS, LAYOUT, error, federation, random_rows

SMALL = {"chains": 12, "sweeps": 8, "repairs": 6, "pool": 512}
NETWORK = {"hidden": (100,), "epochs": 3, "batch": 3}


def one_update(rows=12, activation="relu", **options):
    """What a server saw, what it was granted, the update of the first client, and its true rows in columns."""
    view, knowledge = federation((rows,), activation=activation, **options)
    update = find_updates(view, knowledge)[0]
    columns = StructuralPrior(LAYOUT, BOUNDS).encode(random_rows(0, rows))
    return view, knowledge, update, torch.tensor(columns, dtype=torch.float32)


def layers(arrays):
    return [np.column_stack([arrays[f"{i}.weight"], arrays[f"{i}.bias"]]) for i in range(len(arrays) // 2)]


def distance(ones, others):
    """Of layers, relative to the second."""
    apart = sum(((np.asarray(one) - other) ** 2).sum() for one, other in zip(ones, others, strict=True))
    return float(np.sqrt(apart / sum((np.asarray(other) ** 2).sum() for other in others)))


def mean_gradient(update, weights, columns, labels):
    network = RowGradients(update.model, weights, "cpu")
    return [part[0] for part in network.sums(columns[None], labels[None], torch.full((1, len(columns)), 1 / 12))]


@pytest.mark.parametrize("mu", [0.0, 5.0])
def test_the_middle_of_the_way_is_second_order_where_its_beginning_is_first_order(mu):
    """Tanh, so that the gradient is smooth; all rows in one local batch, so that order plays no part."""
    _, _, update, columns = one_update(activation="tanh", epochs=4, batch=None)
    labels, off = torch.arange(12) % 2, []
    begun = RowGradients(update.model, update.weights, "cpu")
    for rate in (0.02, 0.01, 0.005):
        schedule = Schedule(12, 4, 12, rate, mu)
        sums = trained_sum(schedule, begun, columns, labels, np.tile(np.arange(12), 4))
        named = {f"{i}.weight": s[:, :-1].double().numpy() for i, s in enumerate(sums)}
        named |= {f"{i}.bias": s[:, -1].double().numpy() for i, s in enumerate(sums)}
        step = as_gradient(replace(update, schedule=schedule, gradient=named))
        sent = layers(step.gradient)
        middle, beginning = (mean_gradient(update, w, columns, labels) for w in (step.weights, update.weights))
        off.append((distance(middle, sent), distance(beginning, sent)))
    (m1, b1), (m2, b2), (m3, b3) = off
    assert m2 / m1 < 0.3, off
    assert m3 / m2 < 0.3, off  # a quarter
    assert b2 / b1 > 0.45, off
    assert b3 / b2 > 0.45, off  # a half
    assert m3 < 0.1 * b3, off


@given(st.integers(2, 9), st.integers(1, 4), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_a_drawn_order_has_each_row_once_per_epoch_and_keeps_known_labels(rows, epochs, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, rows)
    told = np.concatenate([labels[rng.permutation(rows)] for _ in range(epochs)])
    _, _, update, _ = one_update(2)
    update = replace(update, rows=rows, labels=told, schedule=Schedule(rows, epochs, 2, 0.1))
    for known in (update, replace(update, labels=np.zeros(0, np.int64))):
        order = drawn_order(known, labels, rng).reshape(epochs, rows)
        assert (np.sort(order, 1) == np.arange(rows)).all()
        if len(known.labels):
            assert (labels[order.ravel()] == told).all()


@pytest.mark.parametrize("mu", [0.0, 20.0])
def test_training_on_the_true_rows_gives_the_weights_that_were_sent(mu):
    """One local batch, of which the order is no matter."""
    _, _, update, columns = one_update(epochs=3, batch=None, proximal=mu)
    begun = RowGradients(update.model, update.weights, "cpu")
    again = trained_sum(update.training, begun, columns, torch.arange(12) % 2, np.tile(np.arange(12), 3))
    assert distance(again, layers(update.gradient)) < 1e-4  # weights travel in single precision


@pytest.mark.parametrize("known", [True, False], ids=["labels", "no labels"])
def test_training_on_the_rows_shows_most_of_what_the_middle_is_off_by(monkeypatch, known):
    monkeypatch.setattr(local_training, "REPAIRS", 0)
    monkeypatch.setattr(local_training, "SWEEPS", 0)
    _, knowledge, update, _ = one_update(12, epochs=5, batch=4, activation="tanh")
    told = update if known else replace(update, labels=np.zeros(0, np.int64))
    step = as_gradient(told)
    categorical, numeric = cells_of(LAYOUT, knowledge, "cpu")
    true = random_rows(0, 12)
    places = [abs(c.raw - n[:, None]).argmin(1) for c, n in zip(numeric, true.numbers.T, strict=True)]
    index = np.stack([*true.categories.T, *places], -1)
    evidence = evidence_of(step, channel((), step.gradient), "cpu")
    labels = as_gradient(update).labels  # row i of the table has label i % 2: rows in an order of these labels
    order = np.empty(12, np.int64)
    order[np.argsort(labels, kind="stable")] = np.argsort(np.arange(12) % 2, kind="stable")
    found = Chains(
        RowGradients(step.model, step.weights, "cpu"),
        [*categorical, *numeric],
        evidence,
        torch.tensor(index[order])[None],
        torch.Generator().manual_seed(0),
        torch.tensor(labels)[None],
    )
    before = float(squared(found.residual).sqrt())
    after = float(squared(followed(found, told, 0.0, 16, lambda steps: None).residual).sqrt())
    assert after < 0.75 * before


@pytest.mark.slow
def test_rows_come_back_of_more_than_the_row_space_tells_apart():
    view, knowledge, update, _ = one_update(12, **NETWORK)
    assert update.rows > LAYOUT.width + 1
    (claim,) = Posterior(**SMALL, victims=("P1",)).run(view, knowledge)
    assert error(claim, random_rows(0, 12)) <= 0.25  # of a guess more than half
    assert claim.probability is None  # what is left of the order is taken for noise: nothing is sure
    assert {view.messages[i].topic for i in claim.evidence} == {"train.model", "train.weights"}


@pytest.mark.slow
def test_labels_need_not_be_known():
    view, knowledge, *_ = one_update(6, **NETWORK)
    (claim,) = Posterior(**SMALL, victims=("P1",)).run(view, replace(knowledge, labels={}))
    assert error(claim, random_rows(0, 6)) <= 0.15


@pytest.mark.slow
def test_the_portfolio_goes_on_from_tableak():
    view, knowledge, *_ = one_update(**NETWORK)
    few = {"restarts": 2, "iterations": 5, "refinement": 2, "prior_weights": (0.0,), "trials": 1}
    chosen = {"tableak_fedavg": few, "victims": ("P1",)}
    (without,) = Portfolio(**chosen, posterior={"max_rows": 1}).run(view, knowledge)
    (better,) = Portfolio(**chosen, posterior=SMALL).run(view, knowledge)
    assert error(better, random_rows(0, 12)) + 0.2 < error(without, random_rows(0, 12))


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [1e-5, 1e-4])
def test_noise_on_what_training_added_is_known(sigma):
    """The noise is on weights, so on their sum of gradients it is that over the learning rate."""
    _, knowledge, update, _ = one_update(6, **NETWORK)
    rng = np.random.default_rng(0)
    noised = {n: g + rng.normal(0, sigma / 0.01, g.shape) for n, g in update.gradient.items()}
    hidden = replace(update, gradient=noised, mechanisms=(Mechanism("gaussian-noise", {"sigma": sigma}),))
    claim = Posterior(**SMALL).invert(hidden, knowledge)
    assert error(claim, random_rows(0, 6)) <= 0.15
    assert claim.probability is None


def test_a_defended_training_is_read_with_its_mechanism():
    view, knowledge, update, _ = one_update(6, **NETWORK)
    noise = Mechanism("gaussian-noise", {"sigma": 0.5})
    told = replace(view, public=replace(view.public, mechanisms=(noise,)))
    (read, *_) = find_updates(told, knowledge)
    assert read.mechanisms == (noise,)
    assert read.stretched == pytest.approx(1 / update.training.rate)
    assert as_gradient(read).stretched == pytest.approx(1 / (0.01 * len(update.training.steps)))


def gradients_added_up(update, columns, sizes):
    """The update of clients with so many rows each, at a rate so small that weights stand still: their share-weighted
    mean, times how many they are, and the mean gradient of all rows.
    """
    still = replace(update, schedule=replace(update.training, rate=1e-6))
    begun, labels = RowGradients(update.model, update.weights, "cpu"), torch.arange(len(columns)) % 2
    total, place, count = 0.0, 0, len(sizes)
    for size in sizes:
        own = slice(place, place + size)
        schedule = replace(still.training, rows=size, batch=min(still.training.batch, size))
        order = np.tile(np.arange(size), schedule.epochs)
        sums = trained_sum(schedule, begun, columns[own], labels[own], order)
        share = count * size / sum(sizes)
        total = [s * share + (total[i] if place else 0) for i, s in enumerate(sums)]
        place += size
    named = {f"{i}.weight": s[:, :-1].double().numpy() for i, s in enumerate(total)}
    named |= {f"{i}.bias": s[:, -1].double().numpy() for i, s in enumerate(total)}
    members = tuple(Member(f"P{i}", size, np.zeros(0, np.int64)) for i, size in enumerate(sizes))
    seen = replace(still, gradient=named, members=members if count > 1 else (), noise=0.0)
    return seen, mean_gradient(update, update.weights, columns, labels)


@pytest.mark.parametrize("sizes", [(12,), (4, 4, 4), (6, 6), (8, 4)], ids=str)
def test_sums_of_local_trainings_are_divided_by_what_their_rows_count(sizes):
    _, _, update, columns = one_update(epochs=2, batch=4)
    seen, mean = gradients_added_up(update, columns, sizes)
    step = as_gradient(seen)
    off = distance(mean, layers(step.gradient))
    sent = np.concatenate([g.ravel() for g in step.gradient.values()])
    noise = np.sqrt(len(sent)) * step.noise / np.linalg.norm(sent)
    assert off < 1e-3 if len(set(sizes)) == 1 and sizes[0] % 4 == 0 else noise > 0.1
    shown = np.concatenate([np.asarray(m).ravel() for m in mean])
    told = np.concatenate([g.ravel() for g in layers(step.gradient)])
    assert shown @ told / (shown @ shown) == pytest.approx(1, abs=0.35)


def test_rows_that_count_too_unevenly_are_not_attacked():
    _, knowledge, update, _ = one_update(9, epochs=1, batch=8)
    outcome = Posterior(**SMALL).invert(update, knowledge)
    assert isinstance(outcome, NotApplicable)
    assert "unevenly" in outcome.reason


def test_one_local_step_is_a_gradient_like_any_other():
    _, knowledge, update, _ = one_update(4, hidden=(30,), epochs=1, batch=None)
    assert of_one_step(update)
    assert as_gradient(update).noise == update.noise
    rng = np.random.default_rng(0)
    noised = {n: g + rng.normal(0, 1e-5 / 0.01, g.shape) for n, g in update.gradient.items()}
    told = replace(update, gradient=noised, mechanisms=(Mechanism("gaussian-noise", {"sigma": 1e-5}),))
    assert Posterior(**SMALL).invert(told, knowledge).probability is not None


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_a_clipped_training_loses_nothing_to_what_unclipped_ones_are_off_by(seed):
    _, knowledge, update, _ = one_update(4, hidden=(30,), epochs=5, batch=2, seed=seed)
    shrunk = {name: 0.1 * g for name, g in update.gradient.items()}
    norm = float(np.sqrt(sum((g**2).sum() for g in shrunk.values()))) / update.stretched
    clipped = replace(update, gradient=shrunk, mechanisms=(Mechanism("client-clipping", {"clip_norm": norm}),))
    assert error(Posterior(**SMALL).invert(clipped, knowledge), random_rows(0, 4)) <= 0.15


@pytest.mark.parametrize("factor", [1e12, 1e18, 1e25, np.inf, np.nan])
def test_a_diverged_model_is_abstained_from(factor):
    _, knowledge, update, _ = one_update(4, hidden=(20, 20), epochs=2, batch=2)
    wild = replace(update, weights={name: w * factor for name, w in update.weights.items()})
    assert isinstance(Posterior(**SMALL).invert(wild, knowledge), Abstained)


def test_a_simulated_training_that_diverges_is_not_taken_off():
    _, knowledge, update, _ = one_update(4, hidden=(30,), epochs=2, batch=2)
    fast = replace(update.training, rate=1e8)
    slow = {name: g / 1e10 for name, g in update.gradient.items()}
    outcome = Posterior(**SMALL).invert(replace(update, schedule=fast, gradient=slow), knowledge)
    assert isinstance(outcome, RecordsClaim | Abstained)
