"""Arithmetic on grids along the last axis: masses, draws and quantiles."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
DRAWS = 96


@dataclass(frozen=True)
class Interval:
    """Median and the ends of the central interval, each (V,) or (V, F)."""

    estimate: Floats
    low: Floats
    high: Floats

    @property
    def ends(self) -> tuple[Floats, Floats, Floats]:
        return self.estimate, self.low, self.high

    def of(self, feature: int) -> "Interval":
        """(V,) of one feature."""
        return Interval(self.estimate[:, feature], self.low[:, feature], self.high[:, feature])


@dataclass(frozen=True)
class Histogram:
    """Equal masses (..., cells) on even lattices, of which cell 0 stands at `first` (...)."""

    first: NDArray[np.int64]
    masses: Floats = field(repr=False)

    @classmethod
    def at(cls, place: Floats) -> "Histogram":
        """Of fractional places (..., points) on the lattice, each shared between the two cells beside it."""
        left = np.floor(place).astype(np.int64)
        first = left.min(axis=-1)
        part, cell = place - left, left - first[..., None]
        size = int(cell.max(initial=0)) + 2
        cell = cell + size * np.arange(first.size).reshape(*first.shape, 1)
        flat = np.zeros(size * first.size)
        for at, mass in ((cell, 1 - part), (cell + 1, part)):
            flat += np.bincount(at.ravel(), mass.ravel(), len(flat))
        return cls(first, flat.reshape(*first.shape, size) / place.shape[-1])

    def between(self, start: NDArray[np.int64], cells: int) -> Floats:
        """(..., cells) the masses from cell number `start` (...) on."""
        return take(self.masses, (start - self.first)[..., None] + np.arange(cells))[0]


def take(values: Floats, *index: NDArray[np.int64]) -> list[Floats]:
    """Entries along the last axis of values >= 0, 0 outside, at each index."""
    cells = values.shape[-1]
    padded = np.zeros((*values.shape[:-1], cells + 2))
    padded[..., 1:-1] = values
    rows = (cells + 2) * np.arange(values[..., 0].size).reshape(*values.shape[:-1], 1) + 1
    flat = padded.ravel()
    return [flat[np.minimum(np.maximum(i, -1), cells) + rows] for i in index]


def interpolate(values: Floats, place: Floats) -> Floats:
    """Along the last axis, linear; 0 outside and at NaN."""
    place = np.clip(np.nan_to_num(place, nan=-2.0), -2, values.shape[-1] + 1)
    left = np.floor(place).astype(np.int64)
    low, high = take(values, left, left + 1)
    return low + (place - left) * (high - low)


def normalised(logs: Floats) -> Floats:
    mass: Floats = np.exp(logs - logs.max(axis=-1, keepdims=True))
    mass /= mass.sum(axis=-1, keepdims=True)
    return mass


def span(nodes: Floats, mass: Floats) -> tuple[Floats, Floats]:
    """From one node below the mass to one above, of rising nodes: all but a thousandth of it, (V, F) each."""
    share = np.cumsum(mass, axis=-1)
    whole = np.maximum(share[..., -1:], 1e-300)
    first = np.maximum((share < 5e-4 * whole).sum(axis=-1) - 1, 0)
    last = np.minimum((share < (1 - 5e-4) * whole).sum(axis=-1) + 1, nodes.shape[-1] - 1)
    low, high = (np.take_along_axis(nodes, i[..., None], axis=-1)[..., 0] for i in (first, last))
    width = high - low
    low = np.where(first == 0, low - width, low)  # the mass may go on beyond the outermost node
    return low, np.where(last == nodes.shape[-1] - 1, high + width, high)


def shares(mass: Floats) -> Floats:
    """(..., cells) of the whole mass, what is left of the middle of each cell."""
    cumulated = np.cumsum(mass, axis=-1)
    result: Floats = (cumulated - mass / 2) / cumulated[..., -1:]
    return result


def at_levels(values: Floats, mass: Floats, levels: Floats) -> Floats:
    """(..., levels) where masses at rising `values` (..., cells) reach `levels`; linear in between."""
    share = shares(mass)
    flat = zip(share.reshape(-1, share.shape[-1]), values.reshape(-1, values.shape[-1]), strict=True)
    return np.array([np.interp(levels, s, v) for s, v in flat]).reshape(*values.shape[:-1], len(levels))


def at_level(values: Floats, share: Floats, level: float) -> Floats:
    """(...) where `shares` at rising values (..., cells) reach one level."""
    right = np.minimum((share < level).sum(axis=-1, keepdims=True), share.shape[-1] - 1)
    left = np.maximum(right - 1, 0)
    low, high = (np.take_along_axis(values, i, axis=-1)[..., 0] for i in (left, right))
    before, after = (np.take_along_axis(share, i, axis=-1)[..., 0] for i in (left, right))
    wide = after - before
    part = np.where(wide > 0, (level - before) / np.where(wide > 0, wide, 1.0), 0.0)
    found: Floats = low + np.clip(part, 0.0, 1.0) * (high - low)
    return found


def draws(values: Floats, mass: Floats) -> Floats:
    """(..., draws) stratified draws from masses at rising `values`, in rising order."""
    return at_levels(values, mass, (np.arange(DRAWS) + 0.5) / DRAWS)


def quantiles(values: Floats, mass: Floats, level: float) -> Interval:
    """Of masses at rising values (..., points); the interval's arrays are (...)."""
    share = shares(mass)
    return Interval(*(at_level(values, share, p) for p in (0.5, (1 - level) / 2, (1 + level) / 2)))


def in_order(values: Floats, mass: Floats) -> tuple[Floats, Floats]:
    """Both, values rising along the last axis."""
    order = np.argsort(values, axis=-1)
    return np.take_along_axis(values, order, axis=-1), np.take_along_axis(mass, order, axis=-1)
