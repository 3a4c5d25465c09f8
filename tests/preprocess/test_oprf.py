import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.preprocess.crypto.oprf import blind, evaluate, finish, values
from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.refusal import MessageError
from leakledger.preprocess.crypto.ristretto import element, hash_to_group, inverse, multiply, new_scalar, unpack
from leakledger.preprocess.secret import KeyStream, pinned


def source(seed=0):
    return Randomness(KeyStream(pinned(seed)))


@given(st.lists(st.binary(max_size=40), max_size=5, unique=True), st.integers(0, 99))
def test_the_client_gets_what_the_key_holder_computes_itself(elements, seed):
    key, blinded = new_scalar(source(seed)), blind(elements, source(seed + 1))
    assert finish(blinded, evaluate(key, blinded.request)) == values(key, elements)


def test_requests_for_the_same_elements_under_other_coins_have_nothing_in_common():
    one, other = (set(unpack(blind([b"a", b"b"], source(s)).request)) for s in (1, 2))
    assert len(one) == len(other) == 2
    assert not one & other
    assert not one & {hash_to_group(x, b"leakledger oprf ristretto255") for x in (b"a", b"b")}


def test_other_keys_give_other_values():
    assert values(new_scalar(source(1)), [b"a"]) != values(new_scalar(source(2)), [b"a"])


@given(st.text(max_size=5), st.text(max_size=5), st.text(max_size=5), st.text(max_size=5))
def test_no_two_features_and_values_are_the_same_element(f, v, g, w):
    assert (element(f, v) == element(g, w)) == ((f, v) == (g, w))
    assert (element(f, v + w) == element(f + v, w)) == (v == "")


@pytest.mark.parametrize("bad", [None, b"x" * 31, b"\xff" * 32, bytes(32), "text", [b"x"]])
def test_what_is_no_list_of_group_elements_is_refused(bad):
    with pytest.raises(MessageError):
        evaluate(new_scalar(source()), bad)
    with pytest.raises(MessageError):
        finish(blind([b"a"], source()), bad)


def test_secrets_are_not_shown():
    blinded = blind([b"secret"], source())
    assert "secret" not in repr(blinded)
    assert repr(blinded) == "Blinded()"


def test_multiples_of_the_generator_are_those_of_rfc_9496():
    generator = bytes.fromhex("e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76")
    double = bytes.fromhex("6a493210f7499cd17fecb510ae0cea23a110e8d5b901f8acadd3095c73a3b919")
    two = bytes([2, *bytes(31)])
    assert multiply(two, [generator]) == [double]
    assert multiply(inverse(two), [double]) == [generator]


def test_drawn_numbers_are_below_the_bound_and_orders_are_permutations():
    drawn = source().below(2**61 - 1, 1000)
    assert drawn.dtype == np.uint64
    assert int(drawn.max()) < 2**61 - 1
    assert sorted(source().order(50)) == list(range(50))
    assert set(source().below(3, 200)) == {0, 1, 2}
    assert set(source().below(1, 3)) == {0}
