"""Residues and transforms are exact, agree with Python's integers, and with SEAL's own."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("tenseal.sealapi")
from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.threshold_ckks import primes as mod
from leakledger.preprocess.crypto.threshold_ckks import sampling
from leakledger.preprocess.crypto.threshold_ckks.parameters import PARAMETERS, parameters
from leakledger.preprocess.crypto.threshold_ckks.ring import Ring
from leakledger.preprocess.secret import KeyStream, pinned

ALL_PRIMES = sorted({p for of in PARAMETERS.values() for p in of.key_ring.primes})
SMALL = Ring(4096, parameters(15).key_ring.primes[:3])  # primes that are one modulo 2^16 are one modulo 2^13, too


def source(seed=0):
    return Randomness(KeyStream(pinned("ring", seed)))


@given(st.sampled_from(ALL_PRIMES), st.data())
@settings(max_examples=60)
def test_residues_are_those_of_integers(p, data):
    a, b = (data.draw(st.lists(st.integers(0, p - 1), min_size=4, max_size=4)) for _ in range(2))
    a, b = [*a, 0, p - 1, p - 1], [*b, p - 1, p - 1, 1]
    x, y = np.array(a, np.uint64), np.array(b, np.uint64)
    assert mod.add(x, y, p).tolist() == [(i + j) % p for i, j in zip(a, b, strict=True)]
    assert mod.subtract(x, y, p).tolist() == [(i - j) % p for i, j in zip(a, b, strict=True)]
    assert mod.multiply(x, y, p).tolist() == [i * j % p for i, j in zip(a, b, strict=True)]


@given(st.sampled_from(ALL_PRIMES), st.sampled_from([1, 2]), st.data())
@settings(max_examples=60)
def test_products_that_are_added_up_before_they_are_reduced_are_those_of_integers(p, products, data):
    drawn = data.draw(st.lists(st.tuples(*[st.integers(0, p - 1)] * 5), min_size=3, max_size=3))
    rows = [*drawn, (0,) * 5, (p - 1,) * 5, (p - 1, 1, p - 1, 1, p - 1)]
    *factors, plus = np.array(rows, np.uint64).T.copy()
    pairs = [(factors[0], factors[1]), (factors[2], factors[3])][:products]
    expected = [r[4] + sum(r[2 * k] * r[2 * k + 1] for k in range(products)) for r in rows]
    assert mod.multiply_add(pairs, plus, p).tolist() == [e % p for e in expected]


@given(st.sampled_from(ALL_PRIMES), st.integers(1, 6), st.data())
@settings(max_examples=60)
def test_digits_are_joined_to_the_integers_that_they_make(p, count, data):
    bits = p.bit_length() - 1
    rows = [[data.draw(st.integers(0, 2**bits - 1)) for _ in range(count)], [2**bits - 1] * count, [0] * count]
    found = mod.joined(np.array(rows, np.uint64).T.copy(), bits, p)
    assert found.tolist() == [sum(d << bits * i for i, d in enumerate(row)) % p for row in rows]


@pytest.mark.parametrize("p", parameters(15).key_ring.primes[-2:])
def test_signed_coefficients_have_the_values_of_their_residues(p):
    """Up to twice the prime, where numbers grow most before the one reduction of a narrow prime."""
    a = np.random.default_rng(2).integers(-2 * p + 1, 2 * p, (2, 2**15))
    a[0, ::2], a[0, 1::2] = 2 * p - 1, 1 - 2 * p
    transform = mod.transform(p, 2**15)
    np.testing.assert_array_equal(transform.forward_signed(a), transform.forward(np.mod(a, p).astype(np.uint64)))


@given(st.sampled_from(ALL_PRIMES), st.lists(st.floats(-1e60, 1e60), min_size=1, max_size=8))
def test_whole_floats_of_any_size_are_reduced_exactly(p, numbers):
    whole = np.rint(np.array(numbers))
    assert mod.from_floats(whole, p).tolist() == [int(x) % p for x in whole]


@pytest.mark.parametrize("p", [ALL_PRIMES[0], *parameters(15).key_ring.primes[-2:]])
@pytest.mark.parametrize("largest", [False, True])
def test_a_product_of_values_is_the_negacyclic_product_of_polynomials(p, largest):
    n = 256
    drawn = np.random.default_rng(p % 2**32).integers(0, p, (2, n), dtype=np.uint64)
    a, b = np.full_like(drawn, p - 1) if largest else drawn
    transform = mod.transform(p, n)
    product = transform.backward(mod.multiply(transform.forward(a), transform.forward(b), p))
    expected = [0] * n
    for i, x in enumerate(a.tolist()):
        for j, y in enumerate(b.tolist()):
            expected[(i + j) % n] += x * y if i + j < n else -x * y
    assert product.tolist() == [e % p for e in expected]


@pytest.mark.parametrize("p", parameters(15).key_ring.primes[-2:])
def test_the_largest_degree_transforms_there_and_back(p):
    a = np.random.default_rng(0).integers(0, p, 2**15, dtype=np.uint64)
    a[:9] = p - 1
    transform = mod.transform(p, 2**15)
    assert (transform.forward(a) < p).all()
    np.testing.assert_array_equal(transform.backward(transform.forward(a)), a)


def test_no_transform_for_a_prime_that_has_none():
    with pytest.raises(ValueError, match="no transform of degree 4096 modulo 97"):
        mod.transform(97, 4096)


def test_a_lift_keeps_the_integers_and_floats_are_them_rounded():
    numbers = [int(x) for x in np.random.default_rng(1).integers(-(2**62), 2**62, SMALL.degree)]
    numbers = [x * 3**41 for x in numbers]
    numbers[:3] = [0, SMALL.modulus // 2, -(SMALL.modulus // 2)]
    residues = np.array([[x % p for x in numbers] for p in SMALL.primes], np.uint64)
    target = Ring(SMALL.degree, parameters(15).key_ring.primes[:6])
    expected = np.array([[x % p for x in numbers] for p in target.primes], np.uint64)
    np.testing.assert_array_equal(SMALL.lift(residues, target), expected)
    np.testing.assert_allclose(SMALL.to_floats(residues), [float(x) for x in numbers], rtol=1e-14)


def test_polynomials_of_other_primes_are_refused():
    with pytest.raises(ValueError, match="over 2 primes is none over 3"):
        SMALL.add(SMALL.zeros()[:2], SMALL.zeros()[:2])


def coefficients(values):
    return SMALL.to_floats(SMALL.coefficients(values))


def test_errors_and_secrets_are_of_the_stated_distributions():
    errors = np.concatenate([coefficients(e) for e in sampling.errors(SMALL, source(), 4)])
    assert abs(errors.std() - sampling.ERROR) < 0.15
    assert abs(errors).max() <= sampling.COINS
    secret = coefficients(sampling.ternary(SMALL, source()))
    counts = np.unique_counts(secret)
    assert counts.values.tolist() == [-1, 0, 1]
    assert abs(counts.counts / SMALL.degree - 1 / 3).max() < 0.06


@pytest.mark.parametrize("bits", [0, 20, 62])
def test_smudging_is_uniform_and_of_the_stated_size(bits):
    noise = coefficients(sampling.smudging(SMALL, bits, source()))
    assert noise.min() >= -(2.0**bits)
    assert noise.max() <= 2.0**bits
    assert abs(noise.std() / 2**bits * np.sqrt(3) - 1) < (0.8 if bits == 0 else 0.06)


@pytest.mark.parametrize("bits", [40, 63, 64, 120])
def test_a_mask_is_the_same_modulo_each_prime_and_of_the_stated_size(bits):
    ring = Ring(4096, parameters(15).key_ring.primes[:5])
    wide = sampling.mask_coefficients(ring, bits, source())
    numbers = ring.to_floats(wide)
    np.testing.assert_array_equal(numbers, SMALL.first(3).to_floats(wide[:3]))
    assert 0.95 * 2.0**bits < abs(numbers).max() <= 2.0**bits
    assert abs(numbers.std() / 2.0**bits * np.sqrt(3) - 1) < 0.06


def test_a_reference_follows_from_its_seed_and_label():
    a, b = (sampling.common(SMALL, bytes(32), label) for label in "ab")
    np.testing.assert_array_equal(a, sampling.common(SMALL, bytes(32), "a"))
    assert (a != b).mean() > 0.99
    assert (a != sampling.common(SMALL, bytes(31) + b"1", "a")).mean() > 0.99
