"""The dictionary attack on codes that follow from the text: columns of a party back to values.

A block is inverted in one of three ways, by what the view has of the party's columns:

* 0/1 codes (named one-hot, rolling hash): a value whose columns are all active is held, unless other candidates, of any
  feature that shares the columns, explain them too: then each has an equal part of the score, which is the least that
  it can be, since several may be held. Where no list of all values is public, one that nobody listed may explain the
  columns of a candidate that alone would, as likely as one is in any other column:

      P(held | active) = 1 / (1 + r),    r = (active columns of no candidate + 1/2) / (columns of no candidate + 1).

  Where all rows are behind the columns, an inactive value is certainly not held. Means are how often. Where columns are
  known by their chances, as behind noise on updates, the least of those of a value's columns takes the place of active.
* codes of many numbers (fastText vectors): the party's mean code is the mean of the codes of its rows, so the shares
  are the non-negative solution of a linear system, exact where the candidates' codes are linearly independent.
* one number per value (byte casts): the lowest and the highest code are those of two values. Without a public list of
  values that is certain of short ones only: float64 has one code for long ones that differ behind their sixth byte.

A *number* of an observer's own dictionary is a code as well: where parties share numbers, a party that uses one holds
the observer's value. Where they do not (`uhe`, `local`), numbers of others say nothing here.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.observed.columns import Columns, columns_behind_errors, is_binary, observed_columns, overlapping
from leakledger.attacks.observed.values import (
    byte_cast,
    candidate_values,
    categorical_features,
    public_codes,
)
from leakledger.attacks.transcript.holdings.finding import DOUBT, Finding, guessed
from leakledger.attacks.transcript.holdings.numbers import SHARED_NUMBERS, own_numbers
from leakledger.preprocess.messages import BytesNormAnnounced
from leakledger.preprocess.views import CategoricalBlock, NumericBlock, View

Floats = NDArray[np.float64]
Cast = Callable[[str], float]
Named = tuple[CategoricalBlock, tuple[str, ...], Floats, bool]
"""A block, its candidates and their codes, and whether no other value has one of these codes."""

TOLD_APART = 6  # bytes of a value whose code no other value has: 48 of the 53 bits of a float64
UNSEEN = 0.05  # the most that a value can score of which no batch seen so far had a row
RESIDUAL, LEAST_SHARE = 1e-6, 1e-6


def from_codes(view: View, knowledge: AuxiliaryKnowledge) -> Iterator[Finding]:
    """What the observed columns of each party say of the candidates."""
    if view.public.layout is None:
        return
    candidates = candidate_values(view, knowledge)
    named = [n for b in view.public.layout.categorical if (n := _named(view, b, candidates))]
    casts = announced_casts(view)
    texts = [b for b in view.public.layout.numeric if b.feature in candidates]
    for columns in (*observed_columns(view), *columns_behind_errors(view)):
        groups = overlapping([block for block, *_ in named])
        for blocks in groups.values():
            yield from invert_group(columns, [n for n in named if n[0] in blocks])
        for block in texts:
            yield from _extreme_texts(columns, block, candidates[block.feature], casts)


def _named(view: View, block: CategoricalBlock, candidates: Mapping[str, tuple[str, ...]]) -> Named | None:
    if found := public_codes(view, block, candidates.get(block.feature, ())):
        return block, *found, block.values is not None
    if view.public.encoder.name in SHARED_NUMBERS and (own := own_numbers(view, block)):
        return block, tuple(own.values()), block.plain_codes()[list(own)], True
    return None


def invert_group(columns: Columns, group: Sequence[Named]) -> Iterator[Finding]:
    """The findings of blocks that cover the same columns."""
    block, _, codes, _ = group[0]
    own = slice(block.start, block.start + block.width)
    if all(np.isin(c, (0, 1)).all() and b.width > 1 for b, _, c, _ in group):
        if columns.complete or all(is_binary(b) for b, *_ in group):
            yield from _binary(columns, own, group)
    elif columns.means is not None and len(group) == 1 and block.width >= len(codes):
        yield from _mixture(columns, columns.means[own], group[0])
    elif columns.extremes is not None and block.width == 1:
        yield from _extreme_codes(columns, columns.extremes[:, block.start], group[0])


def _binary(columns: Columns, own: slice, group: Sequence[Named]) -> Iterator[Finding]:
    active = columns.active[own]
    users = np.sum([c.sum(0) for _, _, c, _ in group], axis=0)
    for block, values, codes, listed in group:
        held = ~(codes.astype(bool) & ~active).any(1) & codes.any(1)
        sharing = (codes * users).max(1)
        sure = 1.0 if listed else _if_unlisted(active, users)
        explained = np.where(sharing > 1, 1 / np.maximum(sharing, 1), sure)
        chance = np.where(held, explained, 0.0 if columns.complete else UNSEEN / 2)
        if columns.chances is not None:
            least = np.where(codes.astype(bool), columns.chances[own], 1.0).min(1)
            chance = guessed(np.where(codes.any(1), least * explained, UNSEEN / 2))
        means = None if columns.means is None else (codes * columns.means[own]).sum(1) / np.maximum(codes.sum(1), 1)
        counts = {} if means is None else _counts(values, means, held & (sharing == 1), columns.rows)
        untold = np.zeros(len(values), bool)  # whose column tells nothing, whether or not it is held
        if columns.untold is not None:
            untold = np.asarray((codes.astype(bool) & columns.untold[own]).any(1))
        scores = {v: c for v, c, silent in zip(values, chance.tolist(), untold, strict=True) if not silent}
        yield Finding(columns.party, block.feature, scores, counts, columns.evidence)


def _if_unlisted(active: NDArray[np.bool_], users: Floats) -> float:
    """The chance that an active column is a candidate's, where values that nobody listed activate columns too."""
    others = users == 0
    return float(1 / (1 + (active[others].sum() + 0.5) / (others.sum() + 1)))


