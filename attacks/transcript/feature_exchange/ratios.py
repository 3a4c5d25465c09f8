"""Columns of few digits from their quotients: a fraction in lowest terms is most often numerator and denominator.

No equation determines two columns by their quotient. But 37 / 120 is told to 15 digits, and of all fractions with such
small numbers one alone fits: two whole numbers have no common divisor with the chance 6/pi^2, 61 %, three numbers 83 %.
So the columns that quotients join are known record by record up to one whole factor, for most records 1; beside
decimals up to what makes these whole. An estimate: that a factor moves all columns of a record says how large it is.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import lcm

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import ColumnClaim
from leakledger.attacks.transcript.feature_exchange.equations import Column, Solved, Unknown
from leakledger.attacks.transcript.feature_exchange.exchanged import Loop, made_of_unknown
from leakledger.attacks.transcript.feature_exchange.mixtures import variances, zeros_of
from leakledger.preprocess.views import View

CHANCE = 1e-4  # that a fraction which is taken for a number is near it by chance, at most
LARGEST = 10**6  # denominator that is looked for
MOST = 10**300  # as which a magnitude is told
FEW = 0.9  # of the records must be such fractions: else columns have too many digits
SAMPLE = 200  # records that are looked at first
FACTORS = np.array([digit * ten for ten in (0.01, 0.1, 1.0, 10.0, 100.0) for digit in range(1, 10)])
RARE = 0.01  # how often there is each but 1, to begin with
LEAST_ERROR = 0.05  # of a factor's logarithm
ROUNDS = 30

Ratios = list[Fraction | None]  # of each record; None: no fraction of small numbers
Pair = tuple[Unknown, Unknown]
Tree = dict[Unknown, Pair | None]  # columns, each but the first with a quotient that joins it to one before
Flags = NDArray[np.bool_]


def from_quotients(view: View, known: Mapping[Unknown, Solved], exchanged: Sequence[Loop]) -> Iterator[ColumnClaim]:
    """A claim for each column that no equation determines and that quotients of few digits join to others."""
    loops = made_of_unknown(exchanged, known, ("quotient",))
    made = {(loop.first, loop.second): solved for loop, solved in loops}
    ratios = {pair: found for pair, solved in made.items() if (found := _fractions(solved)) is not None}
    zeros = zeros_of([(loop, solved) for loop, solved in loops if (loop.first, loop.second) in ratios])
    for group in _trees(ratios):
        joined = {pair: found for pair, found in ratios.items() if pair[0] in group}
        evidence = tuple(sorted({e for pair in joined for e in made[pair].evidence}))
        signs = any(r is not None and r < 0 for found in joined.values() for r in found)
        for (_, device, feature), values in _magnitudes(group, joined, zeros).items():
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
    """Whether nearly all are fractions: of those that are not zero, which any column may be."""
    other = [f for f in found if f != 0]
    return sum(f is not None for f in other) >= FEW * len(other) > 0


def _fraction(value: float, near: float) -> Fraction | None:
    if not np.isfinite([value, near]).all() or near > CHANCE:  # a whole number is as near as that to any value
        return None
    found = Fraction(value).limit_denominator(LARGEST if near == 0 else int(min(LARGEST, (CHANCE / near) ** 0.5)))
    return found if abs(found - Fraction(value)) <= near else None


def _trees(pairs: Iterable[Pair]) -> Iterator[Tree]:
    """Of each group of columns that quotients join, how every column follows from one before it."""
    near: dict[Unknown, dict[Unknown, Pair]] = {}
    for first, second in pairs:
        near.setdefault(first, {}).setdefault(second, (first, second))
        near.setdefault(second, {}).setdefault(first, (first, second))
    seen: set[Unknown] = set()
    for start in near:
        tree: Tree = {} if start in seen else {start: None}
        queue = [*tree]
        for u in queue:
            new = {v: pair for v, pair in near[u].items() if v not in tree}
            tree |= new
            queue += new
        seen |= tree.keys()
        if tree:
            yield tree


def _magnitudes(group: Tree, ratios: Mapping[Pair, Ratios], zeros: Mapping[Unknown, Flags]) -> dict[Unknown, Column]:
    """The magnitudes (n,) of each column: 0 where a quotient says so, and else whole numbers without a common divisor,
    times the likeliest factor of the record; NaN where no ratio tells it. A record that zeros part has several factors.
    """
    none = np.zeros(len(next(iter(ratios.values()))), bool)
    usable = np.array([[bool(q) for q in found] for found in ratios.values()])  # (pairs, n)
    usable &= ~np.array([zeros.get(first, none) | zeros.get(second, none) for first, second in ratios])
    ways, way = np.unique(usable, axis=1, return_inverse=True)
    records, terms = [], []
    for k, chosen in enumerate(ways.T):
        for tree in _trees(pair for pair, use in zip(ratios, chosen, strict=True) if use):
            for i in np.flatnonzero(way.ravel() == k).tolist():
                if lowest := _lowest_terms(tree, ratios, i):
                    records.append(i)
                    terms.append([lowest.get(u, np.nan) for u in group])
    values = np.full((len(none), len(group)), np.nan)
    if records:
        whole = np.array(terms)
        whole *= _factors(np.log(whole))[:, None]
        of, which = np.nonzero(np.isfinite(whole))
        values[np.array(records)[of], which] = whole[of, which]
    found = dict(zip(group, values.T, strict=True))
    return {u: np.where(zeros.get(u, none), 0.0, x) for u, x in found.items()}


def _lowest_terms(tree: Tree, ratios: Mapping[Pair, Ratios], record: int) -> dict[Unknown, float]:
    """The magnitudes of a record's columns as whole numbers without a common divisor; none beyond float64."""
    found: dict[Unknown, Fraction] = {}
    for u, pair in tree.items():
        if pair is None:
            found[u] = Fraction(1)
        elif q := ratios[pair][record]:
            found[u] = found[pair[1]] * abs(q) if u == pair[0] else found[pair[0]] / abs(q)
    unit = lcm(*(r.denominator for r in found.values()))
    whole = {u: int(r * unit) for u, r in found.items()}
    return {u: float(x) for u, x in whole.items()} if max(whole.values()) <= MOST else {}


