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

DEVIATION = 2e-8  # of an encrypted number that is to meet another
DOUBLE = 2.0**-49  # of a product of two numbers, as doubles have them


def source(seed=0):
    return Randomness(KeyStream(pinned("ckks public", seed)))


@pytest.fixture(scope="module")
def keys():
    return ckks.key_pair(bytes(32))


def test_the_parameters_are_within_seals_table_for_128_bits():
    assert ckks.context().parameters_set()
    assert sealapi.CoeffModulus.MaxBitCount(ckks.DEGREE, sealapi.SEC_LEVEL_TYPE.TC128) >= sum(ckks.PRIME_BITS)


def numbers(size, count, seed, least=0.0):
    """Of either sign, up to `size`, which one of them has."""
    coins = np.random.default_rng(seed)
    made = coins.uniform(least, size, count) * coins.choice([-1, 1], count)
    made[coins.integers(count)] = size
    return made


SIZES = st.sampled_from([0.1, 1.0, 1e4, 4e6])


@given(st.integers(1, 5000), SIZES, SIZES, st.integers(0, 2**32))
@settings(max_examples=10, deadline=None)
def test_results_with_numbers_in_the_clear_are_right_within_the_stated_noise(count, first, second, seed):
    keys = ckks.key_pair(bytes(32))
    x, y = numbers(first, count, seed), numbers(second, count, seed + 1, ckks.SMALLEST)
    one, other = (ckks.encrypt(keys.public, v, source(k)) for k, v in enumerate((x, y)))
    for made, expected, noise in (
        (ckks.add(one, other), x + y, 0.0),
        (ckks.add(one, other, -1), x - y, 0.0),
        (ckks.add_plain(keys.public, one, y, source(2)), x + y, ckks.FLOOD),
        (ckks.add_plain(keys.public, one, y, source(2), -1), x - y, ckks.FLOOD),
        (ckks.multiply_plain(keys.public, one, y, source(2)), x * y, ckks.FLOOD),
        (ckks.divide_plain(keys.public, one, y, source(2)), x / y, ckks.DIVISION_FLOOD),
    ):
        rounding = DOUBLE * max(np.abs(expected).max(), first, first * second if noise == ckks.FLOOD else 0.0)
        assert np.abs(ckks.decrypt(keys, made, count) - expected).max() < 7 * noise + rounding


@given(st.integers(1, 5000), SIZES, SIZES, st.integers(0, 2**32))
@settings(max_examples=5, deadline=None)
def test_products_of_two_encrypted_columns_are_right_within_the_stated_error(count, first, second, seed):
    keys = ckks.key_pair(bytes(32))
    x, y = numbers(first, count, seed), numbers(second, count, seed + 1)
    one, other = (ckks.encrypt(keys.public, v, source(k), ckks.TOGETHER) for k, v in enumerate((x, y)))
    off = np.abs(ckks.decrypt(keys, ckks.multiply(one, other), count) - x * y)
    assert (off < 7 * DEVIATION * (np.abs(x) + np.abs(y)) + DOUBLE * first * second + 1e-13).all()


def test_the_stated_error_is_that_of_the_noise(keys):
    zeros = np.zeros(4 * ckks.SLOTS)
    together = ckks.encrypt(keys.public, zeros, source(), ckks.TOGETHER)
    assert 0.8 * DEVIATION < ckks.decrypt(keys, together, len(zeros)).std() < 1.2 * DEVIATION
    ones = np.ones_like(zeros)
    for by, flood in (
        (ckks.add_plain, ckks.FLOOD),
        (ckks.multiply_plain, ckks.FLOOD),
        (ckks.divide_plain, ckks.DIVISION_FLOOD),
    ):
        made = by(keys.public, ckks.encrypt(keys.public, zeros, source()), ones, source(1))
        assert 0.95 * flood < ckks.decrypt(keys, made, len(zeros)).std() < 1.05 * flood


def test_a_sum_does_not_have_the_last_digits_of_what_was_added(keys):
    """Of two addends, one far smaller, the other's last digits are those of the sum: unless they drown."""
    coins = np.random.default_rng(0)
    x = coins.integers(0, 1000, ckks.SLOTS).astype(np.float64)
    y = coins.integers(0, 2, len(x)) * 2.0**-22 + 1  # whole, or not
    encrypted = ckks.encrypt(keys.public, x, source())
    for made, told in (
        (ckks.add(encrypted, ckks.encrypt(keys.public, y, source(1))), True),
        (ckks.add_plain(keys.public, encrypted, y, source(1)), False),
    ):
        found = ckks.decrypt(keys, made, len(x)) % 1
        found = np.where(found > 0.5, found - 1, found)
        correlation = abs(np.corrcoef(found, y)[0, 1])
        assert (correlation > 0.99) if told else (correlation < 4 / np.sqrt(len(x)))


