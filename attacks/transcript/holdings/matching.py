"""Pseudonymous numbers back to values by how often they occur.

Two places show how often a number occurs. A scaler over all columns publishes the share of every one-hot column over
all rows (`CategoricalBlock.shift`), and with `federated-zscore` the server reads each party's own. Under `uhe` a number
is one party's alone, so that with the ends of its range the public shares are that party's; under `local` every party
has the same numbers.

Numbers of one range are in alphabetical order ("Privacy-preserving tabular data transformation", section 2.2), or as
the schema declares, so where a range is known the matching is an increasing injection of its k numbers into the m
candidates in that order. Its posterior is
exact by a forward and a backward pass: with s_(i,v) the likelihood that number i is value v and u_v that v is not held,

    F(i, v) = F(i, v - 1) u_v + F(i - 1, v - 1) s_(i,v)

sums over all matchings of the first i numbers with the first v candidates. Elsewhere the best injection is an
assignment (Kuhn and Munkres), and the confidence of a pair comes from what the best one without it costs more.

Likelihood: shares are compared on the scale arcsin sqrt, on which a share of n rows has variance 1 / (4 n); `DRIFT` is
how much a party's population may differ from the marginals beside that. A value of share pi is not held with chance
(1 - pi)^n. Marginals are granted, else the observers' own rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp

from leakledger.attacks.observed.columns import Columns, observed_columns
from leakledger.attacks.observed.values import numbering
from leakledger.attacks.transcript.holdings.finding import Finding, guessed
from leakledger.attacks.transcript.holdings.numbers import known_ranges
from leakledger.preprocess.messages import RingHighest, RingMaximum
from leakledger.preprocess.views import CategoricalBlock, View

Floats = NDArray[np.float64]

DRIFT, ROWS, LEAST = 0.05, 1000.0, 1e-12
NUMBERED_ALONE = ("uhe", "local")  # no two parties' values share a number's meaning


@dataclass(frozen=True)
class Ranged:
    """The numbers that one party uses of a block: their shares of its rows (k,), and the messages that tell."""

    party: str
    shares: Floats = field(repr=False)
    rows: float
    ordered: bool
    evidence: frozenset[int]


def from_frequencies(view: View, marginals: Mapping[str, Mapping[str, float]]) -> Iterator[Finding]:
    """Matches the numbers of every pseudonymous block with the values of its feature."""
    blocks = view.public.layout.categorical if view.public.layout else ()
    unnamed = [b for b in blocks if b.values is None and b.codes is None and marginals.get(b.feature)]
    if not unnamed or view.public.encoder.name not in {*NUMBERED_ALONE, "dh-psi", "apsi", "otmp-psi"}:
        return
    observed = [c for c in observed_columns(view) if c.means is not None]
    ranges = known_ranges(view)
    for block in unnamed:
        for found in _ranged(view, block, observed, ranges):
            values, chances = _in_order(view, block.feature, marginals[block.feature])
            if 0 < len(found.shares) <= len(values):
                match = ordered_matching if found.ordered else free_matching
                pairs = match(log_likelihood(found, chances), log_absent(found, chances))
                scores = guessed(pairs.sum(0))
                counts = dict(zip(values, (pairs * found.shares[:, None] * found.rows).sum(0).tolist(), strict=True))
                named = dict(zip(values, scores.tolist(), strict=True))
                yield Finding(found.party, block.feature, named, counts, found.evidence)


def _ranged(
    view: View,
    block: CategoricalBlock,
    observed: Sequence[Columns],
    ranges: Mapping[str, Mapping[str, tuple[int, int]]],
) -> Iterator[Ranged]:
    """The shares of a party's numbers: its own means where they are seen, else public shares within its range."""
    alone = view.public.encoder.name in NUMBERED_ALONE
    seen = set()
    for columns in observed:
        assert columns.means is not None
        shares = columns.means[block.start : block.start + block.size]
        seen.add(columns.party)
        yield Ranged(columns.party, shares[shares > 0], columns.rows or ROWS, alone, columns.evidence)
    if block.shift is None or view.public.encoder.name != "uhe":
        return
    for party in view.public.clients:
        if party in view.observers or party in seen or block.feature not in ranges.get(party, {}):
            continue
        first, end = ranges[party][block.feature]
        shares = np.asarray(block.shift)[first:end]
        shares = shares[shares > LEAST]
        if len(shares):
            evidence = frozenset(m.sequence for m in view.messages if m.kind in (RingHighest, RingMaximum))
            yield Ranged(party, shares / shares.sum(), ROWS, True, evidence)


def _in_order(view: View, feature: str, marginal: Mapping[str, float]) -> tuple[list[str], Floats]:
    values = numbering(view, feature, marginal)
    return values, np.clip(np.array([marginal[v] for v in values]), LEAST, 1 - LEAST)


def log_likelihood(found: Ranged, chances: Floats) -> Floats:
    """(k, m) of each number's share under each value's."""
    deviation = np.sqrt(1 / (4 * max(found.rows, 1.0)) + DRIFT**2)
    gap = np.arcsin(np.sqrt(np.clip(found.shares, 0, 1)))[:, None] - np.arcsin(np.sqrt(chances))
    result: Floats = -((gap / deviation) ** 2) / 2
    return result


def log_absent(found: Ranged, chances: Floats) -> Floats:
    """(m,) that no row has the value; less certain than independent rows make it, since populations differ."""
    result: Floats = np.maximum(found.rows * np.log1p(-chances), -0.5 * (np.arcsin(np.sqrt(chances)) / DRIFT) ** 2 - 1)
    return result


def ordered_matching(likelihood: Floats, absent: Floats) -> Floats:
    """(k, m) the chance that number i is value v, over all increasing injections."""
    forward = _pass(likelihood, absent)
    backward = _pass(likelihood[::-1, ::-1], absent[::-1])[::-1, ::-1]
    joint = forward[:-1, :-1] + likelihood + backward[1:, 1:]
    chances: Floats = np.exp(joint - forward[-1, -1])
    return chances


def _pass(likelihood: Floats, absent: Floats) -> Floats:
    """(k + 1, m + 1) log F."""
    k, m = likelihood.shape
    total = np.full((k + 1, m + 1), -np.inf)
    total[0, 0] = 0.0
    for v in range(m):
        total[:, v + 1] = total[:, v] + absent[v]
        total[1:, v + 1] = np.logaddexp(total[1:, v + 1], total[:-1, v] + likelihood[:, v])
    return total


def free_matching(likelihood: Floats, absent: Floats) -> Floats:
    """(k, m) the best injection, each of its pairs with its confidence, the rest of a row on the runner-up."""
    gain = likelihood - absent
    rows, columns = linear_sum_assignment(-gain)
    best = gain[rows, columns].sum()
    chance = np.zeros_like(gain)
    for i, v in zip(rows, columns, strict=True):
        without = gain.copy()
        without[i, v] = gain.min() - 1e3
        other_rows, others = linear_sum_assignment(-without)
        sure = float(np.exp(-logsumexp([0.0, without[other_rows, others].sum() - best])))
        chance[i, v] += sure
        chance[i, others[i]] += 1 - sure
    return chance
