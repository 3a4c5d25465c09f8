"""Columns that no equation determines, from the sums and products that they are in.

f1 + f2 follows f1 as far as f2 varies less, whatever else is unknown: of two alike and independent columns the sum has
a correlation of 0.71 with each. Columns are taken to be independent. Then covariances of several sums tell how much
each column varies (least squares; where they do not, alike), and the best linear estimate of a column weighs all sums
by that. Products and quotients are sums of logarithms. The estimate follows the column but for place and scale. A
quotient is zero where its first column is, whatever divides it: there the estimate is zero, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import ColumnClaim
from leakledger.attacks.transcript.feature_exchange.equations import Column, Solved, Unknown
from leakledger.attacks.transcript.feature_exchange.exchanged import PRODUCTS, SUMS, Loop, made_of_unknown
from leakledger.preprocess.views import View

LEAST = 1e-3  # of the largest variance: what least squares leave of one that is none
SMALL = 1e-9  # singular values, and weights, that count as none


class Followed(NamedTuple):
    """An estimate (n,) that follows a column, and the share of its variance that it is expected to explain."""

    values: Column
    share: float
    evidence: tuple[int, ...]


def from_mixtures(view: View, known: Mapping[Unknown, Solved], exchanged: Sequence[Loop]) -> Iterator[ColumnClaim]:
    """A claim for each column of others that is in a result which the observers have, and in no equation's solution."""
    best: dict[Unknown, Followed] = {}
    for hows in (SUMS, PRODUCTS):
        made = made_of_unknown(exchanged, known, hows)
        for u, found in _followed(made, logarithms=hows is PRODUCTS).items():
            if u not in best or best[u].share < found.share:
                best[u] = found
    for (_, device, feature), found in best.items():
        if device not in view.observers:
            yield ColumnClaim(device, feature, found.values, found.evidence, "scaled")


def _followed(made: Sequence[tuple[Loop, Solved]], logarithms: bool) -> dict[Unknown, Followed]:
    """The best linear estimate of each column; of a record whose result is no number, NaN."""
    columns = sorted({u for loop, _ in made for u in (loop.first, loop.second)})
    if not columns:
        return {}
    parts = np.zeros((len(made), len(columns)))
    for k, (loop, _) in enumerate(made):
        parts[k, columns.index(loop.first)] += 1.0
        parts[k, columns.index(loop.second)] += loop.sign
    told, zeros = np.array([s.values for _, s in made]), zeros_of(made)
    beside = np.array([_beside_zero(loop, zeros, told.shape[1]) for loop, _ in made])
    if logarithms:
        least = np.min(np.abs(told), axis=1, where=told != 0, initial=np.inf, keepdims=True)
        told = np.log(np.where(told == 0, least, np.abs(told)))  # a zero is some small number
    usable = np.isfinite(told).all(axis=0)
    if usable.sum() < 2:
        return {}
    told, says = told[:, usable], ~beside[:, usable]
    middle = told.sum(axis=1, where=says, keepdims=True) / np.maximum(says.sum(axis=1, keepdims=True), 1)
    told = np.where(says, told - middle, 0.0)
    spread = np.sqrt(variances(parts, told))
    weights = spread[:, None] * np.linalg.pinv(parts * spread, rcond=SMALL)  # (U, K)
    found = {}
    for i, u in enumerate(columns):
        values = np.full(len(usable), np.nan)
        values[usable] = np.exp(weights[i] @ told) if logarithms else weights[i] @ told
        if u in zeros:
            values[zeros[u]] = 0.0
        evidence = {n for w, (_, s) in zip(weights[i], made, strict=True) if abs(w) > SMALL for n in s.evidence}
        found[u] = Followed(values, float(weights[i] @ parts[:, i]), tuple(sorted(evidence)))
    return found


def zeros_of(made: Sequence[tuple[Loop, Solved]]) -> dict[Unknown, NDArray[np.bool_]]:
    """(n,) of each column that another divides, in which records some such quotient is zero, and so the column."""
    found: dict[Unknown, NDArray[np.bool_]] = {}
    for loop, solved in made:
        if loop.how == "quotient":
            found[loop.first] = found.get(loop.first, False) | (solved.values == 0)
    return found


def _beside_zero(loop: Loop, zeros: Mapping[Unknown, NDArray[np.bool_]], records: int) -> NDArray[np.bool_]:
    """(n,) where a column of the result is known to be zero, so that the result says nothing of the other one."""
    none = np.zeros(records, bool)
    return np.asarray(zeros.get(loop.first, none) | zeros.get(loop.second, none))


def variances(parts: Column, told: Column) -> Column:
    """(U,) how much each column varies, by the covariances of what is told (K, n), of which they explain most."""
    squares = np.mean((parts.T @ told) ** 2, axis=1)  # normal equations: those of all pairs of results do not fit
    found = np.linalg.lstsq((parts.T @ parts) ** 2, squares, rcond=SMALL)[0]
    return np.asarray(np.maximum(found, LEAST * max(found.max(), SMALL)))