def _factors(logs: Column) -> Column:
    """(n,) by what records (n, U) in lowest terms are to be multiplied: a common divisor, or a power of ten and one.

    A factor moves all columns of a record alike, and columns by themselves do not: how far a record lies from the
    medians, weighed by how much each column varies, is its logarithm and an error. That of most records is 0. How often
    there is each factor follows from all records (expectation and maximisation).
    """
    told, whole = np.isfinite(logs), logs[np.isfinite(logs).all(axis=1)].T
    apart = np.eye(logs.shape[1])[1:] - np.eye(logs.shape[1])[0]  # ratios to the first column, which no factor moves
    ratios = apart @ (whole - whole.mean(axis=1, keepdims=True)) if whole.size else np.zeros((len(apart), 1))
    weights = np.where(told, 1 / variances(apart, ratios), 0.0)  # (n, U)
    below = np.where(told, np.nanmedian(np.where(told.any(axis=0), logs, 0.0), axis=0) - logs, 0.0)
    moved = (weights * below).sum(axis=1) / weights.sum(axis=1)
    moved -= np.median(moved)
    away = moved[:, None] - np.log(FACTORS)
    error, shares = float(1 / np.sqrt(weights.sum(axis=1).max())), np.where(FACTORS == 1, 1.0, RARE)
    parts = away
    for _ in range(ROUNDS):
        parts = shares * (np.exp(-((away / error) ** 2) / 2) + np.finfo(np.float64).tiny)
        parts /= parts.sum(axis=1, keepdims=True)
        shares = parts.sum(axis=0)
        error = max(float(np.sqrt((parts * away**2).sum() / len(away))), LEAST_ERROR)
    return np.asarray(FACTORS[parts.argmax(axis=1)])
