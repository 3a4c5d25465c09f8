import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from leakledger.attacks.gradient.tableak_fedavg.epochs import (
    SeparateEpochs,
    TiedEpochs,
    epoch_distance,
    epoch_order,
    merge,
    repeated,
    replay,
    tied_order,
)
from leakledger.attacks.observed.tabular import Rows, StructuralPrior
from leakledger.attacks.observed.update import Schedule
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, NumericBlock

PRIOR = StructuralPrior(
    FeatureLayout((NumericBlock("age", 0, 0.0, 1.0, -2.0, 2.0), CategoricalBlock("ward", 1, 4))), {}
)
SEEDS = st.integers(0, 2**16)


@given(SEEDS, st.integers(1, 4), st.integers(1, 5))
def test_the_distance_of_epochs_is_the_mean_square_between_the_means_of_all_pairs_and_its_gradient_is_right(
    seed, epochs, rows
):
    torch.manual_seed(seed)
    columns = torch.randn(2, 3, epochs * rows, 4, dtype=torch.float64, requires_grad=True)
    means = columns.view(2, 3, epochs, rows, 4).mean(3)
    expected = (means[:, :, :, None] - means[:, :, None]).square().mean((2, 3, 4))
    distance, gradient = epoch_distance(columns.detach(), epochs)
    torch.testing.assert_close(distance, expected.detach())
    (autograd,) = torch.autograd.grad(expected.sum(), columns)
    torch.testing.assert_close(gradient.expand(2, 3, epochs, rows, 4).reshape(columns.shape), autograd)


def test_the_distance_does_not_see_the_order_of_rows_in_an_epoch():
    columns = torch.randn(1, 1, 6, 4)
    shuffled = columns[:, :, [0, 1, 2, 5, 3, 4]]
    torch.testing.assert_close(epoch_distance(columns, 2)[0], epoch_distance(shuffled, 2)[0])


@given(SEEDS, st.integers(1, 4))
def test_shuffled_copies_of_distinct_rows_are_brought_back_into_the_order_of_the_first_epoch(seed, epochs):
    coins = np.random.default_rng(seed)
    labels = coins.integers(0, 2, 4)
    units = np.hstack([coins.uniform(size=(4, 1)), np.eye(4)])
    orders = [coins.permutation(4) for _ in range(epochs)]
    shuffled, theirs = np.stack([units[o] for o in orders]), np.stack([labels[o] for o in orders])
    order = epoch_order(PRIOR, shuffled, theirs, 0.3)
    np.testing.assert_allclose(merge(shuffled, order), units[orders[0]])
    np.testing.assert_array_equal(replay(units[orders[0]], order), np.concatenate(shuffled))


def test_a_row_is_matched_to_one_with_its_label_even_where_another_looks_the_same():
    units = PRIOR.size * [0.0]
    rows = np.array([[units, units], [units, units]])
    rows[0, :, 1], rows[1, :, 2] = 1.0, 1.0
    rows[0, 1, 0] = rows[1, 1, 0] = 1.0  # the second row of either epoch has the same age ...
    order = epoch_order(PRIOR, rows, np.array([[0, 1], [1, 0]]), 0.3)  # ... but not the same label
    np.testing.assert_array_equal(order, [[0, 1], [1, 0]])


@given(SEEDS, st.integers(1, 4), st.integers(1, 6))
def test_tied_rows_stand_where_their_label_is_in_every_epoch(seed, epochs, rows):
    coins = np.random.default_rng(seed)
    first = coins.integers(0, 3, rows)
    labels = np.stack([first, *(coins.permutation(first) for _ in range(epochs - 1))])
    order = tied_order(labels)
    np.testing.assert_array_equal(order[0], np.arange(rows))
    np.testing.assert_array_equal(np.sort(order, 1), np.tile(np.arange(rows), (epochs, 1)))
    np.testing.assert_array_equal(np.take_along_axis(labels, order, 1), np.tile(first, (epochs, 1)))
    np.testing.assert_array_equal(replay(first[:, None], order)[:, 0], labels.ravel())


def test_variables_repeated_for_every_epoch_give_it_the_rows_that_tied_epochs_give_it():
    torch.manual_seed(0)
    labels = np.array([[[0, 1, 0], [1, 0, 0], [0, 0, 1]], [[1, 1, 0], [0, 1, 1], [1, 0, 1]]])
    variables = torch.randn(2, 4, 5, 3)  # (V, size, R, N)
    found = repeated(variables, labels).view(2, 4, 5, 9)
    tied = TiedEpochs(Schedule(3, 3, 2, 0.1), labels, "cpu").spread(variables.permute(0, 2, 3, 1))  # (V, R, T, size)
    torch.testing.assert_close(found, tied.permute(0, 3, 1, 2))
    torch.testing.assert_close(found[..., :3], variables)
    first = torch.tensor(labels[:, 0]).view(2, 1, 1, 3).expand(2, 4, 5, 3)
    expected = torch.tensor(labels).view(2, 1, 9).expand(2, 20, 9)
    torch.testing.assert_close(repeated(first, labels), expected.reshape(2, 4, 45))


def test_what_tied_and_separate_epochs_collect_is_the_gradient_of_what_they_spread():
    torch.manual_seed(0)
    labels = np.array([[[0, 1, 0], [1, 0, 0]], [[1, 1, 0], [0, 1, 1]]])
    schedule, strength = Schedule(3, 2, 2, 0.1), torch.tensor([0.5, 2.0], dtype=torch.float64)
    for epochs in (TiedEpochs(schedule, labels, "cpu"), SeparateEpochs(schedule, strength, 0.3)):
        columns = torch.randn(2, 3, epochs.rows, 4, dtype=torch.float64, requires_grad=True)
        pull = torch.randn(2, 3, schedule.total, 4, dtype=torch.float64)
        value = (epochs.spread(columns) * pull).sum()
        if isinstance(epochs, SeparateEpochs):
            value = value + (epoch_distance(columns, 2)[0] * strength[:, None]).sum()
        (autograd,) = torch.autograd.grad(value, columns)
        torch.testing.assert_close(epochs.collect(pull.clone(), columns.detach()), autograd)


def test_epochs_are_merged_as_distributions_and_positions():
    units = np.array([[[0.2, 1.0, 0, 0, 0]], [[0.4, 0, 1.0, 0, 0]]])
    merged = merge(units, np.array([[0], [0]]))
    np.testing.assert_allclose(merged, [[0.3, 0.5, 0.5, 0, 0]])
    assert isinstance(PRIOR.project(merged), Rows)
