import numpy as np
import pytest

from attacks.span.row_space import row_space


def gradient_of(rows, single=True, seed=0):
    coins = np.random.default_rng(seed)
    product = coins.normal(size=(30, rows)) @ np.column_stack([coins.normal(size=(rows, 12)), np.ones(rows)])
    return product.astype(np.float32).astype(np.float64) if single else product


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("rows", [1, 5, 11])
def test_the_basis_spans_the_gradient_of_as_many_rows_as_stated(rows, single):
    g = gradient_of(rows, single)
    space = row_space(g[:, :-1], g[:, -1], rows, 64)
    assert space.rank == rows
    assert np.allclose(space.left @ space.right, g, atol=1e-5 if single else 1e-12)
    assert np.allclose(space.right @ space.right.T, np.eye(rows))


@pytest.mark.parametrize(("rows", "stated"), [(5, 4), (5, 6), (1, 2)])
def test_another_rank_than_rows_are_stated_is_a_reason_that_names_both(rows, stated):
    g = gradient_of(rows)
    reason = row_space(g[:, :-1], g[:, -1], stated, 64)
    assert f"rank is {rows} and the batch has {stated} rows" in reason


@pytest.mark.parametrize("rows", [13, 14])
def test_a_batch_that_fills_the_gradient_leaves_no_gap(rows):
    g = gradient_of(rows)
    assert f"{rows} rows does not leave a gap" in row_space(g[:, :-1], g[:, -1], rows, 64)


def test_rounding_to_single_precision_is_told_from_noise_in_double_precision():
    """Errors of 1e-8 are what single precision does, and far above what double precision does."""
    g = gradient_of(5, single=False)
    noisy = g + 1e-8 * np.abs(g).max() * np.random.default_rng(1).normal(size=g.shape)
    assert isinstance(row_space(noisy[:, :-1], noisy[:, -1], 5, 64), str)
    rounded = noisy.astype(np.float32).astype(np.float64)
    assert row_space(rounded[:, :-1], rounded[:, -1], 5, 64).rank == 5
