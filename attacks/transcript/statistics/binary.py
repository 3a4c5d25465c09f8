"""Columns of two numbers a < b: all that a party's sums say is one rate p, the share of b among its n rows.

    mean  a + (b - a) p      deviation  (b - a) sqrt(p (1 - p))      squares around c  (a-c)^2 + p ((b-c)^2 - (a-c)^2)

That a column is of two numbers is no guess: the own rows name them, and over all parties outside sum (x - a)(x - b) is
0, which the totals show. Their parts of sums and of squares both speak about n p, and means, deviations and quartiles
follow from one posterior of p, on `NODES` nodes of its logit, given n on its lattice:

    p(p | parts) ~ p(p) sum_n p(n | other features) L_sum(n m(p)) L_square(n e(p))

The prior of logit p is Student's t around the pooled rate, its scale one of `SPREADS`, weighed by how far the
observers' own rates are from it (`prior.learnt`). A rate is a whole number of rows over n, so an upper end that leaves
less than one row is 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.observed.stated import NEAR_ZERO
from leakledger.attacks.transcript.statistics.curves import Curves
from leakledger.attacks.transcript.statistics.grids import Interval, interpolate, quantiles
from leakledger.attacks.transcript.statistics.own import OwnTable
from leakledger.attacks.transcript.statistics.prior import learnt, t3_density
from leakledger.attacks.transcript.statistics.proportions import Lattice

Floats = NDArray[np.float64]
Pair = tuple[float, float]

SPREADS = np.array([0.1, 0.25, 0.5, 1.0, 2.0])  # of logit p between parties
NODES = np.linspace(-9.0, 9.0, 81)
SAME = 1e-7  # relative: two ways to a variance agree


def two_numbers(tables: Mapping[str, OwnTable], feature: str, value: str, mean: float, std: float) -> Pair | None:
    """The numbers of a column that has two, by the own rows and by mean and deviation of all others together."""
    pair = own_pair(tables, feature, value)
    return pair if pair and pair[0] < mean < pair[1] and is_of(pair, mean, std) else None


def own_pair(tables: Mapping[str, OwnTable], feature: str, value: str = "") -> Pair | None:
    """The two numbers that the own rows have, or 0 and 1 where they have one of these or none; none whose squares would
    show nothing (`stated.vanished`).
    """
    own = np.unique(np.concatenate([np.zeros(0), *(t.column(feature, value) for t in tables.values())])).tolist()
    pair = (own[0], own[1]) if len(own) == 2 else (0.0, 1.0)
    return pair if set(own) <= set(pair) and pair[1] - pair[0] > NEAR_ZERO else None


def is_of(pair: Pair, mean: float, std: float) -> bool:
    """Whether rows with these moments have the two numbers alone, or only one of them."""
    a, b = pair
    return abs(std**2 - (mean - a) * (b - mean)) <= SAME * (b - a) ** 2


@dataclass(frozen=True)
class Rates:
    """The prior of the rates of the F features, of all features those in `two`, that have two numbers each, (F, 2): the
    density of each node (F, nodes), and what squares are around (F,).
    """

    two: NDArray[np.bool_] = field(repr=False)
    numbers: Floats
    density: Floats = field(repr=False)
    centre: Floats

    @classmethod
    def of(
        cls,
        features: Sequence[tuple[str, str]],
        tables: Mapping[str, OwnTable],
        mean: Floats,
        std: Floats,
        centre: Floats,
    ) -> "Rates | None":
        """Of features with these moments (F,) over all parties outside; None where no column has two numbers."""
        moments = zip(features, mean.tolist(), std.tolist(), strict=True)
        pairs = [two_numbers(tables, *f, m, s) for f, m, s in moments]
        two = np.array([p is not None for p in pairs], np.bool_)
        if not two.any():
            return None
        numbers = np.array([p for p in pairs if p is not None])
        chosen = [(f, p) for f, p in zip(features, pairs, strict=True) if p is not None]
        own = np.array([[_own_logit(t.column(*f), p) for f, p in chosen] for t in tables.values()])
        pooled = _logit((mean[two] - numbers[:, 0]) / (numbers[:, 1] - numbers[:, 0]))
        weights = learnt(own - pooled, SPREADS)  # (F, T)
        off = NODES - pooled[:, None]
        density = np.einsum("ft,tfp->fp", weights, np.array([t3_density(off, s) for s in SPREADS]))
        return cls(two, numbers, density / density.sum(axis=1, keepdims=True), centre[two])

    def pairs(self, features: Sequence[tuple[str, str]]) -> dict[str, Pair]:
        """The two numbers of each of `features`, all that there are, which has two and is no category."""
        chosen = [f for f, two in zip(features, self.two.tolist(), strict=True) if two]
        return {f: (a, b) for (f, value), (a, b) in zip(chosen, self.numbers.tolist(), strict=True) if not value}

    @property
    def rate(self) -> Floats:
        """(nodes,)."""
        rate: Floats = 1 / (1 + np.exp(-NODES))
        return rate

    @property
    def mean(self) -> Floats:
        """(F, nodes)."""
        a, b = self.numbers[:, :1], self.numbers[:, 1:]
        mean: Floats = a + (b - a) * self.rate
        return mean

    @property
    def square(self) -> Floats:
        """(F, nodes) mean squares around the centre."""
        low, high = ((self.numbers - self.centre[:, None]) ** 2).T[..., None]
        square: Floats = low + self.rate * (high - low)
        return np.maximum(square, 1e-280)

    def likelihood(self, rows: Curves, sums: Curves, squares: Curves, sign: Floats, grid: Lattice) -> Floats:
        """(V, F, nodes, G) of the parts of sums and squares, given the rate and each n of the lattice of `rows`."""
        found: Floats = np.asarray(1.0)
        for of, factor in ((sums, self.mean), (squares, self.square)):
            scaled = np.exp(of.logs - of.logs.max(axis=-1, keepdims=True))
            with np.errstate(divide="ignore"):
                log = np.log(np.abs(factor))
            first = (rows.origin - of.origin)[..., None] + log / grid.step  # (V, F, nodes)
            place = first[..., None] + np.arange(grid.size)
            value = interpolate(scaled, place.reshape(*place.shape[:2], -1)).reshape(place.shape)
            found = found * np.where(of.silent[..., None, None], 1.0, value)
        fits = (np.sign(self.mean) == sign[..., None]) | sums.silent[..., None]
        likelihood: Floats = np.where(fits[..., None], found, 0.0)
        return likelihood

    def intervals(
        self, mass: Floats, silent: NDArray[np.bool_], rows: Floats, level: float
    ) -> tuple[Interval, Interval]:
        """Of means and deviations, each (V, F), from masses (V, F, nodes) of the rate; `rows` (V,) is usual.

        The deviation goes from the least to the greatest that rates in the interval give: half the range where one half
        is among them. A sum of 0 is the rate 0 where a is 0, for certain.
        """
        rate = np.broadcast_to(self.rate, mass.shape)
        found = quantiles(rate, mass, level)
        high = np.where((1 - found.high) * rows[:, None] < 1, 1.0, found.high)
        low = np.where(found.low * rows[:, None] < 1, np.where(self.numbers[:, 0] == 0, found.low, 0.0), found.low)
        a, wide = self.numbers[:, 0], self.numbers[:, 1] - self.numbers[:, 0]
        ends = np.sqrt(low * (1 - low)), np.sqrt(high * (1 - high))
        most = np.where((low < 0.5) & (high > 0.5), 0.5, np.maximum(*ends))
        usual = np.sqrt(found.estimate * (1 - found.estimate))
        none = silent & (a == 0)
        mean = Interval(*(np.where(none, 0.0, a + wide * x) for x in (found.estimate, low, high)))
        std = Interval(*(np.where(none, 0.0, wide * x) for x in (usual, np.minimum(*ends), most)))
        return mean, std


def _logit(rate: Floats) -> Floats:
    inside = np.clip(rate, 1e-4, 1 - 1e-4)
    logit: Floats = np.log(inside / (1 - inside))
    return logit


def _own_logit(column: Floats, pair: Pair) -> float:
    """Of an own rate, half a row away from 0 and 1; NaN without rows."""
    if not len(column):
        return float("nan")
    rate = (float((column == pair[1]).sum()) + 0.5) / (len(column) + 1)
    return float(np.log(rate / (1 - rate)))
