"""Columns of few digits from their quotients: a fraction in lowest terms is most often numerator and denominator.

No equation determines two columns by their quotient. But 37 / 120 is told to 15 digits, and of all fractions with such
small numbers one alone fits: two whole numbers have no common divisor with the chance 6/pi^2, 61 %, three numbers 83 %.
So the columns that quotients join are known record by record up to one whole factor, for most records 1; of decimals up
to the power of ten that makes them whole. An estimate: nothing says in which records there is a common divisor.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import lcm

import numpy as np

from leakledger.attacks.base import ColumnClaim
from leakledger.attacks.transcript.feature_exchange.equations import Column, Solved, Unknown
from leakledger.attacks.transcript.feature_exchange.exchanged import Loop
from leakledger.preprocess.views import View

CHANCE = 1e-4  # that a fraction which is taken for a number is near it by chance, at most
LARGEST = 10**6  # denominator that is looked for
FEW = 0.9  # of the records must be such fractions: else columns have too many digits
SAMPLE = 200  # records that are looked at first
FAR = 3.0  # times the median: a record this far below is taken to have a common divisor

Ratios = list[Fraction | None]  # of each record; None: no fraction of small numbers


def from_quotients(view: View, known: Mapping[Unknown, Solved], exchanged: Sequence[Loop]) -> Iterator[ColumnClaim]:
    """A claim for each column that no equation determines and that quotients of few digits join to others."""
    made = {
        (loop.first, loop.second): solved
        for loop in exchanged
        if loop.how == "quotient" and not {loop.first, loop.second} & known.keys() and (solved := loop.made)
    }
    ratios = {pair: found for pair, solved in made.items() if (found := _fractions(solved)) is not None}
    for group in _joined(ratios):
        evidence = tuple(sorted({e for pair in ratios if pair[0] in group for e in made[pair].evidence}))
        signs = any(r is not None and r < 0 for found in group.values() for r in found)
        for (_, device, feature), values in _lowest_terms(group).items():
            if device not in view.observers:
                yield ColumnClaim(device, feature, values, evidence, "magnitude-estimate" if signs else "estimate")


def _fractions(quotient: Solved) -> Ratios | None:
    """Of each record the fraction that its quotient is, if nearly all are fractions of small numbers."""
    values = quotient.values
    near = 5 * np.broadcast_to(quotient.noise, values.shape)
    pairs = list(zip(values.tolist(), near.tolist(), strict=True))
    if not _few([_fraction(*p) for p in pairs[:SAMPLE]]):  # of columns of many digits no more is worked out
        return None
    found = [_fraction(*p) for p in pairs]
    return found if _few(found) else None


def _few(found: Ratios) -> bool:
    return sum(f is not None for f in found) >= FEW * len(found) > 0


def _fraction(value: float, near: float) -> Fraction | None:
    if not np.isfinite([value, near]).all():
        return None
    most = LARGEST if near == 0 else int(min(LARGEST, (CHANCE / near) ** 0.5))
    found = Fraction(value).limit_denominator(max(most, 1))
    return found if abs(found - Fraction(value)) <= near else None


def _joined(ratios: Mapping[tuple[Unknown, Unknown], Ratios]) -> Iterator[dict[Unknown, Ratios]]:
    """Groups of columns that quotients join: of each its ratio to the first of the group."""
    left = dict.fromkeys(u for pair in ratios for u in pair)
    while left:
        start = next(iter(left))
        pair = next(p for p in ratios if start in p)
        group: dict[Unknown, Ratios] = {start: [Fraction(1)] * len(ratios[pair])}
        queue = [start]
        for u in queue:
            for (first, second), quotients in ratios.items():
                if u == first and second not in group:
                    group[second] = [_over(x, q) for x, q in zip(group[u], quotients, strict=True)]
                    queue.append(second)
                elif u == second and first not in group:
                    group[first] = [_times(x, q) for x, q in zip(group[u], quotients, strict=True)]
                    queue.append(first)
        left = {u: None for u in left if u not in group}
        yield group


def _over(x: Fraction | None, q: Fraction | None) -> Fraction | None:
    return x / q if x is not None and q else None


def _times(x: Fraction | None, q: Fraction | None) -> Fraction | None:
    return x * q if x is not None and q is not None else None


def _lowest_terms(group: Mapping[Unknown, Ratios]) -> dict[Unknown, Column]:
    """The magnitudes (n,) of each column as whole numbers without a common divisor; NaN where a ratio is missing.

    A record that lies far below the others in all columns is brought to their medians: there it has a divisor.
    """
    records = list(zip(*group.values(), strict=True))
    whole = np.full((len(records), len(group)), np.nan)
    for i, ratios in enumerate(records):
        told = [r for r in ratios if r]
        if len(told) == len(ratios):
            unit = lcm(*(r.denominator for r in told))
            whole[i] = [float(abs(r) * unit) for r in told]
    known = np.isfinite(whole).all(axis=1)
    if known.any():
        below = np.exp(np.log(np.median(whole[known], axis=0) / whole[known]).mean(axis=1, keepdims=True))
        whole[known] *= np.where(below > FAR, np.round(below), 1.0)
    return dict(zip(group, whole.T, strict=True))
