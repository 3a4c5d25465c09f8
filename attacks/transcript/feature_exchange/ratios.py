"""Columns of few digits from their quotients: a fraction in lowest terms is most often numerator and denominator.

No equation determines two columns by their quotient. But 37 / 120 is told to 15 digits, and of all fractions with such
small numbers one alone fits: two whole numbers have no common divisor with the chance 6/pi^2, 61 %, three numbers 83 %.
So the columns that quotients join are known record by record up to one whole factor, for most records 1; beside
decimals up to what makes these whole. An estimate: that a factor moves all columns of a record says how large it is.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import lcm

import numpy as np

from leakledger.attacks.base import ColumnClaim
from leakledger.attacks.transcript.feature_exchange.equations import Column, Solved, Unknown
from leakledger.attacks.transcript.feature_exchange.exchanged import Loop, made_of_unknown
from leakledger.attacks.transcript.feature_exchange.mixtures import variances
from leakledger.preprocess.views import View

CHANCE = 1e-4  # that a fraction which is taken for a number is near it by chance, at most
LARGEST = 10**6  # denominator that is looked for
FEW = 0.9  # of the records must be such fractions: else columns have too many digits
SAMPLE = 200  # records that are looked at first
FACTORS = np.array([digit * ten for ten in (0.01, 0.1, 1.0, 10.0, 100.0) for digit in range(1, 10)])
RARE = 0.01  # how often there is each but 1, to begin with
LEAST_ERROR = 0.05  # of a factor's logarithm
ROUNDS = 30

Ratios = list[Fraction | None]  # of each record; None: no fraction of small numbers


def from_quotients(view: View, known: Mapping[Unknown, Solved], exchanged: Sequence[Loop]) -> Iterator[ColumnClaim]:
    """A claim for each column that no equation determines and that quotients of few digits join to others."""
    made = {(loop.first, loop.second): solved for loop, solved in made_of_unknown(exchanged, known, ("quotient",))}
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
    """The magnitudes (n,) of each column as whole numbers without a common divisor, times the likeliest factor of the
    record; NaN where a ratio is missing.
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
        whole[known] *= _factors(np.log(whole[known]))[:, None]
    return dict(zip(group, whole.T, strict=True))


def _factors(logs: Column) -> Column:
    """(n,) by what records (n, U) in lowest terms are to be multiplied: a common divisor, or a power of ten and one.

    A factor moves all columns of a record alike, and columns by themselves do not: how far a record lies from the
    medians, weighed by how much each column varies, is its logarithm and an error. That of most records is 0. How often
    there is each factor follows from all records (expectation and maximisation).
    """
    apart = np.eye(logs.shape[1])[1:] - np.eye(logs.shape[1])[0]  # ratios to the first column, which no factor moves
    told = apart @ logs.T
    weights = 1 / variances(apart, told - told.mean(axis=1, keepdims=True))
    moved = (np.median(logs, axis=0) - logs) @ weights / weights.sum()
    moved -= np.median(moved)
    away = moved[:, None] - np.log(FACTORS)
    error, shares = float(1 / np.sqrt(weights.sum())), np.where(FACTORS == 1, 1.0, RARE)
    parts = away
    for _ in range(ROUNDS):
        parts = shares * (np.exp(-((away / error) ** 2) / 2) + np.finfo(np.float64).tiny)
        parts /= parts.sum(axis=1, keepdims=True)
        shares = parts.sum(axis=0)
        error = max(float(np.sqrt((parts * away**2).sum() / len(away))), LEAST_ERROR)
    return np.asarray(FACTORS[parts.argmax(axis=1)])
