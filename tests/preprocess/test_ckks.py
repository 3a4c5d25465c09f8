"""Encrypted sums: right within the stated error, fresh randomness for each ciphertext, and refusal of what is none."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.refusal import MessageError
from leakledger.preprocess.crypto.seal import dump, load
from leakledger.preprocess.secret import KeyStream, pinned

sealapi = pytest.importorskip("tenseal.sealapi")
from leakledger.preprocess.crypto import ckks  # noqa: E402  # needs what the line above looks for

SCALE = 36
DEVIATION = 290 * 2.0**-SCALE


def source(seed=0):
    return Randomness(KeyStream(pinned("ckks", seed)))


@pytest.fixture(scope="module")
def key():
    return ckks.key_from(bytes(32), SCALE)


def test_the_parameters_are_within_seals_table_for_128_bits():
    assert ckks.context().parameters_set()
    assert sealapi.CoeffModulus.MaxBitCount(ckks.DEGREE, sealapi.SEC_LEVEL_TYPE.TC128) >= ckks.PRIME_BITS


@given(st.integers(1, 12), st.integers(1, 9000), st.sampled_from([1e-3, 1.0, 1e4]), st.integers(0, 2**32))
@settings(max_examples=12, deadline=None)
def test_a_sum_is_right_within_the_stated_error(n, count, size, seed):
    key, coins = ckks.key_from(bytes(32), SCALE), np.random.default_rng(seed)
    vectors = [size * coins.uniform(-1, 1, count) for _ in range(n)]
    total = ckks.add([ckks.encrypt(key, v, n, source(i)) for i, v in enumerate(vectors)])
    error = ckks.decrypt(key, total, count) - np.sum(vectors, axis=0)
    assert np.abs(error).max() < 8 * DEVIATION * np.sqrt(n) + 1e-14 * n * size


def test_the_stated_error_is_that_of_the_noise(key):
    zeros = np.zeros(4 * ckks.SLOTS)
    error = ckks.decrypt(key, ckks.encrypt(key, zeros, 1, source()), len(zeros))
    assert 0.5 * DEVIATION < error.std() < 1.1 * DEVIATION


def test_the_largest_numbers_that_fit_do_not_wrap_around(key):
    most = ckks.limit(SCALE, 10) * (1 - 1e-9)
    for numbers in (np.full(50, most), np.full(50, -most)):
        total = ckks.decrypt(key, ckks.add([ckks.encrypt(key, numbers, 10, source(i)) for i in range(10)]), 50)
        np.testing.assert_allclose(total, 10 * numbers, rtol=1e-9)
    with pytest.raises(ValueError, match=r"beyond the range at 36 scale bits, 4.194e.05 for each of 10 clients"):
        ckks.encrypt(key, np.array([ckks.limit(SCALE, 10)]), 10, source())


def test_bytes_follow_from_the_source_and_no_two_ciphertexts_share_their_randomness(key):
    one, again = source(1), source(1)
    zeros = np.zeros(2 * ckks.SLOTS)
    first, second = ckks.encrypt(key, zeros, 1, one)
    assert [first, second] == ckks.encrypt(key, zeros, 1, again)
    assert ckks.encrypt(key, zeros, 1, one)[0] not in (first, second)
    seeds = [data[-200:] for data in (first, second)]
    assert seeds[0] != seeds[1]
    evaluator, difference = sealapi.Evaluator(ckks.context()), sealapi.Ciphertext(ckks.context())
    evaluator.sub(*(ckks.load(ckks.context(), c) for c in (first, second)), difference)
    assert not difference.is_transparent()  # as it would be under one mask, with nothing left of it


def test_another_key_opens_nothing_and_has_another_name(key):
    other = ckks.key_from(b"\1" * 32, SCALE)
    data = ckks.encrypt(key, np.ones(100), 1, source())
    assert np.abs(ckks.decrypt(other, data, 100) - 1).min() > 1
    assert len({key.name, other.name, ckks.key_from(bytes(32), SCALE + 1).name}) == 3
    assert ckks.key_from(bytes(32), SCALE).name == key.name
    assert "name" in repr(key)
    assert "key=" not in repr(key)


@pytest.mark.parametrize(
    "change", [lambda b: b[:-1], lambda b: b + b"x", lambda b: b[:99] + bytes([b[99] ^ 1]) + b[100:]]
)
def test_a_ciphertext_that_was_changed_is_refused(key, change):
    (data,) = ckks.encrypt(key, np.ones(3), 1, source())
    with pytest.raises(MessageError, match="changed or cut short"):
        ckks.add([[change(data)], [data]])


def test_ciphertexts_of_another_scale_or_number_are_refused(key):
    (data,), (other,) = (ckks.encrypt(k, np.ones(3), 1, source()) for k in (key, ckks.key_from(bytes(32), 30)))
    with pytest.raises(MessageError, match="another scale or form"):
        ckks.add([[data], [other]])
    with pytest.raises(MessageError, match="differ in length"):
        ckks.add([[data], [data, data]])
    with pytest.raises(MessageError, match="another scale or form"):
        ckks.decrypt(key, [other], 3)


def test_ciphertexts_that_cancel_each_other_out_are_refused(key):
    (data,) = ckks.encrypt(key, np.ones(3), 2, source())
    negative = load(ckks.context(), data)
    sealapi.Evaluator(ckks.context()).negate_inplace(negative)
    with pytest.raises(MessageError, match="cancel each other out"):
        ckks.add([[data], [dump(negative)]])
