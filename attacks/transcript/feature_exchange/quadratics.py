"""Columns from their products beside their sums or differences: a quadratic equation for each record.

Of a pair, x + c or x - c makes the other column a line in c, and the product a quadratic in c. Two pairs that share c
have that root in common, and their squares cancel: c follows by a division, exactly. One pair alone leaves two roots.
Behind a difference these are two numbers from zero on or two up to zero, unless the product is negative; where none is,
both columns are taken to be of numbers from zero on: an estimate. Behind a sum the same two numbers are left for either
column, so that whose is which is open, record by record, and nothing is claimed of it.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import ColumnClaim
from leakledger.attacks.transcript.feature_exchange.equations import EPS, LOST, Column, Solved, Unknown, sizes
from leakledger.preprocess.views import View

MOST = 0.8  # of the records must be told
WELL = 0.05  # of how far values typically are from their median: what a value is off by that is no estimate any more

Results = Mapping[tuple[Unknown, Unknown], Mapping[str, Solved]]  # pair -> transformation -> T(f1, f2)


class Quadratic(NamedTuple):
    """`line` c + `turn` c^2 = `product`, where line + turn c is the other column of the pair."""

    line: Solved
    turn: int  # 1 or -1
    product: Solved


def common_roots(results: Results) -> dict[Unknown, Solved]:
    """The columns that two pairs share of which sum or difference and the product are known; NaN where both pairs say
    the same of a record, or all but the same. Of columns for which that is so of many records there is none.
    """
    found: dict[Unknown, Solved] = {}
    for u, known in _quadratics(results).items():
        for a, b in combinations(known, 2):
            root = _common_root(a, b)
            if np.isfinite(root.values).mean() < MOST:
                continue  # a column of few records says less than what its results follow
            if u not in found or np.isfinite(root.values).sum() > np.isfinite(found[u].values).sum():
                found[u] = root
    return found


def from_differences(view: View, known: Mapping[Unknown, Solved], results: Results) -> Iterator[ColumnClaim]:
    """A claim for each column of a pair of which difference and product are known, where no product is negative."""
    for pair, told in results.items():
        if {*pair} & known.keys() or not {"difference", "product"} <= told.keys():
            continue
        difference, product = told["difference"], told["product"]
        least = 5 * _error(product)
        if (product.values < -least).any() or not (product.values > least).any():
            continue  # columns of either sign: no root is likelier than the other
        of_both = np.maximum(product.values, 0.0)
        larger = (np.hypot(difference.values, 2 * np.sqrt(of_both)) + np.abs(difference.values)) / 2
        smaller = of_both / np.where(larger > 0, larger, 1.0)  # a difference of both would lose its digits
        swapped = difference.values < 0
        columns = np.where(swapped, smaller, larger), np.where(swapped, larger, smaller)
        evidence = tuple(sorted({*difference.evidence, *product.evidence}))
        for (_, device, feature), values in zip(pair, columns, strict=True):
            if device not in view.observers:
                yield ColumnClaim(device, feature, values, evidence, "estimate")


def _quadratics(results: Results) -> dict[Unknown, list[Quadratic]]:
    """By column what each pair says of it that it is in."""
    found: dict[Unknown, list[Quadratic]] = {}
    for (first, second), told in results.items():
        if "product" not in told:
            continue
        for how in ("sum", "difference"):
            if how in told:
                made, sign = told[how], -1 if how == "sum" else 1
                opposite = made if how == "sum" else Solved(-made.values, made.evidence, noise=made.noise)
                found.setdefault(second, []).append(Quadratic(made, sign, told["product"]))
                found.setdefault(first, []).append(Quadratic(opposite, sign, told["product"]))
    return found


def _common_root(a: Quadratic, b: Quadratic) -> Solved:
    """The root of both: what is left once their squares cancel."""
    turned = a.turn * b.turn
    with np.errstate(divide="ignore", invalid="ignore"):
        divisor = a.line.values - turned * b.line.values
        values = (a.product.values - turned * b.product.values) / divisor
        off = np.hypot(_error(a.product, b.product), values * _error(a.line, b.line)) / np.abs(divisor)
    off[np.abs(divisor) <= 5 * _error(a.line, b.line)] = np.inf  # it may be zero, whatever 0 divided by it is
    kept = _kept(values, off)
    evidence = tuple(sorted({n for s in (a.line, a.product, b.line, b.product) for n in s.evidence}))
    return Solved(np.where(kept, values, np.nan), evidence, noise=np.where(kept, off, 0.0))


def _kept(values: Column, off: Column) -> NDArray[np.bool_]:
    """(n,) the records that are told exactly, if these are most; else those that are told well, as behind the noise of
    ciphertexts.
    """
    told = np.isfinite(values) & np.isfinite(off)
    exact, well = told.copy(), told.copy()
    exact[told] = 5 * off[told] <= LOST * sizes(values[told], off[told])
    away = np.abs(values[told] - np.median(values[told])) if told.any() else np.zeros(0)
    well[told] = 5 * off[told] <= WELL * np.median(away) if told.any() else False
    return exact if exact.mean() >= MOST else well


def _error(*told: Solved) -> Column:
    """(n,) the deviation of a sum or difference of these, rounding included."""
    squares = [np.hypot(s.noise, EPS * np.abs(s.values)) ** 2 for s in told]
    return np.asarray(np.sqrt(np.sum(squares, axis=0)), np.float64)
