"""Sets of parameters: ring, primes, security level and depth, in one table.

A ciphertext at level l is modulo the first l + 1 data primes; a product takes one level. `depth` counts the products
after which a number of a few bits can still be decrypted under smudging: it leaves the two primes that this takes. The
last prime is SEAL's special one, for keys only. Security is that of ternary secrets in the Homomorphic Encryption
Standard (Albrecht et al. 2018, table 1: 109, 218, 438 and 881 bits for 2^12 to 2^15), which SEAL enforces. The largest
ring has room for 16 primes and takes 11: key shares and products grow with the square of their number, and a refresh
with the number, while the levels that more would add save few refreshes.

Numbers at level l have the scale `scale(l)`: 2^prime_bits at the top, and the square of the one above over the dropped
prime below it, so that products come out at the scale that their level has (Kim, Papadimitriou and Polyakov,
"Approximate homomorphic encryption with reduced approximation error", CT-RSA 2022, section 4).
"""

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final

from leakledger.preprocess.crypto.seal import sealapi
from leakledger.preprocess.crypto.threshold_ckks.ring import Ring

SECURITY_BITS: Final = 128
FOR_DECRYPTION: Final = 2  # primes


@dataclass(frozen=True)
class Parameters:
    """One set. `prime_bits` each have `data_primes` primes; `special_bits` the prime of keys."""

    log_degree: int
    prime_bits: int
    data_primes: int
    special_bits: int

    @property
    def name(self) -> str:
        return f"ckks-2^{self.log_degree}-{self.data_primes}x{self.prime_bits}+{self.special_bits}"

    @property
    def degree(self) -> int:
        return 1 << self.log_degree

    @property
    def slots(self) -> int:
        """How many numbers a ciphertext holds."""
        return self.degree // 2

    @property
    def modulus_bits(self) -> int:
        return self.data_primes * self.prime_bits + self.special_bits

    @property
    def top(self) -> int:
        """The level of fresh ciphertexts."""
        return self.data_primes - 1

    @property
    def depth(self) -> int:
        """Products that a fresh ciphertext can take before its decryption."""
        return self.data_primes - FOR_DECRYPTION

    @cached_property
    def key_ring(self) -> Ring:
        """The ring of keys: all primes."""
        return Ring(self.degree, _primes(self))

    def ring(self, level: int) -> Ring:
        """The ring of ciphertexts at a level. Raises ValueError for a level that there is none of."""
        if not 0 <= level <= self.top:
            raise ValueError(f"level {level} is none of {self.name}, which has 0 to {self.top}")
        return self.key_ring.first(level + 1)

    def scale(self, level: int) -> float:
        """What numbers at a level are multiplied by."""
        scale = 2.0**self.prime_bits
        for prime in self.key_ring.primes[self.top : level : -1]:
            scale = scale * scale / prime
        return scale


PARAMETERS: Final = {
    p.log_degree: p
    for p in (
        Parameters(12, 36, 2, 37),  # sums only
        Parameters(13, 40, 4, 58),
        Parameters(14, 42, 9, 60),
        Parameters(15, 50, 11, 60),  # as many as pay
    )
}
"""By the binary logarithm of the ring's degree."""


def parameters(log_degree: int) -> Parameters:
    """Raises ValueError for a degree without a set."""
    if log_degree not in PARAMETERS:
        raise ValueError(f"no parameters for a ring of 2^{log_degree}; choose one of {', '.join(map(str, PARAMETERS))}")
    return PARAMETERS[log_degree]


@cache  # exempt: primes that everyone finds alike
def _primes(of: Parameters) -> tuple[int, ...]:
    bits = [of.prime_bits] * of.data_primes + [of.special_bits]
    return tuple(m.value() for m in sealapi("threshold CKKS", "he").CoeffModulus.Create(of.degree, bits))