def _mixture(columns: Columns, mean: Floats, named: Named) -> Iterator[Finding]:
    """Shares p >= 0 with sum 1 and sum p_v code_v = mean."""
    block, values, codes, _ = named
    system = np.vstack([codes.T, np.full(len(codes), np.abs(codes).max(initial=1.0))])
    wanted = np.append(mean, system[-1, 0])
    if np.linalg.matrix_rank(system) < len(codes):
        return
    share, residual = nnls(system, wanted)
    if residual > RESIDUAL * np.linalg.norm(wanted):
        return
    least = min(LEAST_SHARE, 0.5 / columns.rows) if columns.rows else LEAST_SHARE
    held = share > least
    scores = dict(zip(values, held.astype(float).tolist(), strict=True))
    yield Finding(columns.party, block.feature, scores, _counts(values, share, held, columns.rows), columns.evidence)


def _counts(values: Sequence[str], shares: Floats, held: NDArray[np.bool_], rows: float | None) -> dict[str, float]:
    counts = shares if rows is None else np.round(shares * rows)
    return {v: float(n) for v, n, h in zip(values, counts, held, strict=True) if h}


def _extreme_codes(columns: Columns, extremes: Floats, named: Named) -> Iterator[Finding]:
    block, values, codes, _ = named
    yield from _between(columns, block.feature, extremes, values, codes[:, 0])


def _extreme_texts(
    columns: Columns, block: NumericBlock, candidates: tuple[str, ...], casts: Mapping[str, Cast]
) -> Iterator[Finding]:
    """A byte cast without a public dictionary: the candidates' codes follow from the announced mean and deviation."""
    if columns.extremes is None or block.feature not in casts:
        return
    codes = np.array([casts[block.feature](v) for v in candidates])
    for found in _between(columns, block.feature, columns.extremes[:, block.start], candidates, codes):
        yield replace(found, scores={v: min(s, _most(v)) for v, s in found.scores.items()})


def _most(value: str) -> float:
    """The highest chance of a value whose byte cast was seen."""
    return 1.0 if len(value.encode("utf-8", "surrogatepass")) <= TOLD_APART else 1 - DOUBT


def announced_casts(view: View) -> dict[str, Cast]:
    """Feature -> the code of a value under `bytes-norm`, where mean and deviation are announced."""
    options = view.public.encoder.options
    for m in view.readable(BytesNormAnnounced):
        try:
            means, deviations = m.payload.mean, m.payload.std
            pairs = zip(means.tolist(), np.where(deviations > 0, deviations, 1.0).tolist(), strict=True)
            casts = [partial(byte_cast, options=options, mean=mean, deviation=std) for mean, std in pairs]
            return dict(zip(categorical_features(view), casts, strict=True))
        except (KeyError, TypeError, ValueError):
            return {}
    return {}


def _between(
    columns: Columns, feature: str, extremes: Floats, values: Sequence[str], codes: Floats
) -> Iterator[Finding]:
    """The candidates at the lowest and the highest code are held; those beyond are not."""
    low, high = extremes
    near = np.spacing(np.abs(codes))  # the encoder rounds the same fraction
    beyond = (codes < low - near) | (codes > high + near)
    scores = {v: 0.0 for v, b in zip(values, beyond, strict=True) if b}
    for end in (low, high):
        at = [v for v, close in zip(values, np.abs(codes - end) <= near, strict=True) if close]
        scores.update(dict.fromkeys(at, 1 / max(len(at), 1)))
    if scores:
        yield Finding(columns.party, feature, scores, {}, columns.evidence)
