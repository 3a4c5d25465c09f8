"""The 14 transformations, and the masks under which four of them are exchanged."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from leakledger.preprocess.features.masks import ADDITIVE, decrypt, draw_mask, encrypt
from leakledger.preprocess.features.transformations import BINARY, TRANSFORMATIONS, UNARY, binary, unary
from leakledger.preprocess.secret import KeyStream, pinned

X = np.array([-2.0, -0.5, 0.5, 4.0])
KNOWN = {
    "log": np.log([2, 0.5, 0.5, 4]),
    "square-root": np.sqrt([2, 0.5, 0.5, 4]),
    "frequency": [1, 1, 1, 1],
    "square": [4, 0.25, 0.25, 16],
    "round": [-2, 0, 0, 4],
    "tanh": np.tanh(X),
    "sigmoid": 1 / (1 + np.exp(-X)),
    "isotonic": [0, 0.5, 0.5, 1],
    "zscore": (X - 0.5) / np.sqrt(4.875),
    "normalisation": [-1, -0.5, -1 / 6, 1],
}
NUMBERS = arrays(np.float64, 6, elements=st.floats(-1e6, 1e6))


def test_there_are_fourteen():
    assert len(TRANSFORMATIONS) == 14
    assert KNOWN.keys() == set(UNARY)


@pytest.mark.parametrize("name", UNARY)
def test_a_transformation_of_one_column_has_its_known_answer(name):
    assert np.allclose(unary(name, "x", X, np.array([0, 1, 0, 1])), KNOWN[name])


def test_frequency_counts_equal_values():
    assert unary("frequency", "x", np.array([3.0, 1, 3, 3])).tolist() == [3, 1, 3, 3]


@pytest.mark.parametrize(("name", "answer"), [*zip(BINARY, ([8, 3], [4, -1], [12, 2], [3, 0.5]), strict=True)])
def test_a_transformation_of_two_columns_has_its_known_answer(name, answer):
    assert binary(name, ("x", "y"), np.array([6.0, 1]), np.array([2.0, 2])).tolist() == answer


@given(first=NUMBERS, second=NUMBERS, signs=st.booleans(), seed=st.integers(0, 99))
@pytest.mark.parametrize("how", BINARY)
def test_a_masked_exchange_gives_the_transformation_itself(how, first, second, signs, seed):
    second = np.where(np.abs(second) > 1e-6, second, 1.0)  # it divides
    mask = draw_mask(how in ADDITIVE, 6, 50.0, signs, KeyStream(pinned(seed)))
    result = decrypt(how, binary(how, ("x", "y"), encrypt(how, "x", first, mask), second), mask)
    assert np.allclose(result, binary(how, ("x", "y"), first, second), rtol=1e-9, atol=1e-8)


def test_masks_lie_within_their_bounds_and_reach_them():
    stream = KeyStream(pinned("masks"))
    additive, factors = draw_mask(True, 4000, 50.0, False, stream), draw_mask(False, 4000, 50.0, False, stream)
    signed = draw_mask(False, 4000, 50.0, True, stream)
    assert np.abs(additive).max() <= 50
    assert additive.min() < -49
    assert additive.max() > 49
    assert factors.min() >= 1 / 50
    assert factors.max() <= 50
    assert np.median(factors) == pytest.approx(1, abs=0.3)
    assert 0.4 < (signed < 0).mean() < 0.6


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (lambda: unary("log", "dose", np.array([0.0, 0, 1])), "log of dose: 2 records have 0, which has no logarithm"),
        (lambda: unary("zscore", "dose", np.ones(3)), "zscore of dose: the column does not vary"),
        (lambda: unary("normalisation", "dose", np.ones(3)), "the column does not vary"),
        (lambda: unary("isotonic", "dose", X), "isotonic of dose needs labels"),
        (lambda: unary("sum", "dose", X), "sum: no transformation of one column"),
        (lambda: binary("log", ("a", "b"), X, X), "log: no transformation of two columns"),
        (lambda: binary("quotient", ("a", "b"), X, np.array([1.0, 0, 1, 1])), "1 record has 0 in b, which divides"),
        (lambda: binary("sum", ("a", "b"), X, X[:2]), "sum of a and b: 4 and 2 records; align them"),
        (lambda: binary("product", ("a", "b"), X * 1e300, X * 1e300), "too large for a number"),
    ],
)
def test_what_is_not_defined_is_refused(made, problem):
    with pytest.raises(ValueError, match=problem):
        made()
