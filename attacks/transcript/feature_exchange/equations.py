"""What is known of unknown columns as linear equations, and which columns they determine.

Sums and differences are equations of columns and masks; products and quotients are equations of their logarithms. An
equation holds for every record alike, so one small matrix says which unknowns follow: those whose unit vector lies in
its row space. A value that was opened from a ciphertext is off by `noise`, one standard deviation, and any other by
what float64 rounds away; both are carried on to what follows: a small column under a large mask loses its digits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.float64]
Unknown = tuple[str, ...]  # ("column", device, feature), or a mask
LOST = 1e-6  # of a value, or of its column's `spread`: what is off by more is not known exactly
FEW = 8  # one value in so many that is apart from all others tells nothing of how far these are
FAINT = 1e-5  # of their distance, what then counts: with `LOST` the rounding of float64 sums
WHOLE = 1e-9  # how far a weight may be from a whole number
ROUNDING = 1e-9  # of a row: what is left of one that others span
EPS = 8 * float(np.finfo(np.float64).eps)  # of a value: it, its logarithm and its weight were rounded, each a few times


@dataclass(frozen=True)
class Equation:
    """Coefficients of 1 and -1 of some unknowns, and the value (n,) that they add up to, or multiply to; `noise` is a
    number, or one for each record.
    """

    of: Mapping[Unknown, int]
    value: Column
    evidence: tuple[int, ...] = ()
    noise: Column | float = 0.0

    @property
    def error(self) -> Column:
        """(n,) its noise, and the rounding of what was computed to it."""
        return np.asarray(np.hypot(self.noise, EPS * np.abs(self.value)), np.float64)


@dataclass(frozen=True)
class Solved:
    """A column that follows; of products where `signed` is not set, up to the sign of each record."""

    values: Column
    evidence: tuple[int, ...]
    signed: bool = True
    noise: Column | float = 0.0

    @property
    def precise(self) -> bool:
        """Whether every value is right to a millionth, of itself or of the column's spread, at five deviations."""
        return bool(self.exact[np.isfinite(self.values)].all())

    @property
    def exact(self) -> NDArray[np.bool_]:
        """(n,) the values that are right to that."""
        off = 5 * np.broadcast_to(self.noise, self.values.shape)
        return np.asarray(np.isfinite(self.values) & (off <= LOST * sizes(self.values, off)))

    @property
    def whole(self) -> bool:
        """Whether no value is open."""
        return bool(np.isfinite(self.values).all())

    def filled(self, other: "Solved") -> "Solved":
        """The same with the values that are open here and exact in another."""
        taken = ~np.isfinite(self.values) & other.exact
        if not taken.any():
            return self
        values, noise = (np.where(taken, b, a) for a, b in ((self.values, other.values), (self.noise, other.noise)))
        return Solved(values, tuple(sorted({*self.evidence, *other.evidence})), self.signed, noise)


def sizes(values: Column, off: Column | float = 0.0) -> Column:
    """(n,) of each value that may be `off` its own magnitude, or the column's `spread` where that is more."""
    known = np.isfinite(values)
    off = np.broadcast_to(off, values.shape)[known]
    return np.asarray(np.maximum(np.abs(values), spread(values[known], off)))


def spread(values: Column, off: Column | float = 0.0) -> float:
    """The deviation of a column, or how far values typically are from its median where that is less: one number far out
    makes a deviation in which all others are alike. Values within what they are `off` by are no distance from it; where
    nearly all of them are, they may be alike or not, and only digits of the few others that float64 has count.
    """
    away = np.abs(values - np.median(values)) if len(values) else values
    apart = away[away > off]
    if not len(apart):
        return 0.0
    unseen = np.any(off) and FEW * len(apart) < len(values)
    return float(min(np.std(values), np.median(apart) * (FAINT if unseen else 1.0)))


def solve_sums(equations: Sequence[Equation]) -> dict[Unknown, Solved]:
    """What sums and differences determine."""
    return {
        u: Solved(_weighted(w, [e.value for e in used]), _evidence(w, used), noise=_spread(w, [e.error for e in used]))
        for u, w, used in _determined(equations)
    }


def solve_products(equations: Sequence[Equation]) -> dict[Unknown, Solved]:
    """What products and quotients determine. A record in which zeros cancel is NaN: it may be anything."""
    found = {}
    for u, weights, used in _determined(equations):
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            magnitude = np.exp(_weighted(weights, [np.log(np.abs(e.value)) for e in used]))
        whole = bool((np.abs(weights - np.round(weights)) < WHOLE).all())
        odd = [e for w, e in zip(weights, used, strict=True) if round(w) % 2]
        signs = np.prod([np.sign(e.value) for e in odd], axis=0) if whole and odd else np.ones_like(magnitude)
        values = np.where(signs == 0, 1.0, signs) * magnitude
        parts = [e.error / np.where(e.value == 0, np.inf, np.abs(e.value)) for e in used]  # a zero is taken for one
        noise = np.where(magnitude > 0, magnitude, 0.0) * _spread(weights, parts)
        found[u] = Solved(values, _evidence(weights, used), whole, noise)
    return found


def _determined(equations: Sequence[Equation]) -> list[tuple[Unknown, Column, list[Equation]]]:
    """Each unknown that follows, with the weights (e,) of independent equations that give it."""
    unknowns = sorted({u for e in equations for u in e.of})
    if not unknowns:
        return []
    matrix = np.array([[e.of.get(u, 0) for u in unknowns] for e in equations], np.float64)  # (E, U)
    independent = _independent(matrix)
    chosen, rows = [equations[k] for k in independent], matrix[independent]
    weights = np.linalg.lstsq(rows.T, np.eye(len(unknowns)), rcond=None)[0].T  # (U, rank)
    reached = np.abs(weights @ rows - np.eye(len(unknowns))).max(1) < 1e-7
    return [(u, weights[k], chosen) for k, u in enumerate(unknowns) if reached[k]]


def _independent(matrix: Column) -> list[int]:
    """Rows that span all rows of (E, U): each that those before it do not. So what comes first is used first."""
    basis = np.zeros((0, matrix.shape[1]))
    chosen = []
    for k, row in enumerate(matrix):
        rest = row - basis.T @ (basis @ row)
        rest -= basis.T @ (basis @ rest)
        if (size := np.linalg.norm(rest)) > ROUNDING:
            basis = np.vstack([basis, rest / size])
            chosen.append(k)
    return chosen


def _weighted(weights: Column, values: Sequence[Column]) -> Column:
    """The weighted sum (n,), of those with a weight only: minus infinity times nothing is nothing."""
    parts = [w * v for w, v in zip(weights, values, strict=True) if abs(w) > WHOLE]
    total: Column = np.sum(parts, axis=0)
    return total


def _spread(weights: Column, noises: Sequence[Column | float]) -> Column | float:
    """The deviation of the weighted sum of independent errors."""
    total = sum((w * np.asarray(n)) ** 2 for w, n in zip(weights, noises, strict=True))
    return np.asarray(np.sqrt(total), np.float64)


def _evidence(weights: Column, used: Sequence[Equation]) -> tuple[int, ...]:
    return tuple(sorted({n for w, e in zip(weights, used, strict=True) if abs(w) > WHOLE for n in e.evidence}))
