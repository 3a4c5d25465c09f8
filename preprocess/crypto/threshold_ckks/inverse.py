"""The inverse of encrypted numbers of a wide range: Goldschmidt's iteration after a normalisation to (0, 1].

Sources: Goldschmidt (1964) in the form of Cheon et al., "Numerical method for comparison on homomorphically encrypted
numbers" (ASIACRYPT 2019, algorithm 1); the normalisation is the domain extension of Cheon, Kim and Park, "Efficient
homomorphic evaluation on large intervals" (2022, algorithm 2). A step of that takes x to x m for the factor
m = 1 - (4 / 27) (x / R)^2, which brings [1, L R] into [0.26, R] for L = 2.45. The product c of all factors makes x c
the normalised number, which Goldschmidt inverts: 1 / x = c (1 / x c).

At a fixed scale, a number as small as the c of a large x has few digits. So `high` c is kept, which is as large as x
may be, and `high` is divided out at the end by raising the scale: the error is relative to 1 / x for every x.
"""

from math import ceil, log, sqrt
from typing import Final, TypeVar

from leakledger.preprocess.crypto.threshold_ckks.machine import Machine

V = TypeVar("V")

CONTRACTION: Final = 2.45  # L, below 3 sqrt(3) / 2, where a step would reach 0
CUBIC: Final = sqrt(4 / 27)
GOLDSCHMIDT_STEPS: Final = 6  # (1 - 0.26)^(2^7) = 2e-17
RANGE_BITS: Final = (20, 30)  # the ranges of the paper on normalisation
RELATIVE_ERROR: Final = 2.0**-18  # from 1 to 2^20 in a ring of 2^14, and to 2^30 in one of 2^15


def invert(machine: Machine[V], x: V, high_bits: int) -> V:
    """1 / x in slots where x is from 1 to 2^high_bits; 128 at most where it is less, down to 0.

    The scale of what comes out is 2^high_bits times that of its level. Raises ValueError for another range,
    and LevelError where the parameters have too few levels.
    """
    if high_bits not in RANGE_BITS:
        raise ValueError(f"an inverse up to 2^{high_bits}: choose one of 2^20 and 2^30")
    high = 2.0**high_bits
    normal, factor = normalise(machine, x, high)
    inverse = goldschmidt(machine, normal)
    factor, inverse = (machine.ready(v, 1, high) for v in (factor, inverse))
    product = machine.within(machine.multiply(factor, inverse), high * 2.0 ** (GOLDSCHMIDT_STEPS + 1))
    return machine.shift(product, high_bits)


def radii(high: float) -> list[float]:
    """The R of each step, largest first, down to 1: powers of the contraction, of which one more reaches `high`."""
    steps = ceil(log(high) / log(CONTRACTION))
    return [CONTRACTION**k for k in reversed(range(steps))]


def normalise(machine: Machine[V], x: V, high: float) -> tuple[V, V]:
    """x c in [0.26, 1] for x in [1, high], and high c: both in [0, high] whatever x in [0, high] is."""
    factor: V | None = None
    for radius in radii(high):
        x = machine.ready(x, 3, high)
        ratio = machine.within(machine.multiply_constant(x, CUBIC / radius), CUBIC * CONTRACTION)
        lost = machine.within(machine.multiply(ratio, ratio), (CUBIC * CONTRACTION) ** 2)
        kept = machine.within(machine.add_constant(machine.multiply_integer(lost, -1), 1.0), 1.0)
        x = machine.within(machine.multiply(x, kept), radius)
        if factor is None:
            factor = machine.multiply_integer(kept, int(high))
        else:
            factor = machine.multiply(machine.ready(factor, 1, high), kept)
        factor = machine.within(factor, high)
    assert factor is not None
    return x, factor


def goldschmidt(machine: Machine[V], x: V) -> V:
    """1 / x for x in [0.26, 1]: the product of 1 + (1 - x)^(2^k); 128 at most for x in [0, 1]."""
    rest = machine.within(machine.add_constant(machine.multiply_integer(x, -1), 1.0), 1.0)
    product = machine.add_constant(rest, 1.0)
    for step in range(GOLDSCHMIDT_STEPS):
        rest = machine.ready(rest, 2, 2.0**GOLDSCHMIDT_STEPS)
        product = machine.ready(product, 1, 2.0 ** (GOLDSCHMIDT_STEPS + 1))
        rest = machine.within(machine.multiply(rest, rest), 1.0)
        product = machine.multiply(product, machine.add_constant(rest, 1.0))
        product = machine.within(product, 2.0 ** (step + 2))
    return product
