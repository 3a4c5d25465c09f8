"""Kernels, search and certificate on batches whose factors are known."""

from dataclasses import replace

import numpy as np
import pytest

from leakledger.attacks.gradient.exact.certificate import singled_out
from leakledger.attacks.gradient.exact.kernels import (
    Candidates,
    Kernels,
    agreeing,
    guided_kernels,
    kernel,
    kernel_guess,
    silent,
    verified_kernels,
)
from leakledger.attacks.gradient.exact.neurons import Signs, live_neurons
from leakledger.attacks.gradient.exact.polish import fitted, polished
from leakledger.attacks.gradient.span.search import (
    accept,
    consistent,
    left_over,
    search,
    settled,
    settled_coordinates,
    settled_rows,
    sweep,
    unit,
    with_kernels_of,
)
from leakledger.attacks.observed.row_space import row_space
from leakledger.preprocess.views import FeatureLayout, NumericBlock
from tests.attacks.example import DOUBLE, update_of

WIDTH, NEURONS = 20, 80
LAYOUT = FeatureLayout(tuple(NumericBlock(f"n{i}", i) for i in range(WIDTH)))


def known_batch(rows, seed=0, twins=False, faint=1.0):
    """A gradient D^T [X | 1] with ReLU's zeros: space, weight, bias, X, true coordinates (r, r) and kernels (r, r).

    The first row's part of it is as `faint` as that.
    """
    coins = np.random.default_rng(seed)
    weight, bias = coins.normal(size=(NEURONS, WIDTH)), coins.normal(size=NEURONS)
    encoded = coins.normal(size=(rows, WIDTH))
    if twins:
        encoded[1] = encoded[0] + 1e-3
    signals = coins.normal(size=(rows, NEURONS)) * (encoded @ weight.T + bias > 0)
    signals[0] *= faint
    points = np.column_stack([encoded, np.ones(rows)])
    gradient = signals.T @ points
    space = row_space(update_of(gradient, rows, precision=DOUBLE), 64)
    coordinates = points @ space.right.T
    kernels = np.linalg.inv(coordinates).T
    return space, weight, bias, encoded, coordinates, kernels / np.linalg.norm(kernels, axis=1, keepdims=True)


def same_lines(one, other):
    return np.allclose(np.abs((one * other).sum(1)), 1)


def candidates_at(origin, open):
    return Candidates(np.zeros((len(origin), 0), np.int64), origin, open)


@pytest.mark.parametrize("rows", [2, 8, 15])
def test_the_signs_of_a_row_give_its_kernel_and_agree_with_it(rows):
    space, weight, bias, _, coordinates, true = known_batch(rows)
    neurons = live_neurons(space, weight, bias)
    found = verified_kernels(neurons, np.arange(rows), neurons.signs(coordinates))
    assert same_lines(found.directions, true)
    assert (found.agreement == 1).all()


def test_a_mixture_of_rows_has_no_kernel_that_agrees():
    space, weight, bias, _, coordinates, _ = known_batch(8)
    neurons = live_neurons(space, weight, bias)
    mixtures = coordinates + np.roll(coordinates, 1, 0) - np.roll(coordinates, 3, 0)
    assert (verified_kernels(neurons, np.arange(8), neurons.signs(mixtures)).agreement < 0.9).all()


def test_a_kernel_that_too_few_neurons_make_does_not_count():
    space, weight, bias, _, coordinates, _ = known_batch(8)
    neurons = live_neurons(space, weight, bias)
    signs = np.abs(coordinates[:1] @ neurons.planes)
    signs[:, :8] *= -1
    assert verified_kernels(neurons, np.arange(1), Signs(signs, np.zeros(signs.shape))).agreement == 0


def test_two_rows_with_one_activation_pattern_have_no_kernel_of_their_own():
    space, weight, bias, encoded, coordinates, _ = known_batch(8, twins=True)
    neurons = live_neurons(space, weight, bias)
    signs = neurons.signs(coordinates)
    assert ((signs.values[0] > 0) == (signs.values[1] > 0)).all()
    agreement = verified_kernels(neurons, np.arange(8), signs).agreement
    assert agreement.tolist() == [0, 0, 1, 1, 1, 1, 1, 1]
    assert singled_out(space, weight, bias, encoded)[0].tolist() == [False, False] + [True] * 6
    known = coordinates[1:2] / np.linalg.norm(coordinates[1])
    assert verified_kernels(neurons, np.arange(1), neurons.signs(coordinates[:1]), known).agreement == 1


def test_the_sweep_finds_rows_however_far_they_are_along_the_open_direction():
    space, weight, bias, _, coordinates, true = known_batch(8)
    neurons = live_neurons(space, weight, bias)
    open = (coordinates[0] - coordinates[1])[None] / np.linalg.norm(coordinates[0] - coordinates[1])
    found = list(sweep(neurons, candidates_at(coordinates + 20 * open, open)))
    directions, numbers, agreement = (
        np.concatenate([getattr(k, name) for k in found]) for name in ("directions", "candidates", "agreement")
    )
    assert set(range(2, 8)) <= set(numbers[agreement == 1])
    own = (agreement == 1) & (numbers > 1)
    assert same_lines(directions[own], true[numbers[own]])


