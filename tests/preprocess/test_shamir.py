from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.preprocess.crypto.field import P, add, elements, multiply, reduce
from leakledger.preprocess.crypto.shamir import reconstruct, share, weights_at_zero

numbers = st.integers(0, P - 1) | st.sampled_from([0, 1, P - 1, 2**31, 2**31 - 1, 2**60, 2**30])
lists = st.lists(numbers, min_size=1, max_size=4)


@given(lists, lists)
def test_products_and_sums_are_those_of_whole_numbers_modulo_p(a, b):
    left, right = elements(a)[:, None], elements(b)
    assert multiply(left, right).tolist() == [[x * y % P for y in b] for x in a]
    assert add(left, right).tolist() == [[(x + y) % P for y in b] for x in a]


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1))
def test_every_64_bit_number_is_reduced(words):
    assert reduce(np.array(words, np.uint64)).tolist() == [w % P for w in words]


@given(st.lists(numbers, min_size=3, max_size=3), st.lists(numbers, min_size=6, max_size=6), st.integers(2, 3))
def test_any_t_shares_give_the_secret(secrets, randoms, t):
    coefficients = [elements(randoms[3 * k : 3 * k + 3]) for k in range(t - 1)]
    points = (1, 2, 5, P - 1)
    shares = {x: share(elements(secrets), coefficients, x) for x in points}
    for chosen in combinations(points, t):
        assert reconstruct(chosen, [shares[x] for x in chosen]).tolist() == secrets


def test_one_share_of_two_fits_every_secret():
    x = 3
    held = share(elements([7]), [elements([11])], x)
    for secret in (0, 1, P - 1):
        slope = (int(held[0]) - secret) * pow(x, -1, P) % P
        assert share(elements([secret]), [elements([slope])], x).tolist() == held.tolist()


def test_a_share_at_zero_and_equal_points_are_refused():
    with pytest.raises(ValueError, match="a share at 0 is none"):
        share(elements([1]), [elements([1])], 0)
    with pytest.raises(ValueError, match=r"the points \[1, 1\] are not distinct"):
        weights_at_zero([1, 1])
