"""How far parties are apart: the prior of a party's rows, means and deviations, its scales learnt from the own tables.

Of the group outside, totals are known: N rows of V parties, per feature a mean M and a deviation S. A party has

    log(n V / N) ~ Normal(-rho^2 / 2, rho)
    (m - M) / S  ~ tau t3
    log(s / S)   ~ sigma t3 - sigma^2 - log(1 + tau^2) / 2

M and S are what is left of sums: where large numbers cancel, it may be their rounding. S is then taken as large as it
may be, and large enough beside what M may be off by.

S is a mean of squares and holds the distance of the means too, hence the last terms. Parties may be so far apart that S
is little else. Then

    log(s / S)   ~ 0.7 t3 - shift       shift one of `FAR`
    m  even in log |m| as far as `REACH` S from M, half of the time, else as above with tau = 1

The own deviations say how likely that is (`far`), where they are far below S. They say so of the observers alone: one
whose column varies little has the same S beside it. So of others' deviations s, that they are near S keeps half of the
weight, however small the own ones are.

The scales rho, tau and sigma are unknown: each is one of five, so that a prior is a mixture. An observer's own table
says how far *its* figures are from M and S; the weights of the mixture are those given all observers' figures: per
feature, around weights that all features share (a few steps of expectation maximisation, with `STRENGTH` features'
worth of `BASE` behind them). So where the own tables are like the rest, intervals shrink towards M and S; where they
differ, they widen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.transcript.statistics.own import OwnTable

Floats = NDArray[np.float64]
ROW_SPREADS = np.array([0.1, 0.2, 0.4, 0.8, 1.2])
MEAN_SPREADS = np.array([0.06, 0.12, 0.25, 0.5, 1.0])
LOG_STD_SPREADS = np.array([0.04, 0.09, 0.18, 0.35, 0.7])
BASE = np.array([0.05, 0.10, 0.20, 0.35, 0.30])
STRENGTH, STEPS = 2.0, 8
SHARP = 0.01  # of a number: what rounding may take from it, and it still says something
FREEDOM = 3.0
T3_PEAK = 2 / (np.pi * np.sqrt(FREEDOM))  # the factor that `t3_density` leaves out
NEAR = 0.5 * np.log1p(MEAN_SPREADS**2)
FAR = np.array([0.75, 1.5, 3.0, 6.0, 12.0])
SHIFTS = np.concatenate([NEAR, FAR])  # by how much log s is below log S
FAR_BASE, AT_MOST = 0.05, 0.5  # the weight of `FAR` before own figures; the most that it has for others' deviations
LOOSE = 0.5  # of parties far apart: how many have a mean of any size
REACH, LEAST = 5.0, 1e-6  # S: how far from M such a mean is at most, and how large at least
NO_DEVIATION = -16.0  # log s / S below which an own deviation is rounding
RATIOS = np.linspace(-24.0, 8.0, 1601)
_ARGUMENTS = np.sinh(np.linspace(-12.0, 0.0, 2001))


@dataclass(frozen=True)
class Prior:
    """What the group outside has together, and weights of how far its members are apart.

    Rows; per feature (F,) mean, deviation, the centre of squares, and how far rounding may have taken the mean and the
    square of the deviation; weights (5,) of `ROW_SPREADS`, (F, 5) of `MEAN_SPREADS`, (F, 10) of `SHIFTS` and (F, 5) of
    `LOG_STD_SPREADS` where parties are not far apart. `far` (F,) is how likely it is that they are; those of them with
    a mean of any size are not in `mean_weights`, which therefore sum to 1 - `loose`.
    """

    rows: float
    features: tuple[tuple[str, str], ...]
    mean: Floats = field(repr=False)
    std: Floats = field(repr=False)
    centre: Floats = field(repr=False)
    mean_within: Floats = field(repr=False)
    variance_within: Floats = field(repr=False)
    row_weights: Floats = field(repr=False)
    far: Floats = field(repr=False)
    mean_weights: Floats = field(repr=False)
    shift_weights: Floats = field(repr=False)
    std_weights: Floats = field(repr=False)

    @property
    def spread(self) -> Floats:
        """(F,) the most that the deviation may be, positive: means are told apart by shares of it."""
        most = np.maximum(np.sqrt(self.std**2 + self.variance_within), self.mean_within / MEAN_SPREADS[0])
        floor: Floats = np.maximum(most, 1e-9 * np.abs(self.mean) + 1e-300)
        return floor

    @property
    def loose(self) -> Floats:
        """(F,) the weight of a mean of any size."""
        return LOOSE * self.far

    @property
    def sizes(self) -> tuple[Floats, Floats]:
        """(F,) how small and how large |m| may be where it has any size."""
        size = np.abs(self.mean)
        return np.maximum(size - REACH * self.spread, LEAST * self.spread), size + REACH * self.spread

    @property
    def sharp(self) -> NDArray[np.bool_]:
        """(F,) where rounding is small beside mean or deviation, so that the group's totals say what a party has."""
        lost = np.maximum(np.sqrt(self.variance_within), self.mean_within / MEAN_SPREADS[0])
        kept: NDArray[np.bool_] = lost <= SHARP * np.maximum(self.std, np.abs(self.mean))
        return kept

    @property
    def surely(self) -> Floats:
        """(F,) what share of `spread` the deviation has at least: 1 but for rounding."""
        share: Floats = np.sqrt(np.maximum(self.std**2 - self.variance_within, 0.0)) / self.spread
        return share

    def alike(self, victims: int) -> Floats:
        """(F,) in how many features together each says the same about the rows of a party, where parties are far apart.

        Of two parties, the mean of one is then about S sqrt(n' / n) from M, n' being the other's rows: one relation,
        the same in every feature, and in squares as in sums. There means that may be as far apart as S are far, too.
        """
        two = victims == 2
        far = self.far + self.mean_weights[:, -1] if two else self.far
        together: Floats = 1 + far * ((2 if two else 1) * far.sum() - far)
        return together

    def ratio_density(self, rows: float = np.inf) -> Floats:
        """(F, RATIOS) density of log(s / S) of a party with so many rows, up to a factor: the fewer, the further off a
        deviation may be by chance, by 1 / sqrt(rows) in its logarithm (of normal columns it is 0.7 of that).
        """
        both = self.shift_weights[:, :, None] * self.std_weights[:, None, :]  # (F, shift, sigma)
        both[:, len(NEAR) :] = self.shift_weights[:, len(NEAR) :, None] * np.eye(len(LOG_STD_SPREADS))[-1]
        scales = np.sqrt(LOG_STD_SPREADS**2 + 1 / rows)
        known = np.array([t3_density(RATIOS + shift + s**2, s) for shift in SHIFTS for s in scales])
        density: Floats = both.reshape(len(both), len(known)) @ known
        return density


