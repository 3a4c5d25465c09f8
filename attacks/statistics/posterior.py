"""What parts of a party's numbers say about its rows, means and deviations: posterior intervals on grids.

For each party v outside, with n its rows, and for feature f its mean m and mean square e around the federation's mean c
(around 0 in one pass), the numbers shared are n, n m and n e. Their parts have the likelihoods of `proportions`. Prior,
centred on what the group outside has together (its total is known, own contributions are taken off):

    log n ~ Normal(log(N / V), 1)            (m - M) / (0.5 S sqrt(1 - 1/V)) ~ t3
    log(1.12 s / S) ~ 0.35 t3                e = s^2 + (m - c)^2

with N rows, mean M and deviation S of the V parties together: parties differ in their means by half a deviation, and S
holds that too. Where they are drawn alike, intervals of means are wider than they need be. All features share n, so

    p(n | parts) ~ p(n) L(n) prod_f I_f(n)        I_f(n) = E_m L_f(n m)
    p(m | parts) ~ p(m) E_n L_f(n m)              n by its posterior without feature f

are correlations on the lattice of logs, by FFT. A total count over at most eight parties is imposed on n, by the
density of the others' sum. Of two parties, each number is what the total leaves of the other's, so that the parts of
both speak about each; with more of them, totals enter through M and S only. The single partial sums are not used. That
gives information away. The deviation combines draws of e and of m, weighted by the prior of s.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from attacks.statistics.grids import (
    Interval,
    correlate,
    draws,
    histogram,
    interpolate,
    normalised,
    quantiles,
    span,
)
from attacks.statistics.proportions import Lattice, Weights, lattice, log_likelihood
from attacks.statistics.runs import Slot
from attacks.statistics.seen import Seen

Floats = NDArray[np.float64]
ROW_SPREAD, MEAN_SPREAD, LOG_STD_SPREAD, FREEDOM = 1.0, 0.5, 0.35, 3.0
FLOOR = 1e-12  # of the maximum: what a feature alone may hold against a count
NODES, IMPOSED = 64, 8


@dataclass(frozen=True)
class Prior:
    """What the group outside has together: rows, and per feature (F,) mean, deviation and the centre of squares."""

    rows: float
    features: tuple[tuple[str, str], ...]
    mean: Floats = field(repr=False)
    std: Floats = field(repr=False)
    centre: Floats = field(repr=False)


@dataclass(frozen=True)
class Curves:
    """log-likelihoods (V, S, G) of S numbers on lattices that start at `origin` (V, S); `silent` (V, S): it is 0."""

    origin: NDArray[np.int64]
    logs: Floats
    silent: NDArray[np.bool_]


def rows_means_deviations(
    seen: Seen, prior: Prior, square: str, weights: Weights, level: float, coins: np.random.Generator
) -> dict[Slot, Interval]:
    """Intervals by Slot("count"), Slot("sum", f) for the mean and Slot("square", f) for the deviation.

    `square`: whether squares are "deviation" from `prior.centre` or "square" around 0.
    """
    return _Inference(seen, prior, square, weights, level, coins).intervals()


def single_numbers(seen: Seen, slots: Sequence[Slot], weights: Weights, level: float) -> dict[Slot, Interval]:
    """Intervals of numbers that nothing else speaks about; the prior is flat in the log of the number."""
    if not slots:
        return {}
    grid = _lattice(seen)
    curves = _curves(seen, slots, grid, weights)
    values, mass = np.exp(grid.logs(curves.origin)), normalised(curves.logs)
    values = np.where(curves.silent[..., None], 0.0, values)
    return {slot: quantiles(values[:, i], mass[:, i], level) for i, slot in enumerate(slots)}


class _Inference:
    def __init__(
        self, seen: Seen, prior: Prior, square: str, weights: Weights, level: float, coins: np.random.Generator
    ) -> None:
        self.prior, self.level, self.coins = prior, level, coins
        self.grid = _lattice(seen)
        sums = [Slot("sum", *f) for f in prior.features]
        squares = [Slot(square, *f) for f in prior.features]  # type: ignore[arg-type]
        around = prior.std**2 + (prior.mean - prior.centre) ** 2
        self.rows, *alone = (_curves(seen, slots, self.grid, weights) for slots in ([Slot("count")], sums, squares))
        self.alone = tuple(alone)
        self.sums, self.squares = self.alone
        if len(seen.victims) == 2:
            self.sums = _curves(seen, sums, self.grid, weights, prior.rows * prior.mean)
            self.squares = _curves(seen, squares, self.grid, weights, prior.rows * around)
        self.sign = np.array([seen.signs[s] for s in sums]).reshape(len(sums), len(seen.victims)).T  # (V, F)
        self.apart = MEAN_SPREAD * np.sqrt(1 - 1 / len(seen.victims))  # from the mean of all of them
        self.nodes = _mean_nodes(prior, self.sign, self.apart)

    def intervals(self) -> dict[Slot, Interval]:
        by_sum = self._about_rows(self.alone[0], self.nodes)
        by_square = self._about_rows(self.alone[1], _square_nodes(self.prior, len(self.sign), self.coins))
        log_rows = self.grid.logs(self.rows.origin[:, 0])  # (V, G)
        centre = np.log(self.prior.rows / len(self.sign))
        log_n = self.rows.logs[:, 0] - 0.5 * ((log_rows - centre) / ROW_SPREAD) ** 2
        log_n = np.where(log_rows >= 0, log_n + by_sum.sum(axis=1) + by_square.sum(axis=1), -np.inf)
        log_n = log_n + _others_total(normalised(log_n), log_rows, self.prior.rows)
        found = {Slot("count"): quantiles(np.exp(log_rows), normalised(log_n), self.level)}

        means, mean_mass = self._means(self._about_factor(self.sums, normalised(log_n[:, None] - by_sum)))
        stds, std_mass = self._deviations(
            self._about_factor(self.squares, normalised(log_n[:, None] - by_square)), draws(means, mean_mass)
        )
        for i, f in enumerate(self.prior.features):
            found[Slot("sum", *f)] = quantiles(means[:, i], mean_mass[:, i], self.level)
            found[Slot("square", *f)] = quantiles(stds[:, i], std_mass[:, i], self.level)
        return found

    def _about_rows(self, of: Curves, nodes: Floats) -> Floats:
        """(V, F, G) log I_f(n): the mean of L_f(n m) over the prior's nodes m > 0 (V, F, nodes)."""
        size = self.grid.size
        first = of.origin - self.rows.origin - (size - 1)  # m = x / n on the lattices of x and n
        weights = histogram(np.log(nodes) / self.grid.step - first[..., None], 2 * size - 1)
        likelihood = np.exp(of.logs - of.logs.max(axis=-1, keepdims=True))
        value = np.maximum(correlate(likelihood, weights)[..., size - 1 : 2 * size - 1], 0.0)
        log = np.log(np.maximum(value, FLOOR * value.max(axis=-1, keepdims=True)) + 1e-300)
        return np.where(of.silent[..., None], 0.0, log - log.max(axis=-1, keepdims=True))

    def _about_factor(self, of: Curves, rows: Floats) -> tuple[Floats, Floats]:
        """(V, F, 2G - 1) E L_f(n m) over n with masses `rows` (V, F, G), and (V, F) the log of the first m."""
        likelihood = np.exp(of.logs - of.logs.max(axis=-1, keepdims=True))
        value = np.maximum(correlate(likelihood, rows), 0.0)
        first = np.asarray(self.grid.step * (of.origin - self.rows.origin - (self.grid.size - 1)), np.float64)
        return np.where(of.silent[..., None], 1.0, value), first

    def _means(self, about: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
        """(V, F, nodes) values of the mean and their posterior masses, where the posterior is."""
        nodes = self.sign[..., None] * self.nodes
        mass = self._weigh(about, nodes)
        for _ in range(2):
            low, high = span(nodes, mass)
            inside = (np.arange(NODES) + 0.5) / NODES
            nodes = low[..., None] + (high - low)[..., None] * inside
            scaled = (nodes - self.prior.mean[:, None]) / (self.apart * self._spread()[:, None])
            density = (1 + scaled**2 / FREEDOM) ** (-(FREEDOM + 1) / 2)
            mass = density * np.where(nodes * self.sign[..., None] > 0, self._weigh(about, nodes), 0.0)
            mass = np.where(mass.sum(axis=-1, keepdims=True) > 0, mass, 1.0)
        return nodes, np.where(self.sums.silent[..., None], 1.0, mass)  # all nodes are 0 where the sign is 0

    def _weigh(self, about: tuple[Floats, Floats], nodes: Floats) -> Floats:
        value, first = about
        with np.errstate(divide="ignore"):
            place = (np.log(np.abs(nodes)) - first[..., None]) / self.grid.step
        return interpolate(value, place)

    def _deviations(self, about: tuple[Floats, Floats], means: Floats) -> tuple[Floats, Floats]:
        """(V, F, draws) values of the deviation with weights, from draws of the mean."""
        value, first = about
        points = np.broadcast_to(np.arange(value.shape[-1]) * self.grid.step, value.shape) + first[..., None]
        square = np.exp(self.coins.permuted(draws(points, value), axis=-1))
        around = np.where(self.squares.silent[..., None], 0.0, square)
        left = around - (means - self.prior.centre[:, None]) ** 2
        std = np.sqrt(np.maximum(left, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            scaled = np.log(std / self._spread()[:, None] * np.hypot(1, MEAN_SPREAD)) / LOG_STD_SPREAD
            weight = (1 + scaled**2 / FREEDOM) ** (-(FREEDOM + 1) / 2) * square / left
        weight = np.where((left > 0) & np.isfinite(weight), weight, 0.0)
        return std, np.where(weight.sum(axis=-1, keepdims=True) > 0, weight, 1.0)

    def _spread(self) -> Floats:
        return _spread(self.prior)


def _spread(prior: Prior) -> Floats:
    floor: Floats = np.maximum(prior.std, 1e-9 * np.abs(prior.mean) + 1e-300)
    return floor


def _lattice(seen: Seen) -> Lattice:
    sharings = [s for many in seen.sharings.values() for s in many]
    most = max(sharings, key=lambda s: s.observed / s.parties)
    times = max(len(many) for many in seen.sharings.values()) * (2 if len(seen.victims) == 2 else 1)
    return lattice(most.parties, most.observed, times)


def _curves(seen: Seen, slots: Sequence[Slot], grid: Lattice, weights: Weights, totals: Floats | None = None) -> Curves:
    """The log-likelihood of each slot, added up over the times that it was shared.

    Of two parties with known `totals` (S,), what one has the other has not, so the parts of both speak about each.
    """
    largest = np.array([np.max([s.total for s in seen.sharings[slot]], axis=0) for slot in slots])
    largest = largest.reshape(len(slots), len(seen.victims)).T  # (V, S)
    silent = largest == 0
    origin = np.floor(np.log(np.where(silent, 1.0, largest)) / grid.step).astype(np.int64)
    at = grid.logs(origin)
    logs = np.zeros(at.shape)
    for i, slot in enumerate(slots):
        logs[:, i] = _of_slot(seen, slot, at[:, i], weights)
        if totals is not None and len(seen.victims) == 2 and not silent[:, i].any():
            sign = seen.signs[slot][:, None]
            rest = totals[i] - sign * np.exp(at[:, i])  # (2, G) what is left for the other one
            with np.errstate(divide="ignore"):
                left = np.where(rest * sign[::-1] > 0, np.log(np.abs(rest)), -np.inf)
            both = logs[:, i] + _of_slot(seen, slot, left[::-1], weights)[::-1]
            logs[:, i] = np.where(np.isfinite(both).any(axis=1, keepdims=True), both, logs[:, i])
    logs[silent] = 0.0
    return Curves(origin, logs, silent)


def _of_slot(seen: Seen, slot: Slot, logs: Floats, weights: Weights) -> Floats:
    """(V, G) log-likelihood of one slot at `logs` (V, G); without meaning where a number is 0."""
    found = np.zeros(logs.shape)
    for s in seen.sharings[slot]:
        total, most = (np.where(s.total == 0, 1.0, x) for x in (s.total, s.largest))
        found += log_likelihood(logs, total, most, s.parties, s.observed, weights)
    return found


def _mean_nodes(prior: Prior, sign: Floats, apart: float) -> Floats:
    """(V, F, nodes) quantiles of |m| under the prior, given the sign of m."""
    side = np.array([1.0, -1.0])[:, None, None]
    scale = apart * _spread(prior)[:, None]
    at_zero = stdtr(FREEDOM, -side * prior.mean[:, None] / scale)  # mass on the far side of 0
    level = at_zero + (1 - at_zero) * (np.arange(NODES) + 0.5) / NODES
    size = side * prior.mean[:, None] + scale * stdtrit(FREEDOM, np.minimum(level, 1 - 1e-12))
    both: Floats = np.maximum(size, 1e-6 * scale)  # (2, F, nodes)
    nodes: Floats = np.where((sign < 0)[..., None], both[1], both[0])
    return nodes


def _square_nodes(prior: Prior, victims: int, coins: np.random.Generator) -> Floats:
    """(V, F, nodes) draws of e = s^2 + (m - c)^2 under the prior."""
    levels = (np.arange(4 * NODES) + 0.5) / (4 * NODES)
    quantiles = stdtrit(FREEDOM, levels)
    spread = _spread(prior)[:, None]
    mean = prior.mean[:, None] + MEAN_SPREAD * spread * quantiles
    std = spread / np.hypot(1, MEAN_SPREAD) * np.exp(LOG_STD_SPREAD * np.clip(coins.permutation(quantiles), -6, 6))
    square = np.maximum(std**2 + (mean - prior.centre[:, None]) ** 2, 1e-280)
    return np.broadcast_to(square, (victims, *square.shape))


def _others_total(mass: Floats, logs: Floats, total: float) -> Floats:
    """(V, G) log-density of what the others would have to hold together; 0 for many parties."""
    victims, cells = len(mass), 2048
    if victims > IMPOSED:
        return np.zeros_like(logs)
    edges = np.linspace(0.0, total, cells + 1)
    cumulated = np.cumsum(mass, axis=1) - mass / 2
    each = [np.diff(np.interp(edges, np.exp(x), c, left=0.0)) for x, c in zip(logs, cumulated, strict=True)]
    result = np.empty_like(logs)
    for v in range(victims):
        others = np.ones(1)
        for u in (u for u in range(victims) if u != v):
            others = np.convolve(others, each[u])[:cells]
        centres = edges[1] * (np.arange(len(others)) + (victims - 1) / 2)
        at = np.interp(total - np.exp(logs[v]), centres, others, left=0.0, right=0.0)
        result[v] = np.log(np.maximum(at, FLOOR * at.max(initial=0.0)) + 1e-300)
    return result
