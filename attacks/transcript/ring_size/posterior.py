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

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

from leakledger.attacks.observed.ring import Contradiction

Floats = NDArray[np.float64]

MOST_VALUES = 2**22  # of one feature; laws have a number for each size up to the sum
DIRECT = 4096  # longer laws are convolved by FFT
CERTAIN = 1 - 1e-9
STEPS = 3  # lengths within a factor of 2^(1/3) are transformed together


@dataclass(frozen=True)
class Padding:
    """The options of the ring: a range is rounded up to a multiple of `pad_to`, after up to `noise` more numbers."""

    pad_to: int = 1
    noise: int = 0

    @property
    def none(self) -> bool:
        return self.pad_to == 1 and self.noise == 0

    @property
    def mean(self) -> float:
        """How many numbers of a range are padding, on average."""
        return (self.noise + self.pad_to - 1) / 2

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
    size = next_fast_len(len(one) + len(other) - 1, real=True)
    transformed: Floats = np.maximum(irfft(rfft(one, size) * rfft(other, size), size), 0.0)
    return transformed[: min(length, len(one) + len(other) - 1)]


def powers(laws: Sequence[Floats], times: int) -> list[Floats]:
    """Of each law (..., k) the law of the sum of `times` independent ones, at least `times` (k - 1) + 1 long; of none,
    certainly 0. Laws of like lengths, of equally many worlds, are transformed together.
    """
    if times < 2:
        return [law if times else np.eye(1, law.shape[-1])[0] + np.zeros_like(law) for law in laws]
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for i, law in enumerate(laws):
        groups[*law.shape[:-1], round(STEPS * np.log2(law.shape[-1]))].append(i)
    found = list(laws)
    for members in groups.values():
        width = max(laws[i].shape[-1] for i in members)
        together = np.zeros((len(members), *laws[members[0]].shape[:-1], width))
        for row, i in enumerate(members):
            together[row, ..., : laws[i].shape[-1]] = laws[i]
        size = next_fast_len(times * (width - 1) + 1, real=True)
        sums = np.maximum(irfft(_raised(rfft(together, size), times), size), 0.0)
        for row, i in enumerate(members):
            found[i] = sums[row]
    return found


def _raised(transform: NDArray[np.complex128], times: int) -> NDArray[np.complex128]:
    """`transform ** times`, by squaring: far cheaper than complex powers."""
    if times == 1:
        return transform
    half = _raised(transform * transform, times // 2)
    return half * transform if times % 2 else half


def check_size(feature: str, size: int) -> None:
    """Raises Contradiction for a size that no feature has: its law would take more memory than there is."""
    if size > MOST_VALUES:
        raise Contradiction(f"more than {MOST_VALUES:,} values of {feature} are stated, which no feature has")


def given_sums(laws: Sequence[Floats], parties: int, totals: Sequence[int]) -> list[Floats]:
    """Of each law (..., k) and total S: (..., up to k) P(r_1 = r, S) of one of `parties`; it sums to P(S)."""
    cut = [law[..., : total + 1] for law, total in zip(laws, totals, strict=True)]
    found = []
    for law, rest, total in zip(cut, powers(cut, parties - 1), totals, strict=True):
        places = total - np.arange(law.shape[-1])
        others = rest[..., np.minimum(places, rest.shape[-1] - 1)]
        found.append(np.where(places < rest.shape[-1], law * others, 0.0))
    return found


def range_law(sizes: Floats, padding: Padding) -> Floats:
    """q (..., k): the law of a range from the law of a size; what lies beyond is left out."""
    if padding.none:
        return sizes
    law = np.zeros_like(sizes)
    for ends in padding.ranges(np.arange(sizes.shape[-1])):
        inside = ends < law.shape[-1]
        np.add.at(law.T, ends[inside], sizes.T[inside] / (padding.noise + 1))
    return law


def size_posteriors(sizes: Sequence[Floats], parties: int, totals: Sequence[int], padding: Padding) -> list[Floats]:
    """Of each law (..., k): (..., up to total + 1) the chance of each size of one of `parties`, together with ranges
    that add up to the total.
    """
    if padding.none:
        return given_sums(sizes, parties, totals)
    ranges = [range_law(_long(law, total), padding) for law, total in zip(sizes, totals, strict=True)]
    joint = given_sums(ranges, parties, totals)
    return [
        _unpadded(_long(law, total), r, j, padding)
        for law, total, r, j in zip(sizes, totals, ranges, joint, strict=True)
    ]


def _long(law: Floats, total: int) -> Floats:
    """(..., total + 1) the law, cut or with zeros."""
    found = np.zeros((*law.shape[:-1], total + 1))
    found[..., : law.shape[-1]] = law[..., : total + 1]
    return found


def _unpadded(sizes: Floats, ranges: Floats, joint: Floats, padding: Padding) -> Floats:
    """The chance of each size from that of each range."""
    ratio = np.divide(joint, ranges, out=np.zeros_like(joint), where=ranges > 0)
    posterior = np.zeros_like(sizes)
    for ends in padding.ranges(np.arange(sizes.shape[-1])):
        inside = ends < sizes.shape[-1]
        posterior[..., inside] += sizes[..., inside] * ratio[..., ends[inside]] / (padding.noise + 1)
    return posterior


def given_totals(laws: Sequence[Floats], totals: Sequence[int]) -> list[list[Floats]]:
    """For each total: the laws of independent numbers given that they add up to it; unchanged where they cannot."""
    length = max(totals, default=0) + 1
    before, after = [np.ones(1)], [np.ones(1)]
    for law in laws:
        before.append(convolve(before[-1], law, length))
    for law in reversed(laws):
        after.append(convolve(after[-1], law, length))
    rests = [_long(convolve(before[i], after[len(laws) - 1 - i], length), length - 1) for i in range(len(laws))]
    return [[_given_rest(law, rest, total) for law, rest in zip(laws, rests, strict=True)] for total in totals]


def _given_rest(law: Floats, rest: Floats, total: int) -> Floats:
    """The law of a number that adds up to the total with another one, which has the law `rest`."""
    joint = np.zeros(len(law))
    cut = min(len(law), total + 1)
    joint[:cut] = law[:cut] * rest[total + 1 - cut : total + 1][::-1]
    return normalised(joint) if joint.sum() > 0 else law


def normalised(law: Floats) -> Floats:
    total = law.sum()
    return law / total if total > 0 else law


def interval(law: Floats, level: float = 0.9) -> Interval:
    """The mode and the shortest interval that holds at least `level`; of several, the first.

    One number alone means certainty: where it holds the level without being certain, its likelier neighbour is added.
    """
    law = normalised(law)
    mode = int(law.argmax())
    below = np.zeros(len(law) + 1)
    law.cumsum(out=below[1:])
    ends = below.searchsorted(below[:-1] + (level - 1e-12))
    reached = np.count_nonzero(ends < len(below))  # ends rise: these come first
    if not reached:
        return Interval(mode, mode, mode)
    low = int((ends[:reached] - np.arange(reached)).argmin())
    high = int(ends[low]) - 1
    if low == high and law[low] < CERTAIN:
        around = np.pad(law, 1)
        return Interval(mode, low - 1, high) if around[low] > around[low + 2] else Interval(mode, low, high + 1)
    return Interval(mode, low, high)
