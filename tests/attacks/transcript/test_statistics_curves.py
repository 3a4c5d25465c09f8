import numpy as np
import pytest

from leakledger.attacks.observed.secure_sums import Slot
from leakledger.attacks.transcript.statistics.curves import Curves, Shapes, common_lattice, curves
from leakledger.attacks.transcript.statistics.proportions import log_likelihood
from leakledger.attacks.transcript.statistics.seen import Seen, Sharing

SLOTS = (Slot("count"), Slot("sum", "a"))


def seen_of(parties, observed, seed, times=1):
    """Parts of two numbers of three parties, each number shared so many times."""
    rng = np.random.default_rng(seed)
    sharings = {}
    for slot in SLOTS:
        parts = [rng.random((3, observed)) + 0.01 for _ in range(times)]
        sharings[slot] = [Sharing(parties, observed, p.sum(axis=1), p.max(axis=1)) for p in parts]
    names = ("P1", "P2", "P3")
    return Seen(names, sharings, {s: np.ones(3) for s in SLOTS}, dict.fromkeys(names, ()))


@pytest.mark.parametrize("weights", ["uniform", "exponential"])
@pytest.mark.parametrize(("parties", "observed"), [(4, 1), (5, 2), (20, 3)])
def test_kept_curves_are_those_of_the_parts_but_for_a_shift_of_a_sixteenth_of_a_cell(weights, parties, observed):
    seen = seen_of(parties, observed, seed=1)
    grid = common_lattice(seen)
    found = curves(seen, SLOTS, grid, weights)
    for i, slot in enumerate(SLOTS):
        one = seen.sharings[slot][0]
        exact = log_likelihood(grid.logs(found.origin[:, i]), one.total, one.largest, parties, observed, weights)
        means = [(np.arange(grid.size) * _mass(x)).sum(axis=1) for x in (exact, found.logs[:, i])]
        np.testing.assert_allclose(*means, atol=0.35)  # cells


def test_numbers_that_were_shared_twice_have_the_sum_of_both_log_likelihoods():
    seen = seen_of(5, 2, seed=3, times=2)
    grid = common_lattice(seen)
    found = curves(seen, SLOTS, grid, "uniform")
    for i, slot in enumerate(SLOTS):
        at = grid.logs(found.origin[:, i])
        added = sum(log_likelihood(at, s.total, s.largest, 5, 2, "uniform") for s in seen.sharings[slot])
        np.testing.assert_array_equal(found.logs[:, i], added)


def test_correlations_are_those_that_the_definition_adds_up():
    rng = np.random.default_rng(0)
    logs, size = rng.normal(size=(2, 9)), 9
    of = Curves(np.zeros((1, 2), np.int64), np.zeros((1, 2), bool), np.array([[0, 1]]), Shapes(logs))
    scaled = np.exp(logs - logs.max(axis=1, keepdims=True))
    wide, rows = rng.random((1, 2, 2 * size - 1)), rng.random((1, 2, size))
    for s in range(2):
        weighed = [sum(scaled[s, p] * wide[0, s, p - j + size - 1] for p in range(size)) for j in range(size)]
        shifted = [
            sum(scaled[s, j + d] * rows[0, s, j] for j in range(size) if 0 <= j + d < size)
            for d in range(-(size - 1), size)
        ]
        np.testing.assert_allclose(of.weighed(wide)[0, s], weighed, atol=1e-12)
        np.testing.assert_allclose(of.shifted(rows)[0, s], shifted, atol=1e-12)


def _mass(logs):
    mass = np.exp(logs - logs.max(axis=1, keepdims=True))
    return mass / mass.sum(axis=1, keepdims=True)
