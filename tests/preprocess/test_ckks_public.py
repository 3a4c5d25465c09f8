"""Sums and products under a public key: right within the stated error, fresh, and refusal of what is none."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.refusal import MessageError
from leakledger.preprocess.secret import KeyStream, pinned

sealapi = pytest.importorskip("tenseal.sealapi")
from leakledger.preprocess.crypto import ckks_public as ckks  # noqa: E402  # needs what the line above looks for

DEVIATION = 2e-8  # of an encrypted number


def source(seed=0):
    return Randomness(KeyStream(pinned("ckks public", seed)))


@pytest.fixture(scope="module")
def keys():
    return ckks.key_pair(bytes(32))


def test_the_parameters_are_within_seals_table_for_128_bits():
    assert ckks.context().parameters_set()
    assert sealapi.CoeffModulus.MaxBitCount(ckks.DEGREE, sealapi.SEC_LEVEL_TYPE.TC128) >= sum(ckks.PRIME_BITS)


@given(st.integers(1, 5000), st.sampled_from([1e-3, 1.0, 1e4]), st.integers(0, 2**32))
@settings(max_examples=10, deadline=None)
def test_results_are_right_within_the_stated_error(count, size, seed):
    keys, coins = ckks.key_pair(bytes(32)), np.random.default_rng(seed)
    x, y = size * coins.uniform(-1, 1, (2, count))
    one, other = (ckks.encrypt(keys.public, v, source(k)) for k, v in enumerate((x, y)))
    product = 8 * DEVIATION * (np.abs(x).max() + np.abs(y).max()) + 1e-12 * size**2 + 1e-14
    for made, expected, most in (
        (ckks.add(one, other), x + y, 12 * DEVIATION),
        (ckks.add(one, other, -1), x - y, 12 * DEVIATION),
        (ckks.multiply(one, other), x * y, product),
        (ckks.multiply_plain(keys.public, one, y, source(2)), x * y, product),
    ):
        assert np.abs(ckks.decrypt(keys, made, count) - expected).max() < most


def test_the_stated_error_is_that_of_the_noise(keys):
    zeros = np.zeros(4 * ckks.SLOTS)
    error = ckks.decrypt(keys, ckks.encrypt(keys.public, zeros, source()), len(zeros))
    assert 0.8 * DEVIATION < error.std() < 1.2 * DEVIATION


def test_the_largest_factors_do_not_wrap_around(keys):
    for x, y in ((ckks.LARGEST, ckks.LARGEST), (-ckks.LARGEST, ckks.LARGEST)):
        numbers = np.full(50, x)
        one = ckks.encrypt(keys.public, numbers, source())
        for made in (
            ckks.multiply(one, ckks.encrypt(keys.public, np.full(50, y), source(1))),
            ckks.multiply_plain(keys.public, one, np.full(50, y), source(1)),
        ):
            np.testing.assert_allclose(ckks.decrypt(keys, made, 50), numbers * y, rtol=1e-6)


def test_a_factor_that_is_zero_everywhere_gives_zeros(keys):
    numbers = np.arange(ckks.SLOTS + 5.0)
    factors = np.where(numbers < ckks.SLOTS, 0.0, 2.0)  # of the first ciphertext
    made = ckks.multiply_plain(keys.public, ckks.encrypt(keys.public, numbers, source()), factors, source(1))
    np.testing.assert_allclose(ckks.decrypt(keys, made, len(numbers)), numbers * factors, atol=1e-3)


def test_bytes_follow_from_the_source_and_differ_from_one_ciphertext_to_the_next(keys):
    numbers, one = np.zeros(2 * ckks.SLOTS), source(1)
    first = ckks.encrypt(keys.public, numbers, one)
    assert first == ckks.encrypt(keys.public, numbers, source(1))
    assert len({*first, *ckks.encrypt(keys.public, numbers, one)}) == 4
    factors = np.ones_like(numbers)
    assert ckks.multiply_plain(keys.public, first, factors, one) != ckks.multiply_plain(
        keys.public, first, factors, one
    )


def test_another_key_opens_nothing(keys):
    numbers = np.full(100, 7.0)
    other = ckks.key_pair(bytes([1] * 32))
    assert other.public != keys.public
    assert np.abs(ckks.decrypt(other, ckks.encrypt(keys.public, numbers, source()), 100)).min() > 1e3


@pytest.mark.parametrize("number", [np.nan, np.inf, 2 * ckks.LARGEST])
def test_a_number_without_room_is_refused_and_not_shown(keys, number):
    with pytest.raises(ValueError, match="a number is beyond 4194304, for which encrypted products have no room"):
        ckks.encrypt(keys.public, np.array([1.0, number]), source())
    with pytest.raises(ValueError, match="beyond 4194304"):
        ckks.multiply_plain(
            keys.public, ckks.encrypt(keys.public, np.ones(2), source()), np.array([1, number]), source()
        )


def test_what_is_no_ciphertext_or_key_is_refused(keys):
    (one,) = ckks.encrypt(keys.public, np.ones(3), source())
    product = ckks.multiply([one], [one])
    for wrong, problem in (
        (lambda: ckks.decrypt(keys, [one, one], 3), "2 ciphertexts do not hold 3 numbers"),
        (lambda: ckks.decrypt(keys, [one[:-1]], 3), "a ciphertext was changed or cut short"),
        (lambda: ckks.decrypt(keys, ["text"], 3), "it is no ciphertext"),
        (lambda: ckks.decrypt(keys, ckks.encrypt(keys.public, np.ones(3), source(), 40), 3), "another scale or form"),
        (lambda: ckks.add([one], [one, one]), "the encrypted columns differ in length"),
        (lambda: ckks.add([one], product), "another scale or form"),
        (lambda: ckks.multiply(product, [one]), "another scale or form"),
        (lambda: ckks.encrypt(keys.public[:-1], np.ones(3), source()), "a public key was changed or cut short"),
        (lambda: ckks.encrypt(one, np.ones(3), source()), "SEAL finds a public key invalid"),
    ):
        with pytest.raises(MessageError, match=problem):
            wrong()
