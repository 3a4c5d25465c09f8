"""Shamir's secret sharing modulo 2^61 - 1: the share at x is the value of a polynomial whose value at 0 is the secret.

Source: Shamir, "How to share a secret" (1979). A polynomial of t - 1 random coefficients makes t shares necessary and
sufficient. Everything works on arrays: many secrets at once, with the same points.
"""

from collections.abc import Sequence

import numpy as np

from leakledger.preprocess.crypto.field import Elements, P, add, elements, multiply


def share(secrets: Elements, coefficients: Sequence[Elements], x: int) -> Elements:
    """The shares at `x` of secrets under polynomials with these coefficients of x, x^2, ... (Horner's rule)."""
    if not 0 < x < P:
        raise ValueError(f"a share at {x} is none: points are from 1 to p - 1")
    point = np.array(x, np.uint64)
    total = np.zeros_like(secrets)
    for coefficient in reversed(coefficients):
        total = multiply(add(total, coefficient), point)
    return add(total, secrets)


def shares(secrets: Elements, coefficients: Elements, points: Elements) -> Elements:
    """(n, ...) the shares at each of n points, of secrets (...) under coefficients (t - 1, ...): `share` of each."""
    if not ((points > 0) & (points < P)).all():
        raise ValueError(f"no shares at {points.tolist()}: points are from 1 to p - 1")
    at = points.reshape(-1, *[1] * secrets.ndim)
    total = np.zeros((len(points), *secrets.shape), np.uint64)
    for coefficient in coefficients[::-1]:
        total = multiply(add(total, coefficient), at)
    return add(total, secrets)


def weights_at_zero(points: Sequence[int]) -> Elements:
    """Lagrange's coefficients: the secret is the sum of weight times share. Raises ValueError for equal points."""
    if len(set(points)) < len(points):
        raise ValueError(f"the points {list(points)} are not distinct")
    found = []
    for i, x in enumerate(points):
        weight = 1
        for y in (y for j, y in enumerate(points) if j != i):
            weight = weight * y * pow(y - x, -1, P) % P
        found.append(weight)
    return elements(found)


def reconstruct(points: Sequence[int], shares: Sequence[Elements]) -> Elements:
    """The secrets from shares at `points`; shares are broadcast against each other."""
    total: Elements = np.zeros((), np.uint64)
    for weight, held in zip(weights_at_zero(points), shares, strict=True):
        total = add(total, multiply(weight, held))
    return total