def test_kernels_leave_the_rows_not_found_yet_and_rule_out_mixtures():
    _, _, _, _, coordinates, kernels = known_batch(8)
    mixtures = (coordinates + np.roll(coordinates, 1, 0)) / 2
    everything = candidates_at(np.concatenate([coordinates, mixtures]), np.zeros((0, 8)))
    left = consistent(everything, kernels[:6])
    assert left.origin == pytest.approx(everything.origin[[6, 7, 15]])


def test_a_row_is_not_settled_where_another_candidate_activates_the_same_neurons():
    space, weight, bias, _, coordinates, kernels = known_batch(8)
    neurons = live_neurons(space, weight, bias)
    rival = coordinates[0] + 4e-3 * (coordinates[7] - coordinates[0])
    assert ((rival @ neurons.planes > 0) == (coordinates[0] @ neurons.planes > 0)).all()
    nothing, units = np.zeros((0, 8)), coordinates / np.linalg.norm(coordinates, axis=1, keepdims=True)
    alone, both = (candidates_at(c, nothing) for c in (coordinates, np.concatenate([coordinates, rival[None]])))
    assert same_lines(settled_rows(neurons, alone, kernels[:5]), units[[0, 2, 4, 1, 3]])
    assert same_lines(settled_rows(neurons, both, kernels[:5]), units[[2, 4, 1, 3]])
    told = np.concatenate([kernels[:5], kernels[7:]])
    assert same_lines(settled_rows(neurons, both, told), units[[0, 2, 4, 1, 3, 7]])


def test_guided_kernels_find_rows_that_are_off_along_an_open_direction():
    space, weight, bias, _, coordinates, true = known_batch(10)
    neurons = live_neurons(space, weight, bias)
    open = (coordinates[0] - coordinates[1])[None] / np.linalg.norm(coordinates[0] - coordinates[1])
    found = guided_kernels(neurons, candidates_at(coordinates + 0.3 * open, open), np.arange(10), np.zeros((10, 1)))
    right = found.agreement == 1
    assert len(set(found.candidates[right])) >= 8
    assert same_lines(found.directions[right], true[found.candidates[right]])


def test_guided_kernels_find_a_row_that_the_gradient_shows_but_faintly():
    space, weight, bias, _, coordinates, true = known_batch(10, faint=1e-4)
    neurons = live_neurons(space, weight, bias)
    open = (coordinates[0] - coordinates[1])[None] / np.linalg.norm(coordinates[0] - coordinates[1])
    signal = np.abs(true[0] @ neurons.left.T)
    assert 1e-4 < signal.max() < 2e-3
    found = guided_kernels(neurons, candidates_at(coordinates, open), np.zeros(1, np.int64), np.zeros((1, 1)))
    assert (found.agreement == 1).any()
    assert same_lines(found.directions, true[:1])


def test_the_fast_guess_of_a_kernel_is_the_kernel_where_that_is_a_line():
    space, weight, bias, _, coordinates, _ = known_batch(8)
    neurons = live_neurons(space, weight, bias)
    drawn = coordinates @ neurons.planes < 0
    assert same_lines(kernel_guess(neurons.left, drawn), kernel(neurons.left, drawn)[0])


@pytest.mark.parametrize("free", [0, 1, 2])
def test_the_search_finds_all_rows_among_false_candidates_and_open_directions(free):
    space, weight, bias, encoded, coordinates, true = known_batch(8)
    coins = np.random.default_rng(1)
    open = np.linalg.qr((coordinates[:free] - coordinates[free : 2 * free]).T)[0].T
    mixed = np.concatenate([coordinates, coins.dirichlet(np.ones(8), 30) @ coordinates])
    origin = mixed + coins.normal(size=(len(mixed), free)) @ open
    candidates = candidates_at(origin, open)
    neurons = live_neurons(space, weight, bias)
    found = search(neurons, candidates, 40, 0)
    assert len(found) == 8
    points = settled_coordinates(neurons, candidates, found) @ space.right
    rows = points[:, :-1] / points[:, -1:]
    assert (np.abs(rows[:, None] - encoded).max(2).min(1) < 1e-6).all()
    assert np.abs(found @ true.T).max(1) == pytest.approx(1)


def test_settled_moves_rows_to_where_kernels_annihilate_them():
    _, _, _, _, coordinates, kernels = known_batch(6)
    open = np.linalg.qr((coordinates[:2] - coordinates[2:4]).T)[0].T
    moved = coordinates[5:] + np.array([[3.0, -2.0]]) @ open
    origin, left = settled(moved, open, kernels[:4])
    assert np.allclose(origin, coordinates[5:])
    assert not len(left)
    origin, left = settled(moved, open, kernels[4:5])
    assert np.allclose(origin, moved)
    assert len(left) == 2


