"""From a sum to its parts: the posterior of each party's size where only the sum of several parties is seen.

m parties with independent ranges r_1 .. r_m of one prior q, of which the sum S is known:

    P(r_1 = r | S) = q(r) q^{*(m-1)}(S - r) / q^{*m}(S),

with q^{*k} the k-fold convolution. The parties of one sum are exchangeable, so they share a posterior. A range is a
size with padding: with a number e drawn from 0 .. noise, r = ceil((s + e) / pad) pad, so

    q(r) = sum_s p(s) P(r | s),     P(s | S) = p(s) sum_e P(r(s, e) | S) / q(r(s, e)) / (noise + 1).

Without padding r = s. Chances are left unnormalised: their sum is the evidence P(S), by which worlds are weighed
(`occupancy`). Where the sum of a party's sizes over all features is known too (the length of its message of a
set intersection), its features are conditioned on that sum in the same way. This takes the features as independent
given the ring, and is exact where no other party shares the segment.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.signal import fftconvolve

Floats = NDArray[np.float64]

DIRECT = 4096  # longer laws are convolved by FFT
CERTAIN = 1 - 1e-9


@dataclass(frozen=True)
class Padding:
    """The options of the ring: a range is rounded up to a multiple of `pad_to`, after up to `noise` more numbers."""

    pad_to: int = 1
    noise: int = 0

    @property
    def none(self) -> bool:
        return self.pad_to == 1 and self.noise == 0

    def ranges(self, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """(noise + 1, s) the range of each size at each number drawn."""
        drawn = np.arange(self.noise + 1)[:, None]
        return -(-(sizes + drawn) // self.pad_to) * self.pad_to


@dataclass(frozen=True)
class Interval:
    """A posterior in three numbers."""

    mode: int
    low: int
    high: int


def convolve(one: Floats, other: Floats, length: int) -> Floats:
    """The law of the sum of two, up to `length` - 1."""
    one, other = one[:length], other[:length]
    if min(len(one), len(other)) <= DIRECT:
        sums: Floats = np.convolve(one, other)[:length]
        return sums
    transformed: Floats = np.maximum(fftconvolve(one, other), 0.0)[:length]
    return transformed


def power(law: Floats, times: int, length: int) -> Floats:
    """(..., length) the law of the sum of `times` independent ones (..., k); of none, certainly 0."""
    found = np.zeros((*law.shape[:-1], length))
    if times == 0:
        found[..., 0] = 1.0
        return found
    sums = law
    if times > 1:
        size = next_fast_len(times * (law.shape[-1] - 1) + 1, real=True)
        sums = np.maximum(irfft(rfft(law, size) ** times, size), 0.0)
    kept = sums[..., :length]
    found[..., : kept.shape[-1]] = kept
    return found


def given_sum(law: Floats, parties: int, total: int) -> Floats:
    """(..., total + 1) P(r_1 = r, S = total) of one of `parties` with one law (..., k); it sums to P(S = total)."""
    return power(law, 1, total + 1) * power(law, parties - 1, total + 1)[..., ::-1]


def range_law(sizes: Floats, padding: Padding) -> Floats:
    """q (..., k): the law of a range from the law of a size; what lies beyond is left out."""
    if padding.none:
        return sizes
    law = np.zeros_like(sizes)
    for ends in padding.ranges(np.arange(sizes.shape[-1])):
        inside = ends < law.shape[-1]
        np.add.at(law.T, ends[inside], sizes.T[inside] / (padding.noise + 1))
    return law


def size_posterior(sizes: Floats, parties: int, total: int, padding: Padding) -> Floats:
    """(..., total + 1) the chance of each size of one of `parties`, together with ranges that add up to `total`."""
    if padding.none:
        return given_sum(sizes[..., : total + 1], parties, total)
    sizes = power(sizes, 1, total + 1)
    ranges = range_law(sizes, padding)
    found = given_sum(ranges, parties, total)
    ratio = np.divide(found, ranges, out=np.zeros_like(found), where=ranges > 0)
    posterior = np.zeros_like(sizes)
    for ends in padding.ranges(np.arange(total + 1)):
        inside = ends <= total
        posterior[..., inside] += sizes[..., inside] * ratio[..., ends[inside]] / (padding.noise + 1)
    return posterior


def given_total(laws: Sequence[Floats], total: int) -> list[Floats]:
    """The laws of independent numbers, each conditioned on their sum; as they were where the sum excludes them."""
    length = total + 1
    before, after = [np.ones(1)], [np.ones(1)]
    for law in laws:
        before.append(convolve(before[-1], law, length))
    for law in reversed(laws):
        after.append(convolve(after[-1], law, length))
    found = []
    for i, law in enumerate(laws):
        rest = np.zeros(length)
        others = convolve(before[i], after[len(laws) - 1 - i], length)
        rest[: len(others)] = others
        joint = np.zeros(len(law))
        cut = min(len(law), length)
        joint[:cut] = law[:cut] * rest[::-1][:cut]
        found.append(normalised(joint) if joint.sum() > 0 else law)
    return found


def normalised(law: Floats) -> Floats:
    total = law.sum()
    return law / total if total > 0 else law


def interval(law: Floats, level: float = 0.9) -> Interval:
    """The mode and the shortest interval that holds at least `level`; of several, the first.

    One number alone means certainty: where it holds the level without being certain, its likelier neighbour is added.
    """
    law = normalised(law)
    mode = int(law.argmax())
    below = np.concatenate([[0.0], np.cumsum(law)])
    ends = np.searchsorted(below, below[:-1] + level - 1e-12)
    starts = np.flatnonzero(ends < len(below))
    if not len(starts):
        return Interval(mode, mode, mode)
    widths = ends[starts] - starts
    low = int(starts[widths.argmin()])
    high = int(ends[low]) - 1
    if low == high and law[low] < CERTAIN:
        around = np.pad(law, 1)
        return Interval(mode, low - 1, high) if around[low] > around[low + 2] else Interval(mode, low, high + 1)
    return Interval(mode, low, high)
