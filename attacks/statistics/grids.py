"""Arithmetic on grids along the last axis: correlations, masses, draws and quantiles."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

Floats = NDArray[np.float64]
DRAWS = 256


@dataclass(frozen=True)
class Interval:
    """Median and the ends of the central interval, each (V,)."""

    estimate: Floats
    low: Floats
    high: Floats


def correlate(a: Floats, b: Floats) -> Floats:
    """(..., A + B - 1) sum_i a[i + d] b[i] for d = -(B - 1)..A - 1, of a (..., A) and b (..., B)."""
    most, least = a.shape[-1], b.shape[-1]
    length = next_fast_len(most + least - 1, real=True)
    both: Floats = irfft(rfft(a, length) * np.conj(rfft(b, length)), length)
    return np.concatenate([both[..., length - (least - 1) :], both[..., :most]], axis=-1)


def histogram(place: Floats, size: int) -> Floats:
    """(..., size) equal masses at fractional places, each shared between the two cells beside it, none outside."""
    left = np.floor(np.clip(place, -2, size)).astype(np.int64)
    part = place - left
    row = (size + 2) * np.arange(int(np.prod(place.shape[:-1]))).reshape(*place.shape[:-1], 1)
    flat = np.zeros((size + 2) * row.size)
    for cell, mass in ((left + 1, 1 - part), (left + 2, part)):
        inside = (cell > 0) & (cell <= size)
        flat += np.bincount((row + np.where(inside, cell, 0)).ravel(), mass.ravel(), len(flat))
    masses: Floats = flat.reshape(*place.shape[:-1], size + 2)[..., 1:-1] / place.shape[-1]
    return masses


def take(values: Floats, index: NDArray[np.int64]) -> Floats:
    """Entries along the last axis, 0 outside."""
    inside = (index >= 0) & (index < values.shape[-1])
    taken: Floats = np.take_along_axis(values, np.where(inside, index, 0), axis=-1)
    kept: Floats = np.where(inside, np.maximum(taken, 0.0), 0.0)
    return kept


def interpolate(values: Floats, place: Floats) -> Floats:
    place = np.clip(np.nan_to_num(place, nan=-2.0), -2, values.shape[-1] + 1)
    left = np.floor(place).astype(np.int64)
    part = place - left
    return take(values, left) * (1 - part) + take(values, left + 1) * part


def normalised(logs: Floats) -> Floats:
    mass: Floats = np.exp(logs - logs.max(axis=-1, keepdims=True))
    mass /= mass.sum(axis=-1, keepdims=True)
    return mass


def span(nodes: Floats, mass: Floats) -> tuple[Floats, Floats]:
    """From one node below the mass to one above: all but a thousandth of it, (V, F) each."""
    order = np.argsort(nodes, axis=-1)
    nodes, mass = (np.take_along_axis(x, order, axis=-1) for x in (nodes, mass))
    share = np.cumsum(mass, axis=-1) / np.maximum(mass.sum(axis=-1, keepdims=True), 1e-300)
    first = np.maximum((share < 5e-4).sum(axis=-1) - 1, 0)
    last = np.minimum((share < 1 - 5e-4).sum(axis=-1) + 1, nodes.shape[-1] - 1)
    low, high = (np.take_along_axis(nodes, i[..., None], axis=-1)[..., 0] for i in (first, last))
    width = high - low
    low = np.where(first == 0, low - width, low)  # the mass may go on beyond the outermost node
    return low, np.where(last == nodes.shape[-1] - 1, high + width, high)


def draws(values: Floats, mass: Floats) -> Floats:
    """(..., draws) stratified draws from masses at `values`, in rising order."""
    share = (np.cumsum(mass, axis=-1) - mass / 2) / mass.sum(axis=-1, keepdims=True)
    levels = (np.arange(DRAWS) + 0.5) / DRAWS
    flat = [
        np.interp(levels, s, v)
        for s, v in zip(share.reshape(-1, share.shape[-1]), values.reshape(-1, values.shape[-1]), strict=True)
    ]
    return np.array(flat).reshape(*values.shape[:-1], DRAWS)


def quantiles(values: Floats, mass: Floats, level: float) -> Interval:
    """Of weighted values (V, points), in any order."""
    order = np.argsort(values, axis=-1)
    values, mass = (np.take_along_axis(x, order, axis=-1) for x in (values, mass))
    share = (np.cumsum(mass, axis=-1) - mass / 2) / mass.sum(axis=-1, keepdims=True)
    levels = (0.5, (1 - level) / 2, (1 + level) / 2)
    return Interval(*np.array([np.interp(levels, s, v) for s, v in zip(share, values, strict=True)]).T)
