"""More activation patterns than there are rows: no more of them are chosen than rows can be solved for."""

import numpy as np
import pytest

from leakledger.attacks.gradient.spear.masks import DividedNeurons
from leakledger.attacks.gradient.spear.search import dual_points


def layer(rows, masks, width=3, seed=0):
    """Neurons (n,) of a batch whose rows have these masks (r, n), as gradients show them, and the row space."""
    coins = np.random.default_rng(seed)
    points = np.hstack([coins.normal(size=(rows, width)), np.ones((rows, 1))])
    basis = coins.normal(size=(rows, rows))
    right = np.linalg.solve(basis, points)
    left = np.asarray(masks[:rows], float).T @ basis
    return DividedNeurons(left, left @ right, np.ones(len(left))), right, points


def recovered(found, points):
    return all(np.isclose(found, p).all(1).any() for p in points)


MASKS = np.array([[1, 0, 0, 1, 1, 0], [0, 1, 0, 1, 0, 1], [0, 0, 1, 0, 1, 1]], bool)


@pytest.mark.parametrize("more", [0, 1, 3])
def test_of_more_masks_than_rows_as_many_are_chosen_as_there_are_rows(more):
    mixed = np.array([[1, 1, 1, 0, 0, 1], [1, 0, 1, 1, 0, 0], [0, 1, 1, 0, 1, 1]], bool)[:more]
    masks = np.vstack([MASKS, mixed])
    shown, right, points = layer(3, MASKS)
    found = dual_points(shown, masks, right)
    assert found.shape == (3, 4)
    assert recovered(found, points)


def test_of_fewer_independent_masks_than_rows_no_point_follows():
    shown, right, _ = layer(3, MASKS)
    assert dual_points(shown, MASKS[:2], right).shape == (0, 4)
    assert dual_points(shown, MASKS[[0, 1, 1, 0]], right).shape == (0, 4)


def test_a_single_row_is_read_from_its_own_mask_though_others_stand_beside_it():
    shown, right, points = layer(1, MASKS)
    found = dual_points(shown, MASKS, right)
    assert found.shape == (1, 4)
    assert recovered(found, points)
