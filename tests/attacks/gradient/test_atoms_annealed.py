"""Rows that come down to the second layer's space, where a batch has more rows than its columns have directions."""

from dataclasses import replace

import numpy as np
import pytest

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.gradient.all_layers.batch import remaining
from leakledger.attacks.gradient.atoms import Atoms, annealed
from leakledger.attacks.gradient.atoms.annealed import energy_of
from leakledger.attacks.observed.affine import affine
from leakledger.attacks.observed.gradients import find_gradients
from leakledger.attacks.observed.labels import plausible_rows
from leakledger.preprocess.models import ACTIVATIONS
from tests.attacks.example import LAYOUT, NUMERIC, exact, observe, rows_of
from tests.attacks.gradient.test_span_attack import table_layout
from tests.attacks.gradient.test_span_updates import true_rows

NOTHING = AuxiliaryKnowledge()
COUNT = 48  # the columns of LAYOUT have 29 directions


def spaces_of(encoded, layout=LAYOUT, **options):
    (update,) = find_gradients(observe(encoded, layout, **options), NOTHING)
    return remaining(update, update.gradient, update.rows, [update.rows] * (len(update.model.hidden) + 1)).spaces


def coming_down(spaces, layout=LAYOUT):
    return list(annealed.annealed(spaces, layout, np.random.default_rng(0)))


# Sigmoid is so nearly linear that rounding hides some directions of as many rows.
@pytest.mark.parametrize("activation", sorted(set(ACTIVATIONS) - {"sigmoid"}))
def test_rows_of_the_batch_have_no_energy_and_plausible_ones_have(activation):
    encoded = rows_of(LAYOUT, COUNT, 0)[2]
    spaces, rng = spaces_of(encoded, activation=activation), np.random.default_rng(0)
    energy = energy_of(spaces, spaces.layers[1], LAYOUT, rng)
    others = plausible_rows(LAYOUT, 256, rng)
    true, false = (energy.of((x @ energy.pushes + energy.base).astype(np.float32)) for x in (encoded, others))
    assert true.max() < 1e-6 * false.min()
    assert 0.5 < false.mean() < 2  # one space: the first layer's holds all rows
    assert energy.pushes.shape[1] == 100  # so that it has no equations


def test_what_a_visit_weighs_is_the_energy_of_the_whole_row():
    encoded = rows_of(LAYOUT, COUNT, 0)[2]
    spaces, rng = spaces_of(encoded), np.random.default_rng(0)
    energy = energy_of(spaces, spaces.layers[1], LAYOUT, rng)
    rows = annealed._Rows(energy, LAYOUT, 20, rng)
    for _ in range(3):
        rows.sweep(0.1)
    assert np.allclose(rows.seen, rows.found.encoded @ energy.pushes + energy.base, atol=1e-4)
    first = affine(spaces.weights, 0)
    points = (rows.found.encoded @ first[:, :-1].T + first[:, -1]).clip(0)
    missed = points @ energy.equations[:-1] + energy.equations[-1]
    assert energy.of(rows.seen) == pytest.approx((missed**2).sum(1), rel=1e-2)  # the first layer has no equations here


@pytest.mark.parametrize(
    "limits", [{}, {"CHOICES": 3}, {"AT_ONCE": 2**20}], ids=["all at once", "some values", "parts"]
)
def test_most_rows_come_down_to_rows_of_the_batch(monkeypatch, limits):
    for name, value in limits.items():
        monkeypatch.setattr(annealed, name, value)
    categories, _, encoded = rows_of(LAYOUT, COUNT, 1)
    parts = coming_down(spaces_of(encoded))
    assert (len(parts) > 1) == ("AT_ONCE" in limits)
    found = np.concatenate([part.categories for part in parts])
    assert len(found) == annealed.CHAINS
    same = (found[:, None] == categories).all(2)
    assert same.any(1).mean() > 0.5
    assert same.any(0).mean() > 0.8


@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
@pytest.mark.parametrize("count", [32, COUNT, 72])
def test_batches_of_more_rows_than_directions_are_recovered_whole(activation, count):
    categories, numbers, encoded = rows_of(LAYOUT, count, count)
    (claim,) = Atoms().run(observe(encoded, activation=activation, seed=count), NOTHING)
    assert len(claim.numbers) == count
    assert exact(claim, categories, numbers).all()


def test_rows_without_categories_come_down_too():
    _, numbers, encoded = rows_of(NUMERIC, 24, 0)
    (claim,) = Atoms().run(observe(encoded, NUMERIC), NOTHING)
    assert exact(claim, np.zeros((24, 0)), numbers).all()


def test_nothing_comes_down_where_the_second_layer_leaves_nothing_out():
    assert not coming_down(spaces_of(rows_of(LAYOUT, 8, 0)[2], hidden=(100,)))
    assert not coming_down(spaces_of(rows_of(LAYOUT, 40, 0)[2], hidden=(30, 30)))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count", "seed"), [("adult", 64, 0), ("adult", 80, 1), ("german", 64, 2)])
def test_crowded_batches_of_real_tables_are_recovered_whole_and_none_is_verified_falsely(datasets, name, count, seed):
    layout, categories, numbers, encoded = table_layout(datasets, name)
    deviation = np.array([b.scale for b in layout.numeric])
    drawn = np.random.default_rng(seed).choice(len(encoded), count, replace=False)
    (claim,) = Atoms(seed=seed).run(observe(encoded[drawn], layout, seed=seed), NOTHING)
    told = replace(claim, numbers=claim.numbers / deviation)
    assert exact(told, categories[drawn], numbers[drawn] / deviation).mean() >= 0.9
    assert claim.verified.mean() >= 0.9  # or there would be nothing that could be false
    assert true_rows(told, categories[drawn], numbers[drawn] / deviation)[claim.verified].all()
