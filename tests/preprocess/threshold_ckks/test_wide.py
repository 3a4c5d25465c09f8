"""Quotients at a wide scale are right, and their noise is below what their smudging is measured by."""

import numpy as np
import pytest

pytest.importorskip("tenseal.sealapi")
from leakledger.preprocess.crypto.threshold_ckks import wide
from leakledger.preprocess.crypto.threshold_ckks.ciphertexts import LevelError
from leakledger.preprocess.crypto.threshold_ckks.parameters import parameters
from leakledger.preprocess.crypto.threshold_ckks.protocol import set_up
from leakledger.preprocess.crypto.threshold_ckks.wide import Wide
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated

CLIENTS = ["a", "b"]
RANGE, HIDING = 20, 40


def federation(log_degree, **options):
    fed = Simulated(CLIENTS, secret=pinned("wide", log_degree))
    return fed, set_up(fed, log_degree, **options)


def encrypted(fed, run, numbers, bits):
    """The sum of both clients' numbers, each up to half of the range."""
    bound = 2.0 ** (RANGE - 1)
    parts = [
        run.encrypted(c, fed.at(c, np.asarray(x, float)), bound, 2.0**bits)
        for c, x in zip(CLIENTS, numbers, strict=True)
    ]
    return Wide(run.total(parts).at, run.parameters.top, bits, 2 * bound)


@pytest.fixture(scope="module")
def quotient():
    """-1 / 8 in every slot: a message of one coefficient, so that the others of its ciphertext hold noise alone."""
    fed, run = federation(14)
    of = run.parameters
    counts, sums = ([np.full(of.slots, x) for x in both] for both in ((3.0, 5.0), (1.5, -2.5)))
    divisor = encrypted(fed, run, counts, np.log2(wide.divisor_scale(of, RANGE)))
    dividend = encrypted(fed, run, sums, np.log2(wide.dividend_scale(of)))
    return fed, run, wide.product(run, dividend, wide.inverse(run, divisor, RANGE), 2.0)


def test_a_quotient_is_off_by_the_smudging_and_no_more(quotient):
    fed, run, quotient = quotient
    of = run.parameters
    bits = wide.quotient_smudging(of, len(CLIENTS), RANGE, quotient.bits, HIDING)
    told = fed.own(wide.decrypted(run, quotient, of.slots, bits))
    deviation = 2.0 ** (bits - quotient.bits) * np.sqrt(len(CLIENTS) * of.degree / 6)
    assert np.abs(told + 1 / 8).max() < 6 * deviation < 2.0**-24
    assert np.std(told + 1 / 8) == pytest.approx(deviation, rel=0.1)


def test_the_noise_of_a_quotient_is_below_what_smudging_is_measured_by(quotient):
    """Decrypted with all secrets and no smudging."""
    fed, run, quotient = quotient
    ciphertext = fed.own(quotient.at)
    ring, secrets = ciphertext.ring, [fed.own(run.secrets[c]) for c in CLIENTS]
    parts = [ciphertext.residues[0], *(ring.multiply(s.over(ring), ciphertext.residues[1]) for s in secrets)]
    noise = np.abs(ring.to_floats(ring.coefficients(ring.total(parts)))[1:])
    claimed = 2.0 ** (quotient.bits - wide.quotient_bits(run.parameters, len(CLIENTS), RANGE))
    assert noise.max() < claimed
    assert noise.max() > 2.0**-20 * claimed  # it is noise that is compared


def test_a_ring_without_room_is_an_error():
    fed, run = federation(13)
    a, b = (encrypted(fed, run, [[1.0], [1.0]], 120.0) for _ in range(2))
    with pytest.raises(
        LevelError, match=r"ckks-2\^13-4x40\+58 has no room for a product at 2\^240; choose a larger ring"
    ):
        wide.product(run, a, b, 2.0)
    with pytest.raises(LevelError, match=r"masks of 2\d\d bits do not fit level 3"):
        wide.refreshed(run, a)


def test_bits_of_a_quotient_fall_with_parties_and_range_and_rise_with_the_ring():
    of, larger = parameters(14), parameters(15)
    assert wide.quotient_bits(of, 4, 20) >= wide.quotient_bits(of, 100, 20)
    assert wide.quotient_bits(of, 4, 20) > wide.quotient_bits(of, 4, 30)
    assert wide.quotient_bits(larger, 4, 20) > wide.quotient_bits(of, 4, 20)


def test_a_refresh_can_rotate_without_a_key_for_it():
    fed, run = federation(13, products=False, statistical_bits=20)
    numbers = np.array([0.5, -0.25, 0.125, 1.0])
    value = run.encrypted("a", fed.at("a", numbers), 1.0)
    for steps in (1, 3, -1):
        turned = run.rotated(value, steps, 1.0)
        found = fed.own(run.decrypted_at_server(turned, run.parameters.slots, 8))
        np.testing.assert_allclose(np.roll(found, steps)[:4], numbers, atol=2.0**-13)
        np.testing.assert_allclose(np.delete(np.roll(found, steps), range(4)), 0, atol=2.0**-13)
