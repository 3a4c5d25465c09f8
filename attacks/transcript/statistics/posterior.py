"""What parts of a party's numbers say about its rows, means and deviations: posterior intervals on grids.

For each party v outside, with n its rows, and for feature f its mean m and mean square e around the federation's mean c
(around 0 in one pass), the numbers shared are n, n m and n e. Their parts have the likelihoods of `proportions`, and n,
m and the deviation s the `prior`, with e = s^2 + (m - c)^2. All features share n, so

    p(n | parts) ~ p(n) L(n) prod_f I_f(n)        I_f(n) = E_m L_f(n m)
    p(m | parts) ~ p(m) E_n L_f(n m)              n by its posterior without feature f

are correlations on the lattice of logs, by FFT. A total count over at most eight parties is imposed on n, by the
density of the others' sum. Of two parties, each number is what the total leaves of the other's, so that the parts of
both speak about each; with more of them, totals enter through the prior only. The single partial sums are not used.
That gives information away. The deviation s is weighed by its prior and by the mean, over draws of m, of the likelihood
of e = s^2 + (m - c)^2. Where parties are far apart in several features, they may be so in all at once: together, these
features say as much about n as one of them (`Prior.alike`). Columns of two numbers are inferred by their rate
(`binary`). Totals that are rounding for the most part, as beside own numbers 10^12 times as large, say nothing: mean
and deviation are then what the parts say.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.observed.secure_sums import Slot
from leakledger.attacks.observed.stated import vanished
from leakledger.attacks.transcript.statistics.binary import Rates
from leakledger.attacks.transcript.statistics.curves import Curves, common_lattice, curves
from leakledger.attacks.transcript.statistics.grids import (
    DRAWS,
    Histogram,
    Interval,
    at_levels,
    draws,
    in_order,
    interpolate,
    normalised,
    quantiles,
    span,
)
from leakledger.attacks.transcript.statistics.prior import (
    LOG_STD_SPREADS,
    LOOSE,
    MEAN_SPREADS,
    RATIOS,
    REACH,
    SHARP,
    SHIFTS,
    T3_PEAK,
    Prior,
    row_density,
    t3_density,
    t3_level,
    t3_quantile,
)
from leakledger.attacks.transcript.statistics.proportions import Weights
from leakledger.attacks.transcript.statistics.seen import Seen

Floats = NDArray[np.float64]
FLOOR = 1e-12  # of the maximum: what a feature alone may hold against a count
NODES, IMPOSED = 48, 8
INSIDE = (np.arange(NODES) + 0.5) / NODES  # where nodes are in an interval of length 1
COARSE = np.linspace(-20.0, 4.0, 97)  # of log s / S
CONSTANT = 1e-4  # of S: a deviation that may be smaller may be 0


def rows_means_deviations(
    seen: Seen,
    prior: Prior,
    square: str,
    weights: Weights,
    level: float,
    coins: np.random.Generator,
    rates: Rates | None = None,
) -> dict[Slot, Interval]:
    """Intervals by Slot("count"), Slot("sum", f) for the mean and Slot("square", f) for the deviation.

    `square`: whether squares are "deviation" from `prior.centre` or "square" around 0. `rates`: of features with two
    numbers, if there are any.
    """
    return _Inference(seen, prior, square, weights, level, coins, rates).intervals()


def single_numbers(seen: Seen, slots: Sequence[Slot], weights: Weights, level: float) -> dict[Slot, Interval]:
    """Intervals of numbers that nothing else speaks about; the prior is flat in the log of the number."""
    if not slots:
        return {}
    grid = common_lattice(seen)
    alone = curves(seen, slots, grid, weights)
    values, mass = np.exp(grid.logs(alone.origin)), normalised(alone.logs)
    values = np.where(alone.silent[..., None], 0.0, values)
    return {slot: quantiles(values[:, i], mass[:, i], level) for i, slot in enumerate(slots)}


class _Inference:
    def __init__(
        self,
        seen: Seen,
        prior: Prior,
        square: str,
        weights: Weights,
        level: float,
        coins: np.random.Generator,
        rates: Rates | None,
    ) -> None:
        self.rates = rates
        self.two = rates.two if rates else np.zeros(len(prior.features), np.bool_)  # (F,) columns of two numbers
        self.prior, self.level, self.coins = prior, level, coins
        self.grid = common_lattice(seen)
        sums = [Slot("sum", *f) for f in prior.features]
        squares = [Slot(square, *f) for f in prior.features]  # type: ignore[arg-type]
        around = prior.std**2 + (prior.mean - prior.centre) ** 2
        self.rows = curves(seen, [Slot("count")], self.grid, weights)
        self.alone = tuple(curves(seen, slots, self.grid, weights) for slots in (sums, squares))
        self.sums, self.squares = self.alone
        if len(seen.victims) == 2:  # what rounding has taken from a total is left for none of them
            sharp = prior.mean_within < SHARP * np.abs(prior.mean), prior.variance_within < SHARP * around
            total, squared = (
                np.where(s, prior.rows * x, np.nan) for s, x in zip(sharp, (prior.mean, around), strict=True)
            )
            self.sums = curves(seen, sums, self.grid, weights, total)
            self.squares = curves(seen, squares, self.grid, weights, squared)
        self.sign = np.array([seen.signs[s] for s in sums]).reshape(len(sums), len(seen.victims)).T  # (V, F)
        self.apart = MEAN_SPREADS * np.sqrt(1 - 1 / len(seen.victims))  # from the mean of all of them
        self.alike = prior.alike(len(seen.victims))
        self.nodes = _mean_nodes(prior, self.apart)  # (2, F, nodes)

    def intervals(self) -> dict[Slot, Interval]:
        """By slot; what the parts of columns of two numbers say comes from their rates."""
        negative = (self.sign < 0).astype(np.int64)
        by_sum = self._about_rows(self.alone[0], self.nodes, negative)
        square_nodes = _square_nodes(self.prior, self.apart, self.coins)
        by_square = self._about_rows(self.alone[1], square_nodes[None], np.zeros_like(negative))
        by_rate = self._about_rows_by_rate()
        by_sum[:, self.two], by_square[:, self.two] = by_rate, 0.0
        by_sum[:, ~self.prior.sharp], by_square[:, ~self.prior.sharp] = 0.0, 0.0
        log_rows = self.grid.logs(self.rows.origin[:, 0])  # (V, G)
        usual = np.log(self.prior.rows / len(self.sign))
        with np.errstate(divide="ignore"):
            log_n = self.rows.logs[:, 0] + np.log(row_density(log_rows.ravel(), usual, self.prior.row_weights)).reshape(
                log_rows.shape
            )
        log_n = np.where(log_rows >= 0, log_n + by_sum.sum(axis=1) + by_square.sum(axis=1), -np.inf)
        log_n = log_n + _others_total(normalised(log_n), log_rows, self.prior.rows)
        found = {Slot("count"): quantiles(np.exp(log_rows), normalised(log_n), self.level)}

        about_mean = self._about_factor(self.sums, normalised(log_n[:, None] - by_sum))
        about_square = self._about_factor(self.squares, normalised(log_n[:, None] - by_square))
        means, mean_mass = self._means(about_mean, negative)
        mean = quantiles(means, mean_mass, self.level)
        std = self._deviations(about_square, draws(means, mean_mass), found[Slot("count")])
        if not self.prior.sharp.all():
            mean, std = self._of_parts(mean, std, about_mean, about_square)
        if self.two.any():
            given = normalised(log_n[:, None] - by_sum[:, self.two])  # (V, two, G)
            usual_rows = found[Slot("count")].estimate
            for all_of, part in zip((mean, std), self._of_rates(given, usual_rows), strict=True):
                for ends, of_two in zip(all_of.ends, part.ends, strict=True):
                    ends[:, self.two] = of_two
        for i, f in enumerate(self.prior.features):
            found[Slot("sum", *f)] = mean.of(i)
            found[Slot("square", *f)] = std.of(i)
        return found

    def _about_rows(self, of: Curves, nodes: Floats, which: NDArray[np.int64]) -> Floats:
        """(V, F, G) log I_f(n): the mean of L_f(n m) over nodes m > 0 of the prior, `nodes[which]` (V, F, nodes)."""
        first = of.origin - self.rows.origin - (self.grid.size - 1)  # m = x / n on the lattices of x and n
        masses = Histogram.at(np.log(nodes) / self.grid.step)
        features = np.arange(nodes.shape[1])
        chosen = Histogram(masses.first[which, features], masses.masses[which, features])
        value = of.weighed(chosen.between(first, 2 * self.grid.size - 1))
        log = np.log(np.maximum(value, FLOOR * value.max(axis=-1, keepdims=True)) + 1e-300)
        return np.where(of.silent[..., None], 0.0, (log - log.max(axis=-1, keepdims=True)) / self.alike[:, None])

    def _about_rows_by_rate(self) -> Floats:
        """(V, two, G) log I_f(n) of columns of two numbers."""
        if self.rates is None:
            return np.zeros((len(self.sign), 0, self.grid.size))
        sums, squares = (of.of(self.two) for of in self.alone)
        like = self.rates.likelihood(self.rows, sums, squares, self.sign[:, self.two], self.grid)
        value = np.einsum("fp,vfpg->vfg", self.rates.density, like)
        log = np.log(np.maximum(value, FLOOR * value.max(axis=-1, keepdims=True)) + 1e-300)
        return np.asarray(log - log.max(axis=-1, keepdims=True))

    def _of_rates(self, rows: Floats, usual: Floats) -> tuple[Interval, Interval]:
        """Means and deviations (V, two) of columns of two numbers, given n with masses `rows` (V, two, G)."""
        rates = self.rates
        assert rates is not None  # where a column has two numbers
        sums, squares = (of.of(self.two) for of in (self.sums, self.squares))
        like = rates.likelihood(self.rows, sums, squares, self.sign[:, self.two], self.grid)
        mass = rates.density * np.einsum("vfpg,vfg->vfp", like, rows)
        mass = np.where(mass.sum(axis=-1, keepdims=True) > 0, mass, rates.density)
        return rates.intervals(mass, sums.silent, usual, self.level)

    def _of_parts(
        self, mean: Interval, std: Interval, about_mean: tuple[Floats, Floats], about_square: tuple[Floats, Floats]
    ) -> tuple[Interval, Interval]:
        """Means and deviations, those of features that are not `sharp` from the parts alone: the prior is flat in the
        log of the mean, and a deviation is anything up to the root of the mean square.
        """
        size, root = (
            np.exp((first[..., None] + self.grid.step * np.arange(value.shape[-1])) / power)
            for (value, first), power in ((about_mean, 1), (about_square, 2))
        )
        alone = quantiles(*in_order(self.sign[..., None] * size, _anywhere(about_mean[0])), self.level)
        none = np.sqrt(vanished(alone.estimate, self.prior.centre))  # deviations that leave no square
        most = np.where(self.squares.silent, none, quantiles(root, _anywhere(about_square[0]), self.level).high)
        sharp = self.prior.sharp
        return (
            Interval(*(np.where(sharp, a, b) for a, b in zip(mean.ends, alone.ends, strict=True))),
            Interval(
                np.where(sharp, std.estimate, np.minimum(std.estimate, most)),
                np.where(sharp, std.low, 0.0),
                np.where(sharp, std.high, most),
            ),
        )

    def _about_factor(self, of: Curves, rows: Floats) -> tuple[Floats, Floats]:
        """(V, F, 2G - 1) E L_f(n m) over n with masses `rows` (V, F, G), and (V, F) the log of the first m."""
        first = np.asarray(self.grid.step * (of.origin - self.rows.origin - (self.grid.size - 1)), np.float64)
        return np.where(of.silent[..., None], 1.0, of.shifted(rows)), first

    def _means(self, about: tuple[Floats, Floats], negative: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """(V, F, nodes) values of the mean and their posterior masses, where the posterior is: first on nodes of the
        prior, and, where parties are far apart and these therefore sparse, on nodes of what the parts say.
        """
        rising = np.stack([self.nodes[0], -self.nodes[1, :, ::-1]])  # (2, F, nodes)
        expected = np.abs(self.sign)[..., None] * rising[negative, np.arange(len(self.prior.features))]
        value, first = about
        low, high = span(np.broadcast_to(self.grid.step * np.arange(value.shape[-1]), value.shape), value)
        told = self.sign[..., None] * np.exp((first + low)[..., None] + (high - low)[..., None] * INSIDE)
        far = (self.prior.far > 0.5)[:, None]
        nodes = np.sort(np.concatenate([expected, np.where(far, told, expected)], axis=-1), axis=-1)
        gaps = np.diff(nodes, axis=-1, prepend=-np.inf, append=np.inf)
        by_density = self._mean_density(nodes, about) * np.minimum(gaps[..., :-1], gaps[..., 1:])
        mass = _anywhere(np.where(far, by_density, self._weigh(about, nodes)))
        for _ in range(2):
            low, high = span(nodes, mass)
            nodes = low[..., None] + (high - low)[..., None] * INSIDE
            mass = _anywhere(self._mean_density(nodes, about))
        return nodes, np.where(self.sums.silent[..., None], 1.0, mass)  # all nodes are 0 where the sign is 0

    def _mean_density(self, means: Floats, about: tuple[Floats, Floats]) -> Floats:
        """(V, F, nodes) posterior density, up to a factor: 0 on the other side of 0 than the parts."""
        scaled = (means - self.prior.mean[:, None]) / self.prior.spread[:, None]
        weighed = zip(self.apart, self.prior.mean_weights.T, strict=True)
        density = T3_PEAK * sum(w[:, None] * t3_density(scaled, a) for a, w in weighed) + self._loose(means)
        return np.where(means * self.sign[..., None] > 0, density * self._weigh(about, means), 0.0)

    def _loose(self, means: Floats) -> Floats:
        """(V, F, nodes) density, in S, of means of any size."""
        low, high = self.prior.sizes
        size, unit = np.abs(means), self.prior.spread * self.prior.loose / np.log(high / low) / 2
        inside = (size >= low[:, None]) & (size <= high[:, None])
        density: Floats = np.where(inside, unit[:, None] / np.where(inside, size, 1.0), 0.0)
        return density

    def _weigh(self, about: tuple[Floats, Floats], nodes: Floats) -> Floats:
        value, first = about
        with np.errstate(divide="ignore"):
            place = (np.log(np.abs(nodes)) - first[..., None]) / self.grid.step
        return interpolate(value, place)

    def _deviations(self, about: tuple[Floats, Floats], means: Floats, rows: Interval) -> Interval:
        """Of deviations, from draws (V, F, draws) of the mean; `rows` (V,). Low ends are 0 where a party may have a
        single row, or a column of one number.
        """
        away = (means[..., :: DRAWS // NODES] - self.prior.centre[:, None]) ** 2  # (V, F, nodes)
        tables = np.array([self.prior.ratio_density(max(n, 1.0)) for n in rows.estimate.tolist()])  # (V, F, RATIOS)
        ratios = np.broadcast_to(COARSE, (*away.shape[:2], len(COARSE)))
        for _ in range(2):
            low, high = span(ratios, self._weigh_ratios(about, tables, ratios, away))
            ratios = low[..., None] + (high - low)[..., None] * INSIDE
        std = self.prior.spread[:, None] * np.exp(ratios)
        found = quantiles(std, self._weigh_ratios(about, tables, ratios, away), self.level)
        constant = (found.low < CONSTANT * self.prior.spread) | (rows.low < 2)[:, None]
        low = np.where(constant, 0.0, found.low * self.prior.surely)
        return Interval(*(np.where(self.squares.silent, 0.0, x) for x in (found.estimate, low, found.high)))

    def _weigh_ratios(self, about: tuple[Floats, Floats], tables: Floats, ratios: Floats, away: Floats) -> Floats:
        """(V, F, nodes) posterior masses of log s / S at rising `ratios`, given draws (V, F, draws) of (m - c)^2; those
        of the prior (`tables`) where no draw goes together with what the parts say.
        """
        prior = interpolate(tables, (ratios - RATIOS[0]) / (RATIOS[1] - RATIOS[0]))
        squares = (self.prior.spread[:, None] * np.exp(ratios)) ** 2
        mass = np.empty_like(prior)
        for v, (value, first) in enumerate(zip(*about, strict=True)):  # of one party, since it takes memory
            around = squares[v, :, :, None] + away[v, :, None]  # (F, nodes, draws)
            place = (np.log(np.maximum(around, 1e-300)) - first[:, None, None]) / self.grid.step
            flat = place.reshape(len(place), place.shape[1] * place.shape[2])
            like = interpolate(value, flat).reshape(place.shape).mean(axis=-1)
            mass[v] = prior[v] * like
        return np.where(mass.sum(axis=-1, keepdims=True) > 0, mass, prior)


def _anywhere(mass: Floats) -> Floats:
    """Masses (..., nodes); even where no node has any, so that nothing is known of a number rather than all of it."""
    return np.where(mass.sum(axis=-1, keepdims=True) > 0, mass, 1.0)


def _mean_nodes(prior: Prior, apart: Floats) -> Floats:
    """(2, F, nodes) even quantiles of |m| under the prior, given that m is positive, then negative."""
    side = np.array([1.0, -1.0])[:, None, None]
    mean, scale = prior.mean[:, None], apart * prior.spread[:, None]  # (F, T)
    at_zero = t3_level(-side * mean / scale)  # mass on the far side of 0
    level = at_zero[..., None] + (1 - at_zero[..., None]) * INSIDE
    size = (side * mean)[..., None] + scale[..., None] * t3_quantile(level)
    size = np.maximum(size, 1e-6 * scale[..., None])  # (2, F, T, nodes)
    weight = np.maximum(prior.mean_weights * (1 - at_zero), 1e-12)  # (2, F, T)
    low, high = (x[:, None] for x in prior.sizes)
    loose = low * (high / low) ** INSIDE  # (F, nodes)
    size = np.concatenate([size, np.broadcast_to(loose, (2, *loose.shape))[:, :, None]], axis=2)
    weight = np.concatenate([weight, np.broadcast_to(prior.loose / 2, (2, len(loose)))[..., None]], axis=2)
    mixed = size.reshape(*size.shape[:2], size.shape[2] * NODES)
    mass = np.broadcast_to(weight[..., None], size.shape).reshape(mixed.shape)
    return at_levels(*in_order(mixed, mass), INSIDE)


def _square_nodes(prior: Prior, apart: Floats, coins: np.random.Generator) -> Floats:
    """(F, nodes) draws of e = s^2 + (m - c)^2 under the prior."""
    count = 4 * NODES
    levels = (np.arange(count) + 0.5) / count
    shift = _dealt(prior.shift_weights, coins.permutation(levels))
    sigma = _dealt(prior.std_weights, coins.permutation(levels))
    far, last = shift >= len(apart), len(LOG_STD_SPREADS) - 1
    sigma = np.where(far, last, sigma)
    mean = prior.mean[:, None] + prior.spread[:, None] * apart[np.minimum(shift, last)] * t3_quantile(levels)
    low, high = (x[:, None] for x in prior.sizes)
    away = np.abs(prior.mean) > REACH * prior.spread
    side = np.where(away[:, None], np.sign(prior.mean)[:, None], np.sign(coins.permutation(levels) - 0.5))
    loose = side * low * (high / low) ** coins.permutation(levels)
    mean = np.where(far & (coins.permutation(levels) < LOOSE), loose, mean)
    ratio = LOG_STD_SPREADS[sigma] * np.clip(coins.permutation(t3_quantile(levels)), -6, 6) - SHIFTS[shift]
    ratio = ratio - LOG_STD_SPREADS[sigma] ** 2
    square: Floats = (prior.spread[:, None] * np.exp(ratio)) ** 2 + (mean - prior.centre[:, None]) ** 2
    return np.maximum(square, 1e-280)


def _dealt(weights: Floats, levels: Floats) -> NDArray[np.int64]:
    """(F, levels) which of T components each level belongs to, by weights (F, T)."""
    edges = np.cumsum(weights, axis=-1)[:, :-1]
    numbers: NDArray[np.int64] = (levels[None, :, None] > edges[:, None, :]).sum(axis=-1)
    return numbers


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
