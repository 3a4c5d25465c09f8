"""Collective decryption: every party's share of it, under smudging noise, and what the shares give.

Source: Mouchet et al. 2021, protocol 3 (ColKeySwitch to the zero key), for ciphertexts of CKKS. A share is
s_i c_1 + e_i with e_i uniform in [-2^b, 2^b) for each coefficient. What the shares give is the message and all noise;
the part of it that depends on a party's secret is hidden by that party's e_i, up to a statistical distance of at most
N B / 2^b for noise below B (`noise_bits` is its binary logarithm, `statistical_bits` what b is above it).

In CKKS noise is part of the message (Li and Micciancio, "On the security of homomorphic encryption on approximate
numbers", EUROCRYPT 2021), so each bit of smudging is a bit of precision: numbers are off by 2^b sqrt(P N / 6) / scale,
one standard deviation, for P parties (`deviation`). Who needs both raises the scale before.
"""

from collections.abc import Sequence
from math import ceil, log2, sqrt

from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.crypto.threshold_ckks.ciphertexts import Encrypted, LevelError
from leakledger.preprocess.crypto.threshold_ckks.collective_keys import SecretShare
from leakledger.preprocess.crypto.threshold_ckks.encoding import decode
from leakledger.preprocess.crypto.threshold_ckks.parameters import Parameters
from leakledger.preprocess.crypto.threshold_ckks.primes import Floats, Residues
from leakledger.preprocess.crypto.threshold_ckks.sampling import ERROR, smudging

KIND = "decryption share"
TAIL_BITS = 3  # eight standard deviations


def share(secret: SecretShare, ciphertext: Encrypted, smudging_bits: int, source: Randomness) -> Residues:
    """(level + 1, N) a party's share."""
    ring = ciphertext.ring
    return ring.multiply_add([(secret.over(ring), ciphertext.residues[1])], smudging(ring, smudging_bits, source))


def combine(ciphertext: Encrypted, shares: Sequence[Residues], smudging_bits: int) -> Floats:
    """(N / 2,) the numbers, from the shares of all parties.

    Raises LevelError where numbers within the ciphertext's bound, with the smudging, could wrap around, and ValueError
    where what comes out is beyond the bound: then a share is missing, is of another ciphertext, or was made wrong.
    """
    check_smudging(ciphertext, len(shares), smudging_bits)
    ring = ciphertext.ring
    numbers = decode(ring.total([ciphertext.residues[0], *shares]), ciphertext.scale, ring)
    slack = 16 * deviation(ciphertext, len(shares), smudging_bits) + 2.0**-20 * ciphertext.bound
    if not (abs(numbers) <= ciphertext.bound + slack).all():
        raise ValueError(
            f"a decryption is beyond its bound of {ciphertext.bound:g}: a share is missing, of another ciphertext, or "
            "wrong, or the noise is as large as the numbers"
        )
    return numbers


def check_smudging(ciphertext: Encrypted, parties: int, smudging_bits: int) -> None:
    """Raises LevelError where the numbers and the smudging of all parties do not fit the modulus."""
    size = ciphertext.bound * ciphertext.scale + parties * 2.0**smudging_bits
    if not size < ciphertext.ring.modulus / 4:
        raise LevelError(
            f"numbers up to {ciphertext.bound:g} and {smudging_bits} bits of smudging of {parties} parties do not fit "
            f"level {ciphertext.level}; decrypt at a higher level"
        )


def deviation(ciphertext: Encrypted, parties: int, smudging_bits: int) -> float:
    """The standard deviation that smudging gives to each number."""
    return float(2.0**smudging_bits * sqrt(parties * ciphertext.ring.degree / 6) / ciphertext.scale)


def noise_bits(parameters: Parameters, parties: int) -> int:
    """The binary logarithm of what the noise of a ciphertext stays below, in each coefficient, after one operation.

    The largest of the noises of encryption, of rescaling, and of a key switch of a rescaled product, each eight times
    its standard deviation. Noise that operands bring with them is on top of it.
    """
    n, secret = parameters.degree, 2 / 3 * parties  # variance of a coefficient of the collective secret
    fresh = ERROR * sqrt(n * (2 / 3 * parties + secret) + 1)
    rounding = sqrt((1 + n * secret) / 12)
    key = ERROR * sqrt(parties * (2 * n * secret + n * (secret + 2 / 3 * parties)))
    ratio = 2.0 ** (parameters.prime_bits - parameters.special_bits)
    switching = key * ratio * sqrt(n * parameters.data_primes / 12) + rounding
    return ceil(log2(max(fresh, rounding, switching))) + TAIL_BITS


def smudging_bits(parameters: Parameters, parties: int, statistical_bits: int) -> int:
    """The size of smudging that hides noise of `noise_bits` up to 2^-statistical_bits, over all coefficients."""
    return noise_bits(parameters, parties) + parameters.log_degree + statistical_bits
