"""Every statistics mechanism in two worlds that are as far apart as one record can bring them: what audits are run on.

A world is run through the very functions that clients run (`preprocess/noise`), many times at once: columns, cells or
draws are copies of each other, and each has noise of its own. The claim beside it is the accountant's.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from math import ceil

import numpy as np

from leakledger.audit.dp_audit.audited import Audited, Draw, Worlds
from leakledger.defenses.accounting.releases import Release, composed_epsilon
from leakledger.preprocess.noise.calibration import Noise, noise_for
from leakledger.preprocess.noise.categories import noised_table
from leakledger.preprocess.noise.columns import FINE, Ranges, both_ends, end_target, exact_moments, noised_numbers
from leakledger.preprocess.noise.integers import Below, Whole, from_generator
from leakledger.preprocess.noise.ranks import Target, quantile_target

LAPLACE, GAUSSIAN = (1.0, 0.0), (4.3772, 1e-5)  # budgets of a client; of one number the second is mu = 1
BUDGETS = {"discrete Laplace": LAPLACE, "discrete Gaussian": GAUSSIAN}
PLACES, RARE = 256, 3  # a grid of few places, of which so many are below all rows: the rarer, the nearer to the bound
COLUMN = Ranges(("dose",), ((10.0, 30.0),))
FEW = np.array([[20.0], [20.0]])  # two rows in the middle of the range
MORE = np.vstack([FEW, [[30.0]]])  # and one at its end, which moves count, sum and sum of squares by 1 each
COUNT, SUM, SQUARE = range(3)


def mechanisms() -> Iterator[Audited]:
    """All of them: numbers alone, all numbers that one client sends of a column, and tables, under both kinds of noise;
    extremes and quantiles at either end.
    """
    for kind, budget in BUDGETS.items():
        worlds = {"count": _number(COUNT), "sum": _number(SUM), "sum of squares": _number(SQUARE)}
        worlds |= {"table": _table, "whole message": _message}
        for what, of in worlds.items():
            numbers_told = 3 if what == "whole message" else 1
            noise = noise_for(*budget, numbers_told)
            yield Audited(f"{what}, {kind}", _claimed(noise, numbers_told, budget[1]), budget[1], _with(of, noise))
    epsilon = LAPLACE[0]
    ranks = {"extreme": (end_target(epsilon, None), 3), "quartile": (end_target(epsilon, Fraction(1, 4)), 3)}
    for what, (target, rows) in ranks.items():
        for end, name in enumerate(("lowest", "highest")):
            yield Audited(f"{name} {what}, exponential", epsilon, 0.0, _ranks(target, rows, epsilon, end))
    median = quantile_target(Fraction(1, 2))
    yield Audited("median, exponential", epsilon, 0.0, _ranks(median, 1, epsilon, 0))


def _claimed(noise: Noise, numbers: int, delta: float) -> float:
    """The accountant's epsilon of so many numbers."""
    if delta == 0:
        return numbers * noise.sensitivity / noise.scale
    return composed_epsilon([Release(noise.kind, noise.sensitivity, noise.scale)] * numbers, None, delta, "add-remove")


def _with(worlds: Callable[[int, Below, Noise], Worlds], noise: Noise) -> Draw:
    def draw(samples: int, coins: np.random.Generator, strength: float) -> Worlds:
        return worlds(samples, from_generator(coins), replace(noise, scale=ceil(noise.scale * strength)))

    return draw


def _told(rows: np.ndarray, samples: int, below: Below, noise: Noise) -> Whole:
    """(samples, 3) count, sum and sum of squares of a column, each under noise."""
    exact = exact_moments(rows, COLUMN)
    told: Whole = noised_numbers(np.tile(exact, samples), noise, below).reshape(samples, len(exact))
    return told


def _number(which: int) -> Callable[[int, Below, Noise], Worlds]:
    def worlds(samples: int, below: Below, noise: Noise) -> Worlds:
        exact = [np.full(samples, exact_moments(rows, COLUMN)[which]) for rows in (MORE, FEW)]
        one, other = (noised_numbers(numbers, noise, below) for numbers in exact)
        return one, other

    return worlds


def _message(samples: int, below: Below, noise: Noise) -> Worlds:
    """The likelihood ratio of all three numbers. Of Laplace noise, how far each is between what the two worlds have."""
    few, more = (exact_moments(rows, COLUMN) // (FINE // noise.sensitivity) for rows in (FEW, MORE))
    told = [_told(rows, samples, below, noise) for rows in (MORE, FEW)]
    if noise.kind == "discrete-laplace":
        told = [np.clip(numbers, few, more) for numbers in told]
    return told[0].sum(axis=1), told[1].sum(axis=1)


def _table(samples: int, below: Below, noise: Noise) -> Worlds:
    """Two rows in each cell, and three."""
    few, more = (np.repeat(np.arange(samples), n) for n in (2, 3))
    return noised_table(more, samples, noise, below), noised_table(few, samples, noise, below)


def _ranks(target: Target, rows: int, epsilon: float, end: int) -> Draw:
    """Equal rows near one end of the grid, so that few places are beyond them; and one more row at the very end.

    Places beyond are then one rank nearer to the target and the others one farther, which is all that one record can
    do; as few places are beyond, the chance of one of them grows by nearly exp(epsilon).
    """
    few = np.full(rows, RARE)
    more = np.append(few, 0)

    def draw(samples: int, coins: np.random.Generator, strength: float) -> Worlds:
        below, drawn = from_generator(coins), []
        for places in (more, few):
            at = places if end == 0 else PLACES - places
            drawn.append(both_ends(at, target, epsilon / strength, below, samples, PLACES)[end])
        one, other = (-d if end == 0 else d for d in drawn)
        return one, other

    return draw
