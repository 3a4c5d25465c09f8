"""What the parts that were seen say about each number on its own: log-likelihoods on lattices, and their spectra."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

from leakledger.attacks.observed.secure_sums import Slot
from leakledger.attacks.transcript.statistics.proportions import Lattice, Weights, lattice, log_likelihood
from leakledger.attacks.transcript.statistics.seen import Seen

Floats = NDArray[np.float64]
SHARES, PLACES = 33, 8  # of the kept shapes


@dataclass(frozen=True)
class Shapes:
    """Log-likelihoods (K, G) on lattices of G points, and their spectra for correlations with up to 2G - 1 points."""

    logs: Floats = field(repr=False)

    @property
    def size(self) -> int:
        return int(self.logs.shape[-1])

    @cached_property
    def length(self) -> int:
        return int(next_fast_len(2 * self.size - 1, real=True))

    @cached_property
    def spectra(self) -> NDArray[np.complex128]:
        likelihood = np.exp(self.logs - self.logs.max(axis=-1, keepdims=True))
        spectra: NDArray[np.complex128] = rfft(likelihood, self.length)
        return spectra


@dataclass(frozen=True)
class Curves:
    """log-likelihoods (V, S, G) of S numbers: `shapes.logs[which]`, on lattices that start at `origin` (V, S).

    `silent` (V, S): the number is 0, and its curve has no meaning.
    """

    origin: NDArray[np.int64]
    silent: NDArray[np.bool_]
    which: NDArray[np.int64] = field(repr=False)
    shapes: Shapes = field(repr=False)

    @property
    def logs(self) -> Floats:
        """(V, S, G)."""
        return np.where(self.silent[..., None], 0.0, self.shapes.logs[self.which])

    def of(self, slots: NDArray[np.bool_]) -> "Curves":
        """The curves of some of the numbers, of which `slots` (S,) says which."""
        return Curves(self.origin[:, slots], self.silent[:, slots], self.which[:, slots], self.shapes)

    def weighed(self, weights: Floats) -> Floats:
        """(V, S, G) sum_p L[p] w[p - j + G - 1] at j = 0..G-1, of `weights` (V, S, 2G - 1)."""
        both, size = self._correlated(weights), self.shapes.size
        turned: Floats = np.concatenate([both[..., self.shapes.length - (size - 1) :], both[..., :1]], axis=-1)
        return np.maximum(turned, 0.0, out=turned)

    def shifted(self, rows: Floats) -> Floats:
        """(V, S, 2G - 1) sum_j L[j + d] w[j] at d = -(G-1)..G-1, of `rows` (V, S, G)."""
        both, size = self._correlated(rows), self.shapes.size
        turned: Floats = np.concatenate([both[..., self.shapes.length - (size - 1) :], both[..., :size]], axis=-1)
        return np.maximum(turned, 0.0, out=turned)

    def _correlated(self, weights: Floats) -> Floats:
        spectrum = rfft(weights, self.shapes.length)
        np.conj(spectrum, out=spectrum)
        spectrum *= self.shapes.spectra[self.which]
        both: Floats = irfft(spectrum, self.shapes.length)
        return both


def common_lattice(seen: Seen) -> Lattice:
    """Fine and long enough for every number of `seen`."""
    sharings = [s for many in seen.sharings.values() for s in many]
    most = max(sharings, key=lambda s: s.observed / s.parties)
    times = max(len(many) for many in seen.sharings.values()) * (2 if len(seen.victims) == 2 else 1)
    return lattice(most.parties, most.observed, times)


def curves(seen: Seen, slots: Sequence[Slot], grid: Lattice, weights: Weights, totals: Floats | None = None) -> Curves:
    """The log-likelihood of each slot, added up over the times that it was shared.

    Of two parties with known `totals` (S,), what one has the other has not, so the parts of both speak about each.
    """
    largest = np.array([np.max([s.total for s in seen.sharings[slot]], axis=0) for slot in slots])
    largest = largest.reshape(len(slots), len(seen.victims)).T  # (V, S)
    silent = largest == 0
    place = np.log(np.where(silent, 1.0, largest)) / grid.step
    origin = np.floor(place).astype(np.int64)
    kinds = {tuple((s.parties, s.observed) for s in seen.sharings[slot]) for slot in slots}
    if totals is None and len(kinds) == 1 and len(only := next(iter(kinds))) == 1:
        most = np.array([seen.sharings[slot][0].largest for slot in slots]).T
        share = most / np.where(silent, 1.0, largest)
        return Curves(origin, silent, _row(place - origin, share, only[0][1]), _shapes(*only[0], grid, weights))
    logs = _added_up(seen, slots, grid.logs(origin), weights, totals)
    logs[silent] = 0.0
    which = np.arange(silent.size).reshape(silent.shape)
    return Curves(origin, silent, which, Shapes(logs.reshape(-1, grid.size)))


def _row(part: Floats, share: Floats, observed: int) -> NDArray[np.int64]:
    """Which of the kept shapes: by the place of the sum within a cell, and what share of it the largest part is."""
    beyond = (share * observed - 1) / max(observed - 1, 1)
    wide = np.rint(np.clip(beyond, 0.0, 1.0) * (SHARES - 1)).astype(np.int64)
    row: NDArray[np.int64] = wide * PLACES + np.minimum((part * PLACES).astype(np.int64), PLACES - 1)
    return row


@lru_cache(64)
def _shapes(parties: int, observed: int, grid: Lattice, weights: Weights) -> Shapes:
    """The curves of numbers that were shared once, which differ in two figures only: the order is that of `_row`."""
    largest = np.repeat(1 / observed + np.linspace(0, 1 - 1 / observed, SHARES), PLACES)
    part = np.tile((np.arange(PLACES) + 0.5) / PLACES, SHARES)
    logs = grid.step * (np.arange(grid.size) - part[:, None])
    return Shapes(log_likelihood(logs, np.ones(len(part)), largest, parties, observed, weights))


def _added_up(seen: Seen, slots: Sequence[Slot], at: Floats, weights: Weights, totals: Floats | None) -> Floats:
    """(V, S, G) over all times that a number was shared."""
    logs = _of_slots(seen, slots, at, weights)
    if totals is None or len(seen.victims) != 2:
        return logs
    silent = np.array([any((s.total == 0).any() for s in seen.sharings[slot]) for slot in slots], np.bool_)  # (S,)
    sign = np.array([seen.signs[s] for s in slots]).T[..., None]  # (2, S, 1)
    rest = totals[:, None] - sign * np.exp(at)  # what is left for the other one
    with np.errstate(divide="ignore"):
        left = np.where(rest * sign[::-1] > 0, np.log(np.abs(rest)), -np.inf)
    both = logs + _of_slots(seen, slots, left[::-1], weights)[::-1]
    usable = np.isfinite(both).any(axis=2, keepdims=True) & ~silent[:, None]
    return np.where(usable, both, logs)


def _of_slots(seen: Seen, slots: Sequence[Slot], logs: Floats, weights: Weights) -> Floats:
    """(V, S, G) log-likelihoods at `logs` (V, S, G); without meaning where a number is 0."""
    alike: dict[tuple[tuple[int, int], ...], list[int]] = defaultdict(list)
    for i, slot in enumerate(slots):
        alike[tuple((s.parties, s.observed) for s in seen.sharings[slot])].append(i)
    found = np.zeros(logs.shape)
    for times, places in alike.items():
        whole = len(places) == len(slots)
        at = logs if whole else logs[:, places]
        for k, (parties, observed) in enumerate(times):
            many = [seen.sharings[slots[i]][k] for i in places]
            total, most = (np.array([getattr(s, name) for s in many]).T for name in ("total", "largest"))
            total, most = (np.where(total == 0, 1.0, x) for x in (total, most))
            value = log_likelihood(at, total, most, parties, observed, weights)
            if whole:
                found += value
            else:
                found[:, places] += value
    return found
