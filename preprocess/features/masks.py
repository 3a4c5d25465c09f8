"""Masks of feature exchange: encrypt and decrypt of the four binary transformations.

Source: "FLFE: a communication-efficient and privacy-preserving federated feature engineering framework", equations 3
to 10. Encryption is the transformation itself (equation 6): f + m, f - m, f m or f / m, and decryption is its inverse.
A result T(T(f1, m), f2) is then T(f1, f2) under the same mask (equations 8 to 10).

The paper does not say how the vector m is drawn. Here an additive one is even on [-size, size] in the units of the
feature, and the logarithm of a multiplicative one is even on [-log size, log size], its sign that of a coin if asked.
No such mask hides a column: reals have no even distribution, and not every float64 number is a mask, so that the last
digits of what is sent exclude candidates. A zero stays a zero under every multiplicative one.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

import numpy as np

from leakledger.preprocess.features.sketch import Column
from leakledger.preprocess.features.transformations import binary

ADDITIVE = ("sum", "difference")

Operation = Callable[[Column, Column], Column]
_DECRYPT: Mapping[str, Operation] = MappingProxyType(
    {"sum": np.subtract, "difference": np.add, "product": np.divide, "quotient": np.multiply}
)


class Bytes(Protocol):
    """A source of secret bytes."""

    def bytes(self, count: int) -> bytes: ...


def draw_mask(additive: bool, records: int, size: float, signs: bool, stream: Bytes) -> Column:
    """(records,) a mask from secret bytes. `size` is above 0, and above 1 for a multiplicative one."""
    place = 2 * _uniform(stream, records) - 1
    if additive:
        return np.asarray(size * place)
    magnitude = np.exp(np.log(size) * place)
    return np.asarray(np.where(_uniform(stream, records) < 0.5, -magnitude, magnitude) if signs else magnitude)


def encrypt(transformation: str, name: str, column: Column, mask: Column) -> Column:
    """T(f, m) (n,). Raises ValueError for what overflows."""
    return binary(transformation, (name, "its mask"), column, mask)


def decrypt(transformation: str, result: Column, mask: Column) -> Column:
    """The result (n,) of the transformation without the mask, to within rounding."""
    return np.asarray(_DECRYPT[transformation](result, mask))


def _uniform(stream: Bytes, count: int) -> Column:
    """(count,) in [0, 1), with 53 bits each."""
    return np.asarray((np.frombuffer(stream.bytes(8 * count), np.uint64) >> np.uint64(11)) * 2.0**-53)
