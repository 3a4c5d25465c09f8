import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from leakledger.attacks.observed.equations import determine

systems = st.tuples(st.integers(0, 5), st.integers(1, 5)).flatmap(
    lambda shape: st.tuples(
        arrays(np.int64, shape, elements=st.integers(-2, 2)),
        arrays(np.int64, (3, shape[1]), elements=st.integers(-2, 2)),
    )
)


@given(systems)
def test_a_sum_is_determined_exactly_when_it_adds_nothing_to_the_rank(system):
    equations, targets = system
    rank = np.linalg.matrix_rank(equations) if len(equations) else 0
    for target, known in zip(targets, determine(equations, targets).known, strict=True):
        assert known == (np.linalg.matrix_rank(np.vstack([equations, target])) == rank)


@given(systems)
def test_the_weights_make_a_determined_sum_from_the_equations(system):
    equations, targets = system
    found = determine(equations, targets)
    made = found.weights @ equations
    assert (made[found.known] == (found.scale[:, None] * targets)[found.known]).all()
    assert (found.scale > 0).all()


@given(systems)
def test_relations_are_combinations_of_equations_that_vanish_and_there_are_as_many_as_are_superfluous(system):
    equations, targets = system
    found = determine(equations, targets)
    assert not (found.relations @ equations).any()
    rank = np.linalg.matrix_rank(equations) if len(equations) else 0
    assert len(found.relations) == len(equations) - rank


def test_coefficients_beyond_62_bits_are_refused_not_wrapped():
    grown = np.array([[2**40, 1], [1, 2**40]], np.int64)
    with pytest.raises(OverflowError, match="62 bits"):
        determine(grown, np.eye(2, dtype=np.int64))