def prior(
    rows: float,
    features: tuple[tuple[str, str], ...],
    mean: Floats,
    std: Floats,
    centre: Floats,
    tables: Mapping[str, OwnTable],
    victims: int,
    within: tuple[Floats, Floats] | None = None,
) -> Prior:
    """The prior of each of so many parties, its scales learnt from the observers' own tables. `within`: how far
    rounding may have taken the means and the squares of the deviations (F,) each; nowhere where nothing is given.
    """
    mean_within, variance_within = (np.zeros(len(features)),) * 2 if within is None else within
    own_rows = np.array([max(t.rows, 1) for t in tables.values()], np.float64)
    columns = [np.reshape([t.column(*f) for f in features], (len(features), t.rows)) for t in tables.values()]
    with np.errstate(invalid="ignore"):
        own_mean, own_std = (
            np.array([c.sum(axis=1) for c in columns]) / own_rows[:, None],
            np.array([c.std(axis=1) if c.shape[1] else np.zeros(len(c)) for c in columns]),
        )
    most = np.sqrt(std**2 + variance_within)
    told = most > np.maximum(1e-9 * np.abs(mean), mean_within)
    scale = np.where(told, most, 1.0)
    apart = np.where(told, (own_mean - mean) / scale, np.nan)
    near = learnt(apart, MEAN_SPREADS)
    with np.errstate(divide="ignore"):
        ratio = np.log(own_std / scale)
    sharp = told & (variance_within < SHARP * std**2)
    ratio = np.where(sharp & (own_rows[:, None] > 1), ratio, np.nan)
    far, std_weights = _deviations_apart(ratio, near @ NEAR, own_rows)
    chance = far.sum(axis=1)
    mean_weights = near * (1 - chance[:, None])
    mean_weights[:, -1] += (1 - LOOSE) * chance
    far *= np.minimum(1.0, AT_MOST / np.maximum(chance, AT_MOST))[:, None]
    shift_weights = np.concatenate([near * (1 - far.sum(axis=1, keepdims=True)), far], axis=1)
    density = row_density(np.log(own_rows), np.log(rows / victims), np.eye(len(ROW_SPREADS)))
    row_weights = BASE * density.prod(axis=1)
    row_weights /= row_weights.sum()
    return Prior(
        rows,
        features,
        mean,
        std,
        centre,
        mean_within,
        variance_within,
        row_weights,
        chance,
        mean_weights,
        shift_weights,
        std_weights,
    )


