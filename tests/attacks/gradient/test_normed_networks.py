"""Attacks on updates of networks with activation norms: what each recovers, and what it refuses, with the reason."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment

from leakledger.attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable
from leakledger.attacks.gradient.atoms import Atoms
from leakledger.attacks.gradient.exact.rows import EncodedRows, snapped
from leakledger.attacks.gradient.linear_layer import LinearLayer
from leakledger.attacks.gradient.matching.objective import matching_objective
from leakledger.attacks.gradient.portfolio import Portfolio
from leakledger.attacks.gradient.portfolio.remainder import remainder
from leakledger.attacks.gradient.posterior import Posterior
from leakledger.attacks.gradient.span import Span, open_numbers, span
from leakledger.attacks.gradient.span.recomputed import MEAN_OFF, mean_off, settled, space_of
from leakledger.attacks.gradient.span.taken_out import taken_out
from leakledger.attacks.gradient.spear import Spear
from leakledger.attacks.gradient.tableak import TabLeak
from leakledger.attacks.gradient.tableak_fedavg import TabLeakFedAvg
from leakledger.attacks.gradient.tableak_fedavg.objective import update_objective
from leakledger.attacks.observed.batch_norm import mean_row
from leakledger.attacks.observed.labels import counts_from_weights
from leakledger.attacks.observed.update import Schedule
from leakledger.attacks.observed.updates import find_gradients
from leakledger.preprocess.models import as_tensors, gradient, initial_weights
from leakledger.preprocess.views import ModelSpec, TrainingSpec
from leakledger.preprocess.wire import encode
from tests.attacks.example import LAYOUT, exact, observe, observe_training, rows_of
from tests.attacks.gradient.test_span_attack import table_layout

BY_ROW = ("layer", "group", "instance")
NORMS = (*BY_ROW, "batch")
SMALL = {"hidden": (60, 40)}


def attack(view, kind=Span, labels=False, **options):
    rows = view.messages[1].payload.rows
    return kind(**options).run(view, AuxiliaryKnowledge(labels={("ann", 0): np.arange(rows) % 2} if labels else {}))


def changed(view, number, **fields):
    """The view with fields of one payload changed."""
    message = view.messages[number]
    body = encode(replace(message.payload, **fields).to_plain())
    messages = [*view.messages]
    messages[number] = replace(message, body=body, content=body)
    return replace(view, messages=tuple(messages))


def cells_right(claim, categories):
    cost = (claim.categories[:, None] != categories).sum(2)
    return 1 - cost[linear_sum_assignment(cost)].mean() / categories.shape[1]


@pytest.mark.parametrize("count", [1, 8])
@pytest.mark.parametrize("norm", BY_ROW)
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_span_proves_every_row_behind_a_norm_that_goes_row_by_row(norm, activation, count):
    categories, numbers, encoded = rows_of(LAYOUT, count, count)
    (claim,) = attack(observe(encoded, activation=activation, norm=norm, norm_groups=4, seed=count))
    assert exact(claim, categories, numbers).all()
    assert claim.verified.all()
    assert (claim.residual < 1e-5).all()


@pytest.mark.parametrize("evaluated", [open_numbers.EVALUATED, 4])  # as of few candidates, and as of many
@pytest.mark.parametrize("norm", ["group"])
def test_rows_that_agree_in_every_category_are_told_apart_behind_a_norm(norm, evaluated, monkeypatch):
    monkeypatch.setattr(open_numbers, "EVALUATED", evaluated)
    categories, numbers, encoded = rows_of(LAYOUT, 6, 3, alike=True)
    (claim,) = attack(observe(encoded, norm=norm, **SMALL))
    assert exact(claim, categories, numbers).all()
    assert claim.verified.all()


@pytest.mark.parametrize("norm", BY_ROW)
def test_rows_that_no_search_finds_are_found_in_what_the_others_leave(norm, monkeypatch):
    categories, numbers, encoded = rows_of(LAYOUT, 8, 8)
    searched = []

    def half(update, space, candidates, rng):
        searched.append(update.rows)
        found = settled(update, space, candidates, rng)
        return found.where(np.arange(len(found)) < (update.rows + 1) // 2)

    monkeypatch.setattr(span, "settled", half)
    (claim,) = attack(observe(encoded, norm=norm, norm_groups=4, seed=8))
    assert searched[0] == 8
    assert searched == sorted(searched, reverse=True)
    assert searched[-1] == 1
    assert exact(claim, categories, numbers).all()
    assert claim.verified.all()


def test_a_row_leaves_a_batch_with_its_label_and_no_other_row_does():
    _, _, encoded = rows_of(LAYOUT, 6, 4)
    view = observe(encoded, norm="layer", **SMALL)
    (update,) = find_gradients(view, AuxiliaryKnowledge(), rounds=[0])
    space = space_of(update, 100.0)
    inside = snapped(LAYOUT, np.column_stack([encoded, np.ones(6)]))[0]
    stranger = EncodedRows(inside.categories[:1], encoded[:1] + 0.25)
    known, rest = taken_out(update, space, inside.where(np.array([1, 3])).plus(stranger))
    np.testing.assert_allclose(known.encoded, encoded[[1, 3]], atol=1e-9)
    assert rest.rows == 4
    weights = as_tensors(update.weights, dtype=torch.float64)
    labels = np.arange(6) % 2
    left = [0, 2, 4, 5]
    own = gradient(update.model, weights, torch.from_numpy(encoded[left]), torch.from_numpy(labels[left]))
    for name, part in rest.gradient.items():
        np.testing.assert_allclose(part, own[name], atol=1e-6)
    again = EncodedRows(inside.categories[[1]], encoded[[1]] + 1e-4)  # a second attempt at the same row
    assert len(taken_out(update, space, again.plus(inside.where(np.array([1, 3]))))[0]) == 2
    nobody, same = taken_out(update, space, stranger)
    assert (len(nobody), same) == (0, None)
    everybody, nothing = taken_out(update, space, inside)
    assert (len(everybody), nothing) == (6, None)


@pytest.mark.slow
def test_32_rows_of_a_real_table_come_back_behind_a_norm(datasets):
    """Some are found in what the others leave alone."""
    layout, categories, numbers, encoded = table_layout(datasets, "adult")
    deviation = np.array([b.scale for b in layout.numeric])
    for seed in (0, 1):
        drawn = np.random.default_rng(seed).choice(len(encoded), 32, replace=False)
        (claim,) = attack(observe(encoded[drawn], layout, norm="layer", seed=seed))
        told = replace(claim, numbers=claim.numbers / deviation)
        assert exact(told, categories[drawn], numbers[drawn] / deviation).all()
        assert claim.verified.all()


@pytest.mark.parametrize("count", [4, 8, 12])
def test_running_statistics_give_back_what_batch_norm_takes_off(count):
    categories, numbers, encoded = rows_of(LAYOUT, count, 2)
    view = observe(encoded, norm="batch", seed=1, **SMALL)
    (claim,) = attack(view)
    assert exact(claim, categories, numbers).all()
    assert claim.verified.all()
    assert claim.evidence == (0, 1, 2)
    alone = attack(replace(view, messages=view.messages[:2]))
    assert isinstance(alone, NotApplicable)
    assert "no running statistics tell it" in alone.reason


@pytest.mark.parametrize("width", [30, 40, 100])
def test_the_mean_row_follows_from_statistics_within_its_errors(width):
    """One-hot columns that add up to 1 stand in for a few units: 30 sums, and 3 features, tell 32 columns."""
    encoded = rows_of(LAYOUT, 6, 5)[2]
    (update,) = find_gradients(observe(encoded, norm="batch", hidden=(width,)), AuxiliaryKnowledge())
    mean, error = mean_row(update)
    assert (np.abs(mean - encoded.mean(0)) <= 5 * error + 1e-7).all()
    assert error.max() < (1e-2 if width == 30 else 1e-4)


def test_statistics_of_fewer_units_than_columns_do_not_tell_the_mean():
    view = observe(rows_of(LAYOUT, 4, 0)[2], norm="batch", hidden=(20, 20))
    assert f"has {LAYOUT.width} columns, and running statistics tell 20 sums" in attack(view).reason


def test_statistics_of_other_rows_prove_nothing_wrong():
    (categories, numbers, encoded), (_, _, others) = rows_of(LAYOUT, 6, 0), rows_of(LAYOUT, 6, 1)
    one, other = (observe(rows, norm="batch", **SMALL) for rows in (encoded, others))
    assert isinstance(attack(replace(one, messages=(*one.messages[:2], other.messages[2]))), Abstained)
    told = one.messages[2].payload
    for name in ("0.norm.running_mean", "0.norm.running_var"):  # of all rows shifted, or wider apart
        view = changed(one, 2, statistics={**told.statistics, name: told.statistics[name] * np.float32(1.01)})
        outcome = attack(view)
        assert not isinstance(outcome, list) or exact(outcome[0], categories, numbers).all()


@pytest.mark.parametrize("norm", ["layer", "batch"])
@pytest.mark.parametrize("tensor", ["0.norm.weight", "1.weight", "2.bias"])
def test_a_gradient_that_the_rows_do_not_make_proves_none(norm, tensor):
    view = observe(rows_of(LAYOUT, 6, 0)[2], norm=norm, **SMALL)
    sent = view.messages[1].payload.gradient
    outcome = attack(changed(view, 1, gradient={**sent, tensor: sent[tensor] * np.float32(1.01)}))
    assert isinstance(outcome, Abstained)


@pytest.mark.parametrize("norm", BY_ROW)
def test_the_only_row_of_a_batch_is_read_off_one_unit_and_several_are_not_proven(norm):
    categories, numbers, encoded = rows_of(LAYOUT, 1, 0)
    (claim,) = attack(observe(encoded, norm=norm), LinearLayer)
    assert exact(claim, categories, numbers).all()
    assert claim.verified.all()
    several = attack(observe(rows_of(LAYOUT, 4, 0)[2], norm=norm), LinearLayer)
    assert not isinstance(several, list) or not several[0].verified.any()


def test_batch_norm_leaves_the_bias_before_it_no_gradient():
    view = observe(rows_of(LAYOUT, 6, 0)[2], norm="batch")
    sent = view.messages[1].payload.gradient
    assert np.abs(sent["0.bias"]).max() < 1e-5 * np.abs(sent["0.weight"]).max()
    outcome = attack(view, LinearLayer)
    assert isinstance(outcome, NotApplicable)
    assert "its bias has the gradient 0" in outcome.reason


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", [Spear, Atoms, Posterior])
def test_attacks_that_need_a_network_without_norms_say_so(kind, norm):
    outcome = attack(observe(rows_of(LAYOUT, 4, 0)[2], norm=norm, **SMALL), kind, labels=True)
    assert isinstance(outcome, NotApplicable)
    assert f"{norm} norm and relu" in outcome.reason


def test_local_steps_are_not_read_exactly_behind_batch_norm():
    view = observe_training(rows_of(LAYOUT, 4, 0)[2], TrainingSpec("fedavg", batch_size=2), norm="batch", **SMALL)
    outcome = attack(view)
    assert isinstance(outcome, NotApplicable)
    assert "local steps move the scales of batch norm" in outcome.reason


@pytest.mark.parametrize("norm", BY_ROW)
def test_the_rows_of_local_steps_behind_a_norm_are_those_of_the_row_space_and_not_proven(norm):
    categories, numbers, encoded = rows_of(LAYOUT, 4, 0)
    (claim,) = attack(observe_training(encoded, TrainingSpec("fedavg", batch_size=2), norm=norm, **SMALL))
    assert exact(claim, categories, numbers, 0.01).all()
    assert not claim.verified.any()


@pytest.mark.parametrize("norm", NORMS)
def test_the_true_rows_are_where_gradient_matching_is_least(norm):
    encoded = rows_of(LAYOUT, 5, 0)[2]
    (update,) = find_gradients(observe(encoded, norm=norm, norm_groups=4, **SMALL), AuxiliaryKnowledge())
    weights, observed = ({n: torch.tensor(a)[None] for n, a in t.items()} for t in (update.weights, update.gradient))
    objective = matching_objective(update.model, weights, observed, torch.arange(5)[None] % 2, 2)
    rows = torch.tensor(np.stack([encoded, encoded[:, ::-1].copy()]))[None]
    losses, slopes = objective(rows)
    assert losses[0, 0] < 1e-9
    assert losses[0, 1] > 1e-3
    step = 1e-6 * slopes[0, 1] / slopes[0, 1].norm()
    moved = objective(rows + torch.stack([0 * step, step])[None])[0]
    assert float((moved - losses)[0, 1]) == pytest.approx(1e-6 * float(slopes[0, 1].norm()), rel=1e-2)


@pytest.mark.parametrize("norm", NORMS)
def test_tableak_recovers_more_than_it_guesses_behind_every_norm(norm):
    categories, _, encoded = rows_of(LAYOUT, 4, 1)
    view = observe(encoded, norm=norm, seed=1, **SMALL)
    (claim,) = attack(view, TabLeak, labels=True, restarts=3, iterations=150, crossovers=2)
    assert cells_right(claim, categories) >= (0.45 if norm == "batch" else 0.7)  # guesses have a quarter right


@pytest.mark.parametrize("norm", NORMS)
def test_true_rows_make_the_update_of_local_steps_behind_every_norm(norm):
    training = TrainingSpec("fedavg", learning_rate=0.05, batch_size=6, local_epochs=2)
    encoded = rows_of(LAYOUT, 6, 0)[2].astype(np.float32)
    view = observe_training(encoded, training, norm=norm, **SMALL)
    labels = np.tile(np.arange(6) % 2, 2)
    spec, (model, sent) = view.public.model, (m.payload.weights for m in view.messages)
    weights = {n: torch.tensor(w, dtype=torch.float64)[None] for n, w in model.items() if "running" not in n}
    moved = {n: (w - torch.tensor(sent[n]).double()) / 0.05 for n, w in weights.items()}
    objective = update_objective(spec, Schedule(6, 2, 6, 0.05), weights, moved, torch.tensor(labels)[None], 1)
    losses, _ = objective(torch.tensor(np.tile(encoded, (2, 1)), dtype=torch.float64)[None, None])
    assert float(losses) < 1e-6  # whatever their order within a batch


def test_tableak_on_local_steps_runs_behind_a_norm():
    training = TrainingSpec("fedavg", learning_rate=0.05, batch_size=2)
    view = observe_training(rows_of(LAYOUT, 4, 0)[2], training, norm="layer", hidden=(8,))
    (claim,) = attack(view, TabLeakFedAvg, labels=True, restarts=2, iterations=5, refinement=2)
    assert len(claim.numbers) == 4


@pytest.mark.parametrize("norm", BY_ROW)
def test_the_portfolio_solves_a_batch_behind_a_norm_without_guessing(norm):
    categories, numbers, encoded = rows_of(LAYOUT, 8, 0)
    (claim,) = attack(observe(encoded, norm=norm), Portfolio, labels=True)
    assert exact(claim, categories, numbers).all()
    assert claim.verified.all()


@pytest.mark.parametrize("norm", NORMS)
def test_labels_are_counted_from_the_last_layers_weights_behind_every_norm(norm):
    spec = ModelSpec(6, 3, (40, 30), task="multiclass", norm=norm)
    coins = np.random.default_rng(0)
    weights, labels = initial_weights(spec, coins), torch.tensor([0] * 6 + [1] * 4 + [2] * 2)
    rows = coins.normal(size=(12, 6)).astype(np.float32)
    found = {n: g.numpy() for n, g in gradient(spec, as_tensors(weights), torch.from_numpy(rows), labels).items()}
    counts = counts_from_weights(spec, weights, found, 12, coins.normal(size=(1000, 6)))
    np.testing.assert_allclose(counts, [6, 4, 2], atol=1)


def test_an_update_with_statistics_in_it_is_read_without_them():
    view = observe(rows_of(LAYOUT, 4, 0)[2], norm="batch", **SMALL)
    told = view.messages[2].payload.statistics
    mixed = changed(view, 1, gradient={**view.messages[1].payload.gradient, **told})
    (update,) = find_gradients(mixed, AuxiliaryKnowledge())
    assert not any("running" in name for name in (*update.gradient, *update.weights))


def test_a_shift_of_all_rows_that_no_gradient_shows_is_seen_in_the_mean():
    encoded = rows_of(LAYOUT, 6, 5)[2]
    (update,) = find_gradients(observe(encoded, norm="batch", **SMALL), AuxiliaryKnowledge())
    shifted = encoded + 0.01 * (np.arange(LAYOUT.width) == 0)
    labels, weights = torch.arange(6) % 2, as_tensors(update.weights, dtype=torch.float64)
    same, other = (gradient(update.model, weights, torch.tensor(rows), labels) for rows in (encoded, shifted))
    assert all(torch.allclose(g, other[name], atol=1e-9) for name, g in same.items())
    assert mean_off(update, encoded) < MEAN_OFF < mean_off(update, shifted)


def test_no_share_of_a_proven_row_is_taken_off_a_gradient_behind_a_norm():
    encoded = rows_of(LAYOUT, 6, 5)[2]
    (update,) = find_gradients(observe(encoded, norm="layer", **SMALL), AuxiliaryKnowledge())
    assert remainder(update, encoded[:0]) is update
    assert remainder(update, encoded[:2]) is None
