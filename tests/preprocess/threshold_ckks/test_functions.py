"""Inverse, minimum and maximum of encrypted numbers are right within the stated error over the whole range."""

import numpy as np
import pytest

pytest.importorskip("tenseal.sealapi")
from leakledger.preprocess.crypto.threshold_ckks.ciphertexts import LevelError
from leakledger.preprocess.crypto.threshold_ckks.comparison import (
    DEGREES,
    FINEST,
    WORST,
    maximum,
    minimum,
    plain_sign,
    polynomials,
)
from leakledger.preprocess.crypto.threshold_ckks.inverse import (
    CONTRACTION,
    CUBIC,
    GOLDSCHMIDT_STEPS,
    RELATIVE_ERROR,
    invert,
    radii,
)
from leakledger.preprocess.crypto.threshold_ckks.machine import Alone
from tests.preprocess.threshold_ckks.execution import execution

STATISTICAL = 20  # bits that masks hide by here: fewer leave more levels at 2^14
NOISE = 2.0**-14  # of 2^14 in products that come out near 1


def machine():
    run = execution(14, 2)
    return run, Alone(run.evaluator, 2, lambda c: run.refresh(c, STATISTICAL), STATISTICAL)


@pytest.mark.parametrize("high_bits", [20, 30])
def test_normalisation_leaves_numbers_that_goldschmidt_inverts(high_bits):
    """The same arithmetic on plain numbers, on a fine grid of the whole range."""
    x = 2.0 ** np.linspace(0, high_bits, 200_001)
    normal, factor = x, np.ones_like(x)
    for radius in radii(2.0**high_bits):
        assert normal.max() <= radius * CONTRACTION * (1 + 1e-12)
        kept = 1 - (CUBIC * normal / radius) ** 2
        normal, factor = normal * kept, factor * kept
    assert normal.min() > 0.26
    assert normal.max() <= 1
    np.testing.assert_allclose(normal, x * factor, rtol=1e-12)
    assert (1 - normal.min()) ** (2 ** (GOLDSCHMIDT_STEPS + 1)) < 2.0**-50


@pytest.mark.slow
def test_the_inverse_is_right_relative_to_itself_over_the_whole_range():
    run, alone = machine()
    x = 2.0 ** np.random.default_rng(0).uniform(0, 20, run.parameters.slots)
    x[:4] = 1.0, 2.0**20, 3.0, 0.0
    y = run.decrypt(invert(alone, run.encrypt(x, 2.0**20), 20))
    np.testing.assert_allclose(np.delete(y * x, 3), 1, atol=RELATIVE_ERROR)
    assert abs(y[3]) <= 129
    assert alone.refreshes > 0


@pytest.mark.slow
def test_the_inverse_up_to_2_30_is_as_right_in_the_ring_that_is_published_for_it():
    run = execution(15, 2)
    alone = Alone(run.evaluator, 2, lambda c: run.refresh(c, STATISTICAL), STATISTICAL)
    x = 2.0 ** np.random.default_rng(0).uniform(0, 30, run.parameters.slots)
    x[:3] = 1.0, 2.0**30, 3.0
    y = run.decrypt(invert(alone, run.encrypt(x, 2.0**30), 30))
    np.testing.assert_allclose(y * x, 1, atol=RELATIVE_ERROR)
    assert alone.refreshes > 0


def test_an_inverse_of_another_range_is_an_error_and_so_are_too_few_levels():
    run, alone = machine()
    with pytest.raises(ValueError, match=r"an inverse up to 2\^25: choose one of 2\^20 and 2\^30"):
        invert(alone, run.encrypt([1.0]), 25)
    small = execution()
    alone = Alone(small.evaluator, 3, small.refresh)
    with pytest.raises(LevelError, match=r"no level at which|no 3 products between refreshes"):
        invert(alone, small.encrypt([1.0], 2.0**20), 20)


def test_the_composition_is_a_sign_within_the_stated_error():
    x = np.concatenate([np.linspace(0, 1, 100_001), np.geomspace(1e-9, 1, 100_001)])
    sign = plain_sign(x)
    assert (x * abs(1 - sign)).max() < WORST
    assert abs(sign[x >= FINEST] - 1).max() < 2e-4
    np.testing.assert_allclose(plain_sign(-x), -sign, atol=1e-12)
    assert [2 * len(p) - 1 for p in polynomials()] == list(DEGREES)


@pytest.mark.slow
def test_minimum_and_maximum_are_those_of_the_numbers_within_the_stated_error():
    run, alone = machine()
    a, b = np.random.default_rng(1).uniform(-1, 1, (2, run.parameters.slots))
    a[:6], b[:6] = [1, -1, 1, 0.5, 0.5, 0], [-1, 1, 1, 0.5, 0.5 + FINEST, 0]
    near = slice(6, 600)
    b[near] = np.clip(a[near] + np.geomspace(1e-6, 1e-1, 594), -1, 1)
    x, y = run.encrypt(a), run.encrypt(b)
    np.testing.assert_allclose(run.decrypt(maximum(alone, x, y)), np.maximum(a, b), atol=WORST + NOISE)
    np.testing.assert_allclose(run.decrypt(minimum(alone, x, y)), np.minimum(a, b), atol=WORST + NOISE)