def _deviations_apart(ratio: Floats, near: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """(F, 5) weights of `FAR` and (F, 5) of `LOG_STD_SPREADS`, given log s / S (k, F) of observers with so many `rows`
    (k,) and the shift (F,) of parties that are not far apart; NaN says nothing, and a column that is the same number
    over and over makes it likely that s is next to nothing, in this feature alone.
    """
    constant = ratio < NO_DEVIATION
    ratio = np.where(constant, np.nan, ratio)
    shifts = np.concatenate([near[:, None], np.broadcast_to(FAR, (len(near), len(FAR)))], axis=1)  # (F, 6)
    off = ratio[..., None, None] + shifts[..., None] + LOG_STD_SPREADS**2  # (k, F, 6, sigma)
    by_chance = np.sqrt(LOG_STD_SPREADS**2 + 1 / rows[:, None])[:, None, None]
    base = np.array([1 - FAR_BASE, *np.full(len(FAR), FAR_BASE / len(FAR))])
    weights = _weighed(t3_density(off, by_chance) @ BASE, base)
    weights[constant.any(axis=0)] = np.eye(len(base))[-1]
    return weights[:, 1:], _weighed((weights[..., None] * t3_density(off, LOG_STD_SPREADS)).sum(axis=-2), BASE)


def learnt(deviations: Floats, spreads: Floats) -> Floats:
    """(F, T) weights of the spreads given deviations (k, F); NaN says nothing."""
    return _weighed(t3_density(deviations[..., None], spreads), BASE)


def _weighed(likelihoods: Floats, base: Floats) -> Floats:
    """(F, T) weights given likelihoods (k, F, T) and the `base` (T,) of those that features share."""
    likelihood = np.where(np.isnan(likelihoods), 1.0, likelihoods).prod(axis=0)
    likelihood = np.maximum(likelihood / likelihood.max(axis=-1, keepdims=True), 1e-12)
    shared = base
    for _ in range(STEPS):
        weights = likelihood * shared
        weights /= weights.sum(axis=-1, keepdims=True)
        shared = (STRENGTH * base + weights.sum(axis=0)) / (STRENGTH + len(weights))
    result: Floats = weights
    return result


def t3_density(x: Floats, scale: Floats) -> Floats:
    """Student's t with three degrees of freedom, up to a constant factor."""
    density: Floats = 1.0 / (scale * (1 + (x / scale) ** 2 / FREEDOM) ** 2)
    return density


def row_density(logs: Floats, centre: float, weights: Floats) -> Floats:
    """(..., rows) mixture over `ROW_SPREADS` with `weights` (..., 5) of the density of log n, up to a factor."""
    scaled = (logs[:, None] - centre + 0.5 * ROW_SPREADS**2) / ROW_SPREADS
    density: Floats = weights @ (np.exp(-0.5 * scaled**2) / ROW_SPREADS).T
    return density


def t3_level(x: Floats) -> Floats:
    """The distribution function of t with three degrees of freedom."""
    u = x / np.sqrt(FREEDOM)
    level: Floats = 0.5 + (u / (1 + u**2) + np.arctan(u)) / np.pi
    return level


_LEVELS = np.maximum.accumulate(t3_level(_ARGUMENTS))


def t3_quantile(level: Floats) -> Floats:
    """Its inverse, in [1e-13, 1 - 1e-13]."""
    half = np.clip(np.minimum(level, 1 - level), 1e-13, 0.5)
    below = np.interp(half, _LEVELS, _ARGUMENTS)
    quantile: Floats = np.where(level < 0.5, below, -below)
    return quantile