@pytest.mark.parametrize("by", ["multiply_plain", "divide_plain"])
def test_what_a_product_is_off_by_does_not_tell_how_large_its_factors_are(keys, by):
    coins = np.random.default_rng(0)
    x, y = coins.integers(0, 1000, (2, ckks.SLOTS)).astype(np.float64)
    y = np.where(y < 300, 1.0, 4096.0)  # quotients are exact in doubles, too
    made = getattr(ckks, by)(keys.public, ckks.encrypt(keys.public, x, source()), y, source(1))
    off = np.abs(ckks.decrypt(keys, made, len(x)) - (x * y if by == "multiply_plain" else x / y))
    ratio = off[y > 1].mean() / off[y == 1].mean()
    assert 0.9 < ratio < 1.1  # four deviations of both means
    assert abs(np.corrcoef(off, x)[0, 1]) < 4 / np.sqrt(len(x))


def test_the_public_key_has_coins_of_its_own(keys):
    shared = sealapi.KeyGenerator(ckks._context(ckks._words(bytes(32), b"ckks public: secret key")))
    public = sealapi.PublicKey()
    shared.create_public_key(public)  # draws its noise from where the secret key came from
    assert ckks.dump(public) != keys.public


def test_the_largest_factors_do_not_wrap_around(keys):
    for x, y in ((ckks.LARGEST, ckks.LARGEST), (-ckks.LARGEST, ckks.LARGEST)):
        numbers = np.full(50, x)
        one, other = (
            ckks.encrypt(keys.public, v, source(k), ckks.TOGETHER) for k, v in enumerate((numbers, np.full(50, y)))
        )
        alone = ckks.encrypt(keys.public, numbers, source())
        for made in (ckks.multiply(one, other), ckks.multiply_plain(keys.public, alone, np.full(50, y), source(1))):
            np.testing.assert_allclose(ckks.decrypt(keys, made, 50), numbers * y, rtol=1e-6)
        widest = ckks.divide_plain(keys.public, alone, np.full(50, ckks.SMALLEST), source(1))
        np.testing.assert_allclose(ckks.decrypt(keys, widest, 50), numbers / ckks.SMALLEST, rtol=1e-6)


def test_a_factor_that_is_zero_everywhere_gives_zeros(keys):
    numbers = np.arange(ckks.SLOTS + 5.0)
    for least in (0.0, 1e-30):  # of the first ciphertext: none, and what no ciphertext has room for
        factors = np.where(numbers < ckks.SLOTS, least, 2.0)
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


def test_numbers_that_noise_would_hide_are_refused_and_not_shown(keys):
    for small in (1e-9, 0.06):
        with pytest.raises(ValueError, match="all numbers are below 1/16, which the noise of encrypted products hides"):
            ckks.encrypt(keys.public, np.array([0.0, small]), source())
    one = ckks.encrypt(keys.public, np.ones(2), source())
    for divisor in (0.0, -0.06):
        with pytest.raises(ValueError, match="a divisor is below 1/16, for which encrypted quotients have no room"):
            ckks.divide_plain(keys.public, one, np.array([1.0, divisor]), source())
    assert ckks.encrypt(keys.public, np.zeros(2), source())


def test_what_is_no_ciphertext_or_key_is_refused(keys):
    (one,) = ckks.encrypt(keys.public, np.ones(3), source())
    (other,) = ckks.encrypt(keys.public, np.ones(3), source(), ckks.TOGETHER)
    product = ckks.multiply([other], [other])
    for wrong, problem in (
        (lambda: ckks.decrypt(keys, [one, one], 3), "2 ciphertexts do not hold 3 numbers"),
        (lambda: ckks.decrypt(keys, [one[:-1]], 3), "a ciphertext was changed or cut short"),
        (lambda: ckks.decrypt(keys, ["text"], 3), "it is no ciphertext"),
        (lambda: ckks.decrypt(keys, ckks.encrypt(keys.public, np.ones(3), source(), 40), 3), "another scale or form"),
        (lambda: ckks.add([one], [one, one]), "the encrypted columns differ in length"),
        (lambda: ckks.add([one], product), "another scale or form"),
        (lambda: ckks.multiply(product, [other]), "another scale or form"),
        (lambda: ckks.multiply([one], [other]), "another scale or form"),
        (lambda: ckks.add([one], [other]), "the encrypted columns differ in scale"),
        (lambda: ckks.add([one], [one], -1), "ciphertexts cancel each other out"),
        (lambda: ckks.encrypt(keys.public[:-1], np.ones(3), source()), "a public key was changed or cut short"),
        (lambda: ckks.encrypt(one, np.ones(3), source()), "SEAL finds a public key invalid"),
    ):
        with pytest.raises(MessageError, match=problem):
            wrong()
