from dataclasses import replace

import numpy as np
import pytest

from leakledger.attacks.observed.row_space import row_space
from leakledger.attacks.observed.update import Schedule
from tests.attacks.example import DOUBLE, SINGLE, update_of

HALF = float(np.finfo(np.float16).eps)


def gradient_of(rows, single=True, seed=0):
    coins = np.random.default_rng(seed)
    product = coins.normal(size=(30, rows)) @ np.column_stack([coins.normal(size=(rows, 12)), np.ones(rows)])
    return product.astype(np.float32).astype(np.float64) if single else product


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("rows", [1, 5, 11])
def test_the_basis_spans_the_gradient_of_as_many_rows_as_stated(rows, single):
    g = gradient_of(rows, single)
    space = row_space(update_of(g, rows, precision=SINGLE if single else DOUBLE), 64)
    assert space.rank == rows
    assert np.allclose(space.left @ space.right, g, atol=1e-5 if single else 1e-12)
    assert np.allclose(space.right @ space.right.T, np.eye(rows))


@pytest.mark.parametrize(("rows", "stated"), [(5, 4), (5, 6), (1, 2)])
def test_another_rank_than_rows_are_stated_is_a_reason_that_names_both(rows, stated):
    g = gradient_of(rows)
    reason = row_space(update_of(g, stated), 64)
    assert f"rank is {rows} and the batch has {stated} rows" in reason


@pytest.mark.parametrize("trained", [False, True])
def test_fewer_neurons_that_moved_than_rows_span_no_more_than_these(trained):
    g = gradient_of(5)
    g[3:] = 0.0
    update = update_of(g, 5)
    update = replace(update, schedule=Schedule(5, 1, 5, 0.1), noise=1e-9) if trained else update
    assert "rank is 3 and the batch has 5 rows" in row_space(update, 64)


@pytest.mark.parametrize("rows", [13, 14])
def test_a_batch_that_fills_the_gradient_leaves_no_gap(rows):
    g = gradient_of(rows)
    assert f"{rows} rows does not leave a gap" in row_space(update_of(g, rows), 64)


@pytest.mark.parametrize(("kind", "precision"), [(np.float16, HALF), (np.float32, SINGLE)])
def test_rounding_of_what_travelled_is_told_from_noise_by_the_stated_precision(kind, precision):
    """Errors of a rounding are what that precision does, and far above what double precision does."""
    g = gradient_of(5, single=False) / 10
    rounded = g.astype(kind).astype(np.float64)
    assert row_space(update_of(rounded, 5, precision=precision), 10).rank == 5
    assert isinstance(row_space(update_of(rounded, 5, precision=DOUBLE), 10), str)


def test_a_difference_of_weights_is_judged_by_its_noise_and_not_by_their_precision():
    g = gradient_of(5, single=False)
    g += 1e-9 * np.abs(g).max() * np.random.default_rng(1).normal(size=g.shape)
    trained = {"precision": SINGLE, "schedule": Schedule(5, 1, 5, 0.1)}
    assert isinstance(row_space(update_of(g, 5, **trained), 64), str)
    assert row_space(update_of(g, 5, **trained, noise=1e-9 * np.abs(g).max()), 64).rank == 5