def test_the_polish_brings_rows_nearer_to_the_truth_and_the_gradient():
    space, weight, bias, encoded, _, _ = known_batch(6)
    off = encoded + 1e-6 * np.random.default_rng(2).normal(size=encoded.shape)
    rows, residual, _ = polished(space, LAYOUT, weight, bias, off)
    assert residual < fitted(space, weight, bias, off)[1] / 5
    assert np.abs(rows - encoded).max() < np.abs(off - encoded).max() / 2
    assert fitted(space, weight, bias, encoded)[1] < 1e-12


def test_wrong_rows_leave_a_residual_and_are_not_singled_out():
    space, weight, bias, encoded, _, _ = known_batch(6)
    mixed = (encoded + np.roll(encoded, 1, 0)) / 2
    assert polished(space, LAYOUT, weight, bias, mixed)[1] > 1e-3
    assert not singled_out(space, weight, bias, mixed)[0].any()
    single, residual = singled_out(space, weight, bias, encoded)
    assert single.all()
    assert residual.max() < 1e-9


def test_the_row_without_a_kernel_is_what_all_kernels_annihilate_with_a_bias_of_one():
    space, weight, bias, _, coordinates, kernels = known_batch(8)
    neurons, candidates = live_neurons(space, weight, bias), candidates_at(coordinates, np.zeros((0, 8)))
    (last,) = left_over(candidates, kernels[:7])
    assert last == pytest.approx(coordinates[7] / np.linalg.norm(coordinates[7]))
    rows = settled_coordinates(neurons, candidates, kernels[:7])
    assert same_lines(rows / np.linalg.norm(rows, axis=1, keepdims=True), unit(coordinates))


def test_rows_left_over_that_help_each_other_get_kernels_of_their_own():
    space, weight, bias, _, coordinates, kernels = known_batch(8, twins=True)
    neurons, candidates = live_neurons(space, weight, bias), candidates_at(coordinates, np.zeros((0, 8)))
    others = left_over(candidates, kernels[2:])
    assert same_lines(others, unit(coordinates[:2]))
    assert len(with_kernels_of(neurons, candidates, kernels[2:], unit(coordinates[2:]), others[:0])) == 6
    assert len(with_kernels_of(neurons, candidates, kernels[2:], unit(coordinates[2:]), others)) == 8


def test_rows_left_over_whose_numbers_stay_open_are_not_settled():
    _, one, other = axes = np.eye(3)
    nothing = np.zeros((0, 3))
    settled_ones, open_ones = (candidates_at(np.array([one, other]), o) for o in (nothing, (one - other)[None]))
    assert same_lines(left_over(settled_ones, axes[:1]), axes[1:])
    assert not len(left_over(open_ones, axes[:1]))


def test_a_kernel_on_which_one_neuron_does_not_agree_is_not_accepted():
    kernels = Kernels(np.eye(2), np.arange(2), np.array([1.0, 0.99]))
    assert np.array_equal(accept(np.zeros((0, 2)), kernels), np.eye(2)[:1])


def test_noise_may_cover_a_faint_signal_but_makes_none():
    signs = Signs(np.array([[1.0, 1.0, -1.0, -1.0] * 10]), np.zeros((1, 40)))
    right = np.where(signs.values[0] > 0, 1.0, 0.0)
    faint, loud = right.copy(), right.copy()
    faint[0], loud[2] = 1e-4, 1e-1
    for noise, expected in ((np.zeros(40), 1 - 1 / 40), (np.full(40, 1e-4), 1)):
        assert agreeing(right, signs, noise) == 1
        assert agreeing(faint * (faint > 0.5), signs, noise) == pytest.approx(expected)
    assert agreeing(loud, signs, np.full(40, 1e-4)) < 1
    several = right * (np.arange(40) % 8 != 0)
    assert agreeing(several, signs, np.full(40, 1e-4)) < 1


def test_what_is_below_the_noise_counts_as_zero():
    signal = np.array([[1.0, 1e-2, 1e-4, 1e-5]])
    assert silent(signal, 1e-4, np.zeros(4)).tolist() == [[False, False, False, True]]
    assert silent(signal, 1e-4, np.array([0, 2e-3, 2e-3, 0])).tolist() == [[False, True, True, True]]


def test_a_kernel_that_noise_leaves_a_choice_does_not_count():
    space, weight, bias, _, coordinates, _ = known_batch(8)
    neurons = live_neurons(space, weight, bias)
    for noise, agreement in ((1e-6, 1), (0.5, 0)):
        noisy = replace(neurons, noise=np.full(len(neurons.left), noise))
        assert (verified_kernels(noisy, np.arange(8), noisy.signs(coordinates)).agreement == agreement).all()


def test_a_kernel_within_the_noise_of_others_is_none_of_its_own():
    kernels = np.eye(4)[[0, 1, 1]]
    kernels[2, 2] = 1e-3
    found = Kernels(kernels, np.arange(3), np.ones(3))
    assert len(accept(np.zeros((0, 4)), found)) == 3
    assert len(accept(np.zeros((0, 4)), found, 1e-2)) == 2
